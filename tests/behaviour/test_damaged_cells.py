"""Cells that somebody edited: what reads them says `Corrupt`, and the rest stays readable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import JSON, DateTime, Integer, LargeBinary
from sqlalchemy.exc import DBAPIError

import memalchemy
from memalchemy import Checkpointer, Corrupt, Database, MemalchemyError, Store, ThreadLog
from memalchemy.schema import Base
from memalchemy.store.jsonl import export_items
from memalchemy.verify import verify
from rows import copy_logs, logs_of, of_thread, without_checks
from waiting import A_WHILE

SPACE = ("users", "ada")
MANY_DIGITS = "9" * 5000

LAWLESS: dict[str, str] = {
    # SQLite stores anything in any column.
    "a whole number": "4000000000",
    "a small one": "3",
    "one below zero": "-1",
    "the largest": "9223372036854775807",
    "the smallest": "-9223372036854775808",
    "a fraction": "1.5",
    "infinity": "9e999",
    "a text": "'zebra'",
    "no text": "''",
    "bytes": "x'ff00fe'",
    "no bytes": "x''",
    "text that is not UTF-8": "CAST(x'fffe' AS TEXT)",
    "a zero character": "CAST(x'6100' AS TEXT)",
    "an array": "'[1]'",
    "half an object": "'{'",
    "NaN in an object": """'{"a": NaN}'""",
    "a long number": f"""'{{"a": {MANY_DIGITS}}}'""",
    "deep nesting": "'" + "[" * 100_000 + "'",
    "the last moment": "253402300799999999",
    "a moment after the last": "253402300800000000",
    "the first moment": "-62135596800000000",
    "a moment before the first": "-62135596800000001",
    "a time as a text": "'2026-01-31 00:00:00.000000'",
    "an escape of nothing": "'\x1bu{ffffffff}'",
}


def lawful(column: Any) -> dict[str, str]:
    """What a server with types stores in a column all the same."""
    kind = column.type.impl_instance if hasattr(column.type, "impl_instance") else column.type
    if isinstance(kind, Integer):
        most = {"SMALLINT": 2**15, "INTEGER": 2**31}.get(str(kind), 2**63)
        return {"zero": "0", "below zero": "-1", "most": str(most - 1), "least": str(-most)}
    if isinstance(kind, LargeBinary):
        return {"bytes": r"'\xff00fe'::bytea", "no bytes": "''::bytea"}
    if isinstance(kind, DateTime):
        return {
            "a year beyond": "'99999-01-01 00:00:00+00'",
            "before Christ": "'0001-01-01 00:00:00+00 BC'",
            "infinity": "'infinity'",
            "minus infinity": "'-infinity'",
        }
    if isinstance(kind, JSON):
        return {
            "an array": "'[1]'",
            "a number": "'1'",
            "a long number": f"""'{{"a": {MANY_DIGITS}}}'""",
            "a high number": """'{"a": 1e400}'""",
        }
    return {"a text": "'zebra'", "no text": "''", "an escape of nothing": "'\x1bu{ffffffff}'"}


async def fill(db: Database) -> None:
    """A row in every table, and a neighbour for each."""
    for thread in ("t", "neighbour"):
        agent = Checkpointer(db)
        for number in range(5):  # the last is built on the first, past those that a test damages
            state = {"messages": [f"word {n}" for n in range(number + 20)]}
            await agent.save(state, thread, f"c{number}", {"n": number}, run_id="r")
        await agent.put_writes([("channel", 1)], thread, "c2", "task")
        await ThreadLog(db).append(thread, ["word one", "two"], keys=["a", "b"])
    store = Store(db)
    for key in ("k", "neighbour"):
        value = {"text": f"word {key}"}
        await store.put(SPACE, key, value, {"m": 1}, embedding=[1.0, 2.0], ttl=3600)


async def listed(found: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in found]


READS: dict[str, Callable[[Database], Any]] = {
    "load": lambda db: Checkpointer(db).load("t"),
    "load one": lambda db: Checkpointer(db).load("t", "c1"),
    "exists": lambda db: Checkpointer(db).exists("t"),
    "metadata": lambda db: Checkpointer(db).get_metadata("t"),
    "list_checkpoints": lambda db: Checkpointer(db).list_checkpoints("t"),
    "history": lambda db: listed(Checkpointer(db).history("t")),
    "history below": lambda db: listed(Checkpointer(db).history("t", below=True, order="id")),
    "diff": lambda db: Checkpointer(db).diff("t", "c0", "c2"),
    "snapshot": lambda db: Checkpointer(db).snapshot("t"),
    "snapshots": lambda db: listed(Checkpointer(db).snapshots("t", ["c0", "c2"])),
    "writes": lambda db: Checkpointer(db).get_writes("t", "c2"),
    "threads": lambda db: Checkpointer(db).list_threads(),
    "count": lambda db: Checkpointer(db).count_threads(),
    "with metadata": lambda db: Checkpointer(db).list_with_metadata(),
    "logs": lambda db: Checkpointer(db).list_logs(below=True),
    "by metadata": lambda db: Checkpointer(db).query_by_metadata("n", 1),
    "search": lambda db: Checkpointer(db).search("word"),
    "stats": lambda db: Checkpointer(db).get_storage_stats("t"),
    "runs": lambda db: Checkpointer(db).find_runs(["r"]),
    "export": lambda db: listed(Checkpointer(db).export(thread_id="t")),
    "export all": lambda db: listed(Checkpointer(db).export(tenant=db.tenant)),
    "prune, dry": lambda db: Checkpointer(db).prune(keep_last=1, dry_run=True),
    "vacuum, dry": lambda db: Checkpointer(db).vacuum(0, dry_run=True),
    "entries": lambda db: ThreadLog(db).range("t"),
    "tail": lambda db: ThreadLog(db).tail("t", 5),
    "reading": lambda db: ThreadLog(db).read("t"),
    "version": lambda db: ThreadLog(db).version("t"),
    "last written": lambda db: ThreadLog(db).last_written(["t"]),
    "several threads": lambda db: ThreadLog(db).read_threads(["t", "neighbour"]),
}

ITEM_READS: dict[str, Callable[[Database], Any]] = {
    "get": lambda db: Store(db).get(SPACE, "k"),
    "get, prolonging": lambda db: Store(db).get(SPACE, "k", refresh=True),
    "item": lambda db: Store(db).get_item(SPACE, "k"),
    "items": lambda db: Store(db).get_items([(SPACE, "k"), (SPACE, "neighbour")], refresh=True),
    "list items": lambda db: Store(db).list_items(SPACE),
    "items by key": lambda db: Store(db).list_items((), prefix=True, order="key"),
    "filtered": lambda db: Store(db).search(SPACE, filter={"text": "word k"}),
    "found": lambda db: Store(db).search(SPACE, "word"),
    "near": lambda db: Store(db).search_by_embedding(SPACE, [1.0, 2.0]),
    "both": lambda db: Store(db).search(SPACE, "word", mode="hybrid", embedding=[1.0, 2.0]),
    "embedding": lambda db: Store(db).get_embedding(SPACE, "k"),
    "namespaces": lambda db: Store(db).list_namespaces(),
    "export items": lambda db: listed(export_items(Store(db), SPACE, vectors=True)),
}

TABLES = ("threads", "checkpoints", "deltas", "store_items", "embeddings")
COLUMNS = [
    (table.name, column.name)
    for table in Base.metadata.sorted_tables
    if table.name in TABLES
    for column in table.columns
    if column.name != "tenant"  # then it is another's
]
OF_ITEMS = ("store_items", "embeddings")


def edit(table: str, column: str, literal: str, tenant: str) -> Callable[[Any], bool]:
    """Gives a cell of the rows of the test another content; of one row, if all cannot have it.

    On SQLite whatever the table's CHECKs say: they are those of who writes, and can be left out.
    """
    name = "key = 'k'" if table in OF_ITEMS else of_thread("t")
    where = f"tenant = '{tenant}' AND {name}"
    number = "log_id" if table == "threads" else "rowid"
    first = f"{where} AND {number} = (SELECT min({number}) FROM {table} WHERE {where})"

    def work(connection: Any) -> bool:
        if connection.dialect.name != "sqlite":
            return change(connection, where)
        with without_checks(connection, table):
            return change(connection, where) or change(connection, first)

    def change(connection: Any, target: str) -> bool:
        statement = f"UPDATE {table} SET {column} = {literal} WHERE {target}"
        try:
            with connection.begin_nested():
                return bool(connection.exec_driver_sql(statement.replace("%", "%%")).rowcount)
        except DBAPIError:
            return False  # the database does not take it

    return work


def copied(connection: Any, db: Database, to: Database) -> bool:
    """Gives a tenant all rows of another."""
    logs = logs_of(connection, db.tenant)
    copy_logs(connection, ((log, log._replace(tenant=to.tenant)) for log in logs))
    for table in Base.metadata.sorted_tables:
        if table.name in OF_ITEMS:
            names = ", ".join(column.name for column in table.columns if column.name != "tenant")
            connection.exec_driver_sql(
                f"INSERT INTO {table.name} (tenant, {names}) SELECT '{to.tenant}', {names} "
                f"FROM {table.name} WHERE tenant = '{db.tenant}'"
            )
    return True


async def edited(db: Database, table: str, column: str) -> AsyncIterator[tuple[str, Database]]:
    """Each edit of a cell that the database takes, with a tenant in which it was made."""
    of = Base.metadata.tables[table].columns[column]
    values = LAWLESS if db.dialect.single_writer else lawful(of)
    await fill(db)
    for number, (name, literal) in enumerate(values.items()):
        tenant = db.for_tenant(f"{db.tenant}-{number}")
        change = edit(table, column, literal, tenant.tenant)
        if await db.run_sync(lambda c, to=tenant, do=change: copied(c, db, to) and do(c)):
            Checkpointer(db)._cache.drop_tenant(tenant.tenant)
            yield name, tenant


@pytest.fixture(autouse=True)
def not_as_oracle(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--strict-oracle"):
        pytest.skip("Oracle stores none of these cells, and its functions are not made for them")


@pytest.fixture
async def alone(db: Database, database: str, tmp_path: Path) -> AsyncIterator[Database]:
    """A database whose file has nothing else: `verify` looks through the whole of it."""
    if database != "sqlite":
        yield db
        return
    async with Database(f"sqlite:///{tmp_path}/agent.db", tenant=db.tenant) as own:
        yield own


@pytest.mark.usefixtures("lasting")  # in memory it is the same SQLite
@pytest.mark.unwalled_only("it copies the rows of one tenant to others")
@pytest.mark.asyncio_only("the rows are read by the same code")
@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=lambda name: str(name))
async def test_no_cell_makes_a_read_raise_anything_but_our_own(
    alone: Database, table: str, column: str
) -> None:
    wrong: list[str] = []
    async for name, tenant in edited(alone, table, column):
        for read_name, read in (ITEM_READS if table in OF_ITEMS else READS).items():
            try:
                async with asyncio.timeout(A_WHILE):
                    await read(tenant)
            except MemalchemyError:
                pass
            except Exception as error:  # noqa: BLE001 - what it is is the question
                wrong.append(f"{name}, {read_name}: {type(error).__name__}: {error}"[:200])
        try:
            await verify(tenant)
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{name}, verify: {type(error).__name__}: {error}"[:200])
    assert not wrong, "\n".join(wrong)


async def break_cells(db: Database, *cells: tuple[str, str, str]) -> None:
    """Set columns of tables to literals, where a condition holds."""
    for table, assignment, where in cells:
        statement = f"UPDATE {table} SET {assignment} WHERE tenant = '{db.tenant}' AND {where}"
        assert await db.run_sync(lambda c, s=statement: c.exec_driver_sql(s).rowcount)
    Checkpointer(db)._cache.drop_tenant(db.tenant)


LAWLESS_ONLY = [
    ("threads", "next_seq = 'x'", "thread_id = 't' AND namespace = '/'"),
    ("threads", "created_at = 'never'", "thread_id = 't' AND namespace = '/'"),
    ("checkpoints", "meta = '[1]'", f"{of_thread('t')} AND checkpoint_id = 'c1'"),
    ("checkpoints", "raw_size = x'00'", f"{of_thread('t')} AND checkpoint_id = 'c1'"),
    ("deltas", "payload = 4000000000", f"{of_thread('t')} AND seq = 2"),
    ("deltas", "checksum = 'x'", f"{of_thread('t')} AND seq = 2"),
    ("store_items", "meta = '[1]'", "key = 'k'"),
    ("store_items", "value = 4000000000", "key = 'k'"),
    ("store_items", "search_text = CAST(x'fffe' AS TEXT)", "key = 'k'"),
    ("store_items", "updated_at = 'never'", "key = 'k'"),
]


@pytest.mark.parametrize("cell", LAWLESS_ONLY, ids=lambda cell: f"{cell[0]}, {cell[1]}")
async def test_verify_names_a_bad_cell_and_goes_on_to_the_others(
    own_url: str, cell: tuple[str, str, str]
) -> None:
    assignment = cell[1]
    async with Database(own_url) as db:
        await fill(db)
        await break_cells(db, cell)
        # What stands behind it in every order, and is found all the same.
        await break_cells(
            db,
            ("deltas", "checksum = 1", f"{of_thread('t', '/')} AND seq = 5"),
            ("deltas", "checksum = 1", of_thread("neighbour", "/log/")),
            ("store_items", "checksum = 1", "key = 'neighbour'"),
        )

        findings = (await verify(db)).findings

    column = assignment.split()[0]
    codes = {"unreadable", "metadata", "codec", "text-index"}
    where = ("k", "t", None)
    named = [
        finding
        for finding in findings
        if finding.code in codes and (finding.key or finding.thread_id) in where
    ]
    assert [f for f in named if column in f.sentence or f.code == "metadata"], findings
    found = {(f.code, f.key or f.thread_id, f.namespace) for f in findings}
    assert ("payload", "neighbour", "/users/ada/") in found
    assert ("payload", "neighbour", "/log/") in found
    assert "t" in {f.thread_id for f in findings if f.seq == 5}


@pytest.mark.parametrize("cell", LAWLESS_ONLY, ids=lambda cell: f"{cell[0]}, {cell[1]}")
async def test_the_neighbours_of_a_bad_cell_are_read_as_ever(
    own_url: str, cell: tuple[str, str, str]
) -> None:
    async with Database(own_url) as db:
        await fill(db)
        await break_cells(db, cell)

        assert (await Checkpointer(db).load("neighbour"))["messages"][-1] == "word 23"
        assert [entry.value for entry in await ThreadLog(db).range("neighbour")] == [
            "word one",
            "two",
        ]
        assert await Store(db).get(SPACE, "neighbour") == {"text": "word neighbour"}
        if cell[0] != "threads":
            assert (await Checkpointer(db).load("t", "c0"))["messages"][-1] == "word 19"


async def test_a_bad_cell_is_named_with_its_row_and_not_with_what_it_holds(own_url: str) -> None:
    async with Database(own_url) as db:
        await fill(db)
        await break_cells(db, ("deltas", "payload = 'a secret'", f"{of_thread('t')} AND seq = 1"))
        await break_cells(db, ("store_items", "meta = '{\"secret'", "key = 'k'"))

        with pytest.raises(Corrupt, match=r"payload is not what it should be: str of 8") as state:
            await Checkpointer(db).load("t")
        with pytest.raises(Corrupt, match=r"key 'k'.*meta is not what it should be") as item:
            await Store(db).list_items(SPACE)

    assert "secret" not in f"{state.value} {item.value}"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda db: Checkpointer(db).search(1), "query"),
        (lambda db: ThreadLog(db).search(1), "query"),
        (lambda db: Store(db).search(SPACE, 1), "query"),
        (lambda db: ThreadLog(db).range("t", since="x"), "since"),
        (lambda db: ThreadLog(db).range("t", until=1), "until"),
        (lambda db: memalchemy.EpisodeStore(db).write("x"), "Episode"),
        (lambda db: memalchemy.EpisodeStore(db).update(None), "Episode"),
        (lambda db: memalchemy.UserMemoryStore(db).add("x"), "MemoryFact"),
    ],
)
async def test_an_argument_of_another_type_is_a_type_error_that_says_what_is_expected(
    db: Database, call: Any, expected: str
) -> None:
    with pytest.raises(TypeError, match=expected):
        await call(db)

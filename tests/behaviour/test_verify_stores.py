"""`verify` reads stores: values, words, vectors, counters, and the index that finds them."""

from __future__ import annotations

import asyncio
import json
import math
import random
import shlex
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, bindparam, delete, text, update

from lifetimes import MOMENT
from memalchemy import Checkpointer, Corrupt, Database, Store
from memalchemy.database import MAINTENANCE
from memalchemy.keys import parse_namespace
from memalchemy.schema import EmbeddingRow, StoreItemRow
from memalchemy.statements import Program
from memalchemy.verify import Finding, Report, verify
from rows import beside_checks, without_checks

NOTES = ("notes", "it's \\ odd")
PATH = "/notes/it's \\ odd/"
LENGTH = 12


@pytest.fixture
async def alone(database_url: str) -> AsyncIterator[Database]:
    """A database of the test's own, that it may damage."""
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        yield db


@pytest.fixture
async def store(alone: Database) -> Store:
    """Twelve items, each with a word and a vector of its own, and some that are odd."""
    store = Store(alone)
    for n in range(LENGTH):
        value = {"text": f"parcel{n} was lost {'again and ' * 40 * n}", "n": n}
        meta = {"who": "ada", "at": {"place": n}, "aa": 1.5, "z": ["tag"], "b": 1e23, "c": 1e17 / 7}
        await store.put(NOTES, f"k{n:02d}", value, meta, embedding=[1.0, float(n)])
    return store


@pytest.fixture
async def odd(store: Store) -> Store:
    """And what else a store may hold."""
    await store.put((), "", None)
    await store.put(NOTES, "\ud800", {"": [float("nan"), {"a": (1, b"x")}]}, {"": "", "/": None})
    await store.put(("x" * 100, "y" * 150, "z" * 150), "long", "w " * 70_000, embedding=[1.0] * 700)
    await store.put(("many",), "fields", {f"f{n}": n for n in range(100)}, {"who": "eve"})
    await store.put(("cjk",), "日本", {"t": "日本語の長い文章" * 60, "u": "Ünï Straße ﬁn " * 30})
    await store.put(("gone",), "soon", "expired", ttl=MOMENT)
    await Store(store.db, index_text=False, index_metadata=["who"]).put(
        ("some",), "named", {"a": 1}, {"who": "ada"}
    )
    await store.put(NOTES, "k00", "replaced", {"who": "ada"})
    await store.put(NOTES, "k00", "replaced", {"who": "ada"}, embedding={"a": [[1, 2], [2, 3]]})
    await store.delete(NOTES, "k01")
    return store


def only(report: Report) -> Finding:
    (finding,) = report.findings
    assert not report.ok
    assert finding.severity == "error"
    return finding


def about(report: Report) -> tuple[str, str | None, str | None]:
    finding = only(report)
    return finding.code, finding.namespace, finding.key


async def change(db: Database, statement: Any, *, checked: bool = True) -> None:
    """Change an item; unless *checked*, as no CHECK would let it be."""

    def work(connection: Connection) -> int:
        with nullcontext() if checked else without_checks(connection, "store_items"):
            return connection.execute(statement).rowcount

    assert await db.run_sync(work) == 1


def at(key: str, **values: Any) -> Any:
    return update(StoreItemRow).where(StoreItemRow.key == key).values(values)


async def test_all_that_a_store_may_hold_leaves_nothing_to_find(
    alone: Database, odd: Store
) -> None:
    seen: list[tuple[int, int]] = []
    await Checkpointer(alone).save({"n": 1}, "t")

    report = await verify(alone, progress=lambda done, total: seen.append((done, total)))

    # Where words may be read beside what is encrypted, a row without any is worth a note.
    assert [one for one in report.findings if one.severity == "error"] == []
    assert {one.code for one in report.findings} <= {"lost-words"}
    assert (report.items, report.states) == (LENGTH - 1 + 7, 1)
    assert seen[-1] == (report.items + 1, report.items + 1)
    assert (await verify(alone, thread_id="t")).items == 0


async def test_a_sample_is_of_states_and_items(alone: Database, odd: Store) -> None:
    for n in range(9):
        await Checkpointer(alone).save({"n": n}, "t")

    some = [await verify(alone, sample=6) for _ in range(4)]

    assert all(report.states + report.items == 6 for report in some)
    whole = await verify(alone, sample=1000)
    assert (whole.states, whole.items) == (9, LENGTH - 1 + 7)


async def test_more_items_than_a_page_are_all_read(alone: Database) -> None:
    store = Store(alone)
    await store.put_batch([(("n", str(n % 3)), f"k{n}", n) for n in range(1001)])

    assert (await verify(alone)).items == 1001
    assert (await verify(alone, sample=0.5)).items == 501


async def test_every_tenant_with_a_thread_or_an_item_is_read(alone: Database) -> None:
    for tenant in ("a", "b", "c"):
        await Store(alone.for_tenant(tenant)).put(("n",), "k", tenant)
    await Checkpointer(alone.for_tenant("bb")).save({}, "t")

    report = await verify(alone, all_tenants=True)

    assert (report.items, report.states) == (3, 1)
    assert (await verify(alone.for_tenant("b"))).items == 1


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("payload", {"value": b"\x00nonsense"}),
        ("payload", {"checksum": 12}),
        ("codec", {"codec": "zvalue9"}),
        ("version", {"version": 0}),
    ],
)
@pytest.mark.own_signing_keys  # what it forges has no signature
async def test_a_damaged_item_is_named_by_namespace_and_key(
    code: str, values: dict[str, Any], alone: Database, store: Store
) -> None:
    await change(alone, at("k05", **values), checked=code != "version")

    for sample in (None, 1000):
        findings = beside_checks(await verify(alone, sample=sample))
        if code == "version" and alone.keyring.encrypts:  # the value is bound to its version
            assert findings.pop().code == "payload"
        (finding,) = findings
        assert (finding.code, finding.namespace, finding.key) == (code, PATH, "k05")
        assert finding.severity == "error"


async def test_the_remedy_of_a_damaged_value_leaves_nothing_to_find(
    alone: Database, store: Store
) -> None:
    await change(alone, at("k05", checksum=12))
    remedy = only(await verify(alone)).remedy
    assert remedy is not None

    tenant = [] if alone.tenant == "default" else ["--tenant", alone.tenant]
    command = shlex.split(remedy.rpartition("remove it: ")[2])
    assert command[:-2] == ["memalchemy", *tenant, "store", "rm"]
    namespace, key = command[-2:]
    assert await Store(alone).delete(parse_namespace(namespace), key) is True
    assert (await verify(alone)).findings == ()


@pytest.mark.parametrize("column", ["search_text", "field_terms"])
@pytest.mark.own_signing_keys  # what it forges has no signature
async def test_words_that_are_not_the_items_own_are_found(
    column: str, alone: Database, store: Store
) -> None:
    await change(alone, at("k05", **{column: "another words"}))
    looked = await verify(alone)
    assert about(looked) == ("words", PATH, "k05")
    assert "parcel" not in json.dumps(looked.as_dict())

    await store.put(NOTES, "k05", {"n": 5})

    assert (await verify(alone)).ok


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ("dimensions", {"dimensions": 3}),
        ("zero", {"vector": [0.0, 0.0]}),
        ("float32", {"vector": b"\x00\x00\x00"}),
        ("finite", {"vector": [math.inf, 1.0]}),
    ],
)
async def test_a_vector_that_no_search_can_use_is_found(
    said: str, values: dict[str, Any], alone: Database, store: Store
) -> None:
    sql = update(EmbeddingRow).where(EmbeddingRow.key == "k05")
    if alone.dialect.single_writer and "vector" in values:
        raw = values["vector"]
        raw = raw if isinstance(raw, bytes) else np.asarray(raw, "<f4").tobytes()
        statement = text("UPDATE embeddings SET vector = :v WHERE key = 'k05'")
        await change(alone, statement.bindparams(bindparam("v", raw)))
    elif said in ("float32", "finite"):
        return  # the server's type keeps that out
    else:
        await change(alone, sql.values(values))

    report = await verify(alone)

    assert about(report) == ("vector", PATH, "k05")
    assert said in only(report).sentence


@pytest.mark.own_signing_keys  # what it forges has no signature
async def test_vectors_without_an_item_and_a_counter_that_is_behind_are_found(
    alone: Database, store: Store
) -> None:
    sql = (
        "INSERT INTO embeddings (tenant, namespace, key, field, model, part, dimensions, change, "
        "vector) SELECT tenant, namespace, 'nobody', field, model, part, dimensions, 10000, vector "
        "FROM embeddings WHERE key = 'k05'"
    )
    if alone.dialect.single_writer:
        if alone.file_bytes is None:
            return  # in memory nobody else writes
        # Outside of a transaction, in which SQLite would not do it.
        lone = ("PRAGMA foreign_keys = OFF", sql, "PRAGMA foreign_keys = ON")
        await alone.run(lambda: _all(*lone), MAINTENANCE)
    else:
        off = "SET LOCAL session_replication_role = replica"
        await alone.run_sync(lambda c: [c.exec_driver_sql(one) for one in (off, sql)])

    findings = {(f.code, f.key) for f in (await verify(alone)).findings}

    wanted = {("orphan", "nobody")}
    if alone.dialect.vectors.counts_changes:
        wanted |= {("counter", None)}
    assert findings == wanted
    assert (await verify(alone, sample=1000)).findings == ()


def _all(*statements: str) -> Program[None]:
    for statement in statements:
        yield text(statement), None


@pytest.mark.needs("examined text indexes")
async def test_the_index_of_items_is_looked_at_and_built_anew(
    alone: Database, store: Store
) -> None:
    if alone.dialect.single_writer:
        taken = text(
            "INSERT INTO store_items_search(store_items_search, rowid, scope, search_text, "
            "field_terms) SELECT 'delete', rowid, 'x' || lower(hex(tenant || char(31) || "
            "namespace)), search_text, field_terms FROM store_items WHERE key = 'k05'"
        )
        await alone.run_sync(lambda c: c.execute(taken))
    else:
        await _move_unindexed(alone)

    finding = only(await verify(alone))
    assert (finding.code, finding.namespace) == ("text-index", PATH)
    assert (finding.affected, finding.affected_count) == (("k05",), 1)
    assert only(await verify(alone, sample=1000)).affected == ("k05",)

    report = await verify(alone, repair=True)

    assert (report.ok, report.repaired) == (True, ("store_items_search",))
    assert (await verify(alone)).findings == ()
    assert [hit.key for hit in await store.search(NOTES, "parcel5")] == ["k05"]
    filtered = await store.search(NOTES, "lost", filter={"at": {"place": 5}})
    assert [hit.key for hit in filtered] == ["k05"]


async def _move_unindexed(db: Database) -> None:
    """Write a row while its index is not ready, which writes pass over."""

    async def run(*statements: str) -> None:
        await db.run_sync(lambda c: [c.exec_driver_sql(one) for one in statements])

    ready = (
        "UPDATE pg_index SET indisready = {} WHERE indexrelid = 'ix_store_items_search'::regclass"
    )
    await run(ready.format("false"))
    await run(
        "CREATE TEMP TABLE kept AS SELECT * FROM store_items WHERE key = 'k05'",
        "CREATE TEMP TABLE near AS SELECT * FROM embeddings WHERE key = 'k05'",
        "DELETE FROM store_items WHERE key = 'k05'",
        "INSERT INTO store_items SELECT * FROM kept",
        "INSERT INTO embeddings SELECT * FROM near",
        "DROP TABLE kept",
        "DROP TABLE near",
    )
    await run(ready.format("true"))


async def test_nothing_is_found_while_others_put_and_delete(alone: Database, store: Store) -> None:
    chance, ended = random.Random(3), asyncio.Event()

    async def work() -> None:
        while not ended.is_set():
            key = f"k{chance.randrange(LENGTH):02d}"
            if chance.random() < 0.3:
                await store.delete(NOTES, key)
            else:
                await store.put(NOTES, key, {"text": f"w{chance.random()}"}, embedding=[1.0, 2.0])

    others = [asyncio.create_task(work()) for _ in range(3)]
    try:
        for _ in range(5):
            assert (await verify(alone)).findings == ()
    finally:
        ended.set()
        await asyncio.gather(*others)
    await alone.run_sync(lambda c: c.execute(delete(StoreItemRow)))


async def test_a_row_with_empty_cells_is_not_damaged_beside_one_that_is(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/agent.db", migrate="upgrade") as own:
        store = Store(own)
        for key in ("bad", "good"):  # neither has a lifetime or a signature
            await store.put(("n",), key, 1)

        def damage(connection: Connection) -> None:
            with without_checks(connection, "store_items"):
                connection.execute(text("UPDATE store_items SET meta = 'none' WHERE key = 'bad'"))

        await own.run_sync(damage)
        with pytest.raises(Corrupt, match=r"key 'bad'\): meta is not what it should be") as told:
            await store.list_items(("n",))

        assert "good" not in str(told.value)
        assert "more rows" not in str(told.value)
        assert {one.key for one in (await verify(own)).findings} == {"bad"}

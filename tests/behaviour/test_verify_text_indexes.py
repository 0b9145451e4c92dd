"""`verify` finds a text index that does not agree with the rows, and repairs it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import Checkpointer, Database
from memalchemy.dialects import TEXT_INDEXES
from memalchemy.keys import log_key
from memalchemy.maintenance import tenants
from memalchemy.migrate import TABLES, VERSION_TABLE
from memalchemy.verify import Report, verify
from servers import Postgres, give_rights, migrated_database

Spoil = Callable[[str], None]


@pytest.fixture
async def alone(database_url: str) -> AsyncIterator[Database]:
    """A database of the test's own, with a thread of nine checkpoints."""
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        agent = Checkpointer(db)
        for n in range(1, 10):
            said = {"said": f"parcel{n} was lost at sea {'again and ' * n}" + "so " * 90}
            await agent.save(said, "t", f"c{n}", {"step": n, "who": {"a": [n]}})
        yield db


async def found(db: Database, n: int) -> tuple[bool, bool]:
    """Whether checkpoint *n* is found by its text, and by its metadata."""
    agent = Checkpointer(db)
    return (
        [hit["checkpoint_id"] for hit in await agent.search(f"parcel{n}")] == [f"c{n}"],
        [hit["checkpoint_id"] for hit in await agent.query_by_metadata("step", n)] == [f"c{n}"],
    )


async def run(db: Database, *statements: str) -> None:
    def job(connection: object) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)  # type: ignore[attr-defined]

    await db.run_sync(job)


async def unindex(db: Database, index: str) -> None:
    """Take the row of checkpoint c5 out of an index, leaving the row."""
    if db.dialect.single_writer:
        table, value = {
            "deltas_search": ("deltas", "search_text, scope"),
            "checkpoints_meta": ("checkpoints", "terms"),
        }[index]
        scope = "'x' || lower(hex(tenant))"
        taken = f"SELECT 'delete', rowid, search_text, {scope} FROM {table} WHERE seq = 5"
        if value == "terms":
            terms = (
                "(SELECT group_concat(lower(hex(key || char(31) || CASE WHEN type = 'text' THEN "
                "'t' || substr(atom, 1, 120) WHEN type IN ('integer', 'real') THEN 'n' || "
                "printf('%.12g', atom) ELSE type END)), ' ') FROM json_each(checkpoints.meta))"
            )
            taken = f"SELECT 'delete', rowid, {terms} FROM {table} WHERE seq = 5"
        await run(db, f"INSERT INTO {index}({index}, rowid, {value}) {taken}")
        return
    # An index that is not ready is passed over by writes: the row moves, its entry does not.
    name = {"deltas_search": "ix_deltas_search_text", "checkpoints_meta": "ix_checkpoints_meta"}
    table = {"deltas_search": "deltas", "checkpoints_meta": "checkpoints"}[index]
    where = f"WHERE indexrelid = '{name[index]}'::regclass"
    await run(db, f"UPDATE pg_index SET indisready = false {where}")
    await run(
        db,
        f"CREATE TEMP TABLE kept AS SELECT * FROM {table} WHERE seq = 5",
        f"DELETE FROM {table} WHERE seq = 5",
        f"INSERT INTO {table} SELECT * FROM kept",
        "DROP TABLE kept",
    )
    await run(db, f"UPDATE pg_index SET indisready = true {where}")


def only(report: Report, index: str) -> None:
    (finding,) = report.findings
    assert not report.ok
    assert (finding.code, finding.thread_id) == ("text-index", "t")
    assert index.removeprefix("ix_").split("_")[0] in finding.sentence
    assert finding.affected == ("c5",)
    assert finding.affected_count == 1
    assert finding.remedy == "memalchemy verify --repair"


@pytest.mark.needs("examined text indexes")
@pytest.mark.parametrize("index", ["deltas_search", "checkpoints_meta"])
async def test_a_row_that_an_index_lost_is_named_and_found_again_after_repair(
    index: str, alone: Database
) -> None:
    await unindex(alone, index)
    looked = await verify(alone)
    only(looked, index)
    only(await verify(alone, sample=1000), index)
    only(await verify(alone, thread_id="t"), index)

    report = await verify(alone, repair=True)

    assert report.ok
    assert report.repaired == (index,)
    assert (await verify(alone)).ok
    for n in range(1, 10):
        assert await found(alone, n) == (True, True)


@pytest.mark.needs("examined text indexes")
@pytest.mark.parametrize("index", ["deltas_search", "checkpoints_meta"])
async def test_an_index_that_is_scribbled_on_or_out_of_use_is_found_and_repaired(
    index: str, alone: Database
) -> None:
    if alone.dialect.single_writer:
        await run(alone, f"UPDATE {index}_data SET block = x'00112233' WHERE id > 10")
    else:
        name = alone.dialect.text.index_name(index, None)
        await run(
            alone,
            f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}'::regclass",
        )

    (finding,) = (await verify(alone)).findings
    assert finding.code == "text-index"
    assert ("not valid" in finding.sentence) or ("rows" in finding.sentence)
    assert (await verify(alone, repair=True)).repaired == (index,)

    assert (await verify(alone)).findings == ()
    for n in range(1, 10):
        assert await found(alone, n) == (True, True)


async def test_what_is_right_is_not_built_anew(alone: Database) -> None:
    assert (await verify(alone, repair=True)).repaired == ()


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_role_without_the_right_to_repair_is_told_what_to_run(
    postgres: Postgres, request: pytest.FixtureRequest
) -> None:
    name = postgres.create_database()
    async with Database(postgres.url(name), migrate="off") as owner:
        await owner.migrate()
        await Checkpointer(owner).save({"said": "hello"}, "t")
        await run(
            owner,
            "UPDATE pg_index SET indisvalid = false "
            "WHERE indexrelid = 'ix_deltas_search_text'::regclass",
            "DO $$ BEGIN CREATE ROLE ma_reader LOGIN; "
            "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            "GRANT USAGE ON SCHEMA public TO ma_reader",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ma_reader",
        )
    async with Database(postgres.url(name, user="ma_reader"), migrate="off") as db:
        report = await verify(db, repair=True)

    (finding,) = report.findings
    assert not report.ok
    assert report.repaired == ()
    assert finding.remedy is not None
    assert finding.remedy == (
        "this role may not rebuild it; as the owner run: "
        "REINDEX INDEX CONCURRENTLY ix_deltas_search_text"
    )
    postgres.drop_database(name)


INVALID = (
    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_deltas_search_text'::regclass"
)


@pytest.fixture
def migrated(postgres: Postgres) -> Iterator[str]:
    """A PostgreSQL database of the test's own, whose owner is no superuser."""
    with migrated_database(postgres) as name:
        give_rights(postgres, "ma_owner", name)
        postgres.execute("GRANT CREATE ON SCHEMA public TO ma_owner", name)
        for table in (*TABLES, VERSION_TABLE):
            postgres.execute(f"ALTER TABLE {table} OWNER TO ma_owner", name)
        yield name


@pytest.mark.parametrize("road", ["asyncpg", "psycopg", "host's engine"])
async def test_the_owner_repairs_an_index_behind_a_wall_between_tenants(
    postgres: Postgres, migrated: str, road: str
) -> None:
    engine = None
    if road == "host's engine":
        engine = create_async_engine(postgres.url(migrated, driver="asyncpg", user="ma_owner"))
    url = postgres.url(migrated, driver="psycopg" if road == "psycopg" else "", user="ma_owner")
    async with Database(engine or url, tenant="acme") as db:
        await tenants.enforce(db)
        assert (await db.tenant_wall()).is_active
        await Checkpointer(db).save({"said": "parcel1"}, "t", "c1", {"step": 1})
        postgres.execute(INVALID, migrated)

        report = await verify(db, repair=True)

        assert (report.findings, report.repaired) == ((), ("deltas_search",))
        assert await found(db, 1) == (True, True)
    if engine is not None:
        await engine.dispose()


async def test_an_index_that_only_the_server_itself_rebuilds_is_said_to_be(
    postgres: Postgres, migrated: str
) -> None:
    postgres.execute(INVALID, migrated)
    async with Database(postgres.url(migrated), pgbouncer=True) as db:
        report = await verify(db, repair=True)

    (finding,) = report.findings
    assert finding.remedy is not None
    assert finding.remedy.endswith(
        "connect to the server itself; "
        "as the owner run: REINDEX INDEX CONCURRENTLY ix_deltas_search_text"
    )


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_the_indexes_of_a_schema_are_the_ones_that_are_looked_at(postgres: Postgres) -> None:
    name = postgres.create_database()
    async with Database(postgres.url(name), schema="Mem", migrate="off") as db:
        await db.migrate()
        await Checkpointer(db).save({"said": "hello"}, "t")
        await run(
            db,
            "UPDATE pg_index SET indisvalid = false "
            "WHERE indexrelid = '\"Mem\".ix_deltas_search_text'::regclass",
        )

        (finding,) = (await verify(db)).findings
        assert '"Mem".ix_deltas_search_text is not valid' in finding.sentence
        assert (await verify(db, repair=True)).repaired == ("deltas_search",)
        assert (await verify(db)).ok
    postgres.drop_database(name)


async def test_on_postgresql_rows_are_looked_for_by_the_index_itself(postgres: Postgres) -> None:
    from memalchemy.maintenance.verify import text_indexes

    name = postgres.create_database()
    async with Database(postgres.url(name), migrate="off") as db:
        await db.migrate()
        d = db.dialect
        same = {"k_tenant": "t", "k_namespace": "/", "k_log_id": log_key("t", "t", "/")}
        for index in TEXT_INDEXES:
            low, high = ("a", "b") if index == "store_items_search" else (1, 2)
            binds = same | {"p_low": low, "p_high": high}

            def plan(
                connection: object, index: str = index, binds: dict[str, object] = binds
            ) -> str:
                connection.execute(text_indexes.use_text_indexes(d))  # type: ignore[attr-defined]
                compiled = text_indexes.find_missed(d, index=index).compile(  # type: ignore[attr-defined]
                    dialect=connection.dialect,  # type: ignore[attr-defined]
                    compile_kwargs={"literal_binds": False},
                )
                sql, values = str(compiled), [binds[k] for k in compiled.positiontup]
                rows = connection.exec_driver_sql(f"EXPLAIN {sql}", tuple(values))  # type: ignore[attr-defined]
                return "\n".join(row[0] for row in rows)

            planned = await db.run_sync(plan)
            assert f"Bitmap Index Scan on {d.text.index_name(index, None)}" in planned, planned
            assert "Seq Scan" not in planned
    postgres.drop_database(name)


def damage_file(path: Path, *statements: str) -> None:
    """Change a file with another program, which minds no foreign keys."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


async def test_sqlites_own_check_and_rows_without_a_thread_are_findings(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with Database(f"sqlite:///{path}") as db:
        agent = Checkpointer(db)
        for n in range(3):
            await agent.save({"n": n}, "gone", f"c{n}")
        await agent.save({"n": 1}, "there", "one", {"a": 1})
    damage_file(
        path,
        "DROP TRIGGER threads_delete",
        "DELETE FROM threads WHERE thread_id = 'gone'",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'depth INTEGER NOT NULL', "
        "'depth INTEGER NOT NULL CHECK (depth > 5)') WHERE name = 'deltas'",
    )

    async with Database(f"sqlite:///{path}") as db:
        report = await verify(db)

    orphans = [f.sentence for f in report.findings if f.code == "orphan"]
    assert [sentence.split()[3] for sentence in orphans] == ["checkpoints", "deltas"]
    assert all(str(log_key("default", "gone", "/")) in sentence for sentence in orphans)
    assert any(f.code == "storage" and "CHECK" in f.sentence for f in report.findings)


async def test_a_file_with_scribbled_pages_is_damage_and_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with Database(f"sqlite:///{path}") as db:
        agent = Checkpointer(db)
        for n in range(40):
            await agent.save({"n": n, "pad": "x y z " * 400 * n}, f"t{n % 4}", f"c{n}", {"n": n})
    connection = sqlite3.connect(path)
    (root,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'deltas'"
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : (root - 1) * size + 200] = b"\xff" * 200
    path.write_bytes(content)

    async with Database(f"sqlite:///{path}", migrate="check") as db:
        report = await verify(db)

    assert not report.ok
    assert {"storage", "unreadable"} <= {f.code for f in report.findings}


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_metadata_that_is_no_json_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with Database(f"sqlite:///{path}") as db:
        await Checkpointer(db).save({"n": 1}, "there", "one")
    damage_file(
        path,
        "DROP TRIGGER checkpoints_meta_update",
        "UPDATE checkpoints SET meta = '{\"a\": '",
        "UPDATE threads SET meta = 'x'",
    )

    async with Database(f"sqlite:///{path}") as db:
        report = await verify(db)

    findings = [(f.code, f.checkpoint_id) for f in report.findings if f.code != "text-index"]
    assert findings == [("metadata", None), ("metadata", "one")]


async def test_search_words_cut_in_the_middle_of_a_text_are_still_found(alone: Database) -> None:
    agent = Checkpointer(alone)
    long = "w" * 100
    await agent.save({"said": [f"{long}{n}"[-100:] for n in range(9)]}, "long")
    await agent.save({"said": "日本語の長い文章" * 60}, "long")
    await agent.save({"said": "Ünïcödé Straße ﬁn naïve " * 20}, "long")
    await agent.save({"said": 'a\'b "c" NEAR( * OR AND NOT -x ^y {z}: 1e5 v2.0 12abc'}, "long")

    assert (await verify(alone)).findings == ()
    assert await alone.run_sync(lambda c: c.scalar(text("SELECT count(*) FROM deltas"))) == 13

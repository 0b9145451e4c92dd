"""Inside a host's own Alembic: one ``alembic upgrade heads`` runs both chains.

``host_app`` is that host: its models, its revisions, its ``env.py`` with the lines that
docs/migrations.md gives.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from programs import CHECKOUT, alembic

from memalchemy import Checkpointer, Database, MemalchemyError, migrate
from memalchemy.dialects import dialect_of
from memalchemy.migrate import views
from servers import Postgres

HOST = Path(__file__).with_name("host_app")
FTS5 = ("deltas_", "checkpoints_", "store_items_")
OURS = {*migrate.TABLES, migrate.VERSION_TABLE}
THEIRS = {"customers", "orders", "alembic_version"}
DRIVERS = {
    ("sqlite", "alembic"): "sqlite",
    ("sqlite", "async"): "sqlite+aiosqlite",
    ("postgresql", "alembic"): "postgresql+psycopg",
    ("postgresql", "async"): "postgresql+asyncpg",
}


@pytest.fixture(autouse=True)
def host_is_imported_for_this_test_only() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("host_models", None)


@pytest.fixture(params=["alembic", "async"])
def host(request: pytest.FixtureRequest, kind: str, fresh_url: str) -> Callable[..., str]:
    """The host's ``alembic`` command, with a sync and with an async engine."""
    url = fresh_url.replace(kind, DRIVERS[kind, request.param], 1)
    return lambda *arguments: alembic(
        HOST / "alembic.ini", "-x", f"url={url}", *arguments, section=request.param
    )


@pytest.fixture
def sync_host(kind: str, fresh_url: str) -> Callable[..., str]:
    url = fresh_url.replace(kind, DRIVERS[kind, "alembic"], 1)
    return lambda *arguments: alembic(HOST / "alembic.ini", "-x", f"url={url}", *arguments)


def query(url: str, sql: str) -> list[tuple]:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        rows = connection.execute(sql).fetchall()
        connection.close()
        return rows
    with psycopg.connect(url, autocommit=True) as server:
        cursor = server.execute(sql)
        return cursor.fetchall() if cursor.description else []


def tables(url: str) -> set[str]:
    """All tables there are, without those that a text index is made of."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if not url.startswith("sqlite"):
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    return {name for (name,) in query(url, sql) if not name.startswith(FTS5)}


def use(url: str, schema: str | None = None) -> None:
    async def main() -> None:
        async with Database(url, schema=schema, migrate="check") as db:
            await Checkpointer(db).save({"step": 1}, "thread")
            assert await Checkpointer(db).load("thread") == {"step": 1}

    asyncio.run(main())


def test_the_host_uses_the_documented_lines() -> None:
    page = (CHECKOUT / "docs" / "migrations.md").read_text()
    lines = re.findall(r"^ *((?:\w+=)?migrate\.\w+\([^)]*\),?)", page, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        assert line in (HOST / "migrations_async" / "env.py").read_text()


def test_one_upgrade_runs_both_chains(host: Callable[..., str], fresh_url: str) -> None:
    host("upgrade", "heads")
    assert tables(fresh_url) == OURS | THEIRS
    assert query(fresh_url, "SELECT version_num FROM alembic_version") == [("b2",)]
    assert query(fresh_url, "SELECT name FROM customers") == [("Ada",)]
    use(fresh_url)


def test_a_second_upgrade_finds_nothing_to_do(host: Callable[..., str], fresh_url: str) -> None:
    host("upgrade", "heads")
    use(fresh_url)
    host("upgrade", "heads")
    assert query(fresh_url, "SELECT version_num FROM alembic_version") == [("b2",)]
    use(fresh_url)


def test_memalchemy_joins_a_host_that_has_been_there_for_long(
    host: Callable[..., str], fresh_url: str
) -> None:
    """Nothing of the host's runs any more, so nothing but ours needs a transaction."""
    host("upgrade", "heads")
    for table in ("embeddings", "store_items", "deltas", "checkpoints", "threads"):
        query(fresh_url, f"DROP TABLE {table}")
    if fresh_url.startswith("sqlite"):
        query(fresh_url, "DROP TABLE deltas_search")
        query(fresh_url, "DROP TABLE checkpoints_meta")
        query(fresh_url, "DROP TABLE store_items_search")
    query(fresh_url, f"DROP TABLE {migrate.VERSION_TABLE}")
    assert tables(fresh_url) == THEIRS

    host("upgrade", "heads")
    use(fresh_url)


CONVERSATION = '''"""A table with a foreign key to a thread."""

import sqlalchemy as sa
from alembic import op

revision = "c3"
down_revision = "b2"


def upgrade():
    op.create_table(
        "conversations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "log_id",
            sa.LargeBinary().with_variant(sa.Uuid(), "postgresql"),
            sa.ForeignKey("threads.log_id", ondelete="CASCADE"),
        ),
    )


def downgrade():
    op.drop_table("conversations")
'''

RELATED = """

class Conversation(HostBase):
    __tablename__ = "conversations"

    id: Mapped[int] = mapped_column(primary_key=True)
    log_id: Mapped[UUID | None] = mapped_column(
        ThreadRow.log_id.type, ForeignKey(ThreadRow.log_id, ondelete="CASCADE")
    )
"""


def test_a_host_with_a_foreign_key_to_a_thread_runs_ours_first(
    kind: str, fresh_url: str, tmp_path: Path
) -> None:
    """As docs/sqlalchemy.md says: on a server the table must be there before a key to it."""
    host = shutil.copytree(HOST, tmp_path / "host", ignore=shutil.ignore_patterns("__pycache__"))
    env = host / "migrations_async" / "env.py"
    ours, theirs = "migrate.upgrade_alongside(context)", "context.run_migrations()"
    lines = env.read_text()
    assert lines.index(theirs) < lines.index(ours)
    env.write_text(lines.replace(ours, "@").replace(theirs, ours).replace("@", theirs))
    versions = next(path.parent for path in host.rglob("b2_orders.py"))
    (versions / "c3_conversations.py").write_text(CONVERSATION)
    models = host / "host_models.py"
    imports = (
        "from uuid import UUID\nfrom sqlalchemy import ForeignKey\n"
        "from memalchemy.schema import ThreadRow\n"
    )
    future = "from __future__ import annotations\n"
    models.write_text(models.read_text().replace(future, future + imports) + RELATED)

    url = fresh_url.replace(kind, DRIVERS[kind, "async"], 1)
    run = partial(alembic, host / "alembic.ini", "-x", f"url={url}", section="async")
    run("upgrade", "heads")
    assert tables(fresh_url) == OURS | THEIRS | {"conversations"}
    assert "No new upgrade operations detected" in run("check")
    use(fresh_url)
    run("downgrade", "b2")
    assert tables(fresh_url) == OURS | THEIRS


def test_the_hosts_autogenerate_sees_no_table_of_ours(
    host: Callable[..., str], fresh_url: str
) -> None:
    host("upgrade", "heads")
    assert "No new upgrade operations detected" in host("check")


def test_the_hosts_autogenerate_still_sees_its_own(
    sync_host: Callable[..., str], fresh_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sync_host("upgrade", "heads")
    query(fresh_url, "DROP INDEX ix_orders_customer_id")
    query(fresh_url, "CREATE TABLE forgotten (id INTEGER PRIMARY KEY)")
    with pytest.raises(SystemExit):
        sync_host("check")
    told = capsys.readouterr().out
    assert "ix_orders_customer_id" in told
    assert "forgotten" in told
    assert not [name for name in OURS if f"'{name}'" in told]


def test_our_autogenerate_sees_no_table_of_the_hosts(
    sync_host: Callable[..., str], fresh_url: str
) -> None:
    sync_host("upgrade", "heads")
    ours = CHECKOUT / "alembic.ini"
    assert "No new upgrade operations detected" in alembic(ours, "-x", f"url={fresh_url}", "check")


def test_a_downgrade_of_the_hosts_leaves_ours(host: Callable[..., str], fresh_url: str) -> None:
    host("upgrade", "heads")
    use(fresh_url)
    host("downgrade", "base")
    assert tables(fresh_url) == OURS | {"alembic_version"}
    use(fresh_url)


def test_the_hosts_other_commands_leave_a_fresh_database_alone(
    sync_host: Callable[..., str], fresh_url: str
) -> None:
    sync_host("current")
    sync_host("stamp", "a1")
    assert tables(fresh_url) == {"alembic_version"}


def test_one_script_holds_both_chains_and_runs(
    sync_host: Callable[..., str], fresh_url: str, kind: str
) -> None:
    script = sync_host("upgrade", "heads", "--sql")
    if kind == "sqlite":
        connection = sqlite3.connect(fresh_url.removeprefix("sqlite:///"))
        connection.executescript(script)
        connection.close()
    else:
        assert script.count("BEGIN;") == script.count("COMMIT;") == 1
        query(fresh_url, script)
    assert tables(fresh_url) == OURS | THEIRS
    use(fresh_url)
    sync_host("upgrade", "heads")


def test_a_script_for_a_database_that_has_ours_already_can_start_there(
    sync_host: Callable[..., str],
) -> None:
    script = sync_host("-x", f"memalchemy_start={migrate.head()}", "upgrade", "a1:b2", "--sql")
    assert "CREATE TABLE orders" in script
    assert "CREATE TABLE threads" not in script
    assert "CREATE TABLE threads" in sync_host("upgrade", "a1:b2", "--sql")


def test_a_script_for_a_server_without_pgvector_needs_none(tmp_path: Path) -> None:
    url = ("-x", "url=postgresql+psycopg://127.0.0.1:1/nowhere")
    upgrade = ("upgrade", "heads", "--sql")
    told = shutil.copytree(HOST, tmp_path / "host")
    environment = told / "migrations" / "env.py"
    call = "upgrade_alongside(context, schema=schema"
    environment.write_text(environment.read_text().replace(call, f"{call}, pgvector=False"))

    usual = alembic(HOST / "alembic.ini", *url, *upgrade)
    by_option = alembic(HOST / "alembic.ini", *url, "-x", "memalchemy_pgvector=no", *upgrade)
    by_argument = alembic(told / "alembic.ini", *url, *upgrade)

    assert "CREATE EXTENSION" in usual
    assert "CREATE EXTENSION" not in by_option
    assert "vector BYTEA" in by_option
    assert by_argument == by_option


def test_a_script_cannot_start_at_a_revision_that_does_not_exist(
    sync_host: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        sync_host("-x", "memalchemy_start=9999", "upgrade", "a1:b2", "--sql")
    assert "No such revision or branch '9999'" in capsys.readouterr().out


def test_a_failing_upgrade_of_ours_takes_the_hosts_back_on_a_server(
    postgres: Postgres, fresh_postgres: str
) -> None:
    """One transaction for both chains: a foreign table in our way undoes the host's revisions."""
    url = postgres.url(fresh_postgres)
    query(url, "CREATE TABLE threads (id integer)")
    driver = url.replace("postgresql", "postgresql+psycopg", 1)
    with pytest.raises(MemalchemyError, match="'threads'"):
        alembic(HOST / "alembic.ini", "-x", f"url={driver}", "upgrade", "heads")
    assert tables(url) == {"threads"}


def test_a_failing_upgrade_of_ours_leaves_none_of_it_in_a_hosts_sqlite_file(
    tmp_path: Path,
) -> None:
    """Its driver begins a transaction only before DML: DDL alone would commit piece by piece."""
    url = f"sqlite:///{tmp_path}/host.db"
    query(url, "CREATE TABLE checkpoints_meta (id INTEGER)")
    with pytest.raises(sa.exc.OperationalError, match="checkpoints_meta"):
        alembic(HOST / "alembic.ini", "-x", f"url={url}", "upgrade", "heads")
    left = query(url, "SELECT name FROM sqlite_master WHERE type = 'table'")
    assert {name for (name,) in left} == THEIRS | {"checkpoints_meta"}


def test_in_a_schema_of_its_own_beside_a_host_with_tables_of_the_same_names(
    postgres: Postgres, fresh_postgres: str
) -> None:
    url = postgres.url(fresh_postgres)
    query(url, "CREATE TABLE threads (id integer)")
    driver = url.replace("postgresql", "postgresql+psycopg", 1)
    host = ("-x", f"url={driver}", "-x", "schema=memory")
    alembic(HOST / "alembic.ini", *host, "upgrade", "heads")
    assert tables(url) == THEIRS | {"threads"}
    use(url, "memory")
    with pytest.raises(SystemExit):  # the host's own `threads` is the host's to know of
        alembic(HOST / "alembic.ini", *host, "check")


@pytest.mark.parametrize("path", ["memory,public", "public,memory"])
def test_a_search_path_does_not_hand_our_tables_to_the_hosts_autogenerate(
    postgres: Postgres, fresh_postgres: str, path: str
) -> None:
    """Alembic then reports them without a schema, as it reports the host's own."""
    url = postgres.url(fresh_postgres)
    query(url, "CREATE SCHEMA memory")
    driver = url.replace("postgresql", "postgresql+psycopg", 1)
    searched = ("-x", f"url={with_search_path(driver, path)}")
    alembic(HOST / "alembic.ini", "-x", f"url={driver}", "-x", "schema=memory", "upgrade", "heads")
    # As the host says, and as one that forgot to say it.
    for schema in (("-x", "schema=memory"), ()):
        told = alembic(HOST / "alembic.ini", *searched, *schema, "check")
        assert "No new upgrade operations detected" in told


@pytest.mark.parametrize("path", ["memory,public", "public,memory"])
def test_a_search_path_hides_no_table_of_the_hosts_of_the_same_name(
    postgres: Postgres, fresh_postgres: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = postgres.url(fresh_postgres)
    query(url, "CREATE SCHEMA memory")
    query(url, "CREATE TABLE public.threads (id integer)")
    driver = url.replace("postgresql", "postgresql+psycopg", 1)
    host = ("-x", f"url={driver}", "-x", "schema=memory")
    alembic(HOST / "alembic.ini", *host, "upgrade", "heads")
    searched = ("-x", f"url={with_search_path(driver, path)}", "-x", "schema=memory")
    if path.startswith("memory"):  # a name without a schema finds ours, so the host's is not seen
        told = alembic(HOST / "alembic.ini", *searched, "check")
        assert "No new upgrade operations detected" in told
        return
    with pytest.raises(SystemExit):
        alembic(HOST / "alembic.ini", *searched, "check")
    told = capsys.readouterr().out
    assert "'threads'" in told
    assert "'deltas'" not in told


def test_a_comparison_without_an_environment_leaves_our_tables_alone(
    postgres: Postgres, fresh_postgres: str
) -> None:
    url = postgres.url(fresh_postgres).replace("postgresql", "postgresql+psycopg", 1)
    engine = sa.create_engine(with_search_path(url, "memory,public"))
    with engine.begin() as connection:
        migrate.upgrade(connection, schema="memory")
        connection.execute(sa.text("CREATE TABLE public.forgotten (id integer)"))
    for schemas in (False, True):
        options = {
            "include_schemas": schemas,
            "include_name": migrate.include_name(schema="memory"),
        }
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts=options)
            (dropped,) = compare_metadata(context, sa.MetaData())
        assert dropped[0] == "remove_table"
        assert dropped[1].name == "forgotten"
    engine.dispose()


def with_search_path(url: str, path: str) -> str:
    return (
        sa.make_url(url)
        .update_query_dict({"options": f"-csearch_path={path}"})
        .render_as_string(hide_password=False)
    )


def test_the_views_are_in_nobodys_way(host: Callable[..., str], fresh_url: str) -> None:
    def make(connection: sa.Connection) -> None:
        views.create(connection, dialect_of(connection))

    async def main() -> None:
        async with Database(fresh_url) as db:
            await db.run_sync(make)

    host("upgrade", "heads")
    asyncio.run(main())

    host("check")
    host("upgrade", "heads")
    host("downgrade", "base")
    assert query(fresh_url, f"SELECT count(*) FROM {views.VIEWS[0]}") == [(0,)]

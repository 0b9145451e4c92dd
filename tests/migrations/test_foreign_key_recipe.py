"""The pages' recipe for a table with a foreign key to a thread, followed from an empty directory.

The models are those of docs/sqlalchemy.md, the lines of ``env.py`` those of docs/migrations.md,
inside what ``alembic init`` writes.
"""

from __future__ import annotations

import ast
import asyncio
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate.api import AutogenContext
from alembic.autogenerate.render import _repr_type
from alembic.migration import MigrationContext
from programs import CHECKOUT, alembic
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memalchemy import Checkpointer, Database, migrate
from memalchemy.keys import log_key
from memalchemy.schema import DeltaRow, EmbeddingRow, ThreadRow
from pages import BLOCK
from servers import Postgres

DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
CONFIGURED = re.compile(r"^def do_run_migrations.*?(?=^\S)", re.MULTILINE | re.DOTALL)


def block_with(page: str, words: str) -> str:
    """The Python block of a page that has *words* in it."""
    blocks = BLOCK.findall((CHECKOUT / "docs" / page).read_text())
    (found,) = [block for block in blocks if words in block]
    return found


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The application's directory; what is imported from it is forgotten after the test."""
    path = list(sys.path)
    yield tmp_path / "project"
    sys.path[:] = path
    sys.modules.pop("project_models", None)


@pytest.fixture
def run(project: Path, kind: str, fresh_url: str) -> Callable[..., str]:
    """``alembic`` in the project, which is set up as the pages say."""
    return set_up(project, fresh_url.replace(kind, DRIVERS[kind], 1))


def set_up(project: Path, url: str) -> Callable[..., str]:
    project.mkdir()
    ini = project / "alembic.ini"
    alembic(ini, "init", "-t", "async", str(project / "migrations"))
    (project / "project_models.py").write_text(block_with("sqlalchemy.md", "class Conversation("))
    settings = ini.read_text()
    for name, value in {
        "sqlalchemy.url": url.replace("%", "%%"),
        "prepend_sys_path": str(project),
    }.items():
        settings = re.sub(rf"^{re.escape(name)} = .*$", f"{name} = {value}", settings, flags=re.M)
    ini.write_text(settings)
    env = project / "migrations" / "env.py"
    documented = block_with("migrations.md", "def do_run_migrations")
    ours, theirs = "migrate.upgrade_alongside(context)", "context.run_migrations()"
    assert documented.index(ours) < documented.index(theirs)
    imports, function = documented.split("\n\n\n")
    text = env.read_text().replace("target_metadata = None", "target_metadata = Base.metadata")
    text = text.replace(
        "from alembic import context", f"{imports}\nfrom project_models import Base"
    )
    env.write_text(CONFIGURED.sub(lambda _: f"{function.rstrip()}\n\n\n", text, count=1))
    return lambda *arguments: alembic(ini, *arguments)


def generated(project: Path) -> str:
    (revision,) = (project / "migrations" / "versions").glob("*.py")
    return revision.read_text()


def tables(url: str) -> set[str]:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        connection.close()
    else:
        with psycopg.connect(url) as server:
            names = server.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
    return {name for (name,) in names}


def test_what_autogenerate_writes_upgrades_works_and_downgrades(
    run: Callable[..., str], project: Path, kind: str, fresh_url: str
) -> None:
    run("upgrade", "heads")
    run("revision", "--autogenerate", "-m", "conversations")
    text = generated(project)
    ast.parse(text)
    assert "memalchemy" not in text
    assert "sa.LargeBinary().with_variant(sa.Uuid(), 'postgresql')" in text

    run("upgrade", "heads")
    assert {"users", "conversations", "threads"} <= tables(fresh_url)
    assert "No new upgrade operations detected" in run("check")
    asyncio.run(use(fresh_url.replace(kind, DRIVERS[kind], 1)))

    run("downgrade", "base")
    assert not {"users", "conversations"} & tables(fresh_url)
    assert "threads" in tables(fresh_url)


def test_the_recipe_with_memalchemy_in_a_schema_of_its_own(
    project: Path, postgres: Postgres, fresh_postgres: str
) -> None:
    """The key names no schema, so the search path has to find the table: docs/sqlalchemy.md."""
    url = postgres.url(fresh_postgres)
    run = set_up(project, url.replace("postgresql", DRIVERS["postgresql"], 1))
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"ALTER DATABASE {server.info.dbname} SET search_path = public, memory")
    env = project / "migrations" / "env.py"
    text = env.read_text()
    text = text.replace("include_name()", "include_name(schema='memory')")
    text = text.replace("alongside(context)", "alongside(context, schema='memory')")
    env.write_text(text)

    run("upgrade", "heads")
    run("revision", "--autogenerate", "-m", "conversations")
    written = generated(project).partition("def downgrade")[0]
    assert "op.create_table('conversations'" in written
    assert "drop" not in written
    run("upgrade", "heads")
    assert "No new upgrade operations detected" in run("check")
    assert "threads" not in tables(url)  # of the schema public
    assert {"users", "conversations"} <= tables(url)


async def use(url: str) -> None:
    """Write and join through the models of the page, with ids that are stored escaped."""
    import project_models as models

    engine = create_async_engine(url)
    checkpointer = Checkpointer(Database(engine))
    async with AsyncSession(engine) as session, session.begin():
        for number, thread_id in enumerate(["trip", "", "nul\0"], start=1):
            await checkpointer.save({"step": 1}, thread_id, connection=session)
            session.add(
                models.Conversation(
                    id=number,
                    user=models.User(id=number, name="Ada"),
                    log_id=log_key("default", thread_id, "/"),
                )
            )
    async with AsyncSession(engine) as session:
        joined = sa.select(ThreadRow.thread_id).join(
            models.Conversation, models.Conversation.log_id == ThreadRow.log_id
        )
        assert sorted(await session.scalars(joined)) == ["", "nul\0", "trip"]
    await engine.dispose()


def test_without_the_renderer_the_revision_would_need_memalchemys_classes(
    run: Callable[..., str], project: Path
) -> None:
    """What the recipe is for; and the test that its line is what does it."""
    env = project / "migrations" / "env.py"
    lines = [line for line in env.read_text().splitlines() if "render_item" not in line]
    env.write_text("\n".join(lines) + "\n")
    run("upgrade", "heads")
    run("revision", "--autogenerate", "-m", "conversations")

    assert "memalchemy.column_types.LogKey" in generated(project)
    with pytest.raises(NameError, match="memalchemy"):
        run("upgrade", "heads")


COLUMNS = [
    column
    for row in (ThreadRow, DeltaRow, EmbeddingRow)
    for column in row.__table__.columns
    if type(column.type).__module__.startswith("memalchemy")
]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "oracle"])
@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_a_plain_type_is_the_same_in_the_database(column: sa.Column, dialect: str) -> None:
    context = AutogenContext(
        MigrationContext.configure(dialect_name=dialect),
        opts={
            "render_item": migrate.render_item(),
            "sqlalchemy_module_prefix": "sa.",
            "user_module_prefix": None,
        },
    )
    text = _repr_type(column.type, context)
    names: dict[str, object] = {"sa": sa}
    for line in context.imports:
        exec(line, names)

    plain = eval(text, names)

    assert context.dialect is not None
    ours = column.type.compile(dialect=context.dialect).upper()
    assert plain.compile(dialect=context.dialect).upper() == ours
    assert "memalchemy" not in text


def test_a_renderer_of_the_hosts_is_asked_for_everything_else() -> None:
    asked = []

    def theirs(kind: str, item: object, context: object) -> str:
        asked.append(kind)
        return "theirs"

    render = migrate.render_item(theirs)
    assert render("type", sa.Integer(), None) == "theirs"
    assert render("server_default", object(), None) == "theirs"
    assert render("type", ThreadRow.thread_id.type, None) != "theirs"
    assert asked == ["type", "server_default"]
    assert migrate.render_item()("type", sa.Integer(), None) is False

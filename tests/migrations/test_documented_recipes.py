"""The recipes of the pages that a shell runs, run by a shell: SQLite and a PostgreSQL server."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from programs import CHECKOUT, postgres_program

from documented_commands import FENCE
from memalchemy import Checkpointer, Database, Store
from servers import Postgres

Run = Callable[..., subprocess.CompletedProcess[str]]


def blocks(page: str) -> list[str]:
    """The page's blocks for a shell."""
    found = FENCE.findall((CHECKOUT / page).read_text())
    return [text for language, text in found if language in ("bash", "sh")]


def block_with(page: str, words: str) -> str:
    (found,) = [text for text in blocks(page) if words in text]
    return found


@pytest.fixture
def server_url(postgres: Postgres, fresh_postgres: str) -> str:
    return postgres.url(fresh_postgres)


@pytest.fixture
def app_role(postgres: Postgres, server_url: str) -> Iterator[None]:
    """The role that the pages give rights to."""
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute("CREATE ROLE app_role")
    yield
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute("DROP OWNED BY app_role")
        server.execute("DROP ROLE app_role")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A shell that stops at the first failure, with the programs that the pages use."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("memalchemy", "alembic"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {name} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (programs / "psql").symlink_to(postgres_program("psql"))

    def run_(script: str, *, fails: bool = False, **variables: str) -> subprocess.CompletedProcess:
        names = ("MEMALCHEMY_URL", "DATABASE_URL")
        environment = {k: v for k, v in os.environ.items() if k not in names}
        environment |= variables | {"PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert fails or done.returncode == 0, (script, done.stdout, done.stderr)
        return done

    return run_


async def upgrade(url: str) -> None:
    async with Database(url, migrate="off") as db:
        await db.migrate()


async def fill(url: str) -> None:
    """A little of everything that the commands are about."""
    async with Database(url) as db:
        await Checkpointer(db).save({"step": 1}, "thread")
        await Store(db).put(("notes",), "a", "word", ttl=3600, embedding=[1.0] * 384)


def test_the_pipeline_of_the_migrations_page(run: Run, server_url: str, app_role: None) -> None:
    page = blocks("docs/migrations.md")
    by_word = {
        word: next(text for text in page if word in text)
        for word in ("current  ", "--sql", "grants", "--delete-rows", "alembic upgrade")
    }
    run(by_word["--sql"], DATABASE_URL=server_url)  # the script is for an empty database
    run(by_word["current  "], DATABASE_URL=server_url)
    run(by_word["grants"], DATABASE_URL=server_url)
    asyncio.run(fill(server_url))
    run(by_word["--delete-rows"], DATABASE_URL=server_url)
    run(by_word["current  "], DATABASE_URL=server_url)

    ini = (CHECKOUT / "docs" / "migrations.md").read_text().split("```ini\n")[1].split("```")[0]
    # A checkout has its revisions beside the package, a wheel inside it.
    ini = ini.replace("memalchemy:migrations", str(CHECKOUT / "migrations"))
    run(f"cat > alembic.ini <<'INI'\n{ini}INI")
    script = by_word["alembic upgrade"].replace("postgresql://me@host/db", f"'{server_url}'")
    assert "nothing to do" in run(script).stdout


def test_the_deployment_of_the_operations_page(run: Run, server_url: str, app_role: None) -> None:
    script = block_with("docs/operations/deploy.md", "grants app_role")

    assert '"ok": true' in run(script, OWNER_URL=server_url, SUPERUSER_URL=server_url).stdout


def test_the_roles_of_the_tutorial(run: Run, server_url: str, app_role: None) -> None:
    assert (
        "GRANT"
        in run(
            block_with("docs/tutorial/production.md", "grants app_role"), DATABASE_URL=server_url
        ).stdout
    )


def test_the_checks_of_the_verify_page(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(fill(url))

    (script,) = [text for text in blocks("docs/verify.md") if "--sample" in text]
    run(script, DATABASE_URL=url)


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in block_with("docs/tutorial/production.md", "memalchemy vacuum").splitlines()
        if line
    ],
    ids=lambda line: " ".join(line.split()[1:3]),
)
def test_a_line_of_the_tutorials_maintenance_works_where_the_database_has_it(
    line: str, run: Run, server_url: str, tmp_path: Path
) -> None:
    """On SQLite, or, if SQLite says that it has no such thing, on a server."""
    asyncio.run(upgrade(server_url))
    asyncio.run(fill("sqlite:///" + str(tmp_path / "agent.db")))
    script = re.sub(r"postgresql://\S+", f"'{server_url}'", line)

    done = run(script, fails=True, MEMALCHEMY_URL="sqlite:///agent.db")
    if done.returncode:
        assert "MA-CAPABILITY" in done.stderr, done.stderr
        run(script, MEMALCHEMY_URL=server_url)

"""What an operator does on a PostgreSQL server: PgBouncer, pgvector, a table that is gone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from commandline import Call, environment, lines, thread

from memalchemy import Database, Store
from servers import Postgres
from waiting import A_WHILE


@pytest.fixture
def fresh(postgres: Postgres) -> Iterator[str]:
    """The name of a database of the test's own, without a schema."""
    name = postgres.create_database()
    yield name
    postgres.drop_database(name)


@pytest.fixture
def owner(postgres: Postgres, fresh: str) -> Iterator[str]:
    """A role that may make tables in `fresh`, but may not install extensions."""
    role = f"owner_{fresh}"
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    postgres.execute(f"GRANT ALL ON SCHEMA public TO {role}", fresh)
    yield role
    postgres.execute(f"DROP OWNED BY {role}", fresh)
    postgres.execute(f"DROP ROLE {role}")


def put_vector(url: str) -> None:
    async def work() -> None:
        async with Database(url) as db:
            await Store(db).put_with_embedding(("a",), "k", {"n": 1}, [1.0, 0.5])

    asyncio.run(work())


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_commands_work_through_pgbouncer(
    bouncer: Postgres, fresh: str, driver: str, call: Call
) -> None:
    url = f"{bouncer.url(fresh, driver=driver)}?pgbouncer=true"
    given = lines(thread("airline-1", 8))

    assert call("--db", url, "upgrade").code == 0
    assert call("--db", url, "check").code == 0
    assert call("--db", url, "import", "-", stdin=given).code == 0
    assert call("--db", url, "threads", "--json").json[0]["checkpoints"] == 8
    assert call("--db", url, "search", "message", "--json").json
    assert call("--db", url, "verify").code == 0
    assert call("--db", url, "forget", "--thread", "airline-1", "--yes").code == 0
    assert call("--db", url, "threads", "--json").json == []


def test_vacuum_and_index_build_need_the_server_itself(
    bouncer: Postgres, fresh: str, call: Call
) -> None:
    url = f"{bouncer.url(fresh)}?pgbouncer=true"
    assert call("--db", url, "upgrade").code == 0
    assert call("--db", url, "import", "-", stdin=lines(thread("old", 2))).code == 0

    for command in (("vacuum", "--older-than-days", "0"), ("index", "build", "--dimensions", "3")):
        refused = call("--db", url, *command)
        assert refused.code == 4
        assert "PgBouncer" in refused.err

    assert len(call("--db", url, "threads", "--json").json) == 1
    assert call("--db", url, "vacuum", "--older-than-days", "0", "--dry-run").code == 0


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a server; whatever the test finds, it has ended afterwards."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as server:
        try:
            yield server
        finally:
            server.kill()


def test_serve_works_through_pgbouncer(bouncer: Postgres, fresh: str, call: Call) -> None:
    url = f"{bouncer.url(fresh)}?pgbouncer=true"
    call("--db", url, "upgrade")
    command = [sys.executable, "-m", "memalchemy", "--db", url, "serve", "--port", "0", "--nl"]
    command += ["--statement-timeout", "5"]
    with running(command) as server:
        assert server.stdout is not None
        address = httpx.URL(server.stdout.readline().split('"')[3])
        for number in range(3):
            saved = httpx.post(
                address.join(f"/v1/threads/t{number}/checkpoints"), json={"state": {"n": number}}
            )
            assert saved.status_code == 201, saved.text
        assert httpx.get(address.join("/health/ready")).status_code == 200
        server.terminate()
        assert server.wait(A_WHILE) == 0


def test_serve_takes_the_size_of_a_pool_only_where_there_is_one(filled: str, call: Call) -> None:
    for url in (filled, "postgresql://127.0.0.1:1/a?pgbouncer=true"):
        refused = call("--db", url, "serve", "--pool-size", "3")

        assert refused.code == 2
        assert "--pool-size and --max-overflow are for a server" in refused.err


def test_serve_reports_to_opentelemetry_only_where_somebody_listens(
    filled: str, call: Call
) -> None:
    refused = call("--db", filled, "serve", "--port", "0", "--otel")

    assert refused.code == 2
    assert "opentelemetry-instrument memalchemy serve --otel" in refused.err


def test_serve_reports_what_its_requests_do_to_the_providers_of_the_process(filled: str) -> None:
    launcher = (
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor\n"
        "provider = TracerProvider()\n"
        "exporter = ConsoleSpanExporter(formatter=lambda span: span.name + '\\n')\n"
        "provider.add_span_processor(SimpleSpanProcessor(exporter))\n"
        "trace.set_tracer_provider(provider)\n"
        "from memalchemy.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", launcher, "--db", filled, "serve", "--port", "0", "--otel"]
    command.append("--nl")
    with running(command) as server:
        assert server.stdout is not None
        address = httpx.URL(server.stdout.readline().split('"')[3])
        saved = httpx.post(address.join("/v1/threads/t/checkpoints"), json={"state": {"n": 1}})
        assert saved.status_code == 201
        server.terminate()
        reported = server.stdout.read().splitlines()
        assert server.wait(A_WHILE) == 0

    assert "memalchemy.checkpoint.save" in reported


def test_an_upgrade_says_that_vectors_are_stored_as_bytes_and_that_they_no_longer_are(
    postgres: Postgres, fresh: str, owner: str, call: Call
) -> None:
    url = postgres.url(fresh, user=owner)

    first = call("--db", url, "upgrade")
    assert first.out == "ran 0001; the database is at revision 0001\n"
    assert "vectors are stored as bytes" in first.err
    assert "CREATE EXTENSION vector" in first.err
    assert "vectors are stored as bytes" in call("--db", url, "check").err
    checked = call("--db", url, "check", "--json").json
    assert checked == {"ok": True, "revision": "0001", "warnings": [], "pgvector": False}

    put_vector(url)
    postgres.execute("CREATE EXTENSION vector", fresh)
    second = call("--db", url, "upgrade")
    assert second.out == (
        "converted the vectors from bytes to pgvector's type; the database is at revision 0001\n"
    )
    assert second.err == ""
    assert call("--db", url, "check", "--json").json["pgvector"] is True
    assert call("--db", url, "upgrade").out == "nothing to do; the database is at revision 0001\n"


def test_a_script_can_do_without_pgvector(
    postgres: Postgres, fresh: str, owner: str, call: Call
) -> None:
    url = postgres.url(fresh, user=owner)
    script = call("--db", url, "upgrade", "--sql", "--no-pgvector").out
    assert "EXTENSION" in call("--db", url, "upgrade", "--sql").out

    assert "EXTENSION" not in script
    postgres.execute(f"SET ROLE {owner};" + script, fresh)
    assert call("--db", url, "check", "--json").json["pgvector"] is False
    assert call("--db", url, "upgrade", "--no-pgvector").code == 2


def test_check_and_readiness_notice_a_table_that_is_gone(
    postgres: Postgres, fresh: str, call: Call
) -> None:
    url = postgres.url(fresh)
    call("--db", url, "upgrade")
    postgres.execute("DROP TABLE threads CASCADE", fresh)

    checked = call("--db", url, "check")
    assert checked.code == 1
    assert checked.err.startswith("error [MA-SCHEMA-INCOMPLETE]: ")
    assert "has no table threads" in checked.err


def test_an_empty_db_is_not_the_database_of_the_environment(
    filled: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALCHEMY_URL", filled)

    refused = call("threads", "--db", "")

    assert refused.code == 2
    assert refused.err.startswith("error [MA-USAGE]: --db is empty")

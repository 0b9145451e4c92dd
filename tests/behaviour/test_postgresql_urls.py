"""URLs as psql takes them lead both drivers to a real server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from memalchemy import Checkpointer, Database, MemalchemyError
from servers import Postgres, free_port, pgbouncer, pgbouncer_program

SCHEMES = ("postgresql", "postgresql+psycopg")


async def save_and_load(url: str) -> None:
    async with Database(url, migrate="upgrade") as db:
        checkpointer = Checkpointer(db)
        await checkpointer.save({"reached": True}, "thread")
        assert await checkpointer.load("thread") == {"reached": True}


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[str]:
    name = postgres.create_database()
    yield name
    postgres.drop_database(name)


def at_socket(postgres: Postgres, name: str) -> str:
    return f"://{postgres.user}@{quote(postgres.host, safe='')}:{postgres.port}/{name}"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("end", ["", "\n", "?ssl=false", "?sslmode=prefer", "?connect_timeout=9"])
async def test_a_socket_may_be_the_host(
    postgres: Postgres, empty: str, scheme: str, end: str
) -> None:
    if not postgres.host.startswith("/"):
        pytest.skip("the server is not reached by a socket")

    await save_and_load(f"{scheme}{at_socket(postgres, empty)}{end}")


async def test_asyncpg_may_be_without_prepared_statements(postgres: Postgres, empty: str) -> None:
    where = at_socket(postgres, empty)

    await save_and_load(f"postgresql{where}?statement_cache_size=0")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of localhost that signs itself, and its key beside it."""
    file = tmp_path / "server.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost"
    files = ["-out", str(file), "-keyout", str(tmp_path / "server.key")]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    for each in (file, tmp_path / "server.key", tmp_path):
        each.chmod(0o755)
    return file


@pytest.fixture
def front(postgres: Postgres, certificate: Path) -> Iterator[Postgres]:
    """PgBouncer, which takes connections with TLS."""
    if pgbouncer_program() is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    tls = (
        f"client_tls_sslmode = allow\nclient_tls_cert_file = {certificate}\n"
        f"client_tls_key_file = {certificate.with_name('server.key')}"
    )
    with pgbouncer(postgres, settings=tls) as front:
        yield front


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_certificate_of_the_url_proves_the_server(
    front: Postgres, empty: str, scheme: str, certificate: Path, tmp_path: Path
) -> None:
    verified = f"{empty}?pgbouncer=true&sslmode=verify-full&sslrootcert={quote(str(certificate))}"

    await save_and_load(f"{scheme}://{front.user}@localhost:{front.port}/{verified}")

    with pytest.raises(MemalchemyError):  # it is not the certificate of that name
        await save_and_load(f"{scheme}://{front.user}@127.0.0.1:{front.port}/{verified}")


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_the_first_host_of_several_may_be_down(
    front: Postgres, empty: str, scheme: str
) -> None:
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{front.port}"

    await save_and_load(f"{scheme}://{front.user}@{hosts}/{empty}?pgbouncer=true")

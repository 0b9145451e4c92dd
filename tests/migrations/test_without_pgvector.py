"""PostgreSQL without pgvector: vectors are bytes, all else works, and a later upgrade converts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from programs import CHECKOUT, alembic

from memalchemy import Checkpointer, Database, migrate
from memalchemy.maintenance import tenants
from servers import Postgres

VECTORS = {
    "short": [0.5, -1.25, 3.0],
    "long": [n / 7 for n in range(384)],
    "extremes": [0.0, -0.0, 1e-38, 3.4e38, 1 / 3],
}


@dataclass(frozen=True)
class Place:
    """A database that has no pgvector yet, and how it comes by it."""

    server: Postgres
    name: str
    role: str
    schema: str | None

    def open(self, **options: object) -> Database:
        url = self.server.url(self.name, user=self.role)
        return Database(url, schema=self.schema, **options)

    @property
    def embeddings(self) -> str:
        return f'"{self.schema or "public"}".embeddings'

    @property
    def vector_type(self) -> str:
        sql = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'vector' "
        ((found,),) = self.server.execute(
            sql + f"AND attrelid = '{self.embeddings}'::regclass", self.name
        )
        return found

    def install_pgvector(self) -> None:
        self.server.execute(f"ALTER DATABASE {self.name} RESET ALL")
        self.server.execute("CREATE EXTENSION vector", self.name)

    def fill(self, copies: int = 1) -> None:
        """Items and vectors as the library writes them without pgvector: little-endian float32."""
        prefix = self.embeddings.rsplit(".", 1)[0]
        with psycopg.connect(self.server.url(self.name)) as connection:
            for key, vector in VECTORS.items():
                connection.execute(
                    f"INSERT INTO {prefix}.store_items (tenant, namespace, key, meta, version, "
                    "codec, checksum, created_at, updated_at, value) "
                    r"VALUES ('t', '/a/', %s, '{}', 1, 'none', 0, now(), now(), '\x2d')",
                    [key],
                )
                connection.execute(
                    f"INSERT INTO {self.embeddings} (tenant, namespace, key, field, model, part, "
                    "dimensions, change, vector) SELECT 't', '/a/', %s, '', 'm', part, %s, 1, %s "
                    "FROM generate_series(1, %s) AS part",
                    [key, len(vector), struct.pack(f"<{len(vector)}f", *vector), copies],
                )


@pytest.fixture(params=["may not install it", "is not there"])
def reason(request: pytest.FixtureRequest, postgres: Postgres) -> str:
    ((version,),) = postgres.execute("SHOW server_version_num")
    if request.param == "is not there" and int(version) < 180000:
        pytest.skip("a server can hide its extensions from PostgreSQL 18 on")
    return request.param


@pytest.fixture(params=[None, "memory"])
def place(
    request: pytest.FixtureRequest, reason: str, postgres: Postgres, fresh_postgres: str
) -> Iterator[Place]:
    """A database whose role may make tables but not extensions, or a server without pgvector."""
    role = postgres.user
    if reason == "may not install it":
        role = f"migrator_{fresh_postgres}"
        postgres.execute(f"CREATE ROLE {role} LOGIN", fresh_postgres)
        postgres.execute(f"GRANT ALL ON SCHEMA public TO {role}", fresh_postgres)
        if request.param:
            schema = f'CREATE SCHEMA "{request.param}" AUTHORIZATION {role}'
            postgres.execute(schema, fresh_postgres)
    else:
        nowhere = f"ALTER DATABASE {fresh_postgres} SET extension_control_path = '/nowhere'"
        postgres.execute(nowhere)
    yield Place(postgres, fresh_postgres, role, request.param)
    if role != postgres.user:
        postgres.execute(f"DROP OWNED BY {role}", fresh_postgres)
        postgres.execute(f"DROP ROLE {role}")


async def test_vectors_are_bytes_and_all_else_works(place: Place) -> None:
    async with place.open(migrate="off") as db:
        assert await db.migrate() != []
        await db.check()
        checkpointer = Checkpointer(db)
        await checkpointer.save({"messages": ["the red fox"]}, "thread")
        assert await checkpointer.load("thread") == {"messages": ["the red fox"]}
        assert len(await checkpointer.search("fox")) == 1
    assert place.vector_type == "bytea"


async def test_without_pgvector_another_upgrade_leaves_the_bytes(place: Place) -> None:
    async with place.open(migrate="off") as db:
        await db.migrate()
        place.fill()
        assert await db.migrate() == []
    assert place.vector_type == "bytea"


def test_a_hosts_alembic_is_warned(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    url = place.server.url(place.name, driver="psycopg", user=place.role)
    schema = ("-x", f"schema={place.schema}") if place.schema else ()
    host = Path(__file__).with_name("host_app") / "alembic.ini"

    alembic(host, "-x", f"url={url}", *schema, "upgrade", "heads")

    (warning,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "stores vectors as bytes" in warning.message
    assert warning.name.startswith("alembic."), "an alembic.ini disables what it does not name"
    place.install_pgvector()
    caplog.clear()
    alembic(host, "-x", f"url={url}", *schema, "upgrade", "heads")
    assert [one for one in caplog.records if one.levelname == "WARNING"] == []


def test_the_alembic_command_says_that_it_converted(place: Place) -> None:
    ini = CHECKOUT / "alembic.ini"
    url = place.server.url(place.name, user=place.role)
    upgrade = ("-x", f"url={url}", *(("-x", f"schema={place.schema}") if place.schema else ()))
    alembic(ini, *upgrade, "upgrade", "head")
    place.install_pgvector()

    told = alembic(ini, *upgrade, "upgrade", "head")
    assert "converted the vectors from bytes to pgvector's type; the database is at" in told
    assert "nothing to do" in alembic(ini, *upgrade, "upgrade", "head")


async def test_an_upgrade_after_pgvector_came_converts_every_row_in_place(place: Place) -> None:
    async with place.open(migrate="off") as db:
        await db.migrate()
        place.fill(copies=700)  # more rows than are converted in one step
    place.install_pgvector()

    async with place.open(migrate="off") as db:
        assert await db.migrate() == []
        await db.check()

    assert place.vector_type == "vector"
    for key, vector in VECTORS.items():
        told = f"SELECT DISTINCT vector::real[], dimensions FROM {place.embeddings}"
        ((found, dimensions),) = place.server.execute(f"{told} WHERE key = '{key}'", place.name)
        assert struct.pack(f"{dimensions}f", *found) == struct.pack(f"{len(vector)}f", *vector)
    count = f"SELECT count(*) FROM {place.embeddings}"
    assert place.server.execute(count, place.name) == [(700 * len(VECTORS),)]


async def test_behind_a_wall_the_owner_converts_the_rows_of_all_tenants(place: Place) -> None:
    async with place.open(migrate="off") as db:
        await db.migrate()
        place.fill()
        wall = await tenants.enforce(db)
        assert wall.is_whole
    place.install_pgvector()

    async with place.open(migrate="off") as db:
        assert await db.migrate() == []
        assert (await db.tenant_wall()).is_whole

    assert place.vector_type == "vector"
    forced = "SELECT relforcerowsecurity FROM pg_class WHERE oid = "
    assert place.server.execute(f"{forced}'{place.embeddings}'::regclass", place.name) == [(True,)]
    count = f"SELECT count(*) FROM {place.embeddings}"
    assert place.server.execute(count, place.name) == [(len(VECTORS),)]


async def test_the_converted_column_is_the_one_a_fresh_upgrade_makes(place: Place) -> None:
    async with place.open(migrate="off") as db:
        await db.migrate()
        place.fill()
    place.install_pgvector()
    async with place.open(migrate="off") as db:
        await db.migrate()
        assert await db.migrate() == []
    ((nullable,),) = place.server.execute(
        "SELECT is_nullable FROM information_schema.columns WHERE table_name = 'embeddings' "
        "AND column_name = 'vector'",
        place.name,
    )
    assert nullable == "NO"
    with pytest.raises(psycopg.errors.NotNullViolation):
        place.server.execute(f"UPDATE {place.embeddings} SET vector = NULL", place.name)


async def test_a_schema_whose_name_needs_quotes_is_converted_too(
    postgres: Postgres, fresh_postgres: str
) -> None:
    place = Place(postgres, fresh_postgres, postgres.user, "Agent Memory")
    script = migrate.offline("postgresql", schema=place.schema, pgvector=False)
    postgres.execute(script, fresh_postgres)
    place.fill()
    async with place.open() as db:
        await db.migrate()
    assert place.vector_type == "vector"

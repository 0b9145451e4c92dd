"""The metadata of a thread itself: set on purpose, listed, copied by a fork, deleted with it."""

from __future__ import annotations

from typing import Any

import pytest

from memalchemy import Checkpointer, Database, NotFound, ThreadLog
from memalchemy.verify import verify


@pytest.fixture
def agents(db: Database) -> Checkpointer:
    return Checkpointer(db)


async def metadata_of(agents: Checkpointer, thread: str) -> dict[str, Any]:
    (log,) = await agents.list_logs(thread)
    return log.metadata


async def test_it_is_empty_until_it_is_set_and_is_replaced_as_a_whole(agents: Checkpointer) -> None:
    await agents.save({"n": 1}, "t", metadata={"step": 1})
    assert await metadata_of(agents, "t") == {}

    await agents.set_thread_metadata("t", {"title": "Zürich", "owner": {"id": 7, "vip": True}})
    assert await metadata_of(agents, "t") == {"title": "Zürich", "owner": {"id": 7, "vip": True}}

    await agents.save({"n": 2}, "t", metadata={"step": 2})
    await agents.set_thread_metadata("t", {"title": "Bern"})
    assert await metadata_of(agents, "t") == {"title": "Bern"}
    newest = await anext(agents.history("t"))
    assert newest.metadata == {"step": 2}
    assert (await verify(agents.db)).ok


async def test_it_neither_moves_the_thread_nor_stops_a_save_under_a_condition(
    agents: Checkpointer,
) -> None:
    first = await agents.save({"n": 1}, "older")
    await agents.save({"n": 1}, "newer")

    await agents.set_thread_metadata("older", {"title": "x"})

    assert await agents.list_threads() == ["newer", "older"]
    await agents.save({"n": 2}, "older", expected_parent=first)
    assert await metadata_of(agents, "older") == {"title": "x"}


async def test_each_namespace_has_its_own(agents: Checkpointer, db: Database) -> None:
    graph = Checkpointer(db, namespace=("graph",))
    await agents.save({}, "t")
    await graph.save({}, "t")
    await graph.set_thread_metadata("t", {"title": "graph"})

    assert await metadata_of(agents, "t") == {}
    assert await metadata_of(graph, "t") == {"title": "graph"}


async def test_a_log_of_entries_has_it_too(agents: Checkpointer, db: Database) -> None:
    log = ThreadLog(db)
    await log.append("t", ["hello"])
    owner = Checkpointer(db, namespace=log.namespace)

    await owner.set_thread_metadata("t", {"title": "x"})

    assert await metadata_of(owner, "t") == {"title": "x"}


async def test_a_fork_and_a_copy_have_it(agents: Checkpointer) -> None:
    await agents.save({"n": 1}, "t")
    await agents.set_thread_metadata("t", {"title": "x"})

    await agents.fork("t", new_thread_id="forked")
    await agents.copy_thread("t", "copied")

    assert await metadata_of(agents, "forked") == await metadata_of(agents, "copied")
    assert await metadata_of(agents, "forked") == {"title": "x"}


async def test_a_thread_that_begins_again_has_none(agents: Checkpointer) -> None:
    await agents.save({"n": 1}, "t")
    await agents.set_thread_metadata("t", {"title": "x"})
    await agents.delete("t")
    with pytest.raises(NotFound, match="'t'"):
        await agents.set_thread_metadata("t", {"title": "y"})

    await agents.save({"n": 1}, "t")
    assert await metadata_of(agents, "t") == {}


async def test_a_thread_that_is_not_there_and_what_is_no_metadata_are_refused(
    agents: Checkpointer,
) -> None:
    with pytest.raises(NotFound, match="'nowhere'"):
        await agents.set_thread_metadata("nowhere", {})
    await agents.save({}, "t")
    for wrong in ("title", [("a", 1)], {"a": object()}, {1: "a"}):
        with pytest.raises((TypeError, ValueError)):
            await agents.set_thread_metadata("t", wrong)  # type: ignore[arg-type]
    assert await metadata_of(agents, "t") == {}


async def test_it_is_part_of_a_transaction(agents: Checkpointer, db: Database) -> None:
    await agents.save({}, "t")

    async def fail() -> None:
        async with db.transaction() as tx:
            await agents.set_thread_metadata("t", {"title": "x"}, connection=tx)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await metadata_of(agents, "t") == {}

"""Forks and copies: threads of their own."""

from __future__ import annotations

import asyncio

import pytest

from memalchemy import Checkpointer, Conflict, Database, NotFound, ThreadLog


async def grow(checkpointer: Checkpointer, count: int, thread: str = "thread") -> list[str]:
    return [
        await checkpointer.save({"log": list(range(n))}, thread, f"c{n}", metadata={"n": n})
        for n in range(count)
    ]


async def test_a_fork_holds_the_history_up_to_its_checkpoint(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 30)
    fork = await checkpointer.fork("thread", "c20")

    assert fork.startswith("thread-fork-")
    ids = await checkpointer.list_checkpoints(fork, 100)
    assert ids == [f"c{n}" for n in range(20, -1, -1)]
    for n in range(21):
        assert await checkpointer.load(fork, f"c{n}") == {"log": list(range(n))}
    parents = [info.parent_id async for info in checkpointer.history(fork)]
    assert parents == [*ids[1:], None]
    assert (await checkpointer.get_metadata(fork))["metadata"] == {"n": 20}


async def test_a_fork_and_its_source_share_nothing(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 10)
    await checkpointer.fork("thread", new_thread_id="fork")
    await checkpointer.save({"log": "fork"}, "fork", "mine")
    await checkpointer.save({"log": "thread"}, "thread", "theirs")

    assert (await checkpointer.get_metadata("fork"))["parent_id"] == "c9"
    await checkpointer.delete("thread")
    for n in range(10):
        assert await checkpointer.load("fork", f"c{n}") == {"log": list(range(n))}
    assert await checkpointer.load("fork") == {"log": "fork"}


async def test_a_fork_can_be_forked(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 10)
    thread = "thread"
    for n in range(4):
        thread = await checkpointer.fork(thread, f"c{8 - n}")
        await checkpointer.save({"log": n}, thread)

    assert await checkpointer.load(thread, "c5") == {"log": list(range(5))}
    assert len(await checkpointer.list_checkpoints(thread, 100)) == 7


async def test_a_fork_needs_a_source_and_an_empty_target(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 3)
    await checkpointer.save({}, "taken")

    with pytest.raises(NotFound):
        await checkpointer.fork("no such thread")
    with pytest.raises(NotFound):
        await checkpointer.fork("thread", "nobody")
    with pytest.raises(ValueError, match="own"):
        await checkpointer.fork("thread", new_thread_id="thread")
    with pytest.raises(Conflict):
        await checkpointer.fork("thread", new_thread_id="taken")
    assert await checkpointer.fork("thread", new_thread_id="free") == "free"
    assert await checkpointer.load("taken") == {}


async def test_a_copy_keeps_ids_order_metadata_and_every_namespace(db: Database) -> None:
    one, two = Checkpointer(db), Checkpointer(db, namespace=("two",))
    await grow(one, 12)
    await one.save({"log": "branch"}, "thread", "branch", parent_id="c3")
    await one.delete("thread", "c4")
    await grow(two, 2)

    assert await one.copy_thread("thread", "copy") is True
    original = [info async for info in one.history("thread")]
    copied = [info async for info in one.history("copy")]
    assert [(i.checkpoint_id, i.parent_id, i.metadata, i.created_at) for i in copied] == [
        (i.checkpoint_id, i.parent_id, i.metadata, i.created_at) for i in original
    ]
    for info in original:
        assert await one.load("copy", info.checkpoint_id) == await one.load(
            "thread", info.checkpoint_id
        )
    assert await two.list_checkpoints("copy") == ["c1", "c0"]


async def test_a_copy_is_searchable_like_its_source(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"text": "needle"}, "thread", metadata={"k": "v"})
    await checkpointer.copy_thread("thread", "copy")

    assert {h["thread_id"] for h in await checkpointer.search("needle")} == {"thread", "copy"}
    assert len(await checkpointer.query_by_metadata("k", "v")) == 2


async def test_a_copy_of_nothing_is_false_and_onto_something_a_conflict(
    checkpointer: Checkpointer,
) -> None:
    await grow(checkpointer, 2)
    await checkpointer.save({"n": 1}, "taken")

    assert await checkpointer.copy_thread("no such thread", "copy") is False
    with pytest.raises(Conflict):
        await checkpointer.copy_thread("thread", "taken")
    with pytest.raises(ValueError, match="itself"):
        await checkpointer.copy_thread("thread", "thread")
    assert await checkpointer.load("taken") == {"n": 1}


async def test_a_copy_goes_where_a_thread_was_deleted(checkpointer: Checkpointer) -> None:
    await grow(checkpointer, 3)
    await grow(checkpointer, 5, "target")
    await checkpointer.delete("target")

    assert await checkpointer.copy_thread("thread", "target")
    await checkpointer.save({"log": "after"}, "target")
    assert len(await checkpointer.list_checkpoints("target")) == 4


async def test_of_many_copies_into_one_thread_one_succeeds(checkpointer: Checkpointer) -> None:
    for source in ("a", "b", "c", "d"):
        await checkpointer.save({"source": source}, source)
    results = await asyncio.gather(
        *(checkpointer.copy_thread(source, "target") for source in ("a", "b", "c", "d")),
        return_exceptions=True,
    )

    assert results.count(True) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 3
    winner = "abcd"[results.index(True)]
    assert await checkpointer.load("target") == {"source": winner}


async def test_a_thread_whose_checkpoints_are_all_deleted_is_empty(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 1}, "emptied", "only")
    await checkpointer.delete("emptied", "only")
    await checkpointer.save({"n": 2}, "source")

    assert await checkpointer.copy_thread("emptied", "copy") is False
    assert await checkpointer.copy_thread("source", "emptied") is True
    assert await checkpointer.load("emptied") == {"n": 2}


LONG_IDS = ["t" * 255, "t" * 242, "\U0001f600" * 255, "\x00" * 255, "\ud800" * 85, "ä" * 250]


@pytest.mark.parametrize("thread", LONG_IDS, ids=range(len(LONG_IDS)))
async def test_a_fork_of_a_thread_with_the_longest_id_has_one_that_fits(
    db: Database, thread: str
) -> None:
    agent, log = Checkpointer(db), ThreadLog(db)
    await agent.save({"n": 1}, thread)
    await log.append(thread, ["a"])

    forks = {await agent.fork(thread), await agent.fork(thread), await log.fork(thread)}

    assert len(forks) == 3
    for fork in forks:
        kept, _, digits = fork.rpartition("-fork-")
        assert thread.startswith(kept)
        assert len(kept) > 60
        assert len(digits) == 8

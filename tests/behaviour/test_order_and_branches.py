"""Order, lineage, branches, replacement, and saves under a condition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from memalchemy import Checkpointer, Conflict, Database, NotFound


async def lineage(checkpointer: Checkpointer, thread_id: str) -> dict[str, str | None]:
    return {i.checkpoint_id: i.parent_id async for i in checkpointer.history(thread_id)}


async def test_a_named_parent_makes_a_branch_for_this_save_alone(
    checkpointer: Checkpointer,
) -> None:
    a, b, c = [await checkpointer.save({"n": n}, "thread") for n in range(3)]
    branch = await checkpointer.save({"n": "branch"}, "thread", parent_id=a)
    after = await checkpointer.save({"n": "after"}, "thread")

    parents = await lineage(checkpointer, "thread")
    assert parents[branch] == a
    assert parents[after] == branch
    assert parents[c] == b
    assert await checkpointer.list_checkpoints("thread") == [after, branch, c, b, a]
    assert await checkpointer.load("thread") == {"n": "after"}


async def test_branches_off_every_step_keep_their_states(checkpointer: Checkpointer) -> None:
    states: dict[str, Any] = {}
    spine: list[str] = []
    for n in range(20):
        state = {"messages": [f"message {i}" for i in range(n)]}
        spine.append(await checkpointer.save(state, "thread"))
        states[spine[-1]] = state
    for n, parent in enumerate(spine):
        state = {"messages": [f"message {i}" for i in range(n)] + [f"branch {n}"]}
        states[await checkpointer.save(state, "thread", parent_id=parent)] = state

    for checkpoint_id, state in states.items():
        assert await checkpointer.load("thread", checkpoint_id) == state


async def test_a_parent_that_is_not_there_is_not_found(checkpointer: Checkpointer) -> None:
    with pytest.raises(NotFound):
        await checkpointer.save({}, "thread", parent_id="nobody")
    await checkpointer.save({}, "thread")
    with pytest.raises(NotFound):
        await checkpointer.save({}, "thread", parent_id="nobody")

    assert len(await checkpointer.list_checkpoints("thread")) == 1


async def test_a_save_can_demand_that_its_parent_is_the_newest(checkpointer: Checkpointer) -> None:
    first = await checkpointer.save({"n": 1}, "thread", expected_parent=None)
    second = await checkpointer.save({"n": 2}, "thread", expected_parent=first)

    with pytest.raises(Conflict) as caught:
        await checkpointer.save({"n": 3}, "thread", expected_parent=first)
    assert (caught.value.expected, caught.value.current) == (first, second)
    with pytest.raises(Conflict) as caught:
        await checkpointer.save({"n": 3}, "thread", expected_parent=None)
    assert (caught.value.expected, caught.value.current) == (None, second)
    assert await checkpointer.load("thread") == {"n": 2}


async def test_demanding_a_parent_in_a_thread_that_is_not_there_is_a_conflict(
    checkpointer: Checkpointer,
) -> None:
    with pytest.raises(Conflict) as caught:
        await checkpointer.save({}, "thread", expected_parent="first")

    assert caught.value.current is None
    assert not await checkpointer.exists("thread")


async def test_of_many_conditional_saves_at_once_exactly_one_succeeds(
    checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    first = await checkpointer.save({"n": 0}, "thread")
    async with reopen() as other:
        savers = [checkpointer, Checkpointer(other)] * 6
        results = await asyncio.gather(
            *(s.save({"n": n}, "thread", expected_parent=first) for n, s in enumerate(savers)),
            return_exceptions=True,
        )

    won = [result for result in results if isinstance(result, str)]
    assert len(won) == 1
    assert all(isinstance(r, Conflict) for r in results if not isinstance(r, str))
    assert await checkpointer.list_checkpoints("thread") == [won[0], first]


async def test_racing_plain_saves_form_one_line_and_none_is_lost(
    checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    async with reopen() as other:
        both = [checkpointer, Checkpointer(other)]
        ids = await asyncio.gather(
            *(both[n % 2].save({"n": n, "text": "x" * n}, "thread") for n in range(60))
        )

    history = [info async for info in checkpointer.history("thread")]
    assert sorted(info.checkpoint_id for info in history) == sorted(ids)
    assert [i.parent_id for i in history] == [i.checkpoint_id for i in history[1:]] + [None]
    for n, checkpoint_id in enumerate(ids):
        assert await checkpointer.load("thread", checkpoint_id) == {"n": n, "text": "x" * n}


async def test_saving_an_id_again_replaces_its_state_and_makes_it_the_newest(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 1}, "thread", "one")
    await checkpointer.save({"n": 2}, "thread", "two")
    await checkpointer.save({"n": 3}, "thread", "three")
    again = await checkpointer.save(
        {"n": "new"}, "thread", "one", {"again": True}, ttl=60, expected_parent="three"
    )

    assert again == "one"
    assert await checkpointer.list_checkpoints("thread") == ["one", "three", "two"]
    assert await checkpointer.load("thread") == {"n": "new"}
    assert await checkpointer.load("thread", "two") == {"n": 2}
    assert (await checkpointer.get_metadata("thread", "one"))["metadata"] == {"again": True}
    assert await lineage(checkpointer, "thread") == {"one": None, "three": "two", "two": "one"}


async def test_saving_the_newest_id_again_does_not_make_it_its_own_parent(
    checkpointer: Checkpointer,
) -> None:
    first = await checkpointer.save({"n": 0}, "thread")
    for n in range(10):
        await checkpointer.save({"n": n, "text": "x" * 10 * n}, "thread", "latest")

    assert await lineage(checkpointer, "thread") == {"latest": first, first: None}
    assert (await checkpointer.load("thread"))["n"] == 9


async def test_namespaces_keep_logs_of_one_thread_apart(db: Database) -> None:
    plain, graph = Checkpointer(db), Checkpointer(db, namespace=("graph", "a/b"))
    other = Checkpointer(db, namespace=("graph/a", "b"))
    for n, checkpointer in enumerate((plain, graph, other)):
        await checkpointer.save({"n": n}, "thread", "same-id")

    assert [await c.load("thread") for c in (plain, graph, other)] == [{"n": n} for n in range(3)]
    assert await graph.list_threads() == ["thread"]


async def test_tenants_see_nothing_of_each_other(db: Database) -> None:
    ours = Checkpointer(db)
    theirs = Checkpointer(db.for_tenant(db.tenant + "-other"))
    await ours.save({"secret": "word"}, "thread", "c", metadata={"k": 1})

    assert await theirs.load("thread") is None
    assert await theirs.load("thread", "c") is None
    assert await theirs.list_threads() == []
    assert await theirs.search("word") == []
    assert await theirs.query_by_metadata("k", 1) == []
    assert await theirs.list_with_metadata() == []
    assert not await theirs.delete("thread")
    await theirs.vacuum(0)
    assert await ours.load("thread") == {"secret": "word"}

"""Tool exchanges: visible after their commit, and still there after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import memalchemy
from memalchemy import Conflict, Conversation, Database, NotFound
from memalchemy.context import validate_tool_history
from memalchemy.events import Event, subscribe
from memalchemy.state import Message


def calls(*ids: str) -> dict[str, Any]:
    made = [{"id": id_, "name": "look", "arguments": {"q": id_}} for id_ in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(id_: str, text: str = "found") -> Message:
    return Message.tool(text, id_)


@pytest.fixture
async def talk(db: Database) -> Conversation:
    talk = memalchemy.Conversation(db, "t")
    await talk.add(Message.user("look"))
    return talk


async def test_an_exchange_is_visible_only_after_its_commit(talk: Conversation) -> None:
    begun = await talk.begin_tool_exchange(calls("a", "b"))
    half = await talk.add_tool_results(result("b"))
    before = await talk.messages(), await talk.history(), await talk.count()
    await talk.add(Message.user("still there?"))
    positions = await talk.commit_tool_exchange(result("a"))

    assert begun.missing == ["a", "b"]
    assert half.missing == ["a"]
    assert [message.text for message in half.messages] == ["", "found"]
    assert before == ([Message.user("look")], [Message.user("look")], 1)
    found = await talk.messages()
    assert [str(message.role) for message in found] == ["user", "user", "assistant", "tool", "tool"]
    assert [message.tool_call_id for message in found[3:]] == ["b", "a"]
    assert validate_tool_history(found).ok
    assert positions == [entry.position for entry in await talk.log.tail("t", 3)]
    assert await talk.active_tool_exchange() is None


async def test_after_a_crash_the_exchange_is_open_and_can_be_ended(
    db: Database, talk: Conversation
) -> None:
    await talk.begin_tool_exchange(calls("a", "b"))
    await talk.add_tool_results(result("a"))

    for_another = memalchemy.Conversation(db, "t")
    found = await for_another.active_tool_exchange()

    assert found is not None
    assert found.missing == ["b"]
    assert found.calls.tool_calls[0].arguments == {"q": "a"}
    assert await for_another.abort_tool_exchange() == found
    assert await talk.active_tool_exchange() is None
    assert await talk.abort_tool_exchange() is None
    assert await talk.messages() == [Message.user("look")]
    await talk.begin_tool_exchange(calls("c"))
    assert len(await for_another.commit_tool_exchange(result("c"))) == 2


async def test_results_have_to_fit_their_calls(talk: Conversation) -> None:
    await talk.begin_tool_exchange(calls("a", "b"))
    await talk.add_tool_results(result("a"))
    await talk.add_tool_results(result("a"))

    for wrong, why in [
        ([result("z")], "'z'; its calls are 'a', 'b'"),
        ([result("b"), result("a", "other")], "already have a result: 'a'"),
        ([result("b"), result("b", "other")], "already have a result: 'b'"),
        ([Message.user("b")], "is no result"),
        ([], "without a result: 'b'"),
    ]:
        with pytest.raises(ValueError, match=why):
            await talk.commit_tool_exchange(*wrong)
    exchange = await talk.active_tool_exchange()
    assert exchange is not None
    assert exchange.results == (result("a"),)
    assert await talk.count() == 1


async def test_a_message_without_calls_that_can_be_answered_begins_nothing(
    talk: Conversation,
) -> None:
    for wrong, why in [
        (Message.user("a"), "calls tools"),
        (calls(), "calls tools"),
        (calls("a", ""), "needs an id"),
        (calls("a", "a"), "one id: 'a'"),
    ]:
        with pytest.raises(ValueError, match=why):
            await talk.begin_tool_exchange(wrong)
    assert await talk.active_tool_exchange() is None
    with pytest.raises(NotFound, match="no tool exchange is open"):
        await talk.add_tool_results(result("a"))
    with pytest.raises(NotFound):
        await talk.commit_tool_exchange()


async def test_results_in_blocks_are_results_too(talk: Conversation) -> None:
    used = [{"type": "tool_use", "id": id_, "name": "look", "input": {}} for id_ in ("a", "b")]
    blocks = [{"type": "tool_result", "tool_use_id": id_, "content": "x"} for id_ in ("a", "b")]
    await talk.begin_tool_exchange({"role": "assistant", "content": used})
    await talk.commit_tool_exchange({"role": "user", "content": blocks})

    assert validate_tool_history(await talk.messages()).ok


async def test_only_one_exchange_is_open(db: Database, talk: Conversation) -> None:
    both = await asyncio.gather(
        *(memalchemy.Conversation(db, "t").begin_tool_exchange(calls(id_)) for id_ in "abc"),
        return_exceptions=True,
    )

    assert sorted(isinstance(one, Conflict) for one in both) == [False, True, True]
    exchange = await talk.active_tool_exchange()
    assert exchange in both


async def test_of_several_concurrent_commits_one_succeeds(db: Database, talk: Conversation) -> None:
    await talk.begin_tool_exchange(calls("a"))
    both = await asyncio.gather(
        *(memalchemy.Conversation(db, "t").commit_tool_exchange(result("a")) for _ in range(3)),
        return_exceptions=True,
    )

    assert sorted(isinstance(one, NotFound) for one in both) == [False, True, True]
    assert await talk.count() == 3


async def test_an_exchange_is_part_of_the_hosts_transaction(
    db: Database, talk: Conversation
) -> None:
    await talk.begin_tool_exchange(calls("a"))

    async def fails() -> None:
        async with db.transaction() as tx:
            await talk.commit_tool_exchange(result("a"), connection=tx)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    assert await talk.count() == 1
    assert (await talk.active_tool_exchange()) is not None


async def test_an_exchange_is_removed_with_its_own_conversation(db: Database) -> None:
    one, other = (memalchemy.Conversation(db, "t", namespace=(name,)) for name in ("x", "y"))
    for talk in (one, other):
        await talk.begin_tool_exchange(calls("a"))
    await one.clear()

    assert await one.active_tool_exchange() is None
    assert await other.active_tool_exchange() is not None
    await other.delete()
    assert await other.active_tool_exchange() is None


async def test_each_stage_publishes_an_event_without_the_text(talk: Conversation) -> None:
    told: list[Event] = []
    end = subscribe(told.append)
    try:
        await talk.begin_tool_exchange(calls("a"))
        await talk.abort_tool_exchange()
        await talk.begin_tool_exchange(calls("b", "c"))
        await talk.commit_tool_exchange(result("b", "secret"), result("c"))
    finally:
        end()

    stages = [event for event in told if event.name.startswith("memory.exchange.")]
    assert [(event.name.rpartition(".")[2], event.details) for event in stages] == [
        ("begun", {"calls": 1, "results": 0}),
        ("aborted", {"calls": 1, "results": 0}),
        ("begun", {"calls": 2, "results": 0}),
        ("committed", {"calls": 2, "results": 2}),
    ]
    assert "secret" not in repr(told)

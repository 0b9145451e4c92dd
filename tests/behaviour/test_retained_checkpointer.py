"""Removal of old messages from states by `RetainedCheckpointer`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import memalchemy
from memalchemy import Checkpointer, Database, NotSerialisable
from memalchemy.context import message_time, oldest_message_time
from memalchemy.contracts import Progress
from memalchemy.state import AgentState, Message

DAY = timedelta(days=1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """Clock that stands still until it is set."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        return self.time

    def days(self, number: int) -> None:
        self.time = NOON + number * DAY


@pytest.fixture
def clock() -> Clock:
    return Clock()


def said(state: Any) -> list[str]:
    messages = state["messages"] if isinstance(state, dict) else state.messages
    return [Message.of(message).text for message in messages]


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": "be kind"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "look"}]}
RESULT = {"role": "tool", "content": "found", "tool_call_id": "c1"}


async def test_old_messages_are_removed_by_the_next_save(db: Database, clock: Clock) -> None:
    saves = memalchemy.RetainedCheckpointer(db, 30 * DAY, clock=clock)
    await saves.save({"messages": [SYSTEM, user("old"), CALL, RESULT, answer("so")]}, "t")
    clock.days(29)
    state = await saves.load("t")
    state["messages"].append(user("new"))
    await saves.save(state, "t")
    kept = await saves.load("t")
    clock.days(31)
    await saves.save({**kept, "step": 3}, "t")

    assert said(kept) == ["be kind", "old", "", "found", "so", "new"]
    assert said(await saves.load("t")) == ["be kind", "new"]
    assert (await saves.load("t"))["step"] == 3
    assert oldest_message_time(kept["messages"]) == NOON
    assert message_time(kept["messages"][-1]) == NOON + 29 * DAY


async def test_an_exchange_goes_whole_when_its_newest_message_is_old(
    db: Database, clock: Clock
) -> None:
    saves = memalchemy.RetainedCheckpointer(db, 30 * DAY, clock=clock)
    await saves.save({"messages": [user("a"), CALL]}, "t")
    clock.days(10)
    state = await saves.load("t")
    await saves.save({"messages": [*state["messages"], RESULT, user("b")]}, "t")
    clock.days(35)
    await saves.save(await saves.load("t"), "t")
    half_old = said(await saves.load("t"))
    clock.days(41)
    await saves.save(await saves.load("t"), "t")

    assert half_old == ["a", "", "found", "b"]
    assert said(await saves.load("t")) == []


async def test_messages_keep_their_age_if_an_application_drops_the_stamps(
    db: Database, clock: Clock
) -> None:
    messages = [user("yes"), answer("good"), user("yes"), answer("good")]
    await memalchemy.RetainedCheckpointer(db, 30 * DAY, clock=clock).save(
        {"messages": messages[:2]}, "t"
    )
    clock.days(20)
    # Another process, which has never seen the first save.
    saves = memalchemy.RetainedCheckpointer(db, 30 * DAY, clock=clock)
    await saves.save({"messages": messages}, "t")
    clock.days(31)
    await saves.save({"messages": messages}, "t")
    one_left = [message_time(message) for message in (await saves.load("t"))["messages"]]
    clock.days(51)
    await saves.save({"messages": messages}, "t")

    assert one_left == [NOON + 20 * DAY] * 2
    assert said(await saves.load("t")) == []


async def test_a_state_keeps_at_most_keep_messages_and_no_half_call(db: Database) -> None:
    saves = memalchemy.RetainedCheckpointer(db, keep_messages=3)
    await saves.save({"messages": [SYSTEM, user("a"), CALL, RESULT, answer("b"), user("c")]}, "t")

    assert said(await saves.load("t")) == ["be kind", "a", "b", "c"]


async def test_the_time_in_the_metadata_of_a_message_is_its_age(db: Database, clock: Clock) -> None:
    saves = memalchemy.RetainedCheckpointer(db, 30 * DAY, clock=clock, state_type=AgentState)
    long_ago = {"occurred_at": "2020-01-01T00:00:00"}
    state = AgentState(messages=(Message.user("a", metadata=long_ago), Message.user("b")))
    await saves.save(state, "t")

    found = await saves.load("t")

    assert said(found) == ["b"]
    assert found.messages[0].metadata == {"stored_at": NOON.isoformat()}
    assert said(state) == ["a", "b"]
    assert state.messages[1].metadata == {}


async def test_states_without_messages_are_saved_unchanged(db: Database) -> None:
    saves = memalchemy.RetainedCheckpointer(db, 1, keep_messages=1)
    for state in ({"step": 1}, {"messages": []}, {"messages": ["a", "b"]}, {"messages": None}):
        await saves.save(state, "t")

        assert await saves.load("t") == state
    with pytest.raises(NotSerialisable, match="/messages/0/content"):
        await saves.save({"messages": [user(object())]}, "t")  # type: ignore[arg-type]


async def test_purging_saves_the_newest_state_without_its_old_messages(
    db: Database, clock: Clock
) -> None:
    saves = memalchemy.RetainedCheckpointer(db, clock=clock)
    for thread in ("a", "b"):
        await saves.save({"messages": [user("old"), answer("so")]}, thread, metadata={"n": 1})
    clock.days(20)
    state = await saves.load("b")
    await saves.save({"messages": [*state["messages"], user("new")]}, "b", "late")
    await saves.save({"step": 1}, "c")
    clock.days(31)
    seen: list[Progress] = []

    assert await saves.purge_messages(40 * DAY) == 0
    assert await saves.purge_messages(30 * DAY, progress=seen.append) == 4
    assert await saves.purge_messages(30 * DAY) == 0

    assert [said(await saves.load(thread)) for thread in ("a", "b")] == [[], ["new"]]
    assert [(one.done, one.total, one.removed) for one in seen] == [(1, 3, 2), (2, 3, 4), (3, 3, 4)]
    told = await saves.get_metadata("a")
    assert told is not None
    assert told["metadata"] == {"n": 1, "source": "purge_messages"}
    assert said(await saves.load("b", "late")) == ["old", "so", "new"]


async def test_purging_with_its_history_leaves_no_trace_in_the_thread(
    db: Database, clock: Clock
) -> None:
    saves = memalchemy.RetainedCheckpointer(db, clock=clock)
    for step in range(5):
        await saves.save({"messages": [user("the secret")], "step": step}, "t")
    await saves.save({"messages": [user("young")]}, "u")
    clock.days(31)
    state = await saves.load("t")
    await saves.save({"messages": [*state["messages"], user("young")]}, "t")

    assert await saves.purge_messages(30 * DAY, thread_id="t", history=True) == 1
    assert len(await saves.list_checkpoints("t")) == 1
    assert len(await saves.list_checkpoints("u")) == 1
    assert said(await saves.load("t")) == ["young"]
    assert await saves.search("secret") == []
    assert (await saves.get_storage_stats("t"))["total_checkpoints"] == 1


async def test_states_of_a_plain_checkpointer_are_as_old_as_their_save(db: Database) -> None:
    await Checkpointer(db).save({"messages": [user("old")]}, "t")
    later = memalchemy.RetainedCheckpointer(db, clock=lambda: datetime.now(UTC) + 31 * DAY)

    assert await later.purge_messages(40 * DAY) == 0
    assert await later.purge_messages(30 * DAY) == 1
    assert said(await Checkpointer(db).load("t")) == []


@pytest.mark.asyncio_only(reason="it happens in the middle of a call of the asynchronous object")
async def test_a_save_while_it_purges_is_not_lost(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = memalchemy.RetainedCheckpointer(db, clock=clock)
    await saves.save({"messages": [user("old")]}, "t")
    clock.days(31)
    other, load, times = Checkpointer(db), Checkpointer.load, []

    async def load_and_be_late(self: Checkpointer, *args: Any, **kw: Any) -> Any:
        found = await load(self, *args, **kw)
        if not times:
            times.append(1)
            await other.save({"messages": [*found["messages"], user("meanwhile")]}, "t")
        return found

    monkeypatch.setattr(Checkpointer, "load", load_and_be_late)

    assert await saves.purge_messages(30 * DAY, thread_id="t") == 1
    monkeypatch.undo()
    assert said(await other.load("t")) == ["meanwhile"]


async def test_it_takes_all_settings_of_a_checkpointer(db: Database) -> None:
    saves = memalchemy.RetainedCheckpointer(
        db, namespace=("kept",), index_text=["messages"], radix=8, max_chain_depth=4
    )
    await saves.save({"messages": [user("a zebra")], "note": "a walrus"}, "t")

    assert len(await saves.search("zebra")) == 1
    assert await saves.search("walrus") == []
    with pytest.raises(TypeError, match="unknown"):
        memalchemy.RetainedCheckpointer(db, unknown=1)


def test_an_age_and_a_number_are_checked() -> None:
    db = Database("sqlite://")
    with pytest.raises(ValueError, match="at least 1"):
        memalchemy.RetainedCheckpointer(db, keep_messages=0)
    with pytest.raises(ValueError, match="max_age must be longer than zero"):
        memalchemy.RetainedCheckpointer(db, -1)
    with pytest.raises(ValueError, match="max_age must be longer than zero"):
        memalchemy.RetainedCheckpointer(db, max_age=timedelta(0))


async def test_search_hits_include_the_state(db: Database, clock: Clock) -> None:
    saves = memalchemy.RetainedCheckpointer(db, 30 * DAY, clock=clock)
    await saves.save({"messages": [user("a zebra")], "agent": "a7"}, "t", "c", {"k": "v"})

    (by_words,) = await saves.search("zebra", data=True)
    (by_metadata,) = await saves.query_by_metadata("k", "v", data=True)
    (by_field,) = await saves.search_data("agent", "a7")
    assert by_words["data"] == by_metadata["data"] == by_field["data"] == await saves.load("t")

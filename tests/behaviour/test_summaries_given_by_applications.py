"""A summary that an application gave: when it reaches the model, and when it is gone."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memalchemy
from drawn_examples import examples
from memalchemy import Conversation, ConversationStore, Database
from memalchemy.context import (
    ContextCompactor,
    ConversationManager,
    NullManager,
    SlidingWindowManager,
    SummarizingManager,
    TokenBudgetManager,
    estimate_tokens,
)
from memalchemy.conversations._stored_summary import GIVEN
from memalchemy.state import Message
from waiting import give_time_to_go_wrong

GIST = "Ada is allergic to nuts."


class LastOnly(ConversationManager):
    """A manager of an application that knows nothing of summaries."""

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        return list(messages[-1:])


def keep_all(messages: list[Any], previous: str | None) -> str:
    """A summariser that forgets nothing of what it was told."""
    return " ".join(filter(None, [previous, *(message.text for message in messages)]))


MANAGERS: dict[str, Callable[[int], ConversationManager | None]] = {
    "none": lambda size: None,
    "null": lambda size: NullManager(),
    "sliding": SlidingWindowManager,
    "sliding without systems": lambda size: SlidingWindowManager(size, preserve_system=False),
    "budget": lambda size: TokenBudgetManager(60 + size),
    "budget without systems": lambda size: TokenBudgetManager(60 + size, preserve_system=False),
    "summarizing": lambda size: SummarizingManager(size + 1, size, keep_all),
    "compactor": lambda size: ContextCompactor(150, summarize_fn=keep_all, head_turns=0),
    "one's own": lambda size: LastOnly(),
}

few = settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def said(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def chat(count: int, name: str = "m") -> list[Message]:
    make = (Message.user, Message.assistant)
    return [make[n % 2](f"{name}{n}") for n in range(count)]


async def give(talk: Conversation, how: str, messages: list[Message], summarized: int) -> None:
    if how == "set":
        await talk.add(messages)
        await talk.set_summary(GIST, summarized=summarized)
    else:
        await talk.restore({"messages": messages, "summary": GIST, "summarized": summarized})


@pytest.mark.parametrize("name", MANAGERS)
@few
@given(
    how=st.sampled_from(["set", "restored"]),
    count=st.integers(0, 8),
    summarized=st.integers(0, 8),
    more=st.lists(st.tuples(st.integers(0, 6), st.sampled_from(sorted(MANAGERS))), max_size=3),
    size=st.integers(1, 6),
)
async def test_a_summary_that_was_given_reaches_the_model(
    db: Database,
    name: str,
    how: str,
    count: int,
    summarized: int,
    more: list[tuple[int, str]],
    size: int,
) -> None:
    """Whatever manager reads it, and whatever other managers have read and summarised before."""
    talk = Conversation(db, uuid.uuid4().hex)
    await give(talk, how, chat(count), min(summarized, count))
    for added, other in more:
        await talk.add(chat(added, "n"))
        talk.manager = MANAGERS[other](size)
        assert GIST in await talk.text(), other

    talk.manager = MANAGERS[name](size)
    shown = await talk.messages()

    assert sum(GIST in message.text for message in shown) == 1
    assert GIST in await talk.text()


async def test_without_a_manager_the_messages_follow_that_no_summary_stands_for(
    db: Database,
) -> None:
    talk = Conversation(db, "t")
    await talk.add(Message.system("rules"), *chat(4))

    await talk.set_summary(GIST, summarized=3)
    first, told, *rest = said(await talk.messages())
    assert (first, rest) == ("rules", ["m2", "m3"])
    assert told.endswith(GIST)
    await talk.set_summary(None)
    assert said(await talk.messages()) == ["rules", "m0", "m1", "m2", "m3"]


async def test_a_summary_of_messages_elsewhere_outlives_changes_of_the_messages(
    db: Database,
) -> None:
    talk = Conversation(db, "t", manager=SummarizingManager(4, 2, keep_all))
    await give(talk, "set", chat(8), 0)
    assert "m0" in said(await talk.messages())[0]

    await talk.log.edit("t", 1, Message.user("changed").to_record())

    for manager in (SummarizingManager(4, 2, keep_all), None):
        text = await Conversation(db, "t", manager=manager).text()
        assert (GIST in text, "m0" in text, "changed" in text) == (True, False, True)


async def test_a_summary_that_a_manager_wrote_is_shown_to_managers_that_summarise(
    db: Database,
) -> None:
    talk = Conversation(db, "t", manager=SummarizingManager(4, 2))
    await talk.add(chat(8))
    await talk.messages()

    assert await Conversation(db, "t").messages() == await talk.history()


async def test_a_budget_is_not_exceeded_by_a_summary(db: Database) -> None:
    talk = Conversation(db, "t", manager=TokenBudgetManager(60))
    await talk.restore({"messages": chat(4), "summary": GIST + " x" * 2_000})

    shown = await talk.messages()

    assert sum(map(estimate_tokens, shown)) <= 60
    assert GIST in shown[0].text
    assert shown[-1].text == "m3"


@few
@given(
    saves=st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["list", "snapshot", "summary", "summarized", "managed"]),
        ),
        min_size=1,
        max_size=6,
    )
)
async def test_a_saved_list_takes_the_place_of_all_that_was_there(
    db: Database, saves: list[tuple[int, str]]
) -> None:
    store, thread_id = ConversationStore(db), uuid.uuid4().hex
    gist: str | None = None

    for at, (count, what) in enumerate(saves):
        messages = chat(count)
        gist = f"gist {at}" if what.startswith("summar") else None
        match what:
            case "list":
                await store.save(thread_id, messages)
            case "snapshot":
                await store.save(thread_id, {"messages": messages, "todo": at})
            case "managed":
                talk = store.conversation(thread_id, manager=SummarizingManager(2, 1))
                await talk.add(chat(6, "n"))
                await talk.messages()
                await store.save(thread_id, messages)
            case _:
                stands_for = {"summarized": count} if what == "summarized" else {}
                await store.save(thread_id, {"messages": messages, "summary": gist, **stands_for})
        found = await store.load_snapshot(thread_id) or {"messages": [], "summary": None}
        assert found["messages"] == [message.to_record() for message in messages]
        assert found["summary"] == gist
        assert found.get("todo") == (at if what == "snapshot" else None)
        managed = store.conversation(thread_id, manager=SummarizingManager(3, 1))
        assert ("gist" in await managed.text()) is (gist is not None)


@pytest.mark.asyncio_only(reason="it stores what an earlier release stored")
async def test_a_summary_stored_by_an_earlier_release_is_read_as_before(db: Database) -> None:
    """Its message has no mark: one that stands for no message was given, another by a manager."""
    talk = Conversation(db, "t")
    await talk.add(chat(4))
    for summarized, shown in ((0, True), (2, False)):
        await talk.set_summary(GIST, summarized=summarized)
        stored = await talk._summary.read(None)
        assert stored is not None
        record = stored.messages[-1]
        told = {k: v for k, v in record["metadata"]["summary"].items() if k != GIVEN}
        old = replace(stored, messages=[record | {"metadata": {"summary": told}}])
        assert await talk._summary.replace(old, stored, None)

        assert (GIST in await talk.text()) is shown
        managed = memalchemy.Conversation(db, "t", manager=SummarizingManager(9, 2))
        assert GIST in await managed.text()


@pytest.mark.asyncio_only(reason="it counts calls at once in one event loop")
@pytest.mark.parametrize("shared", [True, False], ids=["one manager", "a manager each"])
async def test_ten_calls_at_once_have_one_summary_written(db: Database, shared: bool) -> None:
    times = 0
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(messages: list[Any]) -> str:
        nonlocal times
        times += 1
        asked.set()
        await go.wait()
        return f"summary {times}"

    def manager() -> SummarizingManager:
        return SummarizingManager(4, 2, slow)

    one = manager()
    talks = [Conversation(db, "t", manager=one if shared else manager()) for _ in range(10)]
    await talks[0].add(chat(8))
    reading = [asyncio.create_task(talk.messages()) for talk in talks]
    await asked.wait()
    await give_time_to_go_wrong()
    other = await Conversation(db, "u", manager=SummarizingManager(4, 2)).messages()
    go.set()
    first, *rest = await asyncio.gather(*reading)

    assert times == 1
    assert first[0].text.endswith("summary 1")
    assert all(said(one) == said(first) for one in rest)
    assert other == []

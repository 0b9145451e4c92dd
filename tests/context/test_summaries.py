"""Summaries of the first part of a conversation, by a model or without one."""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from conversations import MAKES, Foreign, chat, check, conversations, places, system, texts, user
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.context import ContextCompactor, SummarizingManager, summarizers, trim_to_recent
from memalchemy.context.summary import DIGEST_LINES
from memalchemy.events import Event, subscribe
from memalchemy.messages import role_of, text_of
from memalchemy.state import Message
from waiting import A_WHILE, until


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    unsubscribe = subscribe(seen.append)
    yield seen
    unsubscribe()


def count(messages: list[Any]) -> str:
    return f"{len(messages)} messages were said"


async def slowly(messages: list[Any]) -> str:
    await asyncio.sleep(0)
    return count(messages)


class Agent:
    async def __call__(self, messages: list[Any]) -> str:
        return await slowly(messages)

    def ask(self, messages: list[Any]) -> Any:
        return slowly(messages)


SUMMARISERS = {
    "function": count,
    "coroutine function": slowly,
    "partial": functools.partial(slowly),
    "object with an async call": Agent(),
    "method that returns an awaitable": Agent().ask,
    "lambda that returns an awaitable": lambda messages: slowly(messages),
}


@given(conversations(), st.integers(1, 4), st.integers(1, 6))
def test_a_summary_keeps_calls_with_their_results_and_all_system_messages(
    messages: list[Any], keep: int, more: int
) -> None:
    before = copy.deepcopy(messages)
    manager = SummarizingManager(keep + more, keep)

    managed = manager.apply(messages)

    check(messages, managed)
    assert messages == before
    assert places(messages, managed).count(None) <= 1
    assert managed[-1:] == trim_to_recent(messages, 1)[-1:]
    assert manager.apply(managed) == managed


@pytest.mark.parametrize("ask", SUMMARISERS.values(), ids=SUMMARISERS)
async def test_a_summariser_may_be_asynchronous_in_every_way(ask: Any) -> None:
    managed = await SummarizingManager(4, 2, ask).async_apply(chat(3))

    assert texts(managed) == [
        "be kind",
        "[Summary of previous conversation (4 messages)]:\n4 messages were said",
        "question 3",
        "answer 3",
    ]


@pytest.mark.parametrize("ask", SUMMARISERS.values(), ids=SUMMARISERS)
def test_synchronous_code_gets_the_same_summary(ask: Any) -> None:
    managed = SummarizingManager(4, 2, ask).apply(chat(3))

    assert texts(managed)[1].endswith("4 messages were said")


@pytest.mark.parametrize("ask", list(SUMMARISERS.values())[1:], ids=list(SUMMARISERS)[1:])
async def test_apply_with_an_async_summariser_in_a_running_loop_is_an_error(ask: Any) -> None:
    with pytest.raises(RuntimeError, match=r"await manager\.async_apply"):
        SummarizingManager(4, 2, ask).apply(chat(3))

    assert texts(SummarizingManager(4, 2, count).apply(chat(3)))[1].endswith("were said")


async def test_a_summariser_that_blocks_does_not_block_the_loop() -> None:
    began, go_on = threading.Event(), threading.Event()

    def blocking(messages: list[Any]) -> str:
        began.set()
        assert go_on.wait(A_WHILE)
        return "at last"

    asked = asyncio.create_task(SummarizingManager(4, 2, blocking).async_apply(chat(3)))
    await until(began.is_set)
    go_on.set()

    assert texts(await asked)[1].endswith("at last")


@pytest.mark.parametrize("make", sorted(MAKES))
def test_the_summary_is_a_message_like_the_others(make: str) -> None:
    messages = [MAKES[make](**message) for message in chat(3)]

    summary = SummarizingManager(4, 2, count).apply(messages)[1]

    assert type(summary) is type(messages[0])
    assert role_of(summary) == "system"
    if make == "Message":
        assert summary.metadata == {"summary": {"messages": 4, "fallback": None}}
    if make == "dict":
        assert summary.keys() == {"role", "content"}, "an API refuses keys it does not know"


def test_a_summary_among_dicts_with_metadata_has_metadata() -> None:
    messages = [{**message, "metadata": {}} for message in chat(3)]

    assert SummarizingManager(4, 2, count).apply(messages)[1]["metadata"]["summary"]


def test_messages_of_a_class_that_cannot_be_constructed_are_an_error() -> None:
    class Odd:
        def __init__(self, n: int) -> None:
            self.role, self.content = "user", str(n)

    with pytest.raises(TypeError, match=r"convert the messages with Message\.of"):
        SummarizingManager(2, 1).apply([Odd(n) for n in range(5)])


def test_up_to_the_threshold_nothing_happens(events: list[Event]) -> None:
    assert SummarizingManager(6, 2, count).apply(chat(3)) == chat(3)
    assert SummarizingManager(6, 2).apply([]) == []
    assert events == []


def test_the_earlier_summary_becomes_part_of_the_next() -> None:
    asked: list[list[str]] = []

    def ask(messages: list[Any]) -> str:
        asked.append([text_of(message) for message in messages])
        return f"summary {len(asked)}"

    manager = SummarizingManager(4, 2, ask)
    talk = manager.apply([Message.of(message) for message in chat(3)])
    talk = SummarizingManager(4, 2, ask).apply([*talk, *map(Message.of, chat(2)[1:])])

    assert asked[1] == [
        "[Summary of previous conversation (4 messages)]:\nsummary 1",
        "question 3",
        "answer 3",
        "question 1",
        "answer 1",
    ]
    assert [m.text for m in talk if "Summary" in m.text] == [
        "[Summary of previous conversation (8 messages)]:\nsummary 2"
    ]


@pytest.mark.parametrize("named", [True, False])
def test_a_summariser_may_take_the_earlier_summary_by_itself(named: bool) -> None:
    asked: list[tuple[int, str | None]] = []

    def by_name(messages: list[Any], *, previous_summary: str | None = None) -> str:
        asked.append((len(messages), previous_summary))
        return "so it began"

    def by_place(messages: list[Any], before: str | None) -> str:
        return by_name(messages, previous_summary=before)

    manager = SummarizingManager(4, 2, by_name if named else by_place)
    manager.apply([*manager.apply(chat(3)), *chat(2)[1:]])

    assert asked == [(4, None), (4, "so it began")]


def test_no_part_of_a_whole_conversation_is_summarised_twice() -> None:
    asked: list[list[str]] = []

    def ask(messages: list[Any], previous_summary: str | None) -> str:
        asked.append(texts(messages))
        return f"{previous_summary or ''}+{len(messages)}"

    manager = SummarizingManager(6, 2, ask)
    sizes = [len(manager.apply(chat(turns))) for turns in range(1, 13)]

    assert asked == [texts(chat(9)[1 + start :][:6]) for start in (0, 6, 12)]
    assert max(sizes) == len([system("be kind"), system("summary")]) + 6
    assert texts(manager.apply(chat(10)))[1] == (
        "[Summary of previous conversation (18 messages)]:\n+6+6+6"
    )
    assert len(asked) == 3


def test_a_manager_remembers_a_limited_number_of_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summarizers, "REMEMBERED_SUMMARIES", 3)
    asked: list[Any] = []

    def ask(messages: list[Any]) -> str:
        asked.append(messages)
        return "told"

    manager = SummarizingManager(2, 1, ask)
    for name in "abcdef":
        manager.apply([user(f"{name}{n}") for n in range(4)])
    manager.apply([user(f"f{n}") for n in range(4)])
    assert len(asked) == 6
    manager.apply([user(f"a{n}") for n in range(4)])
    assert len(asked) == 7
    assert len(manager._summaries) == 3


async def never(messages: list[Any]) -> str:
    await asyncio.Event().wait()
    raise AssertionError


def hangs(messages: list[Any]) -> str:
    threading.Event().wait(5)  # timed: the thread of the summariser ends then, and nobody waits
    return "too late"


def fails(messages: list[Any]) -> str:
    raise ConnectionError("the key is s3cret")


async def streams(messages: list[Any]) -> AsyncIterator[str]:
    yield "no text"


FAILURES = {
    "TimeoutError": [never, hangs],
    "ConnectionError": [fails],
    "TypeError": [lambda messages: 7, streams],
    "ValueError": [lambda messages: "  "],
}


@pytest.mark.parametrize(
    ("error", "ask"), [(error, ask) for error, asks in FAILURES.items() for ask in asks]
)
async def test_a_digest_in_place_of_a_failed_summary_says_so_everywhere(
    error: str, ask: Any, events: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    messages = [Message.of(message) for message in chat(3)]

    timeout = 0.02 if error == "TimeoutError" else A_WHILE
    summary = (await SummarizingManager(4, 2, ask, timeout=timeout).async_apply(messages))[1]

    assert summary.metadata == {"summary": {"messages": 4, "fallback": error}}
    header, *lines = summary.text.splitlines()
    assert header == (
        f"[Summary of previous conversation (4 messages; the summariser failed: {error})]:"
    )
    assert lines[0] == "- user: question 1"
    assert events[-1].details["fallback"] == error
    assert f"summarising 4 messages failed ({error})" in caplog.text
    assert "s3cret" not in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


def test_the_timeout_holds_for_synchronous_code_too() -> None:
    for ask in (never, hangs, fails):
        text = texts(SummarizingManager(4, 2, ask, timeout=0.02).apply(chat(3)))[1]
        assert "the summariser failed: " in text


def test_after_a_failure_the_next_summary_is_made_from_the_messages() -> None:
    broken, asked = [True], []

    def ask(messages: list[Any], previous_summary: str | None) -> str:
        asked.append((texts(messages), previous_summary))
        if broken:
            raise ConnectionError
        return "all is well"

    manager = SummarizingManager(4, 2, ask)
    first = manager.apply(chat(3))
    again = manager.apply(chat(3))
    broken.clear()
    later = manager.apply(chat(5))

    assert "ConnectionError" in texts(first)[1]
    assert again == first
    assert texts(later)[1] == "[Summary of previous conversation (8 messages)]:\nall is well"
    assert [previous for _, previous in asked] == [None, None]
    assert asked[1][0] == texts(chat(4)[1:])


class Answer:
    def __init__(self, words: str) -> None:
        self.words = words

    def text(self) -> str:
        return self.words


class TaskAgent:
    """Agent with the interface of LazyBridge's: it is asked with a text."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, task: str) -> Answer:
        self.asked.append(task)
        return Answer("the gist")

    def __call__(self, task: str) -> Answer:
        raise AssertionError("run() is there to be awaited")


class PlainAgent:
    """Agent without ``__call__`` whose `run` is no coroutine."""

    def run(self, task: str) -> str:
        assert isinstance(task, str)
        return "the gist"


async def test_an_agent_may_summarise_and_is_given_a_transcript() -> None:
    agent = TaskAgent()
    manager = SummarizingManager(4, 2, agent)

    first = await manager.async_apply(chat(3))
    again = await manager.async_apply([*first, *chat(6)[-6:]])

    assert texts(first)[1] == "[Summary of previous conversation (4 messages)]:\nthe gist"
    assert "fail" not in texts(again)[1]
    assert agent.asked[0].endswith(
        "\n\nUser: question 1\nAssistant: answer 1\nUser: question 2\nAssistant: answer 2"
    )
    assert "Summary of what was said before:\nthe gist\n\nUser: " in agent.asked[1]


def test_an_agent_summarises_for_synchronous_code_too() -> None:
    for agent in (TaskAgent(), PlainAgent()):
        found = SummarizingManager(4, 2, agent).apply(chat(3))
        assert texts(found)[1].endswith("(4 messages)]:\nthe gist")


@pytest.mark.parametrize(
    "answer", [Answer("the gist"), SimpleNamespace(text="the gist"), Message.assistant("the gist")]
)
async def test_an_answer_may_be_an_object_with_the_text(answer: Any) -> None:
    found = await SummarizingManager(4, 2, lambda messages: answer).async_apply(chat(3))

    assert texts(found)[1].endswith("(4 messages)]:\nthe gist")


async def test_cancelling_the_call_cancels_the_summariser() -> None:
    started = asyncio.Event()

    async def waits(messages: list[Any]) -> str:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    task = asyncio.create_task(SummarizingManager(4, 2, waits).async_apply(chat(3)))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_digest_of_digests_does_not_grow() -> None:
    manager = SummarizingManager(4, 2)
    talk = chat(3)
    for turn in range(60):
        talk = manager.apply([*talk, *chat(turn + 2)[-2:]])

    (summary,) = [text for text in texts(talk) if "Summary" in text]
    header, *lines = summary.splitlines()
    assert header == "[Summary of previous conversation (122 messages)]:"
    assert len(lines) == DIGEST_LINES
    assert lines[0] == "- user: question 1"
    assert lines[-1] == "- assistant: answer 59"
    assert lines.count("- […]") == 1


def test_a_summary_publishes_an_event_before_and_after(events: list[Event]) -> None:
    SummarizingManager(4, 2, count).apply(chat(3))

    begins, ends = events
    assert begins.name == "memory.compactor.triggered"
    assert begins.details == {"strategy": "summarizing", "messages_before": 7, "threshold": 4}
    assert ends.name == "memory.compactor.completed"
    assert ends.details == {
        "strategy": "summarizing",
        "messages_before": 7,
        "messages_after": 4,
        "summarized_count": 4,
        "fallback": None,
    }


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: SummarizingManager(0), ValueError),
        (lambda: SummarizingManager(4, 0), ValueError),
        (lambda: SummarizingManager(4, 4), ValueError),
        (lambda: SummarizingManager(timeout=0), ValueError),
        (lambda: SummarizingManager(summarize_fn="gpt"), TypeError),
        (lambda: ContextCompactor(0), ValueError),
        (lambda: ContextCompactor(trigger_fraction=0), ValueError),
        (lambda: ContextCompactor(tail_token_fraction=1), ValueError),
    ],
)
def test_invalid_arguments_are_refused(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()


def test_a_system_message_of_the_application_is_not_taken_for_a_summary() -> None:
    note = system("Summary of previous conversation: none")

    managed = SummarizingManager(2, 1, count).apply([note, *chat(3)[1:]])

    assert managed[0] is note
    assert isinstance(SummarizingManager(2, 1).apply([Foreign("user", "a")] * 4)[0], Foreign)


def _text(prompt: str) -> str:
    return f"told: {prompt}"


async def _later(prompt: str) -> str:
    return _text(prompt)


class _Callable:
    def __call__(self, text: str) -> str:
        return _text(text)


def _unannotated(prompt):  # type: ignore[no-untyped-def]
    return _text(prompt)


@pytest.mark.parametrize(
    "summarise",
    [
        pytest.param(_text, id="annotated"),
        pytest.param(_later, id="coroutine"),
        pytest.param(_Callable(), id="object"),
        pytest.param(_unannotated, id="by its name"),
        pytest.param(lambda prompt: _text(prompt), id="lambda"),
        pytest.param(functools.partial(lambda style, prompt: _text(prompt), "short"), id="partial"),
    ],
)
@pytest.mark.parametrize("make", MAKES)
async def test_a_function_of_a_text_gets_a_transcript(summarise: Any, make: str) -> None:
    talk = [MAKES[make](role="user", content=f"question {n}") for n in range(6)]
    manager = SummarizingManager(4, 2, summarise)

    first = await manager.async_apply(talk)
    second = await manager.async_apply([*first, *talk[:4]])

    assert "\nUser: question 0\n" in text_of(first[0])
    assert text_of(first[0]).endswith("User: question 3")
    assert "Summary of what was said before:\ntold: " in text_of(second[0])

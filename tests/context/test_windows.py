"""Windows over a conversation, by messages and by tokens."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
from conversations import (
    assistant,
    chat,
    check,
    conversations,
    places,
    result,
    system,
    texts,
    user,
)
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.context import (
    NullManager,
    SlidingWindowManager,
    TokenBudgetManager,
    estimate_tokens,
    messages_to_summarize,
    trim_to_fit,
    trim_to_recent,
)
from memalchemy.events import Event, subscribe
from memalchemy.messages import is_system
from memalchemy.state import Message


def characters(message: Any) -> int:
    return len(message["content"] or "")


async def test_the_null_manager_keeps_every_message() -> None:
    messages = [result("nobody asked"), *chat(3)]

    kept = NullManager().apply(messages)

    assert kept == messages
    assert kept is not messages
    assert await NullManager().async_apply(messages) == messages


@given(conversations(), st.integers(1, 8), st.integers(1, 8), st.booleans())
def test_a_window_keeps_calls_with_their_results_and_all_system_messages(
    messages: list[Any], size: int, step: int, first: bool
) -> None:
    before = copy.deepcopy(messages)
    manager = SlidingWindowManager(size, preserve_first_user=first, slide_step=min(step, size))

    window = manager.apply(messages)

    check(messages, window)
    assert None not in places(messages, window)
    assert messages == before
    assert manager.apply(window) == window


@given(conversations(), st.integers(1, 8))
def test_a_window_exceeds_its_size_only_for_the_newest_group(
    messages: list[Any], size: int
) -> None:
    window = SlidingWindowManager(size).apply(messages)

    spoken = [message for message in window if not is_system(message)]
    assert len(spoken) <= size or trim_to_recent(spoken, 1) == spoken


@pytest.mark.parametrize("size", [4, 5])
def test_a_window_has_the_system_message_and_the_newest(size: int) -> None:
    window = SlidingWindowManager(size).apply(chat(5))

    assert texts(window) == ["be kind", "question 4", "answer 4", "question 5", "answer 5"]


def test_the_first_question_is_kept_on_request_with_its_answer() -> None:
    pinned = SlidingWindowManager(4, preserve_first_user=True)

    first, newest = ["be kind", "question 1", "answer 1"], ["question 5", "answer 5"]
    assert texts(pinned.apply(chat(5))) == [*first, *newest]
    pinned.window_size = 3
    assert texts(pinned.apply(chat(5))) == ["be kind", *newest], "no room for both"


def test_an_agent_that_works_for_long_still_knows_what_it_was_asked() -> None:
    work = [m for n in range(20) for m in (assistant(None, f"c{n}"), result(f"c{n}"))]

    window = SlidingWindowManager(5).apply([user("the task"), *work])

    assert window == [user("the task"), *work[-4:]]


def test_system_messages_between_the_others_stay_where_they_are() -> None:
    messages = [system("first"), user("1"), system("note"), *chat(3)[1:]]

    window = SlidingWindowManager(1)
    assert texts(window.apply(messages)) == ["first", "note", "question 3", "answer 3"]
    unpinned = SlidingWindowManager(1, preserve_system=False)
    assert texts(unpinned.apply(messages)) == ["question 3", "answer 3"]


def test_an_assistant_with_several_calls_stays_whole_with_all_results() -> None:
    step = [assistant(None, "a", "b", "c"), result("b"), result("a"), result("c")]
    messages = [user("1"), assistant("2"), user("3"), *step, assistant("done")]
    window = SlidingWindowManager(3)

    assert window.apply(messages) == [user("3"), assistant("done")]
    assert window.apply(messages[:-1]) == [user("3"), *step]


def test_calls_without_a_result_stay_as_they_are() -> None:
    messages = [*chat(3), assistant(None, "pending")]

    assert SlidingWindowManager(2).apply(messages)[-1] is messages[-1]


def test_a_result_follows_its_call_even_if_somebody_spoke_between_them() -> None:
    talk = [user("0"), assistant(None, "a", "b"), result("a"), user("wait"), result("b")]

    assert SlidingWindowManager(2).apply([*chat(3)[1:], *talk]) == talk


def test_blocks_of_anthropic_are_calls_and_results_too() -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look"}]}
    found = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}
    window = SlidingWindowManager(1)

    assert window.apply([*chat(2)[1:], call, found]) == [user("question 2"), call, found]
    assert window.apply([user("go"), found]) == [user("go")]
    assert SlidingWindowManager(2).apply([found, user("go"), call, found])[0] == user("go")


def test_with_a_slide_step_the_start_stays_until_the_window_is_full_again() -> None:
    talk = chat(20)[1:]
    manager = SlidingWindowManager(10, slide_step=4)

    starts = [talk.index(manager.apply(talk[:length])[0]) for length in range(1, 21)]

    assert starts == [0] * 10 + [4] * 4 + [8] * 4 + [12] * 2


def test_a_window_may_count_turns() -> None:
    talk = chat(9)

    assert texts(SlidingWindowManager(None, max_turns=1).apply(talk)) == [
        "be kind",
        "question 9",
        "answer 9",
    ]
    assert len(SlidingWindowManager(None, max_turns=3).apply(talk)) == 1 + 6
    pinned = SlidingWindowManager(None, preserve_first_user=True, max_turns=3)
    assert texts(pinned.apply(talk)[:4]) == ["be kind", "question 1", "answer 1", "question 8"]
    assert SlidingWindowManager(None, max_turns=9).apply(talk) == talk


def test_an_event_is_published_only_if_messages_were_removed() -> None:
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    try:
        SlidingWindowManager(4).apply(chat(2))
        assert events == []
        SlidingWindowManager(4).apply(chat(5))
        TokenBudgetManager(20).apply(chat(5))
    finally:
        unsubscribe()

    assert [event.name for event in events] == ["memory.conversation.pruned"] * 2
    assert events[0].details == {
        "strategy": "sliding_window",
        "window_size": 4,
        "removed_count": 6,
    }
    assert events[1].details["strategy"] == "token_budget"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SlidingWindowManager(0),
        lambda: SlidingWindowManager(4, slide_step=5),
        lambda: SlidingWindowManager(4, slide_step=0),
        lambda: SlidingWindowManager(4, max_turns=0),
        lambda: TokenBudgetManager(0),
        lambda: trim_to_recent([], -1),
    ],
)
def test_invalid_sizes_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        wrong()


@given(conversations(), st.integers(1, 120), st.booleans(), st.booleans())
def test_a_budget_is_never_exceeded(
    messages: list[Any], budget: int, shorten: bool, preserve: bool
) -> None:
    before = copy.deepcopy(messages)
    manager = TokenBudgetManager(budget, shorten=shorten, preserve_system=preserve)
    leading = 0
    for message in messages:
        if not (preserve and is_system(message)):
            break
        leading += estimate_tokens(message)
    if leading > budget:
        with pytest.raises(ValueError, match="the system messages take"):
            manager.apply(messages)
        return

    window = manager.apply(messages)

    assert sum(map(estimate_tokens, window)) <= budget
    assert messages == before
    if not shorten:
        check(messages, window, systems=False)
        assert None not in places(messages, window)
        assert manager.apply(window) == window


@given(conversations())
def test_a_budget_that_is_large_enough_changes_nothing_but_orphans(messages: list[Any]) -> None:
    window = TokenBudgetManager(100_000).apply(messages)

    check(messages, window)
    assert places(messages, window) == places(messages, SlidingWindowManager(1000).apply(messages))


def test_a_budget_goes_to_the_newest_and_on_request_to_the_first_exchange() -> None:
    talk, newest = chat(5), ["question 5", "answer 5"]
    first = ["question 1", "answer 1"]

    def budget(tokens: int, first: bool = False) -> list[Any]:
        manager = TokenBudgetManager(tokens, token_counter=characters, preserve_first_user=first)
        return texts(manager.apply(talk))

    assert budget(7 + 18) == budget(7 + 18 + 17) == ["be kind", *newest]
    assert budget(7 + 36) == ["be kind", "question 4", "answer 4", *newest]
    assert budget(7 + 36, first=True) == ["be kind", *first, *newest]
    assert budget(7 + 18 + 17, first=True) == ["be kind", *newest]


def test_a_question_that_leaves_no_room_for_its_answer_is_shortened_with_it() -> None:
    talk = [user("q" * 5_000), assistant("a" * 5_000)]

    window = TokenBudgetManager(1_000, token_counter=characters).apply(talk)

    assert [message["content"][0] for message in window] == ["q", "a"]
    assert sum(map(characters, window)) <= 1_000


def test_a_question_that_is_too_long_is_shortened_in_the_middle() -> None:
    long = user("begin " + "x" * 5_000 + " end")

    (short,) = TokenBudgetManager(200, token_counter=characters).apply([long])

    assert len(short["content"]) == 200
    assert short["content"].startswith("begin xxx")
    assert short["content"].endswith("xxx end")
    assert "4,810 characters left out" in short["content"]
    assert len(long["content"]) == 5_010


def test_a_newest_group_that_cannot_be_shortened_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    huge = assistant(None, "a")
    huge["tool_calls"][0]["function"]["arguments"] = "x" * 4_000

    with caplog.at_level(logging.WARNING, "memalchemy"):
        window = TokenBudgetManager(100).apply([user("go"), huge, result("a", "y" * 4_000)])

    assert window == [user("go")]
    assert "the newest 2 messages do not fit into 100 tokens" in caplog.text


def test_results_are_shortened_with_their_calls_kept() -> None:
    step = [Message.assistant(None, [{"id": "a", "name": "look"}]), Message.tool("y" * 900, "a")]

    window = TokenBudgetManager(50).apply([Message.user("go"), *step])

    assert window[-2] is step[0]
    assert window[-1].tool_call_id == "a"
    assert window[-1].content.startswith("yyy")
    assert sum(map(estimate_tokens, window)) <= 50


@given(conversations(), st.integers(0, 12))
def test_recent_messages_and_messages_to_summarize_are_all_messages(
    messages: list[Any], keep: int
) -> None:
    recent, old = trim_to_recent(messages, keep), messages_to_summarize(messages, keep)

    check(messages, recent)
    assert not any(map(is_system, old))
    whole = sorted(p for p in places(messages, [*old, *recent]) if p is not None)
    assert whole == places(messages, SlidingWindowManager(1000).apply(messages))
    assert keep or len(recent) == sum(map(is_system, messages))


def test_keeping_more_than_there_are_leaves_nothing_to_summarise() -> None:
    assert messages_to_summarize(chat(3), 100) == []
    assert texts(messages_to_summarize(chat(3), 4)) == ["question 1", "answer 1"]
    assert texts(trim_to_recent(chat(3), 2)) == ["be kind", "question 3", "answer 3"]
    assert trim_to_fit(chat(3), 1000) == chat(3)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (user(""), 1),
        (user("a" * 40), 10),
        (user("漢" * 4), 3),
        (Message.user("a" * 40, metadata={"note": "b" * 400}), 10),
        (user([{"type": "image_url", "image_url": {"url": "data:" + "A" * 90_000}}]), 1_000),
        (user("\ud800"), 1),
        (assistant(None, "abcd"), 7),
    ],
)
def test_tokens_are_about_a_quarter_of_the_bytes(message: Any, tokens: int) -> None:
    assert estimate_tokens(message) == tokens

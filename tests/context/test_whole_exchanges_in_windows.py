"""Whatever a manager keeps: each answer follows its question, each result of a tool its call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchanges import (
    check_exchanges,
    check_first_exchange,
    check_nothing_is_privileged,
    exchanges,
)
from memalchemy.context import (
    ContextCompactor,
    SlidingWindowManager,
    SummarizingManager,
    TokenBudgetManager,
    estimate_tokens,
    stamp_messages,
    trim_messages,
    trim_to_fit,
    trim_to_recent,
)
from memalchemy.messages import is_system

Select = Callable[[list[Any]], list[Any]]

_sizes = st.integers(1, 30)
_budgets = st.integers(1, 400)


def _windows(pin: bool) -> st.SearchStrategy[Select]:
    return st.builds(
        lambda size, step, turns, preserve: (
            SlidingWindowManager(size, preserve, pin, min(step, size), max_turns=turns).apply
        ),
        _sizes,
        st.sampled_from([1, 1, 1, 3]),
        st.none() | st.integers(1, 5),
        st.booleans(),
    )


def _budget_managers(pin: bool, shorten: bool = True) -> st.SearchStrategy[Select]:
    return st.builds(
        lambda budget: (
            TokenBudgetManager(
                budget, preserve_system=False, preserve_first_user=pin, shorten=shorten
            ).apply
        ),
        _budgets,
    )


_summarizing = st.builds(
    lambda keep, more, preserve: SummarizingManager(keep + more, keep, None, preserve).apply,
    _sizes,
    st.integers(1, 6),
    st.booleans(),
)
_compacting = st.builds(
    lambda length, head, tail, ttl: (
        ContextCompactor(
            length,
            head_turns=head,
            tail_token_fraction=tail,
            tool_output_ttl_turns=ttl,
            preserve_system=False,
        ).apply
    ),
    st.integers(100, 800),
    st.integers(0, 4),
    st.floats(0.05, 0.9),
    st.integers(0, 10),
)

UNPINNED = {
    "SlidingWindowManager": _windows(pin=False),
    "TokenBudgetManager": _budget_managers(pin=False),
    "TokenBudgetManager that does not shorten": _budget_managers(pin=False, shorten=False),
    "trim_to_fit": _budgets.map(lambda budget: lambda messages: _fitted(messages, budget)),
    "trim_to_recent": _sizes.map(lambda size: lambda messages: trim_to_recent(messages, size)),
}
PINNED = {
    "SlidingWindowManager": _windows(pin=True),
    "TokenBudgetManager": _budget_managers(pin=True),
    "TokenBudgetManager that does not shorten": _budget_managers(pin=True, shorten=False),
    "ContextCompactor": _compacting,
}


def _fitted(messages: list[Any], budget: int) -> list[Any]:
    leading = 0
    for message in messages:
        if not is_system(message):
            break
        leading += estimate_tokens(message)
    return trim_to_fit(messages, budget + leading)


@pytest.mark.parametrize("name", [*UNPINNED, "SummarizingManager"])
@given(data=st.data())
def test_each_answer_follows_its_question_and_each_result_its_call(
    name: str, data: st.DataObject
) -> None:
    messages = data.draw(exchanges())
    select = data.draw(UNPINNED.get(name, _summarizing))

    check_exchanges(messages, select(messages))


@pytest.mark.parametrize("name", PINNED)
@given(data=st.data())
def test_a_first_question_that_is_kept_on_request_keeps_its_answer(
    name: str, data: st.DataObject
) -> None:
    messages = data.draw(exchanges())
    select = data.draw(PINNED[name])

    kept = select(messages)

    check_exchanges(messages, kept)
    if name != "ContextCompactor":  # its summary tells what does not fit
        check_first_exchange(messages, kept)


@pytest.mark.parametrize("name", ["SlidingWindowManager", "trim_to_recent"])
@given(data=st.data())
def test_no_message_is_privileged_by_default(name: str, data: st.DataObject) -> None:
    messages = data.draw(exchanges())
    select = data.draw(UNPINNED[name])

    check_nothing_is_privileged(messages, select(messages))


PASSED_ON = {
    "SlidingWindowManager": _windows(pin=False),
    "TokenBudgetManager": st.integers(100, 400).map(
        lambda size: TokenBudgetManager(size, preserve_system=False).apply
    ),
    "trim_to_recent": UNPINNED["trim_to_recent"],
    "SummarizingManager": _summarizing,
    "ContextCompactor": _compacting,
}


@pytest.mark.parametrize("name", PASSED_ON)
@given(data=st.data())
def test_a_conversation_that_is_passed_on_from_turn_to_turn_keeps_its_exchanges(
    name: str, data: st.DataObject
) -> None:
    messages = data.draw(exchanges())
    select = data.draw(PASSED_ON[name])
    shown: list[Any] = []

    for count, message in enumerate(messages, 1):
        shown = select([*shown, message])
        check_exchanges(messages[:count], shown)


@given(exchanges(), st.lists(st.integers(0, 20), min_size=60, max_size=60), st.integers(0, 20))
def test_old_messages_go_in_whole_exchanges(
    messages: list[Any], ages: list[int], oldest: int
) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    days = sorted(ages, reverse=True)[: len(messages)]
    days += [0] * (len(messages) - len(days))
    stamped = [
        stamp_messages([message], now - timedelta(days=age))[0]
        for message, age in zip(messages, days, strict=True)
    ]

    kept = trim_messages(stamped, now - timedelta(days=oldest))

    check_exchanges(stamped, kept)


@pytest.mark.parametrize("size", range(1, 30))
def test_a_chat_shows_no_false_exchange_at_any_size(size: int) -> None:
    talk = [
        {"role": role, "content": f"{role} {number}"}
        for number in range(15)
        for role in ("user", "assistant")
    ]
    pairs = [talk[at : at + 2] for at in range(0, 30, 2)]
    whole = (
        [message for pair in pairs[-(size // 2) :] for message in pair] if size > 1 else talk[-2:]
    )

    assert SlidingWindowManager(size).apply(talk) == whole
    cost = sum(map(estimate_tokens, whole))
    assert trim_to_fit(talk, cost) == whole

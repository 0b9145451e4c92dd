"""Compaction of a conversation that is about to outgrow the model's context."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from conversations import assistant, chat, check, conversations, places, result, system, user
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.context import CompactionOutcome, ContextCompactor, estimate_tokens
from memalchemy.context._message_groups import pair_calls_with_results
from memalchemy.events import Event, subscribe
from memalchemy.messages import is_system, text_of


def tokens(messages: list[Any]) -> int:
    return sum(map(estimate_tokens, messages))


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    unsubscribe = subscribe(seen.append)
    yield seen
    unsubscribe()


def work(steps: int, size: int = 400) -> list[dict[str, Any]]:
    """An agent's *steps*, each with an output of *size* characters."""
    told = [
        message
        for n in range(steps)
        for message in (assistant(None, f"c{n}"), result(f"c{n}", str(n % 10) * size))
    ]
    return [system("be kind"), user("the task"), *told]


@given(conversations(), st.integers(40, 200), st.integers(0, 3), st.integers(0, 3))
def test_compaction_keeps_calls_with_their_results_and_never_exceeds_the_context(
    messages: list[Any], length: int, head: int, ttl: int
) -> None:
    before = copy.deepcopy(messages)
    manager = ContextCompactor(length, head_turns=head, tool_output_ttl_turns=ttl)
    if tokens([message for message in messages if is_system(message)]) > length // 2:
        return

    compact = manager.apply(messages)

    assert messages == before
    assert tokens(compact) <= length
    pairs = pair_calls_with_results(compact)
    assert not pairs.orphans
    assert not pairs.stray
    if not set(places(messages, compact)) & {None}:
        check(messages, compact, systems=False)


def test_up_to_the_trigger_nothing_happens(events: list[Event]) -> None:
    messages = work(10)
    size = tokens(messages)

    assert ContextCompactor(size, trigger_fraction=1.0).apply(messages) == messages
    assert events == []


def test_old_outputs_go_first_and_their_calls_stay(events: list[Event]) -> None:
    messages = work(10)

    compact = ContextCompactor(1_000, tool_output_ttl_turns=3).apply(messages)

    assert len(compact) == len(messages)
    cleared = [text_of(m).startswith("[tool output cleared: 400 char") for m in compact]
    assert cleared == [False, False, *[False, True] * 7, *[False, False] * 3]
    assert compact[3] == {**messages[3], "content": "[tool output cleared: 400 characters]"}
    assert [event.details["strategy"] for event in events] == ["tool_outputs"]
    assert ContextCompactor(1_000, tool_output_ttl_turns=3).apply(compact) == compact


def test_outputs_may_be_kept_by_their_tokens() -> None:
    compact = ContextCompactor(1_100, tool_output_ttl_turns=0, tool_output_keep_tokens=450).apply(
        work(10)
    )

    assert sum(text_of(message).startswith("[tool output") for message in compact) == 6


def test_short_outputs_stay_because_a_note_would_be_longer() -> None:
    messages = work(30, size=8)

    compact = ContextCompactor(tokens(messages), tool_output_ttl_turns=1).apply(messages)

    assert not any(text_of(message).startswith("[tool output") for message in compact)


def test_results_in_blocks_are_cleared_block_by_block() -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look"}]}
    block = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 4_000}
    messages = [user("go"), call, {"role": "user", "content": [block]}, *chat(2)[1:]]

    compact = ContextCompactor(1_000, tool_output_ttl_turns=2).apply(messages)

    note = "[tool output cleared: 4,000 characters]"
    assert compact[2] == {"role": "user", "content": [{**block, "content": note}]}


async def test_the_middle_is_summarised_if_clearing_outputs_is_not_enough(
    events: list[Event],
) -> None:
    asked: list[list[Any]] = []

    async def ask(messages: list[Any], previous_summary: str | None) -> str:
        asked.append(messages)
        return "much was done"

    messages = work(40)
    manager = ContextCompactor(
        1_000, summarize_fn=ask, tail_token_fraction=0.3, tool_output_ttl_turns=5
    )

    compact = await manager.async_apply(messages)

    assert compact[:3] == messages[:3]
    assert compact[3]["content"] == "[tool output cleared: 400 characters]"
    assert "(74 messages)]:\nmuch was done" in compact[4]["content"]
    assert compact[5:] == messages[-4:]
    assert tokens(compact) <= 800
    assert sum(len(text_of(message)) == 400 for message in asked[0]) == 3
    names = [event.name for event in events]
    assert names == [
        "memory.conversation.pruned",
        "memory.compactor.triggered",
        "memory.compactor.completed",
    ]
    assert await manager.async_apply(messages) == compact
    assert len(asked) == 1


def test_a_summary_that_is_too_long_is_shortened() -> None:
    manager = ContextCompactor(1_000, summarize_fn=lambda messages: "so much " * 5_000)

    compact = manager.apply(work(40))

    assert tokens(compact) <= 800
    assert any("characters left out" in text_of(message) for message in compact)


def test_messages_that_still_exceed_the_context_are_cut_as_by_a_budget() -> None:
    messages = [system("be kind"), user("go"), assistant(None, "a"), result("a", "x" * 40_000)]

    compact = ContextCompactor(500).apply(messages)

    assert compact[:3] == messages[:3]
    assert tokens(compact) <= 500
    assert "characters left out" in compact[3]["content"]


async def test_a_cleared_output_is_archived_once_and_its_note_names_the_id() -> None:
    kept: dict[str, Any] = {}
    times = 0

    async def keep(id: str, output: Any) -> None:
        nonlocal times
        times += 1
        kept[id] = output

    messages = work(10)
    manager = ContextCompactor(1_000, tool_output_ttl_turns=3, archive=keep)
    outcome = await manager.compact(messages)

    assert outcome.messages[3]["content"] == (
        f"[tool output cleared: 400 characters; recall {outcome.archived[0]}]"
    )
    assert kept == dict(
        zip(outcome.archived, [text_of(message) for message in messages[3:16:2]], strict=True)
    )
    assert await manager.async_apply(messages) == outcome.messages
    assert await manager.async_apply(outcome.messages) == outcome.messages
    assert times == len(kept) == 7


async def test_a_failing_archive_raises_and_clears_nothing() -> None:
    def full(id: str, output: Any) -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await ContextCompactor(1_000, archive=full).async_apply(work(20))
    with pytest.raises(TypeError, match="archive is a function"):
        ContextCompactor(1_000, archive="here")  # type: ignore[arg-type]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_synchronous_code_archives_outputs_too(is_async: bool) -> None:
    kept: dict[str, Any] = {}

    async def keep(id: str, output: Any) -> None:
        kept[id] = output

    archive = keep if is_async else kept.__setitem__
    ContextCompactor(1_000, tool_output_ttl_turns=3, archive=archive).apply(work(10))

    assert len(kept) == 7


async def test_an_async_archive_cannot_be_waited_for_in_a_running_loop() -> None:
    async def keep(id: str, output: Any) -> None:
        raise AssertionError

    with pytest.raises(RuntimeError, match=r"archive is asynchronous .*async_apply"):
        ContextCompactor(1_000, tool_output_ttl_turns=3, archive=keep).apply(work(10))


async def test_blocks_are_archived_as_they_were() -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look"}]}
    block = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 4_000}
    kept: dict[str, Any] = {}
    messages = [user("go"), call, {"role": "user", "content": [block]}, *chat(2)[1:]]
    manager = ContextCompactor(1_000, tool_output_ttl_turns=2, archive=kept.__setitem__)

    manager.apply(messages)

    assert list(kept.values()) == [[block]]


async def test_the_outcome_names_the_stage_and_the_tokens() -> None:
    def outcome_of(length: int, **more: Any) -> Any:
        return ContextCompactor(length, tool_output_ttl_turns=5, **more).compact(work(40))

    stages = [await outcome_of(length) for length in (50_000, 4_000, 1_000)]
    long = [user("x" * 8_000)]
    cut = await ContextCompactor(1_000).compact(long)

    assert all(isinstance(one, CompactionOutcome) for one in [*stages, cut])
    assert [one.stage for one in stages] == ["none", "cleared", "summarised"]
    assert cut.stage == "cut"
    assert cut.tokens_before == tokens(long)
    for one in stages:
        assert one.tokens_before == tokens(work(40))
        assert one.tokens_after == tokens(one.messages)
    assert [one.threshold for one in stages] == [40_000, 3_200, 800]
    assert cut.tokens_after == tokens(cut.messages) <= 1_000
    assert [one.exhausted for one in [*stages, cut]] == [False, False, False, True]
    assert [one.summary is None for one in stages] == [True, True, False]
    assert stages[0].messages == work(40)


@pytest.mark.parametrize("whole", [True, False], ids=["the whole", "what was returned"])
async def test_a_further_summary_is_written_only_when_it_takes_in_enough_groups(
    whole: bool,
) -> None:
    asked: list[int] = []

    async def ask(messages: list[Any], previous_summary: str | None) -> str:
        asked.append(len(messages))
        return "much was done"

    manager = ContextCompactor(
        1_000,
        summarize_fn=ask,
        trigger_fraction=0.5,
        tail_token_fraction=0.4,
        tool_output_ttl_turns=0,
        min_iterations_between_summaries=4,
    )
    everything = work(40)
    messages = everything[:12]
    for at in range(12, 62, 2):
        result = await manager.async_apply(messages)
        assert tokens(result) <= 1_000
        messages = [*(messages if whole else result), *everything[at : at + 2]]

    assert len(asked) > 2
    assert min(asked[1:]) >= 2 * 4

"""Groups of messages that stay or go together: a message, or tool calls with their results.

Groups that answer a user's message stay only where that message stays, too: without it, a model
would read them as the answer to another one. A group ends with the last result of its calls. A
result that no earlier call asks for is an orphan, and so is a second result of one call: models'
APIs refuse both, and orphans are in no group. A call without a result stays as it is, because the
agent may be about to run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memalchemy.messages import calls_of, is_system, is_user_turn, results_of


@dataclass(frozen=True, slots=True)
class ToolPairs:
    """Tool calls and their results, by the indices of their messages.

    Attributes:
        callers: for each message with results, the messages that asked for them.
        unanswered: for each message with calls, the ids that have no result.
        orphans: messages whose results nobody asked for.
        stray: for each message with results, the ids of those that nobody asked for.
    """

    callers: dict[int, list[int]]
    unanswered: dict[int, list[str | None]]
    orphans: frozenset[int]
    stray: dict[int, list[str | None]]


def pair_calls_with_results(messages: Sequence[Any]) -> ToolPairs:
    """Match each result with the nearest call before it that waits for it."""
    waiting: dict[str, list[int]] = {}
    unanswered: dict[int, list[str | None]] = {}
    callers: dict[int, list[int]] = {}
    stray: dict[int, list[str | None]] = {}
    orphans = set()
    latest_caller: int | None = None
    for index, message in enumerate(messages):
        calls = calls_of(message)
        if calls:
            unanswered[index] = list(calls)
            latest_caller = index
            for call in calls:
                if call is not None:
                    waiting.setdefault(call, []).append(index)
            continue
        results = results_of(message)
        for result in results:
            if result is None:
                caller = latest_caller
            else:
                candidates = waiting.get(result)
                caller = candidates.pop() if candidates else None
            if caller is None:
                stray.setdefault(index, []).append(result)
                continue
            callers.setdefault(index, []).append(caller)
            _mark_answered(unanswered[caller], result)
        if results and index not in callers:
            orphans.add(index)
        elif not results and is_user_turn(message):
            # Ollama sends results without ids: they belong to the calls right before them.
            latest_caller = None
    open_calls = {index: ids for index, ids in unanswered.items() if ids}
    return ToolPairs(callers, open_calls, frozenset(orphans), stray)


def _mark_answered(open_calls: list[str | None], result: str | None) -> None:
    if result in open_calls:
        open_calls.remove(result)
    elif open_calls:
        open_calls.pop(0)


def message_groups(
    messages: Sequence[Any], pinned: frozenset[int] = frozenset()
) -> list[list[int]]:
    """Return the groups, oldest first, as lists of indices, without *pinned* ones and orphans."""
    pairs = pair_calls_with_results(messages)
    last_result: dict[int, int] = {}
    for result, callers in pairs.callers.items():
        for caller in callers:
            last_result[caller] = max(result, last_result.get(caller, 0))
    excluded = pinned | pairs.orphans
    groups = []
    start = 0
    while start < len(messages):
        index = stop = start
        while index <= stop:
            stop = max(stop, last_result.get(index, index))
            index += 1
        group = [at for at in range(start, stop + 1) if at not in excluded]
        if group:
            groups.append(group)
        start = stop + 1
    return groups


def questions_before(messages: Sequence[Any], groups: Sequence[Sequence[int]]) -> list[int | None]:
    """Return, for each group, the user's message before it that it answers.

    ``None`` if it begins with a message of the user, or if nobody has asked before.
    """
    questions: list[int | None] = []
    question: int | None = None
    for group in groups:
        questions.append(None if is_user_turn(messages[group[0]]) else question)
        question = next((at for at in reversed(group) if is_user_turn(messages[at])), question)
    for number in reversed(range(len(groups))):
        # A system message answers nothing; if the messages after it do, they say so.
        if all(is_system(messages[at]) for at in groups[number]):
            questions[number] = next(iter(questions[number + 1 :]), None)
    return questions


def first_exchange(messages: Sequence[Any], groups: Sequence[Sequence[int]]) -> range:
    """Return the numbers of the groups from the first user's message to before the second."""
    asks = [any(is_user_turn(messages[at]) for at in group) for group in groups]
    if not any(asks):
        return range(0)
    start = asks.index(True)
    later = range(start + 1, len(groups))
    stop = next((n for n in later if is_user_turn(messages[groups[n][0]])), len(groups))
    return range(start, stop)


def cumulative_sizes(groups: Sequence[Sequence[int]]) -> list[int]:
    """Return how many messages the first group has, the first two groups have, and so on."""
    total, sizes = 0, []
    for group in groups:
        total += len(group)
        sizes.append(total)
    return sizes

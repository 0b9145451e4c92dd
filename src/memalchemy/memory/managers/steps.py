"""The steps of a conversation: the smallest runs of messages that may be cut apart.

A step is one message, or an assistant's calls with everything up to the last of their results. A
result that no call before it asks for is an orphan (models' APIs refuse it), and so is a second
result of a call; orphans are in no step. A call without a result stays as it is: the agent may be
about to run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memalchemy.messages import calls_of, is_user_turn, results_of


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which message asks for which results, by their indices.

    ``caller`` maps a message with results to the messages that asked for them; ``unanswered`` maps
    a message with calls to the ids without a result. ``orphans`` bring nothing that was asked for;
    ``stray`` has the ids of every result that was not asked for, of orphans and others.
    """

    caller: dict[int, list[int]]
    unanswered: dict[int, list[str | None]]
    orphans: frozenset[int]
    stray: dict[int, list[str | None]]


def pair(messages: Sequence[Any]) -> Pairs:
    """Match results with calls: each result with the nearest call before it that waits for it."""
    waiting: dict[str, list[int]] = {}
    unanswered: dict[int, list[str | None]] = {}
    caller: dict[int, list[int]] = {}
    stray: dict[int, list[str | None]] = {}
    orphans = set()
    nameless: int | None = None
    for index, message in enumerate(messages):
        calls = calls_of(message)
        if calls:
            unanswered[index] = list(calls)
            nameless = index
            for call in calls:
                if call is not None:
                    waiting.setdefault(call, []).append(index)
            continue
        results = results_of(message)
        for result in results:
            if result is None:
                asked = nameless
            else:
                at = waiting.get(result)
                asked = at.pop() if at else None
            if asked is None:
                stray.setdefault(index, []).append(result)
                continue
            caller.setdefault(index, []).append(asked)
            _answer(unanswered, asked, result)
        if results and index not in caller:
            orphans.add(index)
        elif not results and is_user_turn(message):
            # A result without an id (Ollama sends them so) belongs to the calls right before it.
            nameless = None
    return Pairs(caller, {k: v for k, v in unanswered.items() if v}, frozenset(orphans), stray)


def _answer(unanswered: dict[int, list[str | None]], asked: int, result: str | None) -> None:
    open_calls = unanswered[asked]
    if result in open_calls:
        open_calls.remove(result)
    elif open_calls:
        open_calls.pop(0)


def steps_of(messages: Sequence[Any], pinned: frozenset[int] = frozenset()) -> list[list[int]]:
    """The steps, oldest first, as the indices of their messages; without *pinned* and orphans."""
    pairs = pair(messages)
    reaches: dict[int, int] = {}
    for result, callers in pairs.caller.items():
        for asked in callers:
            reaches[asked] = max(result, reaches.get(asked, 0))
    left_out = pinned | pairs.orphans
    steps = []
    start = 0
    while start < len(messages):
        index = stop = start
        while index <= stop:
            stop = max(stop, reaches.get(index, index))
            index += 1
        step = [at for at in range(start, stop + 1) if at not in left_out]
        if step:
            steps.append(step)
        start = stop + 1
    return steps

"""Comparison of the pending writes that one checkpoint has in two places.

LangGraph's savers keep the first write of each place, except for the places below 0: there an
interrupt or an answer overwrites the one before. A task that asks several questions keeps its
answers in a list, which grows. So of two sets of writes one may be a later state of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import RESUME

from memalchemy.contracts import PendingWrite
from memalchemy.importers.target import WritesThere
from memalchemy.inspection.writes import NULL_TASK
from memalchemy.integrations.langgraph import _records as records
from memalchemy.integrations.langgraph._source_tables import RAW

ANSWER = WRITES_IDX_MAP[RESUME]

Places = Mapping[tuple[str, int], PendingWrite]


def compare_writes(
    there: Sequence[PendingWrite], given: Sequence[PendingWrite]
) -> WritesThere | None:
    """Compare the writes that are *there* with those of the source.

    Returns those that are missing if the source has all of them and went on; none if it is the
    other way round; and ``None`` if both went on, or hold something else.
    """
    ours, theirs = _by_place(there), _by_place(given)
    changed = [
        place for place in ours.keys() & theirs.keys() if _differ(ours[place], theirs[place])
    ]
    if not changed and not (ours.keys() - theirs.keys() and theirs.keys() - ours.keys()):
        missing = [one for place, one in theirs.items() if place not in ours]
        return WritesThere(missing, bool(ours.keys() - theirs.keys()))
    if _is_later(theirs, ours, changed):
        return WritesThere(
            [one for place, one in theirs.items() if place not in ours or place in changed]
        )
    return WritesThere(went_on=True) if _is_later(ours, theirs, changed) else None


def _by_place(writes: Sequence[PendingWrite]) -> dict[tuple[str, int], PendingWrite]:
    return {(one.task_id, one.index): one for one in writes}


def _differ(one: PendingWrite, other: PendingWrite) -> bool:
    return (one.channel, one.value) != (other.channel, other.value)


def _is_later(later: Places, earlier: Places, changed: Sequence[tuple[str, int]]) -> bool:
    """Return whether a run that went on from *earlier* left *later*.

    It has all places and more answers or writes, and only what may be overwritten has *changed*. It
    gave the answers that were given before.
    """
    if earlier.keys() - later.keys() or any(index >= 0 for _, index in changed):
        return False
    grew = bool(later.keys() - earlier.keys())
    before, after = dict(_answers_by_task(earlier)), dict(_answers_by_task(later))
    for task, answers in after.items():
        known = before.get(task, [])
        if answers[: len(known)] != known:
            return False
        grew |= len(answers) > len(known)
    given = [answer for answers in after.values() for answer in answers]
    # An answer that belongs to no task is that of the last call; a task has taken the ones before.
    single = [earlier[place] for place in changed if place in earlier and place[1] == ANSWER]
    return grew and all(
        RAW.dumps_typed(records.loads(RAW, one.value)) in given
        for one in single
        if one.task_id not in before
    )


def _answers_by_task(writes: Places) -> Iterator[tuple[str, list[Any]]]:
    """Yield each task that was answered, with its answers in order."""
    for (task, index), one in writes.items():
        if index == ANSWER:
            answers = records.loads(RAW, one.value)
            if isinstance(answers, list) and task != NULL_TASK:
                yield task, [RAW.dumps_typed(answer) for answer in answers]

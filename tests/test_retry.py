"""The two retries: of a change while others are faster, and of what lost its connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy import Conflict, DatabaseUnreachable, ThreadDeleted
from memalchemy import _retry as retries
from memalchemy._retry import (
    CONFLICTS,
    CONNECTIONS,
    REQUESTS,
    UNANSWERED_TRIES,
    Backoff,
    Overtaken,
    repeat_unanswered,
    retry_in_program,
    retry_on_conflict,
    retry_when_overtaken,
    retry_while_busy,
)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries.random, "uniform", lambda low, high: 0)


class Attempts:
    """Ends as it is told, once for each call, and counts the calls."""

    def __init__(self, ends: Sequence[Any]) -> None:
        self.ends = ends
        self.calls = 0

    async def __call__(self) -> Any:
        return self.end()

    def end(self) -> Any:
        end = self.ends[self.calls]
        self.calls += 1
        if isinstance(end, BaseException):
            raise end
        return end


def unanswered() -> DatabaseUnreachable:
    return DatabaseUnreachable("the answer was lost", maybe_applied=True)


def overtaken() -> Overtaken:
    return Overtaken("somebody else was faster")


# --- Conflicts -----------------------------------------------------------------------------------

LOST_RACES = st.sampled_from([Conflict("changed"), ThreadDeleted("deleted")])


@given(st.lists(LOST_RACES, max_size=CONFLICTS.tries - 1))
async def test_a_change_is_tried_again_until_nobody_is_faster(lost: list[Exception]) -> None:
    attempts = Attempts([*lost, "written"])

    assert await retry_on_conflict(attempts, "thread 't'") == "written"
    assert attempts.calls == len(lost) + 1


@given(st.lists(LOST_RACES, min_size=CONFLICTS.tries, max_size=CONFLICTS.tries))
async def test_a_change_that_others_are_always_faster_with_is_a_conflict(
    lost: list[Exception],
) -> None:
    attempts = Attempts(lost)

    with pytest.raises(Conflict, match="others wrote to thread 't' 20 times") as raised:
        await retry_on_conflict(attempts, "thread 't'")
    assert attempts.calls == CONFLICTS.tries
    assert raised.value.__cause__ is lost[-1]


@pytest.mark.parametrize(
    "retry",
    [
        lambda attempt: retry_on_conflict(attempt, "thread 't'"),
        retry_when_overtaken,
        lambda attempt: repeat_unanswered(attempt, unanswered()),
    ],
    ids=["on conflict", "when overtaken", "unanswered"],
)
async def test_another_error_is_raised_at_once(
    retry: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
) -> None:
    attempts = Attempts([LookupError()])

    with pytest.raises(LookupError):
        await retry(attempts)
    assert attempts.calls == 1


@given(lost=st.integers(0, 25), tried=st.integers(0, 19))
async def test_what_was_overtaken_is_tried_twenty_times_with_earlier_tries(
    lost: int, tried: int
) -> None:
    attempts = Attempts([*(overtaken() for _ in range(lost)), "written"])

    if lost + tried < CONFLICTS.tries:
        assert await retry_when_overtaken(attempts, tried=tried) == "written"
        assert attempts.calls == lost + 1
    else:
        with pytest.raises(Conflict, match="somebody else was faster"):
            await retry_when_overtaken(attempts, tried=tried)
        assert attempts.calls == CONFLICTS.tries - tried


def run(program: Generator[Any, Any, Any]) -> tuple[int, Any]:
    """Run a program whose statements have no answers; return their number and its result."""
    sent = 0
    try:
        next(program)
        while True:
            sent += 1
            program.send(None)
    except StopIteration as end:
        return sent, end.value


@given(st.integers(0, 25))
def test_a_step_of_a_program_is_tried_twenty_times(lost: int) -> None:
    attempts = Attempts([*(None for _ in range(lost)), 0])

    def attempt() -> Generator[Any, Any, int | None]:
        yield "a statement"
        return attempts.end()  # type: ignore[no-any-return]

    program = retry_in_program(attempt, lambda: Conflict("never at rest"))
    if lost < CONFLICTS.tries:
        assert run(program) == (lost + 1, 0)
    else:
        with pytest.raises(Conflict, match="never at rest"):
            run(program)
        assert attempts.calls == CONFLICTS.tries


# --- Lost connections ----------------------------------------------------------------------------


@given(lost=st.integers(1, 8), tries=st.integers(1, 8))
async def test_a_write_without_an_answer_is_sent_again_as_often_as_it_says(
    lost: int, tries: int
) -> None:
    """The first sending, which was lost, is one of them."""
    last = unanswered()
    ends = [*(unanswered() for _ in range(lost - 2)), *([last] if lost > 1 else []), "written"]
    attempts = Attempts(ends)

    if lost < tries:
        assert await repeat_unanswered(attempts, unanswered(), tries=tries) == "written"
        assert attempts.calls == lost
    else:
        with pytest.raises(DatabaseUnreachable, match="the answer was lost"):
            await repeat_unanswered(attempts, unanswered(), tries=tries)
        assert attempts.calls == tries - 1


@given(earlier=st.integers(0, UNANSWERED_TRIES - 2))
async def test_what_was_never_sent_is_not_sent_again(earlier: int) -> None:
    away = DatabaseUnreachable("nobody is there")
    losses = [*(unanswered() for _ in range(earlier)), away]
    attempts = Attempts(losses[1:])

    with pytest.raises(DatabaseUnreachable) as raised:
        await repeat_unanswered(attempts, losses[0])
    assert raised.value is away
    assert attempts.calls == len(losses) - 1


@given(lost=st.integers(1, 5), was_done=st.booleans())
async def test_what_can_be_looked_for_is_looked_for_first(lost: int, was_done: bool) -> None:
    attempts = Attempts([*(unanswered() for _ in range(lost - 1)), "written"])
    looks = 0

    async def find(error: DatabaseUnreachable) -> str | None:
        nonlocal looks
        looks += 1
        assert error.maybe_applied
        return "found" if was_done and looks == lost else None

    result = await repeat_unanswered(attempts, unanswered(), find=find, tries=6)

    assert looks == lost
    assert (result, attempts.calls) == (("found", lost - 1) if was_done else ("written", lost))


@given(st.integers(0, 5))
def test_the_opening_of_a_file_is_tried_again_while_it_is_locked(lost: int) -> None:
    attempts = Attempts([*(OSError("locked") for _ in range(lost)), "opened"])

    assert retry_while_busy(attempts.end, 60, lambda error: "locked" in str(error)) == "opened"
    assert attempts.calls == lost + 1


@pytest.mark.parametrize(("seconds", "passing"), [(60, False), (-1, True)])
def test_the_opening_of_a_file_ends_with_its_error(seconds: float, passing: bool) -> None:
    attempts = Attempts([OSError("locked"), "opened"])

    with pytest.raises(OSError, match="locked"):
        retry_while_busy(attempts.end, seconds, lambda _: passing)
    assert attempts.calls == 1


# --- Waits ---------------------------------------------------------------------------------------


@given(backoff=st.sampled_from([CONFLICTS, CONNECTIONS, REQUESTS]), number=st.integers(1, 19))
def test_waits_grow_to_the_longest(backoff: Backoff, number: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries.random, "uniform", lambda low, high: high)
        shorter, longer = backoff.random_wait(number), backoff.random_wait(number + 1)

    assert 0 < shorter <= longer <= backoff.longest_wait

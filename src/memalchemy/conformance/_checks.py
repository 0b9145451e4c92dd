"""Checks as values, the code that runs them, and the comparisons that they are written with."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import itertools
import math
import time
import traceback
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    MutableSet,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from pydantic import BaseModel

from memalchemy.conformance.report import NotConforming, Report, Result, Status

T = TypeVar("T")

SECONDS = 120.0
"""Time that a check may take."""
LIFETIME = 0.4
"""Seconds that what is written to expire lives."""
SHOWN = 300
"""Characters of a value that a message shows."""

VALUES: dict[str, Any] = {
    "order": {"z": 1, "a": 2, "m": {"": None}},
    "list": [1, [2, []], {}],
    "tuple": (1, ("two", ())),
    "set": {1, "a"},
    "frozenset": frozenset({(1, 2), None}),
    "text": 'ä 漢字 🙂 \x00 \ud83d "\\ \n ~b',
    "numbers": [0, -1, 2**64, -(10**40), 1.5, -0.0, math.inf, -math.inf, 1e-300],
    "nan": math.nan,
    "truth": [True, False, None],
    "bytes": b"\x00\xff",
    "datetime": datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC),
    "offset": datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=-5, minutes=-30))),
    "naive": datetime(2026, 3, 1, 12),
    "date": date(2026, 3, 1),
    "uuid": UUID(int=7),
    "decimal": Decimal("1.10"),
}
"""A value of every type that memalchemy stores: see `memalchemy.codec.values`."""

ALIKE = (
    *("a", "A", "a ", " a", "a/b", "a/b/", "a%b", "a_b", "a.b", "a:b", "a|b", "a\\b", "a*", "a?"),
    *("1", "01", "1.0", "None", "\u00e4", "a\u0308", "'", '"', "🙂", "漢", "--", "..", "a\nb"),
)
"""Names that a careless store takes for each other."""


class Skipped(Exception):
    """A check cannot run: its message is the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One check: a promise, where it is written, and a function that tries it.

    It is run by `check_adapter`, `check_checkpointer`, `check_store` or `check_log`, alone with
    ``checks=[check]``. ``str(check)`` is its name, for the ids of parametrised tests.
    """

    name: str
    promise: str
    source: str
    _function: Callable[[Any], Awaitable[None]] = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.name


class Checks(list[Check]):
    """List of checks in the making; it is a decorator of their functions."""

    def __call__(
        self, source: str
    ) -> Callable[[Callable[[Any], Awaitable[None]]], Callable[[Any], Awaitable[None]]]:
        """Append a function as a check whose promise is its docstring and stands in *source*."""

        def append(function: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
            promise = " ".join((function.__doc__ or "").split())
            self.append(Check(function.__name__, promise, source, function))
            return function

        return append


async def run_checks(
    subject: str, make: Callable[[], Any], checks: Iterable[Check], seconds: float
) -> Report:
    """Run checks one after another, each on what *make* returns anew."""
    return Report(subject, tuple([await _run_check(check, make, seconds) for check in checks]))


async def _run_check(check: Check, make: Callable[[], Any], most: float) -> Result:
    status: Status = "passed"
    message, began = "", time.perf_counter()
    try:
        async with asyncio.timeout(most) as limit, made_by(make) as subject:
            await check._function(subject)
    except Skipped as reason:
        status, message = "skipped", str(reason)
    except NotConforming as broken:
        status, message = "failed", str(broken)
    except Exception as error:  # noqa: BLE001 - it is reported
        status, message = "failed", _error_message(error)
        if isinstance(error, TimeoutError) and limit.expired():
            message = f"it did not end within {most:g} seconds"
    seconds = time.perf_counter() - began
    return Result(check.name, status, check.promise, check.source, message, round(seconds, 3))


@asynccontextmanager
async def made_by(make: Callable[[], Any]) -> AsyncIterator[Any]:
    """Use what *make* returns: awaited, and by ``async with``, if that is possible."""
    made = make()
    if inspect.isawaitable(made):
        made = await made
    if hasattr(made, "__aenter__"):
        async with made as entered:
            yield entered
    else:
        yield made


def _error_message(error: Exception) -> str:
    places = traceback.extract_tb(error.__traceback__)
    where = f" ({places[-1].filename}:{places[-1].lineno})" if places else ""
    return f"{type(error).__name__} was raised: {_shorten(str(error))}{where}"


# --- Comparisons ---------------------------------------------------------------------------------


def fail(message: str) -> NoReturn:
    """Report that a promise is broken."""
    raise NotConforming(message)


def expect(condition: object, message: str) -> None:
    """Report *message* unless *condition* holds."""
    if not condition:
        fail(message)


def expect_equal(what: str, found: object, expected: object) -> None:
    """Report a value that is not the expected one, of the same types and in the same order."""
    if not is_same(found, expected):
        fail(f"{what}: expected {_shorten(repr(expected))}, found {_shorten(repr(found))}")


async def expect_error(what: str, work: Awaitable[Any], *errors: type[Exception]) -> Exception:
    """Report unless *work* raises one of *errors*; return the error."""
    names = " or ".join(error.__name__ for error in errors)
    try:
        found = await work
    except errors as error:
        return error
    except Exception as error:
        raise NotConforming(f"{what}: expected {names}, but {_error_message(error)}") from error
    fail(f"{what}: expected {names}, but it returned {_shorten(repr(found))}")


def lifetime_end() -> float:
    """Return when what is written from now on with a lifetime of `LIFETIME` may be gone."""
    return time.monotonic() + LIFETIME


async def expect_until_end(what: str, read: Awaitable[Any], expected: object, ends: float) -> None:
    """Report unless *read* returns what is there until *ends*; return when that is over.

    On a busy machine it may be over before the answer comes, which proves nothing.
    """
    found = await read
    if time.monotonic() < ends:
        expect_equal(what, found, expected)
    await asyncio.sleep(max(0.0, ends - time.monotonic()) + 0.2)


def is_same(found: Any, expected: Any) -> bool:
    """Return whether two values are equal, of the same types and with keys in the same order."""
    if isinstance(expected, float) and isinstance(found, float):
        return repr(found) == repr(expected)
    if type(found) is not type(expected):
        return False
    if isinstance(expected, dict):
        return list(found) == list(expected) and is_same([*found.values()], [*expected.values()])
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(is_same, found, expected))
    if isinstance(expected, datetime) and found.utcoffset() != expected.utcoffset():
        return False
    return bool(found == expected)


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"


def needs_capability(subject: Any, name: str) -> None:
    """Skip the check if the subject does not say that it has a capability."""
    if not getattr(getattr(subject, "capabilities", None), name, False):
        raise Skipped(f"capabilities.{name} is not true")


def needs_method(subject: Any, *names: str) -> None:
    """Skip the check if the subject does not have a method."""
    for name in names:
        if not callable(getattr(subject, name, None)):
            raise Skipped(f"there is no method {name}")


def needs_parameter(subject: Any, method: str, *names: str) -> None:
    """Skip the check if a method of the subject does not take an argument."""
    needs_method(subject, method)
    for name in names:
        if not has_parameter(subject, method, name):
            raise Skipped(f"{method} takes no {name}=")


def has_parameter(subject: Any, method: str, name: str) -> bool:
    """Return true if a method of the subject takes an argument."""
    parameters = inspect.signature(getattr(subject, method)).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return takes_all or name in parameters


def subject_name(make: Any) -> str:
    """Return a name for reports of what *make* makes."""
    name = getattr(make, "__qualname__", type(make).__qualname__)
    return f"{getattr(make, '__module__', '')}.{name}".removeprefix(".")


# --- Tools ---------------------------------------------------------------------------------------


def spoil(thing: Any) -> int:
    """Change every container in a value, in place; return their number.

    Containers are mappings, lists, sets, byte arrays, models of pydantic, dataclasses and messages
    of protobuf; what is frozen stays.
    """
    return _spoil(thing, set())


def _spoil(thing: Any, seen: set[int]) -> int:
    if id(thing) in seen or isinstance(thing, type):
        return 0
    seen.add(id(thing))
    if isinstance(thing, Mapping):
        changed = sum(_spoil(one, seen) for one in [*thing.values()])
        if isinstance(thing, dict):
            for key in thing:
                thing[key] = "spoilt"
            thing["spoilt"] = "spoilt"
            changed += 1
        return changed
    if isinstance(thing, list | deque):
        changed = sum(_spoil(one, seen) for one in [*thing])
        thing.append("spoilt")
        thing[0] = "spoilt"
        return changed + 1
    if isinstance(thing, tuple | frozenset):
        return sum(_spoil(one, seen) for one in thing)
    if isinstance(thing, MutableSet):
        thing.add("spoilt")
        return 1
    if isinstance(thing, bytearray):
        thing[:] = b"spoilt"
        return 1
    if callable(getattr(thing, "ListFields", None)):  # a message of protobuf
        thing.Clear()
        return 1
    if isinstance(thing, BaseModel) or dataclasses.is_dataclass(thing):
        return _spoil_attributes(thing, seen)
    return 0


def _spoil_attributes(thing: Any, seen: set[int]) -> int:
    changed = 0
    if isinstance(thing, BaseModel):
        names: Sequence[str] = list(type(thing).model_fields)
    else:
        names = [one.name for one in dataclasses.fields(thing)]
    for name in names:
        value = getattr(thing, name, None)
        changed += _spoil(value, seen)
        if isinstance(value, str):
            with suppress(Exception):  # it is frozen, or takes no such text
                setattr(thing, name, "spoilt")
                changed += 1
    return changed


class Interrupted:
    """Awaitable that runs *work* and cancels it where it suspends for the *at*-th time.

    Once it was awaited, ``suspended`` is the number of times that it has suspended.
    """

    def __init__(self, work: Awaitable[Any], at: int) -> None:
        self._work, self._at, self.suspended = work, at, 0

    def __await__(self) -> Generator[Any, None, Any]:
        steps = self._work.__await__()
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        while True:
            try:
                waiting = next(steps) if error is None else steps.throw(error)
            except StopIteration as done:
                return done.value
            self.suspended += 1
            if self.suspended == self._at:
                asyncio.get_running_loop().call_soon(task.cancel)
            error = None
            try:
                yield waiting
            except BaseException as thrown:  # noqa: BLE001 - it is thrown into the work
                error = thrown


async def each_interruption(
    write: Callable[[int], Awaitable[Any]], rounds: int = 3, most: int = 20
) -> AsyncGenerator[tuple[int, bool]]:
    """Cancel writes where they suspend for the first time, the second, and so on to their ends.

    Some rounds, because it depends on other threads how far a write has come then. *write* is
    called with a number of its own each time, at first with 0, which is not cancelled: what the
    first write begins with, such as a connection, is there then. Yields the number of each write,
    and whether it was acknowledged.
    """

    async def run(work: Interrupted) -> None:
        await work

    await write(0)
    numbers = itertools.count(1)
    for _ in range(rounds):
        for at in range(1, most):
            number = next(numbers)
            work = Interrupted(write(number), at)
            task = asyncio.create_task(run(work))
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()
            yield number, not task.cancelled()
            if work.suspended < at:
                break

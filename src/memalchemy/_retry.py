"""Try again: after a conflict with another writer, and after a lost connection.

**A conflict.** Another writer was faster, and nothing was written. What was read is no longer so:
the whole is done again, from its first read on. `retry_on_conflict` does that for a change that
compares and swaps, `retry_when_overtaken` for one that says itself when another was faster, and
`retry_in_program` for a step of a program. `memalchemy._locked_retry` also locks what it changes.

**A lost connection, or a database that is busy.** It may be unknown whether a statement was done.
It is sent again only if that does no harm:

- It reads, or its transaction was lost before COMMIT was sent, and so was undone: `Database.run`.
  The same goes for a write whose intent says ``repeatable``, for the first statement of a
  transaction (`TransactionConnection`), and for a request of HTTP (`Transport`) that reads or
  has a key by which the server does it once.
- The database refuses to do it twice, because its rows have keys of their own, or it can be looked
  for first. `repeat_unanswered` does these, above `Database.run`.
- A file is locked for a moment while it is opened: `retry_while_busy`.
- DDL locks all tables or none, and gives the locks back if that takes long: a block of PL/pgSQL.

Everything else ends with `DatabaseUnreachable`, whose ``maybe_applied`` says what is unknown.
Nothing is sent again on a connection of the host: its transaction is lost with it.

How often something is tried, and how long is waited before it is tried again, stands here alone.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from memalchemy.errors import Conflict, DatabaseUnreachable, MemalchemyError, ThreadDeleted

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Schedule of tries: their number, and the most seconds to wait before each but the first.

    The wait is random: those who try at the same moment again lose to each other again.
    """

    tries: int
    first_wait: float
    growth: float
    longest_wait: float = math.inf

    def random_wait(self, number: int) -> float:
        """Return the seconds to wait after *number* tries that failed."""
        most = min(self.first_wait * self.growth ** (number - 1), self.longest_wait)
        return random.uniform(0, most)

    async def wait(self, number: int) -> None:
        """Wait before another try, after *number* tries that failed."""
        await asyncio.sleep(self.random_wait(number))


CONFLICTS = Backoff(tries=20, first_wait=0.001, growth=2, longest_wait=0.05)
"""Also how often a read is repeated that others write into: it waits for nobody."""

CONNECTIONS = Backoff(tries=4, first_wait=0.08, growth=4)
"""For what is sent to a database."""

REQUESTS = Backoff(tries=3, first_wait=0.2, growth=4)
"""For what is sent to a server of HTTP."""

TABLE_LOCKS = Backoff(tries=30, first_wait=0.5, growth=1, longest_wait=0.5)
"""For the locks of DDL. Others wait behind each try for up to half a second."""

UNANSWERED_TRIES = 5
"""Number of times that a write is sent if no answer comes and the database refuses a second one."""

UNANSWERED_SAVE_TRIES = 20

BUSY_WAIT = 0.01
"""Seconds between two attempts to open a file that is locked."""


# --- Conflicts with other writers ----------------------------------------------------------------


class Overtaken(MemalchemyError):
    """Another writer was faster and nothing was written: the whole is to be tried again.

    Its text is that of the `Conflict` if all tries end so.
    """

    code = "MA-CONFLICT"


async def retry_when_overtaken(attempt: Callable[[], Awaitable[T]], *, tried: int = 0) -> T:
    """Return the result of *attempt*, called again each time it raises `Overtaken`.

    *attempt* reads, and writes only if what it read is still there. It must do nothing else. Before
    it is called again, a random time passes.

    Args:
        tried: the tries that were overtaken before.

    Raises:
        Conflict: it was overtaken in each of 20 tries, with these; nothing was written.
    """
    return await _retry(attempt, lambda error: isinstance(error, Overtaken), tried=tried)


async def retry_on_conflict(attempt: Callable[[], Awaitable[T]], target: str) -> T:
    """Do as `retry_when_overtaken`, where a `Conflict` says that somebody else was faster.

    Raises:
        Conflict: others were faster 20 times in a row; nothing was written to *target*.
    """
    message = (
        f"others wrote to {target} {CONFLICTS.tries} times while this was tried; nothing was "
        "written"
    )
    return await _retry(attempt, _is_conflict, message)


def _is_conflict(error: MemalchemyError) -> bool:
    return isinstance(error, Conflict | ThreadDeleted)


async def _retry(
    attempt: Callable[[], Awaitable[T]],
    is_overtaken: Callable[[MemalchemyError], bool],
    message: str | None = None,
    *,
    tried: int = 0,
) -> T:
    """Return the result of *attempt*, called again while an error says that it *is_overtaken*.

    Raises:
        Conflict: the last try was overtaken, too; with the *message*, or that of the last error.
    """
    while True:
        if tried:
            await CONFLICTS.wait(tried)
        try:
            return await attempt()
        except MemalchemyError as error:
            if not is_overtaken(error):
                raise
            tried += 1
            if tried >= CONFLICTS.tries:
                raise Conflict(message or str(error)) from error


def retry_in_program(
    attempt: Callable[[], Generator[Any, Any, T | None]], error: Callable[[], Conflict]
) -> Generator[Any, Any, T]:
    """Return the first result of *attempt* that is not ``None``, which says it was overtaken.

    For a step of a program, which holds the locks of its transaction meanwhile and so does not
    wait. An error would not do: that of a statement is raised in the program, too.

    Raises:
        Conflict: it was overtaken 20 times; *error* makes it.
    """
    for _ in range(CONFLICTS.tries):
        result = yield from attempt()
        if result is not None:
            return result
    raise error()


# --- Lost connections and busy databases ---------------------------------------------------------


async def repeat_unanswered(
    send: Callable[[], Awaitable[T]],
    lost: DatabaseUnreachable,
    *,
    find: Callable[[DatabaseUnreachable], Awaitable[T | None]] | None = None,
    tries: int = UNANSWERED_TRIES,
) -> T:
    """Do a write again whose first *send* ended with *lost*, if its answer alone was lost.

    That does no harm if the database refuses to do it twice, or *find* looks for it first.
    Nothing is waited for, because `Database.run` has tried to connect again.

    Args:
        send: the write, on no connection of the host.
        find: returns the result of a write that was done after all, ``None`` if it was not; its
            own errors end this.
        tries: the most times that it is sent, with the first.

    Raises:
        DatabaseUnreachable: nothing was sent at all, or no answer came to the last of *tries*.
    """
    for number in range(1, tries + 1):
        if not lost.maybe_applied:
            break
        found = None if find is None else await find(lost)
        if found is not None:
            return found
        if number < tries:
            try:
                return await send()
            except DatabaseUnreachable as error:
                lost = error
    try:
        raise lost
    finally:
        del lost  # it refers to this frame: such a cycle would stay until garbage is collected


def retry_while_busy(
    attempt: Callable[[], T], seconds: float, is_passing: Callable[[Exception], bool]
) -> T:
    """Return the result of *attempt*, called again for *seconds* while its errors are passing.

    Blocks. For the opening of a file, which another process locks for a moment.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except Exception as error:
            if time.monotonic() > deadline or not is_passing(error):
                raise
        time.sleep(BUSY_WAIT)

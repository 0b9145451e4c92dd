"""Jobs that go on where a row is damaged or not what was signed: it is left, and told at the end.

What selects a row for removal is proven where its program runs, by `memalchemy.protection.signing`,
and nothing of that program is done if it is not. So a job that has many rows to remove does them
one by one then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.errors import Corrupt, KeyMissing, MemalchemyError, StatementFailed

One = TypeVar("One")
Result = TypeVar("Result")

NAMED = 5
"""The number of damaged rows that the error at the end names."""


ERRORS = (Corrupt, KeyMissing, StatementFailed)


def is_damage(error: MemalchemyError) -> bool:
    """Return whether *error* is about a row that a job leaves, and not about the database.

    A row that somebody edited may break a rule of its table (SQLSTATE 23…): the database refuses to
    write it then.
    """
    if isinstance(error, StatementFailed):
        return (error.sqlstate or "").startswith(("23", "SQLITE_CONSTRAINT"))
    return True


class Damage:
    """The damaged rows that a job has met and left."""

    def __init__(self) -> None:
        self.errors: list[MemalchemyError] = []

    def __bool__(self) -> bool:
        return bool(self.errors)

    @contextmanager
    def noted(self, *more: type[MemalchemyError]) -> Iterator[None]:
        """Note damage instead of raising it, and *more* errors by which a job is stopped by it."""
        noted: tuple[type[MemalchemyError], ...] = (*ERRORS, *more)
        try:
            yield
        except noted as error:
            if not is_damage(error):
                raise
            if str(error) not in map(str, self.errors):
                self.errors.append(error)

    def note_rows(self, error: UnreadableRows) -> None:
        """Note the rows that could not be read, each once."""
        noted = {str(one) for one in self.errors}
        self.errors += [Corrupt(what) for what in error.damaged.values() if what not in noted]

    def raise_if_any(self, done: str) -> None:
        """Raise what was noted, once the job has *done* the rest.

        Raises:
            Corrupt: rows are damaged or not what was signed; they were left.
            KeyMissing: nothing is damaged, but a tenant has a key that was not given.
        """
        if not self.errors:
            return
        if all(isinstance(error, KeyMissing) and error.of_tenant for error in self.errors):
            raise self.errors[0]
        named = "\n".join(f"- {error}" for error in self.errors[:NAMED])
        more = f"\n- … and {len(self.errors) - NAMED:,} more" * (len(self.errors) > NAMED)
        raise Corrupt(
            f"{len(self.errors):,} were left, because what they say cannot be read or proven; "
            f"{done}. `memalchemy verify` lists what is damaged:\n{named}{more}"
        ) from self.errors[0]


async def each_proven(
    found: Sequence[One],
    remove: Callable[[Sequence[One]], Awaitable[Result]],
    damage: Damage,
) -> AsyncIterator[Result]:
    """Remove what a job has *found*, at once if all of it is proven, otherwise one by one.

    Yields what *remove* returns. What is not proven is noted as *damage* and left.
    """
    try:
        yield await remove(found)
        return
    except ERRORS as error:
        if not is_damage(error):
            raise
        if len(found) == 1:
            damage.errors.append(error)
            return
    for one in found:
        with damage.noted():
            yield await remove([one])

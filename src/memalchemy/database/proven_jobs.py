"""Jobs that go on where a row is not what was signed: it is left, named, and told at the end.

What selects a row for removal is proven where its program runs, by `memalchemy.database.signing`,
and nothing of that program is done if it is not. So a job that has many rows to remove does them
one by one then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from memalchemy.errors import Corrupt, KeyMissing

One = TypeVar("One")
Result = TypeVar("Result")

NAMED = 5
"""The number of damaged rows that the error at the end names."""


class Damage:
    """The damaged rows that a job has met and left."""

    def __init__(self) -> None:
        self.errors: list[Corrupt | KeyMissing] = []

    def __bool__(self) -> bool:
        return bool(self.errors)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note damage instead of raising it."""
        try:
            yield
        except (Corrupt, KeyMissing) as error:
            self.errors.append(error)

    def raise_if_any(self, done: str) -> None:
        """Raise what was noted, once the job has *done* the rest.

        Raises:
            Corrupt: rows are not what was signed; they were left.
        """
        if not self.errors:
            return
        named = "\n".join(f"- {error}" for error in self.errors[:NAMED])
        more = f"\n- … and {len(self.errors) - NAMED:,} more" * (len(self.errors) > NAMED)
        raise Corrupt(
            f"{len(self.errors):,} were left, because what they say cannot be proven; {done}. "
            f"`memalchemy verify` lists what is damaged:\n{named}{more}"
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
    except (Corrupt, KeyMissing) as error:
        if len(found) == 1:
            damage.errors.append(error)
            return
    for one in found:
        with damage.noted():
            yield await remove([one])

"""Grouping of what is read one by one into records that are written together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from memalchemy.contracts import NewItem
from memalchemy.importers.target import BATCH, Items
from memalchemy.importers.unreadable import read_or_leave

T = TypeVar("T")


async def paged_items(
    stored: AsyncIterator[T],
    item: Callable[[T], NewItem],
    name: Callable[[T], str],
    what: str,
) -> AsyncIterator[Items]:
    """Yield records of `BATCH` items, each made by *item* of something that is stored.

    What nobody can read is left out under its *name*. *what* they are is part of the names of the
    records in messages.
    """
    page: list[NewItem] = []
    left_out: list[str] = []
    read, first = 0, ""
    async for one in stored:
        first = first or name(one)
        made = read_or_leave(lambda one=one: item(one), name(one), left_out)  # type: ignore[misc]
        if made is not None:
            page.append(made)
        read += 1
        if read % BATCH == 0:
            yield Items(page, f"{what} from {first}", left_out)
            page, left_out, first = [], [], ""
    if read % BATCH:
        yield Items(page, f"{what} from {first}", left_out)


def pages_of(count: int) -> int:
    """Return the number of records that `paged_items` makes of so many items."""
    return -(-count // BATCH)

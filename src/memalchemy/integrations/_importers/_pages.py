"""Grouping of what is read one by one into records that are written together."""

from __future__ import annotations

from collections.abc import AsyncIterator

from memalchemy.contracts import NewItem
from memalchemy.importers.target import BATCH, Items


async def paged_items(items: AsyncIterator[NewItem], what: str) -> AsyncIterator[Items]:
    """Yield records of `BATCH` items; *what* they are is part of their names in messages."""
    page: list[NewItem] = []
    async for item in items:
        page.append(item)
        if len(page) == BATCH:
            yield Items(page, f"{what} from {page[0].key!r}")
            page = []
    if page:
        yield Items(page, f"{what} from {page[0].key!r}")


def pages_of(count: int) -> int:
    """Return the number of records that `paged_items` makes of so many items."""
    return -(-count // BATCH)

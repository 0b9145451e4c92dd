"""The webhooks of tasks in the database, for the stores of tasks and for that of webhooks."""

from __future__ import annotations

from datetime import datetime

from memalchemy.contracts import MAX_LIMIT, StoreItem
from memalchemy.database import HostConnection
from memalchemy.integrations._base import end_items
from memalchemy.store import Store

UNTIL = "until"
"""Metadata of a webhook that ends at a time of its own, however long its task lives."""


def webhooks_of(namespace: tuple[str, ...], task_id: str, *owner: str) -> tuple[str, ...]:
    """Return the namespace of an owner's webhooks of a task, or without *owner* that of all."""
    return (*namespace, "push_notifications", task_id, *owner)


async def end_webhooks(
    store: Store, namespace: tuple[str, ...], end: datetime | None, tx: HostConnection
) -> None:
    """Let the webhooks of a task end at *end*, or earlier if they have a time of their own."""
    for item in await store.list_items(namespace, limit=MAX_LIMIT, connection=tx):
        await end_items(store, [item], earlier(end, end_of_its_own(item)), tx)


def end_of_its_own(item: StoreItem) -> datetime | None:
    """Return when a webhook ends however long its task lives; ``None`` if it has no such time."""
    until = (item.metadata or {}).get(UNTIL)
    return None if until is None else datetime.fromisoformat(until)


def earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    """Return the earlier of two ends, of which ``None`` is none."""
    return min((end for end in (one, other) if end is not None), default=None)

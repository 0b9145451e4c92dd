"""Compare-and-swap of an item: read, change, write, and retry if another was faster.

The loop of `Store.change`, and the check of ``expected_version``. Optimistic: nothing is locked
while the caller's function decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from inspect import isawaitable
from typing import Any, Final

from memalchemy.contracts import UNSET, StoreItem, check_callable
from memalchemy.errors import Conflict


class ChangeResult(Enum):
    """Result of a change that is not a new value."""

    LEAVE = "leave"
    DELETE = "delete"

    def __repr__(self) -> str:
        return self.name


LEAVE: Final = ChangeResult.LEAVE
"""Leave the item as it is, or absent."""
DELETE: Final = ChangeResult.DELETE
"""Remove the item, if it is there."""

Change = Callable[[StoreItem | None], Any]
"""Returns the new value for an item, or for ``None``; or an awaitable of it."""

MAX_UNSEEN_CONFLICTS = 3
"""Conflicts in a row in which a transaction reads what it read before, until it gives up."""


async def compare_and_swap(
    item: StoreItem | None,
    change: Change,
    write: Callable[[StoreItem | None, Any], Awaitable[Any]],
    *,
    in_transaction: bool,
) -> Any:
    """Let *change* decide about *item* and *write* it, again for as long as another was faster.

    Returns the value that is there then. *write* raises the `Conflict` of a store's writes.
    """
    check_callable(change, "change", "an item")
    unseen = 0
    while True:
        said = change(item)
        value = await said if isawaitable(said) else said
        try:
            await write(item, value)
        except Conflict as conflict:
            found = conflict.current
            now = found if isinstance(found, StoreItem) else None
            # An item may come and go once between two reads; not again and again.
            unseen = unseen + 1 if _is_same(item, now) else 0
            if in_transaction and unseen == MAX_UNSEEN_CONFLICTS:
                raise Conflict(
                    "the transaction of connection= still sees what somebody else has changed "
                    "since, so it can change nothing there; nothing was changed. Begin it anew, "
                    "or use READ COMMITTED, which sees what others commit.",
                    expected=conflict.expected,
                    current=now,
                ) from conflict
            item = now
        else:
            if value is LEAVE:
                return None if item is None else item.value
            return None if value is DELETE else value


def check_expected(version: object, *, or_item: bool = True) -> None:
    """Raise `TypeError` unless *version* is what ``expected_version`` takes."""
    if version is UNSET or version is None or (or_item and isinstance(version, StoreItem)):
        return
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"expected_version is a version, not {type(version).__name__}")


def version_conflict(key: str, expected: object, current: StoreItem | None) -> Conflict:
    """Return the error for an item that is not the *expected* one."""
    if isinstance(expected, StoreItem):
        expected = expected.version
    wanted = "nothing" if expected is None else f"version {expected}"
    found = "it is not there" if current is None else f"it is at version {current.version}"
    return Conflict(
        f"{wanted} was expected under key {key!r}, but {found}; nothing was changed. Read it, "
        "apply the change to it and write again.",
        expected=expected,
        current=current,
    )


def _is_same(one: StoreItem | None, other: StoreItem | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.version, one.created_at) == (other.version, other.created_at)

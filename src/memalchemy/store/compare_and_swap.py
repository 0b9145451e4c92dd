"""Read, change, write: the loop of `Store.change`, and what it and the store's own writes expect.

Optimistic: nothing is locked while the caller's function decides, and who was slower decides anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from inspect import isawaitable
from typing import Any, Final

from memalchemy.contracts import UNSET, StoreItem
from memalchemy.errors import Conflict


class Kept(Enum):
    """What a change can give in place of a value."""

    LEAVE = "leave"
    DELETE = "delete"

    def __repr__(self) -> str:
        return self.name


LEAVE: Final = Kept.LEAVE
"""Leave the item as it is, or absent."""
DELETE: Final = Kept.DELETE
"""Remove the item, if it is there."""

Change = Callable[[StoreItem | None], Any]
"""Gives the new value of an item, or of none; or an awaitable of it."""

BLIND = 3
"""How often in a row a transaction may find what it read, after it was told that it is not that."""


async def settled(
    item: StoreItem | None,
    change: Change,
    write: Callable[[StoreItem | None, Any], Awaitable[Any]],
    *,
    in_transaction: bool,
) -> Any:
    """Let *change* decide about *item* and *write* it, again for as long as another was faster.

    Returns the value that is there then. *write* raises the `Conflict` of a store's writes.
    """
    blind = 0
    while True:
        said = change(item)
        value = await said if isawaitable(said) else said
        try:
            await write(item, value)
        except Conflict as conflict:
            found = conflict.current
            now = found if isinstance(found, StoreItem) else None
            # Of nothing twice in a row another may have come and gone; but not again and again.
            blind = blind + 1 if _is_same(item, now) else 0
            if in_transaction and blind == BLIND:
                raise Conflict(
                    "the transaction of connection= still sees what somebody else has changed "
                    "since, so it can change nothing there; nothing was changed. Begin it anew, "
                    "or have it see what others commit (READ COMMITTED).",
                    expected=conflict.expected,
                    current=now,
                ) from conflict
            item = now
        else:
            if value is LEAVE:
                return None if item is None else item.value
            return None if value is DELETE else value


def check_expected(version: object, *, or_item: bool = True) -> None:
    """Raise `TypeError` unless it is what ``expected_version`` takes."""
    if version is UNSET or version is None or (or_item and isinstance(version, StoreItem)):
        return
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"expected_version is a version, not {type(version).__name__}")


def not_as_expected(key: str, expected: object, current: StoreItem | None) -> Conflict:
    """The error of a write that found something else."""
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

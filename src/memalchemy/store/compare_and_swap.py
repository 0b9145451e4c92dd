"""Compare-and-swap of an item: a caller's change of it, and the check of ``expected_version``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memalchemy.contracts import UNSET, StoreItem
from memalchemy.errors import Conflict

Change = Callable[[StoreItem | None], Any]
"""Returns the new value for an item, or for ``None``; or an awaitable of it."""


def check_expected(version: object, *, or_item: bool = True, of_delete: bool = False) -> None:
    """Raise `TypeError` unless *version* is what ``expected_version`` takes."""
    if version is None and of_delete:
        raise TypeError("expected_version of a delete is a version")
    if version is UNSET or version is None or (or_item and isinstance(version, StoreItem)):
        return
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"expected_version is a version, not {type(version).__name__}")


def item_conflict(key: str, expected: object, current: StoreItem | None) -> Conflict:
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

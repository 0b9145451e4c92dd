"""Compare-and-swap of an item: a caller's change of it, and the check of ``expected_version``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from inspect import isawaitable
from typing import Any, Final

from memalchemy.contracts import UNSET, StoreItem, check_callable
from memalchemy.errors import Conflict, MemalchemyError, ThreadDeleted


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


class FunctionError(Exception):
    """Carries a `Conflict` of the caller's function past the retries: no try was lost by it."""

    def __init__(self, error: MemalchemyError) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def function_errors() -> Iterator[None]:
    """Raise a `FunctionError` of the block as the error that the caller's function raised."""
    try:
        yield
    except FunctionError as carrier:
        raise carrier.error from carrier.error.__cause__


class ItemChange:
    """A caller's function that decides about an item.

    ``is_awaitable`` says whether its last call returned an awaitable. Such a function may take
    long, and may use the database itself, so nothing may be locked while it runs.
    """

    is_awaitable = False

    def __init__(self, function: Change) -> None:
        check_callable(function, "change", "an item")
        self._function = function

    async def apply(
        self, item: StoreItem | None, write: Callable[[StoreItem | None, Any], Awaitable[object]]
    ) -> Any:
        """Let the function decide about *item*, *write* that, and return the value there is then.

        Raises:
            Conflict: of *write*: *item* is not what is there any more.
            FunctionError: the function raised an error that is retried where a write raises it.
        """
        try:
            value = self._function(item)
            self.is_awaitable = isawaitable(value)
            if self.is_awaitable:
                value = await value
        except (Conflict, ThreadDeleted) as error:
            raise FunctionError(error) from error
        await write(item, value)
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

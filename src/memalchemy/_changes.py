"""Functions of a caller that compute a new value from the stored one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any

from memalchemy.contracts import DELETE, LEAVE, StoreItem, check_callable
from memalchemy.errors import Conflict, InvalidArgument, MemalchemyError, ThreadDeleted


class ChangeFunction:
    """A caller's function, whose errors are told apart from those of the write of its result.

    ``is_awaitable`` says whether its last call returned an awaitable. Such a function may take
    long, and may use the database itself, so nothing may be locked while it runs.
    """

    is_awaitable = False

    def __init__(self, function: Callable[[Any], Any], of: str) -> None:
        check_callable(function, "change", of)
        self._function = function

    async def call(self, stored: Any) -> Any:
        """Return the result of the function for what is *stored*.

        Raises:
            FunctionError: the function raised an error that is retried where a write raises it.
        """
        try:
            value = self._function(stored)
            self.is_awaitable = isawaitable(value)
            if self.is_awaitable:
                value = await value
        except (Conflict, ThreadDeleted) as error:
            raise FunctionError(error) from error
        return value


class ItemChange(ChangeFunction):
    """A caller's function that decides about an item."""

    def __init__(self, function: Callable[[StoreItem | None], Any]) -> None:
        super().__init__(function, "an item")

    async def apply(
        self, item: StoreItem | None, write: Callable[[StoreItem | None, Any], Awaitable[object]]
    ) -> Any:
        """Call the function with *item*, *write* its result, and return the value that is stored.

        Raises:
            Conflict: raised by *write*, as *item* is no longer what is stored.
            FunctionError: the function raised an error that is retried where a write raises it.
        """
        value = await self.call(item)
        await write(item, value)
        if value is LEAVE:
            return None if item is None else item.value
        return None if value is DELETE else value


def check_changed_state(state: object) -> None:
    """Raise `InvalidArgument` if *state* is none, as where a function has no ``return``."""
    if state is None or state is DELETE:
        raise InvalidArgument(
            f"the function returned {state!r}, and no state; nothing was saved. Return the new "
            "state, also if it is the given one, or LEAVE to save nothing."
        )


class FunctionError(Exception):
    """Carries a `Conflict` that the caller's function raised past the retries of a lost write."""

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

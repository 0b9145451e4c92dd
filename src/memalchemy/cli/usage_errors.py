"""Mistakes in how a command was called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memalchemy.errors import MemalchemyError


class UsageError(MemalchemyError):
    """The options contradict each other, lack something, or have a value that makes no sense."""

    code = "MA-USAGE"


class NotConfirmed(MemalchemyError):
    """The question whether something is to be removed was not answered with yes."""

    code = "MA-NOT-CONFIRMED"


@contextmanager
def usage_errors() -> Iterator[None]:
    """Report a `ValueError` of the library as a mistake in the command."""
    try:
        yield
    except MemalchemyError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error


def require_exactly_one(options: str, *values: object) -> None:
    """Raise a `UsageError` that names *options* unless exactly one of *values* is given."""
    # An empty text is an id like any other: a variable that is not set selects nothing else.
    if sum(value is not None and value is not False and value != [] for value in values) != 1:
        raise UsageError(f"give exactly one of {options}")

"""The answers of an adapter to filters, beside those of the framework's own store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, settings

each_example_again = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def answer(ask: Callable[[], Iterable[Any]]) -> list[str] | Exception:
    """Return the sorted ids that were found, or the error."""
    try:
        return sorted(str(one) for one in ask())
    except Exception as error:  # noqa: BLE001
        return error


def check_same(
    ours: Callable[[], Iterable[Any]],
    theirs: Callable[[], Iterable[Any]],
    wanted: Any,
    *,
    refusals: tuple[type[Exception], ...] = (ValueError, TypeError),
    may_refuse: bool = False,
) -> bool:
    """Fail unless *ours* finds what *theirs* finds, and return whether theirs answered.

    Where theirs raises an error, ours answers or refuses, by one of *refusals*. A store in memory
    may find a filter wrong at the first item that it looks at, and ours before: *may_refuse*.
    """
    found, expected = answer(ours), answer(theirs)
    refused = isinstance(found, refusals) and may_refuse
    if isinstance(expected, Exception) or refused:
        if isinstance(found, Exception) and type(found) not in refusals:
            raise AssertionError(f"{wanted!r} is no clear refusal") from found
        return False
    if isinstance(found, Exception):
        raise AssertionError(f"{wanted!r} finds {expected} in theirs") from found
    assert found == expected, wanted
    return True

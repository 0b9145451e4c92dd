"""The answers of an adapter to filters, beside those of the framework's own store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from drawn_examples import examples

each_example_again = settings(
    max_examples=examples(40),
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


# Metadata, and equal values of it by name. Python takes True for 1: booleans have a field to
# themselves.
_NAMES = st.sampled_from(["a", "b", "a.b", "a b", "it's", "é"])
_SCALARS = st.sampled_from([None, -1, 0, 1, 1.0, 2.5, "", "x", "1", "2026-03-01"])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=4,
)
METADATA = st.builds(
    lambda some, flags: some | flags,
    st.dictionaries(_NAMES, _VALUES, max_size=4),
    st.fixed_dictionaries({}, optional={"flag": st.booleans() | st.none()}),
)
MANY_METADATA = st.lists(METADATA, min_size=1, max_size=7)
EQUALITIES = st.one_of(
    st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=2),
    st.fixed_dictionaries({"flag": st.booleans() | st.none()}),
)


def with_present(
    filters: list[dict[str, Any]], metadata: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return filters, and one for each value that is there."""
    return [*filters, *({name: one[name]} for one in metadata for name in one)]

"""Internal items: indexes and notes that the library and its adapters keep in the store."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from memalchemy.adapters import MOST_PATTERNS, internal_patterns, like_patterns
from memalchemy.keys import encode_namespace
from memalchemy.memory.episodes import BY_TIME

OWN = like_patterns((..., BY_TIME))
"""The keys of episodes by time."""

PLACES = (8, MOST_PATTERNS + len(OWN))
"""Numbers of patterns that a statement has place for."""

_NONE = "-"
"""A pattern that no namespace matches: they begin with a slash."""


def places() -> int:
    """Return the number of patterns that a statement must have place for."""
    needed = len(_patterns_of_internal())
    return next(number for number in PLACES if number >= needed)


def pattern_names(number: int) -> list[str]:
    """Return the binds of the patterns, in a statement with place for *number*."""
    return [f"p_internal_{at}" for at in range(number)]


def internal_binds(*, shown: bool) -> dict[str, Any]:
    """Return the binds with which internal items are left out, or *shown*."""
    names = pattern_names(places())
    patterns = [] if shown else _patterns_of_internal()
    return dict.fromkeys(names, _NONE) | dict(zip(names, patterns, strict=False))


def holds_internal_items(namespace: tuple[str, ...]) -> bool:
    """Return whether a namespace holds internal items alone."""
    path = encode_namespace(namespace)
    return any(_regex_of_like(pattern).fullmatch(path) for pattern in _patterns_of_internal())


def _patterns_of_internal() -> list[str]:
    return [*OWN, *internal_patterns()]


@lru_cache(maxsize=PLACES[-1])
def _regex_of_like(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of what a pattern of LIKE matches."""
    spelt = re.sub(
        r"\\(.)|(%)|(.)",
        lambda part: ".*" if part[2] else re.escape(part[1] or part[3]),
        pattern,
        flags=re.DOTALL,
    )
    return re.compile(spelt, re.DOTALL)

"""Internal items: indexes and bookkeeping that the library and its adapters keep in the store."""

from __future__ import annotations

import re
from typing import Any

from memalchemy.keys import encode_namespace
from memalchemy.memory.episodes import BY_TIME

PATTERNS = (
    f"%/{BY_TIME}/",  # the keys of episodes, by time
    "%/fact owners/",  # lauren-ai: who has a fact
    "/pydantic-ai-harness%/receipts/",  # which changes were made
    "/pydantic-ai-harness%/pruned/%",  # which snapshots there were
)
"""Patterns of LIKE for encoded namespaces that hold nothing else."""

NAMES = tuple(f"p_internal_{at}" for at in range(len(PATTERNS)))
"""Binds of the patterns, in the statements that leave such items out."""

_NONE = "-"
"""A pattern that no namespace matches: they begin with a slash."""

_PATHS = re.compile("|".join(re.escape(one).replace("%", ".*") for one in PATTERNS), re.DOTALL)


def internal_binds(*, shown: bool) -> dict[str, Any]:
    """Return the binds with which internal items are left out, or *shown*."""
    return dict(zip(NAMES, [_NONE] * len(NAMES) if shown else PATTERNS, strict=True))


def is_internal(namespace: tuple[str, ...]) -> bool:
    """Return whether a namespace holds internal items alone."""
    return _PATHS.fullmatch(encode_namespace(namespace)) is not None

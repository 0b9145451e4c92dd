"""Whose memories a call reads and writes. In doubt nobody's: everything here fails closed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from memalchemy.memory.memories import MemoryScope, RunInfo, check_prefix
from memalchemy.messages import metadata_of, read

_log = logging.getLogger(__name__)

Prefix = tuple[str, ...]
Resolved = Prefix | MemoryScope | None
NamespaceResolver = Callable[[RunInfo], Resolved | Awaitable[Resolved]]
"""Whose memories a run has: a namespace, a `MemoryScope`, or ``None`` for nobody's."""

_active: ContextVar[tuple[object, MemoryScope] | None] = ContextVar(
    "memalchemy_memory_scope", default=None
)


@contextmanager
def entered(owner: object, scope: MemoryScope) -> Iterator[None]:
    """Have the calls of *owner* in this block, and tasks begun in it, work in *scope*."""
    token = _active.set((owner, scope))
    try:
        yield
    finally:
        _active.reset(token)


def active(owner: object) -> MemoryScope | None:
    """The scope that *owner* has entered."""
    found = _active.get()
    return found[1] if found is not None and found[0] is owner else None


def of_one_tenant(namespace: Prefix, recall: Iterable[Prefix]) -> MemoryScope:
    """The scope of these, less what is recalled from another tenant: that is logged, never read."""
    prefix, kept = check_prefix(namespace), []
    for one in dict.fromkeys(check_prefix(given) for given in recall):
        if one[0] != prefix[0]:
            _log.warning("a namespace to recall from is of another tenant, and was left out")
        elif one != prefix:
            kept.append(one)
    return MemoryScope(prefix, tuple(kept))


def scope_of(resolved: Resolved) -> MemoryScope | None:
    """What a resolver has given.

    Raises:
        TypeError, ValueError: it is no namespace, or one with an empty part.
    """
    if resolved is None:
        return None
    if isinstance(resolved, MemoryScope):
        return of_one_tenant(resolved.namespace, resolved.recall)
    return of_one_tenant(resolved, ())


def run_of(state: Any, metadata: Any) -> RunInfo:
    """What is known of the run that *state* belongs to; *metadata* wins over the state's own."""
    if isinstance(state, (list, tuple)):
        return RunInfo(metadata=dict(metadata or {}))
    return RunInfo(
        run_id=read(state, "run_id"),
        metadata={**metadata_of(state), **(metadata or {})},
        agent_name=read(state, "agent_id"),
    )

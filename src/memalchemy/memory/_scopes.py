"""Resolution of the namespaces that a run reads and writes. In case of doubt there are none."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from memalchemy.memory.memories import MemoryScope, RunInfo, check_memory_namespace
from memalchemy.messages import metadata_of, read

_log = logging.getLogger(__name__)

Namespace = tuple[str, ...]
Resolved = Namespace | MemoryScope | None
NamespaceResolver = Callable[[RunInfo], Resolved | Awaitable[Resolved]]
"""Function that gives the namespace or the `MemoryScope` of a run; ``None`` for no memory."""

_active: ContextVar[tuple[object, MemoryScope] | None] = ContextVar(
    "memalchemy_memory_scope", default=None
)


@contextmanager
def enter_scope(owner: object, scope: MemoryScope) -> Iterator[None]:
    """Make *scope* the scope of the calls of *owner* in this block, and in tasks created in it."""
    token = _active.set((owner, scope))
    try:
        yield
    finally:
        _active.reset(token)


def active_scope(owner: object) -> MemoryScope | None:
    """Return the scope that *owner* has entered, or ``None``."""
    found = _active.get()
    return found[1] if found is not None and found[0] is owner else None


def scope_within_tenant(namespace: Namespace, recall: Iterable[Namespace]) -> MemoryScope:
    """Return a scope without the namespaces of other tenants, which are logged and left out."""
    own, kept = check_memory_namespace(namespace), []
    for one in dict.fromkeys(check_memory_namespace(given) for given in recall):
        if one[0] != own[0]:
            _log.warning("a namespace to recall from is of another tenant, and was left out")
        elif one != own:
            kept.append(one)
    return MemoryScope(own, tuple(kept))


def resolved_scope(resolved: Resolved) -> MemoryScope | None:
    """Return the scope that a resolver has given.

    Raises:
        TypeError, ValueError: it is no namespace, or has an empty part.
    """
    if resolved is None:
        return None
    if isinstance(resolved, MemoryScope):
        return scope_within_tenant(resolved.namespace, resolved.recall)
    return scope_within_tenant(resolved, ())


def run_info(state: Any, metadata: Any) -> RunInfo:
    """Describe the run of a state; *metadata* takes precedence over the metadata of the state."""
    if isinstance(state, (list, tuple)):
        return RunInfo(metadata=dict(metadata or {}))
    return RunInfo(
        run_id=read(state, "run_id"),
        metadata={**metadata_of(state), **(metadata or {})},
        agent_name=read(state, "agent_id"),
    )

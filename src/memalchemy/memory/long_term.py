"""`LLMMemoryManager`: memories in a `Store`, by namespace and type, found by words or by age."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from typing import Any

from memalchemy.contracts import StoreItem, check_limit
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.errors import Conflict
from memalchemy.events import operation
from memalchemy.keys import check_list
from memalchemy.memory import scopes
from memalchemy.memory.fence import MEMORY, without_blocks
from memalchemy.memory.finding import mode_of, naming_of
from memalchemy.memory.heuristics import memories_in
from memalchemy.memory.memories import Memory, MemoryScope, MemoryType, check_prefix
from memalchemy.memory.scopes import NamespaceResolver, Prefix
from memalchemy.memory.sessions import (
    MODES,
    BaseMemoryManager,
    ExtractFn,
    ExtractMode,
    awaited,
    replaced,
    report,
)
from memalchemy.memory.states import messages_of
from memalchemy.store import Store

_log = logging.getLogger(__name__)

PAGE = 200

# Where a memory stood among those that were saved with it: they all have one time.
_POSITION = "position"


class LLMMemoryManager(BaseMemoryManager):
    """Long-term memory in a `Store`: under ``(*namespace, type)``, by the memory's key.

    Args:
        store: a `Store`, or a `Database`. With an embedder memories are found by meaning as well.
        extract_fn: a function of a list of messages that gives memories, or mappings of their
            fields; plain or a coroutine. Without it the words are looked at, in English.
        namespace_prefix: whose memories these are, such as ``("users", "ada")``.
        max_memories: how many are kept of each type; the oldest go. ``None``: all.
        retrieve_limit: how many are recalled.
        extract_mode: ``inline``: when a session's end returns, its memories are saved;
            ``background``: soon after, those of one namespace in the order of their sessions.
            Call `drain` before the database is closed.
        max_concurrent_extractions: how many of the background run at once.
        namespace_resolver: a function of a `RunInfo` that says whose memories a run has: a
            namespace or a `MemoryScope`; plain or a coroutine. If it gives ``None``, raises, or
            gives what is no namespace, the run has no memory: nothing is read or written, and what
            went wrong is logged. Outside of a session and of `scoped` there is then no namespace.

    Every method takes ``connection=``, as those of `Store` do.

    Raises, from any method but `on_session_end`:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        store: Store | Database,
        *,
        extract_fn: ExtractFn | None = None,
        namespace_prefix: Sequence[str] = ("memory",),
        max_memories: int | None = 50,
        retrieve_limit: int = 20,
        extract_mode: ExtractMode = "inline",
        max_concurrent_extractions: int = 4,
        namespace_resolver: NamespaceResolver | None = None,
    ) -> None:
        if extract_mode not in MODES:
            raise ValueError(f"extract_mode is one of {', '.join(MODES)}, not {extract_mode!r}")
        if max_concurrent_extractions < 1:
            raise ValueError("max_concurrent_extractions must be at least 1")
        if max_memories is not None and max_memories < 1:
            raise ValueError("max_memories must be at least 1; None keeps all")
        for name, function in (("extract_fn", extract_fn), ("resolver", namespace_resolver)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function, not {type(function).__name__}")
        self.store = store if isinstance(store, Store) else Store(check_database(store, self))
        self.extract_fn = extract_fn
        self.namespace_prefix = check_prefix(namespace_prefix)
        self.max_memories = max_memories
        self.retrieve_limit = check_limit(retrieve_limit)
        self.extract_mode = extract_mode
        self.max_concurrent_extractions = max_concurrent_extractions
        self.namespace_resolver = namespace_resolver

    def __repr__(self) -> str:
        return f"LLMMemoryManager({self.store!r}, namespace_prefix={self.namespace_prefix!r})"

    @property
    def active_namespace(self) -> tuple[str, ...]:
        """The namespace that is written to now.

        Raises:
            ValueError: a resolver says which, and this is neither a session nor `scoped`.
        """
        return self._active().namespace

    @property
    def active_recall(self) -> tuple[tuple[str, ...], ...]:
        """The namespaces that are read now: the active one, then those that are only read."""
        scope = self._active()
        return (scope.namespace, *scope.recall)

    def scoped(
        self, namespace_prefix: Sequence[str], *, recall: Iterable[Sequence[str]] = ()
    ) -> AbstractContextManager[None]:
        """``with manager.scoped(("users", "ada")):`` all calls in the block are in that namespace.

        *recall* is only read. What does not begin as the namespace does, with the same first part,
        is another tenant's: it is left out, and logged. Each task has its own scope.
        """
        also = [check_prefix(one) for one in check_list(recall, "recall")]
        scope = scopes.of_one_tenant(check_prefix(namespace_prefix), also)
        return scopes.entered(self, scope)

    async def on_session_start(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> Any:
        """`BaseMemoryManager.on_session_start`, in the namespace of the run.

        *metadata* is given to the resolver, with that of *state*.
        """
        scope = await self._resolved(state, metadata, "memory.manager.injected")
        if scope is None:
            return replaced(state, without_blocks(messages_of(state), MEMORY))
        with scopes.entered(self, scope):
            return await super().on_session_start(state, connection=connection)

    async def on_session_end(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """`BaseMemoryManager.on_session_end`, in the namespace of the run."""
        scope = await self._resolved(state, metadata, "memory.manager.extract_failed")
        if scope is None:
            return
        with scopes.entered(self, MemoryScope(scope.namespace)):
            await super().on_session_end(state, connection=connection)

    async def extract(self, messages: list[Any]) -> list[Memory]:
        """What the extract function gives, or what the words say.

        Raises:
            KeyError, TypeError, ValueError: the function gave something that is no memory.
        """
        if self.extract_fn is None:
            scope = scopes.active(self)
            namespace = self.namespace_prefix if scope is None else scope.namespace
            return memories_in(messages, naming_of(self.store, namespace))
        found = await awaited(self.extract_fn(list(messages)))
        return [one if isinstance(one, Memory) else Memory.from_store_value(one) for one in found]

    async def retrieve(
        self,
        limit: int | None = None,
        *,
        query: str | None = None,
        namespaces: Iterable[Sequence[str]] | None = None,
        connection: HostConnection | None = None,
    ) -> list[Memory]:
        """Memories of every type, at most *limit*, the last saved first.

        With *query* first those that fit it: the best of each namespace and type, then the second
        best, and so on; where there are not enough, the last saved follow. In an encrypted database
        that holds nothing readable to look in, only the last saved. Of several namespaces each has
        its turn. What two of them say under one key are two memories; only what they say
        alike is given once.

        Args:
            limit: ``retrieve_limit`` unless given.
            namespaces: where to look; the active ones unless given.

        Raises:
            ValueError: *namespaces* are not all of one tenant, which is their first part.
        """
        most = self.retrieve_limit if limit is None else check_limit(limit)
        if namespaces is None:
            prefixes = list(self.active_recall)
        else:
            prefixes = list(
                dict.fromkeys(check_prefix(one) for one in check_list(namespaces, "namespaces"))
            )
            if len({prefix[0] for prefix in prefixes}) > 1:
                raise ValueError("namespaces of several tenants, by their first part, are not read")
        if not most:
            return []
        found: dict[tuple[str, str, str], Memory] = {}
        if query is not None and query.strip():
            _take(await self._fitting(prefixes, query, most, connection), found)
        if len(found) < most:
            _take(await self._last_saved(prefixes, most, connection), found)
        return list(found.values())[:most]

    async def retrieve_relevant(
        self,
        query: str | None,
        limit: int | None = None,
        *,
        namespaces: Iterable[Sequence[str]] | None = None,
        connection: HostConnection | None = None,
    ) -> list[Memory]:
        """`retrieve` with a query."""
        return await self.retrieve(limit, query=query, namespaces=namespaces, connection=connection)

    async def save(
        self, memories: Iterable[Memory], *, connection: HostConnection | None = None
    ) -> None:
        """Keep memories in the active namespace, all or none; then the oldest beyond the limit go.

        One of the same type and key is replaced. Of memories saved together the last is the newest.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored.
        """
        given = list(memories)
        if not given:
            return
        prefix = self.active_namespace
        batch = [
            (
                (*prefix, one.type.value),
                one.key,
                one.to_store_value(),
                {"type": one.type.value, _POSITION: position},
            )
            for position, one in enumerate(given)
        ]
        index = ("content",) if self.store.embedder is not None else None
        await self.store.put_batch(batch, index=index, connection=connection)
        for of in dict.fromkeys(one.type for one in given):
            await self._prune((*prefix, of.value), connection)

    async def _prune(self, namespace: Prefix, connection: HostConnection | None) -> None:
        most = self.max_memories
        if most is None or await self.store.count(namespace, connection=connection) <= most:
            return
        for item in (await self._newest(namespace, None, connection))[most:]:
            try:
                await self.store.delete(
                    namespace, item.key, expected_version=item.version, connection=connection
                )
            except Conflict:
                continue  # saved again meanwhile, so it is not old; or pruned by another

    async def _fitting(
        self, prefixes: list[Prefix], query: str, most: int, connection: HostConnection | None
    ) -> list[StoreItem]:
        if (mode := mode_of(self.store)) is None:
            return []
        rankings = [
            await self.store.search(
                (*prefix, of.value), query, mode=mode, limit=most, connection=connection
            )
            for prefix in prefixes
            for of in MemoryType
        ]
        # Scores of several rankings do not compare, ranks do.
        return _in_turn(rankings)

    async def _last_saved(
        self, prefixes: list[Prefix], most: int, connection: HostConnection | None
    ) -> list[StoreItem]:
        # In turn: what many write to a shared namespace leaves room for what is the user's own.
        by_prefix = []
        for prefix in prefixes:
            items: list[StoreItem] = []
            for of in MemoryType:
                items += await self._newest((*prefix, of.value), most, connection)
            by_prefix.append(sorted(items, key=_age, reverse=True)[:most])
        return _in_turn(by_prefix)

    async def _newest(
        self, namespace: Prefix, most: int | None, connection: HostConnection | None
    ) -> list[StoreItem]:
        """The last saved items, at most *most*; of those of one moment, the last in it first."""
        items: list[StoreItem] = []
        size = PAGE if most is None else min(most + 1, PAGE)
        while True:
            page = await self.store.list_items(
                namespace, limit=size, after=items[-1] if items else None, connection=connection
            )
            items += page
            is_last = len(page) < size
            if is_last or (
                most is not None
                and len(items) > most
                and items[most - 1].updated_at != items[-1].updated_at
            ):
                return sorted(items, key=_age, reverse=True)[:most]

    def _active(self) -> MemoryScope:
        scope = scopes.active(self)
        if scope is not None:
            return scope
        if self.namespace_resolver is not None:
            raise ValueError(
                "whose memories? This manager resolves that for each run: call it in a block "
                "`with manager.scoped(namespace):`"
            )
        return MemoryScope(self.namespace_prefix)

    async def _resolved(
        self, state: Any, metadata: Mapping[str, Any] | None, name: str
    ) -> MemoryScope | None:
        """The scope of a run; ``None``, and an event called *name* with the error, if none."""
        if self.namespace_resolver is None:
            return self._active()
        try:
            resolved = await awaited(self.namespace_resolver(scopes.run_of(state, metadata)))
            return scopes.scope_of(resolved)
        except Exception as error:  # noqa: BLE001 - fails closed: the run goes on without a memory
            report(_log, "the namespace_resolver failed, so this run has no memory", error)
            with operation(name, **self._about()) as event:
                event.error, event.details["memory_count"] = type(error).__name__, 0
            return None

    def _order_key(self) -> tuple[str, ...]:
        return self.active_namespace

    def _about(self) -> dict[str, Any]:
        return {"tenant": self.store.db.tenant}


def _in_turn(lists: Sequence[Sequence[StoreItem]]) -> list[StoreItem]:
    """The first of each list, then the second of each, and so on."""
    return [item for rank in zip_longest(*lists) for item in rank if item is not None]


def _age(item: StoreItem) -> tuple[Any, int]:
    position = item.metadata.get(_POSITION, 0)
    return item.updated_at, position if isinstance(position, int) else 0


def _take(items: Iterable[StoreItem], found: dict[tuple[str, str, str], Memory]) -> None:
    """Add the memories of *items* to *found*, each that says what none before it has said."""
    strange = 0
    for item in items:
        try:
            memory = Memory.from_store_value(item.value, updated_at=item.updated_at)
        except (KeyError, TypeError, ValueError):
            strange += 1
            continue
        found.setdefault((memory.type.value, memory.key, memory.content), memory)
    if strange:
        _log.warning("%d items among the memories are none, and were left out", strange)

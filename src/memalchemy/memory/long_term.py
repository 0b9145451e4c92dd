"""`LLMMemoryManager`: long-term memory in a `Store`, found by words, by meaning and by age."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from copy import copy
from typing import Any

from memalchemy._foreign_rows import warn_of_foreign_items
from memalchemy.contracts import Match, SearchHit, StoreItem, check_limit, check_match
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.database.replica import on_primary
from memalchemy.errors import Conflict
from memalchemy.events import operation
from memalchemy.keys import check_list
from memalchemy.memory._encryption import name_function
from memalchemy.memory._keyword_extraction import keyword_memories
from memalchemy.memory._relevance import interleave, relevant_hits
from memalchemy.memory._scopes import (
    Namespace,
    NamespaceResolver,
    active_scope,
    enter_scope,
    resolved_scope,
    run_info,
    scope_within_tenant,
)
from memalchemy.memory._user_functions import awaited, log_failure
from memalchemy.memory.manager import MODES, BaseMemoryManager, ExtractFn, ExtractMode
from memalchemy.memory.memories import Memory, MemoryScope, MemoryType, check_memory_namespace
from memalchemy.memory.prompt_block import MEMORY_TAG, without_blocks
from memalchemy.messages import state_messages, with_messages
from memalchemy.store import Store

_log = logging.getLogger(__name__)

PAGE = 200

POSITION = "position"
"""Metadata key with the position of a memory among those that were saved with it at one time."""


class LLMMemoryManager(BaseMemoryManager):
    """Long-term memory in a `Store`: under ``(*namespace, type)``, by the key of the memory.

    Args:
        store: a `Store`, or a `Database`. With an embedder memories are found by meaning as well.
        extract_fn: function of a list of messages that returns memories, or mappings of their
            fields; plain or a coroutine. By default English keywords decide.
        namespace_prefix: the owner of the memories, such as ``("users", "ada")``.
        max_memories: how many are kept of each type; the oldest are removed. ``None`` for all.
        retrieve_limit: how many are recalled.
        extract_mode: ``inline`` saves the memories before the end of a session returns;
            ``background`` soon after, in the order of the sessions of one namespace. Call `drain`
            before the database is closed.
        max_concurrent_extractions: how many background extractions run at once.
        namespace_resolver: function of a `RunInfo` that returns the namespace or the `MemoryScope`
            of a run; plain or a coroutine. If it returns ``None``, raises, or returns no valid
            namespace, the run has no memory: nothing is read or written, and the error is logged.
            With a resolver there is no namespace outside of a session and of `scoped`.

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
        self.store: Store = (
            store if isinstance(store, Store) else Store(check_database(store, self))
        )
        self.extract_fn = extract_fn
        self.namespace_prefix: tuple[str, ...] = check_memory_namespace(namespace_prefix)
        self.max_memories = max_memories
        self.retrieve_limit: int = check_limit(retrieve_limit)
        self.extract_mode: ExtractMode = extract_mode
        self.max_concurrent_extractions = max_concurrent_extractions
        self.namespace_resolver = namespace_resolver

    def __repr__(self) -> str:
        return f"LLMMemoryManager({self.store!r}, namespace_prefix={self.namespace_prefix!r})"

    @property
    def active_namespace(self) -> tuple[str, ...]:
        """Namespace that is written to now.

        Raises:
            ValueError: there is a resolver, and this is neither a session nor `scoped`.
        """
        return self._current_scope().namespace

    @property
    def active_recall(self) -> tuple[tuple[str, ...], ...]:
        """Namespaces that are read now: the active one, then those that are only read."""
        scope = self._current_scope()
        return (scope.namespace, *scope.recall)

    def scoped(
        self, namespace_prefix: Sequence[str], *, recall: Iterable[Sequence[str]] = ()
    ) -> AbstractContextManager[None]:
        """Use a namespace for the calls in a block: ``with manager.scoped(("users", "ada")):``.

        The namespaces of *recall* are only read. One whose first part differs belongs to another
        tenant: it is left out, and that is logged. Each task has a scope of its own.
        """
        also = [check_memory_namespace(one) for one in check_list(recall, "recall")]
        scope = scope_within_tenant(check_memory_namespace(namespace_prefix), also)
        return enter_scope(self, scope)

    async def on_session_start(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> Any:
        """`BaseMemoryManager.on_session_start` in the namespace of the run.

        The resolver gets *metadata* together with the metadata of *state*.
        """
        scope = await self._resolve_scope(state, metadata, "memory.manager.injected")
        if scope is None:
            return with_messages(state, without_blocks(state_messages(state), MEMORY_TAG))
        with enter_scope(self, scope):
            return await super().on_session_start(state, connection=connection)

    async def on_session_end(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """`BaseMemoryManager.on_session_end` in the namespace of the run."""
        scope = await self._resolve_scope(state, metadata, "memory.manager.extract_failed")
        if scope is None:
            return
        with enter_scope(self, MemoryScope(scope.namespace)):
            await super().on_session_end(state, connection=connection)

    async def extract(self, messages: list[Any]) -> list[Memory]:
        """Return the memories that the extract function gives, or those found by keywords.

        Raises:
            KeyError, TypeError, ValueError: the function gave something that is no memory.
        """
        if self.extract_fn is None:
            scope = active_scope(self)
            namespace = self.namespace_prefix if scope is None else scope.namespace
            return keyword_memories(messages, name_function(self.store, namespace))
        found = await awaited(self.extract_fn(list(messages)))
        return [one if isinstance(one, Memory) else Memory.from_store_value(one) for one in found]

    async def retrieve(
        self,
        limit: int | None = None,
        *,
        query: str | None = None,
        match: Match = "any",
        namespaces: Iterable[Sequence[str]] | None = None,
        connection: HostConnection | None = None,
    ) -> list[Memory]:
        """Return memories of every type, at most *limit*, the last saved first.

        With *query* those that match it come first, the most relevant before the others; of equal
        ones the types take turns. If there are not enough, the last saved follow. In an encrypted
        database that holds nothing readable to search, only the last saved are returned. Several
        namespaces take turns. Memories of two namespaces with one key are two memories, unless
        they have the same content.

        Args:
            limit: ``retrieve_limit`` by default.
            match: words of *query* find memories that hold ``any`` of them, or only those that hold
                ``all``.
            namespaces: the namespaces to read; the active ones by default.

        Raises:
            ValueError: *namespaces* are not all of one tenant, which is their first part.
        """
        limit = self.retrieve_limit if limit is None else check_limit(limit)
        check_match(match)
        if namespaces is None:
            prefixes = list(self.active_recall)
        else:
            given = check_list(namespaces, "namespaces")
            prefixes = list(dict.fromkeys(check_memory_namespace(one) for one in given))
            if len({prefix[0] for prefix in prefixes}) > 1:
                raise ValueError("namespaces of several tenants, by their first part, are not read")
        if not limit:
            return []
        found: dict[tuple[str, str, str], Memory] = {}
        if query is not None and query.strip():
            matching = await self._search_prefixes(prefixes, query, match, limit, connection)
            _add_memories(found, matching)
        if len(found) < limit:
            _add_memories(found, await self._newest_in_turn(prefixes, limit, connection))
        return list(found.values())[:limit]

    async def retrieve_relevant(
        self,
        query: str | None,
        limit: int | None = None,
        *,
        match: Match = "any",
        namespaces: Iterable[Sequence[str]] | None = None,
        connection: HostConnection | None = None,
    ) -> list[Memory]:
        """`retrieve` with a query."""
        return await self.retrieve(
            limit, query=query, match=match, namespaces=namespaces, connection=connection
        )

    async def save(
        self, memories: Iterable[Memory], *, connection: HostConnection | None = None
    ) -> None:
        """Store memories in the active namespace, all or none; then remove the oldest ones.

        A memory with the same type and key is replaced. Of memories that are saved together the
        last one is the newest.

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
                {"type": one.type.value, POSITION: position},
            )
            for position, one in enumerate(given)
        ]
        index = ("content",) if self.store.embedder is not None else None
        await self.store.put_batch(batch, index=index, connection=connection)
        for type_ in dict.fromkeys(one.type for one in given):
            await self._delete_oldest((*prefix, type_.value), connection)

    async def _delete_oldest(self, namespace: Namespace, connection: HostConnection | None) -> None:
        limit = self.max_memories
        if limit is None:
            return
        here = copy(self)
        here.store = on_primary(self.store)
        if await here.store.count(namespace, connection=connection) <= limit:
            return
        for item in (await here._newest_of_namespace(namespace, None, connection))[limit:]:
            try:
                await self.store.delete(
                    namespace, item.key, expected_version=item.version, connection=connection
                )
            except Conflict:
                continue  # it was saved again meanwhile, so it is not old; or removed by another

    async def _search_prefixes(
        self,
        prefixes: list[Namespace],
        query: str,
        match: Match,
        limit: int,
        connection: HostConnection | None,
    ) -> list[SearchHit]:
        """Search the memories of all types of each namespace; the namespaces take turns."""
        rankings = [
            await relevant_hits(
                self.store,
                [(*prefix, type_.value) for type_ in MemoryType],
                query,
                limit,
                match=match,
                connection=connection,
            )
            for prefix in prefixes
        ]
        return interleave(rankings)

    async def _newest_in_turn(
        self, prefixes: list[Namespace], limit: int, connection: HostConnection | None
    ) -> list[StoreItem]:
        """Return the newest items, the namespaces in turn: a busy one does not displace others."""
        by_namespace = []
        for prefix in prefixes:
            items: list[StoreItem] = []
            for type_ in MemoryType:
                items += await self._newest_of_namespace((*prefix, type_.value), limit, connection)
            by_namespace.append(sorted(items, key=_save_order, reverse=True)[:limit])
        return interleave(by_namespace)

    async def _newest_of_namespace(
        self, namespace: Namespace, limit: int | None, connection: HostConnection | None
    ) -> list[StoreItem]:
        """Return the last saved items, newest first; ``None`` for all."""
        items: list[StoreItem] = []
        size = PAGE if limit is None else min(limit + 1, PAGE)
        pages = self.store.iter_items(namespace, page_size=size, connection=connection)
        async with aclosing(pages):
            async for item in pages:
                # All items of one moment are needed to order them by their positions.
                is_enough = limit is not None and len(items) >= limit
                if is_enough and item.updated_at != items[-1].updated_at:
                    break
                items.append(item)
        return sorted(items, key=_save_order, reverse=True)[:limit]

    def _current_scope(self) -> MemoryScope:
        scope = active_scope(self)
        if scope is not None:
            return scope
        if self.namespace_resolver is not None:
            raise ValueError(
                "the namespace is resolved for each run: outside of a session, call this in a "
                "block `with manager.scoped(namespace):`"
            )
        return MemoryScope(self.namespace_prefix)

    async def _resolve_scope(
        self, state: Any, metadata: Mapping[str, Any] | None, event_name: str
    ) -> MemoryScope | None:
        """Return the scope of a run; ``None`` after an error, which is logged and published."""
        if self.namespace_resolver is None:
            return self._current_scope()
        try:
            return resolved_scope(await awaited(self.namespace_resolver(run_info(state, metadata))))
        except Exception as error:  # noqa: BLE001 - fails closed: the run goes on without a memory
            log_failure(_log, "the namespace_resolver failed, so this run has no memory", error)
            with operation(event_name, **self._event_fields()) as event:
                event.error, event.details["memory_count"] = type(error).__name__, 0
            return None

    def _order_key(self) -> tuple[str, ...]:
        return self.active_namespace

    def _event_fields(self) -> dict[str, Any]:
        return {"tenant": self.store.db.tenant}


def _save_order(item: StoreItem) -> tuple[Any, int]:
    position = item.metadata.get(POSITION, 0)
    return item.updated_at, position if isinstance(position, int) else 0


def _add_memories(found: dict[tuple[str, str, str], Memory], items: Iterable[StoreItem]) -> None:
    """Add the memories of *items* to *found*, unless an equal one is there."""
    invalid = 0
    for item in items:
        try:
            memory = Memory.from_store_value(item.value, updated_at=item.updated_at)
        except (KeyError, TypeError, ValueError):
            invalid += 1
            continue
        found.setdefault((memory.type.value, memory.key, memory.content), memory)
    warn_of_foreign_items(invalid, "memories")

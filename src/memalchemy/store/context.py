"""Views of a store: one namespace, or the places that an agent's memories usually have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalchemy.contracts import SearchHits, SemanticSearchResult, StoreItem
from memalchemy.keys import check_namespace
from memalchemy.store import Store
from memalchemy.store.compare_and_swap import Change
from memalchemy.store.settings import Namespace

MEMORIES = "memories"


class NamespacedStore:
    """Store in one namespace; options pass through. ``store`` is the whole store."""

    def __init__(self, store: Store, namespace: Namespace) -> None:
        self.store = store
        self.namespace: tuple[str, ...] = check_namespace(namespace)

    def __repr__(self) -> str:
        return f"NamespacedStore({self.store!r}, {self.namespace!r})"

    def scoped(self, *suffix: str) -> NamespacedStore:
        """Return a view of the namespace with *suffix* added."""
        return NamespacedStore(self.store, (*self.namespace, *suffix))

    async def put(
        self, key: str, value: Any, metadata: Mapping[str, Any] | None = None, **more: Any
    ) -> int:
        """`Store.put`."""
        return await self.store.put(self.namespace, key, value, metadata, **more)

    async def get(self, key: str, **more: Any) -> Any | None:
        """`Store.get`."""
        return await self.store.get(self.namespace, key, **more)

    async def get_item(self, key: str, **more: Any) -> StoreItem | None:
        """`Store.get_item`."""
        return await self.store.get_item(self.namespace, key, **more)

    async def delete(self, key: str, **more: Any) -> bool:
        """`Store.delete`."""
        return await self.store.delete(self.namespace, key, **more)

    async def change(self, key: str, function: Change, **more: Any) -> Any | None:
        """`Store.change`."""
        return await self.store.change(self.namespace, key, function, **more)

    async def exists(self, key: str, **more: Any) -> bool:
        """`Store.exists`."""
        return await self.store.exists(self.namespace, key, **more)

    async def list_keys(self, limit: int = 100, **more: Any) -> list[str]:
        """`Store.list_keys`."""
        return await self.store.list_keys(self.namespace, limit, **more)

    async def list_items(self, **more: Any) -> list[StoreItem]:
        """`Store.list_items`."""
        return await self.store.list_items(self.namespace, **more)

    async def count(self, **more: Any) -> int:
        """`Store.count`."""
        return await self.store.count(self.namespace, **more)

    async def search_by_embedding(
        self, query_embedding: Any, limit: int = 10, **more: Any
    ) -> list[SemanticSearchResult]:
        """`Store.search_by_embedding`."""
        return await self.store.search_by_embedding(self.namespace, query_embedding, limit, **more)

    async def get_embedding(self, key: str, **more: Any) -> list[float] | None:
        """`Store.get_embedding`."""
        return await self.store.get_embedding(self.namespace, key, **more)

    async def search(self, query: str | None = None, limit: int = 10, **more: Any) -> SearchHits:
        """`Store.search`."""
        return await self.store.search(self.namespace, query, limit=limit, **more)

    async def clear(self, **more: Any) -> int:
        """`Store.clear_namespace`."""
        return await self.store.clear_namespace(self.namespace, **more)


class StoreContext:
    """Store of a user and a session."""

    def __init__(
        self, store: Store, user_id: str | None = None, session_id: str | None = None
    ) -> None:
        self.store = store
        self.user_id = user_id
        self.session_id = session_id

    def for_user(self, user_id: str | None = None) -> NamespacedStore:
        """Return a view of a user's items; *user_id* stands in for the context's own."""
        user = self.user_id if user_id is None else user_id
        if user is None:
            raise ValueError("there is no user: give StoreContext a user_id, or this call one")
        return NamespacedStore(self.store, ("users", user))

    def for_session(self, session_id: str | None = None) -> NamespacedStore:
        """Return a view of a session's items; *session_id* stands in for the context's own."""
        session = self.session_id if session_id is None else session_id
        if session is None:
            raise ValueError(
                "there is no session: give StoreContext a session_id, or this call one"
            )
        return NamespacedStore(self.store, ("sessions", session))

    async def remember(
        self, key: str, value: Any, metadata: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        """Store a memory of the user."""
        await self._memories_of_user().put(key, value, metadata, **more)

    async def remember_with_embedding(
        self,
        key: str,
        value: Any,
        embedding: Any,
        metadata: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Store a memory of the user, with a vector to find it by."""
        await self._memories_of_user().put(key, value, metadata, embedding=embedding, **more)

    async def get_user_memory(self, key: str, **more: Any) -> Any | None:
        """Return a memory of the user; ``None`` if there is none, or no user."""
        return None if self.user_id is None else await self._memories_of_user().get(key, **more)

    async def forget(self, key: str, **more: Any) -> bool:
        """Remove a memory of the user; return whether it existed."""
        return False if self.user_id is None else await self._memories_of_user().delete(key, **more)

    async def search_memories(
        self, query: str | None = None, limit: int = 10, **more: Any
    ) -> list[StoreItem]:
        """Return the user's memories that hold words of *query*, or the newest."""
        if self.user_id is None:
            return []
        return list(await self._memories_of_user().search(query, limit, **more))

    async def search_memories_semantic(
        self, query_embedding: Any, limit: int = 10, threshold: float | None = None, **more: Any
    ) -> list[SemanticSearchResult]:
        """Return the user's memories by nearness to a vector."""
        if self.user_id is None:
            return []
        return await self._memories_of_user().search_by_embedding(
            query_embedding, limit, threshold=threshold, **more
        )

    async def get_global(self, key: str, **more: Any) -> Any | None:
        """Return the value that all share under *key*, or ``None``."""
        return await self.store.get(("global",), key, **more)

    async def set_global(
        self, key: str, value: Any, metadata: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        """Store a value that all share."""
        await self.store.put(("global",), key, value, metadata, **more)

    def _memories_of_user(self) -> NamespacedStore:
        return self.for_user().scoped(MEMORIES)

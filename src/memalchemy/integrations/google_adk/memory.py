"""`MemalchemyMemoryService`: what was said in sessions, found by words and by meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import Session
from google.genai import types

from memalchemy._bounds import Oversized, parse_json
from memalchemy._retry import retry_on_conflict
from memalchemy.codec.values import decode_value, encode_value
from memalchemy.contracts import NewItem, SearchMode, Seconds, StoreItem
from memalchemy.errors import Conflict, Corrupt
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations._values import dumped, storable
from memalchemy.integrations.google_adk._adapter import GoogleADKAdapter
from memalchemy.search.vectors import Metric
from memalchemy.store import LEAVE, Store
from memalchemy.store.embedding import Embedder


@StoredForm("memory of Google ADK")
def _to_entry(value: Mapping[str, Any]) -> MemoryEntry:
    """Return a stored memory. Those of earlier releases are JSON."""
    stored: str | bytes = value["entry"]
    if isinstance(stored, str) or stored.startswith(b"{"):
        try:
            return MemoryEntry.model_validate(parse_json(stored))
        except Oversized as error:
            raise Corrupt(f"a stored memory {error}") from error
    return MemoryEntry.model_validate(decode_value(stored))


DELETED: dict[str, Any] = {"deleted": True}
"""The value that stays of a deleted memory, so that its session does not bring it back."""


class MemalchemyMemoryService(GoogleADKAdapter, BaseMemoryService):
    """Memories of a user in an app, which every process finds.

    An event with text is a memory, under the event's id. Adding it again changes nothing, and calls
    no embedder; an event with other content replaces the memory. A search is one query, or two with
    an embedder, whatever the number of sessions.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the memories of several services apart in one database.
        embedder: a function that returns a vector for each of a list of texts; it may be a
            coroutine function. With it `search_memory` goes by words and meaning.
        model: the name under which its vectors are stored.
        metric: how vectors compare: ``cosine``, ``dot`` or ``l2``.
        limit: the most memories that a search returns.
        ttl: how long a memory lives after it was written, in seconds or as a timedelta.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Conflict: others wrote the same memories 20 times while this was tried.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        embedder: Embedder | None = None,
        model: str = "default",
        metric: Metric = "cosine",
        limit: int = 10,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.store: Store = Store(
            self.db,
            embedder=embedder,
            model=model,
            index=("text",) if embedder is not None else None,
            metric=metric,
            index_metadata=("session_id",),
            ttl=ttl,
        )
        """The memories, a namespace for each user of an app."""
        self._limit = limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session. Memories of events that it has no more stay."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add events, all or none; those without text, or whose memory was deleted, are left out.

        *custom_metadata* is returned with the memories.
        """
        entries = [
            MemoryEntry(
                id=event.id,
                content=event.content,
                author=event.author,
                timestamp=datetime.fromtimestamp(event.timestamp).isoformat(),
                custom_metadata=dict(custom_metadata or {}),
            )
            for event in events
            if event.content is not None
        ]
        await self._add_entries(app_name, user_id, entries, session_id, revive=False)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add memories, all or none; those without text are left out.

        One without an id gets a new one, and is added each time. One whose memory was deleted is
        there again. *custom_metadata* is added to that of each.
        """
        shared = dict(custom_metadata or {})
        entries = [
            memory.model_copy(
                update={
                    "id": memory.id or platform_uuid.new_uuid(),
                    "custom_metadata": shared | memory.custom_metadata,
                }
            )
            for memory in memories
        ]
        await self._add_entries(app_name, user_id, entries, None, revive=True)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories that are most related to *query*, the best first.

        Without an embedder they hold a word of it, rare words counting more. With one, the ranking
        by words and the one by meaning are combined.

        Raises:
            StoreCapabilityError: the database is encrypted, and holds nothing readable to search.
        """
        if not query.strip():
            return SearchMemoryResponse()
        mode: SearchMode = "text" if self.store.embedder is None else "hybrid"
        hits = await self.store.search(
            self._namespace_of(app_name, user_id), query, self._limit, mode=mode
        )
        return SearchMemoryResponse(memories=[_to_entry(hit.value) for hit in hits])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete a memory, if it is there; adding its session again does not bring it back."""
        if not memory_id:
            return
        namespace = self._namespace_of(app_name, user_id)

        def deleted(item: StoreItem | None) -> Any:
            return LEAVE if item is None else DELETED

        await self.store.change(namespace, memory_id, deleted, metadata=None, index=False)

    async def _add_entries(
        self,
        app_name: str,
        user_id: str,
        entries: Sequence[MemoryEntry],
        session_id: str | None,
        *,
        revive: bool,
    ) -> None:
        """Add entries; with *revive*, those whose memories were deleted, too."""
        namespace = self._namespace_of(app_name, user_id)
        metadata = None if session_id is None else {"session_id": session_id}
        left = () if revive else (DELETED,)
        given = {
            entry.id: NewItem(namespace, entry.id, _to_value(text, entry), metadata)
            for entry in entries
            if entry.id and (text := _text_of(entry.content))
        }

        async def add() -> None:
            known = await self.store.get_items((namespace, key) for key in given)
            old = {key: item for (_, key), item in known.items()}
            changed = [
                item
                for key, item in given.items()
                if key not in old or old[key].value not in (item.value, *left)
            ]
            if not changed:
                return
            async with self.db.transaction() as tx:
                written = await self.store.put_batch(changed, connection=tx)
                expected = [old[item.key].version + 1 if item.key in old else 1 for item in changed]
                if written != expected:
                    raise Conflict("a memory was changed since it was read")

        await retry_on_conflict(add, f"the memories of user {user_id!r}")

    def _namespace_of(self, app_name: str, user_id: str) -> tuple[str, ...]:
        return (*self.namespace, "memories", app_name, user_id)


def _text_of(content: types.Content) -> str:
    """Return the text of a content, without the model's thoughts."""
    parts = content.parts or []
    return "\n".join(part.text for part in parts if part.text and not part.thought).strip()


def _to_value(text: str, entry: MemoryEntry) -> dict[str, Any]:
    """Return the stored value. Bytes have no words, so a search finds those of *text* alone."""
    return {"text": text, "entry": encode_value(storable(dumped(entry)))}


__all__ = ["MemalchemyMemoryService"]

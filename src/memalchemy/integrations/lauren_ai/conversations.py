"""`MemalchemyConversationStore`: the conversations that lauren-ai's runner loads and saves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from memalchemy import ConversationStore
from memalchemy.contracts import Seconds
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations.lauren_ai._adapter import LaurenAdapter
from memalchemy.integrations.lauren_ai._messages import (
    EXTRA_FIELDS,
    from_record,
    restore_types,
    to_plain,
    to_record,
)


class MemalchemyConversationStore(LaurenAdapter):
    """Stores whole conversations by id; give it to an agent as ``conversation_store=``.

    A saved conversation is compared with the stored one, and only what is new is written. Loading
    returns what was saved: messages as dicts or as lauren-ai's `Message` with their `ContentBlock`
    objects, the summary and an open ``tool_exchange``.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps these conversations apart from others.
        index_text: make the words of messages searchable.
        ttl: how long a conversation lives after it was saved, in seconds or as a timedelta.

    ``native`` is the `memalchemy.ConversationStore` underneath, with its log and its searches.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.native: ConversationStore = ConversationStore(
            self.db, namespace=self.namespace, index_text=index_text, ttl=ttl
        )

    async def load(self, conversation_id: str) -> Any:
        """Return a copy of the conversation: ``{"messages": […], "summary": …}``.

        ``tool_exchange`` is there if it was saved. Without a saved conversation, return ``[]``.
        """
        with self.translated_errors():
            found = await self.native.load_snapshot(conversation_id)
        if found is None:
            return []
        snapshot: dict[str, Any] = {
            "messages": [from_record(record) for record in found["messages"]],
            "summary": found["summary"],
        }
        extra = found.get(EXTRA_FIELDS) or {}
        return snapshot | restore_types(extra.get("fields", {}), extra.get("types", ()))

    async def save(
        self, conversation_id: str, snapshot: Any, *, occurred_at: datetime | None = None
    ) -> None:
        """Replace a conversation by a snapshot or a list of messages, as a whole or not at all.

        *occurred_at* is the time of the messages that are new; now, if not given.

        Raises:
            StorageError: *snapshot* is neither, or cannot be stored; nothing was written.
        """
        with self.translated_errors():
            if isinstance(snapshot, list):
                snapshot = {"messages": snapshot}
            if not isinstance(snapshot, Mapping):
                raise TypeError(
                    f"a snapshot is a dict or a list of messages, not {type(snapshot).__name__}"
                )
            given: dict[str, Any] = {
                "messages": [to_record(message) for message in snapshot.get("messages") or ()],
                "summary": snapshot.get("summary"),
            }
            rest = {k: v for k, v in snapshot.items() if k not in given}
            if rest:
                types: Any = []
                fields = to_plain(rest, types, [])
                given[EXTRA_FIELDS] = {"fields": fields, **({"types": types} if types else {})}
            await self.native.save(conversation_id, given, occurred_at=occurred_at)

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation, if it is there."""
        with self.translated_errors():
            await self.native.delete(conversation_id)

    async def list_conversations(self) -> list[str]:
        """Return the ids of all conversations with a message or a summary, sorted."""
        with self.translated_errors():
            return await self.native.list_conversations()

    async def clear(self) -> None:
        """Delete all conversations of this store."""
        with self.translated_errors():
            await self.native.clear()

"""`MemalchemyConversationStore`: what lauren-ai's runner loads before a run and saves after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memalchemy import ConversationStore, Database
from memalchemy.contracts import Seconds
from memalchemy.integrations.lauren_ai.place import IN_MEMORY, Place
from memalchemy.integrations.lauren_ai.records import OWN, message_of, plain_of, record_of, typed

# Inside the class list is not a name of the built-in one for whoever reads it.
Ids = list[str]


class MemalchemyConversationStore(Place):
    """Keeps whole conversations under ids; give it to an agent as ``conversation_store=``.

    A conversation that is saved again is compared with what is there, and only what is new is
    written. What comes back is what was saved: messages as dicts or as lauren-ai's `Message`, with
    their `ContentBlock` objects, the summary and an open ``tool_exchange``.

    Args:
        db: a `Database`, which may hold anything else besides, or a URL; without one a database in
            memory, for this object alone.
        namespace: keeps these conversations apart from others.
        index_text: make the words of messages findable.
        ttl: how long a conversation lives after it was saved, in seconds or as a timedelta.

    ``native`` is the `memalchemy.ConversationStore` underneath, with its log and its searches.
    """

    def __init__(
        self,
        db: Database | str = IN_MEMORY,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.native = ConversationStore(
            self.db, namespace=self._namespace, index_text=index_text, ttl=ttl
        )

    async def load(self, conversation_id: str) -> Any:
        """``{"messages": […], "summary": …}``, with ``tool_exchange`` if there was one; ``[]`` if
        nothing was saved. A copy.
        """
        with self._as_theirs():
            found = await self.native.load_snapshot(conversation_id)
        if found is None:
            return []
        snapshot: dict[str, Any] = {
            "messages": [message_of(record) for record in found["messages"]],
            "summary": found["summary"],
        }
        own = found.get(OWN) or {}
        return snapshot | typed(own.get("fields", {}), own.get("types", ()))

    async def save(self, conversation_id: str, snapshot: Any) -> None:
        """Make a conversation what a snapshot says, or a list of messages; whole or not at all.

        Raises:
            StorageError: it is neither, or holds what cannot be stored; nothing was written.
        """
        with self._as_theirs():
            if isinstance(snapshot, list):
                snapshot = {"messages": snapshot}
            if not isinstance(snapshot, Mapping):
                raise TypeError(
                    f"a snapshot is a dict or a list of messages, not {type(snapshot).__name__}"
                )
            given: dict[str, Any] = {
                "messages": [record_of(message) for message in snapshot.get("messages") or ()],
                "summary": snapshot.get("summary"),
            }
            rest = {k: v for k, v in snapshot.items() if k not in given}
            if rest:
                types: Any = []
                fields = plain_of(rest, types, [])
                given[OWN] = {"fields": fields, **({"types": types} if types else {})}
            await self.native.save(conversation_id, given)

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation, if it is there."""
        with self._as_theirs():
            await self.native.delete(conversation_id)

    async def list_conversations(self) -> Ids:
        """The ids of all conversations with a message or a summary, in order."""
        with self._as_theirs():
            return await self.native.list_conversations()

    async def clear(self) -> None:
        """Delete all conversations of this store."""
        with self._as_theirs():
            await self.native.clear()

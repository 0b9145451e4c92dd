"""`MemalchemyHistory`: the history of mem0's memories, and the last messages of each session."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from memalchemy.integrations._base import AnyDatabase, SyncAdapter
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.keys import MAX_ID_CHARACTERS
from memalchemy.threads import ThreadLog

_FIELDS = ("old_memory", "new_memory", "event", "created_at", "updated_at", "actor_id", "role")


class MemalchemyHistory(SyncAdapter):
    """History of mem0's memories, for ``SQLiteManager``: ``memory.db = MemalchemyHistory(url)``.

    The history of a memory is a log under the memory's id, the messages of a session one under its
    scope. Records are in the order in which any process added them. Any thread may call the
    methods.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the histories of several applications apart.
        keep_messages: the number of messages of a session that stay; all, if ``None``.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored record cannot be read.
    """

    root = "mem0"
    shares_databases = True

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        keep_messages: int | None = 10,
    ) -> None:
        super().__init__(db, namespace=namespace)
        given = self.namespace[1:]
        self.changes: ThreadLog = ThreadLog(self.db, namespace=(self.root, "history", *given))
        """The history, a log for each memory, with asynchronous methods."""
        self.messages: ThreadLog = ThreadLog(self.db, namespace=(self.root, "messages", *given))
        """The messages, a log for each session, with asynchronous methods."""
        if keep_messages is not None and keep_messages < 1:
            raise ValueError("keep_messages is at least 1, or None")
        self._keep_messages = keep_messages

    def add_history(
        self,
        memory_id: str,
        old_memory: str | None,
        new_memory: str | None,
        event: str,
        *,
        created_at: str | None = None,
        updated_at: str | None = None,
        is_deleted: int = 0,
        actor_id: str | None = None,
        role: str | None = None,
    ) -> None:
        """Add a change of a memory: ``ADD``, ``UPDATE`` or ``DELETE``."""
        record = {
            "memory_id": memory_id,
            "old_memory": old_memory,
            "new_memory": new_memory,
            "event": event,
            "created_at": created_at,
            "updated_at": updated_at,
            "is_deleted": is_deleted,
            "actor_id": actor_id,
            "role": role,
        }
        self.batch_add_history([record])

    def batch_add_history(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Add changes of memories, all or none."""
        # In one order in every process: two that add to the same memories do not block each other.
        by_memory: dict[str, list[Any]] = {}
        for record in records:
            by_memory.setdefault(record["memory_id"], []).append(_to_change(record))

        async def add() -> None:
            async with self.db.transaction() as tx:
                for memory_id, changes in sorted(by_memory.items()):
                    await self.changes.append(memory_id, changes, connection=tx)

        if len(by_memory) == 1:
            ((memory_id, changes),) = by_memory.items()
            self.wait(self.changes.append(memory_id, changes))
        elif by_memory:
            self.wait(add())

    def get_history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return the changes of a memory, the oldest first."""
        entries = self.wait(self.changes.range(memory_id))
        with StoredForm("change of mem0"):
            return [
                {
                    "id": entry.value["id"],
                    "memory_id": memory_id,
                    **{name: entry.value[name] for name in _FIELDS[:5]},
                    "is_deleted": entry.value["is_deleted"],
                    **{name: entry.value[name] for name in _FIELDS[5:]},
                }
                for entry in entries
            ]

    def save_messages(self, messages: Sequence[Mapping[str, Any]], session_scope: str) -> None:
        """Add messages of a session, all or none; the oldest beyond ``keep_messages`` are deleted.

        All in one transaction.
        """
        thread_id = _thread_id(session_scope)
        values = [{name: one.get(name) for name in ("role", "content", "name")} for one in messages]

        async def save() -> None:
            if self._keep_messages is None:
                await self.messages.append(thread_id, values)
                return
            async with self.db.transaction() as tx:
                await self.messages.append(thread_id, values, connection=tx)
                kept = await self.messages.tail(thread_id, self._keep_messages, connection=tx)
                old = await self.messages.range(thread_id, before=kept[0].position, connection=tx)
                if old:
                    positions = [entry.position for entry in old]
                    await self.messages.remove(thread_id, positions, connection=tx)

        if values:
            self.wait(save())

    def get_last_messages(self, session_scope: str, limit: int = 10) -> list[dict[str, Any]]:
        """Return the last *limit* messages of a session, the oldest first, with their times."""
        entries = self.wait(self.messages.tail(_thread_id(session_scope), limit))
        form = StoredForm("message of mem0")
        return [
            form.fields_of(entry.value) | {"created_at": entry.occurred_at.isoformat()}
            for entry in entries
        ]

    def reset(self) -> None:
        """Delete the history of all memories and the messages of all sessions."""

        async def delete() -> None:
            for log in (self.changes, self.messages):
                while thread_ids := await log.list_threads():
                    for thread_id in thread_ids:
                        await log.delete(thread_id)

        self.wait(delete())


def _to_change(record: Mapping[str, Any]) -> dict[str, Any]:
    change = {name: record.get(name) for name in _FIELDS}
    return {
        "id": str(uuid.uuid4()),
        **change,
        "is_deleted": bool(record.get("is_deleted", 0)),
    }


def _thread_id(session_scope: str) -> str:
    """Return the id of a session's log: its scope, or the beginning of one that is too long."""
    if len(session_scope) <= MAX_ID_CHARACTERS:
        return session_scope
    digest = sha256(session_scope.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{session_scope[:180]}~{digest}"


__all__ = ["MemalchemyHistory"]

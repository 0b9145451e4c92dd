"""`MemalchemyStore`: a LazyBridge store for memories, plans and blackboards.

from memalchemy.integrations.lazybridge import MemalchemyStore

store = MemalchemyStore("sqlite:///agent.db")
memory = Memory(store=store, key="assistant")
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import BaseModel

from memalchemy.checkpoints import Checkpointer
from memalchemy.collections import ABSENT, KeyValue
from memalchemy.contracts import Retention
from memalchemy.integrations._base import AnyDatabase, SyncAdapter, requires

with requires("lazybridge", extra="lazybridge", module="lazybridge"):
    from lazybridge.store import Store, StoreEntry

T = TypeVar("T")


class MemalchemyStore(SyncAdapter, Store):
    """A blackboard that any number of processes share, and the memories of agents.

    A write is stored as a whole or not at all, and every process sees it; of several processes that
    compare and swap a value, one succeeds. Keys are sorted by code point. Values are JSON's, and
    datetimes, UUIDs, bytes, sets and `Decimal`. A tuple becomes a list, a numeric key a string, a
    pydantic model its JSON, a dataclass its fields, an enum its value and a path its text. Every
    read builds new objects. Any thread may call the methods; one whose event loop is running blocks
    it, as LazyBridge's own store does, and may await ``kv`` instead.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
            An empty string means a database in memory, as in LazyBridge.
        namespace: keeps several stores apart in one database.
        index_text: make the words of values and memories searchable.

    Raises, from any method:
        RuntimeError: the store was closed.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: the stored value cannot be read.
        NotSerialisable, TooLarge: the value cannot be stored; nothing was written.
    """

    root = "lazybridge"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = ("store",),
        index_text: bool = True,
    ) -> None:
        # Store.__init__ is left out: it opens a SQLite file of its own.
        super().__init__(":memory:" if db == "" else db, namespace=namespace)
        self.kv: KeyValue = KeyValue(self.db, namespace=self.namespace, index_text=index_text)
        """The keys and values, with asynchronous methods."""
        self._index_text = index_text
        self._is_closed = False

    def __repr__(self) -> str:
        return f"MemalchemyStore({self.db!r}, namespace={self.namespace!r})"

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result.

        Raises:
            RuntimeError: the store was closed.
        """
        if self._is_closed:
            work.close()
            raise RuntimeError("Store is closed")
        return super().wait(work)

    def write(self, key: str, value: Any, *, agent_id: str | None = None) -> None:
        """Set the value of a key."""
        self.wait(self.kv.write(key, _storable(value), agent_id=agent_id))

    def read(self, key: str, default: Any = None) -> Any:
        """Return the value, or *default* if there is no such key. A stored ``None`` is ``None``."""
        return self.wait(self.kv.read(key, default))

    def read_entry(self, key: str) -> StoreEntry | None:
        """Return the value, when it was written (seconds since 1970) and by whom; or ``None``."""
        found = self.wait(self.kv.read_entry(key))
        if found is None:
            return None
        return StoreEntry(key, found.value, found.written_at.timestamp(), found.agent_id)

    def read_all(self) -> dict[str, Any]:
        """Return all keys and values, sorted by key."""
        return self.wait(self.kv.read_all())

    def keys(self) -> list[str]:
        """Return all keys, sorted."""
        return self.wait(self.kv.keys())

    def items(self, *, prefix: str | None = None) -> list[tuple[str, Any]]:
        """Return the keys that begin with *prefix*, or all, with their values, sorted by key."""
        return self.wait(self.kv.items(prefix=prefix))

    def delete(self, key: str) -> None:
        """Delete a key, if it is there."""
        self.wait(self.kv.delete(key))

    def clear(self) -> None:
        """Delete all keys. The memories of agents stay."""
        self.wait(self.kv.clear())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return self.wait(self.kv.exists(key))

    def __len__(self) -> int:
        return self.wait(self.kv.count())

    def compare_and_swap(
        self, key: str, expected: Any, new: Any, *, agent_id: str | None = None
    ) -> bool:
        """Set a key to *new* if its value is *expected*; return ``True`` if it was.

        Values are compared in their stored form. A key that is not there has the value ``None``,
        and only such a key has memalchemy's ``ABSENT``.
        """
        wanted = expected if expected is ABSENT else _storable(expected)
        return self.wait(self.kv.compare_and_swap(key, wanted, _storable(new), agent_id=agent_id))

    def to_text(self, keys: list[str] | None = None) -> str:
        """Return lines of ``key: value``, the values as JSON, of all keys or of those in *keys*."""
        return self.wait(self.kv.to_text(keys))

    def write_memory(
        self,
        agent_id: str,
        *,
        turns: list[dict[str, Any]],
        summary: str = "",
        session_key: str = "default",
    ) -> None:
        """Replace the memory that an agent has of a session; without *turns*, erase it.

        Up to 15 earlier states stay for a while, so that their words are found.
        """
        state = {"turns": turns, "summary": summary, "updated_at": time.time()}
        self.wait(self._save_memory(agent_id, session_key, state))

    def read_memory(self, agent_id: str, *, session_key: str = "default") -> dict[str, Any] | None:
        """Return ``turns``, ``summary`` and ``updated_at`` (seconds since 1970), or ``None``."""
        found: dict[str, Any] | None = self.wait(self.memories(agent_id).load(session_key))
        return found

    def delete_memory(self, agent_id: str, *, session_key: str = "default") -> None:
        """Delete the memory that an agent has of a session, if there is one."""
        self.wait(self.memories(agent_id).delete(session_key, all_namespaces=False))

    def memories(self, agent_id: str) -> Checkpointer:
        """Return the checkpointer with an agent's memories: a thread for each session."""
        return Checkpointer(
            self.db,
            namespace=(*self.namespace, "memory", agent_id),
            retention=Retention(keep_last=1, apply_every=16),
            index_text=self._index_text,
        )

    def close(self) -> None:
        """Close the connections that this store opened; every later call is a `RuntimeError`.

        A database that the store was given stays open.
        """
        self._is_closed = True
        super().close()

    async def aclose(self) -> None:
        """Close the store as `close` does, and what ``kv`` opened in the running event loop."""
        self._is_closed = True
        await super().aclose()

    def __del__(self) -> None:
        """Do nothing: an unused database closes itself, in its own thread."""

    async def _save_memory(self, agent_id: str, session_key: str, state: dict[str, Any]) -> None:
        sessions = self.memories(agent_id)
        if not state["turns"]:  # cleared: earlier states are not to wait for the next prune
            async with self.db.transaction() as tx:
                await sessions.save(_storable(state), session_key, connection=tx)
                await sessions.prune(session_key, keep_last=1, connection=tx)
            return
        await sessions.save(_storable(state), session_key)


_PLAIN = frozenset((str, int, float, bool, type(None)))
"""Types of values that stay as they are: most of those in a memory."""


def _storable(value: Any) -> Any:
    """Convert *value* as LazyBridge converts it to JSON, and keep what the database can store."""
    if isinstance(value, dict):
        return {
            key if type(key) is str else _storable_key(key): item
            if type(item) in _PLAIN
            else _storable(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [item if type(item) in _PLAIN else _storable(item) for item in value]
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Enum):
        return _storable(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _storable(getattr(value, field.name)) for field in fields(value)}
    return str(value) if isinstance(value, PurePath) else value


def _storable_key(key: Any) -> Any:
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(key) if isinstance(key, int | float) else key


__all__ = ["MemalchemyStore"]

"""`MemalchemyStore`: what LazyBridge calls a store, for its memories, plans and blackboards.

from memalchemy.integrations.lazybridge import MemalchemyStore

store = MemalchemyStore("sqlite:///agent.db")
memory = Memory(store=store, key="assistant")
"""

from __future__ import annotations

import os
import time
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, Self, TypeVar

from lazybridge.store import Store, StoreEntry
from pydantic import BaseModel

from memalchemy.checkpoints import Checkpointer
from memalchemy.collections import ABSENT, KeyValue
from memalchemy.contracts import Retention
from memalchemy.database import Database
from memalchemy.errors import NotSerialisable
from memalchemy.keys import check_namespace
from memalchemy.sync import Database as BlockingDatabase
from memalchemy.sync.bridge import Bridge

T = TypeVar("T")


class MemalchemyStore(Store):
    """A blackboard that every process shares, and what agents remember of their sessions.

    A write is whole or absent, and seen by every process; of several that compare and swap, in
    whatever processes, one wins. Keys come in the order of their code points. Values are what JSON
    has, and datetimes, UUIDs, bytes, sets and `Decimal` besides; tuples become lists, keys that are
    numbers text; a pydantic model what it is in JSON, a dataclass its fields, an enum its value, a
    path its text. Every read builds new objects. Methods may be called in any thread; an event loop
    that calls one waits for it, as with LazyBridge's own, and may await ``kv`` instead.

    Args:
        db: a URL, a `Database` of memalchemy or memalchemy.sync, or the path of a SQLite file, as
            LazyBridge's own takes it; without it, in memory.
        namespace: several of them beside each other in one database.
        index_text: make words of values and memories findable.

    Raises, from any method:
        RuntimeError: it was closed.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: what is stored cannot be read.
        NotSerialisable, TooLarge: a value cannot be stored; nothing was written.
    """

    def __init__(
        self,
        db: str | os.PathLike[str] | Database | BlockingDatabase | None = None,
        *,
        namespace: Iterable[str] = ("store",),
        index_text: bool = True,
    ) -> None:
        # Not Store's: it opens a file of its own.
        self._bridge = Bridge(_named(db), self)
        self._is_closed = False
        place = ("lazybridge", *check_namespace(namespace))
        self.kv = KeyValue(self._bridge.db, namespace=place, index_text=index_text)
        """The keys, to be awaited."""
        self._index_text = index_text

    def __repr__(self) -> str:
        return f"MemalchemyStore({self._bridge.db!r}, namespace={self.kv.namespace!r})"

    def write(self, key: str, value: Any, *, agent_id: str | None = None) -> None:
        """Set a key."""
        self._wait(self.kv.write(key, _plain(value), agent_id=agent_id))

    def read(self, key: str, default: Any = None) -> Any:
        """The value; *default* if the key is not there. A stored ``None`` is ``None``."""
        return self._wait(self.kv.read(key, default))

    def read_entry(self, key: str) -> StoreEntry | None:
        """The value, when it was written (seconds since 1970) and by whom; or ``None``."""
        found = self._wait(self.kv.read_entry(key))
        if found is None:
            return None
        return StoreEntry(key, found.value, found.written_at.timestamp(), found.agent_id)

    def read_all(self) -> dict[str, Any]:
        """Every key and its value, by key."""
        return self._wait(self.kv.read_all())

    def keys(self) -> list[str]:
        """Every key."""
        return self._wait(self.kv.keys())

    def items(self, *, prefix: str | None = None) -> list[tuple[str, Any]]:
        """Keys with their values, by key; those that begin with *prefix*."""
        return self._wait(self.kv.items(prefix=prefix))

    def delete(self, key: str) -> None:
        """Remove a key, if it is there."""
        self._wait(self.kv.delete(key))

    def clear(self) -> None:
        """Remove every key, and no agent's memory."""
        self._wait(self.kv.clear())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return self._wait(self.kv.exists(key))

    def __len__(self) -> int:
        return self._wait(self.kv.count())

    def compare_and_swap(
        self, key: str, expected: Any, new: Any, *, agent_id: str | None = None
    ) -> bool:
        """Set a key to *new* if it holds *expected*; whether it did.

        Values are compared as they are stored. ``None`` is held by a key that is not there, too;
        memalchemy's ``ABSENT`` by no other.
        """
        wanted = expected if expected is ABSENT else _plain(expected)
        return self._wait(self.kv.compare_and_swap(key, wanted, _plain(new), agent_id=agent_id))

    def to_text(self, keys: list[str] | None = None) -> str:
        """``key: value`` in lines, values as JSON: all there are, or those of *keys*."""
        return self._wait(self.kv.to_text(keys))

    def write_memory(
        self,
        agent_id: str,
        *,
        turns: list[dict[str, Any]],
        summary: str = "",
        session_key: str = "default",
    ) -> None:
        """Set all that an agent remembers of a session."""
        state = {"turns": turns, "summary": summary, "updated_at": time.time()}
        self._wait(self._remember(agent_id, session_key, state))

    def read_memory(self, agent_id: str, *, session_key: str = "default") -> dict[str, Any] | None:
        """``turns``, ``summary`` and ``updated_at`` (seconds since 1970), or ``None``."""
        found: dict[str, Any] | None = self._wait(self.memories(agent_id).load(session_key))
        return found

    def delete_memory(self, agent_id: str, *, session_key: str = "default") -> None:
        """Remove what an agent remembers of a session, if anything."""
        self._wait(self.memories(agent_id).delete(session_key, all_namespaces=False))

    def memories(self, agent_id: str) -> Checkpointer:
        """An agent's sessions, to be awaited and searched; a thread is a session."""
        return Checkpointer(
            self._bridge.db,
            namespace=(*self.kv.namespace, "memory", agent_id),
            retention=Retention(keep_last=1),
            index_text=self._index_text,
        )

    def close(self) -> None:
        """Close the connections that it has opened; every later call is a `RuntimeError`.

        A database that it was given stays open for others.
        """
        self._is_closed = True
        self._bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Nothing: what nobody uses any more closes itself, in the thread that it has."""

    async def _remember(self, agent_id: str, session_key: str, state: dict[str, Any]) -> None:
        sessions = self.memories(agent_id)
        try:
            await sessions.save(state, session_key)
        except NotSerialisable:
            await sessions.save(_plain(state), session_key)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            work.close()
            raise RuntimeError("Store is closed")
        return self._bridge.wait(work)


def _named(db: Any) -> Any:
    if db is None or db == "" or db == ":memory:":
        return "sqlite://"
    if isinstance(db, str) and "://" in db:
        return db
    return f"sqlite:///{os.fspath(db)}" if isinstance(db, str | os.PathLike) else db


def _plain(value: Any) -> Any:
    """*value* as LazyBridge has it in JSON, but for what the database keeps and JSON has not."""
    if isinstance(value, dict):
        return {_name(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Enum):
        return _plain(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return str(value) if isinstance(value, PurePath) else value


def _name(key: Any) -> Any:
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(key) if isinstance(key, int | float) else key


__all__ = ["MemalchemyStore"]

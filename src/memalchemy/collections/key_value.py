"""`KeyValue`: values under plain keys, shared by agents and processes, with compare-and-swap.

The keys are items of one namespace of a `Store`; the memories of agents are stored below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, TypedDict

from memalchemy.codec.values import jsonable
from memalchemy.contracts import Seconds, StoreItem
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.keys import check_list, check_namespace
from memalchemy.state_conversion import plain
from memalchemy.store import LEAVE, Store
from memalchemy.store.settings import Namespace

PAGE = 500
AGENTS = "agents"


class Absent(Enum):
    """Type of `ABSENT`."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
"""Expectation of `KeyValue.compare_and_swap` that a key is not there."""


@dataclass(frozen=True, slots=True)
class KeyValueEntry:
    """Value with its writer and time.

    ``version`` counts the writes of the key from 1, since ``created_at``: a key that was removed
    and is written again starts at 1.
    """

    key: str
    value: Any
    written_at: datetime
    agent_id: str | None
    version: int
    created_at: datetime


class AgentMemory(TypedDict):
    """Memory of an agent's session: `KeyValue.read_memory`."""

    turns: list[Any]
    summary: str
    updated_at: datetime


class KeyValue:
    """Values under plain keys.

    A write is complete or absent, and every process sees it. Keys are ordered by code points. A
    value is any that the library stores; a pydantic model in it is stored as
    ``model_dump(mode="json")``. Every read creates new objects.

    Args:
        db: the database.
        namespace: keeps several of them apart.
        agent_id: the writer, where a call does not name one.
        index_text: make the words of the values findable with `Store.search`.

    Every method takes ``connection=``, as those of `Store`, and raises what they raise.
    """

    _is_container = True
    """Makes the synchronous class support ``in``, ``len`` and ``iter``."""

    def __init__(
        self,
        db: Database,
        *,
        namespace: Namespace = ("kv",),
        agent_id: str | None = None,
        index_text: bool = False,
    ) -> None:
        self.store: Store = Store(check_database(db, self), index_text=index_text)
        self.namespace: tuple[str, ...] = check_namespace(namespace)
        self.agent_id = agent_id

    def __repr__(self) -> str:
        return f"KeyValue({self.store.db!r}, namespace={self.namespace!r})"

    async def write(
        self,
        key: str,
        value: Any,
        *,
        agent_id: str | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Set a key and return its version: 1 if it is new."""
        return await self.store.put(
            self.namespace,
            key,
            plain(value),
            self._writer_metadata(agent_id),
            ttl=ttl,
            connection=connection,
        )

    async def read(
        self, key: str, default: Any = None, *, connection: HostConnection | None = None
    ) -> Any:
        """Return the value; *default* if the key is not there. A stored ``None`` is ``None``."""
        entry = await self.read_entry(key, connection=connection)
        return default if entry is None else entry.value

    async def read_entry(
        self, key: str, *, connection: HostConnection | None = None
    ) -> KeyValueEntry | None:
        """Return the value with its writer, time and version, or ``None``."""
        item = await self.store.get_item(self.namespace, key, connection=connection)
        return None if item is None else _to_entry(item)

    async def read_all(self, *, connection: HostConnection | None = None) -> dict[str, Any]:
        """Return all values by their keys, in the order of the keys."""
        return dict(await self.items(connection=connection))

    async def keys(
        self, *, prefix: str | None = None, connection: HostConnection | None = None
    ) -> list[str]:
        """Return all keys, or those that begin with *prefix*, ordered by code points."""
        keys = self.store.iter_keys(
            self.namespace, prefix=prefix or None, page_size=PAGE, connection=connection
        )
        return [key async for key in keys]

    async def items(
        self, *, prefix: str | None = None, connection: HostConnection | None = None
    ) -> list[tuple[str, Any]]:
        """Return keys with their values, by key; the values of 500 keys are of one moment."""
        found: list[tuple[str, Any]] = []
        keys = await self.keys(prefix=prefix, connection=connection)
        for start in range(0, len(keys), PAGE):
            places = [(self.namespace, key) for key in keys[start : start + PAGE]]
            values = await self.store.get_batch(places, connection=connection)
            found += [(key, value) for (_, key), value in values.items()]
        return found

    async def exists(self, key: object, *, connection: HostConnection | None = None) -> bool:
        """Return whether the key is there, whatever its value; ``in`` of the synchronous class."""
        return isinstance(key, str) and await self.store.exists(
            self.namespace, key, connection=connection
        )

    async def count(self, *, connection: HostConnection | None = None) -> int:
        """Return the number of keys; ``len`` of the synchronous class."""
        return await self.store.count(self.namespace, connection=connection)

    async def delete(self, key: str, *, connection: HostConnection | None = None) -> bool:
        """Remove a key and return whether it was there."""
        return await self.store.delete(self.namespace, key, connection=connection)

    async def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove every key, but no agent's memory, and return how many there were."""
        return await self.store.clear_namespace(self.namespace, connection=connection)

    async def compare_and_swap(
        self,
        key: str,
        expected: Any,
        new: Any,
        *,
        agent_id: str | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> bool:
        """Set a key to *new* if it holds *expected*, and return whether it did.

        Of several that race, one wins.

        Args:
            expected: a value, which must be of the same types and digits; ``None``, which matches
                a missing key, too; ``ABSENT`` for a missing key; or an entry that was read, which
                matches until anybody writes the key again.
        """
        new, expected = plain(new), plain(expected)
        is_held = False

        def swap(item: StoreItem | None) -> Any:
            nonlocal is_held
            is_held = _is_expected(item, expected)
            return new if is_held else LEAVE

        await self.store.change(
            self.namespace,
            key,
            swap,
            metadata=self._writer_metadata(agent_id),
            ttl=ttl,
            connection=connection,
        )
        return is_held

    async def to_text(
        self, keys: Iterable[str] | None = None, *, connection: HostConnection | None = None
    ) -> str:
        """Return lines of ``key: value``, the values as JSON, of all keys or of *keys*."""
        wanted = [] if keys is None else check_list(keys, "keys")
        if wanted:
            places = [(self.namespace, key) for key in wanted]
            found = await self.store.get_batch(places, connection=connection)
            pairs = [
                (key, found[at]) for key, at in zip(wanted, places, strict=True) if at in found
            ]
        else:
            pairs = await self.items(connection=connection)
        return "\n".join(f"{key}: {_to_json(value)}" for key, value in pairs)

    async def write_memory(
        self,
        agent_id: str,
        *,
        turns: Iterable[Any],
        summary: str = "",
        session_key: str = "default",
        connection: HostConnection | None = None,
    ) -> int:
        """Set the memory of an agent's session, apart from the keys; return its version."""
        value = {"turns": plain(check_list(turns, "turns")), "summary": summary}
        where = self._namespace_of_agent(agent_id)
        return await self.store.put(where, session_key, value, connection=connection)

    async def read_memory(
        self,
        agent_id: str,
        session_key: str = "default",
        *,
        connection: HostConnection | None = None,
    ) -> AgentMemory | None:
        """Return ``turns``, ``summary`` and ``updated_at`` of a session's memory, or ``None``."""
        where = self._namespace_of_agent(agent_id)
        item = await self.store.get_item(where, session_key, connection=connection)
        if item is None:
            return None
        memory: AgentMemory = item.value | {"updated_at": item.updated_at}
        return memory

    async def delete_memory(
        self,
        agent_id: str,
        session_key: str = "default",
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Remove the memory of a session and return whether it was there."""
        return await self.store.delete(
            self._namespace_of_agent(agent_id), session_key, connection=connection
        )

    async def close(self) -> None:
        """Do nothing: connections belong to the database."""

    def _writer_metadata(self, agent_id: str | None) -> dict[str, Any]:
        writer = self.agent_id if agent_id is None else agent_id
        return {} if writer is None else {"agent_id": writer}

    def _namespace_of_agent(self, agent_id: str) -> tuple[str, ...]:
        return (*self.namespace, AGENTS, agent_id)


def _to_entry(item: StoreItem) -> KeyValueEntry:
    writer = item.metadata.get("agent_id")
    return KeyValueEntry(
        item.key, item.value, item.updated_at, writer, item.version, item.created_at
    )


def _is_expected(item: StoreItem | None, expected: Any) -> bool:
    if item is None:
        return expected is None or expected is ABSENT
    if expected is ABSENT:
        return False
    if isinstance(expected, KeyValueEntry):
        # A key that was removed and written again may have the same version.
        here, then = (item.key, item.version, item.created_at), (expected.key, expected.version)
        return here == (*then, expected.created_at)
    return _to_json(item.value, sort=True) == _to_json(expected, sort=True)


def _to_json(value: Any, *, sort: bool = False) -> str:
    return json.dumps(jsonable(value), ensure_ascii=False, sort_keys=sort)

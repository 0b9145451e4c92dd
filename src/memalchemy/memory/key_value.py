"""`KeyValue`: plain keys and values, shared by agents and processes, with compare-and-swap.

Keys are items of one namespace of a `Store`; what agents remember of themselves lies below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from memalchemy.codec.values import jsonable
from memalchemy.contracts import Seconds, StoreItem
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.keys import check_list, check_namespace
from memalchemy.mapping import plain
from memalchemy.store import LEAVE, Store
from memalchemy.store.settings import Namespace

PAGE = 500
AGENTS = "agents"


class Absent(Enum):
    """What `KeyValue.compare_and_swap` expects of a key that is not there."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class KeyValueEntry:
    """A value, who wrote it, and when.

    ``version`` counts the writes of its key from 1, since ``created_at``: a key that was removed
    and is written again begins anew.
    """

    key: str
    value: Any
    written_at: datetime
    agent_id: str | None
    version: int
    created_at: datetime


class KeyValue:
    """Values under plain keys.

    What is written is whole or absent, and seen by every process. Keys come in the order of their
    code points. Values are any that the library stores; pydantic models in them, which become what
    ``model_dump(mode="json")`` gives. Every read builds new objects.

    Args:
        db: where to keep them.
        namespace: several of them beside each other.
        agent_id: who writes, where a call does not say.
        index_text: make the words of the values findable with `Store.search`.

    Every method takes ``connection=``, as those of `Store`, and raises what they raise.
    """

    _is_container = True
    """Without ``await`` it takes ``in``, ``len`` and ``iter`` as well."""

    def __init__(
        self,
        db: Database,
        *,
        namespace: Namespace = ("kv",),
        agent_id: str | None = None,
        index_text: bool = False,
    ) -> None:
        self.store = Store(check_database(db, self), index_text=index_text)
        self.namespace = check_namespace(namespace)
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
        """Set a key; its version, 1 if it is new."""
        return await self.store.put(
            self.namespace,
            key,
            plain(value),
            self._stamp(agent_id),
            ttl=ttl,
            connection=connection,
        )

    async def read(
        self, key: str, default: Any = None, *, connection: HostConnection | None = None
    ) -> Any:
        """The value; *default* if the key is not there. A stored ``None`` is ``None``."""
        entry = await self.read_entry(key, connection=connection)
        return default if entry is None else entry.value

    async def read_entry(
        self, key: str, *, connection: HostConnection | None = None
    ) -> KeyValueEntry | None:
        """The value with its writer, time and version, or ``None``."""
        item = await self.store.get_item(self.namespace, key, connection=connection)
        return None if item is None else _entry(item)

    async def read_all(self, *, connection: HostConnection | None = None) -> dict[str, Any]:
        """Every key and its value, by key."""
        return dict(await self.items(connection=connection))

    async def keys(
        self, *, prefix: str | None = None, connection: HostConnection | None = None
    ) -> list[str]:
        """Every key, or those that begin with *prefix*, in the order of their code points."""
        found: list[str] = []
        while True:
            page = await self.store.list_keys(
                self.namespace,
                PAGE,
                prefix=prefix or None,
                after=found[-1] if found else None,
                connection=connection,
            )
            found += page
            if len(page) < PAGE:
                return found

    async def items(
        self, *, prefix: str | None = None, connection: HostConnection | None = None
    ) -> list[tuple[str, Any]]:
        """Keys with their values, by key; of one page of 500 as of one moment."""
        found: list[tuple[str, Any]] = []
        keys = await self.keys(prefix=prefix, connection=connection)
        for start in range(0, len(keys), PAGE):
            places = [(self.namespace, key) for key in keys[start : start + PAGE]]
            values = await self.store.get_batch(places, connection=connection)
            found += [(key, value) for (_, key), value in values.items()]
        return found

    async def exists(self, key: object, *, connection: HostConnection | None = None) -> bool:
        """Whether the key is there, whatever its value; ``in``, where nothing need be awaited."""
        return isinstance(key, str) and await self.store.exists(
            self.namespace, key, connection=connection
        )

    async def count(self, *, connection: HostConnection | None = None) -> int:
        """How many keys there are; ``len``, where nothing need be awaited."""
        return await self.store.count(self.namespace, connection=connection)

    async def delete(self, key: str, *, connection: HostConnection | None = None) -> bool:
        """Remove a key; whether it was there."""
        return await self.store.delete(self.namespace, key, connection=connection)

    async def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove every key, and no agent's memory; how many."""
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
        """Set a key to *new* if it holds *expected*; whether it did. Of several racers one wins.

        *expected* is a value, which must be equal and of the same types; ``None``, which a key
        that is not there holds as well; ``ABSENT``, for a key that is not there; or an entry that
        was read, for a key that nobody has written since.
        """
        new, expected = plain(new), plain(expected)
        held = False

        def swap(item: StoreItem | None) -> Any:
            nonlocal held
            held = _holds(item, expected)
            return new if held else LEAVE

        await self.store.change(
            self.namespace,
            key,
            swap,
            metadata=self._stamp(agent_id),
            ttl=ttl,
            connection=connection,
        )
        return held

    async def to_text(
        self, keys: Iterable[str] | None = None, *, connection: HostConnection | None = None
    ) -> str:
        """``key: value`` in lines, values as JSON: all there are, or those of *keys*."""
        wanted = [] if keys is None else check_list(keys, "keys")
        if wanted:
            places = [(self.namespace, key) for key in wanted]
            found = await self.store.get_batch(places, connection=connection)
            pairs = [
                (key, found[at]) for key, at in zip(wanted, places, strict=True) if at in found
            ]
        else:
            pairs = await self.items(connection=connection)
        return "\n".join(f"{key}: {_json(value)}" for key, value in pairs)

    async def write_memory(
        self,
        agent_id: str,
        *,
        turns: Iterable[Any],
        summary: str = "",
        session_key: str = "default",
        connection: HostConnection | None = None,
    ) -> int:
        """Set what an agent remembers of a session, apart from the keys; its version."""
        value = {"turns": plain(list(turns)), "summary": summary}
        where = self._memories(agent_id)
        return await self.store.put(where, session_key, value, connection=connection)

    async def read_memory(
        self,
        agent_id: str,
        session_key: str = "default",
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, Any] | None:
        """``turns``, ``summary`` and ``updated_at``, or ``None``."""
        where = self._memories(agent_id)
        item = await self.store.get_item(where, session_key, connection=connection)
        return None if item is None else {**item.value, "updated_at": item.updated_at}

    async def delete_memory(
        self,
        agent_id: str,
        session_key: str = "default",
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Remove it; whether it was there."""
        return await self.store.delete(self._memories(agent_id), session_key, connection=connection)

    async def close(self) -> None:
        """Nothing to do: connections are the database's."""

    def _stamp(self, agent_id: str | None) -> dict[str, Any]:
        who = self.agent_id if agent_id is None else agent_id
        return {} if who is None else {"agent_id": who}

    def _memories(self, agent_id: str) -> tuple[str, ...]:
        return (*self.namespace, AGENTS, agent_id)


def _entry(item: StoreItem) -> KeyValueEntry:
    who = item.metadata.get("agent_id")
    return KeyValueEntry(item.key, item.value, item.updated_at, who, item.version, item.created_at)


def _holds(item: StoreItem | None, expected: Any) -> bool:
    if item is None:
        return expected is None or expected is ABSENT
    if expected is ABSENT:
        return False
    if isinstance(expected, KeyValueEntry):
        # The version alone would be that of another key of this name, made after it was removed.
        here, then = (item.key, item.version, item.created_at), (expected.key, expected.version)
        return here == (*then, expected.created_at)
    return _json(item.value, sort=True) == _json(expected, sort=True)


def _json(value: Any, *, sort: bool = False) -> str:
    return json.dumps(jsonable(value), ensure_ascii=False, sort_keys=sort)


__all__ = ["ABSENT", "KeyValue", "KeyValueEntry"]

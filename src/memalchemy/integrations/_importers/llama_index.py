"""Reads the table of LlamaIndex's `SQLAlchemyChatStore`, and the file of its `SimpleChatStore`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus

from memalchemy._bounds import parse_json
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Conflict, DatabaseUnreachable, NotFound
from memalchemy.importers.foreign_tables import ForeignTables, Row
from memalchemy.importers.log_times import LogTimes
from memalchemy.importers.target import BATCH, Record, Unreadable, Whole
from memalchemy.importers.unreadable import Unusable, read_or_leave
from memalchemy.integrations._importers._json import object_in
from memalchemy.integrations.llama_index import MemalchemyChatStore
from memalchemy.integrations.llama_index.chat_store import POSITION

_TABLE = ("", "id", "key", "timestamp", "role", "status", "data")
"""Columns of the table, which may have any name."""
_ARCHIVED = MessageStatus.ARCHIVED.value
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the chats."""
    if await asyncio.to_thread(_is_json, place):
        chats, _ = await asyncio.to_thread(_read_file, place)
        return len(chats)
    async with ForeignTables.open(place, schema=schema) as tables:
        return sum([await tables.count(name, distinct="key") for name in _find_tables(tables)])


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the chats of all tables of `SQLAlchemyChatStore`, or of a JSON file, by key.

    A message of a table has the time and the status that it has there. A JSON file says no times:
    its messages have that of the file.
    """
    if await asyncio.to_thread(_is_json, place):
        chats, at = await asyncio.to_thread(_read_file, place)
        for key, messages in chats.items():
            left_out: list[str] = []
            if not isinstance(messages, list):
                yield Unreadable("log", f"chat {key}", "is no list of messages")
                continue
            kept = [
                (number, message)
                for number, one in enumerate(messages, start=1)
                if (message := _read_message(number, partial(_message_of_file, one), left_out))
            ]
            yield _record_of_chat(key, kept, at, left_out)
        return
    async with ForeignTables.open(place, schema=schema) as tables:
        for name in _find_tables(tables):
            keys = {row["key"]: None async for row in tables.rows(name, "key", only=("key",))}
            for key in keys:
                stored = tables.rows(name, "timestamp", "id", where={"key": key})
                rows = [row async for row in stored]
                left_out = []
                found = [
                    (number, message)
                    for number, row in enumerate(rows, start=1)
                    if (message := _read_message(number, partial(_message_of_row, row), left_out))
                ]
                if isinstance(key, str):
                    yield _record_of_chat(key, found, _EPOCH, left_out)
                else:
                    lost = [f"message {number}" for number in range(1, len(rows) + 1)]
                    yield Unreadable("log", f"chat {key!r}", "has a key that is no text", lost)


def _find_tables(tables: ForeignTables) -> list[str]:
    found = tables.like(*_TABLE)
    if not found:
        raise NotFound("there is no table of LlamaIndex's SQLAlchemyChatStore in this database")
    return found


def _is_json(place: str) -> bool:
    """Return whether *place* is a file that begins as a JSON object does."""
    if "://" in place:
        return False
    try:
        with Path(place).open("rb") as opened:
            return opened.read(64).lstrip()[:1] in (b"{", b'"')
    except OSError as error:
        raise DatabaseUnreachable(f"{place} cannot be read: {error.strerror}") from error


def _read_file(place: str) -> tuple[dict[str, Any], datetime]:
    """Return the messages of a `SimpleChatStore` by key, and the time of the file."""
    try:
        found = parse_json(Path(place).read_bytes())
        if isinstance(found, str):  # as earlier releases persisted it
            found = parse_json(found)
    except (ValueError, RecursionError) as error:
        raise NotFound(f"{place} is no JSON file of LlamaIndex's SimpleChatStore") from error
    chats = found.get("store") if isinstance(found, dict) else None
    if not isinstance(chats, dict):
        raise NotFound(f"{place} is no JSON file of LlamaIndex's SimpleChatStore")
    return chats, datetime.fromtimestamp(Path(place).stat().st_mtime, UTC)


_Message = dict[str, Any]
"""Message as it is compared: its data, whether it is archived, and its time."""


def _read_message(
    number: int, make: Callable[[], _Message], left_out: list[str]
) -> _Message | None:
    return read_or_leave(make, f"message {number}", left_out)


def _message_of_file(stored: Any) -> _Message:
    return _to_message(stored, is_archived=False, at=None)


def _message_of_row(row: Row) -> _Message:
    time, status = row["timestamp"], row["status"]
    if not isinstance(time, int) or not isinstance(status, str):
        raise Unusable("has a time or a status of another type")
    at = _EPOCH + timedelta(microseconds=time // 1_000)
    return _to_message(row["data"], is_archived=status == _ARCHIVED, at=at)


def _to_message(stored: Any, *, is_archived: bool, at: datetime | None) -> _Message:
    data = object_in(stored)
    ChatMessage.model_validate(data)
    return {
        "data": {name: value for name, value in data.items() if name != POSITION},
        "archived": is_archived,
        "at": None if at is None else at.isoformat(),
    }


@dataclass(frozen=True)
class _Chat:
    """A chat to import.

    Attributes:
        otherwise: the time of a message that has none.
    """

    key: str
    messages: list[_Message]
    otherwise: datetime

    async def load(
        self, db: Database, prefix: str, tx: HostConnection | None = None
    ) -> list[dict[str, Any]] | None:
        """Return the messages that the database has of the chat."""
        store, thread_id = MemalchemyChatStore(db), prefix + self.key
        has_times = any(one["at"] is not None for one in self.messages)
        found: dict[int, dict[str, Any]] = {}
        for log, is_archived in ((store.archive, True), (store.log, False)):
            for entry in await log.range(thread_id, connection=tx):
                value = dict(entry.value)
                position = value.pop(POSITION) if is_archived else entry.position
                at = entry.occurred_at.isoformat() if has_times else None
                found[position] = {"data": value, "archived": is_archived, "at": at}
        if not found and self.messages:
            return None
        return [found[position] for position in sorted(found)]

    async def save(self, db: Database, prefix: str, found: list[dict[str, Any]] | None) -> None:
        """Write the chat in place of what was *found*, in one transaction."""
        store, thread_id = MemalchemyChatStore(db), prefix + self.key
        async with db.transaction() as tx:
            await store.log.hold(thread_id, tx)
            if await self.load(db, prefix, tx) != found:
                raise Conflict("the chat was changed meanwhile")
            await store.archive.delete(thread_id, connection=tx)
            await store.log.delete(thread_id, connection=tx)
            for start in range(0, len(self.messages), BATCH):
                await self._append(store, thread_id, self.messages[start : start + BATCH], tx)

    async def _append(
        self,
        store: MemalchemyChatStore,
        thread_id: str,
        messages: Sequence[_Message],
        tx: HostConnection,
    ) -> None:
        """Append messages, and move those that are archived on to the archive."""
        times = self._times_of(messages)
        positions = await store.log.append(
            thread_id, [one["data"] for one in messages], occurred_at=times, connection=tx
        )
        old = [at for at, one in enumerate(messages) if one["archived"]]
        if old:
            await store.log.remove(thread_id, [positions[at] for at in old], connection=tx)
            await store.archive.append(
                thread_id,
                [messages[at]["data"] | {POSITION: positions[at]} for at in old],
                occurred_at=[times[at] for at in old],
                connection=tx,
            )

    def times(self, db: Database, prefix: str) -> list[LogTimes]:
        """Return the logs of the chat, with their times."""
        store = MemalchemyChatStore(db)
        found: list[LogTimes] = []
        for log, is_archived in ((store.log, False), (store.archive, True)):
            own = [one for one in self.messages if one["archived"] == is_archived]
            found += LogTimes.of(log.namespace, prefix + self.key, self._times_of(own))
        return found

    def _times_of(self, messages: Sequence[_Message]) -> list[datetime]:
        return [
            self.otherwise if one["at"] is None else datetime.fromisoformat(one["at"])
            for one in messages
        ]


def _record_of_chat(
    key: str,
    numbered: Sequence[tuple[int, _Message]],
    otherwise: datetime,
    left_out: Sequence[str] = (),
) -> Whole:
    messages = [message for _, message in numbered]
    chat = _Chat(key, messages, otherwise)
    return Whole(
        "log",
        f"chat {key}",
        messages,
        chat.load,
        chat.save,
        logs=chat.times,
        covers=lambda found: _went_on(messages, found),
        extends=lambda found: _went_on(found, messages),
        missing=lambda found: len(messages) - len(found or ()),
        left_out=left_out,
        parts=[f"message {number}" for number, _ in numbered],
        with_parts=lambda kept: _record_of_chat(key, [numbered[at] for at in kept], otherwise),
    )


def _went_on(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    """Return whether a chat has the same messages first, and archived no fewer of them."""
    return len(before) <= len(after) and all(
        one["data"] == then["data"]
        and one["at"] == then["at"]
        and one["archived"] <= then["archived"]
        for one, then in zip(before, after, strict=False)
    )

"""`MemalchemyChatStore`: the messages of LlamaIndex's `Memory`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from datetime import datetime
from typing import Any, NamedTuple

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from memalchemy.contracts import MAX_LIMIT, check_limit
from memalchemy.database import HostConnection
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations._values import dumped, storable
from memalchemy.integrations.llama_index._pydantic_adapter import ModelAdapter
from memalchemy.threads import ThreadLog

POSITION = "position"
"""Field of an archived message: its position among all messages of the chat."""
READINGS = 5
_FORM = StoredForm("message of LlamaIndex")


class _Archived(NamedTuple):
    position: int
    value: dict[str, Any]
    occurred_at: datetime | None


class MemalchemyChatStore(ModelAdapter, AsyncDBChatStore):
    """Stores the messages of chats; give it to `Memory.from_defaults` as ``chat_store=``.

    A message is a row of its own. Order is that in which any process added the messages, active and
    archived ones together, never that of a clock. A write is stored as a whole or not at all: a
    message is never lost between the queue and the archive, and of concurrent calls that take the
    oldest messages, no two get the same one. Messages that are read are new objects.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several stores apart in one database.
        index_text: make the words of messages searchable.

    A key is the id of a thread: at most 255 characters, or `TooLarge` is raised. What pydantic
    dumps of a store has no database in it.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored message cannot be read.
        NotSerialisable, TooLarge: a message cannot be stored; nothing was written.
    """

    _log: ThreadLog = PrivateAttr()
    _archive: ThreadLog = PrivateAttr()

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        AsyncDBChatStore.__init__(self)
        Adapter.__init__(self, db, namespace=namespace)
        chat = (*self.namespace, "chat")
        self._log = ThreadLog(self.db, namespace=chat, index_text=index_text)
        self._archive = ThreadLog(self.db, namespace=(*chat, "archived"), index_text=index_text)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows the class."""
        return "MemalchemyChatStore"

    @property
    def log(self) -> ThreadLog:
        """The log of active messages; a key is the id of its thread."""
        return self._log

    @property
    def archive(self) -> ThreadLog:
        """The log of archived messages, in the order of their ``position``."""
        return self._archive

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return the messages of a key with a status, or all with ``None``; the oldest first.

        With *limit* at most so many, after the first *offset*.
        """
        start = check_limit(offset or 0, "offset")
        end = None if limit is None else start + check_limit(limit)
        if status is None:
            found = [value for _, value in sorted((await self._read_all(key)).items())]
        elif end is None:
            _, found = await self._log_of_status(status).scan(
                key, lambda _, value, __: _to_message(value)
            )
        else:
            entries = await self._log_of_status(status).range(key, limit=min(end, MAX_LIMIT))
            return [_to_message(entry.value) for entry in entries[start:]]
        return found[start:end]

    async def count_messages(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> int:
        """Return the number of messages of a key with a status, or of all; reads none of them."""
        logs = (self._log, self._archive) if status is None else (self._log_of_status(status),)
        return sum([await log.count(key) for log in logs])

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add a message after all others of the key."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self,
        key: str,
        messages: list[ChatMessage],
        status: MessageStatus = MessageStatus.ACTIVE,
    ) -> None:
        """Add messages after all others of the key, all or none."""
        values = _to_values(messages)
        if not values or MessageStatus(status) is MessageStatus.ACTIVE:
            await self._log.append(key, values)
            return
        async with self.db.transaction() as tx:
            await self._archive_new(key, await self._log.append(key, values, connection=tx), tx)

    async def set_messages(
        self,
        key: str,
        messages: list[ChatMessage],
        status: MessageStatus = MessageStatus.ACTIVE,
    ) -> None:
        """Replace all messages of the key, those of the other status too, in one transaction."""
        values = _to_values(messages)
        if MessageStatus(status) is MessageStatus.ACTIVE:
            await self._log.replace_suffix(key, 0, values, clearing=self._archive)
            return
        async with self.db.transaction() as tx:
            placed = await self._log.replace_suffix(
                key, 0, values, clearing=self._archive, connection=tx
            )
            await self._archive_new(key, placed, tx)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message at position *idx* of the key's log, and return it; or ``None``.

        Positions are those of `log`, and the ``position`` of an archived message; the first message
        of a key has 1.
        """
        if idx < 1:
            return None
        async with self.db.transaction() as tx:
            if await self._log.hold(key, tx) is None:
                return None
            found = await self._log.range(key, after=idx - 1, before=idx + 1, connection=tx)
            if found:
                await self._log.remove(key, [idx], connection=tx)
                return _to_message(found[0].value)
            entries = self._archive.iter_entries(key, newest_first=True, connection=tx)
            async with aclosing(entries):
                async for entry in entries:
                    position = _position_of(entry.value)
                    if position == idx:
                        await self._archive.remove(key, [entry.position], connection=tx)
                        return _to_message(entry.value)
                    if position < idx:
                        break
        return None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete all messages of the key, or those with a status."""
        if status is not None:
            await self._log_of_status(status).clear(key)
            return
        async with self.db.transaction() as tx:
            await self._log.delete(key, connection=tx)
            await self._archive.delete(key, connection=tx)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Delete the oldest *n* active messages of the key, and return them, the oldest first."""
        async with self.db.transaction() as tx:
            return [_to_message(one.value) for one in await self._take_oldest(key, n, tx)]

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest *n* active messages of the key, and return them, the oldest first."""
        async with self.db.transaction() as tx:
            taken = await self._take_oldest(key, n, tx)
            await self._insert_archived(key, taken, tx)
        return [_to_message(one.value) for one in taken]

    async def get_keys(self) -> list[str]:
        """Return the keys that have a message, those written last first; archives come after."""
        active = await self._log.list_threads(MAX_LIMIT)
        return list(dict.fromkeys(active + await self._archive.list_threads(MAX_LIMIT)))

    def _log_of_status(self, status: MessageStatus) -> ThreadLog:
        return self._log if MessageStatus(status) is MessageStatus.ACTIVE else self._archive

    async def _read_all(self, key: str) -> dict[int, ChatMessage]:
        """Return all messages by their positions, as of one moment.

        Whatever moves a message into the archive moves the version of the log of active ones.
        """
        found: dict[int, ChatMessage] = {}
        for _ in range(READINGS):
            reading, active = await self._log.scan(
                key, lambda at, value, _: (at, _to_message(value))
            )
            _, archived = await self._archive.scan(
                key, lambda _, value, __: (_position_of(value), _to_message(value))
            )
            found = dict([*archived, *active])  # one that moved meanwhile is in both
            if await self._log.version(key) == reading.version:
                break
        return found

    async def _take_oldest(self, key: str, n: int, tx: HostConnection) -> list[_Archived]:
        limit = check_limit(n, "n")
        if await self._log.hold(key, tx) is None:
            return []
        entries = await self._log.range(key, limit=min(limit, MAX_LIMIT), connection=tx)
        if entries:
            await self._log.remove(key, [one.position for one in entries], connection=tx)
        return [_Archived(one.position, one.value, one.occurred_at) for one in entries]

    async def _archive_new(self, key: str, positions: list[int], tx: HostConnection) -> None:
        """Move messages that were just added to the log, where they got their positions."""
        if not positions:
            return
        added = await self._log.range(key, after=positions[0] - 1, connection=tx)
        await self._log.remove(key, positions, connection=tx)
        await self._insert_archived(
            key, [_Archived(one.position, one.value, one.occurred_at) for one in added], tx
        )

    async def _insert_archived(self, key: str, given: list[_Archived], tx: HostConnection) -> None:
        """Insert messages into the archive by their positions; nearly always at its end."""
        if not given:
            return
        await self._archive.hold(key, tx)
        newest = await self._archive.tail(key, 1, connection=tx)
        after, later = 0, []
        if newest and _position_of(newest[0].value) > given[0].position:
            entries = self._archive.iter_entries(key, newest_first=True, connection=tx)
            async with aclosing(entries):
                async for entry in entries:
                    position = _position_of(entry.value)
                    if position < given[0].position:
                        after = entry.position
                        break
                    later.append(_Archived(position, entry.value, entry.occurred_at))
        merged = sorted([*given, *later], key=lambda one: one.position)
        values = [_FORM.fields_of(one.value) | {POSITION: one.position} for one in merged]
        times = [one.occurred_at for one in merged if one.occurred_at is not None]
        if later:
            await self._archive.replace_suffix(key, after, values, occurred_at=times, connection=tx)
        else:
            await self._archive.append(key, values, occurred_at=times, connection=tx)


def _to_values(messages: list[ChatMessage]) -> list[dict[str, Any]]:
    return [_to_value(message) for message in messages]


def _to_value(message: ChatMessage) -> dict[str, Any]:
    fields = dumped(message, exclude_none=False)
    # LlamaIndex dumps bytes in them as text, and does not read them back.
    fields["additional_kwargs"] = message.additional_kwargs
    found: dict[str, Any] = storable(fields)
    return found


def _position_of(value: Any) -> int:
    """Return the position of an archived message among all of the chat."""
    position: int = _FORM.fields_of(value, position=int)[POSITION]
    return position


@_FORM
def _to_message(value: dict[str, Any]) -> ChatMessage:
    if POSITION in value:
        value = {name: part for name, part in value.items() if name != POSITION}
    return ChatMessage.model_validate(value)

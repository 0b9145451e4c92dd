"""`MemalchemyConversationStore`: a store for Pydantic AI's conversations.

from memalchemy.integrations.pydantic_ai import MemalchemyConversationStore

store = MemalchemyConversationStore("sqlite:///agent.db")
conversation = await store.load("support-1") or Conversation(conversation_id="support-1")
result = await agent.run("Hello", conversation=conversation)
await store.save(result)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from memalchemy._cache import BoundedCache
from memalchemy.contracts import MAX_LIMIT, Entry, StoreItem
from memalchemy.database import HostConnection
from memalchemy.errors import Conflict, NotFound
from memalchemy.integrations._base import Adapter, AnyDatabase, requires
from memalchemy.integrations._stored_forms import StoredForm, not_of_the_form
from memalchemy.keys import check_thread_id
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

with requires("pydantic-ai-slim", extra="pydantic-ai", module="pydantic_ai"):
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.exceptions import UserError

    from memalchemy.integrations._pydantic_ai_messages import (
        Convert,
        dump_messages,
        load_messages,
        write_storable,
    )

RECORDS = "records"
"""Last part of the namespace of the records."""
KNOWN = 10_000
"""Records, and entries, of which an object remembers the log."""
MIN_PAGE = 64
"""Entries that a read of the last few asks for at first, at least."""

_RECORD = TypeAdapter(ConversationRecord)
_FORM = StoredForm("record of a conversation of Pydantic AI")


class MemalchemyConversationStore(Adapter, ConversationStore):
    """Conversations as logs of messages, each stored once, with branches and forks that share them.

    A save is one transaction, which appends the new messages and replaces the record; it is stored
    as a whole or not at all. Of several writers that loaded the same revision, in any process, one
    succeeds, and the others get a `ConversationConflict`. A conversation is loaded with two
    queries, of any length. Everything that is returned is a new object.

    A conversation has a log, the thread of its id. Its forks, and theirs, append to the same log,
    which outlives the conversation for as long as a fork needs it. `delete` erases the record, and
    every message of the log that no remaining record leads to, by its history or by a branch; with
    the last record it erases the log. A message whose record was replaced without a branch, which
    only a caller of `write_record` can do, is erased with the next deletion in the same log.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several stores apart in one database.
        index_text: make the words of messages searchable, with ``log.search``.

    A conversation's id has up to 255 characters, an entry's up to 128.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: what is stored cannot be read.
    """

    root = "pydantic_ai"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.log: ThreadLog = ThreadLog(self.db, namespace=self.namespace, index_text=index_text)
        """The logs of messages; the key of an entry is its id."""
        self.store: Store = Store(self.db, index_text=False, index_metadata=("log", "scope"))
        """The store with the records."""
        self._records = (*self.namespace, RECORDS)
        self._seen: BoundedCache[str, StoreItem] = BoundedCache(KNOWN)
        self._log_of: BoundedCache[str, str] = BoundedCache(KNOWN)

    # --- Records ----------------------------------------------------------------------------------

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or ``None``. One query."""
        item = await self.store.get_item(self._records, conversation_id)
        return None if item is None else self._read_item(item)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, newest ``updated_at`` first; those of *scope*, and *limit*, if given.

        Raises:
            TooLarge: all take over 256 MiB together; give a limit.
        """
        items = await self.store.list_items(
            self._records,
            filter=None if scope is None else {"scope": scope},
            limit=MAX_LIMIT if limit is None else limit,
        )
        return [self._read_item(item) for item in items]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Append entries and write their record, in one transaction.

        A message is stored with the types that memalchemy stores, datetimes and bytes among them.
        A value of another type, and no other value, is stored as JSON has it.

        Raises:
            ConversationConflict: the stored record has another revision, or is there where none was
                expected; or the record's head is no entry that its log or *new_entries* has.
            NotSerialisable, TooLarge: something cannot be stored; nothing was written.
            UserError: an entry is of an unknown kind.
        """
        if unknown := {entry.kind for entry in new_entries} - {"message"}:
            raise UserError(f"entries of the kind {unknown.pop()!r} cannot be stored")
        known = self._seen.get(record.conversation_id) if expected_revision is not None else None
        if known is not None and known.value["revision"] == expected_revision:
            with suppress(Conflict):  # it may be older than another write of this revision
                return await self._replace_record(record, new_entries, known)
        known = await self._expected_item(record.conversation_id, expected_revision)
        try:
            await self._replace_record(record, new_entries, known)
        except Conflict as conflict:
            raise ConversationConflict(record.conversation_id) from conflict

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record, and the entries of its log that no remaining record leads to.

        One transaction, which reads the log if other records are in it.

        Raises:
            ConversationConflict: there is no record of this revision.
        """
        item = await self._expected_item(conversation_id, expected_revision)
        if item is None:
            raise ConversationConflict(conversation_id)
        thread = item.value["log"]
        try:
            async with self.db.transaction() as tx:
                await self.log.hold(thread, tx)
                await self.store.delete(
                    self._records, conversation_id, expected_version=item, connection=tx
                )
                await self._sweep_unreachable_entries(thread, tx)
        except Conflict as conflict:
            raise ConversationConflict(conversation_id) from conflict
        finally:
            self._seen.drop(conversation_id)

    # --- Entries ----------------------------------------------------------------------------------

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. One query, which asks all logs if this object has not seen its record.

        Raises:
            LookupError: there is none of this id.
        """
        found = await self.log.find(entry_id, thread_id=self._log_of.get(entry_id))
        for thread, entry in found.items():
            self._log_of.put(entry_id, thread)
            return _to_entries([entry])[0]
        raise _entry_missing(entry_id)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to *head_id*, oldest first; with *limit*, only the last of them.

        One query reads the whole log, in which forks and branches are, too. With *limit* it reads
        the end, and more of it if branches lie between.

        Raises:
            LookupError: an entry of the history is not there.
        """
        if head_id is None or limit == 0:
            return []
        thread = await self._find_log(head_id)
        if thread is None:
            raise _entry_missing(head_id)
        size = MAX_LIMIT if limit is None else max(2 * limit, MIN_PAGE)
        wanted: str | None = head_id
        read: dict[str | None, Entry] = {}
        history: list[Entry] = []
        before: int | None = None
        while wanted is not None and (limit is None or len(history) < limit):
            if wanted not in read:
                page = await self.log.tail(thread, size, before=before)
                if not page:
                    raise _entry_missing(wanted)
                read |= {entry.key: entry for entry in page}
                before, size = page[0].position, min(2 * size, MAX_LIMIT)
                continue
            history.append(read[wanted])
            if len(history) > len(read):
                raise not_of_the_form("history of Pydantic AI", "it has no beginning")
            wanted = _parent_id(history[-1])
        return _to_entries(history[::-1])

    # --- Shared by the methods above --------------------------------------------------------------

    async def _expected_item(
        self, conversation_id: str, expected_revision: str | None
    ) -> StoreItem | None:
        """Return the item of a record of this revision; ``None`` if none is expected.

        Raises:
            ConversationConflict: it has another revision, or is not there.
        """
        if expected_revision is None:
            return None  # the write finds out
        item = await self.store.get_item(self._records, conversation_id)
        if item is None or (record := _to_record(item)).revision != expected_revision:
            raise ConversationConflict(conversation_id)
        return self._remember_record(record, _log_of_record(item), item.version, item.created_at)

    async def _replace_record(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        known: StoreItem | None,
    ) -> None:
        """Write a record in place of the one that is *known*.

        Raises:
            Conflict: the stored record is not that one.
        """
        thread = await self._thread_for(record, new_entries, known)
        await write_storable(
            lambda convert: self._write_record_and_entries(
                record, new_entries, thread, known, convert
            )
        )

    async def _thread_for(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        known: StoreItem | None,
    ) -> str:
        """Return the log of a record: for a fork the one in which its history is."""
        if known is not None:
            return str(known.value["log"])
        anchor = new_entries[0].parent_id if new_entries else record.head_id
        if anchor is None:
            return record.conversation_id
        thread = await self._find_log(anchor)
        if thread is None:
            raise ConversationConflict(record.conversation_id)
        return thread

    async def _find_log(self, entry_id: str) -> str | None:
        """Return the thread of the log that has an entry."""
        known = self._log_of.get(entry_id)
        if known is None:
            known = next(iter(await self.log.find(entry_id)), None)
            if known is not None:
                self._log_of.put(entry_id, known)
        return known

    async def _write_record_and_entries(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        thread: str,
        known: StoreItem | None,
        convert: Convert,
    ) -> None:
        rows = convert(_values_of_entries(new_entries))
        value = {
            "log": thread,
            "scope": record.scope,
            "record": convert(_RECORD.dump_python(record, warnings=False)),
        }
        ids = [entry.id for entry in new_entries]
        needed = _entry_that_must_exist(record, new_entries, known)
        async with self.db.transaction() as tx:
            # The log's lock is what a fork and the collection of its history wait for.
            if rows:
                await self.log.append(thread, rows, keys=ids, connection=tx)
            else:
                await self.log.hold(thread, tx)
            if needed is not None and not await self.log.find(
                needed, thread_id=thread, connection=tx
            ):
                raise ConversationConflict(record.conversation_id)
            version = await self.store.put(
                self._records,
                record.conversation_id,
                value,
                expected_version=known,
                updated_at=record.updated_at,
                connection=tx,
            )
        born = record.updated_at if known is None else known.created_at
        self._remember_record(record, thread, version, born)

    async def _sweep_unreachable_entries(self, thread: str, connection: HostConnection) -> None:
        """Remove the entries of a log that no record leads to; the log, if there is no record."""
        tips: list[str] = []
        left = 0
        async for item in self.store.iter_items(
            self._records, filter={"log": thread}, order="key", connection=connection
        ):
            left += 1
            tips += _tips_of_branches(_to_record(item))
        if not left:
            await self.log.delete(thread, connection=connection)
            return
        entries = {
            entry.key: entry for entry in await self.log.range(thread, connection=connection)
        }
        reached: set[str | None] = {None}
        for tip in tips:
            at: str | None = tip
            while at not in reached:
                reached.add(at)
                at = _parent_id(entries[at]) if at in entries else None
        gone = [entry.position for key, entry in entries.items() if key not in reached]
        await self.log.remove(thread, gone, connection=connection)

    def _read_item(self, item: StoreItem) -> ConversationRecord:
        record = _to_record(item)
        self._remember_record(record, _log_of_record(item), item.version, item.created_at)
        return record

    def _remember_record(
        self, record: ConversationRecord, thread: str, version: int, created_at: datetime
    ) -> StoreItem:
        """Remember the version of a record, and in which log its entries are.

        Return what is remembered: the item with the little that a save needs of it.
        """
        known = {"log": thread, "revision": record.revision, "head": record.head_id}
        item = StoreItem(
            self._records, record.conversation_id, known, {}, created_at, created_at, version
        )
        self._seen.put(record.conversation_id, item)
        for tip in _tips_of_branches(record):
            self._log_of.put(tip, thread)
        return item


@_FORM
def _to_record(item: StoreItem) -> ConversationRecord:
    return _RECORD.validate_python(item.value["record"])


@_FORM
def _log_of_record(item: StoreItem) -> str:
    """Return the thread of the log in which the entries of a record are."""
    return check_thread_id(item.value["log"])


def _entry_that_must_exist(
    record: ConversationRecord,
    new_entries: Sequence[ConversationEntry],
    known: StoreItem | None,
) -> str | None:
    """Return the id of the entry that the history of a record goes on from, if it can be missing.

    The head of the *known* record cannot be.
    """
    is_new_head = record.head_id in [entry.id for entry in new_entries]
    if known is None:
        return new_entries[0].parent_id if is_new_head else record.head_id
    # The new entries of an existing record go on where its head was.
    return None if is_new_head or record.head_id == known.value["head"] else record.head_id


def _values_of_entries(entries: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
    """Return the values of entries: their messages, each with the id of the entry before it."""
    messages = dump_messages([entry.message for entry in entries])
    return [
        {"parent_id": _stored_id(entry.parent_id), **message}
        for entry, message in zip(entries, messages, strict=True)
    ]


def _stored_id(entry_id: str | None) -> UUID | str | None:
    """Return an id as a UUID, if it is one: that takes less, and is not among the words."""
    try:
        found = UUID(entry_id) if entry_id is not None else None
    except ValueError:
        return entry_id
    return found if str(found) == entry_id else entry_id


@StoredForm("entry of Pydantic AI")
def _parent_id(entry: Entry) -> str | None:
    found = entry.value["parent_id"]
    if not isinstance(found, str | UUID | None):
        raise TypeError(f"a {type(found).__name__} is no id")
    return None if found is None else str(found)


def _to_entries(entries: Sequence[Entry]) -> list[ConversationEntry]:
    parents = [_parent_id(entry) for entry in entries]
    messages = load_messages([_message_fields(entry.value) for entry in entries])
    return [
        ConversationEntry(id=str(entry.key), parent_id=parent, message=message)
        for entry, parent, message in zip(entries, parents, messages, strict=True)
    ]


@StoredForm("entry of Pydantic AI")
def _message_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name != "parent_id"}


def _tips_of_branches(record: ConversationRecord) -> list[str]:
    return [*([] if record.head_id is None else [record.head_id]), *record.branches]


def _entry_missing(entry_id: str) -> NotFound:
    return NotFound(f"the store has no entry {entry_id!r}")


__all__ = ["MemalchemyConversationStore"]

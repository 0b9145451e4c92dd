"""Reads the SQLite file of lauren-ai's stores: conversations, facts about users and documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from lauren_ai import MemoryFact

from memalchemy._bounds import parse_json
from memalchemy.contracts import NewItem
from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.importers.foreign_tables import ForeignTables, Row
from memalchemy.importers.log_times import LogTimes
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.target import Kind, Record, Unreadable, Whole
from memalchemy.importers.unreadable import UNREADABLE, Unusable, describe_problem, text_field
from memalchemy.integrations._importers._json import object_in
from memalchemy.integrations._importers._record_batches import paged_items, pages_of
from memalchemy.integrations.lauren_ai import (
    MemalchemyConversationStore,
    MemalchemyUserMemoryStore,
    MemalchemyVectorStore,
)

_CONVERSATIONS = ("conversations", "conversation_id", "snapshot_json", "updated_at")
_FACTS = ("user_memory_facts", "memory_id", "user_id", "topics_json")
_DOCUMENTS = ("memory_documents", "document_id", "content", "embedding_json")


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the records: one for each conversation and fact, and one for 500 documents."""
    async with ForeignTables.open(place, schema=schema) as tables:
        _check_tables(tables)
        whole = [*tables.like(*_CONVERSATIONS), *tables.like(*_FACTS)]
        documents = [await tables.count(name) for name in tables.like(*_DOCUMENTS)]
        return sum([await tables.count(one) for one in whole]) + sum(map(pages_of, documents))


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the conversations, then the facts, then the documents, 500 at a time.

    The tables may have any prefix; several with different prefixes are imported together.
    """
    async with ForeignTables.open(place, schema=schema) as tables:
        _check_tables(tables)
        for name in tables.like(*_CONVERSATIONS):
            async for row in tables.rows(name, "conversation_id"):
                yield _make_record(
                    _record_of_conversation, row, "log", f"conversation {row['conversation_id']}"
                )
        for name in tables.like(*_FACTS):
            async for row in tables.rows(name, "user_id", "memory_id"):
                name = f"fact {row['memory_id']} of {row['user_id']}"
                yield _make_record(_record_of_fact, row, "item", name)
        for name in tables.like(*_DOCUMENTS):
            rows = tables.rows(name, "document_id")
            pages = paged_items(
                rows, _item_of_document, lambda row: repr(row["document_id"]), "documents"
            )
            async for page in pages:
                yield page


def _check_tables(tables: ForeignTables) -> None:
    if not any(tables.like(*one) for one in (_CONVERSATIONS, _FACTS, _DOCUMENTS)):
        raise NotFound("there are no tables of lauren-ai's in this database")


def _make_record(make: Callable[[Row], Whole], row: Row, kind: Kind, label: str) -> Record:
    try:
        return make(row)
    except UNREADABLE as error:
        return Unreadable(kind, label, describe_problem(error))


def _record_of_conversation(row: Row) -> Whole:
    name = text_field(row, "conversation_id")
    snapshot = object_in(row["snapshot_json"])
    at = to_utc(row["updated_at"])
    messages = snapshot["messages"]
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise Unusable("has messages that are no list of objects")

    def with_messages(kept: Sequence[int]) -> Whole:
        part = {**snapshot, "messages": [messages[at] for at in kept]}
        return _record_of_conversation({**row, "snapshot_json": part})

    async def load(db: Database, prefix: str) -> Any:
        return await MemalchemyConversationStore(db).load(prefix + name) or None

    async def save(db: Database, prefix: str, _: Any) -> None:
        await MemalchemyConversationStore(db).save(prefix + name, snapshot, occurred_at=at)

    def went_on(found: Any) -> bool:
        return bool(found["messages"][: len(messages)] == messages)

    return Whole(
        "log",
        f"conversation {name}",
        snapshot,
        load,
        save,
        logs=lambda db, prefix: LogTimes.of(
            MemalchemyConversationStore(db).native.log.namespace, prefix + name, [at]
        ),
        covers=went_on,
        parts=[f"message {number}" for number in range(1, len(messages) + 1)],
        with_parts=with_messages,
    )


def _record_of_fact(row: Row) -> Whole:
    fact = MemoryFact(
        memory_id=text_field(row, "memory_id"),
        user_id=text_field(row, "user_id"),
        content=row["content"],
        topics=parse_json(row["topics_json"]),
        confidence=row["confidence"],
        created_at=to_utc(row["created_at"]),
        last_seen_at=to_utc(row["last_seen_at"]),
        source_conversation_id=row["source_conversation_id"],
    )

    async def get(db: Database, _: str) -> Any:
        found = await MemalchemyUserMemoryStore(db).get(fact.user_id, fact.memory_id)
        return None if found is None else vars(found)

    return Whole(
        "item",
        f"fact {fact.memory_id} of {fact.user_id}",
        vars(fact),
        get,
        lambda db, *_: MemalchemyUserMemoryStore(db).add(fact),
        covers=lambda found: found["last_seen_at"] > fact.last_seen_at,
    )


def _item_of_document(row: Row) -> NewItem:
    embedding = None if row["embedding_json"] is None else parse_json(row["embedding_json"])
    at = to_utc(row["created_at"])
    return NewItem(
        (MemalchemyVectorStore.root, "documents"),
        text_field(row, "document_id"),
        text_field(row, "content"),
        object_in(row["metadata_json"]),
        embedding=embedding if embedding and any(embedding) else None,
        created_at=at,
        updated_at=at,
    )

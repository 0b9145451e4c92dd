"""Reads the SQLite file of lauren-ai's stores: conversations, facts about users and documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from lauren_ai import MemoryFact

from memalchemy._bounds import parse_json
from memalchemy.contracts import NewItem
from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.importers.foreign_tables import ForeignTables, Row
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.target import Record, Whole
from memalchemy.integrations._importers._pages import paged_items, pages_of
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
        _check(tables)
        whole = [*tables.like(*_CONVERSATIONS), *tables.like(*_FACTS)]
        documents = [await tables.count(name) for name in tables.like(*_DOCUMENTS)]
        return sum([await tables.count(one) for one in whole]) + sum(map(pages_of, documents))


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the conversations, then the facts, then the documents, 500 at a time.

    The tables may have any prefix; several with different prefixes are imported together.
    """
    async with ForeignTables.open(place, schema=schema) as tables:
        _check(tables)
        for name in tables.like(*_CONVERSATIONS):
            async for row in tables.rows(name, "conversation_id"):
                yield _conversation(row)
        for name in tables.like(*_FACTS):
            async for row in tables.rows(name, "user_id", "memory_id"):
                yield _fact(row)
        for name in tables.like(*_DOCUMENTS):
            items = (_document(row) async for row in tables.rows(name, "document_id"))
            async for page in paged_items(items, "documents"):
                yield page


def _check(tables: ForeignTables) -> None:
    if not any(tables.like(*one) for one in (_CONVERSATIONS, _FACTS, _DOCUMENTS)):
        raise NotFound("there are no tables of lauren-ai's in this database")


def _conversation(row: Row) -> Whole:
    name = row["conversation_id"]
    snapshot = parse_json(row["snapshot_json"])
    at = to_utc(row["updated_at"])

    async def load(db: Database, prefix: str) -> Any:
        return await MemalchemyConversationStore(db).load(prefix + name) or None

    async def save(db: Database, prefix: str, _: Any) -> None:
        await MemalchemyConversationStore(db).save(prefix + name, snapshot, occurred_at=at)

    def went_on(found: Any) -> bool:
        messages = snapshot["messages"]
        return bool(found["messages"][: len(messages)] == messages)

    return Whole("log", f"conversation {name}", snapshot, load, save, covers=went_on)


def _fact(row: Row) -> Whole:
    fact = MemoryFact(
        memory_id=row["memory_id"],
        user_id=row["user_id"],
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


def _document(row: Row) -> NewItem:
    embedding = None if row["embedding_json"] is None else parse_json(row["embedding_json"])
    at = to_utc(row["created_at"])
    return NewItem(
        (MemalchemyVectorStore.root, "documents"),
        row["document_id"],
        row["content"],
        parse_json(row["metadata_json"]),
        embedding=embedding if embedding and any(embedding) else None,
        created_at=at,
        updated_at=at,
    )

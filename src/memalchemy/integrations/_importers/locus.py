"""Reads locus' own checkpointers and stores: files, SQLite, PostgreSQL, Redis, S3 and OpenSearch.

`_locus_layouts` knows the layouts; here what they hold becomes records.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from locus.core.state import AgentState

from memalchemy.contracts import NewItem
from memalchemy.importers.target import ImportedThread, NewCheckpoint, Record
from memalchemy.integrations._importers._locus_layouts import (
    Files,
    Objects,
    OpenSearch,
    Place,
    Redis,
    StoredThread,
    Tables,
)
from memalchemy.integrations._importers._record_batches import paged_items, pages_of
from memalchemy.integrations.locus import MemalchemyCheckpointer
from memalchemy.integrations.locus.checkpointer import INDEXED_FIELDS, canonical

ROOT = MemalchemyCheckpointer.root


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the records: one for each thread, and one for 500 items."""
    async with _open_place(place, schema) as opened:
        threads, items = await opened.count()
        return threads + pages_of(items)


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the threads, by id, and then the items of the store.

    *place* is the directory of a `FileCheckpointer`; a SQLite file of the `HolographicStore`; the
    URL of a database with the tables of `PgCheckpointer`, of the PostgreSQL backend or store; or
    ``redis://…?prefix=…``, ``s3://bucket/prefix?endpoint_url=…`` or ``opensearch://host:9200/index``
    (``opensearch+http://`` without TLS).
    """
    async with _open_place(place, schema) as opened:
        async for thread in opened.threads():
            yield _to_record(thread)
        pages = paged_items(
            opened.items(), lambda one: _below_root(one[1]()), lambda one: one[0], "items"
        )
        async for page in pages:
            yield page


def _open_place(place: str, schema: str | None) -> AbstractAsyncContextManager[Place]:
    scheme = place.partition("://")[0] if "://" in place else ""
    if scheme in ("redis", "rediss", "unix"):
        return Redis.open(place)
    if scheme == "s3":
        return Objects.open(place)
    if scheme.startswith("opensearch"):
        return OpenSearch.open(place)
    if scheme or Files.is_no_directory(place):
        return Tables.open(place, schema)
    return Files.open(place)


def _to_record(thread: StoredThread) -> ImportedThread:
    earlier = dict(zip(thread.checkpoint_ids[1:], thread.checkpoint_ids, strict=False))

    async def load(checkpoint_id: str) -> NewCheckpoint:
        stored = await thread.load(checkpoint_id)
        state = AgentState.from_checkpoint(stored.state)
        return NewCheckpoint(
            checkpoint_id,
            canonical(state),
            stored.saved_at,
            earlier.get(checkpoint_id),
            stored.metadata,
        )

    return ImportedThread(
        (ROOT,),
        thread.thread_id,
        thread.checkpoint_ids,
        load,
        options={"index_text": INDEXED_FIELDS},
        left_out=thread.left_out,
    )


def _below_root(item: NewItem) -> NewItem:
    return replace(item, namespace=(ROOT, *item.namespace))

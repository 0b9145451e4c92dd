"""The whole schema: five tables. What their columns are made of is in `column_types`.

A *log* is (tenant, thread_id, namespace). A thread is all logs with one (tenant, thread_id); a
checkpoint is a name for a position in a log; a conversation is a log of entries; facts, documents
and key-value data are store items. Read this file and you know the product.

Migrations own the tables: nothing here is ever passed to ``create_all``. Host applications may
query, join and relate these classes; rows that memalchemy does not write itself are not supported,
with one exception: deleting a `ThreadRow` removes its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Dialect,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    case,
    column,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from memalchemy.column_types import Json, Key, Path, Payload, UtcDateTime, Vector

# Lengths are in characters; the API holds ids to byte limits so that the longest composite key
# stays under the 2,704 bytes of a PostgreSQL index row and the 6,398 of an Oracle one.
TENANT, THREAD, NAMESPACE, NAME, ENTRY_KEY = Key(64), Key(510), Path(512), Key(255), Key(128)


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
        }
    )


class ThreadRow(Base):
    """The head of one log. Locking this row is locking the log."""

    __tablename__ = "threads"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    thread_id: Mapped[str] = mapped_column(THREAD, primary_key=True)
    namespace: Mapped[str] = mapped_column(NAMESPACE, primary_key=True)
    next_seq: Mapped[int] = mapped_column(BigInteger)
    """The position that the next row of the log takes."""
    version: Mapped[int] = mapped_column(BigInteger)
    """Moves with the head."""
    last_ordinal: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    """How many checkpoints have been saved in this life of the log, replacements not counted."""
    epoch: Mapped[int] = mapped_column(BigInteger)
    """Random at birth; moves when a row is removed that another process may hold as a base."""
    head_id: Mapped[str | None] = mapped_column(NAME)
    """The newest checkpoint: a plain save's parent, read and moved under the row's lock."""
    previous_id: Mapped[str | None] = mapped_column(NAME)
    """The head before it: UPDATE … RETURNING gives new values only, and a save needs the old."""
    meta: Mapped[dict[str, Any]] = mapped_column(Json)
    forked_thread: Mapped[str | None] = mapped_column(THREAD)
    forked_seq: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Set on a tombstone: ids only, kept a day so that late writes are refused, not resurrected."""

    # No index on a column that every save changes: it ends PostgreSQL's HOT updates.
    __table_args__ = (
        Index(None, "tenant", "namespace", "thread_id"),
        Index(
            "ix_threads_expires_at",
            "expires_at",
            postgresql_where=text("expires_at IS NOT NULL"),
            sqlite_where=text("expires_at IS NOT NULL"),
        ),
    )


def _in_a_thread() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["tenant", "thread_id", "namespace"],
        ["threads.tenant", "threads.thread_id", "threads.namespace"],
        ondelete="CASCADE",
    )


class CheckpointRow(Base):
    """A name for a position in a log. Never the payload: listing history reads no payload bytes."""

    __tablename__ = "checkpoints"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    thread_id: Mapped[str] = mapped_column(THREAD, primary_key=True)
    namespace: Mapped[str] = mapped_column(NAMESPACE, primary_key=True)
    checkpoint_id: Mapped[str] = mapped_column(NAME, primary_key=True)
    parent_id: Mapped[str | None] = mapped_column(NAME)
    seq: Mapped[int] = mapped_column(BigInteger)
    run_id: Mapped[str | None] = mapped_column(NAME)
    meta: Mapped[dict[str, Any]] = mapped_column(Json)
    raw_size: Mapped[int] = mapped_column(BigInteger)
    stored_size: Mapped[int] = mapped_column(BigInteger)
    occurred_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """When the step happened; of what was imported, before it was stored here."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """When it was stored."""
    ordinal: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    """The number of this checkpoint in its log, from 1: pending writes take positions, too.

    A replacement keeps it, and so does a copy. 0 if an earlier release saved it, uncounted.
    """
    rests_on: Mapped[str | None] = mapped_column(NAME)
    """The checkpoint of this log whose state and pending writes this state is incomplete without.
    That one is not removed while this one is there.
    """

    __table_args__ = (
        UniqueConstraint("tenant", "thread_id", "namespace", "seq"),
        Index(
            "ix_checkpoints_rests_on",
            "tenant",
            "thread_id",
            "namespace",
            "rests_on",
            postgresql_where=text("rests_on IS NOT NULL"),
            sqlite_where=text("rests_on IS NOT NULL"),
        ),
        Index(
            "ix_checkpoints_run_id",
            "tenant",
            "run_id",
            "thread_id",
            postgresql_where=text("run_id IS NOT NULL"),
            sqlite_where=text("run_id IS NOT NULL"),
        ),
        _in_a_thread(),
    )


def _unless_oracle(*_: Any, dialect: Dialect, **__: Any) -> bool:
    return dialect.name != "oracle"


class DeltaRow(Base):
    """One entry of a log at position ``seq``.

    ``kind`` is *snapshot*, *delta* (against ``base_seq``), *entry* (a message or event) or *write*
    (a pending write). Lineage is `CheckpointRow.parent_id`; ``base_seq`` is compression alone.
    """

    __tablename__ = "deltas"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    thread_id: Mapped[str] = mapped_column(THREAD, primary_key=True)
    namespace: Mapped[str] = mapped_column(NAMESPACE, primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(16))
    entry_key: Mapped[str | None] = mapped_column(ENTRY_KEY)
    parent_seq: Mapped[int | None] = mapped_column(BigInteger)
    base_seq: Mapped[int | None] = mapped_column(BigInteger)
    depth: Mapped[int] = mapped_column(Integer)
    """Saves since the snapshot on this row's compression lineage."""
    since_bytes: Mapped[int] = mapped_column(BigInteger)
    """Bytes of deltas since that snapshot: over the snapshot's own size, a new one is due."""
    raw_size: Mapped[int] = mapped_column(BigInteger)
    codec: Mapped[str] = mapped_column(String(16))
    checksum: Mapped[int] = mapped_column(BigInteger)
    label: Mapped[str | None] = mapped_column(NAME)
    sort_key: Mapped[str | None] = mapped_column(NAME)
    status: Mapped[int] = mapped_column(SmallInteger)
    """Of a state the radix of its depth, 0 for 2. Of a write 1 if it goes before earlier ones."""
    search_text: Mapped[str | None] = mapped_column(Text)
    occurred_at: Mapped[datetime] = mapped_column(UtcDateTime)
    stored_at: Mapped[datetime] = mapped_column(UtcDateTime)
    payload: Mapped[bytes] = mapped_column(Payload, deferred=True)

    __table_args__ = (
        Index(
            "ix_deltas_base_seq",
            "tenant",
            "thread_id",
            "namespace",
            "base_seq",
            postgresql_where=text("base_seq IS NOT NULL"),
            sqlite_where=text("base_seq IS NOT NULL"),
        ),
        Index(
            "uq_deltas_entry_key",
            "tenant",
            "entry_key",
            "thread_id",
            "namespace",
            unique=True,
            postgresql_where=text("entry_key IS NOT NULL"),
            sqlite_where=text("entry_key IS NOT NULL"),
        ).ddl_if(callable_=_unless_oracle),
        # Oracle counts NULL in a composite key as a value, and has no partial index: every column
        # of a row that should not take part must be NULL.
        Index(
            "uq_deltas_entry_key_oracle",
            *(
                case((column("entry_key").is_not(None), column(name)))
                for name in ("tenant", "entry_key", "thread_id", "namespace")
            ),
            unique=True,
        ).ddl_if(dialect="oracle"),
        _in_a_thread(),
    )


class StoreItemRow(Base):
    """A value under (namespace, key)."""

    __tablename__ = "store_items"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    namespace: Mapped[str] = mapped_column(NAMESPACE, primary_key=True)
    key: Mapped[str] = mapped_column(NAME, primary_key=True)
    meta: Mapped[dict[str, Any]] = mapped_column(Json)
    version: Mapped[int] = mapped_column(BigInteger)
    codec: Mapped[str] = mapped_column(String(16))
    checksum: Mapped[int] = mapped_column(BigInteger)
    search_text: Mapped[str | None] = mapped_column(Text)
    field_terms: Mapped[str | None] = mapped_column(Text)
    """A word for each scalar field of value and metadata: an index answers equality with it."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    lifetime: Mapped[int | None] = mapped_column(BigInteger)
    """Microseconds from a write, or a read that prolongs, to ``expires_at``."""
    value: Mapped[bytes] = mapped_column(Payload)

    __table_args__ = (
        Index(None, "tenant", "namespace", "updated_at", "key"),
        Index(
            "ix_store_items_expires_at",
            "expires_at",
            postgresql_where=text("expires_at IS NOT NULL"),
            sqlite_where=text("expires_at IS NOT NULL"),
        ),
    )


class EmbeddingRow(Base):
    """A vector of an item: one for each (field, model, part). Dimensions are mixed in one table."""

    __tablename__ = "embeddings"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    namespace: Mapped[str] = mapped_column(NAMESPACE, primary_key=True)
    key: Mapped[str] = mapped_column(NAME, primary_key=True)
    field: Mapped[str] = mapped_column(Key(128), primary_key=True)
    model: Mapped[str] = mapped_column(Key(128), primary_key=True)
    part: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    dimensions: Mapped[int] = mapped_column(Integer)
    change: Mapped[int] = mapped_column(BigInteger)
    """The namespace's version at the last write: what a cache of vectors has yet to read."""
    vector: Mapped[Sequence[float]] = mapped_column(Vector)

    __table_args__ = (
        Index(None, "tenant", "namespace", "model", "dimensions"),
        Index(None, "tenant", "namespace", "change").ddl_if(dialect="sqlite"),
        ForeignKeyConstraint(
            ["tenant", "namespace", "key"],
            ["store_items.tenant", "store_items.namespace", "store_items.key"],
            ondelete="CASCADE",
        ),
    )

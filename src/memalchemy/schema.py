"""The whole schema: five tables. The types of their columns are in `column_types`.

A *log* is (tenant, thread_id, namespace), and has one key, ``log_id``. A thread is all logs with
one (tenant, thread_id); a checkpoint is a name for a position in a log; a conversation is a log of
entries; facts, documents and key-value data are store items. Read this file and you know the
product.

Migrations own the tables: nothing here is ever passed to ``create_all``. Host applications may
query, join and relate these classes. Their sessions refuse to write rows, with one exception:
deleting a `ThreadRow` removes its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Dialect,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    case,
    column,
    text,
    type_coerce,
)
from sqlalchemy.ext.asyncio import AsyncAttrs
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from memalchemy.column_types import Json, Key, LogKey, Namespace, Path, Payload, UtcDateTime, Vector
from memalchemy.keys import decode_namespace
from memalchemy.row_conditions import ItemField
from memalchemy.row_decoding import Keys, decode, load_state
from memalchemy.session_rules import INTERNAL_ROWS as INTERNAL_ROWS
from memalchemy.session_rules import (
    hide_internal_items,
    refuse_deletion,
    refuse_namespace,
    refuse_writes,
)

# Lengths are in characters; the API holds ids to byte limits so that the longest composite key
# stays under the 2,704 bytes of a PostgreSQL index row and the 6,398 of an Oracle one.
TENANT, THREAD, NAMESPACE, NAME, ENTRY_KEY = Key(64), Key(510), Path(512), Key(255), Key(128)
SIGNATURE = LargeBinary(80)


class Base(AsyncAttrs, DeclarativeBase):
    metadata: ClassVar[MetaData] = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )

    def __delattr__(self, name: str) -> None:
        refuse_deletion(self, name)
        super().__delattr__(name)


refuse_writes(Base)


class _HasNamespace:
    """A row with a namespace, which is stored as its path."""

    path: Any

    @hybrid_property
    def namespace(self) -> tuple[str, ...]:
        """The namespace as a tuple, in queries too, where it has ``below(namespace)``."""
        return decode_namespace(self.path)

    @namespace.inplace.setter
    def _set_namespace(self, namespace: Any) -> None:
        refuse_namespace(self)

    @namespace.inplace.expression
    @classmethod
    def _namespace_in_queries(cls) -> Any:
        return type_coerce(cls.path, Namespace())


def _partial_index_options(condition: str) -> dict[str, Any]:
    """A partial index, on the databases that have partial indexes."""
    return {"postgresql_where": text(condition), "sqlite_where": text(condition)}


class ThreadRow(_HasNamespace, Base):
    """The head of one log. Locking this row is locking the log."""

    __tablename__ = "threads"

    log_id: Mapped[UUID] = mapped_column(LogKey, primary_key=True)
    """The key of the log: `memalchemy.keys.log_key` of tenant, thread and namespace."""
    tenant: Mapped[str] = mapped_column(TENANT)
    """The tenant."""
    thread_id: Mapped[str] = mapped_column(THREAD)
    """The thread's id, escaped if it is empty or holds characters that databases do not store."""
    path: Mapped[str] = mapped_column("namespace", NAMESPACE)
    """The namespace as a path: ``/``, ``/planner/eu/``."""
    next_seq: Mapped[int] = mapped_column(BigInteger)
    """The position that the next row of the log takes."""
    version: Mapped[int] = mapped_column(BigInteger)
    """Counts changes of checkpoints and entries, for ``expected_version`` of `ThreadLog`."""
    last_ordinal: Mapped[int] = mapped_column(BigInteger)
    """The number of checkpoints so far. A replaced one counts once."""
    epoch: Mapped[int] = mapped_column(BigInteger)
    """Random at first. Changes when rows are removed or changed in place.

    So neither a process that has cached them goes on from its copies, nor a copy in another
    database.
    """
    head_id: Mapped[str | None] = mapped_column(NAME)
    """The newest checkpoint.

    It is a plain save's parent, read and moved under the row's lock.
    """
    previous_id: Mapped[str | None] = mapped_column(NAME)
    """The newest checkpoint before the last save.

    UPDATE … RETURNING gives new values only, and a save needs the old.
    """
    meta: Mapped[dict[str, Any]] = mapped_column(Json)
    """The thread's own metadata."""
    forked_from: Mapped[str | None] = mapped_column(THREAD)
    """The thread that this log was copied from, unless that was erased."""
    forked_seq: Mapped[int | None] = mapped_column(BigInteger)
    """The position up to which it was copied. Of a whole copy the source's ``next_seq``."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """The time of the first write."""
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """The time of the last write."""
    active_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """``updated_at`` to the second, for the indexes.

    An index on the microsecond would change with every save, and end PostgreSQL's HOT updates;
    this one changes once a second at most.
    """
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """The time from which no reader sees the log."""
    deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """The time of a deletion, of a tombstone.

    A tombstone has ids only, and is kept a day so that late writes are refused, not resurrected.
    """
    signature: Mapped[bytes | None] = mapped_column(SIGNATURE)
    """The proof of the row, if the database is signed."""

    checkpoints: Mapped[list[CheckpointRow]] = relationship(
        viewonly=True, order_by="CheckpointRow.seq", back_populates="thread"
    )
    deltas: Mapped[list[DeltaRow]] = relationship(
        viewonly=True, order_by="DeltaRow.seq", back_populates="thread"
    )

    __table_args__: Any = (
        # All logs of a thread, ids with a prefix, and jobs that go through the logs in this order.
        Index(None, "tenant", "thread_id", "namespace"),
        # The newest logs of a tenant.
        Index(None, "tenant", "active_at"),
        # The newest threads of a namespace.
        Index(None, "tenant", "namespace", "active_at"),
        CheckConstraint("next_seq > 0 AND version > 0 AND last_ordinal >= 0", name="counters"),
        {"sqlite_with_rowid": False},
    )


def _foreign_key_to_log() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["log_id"], ["threads.log_id"], ondelete="CASCADE")


_SAME_POSITION = (
    "and_(foreign(CheckpointRow.log_id) == remote(DeltaRow.log_id), "
    "foreign(CheckpointRow.seq) == remote(DeltaRow.seq))"
)


class CheckpointRow(Base):
    """A name for a position in a log. Never the payload: listing history reads no payload bytes."""

    __tablename__ = "checkpoints"

    log_id: Mapped[UUID] = mapped_column(LogKey, primary_key=True)
    """The log."""
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """The position of the state: the row of ``deltas`` with the same two."""
    tenant: Mapped[str] = mapped_column(TENANT)
    """The tenant."""
    checkpoint_id: Mapped[str] = mapped_column(NAME)
    """The id, given to `save` or made by it."""
    parent_id: Mapped[str | None] = mapped_column(NAME)
    """The checkpoint that this one continues. It may be deleted since."""
    ordinal: Mapped[int] = mapped_column(BigInteger)
    """The number of this checkpoint in its log, from 1. ``keep_every`` uses it.

    Pending writes take positions, too, so a position does not count checkpoints. A replacement
    keeps it, and so does a copy. On PostgreSQL a save sees the checkpoint to replace as of the
    start of its statement: if that was removed meanwhile, the number is one lower, 0 for the first
    of a log.
    """
    rests_on: Mapped[str | None] = mapped_column(NAME)
    """The checkpoint without which this state is incomplete.

    It is of this log. It is not removed while this one is there: the state needs its state and
    pending writes.
    """
    run_id: Mapped[str | None] = mapped_column(NAME)
    """The run that made it."""
    meta: Mapped[dict[str, Any]] = mapped_column(Json)
    """The metadata of the checkpoint."""
    raw_size: Mapped[int] = mapped_column(Integer)
    """The bytes of the whole state, encoded."""
    stored_size: Mapped[int] = mapped_column(Integer)
    """The bytes of its stored form."""
    occurred_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """The time of the step. Earlier than ``created_at`` if the checkpoint was imported."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """The time of storing it in this database."""
    signature: Mapped[bytes | None] = mapped_column(SIGNATURE)
    """The proof of the row."""

    thread: Mapped[ThreadRow] = relationship(viewonly=True, back_populates="checkpoints")
    delta: Mapped[DeltaRow] = relationship(
        viewonly=True, primaryjoin=_SAME_POSITION, back_populates="checkpoint"
    )
    """The row that holds the state."""

    @property
    def decoded(self) -> dict[str, Any]:
        """The state, by one query of the row's session, whatever it is based on.

        In an `AsyncSession` it is ``await row.awaitable_attrs.decoded``.
        """
        return self.state()

    def state(self, *, keys: Keys = None) -> dict[str, Any]:
        """Return `decoded`, with the *keys* of an encrypted tenant.

        In an `AsyncSession` it is ``await session.run_sync(lambda _: row.state(keys=keys))``.
        """
        return load_state(self, DeltaRow.__table__, keys)

    __table_args__: Any = (
        # `load` of a given id, and `save` under an id that exists.
        UniqueConstraint("log_id", "checkpoint_id"),
        # The checkpoints that must stay when others are removed.
        Index(
            "ix_checkpoints_rests_on",
            "log_id",
            "rests_on",
            **_partial_index_options("rests_on IS NOT NULL"),
        ),
        # `find_runs`.
        Index(
            "ix_checkpoints_run_id",
            "tenant",
            "run_id",
            **_partial_index_options("run_id IS NOT NULL"),
        ),
        CheckConstraint("seq > 0 AND ordinal >= 0", name="position"),
        CheckConstraint("raw_size >= 0 AND stored_size >= 0", name="sizes"),
        _foreign_key_to_log(),
    )


def _unless_oracle(*_: Any, dialect: Dialect, **__: Any) -> bool:
    return dialect.name != "oracle"


class DeltaRow(Base):
    """One row of a log, at position ``seq``.

    ``kind`` is *snapshot* (a whole state), *delta* (a state as its difference from the one at
    ``base_seq``), *entry* (a message or event) or *write* (a pending write). Lineage is
    `CheckpointRow.parent_id`; ``base_seq`` is compression alone.
    """

    __tablename__ = "deltas"

    log_id: Mapped[UUID] = mapped_column(LogKey, primary_key=True)
    """The log."""
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """The position in the log."""
    tenant: Mapped[str] = mapped_column(TENANT)
    """The tenant."""
    kind: Mapped[str] = mapped_column(String(16))
    """``snapshot``, ``delta``, ``entry`` or ``write``."""
    entry_key: Mapped[str | None] = mapped_column(ENTRY_KEY)
    """The caller's key of an entry, or a key of a write that begins with its checkpoint's id."""
    label: Mapped[str | None] = mapped_column(NAME)
    """The checkpoint that a write belongs to."""
    base_seq: Mapped[int | None] = mapped_column(BigInteger)
    """The position of the state that a delta is a difference from."""
    depth: Mapped[int] = mapped_column(Integer)
    """The number of saves since the last snapshot. 0 of a row that is no delta."""
    radix: Mapped[int | None] = mapped_column(SmallInteger)
    """The radix by which ``depth`` chooses the base. NULL is 4."""
    overwrites: Mapped[int | None] = mapped_column(SmallInteger)
    """1 if a write replaces earlier ones at the same indexes. NULL is 0."""
    codec: Mapped[str] = mapped_column(String(16))
    """The encoding of ``payload``. It ends with ``+gcm2`` if the row is encrypted."""
    checksum: Mapped[int] = mapped_column(BigInteger)
    """CRC-32 of ``payload``. The upper half of a state's is XXH3 of the whole state."""
    search_text: Mapped[str | None] = mapped_column(Text)
    """The words that the row is found by. Of a state, those that its step added."""
    occurred_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """The time of an entry. The times of a state are its checkpoint's."""
    stored_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """The time of storing an entry or a write."""
    signature: Mapped[bytes | None] = mapped_column(SIGNATURE)
    """The proof of the row."""
    payload: Mapped[bytes] = mapped_column(Payload, deferred=True)
    """The encoded value. `memalchemy.decode` reads it."""

    thread: Mapped[ThreadRow] = relationship(viewonly=True, back_populates="deltas")
    checkpoint: Mapped[CheckpointRow | None] = relationship(
        viewonly=True,
        primaryjoin="and_(remote(foreign(CheckpointRow.log_id)) == DeltaRow.log_id, "
        "remote(foreign(CheckpointRow.seq)) == DeltaRow.seq)",
        back_populates="delta",
        uselist=False,
    )
    """The checkpoint at this position, of a state that has one."""

    @property
    def decoded(self) -> Any:
        """The value of an entry, a write or a state; `memalchemy.decode` takes keys.

        A state that is a difference is loaded by one query of the row's session.
        """
        return decode(self)

    __table_args__: Any = (
        # Which states are still a base, before one is removed.
        Index(
            "ix_deltas_base_seq",
            "log_id",
            "base_seq",
            **_partial_index_options("base_seq IS NOT NULL"),
        ),
        # An entry's key is stored once; and the pending writes of a checkpoint.
        Index(
            "uq_deltas_entry_key",
            "log_id",
            "entry_key",
            unique=True,
            **_partial_index_options("entry_key IS NOT NULL"),
        ).ddl_if(callable_=_unless_oracle),
        # Oracle counts NULL in a composite key as a value, and has no partial index: every column
        # of a row that should not take part must be NULL.
        Index(
            "uq_deltas_entry_key_oracle",
            *(
                case((column("entry_key").is_not(None), column(name)))
                for name in ("log_id", "entry_key")
            ),
            unique=True,
        ).ddl_if(dialect="oracle"),
        CheckConstraint("seq > 0 AND depth >= 0", name="numbers"),
        CheckConstraint(
            # Of NULL a comparison is NULL, and a CHECK lets that pass.
            "(kind = 'snapshot' AND base_seq IS NULL) "
            "OR (kind = 'delta' AND base_seq IS NOT NULL AND base_seq < seq) "
            "OR (kind = 'entry' AND occurred_at IS NOT NULL AND stored_at IS NOT NULL) "
            "OR (kind = 'write' AND label IS NOT NULL AND stored_at IS NOT NULL)",
            name="kind",
        ),
        _foreign_key_to_log(),
    )


class StoreItemRow(_HasNamespace, Base):
    """A value under (namespace, key).

    Namespaces that begin with ``/~`` are the library's own, such as the counters of changes under
    ``/~vectors/``; a ``~`` in a user's namespace is stored escaped.
    """

    __tablename__ = "store_items"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    """The tenant."""
    path: Mapped[str] = mapped_column("namespace", NAMESPACE, primary_key=True)
    """The namespace as a path: ``/users/ada/``."""
    key: Mapped[str] = mapped_column(NAME, primary_key=True)
    """The key."""
    meta: Mapped[dict[str, Any]] = mapped_column(Json)
    """The metadata of the item."""
    version: Mapped[int] = mapped_column(BigInteger)
    """1 at first, and one more with each put, for ``expected_version``."""
    codec: Mapped[str] = mapped_column(String(16))
    """The encoding of ``value``, as in ``deltas``."""
    checksum: Mapped[int] = mapped_column(BigInteger)
    """The checksum of ``value``, as in ``deltas``."""
    search_text: Mapped[str | None] = mapped_column(Text)
    """The words that the item is found by."""
    field_terms: Mapped[str | None] = mapped_column(Text)
    """A term for each scalar field of value and metadata, for filters."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """The time of the first put."""
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """The time of the last put."""
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """The time from which no reader sees the item."""
    lifetime: Mapped[int | None] = mapped_column(BigInteger)
    """Microseconds from a put, or a read that refreshes, to ``expires_at``."""
    signature: Mapped[bytes | None] = mapped_column(SIGNATURE)
    """The proof of the row."""
    value: Mapped[bytes] = mapped_column(Payload)
    """The encoded value. `memalchemy.decode` reads it."""

    embeddings: Mapped[list[EmbeddingRow]] = relationship(viewonly=True, back_populates="item")

    @classmethod
    def field(cls, name: str) -> ItemField:
        """Return a scalar field of the value or the metadata, to compare in a query.

        ``select(StoreItemRow).where(StoreItemRow.field("price") > 3)``; see `ItemField`.
        """
        return ItemField(cls.key, name)

    @property
    def decoded(self) -> Any:
        """The value; `memalchemy.decode` takes the keys of an encrypted one."""
        return decode(self)

    __table_args__: Any = (
        # The newest items, `count`, `list_namespaces`. Every write changes it. Without it the
        # newest 10 of 50,000 items took 27 to 77 ms instead of 0.5; with it a put took a tenth to
        # a fifth longer.
        Index(None, "tenant", "namespace", "updated_at", "key"),
        # `sweep`.
        Index(
            "ix_store_items_expires_at",
            "tenant",
            "expires_at",
            **_partial_index_options("expires_at IS NOT NULL"),
        ),
        CheckConstraint("version > 0", name="version"),
    )


class EmbeddingRow(_HasNamespace, Base):
    """A vector of an item: one for each (field, model, part). Dimensions are mixed in one table."""

    __tablename__ = "embeddings"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    """The tenant of the item."""
    path: Mapped[str] = mapped_column("namespace", NAMESPACE, primary_key=True)
    """The namespace of the item."""
    key: Mapped[str] = mapped_column(NAME, primary_key=True)
    """The key of the item."""
    field: Mapped[str] = mapped_column(Key(128), primary_key=True)
    """The field that the vector is of. Empty for the whole value."""
    model: Mapped[str] = mapped_column(Key(128), primary_key=True)
    """The model that made it."""
    part: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    """The number of the text in a list of texts, from 0."""
    dimensions: Mapped[int] = mapped_column(Integer)
    """The number of dimensions."""
    change: Mapped[int] = mapped_column(BigInteger)
    """On SQLite the number of the namespace's changes at this one.

    A cache of vectors reads the rows whose number is above the one that it has read.
    """
    signature: Mapped[bytes | None] = mapped_column(SIGNATURE)
    """The proof of the row."""
    vector: Mapped[Sequence[float]] = mapped_column(Vector)
    """The numbers."""

    item: Mapped[StoreItemRow] = relationship(viewonly=True, back_populates="embeddings")

    __table_args__: Any = (
        # The vectors that a search compares.
        Index(None, "tenant", "namespace", "model", "dimensions"),
        # The vectors that changed since a cache was filled.
        Index(None, "tenant", "namespace", "change").ddl_if(dialect="sqlite"),
        CheckConstraint("part >= 0 AND dimensions > 0 AND change >= 0", name="numbers"),
        ForeignKeyConstraint(
            ["tenant", "namespace", "key"],
            ["store_items.tenant", "store_items.namespace", "store_items.key"],
            ondelete="CASCADE",
        ),
    )


hide_internal_items(StoreItemRow)

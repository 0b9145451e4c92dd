"""What the databases have in common, and the questions a dialect answers differently.

A dialect builds constructs and reads driver errors; it executes nothing except the few commands
that prepare a connection or take the migration lock. A subclass overrides only what differs, so
that the difference is the file.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

import orjson
from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Executable,
    FromClause,
    Insert,
    Integer,
    LargeBinary,
    Select,
    Table,
    bindparam,
    func,
    literal_column,
    select,
)
from sqlalchemy.engine import URL

from memalchemy.codec import vectors
from memalchemy.codec.items import FieldWords
from memalchemy.column_types import Vector

TEXT_INDEXES = {
    "deltas_search": "deltas",
    "checkpoints_meta": "checkpoints",
    "store_items_search": "store_items",
}
"""What finds rows by words, or by metadata, and the table that it is of."""


class Failure(enum.Enum):
    """What a driver error means for the caller."""

    DISCONNECTED = "disconnected"  # the connection is gone; whether the statement ran is unknown
    UNREACHABLE = "unreachable"  # no connection could be made
    BUSY = "busy"  # locked by others for longer than the timeout
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    READ_ONLY = "read only"  # a replica, or a server that was told to take no writes
    ROLLED_BACK = "rolled back"  # deadlock or serialisation: nothing happened, repeating is safe
    UNIQUE = "unique"
    MISSING_TABLE = "missing table"
    IN_USE = "in use"  # another task is using the connection; the driver sent nothing
    FULL = "full"
    CORRUPT = "corrupt"
    OTHER = "other"


class Dialect:
    """Common SQL. Flags are capabilities: callers ask for one, never for a database's name."""

    name: ClassVar[str]
    single_statement_save: ClassVar[bool] = False
    """A save is one statement of data-modifying CTEs."""
    groups_saves: ClassVar[bool] = False
    """Many saves can be one statement, their rows sent as arrays."""
    takes_arrays: ClassVar[bool] = False
    """Many rows can be sent at once, as `arrays`."""
    single_writer: ClassVar[bool] = False
    """One writer at a time for the whole database; memalchemy brings its own, with group commit."""
    transactional_ddl: ClassVar[bool] = True
    autocommits: ClassVar[bool] = True
    """Autocommit costs no round trip of its own."""
    upserts: ClassVar[bool] = True
    """There is an upsert statement. Without one an upsert is update, insert, retry."""
    searches_uncommitted: ClassVar[bool] = True
    """A text search finds what its own transaction has written."""
    vector_type_commands: ClassVar[tuple[str, ...]] = ()
    """What makes the native vector type available, for scripts."""
    server_version: ClassVar[str]
    """The query for the server's version."""
    indexes_fields: ClassVar[bool] = True
    """`items_within` narrows by words of fields."""
    utc_now: ClassVar[str] = "CURRENT_TIMESTAMP"
    compares_tuples: ClassVar[bool] = True
    """``(a, b) > (x, y)`` is a condition, and an index answers it."""
    snapshot_isolation: ClassVar[str | None] = None
    """The isolation level in which all reads of a transaction see one moment."""
    vectors_may_be_bytes: ClassVar[bool] = False
    """Where the native type is not installed, vectors are stored as bytes."""
    compares_vectors: ClassVar[bool] = True
    """Distances are computed by the database, of its native type; otherwise here."""
    counts_vector_changes: ClassVar[bool] = False
    """Writers count the changes of a namespace's vectors, for a cache of them to know its age."""
    byte_literal: ClassVar[str]
    """One byte, ``-``, as SQL: Oracle reads an empty value as NULL."""
    list_bytes: ClassVar[int | None] = None
    """How long the value of `listed` may be; ``None`` for as long as anyone likes."""
    plans_for_values: ClassVar[bool] = False
    """A prepared statement may be planned again for the values of each execution."""

    driver_errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors of a driver that is also used without SQLAlchemy, which would wrap them."""

    def __str__(self) -> str:
        return self.name

    def in_transaction(self, raw: Any) -> bool:
        """Tell if a driver's connection is in a transaction, as the server last reported."""
        raise NotImplementedError

    def interrupt(self, raw: Any) -> None:
        """Let the statement that runs on a driver's connection fail soon, whoever waits for it."""

    def at_work(self, raw: Any) -> bool:
        """Tell if closing a driver's connection now would break the statement of another task."""
        return False

    def abandon(self, raw: Any) -> bool:
        """Close a driver's connection at once, without a farewell; its transaction is undone.

        Returns whether the driver can do that without waiting for an answer.
        """
        return False

    def upsert(
        self,
        table: Table,
        values: Mapping[str, Any],
        key: Sequence[str],
        set_: Mapping[str, Any],
        *,
        source: Select[Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        """INSERT *values* (or *source*); where *key* is taken, UPDATE *set_* if *where* holds.

        Callers build *set_* with `excluded` and the table's own columns.
        """
        raise NotImplementedError

    def arrays(self, prefix: str, columns: Mapping[str, Any]) -> FromClause:
        """Rows of *columns*, of the columns' types, bound as `array_binds` says."""
        raise NotImplementedError

    def array_binds(
        self, prefix: str, columns: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]
    ) -> dict[str, Any]:
        """What `arrays` binds for a list of values of each of *columns*, all of one length."""
        return {f"{prefix}_{name}": lists[name] for name in columns}

    def excluded(self, table: Table, column: str) -> ColumnElement[Any]:
        """The value that an upsert tried to insert; a construct for *set_*."""
        raise NotImplementedError

    def lock(
        self,
        table: Table,
        where: ColumnElement[bool],
        columns: Sequence[Any],
        *,
        skip_locked: bool = False,
    ) -> Executable:
        """Lock rows until the transaction ends, and return their *columns* as they are now.

        With *skip_locked* only those that nobody else has locked: nothing is waited for.
        """
        return select(*columns).where(where).with_for_update(of=table, skip_locked=skip_locked)

    def listed(self, parameter: str, columns: Sequence[str]) -> FromClause:
        """Rows of these columns, bound as `list_binds` says: all texts, but ``log_id`` a key."""
        raise NotImplementedError

    def list_binds(self, parameter: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The binds of `listed`: a JSON array of arrays, a UUID as its text."""
        return {parameter: orjson.dumps(rows, default=_uuid_text).decode()}

    def once(self, rows: Select[Any], name: str) -> CTE:
        """*rows* as a table that is made once, and not again for each row that it is joined to."""
        return rows.cte(name, nesting=True)

    def reached(self, first: CTE, rest: Select[Any], columns: Sequence[str]) -> CTE:
        """The rows of *first*, and what *rest* reaches from them, step by step; ends in a circle,
        too. *columns* are those of both.
        """
        return first.union(rest)

    def merging(self, rows: Select[Any]) -> Select[Any]:
        """*rows* to insert singly; what a text index has put off is merged before it is much."""
        return rows

    def unforeseen(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """*value* so that no plan depends on it, where the database `plans_for_values`."""
        return value

    def json_equals(self, table: Table, kind: str) -> ColumnElement[bool]:
        """Whether a key of ``table.meta`` has a value, a JSON value of *kind*.

        *kind* is ``text``, ``number``, ``true``, ``false``, ``null`` or ``container``; the binds
        are those of `json_parameters`. Numbers compare as numbers; true is not 1.
        """
        raise NotImplementedError

    def json_parameters(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        """What `json_equals` binds for *key* and *value*."""
        raise NotImplementedError

    def text_hits(self, below: bool = False) -> FromClause:
        """``term, log_id, seq`` of deltas that hold a term of ``:terms``.

        Those of logs in a namespace, with *below* also in those from it up to before ``k_beyond``.
        Binds ``k_tenant``, ``k_namespace``, and ``:log_scope`` as `log_scope` has it.
        """
        raise NotImplementedError

    def log_scope(self, tenant: str) -> Mapping[str, Any]:
        """The binds of `text_hits` beside terms and namespace."""
        return {}

    def item_hits(self, below: bool) -> FromClause:
        """``term``, and ``namespace, key, updated_at, expires_at`` of items that hold it.

        It may be ``term`` and ``row_at``, their `row_position`: an index has it without the item.
        The terms are those of ``:terms``, the items those within ``:scope``.
        """
        raise NotImplementedError

    def items_within(self, below: bool) -> FromClause:
        """``namespace, key`` of items within ``:scope``."""
        raise NotImplementedError

    def item_scope(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldWords]
    ) -> Mapping[str, Any]:
        """What ``:scope`` is bound to: a namespace, with *below* all under it too.

        And of those only the items that may have what *fields* ask for, where it `indexes_fields`.
        """
        raise NotImplementedError

    def text_terms(self, terms: Sequence[Sequence[str]]) -> Any:
        """The value to bind as ``:terms``: phrases of tokens, none of which is an operator."""
        raise NotImplementedError

    def purge_text_index(self, index: str) -> Executable | None:
        """Rid a text index of the words of rows that are gone, where deleting leaves them in it."""
        return None

    def json_readable(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        """1 if what is stored in a JSON column is an object, 0 if not."""
        return literal_column("1", Integer)

    def storage_faults(self, which: str) -> Executable | None:
        """What the database itself finds wrong with its ``pages`` or ``references``, as sentences.

        A row each, of one text; ``None`` where it has no such check, or not for an application.
        """
        return None

    def text_index_name(self, index: str, schema: str | None) -> str | None:
        """The name under which `text_index_state` looks for an index, if it can be looked for."""
        return None

    def text_index_state(self) -> Executable | None:
        """One row, of 1 if the index called ``:p_index`` is in use, else 0; none if it is gone."""
        return None

    def prove_text_index(self, index: str) -> Executable | None:
        """Compare all of a text index with its rows; fails as `Failure.CORRUPT`.

        Others cannot write meanwhile. What it compares is the database's business: where it is
        the structure alone, `text_unfindable` has the rest.
        """
        return None

    def text_unfindable(self, index: str) -> Executable | None:
        """``seq`` of rows of a log that the index does not find by what is in them; of the index
        of items, ``key`` of those of a namespace.

        From ``:p_low`` to ``:p_high``. Runs after `only_by_text_index`, in its transaction.
        """
        return None

    def only_by_text_index(self) -> Executable | None:
        """Keep the planner from finding rows without the index, until the transaction ends."""
        return None

    def rebuild_text_index(self, index: str) -> Sequence[Executable]:
        """Build a text index anew from its rows: a transaction, or one statement in autocommit."""
        return ()

    def text_index_advice(self, index: str, schema: str | None) -> str:
        """What somebody with more rights than the application's can do about a bad index."""
        return "rebuild it with the database's own means"

    def byte_length(self, value: ColumnElement[Any]) -> ColumnElement[int]:
        """The length of a text or of bytes, read without the value itself where that can be."""
        return func.octet_length(value)

    def leading_bytes(self, value: ColumnElement[Any], count: int) -> ColumnElement[bytes]:
        """The first bytes of bytes, read without the rest where that can be."""
        numbers = (literal_column(str(number), Integer) for number in (1, count))
        return func.substr(value, *numbers, type_=LargeBinary())

    def sizes(self, exact: bool) -> Executable | None:
        """``name, owner, kind, bytes`` of each table and index of the schema ``:p_schema``: as the
        database counts them, or, not *exact*, guessed from the rows. *kind* is table or index.
        """
        return None

    def counts_pages(self) -> Executable | None:
        """A number that is zero where `sizes` cannot be exact; ``None`` where it always can."""
        return None

    def maintenance(self, what: str) -> Executable | None:
        """A step of giving space back, where the database has it; see `memalchemy.space`."""
        return None

    def vacuum(self, table: Table, full: bool) -> Executable | None:
        """Free what is dead in one table; *full* also gives it back, and locks the table."""
        return None

    def shrink_commands(self, table: str, schema: str | None, full: bool) -> list[str]:
        """What the owner of a table has to run to free its space, as text."""
        return []

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        """What a driver's error means, by its code and never by its text, and that code."""
        raise NotImplementedError

    def migration_lock(self, connection: Connection, schema: str | None) -> None:
        """Wait until no other process migrates *schema*; held until the transaction ends."""
        raise NotImplementedError

    def has_vector_type(self, connection: Connection) -> bool:
        """Whether vectors can be a native type here; may install it, if the role may."""
        return True

    def adopt_vector_type(self, connection: Connection, schema: str | None) -> None:
        """Convert a vector column that was made as bytes, now that there is a native type."""

    def vector_storage(self) -> Executable | None:
        """The query for the type of the vector column of ``:p_schema``, where there are two."""
        return None

    def vector_in(self, name: str, native: bool) -> ColumnElement[Any]:
        """A bind for a vector; its value is made by `vector_parameter`."""
        return bindparam(name, type_=Vector())

    def vector_parameter(self, vector: bytes, native: bool) -> Any:
        """A vector of float32 as `vector_in` binds it."""
        return vectors.from_bytes(vector)

    def vector_out(self, vector: ColumnElement[Any], native: bool) -> ColumnElement[Any]:
        """A vector as something that the driver can read: bytes, text or a list of numbers."""
        return vector

    def row_position(self, table: Table) -> ColumnElement[int] | None:
        """A number that each row has and keeps, and by which every index of *table* ends."""
        return None

    def vector_distance(
        self, vector: ColumnElement[Any], name: str, metric: str
    ) -> ColumnElement[float]:
        """How far a native vector is from the one bound as *name*: ``cosine``, ``dot``, ``l2``.

        The distance of ``dot`` is the negative product. No index takes part.
        """
        raise NotImplementedError

    def vector_index_distance(
        self, vector: ColumnElement[Any], name: str, metric: str, dimensions: int
    ) -> ColumnElement[float] | None:
        """The same as the vector index of so many dimensions has it, which is near the truth."""
        return None

    def query_vector(self, vector: Any) -> Any:
        """What `vector_distance` and `vector_index_distance` bind for an array of float32."""
        raise NotImplementedError

    def only_by_vector_index(self) -> Executable | None:
        """Keep the planner from any other way until the transaction ends; binds what
        `vector_index_settings` gives.
        """
        return None

    def vector_index_settings(self, width: int) -> dict[str, str]:
        """What `only_by_vector_index` binds, to look at *width* candidates at once."""
        return {}

    def current_vector_settings(self) -> Executable | None:
        """What is set now, under the names that `only_by_vector_index` binds."""
        return None

    def build_vector_index(self, metric: str, dimensions: int) -> Executable | None:
        """Build a vector index beside readers and writers; not in a transaction."""
        return None

    def drop_vector_index(self, metric: str, dimensions: int) -> Executable | None:
        """Drop a vector index beside readers and writers; not in a transaction."""
        return None

    def vector_indexes(self) -> Executable | None:
        """``name, valid, building, bytes`` of the vector indexes of ``:p_schema``; flags are 0, 1.

        One that is neither valid nor being built is what an interrupted build leaves.
        """
        return None

    def vector_index_progress(self) -> Executable | None:
        """``done, total`` of a vector index of ``:p_schema`` while it is built."""
        return None

    def vector_index_commands(
        self, metric: str, dimensions: int, schema: str | None, *, drop: bool = False
    ) -> list[str]:
        """What the owner of the tables runs to build, or drop, a vector index."""
        return []

    def backup_command(self, url: URL, file: str, schema: str | None, tables: Sequence[str]) -> str:
        """The command of the database's own that backs memalchemy's *tables* up into *file*."""
        raise NotImplementedError

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        """The statements that give *role* all that an application needs, and no DDL."""
        prefix = f"{quoted(schema)}." if schema else ""
        return [
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {prefix}{table} TO {quoted(role)};"
            for table in tables
        ]


def _uuid_text(value: Any) -> str:
    """The text of a UUID of asyncpg's, a subclass that orjson does not write by itself."""
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a list is of texts and UUIDs, not of {type(value).__name__}")


def vector_index_name(metric: str, dimensions: int) -> str:
    """The name of the index of the vectors of so many dimensions, by one metric."""
    return f"ix_embeddings_hnsw_{int(dimensions)}_{metric}"


def quoted(name: str) -> str:
    """A name as SQL, quoted where it needs to be."""
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def original(error: BaseException) -> BaseException:
    """The driver's own error under SQLAlchemy's wrappers."""
    seen: BaseException = error
    while (inner := getattr(seen, "orig", None)) is not None:
        seen = inner
    return seen

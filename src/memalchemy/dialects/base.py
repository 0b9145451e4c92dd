"""The contract of a dialect: capabilities, connections, URLs, and four parts that build SQL.

A dialect is the one place where a database's difference from the others is spelt. Callers ask it
for a capability, never for its name. It builds constructs and reads driver errors; it executes
nothing except the few commands of a migration. The base classes hold what databases have in common,
so that a subclass overrides only what differs.

    Dialect       capability flags, questions about a driver's connection, URLs, column types
    Statements    upsert, lock, many rows in one statement, JSON conditions
    TextIndexes   finding rows by words, and examining and rebuilding what finds them
    Vectors       the column, distances, vector indexes
    Maintenance   migrations, sizes, giving space back, backup, roles
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

import orjson
from sqlalchemy import (
    CTE,
    BinaryExpression,
    BindParameter,
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
from sqlalchemy.sql.selectable import NamedFromClause

from memalchemy.codec import vectors
from memalchemy.codec.field_terms import FieldTerms
from memalchemy.codec.tokens import Term
from memalchemy.column_types import ColumnTypes, Vector
from memalchemy.dialects.namespace_range import Live
from memalchemy.dialects.urls import Target
from memalchemy.dialects.views import Views
from memalchemy.errors import CapabilityMissing
from memalchemy.schema import Base
from memalchemy.variants import CITUS, NO_UPSERT, ONE_STATEMENT

TEXT_INDEXES = {
    "deltas_search": "deltas",
    "checkpoints_meta": "checkpoints",
    "store_items_search": "store_items",
}
"""The indexes that find rows by words, or by metadata, and the table of each."""

LOCKS = "memalchemy_locks"
"""The execution option of a statement that changes nothing and is there for its locks."""

MAX_LISTED = 500
"""The number of rows that one bound list has at most."""


DISTRIBUTED_BY = {"threads": "log_id", "store_items": "namespace"}
"""The tables that others belong to by foreign key, and the column that spreads their rows."""

VERSION_TABLE = "memalchemy_version"
"""The table of one row with the revision of the schema, which is Alembic's."""


class Failure(enum.Enum):
    """The meaning of a driver's error for the caller."""

    DISCONNECTED = "disconnected"  # the connection is gone; whether the statement ran is unknown
    UNREACHABLE = "unreachable"  # no connection could be made
    BUSY = "busy"  # locked by others for longer than the timeout
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_PREPARED = "not prepared"  # the session has lost a prepared statement; nothing was executed
    READ_ONLY = "read only"  # a replica, or a server that was told to take no writes
    ROLLED_BACK = "rolled back"  # deadlock or serialisation: nothing happened, repeating is safe
    UNIQUE = "unique"
    MISSING_TABLE = "missing table"
    TENANT_NOT_SET = "tenant not set"  # the tenants are walled, and the transaction names none
    IN_USE = "in use"  # another task is using the connection; the driver sent nothing
    FULL = "full"
    DATE_STYLE = "date style"  # the driver cannot read times as the server writes them
    TEXT_INDEX = "text index"  # one is damaged, or set aside; the rows are not
    CORRUPT = "corrupt"
    OTHER = "other"


class Statements:
    """SQL for reading and writing rows.

    Attributes:
        has_arrays: many rows can be bound as arrays, see `rows_from_arrays`.
        compares_tuples: ``(a, b) > (x, y)`` is a condition, and an index answers it.
        max_list_bytes: the longest value that `rows_from_list` can be bound to; ``None`` is no
            limit.
        has_custom_plans: a prepared statement may be planned for the values of each execution.
    """

    has_arrays: ClassVar[bool] = False
    compares_tuples: ClassVar[bool] = True
    max_list_bytes: ClassVar[int | None] = None
    has_custom_plans: ClassVar[bool] = False

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

        Callers build *set_* with `excluded` and the table's own columns. Not called unless the
        dialect `upserts`.
        """
        raise NotImplementedError

    def excluded(self, table: Table, column: str) -> ColumnElement[Any]:
        """Return the value that an upsert tried to insert, for its *set_*.

        A second bind of a payload would be sent twice: Citus sends binds to a node as literals.
        """
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

        With *skip_locked* rows that somebody else has locked are left out and not waited for.
        """
        locking = select(*columns).where(where).with_for_update(of=table, skip_locked=skip_locked)
        return locking.execution_options(**{LOCKS: True})

    def rows_from_arrays(self, prefix: str, columns: Mapping[str, Any]) -> FromClause:
        """Return a table of many rows of *columns*, a mapping of names to types.

        It is bound to `array_binds`. Not called unless the dialect `has_arrays`.
        """
        raise NotImplementedError

    def array_binds(
        self, prefix: str, columns: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]
    ) -> dict[str, Any]:
        """Return the binds of `rows_from_arrays` for a list of each column's values."""
        return {f"{prefix}_{name}": lists[name] for name in columns}

    def rows_from_list(self, parameter: str, columns: Sequence[str]) -> FromClause:
        """Return a table of few rows: of texts, but a column ``log_id`` is the key of a log.

        It is bound to `list_binds`.
        """
        raise NotImplementedError

    def list_binds(self, parameter: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Return the binds of `rows_from_list`: a JSON array of arrays, a UUID as its text."""
        return {parameter: orjson.dumps(rows, default=_uuid_text).decode()}

    def list_batches(
        self, parameter: str, rows: Sequence[Sequence[Any]], most: int = MAX_LISTED
    ) -> Iterator[dict[str, Any]]:
        """Yield the binds of `rows_from_list` for all *rows*, in as many lists as they need.

        A list has *most* rows, or as many as `max_list_bytes` allows, and at least one.
        """
        start = 0
        while start < len(rows):
            some = rows[start : start + most]
            if self.max_list_bytes is not None:
                some = some[: _count_rows_that_fit(some, self.max_list_bytes)]
            yield self.list_binds(parameter, some)
            start += len(some)

    def materialized(self, rows: Select[Any], name: str) -> CTE:
        """Return *rows* as a CTE that is computed once, not for each row that it is joined to."""
        return rows.cte(name, nesting=True)

    def computed_first(self, rows: Select[Any], name: str) -> FromClause:
        """Return *rows* for a query that reads them alone, computed before what it is compared to.

        A database whose planner does so by itself needs no CTE.
        """
        return rows.subquery(name)

    def join_by_key(
        self, rows: FromClause, table: NamedFromClause, same: ColumnElement[bool]
    ) -> tuple[FromClause, FromClause]:
        """Return *rows* joined to the one row of *table* that is the *same*, and that row.

        *same* is a condition on the whole primary key.
        """
        return rows.join(table, same), table

    def recursive_union(self, first: CTE, rest: Select[Any], columns: Sequence[str]) -> CTE:
        """Return the recursive CTE of *first* and of what *rest* finds from it, step by step.

        It ends where the rows form a circle, too. *columns* are those of both.
        """
        return first.union(rest)

    def hide_from_planner(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return *value* in a form on which no plan depends, where it `has_custom_plans`."""
        return value

    def json_equals(self, table: Table, kind: str) -> ColumnElement[bool]:
        """Return the condition that a key of ``table.meta`` has a value of *kind*.

        *kind* is ``text``, ``number``, ``true``, ``false``, ``null`` or ``container``; or ``any``,
        for a key with any value, null included. Numbers compare as numbers, within containers too;
        true is not 1. Where JSON is text, it is as the engine's serialiser spells it, which is
        `json.dumps` unless the host says otherwise, with the keys of objects in order. The binds
        are those of `json_equals_binds`.
        """
        raise NotImplementedError

    def json_may_equal(self, table: Table, kind: str) -> ColumnElement[bool] | None:
        """Return a condition that an index answers, and that holds wherever `json_equals` does.

        ``None`` where there is no such index, or `json_equals` uses it itself.
        """
        return None

    def json_equals_binds(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        """Return the binds of `json_equals` for *key* and *value*, some of `MATCH_BINDS`."""
        raise NotImplementedError

    def json_is(self, value: BinaryExpression[Any], kind: str) -> ColumnElement[bool] | None:
        """Return the condition that the value of a key is of *kind*.

        *kind* is ``text``, ``number`` or ``boolean``. ``None`` where SQLAlchemy does not look into
        JSON.
        """
        return None

    def keys_with_value(self, table: Table, value: BindParameter[str]) -> Select[Any] | None:
        """Select the distinct ``key`` of ``table.meta`` that have the text or number *value*.

        Of metadata that is no object there are none. ``None`` where keys cannot be listed.
        """
        return None

    def json_is_object(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        """Return 1 if a JSON column holds an object, 0 if it holds anything else."""
        return literal_column("1", Integer)

    def byte_length(self, value: ColumnElement[Any]) -> ColumnElement[int]:
        """Return the length of a text or of bytes, if possible without reading the value."""
        return func.octet_length(value)

    def leading_bytes(self, value: ColumnElement[Any], count: int) -> ColumnElement[bytes]:
        """Return the first bytes of bytes, if possible without reading the rest."""
        numbers = (literal_column(str(number), Integer) for number in (1, count))
        return func.substr(value, *numbers, type_=LargeBinary())

    def rowid(self, table: Table) -> ColumnElement[int] | None:
        """Return a number that each row keeps and by which every index ends, if there is one."""
        return None

    def is_as_seen(self, table: Table, key: ColumnElement[bool]) -> ColumnElement[bool]:
        """Return the condition that the row with *key* was not written since the statement began.

        The statement's other parts see the row as it was then. Not called without
        ``single_statement_save``.
        """
        raise NotImplementedError


class TextIndexes:
    """Finding rows by words and metadata, and examining the indexes that find them.

    The words of a row are in the column ``search_text``, with one space between them. Letters of
    ASCII are as they were written, and match in either case; all others are folded. A term is a
    phrase of one word or more, of which those of ASCII are in lower case.

    An index is named as in `TEXT_INDEXES`; a database need not have it. ``:terms`` is bound to
    `terms`.

    Attributes:
        indexes_fields: `items_in_scope` uses the words of an item's fields.
        sees_uncommitted: a search finds rows that its own transaction has written.
        finds_last_stored: the rows with a word that were stored last are found without visiting
            the others; see `last_stored`.
    """

    indexes_fields: ClassVar[bool] = True
    sees_uncommitted: ClassVar[bool] = True
    finds_last_stored: ClassVar[bool] = False

    def term(self, term: Term) -> str:
        """Return what finds a term in the index; nothing in it is an operator."""
        raise NotImplementedError

    def terms(self, terms: Sequence[Term]) -> Any:
        """Return the value of ``:terms``: a list of what `term` returns."""
        return orjson.dumps(list(map(self.term, terms))).decode()

    def log_hits(self, below: bool = False) -> FromClause:
        """Return ``term, log_id, seq`` of the deltas that hold a term of ``:terms``.

        Those of logs in a namespace, with *below* also under it. The binds are ``terms`` and those
        of `namespace_binds` and `log_scope_binds`.
        """
        raise NotImplementedError

    def last_stored(self, below: bool, live: Live) -> FromClause:
        """Return `log_hits` of one term, of the ``p_window`` rows with it that were stored last.

        Or of the ``p_window`` newest checkpoints with it; of none, if it does not find these.
        *live* returns the condition on their logs. Further binds are ``p_limit`` and ``p_offset``.
        """
        raise NotImplementedError

    def are_newest_checkpoints(self, below: bool) -> ColumnElement[int]:
        """Return 1 if no newer checkpoints than those in ``best`` hold the term, otherwise 0.

        ``best`` has the ``created_at`` of the newest ``p_limit`` of ``hits``, as `last_stored` has
        them. Where it is not known the answer is 0.
        """
        raise NotImplementedError

    def log_scope_binds(self, tenant: str) -> Mapping[str, Any]:
        """Return the binds of `log_hits` beside terms and namespace."""
        return {}

    def item_hits(self, below: bool, columns: Sequence[ColumnElement[Any]]) -> FromClause:
        """Return ``term`` and *columns*, of the table of items, of the items that hold a term.

        Where an index has `Statements.rowid` without reading the item, it is ``term, row_at``. The
        binds are ``terms`` and those of `namespace_binds` and `item_scope_binds`.
        """
        raise NotImplementedError

    def items_in_scope(self, below: bool) -> FromClause:
        """Return ``namespace, key, updated_at`` of the items that `item_scope_binds` describes.

        Those of `namespace_binds` are bound, too.
        """
        raise NotImplementedError

    def item_scope_binds(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldTerms]
    ) -> Mapping[str, Any]:
        """Return the binds for the items of a namespace, with *below* all under it too.

        Where it `indexes_fields`, only items that may have the values that *fields* ask for.
        """
        raise NotImplementedError

    def has_fields(self, items: Any, query: ColumnElement[str]) -> ColumnElement[bool]:
        """Return the condition that *items*, the table or an alias, have the words of a query.

        *query* is what `field_query` returns. Not called unless it `indexes_fields`.
        """
        raise NotImplementedError

    def field_query(self, field: FieldTerms) -> str:
        """Return the query of the index for the items whose field may have a wanted value."""
        raise NotImplementedError

    def purge(self, index: str) -> Executable | None:
        """Remove the words of deleted rows from an index, where deleting leaves them in it."""
        return None

    def index_name(self, index: str, schema: str | None) -> str | None:
        """Return the name for ``:p_index`` of `index_state`, if the state can be asked for."""
        return None

    def index_state(self) -> Executable | None:
        """Query 1 if the index called ``:p_index`` is in use, else 0; no row if it is gone."""
        return None

    def check_integrity(self, index: str) -> Sequence[Executable]:
        """Compare an index with its rows, or its structure alone; a damaged one is an error.

        Others cannot write meanwhile. Where it is the structure alone, `unindexed_rows` finds what
        is missing.
        """
        return ()

    def unindexed_rows(self, index: str) -> Executable | None:
        """Query the rows of a log that an index does not find by their own words, as ``seq``.

        For the index of items, these are the items of a namespace, as ``key``. From ``:p_low`` to
        ``:p_high``, after `force_index` in the same transaction.
        """
        return None

    def force_index(self) -> Executable | None:
        """Keep the planner from finding rows without the index until the transaction ends."""
        return None

    def rebuild(self, index: str) -> Sequence[Executable]:
        """Build an index anew from its rows: in a transaction, or one statement outside of any."""
        return ()

    def may_have_raised(self, error: BaseException | None) -> bool:
        """Return whether a driver's *error* may come of a damaged index, which it does not name."""
        return False

    def set_aside_damaged(self, connection: Connection, *, some_is: bool) -> Sequence[str]:
        """Set damaged indexes aside, so that rows can be written; return their names.

        Where a damaged index stops writes. With *some_is* one of them is damaged, whether or not
        its own check says so.
        """
        return ()

    def is_aside(self, index: str) -> Executable | None:
        """Query one row if an index has been set aside, where that can be."""
        return None

    def repair_advice(self, index: str, schema: str | None) -> str:
        """Return what somebody with more rights than the application can do about a bad index."""
        return "rebuild it with the database's own means"


class Vectors:
    """The column of vectors, the distances between them, and their indexes.

    ``native`` says whether the column has the database's own type for vectors; otherwise it is
    bytes of float32. A *metric* is ``cosine``, ``dot`` or ``l2``; the distance of ``dot`` is the
    negative product.

    Attributes:
        install_commands: the commands that make the native type available, for scripts.
        may_be_bytes: the column is bytes where the native type is not installed.
        computes_distances: the database computes distances of its native type; otherwise they are
            computed in this process.
        counts_changes: writers count the changes of a namespace's vectors, so that a cache of them
            knows its age.
    """

    install_commands: ClassVar[tuple[str, ...]] = ()
    may_be_bytes: ClassVar[bool] = False
    computes_distances: ClassVar[bool] = True
    counts_changes: ClassVar[bool] = False

    def ensure_type(self, connection: Connection) -> bool:
        """Return whether vectors can have a native type here; install it if the role may."""
        return True

    def convert_bytes(self, connection: Connection, schema: str | None) -> bool:
        """Convert a column that was made as bytes, now that there is a native type.

        Returns whether there was one.
        """
        return False

    def is_native(self, connection: Connection, schema: str | None) -> bool | None:
        """Return whether the column has the native type, where it may be bytes.

        ``None`` where there is only one type, and without a table.
        """
        return None

    def column_type(self) -> Executable | None:
        """Query the type of the column in ``:p_schema``, where there are two."""
        return None

    def bind(self, name: str, native: bool) -> ColumnElement[Any]:
        """Return a bind for a vector to store; its value is made by `bind_value`."""
        return bindparam(name, type_=Vector())

    def bind_value(self, vector: bytes, native: bool) -> Any:
        """Return a vector of float32 as `bind` takes it."""
        return vectors.from_bytes(vector)

    def readable(self, vector: ColumnElement[Any], native: bool) -> ColumnElement[Any]:
        """Return a vector in a form that the driver reads: bytes, text or a list of numbers."""
        return vector

    def distance(self, vector: ColumnElement[Any], name: str, metric: str) -> ColumnElement[float]:
        """Return the distance of a native vector from the one bound as *name*, without an index."""
        raise NotImplementedError

    def index_distance(
        self, vector: ColumnElement[Any], name: str, metric: str, dimensions: int
    ) -> ColumnElement[float] | None:
        """Return the distance as the index of so many dimensions has it, which is an estimate."""
        return None

    def query_value(self, vector: Any) -> Any:
        """Return an array of float32 as `distance` and `index_distance` take it."""
        raise NotImplementedError

    def force_index(self) -> Executable | None:
        """Keep the planner from any way but the index until the transaction ends.

        The binds are those of `index_settings`.
        """
        return None

    def index_settings(self, width: int) -> dict[str, str]:
        """Return the binds of `force_index`, for *width* candidates at once."""
        return {}

    def current_settings(self) -> Executable | None:
        """Query the settings of the moment, under the names that `force_index` binds."""
        return None

    def build_index(self, metric: str, dimensions: int) -> Executable | None:
        """Build an index beside readers and writers; not in a transaction."""
        return None

    def drop_index(self, metric: str, dimensions: int) -> Executable | None:
        """Drop an index beside readers and writers; not in a transaction."""
        return None

    def list_indexes(self) -> Executable | None:
        """Query ``name, valid, building, bytes`` of the indexes in ``:p_schema``; flags are 0, 1.

        An index that is neither valid nor being built is left of an interrupted build.
        """
        return None

    def build_progress(self) -> Executable | None:
        """Query ``done, total`` of an index in ``:p_schema`` while it is built."""
        return None

    def index_commands(
        self, metric: str, dimensions: int, schema: str | None, *, drop: bool = False
    ) -> list[str]:
        """Return the commands with which the owner of the tables builds or drops an index."""
        return []


class Maintenance:
    """Migrations, sizes, giving space back, backup and roles.

    Attributes:
        server_version: the query for the server's version.
        utc_now: the current time as SQL, as a column of times stores it.
        takes_writes: a condition that holds where the session may write; ``None``: it always does.
        byte_literal: the one byte ``-`` as SQL: Oracle reads an empty value as NULL.
    """

    server_version: ClassVar[str]
    utc_now: ClassVar[str] = "CURRENT_TIMESTAMP"
    takes_writes: ClassVar[str | None] = None
    byte_literal: ClassVar[str]

    def lock_migrations(self, connection: Connection, schema: str | None) -> None:
        """Wait until no other process migrates *schema*; held until the transaction ends."""
        raise NotImplementedError

    def lock_commands(self, schema: str | None, names: Sequence[str]) -> list[str]:
        """Return the commands that lock tables and views, all of *names* or none, for DDL on them.

        They wait until nobody uses these, and let others go on if that takes long. The locks are
        held until the transaction ends. None where DDL takes no locks that others could wait for.
        """
        return []

    def refuse_unusable(self, connection: Connection, schema: str | None) -> None:
        """Check that nothing about the server keeps the tables from being used as they are.

        Raises:
            MemalchemyError: something does; the message names the cure.
        """

    def schema_of_visible_table(self, connection: Connection, table: str) -> str | None:
        """Return the schema in which *table* is found by its name alone, if it is found."""
        return connection.dialect.default_schema_name

    def create_extras(self, revision: str, operations: Any, schema: str | None) -> bool:
        """Create what belongs to this database alone: text indexes, triggers, storage options.

        Called by a *revision* of the schema when its tables and indexes are there; *operations* is
        Alembic's ``op``. Return ``False`` to leave it to the revision, which has the extras of
        SQLite, PostgreSQL and Oracle, and none for any other database below SQLAlchemy.
        """
        return False

    def drop_extras(self, revision: str, operations: Any, schema: str | None) -> bool:
        """Drop what `create_extras` made and what does not go with the tables; see there."""
        return False

    def storage_faults(self, which: str) -> Executable | None:
        """Query what the database finds wrong with its ``pages`` or ``references``: a text a row.

        ``None`` where it has no such check, or none for an application.
        """
        return None

    def sizes(self, exact: bool) -> Executable | None:
        """Query ``name, owner, kind, bytes`` of each table and index in ``:p_schema``.

        *kind* is ``table`` or ``index``. The bytes are those that the database counts, or, not
        *exact*, an estimate from the rows.
        """
        return None

    def counts_pages(self) -> Executable | None:
        """Query a number that is zero where `sizes` cannot be exact; ``None``: it always can."""
        return None

    def step(self, what: str) -> Executable | None:
        """Return a step of giving space back, where the database has it.

        Of a file: ``pages`` queries ``page_count, freelist_count, page_size, auto_vacuum``;
        ``incremental`` and ``whole`` rewrite it, ``give`` gives a few free pages back, and
        ``patience`` and ``log`` empty its log. Of a text index in it, ``start`` and ``merge``, a
        space and its name, merge a part of it, and ``changes`` counts what that has changed.

        Of a server: ``tables`` queries ``name, live, dead, bytes, owned`` of each table in
        ``:p_schema``, and `vacuum` does the rest.
        """
        return None

    def vacuum(self, table: Table, full: bool) -> Executable | None:
        """Free the dead rows of a table; *full* also gives the space back, and locks the table."""
        return None

    def shrink_commands(self, table: str, schema: str | None, full: bool) -> list[str]:
        """Return the commands with which the owner of a table frees its space."""
        return []

    def backup_command(self, url: URL, file: str, schema: str | None, tables: Sequence[str]) -> str:
        """Return the command of the database's own tool that backs *tables* up into *file*."""
        raise CapabilityMissing("memalchemy knows no command that backs this database up")

    def restore_command(self, url: URL, file: str) -> str:
        """Return the command that restores what `backup_command` has written into *file*."""
        raise CapabilityMissing("memalchemy knows no command that restores this database")

    def grants(self, role: str, schema: str | None, tables: Sequence[str]) -> list[str]:
        """Return the statements that give *role* all that an application needs, and no DDL.

        Of *tables* that have no rows of memalchemy's, as Alembic's version table, it may only read.
        """
        prefix = f"{quoted(schema)}." if schema else ""
        return [
            f"GRANT {rights} ON {prefix}{table} TO {quoted(role)};"
            for table in tables
            for rights in (
                "SELECT, INSERT, UPDATE, DELETE" if table in Base.metadata.tables else "SELECT",
            )
        ]

    def distribution_commands(self, schema: str | None, parts: int | None) -> list[str]:
        """Return the statements that spread the tables over *parts* shards or partitions.

        Rows of a log stay together by ``log_id``, items and their vectors by ``namespace``.
        """
        raise CapabilityMissing("this database does not spread tables over shards or partitions")


class RowLevelSecurity:
    """Row-level security that shows a transaction the rows of the tenant that it has set."""

    STATE: ClassVar[tuple[str, ...]] = (
        "role",
        "tables",
        "enforced",
        "active",
        "administered",
        "closed",
        "shut",
        "others",
        "leaky",
        "superuser",
    )
    """The columns of `state_query`: the current role; the number of all tables; the numbers of
    those with row-level security between tenants, of those where it holds for the role, of those
    where the role administers all tenants, of those with row-level security but no policy for
    tenants, of these of which the role sees no rows, and of those with other policies; the number
    of functions for which text indexes are not used; 1 if the role is a superuser.
    """

    def set_tenant(self, scope: str) -> Executable:
        """Query that sets the tenant ``:p_tenant`` of the ``transaction`` or the ``session``."""
        raise NotImplementedError

    def state_query(self, tables: Sequence[str]) -> Executable:
        """Query `STATE` of *tables* in ``:p_schema``, for the current role."""
        raise NotImplementedError

    def enforce(
        self, schema: str | None, tables: Sequence[str], admins: Sequence[str]
    ) -> list[str]:
        """Return the statements for the owner that separate the tenants of *tables*.

        They are safe to repeat. Roles of *admins*, and their members, reach all tenants; those of
        an earlier call are replaced.
        """
        raise NotImplementedError

    def release(self, schema: str | None, tables: Sequence[str], *, disable: bool) -> list[str]:
        """Return the statements for the owner that undo `enforce`.

        Without *disable* row-level security stays on, for policies of somebody else's.
        """
        raise NotImplementedError

    def restore_command(self, file: str) -> str:
        """Return the shell command that restores a dump *file* of such tables with their policies.

        The URL of the new database is in ``$NEW_URL``.
        """
        raise NotImplementedError

    def mark_leakproof(self) -> list[str]:
        """Return the statements for a superuser after which text searches use their indexes."""
        raise NotImplementedError


class Cluster:
    """Spreading the tables over the nodes of a cluster, while the database runs."""

    def read(self, connection: Connection, schema: str | None) -> Distribution | None:
        """Return how the tables are spread; ``None`` if the database is on no cluster. Reads only.

        Any role may ask.
        """
        raise NotImplementedError

    def begin(self, connection: Connection, schema: str | None) -> None:
        """Lock the tables against writers, and prepare the transaction of `spread_commands`."""
        raise NotImplementedError

    def spread_commands(
        self, schema: str | None, parts: int | None, tables: Collection[str]
    ) -> dict[str, str]:
        """Return the statement that spreads each of *tables*, with its rows, in their order.

        Each of the two groups has *parts* shards, where its first table is among *tables*.
        """
        raise NotImplementedError

    def obstacles(self, connection: Connection, schema: str | None) -> list[str]:
        """Return sentences about what keeps the tables from being spread, or hides rows."""
        raise NotImplementedError

    def drop_old_copies(self, connection: Connection, schema: str | None) -> None:
        """Give back what the rows took where they were. Not called unless all are spread."""
        raise NotImplementedError


class Dialect:
    """A database: its capabilities, its connections, its URLs, and four parts that build SQL.

    Attributes:
        name: the name in URLs and of the entry point.
        sqlalchemy_name: the name of the SQLAlchemy dialect beneath. Several dialects may stand on
            one; they have the same column types and may use each other's connections.
        single_writer: one writer at a time for the whole database, which is a SQLite file or in
            memory; memalchemy brings its own writer, with group commit.
        variants: those that the database takes, of `memalchemy.variants` or of a third party's; the
            first of them that has a function or statement of its own decides.
        has_to_learn: capabilities depend on the server, which is not known yet; see `learn`.
        autocommits: autocommit costs no round trip of its own.
        transactional_ddl: a transaction can undo DDL.
        dynamic_types: a column holds values of any type, so the types of cells are checked.
        snapshot_isolation: the isolation level in which all reads of a transaction see one moment.
        unknown_commits: the codes of errors of a COMMIT after which it may be committed or not.
        driver_errors: the errors of a driver that is also used without SQLAlchemy, which would
            wrap them.
        connect_options: arguments of the driver's ``connect`` that `Database` takes by name.
        advice: sentences on what to do about errors, by the code that `classify` returns.
        column_types: the types in which the database stores the columns of the schema.
        row_level_security: policies between tenants, where the database has it.
        views: the SQL of the views that people ask for.
        cluster: spreading the tables over nodes, where the database may be on a cluster.
    """

    name: ClassVar[str]
    sqlalchemy_name: ClassVar[str]

    single_writer: ClassVar[bool] = False
    variants: tuple[str, ...] = ()
    has_to_learn: bool = False
    autocommits: ClassVar[bool] = True
    transactional_ddl: ClassVar[bool] = True
    dynamic_types: ClassVar[bool] = False
    snapshot_isolation: ClassVar[str | None] = None
    unknown_commits: frozenset[str] = frozenset()
    driver_errors: ClassVar[tuple[type[Exception], ...]] = ()
    connect_options: ClassVar[tuple[str, ...]] = ()
    advice: ClassVar[Mapping[str, str]] = {}

    column_types: ColumnTypes = ColumnTypes()
    statements: Statements
    text: TextIndexes
    vectors: Vectors
    maintenance: Maintenance
    row_level_security: RowLevelSecurity | None = None
    views: Views = Views()
    cluster: Cluster | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def single_statement_save(self) -> bool:
        """True if a save is one statement of data-modifying CTEs."""
        return ONE_STATEMENT in self.variants

    @property
    def groups_saves(self) -> bool:
        """True if many saves can be one statement, their rows sent as arrays."""
        return ONE_STATEMENT in self.variants

    @property
    def upserts(self) -> bool:
        """True if there is an upsert; without one it is update, insert, and once more."""
        return NO_UPSERT not in self.variants

    @property
    def distributed(self) -> bool:
        """True if the rows are spread over the nodes of a cluster."""
        return CITUS in self.variants

    def for_database(self) -> Dialect:
        """Return the dialect of one database: of its own, if `learn` may change it."""
        return self

    def learn(self, connection: Connection, schema: str | None) -> None:
        """Find out what the server of a database is, and take its capabilities and parts.

        Called before the first program of a database while it `has_to_learn`, on a connection of
        memalchemy's or of the host's. What changes is this object, which the programs that wait
        have already been given; it changes once, so no program sees it change while it runs.
        """

    def read_url(self, url: URL, driver: str) -> Target:
        """Read a URL of this database; *driver* is the one that it names, or empty.

        Raises:
            UnknownURL: the URL cannot be used; the message repeats no secret.
            DriverMissing: the Python driver is not installed.
        """
        raise NotImplementedError

    def engine_options(
        self,
        target: Target,
        *,
        pgbouncer: bool,
        connect_timeout: float,
        statement_timeout: float | None,
    ) -> dict[str, Any]:
        """Return the options of `create_async_engine` for a driver, ``connect_args`` among them."""
        return {"connect_args": dict(target.connect_args)}

    def read_only_options(
        self, options: dict[str, Any], target: Target, *, pgbouncer: bool
    ) -> dict[str, Any]:
        """Return *options* of `engine_options` with those under which the server takes no writes.

        Memalchemy refuses writes itself before it sends them; the server is the second to refuse.
        """
        return options

    def on_connect(self, connection: Any) -> None:
        """Set what a new connection of an engine of memalchemy's own needs."""

    def in_transaction(self, raw: Any) -> bool:
        """Return whether a driver's connection is in a transaction, as the server last reported."""
        raise NotImplementedError

    def at_work(self, raw: Any) -> bool:
        """Return whether closing a driver's connection now would break another task's statement."""
        return False

    def is_lost(self, raw: Any, error: BaseException) -> bool:
        """Return whether *error* of a driver's connection says that the connection is lost."""
        return False

    def has_said_farewell(self, raw: Any) -> bool:
        """Return whether the server has ended a driver's idle connection, unnoticed by the driver.

        Nothing is sent, and nobody is waited for. `False` where it cannot be known.
        """
        return False

    def interrupt(self, raw: Any) -> None:
        """Let the statement that runs on a driver's connection fail soon, whoever waits for it."""

    def abandon(self, raw: Any) -> bool:
        """Close a driver's connection at once, without a farewell; its transaction is undone.

        Return whether the driver can do that without waiting for an answer.
        """
        return False

    def close_without_loop(self, raw: Any, *, is_over: bool) -> None:
        """Close a driver's connection whose event loop is closed (*is_over*) or does not run.

        It does not wait.
        """

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        """Return the meaning of a driver's error, by its code and not its text, and the code."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class DistributedTable:
    """A table on a cluster.

    Attributes:
        name: its name.
        column: the column by which its rows are spread; ``None`` if they are not.
        shards: the number of shards; 0 if the table is on the coordinator alone.
        nodes: the number of nodes that have its shards.
        group: a number that tables have in common whose shards stay together; ``None`` without
            shards.
        is_replicated: every node has the whole table.
        old_bytes: bytes of rows that were left where they were before they were spread.
    """

    name: str
    column: str | None = None
    shards: int = 0
    nodes: int = 0
    group: int | None = None
    is_replicated: bool = False
    old_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Distribution:
    """The tables of memalchemy on a cluster, as the cluster's catalogue tells.

    Attributes:
        software: what makes the database a cluster, with its version.
        is_coordinator: the node that was asked coordinates the cluster; schema changes go there.
        nodes: the number of nodes that take shards.
        tables: the tables of memalchemy, those that are not spread included.
    """

    software: str
    is_coordinator: bool
    nodes: int
    tables: tuple[DistributedTable, ...]

    @property
    def is_begun(self) -> bool:
        """True if a table is spread, or is on every node."""
        return any(table.shards for table in self.tables)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the tables that are not spread, and of the version table if it is not copied."""
        return tuple(table.name for table in self.tables if not table.shards)

    @property
    def misplaced(self) -> tuple[str, ...]:
        """Sentences about tables that are spread in another way than this release does it."""
        there = {table.name: table for table in self.tables if table.shards}
        wrong: list[str] = []
        version = there.pop(VERSION_TABLE, None)
        if version is not None and not version.is_replicated:
            wrong.append(f"{VERSION_TABLE} is spread, and every node needs a copy")
        for table, root, column in placement():
            found, beside = there.get(table.name), there.get(root.name)
            if found is None:
                continue
            if found.is_replicated:
                wrong.append(f"{found.name} is copied to every node, and not spread by {column}")
            elif found.column != column:
                wrong.append(
                    f"{found.name} is spread by {found.column or 'no column'}, not {column}"
                )
            elif beside is not None and beside.group != found.group:
                wrong.append(f"the shards of {found.name} do not stay with those of {root.name}")
        return tuple(wrong)

    @property
    def is_whole(self) -> bool:
        """True if every table is spread as this release does it."""
        return not self.missing and not self.misplaced

    @property
    def is_usable(self) -> bool:
        """True if this release works with it: the tables are spread as it does it, or none is.

        The version table need not be: it is read where it is.
        """
        missing = {*self.missing} - {VERSION_TABLE}
        return not self.misplaced and len(missing) in (0, len(Base.metadata.tables))

    @property
    def old_bytes(self) -> int:
        """Bytes of rows that were left where they were before they were spread."""
        return sum(table.old_bytes for table in self.tables)


def placement() -> list[tuple[Table, Table, str]]:
    """Return each table with the one it stays with and the column that both are spread by.

    A table of `DISTRIBUTED_BY` stays with itself. Referred tables come before those that refer to
    them.
    """
    placed: list[tuple[Table, Table, str]] = []
    for table in Base.metadata.sorted_tables:
        root = table
        while root.name not in DISTRIBUTED_BY:
            (foreign,) = root.foreign_key_constraints
            root = foreign.referred_table
        placed.append((table, root, DISTRIBUTED_BY[root.name]))
    return placed


def _uuid_text(value: Any) -> str:
    """Return the text of a UUID of asyncpg's, a subclass that orjson does not write itself."""
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a list is of texts and UUIDs, not of {type(value).__name__}")


def vector_index_name(metric: str, dimensions: int) -> str:
    """Return the name of the index of the vectors of so many dimensions, by one metric."""
    return f"ix_embeddings_hnsw_{int(dimensions)}_{metric}"


def quoted(name: str) -> str:
    """Return a name as SQL, quoted where it needs to be."""
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def original(error: BaseException) -> BaseException:
    """Return the driver's own error under SQLAlchemy's wrappers."""
    seen: BaseException = error
    while (inner := getattr(seen, "orig", None)) is not None:
        seen = inner
    return seen


def _count_rows_that_fit(rows: Sequence[Sequence[Any]], room: int) -> int:
    """Return how many of the first rows one JSON value takes; one, however long it is."""
    for at, row in enumerate(rows):
        room -= len(orjson.dumps(row, default=_uuid_text)) + 1
        if room < 0 and at:
            return at
    return len(rows)

"""Oracle AI Database 26ai: no upsert statement, JSON merge patches, Oracle Text, DBMS_LOCK.

Compiled and driver-checked, not yet run on a server: none is to be had where this is built. Tables
may be partitioned by hash.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, ClassVar

import orjson
from sqlalchemy import (
    CTE,
    JSON,
    Column,
    ColumnElement,
    Connection,
    Executable,
    Float,
    FromClause,
    Index,
    Insert,
    Integer,
    LargeBinary,
    Select,
    Table,
    Text,
    UniqueConstraint,
    and_,
    bindparam,
    column,
    create_mock_engine,
    event,
    func,
    literal_column,
    not_,
    select,
    text,
)
from sqlalchemy.dialects import oracle  # noqa: TID251
from sqlalchemy.engine import URL
from sqlalchemy.schema import CreateIndex

from memalchemy.codec import vectors
from memalchemy.codec.field_terms import FieldTerms
from memalchemy.codec.tokens import Term
from memalchemy.column_types import (
    ColumnTypes,
    LogKey,
    Storage,
    Vector,
    json_object,
    sorted_json,
    utc,
    uuid_bytes,
    uuid_of_bytes,
    vector_bytes,
    vector_floats,
)
from memalchemy.dialects.base import (
    LOCKS,
    Dialect,
    Failure,
    Maintenance,
    Statements,
    TextIndexes,
    Vectors,
    original,
    placement,
    quoted,
    vector_index_name,
)
from memalchemy.dialects.namespace_range import in_namespace
from memalchemy.dialects.urls import (
    ORACLE_OPTIONS,
    Target,
    display,
    flag,
    is_secret,
    refuse_unknown_parameters,
    require_driver,
    single_value,
)
from memalchemy.dialects.views import OracleViews, Views
from memalchemy.errors import CapabilityMissing, TooLarge, UnknownURL
from memalchemy.schema import Base, DeltaRow, StoreItemRow, ThreadRow
from memalchemy.variants import NO_UPSERT

MAX_TEXT_BIND = 4000
"""Bytes: a longer text is bound as a LONG, which only an INSERT or UPDATE of a column takes."""

# --- Column types --------------------------------------------------------------------------------


class OracleColumnTypes(ColumnTypes):
    """Columns in Oracle's own types.

    Its DATE ends at seconds and its driver drops time zones, so a time is a naive TIMESTAMP.
    """

    def log_key(self) -> Storage:
        return Storage(oracle.RAW(16), uuid_bytes, uuid_of_bytes)

    def time(self) -> Storage:
        return Storage(oracle.TIMESTAMP(), _to_naive_utc, _to_aware_utc)

    def json(self) -> Storage:
        return Storage(JSON(), sorted_json, _object_without_decimals)

    def vector(self) -> Storage:
        # Looked up here, because SQLAlchemy has it since 2.1.
        float32 = oracle.VectorStorageFormat.FLOAT32
        native = oracle.VECTOR(storage_format=float32)  # type: ignore[no-untyped-call]
        return Storage(native, _vector_array, vector_floats)


def _to_naive_utc(value: datetime | None) -> datetime | None:
    return None if value is None else utc(value).replace(tzinfo=None)


def _to_aware_utc(stored: datetime | None) -> datetime | None:
    return None if stored is None else stored.replace(tzinfo=UTC)


def _vector_array(value: Any) -> Any:
    # The driver takes an array, never a list.
    stored = vector_bytes(value)
    return None if stored is None else vectors.from_bytes(stored)


def _object_without_decimals(value: Any) -> Any:
    return json_object(_without_decimals(value))


def _without_decimals(value: Any) -> Any:
    if isinstance(value, Decimal):
        # Whole numbers of over 64 bits were floats: `metadata.check_metadata` refuses such ints.
        whole = value == value.to_integral_value() and -(2**63) <= value < 2**63
        return int(value) if whole else float(value)
    if isinstance(value, dict):
        return {key: _without_decimals(item) for key, item in value.items()}
    return [_without_decimals(item) for item in value] if isinstance(value, list) else value


# --- Statements ----------------------------------------------------------------------------------


class OracleStatements(Statements):
    """Row locks, JSON_TABLE, and conditions on metadata by merge patches."""

    compares_tuples: ClassVar[bool] = False
    max_list_bytes: ClassVar[int | None] = MAX_TEXT_BIND - len("[]")

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
        # MERGE with a bytes bind over 32 KB is ORA-01461, and it still races to ORA-00001.
        raise AssertionError("on Oracle callers update, insert and retry: see NO_UPSERT")

    def lock(
        self,
        table: Table,
        where: ColumnElement[bool],
        columns: Sequence[Any],
        *,
        skip_locked: bool = False,
    ) -> Executable:
        # OF takes columns here, and one table needs none.
        locking = select(*columns).where(where).with_for_update(skip_locked=skip_locked)
        return locking.execution_options(**{LOCKS: True})

    def rows_from_list(self, parameter: str, columns: Sequence[str]) -> FromClause:
        fields = ", ".join(
            f"{name} VARCHAR2(4000) PATH '$[{at}]'" for at, name in enumerate(columns)
        )
        names = ", ".join(
            "HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id"
            if name == "log_id"
            else f"each_.{name}"
            for name in columns
        )
        rows = text(
            f"SELECT {names} FROM JSON_TABLE(:{parameter}, '$[*]' COLUMNS ({fields})) each_"  # noqa: S608
        ).bindparams(bindparam(parameter, type_=Text))
        made = (column(name, LogKey if name == "log_id" else None) for name in columns)
        return rows.columns(*made).subquery("listed")

    def recursive_union(self, first: CTE, rest: Select[Any], columns: Sequence[str]) -> CTE:
        # A recursion is UNION ALL here, and what goes round has to be told.
        end = f"CYCLE {', '.join(columns)} SET goes_round TO '1' DEFAULT '0'"
        return first.union_all(rest).suffix_with(end)

    def json_equals(self, owner: Table, kind: str) -> ColumnElement[bool]:
        # A JSON path is a literal and a key is data, so no path. Merging {key: value} into the
        # metadata changes nothing exactly when it is there; an object is merged with an object, so
        # the key goes first. A null in a patch removes the key, in a target it stays, and in a
        # patch of nothing it is dropped: that is how a null is told from a value and from nothing.
        meta = owner.c.meta
        key: ColumnElement[Any] = bindparam("match_key")
        pair: ColumnElement[Any] = bindparam("match_pair")
        if kind == "any":
            return not_(_json_equal(meta, _json_merged(meta, key)))
        if kind == "null":
            dropped = _json_merged(literal_column("'{}'"), meta)
            return and_(
                not_(_json_equal(meta, _json_merged(meta, key))),
                _json_equal(dropped, _json_merged(dropped, key)),
            )
        if kind == "container":
            return _json_equal(meta, _json_merged(_json_merged(meta, key), pair))
        return _json_equal(meta, _json_merged(meta, pair))

    def json_equals_binds(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        if kind == "container" and _has_null(value):
            raise CapabilityMissing(
                "on Oracle, metadata cannot be searched for an object that holds a null"
            )
        removed, pair = (orjson.dumps({key: v}).decode() for v in (None, value))
        if (size := max(len(removed.encode()), len(pair.encode()))) > MAX_TEXT_BIND:
            raise TooLarge("metadata to look for", size, MAX_TEXT_BIND)
        parameters = {"match_key": removed, "match_pair": pair}
        unused = {"null": "match_pair", "any": "match_pair", "container": None}.get(
            kind, "match_key"
        )
        return {name: bound for name, bound in parameters.items() if name != unused}

    def byte_length(self, value: ColumnElement[Any]) -> ColumnElement[int]:
        # Of a BLOB in bytes; of a CLOB in characters: it has no length in bytes.
        return func.length(value)

    def leading_bytes(self, value: ColumnElement[Any], count: int) -> ColumnElement[bytes]:
        # SUBSTR would take a BLOB for hexadecimal text; this gives a RAW, which can be grouped by.
        numbers = (literal_column(str(number), Integer) for number in (count, 1))
        return func.dbms_lob.substr(value, *numbers, type_=LargeBinary())


def _json_merged(target: ColumnElement[Any], patch: ColumnElement[Any]) -> ColumnElement[Any]:
    # Without RETURNING the result of merging into a text is cut off at 4,000 bytes.
    merged: ColumnElement[Any] = func.json_mergepatch(
        target, patch.op("RETURNING")(literal_column("JSON"))
    )
    return merged


def _json_equal(a: ColumnElement[Any], b: ColumnElement[Any]) -> ColumnElement[bool]:
    # A condition, not a function: SQLAlchemy would compare a Boolean with 1.
    equal: ColumnElement[bool] = func.json_equal(a, b)
    return equal


def _has_null(value: Any) -> bool:
    """Return whether a patch of *value* would remove a key. Arrays are not looked into."""
    return isinstance(value, dict) and any(v is None or _has_null(v) for v in value.values())


# --- Text indexes --------------------------------------------------------------------------------

_TEXT_INDEXES = {
    name: f"CREATE INDEX {name} ON {table} (search_text) INDEXTYPE IS CTXSYS.CONTEXT "
    "PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')"
    for name, table in (
        ("ix_deltas_search_text", "deltas"),
        ("ix_store_items_search", "store_items"),
    )
}
"""The indexes of Oracle Text, as the schema's revisions create them."""


class OracleTextIndexes(TextIndexes):
    """Oracle Text, which is brought up to date when a transaction commits."""

    indexes_fields: ClassVar[bool] = False
    sees_uncommitted: ClassVar[bool] = False

    def term(self, term: Term) -> str:
        # Braces quote a token for Oracle Text, which holds none. What is quoted has no wildcard, so
        # a prefix is not: it is followed by one, and so it is no operator.
        return f"{term.text}%" if term.prefix else f"{{{term.text}}}"

    def terms(self, terms: Sequence[Term]) -> Any:
        # What does not fit in one bind is not looked for: its share of the score is lost.
        bound: list[str] = []
        room = MAX_TEXT_BIND - len("[]")
        for wanted in map(self.term, terms):
            room -= len(json.dumps(wanted, ensure_ascii=False).encode()) + len(", ")
            if room < 0:
                break
            bound.append(wanted)
        return json.dumps(bound, ensure_ascii=False)

    def log_hits(self, below: bool = False) -> FromClause:
        terms = _terms_table()
        deltas, threads = DeltaRow.__table__, ThreadRow.__table__
        found = terms.join(deltas, func.contains(deltas.c.search_text, terms.c.term) > 0)
        return (
            select(terms.c.term.label("term"), deltas.c.log_id, deltas.c.seq)
            .select_from(found.join(threads, threads.c.log_id == deltas.c.log_id))
            .where(in_namespace(threads, below))
            .cte("hits")
        )

    def item_hits(self, below: bool, columns: Sequence[ColumnElement[Any]]) -> FromClause:
        terms = _terms_table()
        items = StoreItemRow.__table__
        found = func.contains(items.c.search_text, terms.c.term) > 0
        return (
            select(terms.c.term.label("term"), *columns)
            .select_from(terms.join(items, found))
            .where(_in_scope(items, below))
            .cte("hits")
        )

    def items_in_scope(self, below: bool) -> FromClause:
        items = StoreItemRow.__table__
        found = select(items.c.namespace, items.c.key, items.c.updated_at)
        return found.where(_in_scope(items, below)).cte("within")

    def item_scope_binds(
        self, tenant: str, path: str, below: bool, fields: Sequence[FieldTerms]
    ) -> Mapping[str, Any]:
        # Oracle Text indexes one column: words of fields would need a datastore of their own.
        scope = {"scope_tenant": tenant, "scope_path": path}
        return scope | ({"scope_end": path[:-1] + "0"} if below else {})


def _terms_table() -> FromClause:
    """Return ``:terms`` as a table."""
    return (
        text(
            "SELECT listed.term FROM JSON_TABLE(:terms, '$[*]' "
            "COLUMNS (term VARCHAR2(4000) PATH '$')) listed"
        )
        .columns(column("term"))
        .subquery("terms")
    )


def _in_scope(items: Any, below: bool) -> ColumnElement[bool]:
    tenant = items.c.tenant == bindparam("scope_tenant", type_=items.c.tenant.type)
    path = bindparam("scope_path", type_=items.c.namespace.type)
    if not below:
        return and_(tenant, items.c.namespace == path)
    end = bindparam("scope_end", type_=items.c.namespace.type)
    return and_(tenant, items.c.namespace >= path, items.c.namespace < end)


# --- Vectors -------------------------------------------------------------------------------------

_METRICS = {"cosine": "COSINE", "dot": "DOT", "l2": "EUCLIDEAN"}


class OracleVectors(Vectors):
    """Oracle's VECTOR of float32, and IVF indexes."""

    def distance(self, vector: ColumnElement[Any], name: str, metric: str) -> ColumnElement[float]:
        # Oracle's DOT is the negative product.
        distance: ColumnElement[float] = func.vector_distance(
            vector, bindparam(name, type_=Vector()), literal_column(_METRICS[metric]), type_=Float
        )
        return distance

    def query_value(self, vector: Any) -> Any:
        return vector.tolist()

    def index_commands(
        self, metric: str, dimensions: int, schema: str | None, *, drop: bool = False
    ) -> list[str]:
        # On disk, in need of no memory set aside. All vectors of the table have to be of one size.
        prefix = f"{quoted(schema)}." if schema else ""
        name = f"{prefix}{vector_index_name(metric, dimensions)}"
        if drop:
            return [f"DROP INDEX {name};"]
        return [
            f"CREATE VECTOR INDEX {name} ON {prefix}embeddings (vector) ORGANIZATION NEIGHBOR "
            f"PARTITIONS DISTANCE {_METRICS[metric]} WITH TARGET ACCURACY 95;"
        ]


# --- Maintenance ---------------------------------------------------------------------------------


def _connect_string(url: URL) -> str:
    """Return the user and the place of a database, as Oracle's tools take them."""
    service = url.query.get("service_name") or url.database or ""
    port = f":{url.port}" if url.port else ""
    # Without a service the host is a name of tnsnames.ora.
    place = f"//{url.host or 'localhost'}{port}/{service}" if service else url.host or ""
    return f"{url.username or ''}@{place}"


class OracleMaintenance(Maintenance):
    """DBMS_LOCK, segments, Data Pump, and hash partitions."""

    takes_writes: ClassVar[str | None] = "sys_context('USERENV', 'DATABASE_ROLE') = 'PRIMARY'"
    server_version: ClassVar[str] = "SELECT version_full FROM product_component_version"
    utc_now: ClassVar[str] = "SYS_EXTRACT_UTC(SYSTIMESTAMP)"
    byte_literal: ClassVar[str] = "HEXTORAW('2D')"

    def lock_migrations(self, connection: Connection, schema: str | None) -> None:
        # DDL commits, so a row lock would be gone after the first statement; this one is the
        # session's, and given back when SQLAlchemy's transaction ends: a pooled session lives on.
        # Needs EXECUTE on DBMS_LOCK (docs/oracle.md). Numbers from 2 to the 30 are Oracle's own.
        digest = blake2b(f"memalchemy {schema or ''}".encode(), digest_size=4).digest()
        number = int.from_bytes(digest) % 2**30

        def release(connection: Connection) -> None:
            if not connection.invalidated:
                connection.exec_driver_sql(
                    "DECLARE answer INTEGER; "
                    f"BEGIN answer := DBMS_LOCK.RELEASE(id => {number}); END;"
                )

        connection.exec_driver_sql(
            f"DECLARE answer INTEGER; BEGIN answer := DBMS_LOCK.REQUEST(id => {number}, "
            "lockmode => DBMS_LOCK.X_MODE, timeout => 600, release_on_commit => FALSE); "
            "IF answer NOT IN (0, 4) THEN RAISE_APPLICATION_ERROR(-20001, "
            "'memalchemy migration lock: ' || answer); END IF; END;"
        )
        for end in ("commit", "rollback"):
            event.listen(connection, end, release)

    def sizes(self, exact: bool) -> Executable | None:
        # A user's own segments: those of another schema are the administrator's to see.
        if not exact:
            return None
        owner = "lower(coalesce(i.table_name, l.table_name, s.segment_name))"
        names = ", ".join(f"'{name}'" for name in Base.metadata.tables)
        return text(
            f"SELECT lower(s.segment_name) AS name, {owner} AS owner, "  # noqa: S608
            "CASE WHEN i.table_name IS NULL THEN 'table' ELSE 'index' END AS kind, "
            "sum(s.bytes) AS bytes FROM user_segments s "
            "LEFT JOIN user_indexes i ON i.index_name = s.segment_name "
            "LEFT JOIN user_lobs l ON l.segment_name = s.segment_name "
            f"WHERE {owner} IN ({names}) "
            "GROUP BY s.segment_name, i.table_name, l.table_name"
        )

    def shrink_commands(self, table: str, schema: str | None, full: bool) -> list[str]:
        name = f"{quoted(schema)}.{table}" if schema else table
        return [
            f"ALTER TABLE {name} ENABLE ROW MOVEMENT;",
            f"ALTER TABLE {name} SHRINK SPACE CASCADE;",
        ]

    def restore_command(self, url: URL, file: str) -> str:
        dump = f"dumpfile={PurePath(file).name}"
        return shlex.join(["impdp", _connect_string(url), "directory=DATA_PUMP_DIR", dump])

    def backup_command(self, url: URL, file: str, schema: str | None, tables: Sequence[str]) -> str:
        prefix = f"{schema}." if schema else ""
        return shlex.join(
            [
                "expdp",
                _connect_string(url),
                "directory=DATA_PUMP_DIR",
                f"dumpfile={PurePath(file).name}",
                f"tables={','.join(f'{prefix}{table}'.upper() for table in tables)}",
                "flashback_time=systimestamp",
            ]
        )

    def distribution_commands(self, schema: str | None, parts: int | None) -> list[str]:
        """Return the statements that partition the tables by hash, each into *parts*, or 16.

        *parts* is a power of two, or the last partitions are half as large. Text indexes are
        dropped and made again: the conversion of a table does not take them along.
        """
        parts = 16 if parts is None else parts
        if parts < 2 or parts & (parts - 1):
            raise ValueError(f"the number of partitions is a power of two, not {parts}")
        statements = [f"ALTER SESSION SET CURRENT_SCHEMA = {quoted(schema)};"] if schema else []
        statements += [f"DROP INDEX {name};" for name in _TEXT_INDEXES]
        created = _created_indexes()
        statements += [
            _partition_command(table, spread_by, parts, created)
            for table, _, spread_by in placement()
        ]
        return [*statements, *(f"{command};" for command in _TEXT_INDEXES.values())]


def _partition_command(table: Table, spread_by: str, parts: int, created: list[Index]) -> str:
    """Return the statement that partitions one table and those of the *created* indexes on it."""
    keys = {
        str(constraint.name): [c.name for c in constraint.columns]
        for constraint in (table.primary_key, *table.constraints)
        if constraint is table.primary_key or isinstance(constraint, UniqueConstraint)
    }
    indexes = [f"{name} {_index_scope(True, columns, spread_by)}" for name, columns in keys.items()]
    indexes += [
        f"{index.name} {_index_scope(bool(index.unique), _column_names(index), spread_by)}"
        for index in created
        if index.table is table
    ]
    return (
        f"ALTER TABLE {table.name} MODIFY PARTITION BY HASH ({spread_by}) PARTITIONS {parts:d} "
        f"UPDATE INDEXES ({', '.join(indexes)});"
    )


def _index_scope(unique: bool, columns: list[str], spread_by: str) -> str:
    # ORA-14039: what is unique within each partition is unique only with the partition's column.
    return "GLOBAL" if unique and spread_by not in columns else "LOCAL"


def _column_names(index: Index) -> list[str]:
    return [e.name for e in index.expressions if isinstance(e, Column)]


def _created_indexes() -> list[Index]:
    """Return the indexes of the mapped tables that Oracle has, in the order of their names."""
    made: list[Index] = []

    def collect(ddl: Any, *_: Any, **__: Any) -> None:
        if isinstance(ddl, CreateIndex):
            made.append(ddl.element)

    Base.metadata.create_all(create_mock_engine("oracle://", collect), checkfirst=False)
    return sorted(made, key=lambda index: str(index.name))


# --- The dialect ---------------------------------------------------------------------------------

_BY_CODE = {
    "ORA-00001": Failure.UNIQUE,
    "ORA-00942": Failure.MISSING_TABLE,
    "ORA-01017": Failure.AUTHENTICATION,
    "ORA-28000": Failure.AUTHENTICATION,
    "ORA-28001": Failure.AUTHENTICATION,
    "ORA-01005": Failure.AUTHENTICATION,
    "ORA-01045": Failure.PERMISSION,
    "ORA-01031": Failure.PERMISSION,
    "ORA-01950": Failure.PERMISSION,
    "ORA-16000": Failure.READ_ONLY,
    "ORA-28193": Failure.READ_ONLY,
    "ORA-00060": Failure.ROLLED_BACK,
    "ORA-08177": Failure.ROLLED_BACK,
    "ORA-51815": Failure.ROLLED_BACK,
    "ORA-00054": Failure.BUSY,
    "ORA-30006": Failure.BUSY,
    "ORA-01013": Failure.BUSY,
    "DPY-4024": Failure.BUSY,
    "ORA-01536": Failure.FULL,
    "ORA-01652": Failure.FULL,
    "ORA-01653": Failure.FULL,
    "ORA-01654": Failure.FULL,
    "ORA-01691": Failure.FULL,
    "ORA-01578": Failure.CORRUPT,
    # The driver rewrites most lost connections to DPY-4011; these it does not know.
    "ORA-03138": Failure.DISCONNECTED,
    "ORA-12571": Failure.DISCONNECTED,
    "ORA-25408": Failure.DISCONNECTED,
    "ORA-03113": Failure.DISCONNECTED,
    "ORA-03114": Failure.DISCONNECTED,
    "ORA-03135": Failure.DISCONNECTED,
    "ORA-00028": Failure.DISCONNECTED,
    "ORA-01012": Failure.DISCONNECTED,
    "ORA-02396": Failure.DISCONNECTED,
    "DPY-1001": Failure.DISCONNECTED,
    "DPY-4011": Failure.DISCONNECTED,
    "ORA-00018": Failure.UNREACHABLE,
    "ORA-00020": Failure.UNREACHABLE,
    "ORA-01033": Failure.UNREACHABLE,
    "ORA-01034": Failure.UNREACHABLE,
    "ORA-01109": Failure.UNREACHABLE,
    "ORA-12516": Failure.UNREACHABLE,
    "ORA-12520": Failure.UNREACHABLE,
    "DPY-6000": Failure.UNREACHABLE,
    "DPY-6001": Failure.UNREACHABLE,
    "DPY-6003": Failure.UNREACHABLE,
    "DPY-6005": Failure.UNREACHABLE,
}


READ_ONLY_SESSION = "ALTER SESSION SET READ_ONLY = TRUE"
"""Since Oracle Database 23ai: the session takes neither DML nor DDL (ORA-28193)."""


def _make_session_read_only(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(READ_ONLY_SESSION)
    cursor.close()


class Oracle(Dialect):
    """Oracle through python-oracledb."""

    name: ClassVar[str] = "oracle"
    sqlalchemy_name: ClassVar[str] = "oracle"
    variants: tuple[str, ...] = (NO_UPSERT,)
    autocommits: ClassVar[bool] = False
    transactional_ddl: ClassVar[bool] = False
    snapshot_isolation: ClassVar[str | None] = "SERIALIZABLE"
    connect_options: ClassVar[tuple[str, ...]] = ORACLE_OPTIONS

    column_types: ColumnTypes = OracleColumnTypes()
    statements: Statements = OracleStatements()
    text: TextIndexes = OracleTextIndexes()
    vectors: Vectors = OracleVectors()
    maintenance: Maintenance = OracleMaintenance()
    views: Views = OracleViews()

    def read_url(self, url: URL, driver: str) -> Target:
        if driver not in ("", "oracledb", "oracledb_async"):
            raise UnknownURL(f"memalchemy uses oracle+oracledb_async, not {driver!r}")
        require_driver("oracledb", "oracle")
        url = url.set(drivername="oracle+oracledb_async")
        if url.database and url.host and "service_name" not in url.query:
            # SQLAlchemy reads /name as a SID; what people and providers write there is a service.
            url = url.set(database="").update_query_dict({"service_name": url.database})
        shown = display(url)
        query = {name: single_value(name, value) for name, value in url.query.items()}
        service, protocol = query.pop("service_name", None), query.pop("protocol", None)
        if service is None and not url.database and url.port is not None:
            raise UnknownURL(
                "the URL names a port and no service: use oracle://user@host:1521/service, or "
                "oracle://user@alias for a name of tnsnames.ora"
            )
        refuse_unknown_parameters(query, "oracledb", "connect_async")
        # Outside of the URL: whoever prints an engine's URL must not print a wallet's password.
        private = {name for name in query if is_secret(name)}
        connect_args: dict[str, Any] = {
            name: query.pop(name) for name in sorted(query) if name in private | {*ORACLE_OPTIONS}
        }
        if "ssl_server_dn_match" in connect_args:
            connect_args["ssl_server_dn_match"] = flag(
                "ssl_server_dn_match", connect_args["ssl_server_dn_match"]
            )
        if protocol not in (None, "tcp", "tcps"):
            raise UnknownURL("protocol in the URL must be tcp or tcps")
        if protocol == "tcps":
            if service is None or not url.host:
                raise UnknownURL("protocol=tcps in the URL needs a host and a service")
            host = f"[{url.host}]" if ":" in url.host else url.host
            # SQLAlchemy writes TCP into the DSN that it makes; this one replaces it.
            connect_args["dsn"] = f"tcps://{host}:{url.port or 1521}/{service}"
        url = url.set(query=query if service is None else query | {"service_name": service})
        return Target(self.name, url, shown, connect_args=connect_args)

    def engine_options(
        self,
        target: Target,
        *,
        pgbouncer: bool,
        connect_timeout: float,
        statement_timeout: float | None,
    ) -> dict[str, Any]:
        return {"connect_args": {"tcp_connect_timeout": connect_timeout} | target.connect_args}

    def read_only_options(
        self, options: dict[str, Any], target: Target, *, pgbouncer: bool
    ) -> dict[str, Any]:
        return options | {"pool_events": [(_make_session_read_only, "connect")]}

    def in_transaction(self, raw: Any) -> bool:
        # Known since python-oracledb 2.3. Its connections wait for one another's users themselves.
        return bool(getattr(raw, "transaction_in_progress", False))

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        cause = original(error)
        detail = cause.args[0] if cause.args else None
        code = getattr(detail, "full_code", None)
        if code is None and (match := re.match(r"(?:ORA|DPY)-\d+", str(cause))):
            code = match.group()
        if code in _BY_CODE:
            return _BY_CODE[code], code
        if getattr(error, "connection_invalidated", False):
            return Failure.DISCONNECTED, code
        if isinstance(cause, (OSError, TimeoutError)):
            return Failure.UNREACHABLE, code
        return Failure.OTHER, code

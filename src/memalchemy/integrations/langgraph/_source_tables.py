"""Reading of LangGraph's own tables, through LangGraph's own savers; nothing in them is changed.

Values stay bytes, so no class of a user's is imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_METHOD_SINGLE_ARG,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)

from memalchemy._bounds import check_json, parse_json, unpack_extension, unpack_foreign
from memalchemy.contracts import Packed, PendingWrite
from memalchemy.dialects import parse_url
from memalchemy.errors import (
    DatabaseUnreachable,
    DriverMissing,
    MemalchemyError,
    NotFound,
    NotSerialisable,
)
from memalchemy.importers.foreign_tables import text_or_bytes
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.unreadable import UNREADABLE, Unusable, read_or_leave, text_field

PAGE = 500
_OF_CLASSES = frozenset(
    {
        EXT_CONSTRUCTOR_SINGLE_ARG,
        EXT_CONSTRUCTOR_POS_ARGS,
        EXT_CONSTRUCTOR_KW_ARGS,
        EXT_METHOD_SINGLE_ARG,
        EXT_PYDANTIC_V1,
        EXT_PYDANTIC_V2,
    }
)
"""Extensions that begin with a module and a name in it."""


_DAMAGED = "damaged"
"""Format of a value that a saver reads and that nobody can parse."""


class RawSerializer:
    """Serialiser that leaves extensions of MessagePack, and unknown formats, as they are.

    ``classes`` collects the module and name of each class whose objects it has read. If it is
    *lenient*, what cannot be parsed becomes a `Packed` in the format ``damaged``: a saver reads the
    pending writes with the checkpoint, and one of them that is damaged is no reason to lose both.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self.classes: set[tuple[str, str]] = set()
        self._lenient = lenient

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if isinstance(obj, Packed):
            return obj.format, obj.data
        if obj is None:
            return "null", b""
        if isinstance(obj, (bytes, bytearray)):
            return type(obj).__name__, bytes(obj)
        return "msgpack", ormsgpack.packb(obj, option=ormsgpack.OPT_NON_STR_KEYS)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if not self._lenient:
            return self.parse(data)
        try:
            return self.parse(data)
        except UNREADABLE:
            return Packed(_DAMAGED, b"")

    def parse(self, data: tuple[str, bytes]) -> Any:
        """Parse a value, as `loads_typed`, or raise what is wrong with it."""
        kind, stored = data
        if not isinstance(stored, bytes | bytearray | memoryview | str):
            raise Unusable("has a value that is no bytes")
        if kind == "msgpack":
            return unpack_foreign(stored, self._note_extension)
        if kind == "json":
            check_json(stored)
            return JsonPlusSerializer(allowed_msgpack_modules=None).loads_typed(data)
        if kind == "null":
            return None
        if kind == "bytearray":
            return bytearray(stored)
        return bytes(stored) if kind == "bytes" else Packed(kind, bytes(stored))

    def _note_extension(self, code: int, data: bytes) -> ormsgpack.Ext:
        """Note the class of an object, and those of the objects in it; leave it as it is."""
        inner = unpack_extension(data, self._note_extension)
        if code in _OF_CLASSES:
            self.classes.add((inner[0], inner[1]))
        return ormsgpack.Ext(code, data)


RAW: Any = RawSerializer()
"""Serialiser for what is only copied and compared."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """Row of LangGraph's store, with its vectors by path."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    ttl_minutes: float | None
    vectors: dict[str, list[list[float]]] = field(default_factory=dict)


Rows = list[dict[str, Any]]


class Source(ABC):
    """Open database with LangGraph's tables."""

    writes: ClassVar[str]
    value: ClassVar[str]
    vector: ClassVar[str]
    saver: BaseCheckpointSaver[Any]
    serde: RawSerializer

    @abstractmethod
    async def rows(self, sql: str, *values: Any) -> Rows:
        """Return the rows of a query, with ``?`` for each of *values*."""

    @abstractmethod
    async def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; none if it is not there."""

    async def check(self) -> None:
        """Determine which of LangGraph's tables and columns are there.

        Raises:
            NotFound: there is none of its tables.
        """
        self.has_checkpoints = bool(await self.columns("checkpoints"))
        self.item_columns = await self.columns("store")
        self.has_vectors = bool(await self.columns("store_vectors"))
        if self.has_checkpoints and "parent_checkpoint_id" not in await self.columns("checkpoints"):
            raise NotFound("the table checkpoints is not LangGraph's; name the database with its")
        if self.has_checkpoints and "task_path" not in await self.columns(self.writes):
            raise MemalchemyError(
                "these tables were made by an older LangGraph; call setup() of its saver once, and "
                "import again"
            )
        if not self.has_checkpoints and not self.item_columns:
            raise NotFound("there are no tables of LangGraph's in this database")

    async def count(self) -> tuple[int, int]:
        """Count the checkpoints and the items."""
        checkpoints = items = 0
        if self.has_checkpoints:
            checkpoints = (await self.rows("SELECT count(*) AS n FROM checkpoints"))[0]["n"]
        if self.item_columns:
            items = (await self.rows("SELECT count(*) AS n FROM store"))[0]["n"]
        return checkpoints, items

    async def logs(self) -> list[tuple[str, str]]:
        """Return the threads, each with its checkpoint namespaces."""
        if not self.has_checkpoints:
            return []
        found = await self.rows(
            "SELECT DISTINCT thread_id, checkpoint_ns FROM checkpoints "
            "ORDER BY thread_id, checkpoint_ns"
        )
        return [(row["thread_id"], row["checkpoint_ns"]) for row in found]

    async def checkpoint_ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        """Return the checkpoints of a thread in a namespace, sorted by id."""
        found = await self.rows(
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?",
            thread_id,
            checkpoint_ns,
        )
        return sorted((row["checkpoint_id"] for row in found), key=str)

    async def checkpoint(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str
    ) -> CheckpointTuple | None:
        """Read a checkpoint through LangGraph's saver; ``None`` if it was deleted meanwhile."""
        place = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns}
        found = await self.saver.aget_tuple(
            {"configurable": place | {"checkpoint_id": checkpoint_id}}
        )
        whole: Any = None if found is None else found.checkpoint
        values = (whole.get("channel_values") or {}).values() if isinstance(whole, dict) else ()
        if any(isinstance(one, Packed) and one.format == _DAMAGED for one in (whole, *values)):
            raise Unusable("is not MessagePack or JSON")
        if found is not None and not isinstance(found.checkpoint, dict):
            raise NotSerialisable(
                "",
                f"of checkpoint {checkpoint_id!r} is encrypted as a whole, as SqliteSaver does it, "
                "and cannot be taken apart without its key",
            )
        return found

    async def pending(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str
    ) -> tuple[list[PendingWrite], list[str]]:
        """Return the pending writes of a checkpoint, as LangGraph sorts them.

        Those that nobody can read are named apart.
        """
        found = await self.rows(
            f"SELECT task_id, task_path, idx, channel, type, {self.value} AS value "  # noqa: S608
            f"FROM {self.writes} "
            "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            thread_id,
            checkpoint_ns,
            checkpoint_id,
        )
        left_out: list[str] = []
        read = [
            read_or_leave(
                lambda row=row: self._to_write(row),  # type: ignore[misc]
                f"write {row['idx']} of task {row['task_id']}",
                left_out,
            )
            for row in found
        ]
        made = [one for one in read if one is not None]
        return sorted(made, key=lambda one: (one.task_path, one.task_id, one.index)), left_out

    def _to_write(self, row: Mapping[str, Any]) -> PendingWrite:
        kind, value, path = row["type"] or "null", row["value"], row["task_path"] or ""
        if not isinstance(kind, str) or not isinstance(path, str):
            raise Unusable("has a type or a path that is no text")
        if not isinstance(row["idx"], int):
            raise Unusable("has an index that is no number")
        if not isinstance(value, bytes | bytearray | memoryview | None):
            raise Unusable("has a value that is no bytes")
        packed = Packed(kind, bytes(value or b""))
        self.serde.parse((packed.format, packed.data))
        return PendingWrite(
            text_field(row, "task_id"), row["idx"], text_field(row, "channel"), packed, path
        )

    async def items(self) -> AsyncIterator[tuple[list[StoredItem], list[str]]]:
        """Yield the items of the store with their vectors, page by page.

        With each page come the names of those that nobody can read.
        """
        if not self.item_columns:
            return
        names = ["prefix", "key", "value", "created_at", "updated_at"]
        names += [name for name in ("expires_at", "ttl_minutes") if name in self.item_columns]
        # Compared as bytes, so that no collation of the database changes the order of pages.
        query = f"SELECT {', '.join(names)} FROM store"  # noqa: S608
        order = f"ORDER BY {self.ordered('prefix')}, {self.ordered('key')} LIMIT {PAGE}"
        after = (
            f"WHERE ({self.ordered('prefix')} > ? OR (prefix = ? AND {self.ordered('key')} > ?))"
        )
        rows = await self.rows(f"{query} {order}")
        while rows:
            page: list[StoredItem] = []
            left_out: list[str] = []
            for row in rows:
                vectors = await self._read_vectors(row)
                name = f"{row['prefix']}/{row['key']}"
                made = read_or_leave(lambda: _to_item(row, vectors), name, left_out)  # noqa: B023
                if made is not None:
                    page.append(made)
            yield page, left_out
            last = rows[-1]
            rows = await self.rows(
                f"{query} {after} {order}", last["prefix"], last["prefix"], last["key"]
            )

    def ordered(self, column: str) -> str:
        """Return the expression that compares a column by its bytes."""
        return column

    async def _read_vectors(self, row: Mapping[str, Any]) -> Rows:
        if not self.has_vectors:
            return []
        return await self.rows(
            f"SELECT field_name, {self.vector} AS vector FROM store_vectors "  # noqa: S608
            "WHERE prefix = ? AND key = ?",
            row["prefix"],
            row["key"],
        )


def _to_item(row: Mapping[str, Any], vectors: Rows) -> StoredItem:
    value, minutes = row["value"], row.get("ttl_minutes")
    value = value if isinstance(value, dict) else parse_json(value)
    if not isinstance(value, dict):
        raise Unusable("is no JSON object")
    if isinstance(minutes, bool) or not isinstance(minutes, int | float | None):
        raise Unusable("has a lifetime that is no number")
    made = {text_field(one, "field_name"): _parse_floats(one["vector"]) for one in vectors}
    return StoredItem(
        tuple(text_field(row, "prefix").split(".")),
        text_field(row, "key"),
        value,
        to_utc(row["created_at"]),
        to_utc(row["updated_at"]),
        to_utc(row["expires_at"]) if row.get("expires_at") else None,
        minutes,
        by_path({name: one for name, one in made.items() if any(one)}),
    )


def by_path(vectors: Mapping[str, list[float]]) -> dict[str, list[list[float]]]:
    """Group vectors by path; LangGraph names them ``path``, or ``path.i`` if there are several."""
    parts: dict[str, list[tuple[int, list[float]]]] = {}
    for name, vector in vectors.items():
        path, _, number = name.rpartition(".")
        if path and number.isdecimal() and name not in parts:
            parts.setdefault(path, []).append((int(number), vector))
        else:
            parts.setdefault(name, []).append((0, vector))
    return {path: [vector for _, vector in sorted(some)] for path, some in parts.items()}


def _parse_floats(vector: Any) -> list[float]:
    if isinstance(vector, str):
        return [float(number) for number in vector.strip("[]").split(",")]
    return array("f", bytes(vector)).tolist()


@asynccontextmanager
async def open_source(url: str, *, schema: str | None = None) -> AsyncIterator[Source]:
    """Open LangGraph's tables at *url*, or in the SQLite file of that path.

    *schema* is that of the tables in PostgreSQL.

    Raises:
        DriverMissing: the package that reads them is not installed; the message names it.
        DatabaseUnreachable: there is no such file or server.
        NotFound: there are no such tables.
    """
    scheme, separator, rest = url.partition("://")
    if url.startswith("sqlite:"):
        opening = _open_sqlite(parse_url(url).path or ":memory:")
    elif not separator:
        opening = _open_sqlite(url)
    elif scheme.startswith("postgres"):
        opening = _open_postgresql(f"postgresql://{rest}", schema)
    else:
        raise ValueError(
            "LangGraph has tables in SQLite or PostgreSQL only: give the path of a file, "
            "sqlite:///… or postgresql://…"
        )
    async with opening as source:
        await source.check()
        yield source


class _Sqlite(Source):
    writes, value, vector = "writes", "value", "embedding"

    def __init__(self, connection: Any, saver: Any, serde: RawSerializer) -> None:
        self.connection, self.saver, self.serde = connection, saver, serde

    async def rows(self, sql: str, *values: Any) -> Rows:
        async with self.connection.execute(sql, values) as cursor:
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]

    async def columns(self, table: str) -> set[str]:
        return {row["name"] for row in await self.rows(f"PRAGMA table_info({table})")}


@asynccontextmanager
async def _open_sqlite(path: str) -> AsyncIterator[Source]:
    try:
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    except ImportError as error:
        package = "langgraph-checkpoint-sqlite"
        raise DriverMissing(package, None, what="reader of LangGraph's tables") from error
    if not Path(path).is_file():  # noqa: ASYNC240 - once, before anything else runs
        raise DatabaseUnreachable(f"there is no file {path}")
    async with aiosqlite.connect(f"file:{quote(path)}?mode=ro", uri=True) as connection:
        connection.text_factory = text_or_bytes
        serde = RawSerializer(lenient=True)
        saver = AsyncSqliteSaver(connection, serde=serde)
        saver.is_setup = True  # otherwise its first read would create tables
        yield _Sqlite(connection, saver, serde)


class _Postgresql(Source):
    writes, value, vector = "checkpoint_writes", "blob", "embedding::text"

    def __init__(self, connection: Any, saver: Any, serde: RawSerializer) -> None:
        self.connection, self.saver, self.serde = connection, saver, serde

    async def rows(self, sql: str, *values: Any) -> Rows:
        cursor = await self.connection.execute(sql.replace("?", "%s"), values or None)
        return list(await cursor.fetchall())

    async def columns(self, table: str) -> set[str]:
        found = await self.rows(
            "SELECT attname AS name FROM pg_attribute "
            "WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped",
            table,
        )
        return {row["name"] for row in found}

    def ordered(self, column: str) -> str:
        return f'{column} COLLATE "C"'


@asynccontextmanager
async def _open_postgresql(url: str, schema: str | None) -> AsyncIterator[Source]:
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
    except ImportError as error:
        package = "langgraph-checkpoint-postgres"
        raise DriverMissing(
            package, None, what="reader of LangGraph's PostgreSQL tables"
        ) from error
    options: dict[str, Any] = {} if schema is None else {"options": f"-c search_path={schema}"}
    try:
        connection = await psycopg.AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=0, row_factory=dict_row, **options
        )
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable("LangGraph's database cannot be reached") from error
    async with connection:
        await connection.set_read_only(True)
        serde = RawSerializer(lenient=True)
        yield _Postgresql(connection, AsyncPostgresSaver(connection, serde=serde), serde)

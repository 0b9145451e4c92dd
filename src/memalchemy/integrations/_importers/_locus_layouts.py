"""The layouts in which locus' checkpointers and stores keep their data.

Nothing at a place is changed. Redis, S3 and OpenSearch are read with their own clients, which locus
needs for them, too.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from memalchemy._together import together
from memalchemy.contracts import NewItem
from memalchemy.errors import DatabaseUnreachable, DriverMissing, NotFound
from memalchemy.importers.foreign_tables import ForeignTables, Row
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.unreadable import (
    UNREADABLE,
    Unusable,
    describe_problem,
    read_or_leave,
    text_field,
)
from memalchemy.integrations._importers._json import object_in, object_of, value_of

_INDEX = ":_checkpoints"
"""End of the key under which a thread's checkpoints are listed."""
_ADDED = ("_checkpoint_id", "_checkpoint_timestamp", "_metadata")
"""Keys that locus adds to a state in a key-value store."""
_PARTS = "\x1f"
"""Separator of the parts of a namespace."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_DOCUMENT = "has no JSON object where it is kept"
_NOTHING = "there is nothing of locus' in {}"


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """State as JSON, with what is known of its save."""

    state: dict[str, Any]
    saved_at: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredThread:
    """Ids of a thread's checkpoints, oldest first, and the function that reads one.

    ``left_out`` names others, which are known and cannot be read.
    """

    thread_id: str
    checkpoint_ids: list[str]
    load: Callable[[str], Awaitable[StoredCheckpoint]]
    left_out: Sequence[str] = ()


StoredItem = tuple[str, Callable[[], NewItem]]
"""The name of an item in messages, and the function that reads it."""


class Place(ABC):
    """Storage of locus', of which `threads` and `items` yield everything."""

    @abstractmethod
    async def count(self) -> tuple[int, int]:
        """Count the threads and the items."""

    @abstractmethod
    def threads(self) -> AsyncIterator[StoredThread]:
        """Yield the threads, by id."""

    async def items(self) -> AsyncIterator[StoredItem]:
        """Yield the items of the store, if it has one."""
        return
        yield


class Files(Place):
    """Directory of a `FileCheckpointer`: a JSON file for each checkpoint."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    @asynccontextmanager
    async def open(cls, place: str) -> AsyncIterator[Place]:
        """Open a directory."""
        found = cls(Path(place))
        if not await asyncio.to_thread(found._list_directories):
            raise NotFound(_NOTHING.format(place))
        yield found

    @staticmethod
    def is_no_directory(place: str) -> bool:
        """Return whether *place* is something else than a directory."""
        return not Path(place).is_dir()

    async def count(self) -> tuple[int, int]:
        """Count the directories of threads."""
        return len(await asyncio.to_thread(self._list_directories)), 0

    async def threads(self) -> AsyncIterator[StoredThread]:
        """Yield the threads in the order of their directories."""
        for directory in await asyncio.to_thread(self._list_directories):
            for thread in await asyncio.to_thread(self._threads_in, directory):
                yield thread

    def _list_directories(self) -> list[Path]:
        return sorted(
            one for one in self._directory.iterdir() if one.is_dir() and any(one.glob("*.json"))
        )

    def _threads_in(self, directory: Path) -> list[StoredThread]:
        """Return the threads of a directory: ids that differ in signs share one."""
        threads: dict[str, dict[str, tuple[datetime, Path]]] = {}
        unreadable: list[Path] = []
        for file in sorted(directory.glob("*.json")):
            try:
                document = _read_document(file)
                thread_id, name = (
                    text_field(document, "thread_id"),
                    text_field(document, "checkpoint_id"),
                )
                if (_escape_for_name(thread_id), _escape_for_name(name)) != (
                    directory.name,
                    file.stem,
                ):
                    raise Unusable("is in the place of another")
                at = to_utc(document["created_at"])
            except UNREADABLE:  # which the load of it says again
                unreadable.append(file)
            else:
                threads.setdefault(thread_id, {})[name] = at, file
        # Without a file that can be read, what is left of the id is the name of the directory.
        first = threads.setdefault(next(iter(threads), directory.name), {})
        first |= {file.stem: (_EPOCH, file) for file in unreadable}
        return [_thread_of_files(thread_id, found) for thread_id, found in threads.items()]


def _thread_of_files(thread_id: str, found: dict[str, tuple[datetime, Path]]) -> StoredThread:
    async def load(checkpoint_id: str) -> StoredCheckpoint:
        return await asyncio.to_thread(_checkpoint_of_file, thread_id, found[checkpoint_id][1])

    return StoredThread(thread_id, sorted(found, key=lambda one: (found[one][0], one)), load)


def _escape_for_name(text: str) -> str:
    """Return an id as it is in the name of a file or directory."""
    return "".join(one if one.isalnum() or one in "-_" else "_" for one in text)


class _KeyValues(Place):
    """Keys with JSON documents, as locus' `StorageBackendAdapter` writes them.

    ``THREAD:_checkpoints`` lists the checkpoints of a thread, ``THREAD:ID`` has one.
    """

    @abstractmethod
    async def keys(self) -> list[str]:
        """Return all keys."""

    @abstractmethod
    async def get(self, key: str) -> dict[str, Any] | None:
        """Return the document of a key."""

    async def count(self) -> tuple[int, int]:
        """Count the lists of checkpoints."""
        return len(await self._thread_ids()), 0

    async def threads(self) -> AsyncIterator[StoredThread]:
        """Yield the threads, by id."""
        for thread_id in await self._thread_ids():
            found: dict[str, str] = {}
            left_out: list[str] = []
            try:
                listed = (await self.get(thread_id + _INDEX) or {})["checkpoints"]
                for number, one in enumerate(listed, start=1):
                    made = read_or_leave(partial(_id_and_time, one), f"{number}.", left_out)
                    if made is not None:
                        found[made[0]] = made[1]
            except UNREADABLE as error:
                left_out.append(f"its list of checkpoints: {describe_problem(error)}")
            ids = sorted(found, key=lambda one: (found[one], one))
            yield StoredThread(thread_id, ids, partial(self._load_checkpoint, thread_id), left_out)

    async def _thread_ids(self) -> list[str]:
        keys = await self.keys()
        found = sorted(key.removesuffix(_INDEX) for key in keys if key.endswith(_INDEX))
        if not found:
            raise NotFound(_NOTHING.format("this place"))
        return found

    async def _load_checkpoint(self, thread_id: str, checkpoint_id: str) -> StoredCheckpoint:
        document = await self.get(f"{thread_id}:{checkpoint_id}")
        if document is None:
            raise Unusable(_NO_DOCUMENT)
        state = {name: value for name, value in document.items() if name not in _ADDED}
        at = _parse_time(document.get("_checkpoint_timestamp"))
        return StoredCheckpoint(state, at, document.get("_metadata") or {})


def _id_and_time(one: Mapping[str, Any]) -> tuple[str, str]:
    """Return the id and the time of a checkpoint, as they are listed."""
    return text_field(one, "checkpoint_id"), text_field({"timestamp": "", **one}, "timestamp")


class Redis(_KeyValues):
    """Keys of a `RedisBackend`. The URL's ``prefix`` is that of the backend."""

    def __init__(self, client: Any, prefix: str) -> None:
        self._client, self._prefix = client, prefix

    @classmethod
    @asynccontextmanager
    async def open(cls, place: str) -> AsyncIterator[Place]:
        """Connect to a server."""
        try:
            from redis.asyncio import Redis as Client
            from redis.exceptions import RedisError
        except ImportError as error:
            raise DriverMissing("redis", None, what="client") from error
        url, options = _split_options(place, "prefix")
        prefix = options.get("prefix", "locus:checkpoint:")
        async with Client.from_url(url, decode_responses=True) as client:
            try:
                yield cls(client, prefix)
            except RedisError as error:
                raise DatabaseUnreachable(
                    f"Redis cannot be read: {type(error).__name__}"
                ) from error

    async def keys(self) -> list[str]:
        """Return all keys, without the prefix."""
        found = self._client.scan_iter(match=_escape_for_redis(self._prefix) + "*", count=1_000)
        return [key.removeprefix(self._prefix) async for key in found]

    async def get(self, key: str) -> dict[str, Any] | None:
        """Return the document of a key."""
        text = await self._client.get(self._prefix + key)
        return None if text is None else object_of(text)


class OpenSearch(_KeyValues):
    """Documents of an `OpenSearchBackend`, in the index that the URL's path names."""

    def __init__(self, client: Any, index: str) -> None:
        self._client, self._index = client, index

    @classmethod
    @asynccontextmanager
    async def open(cls, place: str) -> AsyncIterator[Place]:
        """Connect to a server, with TLS unless the scheme is ``opensearch+http``."""
        try:
            from opensearchpy import AsyncOpenSearch
            from opensearchpy.exceptions import OpenSearchException
        except ImportError as error:
            raise DriverMissing("opensearch-py[async]", None, what="client") from error
        url = urlsplit(place)
        scheme = "http" if url.scheme == "opensearch+http" else "https"
        auth = (unquote(url.username), unquote(url.password or "")) if url.username else None
        host = f"{scheme}://{url.hostname}:{url.port or 9200}"
        client = AsyncOpenSearch(hosts=[host], http_auth=auth)
        try:
            yield cls(client, url.path.strip("/") or "locus-checkpoints")
        except OpenSearchException as error:
            name = type(error).__name__
            raise DatabaseUnreachable(f"OpenSearch cannot be read: {name}") from error
        finally:
            await client.close()

    async def keys(self) -> list[str]:
        """Return the ids of all documents."""
        from opensearchpy.helpers import async_scan

        query = {"query": {"match_all": {}}, "_source": False}
        found = async_scan(self._client, query=query, index=self._index)
        return [hit["_id"] async for hit in found]

    async def get(self, key: str) -> dict[str, Any] | None:
        """Return the document of a key."""
        found = await self._client.get(index=self._index, id=key)
        document: dict[str, Any] = found["_source"]["data"]
        return document


class Objects(Place):
    """Objects of an `S3Backend`: ``PREFIX/THREAD/ID.json`` with the state, and ``ID.meta.json``."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix

    @classmethod
    @asynccontextmanager
    async def open(cls, place: str) -> AsyncIterator[Place]:
        """Connect with boto3's credentials. ``endpoint_url`` and ``region_name`` are options."""
        try:
            import boto3
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise DriverMissing("boto3", None, what="client") from error
        url, options = _split_options(place, "endpoint_url", "region_name")
        parts = urlsplit(url)
        prefix = unquote(parts.path).lstrip("/") or "locus/checkpoints/"
        client = await asyncio.to_thread(partial(boto3.client, "s3", **options))
        try:
            yield cls(client, parts.netloc, prefix if prefix.endswith("/") else f"{prefix}/")
        except (BotoCoreError, ClientError) as error:
            name = type(error).__name__
            raise DatabaseUnreachable(f"the bucket cannot be read: {name}") from error
        finally:
            await asyncio.to_thread(client.close)

    async def count(self) -> tuple[int, int]:
        """Count the threads."""
        return len(await asyncio.to_thread(self._by_thread)), 0

    async def threads(self) -> AsyncIterator[StoredThread]:
        """Yield the threads, by id."""
        for thread_id, ids in (await asyncio.to_thread(self._by_thread)).items():
            times = await together(
                *(asyncio.to_thread(self._saved_at, thread_id, one) for one in ids)
            )
            saved = dict(zip(ids, times, strict=True))
            ids.sort(key=lambda one: (saved[one], one))

            async def load(one: str, thread_id: str = thread_id) -> StoredCheckpoint:
                return await asyncio.to_thread(self._load_checkpoint, thread_id, one)

            yield StoredThread(thread_id, ids, load)

    def _by_thread(self) -> dict[str, list[str]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix
        )
        found: dict[str, list[str]] = {}
        for page in pages:
            for stored in page.get("Contents", ()):
                thread_id, _, name = stored["Key"].removeprefix(self._prefix).rpartition("/")
                if thread_id and name.endswith(".json") and not name.endswith(".meta.json"):
                    found.setdefault(thread_id, []).append(name.removesuffix(".json"))
        if not found:
            raise NotFound(_NOTHING.format(f"s3://{self._bucket}/{self._prefix}"))
        return dict(sorted(found.items()))

    def _saved_at(self, thread_id: str, checkpoint_id: str) -> datetime:
        """Return the time by which a checkpoint is sorted; one that cannot be read comes first."""
        try:
            return self._load_checkpoint(thread_id, checkpoint_id, whole=False).saved_at
        except UNREADABLE:
            return _EPOCH

    def _load_checkpoint(
        self, thread_id: str, checkpoint_id: str, *, whole: bool = True
    ) -> StoredCheckpoint:
        key = f"{self._prefix}{thread_id}/{checkpoint_id}"
        stored = self._get_text(f"{key}.meta.json")
        meta = {} if stored is None else object_in(stored)
        document = object_in(self._get_text(f"{key}.json") or "null") if whole or not meta else meta
        at = _parse_time(document.get("created_at"))
        return StoredCheckpoint(document.get("state") or {}, at, meta.get("metadata") or {})

    def _get_text(self, key: str) -> str | None:
        try:
            found = self._client.get_object(Bucket=self._bucket, Key=key)
        except self._client.exceptions.NoSuchKey:
            return None
        return str(found["Body"].read(), "utf-8")


class Tables(Place):
    """Tables of `PgCheckpointer`, of the PostgreSQL backend and store, or of `HolographicStore`.

    Row-level security shows a role the rows of one tenant at most, unless it may bypass it. Where
    several tenants are seen, thread ids and namespaces begin with the tenant's name.
    """

    def __init__(self, tables: ForeignTables) -> None:
        self._tables = tables
        self._versioned = tables.like("", "tenant", "thread_id", "checkpoint_id", "seq", "data")
        self._key_values = [
            name
            for name in tables.like("", "thread_id", "checkpoint_id", "data", "updated_at")
            if name not in self._versioned
        ]
        self._stores = tables.like("", "ns", "key", "value", "metadata", "version", "content")

    @classmethod
    @asynccontextmanager
    async def open(cls, place: str, schema: str | None) -> AsyncIterator[Place]:
        """Open a database."""
        async with ForeignTables.open(place, schema=schema) as tables:
            found = cls(tables)
            if not (found._versioned or found._key_values or found._stores):
                raise NotFound("there are no tables of locus' in this database")
            yield found

    async def count(self) -> tuple[int, int]:
        """Count the threads and the items."""
        threads = sum([1 async for _ in self.threads()])
        return threads, sum([await self._tables.count(name) for name in self._stores])

    async def threads(self) -> AsyncIterator[StoredThread]:
        """Yield the threads of each table, by tenant and id."""
        for name in self._versioned:
            found: dict[tuple[str, str], list[str]] = {}
            columns = ("tenant", "thread_id", "checkpoint_id")
            async for row in self._tables.rows(name, "tenant", "thread_id", "seq", only=columns):
                found.setdefault((row["tenant"], row["thread_id"]), []).append(row["checkpoint_id"])
            several = len({tenant for tenant, _ in found}) > 1
            for (tenant, thread_id), ids in found.items():
                load = partial(self._load_checkpoint, name, tenant, thread_id)
                yield StoredThread(f"{tenant}/{thread_id}" if several else thread_id, ids, load)
        for name in self._key_values:
            async for thread in _TableOfKeys(self._tables, name).threads():
                yield thread

    async def items(self) -> AsyncIterator[StoredItem]:
        """Yield the items of each store."""
        for name in self._stores:
            tenants = set()
            if "tenant" in self._tables.columns(name):
                rows = self._tables.rows(name, "tenant", only=("tenant",))
                tenants = {row["tenant"] async for row in rows}
            async for row in self._tables.rows(name, "ns", "key"):
                tenant = [row["tenant"]] if len(tenants) > 1 else []
                yield repr(row["key"]), partial(_to_item, row, tenant)

    async def _load_checkpoint(
        self, name: str, tenant: str, thread_id: str, checkpoint_id: str
    ) -> StoredCheckpoint:
        chosen = {"tenant": tenant, "thread_id": thread_id, "checkpoint_id": checkpoint_id}
        async for row in self._tables.rows(name, "seq", where=chosen):
            stored = row["metadata"]
            metadata = {} if stored is None else object_in(stored)
            return StoredCheckpoint(
                object_in(row["data"]), _parse_time(row["created_at"]), metadata
            )
        raise Unusable(_NO_DOCUMENT)


class _TableOfKeys(_KeyValues):
    """Table of the PostgreSQL backend, whose column ``thread_id`` has the keys."""

    def __init__(self, tables: ForeignTables, name: str) -> None:
        self._tables, self._name = tables, name

    async def keys(self) -> list[str]:
        """Return all keys."""
        rows = self._tables.rows(self._name, "thread_id", only=("thread_id",))
        return [row["thread_id"] async for row in rows]

    async def get(self, key: str) -> dict[str, Any] | None:
        """Return the document of a key."""
        async for row in self._tables.rows(self._name, "thread_id", where={"thread_id": key}):
            return object_of(row["data"])
        return None


def _to_item(row: Row, tenant: list[str]) -> NewItem:
    """Return a row as an item, without its vector, which locus made in a way of its own."""
    value = row["value"]
    return NewItem(
        (*tenant, *text_field(row, "ns").split(_PARTS)),
        text_field(row, "key"),
        value_of(value),
        {} if row["metadata"] is None else object_in(row["metadata"]),
        created_at=_parse_time(row["created_at"]),
        updated_at=_parse_time(row["updated_at"]),
    )


def _checkpoint_of_file(thread_id: str, file: Path) -> StoredCheckpoint:
    document = _read_document(file)
    if (
        document["thread_id"] != thread_id
        or _escape_for_name(document["checkpoint_id"]) != file.stem
    ):
        raise Unusable("is in the place of another")
    at = to_utc(document["created_at"])
    return StoredCheckpoint(document["state"], at, document.get("metadata") or {})


def _read_document(file: Path) -> dict[str, Any]:
    """Return what a checkpoint's file holds.

    Raises:
        ValueError: it was cut off, or is none.
    """
    return object_in(file.read_bytes())


def _parse_time(stored: Any) -> datetime:
    return to_utc(stored) if stored else _EPOCH


def _split_options(place: str, *names: str) -> tuple[str, dict[str, str]]:
    """Split a URL into the part for the client, and the options of its query that are ours."""
    url = urlsplit(place)
    query = parse_qsl(url.query)
    rest = "&".join(f"{name}={value}" for name, value in query if name not in names)
    ours = {name: value for name, value in query if name in names}
    return urlunsplit(url._replace(query=rest)), ours


def _escape_for_redis(text: str) -> str:
    """Return Redis' pattern that matches *text* alone."""
    return "".join(f"\\{one}" if one in "*?[]^\\" else one for one in text)

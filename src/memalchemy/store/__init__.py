"""`Store`: values under (namespace, key), with versions, lifetimes, and search.

This file writes and reads single items. ``writing`` has the path of a put, ``queries`` that of a
read; ``listing`` and ``searching`` hold the rest, ``context`` narrower views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from memalchemy.codec.values import frozen, is_heavy, pointer_of
from memalchemy.contracts import UNSET, Seconds, StoreItem, Unset, check_position
from memalchemy.database import OFF_LOOP_BYTES, Database, HostConnection, check_database, off_loop
from memalchemy.events import operation
from memalchemy.keys import check_list, check_name
from memalchemy.metadata import check_metadata
from memalchemy.search.vectors import METRICS, Metric
from memalchemy.statements import Program
from memalchemy.store import queries, writing
from memalchemy.store.batches import Batches
from memalchemy.store.changing import (
    DELETE,
    LEAVE,
    Change,
    check_expected,
    not_as_expected,
    settled,
)
from memalchemy.store.embedding import Embedder, Index, check_field, no_embedder, rows_of
from memalchemy.store.searching import Searching
from memalchemy.store.shelf import (
    Lifetimes,
    Namespace,
    Settings,
    end_of_life,
    item_binds,
    lifetimes_of,
    stores_natively,
)
from memalchemy.store.writing import Expected, VectorRow

__all__ = ["DELETE", "LEAVE", "Store"]


MAX_PART = 2**31 - 1
"""Of a field in one item there are never as many."""


class Store(Batches, Searching):
    """Keeps values under a namespace and a key, and finds them by key, field, words and meaning.

    A namespace is a tuple of strings; any strings, and any key, are told apart. What is put is
    whole or absent. An item that has expired is not there any more, on any path.

    Args:
        db: where to keep them.
        embedder: a function of a list of texts that gives a vector for each. It may be a coroutine,
            and should be if it waits for anything: a plain one runs on the event loop.
        model: the name under which its vectors are kept: those of several lie side by side.
        index: what of a value is embedded where `put` does not say: all its texts, unless this
            names fields, or is false.
        metric: how vectors compare: ``cosine``, ``dot`` or ``l2``.
        index_text: make the words of values and metadata findable with `search`.
        index_metadata: the only fields of value and metadata that a filter shall find by an index:
            top-level keys, or JSON pointers. Without it each scalar field is, up to 64 of an item;
            with it writes are cheaper, and items with more fields are found by these as well.
        ttl: how long an item lives after a write, in seconds or as a timedelta; or a mapping of
            namespaces to that, which hold for all below them.
        refresh_ttl: reading an item lets it live for its ttl from then on.

    Every method takes ``connection=``, an `AsyncConnection` or `AsyncSession` of the host: the work
    is then part of the host's transaction, sees its own writes, and is gone after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        db: Database,
        *,
        embedder: Embedder | None = None,
        model: str = "default",
        index: Index = None,
        metric: Metric = "cosine",
        index_text: bool = True,
        index_metadata: Iterable[str] = (),
        ttl: Lifetimes = None,
        refresh_ttl: bool = False,
    ) -> None:
        self.db = check_database(db, self)
        if embedder is not None and not callable(embedder):
            raise TypeError("embedder is a function of a list of texts")
        if metric not in METRICS:
            raise ValueError(f"metric is one of {', '.join(METRICS)}, not {metric!r}")
        if index and embedder is None:
            raise no_embedder("index=")
        if index or (index is None and embedder is not None):
            db.keyring.check_reveals("vectors", "a store with an embedder", store="Store")
        self._settings = Settings(
            keyring=db.keyring,
            embedder=embedder,
            model=check_field(model),
            index=index if index is not None else embedder is not None,
            metric=metric,
            index_text=index_text,
            named=frozenset(pointer_of(name) for name in _names(index_metadata)),
            lifetimes=lifetimes_of(ttl),
            refresh_ttl=refresh_ttl,
        )

    def __repr__(self) -> str:
        return f"Store({self.db!r})"

    @property
    def embedder(self) -> Embedder | None:
        """The function that makes vectors of texts, if there is one."""
        return self._settings.embedder

    @property
    def metric(self) -> Metric:
        """How vectors compare."""
        return self._settings.metric

    async def put(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        index: Index = None,
        embedding: Any | None = None,
        ttl: Seconds | None = None,
        expected_version: Expected = UNSET,
        connection: HostConnection | None = None,
    ) -> int:
        """Write an item, and return its version: 1, or one more than it was.

        Of an item that is there, value, metadata, vectors and lifetime are replaced; it keeps the
        time of its creation. Vectors that it had, of any model, go; new ones may be given.

        Args:
            index: embed the whole value (true), nothing, or these fields: top-level keys, or JSON
                pointers; a list of texts gives a vector each. A field that is not there, or is
                misspelt, gives none, and that is no error: the event counts the ``vectors``.
            embedding: a vector; or vectors by field, or lists of them.
            ttl: how long it lives, if not as the store says; ``math.inf`` is for ever.
            expected_version: write only if the item is at this version; ``None``, if it is not
                there; or the `StoreItem` that was read, if it is still that one, and no other that
                was made under its key since.

        Raises:
            Conflict: it is not as expected; ``current`` is the item that is there, or ``None``.
            NotSerialisable, TooLarge: value, metadata, key or namespace cannot be stored.
            ValueError: a vector is zero, not finite, or of over 16,000 dimensions.
            StoreCapabilityError: vectors are wanted, and the database is encrypted and may hold
                none.
        """
        binds = item_binds(self.db, namespace, key)
        check_expected(expected_version)
        weight = _weight(value)
        if weight:  # the caller may change it while a thread encodes it
            value, embedding = frozen(value), frozen(embedding)
            metadata = check_metadata(metadata)
        given = tuple(namespace), value, metadata, ttl, datetime.now(UTC)
        row = binds | await off_loop(weight, lambda: self._settings.row(*given))
        vectors = await self._vectors(value, index, embedding)
        d = self.db.dialect
        with operation("store.put", **self._about(namespace)) as event:
            event.details["vectors"] = len(vectors)
            native = await stores_natively(self.db, vectors, connection, event)
            version = await self._write(
                lambda: writing.put(d, row, vectors, native, expected_version),
                connection,
                event,
                single=d.single_statement_save and not vectors,
            )
            event.payload_bytes = len(row["p_value"])
            if version is None:
                current = await self.get_item(namespace, key, refresh=False, connection=connection)
                raise not_as_expected(key, expected_version, current)
        return version

    async def put_with_embedding(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        embedding: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """`put` with a vector."""
        return await self.put(
            namespace, key, value, metadata, embedding=embedding, ttl=ttl, connection=connection
        )

    async def put_embedding(
        self,
        namespace: Namespace,
        key: str,
        embedding: Any,
        *,
        model: str | None = None,
        expected_version: int | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> bool:
        """Give an item that is there vectors of another model, or new ones; whether it was there.

        Those it had of that *model* go, those of others stay, and so do its value and version.
        `put` drops them all: they were of the value before. *embedding* is as `put` takes it.

        Raises:
            Conflict: it is not at *expected_version*, the one that the vectors were made of.
            ValueError: a vector is zero, not finite, or of over 16,000 dimensions.
        """
        check_expected(expected_version, or_item=False)
        name = self._settings.model_of(model)
        self.db.keyring.check_reveals("vectors", "embedding=", store="Store")
        vectors = rows_of(embedding, name)
        values = item_binds(self.db, namespace, key) | {"p_now": datetime.now(UTC)}
        d = self.db.dialect
        with operation("store.put", **self._about(namespace)) as event:
            event.details["vectors"] = len(vectors)
            native = await stores_natively(self.db, vectors, connection, event)
            version = await self._write(
                lambda: writing.add_vectors(d, values, vectors, native, expected_version),
                connection,
                event,
            )
            if expected_version is not UNSET and version != expected_version:
                current = await self.get_item(namespace, key, refresh=False, connection=connection)
                raise not_as_expected(key, expected_version, current)
        return version is not None

    async def get(
        self,
        namespace: Namespace,
        key: str,
        *,
        refresh: bool | None = None,
        connection: HostConnection | None = None,
    ) -> Any | None:
        """The value, or ``None`` if there is none; `exists` tells a stored ``None`` from that.

        Every call builds new objects. With *refresh* the item lives on for its ttl from now.
        """
        item = await self.get_item(namespace, key, refresh=refresh, connection=connection)
        return None if item is None else item.value

    async def get_item(
        self,
        namespace: Namespace,
        key: str,
        *,
        refresh: bool | None = None,
        connection: HostConnection | None = None,
    ) -> StoreItem | None:
        """The value with all that is known of it, or ``None``.

        Raises:
            Corrupt: what is stored does not match its checksum.
            KeyMissing, NotEncrypted: the database's keys are not those of what is stored.
        """
        binds = item_binds(self.db, namespace, key)
        statement = queries.read_item(self.db.dialect)
        with operation("store.get", **self._about(namespace)) as event:
            rows = await self._rows(statement, binds, connection, event)
            if not rows:
                return None
            event.payload_bytes = len(rows[0].value)
            item = await off_loop(
                len(rows[0].value), partial(queries.item, rows[0], self.db.keyring)
            )
        wanted = self._settings.refresh_ttl if refresh is None else refresh
        if wanted and rows[0].lifetime is not None and not self.db.read_only:
            return await self._prolonged(item, binds, rows[0].lifetime, connection)
        return item

    async def exists(
        self, namespace: Namespace, key: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Whether the item is there, whatever its value; does not prolong its life."""
        binds, statement = item_binds(self.db, namespace, key), queries.has_item(self.db.dialect)
        with operation("store.get", **self._about(namespace)) as event:
            return bool(await self._rows(statement, binds, connection, event))

    async def delete(
        self,
        namespace: Namespace,
        key: str,
        *,
        expected_version: int | StoreItem | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> bool:
        """Remove an item with its vectors; whether it was there.

        Raises:
            Conflict: it is not as *expected_version* says, a version or the `StoreItem` that was
                read; ``current`` is what is there, or ``None``.
        """
        binds = item_binds(self.db, namespace, key)
        if expected_version is None:
            raise TypeError("expected_version of a delete is a version")
        check_expected(expected_version)
        which, expected = writing.as_expected(expected_version)
        values = binds | expected | {"p_now": datetime.now(UTC)}

        def program() -> Program[bool | None]:
            rows = yield writing.remove_item(self.db.dialect, expected=which), values
            return _is_alive(rows[0].expires_at, values["p_now"]) if rows else None

        with operation("store.delete", **self._about(namespace)) as event:
            was_there = await self._write(program, connection, event, payloads=False)
            if was_there is None and which != "any":
                current = await self.get_item(namespace, key, refresh=False, connection=connection)
                raise not_as_expected(key, expected_version, current)
        return bool(was_there)

    async def change(
        self,
        namespace: Namespace,
        key: str,
        function: Change,
        *,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        index: Index = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> Any | None:
        """Make a new value of the item that is there, and lose nothing of what others write.

        *function* takes the `StoreItem`, or ``None`` if there is none. It gives the new value,
        ``LEAVE`` to change nothing, or ``DELETE``; it may be a coroutine. Where others write the
        item meanwhile it is called again, with what they wrote, so it should do nothing else. What
        it raises comes out, and nothing was changed.

        Returns the value that is there then; ``None`` without one.

        Args:
            metadata: the new metadata; what it had, if not given.
            index, ttl: as for `put`, of which this is one.

        Raises:
            Conflict: the transaction of *connection* does not see what others have written, so that
                no new value could be made of it.
        """
        where = (namespace, key)

        async def write(item: StoreItem | None, value: Any) -> None:
            if value is DELETE and item is not None:
                await self.delete(*where, expected_version=item, connection=connection)
            elif value is not LEAVE and value is not DELETE:
                kept = item.metadata if metadata is UNSET and item is not None else metadata
                await self.put(
                    *where,
                    value,
                    None if kept is UNSET else kept,
                    index=index,
                    ttl=ttl,
                    expected_version=item,
                    connection=connection,
                )

        read = await self.get_item(*where, refresh=False, connection=connection)
        return await settled(read, function, write, in_transaction=connection is not None)

    async def get_embedding(
        self,
        namespace: Namespace,
        key: str,
        *,
        field: str = "",
        part: int = 0,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[float] | None:
        """A vector of an item, as it was given but for the precision of float32; or ``None``.

        Without *field* that of the whole value. *part* counts from 0, *model* is the store's.
        """
        binds = item_binds(self.db, namespace, key) | {
            "p_field": check_field(field),
            "p_part": check_position(part, "part", MAX_PART),
            "p_model": self._settings.model_of(model),
        }
        statement = queries.read_vector(self.db.dialect)
        with operation("store.get", **self._about(namespace)) as event:
            rows = await self._rows(statement, binds, connection, event)
        return [float(number) for number in rows[0].vector] if rows else None

    async def close(self) -> None:
        """Nothing to do: connections are the database's. Part of the contract."""

    async def _vectors(self, value: Any, index: Index, embedding: Any | None) -> list[VectorRow]:
        if embedding is not None:
            if index:
                raise TypeError("give index= or embedding=, not both")
            self.db.keyring.check_reveals("vectors", "embedding=", store="Store")
            return rows_of(embedding, self._settings.model)
        (vectors,) = await self._settings.vectors_of([value], index)
        return vectors

    async def _prolonged(
        self,
        item: StoreItem,
        binds: Mapping[str, Any],
        lifetime: int,
        connection: HostConnection | None,
    ) -> StoreItem:
        now = datetime.now(UTC)
        expires = end_of_life(now, lifetime, item.key)
        values = dict(binds) | {
            "p_now": now,
            "p_expires_at": expires,
            "p_lifetime": lifetime,
            "p_version": item.version,
        }

        def program() -> Program[int]:
            return (yield writing.prolong_item(self.db.dialect), values).touched

        with operation("store.refresh", **self._about(item.namespace)) as event:
            single = self.db.dialect.autocommits
            touched = await self._write(program, connection, event, single=single, payloads=False)
        return replace(item, expires_at=expires) if touched else item


def _is_alive(expires_at: datetime | None, now: datetime) -> bool:
    return expires_at is None or expires_at > now


def _names(fields: Iterable[str]) -> list[str]:
    given = check_list(fields, "index_metadata")
    return [check_name(field, "a field of index_metadata") for field in given]


def _weight(value: Any) -> int:
    """A guess of how long a value takes to encode, in bytes of a state."""
    if isinstance(value, (str, bytes)):
        return len(value)
    return OFF_LOOP_BYTES if is_heavy([value]) else 0

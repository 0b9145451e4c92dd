"""`Store`: values under (namespace, key), with versions, lifetimes, and search.

The modules beside this one hold the statements and programs: ``write`` and ``read``. ``roads``
chooses how items reach the database; ``item_reader`` and ``item_search`` page, narrow and rank.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from memalchemy._changes import ItemChange, function_errors
from memalchemy._json_pointers import pointer_of
from memalchemy._locked_retry import retry_with_lock
from memalchemy._retry import retry_on_conflict
from memalchemy.codec.values import frozen, is_heavy
from memalchemy.contracts import (
    DELETE,
    LEAVE,
    UNSET,
    ItemOrder,
    Match,
    NewItem,
    Progress,
    ReembedReport,
    SearchHit,
    SearchHits,
    SearchMode,
    SearchPlan,
    Seconds,
    SemanticSearchResult,
    StoreCapabilities,
    StoreItem,
    Unset,
    check_callable,
    check_flag,
    check_limit,
    check_match,
    check_position,
    check_query,
    check_time,
)
from memalchemy.database import (
    OFF_LOOP_BYTES,
    READ,
    WRITE,
    WRITE_ROWS,
    WRITE_ROWS_STATEMENT,
    Database,
    HostConnection,
    check_database,
    off_loop,
    run_check,
)
from memalchemy.database.replica import on_primary
from memalchemy.database.sqlite.shrink import overwrite_deleted_bytes
from memalchemy.dialects import MAX_LISTED
from memalchemy.errors import (
    AnsweredByWordsWarning,
    Conflict,
    InvalidArgument,
    MemalchemyError,
)
from memalchemy.events import Event, operation
from memalchemy.filters import Filter
from memalchemy.keys import (
    INTERNAL_RANGE,
    check_list,
    check_name,
    decode_namespace,
    encode_namespace,
)
from memalchemy.log.scan import run_query, scan
from memalchemy.metadata import check_metadata
from memalchemy.protection.found_items import check_vectors
from memalchemy.protection.proven_jobs import Damage, each_proven
from memalchemy.protection.signed_items import check_vector_sets
from memalchemy.search._vector_statements import vectors_of_items
from memalchemy.search.diversity import diversify, pool_size
from memalchemy.search.hybrid import check_fraction, check_threshold
from memalchemy.search.kept_http_answers import forget_kept_answers
from memalchemy.search.missing_items import hold_missing_items
from memalchemy.search.scope import Place, key_lists, scope_binds
from memalchemy.search.vectors import METRICS, Metric, check_vector
from memalchemy.statements import Program
from memalchemy.store import read, write
from memalchemy.store.compare_and_swap import (
    Change,
    check_expected,
    item_conflict,
)
from memalchemy.store.embedding import (
    Embedder,
    Index,
    check_field,
    check_index,
    embed,
    missing_embedder,
    vector_rows,
)
from memalchemy.store.item_reader import ItemReader, take_first
from memalchemy.store.item_search import ItemSearch
from memalchemy.store.reembedding import Reembedding, Wanted, items_passed_over
from memalchemy.store.roads import ItemRoads
from memalchemy.store.settings import (
    Lifetimes,
    Namespace,
    Settings,
    expiry_time,
    item_binds,
    parse_lifetimes,
    writes_native_vectors,
)
from memalchemy.store.write import Expected, Row, VectorRow, place_of

T = TypeVar("T")

MAX_PART = 2**31 - 1
"""More parts than a field of one item ever has."""

MODES = ("text", "vector", "hybrid")

IF_EXISTS = ("replace", "skip", "fail")
"""Ways in which a batch treats an item that exists."""

Batch = Iterable[Sequence[Any] | NewItem]
"""``(namespace, key, value)``, ``(namespace, key, value, metadata)`` or a `NewItem`."""

BYTES_EACH = 10_000
"""An estimate of how long an item takes to encode, in bytes of a state."""

Name = tuple[tuple[str, ...], str]
"""The namespace and the key of an item."""


ITEM_PAGE = 500
"""The default number of items of a page of `Store.iter_items`."""


class Store:
    """Store values under a namespace and a key, and find them by key, field, words and meaning.

        store = Store(db)
        await store.put(("users", "ada"), "city", {"name": "Oslo"}, {"source": "chat"})
        value = await store.get(("users", "ada"), "city")
        hits = await store.search(("users", "ada"), "oslo")

    A namespace is a tuple of strings; any strings, and any key, are told apart. A put is whole or
    absent. An item that has expired does not exist any more, for any method.

    Args:
        db: the database.
        embedder: a function of a list of texts that returns a vector for each. It may be a
            coroutine function, and should be if it waits for anything: a plain one runs on the
            event loop.
        model: the name under which its vectors are stored; vectors of several models lie side by
            side.
        index: the part of a value that is embedded where `put` does not say: all its texts, unless
            this names fields, or is false.
        metric: the measure that compares vectors: ``cosine``, ``dot`` or ``l2``.
        index_text: let `search` find the words of values and metadata.
        index_metadata: the only fields of value and metadata for which filters use an index:
            top-level keys, or JSON pointers. Without it each scalar field has one, up to 64 of an
            item; with it writes are cheaper, and items with more fields are found by these as well.
        ttl: the lifetime of an item after a write, in seconds or as a timedelta; or a mapping of
            namespaces to lifetimes, which hold for all below them.
        refresh_ttl: reading an item extends its life by its ttl from then on.

    Every method takes ``connection=``, an `AsyncConnection` or `AsyncSession` of the host: the work
    is then part of the host's transaction, sees its own writes, and is gone after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    db: Database

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
            raise missing_embedder("index=")
        if index or (index is None and embedder is not None):
            db.keyring.check_readable("vectors", "a store with an embedder", store="Store")
        self._settings = Settings(
            keyring=db.keyring,
            embedder=embedder,
            model=check_field(model),
            index=index if index is not None else embedder is not None,
            metric=metric,
            index_text=index_text,
            indexed_fields=frozenset(
                pointer_of(name) for name in _check_field_names(index_metadata)
            ),
            lifetimes=parse_lifetimes(ttl),
            refresh_ttl=refresh_ttl,
        )
        self._roads = ItemRoads(self.db)

    def __repr__(self) -> str:
        return f"Store({self.db!r})"

    @property
    def embedder(self) -> Embedder | None:
        """Function that makes vectors of texts, if there is one."""
        return self._settings.embedder

    @property
    def settings(self) -> Settings:
        """Settings by which it writes and searches."""
        return self._settings

    @property
    def metric(self) -> Metric:
        """Measure that compares vectors."""
        return self._settings.metric

    @property
    def capabilities(self) -> StoreCapabilities:
        """Features of this store: all, but no search in data that may not be stored readable."""
        return StoreCapabilities(
            search=self.db.keyring.is_readable("text"),
            semantic_search=self.db.keyring.is_readable("vectors"),
            ttl=True,
            list_namespaces=True,
            batch_operations=True,
            transactions=True,
        )

    async def close(self) -> None:
        """Do nothing: the connections are the database's. The contract has this method."""

    # --- Writing ----------------------------------------------------------------------------------

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
        updated_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Write an item, and return its version: 1, or one more than before.

        An existing item gets a new value, metadata, vectors and lifetime; it keeps the time of its
        creation. Its earlier vectors, of any model, are removed.

        Args:
            index: embed the whole value (true), nothing (false), or these fields: top-level keys,
                or JSON pointers; a list of texts gives a vector each. A missing or misspelt field
                gives none, which is no error: the event counts the ``vectors``.
            embedding: a vector; or vectors by field, or lists of them.
            ttl: its lifetime, if not that of the store; ``math.inf`` is for ever.
            expected_version: write only if the item is at this version; ``None``: only if it does
                not exist; a `StoreItem` that was read: only if it is still that one, and no other
                that was made under its key since.
            updated_at: the time of the write, an aware datetime, if not now. Listings go by it; of
                a new item it is ``created_at``, too. The lifetime begins now all the same.

        Raises:
            Conflict: the item is not as expected; ``current`` is the existing item, or ``None``.
            NotSerialisable, TooLarge: value, metadata, key or namespace cannot be stored.
            ValueError: a vector is zero, not finite, or of over 16,000 dimensions; *updated_at* has
                no time zone.
            StoreCapabilityError: vectors are wanted, and the database is encrypted and may hold
                none.
        """
        binds = item_binds(self.db, namespace, key)
        check_expected(expected_version)
        times = {} if updated_at is None else {"p_updated_at": check_time(updated_at, "updated_at")}
        weight = _encoding_size(value)
        if weight:  # the caller may change it while a thread encodes it
            value, embedding = frozen(value), frozen(embedding)
            metadata = check_metadata(metadata)
        given = tuple(namespace), value, metadata, ttl, datetime.now(UTC)
        row = binds | await off_loop(weight, lambda: self._settings.row(*given)) | times
        vectors = await self._vectors(value, index, embedding)
        with operation("store.put", **self._about(namespace)) as event:
            event.details["vectors"] = len(vectors)
            native = await writes_native_vectors(self.db, vectors, connection, event)
            version = await self._roads.send(
                row, vectors, native, expected_version, connection, event
            )
            event.payload_bytes = len(row["p_value"])
            if version is None:
                current = await self.get_item(namespace, key, refresh=False, connection=connection)
                raise item_conflict(key, expected_version, current)
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
        """Write an item with a vector, as `put`."""
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
        """Give an existing item vectors of another model, or new ones; return whether it exists.

        Its vectors of that *model* are replaced, those of others stay, and so do its value and
        version. `put` removes them all: they were of the value before. *embedding* is as `put`
        takes it.

        Raises:
            Conflict: the item is not at *expected_version*, the one that the vectors were made of.
            ValueError: a vector is zero, not finite, or of over 16,000 dimensions.
        """
        check_expected(expected_version, or_item=False)
        name = self._settings.model_of(model)
        self.db.keyring.check_readable("vectors", "embedding=", store="Store")
        vectors = vector_rows(embedding, name)
        values = item_binds(self.db, namespace, key) | {"p_now": datetime.now(UTC)}
        d = self.db.dialect
        with operation("store.put", **self._about(namespace)) as event:
            event.details["vectors"] = len(vectors)
            native = await writes_native_vectors(self.db, vectors, connection, event)
            version = await self.db.run(
                lambda: write.add_vectors(d, values, name, vectors, native, expected_version),
                WRITE,
                connection=connection,
                event=event,
            )
            if expected_version is not UNSET and version != expected_version:
                current = await self.get_item(namespace, key, refresh=False, connection=connection)
                raise item_conflict(key, expected_version, current)
        return version is not None

    async def put_batch(
        self,
        items: Batch,
        *,
        ttl: Seconds | None = None,
        index: Index = None,
        if_exists: str = "replace",
        keep_vectors: bool = False,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Write items, all or none, as `put` writes one; return their versions, in the order given.

        Each is ``(namespace, key, value)``, ``(namespace, key, value, metadata)`` or a `NewItem`,
        which may have a lifetime, vectors and an *index* of its own. Of two with the same key the
        last counts. The embedder is called once for all items with the same *index*.

        Args:
            if_exists: ``replace`` an existing item, ``skip`` the new one, whose version is 0 then,
                or ``fail``. Of two of a batch with the same key, the second one is skipped or
                fails, too.
            keep_vectors: leave the vectors of existing items as they are, of values whose embedded
                text did not change; no item has vectors of its own then, and nothing is embedded.

        Raises:
            Conflict: *if_exists* is ``fail``, and an item exists; nothing was written.
            NotSerialisable, TooLarge, TypeError: one of them cannot be stored; nothing was written.
            StoreCapabilityError: *index* is given, and there is no embedder.
        """
        if if_exists not in IF_EXISTS:
            raise ValueError(f"if_exists is one of {', '.join(IF_EXISTS)}, not {if_exists!r}")
        given = [_new_item(one) for one in check_list(items, "items")]
        if check_flag(keep_vectors, "keep_vectors"):
            if index or any(one.index or one.embedding is not None for one in given):
                raise TypeError("give keep_vectors=, or new vectors by index= or embedding=")
            index, given = False, [replace(one, index=False) for one in given]
        now = datetime.now(UTC)
        weight = len(given) * BYTES_EACH
        rows = await off_loop(weight, partial(self._prepared, given, ttl, now))
        vectors = await self._vectors_of_batch(given, index)
        places = [place_of(row) for row in rows]
        replaces = if_exists == "replace"
        ordered = list(zip(places, zip(rows, vectors, given, strict=True), strict=True))
        chosen = dict(ordered if replaces else reversed(ordered))
        if if_exists == "fail" and len(chosen) < len(places):
            twice = next(place for place in places if places.count(place) > 1)
            raise _exists_already(twice, "twice in the batch")
        last = [(row, of) for row, of, _ in chosen.values()]
        d = self.db.dialect

        with operation("store.put", tenant=self.db.tenant) as event:
            some = next((of for of in vectors if of), [])
            native = await writes_native_vectors(self.db, some, connection, event)

            def program() -> Program[dict[Place, int]]:
                expected = "any" if replaces else "none"
                versions = yield from self._roads.put_batch(last, native, expected, keep_vectors)
                if if_exists == "fail" and len(versions) < len(chosen):
                    there = next(place for place in places if place not in versions)
                    raise _exists_already(there, "there already")
                dated = [
                    _times(row, one)
                    for place, (row, _, one) in chosen.items()
                    if place in versions and _has_times(one)
                ]
                if dated:
                    yield write.set_item_times(d), dated
                return versions

            event.details["items"] = len(last)
            event.details["vectors"] = sum(len(of) for _, of in last)
            event.payload_bytes = sum(len(row["p_value"]) for row, _ in last)
            versions = {}
            if last:
                versions = await self.db.run(program, WRITE, connection=connection, event=event)
        if replaces:
            return [versions[place] for place in places]
        return [versions.pop(place, 0) for place in places]

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
        """Change an item with a function of its current state, and lose no write of others.

        *function* takes the `StoreItem`, or ``None`` if there is none. It returns the new value,
        ``LEAVE`` to change nothing, or ``DELETE``; it may be a coroutine function. If others write
        the item meanwhile it is called again, with what they wrote, so it should do nothing else.
        The item is locked then, and nobody else is faster again; it is not locked for a coroutine
        function or an embedder, which may take long. An exception that the function raises passes
        through, and nothing is changed.

        Returns the value that is there then; ``None`` without one.

        Args:
            metadata: the new metadata; without it the metadata stays.
            index, ttl: as for `put`.

        Raises:
            Conflict: others were faster 20 times, with an item that could not be locked; or the
                transaction of *connection* does not see what they have written. Nothing was
                changed.
        """
        where, target = (namespace, key), f"the item {key!r}"
        change = ItemChange(function)

        async def write(tx: HostConnection | None, item: StoreItem | None, value: Any) -> None:
            if value is DELETE and item is not None:
                await self.delete(*where, expected_version=item, connection=tx)
            elif value is not LEAVE and value is not DELETE:
                kept = item.metadata if metadata is UNSET and item is not None else metadata
                await self.put(
                    *where,
                    value,
                    None if kept is UNSET else kept,
                    index=index,
                    ttl=ttl,
                    expected_version=item,
                    connection=tx,
                )

        async def attempt(tx: HostConnection | None) -> Any:
            item = await self.get_item(*where, refresh=False, connection=tx)
            return await change.apply(item, partial(write, tx))

        with function_errors():
            try:
                return await attempt(connection)
            except Conflict:
                if change.is_awaitable or self.embedder is not None:
                    return await retry_on_conflict(partial(attempt, connection), target)
                lock = partial(self.hold, [where])
                return await retry_with_lock(self.db, lock, attempt, target, connection)

    async def reembed(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        index: Index = None,
        again: bool = False,
        only_embedded: bool = False,
        replace_model: str | None = None,
        batch_size: int = 100,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> ReembedReport:
        """Give the items of the namespace the vectors of the store's model that they lack.

        These are items without vectors, such as imported ones, and those whose vectors are of
        another model, or of another size than the embedder makes. Values, versions and times stay.
        Others may read and write meanwhile: an item that they change is embedded as it is then.
        Each batch is one transaction. A run that ends early continues when it is run again, and
        several may work at once. An item that cannot be read, or that the embedder refuses, is left
        as it is and named; the others are embedded.

        Args:
            prefix: also embed the items below the namespace; of ``()`` these are all of the tenant.
            index: what is embedded of a value, as in `put`. Without it, of an item that has vectors
                the fields that they are of, and of another what the store embeds. With it all
                vectors of the model that an item has are replaced, otherwise those of the fields
                that have text.
            again: also embed items that have vectors of the model, because the embedder makes
                others now. A run that ends early continues, too, as long as the embedder makes the
                same vectors; one under another *model* compares no vectors of two embedders.
            only_embedded: leave items that have no vectors at all, which may be on purpose.
            replace_model: delete the vectors of this model from items that have those of the
                store's.
            batch_size: the largest number of texts of one call of the embedder, and of items of one
                transaction.
            dry_run: change nothing; say what would be done. The embedder is called once, for the
                size of its vectors.
            progress: called with items done, and in all, as they were at the start.

        Raises:
            StoreCapabilityError: there is no embedder, or the database is encrypted and may hold no
                vectors.
            EmbedderFailed: the embedder does not work, or refuses three items in a row.
            ReadOnly: the database was opened read-only, and this is no *dry_run*.
        """
        settings = self._settings
        if settings.embedder is None:
            raise missing_embedder("reembed")
        self.db.keyring.check_readable("vectors", "reembed", store="Store")
        check_index(index)
        for field in index if index and not isinstance(index, bool) else ():
            check_field(field)
        if index is not None and not index:
            raise InvalidArgument("index says what is embedded; reembed embeds something")
        if replace_model is not None and check_field(replace_model) == settings.model:
            raise InvalidArgument(
                f"the store's model is {replace_model!r} itself; again=True replaces its vectors"
            )
        if not check_limit(batch_size, "batch_size"):
            raise InvalidArgument("batch_size must be at least 1")
        wanted = Wanted(
            encode_namespace(namespace),
            check_flag(prefix, "prefix"),
            index if index is None or isinstance(index, bool) else tuple(index),
            check_flag(again, "again"),
            check_flag(only_embedded, "only_embedded"),
            replace_model,
        )
        if not check_flag(dry_run, "dry_run"):
            self.db.check_writable()
        with operation("store.reembed", **self._about(namespace)) as event:
            run = Reembedding(
                self.db,
                settings,
                settings.embedder,
                wanted,
                batch_size,
                dry_run,
                event,
                progress,
            )
            return await run.run(notes=Store(self.db, index_text=False))

    # --- Reading ----------------------------------------------------------------------------------

    async def get(
        self,
        namespace: Namespace,
        key: str,
        *,
        refresh: bool | None = None,
        connection: HostConnection | None = None,
    ) -> Any | None:
        """The value, or ``None`` if there is none; `exists` tells a stored ``None`` from that.

        Every call builds new objects. With *refresh* the item's ttl begins again now, except on a
        read-only database.
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
        """Return the item, with metadata, times and version, or ``None``.

        Raises:
            Corrupt: the stored value does not match its checksum.
            KeyMissing, NotEncrypted: the database's keys are not those of the stored value.
        """
        binds = item_binds(self.db, namespace, key)
        statement = read.read_item(self.db.dialect)
        with operation("store.get", **self._about(namespace)) as event:
            rows = await self._rows(statement, binds, connection, event)
            if not rows:
                await self._hold_missing([place_of(binds)], connection)
                return None
            event.payload_bytes = len(rows[0].value)
            item = await off_loop(
                len(rows[0].value), partial(read.to_item, self.db.tenant, rows[0], self.db.keyring)
            )
        wanted = self._settings.refresh_ttl if refresh is None else refresh
        if wanted and rows[0].lifetime is not None and not self.db.read_only:
            return await self._extend_lifetime(item, binds, rows[0].lifetime, connection)
        return item

    async def get_batch(
        self, keys: Iterable[tuple[Namespace, str]], *, connection: HostConnection | None = None
    ) -> dict[Name, Any]:
        """The values of the given ``(namespace, key)`` that exist. Does not extend their lives."""
        found = await self.get_items(keys, refresh=False, connection=connection)
        return {name: item.value for name, item in found.items()}

    async def get_items(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        refresh: bool | None = None,
        connection: HostConnection | None = None,
    ) -> dict[Name, StoreItem]:
        """Return the items of the given ``(namespace, key)`` that exist, in the order of *keys*.

        With *refresh* the ttl of each begins again now, as in `get_item`: nothing is extended on a
        read-only database.
        """
        wanted = self._places(keys)
        found: dict[Name, StoreItem] = {}
        ending: list[Any] = []
        statement = read.read_items(self.db.dialect, words=False)
        with operation("store.get", tenant=self.db.tenant) as event:
            for listed in key_lists(self.db.dialect, wanted):
                binds = {"k_tenant": self.db.tenant} | listed
                for row in await self._rows(statement, binds, connection, event):
                    event.payload_bytes += len(row.value)
                    name = wanted[row.namespace, row.key]
                    found[name] = read.to_item(self.db.tenant, row, self.db.keyring)
                    if row.lifetime is not None:
                        ending.append(row)
            absent = [place for place, name in wanted.items() if name not in found]
            await self._hold_missing(absent, connection)
        wants = self._settings.refresh_ttl if refresh is None else refresh
        if ending and wants and not self.db.read_only:
            for prolonged in await self._extend_lifetimes(ending, connection):
                item = found[wanted[place_of(prolonged)]]
                if item.expires_at is not None and item.expires_at < prolonged["p_expires_at"]:
                    later = replace(item, expires_at=prolonged["p_expires_at"])
                    found[item.namespace, item.key] = later
        return {name: found[name] for name in wanted.values() if name in found}

    async def exists(
        self, namespace: Namespace, key: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Return whether the item exists, whatever its value; does not extend its life."""
        binds, statement = item_binds(self.db, namespace, key), read.has_item(self.db.dialect)
        with operation("store.get", **self._about(namespace)) as event:
            if await self._rows(statement, binds, connection, event):
                return True
            await self._hold_missing([place_of(binds)], connection)
        return False

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
        """Return a vector of an item, in the precision of float32; ``None`` if there is none.

        Without *field* that of the whole value. *part* counts from 0; without *model*, the store's.
        """
        binds = item_binds(self.db, namespace, key) | {
            "p_field": check_field(field),
            "p_part": check_position(part, "part", MAX_PART),
            "p_model": self._settings.model_of(model),
        }
        statement = read.read_vector(self.db.dialect)
        with operation("store.get", **self._about(namespace)) as event:
            rows = await self._rows(statement, binds, connection, event)
            check_vectors(self.db.tenant, rows, self.db.signing)
            if not rows:
                await self._hold_vectors([place_of(binds)], connection)
        return [float(number) for number in rows[0].vector] if rows else None

    async def refresh(
        self, keys: Iterable[tuple[Namespace, str]], *, connection: HostConnection | None = None
    ) -> int:
        """Begin the ttl of the given items anew; return the number of items that have one.

        Of two that do so at once, the later end holds. Items without a ttl stay as they are.
        """
        wanted = self._places(keys)
        ending: list[Any] = []
        statement = read.list_lifetimes(self.db.dialect)
        for listed in key_lists(self.db.dialect, wanted):
            binds = {"k_tenant": self.db.tenant} | listed
            ending += await self._rows(statement, binds, connection)
        if ending:
            await self._extend_lifetimes(ending, connection)
        return len(ending)

    async def get_embeddings(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> dict[Name, list[float]]:
        """Return the vectors of the whole values of items, as `get_embedding` returns one.

        An item without one is left out. Of a value with several texts it is the vector of the
        first.
        """
        wanted, name = self._places(keys), self._settings.model_of(model)
        d, signing = self.db.dialect, self.db.signing
        statement = vectors_of_items(d, as_stored=False, alive=True)
        now = datetime.now(UTC)
        found: dict[Name, list[float]] = {}
        with operation("store.get", tenant=self.db.tenant) as event:
            for listed in key_lists(d, wanted):
                binds = {"k_tenant": self.db.tenant, "p_now": now} | listed
                rows = await self._rows(statement, binds, connection, event)
                whole = [r for r in rows if r.model == name and not r.part and r.field == ""]
                check_vectors(self.db.tenant, whole, signing)
                for row in whole:
                    place = wanted[row.namespace, row.key]
                    found[place] = [float(number) for number in row.vector]
            absent = [place for place, one in wanted.items() if one not in found]
            await self._hold_vectors(absent, connection)
        return found

    async def hold(self, keys: Iterable[tuple[Namespace, str]], connection: HostConnection) -> int:
        """Lock items until the transaction of *connection* ends; return the number that exist.

        Nobody else writes or deletes them meanwhile, so that what is read then in the transaction
        is what it changes. Items that do not exist are not locked.
        """
        wanted, d = self._places(keys), self.db.dialect
        binds = {"k_tenant": self.db.tenant, "p_now": datetime.now(UTC)}

        def program() -> Program[int]:
            return len((yield from write.lock_listed(d, wanted, binds)))

        with operation("store.get", tenant=self.db.tenant) as event:
            return await self.db.run(program, WRITE_ROWS, connection=connection, event=event)

    # --- Removing ---------------------------------------------------------------------------------

    async def delete(
        self,
        namespace: Namespace,
        key: str,
        *,
        expected_version: int | StoreItem | Unset = UNSET,
        connection: HostConnection | None = None,
    ) -> bool:
        """Delete an item with its vectors; return whether it existed.

        Raises:
            Conflict: the item is not at *expected_version*, a version or the `StoreItem` that was
                read; ``current`` is the existing item, or ``None``.
        """
        binds = item_binds(self.db, namespace, key)
        check_expected(expected_version, of_delete=True)
        which, expected = write.expectation(expected_version)
        values = binds | expected | {"p_now": datetime.now(UTC)}

        def program() -> Program[bool | None]:
            rows = yield write.delete_item(self.db.dialect, expected=which), values
            return _is_alive(rows[0].expires_at, values["p_now"]) if rows else None

        with operation("store.delete", **self._about(namespace)) as event:
            was_there = await self.db.run(program, WRITE_ROWS, connection=connection, event=event)
            if was_there is None and which != "any":
                current = await self.get_item(namespace, key, refresh=False, connection=connection)
                raise item_conflict(key, expected_version, current)
        return bool(was_there)

    async def delete_batch(
        self, keys: Iterable[tuple[Namespace, str]], *, connection: HostConnection | None = None
    ) -> int:
        """Delete items with their vectors, in one transaction; return the number that existed."""
        wanted, d = self._places(keys), self.db.dialect
        binds = {"k_tenant": self.db.tenant, "p_now": datetime.now(UTC)}

        def program() -> Program[int]:
            gone = 0
            for listed in key_lists(d, sorted(wanted)):
                gone += (yield write.delete_items(d), binds | listed).touched
            return gone

        with operation("store.delete", tenant=self.db.tenant) as event:
            event.details["items"] = len(wanted)
            if not wanted:
                return 0
            return await self.db.run(program, WRITE_ROWS, connection=connection, event=event)

    async def delete_matching(
        self,
        namespace: Namespace,
        filter: Mapping[str, Any],
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete the items of the namespace that *filter* accepts, and return their number.

        In one transaction. With *prefix* those below the namespace as well. An item that others
        change meanwhile is deleted if it still matches; one that they add meanwhile may stay.

        Raises:
            ValueError: the filter is empty: `clear_namespace` deletes everything.
        """

        async def delete(items: list[StoreItem], tx: HostConnection) -> None:
            await self.delete_batch([(one.namespace, one.key) for one in items], connection=tx)

        return await self.change_matching(
            namespace, filter, delete, prefix=prefix, connection=connection
        )

    async def change_matching(
        self,
        namespace: Namespace,
        filter: Mapping[str, Any],
        work: Callable[[list[StoreItem], HostConnection], Awaitable[None]],
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Let *work* change the items that *filter* accepts, in one transaction; return how many.

        *work* is called with up to 500 items at a time, by namespace and key, and the transaction,
        which it gives as ``connection=`` to the methods that it calls. The items are locked, and as
        they are then: no change of others is lost, and what does not match any more is left out.

        Raises:
            ValueError: the filter is empty.
        """
        check_callable(work, "work", "some items and a connection")
        accepts = Filter.parse(filter)
        if accepts is None:
            raise InvalidArgument(
                "the filter is empty: it would accept every item of the namespace"
            )
        items = on_primary(self).iter_items(
            namespace, prefix=prefix, filter=filter, order="key", connection=connection
        )
        async with aclosing(items):
            found = [(item.namespace, item.key) async for item in items]
        if not found:
            return 0
        changed = 0
        given = nullcontext(connection) if connection is not None else self.db.transaction()
        async with given as tx:
            for start in range(0, len(found), ITEM_PAGE):
                keys = found[start : start + ITEM_PAGE]
                await self.hold(keys, tx)
                held = await self.get_items(keys, refresh=False, connection=tx)
                matching = [
                    one for one in held.values() if accepts.matches(one.value, one.metadata)
                ]
                if matching:
                    await work(matching, tx)
                changed += len(matching)
        return changed

    async def clear_namespace(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete all items of the namespace, with *prefix* also those below it.

        Returns their number."""
        check_flag(prefix, "prefix")
        binds = scope_binds(self.db.tenant, encode_namespace(namespace), prefix)
        values = binds | {"p_now": datetime.now(UTC)}
        d = self.db.dialect

        def program() -> Program[int]:
            alive = yield read.count_items(d, below=prefix), values
            yield write.clear_items(d, below=prefix), values
            return int(alive[0][0])

        with operation("store.clear", **self._about(namespace)) as event:
            removed = await self.db.run(program, WRITE_ROWS, connection=connection, event=event)
            event.details["removed"] = removed
        return removed

    async def forget_namespace(
        self, namespace: Namespace, *, connection: HostConnection | None = None
    ) -> int:
        """Erase all items of the namespace and of all below it, expired ones too.

        What `Checkpointer.forget` does for items with some metadata: their vectors go with them,
        and no word of them is left in a text index. In a SQLite file of memalchemy's own nothing of
        them is left then; on a server the pages keep dead rows until `memalchemy vacuum --full`
        rewrites them, and a host's *connection* only deletes the rows. Threads of the same
        namespace stay. Returns the number of erased items.

        Raises:
            ValueError: *namespace* is empty: that would be all items of the tenant, for which there
                is `Checkpointer.forget` with *tenant*.
        """
        path = encode_namespace(namespace)
        if path == encode_namespace(()):
            raise InvalidArgument(
                "the namespace is empty, which would erase every item of the tenant: "
                "Checkpointer.forget(tenant=…) does that, and erases the threads, too"
            )
        d, tenant = self.db.dialect, self.db.tenant
        with operation("store.forget", **self._about(namespace)) as event:
            erased = await self.db.run(
                lambda: write.forget_namespace(d, tenant, path),
                WRITE_ROWS,
                connection=connection,
                event=event,
            )
            answers = partial(forget_kept_answers, d, tenant)
            await self.db.run(answers, WRITE_ROWS, connection=connection, event=event)
            if connection is None:
                await overwrite_deleted_bytes(self.db, event)
            event.details["erased"] = erased
        return erased

    async def sweep(self, *, connection: HostConnection | None = None) -> int:
        """Delete the tenant's expired items, which no method returns any more; return their number.

        A few hundred at a time, each time in a transaction of its own. Those that memalchemy keeps
        for itself, such as old answers of the HTTP server, are among them.

        Raises:
            Corrupt: some items are damaged or not what was signed. They were left, the others were
                deleted.
        """
        values = {"k_tenant": self.db.tenant, "p_now": datetime.now(UTC), "p_limit": MAX_LISTED}
        d = self.db.dialect

        def program(keys: Sequence[Place]) -> Program[int]:
            gone = 0
            for listed in key_lists(d, keys):
                gone += (yield read.delete_expired(d), values | listed).touched
            return gone

        async def remove(keys: Sequence[Place]) -> int:
            one = partial(program, keys)
            return await self.db.run(one, WRITE_ROWS, connection=connection, event=event)

        removed, damage = 0, Damage()
        with operation("store.sweep", tenant=self.db.tenant) as event:
            pages = scan(
                self.db,
                lambda after: read.list_expired(d, after=after),
                values,
                read.EXPIRED_ORDER,
                connection,
                size=MAX_LISTED,
                event=event,
                damage=damage,
            )
            async for page in pages:
                keys = [(row.namespace, row.key) for row in page]
                async for gone in each_proven(keys, remove, damage):
                    removed += gone
            event.details["removed"] = removed
        damage.raise_if_any(f"{removed:,} expired items were deleted")
        return removed

    # --- Listing ----------------------------------------------------------------------------------

    async def list_keys(
        self,
        namespace: Namespace,
        limit: int = 100,
        *,
        prefix: str | None = None,
        after: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return keys of exactly this namespace, in code point order, at most *limit*.

        With *prefix* those that begin with it; with *after* those beyond it, the last of a page.
        """
        limit, start = check_limit(limit), after
        if prefix is not None:
            check_name(prefix, "prefix")
        if after is not None:
            check_name(after, "after")
        binds = scope_binds(self.db.tenant, encode_namespace(namespace), below=False)
        found: list[str] = []
        with operation("store.list", **self._about(namespace)) as event:
            if prefix and (start is None or start < prefix):
                if await self._exists(binds, prefix, connection):
                    found.append(prefix)
                start = prefix
            while len(found) < limit:
                statement = read.list_keys(self.db.dialect, after=start is not None)
                values = binds | {"p_limit": limit - len(found), "p_after_key": start}
                rows = await self._rows(statement, values, connection, event, replica_ok=True)
                keys = [row.key for row in rows]
                fitting = [key for key in keys if not prefix or key.startswith(prefix)]
                found += fitting
                if len(keys) < values["p_limit"] or len(fitting) < len(keys):
                    break
                start = keys[-1]
        return found[:limit]

    async def list_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        filter: Mapping[str, Any] | None = None,
        limit: int = 100,
        after: StoreItem | None = None,
        order: ItemOrder = "newest",
        connection: HostConnection | None = None,
    ) -> list[StoreItem]:
        """Return items of the namespace, with *prefix* also of those below it, at most *limit*.

        ``newest``: by the time of the last write, then by namespace and key, both backwards.
        ``key``: by namespace and key. The next page comes *after* the last item of this one, and is
        right however many were written meanwhile.

        Raises:
            TooLarge: the values take over 256 MiB together; ask for fewer.
        """
        limit, prefix = check_limit(limit), check_flag(prefix, "prefix")
        path, wanted = encode_namespace(namespace), Filter.parse(filter)
        if after is not None and not isinstance(after, StoreItem):
            raise TypeError("after is the last StoreItem of the page before")
        if order not in read.ORDERS:
            raise ValueError(f"order is one of {', '.join(read.ORDERS)}, not {order!r}")
        with operation("store.list", **self._about(namespace)) as event:
            reader = ItemReader(self.db, path, prefix, wanted, connection, event)
            return await take_first(reader.read_in_order(order, after, limit), limit)

    async def iter_keys(
        self,
        namespace: Namespace,
        *,
        prefix: str | None = None,
        page_size: int = ITEM_PAGE,
        connection: HostConnection | None = None,
    ) -> AsyncGenerator[str]:
        """Yield all keys of exactly this namespace, in the order of their code points.

        *prefix* is as in `list_keys`. Each page of *page_size* keys is a query of its own: a key
        that others write meanwhile is seen if it comes after the keys that were yielded.
        """
        after: str | None = None
        size = _page_size(page_size)
        while True:
            page = await self.list_keys(
                namespace, size, prefix=prefix, after=after, connection=connection
            )
            for key in page:
                yield key
            if len(page) < size:
                return
            after = page[-1]

    async def iter_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        filter: Mapping[str, Any] | None = None,
        order: ItemOrder = "newest",
        page_size: int = ITEM_PAGE,
        connection: HostConnection | None = None,
    ) -> AsyncGenerator[StoreItem]:
        """Yield all items of the namespace; with *prefix* also those of the namespaces below it.

        *filter* and *order* are as in `list_items`. Each page of *page_size* items is a query of
        its own. By ``newest``, an item that others write meanwhile moves to the front and may be
        missed; by ``key`` it is yielded where it is.
        """
        after: StoreItem | None = None
        size = _page_size(page_size)
        while True:
            page = await self.list_items(
                namespace,
                prefix=prefix,
                filter=filter,
                limit=size,
                after=after,
                order=order,
                connection=connection,
            )
            for item in page:
                yield item
            if len(page) < size:
                return
            after = page[-1]

    async def count(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Count the items of the namespace, with *prefix* also those below it."""
        check_flag(prefix, "prefix")
        binds = scope_binds(self.db.tenant, encode_namespace(namespace), prefix)
        statement = read.count_items(self.db.dialect, below=prefix)
        with operation("store.list", **self._about(namespace)) as event:
            rows = await self._rows(statement, binds, connection, event, replica_ok=True)
        return int(rows[0][0])

    async def list_namespaces(
        self,
        prefix: Namespace | None = None,
        limit: int = 100,
        *,
        after: Namespace | None = None,
        connection: HostConnection | None = None,
    ) -> list[tuple[str, ...]]:
        """Return namespaces that hold an item, at most *limit*; those from *prefix* on down.

        In the order of their stored paths. The next page comes *after* the last of this one.
        """
        low = encode_namespace(prefix or ())
        binds = {
            "k_tenant": self.db.tenant,
            "p_low": low,
            "p_high": low[:-1] + "0",
            "p_internal": INTERNAL_RANGE[0],
            "p_internal_end": INTERNAL_RANGE[1],
            "p_limit": check_limit(limit),
        }
        if after is not None:
            # Right behind a path comes nothing that is not below it.
            binds["p_low"] = max(low, encode_namespace(after) + "\x01")
        with operation("store.list", tenant=self.db.tenant) as event:
            statement = read.list_paths(self.db.dialect)
            rows = await self._rows(statement, binds, connection, event, replica_ok=True)
        return [decode_namespace(row.place) for row in rows]

    # --- Search -----------------------------------------------------------------------------------

    async def search(
        self,
        namespace: Namespace,
        query: str | None = None,
        limit: int = 10,
        *,
        prefix: bool = False,
        mode: SearchMode = "text",
        match: Match = "any",
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        threshold: float | None = None,
        embedding: Any | None = None,
        model: str | None = None,
        alpha: float | None = None,
        mmr: float | None = None,
        explain: bool = False,
        connection: HostConnection | None = None,
    ) -> SearchHits:
        """Return items of the namespace, with *prefix* also of those below it, the best first.

        There are fewer than *limit* only where no more exist. Without *query* and *embedding* the
        newest come first, without a score, whatever *mode* and *threshold* say.

        Args:
            mode: ``text``: by words, rare ones counting more; the 500 best are ordered
                by BM25. The score of the first is the share of the query that it holds, those of
                the others are in proportion. ``vector``: by meaning, with the store's metric.
                ``hybrid``: by both rankings, in which a place near the top counts most. The best
                100 of both come first, then those up to the 500th, and then 500 at a time.
            match: ``any``: words find the items that hold one of them. ``all``: only those that
                hold all. In the mode ``hybrid`` the ranking by meaning adds others.
            filter: see `memalchemy.filters`.
            offset: the number of the best hits to skip. As long as nothing is written, pages fit
                together, whatever their sizes: together they are the hits of one large page.
            threshold: the least score.
            embedding: the vector to look for; otherwise the embedder makes one of *query*. Without
                *query* the mode ``text`` looks for it by meaning too.
            alpha: the weight of the ranking by meaning in a hybrid one, 0 to 1; that by words has
                the rest. Half each, if not given. With 1 it is a search by meaning, with 0 one by
                words, which calls no embedder, and the scores are those of that mode.
            mmr: 0 to 1: diverse hits, in the modes ``vector`` and ``hybrid``. Each next one is the
                best by ``mmr * score - (1 - mmr) * likeness`` to those before it; so they are not
                in the order of their scores. The first 25 are chosen from the best 100 hits, those
                up to the hundredth from 400, up to the thousandth from 4,000; later ones are in the
                order of their scores.
            explain: report in ``plans`` how the hits were found, and how many items a search by
                meaning passes over because they have no vector of the model and size.

        Accents and case do not matter, scripts without spaces need none, and nothing in *query* is
        an operator. Of a long query the 32 rarest words are looked for. Where few items are found,
        other forms of the words follow, with scores of at most .45. A query without words finds
        nothing by words.

        Raises:
            StoreCapabilityError: a vector of *query* is needed, and there is no embedder; or the
                database is encrypted, and holds no readable words or vectors to look in.
                ``capability`` is ``search`` for words, ``semantic_search`` for vectors.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
            TooLarge: the values take over 256 MiB together; ask for fewer.
            ValueError: there are vectors of the model, but none of this size, in the mode
                ``vector``; or *query* and *embedding* are both given, in the mode ``text``.

        Warns:
            AnsweredByWordsWarning: there are vectors of the model, but none of this size, and the
                mode is ``hybrid``: the answer is that of the mode ``text``. The event
                ``store.search`` then has the detail ``answered_by``, ``words``.
        """
        limit, offset = check_limit(limit), check_limit(offset)
        check_flag(prefix, "prefix")
        if mode not in MODES:
            raise ValueError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
        if query is not None:
            check_query(query)
        if check_match(match) != "any" and mode == "vector":
            raise InvalidArgument("match= is for the modes text and hybrid")
        if embedding is not None and mode == "text":
            if query is not None:
                raise InvalidArgument("embedding= is for the modes vector and hybrid")
            mode = "vector"
        check_threshold(threshold)
        check_fraction(alpha, "alpha")
        check_fraction(mmr, "mmr")
        if alpha is not None and mode != "hybrid":
            raise InvalidArgument("alpha= is for the mode hybrid")
        if mmr is not None and mode == "text":
            raise InvalidArgument("mmr= is for the modes vector and hybrid")
        path, wanted = encode_namespace(namespace), Filter.parse(filter)
        most = limit + offset
        if alpha in (0, 1) and not (query is None and embedding is None):
            # What counts for nothing is neither looked for nor embedded.
            mode = "vector" if alpha else "text"
        if query is None and embedding is None:
            with operation("store.search", **self._about(namespace)) as event:
                reader = ItemReader(self.db, path, prefix, wanted, connection, event)
                items = await take_first(reader.read_in_order("newest", None, most), most)
            return _hits([_hit(item, None) for item in items[offset:]], [_LISTED], explain)
        if mode != "vector":
            self.db.keyring.check_readable("text", "a search by words", store="Store")
        vector = await self._vector(query, embedding) if mode != "text" else None
        with operation("store.search", **self._about(namespace)) as event:
            name = self._settings.model_of(model)
            reader = ItemReader(self.db, path, prefix, wanted, connection, event)
            search = ItemSearch(reader, query, vector, name, self.metric, threshold, [], match)
            found = await search.best(mode, most if mmr is None else pool_size(most), alpha)
            if search.notices:
                event.details["answered_by"] = "words"
            if mmr is not None:
                found = await diversify(self.db, found, mmr, most, name, connection, event)
            if explain and vector is not None:
                search.plans.extend(await items_passed_over(reader, name, len(vector)))
        for notice in search.notices:
            warnings.warn(notice, AnsweredByWordsWarning, stacklevel=2)
        hits = _hits([_hit(one.item, one.score) for one in found[offset:]], search.plans, explain)
        hits.notices = tuple(search.notices)
        return hits

    async def search_many(
        self,
        namespaces: Iterable[Namespace],
        query: str | None = None,
        limit: int = 10,
        *,
        prefix: bool = False,
        mode: SearchMode = "text",
        match: Match = "any",
        filter: Mapping[str, Any] | None = None,
        threshold: float | None = None,
        embedding: Any | None = None,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[SearchHit]:
        """Return the hits of each namespace, at most *limit* of each, in the order of *namespaces*.

        Otherwise as `search`; the embedder is called once.
        """
        check_match(match)
        if embedding is None and query is not None and mode != "text":
            embedding = await self._vector(query, None)
            if embedding is None and mode == "vector":
                return []
        found: list[SearchHit] = []
        for namespace in check_list(namespaces, "namespaces"):
            found += await self.search(
                namespace,
                query,
                prefix=prefix,
                mode=mode,
                match=match,
                filter=filter,
                limit=limit,
                threshold=threshold,
                embedding=embedding,
                model=model,
                connection=connection,
            )
        return found

    async def search_by_embedding(
        self,
        namespace: Namespace,
        query_embedding: Any,
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        prefix: bool = False,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[SemanticSearchResult]:
        """Return items by the nearness of their vectors, the nearest first, each with its distance.

        An item of several vectors counts by the nearest of them. *filter* applies to value and
        metadata, *metadata_filter* to the metadata alone; *offset* skips as many of the nearest.
        Pages fit together as those of `search` do.
        """
        limit, offset = check_limit(limit), check_limit(offset)
        check_flag(prefix, "prefix")
        check_threshold(threshold)
        path = encode_namespace(namespace)
        filters = [filter] if filter else []
        if metadata_filter:
            filters.append({"$metadata": metadata_filter})
        wanted = Filter.parse({"$and": filters} if filters else None)
        vector = check_vector(query_embedding, "query_embedding")
        self.db.keyring.check_readable("vectors", "a search by meaning", store="Store")
        with operation("store.search", **self._about(namespace)) as event:
            name = self._settings.model_of(model)
            reader = ItemReader(self.db, path, prefix, wanted, connection, event)
            search = ItemSearch(reader, None, vector, name, self.metric, threshold, [])
            found = await search.best("vector", limit + offset)
        return [SemanticSearchResult(one.item, one.score, one.distance) for one in found[offset:]]

    # --- Shared by the methods above --------------------------------------------------------------

    async def _vectors(self, value: Any, index: Index, embedding: Any | None) -> list[VectorRow]:
        if embedding is not None:
            if index:
                raise TypeError("give index= or embedding=, not both")
            self.db.keyring.check_readable("vectors", "embedding=", store="Store")
            return vector_rows(embedding, self._settings.model)
        (vectors,) = await self._settings.vectors_of([value], index)
        return vectors

    async def _vectors_of_batch(self, given: list[NewItem], index: Index) -> list[list[VectorRow]]:
        """Return the vectors of each item: its own, or those that the embedder makes of it."""
        found: list[list[VectorRow]] = [[] for _ in given]
        to_embed: dict[bool | tuple[str, ...] | None, list[int]] = {}
        for at, one in enumerate(given):
            if one.embedding is None:
                wanted = index if one.index is None else one.index
                check_index(wanted)
                whole = wanted is None or isinstance(wanted, (bool, str))
                to_embed.setdefault(wanted if whole else tuple(wanted), []).append(at)  # type: ignore[arg-type]
                continue
            self.db.keyring.check_readable("vectors", "embedding=", store="Store")
            try:
                found[at] = vector_rows(one.embedding, self._settings.model)
            except (TypeError, ValueError) as error:
                error.add_note(_batch_note(one))
                raise
        for said, places in to_embed.items():
            made = await self._settings.vectors_of((given[at].value for at in places), said)
            for at, vectors in zip(places, made, strict=True):
                found[at] = vectors
        return found

    async def _vector(self, query: str | None, embedding: Any | None) -> Any:
        self.db.keyring.check_readable("vectors", "a search by meaning", store="Store")
        if embedding is not None:
            return check_vector(embedding)
        if self._settings.embedder is None:
            raise missing_embedder("a search by meaning")
        assert query is not None
        return (await embed(self._settings.embedder, [query]))[0] if query.strip() else None

    def _prepared(
        self, given: list[NewItem], ttl: Seconds | None, now: datetime
    ) -> list[dict[str, Any]]:
        rows = []
        for one in given:
            try:
                binds = item_binds(self.db, one.namespace, one.key)
                life = ttl if one.ttl is None else one.ttl
                namespace = tuple(one.namespace)
                row = self._settings.row(namespace, one.value, one.metadata, life, now)
            except (MemalchemyError, TypeError, ValueError) as error:
                error.add_note(_batch_note(one))
                raise
            rows.append(binds | row)
        return rows

    def _places(self, keys: Iterable[tuple[Namespace, str]]) -> dict[Place, Name]:
        wanted: dict[Place, Name] = {}
        for one in check_list(keys, "keys"):
            if not isinstance(one, (tuple, list)) or len(one) != 2:
                raise TypeError("keys has pairs of a namespace and a key: [(('users',), 'ada')]")
            namespace, key = one
            binds = item_binds(self.db, namespace, key)
            wanted[binds["k_namespace"], key] = (tuple(namespace), key)
        return wanted

    async def _extend_lifetime(
        self,
        item: StoreItem,
        binds: Mapping[str, Any],
        lifetime: int,
        connection: HostConnection | None,
    ) -> StoreItem:
        now = datetime.now(UTC)
        expires = expiry_time(now, lifetime, item.key)
        values = dict(binds) | {
            "p_now": now,
            "p_expires_at": expires,
            "p_lifetime": lifetime,
            "p_version": item.version,
        }

        def program() -> Program[int]:
            return (yield write.extend_lifetime(self.db.dialect), values).touched

        with operation("store.refresh", **self._about(item.namespace)) as event:
            single = self.db.dialect.autocommits
            touched = await self.db.run(
                program,
                WRITE_ROWS_STATEMENT if single else WRITE_ROWS,
                connection=connection,
                event=event,
            )
        return replace(item, expires_at=expires) if touched else item

    async def _extend_lifetimes(
        self, rows: Sequence[Any], connection: HostConnection | None
    ) -> list[dict[str, Any]]:
        """Begin the lifetimes of the items of *rows* anew; return what was bound for each."""
        now = datetime.now(UTC)
        tenant = {"k_tenant": self.db.tenant, "p_now": now}
        # In one order in every process: two that prolong the same items do not block each other.
        binds = sorted((tenant | _extension_binds(now, row) for row in rows), key=place_of)

        def program() -> Program[None]:
            yield write.extend_lifetime(self.db.dialect), binds

        with operation("store.refresh", tenant=self.db.tenant) as event:
            event.details["items"] = len(binds)
            await self.db.run(program, WRITE_ROWS, connection=connection, event=event)
        return binds

    async def _exists(
        self, binds: Mapping[str, Any], key: str, connection: HostConnection | None
    ) -> bool:
        values = dict(binds) | {"k_key": key}
        return bool(await self._rows(read.has_item(self.db.dialect), values, connection))

    def _about(self, namespace: Namespace) -> dict[str, Any]:
        return {"tenant": self.db.tenant, "details": {"namespace": "/".join(namespace)}}

    async def _hold_vectors(
        self, places: Sequence[Place], connection: HostConnection | None
    ) -> None:
        """Check that items whose vectors were not found have those that they were signed with."""
        for listed in key_lists(self.db.dialect, places):
            check = partial(
                check_vector_sets, self.db.dialect, self.db.tenant, listed, self.db.signing
            )
            await run_check(self.db, check, connection=connection)

    async def _hold_missing(
        self, places: Sequence[Place], connection: HostConnection | None
    ) -> None:
        """Raise `Corrupt` if the database's anchor has one of *places*, where no item was found."""
        if self.db.signing.anchor is not None and places:
            d, tenant, keys = self.db.dialect, self.db.tenant, self.db.signing
            program = partial(hold_missing_items, d, tenant, places, keys)
            await self.db.run(program, READ, connection=connection)

    async def _rows(
        self,
        statement: Any,
        binds: Mapping[str, Any],
        connection: HostConnection | None,
        event: Event | None = None,
        *,
        replica_ok: bool = False,
    ) -> Any:
        """Return the rows of *statement*."""
        return await run_query(
            self.db, statement, binds, connection, event=event, replica_ok=replica_ok
        )


_LISTED = SearchPlan("list", "nothing was asked for: the newest first")


def _page_size(size: int) -> int:
    limit = check_limit(size, "page_size")
    if not limit:
        raise ValueError("page_size must be at least 1")
    return limit


def _hit(item: StoreItem, score: float | None) -> SearchHit:
    return SearchHit(
        item.namespace,
        item.key,
        item.value,
        item.metadata,
        item.created_at,
        item.updated_at,
        item.version,
        item.expires_at,
        score,
    )


def _hits(hits: list[SearchHit], plans: list[SearchPlan], explain: bool) -> SearchHits:
    found = SearchHits(hits)
    if explain:
        found.plans = tuple(plans)
    return found


def _new_item(one: Sequence[Any] | NewItem) -> NewItem:
    """Return an item of a batch. The caller may change its own while a thread encodes this one."""
    if isinstance(one, NewItem):
        copies = frozen(one.value), _frozen_metadata(one.metadata), frozen(one.embedding)
        return replace(one, value=copies[0], metadata=copies[1], embedding=copies[2])
    if not isinstance(one, (tuple, list)) or not 3 <= len(one) <= 4:
        raise TypeError(
            "each item is (namespace, key, value), (namespace, key, value, metadata) or a NewItem"
        )
    metadata = _frozen_metadata(one[3]) if len(one) == 4 else None
    return NewItem(one[0], one[1], frozen(one[2]), metadata)


def _frozen_metadata(metadata: Any) -> Any:
    return frozen(dict(metadata) if isinstance(metadata, Mapping) else metadata)


def _exists_already(place: Place, where: str) -> Conflict:
    return Conflict(
        f"there was to be no item under key {place[1]!r}, but it is {where}; nothing was written",
        expected=None,
        current=None,
    )


def _has_times(one: NewItem) -> bool:
    return not (one.created_at is one.updated_at is one.expires_at is None)


def _times(row: Row, one: NewItem) -> dict[str, Any]:
    return {name: row[name] for name in ("k_tenant", "k_namespace", "k_key")} | {
        "p_written_at": row["p_updated_at"],
        "p_created_at": one.created_at,
        "p_updated_at": one.updated_at,
        "p_expires_at": one.expires_at,
    }


def _batch_note(one: NewItem) -> str:
    return f"of the batch's item {one.key!r} in {one.namespace!r}; nothing was written"


def _extension_binds(now: datetime, row: Any) -> dict[str, Any]:
    return {
        "k_namespace": row.namespace,
        "k_key": row.key,
        "p_version": row.version,
        "p_lifetime": row.lifetime,
        "p_expires_at": expiry_time(now, row.lifetime, row.key),
    }


def _is_alive(expires_at: datetime | None, now: datetime) -> bool:
    return expires_at is None or expires_at > now


def _check_field_names(fields: Iterable[str]) -> list[str]:
    given = check_list(fields, "index_metadata")
    return [check_name(field, "a field of index_metadata") for field in given]


def _encoding_size(value: Any) -> int:
    """Estimate how long a value takes to encode, in bytes of a state."""
    if isinstance(value, (str, bytes)):
        return len(value)
    return OFF_LOOP_BYTES if is_heavy([value]) else 0

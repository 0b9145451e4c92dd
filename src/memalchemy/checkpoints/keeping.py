"""Keeping what must be kept and erasing what must not: rewrite, forget, export."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from typing import Any

from memalchemy.checkpoints import queries, upkeep
from memalchemy.checkpoints.chain import MAX_CHAIN_DEPTH, rebuild_of
from memalchemy.checkpoints.files import Directory
from memalchemy.checkpoints.scope import Scope
from memalchemy.codec.items import FieldWords, decode_item
from memalchemy.codec.values import decode_value, jsonable, pointer
from memalchemy.database import HostConnection
from memalchemy.errors import InvalidArgument
from memalchemy.events import Event, operation
from memalchemy.filters import Filter
from memalchemy.keys import check_thread_id, decode_namespace, encode_namespace
from memalchemy.log import Log, entries
from memalchemy.metadata import check_metadata, kind_of
from memalchemy.search.scope import scope_binds
from memalchemy.space.reclaiming import erase_remains

_log = logging.getLogger(__name__)

# An expired thread is gone for every reader, but forget erases it, so export writes it out.
_BEFORE_ANY_EXPIRY = datetime(1970, 1, 1, tzinfo=UTC)

PAGE = 500


class Keeping(Scope):
    """The upkeep of `Checkpointer`."""

    _compression_level = 3
    _max_chain_depth = MAX_CHAIN_DEPTH

    async def rewrite(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Encode a thread's checkpoints anew, so that nothing of deleted states is left in them.

        One transaction. Returns how many nameless states were dropped. What the database itself
        keeps (free pages, write-ahead logs, backups) is beyond it.
        """
        log, now = self._log(thread_id), datetime.now(UTC)
        self._cache.drop(log)
        with operation("checkpoint.rewrite", **self._about(thread_id, None)) as event:
            dropped = await self.db.write(
                lambda: upkeep.rewrite_log(
                    self.db.dialect,
                    log,
                    now,
                    level=self._compression_level,
                    max_depth=self._max_chain_depth,
                    keyring=self.db.keyring,
                ),
                connection=connection,
                event=event,
            )
            event.details["dropped"] = dropped
        return dropped

    async def forget(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Erase everything of the tenant, of a thread, or of every thread and item with *metadata*.

        Exactly one of the three; *tenant* is that of this database, named so that nobody erases
        all of it by leaving something away. All logs and namespaces, expired ones too, leaving no
        tombstone, and no word of them in a text index. A thread has *metadata* if one of its
        checkpoints has each of it, an item of a store if its own metadata has all; its vectors go
        too. Returns how many checkpoints, entries and items went. `export` with the same argument
        writes out the same checkpoints and entries.

        In a SQLite file of memalchemy's own nothing of them is left then, in free pages and in the
        write-ahead log neither; where that could not be done, because somebody was reading, a
        warning is logged that names the command to run. On a server the pages keep dead rows until
        `memalchemy vacuum --full` rewrites them. Backups, archived logs and replicas are beyond it:
        see docs/retention.md. Nothing of this is done for a host's *connection*.

        Raises:
            ValueError: *tenant* is another than that of this database.
        """
        self._check_selectors(tenant, thread_id, metadata)
        with operation("checkpoint.forget", tenant=self.db.tenant, thread_id=thread_id) as event:
            erased = await self._forget(tenant, thread_id, metadata, connection, event)
            event.details["erased"] = erased
            for left in () if connection is not None else await erase_remains(self.db, event):
                event.details["remains"] = True
                _log.warning(
                    "the rows were erased, but the file may still hold what was in them: %s (%s)",
                    left.reason,
                    ", ".join(left.commands),
                )
        return erased

    def _check_selectors(
        self, tenant: str | None, thread_id: str | None, metadata: Mapping[str, Any] | None
    ) -> None:
        _exactly_one(tenant, thread_id, metadata)
        if thread_id is not None:
            check_thread_id(thread_id)
        if tenant is not None and tenant != self.db.tenant:
            raise ValueError(
                f"this {type(self).__name__} is of tenant {self.db.tenant!r} and reaches no other: "
                f"for tenant {tenant!r} make one of db.for_tenant({tenant!r})"
            )

    async def _forget(
        self,
        tenant: str | None,
        thread_id: str | None,
        metadata: Mapping[str, Any] | None,
        connection: HostConnection | None,
        event: Event,
    ) -> int:
        d = self.db.dialect
        if tenant is not None:
            erased = await self.db.write(
                lambda: upkeep.erase_everything(d, tenant),
                connection=connection,
                event=event,
                payloads=False,
            )
            self._cache.drop_tenant(tenant)
            self.db.look_for_keys_again()
            return erased
        erased = 0
        for found in await self._selected(thread_id, metadata, connection):
            erased += await self.db.write(
                partial(upkeep.erase_thread, d, self.db.tenant, found),
                connection=connection,
                event=event,
                payloads=False,
            )
            self._cache.drop_thread(self.db.tenant, found)
        if metadata is not None:
            erased += await self._erase_items(metadata, connection, event)
        return erased

    async def _erase_items(
        self, metadata: Mapping[str, Any], connection: HostConnection | None, event: Event
    ) -> int:
        """Erase the store's items that have *metadata*, until none has."""
        erased = 0
        while items := [item async for item in self._items_with(metadata, connection)]:
            gone = await self.db.write(
                partial(upkeep.erase_items, self.db.dialect, items),
                connection=connection,
                event=event,
                payloads=False,
            )
            erased += gone
            if gone == len(items):
                break  # otherwise some were written meanwhile
        return erased

    async def _items_with(
        self, metadata: Mapping[str, Any], connection: HostConnection | None
    ) -> AsyncIterator[dict[str, Any]]:
        """What `upkeep.erase_items` is told of the items that have *metadata*."""
        d, tenant = self.db.dialect, self.db.tenant
        equal = {pointer("", key): {"$eq": value} for key, value in metadata.items()}
        wanted = Filter.parse({"$metadata": equal})
        assert wanted is not None
        fields = [FieldWords.of(field, values) for field, values in wanted.equalities()]
        narrowed = d.indexes_fields and bool(fields)
        binds = scope_binds(tenant, encode_namespace(()), below=True) | {"p_limit": PAGE}
        if narrowed:
            binds |= d.item_scope(tenant, encode_namespace(()), below=True, fields=fields)
        after = False
        while True:
            statement = upkeep.list_items(d, narrowed=narrowed, after=after)
            rows = await self._rows(statement, binds, connection)
            for row in rows:
                if wanted.matches(None, row.meta):
                    key = {"k_tenant": tenant, "k_namespace": row.namespace, "k_key": row.key}
                    yield key | {"p_version": row.version}
            if len(rows) < PAGE:
                return
            after = True
            binds |= {"p_namespace": rows[-1].namespace, "p_key": rows[-1].key}

    async def export(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        all_namespaces: bool = True,
        connection: HostConnection | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Every checkpoint and entry that `forget` would erase, as a JSON object.

        Thread by thread and log by log, oldest checkpoint first, then the entries in order, which
        have a ``position`` and a ``value``. Values that JSON lacks are tagged objects such as
        ``{"~b": base64}``. Without *all_namespaces* only what is in this one.

        Raises:
            ValueError: *tenant* is another than that of this database.
        """
        self._check_selectors(tenant, thread_id, metadata)
        own = self.db.tenant
        with operation("checkpoint.export", tenant=own, thread_id=thread_id) as event:
            event.details["exported"] = exported = 0
            threads = (
                await self._selected(thread_id, metadata, connection)
                if tenant is None
                else await self._all_threads(connection)
            )
            for found in threads:
                for namespace in (
                    await self._namespaces(found, connection) if all_namespaces else [self._path]
                ):
                    log = Log(own, found, namespace)
                    for records in (self._export_log, self._export_entries):
                        async for record in records(log, connection):
                            event.details["exported"] = exported = exported + 1
                            yield record

    async def export_files(
        self,
        directory: str | PathLike[str],
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        all_namespaces: bool = True,
        progress: Callable[[int], object] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Write what `export` gives into *directory*, one JSON file per checkpoint; how many.

        Without a selector, everything of the database's tenant. Files are named after thread and
        checkpoint: ``THREAD/CHECKPOINT.json``, and ``THREAD/@NAMESPACE/CHECKPOINT.json`` in a
        namespace; an id that makes no good file name is followed by its SHA-256, so that no two
        meet. The directory appears when all is in it. *progress* is called with the count so far.

        Raises:
            Conflict: *directory* is there, and not empty.
            OSError: it cannot be written.
            ValueError: *tenant* is another than that of this database.
        """
        if tenant is None and thread_id is None and metadata is None:
            tenant = self.db.tenant
        self._check_selectors(tenant, thread_id, metadata)
        to, count = Directory(directory), 0
        await asyncio.to_thread(to.begin)
        try:
            async for record in self.export(
                tenant=tenant,
                thread_id=thread_id,
                metadata=metadata,
                all_namespaces=all_namespaces,
                connection=connection,
            ):
                await asyncio.to_thread(to.write, record)
                count += 1
                if progress is not None:
                    progress(count)
            await asyncio.to_thread(to.finish)
        except BaseException:
            to.abandon()
            raise
        return count

    async def _selected(
        self,
        thread_id: str | None,
        metadata: Mapping[str, Any] | None,
        connection: HostConnection | None,
    ) -> list[str]:
        """The threads that a selector names."""
        if thread_id is not None:
            return [thread_id]
        found: list[set[str]] = []
        for key, value in check_metadata(metadata).items():
            kind = kind_of(value)
            d = self.db.dialect
            binds = d.json_parameters(key, value, kind) | {"k_tenant": self.db.tenant}
            rows = await self._rows(queries.threads_by_metadata(d, kind=kind), binds, connection)
            found.append({row.thread_id for row in rows})
        return sorted(set.intersection(*found))

    async def _all_threads(self, connection: HostConnection | None) -> list[str]:
        statement = upkeep.list_threads(self.db.dialect)
        rows = await self._rows(statement, {"k_tenant": self.db.tenant}, connection)
        return [row.thread_id for row in rows]

    async def _namespaces(self, thread_id: str, connection: HostConnection | None) -> list[str]:
        rows = await self._rows(
            upkeep.list_namespaces(self.db.dialect), self._log(thread_id).binds(), connection
        )
        return [row.namespace for row in rows]

    async def _export_log(
        self, log: Log, connection: HostConnection | None
    ) -> AsyncIterator[dict[str, Any]]:
        d = self.db.dialect
        for name in await self._rows(upkeep.list_in_order(d), log.binds(), connection):
            tip = await self.db.read(
                partial(queries.chain, d, log, name.checkpoint_id, _BEFORE_ANY_EXPIRY),
                connection=connection,
            )
            rows = await self._rows(
                queries.read_name(d),
                log.binds() | {"p_checkpoint_id": name.checkpoint_id, "p_now": _BEFORE_ANY_EXPIRY},
                connection,
            )
            if tip is None or not rows:
                continue  # deleted meanwhile
            parts = rebuild_of(log.thread_id, tip, self.db.keyring).parts()
            yield (
                queries.info(rows[0]).as_dict()
                | {"tenant": log.tenant, "namespace": list(decode_namespace(log.namespace))}
                | {"state": {k: jsonable(decode_value(v)) for k, v in parts.items()}}
            )

    async def _export_entries(
        self, log: Log, connection: HostConnection | None
    ) -> AsyncIterator[dict[str, Any]]:
        statement = entries.read_entries(self.db.dialect, end="first", timed=False)
        binds = log.binds() | {
            "p_now": _BEFORE_ANY_EXPIRY,
            "p_after": -1,
            "p_before": entries.EVERYTHING,
            "p_limit": PAGE,
        }
        place = {"tenant": log.tenant, "namespace": list(decode_namespace(log.namespace))}
        while rows := await self._rows(statement, binds, connection):
            for row in rows:
                keyring = self.db.keyring
                stored = keyring.open(row.codec, row.checksum, bytes(row.payload))
                value = decode_item(stored.payload, stored.checksum, stored.codec)
                yield place | {
                    "thread_id": log.thread_id,
                    "position": row.seq,
                    "key": row.entry_key,
                    "occurred_at": row.occurred_at,
                    "stored_at": row.stored_at,
                    "value": jsonable(value),
                }
            binds["p_after"] = rows[-1].seq


def _exactly_one(*selectors: object) -> None:
    if sum(selector is not None for selector in selectors) != 1:
        raise InvalidArgument("give exactly one of tenant=, thread_id=, metadata=")
    if selectors[2] is not None and not selectors[2]:
        raise InvalidArgument(
            "metadata= must name at least one key; an empty one would mean everything"
        )

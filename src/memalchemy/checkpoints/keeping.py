"""Keeping what must be kept and erasing what must not: prune, vacuum, rewrite, forget, export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memalchemy.checkpoints import queries, upkeep
from memalchemy.checkpoints.chain import MAX_CHAIN_DEPTH, rebuild
from memalchemy.checkpoints.metadata import check_metadata, kind_of
from memalchemy.checkpoints.scope import Scope
from memalchemy.codec.values import decode_value, jsonable
from memalchemy.contracts import Retention, Seconds
from memalchemy.database import HostConnection
from memalchemy.keys import decode_namespace
from memalchemy.log import Log, prune_log

# An expired thread is gone for every reader, but forget erases it, so export writes it out.
_BEFORE_ANY_EXPIRY = datetime(1970, 1, 1, tzinfo=UTC)


class Keeping(Scope):
    """The upkeep of `Checkpointer`."""

    _compression_level = 3
    _max_chain_depth = MAX_CHAIN_DEPTH

    async def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete checkpoints that every given rule lets go (see `Retention`); how many.

        Of one thread, or of all, a thread at a time. The newest of a thread always stays.
        """
        rules = Retention(keep_last, keep_every, older_than)
        if thread_id is not None:
            return await self._prune(self._log(thread_id), rules, connection)
        return sum(
            [await self._prune(log, rules, connection) async for log in self._logs(connection)]
        )

    async def vacuum(
        self, older_than_days: float = 30, *, connection: HostConnection | None = None
    ) -> int:
        """Remove threads that were not saved for so long, expired threads, and old tombstones.

        Returns how many checkpoints went. Works in batches, each its own transaction.
        """
        if not 0 <= older_than_days < 365_000:
            raise ValueError("older_than_days must not be negative, nor over a thousand years")
        now = datetime.now(UTC)
        cutoff = now - timedelta(days=older_than_days)
        removed = 0
        while True:
            logs, checkpoints = await self.db.write(
                lambda: upkeep.remove_stale(
                    self.db.dialect, self.db.tenant, self._path, cutoff=cutoff, now=now
                ),
                connection=connection,
            )
            removed += checkpoints
            if logs < upkeep.BATCH:
                return removed

    async def rewrite(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Encode a thread's checkpoints anew, so that nothing of deleted states is left in them.

        One transaction. Returns how many nameless states were dropped. What the database itself
        keeps (free pages, write-ahead logs, backups) is beyond it.
        """
        log, now = self._log(thread_id), datetime.now(UTC)
        self._cache.drop(log)
        return await self.db.write(
            lambda: upkeep.rewrite_log(
                self.db.dialect,
                log,
                now,
                level=self._compression_level,
                max_depth=self._max_chain_depth,
            ),
            connection=connection,
        )

    async def forget(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Erase everything of a tenant, of a thread, or of every thread that carries *metadata*.

        Exactly one of the three. All logs and namespaces, expired ones too, leaving no tombstone,
        and no word of them in a text index. Returns how many checkpoints (and, of a tenant, store
        items) went. `export` with the same argument writes out the same checkpoints. What the
        database itself keeps (free pages, write-ahead logs, backups) is beyond it.
        """
        _exactly_one(tenant, thread_id, metadata)
        d = self.db.dialect
        if tenant is not None:
            db = self.db.for_tenant(tenant)
            erased = await db.write(
                lambda: upkeep.erase_everything(d, tenant), connection=connection
            )
            self._cache.drop_tenant(tenant)
            return erased
        erased = 0
        for found in await self._selected(thread_id, metadata, connection):
            erased += await self.db.write(
                partial(upkeep.erase_thread, d, self.db.tenant, found),
                connection=connection,
            )
            self._cache.drop_thread(self.db.tenant, found)
        return erased

    async def export(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Everything that `forget` would erase, as JSON objects, one for each checkpoint.

        Thread by thread, oldest checkpoint first. Values that JSON lacks are tagged objects such as
        ``{"~b": base64}``.
        """
        _exactly_one(tenant, thread_id, metadata)
        db = self.db if tenant is None else self.db.for_tenant(tenant)
        scoped = Keeping(db, self.namespace)
        threads = (
            await scoped._selected(thread_id, metadata, connection)
            if tenant is None
            else await scoped._all_threads(connection)
        )
        for found in threads:
            for namespace in await scoped._namespaces(found, connection):
                log = Log(db.tenant, found, namespace)
                async for record in scoped._export_log(log, connection):
                    yield record

    async def _prune(self, log: Log, rules: Retention, connection: HostConnection | None) -> int:
        now = datetime.now(UTC)
        pruned = await self.db.write(
            lambda: prune_log(self.db.dialect, log, now, upkeep.retention_binds(rules, now)),
            connection=connection,
        )
        if pruned:
            self._cache.drop(log)
        return pruned

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
            parts = rebuild(tip).parts()
            yield (
                queries.info(rows[0]).as_dict()
                | {"tenant": log.tenant, "namespace": list(decode_namespace(log.namespace))}
                | {"state": {k: jsonable(decode_value(v)) for k, v in parts.items()}}
            )


def _exactly_one(*selectors: object) -> None:
    if sum(selector is not None for selector in selectors) != 1:
        raise ValueError("give exactly one of tenant=, thread_id=, metadata=")
    if selectors[2] is not None and not selectors[2]:
        raise ValueError("metadata= must name at least one key; an empty one would mean everything")

"""Looking at checkpoints: listings, metadata, text search. Reads only, and no payload.

Listings, search and statistics may be a moment old: where there is a replica, it answers them.
What asks for one checkpoint by name (`exists`, `get_metadata`) reads what this process has saved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Executable

from memalchemy.checkpoints import queries
from memalchemy.checkpoints.chain import Tip, decoded
from memalchemy.checkpoints.saving import weight
from memalchemy.checkpoints.scope import PAGE, Scope
from memalchemy.codec import text
from memalchemy.contracts import CheckpointInfo, LogInfo, check_flag, check_limit, check_query
from memalchemy.database import HostConnection, Then
from memalchemy.dialects.reach import reach
from memalchemy.events import operation
from memalchemy.filters import Filter
from memalchemy.keys import check_thread_id, decode_namespace, encode_namespace
from memalchemy.log import Log, listing
from memalchemy.log.listing import logs
from memalchemy.metadata import check_metadata, kind_of
from memalchemy.search.checkpoints import find_checkpoints


class Looking(Scope):
    """The reading half of `Checkpointer`, but for states themselves."""

    async def exists(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Whether the checkpoint is there; without an id, whether the thread has any."""
        return await self._info(thread_id, checkpoint_id, connection) is not None

    async def list_checkpoints(
        self, thread_id: str, limit: int = 10, *, connection: HostConnection | None = None
    ) -> list[str]:
        """The ids of the thread's checkpoints, newest first, at most *limit*."""
        log, limit = self._log(thread_id), check_limit(limit)
        infos = await self._page(log, None, limit, connection, stale=True)
        return [info.checkpoint_id for info in infos]

    async def history(
        self,
        thread_id: str,
        *,
        limit: int | None = None,
        before: str | None = None,
        connection: HostConnection | None = None,
    ) -> AsyncIterator[CheckpointInfo]:
        """The thread's checkpoints, newest first; those older than checkpoint *before*, if given.

        Reads no payload, in pages of 500; a checkpoint deleted meanwhile may be missing.

        Raises:
            NotFound: *before* is not there.
        """
        log = self._log(thread_id)
        left = None if limit is None else check_limit(limit)
        at: int | None = None
        if before is not None:
            at = (await self._needed(thread_id, before, connection)).seq
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            infos = await self._page(log, at, size, connection, stale=True)
            for info in infos:
                yield info
            if len(infos) < PAGE:
                return
            at = infos[-1].seq
            left = None if left is None else left - len(infos)

    async def get_metadata(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, Any] | None:
        """What is known of a checkpoint without its state, the newest without an id.

        Keys: those of `CheckpointInfo`.
        """
        info = await self._info(thread_id, checkpoint_id, connection)
        return None if info is None else info.as_dict()

    async def query_by_metadata(
        self,
        key: str,
        value: Any,
        limit: int = 100,
        *,
        data: bool = False,
        connection: HostConnection | None = None,
    ) -> list[dict[str, Any]]:
        """Checkpoints whose metadata has *value* under *key*, newest first, as `get_metadata`.

        Numbers compare as numbers and booleans as booleans. Any key; answered by an index, but on
        Oracle, which has none over keys that are not known beforehand. With *data* each has its
        state under ``data``, as it is stored: one more read for each.
        """
        ((key, value),) = check_metadata({key: value}).items()
        kind = kind_of(value)
        d = self.db.dialect
        statement = queries.list_by_metadata(d, kind=kind)
        found = await self._listed(
            statement, limit, connection, d.json_parameters(key, value, kind)
        )
        return await self._with_data(found, connection) if data else found

    async def list_with_metadata(
        self, limit: int = 100, *, connection: HostConnection | None = None
    ) -> list[dict[str, Any]]:
        """The newest checkpoints over all threads, as `get_metadata`, newest first."""
        return await self._listed(queries.list_newest(self.db.dialect), limit, connection)

    async def list_threads(
        self,
        limit: int = 100,
        pattern: str = "*",
        *,
        offset: int = 0,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """The ids of threads with a checkpoint, most recently written to first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``. *offset*
        leaves out as many of the first; a thread that is saved meanwhile moves to the front.
        """
        found = listing.ThreadIds(self.db, self._path, "checkpoints", pattern)
        limit, offset = check_limit(limit), check_limit(offset, "offset")
        return (await found.first(limit + offset, connection))[offset:]

    async def list_logs(
        self,
        thread_id: str | None = None,
        *,
        limit: int = 100,
        pattern: str = "*",
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> list[LogInfo]:
        """Logs with a checkpoint or an entry, most recently written first, and what each holds.

        Of all threads, those whose whole id matches a glob as in `list_threads`, or one thread. A
        log is a thread in one namespace: this one's, with *below* also those under it. Under the
        root lie all: those of frameworks, conversations, event logs.
        """
        return await logs(
            self.db,
            self._path,
            None if thread_id is None else check_thread_id(thread_id),
            below=check_flag(below, "below"),
            pattern=pattern,
            limit=check_limit(limit),
            connection=connection,
        )

    async def count_threads(
        self, pattern: str = "*", *, connection: HostConnection | None = None
    ) -> int:
        """How many threads with a checkpoint there are, whose ids match the glob."""
        found = listing.ThreadIds(self.db, self._path, "checkpoints", pattern)
        return await found.count(connection)

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        below: bool = False,
        data: bool = False,
        connection: HostConnection | None = None,
    ) -> list[dict[str, Any]]:
        """Checkpoints whose step added words of *query*, best first.

        As `get_metadata`, with ``score`` (0..1: of the best, the share of the query it holds, rare
        words counting more; of others, in proportion, by BM25) and ``snippet``. Accents and case do
        not matter, Chinese, Japanese and Korean words are found, and nothing in *query* is an
        operator. A query without words finds nothing. With *below* in the namespaces under this
        one, too, in one ranking, and with ``namespace``, a tuple: `Checkpointer(db).search(…,
        below=True)` finds what any framework has saved. With *data* each has its state under
        ``data``, as it is stored: one more read for each.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words;
                ``capability`` is ``search``.
        """
        limit, below = check_limit(limit), check_flag(below, "below")
        self.db.keyring.check_reveals("text", "a search")
        terms = text.query_terms(check_query(query))
        if not terms or not limit:
            return []
        d = self.db.dialect
        binds = reach(self.db.tenant, self._path, below) | {
            **d.log_scope(self.db.tenant),
            "terms": d.text_terms(terms),
            "p_terms": len(terms),
            "p_now": datetime.now(UTC),
        }
        with operation("checkpoint.search", tenant=self.db.tenant) as event:
            best = await self.db.read(
                lambda: find_checkpoints(d, terms, binds, below, limit),
                connection=connection,
                event=event,
                stale=True,
            )
        found = [
            queries.info(row).as_dict()
            | ({"namespace": decode_namespace(row.namespace)} if below else {})
            | {"score": score, "snippet": text.snippet(row.search_text, terms)}
            for score, row in best
        ]
        return await self._with_data(found, connection) if data else found

    async def search_data(
        self,
        path: str,
        value: Any,
        limit: int = 100,
        *,
        among: int | None = 1000,
        connection: HostConnection | None = None,
    ) -> list[dict[str, Any]]:
        """Threads whose newest state has *value* under *path*, most recently saved first.

        Each as `get_metadata` gives its newest checkpoint, with the state under ``data``, as it is
        stored. *path* is a top-level key of the state, or a JSON pointer such as ``/user/name``;
        values are equal as in `memalchemy.filters`. No index serves this: the newest states of the
        *among* threads saved last are read, one read for each, and a thread beyond them is not
        found; ``among=None`` reads those of all. What is asked often belongs into the metadata of
        a save, where `query_by_metadata` finds it by an index.

        Raises:
            Corrupt: a stored state that was read does not match its checksum.
        """
        limit = check_limit(limit)
        left = None if among is None else check_limit(among, "among")
        wanted = Filter.parse({"$value": {_pointer(path): {"$eq": value}}})
        assert wanted is not None
        found: list[dict[str, Any]] = []
        threads = listing.ThreadIds(self.db, self._path, "checkpoints", "*")
        with operation("checkpoint.search", tenant=self.db.tenant):
            async with aclosing(threads.pages(connection)) as pages:
                async for rows in pages:
                    for row in rows:
                        if len(found) == limit or left == 0:
                            return found
                        left = None if left is None else left - 1
                        found += await self._newest_if(wanted, row.thread_id, connection)
        return found

    async def get_storage_stats(
        self, thread_id: str, *, connection: HostConnection | None = None
    ) -> dict[str, Any]:
        """What a thread takes: total_checkpoints, total_size (bytes of every state whole),
        compressed_size (bytes stored), compression_ratio (total_size over compressed_size, 1.0 if
        there is nothing), full_checkpoints, delta_checkpoints.
        """
        binds = self._log(thread_id).binds()
        rows = await self._rows(queries.measure(self.db.dialect), binds, connection, stale=True)
        count, raw, stored, full = tuple(rows[0])
        return {
            "total_checkpoints": count,
            "total_size": int(raw),
            "compressed_size": int(stored),
            "compression_ratio": float(raw) / float(stored) if stored else 1.0,
            "full_checkpoints": int(full),
            "delta_checkpoints": count - int(full),
        }

    async def _newest_if(
        self, wanted: Filter, thread_id: str, connection: HostConnection | None
    ) -> list[dict[str, Any]]:
        """The newest checkpoint of a thread with its state, if that is as *wanted*."""
        newest = await self._state_at(self._log(thread_id), None, connection)
        if newest is None or not wanted.matches(newest[1], {}):
            return []
        info = await self._info(thread_id, newest[0].checkpoint_id, connection)
        return [] if info is None else [info.as_dict() | {"data": newest[1]}]

    async def _with_data(
        self, found: list[dict[str, Any]], connection: HostConnection | None
    ) -> list[dict[str, Any]]:
        """Checkpoints with their states; one that was deleted meanwhile is left out."""
        whole = []
        for one in found:
            log = self._log(one["thread_id"])
            if "namespace" in one:
                log = log._replace(namespace=encode_namespace(one["namespace"]))
            if (stored := await self._state_at(log, one["checkpoint_id"], connection)) is not None:
                whole.append(one | {"data": stored[1]})
        return whole

    async def _state_at(
        self, log: Log, checkpoint_id: str | None, connection: HostConnection | None
    ) -> tuple[Tip, dict[str, Any]] | None:
        now = datetime.now(UTC)
        return await self.db.read_then(
            lambda: queries.chain(self.db.dialect, log, checkpoint_id, now),
            self._decoding(log),
            connection=connection,
        )

    def _decoding(self, log: Log) -> Then[Tip | None, tuple[Tip, dict[str, Any]] | None]:
        known, keyring = self._cache.get(log), self.db.keyring
        return Then(lambda tip: decoded(log.thread_id, tip, keyring, known), weight)

    async def _listed(
        self,
        statement: Executable,
        limit: int,
        connection: HostConnection | None,
        binds: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        scope = {"k_tenant": self.db.tenant, "k_namespace": self._path}
        values = scope | {"p_limit": check_limit(limit)} | (binds or {})
        rows = await self._rows(statement, values, connection, stale=True)
        return [queries.info(row).as_dict() for row in rows]


def _pointer(path: str) -> str:
    """A JSON pointer to a top-level key, or the one that was given."""
    if not isinstance(path, str):
        raise TypeError(f"path is a key or a JSON pointer, not {type(path).__name__}")
    return path if path.startswith("/") else "/" + path.replace("~", "~0").replace("/", "~1")

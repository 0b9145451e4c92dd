"""`Checkpointer`: an agent's states over time, with history, branches, search and retention.

The modules beside this one hold the statements and programs: ``save``, ``load``, ``listing``,
``retention``, ``rewrite``, ``forget``, ``export``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter, itemgetter
from os import PathLike
from typing import Any, Generic, TypedDict, Unpack, overload

from sqlalchemy import Executable

from memalchemy._changes import ChangeFunction, check_changed_state, function_errors
from memalchemy._locked_retry import retry_with_lock
from memalchemy._retry import retry_on_conflict
from memalchemy.checkpoints import diff, export, forget, listing, load, rewrite
from memalchemy.checkpoints.found_texts import found_text, read_found_texts
from memalchemy.checkpoints.parts import Origin, needed_of_part, newest_of_branch
from memalchemy.checkpoints.pending_writes import put_writes
from memalchemy.checkpoints.retention import (
    TOMBSTONE_LIFE,
    ProgressCallback,
    RetentionRun,
    retention_binds,
)
from memalchemy.checkpoints.roads import SaveRoads
from memalchemy.checkpoints.save import Saver, encode_off_loop
from memalchemy.checkpoints.save_request import Request, SaveConditions
from memalchemy.checkpoints.skip_deltas import MAX_CHAIN_DEPTH, RADIX, Tip
from memalchemy.checkpoints.snapshots import (
    StateName,
    load_snapshots,
    load_states,
    load_writes,
    states_decoder,
)
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.codec import values
from memalchemy.codec.snippets import excerpt
from memalchemy.contracts import (
    LEAVE,
    MAX_LIMIT,
    UNSET,
    CheckpointerCapabilities,
    CheckpointHit,
    CheckpointInfo,
    CheckpointMatch,
    CheckpointOrder,
    CheckpointRecord,
    CheckpointWithData,
    Diff,
    ExportRecord,
    LogInfo,
    Match,
    PendingWrite,
    Progress,
    Retention,
    Seconds,
    Snapshot,
    State,
    StorageStats,
    Unset,
    check_flag,
    check_limit,
    check_match,
    check_query,
    check_time,
    to_lifetime,
)
from memalchemy.database import (
    READ,
    READ_REPLICA,
    WRITE,
    WRITE_ROWS,
    WRITE_STATEMENT,
    Database,
    HostConnection,
    check_database,
    off_loop,
    run_check,
)
from memalchemy.dialects import namespace_binds
from memalchemy.errors import Conflict, InvalidArgument, NotFound, ThreadDeleted
from memalchemy.events import Event, operation
from memalchemy.filters import Filter, field_equals
from memalchemy.keys import (
    check_list,
    check_name,
    check_namespace,
    check_thread_id,
    decode_namespace,
    encode_id,
    encode_namespace,
    new_checkpoint_id,
    new_fork_id,
)
from memalchemy.log import (
    Log,
    copy_log,
    delete_checkpoint,
    delete_checkpoints,
    delete_log,
    delete_thread,
    lock_log,
    pending_writes,
    set_thread_metadata,
)
from memalchemy.log.dependencies import without_required
from memalchemy.log.listing import (
    ThreadListing,
    describe_logs,
    list_log_heads,
    list_logs_below,
    list_logs_of_thread,
    namespaces_of_thread,
)
from memalchemy.log.scan import PAGE, batches, run_query, scan
from memalchemy.log.thread_parts import list_parts, main_paths, thread_parts
from memalchemy.metadata import check_metadata, kind_of
from memalchemy.protection.proven_jobs import Damage
from memalchemy.protection.signed_reads import (
    check_all_checkpoints,
    check_newest_checkpoint,
    check_nothing_missing,
)
from memalchemy.search.text import find_checkpoints, search_scope
from memalchemy.search.word_query import WordQuery
from memalchemy.state_conversion import Fallback, check_state_type, from_mapping, to_mapping
from memalchemy.statements import Program

STATES = 20
"""Maximum number of states of unknown sizes that are rebuilt together."""
LISTED_STATES = 100
"""Maximum number of listed states, whose sizes are known, that are rebuilt together."""


class CheckpointerOptions(TypedDict, total=False):
    """The keyword arguments of `Checkpointer` besides ``state_type``."""

    namespace: Iterable[str]
    index_text: bool | Iterable[str]
    retention: Retention | None
    ttl: Seconds | None
    max_chain_depth: int
    compression_level: int
    radix: int


class Checkpointer(Generic[State]):
    """Store every state that an agent saves, with history, branches, search and retention.

    A thread's checkpoints are ordered by the position they were saved at, never by a clock. Each
    save is whole or absent. A plain save appends to the newest checkpoint and never conflicts.

        checkpointer = Checkpointer(db, retention=Retention(keep_last=50))
        await checkpointer.save({"messages": [], "step": 1}, "thread-1")
        state = await checkpointer.load("thread-1")

    Args:
        db: the database.
        namespace: keeps several uses of one thread id apart; deleting a thread deletes them all.
        state_type: the class of what `load` returns: a pydantic model, a dataclass, or a class with
            ``from_checkpoint``; without it, `load` returns the stored mapping.
        index_text: let `search` find the text that each step adds; in an encrypted database only if
            it may hold readable words. Names of top-level keys restrict it to these.
        retention: rules that every save keeps, without another round trip.
        ttl: the lifetime of a thread after its last save, in seconds or as a timedelta.
        max_chain_depth: the largest number of saves between full snapshots.
        compression_level: zstd's, 1 to 19, for what is larger than 512 KB; what is smaller is
            compressed up to four levels higher.
        radix: 2 to 64, 4 by default. All saves but every *radix*-th are stored as the difference
            from the save before. A load of a long thread reads some 5 rows with 2, 7 with 4, and up
            to 40 with 32. Compared with 4, a history takes a quarter more bytes with 2, and as
            little as half with 32.

    Every method that reads or writes takes ``connection=``, an `AsyncConnection` or `AsyncSession`
    of the host: the work is then part of the host's transaction, sees its own writes, and is gone
    after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    db: Database
    namespace: tuple[str, ...]

    deletes_single_checkpoints: bool = True

    @overload
    def __init__(
        self: Checkpointer[dict[str, Any]],
        db: Database,
        *,
        state_type: None = None,
        **options: Unpack[CheckpointerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        db: Database,
        *,
        state_type: type[State] | Callable[[dict[str, Any]], State],
        **options: Unpack[CheckpointerOptions],
    ) -> None: ...
    def __init__(
        self,
        db: Database,
        *,
        namespace: Iterable[str] = (),
        state_type: Any | None = None,
        index_text: bool | Iterable[str] = True,
        retention: Retention | None = None,
        ttl: Seconds | None = None,
        max_chain_depth: int = MAX_CHAIN_DEPTH,
        compression_level: int = 3,
        radix: int = RADIX,
    ) -> None:
        if not 1 <= compression_level <= 19:
            raise ValueError(f"compression_level is 1 to 19, not {compression_level}")
        if not 2 <= radix <= 64:
            raise ValueError(f"radix is 2 to 64, not {radix}")
        if max_chain_depth < 1:
            raise ValueError(f"max_chain_depth is at least 1, not {max_chain_depth}")
        if retention is not None and not isinstance(retention, Retention):
            given = type(retention).__name__
            raise TypeError(f"retention is a Retention, as Retention(keep_last=10), not {given}")
        self.db = check_database(db, self)
        self.namespace = check_namespace(namespace)
        self._path = encode_namespace(self.namespace)
        self._cache = TipCache.of(db)
        self._state_type = check_state_type(state_type)
        self._ttl = None if ttl is None else to_lifetime(ttl)
        self._compression_level = compression_level
        self._max_chain_depth = max_chain_depth
        indexed = _check_index_text(index_text)
        self._saver = Saver(
            db,
            self._cache,
            indexed if db.keyring.is_readable("text") else False,
            retention,
            max_chain_depth,
            compression_level,
            radix,
            SaveRoads(db, self._cache, retention),
        )

    def __repr__(self) -> str:
        return f"Checkpointer({self.db!r}, namespace={self.namespace!r})"

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """Features of this checkpointer: all, but no `search` where no word may be readable."""
        return CheckpointerCapabilities(
            search=self.db.keyring.is_readable("text"),
            metadata_query=True,
            vacuum=True,
            branching=True,
            ttl=True,
            list_threads=True,
            list_with_metadata=True,
            persistent_checkpoint_ids=True,
        )

    async def close(self) -> None:
        """Do nothing: the connections are the database's. The contract has this method."""

    # --- States -----------------------------------------------------------------------------------

    async def save(
        self,
        state: Any,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        parent_id: str | None = None,
        expected_parent: str | Unset | None = UNSET,
        lineage: str | Unset | None = UNSET,
        rests_on_parent: bool = False,
        run_id: str | None = None,
        occurred_at: datetime | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Save *state* as the newest checkpoint of the thread; return its id.

        Args:
            state: a mapping, a pydantic model, an object with ``to_checkpoint()``, or a dataclass
                that is the ``state_type``; `memalchemy.codec.values` lists what it may hold.
            thread_id: any text of up to 255 characters.
            checkpoint_id: made up if not given. One that exists is replaced and becomes the
                newest; what was built on its old state still loads.
            metadata: small JSON, for `query_by_metadata` and listings.
            parent_id: branch off this checkpoint instead of the newest.
            expected_parent: raise `Conflict` unless this is the newest checkpoint (``None``:
                unless there is none). The check and the save are one.
            lineage: the parent to record, whether it exists or not (``None``: no parent), for a
                host that keeps track of parents itself; the state is appended to the newest.
            rests_on_parent: the state is incomplete without its parent: without the parent's state,
                its pending writes, or what the parent rests on in turn. *parent_id* or *lineage*
                names the parent, which has to exist. Neither retention nor a deletion removes it
                while this checkpoint stays.
            run_id: the run that made the checkpoint, for `find_runs`.
            occurred_at: the time of the step, an aware datetime, for imports; now by default.
                ``older_than`` of retention goes by it.
            ttl: in place of the checkpointer's own. The last save counts: after one without any,
                the thread does not expire.

        Raises:
            NotSerialisable, TooLarge: the state or metadata cannot be stored; nothing was written.
            Conflict: *expected_parent* is not the newest.
            ThreadDeleted: a parent was named and the thread has been deleted since.
            NotFound: *parent_id*, or a parent that the state rests on, does not exist.
            ValueError: both *parent_id* and *lineage* were given, or *rests_on_parent* without
                either; *occurred_at* has no time zone.

        *state* is saved as it is when the call begins to run, however it changes while the call
        waits.
        """
        log = self._log(thread_id)
        if checkpoint_id is None:
            checkpoint_id = new_checkpoint_id()
        else:
            check_name(checkpoint_id, "checkpoint_id")
        for name, value in (
            ("parent_id", parent_id),
            ("expected_parent", expected_parent),
            ("lineage", lineage),
            ("run_id", run_id),
        ):
            if value is not None and value is not UNSET:
                check_name(value, name)
        if parent_id is not None and lineage is not UNSET:
            raise ValueError("give parent_id= to branch off it, or lineage= to record it; not both")
        if occurred_at is not None:
            check_time(occurred_at, "occurred_at=")
        named_parent = lineage if isinstance(lineage, str) else parent_id
        if rests_on_parent and named_parent is None:
            raise ValueError("rests_on_parent= needs the parent: give parent_id= or lineage=")
        if checkpoint_id in (parent_id, lineage):
            raise InvalidArgument("a checkpoint cannot be its own parent")
        return await self._save(
            state,
            log,
            checkpoint_id,
            metadata,
            ttl,
            connection,
            parent_id=parent_id,
            lineage=lineage,
            run_id=run_id,
            expected_parent=expected_parent,
            rests_on=named_parent if rests_on_parent else None,
            occurred_at=occurred_at,
        )

    async def _save(
        self,
        state: Any,
        log: Log,
        checkpoint_id: str,
        metadata: Mapping[str, Any] | None,
        ttl: Seconds | None,
        connection: HostConnection | None,
        *,
        occurred_at: datetime | None = None,
        **conditions: Unpack[SaveConditions],
    ) -> str:
        checked = check_metadata(metadata)
        mapping, fallback = await self._mapping_of(state, log.thread_id, connection)
        life = self._ttl if ttl is None else to_lifetime(ttl)
        cached = self._cache.get(log) if connection is None else None
        now = datetime.now(UTC)
        request = Request(
            log=log,
            checkpoint_id=checkpoint_id,
            state=mapping,
            encoded=await encode_off_loop(mapping, fallback, cached),
            metadata=checked,
            now=now,
            occurred_at=now if occurred_at is None else occurred_at,
            expires_at=None if life is None else now + life,
            **conditions,
        )
        with operation(
            "checkpoint.save",
            tenant=log.tenant,
            thread_id=log.thread_id,
            checkpoint_id=checkpoint_id,
        ) as event:
            await self._saver.save(request, connection, event)
        return checkpoint_id

    async def change(
        self,
        thread_id: str,
        function: Callable[[State | None], Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str | None:
        """Apply a function to the newest state and save the result; no save of others is lost.

        *function* takes the newest state as `load` returns it, or ``None`` if there is none. It
        returns the new state, which may be the one that it was given, or ``LEAVE`` to save nothing;
        it may be a coroutine function. If others save the thread meanwhile, the function is called
        again with their state, so it should have no side effects. For that call the thread is
        locked, unless the function is a coroutine function, which may take long. An exception that
        the function raises passes through, and nothing is saved.

        Returns the id of the newest checkpoint after the call; ``None`` if there is none.

        Args:
            metadata, ttl: as for `save`.

        Raises:
            InvalidArgument: the function returned ``None``; nothing was saved.
            NotSerialisable, TooLarge: the new state cannot be stored; nothing was saved.
            Conflict: others saved first 20 times, and the thread could not be locked; or the
                transaction of *connection* does not see what they have saved. Nothing was saved.
        """
        log, target = self._log(thread_id), f"thread {thread_id!r}"
        change = ChangeFunction(function, "a state")

        async def attempt(tx: HostConnection | None) -> str | None:
            found = await self._load(log, None, tx)
            parent, state = (None, None) if found is None else found
            changed = await change.call(state)
            if changed is LEAVE:
                return None if parent is None else parent.checkpoint_id
            check_changed_state(changed)
            return await self._save(
                changed,
                log,
                new_checkpoint_id(),
                metadata,
                ttl,
                tx,
                expected_parent=None if parent is None else parent.checkpoint_id,
                expected_row=None if parent is None else parent.row_keys[-1],
            )

        with function_errors():
            try:
                return await attempt(connection)
            except (Conflict, ThreadDeleted):
                if change.is_awaitable:
                    return await retry_on_conflict(partial(attempt, connection), target)
                lock = partial(self._lock, log)
                return await retry_with_lock(self.db, lock, attempt, target, connection)

    async def _lock(self, log: Log, connection: HostConnection) -> None:
        """Lock a log, if it exists, until the transaction of *connection* ends."""

        def program() -> Program[None]:
            yield lock_log(self.db.dialect), log.binds()

        await self.db.run(program, WRITE, connection=connection)

    async def load(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> State | None:
        """Return the state of a checkpoint, the newest without an id; ``None`` if there is none.

        One round trip; on Citus two, but one if this process holds the state. It holds the newest
        state of a thread that it has saved or loaded: whether that is still the newest is looked
        up, no payload is read, and the bytes in memory are compared with their checksum. Every call
        builds new objects. It sees its own writes: it does not read from a replica, unless the
        checkpointer is on ``db.replica()``.

        Raises:
            Corrupt: the stored state does not match its checksum.
            KeyMissing, NotEncrypted: the database's keys are not those of the stored state.
        """
        log = self._log(thread_id)
        _check_optional_id(checkpoint_id)
        found = await self._load(log, checkpoint_id, connection)
        return None if found is None else found[1]

    async def _load(
        self, log: Log, checkpoint_id: str | None, connection: HostConnection | None
    ) -> tuple[Tip, State] | None:
        """Return a checkpoint, the newest without an id, and its state."""
        now, d = datetime.now(UTC), self.db.dialect
        known = self._cache.get_checked(log)
        with operation(
            "checkpoint.load", **self._event_fields(log.thread_id, checkpoint_id)
        ) as event:
            found = await self.db.run(
                partial(load.load_chain, d, log, checkpoint_id, now, self.db.signing, known),
                READ,
                decode=load.chain_decoder(log, self.db.keyring, known),
                connection=connection,
                event=event,
            )
            if found is None:
                return None
            rebuilt, state = found
            event.checkpoint_id = rebuilt.checkpoint_id
            event.state_bytes = rebuilt.raw_size
            if rebuilt is not known:
                size_of = self.db.keyring.stored_size
                event.payload_bytes = sum(size_of(link.payload) for link in rebuilt.links)
                if checkpoint_id is None and connection is None:
                    self._cache.put(log, rebuilt)
        loaded: State = from_mapping(state, self._state_type)
        return rebuilt, loaded

    async def diff(
        self, thread_id: str, a: str, b: str, *, connection: HostConnection | None = None
    ) -> Diff:
        """Return the difference between the states of checkpoints *a* and *b*, as JSON pointers.

        Raises:
            NotFound: one of the checkpoints does not exist.
        """
        plain = Checkpointer(self.db, namespace=self.namespace)
        states = []
        for checkpoint_id in _check_checkpoint_ids((a, b)):
            state = await plain.load(thread_id, checkpoint_id, connection=connection)
            if state is None:
                raise _checkpoint_missing(thread_id, checkpoint_id)
            states.append(state)
        return diff.diff(*states)

    async def _mapping_of(
        self, state: Any, thread_id: str, connection: HostConnection | None
    ) -> tuple[Mapping[str, Any], Fallback | None]:
        """Return the mapping that `save` stores; a subclass with other rules overrides this."""
        return to_mapping(state, self._state_type)

    # --- Listing ----------------------------------------------------------------------------------

    async def exists(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Return whether the checkpoint exists; without an id, whether the thread has any."""
        return await self._find_info(thread_id, checkpoint_id, connection) is not None

    async def list_checkpoints(
        self, thread_id: str, limit: int = 10, *, connection: HostConnection | None = None
    ) -> list[str]:
        """Return the ids of the thread's checkpoints, newest first, at most *limit*."""
        found = self.history(thread_id, limit=limit, connection=connection)
        return [info.checkpoint_id async for info in found]

    async def history(
        self,
        thread_id: str | None,
        *,
        limit: int | None = None,
        before: str | None = None,
        below: bool = False,
        order: CheckpointOrder = "position",
        connection: HostConnection | None = None,
    ) -> AsyncIterator[CheckpointInfo]:
        """Yield the thread's checkpoints, newest first; with *before*, only those older than it.

        Reads no payload, in pages of 500; a checkpoint that is deleted or replaced meanwhile may be
        missing.

        Args:
            order: ``"position"``: as they were saved. ``"id"``: by their ids, the highest first,
                for hosts whose ids are in order of time; *before* may be any id then, and a
                *thread_id* of ``None`` stands for all threads of the namespace.
            below: include the namespaces under this one; in the order of ids only.

        Raises:
            NotFound: in the order of positions, the checkpoint *before* does not exist.
        """
        left = None if limit is None else check_limit(limit)
        if order not in ("position", "id"):
            raise ValueError(f"order is 'position' or 'id', not {order!r}")
        if order == "position" and (thread_id is None or check_flag(below, "below")):
            raise ValueError("several logs have no order of positions: give order='id'")
        if order == "position":
            assert thread_id is not None
            pages = await self._scan_by_position(thread_id, before, left, connection)
            if before is None:
                pages = self._verify_pages(self._log(thread_id), pages, connection)
        else:
            pages = self._scan_by_id(thread_id, before, below, left, connection)
        async with aclosing(pages):
            async for rows in pages:
                for row in rows[:left]:
                    yield listing.info(self.db, row)
                left = None if left is None else left - len(rows)
                if left is not None and left <= 0:
                    return

    async def _verify_pages(
        self, log: Log, pages: Any, connection: HostConnection | None
    ) -> AsyncIterator[Any]:
        """Yield the pages of a listing, and check that the newest checkpoint is in it.

        If all checkpoints are listed, check that none is missing and none was added.
        """
        d, keys, signatures = self.db.dialect, self.db.signing, list[bytes | None]()
        async with aclosing(pages):
            async for rows in pages:
                if not signatures:
                    newest = partial(check_newest_checkpoint, d, log, rows[0].checkpoint_id, keys)
                    await run_check(self.db, newest, READ_REPLICA, connection=connection)
                signatures += [row.signature for row in rows]
                yield rows
        every = partial(check_all_checkpoints, d, log, signatures, keys)
        await run_check(self.db, every, READ_REPLICA, connection=connection)

    async def _scan_by_position(
        self,
        thread_id: str,
        before: str | None,
        limit: int | None,
        connection: HostConnection | None,
    ) -> Any:
        d, binds = self.db.dialect, self._log(thread_id).binds()
        at = None
        if before is not None:
            at = (await self._require_info(thread_id, before, connection)).seq
        return scan(
            self.db,
            lambda after: listing.list_checkpoints(d, before=after or at is not None),
            binds | {"p_before": at},
            lambda last: {"p_before": last.seq},
            connection,
            size=PAGE if limit is None else min(limit, PAGE),
            replica_ok=True,
        )

    def _scan_by_id(
        self,
        thread_id: str | None,
        before: str | None,
        below: bool,
        limit: int | None,
        connection: HostConnection | None,
    ) -> Any:
        _check_optional_id(before)
        if thread_id is None:
            scope = "tenant" if below else "namespace"
        else:
            scope = "thread" if below else "log"
        binds = self._namespace_binds(below) | {"p_until": before}
        if thread_id is not None:
            log = self._log(thread_id)
            binds |= log.binds() | {"k_thread_id": log.thread_id}
        return scan(
            self.db,
            lambda after: listing.list_by_id(
                self.db.dialect, scope=scope, until=before is not None, after=after
            ),
            binds,
            ("checkpoint_id", "thread_id", "namespace"),
            connection,
            size=PAGE if limit is None else min(limit, PAGE),
        )

    async def get_metadata(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> CheckpointRecord | None:
        """Return a checkpoint without its state, the newest without an id; ``None`` if none exists.

        The keys are the fields of `CheckpointInfo`.
        """
        info = await self._find_info(thread_id, checkpoint_id, connection)
        return None if info is None else info.as_dict()

    async def query_by_metadata(
        self,
        key: str,
        value: Any,
        limit: int = 100,
        *,
        data: bool = False,
        connection: HostConnection | None = None,
    ) -> list[CheckpointMatch]:
        """Return checkpoints whose metadata has *value* under *key*, newest first.

        Each is as `get_metadata` gives it.

        Numbers compare as numbers and booleans as booleans. Any key works; an index answers, except
        on Oracle, which has none over keys that are not known beforehand. With *data* each has its
        state under ``data``, as it is stored: one more read for each 100.
        """
        if not isinstance(key, str):
            raise TypeError(f"key is a str, not {type(key).__name__}")
        ((key, value),) = check_metadata({key: value}).items()
        kind = kind_of(value)
        d, limit = self.db.dialect, check_limit(limit)
        binds = self._namespace_binds(below=False) | {"p_limit": limit}
        binds |= d.statements.json_equals_binds(key, value, kind)
        for exact in (False, True):
            statement = listing.list_by_metadata(d, kind=kind, exact=exact)
            rows = await run_query(self.db, statement, binds, connection, replica_ok=True)
            equal = [row for row in rows if row.is_equal]
            if len(equal) == len(rows) or len(rows) < limit:
                break
        found: list[Any] = [listing.info(self.db, row).as_dict() for row in equal]
        return await self._add_states(found, connection) if data else found

    async def list_with_metadata(
        self, limit: int = 100, *, connection: HostConnection | None = None
    ) -> list[CheckpointRecord]:
        """Return the newest checkpoints of all threads, newest first, as `get_metadata`."""
        return await self._run_listing(listing.list_newest(self.db.dialect), limit, connection)

    async def list_threads(
        self,
        limit: int = 100,
        pattern: str = "*",
        *,
        offset: int = 0,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return the ids of threads with a checkpoint, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``. *offset*
        skips as many of the first; a thread that is saved meanwhile moves to the front.
        """
        found = ThreadListing(self.db, self._path, "checkpoints", pattern)
        limit, offset = check_limit(limit), check_limit(offset, "offset")
        return (await found.first(limit + offset, connection))[offset:]

    async def count_threads(
        self, pattern: str = "*", *, connection: HostConnection | None = None
    ) -> int:
        """Count the threads with a checkpoint whose ids match the glob."""
        found = ThreadListing(self.db, self._path, "checkpoints", pattern)
        return await found.count(connection)

    async def list_logs(
        self,
        thread_id: str | None = None,
        *,
        limit: int = 100,
        pattern: str = "*",
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> list[LogInfo]:
        """Return logs with a checkpoint or an entry, most recently written first, at most *limit*.

        They are those of all threads, of one thread, or of threads whose whole id matches the glob
        *pattern*, as in `list_threads`. A log is a thread in one namespace: in this checkpointer's,
        with *below* also in those under it. All logs are below the root: those of frameworks,
        conversations, event logs. `LogInfo` has the counts and sizes of what a log holds.
        """
        heads = await list_log_heads(
            self.db,
            self._path,
            None if thread_id is None else check_thread_id(thread_id),
            below=check_flag(below, "below"),
            pattern=pattern,
            limit=check_limit(limit),
            connection=connection,
        )
        return await describe_logs(self.db, heads, connection)

    async def namespaces(
        self, thread_id: str, *, connection: HostConnection | None = None
    ) -> list[tuple[str, ...]]:
        """Return the namespaces, from this one on down, in which the thread has a checkpoint."""
        return await namespaces_of_thread(self.db, self._path, thread_id, connection=connection)

    async def get_storage_stats(
        self, thread_id: str, *, connection: HostConnection | None = None
    ) -> StorageStats:
        """Return the number and sizes of a thread's checkpoints.

        The keys are ``total_checkpoints``; ``total_size``, the bytes of every state whole;
        ``compressed_size``, the bytes stored; ``compression_ratio``, ``total_size`` over
        ``compressed_size``, or 1.0 of an empty thread; ``full_checkpoints`` and
        ``delta_checkpoints``.
        """
        log = self._log(thread_id)
        binds = log.binds()
        statement, check = listing.measure_log(self.db.dialect), self._program_checking(log)
        rows = await run_query(self.db, statement, binds, connection, replica_ok=True, check=check)
        count, raw, stored, full = tuple(rows[0])
        return {
            "total_checkpoints": count,
            "total_size": int(raw),
            "compressed_size": int(stored),
            "compression_ratio": float(raw) / float(stored) if stored else 1.0,
            "full_checkpoints": int(full),
            "delta_checkpoints": count - int(full),
        }

    # --- Search -----------------------------------------------------------------------------------

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        below: bool = False,
        match: Match = "any",
        data: bool = False,
        connection: HostConnection | None = None,
    ) -> list[CheckpointHit]:
        """Return checkpoints whose step added words of *query*, best first.

        Each is as `get_metadata` gives it, with ``snippet`` and ``score``, 0 to 1. The best scores
        the share of the query that it holds, rare words counting more; the others score in
        proportion to it, by BM25. Words are compared and ranked as `Store.search` compares them. A
        query without words finds nothing. The snippet is from a text of the state, as it was
        written, for which the states of the hits are read; of a state that cannot be read, and
        beyond 16 MiB of states, it has some of the stored words, each once.

        With the *match* ``all`` only checkpoints are found whose step added all words. With *below*
        the namespaces under this one are included, in one ranking:
        `Checkpointer(db).search(…, below=True)` finds what any framework has saved. With *data*
        each has its state under ``data``, as it is stored.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words;
                ``capability`` is ``search``.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
        """
        limit, below = check_limit(limit), check_flag(below, "below")
        self.db.keyring.check_readable("text", "a search")
        first_words = self.db.has_first_words
        wanted = WordQuery.of(check_query(query), check_match(match), first_words=first_words)
        if not wanted or not limit:
            return []
        d = self.db.dialect
        scope, binds = search_scope(d, self.db.tenant, self._path, below=below)
        with operation("checkpoint.search", tenant=self.db.tenant) as event:
            best = await self.db.run(
                lambda: find_checkpoints(d, wanted, binds, scope, limit),
                READ_REPLICA,
                connection=connection,
                event=event,
            )
            if not best:
                await self.db.check_search(connection)
        shown = wanted.shown_terms()
        found: list[Any] = [
            {
                **listing.found_info(self.db, row).as_dict(),
                "score": score,
                "snippet": row.search_text,
            }
            for score, row in best
        ]
        if data:
            found = await self._add_states(found, connection)
            size = sum(one["raw_size"] for one in found)
            texts = await off_loop(
                size, lambda: [found_text(one["data"], one["snippet"], shown) for one in found]
            )
        else:
            rows = [row for _, row in best]
            texts = await read_found_texts(self.db, rows, shown, connection)
        for one, text in zip(found, texts, strict=True):
            one["snippet"] = excerpt(text, one["snippet"], shown)
        return found

    async def search_data(
        self,
        path: str,
        value: Any,
        limit: int = 100,
        *,
        among: int | None = 1000,
        connection: HostConnection | None = None,
    ) -> list[CheckpointWithData]:
        """Return threads whose newest state has *value* under *path*, most recently saved first.

        Each is as `get_metadata` gives its newest checkpoint, with the state under ``data``, as it
        is stored. *path* is a top-level key of the state, or a JSON pointer such as ``/user/name``;
        values are equal as in `memalchemy.filters`. No index serves this: the newest states of the
        *among* threads saved last are read, 20 at once, and a thread beyond them is not
        found; ``among=None`` reads those of all. A value that is searched for often belongs in the
        metadata of a save, where `query_by_metadata` finds it by an index.

        Raises:
            Corrupt: a stored state that was read does not match its checksum.
        """
        limit = check_limit(limit)
        left = None if among is None else check_limit(among, "among")
        wanted = field_equals(path, value)
        found: list[CheckpointWithData] = []
        threads = ThreadListing(self.db, self._path, "checkpoints", "*")
        with operation("checkpoint.search", tenant=self.db.tenant):
            async with aclosing(threads.pages(connection)) as pages:
                async for rows in pages:
                    for first in range(0, len(rows), STATES):
                        some = rows[first : first + STATES][:left]
                        left = None if left is None else left - len(some)
                        found += await self._newest_matching(wanted, some, connection)
                        if len(found) >= limit or left == 0:
                            return found[:limit]
        return found

    # --- Branches and copies ----------------------------------------------------------------------

    async def fork(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        new_thread_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Copy a thread up to a checkpoint (the newest without an id) into a new thread.

        If a framework keeps the thread in several logs, such as one for each subgraph, all are
        copied, each as it was at that checkpoint. The two threads share nothing afterwards.

        Returns the new thread's id, ``THREAD-fork-xxxxxxxx`` if none is given (a long THREAD is cut
        off to fit).

        Raises:
            NotFound: the checkpoint does not exist.
            Conflict: the new thread holds something in a namespace that is copied.
            ValueError: the new thread is the old one.
        """
        with operation("checkpoint.fork", **self._event_fields(thread_id, checkpoint_id)) as event:
            info = await self._require_info(thread_id, checkpoint_id, connection)
            target = new_thread_id
            if target is None:
                target = new_fork_id(thread_id)
            if target == thread_id:
                raise InvalidArgument("a fork needs a thread id of its own")
            event.checkpoint_id, event.details["to"] = info.checkpoint_id, target
            source, to = self._log(thread_id), self._log(target)
            self._cache.drop_thread(to.tenant, target)
            parts = await self._logs_of_thread(source, connection)
            if len(parts) == 1:
                copied = await self._fork_log(source, to, info.checkpoint_id, connection, event)
            else:
                async with self._transaction(connection) as tx:
                    copied = await self._fork_parts(source, to, info.checkpoint_id, tx, event)
            if not copied:
                raise _checkpoint_missing(thread_id, info.checkpoint_id)
        return target

    async def _fork_parts(
        self, source: Log, to: Log, checkpoint_id: str, tx: HostConnection, event: Event
    ) -> bool:
        """Copy a log up to a checkpoint, and the other logs of its thread as they were then."""
        await self._lock(source, tx)
        _, *others = await self._logs_of_thread(source, tx)
        main = [info async for info in self.history(source.thread_id, connection=tx)]
        if not await self._fork_log(source, to, checkpoint_id, tx, event):
            return False
        is_newest = bool(main) and main[0].checkpoint_id == checkpoint_id
        origin = _origin_of_parts(source)
        for part in others:
            until = None
            if not is_newest:
                if origin is None:
                    continue
                infos = await self._all_infos(part, tx)
                until = newest_of_branch(main, checkpoint_id, infos, origin)
                if until is None:
                    continue
            await self._fork_log(part, part._replace(thread_id=to.thread_id), until, tx, event)
        return True

    async def _fork_log(
        self,
        source: Log,
        to: Log,
        checkpoint_id: str | None,
        connection: HostConnection | None,
        event: Event,
    ) -> bool:
        """Copy one log, up to a checkpoint if one is given."""
        return await self.db.run(
            partial(
                copy_log,
                self.db.dialect,
                source,
                to,
                datetime.now(UTC),
                checkpoint_id=checkpoint_id,
                keyring=self.db.keyring,
            ),
            WRITE,
            connection=connection,
            event=event,
        )

    async def copy_thread(
        self,
        source_thread_id: str,
        dest_thread_id: str,
        *,
        all_namespaces: bool = True,
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> bool:
        """Copy a thread with all its logs; checkpoint ids and order stay. ``False`` if it is empty.

        The logs of every namespace are copied, whatever wrote them. Without *all_namespaces* only
        the log in this namespace is, with the others in which a framework keeps the same thread;
        with *below* the logs of this namespace and the ones under it.

        Raises:
            Conflict: the target holds something in a namespace that is copied; nothing was changed.
            ValueError: the target is the source.
        """
        source, target = self._log(source_thread_id), self._log(dest_thread_id)
        if source == target:
            raise InvalidArgument("a thread cannot be copied onto itself")
        now = datetime.now(UTC)
        scope = "below" if below else "all" if all_namespaces else "own"
        self._cache.drop_thread(target.tenant, dest_thread_id)
        with operation("checkpoint.copy", **self._event_fields(source_thread_id, None)) as event:
            event.details["to"] = dest_thread_id
            return await self.db.run(
                partial(self._copy_logs, source, target, scope, now),
                WRITE,
                connection=connection,
                event=event,
            )

    # --- Pending writes ---------------------------------------------------------------------------

    async def put_writes(
        self,
        writes: Sequence[tuple[str, Any]],
        thread_id: str,
        checkpoint_id: str,
        task_id: str,
        *,
        task_path: str = "",
        indexes: Sequence[int] | None = None,
        overwrite: bool = False,
        made_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Store the pending writes of a task for the step after a checkpoint.

        The checkpoint may be saved later.

        One round trip on PostgreSQL. The writes live as long as their checkpoint.

        Args:
            writes: pairs of a channel and a value.
            indexes: the index of each write within its task; 0, 1, … by default. Of several writes
                with one index the first stays, with *overwrite* the last; below 0 the last in any
                case.
            made_at: the time at which the checkpoint was made. If it is after the thread's
                deletion, the checkpoint belongs to the thread's next life: the write is stored, and
                seen once a checkpoint has begun that life.

        Raises:
            NotSerialisable, TooLarge: a value cannot be stored; nothing was written.
            ThreadDeleted: the thread has been deleted.
            Conflict: others made the thread anew 20 times, and it expired each time; nothing was
                written.
        """
        log = self._log(thread_id)
        check_name(checkpoint_id, "checkpoint_id")
        for text, what in ((task_id, "task_id"), (task_path, "task_path")):
            if not isinstance(text, str):
                raise TypeError(f"{what} must be a str, not {type(text).__name__}")
        given = [_check_pair(write) for write in check_list(writes, "writes")]
        places = list(range(len(given)))
        if indexes is not None:
            places = [_check_write_index(index) for index in check_list(indexes, "indexes")]
        if len(places) != len(given):
            raise ValueError(f"indexes= has {len(places)} places for {len(given)} writes")
        if made_at is not None:
            check_time(made_at, "made_at=")
        if not given:
            return
        content = [(place, *write) for place, write in zip(places, given, strict=True)]
        with operation("checkpoint.write", **self._event_fields(thread_id, checkpoint_id)) as event:
            await put_writes(
                self.db,
                self._saver.roads,
                log,
                checkpoint_id,
                (task_id, task_path, content),
                overwrite=overwrite,
                made_at=made_at,
                ttl=self._ttl,
                connection=connection,
                event=event,
            )

    async def get_writes(
        self, thread_id: str, checkpoint_id: str, *, connection: HostConnection | None = None
    ) -> list[PendingWrite]:
        """Return the pending writes of the step after a checkpoint.

        They are ordered by (task_path, task_id, index).
        """
        log = self._log(thread_id)
        check_name(checkpoint_id, "checkpoint_id")
        found = await self._load_writes(log, [checkpoint_id], connection)
        return found.get(checkpoint_id, [])

    async def get_writes_batch(
        self,
        thread_id: str,
        checkpoint_ids: Sequence[str],
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, list[PendingWrite]]:
        """Return the pending writes of some checkpoints of a thread, each as `get_writes` does.

        Checkpoints without writes are not in the result. One round trip for each hundred or more.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """
        log = self._log(thread_id)
        return await self._load_writes(log, _check_checkpoint_ids(checkpoint_ids), connection)

    async def _load_writes(
        self, log: Log, checkpoint_ids: Sequence[str], connection: HostConnection | None
    ) -> dict[str, list[PendingWrite]]:
        names = [(log, one) for one in checkpoint_ids]
        d, signing, now = self.db.dialect, self.db.signing, datetime.now(UTC)
        reading = partial(load_writes, d, names, signing, now)
        rows: dict[str, list[Any]] = {}
        for row in await self.db.run(reading, READ, connection=connection):
            rows.setdefault(row.label, []).append(row)
        return {
            one: load.decode_pending_writes(log, one, rows[one], self.db.keyring) for one in rows
        }

    def _program_checking(self, log: Log) -> Callable[[], Program[None]]:
        """Return the program that checks a log, some rows of which were read, against its head."""
        return partial(check_nothing_missing, self.db.dialect, log, self.db.signing)

    async def snapshot(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        newest_by: CheckpointOrder = "position",
        connection: HostConnection | None = None,
    ) -> Snapshot | None:
        """Return a checkpoint with its state and pending writes; ``None`` if it does not exist.

        One round trip.

        Args:
            newest_by: the checkpoint to return without a *checkpoint_id*: the last saved
                (``"position"``), or the one of the highest id (``"id"``), for hosts whose ids are
                in order of time.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """
        log = self._log(thread_id)
        _check_optional_id(checkpoint_id)
        if newest_by not in ("position", "id"):
            raise ValueError(f"newest_by is 'position' or 'id', not {newest_by!r}")
        return await self._load_snapshot(log, checkpoint_id, newest_by, connection)

    async def _load_snapshot(
        self,
        log: Log,
        checkpoint_id: str | None,
        newest_by: CheckpointOrder,
        connection: HostConnection | None,
    ) -> Snapshot | None:
        now, d = datetime.now(UTC), self.db.dialect
        known = self._cache.get_checked(log)
        fields = self._event_fields(log.thread_id, checkpoint_id)
        with operation("checkpoint.load", **fields) as event:
            made = await self.db.run(
                partial(
                    load.load_snapshot,
                    d,
                    log,
                    checkpoint_id,
                    newest_by,
                    now,
                    self.db.signing,
                    known,
                ),
                READ,
                decode=load.snapshot_decoder(log, self.db.keyring, known),
                connection=connection,
                event=event,
            )
            if made is None:
                return None
            tip, found = made
            event.checkpoint_id = found.checkpoint_id
            if tip is not known and checkpoint_id is None and connection is None:
                self._cache.put(log, tip)
        if checkpoint_id is None and pending_writes.is_hashed(found.checkpoint_id):
            late = await self._load_writes(log, [found.checkpoint_id], connection)
            found.writes.extend(late.get(found.checkpoint_id, ()))
        return found

    async def snapshots(
        self,
        thread_id: str,
        checkpoint_ids: Sequence[str],
        *,
        connection: HostConnection | None = None,
    ) -> AsyncIterator[Snapshot]:
        """Yield the given checkpoints as `snapshot` returns them, in order, without missing ones.

        Two round trips for each 20.
        """
        log = self._log(thread_id)
        names = [(log, one) for one in _check_checkpoint_ids(checkpoint_ids)]
        for first in range(0, len(names), STATES):
            for found in await self._load_snapshots(names[first : first + STATES], connection):
                if found is not None:
                    yield found

    async def snapshots_of(
        self, infos: Iterable[CheckpointInfo], *, connection: HostConnection | None = None
    ) -> AsyncIterator[tuple[CheckpointInfo, Snapshot]]:
        """Yield the checkpoints of a listing, in order, as `snapshot` returns them.

        They may be of any threads and namespaces. Two round trips for each 100, or fewer if their
        states are large; checkpoints that were deleted meanwhile are left out.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """
        listed = [_check_info(one) for one in check_list(infos, "infos")]
        for some in batches(listed, attrgetter("raw_size"), most_rows=LISTED_STATES):
            names = [
                (self._log_of(info.thread_id, info.namespace), info.checkpoint_id) for info in some
            ]
            read = await self._load_snapshots(names, connection)
            for info, found in zip(some, read, strict=True):
                if found is not None:
                    yield info, found

    async def _load_snapshots(
        self, names: Sequence[StateName], connection: HostConnection | None
    ) -> list[Snapshot | None]:
        """Return some checkpoints with their pending writes, read together; ``None`` if missing."""
        found = await self.db.run(
            partial(load_snapshots, self.db.dialect, names, self.db.signing, datetime.now(UTC)),
            READ,
            decode=states_decoder(self.db.keyring),
            connection=connection,
        )
        return [
            # One that is missing was saved anew meanwhile, or is gone.
            found.get(name) or await self._load_snapshot(*name, "position", connection)
            for name in names
        ]

    def cached_values(
        self, thread_id: str, checkpoint_id: str, keys: Iterable[str]
    ) -> dict[str, Any]:
        """Return the values of *keys* in a checkpoint's state, as far as they are cached.

        It does not ask the database. Only the newest checkpoint of a thread that this process has
        saved or loaded is cached; of any other the result is empty.
        """
        wanted = check_list(keys, "keys")
        tip = self._cache.get(self._log(thread_id))
        held = None if tip is None else tip.links[-1].parts
        if tip is None or held is None or tip.checkpoint_id != checkpoint_id:
            return {}
        return {key: values.decode_value(held[key]) for key in wanted if key in held}

    async def find_runs(
        self, run_ids: Iterable[str], *, connection: HostConnection | None = None
    ) -> dict[tuple[str, tuple[str, ...]], list[str]]:
        """Return the ids of the checkpoints saved with one of *run_ids*, by thread and namespace.

        Only checkpoints in this namespace and below it are found, each list in the order of saving.
        """
        d = self.db.dialect
        found: dict[tuple[str, tuple[str, ...]], list[tuple[int, str]]] = {}
        given = check_list(run_ids, "run_ids")
        ids = [(encode_id(check_name(one, "run_id")),) for one in given]
        now = datetime.now(UTC)
        for listed in d.statements.list_batches("p_keys", ids):
            binds = self._namespace_binds() | listed | {"p_now": now}
            for row in await run_query(
                self.db, listing.list_checkpoints_of_runs(d), binds, connection
            ):
                log = row.thread_id, decode_namespace(row.namespace)
                found.setdefault(log, []).append((row.seq, row.checkpoint_id))
        return {log: [name for _, name in sorted(made)] for log, made in found.items()}

    async def set_thread_metadata(
        self,
        thread_id: str,
        metadata: Mapping[str, Any],
        *,
        connection: HostConnection | None = None,
    ) -> None:
        """Replace the metadata of the thread itself, such as a title or an owner, as a whole.

        The metadata belongs to the thread in this namespace. `list_logs` returns it, `fork` copies
        it, `delete` and `forget` remove it, and ``forget(metadata=…)`` finds the thread by it. It
        is not the metadata of a checkpoint: see `save`. Setting it does not change the order of
        `list_threads`.

        Raises:
            NotFound: the thread has no log in this namespace, or it has expired.
        """
        log, checked = self._log(thread_id), check_metadata(metadata)
        with operation("checkpoint.set_metadata", **self._event_fields(thread_id, None)) as event:
            program = partial(set_thread_metadata, self.db.dialect, log, checked, datetime.now(UTC))
            if not await self.db.run(program, WRITE_STATEMENT, connection=connection, event=event):
                raise NotFound(f"there is no thread {thread_id!r} in this namespace")

    # --- Deleting ---------------------------------------------------------------------------------

    async def delete(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        superseded: bool = False,
        all_namespaces: bool = True,
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> bool:
        """Delete a checkpoint, or without an id the thread with all its logs.

        Returns whether it existed.

        The logs of every namespace are deleted, whatever wrote them. Without *all_namespaces* only
        the log in this namespace is, with its checkpoints and entries, and the others in which a
        framework keeps the same thread; with *below* the logs of this namespace and the ones under
        it.

        A checkpoint that another rests on (see `save`) is not deleted before that one.

        A deleted checkpoint's state stays in the database, with no id, while others are stored as
        differences from it; `rewrite` ends that. Searches no longer find its words, unless it is
        *superseded*, a mere step to the thread's next checkpoint: then they find that one.

        Raises:
            Conflict: another checkpoint rests on this one; nothing was deleted.
        """
        _check_optional_id(checkpoint_id)
        log, d, now = self._log(thread_id), self.db.dialect, datetime.now(UTC)
        with operation(
            "checkpoint.delete", **self._event_fields(thread_id, checkpoint_id)
        ) as event:
            if checkpoint_id is None:
                self._cache.drop_thread(log.tenant, thread_id)
                scope = "below" if below else "all" if all_namespaces else "own"
                program = partial(self._delete_logs, log, scope, now)
            else:
                self._cache.drop(log)
                program = partial(
                    delete_checkpoint, d, log, checkpoint_id, now, superseded=superseded
                )
            return await self.db.run(program, WRITE_ROWS, connection=connection, event=event)

    async def delete_checkpoints(
        self,
        thread_id: str,
        checkpoint_ids: Iterable[str],
        *,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete some checkpoints with their pending writes; return their number.

        One transaction.

        Those that others rest on (see `Checkpointer.save`) stay.
        """
        given = check_list(checkpoint_ids, "checkpoint_ids")
        ids = [check_name(one, "checkpoint_id") for one in given]
        log, now = self._log(thread_id), datetime.now(UTC)
        if not ids:
            return 0
        self._cache.drop(log)
        with operation("checkpoint.delete", **self._event_fields(thread_id, None)) as event:
            return await self.db.run(
                partial(delete_checkpoints, self.db.dialect, log, ids, now),
                WRITE_ROWS,
                connection=connection,
                event=event,
            )

    async def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: Seconds | None = None,
        all_namespaces: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete the checkpoints that no given rule keeps (see `Retention`); return their number.

        It prunes one thread, or all; in this checkpointer's namespace, or in all. The newest of a
        thread always stays, and so do states that kept checkpoints are built on. Words of a deleted
        checkpoint that its next remaining descendant holds are found at that one from now on: in
        each branch, or in the hundred newest.

        If a framework keeps a thread in several logs, such as one for each subgraph, the rules are
        for the main log, and the others keep what its remaining checkpoints need.

        Over all threads it works in batches, each a transaction of its own of about 2,000 rows. A
        thread that somebody is saving into is skipped and tried again at the end, for some two
        seconds; then it is left, and `Progress.busy` counts it. A single thread is waited for. An
        interrupted prune is resumed by running it again.

        Args:
            dry_run: only count what would be deleted, exactly; nothing is written.
            progress: called after every batch.
        """
        rules = Retention(keep_last, keep_every, older_than)
        now = datetime.now(UTC)
        scope, scope_binds = self._scope_of_logs(thread_id, all_namespaces)
        run = RetentionRun(
            self.db,
            self._cache,
            scope_binds,
            retention_binds(rules, now) | {"p_now": now},
            scope=scope,
            which="live",
            wait=thread_id is not None,
            connection=connection,
        )
        known = {"tenant": self.db.tenant, "thread_id": thread_id}
        with operation("checkpoint.prune", **known) as event:
            for main in await self._threads_with_parts(thread_id, all_namespaces, connection):
                with run.damage.noted():
                    await self._prune_thread(main, run, event, dry_run)
            return await run.run(event, progress, dry_run=dry_run)

    async def _threads_with_parts(
        self, thread_id: str | None, all_namespaces: bool, connection: HostConnection | None
    ) -> list[Log]:
        """Return the main logs of the threads to prune whose checkpoints are in several logs."""
        found: dict[Log, None] = {}
        for path in main_paths() if all_namespaces else [self._path]:
            if thread_parts(path) is None:
                continue
            heads = await list_log_heads(
                self.db,
                path,
                thread_id,
                below=True,
                pattern="*",
                limit=MAX_LIMIT,
                connection=connection,
            )
            for head in heads:
                if head.namespace != path:
                    found[Log(self.db.tenant, head.thread_id, path)] = None
        return [main for main in found if _origin_of_parts(main) is not None]

    async def _prune_thread(
        self, main: Log, whole: RetentionRun, event: Event, dry_run: bool
    ) -> None:
        """Prune the main log of a thread by the rules of a run, and the others by what is left."""
        run = replace(
            whole,
            scope="log",
            scope_binds=main.head_binds(),
            left_out=set(),
            damage=Damage(),
            now=Progress(0, 0),
        )
        whole.add(await self._logs_of_thread(main, run.connection), 0, 0)
        before = await self._all_infos(main, run.connection)
        going = await run.list_going(main) if dry_run else set()
        pruned = await run.run(event, None, dry_run=dry_run)
        left = before if dry_run else await self._all_infos(main, run.connection)
        remaining = frozenset(one.checkpoint_id for one in left) - going
        pruned += await self._prune_parts(main, before, remaining, run.connection, event, dry_run)
        whole.add([], pruned, run.now.busy)

    async def _prune_parts(
        self,
        log: Log,
        main: Sequence[CheckpointInfo],
        left: frozenset[str],
        connection: HostConnection | None,
        event: Event,
        dry_run: bool,
    ) -> int:
        """Delete what the checkpoints *left* of a log do not need in the others of its thread."""
        declared, origin = thread_parts(log.namespace), _origin_of_parts(log)
        assert declared is not None
        assert origin is not None
        _, *others = await self._logs_of_thread(log, connection)
        pruned = 0
        for part in others:
            infos = await self._all_infos(part, connection)
            needed = needed_of_part(
                main,
                left,
                infos,
                origin,
                is_of_one_step=declared.is_of_one_step(decode_namespace(part.namespace)),
            )
            going = [one.checkpoint_id for one in infos if one.checkpoint_id not in needed]
            if not going:
                continue
            if dry_run:
                required = partial(without_required, self.db.dialect, part, going)
                pruned += len(await self.db.run(required, READ, connection=connection))
                continue
            own = Checkpointer(self.db, namespace=decode_namespace(part.namespace))
            if not needed:
                pruned += len(infos)
                self._cache.drop(part)
                gone = partial(delete_log, self.db.dialect, part, datetime.now(UTC))
                await self.db.run(gone, WRITE_ROWS, connection=connection, event=event)
                continue
            # A prune hands words over to the oldest remaining checkpoint, if that still holds them.
            newest_first = sorted(infos, key=lambda one: one.seq, reverse=True)
            last = max(n for n, one in enumerate(newest_first, 1) if one.checkpoint_id in needed)
            pruned += await own.prune(part.thread_id, keep_last=last, connection=connection)
            between = [one.checkpoint_id for one in newest_first[:last]]
            pruned += await own.delete_checkpoints(
                part.thread_id,
                [one for one in between if one not in needed],
                connection=connection,
            )
        return pruned

    async def vacuum(
        self,
        older_than_days: float | None = 30,
        *,
        all_namespaces: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove threads that were not saved for some days, expired threads, and old tombstones.

        A log stays while its thread is in use in a namespace above it, such as the log of a
        subgraph with a memory of its own. With ``older_than_days=None`` only expired threads and
        old tombstones are removed, which no reader sees. A thread is removed as a whole. Batches,
        busy threads, *dry_run* and *progress* are as in `prune`. Returns the number of removed
        checkpoints and entries. `memalchemy.space.reclaim` gives the space back.
        """
        now = datetime.now(UTC)
        if isinstance(older_than_days, bool):
            raise TypeError("older_than_days is a number of days, not bool")
        if older_than_days is None:
            cutoff = datetime(1970, 1, 1, tzinfo=UTC)
        elif 0 <= older_than_days < 365_000:
            cutoff = now - timedelta(days=older_than_days)
        else:
            raise ValueError("older_than_days must not be negative, nor over a thousand years")
        scope, scope_binds = self._scope_of_logs(None, all_namespaces)
        run = RetentionRun(
            self.db,
            self._cache,
            scope_binds,
            {"p_now": now, "p_cutoff": cutoff, "p_tombstone_cutoff": now - TOMBSTONE_LIFE},
            scope=scope,
            which="stale",
            wait=False,
            connection=connection,
        )
        with operation("checkpoint.vacuum", tenant=self.db.tenant) as event:
            return await run.run(event, progress, dry_run=dry_run)

    async def rewrite(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Encode a thread's checkpoints anew, so that nothing of deleted states is left in them.

        One transaction. Returns the number of states that were dropped because no checkpoint has
        them. What the database itself keeps (free pages, write-ahead logs, backups) is out of
        reach.
        """
        log, now = self._log(thread_id), datetime.now(UTC)
        self._cache.drop(log)
        with operation("checkpoint.rewrite", **self._event_fields(thread_id, None)) as event:
            dropped = await self.db.run(
                lambda: rewrite.rewrite_log(
                    self.db.dialect,
                    log,
                    now,
                    level=self._compression_level,
                    max_depth=self._max_chain_depth,
                    keyring=self.db.keyring,
                ),
                WRITE,
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
        namespace: Iterable[str] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Erase everything of the tenant, of a thread, or of all threads and items with *metadata*.

        With *namespace*, erase what all threads have in that namespace and below it. It is the
        whole namespace as it is stored, not relative to this checkpointer's; frameworks put the
        names of users into it. What the threads have elsewhere stays, and items stay:
        `Store.forget_namespace` erases those.

        Give exactly one of the four; *tenant* must be that of this database, so that leaving an
        argument away never erases everything. It erases all logs and namespaces, expired ones too,
        and leaves no tombstone, and no word in a text index. A thread matches *metadata* if each
        pair is in its own metadata or in a checkpoint's, an item of a store if its metadata has all
        pairs; its vectors go too. Returns the number of erased checkpoints, entries and items.
        `export` with the same argument writes out the same checkpoints and entries; for *namespace*
        it is ``Checkpointer(db, namespace=…).export(tenant=…, all_namespaces=False)``, of one
        namespace.

        Free pages and the write-ahead log of a SQLite file are cleaned as well; if a reader
        prevents that, a warning is logged that names the command to run. On a server the pages keep
        dead rows until `memalchemy vacuum --full` rewrites them. Backups, archived logs and
        replicas are out of reach: see docs/erasure.md. Nothing of this is done for a host's
        *connection*.

        Raises:
            ValueError: *tenant* is not that of this database; or *namespace* is empty, which would
                be all threads of the tenant.
        """
        namespace = None if namespace is None else check_namespace(namespace)
        if namespace == ():
            raise InvalidArgument(
                "the namespace is empty, which would erase every thread of the tenant: tenant=… "
                "does that, and erases the items, too"
            )
        self._check_selectors(tenant, thread_id, metadata, namespace=namespace)
        with operation("checkpoint.forget", tenant=self.db.tenant, thread_id=thread_id) as event:
            erased = await forget.forget(
                self.db,
                self._cache,
                tenant=tenant,
                thread_id=thread_id,
                metadata=metadata,
                path=None if namespace is None else encode_namespace(namespace),
                connection=connection,
                event=event,
            )
            event.details["erased"] = erased
        return erased

    # --- Export -----------------------------------------------------------------------------------

    async def export(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        all_namespaces: bool = True,
        connection: HostConnection | None = None,
    ) -> AsyncIterator[ExportRecord]:
        """Yield every checkpoint and entry that `forget` would erase, as a JSON object.

        Thread by thread and log by log, oldest checkpoint first, then the entries in order, which
        have a ``position`` and a ``value``. Values that JSON lacks are tagged objects such as
        ``{"~b": base64}``. Without *all_namespaces* only those of threads in this namespace, with
        all logs of a framework's thread.

        Raises:
            ValueError: *tenant* is not that of this database.
        """
        self._check_selectors(tenant, thread_id, metadata)
        about = {"tenant": self.db.tenant, "thread_id": thread_id}
        with operation("checkpoint.export", **about) as event:
            event.details["exported"] = exported = 0
            threads = None
            if tenant is None:
                threads = await forget.selected_threads(self.db, thread_id, metadata, connection)
            path = None if all_namespaces else self._path
            async for record in export.records(self.db, threads, path, connection):
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
        """Write the records of `export` into *directory*, one JSON file each; return their number.

        Without a selector, everything of the database's tenant. Files are named after thread and
        checkpoint: ``THREAD/CHECKPOINT.json``, and ``THREAD/@NAMESPACE/CHECKPOINT.json`` in a
        namespace; an id that makes no good file name is followed by its SHA-256, so that no two
        collide. The directory appears when it is complete. *progress* is called with the number of
        files so far.

        Raises:
            Conflict: *directory* exists and is not empty.
            OSError: the files cannot be written.
            ValueError: *tenant* is not that of this database.
        """
        if tenant is None and thread_id is None and metadata is None:
            tenant = self.db.tenant
        self._check_selectors(tenant, thread_id, metadata)
        exported = self.export(
            tenant=tenant,
            thread_id=thread_id,
            metadata=metadata,
            all_namespaces=all_namespaces,
            connection=connection,
        )
        return await export.write_files(directory, exported, progress)

    # --- Shared by the methods above --------------------------------------------------------------

    def _log(self, thread_id: str) -> Log:
        return Log(self.db.tenant, check_thread_id(thread_id), self._path)

    def _log_of(self, thread_id: str, namespace: tuple[str, ...]) -> Log:
        return Log(self.db.tenant, thread_id, encode_namespace(namespace))

    def _event_fields(self, thread_id: str, checkpoint_id: str | None) -> dict[str, Any]:
        return {
            "tenant": self.db.tenant,
            "thread_id": thread_id,
            "checkpoint_id": checkpoint_id,
        }

    def _namespace_binds(self, below: bool = True) -> dict[str, Any]:
        """Return the binds of this namespace; with *below* also of all under it."""
        return namespace_binds(self.db.tenant, self._path, below)

    def _scope_of_logs(
        self, thread_id: str | None, all_namespaces: bool
    ) -> tuple[str, dict[str, Any]]:
        """Return the scope of an operation over logs, as `bulk_delete` names it, with its binds."""
        if thread_id is not None:
            return "thread" if all_namespaces else "log", self._log(thread_id).head_binds()
        return "tenant" if all_namespaces else "namespace", self._namespace_binds(below=False)

    async def _logs_of_thread(self, log: Log, connection: HostConnection | None) -> list[Log]:
        """Return all logs of the thread to which *log* belongs, the main one first."""
        if thread_parts(log.namespace) is None:
            return [log]
        listed = partial(list_parts, self.db.dialect, log)
        return await self.db.run(listed, READ, connection=connection)

    async def _all_infos(self, log: Log, connection: HostConnection | None) -> list[CheckpointInfo]:
        """Return all checkpoints of a log of this tenant."""
        of = Checkpointer(self.db, namespace=decode_namespace(log.namespace))
        return [info async for info in of.history(log.thread_id, connection=connection)]

    @asynccontextmanager
    async def _transaction(
        self, connection: HostConnection | None
    ) -> AsyncIterator[HostConnection]:
        """Give the host's transaction, or else one of its own."""
        if connection is not None:
            yield connection
        else:
            async with self.db.transaction() as tx:
                yield tx

    def _delete_logs(self, log: Log, scope: str, now: datetime) -> Program[bool]:
        d = self.db.dialect
        if scope == "all":
            return (yield from delete_thread(d, log, now))
        there = False
        for part in (yield from self._list_logs(log, scope)):
            there |= yield from delete_log(d, part, now)
        return there

    def _copy_logs(self, source: Log, target: Log, scope: str, now: datetime) -> Program[bool]:
        """Copy the logs of a thread; return whether there was one."""
        d, copied = self.db.dialect, False
        for part in (yield from self._list_logs(source, scope)):
            to = target._replace(namespace=part.namespace)
            copied |= yield from copy_log(d, part, to, now, keyring=self.db.keyring)
        return copied

    def _list_logs(self, log: Log, scope: str) -> Program[list[Log]]:
        """Return the logs of a thread: its "own", "all" of any namespace, or those "below" ours."""
        d = self.db.dialect
        if scope == "own":
            return list((yield from list_parts(d, log, tombstones=True)))
        listed = list_logs_of_thread if scope == "all" else list_logs_below
        rows = yield listed(d), self._namespace_binds() | {"k_thread_id": log.thread_id}
        return [log._replace(namespace=row.namespace) for row in rows]

    async def _find_info(
        self, thread_id: str, checkpoint_id: str | None, connection: HostConnection | None
    ) -> CheckpointInfo | None:
        log = self._log(thread_id)
        _check_optional_id(checkpoint_id)
        d, binds = self.db.dialect, log.binds()
        if checkpoint_id is None:
            statement: Executable = listing.list_checkpoints(d, before=False)
            binds |= {"p_limit": 1}
        else:
            statement = listing.read_checkpoint(d)
            binds |= {"p_checkpoint_id": checkpoint_id}
        rows = await run_query(self.db, statement, binds, connection)
        if checkpoint_id is None or not rows:
            found = rows[0].checkpoint_id if rows else None
            check = partial(check_newest_checkpoint, d, log, found, self.db.signing)
            await run_check(self.db, check, connection=connection)
        return listing.info(self.db, rows[0]) if rows else None

    async def _require_info(
        self, thread_id: str, checkpoint_id: str | None, connection: HostConnection | None
    ) -> CheckpointInfo:
        """Return a checkpoint; raise `NotFound` if it does not exist."""
        info = await self._find_info(thread_id, checkpoint_id, connection)
        if info is None:
            raise _checkpoint_missing(thread_id, checkpoint_id)
        return info

    async def _run_listing(
        self,
        statement: Executable,
        limit: int,
        connection: HostConnection | None,
        binds: Mapping[str, Any] = {},
    ) -> list[CheckpointRecord]:
        given = self._namespace_binds(below=False) | {"p_limit": check_limit(limit), **binds}
        rows = await run_query(self.db, statement, given, connection, replica_ok=True)
        return [listing.info(self.db, row).as_dict() for row in rows]

    async def _newest_matching(
        self, wanted: Filter, heads: Sequence[Any], connection: HostConnection | None
    ) -> list[CheckpointWithData]:
        """Return the newest checkpoints of threads with their states, if these match *wanted*."""
        names = [(self._log(head.thread_id), head.head_id) for head in heads]
        states = await self._load_states(names, connection)
        matching: list[CheckpointWithData] = []
        for log, newest in names:
            state = states.get((log, newest))
            if state is None:  # another is the newest meanwhile
                stored = await self._load_state_at(log, None, connection)
                if stored is None:
                    continue
                newest, state = stored[0].checkpoint_id, stored[1]
            if wanted.matches(state, {}):
                info = await self._find_info(log.thread_id, newest, connection)
                if info is not None:
                    matching.append({**info.as_dict(), "data": state})
        return matching

    async def _add_states(self, found: list[Any], connection: HostConnection | None) -> list[Any]:
        """Add the states to checkpoints, and leave out those that were deleted meanwhile."""
        whole = []
        for some in batches(found, itemgetter("raw_size"), most_rows=LISTED_STATES):
            names = [
                (self._log_of(one["thread_id"], one["namespace"]), one["checkpoint_id"])
                for one in some
            ]
            states = await self._load_states(names, connection)
            for one, name in zip(some, names, strict=True):
                state = states.get(name)
                if state is None:  # it was saved anew meanwhile, or is gone
                    stored = await self._load_state_at(*name, connection)
                    if stored is None:
                        continue
                    state = stored[1]
                whole.append(one | {"data": state})
        return whole

    async def _load_states(
        self, names: Sequence[StateName], connection: HostConnection | None
    ) -> dict[StateName, dict[str, Any]]:
        """Return the states of those checkpoints that exist, read together."""
        found = await self.db.run(
            partial(load_states, self.db.dialect, names, datetime.now(UTC)),
            READ,
            decode=states_decoder(self.db.keyring),
            connection=connection,
        )
        return {name: one.state for name, one in found.items()}

    async def _load_state_at(
        self, log: Log, checkpoint_id: str | None, connection: HostConnection | None
    ) -> tuple[Tip, dict[str, Any]] | None:
        d, known = self.db.dialect, self._cache.get_checked(log)
        now, keys = datetime.now(UTC), self.db.signing
        return await self.db.run(
            partial(load.load_chain, d, log, checkpoint_id, now, keys, known),
            READ,
            decode=load.chain_decoder(log, self.db.keyring, known),
            connection=connection,
        )

    def _check_selectors(
        self,
        tenant: str | None,
        thread_id: str | None,
        metadata: Mapping[str, Any] | None,
        **more: object,
    ) -> None:
        _check_one_given(tenant=tenant, thread_id=thread_id, metadata=metadata, **more)
        if thread_id is not None:
            check_thread_id(thread_id)
        if tenant is not None and tenant != self.db.tenant:
            raise ValueError(
                f"this {type(self).__name__} is of tenant {self.db.tenant!r} and reaches no other: "
                f"for tenant {tenant!r} make one of db.for_tenant({tenant!r})"
            )


def _origin_of_parts(main: Log) -> Origin | None:
    """Return the function that tells in which step of a log a checkpoint of a part was made."""
    declared = thread_parts(main.namespace)
    if declared is None or declared.origin is None:
        return None
    return partial(declared.origin, decode_namespace(main.namespace))


def _checkpoint_missing(thread_id: str, checkpoint_id: str | None) -> NotFound:
    """Return the error for a checkpoint that an operation needs."""
    what = "any checkpoint" if checkpoint_id is None else f"checkpoint {checkpoint_id!r}"
    return NotFound(f"thread {thread_id!r} does not have {what}")


def _check_optional_id(checkpoint_id: str | None) -> None:
    """Raise unless *checkpoint_id* is an id, or ``None`` for the newest."""
    if checkpoint_id is not None:
        check_name(checkpoint_id, "checkpoint_id")


def _check_one_given(**selectors: object) -> None:
    given = [name for name, selector in selectors.items() if selector is not None]
    if len(given) != 1:
        names = ", ".join(f"{name}=" for name in selectors)
        raise InvalidArgument(f"give exactly one of {names}")
    if given == ["metadata"] and not selectors["metadata"]:
        raise InvalidArgument(
            "metadata= must name at least one key; an empty one would mean everything"
        )


def _check_index_text(index_text: bool | Iterable[str]) -> bool | frozenset[str]:
    if isinstance(index_text, bool):
        return index_text
    if isinstance(index_text, (str, bytes)) or not isinstance(index_text, Iterable):
        given = "one string" if isinstance(index_text, str) else type(index_text).__name__
        raise TypeError(f"index_text is true, false, or a list of keys, not {given}")
    return frozenset(index_text)


def _check_pair(write: Any) -> tuple[str, Any]:
    if not isinstance(write, (tuple, list)) or len(write) != 2 or not isinstance(write[0], str):
        raise TypeError('writes has pairs of a channel and a value: [("channel", 1)]')
    return write[0], write[1]


def _check_write_index(index: object) -> int:
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"indexes has whole numbers, not {type(index).__name__}")
    return index


def _check_info(given: object) -> CheckpointInfo:
    if not isinstance(given, CheckpointInfo):
        raise TypeError(f"infos has CheckpointInfo objects, not {type(given).__name__}")
    return given


def _check_checkpoint_ids(given: Sequence[str]) -> list[str]:
    """Return a list of the ids of checkpoints."""
    return [check_name(one, "checkpoint_id") for one in check_list(given, "checkpoint_ids")]

"""Pending writes, and checkpoints together with them: what graph frameworks keep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memalchemy.checkpoints import queries, snapshots
from memalchemy.checkpoints.chain import Tip, rebuild_of
from memalchemy.checkpoints.scope import PAGE, Scope, check_optional
from memalchemy.codec import values
from memalchemy.codec import writes as codec
from memalchemy.contracts import CheckpointInfo, PendingWrite, Snapshot, check_time
from memalchemy.database import OFF_LOOP_BYTES, HostConnection, Then, off_loop
from memalchemy.dialects.lists import lists
from memalchemy.dialects.reach import reach
from memalchemy.errors import DatabaseUnreachable, UniqueViolation
from memalchemy.events import operation
from memalchemy.keys import (
    check_list,
    check_name,
    check_thread_id,
    decode_namespace,
    encode_id,
)
from memalchemy.log import Log, copy_log, delete_checkpoints, delete_log, new_epoch, second_of
from memalchemy.log import pending_writes as writes_
from memalchemy.log.append import append_write
from memalchemy.log.listing import list_below
from memalchemy.log.tables import key_range
from memalchemy.statements import Program

TRIES = 5
STATES = 20
"""States that are rebuilt together, at most."""


class Pending(Scope):
    """The part of `Checkpointer` for hosts with writes of their own between two checkpoints."""

    _ttl: timedelta | None = None

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
        """Keep what a task wrote for the step after a checkpoint, which may be saved later.

        One round trip on PostgreSQL. The writes live as long as their checkpoint.

        Args:
            writes: pairs of a channel and a value.
            indexes: the place of each among the task's writes; 0, 1, …, if not given. Of writes in
                the same place the first stays, unless a later call is to *overwrite*; in a place
                below 0 the last.
            made_at: when the checkpoint came to be. One from after the thread's deletion belongs to
                its next life: the write is kept, and seen once a checkpoint has begun that.

        Raises:
            NotSerialisable, TooLarge: a value cannot be stored; nothing was written.
            ThreadDeleted: the thread has been deleted.
        """
        log = self._log(thread_id)
        check_name(checkpoint_id, "checkpoint_id")
        given = [(channel, value) for channel, value in check_list(writes, "writes")]
        places = list(range(len(given))) if indexes is None else check_list(indexes, "indexes")
        if len(places) != len(given):
            raise ValueError(f"indexes= has {len(places)} places for {len(given)} writes")
        if made_at is not None:
            check_time(made_at, "made_at=")
        if not given:
            return
        content = [(place, *write) for place, write in zip(places, given, strict=True)]
        heavy = values.is_heavy(value for _, value in given)
        if heavy:  # the caller may change them while a thread encodes them
            content = [values.frozen(one) for one in content]
        payload, checksum = await off_loop(
            OFF_LOOP_BYTES if heavy else 0,
            partial(codec.encode_writes, task_id, task_path, content),
        )
        stored = self.db.keyring.seal(codec.CODEC, checksum, payload)
        now = datetime.now(UTC)
        row = log.names() | {
            "p_now": now,
            "p_active_at": second_of(now),
            "p_count": 1,
            "p_checkpoint_id": None,
            "p_made_at": made_at,
            "p_expires_at": None if self._ttl is None else now + self._ttl,
            "p_epoch": new_epoch(),
            "p_entry_key": writes_.new_key(checkpoint_id),
            "p_codec": stored.codec,
            "p_checksum": stored.checksum,
            "p_label": checkpoint_id,
            "p_overwrites": 1 if overwrite else None,
            "p_stored_at": now,
            "p_payload": stored.payload,
        }
        with operation("checkpoint.write", **self._about(thread_id, checkpoint_id)) as event:
            event.payload_bytes = len(stored.payload)
            for left in reversed(range(TRIES)):
                try:
                    done = await self.db.write(
                        partial(append_write, self.db.dialect, row),
                        connection=connection,
                        event=event,
                        single=self.db.dialect.single_statement_save,
                    )
                except DatabaseUnreachable as lost:
                    if not lost.maybe_applied or connection is not None or not left:
                        raise
                    continue  # its key is refused if it was put after all
                except UniqueViolation:
                    return
                if done:
                    return
                await self.db.write(
                    partial(writes_.make_room, self.db.dialect, log, row),
                    connection=connection,
                    event=event,
                )

    async def get_writes(
        self, thread_id: str, checkpoint_id: str, *, connection: HostConnection | None = None
    ) -> list[PendingWrite]:
        """What was written for the step after a checkpoint, by (task_path, task_id, index)."""
        log = self._log(thread_id)
        check_name(checkpoint_id, "checkpoint_id")
        binds = log.binds() | {"p_checkpoint_id": checkpoint_id}
        statement = writes_.read_writes(self.db.dialect)
        rows = await self._rows(statement, binds | key_range(checkpoint_id), connection)
        return snapshots.writes_of(rows, self.db.keyring)

    async def snapshot(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        newest_by: str = "position",
        connection: HostConnection | None = None,
    ) -> Snapshot | None:
        """A checkpoint with its state and its pending writes, in one round trip; ``None`` if it is
        not there.

        Args:
            newest_by: without a *checkpoint_id*: the last saved (``"position"``), or the one of the
                highest id (``"id"``), for hosts whose ids are in order of time.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """
        log = self._log(thread_id)
        check_optional(checkpoint_id)
        which = {"position": "latest", "id": "highest"}.get(newest_by)
        if which is None:
            raise ValueError(f"newest_by is 'position' or 'id', not {newest_by!r}")
        now, d = datetime.now(UTC), self.db.dialect
        known = self._cache.get(log) if connection is None else None
        with operation("checkpoint.load", **self._about(thread_id, checkpoint_id)) as event:
            made = await self.db.read_then(
                lambda: snapshots.read(d, log, checkpoint_id, which, now),
                Then(partial(self._opened, thread_id, known), _weight),
                connection=connection,
                event=event,
            )
            if made is None:
                return None
            tip, found = made
            event.checkpoint_id = found.checkpoint_id
            if checkpoint_id is None and connection is None and not self.db.read_only:
                self._cache.put(log, tip)
        if checkpoint_id is None and writes_.is_hashed(found.checkpoint_id):
            late = await self.get_writes(thread_id, found.checkpoint_id, connection=connection)
            found.writes.extend(late)
        return found

    def _opened(self, thread_id: str, known: Tip | None, read: Any) -> tuple[Any, Snapshot] | None:
        if read is None:
            return None
        tip, parent_id, rows = read
        rebuilt = rebuild_of(thread_id, tip, self.db.keyring, known)
        state = values.decode_state(rebuilt.parts())
        pending = snapshots.writes_of(rows, self.db.keyring)
        return rebuilt, Snapshot(tip.checkpoint_id, parent_id, state, pending)

    def remembered(self, thread_id: str, checkpoint_id: str, keys: Iterable[str]) -> dict[str, Any]:
        """Those of *keys* that this process remembers of a checkpoint's state, without asking the
        database: of the newest of a thread that it has saved or loaded, or of none.
        """
        wanted = check_list(keys, "keys")
        tip = self._cache.get(self._log(thread_id))
        held = None if tip is None else tip.links[-1].parts
        if tip is None or held is None or tip.checkpoint_id != checkpoint_id:
            return {}
        return {key: values.decode_value(held[key]) for key in wanted if key in held}

    # --- Pages, over several logs ----------------------------------------------------------------

    async def infos(
        self,
        thread_id: str | None = None,
        *,
        before: str | None = None,
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> AsyncIterator[tuple[tuple[str, ...], CheckpointInfo]]:
        """Checkpoints by their ids, the highest first, each with its namespace; reads no state.

        Of a thread, or of all; with *below*, in every namespace under this one, too; with *before*
        those of lower ids. Read in pages as they are used.
        """
        scope = "log" if thread_id is not None and not below else "thread"
        scope = "tenant" if thread_id is None else scope
        check_optional(before)
        binds = self._reaching() | {"p_until": before, "p_limit": PAGE}
        if not below:
            binds["k_beyond"] = self._path + "\x01"  # less than any part's first character
        if thread_id is not None:
            binds |= self._log(thread_id).names() | {"k_namespace": self._path}
        after = False
        while True:
            rows = await self._rows(
                snapshots.list_by_id(
                    self.db.dialect, scope=scope, until=before is not None, after=after
                ),
                binds,
                connection,
            )
            for row in rows:
                yield decode_namespace(row.namespace), queries.info(row)
            if len(rows) < PAGE:
                return
            after, last = True, rows[-1]
            binds |= {
                "p_checkpoint_id": last.checkpoint_id,
                "p_thread_id": last.thread_id,
                "p_namespace": last.namespace,
            }

    async def snapshots(
        self,
        thread_id: str,
        checkpoint_ids: Sequence[str],
        *,
        connection: HostConnection | None = None,
    ) -> AsyncIterator[Snapshot]:
        """Some checkpoints as `snapshot` gives them, in this order, without those that are gone.

        Two round trips for each 20.
        """
        log, d = self._log(thread_id), self.db.dialect
        ids = check_list(checkpoint_ids, "checkpoint_ids")
        for first in range(0, len(ids), STATES):
            some = ids[first : first + STATES]
            rows: list[Any] = []
            pending: list[Any] = []
            for listed in lists(d, "p_keys", [(encode_id(one),) for one in some]):
                rows += await self._rows(snapshots.read_states(d), log.binds() | listed, connection)
            for listed in writes_.listed_ranges(d, some):
                binds = log.binds() | listed
                pending += await self._rows(writes_.read_writes_listed(d), binds, connection)
            size = sum(len(row.payload) for row in rows)
            found = await off_loop(size, partial(self._all, rows, pending))
            for one in some:
                snapshot = found.get(one)
                if snapshot is None:  # stored by an earlier release, saved anew meanwhile, or gone
                    snapshot = await self.snapshot(thread_id, one, connection=connection)
                if snapshot is not None:
                    yield snapshot

    def _all(self, rows: list[Any], pending: list[Any]) -> dict[str, Snapshot]:
        keyring = self.db.keyring
        parents = {row.checkpoint_id: row.parent_id for row in rows}
        by_checkpoint: dict[str, list[Any]] = {}
        for row in pending:
            by_checkpoint.setdefault(row.label, []).append(row)
        return {
            name: Snapshot(
                name,
                parents[name],
                values.decode_state(parts),
                snapshots.writes_of(by_checkpoint.get(name, ()), keyring),
            )
            for name, parts in snapshots.rebuilt(rows, keyring).items()
        }

    # --- Removing and copying --------------------------------------------------------------------

    async def delete_checkpoints(
        self,
        thread_id: str,
        checkpoint_ids: Iterable[str],
        *,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete some checkpoints with their writes, in one transaction; how many were there.

        Those that others rest on (see `Checkpointer.save`) stay.
        """
        given = check_list(checkpoint_ids, "checkpoint_ids")
        ids = [check_name(one, "checkpoint_id") for one in given]
        log, now = self._log(thread_id), datetime.now(UTC)
        if not ids:
            return 0
        self._cache.drop(log)
        with operation("checkpoint.delete", **self._about(thread_id, None)) as event:
            return await self.db.write(
                partial(delete_checkpoints, self.db.dialect, log, ids, now),
                connection=connection,
                event=event,
                payloads=False,
            )

    async def find_runs(
        self, run_ids: Iterable[str], *, connection: HostConnection | None = None
    ) -> dict[tuple[str, tuple[str, ...]], list[str]]:
        """The checkpoints saved with one of *run_ids*, in this namespace and below it: their ids by
        thread and namespace.
        """
        d = self.db.dialect
        found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        given = check_list(run_ids, "run_ids")
        ids = [(encode_id(check_name(one, "run_id")),) for one in given]
        for listed in lists(d, "p_keys", ids):
            binds = self._reaching() | listed
            for row in await self._rows(queries.list_runs(d), binds, connection):
                log = row.thread_id, decode_namespace(row.namespace)
                found.setdefault(log, []).append(row.checkpoint_id)
        return found

    async def namespaces(
        self, thread_id: str, *, connection: HostConnection | None = None
    ) -> list[tuple[str, ...]]:
        """This namespace and those below it that the thread has a checkpoint in."""
        rows = await self._below(thread_id, connection)
        return [
            decode_namespace(row.namespace)
            for row in rows
            if row.deleted_at is None and row.head_id is not None
        ]

    async def delete_below(
        self, thread_id: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Delete the thread's logs in this namespace and below it; whether one was there.

        As `Checkpointer.delete`, which takes those of all namespaces.
        """
        d, now = self.db.dialect, datetime.now(UTC)
        tenant = self.db.tenant
        binds = self._reaching() | {"k_thread_id": check_thread_id(thread_id)}

        def program() -> Program[bool]:
            rows = yield list_below(d), binds
            there = False
            for row in rows:
                there |= yield from delete_log(d, Log(tenant, thread_id, row.namespace), now)
            return there

        self._cache.drop_thread(self.db.tenant, thread_id)
        with operation("checkpoint.delete", **self._about(thread_id, None)) as event:
            return await self.db.write(program, connection=connection, event=event, payloads=False)

    async def copy_below(
        self, source: str, target: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Copy the logs of thread *source* in this namespace and below it; false if it has none.

        As `Checkpointer.copy_thread`, which takes those of all namespaces.

        Raises:
            Conflict: the target holds something there already; nothing was changed.
        """
        d, now, tenant = self.db.dialect, datetime.now(UTC), self.db.tenant
        binds = self._reaching() | {"k_thread_id": check_thread_id(source)}
        check_thread_id(target)
        if source == target:
            raise ValueError("a thread cannot be copied onto itself")

        def program() -> Program[bool]:
            rows = yield list_below(d), binds
            copied = False
            for row in rows:
                if row.deleted_at is None:
                    from_, to = (Log(tenant, one, row.namespace) for one in (source, target))
                    copied |= yield from copy_log(d, from_, to, now)
            return copied

        self._cache.drop_thread(tenant, target)
        with operation("checkpoint.copy", **self._about(source, None)) as event:
            event.details["to"] = target
            return await self.db.write(program, connection=connection, event=event, payloads=False)

    async def _below(self, thread_id: str, connection: HostConnection | None) -> Any:
        binds = self._reaching() | {"k_thread_id": check_thread_id(thread_id)}
        return await self._rows(list_below(self.db.dialect), binds, connection)

    def _reaching(self) -> dict[str, Any]:
        """The binds of this namespace and all below it."""
        return reach(self.db.tenant, self._path, below=True)


def _weight(read: Any) -> int:
    return 0 if read is None else int(read[0].raw_size)

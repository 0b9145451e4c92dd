"""`Checkpointer`: an agent's states over time, with history, branches, search and retention.

This file saves, loads and deletes. The path of a save is in ``saving``, that of a load in
``queries`` and ``chain``; ``looking``, ``branching``, ``retention`` and ``keeping`` hold the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from memalchemy.checkpoints import diffing, queries
from memalchemy.checkpoints.branching import Branching
from memalchemy.checkpoints.chain import MAX_CHAIN_DEPTH, RADIX
from memalchemy.checkpoints.grouping import Together
from memalchemy.checkpoints.keeping import Keeping
from memalchemy.checkpoints.looking import Looking
from memalchemy.checkpoints.pending import Pending
from memalchemy.checkpoints.retention import Retaining
from memalchemy.checkpoints.saving import Request, Saver, encode_off_loop
from memalchemy.checkpoints.scope import check_optional, missing
from memalchemy.codec import values
from memalchemy.contracts import (
    UNSET,
    CheckpointerCapabilities,
    Diff,
    Retention,
    Seconds,
    Unset,
    check_time,
    to_lifetime,
)
from memalchemy.database import Database, HostConnection
from memalchemy.errors import InvalidArgument
from memalchemy.events import operation
from memalchemy.keys import check_name
from memalchemy.log import delete_checkpoint, delete_log, delete_thread
from memalchemy.mapping import Fallback, check_state_type, from_mapping, to_mapping
from memalchemy.metadata import check_metadata


class Checkpointer(Looking, Branching, Retaining, Keeping, Pending):
    """Keeps every state an agent saves, and gives any of them back.

    A thread's checkpoints are ordered by the position they were saved at, never by a clock. Each
    save is whole or absent. A plain save appends to the newest checkpoint and never conflicts.

    Args:
        db: where to keep them.
        namespace: keeps several uses of one thread id apart; deleting a thread deletes them all.
        state_type: what `load` builds: a pydantic model, or a class with ``from_checkpoint``;
            without it, `load` returns the stored mapping.
        index_text: make what each step adds findable with `search`; of an encrypted database, if
            it may hold readable words. Names of top-level keys: what it adds to these alone.
        retention: rules that every save keeps, without another round trip.
        ttl: how long a thread lives after its last save, in seconds or as a timedelta.
        max_chain_depth: saves between full snapshots, at most.
        compression_level: zstd's, 1 to 19.
        radix: how many saves in a row are each stored as what differs from the one before, 2 to 64.
            With 2 a load reads the fewest rows, some eight; with 32 up to some forty, and a history
            takes down to half of the bytes.

    Every method takes ``connection=``, an `AsyncConnection` or `AsyncSession` of the host: the work
    is then part of the host's transaction, sees its own writes, and is gone after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    deletes_single_checkpoints = True

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
        super().__init__(db, namespace)
        self._state_type = check_state_type(state_type)
        self._ttl = None if ttl is None else to_lifetime(ttl)
        self._compression_level = compression_level
        self._max_chain_depth = max_chain_depth
        self._saver = Saver(
            db,
            self._cache,
            Together.of(db),
            _indexed(index_text),
            retention,
            max_chain_depth,
            compression_level,
            radix,
        )

    def __repr__(self) -> str:
        return f"Checkpointer({self.db!r}, namespace={self.namespace!r})"

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """What it can do: everything, but `search` where no word may be stored readable."""
        return CheckpointerCapabilities(
            search=self.db.keyring.reveals("text"),
            metadata_query=True,
            vacuum=True,
            branching=True,
            ttl=True,
            list_threads=True,
            list_with_metadata=True,
            persistent_checkpoint_ids=True,
        )

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
            state: a mapping, a pydantic model, or an object with ``to_checkpoint()``; see
                `memalchemy.codec.values` for the values it may hold.
            thread_id: any text of up to 255 characters.
            checkpoint_id: made up if not given. One that exists is replaced and becomes the
                newest; what was built on its old state still loads.
            metadata: small JSON, for `query_by_metadata` and listings.
            parent_id: branch off this checkpoint instead of the newest.
            expected_parent: raise `Conflict` unless this is the newest checkpoint (``None``:
                unless there is none). The check and the save are one.
            lineage: record this as its parent, whether it is there or not (``None``: it has none),
                for a host that keeps track of that itself; the state is appended to the newest.
            rests_on_parent: the state is incomplete without its parent, which *parent_id* or
                *lineage* names and which has to be there: without its state, its pending writes,
                or what it rests on in turn. Neither retention nor a deletion removes a checkpoint
                that one that stays rests on.
            run_id: what made it, for `delete_runs`.
            occurred_at: when the step happened, an aware datetime, for an import of what happened
                earlier; now, if not given. ``older_than`` of retention goes by it.
            ttl: in place of the checkpointer's own. The last save counts: after one without any,
                the thread does not expire.

        Raises:
            NotSerialisable, TooLarge: the state or metadata cannot be stored; nothing was written.
            Conflict: *expected_parent* is not the newest.
            ThreadDeleted: a parent was named and the thread has been deleted since.
            NotFound: *parent_id* is not there, or a parent that the state rests on.
            ValueError: *parent_id* and *lineage* were given, or *rests_on_parent* and neither;
                *occurred_at* has no time zone.

        What is saved is *state* as it is when the call begins to run: changing it while the call
        waits changes nothing.
        """
        log = self._log(thread_id)
        checkpoint_id = check_name(checkpoint_id, "checkpoint_id") if checkpoint_id else uuid4().hex
        named = {"parent_id": parent_id, "expected_parent": expected_parent}
        for name, value in (named | {"lineage": lineage, "run_id": run_id}).items():
            if isinstance(value, str):
                check_name(value, name)
        if parent_id is not None and lineage is not UNSET:
            raise ValueError("give parent_id= to branch off it, or lineage= to record it; not both")
        if occurred_at is not None:
            check_time(occurred_at, "occurred_at=")
        named_parent = lineage if isinstance(lineage, str) else parent_id
        if rests_on_parent and named_parent is None:
            raise ValueError("rests_on_parent= needs the parent: give parent_id= or lineage=")
        checked = check_metadata(metadata)
        mapping, fallback = await self._mapping_of(state, thread_id, connection)
        life = self._ttl if ttl is None else to_lifetime(ttl)
        if checkpoint_id in (parent_id, lineage):
            raise InvalidArgument("a checkpoint cannot be its own parent")
        cached = self._cache.get(log) if connection is None else None
        now = datetime.now(UTC)
        request = Request(
            log=log,
            checkpoint_id=checkpoint_id,
            state=mapping,
            encoded=await encode_off_loop(mapping, fallback, cached),
            metadata=checked,
            parent_id=parent_id,
            lineage=lineage,
            run_id=run_id,
            expected_parent=expected_parent,
            rests_on=named_parent if rests_on_parent else None,
            now=now,
            occurred_at=now if occurred_at is None else occurred_at,
            expires_at=None if life is None else now + life,
        )
        with operation("checkpoint.save", **self._about(thread_id, checkpoint_id)) as event:
            await self._saver.save(request, connection, event)
        return checkpoint_id

    async def load(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> Any:
        """The state of a checkpoint, the newest without an id; ``None`` if there is none.

        One round trip. Every call builds new objects. It reads its own writes: not from a replica,
        unless the checkpointer is on ``db.replica()``.

        Raises:
            Corrupt: what is stored does not match its checksum.
            KeyMissing, NotEncrypted: the database's keys are not those of what is stored.
        """
        log = self._log(thread_id)
        check_optional(checkpoint_id)
        now = datetime.now(UTC)
        with operation("checkpoint.load", **self._about(thread_id, checkpoint_id)) as event:
            found = await self.db.read_then(
                lambda: queries.chain(self.db.dialect, log, checkpoint_id, now),
                self._decoding(log),
                connection=connection,
                event=event,
            )
            if found is None:
                return None
            rebuilt, state = found
            event.payload_bytes = sum(len(link.payload) for link in rebuilt.links)
            event.checkpoint_id = rebuilt.checkpoint_id
            event.state_bytes = values.state_size(rebuilt.parts())
            if checkpoint_id is None and connection is None and not self.db.read_only:
                self._cache.put(log, rebuilt)
        return from_mapping(state, self._state_type)

    async def delete(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        superseded: bool = False,
        all_namespaces: bool = True,
        connection: HostConnection | None = None,
    ) -> bool:
        """Delete a checkpoint, or without an id the thread with all its logs; whether it was there.

        All its logs are those of all namespaces, whatever keeps them; without *all_namespaces* it
        is this namespace's, with its checkpoints and entries.

        A checkpoint that another rests on (see `save`) is not deleted before that one.

        A deleted checkpoint's state stays in the database, without a name, while others are stored
        as differences from it; `rewrite` ends that. The words that it was found by go with it,
        unless it is *superseded*, a mere step on the way to the next one of the thread: then that
        one is found by them.

        Raises:
            Conflict: another checkpoint rests on this one; nothing was deleted.
        """
        check_optional(checkpoint_id)
        log, d, now = self._log(thread_id), self.db.dialect, datetime.now(UTC)
        with operation("checkpoint.delete", **self._about(thread_id, checkpoint_id)) as event:
            if checkpoint_id is None:
                self._cache.drop_thread(log.tenant, thread_id)
                delete = delete_thread if all_namespaces else delete_log
                program = lambda: delete(d, log, now)  # noqa: E731
            else:
                self._cache.drop(log)
                program = lambda: delete_checkpoint(  # noqa: E731
                    d, log, checkpoint_id, now, superseded=superseded
                )
            return await self.db.write(program, connection=connection, event=event, payloads=False)

    async def diff(
        self, thread_id: str, a: str, b: str, *, connection: HostConnection | None = None
    ) -> Diff:
        """What changed from checkpoint *a* to *b*, as JSON pointers.

        Raises:
            NotFound: one of them is not there.
        """
        plain = Checkpointer(self.db, namespace=self.namespace)
        states = []
        for checkpoint_id in (a, b):
            state = await plain.load(thread_id, checkpoint_id, connection=connection)
            if state is None:
                raise missing(thread_id, checkpoint_id)
            states.append(state)
        return diffing.diff(*states)

    async def _mapping_of(
        self, state: Any, thread_id: str, connection: HostConnection | None
    ) -> tuple[Mapping[str, Any], Fallback | None]:
        """What `save` stores of *state*; a checkpointer with rules of its own changes it here."""
        return to_mapping(state)

    async def close(self) -> None:
        """Nothing to do: connections are the database's. Part of the contract."""


def _indexed(index_text: bool | Iterable[str]) -> bool | frozenset[str]:
    if isinstance(index_text, bool):
        return index_text
    if isinstance(index_text, (str, bytes)) or not isinstance(index_text, Iterable):
        given = "one string" if isinstance(index_text, str) else type(index_text).__name__
        raise TypeError(f"index_text is true, false, or a list of keys, not {given}")
    return frozenset(index_text)

"""`MemalchemyStepStore`: runs, their events and snapshots, and the effects of their tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    ToolEffectRecord,
)

from memalchemy._retry import retry_on_conflict
from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import MAX_LIMIT, CheckpointInfo
from memalchemy.errors import Conflict
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations._declarations.pydantic_ai_harness import PRUNED, ROOT
from memalchemy.integrations._pydantic_ai_messages import (
    Convert,
    dump_messages,
    load_messages,
    write_storable,
)
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.pydantic_ai_harness._keys import key_of
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

Record: TypeAlias = RunRecord | StepEvent | ContinuableSnapshot | ToolEffectRecord
R = TypeVar("R", RunRecord, StepEvent, ContinuableSnapshot, ToolEffectRecord)

EVENTS, SNAPSHOTS, RUNS, EFFECTS = "events", "snapshots", "runs", "effects"
"""Last part of the namespaces, before the run's id where there is one."""


class MemalchemyStepStore(Adapter):
    """A `StepStore` of the Pydantic AI harness; it has ``list_snapshots`` for searches, too.

    A run's events are the log, and its snapshots the checkpoints, of the thread of its id. A
    snapshot is stored as its difference from the one before, so that the history which both repeat
    is stored once, files in it included. Every write is whole or absent. An event or a snapshot
    whose idempotency key the run has had is dropped, in whatever process it comes again, also after
    it was pruned by *max_snapshots_per_run*. Events and snapshots are in the order in which they
    were stored, runs in that of ``started_at``. Everything that is returned is a new object.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several stores apart in one database.
        max_snapshots_per_run: after each save keep the newest so many snapshots of its run, and the
            newest that is complete; all, if not given.
        index_text: make the words of snapshots searchable, with ``checkpointer.search``.

    A run's id has up to 255 characters, and about 400 bytes.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: what is stored cannot be read.
        NotSerialisable, TooLarge: something cannot be stored; nothing was written.
    """

    root = ROOT

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        max_snapshots_per_run: int | None = None,
        index_text: bool = True,
    ) -> None:
        super().__init__(db, namespace=namespace)
        if max_snapshots_per_run is not None and not (
            isinstance(max_snapshots_per_run, int) and max_snapshots_per_run >= 1
        ):
            raise ValueError(
                f"max_snapshots_per_run is a whole number from 1, not {max_snapshots_per_run!r}"
            )
        self._most = max_snapshots_per_run
        self.log: ThreadLog = ThreadLog(
            self.db, namespace=(*self.namespace, EVENTS), index_text=False
        )
        """The logs of events; the thread is the run's id."""
        self.checkpointer: Checkpointer = Checkpointer(
            self.db, namespace=(*self.namespace, SNAPSHOTS), index_text=index_text
        )
        """The snapshots; the thread is the run's id, the checkpoint's id the idempotency key."""
        self.store: Store = Store(
            self.db,
            index_text=False,
            index_metadata=("conversation_id", "parent_run_id", "status"),
        )
        """The store with the runs and the effects of tools."""

    # --- Runs -------------------------------------------------------------------------------------

    async def register_run(self, record: RunRecord) -> None:
        """Store a new run.

        Raises:
            ValueError: a run of this id is in the store; nothing was written.
        """
        try:
            await self.store.put(
                (*self.namespace, RUNS),
                record.run_id,
                _fields_of_record(record),
                expected_version=None,
            )
        except Conflict as conflict:
            raise ValueError(f"run_id {record.run_id!r} is already in the store") from conflict

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        """Return a run, or ``None``."""
        found = await self.store.get((*self.namespace, RUNS), run_id)
        return None if found is None else _to_record(RunRecord, found)

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """Return the runs with this parent and of this conversation, if given, earliest first."""
        wanted = {"parent_run_id": parent_run_id, "conversation_id": conversation_id}
        given = {name: id_ for name, id_ in wanted.items() if id_ is not None}
        items = await self.store.list_items(
            (*self.namespace, RUNS), filter=given or None, limit=MAX_LIMIT
        )
        found = [_to_record(RunRecord, item.value) for item in reversed(items)]
        return sorted(found, key=lambda record: record.started_at)

    # --- Events -----------------------------------------------------------------------------------

    async def append_event(self, event: StepEvent) -> None:
        """Append an event, unless its idempotency key is in the run's log. One round trip."""
        key = event.idempotency_key
        await self.log.append(
            event.run_id,
            [_fields_of_record(event)],
            keys=None if key is None else key_of(key),
            occurred_at=None if event.timestamp.utcoffset() is None else event.timestamp,
        )

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """Return the events of a run, in the order in which they were appended."""
        return [_to_record(StepEvent, entry.value) for entry in await self.log.range(run_id)]

    # --- Snapshots --------------------------------------------------------------------------------

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Save a snapshot, unless its idempotency key has been used in its run.

        A message is stored with the types that memalchemy stores, datetimes and bytes among them; a
        value of another type, and no other value, is stored as JSON has it.

        Raises:
            Conflict: others saved into the run 20 times while this was tried.
        """
        messages = list(snapshot.messages)
        stored = _fields_of_record(snapshot)
        key = snapshot.idempotency_key
        id_ = None if key is None else key_of(key)

        async def save(convert: Convert) -> bool:
            state = convert({**stored, "messages": dump_messages(messages)})
            return await retry_on_conflict(
                lambda: self._save_new_state(snapshot.run_id, id_, state),
                f"run {snapshot.run_id!r}",
            )

        if await write_storable(save) and self._most is not None:
            await self._prune_snapshots(snapshot.run_id, self._most)

    async def latest_snapshot(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> ContinuableSnapshot | None:
        """Return the newest snapshot that is complete, or with *include_interrupted* any.

        One round trip; two more if the newest is interrupted.
        """
        newest = await self.checkpointer.load(run_id)
        if newest is None or include_interrupted or newest.get("state") == "complete":
            return None if newest is None else _to_snapshot(newest)
        async for info in self.checkpointer.history(run_id):
            if _is_complete(info):
                found = await self.checkpointer.load(run_id, info.checkpoint_id)
                if found is not None:
                    return _to_snapshot(found)
        return None

    async def list_snapshots(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> list[ContinuableSnapshot]:
        """Return the snapshots of a run that are complete, or with *include_interrupted* all.

        They are in the order in which they were saved.
        """
        infos = [info async for info in self.checkpointer.history(run_id)]
        ids = [
            info.checkpoint_id
            for info in reversed(infos)
            if include_interrupted or _is_complete(info)
        ]
        return [_to_snapshot(one.state) async for one in self.checkpointer.snapshots(run_id, ids)]

    # --- Effects of tools -------------------------------------------------------------------------

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Store the effect of a tool call, in place of an earlier record of the call."""
        await self.store.put(
            self._namespace_of_effects(record.run_id),
            key_of(record.tool_call_id),
            _fields_of_record(record),
        )

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """Return the record of a tool call, or ``None``."""
        found = await self.store.get(self._namespace_of_effects(run_id), key_of(tool_call_id))
        return None if found is None else _to_record(ToolEffectRecord, found)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """Return the tool calls of a run that have begun and not ended, in the order of their
        first records."""
        items = await self.store.list_items(
            self._namespace_of_effects(run_id), filter={"status": "started"}, limit=MAX_LIMIT
        )
        found = sorted(items, key=lambda item: item.created_at)
        return [_to_record(ToolEffectRecord, item.value) for item in found]

    # --- Shared by the methods above --------------------------------------------------------------

    def _namespace_of_effects(self, run_id: str) -> tuple[str, ...]:
        return (*self.namespace, EFFECTS, run_id)

    async def _save_new_state(self, run_id: str, id_: str | None, state: dict[str, Any]) -> bool:
        """Save a state under an id that the run has not had; return false if it has had it.

        Raises:
            Conflict: somebody else saved meanwhile, maybe under this id.
        """
        metadata = {"state": state["state"]}
        if id_ is None:
            await self.checkpointer.save(state, run_id, metadata=metadata)
            return True
        newest = await self.checkpointer.get_metadata(run_id)
        if newest is not None:
            if id_ == newest["checkpoint_id"] or await self.checkpointer.exists(run_id, id_):
                return False
            if self._most is not None and await self.store.exists(
                self._namespace_of_pruned(run_id), id_
            ):
                return False
        parent = None if newest is None else newest["checkpoint_id"]
        await self.checkpointer.save(state, run_id, id_, metadata, expected_parent=parent)
        return True

    def _namespace_of_pruned(self, run_id: str) -> tuple[str, ...]:
        return (*self.namespace, PRUNED, run_id)

    async def _prune_snapshots(self, run_id: str, keep: int) -> None:
        """Delete all snapshots but the newest *keep* and the newest complete one.

        Their keys stay known.
        """
        infos = [info async for info in self.checkpointer.history(run_id)]
        complete = next((info for info in infos if _is_complete(info)), None)
        gone = [info.checkpoint_id for info in infos[keep:] if info is not complete]
        if not gone:
            return
        async with self.db.transaction() as tx:
            keys = [(self._namespace_of_pruned(run_id), id_, None) for id_ in gone]
            await self.store.put_batch(keys, connection=tx)
            await self.checkpointer.delete_checkpoints(run_id, gone, connection=tx)


def _fields_of_record(record: Record) -> dict[str, Any]:
    """Return the fields of a record that are not ``None``.

    Times are texts, because a value without a time takes a faster form.
    """
    found = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value is not None:
            found[field.name] = value.isoformat() if isinstance(value, datetime) else value
    return found


def _form_of(kind: type[Record]) -> StoredForm:
    return StoredForm(f"{kind.__name__} of the Pydantic AI harness")


def _to_record(kind: type[R], stored: dict[str, Any]) -> R:
    """Return the record of `_fields_of_record`."""
    with _form_of(kind):
        times = {
            name: datetime.fromisoformat(stored[name])
            for name in ("timestamp", "started_at", "ended_at")
            if name in stored
        }
        return kind(**(stored | times))


def _is_complete(info: CheckpointInfo) -> bool:
    return info.metadata.get("state") == "complete"


def _to_snapshot(state: dict[str, Any]) -> ContinuableSnapshot:
    stored = _form_of(ContinuableSnapshot).fields_of(state, messages=list)
    return _to_record(ContinuableSnapshot, stored | {"messages": load_messages(stored["messages"])})

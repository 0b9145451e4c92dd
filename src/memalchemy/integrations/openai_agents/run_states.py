"""`MemalchemyRunStates`: runs that wait for an approval, stored as checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agents import RunState, UserError

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import Seconds, Snapshot
from memalchemy.errors import Conflict, ThreadDeleted
from memalchemy.importers.openai_session_namespaces import RUNS
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.openai_agents._adapter import OpenAIAdapter, uninterrupted

if TYPE_CHECKING:
    from agents import Agent

_FORM = StoredForm("run state of OpenAI Agents", passing=(UserError,))

CLAIMED = "memalchemy:claimed_at"
"""Name in a checkpoint's metadata of the time at which somebody took the run."""


class MemalchemyRunStates(OpenAIAdapter):
    """Stores each `RunState`, so that any process can resume the run.

    A save is a checkpoint of the thread with the run's id, stored as what changed since the last;
    earlier ones stay. The application chooses the id: that of a session, of a ticket.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        ttl: how long a run may wait after it was saved or claimed, in seconds or as a timedelta.
    """

    def __init__(self, db: AnyDatabase | None = None, *, ttl: Seconds | None = None) -> None:
        super().__init__(db)
        self.checkpointer: Checkpointer = Checkpointer(self.db, namespace=RUNS, ttl=ttl)

    async def save(
        self,
        run_id: str,
        state: RunState[Any, Any],
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """Save a state, and return the checkpoint's id. *options* go to `RunState.to_json`.

        Raises:
            agents.UserError: the SDK cannot write the state as JSON.
        """
        written = state.to_json(**options)
        return await uninterrupted(self.checkpointer.save(written, run_id, metadata=metadata))

    async def load(
        self,
        run_id: str,
        agent: Agent[Any],
        *,
        checkpoint_id: str | None = None,
        **options: Any,
    ) -> RunState[Any, Any] | None:
        """Return the newest state, or that of a checkpoint; ``None`` if there is none.

        This is for looking at a run: any number of processes may load it. `claim` is for resuming
        it. *agent* is the one that the run began with. *options* go to `RunState.from_json`.

        Raises:
            Corrupt: it is no state of a run; but with *options*, what the SDK raises.
            agents.UserError: this release of the SDK cannot read the state.
        """
        written = await self.checkpointer.load(run_id, checkpoint_id)
        return None if written is None else await _to_run_state(agent, written, options)

    async def claim(
        self, run_id: str, agent: Agent[Any], **options: Any
    ) -> RunState[Any, Any] | None:
        """Take a waiting run to resume it, and return its state; ``None`` if there is none.

        Of all who claim it one is given it, whatever processes they are in: else each would execute
        the tools that were approved. It waits again after the next `save`, or after a `release`.
        If the claimant dies, the run stays claimed, because its tools may have been executed.

        Raises:
            Conflict: the run is claimed already; nothing was changed.
            agents.UserError: this release of the SDK cannot read the state; it is not claimed.
        """
        waiting = await self.checkpointer.snapshot(run_id)
        if waiting is None:
            return None
        state = await _to_run_state(agent, waiting.state, options)
        metadata = await self._read_metadata(run_id, waiting.checkpoint_id)
        taken = Conflict(f"the run {run_id!r} is claimed already: another process resumes it")
        if metadata is None or CLAIMED in metadata:
            raise taken
        claim = {CLAIMED: datetime.now(UTC).isoformat()}
        try:
            await self._replace_metadata(run_id, waiting, metadata | claim)
        except (Conflict, ThreadDeleted):
            raise taken from None
        return state

    async def release(self, run_id: str) -> bool:
        """Let a claimed run wait again; return ``False`` if it was not claimed.

        Do so only if none of its tools was executed since the claim.
        """
        claimed = await self.checkpointer.snapshot(run_id)
        if claimed is None:
            return False
        metadata = await self._read_metadata(run_id, claimed.checkpoint_id)
        if metadata is None or metadata.pop(CLAIMED, None) is None:
            return False
        try:
            await self._replace_metadata(run_id, claimed, metadata)
        except (Conflict, ThreadDeleted):
            return False
        return True

    async def delete(self, run_id: str) -> bool:
        """Delete all states of a run; return ``True`` if there were any.

        A session of the same id stays.
        """
        return await uninterrupted(self.checkpointer.delete(run_id, all_namespaces=False))

    async def list(self, limit: int = 100, *, pattern: str = "*") -> list[str]:
        """Return the ids of the stored runs, the last saved first. *pattern* is a glob."""
        return await self.checkpointer.list_threads(limit, pattern)

    async def _read_metadata(self, run_id: str, checkpoint_id: str) -> dict[str, Any] | None:
        found = await self.checkpointer.get_metadata(run_id, checkpoint_id)
        return None if found is None else found["metadata"]

    async def _replace_metadata(
        self, run_id: str, newest: Snapshot, metadata: Mapping[str, Any]
    ) -> None:
        """Save a state once more with other metadata, if it is still the newest."""
        save = self.checkpointer.save(
            newest.state, run_id, metadata=metadata, expected_parent=newest.checkpoint_id
        )
        await uninterrupted(save)


async def _to_run_state(
    agent: Agent[Any], written: dict[str, Any], options: Mapping[str, Any]
) -> RunState[Any, Any]:
    """Return the state that was written; with options, their functions may raise anything."""
    with nullcontext() if options else _FORM:
        return await RunState.from_json(agent, written, **options)

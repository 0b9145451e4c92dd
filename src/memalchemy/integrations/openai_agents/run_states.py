"""`MemalchemyRunStates`: runs that wait for an approval, stored as checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents import RunState

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import Seconds
from memalchemy.importers.openai_layout import RUNS
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations.openai_agents._adapter import OpenAIAdapter, uninterrupted

if TYPE_CHECKING:
    from agents import Agent


class MemalchemyRunStates(OpenAIAdapter):
    """Stores each `RunState`, so that any process can resume the run.

    A save is a checkpoint of the thread with the run's id, stored as what changed since the last;
    earlier ones stay. The application chooses the id: that of a session, of a ticket.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        ttl: how long a run may wait, in seconds or as a timedelta.
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

        *agent* is the one that the run began with. *options* go to `RunState.from_json`.

        Raises:
            agents.UserError: this release of the SDK cannot read the state.
        """
        written = await self.checkpointer.load(run_id, checkpoint_id)
        return None if written is None else await RunState.from_json(agent, written, **options)

    async def delete(self, run_id: str) -> bool:
        """Delete all states of a run; return ``True`` if there were any.

        A session of the same id stays.
        """
        return await uninterrupted(self.checkpointer.delete(run_id, all_namespaces=False))

    async def list(self, limit: int = 100, *, pattern: str = "*") -> list[str]:
        """Return the ids of the stored runs, the last saved first. *pattern* is a glob."""
        return await self.checkpointer.list_threads(limit, pattern)

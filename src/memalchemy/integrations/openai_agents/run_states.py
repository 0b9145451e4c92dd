"""`MemalchemyRunStates`: runs that wait for somebody's approval, kept as checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents import RunState

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import Seconds
from memalchemy.database import Database
from memalchemy.importers.openai_places import RUNS
from memalchemy.integrations.openai_agents.opening import database, settled

if TYPE_CHECKING:
    from agents import Agent


class MemalchemyRunStates:
    """Saves a `RunState`, and gives it back to any process.

    Each save is a checkpoint of the thread of that id, stored as what changed; earlier ones stay.
    An id is the application's: the session's, a ticket's.

    Args:
        db: a `Database`, or a URL.
        ttl: how long a run may wait, in seconds or as a timedelta.
    """

    def __init__(self, db: Database | Any, *, ttl: Seconds | None = None) -> None:
        self.db = database(db)
        self.checkpointer = Checkpointer(self.db, namespace=RUNS, ttl=ttl)

    def __repr__(self) -> str:
        return f"MemalchemyRunStates({self.db!r})"

    async def save(
        self,
        run_id: str,
        state: RunState[Any, Any],
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """Save a state; the checkpoint's id. *options* are those of `RunState.to_json`.

        Raises:
            agents.UserError: the state cannot be written as JSON, as the SDK says.
        """
        written = state.to_json(**options)
        return await settled(self.checkpointer.save(written, run_id, metadata=metadata))

    async def load(
        self,
        run_id: str,
        agent: Agent[Any],
        *,
        checkpoint_id: str | None = None,
        **options: Any,
    ) -> RunState[Any, Any] | None:
        """The newest state, or that of a checkpoint; ``None`` if there is none.

        *agent* is the one that the run began with, *options* are those of `RunState.from_json`.

        Raises:
            agents.UserError: a state that this release of the SDK does not read.
        """
        written = await self.checkpointer.load(run_id, checkpoint_id)
        return None if written is None else await RunState.from_json(agent, written, **options)

    async def delete(self, run_id: str) -> bool:
        """Delete all that was saved of a run; whether there was anything.

        A session of the same id stays.
        """
        return await settled(self.checkpointer.delete(run_id, all_namespaces=False))

    async def list(self, limit: int = 100, *, pattern: str = "*") -> list[str]:
        """The ids of runs that wait, the last saved first. *pattern* is a glob."""
        return await self.checkpointer.list_threads(limit, pattern)

"""`MemalchemyTaskStore`: the tasks of an A2A server."""

from __future__ import annotations

from a2a.server.context import ServerCallContext
from a2a.server.tasks import TaskStore
from a2a.types import Task

from memalchemy.integrations.a2a._task_adapter import TaskAdapter
from memalchemy.integrations.a2a._task_state import to_metadata, to_state, to_task


class MemalchemyTaskStore(TaskAdapter, TaskStore):
    """Stores each task as what it gained since the last save, and returns it exactly.

    A save is whole or absent; of two at once, the later holds. What it writes is as large as what
    the task gained, however long its history is. A task belongs to the user of the call that saved
    it: others do not see it, and may have one of the same id.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several servers' tasks apart in one database.
        owner_resolver: the function that names the owner of a call: the user's name, by default.
        index_text: make the words of messages and artifacts searchable.
        ttl: how long a task lives after its last save, in seconds or as a timedelta.

    Raises, from any method:
        TooLarge: the task's id is over 255 characters, or the owner's name over about 480 bytes.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: the stored task cannot be read.
    """

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Save a task as it is when the call begins, in the place of an earlier state of it.

        Raises:
            TooLarge: it cannot be stored; nothing was written.
        """
        await self.tasks(context).save(to_state(task), task.id, metadata=to_metadata(task))

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return a new object with the task; ``None`` if the caller has no such task."""
        state = await self.tasks(context).load(task_id)
        return None if state is None else to_task(state)

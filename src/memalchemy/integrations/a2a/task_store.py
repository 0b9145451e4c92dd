"""`MemalchemyTaskStore`: the tasks of an A2A server."""

from __future__ import annotations

from a2a.server.context import ServerCallContext
from a2a.server.tasks import TaskStore
from a2a.types import Task

from memalchemy.database import HostConnection
from memalchemy.integrations.a2a._task_adapter import (
    TaskAdapter,
    read_entries,
    read_stored,
)
from memalchemy.integrations.a2a._task_entries import TaskEntries, to_task
from memalchemy.threads.locked_log_retry import retry_on_log


class MemalchemyTaskStore(TaskAdapter, TaskStore):
    """Stores what each task gained since its last save, and returns the task exactly.

    A save is whole or absent; of two at once, the later holds. It writes the new messages and parts
    of artifacts, however many there are already. Only if an earlier one was changed or removed, it
    writes them all. A task belongs to the user of the call that saved it: others do not see it, and
    may have one of the same id.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several servers' tasks apart in one database.
        owner_resolver: the function that names the owner of a call: the user's name, by default.
        index_text: make the words of messages and artifacts searchable.
        ttl: how long a task lives after its last save, in seconds or as a timedelta. Its webhooks
            end with it, if their store has the same database, namespace and owners.

    Raises, from any method:
        TooLarge: the task's id is over 255 characters, or the owner's name over about 480 bytes.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: the stored task cannot be read.
    """

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Save a task as it is when the call begins, in the place of an earlier state of it.

        Raises:
            TooLarge, NotSerialisable: it cannot be stored; nothing was written.
            Conflict: others created and deleted the task 20 times while this was tried.
        """
        entries, task_id, tasks = TaskEntries(task), task.id, self.tasks(context)

        async def attempt(tx: HostConnection | None) -> None:
            stored = await read_stored(tasks, task_id, tx)
            await self._write(task_id, context, entries, stored, connection=tx)

        await retry_on_log(tasks, task_id, attempt)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return a new object with the task; ``None`` if the caller has no such task.

        One round trip.
        """
        entries = await read_entries(self.tasks(context), task_id)
        return to_task(entries) if entries else None

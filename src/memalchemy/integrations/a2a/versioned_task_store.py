"""`MemalchemyVersionedTaskStore`: tasks that several replicas of an A2A server write."""

from __future__ import annotations

from a2a.server.cluster.task_store import (
    ConcurrentTaskModificationError,
    StoredTask,
    VersionedTaskStore,
)
from a2a.server.cluster.version import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.tasks import TaskStore
from a2a.types import Task, TaskState

from memalchemy.database import HostConnection
from memalchemy.integrations.a2a._task_adapter import (
    Stored,
    TaskAdapter,
    read_entries,
    read_stored,
)
from memalchemy.integrations.a2a._task_entries import TaskEntries, rest_of, to_task, version_of
from memalchemy.integrations.a2a.task_event_stream import to_bytes
from memalchemy.integrations.a2a.task_store import MemalchemyTaskStore
from memalchemy.threads.locked_log_retry import retry_on_log

_TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
    }
)


class MemalchemyVersionedTaskStore(TaskAdapter, VersionedTaskStore):
    """A `MemalchemyTaskStore` whose saves are compare-and-swap: no replica undoes another's save.

    The version of a task counts its saves, from 1. The tasks are those of a `MemalchemyTaskStore`
    on the same database; one that was saved there last has no version.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace, owner_resolver, index_text, ttl: as for `MemalchemyTaskStore`.

    Raises, from any method: as `MemalchemyTaskStore`.
    """

    @property
    def as_task_store(self) -> TaskStore:
        """The same tasks as an unversioned store."""
        return MemalchemyTaskStore(
            self.db,
            namespace=self.namespace[1:],
            owner_resolver=self.owner_resolver,
            index_text=self._index_text,
            ttl=self._ttl,
        )

    async def save(
        self,
        task: Task,
        *,
        event: Event | None = None,
        prev: Task | None = None,
        prev_version: TaskVersion,
        context: ServerCallContext,
    ) -> TaskVersion:
        """Save a task if it is still at *prev_version*, and return its new version.

        ``TaskVersion.MISSING`` is the version of a task that is not there, or that has none. A task
        that is canceled takes the place of any version, if that is there and not terminal. *event*
        is stored in the same transaction, for a `MemalchemyTaskEventStream`. *prev* is not needed.

        Raises:
            ConcurrentTaskModificationError: the task is at another version, or what is to be
                canceled is terminal or gone; nothing was written.
            Conflict: others created and deleted the task 20 times while this was tried.
            TooLarge, NotSerialisable: it cannot be stored; nothing was written.
        """
        entries, task_id, tasks = TaskEntries(task), task.id, self.tasks(context)
        told = None if event is None else to_bytes(event)
        expected = _number_of(prev_version)
        cancels = task.status.state == TaskState.TASK_STATE_CANCELED

        async def attempt(connection: HostConnection | None) -> TaskVersion:
            stored = await read_stored(tasks, task_id, connection)
            version = (0 if stored.entry is None else version_of(stored.entry)) + 1
            if not (_may_be_canceled(stored) if cancels else version == expected + 1):
                raise ConcurrentTaskModificationError(task_id)
            await self._write(task_id, context, entries, stored, version, told, connection)
            return TaskVersion(version)

        return await retry_on_log(tasks, task_id, attempt)

    async def get(self, task_id: str, context: ServerCallContext) -> StoredTask | None:
        """Return a new object with the task, and its version; ``None`` if there is no such task.

        One round trip.
        """
        entries = await read_entries(self.tasks(context), task_id)
        if not entries:
            return None
        return StoredTask(to_task(entries), TaskVersion(version_of(entries[-1])))


def _may_be_canceled(stored: Stored) -> bool:
    return stored.entry is not None and rest_of(stored.entry).status.state not in _TERMINAL


def _number_of(version: TaskVersion) -> int:
    number = version._value  # has no public name; the SDK's own store reads it, too
    if not isinstance(number, int):
        raise TypeError(f"a version of this store is a number, not {type(number).__name__}")
    return number

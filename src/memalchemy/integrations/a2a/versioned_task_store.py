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

from memalchemy.checkpoints import Checkpointer
from memalchemy.errors import Conflict, ThreadDeleted
from memalchemy.integrations.a2a._task_adapter import TaskAdapter
from memalchemy.integrations.a2a._task_state import to_metadata, to_state, to_task
from memalchemy.integrations.a2a.task_store import MemalchemyTaskStore

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
        and *prev* are not stored.

        Raises:
            ConcurrentTaskModificationError: the task is at another version, or what is to be
                canceled is terminal or gone; nothing was written.
            TooLarge: it cannot be stored; nothing was written.
        """
        tasks = self.tasks(context)
        while task.status.state == TaskState.TASK_STATE_CANCELED:
            stored = await tasks.get_metadata(task.id)
            if stored is None or stored["metadata"]["state"] in _TERMINAL:
                raise ConcurrentTaskModificationError(task.id)
            try:
                return await _save(tasks, task, stored["checkpoint_id"])
            except ConcurrentTaskModificationError:
                continue  # somebody else has saved it meanwhile
        if not prev_version.is_missing:
            return await _save(tasks, task, _checkpoint_of(prev_version))
        known = await tasks.get_metadata(task.id)
        if known is None:
            return await _save(tasks, task, None)
        if not _version_of(known["checkpoint_id"]).is_missing:
            raise ConcurrentTaskModificationError(task.id)
        return await _save(tasks, task, known["checkpoint_id"])

    async def get(self, task_id: str, context: ServerCallContext) -> StoredTask | None:
        """Return a new object with the task, and its version; ``None`` if there is no such task."""
        found = await self.tasks(context).snapshot(task_id)
        if found is None:
            return None
        return StoredTask(to_task(found.state), _version_of(found.checkpoint_id))


async def _save(tasks: Checkpointer, task: Task, parent: str | None) -> TaskVersion:
    """Save a task if its newest checkpoint is *parent*, and return its new version."""
    before = TaskVersion.MISSING if parent is None else _version_of(parent)
    version = TaskVersion(_number_of(before) + 1)
    try:
        await tasks.save(
            to_state(task),
            task.id,
            _checkpoint_of(version),
            to_metadata(task),
            expected_parent=parent,
        )
    except (Conflict, ThreadDeleted):
        raise ConcurrentTaskModificationError(task.id) from None
    return version


def _version_of(checkpoint_id: str) -> TaskVersion:
    """Return the version that a checkpoint is named after: ``v12``. Others have none."""
    number = checkpoint_id[1:] if checkpoint_id.startswith("v") else ""
    return TaskVersion(int(number)) if number.isdecimal() else TaskVersion.MISSING


def _checkpoint_of(version: TaskVersion) -> str:
    return f"v{_number_of(version)}"


def _number_of(version: TaskVersion) -> int:
    number = version._value  # has no public name; the SDK's own store reads it, too
    if not isinstance(number, int):
        raise TypeError(f"a version of this store is a number, not {type(number).__name__}")
    return number

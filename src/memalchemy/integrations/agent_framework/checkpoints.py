"""`MemalchemyCheckpointStorage`: checkpoints of workflows, without pickle."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import CheckpointInfo, Seconds
from memalchemy.errors import MemalchemyError
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.agent_framework._object_codec import ObjectCodec, ObjectNotStorable
from memalchemy.keys import check_namespace

_FORM = StoredForm("checkpoint of Agent Framework")


class MemalchemyCheckpointStorage(Adapter):
    """Stores checkpoints of workflows in a SQL database.

        workflow = WorkflowBuilder(start_executor=…, checkpoint_storage=storage).build()

    A save is stored as a whole or not at all, as the difference from the checkpoint before. Every
    load builds new objects.

    A checkpoint holds Python objects. They are stored by their classes and attributes, with no
    pickle: built-in values, the framework's classes, those registered with
    `agent_framework.register_checkpoint_type`, and the classes in *allowed*. An object of another
    class is refused when it is saved. Two references to one object become two equal objects.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        allowed: your classes that states and messages of workflows may hold: dataclasses, pydantic
            models, enums, or any whose objects `copy.copy` can copy without a function of its own.
        namespace: keeps the checkpoints of several applications apart.
        ttl: the lifetime of a workflow's checkpoints after the last save, in seconds or as a
            timedelta.

    Raises, from any method:
        WorkflowCheckpointException: the framework's. The checkpoint is not there, or cannot be
            stored, or holds an object of a class that is not allowed; the database cannot be
            reached.
    """

    root = "agent_framework"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        allowed: Iterable[type] = (),
        namespace: Iterable[str] = (),
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=(*check_namespace(namespace), "checkpoints"))
        # A workflow goes on from the list of its checkpoints: a replica may lack the newest.
        self.checkpointer: Checkpointer = Checkpointer(
            self.db.primary(), namespace=self.namespace, ttl=ttl
        )
        """The checkpoints: a thread for each name of a workflow."""
        self._objects = ObjectCodec(allowed)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint, in place of one with the same id; return its id."""
        with self.translated_errors():
            fields = self._objects.encode(checkpoint.to_dict())
            id_, name = checkpoint.checkpoint_id, checkpoint.workflow_name
            others = [thread for thread in await self._workflows_with(id_) if thread != name]
            await self.checkpointer.save(
                fields,
                name,
                id_,
                {"checkpoint_id": id_, "timestamp": checkpoint.timestamp},
                lineage=checkpoint.previous_checkpoint_id,
            )
            for thread in others:  # a workflow of another name had the id
                await self.checkpointer.delete(thread, id_)
        return id_

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint.

        Raises:
            WorkflowCheckpointException: there is none of this id.
        """
        with self.translated_errors():
            for thread in await self._workflows_with(checkpoint_id):
                found = await self.checkpointer.load(thread, checkpoint_id)
                if found is not None:
                    return self._to_checkpoint(found)
        raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of a workflow, the last saved at the end."""
        with self.translated_errors():
            ids = [info.checkpoint_id for info in await self._list_infos(workflow_name)]
            found = self.checkpointer.snapshots(workflow_name, ids)
            return [self._to_checkpoint(one.state) async for one in found]

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint; return whether there was one."""
        with self.translated_errors():
            threads = await self._workflows_with(checkpoint_id)
            gone = [await self.checkpointer.delete(one, checkpoint_id) for one in threads]
        return any(gone)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the checkpoint of a workflow with the latest timestamp; ``None`` without any.

        Of several with the same timestamp, the one that was saved first, as in the framework's own.
        """
        with self.translated_errors():
            infos = await self._list_infos(workflow_name)
            if not infos:
                return None
            with _FORM:
                latest = max(
                    infos, key=lambda info: datetime.fromisoformat(info.metadata["timestamp"])
                )
            found = await self.checkpointer.load(workflow_name, latest.checkpoint_id)
            return None if found is None else self._to_checkpoint(found)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of the checkpoints of a workflow, the last saved at the end."""
        with self.translated_errors():
            return [info.checkpoint_id for info in await self._list_infos(workflow_name)]

    def translate(self, error: Exception) -> Exception | None:
        """Return the framework's exception for an error of memalchemy, or of an object."""
        if isinstance(error, MemalchemyError | ObjectNotStorable):
            return WorkflowCheckpointException(str(error))
        return None

    async def _workflows_with(self, checkpoint_id: str) -> list[str]:
        """Return the names of the workflows that have a checkpoint of this id."""
        found = await self.checkpointer.query_by_metadata("checkpoint_id", checkpoint_id)
        return [one["thread_id"] for one in found]

    async def _list_infos(self, workflow_name: str) -> list[CheckpointInfo]:
        return [one async for one in self.checkpointer.history(workflow_name)][::-1]

    def _to_checkpoint(self, fields: dict[str, Any]) -> WorkflowCheckpoint:
        decoded = self._objects.decode(fields)
        with _FORM:
            return WorkflowCheckpoint.from_dict(decoded)


__all__ = ["MemalchemyCheckpointStorage"]

"""Branching into threads of their own: fork up to a checkpoint, copy a whole thread."""

from __future__ import annotations

from datetime import UTC, datetime

from memalchemy.checkpoints import upkeep
from memalchemy.checkpoints.scope import Scope, missing
from memalchemy.database import HostConnection
from memalchemy.dialects import Dialect
from memalchemy.errors import InvalidArgument
from memalchemy.events import operation
from memalchemy.keys import fork_of
from memalchemy.log import Log, copy_log
from memalchemy.statements import Program


class Branching(Scope):
    """The copying part of `Checkpointer`."""

    async def fork(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        new_thread_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Copy a thread up to a checkpoint (the newest without an id) into a new thread.

        Returns the new thread's id, ``THREAD-fork-xxxxxxxx`` if none is given (a long THREAD is
        cut off to fit). The two share nothing afterwards.

        Raises:
            NotFound: the checkpoint is not there.
            Conflict: the new thread holds something already.
            ValueError: the new thread is the old one.
        """
        with operation("checkpoint.fork", **self._about(thread_id, checkpoint_id)) as event:
            info = await self._needed(thread_id, checkpoint_id, connection)
            target = new_thread_id
            if target is None:
                target = fork_of(thread_id)
            if target == thread_id:
                raise InvalidArgument("a fork needs a thread id of its own")
            event.checkpoint_id, event.details["to"] = info.checkpoint_id, target
            source, to, now = self._log(thread_id), self._log(target), datetime.now(UTC)
            self._cache.drop(to)
            copied = await self.db.write(
                lambda: copy_log(
                    self.db.dialect, source, to, now, checkpoint_id=info.checkpoint_id
                ),
                connection=connection,
                event=event,
                payloads=False,
            )
            if not copied:
                raise missing(thread_id, info.checkpoint_id)
        return target

    async def copy_thread(
        self,
        source_thread_id: str,
        dest_thread_id: str,
        *,
        all_namespaces: bool = True,
        connection: HostConnection | None = None,
    ) -> bool:
        """Copy a thread with all its logs; checkpoint ids and order stay. ``False`` if it is empty.

        All its logs are those of all namespaces, whatever keeps them; without *all_namespaces* it
        is this namespace's alone.

        Raises:
            Conflict: the target holds something already; nothing was changed.
        """
        source, target = self._log(source_thread_id), self._log(dest_thread_id)
        if source == target:
            raise InvalidArgument("a thread cannot be copied onto itself")
        now = datetime.now(UTC)
        copy = _copy_thread if all_namespaces else copy_log
        self._cache.drop_thread(target.tenant, dest_thread_id)
        with operation("checkpoint.copy", **self._about(source_thread_id, None)) as event:
            event.details["to"] = dest_thread_id
            return await self.db.write(
                lambda: copy(self.db.dialect, source, target, now),
                connection=connection,
                event=event,
                payloads=False,
            )


def _copy_thread(d: Dialect, source: Log, target: Log, now: datetime) -> Program[bool]:
    rows = yield upkeep.list_namespaces(d), source.binds()
    copied = False
    for row in rows:
        if row.deleted_at is None:
            from_ = source._replace(namespace=row.namespace)
            to = target._replace(namespace=row.namespace)
            copied = (yield from copy_log(d, from_, to, now)) or copied
    return copied

"""`MemalchemyTaskEventStream`: events of tasks that another replica of an A2A server runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from datetime import timedelta
from typing import cast

from a2a.server.cluster.event_stream import TaskEventStream, VersionedEvent
from a2a.server.cluster.version import TaskVersion
from a2a.server.events.event_queue import Event
from a2a.types import StreamResponse
from a2a.utils.proto_utils import to_stream_response

from memalchemy.contracts import Seconds, to_lifetime
from memalchemy.database import Database, HostConnection
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.a2a._protobuf import read_into
from memalchemy.integrations.a2a._task_entries import version_of
from memalchemy.threads import ThreadLog

DAY = 86_400.0


class MemalchemyTaskEventStream(Adapter, TaskEventStream):
    """Yields the events that a `MemalchemyVersionedTaskStore` stored with the tasks they changed.

    Every replica has one, on the database of its store. The SDK does not say whose events it asks
    for: the ids of tasks must differ between users, as those that the SDK makes do.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: that of the store.
        poll_interval: the seconds between two looks for events.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored event cannot be read.
    """

    root = "a2a"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        poll_interval: float = 0.5,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.events: ThreadLog = events_of(self.db, self.namespace)
        self._poll_interval = poll_interval

    async def publish(self, task_id: str, event: VersionedEvent) -> None:
        """Do nothing: the store has stored the event with the task."""

    async def subscribe(
        self, task_id: str, *, after: TaskVersion
    ) -> AsyncGenerator[VersionedEvent, None]:
        """Yield the events that made versions of a task after *after*, in order, without an end."""
        position = 0
        while True:
            entries = await self.events.range(task_id, after=position)
            for entry in entries:
                position = entry.position
                version = TaskVersion(version_of(entry.value))
                if version.is_after(after):
                    with StoredForm("event of A2A"):
                        stored = to_event(entry.value["event"])
                    yield VersionedEvent(stored, version)
            if not entries:
                await asyncio.sleep(self._poll_interval)

    async def destroy(self, task_id: str) -> None:
        """Do nothing: a task's events are deleted a day after the last of them, or with it."""

    async def close(self) -> None:
        """Close the database if this stream owns it; a later use opens it again."""
        await self.aclose()


def events_of(db: Database, namespace: tuple[str, ...]) -> ThreadLog:
    """Return the log with events of tasks; its threads have the ids of tasks."""
    return ThreadLog(db, namespace=(*namespace, "events"), index_text=False, ttl=DAY)


async def append_event(
    db: Database,
    namespace: tuple[str, ...],
    task_id: str,
    version: int,
    event: bytes,
    ttl: Seconds | None,
    tx: HostConnection,
) -> None:
    """Store an event that made a version of a task, which lives for *ttl*."""
    life = DAY if ttl is None else min(timedelta(seconds=DAY), to_lifetime(ttl))
    value = {"version": version, "event": event}
    await events_of(db, namespace).append(task_id, [value], ttl=life, connection=tx)


def to_bytes(event: Event) -> bytes:
    """Return an event as it is stored."""
    serialized: bytes = to_stream_response(event).SerializeToString()
    return serialized


def to_event(stored: bytes) -> Event:
    """Return a new object with an event that was stored."""
    response = read_into(StreamResponse(), stored)
    return cast("Event", getattr(response, response.WhichOneof("payload")))

"""The base of both task stores: where tasks lie, how they are written, listed and deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.types import ListTasksRequest, ListTasksResponse
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import (
    ListTasksCursor,
    decode_list_tasks_cursor,
    decode_page_token,
    encode_list_tasks_cursor,
)

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import Retention, Seconds, Snapshot
from memalchemy.integrations._base import NO_LIMIT, Adapter, AnyDatabase
from memalchemy.integrations.a2a._task_entries import Entry, TaskEntries, to_task
from memalchemy.integrations.a2a.task_event_stream import events_of, to_entry
from memalchemy.threads import ThreadLog

_BILLION = 10**9

_Place = tuple[bool, int, str]
"""Whether a task's status has a time, that time in nanoseconds, and the task's id. Listings are in
descending order of it."""


class TaskAdapter(Adapter):
    """A task is the log of the thread with its id, in the namespace of its owner.

    The newest checkpoint there is the record of its last save: its metadata is what listings look
    at, and a save is only stored if that is the checkpoint which it has read.
    """

    root = "a2a"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        owner_resolver: OwnerResolver = resolve_user_scope,
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.owner_resolver = owner_resolver
        self._index_text, self._ttl = index_text, ttl

    def tasks(self, context: ServerCallContext) -> ThreadLog:
        """Return the log with the tasks of the caller: it searches and lists their messages."""
        return ThreadLog(
            self.db,
            namespace=self._namespace_of(context),
            index_text=self._index_text,
            ttl=self._ttl,
        )

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the caller's tasks, those of the latest status first.

        The page is as of one moment. Statuses without a time come last, ties are broken by id,
        downwards. This takes two round trips, of which the first reads a short record of each of
        the caller's tasks.

        Raises:
            InvalidParamsError: the page token is none.
        """
        records, tasks = self._records(context), self.tasks(context)
        async with self.db.snapshot() as then:
            places = sorted(
                (
                    _place(info["thread_id"], info["metadata"])
                    for info in await records.list_with_metadata(NO_LIMIT, connection=then)
                    if _matches(info["metadata"], params)
                ),
                reverse=True,
            )
            first = _first_index(places, params.page_token) if params.page_token else 0
            size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
            page = places[first : first + size]
            found = await tasks.read_threads([one[-1] for one in page], connection=then)
        is_last = first + size >= len(places)
        return ListTasksResponse(
            tasks=[to_task([entry.value for entry in entries]) for entries in found.values()],
            next_page_token=None if is_last else _token_behind(page[-1]),
            page_size=size,
            total_size=len(places),
        )

    async def close(self) -> None:
        """Close the database if this store owns it; a later use opens it again."""
        await self.aclose()

    async def _entries(self, task_id: str, context: ServerCallContext) -> list[Entry]:
        _, found = await self.tasks(context).scan(task_id, _value)
        return found

    async def _write(
        self,
        task_id: str,
        entries: TaskEntries,
        context: ServerCallContext,
        before: Snapshot | None,
        version: int = 0,
        event: Event | None = None,
    ) -> None:
        """Write what a task gained since the record *before*, with a new record.

        Args:
            version: that of the task from now on; 0 is none.
            event: what made it, for other replicas.

        Raises:
            Conflict, ThreadDeleted: there is another record by now; nothing was written.
        """
        tasks, first = self.tasks(context), entries.first(version)
        known = None if before is None else before.state
        news = entries.after(known)
        async with self.db.transaction() as tx:
            if known is None or news is None:
                every = [first, *(entries.after(None) or ())]
                position, *_ = await tasks.replace_suffix(task_id, 0, every, connection=tx)
            else:
                position = known["position"]
                await tasks.edit(task_id, position, first, connection=tx)
                if news:
                    await tasks.append(task_id, news, connection=tx)
            await self._records(context).save(
                entries.record | {"position": position},
                task_id,
                checkpoint_of(version) if version else None,
                entries.metadata,
                expected_parent=None if before is None else before.checkpoint_id,
                connection=tx,
            )
            if event is not None:
                events = events_of(self.db, self.namespace)
                await events.append(task_id, [to_entry(event, version)], connection=tx)

    def _records(self, context: ServerCallContext) -> Checkpointer:
        return Checkpointer(
            self.db,
            namespace=self._namespace_of(context),
            retention=Retention(keep_last=1),
            index_text=False,
            ttl=self._ttl,
        )

    def _namespace_of(self, context: ServerCallContext) -> tuple[str, ...]:
        return (*self.namespace, "tasks", self.owner_resolver(context))


def checkpoint_of(version: int) -> str:
    """Return the id of the record of a version."""
    return f"v{version}"


def _value(_: int, value: Entry, __: int) -> Entry:
    return value


def _place(task_id: str, metadata: dict[str, Any]) -> _Place:
    at = metadata["timestamp"]
    return (False, 0, task_id) if at is None else (True, at[0] * _BILLION + at[1], task_id)


def _matches(metadata: dict[str, Any], params: ListTasksRequest) -> bool:
    if params.context_id and metadata["context_id"] != params.context_id:
        return False
    if params.status and metadata["state"] != params.status:
        return False
    if not params.HasField("status_timestamp_after"):
        return True
    earliest, at = params.status_timestamp_after, metadata["timestamp"]
    return at is not None and at >= [earliest.seconds, earliest.nanos]


def _first_index(places: list[_Place], token: str) -> int:
    """Return the index of the first task of the page to which a token leads.

    The token of an older release of the SDK is the id of that task.
    """
    cursor = decode_list_tasks_cursor(token)
    if cursor is not None:
        before = cursor.sort_key()
        return next((at for at, one in enumerate(places) if one < before), len(places))
    task_id = decode_page_token(token)
    for index, (_, _, known) in enumerate(places):
        if known == task_id:
            return index
    raise InvalidParamsError(f"Invalid page token: {token}")


def _token_behind(place: _Place) -> str:
    has_time, nanoseconds, task_id = place
    return encode_list_tasks_cursor(ListTasksCursor(nanoseconds if has_time else None, task_id))

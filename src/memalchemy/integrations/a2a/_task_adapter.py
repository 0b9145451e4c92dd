"""The base of both task stores: where tasks lie, how they are written, listed and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.types import ListTasksRequest, ListTasksResponse, Task
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import (
    ListTasksCursor,
    decode_list_tasks_cursor,
    decode_page_token,
    encode_list_tasks_cursor,
)

from memalchemy._transactions import transaction_of
from memalchemy.contracts import MAX_LIMIT, Seconds
from memalchemy.database import HostConnection
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations.a2a._task_entries import Entry, TaskEntries, rest_of, to_task
from memalchemy.integrations.a2a._webhooks import end_webhooks, webhooks_of
from memalchemy.integrations.a2a.task_event_stream import append_event, events_of
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

_Place = tuple[bool, int, str]
"""Place of a task in listings, which descend: its status has a time, that time in nanoseconds, its
id."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The last entry of a task's log, if it has one, its position, and the version of the log."""

    entry: Entry | None
    position: int
    log_version: int


class TaskAdapter(Adapter):
    """A task is the log of the thread with its id, in the namespace of its owner.

    Its last entry is the task without its messages and parts, which are the entries before it. A
    save puts what the task gained, and a new last entry, in the place of the last one.
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
            namespace=(*self.namespace, "tasks", self.owner_resolver(context)),
            index_text=self._index_text,
            ttl=self._ttl,
        )

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Delete a task of the caller's with its events and the caller's webhooks."""
        webhooks = webhooks_of(self.namespace, task_id, self.owner_resolver(context))
        async with self.db.transaction() as tx:
            if await self.tasks(context).delete(task_id, connection=tx):
                await events_of(self.db, self.namespace).delete(task_id, connection=tx)
                await Store(self.db).clear_namespace(webhooks, connection=tx)

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the caller's tasks, those of the latest status first.

        The page is as of one moment. Statuses without a time come last, ties are broken by id,
        downwards. Of the tasks that are not on the page, all but the messages and the parts of
        artifacts is read, some hundred tasks in a round trip.

        Raises:
            InvalidParamsError: the page token is none.
        """
        tasks = self.tasks(context)
        async with self.db.snapshot() as then:
            ids = await tasks.list_threads(MAX_LIMIT, connection=then)
            newest = await tasks.read_threads(ids, newest=True, connection=then)
            known = [rest_of(entry.value) for (entry,) in newest.values()]
            places = sorted(
                (_place_in_list(one) for one in known if _matches(one, params)), reverse=True
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

    async def _write(
        self,
        task_id: str,
        context: ServerCallContext,
        entries: TaskEntries,
        stored: Stored,
        version: int = 0,
        event: bytes | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Write a task as `write_task` does, with the event that changed it, in one transaction.

        The webhooks that the caller has set for the task end when it does.
        """
        tasks = self.tasks(context)
        if event is None and self._ttl is None:
            await write_task(tasks, task_id, entries, stored, version, connection)
            return
        async with transaction_of(self.db, connection) as tx:
            await write_task(tasks, task_id, entries, stored, version, tx)
            if event is not None:
                await append_event(self.db, self.namespace, task_id, version, event, self._ttl, tx)
            head = await tasks.hold(task_id, tx) if self._ttl is not None else None
            if head is not None:
                namespace = webhooks_of(self.namespace, task_id, self.owner_resolver(context))
                await end_webhooks(Store(self.db, index_text=False), namespace, head.expires_at, tx)


async def read_entries(tasks: ThreadLog, task_id: str) -> list[Entry]:
    """Return the entries of a task, none if there is no such task. One round trip."""
    _, found = await tasks.scan(task_id, _value_of_entry)
    return found


async def read_stored(
    tasks: ThreadLog, task_id: str, connection: HostConnection | None = None
) -> Stored:
    """Return the facts about the stored task that a save needs."""
    # The version is read first: a write between the two then makes the next write a conflict.
    version = await tasks.version(task_id, connection=connection)
    for newest in await tasks.tail(task_id, 1, connection=connection) if version else ():
        return Stored(newest.value, newest.position, version)
    return Stored(None, 1, version)


async def write_task(
    tasks: ThreadLog,
    task_id: str,
    entries: TaskEntries,
    stored: Stored,
    version: int = 0,
    connection: HostConnection | None = None,
) -> None:
    """Write what a task gained since it was *stored*; its *version* is 0 if it has none.

    Raises:
        Conflict, ThreadDeleted: another task is stored by now; nothing was written.
    """
    news, after = entries.since(stored.entry), stored.position - 1
    if news is None:  # something has changed of what the task had
        news, after = entries.since(None) or [], 0
    await tasks.replace_suffix(
        task_id,
        after,
        [*news, entries.last(version)],
        expected_version=stored.log_version,
        connection=connection,
    )


def _value_of_entry(_: int, value: Entry, __: int) -> Entry:
    return value


def _time_of(task: Task) -> int | None:
    """Return the time of a task's status in nanoseconds, if it has one."""
    if not task.status.HasField("timestamp"):
        return None
    nanoseconds: int = task.status.timestamp.ToNanoseconds()
    return nanoseconds


def _place_in_list(task: Task) -> _Place:
    at = _time_of(task)
    return (False, 0, task.id) if at is None else (True, at, task.id)


def _matches(task: Task, params: ListTasksRequest) -> bool:
    if params.context_id and task.context_id != params.context_id:
        return False
    if params.status and task.status.state != params.status:
        return False
    if not params.HasField("status_timestamp_after"):
        return True
    at = _time_of(task)
    return at is not None and at >= params.status_timestamp_after.ToNanoseconds()


def _first_index(places: Sequence[_Place], token: str) -> int:
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

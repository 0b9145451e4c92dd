"""The base of both task stores: where tasks lie, and how they are listed and deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a.server.context import ServerCallContext
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
from memalchemy.contracts import Retention, Seconds
from memalchemy.integrations._base import NO_LIMIT, Adapter, AnyDatabase
from memalchemy.integrations.a2a._task_state import to_task

_BILLION = 10**9

_Place = tuple[bool, int, str]
"""Whether a task's status has a time, that time in nanoseconds, and the task's id. Listings are in
descending order of it."""


class TaskAdapter(Adapter):
    """A task is the newest checkpoint of the thread with its id, in the namespace of its owner."""

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

    def tasks(self, context: ServerCallContext) -> Checkpointer:
        """Return the checkpointer with the tasks of the caller: it searches, exports and prunes."""
        return Checkpointer(
            self.db,
            namespace=(*self.namespace, "tasks", self.owner_resolver(context)),
            retention=Retention(keep_last=1),
            index_text=self._index_text,
            ttl=self._ttl,
        )

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the caller's tasks, those of the latest status first.

        The page is as of one moment. Statuses without a time come last, ties are broken by id,
        downwards. A listing reads a short record of each of the caller's tasks, and of those on the
        page all.

        Raises:
            InvalidParamsError: the page token is none.
        """
        tasks = self.tasks(context)
        async with self.db.snapshot() as then:
            newest: dict[str, dict[str, Any]] = {}
            for info in await tasks.list_with_metadata(NO_LIMIT, connection=then):
                newest.setdefault(info["thread_id"], info["metadata"])
            places = sorted(
                (_place(task_id, at) for task_id, at in newest.items() if _matches(at, params)),
                reverse=True,
            )
            first = _first_index(places, params.page_token) if params.page_token else 0
            size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
            page = places[first : first + size]
            found = [to_task(await tasks.load(one[-1], connection=then)) for one in page]
        is_last = first + size >= len(places)
        return ListTasksResponse(
            tasks=found,
            next_page_token=None if is_last else _token_behind(page[-1]),
            page_size=size,
            total_size=len(places),
        )

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Delete a task of the caller's, if it is there."""
        await self.tasks(context).delete(task_id, all_namespaces=False)

    async def close(self) -> None:
        """Close the database if this store owns it; a later use opens it again."""
        await self.aclose()


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

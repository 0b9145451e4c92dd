"""The list of threads: what each is about, filtered by what is in it, sorted by any column.

An index has the order of the last writes, and none has any other. So a list in another order, or
one that is filtered by what threads hold, looks through windows of `WINDOW` threads in that order,
one for a page at most. A window is sorted, and a page says how many threads it has looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import NoneType
from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.contracts import CheckpointInfo, check_filter
from memalchemy.database import Database
from memalchemy.errors import InvalidArgument
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import Namespace, query
from memalchemy.inspection._records import Record, thread_record
from memalchemy.inspection.thread_summaries import ThreadSummaries, ThreadSummary, read_newest
from memalchemy.inspection.threads import HeadPage, list_thread_heads, log_contents, lower_ascii
from memalchemy.keys import decode_namespace

WINDOW = 500
"""Threads that a page looks through, at most, for what no index tells."""
METADATA = 16
"""Pairs of metadata that a list is filtered by, at most."""

WINDOWS = "windows of logs"
"""The listing of windows, in cursors."""

_IDS, _WINDOW = "ids", "window"
"""Phases of a list by a text: threads with it in their ids first, then those with it elsewhere."""


@dataclass
class _Row:
    """A thread of a window; what was not read of it is ``None``."""

    head: Any
    info: CheckpointInfo | None
    last_entry: datetime | None
    summary: ThreadSummary | None = None
    content: Any = None

    @property
    def happened_at(self) -> datetime:
        if self.summary is not None:
            return self.summary.happened_at
        times = [one for one in (self.last_entry,) if one is not None]
        times += [] if self.info is None else [self.info.occurred_at]
        return max(times, default=self.head.updated_at)

    @property
    def metadata(self) -> list[Mapping[str, Any]]:
        """The thread's own metadata, and that of its newest step."""
        own = self.head.meta if isinstance(self.head.meta, dict) else {}
        return [own] if self.info is None else [own, self.info.metadata]


def _of_summary(name: str) -> Callable[[_Row], Any]:
    def value(row: _Row) -> Any:
        assert row.summary is not None
        found = row.summary.as_record()[name]
        return found.casefold() if isinstance(found, str) else found

    return value


def _tokens(row: _Row) -> int | None:
    assert row.summary is not None
    usage = row.summary.sums.usage
    counts = [one for one in (usage.input_tokens, usage.output_tokens) if one is not None]
    return sum(counts) if counts else None


_Value = Callable[[_Row], Any]

BY_HEAD: Mapping[str, _Value] = {
    "happened": lambda row: row.happened_at.timestamp(),
    "written": lambda row: row.head.updated_at.timestamp(),
    "thread": lambda row: row.head.thread_id,
}
BY_SIZE: Mapping[str, _Value] = {
    "steps": lambda row: int(row.content.checkpoints) + int(row.content.entries),
    "stored": lambda row: thread_record(row.head, row.content)["stored_bytes"],
}
BY_SUMMARY: Mapping[str, _Value] = {
    **{name: _of_summary(name) for name in ("title", "agent", "user", "messages", "errors")},
    "tokens": _tokens,
    "cost": _of_summary("cost_usd"),
}
SORTS = (*BY_HEAD, *BY_SIZE, *BY_SUMMARY)
"""The names of the sort orders of a list."""
_RISING = frozenset({"thread", "title", "agent", "user"})


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """The conditions that filter a list of threads.

    Args:
        about: a text that the id, the title, the agent, the user, what is asked, or a value of the
            metadata contains, in any case.
        metadata: pairs that the thread's metadata or that of its newest step has; a value is
            compared as a text.
        since, until: when the newest step or entry happened.
        waiting: only threads that wait for an answer.
        below: only threads in this namespace and below it.
        unreadable: also threads of which nobody can say whether they have *about* or wait, as their
            content lacks a key or is damaged.
    """

    about: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    waiting: bool = False
    below: Namespace = ()
    unreadable: bool = True

    def __post_init__(self) -> None:
        check_filter("about", self.about, str)
        check_filter("metadata", self.metadata, Mapping)
        check_filter("since", self.since, datetime, NoneType)
        check_filter("until", self.until, datetime, NoneType)
        if len(self.metadata) > METADATA:
            raise InvalidArgument(f"a list is filtered by {METADATA} pairs of metadata, at most")
        if len(self.about) > 255:
            raise InvalidArgument("a list is filtered by a text of 255 characters, at most")
        for moment in (self.since, self.until):
            if moment is not None and moment.tzinfo is None:
                raise InvalidArgument("a time has a time zone, such as 2026-11-29T00:00Z")

    def __bool__(self) -> bool:
        conditions = (self.about, self.metadata, self.since, self.until, self.waiting, self.below)
        return any(conditions)

    def admits(self, row: _Row) -> bool:
        """Return whether a thread has the times and the metadata; its content is not looked at."""
        if decode_namespace(row.head.namespace)[: len(self.below)] != self.below:
            return False
        happened = row.happened_at
        if self.since is not None and happened < self.since:
            return False
        if self.until is not None and happened >= self.until:
            return False
        return all(
            any(key in own and value in _texts_of(own[key]) for own in row.metadata)
            for key, value in self.metadata.items()
        )

    def keeps_unread(self, row: _Row) -> bool:
        """Return whether a thread is kept because its content cannot be read."""
        return self.unreadable and row.summary is not None and row.summary.is_unreadable

    def is_in_id(self, row: _Row) -> bool:
        """Return whether *about* is a part of the thread's id, as `list_thread_heads` finds ids."""
        return lower_ascii(self.about) in lower_ascii(row.head.thread_id)

    def is_in_content(self, row: _Row) -> bool:
        """Return whether *about* is in what the list shows of a thread, or in its metadata."""
        wanted = self.about.casefold()
        summary = row.summary
        assert summary is not None
        shown = (row.head.thread_id, summary.title, summary.agent, summary.user, summary.asked)
        texts = [text for text in shown if text]
        texts += [text for own in row.metadata for one in own.values() for text in _texts_of(one)]
        return any(wanted in text.casefold() for text in texts)


def _texts_of(value: Any) -> tuple[str, ...]:
    """Return the texts by which a value of metadata is found."""
    if isinstance(value, str):
        return (value,)
    return (json.dumps(value, ensure_ascii=False, default=str), str(value))


async def list_threads(
    summaries: ThreadSummaries,
    part: str = "",
    *,
    framework: str = "",
    wanted: ThreadFilter,
    sort: str | None = None,
    descending: bool | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Record:
    """Return a page of threads with their summaries; see `Inspector.threads`."""
    db = summaries.db
    if sort is not None and sort not in SORTS:
        raise InvalidArgument(f"threads are sorted by {', '.join(SORTS)}, not {sort!r}")
    if part and (wanted or sort):
        raise InvalidArgument("a part of an id is not combined with a filter: about= has both")
    if sort is None and not wanted:
        page = await list_thread_heads(db, part, framework=framework, cursor=cursor, limit=limit)
        rows = [_Row(head, None, None) for head in page.heads]
        return {
            "threads": await _records(summaries, rows),
            "order": page.order,
            "next": page.next,
            "looked": len(page.heads),
            "window": None,
        }
    sort = sort or "written"
    falls = sort not in _RISING if descending is None else descending
    return await _list_window(summaries, framework, wanted, sort, falls, cursor, limit)


async def _list_window(
    summaries: ThreadSummaries,
    framework: str,
    wanted: ThreadFilter,
    sort: str,
    falls: bool,
    cursor: str | None,
    limit: int,
) -> Record:
    db = summaries.db
    phase, inner, last = _IDS if wanted.about else _WINDOW, None, None
    if cursor is not None:
        phase, inner, last = _decode(cursor)
    newest = await list_thread_heads(db, framework=framework, limit=WINDOW)
    is_whole = newest.next is None
    page = newest
    if is_whole:
        phase = _WINDOW
    elif phase == _IDS:
        page = await list_thread_heads(
            db, wanted.about, framework=framework, cursor=inner, limit=WINDOW
        )
    elif inner is not None:
        page = await list_thread_heads(db, framework=framework, cursor=inner, limit=WINDOW)
    rows = await _read_rows(db, page.heads, sort)
    found = await _filter(summaries, wanted, rows, phase=phase, is_whole=is_whole)
    if sort in BY_SUMMARY:
        await _add_summaries(summaries, found)
    keyed = _sort(found, sort, falls)
    if last is not None:
        keyed = [one for one in keyed if _is_behind(one[0], last, falls)]
    shown = keyed[:limit]
    following = None
    if len(keyed) > limit:
        following = encode_cursor(WINDOWS, phase, inner, shown[-1][0])
    elif phase == _IDS:
        phase = _IDS if page.next else _WINDOW
        following = encode_cursor(WINDOWS, phase, page.next, None)
    elif page.next is not None and not _is_too_old(page, wanted):
        following = encode_cursor(WINDOWS, _WINDOW, page.next, None)
    return {
        "threads": await _records(summaries, [row for _, row in shown]),
        "order": sort,
        "next": following,
        "looked": len(page.heads),
        "window": None if is_whole else WINDOW,
    }


def _decode(cursor: str) -> tuple[str, str | None, Any]:
    phase, inner, last = decode_cursor(WINDOWS, cursor, (str, (str, NoneType), object))
    is_key = last is None or (isinstance(last, list) and len(last) == 3)
    if phase not in (_IDS, _WINDOW) or not is_key:
        raise InvalidArgument("this cursor is not one that this list gave out")
    return phase, inner, last


async def _read_rows(db: Database, heads: Sequence[Any], sort: str) -> list[_Row]:
    newest = await read_newest(db, heads)
    times: dict[Any, datetime] = {}
    listed = [(head.log_id,) for head in heads if head.head_id is None]
    for binds in db.dialect.statements.list_batches("p_logs", listed):
        for row in await query(db, statements.read_last_entry_times, binds):
            times[row.log_id] = row.occurred_at
    contents = await log_contents(db, heads) if sort in BY_SIZE else {}
    return [
        _Row(head, newest.get(head.log_id), times.get(head.log_id), None, contents.get(head.log_id))
        for head in heads
        if sort not in BY_SIZE or head.log_id in contents
    ]


async def _filter(
    summaries: ThreadSummaries,
    wanted: ThreadFilter,
    rows: Sequence[_Row],
    *,
    phase: str,
    is_whole: bool,
) -> list[_Row]:
    """Return the rows of a window that are wanted."""
    found = [row for row in rows if wanted.admits(row)]
    if wanted.about and phase == _WINDOW:
        named = [row for row in found if wanted.is_in_id(row)]
        others = [row for row in found if not wanted.is_in_id(row)]
        await _add_summaries(summaries, others)
        others = [row for row in others if wanted.keeps_unread(row) or wanted.is_in_content(row)]
        found = [*named, *others] if is_whole else others  # the first phase had those with such ids
    if wanted.waiting:
        await _add_summaries(summaries, found)
        found = [row for row in found if wanted.keeps_unread(row) or _waits(row)]
    return found


def _waits(row: _Row) -> bool:
    return row.summary is not None and row.summary.asked is not None


async def _add_summaries(summaries: ThreadSummaries, rows: Sequence[_Row]) -> None:
    missing = [row for row in rows if row.summary is None]
    newest = {row.head.log_id: row.info for row in missing if row.info is not None}
    read = await summaries.read([row.head for row in missing], newest)
    for row in missing:
        row.summary = read[row.head.log_id]


async def _records(summaries: ThreadSummaries, rows: Sequence[_Row]) -> list[Record]:
    """Return threads with their contents and summaries, those that are still there."""
    db = summaries.db
    unknown = [row.head for row in rows if row.info is None and row.head.head_id is not None]
    newest = await read_newest(db, unknown)
    for row in rows:
        row.info = row.info or newest.get(row.head.log_id)
    await _add_summaries(summaries, rows)
    contents = await log_contents(db, [row.head for row in rows])
    return [
        thread_record(row.head, contents[row.head.log_id]) | row.summary.as_record()
        for row in rows
        if row.head.log_id in contents and row.summary is not None
    ]


def _sort(rows: Sequence[_Row], sort: str, descending: bool) -> list[tuple[list[Any], _Row]]:
    """Return rows, each with its place in the order; those without a value come last."""
    value = {**BY_HEAD, **BY_SIZE, **BY_SUMMARY}[sort]
    keyed = [([value(row), row.head.thread_id, row.head.namespace], row) for row in rows]
    keyed.sort(key=lambda one: one[0][1:])
    known = [one for one in keyed if one[0][0] is not None]
    known.sort(key=lambda one: one[0][0], reverse=descending)
    return [*known, *(one for one in keyed if one[0][0] is None)]


def _is_behind(key: list[Any], last: list[Any], descending: bool) -> bool:
    """Return whether a row comes behind another one, of which *last* is the place."""
    value, *name = key
    before, *name_before = last
    try:
        if value == before:
            return bool(name > name_before)
        if value is None or before is None:
            return value is None
        return bool(value < before if descending else value > before)
    except TypeError:
        raise InvalidArgument("this cursor is not one that this list gave out") from None


def _is_too_old(page: HeadPage, wanted: ThreadFilter) -> bool:
    """Return whether all threads behind a window were written before what is wanted happened."""
    return bool(
        wanted.since is not None
        and page.heads
        and page.heads[-1].updated_at.astimezone(UTC) < wanted.since
    )

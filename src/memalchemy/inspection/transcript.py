"""Transcripts: a state or a log as the messages that it consists of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from memalchemy.contracts import CheckpointInfo
from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.inspection._log_heads import find_head, log_of
from memalchemy.inspection._records import Record
from memalchemy.inspection.entries import entry_log_of, read_tail, require_entry
from memalchemy.inspection.messages import message, rest_of, whole_texts
from memalchemy.inspection.states import LoadedState, States
from memalchemy.inspection.tree import tree
from memalchemy.inspection.writes import interrupts_of_state
from memalchemy.log import Log


async def read_transcript(
    states: States,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    at: str | None = None,
    before: int | None = None,
    limit: int = 100,
    whole: bool = False,
) -> Record:
    """Return a state's messages, or a log's entries as messages: those *before* an index.

    The messages of a state are looked for in whatever form a framework keeps it. A log of
    entries, or a thread whose newest state has no messages, is shown entry by entry; the index
    of an entry is its position. With *whole* no text is cut, and arguments and values are plain
    values in the place of trees.
    """
    log = log_of(states.db, thread_id, namespace)
    info = await states.checkpoint(log, at)
    if info is None and at is not None:
        raise NotFound(f"thread {thread_id!r} has no checkpoint {at!r}")
    if info is not None:
        loaded = await states.load(log, info)
        if loaded.found is not None:
            return await asyncio.to_thread(_transcript_of_state, loaded, info, before, limit, whole)
    if at is None:
        logged = await _transcript_of_log(states.db, log, before, limit, whole)
        if logged is not None:
            if info is not None:
                logged["rest"] = await _rest_of_state(states, log, info)
            return logged
    if info is None:
        await find_head(states.db, log)
    rest = None if info is None else await _rest_of_state(states, log, info)
    return {
        "source": "none",
        "at": None if info is None else info.checkpoint_id,
        "total": 0,
        "first": 0,
        "messages": [],
        "rest": rest,
        "path": None,
        "previous": None,
    }


async def read_added_messages(
    states: States,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    at: str,
    limit: int = 100,
    whole: bool = False,
) -> Record:
    """Return the messages that a step added: those after the common beginning with its parent.

    Of more than *limit* they are the newest. For a step whose parent was deleted it is the last
    message alone. ``total`` counts all messages of the state, and ``waiting`` has the interrupts
    that the state itself holds; those of LangGraph are pending writes.
    """
    log = log_of(states.db, thread_id, namespace)
    info = await states.require_checkpoint(log, at)
    loaded = await states.load(log, info)
    common = 0
    if info.parent_id is not None:
        parent = await states.checkpoint(log, info.parent_id)
        before = None if parent is None else await states.load(log, parent)
        common = await asyncio.to_thread(_common_beginning, loaded, before)
    return await asyncio.to_thread(_page_of_added_messages, loaded, info, common, limit, whole)


async def read_text(
    states: States,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    index: int,
    at: str | None = None,
) -> Record:
    """Return the uncut texts of one message of a transcript."""
    log = log_of(states.db, thread_id, namespace)
    info = await states.checkpoint(log, at)
    if info is not None:
        loaded = await states.load(log, info)
        if loaded.found is not None:
            messages = loaded.found[1]
            if not 0 <= index < len(messages):
                raise NotFound("there is no message of this index")
            return {"index": index} | whole_texts(messages[index])
    entry = await require_entry(states.db, log, index)
    return {"index": index} | whole_texts(entry.value)


def _transcript_of_state(
    loaded: LoadedState, info: CheckpointInfo, before: int | None, limit: int, whole: bool
) -> Record:
    assert loaded.found is not None
    path, messages = loaded.found
    end = len(messages) if before is None else max(0, min(before, len(messages)))
    first = max(0, end - limit)
    return {
        "source": "state",
        "at": info.checkpoint_id,
        "total": len(messages),
        "first": first,
        "messages": [message(at, messages[at], whole=whole) for at in range(first, end)],
        "rest": _tree_or_none(rest_of(loaded.state, path, info.namespace)),
        "path": "".join(f"/{_escape_step(step)}" for step in path),
        "previous": first or None,
    }


def _common_beginning(loaded: LoadedState, parent: LoadedState | None) -> int:
    """Return the number of messages that a state begins with as its parent's does.

    Of a parent that was deleted, all but the last message count as known.
    """
    messages = [] if loaded.found is None else loaded.found[1]
    if parent is None:
        return max(len(messages) - 1, 0)
    known = [] if parent.found is None else parent.found[1]
    pairs = zip(messages, known, strict=False)
    differs = (at for at, (one, other) in enumerate(pairs) if one != other)
    return next(differs, min(len(messages), len(known)))


def _page_of_added_messages(
    loaded: LoadedState, info: CheckpointInfo, common: int, limit: int, whole: bool
) -> Record:
    messages = [] if loaded.found is None else loaded.found[1]
    first = max(common, len(messages) - limit)
    return {
        "at": info.checkpoint_id,
        "parent_id": info.parent_id,
        "total": len(messages),
        "added": len(messages) - common,
        "first": first,
        "messages": [message(at, messages[at], whole=whole) for at in range(first, len(messages))],
        "waiting": [
            one if whole else one | {"value": tree(one["value"])}
            for one in interrupts_of_state(loaded.state, info.namespace)
        ],
    }


async def _transcript_of_log(
    db: Database, log: Log, before: int | None, limit: int, whole: bool
) -> Record | None:
    found = await read_tail(db, log, limit + 1, before)
    if not found and before is None:
        return None
    total = await entry_log_of(db, log).count(log.thread_id)
    shown = found[-limit:]

    def messages() -> list[Record]:
        return [message(one.position, one.value, one.occurred_at, whole=whole) for one in shown]

    return {
        "source": "log",
        "at": None,
        "total": total,
        "first": shown[0].position if shown else 0,
        "messages": await asyncio.to_thread(messages),
        "rest": None,
        "path": None,
        "previous": shown[0].position if len(found) > limit else None,
    }


async def _rest_of_state(states: States, log: Log, info: CheckpointInfo) -> Record | None:
    loaded = await states.load(log, info)
    return await asyncio.to_thread(lambda: _tree_or_none(rest_of(loaded.state, (), info.namespace)))


def _escape_step(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _tree_or_none(value: Any) -> Record | None:
    return None if value is None else tree(value)

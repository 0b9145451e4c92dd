"""Transcripts: a state or a log as the messages that it consists of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from memalchemy._json_types import are_equal, to_json_types
from memalchemy.codec.search_text import joined_texts
from memalchemy.codec.snippets import found_words
from memalchemy.codec.tokens import Term
from memalchemy.contracts import CheckpointInfo, check_query
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
from memalchemy.search.word_query import WordQuery
from memalchemy.stored_messages import unwrapped

FOUND, WORDS = 200, 50
"""Messages and words that a search within a transcript names, at most."""


async def read_transcript(
    states: States,
    thread_id: str,
    namespace: Iterable[str] = (),
    *,
    at: str | None = None,
    before: int | None = None,
    after: int | None = None,
    around: int | None = None,
    find: str = "",
    limit: int = 100,
    whole: bool = False,
) -> Record:
    """Return a state's messages, or a log's entries as messages; see `Inspector.transcript`."""
    log = log_of(states.db, thread_id, namespace)
    page = _Page(before, after, around, limit, _terms_of(states.db, find), whole)
    info = await states.checkpoint(log, at)
    if info is None and at is not None:
        raise NotFound(f"thread {thread_id!r} has no checkpoint {at!r}")
    if info is not None:
        loaded = await states.load(log, info)
        if loaded.found is not None:
            return await asyncio.to_thread(_transcript_of_state, loaded, info, page)
    if at is None:
        logged = await _transcript_of_log(states.db, log, page)
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
        "later": None,
        "found": [],
        "words": [],
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


STEPS_AT_ONCE = 10
"""Steps whose states are in memory together, each with that of its parent."""


async def read_added_by_steps(
    states: States, infos: Sequence[CheckpointInfo], *, limit: int = 100, whole: bool = False
) -> dict[str, Record]:
    """Return what `read_added_messages` returns for each of some steps of one log, by their ids.

    Their states are read together. Those that are gone are left out.
    """
    found: dict[str, Record] = {}
    loaded: dict[str, LoadedState] = {}
    for first in range(0, len(infos), STEPS_AT_ONCE):
        some = infos[first : first + STEPS_AT_ONCE]
        log = log_of(states.db, some[0].thread_id, some[0].namespace)
        ids = [one for info in some for one in (info.parent_id, info.checkpoint_id) if one]
        kept = {name: loaded[name] for name in ids if name in loaded}
        missing = dict.fromkeys(name for name in ids if name not in kept)
        loaded = kept | await states.load_listed(log, missing)

        page = partial(_pages_of_added_messages, some, loaded, limit, whole)
        found |= await asyncio.to_thread(page)
    return found


def _pages_of_added_messages(
    infos: Sequence[CheckpointInfo], loaded: Mapping[str, LoadedState], limit: int, whole: bool
) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for info in infos:
        state = loaded.get(info.checkpoint_id)
        if state is not None:
            common = 0
            if info.parent_id is not None:
                common = _common_beginning(state, loaded.get(info.parent_id))
            found[info.checkpoint_id] = _page_of_added_messages(state, info, common, limit, whole)
    return found


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


@dataclass(frozen=True, slots=True)
class _Page:
    """The messages that are asked for, and the terms that are looked for in them."""

    before: int | None
    after: int | None
    around: int | None
    limit: int
    terms: Sequence[Term]
    whole: bool

    def bounds(self, total: int, found: Sequence[int]) -> tuple[int, int]:
        """Return where the page of a list of *total* messages begins and ends."""
        around = self.around
        if around is None and found and self.before is None and self.after is None:
            around = found[-1]
        if self.after is not None:
            first = min(self.after + 1, total)
            return first, min(first + self.limit, total)
        end = total if self.before is None else min(self.before, total)
        if around is not None:
            end = min(max(around + self.limit // 2, self.limit), total)
        return max(0, end - self.limit), end


def _terms_of(db: Database, words: str) -> Sequence[Term]:
    if not words:
        return ()
    return WordQuery.of(check_query(words), "any", first_words=db.has_first_words).shown_terms()


def _find(
    messages: Iterable[tuple[int, Any]], terms: Sequence[Term]
) -> tuple[list[int], list[str]]:
    """Return the indexes of the messages with the most of *terms*, and the words found in all."""
    words: dict[str, None] = {}
    most, found = 1, list[int]()
    for index, value in messages if terms else ():
        here = found_words(joined_texts(unwrapped(value)), terms)
        words.update(dict.fromkeys(here))
        number = len({word.casefold() for word in here})
        if number > most:
            most, found = number, []
        if here and number == most:
            found.append(index)
    return found[-FOUND:], list(words)[:WORDS]


def _transcript_of_state(loaded: LoadedState, info: CheckpointInfo, page: _Page) -> Record:
    assert loaded.found is not None
    path, messages = loaded.found
    found, words = _find(enumerate(messages), page.terms)
    first, end = page.bounds(len(messages), found)
    return {
        "source": "state",
        "at": info.checkpoint_id,
        "total": len(messages),
        "first": first,
        "messages": [message(at, messages[at], whole=page.whole) for at in range(first, end)],
        "rest": _tree_or_none(rest_of(loaded.state, path, info.namespace)),
        "path": "".join(f"/{_escape_step(step)}" for step in path),
        "previous": first or None,
        "later": end - 1 if end < len(messages) else None,
        "found": found,
        "words": words,
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
    differs = (at for at, (one, other) in enumerate(pairs) if not are_equal(one, other))
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
            one | {"value": to_json_types(one["value"]) if whole else tree(one["value"])}
            for one in interrupts_of_state(loaded.state, info.namespace)
        ],
    }


async def _transcript_of_log(db: Database, log: Log, page: _Page) -> Record | None:
    entries, limit = entry_log_of(db, log), page.limit
    if page.after is not None:
        found = await entries.range(log.thread_id, after=page.after, limit=limit + 1)
        shown, more_before, more_behind = found[:limit], True, len(found) > limit
    else:
        before = page.before
        if page.around is not None:
            behind = await entries.range(log.thread_id, after=page.around, limit=limit // 2 + 1)
            before = behind[limit // 2].position if len(behind) > limit // 2 else None
        found = await read_tail(db, log, limit + 1, before)
        shown, more_before = found[-limit:], len(found) > limit
        more_behind = before is not None
    if not found and page.before is None and page.after is None:
        return None
    total = await entries.count(log.thread_id)

    def records() -> tuple[list[Record], list[int], list[str]]:
        hits, words = _find(((one.position, one.value) for one in shown), page.terms)
        made = [
            message(one.position, one.value, one.occurred_at, whole=page.whole) for one in shown
        ]
        return made, hits, words

    messages, hits, words = await asyncio.to_thread(records)
    return {
        "source": "log",
        "at": None,
        "total": total,
        "first": shown[0].position if shown else 0,
        "messages": messages,
        "rest": None,
        "path": None,
        "previous": shown[0].position if more_before and shown else None,
        "later": shown[-1].position if more_behind and shown else None,
        "found": hits if page.around is None else [page.around],
        "words": words,
    }


async def _rest_of_state(states: States, log: Log, info: CheckpointInfo) -> Record | None:
    loaded = await states.load(log, info)
    return await asyncio.to_thread(lambda: _tree_or_none(rest_of(loaded.state, (), info.namespace)))


def _escape_step(step: str | int) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


def _tree_or_none(value: Any) -> Record | None:
    return None if value is None else tree(value)

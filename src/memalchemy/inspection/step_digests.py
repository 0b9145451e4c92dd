"""Digests of steps: what each one did, from its state and that of its parent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from memalchemy._cache import BoundedCache
from memalchemy._json_types import spell_value
from memalchemy.adapters import views_of
from memalchemy.checkpoints import listing
from memalchemy.contracts import CheckpointInfo
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted
from memalchemy.inspection._records import Record, time
from memalchemy.inspection.messages import stored_message
from memalchemy.inspection.states import States, checkpointer_of
from memalchemy.inspection.tree import preview
from memalchemy.log import Log
from memalchemy.log.scan import run_query
from memalchemy.stored_messages import messages_of, unwrapped
from memalchemy.usage import Usage, response_id, usages_of_step

BYTES = 32 * 1024 * 1024
"""Bytes of the states that are read for the digests of one page."""
LINEAGE = 200
"""Newest steps of a thread by which the times of messages are told."""
KEPT = 4_000
"""Digests that are kept."""
TEXT = 120
"""Characters of what a step said."""
NODE_KEYS = ("node",)
"""Keys of a step's metadata that name the node which ran."""


Place = tuple[bytes, int]
"""The hash of a message of a state, and the number that tells it from equal ones before it."""


@dataclass(frozen=True, slots=True)
class _Content:
    """The parts of a state that the digests of its step and of its children need."""

    marks: tuple[bytes, ...]
    """A hash of each of its messages."""
    messages: Sequence[Any]
    bookkeeping: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StepDigest:
    """A summary of what a step did.

    Attributes:
        node: the node of the graph that ran, or several with commas.
        added: the number of messages that are not in its parent.
        role, text: of the last of these.
        tools: the names of the tools that were called.
        usage: what its metadata says that it took, and for the rest its answers.
        answers: the places of the added messages that state a usage.
        marks: a hash of each message of its state.
    """

    node: str | None
    messages: int
    added: int
    role: str | None
    text: str | None
    tools: tuple[str, ...]
    errors: int
    usage: Usage
    answers: frozenset[Place]
    marks: tuple[bytes, ...]

    def as_record(self) -> Record:
        """Return it as plain JSON."""
        return {
            "node": self.node,
            "messages": self.messages,
            "added": self.added,
            "role": self.role,
            "text": self.text,
            "tools": list(self.tools),
            "errors": self.errors,
            **self.usage.as_metadata(),
        }


class StepDigests:
    """Reads the digests of steps; those that were read last are kept."""

    def __init__(self, states: States) -> None:
        self._db = states.db
        self._kept: BoundedCache[Any, StepDigest] = BoundedCache(KEPT)

    async def read(
        self, log: Log, infos: Sequence[CheckpointInfo], *, most: int | None = None
    ) -> tuple[dict[str, StepDigest], str | None]:
        """Return the digests of steps by their ids: of the first whose states are not too large.

        If the states cannot be read, the second value names the error; the steps themselves can.

        Args:
            most: the bytes of the states that are read, by default `BYTES`.
        """
        found: dict[str, StepDigest] = {}
        problem: str | None = None
        wanted: list[CheckpointInfo] = []
        budget = BYTES if most is None else most
        for info in infos:
            if (known := self._kept.get(_key(log, info))) is not None:
                found[info.checkpoint_id] = known
                continue
            budget -= info.raw_size
            if budget < 0:
                break
            wanted.append(info)
        if wanted:
            try:
                made = await self._make(log, wanted)
            except (KeyMissing, NotEncrypted, Corrupt) as error:
                made, problem = {}, type(error).__name__
            for info in wanted:
                if (digest := made.get(info.checkpoint_id)) is not None:
                    self._kept.put(_key(log, info), digest)
                    found[info.checkpoint_id] = digest
        return found, problem

    async def _make(self, log: Log, infos: Sequence[CheckpointInfo]) -> dict[str, StepDigest]:
        """Return the digests of steps; their states are read once, from the oldest on."""
        ids = [info.checkpoint_id for info in infos]
        ids += [info.parent_id for info in infos if info.parent_id is not None]
        contents: dict[str, _Content] = {}
        order = list(dict.fromkeys(reversed(ids)))
        snapshots = checkpointer_of(self._db, log).snapshots(log.thread_id, order)
        namespace = infos[0].namespace
        async for one in snapshots:
            contents[one.checkpoint_id] = await asyncio.to_thread(_content, one.state, namespace)

        def digests() -> dict[str, StepDigest]:
            return {
                info.checkpoint_id: _digest(
                    info, contents[info.checkpoint_id], _of(contents, info.parent_id)
                )
                for info in infos
                if info.checkpoint_id in contents
            }

        return await asyncio.to_thread(digests)

    async def list_origins(
        self, log: Log, info: CheckpointInfo
    ) -> tuple[list[Record | None], str | None]:
        """Return for each message of a step's state the step with which it came, if that is known.

        The second value is that of `read`. The step is the first on the line that has
        the message, of the newest `LINEAGE` steps of the thread.
        """
        newest = listing.list_checkpoints(self._db.dialect, before=False)
        rows = await run_query(self._db, newest, log.binds() | {"p_limit": LINEAGE})
        by_id = {one.checkpoint_id: one for one in (listing.info(self._db, row) for row in rows)}
        line: list[CheckpointInfo] = []
        current: CheckpointInfo | None = by_id.pop(info.checkpoint_id, info)
        while current is not None:
            line.append(current)
            current = by_id.pop(current.parent_id, None) if current.parent_id else None
        digests, problem = await self.read(log, line)
        known = [(one, digests[one.checkpoint_id]) for one in line if one.checkpoint_id in digests]
        if not known or known[0][0].checkpoint_id != info.checkpoint_id:
            return [], problem
        return await asyncio.to_thread(_origins, known), problem


def _of(contents: Mapping[str, _Content], step: str | None) -> _Content | None:
    return None if step is None else contents.get(step)


def _origins(line: Sequence[tuple[CheckpointInfo, StepDigest]]) -> list[Record | None]:
    """Return the step with which each message of the first of *line* came, the newest first."""
    places = [numbered(digest.marks) for _, digest in line]
    oldest_is_first = line[-1][0].parent_id is None
    found: list[Record | None] = []
    for place in places[0]:
        at = 0
        while at + 1 < len(places) and place in places[at + 1]:
            at += 1
        info, digest = line[at]
        if at + 1 == len(line) and not oldest_is_first:
            found.append(None)  # it came with this step or with an earlier one
            continue
        found.append(
            {
                "checkpoint_id": info.checkpoint_id,
                "occurred_at": time(info.occurred_at),
                "node": digest.node,
            }
        )
    return found


def numbered(marks: Sequence[bytes]) -> dict[Place, None]:
    """Return marks with the numbers that tell equal ones apart, in their order."""
    counts: dict[bytes, int] = {}
    places: dict[Place, None] = {}
    for mark in marks:
        counts[mark] = counts.get(mark, 0) + 1
        places[mark, counts[mark]] = None
    return places


def _key(log: Log, info: CheckpointInfo) -> tuple[Any, ...]:
    return log, info.checkpoint_id, info.seq, info.created_at


def _content(state: Any, namespace: Sequence[str]) -> _Content:
    found = messages_of(state, namespace)
    messages = [] if found is None else found[1]
    hidden = tuple(sign for view in views_of(namespace) for sign in view.bookkeeping)
    own = state.items() if isinstance(state, dict) else ()
    return _Content(
        marks_of(messages),
        messages,
        {name: unwrapped(one) for name, one in own if hidden and str(name).startswith(hidden)},
    )


def marks_of(messages: Sequence[Any]) -> tuple[bytes, ...]:
    """Return a hash of each message."""
    return tuple(map(_mark, messages))


def _mark(value: Any) -> bytes:
    return blake2b(spell_value(value), digest_size=8).digest()


def _digest(info: CheckpointInfo, content: _Content, parent: _Content | None) -> StepDigest:
    places = list(numbered(content.marks))
    known = set() if parent is None else set(numbered(parent.marks))
    if parent is None and info.parent_id is not None:  # deleted: all but the last are known
        known = set(places[:-1])
    new = [at for at, place in enumerate(places) if place not in known]
    records = [stored_message(at, content.messages[at]) for at in new]
    answered = [at for at, one in zip(new, records, strict=True) if one["usage"] is not None]
    usages: dict[Any, Usage] = {}
    for at, one in zip(new, records, strict=True):
        if one["usage"] is not None:
            answer = response_id(unwrapped(content.messages[at])) or at
            usages.setdefault(answer, Usage(**one["usage"]))
    counted = usages_of_step(info.metadata, None, [(None, one) for one in usages.values()])
    last = records[-1] if records else None
    calls = [call["name"] or "tool" for one in records for call in one["calls"]]
    results = [result for one in records for result in one["results"]]
    text = None
    if last is not None:
        text = last["text"] or last["thought"] or next((one["text"] for one in results[::-1]), "")
    return StepDigest(
        node=_node(info, content, parent),
        messages=len(content.messages),
        added=len(new),
        role=None if last is None else last["role"],
        text=preview(text, TEXT) if text else None,
        tools=tuple(dict.fromkeys(calls)),
        errors=sum(one["error"] for one in results),
        usage=sum((one for _, one in counted), Usage()),
        answers=frozenset(places[at] for at in answered),
        marks=content.marks,
    )


def _node(info: CheckpointInfo, content: _Content, parent: _Content | None) -> str | None:
    for key in NODE_KEYS:
        if isinstance(found := info.metadata.get(key), str) and found:
            return found
    if parent is None and info.parent_id is not None:
        return None
    before = {} if parent is None else parent.bookkeeping
    for view in views_of(info.namespace):
        if names := view.nodes(content.bookkeeping, before):
            return ", ".join(names)
    return None

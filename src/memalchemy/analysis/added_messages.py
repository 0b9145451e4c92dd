"""The messages that each state of a log adds, so that a message counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from memalchemy._json_types import are_equal, spell_value
from memalchemy.adapters import views_of
from memalchemy.contracts import CheckpointInfo, Snapshot
from memalchemy.messages import read
from memalchemy.stored_messages import (
    is_empty,
    merge_writes,
    message_record,
    messages_of,
    resolved,
    unwrapped,
)

Digests = Counter[bytes]
"""Messages by their digests, each with a number of times."""


class AddedMessage(NamedTuple):
    """A message that a step adds, `unwrapped`."""

    position: int
    """Its place in the state, or that of the entry in its log."""
    value: Any
    replaces: bool = False
    """The state before held another message of the same id."""


@dataclass
class _Held:
    """The messages of a state, held until the states that continue it were read."""

    messages: Sequence[Any] = ()
    digests: list[bytes] = field(default_factory=list)
    seen: Digests = field(default_factory=Digests)
    """The messages of the state and of those before it, each as often as one of these holds it."""
    ids: frozenset[str] = frozenset()
    """The ids of messages of the state and of those before it."""
    given: Digests = field(default_factory=Digests)
    """The messages that the run of this state was given, by digests of what they say."""
    channels: dict[str, Any] = field(default_factory=dict)
    """Values that the state's framework keeps in the writes of steps and not in states."""


class AddedMessages:
    """Reader of the states of one log, from its first to its last.

    A message is new in a state if neither the state that it continues nor one before that holds it
    as often. A state whose parent is gone, or that has none, continues the one before it. What is
    held is of the states that others still to be read continue, and of the last one. A message that
    a run was given counts there, and not when the framework has made one of its own of it.

    Args:
        infos: the checkpoints that will be read.
        known: messages that are not new in any state, each as often as it is known.
    """

    def __init__(self, infos: Iterable[CheckpointInfo], known: Digests | None = None) -> None:
        listed = list(infos)
        self._known = Digests() if known is None else known
        self.found: Digests = Digests()
        """The messages of all states read so far, each as often as one of them holds it."""
        ids = {info.checkpoint_id for info in listed}
        self._children = Counter(info.parent_id for info in listed if info.parent_id in ids)
        self._channels = {
            name
            for info in listed
            for view in views_of(info.namespace)
            for name in view.channels_of_writes(info.metadata)
        }
        self._held: dict[str, _Held] = {}
        self._last = _Held()

    def read(self, info: CheckpointInfo, snapshot: Snapshot) -> list[AddedMessage]:
        """Return the messages that a state adds."""
        before = self._last if info.parent_id is None else self._held.get(info.parent_id)
        before = self._last if before is None else before
        state, channels = _with_channels_of_writes(self._channels, snapshot.state, before)
        found = messages_of(state, info.namespace)
        path, messages = ((), []) if found is None else found
        digests: list[bytes] = []
        added: list[AddedMessage] = []
        counts = Digests()
        unclaimed = before.given.copy()
        for at, message in enumerate(messages):
            given = None
            if at < len(before.messages) and are_equal(message, before.messages[at]):
                digest = before.digests[at]
            else:
                given = unwrapped(message)
                digest = _digest(given)
            digests.append(digest)
            counts[digest] += 1
            if counts[digest] <= before.seen[digest]:
                continue
            self.found[digest] = max(self.found[digest], counts[digest])
            if counts[digest] <= self._known[digest]:
                continue
            given = unwrapped(message) if given is None else given
            if unclaimed and unclaimed[said := _digest(message_record(given))]:
                unclaimed[said] -= 1
            else:
                added.append(AddedMessage(at, given, _id_of(given) in before.ids))
        held = _Held(messages, digests, counts, channels=channels)
        held.ids = before.ids | {id_ for one in added if (id_ := _id_of(one.value)) is not None}
        if path and any(path[0] in view.inputs for view in views_of(info.namespace)):
            held.given = Digests(_digest(message_record(unwrapped(one))) for one in messages)
        self._hold(info, before, held)
        for name in channels:
            channels[name] = merge_writes(
                [
                    channels[name],
                    *(resolved(write.value) for write in snapshot.writes if write.channel == name),
                ]
            )
        return added

    def _hold(self, info: CheckpointInfo, before: _Held, held: _Held) -> None:
        parent = info.parent_id
        if parent in self._held:
            self._children[parent] -= 1
            if not self._children[parent]:
                del self._held[parent]
        held.seen |= before.seen
        self._last = held
        if self._children[info.checkpoint_id]:
            self._held[info.checkpoint_id] = held


def _id_of(given: Any) -> str | None:
    found = read(given, "id")
    return found if isinstance(found, str) and found else None


def _with_channels_of_writes(
    declared: Iterable[str], state: Any, before: _Held
) -> tuple[Any, dict[str, Any]]:
    """Return a state with the channels that earlier steps' writes make up, and their values."""
    channels: dict[str, Any] = {}
    made: dict[str, Any] = {}
    for name in declared if isinstance(state, dict) else ():
        own = state.get(name)
        if own is not None and not is_empty(own):
            channels[name] = resolved(own)
            continue
        channels[name] = before.channels.get(name, [])
        if own is not None:
            made[name] = channels[name]
    return (state | made if made else state), channels


def _digest(given: Any) -> bytes:
    option = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    try:
        spelt = orjson.dumps(given, default=repr, option=option)
    except (TypeError, orjson.JSONEncodeError, RecursionError):
        spelt = spell_value(given)
    return blake2b(spelt, digest_size=12).digest()

"""LangGraph's records as states of memalchemy's, and back. Pure: no I/O.

A state has a value for each channel that has one, as bytes of LangGraph's serialiser, and two of
its own: the rest of the checkpoint, and the metadata as it was given.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from memalchemy.contracts import CheckpointInfo, Packed
from memalchemy.errors import MemalchemyError
from memalchemy.integrations.langgraph import messages
from memalchemy.keys import check_name
from memalchemy.metadata import check_metadata

ROOT = "langgraph"
NAMESPACES = 256
"""Checkpointers of so many checkpoint namespaces are held."""

ENVELOPE, METADATA = "~checkpoint", "~metadata"
EMPTY = Packed("memalchemy:empty", b"")
"""The value of a channel that has a version and none. What it held before stays next to what is
made of it, which is so stored in few bytes.
"""
PARTIAL = "~partial"
"""In the metadata that is filtered on: some of the real one is not in it."""

_DELTA_COUNTERS = "counters_since_delta_snapshot"
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)
_ELSEWHERE = frozenset({"id", "channel_values"})
"""What of a checkpoint is not in the envelope: the name of the row, and the other values."""
_PLAIN = (str, int, bool, type(None))


# --- Places --------------------------------------------------------------------------------------


def place_of(config: RunnableConfig) -> tuple[str, str]:
    """The thread and the checkpoint namespace that *config* names."""
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or ""


def config_of(thread_id: str, checkpoint_ns: str, checkpoint_id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": checkpoint_ns,
            "checkpoint_id": checkpoint_id,
        }
    }


def namespace_of(checkpoint_ns: str) -> tuple[str, ...]:
    """The namespace of a graph's, or a subgraph's, log."""
    return (ROOT, *checkpoint_ns.split("|")) if checkpoint_ns else (ROOT,)


def checkpoint_ns_of(namespace: Sequence[str]) -> str:
    """The inverse of `namespace_of`."""
    return "|".join(namespace[1:])


def by_log(
    batch: Iterable[CheckpointInfo],
) -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    """Runs of checkpoints of one log: its namespace, its thread, and their ids."""
    for (place, thread_id), run in groupby(batch, key=lambda one: (one.namespace, one.thread_id)):
        yield place, thread_id, [info.checkpoint_id for info in run]


def made_at(checkpoint_id: str) -> datetime | None:
    """When a checkpoint came to be, if its id says so."""
    try:
        found = UUID(checkpoint_id)
    except ValueError:
        return None
    if found.version != 6:
        return None
    ticks = (found.time_low << 28) | (found.time_mid << 12) | (found.time_hi_version & 0x0FFF)
    return _EPOCH + timedelta(microseconds=ticks // 10)


def happened_at(checkpoint: Checkpoint) -> datetime | None:
    """When LangGraph says that it made a checkpoint, if that can be read; without a zone, UTC."""
    try:
        told = datetime.fromisoformat(checkpoint["ts"])
    except (KeyError, TypeError, ValueError):
        return None
    aware = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC)
    except OverflowError:  # in the first or the last hours of the calendar
        return None


def path_from(parents: Mapping[str, str | None], start: str | None) -> list[str]:
    """A checkpoint, its parent, and so on, as far as they are there."""
    path: dict[str, None] = {}
    while start is not None and start in parents and start not in path:
        path[start] = None
        start = parents[start]
    return list(path)


# --- States --------------------------------------------------------------------------------------


def key_of(channel: str) -> str:
    """The key of a channel in a state."""
    return "~" + channel if channel.startswith("~") else channel


def has(state: Mapping[str, Any], channel: str) -> bool:
    """Whether a state holds a value of a channel."""
    return bool(state.get(key_of(channel), EMPTY) != EMPTY)


def _channels(state: Mapping[str, Any]) -> Iterator[str]:
    """The channels that a state has a key of: the inverse of `key_of`."""
    for key in state:
        if key not in (ENVELOPE, METADATA):
            yield key.removeprefix("~")


def dumps(serde: SerializerProtocol, value: Any) -> Packed:
    return Packed(*messages.dumps(serde, value))


def loads(serde: SerializerProtocol, value: Packed) -> Any:
    return messages.loads(serde, value.format, value.data)


def to_state(
    serde: SerializerProtocol,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    kept: Mapping[str, Packed],
) -> dict[str, Packed]:
    """The state of a checkpoint; *kept* are channels that are as they were."""
    given = checkpoint["channel_values"]
    envelope = {name: value for name, value in checkpoint.items() if name not in _ELSEWHERE}
    state = {ENVELOPE: dumps(serde, envelope), METADATA: dumps(serde, metadata)}
    # A value of a channel that has no version is kept, as LangGraph's saver for SQLite keeps it.
    for channel in sorted({*checkpoint["channel_versions"], *given}):
        if channel in kept:
            state[key_of(channel)] = kept[channel]
        elif channel in given:
            state[key_of(channel)] = dumps(serde, given[channel])
        else:
            state[key_of(channel)] = EMPTY
    return state


def from_state(
    serde: SerializerProtocol, checkpoint_id: str, state: Mapping[str, Any]
) -> tuple[Checkpoint, CheckpointMetadata]:
    """The inverse of `to_state`: a checkpoint and its metadata."""
    checkpoint = loads(serde, state[ENVELOPE]) | {"id": checkpoint_id}
    checkpoint["channel_values"] = {
        channel: loads(serde, state[key_of(channel)])
        for channel in dict.fromkeys([*checkpoint["channel_versions"], *_channels(state)])
        if has(state, channel)
    }
    return cast(Checkpoint, checkpoint), cast(CheckpointMetadata, loads(serde, state[METADATA]))


def kept(
    serde: SerializerProtocol,
    parent: Mapping[str, Any],
    versions: Mapping[str, Any],
    unchanged: Iterable[str],
) -> dict[str, Packed]:
    """Return the bytes of *unchanged* channels that the state *parent* has at the same version.

    *versions* are those of the checkpoint that is saved.
    """
    if ENVELOPE not in parent:
        return {}
    before = loads(serde, parent[ENVELOPE])["channel_versions"]
    return {
        channel: parent[key_of(channel)]
        for channel in unchanged
        if channel in before and before[channel] == versions[channel] and key_of(channel) in parent
    }


def next_version(current: str | int | float | None) -> str:
    """A version above *current*. Its random end tells it from that of another branch."""
    number = 0
    if current is not None:
        number = int(str(current).split(".")[0])
    return f"{number + 1:032}.{secrets.token_hex(8)}"


# --- Metadata ------------------------------------------------------------------------------------


def is_id(text: str) -> bool:
    """Whether *text* can stand in a column of ids."""
    try:
        check_name(text, "run_id")
    except MemalchemyError:
        return False
    return True


def filterable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What of *metadata* every database keeps as it is."""
    found: dict[str, Any] = {}
    for name, value in metadata.items():
        try:
            found |= check_metadata({name: value})
        except MemalchemyError:
            found[PARTIAL] = True
    try:
        return check_metadata(found)
    except MemalchemyError:  # together they are too large
        return {PARTIAL: True}


def may_match(known: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether a checkpoint with the filterable metadata *known* may have all that is *wanted*."""
    for name, value in (wanted or {}).items():
        found = known.get(name)
        if name not in known and PARTIAL in known:
            continue
        if isinstance(found, _PLAIN) and found != value:
            return False
    return True


def matches(
    serde: SerializerProtocol, state: Mapping[str, Any], wanted: Mapping[str, Any] | None
) -> bool:
    """Whether the metadata in *state* has all that is *wanted*; ``None`` is what is not there."""
    if not wanted:
        return True
    metadata = loads(serde, state[METADATA])
    return all(value == metadata.get(name) for name, value in wanted.items())


def rests_on_parent(metadata: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether a channel of a state is rebuilt from what earlier checkpoints hold.

    LangGraph counts, for each `DeltaChannel`, the steps since its value was last stored. A channel
    that was never written has no version, so no key in the state, and nothing to rebuild.
    """
    counters = metadata.get(_DELTA_COUNTERS)
    if not isinstance(counters, Mapping):
        return False
    return any(state.get(key_of(str(channel))) == EMPTY for channel in counters)


def root_of_call(checkpoint_ns: str, metadata: Mapping[str, Any]) -> str | None:
    """The checkpoint of the root graph that a call of a subgraph began from; of a namespace that
    outlives its calls, ``None``.
    """
    parents = metadata.get("parents")
    if ":" not in checkpoint_ns or not isinstance(parents, Mapping):
        return None
    found = parents.get("")
    return found if isinstance(found, str) else None

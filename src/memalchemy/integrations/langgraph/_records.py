"""Conversion of LangGraph's records to states and metadata of memalchemy, and back.

A state has one entry for each channel with a value, in the bytes of LangGraph's serialiser, and two
more: the rest of the checkpoint, and the metadata as it was given. Nothing here does I/O.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from memalchemy._bounds import Colliding, Oversized
from memalchemy.codec import foreign_msgpack
from memalchemy.contracts import Packed
from memalchemy.errors import Corrupt, InvalidArgument, MemalchemyError, NotSerialisable, TooLarge
from memalchemy.integrations._stored_forms import StoredForm, not_of_the_form
from memalchemy.integrations.langgraph import _message_cache
from memalchemy.keys import check_name, check_namespace, encode_id
from memalchemy.metadata import check_metadata

ROOT = "langgraph"

ENVELOPE, METADATA, NAMESPACE = "~checkpoint", "~metadata", "~namespace"
"""Keys of a state beside those of channels. The last is there if the namespace of the log is a
digest: the name of the checkpoint namespace, in UTF-8. The filterable metadata has it, too, as ids
are spelt."""
EMPTY = Packed(foreign_msgpack.EMPTY, b"")
"""Value of a channel that has a version and no value. The channel's earlier value stays adjacent to
its later one in the log, which is then stored in few bytes.
"""
PARENTS = "parents"
"""Name in LangGraph's metadata of the checkpoints in whose steps a subgraph runs."""
PARTIAL = "~partial"
"""Key in the filterable metadata: some of the given metadata is missing there."""

_DIGEST = "|"
"""Beginning of a digest in a namespace: it separates the parts, so none has it."""
_DELTA_COUNTERS = "counters_since_delta_snapshot"
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)
_NOT_IN_ENVELOPE = frozenset({"id", "channel_values"})
_SCALARS = (str, int, bool, type(None))


# --- Configs, namespaces and ids -----------------------------------------------------------------


def thread_and_ns(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread and the checkpoint namespace that *config* names."""
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or ""


def config_of(thread_id: str, checkpoint_ns: str, checkpoint_id: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": checkpoint_ns,
            "checkpoint_id": checkpoint_id,
        }
    }


@lru_cache(maxsize=1024)
def namespace_of(checkpoint_ns: str) -> tuple[str, ...]:
    """Return the namespace of the log of a graph or a subgraph.

    It has the parts of the name. If the name is too long, it has as many as fit, and a digest of
    the whole, which begins with a character that no part can hold. A call's has a colon, as its
    name has.
    """
    parts = (ROOT, *checkpoint_ns.split("|")) if checkpoint_ns else (ROOT,)
    if _is_namespace(parts):
        return parts
    digest = sha256(checkpoint_ns.encode("utf-8", "surrogatepass")).hexdigest()
    last = f"{_DIGEST}{'call:' if ':' in checkpoint_ns else ''}{digest}"
    kept = len(parts) - 1
    while not _is_namespace((*parts[:kept], last)):
        kept -= 1
    return (*parts[:kept], last)


def _is_namespace(parts: tuple[str, ...]) -> bool:
    try:
        check_namespace(parts)
    except (TooLarge, InvalidArgument):
        return False
    return True


def checkpoint_ns_of(
    serde: SerializerProtocol, namespace: Sequence[str], state: Mapping[str, Any]
) -> str:
    """Return the checkpoint namespace of a log's namespace; *state* is one of the log."""
    if namespace[-1].startswith(_DIGEST):
        name: bytes = loads(serde, state[NAMESPACE])
        return name.decode("utf-8", "surrogatepass")
    return "|".join(namespace[1:])


def is_digested(checkpoint_ns: str) -> bool:
    """Return whether the namespace of a graph's log has a digest of its name."""
    return namespace_of(checkpoint_ns)[-1].startswith(_DIGEST)


def is_call(namespace: Sequence[str]) -> bool:
    """Return whether a log is that of one call of a subgraph, whose name has an id in it."""
    return any(":" in part for part in namespace[1:])


def time_of_id(checkpoint_id: str) -> datetime | None:
    """Return the creation time in a checkpoint's id, or ``None`` if the id is no UUIDv6."""
    try:
        found = UUID(checkpoint_id)
    except ValueError:
        return None
    if found.version != 6:
        return None
    ticks = (found.time_low << 28) | (found.time_mid << 12) | (found.time_hi_version & 0x0FFF)
    return _EPOCH + timedelta(microseconds=ticks // 10)


def time_of(checkpoint: Checkpoint) -> datetime | None:
    """Return the time in a checkpoint's ``ts``, UTC without a zone; ``None`` if it is no time."""
    try:
        found = datetime.fromisoformat(checkpoint["ts"])
    except (KeyError, TypeError, ValueError):
        return None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC)
    except OverflowError:  # the first or the last hours of the calendar
        return None


def next_version(current: str | int | float | None) -> str:
    """Return a version above *current*; its random end differs from those of other branches."""
    number = 0
    if current is not None:
        number = int(str(current).split(".")[0])
    return f"{number + 1:032}.{secrets.token_hex(8)}"


# --- States --------------------------------------------------------------------------------------


def channel_key(channel: str) -> str:
    """Return the key of a channel in a state."""
    return "~" + channel if channel.startswith("~") else channel


def has_value(state: Mapping[str, Any], channel: str) -> bool:
    """Return ``True`` if a state holds a value of the channel."""
    return bool(state.get(channel_key(channel), EMPTY) != EMPTY)


def _channels_of(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the channels of a state's keys, the inverse of `channel_key`."""
    for key in state:
        if key not in (ENVELOPE, METADATA, NAMESPACE):
            yield key.removeprefix("~")


def dumps(serde: SerializerProtocol, value: Any) -> Packed:
    """Serialise a value.

    Raises:
        TooLarge, NotSerialisable: it would take too much memory, or too much work, to load.
    """
    packed = Packed(*_message_cache.dump_typed(serde, value))
    try:
        _message_cache.check(packed.format, packed.data)
    except Oversized as error:
        what, advice = "a value, once it is loaded,", "; store it as several values"
        raise TooLarge(what, error.size, error.limit, "bytes of memory", advice) from error
    except Colliding as error:
        raise NotSerialisable("", str(error)) from error
    return packed


_FORM = StoredForm("checkpoint of LangGraph")


def loads(serde: SerializerProtocol, value: Any) -> Any:
    """Deserialise a value.

    Raises:
        Corrupt: it is none of LangGraph's, or would take too much memory, or too much work.
    """
    if not isinstance(value, Packed):
        raise not_of_the_form("value of LangGraph", type(value).__name__)
    try:
        return _message_cache.load_typed(serde, value.format, value.data)
    except (Oversized, Colliding) as error:
        raise Corrupt(f"a stored value {error}") from error


def to_state(
    serde: SerializerProtocol,
    checkpoint_ns: str,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    unchanged: Mapping[str, Packed],
) -> dict[str, Packed]:
    """Return the state of a checkpoint; *unchanged* has the bytes of the unchanged channels."""
    given = checkpoint["channel_values"]
    envelope = {name: value for name, value in checkpoint.items() if name not in _NOT_IN_ENVELOPE}
    state = {ENVELOPE: dumps(serde, envelope), METADATA: dumps(serde, metadata)}
    if is_digested(checkpoint_ns):
        state[NAMESPACE] = dumps(serde, checkpoint_ns.encode("utf-8", "surrogatepass"))
    # As in LangGraph's SqliteSaver, a channel may have a value and no version.
    for channel in sorted({*checkpoint["channel_versions"], *given}):
        if channel in unchanged:
            state[channel_key(channel)] = unchanged[channel]
        elif channel in given:
            state[channel_key(channel)] = dumps(serde, given[channel])
        else:
            state[channel_key(channel)] = EMPTY
    return state


def from_state(
    serde: SerializerProtocol, checkpoint_id: str, state: Mapping[str, Any]
) -> tuple[Checkpoint, CheckpointMetadata]:
    """Return the checkpoint and the metadata of a state, the inverse of `to_state`."""
    envelope = loads(serde, state.get(ENVELOPE))
    with _FORM:
        checkpoint = {**envelope, "id": checkpoint_id}
        channels = dict.fromkeys([*checkpoint["channel_versions"], *_channels_of(state)])
    checkpoint["channel_values"] = {
        channel: loads(serde, state[channel_key(channel)])
        for channel in channels
        if has_value(state, channel)
    }
    metadata = loads(serde, state.get(METADATA))
    return cast(Checkpoint, checkpoint), cast(CheckpointMetadata, metadata)


def unchanged_values(
    serde: SerializerProtocol,
    parent: Mapping[str, Any],
    versions: Mapping[str, Any],
    channels: Iterable[str],
) -> dict[str, Packed]:
    """Return the bytes of those *channels* that the state *parent* has at the same version.

    *versions* are those of the checkpoint that is saved.
    """
    if ENVELOPE not in parent:
        return {}
    envelope = loads(serde, parent[ENVELOPE])
    with _FORM:
        before = envelope["channel_versions"]
        return {
            channel: parent[channel_key(channel)]
            for channel in channels
            if channel in before
            and before[channel] == versions[channel]
            and channel_key(channel) in parent
        }


def needs_parent(metadata: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Return ``True`` if some channel is rebuilt from earlier checkpoints.

    LangGraph counts, for each `DeltaChannel`, the steps since its value was last stored. A channel
    that was never written has no version, so it has no key in the state and nothing to rebuild.
    """
    counters = metadata.get(_DELTA_COUNTERS)
    if not isinstance(counters, Mapping):
        return False
    return any(state.get(channel_key(str(channel))) == EMPTY for channel in counters)


def rebuilt_channels(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the `DeltaChannel`s that the filterable *metadata* says are rebuilt from a parent.

    The checkpoint has no value of these, by `without_false_counters`; of any other channel it may
    have one.
    """
    counters = metadata.get(_DELTA_COUNTERS)
    return frozenset(counters) if isinstance(counters, Mapping) else frozenset()


def save_options(
    metadata: Mapping[str, Any],
    state: Mapping[str, Any],
    parent_id: str | None,
) -> dict[str, Any]:
    """Return the options of `Checkpointer.save` for a checkpoint, beside its state and metadata."""
    run_id = metadata.get("run_id")
    return {
        "rests_on_parent": parent_id is not None and needs_parent(metadata, state),
        "run_id": run_id if isinstance(run_id, str) and is_id(run_id) else None,
    }


# --- Metadata ------------------------------------------------------------------------------------


def is_id(text: str) -> bool:
    """Return ``True`` if *text* fits a column of ids."""
    try:
        check_name(text, "run_id")
    except MemalchemyError:
        return False
    return True


def filterable(metadata: Mapping[str, Any], checkpoint_ns: str) -> dict[str, Any]:
    """Return the part of *metadata* by which every database can filter.

    It also has the name of a checkpoint namespace whose log has a digest of it.
    """
    named = {NAMESPACE: encode_id(checkpoint_ns)} if is_digested(checkpoint_ns) else {}
    parents = metadata.get(PARENTS)
    root = parents.get("") if isinstance(parents, Mapping) else None
    least = {} if root is None else {PARENTS: {"": root}}
    found: dict[str, Any] = dict(named)
    for name, value in metadata.items():
        try:
            found |= check_metadata({name: value})
        except MemalchemyError:
            found |= {PARTIAL: True} | (least if name == PARENTS else {})
    # Together they may be too large: a graph in many others names all of these.
    partial = {PARTIAL: True}
    for some in (found, found | least | partial, named | least | partial, least | partial):
        try:
            return check_metadata(some)
        except MemalchemyError:
            continue
    return partial


def without_false_counters(known: dict[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filterable metadata without counters if the *state* has a value all the same.

    LangGraph counts for a `DeltaChannel` that is unchanged since its value was stored, and a value
    may be put into any checkpoint.
    """
    if not any(has_value(state, channel) for channel in rebuilt_channels(known)):
        return known
    return {name: known[name] for name in known if name != _DELTA_COUNTERS} | {PARTIAL: True}


def may_match(known: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Compare *wanted* with the filterable metadata *known*; ``False`` is certain."""
    for name, value in (wanted or {}).items():
        found = known.get(name)
        if name not in known and PARTIAL in known:
            continue
        if isinstance(found, _SCALARS) and found != value:
            return False
    return True


def matches_metadata(
    serde: SerializerProtocol, state: Mapping[str, Any], wanted: Mapping[str, Any] | None
) -> bool:
    """Compare *wanted* with the metadata in *state*, where ``None`` equals a missing name."""
    if not wanted:
        return True
    metadata = loads(serde, state[METADATA])
    return all(value == metadata.get(name) for name, value in wanted.items())


def root_of_call(namespace: Sequence[str], metadata: Mapping[str, Any]) -> str | None:
    """Return the checkpoint of the root graph in which a call of a subgraph began.

    A namespace that outlives its calls has none: ``None``.
    """
    parents = metadata.get(PARENTS)
    if not is_call(namespace) or not isinstance(parents, Mapping):
        return None
    found = parents.get("")
    return found if isinstance(found, str) else None

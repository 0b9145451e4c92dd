"""Tasks of A2A as states of a checkpointer, and back.

A state has the messages and the parts of artifacts one by one, so that what a task gained is all
that is stored of it. Each is protobuf's own bytes, which are exact, beside its role and its words,
for searches and listings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from a2a.types import Artifact, Message, Part, Role, Task
from google.protobuf.message import Message as Protobuf
from google.protobuf.struct_pb2 import Value

_ROLES = {Role.ROLE_USER: "user", Role.ROLE_AGENT: "assistant"}


def to_state(task: Task) -> dict[str, Any]:
    """Return the state that `to_task` makes an equal task of."""
    rest = Task()
    rest.CopyFrom(task)
    rest.ClearField("history")
    rest.ClearField("artifacts")
    state: dict[str, Any] = {
        "task": _bytes_of(rest),
        "messages": [_message(message) for message in task.history],
        "artifacts": [_artifact(artifact) for artifact in task.artifacts],
    }
    if task.status.HasField("message"):
        said = _message(task.status.message)
        state["status"] = {"role": said["role"], "content": said["content"]}
    return state


def to_task(state: dict[str, Any]) -> Task:
    """Return a new task that equals the one that was stored."""
    task = Task()
    task.MergeFromString(state["task"])
    for message in state["messages"]:
        task.history.add().MergeFromString(message["protobuf"])
    for stored in state["artifacts"]:
        artifact = task.artifacts.add()
        artifact.MergeFromString(stored["protobuf"])
        for part in stored["parts"]:
            artifact.parts.add().MergeFromString(part["protobuf"])
    return task


def to_metadata(task: Task) -> dict[str, Any]:
    """Return what a listing filters and sorts tasks by."""
    at = task.status.timestamp if task.status.HasField("timestamp") else None
    return {
        "context_id": task.context_id,
        "state": task.status.state,
        "timestamp": None if at is None else [at.seconds, at.nanos],
    }


def _message(message: Message) -> dict[str, Any]:
    return {
        "role": _ROLES.get(message.role, "unspecified"),
        "content": _words_of(message.parts),
        "protobuf": _bytes_of(message),
    }


def _artifact(artifact: Artifact) -> dict[str, Any]:
    rest = Artifact()
    rest.CopyFrom(artifact)
    rest.ClearField("parts")
    parts = [{"content": _words_of([p]), "protobuf": _bytes_of(p)} for p in artifact.parts]
    return {"name": artifact.name, "protobuf": _bytes_of(rest), "parts": parts}


def _words_of(parts: Sequence[Part]) -> str:
    if len(parts) == 1 and (text := parts[0].text) and not parts[0].filename:
        return text  # the most frequent case, faster
    return "\n".join(text for part in parts for text in _texts_of(part) if text)


def _texts_of(part: Part) -> Iterator[str]:
    kind = part.WhichOneof("content")
    if kind == "text":
        yield part.text
    elif kind == "url":
        yield part.url
    elif kind == "data":
        yield from _texts_in(part.data)
    if part.filename:
        yield part.filename


def _texts_in(value: Value) -> Iterator[str]:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        yield value.string_value
    elif kind == "list_value":
        for item in value.list_value.values:
            yield from _texts_in(item)
    elif kind == "struct_value":
        for name in sorted(value.struct_value.fields):
            yield name
            yield from _texts_in(value.struct_value.fields[name])


def _bytes_of(message: Protobuf) -> bytes:
    # The order of a map's keys is else another each time, and an equal message looks changed.
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized

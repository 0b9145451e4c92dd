"""Tasks of A2A as entries of a log, and back.

A message, and a part of an artifact, is an entry, in the order in which the task gained them. The
last entry is the rest of the task. An entry has protobuf's own bytes, which are exact, beside its
role and its words, for searches and listings.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from a2a.types import Message, Part, Role, Task
from google.protobuf.message import Message as Protobuf
from google.protobuf.struct_pb2 import Value

from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.a2a._protobuf import read_into

_ROLES = {Role.ROLE_USER: "user", Role.ROLE_AGENT: "assistant"}

Entry = dict[str, Any]

_FORM = StoredForm("task of A2A")


class TaskEntries:
    """A task as it is now, which may change meanwhile, in pieces.

    Its sequences are its messages, and the parts of each artifact: what a task gains comes at the
    end of one of them.
    """

    def __init__(self, task: Task) -> None:
        self._rest = Task()
        self._rest.CopyFrom(task)
        self._rest.ClearField("history")
        for artifact in self._rest.artifacts:
            artifact.ClearField("parts")
        self._sequences = [_serialize_all(task.history)]
        self._sequences += [_serialize_all(artifact.parts) for artifact in task.artifacts]

    def last(self, version: int) -> Entry:
        """Return the last entry, with what the next save needs to know of this one."""
        status = self._rest.status
        said = _entry_of_message(status.message) if status.HasField("message") else {}
        return said | {
            "protobuf": _serialize(self._rest),
            "sequences": [[len(some), _digest(some)] for some in self._sequences],
            "version": version,
        }

    def since(self, last: Entry | None) -> list[Entry] | None:
        """Return the entries of what the task gained since a *last* entry; without it, all.

        Return ``None`` if anything has changed of what the task had then.
        """
        with _FORM:
            known = [] if last is None else last["sequences"]
            if len(known) > len(self._sequences):
                return None
            for some, (count, digest) in zip(self._sequences, known, strict=False):
                if _digest(some[:count]) != digest:
                    return None
            counts = [count for count, _ in known] + [0] * (len(self._sequences) - len(known))
        history, *artifacts = (
            some[count:] for some, count in zip(self._sequences, counts, strict=True)
        )
        entries = [
            _entry_of_message(read_into(Message(), one)) | {"protobuf": one} for one in history
        ]
        for at, parts in enumerate(artifacts):
            for one in parts:
                words = _words_of([read_into(Part(), one)])
                entries.append({"artifact": at, "content": words, "protobuf": one})
        return entries


@_FORM
def to_task(entries: Sequence[Entry]) -> Task:
    """Return a new task that equals the one whose entries these are."""
    task = rest_of(entries[-1])
    history, artifacts = task.history, [artifact.parts for artifact in task.artifacts]
    for entry in entries[:-1]:
        sequence = artifacts[entry["artifact"]] if "artifact" in entry else history
        read_into(sequence.add(), entry["protobuf"])
    return task


@_FORM
def rest_of(last: Entry) -> Task:
    """Return a task without its messages and the parts of its artifacts."""
    return read_into(Task(), last["protobuf"])


@_FORM
def version_of(last: Entry) -> int:
    """Return the number of a task's version."""
    version = last["version"]
    if not isinstance(version, int):
        raise TypeError(f"a {type(version).__name__} is no version")
    return version


def _entry_of_message(message: Message) -> Entry:
    return {"role": _ROLES.get(message.role, "unspecified"), "content": _words_of(message.parts)}


def _words_of(parts: Sequence[Part]) -> str:
    return "\n".join(text for part in parts for text in _texts_of(part) if text)


def _texts_of(part: Part) -> Iterator[str]:
    kind = part.WhichOneof("content")
    if kind == "text":
        yield part.text
    elif kind == "url":
        yield part.url
    elif kind == "data":
        yield from _texts_in(part.data)
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


def _serialize_all(pieces: Iterable[Protobuf]) -> list[bytes]:
    return [piece.SerializeToString(deterministic=True) for piece in pieces]


def _serialize(message: Protobuf) -> bytes:
    (serialized,) = _serialize_all([message])
    return serialized


def _digest(pieces: list[bytes]) -> bytes:
    lengths = array("Q", map(len, pieces))
    return blake2b(lengths.tobytes() + b"".join(pieces), digest_size=16).digest()

"""Observations of a graph on a saver, in plain values that can be compared with another run's.

Ids and times differ between any two runs. So an id is recorded as the ordinal of its first
appearance, and the version of a channel by its comparison with the others: nothing here depends on
the format of either.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple, PendingWrite
from langgraph.types import Send, StateSnapshot

IDS = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"
)
NO_TASK = "00000000-0000-0000-0000-000000000000"


class Ordinals:
    """Each id by the order in which it was first met."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {NO_TASK: "#none"}

    def of(self, value: Any) -> Any:
        """The value in plain parts that compare, with its types, and ordinals in place of ids."""
        match value:
            case str():
                return IDS.sub(lambda found: self._name(found[0]), value)
            case None | bool() | int() | float() | bytes():
                return (type(value).__name__, value)
            case BaseMessage():
                return (type(value).__name__, self.of(value.model_dump()))
            case Send():
                return ("Send", value.node, self.of(value.arg))
            case BaseException():
                return (type(value).__name__, self.of(str(value)))
            case Mapping():
                # Sorted without the ids in a key, so that they are met in the same order.
                keys = sorted(value, key=lambda key: IDS.sub("#", str(key)))
                return {self.of(key): self.of(value[key]) for key in keys}
            case set() | frozenset():
                return (type(value).__name__, sorted(repr(self.of(item)) for item in value))
            case tuple() if hasattr(value, "_asdict"):
                return (type(value).__name__, self.of(value._asdict()))
            case list() | tuple():
                return [type(value).__name__, *(self.of(item) for item in value)]
        if dataclasses.is_dataclass(value) or hasattr(value, "__slots__"):
            names = [name for name in _fields(value) if not name.startswith("_")]
            return (type(value).__name__, {name: self.of(getattr(value, name)) for name in names})
        return (type(value).__name__, self.of(repr(value)))

    def _name(self, found: str) -> str:
        return self.names.setdefault(found, f"#{len(self.names)}")

    def writes(self, pending: Iterable[PendingWrite]) -> dict[str, list]:
        """Of each task in their order. Of two tasks the order is that of their paths, and of two
        without a path that of their ids, which says nothing.
        """
        by_task: dict[str, list] = {}
        for task, channel, value in pending:
            by_task.setdefault(task, []).append((channel, value))
        unmet = [task for task in by_task if task not in self.names]
        for task in sorted(unmet, key=lambda task: IDS.sub("#", repr(by_task[task]))):
            self._name(task)
        return {self._name(task): self.of(writes) for task, writes in by_task.items()}

    def snapshot(self, state: StateSnapshot) -> dict:
        """Return the observations of one of a graph's states."""
        assert state.created_at is None or state.config["configurable"]["checkpoint_id"]
        return {
            "checkpoint": self.of(_place(state.config)),
            "parent": self.of(_place(state.parent_config)),
            "tasks": [self._task(task) for task in state.tasks],
            "interrupts": sorted(repr(self.of(interrupt)) for interrupt in state.interrupts),
            "next": sorted(state.next),
            "values": self.of(state.values),
            "metadata": self.of(state.metadata),
        }

    def _task(self, task: Any) -> dict:
        noted = {"id": self.of(task.id), "name": task.name, "path": self.of(task.path)}
        if isinstance(task.state, StateSnapshot):
            noted["state"] = self.snapshot(task.state)
        else:
            noted["state"] = self.of(_place(task.state))
        noted["interrupts"] = self.of(list(task.interrupts))
        noted["error"] = self.of(task.error)
        noted["result"] = self.of(task.result)
        return noted

    def stored(self, found: CheckpointTuple, parent: CheckpointTuple | None) -> dict:
        """Return the observations of a saver's checkpoint."""
        checkpoint = dict(found.checkpoint)
        assert checkpoint.pop("id") == found.config["configurable"]["checkpoint_id"]
        checkpoint.pop("ts")
        versions = checkpoint.pop("channel_versions")
        seen = checkpoint.pop("versions_seen")
        before = parent.checkpoint["channel_versions"] if parent else {}
        updated = checkpoint.pop("updated_channels", None)
        return {
            "checkpoint": self.of(_place(found.config)),
            "parent": self.of(_place(found.parent_config)),
            "writes": self.writes(found.pending_writes or ()),
            "metadata": self.of(found.metadata),
            "parent's versions": _compared(before, versions),
            "versions seen": {node: _compared(of_node, versions) for node, of_node in seen.items()},
            "updated": None if updated is None else sorted(updated),
            "rest": self.of(checkpoint),
        }


def _fields(value: Any) -> Sequence[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(value.__slots__)


def _compared(versions: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, str]:
    """Compare versions of channels with the current ones."""
    names = {
        name: "same"
        if versions[name] == current[name]
        else "older"
        if versions[name] < current[name]
        else "newer"
        for name in versions.keys() & current.keys()
    }
    names |= dict.fromkeys(versions.keys() - current.keys(), "gone")
    return names | dict.fromkeys(current.keys() - versions.keys(), "none")


def _place(config: Any) -> dict | None:
    if config is None:
        return None
    names = ("checkpoint_ns", "checkpoint_id")
    return {name: config["configurable"].get(name) for name in names}


def differs(seen: Any, expected: Any, where: str = "") -> str | None:
    """The first place where they do."""
    if isinstance(seen, dict) and isinstance(expected, dict) and seen.keys() == expected.keys():
        pairs = [(f"{where}/{key}", seen[key], expected[key]) for key in expected]
    elif (
        isinstance(seen, list | tuple)
        and isinstance(expected, list | tuple)
        and len(seen) == len(expected)
    ):
        both = zip(seen, expected, strict=True)
        pairs = [(f"{where}/{n}", one, other) for n, (one, other) in enumerate(both)]
    elif seen == expected:
        return None
    else:
        return f"{where} is {seen!r}, on LangGraph's own saver {expected!r}"
    return next((found for at, one, other in pairs if (found := differs(one, other, at))), None)

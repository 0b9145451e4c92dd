"""Rows of what a log holds: its steps, messages, calls of tools, and usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from memalchemy.analysis._values import adapter_root_of, json_text, text
from memalchemy.analysis.steps import LogHead, Step
from memalchemy.analysis.tool_calls import OpenCalls
from memalchemy.contracts import LogInfo, StoreItem
from memalchemy.hosted_tools import tool_of_item
from memalchemy.keys import format_namespace
from memalchemy.messages import read
from memalchemy.stored_messages import message_record, time_of
from memalchemy.usage import (
    DIMENSION_KEYS,
    Usage,
    dimensions_of,
    response_id,
    usage_of,
    usages_of_step,
)

Row = dict[str, Any]
Rows = Iterator[tuple[str, Row]]
"""Rows, each with the name of its table."""


def place_of(tenant: str, thread_id: str, namespace: tuple[str, ...]) -> Row:
    """Return the columns that name a log."""
    return {
        "tenant": text(tenant),
        "thread": text(thread_id),
        "namespace": text(format_namespace(namespace)),
        "framework": adapter_root_of(namespace),
    }


def thread_row(tenant: str, info: LogInfo) -> Row:
    """Return the row of a log."""
    return {
        **place_of(tenant, info.thread_id, info.namespace),
        "checkpoints": info.checkpoints,
        "entries": info.entries,
        "stored_bytes": info.stored_size,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
        "forked_from": text(info.forked_from),
        "metadata": json_text(info.metadata),
        **_who(info.metadata),
    }


class LogRows:
    """Rows of the steps of one log, from its first to its last."""

    def __init__(self, tenant: str, head: LogHead) -> None:
        self._log = place_of(tenant, head.thread_id, head.namespace)
        self._who = _who(head.metadata)
        self._calls = OpenCalls()
        self._answers: set[str | tuple[Any, Usage]] = set()
        """Answers whose usage was counted, of which there may be several messages."""

    def of_step(self, step: Step) -> Rows:
        """Yield the rows of a step. A call of a tool comes with its result, maybe later."""
        who = self._who | {name: one for name, one in _who(step.metadata).items() if one}
        place = self._log | {"step": text(step.name)}
        yield (
            "steps",
            place
            | {
                "kind": step.kind,
                "position": step.position,
                "parent": text(step.parent),
                "metadata": json_text(step.metadata),
                "bytes": step.size,
                **who,
                "time": step.time,
                "stored_at": step.stored_at,
            },
        )
        stated: list[tuple[Row, Usage]] = []
        for position, given, replaces in step.messages:
            record = message_record(given)
            shared = place | {"position": position} | who | {"time": time_of(given) or step.time}
            if record["role"] == "assistant" and shared["agent"] is None:
                shared["agent"] = text(record["name"])
            if record["role"]:
                name = record["name"] or tool_of_item(given)
                name = name or next(map(self._calls.name_of, record["results"]), None)
                yield "messages", _message_row(shared, name, record)
            message_id = read(given, "id")
            if replaces:
                self._calls.withdraw(message_id)
            for call in record["calls"]:
                added = self._calls.add(shared, call, message_id)
                yield from (("tool_calls", row) for row in added)
            for result in record["results"]:
                answered = self._calls.answer(result, shared["time"])
                yield from (("tool_calls", row) for row in answered)
            if (usage := self._usage_of(given, replaces=replaces)) is not None:
                stated.append((shared, usage))
        yield from _usage_rows(place | {"position": None} | who | {"time": step.time}, step, stated)

    def of_usage_item(self, item: StoreItem) -> Rows:
        """Yield the row of an item that states what a turn took, if it states a number."""
        usage = usage_of(item.value) if isinstance(item.value, Mapping) else None
        if usage is not None:
            position = int(item.key)
            place = self._log | {"step": str(position), "position": position}
            yield "usage", place | self._who | {"time": item.updated_at} | _columns_of(usage)

    def rest(self) -> Rows:
        """Yield the calls of tools that have no result in the log."""
        yield from (("tool_calls", row) for row in self._calls.rest())

    def _usage_of(self, given: Any, *, replaces: bool) -> Usage | None:
        if not isinstance(given, Mapping) or (usage := usage_of(given)) is None:
            return None
        # A message that somebody has changed states what the answer took, once more.
        answer = response_id(given) or (read(given, "id"), usage)
        if answer in self._answers and (replaces or type(answer) is str):
            return None
        self._answers.add(answer)
        return usage


def _message_row(shared: Row, name: str | None, record: Row) -> Row:
    results = [result["text"] for result in record["results"]]
    words = [record["text"], *results]
    # Anthropic's models are given results in the role of the user.
    are_results = bool(results) and record["role"] == "user" and not record["text"]
    return shared | {
        "role": "tool" if are_results else text(record["role"]),
        "name": text(name),
        "text": text("\n".join(filter(None, words))),
        "thought": text(record["thought"] or None),
    }


def _usage_rows(place: Row, step: Step, stated: list[tuple[Row, Usage]]) -> Rows:
    """Yield the usages of a step; the metadata of an entry is that of its message."""
    metadata = {} if step.kind == "entry" else step.metadata
    for shared, usage in usages_of_step(metadata, place, stated):
        yield "usage", shared | _columns_of(usage)


def _columns_of(usage: Usage) -> Row:
    return asdict(usage) | {"model": text(usage.model)}


def _who(metadata: Mapping[str, Any]) -> Row:
    found = dimensions_of(metadata)
    return {name: text(found[name]) for name in DIMENSION_KEYS}

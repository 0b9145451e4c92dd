"""Calls of tools, each with the result that a later message of its log holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from memalchemy.analysis._values import json_text, text

Row = dict[str, Any]


_MESSAGE = "of message"
"""Key of a row for the id of the message with the call; it is no column."""


class OpenCalls:
    """The calls of one log that no result was found for yet."""

    def __init__(self) -> None:
        self._by_id: dict[str, Row] = {}
        self._by_name: dict[str | None, deque[Row]] = {}
        """Calls without an id, which some models do not give."""

    def add(self, place: Row, call: dict[str, Any], message_id: Any = None) -> Iterator[Row]:
        """Add the call of a message; yield an earlier one with its id, which has no result."""
        row = place | {
            "call_id": text(call["id"]),
            "name": text(call["name"]),
            "arguments": json_text(call["arguments"]),
            "result": None,
            "error": None,
            "duration_ms": None,
            _MESSAGE: message_id,
        }
        if call["id"] is None:
            self._by_name.setdefault(call["name"], deque()).append(row)
            return
        if (earlier := self._by_id.pop(call["id"], None)) is not None:
            yield earlier
        self._by_id[call["id"]] = row

    def withdraw(self, message_id: Any) -> None:
        """Remove the calls of a message that another one replaces: no tool has got them."""
        self._by_id = {id_: row for id_, row in self._by_id.items() if row[_MESSAGE] != message_id}
        for name, rows in self._by_name.items():
            self._by_name[name] = deque(row for row in rows if row[_MESSAGE] != message_id)

    def name_of(self, result: dict[str, Any]) -> str | None:
        """Return the name of the tool that a result is of: its own, or that of its open call."""
        row = self._by_id.get(result["id"]) if result["name"] is None else None
        return text(result["name"]) if row is None else row["name"]

    def answer(self, result: dict[str, Any], time: datetime) -> Iterator[Row]:
        """Yield the call that a result answers, if it is open."""
        row = self._by_id.pop(result["id"], None) if result["id"] is not None else None
        if row is None and (waiting := self._by_name.get(result["name"])):
            row = waiting.popleft()
        if row is None:
            return
        passed = (time - row["time"]).total_seconds() * 1000
        row |= {
            "result": text(result["text"]),
            "error": bool(result["error"]),
            "duration_ms": passed if passed > 0 else None,
        }
        yield row

    def rest(self) -> Iterator[Row]:
        """Yield the calls that have no result."""
        yield from self._by_id.values()
        for waiting in self._by_name.values():
            yield from waiting

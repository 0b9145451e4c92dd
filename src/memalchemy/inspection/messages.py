"""Messages as the inspector shows them, and what a state holds beside its messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memalchemy._json_types import to_json_types
from memalchemy.adapters import Path, views_of
from memalchemy.inspection.tree import preview, tree
from memalchemy.stored_messages import (
    Message,
    is_empty,
    message_record,
    parts_of_message,
    shallow,
    unwrapped,
)
from memalchemy.usage import usage_of

TEXT = 20_000
"""Characters of a text in a record; a longer text is cut."""

_BOOKKEEPING = ("~", "__")
"""Beginnings of keys of a state that are nobody's words."""


def stored_message(index: int, value: Any, occurred_at: datetime | None = None) -> Message:
    """Return a message, or any other entry, as a record with nothing cut.

    What is no message has the role ``""`` and the field ``value``. That and the arguments of calls
    are as they are stored, of any type. Without *occurred_at* the time is the one that the message
    itself states, if it does. ``usage`` has what an answer states about its model, tokens, cost and
    latency, under `memalchemy.usage.USAGE_KEYS`.
    """
    given = unwrapped(value)
    record: Message = {"index": index, **message_record(given, occurred_at)}
    answers = record["role"] == "assistant" and isinstance(given, dict)
    usage = usage_of(given) if answers else None
    record["usage"] = None if usage is None else usage.as_metadata()
    if not record["role"]:
        record["text"], record["value"] = preview(given), given
    return record


def message(
    index: int, value: Any, occurred_at: datetime | None = None, *, whole: bool = False
) -> Message:
    """Return a `stored_message` as plain JSON: arguments and ``value`` are trees, texts are cut.

    With *whole* nothing is cut, and they are what `to_json_types` makes of them.
    """
    record = stored_message(index, value, occurred_at)
    form = to_json_types if whole else tree
    for call in record["calls"]:
        call["arguments"] = form(call["arguments"])
    if "value" in record:
        record["value"] = form(record["value"])
    if whole:
        return record
    record["truncated"] = False
    for holder in (record, *record["results"]):
        for name in ("text", "thought"):
            text = holder.get(name)
            if isinstance(text, str) and len(text) > TEXT:
                holder[name] = text[:TEXT]
                record["truncated"] = True
    return record


def whole_texts(value: Any) -> dict[str, Any]:
    """Return the uncut text, thought and results of a message."""
    given = unwrapped(value)
    found = parts_of_message(given)
    text = found["text"] if found["role"] else preview(given, 1_000_000)
    return {"text": text, "thought": found["thought"], "results": found["results"]}


def rest_of(state: Any, path: Path, namespace: Sequence[str] = ()) -> Any:
    """Return a state without its messages, and without what a framework keeps for itself."""
    state = shallow(state)
    if not isinstance(state, dict):
        return None if not path else state
    own = path[0] if len(path) == 1 else None
    hidden = (*_BOOKKEEPING, *(one for view in views_of(namespace) for one in view.bookkeeping))
    rest = {
        name: value
        for name, value in state.items()
        if name != own
        and not (isinstance(name, str) and name.startswith(hidden))
        and not is_empty(value)
    }
    return rest or None

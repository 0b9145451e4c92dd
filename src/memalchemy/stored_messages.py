"""Messages of any framework as records of one form, and where a state keeps its messages.

The values are those that are stored; no framework is needed to read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson

from memalchemy._bounds import parse_plain_json
from memalchemy._json_types import to_json_types
from memalchemy.adapters import ADAPTERS, ObjectForms, Path, views_of
from memalchemy.codec.foreign_msgpack import EMPTY, ForeignObject, object_tree
from memalchemy.contracts import Packed
from memalchemy.hosted_tools import hosted_parts, tool_of_item
from memalchemy.messages import (
    SYSTEM_ROLES,
    Part,
    arguments_of,
    blocks_of,
    content_field,
    listed_calls,
    part_of,
    read,
    results_of,
    role_of,
    says_error,
    text_of,
    thought_of,
    words_of,
)

_DEPTH = 7
_VISITED = 20_000
_SAMPLE = 8
_JSON_TEXT = 64 * 1024 * 1024
"""Characters of the longest text that is read as JSON, to look for messages in it."""

_NAMES = ("messages", "chat_history", "history", "turns", "conversation")
"""Keys of a state that are looked at first."""

Message = dict[str, Any]


# --- A message ----------------------------------------------------------------------------------


def message_record(given: Any, occurred_at: datetime | None = None) -> Message:
    """Return a message, `unwrapped`, as a record: its role, name, text, thought, calls and results.

    What is no message has the role ``""``. Without *occurred_at* the time is the one that the
    message itself states, if it does.
    """
    found = parts_of_message(given)
    happened = occurred_at or time_of(given)
    return {
        "role": found.pop("role"),
        "name": None if tool_of_item(given) is not None else _name_of_speaker(given),
        **found,
        "occurred_at": None if happened is None else happened.isoformat(),
    }


def parts_of_message(given: Any) -> dict[str, Any]:
    """Return the role, text, thought, calls and results of a message; see `message_record`."""
    role = role_of(given)
    kind = read(given, "type")
    if not role and kind == "reasoning":
        return _message_record("assistant", "", thought_of(given), [], [])
    if not role and (parts := hosted_parts(given)):
        return _item_of_a_tool(parts)
    if role == "assistant" and read(given, "role") is None and kind == "function_call":
        call = _call_record(read(given, "call_id"), read(given, "name"), arguments_of(given))
        return _message_record(role, "", "", [call], [])
    parts = [part for block in blocks_of(given) for part in _parts_of_block(block, role)]
    texts = [words_of(part.content) for part in parts if part.kind == "text"]
    thoughts = [part.content or "" for part in parts if part.kind == "thought"]
    calls = _calls_among(parts)
    results = _results_among(parts)
    calls += _calls_beside_content(given, [call["id"] for call in calls])
    thoughts += [text for text in _thoughts_beside_content(given) if text not in thoughts]
    text = "\n".join(filter(None, texts)) if parts else text_of(given)
    if role == "tool" and not results:
        (id_, *_) = results_of(given) or [None]
        text = text or _result_text(read(given, content_field(given)))
        results, text = [_result_record(id_, _name_of_speaker(given), text, says_error(given))], ""
    return _message_record(role, text, "\n".join(filter(None, thoughts)), calls, results)


def _parts_of_block(block: Any, role: str) -> list[Part]:
    if role == "assistant" and (hosted := hosted_parts(block)):
        return hosted
    part = part_of(block)
    return [] if part is None else [part]


def _item_of_a_tool(parts: list[Part]) -> dict[str, Any]:
    """Return an item of OpenAI's Responses for a tool of theirs: ``web_search_call`` and others."""
    calls = _calls_among(parts)
    role = "assistant" if calls else "tool"
    return _message_record(role, "", "", calls, _results_among(parts))


def _calls_among(parts: list[Part]) -> list[dict[str, Any]]:
    return [_call_record(one.id, one.name, one.content) for one in parts if one.kind == "call"]


def _results_among(parts: list[Part]) -> list[dict[str, Any]]:
    return [
        _result_record(one.id, one.name, _result_text(one.content), one.is_error)
        for one in parts
        if one.kind == "result"
    ]


def _calls_beside_content(given: Any, known: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the calls in the fields of a message whose ids are not *known* of its content."""
    for holder in (given, read(given, "additional_kwargs")):
        # Calls without ids that one place lists are the same ones as those that the next lists.
        are_listed = None in known
        for call in listed_calls(holder):
            id_ = read(call, "id") or read(call, "call_id")
            # The id is of any type: nobody has checked the value.
            if id_ not in known or (id_ is None and not are_listed):
                name = read(call, "name") or read(read(call, "function"), "name")
                yield _call_record(id_, name, arguments_of(call))
                known.append(id_)


_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message, beside its content, that hold a thought."""


def _thoughts_beside_content(given: Any) -> Iterator[str]:
    for holder in (given, read(given, "additional_kwargs")):
        for name in _THOUGHT_FIELDS:
            if (found := read(holder, name)) is not None:
                yield thought_of(found)


def _message_record(
    role: str,
    text: str,
    thought: str,
    calls: list[dict[str, Any]],
    results: list[dict[str, Any]],
) -> dict[str, Any]:
    return {"role": role, "text": text, "thought": thought, "calls": calls, "results": results}


def _call_record(id_: Any, name: Any, arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str) and arguments[:1] in ("{", "["):
        with suppress(ValueError):
            arguments = parse_plain_json(arguments)
    return {"id": _to_text(id_), "name": _to_text(name), "arguments": arguments}


def _result_record(id_: Any, name: Any, text: str, is_error: bool) -> dict[str, Any]:
    return {"id": _to_text(id_), "name": _to_text(name), "text": text, "error": is_error}


def _result_text(content: Any) -> str:
    """Return the text of a tool's result: its words, or the JSON of what has none."""
    if (words := words_of(content)) or content is None or content == "":
        return words
    try:
        return orjson.dumps(content, option=orjson.OPT_INDENT_2, default=str).decode()
    except (TypeError, orjson.JSONEncodeError):  # lone surrogates, large integers
        return json.dumps(to_json_types(content), indent=2, default=str)


def _to_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _name_of_speaker(given: Any) -> str | None:
    for name in ("name", "author", "author_name"):
        found = read(given, name)
        if isinstance(found, str) and found:
            return found
    return None


_TIME_FIELDS = ("timestamp", "created_at", "createdAt")
_SECONDS = range(10**8, 10**11)


def time_of(given: Any) -> datetime | None:
    """Return the time that a message states, or the first of its parts."""
    parts = read(given, "parts")
    holders = [given, *(parts[:1] if isinstance(parts, list) else ())]
    for holder in holders:
        for name in _TIME_FIELDS:
            found = read(holder, name)
            if isinstance(found, str):
                with suppress(ValueError, OverflowError):
                    found = datetime.fromisoformat(found)
            elif isinstance(found, (int, float)) and not isinstance(found, bool):
                found = _time_of_seconds(found)
            if isinstance(found, datetime):
                return _to_utc(found)
    return None


def _time_of_seconds(number: float) -> datetime | None:
    """Return the time that a number of seconds, or milliseconds, since 1970 stands for."""
    for unit in (1, 1000):
        if unit * _SECONDS.start <= number < unit * _SECONDS.stop:
            return datetime.fromtimestamp(number / unit, UTC)
    return None


def _to_utc(moment: datetime) -> datetime | None:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in the year 1 or 9999
        return None


def resolved(value: Any) -> Any:
    """Return a packed value as its content, if that can be read; any other value as it is."""
    return object_tree(value) if type(value) is Packed else value


def unwrapped(value: Any) -> Any:
    """Return a value without the forms in which frameworks store objects, for `messages`."""
    return _plain(value, ADAPTERS.objects())


def _plain(value: Any, forms: ObjectForms) -> Any:
    value = resolved(value)
    if type(value) is ForeignObject:
        return _plain(value.content, forms)
    if type(value) is dict:
        if (content := _content_of_object(value, forms)) is not value:
            return _plain(content, forms)
        found = {name: _plain(one, forms) for name, one in value.items()}
        if type(role := found.get("role")) is dict and "value" in role:
            found["role"] = role["value"]
        return found
    if type(value) in (list, tuple):
        return [_plain(one, forms) for one in value]
    return value


# --- The messages of a state ----------------------------------------------------------------------


def is_message(value: Any) -> bool:
    """Return whether a value looks like a message: it has a role, and content or calls."""
    value = shallow(value)
    if not isinstance(value, dict):
        return False
    if value.get("type") in ("reasoning", "function_call", "function_call_output"):
        return True
    try:
        if not role_of(value):
            return False
    except TypeError:  # an unhashable type of something else
        return False
    return (
        read(value, content_field(value)) is not None
        or isinstance(value.get("message"), dict)
        or bool(value.get("tool_calls"))
        or value.get("content", 0) is None
    )


def shallow(value: Any) -> Any:
    """Return a value as `unwrapped` does, without looking at what is in it."""
    forms = ADAPTERS.objects()
    while True:
        value = resolved(value)
        if type(value) is ForeignObject:
            value = value.content
        elif type(value) is dict and (content := _content_of_object(value, forms)) is not value:
            value = content
        else:
            break
    if type(value) is dict and type(role := value.get("role")) is dict:
        role = shallow(role)
        value = {**value, "role": role.get("value") if type(role) is dict else role}
    return value


def _content_of_object(value: dict[str, Any], forms: ObjectForms) -> Any:
    """Return the content of the object for which a dict stands; the dict itself for none."""
    for mark in forms:
        if mark in value and (content := forms[mark](value)) is not value:
            return content
    return value


def messages_of(state: Any, namespace: Sequence[str] = ()) -> tuple[Path, list[Any]] | None:
    """Return the messages of a state and the path to them; ``None`` if it has none.

    They are looked for under the usual names first, and then anywhere: the longest list counts.
    """
    state = _parse_if_json(shallow(state))
    if is_message_list(state):
        return (), list(shallow(state))
    if isinstance(state, dict):
        for view in views_of(namespace):
            if (declared := view.messages(state)) is not None:
                return declared
        for name in _NAMES:
            if name in state and is_message_list(state[name]):
                return (name,), list(shallow(state[name]))
    return _longest_message_list(state)


def _longest_message_list(state: Any) -> tuple[Path, list[Any]] | None:
    best: tuple[Path, list[Any]] | None = None
    queue: list[tuple[Path, Any]] = [((), state)]
    visited = 0
    while queue and visited < _VISITED:
        path, value = queue.pop(0)
        visited += 1
        value = _parse_if_json(shallow(value)) if len(path) <= 2 else shallow(value)
        if path and is_message_list(value):
            if best is None or len(value) > len(best[1]):
                best = path, list(value)
            continue
        if len(path) < _DEPTH:
            if isinstance(value, dict):
                queue += [((*path, name), one) for name, one in value.items() if _may_hold(one)]
            elif isinstance(value, (list, tuple)):
                queue += [((*path, at), one) for at, one in enumerate(value) if _may_hold(one)]
    return best


def _may_hold(value: Any) -> bool:
    if type(value) is Packed:
        return bool(value.data)
    return isinstance(value, (dict, list, tuple)) or type(value) is ForeignObject or _is_json(value)


def _is_json(value: Any) -> bool:
    return type(value) is str and value[:1] in ("{", "[") and len(value) < _JSON_TEXT


def _parse_if_json(value: Any) -> Any:
    """Return the value of a text that is JSON; any other value as it is."""
    if not _is_json(value):
        return value
    try:
        return parse_plain_json(value)
    except ValueError:
        return value


def is_message_list(value: Any) -> bool:
    """Return whether a value is a list of messages, as its first and last elements tell."""
    value = shallow(value)
    if not isinstance(value, (list, tuple)) or not value:
        return False
    some: Sequence[Any] = [*value[:_SAMPLE], *value[_SAMPLE:][-_SAMPLE:]]
    return 2 * sum(map(is_message, some)) > len(some)


def is_empty(value: Any) -> bool:
    """Return whether a value stands for a channel without a value."""
    return type(value) is Packed and value.format == EMPTY


def merge_writes(pieces: Sequence[Any]) -> Any:
    """Return the value that a channel's writes add up to: lists are joined, or the last counts.

    A message that has the id of an earlier one takes its place. LangChain's short form of one, a
    role and a text, is spelt out.
    """
    joined: list[Any] = []
    places: dict[Any, int] = {}
    for piece in pieces:
        listed = isinstance(piece, list) and not _is_role_with_text(piece)
        for one in map(_spell_out, piece if listed else [piece]):
            known = unwrapped(one)
            id_ = known.get("id") if isinstance(known, dict) else None
            if isinstance(id_, str) and id_ in places:
                joined[places[id_]] = one
                continue
            if isinstance(id_, str):
                places[id_] = len(joined)
            joined.append(one)
    return joined


_SHORT_ROLES = SYSTEM_ROLES | {"user", "assistant", "human", "ai"}
"""Names of roles in LangChain's short form of a message."""


def _is_role_with_text(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(type(one) is str for one in value)
        and value[0] in _SHORT_ROLES
    )


def _spell_out(value: Any) -> Any:
    if not _is_role_with_text(value):
        return value
    role, text = value
    return {"role": role_of({"type": role}) or role, "content": text}

"""Stored values as values of tables: texts that every reader takes, JSON, and namespaces."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from memalchemy._json_types import spell_value, to_json_types
from memalchemy.adapters import ADAPTERS
from memalchemy.codec.foreign_msgpack import ForeignObject
from memalchemy.contracts import Packed
from memalchemy.stored_messages import unwrapped


def text(value: str | None) -> str | None:
    """Return a text that is UTF-8, which one with lone surrogates is not."""
    if value is None or value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def json_text(value: Any) -> str | None:
    """Return a value as JSON; ``None`` of ``None``.

    Objects of frameworks become their content, dates and decimals text, bytes base64, and sets
    lists.
    """
    if value is None:
        return None
    plain = unwrapped(value)
    try:
        return orjson.dumps(plain, default=_to_json_type, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, orjson.JSONEncodeError, RecursionError):  # lone surrogates, large integers
        return json.dumps(_plain_tree(plain), ensure_ascii=True)


def _to_json_type(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=spell_value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if type(value) is Packed:
        return _to_json_type(value.data)
    if type(value) is ForeignObject:
        return value.content
    return str(value)


def _plain_tree(value: Any) -> Any:
    """Return a value of JSON's types alone, for what orjson refuses."""
    if isinstance(value, dict):
        return {str(key): _plain_tree(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_tree(one) for one in value]
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return to_json_types(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    return _plain_tree(_to_json_type(value))


def adapter_root_of(namespace: tuple[str, ...]) -> str | None:
    """Return the root of the adapter to which a namespace belongs; ``None`` of one's own."""
    declared = ADAPTERS.of(namespace)
    return None if declared is None else declared.root

"""Parsers of option values: durations, metadata, namespaces, versions, JSON.

Each raises a `UsageError` that shows how the value is written.
"""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from memalchemy import _bounds as bounds
from memalchemy import keys
from memalchemy.cli import ctrl_c
from memalchemy.cli.usage_errors import UsageError, usage_errors

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_duration(text: str) -> timedelta:
    """Parse ``30d``, ``12h``, ``90m``, ``45s`` or ``2w``."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a duration; write 30d, 12h, 90m, 45s or 2w")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise UsageError(f"the duration {text!r} is too long") from None


def parse_metadata(pairs: list[str] | None) -> dict[str, Any] | None:
    """Parse ``key=value`` pairs. A value that is not JSON is a string."""
    if not pairs:
        return None
    metadata: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{pair!r} is not metadata; write KEY=VALUE, such as customer=42")
        try:
            metadata[key] = bounds.parse_strict_json(value)
        except bounds.NumberTooLarge as error:
            raise UsageError(f"{pair!r} is not metadata: {error}") from None
        except (ValueError, RecursionError):
            metadata[key] = value
    return metadata


def parse_namespace(text: str) -> tuple[str, ...]:
    """Parse a namespace such as ``users/ada``."""
    with usage_errors():
        return keys.parse_namespace(text)


format_namespace = keys.format_namespace


def parse_version(text: str) -> int | None:
    """Parse the version of an item; ``none`` is ``None``."""
    if text == "none":
        return None
    if not re.fullmatch("[1-9][0-9]{0,17}", text):
        raise UsageError(f"{text!r} is not a version; write a number such as 3, or none")
    return int(text)


def parse_sample(text: str) -> int | float | None:
    """Parse a number of states such as ``100``, or a share such as ``5%``; all are no sample."""
    if re.fullmatch(r"[1-9]\d*", text):
        return int(text)
    share = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
    if share is not None and 0 < float(share[1]) <= 100:
        return float(share[1]) / 100 if float(share[1]) < 100 else None
    raise UsageError(f"{text!r} is not a sample; write a number such as 100, or a share such as 5%")


def parse_json(text: str, name: str, hint: str = "") -> Any:
    """Parse *text* as JSON; errors call it *name* and end with *hint*."""
    try:
        return bounds.parse_strict_json(text)
    except RecursionError:
        raise UsageError(f"{name} is nested too deep") from None
    except ValueError as error:
        raise UsageError(f"{name} is not JSON ({error}){hint}") from None


def parse_json_object(text: str | None, name: str) -> dict[str, Any] | None:
    """Parse *text* as a JSON object; ``None`` stays ``None``."""
    if text is None:
        return None
    value = parse_json(text, name)
    if not isinstance(value, dict):
        raise UsageError(f'{name} must be a JSON object, such as \'{{"kind": "note"}}\'')
    return value


def read_text_argument(text: str) -> str:
    """Return *text*, or for ``@FILE`` the content of the file, or for ``-`` that of stdin."""
    if text.startswith("@"):
        return read_text_file(text[1:])
    if text != "-":
        return text
    try:
        with ctrl_c.ctrl_c_raises():
            return sys.stdin.buffer.read().decode()
    except OSError as error:
        raise UsageError(f"cannot read stdin: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError("stdin is not UTF-8") from None


def read_text_file(file: str | Path) -> str:
    """Return the content of *file*."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8") from None

"""Arguments that are more than a word: durations, metadata, namespaces, JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from memalchemy.cli import ctrl_c
from memalchemy.cli.command import asking_for_sense
from memalchemy.cli.exits import UsageProblem
from memalchemy.keys import encode_namespace, parse_namespace

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """Read ``30d``, ``12h``, ``90m``, ``45s`` or ``2w``."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageProblem(f"{text!r} is not a duration; write 30d, 12h, 90m, 45s or 2w")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise UsageProblem(f"{text!r} is too long a duration") from None


def metadata(pairs: list[str] | None) -> dict[str, Any] | None:
    """Read ``key=value`` pairs. A value that is JSON is that value, any other is a text."""
    if not pairs:
        return None
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageProblem(f"{pair!r} is not key=value")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def namespace(text: str) -> tuple[str, ...]:
    """Read a namespace, as `parse_namespace` does."""
    with asking_for_sense():
        return parse_namespace(text)


def spelt(parts: Iterable[str]) -> str:
    """The inverse of `namespace`, as short as it can be."""
    path = encode_namespace(parts)
    awkward = path.startswith("//") or path.endswith("//") or path == "/"
    return path if awkward else path[1:-1]


def json_value(text: str, what: str, hint: str = "") -> Any:
    """Read *text* as JSON."""
    try:
        return json.loads(text, parse_constant=_no_json)
    except RecursionError:
        raise UsageProblem(f"{what} is nested too deep") from None
    except ValueError as error:
        raise UsageProblem(f"{what} is not JSON ({error}){hint}") from None


def json_object(text: str | None, what: str) -> dict[str, Any] | None:
    """Read *text* as a JSON object."""
    if text is None:
        return None
    found = json_value(text, what)
    if not isinstance(found, dict):
        raise UsageProblem(f'{what} is a JSON object, such as \'{{"kind": "note"}}\'')
    return found


def contents(text: str) -> str:
    """*text* itself; of ``@FILE`` what is in the file, of ``-`` what comes from stdin."""
    try:
        if text == "-":
            with ctrl_c.at_once():
                return sys.stdin.buffer.read().decode()
        if text.startswith("@"):
            return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"cannot read {text[1:]}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageProblem(f"{'stdin' if text == '-' else text[1:]} is not UTF-8") from None
    return text


def version(text: str) -> int | None:
    """Read a version; ``none`` is ``None``."""
    if text == "none":
        return None
    if not re.fullmatch("[1-9][0-9]{0,17}", text):
        raise UsageProblem(f"{text!r} is not a version; write 3, or none for an item that is new")
    return int(text)


def _no_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")

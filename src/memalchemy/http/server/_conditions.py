"""Entity tags, and the conditions of a request: If-Match and If-None-Match (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.datastructures import Headers

from memalchemy.contracts import StoreItem
from memalchemy.errors import Conflict
from memalchemy.http.server._problems import Problem

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_TAGS = re.compile(rf"\s*{_TAG.pattern}\s*(?:,\s*{_TAG.pattern}\s*)*")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a request. Each is the entity tags of a header; ``*`` stands for any."""

    if_match: frozenset[str] | None = None
    if_none_match: frozenset[str] | None = None

    @classmethod
    def of(cls, headers: Headers) -> Conditions:
        """Return the conditions of a request.

        Raises:
            Problem: a header is not a list of entity tags (400).
        """
        return cls(_parse_tags(headers.get("if-match")), _parse_tags(headers.get("if-none-match")))

    def __bool__(self) -> bool:
        return self.if_match is not None or self.if_none_match is not None

    def is_unchanged(self, tag: str) -> bool:
        """Return whether a reader has what *tag* names, so that a 304 is enough."""
        return self.if_none_match is not None and _includes_tag(self.if_none_match, tag)

    def check(self, tag: str | None) -> None:
        """Check the conditions of a write; *tag* is that of what is stored, ``None`` if nothing is.

        Raises:
            Problem: one of them does not hold (412).
        """
        if self.if_match is not None and not _includes_tag(self.if_match, tag):
            what = "nothing is there" if tag is None else "something else is there by now"
            raise precondition_failed(f"{what}, and If-Match names another; nothing was done", tag)
        if self.if_none_match is not None and _includes_tag(self.if_none_match, tag):
            raise precondition_failed("it is there already; nothing was done", tag)


def precondition_failed(detail: str, tag: str | None) -> Problem:
    """Return the problem of a condition that does not hold; the client raises `Conflict`."""
    headers = {} if tag is None else {"ETag": tag}
    return Problem(412, detail, code=Conflict.code, error="Conflict", current=tag, headers=headers)


def precondition_required() -> Problem:
    """Return the problem of a write without a condition, where the server requires one."""
    return Problem(
        428,
        "this server replaces nothing that you have not seen: send If-Match with the ETag of what "
        "you read, or If-None-Match: * for what is new; nothing was done",
    )


def tag_of_checkpoint(info: Mapping[str, Any]) -> str:
    """Return the entity tag of a checkpoint. One that is replaced gets another position."""
    return _entity_tag(info["seq"], info["created_at"])


def tag_of_item(item: StoreItem) -> str:
    """Return the entity tag of an item."""
    return _entity_tag(item.version, item.updated_at)


def _entity_tag(number: int, time: datetime) -> str:
    return f'"{number}-{int(time.timestamp() * 1_000_000):x}"'


def _includes_tag(tags: frozenset[str], tag: str | None) -> bool:
    return tag is not None and ("*" in tags or tag in tags)


def _parse_tags(header: str | None) -> frozenset[str] | None:
    if header is None:
        return None
    if header.strip() == "*":
        return frozenset({"*"})
    if not _TAGS.fullmatch(header):
        raise Problem(400, 'If-Match and If-None-Match are *, or entity tags: "one", "two"')
    return frozenset(_TAG.findall(header))

"""JSON pointers (RFC 6901): the names of fields in states, items and metadata."""

from __future__ import annotations


def pointer(path: str, step: str | int) -> str:
    """Extend a JSON pointer by one step."""
    name = str(step)
    if "~" in name or "/" in name:
        name = name.replace("~", "~0").replace("/", "~1")
    return f"{path}/{name}"


def pointer_of(field: str) -> str:
    """Return the JSON pointer of a field, which is a pointer already or a top-level key."""
    return field if field.startswith("/") else pointer("", field)

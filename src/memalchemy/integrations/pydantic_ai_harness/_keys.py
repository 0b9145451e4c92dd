"""Keys of items for ids of any length."""

from __future__ import annotations

import hashlib

LONGEST = 120
"""The longest id that is a key itself: entries' keys have up to 128 characters as stored."""


def key_of(id_: str) -> str:
    """Return an id as a key: itself, or a digest of a long or an odd one."""
    is_plain = id_.isascii() and id_.isprintable() and not id_.startswith("#")
    if 0 < len(id_) <= LONGEST and is_plain:
        return id_
    return "#" + hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()

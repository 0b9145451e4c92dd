"""Texts that filters compare and no search by words finds, such as ids.

They were stored as they are before. Such rows are still read, and found by equality.
"""

from __future__ import annotations

from collections.abc import Iterable

_START = 0xE000
"""The first character of Unicode's private use area, whose characters are part of no word."""


def wordless(text: str) -> str:
    """Return *text* so that it holds no words: a private character for each byte of its UTF-8.

    Two such texts are equal, ordered and contained in each other as the texts themselves are.
    """
    return "".join([chr(_START + byte) for byte in text.encode("utf-8", "surrogatepass")])


def stored_forms(texts: Iterable[str]) -> list[str]:
    """Return the texts that rows have for any of *texts*: without words, and as it was before."""
    return [form for text in texts for form in (wordless(text), text)]


def plain_name(stored: str | bytes) -> str:
    """Return a name that is stored as bytes, which have no words; it was a text before."""
    return stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored

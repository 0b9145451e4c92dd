"""Texts that filters compare and no search by words finds, such as ids."""

from __future__ import annotations

_START = 0xE000
"""The first character of Unicode's private use area, whose characters are part of no word."""


def wordless(text: str) -> str:
    """Return *text* so that it holds no words: a private character for each byte of its UTF-8.

    Two such texts are equal, ordered and contained in each other as the texts themselves are.
    """
    return "".join([chr(_START + byte) for byte in text.encode("utf-8", "surrogatepass")])

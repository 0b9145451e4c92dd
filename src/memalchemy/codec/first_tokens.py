"""Tokens of version 1, which rows have whose words were not rebuilt: see `codec.tokens`.

A character of Chinese, Japanese or Korean was a token, words of Thai and its neighbours were not
told apart, and the vowel signs of Indic scripts were dropped. Nothing is written by these rules any
more.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Any

from memalchemy.codec.tokens import MAX_TOKEN, Term, lowered

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_VOICING_MARKS = "\u3099\u309a"


def first_tokens(text: str) -> list[str]:
    """Return the tokens that version 1 made of *text*, in order."""
    folded = _BEYOND_ASCII.sub(_folded, text)
    found = (token if token.isascii() else token.casefold() for token in _token().findall(folded))
    return [token for token in found if len(token) <= MAX_TOKEN]


def first_query_terms(query: str) -> list[Term]:
    """Return the distinct terms that find in words of version 1 what *query* asks for."""
    return list(dict.fromkeys(Term(lowered(token)) for token in first_tokens(query)))


# Compiled on first use, as the patterns of `codec.tokens` are.


@cache
def _token() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")


@cache
def _cjk() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]")


def _folded(run: re.Match[str]) -> str:
    decomposed = unicodedata.normalize("NFKD", run[0])
    return unicodedata.normalize("NFC", decomposed.translate(_FOLDS))


class _Folds(dict[int, Any]):
    """Table for `str.translate` that looks up each character in Unicode's tables once."""

    def __missing__(self, code: int) -> int | str | None:
        character, category = chr(code), unicodedata.category(chr(code))
        fold: int | str | None = code
        if category == "Mn" and character not in _VOICING_MARKS:
            fold = None
        elif category[0] != "M" and not character.isalnum() and not _cjk().match(character):
            fold = " "
        self[code] = fold
        return fold


_FOLDS = _Folds()

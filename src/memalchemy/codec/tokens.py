"""Tokens: the words of a text as the text indexes hold them, and the terms of a query.

Every database is given the same tokens, joined by spaces, so that FTS5, tsvector and Oracle Text
agree about what matches. How a text is cut depends on its script:

- Scripts with spaces between words: a token is a word. Case, accents, strokes, digits of other
  scripts and presentation forms are folded; the vowel signs of Indic scripts are no accents.
- Chinese, Japanese and Korean: a token is a pair of neighbouring characters. The last character of
  a run is a token of its own, so that each character begins one token.
- Thai, Lao, Khmer, Burmese and their relatives: the same with clusters, a consonant with its signs.
- An emoji is a token, named by its code point.

A query is cut alike. A run of characters asks for its pairs; one character alone asks for the
tokens that begin with it. Where ICU finds words in the run, each word is a run of its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from memalchemy.codec.word_borders import split_at_borders

TOKENIZER = 2
"""The version of these rules. Words that another version has made are not found by this one."""

MAX_TOKEN = 100
"""Characters of the longest token: longer runs are encodings and hashes."""

_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_ASCII_WORDS = "".join(chr(c) if chr(c).isalnum() else " " for c in range(128))
"""A table for `str.translate` that leaves letters and digits of ASCII, with spaces between."""
_WORDS = re.compile(r"[^\x00-/:-@\[-`{-\x7f]+")
"""Runs of folded text: whatever is beyond ASCII in it is a part of a word."""

_PAIRED = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f"
    "\U00020000-\U000323af"
)
"""Han, kana and Hangul: neighbouring characters make tokens in pairs."""

_CLUSTERED = (
    "\u0e01-\u0e2f\u0e30-\u0eff\u1000-\u109f\u1780-\u17dc\u1950-\u19df\u1a20-\u1aad\ua9e0-\ua9fe"
    "\uaa60-\uaadf"
)
"""Thai, Lao, Burmese, Khmer, Tai Le, Tai Lue, Tai Tham and Tai Viet: clusters make the pairs."""

_LEADING = "\u0e40-\u0e44\u0ec0-\u0ec4\uaab5\uaab6\uaab9\uaabb\uaabc"
"""Vowels of these scripts that stand before the consonant to which they belong."""
_FOLLOWING = "\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3\u0ebd\uaab1\uaaba\uaabd"
"""Vowels that stand behind it and are letters for Unicode, not marks."""
_STACKING = "\u1039\u17d2\u1a60"
"""Signs that put the next consonant below the one before."""

_ZWNJ = "\u200c"
_EMOJI = re.compile(
    "[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)

_KEPT_CLASSES = frozenset({0, 8, 9, 84, 91, 103, 107, 118, 122, 129, 130, 132})
"""The combining classes of marks that make another word: vowel signs, viramas, tones of Thai and
Lao, and the voicing of kana. Accents, points of Hebrew and Arabic, and the nukta have others."""
_KEPT_MARKS = frozenset("\u1037\u0c55\u0c56")
"""Marks that belong to these by their use and not by their class: a tone of Burmese, and vowels of
Telugu."""

_ALIKE = {
    "æ": "ae",
    "œ": "oe",
    "ß": "ss",
    "þ": "th",
    "ð": "d",
    "ŋ": "ng",
    "ı": "i",
    "ȷ": "j",
    "ə": "e",
    "ĸ": "k",
    # One letter for each that keyboards of Arabic, Persian and Urdu write in several ways.
    "\u0649": "\u064a",
    "\u06cc": "\u064a",
    "\u06a9": "\u0643",
    "\u06c1": "\u0647",
    "\u0629": "\u0647",
    "\u0640": "",  # the tatweel stretches a word
}
"""Letters that are written in place of others, beside those that Unicode decomposes."""

_VARIED_LETTER = re.compile("LATIN SMALL LETTER ([A-Z]) WITH ")


def tokens(text: str) -> list[str]:
    """Return the tokens of *text*, in order.

    Those of ASCII letters keep their case, which every database folds; others are casefolded.
    """
    if not text.isascii():
        text = _fold(text)
    if text.isascii():
        found = text.translate(_ASCII_WORDS).split()
    else:
        pieces = _WORDS.findall(text)
        if _unspaced().search(text) is None:
            found = [piece if piece.isascii() else piece.casefold() for piece in pieces]
        else:
            found = [token for piece in pieces for token in _tokens_of(piece)]
    if found and max(map(len, found)) > MAX_TOKEN:
        return [token for token in found if len(token) <= MAX_TOKEN]
    return found


def _tokens_of(piece: str) -> Iterator[str]:
    for units, word in runs(piece):
        if units:
            yield from map("".join, pairwise(units))
            yield units[-1]
        else:
            yield word


class Term(NamedTuple):
    """Something that a query asks for: a token, or any token that begins with *text*."""

    text: str
    prefix: bool = False


def query_terms(query: str) -> list[Term]:
    """Return the distinct terms of a query, in order. No character of it is an operator."""
    if not isinstance(query, str):
        raise TypeError(f"query is a str, not {type(query).__name__}")
    found: dict[Term, None] = {}
    if query.isascii():
        found = dict.fromkeys(map(Term, tokens(query.lower())))
        return list(found)
    folded = _fold(query)
    for piece in _WORDS.findall(folded):
        for units, word in runs(piece):
            for one in split_at_borders(units) if units else ():
                found |= dict.fromkeys(_terms_of_run(one))
            if word and len(word) <= MAX_TOKEN:
                found[Term(lowered(word))] = None
    return list(found)


def _terms_of_run(units: list[str]) -> list[Term]:
    if len(units) == 1:
        return [Term(units[0], prefix=True)]
    return [Term(pair) for pair in map("".join, pairwise(units))]


def runs(piece: str) -> Iterator[tuple[list[str], str]]:
    """Yield the runs of a piece of folded text: the units of one without spaces, or a word.

    The units are characters or clusters, of which two neighbours are a token.
    """
    if piece.isascii():
        yield [], piece
        return
    for run in _unspaced_runs().finditer(piece):
        if run["paired"]:
            yield list(run["paired"]), ""
        elif run["clustered"]:
            yield _cluster().findall(run["clustered"]), ""
        else:
            word = run["word"]
            yield [], word if word.isascii() else word.casefold()


# Compiled on first use: these character classes take as long as all other imports.


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{_PAIRED}{_CLUSTERED}]")


@cache
def _clustered() -> re.Pattern[str]:
    return re.compile(f"[{_CLUSTERED}]")


@cache
def _unspaced_runs() -> re.Pattern[str]:
    return re.compile(
        f"(?P<paired>[{_PAIRED}]+)|(?P<clustered>[{_CLUSTERED}]+)|(?P<word>[^{_PAIRED}{_CLUSTERED}]+)"
    )


@cache
def _cluster() -> re.Pattern[str]:
    marks = "".join(
        character
        for code in range(0xE00, 0xAAE0)
        if _clustered().match(character := chr(code)) and unicodedata.category(character)[0] == "M"
    )
    attached = f"[{_STACKING}][^{marks}]|[{marks}{_FOLLOWING}]"
    return re.compile(f"[{_LEADING}]?[^{_LEADING}](?:{attached})*|[{_LEADING}]")


# --- Parts of a text as it is written -------------------------------------------------------------


def lowered(token: str) -> str:
    """Return a token as terms have it: only those of ASCII letters keep their case."""
    return token.lower() if token.isascii() else token


def fold_character(character: str) -> str:
    """Return what stands for a character in tokens: a space if it is in none, or nothing."""
    if character.isascii():
        return character if character.isalnum() else " "
    return _FOLDS[ord(character)]


def is_unspaced(character: str) -> bool:
    """Return whether a character is of a script whose tokens are pairs."""
    return not character.isascii() and _unspaced().match(character) is not None


def units_of(text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield where the units of a run without spaces begin and end, in a text in NFC."""
    at = low
    while at < high:
        cluster = _cluster().match(text, at, high) if _clustered().match(text, at) else None
        end = at + 1 if cluster is None else cluster.end()
        while end < high and not fold_character(text[end]):
            end += 1
        yield at, end
        at = end


# --- Folding --------------------------------------------------------------------------------------


def _fold(text: str) -> str:
    """Fold what is beyond ASCII; what is beyond ASCII afterwards is a part of a word."""
    if _MARKED.search(text):
        return _fold_runs(text)
    changed: list[tuple[str, str]] = []
    for character in set("".join(_BEYOND_ASCII.findall(text))):
        folded = _FOLDS_ALONE[character]
        if folded is None:
            return _fold_runs(text)
        if folded != character:
            changed.append((character, folded))
    if len(changed) > _MANY:
        return _fold_runs(text)
    for character, folded in changed:
        text = text.replace(character, folded)
    return text


_MARKED = re.compile("[\u0900-\u0dff\u0e00-\u109f\u1780-\u17ff]")
"""Scripts of India and of Southeast Asia, whose words have marks, which may be composed."""
_MANY = 40
"""Different characters of a text from which on it is faster to fold run after run."""


def _fold_runs(text: str) -> str:
    # No mark that is kept composes with an ASCII letter, so each run can be folded by itself.
    return _BEYOND_ASCII.sub(_folded, text)


def _folded(run: re.Match[str]) -> str:
    composed = unicodedata.normalize("NFC", run[0])
    if _ZWNJ in composed:
        composed = _between_arabic_letters().sub(" ", composed)
    return unicodedata.normalize("NFC", composed.translate(_FOLDS))


@cache
def _between_arabic_letters() -> re.Pattern[str]:
    """The sign with which Persian parts what it writes as one word."""
    return re.compile("(?<=[\u0600-\u08ff])\u200c(?=[\u0600-\u08ff])")


class _Folds(dict[int, str]):
    """Table for `str.translate` that looks up each character in Unicode's tables once."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize(
            "NFC", "".join(map(_fold_part, unicodedata.normalize("NFKD", chr(code))))
        )
        self[code] = folded
        return folded


_FOLDS = _Folds()


class _FoldsAlone(dict[str, str | None]):
    """The form of a character that no neighbour changes; ``None`` for one that may be composed.

    Nothing of it is folded again, so that characters can be replaced in any order.
    """

    def __missing__(self, character: str) -> str | None:
        folded = _FOLDS[ord(character)]
        is_selector = "\ufe00" <= character <= "\ufe0f"  # of the form of an emoji
        depends = character == _ZWNJ or (_is_part(character) and not is_selector)
        for one in folded:
            depends = depends or _is_part(one) or (not one.isascii() and _FOLDS[ord(one)] != one)
        found = self[character] = None if depends else folded
        return found


def _is_part(character: str) -> bool:
    """Return whether it may be composed with one before it: a mark, or a part of Hangul."""
    return unicodedata.category(character)[0] == "M" or "\u1100" <= character <= "\u11ff"


_FOLDS_ALONE = _FoldsAlone()


def _fold_part(character: str) -> str:
    """Return what stands for a character that Unicode does not decompose further."""
    category = unicodedata.category(character)
    if category in ("Cf", "Me"):
        return ""
    if category == "Mn":
        return character if _makes_another_word(character) else ""
    if category == "Mc":
        return character
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category[0] in "LN":
        return _fold_letter(character)
    if _EMOJI.match(character):
        return f" {_emoji_token(character)} "
    return "" if "\U0001f3fb" <= character <= "\U0001f3ff" else " "


def _emoji_token(character: str) -> str:
    return f"u{ord(character):x}"


def emoji_of(token: str) -> str | None:
    """Return the emoji that a token stands for, if it is one's."""
    if re.fullmatch("u[0-9a-f]{4,5}", token) and _EMOJI.match(emoji := chr(int(token[1:], 16))):
        return emoji
    return None


def _makes_another_word(mark: str) -> bool:
    if mark in _KEPT_MARKS:
        return True
    is_invisible = mark == "\u034f" or "VARIATION SELECTOR" in unicodedata.name(mark, "")
    return unicodedata.combining(mark) in _KEPT_CLASSES and not is_invisible


def _fold_letter(letter: str) -> str:
    small = letter.lower()
    if small in _ALIKE:
        return _ALIKE[small] if small == letter else _ALIKE[small].title()
    if letter.isascii():
        return letter
    if varied := _VARIED_LETTER.match(unicodedata.name(small[:1], "")):
        return varied[1].lower() if small == letter else varied[1]
    return letter

"""Search text: the words of a row that a text index holds, and the words of a query.

Search text is tokens joined by spaces. Punctuation is removed, accents are folded, and Chinese,
Japanese and Korean characters stand alone, so that FTS5, tsvector and Oracle Text see the same
words and agree about what matches.

The last part of the module finds the texts: all those of a value, and those that a state has and
the state before it had not.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import ormsgpack

from memalchemy._bounds import parse_plain_json, unpack
from memalchemy.codec import foreign_msgpack
from memalchemy.codec.deltas import Comparison, added, edits
from memalchemy.codec.values import TAGGED, Parts, decode_state
from memalchemy.contracts import Packed

MAX_TEXT = 200_000
"""Characters of the search text of a row: PostgreSQL refuses a tsvector of over 1 MB."""

MAX_TOKEN = 100
"""Characters of the longest token: longer runs are encodings and hashes."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_ASCII_WORDS = "".join(chr(c) if chr(c).isalnum() else " " for c in range(128))
"""A table for `str.translate` that leaves letters and digits of ASCII, with spaces between."""
_VOICING_MARKS = "\u3099\u309a"


# Compiled on first use: these large character classes take as long as all other imports.
@cache
def _token_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")


@cache
def _cjk_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}]")


# --- Words ----------------------------------------------------------------------------------------


def search_text(texts: Iterable[str]) -> str | None:
    """Return the search text of *texts*, cut to `MAX_TEXT` characters; ``None`` without words."""
    pieces: list[str] = []
    room = MAX_TEXT
    for text in _join_short_texts(texts):
        piece = " ".join(tokens(text))
        if len(piece) >= room:
            # No word is cut in two.
            cut = piece.rfind(" ", 0, room)
            pieces.append(piece[: max(cut, 0)])
            break
        if piece:
            pieces.append(piece)
            room -= len(piece) + 1
    return " ".join(filter(None, pieces)) or None


def _join_short_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield *texts*, short ones together: their words are found faster than one by one.

    A text beyond ASCII stays alone, because it takes a slower way.
    """
    together: list[str] = []
    size = 0
    for text in texts:
        if text.isascii() and len(text) < _TOGETHER:
            together.append(text)
            size += len(text)
            if size < _TOGETHER:
                continue
            text = ""
        if together:
            yield " ".join(together)
            together, size = [], 0
        if text:
            yield text
    if together:
        yield " ".join(together)


_TOGETHER = 4096
"""Characters from which a text, or those gathered before it, are split by themselves."""


def tokens(text: str) -> list[str]:
    """Return the tokens of *text*, in order: words, numbers, and single CJK characters."""
    if text.isascii():
        found = text.translate(_ASCII_WORDS).split()
    else:
        folded = _fold_text(text)
        if folded.isascii():
            return tokens(folded)
        found = [
            token if token.isascii() else token.casefold()
            for token in _token_pattern().findall(folded)
        ]
    if found and max(map(len, found)) > MAX_TOKEN:
        return [token for token in found if len(token) <= MAX_TOKEN]
    return found


def query_terms(query: str, limit: int = 32) -> list[list[str]]:
    """Split a query into terms, each a phrase of tokens, most of which are one token long.

    Neighbouring CJK characters are one phrase, because they are one word. No character of the query
    is an operator. Return at most *limit* distinct terms.
    """
    if not isinstance(query, str):
        raise TypeError(f"query is a str, not {type(query).__name__}")
    terms: dict[tuple[str, ...], None] = {}
    for word in query.split():
        phrase: list[str] = []
        for token in tokens(word):
            if is_cjk(token):
                phrase.append(token)
                continue
            if phrase:
                terms[tuple(phrase)] = None
                phrase = []
            terms[(_lower_ascii(token),)] = None
        if phrase:
            terms[tuple(phrase)] = None
        if len(terms) >= limit:
            break
    return [list(term) for term in list(terms)[:limit]]


def _lower_ascii(token: str) -> str:
    # Other tokens are casefolded already, which for a few scripts differs from lower().
    return token.lower() if token.isascii() else token


def is_cjk(token: str) -> bool:
    """Return whether *token* is a single Chinese, Japanese or Korean character."""
    return len(token) == 1 and _cjk_pattern().match(token) is not None


def snippet(text: str, terms: Iterable[list[str]], width: int = 24) -> str:
    """Return about *width* tokens of a search text, around the first that is one of *terms*."""
    wanted = {token for term in terms for token in term}
    words = text.split(" ")
    hit = next((i for i, word in enumerate(words) if _lower_ascii(word) in wanted), 0)
    first = max(0, hit - width // 3)
    shown = words[first : first + width]
    out = ["…"] if first else []
    for i, word in enumerate(shown):
        if i and not (is_cjk(word) and is_cjk(shown[i - 1])):
            out.append(" ")
        out.append(word)
    if first + width < len(words):
        out.append("…")
    return "".join(out)


SNIPPET = 200
"""Characters of a highlighted snippet, about."""

_SCANNED = 20_000
"""Characters of a text beyond ASCII in which the first match is looked for."""


def highlighted(
    text: str, terms: Iterable[list[str]], width: int = SNIPPET
) -> list[dict[str, Any]]:
    """Return about *width* characters of a text around its first match, in pieces.

    A piece is ``{"text": …, "hit": bool}``: words of *terms* are hits, found as a search finds
    them, whatever their case and accents. Unlike `snippet`, it takes any text.
    """
    wanted = {token for term in terms for token in term}
    hits = _hits_in(text, wanted)
    first = next(hits, (0, 0))
    start = max(0, first[0] - width // 3)
    if start:
        space = text.find(" ", start, first[0])
        start = start if space < 0 else space + 1
    end = min(len(text), start + width)
    pieces = [{"text": "…", "hit": False}] if start else []
    at = start
    found = [first] if first[1] else []
    if found:
        found += [hit for hit in _hits_in(text[start:end], wanted, start) if hit[0] >= first[1]]
    for low, high in found:
        if low > at:
            pieces.append({"text": text[at:low], "hit": False})
        pieces.append({"text": text[low:high], "hit": True})
        at = high
    if at < end:
        pieces.append({"text": text[at:end], "hit": False})
    if max(at, end) < len(text):
        pieces.append({"text": "…", "hit": False})
    return pieces


def _hits_in(text: str, wanted: set[str], offset: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where the words of *text* begin and end that are *wanted* tokens."""
    if text.isascii():
        words = "|".join(sorted(map(re.escape, filter(str.isascii, wanted)), key=len, reverse=True))
        if words:
            pattern = f"(?<![0-9A-Za-z])(?:{words})(?![0-9A-Za-z])"
            for match in re.finditer(pattern, text, re.IGNORECASE):
                yield match.start() + offset, match.end() + offset
        return
    for match in _word_pattern().finditer(text, 0, _SCANNED):
        if any(_lower_ascii(token) in wanted for token in tokens(match[0])):
            yield match.start() + offset, match.end() + offset


@cache
def _word_pattern() -> re.Pattern[str]:
    """A word as it is written: its accents may be characters of their own."""
    return re.compile(f"[{_CJK}]|[^\\W_{_CJK}](?:[^\\W_{_CJK}]|[\u0300-\u036f])*")


def item_search_text(value: Any, metadata: Mapping[str, Any]) -> str | None:
    """Return the search text of an item, its metadata included; ``None`` without words."""
    return search_text(_texts_in((value, dict(metadata))))


def may_be_item_search_text(stored: str | None, value: Any, metadata: Mapping[str, Any]) -> bool:
    """Return whether *stored* can be the `item_search_text` of an item.

    ``None`` can, because an item need not be indexed. The order of words is not compared: a
    database may return metadata in another order.
    """
    if stored is None:
        return True
    pieces = [" ".join(tokens(text)) for text in _texts_in((value, dict(metadata)))]
    if sum(len(piece) + 1 for piece in pieces) < MAX_TEXT:
        return Counter(stored.split()) == Counter(" ".join(pieces).split())
    return set(stored.split()) <= set(" ".join(pieces).split())  # the end was cut off


def joined_texts(*values: Any) -> str:
    """Return the texts of values in which a search looks for words, with a dot between them.

    At most about `MAX_TEXT` characters of them.
    """
    found: list[str] = []
    room = MAX_TEXT
    for text in _texts_in(values):
        found.append(text[:room])
        room -= len(text)
        if room <= 0:
            break
    return " · ".join(found)


def _fold_text(text: str) -> str:
    """Fold compatibility forms and drop accents; Hangul and voiced kana stay whole."""
    # No mark that is kept composes with an ASCII letter, so each run can be folded by itself.
    return _BEYOND_ASCII.sub(_fold_match, text)


def _fold_match(run: re.Match[str]) -> str:
    decomposed = unicodedata.normalize("NFKD", run[0])
    return unicodedata.normalize("NFC", decomposed.translate(_FOLDS))


class _Folds(dict[int, Any]):
    """Table for `str.translate` that looks up each character in Unicode's tables once.

    It removes accents and replaces characters that are in no word with a space, so that most texts
    are ASCII afterwards.
    """

    def __missing__(self, code: int) -> int | str | None:
        character, category = chr(code), unicodedata.category(chr(code))
        fold: int | str | None = code
        if category == "Mn" and character not in _VOICING_MARKS:
            fold = None
        elif category[0] != "M" and not character.isalnum() and not is_cjk(character):
            fold = " "
        self[code] = fold
        return fold


_FOLDS = _Folds()


# --- Texts ----------------------------------------------------------------------------------------


def added_texts(state: Mapping[str, Any], new: Parts, parent: Comparison | None) -> Iterator[str]:
    """Yield the texts that a state has and its parent had not; all texts without a parent.

    *new* is the encoded *state*. Where states grow at the end, as histories do, the time depends on
    what was added and not on the size of the state.
    """
    for key, encoded in new.items():
        old = None if parent is None else parent.parts.get(key)
        if old is encoded or old == encoded:
            continue
        tagged = encoded[:1] == TAGGED
        if tagged and (place := foreign_msgpack.find_packed_content(encoded)) is not None:
            # Such keys hold what a framework keeps for itself.
            if not key.startswith(("~", "__")):
                yield from _texts_in(foreign_msgpack.added_packed_texts(encoded, *place, old))
            continue
        value = unpack(encoded) if tagged else state[key]
        if not _may_hold_text(value):
            continue
        parts = [value]
        if parent is not None and old is not None:
            if tagged or old[:1] == TAGGED:
                encoded = encoded.removeprefix(TAGGED)
                changes = edits(old.removeprefix(TAGGED), encoded)
            else:
                changes = parent.edits(key, encoded)
            parts = _parts_at_byte_ranges(value, encoded, added(changes))
        yield from _texts_in(parts, tagged=tagged)


def words_of_state(parts: Parts) -> frozenset[str]:
    """Return the distinct tokens of an encoded state."""
    # Texts of a value in the tagged form are read from its encoding.
    state = decode_state({key: part for key, part in parts.items() if part[:1] != TAGGED})
    found: set[str] = set()
    for text in _join_short_texts(added_texts(state, parts, None)):
        found.update(tokens(text))
    return frozenset(found)


def _may_hold_text(value: Any) -> bool:
    """Return false for a number, and for a container of nothing but numbers.

    Bytes may hold text: in the tagged form they are texts with lone surrogates.
    """
    if type(value) in (list, dict):
        inner = value.values() if type(value) is dict else value
        return not _NUMBERS.issuperset(map(type, inner))
    return type(value) not in _NUMBERS


_NUMBERS = frozenset({int, float, bool, type(None)})
_COLLECTIONS = frozenset({list, tuple, set, frozenset})


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts anywhere in a storable value."""
    return _texts_in((value,))


def _texts_in(values: Iterable[Any], *, tagged: bool = False) -> Iterator[str]:
    """Yield the texts anywhere in *values*: storable ones, or trees in the *tagged* form.

    A text that is JSON, as tool calls and results are, yields the texts and numbers in it: as plain
    text its ``\\n`` would put an n before the next word.
    """
    open_ = [iter(values)]
    while open_:
        for item in open_[-1]:
            kind = type(item)
            if kind is str:
                yield from _texts_in_text(item)
            elif kind in _NUMBERS:
                continue
            elif kind is dict:
                open_.append(iter(_values_of_dict(item) if tagged else item.values()))
                break
            elif kind in _COLLECTIONS:
                open_.append(iter(item))
                break
            elif kind is Packed:
                open_.append(foreign_msgpack.texts(item))
                break
        else:
            open_.pop()


def _texts_in_text(text: str) -> Sequence[str]:
    """Return the texts and numbers of JSON, or else the text."""
    if text[:1] in ("{", "[") and text[-1:] in ("}", "]"):
        with suppress(ValueError):
            return _leaves_of_json(parse_plain_json(text))
    return (text,)


def _values_of_dict(tree: dict[str, Any]) -> Iterable[Any]:
    """Return the values of a dict in the tagged form, or the content of the tag that it is."""
    if len(tree) == 1:
        ((tag, content),) = tree.items()
        if tag == "~x":  # a text is tagged as bytes
            return (content.decode("utf-8", "replace"),)
        if tag in ("~h", "~m"):  # the name of a class, and a path or a number's bytes
            return (content[1],)
    return tree.values()


def _leaves_of_json(value: Any) -> list[str]:
    """Return the texts and numbers of what was JSON, in order."""
    # JSON from outside may be nested deeper than Python recurses.
    found: list[str] = []
    left = [value]
    while left:
        item = left.pop()
        kind = type(item)
        if kind is str:
            found.append(item)
        elif kind is dict:
            left.extend(reversed(item.values()))
        elif kind is list:
            left.extend(reversed(item))
        elif kind is int or kind is float:
            found.append(str(item))
    return found


Range = tuple[int, int]


def _parts_at_byte_ranges(value: Any, encoded: bytes, ranges: list[Range]) -> list[Any]:
    """Return the parts of a value that *ranges* of its encoding touch; both are in order."""
    found: list[Any] = []
    left = [(value, 0, len(encoded), ranges)]
    while left:
        part, start, end, touching = left.pop()
        kind = type(part)
        if _is_covered(start, end, touching) or (kind is dict and part.keys() == {"~x"}):
            found.append(part)  # ~x is a text with lone surrogates, encoded as bytes
            continue
        body = start + _HEADERS.get(encoded[start], 1)
        if kind is str:
            # The ranges are in order: the first begins in the header if the length has changed.
            for low, high in touching:
                first, last = max(low, body), min(high, end)
                # With a new length, an empty range at the end is a word that was cut short.
                is_cut = touching[0][0] < body < high and low <= end
                if first < last or is_cut:
                    found.append(_string_part(encoded, first, last, body, end))
        elif kind in (list, dict):
            inside = [one for one in touching if one[1] > body]
            if inside:
                left += _children_touching(part, end, inside)
    return found


def _is_covered(start: int, end: int, ranges: list[Range]) -> bool:
    """Return whether one of *ranges* has all of ``[start, end)``."""
    for low, high in ranges:  # noqa: SIM110 - a generator is a call more for each range
        if low <= start and end <= high:
            return True
    return False


_HEADERS = {0xD9: 2, 0xDA: 3, 0xDC: 3, 0xDE: 3, 0xDB: 5, 0xDD: 5, 0xDF: 5}
"""Bytes before the content of a MessagePack value, by its first byte; of other values 1."""


def _children_touching(
    value: Any, end: int, ranges: list[Range]
) -> list[tuple[Any, int, int, list[Range]]]:
    """Return the members of a container that ends at *end*, and the ranges that touch each.

    The last comes first: most additions are at the end, and nothing before them is looked at.
    """
    found: list[tuple[Any, int, int, list[Range]]] = []
    named = type(value) is dict
    at, lowest = end, ranges[0][0]
    for item in reversed(value.items() if named else value):
        if at < lowest:
            break
        name, child = item if named else (None, item)
        first = at - len(ormsgpack.packb(child))
        touching, overlaps = [], False
        for low, high in ranges:
            if first <= high and low <= at:
                touching.append((low, high))
                overlaps = overlaps or (first < high and low < at)
        if overlaps:
            found.append((child, first, at, touching))
        at = first - (len(ormsgpack.packb(name)) if named else 0)
    return found


def _string_part(encoded: bytes, low: int, high: int, floor: int, ceiling: int) -> str:
    """Return the whole words of a text that touch ``[low, high)``."""
    before = encoded[max(floor, low - MAX_TOKEN) : low]
    low -= len(before) - (before.rfind(b" ") + 1)
    after = encoded[high : min(ceiling, high + MAX_TOKEN)]
    space = after.find(b" ")
    high += len(after) if space < 0 else space
    return encoded[low:high].decode("utf-8", "ignore")

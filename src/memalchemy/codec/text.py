"""Text for search: what a step added, and one tokeniser for every database.

`search_text` is what is stored and indexed: tokens joined by spaces. Punctuation is gone, accents
are folded, Chinese, Japanese and Korean characters stand alone, so FTS5, tsvector and Oracle Text
see the same words and agree about what matches.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from memalchemy.codec.deltas import cut
from memalchemy.codec.values import TAGGED, Parts

MAX_TEXT = 200_000
"""Characters of search text per checkpoint: PostgreSQL refuses a tsvector of over 1 MB."""

MAX_TOKEN = 100
"""Longer runs are encodings and hashes, which nobody searches for."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_TOKEN = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")
_ASCII_TOKEN = re.compile("[A-Za-z0-9]+")
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_VOICING_MARKS = "\u3099\u309a"


def search_text(strings: Iterable[str]) -> str | None:
    """The text to index for *strings*; ``None`` if there is none."""
    words: list[str] = []
    room = MAX_TEXT
    for text in strings:
        for token in tokens(text):
            room -= len(token) + 1
            if room < 0:
                return " ".join(words)
            words.append(token)
    return " ".join(words) or None


def tokens(text: str) -> Iterator[str]:
    """The tokens of *text*, in order: words, numbers, and single CJK characters."""
    if text.isascii():
        for match in _ASCII_TOKEN.finditer(text):
            if len(match[0]) <= MAX_TOKEN:
                yield match[0]
        return
    for match in _TOKEN.finditer(_fold(text)):
        token = match[0]
        if len(token) <= MAX_TOKEN:
            yield token if token.isascii() else token.casefold()


def query_terms(query: str, limit: int = 32) -> list[list[str]]:
    """A user's query as terms, each a phrase of tokens; most are one token long.

    Neighbouring CJK characters form one phrase, as they form one word. No character of the query is
    an operator. At most *limit* distinct terms.
    """
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
            terms[(_lowered(token),)] = None
        if phrase:
            terms[tuple(phrase)] = None
        if len(terms) >= limit:
            break
    return [list(term) for term in list(terms)[:limit]]


def _lowered(token: str) -> str:
    # Others are casefolded already, which for a few scripts is not what lower() does.
    return token.lower() if token.isascii() else token


def is_cjk(token: str) -> bool:
    """Whether *token* is a single Chinese, Japanese or Korean character."""
    return len(token) == 1 and _CJK_CHARACTER.match(token) is not None


def snippet(text: str, terms: Iterable[list[str]], width: int = 24) -> str:
    """About *width* tokens of *text* round the first that belongs to one of *terms*."""
    wanted = {token for term in terms for token in term}
    words = text.split(" ")
    hit = next((i for i, word in enumerate(words) if _lowered(word) in wanted), 0)
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


def added_strings(state: Mapping[str, Any], new: Parts, parent: Parts | None) -> Iterator[str]:
    """The strings that *new* has and *parent* had not; all of them without a parent.

    *state* is what *new* encodes. Cost is by what changed, not by the size of the state, where
    states grow at the end, as histories do.
    """
    for key, encoded in new.items():
        old = None if parent is None else parent.get(key)
        if old is encoded or old == encoded:
            continue
        tagged = encoded[:1] == TAGGED
        encoded = encoded.removeprefix(TAGGED)
        value = orjson.loads(encoded) if tagged else state[key]
        if old is None:
            found: list[Any] = [value]
        else:
            low, high = _changed(old.removeprefix(TAGGED), encoded)
            found = list(_descend(value, encoded, 0, len(encoded), low, high))
        for part in found:
            yield from _tagged_strings(part) if tagged else _strings(part)


def _strings(value: Any) -> Iterator[str]:
    """The texts of a tree. A text that is JSON itself, as tool calls and results are, gives the
    texts and numbers in it: read as plain text, its ``\\n`` would glue an n to the next word.
    """
    if type(value) is str:
        if value[:1] in ("{", "[") and value[-1:] in ("}", "]"):
            try:
                yield from _leaves(orjson.loads(value))
            except orjson.JSONDecodeError:
                yield value
        else:
            yield value
    elif type(value) is list:
        for item in value:
            yield from _strings(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _strings(item)


def _leaves(value: Any) -> Iterator[str]:
    # Text from outside may nest deeper than Python recurses.
    left = [value]
    while left:
        item = left.pop()
        if type(item) is list:
            left.extend(reversed(item))
        elif type(item) is dict:
            left.extend(reversed(item.values()))
        elif type(item) in (str, int, float):
            yield str(item)


def _tagged_strings(tree: Any) -> Iterator[str]:
    """`_strings` of a tree in the tagged form: bytes are no text, and texts can be tagged."""
    if type(tree) is list:
        for item in tree:
            yield from _tagged_strings(item)
    elif type(tree) is not dict:
        yield from _strings(tree)
    elif len(tree) == 1 and next(iter(tree))[:1] == "~":
        ((tag, content),) = tree.items()
        if tag == "~x":
            yield from _strings(base64.b64decode(content).decode("utf-8", "replace"))
        elif tag != "~b":
            yield from _tagged_strings(content)
    else:
        for item in tree.values():
            yield from _tagged_strings(item)


def _changed(old: bytes, new: bytes) -> tuple[int, int]:
    """The range of *new* that *old* has not; it takes in a word that was cut or grown at its edge,
    as when "snowball" becomes "snow".
    """
    prefix, suffix = cut(old, new)
    low, high = prefix, len(new) - suffix
    joined = low == high and _in_word(new, low - 1) and _in_word(new, high)
    if joined or (_in_word(new, low - 1) and _in_word(old, low)):
        low -= 1
    if joined or (_in_word(new, high) and _in_word(old, len(old) - suffix - 1)):
        high += 1
    return low, high


def _in_word(text: bytes, at: int) -> bool:
    return 0 <= at < len(text) and (text[at : at + 1].isalnum() or text[at] > 0x7F)


def _descend(
    value: Any, encoded: bytes, start: int, end: int, low: int, high: int
) -> Iterator[Any]:
    """The parts of *value*, encoded at ``[start, end)``, that touch ``[low, high)``."""
    if low >= high:
        return
    if low <= start and end <= high:
        yield value
    elif type(value) is str:
        yield _string_part(encoded, max(start + 1, low), min(end - 1, high), start + 1, end - 1)
    elif type(value) in (list, dict):
        named = type(value) is dict
        found: list[tuple[Any, int, int]] = []
        at = end - 1
        for item in reversed(value.items() if named else value):
            name, child = item if named else (None, item)
            first = at - len(orjson.dumps(child))
            if first < high and low < at:
                found.append((child, first, at))
            at = first - 1 - (len(orjson.dumps(name)) + 1 if named else 0)
            if at <= low:
                break
        for child, first, last in reversed(found):
            yield from _descend(child, encoded, first, last, low, high)


def _string_part(encoded: bytes, low: int, high: int, floor: int, ceiling: int) -> str:
    """The words of a JSON string's text that touch ``[low, high)``, whole."""
    before = encoded[max(floor, low - MAX_TOKEN) : low]
    low -= len(before) - (before.rfind(b" ") + 1)
    after = encoded[high : min(ceiling, high + MAX_TOKEN)]
    space = after.find(b" ")
    high += len(after) if space < 0 else space
    text = encoded[low:high].decode("utf-8", "ignore")
    return re.sub(r"\\(?:u[0-9a-fA-F]{4}|.)", " ", text)


def _fold(text: str) -> str:
    """Compatibility forms folded, accents dropped; Hangul and voiced kana stay whole."""
    decomposed = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in decomposed if unicodedata.category(c) != "Mn" or c in _VOICING_MARKS)
    return unicodedata.normalize("NFC", kept)

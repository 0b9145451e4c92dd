"""Snippets: the part of a text that a search has found, and in it what the search was for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from memalchemy.codec.search_text import words_in
from memalchemy.codec.tokens import (
    MAX_TOKEN,
    Term,
    emoji_of,
    fold_character,
    is_unspaced,
    lowered,
    runs,
    tokens,
    units_of,
)

SNIPPET = 200
"""Characters of a highlighted snippet, about."""

_WINDOW = 2_000
"""Characters of a text beyond ASCII that are looked at together: whether they hold a match is known
much sooner than where it is."""

Span = tuple[int, int]


class _Wanted:
    """The terms of a query, as those of a text are compared with them."""

    def __init__(self, terms: Collection[Term]) -> None:
        self.words = frozenset(term.text for term in terms if not term.prefix)
        self.prefixes = tuple(term.text for term in terms if term.prefix)

    def has(self, token: str) -> bool:
        token = lowered(token)
        return token in self.words or token.startswith(self.prefixes)

    def found_in(self, words: Iterable[str]) -> set[str]:
        """Return those of *words* that are wanted."""
        return {lowered(word) for word in words if self.has(word)}

    def may_be_in(self, text: str) -> bool:
        """Return false if *text* surely holds none of what is wanted."""
        if not text.isascii():
            return True
        small = text.lower()
        return any(word in small for word in self.words) or any(
            prefix in small for prefix in self.prefixes
        )


def best_text(texts: Sequence[str], search_text: str, terms: Collection[Term]) -> str | None:
    """Return that of *texts* for which a row was found, as it was written; ``None`` if none was.

    *texts* are those of the whole value or state of a row, which has words of some of them in its
    *search_text*. A text whose words are all there comes before others, then one with more of
    *terms*, then the last one.
    """
    wanted = _Wanted(terms)
    stored = {*words_in(search_text)}
    whole = len(wanted.found_in(stored))
    best: str | None = None
    best_rank = (False, 0)
    for text in reversed(texts):
        if not wanted.may_be_in(text):
            continue
        words = tokens(text)
        rank = stored.issuperset(words), len(wanted.found_in(words))
        if rank[1] and rank > best_rank:
            best, best_rank = text, rank
            if rank == (True, whole):
                break
    return best


def excerpt(text: str | None, search_text: str, terms: Collection[Term]) -> str:
    """Return some of a text around its first match, as it was written; without it, some words."""
    if text is None:
        return snippet(search_text, terms)
    return "".join(piece["text"] for piece in highlighted(text, terms))


def snippet(search_text: str, terms: Collection[Term], width: int = 24) -> str:
    """Return about *width* tokens of a search text, around the first that is one of *terms*.

    Of pairs of characters it has the first, so that they read as they were written.
    """
    wanted = _Wanted(terms)
    words = words_in(search_text)
    hit = next((i for i, word in enumerate(words) if wanted.has(word)), 0)
    first = max(0, hit - width // 3)
    out = ["… "] if first else []
    for word in words[first : first + width]:
        units = () if word.isascii() else next(runs(word))[0]
        if units:
            out.append(units[0] if len(units) > 1 else f"{units[0]} ")
        else:
            out.append(f"{emoji_of(word) or word} ")
    if first + width < len(words):
        out.append("…")
    return "".join(out).rstrip(" ")


def highlighted(text: str, terms: Collection[Term], width: int = SNIPPET) -> list[dict[str, Any]]:
    """Return about *width* characters of a text around its first match, in pieces.

    A piece is ``{"text": …, "hit": bool}``: what *terms* find is a hit, whatever its case and
    accents. Unlike `snippet`, it takes any text.
    """
    text, wanted = unicodedata.normalize("NFC", text), _Wanted(terms)
    first = _first_hit(text, wanted) or (0, 0)
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


def found_words(text: str, terms: Collection[Term]) -> list[str]:
    """Return the parts of a text that *terms* find, as they are written in its composed form."""
    wanted = _Wanted(terms)
    if not wanted.may_be_in(text):
        return []
    text = unicodedata.normalize("NFC", text)
    return [text[low:high] for low, high in _hits_in(text, wanted)]


def _first_hit(text: str, wanted: _Wanted) -> Span | None:
    """Return where the first part of *text* begins and ends that is *wanted*."""
    if text.isascii():
        return next(_ascii_hits(text, wanted), None)
    for low in range(0, len(text), _WINDOW):
        start, end = max(0, low - MAX_TOKEN), min(len(text), low + _WINDOW + MAX_TOKEN)
        part = text[start:end]
        if not any(map(wanted.has, tokens(part))):
            continue
        for first, last in _joined_hits(part, wanted):
            is_cut = (start > 0 and first == 0) or (end < len(text) and last == len(part))
            # The words at the borders are whole in another window.
            if not is_cut or is_unspaced(part[first]):
                return start + first, start + last
    return None


def _hits_in(text: str, wanted: _Wanted, offset: int = 0) -> Iterator[Span]:
    """Yield where the parts of *text* begin and end that are *wanted*, in order."""
    hits = _ascii_hits(text, wanted) if text.isascii() else _joined_hits(text, wanted)
    for low, high in hits:
        yield low + offset, high + offset


def _ascii_hits(text: str, wanted: _Wanted) -> Iterator[Span]:
    words = sorted(map(re.escape, filter(str.isascii, wanted.words)), key=len, reverse=True)
    begun = [f"{re.escape(one)}[0-9A-Za-z]*" for one in wanted.prefixes if one.isascii()]
    if words or begun:
        pattern = f"(?<![0-9A-Za-z])(?:{'|'.join([*words, *begun])})(?![0-9A-Za-z])"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield match.span()


def _joined_hits(text: str, wanted: _Wanted) -> Iterator[Span]:
    """Yield the hits of a text beyond ASCII; those of neighbouring pairs are one."""
    last: Span | None = None
    for hit in _pair_hits(text, wanted):
        if last is not None and hit[0] <= last[1] and not text[last[0]].isascii():
            last = last[0], max(hit[1], last[1])
            continue
        if last is not None:
            yield last
        last = hit
    if last is not None:
        yield last


def _pair_hits(text: str, wanted: _Wanted) -> Iterator[Span]:
    for low, high, is_word in _parts(text):
        if is_word:
            if any(map(wanted.has, tokens(text[low:high]))):
                yield low, high
            continue
        units = list(units_of(text, low, high))
        for (start, middle), (_, end) in pairwise(units):
            pair = tokens(text[start:end])[:1]
            if pair and pair[0] in wanted.words:
                yield start, end
            elif pair and pair[0].startswith(wanted.prefixes):
                yield start, middle
        if units and any(map(wanted.has, tokens(text[slice(*units[-1])]))):
            yield units[-1]


def _parts(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where the parts of a text begin and end: words, and runs of a script without spaces."""
    start, kind = 0, None
    for at, character in enumerate(text):
        folded = fold_character(character)
        if not folded and kind is not None:
            continue  # a mark or a sign that nobody sees belongs to what is before it
        if folded.strip() and folded != "_":
            now: bool | None = not is_unspaced(folded[0])
        else:
            now = None
        if now is not kind:
            if kind is not None:
                yield start, at, kind
            start, kind = at, now
    if kind is not None:
        yield start, len(text), kind

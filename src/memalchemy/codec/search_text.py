"""Search text: the tokens of a row, joined by spaces, as a text index is given them.

Each token is there once. Before it stands `MARK`, which no index takes for a word, as many times as
the token occurs: ``## the # cat bit other`` is of "the cat bit the other". Tokens with the same
number share their marks, and the highest number comes first. A token that occurs more than
`MOST_COUNTED` times counts as so many. A mark at the end says that the texts went on.

Search text without marks was written by version 1 of the tokens, and stays as it is until
``rebuild_words`` makes it anew. The first rows of version 2 have all tokens after one mark, as
often as they occur. They are read by the same rule: each place of a token counts.

The second part of the module finds the texts: all those of a value, and those that a state has and
the state before it had not.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from typing import Any

from memalchemy._bounds import parse_plain_json, unpack
from memalchemy.codec import foreign_msgpack
from memalchemy.codec.deltas import Comparison, added, edits
from memalchemy.codec.first_tokens import first_tokens
from memalchemy.codec.tokens import MAX_TOKEN, tokens
from memalchemy.codec.touched_parts import Range, header_size, touched_parts
from memalchemy.codec.values import TAGGED, Parts, decode_state
from memalchemy.contracts import Packed

MAX_TEXT = 200_000
"""Characters of the tokens of a row, repetitions included: PostgreSQL refuses a tsvector of over
1 MB."""

MARK = "#"
"""The first character of search text of version 2 of the tokens; version 1 has letters only."""

MOST_COUNTED = 20
"""The highest number of occurrences that is stored; BM25 hardly tells higher ones apart."""

# --- Words ----------------------------------------------------------------------------------------


def search_text(texts: Iterable[str]) -> str | None:
    """Return the search text of the first `MAX_TEXT` characters of tokens; ``None`` without any."""
    words: list[str] = []
    is_cut, most = False, 0
    for text in _join_short_texts(texts):
        found = tokens(text)
        words += found
        # The tokens of ASCII take no more room than their text.
        most += len(text) + 1 if text.isascii() else len(" ".join(found)) + 1
        if most > MAX_TEXT and (beyond := len(" ".join(words)) + 1 - MAX_TEXT) > 0:
            is_cut = True
            while beyond > 0:
                beyond -= len(words.pop()) + 1
            break
    return _write(Counter(words), is_cut=is_cut) if words else None


def _write(counts: Mapping[str, int], *, is_cut: bool = False) -> str:
    """Return the search text of tokens and the numbers of their occurrences."""
    pieces: list[str] = []
    by_count = sorted(counts, key=counts.__getitem__, reverse=True)
    marked = 0
    for at, word in enumerate(by_count):
        count = counts[word]
        if count == 1:
            pieces.append(MARK)
            pieces += by_count[at:]
            break
        if count < marked or not marked:
            marked = min(count, MOST_COUNTED)
            pieces.append(MARK * marked)
        pieces.append(word)
    if is_cut:
        pieces.append(MARK)
    return " ".join(pieces)


def count_words(stored: str | None) -> Counter[str]:
    """Return the tokens of a search text, of either version, with their numbers of occurrences."""
    counts: Counter[str] = Counter()
    count = 1
    for word in (stored or "").split():
        if word.startswith(MARK):
            count = len(word)
        else:
            counts[word] += count
    return counts


def words_in(stored: str | None) -> list[str]:
    """Return the tokens of a search text, of either version, in the order in which they stand."""
    return [word for word in (stored or "").split() if not word.startswith(MARK)]


def occurrences_at(stored: str, start: int, place: int) -> int:
    """Return how many occurrences a token at *place* stands for, in a search text from *start*."""
    mark = stored.rfind(MARK, start, place)
    if mark <= start or stored[mark - 1] != MARK:
        return 1
    return mark - max(stored.rfind(" ", start, mark), start - 1)


def number_of_words(stored: str) -> int:
    """Return the number of tokens of a search text, repetitions included, and one for its mark."""
    number = stored.count(" ") + 1
    if not stored.startswith(MARK):
        return number
    # What occurs once, the most of a text as a rule, is behind a single mark.
    repeated, once, _ = stored.partition(f" {MARK} ")
    runs = repeated[1:].split(f" {MARK}")
    number -= len(runs) if once else len(runs) - 1
    for run in runs:  # all its marks but the first, then its words
        number += run.find(" ") * run.count(" ")
    return number


def is_cut(stored: str) -> bool:
    """Return whether the texts of a search text went on beyond its limit, or may have.

    The first rows of version 2, and those of version 1, do not say.
    """
    return stored.endswith(f" {MARK}") or len(stored) > MAX_TEXT // 2


def is_of_first_version(stored: str | None) -> bool:
    """Return whether a search text has tokens of version 1."""
    return stored is not None and not stored.startswith(MARK)


def keep_words(stored: str | None, kept: Collection[str]) -> str:
    """Return a search text with those of its tokens that are among *kept*; empty without any."""
    counts = {word: count for word, count in count_words(stored).items() if word in kept}
    if is_of_first_version(stored):
        return " ".join(counts)
    return _write(counts)


def join_search_texts(texts: Iterable[str | None]) -> str:
    """Return *texts*, the oldest first, as one; of more than `MAX_TEXT` the newest words stay.

    With words of version 1 among them it is of version 1, and rebuilt as a whole.
    """
    some = [text for text in texts if text]
    newest: Counter[str] = Counter()
    for text in reversed(some):
        for word, count in reversed(count_words(text).items()):
            newest[word] += count
    ends = list(accumulate(len(word) + 1 for word in newest))
    kept = list(newest.items())[: bisect(ends, MAX_TEXT)]
    counts = dict(reversed(kept))
    return " ".join(counts) if any(map(is_of_first_version, some)) else _write(counts)


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
        yield from _pieces_of(text)
    if together:
        yield " ".join(together)


def _pieces_of(text: str) -> Iterator[str]:
    """Yield a text in pieces, so that no more words are found in a long one than there is room for.

    Most have a space at their end. What has none for a whole piece is cut.
    """
    at = 0
    while at < len(text):
        end = at + _PIECE
        if end < len(text):
            end = text.rfind(" ", at, end) + 1 or end
        yield text[at:end]
        at = end


_PIECE = 1024 * 1024
"""Characters of a text whose words are found at once."""
_TOGETHER = 4096
"""Characters from which a text, or those gathered before it, are split by themselves."""


def item_search_text(value: Any, metadata: Mapping[str, Any]) -> str | None:
    """Return the search text of an item, its metadata included; ``None`` without words."""
    return search_text(_texts_in((value, dict(metadata))))


def may_be_item_search_text(stored: str | None, value: Any, metadata: Mapping[str, Any]) -> bool:
    """Return whether *stored* can be the search text of an item, of either version.

    ``None`` can, because an item need not be indexed. The order of words is not compared: a
    database may return metadata in another order.
    """
    if stored is None:
        return True
    split = first_tokens if is_of_first_version(stored) else tokens
    pieces = [" ".join(split(text)) for text in _texts_in((value, dict(metadata)))]
    own = Counter(" ".join(pieces).split())
    if sum(len(piece) + 1 for piece in pieces) < MAX_TEXT:
        return _capped(count_words(stored)) == _capped(own)
    return {*words_in(stored)} <= own.keys()  # the end was cut off


def _capped(counts: Mapping[str, int]) -> dict[str, int]:
    return {word: min(count, MOST_COUNTED) for word, count in counts.items()}


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


# --- Texts ----------------------------------------------------------------------------------------


def added_texts(state: Mapping[str, Any], new: Parts, parent: Comparison | None) -> Iterator[str]:
    """Return the texts that a state has and its parent had not; all texts without a parent.

    *new* is the encoded *state*. Where states grow at the end, as histories do, the time depends on
    what was added and not on the size of the state.
    """
    found: list[Iterator[str]] = []
    for key, encoded in new.items():
        old = None if parent is None else parent.parts.get(key)
        if old is encoded or old == encoded:
            continue
        tagged = encoded[:1] == TAGGED
        if tagged and (place := foreign_msgpack.find_packed_content(encoded)) is not None:
            if not _is_of_framework(key):
                found.append(_texts_in(foreign_msgpack.added_packed_texts(encoded, *place, old)))
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
            parts = _texts_at(value, encoded, added(changes))
        found.append(_texts_in(parts, tagged=tagged))
    return chain.from_iterable(found)


def _is_of_framework(key: str) -> bool:
    """Return whether a key, of a packed value, holds what a framework keeps for itself.

    What LangGraph's functional API saves and returns is the user's.
    """
    return key.startswith(("~", "__")) and key not in ("__previous__", "__end__")


def words_of_state(parts: Parts, *, first_too: bool = False) -> frozenset[str]:
    """Return the distinct tokens of an encoded state; with *first_too* those of version 1 too."""
    found: set[str] = set()
    for text in texts_of_state(parts):
        found.update(tokens(text))
        if first_too:
            found.update(first_tokens(text))
    return frozenset(found)


def texts_of_state(parts: Parts, parent: Parts | None = None) -> Iterator[str]:
    """Yield the texts of an encoded state that *parent* has not."""
    # Texts of a value in the tagged form are read from its encoding.
    state = decode_state({key: part for key, part in parts.items() if part[:1] != TAGGED})
    comparison = None if parent is None else Comparison(parent)
    return _join_short_texts(added_texts(state, parts, comparison))


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
                if item[:1] in _OPENING and item[-1:] in _CLOSING:
                    yield from _texts_in_json(item)
                else:
                    yield item
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


_OPENING, _CLOSING = frozenset("{["), frozenset("}]")


def _texts_in_json(text: str) -> Sequence[str]:
    """Return the texts and numbers of JSON, or else the text."""
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


def _texts_at(value: Any, encoded: bytes, ranges: list[Range]) -> list[Any]:
    """Return the parts of a value that *ranges* of its encoding touch; of texts the words alone."""
    found: list[Any] = []
    for part, start, end, touching in touched_parts(value, encoded, ranges):
        if touching is None:
            found.append(part)
        elif type(part) is str:
            body = start + header_size(encoded, start)
            # The ranges are in order: the first begins in the header if the length has changed.
            for low, high in touching:
                first, last = max(low, body), min(high, end)
                # With a new length, an empty range at the end is a word that was cut short.
                is_cut = touching[0][0] < body < high and low <= end
                if first < last or is_cut:
                    found.append(_string_part(encoded, first, last, body, end))
    return found


def _string_part(encoded: bytes, low: int, high: int, floor: int, ceiling: int) -> str:
    """Return the whole words of a text that touch ``[low, high)``."""
    before = encoded[max(floor, low - MAX_TOKEN) : low]
    low -= len(before) - (before.rfind(b" ") + 1)
    after = encoded[high : min(ceiling, high + MAX_TOKEN)]
    space = after.find(b" ")
    high += len(after) if space < 0 else space
    return encoded[low:high].decode("utf-8", "ignore")

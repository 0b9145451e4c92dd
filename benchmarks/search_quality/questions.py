"""Questions about known messages: parts of them, and prompts in which two of their words stand."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.search_quality.catalogues import SPACELESS

MESSAGES = 1000
"""Messages of a language that are stored."""

ASKED = 50
"""Messages that are asked for in each way."""

KINDS = {
    "half": "half of the words of the message; where words have no spaces, half of its text",
    "prompt": "two of its rarer words among eight of other messages",
    "long": "two of its rarer words among forty-five of other messages",
}


class Question(NamedTuple):
    """A query, and the place of the message that answers it; ``None`` if none does."""

    kind: str
    query: str
    answer: int | None


def words_of(text: str, language: str) -> list[str]:
    """Return the words of a text; where they have no spaces, as ICU cuts them."""
    if language in SPACELESS:
        from icu4py.breakers import WordBreaker

        return [word for word in WordBreaker(text, language.split("_")[0]) if _has_letter(word)]
    kept = "".join(
        one if unicodedata.category(one)[0] in "LMN" or unicodedata.category(one) == "Cf" else " "
        for one in text
    )
    return [word for word in kept.split() if _has_letter(word)]


def _has_letter(word: str) -> bool:
    return any(unicodedata.category(one)[0] == "L" for one in word)


def chosen(texts: Sequence[str], language: str) -> tuple[list[str], list[str]]:
    """Return the messages to store, no two of the same words, and those that are left."""
    shuffled = list(texts)
    random.Random(5).shuffle(shuffled)
    by_words = {frozenset(map(str.casefold, words_of(text, language))): text for text in shuffled}
    distinct = list(by_words.values())
    return distinct[:MESSAGES], distinct[MESSAGES:]


def questions(stored: Sequence[str], left: Sequence[str], language: str) -> Iterator[Question]:
    """Yield the questions of a language, the same ones in every run."""
    draw = random.Random(7)
    words = [words_of(text, language) for text in stored]
    said = [word for some in words for word in some]
    holders = Counter(word for some in words for word in set(map(str.casefold, some)))
    join = "" if language in SPACELESS else " "

    def rarer(at: int) -> list[str]:
        most = len(stored) / 50
        return sorted(
            word for word in set(words[at]) if len(word) > 1 and holders[word.casefold()] <= most
        )

    candidates = [at for at, some in enumerate(words) if len(set(some)) >= 4 and len(rarer(at)) > 1]
    for at in draw.sample(candidates, min(ASKED, len(candidates))):
        yield Question("half", _half(stored[at], words[at], language, draw), at)
        two = draw.sample(rarer(at), 2)
        for kind, others in (("prompt", 8), ("long", 45)):
            some = draw.choices(said, k=others)
            for word in two:
                some.insert(draw.randrange(len(some) + 1), word)
            yield Question(kind, join.join(some), at)
    everything = join.join(stored).casefold()
    unknown = sorted(
        {
            word
            for text in left[:2000]
            for word in words_of(text, language)
            if len(word) > 2 and word.casefold() not in everything
        }
    )
    for word in draw.sample(unknown, min(ASKED, len(unknown))):
        yield Question("nowhere", word, None)


def _half(text: str, words: list[str], language: str, draw: random.Random) -> str:
    if language in SPACELESS:
        size = len(text) // 2
        first = draw.randrange(len(text) - size + 1)
        return text[first : first + size]
    return " ".join(
        words[at] for at in sorted(draw.sample(range(len(words)), (len(words) + 1) // 2))
    )

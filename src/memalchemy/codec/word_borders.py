"""Borders of words in scripts without spaces, as ICU of the extra ``words`` finds them.

They cut queries only. What is stored does not depend on ICU, nor on its version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate


def split_at_borders(units: Sequence[str]) -> list[list[str]]:
    """Return the words of a run of units; all of them as one without ICU."""
    breaks = _word_breaks()
    if breaks is None:
        return [list(units)]
    borders = breaks("".join(units))
    words: list[list[str]] = [[]]
    for unit, end in zip(units, accumulate(map(len, units)), strict=True):
        words[-1].append(unit)
        if end in borders:
            words.append([])
    return [word for word in words if word]


@cache
def _word_breaks() -> Callable[[str], frozenset[int]] | None:
    try:
        from icu4py.breakers import WordBreaker
    except ImportError:
        return None
    # The dictionary goes by the script of the text; the locale decides nothing here.
    return lambda text: frozenset(accumulate(map(len, WordBreaker(text, "en"))))

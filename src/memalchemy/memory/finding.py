"""How what is remembered is found in a store: by words, by meaning, and under which key again.

An encrypted database is searched only in what it was opened to keep readable; its keys, which are
readable, must not tell what they were made of. Knows no feature.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal

from memalchemy.store import Store

Naming = Callable[[str, int], str]
"""A text and a length in; a name for the text of so many characters out."""


def mode_of(store: Store) -> Literal["text", "vector", "hybrid"] | None:
    """The mode in which *store* can be searched for a text; ``None``: in none."""
    by_words = store.db.keyring.is_readable("text")
    if store.embedder is None:  # with one the vectors are readable: a store sees to that
        return "text" if by_words else None
    return "hybrid" if by_words else "vector"


def naming_of(store: Store, namespace: Sequence[str]) -> Naming:
    """What makes names of texts for keys of *namespace*.

    In an encrypted database a text has another name in each: who may write to one, and reads the
    tables, cannot try out whether his text is one of another's.
    """
    keyring = store.db.keyring
    if not keyring.encrypts:
        return keyring.pseudonym
    place = json.dumps([store.db.tenant, *namespace])
    return lambda text, length: keyring.pseudonym(place + text, length)

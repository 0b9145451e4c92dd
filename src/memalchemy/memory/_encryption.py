"""Search modes and names for keys that an encrypted database allows the stores of memories.

An encrypted database is searched only in what it was opened to keep readable. Keys of items are
readable, so they must not tell what they were made from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from memalchemy.contracts import SearchMode
from memalchemy.store import Store

NameFunction = Callable[[str, int], str]
"""Function that gives the name of a text, of so many characters."""


def search_mode(store: Store) -> SearchMode | None:
    """Return the mode in which *store* can be searched for a text; ``None`` if in none."""
    by_words = store.db.keyring.is_readable("text")
    if store.embedder is None:  # a store that has one makes sure that vectors may be readable
        return "text" if by_words else None
    return "hybrid" if by_words else "vector"


def name_function(store: Store, namespace: Sequence[str]) -> NameFunction:
    """Return the function that makes names of texts, for keys in *namespace*.

    In an encrypted database a text has another name in each namespace. Otherwise somebody who may
    write to one namespace, and reads the tables, could try out whether a text is in another.
    """
    keyring = store.db.keyring
    if not keyring.encrypts:
        return keyring.pseudonym
    prefix = json.dumps([store.db.tenant, *namespace])
    return lambda text, length: keyring.pseudonym(prefix + text, length)

"""Texts of the steps that a search has found, as they were written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from memalchemy.checkpoints.snapshots import (
    StateName,
    StoredStates,
    decode_states,
    load_states,
    stored_size,
)
from memalchemy.codec.search_text import texts_in
from memalchemy.codec.snippets import best_text
from memalchemy.codec.tokens import Term
from memalchemy.database import READ_REPLICA, Database, Decode, HostConnection
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted, TooLarge
from memalchemy.log import Log
from memalchemy.log.scan import batches

MOST_READ = 16 * 1024 * 1024
"""Bytes of states, decoded, that are read for the texts of one search."""

TOGETHER = 100
"""States that are read together."""

Texts = dict[StateName, str | None]
"""Texts of checkpoints."""


async def read_found_texts(
    db: Database, rows: Sequence[Any], terms: Collection[Term], connection: HostConnection | None
) -> list[str | None]:
    """Return for each checkpoint that a search for *terms* has found the text of its state.

    Each state is proven by its own signatures, as the words are by which it was found. ``None``
    stands for a state that cannot be read, and for those beyond `MOST_READ`.
    """
    names = [(Log(db.tenant, row.thread_id, row.namespace), row.checkpoint_id) for row in rows]
    wanted: list[tuple[StateName, Any]] = []
    room = MOST_READ
    for name, row in zip(names, rows, strict=True):
        room -= row.raw_size
        if room >= 0:
            wanted.append((name, row))
    found: Texts = {}
    for some in batches(wanted, lambda one: one[1].raw_size, most_rows=TOGETHER):
        words = {name: row.search_text for name, row in some}
        found |= await _read_texts(db, words, terms, connection)
    return [found.get(name) for name in names]


def found_text(state: Any, search_text: str, terms: Collection[Term]) -> str | None:
    """Return the text of a state for which it was found, if there is one."""
    return best_text(list(texts_in(state)), search_text, terms)


async def _read_texts(
    db: Database,
    words: Mapping[StateName, str],
    terms: Collection[Term],
    connection: HostConnection | None,
) -> Texts:
    """Return the texts of checkpoints that were found by *words*."""
    try:
        return await db.run(
            partial(load_states, db.dialect, list(words)),
            READ_REPLICA,
            connection=connection,
            decode=Decode(partial(_texts_of_states, db, words, terms), stored_size),
        )
    except (Corrupt, KeyMissing, NotEncrypted, TooLarge):
        if len(words) == 1:
            return {}  # whoever loads the state is told why
    # One that cannot be read keeps none of the others from being shown.
    found: Texts = {}
    for name, text in words.items():
        found |= await _read_texts(db, {name: text}, terms, connection)
    return found


def _texts_of_states(
    db: Database, words: Mapping[StateName, str], terms: Collection[Term], stored: StoredStates
) -> Texts:
    read = decode_states(stored, db.keyring)
    return {name: found_text(one.state, words[name], terms) for name, one in read.items()}

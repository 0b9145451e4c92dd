"""Texts of the steps that a search has found, as they were written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from memalchemy.checkpoints.load import decoded_size, load_chain
from memalchemy.checkpoints.skip_deltas import Tip, decode_tip
from memalchemy.codec.search_text import texts_in
from memalchemy.codec.snippets import best_text
from memalchemy.codec.tokens import Term
from memalchemy.database import READ_REPLICA, Database, Decode, HostConnection
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted, TooLarge
from memalchemy.log import Log

MOST_READ = 16 * 1024 * 1024
"""Bytes of states, decoded, that are read for the texts of one search."""


async def read_found_texts(
    db: Database,
    rows: Iterable[Any],
    terms: Collection[Term],
    connection: HostConnection | None,
    cached: Callable[[Log], Tip | None] = lambda log: None,
) -> list[str | None]:
    """Return for each checkpoint that a search for *terms* has found the text of its state.

    ``None`` stands for a state that cannot be read, and for those beyond `MOST_READ`.
    """
    found: list[str | None] = []
    room = MOST_READ
    for row in rows:
        room -= row.raw_size
        log = Log(db.tenant, row.thread_id, row.namespace)
        is_read = room >= 0
        found.append(
            await _read_text(db, row, log, terms, connection, cached(log)) if is_read else None
        )
    return found


def found_text(state: Any, search_text: str, terms: Collection[Term]) -> str | None:
    """Return the text of a state for which it was found, if there is one."""
    return best_text(list(texts_in(state)), search_text, terms)


async def _read_text(
    db: Database,
    row: Any,
    log: Log,
    terms: Collection[Term],
    connection: HostConnection | None,
    known: Tip | None,
) -> str | None:
    def text_of(tip: Tip | None) -> str | None:
        decoded = decode_tip(log, tip, db.keyring, known)
        return None if decoded is None else found_text(decoded[1], row.search_text, terms)

    now = datetime.now(UTC)
    try:
        return await db.run(
            partial(load_chain, db.dialect, log, row.checkpoint_id, now, db.signing),
            READ_REPLICA,
            decode=Decode(text_of, decoded_size),
            connection=connection,
        )
    except (Corrupt, KeyMissing, NotEncrypted, TooLarge):
        return None  # whoever loads it is told why

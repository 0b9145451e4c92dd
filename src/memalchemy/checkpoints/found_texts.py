"""Texts of the steps that a search has found, as they were written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from memalchemy.checkpoints.load import decode_snapshots, read_states
from memalchemy.codec.search_text import texts_in
from memalchemy.codec.snippets import best_text
from memalchemy.codec.tokens import Term
from memalchemy.database import Database, HostConnection, off_loop
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted, TooLarge
from memalchemy.keys import encode_id
from memalchemy.log import Log
from memalchemy.log.scan import run_query

MOST_READ = 16 * 1024 * 1024
"""Bytes of states, decoded, that are read for the texts of one search."""

TOGETHER = 20
"""States of a log that are read together."""

Texts = dict[str, str | None]
"""Texts by the ids of the checkpoints of a log."""


async def read_found_texts(
    db: Database, rows: Sequence[Any], terms: Collection[Term], connection: HostConnection | None
) -> list[str | None]:
    """Return for each checkpoint that a search for *terms* has found the text of its state.

    Each state is proven by its own signatures, as the words are by which it was found. ``None``
    stands for a state that cannot be read, and for those beyond `MOST_READ`.
    """
    found: dict[tuple[Log, str], str | None] = {}
    for log, some in _split_by_log(db.tenant, rows):
        for one, text in (await _read_texts(db, log, some, terms, connection)).items():
            found[log, one] = text
    return [found.get((_log_of(db.tenant, row), row.checkpoint_id)) for row in rows]


def found_text(state: Any, search_text: str, terms: Collection[Term]) -> str | None:
    """Return the text of a state for which it was found, if there is one."""
    return best_text(list(texts_in(state)), search_text, terms)


def _log_of(tenant: str, row: Any) -> Log:
    return Log(tenant, row.thread_id, row.namespace)


def _split_by_log(tenant: str, rows: Sequence[Any]) -> Iterator[tuple[Log, dict[str, str]]]:
    """Yield the checkpoints to read, some of one log at a time: their words by their ids."""
    by_log: dict[Log, dict[str, str]] = defaultdict(dict)
    room = MOST_READ
    for row in rows:
        room -= row.raw_size
        if room >= 0:
            by_log[_log_of(tenant, row)][row.checkpoint_id] = row.search_text
    for log, words in by_log.items():
        ids = list(words)
        for first in range(0, len(ids), TOGETHER):
            yield log, {one: words[one] for one in ids[first : first + TOGETHER]}


async def _read_texts(
    db: Database,
    log: Log,
    words: Mapping[str, str],
    terms: Collection[Term],
    connection: HostConnection | None,
) -> Texts:
    d = db.dialect
    try:
        rows: list[Any] = []
        for listed in d.statements.list_batches("p_keys", [(encode_id(one),) for one in words]):
            rows += await run_query(
                db, read_states(d), log.binds() | listed, connection, replica_ok=True
            )
        size = sum(len(row.payload) for row in rows)
        return await off_loop(size, partial(_texts_of_states, db, log, rows, words, terms))
    except (Corrupt, KeyMissing, NotEncrypted, TooLarge):
        if len(words) == 1:
            return {}  # whoever loads the state is told why
    # One that cannot be read keeps none of the others from being shown.
    found: Texts = {}
    for one, text in words.items():
        found |= await _read_texts(db, log, {one: text}, terms, connection)
    return found


def _texts_of_states(
    db: Database, log: Log, rows: Sequence[Any], words: Mapping[str, str], terms: Collection[Term]
) -> Texts:
    snapshots = decode_snapshots(log, rows, (), db.keyring)
    return {
        one: found_text(snapshots[one].state, text, terms)
        for one, text in words.items()
        if one in snapshots
    }

"""Words of pruned checkpoints: those that a remaining state still holds move to that one.

A checkpoint's search text is what its step added. When the checkpoint is pruned, those of its words
that the next remaining state holds are added to the search text of that one, and of each where the
thread branches. The others are gone: so no search finds words that no state has, and none misses
words that one has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from memalchemy.checkpoints.load import decoded_size, load_chain
from memalchemy.checkpoints.skip_deltas import Tip, rebuild_checkpoint
from memalchemy.codec.search_text import (
    MAX_TEXT,
    join_search_texts,
    keep_words,
    words_of_state,
)
from memalchemy.database import READ, Database, Decode, HostConnection
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted
from memalchemy.events import Event
from memalchemy.log import Log, bulk_delete
from memalchemy.log.delete import read_search_texts, replace_search_text
from memalchemy.statements import Program

PAGE = 50
"""Search texts that are read at once: each may have `MAX_TEXT` characters."""
MAX_HEIRS = 100
"""Branches, the newest first, in which words of one pruned checkpoint are kept."""


class Heir(NamedTuple):
    """Remaining checkpoint that gets words of pruned ones."""

    log_id: UUID
    seq: int
    checkpoint_id: str


@dataclass
class _Line:
    """Knowledge of a log from the positions above the current window."""

    nearest: Heir | None = None
    """The lowest checkpoint that stays."""
    of_parent: dict[str, tuple[Heir, ...]] = field(default_factory=dict)
    """By the id of a parent, in each branch the next remaining checkpoint that descends from it."""


class WordKeeper:
    """Keeps the words of the checkpoints that one batch of a prune deletes, window by window.

    `carry` moves the words in the transaction of the prune. Where it first finds some to move, it
    does nothing but note the states that are to get them, which `read_states` reads outside of the
    transaction; then the transaction is to be run again. A state that cannot be read gets no words.
    """

    def __init__(
        self,
        db: Database,
        logs: Iterable[Log],
        rules: dict[str, Any],
        connection: HostConnection | None,
        event: Event,
    ) -> None:
        self._db, self._rules, self._connection, self._event = db, rules, connection, event
        self._logs = {log.key: log for log in logs}
        self._lines: dict[UUID, _Line] = {}
        self._next: dict[UUID, _Line] = {}
        self._words: dict[Heir, frozenset[str]] | None = None
        self.wanted: list[Heir] = []
        """The states to read before the transaction is run again."""

    async def read_states(self) -> None:
        """Find the words of the states that `carry` wanted."""
        wanted, self.wanted, self._words = self.wanted, [], {}
        for heir in wanted:
            log = self._logs[heir.log_id]
            self._words[heir] = await self._db.run(
                partial(
                    load_chain,
                    self._db.dialect,
                    log,
                    heir.checkpoint_id,
                    self._rules["p_now"],
                    self._db.signing,
                ),
                READ,
                decode=Decode(partial(self._words_of_tip, log), _cost_of_finding_words),
                connection=self._connection,
                event=self._event,
            )

    def carry(self, values: dict[str, Any]) -> Program[bool]:
        """Add the words of the checkpoints that are about to be deleted to those that stay.

        *values* are the binds of the batch, whose logs are locked. Returns false, and does nothing,
        if states have to be read first.
        """
        d = self._db.dialect
        rows = yield bulk_delete.list_ranked(d), values
        heirs, self._next = self._positions_by_heir(rows)
        self.wanted = list(heirs) if self._words is None else []
        if self._words is None and heirs:
            return False
        for heir, pruned in heirs.items():
            log = self._logs[heir.log_id]
            words = (self._words or {}).get(heir)
            if words is None:  # somebody has saved since, and another checkpoint stays
                tip = yield from load_chain(
                    d, log, heir.checkpoint_id, values["p_now"], self._db.signing
                )
                words = self._words_of_tip(log, tip)
            yield from self._add_words(log, heir.seq, pruned, words)
        return True

    def go_on(self) -> None:
        """Go on to the window below the one that was pruned."""
        self._lines, self._words = self._next, None

    def _positions_by_heir(
        self, rows: Iterable[Any]
    ) -> tuple[dict[Heir, list[int]], dict[UUID, _Line]]:
        """Return the positions of pruned words by the checkpoint that gets them, newest first.

        That is, in each branch, the next remaining descendant of the pruned checkpoint; if nothing
        remains that descends from it, the next remaining checkpoint in the log.
        """
        heirs: dict[Heir, list[int]] = {}
        lines = {
            key: _Line(line.nearest, dict(line.of_parent)) for key, line in self._lines.items()
        }
        for row in rows:
            line = lines.setdefault(row.log_id, _Line())
            descendants = line.of_parent.pop(row.checkpoint_id, ())
            if not row.goes:
                line.nearest = Heir(row.log_id, row.seq, row.checkpoint_id)
                descendants = (line.nearest,)
            elif row.has_words:
                nearest = () if line.nearest is None else (line.nearest,)
                for heir in descendants or nearest:
                    heirs.setdefault(heir, []).append(row.seq)
            if row.parent_id is not None and descendants:
                known = line.of_parent.get(row.parent_id, ())
                line.of_parent[row.parent_id] = (known + descendants)[:MAX_HEIRS]
        return heirs, lines

    def _words_of_tip(self, log: Log, tip: Tip | None) -> frozenset[str]:
        try:
            if tip is not None:
                rebuilt = rebuild_checkpoint(log, tip, self._db.keyring)
                return words_of_state(rebuilt.parts(), first_too=self._db.has_first_words)
        except (Corrupt, KeyMissing, NotEncrypted):
            pass  # `verify` reports it; retention works all the same
        return frozenset()

    def _add_words(
        self, log: Log, seq: int, pruned: list[int], words: frozenset[str]
    ) -> Program[None]:
        """Add the words at the positions *pruned* that are among *words* to the text at *seq*."""
        if not words:
            return
        places, texts, size = [seq, *pruned], list[str](), 0
        own: str | None = None
        while places and size < MAX_TEXT:
            page, places = places[:PAGE], places[PAGE:]
            found: dict[int, str | None] = {}
            for listed in self._db.dialect.statements.list_batches(
                "p_keys", [(str(place),) for place in page]
            ):
                rows = yield read_search_texts(self._db.dialect), log.binds() | listed
                found |= {row.seq: row.search_text for row in rows}
            own = found.pop(seq, own)
            for place in sorted(found, reverse=True):
                text = found[place]
                if held := keep_words(text, words):
                    texts.append(held)
                    size += len(held) + 1
        if texts:
            both = join_search_texts([*reversed(texts), own])
            values = log.binds() | {"p_seq": seq, "p_search_text": both}
            yield replace_search_text(self._db.dialect), values


def _cost_of_finding_words(tip: Tip | None) -> int:
    """Return how long finding words takes, in bytes of a state to decode."""
    return 10 * decoded_size(tip)

"""The words that each state of a log has added, made from its payload."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from memalchemy._cache import BoundedCache
from memalchemy.checkpoints.load import load_chain
from memalchemy.checkpoints.rewrite import list_in_order
from memalchemy.checkpoints.skip_deltas import rebuild_checkpoint
from memalchemy.codec.first_tokens import first_tokens
from memalchemy.codec.search_text import (
    MARK,
    is_of_first_version,
    search_text,
    texts_of_state,
    words_in,
)
from memalchemy.codec.tokens import tokens
from memalchemy.codec.values import Parts, state_size
from memalchemy.database import READ, Database, off_loop
from memalchemy.log import Log
from memalchemy.log.scan import run_query
from memalchemy.protection.signed_reads import check_every_row

PARENTS_BYTES = 32 * 1024 * 1024
"""The bytes of states that are kept because the next ones grew out of them."""

EVER = datetime.fromtimestamp(0, UTC)
"""As of this time nothing has expired: rows wait for a sweep, and are read as all others."""


class StatesOfLog:
    """The states of one log, each compared with the one that it grew out of."""

    def __init__(self, db: Database, log: Log, index_text: bool | frozenset[str]) -> None:
        self.db, self.log = db, log
        self._index_text = index_text
        self._names: dict[str, int] | None = None
        """The positions of the checkpoints of the log by their ids, in order."""
        self._states: BoundedCache[str, Parts] = BoundedCache(
            PARENTS_BYTES, lambda parts: min(state_size(parts), PARENTS_BYTES)
        )

    async def words_at(self, row: Any) -> str | None:
        """Return the words of a checkpoint by the rules of this release.

        They are those that it added, as its save had them. If its row has words already, by the
        rules of an older release, they are those.
        """
        parts, parent = await self._load_with_parent(row)
        make: Callable[[], str | None] = partial(self._text_of_added, parts, parent)
        if row.search_text is not None:
            make = partial(_renewed, row.search_text, parts, parent)
        return await off_loop(state_size(parts), make)

    async def words_by_key(self, row: Any) -> list[set[str]]:
        """Return the words that a checkpoint added, apart for each key that has some.

        They are by the rules by which the words of its row are.
        """
        parts, parent = await self._load_with_parent(row)
        split = first_tokens if is_of_first_version(row.search_text) else tokens
        found = []
        for key, part in parts.items():
            make = partial(_words_of_part, {key: part}, parent, split)
            found.append(await off_loop(len(part), make))
        return [words for words in found if words]

    async def _load_with_parent(self, row: Any) -> tuple[Parts, Parts | None]:
        if row.checkpoint_id is None or not (self._index_text or row.search_text):
            return {}, None  # nobody can load this state, so nobody looks for it
        parts = await self._load_parts(row.checkpoint_id)
        before = None if parts is None else await self._checkpoint_before(row)
        return parts or {}, None if before is None else await self._load_parts(before)

    async def _checkpoint_before(self, row: Any) -> str | None:
        """Return the checkpoint that a save compared with: its parent, or else the one before it.

        A parent that was pruned has left its words to those after it.
        """
        if self._names is None:
            d, log = self.db.dialect, self.log
            check = partial(check_every_row, d, log, "checkpoints", self.db.signing)
            rows = await run_query(self.db, list_in_order(d), log.binds(), check=check)
            self._names = {one.checkpoint_id: one.seq for one in rows}
        if row.parent_id != row.checkpoint_id and row.parent_id in self._names:
            return str(row.parent_id)
        earlier = [name for name, seq in self._names.items() if seq < row.seq]
        return earlier[-1] if earlier else None

    async def _load_parts(self, checkpoint_id: str) -> Parts | None:
        parts = self._states.get(checkpoint_id)
        if parts is not None:
            return parts
        tip = await self.db.run(
            lambda: load_chain(self.db.dialect, self.log, checkpoint_id, EVER, self.db.signing),
            READ,
        )
        if tip is None:
            return None
        parts = rebuild_checkpoint(self.log, tip, self.db.keyring).parts()
        self._states.put(checkpoint_id, parts)
        return parts

    def _text_of_added(self, parts: Parts, parent: Parts | None) -> str | None:
        if not isinstance(self._index_text, bool):
            parts = {key: part for key, part in parts.items() if key in self._index_text}
        return search_text(texts_of_state(parts, parent))


def _words_of_part(
    parts: Parts, parent: Parts | None, split: Callable[[str], list[str]]
) -> set[str]:
    return {word for text in texts_of_state(parts, parent) for word in split(text)}


def _renewed(stored: str, parts: Parts, parent: Parts | None) -> str:
    """Return words of version 1, and no others, as this release makes them from a state.

    A save has added some; which keys had words is told by what is stored. The others were taken
    over from pruned checkpoints. Those whose text the state has no more stay as they are.
    """
    held = dict.fromkeys(words_in(stored))
    left, texts = dict(held), list[str]()
    for key, part in parts.items():
        own = list(texts_of_state({key: part}, parent))
        words = {word for text in own for word in first_tokens(text)}
        if words <= held.keys():
            texts += own
            left = {word: None for word in left if word not in words}
    taken_over = []
    for text in texts_of_state(parts) if left else ():
        for word in text.split():
            words = {*first_tokens(word)}
            if words <= held.keys() and not left.keys().isdisjoint(words):
                taken_over.append(word)
    covered = {token for word in taken_over for token in first_tokens(word)}
    gone = [word for word in left if word not in covered]
    return search_text([*gone, *taken_over, *texts]) or MARK

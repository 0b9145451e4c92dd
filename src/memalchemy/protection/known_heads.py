"""Heads of signed logs as this process has left them, so that the next save need not read them.

A head that is known tells what the next one is, and a save may bind the next one's signature in the
statement that moves the head, with the condition that the head is still the known one. What is held
here is never trusted: where the condition does not hold, nothing is written, and the head is read.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from memalchemy._cache import BoundedCache
from memalchemy.codec.signatures import Sums
from memalchemy.rows import SignedHead

MAX_HEADS = 4096


class KnownHead(NamedTuple):
    """A head that was written, the sums of its log, and its signature."""

    columns: SignedHead
    sums: Sums
    signature: bytes


HEAD_MOVE = "head_move"
"""The name under which a program gives the signer a `HeadMove`, beside what a statement binds."""


class HeadMove(NamedTuple):
    """Move of a known head, as the signer of the statement that moves it has to know it."""

    known: KnownHead
    leaves: SignedHead
    """The head as the statement leaves it."""
    entries: Sequence[MutableMapping[str, Any]] = ()
    """Binds of entries that are inserted one by one after the move.

    They are signed before it, since the head tells their sum.
    """


class KnownHeads:
    """Least-recently-used cache of heads by the keys of their logs, shared by all tenants."""

    def __init__(self) -> None:
        self._heads: BoundedCache[UUID, KnownHead] = BoundedCache(MAX_HEADS)

    def get(self, log_id: UUID) -> KnownHead | None:
        """Return the head of a log as this process has left it, if it is known."""
        return self._heads.get(log_id)

    def put(self, heads: Mapping[UUID, KnownHead]) -> None:
        """Note heads that were written by a transaction that has been committed."""
        for log_id, head in heads.items():
            self._heads.put(log_id, head)

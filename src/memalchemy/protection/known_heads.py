"""Heads of signed logs as this process has left them, so that the next save need not read them.

A head that is known tells what the next one is, and a save may bind the next one's signature in the
statement that moves the head, with the condition that the head is still the known one. What is held
here is never trusted: where the condition does not hold, nothing is written, and the head is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from memalchemy._cache import BoundedCache
from memalchemy.codec.signatures import Sums
from memalchemy.codec.signed_rows import SignedHead

MAX_HEADS = 4096

KNOWN_HEAD, MOVED_HEAD = "known_head", "moved_head"
"""Names under which a program gives the signer, beside what a statement binds, the `KnownHead` that
the statement moves, and the `SignedHead` that it leaves.
"""
SIGNED_FIRST = "signed_first"
"""The name under which it gives the binds of entries that are inserted after their head was moved.

They are signed before, since the head tells their sum.
"""


class KnownHead(NamedTuple):
    """A head that was written, the sums of its log, and its signature."""

    columns: SignedHead
    sums: Sums
    signature: bytes


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

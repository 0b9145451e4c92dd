"""The report of a key rotation, and the counts that it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memalchemy.keys import decode_namespace

NAMED_ROWS = 10_000
"""The number of rows of each kind that a report names."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The number of rows under one key.

    Attributes:
        key_id: an id, which does not reveal the key; ``None`` for rows that are not encrypted.
        state: ``first`` (the key that encrypts), ``given``, ``missing``, or ``plaintext``.
        rows: rows of logs.
        items: items of stores.
    """

    key_id: str | None
    state: Literal["first", "given", "missing", "plaintext"]
    rows: int
    items: int


@dataclass(frozen=True, slots=True)
class PlainRow:
    """The place of a row or an item that was not encrypted.

    A row of a log has a *thread_id* and a *position*, an item a *key*.
    """

    tenant: str
    namespace: tuple[str, ...]
    thread_id: str | None = None
    position: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        path = "/".join(self.namespace)
        if self.thread_id is None:
            return f"item {self.key!r} in /{path} of tenant {self.tenant!r}"
        return (
            f"position {self.position} of thread {self.thread_id!r} in /{path} of tenant "
            f"{self.tenant!r}"
        )


@dataclass(frozen=True, slots=True)
class RotationReport:
    """The result of `rotate_keys`.

    In a tenant that is encrypted already, rows that are not encrypted may be forged: *adopted* and
    *refused* name such rows, the first `NAMED_ROWS` of each.

    Attributes:
        uses: the keys that are in use at the end.
        rotated: the rows and items that were encrypted with the first key.
        words: the rows and items with readable words or fields that they may not have. The words
            were removed or, of a dry run, found.
        vectors: the readable vectors that may not be: removed or, of a dry run, found.
        left: the rows and items that are not as they should be: their key is missing, they are
            damaged or refused, or others wrote them meanwhile.
        damaged: those of *left* that cannot be read, or do not match their checksums or signatures.
        adopted: rows that were encrypted or, of a dry run, would be, because of
            *encrypt_plaintext*.
        refused: rows that were left as they are.
        left_out: those of *left* that are damaged or whose key is missing, each with the reason,
            the first `NAMED_ROWS`.
        needed_keys: the ids of the older keys that stay registered because of such rows, which may
            be under any of them.
    """

    uses: tuple[KeyUse, ...]
    rotated: int
    words: int
    vectors: int
    left: int
    damaged: int
    seconds: float
    adopted: tuple[PlainRow, ...] = ()
    refused: tuple[PlainRow, ...] = ()
    left_out: tuple[str, ...] = ()
    needed_keys: tuple[str, ...] = ()


@dataclass(slots=True)
class StoredCounts:
    """The number of rows that are stored in each way.

    Attributes:
        rows: rows of logs by the bytes with which a payload under a key begins, ``None`` if it is
            not encrypted.
        items: items, in the same way.
        due: rows and items to write anew.
        words: rows and items with readable words or fields that they may not have.
        unreadable: rows and items of which nobody can say how they are stored.
    """

    rows: Counter[bytes | None] = field(default_factory=Counter)
    items: Counter[bytes | None] = field(default_factory=Counter)
    due: int = 0
    words: int = 0
    unreadable: int = 0


def add_names(names: dict[PlainRow, None], listed: Iterable[Any]) -> None:
    """Add the names of rows of `list_rows` until there are `NAMED_ROWS`."""
    for row in listed:
        if len(names) == NAMED_ROWS:
            return
        names[plain_row_of(row)] = None


def plain_row_of(row: Any) -> PlainRow:
    """Return the place of a row of `list_rows`."""
    columns: Mapping[str, Any] = row._mapping
    # A row of a log without a head has no thread and no namespace.
    return PlainRow(
        row.tenant,
        decode_namespace(row.namespace or "/"),
        thread_id=columns.get("thread_id"),
        position=columns.get("seq"),
        key=columns.get("key"),
    )

"""Kinds of rows, each declared once: what writes, copies, seals and signs rows goes by these.

A statement that inserts or changes rows says of which kind they are (`memalchemy.statements`). Its
values are bound under the names of columns with a prefix: ``k_`` for what names the row, ``p_`` for
the rest, and a letter of their own for rows that are sent as arrays, with a list for each column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID


@dataclass(frozen=True, eq=False)
class RowKind:
    """Kind of rows: where they are, how they are bound, and what of them is sealed and signed.

    Attributes:
        name: the word that its place begins with.
        table: the table that it is in.
        key: the columns that are bound with ``k_``.
        place: what its payload and its signature are bound to: no two rows have the same.
        columns: what a writer binds of a new row, beside the key and what the statement allots.
        payload: the column that is encrypted, together with ``codec`` and ``checksum``.
        signed: the columns that its signature covers beside its place, in this order for ever.
        words: the columns that a second part of the signature covers.
        prefix: the prefix of binds.
        shared: of rows that are sent as arrays, the columns that are bound once for all.
    """

    name: str
    table: str
    key: tuple[str, ...]
    place: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    payload: str | None = None
    signed: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    prefix: str = "p"
    shared: tuple[str, ...] = ()

    def in_arrays(self, prefix: str, shared: tuple[str, ...]) -> RowKind:
        """Return the kind of the same rows where many are sent as arrays."""
        return replace(self, prefix=prefix, shared=shared)

    @property
    def is_many(self) -> bool:
        """True if the rows are sent as arrays."""
        return self.prefix != "p"

    @property
    def own(self) -> tuple[str, ...]:
        """The columns that differ among rows that are sent as arrays."""
        return tuple(name for name in self.columns if name not in self.shared)

    def bind(self, column: str) -> str:
        """Return the bind of a column of a row that is sent alone."""
        return f"k_{column}" if column in self.key else f"p_{column}"

    @cached_property
    def key_binds(self) -> tuple[str, ...]:
        return tuple(f"k_{name}" for name in self.key)

    @cached_property
    def place_values(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        """Returns the values of the place of a row from its binds."""
        return itemgetter(*map(self.bind, self.place))

    def place_of(self, binds: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the place of a row that is sent alone, from its binds."""
        return (self.name, *self.place_values(binds))

    def each(self, binds: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the binds of each row that is sent in arrays, as if it were sent alone."""
        own = [name for name in binds if name.startswith(f"{self.prefix}_")]
        alone = [self.bind(name[2:]) for name in own]
        shared = {name: value for name, value in binds.items() if name not in own}
        for values in zip(*(binds[name] for name in own), strict=True):
            yield shared | dict(zip(alone, values, strict=True))


class SignedHead(NamedTuple):
    """The columns of a head that are signed."""

    log_id: UUID
    tenant: str
    thread_id: str
    namespace: str
    next_seq: int
    version: int
    last_ordinal: int
    head_id: str | None
    previous_id: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    deleted_at: datetime | None
    meta: dict[str, Any]


# --- Logs ----------------------------------------------------------------------------------------

_OF_LOG = ("tenant", "log_id")

HEAD = RowKind(
    "head",
    "threads",
    key=("log_id", "tenant", "thread_id", "namespace"),
    signed=SignedHead._fields,
)
"""The head of a log. `memalchemy.log.heads` says how it moves."""

KNOWN_HEAD = replace(HEAD, prefix="h")
"""A signed head that the writer knows: bound beside what it becomes, and compared."""

CHECKPOINT = RowKind(
    "checkpoint",
    "checkpoints",
    key=_OF_LOG,
    place=("log_id", "tenant", "seq"),
    columns=(
        *("checkpoint_id", "rests_on", "run_id", "meta", "raw_size", "stored_size"),
        *("occurred_at", "created_at"),
    ),
    signed=(
        *("checkpoint_id", "parent_id", "ordinal", "rests_on", "run_id"),
        *("meta", "occurred_at", "created_at"),
    ),
)

DELTA = RowKind(
    "row",
    "deltas",
    key=_OF_LOG,
    signed=(
        *("base_seq", "depth", "entry_key", "overwrites", "occurred_at", "stored_at"),
        *("codec", "payload"),
    ),
    words=("radix", "search_text"),
    payload="payload",
)
"""A row of a log of one of the three kinds below, which ``p_kind`` and ``p_label`` tell."""


def _delta(name: str, columns: tuple[str, ...], *place: str) -> RowKind:
    """Return a kind of row of ``deltas``: what it does not bind is empty in it, ``depth`` 0."""
    return replace(
        DELTA,
        name=name,
        place=(*_OF_LOG, "seq", *place),
        columns=columns,
        signed=tuple(column for column in DELTA.signed if column in columns),
        words=tuple(column for column in DELTA.words if column in columns),
    )


STATE = _delta(
    "state",
    ("kind", "base_seq", "depth", "radix", "codec", "checksum", "search_text", "payload"),
)
ENTRY = _delta(
    "entry",
    ("entry_key", "codec", "checksum", "search_text", "occurred_at", "stored_at", "payload"),
)
WRITE = _delta(
    "write",
    ("entry_key", "label", "overwrites", "codec", "checksum", "stored_at", "payload"),
    "label",
)
DELTA_KINDS: Mapping[str, RowKind] = {one.name: one for one in (STATE, ENTRY, WRITE)}

MANY_ENTRIES = ENTRY.in_arrays("e", shared=("stored_at",))
MANY_STATES = STATE.in_arrays("r", shared=())
"""States that are sent with their checkpoints, of many logs; neither sealed nor signed."""


def kind_of_delta(stored: str) -> RowKind:
    """Return the kind of a row of ``deltas`` by what its column ``kind`` has."""
    return DELTA_KINDS.get(stored, STATE)


# --- Items ---------------------------------------------------------------------------------------

ITEM = RowKind(
    "item",
    "store_items",
    key=("tenant", "namespace", "key"),
    place=("tenant", "namespace", "key", "version"),
    columns=(
        *("meta", "codec", "checksum", "search_text", "field_terms", "updated_at", "expires_at"),
        *("lifetime", "value"),
    ),
    payload="value",
    signed=(
        *("version", "meta", "codec", "value"),
        *("created_at", "updated_at", "expires_at", "lifetime"),
    ),
    words=("search_text", "field_terms"),
)
MANY_ITEMS = ITEM.in_arrays("i", shared=("tenant", "codec", "updated_at"))

VECTOR = RowKind(
    "vector",
    "embeddings",
    key=ITEM.key,
    place=ITEM.place,
    columns=("field", "model", "part", "dimensions", "change"),
    signed=("field", "model", "part", "dimensions"),
)
"""A vector of an item. It is signed as float32, ``p_float32``, whatever the column has."""

OWN_ITEM = RowKind("own item", "store_items", key=ITEM.key)
"""An item that memalchemy keeps for itself: a registered key, a note, a counter."""

# --- Copies --------------------------------------------------------------------------------------

AS_STORED = RowKind("copy", "", key=())
"""A row of any table as it stands elsewhere, with its payload and signature."""

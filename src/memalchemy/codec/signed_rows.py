"""Content of signatures: the kind and the place of a row, and its signed columns.

`memalchemy.rows` has the columns. Left out are columns that memalchemy derives from others or never
trusts: sizes, ``active_at``, the ``epoch`` that caches go by, and the thread that a log was forked
from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

from memalchemy.codec.places import Place, row_place
from memalchemy.codec.signatures import SigningKeys, Sums, json_field
from memalchemy.rows import CHECKPOINT, DELTA, DELTA_KINDS, HEAD, ITEM, VECTOR, RowKind

_values_of_head = attrgetter(*HEAD.signed)
_values_of_checkpoint = attrgetter(*CHECKPOINT.signed)
_values_of_delta = attrgetter(*DELTA.signed)
_words_of_delta = attrgetter(*DELTA.words)
_ITEM_VALUES = ITEM.signed[1:]
"""Its version is in its place."""
_values_of_item = attrgetter(*_ITEM_VALUES)
_bound_values_of_item = itemgetter(*map(ITEM.bind, _ITEM_VALUES))
_bound_words_of_item = itemgetter(*map(ITEM.bind, ITEM.words))
_values_of_vector = attrgetter(*VECTOR.signed)
_bound_values_of_vector = itemgetter(*map(VECTOR.bind, VECTOR.signed))


def head_content(row: Any) -> Sequence[Any]:
    """Return the signed columns of a row of ``threads``."""
    return head_content_of_values(_values_of_head(row))


def head_content_of_values(values: Sequence[Any]) -> Sequence[Any]:
    """Return the signed columns of a head from the *values* of these, in their order."""
    return ("head", *values[:-1], json_field(values[-1]))


def check_head(row: Any, keys: SigningKeys) -> Sums | None:
    """Verify the signature of a row of ``threads``, and check it against the anchor, if any.

    Returns the sums of its log; ``None`` if it is not signed and *keys* allow that.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check` and `AnchorCheck.check_log`.
    """
    sums = keys.check_head(row.signature, head_content(row))
    if sums is not None and keys.anchor is not None:
        keys.anchor.check_log(row)
    return sums


def checkpoint_content_of_values(
    tenant: str, log_id: UUID | bytes, seq: int, values: Sequence[Any]
) -> Sequence[Any]:
    """Return the signed columns of a checkpoint with these *values* of them.

    The key of a log may be given as bytes, the form in which it is signed, for many rows.
    """
    *lineage, meta, occurred_at, created_at = values
    return ("checkpoint", log_id, tenant, seq, *lineage, json_field(meta), occurred_at, created_at)


class _SignedDelta:
    """The signed columns of one kind of row of ``deltas``, in the order of those of all kinds."""

    def __init__(self, kind: RowKind) -> None:
        own = kind.signed
        # Behind the values of a row stand NULL and 0, for the columns that it does not have.
        places = {one: len(own) + (one == "depth") for one in DELTA.signed}
        places |= {one: at for at, one in enumerate(own)}
        self.arrange = itemgetter(*places.values())
        self.read = attrgetter(*own)
        self.bound = itemgetter(*map(kind.bind, own))
        self.bound_words = [kind.bind(one) if one in kind.words else None for one in DELTA.words]


_DELTAS = {name: _SignedDelta(kind) for name, kind in DELTA_KINDS.items()}
_STATE, _ENTRY = _DELTAS["state"], _DELTAS["entry"]


def state_content(row: Any, tenant: str, log_id: UUID | bytes) -> Sequence[Any]:
    """Return the signed columns of a state, from a row of the log *log_id*."""
    return ("state", tenant, log_id, row.seq, *_STATE.arrange((*_STATE.read(row), None, 0)))


def entry_content(row: Any, tenant: str, log_id: UUID | bytes) -> Sequence[Any]:
    """Return the signed columns of an entry, from a row of the log *log_id*."""
    return ("entry", tenant, log_id, row.seq, *_ENTRY.arrange((*_ENTRY.read(row), None, 0)))


def delta_parts_of_binds(
    kind: RowKind, binds: Mapping[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return what is signed of a row of ``deltas`` that a statement binds alone, and its words."""
    place, signed = kind.place_of(binds), _DELTAS[kind.name]
    content = signed.arrange((*signed.bound(binds), None, 0))
    words = [None if name is None else binds[name] for name in signed.bound_words]
    return (*place, *content), delta_words(place, words)


_FIRST_WORDS = 2
"""The number of columns of `DELTA.words` that the first release has signed."""


def delta_words(place: Place, words: Sequence[Any]) -> Sequence[Any]:
    """Return the columns of a row of ``deltas`` that have a signature of their own.

    *words* are those of `DELTA.words`. One that a later release has added is signed with its name,
    and where it is NULL not at all: so is what was signed before it was there.
    """
    first, later = words[:_FIRST_WORDS], zip(DELTA.words, words, strict=True)
    added = (one for one in islice(later, _FIRST_WORDS, None) if one[1] is not None)
    return (*place, *first, *chain.from_iterable(added))


def delta_content_of(row: Any, log_id: UUID) -> Sequence[Any]:
    """Return the signed columns of a row of ``deltas``, read from the log *log_id*."""
    place = row_place(row.tenant, log_id, row.seq, row.kind, row.label)
    return (*place, *_values_of_delta(row))


def delta_words_of(row: Any, log_id: UUID) -> Sequence[Any]:
    """Return the columns of a row of ``deltas`` that have a signature of their own."""
    place = row_place(row.tenant, log_id, row.seq, row.kind, row.label)
    return delta_words(place, _words_of_delta(row))


def checkpoint_content_of(row: Any, log_id: UUID) -> Sequence[Any]:
    """Return the signed columns of a row of ``checkpoints`` of the log *log_id*."""
    return checkpoint_content_of_values(row.tenant, log_id, row.seq, _values_of_checkpoint(row))


def parts_of_log_row(
    table: str, row: Any, log_id: UUID
) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Return the signed columns of a row of a log, and those with a signature of their own."""
    if table == "checkpoints":
        return checkpoint_content_of(row, log_id), None
    return delta_content_of(row, log_id), delta_words_of(row, log_id)


def item_parts_of_binds(binds: Mapping[str, Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return what is signed of an item that a statement binds alone, and its words."""
    place, words = ITEM.place_of(binds), _bound_words_of_item(binds)
    return _item_content(place, _bound_values_of_item(binds)), words


def _item_content(place: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
    # A payload comes last: see `encode_fields`.
    meta, codec, value, *times = values
    return (*place, json_field(meta), *times, codec, value)


def item_content_of(row: Any, tenant: str) -> Sequence[Any]:
    """Return the signed columns of a row of ``store_items`` of a tenant."""
    place = "item", tenant, row.namespace, row.key, row.version
    return _item_content(place, _values_of_item(row))


def check_item(row: Any, tenant: str, keys: SigningKeys) -> None:
    """Verify the signature of a row of ``store_items``, and check it against the anchor, if any.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check` and `AnchorCheck.check_item`.
    """
    keys.check(row.signature, item_content_of(row, tenant))
    if row.signature is not None and keys.anchor is not None:
        keys.anchor.check_item(tenant, row)


def vector_content_of_binds(binds: Mapping[str, Any]) -> Sequence[Any]:
    """Return what is signed of a vector that a statement binds: it as float32, little-endian.

    The version is that of the item: an older vector is not valid beside a newer value.
    """
    return (*VECTOR.place_of(binds), *_bound_values_of_vector(binds), binds["p_float32"])


def vector_content_of(
    row: Any, tenant: str, vector: bytes, *, version: int | None = None
) -> Sequence[Any]:
    """Return the signed columns of a row of ``embeddings``, read with the *version* of its item."""
    place = "vector", tenant, row.namespace, row.key, row.version if version is None else version
    return (*place, *_values_of_vector(row), vector)

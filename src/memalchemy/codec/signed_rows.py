"""Columns that a signature covers, after the kind and the place of a row, in this order for ever.

Left out are columns that memalchemy derives from others or never trusts: sizes, ``active_at``, the
``epoch`` that caches go by, and the thread that a log was forked from.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from memalchemy.codec.places import Place, row_place
from memalchemy.codec.signatures import SigningKeys, Sums, json_field


class SignedHead(NamedTuple):
    """The columns of ``threads`` that are signed."""

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


HEAD = SignedHead._fields

CHECKPOINT = (
    *("checkpoint_id", "parent_id", "ordinal", "rests_on", "run_id"),
    *("meta", "occurred_at", "created_at"),
)
"""The columns of ``checkpoints`` that are signed, beside its place."""

DELTA = (
    *("base_seq", "depth", "entry_key", "overwrites", "occurred_at", "stored_at"),
    *("codec", "payload"),
)
"""The columns of ``deltas`` that are signed and that a load reads, beside its place."""

DELTA_WORDS = ("radix", "search_text")
"""The columns of ``deltas`` that are covered by a second signature."""

ITEM = (
    *("version", "meta", "codec", "value"),
    *("created_at", "updated_at", "expires_at", "lifetime"),
)
"""The columns of ``store_items`` that are signed and that every read has, beside its key."""

ITEM_WORDS = ("search_text", "field_terms")
"""The columns of ``store_items`` that are covered by a second signature."""

VECTOR = ("field", "model", "part", "dimensions")
"""The columns of ``embeddings`` that are signed, beside the item's key and the vector."""


_values_of_head = attrgetter(*HEAD)
_values_of_checkpoint = attrgetter(*CHECKPOINT)
_values_of_delta = attrgetter(*DELTA)


def head_content(row: Any) -> Sequence[Any]:
    """Return the signed columns of a row of ``threads``."""
    return head_content_of_values(_values_of_head(row))


def head_content_of_values(values: Sequence[Any]) -> Sequence[Any]:
    """Return the signed columns of a head from *values* of the columns `HEAD`, in their order."""
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


def checkpoint_content(
    tenant: str,
    log_id: UUID,
    seq: int,
    *,
    checkpoint_id: str,
    parent_id: str | None,
    ordinal: int,
    rests_on: str | None,
    run_id: str | None,
    meta: dict[str, Any],
    occurred_at: datetime,
    created_at: datetime,
) -> Sequence[Any]:
    """Return the signed columns of a row of ``checkpoints``."""
    place = "checkpoint", log_id, tenant, seq
    lineage = checkpoint_id, parent_id, ordinal, rests_on, run_id
    return (*place, *lineage, json_field(meta), occurred_at, created_at)


def checkpoint_content_of_values(
    tenant: str, log_id: UUID | bytes, seq: int, values: Sequence[Any]
) -> Sequence[Any]:
    """Return the signed columns of a checkpoint with these *values* of the columns `CHECKPOINT`.

    The key of a log may be given as bytes, the form in which it is signed, for many rows.
    """
    *lineage, meta, occurred_at, created_at = values
    return ("checkpoint", log_id, tenant, seq, *lineage, json_field(meta), occurred_at, created_at)


def state_content(row: Any, tenant: str, log_id: UUID | bytes) -> Sequence[Any]:
    """Return the signed columns of a state, from a row of the log *log_id*."""
    place = "state", tenant, log_id, row.seq
    return (*place, row.base_seq, row.depth, None, None, None, None, row.codec, row.payload)


def entry_content(row: Any, tenant: str, log_id: UUID | bytes) -> Sequence[Any]:
    """Return the signed columns of an entry, from a row of the log *log_id*."""
    place = "entry", tenant, log_id, row.seq
    given = row.entry_key, None, row.occurred_at, row.stored_at, row.codec, row.payload
    return (*place, None, 0, *given)


def delta_content(
    place: Place,
    *,
    base_seq: int | None = None,
    depth: int = 0,
    entry_key: str | None = None,
    overwrites: int | None = None,
    occurred_at: datetime | None = None,
    stored_at: datetime | None = None,
    codec: str,
    payload: bytes,
) -> Sequence[Any]:
    """Return the signed columns of a row of ``deltas`` of any kind; its *place* names the kind."""
    return (*place, base_seq, depth, entry_key, overwrites, occurred_at, stored_at, codec, payload)


def delta_words(place: Place, radix: int | None, search_text: str | None) -> Sequence[Any]:
    """Return the columns of a row of ``deltas`` that have a signature of their own."""
    return (*place, radix, search_text)


def delta_content_of(row: Any, log_id: UUID) -> Sequence[Any]:
    """Return the signed columns of a row of ``deltas``, read from the log *log_id*."""
    place = row_place(row.tenant, log_id, row.seq, row.kind, row.label)
    return (*place, *_values_of_delta(row))


def delta_words_of(row: Any, log_id: UUID) -> Sequence[Any]:
    """Return the columns of a row of ``deltas`` that have a signature of their own."""
    place = row_place(row.tenant, log_id, row.seq, row.kind, row.label)
    return delta_words(place, row.radix, row.search_text)


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


def item_content(
    tenant: str,
    namespace: str,
    key: str,
    *,
    version: int,
    meta: dict[str, Any] | None,
    codec: str,
    value: bytes,
    created_at: datetime,
    updated_at: datetime,
    expires_at: datetime | None,
    lifetime: int | None,
) -> Sequence[Any]:
    """Return the signed columns of a row of ``store_items``; *namespace* is as stored."""
    place = "item", tenant, namespace, key, version
    times = created_at, updated_at, expires_at, lifetime
    return (*place, json_field(meta), *times, codec, value)


def item_content_of(row: Any, tenant: str) -> Sequence[Any]:
    """Return the signed columns of a row of ``store_items`` of a tenant."""
    place = "item", tenant, row.namespace, row.key, row.version
    times = row.created_at, row.updated_at, row.expires_at, row.lifetime
    return (*place, json_field(row.meta), *times, row.codec, row.value)


def check_item(row: Any, tenant: str, keys: SigningKeys) -> None:
    """Verify the signature of a row of ``store_items``, and check it against the anchor, if any.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check` and `AnchorCheck.check_item`.
    """
    keys.check(row.signature, item_content_of(row, tenant))
    if row.signature is not None and keys.anchor is not None:
        keys.anchor.check_item(tenant, row)


def vector_content(
    tenant: str,
    namespace: str,
    key: str,
    *,
    version: int,
    field: str,
    model: str,
    part: int,
    dimensions: int,
    vector: bytes,
) -> Sequence[Any]:
    """Return the signed columns of a row of ``embeddings``: the *vector* as float32, little-endian.

    The *version* is that of the item: an older vector is not valid beside a newer value.
    """
    place = "vector", tenant, namespace, key, version
    return (*place, field, model, part, dimensions, vector)


def vector_content_of(
    row: Any, tenant: str, vector: bytes, *, version: int | None = None
) -> Sequence[Any]:
    """Return the signed columns of a row of ``embeddings``, read with the *version* of its item."""
    place = "vector", tenant, row.namespace, row.key, row.version if version is None else version
    return (*place, row.field, row.model, row.part, row.dimensions, vector)

"""Comparison of rows across databases, and the epoch that marks a log as copied.

No database is used here: rows are mappings of column names to values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

from memalchemy.codec import vectors

Values = Mapping[str, Any]
"""A row: its values by the names of the columns."""

_EPOCH_HALF_BITS = 31


def same_rows(a: Sequence[Values], b: Sequence[Values], *, but: tuple[str, ...] = ()) -> bool:
    """Return whether two lists have the same rows in order, in every column except *but*."""
    return len(a) == len(b) and all(
        same_row(one, other, but=but) for one, other in zip(a, b, strict=True)
    )


def same_row(a: Values, b: Values, *, but: tuple[str, ...] = ()) -> bool:
    """Return whether two rows are the same, in every column except *but*."""
    return a.keys() == b.keys() and all(
        name in but or same_value(value, b[name]) for name, value in a.items()
    )


def same_value(a: Any, b: Any) -> bool:
    """Return whether two values of a column are the same.

    Numbers in JSON compare as numbers: to a JSONB column ``1.0`` and ``1`` are one. Values of other
    types are never the same, neither ``True`` and ``1`` nor ``1`` and ``"1"``. asyncpg gives UUIDs
    as a subclass of `uuid.UUID`.
    """
    if isinstance(a, dict):
        return (
            isinstance(b, dict)
            and a.keys() == b.keys()
            and all(same_value(value, b[key]) for key, value in a.items())
        )
    if isinstance(a, list):
        return (
            isinstance(b, list)
            and len(a) == len(b)
            and all(same_value(one, other) for one, other in zip(a, b, strict=True))
        )
    if type(a) is type(b):
        return bool(a == b)
    if {type(a), type(b)} == {int, float}:
        return float(a) == float(b)
    return isinstance(a, UUID) and isinstance(b, UUID) and a == b


def comparable_vector(vector: Any) -> bytes:
    """Return the float32 bytes of a vector that a database gave as bytes, as text or as a list."""
    if isinstance(vector, str):
        vector = [float(number) for number in vector.strip("[]").split(",") if number]
    if isinstance(vector, (bytes, memoryview)):
        return bytes(vector)
    return vectors.to_bytes(vector)


def epoch_of_copy(head: Values) -> int:
    """Make the epoch of a copied log from the *head* that it has in the source.

    Half of it is a digest of the source's epoch: as long as `is_of_same_epoch` holds, no row that
    was copied has been removed or changed in the source since. The other half is a digest of the
    rest of the head. Every later write of the log changes its version or its times: as long as
    `is_unchanged_copy` holds, nobody has written to the copy.
    """
    return _digest_of_epoch(head) << _EPOCH_HALF_BITS | _digest_of_head(head)


def is_unchanged_copy(head: Values) -> bool:
    """Return whether the head of a log is as a copy has left it.

    The epoch of a log that was never copied is taken for that of a copy with a probability of 2⁻³¹.
    """
    return int(head["epoch"]) % (1 << _EPOCH_HALF_BITS) == _digest_of_head(head)


def is_of_same_epoch(copied: Values, head: Values) -> bool:
    """Return whether a log that was *copied* has its rows of the epoch that the source has now."""
    return int(copied["epoch"]) >> _EPOCH_HALF_BITS == _digest_of_epoch(head)


def _digest_of_epoch(head: Values) -> int:
    return _digest(int(head["epoch"]))


def _digest_of_head(head: Values) -> int:
    return _digest(sorted((k, _plain_value(v)) for k, v in head.items() if k != "epoch"))


def _digest(values: object) -> int:
    text = repr(values).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest()) % (1 << _EPOCH_HALF_BITS)


def _plain_value(value: Any) -> Any:
    """Return *value* in a form that is the same whichever database it was read from."""
    if isinstance(value, dict):
        return sorted((key, _plain_value(item)) for key, item in value.items())
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(float(value)) if math.isfinite(value) else repr(value)
    return repr(value)

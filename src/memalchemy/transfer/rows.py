"""Rows as values that compare across databases, and the seal that a copy leaves on a log's head.

Knows no statement and no database: it is handed rows.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

from memalchemy.codec import vectors

Values = Mapping[str, Any]
_SEAL_BITS = 31


def same_rows(ours: Sequence[Values], theirs: Sequence[Values], *, but: str | None = None) -> bool:
    """Whether two lists hold the same rows, in order, and in every column except *but*."""
    return len(ours) == len(theirs) and all(
        same_row(a, b, but=but) for a, b in zip(ours, theirs, strict=True)
    )


def same_row(ours: Values, theirs: Values, *, but: str | None = None) -> bool:
    """Whether two rows have the same values of the same types; the column *but* is not compared."""
    return ours.keys() == theirs.keys() and all(
        name == but or same_value(value, theirs[name]) for name, value in ours.items()
    )


def same_value(ours: Any, theirs: Any) -> bool:
    """Whether two values of a column are the same.

    A number in JSON is a number: ``1.0`` and ``1`` are one to a JSONB column. Nothing else is what
    it is not: neither ``True`` and ``1``, nor ``1`` and ``"1"``.
    """
    if isinstance(ours, dict):
        return (
            isinstance(theirs, dict)
            and ours.keys() == theirs.keys()
            and all(same_value(value, theirs[key]) for key, value in ours.items())
        )
    if isinstance(ours, list):
        return (
            isinstance(theirs, list)
            and len(ours) == len(theirs)
            and all(same_value(a, b) for a, b in zip(ours, theirs, strict=True))
        )
    if type(ours) is type(theirs):
        return bool(ours == theirs)
    if {type(ours), type(theirs)} == {int, float}:
        return float(ours) == float(theirs)
    return False


def float32(vector: Any) -> bytes:
    """The bytes of a vector, however a database hands it out: as bytes, as text, as a list."""
    if isinstance(vector, str):
        vector = [float(number) for number in vector.strip("[]").split(",") if number]
    if isinstance(vector, (bytes, memoryview)):
        return bytes(vector)
    return vectors.to_bytes(vector)


def sealed_epoch(head: Values) -> int:
    """A new epoch for *head*: half of it random, half a digest of the rest of the row.

    Random, so that no process takes a base that it cached in an earlier life of the log for one of
    this life. A digest, because every later write of the log moves its version or its times: as
    long as `is_sealed` holds, nobody has touched what the copy has left.
    """
    chance = secrets.randbits(_SEAL_BITS)
    return chance << _SEAL_BITS | _digest(chance, head)


def is_sealed(head: Values) -> bool:
    """Whether a log's head is as a copy has left it. By accident once in two thousand million."""
    chance, digest = divmod(int(head["epoch"]), 1 << _SEAL_BITS)
    return digest == _digest(chance, head)


def _digest(chance: int, head: Values) -> int:
    told = repr((chance, sorted((k, _plain(v)) for k, v in head.items() if k != "epoch")))
    digest = blake2b(told.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % (1 << _SEAL_BITS)


def _plain(value: Any) -> Any:
    """*value* so that every database's reading of it looks the same."""
    if isinstance(value, dict):
        return sorted((key, _plain(item)) for key, item in value.items())
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(float(value)) if math.isfinite(value) else repr(value)
    return repr(value)

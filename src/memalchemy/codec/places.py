"""Places of rows: what a payload is bound to, so that it is valid in no other row.

A place is a tuple that begins with the kind of its row. Two different rows have different places,
and so have two versions of one item.
"""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from memalchemy.errors import Corrupt

Place = tuple[str | int | UUID, ...]


def state_place(tenant: str, log_id: UUID, seq: int) -> Place:
    """Return the place of a state, whether it is stored as a snapshot or as a delta."""
    return "state", tenant, log_id, seq


def entry_place(tenant: str, log_id: UUID, seq: int) -> Place:
    """Return the place of an entry."""
    return "entry", tenant, log_id, seq


def write_place(tenant: str, log_id: UUID, seq: int, checkpoint_id: str) -> Place:
    """Return the place of a row of pending writes; *checkpoint_id* is as stored."""
    return "write", tenant, log_id, seq, checkpoint_id


def row_place(tenant: str, log_id: UUID, seq: int, kind: str, label: str | None) -> Place:
    """Return the place of a row of a log of any *kind*; *label* is that of pending writes."""
    if kind == "entry":
        return entry_place(tenant, log_id, seq)
    if kind == "write":
        return write_place(tenant, log_id, seq, label)  # type: ignore[arg-type]  # refused if None
    return state_place(tenant, log_id, seq)


def item_place(tenant: str, namespace: str, key: str, version: int) -> Place:
    """Return the place of a version of an item; *namespace* and *key* are as stored."""
    return "item", tenant, namespace, key, version


def encode_place(place: Place) -> bytes:
    """Return a place as bytes; different places give different bytes.

    Raises:
        Corrupt: a row has a value in a column of its key that no such row has.
    """
    encoded = bytearray()
    for part in place:
        if isinstance(part, str):
            tag, raw = b"s", part.encode("utf-8", "surrogatepass")
        elif isinstance(part, UUID):  # drivers have classes of their own
            tag, raw = b"u", part.bytes
        elif _is_whole(part):  # from a column that somebody made NUMERIC, too
            tag, raw = b"i", str(int(part)).encode()
        else:
            raise Corrupt(f"the key of a row has a value of type {type(part).__name__}")
        encoded += tag + len(raw).to_bytes(4, "big") + raw
    return bytes(encoded)


def _is_whole(number: object) -> bool:
    if isinstance(number, Decimal):
        return number.is_finite() and number == number.to_integral_value()
    return isinstance(number, int) and not isinstance(number, bool)

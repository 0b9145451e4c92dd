"""Decode stored rows for host applications that query the tables themselves.

The library's own reads do not pass here: they decode many rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import and_, bindparam, inspect, select
from sqlalchemy.orm import object_session
from sqlalchemy.orm.exc import DetachedInstanceError

from memalchemy.codec import deltas
from memalchemy.codec.checksum import check_payload, check_state
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.payloads import decode_payload, decode_writes
from memalchemy.codec.places import item_place, row_place, state_place
from memalchemy.codec.values import decode_state
from memalchemy.contracts import PendingWrite
from memalchemy.errors import CapabilityMissing, Corrupt, NotFound
from memalchemy.keys import encode_namespace

Keys = str | bytes | Iterable[str | bytes] | None


def decode(row: Any, *, keys: Keys = None, bases: Iterable[Any] = ()) -> Any:
    """Return what a `StoreItemRow` or a `DeltaRow` holds, as new objects.

    An item gives its value, an entry its value, a write a list of `PendingWrite`, a snapshot its
    state. A delta is a state as the difference from another one: it needs *bases*, the rows that
    it is based on, in any order (``base_seq``, and so on down to a snapshot). Without them those of
    a mapped row are loaded by one query of its session.

    ``DeltaRow.payload`` is deferred: load it with the row, ``select(DeltaRow).options(
    undefer(DeltaRow.payload))``, where it cannot be loaded later, as in an `AsyncSession`.

    Args:
        row: of the two classes above; any object with their attributes, a `Row` for instance.
        keys: the keys of the tenant, as for `Database`, if it is encrypted.

    Raises:
        CapabilityMissing: a delta without the rows that it is based on.
        KeyMissing: it is encrypted, and its key is not among *keys*.
        Corrupt: it is not as it was stored.
    """
    keyring = Keyring(keys, allow_plaintext=True)
    if hasattr(row, "value"):
        named = row.namespace
        path = named if isinstance(named, str) else encode_namespace(named)
        place = item_place(row.tenant, path, row.key, row.version)
        codec, checksum, payload = keyring.decrypt(row.codec, row.checksum, bytes(row.value), place)
        return decode_payload(payload, checksum, codec)
    if row.kind in ("snapshot", "delta"):
        is_alone = row.base_seq is not None and bases == ()
        if is_alone and (mapped := inspect(row, raiseerr=False)) is not None and mapped.session:
            return load_state(row, mapped.mapper.local_table, keys)
        return _decode_state(row, keyring, bases)
    place = row_place(row.tenant, row.log_id, row.seq, row.kind, row.label)
    codec, checksum, payload = keyring.decrypt(row.codec, row.checksum, bytes(row.payload), place)
    if row.kind == "entry":
        return decode_payload(payload, checksum, codec)
    task_id, task_path, given = decode_writes(payload, checksum, codec)
    return [
        PendingWrite(task_id, index, channel, value, task_path) for index, channel, value in given
    ]


def load_state(row: Any, deltas: Any, keys: Keys = None) -> dict[str, Any]:
    """Return the state at the position of a mapped *row*, by one query of its session.

    *deltas* is the table of them. The query follows ``base_seq`` down to the snapshot.
    """
    session = object_session(row)
    if session is None:
        raise DetachedInstanceError(
            f"{type(row).__name__} {row.log_id}, {row.seq} is in no session, so its state cannot "
            "be loaded; use decode(row, bases=…) with the rows that it is based on"
        )
    chain = session.connection(bind_arguments={"mapper": inspect(row).mapper}).execute(
        _select_chain(deltas), {"p_log_id": row.log_id, "p_seq": row.seq}
    )
    rows = chain.all()
    for found in rows:
        if found.seq == row.seq:
            state: dict[str, Any] = _decode_state(found, Keyring(keys, allow_plaintext=True), rows)
            return state
    raise NotFound(f"the state at position {row.seq} was deleted since its row was loaded")


def _select_chain(deltas: Any) -> Any:
    """Select the row at a position, and those that it is based on: the payload goes along."""
    names = ("log_id", "tenant", "seq", "base_seq", "codec", "checksum", "payload")
    log_id = bindparam("p_log_id", type_=deltas.c.log_id.type)
    first = (
        select(*(deltas.c[name] for name in names))
        .where(deltas.c.log_id == log_id, deltas.c.seq == bindparam("p_seq"))
        .where(deltas.c.kind.in_(("snapshot", "delta")))
        .cte("chain", recursive=True)
    )
    base = deltas.alias("base")
    # A base is always earlier; a damaged row that says otherwise must not go round for ever.
    is_base = and_(base.c.seq == first.c.base_seq, base.c.seq < first.c.seq)
    rest = (
        select(*(base.c[name] for name in names))
        .join_from(first, base, is_base)
        .where(base.c.log_id == log_id)
    )
    return select(first.union_all(rest))


def _decode_state(row: Any, keyring: Keyring, bases: Iterable[Any]) -> dict[str, Any]:
    by_seq = {base.seq: base for base in bases}
    chain = [row]
    while chain[-1].base_seq is not None:
        base = by_seq.get(chain[-1].base_seq)
        if base is None:
            raise CapabilityMissing(
                f"the state at position {row.seq} is stored as its difference from the one at "
                f"{chain[-1].base_seq}: read its property `decoded` while it is in a session, or "
                "by Checkpointer.load(…, connection=session), or give decode() those rows"
            )
        chain.append(base)
    payloads, checksum = [], 0
    for link in reversed(chain):
        place = state_place(link.tenant, link.log_id, link.seq)
        codec, checksum, payload = keyring.decrypt(
            link.codec, link.checksum, bytes(link.payload), place
        )
        if codec != deltas.CODEC:
            raise Corrupt(f"a stored state has the unknown codec {codec!r}")
        check_payload(payload, checksum)
        payloads.append(payload)
    parts = deltas.decode_snapshot(payloads[0])
    if len(payloads) > 1:
        parts = deltas.apply_deltas(parts, payloads[1:])
    check_state(parts, checksum)
    return decode_state(parts)

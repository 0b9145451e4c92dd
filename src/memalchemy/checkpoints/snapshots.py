"""Checkpoints with their pending writes, one in one round trip, or a page of them.

For hosts that keep more than a state: what was written for the step after a checkpoint, and an
order of their own, that of checkpoint ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, String, and_, bindparam, literal_column, or_, select, union_all

from memalchemy.checkpoints.chain import CODEC, Tip
from memalchemy.checkpoints.queries import (
    chain_of,
    info_columns,
    of_live_log,
    parent_there,
    position_of,
    tip_of,
)
from memalchemy.codec import deltas, sealing
from memalchemy.codec import writes as codec
from memalchemy.codec.sealing import Keyring
from memalchemy.codec.values import Parts
from memalchemy.contracts import PendingWrite
from memalchemy.dialects import Dialect
from memalchemy.dialects.reach import within
from memalchemy.errors import Corrupt
from memalchemy.log import Log
from memalchemy.log.pending_writes import is_write
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    THREADS,
    key_range,
    of_log,
    same_log,
    words,
)
from memalchemy.statements import Program, beyond, statement

_STATE = ("seq", "base_seq", "depth", "codec", "checksum", "payload")


@statement(which=("latest", "named", "highest"))
def read_snapshot(d: Dialect, which: str) -> Executable:
    """A checkpoint's chain, as `queries.read_chain`, and its writes, in one round trip.

    ``highest`` is that of the highest id. A row of the chain has 2 for ``overwrites``.
    """
    chain = chain_of(which, parent_there())
    # NULL, 0 and 1 are a write's.
    states = select(chain, literal_column("2").label("overwrites"))
    key, text = DELTAS.c.entry_key, String()
    low: Any
    high: Any
    if which == "named":
        wanted: Any = bindparam("p_checkpoint_id", type_=DELTAS.c.label.type)
        low, high = (bindparam(bound, type_=key.type) for bound in ("p_low", "p_high"))
    else:
        name = CHECKPOINTS.alias("name")
        wanted = (
            select(name.c.checkpoint_id)
            .where(of_log(name), name.c.seq == position_of(which))
            .scalar_subquery()
        )
        low, high = (
            literal_column("'w/'", text).concat(wanted).concat(literal_column(end, text))
            for end in ("'/'", "'0'")
        )
    writes = select(
        DELTAS.c.label.label("parent_id"),
        DELTAS.c.label.label("checkpoint_id"),
        DELTAS.c.seq.label("raw_size"),
        DELTAS.c.seq.label("epoch"),
        *(DELTAS.c[name] for name in _STATE),
        DELTAS.c.overwrites,
    ).where(of_log(DELTAS), is_write(), key >= low, key < high, DELTAS.c.label == wanted)
    return union_all(states, writes)


class Found(tuple[Tip, str | None, list[Any]]):
    """A chain as stored, its checkpoint's parent, and the rows of its writes."""

    __slots__ = ()


def read(
    d: Dialect, log: Log, checkpoint_id: str | None, which: str, now: datetime
) -> Program[Found | None]:
    """A checkpoint as stored: `chain.rebuild` and `writes_of` open it. ``None`` if it is not there.

    *which* says how the newest is told, if there is no *checkpoint_id*.
    """
    values = log.binds() | {"p_now": now, "p_checkpoint_id": checkpoint_id}
    if checkpoint_id is not None:
        which = "named"
        values |= key_range(checkpoint_id)
    rows = yield read_snapshot(d, which=which), values
    states = sorted((row for row in rows if row.overwrites == 2), key=lambda row: row.seq)
    if not states:
        return None
    writes = [row for row in rows if row.overwrites != 2]
    return Found((tip_of(states), states[0].parent_id, writes))


def writes_of(rows: Iterable[Any], keyring: Keyring) -> list[PendingWrite]:
    """What rows of writes come to, in the order of (task_path, task_id, index).

    Of writes of one task with one index the first stands, unless a later call was to overwrite;
    below 0 the last.
    """
    found: dict[tuple[str, int], PendingWrite] = {}
    for row in sorted(rows, key=lambda row: row.seq):
        stored = keyring.open(row.codec, row.checksum, bytes(row.payload))
        task_id, task_path, writes = codec.decode_writes(
            stored.payload, stored.checksum, stored.codec
        )
        for index, channel, value in writes:
            if row.overwrites or index < 0 or (task_id, index) not in found:
                found[task_id, index] = PendingWrite(task_id, index, channel, value, task_path)
    return sorted(found.values(), key=lambda one: (one.task_path, one.task_id, one.index))


# --- Pages ---------------------------------------------------------------------------------------

SCOPES = ("log", "thread", "tenant")


@statement(scope=SCOPES, until=(True, False), after=(True, False))
def list_by_id(d: Dialect, scope: str, until: bool, after: bool) -> Executable:
    """Checkpoints by their ids, the highest first, in pages: of a log, or of those of a thread or
    a tenant in a namespace and below it; with *until*, those with a lower id than ``p_until``.
    """
    if scope == "log":
        where = [of_log(CHECKPOINTS)]
    else:
        where = [within(THREADS, below=True)]
        if scope == "thread":
            where.append(THREADS.c.thread_id == bindparam("k_thread_id"))
    name = CHECKPOINTS.c.checkpoint_id
    if until:
        where.append(name < bindparam("p_until", type_=name.type))
    if after:
        last = bindparam("p_checkpoint_id", type_=name.type)
        # The same id may be in several logs, as after a copy.
        others = beyond(d, THREADS, ("thread_id", "namespace"))
        where.append(or_(name < last, and_(name == last, others)))
    order = (name.desc(), THREADS.c.thread_id, THREADS.c.namespace)
    return (
        select(*info_columns(), THREADS.c.namespace)
        .select_from(of_live_log())
        .where(*where)
        .order_by(*order)
        .limit(bindparam("p_limit"))
    )


@statement()
def read_states(d: Dialect) -> Executable:
    """All rows that some checkpoints of a log are rebuilt from; binds ``p_keys``, of `lists`."""
    named = d.listed("p_keys", ("checkpoint_id",))
    first = (
        select(DELTAS.c.seq, DELTAS.c.base_seq)
        .select_from(CHECKPOINTS)
        .join(DELTAS, and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq))
        .where(of_log(CHECKPOINTS), CHECKPOINTS.c.checkpoint_id.in_(select(named.c.checkpoint_id)))
        .cte("needed", recursive=True)
    )
    base = DELTAS.alias("base")
    needed = first.union_all(
        select(base.c.seq, base.c.base_seq)
        .select_from(first)
        .join(base, and_(base.c.seq == first.c.base_seq, base.c.seq < first.c.seq))
        .where(of_log(base))
    )
    name, parent = CHECKPOINTS.alias("name"), CHECKPOINTS.alias("parent")
    above = and_(same_log(parent, name), parent.c.checkpoint_id == name.c.parent_id)
    return (
        select(
            name.c.checkpoint_id,
            parent.c.checkpoint_id.label("parent_id"),
            *(DELTAS.c[column] for column in _STATE),
        )
        .select_from(DELTAS)
        .outerjoin(name, and_(same_log(name, DELTAS), name.c.seq == DELTAS.c.seq))
        .outerjoin(parent, above)
        .where(
            of_log(DELTAS),
            DELTAS.c.kind.in_(words("snapshot", "delta")),
            DELTAS.c.seq.in_(select(needed.c.seq)),
        )
        .order_by(DELTAS.c.seq)
    )


def rebuilt(rows: Sequence[Any], keyring: Keyring) -> Mapping[str, Parts]:
    """The states of the checkpoints among *rows*, which hold all bases; not those of an earlier
    encoding.
    """
    found: dict[int, Parts] = {}
    named: dict[str, Parts] = {}
    for row in rows:
        if sealing.inner(row.codec) != CODEC:
            continue
        _, checksum, payload = keyring.open(row.codec, row.checksum, bytes(row.payload))
        deltas.check_payload(payload, checksum)
        if row.base_seq is None:
            parts = deltas.decode_snapshot(payload)
        elif row.base_seq in found:
            parts = deltas.apply_deltas(found[row.base_seq], [payload])
        else:
            raise Corrupt(f"a state that others build on is missing at position {row.base_seq}")
        deltas.check_state(parts, checksum)
        found[row.seq] = parts
        if row.checkpoint_id is not None:
            named[row.checkpoint_id] = parts
    return named

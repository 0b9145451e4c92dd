"""What a checkpointer reads: chains of states, and names without touching a payload."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    and_,
    bindparam,
    case,
    func,
    select,
)

from memalchemy.checkpoints.chain import CODEC, Link, Tip
from memalchemy.codec import sealing
from memalchemy.contracts import CheckpointInfo
from memalchemy.dialects import Dialect
from memalchemy.dialects.reach import within
from memalchemy.errors import Corrupt
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    THREADS,
    Log,
    live,
    of_log,
    same_log,
    words,
)
from memalchemy.statements import Program, statement

_LINK = ("seq", "base_seq", "depth", "codec", "checksum", "payload")
INFO = (
    "checkpoint_id",
    "parent_id",
    "seq",
    "meta",
    "created_at",
    "raw_size",
    "stored_size",
    "occurred_at",
)


def info_columns() -> list[ColumnElement[Any]]:
    """The columns that make a `CheckpointInfo`; those of ``threads`` have to be joined."""
    return [THREADS.c.thread_id, *(CHECKPOINTS.c[name] for name in INFO)]


def of_live_log() -> Any:
    """Checkpoints with their heads, if these are live; binds ``p_now``."""
    return CHECKPOINTS.join(THREADS, and_(same_log(THREADS, CHECKPOINTS), live()))


def position_of(which: str) -> Any:
    # One position, as a scalar, so that the planner knows: it starts at one row.
    wanted = CHECKPOINTS.alias("wanted")
    position = select(func.max(wanted.c.seq) if which == "latest" else wanted.c.seq).where(
        of_log(wanted)
    )
    if which == "named":
        position = position.where(wanted.c.checkpoint_id == bindparam("p_checkpoint_id"))
    if which == "highest":
        position = position.order_by(wanted.c.checkpoint_id.desc()).limit(1)
    return position.scalar_subquery()


@statement(which=("latest", "named"))
def read_chain(d: Dialect, which: str) -> Executable:
    """A checkpoint's rows from its snapshot on, with the epoch of its log: one round trip.

    The payload rides in the recursion: joined afterwards, PostgreSQL has planned it as a scan of
    the whole log.
    """
    chain = chain_of(which)
    return select(chain).order_by(chain.c.seq)


def parent_there() -> Any:
    """A checkpoint's parent, if it has not been deleted."""
    parent = CHECKPOINTS.alias("parent")
    return (
        select(parent.c.checkpoint_id)
        .where(same_log(parent, CHECKPOINTS), parent.c.checkpoint_id == CHECKPOINTS.c.parent_id)
        .correlate(CHECKPOINTS)
        .scalar_subquery()
        .label("parent_id")
    )


def chain_of(which: str, *also: Any) -> Any:
    """The rows of a checkpoint; *also* columns of its name are in each."""
    start = CHECKPOINTS.c.seq == position_of(which)
    first = (
        select(
            *also,
            CHECKPOINTS.c.checkpoint_id,
            CHECKPOINTS.c.raw_size,
            THREADS.c.epoch.label("epoch"),
            *(DELTAS.c[name] for name in _LINK),
        )
        .select_from(CHECKPOINTS)
        .join(DELTAS, and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq))
        .join(THREADS, same_log(THREADS, CHECKPOINTS))
        .where(of_log(CHECKPOINTS), start, live())
        .cte("chain", recursive=True)
    )
    base = DELTAS.alias("base")
    carried = [*(column.name for column in also), "checkpoint_id", "raw_size", "epoch"]
    return first.union_all(
        select(*(first.c[name] for name in carried), *(base.c[name] for name in _LINK))
        .select_from(first)
        # A base is always earlier; a damaged row that says otherwise must not go round for ever.
        .join(base, and_(base.c.seq == first.c.base_seq, base.c.seq < first.c.seq))
        .where(of_log(base))
    )


def chain(d: Dialect, log: Log, checkpoint_id: str | None, now: datetime) -> Program[Tip | None]:
    """The rows of a checkpoint (the newest, without an id), in order and complete, as stored.

    `rebuild` opens, decodes and verifies them. ``None`` if there is no such checkpoint.
    """
    which = "latest" if checkpoint_id is None else "named"
    values = log.binds() | {"p_now": now, "p_checkpoint_id": checkpoint_id}
    rows = yield read_chain(d, which=which), values
    return tip_of(rows) if rows else None


def tip_of(rows: Sequence[Any]) -> Tip:
    """The rows of a chain, snapshot first."""
    links: list[Link] = []
    expected: int | None = None
    codec = sealing.inner(rows[-1].codec)
    for row in reversed(rows):
        if expected is not None and row.seq != expected:
            raise Corrupt(f"a state that others build on is missing at position {expected}")
        if codec != CODEC or sealing.inner(row.codec) != codec:
            raise Corrupt(f"a stored state has the unknown codec {row.codec!r}")
        links.append(Link(row.seq, row.depth, bytes(row.payload), row.checksum, None, row.codec))
        expected = row.base_seq
    if expected is not None:
        raise Corrupt(f"a state that others build on is missing at position {expected}")
    newest = rows[-1]
    return Tip(
        newest.checkpoint_id,
        newest.epoch,
        tuple(reversed(links)),
        newest.raw_size,
    )


def info(row: Any) -> CheckpointInfo:
    """A row of the statements below as a record."""
    values = dict(zip(("thread_id", *INFO), row, strict=False))
    values["metadata"] = values.pop("meta")
    return CheckpointInfo(**values)


@statement(before=(True, False))
def list_names(d: Dialect, before: bool) -> Executable:
    """The checkpoints of a log, newest first, in pages."""
    query = (
        select(*info_columns())
        .select_from(of_live_log())
        .where(of_log(CHECKPOINTS))
        .order_by(CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )
    return query.where(CHECKPOINTS.c.seq < bindparam("p_before")) if before else query


@statement()
def read_name(d: Dialect) -> Executable:
    """One checkpoint by its id."""
    named = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    return select(*info_columns()).select_from(of_live_log()).where(of_log(CHECKPOINTS), named)


@statement()
def find_saved(d: Dialect) -> Executable:
    """What a save returned, if it happened: its id with the time that the save was stamped with."""
    return (
        select(CHECKPOINTS.c.seq, THREADS.c.version, THREADS.c.epoch, THREADS.c.previous_id)
        .join(THREADS, same_log(THREADS, CHECKPOINTS))
        .where(
            of_log(CHECKPOINTS),
            CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id"),
            CHECKPOINTS.c.created_at == bindparam("p_created_at"),
        )
    )


@statement()
def list_newest(d: Dialect) -> Executable:
    """The newest checkpoints over all threads.

    The newest N are all in the N threads saved last, so of older threads one name is read. When a
    thread was saved last, its newest checkpoint says: other writes move the thread's own clock.
    """
    newest = CHECKPOINTS.alias("newest")
    heads = (
        select(THREADS.c.log_id, THREADS.c.thread_id)
        .join(
            newest,
            and_(same_log(newest, THREADS), newest.c.checkpoint_id == THREADS.c.head_id),
        )
        .where(within(THREADS, below=False), live())
        .order_by(newest.c.created_at.desc())
        .limit(bindparam("p_limit"))
        .subquery("heads")
    )
    return (
        select(heads.c.thread_id, *(CHECKPOINTS.c[name] for name in INFO))
        .select_from(CHECKPOINTS)
        .join(heads, same_log(CHECKPOINTS, heads))
        .order_by(CHECKPOINTS.c.created_at.desc(), CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )


def _of_tenant() -> ColumnElement[bool]:
    return CHECKPOINTS.c.tenant == bindparam("k_tenant", type_=CHECKPOINTS.c.tenant.type)


METADATA_KINDS = ("text", "number", "true", "false", "null", "container")


@statement(kind=METADATA_KINDS)
def list_by_metadata(d: Dialect, kind: str) -> Executable:
    """Checkpoints whose metadata has a key with a value, newest first."""
    return (
        select(*info_columns())
        .select_from(of_live_log())
        .where(within(THREADS, below=False), _of_tenant(), d.json_equals(CHECKPOINTS, kind))
        .order_by(CHECKPOINTS.c.created_at.desc(), CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )


@statement(kind=METADATA_KINDS)
def threads_by_metadata(d: Dialect, kind: str) -> Executable:
    """Threads, in any namespace, with a checkpoint whose metadata has a key with a value."""
    return (
        select(THREADS.c.thread_id)
        .select_from(CHECKPOINTS.join(THREADS, same_log(THREADS, CHECKPOINTS)))
        .where(_of_tenant(), d.json_equals(CHECKPOINTS, kind))
        .distinct()
    )


@statement()
def measure(d: Dialect) -> Executable:
    """Sizes of a log's named checkpoints."""
    snapshots = case((DELTAS.c.kind.in_(words("snapshot")), 1), else_=0)
    return (
        select(
            func.count(),
            func.coalesce(func.sum(CHECKPOINTS.c.raw_size), 0),
            func.coalesce(func.sum(CHECKPOINTS.c.stored_size), 0),
            func.coalesce(func.sum(snapshots), 0),
        )
        .select_from(of_live_log())
        .join(DELTAS, and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq))
        .where(of_log(CHECKPOINTS))
    )


@statement()
def list_runs(d: Dialect) -> Executable:
    """The checkpoints that some runs have made below a namespace; binds ``p_keys``, of `lists`."""
    named = d.listed("p_keys", ("run_id",))
    return (
        select(THREADS.c.thread_id, THREADS.c.namespace, CHECKPOINTS.c.checkpoint_id)
        .select_from(CHECKPOINTS.join(THREADS, same_log(THREADS, CHECKPOINTS)))
        .where(
            _of_tenant(),
            CHECKPOINTS.c.run_id.in_(select(named.c.run_id)),
            within(THREADS, below=True),
        )
        .order_by(THREADS.c.thread_id, THREADS.c.namespace)
    )

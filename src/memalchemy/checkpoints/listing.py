"""List checkpoints with their metadata, without reading a payload."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
)
from sqlalchemy import literal_column as constant

from memalchemy.contracts import CheckpointInfo
from memalchemy.database import Database
from memalchemy.dialects import Dialect, in_namespace
from memalchemy.keys import decode_namespace
from memalchemy.log.entries import listed_heads
from memalchemy.log.tables import (
    CHECKPOINT_INFO,
    CHECKPOINT_ROW,
    CHECKPOINTS,
    DELTAS,
    THREADS,
    constants,
    live,
    of_log,
    routed,
    same_log,
)
from memalchemy.proofs import COUNTED, REPORTED
from memalchemy.protection.proven_reads import (
    HEADS,
    NAMED_CHECKPOINTS,
    NEWEST_CHECKPOINTS,
    unless,
)
from memalchemy.protection.signed_reads import check_info, check_words_of_state
from memalchemy.statements import after_key, statement


def info_columns() -> list[ColumnElement[Any]]:
    """Return the columns of a `CheckpointInfo`; some are of ``threads``, which must be joined."""
    return [
        THREADS.c.thread_id,
        THREADS.c.namespace,
        *(CHECKPOINTS.c[name] for name in CHECKPOINT_ROW),
    ]


def checkpoints_with_heads(proven: bool = False) -> Any:
    """Return checkpoints joined to their heads, and only those of live ones; binds ``p_now``.

    With *proven*, deleted and expired heads are included; who checks the proof leaves them out.
    """
    here = and_(same_log(THREADS, CHECKPOINTS), *unless(proven, live()))
    return CHECKPOINTS.join(THREADS, here)


def info(db: Database, row: Any) -> CheckpointInfo:
    """Return a row of the statements below as a `CheckpointInfo`.

    Raises:
        Corrupt, KeyMissing: the row is not what was signed, in a database with signing keys.
    """
    check_info(db.tenant, row, db.signing)
    values = dict(zip(("thread_id", "namespace", *CHECKPOINT_INFO), row, strict=False))
    values["metadata"] = values.pop("meta")
    values["namespace"] = decode_namespace(values["namespace"])
    return CheckpointInfo(**values)


def found_info(db: Database, row: Any) -> CheckpointInfo:
    """Return a row that a search for words has found, as `info` does.

    Raises:
        Corrupt, KeyMissing: the row, or the words by which it was found, are not what was signed.
    """
    check_words_of_state(db.tenant, row, db.signing)
    return info(db, row)


@statement(proves=("checkpoint", "log"), before=(True, False))
def list_checkpoints(dialect: Dialect, before: bool) -> Executable:
    """Select a page of the checkpoints of a log, newest first."""
    query = (
        select(*info_columns())
        .select_from(checkpoints_with_heads())
        .where(of_log(CHECKPOINTS))
        .order_by(CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )
    return query.where(CHECKPOINTS.c.seq < bindparam("p_before")) if before else query


@statement(proves="checkpoint")
def read_checkpoint(dialect: Dialect) -> Executable:
    """Select one checkpoint by its id."""
    named = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    return (
        select(*info_columns())
        .select_from(checkpoints_with_heads())
        .where(of_log(CHECKPOINTS), named)
    )


@statement(proves="whole log")
def list_until(dialect: Dialect) -> Executable:
    """Select the checkpoints of a log that happened at or before ``p_moment``, latest first."""
    occurred = CHECKPOINTS.c.occurred_at
    return (
        select(*info_columns())
        .select_from(checkpoints_with_heads())
        .where(of_log(CHECKPOINTS), occurred <= bindparam("p_moment", type_=occurred.type))
        .order_by(occurred.desc(), CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )


@statement(proves=(NEWEST_CHECKPOINTS, "checkpoint"))
def list_newest(dialect: Dialect, proven: bool) -> Executable:
    """Select the newest checkpoints over all threads.

    The newest N are all in the N threads saved last, so of older threads one checkpoint is read.
    The time of a thread's last save is that of its newest checkpoint: other writes move
    ``updated_at``. In the form that is *proven* the newest checkpoint of a thread is the one at the
    last position, and threads come first whose heads name another one, or none.
    """
    newest = CHECKPOINTS.alias("newest")
    names = [THREADS.c[name] for name in ("log_id", "thread_id", "namespace")]
    columns = [CHECKPOINTS.c[name] for name in CHECKPOINT_ROW]
    if proven:
        last_seq = select(func.max(newest.c.seq)).where(same_log(newest, THREADS))
        logs = (
            select(*names, THREADS.c.head_id, last_seq.scalar_subquery().label("seq"))
            .where(in_namespace(THREADS, below=False))
            .subquery("logs")
        )
        last = CHECKPOINTS.alias("last")
        is_named = last.c.checkpoint_id == logs.c.head_id
        has_newest = case((is_named, constant("1")), else_=constant("0"))
        heads = (
            select(
                logs.c.log_id, logs.c.thread_id, logs.c.namespace, has_newest.label("has_newest")
            )
            .select_from(logs.outerjoin(last, and_(same_log(last, logs), last.c.seq == logs.c.seq)))
            .order_by(has_newest, *_newest_first_order(last))
            .limit(bindparam("p_limit"))
            .subquery("heads")
        )
        return (
            select(heads.c.thread_id, heads.c.namespace, *columns, heads.c.has_newest)
            .select_from(heads)
            .join(THREADS, same_log(THREADS, heads))
            .outerjoin(CHECKPOINTS, same_log(CHECKPOINTS, heads))
            .order_by(heads.c.has_newest, *_newest_first_order(CHECKPOINTS))
            .limit(bindparam("p_limit"))
        )
    here = and_(same_log(newest, THREADS), newest.c.checkpoint_id == THREADS.c.head_id)
    heads = (
        select(*names)
        .join(newest, here)
        .where(in_namespace(THREADS, below=False), live())
        .order_by(*_newest_first_order(newest))
        .limit(bindparam("p_limit"))
        .subquery("heads")
    )
    return (
        select(heads.c.thread_id, heads.c.namespace, *columns)
        .select_from(CHECKPOINTS.join(heads, same_log(CHECKPOINTS, heads)))
        .order_by(*_newest_first_order(CHECKPOINTS))
        .limit(bindparam("p_limit"))
    )


def _newest_first_order(table: Any) -> tuple[ColumnElement[Any], ...]:
    """Return the total order of a tenant's checkpoints, in which copies of one have its time."""
    return table.c.created_at.desc(), table.c.seq.desc(), table.c.log_id


def _is_of_tenant() -> ColumnElement[bool]:
    return CHECKPOINTS.c.tenant == bindparam("k_tenant", type_=CHECKPOINTS.c.tenant.type)


def _has_metadata_pair(dialect: Dialect, kind: str) -> ColumnElement[bool]:
    """Return the condition that a checkpoint's metadata has a key with a value of *kind*."""
    indexed = dialect.statements.json_may_equal(CHECKPOINTS, kind)
    is_equal = dialect.statements.json_equals(CHECKPOINTS, kind)
    return is_equal if indexed is None else and_(indexed, is_equal)


METADATA_KINDS = ("text", "number", "true", "false", "null", "container")


@statement(proves=(HEADS, "checkpoint"), kind=METADATA_KINDS, exact=(True, False))
def list_by_metadata(dialect: Dialect, kind: str, exact: bool, proven: bool) -> Executable | None:
    """Select checkpoints whose metadata has a key with a value, newest first.

    Unless *exact*, `json_may_equal` may find rows that have another value: their ``is_equal`` is 0.
    """
    is_equal = dialect.statements.json_equals(CHECKPOINTS, kind)
    indexed = dialect.statements.json_may_equal(CHECKPOINTS, kind)
    if exact and indexed is None:
        return None
    looked_at = _has_metadata_pair(dialect, kind) if exact or indexed is None else indexed
    in_live_log: Any = select(constant("1")).where(
        same_log(THREADS, CHECKPOINTS),
        in_namespace(THREADS, below=False),
        *unless(proven, live()),
    )
    order = _newest_first_order(CHECKPOINTS)
    # The rows themselves, and the other look at the metadata, are only of those that are returned.
    newest = dialect.statements.materialized(
        select(CHECKPOINTS.c.log_id, CHECKPOINTS.c.seq)
        .where(_is_of_tenant(), looked_at)
        .where(in_live_log.correlate(CHECKPOINTS).exists())
        .order_by(*order)
        .limit(dialect.statements.hide_from_planner(bindparam("p_limit", type_=Integer))),
        "newest",
    )
    found = case((is_equal, constant("1")), else_=constant("0"))
    here = and_(same_log(CHECKPOINTS, newest), CHECKPOINTS.c.seq == newest.c.seq)
    return (
        select(*info_columns(), found.label("is_equal"))
        .select_from(newest.join(CHECKPOINTS, here).join(THREADS, same_log(THREADS, CHECKPOINTS)))
        .order_by(*order)
    )


@statement(proves="removed rows", kind=METADATA_KINDS)
def list_threads_by_metadata(dialect: Dialect, kind: str) -> Executable:
    """Select threads, in any namespace, by a pair in their own metadata or in a checkpoint's."""
    by_checkpoint = (
        select(THREADS.c.thread_id)
        .select_from(CHECKPOINTS.join(THREADS, same_log(THREADS, CHECKPOINTS)))
        .where(_is_of_tenant(), _has_metadata_pair(dialect, kind))
    )
    one, none = constant("1", Integer), constant("0", Integer)
    # SQLite looks into what is JSON alone: of anything else it is an error.
    is_object = dialect.statements.json_is_object(THREADS.c.meta) == one
    equals = case((dialect.statements.json_equals(THREADS, kind), one), else_=none)
    own = select(THREADS.c.thread_id).where(
        THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type),
        case((is_object, equals), else_=none) == one,
    )
    return by_checkpoint.union(own)


@statement(unproven=REPORTED)
def list_threads_without_metadata(dialect: Dialect) -> Executable:
    """Select the logs whose metadata is no JSON object: somebody has edited it."""
    is_object = dialect.statements.json_is_object(THREADS.c.meta)
    return select(THREADS.c.thread_id, THREADS.c.namespace).where(
        THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type),
        is_object == constant("0", Integer),
    )


@statement(unproven=COUNTED)
def measure_log(dialect: Dialect) -> Executable:
    """Select the number and sizes of a log's checkpoints.

    Where each state belongs to a checkpoint, the snapshots are counted by indexes: of all rows, of
    those with a key (writes), and of those with a base. Where every position of the log belongs to
    a checkpoint, the rows need not be counted.
    """
    state_of = and_(same_log(DELTAS, CHECKPOINTS), DELTAS.c.seq == CHECKPOINTS.c.seq)

    def count(table: Any, *where: ColumnElement[bool]) -> Any:
        rows = select(func.count()).select_from(table).where(of_log(DELTAS), *where)
        return rows.scalar_subquery()

    whole = count(DELTAS.join(CHECKPOINTS, state_of), DELTAS.c.kind.in_(constants("snapshot")))
    checkpoints: ColumnElement[int] = func.count()
    states = count(DELTAS) - count(DELTAS, DELTAS.c.entry_key.is_not(None))
    based = count(DELTAS, DELTAS.c.base_seq.is_not(None))
    is_live = select(constant("1")).where(of_log(THREADS), live()).exists()
    positions = select(THREADS.c.next_seq).where(of_log(THREADS)).scalar_subquery() - constant("1")
    return select(
        checkpoints,
        func.coalesce(func.sum(CHECKPOINTS.c.raw_size), 0),
        func.coalesce(func.sum(CHECKPOINTS.c.stored_size), 0),
        case(
            (checkpoints == constant("0"), constant("0")),
            (checkpoints == positions, checkpoints - based),
            (checkpoints == states, checkpoints - based),
            else_=whole,
        ),
    ).where(of_log(CHECKPOINTS), is_live)


@statement(proves=NAMED_CHECKPOINTS)
def list_checkpoints_of_runs(dialect: Dialect, proven: bool) -> Executable:
    """Select the checkpoints below a namespace that have one of the run ids ``p_keys`` lists."""
    named = dialect.statements.rows_from_list("p_keys", ("run_id",))
    # SQLite would rather go through all threads of the tenant.
    made = dialect.statements.materialized(
        select(CHECKPOINTS.c.log_id, CHECKPOINTS.c.seq, CHECKPOINTS.c.checkpoint_id).where(
            _is_of_tenant(), CHECKPOINTS.c.run_id.in_(select(named.c.run_id))
        ),
        "made",
    )
    named_here = made.join(THREADS, same_log(THREADS, made))
    if proven:
        here = and_(same_log(CHECKPOINTS, made), CHECKPOINTS.c.seq == made.c.seq)
        named_here = named_here.join(CHECKPOINTS, here)
    return (
        select(THREADS.c.thread_id, THREADS.c.namespace, made.c.seq, made.c.checkpoint_id)
        .select_from(named_here)
        .where(in_namespace(THREADS, below=True), *unless(proven, live()))
        .order_by(THREADS.c.thread_id, THREADS.c.namespace)
    )


SCOPES = ("log", "thread", "namespace", "tenant")


@statement(proves=(HEADS, "checkpoint"), scope=SCOPES, until=(True, False), after=(True, False))
def list_by_id(dialect: Dialect, scope: str, until: bool, after: bool, proven: bool) -> Executable:
    """Select a page of checkpoints by their ids, the highest first.

    Those of a log, of all logs in a namespace, or of the logs of a thread or a tenant in a
    namespace and below it. With *until*, those with a lower id than ``p_until``.
    """
    if scope == "log":
        where = [of_log(CHECKPOINTS)]
    else:
        where = [in_namespace(THREADS, below=scope != "namespace")]
        if scope == "thread":
            where.append(THREADS.c.thread_id == bindparam("k_thread_id"))
    name = CHECKPOINTS.c.checkpoint_id
    if until:
        where.append(name < bindparam("p_until", type_=name.type))
    if after:
        last = bindparam("p_checkpoint_id", type_=name.type)
        # The same id may be in several logs, as after a copy.
        others = after_key(dialect, THREADS, ("thread_id", "namespace"))
        where.append(or_(name < last, and_(name == last, others)))
    order = (name.desc(), THREADS.c.thread_id, THREADS.c.namespace)
    return (
        select(*info_columns())
        .select_from(checkpoints_with_heads(proven))
        .where(*where)
        .order_by(*order)
        .limit(bindparam("p_limit"))
    )


@statement(proves=("checkpoint", "log"))
def list_oldest(dialect: Dialect) -> Executable:
    """Select a page of the checkpoints of a log behind the position ``p_after``, oldest first."""
    behind = CHECKPOINTS.c.seq > bindparam("p_after", type_=CHECKPOINTS.c.seq.type)
    return (
        select(*info_columns())
        .select_from(checkpoints_with_heads())
        .where(of_log(CHECKPOINTS), behind)
        .order_by(CHECKPOINTS.c.seq)
        .limit(bindparam("p_limit"))
    )


@statement(proves=("checkpoint", "log"))
def list_of_logs(dialect: Dialect) -> Executable:
    """Select all checkpoints of the logs ``p_logs`` lists, by thread, namespace and position."""
    here = same_log(CHECKPOINTS, THREADS)
    return (
        select(*info_columns())
        .select_from(listed_heads(dialect).join(CHECKPOINTS, here))
        .where(live(), *routed(dialect, THREADS, CHECKPOINTS))
        .order_by(THREADS.c.thread_id, THREADS.c.namespace, CHECKPOINTS.c.seq)
    )

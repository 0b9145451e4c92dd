"""Listing checkpoints: names and metadata, without touching a payload."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Executable, and_, bindparam, case, func, or_, select

from memalchemy.contracts import CheckpointInfo
from memalchemy.dialects import Dialect, in_namespace
from memalchemy.keys import decode_namespace
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    THREADS,
    constants,
    live,
    of_log,
    same_log,
)
from memalchemy.statements import beyond, statement

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
    return [
        THREADS.c.thread_id,
        THREADS.c.namespace,
        *(CHECKPOINTS.c[name] for name in INFO),
    ]


def of_live_log() -> Any:
    """Checkpoints with their heads, if these are live; binds ``p_now``."""
    return CHECKPOINTS.join(THREADS, and_(same_log(THREADS, CHECKPOINTS), live()))


def info(row: Any) -> CheckpointInfo:
    """A row of the statements below as a record."""
    values = dict(zip(("thread_id", "namespace", *INFO), row, strict=False))
    values["metadata"] = values.pop("meta")
    values["namespace"] = decode_namespace(values["namespace"])
    return CheckpointInfo(**values)


@statement(before=(True, False))
def list_names(dialect: Dialect, before: bool) -> Executable:
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
def read_name(dialect: Dialect) -> Executable:
    """One checkpoint by its id."""
    named = CHECKPOINTS.c.checkpoint_id == bindparam("p_checkpoint_id")
    return select(*info_columns()).select_from(of_live_log()).where(of_log(CHECKPOINTS), named)


@statement()
def list_newest(dialect: Dialect) -> Executable:
    """The newest checkpoints over all threads.

    The newest N are all in the N threads saved last, so of older threads one name is read. When a
    thread was saved last, its newest checkpoint says: other writes move the thread's own clock.
    """
    newest = CHECKPOINTS.alias("newest")
    heads = (
        select(THREADS.c.log_id, THREADS.c.thread_id, THREADS.c.namespace)
        .join(
            newest,
            and_(same_log(newest, THREADS), newest.c.checkpoint_id == THREADS.c.head_id),
        )
        .where(in_namespace(THREADS, below=False), live())
        .order_by(newest.c.created_at.desc())
        .limit(bindparam("p_limit"))
        .subquery("heads")
    )
    return (
        select(heads.c.thread_id, heads.c.namespace, *(CHECKPOINTS.c[name] for name in INFO))
        .select_from(CHECKPOINTS)
        .join(heads, same_log(CHECKPOINTS, heads))
        .order_by(CHECKPOINTS.c.created_at.desc(), CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )


def _of_tenant() -> ColumnElement[bool]:
    return CHECKPOINTS.c.tenant == bindparam("k_tenant", type_=CHECKPOINTS.c.tenant.type)


METADATA_KINDS = ("text", "number", "true", "false", "null", "container")


@statement(kind=METADATA_KINDS)
def list_by_metadata(dialect: Dialect, kind: str) -> Executable:
    """Checkpoints whose metadata has a key with a value, newest first."""
    return (
        select(*info_columns())
        .select_from(of_live_log())
        .where(
            in_namespace(THREADS, below=False),
            _of_tenant(),
            dialect.statements.json_equals(CHECKPOINTS, kind),
        )
        .order_by(CHECKPOINTS.c.created_at.desc(), CHECKPOINTS.c.seq.desc())
        .limit(bindparam("p_limit"))
    )


@statement(kind=METADATA_KINDS)
def threads_by_metadata(dialect: Dialect, kind: str) -> Executable:
    """Threads, in any namespace, with a checkpoint whose metadata has a key with a value."""
    return (
        select(THREADS.c.thread_id)
        .select_from(CHECKPOINTS.join(THREADS, same_log(THREADS, CHECKPOINTS)))
        .where(_of_tenant(), dialect.statements.json_equals(CHECKPOINTS, kind))
        .distinct()
    )


@statement()
def measure(dialect: Dialect) -> Executable:
    """Sizes of a log's named checkpoints."""
    snapshots = case((DELTAS.c.kind.in_(constants("snapshot")), 1), else_=0)
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
def list_runs(dialect: Dialect) -> Executable:
    """The checkpoints that some runs have made below a namespace; binds ``p_keys``, of `lists`."""
    named = dialect.statements.rows_from_list("p_keys", ("run_id",))
    return (
        select(THREADS.c.thread_id, THREADS.c.namespace, CHECKPOINTS.c.checkpoint_id)
        .select_from(CHECKPOINTS.join(THREADS, same_log(THREADS, CHECKPOINTS)))
        .where(
            _of_tenant(),
            CHECKPOINTS.c.run_id.in_(select(named.c.run_id)),
            in_namespace(THREADS, below=True),
        )
        .order_by(THREADS.c.thread_id, THREADS.c.namespace)
    )


SCOPES = ("log", "thread", "namespace", "tenant")


@statement(scope=SCOPES, until=(True, False), after=(True, False))
def list_by_id(dialect: Dialect, scope: str, until: bool, after: bool) -> Executable:
    """Checkpoints by their ids, the highest first, in pages.

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
        others = beyond(dialect, THREADS, ("thread_id", "namespace"))
        where.append(or_(name < last, and_(name == last, others)))
    order = (name.desc(), THREADS.c.thread_id, THREADS.c.namespace)
    return (
        select(*info_columns())
        .select_from(of_live_log())
        .where(*where)
        .order_by(*order)
        .limit(bindparam("p_limit"))
    )

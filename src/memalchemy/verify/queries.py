"""What `verify` asks. Each statement sees one moment, so what it compares was never torn apart by
somebody else's write: a difference that one of them shows is damage, not a race.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Executable,
    Integer,
    Select,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
)

from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    NAMES,
    STATES,
    THREADS,
    of_log,
    same_log,
    words,
)
from memalchemy.statements import beyond, statement

REBUILD_STEPS = 2
LISTED = ("thread_id", "namespace", "log_id")
"""The columns that logs are listed by: damage can give two of them the same names."""


@statement(after=(True, False))
def list_tenants(d: Dialect, after: bool) -> Executable:
    """The next tenant that has a thread: a walk along the key, not over the rows."""
    query = select(func.min(THREADS.c.tenant).label("tenant"))
    return query.where(THREADS.c.tenant > bindparam("k_tenant")) if after else query


def _of_tenant(query: Select[Any], scope: str) -> Select[Any]:
    query = query.where(THREADS.c.tenant == bindparam("k_tenant"))
    if scope == "thread":
        query = query.where(THREADS.c.thread_id == bindparam("k_thread_id"))
    return query


@statement(scope=("tenant", "thread"))
def count_positions(d: Dialect, scope: str) -> Executable:
    """How many positions the logs have allotted, roughly how many rows there are to read."""
    return _of_tenant(
        select(func.coalesce(func.sum(THREADS.c.next_seq - 1), 0).label("positions")), scope
    )


@statement(scope=("tenant", "thread"), after=(True, False))
def list_logs(d: Dialect, scope: str, after: bool) -> Executable:
    """The logs of a tenant or a thread, tombstones included, in the order of their names."""
    query = _of_tenant(select(*(THREADS.c[name] for name in (*LISTED, "next_seq"))), scope)
    if after:
        query = query.where(beyond(d, THREADS, LISTED))
    return query.order_by(*(THREADS.c[name] for name in LISTED)).limit(bindparam("p_limit"))


@statement()
def read_log(d: Dialect) -> Executable:
    """A log's head beside its last row, its last name and that name's id."""

    def last(table: Any, *where: Any) -> Any:
        here = same_log(table, THREADS)
        return select(func.max(table.c.seq)).where(here, *where).scalar_subquery()

    later = CHECKPOINTS.alias("later")
    newest = (
        select(CHECKPOINTS.c.checkpoint_id)
        .where(same_log(CHECKPOINTS, THREADS))
        .where(
            CHECKPOINTS.c.seq
            == select(func.max(later.c.seq)).where(same_log(later, CHECKPOINTS)).scalar_subquery()
        )
        .scalar_subquery()
    )
    return select(
        THREADS.c.next_seq,
        THREADS.c.head_id,
        THREADS.c.deleted_at,
        # Looked at by being read, as some of the columns of rows are.
        *(THREADS.c[name] for name in ("version", "epoch", "created_at", "updated_at")),
        *(THREADS.c[name] for name in ("active_at", "expires_at", "forked_from", "forked_seq")),
        *(THREADS.c[name] for name in NAMES),
        d.statements.json_is_object(THREADS.c.meta).label("meta_readable"),
        last(DELTAS).label("last_row"),
        last(DELTAS, DELTAS.c.kind.not_in(words("write"))).label("last_but_writes"),
        last(CHECKPOINTS).label("last_name"),
        newest.label("newest_id"),
    ).where(of_log(THREADS))


def _in_range(table: Any) -> Any:
    return and_(
        table.c.seq >= bindparam("p_low", type_=table.c.seq.type),
        table.c.seq <= bindparam("p_high", type_=table.c.seq.type),
    )


@statement()
def list_positions(d: Dialect) -> Executable:
    """The next positions of a log, and what reading each may take."""
    return (
        select(DELTAS.c.seq, d.statements.byte_length(DELTAS.c.payload).label("stored"))
        .where(of_log(DELTAS), DELTAS.c.seq > bindparam("p_after", type_=DELTAS.c.seq.type))
        .order_by(DELTAS.c.seq)
        .limit(bindparam("p_limit"))
    )


@statement()
def read_rows(d: Dialect) -> Executable:
    """The rows of a range of positions with everything that they must agree with."""
    base, parent, child = DELTAS.alias("base"), CHECKPOINTS.alias("parent"), DELTAS.alias("child")
    columns = (
        *("seq", "kind", "base_seq", "depth", "radix", "codec", "checksum"),
        *("overwrites", "entry_key", "label", "occurred_at", "stored_at"),
    )
    last_use = (
        select(func.max(child.c.seq))
        .where(same_log(child, DELTAS), child.c.base_seq == DELTAS.c.seq)
        .scalar_subquery()
    )
    at = and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == DELTAS.c.seq)
    below = and_(same_log(base, DELTAS), base.c.seq == DELTAS.c.base_seq)
    named = and_(same_log(parent, CHECKPOINTS), parent.c.checkpoint_id == CHECKPOINTS.c.parent_id)
    under = CHECKPOINTS.alias("under")
    needed = and_(same_log(under, CHECKPOINTS), under.c.checkpoint_id == CHECKPOINTS.c.rests_on)
    return (
        select(
            *(DELTAS.c[name] for name in columns),
            DELTAS.c.tenant,
            CHECKPOINTS.c.tenant.label("named_tenant"),
            CHECKPOINTS.c.checkpoint_id,
            CHECKPOINTS.c.rests_on,
            under.c.seq.label("rests_at"),
            CHECKPOINTS.c.raw_size,
            CHECKPOINTS.c.stored_size,
            CHECKPOINTS.c.run_id,
            CHECKPOINTS.c.occurred_at.label("named_occurred_at"),
            CHECKPOINTS.c.created_at.label("named_created_at"),
            d.statements.json_is_object(CHECKPOINTS.c.meta).label("meta_readable"),
            base.c.kind.label("base_kind"),
            base.c.depth.label("base_depth"),
            parent.c.seq.label("parent_at"),
            last_use.label("last_use"),
            DELTAS.c.payload,
        )
        .select_from(
            DELTAS.outerjoin(CHECKPOINTS, at)
            .outerjoin(base, below)
            .outerjoin(parent, named)
            .outerjoin(under, needed)
        )
        .where(of_log(DELTAS), _in_range(DELTAS))
        .order_by(DELTAS.c.seq)
    )


@statement()
def read_chain_at(d: Dialect) -> Executable:
    """The rows that the state of a position is rebuilt from, named or not, snapshot first."""
    columns = ("seq", "kind", "base_seq", "depth", "codec", "checksum", "payload")
    first = (
        select(*(DELTAS.c[name] for name in columns))
        .where(of_log(DELTAS), DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type))
        .cte("chain", recursive=True)
    )
    base = DELTAS.alias("base")
    rest = (
        select(*(base.c[name] for name in columns))
        .select_from(first)
        # A base is always earlier; a damaged row that says otherwise must not go round for ever.
        .join(base, and_(base.c.seq == first.c.base_seq, base.c.seq < first.c.seq))
        .where(of_log(base))
    )
    chain = first.union_all(rest)
    return select(chain).order_by(chain.c.seq)


@statement()
def list_dangling(d: Dialect) -> Executable:
    """Names of positions where there is no state."""
    state = and_(
        same_log(DELTAS, CHECKPOINTS),
        DELTAS.c.seq == CHECKPOINTS.c.seq,
        DELTAS.c.kind.in_(words(*STATES)),
    )
    return (
        select(CHECKPOINTS.c.checkpoint_id, CHECKPOINTS.c.seq)
        .where(of_log(CHECKPOINTS), _in_range(CHECKPOINTS))
        .where(~select(literal_column("1")).select_from(DELTAS).where(state).exists())
        .order_by(CHECKPOINTS.c.seq)
        .limit(bindparam("p_limit"))
    )


@statement()
def read_name_at(d: Dialect) -> Executable:
    """What a position is called."""
    return select(CHECKPOINTS.c.checkpoint_id).where(
        of_log(CHECKPOINTS),
        CHECKPOINTS.c.seq == bindparam("p_seq", type_=CHECKPOINTS.c.seq.type),
    )


@statement()
def read_lineage(d: Dialect) -> Executable:
    """Every name of a log as its position and its parent's."""
    parent = CHECKPOINTS.alias("parent")
    named = and_(same_log(parent, CHECKPOINTS), parent.c.checkpoint_id == CHECKPOINTS.c.parent_id)
    return (
        select(CHECKPOINTS.c.seq, parent.c.seq.label("parent_at"))
        .select_from(CHECKPOINTS.outerjoin(parent, named))
        .where(of_log(CHECKPOINTS))
        .order_by(CHECKPOINTS.c.seq)
    )


@statement(table=("checkpoints", "deltas"))
def list_orphans(d: Dialect, table: str) -> Executable:
    """Logs that have rows of a tenant, and no head, or one of another tenant."""
    rows = {"checkpoints": CHECKPOINTS, "deltas": DELTAS}[table]
    head = THREADS.c.log_id
    return (
        select(
            rows.c.log_id,
            func.count(type_=Integer).label("orphans"),
            func.count(head, type_=Integer).label("strays"),
        )
        .select_from(rows.outerjoin(THREADS, same_log(THREADS, rows)))
        .where(
            rows.c.tenant == bindparam("k_tenant", type_=rows.c.tenant.type),
            or_(head.is_(None), THREADS.c.tenant != rows.c.tenant),
        )
        .group_by(rows.c.log_id)
        .order_by(rows.c.log_id)
        .limit(bindparam("p_limit"))
    )


@statement(which=("pages", "references"))
def storage_faults(d: Dialect, which: str) -> Executable | None:
    """What the database itself finds wrong with its storage."""
    return d.maintenance.storage_faults(which)


@statement()
def text_index_state(d: Dialect) -> Executable | None:
    """Whether the database uses a text index."""
    return d.text.index_state()


@statement(index=tuple(TEXT_INDEXES))
def prove_text_index(d: Dialect, index: str) -> Executable | None:
    """Let the database compare a text index with its rows."""
    return d.text.check_integrity(index)


@statement(index=tuple(TEXT_INDEXES))
def text_unfindable(d: Dialect, index: str) -> Executable | None:
    """Rows that a text index does not find."""
    return d.text.unindexed_rows(index)


@statement()
def only_by_text_index(d: Dialect) -> Executable | None:
    """Have the next statements use the text indexes."""
    return d.text.force_index()


@statement(index=tuple(TEXT_INDEXES), step=range(REBUILD_STEPS))
def rebuild_text_index(d: Dialect, index: str, step: int) -> Executable | None:
    """Build a text index anew."""
    steps = d.text.rebuild(index)
    return steps[step] if step < len(steps) else None

"""Statements of the inspector: each reads a bounded number of rows, or of entries of an index."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Executable,
    Integer,
    String,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    not_,
    or_,
    select,
)

from memalchemy.checkpoints.listing import info_columns
from memalchemy.dialects import Dialect, in_namespace
from memalchemy.inspection import internal_items
from memalchemy.keys import MAX_NAMESPACE_BYTES
from memalchemy.log.entries import heads_that_hold, holds, is_entry, is_not_empty
from memalchemy.log.listing import newest_first
from memalchemy.log.pending_writes import is_write
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    NAMES,
    THREADS,
    constants,
    live,
    of_log,
    of_thread,
    same_log,
)
from memalchemy.maintenance.space import sum_logs
from memalchemy.proofs import COUNTED, FOUND, RANKED
from memalchemy.protection.proven_reads import unless
from memalchemy.search.scope import EMBEDDINGS, ITEMS, STORED, in_scope, live_item, of_item
from memalchemy.search.scope import same_item as of_same_item
from memalchemy.statements import column_bind, statement
from memalchemy.store.read import page_of_items

HEAD = (
    *("log_id", "thread_id", "namespace", "head_id", "created_at", "updated_at"),
    *("forked_from", "meta"),
)
"""Columns of `memalchemy.log.listing.list_logs`."""

SCOPES = ("tenant", "below", "namespace")


def _in_scope(scope: str) -> Any:
    """Return the condition on logs of a scope, for which no index on namespaces is used.

    Without statistics SQLite would look up, and sort, all logs of a framework.
    """
    tenant = THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
    if scope == "tenant":
        return tenant
    path = THREADS.c.namespace
    hidden = func.coalesce(path, path)
    low, beyond = (bindparam(name, type_=path.type) for name in ("k_namespace", "k_beyond"))
    if scope == "namespace":
        return and_(tenant, hidden == low)
    return and_(tenant, hidden >= low, hidden < beyond)


def _id_is_like() -> Any:
    """Return the condition that an id contains what ``p_like`` says, whatever its case in ASCII."""
    pattern = bindparam("p_like", type_=String(1024))
    return func.lower(THREADS.c.thread_id, type_=String()).like(pattern, escape="\\")


@statement(unproven=FOUND, scope=SCOPES)
def match_ids(dialect: Dialect, scope: str) -> Executable:
    """Select the names of logs whose thread's id matches ``p_like``, in the order of the ids.

    Ids from ``p_low`` to before ``p_high`` are looked at. Deleted and empty logs are among them:
    the index of names alone is read.
    """
    id_ = THREADS.c.thread_id
    low, high = (bindparam(name, type_=id_.type) for name in ("p_low", "p_high"))
    return (
        select(id_, THREADS.c.namespace)
        .where(_in_scope(scope), _id_is_like(), id_ >= low, id_ < high)
        .order_by(id_)
        .limit(bindparam("p_limit"))
    )


@statement(unproven=FOUND, scope=("below", "namespace"))
def match_ids_of_few(dialect: Dialect, scope: str) -> Executable:
    """Select the names of logs of a small namespace whose thread's id matches ``p_like``."""
    names = (THREADS.c.thread_id, THREADS.c.namespace)
    here = in_namespace(THREADS, below=scope == "below")
    return select(*names).where(here, _id_is_like()).limit(bindparam("p_limit"))


@statement(unproven=FOUND)
def skip_ids(dialect: Dialect) -> Executable:
    """Select the id that stands ``p_offset`` logs behind the first one from ``p_low`` on."""
    id_ = THREADS.c.thread_id
    tenant = THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
    return (
        select(id_)
        .where(tenant, id_ >= bindparam("p_low", type_=id_.type))
        .order_by(id_)
        .limit(1)
        .offset(bindparam("p_offset", type_=Integer))
    )


@statement(proves=heads_that_hold("some"))
def read_heads(dialect: Dialect, proven: bool) -> Executable:
    """Select the live logs that ``p_logs`` lists and that hold something."""
    named = dialect.statements.rows_from_list("p_logs", ("log_id",))
    return (
        select(*(THREADS.c[name] for name in HEAD))
        .join(named, THREADS.c.log_id == named.c.log_id)
        .where(*unless(proven, live(), holds("some")))
    )


@statement(
    proves=heads_that_hold("some", by_time=True),
    scope=SCOPES,
    like=(False, True),
    after=(False, True),
)
def list_recent(dialect: Dialect, scope: str, like: bool, after: bool, proven: bool) -> Executable:
    """Select a page of logs, most recently written first, by the index of all logs' times.

    With *like* those whose thread's id matches ``p_like``.
    """
    columns = (THREADS.c[name] for name in HEAD)
    query = select(*columns).where(_in_scope(scope), *unless(proven, live(), holds("some")))
    if like:
        query = query.where(_id_is_like())
    return newest_first(query, dialect, NAMES[1:], after, proven)  # type: ignore[no-any-return]


@statement(proves="checkpoint")
def read_newest_checkpoints(dialect: Dialect) -> Executable:
    """Select the newest checkpoints of the logs that ``p_logs`` lists, without their states."""
    named = dialect.statements.rows_from_list("p_logs", ("log_id",))
    is_newest = and_(
        same_log(CHECKPOINTS, THREADS), CHECKPOINTS.c.checkpoint_id == THREADS.c.head_id
    )
    return select(*info_columns()).select_from(
        named.join(THREADS, THREADS.c.log_id == named.c.log_id).join(CHECKPOINTS, is_newest)
    )


@statement(unproven=RANKED)
def read_last_entry_times(dialect: Dialect) -> Executable:
    """Select when the newest entry of each log that ``p_logs`` lists happened."""
    named = dialect.statements.rows_from_list("p_logs", ("log_id",))
    newest = (
        select(DELTAS.c.occurred_at)
        .where(DELTAS.c.log_id == named.c.log_id, is_entry())
        .order_by(DELTAS.c.seq.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(named.c.log_id, newest.label("occurred_at"))


@statement(unproven=COUNTED)
def next_namespace(dialect: Dialect) -> Executable:
    """Select the first namespace from ``p_low`` on in which the tenant has a log."""
    path = THREADS.c.namespace
    tenant = THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
    low = path >= bindparam("p_low", type_=path.type)
    return select(func.min(path).label("place")).where(tenant, low)


@statement(scope=("below", "namespace"), exact=(False, True))
def count_logs_of_namespaces(dialect: Dialect, scope: str, exact: bool) -> Executable:
    """Count the logs of a namespace, up to ``p_limit``.

    Unless *exact*, deleted and empty ones count too: an index alone is read.
    """
    some: Any = select(literal_column("1").label("one")).where(
        in_namespace(THREADS, below=scope == "below")
    )
    if exact:
        some = some.where(live(), is_not_empty())
    counted = some.limit(bindparam("p_limit")).subquery("some_logs")
    return select(func.count().label("logs")).select_from(counted)


@statement(unproven=COUNTED)
def sum_sampled_logs(dialect: Dialect) -> Executable:
    """Sum what some of a tenant's logs hold, by namespace, as `space.measure` sums all.

    Keys are hashes, so the ``p_limit`` logs with the lowest, of all tenants, are a random sample.
    """
    names = ("log_id", "tenant", "namespace", "deleted_at", "expires_at")
    first = (
        select(*(THREADS.c[name] for name in names))
        .order_by(THREADS.c.log_id)
        .limit(bindparam("p_limit"))
    )
    return sum_logs(dialect, dialect.statements.materialized(first, "first"))  # type: ignore[no-any-return]


@statement(unproven=FOUND)
def changed_logs(dialect: Dialect) -> Executable:
    """Select the logs written in the second ``p_active_at`` or later, deleted ones too."""
    names = ("log_id", "thread_id", "namespace", "updated_at", "version", "next_seq")
    tenant = THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type)
    active = THREADS.c.active_at
    return (
        select(*(THREADS.c[name] for name in names))
        .where(tenant, active >= column_bind(active, "p"))
        .order_by(active.desc())
        .limit(bindparam("p_limit"))
    )


@statement(unproven=FOUND)
def find_listed_checkpoints(dialect: Dialect) -> Executable:
    """Select the ids and positions of those checkpoints of a log that ``p_keys`` lists."""
    named = dialect.statements.rows_from_list("p_keys", ("checkpoint_id",))
    ids: Any = select(named.c.checkpoint_id)
    return select(CHECKPOINTS.c.checkpoint_id, CHECKPOINTS.c.seq).where(
        of_log(CHECKPOINTS), CHECKPOINTS.c.checkpoint_id.in_(ids)
    )


@statement(proves="write")
def read_small_writes(dialect: Dialect) -> Executable:
    """Select the writes of some checkpoints, with a payload of ``p_most`` bytes at most.

    The payload of a larger one is NULL. See `bind_write_keys`.
    """
    named = dialect.statements.rows_from_list("p_keys", ("label", "low", "high"))
    size = dialect.statements.byte_length(DELTAS.c.payload)
    small = case((size <= bindparam("p_most", type_=Integer), DELTAS.c.payload))
    here = and_(
        DELTAS.c.entry_key >= named.c.low,
        DELTAS.c.entry_key < named.c.high,
        DELTAS.c.label == named.c.label,
    )
    return (
        select(
            *(DELTAS.c[name] for name in ("label", "seq", "overwrites", "codec", "checksum")),
            *(DELTAS.c[name] for name in ("entry_key", "stored_at", "signature")),
            small.label("payload"),
        )
        .join(named, here)
        .where(of_log(DELTAS), is_write())
        .order_by(DELTAS.c.seq)
    )


_PATTERN = String(2 * MAX_NAMESPACE_BYTES)
"""The type of patterns of namespaces, in which signs are escaped."""


def _not_internal(places: int) -> Any:
    """Return the condition that leaves out what `memalchemy.inspection.internal_items` names."""
    patterns = [bindparam(name, type_=_PATTERN) for name in internal_items.pattern_names(places)]
    return and_(*(not_(ITEMS.c.namespace.like(one, escape="\\")) for one in patterns))


@statement(
    proves="item",
    order=("newest", "key"),
    below=(False, True),
    after=(False, True),
    internal=internal_items.PLACES,
)
def list_item_rows(
    dialect: Dialect, order: str, below: bool, after: bool, internal: int
) -> Executable:
    """Select a page of items with their sizes; a value of over ``p_most`` bytes is NULL."""
    conditions, ordered = page_of_items(order, below, after)
    conditions.append(_not_internal(internal))
    size = dialect.statements.byte_length(ITEMS.c.value)
    vectors = (
        select(func.count()).select_from(EMBEDDINGS).where(of_same_item(EMBEDDINGS, ITEMS))
    ).scalar_subquery()
    return (
        select(
            *(ITEMS.c[name] for name in STORED if name != "value"),
            size.label("bytes"),
            case((size <= bindparam("p_most", type_=Integer), ITEMS.c.value)).label("value"),
            vectors.label("vectors"),
        )
        .where(*conditions)
        .order_by(*ordered)
        .limit(bindparam("p_limit"))
    )


@statement(unproven=COUNTED)
def measure_item(dialect: Dialect) -> Executable:
    """Select the size of an item's value."""
    size = dialect.statements.byte_length(ITEMS.c.value)
    return select(size.label("bytes")).where(of_item(ITEMS), live_item())


@statement(below=(False, True), internal=internal_items.PLACES)
def count_some_items(dialect: Dialect, below: bool, internal: int) -> Executable:
    """Count the items of a scope, up to ``p_limit``."""
    some = (
        select(literal_column("1").label("one"))
        .where(in_scope(ITEMS, below), live_item(), _not_internal(internal))
        .limit(bindparam("p_limit"))
        .subquery("some_items")
    )
    return select(func.count().label("items")).select_from(some)


@statement(unproven=FOUND, below=(False, True), internal=internal_items.PLACES)
def changed_items(dialect: Dialect, below: bool, internal: int) -> Executable:
    """Select the items of a scope written at ``p_after`` or later, the last written first.

    Of a scope with *below* the first ``p_most`` items alone are looked at, in no order: no index
    has the times of several namespaces.
    """
    names = ("namespace", "key", "updated_at")
    some: Any = ITEMS
    here = (in_scope(ITEMS, below), live_item(), _not_internal(internal))
    if below:
        columns = (ITEMS.c[name] for name in names)
        some = (
            select(*columns)
            .where(*here)
            .limit(bindparam("p_most", type_=Integer))
            .subquery("some_items")
        )
    late = some.c.updated_at >= bindparam("p_after", type_=ITEMS.c.updated_at.type)
    return (
        select(*(some.c[name] for name in names))
        .where(late, *(() if below else here))
        .order_by(some.c.updated_at.desc())
        .limit(bindparam("p_limit"))
    )


@statement(proves="vectors")
def list_vectors(dialect: Dialect) -> Executable:
    """Select which vectors an item has, without the vectors."""
    names = ("field", "model", "part", "dimensions")
    return (
        select(*(EMBEDDINGS.c[name] for name in names))
        .where(of_item(EMBEDDINGS))
        .order_by(EMBEDDINGS.c.field, EMBEDDINGS.c.model, EMBEDDINGS.c.part)
        .limit(bindparam("p_limit"))
    )


# --- What is written to a thread -----------------------------------------------------------------


@statement(proves="log", one=(False, True))
def read_next_positions(dialect: Dialect, one: bool) -> Executable:
    """Select the live logs of a thread with their next positions, the last written first.

    With *one* that log alone.
    """
    names = ("namespace", "next_seq", "created_at", "updated_at")
    query = select(*(THREADS.c[name] for name in names))
    if one:
        return query.where(of_log(THREADS), live())
    # An index has the order by active_at: SQLite would go through all threads of the tenant.
    order = (THREADS.c.updated_at.desc(), THREADS.c.namespace)
    return query.where(of_thread(), live()).order_by(*order).limit(bindparam("p_limit"))


@statement(proves=("entry", "checkpoint", "write"), end=("first", "last"))
def read_activity(dialect: Dialect, end: str) -> Executable:
    """Select the first or last entries, writes and checkpoints of a log beyond ``p_after``.

    Only entries and writes have a payload: that of a state is NULL. A state whose checkpoint has
    been saved anew, or deleted, is none.
    """
    seq, kind = DELTAS.c.seq, DELTAS.c.kind
    readable = kind.in_(constants("entry", "write"))
    here = and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == seq)
    of_row = (
        *("seq", "kind", "entry_key", "overwrites", "codec", "checksum", "stored_at"),
        "signature",
    )
    of_checkpoint = ("checkpoint_id", "parent_id", "meta", "raw_size", "stored_size", "created_at")
    return (
        select(
            *(DELTAS.c[name] for name in of_row),
            func.coalesce(DELTAS.c.occurred_at, CHECKPOINTS.c.occurred_at).label("occurred_at"),
            DELTAS.c.label,
            case((readable, DELTAS.c.payload)).label("payload"),
            *(CHECKPOINTS.c[name] for name in of_checkpoint),
        )
        .select_from(DELTAS.outerjoin(CHECKPOINTS, here))
        .where(
            of_log(DELTAS),
            seq > bindparam("p_after", type_=seq.type),
            or_(readable, CHECKPOINTS.c.checkpoint_id.is_not(None)),
        )
        .order_by(seq if end == "first" else seq.desc())
        .limit(bindparam("p_limit"))
    )

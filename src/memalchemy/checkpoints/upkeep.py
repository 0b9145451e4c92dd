"""Keeping a checkpointer's rows in order: pruning, vacuum, expiry, rewriting, erasing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Executable, and_, bindparam, delete, null, or_, select, update

from memalchemy.checkpoints.chain import Draft, Tip, encode, rebuild
from memalchemy.checkpoints.queries import chain
from memalchemy.codec.sealing import Keyring
from memalchemy.contracts import Retention, to_timedelta
from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.log import Log, lock_log, remove_log, sweep_locked
from memalchemy.log.entries import is_entry
from memalchemy.log.listing import list_logs_of_thread
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS, binds, of_log
from memalchemy.search.scope import EMBEDDINGS, HOUSE, ITEMS, in_scope, of_item
from memalchemy.statements import Program, statement

TOMBSTONE_LIFE = timedelta(hours=24)

_NEVER = 2**62
_END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


def retention_binds(retention: Retention, now: datetime) -> dict[str, Any]:
    """The binds of `beyond_retention`; a rule that is not given lets everything go."""
    age = retention.older_than
    return {
        "p_keep": min(retention.keep_last or 1, _NEVER) - 1,
        "p_every": min(retention.keep_every or _NEVER, _NEVER),
        "p_cutoff": _END_OF_TIME if age is None else now - to_timedelta(age),
    }


# --- Rewriting -----------------------------------------------------------------------------------


@statement()
def list_in_order(d: Dialect) -> Executable:
    """Every checkpoint of a log, oldest first."""
    return (
        select(CHECKPOINTS.c.checkpoint_id, CHECKPOINTS.c.seq)
        .where(of_log(CHECKPOINTS))
        .order_by(CHECKPOINTS.c.seq)
    )


_REWRITTEN = ("kind", "base_seq", "depth", "codec", "checksum", "radix", "payload")


@statement()
def rewrite_delta(d: Dialect) -> Executable:
    """Store the same state of the same position in another encoding."""
    return (
        update(DELTAS)
        .where(of_log(DELTAS), DELTAS.c.seq == bindparam("p_seq"))
        .values(binds(DELTAS, _REWRITTEN))
    )


@statement()
def rewrite_size(d: Dialect) -> Executable:
    """What a rewritten checkpoint takes now."""
    return (
        update(CHECKPOINTS)
        .where(of_log(CHECKPOINTS), CHECKPOINTS.c.seq == bindparam("p_seq"))
        .values(binds(CHECKPOINTS, ["stored_size"]))
    )


def rewrite_log(
    d: Dialect, log: Log, now: datetime, *, level: int, max_depth: int, keyring: Keyring
) -> Program[int]:
    """Encode every checkpoint anew on checkpoints that still have a name; drop all other states.

    Rows change in place and in order: a row that is not rewritten yet builds on the state of its
    base, which stays the same, not on its bytes. Returns how many states were dropped.
    """
    if not (yield lock_log(d), log.binds()):
        return 0  # a log that begins now is not locked
    new = partial(encode, level=level, max_depth=max_depth, keyring=keyring)
    names = yield list_in_order(d), log.binds()
    tip: Tip | None = None
    for name in names:
        read = yield from chain(d, log, name.checkpoint_id, now)
        if read is None:
            return 0  # the log expired meanwhile
        draft = new(rebuild(read, keyring).parts(), tip)
        yield from _replace_payload(d, log, name.seq, draft)
        tip = draft.as_tip(name.checkpoint_id, name.seq, 0)
    dropped = yield from sweep_locked(d, log, now, renamed=True, rewritten=True)
    yield from _purge(d)
    return dropped


def _replace_payload(d: Dialect, log: Log, seq: int, draft: Draft) -> Program[None]:
    place = log.binds() | {"p_seq": seq}
    values = place | {
        "p_kind": draft.kind,
        "p_base_seq": draft.base_seq,
        "p_depth": draft.depth,
        "p_codec": draft.stored.codec,
        "p_checksum": draft.stored.checksum,
        "p_radix": draft.radix,
        "p_payload": draft.stored.payload,
    }
    yield rewrite_delta(d), values
    yield rewrite_size(d), place | {"p_stored_size": len(draft.stored.payload)}


# --- Erasing -------------------------------------------------------------------------------------


@statement(index=tuple(TEXT_INDEXES))
def purge(d: Dialect, index: str) -> Executable | None:
    """Rid a text index of the words of rows that are gone."""
    return d.purge_text_index(index)


def _purge(d: Dialect) -> Program[None]:
    for index in TEXT_INDEXES:
        if d.purge_text_index(index) is not None:
            yield purge(d, index=index), None


_ERASABLE = {
    "embeddings": EMBEDDINGS,
    "store_items": ITEMS,
    "entries": DELTAS,
    "deltas": DELTAS,
    "checkpoints": CHECKPOINTS,
    "threads": THREADS,
}


@statement(table=tuple(_ERASABLE))
def erase_tenant(d: Dialect, table: str) -> Executable:
    """Delete every row of a tenant; of the logs' rows first the entries."""
    target: Any = _ERASABLE[table]
    gone = delete(target).where(target.c.tenant == bindparam("k_tenant"))
    return gone.where(is_entry()) if table == "entries" else gone


@statement()
def erase_own(d: Dialect) -> Executable:
    """Delete what memalchemy keeps for itself of a tenant."""
    namespace = ITEMS.c.namespace
    low, high = (bindparam(name, type_=namespace.type) for name in ("p_house", "p_house_end"))
    own = and_(namespace >= low, namespace < high)
    return delete(ITEMS).where(ITEMS.c.tenant == bindparam("k_tenant"), own)


@statement(narrowed=(False, True), after=(False, True))
def list_items(d: Dialect, narrowed: bool, after: bool) -> Executable | None:
    """A page of a tenant's items with their metadata, expired ones too, in the order of their keys.

    *narrowed*: of those only that an index has, by words of their fields; binds `item_scope`.
    """
    if narrowed and not d.indexes_fields:
        return None
    namespace, key = ITEMS.c.namespace, ITEMS.c.key
    query = select(namespace, key, ITEMS.c.version, ITEMS.c.meta).where(in_scope(ITEMS, below=True))
    if narrowed:
        within = d.items_within(below=True)
        query = query.join(within, and_(within.c.namespace == namespace, within.c.key == key))
    if after:
        path, name = (bindparam(f"p_{c.key}", type_=c.type) for c in (namespace, key))
        beyond = or_(namespace > path, and_(namespace == path, key > name))
        query = query.where(namespace >= path, beyond)  # the first is where an index can start
    return query.order_by(namespace, key).limit(bindparam("p_limit"))


@statement()
def erase_item(d: Dialect) -> Executable:
    """Delete an item that is as it was seen, and by that its vectors."""
    version = ITEMS.c.version == bindparam("p_version", type_=ITEMS.c.version.type)
    return delete(ITEMS).where(of_item(ITEMS), version)


def erase_items(d: Dialect, items: Sequence[Mapping[str, Any]]) -> Program[int]:
    """Delete items that are as they were seen; how many were."""
    erased = 0
    for item in items:
        erased += (yield erase_item(d), item).touched
    yield from _purge(d)
    return erased


@statement()
def erase_origin(d: Dialect) -> Executable:
    """Let the forks of a thread no longer name it."""
    return (
        update(THREADS)
        .where(
            THREADS.c.tenant == bindparam("k_tenant"),
            THREADS.c.forked_from == bindparam("k_thread_id"),
        )
        .values(forked_from=null(), forked_seq=null())
    )


def erase_thread(d: Dialect, tenant: str, thread_id: str) -> Program[int]:
    """Remove all logs of a thread for good, tombstones too: an id can be personal."""
    yield erase_origin(d), {"k_tenant": tenant, "k_thread_id": thread_id}
    rows = yield list_logs_of_thread(d), {"k_tenant": tenant, "k_thread_id": thread_id}
    erased = 0
    for row in rows:
        erased += yield from remove_log(d, Log(tenant, thread_id, row.namespace))
    yield from _purge(d)
    return erased


def erase_everything(d: Dialect, tenant: str) -> Program[int]:
    """Remove every row of a tenant; how many checkpoints, entries and items it had."""
    erased = 0
    yield erase_own(d), {"k_tenant": tenant, "p_house": HOUSE + "a", "p_house_end": HOUSE + "{"}
    for table in _ERASABLE:
        gone = yield erase_tenant(d, table=table), {"k_tenant": tenant}
        if table in ("checkpoints", "entries", "store_items"):
            erased += gone.touched
    yield from _purge(d)
    return erased

"""Read items: by key, in order, by namespace. Only items that have not expired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    Select,
    and_,
    bindparam,
    delete,
    func,
    not_,
    or_,
    select,
)

from memalchemy.codec.encryption import Keyring, StoredPayload
from memalchemy.codec.payloads import decode_payload, decode_payloads
from memalchemy.codec.places import item_place
from memalchemy.contracts import StoreItem
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted
from memalchemy.keys import decode_namespace
from memalchemy.proofs import COUNTED, RANKED
from memalchemy.protection.found_items import about_item, check_items
from memalchemy.protection.proven_reads import (
    NAMED_ITEMS,
    WHOLE_ITEMS,
    unless,
)
from memalchemy.search.scope import (
    EMBEDDINGS,
    ITEMS,
    LIVES,
    expired_item,
    in_scope,
    is_listed,
    live_item,
    of_item,
    same_item,
    stored,
)
from memalchemy.statements import PROVES, after_key, removal, statement

ORDERS = ("newest", "key")


def to_item(tenant: str, row: Any, keyring: Keyring) -> StoreItem:
    """Return a row of `stored` columns as an item."""
    return _with_value(row, decode_item_value(tenant, row, keyring))


def to_items(
    tenant: str, rows: Sequence[Any], keyring: Keyring, *, words: bool = False
) -> list[StoreItem]:
    """Return rows as items, decoded all at once where nothing has to be decrypted.

    With *words*, by which the rows were found, the signatures of these are verified, too.
    """
    check_items(tenant, rows, keyring.signing, words=words)
    if not keyring.refuses_plaintext:
        payloads = [bytes(row.value) for row in rows]
        try:
            values = decode_payloads(
                payloads, [row.checksum for row in rows], [row.codec for row in rows]
            )
            return list(map(_with_value, rows, values))
        except Corrupt:
            pass  # which of them it is, and what is wrong with it, is found one by one
    return [_with_value(row, _decode(row, _decrypt_value(tenant, row, keyring))) for row in rows]


def _with_value(row: Any, value: Any) -> StoreItem:
    return StoreItem(
        decode_namespace(row.namespace),
        row.key,
        value,
        row.meta,
        row.created_at,
        row.updated_at,
        row.version,
        row.expires_at,
    )


def decode_item_value(tenant: str, row: Any, keyring: Keyring) -> Any:
    """Decrypt and decode the value of a row; an error names the item."""
    return _decode(row, decrypt_row(tenant, row, keyring))


def decrypt_row(tenant: str, row: Any, keyring: Keyring, *, words: bool = False) -> StoredPayload:
    """Verify a row, as `check_items` does, and decrypt its payload.

    An error names the item.
    """
    check_items(tenant, (row,), keyring.signing, words=words)
    return _decrypt_value(tenant, row, keyring)


def _decrypt_value(tenant: str, row: Any, keyring: Keyring) -> StoredPayload:
    try:
        place = item_place(tenant, row.namespace, row.key, row.version)
        return keyring.decrypt(row.codec, row.checksum, bytes(row.value), place)
    except (Corrupt, KeyMissing, NotEncrypted) as error:
        raise about_item(error, row) from error


def decode_item(row: Any, payload: StoredPayload) -> StoreItem:
    """Return the item of a row whose payload `decrypt_row` has returned."""
    return _with_value(row, _decode(row, payload))


def _decode(row: Any, payload: StoredPayload) -> Any:
    try:
        return decode_payload(payload.payload, payload.checksum, payload.codec)
    except Corrupt as error:
        raise about_item(error, row) from error


@statement(proves=(WHOLE_ITEMS, "item"))
def read_item(dialect: Dialect, proven: bool) -> Executable:
    """Select one item."""
    return select(*stored()).where(of_item(ITEMS), *unless(proven, live_item()))


@statement(proves=NAMED_ITEMS)
def has_item(dialect: Dialect, proven: bool) -> Executable:
    """Select one row if an item exists."""
    return select(ITEMS.c.version).where(of_item(ITEMS), *unless(proven, live_item()))


@statement(proves=(WHOLE_ITEMS, "item"), words=(False, True))
def read_items(dialect: Dialect, words: bool, proven: bool) -> Executable:
    """Select the items of a tenant that ``p_keys`` lists; with *words* those that they have."""
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return select(*stored(words=words)).where(
        tenant, is_listed(dialect, ITEMS), *unless(proven, live_item())
    )


@statement(proves="changed row")
def list_lifetimes(dialect: Dialect) -> Executable:
    """Select the version and lifetime of the items that ``p_keys`` lists and that expire."""
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    names = ("namespace", "key", "version", "lifetime")
    ending = ITEMS.c.lifetime.is_not(None)
    return select(*(ITEMS.c[name] for name in names)).where(
        tenant, is_listed(dialect, ITEMS), live_item(), ending
    )


@statement(proves=NAMED_ITEMS, after=(False, True))
def list_keys(dialect: Dialect, after: bool, proven: bool) -> Executable:
    """Select a page of the keys of one namespace, in their order; behind ``p_after_key``."""
    conditions = [in_scope(ITEMS, below=False), *unless(proven, live_item())]
    if after:
        conditions.append(ITEMS.c.key > column_bind_of("after_key", ITEMS.c.key))
    return limited(select(ITEMS.c.key).where(*conditions).order_by(ITEMS.c.key))


def page_of_items(
    order: str, below: bool, after: bool, proven: bool = False
) -> tuple[list[Any], list[Any]]:
    """Return the conditions and the order of a page of items; *after* the place that is bound."""
    columns = [ITEMS.c.namespace, ITEMS.c.key]
    if order == "newest":
        columns.insert(0, ITEMS.c.updated_at)
    conditions = [in_scope(ITEMS, below), *unless(proven, live_item())]
    if after:
        conditions.append(is_after(order))
    ordered = [column.desc() if order == "newest" else column for column in columns]
    return conditions, ordered


@statement(proves=(WHOLE_ITEMS, "item"), order=ORDERS, below=(False, True), after=(False, True))
def list_items(dialect: Dialect, order: str, below: bool, after: bool, proven: bool) -> Executable:
    """Select a page of whole items: the newest first, or by namespace and key."""
    conditions, ordered = page_of_items(order, below, after, proven)
    return limited(select(*stored()).where(*conditions).order_by(*ordered))


def is_after(order: str) -> ColumnElement[bool]:
    """Condition that an item comes after another; spelt out: some databases lack row comparison."""
    names = ["updated_at", "namespace", "key"] if order == "newest" else ["namespace", "key"]
    beyond: ColumnElement[bool] | None = None
    for name in reversed(names):
        column, mark = ITEMS.c[name], column_bind_of(f"after_{name}", ITEMS.c[name])
        past = column < mark if order == "newest" else column > mark
        beyond = past if beyond is None else or_(past, and_(column == mark, beyond))
    assert beyond is not None
    return beyond


@statement(below=(False, True))
def count_items(dialect: Dialect, below: bool) -> Executable:
    """Count the items of a scope."""
    return select(func.count()).select_from(ITEMS).where(in_scope(ITEMS, below), live_item())


@statement(unproven=COUNTED)
def list_paths(dialect: Dialect) -> Executable:
    """Select the next namespaces from ``p_low`` to before ``p_high`` that hold an item.

    One look into the key's index for each, however many items they hold.
    """
    later = ITEMS.alias("later")

    def least(above: ColumnElement[Any], *more: ColumnElement[bool]) -> ColumnElement[Any]:
        internal = and_(
            later.c.namespace >= column_bind_of("internal", ITEMS.c.namespace),
            later.c.namespace < column_bind_of("internal_end", ITEMS.c.namespace),
        )
        found = select(func.min(later.c.namespace)).where(
            later.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type),
            above,
            later.c.namespace < column_bind_of("high", ITEMS.c.namespace),
            not_(internal),
            live_item(later),
            *more,
        )
        return found.scalar_subquery()

    first = select(
        least(later.c.namespace >= column_bind_of("low", ITEMS.c.namespace)).label("place")
    )
    paths = first.cte("paths", recursive=True)
    following = least(later.c.namespace > paths.c.place)
    paths = paths.union_all(select(following).where(paths.c.place.is_not(None)))
    return limited(select(paths.c.place).where(paths.c.place.is_not(None)))


@statement(proves=(NAMED_ITEMS, "vector", "vectors"))
def read_vector(dialect: Dialect, proven: bool) -> Executable:
    """Select one vector of an item, with what `check_vectors` needs."""
    names = ("field", "model", "part")
    same = [EMBEDDINGS.c[name] == column_bind_of(name, EMBEDDINGS.c[name]) for name in names]
    return (
        select(
            *(EMBEDDINGS.c[name] for name in ("namespace", "key", *names, "dimensions", "vector")),
            EMBEDDINGS.c.signature.label("vector_signature"),
            ITEMS.c.version,
        )
        .join(ITEMS, same_item(ITEMS, EMBEDDINGS))
        .where(of_item(EMBEDDINGS), *same, *unless(proven, live_item()))
    )


@statement(unproven=RANKED, below=(False, True), given=(False, True))
def find_dimensions(dialect: Dialect, below: bool, given: bool) -> Executable:
    """Select the dimensions of a vector of a model: one that has those *given*, or the fewest."""
    dimensions = EMBEDDINGS.c.dimensions
    model = EMBEDDINGS.c.model == column_bind_of("model", EMBEDDINGS.c.model)
    vectors = select(dimensions).where(in_scope(EMBEDDINGS, below), model).limit(1)
    if given:
        return vectors.where(dimensions == column_bind_of("dimensions", dimensions))
    return vectors.order_by(dimensions)


EXPIRED_ORDER = ("expires_at", "namespace", "key")


@statement(proves="removed item", after=(True, False))
def list_expired(dialect: Dialect, after: bool) -> Executable:
    """Select a page of the tenant's items that have expired, those that did so first."""
    order = [ITEMS.c[name] for name in EXPIRED_ORDER]
    query = select(*order).where(expired_item())
    if after:
        query = query.where(after_key(dialect, ITEMS, EXPIRED_ORDER))
    return limited(query.order_by(*order))


@removal(LIVES)
def delete_expired(dialect: Dialect) -> Executable:
    """Delete the items that ``p_keys`` lists and that have still expired."""
    gone = delete(ITEMS).where(expired_item(), is_listed(dialect, ITEMS))
    return gone.execution_options(**{PROVES: "rows"})


def column_bind_of(name: str, column: Any) -> Any:
    """Return the bind ``p_`` and *name*, of a column's type."""
    return bindparam(f"p_{name}", type_=column.type)


def limited(query: Select[Any]) -> Executable:
    """Return *query* with at most ``p_limit`` rows."""
    return query.limit(bindparam("p_limit"))

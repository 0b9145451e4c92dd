"""Write items: a program for each way to put, change or delete them, and their statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    ColumnElement,
    Delete,
    Executable,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    literal_column,
    not_,
    null,
    select,
    update,
)

from memalchemy._retry import CONFLICTS, retry_in_program
from memalchemy.codec.vectors import to_bytes
from memalchemy.contracts import UNSET, StoreItem, Unset, check_position
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict
from memalchemy.keys import encode_id
from memalchemy.log.tables import signature_bind
from memalchemy.log.text_index_sweep import sweep_indexes
from memalchemy.proofs import FOUND, REMOVED_BY_NAME, REPLACED
from memalchemy.rows import ITEM, MANY_ITEMS, VECTOR
from memalchemy.search.cache_versions import count_change, delete_counters, erased_binds
from memalchemy.search.scope import (
    EMBEDDINGS,
    ITEM_KEY,
    ITEMS,
    LIVES,
    Place,
    in_scope,
    is_listed,
    key_lists,
    live_item,
    of_item,
    scope_binds,
)
from memalchemy.statements import NAMELESS, PROVES, Program, removal, statement
from memalchemy.store.read import has_item
from memalchemy.variants import varies

_VECTOR_COLUMNS = ("dimensions", "change", "signature", "vector")
EXPECTED = ("any", "none", "version", "item")
"""The state in which an item must be before a put.

Any; not existing; at version ``p_expected``; or also created at ``p_born``, because another item of
the same key begins again at version 1.
"""
Expected = int | StoreItem | Unset | None
"""The same as an argument: `UNSET`, ``None``, a version, or an item that was read."""


Row = Mapping[str, Any]
"""The values that a put of an item binds."""


PutOne = Callable[[Dialect, Row, str], Program[int | None]]
"""Program that writes an item which is as one of `EXPECTED`, and leaves its vectors.

It returns the version of the item, or ``None`` if it is not as expected.
"""
PutAll = Callable[[Dialect, Sequence[Row], str], Program[dict[Place, int]]]
"""Program that does so with items of one tenant and time, and returns their versions by place."""


place_of: Callable[[Row], Place] = itemgetter("k_namespace", "k_key")
"""Return the encoded namespace and the key of a row."""


class VectorRow(NamedTuple):
    """Vector of an item."""

    field: str
    model: str
    part: int
    vector: Any
    """float32, checked."""


def _bind(name: str) -> Any:
    if name == "signature":
        return signature_bind(ITEMS)["signature"]
    return bindparam(ITEM.bind(name), type_=ITEMS.c[name].type)


def _update_values(given: Callable[[str], Any] = _bind) -> dict[str, Any]:
    """Return the columns that a put changes in an existing item; an expired one starts anew."""
    live = live_item()
    return {name: given(name) for name in (*ITEM.columns, "signature")} | {
        "version": case((live, ITEMS.c.version + 1), else_=literal_column("1")),
        "created_at": case((live, ITEMS.c.created_at), else_=given("updated_at")),
    }


def insert_values(given: Callable[[str], Any] = _bind) -> dict[str, Any]:
    """Return the columns of a new item."""
    return {name: given(name) for name in (*ITEM_KEY, *ITEM.columns, "signature")} | {
        "version": literal_column("1", Integer),
        "created_at": given("updated_at"),
    }


def deleting_vectors(*more: ColumnElement[bool]) -> Delete:
    """Delete an item's vectors."""
    return delete(EMBEDDINGS).where(of_item(EMBEDDINGS), *more)


def _conditions_on_item(expected: str) -> list[ColumnElement[bool]]:
    """Return one of `EXPECTED` as SQL."""
    if expected in ("version", "item"):
        version = bindparam("p_expected", type_=ITEMS.c.version.type)
        born = ITEMS.c.created_at == bindparam("p_born", type_=ITEMS.c.created_at.type)
        same = [live_item(), ITEMS.c.version == version]
        return [*same, born] if expected == "item" else same
    return [not_(live_item())] if expected == "none" else []


def changing(expected: str, *more: ColumnElement[bool]) -> Any:
    """Return the statement that writes an existing item, on *more* conditions."""
    conditions = (*_conditions_on_item(expected), *more)
    return update(ITEMS).where(of_item(ITEMS), *conditions).values(_update_values())


def updating(expected: str, *more: ColumnElement[bool]) -> Any:
    """Return `changing` with the version of the item, which it returns."""
    return changing(expected, *more).returning(ITEMS.c.version)


def putting(dialect: Dialect, expected: str, *more: ColumnElement[bool]) -> Any:
    """Return the statement that writes an item; an existing one only on *more* conditions."""
    if expected in ("version", "item"):
        return updating(expected, *more)
    conditions = [*_conditions_on_item(expected), *more]
    return dialect.statements.upsert(
        ITEMS,
        insert_values(),
        ITEM_KEY,
        # SQLite and Citus send a value at each place where it is bound.
        _update_values(partial(dialect.statements.excluded, ITEMS)),
        where=and_(*conditions) if conditions else None,
    ).returning(ITEMS.c.version)


@statement(unproven=REPLACED, expected=EXPECTED, writes=ITEM)
def put_item(dialect: Dialect, expected: str) -> Executable:
    """Write an item, and return its version; no row if it is not as expected."""
    return putting(dialect, expected)  # type: ignore[no-any-return]


@statement()
def delete_vectors(dialect: Dialect) -> Executable:
    """Delete an item's vectors."""
    return deleting_vectors()


@statement()
def delete_other_vectors(dialect: Dialect) -> Executable:
    """Delete an item's vectors except those that ``p_kept`` lists, which are written anew."""
    kept = dialect.statements.rows_from_list("p_kept", ("field", "model", "part"))
    same = [EMBEDDINGS.c[name] == kept.c[name] for name in ("field", "model")]
    part = cast(EMBEDDINGS.c.part, Text) == kept.c.part
    stays: Select[Any] = select(literal_column("1")).select_from(kept).where(*same, part)
    return deleting_vectors(~stays.exists())


@statement(unproven=REPLACED)
def lock_item(dialect: Dialect) -> Executable:
    """Lock an item, and return its version and the time of its creation."""
    here = and_(of_item(ITEMS), live_item())
    columns = [ITEMS.c.version, ITEMS.c.created_at]
    return dialect.statements.lock(ITEMS, here, columns)


@statement(unproven=REPLACED)
def lock_items(dialect: Dialect) -> Executable:
    """Lock the live items that ``p_keys`` lists, of one tenant, in one order for everybody.

    Returns ``namespace, key, version, created_at``.
    """
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    here = and_(tenant, is_listed(dialect, ITEMS), live_item())
    columns = [ITEMS.c.namespace, ITEMS.c.key]
    returned = [*columns, ITEMS.c.version, ITEMS.c.created_at]
    locking = dialect.statements.lock(ITEMS, here, returned)
    return locking.order_by(*columns) if isinstance(locking, Select) else locking


@varies
def lock_listed(
    dialect: Dialect, places: Iterable[Place], binds: Row
) -> Program[dict[Place, tuple[int, datetime]]]:
    """Lock the live items at *places*, in their order; return their versions and creations.

    *binds* have the tenant and the time.
    """
    found: dict[Place, tuple[int, datetime]] = {}
    for listed in key_lists(dialect, sorted(places)):
        for row in (yield lock_items(dialect), {**binds, **listed}):
            found[row.namespace, row.key] = int(row.version), row.created_at
    return found


@statement(of_field=(False, True))
def delete_vectors_of_model(dialect: Dialect, of_field: bool) -> Executable:
    """Delete an item's vectors of one model; with *of_field* those of one field."""
    names = ("model", "field") if of_field else ("model",)
    return deleting_vectors(
        *(
            EMBEDDINGS.c[name] == bindparam(f"p_{name}", type_=EMBEDDINGS.c[name].type)
            for name in names
        )
    )


@statement(native=(True, False), writes=VECTOR)
def put_vector(dialect: Dialect, native: bool) -> Executable | None:
    """Write a vector of an item, into a column of the database's own type or of bytes."""
    if not native and not dialect.vectors.may_be_bytes:
        return None
    changed = {name: dialect.statements.excluded(EMBEDDINGS, name) for name in _VECTOR_COLUMNS}
    key = (*ITEM_KEY, "field", "model", "part")
    return dialect.statements.upsert(EMBEDDINGS, vector_values(dialect, native), key, changed)


def vector_values(dialect: Dialect, native: bool) -> dict[str, Any]:
    """Return the columns of a new vector."""
    values: dict[str, Any] = {
        name: bindparam(f"p_{name}", type_=EMBEDDINGS.c[name].type) for name in VECTOR.columns
    }
    values |= {name: _bind(name) for name in ITEM_KEY} | signature_bind(EMBEDDINGS)
    values["vector"] = dialect.vectors.bind("p_vector", native)
    return values


def _row_values(dialect: Dialect) -> dict[str, Any]:
    names = (*ITEM_KEY, *ITEM.columns, *(["signature"] if has_open_arrays(dialect) else []))
    return {name: ITEMS.c[name].type for name in names if name not in MANY_ITEMS.shared}


def has_open_arrays(dialect: Dialect) -> bool:
    """Return whether rows that are sent as arrays can be sealed and signed one by one.

    SQLite's travel in one piece, of which no part can be changed any more.
    """
    return dialect.statements.has_arrays and not dialect.single_writer


@statement(unproven=REPLACED, expected=("any", "none"), writes=MANY_ITEMS)
def put_items(dialect: Dialect, expected: str) -> Executable | None:
    """Write items of one tenant and time that are as expected; return their versions by key."""
    if not dialect.statements.has_arrays:
        return None
    rows = dialect.statements.rows_from_arrays(MANY_ITEMS.prefix, _row_values(dialect))

    def given(name: str) -> Any:
        if name not in rows.c and name not in MANY_ITEMS.shared:
            return null()
        return _bind(name) if name in MANY_ITEMS.shared else rows.c[name]

    new = insert_values(given)
    changed = _update_values(partial(dialect.statements.excluded, ITEMS))
    source = select(*(column.label(name) for name, column in new.items())).select_from(rows)
    conditions = _conditions_on_item(expected)
    put = dialect.statements.upsert(
        ITEMS,
        new,
        ITEM_KEY,
        changed,
        where=and_(*conditions) if conditions else None,
        source=source,
    )
    named = put.returning(ITEMS.c.namespace, ITEMS.c.key, ITEMS.c.version)
    return named.execution_options(**{NAMELESS: True})


@statement()
def delete_vectors_of_items(dialect: Dialect) -> Executable:
    """Delete the vectors of the items that ``p_keys`` lists, of one tenant."""
    tenant = EMBEDDINGS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return delete(EMBEDDINGS).where(tenant, is_listed(dialect, EMBEDDINGS))


@removal(
    LIVES, proves="removed item", unproven=REMOVED_BY_NAME, expected=("any", "version", "item")
)
def delete_item(dialect: Dialect, expected: str) -> Executable:
    """Delete an item with its vectors, if it is as expected; return when it would have expired."""
    gone = delete(ITEMS).where(of_item(ITEMS), *_conditions_on_item(expected))
    if expected != "any":  # it goes for what its row says
        gone = gone.execution_options(**{PROVES: "rows"})
    # No condition: what SQLite 3.40 returns of a deleted row's IS NULL is wrong.
    return gone.returning(ITEMS.c.expires_at)


@removal(LIVES)
def delete_items(dialect: Dialect) -> Executable:
    """Delete the live items that ``p_keys`` lists, of one tenant, with their vectors."""
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return delete(ITEMS).where(tenant, is_listed(dialect, ITEMS), live_item())


@removal(LIVES, below=(False, True))
def clear_items(dialect: Dialect, below: bool) -> Executable:
    """Delete all items of a namespace."""
    return delete(ITEMS).where(in_scope(ITEMS, below))


def forget_namespace(dialect: Dialect, tenant: str, path: str) -> Program[int]:
    """Erase all items of an encoded namespace and below it; return their number.

    With their vectors, their words in the text indexes, and the names of their namespaces.
    """
    erased = yield clear_items(dialect, below=True), scope_binds(tenant, path, below=True)
    if dialect.vectors.counts_changes:
        yield delete_counters(dialect), erased_binds(tenant, path)
    yield from sweep_indexes(dialect)
    return erased.touched


@statement(changes=ITEM)
def extend_lifetime(dialect: Dialect) -> Executable:
    """Move the expiry of an item to ``p_expires_at`` if its version and lifetime are as read."""
    was = ITEMS.c.version == bindparam("p_version", type_=ITEMS.c.version.type)
    lifetime = ITEMS.c.lifetime == _bind("lifetime")
    later = ITEMS.c.expires_at < _bind("expires_at")
    return (
        update(ITEMS)
        .where(of_item(ITEMS), was, lifetime, later, live_item())
        .values(expires_at=_bind("expires_at"))
    )


def expectation(expected: Expected) -> tuple[str, dict[str, Any]]:
    """Return the variant of `EXPECTED` for an expected version, and its binds."""
    if isinstance(expected, StoreItem):
        return "item", {"p_expected": expected.version, "p_born": expected.created_at}
    which = "any" if expected is UNSET else "none" if expected is None else "version"
    # No item is at a version of over 64 bits, nor at the largest of them.
    if isinstance(expected, int):
        expected = check_position(expected, "expected_version")
    return which, {"p_expected": expected}


@statement(changes=ITEM)
def set_item_times(dialect: Dialect) -> Executable:
    """Set the times of an item that was just written, at ``p_written_at``, as far as given."""
    names = ("created_at", "updated_at", "expires_at")
    times = {name: func.coalesce(_bind(name), ITEMS.c[name]) for name in names}
    # PostgreSQL may choose the index in which the time comes before the key. Without the time, it
    # would look there at each time that the items before have got.
    written = ITEMS.c.updated_at == bindparam("p_written_at", type_=ITEMS.c.updated_at.type)
    return update(ITEMS).where(of_item(ITEMS), written).values(times)


def put(
    dialect: Dialect,
    row: Row,
    vectors: Sequence[VectorRow],
    native: bool,
    expected: Expected,
    put_one: PutOne,
) -> Program[int | None]:
    """Write an item with its vectors; return its version, or ``None`` if it is not as expected."""
    which, binds = expectation(expected)
    values = dict(row) | binds
    version = yield from put_one(dialect, values, which)
    if version is None:
        return None
    if vectors:
        change = yield from _delete_replaced_vectors(dialect, values, vectors, {})
        yield from _put_vectors(dialect, values, version, vectors, change, native)
    else:
        yield delete_vectors(dialect), key_of(values)
    return version


@varies
def puts_at_once(dialect: Dialect) -> bool:
    """Return whether `put_at_once` writes an item that has no vectors."""
    return False


@varies
def put_at_once(dialect: Dialect, row: Row, expected: Expected) -> Program[int | None]:
    """Do as `put`, without vectors and in one statement.

    ``None`` may also mean that somebody else has just written the item, or that the server was
    found to be one without such a statement: then `put` can tell.
    """
    yield from ()
    return None


@varies
def put_alone(dialect: Dialect, values: Row, which: str) -> Program[int | None]:
    """Write an item that is as one of `EXPECTED`, and leave its vectors; return its version."""
    rows = yield put_item(dialect, expected=which), values
    return rows[0].version if rows else None


def put_at_version(dialect: Dialect, values: Row, which: str) -> Program[int | None]:
    """Do as `put_alone`, and bind the ``p_version`` and ``p_created_at`` it will have."""
    attempt = partial(_put_at_found_version, dialect, values, which)
    if which != "any":
        return (yield from attempt())
    return (yield from retry_in_program(attempt, lambda: _never_at_rest(values["k_key"])))


def _put_at_found_version(dialect: Dialect, values: Row, which: str) -> Program[int | None]:
    """Do as `put_at_version`, but return ``None``, too, if somebody else was faster."""
    rows = yield lock_item(dialect), values
    if not rows:
        if which in ("version", "item"):
            return None
        placed = {"p_version": 1, "p_created_at": values["p_updated_at"]}
        return (yield from put_alone(dialect, dict(values) | placed, "none"))
    if which == "none" or (which != "any" and rows[0].version != values["p_expected"]):
        return None
    if which != "any":
        yield has_item(dialect), values  # which proves the row whose version it goes by
    there = int(rows[0].version)
    placed = {"p_version": there + 1, "p_created_at": rows[0].created_at}
    known = dict(values) | placed | {"p_expected": there}
    return (yield from put_alone(dialect, known, "item" if which == "item" else "version"))


def _never_at_rest(key: str) -> Conflict:
    return Conflict(
        f"the item {key!r} was made and removed by others {CONFLICTS.tries} times while this put "
        "was tried; nothing was written. Put it again."
    )


def add_vectors(
    dialect: Dialect,
    item: Row,
    model: str,
    vectors: Sequence[VectorRow],
    native: bool,
    expected: int | Unset,
) -> Program[int | None]:
    """Replace an item's vectors of one model, by none if there are none; others stay."""
    rows = yield lock_item(dialect), item
    if not rows:
        return None
    version = int(rows[0].version)
    if expected is not UNSET and version != expected:
        return version
    of_model = delete_vectors_of_model(dialect, of_field=False)
    yield of_model, key_of(item) | {"p_model": model}
    change = 0
    if dialect.vectors.counts_changes:
        change = yield from count_change(
            dialect, item["k_tenant"], item["k_namespace"], item["p_now"]
        )
    yield from _put_vectors(dialect, item, version, vectors, change, native)
    return version


class VectorName(NamedTuple):
    """Name of a vector of an item, and its size."""

    field: str
    model: str
    part: int
    dimensions: int


class Revectored(NamedTuple):
    """Item that was read, with new vectors for it."""

    place: Place
    version: int
    created_at: datetime
    names: frozenset[VectorName]
    """The names of the vectors that it had when it was read."""
    vectors: Sequence[VectorRow]
    replaced: frozenset[VectorName]
    """The names of the vectors to remove, unless they are written anew."""


def give_vectors(
    dialect: Dialect, tenant: str, items: Sequence[Revectored], now: datetime, native: bool
) -> Program[set[Place]]:
    """Replace vectors of items that are as they were read, and have the same vectors.

    Returns the places of the items that have changed, which are left as they are. Values and
    versions stay.
    """
    binds = {"k_tenant": tenant, "p_now": now}
    there = yield from lock_listed(dialect, [one.place for one in items], binds)
    names = yield from _names_of_vectors(dialect, tenant, there)
    same = [
        one
        for one in items
        if there.get(one.place) == (one.version, one.created_at) and names[one.place] == one.names
    ]
    changes: dict[str, int] = {}
    written = []
    for one in same:
        path, key = one.place
        item = binds | {"k_namespace": path, "k_key": key}
        for field, model in sorted(
            {(name.field, name.model) for name in not_overwritten(dialect, one)}
        ):
            named = key_of(item) | {"p_field": field, "p_model": model}
            yield delete_vectors_of_model(dialect, of_field=True), named
        if path not in changes and dialect.vectors.counts_changes:
            changes[path] = yield from count_change(dialect, tenant, path, now)
        written += [
            _vector_binds(dialect, item, one.version, vector, changes.get(path, 0), native)
            for vector in one.vectors
        ]
    if written:
        yield put_vector(dialect, native=native), written
    return {one.place for one in items} - {one.place for one in same}


@varies
def not_overwritten(dialect: Dialect, item: Revectored) -> list[VectorName]:
    """Return the names of the replaced vectors that the new ones are not written over."""
    anew = {(vector.field, vector.model, vector.part) for vector in item.vectors}
    return [name for name in item.replaced if name[:3] not in anew]


def _names_of_vectors(
    dialect: Dialect, tenant: str, places: Iterable[Place]
) -> Program[dict[Place, frozenset[VectorName]]]:
    """Return the names of the vectors of each of some items of a tenant."""
    found: dict[Place, set[VectorName]] = {place: set() for place in places}
    for listed in key_lists(dialect, found):
        for row in (yield list_vector_names(dialect), {"k_tenant": tenant} | listed):
            found[row.namespace, row.key].add(vector_name_of(row))
    return {place: frozenset(names) for place, names in found.items()}


def vector_name_of(row: Any) -> VectorName:
    """Return the name of the vector in a row of `list_vector_names`."""
    return VectorName(row.field, row.model, row.part, row.dimensions)


@statement(unproven=FOUND)
def list_vector_names(dialect: Dialect) -> Executable:
    """Select the names and sizes of the vectors of the items in ``p_keys``."""
    names = ("namespace", "key", *VectorName._fields)
    tenant = EMBEDDINGS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return select(*(EMBEDDINGS.c[name] for name in names)).where(
        tenant, is_listed(dialect, EMBEDDINGS)
    )


Written = tuple[Row, Sequence[VectorRow]]
"""An item, and its vectors."""

AT_ONCE = 1000
BYTES_AT_ONCE = 16 * 1024 * 1024
"""The most bytes of values and words in one statement, unless a single item has more."""


def put_batch(
    dialect: Dialect,
    items: Sequence[Written],
    native: bool,
    expected: str,
    keep_vectors: bool,
    put_all: PutAll,
) -> Program[dict[Place, int]]:
    """Write items of one tenant and time, no two of one key; return their versions by place.

    Those that are not as *expected*, ``any`` or ``none``, are left as they are and have no version.
    With *keep_vectors* the vectors that an item has stay.
    """
    # In one order in every process: two batches that want the same rows do not block each other.
    ordered = sorted(items, key=lambda one: place_of(one[0]))
    versions: dict[Place, int] = {}
    changes: dict[str, int] = {}
    for some in _batches(ordered):
        versions |= yield from put_all(dialect, [row for row, _ in some], expected)
        written = [one for one in some if place_of(one[0]) in versions]
        if keep_vectors:
            # An item that has expired does not exist, so its vectors are those of no value.
            fresh = [place_of(row) for row, _ in written if versions[place_of(row)] == 1]
            for listed in key_lists(dialect, fresh, AT_ONCE):
                tenant = {"k_tenant": some[0][0]["k_tenant"]}
                yield delete_vectors_of_items(dialect), tenant | listed
        else:
            yield from _replace_all(dialect, written, versions, native, changes)
    return versions


def _batches(items: Sequence[Written]) -> Iterator[Sequence[Written]]:
    start = size = 0
    for end, (row, _) in enumerate(items):
        more = len(row["p_value"]) + len(row["p_search_text"] or "")
        if end > start and (end - start == AT_ONCE or size + more > BYTES_AT_ONCE):
            yield items[start:end]
            start, size = end, 0
        size += more
    yield items[start:]


def put_one_by_one(
    dialect: Dialect, items: Sequence[Row], expected: str, *, put_one: PutOne
) -> Program[dict[Place, int]]:
    """Write items that are as *expected*, each by itself; return their versions by place."""
    written: dict[Place, int] = {}
    for row in items:
        version = yield from put_one(dialect, row, expected)
        if version is not None:
            written[place_of(row)] = version
    return written


def put_as_arrays(
    dialect: Dialect, items: Sequence[Row], expected: str
) -> Program[dict[Place, int]]:
    """Do as `put_one_by_one`, in one statement."""
    rows: Sequence[Any] = yield put_items(dialect, expected=expected), batch_binds(dialect, items)
    return {(path, key): int(version) for path, key, version in rows}


def put_arrays_at_versions(
    dialect: Dialect, items: Sequence[Row], expected: str
) -> Program[dict[Place, int]]:
    """Do as `put_as_arrays`, and bind ``i_version`` and ``i_created_at`` that items will have."""
    written: dict[Place, int] = {}
    left = list(items)

    def attempt() -> Program[dict[Place, int] | None]:
        """Write the items that are left; return ``None`` if somebody else was faster with some."""
        nonlocal left
        there = yield from lock_listed(dialect, map(place_of, left), left[0])
        known = [row for row in left if place_of(row) in there] if expected == "any" else []
        left = [row for row in left if place_of(row) not in there]
        for rows, condition in (known, "any"), (left, "none"):
            if rows:
                binds = batch_binds(dialect, rows)
                before = [there.get(place_of(row)) for row in rows]
                binds["i_version"] = [1 if one is None else one[0] + 1 for one in before]
                binds["i_created_at"] = [
                    row["p_updated_at"] if one is None else one[1]
                    for row, one in zip(rows, before, strict=True)
                ]
                answer: Sequence[Any] = yield put_items(dialect, expected=condition), binds
                written.update({(path, key): int(version) for path, key, version in answer})
        left = [row for row in left if place_of(row) not in written]
        return None if left and expected == "any" else written

    return (yield from retry_in_program(attempt, lambda: _never_at_rest(left[0]["k_key"])))


def batch_binds(dialect: Dialect, items: Sequence[Row]) -> dict[str, Any]:
    """Return the binds of `put_items` for items of one tenant and time."""
    types = _row_values(dialect)
    spelt = {name: ITEM.bind(name) for name in types}
    lists = {name: [row.get(key) for row in items] for name, key in spelt.items()}
    shared = {name: items[0][name] for name in ("k_tenant", "p_codec", "p_updated_at", "p_now")}
    return shared | dialect.statements.array_binds(MANY_ITEMS.prefix, types, lists)


def _replace_all(
    dialect: Dialect,
    items: Sequence[Written],
    versions: Mapping[Place, int],
    native: bool,
    changes: dict[str, int],
) -> Program[None]:
    """Replace the vectors of items; *changes* has the last change of each namespace so far."""
    bare = [row for row, vectors in items if not vectors]
    for listed in key_lists(dialect, map(place_of, bare), AT_ONCE):
        yield delete_vectors_of_items(dialect), {"k_tenant": bare[0]["k_tenant"]} | listed
    written = []
    for row, vectors in items:
        if vectors:
            change = yield from _delete_replaced_vectors(dialect, row, vectors, changes)
            version = versions[place_of(row)]
            written += [
                _vector_binds(dialect, row, version, one, change, native) for one in vectors
            ]
    if written:
        yield put_vector(dialect, native=native), written


def _put_vectors(
    dialect: Dialect,
    item: Row,
    version: int,
    vectors: Sequence[VectorRow],
    change: int,
    native: bool,
) -> Program[None]:
    statement = put_vector(dialect, native=native)
    # One by one: a list of a few takes SQLite longer.
    for one in vectors:
        yield statement, _vector_binds(dialect, item, version, one, change, native)


@varies
def make_way_for(dialect: Dialect, item: Row, vectors: Sequence[VectorRow]) -> Program[None]:
    """Delete the vectors that an item had and will not have."""
    # What is written over does not go: caches are spared looking for what is gone.
    kept = [[encode_id(one.field), encode_id(one.model), str(one.part)] for one in vectors]
    yield delete_other_vectors(dialect), key_of(item) | {"p_kept": orjson.dumps(kept).decode()}


def _delete_replaced_vectors(
    dialect: Dialect, item: Row, vectors: Sequence[VectorRow], changes: dict[str, int]
) -> Program[int]:
    """Delete the vectors that an item had and will not have; return the number of the change."""
    yield from make_way_for(dialect, item, vectors)
    path = item["k_namespace"]
    if path not in changes and dialect.vectors.counts_changes:
        place = item["k_tenant"], path, item["p_updated_at"]
        changes[path] = yield from count_change(dialect, *place, removes=False)
    return changes.get(path, 0)


def key_of(item: Row) -> dict[str, Any]:
    """Return the binds of an item's key."""
    return {f"k_{name}": item[f"k_{name}"] for name in ITEM_KEY}


def _vector_binds(
    dialect: Dialect, item: Row, version: int, one: VectorRow, change: int, native: bool
) -> dict[str, Any]:
    """Return the binds of `put_vector`; ``p_version`` and ``p_float32`` are for its signature."""
    raw = to_bytes(one.vector)
    return key_of(item) | {
        "p_version": version,
        "p_field": one.field,
        "p_model": one.model,
        "p_part": one.part,
        "p_dimensions": len(one.vector),
        "p_change": change,
        "p_float32": raw,
        "p_vector": dialect.vectors.bind_value(raw, native),
    }

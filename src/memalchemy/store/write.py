"""What changes items: one program for a put, one for a removal, and the statements they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
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
    insert,
    literal_column,
    not_,
    select,
    update,
)

from memalchemy.codec.vectors import to_bytes
from memalchemy.contracts import UNSET, StoreItem, Unset, check_position
from memalchemy.dialects import Dialect
from memalchemy.errors import UniqueViolation
from memalchemy.keys import encode_id
from memalchemy.search.cache_versions import count_change
from memalchemy.search.scope import (
    EMBEDDINGS,
    ITEM_KEY,
    ITEMS,
    Place,
    in_scope,
    is_listed,
    key_lists,
    live_item,
    of_item,
)
from memalchemy.statements import Program, statement

_CHANGING = (
    "meta", "codec", "checksum", "search_text", "field_terms", "updated_at", "expires_at",
    "lifetime", "value",
)  # fmt: skip
_OF_ALL = ("tenant", "codec", "updated_at")
"""What the items of a batch have in common."""
_OF_A_VECTOR = ("dimensions", "change", "vector")
EXPECTED = ("any", "none", "version", "item")
"""What must be there before a put: anything, nothing alive, an item at ``p_expected``, or the one
that was also made at ``p_born``: another of its key begins again at version 1.
"""
Expected = int | StoreItem | Unset | None
"""The same as a caller says it: `UNSET`, ``None``, a version, or an item that was read."""


Row = Mapping[str, Any]
"""What a put of an item binds: its key, and all that it holds."""


def place_of(row: Row) -> Place:
    """Where a row is put."""
    return row["k_namespace"], row["k_key"]


class VectorRow(NamedTuple):
    """One vector of an item."""

    field: str
    model: str
    part: int
    vector: Any
    """float32, checked."""


def _bind(name: str) -> Any:
    prefix = "k" if name in ITEM_KEY else "p"
    return bindparam(f"{prefix}_{name}", type_=ITEMS.c[name].type)


def _changed(given: Callable[[str], Any] = _bind) -> dict[str, Any]:
    """What a put makes of an item that is there; one that has expired starts anew."""
    live = live_item()
    return {name: given(name) for name in _CHANGING} | {
        "version": case((live, ITEMS.c.version + 1), else_=literal_column("1")),
        "created_at": case((live, ITEMS.c.created_at), else_=given("updated_at")),
    }


def _new(given: Callable[[str], Any] = _bind) -> dict[str, Any]:
    """What a put makes where no item is."""
    return {name: given(name) for name in (*ITEM_KEY, *_CHANGING)} | {
        "version": literal_column("1", Integer),
        "created_at": given("updated_at"),
    }


def _dropped(*more: ColumnElement[bool]) -> Delete:
    """An item's vectors go."""
    return delete(EMBEDDINGS).where(of_item(EMBEDDINGS), *more)


def _as_expected(expected: str) -> list[ColumnElement[bool]]:
    if expected in ("version", "item"):
        version = bindparam("p_expected", type_=ITEMS.c.version.type)
        born = ITEMS.c.created_at == bindparam("p_born", type_=ITEMS.c.created_at.type)
        same = [live_item(), ITEMS.c.version == version]
        return [*same, born] if expected == "item" else same
    return [not_(live_item())] if expected == "none" else []


def _change(expected: str) -> Any:
    changing = update(ITEMS).where(of_item(ITEMS), *_as_expected(expected)).values(_changed())
    return changing.returning(ITEMS.c.version)


def _put(dialect: Dialect, expected: str) -> Any:
    if expected in ("version", "item"):
        return _change(expected)
    where = and_(*_as_expected(expected)) if expected == "none" else None
    return dialect.statements.upsert(ITEMS, _new(), ITEM_KEY, _changed(), where=where).returning(
        ITEMS.c.version
    )


@statement(expected=EXPECTED)
def put_item(dialect: Dialect, expected: str) -> Executable | None:
    """Write an item, and return its version; no row if it is not as expected."""
    return _put(dialect, expected) if dialect.upserts or expected in ("version", "item") else None


@statement(expected=EXPECTED)
def put_alone(dialect: Dialect, expected: str) -> Executable | None:
    """A whole put of an item without vectors, in one statement: those that it had go."""
    if not dialect.single_statement_save:
        return None
    item = _put(dialect, expected).cte("item")
    gone = _dropped(select(item.c.version).exists()).cte("gone")
    return select(item.c.version).add_cte(gone)


@statement(expected=("any", "none"))
def change_item(dialect: Dialect, expected: str) -> Executable | None:
    """`put_item` without an upsert, first half: the item is there."""
    return None if dialect.upserts else _change(expected)


@statement()
def new_item(dialect: Dialect) -> Executable | None:
    """`put_item` without an upsert, second half: it is not."""
    return None if dialect.upserts else insert(ITEMS).values(_new())


@statement()
def drop_vectors(dialect: Dialect) -> Executable:
    """Remove an item's vectors."""
    return _dropped()


@statement()
def drop_other_vectors(dialect: Dialect) -> Executable | None:
    """Remove an item's vectors but those that ``p_kept`` lists, which are written anew."""
    if not dialect.upserts:
        return None
    kept = dialect.statements.rows_from_list("p_kept", ("field", "model", "part"))
    same = [EMBEDDINGS.c[name] == kept.c[name] for name in ("field", "model")]
    part = cast(EMBEDDINGS.c.part, Text) == kept.c.part
    stays: Select[Any] = select(literal_column("1")).select_from(kept).where(*same, part)
    return _dropped(~stays.exists())


@statement()
def lock_item(dialect: Dialect) -> Executable:
    """Lock an item, and return its version."""
    return dialect.statements.lock(ITEMS, and_(of_item(ITEMS), live_item()), [ITEMS.c.version])


@statement()
def drop_vectors_of_model(dialect: Dialect) -> Executable:
    """Remove an item's vectors of one model."""
    return _dropped(EMBEDDINGS.c.model == bindparam("p_model", type_=EMBEDDINGS.c.model.type))


@statement(native=(True, False))
def put_vector(dialect: Dialect, native: bool) -> Executable | None:
    """Write a vector of an item, into a column of the database's own type or of bytes."""
    if not native and not dialect.vectors.may_be_bytes:
        return None
    names = ("field", "model", "part", "dimensions", "change")
    values: dict[str, Any] = {
        name: bindparam(f"p_{name}", type_=EMBEDDINGS.c[name].type) for name in names
    }
    values |= {name: _bind(name) for name in ITEM_KEY}
    values["vector"] = dialect.vectors.bind("p_vector", native)
    if not dialect.upserts:  # they were dropped before
        return insert(EMBEDDINGS).values(values)
    changed = {name: dialect.statements.excluded(EMBEDDINGS, name) for name in _OF_A_VECTOR}
    return dialect.statements.upsert(
        EMBEDDINGS, values, (*ITEM_KEY, "field", "model", "part"), changed
    )


def _of_each() -> dict[str, Any]:
    names = (*ITEM_KEY, *_CHANGING)
    return {name: ITEMS.c[name].type for name in names if name not in _OF_ALL}


@statement()
def put_items(dialect: Dialect) -> Executable | None:
    """Write items of one tenant and moment, whatever was there; their versions by their keys."""
    if not dialect.statements.has_arrays:
        return None
    rows = dialect.statements.rows_from_arrays("i", _of_each())
    new = _new(lambda name: _bind(name) if name in _OF_ALL else rows.c[name])
    changed = _changed(partial(dialect.statements.excluded, ITEMS))
    source = select(*(column.label(name) for name, column in new.items())).select_from(rows)
    put = dialect.statements.upsert(ITEMS, new, ITEM_KEY, changed, source=source)
    return put.returning(ITEMS.c.namespace, ITEMS.c.key, ITEMS.c.version)


@statement()
def drop_vectors_of(dialect: Dialect) -> Executable:
    """Remove the vectors of the items that ``p_keys`` lists, of one tenant."""
    tenant = EMBEDDINGS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return delete(EMBEDDINGS).where(tenant, is_listed(dialect, EMBEDDINGS))


@statement(expected=("any", "version", "item"))
def remove_item(dialect: Dialect, expected: str) -> Executable:
    """Remove an item with its vectors, if it is as expected; until when it would have lived."""
    gone = delete(ITEMS).where(of_item(ITEMS), *_as_expected(expected))
    # No condition: what SQLite 3.40 returns of a deleted row's IS NULL is wrong.
    return gone.returning(ITEMS.c.expires_at)


@statement()
def remove_items(dialect: Dialect) -> Executable:
    """Remove the live items that ``p_keys`` lists, of one tenant, with their vectors."""
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return delete(ITEMS).where(tenant, is_listed(dialect, ITEMS), live_item())


@statement(below=(False, True))
def clear_items(dialect: Dialect, below: bool) -> Executable:
    """Remove all items of a namespace."""
    return delete(ITEMS).where(in_scope(ITEMS, below))


@statement()
def prolong_item(dialect: Dialect) -> Executable:
    """Let an item live for its lifetime from now; binds ``p_expires_at`` and what it was."""
    was = ITEMS.c.version == bindparam("p_version", type_=ITEMS.c.version.type)
    lifetime = ITEMS.c.lifetime == _bind("lifetime")
    later = ITEMS.c.expires_at < _bind("expires_at")
    return (
        update(ITEMS)
        .where(of_item(ITEMS), was, lifetime, later, live_item())
        .values(expires_at=_bind("expires_at"))
    )


def as_expected(expected: Expected) -> tuple[str, dict[str, Any]]:
    """The variant of `EXPECTED`, and what it binds."""
    if isinstance(expected, StoreItem):
        return "item", {"p_expected": expected.version, "p_born": expected.created_at}
    which = "any" if expected is UNSET else "none" if expected is None else "version"
    # No item is at a version of over 64 bits, nor at the largest of them.
    if isinstance(expected, int):
        expected = check_position(expected, "expected_version")
    return which, {"p_expected": expected}


@statement()
def date_item(dialect: Dialect) -> Executable:
    """Give an item that was just written the times it had elsewhere, as far as they are given."""
    names = ("created_at", "updated_at", "expires_at")
    times = {name: func.coalesce(_bind(name), ITEMS.c[name]) for name in names}
    return update(ITEMS).where(of_item(ITEMS)).values(times)


def put(
    dialect: Dialect, row: Row, vectors: Sequence[VectorRow], native: bool, expected: Expected
) -> Program[int | None]:
    """Write an item with its vectors; its version, or ``None`` if it is not as expected.

    Nothing was changed then.
    """
    which, binds = as_expected(expected)
    values = dict(row) | binds
    if dialect.single_statement_save and not vectors:
        rows = yield put_alone(dialect, expected=which), values
        return rows[0].version if rows else None
    version = yield from _put_program(dialect, values, which)
    if version is None:
        return None
    if vectors:
        change = yield from _make_room(dialect, values, vectors, {})
        yield from _put_vectors(dialect, values, vectors, change, native)
    else:
        yield drop_vectors(dialect), _key_of(values)
    return version


def _put_program(dialect: Dialect, values: Row, which: str) -> Program[int | None]:
    if dialect.upserts or which in ("version", "item"):
        rows = yield put_item(dialect, expected=which), values
        return rows[0].version if rows else None
    for _ in range(2):
        rows = yield change_item(dialect, expected=which), values
        if rows:
            return int(rows[0].version)
        try:
            yield new_item(dialect), values
        except UniqueViolation:
            continue  # somebody else made it, or it is not as expected: look again
        return 1
    return None


def add_vectors(
    dialect: Dialect, item: Row, vectors: Sequence[VectorRow], native: bool, expected: int | Unset
) -> Program[int | None]:
    """Give an item vectors of one model, in place of those of that model alone.

    Returns its version, and changes nothing if it is not the *expected*; ``None`` if it is not
    there. It is locked: a value that is written meanwhile comes after, and without them.
    """
    rows = yield lock_item(dialect), item
    if not rows:
        return None
    version = int(rows[0].version)
    if expected is not UNSET and version != expected:
        return version
    yield drop_vectors_of_model(dialect), _key_of(item) | {"p_model": vectors[0].model}
    change = 0
    if dialect.vectors.counts_changes:
        change = yield from count_change(
            dialect, item["k_tenant"], item["k_namespace"], item["p_now"]
        )
    yield from _put_vectors(dialect, item, vectors, change, native)
    return version


Written = tuple[Row, Sequence[VectorRow]]
"""An item, and its vectors."""

AT_ONCE = 1000
BYTES_AT_ONCE = 16 * 1024 * 1024
"""Of values and words that one statement writes, unless a single item has more."""


def put_all(dialect: Dialect, items: Sequence[Written], native: bool) -> Program[dict[Place, int]]:
    """Write items of one tenant and moment, no two of one key; their versions by their places."""
    # In one order in every process: two batches that want the same rows do not block each other.
    ordered = sorted(items, key=lambda one: place_of(one[0]))
    versions: dict[Place, int] = {}
    changes: dict[str, int] = {}
    for some in _portions(ordered):
        if dialect.statements.has_arrays:
            versions |= yield from _put_arrays(dialect, [row for row, _ in some])
        else:
            for row, _ in some:
                version = yield from _put_program(dialect, row, "any")
                assert version is not None
                versions[place_of(row)] = version
        yield from _replace_all(dialect, some, native, changes)
    return versions


def _portions(items: Sequence[Written]) -> Iterator[Sequence[Written]]:
    start = size = 0
    for end, (row, _) in enumerate(items):
        more = len(row["p_value"]) + len(row["p_search_text"] or "")
        if end > start and (end - start == AT_ONCE or size + more > BYTES_AT_ONCE):
            yield items[start:end]
            start, size = end, 0
        size += more
    yield items[start:]


def _put_arrays(dialect: Dialect, items: Sequence[Row]) -> Program[dict[Place, int]]:
    types = _of_each()
    spelt = {name: f"{'k' if name in ITEM_KEY else 'p'}_{name}" for name in types}
    lists = {name: [row[key] for row in items] for name, key in spelt.items()}
    shared = {name: items[0][name] for name in ("k_tenant", "p_codec", "p_updated_at", "p_now")}
    rows = yield put_items(dialect), shared | dialect.statements.array_binds("i", types, lists)
    return {(row.namespace, row.key): int(row.version) for row in rows}


def _replace_all(
    dialect: Dialect, items: Sequence[Written], native: bool, changes: dict[str, int]
) -> Program[None]:
    """Give items their vectors. *changes* has the number of the change of each namespace so far."""
    bare = [row for row, vectors in items if not vectors]
    for listed in key_lists(dialect, map(place_of, bare)):
        yield drop_vectors_of(dialect), {"k_tenant": bare[0]["k_tenant"]} | listed
    written = []
    for row, vectors in items:
        if vectors:
            change = yield from _make_room(dialect, row, vectors, changes)
            written += [_vector_binds(dialect, row, one, change, native) for one in vectors]
    if written:
        yield put_vector(dialect, native=native), written


def _put_vectors(
    dialect: Dialect, item: Row, vectors: Sequence[VectorRow], change: int, native: bool
) -> Program[None]:
    # One by one: a list of a few takes SQLite longer.
    for one in vectors:
        yield put_vector(dialect, native=native), _vector_binds(dialect, item, one, change, native)


def _make_room(
    dialect: Dialect, item: Row, vectors: Sequence[VectorRow], changes: dict[str, int]
) -> Program[int]:
    """Remove the vectors that an item had and will not have; the number of the change."""
    if dialect.upserts:
        # What is written over does not go: caches are spared looking for what is gone.
        kept = [[encode_id(one.field), encode_id(one.model), str(one.part)] for one in vectors]
        yield drop_other_vectors(dialect), _key_of(item) | {"p_kept": orjson.dumps(kept).decode()}
    else:
        yield drop_vectors(dialect), _key_of(item)
    path = item["k_namespace"]
    if path not in changes and dialect.vectors.counts_changes:
        place = item["k_tenant"], path, item["p_updated_at"]
        changes[path] = yield from count_change(dialect, *place, removes=False)
    return changes.get(path, 0)


def _key_of(item: Row) -> dict[str, Any]:
    return {f"k_{name}": item[f"k_{name}"] for name in ITEM_KEY}


def _vector_binds(
    dialect: Dialect, item: Row, one: VectorRow, change: int, native: bool
) -> dict[str, Any]:
    return _key_of(item) | {
        "p_field": one.field,
        "p_model": one.model,
        "p_part": one.part,
        "p_dimensions": len(one.vector),
        "p_change": change,
        "p_vector": dialect.vectors.bind_value(to_bytes(one.vector), native),
    }

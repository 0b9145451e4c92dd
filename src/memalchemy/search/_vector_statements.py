"""Statements that read embeddings: all of them, to be compared in Python, or the nearest ones."""

from __future__ import annotations

from typing import Any, get_args

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Executable,
    Integer,
    Select,
    String,
    Table,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    true,
    tuple_,
    type_coerce,
)
from sqlalchemy.sql.visitors import replacement_traverse
from sqlalchemy.types import NULLTYPE

from memalchemy.contracts import Metric
from memalchemy.database import Database
from memalchemy.dialects import Dialect
from memalchemy.proofs import RANKED
from memalchemy.search.scope import (
    EMBEDDINGS,
    ITEMS,
    STORED,
    in_scope,
    is_listed,
    live_item,
    routed_items,
    same_item,
)
from memalchemy.statements import NAMELESS, IntegerRange, Program, statement
from memalchemy.variants import varies

METRICS: tuple[Metric, ...] = get_args(Metric)

INDEXED_DIMENSIONS = IntegerRange(1, 4000, 384)
"""Dimensions that a vector index of half precision can have."""

PART = ("namespace", "key", "field", "part")


@statement()
def vector_storage(dialect: Dialect) -> Executable | None:
    """The type of the column of vectors, on databases where it depends on the installation."""
    return dialect.vectors.column_type()


def has_native_vectors(db: Database) -> Program[bool]:
    """Return whether the column of vectors has the database's own vector type, and not bytes."""
    if db.dialect.vectors.column_type() is None:
        return True
    rows = yield vector_storage(db.dialect), {"p_schema": db.schema}
    return not rows or rows[0][0] != "bytea"


def of_kind() -> ColumnElement[bool]:
    """The vectors of one model and size; binds ``p_model``, ``p_dimensions``."""
    return and_(
        EMBEDDINGS.c.model == _bind_as("p_model", EMBEDDINGS.c.model),
        EMBEDDINGS.c.dimensions == _bind_as("p_dimensions", EMBEDDINGS.c.dimensions),
    )


# --- Vectors to compare in Python -----------------------------------------------------------------


@statement(unproven=RANKED, below=(False, True))
def read_vectors(dialect: Dialect, below: bool) -> Executable | None:
    """A page of a scope's vectors, in the columns of `_select_vectors`; binds `page_after`."""
    if dialect.vectors.computes_distances and not dialect.vectors.may_be_bytes:
        return None
    position = dialect.statements.rowid(EMBEDDINGS)
    order = {"key": String, "field": String, "part": Integer}
    columns: list[Any] = [EMBEDDINGS.c[name] for name in order]
    bounds: list[Any] = [bindparam(f"p_{name}", type_=type_) for name, type_ in order.items()]
    if position is not None:
        columns, bounds = [position], [_integer_bind("p_row_at")]
    query: Select[Any] = _select_vectors(dialect).where(in_scope(EMBEDDINGS, below), of_kind())
    if below:
        columns.insert(0, EMBEDDINGS.c.namespace)
        bounds.insert(0, bindparam("p_namespace", type_=String))
    after = tuple_(*columns) > tuple_(*bounds) if len(columns) > 1 else columns[0] > bounds[0]
    page = query.where(after).order_by(*columns).limit(_integer_bind("p_limit"))
    return page.execution_options(**{NAMELESS: True})


def page_after(dialect: Dialect, row: Any | None, path: str) -> dict[str, Any]:
    """Return the binds of `read_vectors` for the page after *row*, or for the first page."""
    namespace, key, field, part = (path, "", "", -1) if row is None else row[: len(PART)]
    if dialect.statements.rowid(EMBEDDINGS) is not None:
        found = {"p_row_at": -1 if row is None else row[len(PART) + 1]}
    else:
        found = {"p_key": key, "p_field": field, "p_part": part}
    return found | {"p_namespace": namespace}


@statement(below=(False, True))
def count_vectors(dialect: Dialect, below: bool) -> Executable:
    """The number of vectors of a scope, but at most ``p_limit``."""
    some = (
        select(literal_column("1").label("one"))
        .select_from(EMBEDDINGS)
        .where(in_scope(EMBEDDINGS, below), of_kind())
        .limit(_integer_bind("p_limit"))
        .subquery("some_vectors")
    )
    return select(func.count()).select_from(some)


@statement(unproven=RANKED)
def read_changed_vectors(dialect: Dialect) -> Executable | None:
    """A page of the vectors of a namespace that were written since a version."""
    position = dialect.statements.rowid(EMBEDDINGS)
    if not dialect.vectors.counts_changes or position is None:
        return None
    change = EMBEDDINGS.c.change
    # Written so that only the index by change can be used: most often there are no rows, or few.
    model = EMBEDDINGS.c.model.concat(literal_column("''", String))
    dimensions = EMBEDDINGS.c.dimensions + literal_column("0", Integer)
    query: Select[Any] = (
        _select_vectors(dialect)
        .add_columns(change)
        .where(in_scope(EMBEDDINGS, False))
        .where(
            tuple_(change, position)
            > tuple_(_bind_as("p_change", change), _integer_bind("p_row_at"))
        )
        .where(change >= _bind_as("p_change", change))
        .where(model == _bind_as("p_model", EMBEDDINGS.c.model))
        .where(dimensions == _integer_bind("p_dimensions"))
        .order_by(change, position)
        .limit(_integer_bind("p_limit"))
    )
    return query


@statement(which=("number", "positions"))
def read_positions(dialect: Dialect, which: str) -> Executable | None:
    """The positions of a namespace's vectors in a range of positions, or their number."""
    position = dialect.statements.rowid(EMBEDDINGS)
    if not dialect.vectors.counts_changes or position is None:
        return None
    wanted = func.count().label("number") if which == "number" else position.label("row_at")
    return (
        select(wanted)
        .select_from(EMBEDDINGS)
        .where(in_scope(EMBEDDINGS, False), of_kind())
        .where(position >= _integer_bind("p_low"), position <= _integer_bind("p_high"))
    )


@statement(proves="item")
def live_items(dialect: Dialect) -> Executable | None:
    """The items that ``p_keys`` lists, if they are alive; ``value`` as `rank_all` has it."""
    if dialect.vectors.computes_distances and not dialect.vectors.may_be_bytes:
        return None
    return select(*_item_columns(dialect)).where(
        ITEMS.c.tenant == _bind_as("k_tenant", ITEMS.c.tenant),
        is_listed(dialect, ITEMS),
        live_item(),
    )


@statement(proves=("vector", "vectors", "item"))
def live_parts(dialect: Dialect) -> Executable | None:
    """The items of the vectors that ``p_keys`` lists as `PART`, if they are alive.

    As `live_items`, each with its vector and what `check_vectors` needs.
    """
    if dialect.vectors.computes_distances and not dialect.vectors.may_be_bytes:
        return None
    named = dialect.statements.rows_from_list("p_keys", PART)
    names = select(*(named.c[name] for name in PART[:3]), cast(named.c.part, Integer))
    of_part = [EMBEDDINGS.c.field, EMBEDDINGS.c.part]
    return (
        select(*_item_columns(dialect), *of_part, *_signed_vector())
        .select_from(EMBEDDINGS.join(ITEMS, same_item(ITEMS, EMBEDDINGS)))
        .where(
            EMBEDDINGS.c.tenant == _bind_as("k_tenant", EMBEDDINGS.c.tenant),
            tuple_(*(EMBEDDINGS.c[name] for name in PART)).in_(names),
            of_kind(),
            live_item(),
        )
    )


@statement(
    proves=("vector", "vectors"),
    signed_form="signed",
    as_stored=(False, True),
    alive=(False, True),
    signed=(False, True),
)
def vectors_of_items(dialect: Dialect, as_stored: bool, alive: bool, signed: bool) -> Executable:
    """The vectors of the items that ``p_keys`` lists, of one tenant and of every model.

    With *alive* those that have expired have none; binds ``p_now``.
    With *as_stored* a vector is what the driver returns; see `stored_vector_bytes`. With *signed*
    it comes with what `check_vectors` needs.
    """
    columns: list[Any] = [
        EMBEDDINGS.c[name] for name in ("namespace", "key", "field", "model", "part")
    ]
    columns += _as_stored(EMBEDDINGS, "vector") if as_stored else [EMBEDDINGS.c.vector]
    source: Any = EMBEDDINGS
    if signed:
        columns += [EMBEDDINGS.c.dimensions, _vector_signature(), ITEMS.c.version]
    if signed or alive:
        source = EMBEDDINGS.join(ITEMS, same_item(ITEMS, EMBEDDINGS))
    tenant = EMBEDDINGS.c.tenant == _bind_as("k_tenant", EMBEDDINGS.c.tenant)
    conditions = [tenant, is_listed(dialect, EMBEDDINGS), *([live_item()] if alive else [])]
    return select(*columns).select_from(source).where(*conditions)


# --- Vectors compared by the database -------------------------------------------------------------


@statement(
    proves=("vector", "item"),
    signed_form="signed",
    metric=METRICS,
    below=(False, True),
    among=(False, True),
    signed=(False, True),
)
def rank_all(
    dialect: Dialect, metric: str, below: bool, among: bool, signed: bool
) -> Executable | None:
    """The nearest vectors of a scope, each of which is compared, with the columns of their items.

    ``alive`` is 1 if the item has not expired. ``value`` is NULL if it is longer than ``p_longest``
    bytes: most rows may be other parts of an item that is found already, or more than are wanted.
    With *among* only the items that ``p_keys`` lists are compared. With *signed* a row has what
    `check_vectors` needs.
    """
    if not dialect.vectors.computes_distances or (
        among and dialect.statements.max_list_bytes is not None
    ):
        return None
    scope = and_(in_scope(EMBEDDINGS, below), of_kind())
    if among:
        scope = and_(scope, is_listed(dialect, EMBEDDINGS))
    return _rank_by_distance(dialect, metric, below, scope, _integer_bind("p_limit"), signed)


@statement(
    proves=("vector", "item"),
    signed_form="signed",
    metric=METRICS,
    below=(False, True),
    signed=(False, True),
)
def rank_listed(dialect: Dialect, metric: str, below: bool, signed: bool) -> Executable | None:
    """`rank_all` of the items that ``p_keys`` lists, for a scope that is read once as a whole."""
    if not dialect.statements.has_custom_plans or not dialect.vectors.computes_distances:
        return None
    # Not a join: where the planner expects few rows, it would compare each with the whole list.
    listed = is_listed(dialect, EMBEDDINGS).is_(true())
    scope = and_(in_scope(EMBEDDINGS, below), of_kind(), listed)
    return _rank_by_distance(dialect, metric, below, scope, _integer_bind("p_limit"), signed)


@statement(
    proves=("vector", "item"),
    signed_form="signed",
    metric=METRICS,
    below=(False, True),
    signed=(False, True),
)
def rank_few(dialect: Dialect, metric: str, below: bool, signed: bool) -> Executable | None:
    """`rank_all` for a scope of few vectors, where planning takes longer than comparing.

    Its plan is generic, and uses the index of the scope.
    """
    if not dialect.statements.has_custom_plans or not dialect.vectors.computes_distances:
        return None
    tenant = EMBEDDINGS.c.tenant == _bind_as("k_tenant", EMBEDDINGS.c.tenant)
    path = _equals_as_range("k_namespace", EMBEDDINGS.c.namespace)
    scope = in_scope(EMBEDDINGS, True) if below else and_(tenant, path)
    dimensions = EMBEDDINGS.c.dimensions == _bind_as("p_dimensions", EMBEDDINGS.c.dimensions)
    condition = and_(scope, _equals_as_range("p_model", EMBEDDINGS.c.model), dimensions)
    limit = dialect.statements.hide_from_planner(_integer_bind("p_limit"))
    return _rank_by_distance(
        dialect, metric, below, _hide_binds_from_planner(dialect, condition), limit, signed
    )


def _equals_as_range(name: str, column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Compare for equality, written as a range.

    For a range with an unknown value the planner assumes 0.5 % of the rows. For an equality it
    assumes the average, which may be so many that it would scan the whole table.
    """
    return and_(column >= _bind_as(name, column), column <= _bind_as(name, column))


def _rank_by_distance(
    dialect: Dialect,
    metric: str,
    below: bool,
    scope: ColumnElement[bool],
    limit: ColumnElement[int],
    signed: bool,
) -> Executable:
    distance = dialect.vectors.distance(EMBEDDINGS.c.vector, "p_vector", metric).label("distance")
    part = [EMBEDDINGS.c[name] for name in PART]
    query = select(*part, distance, *(_signed_vector() if signed else ())).where(scope)
    return _join_items(dialect, query.order_by(distance, *part).limit(limit), below)


def _hide_binds_from_planner(
    dialect: Dialect, condition: ColumnElement[bool]
) -> ColumnElement[bool]:
    def instead(element: Any, **_: Any) -> Any:
        return (
            dialect.statements.hide_from_planner(element)
            if isinstance(element, BindParameter)
            else None
        )

    made: ColumnElement[bool] = replacement_traverse(condition, {}, instead)
    return made


@statement(
    proves=("vector", "item"),
    signed_form="signed",
    metric=METRICS,
    below=(False, True),
    dimensions=INDEXED_DIMENSIONS,
    signed=(False, True),
)
def rank_by_index(
    dialect: Dialect, metric: str, below: bool, dimensions: int, signed: bool
) -> Executable | None:
    """The approximately nearest vectors of a scope by an index, with their exact distances.

    ``place`` sorts rows as the index returns them. The first are the same for every ``p_limit``.
    """
    vector = EMBEDDINGS.c.vector
    about = dialect.vectors.index_distance(vector, "p_vector", metric, dimensions)
    if about is None:
        return None
    rough = about.label("rough")
    true = dialect.vectors.distance(vector, "p_vector", metric).label("distance")
    query = (
        select(
            *(EMBEDDINGS.c[name] for name in PART),
            true,
            rough,
            place_in_index(dialect, about).label("place"),
            *(_signed_vector() if signed else ()),
        )
        .where(in_scope(EMBEDDINGS, below))
        .where(EMBEDDINGS.c.model == _bind_as("p_model", EMBEDDINGS.c.model))
        # The index is partial, so its condition must be in the text and not in a bind.
        .where(EMBEDDINGS.c.dimensions == literal_column(str(int(dimensions)), Integer))
    )
    return _join_items(dialect, query.order_by(rough).limit(_integer_bind("p_limit")), below)


@varies
def place_in_index(dialect: Dialect, rough: ColumnElement[float]) -> ColumnElement[Any]:
    """Return what sorts rows in the order of the index, which is not quite that of *rough*."""
    return func.row_number().over()


@statement()
def vector_indexes(dialect: Dialect) -> Executable | None:
    """The vector indexes of the schema ``:p_schema``."""
    return dialect.vectors.list_indexes()


@statement()
def only_by_vector_index(dialect: Dialect) -> Executable | None:
    """Set the transaction to use the vector index, with the settings that are bound."""
    return dialect.vectors.force_index()


@statement()
def current_vector_settings(dialect: Dialect) -> Executable | None:
    """The settings that `only_by_vector_index` changes."""
    return dialect.vectors.current_settings()


def _join_items(dialect: Dialect, query: Select[Any], below: bool) -> Executable:
    # Joined to the nearest rows only: joined before, all items of the scope would be looked up.
    near = dialect.statements.materialized(query, "near")
    same = and_(
        ITEMS.c.tenant == _bind_as("k_tenant", ITEMS.c.tenant),
        ITEMS.c.namespace == near.c.namespace,
        ITEMS.c.key == near.c.key,
        *routed_items(dialect, below, ITEMS),
    )
    joined, item = dialect.statements.join_by_key(near, ITEMS, same)
    alive = case((live_item(item), literal_column("1")), else_=literal_column("0")).label("alive")
    own = [column for column in _item_columns(dialect, item) if column.key not in PART]
    found = [column for column in near.c if column.key != "rough"]
    return select(*found, alive, *own).select_from(joined)


def _item_columns(dialect: Dialect, item: Any = ITEMS) -> list[ColumnElement[Any]]:
    """Return the columns of an item; ``value`` is NULL if it has over ``p_longest`` bytes."""
    is_short = dialect.statements.byte_length(item.c.value) <= _integer_bind("p_longest")
    value = case((is_short, item.c.value)).label("value")
    return [*(item.c[name] for name in STORED if name != "value"), value]


def _vector_signature() -> ColumnElement[Any]:
    return EMBEDDINGS.c.signature.label("vector_signature")


def _signed_vector() -> list[Any]:
    """Return the columns that `check_vectors` needs, beside part and version of the item."""
    kind = [EMBEDDINGS.c.model, EMBEDDINGS.c.dimensions]
    return [*kind, *_as_stored(EMBEDDINGS, "vector"), _vector_signature()]


def _as_stored(table: Table, *names: str) -> list[Any]:
    # Without conversion to Python types: there are many rows, and few are used.
    return [type_coerce(table.c[name], NULLTYPE).label(name) for name in names]


def _select_vectors(dialect: Dialect) -> Any:
    """Select the columns of `PART`, the vector and, where rows have one, the position."""
    columns = _as_stored(EMBEDDINGS, *PART, "vector")
    position = dialect.statements.rowid(EMBEDDINGS)
    if position is not None:
        columns.append(type_coerce(position, NULLTYPE).label("row_at"))
    return select(*columns)


def _bind_as(name: str, column: ColumnElement[Any]) -> BindParameter[Any]:
    return bindparam(name, type_=column.type)


def _integer_bind(name: str) -> BindParameter[Any]:
    return bindparam(name, type_=Integer)

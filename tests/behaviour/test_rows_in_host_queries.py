"""Queries of a host on the mapped classes: namespaces, metadata, fields of items, and states.

Each condition is compared with the answer of the library or of Python, and its plan is looked at.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import pytest
from sqlalchemy import ClauseElement, Executable, event, func, not_, select, text
from sqlalchemy.dialects import oracle
from sqlalchemy.exc import ArgumentError, CompileError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session, aliased, undefer
from sqlalchemy.orm.exc import DetachedInstanceError
from sqlalchemy.sql.operators import ColumnOperators, Operators

from memalchemy import Checkpointer, Database, KeyMissing, NotFound, Store, ThreadLog, decode
from memalchemy.codec.encryption import generate_key
from memalchemy.errors import CapabilityMissing, InvalidArgument
from memalchemy.filters import Filter
from memalchemy.schema import Base, CheckpointRow, DeltaRow, EmbeddingRow, StoreItemRow, ThreadRow

Work = Callable[[Session], Any]


async def in_session(db: Database, work: Work) -> Any:
    return await db.run_sync(lambda connection: work(Session(connection)))


class Explain(Executable, ClauseElement):
    inherit_cache = False

    def __init__(self, query: Any) -> None:
        self.query = query


@compiles(Explain)
def _explain(element: Explain, compiler: Any, **kw: Any) -> str:
    return f"EXPLAIN {compiler.process(element.query, **kw)}"


@compiles(Explain, "sqlite")
def _explain_on_sqlite(element: Explain, compiler: Any, **kw: Any) -> str:
    return f"EXPLAIN QUERY PLAN {compiler.process(element.query, **kw)}"


async def plan_of(db: Database, query: Any) -> str:
    """Return how the database runs a query where a scan of the table is the last resort."""

    def look(session: Session) -> str:
        if session.get_bind().dialect.name == "postgresql":
            session.execute(text("SET LOCAL enable_seqscan = off"))
            session.execute(text("SET LOCAL enable_sort = off"))
        return "\n".join(
            " ".join(map(str, row)) for row in session.connection().execute(Explain(query))
        )

    return str(await in_session(db, look))


# --- Namespaces ----------------------------------------------------------------------------------

PARTS = ("users", "users2", "ada", "a/b", "~v", "", "é", "0")
NAMESPACES = [(), *((a,) for a in PARTS), *itertools.product(PARTS, ("ada", "", "a/b"))]


async def stored_namespaces(db: Database) -> None:
    store = Store(db, embedder=lambda texts: [[1.0, 2.0] for _ in texts])
    for number, namespace in enumerate(NAMESPACES):
        await store.put(namespace, f"k{number}", {"text": "tea"}, index=["text"])
        await Checkpointer(db, namespace=namespace).save({}, "thread")


@pytest.mark.parametrize("row", [ThreadRow, StoreItemRow, EmbeddingRow])
async def test_namespaces_are_tuples_in_queries_and_of_rows(db: Database, row: Any) -> None:
    await stored_namespaces(db)
    mine = select(row.namespace).where(row.tenant == db.tenant)

    def work(session: Session) -> None:
        assert sorted(session.scalars(mine)) == sorted(NAMESPACES)
        rows = session.scalars(select(row).where(row.tenant == db.tenant)).all()
        assert sorted(one.namespace for one in rows) == sorted(NAMESPACES)
        other = aliased(row)
        for wanted in NAMESPACES:
            below = [one for one in NAMESPACES if one[: len(wanted)] == wanted]
            assert session.scalars(mine.where(row.namespace == wanted)).all() == [wanted]
            assert session.scalars(mine.where(row.namespace == list(wanted))).all() == [wanted]
            assert sorted(session.scalars(mine.where(row.namespace.below(wanted)))) == sorted(below)
            unequal = session.scalars(mine.where(row.namespace != wanted)).all()
            assert wanted not in unequal
            assert len(unequal) == len(NAMESPACES) - 1
            again = select(other).where(other.tenant == db.tenant, other.namespace == wanted)
            assert [one.namespace for one in session.scalars(again)] == [wanted]
            by_name = select(row).filter_by(tenant=db.tenant, namespace=wanted)
            assert [one.namespace for one in session.scalars(by_name)] == [wanted]
        some = NAMESPACES[:3]
        assert sorted(session.scalars(mine.where(row.namespace.in_(some)))) == sorted(some)
        assert len(session.scalars(mine.where(row.namespace.not_in(some))).all()) == (
            len(NAMESPACES) - 3
        )

    await in_session(db, work)


@pytest.mark.own_programs("a plan is the database's")
@pytest.mark.parametrize("row", [ThreadRow, StoreItemRow, EmbeddingRow])
async def test_a_range_of_namespaces_is_answered_by_an_index(db: Database, row: Any) -> None:
    query = select(row.tenant).where(row.tenant == "t", row.namespace.below(("users",)))

    plan = await plan_of(db, query.order_by(row.tenant, row.path))

    assert row.__tablename__ in plan
    if db.dialect.name == "sqlite":
        assert "namespace>? AND namespace<?" in plan
    if db.dialect.name == "postgresql":
        assert "Index Cond" in plan
        assert "namespace >= '/users/'" in plan


@pytest.mark.parametrize("wanted", ["users", "users/ada", "", 7, ("users", 7)])
def test_a_namespace_that_is_no_tuple_is_refused(wanted: Any) -> None:
    for compare in (
        lambda: StoreItemRow.namespace == wanted,
        lambda: ThreadRow.namespace != wanted,
        lambda: EmbeddingRow.namespace.in_([wanted]),
        lambda: StoreItemRow.namespace.below(wanted),
    ):
        with pytest.raises((InvalidArgument, TypeError), match="namespace"):
            compare()


def test_a_path_may_stand_for_a_namespace() -> None:
    assert (StoreItemRow.namespace == "/users/").compare(StoreItemRow.namespace == "/users/")
    assert str(StoreItemRow.path) == "StoreItemRow.path"


# --- Metadata ------------------------------------------------------------------------------------

VALUES: list[Any] = [
    *("planner", "Planner", "", 'o\'clock "x" \\', "é", "x" * 200),
    *(0, 1, 2, -1, 1.5, 10**15, True, False),
    *([1, 2], {"a": {"b": 1}}, [], {}, None),
]


def same(a: Any, b: Any) -> bool:
    """Whether two values of JSON are equal, of which true is not 1, at every depth."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return isinstance(a, bool) == isinstance(b, bool) and a == b


METADATA_ROWS: dict[Any, str] = {
    ThreadRow: "thread_id",
    CheckpointRow: "checkpoint_id",
    StoreItemRow: "key",
}
OF_ITS_OWN = pytest.mark.needs("a SQLAlchemy dialect of its own")
ROWS_WITH_METADATA = [  # conditions on that of checkpoints ask an index, too
    pytest.param(row, marks=[OF_ITS_OWN] if row is CheckpointRow else []) for row in METADATA_ROWS
]


@pytest.mark.parametrize("row", ROWS_WITH_METADATA)
async def test_metadata_is_compared_as_json_is(db: Database, row: Any) -> None:
    checkpointer, store = Checkpointer(db), Store(db)
    for number, value in enumerate(VALUES):
        meta = {"key": value, "other": "planner"}
        await checkpointer.save({}, f"t{number:02}", f"c{number:02}", meta)
        await checkpointer.set_thread_metadata(f"t{number:02}", meta)
        await store.put(("n",), f"i{number:02}", {}, meta)
    await checkpointer.save({}, "bare", "bare")
    await store.put(("n",), "bare", {})
    await checkpointer.save({}, "else", "else", {"another": None})
    await checkpointer.set_thread_metadata("else", {"another": None})
    await store.put(("n",), "else", {}, {"another": None})
    name = {ThreadRow: "thread_id", CheckpointRow: "checkpoint_id", StoreItemRow: "key"}[row]
    other = aliased(row)

    def work(session: Session) -> None:
        for table in (row, other):
            column = getattr(table, name)
            mine = select(column).where(table.tenant == db.tenant).order_by(column)
            for value in VALUES:
                expected = [n for n, one in enumerate(VALUES) if same(one, value)]
                found = session.scalars(mine.where(table.meta["key"] == value))
                assert [int(one[1:]) for one in found] == expected, value
                counted = select(func.count()).where(
                    table.tenant == db.tenant, table.meta["key"] == value
                )
                assert session.scalar(counted) == len(expected)
            some = session.scalars(mine.where(table.meta["key"].in_(["planner", 1, True])))
            assert [VALUES[int(one[1:])] for one in some] == ["planner", 1, True]
            assert session.scalars(mine.where(table.meta["key"].in_([]))).all() == []
            for among in ([None], [None, 1.5], ["planner", None]):
                some = session.scalars(mine.where(table.meta["key"].in_(among)))
                assert {str(VALUES[int(one[1:])]) for one in some} == {*map(str, among)}
            both = (table.meta["key"] == 1, table.meta["other"] == "planner")
            assert len(session.scalars(mine.where(*both)).all()) == 1
            either = both[0] | (table.meta["key"] == 2)
            assert len(session.scalars(mine.where(either)).all()) == 2
            assert len(session.scalars(mine.where(not_(both[1]))).all()) == 2
            as_text = table.meta["other"].as_string() == "planner"
            assert len(session.scalars(mine.where(as_text)).all()) == len(VALUES)

    await in_session(db, work)


async def test_the_library_compares_metadata_as_json_at_every_depth(db: Database) -> None:
    await store_metadata_values(db)
    checkpointer = Checkpointer(db)
    for value in comparable_values(db):
        equal = [n for n, one in enumerate(METADATA_VALUES) if same(one, value)]
        found = await checkpointer.query_by_metadata("key", value)
        assert sorted(int(one["checkpoint_id"][1:]) for one in found) == equal, value
    assert await checkpointer.forget(metadata={"key": [1.0]}) > 0
    assert await checkpointer.query_by_metadata("key", [1]) == []
    assert len(await checkpointer.query_by_metadata("key", [True])) == 1


@OF_ITS_OWN
@pytest.mark.own_programs("a plan is the database's")
@pytest.mark.parametrize("value", ["planner", 3, True, [1], None], ids=repr)
async def test_an_index_finds_checkpoints_by_their_metadata(db: Database, value: Any) -> None:
    other = aliased(CheckpointRow)
    for row in (CheckpointRow, other):
        plan = await plan_of(db, select(row.checkpoint_id).where(row.meta["key"] == value))
        if db.dialect.name == "sqlite":
            assert "SEARCH checkpoints" in plan
            assert "USING INTEGER PRIMARY KEY (rowid=?)" in plan
            assert "checkpoints_meta VIRTUAL TABLE INDEX" in plan
        if db.dialect.name == "postgresql":
            assert "ix_checkpoints_meta" in plan


METADATA_VALUES: list[Any] = [
    *(1, 1.0, 2.5, True, False, None, "é", "tea", "Tea", "1", "true", "", 10**15, -1e300),
    *([1], [1.0], [True], [], {"a": 1}, {"a": 1.0}, {"a": None}, {}),
    *([[1.0, {"b": [2]}]], [[1, {"b": [2.0]}]], [[1, {"b": [True]}]], [1, 2], [2, 1]),
    *({"a": {"b": 0}}, {"a": {"b": -0.0}}, {"a": {"b": False}}, {"a": [], "b": 1}, {"a": {}}),
    *({"x.y": {}, 'x.y"."z.': 1}, {"x.y": {"z.": 1}}, {"é": ["ü", 1]}, {"é": ["ü", 1.0]}),
]


def test_every_class_with_metadata_is_asked() -> None:
    mapped = {mapper.class_ for mapper in Base.registry.mappers if "meta" in mapper.attrs}
    assert mapped == {*METADATA_ROWS}


def comparable_values(db: Database) -> list[Any]:
    """Return the values that metadata can be compared with; Oracle refuses a null in an object."""
    found = []
    for value in METADATA_VALUES:
        with suppress(CapabilityMissing):
            db.dialect.statements.json_equals_binds("key", value, "container")
            found.append(value)
    assert found in (METADATA_VALUES, [one for one in METADATA_VALUES if one != {"a": None}])
    return found


async def store_metadata_values(db: Database) -> None:
    checkpointer, store = Checkpointer(db), Store(db)
    held = [*({"key": value, "other": 1} for value in METADATA_VALUES), {"another": None}, None]
    for number, meta in enumerate(held):
        await checkpointer.save({}, f"t{number:02}", f"c{number:02}", meta)
        await checkpointer.set_thread_metadata(f"t{number:02}", meta or {})
        await store.put(("n",), f"i{number:02}", {}, meta)


def finder(session: Session, db: Database, row: Any) -> Callable[[Any], list[int]]:
    """Return a function that returns the numbers of the rows that fulfil a condition."""

    def found(condition: Any) -> list[int]:
        name = getattr(row, METADATA_ROWS[row])
        mine = select(name).where(row.tenant == db.tenant, condition)
        return sorted(int(one[1:]) for one in session.scalars(mine))

    return found


@pytest.mark.parametrize("row", ROWS_WITH_METADATA)
async def test_each_condition_on_metadata_means_the_same_on_every_database(
    db: Database, row: Any
) -> None:
    await store_metadata_values(db)
    wanted = comparable_values(db)
    everywhere = range(len(METADATA_VALUES) + 2)
    with_key = everywhere[:-2]

    def work(session: Session) -> None:
        found = finder(session, db, row)
        key = row.meta["key"]
        for value in wanted:
            equal = [n for n in with_key if same(METADATA_VALUES[n], value)]
            unequal = [n for n in with_key if n not in equal]
            assert found(key == value) == equal, value
            assert found(key != value) == unequal, value
            assert found(key.in_([value])) == equal, value
            assert found(key.not_in([value])) == unequal, value
            assert found(not_(key == value)) == [n for n in everywhere if n not in equal], value
            assert found(not_(key != value)) == [n for n in everywhere if n not in unequal], value
        for among in itertools.combinations(wanted, 2):
            equal = [n for n in with_key if any(same(METADATA_VALUES[n], one) for one in among)]
            assert found(key.in_(among)) == equal, among
            assert found(key.not_in(among)) == [n for n in with_key if n not in equal], among
        assert found(key.in_([])) == []
        assert found(key.not_in([])) == list(with_key)
        assert found(key.is_(None)) == list(everywhere[-2:])
        assert found(key.is_not(None)) == list(with_key)

    await in_session(db, work)


@pytest.mark.own_programs("Oracle has none of the values that SQLAlchemy reads")
@pytest.mark.parametrize("row", METADATA_ROWS)
async def test_each_value_of_metadata_is_read_alike_on_every_database(
    db: Database, row: Any
) -> None:
    await store_metadata_values(db)
    name = METADATA_ROWS[row]
    with_key = range(len(METADATA_VALUES))

    def work(session: Session) -> None:
        found = finder(session, db, row)
        key = row.meta["key"]
        of_kind = {"text": (str,), "number": (int, float), "boolean": (bool,)}
        read = {"text": key.as_string(), "number": key.as_float(), "boolean": key.as_boolean()}
        for kind, types in of_kind.items():
            expected = [
                one
                for one in METADATA_VALUES
                if isinstance(one, types) and (kind == "boolean" or not isinstance(one, bool))
            ]
            mine = select(read[kind]).where(row.tenant == db.tenant, read[kind].is_not(None))
            assert session.scalars(mine.order_by(getattr(row, name))).all() == expected, kind
        assert found(key.as_float() > 2) == [
            METADATA_VALUES.index(2.5),
            METADATA_VALUES.index(10**15),
        ]
        numbers = [one for one in METADATA_VALUES if type(one) in (int, float)]
        whole = [one for one in numbers if one == int(one) and abs(one) < 2**63]
        mine = select(key.as_integer()).where(row.tenant == db.tenant)
        mine = mine.where(key.as_integer().is_not(None)).order_by(getattr(row, name))
        assert session.scalars(mine).all() == whole
        assert found(key.as_string() == "1") == [METADATA_VALUES.index("1")]
        inner = [n for n in with_key if same(METADATA_VALUES[n], {"a": 1})]
        assert found(key["a"].as_float() == 1) == inner

    await in_session(db, work)


COMPARISONS_OF_PYTHON = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
NAMED_OPERATORS = sorted(
    name
    for name, value in {**vars(Operators), **vars(ColumnOperators)}.items()
    if callable(value)
    and (
        name not in vars(object)
        or name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
    )
)
"""Each operator of SQLAlchemy's columns, and its aliases."""

OF_METADATA: dict[str, Any] = {
    **dict.fromkeys(("__eq__", "__ne__"), 1),
    **dict.fromkeys(("in_", "not_in", "notin_"), (1, "tea")),
    **dict.fromkeys(("is_", "is_not", "isnot"), None),
    "__getitem__": "inner",
}
"""The operators of ``meta["key"]`` that mean the same on every database, with an operand."""

OF_EACH_JSON = ("__getitem__",)
"""Those of a value inside ``meta["key"]``, too."""

OF_WHOLE_METADATA = ("__getitem__", "is_", "is_not", "isnot")
"""Those of ``meta``, too."""

NO_CONDITIONS = (
    *("op", "bool_op", "operate", "reverse_operate", "timetuple", "_null_operate"),
    "__sa_operate__",
)
"""Methods that spell no condition, or one in the database's own words."""

WITHOUT_OPERAND = (
    *("__neg__", "__invert__", "all_", "any_", "asc", "bitwise_not", "desc", "distinct"),
    *("nulls_first", "nulls_last", "nullsfirst", "nullslast"),
)


@pytest.mark.parametrize("name", NAMED_OPERATORS)
@pytest.mark.parametrize("place", ["meta", "key", "inner"])
def test_each_operator_on_metadata_is_supported_or_refused(name: str, place: str) -> None:
    supported = {"meta": OF_WHOLE_METADATA, "key": OF_METADATA, "inner": OF_EACH_JSON}[place]
    for row in METADATA_ROWS:
        meta: Any = row.meta
        operand = {"meta": meta, "key": meta["key"], "inner": meta["key"]["inner"]}[place]
        if name in NO_CONDITIONS:
            continue
        if name in supported:
            assert getattr(operand, name)(OF_METADATA[name]) is not None
            continue
        for given in (1, 1.5, True, "a", None, [1], {"a": 1}, select(row.tenant)):
            if name == "__rmod__" and isinstance(given, str):
                continue  # a text formats itself
            rest = (2,) if name in ("between", "regexp_replace") else ()
            operands = () if name in WITHOUT_OPERAND else (given, *rest)
            with pytest.raises((InvalidArgument, ArgumentError, TypeError, NotImplementedError)):
                getattr(operand, name)(*operands)


@pytest.mark.parametrize(
    "refuse",
    [
        lambda key: key < 1,
        lambda key: key.like("a%"),
        lambda key: key == CheckpointRow.meta["other"],
        lambda key: key.in_(select(ThreadRow.thread_id)),
        lambda key: key.is_(True),
        lambda key: key.as_numeric(10, 2),
        lambda key: key.as_json(),
        lambda key: key["inner"] == 1,
        lambda key: "a" + key,
    ],
)
def test_a_refused_operator_on_metadata_names_those_that_work(refuse: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidArgument, match="not_in"):
        refuse(CheckpointRow.meta["key"])


def test_what_metadata_cannot_hold_is_refused() -> None:
    for value in (float("nan"), object(), b"bytes", "a\x00b"):
        with pytest.raises(TypeError):
            operator.eq(CheckpointRow.meta["key"], value)


# --- Fields of items -----------------------------------------------------------------------------

NUMBERS = [0, 1, 2, 3, 3.0, 3.5, -2, -0.5, 10**6, 2**52 + 1, 0.1]
TEXTS = ["", "a", "ab", "b", "tea", "Tea", "é", "a longer text than ten bytes", "a longer tex"]
OTHERS: list[Any] = [True, False, None]
TIMES = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
DAYS = [date(2026, 1, day) for day in (1, 2, 3)]
SCALARS: list[Any] = [*NUMBERS, *TEXTS, *OTHERS, *TIMES, *DAYS]
COMPARISONS = {
    "$eq": operator.eq,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def comparable(name: str, value: Any) -> bool:
    if name == "$eq":
        return value is None or isinstance(value, (bool, int, float, str))
    is_short = not isinstance(value, str) or len(value.encode()) < 10
    return value is not None and not isinstance(value, bool) and is_short


@pytest.mark.needs("an index of fields")
@pytest.mark.parametrize("place", ["value", "metadata", "inside"])
async def test_a_field_is_compared_as_a_filter_of_the_store_does(
    db: Database, place: str, default_keys: list[str] | None
) -> None:
    if default_keys is not None:
        pytest.skip("what is encrypted has no words of fields")
    store = Store(db)
    field = "/deep/field" if place == "inside" else "field"
    for number, value in enumerate(SCALARS):
        if place == "metadata" and not isinstance(value, (str, int, float, type(None))):
            continue
        held = {"value": {"field": value}, "metadata": {}, "inside": {"deep": {"field": value}}}
        meta = {"field": value} if place == "metadata" else None
        await store.put(("n",), f"i{number:02}", held[place], meta)
    await store.put(("n",), "bare", {"another": 3})
    await store.put(("n",), "list", {"field": [3]})
    items = await store.list_items(("n",), limit=1000)
    other = aliased(StoreItemRow)

    def work(session: Session) -> None:
        for (name, compare), value in itertools.product(COMPARISONS.items(), SCALARS):
            if not comparable(name, value):
                continue
            wanted = Filter.parse({field: {name: value}})
            assert wanted is not None
            expected = sorted(i.key for i in items if wanted.matches(i.value, i.metadata))
            for row in (StoreItemRow, other):
                query = select(row.key).where(
                    row.tenant == db.tenant, compare(row.field(field), value)
                )
                assert sorted(session.scalars(query)) == expected, (name, value)
        mine = select(StoreItemRow.key).where(StoreItemRow.tenant == db.tenant)
        there = session.scalars(mine.where(StoreItemRow.field(field).exists())).all()
        unequal = session.scalars(mine.where(StoreItemRow.field(field) != 3)).all()
        equal = session.scalars(mine.where(StoreItemRow.field(field).in_([3, "tea"]))).all()
        assert "bare" not in there
        assert len(unequal) == len(there) - 2
        assert len(equal) == 3
        assert session.scalars(mine.where(StoreItemRow.field(field).in_([]))).all() == []
        between = session.scalars(mine.where(StoreItemRow.field(field).between(1, 3.25))).all()
        assert len(between) == 4
        both = (StoreItemRow.field(field) > 3, StoreItemRow.field(field) < 4)
        assert len(session.scalars(mine.where(*both)).all()) == 1

    await in_session(db, work)


@OF_ITS_OWN
@pytest.mark.own_programs("a plan is the database's")
async def test_an_index_finds_items_by_their_fields(db: Database) -> None:
    conditions = [
        StoreItemRow.field("price") > 3,
        StoreItemRow.field("price") == 3,
        StoreItemRow.field("name").in_(["a", "b"]),
    ]
    for condition in conditions:
        plan = await plan_of(db, select(StoreItemRow.key).where(condition))
        if db.dialect.name == "sqlite":
            assert "SEARCH store_items USING INTEGER PRIMARY KEY (rowid=?)" in plan
            assert "store_items_search VIRTUAL TABLE INDEX" in plan
        if db.dialect.name == "postgresql":
            assert "ix_store_items_search" in plan


@pytest.mark.parametrize(
    ("field", "compare"),
    [
        ("price", lambda field: field == [1]),
        ("price", lambda field: field > None),
        ("price", lambda field: field > True),
        ("price", lambda field: field == datetime(2026, 1, 1, tzinfo=UTC)),
        ("name", lambda field: field < "a text of over ten bytes"),
        ("/tags/0", lambda field: field == "x"),
        *(("name", lambda field, c=compare: c(field, "a\x00")) for compare in COMPARISONS.values()),
        ("name", lambda field: field != "\x00"),
        ("name", lambda field: field.in_(["tea", "a\x00\x00"])),
        ("name", lambda field: field.not_in(["a\x00"])),
        ("name", lambda field: field.between("a\x00", "b")),
        ("/bad~pointer", lambda field: field == 1),
        ("$gt", lambda field: field == 1),
    ],
)
def test_what_no_index_answers_is_refused(field: str, compare: Callable[[Any], Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        compare(StoreItemRow.field(field))


def test_oracle_has_no_index_of_fields() -> None:
    query = select(StoreItemRow.key).where(StoreItemRow.field("price") > 3)
    with pytest.raises(CompileError, match=r"Store\.list_items"):
        query.compile(dialect=oracle.dialect())


# --- States --------------------------------------------------------------------------------------


async def thread_of_deltas(db: Database, length: int = 40) -> list[dict[str, Any]]:
    """Save a thread whose states are stored as differences, and return them."""
    states: list[dict[str, Any]] = []
    messages = ["a message long enough that a difference is worth it " * 8]
    for n in range(length):
        messages = [*messages, f"message {n}"]
        states.append({"messages": messages, "n": n})
        await Checkpointer(db).save(states[-1], "trip", f"c{n:03}")
    return states


def checkpoints(db: Database) -> Any:
    mine = select(CheckpointRow).where(CheckpointRow.tenant == db.tenant)
    return mine.order_by(CheckpointRow.seq)


async def test_a_checkpoint_loads_its_state_by_one_query(
    db: Database, default_keys: list[str] | None
) -> None:
    states = await thread_of_deltas(db)

    def work(session: Session) -> list[Any]:
        rows = session.scalars(checkpoints(db)).all()
        sent: list[str] = []
        event.listen(
            session.connection(), "before_cursor_execute", lambda _c, _k, sql, *_: sent.append(sql)
        )
        if default_keys is None:
            found = [row.decoded for row in rows]
        else:
            with pytest.raises(KeyMissing):
                rows[0].decoded  # noqa: B018 - the property raises
            sent.clear()
            found = [row.state(keys=default_keys) for row in rows]
        assert len(sent) == len(rows)
        assert rows[5].state(keys=default_keys) is not rows[5].state(keys=default_keys)
        return found

    assert await in_session(db, work) == states


@pytest.mark.asyncio_only("an AsyncSession needs an asynchronous connection")
async def test_an_async_session_awaits_states_entries_and_relationships(
    db: Database, default_keys: list[str] | None
) -> None:
    states = await thread_of_deltas(db, 8)
    await ThreadLog(db).append("talk", [{"role": "user", "content": "hi"}])

    async with db.transaction() as tx, AsyncSession(tx) as session:
        rows = (await session.scalars(checkpoints(db))).all()
        entries = select(DeltaRow).where(DeltaRow.tenant == db.tenant, DeltaRow.kind == "entry")
        entry = (await session.scalars(entries)).one()
        thread = await rows[0].awaitable_attrs.thread
        assert len(await thread.awaitable_attrs.checkpoints) == 8
        if default_keys is None:
            assert [await row.awaitable_attrs.decoded for row in rows] == states
            assert await entry.awaitable_attrs.decoded == {"role": "user", "content": "hi"}
        keyed = [
            await session.run_sync(lambda _, r=row: r.state(keys=default_keys)) for row in rows
        ]
        assert keyed == states


async def test_a_delta_of_a_session_is_decoded_with_what_it_is_based_on(
    db: Database, default_keys: list[str] | None
) -> None:
    states = await thread_of_deltas(db, 12)

    def work(session: Session) -> list[Any]:
        mine = select(DeltaRow).where(DeltaRow.tenant == db.tenant).order_by(DeltaRow.seq)
        rows = session.scalars(mine.options(undefer(DeltaRow.payload))).all()
        return [decode(row, keys=default_keys) for row in rows]

    assert await in_session(db, work) == states


async def test_a_row_without_a_session_or_a_state_says_so(db: Database) -> None:
    await thread_of_deltas(db, 3)

    def load(session: Session) -> Any:
        row = session.scalars(checkpoints(db)).first()
        session.expunge(row)
        return row

    row = await in_session(db, load)
    with pytest.raises(DetachedInstanceError, match="in no session"):
        row.decoded  # noqa: B018 - the property raises

    def look(session: Session) -> None:
        row = session.scalars(checkpoints(db)).first()
        assert row is not None
        session.connection().execute(
            ThreadRow.__table__.delete().where(ThreadRow.tenant == db.tenant)
        )
        with pytest.raises(NotFound, match="deleted since"):
            row.decoded  # noqa: B018 - the property raises

    await in_session(db, look)


async def test_a_state_of_an_encrypted_tenant_needs_its_keys(own_url: str) -> None:
    key = generate_key()
    async with Database(own_url, keys=[key]) as db:
        await db.migrate()
        states = await thread_of_deltas(db, 4)

        def work(session: Session) -> list[Any]:
            rows = session.scalars(checkpoints(db)).all()
            with pytest.raises(KeyMissing):
                rows[-1].decoded  # noqa: B018 - the property raises
            return [row.state(keys=[key]) for row in rows]

        assert await in_session(db, work) == states

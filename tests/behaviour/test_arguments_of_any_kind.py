"""Any argument at all: what cannot be done is refused clearly, and what is stored comes back equal.

Calls are generated from the signatures of the public methods, so a new method is tested by being
there. An argument is one that its name lets expect, or one at an edge: a huge or negative number, a
bool, NaN, a text that no database likes, a value of another type, the ends of time.

Documented refusals are memalchemy's own exceptions, TypeError, ValueError and LookupError. An
AttributeError, an OverflowError, a codec's or a driver's error, and a statement that the database
refused, are defects: an argument came further than it should have.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import traceback
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memalchemy
from drawn_examples import examples
from memalchemy import Checkpointer, Database, KeyValue, Store, ThreadLog
from memalchemy.errors import (
    Corrupt,
    DatabaseUnreachable,
    InvalidArgument,
    MemalchemyError,
    NotSerialisable,
    StatementFailed,
    TooLarge,
)
from told_errors import told

DEFECTS = (StatementFailed, DatabaseUnreachable, Corrupt)
"""Ours, but the database's refusal and not a check."""

INTEGERS = (
    st.sampled_from(
        [
            0,
            1,
            -1,
            2**31 - 1,
            2**31,
            2**32,
            2**63 - 1,
            2**63,
            -(2**63),
            10**30,
            10**400,
            True,
            False,
        ]
    )
    | st.integers()
)
FLOATS = (
    st.sampled_from(
        [
            0.0,
            -0.0,
            0.5,
            1.0,
            1e16,
            1e22,
            6.08600262640835e16,
            1e300,
            -1.7976931348623157e308,
            5e-324,
            math.inf,
            -math.inf,
            math.nan,
        ]
    )
    | st.floats()
)
TEXTS = st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "a\x00b",
        "\ud800",
        "\x1a",
        "~",
        "/",
        "%",
        "*",
        "[",
        "a" * 255,
        "a" * 256,
        "漢" * 255,
        "x" * 70_000,
        "'\"\\;--",
        "🙂",
        "{}",
        "null",
        "\x7f\x80\uffff",
    ]
) | st.text(max_size=8)
TIMES = st.sampled_from(
    [
        timedelta.max,
        timedelta.min,
        timedelta(0),
        timedelta(microseconds=1),
        timedelta(days=400_000),
        datetime.min,
        datetime.max,
        datetime(2020, 1, 1),
        date(2020, 1, 1),
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime(2020, 1, 1, tzinfo=UTC),
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXTS)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
STRANGE = st.sampled_from(
    [
        b"",
        b"\x00\xff",
        (),
        [],
        {},
        set(),
        [None],
        {"a": {"b": []}},
        {1: 2},
        ("a", 1),
        object(),
        int,
        Decimal("1e400"),
        Decimal("NaN"),
        uuid.UUID(int=0),
        1j,
        range(3),
        lambda *_: None,
        ["a", "b", "c"],
        [["n"], "k"],
        [(("n",), "k")],
        [(("n",), "k", "v")],
        {"$gt": 1},
        [[]],
    ]
)
EDGES = st.one_of(SCALARS, TIMES, STRANGE, JSON)

IDS = st.sampled_from(["t", "u", "one", "two", "never"])
NAMESPACES = st.sampled_from([("n",), (), ("n", "below"), ["n"], ("a/b", "~")])
METADATA = st.dictionaries(
    st.sampled_from(["a", "b", "$c", "/d", ""]),
    st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, st.text(max_size=5)),
    max_size=3,
)
LIMITS = st.sampled_from([0, 1, 10, 2**31 - 1, 2**31, 2**63, 10**30])
MOMENTS = st.sampled_from([datetime.now(UTC), datetime(1, 1, 1, tzinfo=UTC), datetime.max])
VECTORS = st.sampled_from(
    [[1.0, 0.0], [0.5, 0.5], [1e30, 1e-30], [math.nan, 1.0], [1e300, 1.0], [True, 2], [10**400, 1]]
)
MESSAGES = st.sampled_from(
    [[{"role": "user", "content": "hello"}], ["hello"], [], [{"role": 1}], [{}], {"messages": []}]
)
EXPECTED = st.one_of(st.just(memalchemy.UNSET), INTEGERS)
EPISODES = st.builds(
    memalchemy.Episode,
    task=st.sampled_from(["task", "", "\x00"]),
    result=st.sampled_from(["result", None, ""]),
)
FACTS = st.builds(
    memalchemy.MemoryFact,
    st.sampled_from(["m", "\x00", "m" * 300]),
    st.sampled_from(["u", "u" * 300]),
    st.sampled_from(["likes tea", "\x00"]),
)

LIKELY: Mapping[str, st.SearchStrategy[Any]] = {
    "namespace": NAMESPACES,
    "namespaces": st.lists(NAMESPACES, max_size=2),
    "keys": st.sampled_from([[(("n",), "one")], [(("n",), "two"), (("n",), "two")], ["one"], None]),
    "state": st.dictionaries(TEXTS, JSON, max_size=3),
    "value": JSON,
    "new": JSON,
    "expected": JSON,
    "default": JSON,
    "metadata": METADATA,
    "filter": st.one_of(METADATA, METADATA.map(lambda one: {"a": {"$in": list(one.values())}})),
    "metadata_filter": METADATA,
    "entries": st.lists(JSON, max_size=3),
    "items": st.lists(st.tuples(NAMESPACES, IDS, JSON, METADATA), max_size=3),
    "writes": st.lists(st.tuples(TEXTS, JSON), max_size=3),
    "messages": MESSAGES,
    "turns": MESSAGES,
    "snapshot": MESSAGES,
    "message": MESSAGES.map(lambda some: some[0] if isinstance(some, list) and some else some),
    "content": TEXTS,
    "query": TEXTS,
    "pattern": st.sampled_from(["*", "?", "[", "[]", "[!a", "[z-a]", "\x00*"]),
    "prefix": st.sampled_from([False, True, "o", (), ("n",)]),
    "order": st.sampled_from(["newest", "key"]),
    "mode": st.sampled_from(["text", "vector", "hybrid"]),
    "match": st.sampled_from(["any", "all"]),
    "index": st.none(),
    "embedding": VECTORS,
    "query_embedding": VECTORS,
    "limit": LIMITS,
    "offset": LIMITS,
    "top_k": LIMITS,
    "k": LIMITS,
    "batch": LIMITS,
    "keep_last": LIMITS,
    "keep_every": LIMITS,
    "position": INTEGERS,
    "positions": st.lists(INTEGERS, max_size=3),
    "after": INTEGERS | IDS,
    "before": INTEGERS | IDS,
    "part": INTEGERS,
    "indexes": st.lists(INTEGERS, max_size=3),
    "since": MOMENTS,
    "until": MOMENTS,
    "cutoff": MOMENTS,
    "made_at": MOMENTS,
    "occurred_at": MOMENTS,
    "ttl": st.one_of(FLOATS, INTEGERS, TIMES),
    "older_than": st.one_of(FLOATS, INTEGERS, TIMES),
    "older_than_days": st.one_of(FLOATS, INTEGERS),
    "expected_version": EXPECTED,
    "expected_parent": IDS,
    "lineage": IDS,
    "threshold": FLOATS,
    "alpha": FLOATS,
    "mmr": FLOATS,
    "by": FLOATS,
    "confidence": FLOATS,
    "topic": TEXTS,
    "topics": st.lists(TEXTS, max_size=3),
    "episode": EPISODES,
    "fact": FACTS,
    "function": st.sampled_from([lambda _: None, lambda _: 1, lambda _: object(), lambda: 2]),
    "make": st.just(lambda position, value, checksum: value),
}
"""What an argument of that name may be; of other names an id."""

LEFT_OUT = {
    "connection": "a host's",
    "progress": "called, not read",
    "tenant": "an administrator's handle; the tests of removing have it",
    "directory": "a path of this machine; tests/cli writes files",
    "llm": "called, not read",
    "extract": "called, not read",
}
NOT_CALLED = {"close": "the next call needs it open", "export_files": "writes files"}


def features(db: Database) -> dict[str, Any]:
    store = Store(db)
    return {
        "Checkpointer": Checkpointer(db),
        "ThreadLog": ThreadLog(db),
        "Store": store,
        "Conversation": memalchemy.Conversation(db, "t"),
        "ConversationStore": memalchemy.ConversationStore(db),
        "UserMemoryStore": memalchemy.UserMemoryStore(store),
        "VectorStore": memalchemy.VectorStore(store),
        "EpisodeStore": memalchemy.EpisodeStore(db),
        "KeyValue": KeyValue(db),
    }


CLASSES = (
    "Checkpointer ThreadLog Store Conversation ConversationStore UserMemoryStore VectorStore "
    "EpisodeStore KeyValue"
)


def methods() -> dict[str, dict[str, inspect.Parameter]]:
    """The parameters of every public method that awaits, as ``Class.method``."""
    found = {}
    for owner in CLASSES.split():
        cls = getattr(memalchemy, owner)
        for name in dir(cls):
            function = inspect.getattr_static(cls, name)
            waits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            if waits and not name.startswith("_") and name not in NOT_CALLED:
                parameters = dict(inspect.signature(function).parameters)
                parameters.pop("self")
                found[f"{owner}.{name}"] = {
                    key: one for key, one in parameters.items() if key not in LEFT_OUT
                }
    return found


METHODS = methods()


@st.composite
def calls(draw: Callable[..., Any], name: str) -> tuple[str, list[Any], dict[str, Any]]:
    """A method's name and arguments for it: one or two of them at an edge."""
    parameters = METHODS[name]
    odd = draw(st.sets(st.sampled_from(sorted(parameters)), max_size=2)) if parameters else set()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for key, parameter in parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        value = EDGES if key in odd else LIKELY.get(key, IDS)
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += draw(st.lists(value, max_size=2))
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(draw(value))
        elif parameter.default is parameter.empty or key in odd or draw(st.booleans()):
            named[key] = draw(value)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        return name, positional, named
    return name, positional, named


async def call(made: Any, method: str, positional: list[Any], named: dict[str, Any]) -> Any:
    answer = getattr(made, method)(*positional, **named)
    if inspect.isasyncgen(answer):
        return [one async for one in answer]
    return await answer


def defect(error: Exception) -> str | None:
    """Why *error* is no documented refusal; ``None`` if it is one."""
    if isinstance(error, DEFECTS):
        return "the database refused what should have been checked"
    if isinstance(error, MemalchemyError):
        return None
    if type(error) not in (TypeError, ValueError, InvalidArgument, LookupError, KeyError):
        return "it is of no documented kind"
    inside = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if {"sqlalchemy", "asyncpg", "psycopg", "aiosqlite"} & {*inside.parts}:
        return "it was raised by a driver"
    return None


async def furnish(db: Database) -> None:
    """Something under the names that calls use."""
    checkpointer, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    for name in ("one", "two"):
        await checkpointer.save({"k": name}, "t", name, {"a": 1})
        await store.put(("n",), name, {"text": f"a {name}"}, {"a": 1}, embedding=[1.0, 0.5])
        await memalchemy.VectorStore(db).upsert(f"a {name}", id=name, embedding=[1.0, 0.5])
        await KeyValue(db).write(name, {"v": name})
        await memalchemy.EpisodeStore(db).write(
            memalchemy.Episode(task=name, result="result", id_=name)
        )
    await log.append("t", ["one", "two"])
    await memalchemy.Conversation(db, "t").add({"role": "user", "content": "hello"})


@pytest.mark.parametrize("name", sorted(METHODS))
async def test_any_arguments_are_served_or_refused_clearly(db: Database, name: str) -> None:
    owner, _, method = name.partition(".")
    await furnish(db)
    made = features(db)[owner]
    tried: list[tuple[list[Any], dict[str, Any]]] = []

    # Drawn first, and called here: the database lives on this test's loop.
    @settings(
        max_examples=examples(25),
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(calls(name))
    def draw(drawn: tuple[str, list[Any], dict[str, Any]]) -> None:
        tried.append(drawn[1:])

    draw()
    defects: dict[str, str] = {}
    for positional, named in tried:
        try:
            await asyncio.wait_for(call(made, method, positional, named), 60)
        except Exception as error:  # noqa: BLE001
            if (why := defect(error)) is not None:
                defects[f"{name}: {why}: {told(error)}"] = repr((positional, named))[:700]
    assert not defects, "\n".join(f"{what}: {given}" for what, given in defects.items())


def same(a: Any, b: Any) -> bool:
    """Equal, and of the same types all the way down; NaN is itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Mapping):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


LARGE = [1e15, 1e16, 6.08600262640835e16, 1e17, 2.0**63, 1e22, 1e300, 1.7976931348623157e308]
NUMBERS = {
    "large": [*LARGE, *(-number for number in LARGE)],
    "small": [5e-324, 1e-300, 0.1, 1.5, 0.0],
    "whole": [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "deep": {"floats": [1e16, {"x": 1e300}], "bools": [True, 1, 1.0, False, 0]},
    "texts": ["1e300", "e+16", "1e+16", "0000"],
}


async def test_numbers_in_metadata_come_back_equal_on_every_road(db: Database) -> None:
    store, checkpointer = Store(db), Checkpointer(db)
    many = [(("n",), f"b{n}", n, NUMBERS) for n in range(40)]
    await store.put(("n",), "one", 1, NUMBERS)
    await store.put_batch(many)
    await asyncio.gather(*(checkpointer.save({"n": n}, f"t{n}", "c", NUMBERS) for n in range(20)))
    async with db.transaction() as tx:
        await store.put(("n",), "tx", 1, NUMBERS, connection=tx)
        await checkpointer.save({}, "tx", "c", NUMBERS, connection=tx)

    items = await store.list_items(("n",), limit=100)
    assert len(items) == 42
    assert all(same(dict(item.metadata), NUMBERS) for item in items)
    infos = await checkpointer.list_with_metadata(100)
    assert len(infos) == 21
    assert all(same(dict(info["metadata"]), NUMBERS) for info in infos)


@pytest.mark.parametrize("number", [*LARGE, 0.1, 5e-324, -1e300, 2**53 + 1, 2**63 - 1])
async def test_a_number_in_metadata_is_found_by_itself(db: Database, number: float) -> None:
    store, checkpointer = Store(db), Checkpointer(db)
    await store.put(("n",), "k", "v", {"x": number})
    await checkpointer.save({}, "t", "c", {"x": number})

    for wanted in ({"x": number}, {"x": {"$gte": number}}, {"$metadata": {"x": {"$in": [number]}}}):
        assert [item.key for item in await store.list_items(("n",), filter=wanted)] == ["k"]
    assert await store.list_items(("n",), filter={"x": {"$gt": number}}) == []
    found = await checkpointer.query_by_metadata("x", number)
    assert [hit["checkpoint_id"] for hit in found] == ["c"]


@settings(
    max_examples=examples(60),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.tuples(JSON, METADATA), min_size=1, max_size=20))
def draw_values(values: list[tuple[Any, dict[str, Any]]]) -> None:
    DRAWN.append(values)


DRAWN: list[list[tuple[Any, dict[str, Any]]]] = []


async def test_what_is_stored_comes_back_equal_and_of_its_type(db: Database) -> None:
    if not DRAWN:
        draw_values()
    checkpointer, log, store, kv = Checkpointer(db), ThreadLog(db), Store(db), KeyValue(db)
    stored = 0
    for value, metadata in (pair for values in DRAWN for pair in values):
        try:
            await store.put(("n",), "k", value, metadata)
            await log.append("t", [value])
            await kv.write("k", value)
        except (NotSerialisable, TooLarge):
            continue
        stored += 1
        item = await store.get_item(("n",), "k")
        assert item is not None
        assert same(item.value, value)
        assert same(dict(item.metadata), metadata)
        assert same((await log.tail("t", 1))[0].value, value)
        assert same(await kv.read("k"), value)
        await checkpointer.save({"value": value}, "t", "c", metadata)
        assert same(await checkpointer.load("t"), {"value": value})
        info = await checkpointer.get_metadata("t")
        assert info is not None
        assert same(dict(info["metadata"]), metadata)
    assert stored > 50


@pytest.mark.parametrize("limit", [2**31 - 1, 2**31, 2**63, 10**30])
async def test_a_limit_of_any_size_is_a_limit(db: Database, limit: int) -> None:
    store, log, checkpointer = Store(db), ThreadLog(db), Checkpointer(db)
    await furnish(db)
    here = ("n",)

    for mode in ("text", "vector", "hybrid"):
        more: dict[str, Any] = {} if mode == "text" else {"embedding": [1.0, 0.0]}
        how: dict[str, Any] = {"query": "one two", "mode": mode, "limit": limit, **more}
        assert len(await store.search(here, **how)) == 2
        assert await store.search(here, **how, offset=limit) == []
        assert len(await store.search(here, **how, filter={"a": 1})) == 2
    assert len(await store.search_by_embedding(here, [1.0, 0.0], limit)) == 2
    assert await store.search_by_embedding(here, [1.0, 0.0], limit, offset=limit) == []
    assert len(await store.list_items(here, limit=limit)) == 2
    assert len(await store.search(here, limit=limit)) == 2
    assert await store.search(here, limit=limit, offset=limit) == []
    assert len(await log.tail("t", limit)) == 2
    assert len(await log.search("one", limit)) == 1
    assert len(await checkpointer.search("one", limit)) == 1
    assert len(await memalchemy.VectorStore(db).search("one", k=limit)) == 1
    found = await memalchemy.VectorStore(db).search(k=limit, embedding=[1.0, 0.0], mmr=0.5)
    assert len(found) == 2

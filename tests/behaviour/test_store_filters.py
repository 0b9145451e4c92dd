"""Filters: one meaning on every database and in every kind of search, judged by plain Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from plain_filter import matches
from sqlalchemy import update
from store_helpers import Embedder, keys_of

from memalchemy import Database, EpisodeStore, Store, VectorStore
from memalchemy.contracts import StoreItem
from memalchemy.schema import StoreItemRow

NS = ("filtered",)

NAMES = ["a", "b", "odd \"'%_.$key", "", "ключ"]
SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    -1,
    2,
    10,
    2.5,
    2**53,
    2**53 + 1,
    1.0000000000001,
    "",
    "1",
    "2",
    "10",
    "true",
    "True",
    "None",
    "null",
    "a",
    "A",
    "á",
    "b",
    "x" * 130,
    "x" * 130 + "y",
    "' OR 1=1 --",
    "\U0001f9f5",
    "\ufb01",
]
POINTERS = ["/a", "/a/b", "/b/0", "/a/a", "/ключ", "/", "missing", "/missing"]


class Dice(Random):
    """Draws what items hold, and what is asked of them."""

    def plain(self) -> Any:
        match self.randrange(8):
            case 0:
                return [self.choice(SCALARS) for _ in range(self.randrange(3))]
            case 1:
                return {name: self.choice(SCALARS) for name in self.sample(["a", "b"], 1)}
            case 2 | 3:
                return self.choice(SCALARS)
        return self.choice([None, True, False, 0, 1, 1.0, "1", "a"])

    def fields(self) -> dict[str, Any]:
        return {name: self.plain() for name in self.sample(NAMES, self.randrange(5))}

    def condition(self) -> Any:
        match self.randrange(11):
            case 0 | 1:
                return self.plain()
            case 9:
                return {"$type": self.choice(["text", "number", "boolean", "null", "array"])}
            case 10:
                return {"$any": {self.choice(["$eq", "$ne", "$gte"]): self.choice([1, "a"])}}
            case 2:
                return {"$exists": self.random() < 0.5}
            case 5:
                operand = self.choice(["a", "A", "", "1"])
                return {self.choice(["$contains", "$icontains"]): operand}
            case 3:
                operator = self.choice(["$in", "$nin"])
                return {operator: [self.plain() for _ in range(self.randrange(5))]}
            case 4:
                return {self.choice(["$eq", "$ne"]): self.plain_operand()}
        # Whether a boolean is greater than another, or anything than nothing, has no answer.
        limits = [one for one in SCALARS if one is not None and not isinstance(one, bool)]
        operators = self.sample(["$gt", "$gte", "$lt", "$lte"], self.choice([1, 1, 2]))
        return {operator: self.choice(limits) for operator in operators}

    def plain_operand(self) -> Any:
        return self.choice(SCALARS) if self.random() < 0.5 else self.plain()

    def asked(self, depth: int = 2) -> dict[str, Any]:
        match self.randrange(9) if depth else 9:
            case 0:
                return {"$and": [self.asked(depth - 1), self.asked(depth - 1)]}
            case 1 | 2:
                return {"$or": [self.asked(depth - 1), self.asked(depth - 1)]}
            case 3:
                return {"$not": self.asked(depth - 1)}
            case 4:
                return {self.choice(["$value", "$metadata"]): self.asked(0)}
            case 5:
                return {**self.asked(0), "$or": [self.asked(depth - 1), self.asked(0)]}
        name = self.choice(POINTERS if self.random() < 0.3 else NAMES)
        return {name: self.condition()}


async def shown(store: Store, wanted: Any, **how: Any) -> list[str]:
    return sorted(keys_of(await store.list_items(NS, filter=wanted, limit=1000, **how)))


@pytest.mark.parametrize("index_metadata", [(), ("a", "ключ")], ids=["plain", "named"])
async def test_filters_mean_what_plain_python_says(
    db: Database, index_metadata: tuple[str, ...]
) -> None:
    store = Store(db, index_metadata=index_metadata)
    dice = Dice(4)
    contents = [
        (dice.fields() if dice.random() < 0.7 else dice.plain(), dice.fields()) for _ in range(80)
    ]
    items = {f"k{n:03}": content for n, content in enumerate(contents)}
    await store.put_batch([(NS, key, value, meta) for key, (value, meta) in items.items()])
    asked = [{}, *(dice.asked() for _ in range(200))]
    # Every pair of equal and nearly equal scalars, in metadata, where an index may be asked.
    asked += [{"$metadata": {"a": one}} for one in SCALARS]

    some = 0
    for wanted in asked:
        expected = [key for key, (v, m) in items.items() if matches(wanted, v, m)]
        assert await shown(store, wanted) == expected, wanted
        some += 0 < len(expected) < len(items)
    assert some > 100


FRUIT: dict[str, tuple[Any, dict[str, Any]]] = {
    "apple": ({"n": 1, "ok": True, "tags": ["red"]}, {"n": 100, "kind": "fruit"}),
    "pear": ({"n": 2.0, "ok": False, "deep": {"x": 5}}, {"kind": "fruit", "price": 9}),
    "kale": ({"n": "2", "ok": 1, "none": None}, {"kind": "leaf", "price": 10}),
    "note": ("just text", {"n": 2, "kind": None, "ok": True}),
    "bare": ([1, {"x": 7}], {}),
}


KEPT: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["apple", "bare", "kale", "note", "pear"]),
    ({"n": 1}, ["apple"]),
    ({"n": 1.0}, ["apple"]),
    ({"n": 2}, ["note", "pear"]),
    ({"n": "2"}, ["kale"]),
    ({"n": 100}, []),
    ({"$metadata": {"n": 100}}, ["apple"]),
    ({"$value": {"kind": "fruit"}}, []),
    ({"ok": True}, ["apple", "note"]),
    ({"ok": 1}, ["kale"]),
    ({"n": {"$gt": 1}}, ["note", "pear"]),
    ({"n": {"$gte": 1, "$lt": 2}}, ["apple"]),
    ({"n": {"$gt": "1"}}, ["kale"]),
    ({"price": {"$gt": 9}}, ["kale"]),
    ({"price": {"$lte": 9.5}}, ["pear"]),
    ({"kind": None}, ["note"]),
    ({"none": None}, ["kale"]),
    ({"missing": None}, []),
    ({"kind": {"$ne": "fruit"}}, ["bare", "kale", "note"]),
    ({"kind": {"$in": ["leaf", None]}}, ["kale", "note"]),
    ({"kind": {"$in": []}}, []),
    ({"kind": {"$nin": ["leaf", None]}}, ["apple", "bare", "pear"]),
    ({"kind": {"$exists": False}}, ["bare"]),
    ({"none": {"$exists": True}}, ["kale"]),
    ({"tags": ["red"]}, ["apple"]),
    ({"tags": "red"}, []),
    ({"tags": {"$contains": "red"}}, ["apple"]),
    ({"tags": {"$contains": "re"}}, []),
    ({"kind": {"$contains": "ui"}}, ["apple", "pear"]),
    ({"kind": {"$icontains": "FRU"}}, ["apple", "pear"]),
    ({"tags": {"$any": {"$gte": "red", "$lt": "ree"}}}, ["apple"]),
    ({"deep": {"$type": "object"}}, ["pear"]),
    ({"deep": {"x": 5.0}}, ["pear"]),
    ({"/deep/x": 5}, ["pear"]),
    ({"/deep/x": {"$exists": True}}, ["pear"]),
    ({"/tags/0": "red"}, ["apple"]),
    ({"/1/x": 7}, ["bare"]),
    ({"/kind": "leaf"}, ["kale"]),
    ({"$or": [{"n": 1}, {"n": "2"}]}, ["apple", "kale"]),
    ({"$and": [{"kind": "fruit"}, {"n": {"$gt": 1}}]}, ["pear"]),
    ({"$not": {"kind": "fruit"}}, ["bare", "kale", "note"]),
    ({"kind": "fruit", "$not": {"n": 1}}, ["pear"]),
]


async def test_a_filter_keeps_what_it_says(store: Store) -> None:
    await store.put_batch([(NS, key, value, meta) for key, (value, meta) in FRUIT.items()])

    for wanted, expected in KEPT:
        assert expected == sorted(k for k, (v, m) in FRUIT.items() if matches(wanted, v, m))
        assert await shown(store, wanted) == expected, wanted
        assert sorted(keys_of(await store.search(NS, filter=wanted, limit=50))) == expected, wanted


@pytest.mark.parametrize(
    "wanted",
    [
        {"n": {"$regex": "x"}},
        {"$nor": [{"n": 1}]},
        {"n": {"$gt": 1, "$about": 2}},
        {"$and": [{"n": {"$near": 1}}]},
        {"$not": {"$xor": []}},
    ],
    ids=repr,
)
async def test_an_unknown_operator_is_refused(store: Store, wanted: Any) -> None:
    await store.put(NS, "k", {"n": 1})

    with pytest.raises(ValueError, match=r"\$"):
        await store.list_items(NS, filter=wanted)
    with pytest.raises(ValueError, match=r"\$"):
        await store.search(NS, "x", filter=wanted)
    with pytest.raises(ValueError, match=r"\$"):
        await store.search_by_embedding(NS, [1.0], metadata_filter=wanted)


async def take_none(items: list[StoreItem], connection: Any) -> None:
    raise AssertionError("nothing passes a filter that is refused")


GIVEN: dict[str, Any] = {
    **{"namespace": NS, "namespaces": [NS], "query": "x", "query_embedding": [1.0]},
    **{"work": take_none, "situation": "x"},
}
"""Arguments of the methods that take a filter, by the names of parameters."""


def filtering(owner: type) -> list[tuple[type, str, str]]:
    """Return the methods of a class that take a filter, and the names of such parameters."""
    return [
        (owner, name, parameter)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
        for parameter in inspect.signature(method).parameters
        if parameter in ("filter", "metadata_filter")
    ]


OWNERS: dict[type, Callable[[Database], Any]] = {
    Store: Store,
    VectorStore: lambda db: VectorStore(db, namespace=NS),
    EpisodeStore: EpisodeStore,
}
FILTERING = [one for owner in OWNERS for one in filtering(owner)]


@pytest.mark.parametrize(
    ("owner", "method", "parameter"), FILTERING, ids=lambda one: getattr(one, "__name__", one)
)
async def test_an_operator_that_lacks_its_sign_is_refused_wherever_a_filter_is_taken(
    db: Database, owner: type, method: str, parameter: str
) -> None:
    await Store(db).put(NS, "k", {"n": 1})
    bound = getattr(OWNERS[owner](db), method)
    required = {
        name: GIVEN[name]
        for name, one in inspect.signature(bound).parameters.items()
        if name in ("query", "work") or (one.default is one.empty and name != parameter)
    }
    with pytest.raises(ValueError, match=r"write \$gte\b"):
        await collected(bound(**required, **{parameter: {"n": {"gte": 1}}}))
    await collected(bound(**required, **{parameter: {"n": {"$eq": {"gte": 1}}}}))
    assert await Store(db).get(NS, "k") == {"n": 1}


async def collected(call: Any) -> Any:
    """Wait for a call, or read all that it yields."""
    return await call if inspect.isawaitable(call) else [one async for one in call]


@pytest.mark.parametrize("wanted", ["n = 1", [{"n": 1}], 7], ids=repr)
async def test_what_is_no_filter_is_refused(store: Store, wanted: Any) -> None:
    await store.put(NS, "k", {"n": 1})

    with pytest.raises((ValueError, TypeError)):
        await store.list_items(NS, filter=wanted)


# --- Every path fills its limit -----------------------------------------------------------------

MANY = 300


@pytest.fixture
async def crowded(db: Database) -> Store:
    """300 items of which each 30th is rare, and just those are what any ranking puts last."""
    store = Store(db, embedder=Embedder())

    def item(n: int) -> tuple[tuple[str, ...], str, Any, dict[str, Any]]:
        rare = n % 30 == 29
        text = "needle hay straw" if rare else "needle needle pin pin"
        return NS, f"k{n:03}", {"text": text, "n": n, "rare": rare}, {"kind": "r" if rare else "c"}

    await store.put_batch([item(n) for n in range(MANY)])
    return store


RARE = [f"k{n:03}" for n in range(29, MANY, 30)]


@pytest.mark.parametrize("mode", ["list", "text", "vector", "hybrid"])
@pytest.mark.parametrize(
    "wanted",
    [{"rare": True}, {"kind": "r"}, {"$metadata": {"kind": {"$ne": "c"}}}],
    ids=["value", "metadata", "not equal"],
)
async def test_a_search_is_short_only_where_no_more_match(
    crowded: Store, mode: str, wanted: dict[str, Any]
) -> None:
    async def search(**how: Any) -> list[str]:
        if mode == "list":
            return keys_of(await crowded.search(NS, filter=wanted, **how))
        return keys_of(await crowded.search(NS, "needle pin", mode=mode, filter=wanted, **how))

    assert sorted(await search(limit=10)) == RARE
    assert sorted(await search(limit=50)) == RARE
    assert len(await search(limit=4)) == 4
    whole = await search(limit=10)
    assert await search(limit=4, offset=4) == whole[4:8]
    assert await search(limit=4, offset=8) == whole[8:]
    assert await search(limit=4, offset=10) == []


async def test_a_filtered_list_pages_to_its_end(crowded: Store) -> None:
    for order, expected in (("newest", sorted(RARE)), ("key", RARE)):
        found: list[str] = []
        after = None
        while page := await crowded.list_items(
            NS, filter={"kind": "r"}, order=order, limit=3, after=after
        ):
            assert len(page) == min(3, len(RARE) - len(found))
            found += keys_of(page)
            after = page[-1]
        assert sorted(found) == expected
        assert len(found) == len(set(found))


async def test_the_best_of_those_that_match_come_first(crowded: Store) -> None:
    wanted = {"n": {"$gte": 100, "$lt": 160}}
    hits = await crowded.search(NS, "needle pin", filter=wanted, limit=100)
    assert sorted(keys_of(hits)) == [f"k{n:03}" for n in range(100, 160)]
    assert sorted(keys_of(hits)[-2:]) == ["k119", "k149"]

    near = await crowded.search(NS, "needle pin", mode="vector", filter=wanted, limit=100)
    assert sorted(keys_of(near)) == sorted(keys_of(hits))
    assert sorted(keys_of(near)[-2:]) == ["k119", "k149"]


NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "series",
    [
        lambda n: n - 20,
        lambda n: n / 7 - 3,
        lambda n: 1.7e9 + n,
        lambda n: Decimal(n) / 8,
        lambda n: f"2026-11-{n % 30 + 1:02}" if n < 30 else f"2026-12-{n % 30 + 1:02}",
        lambda n: (NOON + timedelta(days=n)).isoformat(),
        lambda n: NOON.astimezone(timezone(timedelta(hours=n % 5))) + timedelta(seconds=n),
        lambda n: NOON.date() + timedelta(days=n),
    ],
    ids=["int", "float", "epoch", "decimal", "day", "time as text", "datetime", "date"],
)
async def test_ranges_of_each_kind_find_what_is_in_them_and_read_little_else(
    db: Database, series: Callable[[int], Any]
) -> None:
    store = Store(db)
    count = 40
    await store.put_batch([(NS, f"k{n:02}", {"at": series(n)}) for n in range(count)])
    await store.put(NS, "other kind", {"at": [series(5)]})
    narrowed = db.dialect.text.indexes_fields and db.keyring.is_readable("fields")
    if narrowed:  # no range below may read this one
        broken = update(StoreItemRow).where(StoreItemRow.tenant == db.tenant)
        broken = broken.where(StoreItemRow.key == "k39").values(checksum=1)
        await db.run_sync(lambda connection: connection.execute(broken).rowcount)

    for low, high in [(3, 7), (0, 1), (10, 10), (20, 30)]:
        wanted = {"at": {"$gte": series(low), "$lt": series(high)}}
        found = keys_of(await store.list_items(NS, filter=wanted, order="key", limit=count))
        assert found == [f"k{n:02}" for n in range(low, high)]
    below = {"$and": [{"at": {"$lte": series(6)}}, {"at": {"$gt": series(4)}}]}
    assert keys_of(await store.list_items(NS, filter=below, order="key")) == ["k05", "k06"]


@pytest.mark.parametrize("order", ["newest", "key"])
async def test_many_that_match_behind_many_that_do_not_come_in_their_order(
    store: Store, order: str
) -> None:
    """More of both than a page has: the first page in order holds none."""
    matching, others = range(650), range(650, 1300)
    names = {n: f"{'b' if n in matching else 'a'}{n * 7919 % 1300:04}" for n in range(1300)}
    for some in (matching, others):
        await store.put_batch([(NS, names[n], {"n": n}) for n in some])
    await store.put(NS, names[3], {"n": 3})
    everything = await store.list_items(NS, order=order, limit=2_000)
    expected = [item.key for item in everything if item.value["n"] < 650]
    assert everything[0].key not in expected[1:]

    found: list[str] = []
    after = None
    while page := await store.list_items(
        NS, filter={"n": {"$lt": 650}}, order=order, limit=240, after=after
    ):
        found += keys_of(page)
        after = page[-1]

    assert found == expected
    assert len(found) == 650


async def test_a_filter_below_a_namespace(store: Store) -> None:
    places = [(("a",), 1), (("a", "b"), 2), (("ab",), 1), (("a", "c"), 1)]
    await store.put_batch([(namespace, "k", {"n": n}) for namespace, n in places])

    listed = await store.list_items(("a",), prefix=True, filter={"n": 1})
    assert sorted(item.namespace for item in listed) == [("a",), ("a", "c")]
    hits = await store.search(("a",), prefix=True, filter={"n": 1})
    assert sorted(hit.namespace for hit in hits) == [("a",), ("a", "c")]


async def test_a_number_of_any_length_is_kept_and_found(store: Store) -> None:
    huge = 10**5000
    await store.put(NS, "huge", {"n": huge})
    await store.put(NS, "large", {"n": huge + 1})

    assert [hit.key for hit in await store.search(NS, filter={"n": huge})] == ["huge"]
    assert [hit.key for hit in await store.search(NS, filter={"n": {"$gt": huge}})] == ["large"]

"""`MemalchemyStore` for LangGraph: documented behaviour, also where its own stores fail."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from sqlalchemy import update
from typing_extensions import TypedDict

from memalchemy import Database, NotSerialisable, Store, events, sync
from memalchemy.integrations.langgraph import MemalchemyStore
from memalchemy.schema import StoreItemRow
from waiting import A_WHILE, give_time_to_go_wrong

NS = ("notes",)
ITEMS: Any = StoreItemRow.__table__


class Letters:
    """Embeds a text by the letters in it, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        return [[float(text.count(letter)) for letter in "abcdefgh"] for text in texts]


@pytest.fixture
def store(db: Database) -> MemalchemyStore:
    return MemalchemyStore(db)


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def vectors(db: Database, letters: Letters) -> MemalchemyStore:
    return MemalchemyStore(db, index={"dims": 8, "embed": letters, "fields": ["text"]})


def keys(items: Any) -> list[str]:
    return [item.key for item in items]


async def set_ends(db: Database, minutes: float) -> None:
    """Let all items of the tenant that end do so in so many minutes."""
    ends = datetime.now(UTC) + timedelta(minutes=minutes)
    where = [ITEMS.c.tenant == db.tenant, ITEMS.c.expires_at.is_not(None)]
    await db.run_sync(lambda c: c.execute(update(ITEMS).where(*where).values(expires_at=ends)))


async def ends_of(store: MemalchemyStore, key: str) -> datetime | None:
    item = await store.store.get_item(("langgraph", *NS), key, refresh=False)
    assert item is not None
    return item.expires_at


# Where it lives.


async def test_items_are_in_the_native_store_below_langgraphs_namespace(
    store: MemalchemyStore,
) -> None:
    await store.aput(("users", "ada"), "diet", {"text": "no peanuts"})
    await store.store.put(("users", "ada"), "diet", "another framework's")

    native = Store(store.store.db)
    assert await native.get(("langgraph", "users", "ada"), "diet") == {"text": "no peanuts"}
    assert keys(await native.search(("langgraph",), "peanuts", prefix=True)) == ["diet"]
    assert keys(await store.asearch(())) == ["diet"]
    assert await store.alist_namespaces() == [("users", "ada")]

    apart = MemalchemyStore(store.db, namespace=("blue",))
    await apart.aput(("users", "ada"), "diet", {"text": "no milk"})
    assert await native.get(("langgraph", "blue", "users", "ada"), "diet") == {"text": "no milk"}
    assert await apart.alist_namespaces() == [("users", "ada")]
    assert (await store.aget(("users", "ada"), "diet")).value == {"text": "no peanuts"}  # type: ignore[union-attr]


async def test_methods_with_and_without_await_share_one_store(store: MemalchemyStore) -> None:
    await store.aput(NS, "a", {"n": 1})
    await asyncio.to_thread(store.put, NS, "b", {"n": 2})

    assert (await asyncio.to_thread(store.get, NS, "a")).value == {"n": 1}  # type: ignore[union-attr]
    found = await store.aget(NS, "b")
    assert found is not None
    assert found.value == {"n": 2}
    # In a running loop, as in a notebook's cell; it stands still meanwhile.
    assert keys(store.search(NS, filter={"n": 2})) == ["b"]
    store.delete(NS, "a")
    assert await store.aget(NS, "a") is None


def test_it_is_made_without_a_loop_and_without_io(tmp_path: Any) -> None:
    assert MemalchemyStore(f"sqlite:///{tmp_path}/none/agent.db").supports_ttl
    assert not (tmp_path / "none").exists()
    with MemalchemyStore.from_conn_string(f"sqlite:///{tmp_path}/agent.db") as store:
        store.put(NS, "a", {"n": 1})
        assert asyncio.run(store.aget(NS, "a")) == store.get(NS, "a")
    with sync.Database(f"sqlite:///{tmp_path}/agent.db") as db:
        assert keys(MemalchemyStore(db).search(NS)) == ["a"]
        assert keys(sync.Store(db).list_items(("langgraph",), prefix=True)) == ["a"]


async def test_the_database_that_it_was_given_is_not_closed_with_it(db: Database) -> None:
    async with MemalchemyStore(db) as store:
        await store.aput(NS, "a", {"n": 1})
        store.put(NS, "b", {"n": 1})
    del store
    gc.collect()

    assert await Store(db).count(("langgraph", *NS)) == 2


async def test_a_database_in_memory_outlives_a_store_on_it() -> None:
    async with Database("sqlite://") as db:
        others = {*threading.enumerate()}
        store = MemalchemyStore(db)
        store.put(NS, "a", {"n": 1})
        running = [t for t in {*threading.enumerate()} - others if t.name == "memalchemy-sync"]
        assert running
        del store
        gc.collect()
        for thread in running:
            await asyncio.to_thread(thread.join, 20)
        assert await Store(db).get(("langgraph", *NS), "a") == {"n": 1}


async def test_nodes_of_a_graph_use_it_with_and_without_await(store: MemalchemyStore) -> None:
    class State(TypedDict, total=False):
        said: str
        found: list[str]

    def remember(state: State, *, store: BaseStore) -> State:
        store.put(("memories",), "1", {"text": state["said"]})
        return {}

    async def recall(state: State, *, store: BaseStore) -> State:
        return {"found": [item.value["text"] for item in await store.asearch(("memories",))]}

    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_node("recall", recall)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "recall")
    builder.add_edge("recall", END)

    after = await builder.compile(store=store).ainvoke({"said": "hello"})

    assert after["found"] == ["hello"]


# Batches.


async def test_a_batch_reads_what_was_there_before_it_writes(store: MemalchemyStore) -> None:
    put, get = PutOp(NS, "a", {"n": 1}), GetOp(NS, "a")

    assert await store.abatch([put, get, PutOp(NS, "a", {"n": 2}), get, SearchOp(NS)]) == [
        None, None, None, None, [],
    ]  # fmt: skip
    (found,) = await store.abatch([get])
    assert found.value == {"n": 2}  # type: ignore[union-attr]
    assert store.batch([PutOp(NS, "a", None), PutOp(NS, "b", {"n": 3}), get])[2] == found
    assert keys(await store.asearch(NS)) == ["b"]


async def test_a_batch_with_a_mistake_in_it_does_nothing(store: MemalchemyStore) -> None:
    fine = PutOp(NS, "fine", {"n": 1})
    for wrong, error in [
        (PutOp(("a.b",), "k", {}), InvalidNamespaceError),
        (GetOp(("",), "k"), InvalidNamespaceError),
        (SearchOp(NS, {"n": {"$in": [1]}}), ValueError),
        (PutOp(NS, "odd", {"o": object()}), NotSerialisable),
        (PutOp(NS, "k", {}, ttl=0), ValueError),
        (SearchOp(NS, limit=-1), ValueError),
        ("get", ValueError),
    ]:
        with pytest.raises(error):
            await store.abatch([fine, wrong])  # type: ignore[list-item]
        with pytest.raises(error):
            store.batch([fine, wrong])  # type: ignore[list-item]
    assert await store.asearch(()) == []


async def test_concurrent_calls_are_few_round_trips(store: MemalchemyStore) -> None:
    await store.aput(NS, "first", {"n": -1})
    seen: list[events.Event] = []
    unsubscribe = events.subscribe(seen.append)
    try:
        await asyncio.gather(*(store.aput(NS, f"k{n:03}", {"n": n}) for n in range(200)))
        found = await asyncio.gather(*(store.aget(NS, f"k{n:03}") for n in range(200)))
    finally:
        unsubscribe()

    assert [item and item.value["n"] for item in found] == list(range(200))
    assert sum(event.round_trips for event in seen) <= 220  # SQLite writes item by item, in one hop
    assert len([event for event in seen if event.name in ("store.put", "store.get")]) <= 4


async def test_a_call_sees_the_effects_of_earlier_calls(store: MemalchemyStore) -> None:
    putting = asyncio.create_task(store.aput(NS, "a", {"n": 1}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    found = await store.aget(NS, "a")

    assert found is not None
    await putting


async def test_an_invalid_call_fails_alone(store: MemalchemyStore) -> None:
    results = await asyncio.gather(
        store.aput(NS, "a", {"n": 1}),
        store.aput(NS, "b", {"o": object()}),
        store.asearch(NS, filter={"n": {"$like": 1}}),
        store.aget(NS, "a"),
        return_exceptions=True,
    )

    assert results[0] is None
    assert isinstance(results[1], NotSerialisable)
    assert isinstance(results[2], ValueError)
    assert keys(await store.asearch(NS)) == ["a"]


async def test_a_cancelled_call_does_not_cancel_others_of_its_batch(store: MemalchemyStore) -> None:
    calls = [asyncio.create_task(store.aput(NS, f"k{n}", {"n": n})) for n in range(5)]
    await asyncio.sleep(0)
    calls[2].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(results[2], asyncio.CancelledError)
    assert {0, 1, 3, 4} <= {item.value["n"] for item in await store.asearch(NS)}
    await store.aput(NS, "after", {})


async def test_a_call_in_a_transaction_of_its_task_does_not_deadlock(
    store: MemalchemyStore, database: str
) -> None:
    db = store.store.db
    await store.aput(NS, "before", {"n": 1})
    async with asyncio.timeout(A_WHILE), db.transaction() as tx:
        other = asyncio.create_task(store.aput(NS, "other", {"n": 2}), context=Context())
        await store.store.put(("langgraph", *NS), "mine", {"n": 3}, connection=tx)
        if database == "sqlite":
            await give_time_to_go_wrong()
            assert keys(await store.asearch(NS)) == ["before"]
    await other
    assert set(keys(await store.asearch(NS))) == {"before", "mine", "other"}


async def test_concurrent_readers_of_an_item_get_separate_objects(store: MemalchemyStore) -> None:
    await store.aput(NS, "a", {"tags": []})
    one, two = await asyncio.gather(store.aget(NS, "a"), store.aget(NS, "a"))
    hits, others = await asyncio.gather(store.asearch(NS), store.asearch(NS))

    one.value["tags"].append(1)  # type: ignore[union-attr]
    hits[0].value["tags"].append(1)
    assert two.value == others[0].value == {"tags": []}  # type: ignore[union-attr]


def test_many_threads_use_one_store(tmp_path: Any) -> None:
    with (
        MemalchemyStore(f"sqlite:///{tmp_path}/agent.db") as store,
        ThreadPoolExecutor(8) as pool,
    ):
        list(pool.map(lambda n: store.put(NS, f"k{n:03}", {"n": n}), range(100)))
        found = list(pool.map(lambda n: store.get(NS, f"k{n:03}"), range(100)))
        assert [item and item.value["n"] for item in found] == list(range(100))


# Filters, one meaning on all databases.


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"n": {"$gt": 9}}, "c d"),
    ({"n": {"$lt": 10}}, "a b"),
    ({"n": {"$gte": 9, "$lte": 10}}, "b c"),
    ({"n": {"$gt": 8.5, "$ne": 10}}, "b d"),
    ({"n": 9}, "b"),
    ({"n": 9.0}, "b"),
    ({"n": {"$eq": 100}}, "d"),
    ({"kind": {"$ne": "x"}}, "b c d"),
    ({"a b": 1}, "a"),
    ({"/n": 1}, "b"),
    ({"$ref": "r"}, "c"),
    ({"nest": {"k": 1}}, "a b"),
    ({"nest": {"k": {"$gt": 0}, "j": 2}}, "a"),
    ({"nest": {"$eq": {"k": 1}}}, "b"),
    ({"ok": True}, "a"),
    ({"ok": 1}, "b"),
    ({"gone": None}, "a b c d"),
    ({"n": {"$ne": 2}, "tags": None}, "b c"),
    ({"tags": ["x", "y"]}, "d"),
    ({"it's": "'; DROP TABLE x; --"}, "d"),
    ({}, "a b c d"),
]


@pytest.fixture
async def filtered(store: MemalchemyStore) -> MemalchemyStore:
    values = [
        {"n": 2, "kind": "x", "a b": 1, "nest": {"k": 1, "j": 2}, "ok": True},
        {"n": 9, "/n": 1, "nest": {"k": 1}, "ok": 1},
        {"n": 10, "$ref": "r", "gone": None, "nest": "k"},
        {"n": 100, "tags": ["x", "y"], "it's": "'; DROP TABLE x; --"},
    ]
    await store.abatch([PutOp(NS, k, v) for k, v in zip("abcd", values, strict=True)])
    return store


async def test_filters_find_the_same_on_every_database(filtered: MemalchemyStore) -> None:
    for wanted, expected in FILTERS:
        found = await filtered.asearch(NS, filter=wanted)
        assert sorted(keys(found)) == expected.split(), wanted


async def test_filters_agree_with_the_store_in_memory(filtered: MemalchemyStore) -> None:
    memory = InMemoryStore()
    for item in await filtered.asearch(NS):
        memory.put(NS, item.key, item.value)
    for wanted, _ in FILTERS:
        if "ok" not in wanted:  # it takes True for 1
            theirs = memory.search(NS, filter=wanted)
            ours = await filtered.asearch(NS, filter=wanted)
            assert sorted(keys(ours)) == sorted(keys(theirs)), wanted


@pytest.mark.parametrize(
    "wrong",
    [{"n": {"$in": [1]}}, {"n": {"$gt": 1, "k": 2}}, {"n": {"$regex": "x"}}, {"n": {"$gt": [1]}}],
)
async def test_an_unknown_operator_is_a_value_error(
    store: MemalchemyStore, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"\$"):
        await store.asearch(NS, filter=wrong)


async def test_the_text_of_a_message_is_stored_as_plain_text(store: MemalchemyStore) -> None:
    message = AIMessage("Hello Ada!")
    assert type(message.text) is not str
    value = {"text": message.text, "all": [{"text": message.text}]}
    await store.aput(("users",), "said", value)

    found = await store.aget(("users",), "said")
    assert found is not None
    assert found.value == {"text": "Hello Ada!", "all": [{"text": "Hello Ada!"}]}
    assert type(found.value["text"]) is str


async def test_values_may_hold_characters_that_databases_refuse(store: MemalchemyStore) -> None:
    value = {"nul": "a\x00b", "\x00": 1, "big": 2**80, "nan": float("inf"), "half": "\ud800"}
    await store.aput(("a/b", "c%_"), "k\x00", value)

    found = await store.aget(("a/b", "c%_"), "k\x00")
    assert found is not None
    assert found.value == value
    assert await store.asearch(("a",)) == []
    assert keys(await store.asearch(("a/b",), filter={"nul": "a\x00b"})) == ["k\x00"]


# Namespaces.


async def test_namespaces_match_by_prefix_suffix_and_wildcard(store: MemalchemyStore) -> None:
    places = [
        ("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"),
        ("a", "c", "f"), ("a", "x", "c"), ("ab",), ("b", "*", "c"), ("a-", "b"),
    ]  # fmt: skip
    memory = InMemoryStore()
    await store.abatch([PutOp(place, "k", {}) for place in places])
    memory.batch([PutOp(place, "k", {}) for place in places])
    conditions = [
        (), (("prefix", ("a",)),), (("prefix", ("a", "*", "c")),), (("suffix", ("f",)),),
        (("suffix", ("*", "f")),), (("prefix", ("a", "b")), ("suffix", ("e",))),
        (("prefix", ("*", "*", "c")),), (("prefix", ("missing",)),), (("suffix", ("*",) * 4),),
    ]  # fmt: skip
    for given in conditions:
        match = tuple(MatchCondition(kind, path) for kind, path in given)  # type: ignore[arg-type]
        for depth in (None, 1, 2, 3):
            op = ListNamespacesOp(match, depth)
            assert sorted(store.batch([op])[0]) == memory.batch([op])[0], op  # type: ignore[arg-type,type-var]
            pages = [op._replace(limit=2, offset=n) for n in range(0, 12, 2)]
            paged = [place for page in await store.abatch(pages) for place in page]  # type: ignore[union-attr]
            assert paged == store.batch([op])[0], op


async def test_namespaces_are_matched_by_whole_labels(store: MemalchemyStore) -> None:
    await store.aput(("foo",), "1", {})
    await store.aput(("foobar",), "2", {})

    assert keys(await store.asearch(("foo",))) == ["1"]
    assert await store.alist_namespaces(prefix=("foo",)) == [("foo",)]
    with pytest.raises(InvalidNamespaceError):
        await store.aput(("langgraph", "x"), "k", {})
    with pytest.raises(InvalidNamespaceError):
        await store.aput((), "k", {})


# By meaning.


async def test_items_are_found_by_meaning_with_langgraphs_scores(vectors: MemalchemyStore) -> None:
    await vectors.aput(NS, "a", {"text": "aaaa"})
    await vectors.aput(NS, "ab", {"text": "ab"})
    await vectors.aput(NS, "c", {"text": "c"})
    await vectors.aput(NS, "not", {"other": "aaaa"})

    found = await vectors.asearch(NS, query="aa")
    assert keys(found) == ["a", "ab", "c"]
    assert [hit.score for hit in found] == pytest.approx([1.0, 0.5**0.5, 0.0], abs=1e-6)
    assert vectors.search(NS, query="aa") == found
    listed = await vectors.asearch(NS)
    assert len(listed) == 4
    assert {hit.score for hit in listed} == {None}


async def test_a_query_on_a_store_without_an_index_lists(store: MemalchemyStore) -> None:
    await store.aput(NS, "a", {"text": "x", "n": 1})
    await store.aput(NS, "b", {"text": "y", "n": 1})

    found = await store.asearch(NS, query="anything", filter={"n": 1})
    assert set(keys(found)) == {"a", "b"}
    assert {hit.score for hit in found} == {None}


@pytest.mark.parametrize(
    ("distance", "score"), [("cosine", 0.6), ("inner_product", 6.0), ("l2", -(17**0.5))]
)
async def test_scores_are_those_of_the_distance_that_is_configured(
    db: Database, letters: Letters, distance: str, score: float
) -> None:
    config: Any = {"dims": 8, "embed": letters, "distance_type": distance}
    store = MemalchemyStore(db, index=config | {"fields": ["text"]})
    await store.aput(NS, "k", {"text": "aaabbbb"})

    (hit,) = await store.asearch(NS, query="aa")

    assert hit.score == pytest.approx(score)


async def test_an_item_has_a_vector_for_each_text_of_a_path(
    vectors: MemalchemyStore, letters: Letters
) -> None:
    value = {"parts": [{"t": "aa"}, {"t": ""}, {"t": "bb"}], "text": "cc", "title": {"en": "d"}}
    await vectors.aput(NS, "k", value, index=["parts[*].t", "title.en"])

    assert sorted(letters.calls[-1]) == ["aa", "bb", "d"]
    place = ("langgraph", *NS)
    assert await vectors.store.get_embedding(place, "k", field="parts[*].t", part=1) is not None
    for query in ("aa", "bb", "d"):
        (hit,) = await vectors.asearch(NS, query=query)
        assert hit.score == pytest.approx(1.0)
    (hit,) = await vectors.asearch(NS, query="cc")
    assert hit.score == pytest.approx(0.0)


async def test_a_put_without_an_index_leaves_no_stale_vector(vectors: MemalchemyStore) -> None:
    await vectors.aput(NS, "k", {"text": "aa"})
    await vectors.aput(NS, "k", {"text": "bb"}, index=False)

    assert await vectors.asearch(NS, query="aa") == []
    assert keys(await vectors.asearch(NS)) == ["k"]


async def test_an_item_with_a_vector_of_zeros_is_stored_and_listed(
    vectors: MemalchemyStore,
) -> None:
    await vectors.aput(NS, "zero", {"text": "zzz"})
    await vectors.aput(NS, "empty", {"text": ""})
    await vectors.aput(NS, "a", {"text": "a"})

    assert keys(await vectors.asearch(NS, query="a")) == ["a"]
    assert len(await vectors.asearch(NS, query="zzz")) == 3


async def test_a_vector_of_the_wrong_dimensions_is_refused(db: Database) -> None:
    store = MemalchemyStore(db, index={"dims": 3, "embed": Letters(), "fields": ["text"]})

    with pytest.raises(ValueError, match="8 dimensions; index says 3"):
        await store.aput(NS, "k", {"text": "a"})
    assert await store.aget(NS, "k") is None


async def test_a_batch_calls_the_embedder_once(vectors: MemalchemyStore, letters: Letters) -> None:
    texts = ["a", "b", "a", "c"]
    await asyncio.gather(*(vectors.aput(NS, f"k{n}", {"text": t}) for n, t in enumerate(texts)))

    assert letters.calls == [["a", "b", "c"]]


async def test_embed_may_be_a_coroutine_function(db: Database, letters: Letters) -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return letters(texts)

    store = MemalchemyStore(db, index={"dims": 8, "embed": embed})
    await store.aput(NS, "a", {"text": "aa"})
    await asyncio.to_thread(store.put, NS, "b", {"text": "bb"})

    assert keys(await asyncio.to_thread(store.search, NS, query="bb")) == ["b", "a"]
    assert keys(await store.asearch(NS, query="aa")) == ["a", "b"]


async def test_a_filtered_search_by_meaning_returns_all_it_should(db: Database) -> None:
    dice = random.Random(7)
    made: dict[str, list[float]] = {}

    def embed(texts: list[str]) -> list[list[float]]:
        for text in texts:
            made.setdefault(text, [dice.gauss(0, 1) for _ in range(16)])
        return [made[text] for text in texts]

    store = MemalchemyStore(db, index={"dims": 16, "embed": embed, "fields": ["text"]})
    await store.abatch(
        [
            PutOp(("many", "few" if n % 100 == 0 else "rest"), f"{n}", {"text": f"{n}", "m": n % 7})
            for n in range(3000)
        ]
    )

    assert len(await store.asearch(("many", "few"), query="q", limit=10)) == 10
    assert len(await store.asearch(("many", "few"), query="q", limit=50)) == 30
    filtered = await store.asearch(("many",), query="q", filter={"m": 3}, limit=40)
    assert len(filtered) == 40
    assert {hit.value["m"] for hit in filtered} == {3}
    whole = await store.asearch(("many",), query="q", limit=100)
    pages = [await store.asearch(("many",), query="q", limit=10, offset=n) for n in (0, 20, 25, 90)]
    assert [keys(page) for page in pages] == [keys(whole[n : n + 10]) for n in (0, 20, 25, 90)]
    scores = [hit.score or 0 for hit in whole]
    assert scores == sorted(scores, reverse=True)


# Expiry.


async def test_a_ttl_is_in_minutes_and_reading_starts_it_anew(store: MemalchemyStore) -> None:
    await store.aput(NS, "a", {"n": 1}, ttl=0.5)
    await store.aput(NS, "ever", {"n": 1})
    item = await store.store.get_item(("langgraph", *NS), "a", refresh=False)
    assert item is not None
    assert item.expires_at == item.updated_at + timedelta(seconds=30)
    assert await ends_of(store, "ever") is None

    reads: list[Any] = [
        store.aget(NS, "a"),
        store.asearch(NS),
        store.abatch([GetOp(NS, "a"), SearchOp(NS)]),
        asyncio.to_thread(store.get, NS, "a"),
    ]
    for read in reads:
        await set_ends(store.store.db, 0.1)
        await read
        ends = await ends_of(store, "a")
        assert ends is not None
        assert ends > datetime.now(UTC) + timedelta(seconds=20)

    await set_ends(store.store.db, 0.1)
    before = await ends_of(store, "a")
    await store.aget(NS, "a", refresh_ttl=False)
    await store.asearch(NS, refresh_ttl=False)
    assert await ends_of(store, "a") == before


async def test_the_ttl_configuration_sets_the_default_and_refresh_on_read(db: Database) -> None:
    store = MemalchemyStore(db, ttl={"default_ttl": 10, "refresh_on_read": False})
    assert store.supports_ttl
    await store.aput(NS, "a", {"n": 1})
    await store.aput(NS, "ever", {"n": 1}, ttl=None)
    assert await ends_of(store, "ever") is None

    await set_ends(db, 1)
    before = await ends_of(store, "a")
    await store.aget(NS, "a")
    assert await ends_of(store, "a") == before
    await store.aget(NS, "a", refresh_ttl=True)
    after = await ends_of(store, "a")
    assert after is not None
    assert after > datetime.now(UTC) + timedelta(minutes=9)


async def test_expired_items_are_never_returned_and_are_swept_later(
    vectors: MemalchemyStore,
) -> None:
    await vectors.aput(NS, "a", {"text": "a"}, ttl=1)
    await vectors.aput(("other",), "b", {"text": "a"}, ttl=1)
    await vectors.aput(NS, "stays", {"text": "a"})
    await set_ends(vectors.store.db, -1)

    assert await vectors.aget(NS, "a") is None
    assert keys(await vectors.asearch(())) == ["stays"]
    assert keys(await vectors.asearch((), query="a")) == ["stays"]
    assert await vectors.alist_namespaces() == [NS]
    assert vectors.sweep_ttl() == 2
    assert await vectors.asweep_ttl() == 0
    await vectors.aput(NS, "a", {"text": "again"})
    assert (await vectors.aget(NS, "a")).value == {"text": "again"}  # type: ignore[union-attr]


async def test_a_sweeper_removes_rows_until_it_is_stopped(store: MemalchemyStore) -> None:
    db = store.store.db
    await store.aput(NS, "a", {"n": 1}, ttl=1)
    await set_ends(db, -1)
    swept = asyncio.Event()
    loop = asyncio.get_running_loop()

    def see(event: events.Event) -> None:
        if event.name == "store.sweep" and event.details.get("removed"):
            loop.call_soon_threadsafe(swept.set)

    unsubscribe = events.subscribe(see)
    try:
        running = store.start_ttl_sweeper(0.001)
        assert store.start_ttl_sweeper(0.001) is running
        async with asyncio.timeout(A_WHILE):
            await swept.wait()
    finally:
        unsubscribe()
    assert not running.done()
    assert await store.astop_ttl_sweeper()
    assert running.done()
    assert store.start_ttl_sweeper(1).cancel()
    assert store.stop_ttl_sweeper(A_WHILE)


def test_a_sweeper_ends_with_its_store(tmp_path: Any) -> None:
    store = MemalchemyStore(f"sqlite:///{tmp_path}/agent.db", ttl={"default_ttl": 1})
    running = store.start_ttl_sweeper(1)
    del store
    gc.collect()

    running.result(timeout=A_WHILE)
    assert not [t for t in threading.enumerate() if t.name == "memalchemy-langgraph-ttl"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"d": {"$ne": None}},
        {"d": {"$ne": 1}},
        {"d": {"$ne": "x"}},
        {"d": {"$ne": None, "$eq": 1}},
        {"a": {"d": {"$ne": None}}},
    ],
    ids=str,
)
async def test_what_is_not_none_is_there_as_in_langgraphs_own_store(
    db: Database, wanted: dict[str, Any]
) -> None:
    values: list[dict[str, Any]] = [{}, *({"d": one} for one in (None, 1, "x", [], {}, False))]
    values += [{"a": one} for one in [*values]]
    found = []
    for store in (InMemoryStore(), MemalchemyStore(db)):
        for at, value in enumerate(values):
            await store.aput(("n",), str(at), value)
        hits = await store.asearch(("n",), filter=wanted, limit=100)
        found.append(sorted(hit.key for hit in hits))
    assert found[0] == found[1]

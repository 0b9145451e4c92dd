"""Looking into a store: keys, items page by page, namespaces, counts, and clearing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from benchmarks.calls import counting
from hypothesis import strategies as st
from sqlalchemy import insert
from store_helpers import keys_of, texts

from drawn_examples import examples_of
from lifetimes import ITEMS, rewrite_rows
from memalchemy import Database, Store
from memalchemy.contracts import StoreItem
from memalchemy.keys import decode_namespace, encode_namespace

NS = ("notes",)
THEN = datetime(2026, 1, 1, tzinfo=UTC)

Namespace = tuple[str, ...]


async def fill(store: Store, *places: tuple[Namespace, str]) -> None:
    await store.put_batch([(namespace, key, [*namespace, key]) for namespace, key in places])


async def pages(store: Store, namespace: Namespace, limit: int, **how: Any) -> AsyncIterator[Any]:
    after: StoreItem | None = None
    while page := await store.list_items(namespace, limit=limit, after=after, **how):
        assert len(page) <= limit
        yield page
        after = page[-1]


async def all_pages(store: Store, namespace: Namespace, limit: int, **how: Any) -> list[StoreItem]:
    return [item async for page in pages(store, namespace, limit, **how) for item in page]


# --- Keys ----------------------------------------------------------------------------------------


async def test_keys_come_in_the_order_of_code_points(store: Store) -> None:
    keys = ["b", "a", "B", "a2", "a10", "é", "z", "ﬀ", "🧵", "中", "a b", "ä"]
    await fill(store, *[(NS, key) for key in keys])

    assert await store.list_keys(NS) == sorted(keys)


async def test_keys_are_those_of_the_namespace_alone(store: Store) -> None:
    await fill(store, (NS, "here"), (("notes", "deep"), "below"), ((), "above"), (("note",), "no"))

    assert await store.list_keys(NS) == ["here"]
    assert await store.list_keys(()) == ["above"]
    assert await store.list_keys(("nowhere",)) == []


@pytest.mark.parametrize("page_size", [1, 3, 7, 100])
async def test_all_keys_and_items_are_iterated_page_by_page(store: Store, page_size: int) -> None:
    keys = [f"a{n}" for n in range(4)] + [f"b{n}" for n in range(3)]
    await fill(store, *[(NS, key) for key in keys], (("notes", "deep"), "below"))

    assert [key async for key in store.iter_keys(NS, page_size=page_size)] == keys
    some = store.iter_keys(NS, prefix="b", page_size=page_size)
    assert [key async for key in some] == keys[4:]
    items = store.iter_items(NS, order="key", page_size=page_size)
    assert [item.key async for item in items] == keys
    newest = [item.key async for item in store.iter_items(NS, page_size=page_size)]
    assert newest == [item.key for item in await store.list_items(NS)]
    below = store.iter_items(NS, prefix=True, order="key", page_size=page_size)
    assert [item.key async for item in below] == [*keys, "below"]
    assert [key async for key in store.iter_keys(("nowhere",))] == []


async def test_a_page_of_nothing_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="page_size must be at least 1"):
        [key async for key in store.iter_keys(NS, page_size=0)]
    with pytest.raises(ValueError, match="page_size must be at least 1"):
        [item async for item in store.iter_items(NS, page_size=0)]


async def test_keys_are_listed_from_one_on_and_up_to_a_limit(store: Store) -> None:
    keys = [f"k{n:03}" for n in range(120)]
    await fill(store, *[(NS, key) for key in keys])

    assert await store.list_keys(NS) == keys[:100]
    assert await store.list_keys(NS, 3) == keys[:3]
    assert await store.list_keys(NS, 0) == []
    assert await store.list_keys(NS, limit=3, after="k004") == keys[5:8]
    assert await store.list_keys(NS, after="k0045") == keys[5:105]
    assert await store.list_keys(NS, after="k119") == []
    assert await store.list_keys(NS, prefix="k11") == keys[110:]
    assert await store.list_keys(NS, prefix="k11", limit=2, after="k117") == keys[118:]
    assert await store.list_keys(NS, prefix="k1", after="k") == keys[100:]
    assert await store.list_keys(NS, prefix="x") == []


async def test_nothing_in_a_prefix_of_keys_is_a_pattern(store: Store) -> None:
    odd = ["", "\x00", "\x1a", "\x1ae", "%", "_", "a", "A", "á", "*", "\\", "'", "\ud7ff", "\ue000"]
    odd += ["\ud800", "\udfff", "\U0010ffff", " ", "~", "/"]
    keys = [one + other for one in odd for other in ("", "a", "%", "\U0010ffff", "\x00")]
    keys = list(dict.fromkeys(keys))
    await fill(store, *[(NS, key) for key in keys])

    for prefix in odd:
        listed = await store.list_keys(NS, limit=1000, prefix=prefix)
        assert sorted(listed) == sorted(k for k in keys if k.startswith(prefix)), prefix


async def test_pages_of_keys_of_any_characters_give_each_once(store: Store) -> None:
    keys = set(examples_of(st.text(st.characters(codec=None), max_size=8), 120))
    await fill(store, *[(NS, key) for key in keys])

    whole = await store.list_keys(NS, limit=1000)
    assert sorted(whole) == sorted(keys)
    listed = page = await store.list_keys(NS, limit=17)
    while page:
        page = await store.list_keys(NS, limit=17, after=page[-1])
        listed = listed + page
    assert listed == whole


# --- Items ---------------------------------------------------------------------------------------


async def test_items_come_newest_write_first(store: Store) -> None:
    for key in ("a", "b", "c"):
        await store.put(NS, key, 1)
    await store.put(NS, "a", 2)

    assert keys_of(await store.list_items(NS)) == ["a", "c", "b"]
    assert keys_of(await store.list_items(NS, order="newest")) == ["a", "c", "b"]
    assert keys_of(await store.list_items(NS, order="key")) == ["a", "b", "c"]
    newest = (await store.list_items(NS, limit=1))[0]
    assert newest == await store.get_item(NS, "a")


async def test_another_order_is_refused(store: Store) -> None:
    with pytest.raises((ValueError, TypeError)):
        await store.list_items(NS, order="oldest")  # type: ignore[arg-type]


async def test_pages_give_each_item_once_in_either_order(store: Store) -> None:
    keys = [f"k{n:02}" for n in range(23)]
    for key in keys:
        await store.put(NS, key, key)
    await fill(store, (("notes", "deep"), "below"), (("note",), "other"))

    for limit in (1, 5, 23, 50):
        assert keys_of(await all_pages(store, NS, limit)) == keys[::-1]
        assert keys_of(await all_pages(store, NS, limit, order="key")) == keys
    assert await store.list_items(NS, limit=0) == []


@pytest.mark.parametrize("order", ["newest", "key"])
@pytest.mark.parametrize("prefix", [False, True], ids=["exact", "below"])
async def test_pages_are_whole_where_all_items_are_of_one_moment(
    db: Database, store: Store, order: str, prefix: bool
) -> None:
    places = [(("n", part), f"k{n}") for part in ("a", "b", "c") for n in range(6)]
    await fill(store, *places, (("n2",), "k0"))
    await rewrite_rows(db, created_at=THEN, updated_at=THEN)
    await rewrite_rows(db, [ITEMS.c.key == "k3"], updated_at=THEN + timedelta(seconds=1))

    namespace = ("n",) if prefix else ("n", "b")
    wanted = [place for place in places if prefix or place[0] == namespace]
    for limit in (1, 2, 5):
        found = await all_pages(store, namespace, limit, order=order, prefix=prefix)
        assert sorted((i.namespace, i.key) for i in found) == sorted(wanted)
        assert len(found) == len(wanted)
        if order == "newest":
            times = [item.updated_at for item in found]
            assert times == sorted(times, reverse=True)
            assert {item.key for item in found[: 3 if prefix else 1]} == {"k3"}


async def test_a_page_goes_on_where_the_last_ended_though_items_came_and_went(
    store: Store,
) -> None:
    for n in range(6):
        await store.put(NS, f"k{n}", n)
    first = await store.list_items(NS, limit=2)
    assert keys_of(first) == ["k5", "k4"]
    await store.delete(NS, "k4")
    await store.put(NS, "new", 1)

    assert keys_of(await store.list_items(NS, limit=2, after=first[-1])) == ["k3", "k2"]
    by_key = await store.list_items(NS, limit=2, order="key")
    await store.delete(NS, by_key[-1].key)
    rest = await store.list_items(NS, limit=9, order="key", after=by_key[-1])
    assert keys_of(rest) == ["k2", "k3", "k5", "new"]


async def test_below_a_namespace_is_what_begins_with_its_parts(store: Store) -> None:
    places = [
        ((), "k"),
        (("a",), "k"),
        (("a", "b"), "k"),
        (("a", "b", "c"), "k"),
        (("ab",), "k"),
        (("a/b",), "k"),
        (("a", ""), "k"),
        (("~", "x"), "k"),
        (("~x",), "k"),
        (("0",), "k"),
        (("\U0010ffff",), "k"),
    ]
    await fill(store, *places)
    spaces = [namespace for namespace, _ in places]

    for top in [*spaces, ("nowhere",), ("b",), ("~",)]:
        below = sorted(ns for ns in spaces if ns[: len(top)] == top)
        listed = await store.list_items(top, prefix=True)
        assert sorted(item.namespace for item in listed) == below
        assert await store.count(top, prefix=True) == len(below)
        assert await store.count(top) == spaces.count(top)
        assert sorted(await store.list_namespaces(top)) == below
        hits = await store.search(top, prefix=True, limit=50)
        assert sorted(hit.namespace for hit in hits) == below


async def test_a_search_for_nothing_lists_newest_first(store: Store) -> None:
    for n in range(12):
        await store.put(NS, f"k{n:02}", n)
    await fill(store, (("notes", "deep"), "below"))

    hits = await store.search(NS)
    assert keys_of(hits) == [f"k{n:02}" for n in range(11, 1, -1)]
    assert all(hit.score is None for hit in hits)
    assert keys_of(await store.search(NS, limit=2, offset=3)) == ["k08", "k07"]
    assert keys_of(await store.search(NS, offset=10)) == ["k01", "k00"]
    assert await store.search(NS, limit=0) == []
    assert keys_of(await store.search(NS, prefix=True, limit=1)) == ["below"]


# --- Namespaces ----------------------------------------------------------------------------------


async def test_namespaces_are_those_that_hold_items_by_path(store: Store) -> None:
    assert await store.list_namespaces() == []
    spaces = [("b",), ("a", "c"), ("a", "b"), ("a",), (), ("a", "b", "c")]
    await fill(store, *[(namespace, key) for namespace in spaces for key in ("1", "2")])

    assert await store.list_namespaces() == sorted(spaces)
    assert await store.list_namespaces(()) == sorted(spaces)
    assert await store.list_namespaces(("a",)) == sorted(ns for ns in spaces if ns[:1] == ("a",))
    assert await store.list_namespaces(("a", "b")) == [("a", "b"), ("a", "b", "c")]
    assert await store.list_namespaces(("a", "x")) == []
    assert await store.list_namespaces(limit=2) == sorted(spaces)[:2]
    assert await store.list_namespaces(limit=0) == []

    await store.delete(("b",), "1")
    assert ("b",) in await store.list_namespaces()
    await store.delete(("b",), "2")
    assert ("b",) not in await store.list_namespaces()


async def test_namespaces_are_listed_page_by_page(store: Store) -> None:
    spaces = sorted(("user", f"{n:02}", part) for n in range(15) for part in ("facts", "notes"))
    await fill(store, *[(namespace, "k") for namespace in spaces], (("other",), "k"))

    listed: list[Namespace] = []
    page = await store.list_namespaces(("user",), limit=7)
    while page:
        listed += page
        page = await store.list_namespaces(("user",), limit=7, after=page[-1])
    assert listed == spaces
    assert await store.list_namespaces(limit=2, after=("user", "07")) == spaces[14:16]


def test_ten_thousand_namespaces_neither_collide_nor_match_a_wrong_prefix() -> None:
    parts = texts(40_000, 5, "/~012\x00\x1aab")
    parts = (part for part in parts if not any("\ud800" <= c <= "\udfff" for c in part))
    spaces = [tuple(islice(parts, n % 4)) for n in range(10_000)]
    spaces += [(), ("",), ("", ""), ("a",), ("a", ""), ("a", "b"), ("a/b",), ("ab",), ("~1",)]
    spaces += [(*spaces[n], *spaces[n + 1]) for n in range(0, 3_000, 2)]
    paths: dict[str, Namespace] = {}
    for namespace in spaces:
        path = encode_namespace(namespace)
        assert decode_namespace(path) == namespace
        assert paths.setdefault(path, namespace) == namespace
    assert len(paths) == len(set(spaces)) > 7_000

    # Below a namespace lie exactly the paths that begin with its own; neighbours in the order of
    # the index are where a wrong match would be.
    order = sorted(paths, key=str.encode)
    for n, path in enumerate(order):
        namespace = paths[path]
        for other in order[n + 1 : n + 12]:
            below = paths[other][: len(namespace)] == namespace
            assert (path.encode() <= other.encode() < path[:-1].encode() + b"0") is below


async def test_some_hundred_namespaces_of_any_characters_are_kept_apart(store: Store) -> None:
    part = st.one_of(
        st.text(st.characters(exclude_categories=("Cs",)), max_size=4), st.text("/~a", max_size=4)
    )
    spaces = sorted(set(examples_of(st.lists(part, max_size=3).map(tuple), 250)) | {("a",), ("~",)})
    await fill(store, *[(namespace, "k") for namespace in spaces])

    assert sorted(await store.list_namespaces(limit=1000)) == spaces
    found = await store.get_batch([(namespace, "k") for namespace in spaces])
    assert found == {(namespace, "k"): [*namespace, "k"] for namespace in spaces}
    for top in {namespace[:1] for namespace in spaces[::9]}:
        below = [ns for ns in spaces if ns[: len(top)] == top]
        assert sorted(await store.list_namespaces(top, limit=1000)) == below
        assert await store.count(top, prefix=True) == len(below)
    assert await store.clear_namespace((), prefix=True) == len(spaces)


# --- Clearing ------------------------------------------------------------------------------------


async def test_clearing_a_namespace_takes_what_is_in_it_and_leaves_what_is_below(
    store: Store,
) -> None:
    await fill(store, (NS, "1"), (NS, "2"), ((*NS, "deep"), "3"), (("other",), "4"), ((), "5"))
    await store.put(NS, "6", "needle", embedding=[1.0])

    assert await store.clear_namespace(NS) == 3
    assert await store.clear_namespace(NS) == 0
    assert await store.list_keys(NS) == []
    assert await store.search(NS, "needle") == []
    assert await store.search_by_embedding(NS, [1.0]) == []
    assert await store.list_namespaces() == sorted([(), ("notes", "deep"), ("other",)])
    assert await store.put(NS, "1", "again") == 1


async def test_clearing_with_prefix_takes_all_below(store: Store) -> None:
    await fill(store, (NS, "1"), ((*NS, "deep"), "2"), (("notesx",), "3"), ((), "4"))

    assert await store.clear_namespace(NS, prefix=True) == 2
    assert await store.list_namespaces() == [(), ("notesx",)]
    assert await store.clear_namespace((), prefix=True) == 2
    assert await store.list_namespaces() == []


async def test_memalchemys_own_rows_are_never_shown_and_never_cleared(
    db: Database, store: Store
) -> None:
    now = datetime.now(UTC)
    own = {
        "tenant": db.tenant,
        "namespace": "/~house/test/",
        "key": "k",
        "meta": {"kind": "x"},
        "version": 1,
        "codec": "none",
        "checksum": 0,
        "search_text": "needle",
        "created_at": now,
        "updated_at": now,
        "value": b"-",
    }
    await db.run_sync(lambda connection: connection.execute(insert(ITEMS), own))
    await store.put(("~house", "test"), "k", "needle", {"kind": "x"})

    assert await store.list_namespaces() == [("~house", "test")]
    assert await store.count((), prefix=True) == 1
    assert len(await store.list_items((), prefix=True)) == 1
    assert len(await store.list_items((), prefix=True, order="key")) == 1
    assert len(await store.list_items((), prefix=True, filter={"kind": "x"})) == 1
    assert len(await store.search((), prefix=True)) == 1
    assert len(await store.search((), "needle", prefix=True)) == 1
    assert await store.clear_namespace((), prefix=True) == 1

    mine = (ITEMS.c.tenant == db.tenant, ITEMS.c.namespace == own["namespace"])

    def removed(connection: Any) -> int:
        return int(connection.execute(ITEMS.delete().where(*mine)).rowcount)

    assert await db.run_sync(removed) == 1


@pytest.mark.own_keys
@pytest.mark.own_signing_keys
async def test_a_listing_runs_few_calls_for_each_item_that_a_filter_passes(store: Store) -> None:
    calls: list[int] = []
    for number in (20, 100):
        namespace = ("memories", str(number))
        for n in range(number):
            await store.put(namespace, f"k{n}", {"user": "ada", "data": f"text {n}"})
        with counting() as found:
            items = await store.list_items(namespace, filter={"$value": {"user": "ada"}}, limit=500)
        assert len(items) == number
        # Not those that read the columns of a row, which are others for each driver.
        ours = [n for (file, _), n in found.items() if re.search(r"/(store/|filters\.py)", file)]
        calls.append(sum(ours))

    few, many = calls
    assert many - few <= 9 * 80

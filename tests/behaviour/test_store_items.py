"""An item: a value under (namespace, key), with metadata, a version and its times."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from memalchemy import Database, NotSerialisable, Store
from memalchemy.contracts import StoreCapabilities, StoreItem

NS = ("users", "ada")

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**63,
    -(2**63) - 1,
    10**400,
    0.0,
    -0.0,
    1.5,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "café",
    "\x00",
    "\ud800 alone",
    "🧵 中文 עברית",
    b"",
    b"\x00\xff",
    [],
    {},
    (),
    set(),
    frozenset(),
    [1, [2, (3, {4, 5})]],
    (1, "a", None),
    {1, 2, 3},
    frozenset({"a", "b"}),
    {"z": 1, "a": {"~": [1], "": None, "\x00": "x"}},
    datetime(2026, 1, 2, 3, 4, 5, 678901),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    date(2026, 1, 2),
    UUID(int=7),
    Decimal("1.00"),
    Decimal("-Infinity"),
]


def alike(loaded: Any, value: Any) -> bool:
    """Equal and of the same types; sets have no order to compare by."""
    if isinstance(value, (set, frozenset)):
        return type(loaded) is type(value) and loaded == value
    return repr(loaded) == repr(value)


async def test_what_was_put_is_there(store: Store) -> None:
    assert await store.put(NS, "colour", {"likes": "blue"}) == 1

    assert await store.get(NS, "colour") == {"likes": "blue"}
    assert await store.exists(NS, "colour")


async def test_what_was_not_put_is_absent(store: Store) -> None:
    await store.put(NS, "other", 1)

    assert await store.get(NS, "colour") is None
    assert await store.get_item(NS, "colour") is None
    assert not await store.exists(NS, "colour")
    assert await store.delete(NS, "colour") is False
    assert await store.get(("users",), "other") is None
    assert await store.get((*NS, "deeper"), "other") is None


async def test_a_stored_none_is_there(store: Store) -> None:
    await store.put(NS, "nothing", None)

    assert await store.exists(NS, "nothing")
    item = await store.get_item(NS, "nothing")
    assert item is not None
    assert item.value is None
    assert await store.get_batch([(NS, "nothing"), (NS, "absent")]) == {(NS, "nothing"): None}
    assert await store.list_keys(NS) == ["nothing"]
    assert await store.delete(NS, "nothing") is True
    assert not await store.exists(NS, "nothing")


async def test_an_item_carries_its_place_metadata_version_and_times(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(minutes=5)
    await store.put(NS, "k", [1], {"source": "chat", "n": 1.5, "tags": ["a"], "deep": {"x": None}})

    item = await store.get_item(NS, "k")
    assert isinstance(item, StoreItem)
    assert (item.namespace, item.key, item.value, item.version) == (NS, "k", [1], 1)
    assert item.metadata == {"source": "chat", "n": 1.5, "tags": ["a"], "deep": {"x": None}}
    assert before < item.created_at <= item.updated_at < before + timedelta(minutes=10)
    assert item.created_at.utcoffset() == item.updated_at.utcoffset() == timedelta()
    assert item.expires_at is None


async def test_each_put_counts_one_version_and_keeps_the_time_of_the_first(store: Store) -> None:
    versions = [await store.put(NS, "k", 0)]
    first = await store.get_item(NS, "k")
    versions += [await store.put(NS, "k", n) for n in (1, 2)]
    last = await store.get_item(NS, "k")

    assert versions == [1, 2, 3]
    assert first is not None
    assert last is not None
    assert (last.value, last.version) == (2, 3)
    assert last.created_at == first.created_at
    assert last.updated_at > first.updated_at


async def test_metadata_is_replaced_with_the_value(store: Store) -> None:
    await store.put(NS, "k", 1, {"a": 1, "b": 2})
    await store.put(NS, "k", 2, {"b": 3})
    item = await store.get_item(NS, "k")
    assert item is not None
    assert item.metadata == {"b": 3}

    await store.put(NS, "k", 3)
    item = await store.get_item(NS, "k")
    assert item is not None
    assert item.metadata == {}


async def test_a_deleted_item_is_gone_and_starts_anew(store: Store) -> None:
    await store.put(NS, "k", 1)
    old = await store.get_item(NS, "k")
    await store.put(NS, "k", 2)
    assert await store.delete(NS, "k") is True

    assert await store.get(NS, "k") is None
    assert not await store.exists(NS, "k")
    assert await store.list_keys(NS) == []
    assert await store.list_namespaces() == []
    assert await store.delete(NS, "k") is False

    assert await store.put(NS, "k", 3) == 1
    new = await store.get_item(NS, "k")
    assert old is not None
    assert new is not None
    assert new.created_at > old.created_at


async def test_values_of_every_type_load_back_equal_and_of_the_same_types(store: Store) -> None:
    versions = await store.put_batch([(NS, str(n), value) for n, value in enumerate(VALUES)])
    assert versions == [1] * len(VALUES)
    for n, value in enumerate(VALUES[:6]):
        await store.put((*NS, "one"), str(n), value)

    for n, value in enumerate(VALUES):
        assert alike(await store.get(NS, str(n)), value), value
    for n, value in enumerate(VALUES[:6]):
        assert alike(await store.get((*NS, "one"), str(n)), value), value
    together = await store.get_batch([(NS, str(n)) for n in range(len(VALUES))])
    listed = await store.list_items(NS, limit=len(VALUES))
    assert len(together) == len(listed) == len(VALUES)
    for n, value in enumerate(VALUES):
        assert alike(together[NS, str(n)], value), value
    for item in listed:
        assert alike(item.value, VALUES[int(item.key)]), item.value


async def test_a_value_of_a_strange_type_is_refused_with_its_path(store: Store) -> None:
    await store.put(NS, "k", "old")

    with pytest.raises(NotSerialisable) as caught:
        await store.put(NS, "k", {"a": [1, {"b": object()}]})
    assert caught.value.path == "/a/1/b"
    for wrong in (object(), 1j, bytearray(b"x"), {1: "a key that is no text"}):
        with pytest.raises(NotSerialisable):
            await store.put(NS, "k", wrong)
    item = await store.get_item(NS, "k")
    assert item is not None
    assert (item.value, item.version) == ("old", 1)


@pytest.mark.parametrize(
    "metadata",
    [{"x": math.nan}, {"x": b"bytes"}, {"x": "\x00"}, {1: "x"}, {"x": {"y": object()}}, "text"],
    ids=["NaN", "bytes", "U+0000", "key", "object", "no mapping"],
)
async def test_metadata_that_is_no_json_is_refused(store: Store, metadata: Any) -> None:
    with pytest.raises(NotSerialisable):
        await store.put(NS, "k", 1, metadata)
    assert not await store.exists(NS, "k")


async def test_what_is_read_is_a_copy_and_so_is_what_is_put(store: Store) -> None:
    value, metadata = {"list": [1]}, {"tags": ["a"]}
    await store.put(NS, "k", value, metadata)
    value["list"].append(2)
    metadata["tags"].append("b")

    loaded = await store.get(NS, "k")
    assert loaded == {"list": [1]}
    loaded["list"].append(3)
    item = await store.get_item(NS, "k")
    assert item is not None
    assert (item.value, item.metadata) == ({"list": [1]}, {"tags": ["a"]})
    item.value["list"].append(4)
    item.metadata["tags"].append("c")
    (listed,) = await store.list_items(NS)
    listed.value["list"].append(5)
    (hit,) = await store.search(NS)
    assert (hit.value, hit.metadata) == ({"list": [1]}, {"tags": ["a"]})
    assert await store.get(NS, "k") == {"list": [1]}


async def test_a_megabyte_of_text_is_stored_whole_and_found_by_its_beginning(store: Store) -> None:
    text = "needle " + "naïve words, " * 80_000
    assert len(text) > 1_000_000
    await store.put(NS, "k", text)

    assert await store.get(NS, "k") == text
    assert [hit.key for hit in await store.search(NS, "needle")] == ["k"]


async def test_ten_megabytes_of_json_are_stored_whole(store: Store) -> None:
    rows = [{"id": n, "name": f"row {n}", "body": "x" * 900, "ok": True} for n in range(10_800)]
    await store.put(NS, "k", rows)

    assert await store.get(NS, "k") == rows


async def test_tenants_do_not_see_each_other(db: Database, store: Store) -> None:
    other = Store(db.for_tenant(f"{db.tenant}-2"))
    await store.put(NS, "k", "mine", embedding=[1.0, 0.0])
    assert await other.get(NS, "k") is None
    await other.put(NS, "k", "yours", embedding=[1.0, 0.0])

    assert await store.get(NS, "k") == "mine"
    assert [hit.value for hit in await store.search(NS, "mine yours")] == ["mine"]
    nearest = await store.search_by_embedding(NS, [1.0, 0.0])
    assert [result.item.value for result in nearest] == ["mine"]
    assert await store.count((), prefix=True) == 1
    assert await other.clear_namespace((), prefix=True) == 1
    assert await store.get(NS, "k") == "mine"


async def test_another_process_sees_what_was_written(
    store: Store, reopen: Callable[[], Database]
) -> None:
    async with reopen() as elsewhere:
        other = Store(elsewhere)
        assert await other.get(NS, "k") is None
        await store.put(NS, "k", {1, 2}, {"a": 1})
        assert await other.get_item(NS, "k") == await store.get_item(NS, "k")
        assert await other.put(NS, "k", 3) == 2
        assert await store.get(NS, "k") == 3
        assert await other.delete(NS, "k")
        assert not await store.exists(NS, "k")


async def test_a_store_can_do_it_all(store: Store) -> None:
    can = store.capabilities

    assert isinstance(can, StoreCapabilities)
    assert can.search
    assert can.semantic_search
    assert can.ttl
    assert can.list_namespaces
    assert can.batch_operations
    assert can.transactions
    assert can == StoreCapabilities(True, True, None, True, True, True, True)


async def test_closing_a_store_leaves_the_database_to_others(db: Database, store: Store) -> None:
    await store.put(NS, "k", 1)
    await store.close()

    assert await Store(db).get(NS, "k") == 1


def test_an_item_goes_through_a_dict_and_comes_back() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    item = StoreItem(NS, "k", {"a": [1]}, {"m": 1}, now, now + timedelta(1), 3, now + timedelta(2))

    assert StoreItem.from_dict(item.to_dict()) == item
    assert item.to_dict()["namespace"] == list(NS)
    short = item.to_dict()
    for name in ("metadata", "version", "expires_at"):
        del short[name]
    assert StoreItem.from_dict(short) == StoreItem(
        NS, "k", {"a": [1]}, {}, now, now + timedelta(1), 1, None
    )


async def test_an_item_may_have_been_written_at_another_time_and_is_listed_by_it(
    store: Store,
) -> None:
    noon = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    await store.put(NS, "now", 0)
    await store.put(NS, "older", 1, updated_at=noon)
    await store.put(NS, "newer", 2, updated_at=noon + timedelta(microseconds=1))

    older = await store.get_item(NS, "older")
    assert older is not None
    assert (older.created_at, older.updated_at, older.version) == (noon, noon, 1)
    assert [one.key for one in await store.list_items(NS)] == ["now", "newer", "older"]

    later = noon + timedelta(seconds=1)
    await store.put(NS, "older", 3, updated_at=later, expected_version=older, ttl=60)
    again = await store.get_item(NS, "older")
    assert again is not None
    assert (again.created_at, again.updated_at, again.version) == (noon, later, 2)
    assert again.expires_at is not None
    assert again.expires_at > datetime.now(UTC)
    assert [one.key for one in await store.list_items(NS)] == ["now", "older", "newer"]
    with pytest.raises(ValueError, match="no time zone"):
        await store.put(NS, "naive", 1, updated_at=datetime(2026, 1, 1))
    assert not await store.exists(NS, "naive")

"""Many items at once: all of them or none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from store_helpers import keys_of, undone

from lifetimes import MOMENT
from memalchemy import Database, NotSerialisable, Store, TooLarge
from memalchemy.store import write

NS = ("batch",)


async def test_a_batch_writes_all_and_tells_their_versions_in_order(store: Store) -> None:
    await store.put(NS, "b", "old", {"m": 1})

    versions = await store.put_batch(
        [(NS, "c", 3, {"m": 3}), (NS, "b", 2, None), (("other",), "a", None), ((), "", [1])]
    )

    assert versions == [1, 2, 1, 1]
    assert await store.list_keys(NS) == ["b", "c"]
    item = await store.get_item(NS, "b")
    assert item is not None
    assert (item.value, item.metadata, item.version) == (2, {}, 2)
    item = await store.get_item(NS, "c")
    assert item is not None
    assert (item.value, item.metadata, item.version) == (3, {"m": 3}, 1)
    assert await store.exists(("other",), "a")
    assert await store.get((), "") == [1]


async def test_a_batch_keeps_the_times_of_creation(store: Store) -> None:
    await store.put(NS, "a", 1)
    before = await store.get_item(NS, "a")
    await store.put_batch([(NS, "a", 2), (NS, "b", 2)])
    after = await store.get_item(NS, "a")

    assert before is not None
    assert after is not None
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ((NS, "bad", object()), NotSerialisable),
        ((NS, "bad", 1, {"m": object()}), NotSerialisable),
        ((NS, "k" * 256, 1), TooLarge),
        ((("n" * 600,), "bad", 1), TooLarge),
        ((NS, 7, 1), TypeError),
        (("text", "bad", 1), TypeError),
    ],
    ids=["value", "metadata", "key", "namespace", "no key", "no namespace"],
)
async def test_with_one_bad_item_nothing_is_written(
    store: Store, bad: Any, error: type[Exception]
) -> None:
    await store.put(NS, "a", "old")
    for at in range(3):
        items: list[Any] = [(NS, "a", "new"), (NS, "b", "new")]
        items.insert(at, bad)
        with pytest.raises(error):
            await store.put_batch(items)

    item = await store.get_item(NS, "a")
    assert item is not None
    assert (item.value, item.version) == ("old", 1)
    assert await store.list_keys(NS) == ["a"]


async def test_of_an_item_given_twice_the_last_counts(store: Store) -> None:
    versions = await store.put_batch(
        [(NS, "a", 1, {"m": 1}), (NS, "b", 2), (NS, "a", 3), (("batch", "x"), "a", 4)]
    )

    assert len(versions) == 4
    item = await store.get_item(NS, "a")
    assert item is not None
    assert (item.value, item.metadata) == (3, {})
    assert versions[2] == item.version
    assert await store.count((), prefix=True) == 3


async def test_an_empty_batch_does_nothing(store: Store) -> None:
    assert await store.put_batch([]) == []
    assert await store.get_batch([]) == {}
    assert await store.list_namespaces() == []


async def test_a_batch_that_is_rolled_back_leaves_nothing(db: Database, store: Store) -> None:
    await store.put(NS, "a", "old")
    async with undone(db) as tx:
        await store.put_batch([(NS, "a", "lost"), (NS, "b", "lost")], connection=tx)
        assert await store.get_batch([(NS, "a"), (NS, "b")], connection=tx) == {
            (NS, "a"): "lost",
            (NS, "b"): "lost",
        }

    assert await store.get_batch([(NS, "a"), (NS, "b")]) == {(NS, "a"): "old"}
    assert await store.search(NS, "lost") == []


async def test_a_refused_batch_leaves_the_hosts_transaction_usable(
    db: Database, store: Store
) -> None:
    async with db.transaction() as tx:
        await store.put(NS, "a", 1, connection=tx)
        with pytest.raises(NotSerialisable):
            await store.put_batch([(NS, "b", 2), (NS, "c", object())], connection=tx)
        await store.put(NS, "d", 4, connection=tx)

    assert await store.list_keys(NS) == ["a", "d"]


async def test_a_thousand_items_go_in_and_come_out_together(store: Store) -> None:
    items = [(NS, f"k{n:04}", {"n": n, "text": f"word{n} common"}, {"n": n}) for n in range(1000)]

    assert await store.put_batch(items) == [1] * 1000
    assert await store.put_batch(items[::2]) == [2] * 500
    assert await store.count(NS) == 1000
    found = await store.get_batch([(NS, key) for _, key, *_ in items] + [(NS, "absent")])
    assert found == {(NS, key): value for _, key, value, _ in items}
    assert keys_of(await store.search(NS, "word777")) == ["k0777"]
    assert len(await store.search(NS, "common", limit=2000)) == 1000


async def test_missing_items_are_left_out_and_repeated_ones_are_given_once(store: Store) -> None:
    await store.put(NS, "a", [1])

    found = await store.get_batch([(NS, "a"), (NS, "b"), (NS, "a"), (("x",), "a")])
    assert found == {(NS, "a"): [1]}
    found[NS, "a"].append(2)
    assert await store.get_batch([(NS, "a")]) == {(NS, "a"): [1]}


async def test_what_a_batch_replaces_is_no_longer_found(store: Store) -> None:
    await store.put(NS, "a", "zeppelin", embedding=[1.0, 0.5])
    await store.put_batch([(NS, "a", "kettle"), (NS, "b", "kettle")])

    assert await store.search(NS, "zeppelin") == []
    assert sorted(keys_of(await store.search(NS, "kettle"))) == ["a", "b"]
    assert await store.get_embedding(NS, "a") is None
    assert await store.search_by_embedding(NS, [1.0, 0.5]) == []


async def test_what_a_batch_writes_is_what_puts_would_write(store: Store) -> None:
    given: list[tuple[tuple[str, ...], str, Any, dict[str, Any]]] = [
        (("a", "/", "~\x00"), "\x00\x1a\ud800", b"\x00\xff" * 9, {"b": [1, 1.0, True, None]}),
        (("é",), "", "", {"quo'te": '"\\u0000', "": {"deep": [{}]}}),
        (("é",), "\U0001f600", {"text": "Ünïcode " * 300}, {"n": 2**53 + 1, "f": 0.1}),
        ((), "none", None, {}),
    ]
    await store.put_batch(given, ttl=1000)
    batch = [await store.get_item(namespace, key) for namespace, key, _, _ in given]
    await store.clear_namespace((), prefix=True)
    for namespace, key, value, metadata in given:
        await store.put(namespace, key, value, metadata, ttl=1000)

    for written, (namespace, key, value, metadata) in zip(batch, given, strict=True):
        single = await store.get_item(namespace, key)
        assert written is not None
        assert single is not None
        assert (written.value, repr(written.metadata)) == (single.value, repr(single.metadata))
        assert (written.value, written.metadata) == (value, metadata)
        assert written.expires_at is not None
        assert written.expires_at - written.updated_at == timedelta(seconds=1000)


async def test_a_batch_of_more_than_a_statement_takes_is_written_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "BYTES_AT_ONCE", 1000)
    monkeypatch.setattr(write, "AT_ONCE", 7)
    values = {f"k{n:02}": "word " * (400 if n % 10 == 3 else n) for n in range(40)}

    assert await store.put_batch([(NS, key, value) for key, value in values.items()]) == [1] * 40

    assert await store.get_batch([(NS, key) for key in values]) == {
        (NS, key): value for key, value in values.items()
    }


async def test_an_expired_item_starts_anew_in_a_batch(store: Store) -> None:
    await store.put_batch([(NS, "gone", 1), (NS, "gone too", 1)], ttl=MOMENT)
    await store.put(NS, "here", 1)

    versions = await store.put_batch([(NS, "gone", 2), (NS, "here", 2), (NS, "gone too", 2)])

    assert versions == [1, 2, 1]

"""Keys and namespaces: any characters, no two alike, limits that are told."""

from __future__ import annotations

from typing import Any

import pytest

from memalchemy import Store, TooLarge

NS = ("users", "ada")

ODD = [
    "",
    " ",
    "a",
    "a ",
    " a",
    "A",
    "á",
    "a\u0301",
    "\x00",
    "\x1a",
    "\x1ae",
    "e",
    "%",
    "_",
    "a_b",
    "a%b",
    "a/b",
    "a~1b",
    "a:b",
    "~",
    "~~",
    "/",
    "//",
    ".",
    "..",
    "'",
    '"',
    "\\",
    "\n",
    "\u2028",
    "ß",
    "ss",
    "I",
    "ı",
    "🧵",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "null",
    "1",
    "x" * 255,
]
"""Names that collide, break or vanish in one system or another."""


async def test_names_of_any_characters_are_kept_apart(store: Store) -> None:
    places = [(NS, key) for key in ODD] + [((part,), "key") for part in ODD]
    keys = [*ODD, "\ud800", "\udfff", "\x1aud800"]
    places += [((), key) for key in keys]
    await store.put_batch([(namespace, key, [*namespace, key]) for namespace, key in places])

    together = await store.get_batch(places)
    assert len(together) == len(places)
    for namespace, key in places:
        assert together[namespace, key] == [*namespace, key]
    assert sorted(await store.list_keys(NS, limit=1000)) == sorted(ODD)
    assert sorted(await store.list_keys((), limit=1000)) == sorted(keys)
    listed = await store.list_namespaces(limit=1000)
    assert sorted(listed) == sorted([(), NS, *[(part,) for part in ODD]])
    for key in ("", "\x00", "\ud800", "a ", "\U0010ffff"):
        assert await store.get((), key) == [key]
        item = await store.get_item((), key)
        assert item is not None
        assert (item.namespace, item.key) == ((), key)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((("a", "b"), "k"), (("a/b",), "k")),
        ((("a",), "b/k"), (("a", "b"), "k")),
        ((("u",), "k:x"), (("u:k",), "x")),
        (((), "k"), (("",), "k")),
        ((("a",), "k"), (("a", ""), "k")),
        ((("", "a"), "k"), (("a", ""), "k")),
        ((("~1",), "k"), (("/",), "k")),
        ((("~0",), "k"), (("~",), "k")),
        ((("\x00",), "k"), (("~2",), "k")),
        ((("a",), ""), (("a",), "\x1ae")),
        ((("a",), "\ud800"), (("a",), "\x1aud800")),
    ],
)
async def test_places_that_are_spelt_alike_do_not_collide(
    store: Store, one: tuple[Any, str], other: tuple[Any, str]
) -> None:
    await store.put(*one, "one")
    assert await store.get(*other) is None
    await store.put(*other, "other")

    assert await store.get(*one) == "one"
    assert await store.delete(*other) is True
    assert await store.get(*one) == "one"


async def test_a_namespace_may_be_a_list_and_comes_back_a_tuple(store: Store) -> None:
    await store.put(["a", "b"], "k", 1)  # type: ignore[arg-type]

    item = await store.get_item(("a", "b"), "k")
    assert item is not None
    assert item.namespace == ("a", "b")


@pytest.mark.parametrize("namespace", ["users", ("users", 7), (None,), 7], ids=repr)
async def test_a_namespace_that_is_no_tuple_of_texts_is_refused(
    store: Store, namespace: Any
) -> None:
    with pytest.raises(TypeError):
        await store.put(namespace, "k", 1)
    with pytest.raises(TypeError):
        await store.get(namespace, "k")


async def test_a_key_that_is_no_text_is_refused(store: Store) -> None:
    for key in (7, None, b"k", ("k",)):
        with pytest.raises(TypeError):
            await store.put(NS, key, 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await store.get(NS, key)  # type: ignore[arg-type]


async def test_a_namespace_part_with_half_a_character_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="surrogate"):
        await store.put(("a", "\ud800"), "k", 1)
    assert await store.list_namespaces() == []


async def test_what_is_over_a_limit_is_refused_and_never_cut(store: Store) -> None:
    for namespace, key, metadata in (
        (NS, "k" * 256, None),
        (("n" * 511,), "k", None),
        (("🧵" * 128,), "k", None),
        (("a",) * 256, "k", None),
        (NS, "k", {"x": "m" * 32_000}),
    ):
        with pytest.raises(TooLarge) as caught:
            await store.put(namespace, key, 1, metadata)
        assert caught.value.size > caught.value.limit > 0
        assert f"{caught.value.limit:,}" in str(caught.value)
    assert await store.count((), prefix=True) == 0

    longest = [(("n" * 510,), "k" * 255), (("a",) * 255, "🧵" * 255)]
    await store.put_batch([(namespace, key, key) for namespace, key in longest])
    for namespace, key in longest:
        assert await store.get(namespace, key) == key
        await store.put(namespace, key, "needle", embedding=[1.0, 0.5])
        assert [hit.key for hit in await store.search(namespace, "needle")] == [key]

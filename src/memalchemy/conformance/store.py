"""Checks of a store: of what `Store` promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from memalchemy._together import together
from memalchemy.conformance._checks import (
    ALIKE,
    LIFETIME,
    SECONDS,
    VALUES,
    Check,
    Checks,
    each_interruption,
    expect,
    expect_equal,
    expect_error,
    expect_until_end,
    has_parameter,
    lifetime_end,
    needs_capability,
    needs_method,
    needs_parameter,
    run_checks,
    spoil,
    subject_name,
)
from memalchemy.conformance._databases import on_database
from memalchemy.conformance.report import Report
from memalchemy.errors import Conflict, NotSerialisable, TooLarge

STORE_CHECKS = Checks()
"""The checks of a store, in the order in which `check_store` runs them."""

HERE = ("conformance", "here")
WRITERS = 16


async def check_store(
    make: Callable[..., Any],
    *,
    database: str | None = None,
    checks: Iterable[Check] = STORE_CHECKS,
    timeout: float = SECONDS,  # noqa: ASYNC109 - of each check, not of this call
) -> Report:
    """Check what a store promises: the methods of `Store`, by its rules.

        report = await check_store(MyStore)
        report.raise_for_failures()

    Required are ``put``, ``get`` and ``delete``. A check of what `capabilities` deny, or of another
    method that is not there, is skipped.

    Args:
        make: returns an empty store: for each check it is called once, with a `Database` of a
            new tenant if it needs an argument. It may be a coroutine function. What it returns is
            used by ``async with``, if that is possible.
        database: the URL of a migrated database, for a *make* that takes one. What a check has
            written is erased at its end. Without it, each check has a new SQLite file.
        checks: those to run.
        timeout: the seconds that each may take.

    Raises:
        ValueError: *database* is given, and *make* takes no argument.
    """
    made = on_database(make, database)
    return await run_checks(subject_name(make), made, checks, timeout)


# --- Putting and getting -------------------------------------------------------------------------


@STORE_CHECKS("memalchemy.Store.put")
async def gets_every_type_as_it_was_put(store: Any) -> None:
    """A value is read equal, of the same types, with keys in the same order; it may be of any type
    at its top.
    """
    for key, value in {"all": VALUES, "none": None, **VALUES}.items():
        await store.put(HERE, key, value)
        expect_equal(f"the value of {key!r}", await store.get(HERE, key), value)


@STORE_CHECKS("memalchemy.Store.get")
async def an_absent_item_is_none(store: Any) -> None:
    """An item that does not exist is ``None``; a stored ``None`` exists."""
    expect_equal("an absent item", await store.get(HERE, "absent"), None)
    expect_equal("delete of an absent item", await store.delete(HERE, "absent"), False)
    await store.put(HERE, "none", None)
    expect_equal("a stored None", await store.get(HERE, "none"), None)
    if hasattr(store, "exists"):
        there = [await store.exists(HERE, key) for key in ("none", "absent")]
        expect_equal("exists", there, [True, False])


@STORE_CHECKS("memalchemy.Store.put")
async def a_put_replaces_and_counts_versions(store: Any) -> None:
    """A put replaces the value, and returns its version: 1, or one more than before."""
    versions = [await store.put(HERE, "key", {"n": n}) for n in range(3)]
    expect_equal("the versions", versions, [1, 2, 3])
    expect_equal("the value", await store.get(HERE, "key"), {"n": 2})
    expect_equal("the version of another", await store.put(HERE, "other", {}), 1)


@STORE_CHECKS("memalchemy.Store.get_item")
async def an_item_has_its_metadata_version_and_times(store: Any) -> None:
    """`get_item` returns the place, value, metadata and version of an item, and times that are
    aware UTC; a put replaces the metadata, and keeps the time of the creation.
    """
    needs_method(store, "get_item")
    began = datetime.now(UTC) - timedelta(minutes=1)
    await store.put(HERE, "key", 1, {"source": "a"})
    first = await store.get_item(HERE, "key")
    expect_equal("its place", (first.namespace, first.key), (HERE, "key"))
    expect_equal("its metadata", first.metadata, {"source": "a"})
    expect_equal("its version", first.version, 1)
    for moment in (first.created_at, first.updated_at):
        expect_equal("the offset of a time", moment.utcoffset(), timedelta(0))
        expect(began < moment < began + timedelta(hours=1), f"a time is {moment}")
    await asyncio.sleep(0.002)
    await store.put(HERE, "key", 2)
    second = await store.get_item(HERE, "key")
    expect_equal("the new item", (second.value, second.metadata, second.version), (2, {}, 2))
    expect_equal("the time of its creation", second.created_at, first.created_at)
    expect(second.updated_at > first.updated_at, "the time of its last write did not move")
    expect_equal("an absent item", await store.get_item(HERE, "absent"), None)


@STORE_CHECKS("memalchemy.Store")
async def names_that_look_alike_are_separate(store: Any) -> None:
    """Any texts, as keys and as parts of a namespace, are told apart."""
    places: list[tuple[tuple[str, ...], str]]
    places = [(HERE, name) for name in ALIKE] + [((name,), "key") for name in ALIKE]
    places += [(("a", "b"), "key"), (("a", "b", "c"), "key"), (("a", "b/c"), "key"), ((), "key")]
    for namespace, key in places:
        await store.put(namespace, key, [namespace, key])
    for namespace, key in places:
        found = await store.get(namespace, key)
        expect_equal(f"the item {key!r} of {namespace!r}", found, [namespace, key])
    await store.delete(("a", "b"), "key")
    for namespace, key in places:
        expected = None if namespace == ("a", "b") else [namespace, key]
        what = f"after another was deleted: the item {key!r} of {namespace!r}"
        expect_equal(what, await store.get(namespace, key), expected)


@STORE_CHECKS("memalchemy.Store.get")
async def values_are_the_callers_own(store: Any) -> None:
    """Changing a value or metadata that was put or read changes nothing that is stored."""
    value, metadata = {"list": [1, {"a": "b"}]}, {"tags": "x"}
    expected = deepcopy(value)
    given = {"metadata": metadata} if has_parameter(store, "put", "metadata") else {}
    await store.put(HERE, "key", value, **given)
    spoil([value, metadata])
    expect_equal("after the given was changed", await store.get(HERE, "key"), expected)
    spoil(await store.get(HERE, "key"))
    expect_equal("after the read was changed", await store.get(HERE, "key"), expected)
    if hasattr(store, "get_item"):
        item = await store.get_item(HERE, "key")
        spoil([item.value, item.metadata])
        item = await store.get_item(HERE, "key")
        expect_equal("after an item was changed", item.value, expected)
        expect_equal("the metadata", item.metadata, {"tags": "x"})


@STORE_CHECKS("memalchemy.Store.put")
async def what_cannot_be_stored_is_refused(store: Any) -> None:
    """A value that would not be read equal is `NotSerialisable`, a namespace that is one text a
    `TypeError`, a key that is too long `TooLarge`, and nothing is written.
    """
    await store.put(HERE, "key", 1)
    for value in (object(), {"a": {1: 2}}, [lambda: 1]):
        work = store.put(HERE, "key", value)
        await expect_error("a value that cannot be stored", work, NotSerialisable)
    await expect_error("a namespace that is a text", store.put("here", "key", 2), TypeError)
    await expect_error("a key that is no text", store.put(HERE, 7, 2), TypeError)
    await expect_error("a long key", store.put(HERE, "x" * 5_000, 2), TooLarge)
    expect_equal("the value", await store.get(HERE, "key"), 1)


@STORE_CHECKS("memalchemy.Store.delete")
async def a_deleted_item_begins_anew(store: Any) -> None:
    """`delete` tells whether the item existed; what is put under its key next is at version 1."""
    for key in ("key", "other"):
        await store.put(HERE, key, key)
        await store.put(HERE, key, key)
    expect_equal("delete", await store.delete(HERE, "key"), True)
    expect_equal("the deleted item", await store.get(HERE, "key"), None)
    expect_equal("a second delete", await store.delete(HERE, "key"), False)
    expect_equal("the other item", await store.get(HERE, "other"), "other")
    expect_equal("the version", await store.put(HERE, "key", "new"), 1)


# --- Conditions ----------------------------------------------------------------------------------


@STORE_CHECKS("memalchemy.Store.put")
async def an_unexpected_version_is_a_conflict(store: Any) -> None:
    """With ``expected_version=`` a put is a `Conflict` unless the item is at that version, or with
    ``None`` unless it does not exist, and changes nothing; of many at once exactly one succeeds.
    """
    needs_parameter(store, "put", "expected_version")
    work = store.put(HERE, "key", "x", expected_version=1)
    await expect_error("a put that expects an item", work, Conflict)
    expect_equal("the first", await store.put(HERE, "key", 0, expected_version=None), 1)
    work = store.put(HERE, "key", "x", expected_version=None)
    await expect_error("a put that expects none", work, Conflict)

    async def put(number: int) -> bool:
        try:
            await store.put(HERE, "key", number, expected_version=1)
        except Conflict:
            return False
        return True

    succeeded = await together(*map(put, range(1, 9)))
    expect_equal("the number that succeeded", sum(succeeded), 1)
    found = await store.get(HERE, "key")
    expect_equal("the value", found, succeeded.index(True) + 1)


@STORE_CHECKS("memalchemy.Store.change")
async def changes_at_once_lose_nothing(store: Any) -> None:
    """`change` makes the new value of the one that is there, however many do so at once; an error
    of the function changes nothing.
    """
    needs_method(store, "change")

    async def add() -> None:
        def one_more(item: Any) -> int:
            return 1 if item is None else item.value + 1

        await store.change(HERE, "count", one_more)

    await together(*(add() for _ in range(WRITERS)))
    expect_equal("the count", await store.get(HERE, "count"), WRITERS)

    def refuse(item: Any) -> int:
        raise ZeroDivisionError

    await expect_error("an error", store.change(HERE, "count", refuse), ZeroDivisionError)
    expect_equal("the count after an error", await store.get(HERE, "count"), WRITERS)


@STORE_CHECKS("memalchemy.Store.put")
async def puts_at_once_are_all_there(store: Any) -> None:
    """Of many puts at once none is lost: each key has its value, and a key that many have put has
    the value of one of them, and as many versions.
    """

    async def put(number: int) -> int:
        await store.put(HERE, f"own {number}", {"n": number})
        return int(await store.put(HERE, "shared", {"n": number, "list": [number] * 50}))

    versions = await together(*map(put, range(WRITERS)))
    expect_equal("the versions", sorted(versions), [*range(1, WRITERS + 1)])
    for number in range(WRITERS):
        found = await store.get(HERE, f"own {number}")
        expect_equal(f"the item of writer {number}", found, {"n": number})
    found = await store.get(HERE, "shared")
    expect_equal("the shared value", found["list"], [found["n"]] * 50)


@STORE_CHECKS("memalchemy.Store.put")
async def a_cancelled_put_is_whole_or_absent(store: Any) -> None:
    """A put that is cancelled, at whatever point, has happened or has not; the next one works."""
    value = {"text": "0123456789" * 2_000}

    def put(number: int) -> Any:
        return store.put(HERE, f"key {number}", value)

    async with aclosing(each_interruption(put)) as tried:
        async for number, acknowledged in tried:
            found = await store.get(HERE, f"key {number}")
            at = "after a put was cancelled"
            expect(found == value or (found is None and not acknowledged), f"{at}: {found!r:.100}")
            await store.put(HERE, f"next {number}", "next")
            expect_equal("the next put", await store.get(HERE, f"next {number}"), "next")


# --- Several items -------------------------------------------------------------------------------


@STORE_CHECKS("memalchemy.Store.put_batch")
async def a_batch_is_whole_or_absent(store: Any) -> None:
    """`put_batch` writes all items or none, the last of those with one key, and returns versions in
    the order given; `get_batch` returns those that exist, in the order asked for.
    """
    needs_capability(store, "batch_operations")
    await store.put(HERE, "b", "old")
    batch = [(HERE, "a", 1), (HERE, "b", 2, {"m": 1}), (("other",), "a", 3)]
    expect_equal("the versions", await store.put_batch(batch), [1, 2, 1])
    keys = [(("other",), "a"), (HERE, "absent"), (HERE, "b"), (HERE, "a")]
    found = await store.get_batch(keys)
    expected = {(("other",), "a"): 3, (HERE, "b"): 2, (HERE, "a"): 1}
    expect_equal("get_batch", found, expected)
    await store.put_batch([(HERE, "twice", 1), (HERE, "twice", 2)])
    expect_equal("of two with one key", await store.get(HERE, "twice"), 2)
    work = store.put_batch([(HERE, "c", 1), (HERE, "a", 9), (HERE, "d", object())])
    await expect_error("a batch with a value that cannot be stored", work, NotSerialisable)
    after = [await store.get(HERE, key) for key in ("c", "a", "d")]
    expect_equal("after it was refused", after, [None, 1, None])
    if hasattr(store, "delete_batch"):
        gone = await store.delete_batch([(HERE, "a"), (HERE, "absent"), (HERE, "b")])
        expect_equal("delete_batch", gone, 2)
        expect_equal("the deleted", await store.get_batch(keys), {(("other",), "a"): 3})


@STORE_CHECKS("memalchemy.Store.clear_namespace")
async def a_namespace_is_cleared_alone_or_with_those_below(store: Any) -> None:
    """`clear_namespace` deletes the items of a namespace, with ``prefix=True`` also those below it,
    and returns their number; one whose name begins alike stays.
    """
    needs_method(store, "clear_namespace")
    places = [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b",)]
    for namespace in places:
        await store.put(namespace, "key", 1)
    expect_equal("one", await store.clear_namespace(("a",)), 1)
    there = [await store.get(namespace, "key") for namespace in places]
    expect_equal("what is left", there, [None, 1, 1, 1, 1])
    expect_equal("with those below", await store.clear_namespace(("a",), prefix=True), 2)
    there = [await store.get(namespace, "key") for namespace in places]
    expect_equal("what is left then", there, [None, None, None, 1, 1])


@STORE_CHECKS("memalchemy.Store.list_keys")
async def keys_are_listed_in_order_of_code_points(store: Any) -> None:
    """`list_keys` returns the keys of exactly one namespace in the order of code points, at most
    the limit, those that begin with a prefix, or those beyond a key.
    """
    needs_method(store, "list_keys")
    keys = ["b", "a", "B", "a/1", "a%", "ä", "🙂", "10", "9"]
    for key in keys:
        await store.put(HERE, key, key)
    await store.put((*HERE, "below"), "c", 1)
    await store.put(("conformance",), "d", 1)
    ordered = sorted(keys)
    expect_equal("list_keys", await store.list_keys(HERE), ordered)
    expect_equal("with a limit", await store.list_keys(HERE, 3), ordered[:3])
    expect_equal("with the limit 0", await store.list_keys(HERE, 0), [])
    expect_equal("with a prefix", await store.list_keys(HERE, prefix="a"), ["a", "a%", "a/1"])
    expect_equal("with a pattern", await store.list_keys(HERE, prefix="a%"), ["a%"])
    found = await store.list_keys(HERE, after=ordered[3])
    expect_equal("beyond a key", found, ordered[4:])
    await expect_error("a negative limit", store.list_keys(HERE, -1), ValueError)


@STORE_CHECKS("memalchemy.Store.list_items")
async def items_are_listed_page_by_page(store: Any) -> None:
    """`list_items` returns the items that were written last first, or by their keys; the page after
    an item goes on there, though it was deleted.
    """
    needs_method(store, "list_items")
    for key in ("b", "d", "a", "c", "b"):
        await store.put(HERE, key, key.upper())
        await asyncio.sleep(0.002)
    await store.put((*HERE, "below"), "e", "E")
    for order, expected in (("newest", ["b", "c", "a", "d"]), ("key", ["a", "b", "c", "d"])):
        found = await store.list_items(HERE, order=order)
        expect_equal(f"by {order}", [one.key for one in found], expected)
        page = await store.list_items(HERE, order=order, limit=2)
        rest = await store.list_items(HERE, order=order, after=page[-1])
        expect_equal(f"two pages by {order}", [one.key for one in (*page, *rest)], expected)
    expect_equal("the values", [one.value for one in found], ["A", "B", "C", "D"])
    below = await store.list_items(HERE, order="key", prefix=True)
    expect_equal("with those below", [one.key for one in below], ["a", "b", "c", "d", "e"])
    await store.delete(HERE, "b")
    rest = await store.list_items(HERE, order="key", after=page[-1])
    expect_equal("after a deleted item", [one.key for one in rest], ["c", "d"])


@STORE_CHECKS("memalchemy.Store.list_namespaces")
async def namespaces_are_listed(store: Any) -> None:
    """`list_namespaces` returns those that hold an item, from a prefix on down, page by page."""
    needs_capability(store, "list_namespaces")
    for namespace in (("a",), ("a", "b"), ("a", "c"), ("ab",), ("b", "x", "y")):
        await store.put(namespace, "key", 1)
    await store.put(("gone",), "key", 1)
    await store.delete(("gone",), "key")
    found = await store.list_namespaces()
    everything = {("a",), ("a", "b"), ("a", "c"), ("ab",), ("b", "x", "y")}
    expect_equal("the namespaces", {*found}, everything)
    expect_equal("their number", len(found), len(everything))
    below = await store.list_namespaces(("a",))
    expect_equal("those below", below, [("a",), ("a", "b"), ("a", "c")])
    page = await store.list_namespaces(limit=2)
    rest = await store.list_namespaces(after=page[-1])
    expect_equal("two pages", [*page, *rest], found)


# --- Lifetimes and search ------------------------------------------------------------------------


@STORE_CHECKS("memalchemy.Store.put")
async def an_item_expires(store: Any) -> None:
    """An item with a ``ttl=`` does not exist any more, for any method, when that has passed; what
    is put under its key then is new.
    """
    needs_capability(store, "ttl")
    ends = lifetime_end()
    await store.put(HERE, "ending", 1, ttl=LIFETIME)
    await store.put(HERE, "lasting", 1, ttl=1_000)
    await expect_until_end("before its end", store.get(HERE, "ending"), 1, ends)
    expect_equal("after its end", await store.get(HERE, "ending"), None)
    expect_equal("another", await store.get(HERE, "lasting"), 1)
    if hasattr(store, "list_keys"):
        expect_equal("the keys", await store.list_keys(HERE), ["lasting"])
    expect_equal("delete", await store.delete(HERE, "ending"), False)
    expect_equal("the version of a new one", await store.put(HERE, "ending", 2), 1)
    expect_equal("the new one", await store.get(HERE, "ending"), 2)


@STORE_CHECKS("memalchemy.Store.search")
async def search_finds_words(store: Any) -> None:
    """A search finds items by their words, whatever the case and accents, the best first; nothing
    in it is an operator, and it finds nothing of another namespace, or that was replaced.
    """
    needs_capability(store, "search")
    await store.put(HERE, "both", {"text": "Der Apfel fällt vom Baum"})
    await store.put(HERE, "one", {"text": "Ein Apfel und viele andere Dinge, die es gibt"})
    await store.put(HERE, "none", {"text": "etwas anderes"})
    await store.put(HERE, "was", {"text": "Apfel"})
    await store.put(HERE, "was", {"text": "etwas"})
    await store.put(("other",), "both", {"text": "Apfel Baum"})
    for query, expected in (
        ("apfel baum", ["both", "one"]),
        ("FALLT", ["both"]),
        ("baum OR \"(*'", ["both"]),
        ("unknown", []),
        ('"', []),
    ):
        found = await store.search(HERE, query)
        expect_equal(f"the items with {query!r}", [one.key for one in found], expected)
        expect(all(0 < one.score <= 1 for one in found), "a score is not within 0 and 1")
        expect(
            [one.score for one in found] == sorted((o.score for o in found), reverse=True),
            "the best is not the first",
        )
    expect_equal("with a limit", len(await store.search(HERE, "apfel", 1)), 1)


@STORE_CHECKS("memalchemy.Store.search")
async def filters_compare_by_type(store: Any) -> None:
    """A filter finds items by fields of their values, with numbers as numbers, and by ranges."""
    needs_parameter(store, "search", "filter")
    for key, value in (("a", 1), ("b", "1"), ("c", 2), ("d", True), ("e", None)):
        await store.put(HERE, key, {"n": value})
    for wanted, expected in (
        ({"n": 1}, ["a"]),
        ({"n": "1"}, ["b"]),
        ({"n": {"$gte": 1}}, ["a", "c"]),
        ({"n": {"$in": [2, "1"]}}, ["b", "c"]),
        ({"n": 3}, []),
    ):
        found = sorted(one.key for one in await store.search(HERE, filter=wanted))
        expect_equal(f"the items with {wanted!r}", found, expected)


@STORE_CHECKS("memalchemy.Store.search_by_embedding")
async def search_finds_the_nearest(store: Any) -> None:
    """A search by a vector finds the nearest items, the best first, with scores of 0 to 1; an item
    that was put again without a vector, or deleted, is not among them.
    """
    needs_capability(store, "semantic_search")
    needs_method(store, "put_with_embedding", "search_by_embedding")
    size = store.capabilities.embedding_dimension or 3
    for key, first, second in (("far", -1, 0.1), ("near", 1, 0.1), ("between", 0.1, 1)):
        vector = [first, second, *[0.0] * (size - 2)]
        await store.put_with_embedding(HERE, key, {"key": key}, vector)
    question = [1.0] + [0.0] * (size - 1)
    found = await store.search_by_embedding(HERE, question)
    keys = [one.item.key for one in found]
    expect_equal("the items", keys, ["near", "between", "far"])
    expect(all(0 <= one.score <= 1 for one in found), "a score is not within 0 and 1")
    nearest = await store.search_by_embedding(HERE, question, limit=1)
    expect_equal("the nearest", [one.item.value for one in nearest], [{"key": "near"}])
    await store.put(HERE, "near", {"key": "without"})
    await store.delete(HERE, "far")
    found = await store.search_by_embedding(HERE, question)
    expect_equal("what is left", [one.item.key for one in found], ["between"])

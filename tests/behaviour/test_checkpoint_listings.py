"""Listings, metadata and existence: what is known without reading a state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import and_, select

from drawn_examples import examples
from memalchemy import Checkpointer, CheckpointInfo, Database, Diff, NotFound, Store, ThreadLog
from memalchemy.contracts import CheckpointerCapabilities, CheckpointerProtocol, Packed
from memalchemy.log import CHECKPOINTS, DELTAS

SHAPE = {
    "thread_id",
    "namespace",
    "checkpoint_id",
    "parent_id",
    "seq",
    "metadata",
    "created_at",
    "raw_size",
    "stored_size",
    "occurred_at",
}


def test_every_capability_is_there(checkpointer: Checkpointer) -> None:
    capabilities = checkpointer.capabilities

    assert capabilities == CheckpointerCapabilities(*[True] * 8)
    assert CheckpointerCapabilities().search is False
    assert checkpointer.deletes_single_checkpoints is True
    assert isinstance(checkpointer, CheckpointerProtocol)
    assert not isinstance(Store(Database("sqlite://")), CheckpointerProtocol)


async def test_checkpoints_are_listed_newest_first_up_to_the_limit(
    checkpointer: Checkpointer,
) -> None:
    ids = [await checkpointer.save({"n": n}, "thread") for n in range(15)]

    assert await checkpointer.list_checkpoints("thread") == ids[:4:-1]
    assert await checkpointer.list_checkpoints("thread", 3) == ids[:11:-1]
    assert await checkpointer.list_checkpoints("thread", 0) == []
    assert await checkpointer.list_checkpoints("no such thread") == []


@pytest.mark.parametrize("limit", [-1, True, 1.5, "3"])
async def test_a_limit_that_is_no_number_of_results_is_refused(
    checkpointer: Checkpointer, limit: Any
) -> None:
    with pytest.raises((ValueError, TypeError)):
        await checkpointer.list_checkpoints("thread", limit)


async def test_history_pages_through_any_number_of_checkpoints(checkpointer: Checkpointer) -> None:
    ids = [await checkpointer.save({"n": n}, "thread", f"c{n}") for n in range(1005)]

    history = [info async for info in checkpointer.history("thread")]
    assert [info.checkpoint_id for info in history] == ids[::-1]
    assert [info.seq for info in history] == sorted((info.seq for info in history), reverse=True)
    assert [i.checkpoint_id async for i in checkpointer.history("thread", limit=600)] == ids[
        :404:-1
    ]
    before = [i.checkpoint_id async for i in checkpointer.history("thread", before="c5", limit=2)]
    assert before == ["c4", "c3"]
    assert [i async for i in checkpointer.history("thread", limit=0)] == []
    assert [i async for i in checkpointer.history("no such thread")] == []


async def test_info_says_what_is_known(checkpointer: Checkpointer) -> None:
    started = datetime.now(UTC)
    parent = await checkpointer.save({"n": 1}, "thread")
    made = await checkpointer.save({"text": "x" * 1000}, "thread", metadata={"k": [1, {"a": None}]})

    (info,) = [info async for info in checkpointer.history("thread", limit=1)]
    assert isinstance(info, CheckpointInfo)
    assert (info.thread_id, info.checkpoint_id, info.parent_id) == ("thread", made, parent)
    assert info.metadata == {"k": [1, {"a": None}]}
    assert timedelta(0) <= info.created_at - started < timedelta(minutes=1)
    assert info.created_at.utcoffset() == timedelta(0)
    assert info.raw_size > 1000 > info.stored_size > 0


async def test_metadata_has_one_shape_everywhere(checkpointer: Checkpointer) -> None:
    made = await checkpointer.save({"word": "unmistakable"}, "thread", metadata={"k": "v"})
    expected = await checkpointer.get_metadata("thread", made)

    assert expected is not None
    assert set(expected) == SHAPE
    assert expected["checkpoint_id"] == made
    assert expected["created_at"].tzinfo is not None
    assert await checkpointer.get_metadata("thread") == expected
    assert await checkpointer.list_with_metadata() == [expected]
    assert await checkpointer.query_by_metadata("k", "v") == [expected]
    (hit,) = await checkpointer.search("unmistakable")
    assert {key: hit[key] for key in SHAPE} == expected
    assert await checkpointer.get_metadata("thread", "nobody") is None
    assert await checkpointer.get_metadata("nobody") is None


async def test_existence(checkpointer: Checkpointer) -> None:
    made = await checkpointer.save({}, "thread")

    assert await checkpointer.exists("thread") is True
    assert await checkpointer.exists("thread", made) is True
    assert await checkpointer.exists("thread", "nobody") is False
    assert await checkpointer.exists("nobody") is False


async def test_threads_are_listed_by_their_last_save(checkpointer: Checkpointer) -> None:
    for thread_id in ("a", "b", "c", "a"):
        await checkpointer.save({}, thread_id)

    assert await checkpointer.list_threads() == ["a", "c", "b"]
    assert await checkpointer.list_threads(2) == ["a", "c"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", {"user:1", "user:2", "User:1", "user[x]", "100%", "a_b", "axb"}),
        ("user:*", {"user:1", "user:2"}),
        ("?ser:1", {"user:1", "User:1"}),
        ("user:[2-9]", {"user:2"}),
        ("user[[]x]", {"user[x]"}),
        ("100%", {"100%"}),
        ("a_b", {"a_b"}),
        ("*b", {"a_b", "axb"}),
        ("nothing*", set()),
    ],
)
async def test_threads_are_found_by_a_case_sensitive_glob(
    checkpointer: Checkpointer, pattern: str, expected: set[str]
) -> None:
    for thread_id in ("user:1", "user:2", "User:1", "user[x]", "100%", "a_b", "axb"):
        await checkpointer.save({}, thread_id)

    assert set(await checkpointer.list_threads(pattern=pattern)) == expected


async def test_threads_are_counted_by_a_glob(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.log.listing.PAGE", 3)
    for n in range(10):
        await checkpointer.save({"n": n}, f"{'a' if n % 2 else 'b'}-{n}")
    await checkpointer.delete("a-1")

    assert await checkpointer.count_threads() == 9
    assert await checkpointer.count_threads("a-*") == 4
    assert await checkpointer.count_threads("A-*") == 0
    assert await checkpointer.list_threads(2, "a-*") == ["a-9", "a-7"]


async def test_a_glob_looks_through_every_page_of_threads(db: Database) -> None:
    checkpointer = Checkpointer(db, index_text=False)
    for n in range(1100):
        await checkpointer.save({}, f"thread-{n:04}")

    assert await checkpointer.list_threads(pattern="*-0007") == ["thread-0007"]
    assert len(await checkpointer.list_threads(limit=2000, pattern="thread-*")) == 1100


VALUES = ["text", "", "1", 1, 1.5, -7, 2**53, True, False, None, [1, "a"], {"x": {"y": [None]}}, []]


SCALARS = (
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
CONTAINERS = st.recursive(
    st.lists(SCALARS, min_size=1, max_size=3) | st.dictionaries(NAMES, SCALARS, max_size=3),
    lambda inside: (
        st.lists(inside, min_size=1, max_size=3) | st.dictionaries(NAMES, inside, max_size=3)
    ),
    max_leaves=6,
)
"""Objects and arrays as metadata has them."""


async def test_metadata_is_found_by_key_and_value(checkpointer: Checkpointer) -> None:
    ids = {
        repr(value): await checkpointer.save({}, "thread", metadata={"key": value, "other": "text"})
        for value in VALUES
    }

    for value in VALUES:
        found = await checkpointer.query_by_metadata("key", value)
        assert [f["checkpoint_id"] for f in found] == [ids[repr(value)]], value
        assert found[0]["metadata"]["key"] == value
    assert await checkpointer.query_by_metadata("missing", None) == []
    assert await checkpointer.query_by_metadata("key", "tex") == []


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(containers=st.lists(CONTAINERS, min_size=1, max_size=8, unique_by=repr))
async def test_objects_and_arrays_are_found_whatever_is_in_them(
    checkpointer: Checkpointer, containers: list[Any]
) -> None:
    named = {f"key{number}": container for number, container in enumerate(containers)}
    thread = uuid4().hex
    await checkpointer.save({}, thread, "c", metadata=named)

    for key, container in named.items():
        found = await checkpointer.query_by_metadata(key, container)
        assert thread in [one["thread_id"] for one in found], container
    await checkpointer.forget(metadata=named)
    assert not await checkpointer.exists(thread)


async def test_numbers_compare_as_numbers_and_booleans_as_booleans(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({}, "thread", "one", metadata={"k": 1})
    await checkpointer.save({}, "thread", "true", metadata={"k": True})

    for value in (1, 1.0):
        assert [f["checkpoint_id"] for f in await checkpointer.query_by_metadata("k", value)] == [
            "one"
        ]
    found = await checkpointer.query_by_metadata("k", True)
    assert [f["checkpoint_id"] for f in found] == ["true"]


@pytest.mark.parametrize(
    "key",
    [
        "a.b",
        'we"ird',
        "it's",
        "$",
        "[0]",
        "a b",
        "é東京",
        "'; DROP TABLE threads; --",
        "",
        "\\",
        "%_",
    ],
)
async def test_any_text_is_a_key_and_a_value(checkpointer: Checkpointer, key: str) -> None:
    made = await checkpointer.save({}, "thread", metadata={key: key, "x" + key: 0})
    await checkpointer.save({}, "thread", metadata={key: key + "x"})

    found = await checkpointer.query_by_metadata(key, key)
    assert [f["checkpoint_id"] for f in found] == [made]


async def test_long_values_that_begin_alike_are_told_apart(checkpointer: Checkpointer) -> None:
    start = "x" * 500
    made = await checkpointer.save({}, "thread", metadata={"k": start + "a"})
    await checkpointer.save({}, "thread", metadata={"k": start + "b"})

    found = await checkpointer.query_by_metadata("k", start + "a")
    assert [f["checkpoint_id"] for f in found] == [made]


@pytest.mark.parametrize(
    ("wanted", "other"),
    [
        ("x" * 500 + "a", "x" * 500 + "b"),
        (1_000_000_000_000_001, 1_000_000_000_000_002),
        ({"a": 1}, {"a": 2}),
    ],
    ids=["long texts", "long numbers", "objects"],
)
async def test_the_newest_are_found_behind_newer_ones_that_are_nearly_equal(
    checkpointer: Checkpointer, wanted: Any, other: Any
) -> None:
    for n, value in enumerate([wanted] * 3 + [other] * 3 + [wanted]):
        await checkpointer.save({}, f"t{n % 2}", f"c{n}", metadata={"k": value})

    for limit, names in ((1, ["c6"]), (2, ["c6", "c2"]), (9, ["c6", "c2", "c1", "c0"]), (0, [])):
        found = await checkpointer.query_by_metadata("k", wanted, limit)
        assert [f["checkpoint_id"] for f in found] == names


async def test_metadata_is_a_copy_of_the_infos(checkpointer: Checkpointer) -> None:
    await checkpointer.save({}, "thread", metadata={"k": {"deep": [1]}})
    (info,) = [info async for info in checkpointer.history("thread")]

    info.as_dict()["metadata"]["k"]["deep"].append(2)

    assert info.metadata == {"k": {"deep": [1]}}


async def test_metadata_matches_come_newest_first_and_forget_what_was_replaced(
    checkpointer: Checkpointer,
) -> None:
    ids = [await checkpointer.save({}, f"t{n}", f"c{n}", metadata={"k": "v"}) for n in range(5)]
    await checkpointer.save({}, "t4", "c4", metadata={"k": "other"})
    await checkpointer.delete("t0")

    found = await checkpointer.query_by_metadata("k", "v", limit=2)
    assert [f["checkpoint_id"] for f in found] == [ids[3], ids[2]]
    assert len(await checkpointer.query_by_metadata("k", "v")) == 3


async def test_the_newest_checkpoints_of_all_threads(checkpointer: Checkpointer) -> None:
    for n in range(6):
        await checkpointer.save({"n": n}, f"t{n % 3}", f"c{n}")

    listed = await checkpointer.list_with_metadata(4)
    assert [entry["checkpoint_id"] for entry in listed] == ["c5", "c4", "c3", "c2"]


async def test_a_short_list_is_the_beginning_of_a_longer_one(checkpointer: Checkpointer) -> None:
    """Copies of a checkpoint have its time: their order is another's, and the same each time."""
    await checkpointer.save({"n": 0}, "source", "a", metadata={"k": "v"})
    for name in ("zz", "b", "t3", "f3", "q", "a*b"):
        await checkpointer.copy_thread("source", name)

    threads = [entry["thread_id"] for entry in await checkpointer.list_with_metadata(10)]
    assert sorted(threads) == ["a*b", "b", "f3", "q", "source", "t3", "zz"]
    for limit in range(1, 8):
        listed = await checkpointer.list_with_metadata(limit)
        found = await checkpointer.query_by_metadata("k", "v", limit)
        assert [entry["thread_id"] for entry in listed] == threads[:limit]
        assert [entry["thread_id"] for entry in found] == threads[:limit]


@pytest.mark.parametrize("beside", ["nothing", "writes", "entries", "nameless states"])
async def test_whole_states_are_counted_whatever_else_the_log_holds(
    db: Database, checkpointer: Checkpointer, beside: str
) -> None:
    for n in range(9):
        await checkpointer.save({"text": "word " * 50, "n": n}, "thread", f"c{n}")
        if beside == "writes":
            await checkpointer.put_writes([("said", n)], "thread", f"c{n}", "task")
        if beside == "entries":
            await ThreadLog(db).append("thread", [n])
    kinds = dict.fromkeys(("snapshot", "delta"), 0)
    if beside == "nameless states":
        assert await checkpointer.delete("thread", "c0")
    named = (
        select(DELTAS.c.kind)
        .join(
            CHECKPOINTS,
            and_(DELTAS.c.log_id == CHECKPOINTS.c.log_id, DELTAS.c.seq == CHECKPOINTS.c.seq),
        )
        .where(DELTAS.c.tenant == db.tenant)
    )
    for kind in await db.run_sync(lambda c: c.scalars(named).all()):
        kinds[kind] += 1
    assert kinds["delta"]

    stats = await checkpointer.get_storage_stats("thread")

    assert stats["full_checkpoints"] == kinds["snapshot"]
    assert stats["delta_checkpoints"] == kinds["delta"]
    assert stats["total_checkpoints"] == sum(kinds.values())


async def test_storage_statistics(checkpointer: Checkpointer) -> None:
    empty = await checkpointer.get_storage_stats("thread")
    assert empty == {
        "total_checkpoints": 0,
        "total_size": 0,
        "compressed_size": 0,
        "compression_ratio": 1.0,
        "full_checkpoints": 0,
        "delta_checkpoints": 0,
    }

    for n in range(20):
        messages = [f"message number {i}" for i in range(n * 10)]
        await checkpointer.save({"messages": messages}, "thread")
    stats = await checkpointer.get_storage_stats("thread")
    history = [info async for info in checkpointer.history("thread")]

    assert stats["total_checkpoints"] == 20
    assert stats["full_checkpoints"] + stats["delta_checkpoints"] == 20
    assert stats["total_size"] == sum(info.raw_size for info in history)
    assert stats["compressed_size"] == sum(info.stored_size for info in history)
    assert stats["compression_ratio"] == stats["total_size"] / stats["compressed_size"] > 5


async def test_a_difference_is_told_in_json_pointers(checkpointer: Checkpointer) -> None:
    a = await checkpointer.save({"a/b": {"~": 1, "gone": [1]}, "list": [1, 2], "same": "x"}, "t")
    b = await checkpointer.save({"a/b": {"~": 2}, "list": [1, 3, {"n": 4}], "same": "x"}, "t")

    diff = await checkpointer.diff("t", a, b)
    assert diff == Diff(
        added={"/list/2": {"n": 4}},
        removed={"/a~1b/gone": [1]},
        changed={"/a~1b/~0": (1, 2), "/list/1": (2, 3)},
    )
    back = await checkpointer.diff("t", b, a)
    assert (back.added, back.removed) == (diff.removed, diff.added)
    assert not await checkpointer.diff("t", a, a)


async def test_a_difference_tells_types_apart(checkpointer: Checkpointer) -> None:
    a = await checkpointer.save({"x": 1, "y": (1,), "z": float("nan")}, "t")
    b = await checkpointer.save({"x": True, "y": [1], "z": float("nan")}, "t")

    assert set((await checkpointer.diff("t", a, b)).changed) == {"/x", "/y"}


async def test_what_a_framework_has_packed_differs_by_its_content(
    checkpointer: Checkpointer,
) -> None:
    empty, null = Packed("memalchemy:empty", b""), Packed("null", b"")
    one, two = (Packed("msgpack", ormsgpack.packb({"n": n, "same": [1]})) for n in (1, 2))
    before = {"gone": one, "never": empty, "null": null, "n": one, "made": null}
    after = {"gone": empty, "null": null, "n": two, "made": one, "new": null}
    a = await checkpointer.save(before, "t")
    b = await checkpointer.save(after, "t")

    found = await checkpointer.diff("t", a, b)

    assert found.removed == {"/gone": one}
    assert found.changed == {"/n/n": (1, 2), "/made": (None, {"n": 1, "same": [1]})}
    assert found.added == {"/new": null}


async def test_a_difference_to_nothing_is_not_found(checkpointer: Checkpointer) -> None:
    a = await checkpointer.save({}, "t")

    with pytest.raises(NotFound, match="nobody"):
        await checkpointer.diff("t", a, "nobody")


async def test_listing_reads_what_another_process_wrote(
    checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    await checkpointer.save({}, "thread", "mine")
    async with reopen() as other:
        await Checkpointer(other).save({}, "thread", "theirs")

    assert await checkpointer.list_checkpoints("thread") == ["theirs", "mine"]


@pytest.mark.parametrize("start", ["\x00", "\x1a", "\ud800", "\U0010ffff", "\ud7ff", "", "é"])
async def test_a_glob_may_start_with_any_character(checkpointer: Checkpointer, start: str) -> None:
    await checkpointer.save({}, start + "a")
    await checkpointer.save({}, "zzz")

    assert await checkpointer.list_threads(pattern=start + "a*") == [start + "a"]


async def test_a_checkpoint_that_is_replaced_is_found_by_the_metadata_that_it_kept(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 1}, "thread", "one", {"seed": 1, "mood": "calm"})
    await checkpointer.save({"n": 2}, "thread", "one", {"seed": 1, "mood": "wild"})

    assert [hit["checkpoint_id"] for hit in await checkpointer.query_by_metadata("seed", 1)] == [
        "one"
    ]
    assert await checkpointer.query_by_metadata("mood", "calm") == []


async def test_of_what_a_framework_has_packed_the_inside_is_compared(
    checkpointer: Checkpointer,
) -> None:
    def packed(value: object, format: str = "msgpack") -> Packed:
        return Packed(format, ormsgpack.packb(value))

    first = {"said": packed(["a"]), "same": packed({"n": 1}), "odd": packed(1, "theirs")}
    then = {"said": packed(["a", {"b": 2}]), "same": packed({"n": 1}), "odd": packed(2, "theirs")}
    a = await checkpointer.save(first, "t")
    b = await checkpointer.save(then, "t")

    found = await checkpointer.diff("t", a, b)
    assert found.added == {"/said/1": {"b": 2}}
    assert found.changed == {"/odd": (first["odd"], then["odd"])}


async def test_threads_are_listed_from_an_offset_on(checkpointer: Checkpointer) -> None:
    for n in range(7):
        await checkpointer.save({}, f"{'even' if n % 2 == 0 else 'odd'}-{n}")

    assert await checkpointer.list_threads(2, offset=3) == ["odd-3", "even-2"]
    assert await checkpointer.list_threads(10, "even-*", offset=1) == ["even-4", "even-2", "even-0"]
    assert await checkpointer.list_threads(offset=7) == []
    with pytest.raises(ValueError, match="negative"):
        await checkpointer.list_threads(offset=-1)


async def test_what_is_found_has_its_state_if_that_is_wanted(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"topic": "tea"}, "t", "one", {"kind": "note"})
    await checkpointer.save({"topic": "tea", "more": "biscuits"}, "t", "two", {"kind": "note"})

    by_metadata = await checkpointer.query_by_metadata("kind", "note", data=True)
    assert [one["data"] for one in by_metadata] == [
        {"topic": "tea", "more": "biscuits"},
        {"topic": "tea"},
    ]
    (by_words,) = await checkpointer.search("biscuits", data=True)
    assert by_words["data"] == {"topic": "tea", "more": "biscuits"}
    assert (by_words["checkpoint_id"], by_words["score"]) == ("two", 1.0)
    (by_another_form,) = await checkpointer.search("biscuit")
    assert by_another_form["score"] <= 0.45
    assert await checkpointer.search("bisc") == [], "a part of a word is none"
    (plain,) = await checkpointer.search("biscuits")
    assert "data" not in plain
    assert "data" not in (await checkpointer.query_by_metadata("kind", "note"))[0]


async def test_states_below_a_namespace_are_found_with_their_own_data(db: Database) -> None:
    await Checkpointer(db, namespace=("a",)).save({"words": "apricot"}, "t", "same")
    await Checkpointer(db, namespace=("b",)).save({"words": "apricot jam"}, "t", "same")

    found = await Checkpointer(db).search("apricot", below=True, data=True)
    assert {one["namespace"]: one["data"] for one in found} == {
        ("a",): {"words": "apricot"},
        ("b",): {"words": "apricot jam"},
    }


async def test_threads_are_found_by_a_field_of_their_newest_state(
    checkpointer: Checkpointer,
) -> None:
    for n in range(4):
        await checkpointer.save({"agent_id": "old", "n": n}, f"t{n}", metadata={"n": n})
    for n in (1, 3):
        await checkpointer.save({"agent_id": "a7", "n": n, "deep": {"n": [n]}}, f"t{n}", f"c{n}")

    found = await checkpointer.search_data("agent_id", "a7")
    assert [(one["thread_id"], one["checkpoint_id"]) for one in found] == [
        ("t3", "c3"),
        ("t1", "c1"),
    ]
    assert found[0]["data"] == {"agent_id": "a7", "n": 3, "deep": {"n": [3]}}
    assert set(found[0]) == {*(await checkpointer.get_metadata("t3") or ()), "data"}
    assert len(await checkpointer.search_data("agent_id", "a7", 1)) == 1
    assert await checkpointer.search_data("agent_id", "a7", limit=0) == []
    assert [one["thread_id"] for one in await checkpointer.search_data("agent_id", "old")] == [
        "t2",
        "t0",
    ]
    assert [one["thread_id"] for one in await checkpointer.search_data("/deep/n/0", 3)] == ["t3"]
    assert await checkpointer.search_data("n", True) == []
    assert await checkpointer.search_data("nothing", None) == []


async def test_a_field_is_looked_for_in_so_many_threads_and_no_more(
    checkpointer: Checkpointer,
) -> None:
    for n in range(6):
        await checkpointer.save({"n": n}, f"t{n}")

    assert await checkpointer.search_data("n", 0, among=5) == []
    assert len(await checkpointer.search_data("n", 0, among=6)) == 1
    assert len(await checkpointer.search_data("n", 0)) == 1


async def test_any_key_of_a_state_can_be_looked_for(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"$ref": 1, "a~/b": 2, "": 3}, "t")

    for key, value in {"$ref": 1, "a~/b": 2, "": 3, "/a~0~1b": 2}.items():
        assert len(await checkpointer.search_data(key, value)) == 1, key


async def test_the_newest_checkpoints_are_those_that_were_saved_last(
    checkpointer: Checkpointer,
) -> None:
    """Pending writes, entries and forks of an old thread make none of its checkpoints newer."""
    for thread in ("old", "middle", "new"):
        await checkpointer.save({"who": thread}, thread, f"of {thread}")
    await checkpointer.put_writes([("channel", 1)], "old", "of old", "task")
    await checkpointer.fork("old", new_thread_id="fork of old")
    await checkpointer.put_writes([("channel", 1)], "middle", "of middle", "task")

    listed = await checkpointer.list_with_metadata(2)

    assert [one["checkpoint_id"] for one in listed] == ["of new", "of middle"]
    everything = await checkpointer.list_with_metadata()
    assert [one["thread_id"] for one in everything[:2]] == ["new", "middle"]
    assert {one["thread_id"] for one in everything[2:]} == {"old", "fork of old"}

"""Paths of pathlib and scalars of numpy come back equal and of their types, on every road."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import orjson
import pytest

from memalchemy import Checkpointer, Database, KeyValue, NotSerialisable, Store, ThreadLog
from memalchemy.codec.values import from_jsonable
from memalchemy.store.jsonl import export_items, import_items

VALUES: dict[str, Any] = {
    "path": Path("/tmp/report.txt"),
    "pure": [PurePosixPath("a/b"), PureWindowsPath("C:\\a\\b")],
    "numbers": (np.float64(0.1), np.int64(-3), np.float32("nan"), np.bool_(True)),
    "times": {np.datetime64("2026-01-02T03:04:05.678"), np.timedelta64(5, "s")},
    "plain": [1, 2.5, "text"],
}


def same(found: Any) -> bool:
    """Whether *found* is `VALUES`, types included: their texts name them."""
    return {k: v for k, v in found.items() if k != "times"}.__repr__() == {
        k: v for k, v in VALUES.items() if k != "times"
    }.__repr__() and found["times"] == VALUES["times"]


async def test_they_come_back_from_a_checkpointer(db: Database) -> None:
    checkpointer = Checkpointer(db)
    first = await checkpointer.save(VALUES, "t")
    second = await checkpointer.save(VALUES | {"path": Path("/tmp/other.txt")}, "t")
    await checkpointer.put_writes([("c", VALUES)], "t", second, "task")

    loaded = await checkpointer.load("t", first)
    snapshot = await checkpointer.snapshot("t", second)

    assert same(loaded)
    assert snapshot is not None
    assert same(snapshot.writes[0].value)
    assert (await checkpointer.diff("t", first, second)).changed == {
        "/path": (Path("/tmp/report.txt"), Path("/tmp/other.txt"))
    }


async def test_they_come_back_from_items_entries_and_keys(db: Database) -> None:
    store, log, keys = Store(db), ThreadLog(db), KeyValue(db)
    await store.put(("files",), "k", VALUES)
    await log.append("t", [VALUES])
    await keys.write("k", VALUES)

    assert same(await store.get(("files",), "k"))
    assert same((await log.tail("t", 1))[0].value)
    assert same(await keys.read("k"))


async def test_they_come_back_from_an_export(db: Database) -> None:
    store, checkpointer = Store(db), Checkpointer(db)
    await store.put(("files",), "k", VALUES)
    await checkpointer.save(VALUES, "t")
    lines = [orjson.dumps(record) async for record in export_items(store, ("files",))]
    states = [record async for record in checkpointer.export(thread_id="t")]
    await store.delete(("files",), "k")

    async for batch in import_items(store, lines):
        assert batch.counts["imported"] == 1

    assert same(await store.get(("files",), "k"))
    whole = json.loads(json.dumps(states[0], default=str))
    assert same(from_jsonable(whole["state"]))


async def test_filters_compare_numbers_of_numpy_as_numbers_and_paths_as_paths(db: Database) -> None:
    store = Store(db)
    await store.put(("n",), "three", {"n": np.int64(3)})
    await store.put(("n",), "four", {"n": np.float32(4)})

    found = await store.search(("n",), filter={"n": {"$eq": 3}})
    more = await store.search(("n",), filter={"n": {"$gt": np.int32(3)}})

    await store.put(("n",), "path", {"n": PurePosixPath("a/b")})
    paths = await store.search(("n",), filter={"n": PurePosixPath("a/b")})

    assert [hit.key for hit in paths] == ["path"]
    assert [hit.key for hit in found] == ["three"]
    assert [hit.key for hit in more] == ["four"]


async def test_the_words_of_a_path_are_found_and_not_the_name_of_its_class(db: Database) -> None:
    checkpointer = Checkpointer(db)
    db.keyring.check_readable("text", "a search")
    await checkpointer.save({"path": PurePosixPath("reports/summer")}, "t")

    assert [hit["thread_id"] for hit in await checkpointer.search("summer")] == ["t"]
    assert await checkpointer.search("PurePosixPath") == []


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        (np.array([1, 2]), "x.tolist()"),
        (np.str_("text"), "x.item()"),
        (PureWindowsPath, "storable are"),
    ],
    ids=["array", "text", "class"],
)
async def test_what_would_not_come_back_is_refused_with_what_to_store(
    db: Database, value: Any, instead: str
) -> None:
    with pytest.raises(NotSerialisable) as refused:
        await Checkpointer(db).save({"a": [value]}, "t")

    assert refused.value.path == "/a/0"
    assert instead in str(refused.value)
    assert not await Checkpointer(db).exists("t")

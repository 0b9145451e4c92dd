"""Items as JSON lines, from Python: what a store's own settings mean, and what others do."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.dialects import sqlite

from memalchemy import Database, Store
from memalchemy.search.vectors import vectors_of_items
from memalchemy.store import jsonl
from memalchemy.store import read as reads
from memalchemy.store.jsonl import export_items, import_items

pytestmark = pytest.mark.asyncio_only(reason="the functions take an asynchronous Store alone")


async def exported(store: Store, **more: Any) -> list[bytes]:
    return [
        json.dumps(record).encode() async for record in export_items(store, prefix=True, **more)
    ]


async def imported(store: Store, given: list[bytes], **more: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    async for batch in import_items(store, given, **more):
        counts += batch.counts
    return counts


def numbered(count: int, **more: Any) -> list[bytes]:
    items = ({"namespace": ["n"], "key": f"{n:04}", "value": n} | more for n in range(count))
    return [json.dumps(item).encode() for item in items]


async def test_two_that_import_the_same_items_write_each_once(db: Database) -> None:
    given = numbered(700)

    found = await asyncio.gather(*(imported(Store(db), given) for _ in range(3)))

    assert sum(found, Counter()) == Counter(imported=700, unchanged=1400)
    items = await Store(db).list_items(("n",), limit=1000)
    assert {item.version for item in items} == {1}
    assert len(items) == 700


async def test_a_batch_is_written_whole_or_not_at_all(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "BATCH", 3)
    store = Store(db)
    await store.put(("n",), "0004", "another")

    counts = await imported(store, numbered(9))

    assert counts == Counter(imported=6, conflict=1, left=2)
    assert await store.list_keys(("n",)) == ["0000", "0001", "0002", "0004", "0006", "0007", "0008"]


async def test_long_lines_end_a_batch_earlier(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "BATCH_BYTES", 100)

    batches = [batch.counts async for batch in import_items(Store(db), numbered(9))]

    assert len(batches) > 2
    assert sum(batches, Counter()) == Counter(imported=9)


async def test_neither_the_embedder_nor_the_lifetimes_of_the_store_change_what_is_imported(
    db: Database,
) -> None:
    def embedder(texts: list[str]) -> list[list[float]]:
        raise AssertionError("was asked")

    store = Store(db, embedder=embedder, ttl=3600)

    assert await imported(store, numbered(2, value="words")) == Counter(imported=2)

    item = await store.get_item(("n",), "0001")
    assert item is not None
    assert item.expires_at is None
    assert await store.get_embedding(("n",), "0001") is None


async def test_vectors_are_exported_of_every_page(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "PAGE", 2)
    store = Store(db)
    for n in range(5):
        await store.put(
            ("n",), f"k{n}\udc80", n, embedding={"b": [1.0, n], "a": [[n, 1.0], [0.1, 2]]}
        )
    await store.put(("n",), "without", 1)

    records = [json.loads(line) for line in await exported(store, vectors=True)]

    assert [len(record["vectors"]) for record in records] == [3] * 5 + [0]
    assert [(v["field"], v["part"], v["vector"]) for v in records[4]["vectors"]] == [
        ("a", 0, [4, 1]),
        ("a", 1, [0.1, 2]),
        ("b", 0, [1, 4]),
    ]
    assert all("vectors" not in json.loads(line) for line in await exported(store))


async def test_imported_items_are_found_by_their_words_fields_and_vectors(db: Database) -> None:
    store = Store(db)
    vector = {"field": "", "model": "default", "part": 0, "vector": [1.0, 0.0]}
    given = numbered(3, value={"text": "green tea"}, metadata={"kind": "note"}, vectors=[vector])
    await imported(store, given)

    assert len(await store.search(("n",), "tea", filter={"kind": "note"})) == 3
    assert len(await store.search_by_embedding(("n",), [1.0, 0.1])) == 3
    await imported(store, numbered(3), on_conflict="overwrite")
    assert await store.search(("n",), "tea") == []
    assert await store.get_embedding(("n",), "0001") is None


@pytest.mark.parametrize(
    "read",
    [
        partial(reads.read_items, words=False),
        partial(vectors_of_items, as_stored=False, alive=False, signed=False),
    ],
    ids=["items", "vectors"],
)
def test_sqlite_looks_listed_items_up_by_their_key(read: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/plans.db"
    asyncio.run(_made(url))
    d = Database(url).dialect
    sql = str(read(d).compile(dialect=sqlite.dialect(paramstyle="named")))
    with closing(sqlite3.connect(tmp_path / "plans.db")) as connection:
        names = set(re.findall(r":(\w+)", sql))
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", dict.fromkeys(names)).fetchall()

    assert "(tenant=? AND namespace=? AND key=?" in plan[0][3]


async def _made(url: str) -> None:
    async with Database(url) as db:
        await Store(db).put(("n",), "k", 1)

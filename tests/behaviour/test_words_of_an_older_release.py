"""Words of an older release are found as before, and made anew by rebuild_words.

The rows of these tests are written by the rules of version 1 of the tokens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from older_words import an_older_release, forget_the_words_version
from sqlalchemy import text

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.codec.encryption import generate_key
from memalchemy.inspection import Inspector
from memalchemy.transfer import copy
from memalchemy.verify import verify
from memalchemy.words import rebuild_words

NS = ("notes",)
KEY = generate_key()

TEXTS = {
    "english": "The ferry leaves at noon",
    "german": "Die Fähre fährt um zwölf in Łódź",
    "russian": "Паром уходит в полдень",
    "chinese": "他住在北京，喜欢喝绿茶",
    "japanese": "東京の天気は晴れです",
    "korean": "데이터베이스를 만들다",
    "thai": "ภาษาไทยง่าย",
    "hindi": "मेल और मूल",
    "arabic": "العربيّة جميلة",
}

BEFORE = {
    "english": "ferry",
    "german": "fahre zwölf",
    "russian": "паром",
    "chinese": "北京",
    "japanese": "東京",
    "korean": "데이터",
    "thai": "ภาษาไทยง่าย",
    "hindi": "मेल",
    "arabic": "العربية",
}
"""Queries that an older release answered with the text."""

SINCE = BEFORE | {
    "german": "lodz",
    "chinese": "北京的茶",
    "thai": "ไทย",
}
"""Queries by which this release finds words of its own."""

NOWHERE = {"hindi": "मिल"}
"""Queries for words that are in no text, and that an older release took for one that is."""

Reopen = Callable[[], Database]

pytestmark = [
    pytest.mark.usefixtures("lasting"),
    pytest.mark.own_keys,
    pytest.mark.own_signing_keys,
]


@pytest.fixture(params=["plain", "signed"])
def reopen(database_url: str, request: pytest.FixtureRequest) -> Reopen:
    """Open a database of the test's own: what is noted about words is about all tenants."""
    keys = [KEY] if request.param == "signed" else None
    return lambda: Database(database_url, migrate="upgrade", signing_keys=keys)


@pytest.fixture
async def db(reopen: Reopen) -> AsyncIterator[Database]:
    async with reopen() as db:
        yield db


async def fill(db: Database) -> None:
    with an_older_release():
        await Store(db).put_batch([(NS, name, {"text": of}) for name, of in TEXTS.items()])
        await ThreadLog(db).append("thread", [[name, of] for name, of in TEXTS.items()])
        for name, of in TEXTS.items():
            await Checkpointer(db).save({"text": of}, name)
    await forget_the_words_version(db)


async def found(db: Database, query: str) -> list[set[str]]:
    """The names of the texts that each search finds."""
    hits = await Inspector(db).search(query, limit=100)
    return [
        {hit.key for hit in await Store(db).search(NS, query, limit=100)},
        {hit.value[0] for hit in await ThreadLog(db).search(query, limit=100)},
        {hit["thread_id"] for hit in await Checkpointer(db).search(query, limit=100)},
        {hit["key"] for hit in hits["hits"] if hit["kind"] == "item"},
    ]


async def unmarked(db: Database) -> int:
    """The number of rows with words of an older release."""

    def count(connection: Any) -> int:
        return sum(
            connection.scalar(
                text(f"SELECT count(*) FROM {table} WHERE substr(search_text, 1, 1) <> '#'")
            )
            for table in ("deltas", "store_items")
        )

    return await db.run_sync(count)


@pytest.mark.parametrize("name", TEXTS)
async def test_words_of_an_older_release_are_found_as_before(
    db: Database, reopen: Reopen, name: str
) -> None:
    await fill(db)
    async with reopen() as again:
        assert again.has_first_words
        for of in await found(again, BEFORE[name]):
            assert name in of


async def test_a_search_finds_words_of_both_releases(db: Database, reopen: Reopen) -> None:
    await fill(db)
    await Store(db).put(NS, "new", {"text": TEXTS["chinese"]})
    async with reopen() as again:
        hits = await Store(again).search(NS, "北京", limit=100)
    assert {hit.key for hit in hits} >= {"chinese", "new"}
    assert hits[0].key == "new"


async def test_words_of_an_older_release_are_made_anew(db: Database, reopen: Reopen) -> None:
    await fill(db)
    before = await unmarked(db)

    dry = await rebuild_words(db, dry_run=True)
    assert await unmarked(db) == before == 3 * len(TEXTS)
    report = await rebuild_words(db)

    assert (report.states, report.entries, report.items) == (len(TEXTS),) * 3
    assert dry.rebuilt == report.rebuilt
    assert (report.left, report.unnamed, await unmarked(db)) == (0, (), 0)
    assert (await rebuild_words(db)).rebuilt == 0
    assert not await db.find_first_words()
    async with reopen() as again:
        await again.check()
        for name, query in SINCE.items():
            for of in await found(again, query):
                assert name in of, query
        for name, query in NOWHERE.items():
            for of in await found(again, query):
                assert name not in of, query
        assert not again.has_first_words
    assert (await verify(db)).findings == ()


async def test_the_rows_of_an_older_release_are_verified(db: Database) -> None:
    await fill(db)
    assert (await verify(db)).findings == ()


async def test_words_of_a_dropped_index_stay_dropped(db: Database) -> None:
    await fill(db)
    await Store(db, index_text=False).put(("quiet",), "k", {"text": "hush"})
    with an_older_release():
        await Checkpointer(db, index_text={"a"}).save({"a": "Łódź", "b": "hush"}, "quiet")
    await forget_the_words_version(db)

    await rebuild_words(db)

    hits = await Checkpointer(db).search("lodz")
    assert {hit["thread_id"] for hit in hits} == {"quiet", "german"}
    assert await Checkpointer(db).search("hush") == []
    assert await Store(db).search(("quiet",), "hush") == []


async def test_words_of_pruned_checkpoints_are_made_anew(db: Database) -> None:
    checkpointer = Checkpointer(db)
    with an_older_release():
        await checkpointer.save({"messages": ["他住在北京"], "draft": "gone soon"}, "t")
        await checkpointer.save({"messages": ["他住在北京", "Łódź"], "draft": ""}, "t")
        await checkpointer.save({"messages": ["他住在北京", "Łódź", "end"], "draft": ""}, "t")
        await forget_the_words_version(db)
        await checkpointer.prune("t", keep_last=1)

    await rebuild_words(db)

    assert await unmarked(db) == 0
    for query in ("北京", "lodz", "end"):
        assert [hit["thread_id"] for hit in await checkpointer.search(query)] == ["t"], query
    assert await checkpointer.search("soon") == []


async def test_a_copy_of_an_older_release_is_searched_as_its_source_is(
    db: Database, tmp_path: Path
) -> None:
    await fill(db)
    target_url = f"sqlite:///{tmp_path / 'target.db'}"
    keys = [KEY] if db.signing.signs else None
    async with Database(target_url, signing_keys=keys) as target:
        await Store(target).put(NS, "own", {"text": "北京"})
        assert not target.has_first_words
        await copy(db, target)

        assert target.has_first_words
        assert {"chinese", "own"} <= (await found(target, "北京"))[0]
    async with Database(target_url, signing_keys=keys) as again:
        await again.check()
        await Store(again).get(NS, "own")
        assert again.has_first_words

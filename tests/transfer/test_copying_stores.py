"""What a store holds lives on in the copy: found, filtered, near, and counted by the target."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from contents import run
from sqlalchemy import select, update

from clocks import Clock
from memalchemy import Conflict, Database, Store
from memalchemy.maintenance.copying.database_copy import DatabaseCopy
from memalchemy.schema import StoreItemRow
from memalchemy.search.cache_versions import COUNTERS
from memalchemy.transfer import copy

NOTES = ("notes", "a/b")
WORDS = ("apple", "pear", "plum", "quince", "cherry", "medlar")


def vector(number: int) -> list[float]:
    return [math.cos(number), math.sin(number), 0.5]


async def fill(store: Store) -> None:
    for number, word in enumerate(WORDS):
        value = {"text": f"a {word} tart", "kind": word, "even": number % 2 == 0}
        await store.put(NOTES, f"k{number}", value, {"n": number}, embedding=vector(number))
    long = ("x" * 120, "y" * 120, "z" * 200)  # a path too long for the name of its counter
    await store.put(long, "deep", "below", embedding=vector(9), ttl=3600)


async def answers(store: Store) -> list[Any]:
    """What is asked of a store in every way it can be asked."""
    hits = [
        await store.search(NOTES, "quince pear"),
        await store.search(NOTES, "tart", filter={"kind": "plum"}),
        await store.search(NOTES, filter={"$metadata": {"n": {"$gte": 3}}}),
        await store.search(NOTES, mode="vector", embedding=vector(2), limit=3),
        await store.search(
            NOTES, mode="vector", embedding=vector(2), limit=3, filter={"even": False}
        ),
        await store.search((), mode="vector", embedding=vector(9), prefix=True, limit=2),
        await store.search((), "below", prefix=True),
    ]
    found = [[(hit.namespace, hit.key, hit.value, hit.version) for hit in each] for each in hits]
    return [*found, await store.list_namespaces(), await store.count((), prefix=True)]


async def counters(db: Database) -> int:
    def job(connection: Any) -> int:
        own = select(StoreItemRow.key).where(StoreItemRow.path == COUNTERS)
        return len(connection.execute(own).all())

    return await db.run_sync(job)


async def test_a_copied_store_is_searched_by_words_fields_and_vectors_at_once(
    source: Database, target: Database
) -> None:
    await fill(Store(source))
    there = Store(target)
    assert await there.search((), mode="vector", embedding=vector(2), prefix=True) == []

    await copy(source, target)

    expected = await answers(Store(source))
    assert [len(each) for each in expected[:7]] == [2, 1, 3, 3, 3, 2, 1]
    assert await answers(there) == expected
    (item,) = await there.list_items(("x" * 120, "y" * 120, "z" * 200))
    assert item == (await Store(source).list_items(item.namespace))[0]


async def test_each_database_counts_the_changes_of_its_vectors_for_itself(
    source: Database, target: Database
) -> None:
    await fill(Store(source))

    await copy(source, target)

    for db in (source, target):
        assert await counters(db) == (2 if db.dialect.vectors.counts_changes else 0)


async def test_a_search_on_the_target_sees_what_every_later_copy_brings(
    source: Database, target: Database
) -> None:
    ours, theirs = Store(source), Store(target)
    await fill(ours)
    for number in (3, 4, 5):
        await copy(source, target)
        assert await answers(theirs) == await answers(ours)
        # One replaced by another vector, one without any, one of its own on the target.
        await ours.put(NOTES, "k0", {"text": "moved"}, embedding=vector(number))
        await ours.put(NOTES, f"k{number}", {"text": "no vector any more"})
        await theirs.put(("theirs",), "own", {"text": "own"}, embedding=vector(number))
        await theirs.search((), mode="vector", embedding=vector(number), prefix=True)
        await theirs.clear_namespace(("theirs",))

    report = await copy(source, target)

    assert report.updated == 2
    assert await answers(theirs) == await answers(ours)


async def test_two_files_count_for_themselves_and_both_go_on(tmp_path: Path) -> None:
    async with (
        Database(f"sqlite:///{tmp_path}/a.db") as source,
        Database(f"sqlite:///{tmp_path}/b.db") as target,
    ):
        await source.migrate()
        await target.migrate()
        await test_a_search_on_the_target_sees_what_every_later_copy_brings(source, target)


async def test_a_life_that_a_read_has_prolonged_is_no_conflict(
    source: Database, target: Database
) -> None:
    ours, theirs = Store(source, refresh_ttl=True), Store(target, refresh_ttl=True)
    for key in ("a", "b"):
        await ours.put(NOTES, key, key, ttl=3600, embedding=vector(1))
    await copy(source, target)
    later = await ours.get_item(NOTES, "a")
    latest = await theirs.get_item(NOTES, "b")

    report = await copy(source, target)

    assert (report.updated, report.unchanged) == (1, 1)
    assert await theirs.get_item(NOTES, "a", refresh=False) == later
    assert await theirs.get_item(NOTES, "b", refresh=False) == latest
    assert len(await theirs.search(NOTES, mode="vector", embedding=vector(1))) == 2


async def test_a_later_write_of_an_earlier_time_is_refused_until_it_is_deleted(
    source: Database, target: Database, clock: Clock
) -> None:
    """Nobody can tell it from a write on the target: the clock of its writer was set back."""
    await Store(source).put(NOTES, "a", 1)
    await copy(source, target)
    clock.go_on(timedelta(seconds=-5))
    await Store(source).put(NOTES, "a", 2)

    with pytest.raises(Conflict, match="item 'a' in /notes/"):
        await copy(source, target)
    assert await Store(target).get(NOTES, "a") == 1
    await Store(target).delete(NOTES, "a")
    await copy(source, target)

    assert await Store(target).get_item(NOTES, "a") == await Store(source).get_item(NOTES, "a")


@pytest.mark.parametrize("written", ["on the target", "in the source, earlier"])
async def test_what_is_written_after_everything_was_compared_is_left_as_it_is(
    source: Database,
    target: Database,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    written: str,
) -> None:
    await Store(source).put(NOTES, "a", 1)
    await copy(source, target)
    compare_all = DatabaseCopy._compare_all

    async def and_write(work: DatabaseCopy) -> None:
        await compare_all(work)
        if written == "on the target":
            await Store(target).put(NOTES, "a", "theirs")
        else:
            clock.go_on(timedelta(seconds=-5))
            await Store(source).put(NOTES, "a", "ours")

    monkeypatch.setattr(DatabaseCopy, "_compare_all", and_write)

    with pytest.raises(Conflict, match="since everything was compared") as refused:
        await copy(source, target)

    assert refused.value.current == ["item 'a' in /notes/a~1b/"]
    expected = "theirs" if written == "on the target" else 1
    assert await Store(target).get(NOTES, "a") == expected


async def test_another_value_under_the_same_version_is_still_refused(
    source: Database, target: Database
) -> None:
    await fill(Store(source))
    await copy(source, target)
    await run(target, update(StoreItemRow).where(StoreItemRow.key == "k1").values(field_terms="f"))

    with pytest.raises(Conflict, match="k1"):
        await copy(source, target)

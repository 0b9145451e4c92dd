"""Episodes: stored by id, recalled by recency or similarity."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError
from store_helpers import undone

from lifetimes import MOMENT, end_lifetimes
from memalchemy import (
    Conflict,
    Database,
    Episode,
    EpisodeNotFoundError,
    EpisodeStore,
    EpisodicMemory,
    MemalchemyError,
    RecallMode,
    TooLarge,
)
from memalchemy.memory.episodes import (
    MAX_ID,
    BaseEpisodeStore,
    EpisodeFormatMode,
    MaxResultsExceededWarning,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def episode(task: str, minutes: int = 0, **more: Any) -> Episode:
    return Episode(task=task, completed_at=NOON + timedelta(minutes=minutes), **more)


@pytest.fixture
def store(db: Database) -> EpisodeStore:
    return EpisodeStore(db)


async def test_an_episode_comes_back_equal(store: EpisodeStore) -> None:
    one = episode("book a flight", result="done", rollout="...", metadata={"tags": ["travel"]})
    await store.write(one)

    assert await store.get(one.id_) == one
    assert await store.get("another") is None
    assert await store.recall("flight") == [one]


async def test_the_latest_episodes_come_first_whenever_they_were_written(
    store: EpisodeStore,
) -> None:
    for minutes in (3, 1, 5, 2, 4):
        await store.write(episode(f"task {minutes}", minutes))
    recent = EpisodeStore(store.store.db, max_results=3, recall_mode=RecallMode.RECENT)

    assert [one.task for one in await recent.recall("whatever")] == ["task 5", "task 4", "task 3"]
    assert [one.task for one in await store.recent(10)] == [f"task {n}" for n in (5, 4, 3, 2, 1)]


async def test_an_update_moves_an_episode_in_time(store: EpisodeStore) -> None:
    old, other = episode("old", 1), episode("other", 2)
    await store.write(old)
    await store.write(other)

    await store.update(old.model_copy(update={"completed_at": NOON + timedelta(hours=1)}))

    assert [one.id_ for one in await store.recent()] == [old.id_, other.id_]
    assert await store.count() == 2


async def test_search_returns_only_similar_episodes_the_best_first(store: EpisodeStore) -> None:
    await store.write(episode("book a flight to Oslo", result="booked"))
    await store.write(episode("bake a cake", result="burnt"))
    await store.write(episode("cancel the flight", error="no such flight"))

    found = await store.recall("flight")

    assert {one.task for one in found} == {"book a flight to Oslo", "cancel the flight"}
    assert await store.recall("submarine") == []
    assert await store.recall("flight", filter={"error": {"$ne": None}}) == [
        one for one in found if one.error
    ]


async def test_with_an_embedder_episodes_are_found_by_meaning(db: Database) -> None:
    def embedder(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.1] if "plane" in t or "flight" in t else [0.1, 1.0] for t in texts]

    store = EpisodeStore(db, embedder=embedder, max_results=1)
    await store.write(episode("book a flight"))
    await store.write(episode("bake a cake"))

    assert [one.task for one in await store.recall("plane")] == ["book a flight"]


async def test_updating_or_deleting_a_missing_episode_is_an_error(store: EpisodeStore) -> None:
    with pytest.raises(EpisodeNotFoundError, match="there is no episode") as caught:
        await store.update(episode("never written"))
    assert isinstance(caught.value, MemalchemyError)
    with pytest.raises(EpisodeNotFoundError):
        await store.delete("never written")
    assert await store.count() == 0


async def test_a_deleted_episode_is_gone_from_every_method(store: EpisodeStore) -> None:
    one = episode("book a flight")
    await store.write(one)
    await store.delete(one.id_)

    assert await store.get(one.id_) is None
    assert await store.recent() == await store.recall("flight") == []
    with pytest.raises(EpisodeNotFoundError):
        await store.delete(one.id_)
    await store.write(one)
    assert await store.recent() == [one]


async def test_the_summary_counts_and_names_the_database_the_newest_and_the_oldest(
    store: EpisodeStore,
) -> None:
    database = repr(store.store.db)
    assert await store.summary() == f"EpisodeStore: 0 episodes | {database}"
    await store.write(episode("x" * 100, 1))
    await store.write(episode("first\nsecond line", 0))

    assert (await store.summary()).splitlines() == [
        f"EpisodeStore: 2 episodes | {database}",
        f"  newest: 2026-03-01 12:01:00 | {'x' * 60}",
        "  oldest: 2026-03-01 12:00:00 | first",
    ]


async def test_the_oldest_is_found_and_an_episode_has_a_headline(
    store: EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.memory.episodes.OLDEST_PAGE", 2)
    assert await store.oldest() is None
    for n in (3, 1, 0, 2):
        await store.write(episode(f"task {n}\nsecond line", n))
    oldest = await store.oldest()
    assert oldest is not None
    assert oldest.headline == "2026-03-01 12:00:00 | task 0"
    await store.delete(oldest.id_)
    oldest = await store.oldest()
    assert oldest is not None
    assert oldest.task.startswith("task 1")


async def test_episodes_of_other_namespaces_and_tenants_are_not_seen(db: Database) -> None:
    ada = EpisodeStore(db, namespace=("episodes", "ada"))
    bob = EpisodeStore(db, namespace=("episodes", "bob"))
    await ada.write(episode("of Ada"))

    assert await bob.recent() == await bob.recall("Ada") == []
    assert await EpisodeStore(db).recent() == []
    assert await EpisodeStore(db).count() == 0


async def test_an_expired_episode_is_gone_from_every_path(db: Database) -> None:
    store = EpisodeStore(db, ttl=MOMENT)
    one = episode("short")
    await store.write(one)

    assert await store.recent() == await store.recall("short") == []


async def test_an_update_has_an_episode_among_the_latest_for_as_long_as_it_is_there(
    db: Database,
) -> None:
    one, short, lasting = episode("kept"), EpisodeStore(db, ttl=60), EpisodeStore(db)
    await short.write(one)
    await lasting.update(one.model_copy(update={"result": "done"}))
    await end_lifetimes(db)

    assert await lasting.count() == 1
    assert [one.result for one in await lasting.recent()] == ["done"]


async def test_an_id_may_be_as_long_as_a_time_leaves_room_for(store: EpisodeStore) -> None:
    longest = episode("long", id_="i" * MAX_ID)
    await store.write(longest)
    assert await store.recent() == [longest]

    for id_ in ("i" * (MAX_ID + 1), "i" * 256, "\x00" * MAX_ID):
        with pytest.raises(TooLarge, match="id_ of an episode"):
            await store.write(episode("too long", id_=id_))
    assert await store.count() == 1


def test_an_invalid_episode_is_an_error_that_does_not_quote_it() -> None:
    with pytest.raises(ValidationError) as wrong:
        Episode(task="fine", rollout=["Secret plans"])  # type: ignore[arg-type]

    assert "Secret" not in str(wrong.value)


async def test_two_that_write_one_episode_leave_one(db: Database) -> None:
    one = episode("again and again")
    stores = [EpisodeStore(db) for _ in range(4)]

    await asyncio.gather(
        *(
            store.write(one.model_copy(update={"completed_at": NOON + timedelta(minutes=n)}))
            for n, store in enumerate(stores)
        )
    )

    assert await stores[0].count() == 1
    assert len(await stores[0].recent()) == 1


async def test_a_transaction_that_is_rolled_back_leaves_nothing(db: Database) -> None:
    store, one = EpisodeStore(db), episode("lost")
    async with undone(db) as tx:
        await store.write(one, connection=tx)
        assert await store.recent(connection=tx) == [one]
        assert await store.recall("lost", connection=tx) == [one]

    assert await store.recent() == []


async def test_episodic_memory_recalls_text_and_records_metadata(db: Database) -> None:
    class Reflection:
        async def __call__(self, one: Episode) -> str:
            return f"think before you {one.task}"

    functions = {"reflection": Reflection(), "length": _length}
    memory = EpisodicMemory(EpisodeStore(db), metadata_fns=functions)
    assert await memory.recall("jump") == ""

    given = episode("jump", metadata={"mood": "brave"})
    kept = await memory.record(given)

    assert given.metadata == {"mood": "brave"}
    assert kept.metadata == {"mood": "brave", "reflection": "think before you jump", "length": "4"}
    assert "think before you jump" in await memory.recall("jump")
    assert (await memory.summary()).startswith("EpisodeStore: 1 episodes")
    await memory.update(kept.model_copy(update={"result": "landed"}))
    assert "landed" in await memory.recall("jump")
    await memory.delete(kept.id_)
    assert await memory.recall("jump") == ""


def _length(one: Episode) -> str:
    return str(len(one.task))


class Listed(BaseEpisodeStore):
    """A store of one's own."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.kept: list[Episode] = []

    async def write(self, episode: Episode) -> None:
        self.kept.append(episode)

    async def _read_recent(self, n: int) -> list[Episode]:
        return self.kept[::-1]

    async def _search(self, query: str, **more: Any) -> list[Episode]:
        return [one for one in self.kept if query in one.task]

    async def update(self, episode: Episode) -> None:
        raise EpisodeNotFoundError(episode.id_)

    async def delete(self, id_: str) -> None:
        raise EpisodeNotFoundError(id_)

    async def count(self) -> int:
        return len(self.kept)

    async def summary(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("mode", "asked"), [(RecallMode.RECENT, "_read_recent"), (RecallMode.SEARCH, "_search")]
)
async def test_a_custom_store_that_returns_too_many_is_cut_with_a_warning(
    mode: RecallMode, asked: str
) -> None:
    store = Listed(max_results=2, recall_mode=mode)
    assert isinstance(store, BaseEpisodeStore)
    for n in range(3):
        await store.write(episode(f"task {n}"))

    with pytest.warns(MaxResultsExceededWarning, match=f"Listed.{asked} gave 3 episodes"):
        assert len(await store.recall("task")) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.kept.pop()
        assert len(await store.recall("task")) == 2


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_max_results_is_a_number_from_one_on(wrong: Any) -> None:
    with pytest.raises(ValueError, match="max_results"):
        Listed(max_results=wrong)


def test_an_episode_takes_objects_and_exceptions_for_their_texts() -> None:
    class Task:
        instruction = "do it"

    class Result:
        content = "done"

    one = Episode.model_validate({"task": Task(), "result": Result(), "error": ValueError("no")})

    assert (one.task, one.result, one.error) == ("do it", "done", "ValueError: no")
    with pytest.raises(ValidationError):
        Episode.model_validate({"task": 7})


def test_a_time_without_a_zone_is_utc_and_any_other_becomes_utc() -> None:
    naive = Episode(task="t", completed_at=datetime(2026, 3, 1, 12))
    there = Episode(task="t", completed_at=NOON.astimezone(timezone(timedelta(hours=5))))

    assert naive.completed_at == there.completed_at == NOON
    assert naive.completed_at.tzinfo is there.completed_at.tzinfo is UTC


def test_an_episode_reads_as_lines_too() -> None:
    one = episode("fly", result="two\nlines", metadata={"mood": "brave"})

    assert one.format("concat") == (
        "task: fly\nresult: two\n  lines\ncompleted_at: 2026-03-01 12:00:00\nmood: brave"
    )
    assert "mood" not in one.format("concat", exclude={"metadata"})
    assert one.format(EpisodeFormatMode.CONCAT) == one.format("concat")
    assert one.format(EpisodeFormatMode.XML) == one.format() == str(one)
    assert "lines" not in one.format(exclude={"result"})


@pytest.mark.parametrize("value", ["tea", {"no": "tea"}, {"task": ["tea"]}, [["tea", "x"]]])
async def test_an_item_that_is_no_episode_is_left_out_with_a_warning(
    store: EpisodeStore, caplog: pytest.LogCaptureFixture, value: Any
) -> None:
    one = episode("tea for Ada")
    await store.write(one)
    await store.store.put(store.namespace, "strange", value)

    with caplog.at_level("WARNING"):
        assert await store.recall("tea") == [one]
    assert "1 items in a namespace of episodes are no episodes" in caplog.text
    assert (await store.recent(), await store.oldest()) == ([one], one)
    strange = one.model_copy(update={"id_": "strange"})
    for call in (store.get("strange"), store.delete("strange"), store.update(strange)):
        with pytest.raises(Conflict, match="'strange' in namespace episodes is no episode"):
            await call
    assert await store.store.get(store.namespace, "strange") == value

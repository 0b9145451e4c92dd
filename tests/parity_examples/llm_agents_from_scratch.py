"""Rows of llm-agents-from-scratch's episodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memalchemy import (
    Database,
    Episode,
    EpisodeNotFoundError,
    EpisodeStore,
    EpisodicMemory,
    MemalchemyError,
    RecallMode,
)
from memalchemy.memory import BaseEpisodeStore, EpisodeFormatMode, MaxResultsExceededWarning
from parity_examples import embedder, section

rows = section("llm-agents-from-scratch")

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def episode(task: str, minutes: int = 0, **more: Any) -> Episode:
    return Episode(task=task, completed_at=NOON + timedelta(minutes=minutes), **more)


@rows("Task, TaskResult", "Episode")
async def episodes(db: Database) -> None:
    one = episode("book a flight", result="done", error=ValueError("bad"), metadata={"a": "b"})
    assert (one.result, one.error) == ("done", "ValueError: bad")
    assert Episode(task="x", completed_at=datetime(2026, 3, 1, 12)).completed_at == NOON
    store = EpisodeStore(db)
    await store.write(one)
    assert await store.get(one.id_) == one


@rows("Episode.format, EpisodeFormatMode")
async def formats() -> None:
    one = episode("a <b> & c", result="done")
    assert "<task>a &lt;b" in one.format()
    assert one.format(EpisodeFormatMode.XML) == one.format() == str(one)
    assert "task: a" in one.format(EpisodeFormatMode.CONCAT)
    assert "done" not in one.format(exclude={"result"})


@rows("RecallMode", ".recall, max_results", "._read_recent", "JSONMemoryStore")
async def recalling(db: Database) -> None:
    recent = EpisodeStore(db, max_results=2, recall_mode=RecallMode.RECENT)
    for minutes in (3, 1, 2):
        await recent.write(episode(f"task {minutes}", minutes))
    assert [one.task for one in await recent.recall("whatever")] == ["task 3", "task 2"]
    assert [one.task for one in await recent.recent(5)] == ["task 3", "task 2", "task 1"]
    search = EpisodeStore(db, max_results=1, recall_mode=RecallMode.SEARCH)
    assert [one.task for one in await search.recall("task 1")] == ["task 1"]
    with pytest.raises(ValueError, match="max_results"):
        EpisodeStore(db, max_results=-1)


class Own(BaseEpisodeStore):
    """A store of one's own, which gives whatever it has."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.all: list[Episode] = []

    async def write(self, episode: Episode) -> None:
        self.all.append(episode)

    async def _read_recent(self, n: int) -> list[Episode]:
        return self.all

    async def _search(self, query: str, **kwargs: Any) -> list[Episode]:
        return self.all

    async def delete(self, id_: str) -> None:
        raise EpisodeNotFoundError(id_)

    async def update(self, episode: Episode) -> None:
        raise EpisodeNotFoundError(episode.id_)

    async def count(self) -> int:
        return len(self.all)

    async def summary(self) -> str:
        return "mine"


@rows("BaseMemoryStore", "MemoryStoreWarning, MaxResultsExceededWarning")
async def own() -> None:
    store = Own(max_results=1)
    assert isinstance(store, BaseEpisodeStore)
    for n in range(2):
        await store.write(episode(f"task {n}"))
    with pytest.warns(MaxResultsExceededWarning):
        assert len(await store.recall("task")) == 1


@rows(".write, .update, .delete", ".count, .summary", "MemoryStoreError, EpisodeNotFoundError")
async def writing(db: Database) -> None:
    store = EpisodeStore(db)
    one = episode("book a flight")
    await store.write(one)
    await store.write(one)
    assert await store.count() == 1
    await store.update(one.model_copy(update={"result": "done"}))
    found = await store.get(one.id_)
    assert found is not None
    assert found.result == "done"
    assert "1 episode" in await store.summary()
    await store.delete(one.id_)
    for call in (store.delete(one.id_), store.update(one)):
        with pytest.raises(EpisodeNotFoundError) as caught:
            await call
        assert isinstance(caught.value, MemalchemyError)


@rows("QdrantMemoryStore")
async def meaning(db: Database) -> None:
    store = EpisodeStore(db, embedder=embedder)
    await store.write(episode("brew some tea"))
    await store.write(episode("take the train"))
    assert (await store.recall("a drink"))[0].task == "brew some tea"


@rows(
    "Memory.recall, .record, metadata_fns",
    "Memory.update, .delete, .summary",
    "recency_memory, similarity_memory, reflective_memory",
)
async def memory(db: Database, tmp_path: Path) -> None:
    async def slow(one: Episode) -> str:
        return one.task.upper()

    functions = {"length": lambda one: str(len(one.task)), "loud": slow}
    store = EpisodeStore(db, recall_mode=RecallMode.RECENT)
    agent = EpisodicMemory(store, metadata_fns=functions)
    assert await agent.recall("flight") == ""
    given = episode("book a flight", result="done")
    kept = await agent.record(given)
    assert kept.metadata == {"length": "13", "loud": "BOOK A FLIGHT"}
    assert given.metadata == {}
    assert "book a flight" in await agent.recall("whatever")
    assert "1 episode" in await agent.summary()
    await agent.update(kept.model_copy(update={"result": "cancelled"}))
    assert "cancelled" in await agent.recall("whatever")
    await agent.delete(kept.id_)
    assert await agent.recall("whatever") == ""

"""`MemalchemySessionRepository` and `MemalchemyMemoryStore` for Strands."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from strands import Agent
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from strands_scripted import Scripted

from memalchemy import Checkpointer, Database
from memalchemy.integrations.strands import MemalchemyMemoryStore, MemalchemySessionRepository
from memalchemy.messages import role_of, text_of


def message(index: int, text: str = "hi", **fields: Any) -> SessionMessage:
    return SessionMessage({"role": "user", "content": [{"text": text}]}, index, **fields)


@pytest.fixture
def sessions(db: Database) -> MemalchemySessionRepository:
    """A repository with a session ``s`` and its agent ``a``."""
    made = MemalchemySessionRepository(db)
    made.create_session(Session("s", SessionType.AGENT))
    made.create_agent("s", SessionAgent("a", {"n": 1}, {"removed": 0}))
    return made


def test_every_method_of_strands_repository_is_overridden_with_the_same_arguments() -> None:
    for name, method in inspect.getmembers(SessionRepository, inspect.isfunction):
        if not name.startswith("_"):
            ours = getattr(MemalchemySessionRepository, name)
            assert ours is not method, name
            assert list(inspect.signature(ours).parameters) == list(
                inspect.signature(method).parameters
            ), name


def test_duplicates_and_what_is_missing_are_session_exceptions(
    sessions: MemalchemySessionRepository,
) -> None:
    sessions.create_message("s", "a", message(0))
    group: Any = SimpleNamespace(id="g", serialize_state=lambda: {"n": 1})
    for call in (
        lambda: sessions.create_session(Session("s", SessionType.AGENT)),
        lambda: sessions.create_agent("s", SessionAgent("a", {}, {})),
        lambda: sessions.create_message("s", "a", message(0, "other")),
    ):
        with pytest.raises(SessionException, match="already exists"):
            call()
    for call in (
        lambda: sessions.create_agent("none", SessionAgent("a", {}, {})),
        lambda: sessions.update_agent("s", SessionAgent("none", {}, {})),
        lambda: sessions.create_message("s", "none", message(0)),
        lambda: sessions.create_message("none", "a", message(0)),
        lambda: sessions.update_message("s", "a", message(1)),
        lambda: sessions.create_multi_agent("none", group),
        lambda: sessions.update_multi_agent("s", group),
        lambda: sessions.delete_session("none"),
    ):
        with pytest.raises(SessionException, match="does not exist"):
            call()
    assert [one.to_message() for one in sessions.list_messages("s", "a")] == [message(0).message]
    assert sessions.read_session("none") is None
    assert sessions.read_agent("s", "none") is None
    assert sessions.read_message("s", "a", 1) is None
    assert sessions.read_multi_agent("s", "g") is None
    assert sessions.list_messages("s", "none") == []
    with pytest.raises(ValueError, match="integer"):
        sessions.read_message("s", "a", "../0")  # type: ignore[arg-type]
    with pytest.raises(SessionException, match="255"):
        sessions.read_session("x" * 256)


def test_what_is_read_is_what_was_written_and_shares_nothing(
    sessions: MemalchemySessionRepository,
) -> None:
    written = SessionMessage(
        {
            "role": "assistant",
            "content": [{"image": {"format": "png", "source": {"bytes": b"\0\xff"}}}],
            "metadata": {"custom": {"session_message": [1]}},
            "tracking_id": "t",
        },
        3,
    )
    sessions.create_message("s", "a", written)
    for _ in range(2):
        found = sessions.read_message("s", "a", 3)
        assert found == written
        assert found is not None
        found.message["content"].clear()
    agent = SessionAgent("a", {"x": [1]}, {"y": {}}, {"interrupt_state": {}})
    before = sessions.read_agent("s", "a")
    assert before is not None
    sessions.update_agent("s", agent)
    assert sessions.read_agent("s", "a") == agent
    assert agent.created_at == before.created_at


async def test_a_hundred_updates_of_an_agent_at_once_are_all_written(db: Database) -> None:
    repository = MemalchemySessionRepository(db)
    await repository.acreate_session(Session("s1", SessionType.AGENT))
    agent = SessionAgent("guide", {"n": 0}, {})
    await repository.acreate_agent("s1", agent)

    updates = [SessionAgent("guide", {"n": number}, {}) for number in range(100)]
    await asyncio.gather(*(repository.aupdate_agent("s1", one) for one in updates))

    found = await repository.aread_agent("s1", "guide")
    assert found is not None
    assert found.state in [one.state for one in updates]
    assert found.created_at == agent.created_at


def test_messages_are_in_the_order_of_their_indexes(
    sessions: MemalchemySessionRepository,
) -> None:
    for index in (5, 0, 12, 3, 2):
        sessions.create_message("s", "a", message(index, str(index)))

    def indexes(*given: Any) -> list[int]:
        return [one.message_id for one in sessions.list_messages("s", "a", *given)]

    assert indexes() == [0, 2, 3, 5, 12]
    assert indexes(2) == [0, 2]
    assert indexes(2, 1) == [2, 3]
    assert indexes(None, 3) == [5, 12]
    assert indexes(0) == indexes(9, 9) == []
    for index in (0, 2, 3, 5, 12):
        assert sessions.read_message("s", "a", index) == message(
            index,
            str(index),
            created_at=sessions.list_messages("s", "a")[indexes().index(index)].created_at,
            updated_at=sessions.list_messages("s", "a")[indexes().index(index)].updated_at,
        )


def test_a_redacted_message_is_shown_as_the_model_sees_it(
    sessions: MemalchemySessionRepository,
) -> None:
    first = message(0, "my secret")
    sessions.create_message("s", "a", first)
    first.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    sessions.update_message("s", "a", first)

    (found,) = sessions.list_messages("s", "a")
    assert found == first
    assert found.message["content"] == [{"text": "my secret"}]
    (entry,) = sessions.wait(sessions.messages("a").tail("s"))
    assert (role_of(entry.value), text_of(entry.value)) == ("user", "[redacted]")


def test_of_two_that_append_the_same_index_one_is_refused_and_nothing_is_lost(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    repositories = [MemalchemySessionRepository(db), MemalchemySessionRepository(reopen())]
    repositories[0].create_session(Session("s", SessionType.AGENT))
    repositories[0].create_agent("s", SessionAgent("a", {}, {}))

    def append(number: int) -> bool:
        try:
            repositories[number % 2].create_message("s", "a", message(number // 4, str(number)))
        except SessionException:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        accepted = [number for number, done in enumerate(pool.map(append, range(40))) if done]
    stored = [
        int(one.message["content"][0]["text"]) for one in repositories[0].list_messages("s", "a")
    ]
    assert [number // 4 for number in stored] == list(range(10))
    assert sorted(stored) == accepted
    repositories[1].wait(repositories[1].db.close())


def test_a_session_is_deleted_with_all_that_belongs_to_it_and_no_more(
    sessions: MemalchemySessionRepository, db: Database
) -> None:
    group: Any = SimpleNamespace(id="g", serialize_state=lambda: {"n": 1})
    sessions.create_multi_agent("s", group)
    sessions.create_message("s", "a", message(0))
    sessions.create_session(Session("other", SessionType.AGENT))
    sessions.wait(Checkpointer(db).save({"n": 1}, "s"))
    assert sessions.read_multi_agent("s", "g") == {"n": 1}

    sessions.delete_session("s")

    assert sessions.read_session("s") is None
    assert sessions.read_agent("s", "a") is None
    assert sessions.list_messages("s", "a") == []
    assert sessions.read_multi_agent("s", "g") is None
    assert sessions.read_session("other") is not None
    assert sessions.wait(Checkpointer(db).load("s")) == {"n": 1}
    sessions.create_session(Session("s", SessionType.AGENT))
    sessions.create_agent("s", SessionAgent("a", {}, {}))
    assert sessions.list_messages("s", "a") == []


def test_an_agent_goes_on_after_a_restart(shared_url: str, lasting: None) -> None:
    tenant = uuid.uuid4().hex

    def run(question: str, answer: str) -> Scripted:
        model = Scripted(answer)
        repository = MemalchemySessionRepository(Database(shared_url, tenant=tenant))
        manager = RepositorySessionManager("s", repository)
        agent = Agent(model=model, agent_id="a", session_manager=manager, callback_handler=None)
        agent(question)
        repository.wait(repository.db.close())
        return model

    run("I am Ada.", "Hello Ada.")
    assert run("Who am I?", "Ada.").heard == [["I am Ada.", "Hello Ada.", "Who am I?"]]


async def test_an_agent_may_be_awaited_in_a_running_loop(db: Database) -> None:
    manager = RepositorySessionManager("s", MemalchemySessionRepository(db))
    agent = Agent(
        model=Scripted("one", "two"), agent_id="a", session_manager=manager, callback_handler=None
    )
    await agent.invoke_async("first")
    await agent.invoke_async("second")
    found = await MemalchemySessionRepository(db).alist_messages("s", "a")
    assert [text_of(one.message) for one in found] == ["first", "one", "second", "two"]


# --- Memories -------------------------------------------------------------------------------------


async def test_memories_are_found_best_first_with_their_metadata(db: Database) -> None:
    memories = MemalchemyMemoryStore(db, name="facts", max_search_results=1)
    for _ in range(2):
        await memories.add("Ada likes trains", {"source": "chat"})
    await memories.add("Trains, trains, and trains again")
    await MemalchemyMemoryStore(db, name="others").add("trains of another store")

    (best,) = await memories.search("ada trains")
    assert best.content == "Ada likes trains"
    assert best.metadata is not None
    assert best.metadata["source"] == "chat"
    assert best.metadata["score"] == 1.0
    assert len(await memories.search("trains", {"max_search_results": 9})) == 2
    assert await memories.search("planes") == []
    with pytest.raises(ValueError, match="max_search_results"):
        await memories.search("trains", {"max_search_results": 0})


async def test_memories_are_found_by_meaning_with_an_embedder(db: Database) -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.1] if "rail" in one or "train" in one else [0.1, 1.0] for one in texts]

    memories = MemalchemyMemoryStore(db, embedder=embed)
    await memories.add("Ada likes trains")
    await memories.add("Ada likes apples")
    assert (await memories.search("railways"))[0].content == "Ada likes trains"


async def test_a_batch_of_messages_that_is_given_again_is_stored_once(db: Database) -> None:
    memories = MemalchemyMemoryStore(db)
    batch: Any = [
        {"role": "user", "content": [{"text": "ok"}]},
        {"role": "assistant", "content": [{"text": "ok"}]},
        {"role": "user", "content": [{"text": "ok"}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": []}}]},
    ]
    context = AddMessagesContext(sequence_numbers=[0, 1, 4, 5])
    first, again = [await memories.add_messages(batch, context) for _ in range(2)]

    assert first == again
    assert len(set(first)) == 3, "messages of the same words are told apart"
    found = await memories.search("ok")
    assert sorted(one.metadata["role"] for one in found if one.metadata) == [
        "assistant",
        "user",
        "user",
    ]
    assert len({*await memories.add_messages(batch), *first}) == 6, "without numbers all are new"
    with pytest.raises(ValueError, match="zip"):
        await memories.add_messages(batch, AddMessagesContext(sequence_numbers=[1]))


async def test_an_agents_words_become_memories(db: Database) -> None:
    memories = MemalchemyMemoryStore(db, extraction=True)
    manager = MemoryManager(stores=[memories], injection=False)
    agent = Agent(model=Scripted("Hello Ada."), memory_manager=manager, callback_handler=None)
    await agent.invoke_async("I am Ada and I like trains.")
    await manager.flush()
    (found,) = await MemalchemyMemoryStore(db).search("trains")
    assert found.content == "I am Ada and I like trains."


async def test_memories_that_are_added_at_once_are_all_stored(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        stores = [MemalchemyMemoryStore(db), MemalchemyMemoryStore(other)]
        await asyncio.gather(*(stores[n % 2].add(f"fact number {n // 2}") for n in range(40)))
        assert len(await stores[0].search("fact", {"max_search_results": 99})) == 20


@pytest.mark.parametrize("agent_id", ["y" * 600, "\ud800" * 300, "é" * 500])
async def test_an_agents_id_that_cannot_be_stored_is_strands_error(
    db: Database, agent_id: str
) -> None:
    sessions = MemalchemySessionRepository(db)
    await sessions.acreate_session(Session("s", SessionType.AGENT))
    agent = SessionAgent(agent_id, {}, {})
    message = SessionMessage({"role": "user", "content": [{"text": "said"}]}, 0)
    for call in (
        lambda: sessions.acreate_agent("s", agent),
        lambda: sessions.aread_agent("s", agent_id),
        lambda: sessions.aupdate_agent("s", agent),
        lambda: sessions.acreate_message("s", agent_id, message),
        lambda: sessions.aread_message("s", agent_id, 0),
        lambda: sessions.aupdate_message("s", agent_id, message),
        lambda: sessions.alist_messages("s", agent_id),
        lambda: sessions.aread_multi_agent("s", agent_id),
    ):
        with pytest.raises(SessionException):
            await call()

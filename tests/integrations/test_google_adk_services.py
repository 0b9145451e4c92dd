"""ADK's memories and artifacts on every database, and all services found by their URLs."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.service_registry import ServiceRegistry, load_services_module
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from starlette.testclient import TestClient

from memalchemy import Database
from memalchemy.events import subscribe
from memalchemy.integrations.google_adk import (
    MemalchemyArtifactService,
    MemalchemyMemoryService,
    MemalchemySessionService,
    register,
)

ADA: dict[str, Any] = {"app_name": "app", "user_id": "ada"}
BOB: dict[str, Any] = {"app_name": "app", "user_id": "bob"}


def content(*texts: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text) for text in texts])


def event(text: str, **fields: Any) -> Event:
    given: dict[str, Any] = {"author": "user", "invocation_id": "run", "content": content(text)}
    return Event(**given | fields)


def session(id_: str, *events: Event, user_id: str = "ada") -> Session:
    return Session(id=id_, app_name="app", user_id=user_id, events=list(events))


async def found(service: BaseMemoryService, query: str, **owner: Any) -> list[str]:
    response = await service.search_memory(**(owner or ADA), query=query)
    return [str((one.content.parts or [])[0].text) for one in response.memories]


# --- Memories ---------------------------------------------------------------------------------


@pytest.fixture
def memories(db: Database) -> MemalchemyMemoryService:
    return MemalchemyMemoryService(db)


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "ADK's"])
async def test_words_of_sessions_are_found(db: Database, is_ours: bool) -> None:
    """What both services do: the one of ADK is in memory."""
    service: BaseMemoryService = MemalchemyMemoryService(db) if is_ours else InMemoryMemoryService()
    first = event("The harbour opens at dawn", id="1", author="guide", timestamp=1700000000.5)
    second = event("Cats sleep in the harbour", id="2")
    picture = types.Part.from_bytes(data=b"harbour", mime_type="image/png")
    wordless = event("", id="3", content=types.Content(role="user", parts=[picture]))
    await service.add_session_to_memory(session("a", first, wordless, Event(author="user")))
    await service.add_session_to_memory(session("b", second, event("中文の港", id="4")))
    await service.add_session_to_memory(session("c", event("harbour", id="5"), user_id="bob"))

    assert sorted(await found(service, "HARBOUR")) == [
        "Cats sleep in the harbour", "The harbour opens at dawn"
    ]  # fmt: skip
    assert await found(service, "when does the harbour open? at dawn?") == [
        "The harbour opens at dawn", "Cats sleep in the harbour"
    ]  # fmt: skip
    assert await found(service, "港") == ["中文の港"]
    assert await found(service, "harb") == []
    assert await found(service, "user guide") == []
    assert await found(service, " ") == await found(service, "?!") == []
    assert await found(service, "harbour", **BOB) == ["harbour"]
    assert await found(service, "harbour", app_name="other", user_id="ada") == []
    entry = (await service.search_memory(**ADA, query="dawn")).memories[0]
    assert (entry.id, entry.author, entry.content) == ("1", "guide", first.content)
    assert entry.timestamp is not None

    await service.add_session_to_memory(session("a", first, event("Boats too: harbour", id="6")))
    await service.add_events_to_memory(**ADA, events=[event("harbour delta", id="7")])
    await service.add_events_to_memory(**ADA, events=[event("harbour delta", id="7")])
    assert len(await found(service, "harbour")) == 4

    await service.delete_memory(**ADA, memory_id="1")
    await service.delete_memory(**ADA, memory_id="none")
    await service.delete_memory(**ADA)
    await service.delete_memory(**BOB, memory_id="2")
    await service.add_session_to_memory(session("a", first))
    assert await found(service, "dawn") == []
    assert len(await found(service, "cats")) == 1

    for n in range(20):
        await service.add_events_to_memory(**ADA, events=[event(f"harbour {n}")])
    assert len(await found(service, "harbour")) == 10


async def test_a_session_that_is_added_again_changes_nothing(
    memories: MemalchemyMemoryService,
) -> None:
    events = [event(f"word{n} shared", id=str(n)) for n in range(30)]
    trips: list[tuple[str, int]] = []
    unsubscribe = subscribe(lambda one: trips.append((one.name, one.round_trips)))
    try:
        await memories.add_session_to_memory(session("a", *events))
        first = len(trips)
        await memories.add_session_to_memory(session("a", *events))
        again = trips[first:]
        await memories.search_memory(**ADA, query="shared")
    finally:
        unsubscribe()

    assert again == [("store.get", 1)]
    assert [name for name, _ in trips[first + 1 :]] == ["store.search"]
    items = await memories.store.list_items(("google_adk", "memories", "app", "ada"))
    assert {item.version for item in items} == {1}
    events[3].content = content("word3 is new")
    await memories.add_session_to_memory(session("a", *events))
    assert await found(memories, "new") == ["word3 is new"]
    assert await found(memories, "word3 shared", **BOB) == []
    of_session = {"session_id": "a"}
    kept = await memories.store.list_items(
        ("google_adk", "memories", "app", "ada"), filter=of_session
    )
    assert len(kept) == 30


async def test_a_model_s_thoughts_are_no_words(memories: MemalchemyMemoryService) -> None:
    parts = [types.Part(text="secretly", thought=True), types.Part(text="aloud")]
    said = event("", content=types.Content(role="model", parts=parts))
    await memories.add_events_to_memory(**ADA, events=[said], custom_metadata={"topic": "speech"})

    assert (await memories.search_memory(**ADA, query="secretly")).memories == []
    (entry,) = (await memories.search_memory(**ADA, query="aloud")).memories
    assert entry.content == said.content
    assert entry.custom_metadata == {"topic": "speech"}
    assert (await memories.search_memory(**ADA, query="speech")).memories == []


async def test_half_a_character_and_bytes_are_remembered_with_the_rest_of_a_session(
    memories: MemalchemyMemoryService,
) -> None:
    image = types.Part(inline_data=types.Blob(data=b"\xff\xfb\xfe?>", mime_type="image/png"))
    parts = [types.Part(text="an emoji \ud83d of the harbour"), image]
    cut = event("", content=types.Content(role="user", parts=parts))

    await memories.add_session_to_memory(session("s", event("I love the harbour"), cut))

    hits = await memories.search_memory(app_name="app", user_id="ada", query="harbour")
    assert len(hits.memories) == 2
    assert parts in [one.content.parts for one in hits.memories]


async def test_memories_are_added_directly(memories: MemalchemyMemoryService) -> None:
    given = [
        MemoryEntry(id="1", content=content("tall ships"), author="ada", timestamp="2026-01-01"),
        MemoryEntry(content=content("small ships"), custom_metadata={"from": "her"}),
    ]
    await memories.add_memory(**ADA, memories=given, custom_metadata={"by": "hand", "from": "?"})

    entries = (await memories.search_memory(**ADA, query="ships")).memories
    by_text = {str((one.content.parts or [])[0].text): one for one in entries}
    tall, small = by_text["tall ships"], by_text["small ships"]
    assert tall == given[0].model_copy(update={"custom_metadata": {"by": "hand", "from": "?"}})
    assert small.id
    assert small.custom_metadata == {"by": "hand", "from": "her"}
    assert given[1].id is None
    tall.content.parts = []
    assert (await memories.search_memory(**ADA, query="tall")).memories[0].content.parts


async def test_a_deleted_memory_comes_back_where_it_is_added_itself_and_not_with_its_session(
    memories: MemalchemyMemoryService,
) -> None:
    said = event("tall ships", id="1")
    await memories.add_session_to_memory(session("a", said))
    await memories.delete_memory(**ADA, memory_id="1")
    await memories.add_events_to_memory(**ADA, events=[said])
    assert await found(memories, "ships") == []

    await memories.add_memory(**ADA, memories=[MemoryEntry(id="1", content=content("small ships"))])
    assert await found(memories, "ships") == ["small ships"]


async def test_with_an_embedder_memories_are_found_by_meaning(db: Database) -> None:
    calls: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        calls.append(texts)
        angles = [0.0 if {"boat", "ship"} & set(text.split()) else math.pi / 2 for text in texts]
        return [[math.cos(angle), math.sin(angle)] for angle in angles]

    service = MemalchemyMemoryService(db, embedder=embed, limit=1)
    events = [event("a boat of oak", id="1"), event("a cat of straw", id="2")]
    await service.add_session_to_memory(session("a", *events))
    await service.add_session_to_memory(session("a", *events))

    assert calls == [["a boat of oak", "a cat of straw"]]
    assert await found(service, "ship") == ["a boat of oak"]
    await service.delete_memory(**ADA, memory_id="1")
    assert await found(service, "ship") == ["a cat of straw"]


async def test_of_several_that_add_and_delete_nothing_is_lost(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    events = [event(f"shared word{n}", id=str(n)) for n in range(12)]

    async def work(number: int) -> None:
        async with reopen() as own:
            service = MemalchemyMemoryService(own)
            for start in range(0, 12, 4):
                await service.add_session_to_memory(session("a", *events[: start + 4]))
                await service.delete_memory(**ADA, memory_id=str(number))

    await asyncio.gather(*(work(number) for number in range(4)))

    service = MemalchemyMemoryService(db, limit=50)
    assert sorted(await found(service, "shared")) == sorted(f"shared word{n}" for n in range(4, 12))


# --- Artifacts --------------------------------------------------------------------------------


@pytest.fixture
def artifacts(db: Database) -> MemalchemyArtifactService:
    return MemalchemyArtifactService(db)


BYTES = types.Part.from_bytes(data=bytes(range(256)), mime_type="application/pdf")
TEXT = types.Part(text="text")
FILE = types.Part(file_data=types.FileData(file_uri="gs://bucket/x", mime_type="image/png"))


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "ADK's"])
async def test_versions_of_artifacts(db: Database, is_ours: bool) -> None:
    """What both services do: the one of ADK is in memory."""
    service: BaseArtifactService = InMemoryArtifactService()
    if is_ours:
        service = MemalchemyArtifactService(db)
    of_session: dict[str, Any] = {**ADA, "session_id": "s", "filename": "a/b é.pdf"}
    of_user: dict[str, Any] = {**ADA, "filename": "user:notes"}
    assert await service.load_artifact(**of_session) is None
    assert await service.list_versions(**of_session) == []
    assert await service.list_artifact_versions(**of_session) == []
    assert await service.get_artifact_version(**of_session) is None

    told = {"kind": ["draft"]}
    for number, part in enumerate((BYTES, TEXT, FILE)):
        saved = await service.save_artifact(**of_session, artifact=part, custom_metadata=told)
        assert saved == number
    told["kind"].append("changed")
    as_dict = {"inlineData": {"data": "AAE=", "mimeType": "x/y"}}
    assert await service.save_artifact(**of_user, session_id="other", artifact=as_dict) == 0

    assert await service.load_artifact(**of_session) == FILE
    assert [await service.load_artifact(**of_session, version=n) for n in range(3)] == [
        BYTES, TEXT, FILE
    ]  # fmt: skip
    assert await service.load_artifact(**of_session, version=3) is None
    assert await service.load_artifact(**of_session, version=-1) is None
    assert await service.list_versions(**of_session) == [0, 1, 2]
    listed = await service.list_artifact_versions(**of_session)
    assert [one.version for one in listed] == [0, 1, 2]
    assert [one.mime_type for one in listed] == ["application/pdf", "text/plain", "image/png"]
    assert {str(one.custom_metadata) for one in listed} == {"{'kind': ['draft']}"}
    assert listed[1].canonical_uri.endswith(
        "://apps/app/users/ada/sessions/s/artifacts/a/b é.pdf/versions/1"
    )
    assert await service.get_artifact_version(**of_session) == listed[2]
    assert await service.get_artifact_version(**of_session, version=1) == listed[1]
    assert await service.get_artifact_version(**of_session, version=9) is None

    binary = await service.load_artifact(**of_user, session_id="s")
    assert binary is not None
    assert binary.inline_data is not None
    assert binary.inline_data.data == b"\x00\x01"
    (version,) = await service.list_artifact_versions(**of_user)
    assert version.canonical_uri.endswith("://apps/app/users/ada/artifacts/user:notes/versions/0")
    assert await service.list_artifact_keys(**ADA) == ["user:notes"]
    assert await service.list_artifact_keys(**ADA, session_id="s") == ["a/b é.pdf", "user:notes"]
    assert await service.list_artifact_keys(**ADA, session_id="other") == ["user:notes"]
    assert await service.list_artifact_keys(**BOB, session_id="s") == []

    binary.inline_data.data = b"changed"
    assert await service.load_artifact(**of_user) != binary
    await service.delete_artifact(**of_session)
    await service.delete_artifact(**of_session)
    assert await service.load_artifact(**of_session, version=0) is None
    assert await service.list_artifact_keys(**ADA, session_id="s") == ["user:notes"]
    assert await service.save_artifact(**of_session, artifact=TEXT) == 0
    assert await service.list_versions(**of_session) == [0]


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "ADK's"])
async def test_bad_input_and_references(db: Database, is_ours: bool) -> None:
    service: BaseArtifactService = InMemoryArtifactService()
    if is_ours:
        service = MemalchemyArtifactService(db)
    here: dict[str, Any] = {**ADA, "session_id": "s"}

    async def refer(name: str, uri: str) -> None:
        part = types.Part(file_data=types.FileData(file_uri=uri))
        await service.save_artifact(**here, filename=name, artifact=part)

    own = "artifact://apps/app/users/ada/sessions/s/artifacts"
    await service.save_artifact(**here, filename="target", artifact=TEXT)
    await refer("0", f"{own}/target/versions/0")
    for n in range(1, 6):
        await refer(str(n), f"{own}/{n - 1}/versions/0")
    assert await service.load_artifact(**here, filename="4") == TEXT
    with pytest.raises(InputValidationError, match="recursion"):
        await service.load_artifact(**here, filename="5")
    for wrong in (
        "artifact://apps/app/users/bob/artifacts/user:x/versions/0",
        "artifact://apps/app/users/ada/sessions/other/artifacts/x/versions/0",
        "artifact://nonsense",
    ):
        with pytest.raises(InputValidationError):
            await refer("wrong", wrong)
    for given in (types.Part(), types.Part(function_call=types.FunctionCall(name="f"))):
        with pytest.raises(InputValidationError, match="Not supported"):
            await service.save_artifact(**here, filename="wrong", artifact=given)
    with pytest.raises(InputValidationError, match="Session ID"):
        await service.save_artifact(**ADA, filename="wrong", artifact=TEXT)
    for names in ({"user_id": ".."}, {"session_id": "a/../b"}, {"app_name": ""}):
        with pytest.raises(InputValidationError):
            await service.save_artifact(**here | names, filename="wrong", artifact=TEXT)
    assert "wrong" not in await service.list_artifact_keys(**here)

    empty = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
    assert await service.save_artifact(**here, filename="target", artifact=empty) == 1
    assert await service.load_artifact(**here, filename="target") is None
    assert await service.load_artifact(**here, filename="target", version=0) == TEXT


async def test_a_session_named_user_is_no_user_s_scope(
    artifacts: MemalchemyArtifactService,
) -> None:
    await artifacts.save_artifact(**ADA, session_id="user", filename="x", artifact=TEXT)

    assert await artifacts.list_artifact_keys(**ADA) == []
    assert await artifacts.list_artifact_keys(**ADA, session_id="user") == ["x"]


async def test_savers_at_the_same_time_get_numbers_of_their_own(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async def work(number: int) -> list[int]:
        async with reopen() as own:
            service = MemalchemyArtifactService(own)
            return [
                await service.save_artifact(
                    **ADA, filename="user:x", artifact=types.Part(text=f"{number} {n}")
                )
                for n in range(6)
            ]

    numbers = await asyncio.gather(*(work(number) for number in range(3)))

    assert sorted(n for saved in numbers for n in saved) == list(range(18))
    service = MemalchemyArtifactService(db)
    assert await service.list_versions(**ADA, filename="user:x") == list(range(18))
    for number, saved in enumerate(numbers):
        for n, version in enumerate(saved):
            part = await service.load_artifact(**ADA, filename="user:x", version=version)
            assert part == types.Part(text=f"{number} {n}")


# --- Registration -----------------------------------------------------------------------------

AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        text = f"heard {len(llm_request.contents)}"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


root_agent = LlmAgent(name="guide", model=Scripted(), output_key="said")
"""
SERVICES = """
from memalchemy.integrations.google_adk import register

register()
"""


def test_each_scheme_makes_each_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ServiceRegistry()
    register(registry)
    uri = f"memalchemy+sqlite:///{tmp_path}/agent.db"
    made: list[Any] = [
        registry.create_session_service(uri, agents_dir="x"),
        registry.create_memory_service(uri, agents_dir="x"),
        registry.create_artifact_service(uri, agents_dir="x"),
    ]
    assert [type(one) for one in made] == [
        MemalchemySessionService, MemalchemyMemoryService, MemalchemyArtifactService
    ]  # fmt: skip
    assert {one.db for one in made} == {made[0].db}, "they share their connections"
    for database, dialect in (
        ("sqlite+aiosqlite:///x.db", "sqlite"),
        ("postgresql+asyncpg://me:secret@nowhere.invalid/db", "postgresql"),
        ("oracle://me:secret@nowhere.invalid/?service_name=x", "oracle"),
    ):
        service: Any = registry.create_session_service(f"memalchemy+{database}")
        assert service.db.dialect.name == dialect
        assert "secret" not in repr(service)
    monkeypatch.setenv("MEMALCHEMY_URL", f"sqlite:///{tmp_path}/other.db")
    of_environment: Any = registry.create_session_service("memalchemy://")
    assert "other.db" in repr(of_environment.db)
    assert registry.create_session_service("unknown://x") is None


@pytest.fixture
def agents_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "__init__.py").write_text("from . import agent\n")
    (tmp_path / "guide" / "agent.py").write_text(AGENT)
    (tmp_path / "services.py").write_text(SERVICES)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "services", raising=False)
    return tmp_path


@pytest.mark.filterwarnings("ignore")  # of ADK's own experimental parts
def test_adk_s_own_server_keeps_sessions_memories_and_artifacts(agents_dir: Path) -> None:
    uri = f"memalchemy+sqlite:///{agents_dir}/agent.db"

    def client() -> TestClient:
        app = get_fast_api_app(
            agents_dir=str(agents_dir),
            session_service_uri=uri,
            artifact_service_uri=uri,
            memory_service_uri=uri,
            web=False,
        )
        return TestClient(app)

    sessions = "/apps/guide/users/ada/sessions"
    run = {"app_name": "guide", "user_id": "ada", "session_id": "s1"}

    def say(server: TestClient, text: str) -> list[str]:
        message = {"role": "user", "parts": [{"text": text}]}
        answer = server.post("/run", json={**run, "new_message": message})
        assert answer.status_code == 200, answer.text
        return [part["text"] for one in answer.json() for part in one["content"]["parts"]]

    with client() as server:
        created = server.post(f"{sessions}/s1", json={"app:all": 1, "own": 2})
        assert created.json()["state"] == {"app:all": 1, "own": 2}
        assert server.post(f"{sessions}/s1").status_code == 409
        assert say(server, "Hello") == ["heard 1"]
    with client() as server:
        assert say(server, "Again") == ["heard 3"]
        stored = server.get(f"{sessions}/s1").json()
        assert [one["content"]["parts"][0]["text"] for one in stored["events"]] == [
            "Hello", "heard 1", "Again", "heard 3"
        ]  # fmt: skip
        assert stored["state"] == {"app:all": 1, "own": 2, "said": "heard 3"}
        assert [one["id"] for one in server.get(sessions).json()] == ["s1"]
        remembered = server.patch("/apps/guide/users/ada/memory", json={"session_id": "s1"})
        assert remembered.status_code == 200, remembered.text

    async def look() -> None:
        async with Database(uri.removeprefix("memalchemy+")) as db:
            guide: dict[str, Any] = {"app_name": "guide", "user_id": "ada"}
            memories = MemalchemyMemoryService(db)
            assert await found(memories, "again", **guide) == ["Again"]
            artifacts = MemalchemyArtifactService(db)
            assert await artifacts.list_artifact_keys(**guide, session_id="s1") == []

    asyncio.run(look())


def test_adk_s_commands_load_the_file_that_registers(
    agents_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.adk.cli import service_registry

    registry = ServiceRegistry()
    monkeypatch.setattr(service_registry, "_service_registry_instance", registry)
    load_services_module(str(agents_dir))

    made = registry.create_session_service("memalchemy+sqlite://")
    assert isinstance(made, MemalchemySessionService)

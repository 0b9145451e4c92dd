"""The recipes of docs/erasure.md erase all of a person, and nothing of another one.

The page has a row for each framework, and some of their pages a recipe in Python. The commands and
recipes are run as they are written there, with a name in place of ``ada`` that is nowhere else.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy import select
from sqlalchemy.engine import make_url
from subjects import FRAMEWORKS, INSTALLED
from typer.testing import CliRunner

from memalchemy import Checkpointer, Corrupt, Database, Store
from memalchemy.cli.app import app
from memalchemy.codec.compression import decompress
from memalchemy.schema import Base
from pages import ROOT

PAGE = (ROOT / "docs" / "erasure.md").read_text()
ROW = re.compile(r"^\| \[([^]]+)\]\((integrations/[^)]+)\) \| .* \| (.*) \|$", re.MULTILINE)
ROWS: dict[str, str] = {name: text for name, _, text in ROW.findall(PAGE)}
PAGES: dict[str, str] = {name: page for name, page, _ in ROW.findall(PAGE)}
SECTION = re.compile(r"^## Erase a person$((?:\n(?!#).*)*)", re.MULTILINE)
BLOCK = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"`(?:memalchemy )?((?:forget|vacuum|store rm) [^`]+)`")
MOST_BYTES = 100_000_000

pytestmark = pytest.mark.usefixtures("lasting")


class Person:
    """Somebody whose name, and a word that is in all texts about them, are nowhere else."""

    def __init__(self) -> None:
        self.name = f"zq{uuid.uuid4().hex[:10]}"
        self.word = f"xq{uuid.uuid4().hex[:10]}"

    def named(self, text: str) -> str:
        """Return a text of the page with this person in the place of ``ada``."""
        return re.sub(r"\bada\b", self.name, text)

    def text(self, about: str = "likes tea") -> str:
        return f"{self.word} {about}"


class Recipe:
    """A row of the page, and what it needs: data of a person, and the names of its Python."""

    row: ClassVar[str]
    framework: ClassVar[str]

    def __init__(self, db: Database) -> None:
        self.db = db

    async def write(self, one: Person) -> None:
        """Store something in every place that the row names."""
        raise NotImplementedError

    async def read(self, one: Person) -> Any:
        """Return all of it, as the framework reads it."""
        raise NotImplementedError

    def names(self) -> dict[str, Any]:
        """Return the names that the Python of the page needs, besides ``db`` and ``native``."""
        return {}

    async def close(self) -> None:
        pass


RECIPES: dict[str, type[Recipe]] = {}


def recipe(row: str, framework: str) -> Callable[[Any], Any]:
    def add(cls: type[Recipe]) -> type[Recipe]:
        cls.row, cls.framework = row, framework
        RECIPES[row] = cls
        return cls

    return add


# --- The frameworks ------------------------------------------------------------------------------


@recipe("A2A", "a2a")
class A2A(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import a2a

        self.tasks = a2a.MemalchemyVersionedTaskStore(db)
        self.webhooks = a2a.MemalchemyPushNotificationConfigStore(db)

    def call(self, one: Person) -> Any:
        from a2a.auth.user import User
        from a2a.server.context import ServerCallContext

        class Named(User):
            is_authenticated = True
            user_name = one.name

        return ServerCallContext(user=Named())

    def ids(self, one: Person) -> list[str]:
        return [f"{one.name}-1", f"{one.name}-2"]

    async def write(self, one: Person) -> None:
        from a2a.server.cluster.version import TaskVersion
        from a2a.types import TaskPushNotificationConfig
        from subjects.a2a import task_of

        call, deleted = self.call(one), str(uuid.uuid4())
        for id_ in (*self.ids(one), deleted):
            task = task_of(id_, one.text())
            await self.tasks.save(task, event=task, prev_version=TaskVersion.MISSING, context=call)
            config = TaskPushNotificationConfig(id="one", url=f"https://{one.word}.example")
            await self.webhooks.set_info(id_, config, call)
        await self.tasks.as_task_store.delete(deleted, call)

    async def read(self, one: Person) -> Any:
        call = self.call(one)
        return [
            (await self.tasks.get(id_, call), await self.webhooks.get_info(id_, call))
            for id_ in self.ids(one)
        ]


@recipe("Agent Framework", "agent_framework")
class AgentFramework(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import agent_framework

        self.history = agent_framework.MemalchemyHistoryProvider(db)
        self.sessions = agent_framework.MemalchemySessionStore(db)
        self.storage = agent_framework.MemalchemyCheckpointStorage(db)

    async def write(self, one: Person) -> None:
        from agent_framework import AgentSession, Message, WorkflowCheckpoint

        id_ = f"{one.name}-1"
        await self.history.save_messages(id_, [Message("user", [one.text()])])
        session = AgentSession(session_id=id_)
        session.state["said"] = one.text()
        await self.sessions.set(id_, session)
        for step in range(4):
            state = {"user_id": one.name, "said": [one.text(str(at)) for at in range(step + 1)]}
            await self.storage.save(WorkflowCheckpoint("paper", "hash", state=state))

    async def read(self, one: Person) -> Any:
        id_ = f"{one.name}-1"
        session = await self.sessions.get(id_)
        paper = await self.storage.list_checkpoints(workflow_name="paper")
        return (
            [message.text for message in await self.history.get_messages(id_)],
            session and session.state,
            [saved for saved in paper if saved.state["user_id"] == one.name],
        )

    def names(self) -> dict[str, Any]:
        return {"storage": self.storage}


@recipe("Claude Agent SDK", "claude_agent_sdk")
class Claude(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

        self.store = MemalchemySessionStore(db)

    def keys(self, one: Person) -> list[Any]:
        key = {"project_key": "project", "session_id": f"{one.name}-1"}
        return [key, key | {"subpath": f"subagents/agent-{one.name}"}]

    async def write(self, one: Person) -> None:
        for key in self.keys(one):
            line: Any = {"type": "user", "message": {"role": "user", "content": one.text()}}
            await self.store.append(key, [line])

    async def read(self, one: Person) -> Any:
        return [await self.store.load(key) for key in self.keys(one)]


@recipe("CrewAI", "crewai")
class CrewAI(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import crewai

        self.flows = crewai.MemalchemyFlowPersistence(db)
        self.checkpoints = crewai.MemalchemyCheckpointProvider(db)
        self.memories = crewai.MemalchemyMemoryStorage(db)

    async def write(self, one: Person) -> None:
        from crewai.memory.types import MemoryRecord
        from subjects.crewai import _checkpoint

        id_ = f"{one.name}-1"
        await self.flows.asave_state(id_, "step", {"id": id_, "said": [one.text()]})
        await _checkpoint(self.checkpoints, id_, one.text())
        record = MemoryRecord(content=one.text(), scope=f"/users/{one.name}", embedding=[1.0, 0.5])
        await self.memories.asave([record])

    async def read(self, one: Person) -> Any:
        from subjects.crewai import _restore

        id_ = f"{one.name}-1"
        return (
            await self.flows.aload_state(id_),
            await _restore(self.checkpoints, id_),
            await self.memories.alist_records(f"/users/{one.name}"),
        )

    def names(self) -> dict[str, Any]:
        class Storage:
            memory = staticmethod(lambda: self.memories)

        return {"storage": Storage}


@recipe("Google ADK", "google_adk")
class GoogleADK(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import google_adk

        self.sessions = google_adk.MemalchemySessionService(db)
        self.memories = google_adk.MemalchemyMemoryService(
            db, embedder=lambda texts: [[1.0, 0.5] for _ in texts]
        )
        self.artifacts = google_adk.MemalchemyArtifactService(db)

    def place(self, one: Person, session_id: str = "monday") -> dict[str, str]:
        return {"app_name": "tours", "user_id": one.name, "session_id": session_id}

    async def write(self, one: Person) -> None:
        from google.adk.events import Event, EventActions
        from google.genai import types

        user = {"app_name": "tours", "user_id": one.name}
        content = types.Content(role="user", parts=[types.Part(text=one.text())])
        for session_id in ("monday", "tuesday"):  # both users have these ids
            delta = {"user:last": one.text(), "mood": one.word, f"app:greets-{one.name}": one.word}
            session = await self.sessions.create_session(**self.place(one, session_id))
            event = Event(author="user", content=content, actions=EventActions(state_delta=delta))
            await self.sessions.append_event(session, event)
        await self.memories.add_session_to_memory(session)
        await self.memories.delete_memory(**user, memory_id="none")
        for name in ("user:map.txt", "note.txt"):
            part = types.Part(text=one.text())
            await self.artifacts.save_artifact(**self.place(one), filename=name, artifact=part)
        await self.sessions.delete_session(**self.place(one, "tuesday"))

    async def read(self, one: Person) -> Any:
        user = {"app_name": "tours", "user_id": one.name}
        session = await self.sessions.get_session(**self.place(one))
        state = {} if session is None else session.state
        return (
            session and session.events,
            {name: value for name, value in state.items() if one.word in str(value)},
            await self.sessions.get_user_state(**user),
            await self.memories.search_memory(**user, query=one.word),
            [
                await self.artifacts.load_artifact(**self.place(one), filename=name)
                for name in ("user:map.txt", "note.txt")
            ],
        )


@recipe("Haystack", "haystack")
class Haystack(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import haystack

        self.chats = haystack.MemalchemyChatMessageStore(db)
        self.documents = haystack.MemalchemyDocumentStore(db)

    async def write(self, one: Person) -> None:
        from haystack.dataclasses import ChatMessage, Document

        message = ChatMessage.from_user(one.text())
        await self.chats.write_messages_async(f"{one.name}-1", [message])
        meta = {"user_id": one.name}
        document = Document(content=one.text(), meta=meta, embedding=[1.0, 0.5])
        await self.documents.write_documents_async([document])

    async def read(self, one: Person) -> Any:
        mine = {"field": "meta.user_id", "operator": "==", "value": one.name}
        return (
            await self.chats.retrieve_messages_async(f"{one.name}-1", 100),
            await self.documents.filter_documents_async(mine),
        )

    def names(self) -> dict[str, Any]:
        return {"store": self.documents}


@recipe("LangChain", "langchain")
class LangChain(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from langchain_core.embeddings import DeterministicFakeEmbedding

        from memalchemy.integrations import langchain

        self.documents = langchain.MemalchemyVectorStore(
            db, embedding=DeterministicFakeEmbedding(size=4)
        )
        self.records = langchain.MemalchemyRecordManager(db, namespace="documents")
        self.store = langchain.MemalchemyStore(db)
        self.cache = langchain.MemalchemyCache(db)

    def history(self, one: Person) -> Any:
        from memalchemy.integrations.langchain import MemalchemyChatMessageHistory

        return MemalchemyChatMessageHistory(self.db, session_id=f"{one.name}-1")

    async def write(self, one: Person) -> None:
        from langchain_core.documents import Document
        from langchain_core.indexing import aindex
        from langchain_core.messages import HumanMessage
        from langchain_core.outputs import Generation

        await self.history(one).aadd_messages([HumanMessage(one.text())])
        metadata = {"user_id": one.name, "source": f"{one.name}.txt"}
        document = Document(one.text(), metadata=metadata)
        await aindex(
            [document],
            self.records,
            self.documents,
            cleanup="incremental",
            source_id_key="source",
            key_encoder="sha256",
        )
        await self.store.amset([(f"{one.name}-likes", {"said": one.text()})])
        await self.cache.aupdate(one.text(), "model", [Generation(text=one.text())])

    async def read(self, one: Person) -> Any:
        return (
            await self.history(one).aget_messages(),
            await self.documents.asimilarity_search("tea", filter={"user_id": one.name}),
            await self.records.alist_keys(group_ids=[f"{one.name}.txt"]),
            await self.store.amget([f"{one.name}-likes"]),
        )

    def names(self) -> dict[str, Any]:
        return {"records": self.records, "store": self.store}


@recipe("LangGraph", "langgraph")
class LangGraph(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations.langgraph import MemalchemySaver

        self.saver = MemalchemySaver(db)

    def ids(self, one: Person) -> list[str]:
        return [f"{one.name}-1", f"thread of {one.word}"]

    async def write(self, one: Person) -> None:
        from langgraph.graph import START, StateGraph
        from langgraph.types import interrupt

        def ask(state: Any) -> Any:
            return {"said": interrupt(one.text("is asked"))}

        graph = StateGraph(dict).add_node("ask", ask).add_edge(START, "ask")
        for id_, metadata in zip(self.ids(one), ({}, {"user_id": one.name}), strict=True):
            config: Any = {"configurable": {"thread_id": id_}, "metadata": metadata}
            await graph.compile(checkpointer=self.saver).ainvoke({"said": one.text()}, config)

    async def read(self, one: Person) -> Any:
        return [
            await self.saver.aget_tuple({"configurable": {"thread_id": id_}})
            for id_ in self.ids(one)
        ]


@recipe("LangGraph's store", "langgraph")
class LangGraphStore(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations.langgraph import MemalchemyStore

        index: Any = {"dims": 2, "embed": lambda texts: [[1.0, 0.5] for _ in texts]}
        self.store = MemalchemyStore(db, index=index)

    async def write(self, one: Person) -> None:
        for place in (("users", one.name), ("users", one.name, "likes")):
            await self.store.aput(place, "tea", {"text": one.text()})

    async def read(self, one: Person) -> Any:
        return await self.store.asearch(("users", one.name))


@recipe("lauren-ai", "lauren_ai")
class LaurenAI(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import lauren_ai

        self.conversations = lauren_ai.MemalchemyConversationStore(db)
        self.facts = lauren_ai.MemalchemyUserMemoryStore(db)
        self.documents = lauren_ai.MemalchemyVectorStore(db)

    async def write(self, one: Person) -> None:
        from lauren_ai import MemoryFact

        await self.conversations.save(f"{one.name}-1", [{"role": "user", "content": one.text()}])
        for id_ in ("f1", one.word):  # both users have a fact f1
            await self.facts.add(MemoryFact(id_, one.name, one.text()))
        await self.documents.upsert(one.text(), id=one.word, metadata={"user_id": one.name})

    async def read(self, one: Person) -> Any:
        return (
            await self.conversations.load(f"{one.name}-1"),
            sorted(fact.memory_id for fact in await self.facts.list(one.name)),
            await self.facts._owner(one.word, None),
            await self.documents.get(one.word),
        )

    def names(self) -> dict[str, Any]:
        return {"facts": self.facts}


@recipe("LazyBridge", "lazybridge")
class LazyBridge(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations.lazybridge import MemalchemyStore

        self.store = MemalchemyStore(db)

    async def write(self, one: Person) -> None:
        turns = {"turns": [{"user": one.text(), "assistant": "yes"}]}
        await self.store.memories("chat").save(turns, f"{one.name}-1")
        await self.store.kv.write(f"{one.name}-budget", {"said": one.text()})

    async def read(self, one: Person) -> Any:
        return (
            await self.store.memories("chat").load(f"{one.name}-1"),
            await self.store.kv.read(f"{one.name}-budget"),
        )


@recipe("LlamaIndex", "llama_index")
class LlamaIndex(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from llama_index.core import StorageContext
        from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore

        from memalchemy.integrations import llama_index

        self.chats = llama_index.MemalchemyChatStore(db)
        self.vectors = llama_index.MemalchemyVectorStore(db)
        self.values = llama_index.MemalchemyKVStore(db)
        self.context = StorageContext.from_defaults(
            docstore=KVDocumentStore(self.values), vector_store=self.vectors
        )

    async def write(self, one: Person) -> None:
        from llama_index.core import Document
        from llama_index.core.base.llms.types import ChatMessage
        from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

        key, metadata = f"{one.name}-1", {"user_id": one.name}
        for at in range(3):
            await self.chats.add_message(key, ChatMessage(role="user", content=one.text(str(at))))
        await self.chats.archive_oldest_messages(key, 1)
        source = Document(text=one.text(), id_=f"{one.word}-document", metadata=metadata)
        node = TextNode(
            text=one.text(), id_=f"{one.word}-node", metadata=metadata, embedding=[1.0, 0.5]
        )
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source.id_)
        await self.vectors.async_add([node])
        await asyncio.to_thread(self.context.docstore.add_documents, [source, node])

    async def read(self, one: Person) -> Any:
        filters = self.filters(one)
        found = await asyncio.to_thread(lambda: self.context.docstore.docs)
        return (
            await self.chats.get_messages(f"{one.name}-1", status=None),
            await self.vectors.aget_nodes(filters=filters),
            {id_: document.text for id_, document in found.items() if one.word in id_},
        )

    def filters(self, one: Person) -> Any:
        from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

        return MetadataFilters(filters=[MetadataFilter(key="user_id", value=one.name)])

    def names(self) -> dict[str, Any]:
        return {"vectors": self.vectors, "context": self.context}


@recipe("llm-agents-from-scratch", "llm_agents_from_scratch")
class LLMAgentsFromScratch(Recipe):
    def store(self, one: Person) -> Any:
        from memalchemy.integrations.llm_agents_from_scratch import MemalchemyMemoryStore

        return MemalchemyMemoryStore(self.db, namespace=(one.name,))

    async def write(self, one: Person) -> None:
        from subjects.llm_agents_from_scratch import _write

        await _write(self.store(one), "e1", one.text())

    async def read(self, one: Person) -> Any:
        return await self.store(one).get("e1")


@recipe("locus", "locus")
class Locus(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import locus

        self.checkpointer = locus.MemalchemyCheckpointer(db)
        self.store = locus.MemalchemyStore(db)

    async def write(self, one: Person) -> None:
        from locus.core.messages import Message
        from locus.core.state import AgentState

        state = AgentState(messages=(Message.user(one.text()),))
        await self.checkpointer.save(state, f"{one.name}-1", metadata={"by": one.name})
        place = ("users", one.name)
        await self.store.put_with_embedding(place, "tea", one.text(), [1.0, 0.5])

    async def read(self, one: Person) -> Any:
        place = ("users", one.name)
        return (
            await self.checkpointer.load(f"{one.name}-1"),
            await self.store.get(place, "tea"),
            await self.store.get_embedding(place, "tea"),
        )


@recipe("mem0", "mem0")
class Mem0(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        import scripted_mem0  # noqa: F401  (before mem0)
        from mem0 import Memory
        from mem0.configs.base import MemoryConfig
        from mem0.embeddings.configs import EmbedderConfig

        from memalchemy.integrations.mem0 import MemalchemyHistory, vector_store_config

        embedder = EmbedderConfig(provider="fastembed")
        config = MemoryConfig(embedder=embedder, history_db_path=":memory:")
        config.vector_store = vector_store_config(db)
        self.memory = Memory(config)
        self.memory.db.close()
        self.memory.db = MemalchemyHistory(db)

    async def write(self, one: Person) -> None:
        await asyncio.to_thread(self._write, one)

    def _write(self, one: Person) -> None:
        from scripted_mem0 import ScriptedLLM

        ScriptedLLM.SCRIPT[:] = [[one.text(), one.text("lives in Oslo")], [one.text("sails")]]
        memory = self.memory
        first, second = memory.add(one.text("said it"), user_id=one.name)["results"]
        memory.add(one.text("said more"), user_id=one.name, agent_id="guide")
        memory.update(first["id"], one.text("likes oolong"))
        memory.delete(second["id"])
        payload = {"data": one.text("an entity"), "user_id": one.name, "linked_memory_ids": []}
        memory.entity_store.insert([[1.0, 0.5]], [payload], [f"{one.word}-entity"])

    async def read(self, one: Person) -> Any:
        return await asyncio.to_thread(self._read, one)

    def _read(self, one: Person) -> Any:
        found = self.memory.get_all(filters={"user_id": one.name})["results"]
        return (
            found,
            [self.memory.history(memory["id"]) for memory in found],
            self.memory.entity_store.list({"user_id": one.name}),
            self.memory.db.get_last_messages(f"user_id={one.name}"),
        )

    def names(self) -> dict[str, Any]:
        return {"memory": self.memory}


@recipe("OpenAI Agents SDK", "openai_agents")
class OpenAIAgents(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import openai_agents

        self.sessions = openai_agents.MemalchemySessions(db)
        self.runs = openai_agents.MemalchemyRunStates(db)

    def ids(self, one: Person) -> list[str]:
        return [f"{one.name}-1", f"session of {one.word}"]

    async def write(self, one: Person) -> None:
        from memalchemy.importers.openai_session_namespaces import usage_key, usage_namespace

        for id_ in self.ids(one):
            session = self.sessions.session(id_)
            for _ in range(2):
                await session.add_items([{"role": "user", "content": one.text()}])
            await session.create_branch_from_turn(2, f"branch {one.name}")
            await session.add_items([{"role": "user", "content": one.text("on a branch")}])
            await session.delete_branch(f"branch {one.name}", force=True)
            await self.sessions.describe(id_, user_id=one.name, title=one.text())
            place = usage_namespace(id_, "main")
            await self.sessions.store.put(place, usage_key(1), {"requests": 1, "note": one.word})
        await self.runs.checkpointer.save({"said": one.text()}, f"{one.name}-run")

    async def read(self, one: Person) -> Any:
        return [
            (await self.sessions.get(id_), await self.sessions.session(id_).get_items())
            for id_ in self.ids(one)
        ] + [await self.runs.checkpointer.load(f"{one.name}-run")]

    def names(self) -> dict[str, Any]:
        return {"sessions": self.sessions}


@recipe("Pydantic AI", "pydantic_ai")
class PydanticAI(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations.pydantic_ai import MemalchemyConversationStore

        self.store = MemalchemyConversationStore(db)

    async def write(self, one: Person) -> None:
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        for at in range(2):
            messages: Any = [
                ModelRequest(parts=[UserPromptPart(one.text(str(said)))]) for said in range(2)
            ]
            conversation = Conversation(conversation_id=f"{one.name}-{at}", messages=messages)
            await self.store.save(conversation, scope=one.name)
        await self.store.fork(f"{one.name}-0", at=1, new_conversation_id=f"{one.name}-fork")

    async def read(self, one: Person) -> Any:
        found = await self.store.list_conversations(scope=one.name)
        return [await self.store.load(info.conversation_id) for info in found]

    def names(self) -> dict[str, Any]:
        return {"store": self.store}


@recipe("Pydantic AI harness", "pydantic_ai_harness")
class PydanticAIHarness(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import pydantic_ai_harness

        self.steps = pydantic_ai_harness.MemalchemyStepStore(db, max_snapshots_per_run=1)
        self.memories = pydantic_ai_harness.MemalchemyMemoryStore(db)

    async def write(self, one: Person) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.models.test import TestModel
        from pydantic_ai_harness.step_persistence import StepPersistence

        model = TestModel(custom_output_text=one.text())
        agent = Agent(model, capabilities=[StepPersistence(store=self.steps)])
        for _ in range(2):
            await agent.run(one.text(), conversation_id=f"{one.name}-1")
        await self.memories.write(f"{one.name}/notes.md", one.text(), expected_version=None)

    async def read(self, one: Person) -> Any:
        runs = await self.steps.list_runs(conversation_id=f"{one.name}-1")
        return (
            runs,
            [await self.steps.list_events(run_id=run.run_id) for run in runs],
            [await self.steps.list_snapshots(run_id=run.run_id) for run in runs],
            await self.memories.read(f"{one.name}/notes.md", max_chars=1000),
        )

    def names(self) -> dict[str, Any]:
        return {"steps": self.steps, "memories": self.memories}


@recipe("Strands Agents", "strands")
class Strands(Recipe):
    def __init__(self, db: Database) -> None:
        super().__init__(db)
        from memalchemy.integrations import strands

        self.repository = strands.MemalchemySessionRepository(db)
        self.storage = strands.MemalchemyStorage(db)

    def memories(self, one: Person) -> Any:
        from memalchemy.integrations.strands import MemalchemyMemoryStore

        return MemalchemyMemoryStore(self.db, name=one.name)

    def keys(self, one: Person) -> list[str]:
        snapshots = f"session/{one.name}-1/scopes/agent/assistant/snapshots"
        return [f"{snapshots}/snapshot_latest.json", f"memory/{one.name}/notes.md"]

    async def write(self, one: Person) -> None:
        from subjects.strands import _say

        await _say(self.repository, f"{one.name}-1", one.text())
        for key in self.keys(one):
            await self.storage.write(key, one.text().encode())
        await self.memories(one).add(one.text(), {"user_id": one.name})

    async def read(self, one: Person) -> Any:
        from subjects.strands import _messages

        id_ = f"{one.name}-1"
        known = await self.repository.aread_session(id_) is not None
        return (
            [message.to_message() for message in await _messages(self.repository, id_)]
            if known
            else [],
            [await self.storage.read(key) for key in self.keys(one)],
            await self.memories(one).search(one.word),
        )


# --- The tests -----------------------------------------------------------------------------------


async def cells(db: Database) -> AsyncIterator[tuple[str, str]]:
    """Yield every value of every row of the tenant, as text, with its column."""
    async with db.transaction() as tx:
        for table in Base.metadata.sorted_tables:
            rows = await tx.execute(select(*table.c).where(table.c.tenant == db.tenant))
            for row in rows.mappings():
                for column in table.c:
                    value = row[column.name]
                    if isinstance(value, bytes | memoryview):
                        value = bytes(value)
                        with suppress(Corrupt):
                            value += decompress(value, MOST_BYTES)
                        value = value.decode("utf-8", "replace")
                    yield str(column), str(value)


async def told_of(one: Person, db: Database) -> list[str]:
    """Return the columns, and other places, in which something of a person is."""
    exported = [str(record) async for record in Checkpointer(db).export(tenant=db.tenant)]
    exported += [str(item) async for item in Store(db).iter_items((), prefix=True)]
    found = [where async for where, text in cells(db) if one.name in text or one.word in text]
    found += ["export" for text in exported if one.name in text or one.word in text]
    return sorted(set(found))


def bytes_of(url: str) -> bytes:
    """Return what is in the files of a database, if it is SQLite's."""
    path = make_url(url).database
    if not url.startswith("sqlite"):
        return b""
    beside = [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm", "-journal")]
    return b"".join(file.read_bytes() for file in beside if file.exists())


def in_files(one: Person, url: str) -> list[str]:
    content = bytes_of(url)
    return [text for text in (one.name, one.word) if text.encode() in content]


def section_of(row: str) -> str | None:
    """Return what the framework's page says under "Erase a person", if it has that."""
    found = SECTION.search((ROOT / "docs" / PAGES[row]).read_text())
    return found and found[1]


async def follow(recipe: Recipe, one: Person, url: str) -> None:
    """Do for a person what the page says: its Python first, then its commands."""
    db, written = recipe.db, ROWS[recipe.row]
    if section := section_of(recipe.row):
        (block,) = BLOCK.findall(section)
        await run_block(one.named(block), {"db": db} | recipe.names())
        written += section
    for command in COMMAND.findall(one.named(written)):
        arguments = shlex.split(command)
        if arguments[0] != "vacuum":
            arguments.append("--yes") if arguments[0] == "forget" else None
        await run_command("--db", url, "--tenant", db.tenant, *arguments)


async def run_block(block: str, names: dict[str, Any]) -> None:
    code = compile(block, "erasure.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if "await" not in block:
        await asyncio.to_thread(eval, code, names)
        return
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result


async def run_command(*arguments: str) -> None:
    result = await asyncio.to_thread(CliRunner().invoke, app, list(arguments))
    assert result.exit_code == 0, (arguments, result.output)


def test_each_row_of_the_page_has_a_recipe_here() -> None:
    assert list(ROWS) == list(RECIPES)
    for name, text in ROWS.items():
        assert COMMAND.search(text) or section_of(name), name
        link = f"[recipe]({PAGES[name]}#erase-a-person)"
        assert (link in text) == (section_of(name) is not None), name


def test_each_adapter_has_a_row() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "integrations").glob("*.md")}
    linked = set(re.findall(r"^\| \[[^]]+\]\(integrations/([^)]+)\.md\)", PAGE, re.MULTILINE))

    assert pages - linked == {"adapters", "benchmarks", "index", "leaving", "matrix"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("row", RECIPES)
async def test_a_person_is_erased_and_another_one_stays(
    row: str, db: Database, shared_url: str
) -> None:
    if RECIPES[row].framework not in INSTALLED:
        pytest.skip(f"{RECIPES[row].framework} needs an environment of its own")
    recipe, ada, bob = RECIPES[row](db), Person(), Person()
    await recipe.write(ada)
    await recipe.write(bob)
    before = await recipe.read(bob)
    assert await told_of(ada, db), "it would be seen"
    assert str(await recipe.read(ada)) != str(await recipe.read(Person())), "something is read"

    await follow(recipe, ada, shared_url)

    assert await told_of(ada, db) == []
    assert in_files(ada, shared_url) == []
    again = RECIPES[row](db)
    assert str(await again.read(bob)) == str(before)
    assert await told_of(bob, db)
    assert str(await again.read(ada)) == str(await again.read(Person()))


async def test_what_is_left_of_a_person_is_seen(db: Database) -> None:
    one, store = Person(), Store(db)
    await store.put(("notes", one.name), "k", 1)
    await Checkpointer(db).save({"said": one.text("again and again " * 50)}, "thread")

    assert await told_of(one, db) == [
        "deltas.payload",
        "deltas.search_text",
        "export",
        "store_items.namespace",
    ]


def test_each_framework_has_a_recipe() -> None:
    assert {one.framework for one in RECIPES.values()} == FRAMEWORKS.keys()

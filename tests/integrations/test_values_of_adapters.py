"""Each value that an adapter stores comes back as it is or is refused, whatever stands beside it.

The adapters are those of `subjects`: one that stores fields of the application's stands in `PLACES`
with each place that takes them, any other one in `NO_FIELDS` with the reason.
"""

from __future__ import annotations

import asyncio
import enum
from collections import OrderedDict, deque, namedtuple
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr
from subjects import INSTALLED

from drawn_examples import examples
from memalchemy import Database

Fields = dict[str, Any]
Put = Callable[[Any, str, Fields], Awaitable[Any]]
Get = Callable[[Any, str], Awaitable[Mapping[str, Any] | None]]


@dataclass(frozen=True)
class Place:
    """Where an adapter takes fields of the application's, and reads them."""

    open: Callable[[Database], Any]
    put: Put
    get: Get


PLACES: dict[tuple[str, str, str], Place] = {}
"""By framework, adapter and place."""

NO_FIELDS = {
    ("a2a", "MemalchemyPushNotificationConfigStore"): "protobuf",
    ("a2a", "MemalchemyTaskEventStream"): "protobuf",
    ("a2a", "MemalchemyTaskStore"): "protobuf",
    ("a2a", "MemalchemyVersionedTaskStore"): "protobuf",
    ("crewai", "MemalchemyCheckpointProvider"): "the JSON of CrewAI, a text",
    ("langchain", "MemalchemyByteStore"): "bytes",
    ("langchain", "MemalchemyRecordManager"): "keys and times",
    ("mem0", "MemalchemyHistory"): "texts",
    ("openai_agents", "MemalchemyRunStates"): "the JSON of the SDK, a text",
    ("pydantic_ai_harness", "MemalchemyMemoryStore"): "texts, with metadata that are texts",
    ("llm_agents_from_scratch", "MemalchemyMemoryStore"): "texts",
    ("strands", "MemalchemyStorage"): "bytes",
}


def places(framework: str) -> Callable[[Callable[[Any], Any]], None]:
    def add(found: Callable[[Any], Any]) -> None:
        if framework in INSTALLED:
            for name, where, put, get in found(INSTALLED[framework]):
                made = INSTALLED[framework].ADAPTERS
                adapter = next(make for cls, make in made.items() if cls.__name__ == name)
                PLACES[framework, name, where] = Place(adapter, put, get)

    return add


def threaded(call: Callable[..., Any], *args: Any, **options: Any) -> Awaitable[Any]:
    return asyncio.to_thread(call, *args, **options)


@places("google_adk")
def _google_adk(module: Any) -> Any:
    from google.adk.events import Event, EventActions
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types

    owner = module.OWNER

    async def create(service: Any, id_: str, fields: Fields) -> None:
        await service.create_session(**owner, session_id=id_, state=fields)

    async def state(service: Any, id_: str) -> Any:
        found = await service.get_session(**owner, session_id=id_)
        return found and found.state

    def appending(event: Callable[[Fields], Event]) -> Put:
        async def append(service: Any, id_: str, fields: Fields) -> None:
            session = await service.create_session(**owner, session_id=id_)
            await service.append_event(session, event(fields))

        return append

    def of_event(read: Callable[[Any], Any]) -> Get:
        async def get(service: Any, id_: str) -> Any:
            found = await service.get_session(**owner, session_id=id_)
            return read(found.events[0]) if found and found.events else None

        return get

    def response(fields: Fields) -> types.Content:
        answer = types.FunctionResponse(id="1", name="f", response=fields)
        return types.Content(role="user", parts=[types.Part(function_response=answer)])

    def delta(fields: Fields) -> Event:
        return Event(author="a", actions=EventActions(state_delta=fields))

    async def remember(memories: Any, id_: str, fields: Fields) -> None:
        content = types.Content(role="user", parts=[types.Part(text="text")])
        entry = MemoryEntry(id=id_, content=content, custom_metadata=fields)
        await memories.add_memory(**owner, memories=[entry])

    async def remembered(memories: Any, id_: str) -> Any:
        found = await memories.search_memory(**owner, query="text")
        return next((one.custom_metadata for one in found.memories if one.id == id_), None)

    async def keep(artifacts: Any, id_: str, fields: Fields) -> None:
        part = types.Part(text="text")
        named = {"session_id": id_, "filename": "f"}
        await artifacts.save_artifact(**owner, **named, artifact=part, custom_metadata=fields)

    async def kept(artifacts: Any, id_: str) -> Any:
        named = {"session_id": id_, "filename": "f"}
        found = await artifacts.get_artifact_version(**owner, **named)
        return found and found.custom_metadata

    sessions = "MemalchemySessionService"
    return [
        (sessions, "a new session's state", create, state),
        (sessions, "changed state", appending(delta), state),
        (
            sessions,
            "an event's changes",
            appending(delta),
            of_event(lambda event: event.actions.state_delta),
        ),
        (
            sessions,
            "a tool's result",
            appending(lambda fields: Event(author="a", content=response(fields))),
            of_event(lambda event: event.content.parts[0].function_response.response),
        ),
        (
            sessions,
            "an event's metadata",
            appending(lambda fields: Event(author="a", custom_metadata=fields)),
            of_event(lambda event: event.custom_metadata),
        ),
        ("MemalchemyMemoryService", "metadata", remember, remembered),
        ("MemalchemyArtifactService", "metadata", keep, kept),
    ]


@places("pydantic_ai")
def _pydantic_ai(module: Any) -> Any:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    async def one(store: Any, id_: str, fields: Fields) -> None:
        part = ToolReturnPart(tool_name="t", content=fields, tool_call_id="1")
        request = ModelRequest(parts=[part])
        await store.save(Conversation(conversation_id=id_, messages=[request]))

    async def several(store: Any, id_: str, fields: Fields) -> None:
        requests = [
            ModelRequest(parts=[ToolReturnPart(tool_name=name, content=value, tool_call_id=name)])
            for name, value in fields.items()
        ]
        await store.save(Conversation(conversation_id=id_, messages=requests))

    async def content(store: Any, id_: str) -> Any:
        found = await store.load(id_)
        return found and found.messages[0].parts[0].content

    async def contents(store: Any, id_: str) -> Any:
        found = await store.load(id_)
        if found is None:
            return None
        parts = [message.parts[0] for message in found.messages]
        return {part.tool_name: part.content for part in parts}

    store = "MemalchemyConversationStore"
    return [(store, "a tool's result", one, content), (store, "several results", several, contents)]


@places("pydantic_ai_harness")
def _pydantic_ai_harness(module: Any) -> Any:
    from pydantic_ai.messages import ModelRequest, ToolReturnPart
    from pydantic_ai_harness.step_persistence import ContinuableSnapshot

    async def save(store: Any, id_: str, fields: Fields) -> None:
        part = ToolReturnPart(tool_name="t", content=fields, tool_call_id="1")
        snapshot = ContinuableSnapshot(
            run_id=id_,
            step_index=1,
            conversation_id=None,
            messages=[ModelRequest(parts=[part])],
            timestamp=datetime(2026, 1, 1, tzinfo=UTC),
            state="complete",
        )
        await store.save_snapshot(snapshot)

    async def load(store: Any, id_: str) -> Any:
        found = await store.latest_snapshot(run_id=id_)
        return found and found.messages[0].parts[0].content

    return [("MemalchemyStepStore", "a tool's result", save, load)]


@places("langgraph")
def _langgraph(module: Any) -> Any:
    from langgraph.checkpoint.base import empty_checkpoint

    def config(id_: str) -> Any:
        return {"configurable": {"thread_id": id_, "checkpoint_ns": ""}}

    async def save(saver: Any, id_: str, fields: Fields) -> None:
        versions = dict.fromkeys(fields, 1)
        values = {"channel_values": fields, "channel_versions": versions}
        await saver.aput(config(id_), empty_checkpoint() | values, {}, versions)

    async def load(saver: Any, id_: str) -> Any:
        found = await saver.aget_tuple(config(id_))
        return found and found.checkpoint["channel_values"]

    async def get(store: Any, id_: str) -> Any:
        found = await store.aget(("n",), id_)
        return found and found.value

    return [
        ("MemalchemySaver", "channels", save, load),
        ("MemalchemyStore", "a value", lambda s, id_, v: s.aput(("n",), id_, v), get),
    ]


@places("langchain")
def _langchain(module: Any) -> Any:
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import Generation

    async def say(history: Any, id_: str, fields: Fields) -> None:
        message = AIMessage("text", additional_kwargs=fields)
        await module._history(history, id_).aadd_messages([message])

    async def said(history: Any, id_: str) -> Any:
        found = await module._history(history, id_).aget_messages()
        return found[0].additional_kwargs if found else None

    async def add(store: Any, id_: str, fields: Fields) -> None:
        await store.aadd_documents([Document("text", id=id_, metadata=fields)])

    async def document(store: Any, id_: str) -> Any:
        found = await store.aget_by_ids([id_])
        return found[0].metadata if found else None

    async def answer(cache: Any, id_: str, fields: Fields) -> None:
        await cache.aupdate(id_, "m", [Generation(text="text", generation_info=fields)])

    async def answered(cache: Any, id_: str) -> Any:
        found = await cache.alookup(id_, "m")
        return found[0].generation_info if found else None

    async def value(store: Any, id_: str) -> Any:
        return (await store.amget([id_]))[0]

    return [
        ("MemalchemyChatMessageHistory", "a message", say, said),
        ("MemalchemyVectorStore", "metadata", add, document),
        ("MemalchemyCache", "a generation", answer, answered),
        ("MemalchemyStore", "a value", lambda s, id_, v: s.amset([(id_, v)]), value),
    ]


@places("llama_index")
def _llama_index(module: Any) -> Any:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.schema import TextNode

    async def say(store: Any, id_: str, fields: Fields) -> None:
        message = ChatMessage(role="user", content="text", additional_kwargs=fields)
        await store.add_message(id_, message)

    async def said(store: Any, id_: str) -> Any:
        found = await store.get_messages(id_)
        return found[0].additional_kwargs if found else None

    async def add(store: Any, id_: str, fields: Fields) -> None:
        await store.async_add([TextNode(id_=id_, text="t", embedding=[1.0], metadata=fields)])

    async def node(store: Any, id_: str) -> Any:
        found = await store.aget_nodes([id_])
        return found[0].metadata if found else None

    return [
        ("MemalchemyChatStore", "a message", say, said),
        ("MemalchemyVectorStore", "metadata", add, node),
        ("MemalchemyKVStore", "a value", lambda s, i, v: s.aput(i, v), lambda s, i: s.aget(i)),
    ]


@places("haystack")
def _haystack(module: Any) -> Any:
    from haystack import Document
    from haystack.dataclasses import ChatMessage

    async def say(store: Any, id_: str, fields: Fields) -> None:
        await store.write_messages_async(id_, [ChatMessage.from_user("text", meta=fields)])

    async def said(store: Any, id_: str) -> Any:
        found = await module._said(store, id_)
        if not found:
            return None
        return {name: one for name, one in found[0].meta.items() if not name.startswith("chat_")}

    async def write(store: Any, id_: str, fields: Fields) -> None:
        await store.write_documents_async([Document(id=id_, content="text", meta=fields)])

    async def document(store: Any, id_: str) -> Any:
        found = await module._found(store, id_)
        return found[0].meta if found else None

    return [
        ("MemalchemyChatMessageStore", "a message", say, said),
        ("MemalchemyDocumentStore", "metadata", write, document),
    ]


@places("openai_agents")
def _openai_agents(module: Any) -> Any:
    async def add(sessions: Any, id_: str, fields: Fields) -> None:
        await sessions.session(id_).add_items([{"role": "user", "content": "text"} | fields])

    async def items(sessions: Any, id_: str) -> Any:
        found = await sessions.session(id_).get_items()
        if not found:
            return None
        return {name: one for name, one in found[0].items() if name not in ("role", "content")}

    async def add_alone(session: Any, id_: str, fields: Fields) -> None:
        from memalchemy.integrations.openai_agents import MemalchemySession

        session = MemalchemySession(id_, session.db)
        await session.add_items([{"role": "user", "content": "text"}, fields])

    async def items_alone(session: Any, id_: str) -> Any:
        from memalchemy.integrations.openai_agents import MemalchemySession

        found = await MemalchemySession(id_, session.db).get_items()
        return found[1] if found else None

    async def describe(sessions: Any, id_: str, fields: Fields) -> None:
        await sessions.session(id_).add_items([{"role": "user", "content": "text"}])
        await sessions.describe(id_, **fields)

    async def described(sessions: Any, id_: str) -> Any:
        found = await sessions.get(id_)
        return found and found.metadata

    return [
        ("MemalchemySessions", "an item", add, items),
        ("MemalchemySessions", "a description", describe, described),
        ("MemalchemySession", "an item", add_alone, items_alone),
    ]


@places("strands")
def _strands(module: Any) -> Any:
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

    async def say(sessions: Any, id_: str, fields: Fields) -> None:
        await sessions.acreate_session(Session(id_, SessionType.AGENT))
        await sessions.acreate_agent(id_, SessionAgent("agent", {}, {}))
        result = {"toolUseId": "1", "status": "success", "content": [{"json": fields}]}
        message = {"role": "user", "content": [{"toolResult": result}]}
        await sessions.acreate_message(id_, "agent", SessionMessage(message, 0))  # type: ignore[arg-type]

    async def said(sessions: Any, id_: str) -> Any:
        found = await sessions.alist_messages(id_, "agent")
        if not found:
            return None
        return found[0].to_message()["content"][0]["toolResult"]["content"][0]["json"]

    async def keep(sessions: Any, id_: str, fields: Fields) -> None:
        await sessions.acreate_session(Session(id_, SessionType.AGENT))
        await sessions.acreate_agent(id_, SessionAgent("agent", fields, {}))

    async def kept(sessions: Any, id_: str) -> Any:
        found = await sessions.aread_agent(id_, "agent")
        return found and found.state

    async def remember(memories: Any, id_: str, fields: Fields) -> None:
        await memories.add(f"text {id_}", metadata=fields)

    async def remembered(memories: Any, id_: str) -> Any:
        found = [one for one in await memories.search(id_) if one.content == f"text {id_}"]
        return found[0].metadata if found else None

    return [
        ("MemalchemySessionRepository", "a message", say, said),
        ("MemalchemySessionRepository", "an agent's state", keep, kept),
        ("MemalchemyMemoryStore", "metadata", remember, remembered),
    ]


@places("agent_framework")
def _agent_framework(module: Any) -> Any:
    from agent_framework import AgentSession, Message, WorkflowCheckpoint

    async def say(history: Any, id_: str, fields: Fields) -> None:
        await history.save_messages(id_, [Message("user", ["t"], additional_properties=fields)])

    async def said(history: Any, id_: str) -> Any:
        found = await history.get_messages(id_)
        return found[0].additional_properties if found else None

    async def keep(store: Any, id_: str, fields: Fields) -> None:
        session = AgentSession(session_id=id_)
        session.state |= fields
        await store.set(id_, session)

    async def kept(store: Any, id_: str) -> Any:
        found = await store.get(id_)
        return found and found.state

    async def save(storage: Any, id_: str, fields: Fields) -> None:
        await storage.save(WorkflowCheckpoint(id_, "hash", state=fields))

    async def saved(storage: Any, id_: str) -> Any:
        found = await storage.list_checkpoints(workflow_name=id_)
        return found[0].state if found else None

    return [
        ("MemalchemyHistoryProvider", "a message", say, said),
        ("MemalchemySessionStore", "a session's state", keep, kept),
        ("MemalchemyCheckpointStorage", "a workflow's state", save, saved),
    ]


@places("claude_agent_sdk")
def _claude(module: Any) -> Any:
    async def add(store: Any, id_: str, fields: Fields) -> None:
        await store.append(module._key(id_), [{"type": "user", "of": fields}])

    async def get(store: Any, id_: str) -> Any:
        found = await store.load(module._key(id_))
        return found[0]["of"] if found else None

    return [("MemalchemySessionStore", "an entry", add, get)]


@places("crewai")
def _crewai(module: Any) -> Any:
    from crewai.memory.types import MemoryRecord

    async def save(flows: Any, id_: str, fields: Fields) -> None:
        await flows.asave_state(id_, "step", {"id": id_, **fields})

    async def load(flows: Any, id_: str) -> Any:
        found = await flows.aload_state(id_)
        return found and {name: one for name, one in found.items() if name != "id"}

    async def remember(memory: Any, id_: str, fields: Fields) -> None:
        record = MemoryRecord(id=id_, content="text", metadata=fields, embedding=[1.0])
        await memory.asave([record])

    async def remembered(memory: Any, id_: str) -> Any:
        found = await memory.aget_record(id_)
        return found and found.metadata

    return [
        ("MemalchemyFlowPersistence", "a flow's state", save, load),
        ("MemalchemyMemoryStorage", "metadata", remember, remembered),
    ]


@places("lazybridge")
def _lazybridge(module: Any) -> Any:
    def put(store: Any, id_: str, fields: Fields) -> Any:
        return threaded(store.write, id_, fields)

    return [("MemalchemyStore", "a value", put, lambda s, id_: threaded(s.read, id_))]


@places("lauren_ai")
def _lauren(module: Any) -> Any:
    async def save(store: Any, id_: str, fields: Fields) -> None:
        await store.save(id_, [{"role": "user", "content": "text", **fields}])

    async def load(store: Any, id_: str) -> Any:
        found = await store.load(id_)
        if not found:
            return None
        of_message = found["messages"][0].items()
        return {name: one for name, one in of_message if name not in ("role", "content")}

    async def save_more(store: Any, id_: str, fields: Fields) -> None:
        messages = [{"role": "user", "content": "text"}]
        await store.save(id_, {"messages": messages, "mine": fields})

    async def load_more(store: Any, id_: str) -> Any:
        found = await store.load(id_)
        return found and found.get("mine")

    async def remember(facts: Any, id_: str, fields: Fields) -> None:
        from lauren_ai._memory import MemoryFact  # type: ignore[attr-defined]

        await facts.add(id_, MemoryFact(memory_id=id_, user_id=id_, content="t", metadata=fields))

    conversations = "MemalchemyConversationStore"
    return [
        (conversations, "a message", save, load),
        (conversations, "the conversation's own", save_more, load_more),
    ]


NO_FIELDS |= {
    ("lauren_ai", "MemalchemyUserMemoryStore"): "facts are texts",
    ("lauren_ai", "MemalchemyVectorStore"): "metadata are those of Store",
}


@places("locus")
def _locus(module: Any) -> Any:
    from locus.core.messages import Message
    from locus.core.state import AgentState

    async def save(checkpointer: Any, id_: str, fields: Fields) -> None:
        state = AgentState(messages=(Message.user("text"),), metadata=fields)
        await checkpointer.save(state=state, thread_id=id_)

    async def load(checkpointer: Any, id_: str) -> Any:
        found = await checkpointer.load(thread_id=id_)
        return found and found.metadata

    return [
        ("MemalchemyCheckpointer", "metadata of a state", save, load),
        (
            "MemalchemyStore",
            "a value",
            lambda s, id_, v: s.put(("n",), id_, v),
            lambda s, id_: s.get(("n",), id_),
        ),
    ]


@places("mem0")
def _mem0(module: Any) -> Any:
    def put(store: Any, id_: str, fields: Fields) -> Any:
        return threaded(store.insert, [[1.0, 2.0]], [fields], [id_])

    async def get(store: Any, id_: str) -> Any:
        found = await threaded(store.get, id_)
        return found and found.payload

    return [("MemalchemyVectorStore", "a payload", put, get)]


def test_every_adapter_is_here_or_says_why_not() -> None:
    known = {(framework, name) for framework, name, _ in PLACES}
    listed = {
        (framework, cls.__name__)
        for framework, module in INSTALLED.items()
        for cls in module.ADAPTERS
    }
    assert listed - NO_FIELDS.keys() == known


# --- Values -----------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Model(BaseModel):
    n: int = 1
    inner: Any = None


@dataclass
class Record:
    n: int = 1
    inner: Any = None


Pair = namedtuple("Pair", "a b")

STORED: list[Any] = [
    *(float("nan"), float("inf"), float("-inf"), 1.0, 0.1, 2**80, -(2**70), True, None, "text"),
    *(b"hello", b"\xff\x00", b"", (1, 2), (), (b"\xfe", (float("nan"),)), {1, 2}, set()),
    *(frozenset({"a"}), date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 678)),
    *(datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5)))),
    *(
        UUID(int=5),
        Decimal("1.10"),
        "half \ud83d",
        "a\0b",
        {"~t": [1]},
        {"deep": [{"er": (b"x",)}]},
    ),
]
"""Values that memalchemy stores: they come back equal, and of the same types, or are refused."""

OTHERS: list[Callable[[Any], Any]] = [
    lambda inner: Colour.RED,
    lambda inner: Level.HIGH,
    lambda inner: Model(inner=inner),
    lambda inner: Record(inner=inner),
    lambda inner: Pair(1, inner),
    lambda inner: OrderedDict(a=inner),
    lambda inner: deque([inner]),
    lambda inner: {1: inner},
    lambda inner: bytearray(b"hello"),
    lambda inner: timedelta(seconds=5),
    lambda inner: SecretStr("hidden"),
    lambda inner: len,
    lambda inner: object(),
]
"""Values that it does not store; some hold another one."""

stored = st.sampled_from(STORED)
values = st.recursive(
    stored,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.tuples(inner),
        st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    ),
    max_leaves=3,
)
others = st.builds(lambda make, inner: make(inner), st.sampled_from(OTHERS), stored)
neighbours = st.lists(st.one_of(values, others), min_size=1, max_size=3)
REFUSED = "refused"
numbers = count()


TUPLES_BECOME_LISTS = {
    ("langchain", "MemalchemyVectorStore"): "metadata is JSON, as its page says",
    ("langgraph", "MemalchemySaver"): "LangGraph's own serialiser lists them",
    ("lazybridge", "MemalchemyStore"): "as in LazyBridge, as its page says",
}
HALF_PAIRS_ARE_REPLACED = {
    ("langgraph", "MemalchemySaver"): "LangGraph's own serialiser writes ? for half of a pair",
}
FRAMEWORKS_JSON = {
    ("agent_framework", "MemalchemyHistoryProvider"): "Message.to_dict leaves out some types",
    ("agent_framework", "MemalchemySessionStore"): "AgentSession.to_dict",
}
"""Adapters whose framework converts values before the adapter has them."""


def expected(name: tuple[str, str, str], value: Any) -> list[Any]:
    """Return what may become of a value that memalchemy stores."""
    found = [value]
    if name[:2] in TUPLES_BECOME_LISTS:
        found.append(_with_lists(value))
    if name[:2] in HALF_PAIRS_ARE_REPLACED:
        found.append(_without_half_pairs(_with_lists(value)))
    return [REFUSED, *map(exactly, found)]


def _without_half_pairs(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = value.items()
        return {_without_half_pairs(name): _without_half_pairs(one) for name, one in pairs}
    if isinstance(value, list):
        return [_without_half_pairs(one) for one in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_lists(one) for name, one in value.items()}
    return [_with_lists(one) for one in value] if isinstance(value, list | tuple) else value


def exactly(value: Any) -> Any:
    """Return a value with the types in it, for comparisons: NaN equals itself, 1 is not True."""
    if isinstance(value, dict):
        return type(value), [(name, exactly(one)) for name, one in sorted(value.items(), key=repr)]
    if isinstance(value, list | tuple | deque):
        return type(value), [exactly(one) for one in value]
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(exactly(one)) for one in value)
    text = repr(vars(value)) if isinstance(value, Record) else repr(value)
    if type(value).__repr__ is object.__repr__:
        text = ""  # an address
    return type(value), text


async def outcome(place: Place, adapter: Any, fields: Fields) -> Any:
    """Return what becomes of each field, or `REFUSED`, after which nothing is stored."""
    id_ = f"i{next(numbers)}"
    try:
        await place.put(adapter, id_, fields)
    except Exception:  # noqa: BLE001  of whichever framework
        assert not await place.get(adapter, id_)
        return REFUSED
    found = await place.get(adapter, id_)
    assert found is not None
    return {name: exactly(found[name]) if name in found else "left out" for name in fields}


ids = ["-".join(one).replace(" ", "_") for one in sorted(PLACES)]


@pytest.mark.parametrize("name", sorted(PLACES), ids=ids)
@given(value=values, beside=neighbours)
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.filterwarnings("ignore")
async def test_a_value_is_the_same_whatever_stands_beside_it(
    db: Database, name: tuple[str, str, str], value: Any, beside: list[Any]
) -> None:
    place = PLACES[name]
    adapter = place.open(db)
    fields = {f"f{at}": one for at, one in enumerate([value, *beside])}

    alone: Any = {}
    for key, one in fields.items():
        found = await outcome(place, adapter, {key: one})
        alone[key] = REFUSED if found is REFUSED else found[key]
    together = await outcome(place, adapter, fields)

    assert name[:2] in FRAMEWORKS_JSON or alone["f0"] in expected(name, value)
    assert together == (REFUSED if REFUSED in alone.values() else alone)

"""Each error that a page of the integrations names is raised where the page says so.

The pages are read for the names of exceptions. A name without a provocation here fails, and so does
a provocation that raises something else, or that no page promises any more.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update
from subjects import FRAMEWORKS, INSTALLED

import memalchemy
from memalchemy import Checkpointer, Database, DatabaseUnreachable
from pages import FENCE, ROOT

Last = Callable[[], Any]
"""The call that raises: all before it succeeds."""
Provoke = Callable[[Database], Awaitable[Last]]

PAGES = {page.stem: page for page in sorted((ROOT / "docs" / "integrations").glob("*.md"))}
PROVOCATIONS: dict[tuple[str, str], list[Provoke]] = {}
"""By the name of the page and of the error: one for each place on the page that names it."""
OTHERS = {
    ("langgraph", "InvalidStateError"): "the page tells of LangGraph's own savers",
    ("langgraph", "NotImplementedError"): "the page tells of LangGraph's own savers",
}
"""Errors that pages name and that memalchemy does not raise."""
UNREACHABLE = "postgresql://nobody@127.0.0.1:1/none"
LONG = "x" * 256


def promised(page: str, error: str) -> Callable[[Provoke], Provoke]:
    def add(provoke: Provoke) -> Provoke:
        PROVOCATIONS.setdefault((page, error), []).append(provoke)
        return provoke

    return add


def needs(page: str) -> str | None:
    """Return the module of the framework that a page is about."""
    name = {"langgraph-store": "langgraph", "leaving": "google_adk"}.get(page, page)
    return FRAMEWORKS.get(name.replace("-", "_"))


def is_here(page: str) -> bool:
    framework = needs(page)
    return framework is None or framework in {FRAMEWORKS[name] for name in INSTALLED}


def names_of_errors() -> set[str]:
    """Return the names of all exceptions that are known: Python's, memalchemy's, frameworks'."""
    found: set[str] = set()
    classes: list[type[BaseException]] = [BaseException]
    while classes:
        one = classes.pop()
        if one.__name__ not in found or one.__subclasses__():
            found.add(one.__name__)
            classes += one.__subclasses__()
    return found


def promises(page: str) -> Counter[str]:
    """Return the errors that a page names in its sentences, and how often."""
    text = FENCE.sub("", PAGES[page].read_text())
    names = re.findall(r"`(?:[a-z_]+\.)*([A-Z][A-Za-z]*)`", text)
    looks_so = re.compile(r"(Error|Exception)$")
    known = names_of_errors()
    return Counter(one for one in names if one in known or looks_so.search(one))


# --- Google's ADK -----------------------------------------------------------------------------


def _sessions(db: Any) -> Any:
    from memalchemy.integrations.google_adk import MemalchemySessionService

    return MemalchemySessionService(db)


ADA: dict[str, Any] = {"app_name": "app", "user_id": "ada"}


@promised("google-adk", "AlreadyExistsError")
async def _another_event_of_an_id(db: Database) -> Last:
    from google.adk.events import Event

    sessions = _sessions(db)
    session = await sessions.create_session(**ADA, session_id="s")
    await sessions.append_event(session, Event(id="e", author="a"))
    other = Event(id="e", author="b")
    return lambda: sessions.append_event(session, other)


@promised("leaving", "AlreadyExistsError")
async def _a_session_that_is_there(db: Database) -> Last:
    sessions = _sessions(db)
    await sessions.create_session(**ADA, session_id="s")
    return lambda: sessions.create_session(**ADA, session_id="s")


@promised("google-adk", "StaleSessionError")
async def _an_append_beside_another(db: Database) -> Last:
    from google.adk.events import Event

    sessions = _sessions(db)
    await sessions.create_session(**ADA, session_id="s")
    first = await sessions.get_session(**ADA, session_id="s")
    second = await sessions.get_session(**ADA, session_id="s")
    await sessions.append_event(first, Event(author="a"))
    return lambda: sessions.append_event(second, Event(author="a"))


@promised("google-adk", "NotSerialisable")
async def _what_json_does_not_have(db: Database) -> Last:
    from google.adk.events import Event

    sessions = _sessions(db)
    session = await sessions.create_session(**ADA, session_id="s")
    event = Event(author="a", custom_metadata={"f": object()})
    return lambda: sessions.append_event(session, event)


@promised("google-adk", "TooLarge")
async def _a_long_key_of_a_state(db: Database) -> Last:
    await _sessions(db).create_session(**ADA, session_id=LONG[1:], state={LONG[2:]: 1})
    return lambda: _sessions(db).create_session(**ADA, state={LONG[1:]: 1})


# --- Strands ----------------------------------------------------------------------------------


def _strands(db: Any) -> Any:
    from memalchemy.integrations.strands import MemalchemySessionRepository

    return MemalchemySessionRepository(db)


async def _agent(db: Database) -> Any:
    from strands.types.session import Session, SessionAgent, SessionType

    sessions = _strands(db)
    await sessions.acreate_session(Session("s", SessionType.AGENT))
    await sessions.acreate_agent("s", SessionAgent("a", {}, {}))
    return sessions


@promised("strands", "SessionException")
async def _a_message_of_an_index_that_is_there(db: Database) -> Last:
    from strands.types.session import SessionMessage

    sessions = await _agent(db)
    message = SessionMessage({"role": "user", "content": [{"text": "t"}]}, 0)
    await sessions.acreate_message("s", "a", message)
    return lambda: sessions.acreate_message("s", "a", message)


@promised("strands", "SessionException")
async def _an_agent_that_is_not_there(db: Database) -> Last:
    from strands.types.session import SessionAgent

    sessions = await _agent(db)
    return lambda: sessions.aupdate_agent("s", SessionAgent("b", {}, {}))


@promised("strands", "SessionException")
async def _a_long_id_of_strands(db: Database) -> Last:
    from strands.types.session import Session, SessionType

    return lambda: _strands(db).acreate_session(Session(LONG, SessionType.AGENT))


@promised("strands", "StorageError")
async def _a_long_key_of_strands(db: Database) -> Last:
    from memalchemy.integrations.strands import MemalchemyStorage

    return lambda: MemalchemyStorage(db).write(LONG, b"")


# --- Pydantic AI ------------------------------------------------------------------------------


def _conversations(db: Any) -> Any:
    from memalchemy.integrations.pydantic_ai import MemalchemyConversationStore

    return MemalchemyConversationStore(db)


def _conversation(id_: str, content: Any = "text") -> Any:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    part = ToolReturnPart(tool_name="t", content=content, tool_call_id="1")
    return Conversation(conversation_id=id_, messages=[ModelRequest(parts=[part])])


@promised("pydantic-ai", "ConversationConflict")
async def _two_writers_of_a_revision(db: Database) -> Last:
    store = _conversations(db)
    await store.save(_conversation("c"))
    return lambda: store.save(_conversation("c"))


@promised("pydantic-ai", "ConversationConflict")
async def _a_head_in_another_log(db: Database) -> Last:
    from pydantic_ai.conversation_store import ConversationRecord

    record = ConversationRecord(conversation_id="new", head_id="nowhere")
    return lambda: _conversations(db).write_record(record, expected_revision=None)


@promised("pydantic-ai", "NotSerialisable")
async def _a_result_that_json_does_not_have(db: Database) -> Last:
    return lambda: _conversations(db).save(_conversation("c", {"f": object()}))


@promised("pydantic-ai", "LookupError")
async def _a_fork_whose_log_was_forgotten(db: Database) -> Last:
    store = _conversations(db)
    await store.save(_conversation("talk"))
    await store.fork("talk", new_conversation_id="fork")
    await Checkpointer(db).forget(thread_id="talk")
    return lambda: store.load("fork")


@promised("pydantic-ai-harness", "ValueError")
async def _a_run_that_is_known(db: Database) -> Last:
    from pydantic_ai_harness.step_persistence import RunRecord

    from memalchemy.integrations.pydantic_ai_harness import MemalchemyStepStore

    store = MemalchemyStepStore(db)
    await store.register_run(RunRecord(run_id="run"))
    return lambda: store.register_run(RunRecord(run_id="run"))


# --- OpenAI's Agents SDK ----------------------------------------------------------------------


def _session(db: Any, **options: Any) -> Any:
    from memalchemy.integrations.openai_agents import MemalchemySession

    return MemalchemySession("talk", db, **options)


ITEM: Any = {"role": "user", "content": "text"}


class Compacting:
    """OpenAI's client: something is written while it compacts."""

    def __init__(self, meanwhile: Callable[[], Awaitable[Any]]) -> None:
        self.responses, self._meanwhile = self, meanwhile

    async def compact(self, **_: Any) -> Any:
        await self._meanwhile()
        summary = {"type": "compaction", "encrypted_content": "all", "id": "c"}
        return SimpleNamespace(output=[summary])


async def _compaction(db: Database, wrap: Callable[[Any], Any]) -> Last:
    from agents.memory import OpenAIResponsesCompactionSession

    session = _session(db)
    await session.add_items([ITEM, ITEM])
    client: Any = Compacting(lambda: _session(db).add_items([ITEM]))
    outer = OpenAIResponsesCompactionSession("talk", wrap(session), client=client, model="gpt-5")
    return lambda: outer.run_compaction({"force": True, "compaction_mode": "input"})


@promised("openai-agents", "Conflict")
async def _a_write_during_a_compaction(db: Database) -> Last:
    return await _compaction(db, lambda session: session)


@promised("openai-agents", "CapabilityMissing")
async def _a_compaction_of_an_encrypted_session(db: Database) -> Last:
    from agents.extensions.memory import EncryptedSession

    return await _compaction(db, lambda session: EncryptedSession("talk", session, "a key"))


@promised("openai-agents", "Conflict")
async def _a_second_claim_of_a_run(db: Database) -> Last:
    from agents import Agent, Runner, function_tool
    from scripted_model import Scripted

    from memalchemy.integrations.openai_agents import MemalchemyRunStates

    @function_tool(needs_approval=True)
    def refund(order: str) -> str:
        """Refund an order."""
        return order

    agent: Any = Agent(name="Clerk", model=Scripted(("refund", '{"order": "1"}')), tools=[refund])
    runs = MemalchemyRunStates(db)
    await runs.save("run", (await Runner.run(agent, "Refund 1")).to_state())
    await runs.claim("run", agent)
    return lambda: runs.claim("run", agent)


@promised("openai-agents", "Corrupt")
async def _a_damaged_item(db: Database) -> Last:
    from memalchemy.schema import DeltaRow

    session = _session(db)
    await session.add_items([ITEM])
    damage = update(DeltaRow).where(DeltaRow.tenant == db.tenant).values(payload=b"\0damaged")
    async with db.transaction() as connection:
        await connection.execute(damage)
    return lambda: _session(db).get_items()


@promised("openai-agents", "ValueError")
async def _a_branch_that_another_has_deleted(db: Database) -> Last:
    session = _session(db)
    await session.add_items([ITEM])
    await session.create_branch("b")
    other = _session(db)
    await other.delete_branch("b")
    return lambda: session.add_items([ITEM])


@promised("openai-agents", "RuntimeError")
async def _a_closed_session(db: Database) -> Last:
    session = _session(db)
    await session.close()
    return session.get_items


# --- Haystack ---------------------------------------------------------------------------------


def _documents(db: Any) -> Any:
    from memalchemy.integrations.haystack import MemalchemyDocumentStore

    return MemalchemyDocumentStore(db)


@promised("haystack", "FilterError")
async def _a_date_that_is_none(db: Database) -> Last:
    wrong = {"field": "meta.at", "operator": ">", "value": "yesterday"}
    return lambda: _documents(db).filter_documents_async(wrong)


@promised("haystack", "FilterError")
async def _an_operator_of_pgvector(db: Database) -> Last:
    wrong = {"field": "meta.at", "operator": "like", "value": "a%"}
    return lambda: _documents(db).filter_documents_async(wrong)


@promised("haystack", "DuplicateDocumentError")
async def _a_document_that_exists(db: Database) -> Last:
    from haystack import Document

    await _documents(db).write_documents_async([Document(id="a")])
    return lambda: _documents(db).write_documents_async([Document(id="a")])


@promised("haystack", "DocumentStoreError")
async def _haystack_without_a_database(db: Database) -> Last:
    return lambda: _documents(UNREACHABLE).count_documents_async()


# --- lauren-ai, LazyBridge, mem0, A2A, Claude, LangChain, LangGraph, LlamaIndex ---------------


@promised("lauren-ai", "ValueError")
async def _a_model_without_a_transport(db: Database) -> Last:
    import lauren_ai

    from memalchemy.integrations.lauren_ai import MemalchemyUserMemoryStore

    @lauren_ai.remember(extraction_model="small")
    @lauren_ai.agent(model="large")
    class Assistant: ...

    return lambda: MemalchemyUserMemoryStore(db).serve(Assistant)


@promised("lauren-ai", "StorageError")
async def _lauren_without_a_database(db: Database) -> Last:
    from memalchemy.integrations.lauren_ai import MemalchemyConversationStore

    return lambda: MemalchemyConversationStore(UNREACHABLE).load("c")


@promised("mem0", "ValueError")
async def _a_path_that_mem0_refuses(db: Database) -> Last:
    from memalchemy.integrations.mem0 import MemalchemyVectorStore

    store = MemalchemyVectorStore(db)
    return lambda: asyncio.to_thread(store.list, {"rows[].a": 1})


@promised("a2a", "Corrupt")
async def _a_damaged_webhook(db: Database) -> Last:
    from a2a.server.context import ServerCallContext
    from a2a.types import TaskPushNotificationConfig

    from memalchemy.integrations.a2a import MemalchemyPushNotificationConfigStore
    from memalchemy.schema import StoreItemRow

    store, call = MemalchemyPushNotificationConfigStore(db), ServerCallContext()
    await store.set_info("t", TaskPushNotificationConfig(id="one", url="https://a.b"), call)
    row = StoreItemRow
    damage = update(row).where(row.tenant == db.tenant).values(value=b"\0damaged")
    async with db.transaction() as connection:
        await connection.execute(damage)
    return lambda: store.get_info("t", call)


def _transcripts(db: Any) -> Any:
    from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

    return MemalchemySessionStore(db)


@promised("claude-agent-sdk", "TooLarge")
async def _a_long_subpath(db: Database) -> Last:
    key = {"project_key": "p", "session_id": "s", "subpath": "x" * 500}
    return lambda: _transcripts(db).append(key, [{"type": "user"}])


@promised("claude-agent-sdk", "ValueError")
async def _an_empty_subpath(db: Database) -> Last:
    key = {"project_key": "p", "session_id": "s", "subpath": ""}
    return lambda: _transcripts(db).append(key, [{"type": "user"}])


@promised("langchain", "TypeError")
async def _a_message_of_a_type_of_ones_own(db: Database) -> Last:
    from langchain_core.messages import BaseMessage

    from memalchemy.integrations.langchain import MemalchemyChatMessageHistory

    class Mine(BaseMessage):
        type: str = "mine"

    history = MemalchemyChatMessageHistory(db, session_id="s")
    return lambda: history.aadd_messages([Mine(content="text")])


@promised("langgraph", "ThreadDeleted")
async def _a_late_write_of_a_run(db: Database) -> Last:
    from langgraph.checkpoint.base import empty_checkpoint

    from memalchemy.integrations.langgraph import MemalchemySaver

    saver = MemalchemySaver(db)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    config = await saver.aput(config, empty_checkpoint(), {}, {})
    await saver.adelete_thread("t")
    return lambda: saver.aput(config, empty_checkpoint(), {}, {})


@promised("langgraph-store", "ValueError")
async def _an_operator_that_is_none(db: Database) -> Last:
    from memalchemy.integrations.langgraph import MemalchemyStore

    return lambda: MemalchemyStore(db).asearch(("a",), filter={"f": {"$regex": "x"}})


@promised("langgraph-store", "ValueError")
async def _an_operator_without_its_sign(db: Database) -> Last:
    from memalchemy.integrations.langgraph import MemalchemyStore

    return lambda: MemalchemyStore(db).asearch(("a",), filter={"n": {"gt": 9}})


@promised("llama-index", "ValueError")
async def _another_mode(db: Database) -> Last:
    from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

    from memalchemy.integrations.llama_index import MemalchemyVectorStore

    query = VectorStoreQuery(query_embedding=[1.0, 0.0], mode=VectorStoreQueryMode.SVM)
    return lambda: MemalchemyVectorStore(db).aquery(query)


@promised("llama-index", "TypeError")
async def _a_text_in_a_number(db: Database) -> Last:
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters

    from memalchemy.integrations.llama_index import MemalchemyVectorStore

    store = MemalchemyVectorStore(db)
    await store.async_add([TextNode(id_="1", text="t", embedding=[1.0, 0.0], metadata={"n": 1})])
    match = MetadataFilter(key="n", operator=FilterOperator.TEXT_MATCH, value="x")
    return lambda: store.aget_nodes(filters=MetadataFilters(filters=[match]))


# --- All adapters -----------------------------------------------------------------------------


@promised("adapters", "DriverMissing")
async def _a_framework_that_is_missing(db: Database) -> Last:
    name = sorted(INSTALLED)[0]
    module = f"memalchemy.integrations.{name}"

    def import_without_framework() -> None:
        hidden = {FRAMEWORKS[name], FRAMEWORKS[name].split(".")[0]}
        kept = {
            one: sys.modules.pop(one)
            for one in [*sys.modules]
            if one.split(".")[0] in hidden or f"{one}.".startswith(f"{module}.")
        }
        blocked: dict[str, Any] = dict.fromkeys(hidden)
        sys.modules.update(blocked)
        try:
            importlib.import_module(module)
        finally:
            for one in [*sys.modules]:
                if one.split(".")[0] in hidden or f"{one}.".startswith(f"{module}."):
                    del sys.modules[one]
            sys.modules.update(kept)

    return import_without_framework


@promised("adapters", "UnknownURL")
async def _a_text_that_is_no_url(db: Database) -> Last:
    adapter = next(iter(INSTALLED[sorted(INSTALLED)[0]].ADAPTERS.values()))
    return lambda: adapter("host=db password=secret")


# --- "Every error of the database" ------------------------------------------------------------

ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("session_id", "agent_id", "multi_agent_id", "conversation_id"), "i"),
    **dict.fromkeys(("user_id", "memory_id", "id", "key", "query", "content"), "i"),
    "message_id": 0,
    "data": b"data",
    "ids": ["i"],
    "document_ids": ["i"],
    "metadata_field": "f",
    "metadata_fields": ["f"],
    "meta": {"f": 1},
    "query_embedding": [1.0, 2.0],
    "filters": {"field": "meta.f", "operator": "==", "value": 1},
    "snapshot": {"messages": [{"role": "user", "content": "text"}]},
    "multi_agent": SimpleNamespace(id="m", serialize_state=lambda: {"n": 1}),
}
"""What a method of an adapter takes, by the name of the parameter."""


def _objects() -> dict[str, Any]:
    """Return the arguments that are objects of frameworks."""
    found: dict[str, Any] = {}
    if "strands" in INSTALLED:
        from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

        found["session"] = Session("s", SessionType.AGENT)
        found["session_agent"] = SessionAgent("a", {}, {})
        message: Any = {"role": "user", "content": [{"text": "t"}]}
        found["session_message"] = SessionMessage(message, 0)
    if "haystack" in INSTALLED:
        from haystack import Document

        found["documents"] = [Document(id="a")]
    if "lauren_ai" in INSTALLED:
        from lauren_ai import MemoryFact

        found["fact"] = MemoryFact("1", "u", "text")
    return found


WRAPPED = {
    ("strands", "MemalchemySessionRepository"): "SessionException",
    ("strands", "MemalchemyStorage"): "StorageError",
    ("haystack", "MemalchemyDocumentStore"): "DocumentStoreError",
    ("lauren_ai", "MemalchemyConversationStore"): "StorageError",
    ("lauren_ai", "MemalchemyUserMemoryStore"): "StorageError",
    ("lauren_ai", "MemalchemyVectorStore"): "StorageError",
}
"""Adapters that raise every error of the database as one of the framework's, as the page says."""
NO_STATEMENTS = {"aclose", "close", "connect", "run"}


def methods() -> Iterator[Any]:
    for (framework, name), error in WRAPPED.items():
        if framework in INSTALLED:
            made = INSTALLED[framework].ADAPTERS
            adapter = next(make for cls, make in made.items() if cls.__name__ == name)
            cls = next(cls for cls in made if cls.__name__ == name)
            for method in dir(cls):
                call = getattr(cls, method)
                if method.startswith("_") or method in NO_STATEMENTS:
                    continue
                if inspect.iscoroutinefunction(call):
                    yield pytest.param(adapter, method, error, id=f"{name}-{method}")


@pytest.mark.parametrize(("adapter", "method", "error"), list(methods()))
async def test_every_method_raises_the_frameworks_error_without_a_database(
    adapter: Callable[..., Any], method: str, error: str
) -> None:
    given = ARGUMENTS | _objects()
    call = getattr(adapter(UNREACHABLE), method)
    needed = [
        name
        for name, one in inspect.signature(call).parameters.items()
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]

    raised = await error_of(lambda: call(*(given[name] for name in needed)))

    assert error in {cls.__name__ for cls in type(raised).__mro__}, repr(raised)
    assert isinstance(raised.__cause__, DatabaseUnreachable)


# --- The tests --------------------------------------------------------------------------------


async def error_of(last: Last) -> Exception:
    """Return the error of a call, which may have to be awaited."""
    try:
        result = last()
        if isinstance(result, Awaitable):
            await result
    except Exception as error:  # noqa: BLE001  of whichever class: it is compared
        return error
    raise AssertionError("nothing was raised")


def cases() -> Iterator[Any]:
    for (page, error), provocations in sorted(PROVOCATIONS.items()):
        for provoke in provocations:
            if is_here(page):
                yield pytest.param(error, provoke, id=f"{page}-{error}-{provoke.__name__[1:]}")


@pytest.mark.parametrize(("error", "provoke"), list(cases()))
async def test_a_provocation_raises_what_the_page_promises(
    db: Database, error: str, provoke: Provoke
) -> None:
    last = await provoke(db)

    raised = await error_of(last)

    assert error in {cls.__name__ for cls in type(raised).__mro__}, repr(raised)


@pytest.mark.parametrize("page", PAGES)
def test_each_error_that_a_page_names_is_provoked_as_often_as_it_is_named(page: str) -> None:
    if is_here(page):
        found = promises(page)
        known = {error: len(made) for (at, error), made in PROVOCATIONS.items() if at == page}
        others = {error for at, error in OTHERS if at == page}
        assert found.keys() == known.keys() | others
        assert {error: number for error, number in found.items() if error in known} == known


def test_errors_are_recognised_on_pages() -> None:
    names = names_of_errors()

    assert {one for one in dir(builtins) if one.endswith("Error")} <= names | {
        "EnvironmentError",
        "IOError",
    }
    assert {one for one in ("TooLarge", "Corrupt") if hasattr(memalchemy, one)} <= names
    assert promises("strands")["SessionException"] == 3

"""What frameworks store through their adapters, as rows: messages, calls of tools, usage."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from openai.types.responses import (
    ResponseCodeInterpreterToolCall,
    ResponseFileSearchToolCall,
    ResponseFunctionWebSearch,
)
from openai.types.responses.response_output_item import ImageGenerationCall, McpCall
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from memalchemy import Database
from memalchemy.analysis import Analysis
from memalchemy.integrations.google_adk import MemalchemySessionService
from memalchemy.integrations.langchain import MemalchemyChatMessageHistory
from memalchemy.integrations.langgraph import MemalchemySaver
from memalchemy.integrations.openai_agents import MemalchemySession
from memalchemy.integrations.pydantic_ai import MemalchemyConversationStore
from memalchemy.integrations.strands import MemalchemySessionRepository

sys.path.append(str(Path(__file__).parent.parent / "analysis"))
from histories import rows_of

ASKED, SAID = "Weather in Rome?", "It is sunny."
USED: Any = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}


def called() -> AIMessage:
    call = {"id": "c1", "name": "weather", "args": {"city": "Rome"}}
    return AIMessage("", tool_calls=[call])


def answered() -> AIMessage:
    return AIMessage(SAID, usage_metadata=USED, response_metadata={"model_name": "m"})


async def langgraph(db: Database) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("call", lambda _: {"messages": [called()]})
    builder.add_node("tool", lambda _: {"messages": [ToolMessage("sunny", tool_call_id="c1")]})
    builder.add_node("answer", lambda _: {"messages": [answered()]})
    for one, next_ in ((START, "call"), ("call", "tool"), ("tool", "answer"), ("answer", END)):
        builder.add_edge(one, next_)
    graph = builder.compile(checkpointer=MemalchemySaver(db))
    config: Any = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke({"messages": [HumanMessage(ASKED)]}, config)


async def langchain(db: Database) -> None:
    history = MemalchemyChatMessageHistory(db, session_id="t")
    result = ToolMessage("sunny", tool_call_id="c1")
    await history.aadd_messages([HumanMessage(ASKED), called(), result, answered()])


async def openai_agents(db: Database) -> None:
    items: list[Any] = [
        {"role": "user", "content": ASKED},
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "weather",
            "arguments": '{"city": "Rome"}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": SAID, "annotations": []}],
        },
    ]
    await MemalchemySession("t", db).add_items(items)


async def google_adk(db: Database) -> None:
    service = MemalchemySessionService(db)
    session = await service.create_session(app_name="app", user_id="ada", session_id="t")

    def event(author: str, role: str, part: types.Part, **more: Any) -> Event:
        content = types.Content(role=role, parts=[part])
        return Event(author=author, invocation_id="i", content=content, **more)

    call = types.FunctionCall(id="c1", name="weather", args={"city": "Rome"})
    result = types.FunctionResponse(id="c1", name="weather", response={"result": "sunny"})
    used = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=10, candidates_token_count=3
    )
    for one in (
        event("user", "user", types.Part(text=ASKED)),
        event("planner", "model", types.Part(function_call=call)),
        event("planner", "user", types.Part(function_response=result)),
        event("planner", "model", types.Part(text=SAID), usage_metadata=used, model_version="m"),
    ):
        await service.append_event(session, one)


async def pydantic_ai(db: Database) -> None:
    messages = [
        ModelRequest([UserPromptPart(ASKED)]),
        ModelResponse([ToolCallPart("weather", {"city": "Rome"}, tool_call_id="c1")]),
        ModelRequest([ToolReturnPart("weather", "sunny", tool_call_id="c1")]),
        ModelResponse(
            [TextPart(SAID)], usage=RequestUsage(input_tokens=10, output_tokens=3), model_name="m"
        ),
    ]
    store = MemalchemyConversationStore(db)
    await store.save(Conversation(conversation_id="t", messages=list(messages)))


async def strands(db: Database) -> None:
    repository = MemalchemySessionRepository(db)
    await repository.acreate_session(Session("t", SessionType.AGENT))
    await repository.acreate_agent("t", SessionAgent("a", {}, {}))
    use = {"toolUseId": "c1", "name": "weather", "input": {"city": "Rome"}}
    result = {"toolUseId": "c1", "status": "success", "content": [{"text": "sunny"}]}
    used = {"usage": {"inputTokens": 10, "outputTokens": 3, "totalTokens": 13}}
    said: list[Any] = [
        {"role": "user", "content": [{"text": ASKED}]},
        {"role": "assistant", "content": [{"toolUse": use}]},
        {"role": "user", "content": [{"toolResult": result}]},
        {"role": "assistant", "content": [{"text": SAID}], "metadata": used},
    ]
    for number, message in enumerate(said):
        await repository.acreate_message("t", "a", SessionMessage(message, number))


FRAMEWORKS: dict[Callable[[Database], Awaitable[None]], tuple[str, str | None, bool]] = {
    langgraph: ("langgraph", "m", True),
    langchain: ("langchain", "m", True),
    openai_agents: ("openai", None, False),
    google_adk: ("google_adk", "m", True),
    pydantic_ai: ("pydantic_ai", "m", True),
    strands: ("strands", None, True),
}
"""The frameworks, each with its root, the model that it states, and whether it states tokens."""


@pytest.mark.parametrize("store", FRAMEWORKS, ids=lambda one: one.__name__)
async def test_a_dialogue_is_the_same_rows_in_every_framework(
    db: Database, store: Callable[[Database], Awaitable[None]]
) -> None:
    root, model, states_usage = FRAMEWORKS[store]
    await store(db)
    analysis = Analysis(db)

    messages = await rows_of(analysis, "messages")
    (call,) = await rows_of(analysis, "tool_calls")
    usage = await rows_of(analysis, "usage")

    assert [row["role"] for row in messages] == ["user", "assistant", "tool", "assistant"]
    assert [row["text"] for row in messages] == [ASKED, "", "sunny", SAID]
    assert {row["framework"] for row in messages} == {root}
    assert (call["name"], call["arguments"], call["result"]) == (
        "weather",
        '{"city":"Rome"}',
        "sunny",
    )
    stated = [(row["model"], row["input_tokens"], row["output_tokens"]) for row in usage]
    assert stated == [(model, 10, 3)] * states_usage
    assert analysis.unreadable == []


class Notes(TypedDict):
    messages: Annotated[
        list[Any],
        DeltaChannel(
            lambda before, writes: [*before, *(one for write in writes for one in write)],
            list,
            snapshot_frequency=4,
        ),
    ]


async def test_messages_that_only_writes_hold_are_rows_once(db: Database) -> None:
    builder = StateGraph(Notes)
    builder.add_node("note", lambda state: {"messages": [AIMessage(f"n{len(state['messages'])}")]})
    builder.add_edge(START, "note")
    builder.add_edge("note", END)
    graph: Any = builder.compile(checkpointer=MemalchemySaver(db))
    config: Any = {"configurable": {"thread_id": "t"}}
    expected: list[str] = []
    for turn in range(7):
        values = await graph.ainvoke({"messages": [HumanMessage(f"turn {turn}")]}, config)
        expected = [one.content for one in values["messages"]]

    assert [row["text"] for row in await rows_of(Analysis(db), "messages")] == expected


def combinations_of(parts: list[Any]) -> list[tuple[Any, ...]]:
    return list(chain(combinations(parts, 2), combinations(parts, 3)))


async def test_each_part_of_a_message_of_pydantic_ai_keeps_its_words(db: Database) -> None:
    call = ToolCallPart("weather", {}, tool_call_id="c1")
    answers = combinations_of([TextPart("I look."), TextPart("Now."), ThinkingPart("Hm."), call])
    result = ToolReturnPart("weather", "sunny", tool_call_id="c1")
    asks = combinations_of([UserPromptPart("One."), UserPromptPart(["Two."]), result])
    messages = [*map(ModelResponse, answers), *map(ModelRequest, asks)]
    store = MemalchemyConversationStore(db)
    await store.save(Conversation(conversation_id="t", messages=messages))

    rows = await rows_of(Analysis(db), "messages")

    for parts, row in zip([*answers, *asks], rows, strict=True):
        thoughts = {part.content for part in parts if isinstance(part, ThinkingPart)}
        said = {"".join(part.content) for part in parts if part is not call} - thoughts
        assert set(row["text"].splitlines()) == said
        assert {row["thought"]} == (thoughts or {None})


CALL = {"type": "tool_call", "id": "c1", "name": "weather", "args": {}}
SUMMARY = [{"type": "summary_text", "text": "Hm."}]
ANSWERS_OF_LANGCHAIN: dict[str, dict[str, Any]] = {
    "standard blocks": {
        "content_blocks": [{"type": "reasoning", "reasoning": "Hm."}, CALL],
        "response_metadata": {"output_version": "v1"},
    },
    "OpenAI's Responses": {
        "content": [{"type": "reasoning", "id": "r", "summary": SUMMARY}],
        "tool_calls": [CALL],
    },
    "Anthropic": {
        "content": [
            {"type": "thinking", "thinking": "Hm."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {}},
        ],
        "tool_calls": [CALL],
    },
    "Bedrock": {
        "content": [{"type": "reasoning_content", "reasoning_content": {"text": "Hm."}}],
        "tool_calls": [CALL],
    },
    "other chats": {
        "content": "",
        "additional_kwargs": {"reasoning_content": "Hm."},
        "tool_calls": [CALL],
    },
}


@pytest.mark.parametrize("fields", ANSWERS_OF_LANGCHAIN.values(), ids=ANSWERS_OF_LANGCHAIN)
async def test_an_answer_of_langchain_has_its_thought_and_one_call(
    db: Database, fields: dict[str, Any]
) -> None:
    history = MemalchemyChatMessageHistory(db, session_id="t")
    await history.aadd_messages([AIMessage(**fields), ToolMessage("sunny", tool_call_id="c1")])
    analysis = Analysis(db)

    answer, _ = await rows_of(analysis, "messages")
    calls = await rows_of(analysis, "tool_calls")

    assert (answer["thought"], answer["text"]) == ("Hm.", "")
    assert [(row["call_id"], row["result"]) for row in calls] == [("c1", "sunny")]


async def test_a_call_that_pydantic_ai_has_made_again_failed(db: Database) -> None:
    def model(messages: list[Any], _: Any) -> ModelResponse:
        called = ToolCallPart("pay", {}, tool_call_id="c1")
        return ModelResponse([called if len(messages) == 1 else TextPart("Sorry.")])

    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    def pay() -> str:
        raise ModelRetry("card declined")

    store = MemalchemyConversationStore(db)
    await store.save(await agent.run("Pay.", conversation=Conversation(conversation_id="t")))

    (row,) = await rows_of(Analysis(db), "tool_calls")

    assert row["error"] is True
    assert "card declined" in row["result"]


class PaysWithoutAnAmount(BaseLlm):
    """A model that leaves an argument out, and then gives up."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        called = any(part.function_response for part in llm_request.contents[-1].parts)
        call = types.Part(function_call=types.FunctionCall(name="pay", args={}))
        part = types.Part(text="Sorry.") if called else call
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def test_a_call_that_adk_answers_with_an_error_failed(db: Database) -> None:
    def pay(amount: int) -> dict[str, Any]:
        """Pay an amount."""
        return {}

    service = MemalchemySessionService(db)
    await service.create_session(app_name="app", user_id="ada", session_id="t")
    agent = LlmAgent(name="planner", model=PaysWithoutAnAmount(model="scripted"), tools=[pay])
    runner = Runner(app_name="app", agent=agent, session_service=service)
    asked = types.Content(role="user", parts=[types.Part(text="Pay.")])
    async for _ in runner.run_async(user_id="ada", session_id="t", new_message=asked):
        pass

    (row,) = await rows_of(Analysis(db), "tool_calls")

    assert row["error"] is True
    assert "amount" in row["result"]


def hosted(cls: Any, **fields: Any) -> Any:
    """Return the item of a call of a hosted tool, as the SDK of OpenAI's agents stores it."""
    return cls.model_validate(fields).model_dump(exclude_unset=True)


async def test_calls_of_openai_s_hosted_tools_hold_their_results(db: Database) -> None:
    mcp = {"type": "mcp_call", "name": "read", "server_label": "s", "arguments": "{}"}
    search = {"type": "web_search_call", "action": {"type": "search", "query": "Rome"}}
    code = {"type": "code_interpreter_call", "code": "1", "container_id": "k"}
    outputs = [{"type": "logs", "logs": "printed"}]
    found = [{"file_id": "f", "text": "a line"}]
    items = [
        {"role": "user", "content": ASKED},
        hosted(McpCall, **mcp, id="page", output="a page", status="completed"),
        hosted(McpCall, **mcp, id="runs", status="calling"),
        hosted(ResponseFunctionWebSearch, **search, id="search", status="completed"),
        hosted(ResponseFunctionWebSearch, **search, id="failed", status="failed"),
        hosted(
            ResponseFileSearchToolCall,
            **{"type": "file_search_call", "id": "file", "queries": [], "status": "completed"},
            results=found,
        ),
        hosted(
            ResponseCodeInterpreterToolCall, **code, id="code", status="completed", outputs=outputs
        ),
        hosted(
            ImageGenerationCall,
            **{"type": "image_generation_call", "id": "image", "status": "completed"},
            result="iVBO",
        ),
        {**mcp, "id": "down", "output": None, "error": "server down", "status": "failed"},
    ]
    await MemalchemySession("t", db).add_items(items)

    calls = {row["call_id"]: row for row in await rows_of(Analysis(db), "tool_calls")}

    results = {id_: (row["result"], row["error"]) for id_, row in calls.items()}
    assert "printed" in results.pop("code")[0]
    assert results == {
        "page": ("a page", False),
        "runs": (None, None),
        "search": ("", False),
        "failed": ("", True),
        "file": ("a line", False),
        "image": ("", False),
        "down": ("server down", True),
    }
    assert "iVBO" not in str(calls)


async def in_pydantic_ai(db: Database) -> None:
    call = NativeToolCallPart("web_search", {"query": "Rome"}, tool_call_id="h")
    result = NativeToolReturnPart("web_search", "sunny", tool_call_id="h")
    messages = [
        ModelRequest([UserPromptPart(ASKED)]),
        ModelResponse([call, result, TextPart(SAID)], model_name="m"),
    ]
    await MemalchemyConversationStore(db).save(
        Conversation(conversation_id="t", messages=list(messages))
    )


async def in_langchain(db: Database) -> None:
    blocks: list[Any] = [
        {"type": "server_tool_use", "id": "h", "name": "web_search", "input": {"query": "Rome"}},
        {
            **{"type": "web_search_tool_result", "tool_use_id": "h"},
            "content": [{"type": "text", "text": "sunny"}],
        },
        {"type": "text", "text": SAID},
    ]
    history = MemalchemyChatMessageHistory(db, session_id="t")
    await history.aadd_messages([HumanMessage(ASKED), AIMessage(blocks)])


async def in_adk(db: Database) -> None:
    service = MemalchemySessionService(db)
    session = await service.create_session(app_name="app", user_id="ada", session_id="t")
    code = types.ExecutableCode(code="look('Rome')", language=types.Language.PYTHON)
    result = types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="sunny")
    parts = [
        types.Part(executable_code=code),
        types.Part(code_execution_result=result),
        types.Part(text=SAID),
    ]
    content = types.Content(role="model", parts=parts)
    await service.append_event(session, Event(author="a", invocation_id="i", content=content))


@pytest.mark.parametrize("save", [in_pydantic_ai, in_langchain, in_adk])
async def test_a_tool_of_the_provider_is_a_call_with_its_result(
    db: Database, save: Callable[[Database], Awaitable[None]]
) -> None:
    await save(db)

    (row,) = await rows_of(Analysis(db), "tool_calls")
    said = [row["text"] for row in await rows_of(Analysis(db), "messages")]
    assert (row["result"], row["error"]) == ("sunny", False)
    assert "Rome" in row["arguments"]
    assert said[-1] == f"{SAID}\nsunny", "a result is text of its message"


async def test_messages_that_a_subgraph_shares_with_its_graph_count_once(db: Database) -> None:
    agent = StateGraph(MessagesState)
    agent.add_node("call", lambda _: {"messages": [called()]})
    agent.add_node("tool", lambda _: {"messages": [ToolMessage("sunny", tool_call_id="c1")]})
    agent.add_node("answer", lambda _: {"messages": [answered()]})
    for one, next_ in ((START, "call"), ("call", "tool"), ("tool", "answer"), ("answer", END)):
        agent.add_edge(one, next_)
    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent.compile())
    builder.add_edge(START, "agent")
    graph: Any = builder.compile(checkpointer=MemalchemySaver(db))
    config: Any = {"configurable": {"thread_id": "t"}}
    for _ in range(2):
        await graph.ainvoke({"messages": [HumanMessage(ASKED)]}, config)

    analysis = Analysis(db)
    roles = [row["role"] for row in await rows_of(analysis, "messages")]
    assert sorted(roles) == 4 * ["assistant"] + 2 * ["tool"] + 2 * ["user"]
    assert len({row["namespace"] for row in await rows_of(analysis, "threads")}) == 3
    assert sum(row["input_tokens"] for row in await rows_of(analysis, "usage")) == 20
    assert len(await rows_of(analysis, "tool_calls")) == 2

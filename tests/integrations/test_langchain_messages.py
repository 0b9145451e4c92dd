"""Messages of LangChain's classes in what is not LangChain's: facts, memories and summaries."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)

from memalchemy import Database, MemoryFact, UserMemoryStore
from memalchemy.messages import create_message, role_of

ASKED = HumanMessage("Which animals do I like?")
ANSWERED = AIMessage("Cats.")


@pytest.mark.parametrize(
    "messages",
    [
        [ASKED],
        [ANSWERED, ASKED],
        [ASKED, ANSWERED, ASKED],
        [SystemMessage("Be brief."), ASKED],
        [ASKED, AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])],
        [ASKED, ANSWERED, ToolMessage("Cats.", tool_call_id="1")],
    ],
)
async def test_facts_are_a_system_message_behind_the_latest_prompt(
    db: Database, messages: list[BaseMessage]
) -> None:
    facts = UserMemoryStore(db)
    await facts.add(MemoryFact("f1", "ada", "User likes cats"))

    prompt = await facts.recall("ada", messages)

    (block,) = (message for message in prompt if message not in messages)
    assert type(block) is SystemMessage
    assert "User likes cats" in block.text
    assert [message for message in prompt if message is not block] == messages
    behind = prompt.index(block)
    assert prompt[behind - 1] is [m for m in messages if m is ASKED][-1]
    assert convert_to_openai_messages(prompt)[behind]["role"] == "system"
    again = await facts.recall("ada", prompt)
    assert [type(message) for message in again] == [type(message) for message in prompt]


@pytest.mark.parametrize(
    ("role", "more", "made"),
    [
        ("system", {}, SystemMessage),
        ("user", {}, HumanMessage),
        ("assistant", {}, AIMessage),
        ("tool", {"tool_call_id": "1"}, ToolMessage),
    ],
)
@pytest.mark.parametrize("like", [ASKED, ANSWERED, ToolMessage("", tool_call_id="0")])
def test_a_message_of_each_role_is_made(
    role: str, more: dict[str, Any], made: type[BaseMessage], like: BaseMessage
) -> None:
    message = create_message([like], role, "said", {"of": "the application"}, **more)

    assert type(message) is made
    assert (role_of(message), message.text) == (role, "said")
    assert message.metadata == {"of": "the application"}

"""The lines that README changes run as they stand there: those of a framework, and ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from pages import ROOT

(BLOCK,) = re.findall(r"^```diff\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
OF_THE_FRAMEWORKS = """
from agents import SQLiteSession
from langgraph.checkpoint.memory import InMemorySaver
"""


@pytest.fixture(params=["-", "+"], ids=["before", "after"])
def ran(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """The names that the lines with one of the two marks leave behind."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"builder": StateGraph(MessagesState)}
    names["builder"].add_node("chatbot", lambda state: {"messages": [("assistant", "Hello Ada!")]})
    names["builder"].add_edge(START, "chatbot")
    exec(OF_THE_FRAMEWORKS, names)
    for line in BLOCK.splitlines():
        code = line.partition(": ")[2] if line.startswith(" #") else line[1:]
        if line.startswith((" #", request.param)):
            exec(code, names)
    yield names
    if request.param == "+":
        names["graph"].checkpointer.close()
        names["session"].close()
        names["talk"].log.db.close()


def test_a_graph_goes_on_in_its_thread(ran: dict[str, Any]) -> None:
    config = {"configurable": {"thread_id": "1"}}
    for _ in range(2):
        ran["graph"].invoke({"messages": [("user", "Hi, I am Ada.")]}, config)

    assert len(ran["graph"].get_state(config).values["messages"]) == 4


async def test_a_session_keeps_its_items(ran: dict[str, Any]) -> None:
    items = [{"role": "user", "content": "Hi, I am Ada."}]
    await ran["session"].add_items(items)

    assert await ran["session"].get_items() == items


@pytest.mark.parametrize("ran", ["+"], indirect=True)
def test_a_conversation_keeps_its_turns(ran: dict[str, Any]) -> None:
    ran["talk"].add("Hi, I am Ada.", "Hello Ada!")

    assert [message.text for message in ran["talk"].messages()] == ["Hi, I am Ada.", "Hello Ada!"]

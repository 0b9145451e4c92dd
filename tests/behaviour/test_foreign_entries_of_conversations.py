"""What something else has written to the log of a conversation, which is no message.

Whatever a conversation is asked, it says so or leaves the entry out; it changes none.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memalchemy import Conflict, Conversation, Database, NotFound, ThreadLog
from memalchemy.context import SlidingWindowManager, SummarizingManager
from memalchemy.state import Message

FOREIGN = (5, None, "a parcel", ["parcel"], {"parcel": "parcel"}, {"role": 5, "content": "parcel"})
CALLS = Message.assistant("", tool_calls=[{"id": "c", "name": "find", "arguments": {}}])
RESULT = Message.tool("there", tool_call_id="c")

ASKED: dict[str, Callable[[Conversation], Awaitable[Any]]] = {
    "messages": lambda talk: talk.messages(),
    "history": lambda talk: talk.history(),
    "text": lambda talk: talk.text(),
    "snapshot": lambda talk: talk.snapshot(),
    "active_tool_exchange": lambda talk: talk.active_tool_exchange(),
    "add_tool_results": lambda talk: talk.add_tool_results(RESULT),
    "commit_tool_exchange": lambda talk: talk.commit_tool_exchange(RESULT),
    "abort_tool_exchange": lambda talk: talk.abort_tool_exchange(),
}
"""Methods that read what is stored."""
OTHERS = {
    *("add", "begin_tool_exchange", "set_summary", "count", "purge_messages"),
    *("amend_last", "restore", "clear", "delete", "search", "view"),
}
"""Those that read none of it as a message; the tests below ask some of them."""


async def conversation(db: Database, foreign: Any) -> Conversation:
    """A conversation whose log, and whose open exchange, has one foreign entry."""
    talk = Conversation(db, "talk")
    await talk.add("Where is my parcel?", "In Lyon.")
    await talk.log.append("talk", [foreign])
    await talk.begin_tool_exchange(CALLS)
    exchange = ThreadLog(db, namespace=(*talk.log.namespace, "exchange"))
    await exchange.append("talk", [foreign])
    return talk


def test_every_method_is_asked() -> None:
    public = {name for name, one in vars(Conversation).items() if callable(one) and name[0] != "_"}

    assert public == ASKED.keys() | OTHERS


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
async def test_whoever_reads_it_is_told_so_and_nothing_is_changed(
    db: Database, name: str, foreign: Any
) -> None:
    talk = await conversation(db, foreign)
    before = [entry.value for entry in await talk.log.range("talk")]

    with pytest.raises(Conflict, match="is no message: something else has written it"):
        await ASKED[name](talk)

    assert [entry.value for entry in await talk.log.range("talk")] == before


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
async def test_a_view_and_managers_are_told_so_too(db: Database, foreign: Any) -> None:
    await conversation(db, foreign)
    for manager in (SlidingWindowManager(window_size=20), SummarizingManager()):
        with pytest.raises(Conflict, match="is no message"):
            await Conversation(db, "talk", manager=manager).messages()
    with pytest.raises(Conflict, match="is no message"):
        await Conversation(db, "talk").view().refresh()


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
async def test_a_search_leaves_it_out_with_a_warning(
    db: Database, foreign: Any, caplog: pytest.LogCaptureFixture
) -> None:
    talk = await conversation(db, foreign)
    with caplog.at_level(logging.WARNING, "memalchemy"):
        hits = await talk.search("parcel")

    assert [hit.message.text for hit in hits] == ["Where is my parcel?"]
    warned = [one for one in caplog.messages if "are no messages, and were left out" in one]
    assert len(warned) == ("parcel" in str(foreign))


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
async def test_the_last_answer_is_amended_and_a_restore_replaces_all(
    db: Database, foreign: Any
) -> None:
    talk = await conversation(db, foreign)
    assert await talk.amend_last("In Paris.")
    first, answer, left = [entry.value for entry in await talk.log.range("talk")]
    assert (answer["content"], left) == ("In Paris.", foreign)

    await talk.restore([first, answer])
    assert [one.text for one in await talk.history()] == ["Where is my parcel?", "In Paris."]


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
async def test_it_is_removed_by_the_log_and_the_conversation_goes_on(
    db: Database, foreign: Any
) -> None:
    talk = await conversation(db, foreign)
    await talk.log.remove("talk", [3])

    assert [one.text for one in await talk.history()] == ["Where is my parcel?", "In Lyon."]
    with pytest.raises(Conflict):
        await talk.abort_tool_exchange()
    await talk.clear()
    with pytest.raises(NotFound):
        await talk.add_tool_results(RESULT)

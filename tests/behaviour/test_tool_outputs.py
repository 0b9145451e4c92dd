"""Recall of tool outputs that a compaction cleared."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import memalchemy
from memalchemy import Database, ToolOutputs
from memalchemy.context import ContextCompactor
from memalchemy.state import Message


def work(steps: int) -> list[Message]:
    told: list[Any] = []
    for n in range(steps):
        call = {"id": f"c{n}", "name": "look", "arguments": {}}
        told.append({"role": "assistant", "content": None, "tool_calls": [call]})
        told.append(Message.tool(f"output {n} " + "x" * 400, f"c{n}"))
    return [Message.user("the task"), *map(Message.of, told)]


@pytest.fixture
def outputs(db: Database) -> ToolOutputs:
    return memalchemy.ToolOutputs(db)


async def test_outputs_cleared_by_a_compaction_can_be_recalled(
    db: Database, outputs: ToolOutputs
) -> None:
    manager = ContextCompactor(700, tool_output_ttl_turns=2, archive=outputs.keep)
    talk = memalchemy.Conversation(db, "t", manager=manager)
    await talk.add(work(6))

    note = (await talk.messages())[2].text
    id_ = note.rpartition(" ")[2].rstrip("]")

    assert note.startswith("[tool output cleared: 409 characters; recall out_")
    # Another object, as another process has it: what was put away is in the database.
    assert await memalchemy.ToolOutputs(db).recall(id_) == work(1)[2].text
    assert await outputs.recall("out_of_nowhere") is None
    assert (await talk.history())[2].text == work(1)[2].text


async def test_blocks_are_recalled_as_they_were(outputs: ToolOutputs) -> None:
    blocks = [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}]
    await outputs.keep("out_1", blocks)
    await outputs.keep("out_1", blocks)

    assert await outputs.recall("out_1") == blocks
    assert await outputs.clear() == 1
    assert await outputs.recall("out_1") is None


async def test_one_namespace_recalls_nothing_of_another(db: Database) -> None:
    mine, theirs = (memalchemy.ToolOutputs(db, namespace=("outputs", name)) for name in ("a", "b"))
    await mine.keep("out_1", "secret")

    assert await theirs.recall("out_1") is None
    assert await mine.recall("out_1") == "secret"


async def test_an_output_expires_after_its_ttl(db: Database) -> None:
    short = memalchemy.ToolOutputs(db, ttl=timedelta(hours=1))
    await short.keep("out_1", "text")
    item = await short.store.get_item(short.namespace, "out_1")

    assert item is not None
    assert item.expires_at is not None
    assert timedelta(minutes=59) < item.expires_at - item.updated_at < timedelta(minutes=61)

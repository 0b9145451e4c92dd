"""Threads of agents as they are: every step saved, every step loaded back.

The threads are those of ``--threads FILE``, or a few that stand in ``tests/data``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memalchemy import Checkpointer, Database

INVENTED = Path(__file__).parent.parent / "data" / "threads.jsonl"

Messages = list[dict[str, Any]]


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Callable[[], Iterator[tuple[str, Messages]]]:
    """The file's threads, read one by one: an id and all messages."""
    path = Path(request.config.getoption("--threads") or INVENTED)

    def read() -> Iterator[tuple[str, Messages]]:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                thread = json.loads(line)
                yield thread["thread_id"], thread["messages"]

    return read


async def save_all(checkpointer: Checkpointer, thread_id: str, messages: Messages) -> list[str]:
    """One checkpoint per message; their ids, oldest first."""
    return [
        await checkpointer.save({"messages": messages[: number + 1]}, thread_id)
        for number in range(len(messages))
    ]


async def test_every_checkpoint_of_every_thread_loads_back_equal(
    db: Database, threads: Callable[[], Iterator[tuple[str, Messages]]]
) -> None:
    checkpointer, seen = Checkpointer(db), 0
    for thread_id, messages in threads():
        saved = await save_all(checkpointer, thread_id, messages)
        listed = await checkpointer.list_checkpoints(thread_id, limit=len(messages) + 1)
        assert listed == saved[::-1]
        for number, checkpoint_id in enumerate(saved):
            loaded = await checkpointer.load(thread_id, checkpoint_id)
            # As text, so that the order of keys and 1 against 1.0 count too.
            assert json.dumps(loaded) == json.dumps({"messages": messages[: number + 1]})
        seen += len(saved)
    assert seen > 0


async def test_another_process_continues_a_thread_where_it_ends(
    reopen: Callable[[], Database],
    checkpointer: Checkpointer,
    threads: Callable[[], Iterator[tuple[str, Messages]]],
) -> None:
    async with reopen() as second:
        other = Checkpointer(second)
        for thread_id, messages in threads():
            for number in range(len(messages)):
                who, witness = (checkpointer, other) if number % 2 else (other, checkpointer)
                state = await who.load(thread_id) or {"messages": []}
                state["messages"].append(messages[number])
                checkpoint_id = await who.save(state, thread_id)
                assert await witness.load(thread_id, checkpoint_id) == state
            assert await checkpointer.load(thread_id) == {"messages": messages}


async def test_a_history_is_stored_in_less_than_a_third_of_its_states_whole(
    checkpointer: Checkpointer, threads: Callable[[], Iterator[tuple[str, Messages]]]
) -> None:
    for thread_id, messages in threads():
        await save_all(checkpointer, thread_id, messages)
        stats = await checkpointer.get_storage_stats(thread_id)
        assert stats["total_checkpoints"] == len(messages)
        assert stats["compressed_size"] * 3 < stats["total_size"]


async def test_a_thread_is_found_by_what_its_last_message_says(
    checkpointer: Checkpointer, threads: Callable[[], Iterator[tuple[str, Messages]]]
) -> None:
    looked_for = 0
    for thread_id, messages in threads():
        await checkpointer.save({"messages": messages[:-1]}, thread_id)
        last = await checkpointer.save({"messages": messages}, thread_id)
        words = re.findall(r"[^\W_]+", str(messages[-1].get("content")))[:8]
        if not words:
            continue
        looked_for += 1
        hits = await checkpointer.search(" ".join(words), limit=1000)
        assert (thread_id, last) in {(hit["thread_id"], hit["checkpoint_id"]) for hit in hits}
    assert looked_for > 0

"""Of several that need the same summary at once, one writes it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conversations import chat

from memalchemy.context import ContextCompactor, SummarizerBase, SummarizingManager
from waiting import A_WHILE, give_time_to_go_wrong

MANAGERS: dict[str, Callable[[Any], SummarizerBase]] = {
    "summarizing": lambda ask: SummarizingManager(6, 2, ask),
    "compactor": lambda ask: ContextCompactor(200, summarize_fn=ask),
}


class Slow:
    """A summariser that waits until the test lets it go."""

    def __init__(self) -> None:
        self.times = 0
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, messages: list[Any]) -> str:
        self.times += 1
        self.asked.set()
        await self.go.wait()
        return f"summary {self.times}"


@pytest.mark.parametrize("name", MANAGERS)
async def test_ten_at_once_ask_for_one_summary(name: str) -> None:
    slow = Slow()
    manager, talk = MANAGERS[name](slow), chat(60)

    all_ = [asyncio.create_task(manager.async_apply(talk)) for _ in range(10)]
    await slow.asked.wait()
    await give_time_to_go_wrong()
    slow.go.set()
    first, *others = await asyncio.gather(*all_)

    assert slow.times == 1
    assert any("summary 1" in str(message["content"]) for message in first)
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", MANAGERS)
async def test_if_the_one_that_writes_it_is_cancelled_another_one_does(name: str) -> None:
    slow = Slow()
    manager, talk = MANAGERS[name](slow), chat(60)
    leader = asyncio.create_task(manager.async_apply(talk))
    await slow.asked.wait()
    others = [asyncio.create_task(manager.async_apply(talk)) for _ in range(5)]
    await give_time_to_go_wrong()
    others.pop().cancel()

    leader.cancel()
    slow.go.set()
    first, *rest = await asyncio.gather(*others)

    assert slow.times == 2
    assert any("summary 2" in str(message["content"]) for message in first)
    assert all(one == first for one in rest)


async def test_a_failure_is_shared_as_well() -> None:
    slow = Slow()

    async def fail(messages: list[Any]) -> str:
        await slow(messages)
        raise ConnectionError

    manager = SummarizingManager(6, 2, fail)
    all_ = [asyncio.create_task(manager.async_apply(chat(20))) for _ in range(5)]
    await slow.asked.wait()
    await give_time_to_go_wrong()
    slow.go.set()

    assert all("ConnectionError" in str(one) for one in await asyncio.gather(*all_))
    assert slow.times == 1


async def test_other_conversations_do_not_wait() -> None:
    slow = Slow()
    manager = SummarizingManager(6, 2, slow)
    waiting = asyncio.create_task(manager.async_apply(chat(20)))
    await slow.asked.wait()
    slow.asked.clear()
    other = asyncio.create_task(manager.async_apply(chat(21)[1:]))

    await slow.asked.wait()

    assert slow.times == 2
    slow.go.set()
    await asyncio.gather(waiting, other)


async def test_synchronous_code_in_a_loop_does_not_wait_for_the_loop_that_it_blocks() -> None:
    began, go = threading.Event(), threading.Event()
    times: list[int] = []

    def ask(messages: list[Any]) -> str:
        times.append(len(messages))
        if len(times) == 1:
            began.set()
            go.wait(A_WHILE)
        return "summary"

    manager = SummarizingManager(6, 2, ask)
    waiting = asyncio.create_task(manager.async_apply(chat(20)))
    await asyncio.to_thread(began.wait, A_WHILE)

    assert "summary" in str(manager.apply(chat(20)))

    go.set()
    assert "summary" in str(await waiting)


def test_threads_wait_for_one_another() -> None:
    began, go = threading.Event(), threading.Event()
    times: list[int] = []

    def ask(messages: list[Any]) -> str:
        times.append(len(messages))
        began.set()
        go.wait(A_WHILE)
        return "summary"

    manager = SummarizingManager(6, 2, ask)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(manager.apply(chat(20)))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    began.wait(A_WHILE)
    go.set()
    for thread in threads:
        thread.join()

    assert len(times) == 1
    assert all(one == found[0] for one in found)

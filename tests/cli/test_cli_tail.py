"""tail shows what is written to a thread, and follows it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from commandline import Call, environment, lines, thread

from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.inspection.writes import NULL_TASK
from waiting import A_WHILE


@pytest.fixture
def agent(url: str, call: Call) -> str:
    assert call("upgrade", "--db", url).code == 0
    assert call("import", "-", "--db", url, stdin=lines(thread("a", 4))).code == 0
    return url


@pytest.fixture
def followed(agent: str) -> Iterator[subprocess.Popen[str]]:
    """A process that follows the thread."""
    command = [sys.executable, "-m", "memalchemy", "tail", "a", "-f", "-n", "1", "--json"]
    command += ["--interval", "0.05", "--db", agent]
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    yield running
    running.kill()
    running.communicate()


def read(running: subprocess.Popen[str], number: int) -> list[dict[str, Any]]:
    assert running.stdout is not None
    return [json.loads(running.stdout.readline()) for _ in range(number)]


def test_the_newest_steps_are_shown_with_what_they_added(agent: str, call: Call) -> None:
    newest = call("tail", "a", "-n", "2", "--db", agent, "--json").json

    assert [one["checkpoint_id"] for one in newest] == ["000003", "000004"]
    assert [[m["index"] for m in one["messages"]] for one in newest] == [[2], [3]]
    shown = call("tail", "a", "-n", "1", "--db", agent).out
    assert shown.splitlines()[0].startswith("step 000004  ")
    assert "    message 3 of a" in shown
    assert call("tail", "a", "-n", "0", "--db", agent).out == ""


def test_a_followed_thread_is_streamed_without_gaps_until_ctrl_c(
    agent: str, followed: subprocess.Popen[str]
) -> None:
    (first,) = read(followed, 1)
    assert first["checkpoint_id"] == "000004"

    async def write() -> None:
        async with Database(agent) as db:
            states = Checkpointer(db)
            log = ThreadLog(db, namespace=("events",))
            for number in range(5, 15):
                state = {"messages": [{"role": "user", "content": str(n)} for n in range(number)]}
                await states.save(state, "a", f"{number:06}")
                await states.put_writes([("channel", number)], "a", f"{number:06}", "task")
                await log.append("a", {"role": "user", "content": f"entry {number}"})

    asyncio.run(write())
    found = read(followed, 30)

    steps = [one["checkpoint_id"] for one in found if one["kind"] == "step"]
    assert steps == [f"{number:06}" for number in range(5, 15)]
    writes = [one["value"] for one in found if one["kind"] == "write"]
    assert writes == list(range(5, 15))
    said = [one["messages"][0]["text"] for one in found if one["kind"] == "entry"]
    assert said == [f"entry {number}" for number in range(5, 15)]

    followed.send_signal(signal.SIGINT)
    out, err = followed.communicate(timeout=A_WHILE)
    assert (followed.returncode, out, err) == (130, "", "interrupted\n")


def test_following_ends_when_the_thread_is_deleted(
    agent: str, followed: subprocess.Popen[str], call: Call
) -> None:
    read(followed, 1)

    assert call("delete", "a", "--db", agent).code == 0

    _, err = followed.communicate(timeout=A_WHILE)
    assert followed.returncode == 1
    assert "was deleted" in json.loads(err)["error"]["message"]


def test_an_answer_of_langgraph_is_printed_once(agent: str, call: Call) -> None:
    async def answer() -> None:
        async with Database(agent) as db:
            steps = Checkpointer(db)
            await steps.put_writes([("__resume__", "yes")], "a", "000004", NULL_TASK)
            await steps.put_writes([("__resume__", ["no", "yes"])], "a", "000004", "task")
            await steps.put_writes([("__resume__", ["by id"])], "a", "000004", "other")

    asyncio.run(answer())
    shown = call("tail", "a", "-n", "3", "--db", agent).out

    assert shown.count("write __resume__") == 2
    assert "no" not in shown.split()
    assert '["by id"]' in shown
    assert len(call("tail", "a", "-n", "3", "--db", agent, "--json").json) == 3


def test_rows_of_values_are_not_streamed(agent: str, call: Call) -> None:
    answer = call("tail", "a", "--follow", "--csv", "--db", agent)

    assert (answer.code, answer.out) == (2, "")
    assert "--nl" in answer.err

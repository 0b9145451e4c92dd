"""A process that appends is killed: what it was told is there, and nothing is there in part."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import uuid

from memalchemy import Conversation, Database
from memalchemy.verify import verify

WRITER = """
import asyncio, os, sys
from memalchemy import Conversation, Database

async def main():
    async with Database(sys.argv[1], tenant=sys.argv[2]) as db:
        talk = Conversation(db, "t")
        for number in range(10**6):
            await talk.add(f"question {number}", f"answer {number}")
            os.write(1, f"{number}\\n".encode())

asyncio.run(main())
"""
ENOUGH = 60


def killed_writer(*arguments: str) -> int:
    """Let a writer run, kill it, and return the last turn that was acknowledged to it."""
    command = [sys.executable, "-c", WRITER, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        told = next(int(line) for line in writer.stdout if int(line) == ENOUGH)
        writer.send_signal(signal.SIGKILL)
        rest = [int(line) for line in writer.stdout if line.endswith(b"\n")]
    return max([told, *rest])


async def test_every_turn_that_was_acknowledged_survives_a_kill_and_none_is_half_there(
    place: str,
) -> None:
    tenant = f"t-{uuid.uuid4().hex[:16]}"
    told = await asyncio.to_thread(killed_writer, place, tenant)

    async with Database(place, tenant=tenant) as db:
        talk = Conversation(db, "t")
        texts = [message.text for message in await talk.messages()]
        assert (await verify(db, thread_id="t")).ok
        await talk.add("and", "on")

    turns = len(texts) // 2
    assert turns > told
    assert texts == [f"{who} {n}" for n in range(turns) for who in ("question", "answer")]

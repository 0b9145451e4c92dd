"""A process that appends is killed: what it was told is there, and nothing is there in part."""

from __future__ import annotations

import os
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


async def test_every_turn_that_was_acknowledged_survives_a_kill_and_none_is_half_there(
    place: str,
) -> None:
    tenant = f"t-{uuid.uuid4().hex[:16]}"
    arguments = [sys.executable, "-c", WRITER, place, tenant]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=os.environ)
    assert writer.stdout is not None
    told = -1
    for line in writer.stdout:
        told = int(line)
        if told == ENOUGH:
            break
    writer.send_signal(signal.SIGKILL)
    told = max([told, *(int(line) for line in writer.stdout if line.endswith(b"\n"))])
    writer.wait()
    writer.stdout.close()

    async with Database(place, tenant=tenant) as db:
        talk = Conversation(db, "t")
        texts = [message.text for message in await talk.messages()]
        assert (await verify(db, thread_id="t")).ok
        await talk.add("and", "on")

    turns = len(texts) // 2
    assert turns > told
    assert texts == [f"{who} {n}" for n in range(turns) for who in ("question", "answer")]

"""A model with scripted answers, for Strands; and, run as a program, a process that is killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterable
from typing import Any

from strands.models import Model
from strands.types.session import SessionMessage

from memalchemy import Database
from memalchemy.integrations.strands import MemalchemySessionRepository, MemalchemyStorage

KEY = "session/s/scopes/agent/a/snapshots/snapshot_latest.json"


class Scripted(Model):
    """Answers with the next of *steps*; keeps what it heard."""

    def __init__(self, *steps: str) -> None:
        self.steps = list(steps)
        self.heard: list[list[str]] = []

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncIterable[Any]:
        self.heard.append([block["text"] for one in messages for block in one["content"]])
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": self.steps.pop(0)}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


async def write_until_killed(url: str, tenant: str) -> None:
    """Write messages and snapshots, and print the number of each that was acknowledged."""
    async with Database(url, tenant=tenant) as db:
        sessions, storage = MemalchemySessionRepository(db), MemalchemyStorage(db)
        index = len(await sessions.alist_messages("s", "a"))
        while True:
            message = SessionMessage({"role": "user", "content": [{"text": f"{index}"}]}, index)
            await sessions.acreate_message("s", "a", message)
            await storage.write(KEY, f"{index}:".encode() + b"x" * 10_000)
            print(index, flush=True)
            index += 1


if __name__ == "__main__":
    asyncio.run(write_until_killed(*sys.argv[1:]))

"""Random histories of agents, with what an analysis has to find in them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.analysis import Analysis

START = datetime(2026, 3, 1, tzinfo=UTC)
TOOLS = ("weather", "book", "pay")
MODELS = ("small", "large")
AGENTS = ("planner", "clerk")


@dataclass
class Expected:
    """The rows that were made, each by what tells it apart."""

    texts: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """By its text, the thread, the step and the role of each message."""
    calls: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """By its id, the tool and the result of each call."""
    tokens: int = 0


class History:
    """Saves states and appends entries of random threads, and notes what is in them."""

    def __init__(self, db: Database, seed: int) -> None:
        self.db = db
        self.random = random.Random(seed)
        self.expected = Expected()
        self.moment = START
        self._number = 0

    def message(self, role: str, thread: str, **more: Any) -> dict[str, Any]:
        self._number += 1
        text = f"{role} {self._number} of {thread}"
        self._new.append((text, role))
        return {"role": role, "content": text, **more}

    def turn(self, thread: str) -> list[dict[str, Any]]:
        """Return the messages of a turn: a question, perhaps a call with its result, an answer."""
        said = [self.message("user", thread)]
        if self.random.random() < 0.6:
            self._number += 1
            call, tool = f"call-{self._number}", self.random.choice(TOOLS)
            asked = {"id": call, "function": {"name": tool, "arguments": '{"n": 1}'}}
            said.append(self.message("assistant", thread, tool_calls=[asked]))
            result = None
            if self.random.random() < 0.8:
                answer = self.message("tool", thread, tool_call_id=call)
                result = answer["content"]
                said.append(answer)
            self.expected.calls[call] = tool, result
        usage = {"prompt_tokens": self.random.randrange(1, 99), "completion_tokens": 2}
        self.expected.tokens += usage["prompt_tokens"] + 2
        model = self.random.choice(MODELS)
        return [*said, self.message("assistant", thread, model=model, usage=usage)]

    async def save_thread(self, thread: str, steps: int = 6) -> None:
        """Save a thread with branches, and states that forget their first messages."""
        checkpointer = Checkpointer(self.db)
        states: list[tuple[str, list[dict[str, Any]]]] = []
        for _ in range(steps):
            self._new: list[tuple[str, str]] = []
            parent, before = self.random.choice(states[-3:]) if states else (None, [])
            kept = before[self.random.choice([0, 0, 0, 2]) :]
            state = kept + self.turn(thread)
            self.moment += timedelta(hours=1)
            step = await checkpointer.save(
                {"messages": state, "other": [1]},
                thread,
                metadata={"agent": self.random.choice(AGENTS), "run": {"deep": [1]}},
                occurred_at=self.moment,
                **({} if parent is None else {"parent_id": parent}),
            )
            states.append((step, state))
            self.expected.texts |= {text: (thread, step, role) for text, role in self._new}

    async def append_thread(self, thread: str, turns: int = 3) -> None:
        """Append the messages of a conversation."""
        log = ThreadLog(self.db, namespace=("conversation",))
        for _ in range(turns):
            self._new = []
            said = self.turn(thread)
            self.moment += timedelta(hours=1)
            positions = await log.append(thread, said, occurred_at=self.moment)
            for position, (text, role) in zip(positions, self._new, strict=True):
                self.expected.texts[text] = thread, str(position), role


async def rows_of(analysis: Analysis, table: str, **selection: Any) -> list[Mapping[str, Any]]:
    """Return all rows of a table."""
    return [row async for batch in analysis.rows(table, **selection) for row in batch]

"""Helpers: the result of a command, a command in a process of its own, threads to import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


NOT_INHERITED = ("MEMALCHEMY_URL", "MEMALCHEMY_KEYS", "COLUMNS")

Call = Callable[..., Answer]


def environment(**more: str) -> dict[str, str]:
    """Return an environment for another process that names no database and no terminal."""
    return {k: v for k, v in os.environ.items() if k not in NOT_INHERITED} | more


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    options.setdefault("env", environment())
    return subprocess.run(
        [sys.executable, "-m", "memalchemy", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def thread(thread_id: str, length: int = 4, **fields: Any) -> dict[str, Any]:
    """Make a thread of *length* messages in OpenAI's format."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You book flights."}]
    for number in range(1, length):
        who = "user" if number % 2 else "assistant"
        messages.append({"role": who, "content": f"message {number} of {thread_id}"})
    return {"thread_id": thread_id, **fields, "messages": messages}


def lines(*threads: Any) -> str:
    """Format threads as JSON lines; a string is a line as it is."""
    return "".join((t if isinstance(t, str) else json.dumps(t)) + "\n" for t in threads)

"""Calling the command line in a process of its own, and threads to call it on."""

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
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


NOT_INHERITED = ("MEMALCHEMY_URL", "MEMALCHEMY_KEYS", "COLUMNS")

Call = Callable[..., Answer]


def environment(**more: str) -> dict[str, str]:
    """An environment for another process, without a database or a terminal in it."""
    return {k: v for k, v in os.environ.items() if k not in NOT_INHERITED} | more


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, to its end."""
    options.setdefault("env", environment())
    return subprocess.run(
        [sys.executable, "-m", "memalchemy", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def thread(thread_id: str, length: int = 4, **fields: Any) -> dict[str, Any]:
    """A thread in OpenAI's format, as many messages long as asked for."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You book flights."}]
    for number in range(1, length):
        who = "user" if number % 2 else "assistant"
        messages.append({"role": who, "content": f"message {number} of {thread_id}"})
    return {"thread_id": thread_id, **fields, "messages": messages}


def lines(*threads: Any) -> str:
    """Threads as a file of JSON lines; a text stands for itself."""
    return "".join((t if isinstance(t, str) else json.dumps(t)) + "\n" for t in threads)

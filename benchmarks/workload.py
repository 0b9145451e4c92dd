"""The workload: one long real conversation, saved after every message."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

THREADS = 40
"""How many of the file's threads are joined into one: 1,222 messages."""

Message = dict[str, Any]


def read_messages(path: Path) -> list[Message]:
    """The messages of the first threads of a file of OpenAI-format threads, one per line."""
    with path.open(encoding="utf-8") as lines:
        return [
            message for line in islice(lines, THREADS) for message in json.loads(line)["messages"]
        ]


def state_at(messages: list[Message], step: int) -> dict[str, Any]:
    """An agent's state after *step* messages: all of them, and small fields that change each step."""
    chosen = random.Random(step)
    return {
        "messages": messages[:step],
        "iteration": step,
        "updated_at": f"2026-01-{1 + step % 28:02}T10:{step % 60:02}:00.{chosen.randrange(10**6):06}Z",
        "confidence": round(chosen.random(), 6),
        "tokens": {"prompt": 480 * step + chosen.randrange(99), "completion": 61 * step},
        "plan": [f"step {step}: {chosen.choice(('look up', 'ask', 'book', 'cancel', 'refund'))}"],
        "last_tool": f"call_{chosen.randrange(16**8):08x}",
    }


def blobs(count: int, size: int, seed: int) -> Iterator[str]:
    """Texts of *size* characters that neither repeat nor compress much."""
    chosen = random.Random(seed)
    for _ in range(count):
        yield base64.b64encode(chosen.randbytes(size * 3 // 4)).decode()


def prose(messages: list[Message], size: int, seed: int) -> str:
    """About *size* characters of the conversation, from a place that *seed* chooses."""
    text = " ".join(m["content"] for m in messages if isinstance(m.get("content"), str))
    start = random.Random(seed).randrange(len(text) - size)
    return text[start : start + size]

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
"""How many of the file's threads are joined into one."""

FULL = 1_222
"""The length that the targets speak of: of a longer conversation, only the beginning is used."""

FEWEST = 24
"""With fewer messages there is no beginning and no end to compare."""

SHAPE = (
    'one JSON object per line with "messages", a list of objects with "role" and "content": '
    '{"messages": [{"role": "user", "content": "Hello!"}, …]}'
)


class BadThreads(Exception):
    """The file of threads cannot be used; the message says what it must look like."""


Message = dict[str, Any]


def read_messages(path: Path) -> list[Message]:
    """The messages of the first threads of a file of OpenAI-format threads, one per line.

    Raises:
        BadThreads: there is no such file, it looks otherwise, or holds too little.
    """
    messages = [message for thread in _threads_of(path, THREADS) for message in thread]
    if len(messages) < FEWEST:
        raise BadThreads(
            f"{path} holds {len(messages)} messages in its first {THREADS} threads; at least "
            f"{FEWEST} are needed, and the targets speak of {FULL:,}"
        )
    return messages[:FULL]


def read_threads(path: Path) -> list[list[Message]]:
    """All threads of such a file, each as it is; those without messages are left out.

    Raises:
        BadThreads: there is no such file, it looks otherwise, or holds no messages.
    """
    threads = [thread for thread in _threads_of(path, None) if thread]
    if not threads:
        raise BadThreads(f"{path} holds no messages. It must be a file with {SHAPE}")
    return threads


def _threads_of(path: Path, limit: int | None) -> list[list[Message]]:
    """The first *limit* threads of a file, or all."""
    try:
        with path.open(encoding="utf-8") as lines:
            return [
                _messages_of(line, f"{path}, line {number}")
                for number, line in enumerate(islice(lines, limit), start=1)
            ]
    except OSError as error:
        raise BadThreads(f"{path}: {error.strerror}. It must be a file with {SHAPE}") from error
    except UnicodeDecodeError as error:
        raise BadThreads(f"{path} is not UTF-8 text. It must be a file with {SHAPE}") from error


def _messages_of(line: str, place: str) -> list[Message]:
    try:
        found = json.loads(line)["messages"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadThreads(f"{place} is not a thread. The file must hold {SHAPE}") from error
    if not isinstance(found, list) or not all(isinstance(message, dict) for message in found):
        raise BadThreads(
            f"{place}: the messages are no list of objects. The file must hold {SHAPE}"
        )
    return found


def state_at(messages: list[Message], step: int) -> dict[str, Any]:
    """An agent's state after *step* messages: all of them, and small fields that all change."""
    chosen = random.Random(step)
    day, minute = 1 + step % 28, step % 60
    return {
        "messages": messages[:step],
        "iteration": step,
        "updated_at": f"2026-01-{day:02}T10:{minute:02}:00.{chosen.randrange(10**6):06}Z",
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
    if not text:
        raise BadThreads(f"no message has any text as its content. The file must hold {SHAPE}")
    text *= 1 + (size + 1) // len(text)  # a short conversation is said again
    start = random.Random(seed).randrange(len(text) - size)
    return text[start : start + size]

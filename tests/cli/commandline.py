"""Helpers: the result of a command, a command in a process of its own, threads to import."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from waiting import A_WHILE


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


NOT_INHERITED = (
    "MEMALCHEMY_URL",
    "MEMALCHEMY_SCHEMA",
    "MEMALCHEMY_KEYS",
    "COLUMNS",
    "NO_COLOR",
    "FORCE_COLOR",
)

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
        timeout=2 * A_WHILE,
        **options,
    )


def on_terminal(columns: int, *arguments: str, env: dict[str, str] | None = None) -> Answer:
    """Run the command line with stdout and stderr on terminals that are *columns* wide."""
    terminals = [pty.openpty() for _ in range(2)]
    size = struct.pack("HHHH", 24, columns, 0, 0)
    for _, inner in terminals:
        fcntl.ioctl(inner, termios.TIOCSWINSZ, size)
        settings = termios.tcgetattr(inner)
        settings[1] &= ~termios.OPOST  # lines end as they are written
        termios.tcsetattr(inner, termios.TCSANOW, settings)
    (out, inner_out), (err, inner_err) = terminals
    running = subprocess.Popen(
        [sys.executable, "-m", "memalchemy", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=inner_out,
        stderr=inner_err,
        env=environment(TERM="xterm-256color") if env is None else env,
    )
    os.close(inner_out)
    os.close(inner_err)
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(_read_terminal, (out, err)))
    return Answer(running.wait(60), *said)


def _read_terminal(outer: int) -> str:
    said = b""
    with contextlib.suppress(OSError):  # the program closed its end
        while some := os.read(outer, 65536):
            said += some
    os.close(outer)
    return said.decode()


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


def commands(group: Any, prefix: str = "") -> Iterator[str]:
    """Return the names of all commands of the command line, such as ``store ls``."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield f"{prefix}{name}"

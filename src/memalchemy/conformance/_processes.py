"""Processes that write, and are killed: `lent_worker`."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from memalchemy.conformance import _worker
from memalchemy.conformance._checks import fail

SAID = 2_000
"""Characters that a message shows of what a process has written to its stderr."""


class Worker:
    """A process that imports subjects, and whose children write through them.

    It stays for the next check, because the import of a framework takes seconds.
    """

    def __init__(self) -> None:
        self._children: set[int] = set()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the process
        self._process = subprocess.Popen(  # noqa: S603 - this module's own
            [sys.executable, "-c", f"from {_worker.__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(_import_path())},
        )

    async def run(self, jobs: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """Run jobs, each in a child; yield what they tell of until all of them have ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"path": _import_path(), "jobs": jobs}).encode()
        with contextlib.suppress(BrokenPipeError):  # it has failed, and stdout says so
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        while line := await asyncio.to_thread(self._process.stdout.readline):
            told = json.loads(line)
            if "started" in told:
                self._children.add(told["started"])
            if "ended" in told:
                self._children.clear()
            yield told
            if "ended" in told:
                return
        fail(f"the process that imports the subject has ended: {self.errors()}")

    def kill(self) -> None:
        """Kill the children that are at work."""
        while self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._children.pop(), signal.SIGKILL)

    def errors(self) -> str:
        """Return the end of what the process and its children have written to stderr."""
        size = os.fstat(self._errors.fileno()).st_size
        text = os.pread(self._errors.fileno(), SAID, max(0, size - SAID))
        return text.decode(errors="replace").strip() or "it said nothing"

    def end(self) -> None:
        """End the process, and what is left of its children."""
        self.kill()
        self._process.kill()
        self._process.communicate()
        self._errors.close()


_idle: list[Worker] = []


@contextlib.asynccontextmanager
async def lent_worker() -> AsyncIterator[Worker]:
    """Lend a process to one check: one that is idle, or a new one."""
    worker = _idle.pop() if _idle else Worker()
    try:
        yield worker
    except BaseException:
        worker.end()
        raise
    _idle.append(worker)


@atexit.register
def _end_all() -> None:
    while _idle:
        _idle.pop().end()


def _import_path() -> list[str]:
    return [os.path.abspath(path) for path in sys.path]  # an empty one is the current directory

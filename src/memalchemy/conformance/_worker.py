"""Process whose children write through a subject, for the checks of kills and of processes.

Each line that `main` reads is a JSON object: ``path``, from which it imports, and ``jobs``. A child
for each of these writes a number of texts and tells of every write that was acknowledged. Children
are forked, because the import of a framework takes seconds.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import traceback
from typing import Any, NoReturn

from memalchemy._named_objects import load_object
from memalchemy.conformance.subject import Subject
from memalchemy.database import Database


def nth_text(number: int) -> str:
    """Return a text that tells its number and its size, of up to 20 KB."""
    size = number * 997 % 20_000 if number % 4 else 0
    return f"{number}:{size}:" + "x" * size


async def write_until(subject: Subject[Any], id_: str, adapter: Any, text: str) -> Any:
    """Write a text, again as long as the framework says that others wrote at the same time."""
    while True:
        try:
            return await subject.write(adapter, id_, text)
        except subject.conflicts:
            await asyncio.sleep(0)


def _print_line(**line: object) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


async def _write(subject: Subject[Any], job: dict[str, Any]) -> None:
    async with Database(job["url"], tenant=job["tenant"]) as db:
        adapter = subject.open(db)
        for number in range(job["texts"]):
            text = f"{job['who']}{nth_text(number)}"
            await write_until(subject, job["id"], adapter, text)
            _print_line(written=number, who=job["who"])


def _run_child(subject: Subject[Any], job: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        asyncio.run(_write(subject, job))
        code = 0
    except BaseException:  # noqa: BLE001 - the process that waits is told of it
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def main() -> None:
    """Serve jobs until the input ends."""
    for line in sys.stdin:
        given = json.loads(line)
        sys.path[:] = given["path"]
        importlib.invalidate_caches()
        children = {}
        for job in given["jobs"]:
            subject = load_object(job["subject"])
            child = os.fork()
            if not child:
                _run_child(subject, job)
            children[child] = job["who"]
            _print_line(started=child, who=job["who"])
        codes = {who: os.waitpid(child, 0)[1] for child, who in children.items()}
        _print_line(ended=codes)

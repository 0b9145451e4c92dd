"""What memalchemy takes of a process: the time to import it, and the memory of its caches.

Both are measured in fresh interpreters. The import counts from where SQLAlchemy and its asyncio
half have been imported, and ends when the two classes that everybody uses are there: a package that
imports them lazily saves nothing here. It is CPU time, of which a neighbour on the machine takes
none; the wall's is beside it.

The caches are the same code on every database, so their memory is measured once, on SQLite. They
say how many bytes they hold; the memory of the process shows whether that is so.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Finding, at_most
from benchmarks.workload import Message

THREADS = (400, 800)
STATE = 300_000
"""Bytes of a thread's state, as JSON."""
CACHE = 64 * 2**20
GROWTH = 1.1
"""A full cache takes in and gives up the same: twice the threads may cost the process the heap's
fragments and some statistics, a tenth, and no more."""

IMPORT = """
import json, time
started, wall = time.process_time(), time.perf_counter
import sqlalchemy, sqlalchemy.ext.asyncio
theirs, began = time.process_time(), wall()
import memalchemy
plain = time.process_time()
memalchemy.Database, memalchemy.Checkpointer
used = time.process_time()
found = {"theirs": theirs - started, "plain": plain - theirs, "used": used - theirs}
print(json.dumps(found | {"wall": wall() - began}))
"""


async def measure(
    messages: Sequence[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    for finding in await _imports(max(rounds, 7)):
        yield finding
    for finding in await _memory(messages, directory):
        yield finding


async def _imports(rounds: int) -> list[Finding]:
    await fresh_python("-c", IMPORT)  # so that every module is compiled
    found = [await fresh_python("-c", IMPORT) for _ in range(rounds)]
    theirs, plain, used, wall = (
        median(one[key] for one in found) for key in ("theirs", "plain", "used", "wall")
    )
    beside = f"SQLAlchemy itself {theirs:.3f} s"
    return [
        Finding(
            "import",
            "import memalchemy with Database and Checkpointer, beyond SQLAlchemy, CPU",
            used,
            "s",
            at_most(0.150),
            f"{used:.3f} s, on the wall {wall:.3f} s",
            beside,
        ),
        Finding(
            "import",
            "import memalchemy alone, beyond SQLAlchemy, CPU",
            plain,
            "s",
            None,
            f"{plain:.3f} s",
            beside,
        ),
    ]


async def _memory(messages: Sequence[Message], directory: Path) -> list[Finding]:
    given = directory / "memory.json"
    given.write_text(json.dumps(_state(messages)))
    found = await fresh_python(
        "-m", "benchmarks.footprint", str(directory / "memory.db"), str(given)
    )
    (cached, resident), (cached_later, resident_later) = found["after"]
    mib = 2**20
    fewer, more = THREADS
    return [
        Finding(
            "memory",
            f"caches after {more} threads with states of 300 KB",
            cached_later / mib,
            "MiB",
            at_most(CACHE / mib, timed=False),
            f"{cached_later / mib:.1f} MiB",
            f"the states: {more * STATE / mib:.0f} MiB",
        ),
        Finding(
            "memory",
            f"memory of the process after {more} such threads against {fewer}",
            resident_later / resident,
            "x",
            at_most(GROWTH, timed=False),
            f"{resident_later / mib:.0f} MiB, {cached_later / mib:.0f} in caches",
            f"{resident / mib:.0f} MiB, {cached / mib:.0f} in caches; "
            f"{found['before'] / mib:.0f} before the first",
        ),
    ]


def _state(messages: Sequence[Message]) -> dict[str, Any]:
    """A state of `STATE` bytes: the conversation from its beginning, said again if it is short."""
    chosen: list[Message] = []
    size = 0
    while size < STATE:
        chosen.append(messages[len(chosen) % len(messages)])
        size += len(json.dumps(chosen[-1]))
    return {"messages": chosen}


async def fresh_python(*arguments: str) -> Any:
    """What a fresh interpreter printed, which is JSON."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, f"{arguments[0]} … failed; its error is above"
    return json.loads(printed)


def resident() -> int:
    """Bytes of this process in memory now; where the system does not say, at its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return _peak_by_usage()


def peak_resident() -> int:
    """Bytes of this process in memory at its peak.

    Linux's own count of resource usage would begin with the peak of the process that started it.
    """
    try:
        status = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return _peak_by_usage()
    (line,) = (one for one in status if one.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _peak_by_usage() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


async def _serve(where: str, given: str) -> None:
    """In a process of its own: save a step, and a second one, in many threads."""
    from benchmarks.subjects.ours import Ours
    from memalchemy.checkpoints.tip_cache import TipCache

    state = json.loads(Path(given).read_text())  # noqa: ASYNC240 - nobody else waits
    ours = Ours(Path(where))
    await ours.open()
    await ours.save("first", {"step": 0})
    before, after = resident(), []
    for number in range(THREADS[-1]):
        for step in (1, 2):
            await ours.save(f"thread-{number}", state | {"owner": f"user {number}", "step": step})
        if number + 1 in THREADS:
            after.append((TipCache.of(ours.db).bytes, resident()))
    await ours.close()
    print(json.dumps({"before": before, "after": after}))


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))

"""Threads of every framework with parts of their values altered: all views show them, somehow.

What an adapter of a release has stored is read, a part of it is replaced, left out or doubled, and
it is stored again as it is then, in a thread of its own. The inspector and the tables of analysis
know the forms of all frameworks, and must not rely on them.

`MEMALCHEMY_EXAMPLES` multiplies the number of alterations.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from altered_values import altered
from drawn_examples import examples
from memalchemy import Checkpointer, Database, MemalchemyError, ThreadLog
from memalchemy.analysis import Analysis
from memalchemy.analysis.tables import TABLES
from memalchemy.inspection import Inspector
from stored.kinds import directory_of, releases, unzipped
from told_errors import told

ALTERED = examples(2)
"""Alterations of each thread."""
STORED_BY = sorted((directory_of(releases()[-1]) / "adapters").glob("*.db.gz"))


async def alter_threads(db: Database, rng: random.Random) -> list[tuple[str, tuple[str, ...]]]:
    """Store altered copies of all threads; return the ids and namespaces of the copies."""
    made = []
    for listed in (await Inspector(db).threads(limit=500))["threads"]:
        thread, namespace = listed["thread_id"], tuple(listed["namespace"])
        checkpointer = Checkpointer(db, namespace=namespace)
        log = ThreadLog(db, namespace=namespace)
        state = await checkpointer.load(thread)
        entries = [entry.value for entry in await log.range(thread)]
        for number in range(ALTERED):
            name = f"{thread} altered {number}"
            if state is not None:
                changed = altered(state, rng)
                await checkpointer.save(changed if isinstance(changed, dict) else {}, name)
            if entries:
                changed = altered(entries, rng)
                await log.append(name, changed if isinstance(changed, list) else [changed])
            made.append((name, namespace))
    return made


def views(db: Database, thread: str, namespace: tuple[str, ...]) -> dict[str, Any]:
    """What shows one thread, by name."""
    inspector = Inspector(db)
    return {
        "thread": lambda: inspector.thread(thread, namespace),
        "transcript": lambda: inspector.transcript(thread, namespace),
        "whole transcript": lambda: inspector.transcript(thread, namespace, whole=True),
        "found": lambda: inspector.transcript(thread, namespace, find="words"),
        "origins": lambda: inspector.origins(thread, namespace),
        "timeline": lambda: inspector.timeline(thread, namespace),
        "entries": lambda: inspector.entries(thread, namespace),
        "state": lambda: inspector.state(thread, namespace),
        "writes": lambda: inspector.writes(thread, namespace),
        "interrupts": lambda: inspector.interrupts(thread, namespace),
    }


@pytest.mark.parametrize("stored", STORED_BY, ids=lambda path: path.name.partition(".")[0])
async def test_every_view_and_table_shows_what_is_left_of_a_form(
    stored: Path, tmp_path: Path
) -> None:
    file = tmp_path / "altered.db"
    file.write_bytes(unzipped(stored))
    rng = random.Random(stored.name)
    wrong: Counter[str] = Counter()

    async def shown(what: str, show: Callable[[], Awaitable[Any]]) -> None:
        try:
            await show()
        except MemalchemyError:
            pass
        except Exception as error:  # noqa: BLE001 - what it is is the question
            wrong[f"{what}: {told(error)}"] += 1

    async def table(name: str) -> None:
        async for _ in Analysis(db).rows(name):
            pass

    async with Database(f"sqlite:///{file}") as db:
        made = await alter_threads(db, rng)
        for thread, namespace in made:
            for what, show in views(db, thread, namespace).items():
                await shown(what, show)
        await shown("threads", lambda: Inspector(db).threads(sort="cost", limit=500))
        await shown("use", lambda: Inspector(db).use())
        for one in TABLES:
            await shown(one, lambda one=one: table(one))
    assert not wrong, "\n".join(f"{count} x {what}" for what, count in wrong.most_common(40))

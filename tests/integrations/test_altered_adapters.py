"""What an adapter stored, with a part altered: it is read, or an error of ours says why not.

A user of a framework who catches `MemalchemyError` catches whatever became of what is stored.
`MEMALCHEMY_EXAMPLES` multiplies the number of alterations.
"""

from __future__ import annotations

import json
import os
import random
import traceback
from collections import Counter
from pathlib import Path

import pytest
from subjects import INSTALLED

from altered_values import altered
from memalchemy import Checkpointer, Database, MemalchemyError, Store, ThreadLog
from memalchemy.inspection import Inspector
from stored.kinds import directory_of, releases, unzipped

TIMES = max(1, int(6 * float(os.environ.get("MEMALCHEMY_EXAMPLES", "1"))))
STORED = directory_of(releases()[-1]) / "adapters"
ROOM = "memalchemy/integrations/"
SUBJECTS = [
    (name, subject)
    for name in INSTALLED
    for subject in json.loads((STORED / f"{name}.json").read_text())["texts"]
]


async def alter(db: Database, rng: random.Random) -> None:
    """Alter the newest state of each thread, an entry of each log, an item of each namespace."""
    for listed in (await Inspector(db).threads(limit=500))["threads"]:
        thread, namespace = listed["thread_id"], tuple(listed["namespace"])
        checkpointer = Checkpointer(db, namespace=namespace)
        log = ThreadLog(db, namespace=namespace)
        if (state := await checkpointer.load(thread)) is not None:
            changed = altered(state, rng)
            (newest,) = await checkpointer.list_checkpoints(thread, 1)
            if isinstance(changed, dict):
                await checkpointer.save(changed, thread, newest)
        if entries := await log.range(thread):
            entry = rng.choice(entries)
            await log.edit(thread, entry.position, altered(entry.value, rng))
    store = Store(db)
    for namespace in await store.list_namespaces(limit=1000):
        if items := await store.list_items(namespace, limit=100):
            item = rng.choice(items)
            await store.put(namespace, item.key, altered(item.value, rng), item.metadata)


@pytest.mark.parametrize(("name", "subject"), SUBJECTS)
async def test_an_adapter_reads_what_was_altered_or_says_why_not(
    name: str, subject: str, tmp_path: Path
) -> None:
    rng = random.Random(f"{name} {subject}")
    id_: str = json.loads((STORED / f"{name}.json").read_text())["id"]
    one = INSTALLED[name].SUBJECTS[subject]
    wrong: Counter[str] = Counter()
    for number in range(TIMES):
        file = tmp_path / f"{number}.db"
        file.write_bytes(unzipped(STORED / f"{name}.db.gz"))
        async with Database(f"sqlite:///{file}") as db:
            await alter(db, rng)
            for what, call in (
                ("read", lambda: one.read(one.open(db), id_)),
                ("write", lambda: one.write(one.open(db), id_, "the crane flies on")),
            ):
                try:
                    await call()
                except MemalchemyError:
                    pass
                except Exception as error:  # noqa: BLE001 - what it is is the question
                    is_translated = isinstance(error.__cause__, MemalchemyError)
                    if not is_translated and (said := told(error)):
                        wrong[f"{what}: {said}"] += 1
    assert not wrong, "\n".join(f"{count} x {what}" for what, count in wrong.most_common(40))


def told(error: Exception) -> str:
    """Say what an adapter raised; nothing of what the subject did with what it was given."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = next((one for one in reversed(frames) if ROOM in one.filename), None)
    if ours is None:
        return ""
    where = f"{ours.filename.rsplit(ROOM, 1)[-1]}:{ours.lineno}"
    return f"{type(error).__name__}: {str(error)[:100]} at {where}"

"""A SQLite file that was vacuumed, dumped, restored or copied answers with its own rows."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.verify import verify

pytestmark = pytest.mark.asyncio_only(reason="what is in a file does not depend on who waits")

COUNT = 26
WORDS = [f"{letter}word" for letter in "abcdefghijklmnopqrstuvwxyz"]


def vector(number: int) -> list[float]:
    return [1.0 if at == number else 0.001 for at in range(COUNT)]


async def fill(db: Database) -> None:
    """Rows of each kind, and gaps before, between and behind them."""
    checkpointer, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    for number, word in enumerate(WORDS):
        await checkpointer.save({"text": word}, f"thread {number}", "c", {"word": word})
        await checkpointer.save({"text": "gone"}, f"gone {number}", "c", {"word": "gone"})
        await log.append(f"log {number}", {"text": f"entry {word}"})
        await store.put(("a",), word, {"text": word}, {"word": word}, embedding=vector(number))
        await store.put(("a",), f"gone {word}", {"text": "gone"}, embedding=vector(number))
    for number, word in enumerate(WORDS):
        await checkpointer.forget(thread_id=f"gone {number}")
        await store.delete(("a",), f"gone {word}")


async def assert_every_search_answers_with_its_row(path: Path) -> None:
    async with Database(f"sqlite:///{path}") as db:
        checkpointer, log, store = Checkpointer(db), ThreadLog(db), Store(db)
        for number, word in enumerate(WORDS):
            assert [hit["thread_id"] for hit in await checkpointer.search(word)] == [
                f"thread {number}"
            ]
            named = await checkpointer.query_by_metadata("word", word)
            assert [hit["thread_id"] for hit in named] == [f"thread {number}"]
            (entry,) = await log.search(f"entry {word}", limit=1)
            assert entry.value == {"text": f"entry {word}"}
            assert [hit.key for hit in await store.search(("a",), word)] == [word]
            filtered = await store.search(("a",), filter={"text": word})
            assert [hit.key for hit in filtered] == [word]
            near = await store.search_by_embedding(("a",), vector(number), limit=1)
            assert [hit.item.key for hit in near] == [word]
        assert (await verify(db)).findings == ()
        await store.put(("a",), "after", {"text": "afterwards"})
        assert [hit.key for hit in await store.search(("a",), "afterwards")] == ["after"]


def vacuumed(path: Path) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM")
    return path


def vacuumed_into(path: Path) -> Path:
    target = path.with_name("into.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))
    return target


def backed_up(path: Path) -> Path:
    target = path.with_name("backup.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as into:
        source.backup(into)
    return target


def dumped_by_the_program(path: Path) -> Path:
    target = path.with_name("restored.db")
    dump = subprocess.run(["sqlite3", path, ".dump"], check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["sqlite3", target], check=True, input=dump)
    return target


WAYS = [vacuumed, vacuumed_into, backed_up]
# Not Connection.iterdump(): it reads the rows of virtual tables, and an index has none to read.
if shutil.which("sqlite3"):
    WAYS.append(dumped_by_the_program)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_every_search_answers_with_its_row_after(
    tmp_path: Path, way: Callable[[Path], Path]
) -> None:
    path = tmp_path / "agent.db"
    async with Database(f"sqlite:///{path}") as db:
        await fill(db)
    await assert_every_search_answers_with_its_row(way(path))

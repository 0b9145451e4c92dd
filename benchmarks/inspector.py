"""The inspector over very many threads: fill a database, then time each route of its API.

    python -m benchmarks.inspector sqlite:////tmp/many.db --fill 1000000
    python -m benchmarks.inspector postgresql://me@/many --fill 200000
    python -m benchmarks.inspector sqlite:////tmp/many.db

A database is filled by copying, within it, a thread and a log that were really saved; their names,
keys, times and words differ. It is measured through the ASGI application, without a socket: wall
and processor time of this process, the median of some calls after two that are not counted. SQLite
works in this process, PostgreSQL in its own.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    case,
    insert,
    literal_column,
    select,
)

from benchmarks.filling import Item, fill, settle
from benchmarks.filling_logs import OWN_SQL, fill_thread
from benchmarks.subjects.ours import Ours
from memalchemy import Checkpointer, Database, Episode, EpisodeStore, ThreadLog
from memalchemy.http.inspector import _application
from memalchemy.keys import log_key
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow

TABLES: list[Any] = [one.__table__ for one in (ThreadRow, CheckpointRow, DeltaRow)]
TOKEN = "a token of the measurement"
LONG = "a-long-thread"
STEPS = 10_000
ITEMS = 100_000
EPISODES = 2_000
WORDS = [
    f"{first}{second}" for first in "bcdfghklmn" for second in ("arin", "elto", "omus", "ulid")
]
"""Words of which a text has some; each is in a tenth of all texts."""
RARE_EVERY = 1_000
"""One text of as many has the rare word."""
CALLS = 9
EARLIER = {
    "sqlite": "({0} - 1000000 * ({1} - n))",
    "postgresql": "({0} - ({1} - n) * interval '1 second')",
}
"""Threads are written a second apart, in the order of their numbers, the last of them now."""


def names_of(number: int) -> tuple[str, str, str]:
    """Return the id, the encoded namespace and the text of a thread."""
    drawn = random.Random(number)
    path = ("/", "/langgraph/", "/openai-agents/main/", "/pydantic-ai/")[number % 4]
    said = " ".join(drawn.choices(WORDS, k=4)) + (" sapphire" if number % RARE_EVERY == 7 else "")
    return f"customer-{drawn.randrange(50_000)}/session-{number:07d}", path, said


async def fill_database(ours: Ours, count: int) -> None:
    """Fill an empty database with *count* threads, a long one, items and episodes."""
    db = ours.db
    messages = [{"role": "user", "content": "Where is my parcel?"}] * 4
    await Checkpointer(db).save({"messages": messages, "step": 1}, "template")
    log = ThreadLog(db, namespace=())
    await log.append("template-log", [{"role": "user", "content": "Where is it?"}])
    for start in range(0, count, 50_000):
        numbers = range(start, min(start + 50_000, count))
        await db.run_sync(partial(_copy, tenant=db.tenant, numbers=numbers, count=count))
        print(f"{numbers.stop:,} threads", flush=True)
    said = [{"role": "user", "content": f"message {at} of many"} for at in range(100)]
    await fill_thread(ours, LONG, said, STEPS)
    items = [
        Item(("users", f"u{at % 20_000:05d}"), f"key-{at}", {"text": names_of(at)[2]})
        for at in range(ITEMS)
    ]
    await fill(ours.place, db, items)
    episodes = EpisodeStore(db)
    for at in range(EPISODES):
        done = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=at)
        await episodes.write(Episode(id_=f"e{at}", task=f"Task {at}", completed_at=done))
    if isinstance(ours.place, str):
        settle(ours.place)


def _copy(connection: Connection, tenant: str, numbers: range, count: int) -> None:
    made = Table(
        "copies",
        MetaData(),
        Column("n", Integer),
        Column("log_id", TABLES[0].c.log_id.type),
        Column("thread_id", TABLES[0].c.thread_id.type),
        Column("namespace", TABLES[0].c.namespace.type),
        Column("said", Text),
        prefixes=["TEMPORARY"],
    )
    made.create(connection)
    rows = []
    for number in numbers:
        thread_id, path, said = names_of(number)
        key = log_key(tenant, thread_id, path)
        row = {"n": number, "log_id": key, "thread_id": thread_id}
        rows.append(row | {"namespace": path, "said": said})
    connection.execute(insert(made), rows)
    second = OWN_SQL[connection.dialect.name][2]
    earlier = EARLIER[connection.dialect.name]
    updated = earlier.format("threads.updated_at", count)
    for template, is_log in (("template", False), ("template-log", True)):
        key = log_key(tenant, template, "/")
        for table in TABLES:
            changed: dict[str, Any] = {"log_id": made.c.log_id}
            if table is TABLES[0]:
                changed |= {
                    "thread_id": made.c.thread_id,
                    "namespace": made.c.namespace,
                    "updated_at": literal_column(updated),
                    "active_at": literal_column(second.format(updated)),
                }
            else:
                time = table.c.created_at if table is TABLES[1] else table.c.stored_at
                changed[time.name] = literal_column(earlier.format(time, count))
            if table is TABLES[2]:
                changed["search_text"] = case((table.c.search_text.is_not(None), made.c.said))
            columns = [changed.get(one.name, one) for one in table.c]
            here = (made.c.n % 4 == 2) if is_log else (made.c.n % 4 != 2)
            found = (
                select(*columns).select_from(table.join(made, here)).where(table.c.log_id == key)
            )
            connection.execute(insert(table).from_select([*table.c.keys()], found))
    made.drop(connection)


Request = tuple[str, str, dict[str, Any]]


def requests(count: int) -> list[Request]:
    """Return what is asked: a title, a route, and its parameters."""
    thread_id, path, _ = names_of(count - 1)
    ns = [part for part in path.split("/") if part]
    one = {"thread": thread_id, "ns": ns}
    log_id, log_path, _ = names_of(count // 8 * 8 + 2 - 8)
    log = {"thread": log_id, "ns": [part for part in log_path.split("/") if part]}
    long = {"thread": LONG}
    return [
        ("overview", "overview", {}),
        ("space", "space", {}),
        ("changes", "changes", {}),
        ("threads", "threads", {}),
        ("threads of a framework", "threads", {"framework": "langgraph"}),
        ("threads of the root", "threads", {"framework": "/"}),
        ("threads: one id's beginning", "threads", {"q": thread_id[:-2]}),
        ("threads: a part of few ids", "threads", {"q": f"{count - 1:07d}"}),
        ("threads: a part of all ids", "threads", {"q": "session"}),
        ("threads: no id has it", "threads", {"q": "zebra"}),
        ("threads of a framework: no id", "threads", {"q": "zebra", "framework": "langgraph"}),
        ("thread", "thread", one),
        ("transcript of a state", "transcript", one),
        ("transcript of a log", "transcript", log),
        ("timeline", "timeline", one),
        ("long: thread", "thread", long),
        ("long: transcript", "transcript", long),
        ("long: timeline", "timeline", long),
        ("long: state", "state", long),
        ("long: writes", "writes", long),
        ("entries", "entries", log),
        ("namespaces", "namespaces", {}),
        ("namespaces of users", "namespaces", {"ns": "users"}),
        ("items", "items", {}),
        ("items of a user", "items", {"ns": ["users", "u00001"]}),
        ("items: words", "items", {"q": WORDS[0]}),
        ("item", "item", {"ns": ["users", "u00001"], "key": "key-1"}),
        ("facts", "memories", {"kind": "facts"}),
        ("episodes", "memories", {"kind": "episodes"}),
        ("conversations", "memories", {"kind": "conversations"}),
        ("search: a common word", "search", {"q": WORDS[0]}),
        ("search: two common words", "search", {"q": f"{WORDS[0]} {WORDS[1]}"}),
        ("search: a rare word", "search", {"q": "sapphire"}),
        ("search: no such word", "search", {"q": "zebra"}),
    ]


async def measure(db: Database, only: str) -> None:
    """Print the milliseconds of each route."""
    async with db:
        count = await db.run_sync(_count)
        application = _application.inspector_app(db, tokens={TOKEN: db.tenant})
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(application),
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=120,
        ) as client:
            print(f"{count:,} threads\n{'':32}{'wall ms':>9}{'CPU ms':>9}{'first':>9}{'kB':>7}")
            for title, route, parameters in requests(count):
                if only in title:
                    await _time(client, title, route, parameters)


async def _time(client: httpx.AsyncClient, title: str, route: str, parameters: Any) -> None:
    walls, busy = [], []
    for _ in range(CALLS + 2):
        wall, cpu = time.perf_counter(), time.process_time()
        response = await client.get(f"/api/{route}", params=parameters)
        walls.append(1000 * (time.perf_counter() - wall))
        busy.append(1000 * (time.process_time() - cpu))
        assert response.status_code == 200, response.text
    wall, cpu = statistics.median(walls[2:]), statistics.median(busy[2:])
    size = len(response.content) / 1000
    print(f"{title:32}{wall:9.1f}{cpu:9.1f}{walls[0]:9.1f}{size:7.1f}", flush=True)


def _count(connection: Connection) -> int:
    """Return the number of copied threads."""
    like = TABLES[0].c.thread_id.like("customer-%")
    last: Any = literal_column("max(substr(thread_id, -7))")
    if connection.dialect.name == "postgresql":
        last = literal_column("max(right(thread_id, 7))")
    return int(connection.execute(select(last).where(like)).scalar_one() or 0) + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--fill", type=int, help="threads to fill an empty database with")
    parser.add_argument("--only", default="", help="measure what has this in its title")
    given = parser.parse_args()
    if given.fill:
        prefix = "sqlite:///"
        is_file = given.url.startswith(prefix)
        asyncio.run(
            _fill(Path(given.url.removeprefix(prefix)) if is_file else given.url, given.fill)
        )
    else:
        asyncio.run(measure(Database(given.url), given.only))


async def _fill(place: Path | str, count: int) -> None:
    ours = Ours(place)
    await ours.open()
    await fill_database(ours, count)
    await ours.close()


if __name__ == "__main__":
    main()

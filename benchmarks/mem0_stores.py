"""Memories of mem0: our vector store against its own of pgvector, each in a PostgreSQL database.

Both are called as `Memory` does: an insert of five memories, a search of the 60 nearest of a user,
one by words, a list of a user's memories, and one memory. Theirs has an HNSW index, as by default.
A search by words has no target: theirs finds memories with all words of a query, ours with any.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.filling import settle
from benchmarks.measure import Finding, at_least, megabytes, milliseconds, ratio, take_turns
from benchmarks.servers import total_size
from benchmarks.workload import Message

os.environ["MEM0_TELEMETRY"] = "False"
if "MEM0_DIR" not in os.environ:
    os.environ["MEM0_DIR"] = tempfile.mkdtemp(prefix="mem0-")
    atexit.register(shutil.rmtree, os.environ["MEM0_DIR"], ignore_errors=True)

from mem0.vector_stores.pgvector import PGVector

from memalchemy import sync
from memalchemy.integrations.mem0 import MemalchemyVectorStore

SIZE = 384
MEMORIES = 1_000
USERS = 10
CALLS = 10


async def measure(
    messages: list[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    texts = [text[:200] for m in messages if isinstance(text := m.get("content"), str) and text]
    here, there = new_database(), new_database()
    db = sync.Database(here)
    await asyncio.to_thread(db.migrate)
    ours = MemalchemyVectorStore(db)
    theirs = PGVector(
        dbname="",
        collection_name="mem0",
        embedding_model_dims=SIZE,
        user=None,
        password=None,
        host=None,
        port=None,
        diskann=False,
        hnsw=True,
        minconn=1,
        maxconn=5,
        connection_string=there,
    )
    stores: dict[str, Any] = {"ours": ours, "theirs": theirs}
    random = np.random.default_rng(7)
    await asyncio.to_thread(theirs.list)  # makes the table
    empty = {"ours": total_size(here), "theirs": total_size(there)}
    for store in stores.values():
        for start in range(0, MEMORIES, 5):
            await asyncio.to_thread(store.insert, *_some(random, texts, start))
    grown = {
        "ours": total_size(here) - empty["ours"],
        "theirs": total_size(there) - empty["theirs"],
    }
    yield Finding(
        "mem0_stores",
        f"bytes of {MEMORIES:,} memories, pgvector's store to ours",
        grown["theirs"] / grown["ours"],
        "x",
        None,
        megabytes(grown["ours"]),
        megabytes(grown["theirs"]),
    )
    settle(here)
    settle(there)
    words = [" ".join(text.split()[:2]) for text in texts if len(text.split()) > 1]
    mine = {"user_id": "user-3"}
    calls: dict[str, Callable[[Any], None]] = {
        "insert 5 memories": lambda store: store.insert(*_some(random, texts, 0)),
        "search the 60 nearest of a user": lambda store: store.search(
            "", _vector(random), 60, mine
        ),
        "search the 60 of a user by words": lambda store: store.keyword_search(
            words[int(random.integers(len(words)))], 60, mine
        ),
        "list 100 of a user": lambda store: store.list(mine, 100),
        "get one": lambda store: store.get(str(uuid.uuid4())),
    }
    for what, call in calls.items():
        sides = {name: partial(_calling, call, store) for name, store in stores.items()}
        found = await take_turns(sides, rounds)
        yield Finding(
            "mem0_stores",
            f"{what} at {MEMORIES:,} memories, pgvector's store to ours",
            ratio(found["theirs"], found["ours"]),
            "x",
            None if "by words" in what else at_least(1),
            milliseconds(found["ours"]),
            milliseconds(found["theirs"]),
        )
    theirs.connection_pool.close()
    await asyncio.to_thread(db.close)


async def _calling(call: Callable[[Any], None], store: Any) -> float:
    def run() -> float:
        began = time.perf_counter()
        for _ in range(CALLS):
            call(store)
        return (time.perf_counter() - began) / CALLS

    return await asyncio.to_thread(run)


def _some(random: np.random.Generator, texts: list[str], start: int) -> tuple[Any, Any, Any]:
    payloads = [
        {
            "data": texts[at % len(texts)],
            "text_lemmatized": texts[at % len(texts)].lower(),
            "hash": f"{at:032x}",
            "user_id": f"user-{at % USERS}",
            "created_at": "2026-03-01T12:00:00+00:00",
        }
        for at in range(start, start + 5)
    ]
    return [_vector(random) for _ in payloads], payloads, [str(uuid.uuid4()) for _ in payloads]


def _vector(random: np.random.Generator) -> list[float]:
    vector: list[float] = random.normal(size=SIZE).tolist()
    return vector

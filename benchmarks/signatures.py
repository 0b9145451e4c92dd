"""What signatures cost each operation, on SQLite and on PostgreSQL with asyncpg.

Two databases, one with a signing key, and the same calls on both in turn, by one task. The value is
the processor time of a call, client and server together; the description has the time on the wall,
which tells of round trips. The group runs if ``--only signatures`` names it; see
`benchmarks.paired`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.filling import settle
from benchmarks.measure import Finding
from benchmarks.paired import backend_of, compared, measure_pairs
from benchmarks.workload import Message, state_at
from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.signing import generate_key

MOST = 1.15
LENGTH = 200
"""Messages up to which a thread grows."""
ENTRIES = 200
ITEMS = 100
DIMENSIONS = 256
CALLS = 50
WORDS = ["harbour", "lantern", "velvet", "orchard", "copper", "meadow", "thunder", "saffron"]


@dataclass
class Side:
    """One of the two databases, and what is kept in it."""

    url: str
    db: Database
    backend: int | None
    messages: list[Message]
    saves: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.keep, self.log, self.store = Checkpointer(self.db), ThreadLog(self.db), Store(self.db)


async def save(side: Side, _: int) -> None:
    number, length = divmod(next(side.saves), min(LENGTH, len(side.messages)))
    await side.keep.save(state_at(side.messages, length + 1), f"thread-{number}")


async def load(side: Side, _: int) -> None:
    assert await side.keep.load("thread-0") is not None


async def append(side: Side, number: int) -> None:
    await side.log.append("appended", [_value(number)])


async def read_tail(side: Side, _: int) -> None:
    assert len(await side.log.tail("log", 20)) == 20


async def read_range(side: Side, _: int) -> None:
    assert len(await side.log.range("log")) == ENTRIES


async def put(side: Side, number: int) -> None:
    await side.store.put(("put",), f"key-{number % ITEMS}", _value(number))


async def put_with_vector(side: Side, number: int) -> None:
    key, value = f"key-{number % ITEMS}", _value(number)
    await side.store.put_with_embedding(("vectors",), key, value, _vector(number))


async def get(side: Side, number: int) -> None:
    assert await side.store.get(("items",), f"key-{number % ITEMS}") is not None


async def list_items(side: Side, _: int) -> None:
    assert len(await side.store.list_items(("items",), limit=ITEMS)) == ITEMS


async def filter_items(side: Side, number: int) -> None:
    assert await side.store.search(("items",), filter={"word": WORDS[number % len(WORDS)]})


async def search_text(side: Side, number: int) -> None:
    assert await side.store.search(("items",), WORDS[number % len(WORDS)])


async def search_vectors(side: Side, number: int) -> None:
    assert await side.store.search_by_embedding(("items",), _vector(number), limit=10)


CALLED: dict[str, Callable[[Side, int], Awaitable[None]]] = {
    "save": save,
    "load": load,
    "load of what is not cached": load,
    "append of an entry": append,
    f"reading of the newest 20 of {ENTRIES} entries": read_tail,
    f"reading of all {ENTRIES} entries": read_range,
    "put": put,
    "put with a vector": put_with_vector,
    "get": get,
    f"listing of {ITEMS} items": list_items,
    "search by a field": filter_items,
    "search by a word": search_text,
    "search by a vector": search_vectors,
}


async def measure(
    messages: Sequence[Message], directory: Path, new_database: Callable[[], str], rounds: int
) -> AsyncIterator[Finding]:
    """Yield the findings for each call, on SQLite and on PostgreSQL."""
    urls = {
        "SQLite": [f"sqlite:///{directory}/{name}.db" for name in ("plain", "signed")],
        "PostgreSQL": [new_database() for _ in range(2)],
    }
    for where, (plain_url, signed_url) in urls.items():
        plain = await _open(plain_url, list(messages), None)
        signed = await _open(signed_url, list(messages), generate_key())
        for name, call in CALLED.items():
            before = _forget if "not cached" in name else _nothing
            for side in (plain, signed):
                if side.backend is not None:
                    settle(side.url)
                for number in range(LENGTH if name == "save" else 5):
                    await call(side, number)
            found = await measure_pairs(call, (plain, signed), 2 * rounds, before, CALLS)
            what = f"{where}: processor time of a signed {name} to an unsigned one"
            yield compared("signatures", what, found, MOST)
        for side in (plain, signed):
            await side.db.close()


async def _open(url: str, messages: list[Message], key: str | None) -> Side:
    """Open and fill a database."""
    of_server = url.startswith("postgres")
    options: dict[str, Any] = {"pool_size": 1} if of_server else {}
    db = Database(url, migrate="upgrade", signing_keys=key, **options)
    side = Side(url, db, await backend_of(db) if of_server else None, messages)
    await side.log.append("log", [_value(number) for number in range(ENTRIES)])
    for number in range(ITEMS):
        await side.store.put_with_embedding(
            ("items",),
            f"key-{number}",
            _value(number),
            _vector(number),
            {"word": WORDS[number % len(WORDS)]},
        )
    return side


def _forget(side: Side) -> None:
    TipCache.of(side.db).drop_tenant(side.db.tenant)


def _nothing(_: Side) -> None:
    pass


def _value(number: int) -> dict[str, object]:
    word = WORDS[number % len(WORDS)]
    return {"role": "user", "word": word, "content": f"{word} number {number} " * 20}


def _vector(number: int) -> list[float]:
    found = np.random.default_rng(number).standard_normal(DIMENSIONS, dtype=np.float32)
    values: list[float] = found.tolist()
    return values

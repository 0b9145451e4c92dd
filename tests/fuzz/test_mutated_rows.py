"""Stored payloads that somebody mutated: `Corrupt` or what was stored, in bounded time and memory.

`MEMALCHEMY_EXAMPLES` multiplies the number of mutations; ``nox -s fuzz`` makes 10,000 for each
database, plain and encrypted.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard
from sqlalchemy import Connection, select, update

from drawn_examples import examples
from memalchemy import Checkpointer, Corrupt, Database, MemalchemyError, Store, ThreadLog
from memalchemy.checkpoints.checkpointer import Checkpointer as _Checkpointer
from memalchemy.codec.encryption import generate_key, is_encrypted
from memalchemy.log import DELTAS
from memalchemy.search.scope import ITEMS
from memalchemy.verify import verify
from waiting import A_WHILE

MUTATIONS = examples(300)
SECONDS = 5.0
"""The longest that one read may take, on a machine that does other things, too."""
MOST_MB = 64
SPACE = ("users", "ada")
LARGE = {"document": " ".join(str(n * n) for n in range(30_000)), "numbers": list(range(20_000))}

Reading = Callable[[Database], Awaitable[Any]]


@dataclass(frozen=True)
class Target:
    """A row with a payload, and what reads it."""

    table: Any
    where: dict[str, Any]
    codec: str
    checksum: int
    payload: bytes
    reading: Reading
    value: Any

    @property
    def column(self) -> str:
        return "value" if self.table is ITEMS else "payload"


async def fill(db: Database) -> None:
    agent = Checkpointer(db)
    messages: list[Any] = []
    for number in range(9):
        messages.append({"role": "user", "content": f"message {number} of some words " * 4})
        extra = LARGE if number == 4 else {}
        await agent.save({"messages": list(messages)} | extra, "t", f"c{number}")
    await agent.put_writes([("channel", {"n": 1}), ("other", [1, 2])], "t", "c8", "task")
    await ThreadLog(db).append("t", ["short", {"text": "some words " * 100}, LARGE])
    store = Store(db)
    await store.put(SPACE, "short", 1)
    await store.put(SPACE, "long", {"text": "some words " * 100, "bytes": b"\x00" * 100})
    await store.put(SPACE, "large", LARGE)


def state(db: Database, name: str) -> Awaitable[Any]:
    return Checkpointer(db).load("t", name)


def writes(db: Database) -> Awaitable[Any]:
    return Checkpointer(db).get_writes("t", "c8")


def entries(db: Database) -> Awaitable[Any]:
    return ThreadLog(db).range("t")


def item(db: Database, key: str) -> Awaitable[Any]:
    return Store(db).get(SPACE, key)


def readings() -> Iterator[tuple[str, Any, dict[str, Any], Reading]]:
    for seq in range(1, 10):
        yield "/", DELTAS, {"seq": seq}, partial(state, name=f"c{seq - 1}")
    yield "/", DELTAS, {"seq": 10}, writes
    for seq in range(1, 4):
        yield "/log/", DELTAS, {"seq": seq}, entries
    for key in ("short", "long", "large"):
        yield "", ITEMS, {"key": key}, partial(item, key=key)


async def targets(db: Database) -> list[Target]:
    found = []
    for path, table, where, reading in readings():
        place = {"tenant": db.tenant} | where
        if table is DELTAS:
            log = _Checkpointer(db)._log("t")._replace(namespace=path)
            place |= {"log_id": log.key}
        column = "value" if table is ITEMS else "payload"

        def read(
            c: Connection, table: Any = table, column: str = column, place: Any = place
        ) -> Any:
            columns = (table.c.codec, table.c.checksum, table.c[column])
            here = (table.c[name] == value for name, value in place.items())
            return c.execute(select(*columns).where(*here)).one()

        codec, checksum, payload = await db.run_sync(read)
        value = await reading(db)
        found.append(Target(table, place, codec, checksum, bytes(payload), reading, value))
    return found


# --- Mutations -----------------------------------------------------------------------------------


def flipped(payload: bytes, rng: random.Random) -> bytes:
    changed = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(payload: bytes, rng: random.Random) -> bytes:
    return payload[: rng.randrange(len(payload))]


def repeated(payload: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(payload))
    return payload[:start] + payload[start : start + rng.randrange(1, 200)] * rng.choice((2, 50))


def overwritten(payload: bytes, rng: random.Random) -> bytes:
    """Numbers and lengths at the ends of what fits, where there may be some."""
    piece = rng.choice((b"\xff" * 8, b"\x00" * 8, b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xf0"))
    start = rng.randrange(len(payload))
    return payload[:start] + piece + payload[start + len(piece) :]


def inside(payload: bytes, rng: random.Random) -> bytes:
    """The decompressed content changed, and compressed again: decoders see it."""
    try:
        body = zstandard.ZstdDecompressor().decompress(payload[1:], max_output_size=2**24)
    except zstandard.ZstdError:
        try:
            body = zlib.decompressobj(-15).decompress(payload[1:], 2**24)
        except zlib.error:
            body = payload[1:]
    change = rng.choice((flipped, cut, repeated, overwritten))
    return b"\x01" + zstandard.compress(change(body or b"\x00", rng))


def bomb(payload: bytes, rng: random.Random) -> bytes:
    """A gigabyte of one byte in some kilobytes; said by the frame, or not."""
    return payload[:0] + rng.choice(BOMBS)


def noise(payload: bytes, rng: random.Random) -> bytes:
    return bytes([rng.randrange(4)]) + rng.randbytes(rng.randrange(400))


def nested(payload: bytes, rng: random.Random) -> bytes:
    """Arrays in arrays, deeper than any value is."""
    return b"\x00" + rng.choice((b"\x91", b"\x81\xa1a", b"\xdc\x00\x01")) * rng.choice(
        (2_000, 90_000)
    )


def _bombs() -> list[bytes]:
    compressing = zstandard.ZstdCompressor(level=1)
    said = compressing.compress(bytes(2**30))
    unsaid = zstandard.ZstdCompressor(level=1, write_content_size=False).compress(bytes(2**28))
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = b"".join([deflate.compress(bytes(2**24)) for _ in range(16)]) + deflate.flush()
    return [b"\x01" + said, b"\x01" + unsaid, b"\x02" + deflated]


BOMBS = _bombs()
CHANGES = (
    flipped,
    flipped,
    cut,
    repeated,
    overwritten,
    inside,
    inside,
    inside,
    noise,
    nested,
    bomb,
)


def matching(target: Target, payload: bytes) -> int:
    """The checksum of a mutated payload, as far as no key and no state are needed for it."""
    if is_encrypted(target.codec):
        return target.checksum
    if target.table is DELTAS and target.where["seq"] < 10 and target.checksum < 0:
        upper = ((target.checksum + 2**63) >> 32) << 32
        return (upper | zlib.crc32(payload)) - 2**63
    if target.table is DELTAS and target.checksum > 0xFFFFFFFF:
        upper = ((target.checksum + 2**63) >> 32) << 32
        return (upper | zlib.crc32(payload)) - 2**63
    return zlib.crc32(payload)


async def write(db: Database, target: Target, payload: bytes, checksum: int) -> None:
    def change(connection: Connection) -> int:
        here = (target.table.c[name] == value for name, value in target.where.items())
        values = {target.column: payload, "checksum": checksum}
        return connection.execute(update(target.table).where(*here).values(values)).rowcount

    assert await db.run_sync(change) == 1


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmHWM")


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)


@pytest.mark.own_keys
@pytest.mark.alone
@pytest.mark.asyncio_only("the rows are read by the same code")
@pytest.mark.parametrize("keys", [False, True], ids=["plain", "encrypted"])
async def test_a_mutated_payload_is_corrupt_or_as_it_was(database_url: str, keys: bool) -> None:
    """With a matching checksum and no key it may hold anything, and is still read in bounds."""
    rng = random.Random(4711)
    wrong: list[str] = []
    async with Database(
        database_url, keys=[generate_key()] if keys else None, migrate="upgrade"
    ) as db:
        await fill(db)
        rows = await targets(db)
        forget_peak()
        before = peak_mb()
        for number in range(MUTATIONS):
            target = rng.choice(rows)
            change = rng.choice(CHANGES)
            payload = change(target.payload, rng)
            believed = rng.random() < 0.7
            checksum = matching(target, payload) if believed else target.checksum
            await write(db, target, payload, checksum)
            began = time.process_time()
            what = f"{number}: {change.__name__} of {target.where}, {believed=}"
            try:
                async with asyncio.timeout(A_WHILE):
                    found = await target.reading(db)
                if payload != target.payload and (keys or not believed):
                    assert same(found, target.value), f"{what}: another value was believed"
            except Corrupt:
                pass
            except MemalchemyError as error:
                wrong.append(f"{what}: {type(error).__name__}: {error}"[:300])
            except Exception as error:  # noqa: BLE001 - what it is is the question
                wrong.append(f"{what}: {type(error).__name__}: {error}"[:300])
            if (took := time.process_time() - began) > SECONDS:
                wrong.append(f"{what}: took {took:.1f} s")
            if number % 50 == 0:
                assert (await verify(db)).findings or payload == target.payload or not wrong
            await write(db, target, target.payload, target.checksum)
        for target in rows:
            assert same(await target.reading(db), target.value)
        grown = peak_mb() - before
    assert not wrong, "\n".join(wrong[:20])
    assert grown < MOST_MB, f"{grown:.0f} MB more"
    assert math.isfinite(grown)

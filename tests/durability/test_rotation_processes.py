"""One process saves while another changes the keys of everything: nothing is lost, all ends new."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path

from memalchemy import Checkpointer, Database, Store
from memalchemy.codec.encryption import generate_key
from memalchemy.rotation import rotate_keys
from memalchemy.verify import verify
from waiting import A_WHILE

HERE = Path(__file__).parent
ROUNDS = 8
"""Rotations beside the saver, each to a key of its own."""


async def test_a_process_that_saves_beside_rotations_loses_nothing(place: str) -> None:
    tenant = f"t-{uuid.uuid4().hex[:16]}"
    # The saver has all keys from the start, and writes with the first: each rotation takes what it
    # wrote, its cached bases too, to another.
    keys = [generate_key() for _ in range(ROUNDS + 1)]
    saver = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.rotation", place, tenant, ",".join(keys),
        cwd=HERE, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert saver.stdin and saver.stdout and saver.stderr  # noqa: PT018
    told: list[int] = []
    rotated = 0
    try:
        for at in range(1, ROUNDS + 1):
            async with Database(place, tenant=tenant, keys=[keys[at], *keys]) as db:
                line = await saver.stdout.readline()
                assert line, (await saver.stderr.read()).decode()
                told.append(json.loads(line)["saved"])
                rotated += (await rotate_keys(db)).rotated
        saver.stdin.write(b"enough\n")
        rest, said = await asyncio.wait_for(saver.communicate(), A_WHILE)
    finally:
        if saver.returncode is None:
            saver.kill()
            await saver.wait()
    assert saver.returncode == 0, said.decode()
    told += [json.loads(line)["saved"] for line in rest.splitlines()]
    assert rotated > 3 * ROUNDS

    async with Database(place, tenant=tenant, keys=[keys[-1], *keys]) as db:
        assert (await rotate_keys(db)).left == 0
    async with Database(place, tenant=tenant, keys=[keys[-1]]) as db:
        assert (await verify(db)).findings == ()
        agent = Checkpointer(db)
        for thread in ("a", "b"):
            saved = await agent.list_checkpoints(thread, 10_000)
            assert saved == [f"{thread}{n}" for n in reversed(range(len(told)))]
            for n in told:
                assert (await agent.load(thread, f"{thread}{n}"))["n"] == n
        item = await Store(db).get_item(("tally",), "counter")
        assert item is not None
        assert (item.value, item.version) == (told[-1], len(told))

"""Sizes and vacuums of distributed tables: the coordinator's own are empty."""

from __future__ import annotations

from memalchemy import Checkpointer, Database, Store
from memalchemy.maintenance import space

NUMBER = 200


async def test_sizes_are_those_of_the_shards(distributed_url: str) -> None:
    async with Database(distributed_url) as db:
        empty = await space.measure(db)
        for number in range(NUMBER):
            pad = f"word{number} " * 300
            await Checkpointer(db).save({"pad": pad}, f"thread-{number}")
            await Store(db).put(("notes", str(number)), "key", {"pad": pad}, embedding=[1.0] * 64)
        full = await space.measure(db)

        assert {piece.name for piece in full.pieces} == {piece.name for piece in empty.pieces}
        grown = {
            piece.name: piece.bytes - before.bytes
            for piece in full.pieces
            for before in empty.pieces
            if piece.name == before.name
        }
        for table in ("threads", "checkpoints", "deltas", "store_items", "embeddings"):
            assert grown[table] > 0, table
            assert grown[f"pk_{table}"] >= 0
        assert grown["deltas"] > NUMBER * 50
        text_indexes = {piece.owner for piece in full.pieces if piece.kind == "text index"}
        assert {"deltas", "store_items"} <= text_indexes


async def test_a_vacuum_reaches_the_shards(distributed_url: str) -> None:
    async with Database(distributed_url) as db:
        checkpointer = Checkpointer(db)
        for number in range(NUMBER):
            await checkpointer.save({"n": number, "pad": f"{number} " * 500}, f"t{number % 20}")
        for number in range(20):
            await checkpointer.forget(thread_id=f"t{number}")

        done = await space.reclaim(db, full=True)

        assert done.before is not None
        assert done.after is not None
        assert done.after < done.before
        assert not [one for one in done.advice if "dead rows" in one.reason]

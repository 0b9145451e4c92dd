"""A worker or the coordinator dies, or a shard moves, while sixteen writers save.

No save that was acknowledged is lost, none that was refused appears, the errors are those that the
documentation names, and afterwards everything goes on. It stops and starts the nodes, which the
command in cluster.py names; with a cluster of somebody else's it is skipped.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from cluster import NODES_VARIABLE, Node, nodes_of_environment

from memalchemy import Checkpointer, Database
from memalchemy.errors import DatabaseUnreachable
from memalchemy.maintenance.distribution import distribute
from memalchemy.verify import verify
from servers import Citus

WRITERS = 16
BEFORE, AFTER = 10, 30
"""Saves of each writer before the fault begins, and after it has ended."""
A_WHILE = 90
DEAD_FOR = 1.5
"""Seconds that a node is away."""


@pytest.fixture
def nodes(cluster: Citus) -> list[Node]:
    found = nodes_of_environment()
    if not found:
        pytest.skip(f"no {NODES_VARIABLE} says how the nodes are stopped and started")
    return found


@pytest.fixture
async def db(cluster: Citus, name: str) -> AsyncIterator[Database]:
    async with Database(cluster.url(name), migrate="off") as making:
        await making.migrate()
        await distribute(making, parts=8)
    async with Database(cluster.url(name), pool_size=8) as db:
        yield db


@dataclass
class Writers:
    """Writers that save without pause, each into two threads, and remember the answers."""

    db: Database
    acknowledged: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unknown: int = 0
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self, number: int) -> None:
        checkpointer, step = Checkpointer(self.db), 0
        while not self.stopped.is_set():
            step += 1
            thread, name = f"w{number}-{step % 2}", f"c{step}"
            try:
                await checkpointer.save({"step": step, "words": ["w"] * (step % 50)}, thread, name)
            except DatabaseUnreachable as error:
                if error.maybe_applied:
                    self.unknown += 1
                else:
                    self.refused[thread].append(name)
                await asyncio.sleep(0.05)
            else:
                self.acknowledged[thread].append(name)

    async def until_each_has_saved(self, more: int) -> None:
        def done() -> list[int]:
            return [
                sum(len(self.acknowledged[f"w{number}-{which}"]) for which in (0, 1))
                for number in range(WRITERS)
            ]

        before = done()
        async with asyncio.timeout(A_WHILE):
            while any(  # noqa: ASYNC110 - each of many writers changes it
                now < then + more for now, then in zip(done(), before, strict=True)
            ):
                await asyncio.sleep(0.05)


async def kill_a_worker(cluster: Citus, name: str, nodes: list[Node]) -> None:
    await asyncio.to_thread(nodes[1].stop)
    await asyncio.sleep(DEAD_FOR)  # timed: so long a node is away
    await asyncio.to_thread(nodes[1].start)


async def restart_the_coordinator(cluster: Citus, name: str, nodes: list[Node]) -> None:
    await asyncio.to_thread(nodes[0].stop)
    await asyncio.sleep(DEAD_FOR)  # timed: so long a node is away
    await asyncio.to_thread(nodes[0].start)


async def move_shards(cluster: Citus, name: str, nodes: list[Node]) -> None:
    """Move two shards of the logs to the other worker, with all that stays with them."""
    placed = cluster.execute(
        "SELECT shardid, nodename, nodeport FROM pg_dist_shard "
        "JOIN pg_dist_placement USING (shardid) "
        "JOIN pg_dist_node ON pg_dist_node.groupid = pg_dist_placement.groupid "
        "WHERE logicalrelid = 'threads'::regclass ORDER BY shardid LIMIT 2",
        name,
    )
    for shard, host, port in placed:
        (other,) = (one for one in cluster.workers if one.port != port)
        move = (
            f"SELECT citus_move_shard_placement({shard}, '{host}', {port}, "
            f"'{other.host}', {other.port})"
        )
        await asyncio.to_thread(cluster.execute, move, name)


FAULTS = [kill_a_worker, move_shards, restart_the_coordinator]


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_acknowledged_save_is_lost(
    cluster: Citus, name: str, nodes: list[Node], db: Database, fault: Callable[..., object]
) -> None:
    writers = Writers(db)
    running = [asyncio.create_task(writers.write(number)) for number in range(WRITERS)]
    try:
        await writers.until_each_has_saved(BEFORE)
        await fault(cluster, name, nodes)
        await writers.until_each_has_saved(AFTER)
    finally:
        writers.stopped.set()
        ended = await asyncio.gather(*running, return_exceptions=True)
    assert [error for error in ended if error is not None] == []

    for number in range(WRITERS):
        for thread in (f"w{number}-0", f"w{number}-1"):
            found = {one.checkpoint_id async for one in Checkpointer(db).history(thread)}
            assert set(writers.acknowledged[thread]) <= found
            assert not found.intersection(writers.refused[thread])
    noticed = writers.unknown + sum(map(len, writers.refused.values()))
    assert (noticed == 0) == (fault is move_shards)
    report = await verify(db)
    assert [one for one in report.findings if one.severity == "error"] == []

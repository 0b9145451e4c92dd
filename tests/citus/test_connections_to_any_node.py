"""Processes that ask different nodes: Citus answers on each, about rows that are on any."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from memalchemy import Checkpointer, Conflict, Database, Store, ThreadLog
from memalchemy.verify import verify
from servers import Citus


@pytest.fixture
def node_urls(cluster: Citus, name: str, distributed_url: str) -> list[str]:
    """The URLs of one distributed database: of its coordinator and of both workers."""
    return [distributed_url, *(worker.url(name) for worker in cluster.workers)]


async def test_savers_at_all_nodes_lose_nothing(node_urls: list[str]) -> None:
    async with AsyncExitStack() as opened:
        nodes = [await opened.enter_async_context(Database(url)) for url in node_urls]

        async def save(number: int, db: Database, thread: str) -> None:
            await Checkpointer(db).save({"n": number}, thread, f"c{number:02}")

        threads = [f"thread-{number}" for number in range(4)]
        await asyncio.gather(
            *(
                save(number, nodes[number % len(nodes)], thread)
                for thread in threads
                for number in range(30)
            )
        )

        for thread in threads:
            histories = [await Checkpointer(db).list_checkpoints(thread, limit=99) for db in nodes]
            assert sorted(histories[0]) == [f"c{number:02}" for number in range(30)]
            assert histories[1:] == histories[:1] * 2
        assert (await verify(nodes[1])).ok


async def test_a_saver_at_one_node_is_refused_what_another_has_done(node_urls: list[str]) -> None:
    async with AsyncExitStack() as opened:
        nodes = [await opened.enter_async_context(Database(url)) for url in node_urls]
        for place, db in enumerate(nodes):
            thread = f"thread-{place}"
            await Checkpointer(db).save({"n": 1}, thread, "c1")
            elsewhere = Checkpointer(nodes[place - 1])
            await elsewhere.save({"n": 2}, thread, "c2", expected_parent="c1")
            with pytest.raises(Conflict):
                await Checkpointer(db).save({"n": 3}, thread, "c3", expected_parent="c1")
            version = await Store(db).put(("facts",), thread, {"n": 1})
            await Store(nodes[place - 1]).put(("facts",), thread, {"n": 2})
            with pytest.raises(Conflict):
                await Store(db).put(("facts",), thread, {"n": 3}, expected_version=version)


async def test_what_is_written_at_any_node_is_read_at_every_other(node_urls: list[str]) -> None:
    """What a process remembers is old at each step, for another one wrote last."""
    random_numbers = random.Random(18)
    async with AsyncExitStack() as opened:
        nodes = [await opened.enter_async_context(Database(url)) for url in node_urls]
        states: dict[str, list[int]] = {}
        entries: dict[str, list[dict[str, object]]] = {}
        items: dict[str, int] = {}
        for step in range(150):
            writer, reader = random_numbers.sample(nodes, 2)
            thread = f"thread-{random_numbers.randrange(4)}"
            match random_numbers.choice(("save", "append", "put", "delete")):
                case "save":
                    states[thread] = [*states.get(thread, []), step]
                    await Checkpointer(writer).save({"n": states[thread]}, thread)
                case "append":
                    entries.setdefault(f"log of {thread}", []).append({"n": step})
                    await ThreadLog(writer).append(f"log of {thread}", [{"n": step}])
                case "put":
                    items[thread] = step
                    await Store(writer).put(("facts", thread), "last", step)
                case "delete":
                    await Store(writer).delete(("facts", thread), "last")
                    items.pop(thread, None)

            saved = await Checkpointer(reader).load(thread)
            assert saved == ({"n": states[thread]} if thread in states else None)
            found = (await ThreadLog(reader).read(f"log of {thread}")).entries
            assert [entry.value for entry in found] == entries.get(f"log of {thread}", [])
            item = await Store(reader).get(("facts", thread), "last")
            assert item == items.get(thread)
        assert (await verify(nodes[2])).ok

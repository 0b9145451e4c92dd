"""Many concurrent threads of a graph, and a graph's thread beside others of the same id."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from graph_walk import Reference, Walk, same
from langchain_core.messages import HumanMessage
from langgraph.types import Command
from sample_graphs import chat, harvest

from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.integrations.langgraph import MemalchemySaver

MANY = 64


def human(text: str, name: str) -> dict:
    return {"messages": [HumanMessage(text, id=name)]}


async def reap(walk: Walk) -> None:
    await walk.invoke({"fields": ["a", "?b", "c"]})
    await walk.invoke(Command(resume="rye"))


async def test_64_concurrent_threads_do_not_affect_each_other(db: Database):
    saver = MemalchemySaver(db)
    walks = [Walk(harvest, saver, prefix=f"{n}-") for n in range(MANY)]

    await asyncio.gather(*map(reap, walks))

    for n, walk in enumerate(walks):
        reference = Walk(harvest, Reference(), prefix=f"{n}-")
        await reap(reference)
        same(walk, reference)


async def test_64_system_threads_invoke_one_graph(db: Database):
    graph = chat(MemalchemySaver(db))

    def talk(number: int) -> list[str]:
        config = {"configurable": {"thread_id": f"thread {number}"}}
        for turn in range(3):
            done = graph.invoke(human(f"{number}.{turn}", f"h{turn}"), config)
        return [message.text for message in done["messages"]]

    with ThreadPoolExecutor(MANY) as pool:
        futures = [asyncio.wrap_future(pool.submit(talk, n)) for n in range(MANY)]
        found = await asyncio.gather(*futures)

    assert found == [
        [text for t in range(3) for text in (f"{n}.{t}", f"re: {n}.{t}")] for n in range(MANY)
    ]


async def test_concurrent_runs_on_one_thread_leave_only_states_that_load(db: Database):
    saver = MemalchemySaver(db)
    graph = chat(saver)
    config = {"configurable": {"thread_id": "one"}}
    await asyncio.gather(*(graph.ainvoke(human(f"{n}", f"h{n}"), config) for n in range(8)))

    found = [one async for one in saver.alist(config)]

    ids = {one.config["configurable"]["checkpoint_id"] for one in found}
    assert len(ids) == len(found) == 8 * 3
    parents = {
        one.parent_config["configurable"]["checkpoint_id"] for one in found if one.parent_config
    }
    assert parents <= ids
    for one in found:
        assert await saver.aget_tuple(one.config) == one


async def test_a_graphs_thread_and_a_native_one_of_the_same_id_are_separate(db: Database):
    saver, native, log = MemalchemySaver(db), Checkpointer(db), ThreadLog(db)
    graph = chat(saver)
    config = {"configurable": {"thread_id": "1"}}

    await graph.ainvoke(human("hello", "h"), config)
    await native.save({"messages": ["native"]}, "1", "first")
    await log.append("1", {"event": "native"})
    await graph.ainvoke(human("more", "h2"), config)
    await native.save({"messages": ["native", "more"]}, "1", "second")

    said = (await graph.aget_state(config)).values["messages"]
    assert [message.text for message in said] == ["hello", "re: hello", "more", "re: more"]
    assert await native.load("1") == {"messages": ["native", "more"]}
    assert set(await native.list_checkpoints("1")) == {"first", "second"}
    assert len([one async for one in saver.alist(config)]) == 6

    assert await native.delete("1", "first")
    assert len([one async for one in saver.alist(config)]) == 6

    await saver.adelete_thread("1")

    assert [one async for one in saver.alist(config)] == []
    assert await native.load("1") == {"messages": ["native", "more"]}
    assert [entry.value for entry in await log.tail("1")] == [{"event": "native"}]

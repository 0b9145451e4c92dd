"""Data of all frameworks under one id, in one database and process, stays separate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from llm_agents_from_scratch.data_structures import Episode, Task, TaskResult
from locus.core.messages import Message
from locus.core.state import AgentState

from memalchemy import Checkpointer, Conversation, Database, EpisodeStore, KeyValue, Store
from memalchemy.integrations import langgraph, lazybridge, locus, openai_agents
from memalchemy.integrations.lauren_ai import MemalchemyConversationStore
from memalchemy.integrations.llm_agents_from_scratch import MemalchemyMemoryStore
from memalchemy.memory.episodes import Episode as NativeEpisode

ID = "ada"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Kept(NamedTuple):
    """Functions that write a framework's own name under the id, read it, and delete it."""

    write: Callable[[str], Awaitable[Any]]
    read: Callable[[], Awaitable[Any]]
    delete: Callable[[], Awaitable[Any]]


async def _of(found: Awaitable[Any], look: Callable[[Any], Any]) -> Any:
    """Apply *look* to what was found; return ``None`` for nothing."""
    there = await found
    return look(there) if there else None


def _native(db: Database) -> dict[str, Kept]:
    agent, store, values = Checkpointer(db), Store(db), KeyValue(db)
    talk, tasks = Conversation(db, ID), EpisodeStore(db)
    return {
        "a checkpointer": Kept(
            lambda name: agent.save({"name": name}, ID, "1"),
            lambda: _of(agent.load(ID), lambda state: state["name"]),
            lambda: agent.delete(ID, all_namespaces=False),
        ),
        "a store": Kept(
            lambda name: store.put((ID,), ID, name),
            lambda: store.get((ID,), ID),
            lambda: store.delete((ID,), ID),
        ),
        "keys and values": Kept(
            lambda name: values.write(ID, name),
            lambda: values.read(ID),
            lambda: values.delete(ID),
        ),
        "a conversation": Kept(
            lambda name: talk.add({"role": "user", "content": name}),
            lambda: _of(talk.messages(), lambda messages: messages[0].text),
            talk.delete,
        ),
        "episodes": Kept(
            lambda name: tasks.write(
                NativeEpisode(id_=ID, task=name, result="", completed_at=NOON)
            ),
            lambda: _of(tasks.get(ID), lambda episode: episode.task),
            lambda: tasks.delete(ID),
        ),
    }


def _adapted(db: Database) -> dict[str, Kept]:
    saver, items = langgraph.MemalchemySaver(db), langgraph.MemalchemyStore(db)
    session = openai_agents.MemalchemySession(ID, db)
    states, memories = locus.MemalchemyCheckpointer(db), locus.MemalchemyStore(db)
    board, talks = lazybridge.MemalchemyStore(db), MemalchemyConversationStore(db)
    episodes = MemalchemyMemoryStore(db)
    config: Any = {"configurable": {"thread_id": ID, "checkpoint_ns": ""}}
    task = Task(id_=ID, instruction="")

    async def save(name: str) -> None:
        checkpoint = empty_checkpoint()
        version = saver.get_next_version(None, None)
        checkpoint["channel_values"] = {"name": name}
        checkpoint["channel_versions"] = {"name": version}
        await saver.aput(config, checkpoint, {}, {"name": version})

    return {
        "LangGraph's saver": Kept(
            save,
            lambda: _of(
                saver.aget_tuple(config), lambda found: found.checkpoint["channel_values"]["name"]
            ),
            lambda: saver.adelete_thread(ID),
        ),
        "LangGraph's store": Kept(
            lambda name: items.aput((ID,), ID, {"name": name}),
            lambda: _of(items.aget((ID,), ID), lambda item: item.value["name"]),
            lambda: items.adelete((ID,), ID),
        ),
        "a session of OpenAI's": Kept(
            lambda name: session.add_items([{"role": "user", "content": name}]),
            lambda: _of(session.get_items(), lambda found: found[0]["content"]),
            session.clear_session,
        ),
        "locus' checkpointer": Kept(
            lambda name: states.save(
                state=AgentState(messages=(Message.user(name),)), thread_id=ID, checkpoint_id="1"
            ),
            lambda: _of(states.load(thread_id=ID), lambda state: state.messages[0].content),
            lambda: states.delete(thread_id=ID),
        ),
        "locus' store": Kept(
            lambda name: memories.put((ID,), ID, name),
            lambda: memories.get((ID,), ID),
            lambda: memories.delete((ID,), ID),
        ),
        "LazyBridge's store": Kept(
            lambda name: asyncio.to_thread(board.write, ID, name),
            lambda: asyncio.to_thread(board.read, ID),
            lambda: asyncio.to_thread(board.delete, ID),
        ),
        "lauren-ai's conversations": Kept(
            lambda name: talks.save(ID, [{"role": "user", "content": name}]),
            lambda: _of(talks.load(ID), lambda found: found["messages"][0]["content"]),
            lambda: talks.delete(ID),
        ),
        "llm-agents' memories": Kept(
            lambda name: episodes.write(
                Episode(
                    id_=ID,
                    task=task,
                    rollout=name,
                    result=TaskResult(task_id=ID, content=""),
                    completed_at=NOON,
                )
            ),
            lambda: _of(episodes.get(ID), lambda episode: episode.rollout),
            lambda: episodes.delete(ID),
        ),
    }


@pytest.mark.parametrize("backwards", [False, True])
async def test_each_framework_keeps_its_data_until_it_deletes_it_itself(
    db: Database, backwards: bool
) -> None:
    keepers = _native(db) | _adapted(db)
    for name, kept in keepers.items():
        await kept.write(name)

    order = list(keepers)[::-1] if backwards else list(keepers)
    for deleted, name in enumerate(order, start=1):
        await keepers[name].delete()
        found = {one: await keepers[one].read() for one in order}
        assert found == {one: one if at >= deleted else None for at, one in enumerate(order)}

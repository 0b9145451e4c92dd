"""Every public method that writes content, as a call on a `Database`, and on a host's connection.

`test_writes_without_permission` holds this against the public API: a new method is here, or is
named as one that writes none.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import memalchemy
from embedders import embed
from memalchemy import Database, Episode, EpisodicMemory, MemoryFact
from memalchemy.importers.openai_chat import import_threads
from memalchemy.memory import Memory
from memalchemy.store.jsonl import import_items

SECRET = "zebramarker"
"""Stands in all that is written, and in nothing else."""

ENTRY = f"{SECRET} again"
STATE = {"messages": [{"role": "user", "content": SECRET}]}
SPACE = ("users", "ada")
EPISODES = {"there": str(uuid.UUID(int=1)), "new": str(uuid.UUID(int=2))}
ADDED = {"role": "user", "content": SECRET}
CALL = {"role": "assistant", "content": SECRET, "tool_calls": [{"id": "c", "name": "look"}]}
RESULT = {"role": "tool", "content": SECRET, "tool_call_id": "c"}
LINE = b'{"namespace": ["users", "ada"], "key": "line", "value": "%b"}' % SECRET.encode()
THREAD = '{"thread_id": "%s", "messages": [{"role": "user", "content": "%s"}]}'

On = Mapping[str, Any]
"""``connection=`` of the call, or nothing."""


@dataclass(frozen=True)
class Write:
    """One call that writes `SECRET`."""

    name: str
    call: Callable[[Database, On], Awaitable[Any]]
    takes_connection: bool = True
    tells: bool = True
    """Whether it raises what stops it. What an agent's runtime calls only logs it, and a job names
    what it has left.
    """


async def fill(db: Database) -> None:
    """What some of the calls change."""
    agent, log = memalchemy.Checkpointer(db), memalchemy.ThreadLog(db)
    for number in range(3):
        await agent.save(STATE | {"n": number}, "saved", f"c{number}")
    await log.append("begun", ["first", "second"])
    store = memalchemy.Store(db)
    await store.put(SPACE, "there", SECRET)
    await memalchemy.EpisodeStore(db).write(_episode("there"))
    await memalchemy.UserMemoryStore(db).add(_fact("there"))
    await memalchemy.KeyValue(db).write("there", 1)
    talk = memalchemy.Conversation(db, "talk")
    await talk.add(ADDED, {"role": "assistant", "content": "said"})
    await memalchemy.Conversation(db, "open").begin_tool_exchange(CALL)


def _episode(id_: str) -> Episode:
    return Episode(id_=EPISODES[id_], task=SECRET, outcome=SECRET)


def _fact(id_: str) -> MemoryFact:
    return MemoryFact(id_, "ada", SECRET)


async def _of_lines(found: Any) -> None:
    async for _ in found:
        pass


async def _remember(db: Database, on: On) -> None:
    context = memalchemy.StoreContext(memalchemy.Store(db), user_id="ada")
    await context.remember("new", SECRET, **on)


async def _remember_with_embedding(db: Database, on: On) -> None:
    context = memalchemy.StoreContext(memalchemy.Store(db), user_id="ada")
    await context.remember_with_embedding("new", SECRET, [1.0, 2.0], **on)


async def _set_global(db: Database, on: On) -> None:
    await memalchemy.StoreContext(memalchemy.Store(db)).set_global("new", SECRET, **on)


async def _change(db: Database, on: On) -> None:
    await memalchemy.Store(db).change(SPACE, "new", lambda item: SECRET, **on)


async def _scoped_change(db: Database, on: On) -> None:
    scoped = memalchemy.NamespacedStore(memalchemy.Store(db), SPACE)
    await scoped.change("new", lambda item: SECRET, **on)


async def _embed(db: Database, on: On) -> None:
    await memalchemy.Store(db).put_embedding(SPACE, "there", [1.0, 2.0], **on)


async def _reembed(db: Database, on: On) -> None:
    await memalchemy.Store(db, embedder=embed).reembed(SPACE, again=True)


async def _session_end(db: Database, on: On) -> None:
    manager = memalchemy.LLMMemoryManager(db, extract_fn=lambda messages: [_memory()])
    await manager.on_session_end([ADDED], **on)


def _memory() -> Memory:
    return Memory("user", "new", SECRET)  # type: ignore[arg-type]


def _learn(db: Database, on: On) -> Awaitable[Any]:
    facts = memalchemy.UserMemoryStore(db)
    return facts.learn("ada", [ADDED], extract=lambda messages: [SECRET], **on)


def _talk(db: Database, thread: str = "talk") -> memalchemy.Conversation:
    return memalchemy.Conversation(db, thread)


def _retained(db: Database) -> memalchemy.RetainedCheckpointer:
    return memalchemy.RetainedCheckpointer(db, keep_messages=2)


def _ns(db: Database) -> memalchemy.NamespacedStore:
    return memalchemy.NamespacedStore(memalchemy.Store(db), SPACE)


_C: Any = lambda db: memalchemy.Checkpointer(db)  # noqa: E731
_L: Any = lambda db: memalchemy.ThreadLog(db)  # noqa: E731
_S: Any = lambda db: memalchemy.Store(db)  # noqa: E731
_TOLD = [("messages", SECRET)]
_VECTOR = [1.0, 2.0]

WRITES = [
    Write("Checkpointer.save", lambda db, on: _C(db).save(STATE, "new", **on)),
    Write("Checkpointer.save of a delta", lambda db, on: _C(db).save(STATE, "saved", **on)),
    Write(
        "Checkpointer.save of a branch",
        lambda db, on: _C(db).save(STATE, "saved", parent_id="c1", **on),
    ),
    Write(
        "Checkpointer.save after the newest",
        lambda db, on: _C(db).save(STATE, "saved", expected_parent="c2", **on),
    ),
    Write(
        "Checkpointer.change",
        lambda db, on: _C(db).change("saved", lambda state: STATE, **on),
    ),
    Write(
        "Checkpointer.change of nothing",
        lambda db, on: _C(db).change("new", lambda state: STATE, **on),
    ),
    Write(
        "Checkpointer.save with retention",
        lambda db, on: memalchemy.Checkpointer(
            db, retention=memalchemy.Retention(keep_last=1)
        ).save(STATE, "saved", **on),
    ),
    Write(
        "Checkpointer.put_writes",
        lambda db, on: _C(db).put_writes(_TOLD, "saved", "c2", "task", **on),
    ),
    Write(
        "Checkpointer.put_writes again",
        lambda db, on: _C(db).put_writes(_TOLD, "new", "c", "task", overwrite=True, **on),
    ),
    Write(
        "Checkpointer.set_thread_metadata",
        lambda db, on: _C(db).set_thread_metadata("saved", {"title": SECRET}, **on),
    ),
    Write("Checkpointer.rewrite", lambda db, on: _C(db).rewrite("saved", **on)),
    Write(
        "RetainedCheckpointer.set_thread_metadata",
        lambda db, on: _retained(db).set_thread_metadata("saved", {"title": SECRET}, **on),
    ),
    Write(
        "RetainedCheckpointer.change",
        lambda db, on: _retained(db).change("saved", lambda state: STATE, **on),
    ),
    Write("RetainedCheckpointer.save", lambda db, on: _retained(db).save(STATE, "new", **on)),
    Write(
        "RetainedCheckpointer.put_writes",
        lambda db, on: _retained(db).put_writes(_TOLD, "saved", "c2", "task", **on),
    ),
    Write("RetainedCheckpointer.rewrite", lambda db, on: _retained(db).rewrite("saved", **on)),
    Write("ThreadLog.append", lambda db, on: _L(db).append("new", [ENTRY], **on)),
    Write("ThreadLog.append by key", lambda db, on: _L(db).append("new", [ENTRY], keys="k", **on)),
    Write("ThreadLog.edit", lambda db, on: _L(db).edit("begun", 1, ENTRY, **on)),
    Write(
        "ThreadLog.replace_suffix", lambda db, on: _L(db).replace_suffix("begun", 1, [ENTRY], **on)
    ),
    Write("Store.put", lambda db, on: _S(db).put(SPACE, "new", SECRET, **on)),
    Write("Store.put over one", lambda db, on: _S(db).put(SPACE, "there", SECRET, **on)),
    Write("Store.put_batch", lambda db, on: _S(db).put_batch([(SPACE, "new", SECRET)], **on)),
    Write(
        "Store.put_with_embedding",
        lambda db, on: _S(db).put_with_embedding(SPACE, "new", SECRET, _VECTOR, **on),
    ),
    Write("Store.put_embedding", _embed),
    Write("Store.reembed", _reembed, takes_connection=False, tells=False),
    Write("Store.change", _change),
    Write("NamespacedStore.put", lambda db, on: _ns(db).put("new", SECRET, **on)),
    Write("NamespacedStore.change", _scoped_change),
    Write("StoreContext.remember", _remember),
    Write("StoreContext.remember_with_embedding", _remember_with_embedding),
    Write("StoreContext.set_global", _set_global),
    Write("Conversation.add", lambda db, on: _talk(db).add(ADDED, **on)),
    Write("Conversation.amend_last", lambda db, on: _talk(db).amend_last(SECRET, **on)),
    Write("Conversation.restore", lambda db, on: _talk(db, "new").restore([ADDED], **on)),
    Write("Conversation.set_summary", lambda db, on: _talk(db).set_summary(SECRET, **on)),
    Write(
        "Conversation.begin_tool_exchange",
        lambda db, on: _talk(db).begin_tool_exchange(CALL, **on),
    ),
    Write(
        "Conversation.add_tool_results",
        lambda db, on: _talk(db, "open").add_tool_results(RESULT, **on),
    ),
    Write(
        "Conversation.commit_tool_exchange",
        lambda db, on: _talk(db, "open").commit_tool_exchange(RESULT, **on),
    ),
    Write(
        "ConversationStore.save",
        lambda db, on: memalchemy.ConversationStore(db).save("new", [ADDED], **on),
    ),
    Write(
        "EpisodeStore.write",
        lambda db, on: memalchemy.EpisodeStore(db).write(_episode("new"), **on),
    ),
    Write(
        "EpisodeStore.update",
        lambda db, on: memalchemy.EpisodeStore(db).update(_episode("there"), **on),
    ),
    Write(
        "EpisodicMemory.record",
        lambda db, on: EpisodicMemory(memalchemy.EpisodeStore(db)).record(_episode("new")),
        takes_connection=False,
    ),
    Write(
        "EpisodicMemory.update",
        lambda db, on: EpisodicMemory(memalchemy.EpisodeStore(db)).update(_episode("there")),
        takes_connection=False,
    ),
    Write("KeyValue.write", lambda db, on: memalchemy.KeyValue(db).write("new", SECRET, **on)),
    Write(
        "KeyValue.compare_and_swap",
        lambda db, on: memalchemy.KeyValue(db).compare_and_swap(
            str(uuid.uuid4()), None, SECRET, **on
        ),
    ),
    Write(
        "KeyValue.write_memory",
        lambda db, on: memalchemy.KeyValue(db).write_memory("agent", turns=[SECRET], **on),
    ),
    Write(
        "LLMMemoryManager.save",
        lambda db, on: memalchemy.LLMMemoryManager(db).save([_memory()], **on),
    ),
    Write("LLMMemoryManager.on_session_end", _session_end, tells=False),
    Write(
        "UserMemoryStore.add", lambda db, on: memalchemy.UserMemoryStore(db).add(_fact("new"), **on)
    ),
    Write("UserMemoryStore.learn", _learn),
    Write(
        "UserMemoryStore.reinforce",
        lambda db, on: memalchemy.UserMemoryStore(db).reinforce("ada", "there", **on),
    ),
    Write(
        "UserMemoryStore.update",
        lambda db, on: memalchemy.UserMemoryStore(db).update("ada", "there", content=SECRET, **on),
    ),
    Write("ToolOutputs.keep", lambda db, on: memalchemy.ToolOutputs(db).keep("new", SECRET, **on)),
    Write(
        "VectorStore.upsert",
        lambda db, on: memalchemy.VectorStore(db).upsert(SECRET, embedding=_VECTOR, **on),
    ),
    Write(
        "import_items",
        lambda db, on: _of_lines(import_items(_S(db), [LINE])),
        takes_connection=False,
    ),
    Write(
        "import_threads",
        lambda db, on: _of_lines(import_threads(_C(db), [THREAD % (uuid.uuid4(), SECRET)])),
        takes_connection=False,
    ),
]

CLASSES = (
    *("Checkpointer", "RetainedCheckpointer", "ThreadLog", "Store", "NamespacedStore"),
    *("StoreContext", "Conversation", "ConversationStore", "EpisodeStore", "EpisodicMemory"),
    *("KeyValue", "LLMMemoryManager", "UserMemoryStore", "ToolOutputs", "VectorStore"),
)

CONTENTLESS = {
    # Reads.
    *("count", "count_threads", "diff", "exists", "export_files", "find", "find_runs", "get"),
    *("get_batch", "get_embedding", "get_embeddings", "get_global", "get_item", "get_items"),
    *("get_metadata", "get_writes_batch"),
    *("get_storage_stats", "get_user_memory", "get_writes", "history", "items", "keys"),
    *("last_written", "list", "list_checkpoints", "list_items", "list_keys", "list_logs"),
    *("list_conversations", "search_data"),
    *(
        "list_namespaces",
        "hold",
        "read_columns",
        "read_columns_beside",
        "read_threads",
        "list_threads",
        "list_with_metadata",
        "load",
        "load_snapshot",
    ),
    *("messages", "namespaces", "oldest", "query_by_metadata", "range", "read", "read_all"),
    *("read_entry", "read_memory", "recall", "retrieve", "retrieve_relevant", "scan", "search"),
    *("search_by_embedding", "search_entries", "search_threads", "snapshot", "summary", "tail"),
    *("list_older", "recent", "search_many", "search_memories", "search_memories_semantic"),
    *("text", "to_text", "version", "active_tool_exchange", "list_user_memory", "explain"),
    # Removals, and copies of rows inside the database.
    *("abort_tool_exchange", "clear", "clear_namespace", "copy_thread", "delete"),
    "forget_namespace",
    *("delete_batch", "delete_checkpoints", "delete_matching", "delete_memory", "forget", "fork"),
    *("pop", "prune", "purge_messages", "remove", "sweep", "vacuum"),
    # Lifetimes; nothing at all; an extractor of the caller's.
    *("refresh", "close", "drain", "extract", "on_session_start"),
    # What it calls writes, with methods that are among them.
    "change_matching",
}


def names() -> set[tuple[str, str]]:
    """(class, method) of `WRITES`."""
    split = (one.name.split()[0].partition(".") for one in WRITES)
    return {(class_, method) for class_, dot, method in split if dot}

"""Calls of every public method that reads, on a database that `fill` has filled."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel

import memalchemy
from memalchemy import (
    Checkpointer,
    Conversation,
    ConversationStore,
    Database,
    Episode,
    EpisodeStore,
    EpisodicMemory,
    KeyValue,
    LLMMemoryManager,
    Memory,
    MemoryFact,
    MemoryType,
    NamespacedStore,
    Store,
    StoreContext,
    ThreadLog,
    ToolOutputs,
    UserMemoryStore,
    VectorStore,
)
from memalchemy._cursors import encode_cursor
from memalchemy.errors import Corrupt, InvalidArgument, MemalchemyError
from memalchemy.inspection import Inspector

THREADS = ("t", "u", "deleted", "missing")
USERS = ("users",)
KEYS = ("ada", "bob", "eve", "missing")
LATER = datetime(2200, 1, 1, tzinfo=UTC)
A_DAY = timedelta(days=1)
BEFORE = datetime.now(UTC) - A_DAY
"""A day before anything is stored."""
LONG = 1_000_000
"""A lifetime in seconds that does not end while a test runs."""


async def fill(db: Database) -> None:
    """Store something of each kind, of which no job of the operator has anything to remove."""
    checkpointer, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    for step in range(4):
        words = f"sentence number {step} about lighthouses"
        state = {"step": step, "words": words, "messages": [{"role": "user", "content": words}]}
        await checkpointer.save(state, "t", f"c{step}", {"step": step}, run_id="run")
    await checkpointer.put_writes([("channel", "answer")], "t", "c3", "task")
    await checkpointer.put_writes([("channel", "early")], "t", "not-yet", "task")
    await checkpointer.save({"n": 1}, "u", "c1", ttl=LONG)
    below = Checkpointer(db, namespace=("graph",))
    await below.save({"n": 1}, "t", "c1")
    await Checkpointer(db, namespace=("graph", "sub")).save({"n": 2}, "t", "c1")
    await checkpointer.save({"n": 0}, "deleted", "c1")
    await checkpointer.delete("deleted")
    await log.append("l", ["one", {"two": 2}, "three lighthouses"], keys=["a", "b", "c"])
    await log.append("m", ["alone"], keys="a", ttl=LONG)
    for key in ("ada", "bob"):
        value = {"likes": "tea", "key": key}
        await store.put(USERS, key, value, {"n": 1}, ttl=LONG, embedding=[1.0, 0.5])
    await store.put(USERS, "eve", "no ttl")


async def fill_memories(db: Database) -> None:
    """Store something by each class that rests on the store or on logs."""
    store = Store(db)
    conversation = Conversation(db, "talk")
    await conversation.add({"role": "user", "content": "Hello"})
    await conversation.add({"role": "assistant", "content": "Good day"})
    await KeyValue(db).write("color", "blue", ttl=LONG)
    await KeyValue(db).write("shape", "round")
    await KeyValue(db).write_memory("agent", turns=[{"role": "user", "content": "Hi"}])
    await VectorStore(db).upsert("a lamp", id="lamp", embedding=[0.0, 1.0], ttl=LONG)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for name in ("first", "second"):
        moment += timedelta(days=1)
        task = f"{name} task about lighthouses"
        await EpisodeStore(db).write(Episode(id_=name, task=task, completed_at=moment))
    # Of a fact that was last seen in the past, the inspector shows how much it has faded by now.
    fact = MemoryFact(
        "f1", "ada", "Ada likes tea", ("drinks",), created_at=moment, last_seen_at=LATER
    )
    await UserMemoryStore(db).add(fact)
    await LLMMemoryManager(db).save([Memory(MemoryType.USER, "tea", "Ada likes tea")])
    await ToolOutputs(db).keep("out", {"long": "output"})
    await StoreContext(store, "ada", "s").remember("likes", {"drink": "tea"})
    await StoreContext(store).set_global("limit", 3)


class World:
    """Objects of every public class, on one database, as a process has them that begins anew."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.checkpointer = Checkpointer(db)
        self.log = ThreadLog(db)
        self.store = Store(db)
        self.view = NamespacedStore(self.store, USERS)
        self.context = StoreContext(self.store, "ada", "s")
        self.keys = KeyValue(db)
        self.vectors = VectorStore(db)
        self.episodes = EpisodeStore(db)
        self.facts = UserMemoryStore(db, half_life=None)
        self.manager = LLMMemoryManager(db)
        self.outputs = ToolOutputs(db)
        self.conversation = Conversation(db, "talk")
        self.conversations = ConversationStore(db)
        self.inspector = Inspector(db)


Read = Callable[[World], "Awaitable[Any] | AsyncIterator[Any] | Iterable[Any]"]


def _of_threads(name: str) -> Read:
    return lambda w: [getattr(w.checkpointer, name)(thread) for thread in THREADS]


def _of_checkpoints(name: str) -> Read:
    """Return a read of the newest checkpoint of each thread, of an older one, and of none."""
    return lambda w: [
        *(getattr(w.checkpointer, name)(thread) for thread in THREADS),
        *(getattr(w.checkpointer, name)("t", one) for one in ("c1", "missing")),
    ]


def _of_logs(name: str, *given: Any, **named: Any) -> Read:
    threads = ("l", "m", "missing")
    return lambda w: [getattr(w.log, name)(thread, *given, **named) for thread in threads]


def _of_keys(name: str) -> Read:
    return lambda w: [getattr(w.store, name)(USERS, key) for key in KEYS]


def _of_listed_keys(name: str) -> Read:
    return lambda w: getattr(w.store, name)([(USERS, key) for key in KEYS])


def _of_view(name: str) -> Read:
    return lambda w: [getattr(w.view, name)(key) for key in KEYS]


_VECTOR = [1.0, 0.5]


async def _listed_snapshots(checkpointer: Checkpointer) -> AsyncIterator[Any]:
    infos = [info for thread in ("t", "u") async for info in checkpointer.history(thread)]
    async for found in checkpointer.snapshots_of(infos):
        yield found


READS: dict[str, Read] = {
    "Checkpointer.count_threads": lambda w: w.checkpointer.count_threads(),
    "Checkpointer.diff": lambda w: w.checkpointer.diff("t", "c1", "c3"),
    "Checkpointer.exists": _of_checkpoints("exists"),
    "Checkpointer.export": lambda w: w.checkpointer.export(tenant=w.db.tenant),
    "Checkpointer.find_runs": lambda w: w.checkpointer.find_runs(["run"]),
    "Checkpointer.get_metadata": _of_checkpoints("get_metadata"),
    "Checkpointer.get_storage_stats": _of_threads("get_storage_stats"),
    "Checkpointer.get_writes": lambda w: [
        w.checkpointer.get_writes("t", one) for one in ("c3", "c2", "not-yet")
    ],
    "Checkpointer.get_writes_batch": lambda w: w.checkpointer.get_writes_batch(
        "t", ["c3", "c2", "not-yet"]
    ),
    "Checkpointer.history": lambda w: [w.checkpointer.history(thread) for thread in THREADS],
    "Checkpointer.history(before=)": lambda w: w.checkpointer.history("t", before="c3"),
    "Checkpointer.history(limit=)": lambda w: w.checkpointer.history("t", limit=2),
    "Checkpointer.history(order='id')": lambda w: w.checkpointer.history(
        None, order="id", below=True
    ),
    "Checkpointer.list_checkpoints": lambda w: [
        w.checkpointer.list_checkpoints(thread) for thread in THREADS
    ],
    "Checkpointer.list_checkpoints(limit=)": lambda w: w.checkpointer.list_checkpoints("t", 2),
    "Checkpointer.list_logs": lambda w: [
        w.checkpointer.list_logs(below=True),
        w.checkpointer.list_logs("t", below=True),
        w.checkpointer.list_logs("u"),
    ],
    "Checkpointer.list_threads": lambda w: [
        w.checkpointer.list_threads(),
        w.checkpointer.list_threads(1),
        w.checkpointer.list_threads(pattern="t*"),
    ],
    "Checkpointer.list_with_metadata": lambda w: w.checkpointer.list_with_metadata(),
    "Checkpointer.list_with_metadata(limit=)": lambda w: w.checkpointer.list_with_metadata(2),
    "Checkpointer.load": _of_checkpoints("load"),
    "Checkpointer.namespaces": _of_threads("namespaces"),
    "Checkpointer.query_by_metadata": lambda w: [
        w.checkpointer.query_by_metadata("step", 2),
        w.checkpointer.query_by_metadata("step", 2, data=True),
    ],
    "Checkpointer.search": lambda w: [
        w.checkpointer.search("lighthouses"),
        w.checkpointer.search("number 2", data=True),
    ],
    "Checkpointer.search_data": lambda w: w.checkpointer.search_data("n", 1),
    "Checkpointer.snapshot": _of_checkpoints("snapshot"),
    "Checkpointer.snapshots": lambda w: w.checkpointer.snapshots("t", ["c1", "c3"]),
    "Checkpointer.snapshots_of": lambda w: _listed_snapshots(w.checkpointer),
    "ThreadLog.count": _of_logs("count"),
    "ThreadLog.count_threads": lambda w: w.log.count_threads(),
    "ThreadLog.find": lambda w: w.log.find("a"),
    "ThreadLog.find(thread_id=)": lambda w: w.log.find("a", thread_id="l"),
    "ThreadLog.iter_entries": lambda w: [
        w.log.iter_entries(thread, page_size=2, newest_first=backwards)
        for thread in ("l", "m", "missing")
        for backwards in (False, True)
    ],
    "ThreadLog.last_written": lambda w: w.log.last_written(["l", "m", "missing"]),
    "ThreadLog.list_older": lambda w: w.log.list_older(LATER),
    "ThreadLog.list_older(cutoff)": lambda w: w.log.list_older(BEFORE),
    "ThreadLog.list_threads": lambda w: w.log.list_threads(),
    "ThreadLog.range": lambda w: [
        *(w.log.range(thread) for thread in ("l", "m", "missing")),
        w.log.range("l", after=1),
        w.log.range("l", until=LATER),
    ],
    "ThreadLog.range(since=)": lambda w: w.log.range("l", since=BEFORE, until=BEFORE + 2 * A_DAY),
    "ThreadLog.read": _of_logs("read"),
    "ThreadLog.read_columns": _of_logs("read_columns", lambda *found: found, None, None),
    "ThreadLog.read_columns_beside": lambda w: [
        w.log.read_columns_beside(
            ThreadLog(w.db, namespace=("other",)), thread, lambda *found: found, None, None
        )
        for thread in ("l", "m", "missing")
    ],
    "ThreadLog.read_threads": lambda w: [
        w.log.read_threads(["l", "m", "missing"], newest=newest) for newest in (False, True)
    ],
    "ThreadLog.scan": _of_logs("scan", lambda *found: found),
    "ThreadLog.search": lambda w: [
        w.log.search("lighthouses"),
        w.log.search("lighthouses", thread_id="l"),
    ],
    "ThreadLog.tail": lambda w: [
        *(w.log.tail(thread) for thread in ("l", "m", "missing")),
        w.log.tail("l", 1),
        w.log.tail("l", 2, before=3),
    ],
    "ThreadLog.version": _of_logs("version"),
    "Store.count": lambda w: [w.store.count(USERS), w.store.count((), prefix=True)],
    "Store.exists": _of_keys("exists"),
    "Store.get": _of_keys("get"),
    "Store.get_batch": _of_listed_keys("get_batch"),
    "Store.get_embedding": _of_keys("get_embedding"),
    "Store.get_embeddings": _of_listed_keys("get_embeddings"),
    "Store.get_item": _of_keys("get_item"),
    "Store.get_items": _of_listed_keys("get_items"),
    "Store.iter_items": lambda w: [
        w.store.iter_items(USERS, page_size=2),
        w.store.iter_items((), prefix=True, order="key", page_size=2),
    ],
    "Store.iter_keys": lambda w: w.store.iter_keys(USERS, page_size=1),
    "Store.list_items": lambda w: [
        w.store.list_items(USERS),
        w.store.list_items(USERS, limit=1),
        w.store.list_items((), prefix=True, order="key"),
    ],
    "Store.list_items(filter=)": lambda w: w.store.list_items(USERS, filter={"likes": "tea"}),
    "Store.list_keys": lambda w: [w.store.list_keys(USERS), w.store.list_keys(USERS, 1)],
    "Store.list_namespaces": lambda w: w.store.list_namespaces(),
    "Store.search": lambda w: [
        w.store.search(USERS, "tea"),
        w.store.search(USERS, "tea", mode="hybrid", embedding=_VECTOR),
    ],
    "Store.search(embedding=)": lambda w: w.store.search(USERS, embedding=_VECTOR),
    "Store.search(filter=)": lambda w: w.store.search(USERS, filter={"likes": "tea"}),
    "Store.search_by_embedding": lambda w: w.store.search_by_embedding(USERS, _VECTOR),
    "Store.search_many": lambda w: w.store.search_many([USERS, ("facts",)], "tea"),
    "NamespacedStore.count": lambda w: w.view.count(),
    "NamespacedStore.exists": _of_view("exists"),
    "NamespacedStore.get": _of_view("get"),
    "NamespacedStore.get_embedding": _of_view("get_embedding"),
    "NamespacedStore.get_item": _of_view("get_item"),
    "NamespacedStore.list_items": lambda w: w.view.list_items(),
    "NamespacedStore.list_keys": lambda w: w.view.list_keys(),
    "NamespacedStore.search": lambda w: w.view.search("tea"),
    "NamespacedStore.search_by_embedding": lambda w: w.view.search_by_embedding(_VECTOR),
    "StoreContext.get_global": lambda w: w.context.get_global("limit"),
    "StoreContext.get_user_memory": lambda w: w.context.get_user_memory("likes"),
    "StoreContext.search_memories": lambda w: w.context.search_memories("tea"),
    "StoreContext.search_memories_semantic": lambda w: w.context.search_memories_semantic(_VECTOR),
    "KeyValue.count": lambda w: w.keys.count(),
    "KeyValue.exists": lambda w: [w.keys.exists(key) for key in ("color", "shape", "missing")],
    "KeyValue.items": lambda w: w.keys.items(),
    "KeyValue.keys": lambda w: w.keys.keys(),
    "KeyValue.read": lambda w: [w.keys.read(key) for key in ("color", "shape", "missing")],
    "KeyValue.read_all": lambda w: w.keys.read_all(),
    "KeyValue.read_entry": lambda w: [w.keys.read_entry(key) for key in ("color", "shape")],
    "KeyValue.read_memory": lambda w: w.keys.read_memory("agent"),
    "KeyValue.to_text": lambda w: [w.keys.to_text(), w.keys.to_text(["color"])],
    "VectorStore.count": lambda w: w.vectors.count(),
    "VectorStore.get": lambda w: w.vectors.get("lamp"),
    "VectorStore.search": lambda w: [
        w.vectors.search("lamp"),
        w.vectors.search(embedding=[0.0, 1.0]),
    ],
    "EpisodeStore.count": lambda w: w.episodes.count(),
    "EpisodeStore.get": lambda w: w.episodes.get("first"),
    "EpisodeStore.oldest": lambda w: w.episodes.oldest(),
    "EpisodeStore.recall": lambda w: w.episodes.recall("lighthouses"),
    "EpisodeStore.recent": lambda w: w.episodes.recent(),
    "EpisodeStore.summary": lambda w: w.episodes.summary(),
    "EpisodicMemory.recall": lambda w: EpisodicMemory(w.episodes).recall("lighthouses"),
    "EpisodicMemory.summary": lambda w: EpisodicMemory(w.episodes).summary(),
    "UserMemoryStore.count": lambda w: w.facts.count("ada"),
    "UserMemoryStore.get": lambda w: w.facts.get("ada", "f1"),
    "UserMemoryStore.list": lambda w: w.facts.list("ada"),
    "UserMemoryStore.recall": lambda w: w.facts.recall("ada", [_SAID]),
    "UserMemoryStore.search": lambda w: w.facts.search("ada", "tea"),
    "LLMMemoryManager.on_session_start": lambda w: w.manager.on_session_start(
        {"messages": [_SAID]}
    ),
    "LLMMemoryManager.retrieve": lambda w: w.manager.retrieve(),
    "LLMMemoryManager.retrieve_relevant": lambda w: w.manager.retrieve_relevant("tea"),
    "ToolOutputs.recall": lambda w: w.outputs.recall("out"),
    "Conversation.active_tool_exchange": lambda w: w.conversation.active_tool_exchange(),
    "Conversation.count": lambda w: w.conversation.count(),
    "Conversation.history": lambda w: [
        w.conversation.history(),
        w.conversation.history(after=0, limit=1),
    ],
    "Conversation.messages": lambda w: w.conversation.messages(),
    "Conversation.search": lambda w: [
        w.conversation.search("lighthouses"),
        w.conversation.search("lighthouses", all_conversations=True),
    ],
    "Conversation.snapshot": lambda w: w.conversation.snapshot(),
    "Conversation.text": lambda w: w.conversation.text(),
    "ConversationView.refresh": lambda w: w.conversation.view().refresh(),
    "ConversationStore.count": lambda w: w.conversations.count(),
    "ConversationStore.list": lambda w: w.conversations.list(),
    "ConversationStore.list_conversations": lambda w: w.conversations.list_conversations(),
    "ConversationStore.search": lambda w: w.conversations.search("lighthouses"),
    "ConversationStore.load": lambda w: w.conversations.load("talk"),
    "ConversationStore.load_snapshot": lambda w: w.conversations.load_snapshot("talk"),
    "Inspector.added_messages": lambda w: w.inspector.added_messages("t", at="c2"),
    "Inspector.changes": lambda w: _changes(w.inspector),
    "Inspector.diff": lambda w: w.inspector.diff("t", a="c1", b="c2"),
    "Inspector.entries": lambda w: [w.inspector.entries("l", ("log",))],
    "Inspector.entry": lambda w: w.inspector.entry("l", ("log",), position=2),
    "Inspector.interrupts": lambda w: w.inspector.interrupts("t"),
    "Inspector.item": lambda w: [w.inspector.item(USERS, key) for key in ("ada", "eve")],
    "Inspector.items": lambda w: [w.inspector.items(USERS), w.inspector.items((), "tea")],
    "Inspector.memories": lambda w: [
        w.inspector.memories(kind) for kind in ("facts", "episodes", "conversations", "long-term")
    ],
    "Inspector.namespaces": lambda w: w.inspector.namespaces(),
    "Inspector.neighbours": lambda w: w.inspector.neighbours(USERS, "ada"),
    "Inspector.overview": lambda w: _overview(w.inspector),
    "Inspector.search": lambda w: _search(w.inspector),
    "Inspector.space": lambda w: _space(Inspector(w.db)),
    "Inspector.state": lambda w: [w.inspector.state("t"), w.inspector.state("t", at="c1")],
    "Inspector.text": lambda w: w.inspector.text("t", index=0),
    "Inspector.origins": lambda w: [
        _refusing(w.inspector.origins("t")),
        _refusing(w.inspector.origins("t", at="c1")),
    ],
    "Inspector.person": lambda w: _refusing(w.inspector.person("ada")),
    "Inspector.scope": lambda w: [
        _refusing(w.inspector.scope(USERS)),
        _refusing(w.inspector.scope(agent="ada")),
        _refusing(w.inspector.scope(metadata={"user_id": "ada"})),
    ],
    "Inspector.use": lambda w: _refusing(w.inspector.use()),
    "Inspector.thread": lambda w: [
        _refusing(w.inspector.thread("t")),
        _refusing(w.inspector.thread("u")),
        _refusing(w.inspector.thread("l", ("log",))),
    ],
    "Inspector.threads": lambda w: [
        _refusing(w.inspector.threads()),
        _refusing(w.inspector.threads("t")),
        _refusing(w.inspector.threads(about="a", sort="happened")),
    ],
    "Inspector.timeline": lambda w: _refusing(w.inspector.timeline("t")),
    "Inspector.transcript": lambda w: [
        w.inspector.transcript("t"),
        w.inspector.transcript("l", ("log",)),
    ],
    "Inspector.writes": lambda w: [w.inspector.writes("t"), w.inspector.writes("t", at="c2")],
}
"""A call, or several, of each public method that returns what is stored."""

_SAID = {"role": "user", "content": "What about tea?"}

NOT_READS = {
    *("Checkpointer." + name for name in (
        "change", "close", "copy_thread", "delete", "delete_checkpoints", "export_files", "forget",
        "fork", "prune", "put_writes", "rewrite", "save", "set_thread_metadata", "vacuum",
    )),
    *("ThreadLog." + name for name in (
        "append", "clear", "delete", "edit", "fork", "hold", "pop", "remove", "replace_suffix",
    )),
    *("Store." + name for name in (
        "change", "change_matching", "clear_namespace", "close", "delete", "delete_batch",
        "delete_matching", "forget_namespace", "hold", "put", "put_batch", "put_embedding",
        "put_with_embedding", "reembed", "refresh", "sweep",
    )),
    *("NamespacedStore." + name for name in ("change", "clear", "delete", "put")),
    *("StoreContext." + name for name in (
        "forget", "remember", "remember_with_embedding", "set_global",
    )),
    *("KeyValue." + name for name in (
        "clear", "close", "compare_and_swap", "delete", "delete_memory", "write", "write_memory",
    )),
    *("VectorStore." + name for name in ("clear", "delete", "upsert")),
    *("EpisodeStore." + name for name in ("delete", "update", "write")),
    *("EpisodicMemory." + name for name in ("delete", "record", "update")),
    *("UserMemoryStore." + name for name in (
        "add", "clear", "delete", "learn", "reinforce", "update",
    )),
    *("LLMMemoryManager." + name for name in ("drain", "extract", "on_session_end", "save")),
    *("ToolOutputs." + name for name in ("clear", "keep")),
    *("Conversation." + name for name in (
        "abort_tool_exchange", "add", "add_tool_results", "amend_last", "begin_tool_exchange",
        "clear", "commit_tool_exchange", "delete", "purge_messages", "restore", "set_summary",
    )),
    *("ConversationStore." + name for name in ("clear", "delete", "purge_messages", "save")),
    "RetainedCheckpointer.purge_messages",
}  # fmt: skip
"""Public methods that write, lock, or write files of what another one reads."""

_ELSEWHERE = {"Database", "HTTPCheckpointer", "BaseMemoryManager", "NoopMemoryManager"}
"""Classes without a read of stored rows, and the client of a server that has these reads."""


def public_methods() -> set[str]:
    """Return the names of the asynchronous methods of the public classes."""
    exported = [getattr(memalchemy, name) for name in memalchemy.__all__] + [Inspector]
    classes = [one for one in exported if inspect.isclass(one) and one.__name__ not in _ELSEWHERE]
    found = set()
    for one in classes:
        above = [base for base in one.__mro__[1:] if base in classes]
        for name in dir(one):
            member = inspect.getattr_static(one, name)
            runs = inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
            inherited = any(inspect.getattr_static(base, name, None) is member for base in above)
            if runs and not inherited and not name.startswith("_"):
                found.add(f"{one.__name__}.{name}")
    return found


_SINCE = encode_cursor("changes", datetime(2000, 1, 1, tzinfo=UTC), [])


async def _changes(inspector: Inspector) -> Any:
    """Return what was written since the beginning, without the token of now."""
    found = await inspector.changes(_SINCE, items=True)
    return {name: _unordered(one) for name, one in found.items() if name != "token"}


def _unordered(found: Any) -> Any:
    """Return records, of which some are equal in the order that they come in, in any order."""
    return sorted(found, key=repr) if isinstance(found, list) else found


async def _search(inspector: Inspector) -> Any:
    found = await inspector.search("lighthouses")
    return {name: _unordered(one) for name, one in found.items()}


async def _refusing(read: Awaitable[Any]) -> Any:
    """Return what the inspector shows; raise what it says of a part that it could not read."""
    shown = await read
    rows = [shown, *shown.get("threads", []), *shown.get("unread", [])]
    problems = {row.get("problem") for row in rows if isinstance(row, dict)}
    if problems & {"Corrupt", "NotFound"}:  # what is named is not what is there
        raise Corrupt("the inspector names this in place of what it cannot read")
    return shown


async def _overview(inspector: Inspector) -> Any:
    found = await inspector.overview()
    return {name: _unordered(one) for name, one in found.items()}


async def _space(inspector: Inspector) -> Any:
    """Return the sizes that logs have, without those of the file and the moment of measuring.

    The inspector is a new one: another shows for a minute what it has measured.
    """
    found = await inspector.space()
    return {name: _unordered(found[name]) for name in ("frameworks", "largest", "raw_bytes")}


REFUSED = "refused as Corrupt"


async def read(world: World, name: str) -> list[Any]:
    """Return what each call of a read gives, in a form that can be compared, or `REFUSED`."""
    given: Any = READS[name](world)
    found: list[Any] = []
    for call in given if isinstance(given, list) else [given]:
        try:
            if isinstance(call, AsyncIterator):
                found.append(frozen([one async for one in call]))
            else:
                found.append(frozen(await call))
        except Corrupt:
            found.append(REFUSED)
        except (MemalchemyError, InvalidArgument) as error:
            found.append(type(error).__name__)
    return found


def frozen(value: Any) -> Any:
    """Return a value as plain data that compares equal if it says the same."""
    if isinstance(value, BaseModel):
        return frozen(value.model_dump())
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: frozen(getattr(value, one.name)) for one in fields(value) if one.compare}
    if isinstance(value, Mapping):
        return {str(key): frozen(one) for key, one in value.items()}
    if isinstance(value, str | bytes | bool | int | datetime) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isnan(value) else round(value, 6)
    if isinstance(value, Iterable):
        return [frozen(one) for one in value]
    return repr(value)

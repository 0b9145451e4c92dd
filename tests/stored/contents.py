"""What a stored database holds: the calls that write it, and those that read it again.

`fill` writes logs, checkpoints and items and returns a list of them; `FEATURES` write and read what
is built on these. The lists are kept beside the databases, as JSON for people to read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from memalchemy import (
    Checkpointer,
    Conversation,
    Database,
    Episode,
    EpisodeStore,
    KeyValue,
    LLMMemoryManager,
    Memory,
    MemoryFact,
    MemoryType,
    Store,
    ThreadLog,
    ToolOutputs,
    UserMemoryStore,
    VectorStore,
)
from memalchemy.schema import CheckpointRow, DeltaRow, StoreItemRow

TENANT, BESIDE = "stored", "beside"
"""The tenants of a database: of `fill`, and of `FEATURES`."""
NESTED = ("graph", "sub")
NOON = datetime(2026, 11, 29, 12, 0, 0, 536_871, UTC)
YEARS = 10**9
"""Seconds to live: what expires is stored with the moment, and outlives the tests."""


def readable(value: Any) -> Any:
    """Return a value as JSON tells it to people; what JSON has not is its ``repr``."""
    if isinstance(value, Mapping):
        return {key: readable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [readable(one) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [readable(one) for one in value]}
    if isinstance(value, (set, frozenset)):
        return {type(value).__name__: sorted(map(repr, value))}
    if isinstance(value, str) and any("\ud800" <= one <= "\udfff" for one in value):
        return repr(value)  # half of a character is in no file
    plain = value is None or type(value) in (bool, int, str)
    return value if plain else repr(value)


# --- Logs, checkpoints and items -----------------------------------------------------------------


def conversation(steps: int) -> list[dict[str, Any]]:
    """The states of a thread that grows by a message a step."""
    messages = [
        {"role": ("user", "assistant")[step % 2], "content": f"Message {step} about lighthouses."}
        for step in range(steps)
    ]
    return [{"messages": messages[: step + 1], "step": step} for step in range(steps)]


WRITES = [["channel", {"said": "first"}], ["other", [1, 2]]]
ENTRIES = [{"role": "user", "content": "A zebra?"}, "plain text", ["a", "list"]]
SPACE = ["users", "naïve/~"]
ITEMS = [
    {
        "key": "ada",
        "value": {"likes": "giraffes", "age": 36},
        "meta": {"n": 1},
        "vector": [1.0, 0.5],
    },
    {"key": "", "value": ["no", "key"], "meta": {}, "vector": [-0.25, 3.0]},
    {"key": "ключ/🔑", "value": "no vector", "meta": {"nested": {"a": [1, None]}}, "vector": None},
]


async def fill(db: Database, *, vectors: bool = True) -> dict[str, Any]:
    """Threads with deltas, a branch, a fork, metadata, text, ids of every kind, and a tombstone; a
    log in a namespace with pending writes, a log of entries, and items, some with vectors.
    """
    checkpointer = Checkpointer(db)
    expected: dict[str, Any] = {"threads": {}, "deleted": ["deleted"]}

    async def save(thread: str, name: str, state: dict[str, Any], **options: Any) -> None:
        await checkpointer.save(state, thread, name, **options)
        expected["threads"].setdefault(thread, {})[name] = state

    for step, state in enumerate(conversation(12)):
        metadata = {"step": step, "colour": "red" if step == 7 else "blue"}
        await save("long", f"long {step}", state, metadata=metadata)
    await save("branched", "root", {"path": ["root"]})
    await save("branched", "left", {"path": ["root", "left"]}, parent_id="root")
    await save("branched", "right", {"path": ["root", "right"]}, parent_id="root")
    await save("naïve/ключ/🔑", "first: 1", {"text": "Ünïcode, 漢字"})
    await checkpointer.save({"gone": True}, "deleted")
    await checkpointer.delete("deleted")
    await checkpointer.fork("branched", "root", new_thread_id="forked")
    expected["threads"]["forked"] = {"root": {"path": ["root"]}}

    nested = Checkpointer(db, namespace=NESTED, radix=8)
    below = None
    states = conversation(10)
    for step, state in enumerate(states):
        parent = {"parent_id": below, "rests_on_parent": True} if below else {}
        below = await nested.save(state, "long", f"nested {step}", run_id="run", **parent)
    await nested.put_writes([tuple(write) for write in WRITES], "long", "nested 9", "task")
    expected["nested"] = {f"nested {step}": state for step, state in enumerate(states)}
    expected["writes"] = WRITES

    await ThreadLog(db).append("long", ENTRIES, keys=["first", None, "third"])
    expected["entries"] = ENTRIES

    store = Store(db)
    for item in ITEMS:
        vector = item["vector"] if vectors else None
        await store.put(SPACE, item["key"], item["value"], item["meta"], embedding=vector)
    expected |= {"space": SPACE, "items": ITEMS}
    return expected


# --- What is built on them -----------------------------------------------------------------------


@dataclass(frozen=True)
class Feature:
    """Something that rows are stored by: what it writes, and what is read of that."""

    write: Callable[[Database], Awaitable[object]]
    read: Callable[[Database], Awaitable[Any]]


VALUE = {
    "order": {"z": 1, "a": 2},
    "tuple": (1, ("two",)),
    "sets": [{1, 2, 3}, frozenset({"b", "a"})],
    "text": "half a character \ud800, a NUL \x00, 漢字",
    "numbers": [2**200, -(2**63), 1e300, float("inf"), -0.0, True, None],
    "bytes": b"\x00\xff",
    "times": [NOON, date(2026, 11, 29)],
    "more": [UUID(int=7), Decimal("1.10"), PurePosixPath("/a/b")],
}


async def _write_values(db: Database) -> None:
    await Checkpointer(db, ttl=YEARS).save(VALUE, "values", "every type", occurred_at=NOON)
    await ThreadLog(db, namespace=("own", "log"), ttl=YEARS).append(
        "values", [VALUE], keys=["every type"], occurred_at=[NOON]
    )
    await Store(db).put(("values",), "every type", VALUE, {"of": "types"}, ttl=YEARS)


async def _read_values(db: Database) -> Any:
    entries = await ThreadLog(db, namespace=("own", "log")).range("values")
    item = await Store(db).get_item(("values",), "every type")
    assert item is not None
    assert item.expires_at is not None
    (info,) = [info async for info in Checkpointer(db).history("values")]
    state = await Checkpointer(db).load("values")
    assert state == entries[0].value == item.value == VALUE
    return {
        "state": state,
        "checkpoint": [info.checkpoint_id, info.occurred_at],
        "entries": [[entry.key, entry.occurred_at] for entry in entries],
        "item": [item.metadata, item.version],
    }


async def _write_generated_ids(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for number in range(3):
        await checkpointer.save({"number": number}, "generated")


async def _read_generated_ids(db: Database) -> Any:
    checkpointer = Checkpointer(db)
    ids = [info.checkpoint_id async for info in checkpointer.history("generated")]
    assert ids == sorted(ids, reverse=True)
    return [await checkpointer.load("generated", one) for one in ids]


async def _write_conversation(db: Database) -> None:
    talk = Conversation(db, "talk")
    calls = [{"id": "call-1", "name": "look_up", "arguments": {"word": "heron"}}]
    await talk.add(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is a heron?"},
        keys=["rule", None],
        occurred_at=NOON,
    )
    await talk.begin_tool_exchange({"role": "assistant", "content": None, "tool_calls": calls})
    result = {"role": "tool", "tool_call_id": "call-1", "content": "A wading bird."}
    await talk.commit_tool_exchange(result)
    await talk.add({"role": "assistant", "content": [{"type": "text", "text": "A bird."}]})
    await talk.set_summary("They spoke of herons.", summarized=2)


async def _read_conversation(db: Database) -> Any:
    talk = Conversation(db, "talk")
    snapshot = await talk.snapshot()
    found = [hit.message.text for hit in await talk.search("heron")]
    return {
        "messages": [
            {
                "role": str(message.role),
                "content": message.content,
                "calls": [[call.id, call.name, call.arguments] for call in message.tool_calls],
                "answers": message.tool_call_id,
            }
            for message in await talk.history()
        ],
        "summary": [snapshot["summary"], snapshot["summarized"]],
        "found": found,
    }


async def _write_facts(db: Database) -> None:
    fact = MemoryFact(
        "fact-1",
        "ada",
        "Likes herons.",
        ("birds",),
        0.75,
        NOON,
        NOON,
        source_conversation_id="talk",
    )
    await UserMemoryStore(db, half_life=None).add(fact)


async def _read_facts(db: Database) -> Any:
    facts = UserMemoryStore(db, half_life=None)
    return [
        [[one.memory_id, one.content, one.topics, one.confidence, one.created_at] for one in found]
        for found in (await facts.list("ada"), await facts.search("ada", "herons"))
    ]


async def _write_memories(db: Database) -> None:
    memory = Memory(MemoryType.PROJECT, "birds", "Counts herons by the river.", {"since": 2026})
    await LLMMemoryManager(db).save([memory])


async def _read_memories(db: Database) -> Any:
    memories = await LLMMemoryManager(db).retrieve(query="herons")
    return [[str(one.type), one.key, one.content, one.metadata] for one in memories]


async def _write_episodes(db: Database) -> None:
    episode = Episode(
        id_="episode-1",
        task="Count the herons",
        rollout="looked, counted",
        result="Seven",
        metadata={"river": "Elbe"},
        completed_at=NOON,
    )
    await EpisodeStore(db).write(episode)


async def _read_episodes(db: Database) -> Any:
    store = EpisodeStore(db)
    found = [await store.get("episode-1"), *await store.recall("herons")]
    return [
        one and [one.id_, one.task, one.rollout, one.result, one.metadata, one.completed_at]
        for one in found
    ]


async def _write_key_values(db: Database) -> None:
    values = KeyValue(db)
    await values.write("count", 7, agent_id="counter", ttl=YEARS)
    await values.write("list", {"of": ["herons"]})
    turns = [{"user": "How many?", "assistant": "Seven."}]
    await values.write_memory("counter", turns=turns, summary="Counted.")


async def _read_key_values(db: Database) -> Any:
    values = KeyValue(db)
    entry, memory = await values.read_entry("count"), await values.read_memory("counter")
    assert entry is not None
    assert memory is not None
    return [
        await values.read_all(),
        entry.agent_id,
        [memory["turns"], memory["summary"]],
    ]


async def _write_documents(db: Database) -> None:
    documents = VectorStore(db)
    for name, vector in {"heron": [1.0, 0.0, 0.25], "stork": [0.0, 1.0, 0.25]}.items():
        text = f"The {name} is a bird."
        await documents.upsert(text, id=name, metadata={"bird": name}, embedding=vector)
    await documents.upsert("", id="raw", content_type="image/png", raw_content=b"\x89PNG")


async def _read_documents(db: Database) -> Any:
    documents = VectorStore(db)
    near = await documents.search(embedding=[0.9, 0.1, 0.25], k=1)
    words = await documents.search("stork", k=1)
    raw = await documents.get("raw")
    assert raw is not None
    return [
        [[one.id, one.content, one.metadata] for one in (*near, *words)],
        [raw.content_type, raw.raw_content],
    ]


async def _write_outputs(db: Database) -> None:
    await ToolOutputs(db).keep("output-1", {"birds": ["heron"] * 3})


async def _read_outputs(db: Database) -> Any:
    return await ToolOutputs(db).recall("output-1")


FEATURES = {
    "generated ids": Feature(_write_generated_ids, _read_generated_ids),
    "values": Feature(_write_values, _read_values),
    "conversation": Feature(_write_conversation, _read_conversation),
    "facts": Feature(_write_facts, _read_facts),
    "memories": Feature(_write_memories, _read_memories),
    "episodes": Feature(_write_episodes, _read_episodes),
    "key values": Feature(_write_key_values, _read_key_values),
    "documents": Feature(_write_documents, _read_documents),
    "outputs of tools": Feature(_write_outputs, _read_outputs),
}


# --- Rows of any framework -----------------------------------------------------------------------


async def decoded_rows(db: Database) -> dict[str, Any]:
    """Every checkpoint, entry, pending write and item of a database without keys, decoded, whoever
    has written them: no package of a framework is needed.
    """

    def read(connection: Connection) -> dict[str, Any]:
        # It is left to the garbage collector: closed, it would roll the transaction back.
        session = Session(connection)
        states = select(CheckpointRow).order_by(CheckpointRow.log_id, CheckpointRow.seq)
        entries = (
            select(DeltaRow)
            .where(DeltaRow.kind.in_(["entry", "write"]))
            .order_by(DeltaRow.log_id, DeltaRow.seq)
        )
        items = select(StoreItemRow).order_by(StoreItemRow.namespace, StoreItemRow.key)
        return {
            "checkpoints": [
                [row.checkpoint_id, readable(row.meta), readable(row.decoded)]
                for row in session.scalars(states)
            ],
            "entries": [[row.kind, readable(row.decoded)] for row in session.scalars(entries)],
            "items": [
                [row.path, row.key, readable(row.meta), readable(row.decoded)]
                for row in session.scalars(items)
            ],
        }

    return await db.run_sync(read)

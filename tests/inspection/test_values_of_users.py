"""The inspector shows any value that a user has stored, also one that looks like one of its own."""

from __future__ import annotations

from hypothesis import strategies as st

from drawn_examples import examples_of
from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.inspection import Activity, Inspector

NAMES = (
    *("type", "key", "content", "topics", "confidence", "last_seen_at", "task", "rollout"),
    *("completed_at", "id", "page_content", "metadata", "text", "role", "messages", "parts"),
    *("data", "name", "tool_calls", "tool_call_id", "arguments", "function", "input", "output"),
)
"""Names by which the inspector tells what a value is."""

inner = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "user", "tool", "x"]),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.sampled_from(NAMES), child),
    max_leaves=12,
)
values = st.dictionaries(st.sampled_from(NAMES), inner, min_size=2, max_size=8)


SHAPES = [
    *examples_of(values, 80),
    {"type": ["x"], "key": "k", "content": "c"},
    {"content": {}, "topics": 1, "confidence": [], "last_seen_at": None},
    {"task": [], "rollout": {"a": 1}, "completed_at": {}},
    {"id": {}, "page_content": [], "metadata": 3},
]


async def test_items_of_any_shape_are_shown(db: Database) -> None:
    inspector, store = Inspector(db), Store(db)
    for at, value in enumerate(SHAPES):
        await store.put(("shapes",), str(at), value)

        assert (await inspector.item(("shapes",), str(at)))["key"] == str(at)

    assert len((await inspector.items(("shapes",), limit=500))["items"]) == len(SHAPES)


async def test_entries_and_states_of_any_shape_are_shown(db: Database) -> None:
    inspector, log, states = Inspector(db), ThreadLog(db), Checkpointer(db)
    for at, value in enumerate(SHAPES):
        await log.append("entries", value)
        await states.save({"messages": [value, value], **value}, "states", f"c{at}")

    for thread_id, namespace in (("entries", log.namespace), ("states", ())):
        assert await inspector.thread(thread_id, namespace)
        assert await inspector.transcript(thread_id, namespace)
        assert await Activity(inspector, thread_id).newest(len(SHAPES))
    assert await inspector.entries("entries", log.namespace)
    assert await inspector.timeline("states")
    for at in range(len(SHAPES)):
        assert await inspector.state("states", at=f"c{at}")
        assert await inspector.added_messages("states", at=f"c{at}")

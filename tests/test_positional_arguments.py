"""Arguments given by position land where the contracts say, the library's own and those it took.

`OURS` is the signatures that are fixed; `CONTRACTS` the argument names, in their order, of the
systems whose methods have the same names here.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import memalchemy
import memalchemy.context
import memalchemy.sync
from memalchemy.http import blocking

OURS = {
    "Database": "url, *, tenant, schema, migrate, pgbouncer, durability, keys, **engine_options",
    "Database.for_tenant": "tenant",
    "Checkpointer": "db, *, namespace, state_type, index_text, retention, ttl, max_chain_depth, "
    "compression_level",
    "Checkpointer.save": "state, thread_id, checkpoint_id, metadata, *, parent_id, "
    "expected_parent, ttl, connection",
    "Checkpointer.load": "thread_id, checkpoint_id, *, connection",
    "Checkpointer.history": "thread_id, *, limit, before",
    "Checkpointer.diff": "thread_id, a, b",
    "Checkpointer.prune": "thread_id, *, keep_last, keep_every, older_than",
    "Checkpointer.fork": "thread_id, checkpoint_id, *, new_thread_id",
    "ThreadLog": "db",
    "ThreadLog.append": "thread_id",
    "ThreadLog.tail": "thread_id",
    "ThreadLog.range": "thread_id",
    "ThreadLog.pop": "thread_id",
    "ThreadLog.replace_suffix": "thread_id",
    "ThreadLog.edit": "thread_id",
    "ThreadLog.clear": "thread_id",
    "ThreadLog.count": "thread_id",
    "ThreadLog.fork": "thread_id",
    "Store": "db, *, embedder",
    "Store.put": "namespace, key, value, metadata, *, index, ttl, expected_version, connection",
    "Store.search": "namespace, query, limit, *, prefix, mode, filter, offset",
}
"""Names before ``*`` are positional, in this order; those after it are keywords."""

LOCUS_CHECKPOINTER = {
    "save": "state, thread_id, checkpoint_id, metadata",
    "load": "thread_id, checkpoint_id",
    "list_checkpoints": "thread_id, limit",
    "delete": "thread_id, checkpoint_id",
    "exists": "thread_id, checkpoint_id",
    "close": "",
    "search": "query, limit",
    "search_data": "path, value, limit",
    "query_by_metadata": "key, value, limit",
    "get_metadata": "thread_id, checkpoint_id",
    "vacuum": "older_than_days",
    "copy_thread": "source_thread_id, dest_thread_id",
    "list_threads": "limit, pattern",
    "list_with_metadata": "limit",
    "get_storage_stats": "thread_id",
}

CONTRACTS: dict[str, dict[str, str]] = {
    "Checkpointer": LOCUS_CHECKPOINTER,
    "HTTPCheckpointer": LOCUS_CHECKPOINTER | {"__init__": "base_url, headers, auth, timeout"},
    "Store": {
        "put": "namespace, key, value, metadata",
        "get": "namespace, key",
        "delete": "namespace, key",
        "list_keys": "namespace, limit",
        "exists": "namespace, key",
        "get_item": "namespace, key",
        "search": "namespace, query, limit",
        "search_many": "namespaces, query, limit",
        "put_with_embedding": "namespace, key, value, embedding, metadata",
        "search_by_embedding": "namespace, query_embedding, limit, threshold, metadata_filter",
        "get_embedding": "namespace, key",
        "put_batch": "items",
        "get_batch": "keys",
        "list_namespaces": "prefix, limit",
        "clear_namespace": "namespace",
        "close": "",
    },
    "NamespacedStore": {
        "__init__": "store, namespace",
        "put": "key, value, metadata",
        "get": "key",
        "delete": "key",
        "list_keys": "limit",
        "exists": "key",
        "search": "query, limit",
        "clear": "",
    },
    "StoreContext": {
        "__init__": "store, user_id, session_id",
        "for_user": "user_id",
        "for_session": "session_id",
        "get_user_memory": "key",
        "remember": "key, value, metadata",
        "forget": "key",
        "search_memories": "query, limit",
        "remember_with_embedding": "key, value, embedding, metadata",
        "search_memories_semantic": "query_embedding, limit, threshold",
        "get_global": "key",
        "set_global": "key, value, metadata",
    },
    "StoreCapabilityError": {"__init__": "capability, store_class, hint"},
    "LLMMemoryManager": {
        "__init__": "store",
        "extract": "messages",
        "retrieve": "limit",
        "save": "memories",
    },
    "ConversationManager": {"apply": "messages", "async_apply": "messages"},
    "SlidingWindowManager": {
        "__init__": "window_size, preserve_system, preserve_first_user, slide_step"
    },
    "SummarizingManager": {"__init__": "threshold, keep_recent, summarize_fn, preserve_system"},
    "KeyValue": {
        "write": "key, value",
        "read": "key, default",
        "read_entry": "key",
        "read_all": "",
        "keys": "",
        "items": "",
        "delete": "key",
        "clear": "",
        "compare_and_swap": "key, expected, new",
        "to_text": "keys",
        "write_memory": "agent_id",
        "read_memory": "agent_id",
        "delete_memory": "agent_id",
        "close": "",
    },
    "VectorStore": {
        "upsert": "content",
        "search": "query",
        "get": "id",
        "delete": "ids",
        "clear": "",
    },
    "UserMemoryStore": {
        "add": "fact",
        "get": "user_id, memory_id",
        "search": "user_id, query, top_k",
        "list": "user_id, topic",
        "clear": "user_id",
    },
    "EpisodeStore": {
        "write": "episode",
        "recall": "query",
        "delete": "id_",
        "update": "episode",
        "count": "",
        "summary": "",
    },
    "EpisodicMemory": {
        "__init__": "store, metadata_fns",
        "recall": "task",
        "record": "episode",
        "summary": "",
        "delete": "id_",
        "update": "episode",
    },
}


def positional(function: Any) -> list[str]:
    taken = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in taken if one.kind in kinds and one.name != "self"]


def names(signature: str) -> list[str]:
    return [name for name in signature.split(", ") if name]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("face", [memalchemy, memalchemy.sync], ids=["async", "sync"])
def test_a_fixed_signature_is_kept(face: Any, name: str) -> None:
    thing = face
    for part in name.split("."):
        thing = getattr(thing, part)
    before, star, after = OURS[name].partition("*, ")

    assert positional(thing)[: len(names(before))] == names(before)
    if star:
        assert positional(thing) == names(before), "the rest are keywords"
    assert inspect.signature(thing).parameters.keys() >= {one.lstrip("*") for one in names(after)}


OF_A_CONTRACT = [(owner, name) for owner, methods in CONTRACTS.items() for name in methods]


@pytest.mark.parametrize("face", [memalchemy, memalchemy.sync], ids=["async", "sync"])
@pytest.mark.parametrize(("owner", "name"), OF_A_CONTRACT)
def test_a_method_takes_by_position_what_the_one_of_its_name_takes_elsewhere(
    face: Any, owner: str, name: str
) -> None:
    wanted = names(CONTRACTS[owner][name])
    if owner == "HTTPCheckpointer":
        face = memalchemy if face is memalchemy else blocking
    # Errors and managers, which do no I/O, have one face.
    kind = next(
        getattr(place, owner)
        for place in (face, memalchemy, memalchemy.context)
        if hasattr(place, owner)
    )
    method = getattr(kind, name)

    assert positional(method)[: len(wanted)] == wanted

"""What memalchemy expects of private names of the frameworks; `test_private_names` lists them."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil

import lauren_ai
import pytest
import strands.storage as strands_storage
from a2a.server.cluster.version import TaskVersion
from agent_framework import register_checkpoint_type
from agent_framework._workflows import _checkpoint_encoding
from agents.extensions.memory import SQLAlchemySession
from langchain_core.vectorstores import VectorStore
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from lauren_ai._agents import AGENT_META
from lauren_ai._memory import MemoryResult
from lauren_ai._transport import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from llm_agents_from_scratch.base.memory_store import BaseMemoryStore
from locus.agent.runtime_loop import ITERATION_CHECKPOINTS_KEY
from strands._async import is_run_async_bridge, run_async
from subjects import FRAMEWORKS, INSTALLED

from memalchemy import integrations
from memalchemy.integrations.agent_framework._object_codec import qualified_name
from memalchemy.integrations.locus.checkpointer import SUPERSEDED_SAVES
from memalchemy.integrations.openai_agents import MemalchemySession
from memalchemy.integrations.strands import MemalchemyStorage
from private_names import private_overrides

MISSING = {*FRAMEWORKS} - {*INSTALLED}
"""Frameworks that need an environment of their own."""
HOOKS = {
    ("MemalchemyMemoryStore", "_read_recent"),
    ("MemalchemyMemoryStore", "_search"),
    ("MemalchemyVectorStore", "_select_relevance_score_fn"),
}
"""What llm-agents' `BaseMemoryStore` and LangChain's `VectorStore` ask of their subclasses."""


def test_adapters_replace_no_private_method_but_those_that_a_framework_asks_for() -> None:
    found = pkgutil.walk_packages(integrations.__path__, f"{integrations.__name__}.")
    names = [one.name for one in found if one.name.split(".")[2] not in MISSING]
    modules = [importlib.import_module(name) for name in names]

    assert {found for module in modules for found in private_overrides(module)} == HOOKS
    assert {"_read_recent", "_search"} <= BaseMemoryStore.__abstractmethods__
    with pytest.raises(NotImplementedError):
        VectorStore._select_relevance_score_fn(object())  # type: ignore[arg-type]


def test_a2as_versions_hold_a_number() -> None:
    assert TaskVersion(3)._value == 3
    assert not hasattr(TaskVersion(3), "value"), "use it"


def test_the_agent_frameworks_registered_classes_are_named_by_module_and_qualname(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_checkpoint_encoding, "_REGISTERED_CHECKPOINT_TYPE_KEYS", keys := set())
    register_checkpoint_type(TaskVersion)

    assert keys == {qualified_name(TaskVersion)}


async def test_strands_marks_the_views_of_its_storages_and_normalises_keys() -> None:
    view = strands_storage.InMemoryStorage().namespace("a")
    ours = MemalchemyStorage().namespace("a")

    assert view._namespaced is ours._namespaced is strands_storage.storage._NAMESPACED
    assert strands_storage.storage._normalize_key("/a//b/") == "a/b"
    assert strands_storage.storage._normalize_prefix("/a//b/") == "a/b/"


def test_strands_knows_the_event_loop_that_it_makes_for_a_call() -> None:
    async def within() -> bool:
        return is_run_async_bridge()

    assert run_async(within) is True
    assert asyncio.run(within()) is False


def test_langgraphs_serialiser_says_whether_it_has_a_reading_hook_of_the_users() -> None:
    assert JsonPlusSerializer()._custom_unpack_ext_hook is False
    assert JsonPlusSerializer(__unpack_ext_hook__=lambda *_: 1)._custom_unpack_ext_hook is True


def test_lauren_ais_messages_have_parts_that_it_does_not_export() -> None:
    for part in (ContentBlock, ThinkingBlock, RedactedThinkingBlock):
        assert not hasattr(lauren_ai, part.__name__), "import it from lauren_ai"
    assert "ContentBlock" in str(lauren_ai.Message.__annotations__["content"])


async def test_lauren_ais_vector_store_returns_what_it_does_not_export() -> None:
    store = lauren_ai.InMemoryVectorStore()
    await store.upsert("text", id="one")

    assert not hasattr(lauren_ai, "MemoryResult"), "import it from lauren_ai"
    assert type(await store.get("one")) is MemoryResult


def test_lauren_ais_agent_leaves_its_model_in_an_attribute_of_the_class() -> None:
    @lauren_ai.agent(model="claude-opus-4-6")
    class Agent: ...

    assert not hasattr(lauren_ai, "AGENT_META"), "import it from lauren_ai"
    assert getattr(Agent, AGENT_META).model == "claude-opus-4-6"


def test_locus_names_the_saves_of_a_turn_under_the_key_that_is_read() -> None:
    assert SUPERSEDED_SAVES == ITERATION_CHECKPOINTS_KEY


def test_the_agents_sdk_asks_its_sessions_for_a_snapshot_to_compact() -> None:
    theirs = inspect.signature(SQLAlchemySession._get_compaction_snapshot)
    ours = inspect.signature(MemalchemySession._get_compaction_snapshot)

    assert [(one.name, one.kind) for one in ours.parameters.values()] == [
        (one.name, one.kind) for one in theirs.parameters.values()
    ]

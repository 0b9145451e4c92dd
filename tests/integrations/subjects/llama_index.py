"""LlamaIndex's stores under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import TextNode

from memalchemy.conformance import Subject
from memalchemy.integrations.llama_index import (
    MemalchemyChatStore,
    MemalchemyKVStore,
    MemalchemyVectorStore,
)

FRAMEWORK, EXTRA = "llama_index.core", "llama-index"
NO_SUITE = "The sdist of llama-index-core has no tests."
ADAPTERS: dict[Any, Any] = {
    MemalchemyChatStore: MemalchemyChatStore,
    MemalchemyKVStore: MemalchemyKVStore,
    MemalchemyVectorStore: MemalchemyVectorStore,
}
ARGUMENTS = {"kv_pairs": [[("ada", {"text": "the stork flies"})]]}


async def _add(store: MemalchemyChatStore, id_: str, text: str) -> Any:
    message = ChatMessage(role="user", content=text, additional_kwargs={"a": {"b": "c"}})
    await store.add_message(id_, message)
    return message


async def _messages(store: MemalchemyChatStore, id_: str) -> list[str]:
    found = await store.get_messages(id_)
    assert all(isinstance(message, ChatMessage) for message in found)
    return [message.content or "" for message in found]


async def _put(store: MemalchemyKVStore, id_: str, text: str) -> Any:
    value = {"text": text}
    await store.aput(id_, value)
    return value


async def _values(store: MemalchemyKVStore, id_: str) -> list[str]:
    found = await store.aget(id_)
    return [] if found is None else [found["text"]]


async def _add_node(store: MemalchemyVectorStore, id_: str, text: str) -> Any:
    nodes = [TextNode(id_=id_, text=text, embedding=[1.0, 0.0], metadata={"a": {"b": "c"}})]
    await store.async_add(nodes)
    return nodes


async def _nodes(store: MemalchemyVectorStore, id_: str) -> list[str]:
    found = await store.aget_nodes([id_])
    assert all(isinstance(node, TextNode) for node in found)
    return [node.get_content() for node in found]


SUBJECTS: dict[str, Subject[Any]] = {
    "LlamaIndex's messages": Subject(
        MemalchemyChatStore,
        _add,
        _messages,
        lambda store, id_: store.delete_messages(id_),
        objects=lambda store, id_: store.get_messages(id_),
    ),
    "LlamaIndex's values": Subject(
        MemalchemyKVStore,
        _put,
        _values,
        lambda store, id_: store.adelete(id_),
        appends=False,
        objects=lambda store, id_: store.aget(id_),
    ),
    "LlamaIndex's nodes": Subject(
        MemalchemyVectorStore,
        _add_node,
        _nodes,
        lambda store, id_: store.adelete_nodes([id_]),
        appends=False,
        objects=lambda store, id_: store.aget_nodes([id_]),
    ),
}

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
ADAPTERS: dict[Any, Any] = {
    MemalchemyChatStore: MemalchemyChatStore,
    MemalchemyKVStore: MemalchemyKVStore,
    MemalchemyVectorStore: MemalchemyVectorStore,
}


async def _add(store: MemalchemyChatStore, id_: str, text: str) -> None:
    await store.add_message(id_, ChatMessage(role="user", content=text))


async def _messages(store: MemalchemyChatStore, id_: str) -> list[str]:
    return [message.content or "" for message in await store.get_messages(id_)]


async def _values(store: MemalchemyKVStore, id_: str) -> list[str]:
    found = await store.aget(id_)
    return [] if found is None else [found["text"]]


async def _put(store: MemalchemyKVStore, id_: str, text: str) -> None:
    await store.aput(id_, {"text": text})


async def _add_node(store: MemalchemyVectorStore, id_: str, text: str) -> None:
    await store.async_add([TextNode(id_=id_, text=text, embedding=[1.0, 0.0])])


async def _nodes(store: MemalchemyVectorStore, id_: str) -> list[str]:
    return [node.get_content() for node in await store.aget_nodes([id_])]


SUBJECTS: dict[str, Subject[Any]] = {
    "LlamaIndex's messages": Subject(
        MemalchemyChatStore, _add, _messages, lambda store, id_: store.delete_messages(id_)
    ),
    "LlamaIndex's values": Subject(
        MemalchemyKVStore, _put, _values, lambda store, id_: store.adelete(id_), appends=False
    ),
    "LlamaIndex's nodes": Subject(
        MemalchemyVectorStore,
        _add_node,
        _nodes,
        lambda store, id_: store.adelete_nodes([id_]),
        appends=False,
    ),
}

"""LangChain's histories, stores, documents, records and answers under the tests of all adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage
from langchain_core.outputs import Generation

from memalchemy.conformance import Subject
from memalchemy.integrations.langchain import (
    MemalchemyByteStore,
    MemalchemyCache,
    MemalchemyChatMessageHistory,
    MemalchemyRecordManager,
    MemalchemyStore,
    MemalchemyVectorStore,
)


def _documents(*db: Any, **options: Any) -> MemalchemyVectorStore:
    return MemalchemyVectorStore(*db, embedding=DeterministicFakeEmbedding(size=4), **options)


FRAMEWORK, EXTRA = "langchain_core", "langchain"
ADAPTERS: dict[Any, Any] = {
    MemalchemyByteStore: MemalchemyByteStore,
    MemalchemyCache: MemalchemyCache,
    MemalchemyChatMessageHistory: lambda *db: MemalchemyChatMessageHistory(*db, session_id="s"),
    MemalchemyRecordManager: MemalchemyRecordManager,
    MemalchemyStore: MemalchemyStore,
    MemalchemyVectorStore: _documents,
}
ARGUMENTS = {"message": [AIMessage("the stork flies")]}


def _history(history: MemalchemyChatMessageHistory, id_: str) -> MemalchemyChatMessageHistory:
    """Return the history of another session in the same place."""
    given = history.namespace[2:]
    return MemalchemyChatMessageHistory(history.db, session_id=id_, namespace=given)


def _histories(db: Any, namespace: Sequence[str] = ()) -> MemalchemyChatMessageHistory:
    return MemalchemyChatMessageHistory(db, session_id="s", namespace=namespace)


async def _say(history: MemalchemyChatMessageHistory, id_: str, text: str) -> Any:
    message = AIMessage(text, additional_kwargs={"marks": [1]})
    await _history(history, id_).aadd_messages([message])
    return message


async def _messages(history: MemalchemyChatMessageHistory, id_: str) -> list[str]:
    messages = await _history(history, id_).aget_messages()
    assert all(type(message) is AIMessage for message in messages)
    return [str(message.content) for message in messages]


async def _set(store: MemalchemyStore, id_: str, text: str) -> Any:
    value = {"text": text}
    await store.amset([(id_, value)])
    return value


async def _value(store: MemalchemyStore, id_: str) -> list[str]:
    return [value["text"] for value in await store.amget([id_]) if value is not None]


async def _set_bytes(store: MemalchemyByteStore, id_: str, text: str) -> Any:
    pairs = [(id_, text.encode("utf-8", "surrogatepass"))]
    await store.amset(pairs)
    return pairs


async def _bytes(store: MemalchemyByteStore, id_: str) -> list[str]:
    found = [value for value in await store.amget([id_]) if value is not None]
    return [value.decode("utf-8", "surrogatepass") for value in found]


async def _add(store: MemalchemyVectorStore, id_: str, text: str) -> Any:
    document = Document(text, id=id_, metadata={"marks": [1]})
    await store.aadd_documents([document])
    return document


async def _texts(store: MemalchemyVectorStore, id_: str) -> list[str]:
    documents = await store.aget_by_ids([id_])
    assert all(type(document) is Document for document in documents)
    return [document.page_content for document in documents]


async def _update(cache: MemalchemyCache, id_: str, text: str) -> Any:
    generation = Generation(text=text, generation_info={"marks": [1]})
    await _cache(cache, id_).aupdate("prompt", "model", [generation])
    return generation


async def _answers(cache: MemalchemyCache, id_: str) -> list[str]:
    found = await _cache(cache, id_).alookup("prompt", "model")
    return [generation.text for generation in found or []]


def _cache(cache: MemalchemyCache, id_: str) -> MemalchemyCache:
    """Return a cache of its own for an id: a cache deletes nothing less than all."""
    return MemalchemyCache(cache.db, namespace=(*cache.namespace[2:], id_))


SUBJECTS: dict[str, Subject[Any]] = {
    "a chat history of LangChain's": Subject(
        _histories,
        _say,
        _messages,
        lambda history, id_: _history(history, id_).aclear(),
        objects=lambda history, id_: _history(history, id_).aget_messages(),
        namespaced=_histories,
    ),
    "LangChain's store": Subject(
        MemalchemyStore,
        _set,
        _value,
        lambda store, id_: store.amdelete([id_]),
        appends=False,
        objects=lambda store, id_: store.amget([id_]),
    ),
    "LangChain's store of bytes": Subject(
        MemalchemyByteStore,
        _set_bytes,
        _bytes,
        lambda store, id_: store.amdelete([id_]),
        appends=False,
        objects=lambda store, id_: store.amget([id_]),
    ),
    "LangChain's documents": Subject(
        _documents,
        _add,
        _texts,
        lambda store, id_: store.adelete([id_]),
        appends=False,
        objects=lambda store, id_: store.aget_by_ids([id_]),
        namespaced=lambda db, namespace: _documents(db, namespace=namespace),
    ),
    "LangChain's cache": Subject(
        MemalchemyCache,
        _update,
        _answers,
        lambda cache, id_: _cache(cache, id_).aclear(),
        appends=False,
        objects=lambda cache, id_: _cache(cache, id_).alookup("prompt", "model"),
    ),
}

"""Haystack's stores under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from haystack.dataclasses import ChatMessage, Document
from haystack.document_stores.errors import DocumentStoreError
from haystack.document_stores.types import DuplicatePolicy

from memalchemy.conformance import Subject
from memalchemy.integrations.haystack import (
    MemalchemyChatMessageStore,
    MemalchemyDocumentStore,
    MemalchemyEmbeddingRetriever,
    MemalchemyKeywordRetriever,
)

FRAMEWORK, EXTRA = "haystack", "haystack"
ADAPTERS: dict[Any, Any] = {
    MemalchemyChatMessageStore: MemalchemyChatMessageStore,
    MemalchemyDocumentStore: MemalchemyDocumentStore,
}
PARTS = {MemalchemyEmbeddingRetriever, MemalchemyKeywordRetriever}


async def _say(store: MemalchemyChatMessageStore, id_: str, text: str) -> Any:
    messages = [ChatMessage.from_user(text, meta={"a": {"b": "c"}})]
    await store.write_messages_async(id_, messages)
    return messages


async def _said(store: MemalchemyChatMessageStore, id_: str) -> list[ChatMessage]:
    return await store.retrieve_messages_async(id_, 1_000)


async def _messages(store: MemalchemyChatMessageStore, id_: str) -> list[str]:
    found = await _said(store, id_)
    assert all(isinstance(message, ChatMessage) for message in found)
    return [message.text or "" for message in found]


async def _write(store: MemalchemyDocumentStore, id_: str, text: str) -> Any:
    documents = [Document(id=id_, content=text, meta={"a": {"b": "c"}})]
    await store.write_documents_async(documents, policy=DuplicatePolicy.OVERWRITE)
    return documents


async def _found(store: MemalchemyDocumentStore, id_: str) -> list[Document]:
    return await store.filter_documents_async({"field": "id", "operator": "==", "value": id_})


async def _documents(store: MemalchemyDocumentStore, id_: str) -> list[str]:
    found = await _found(store, id_)
    assert all(isinstance(document, Document) for document in found)
    return [document.content or "" for document in found]


SUBJECTS: dict[str, Subject[Any]] = {
    "Haystack's messages": Subject(
        MemalchemyChatMessageStore,
        _say,
        _messages,
        lambda store, id_: store.delete_messages_async(id_),
        objects=_said,
    ),
    "Haystack's documents": Subject(
        MemalchemyDocumentStore,
        _write,
        _documents,
        lambda store, id_: store.delete_documents_async([id_]),
        appends=False,
        objects=_found,
        refusals=(DocumentStoreError,),
    ),
}

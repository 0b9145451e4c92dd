"""Pydantic AI's conversations under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart

from memalchemy.conformance import Subject
from memalchemy.integrations.pydantic_ai import MemalchemyConversationStore
from memalchemy.messages import text_of

FRAMEWORK, EXTRA = "pydantic_ai", "pydantic-ai"
NO_SUITE = "The sdist of pydantic-ai-slim has no tests."
ADAPTERS = {MemalchemyConversationStore: MemalchemyConversationStore}


async def _add(store: MemalchemyConversationStore, id_: str, text: str) -> Any:
    conversation = await store.load(id_) or Conversation(conversation_id=id_)
    conversation.messages.append(ModelRequest(parts=[UserPromptPart(text)]))
    await store.save(conversation)
    return conversation


async def _texts(store: MemalchemyConversationStore, id_: str) -> list[str]:
    conversation = await store.load(id_)
    if conversation is None:
        return []
    assert isinstance(conversation, Conversation)
    assert all(isinstance(message, ModelRequest) for message in conversation.messages)
    return [text_of(message) for message in conversation.messages]


SUBJECTS = {
    "a conversation of Pydantic AI": Subject(
        MemalchemyConversationStore,
        _add,
        _texts,
        lambda store, id_: store.delete(id_),
        objects=lambda store, id_: store.load(id_),
        conflicts=(ConversationConflict,),
    )
}

"""What the constructors refuse at once, before anything is asked of a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from memalchemy import (
    Checkpointer,
    Conversation,
    ConversationStore,
    Database,
    EpisodeStore,
    KeyValue,
    NamespacedStore,
    Store,
    ThreadLog,
    UserMemoryStore,
    VectorStore,
)


@pytest.fixture
async def nowhere() -> AsyncIterator[Database]:
    async with Database("sqlite:///is-never-opened.db", migrate="off") as db:
        yield db


@pytest.mark.parametrize(
    "make",
    [
        lambda db, namespace: Checkpointer(db, namespace=namespace),
        lambda db, namespace: ThreadLog(db, namespace=namespace),
        lambda db, namespace: Conversation(db, "t", namespace=namespace),
        lambda db, namespace: ConversationStore(db, namespace=namespace),
        lambda db, namespace: KeyValue(db, namespace=namespace),
        lambda db, namespace: EpisodeStore(db, namespace=namespace),
        lambda db, namespace: VectorStore(db, namespace=namespace),
        lambda db, namespace: UserMemoryStore(db, namespace=namespace),
        lambda db, namespace: NamespacedStore(Store(db), namespace),
    ],
)
async def test_a_namespace_is_not_one_string_which_would_be_taken_apart(
    nowhere: Database, make: Callable[[Database, Any], Any]
) -> None:
    with pytest.raises(TypeError, match="a namespace is a tuple of strings, not one string"):
        make(nowhere, "abc")
    with pytest.raises(TypeError, match="a namespace is a tuple of strings, not int"):
        make(nowhere, 3)
    with pytest.raises(TypeError, match="a namespace part must be a str, not int"):
        make(nowhere, ("a", 1))
    make(nowhere, ["a", "b"])

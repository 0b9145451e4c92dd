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
    Retention,
    Store,
    ThreadLog,
    UserMemoryStore,
    VectorStore,
)
from memalchemy.context import SlidingWindowManager
from memalchemy.errors import InvalidArgument


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


class Plain:
    """What a stored mapping would become an argument of."""

    def __init__(self, step: Any) -> None:
        self.step = step


@pytest.mark.parametrize("stranger", [int, str, Plain, "AgentState", 3])
async def test_a_state_type_can_be_built_of_what_is_stored(
    nowhere: Database, stranger: Any
) -> None:
    with pytest.raises(TypeError, match="state_type is a pydantic model, a dataclass, or a class"):
        Checkpointer(nowhere, state_type=stranger)


@pytest.mark.parametrize("stranger", [3, "keep_last", {"keep_last": 3}])
async def test_a_retention_is_one(nowhere: Database, stranger: Any) -> None:
    with pytest.raises(TypeError, match="retention is a Retention"):
        Checkpointer(nowhere, retention=stranger)


@pytest.mark.parametrize("seconds", [2**63, 10**400, float("nan"), -1])
async def test_a_time_that_is_none_is_an_invalid_argument(nowhere: Database, seconds: Any) -> None:
    """Any other `ValueError` would be a defect of the server's, behind HTTP."""
    for make in (
        lambda: Checkpointer(nowhere, ttl=seconds),
        lambda: Store(nowhere, ttl=seconds),
        lambda: Retention(older_than=seconds),
    ):
        with pytest.raises(InvalidArgument):
            make()


@pytest.mark.parametrize("name", ["keep_last", "keep_every", "apply_every"])
def test_a_number_of_checkpoints_is_no_flag(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} is a whole number, not bool"):
        Retention(**({"older_than": 5} | {name: True}))


async def test_a_number_of_days_is_no_flag(nowhere: Database) -> None:
    with pytest.raises(TypeError, match="a number of days, not bool"):
        await Checkpointer(nowhere).vacuum(True)


@pytest.mark.parametrize("stranger", ["x", 20, SlidingWindowManager, lambda messages: messages])
async def test_the_manager_of_a_conversation_is_one(nowhere: Database, stranger: Any) -> None:
    with pytest.raises(TypeError, match="manager is a ConversationManager"):
        Conversation(nowhere, "t", manager=stranger)
    with pytest.raises(TypeError, match="manager is a ConversationManager"):
        ConversationStore(nowhere).conversation("t", manager=stranger)

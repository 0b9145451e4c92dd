"""What is given in place of a database is refused where it is given, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import memalchemy
from memalchemy import sync

TAKERS: dict[str, Callable[[Any], Any]] = {
    "Checkpointer": memalchemy.Checkpointer,
    "Store": memalchemy.Store,
    "ThreadLog": memalchemy.ThreadLog,
    "Conversation": lambda db: memalchemy.Conversation(db, "thread"),
    "ConversationStore": memalchemy.ConversationStore,
    "EpisodeStore": memalchemy.EpisodeStore,
    "KeyValue": memalchemy.KeyValue,
    "LLMMemoryManager": memalchemy.LLMMemoryManager,
    "UserMemoryStore": memalchemy.UserMemoryStore,
    "VectorStore": memalchemy.VectorStore,
}

pytestmark = [
    pytest.mark.asyncio_only("the classes without await build on these"),
    pytest.mark.parametrize("taker", TAKERS),
]


@pytest.mark.parametrize("given", ["sqlite:///secret.db", None])
def test_what_is_no_database_is_refused_and_not_shown(taker: str, given: Any) -> None:
    wanted = f"{taker} takes a memalchemy.Database, not {type(given).__name__}; give it memalchemy"

    with pytest.raises(TypeError, match=f"^{wanted}") as caught:
        TAKERS[taker](given)
    assert "secret" not in str(caught.value)


def test_a_database_without_await_is_told_where_it_belongs(taker: str) -> None:
    wanted = (
        f"{taker} takes a memalchemy.Database, not memalchemy.sync.Database; "
        f"without await it is memalchemy.sync.{taker}"
    )

    with sync.Database("sqlite://") as db, pytest.raises(TypeError, match=f"^{re.escape(wanted)}$"):
        TAKERS[taker](db)
    assert hasattr(sync, taker)

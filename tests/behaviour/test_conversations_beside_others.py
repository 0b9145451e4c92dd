"""Conversations that are deleted, expire, or are rolled back while somebody looks at them."""

from __future__ import annotations

from typing import Any

import pytest

import memalchemy
from memalchemy import Conversation, Database
from memalchemy.contracts import Entry


@pytest.fixture
def talk(db: Database) -> Conversation:
    return memalchemy.Conversation(db, "t")


async def test_amending_what_was_deleted_meanwhile_changes_nothing(
    db: Database, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.add("q", "a")
    look = talk.log.tail

    async def tail(*given: Any, **named: Any) -> list[Entry]:
        found = await look(*given, **named)
        await memalchemy.Conversation(db, "t").delete()
        return found

    monkeypatch.setattr(talk.log, "tail", tail)

    assert await talk.amend_last("other") is False
    assert await talk.count() == 0

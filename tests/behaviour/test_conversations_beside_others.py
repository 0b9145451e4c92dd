"""Conversations that are deleted, expire, or are rolled back while somebody looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import memalchemy
from memalchemy import Conversation, Database
from memalchemy.contracts import Entry
from memalchemy.state import Message


@pytest.fixture
def talk(db: Database) -> Conversation:
    return memalchemy.Conversation(db, "t")


def said(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


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


async def test_a_reader_does_not_remember_what_was_rolled_back(
    db: Database, talk: Conversation
) -> None:
    await talk.add("q", "a")
    view = talk.view()
    await view.refresh()

    async def change() -> None:
        async with db.transaction() as tx:
            await talk.add("lost", "lost", connection=tx)
            assert said(await view.refresh(connection=tx)) == ["lost", "lost"]
            raise LookupError

    with pytest.raises(LookupError):
        await change()

    assert said(view.messages) == ["q", "a"]
    await talk.add("other", "other")
    assert said(await view.refresh()) == ["other", "other"]
    assert view.messages == await talk.history()

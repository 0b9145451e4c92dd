"""Conversations that are deleted, expire, or are rolled back while they are used."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, select

import memalchemy
from memalchemy import Conversation, Database
from memalchemy.context import SummarizingManager
from memalchemy.contracts import Entry
from memalchemy.conversations._stored_summary import SummaryLog
from memalchemy.log.tables import THREADS
from memalchemy.state import Message
from waiting import give_time_to_go_wrong

LONG_AGO = datetime.now(UTC) - timedelta(days=40)


@pytest.fixture
def talk(db: Database) -> Conversation:
    return memalchemy.Conversation(db, "t")


def said(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


async def told(db: Database) -> list[Any]:
    """Return the entries of the log with the summary."""
    log = memalchemy.ThreadLog(db, namespace=("conversation", "summary"), index_text=False)
    return [entry.value for entry in await log.tail("t")]


def summarised(db: Database, **settings: Any) -> Conversation:
    return memalchemy.Conversation(
        db, "t", manager=SummarizingManager(4, 2, lambda _: "SUMMARY"), **settings
    )


def interrupted(db: Database, meanwhile: Callable[[], Awaitable[Any]]) -> Conversation:
    """A conversation whose summariser takes so long that something happens *meanwhile*."""

    async def summarise(_: list[Any]) -> str:
        await meanwhile()
        return "SUMMARY"

    return memalchemy.Conversation(db, "t", manager=SummarizingManager(4, 2, summarise))


@pytest.mark.asyncio_only(reason="it happens in the middle of a call of the asynchronous object")
async def test_amending_what_was_deleted_meanwhile_changes_nothing(
    db: Database, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.add("q", "a")
    look = talk.log.iter_entries

    async def entries(*given: Any, **named: Any) -> AsyncGenerator[Entry]:
        async for entry in look(*given, **named):
            await memalchemy.Conversation(db, "t").delete()
            yield entry

    monkeypatch.setattr(talk.log, "iter_entries", entries)

    assert await talk.amend_last("other") is False
    assert await talk.count() == 0


CHANGES: dict[str, tuple[str, Callable[[Conversation], Awaitable[Any]]]] = {
    "amend_last": ("version", lambda talk: talk.amend_last("other")),
    "restore a list": ("read_columns", lambda talk: talk.restore([Message.user("new")])),
    "restore a snapshot": (
        "read_columns",
        lambda talk: talk.restore({"messages": [Message.user("new")], "summary": None}),
    ),
    "purge_messages": ("version", lambda talk: talk.purge_messages(timedelta(days=30))),
}


@pytest.mark.asyncio_only(reason="it happens in the middle of a call of the asynchronous object")
@pytest.mark.parametrize("change", CHANGES)
async def test_a_writer_without_a_pause_starves_no_change(
    db: Database, talk: Conversation, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    name, make = CHANGES[change]
    await talk.add("q", "a", occurred_at=LONG_AGO)
    read = getattr(talk.log, name)
    adding: list[asyncio.Task[Any]] = []

    async def read_before_others_write(*given: Any, **named: Any) -> Any:
        found = await read(*given, **named)
        connection = inspect.signature(read).bind(*given, **named).arguments.get("connection")
        more = memalchemy.Conversation(db, "t").add(Message.user("more"))
        # Without this task's context, it is somebody else who waits.
        adding.append(asyncio.create_task(more, context=Context()))
        if connection is None:
            await adding[-1]
        else:  # in the transaction that has locked the log
            await give_time_to_go_wrong()
            assert not adding[-1].done()
        return found

    monkeypatch.setattr(talk.log, name, read_before_others_write)
    await make(talk)
    await asyncio.gather(*adding)
    monkeypatch.undo()

    assert len(adding) == 2, "the second try holds the lock"
    assert said(await talk.history())[-1] == "more"
    assert "a" not in said(await talk.history())


async def test_a_view_does_not_keep_messages_of_a_rolled_back_transaction(
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


async def test_the_summary_of_a_deleted_conversation_is_not_used(db: Database) -> None:
    talk = summarised(db)
    await talk.add(*[Message.user(f"m{n}") for n in range(6)])
    assert "SUMMARY" in await talk.text()

    await talk.log.delete("t")

    assert await summarised(db).messages() == []
    assert await talk.snapshot() == {"messages": [], "summary": None, "summarized": 0}


async def test_a_summary_expires_with_its_conversation(db: Database) -> None:
    await summarised(db, ttl=3600).add(*[Message.user(f"m{n}") for n in range(6)])
    await summarised(db, ttl=7200).messages()

    def ends(connection: Connection) -> list[Any]:
        mine = select(THREADS.c.expires_at).where(THREADS.c.tenant == db.tenant)
        return list(connection.execute(mine).scalars())

    first, second = sorted(await db.run_sync(ends))

    assert second - first < timedelta(minutes=1)
    assert len(await told(db)) == 1


@pytest.mark.parametrize("then", ["nothing", "more"])
async def test_a_conversation_deleted_while_it_is_summarised_leaves_no_summary(
    db: Database, then: str
) -> None:
    async def delete() -> None:
        await memalchemy.Conversation(db, "t").delete()
        if then == "more":
            await memalchemy.Conversation(db, "t").add("other", "life")

    talk = interrupted(db, delete)
    await talk.add(*[Message.user(f"m{n}") for n in range(6)])
    await talk.messages()

    assert await told(db) == []
    assert said(await summarised(db).messages()) == (["other", "life"] if then == "more" else [])


async def test_extra_keys_of_a_snapshot_survive_a_summary_written_meanwhile(
    db: Database,
) -> None:
    async def save() -> None:
        store = memalchemy.ConversationStore(db)
        snapshot = await store.load_snapshot("t") or {}
        await store.save("t", snapshot | {"todo": "important"})

    talk = interrupted(db, save)
    await talk.add(*[Message.user(f"m{n}") for n in range(6)])
    await talk.messages()

    assert (await talk.snapshot())["todo"] == "important"
    assert said(await summarised(db).messages())[0].endswith("SUMMARY")
    assert (await talk.snapshot())["todo"] == "important"


async def test_messages_purged_while_they_are_summarised_leave_no_summary(db: Database) -> None:
    talk = interrupted(db, lambda: memalchemy.Conversation(db, "t").purge_messages(86400))
    await talk.add(*[Message.user(f"m{n}") for n in range(6)], occurred_at=LONG_AGO)
    await talk.messages()

    assert await talk.count() == 0
    assert await told(db) == []


async def test_an_interrupted_purge_leaves_no_summary_of_removed_messages(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: Any) -> None:
        raise RuntimeError("killed")

    talk = summarised(db)
    await talk.add(*[Message.user(f"m{n}") for n in range(6)], occurred_at=LONG_AGO)
    await talk.messages()
    with monkeypatch.context() as patched:
        patched.setattr(SummaryLog, "clear", die)
        with pytest.raises(RuntimeError):
            await talk.purge_messages(86400)
    await talk.purge_messages(86400)

    assert await talk.count() == 0
    assert await told(db) == []

"""Guarantees of `Conversation`, on every database."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import memalchemy
from memalchemy import Checkpointer, Conversation, Database, NotSerialisable
from memalchemy.context import (
    ContextCompactor,
    NullManager,
    SlidingWindowManager,
    SummarizingManager,
)
from memalchemy.events import Event, subscribe
from memalchemy.state import Message

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}


@pytest.fixture
def talk(db: Database) -> Conversation:
    return memalchemy.Conversation(db, "t")


def said(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


class Asked:
    """A summariser that counts how often it was asked, and for what."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self, messages: list[Any], previous: str | None) -> str:
        self.times += 1
        first = messages[0].text
        return f"{previous + '; ' if previous else ''}{len(messages)} from {first}"


async def turns(talk: Conversation, first: int, last: int) -> None:
    for n in range(first, last):
        await talk.add(f"q{n}", f"a{n}")


async def test_messages_of_any_kind_come_back_as_messages(talk: Conversation) -> None:
    @dataclass
    class Said:
        role: str
        content: str

    await talk.add(Message.system("be kind"), {"role": "user", "content": "hello"})
    await talk.add(
        [Said("assistant", "hi"), {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    )
    await talk.add(Message.tool("found", "c1", metadata={"at": datetime(2026, 1, 1, tzinfo=UTC)}))
    await talk.add("and now?", "bye")

    found = await talk.messages()

    assert [str(message.role) for message in found] == [
        "system", "user", "assistant", "assistant", "tool", "user", "assistant",
    ]  # fmt: skip
    assert said(found) == ["be kind", "hello", "hi", "", "found", "and now?", "bye"]
    assert found[3].tool_calls[0].arguments == {"q": 1}
    assert found[4].metadata == {"at": datetime(2026, 1, 1, tzinfo=UTC)}
    assert await talk.history() == found
    assert await talk.count() == 7


async def test_two_texts_are_a_turn_and_one_needs_a_role(talk: Conversation) -> None:
    assert await talk.add("hello", "hi") == [1, 2]
    assert await talk.add("", "") == []
    assert await talk.add() == []
    with pytest.raises(TypeError, match=r"Message\.user"):
        await talk.add("hello")
    with pytest.raises(TypeError):
        await talk.add(Message.user("fine"), 7)

    assert said(await talk.messages()) == ["hello", "hi"]


async def test_a_message_that_cannot_be_stored_adds_nothing(talk: Conversation) -> None:
    with pytest.raises(NotSerialisable):
        await talk.add(Message.user("a"), Message.user("b", metadata={"x": object()}))

    assert await talk.count() == 0


async def test_a_message_with_a_key_is_added_once(talk: Conversation) -> None:
    await talk.add(Message.user("a"), keys="m1")
    await talk.add(Message.user("a"), Message.assistant("b"), keys=["m1", "m2"])

    assert said(await talk.messages()) == ["a", "b"]


async def test_concurrent_writers_lose_nothing(
    db: Database, reopen: Callable[[], Database]
) -> None:
    async with reopen() as other:
        talks = [memalchemy.Conversation(one, "t") for one in (db, other) for _ in range(4)]
        await asyncio.gather(
            *(one.add(f"q{at} {n}", f"a{at} {n}") for at, one in enumerate(talks) for n in range(5))
        )

        found = said(await talks[0].messages())

    assert sorted(found) == sorted(
        f"{w}{at} {n}" for at in range(8) for n in range(5) for w in "qa"
    )
    assert all(a == q.replace("q", "a") for q, a in zip(found[::2], found[1::2], strict=True))


async def test_a_manager_gets_all_messages_and_the_log_is_not_shortened(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t", manager=SlidingWindowManager(4))
    await talk.add(Message.system("rules"))
    await turns(talk, 0, 6)

    window = await talk.messages()

    assert said(window)[0] == "rules"
    assert said(window)[-2:] == ["q5", "a5"]
    assert len(window) < 13
    assert await talk.count() == 13
    assert len(await talk.history()) == 13
    assert said(await talk.history(limit=2)) == ["q5", "a5"]
    assert said(await talk.history(after=11)) == ["q5", "a5"]
    assert all(type(message) is Message for message in window)
    null = memalchemy.Conversation(db, "t", manager=NullManager())
    assert await null.messages() == await talk.history()


async def test_a_summary_is_written_once_for_all_processes(
    db: Database, reopen: Callable[[], Database]
) -> None:
    asked = Asked()
    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2, asked))
    await turns(talk, 0, 5)
    first = await talk.messages()
    again = await talk.messages()
    async with reopen() as other:
        there = memalchemy.Conversation(other, "t", manager=SummarizingManager(6, 2, asked))
        assert await there.messages() == first

    assert asked.times == 1
    assert again == first
    assert said(first)[0].endswith("8 from q0")
    assert said(first)[1:] == ["q4", "a4"]
    assert len(await talk.history()) == 10


async def test_an_earlier_summary_becomes_part_of_the_next(db: Database) -> None:
    asked = Asked()

    def fresh() -> Conversation:  # a manager that remembers nothing, as in a new process
        return memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2, asked))

    await fresh().add(Message.system("rules"))
    await turns(fresh(), 0, 5)
    await fresh().messages()
    await turns(fresh(), 5, 8)

    found = await fresh().messages()

    assert asked.times == 2
    assert said(found)[0] == "rules"
    assert said(found)[1].endswith("8 from q0; 6 from q4")
    assert said(found)[2:] == ["q7", "a7"]
    assert await fresh().messages() == found
    assert asked.times == 2


async def test_summarised_messages_are_not_read_again(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2))
    for n in range(30):
        await talk.add(f"q{n} " + "word " * 2000, f"a{n}")
    await talk.messages()
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    await talk.messages()
    unsubscribe()

    assert len([event for event in events if event.name == "thread.read"]) == 2
    assert not [event for event in events if event.name.startswith("memory.compactor")]


@pytest.mark.parametrize("change", ["edit", "remove", "clear", "amend", "restore"])
async def test_a_summary_of_changed_messages_is_written_again(db: Database, change: str) -> None:
    asked = Asked()
    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2, asked))
    await turns(talk, 0, 5)
    await talk.messages()
    fresh = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2, asked))
    match change:
        case "edit":
            await talk.log.edit("t", 1, Message.user("changed").to_record())
            assert said(await fresh.messages())[0].endswith("8 from changed")
        case "remove":
            await talk.log.remove("t", [1, 2])
            assert said(await fresh.messages())[0].endswith("6 from q1")
        case "clear":
            assert await talk.clear() == 10
            assert await fresh.messages() == []
            assert await fresh.count() == 0
            return
        case "amend":  # the newest message is none that was summarised
            await talk.amend_last("other")
            assert said(await fresh.messages())[0].endswith("8 from q0")
            assert said(await fresh.messages())[-1] == "other"
            assert asked.times == 1
            return
        case "restore":
            await talk.restore([Message.user("all new")])
            assert said(await fresh.messages()) == ["all new"]
            return
    assert asked.times == 2


async def test_a_digest_of_a_failed_summary_is_not_stored(db: Database) -> None:
    async def broken(messages: list[Any]) -> str:
        raise ConnectionError

    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2, broken))
    await turns(talk, 0, 5)
    assert "failed" in said(await talk.messages())[0]

    asked = Asked()
    mended = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2, asked))

    assert said(await mended.messages())[0].endswith("8 from q0")


async def test_a_compactor_keeps_its_head_and_calls_stay_with_results(db: Database) -> None:
    def fresh() -> Conversation:
        manager = ContextCompactor(200, head_turns=1, tail_token_fraction=0.3)
        return memalchemy.Conversation(db, "t", manager=manager)

    talk = fresh()
    for n in range(12):
        call = {"id": f"c{n}", "name": "look", "arguments": {}}
        await talk.add(Message.user(f"q{n} " + "word " * 10), Message.assistant(None, [call]))
        await talk.add(Message.tool("result " * 10, f"c{n}"), Message.assistant(f"a{n}"))
        found = await talk.messages()
        calls = {call.id for message in found for call in message.tool_calls}
        assert {m.tool_call_id for m in found if m.tool_call_id} <= calls

    fresh = memalchemy.Conversation(
        db, "t", manager=ContextCompactor(200, head_turns=1, tail_token_fraction=0.3)
    )
    assert said(await fresh.messages()) == said(await talk.messages())
    assert await talk.count() == 48


async def test_a_summary_stands_for_no_message_that_was_only_cut(db: Database) -> None:
    asked: list[str] = []

    async def summarise(messages: list[Any], previous: str | None) -> str:
        asked.extend(message.text for message in messages)
        return "told"

    manager = ContextCompactor(200, summarize_fn=summarise, head_turns=0, tail_token_fraction=0.3)
    talk = memalchemy.Conversation(db, "t", manager=manager)
    for n in range(6):
        await talk.add(f"q{n} " + "word " * 20, f"a{n} " + "word " * 20)
    await talk.add(Message.user("huge " * 1_000))
    cut = await talk.messages()

    snapshot = await talk.snapshot()
    assert "characters left out" in cut[-1].text
    assert len(asked) == snapshot["summarized"] > 0
    assert asked == said(await talk.history())[: len(asked)]


async def test_text_formats_all_messages(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t")
    await turns(talk, 0, 8)

    text = await talk.text()

    assert text.startswith("User: q0\nAssistant: a0\n\nUser: q1\n")
    assert text.endswith("User: q7\nAssistant: a7")
    assert await memalchemy.Conversation(db, "none").text() == ""


async def test_the_last_answer_can_be_amended(talk: Conversation) -> None:
    assert await talk.amend_last("nothing there") is False
    await talk.add("q", "draft")
    await talk.add(Message.user("next"))

    assert await talk.amend_last("final") is True

    assert said(await talk.messages()) == ["q", "final", "next"]


async def test_amending_beside_concurrent_writers_loses_nothing(talk: Conversation) -> None:
    await talk.add("q", "draft")

    await asyncio.gather(
        talk.amend_last("final"), *(talk.add(Message.user(f"u{n}")) for n in range(10))
    )

    found = said(await talk.messages())
    assert found[:2] == ["q", "final"]
    assert sorted(found[2:]) == sorted(f"u{n}" for n in range(10))


async def test_each_view_returns_what_is_new_since_its_last_refresh(talk: Conversation) -> None:
    early, late = talk.view(), talk.view()
    await talk.add("q0", "a0")
    assert said(await early.refresh()) == ["q0", "a0"]
    await talk.add("q1", "a1")

    assert said(await early.refresh()) == ["q1", "a1"]
    assert (await early.refresh(), early.restarted) == ([], False)
    assert said(await late.refresh()) == ["q0", "a0", "q1", "a1"]
    await talk.amend_last("A1")
    assert said(await early.refresh()) == ["q0", "a0", "q1", "A1"]
    assert early.restarted
    await late.refresh()
    assert early.messages == late.messages == await talk.history()
    assert early.version == await talk.log.version("t")
    await talk.clear()
    assert (await early.refresh(), early.messages, early.restarted) == ([], [], True)


async def test_a_snapshot_restores_messages_summary_and_other_keys(db: Database) -> None:
    asked = Asked()
    manager = SummarizingManager(6, 2, asked)
    talk = memalchemy.Conversation(db, "t", manager=manager)
    await turns(talk, 0, 5)
    managed = await talk.messages()

    snapshot = await talk.snapshot()
    copy = memalchemy.Conversation(db, "u", manager=SummarizingManager(6, 2, asked))
    await copy.restore(snapshot | {"tool_exchange": {"open": [b"\x00", 1]}})

    assert (snapshot["summary"], snapshot["summarized"]) == ("8 from q0", 8)
    assert await copy.history() == await talk.history()
    assert said(await copy.messages()) == said(managed)
    assert asked.times == 1
    assert await copy.snapshot() == snapshot | {"tool_exchange": {"open": [b"\x00", 1]}}
    await talk.restore({"messages": [], "summary": None})
    assert await talk.snapshot() == {"messages": [], "summary": None, "summarized": 0}


@pytest.mark.parametrize("carried", [True, False])
async def test_a_restored_conversation_keeps_what_its_manager_kept(
    db: Database, carried: bool
) -> None:
    asked = Asked()
    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2, asked))
    await talk.add(Message.system("never tell the password"))
    await turns(talk, 0, 5)
    managed = said(await talk.messages())
    snapshot = await talk.snapshot()
    if not carried:  # as others write it
        del snapshot["beginning"]

    copy = memalchemy.Conversation(db, "u", manager=SummarizingManager(6, 2, asked))
    await copy.restore(snapshot)

    assert managed[0] == "never tell the password"
    assert said(await copy.messages()) == managed
    assert asked.times == 1
    assert (await copy.snapshot())["summarized"] == snapshot["summarized"]


async def test_a_restored_conversation_keeps_its_head(db: Database) -> None:
    def fresh(name: str) -> Conversation:
        manager = ContextCompactor(200, head_turns=1, tail_token_fraction=0.3)
        return memalchemy.Conversation(db, name, manager=manager)

    talk, copy = fresh("t"), fresh("u")
    for n in range(12):
        await talk.add(f"q{n} " + "word " * 20, f"a{n} " + "word " * 20)
    managed = said(await talk.messages())
    await copy.restore(await talk.snapshot())

    assert managed[0].startswith("q0")
    assert said(await copy.messages()) == managed
    beginning = (await talk.snapshot())["beginning"]
    await copy.restore(await talk.snapshot() | {"summary": "another"})
    assert (await copy.snapshot())["summary"] == "another"
    for bad in ("text", [7]):
        with pytest.raises((TypeError, ValueError)):
            await copy.restore(await talk.snapshot() | {"beginning": bad})
    assert beginning[0]["content"].startswith("q0")
    assert (await copy.snapshot())["summary"] == "another"


async def test_a_summary_of_messages_stored_elsewhere_stands_first(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2))
    await talk.restore({"messages": [{"role": "user", "content": "so?"}], "summary": "long ago"})

    found = said(await talk.messages())

    assert found[0].endswith("long ago")
    assert found[1:] == ["so?"]
    assert (await talk.snapshot())["summary"] == "long ago"
    await talk.restore(chat("so?", "well"))
    assert (await talk.snapshot())["summary"] == "long ago", "a list leaves the summary"
    await talk.restore({"messages": chat("so?", "well"), "summary": None})
    assert (await talk.snapshot())["summary"] is None


async def test_a_summary_can_be_set_and_removed(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2))
    await talk.restore({"messages": chat("one", "two", "three"), "tool_exchange": {"id": "x"}})

    await talk.set_summary("long ago")

    first, *rest = said(await talk.messages())
    assert first.endswith("long ago")
    assert rest == ["one", "two", "three"]
    snapshot = await talk.snapshot()
    assert (snapshot["summary"], snapshot["tool_exchange"]) == ("long ago", {"id": "x"})

    await talk.set_summary("one and two", summarized=2)
    assert said(await talk.messages())[1:] == ["three"]
    assert len(await talk.history()) == 3
    with pytest.raises(TypeError, match="summary is a text"):
        await talk.set_summary(7)  # type: ignore[arg-type]
    await talk.set_summary(None)
    assert said(await talk.messages()) == ["one", "two", "three"]
    assert (await talk.snapshot())["summary"] is None

    empty = memalchemy.Conversation(db, "new")
    await empty.set_summary("elsewhere")
    assert (await empty.snapshot())["summary"] == "elsewhere"


def chat(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


async def test_restoring_writes_only_the_difference(talk: Conversation) -> None:
    await turns(talk, 0, 50)
    snapshot = await talk.snapshot()
    version = await talk.log.version("t")
    await talk.restore(snapshot)
    assert await talk.log.version("t") == version
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    await talk.restore([*await talk.history(), Message.user("new")])
    unsubscribe()

    [replaced] = [event for event in events if event.name == "thread.replace"]
    assert replaced.details["entries"] == 1
    assert (await talk.log.tail("t", 1))[0].position == 101


async def test_a_transaction_holds_messages_and_a_checkpoint_together(
    db: Database, talk: Conversation, checkpointer: Checkpointer
) -> None:
    async def change() -> None:
        async with db.transaction() as tx:
            await talk.add("q", "a", connection=tx)
            await checkpointer.save({"n": 1}, "t", connection=tx)
            assert said(await talk.messages(connection=tx)) == ["q", "a"]
            raise LookupError

    with pytest.raises(LookupError):
        await change()

    assert await talk.messages() == []
    assert await checkpointer.load("t") is None


async def test_old_exchanges_go_whole_and_system_messages_stay(db: Database) -> None:
    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(4, 2))
    long_ago = datetime.now(UTC) - timedelta(days=40)
    call = {"id": "c", "name": "look", "arguments": {}}
    await talk.add(Message.system("rules"), occurred_at=long_ago)
    for n in range(5):
        await talk.add(f"old q{n}", f"old a{n}", occurred_at=long_ago)
    await talk.add(
        Message.user("half old"), Message.assistant(None, [call]), Message.system("note"),
        Message.tool("late", "c"),
        occurred_at=[long_ago, long_ago, long_ago, datetime.now(UTC)],
    )  # fmt: skip
    await talk.add("new q", "new a")
    await memalchemy.Conversation(db, "u").add("old q", "old a", occurred_at=long_ago)
    await memalchemy.Conversation(db, "new").add("q", "a")
    assert "old q0" in await talk.text()
    store = memalchemy.ConversationStore(db)

    assert await store.purge_messages(timedelta(days=30), thread_id="t", batch=3) == 10
    assert await store.purge_messages(timedelta(days=30)) == 2
    assert await store.purge_messages(timedelta(days=30)) == 0

    assert said(await talk.history()) == ["rules", "half old", "", "note", "late", "new q", "new a"]
    assert "old q0" not in await talk.text()
    assert await store.list() == ["t", "new"]
    assert await talk.log.search("old", thread_id="u") == []
    with pytest.raises(ValueError, match="longer than zero"):
        await talk.purge_messages(0)


async def test_deleting_the_thread_deletes_summary_and_all(
    db: Database, checkpointer: Checkpointer
) -> None:
    talk = memalchemy.Conversation(db, "t", manager=SummarizingManager(6, 2))
    await turns(talk, 0, 5)
    await talk.messages()

    assert await checkpointer.delete("t") is True

    assert await talk.messages() == []
    assert await talk.snapshot() == {"messages": [], "summary": None, "summarized": 0}


async def test_adding_publishes_an_event_without_the_text(talk: Conversation) -> None:
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    await talk.add("secret", "words")
    unsubscribe()

    added = [event for event in events if event.name == "memory.conversation.added"]
    assert [(event.thread_id, event.details) for event in added] == [("t", {"messages": 2})]
    assert "secret" not in repr(events)


async def test_changing_messages_that_were_read_does_not_change_later_reads(
    talk: Conversation,
) -> None:
    await talk.add(
        Message.user("a"), Message.user([{"type": "text", "text": "b"}], metadata={"n": []})
    )
    for _ in range(2):
        first, second = await talk.messages()
        first.metadata["mine"] = 1
        second.metadata["n"].append(1)
        second.content[0]["text"] = "changed"  # type: ignore[index]

    first, second = await talk.messages()
    assert first == Message.user("a")
    assert second == Message.user([{"type": "text", "text": "b"}], metadata={"n": []})


async def test_reading_again_sees_added_removed_and_edited_messages(
    talk: Conversation,
) -> None:
    await turns(talk, 0, 20)
    assert len(await talk.messages()) == 40
    await talk.add("q", "a")
    assert said(await talk.messages())[-2:] == ["q", "a"]
    await talk.log.pop("t")
    assert len(await talk.messages()) == 41
    await talk.log.edit("t", 1, {"role": "user", "content": "edited"})
    assert said(await talk.messages())[0] == "edited"
    await talk.log.delete("t")
    assert await talk.messages() == []
    await talk.add("anew", "yes")
    assert said(await talk.messages()) == ["anew", "yes"]


async def test_messages_read_in_a_rolled_back_transaction_are_not_cached(
    db: Database, talk: Conversation
) -> None:
    await talk.add("q", "a")
    assert len(await talk.messages()) == 2

    async def change() -> None:
        async with db.transaction() as tx:
            await talk.add("lost", "lost", connection=tx)
            assert len(await talk.messages(connection=tx)) == 4
            raise LookupError

    with pytest.raises(LookupError):
        await change()

    assert said(await talk.messages()) == ["q", "a"]
    await talk.add("other", "other")
    assert said(await talk.messages()) == ["q", "a", "other", "other"]


@pytest.mark.parametrize(
    "record",
    [
        {"role": "user", "content": "x"},
        {"role": "developer", "content": "x", "name": "n"},
        {"role": "tool", "tool_call_id": "c", "content": ""},
        {"role": "assistant"},
    ],
)
async def test_a_message_that_was_read_is_the_message_that_was_added(
    talk: Conversation, record: dict[str, str]
) -> None:
    await talk.add(record)
    for _ in range(2):  # from the database, and from the cache
        [found], added = await talk.messages(), Message.of(record)

        assert found == added
        assert type(found.role) is type(added.role)
        assert found.model_dump() == added.model_dump()
        assert found.model_dump(exclude_unset=True) == added.model_dump(exclude_unset=True)
        assert found.model_copy(update={"content": "y"}).text == "y"
        assert found.model_fields_set == added.model_fields_set
        assert repr(found) == repr(added)
        with pytest.raises(ValueError, match="frozen"):
            found.content = "changed"


@pytest.mark.parametrize(
    ("stranger", "wrong"),
    [
        ({"foo": "hush"}, "its role is missing"),
        (
            {"role": "user", "content": 7, "name": ["hush"]},
            "its content is of a wrong type, its",
        ),
        ({"role": "tool", "content": "x", "tool_calls": "hush"}, "its tool_calls is of a wrong"),
    ],
)
async def test_an_invalid_message_is_an_error_that_does_not_quote_it(
    db: Database, stranger: Any, wrong: str
) -> None:
    conversation = Conversation(db, "thread")

    with pytest.raises(ValueError, match=f"a message is a Message.*: {wrong}") as caught:
        await conversation.add({"role": "user", "content": "hello"}, stranger)

    assert type(caught.value) is ValueError
    assert "hush" not in "".join(traceback.format_exception(caught.value))
    assert await conversation.messages() == []

"""Messages are found by what was said in them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import memalchemy
from memalchemy import Conversation, ConversationStore, Database
from memalchemy.context import SlidingWindowManager
from memalchemy.conversations import MessageHit
from memalchemy.messages import ROLES
from memalchemy.state import Message

SAID = ("Where is my parcel?", "It is in Lyon, Ms. Müller.", "And the gift card?", "東京の天気は？")


def said(hits: list[MessageHit]) -> list[str]:
    return [hit.message.text for hit in hits]


@pytest.fixture
async def talk(db: Database) -> Conversation:
    talk = memalchemy.Conversation(db, "talk")
    for n, text in enumerate(SAID):
        await talk.add(Message.assistant(text) if n % 2 else Message.user(text), keys=[f"k{n}"])
    return talk


async def test_a_message_is_found_by_its_words(talk: Conversation) -> None:
    for n, (query, text) in enumerate(zip(("parcel", "muller", "GIFT", "天気"), SAID, strict=True)):
        (hit,) = await talk.search(query)
        assert hit.message == (await talk.history())[n]
        assert (hit.thread_id, hit.position, hit.key) == ("talk", n + 1, f"k{n}")
        assert hit.snippet == text
        assert hit.score == 1.0
        assert hit.occurred_at == (await talk.log.range("talk"))[n].occurred_at
    assert await talk.search("zeppelin") == await talk.search("!?") == await talk.search("") == []
    assert set(said(await talk.search("parcel gift"))) == {SAID[0], SAID[2]}
    assert await talk.search("parcel gift", match="all") == []
    assert len(await talk.search("parcel gift lyon", 2)) == 2
    assert await talk.search("parcel", 0) == []


async def test_other_conversations_are_searched_only_if_that_is_said(
    db: Database, talk: Conversation
) -> None:
    other = memalchemy.Conversation(db, "other")
    await other.add("Another parcel!", "Yes.")
    elsewhere = memalchemy.Conversation(db, "talk", namespace=("conversation", "ada"))
    await elsewhere.add("A parcel of Ada's.", "Yes.")
    tenant = memalchemy.Conversation(db.for_tenant(f"{db.tenant}-2"), "talk")
    await tenant.add("A parcel of another tenant's.", "Yes.")
    store = memalchemy.ConversationStore(db)

    assert said(await talk.search("parcel")) == [SAID[0]]
    assert said(await other.search("parcel")) == ["Another parcel!"]
    both = {SAID[0], "Another parcel!"}
    assert set(said(await talk.search("parcel", all_conversations=True))) == both
    assert set(said(await store.search("parcel"))) == both
    assert said(await store.search("parcel", conversation_id="other")) == ["Another parcel!"]
    assert said(await elsewhere.search("parcel", all_conversations=True)) == ["A parcel of Ada's."]
    assert await memalchemy.Conversation(db, "nobody").search("parcel") == []


async def test_the_names_of_roles_were_not_said(db: Database) -> None:
    talk = memalchemy.Conversation(db, "talk")
    for n, role in itertools.product(range(12), sorted(ROLES)):
        await talk.add({"role": role, "content": f"number {n}"})
    await talk.add(Message.user("The assistant and the user met a critic."))

    for role in sorted(ROLES):
        for query in (role, f"{role}s", f"{role} met"):
            hits = await talk.search(query, 5)
            assert {hit.message.text[:6] for hit in hits} <= {"The as"}, query
    assert len(await talk.search("user")) == len(await talk.search("users met")) == 1
    assert await talk.search("user number", match="all") == []
    assert len(await talk.search("system number 3", 500)) == len(ROLES) * 12


async def test_what_tools_were_asked_and_answered_was_said(db: Database) -> None:
    talk = memalchemy.Conversation(db, "talk")
    call = {"id": "c1", "name": "track", "arguments": {"carrier": "Colissimo"}}
    calls = {"role": "assistant", "content": None, "tool_calls": [call]}
    await talk.begin_tool_exchange(calls)
    assert await talk.search("Colissimo") == []

    await talk.commit_tool_exchange(Message.tool('{"place": "Lyon, Gare de Vaise"}', "c1"))
    (asked,) = await talk.search("colissimo")
    assert asked.message.tool_calls is not None
    (answer,) = await talk.search("vaise")
    assert (answer.message.role, answer.snippet) == ("tool", "Lyon, Gare de Vaise")


async def test_managers_and_summaries_do_not_matter(db: Database) -> None:
    manager = SlidingWindowManager(window_size=2)
    talk = memalchemy.Conversation(db, "talk", manager=manager)
    for n in range(5):
        await talk.add(f"question {n}", f"answer {n}")
    await talk.set_summary("They talked of zeppelins.", summarized=4)

    assert said(await talk.search("0", match="all")) == ["answer 0", "question 0"]
    assert await talk.search("zeppelins") == []


async def test_a_search_is_part_of_the_transaction_of_its_host(db: Database) -> None:
    talk = memalchemy.Conversation(db, "talk")
    async with db.transaction() as tx:
        await talk.add("A parcel?", "Yes.", connection=tx)
        assert said(await talk.search("parcel", connection=tx)) == ["A parcel?"]
        await tx.rollback()
    assert await talk.search("parcel") == []


async def test_what_is_removed_is_not_found(talk: Conversation) -> None:
    await talk.amend_last("A new answer.")
    assert await talk.search("天気") == []
    assert said(await talk.search("new answer", match="all")) == ["A new answer."]
    await talk.clear()
    assert await talk.search("parcel") == []


@pytest.mark.parametrize(
    ("how", "error", "why"),
    [
        ({"query": None}, TypeError, "query is a str"),
        ({"query": "a", "limit": -1}, ValueError, "limit must not be negative"),
        ({"query": "a", "limit": "many"}, TypeError, "limit is a whole number"),
        ({"query": "a", "all_conversations": 1}, TypeError, "all_conversations is True or False"),
        ({"query": "a", "match": "each"}, ValueError, "match is any or all"),
    ],
)
async def test_wrong_arguments_are_refused(
    talk: Conversation, how: dict[str, Any], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        await talk.search(**how)


async def test_the_id_of_a_conversation_is_checked_whatever_is_looked_for(db: Database) -> None:
    for query in ("parcel", "", "!?"):
        with pytest.raises(memalchemy.TooLarge):
            await memalchemy.Conversation(db, "x" * 300).search(query)
        with pytest.raises(memalchemy.TooLarge):
            await memalchemy.ConversationStore(db).search(query, conversation_id="x" * 300)


async def test_without_words_nothing_is_found(db: Database) -> None:
    silent = memalchemy.Conversation(db, "talk", index_text=False)
    await silent.add("A parcel?", "Yes.")
    assert await silent.search("parcel") == []
    assert await ConversationStore(db).search("parcel") == []

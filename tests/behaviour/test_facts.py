"""Facts about users: separate for each user, found by words and by a fading confidence."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from memory_helpers import Said, assistant, events, system, user
from store_helpers import Embedder

import memalchemy
from memalchemy import Database, MemoryFact, Store, UserMemoryStore

NOW = datetime.now(UTC)
YEAR = timedelta(days=365)


@pytest.fixture
def facts(store: Store) -> UserMemoryStore:
    return memalchemy.UserMemoryStore(store)


def fact(memory_id: str, content: str, user_id: str = "ada", **more: Any) -> MemoryFact:
    return MemoryFact(memory_id, user_id, content, **more)


def ids(found: list[MemoryFact]) -> list[str]:
    return [one.memory_id for one in found]


async def test_a_fact_comes_back_whole(facts: UserMemoryStore) -> None:
    now = datetime.now(UTC)
    seen = now - timedelta(hours=1)
    given = fact(
        "1",
        "User likes tea",
        topics=["drinks", "Food"],
        confidence=0.75,
        created_at=now - YEAR,
        last_seen_at=now,
        source_conversation_id="c1",
    )
    await facts.add(given)
    await facts.add(fact("2", "x", created_at=seen.astimezone(timezone(timedelta(hours=5)))))

    assert await facts.get("ada", "1") == given
    second = await facts.get("ada", "2")
    assert second is not None
    assert second.created_at == seen
    assert second.created_at.utcoffset() == timedelta()
    assert await facts.get("ada", "3") is None


async def test_it_works_on_a_database_as_on_a_store(db: Database) -> None:
    await memalchemy.UserMemoryStore(db).add(fact("1", "tea"))

    assert ids(await memalchemy.UserMemoryStore(memalchemy.Store(db)).list("ada")) == ["1"]


async def test_a_fact_of_the_same_id_is_replaced(facts: UserMemoryStore) -> None:
    await facts.add(fact("1", "likes tea", topics=["drinks"]))
    await facts.add(fact("1", "likes coffee"))

    (found,) = await facts.list("ada")
    assert (found.content, found.topics) == ("likes coffee", ())


async def test_a_text_is_added_as_a_fact_of_a_user(facts: UserMemoryStore) -> None:
    added = await facts.add("ada", "User likes green tea")

    assert (added.user_id, added.content, added.topics) == ("ada", "User likes green tea", ())
    assert (added.confidence, added.source_conversation_id) == (1.0, None)
    assert await facts.list("ada") == [added]
    assert await facts.get("ada", added.memory_id) == added
    assert await facts.search("ada", "tea") == [added]
    assert await facts.list("bob") == []
    more = await facts.add(
        "ada", "lives in Oslo", topics=["home"], confidence=0.5, conversation_id="c1"
    )
    assert (more.topics, more.confidence, more.source_conversation_id) == (("home",), 0.5, "c1")
    assert await facts.add(more) == more


async def test_the_same_words_added_again_are_one_fact_that_was_seen_again(
    facts: UserMemoryStore,
) -> None:
    first = await facts.add("ada", "User likes green tea.", topics=["drinks"], confidence=0.4)
    learnt = await facts.learn("ada", [], extract=lambda messages: ["user likes green tea"])
    again = await facts.add("ada", " USER likes green tea!", topics=["taste"], confidence=0.9)
    weaker = await facts.add("ada", "User likes green tea", confidence=0.1)

    assert len({first.memory_id, learnt[0].memory_id, again.memory_id, weaker.memory_id}) == 1
    assert math.isclose(learnt[0].confidence, 0.5, abs_tol=0.001)
    assert math.isclose(again.confidence, 0.9, abs_tol=0.001)
    assert math.isclose(weaker.confidence, 1.0, abs_tol=0.001)
    assert (again.content, again.topics) == ("User likes green tea.", ("drinks", "taste"))
    assert again.created_at == first.created_at
    assert again.last_seen_at > first.last_seen_at
    assert await facts.count("ada") == 1
    other = await facts.add("bob", "User likes green tea")
    assert other.confidence == 1.0


async def test_one_text_added_many_times_at_once_is_one_fact(facts: UserMemoryStore) -> None:
    await asyncio.gather(*(facts.add("ada", "likes tea", topics=[f"{n}"]) for n in range(5)))

    (found,) = await facts.list("ada")
    assert sorted(found.topics) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("given", "more", "error"),
    [
        (("ada",), {}, TypeError),
        (("ada", None), {}, TypeError),
        (("ada", 7), {}, TypeError),
        (("ada", b"tea"), {}, TypeError),
        (("ada", ["tea"]), {}, TypeError),
        (("ada", fact("1", "tea")), {}, TypeError),
        ((fact("1", "tea"), "tea"), {}, TypeError),
        ((fact("1", "tea"),), {"topics": ["drinks"]}, TypeError),
        ((fact("1", "tea"),), {"confidence": 0.5}, TypeError),
        ((fact("1", "tea"),), {"conversation_id": "c1"}, TypeError),
        ((7, "tea"), {}, TypeError),
        ((None, "tea"), {}, TypeError),
        (("", "tea"), {}, ValueError),
        ((" ", "tea"), {}, ValueError),
        (("ada", ""), {}, ValueError),
        (("ada", " \n"), {}, ValueError),
        (("ada", "tea"), {"topics": "drinks"}, TypeError),
        (("ada", "tea"), {"topics": [7]}, TypeError),
        (("ada", "tea"), {"confidence": 2}, ValueError),
        (("ada", "tea"), {"confidence": "high"}, TypeError),
    ],
)
async def test_what_is_no_fact_is_not_added(
    facts: UserMemoryStore, given: tuple[Any, ...], more: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await facts.add(*given, **more)

    assert await facts.list("ada") == []


async def test_no_operation_touches_the_facts_of_another_user(facts: UserMemoryStore) -> None:
    await facts.add(fact("1", "ada's tea", "ada"))
    await facts.add(fact("1", "bob's tea", "bob"))
    await facts.add(fact("2", "bob's milk", "bob"))

    assert await facts.get("ada", "2") is None
    assert await facts.update("ada", "2", content="stolen") is None
    assert await facts.reinforce("ada", "2") is None
    assert await facts.delete("ada", "2") is False
    assert ids(await facts.search("ada", "milk")) == []
    assert ids(await facts.search("ada", "tea")) == ["1"]
    await facts.update("ada", "1", content="ada's coffee")
    assert [one.content for one in await facts.search("bob", "tea")] == ["bob's tea"]
    assert await facts.clear("ada") == 1
    assert await facts.count("ada") == 0
    assert sorted(ids(await facts.list("bob"))) == ["1", "2"]


@pytest.mark.parametrize("name", ["a/b", "a~1b", "é", "a b", "%", "_", "x" * 200])
async def test_no_users_name_leads_to_another(facts: UserMemoryStore, name: str) -> None:
    await facts.add(fact("1", "mine", name))
    for other in ("a", "b", "ab", "e", "x"):
        assert await facts.list(other) == []

    assert [one.user_id for one in await facts.list(name)] == [name]


@pytest.mark.parametrize(
    "call",
    [
        lambda f, u: f.get(u, "1"),
        lambda f, u: f.search(u, "tea"),
        lambda f, u: f.list(u),
        lambda f, u: f.update(u, "1", content="x"),
        lambda f, u: f.reinforce(u, "1"),
        lambda f, u: f.delete(u, "1"),
        lambda f, u: f.clear(u),
        lambda f, u: f.count(u),
        lambda f, u: f.recall(u, []),
        lambda f, u: f.learn(u, []),
    ],
)
async def test_every_operation_needs_a_user(
    facts: UserMemoryStore, call: Callable[[Any, Any], Any]
) -> None:
    for nobody, error in ((None, TypeError), ("", ValueError), (" ", ValueError), (7, TypeError)):
        with pytest.raises(error, match="user_id"):
            await call(facts, nobody)


async def test_tenants_do_not_see_each_others_facts(db: Database) -> None:
    await memalchemy.UserMemoryStore(db).add(fact("1", "tea"))

    other = memalchemy.UserMemoryStore(db.for_tenant(f"{db.tenant}-2"))
    assert await other.list("ada") == []


# Finding


async def test_words_are_found_in_any_order_case_script_and_in_topics(
    facts: UserMemoryStore,
) -> None:
    await facts.add(fact("tea", "User likes green tea"))
    await facts.add(fact("cafe", "Trinkt Café in Zürich"))
    await facts.add(fact("tokyo", "東京に住んでいる"))
    await facts.add(fact("pet", "has two cats", topics=["Animals"]))

    assert ids(await facts.search("ada", "TEA likes")) == ["tea"]
    assert ids(await facts.search("ada", "zurich cafe")) == ["cafe"]
    assert ids(await facts.search("ada", "東京")) == ["tokyo"]
    assert ids(await facts.search("ada", "animals")) == ["pet"]
    assert await facts.search("ada", "zeppelin") == []


async def test_relevance_counts_and_then_confidence(facts: UserMemoryStore) -> None:
    await facts.add(fact("sure", "green things", confidence=0.9))
    await facts.add(fact("unsure", "green things", confidence=0.3))
    await facts.add(fact("fitting", "green tea", confidence=0.8))
    await facts.add(fact("doubted", "green tea", confidence=0.05))

    assert ids(await facts.search("ada", "green tea")) == ["fitting", "doubted", "sure", "unsure"]
    assert ids(await facts.search("ada", "green tea", 2)) == ["fitting", "doubted"]
    assert await facts.search("ada", "green tea", 0) == []
    with pytest.raises(ValueError, match="negative"):
        await facts.search("ada", "tea", -1)


async def test_an_empty_query_takes_all_the_surest_first(facts: UserMemoryStore) -> None:
    await facts.add(fact("a", "x", confidence=0.5))
    await facts.add(fact("b", "y", confidence=0.9, last_seen_at=NOW - timedelta(hours=1)))
    await facts.add(fact("c", "z", confidence=0.5, last_seen_at=NOW - timedelta(seconds=1)))

    assert ids(await facts.search("ada", "")) == ["b", "a", "c"]
    assert ids(await facts.search("ada", top_k=1)) == ["b"]


async def test_the_best_of_many_facts_are_the_best_of_all(store: Store) -> None:
    facts = memalchemy.UserMemoryStore(store, half_life=None)
    many = [
        ("facts", "ada"),
        [(f"f{n:04}", f"tea number {n}", (n * 7919 % 2000) / 2000) for n in range(1100)],
    ]
    batch = []
    for memory_id, content, confidence in many[1]:
        value = {
            "content": content,
            "topics": [],
            "confidence": confidence,
            "as_of": NOW,
            "created_at": NOW,
            "last_seen_at": NOW,
            "source_conversation_id": None,
        }
        batch.append((many[0], memory_id, value))
    await store.put_batch(batch)

    best = sorted(many[1], key=lambda one: one[2], reverse=True)[:5]
    assert ids(await facts.search("ada", "tea", 5)) == [one[0] for one in best]
    assert ids(await facts.search("ada", "", 5)) == [one[0] for one in best]
    assert len(await facts.list("ada")) == 1100


async def test_with_an_embedder_facts_are_found_by_meaning(db: Database) -> None:
    embedder = Embedder()
    facts = memalchemy.UserMemoryStore(memalchemy.Store(db, embedder=embedder))
    await facts.add(fact("1", "likes oolong", topics=["drinks"]))
    await facts.add(fact("2", "lives in Lisbon"))

    assert embedder.calls == [["likes oolong"], ["lives in Lisbon"]]
    assert ids(await facts.search("ada", "oolong", 1)) == ["1"]


async def test_facts_are_listed_by_topic_in_any_case_the_last_seen_first(
    facts: UserMemoryStore,
) -> None:
    await facts.add(fact("1", "tea", topics=["Food"], last_seen_at=NOW))
    await facts.add(fact("2", "cats", topics=["animals", "~/x"]))
    await facts.add(fact("3", "rice", topics=["food"], last_seen_at=NOW - YEAR))
    await facts.add(fact("4", "bread", topics=["seafood"]))

    assert ids(await facts.list("ada", "FOOD")) == ["1", "3"]
    assert ids(await facts.list("ada", topic="~/x")) == ["2"]
    assert await facts.list("ada", "foo") == []
    assert ids(await facts.list("ada"))[-1] == "3"


# Changing


async def test_an_update_changes_what_is_given_and_says_what_it_is(
    facts: UserMemoryStore,
) -> None:
    seen = datetime.now(UTC)
    await facts.add(fact("1", "tea", topics=["drinks"], confidence=0.5, last_seen_at=seen))

    changed = await facts.update("ada", "1", content="coffee")
    assert changed is not None
    assert (changed.content, changed.topics, changed.confidence) == ("coffee", ("drinks",), 0.5)
    assert changed.last_seen_at == seen
    await facts.update("ada", "1", topics=["hot"], confidence=1.0)
    assert ids(await facts.list("ada", "hot")) == ["1"]
    assert await facts.list("ada", "drinks") == []
    assert ids(await facts.search("ada", "coffee")) == ["1"]
    assert await facts.search("ada", "tea") == []
    with pytest.raises(ValueError, match="0 to 1"):
        await facts.update("ada", "1", confidence=7)


async def test_reinforcing_a_fact_raises_its_confidence(facts: UserMemoryStore) -> None:
    await facts.add(fact("1", "tea", confidence=0.5, last_seen_at=NOW - timedelta(minutes=1)))

    once = await facts.reinforce("ada", "1")
    assert once is not None
    assert math.isclose(once.confidence, 0.6, abs_tol=0.001)
    assert once.last_seen_at > NOW - timedelta(seconds=30)
    for _ in range(9):
        await facts.reinforce("ada", "1")
    last = await facts.get("ada", "1")
    assert last is not None
    assert math.isclose(last.confidence, 1.0, abs_tol=0.001)


async def test_concurrent_changes_are_all_kept(facts: UserMemoryStore) -> None:
    await facts.add(fact("1", "tea", confidence=0.0))

    await asyncio.gather(
        *(facts.reinforce("ada", "1", 0.05) for _ in range(8)),
        facts.update("ada", "1", content="coffee"),
        facts.update("ada", "1", topics=["drinks"]),
    )
    found = await facts.get("ada", "1")
    assert found is not None
    assert (found.content, found.topics) == ("coffee", ("drinks",))
    assert math.isclose(found.confidence, 0.4, abs_tol=0.001)


async def test_a_rolled_back_host_transaction_leaves_no_fact(
    db: Database, facts: UserMemoryStore
) -> None:
    await facts.add(fact("1", "tea"))
    async with db.transaction() as tx:
        await facts.add(fact("2", "milk"), connection=tx)
        await facts.update("ada", "1", content="coffee", connection=tx)
        assert len(await facts.list("ada", connection=tx)) == 2
        await tx.rollback()

    assert [one.content for one in await facts.list("ada")] == ["tea"]


# Confidence


async def test_confidence_fades_by_time_at_every_read(store: Store) -> None:
    facts = memalchemy.UserMemoryStore(store, half_life=timedelta(days=10))
    old = NOW - timedelta(days=20)
    await facts.add(fact("old", "green tea", confidence=0.8, last_seen_at=old))
    await facts.add(fact("new", "green tea", confidence=0.7))

    found = await facts.get("ada", "old")
    assert found is not None
    assert math.isclose(found.confidence, 0.2, abs_tol=0.001)
    assert found.last_seen_at == old
    assert [round(one.confidence, 2) for one in await facts.search("ada", "tea")] == [0.7, 0.2]
    assert round((await facts.list("ada"))[1].confidence, 2) == 0.2


async def test_a_fact_that_is_read_and_written_back_does_not_fade_twice(store: Store) -> None:
    facts = memalchemy.UserMemoryStore(store, half_life=timedelta(days=10))
    await facts.add(fact("1", "tea", last_seen_at=NOW - timedelta(days=10)))
    for _ in range(5):
        found = await facts.get("ada", "1")
        assert found is not None
        await facts.add(found)
        await facts.update("ada", "1", content="coffee")

    last = await facts.get("ada", "1")
    assert last is not None
    assert math.isclose(last.confidence, 0.5, abs_tol=0.001)


async def test_a_fact_that_is_written_often_fades_all_the_same(store: Store) -> None:
    minute = timedelta(minutes=1)
    facts = memalchemy.UserMemoryStore(store, half_life=minute)
    begun = datetime.now(UTC)
    await facts.add(fact("1", "tea", last_seen_at=begun))
    found = None
    while found is None or found.as_of - begun < timedelta(seconds=0.7):
        found = await facts.update("ada", "1", topics=["drinks"])
        assert found is not None
        assert found.as_of is not None

    assert math.isclose(found.confidence, 0.5 ** ((found.as_of - begun) / minute), abs_tol=0.001)


async def test_without_a_half_life_nothing_fades(store: Store) -> None:
    facts = memalchemy.UserMemoryStore(store, half_life=None)
    await facts.add(fact("1", "tea", confidence=0.8, last_seen_at=NOW - 100 * YEAR))

    found = await facts.get("ada", "1")
    assert found is not None
    assert found.confidence == 0.8
    for wrong in (0, -1, timedelta(0)):
        with pytest.raises(ValueError, match="longer than zero"):
            memalchemy.UserMemoryStore(store, half_life=wrong)


def test_decay_in_steps_is_decay_in_one() -> None:
    given = fact("1", "tea", last_seen_at=NOW)
    later = NOW + YEAR
    stepped = given
    for day in range(1, 366):
        stepped = stepped.decay(NOW + timedelta(days=day))

    assert math.isclose(stepped.confidence, given.decay(later).confidence)
    assert given.decay(NOW - YEAR).confidence == 1.0
    assert given.confidence == 1.0, "a fact is a record: it is not changed"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"confidence": 7}, ValueError),
        ({"confidence": -0.1}, ValueError),
        ({"confidence": math.nan}, ValueError),
        ({"confidence": "high"}, TypeError),
        ({"confidence": True}, TypeError),
        ({"topics": "food"}, TypeError),
        ({"topics": [1]}, TypeError),
        ({"content": None}, TypeError),
        ({"memory_id": ""}, ValueError),
        ({"user_id": " "}, ValueError),
        ({"created_at": datetime(2026, 1, 1)}, ValueError),
    ],
)
def test_a_fact_is_checked(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        MemoryFact(**{"memory_id": "1", "user_id": "ada", "content": "tea", **wrong})


# In a conversation


async def test_recall_puts_what_fits_and_what_is_surest_behind_the_prompt(
    facts: UserMemoryStore,
) -> None:
    await facts.add(fact("1", "User drinks tea", confidence=0.6))
    await facts.add(fact("2", "User has a cat", confidence=0.95))
    await facts.add(fact("3", "User owns a boat", confidence=0.2))
    said = [system("Be brief."), user("Some tea?"), assistant("…")]

    found = await facts.recall("ada", said, 2)
    assert [m["role"] for m in found] == ["system", "user", "system", "assistant"]
    assert found[2]["content"].splitlines()[3:] == [
        "## What I remember about you:",
        "- User drinks tea (confidence: medium)",
        "- User has a cat (confidence: high)",
        "</user-facts>",
    ]
    again = await facts.recall("ada", found, 3)
    assert len(again) == 4
    assert "- User owns a boat (confidence: low)" in again[2]["content"]
    assert await facts.recall("ada", found, 0) == said
    assert await facts.recall("bob", found) == said


async def test_a_turn_that_says_something_new_is_learnt_and_the_same_again_is_reinforced(
    facts: UserMemoryStore,
) -> None:
    said = [user("I live in Oslo."), assistant("Noted."), user("Hi! I like TEA. Do I like milk?")]
    with events() as told:
        (first,) = await facts.learn("ada", said, conversation_id="c1")

    assert (first.content, first.confidence) == ("I like TEA.", 0.8)
    assert first.source_conversation_id == "c1"
    assert [(e.name, e.details["facts"]) for e in told] == [("memory.facts.extracted", 1)]
    assert "TEA" not in repr(told)
    (again,) = await facts.learn("ada", [user("well: I like tea!!")], conversation_id="c2")
    assert again.memory_id != first.memory_id
    (again,) = await facts.learn("ada", [Said("user", "i like tea")], conversation_id="c2")
    assert again.memory_id == first.memory_id
    assert math.isclose(again.confidence, 0.9, abs_tol=0.001)
    assert again.source_conversation_id == "c1"
    assert await facts.learn("bob", [user("What is new?")]) == []


async def test_injected_blocks_are_not_learnt(facts: UserMemoryStore) -> None:
    await facts.add(fact("1", "User likes tea"))
    seen: list[Any] = []

    def extract(messages: list[Any]) -> list[Any]:
        seen.extend(messages)
        return []

    await facts.learn("ada", await facts.recall("ada", [user("hello")]), extract=extract)
    assert seen == [user("hello")]


async def test_an_extract_function_gives_texts_mappings_or_facts(facts: UserMemoryStore) -> None:
    async def extract(messages: list[Any]) -> list[Any]:
        return [
            "likes tea",
            {"content": "lives in Oslo", "topics": ["home"], "confidence": 0.4},
            fact("mine", "is tall"),
        ]

    found = await facts.learn("ada", [user("…")], extract=extract)
    assert [(one.content, one.topics, one.confidence) for one in found] == [
        ("likes tea", (), 0.8),
        ("lives in Oslo", ("home",), 0.4),
        ("is tall", (), 1.0),
    ]
    assert await facts.count("ada") == 3


@pytest.mark.parametrize(
    "wrong",
    [[7], [{"topics": []}], [" "], [fact("1", "x", "bob")], [{"content": "x", "confidence": 2}]],
)
async def test_invalid_facts_are_refused_and_published_as_an_event(
    facts: UserMemoryStore, wrong: list[Any]
) -> None:
    with events() as told, pytest.raises((TypeError, ValueError)):
        await facts.learn("ada", [user("…")], extract=lambda messages: wrong)

    assert [(e.name, e.error is not None) for e in told] == [("memory.facts.extract_failed", True)]
    assert await facts.count("ada") == await facts.count("bob") == 0


async def test_learning_one_thing_many_times_at_once_is_one_fact(facts: UserMemoryStore) -> None:
    await asyncio.gather(*(facts.learn("ada", [user("I like tea")]) for _ in range(5)))

    (found,) = await facts.list("ada")
    assert math.isclose(found.confidence, 1.0, abs_tol=0.001)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ('[{"content": "User likes tea", "topics": ["drinks", 7]}]', ["User likes tea"]),
        ('Sure!\n```json\n[{"content": "A"}, {"content": "B"}]\n```', ["A", "B"]),
        ("[]", []),
        ("Nothing new.", []),
        ("[{'content': 'single quotes'}]", []),
        ('[{"fact": "x"}, "y", {"content": " "}]', []),
    ],
)
async def test_an_answer_of_a_model_without_a_json_array_holds_no_facts(
    facts: UserMemoryStore, answer: str, found: list[str]
) -> None:
    asked: list[str] = []

    async def llm(prompt: str) -> str:
        asked.append(prompt)
        return answer

    said = [user("old news"), assistant("ok"), user("I like tea"), assistant("Noted.")]
    learnt = await facts.learn("ada", said, llm=llm)
    assert [one.content for one in learnt] == found
    (prompt,) = asked
    assert "user: I like tea\nassistant: Noted." in prompt
    assert "old news" not in prompt


async def test_a_model_may_answer_with_a_message(facts: UserMemoryStore) -> None:
    found = await memalchemy.memory.extract_facts(
        "I like tea", lambda prompt: Said("assistant", '[{"content": "User likes tea"}]')
    )

    assert found == [{"content": "User likes tea", "topics": []}]


async def test_without_a_half_life_confidence_is_read_exactly_as_written(store: Store) -> None:
    facts = memalchemy.UserMemoryStore(store, half_life=None)
    await facts.add(fact("1", "User likes tea", confidence=1 / 3))
    found = await facts.get("ada", "1")
    assert found is not None
    assert found.confidence == 1 / 3
    changed = await facts.update("ada", "1", confidence=1 / 7)
    assert changed is not None
    assert changed.confidence == 1 / 7


@pytest.mark.parametrize("value", [1, None, "text", {"no": "fact"}, {"content": 7}, [["a", "b"]]])
async def test_an_item_that_is_no_fact_is_left_out_with_a_warning(
    store: Store, facts: UserMemoryStore, caplog: pytest.LogCaptureFixture, value: Any
) -> None:
    await store.put(("facts", "ada"), "strange", value)
    await facts.add("ada", "likes tea")

    with caplog.at_level("WARNING"):
        (known,) = await facts.list("ada")
    assert "1 items in a namespace of facts are no facts" in caplog.text
    assert await facts.search("ada") == [known]
    (again,) = await facts.learn("ada", [user("I like it")], extract=lambda _: ["likes tea"])
    assert again.memory_id == known.memory_id
    assert "likes tea" in str(await facts.recall("ada", [user("tea?")]))
    for call in (facts.get, facts.reinforce, facts.update):
        with pytest.raises(memalchemy.Conflict, match=r"'strange' .* facts/ada is no fact"):
            await call("ada", "strange")
    assert await store.get(("facts", "ada"), "strange") == value
    assert await facts.delete("ada", "strange")

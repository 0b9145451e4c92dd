"""A search by words finds what holds any of them, or with ``match="all"`` only what holds all."""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Iterable
from itertools import product, takewhile
from typing import Any, NamedTuple

import pytest
from store_helpers import Embedder, keys_of

import memalchemy
from memalchemy import Conversation, Database, Episode, Memory, MemoryFact, MemoryType, Store
from memalchemy.codec.encryption import generate_key
from memalchemy.events import subscribe_statements
from memalchemy.inspection import Inspector
from memalchemy.state import Message
from word_searches import PACKAGES, methods_with_a_query, searches_words

NS = ("notes",)
LIMIT = 500

Labels = Iterable[Any]


class Place(NamedTuple):
    """A search by words, and how a text comes to where it looks."""

    put: Callable[[str, str], Awaitable[Any]]
    """Stores a text under a label."""
    search: Callable[..., Awaitable[Any]]
    """Takes a query and the other arguments of the search."""
    labels: Callable[[Any], Labels]
    """Returns the labels of what was found."""

    async def find(self, query: str, **how: Any) -> set[str]:
        return set(self.labels(await self.search(query, **how)))


def _in_store(db: Database) -> Place:
    store = memalchemy.Store(db)
    return Place(
        lambda label, text: store.put(NS, label, text),
        lambda query, **how: store.search(NS, query, LIMIT, **how),
        keys_of,
    )


def _in_namespaces(db: Database) -> Place:
    store = memalchemy.Store(db)
    return Place(
        lambda label, text: store.put((*NS, label[-1]), label, text),
        lambda query, **how: store.search_many([(*NS, n) for n in "0123456789"], query, **how),
        keys_of,
    )


def _in_one_namespace(db: Database) -> Place:
    notes = memalchemy.NamespacedStore(memalchemy.Store(db), NS)
    return Place(
        lambda label, text: notes.put(label, text),
        lambda query, **how: notes.search(query, LIMIT, **how),
        keys_of,
    )


def _in_memories_of_a_user(db: Database) -> Place:
    context = memalchemy.StoreContext(memalchemy.Store(db), "ada")
    return Place(
        lambda label, text: context.remember(label, text),
        lambda query, **how: context.search_memories(query, LIMIT, **how),
        keys_of,
    )


def _in_log(db: Database) -> Place:
    log = memalchemy.ThreadLog(db)
    return Place(
        lambda label, text: log.append(f"thread {label[-1]}", text, keys=label),
        lambda query, **how: log.search(query, LIMIT, **how),
        lambda hits: [hit.key for hit in hits],
    )


def _in_conversations(db: Database) -> Place:
    def conversation(label: str) -> Conversation:
        return memalchemy.Conversation(db, label)

    return Place(
        lambda label, text: conversation(label).add(Message.user(text)),
        lambda query, **how: conversation("0").search(query, LIMIT, all_conversations=True, **how),
        lambda hits: [hit.thread_id for hit in hits],
    )


def _in_stored_conversations(db: Database) -> Place:
    store = memalchemy.ConversationStore(db)
    return Place(
        lambda label, text: store.save(label, [Message.user(text)]),
        lambda query, **how: store.search(query, LIMIT, **how),
        lambda hits: [hit.thread_id for hit in hits],
    )


def _in_checkpoints(db: Database, kind: str = "Checkpointer") -> Place:
    checkpointer = getattr(memalchemy, kind)(db)
    return Place(
        lambda label, text: checkpointer.save({"messages": [], "said": text}, label),
        lambda query, **how: checkpointer.search(query, LIMIT, **how),
        lambda hits: [hit["thread_id"] for hit in hits],
    )


def _in_documents(db: Database) -> Place:
    documents = memalchemy.VectorStore(db)
    return Place(
        lambda label, text: documents.upsert(text, id=label),
        lambda query, **how: documents.search(query, k=LIMIT, **how),
        lambda found: [one.id for one in found],
    )


def _in_facts(db: Database) -> Place:
    facts = memalchemy.UserMemoryStore(db)
    return Place(
        lambda label, text: facts.add(MemoryFact(label, "ada", text)),
        lambda query, **how: facts.search("ada", query, LIMIT, **how),
        lambda found: [one.memory_id for one in found],
    )


def _in_episodes(db: Database) -> Place:
    episodes = memalchemy.EpisodeStore(db, max_results=LIMIT)
    return Place(
        lambda label, text: episodes.write(Episode(id_=label, task=text)),
        lambda query, **how: episodes.recall(query, **how),
        lambda found: [one.id_ for one in found],
    )


def _in_memories(db: Database, *, relevant: bool) -> Place:
    manager = memalchemy.LLMMemoryManager(db, max_memories=None)
    # Behind what was found follows what was saved last.
    end = Memory(MemoryType.USER, "end", "Ω")

    async def search(query: str, **how: Any) -> Any:
        if relevant:
            return await manager.retrieve_relevant(query, LIMIT, **how)
        return await manager.retrieve(LIMIT, query=query, **how)

    return Place(
        lambda label, text: manager.save([Memory(MemoryType.USER, label, text), end]),
        search,
        lambda found: [one.key for one in takewhile(lambda one: one != end, found)],
    )


def _in_kind(db: Database, kind: str) -> Place:
    """The inspector's one search, of one kind."""
    of = {"step": _in_checkpoints, "entry": _in_log, "item": _in_store}[kind](db)
    inspector = Inspector(db)
    name = {"step": "thread_id", "entry": "key", "item": "key"}[kind]
    return Place(
        of.put,
        lambda query, **how: inspector.search(query, limit=LIMIT, kinds=[kind], **how),
        lambda page: [hit[name] for hit in page["hits"]],
    )


def _in_items(db: Database) -> Place:
    inspector = Inspector(db)
    return Place(
        _in_store(db).put,
        lambda query, **how: inspector.items(NS, query, limit=LIMIT, **how),
        lambda page: [item["key"] for item in page["items"]],
    )


PLACES: dict[str, Callable[[Database], Place]] = {
    "Store.search": _in_store,
    "Store.search_many": _in_namespaces,
    "NamespacedStore.search": _in_one_namespace,
    "StoreContext.search_memories": _in_memories_of_a_user,
    "ThreadLog.search": _in_log,
    "Checkpointer.search": _in_checkpoints,
    "RetainedCheckpointer.search": lambda db: _in_checkpoints(db, "RetainedCheckpointer"),
    "Conversation.search": _in_conversations,
    "ConversationStore.search": _in_stored_conversations,
    "VectorStore.search": _in_documents,
    "UserMemoryStore.search": _in_facts,
    "EpisodeStore.recall": _in_episodes,
    "LLMMemoryManager.retrieve": lambda db: _in_memories(db, relevant=False),
    "LLMMemoryManager.retrieve_relevant": lambda db: _in_memories(db, relevant=True),
    "Inspector.search of steps": lambda db: _in_kind(db, "step"),
    "Inspector.search of entries": lambda db: _in_kind(db, "entry"),
    "Inspector.search of items": lambda db: _in_kind(db, "item"),
    "Inspector.items": _in_items,
}
SPEAKS_HTTP = "HTTP"
"""How classes begin whose searches the tests of HTTP try."""

places = pytest.mark.parametrize("name", PLACES)

WRONG: tuple[Any, ...] = (
    *("", "some", "ALL", "all ", "any,all", b"all", None, True, 0, 1.0),
    *(["all"], ("any", "all"), {"all"}, object()),
)

SCRIPTS = {
    "latin": ("apple", "Łódź", "naïve", "Straße", "peanuts", "snake"),
    "cyrillic": ("яблоко", "ёлка", "город", "стол"),
    "greek": ("ΑΘΗΝΑ", "λόγος", "οδός"),
    "hebrew and arabic": ("שלום", "בית", "كتاب", "سلام"),
    "indic": ("मेल", "मूल", "मल", "हिन्दी", "বাংলা", "தமிழ்"),
    "han": ("东京", "绿茶", "天气", "茶", "雨"),
    "kana": ("ください", "カタカナ", "りんご", "う"),
    "hangul": ("한국", "서울", "물"),
    "thai": ("ภาษา", "กาแฟ", "น้ำ"),
    "lao, khmer, burmese": ("ພາສາ", "ភាសា", "မြန်မာ"),
    "others": ("ქართული", "አማርኛ", "42", "👍"),
}
"""Words of many scripts; the short ones of Han, kana and Hangul begin others, and are found so."""

WORDS = tuple(word for words in SCRIPTS.values() for word in words)


def test_every_search_by_words_is_tried() -> None:
    packages = tuple(
        one
        for one in PACKAGES
        if one.__name__ not in ("memalchemy.sync", "memalchemy.http.blocking")
    )
    there = {name for name, _ in methods_with_a_query(packages) if searches_words(name)}
    there -= {name for name in there if name.startswith((SPEAKS_HTTP, "Base"))}

    assert there == {name.partition(" of ")[0] for name in PLACES}


@places
async def test_any_is_some_of_the_words_and_all_is_every_one(db: Database, name: str) -> None:
    place = PLACES[name](db)
    for label, text in enumerate(("red apple", "red pear", "red apple and pear", "plum")):
        await place.put(str(label), text)

    assert await place.find("apple pear") == {"0", "1", "2"}
    assert await place.find("apple pear", match="any") == {"0", "1", "2"}
    assert await place.find("apple pear", match="all") == {"2"}
    assert await place.find("red", match="all") == {"0", "1", "2"}
    assert await place.find("apple zeppelin", match="all") == set()
    assert await place.find("pears", match="all") == set()
    assert await place.find("!?", match="all") == await place.find("!?")


@places
async def test_anything_else_is_refused_before_anything_is_read(db: Database, name: str) -> None:
    place = PLACES[name](db)
    await place.put("0", "apple")
    sent: list[Any] = []
    end = subscribe_statements(sent.append)
    try:
        for wrong, query in product(WRONG, ("apple", "", "!?")):
            with pytest.raises(ValueError, match="match is any or all, not"):
                await place.search(query, match=wrong)
    finally:
        end()

    assert sent == []


def texts_and_queries(
    seed: int, texts: int, queries: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Return texts of some words of any script, and queries; some of words that are in one text."""
    dice = random.Random(seed)
    made = [dice.sample(WORDS, dice.randint(1, 12)) for _ in range(texts)]
    made += [list(WORDS), [*WORDS, "apple", "apple"]]
    asked = [dice.sample(WORDS, dice.randint(1, 4)) for _ in range(queries // 2)]
    for _ in range(queries // 2):
        of = dice.choice(made)
        asked.append(dice.sample(of, dice.randint(1, min(len(of), 6))))
    return made, [*asked, list(WORDS), [*WORDS, "zeppelin"], ["apple", "APPLE", "apple"]]


def holds(text: list[str], word: str) -> bool:
    """Return whether a text has a word; a single character of a script of pairs is in others."""
    return word in text or (len(word) == 1 and any(word in other for other in text))


@pytest.mark.parametrize("name", ["Store.search", "ThreadLog.search", "Checkpointer.search"])
async def test_all_is_every_word_in_every_script(db: Database, name: str) -> None:
    texts, queries = texts_and_queries(38, texts=60, queries=120)
    place = PLACES[name](db)
    for label, words in enumerate(texts):
        await place.put(str(label), " ".join(words))

    for words in queries:
        wanted = {word for word in words if word != "APPLE"}
        expected = {
            str(label) for label, text in enumerate(texts) if all(holds(text, w) for w in wanted)
        }
        assert await place.find(" ".join(words), match="all") == expected, words


@pytest.mark.parametrize("name", ["Store.search", "ThreadLog.search", "Checkpointer.search"])
async def test_none_of_many_words_may_be_missing(db: Database, name: str) -> None:
    """Of a long query only the rarest words are looked for, unless all have to be there."""
    words = [f"word{n}" for n in range(100)]
    place = PLACES[name](db)
    await place.put("0", " ".join(words))
    for n in range(9):
        await place.put(str(n + 1), " ".join(words[:-1] if n else words[1:]))

    assert await place.find(" ".join(words), match="all") == {"0"}
    assert await place.find(" ".join(words[1:-1]), match="all") == {str(n) for n in range(10)}
    assert await place.find(" ".join([*words, "more"]), match="all") == set()


async def test_a_character_that_begins_two_words_counts_once(db: Database) -> None:
    place = _in_store(db)
    await place.put("0", "茶叶 茶杯 茶")
    await place.put("1", "茶叶 红")

    assert await place.find("茶 红", match="all") == {"1"}
    assert await place.find("茶 茶 茶", match="all") == {"0", "1"}
    assert await place.find("茶 绿", match="all") == set()


async def test_meaning_adds_to_the_words_of_a_hybrid_search(db: Database) -> None:
    store: Store = memalchemy.Store(db, embedder=Embedder())
    for key, text in (("both", "red apple"), ("one", "red pear"), ("none", "plum")):
        await store.put(NS, key, text)

    found = keys_of(await store.search(NS, "red apple", mode="hybrid", match="all", alpha=0.01))
    assert found[0] == "both"
    assert set(found) == {"both", "one", "none"}
    with pytest.raises(ValueError, match="match= is for the modes text and hybrid"):
        await store.search(NS, "red apple", mode="vector", match="all")


@pytest.mark.own_signing_keys
async def test_of_a_signed_database_too(shared_url: str) -> None:
    async with Database(
        shared_url, tenant=uuid.uuid4().hex, signing_keys=[generate_key()]
    ) as signed:
        for place in (_in_store(signed), _in_log(signed), _in_checkpoints(signed)):
            await place.put("0", "red apple")
            await place.put("1", "red pear")

            assert await place.find("red apple", match="all") == {"0"}
            assert await place.find("red apple") == {"0", "1"}

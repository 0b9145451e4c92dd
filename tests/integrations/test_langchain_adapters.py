"""LangChain's histories, stores, documents, records and answers: what they return, and to whom."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core._api.deprecation import LangChainDeprecationWarning
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, Generation
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from drawn_examples import examples
from lifetimes import end_lifetimes, end_lifetimes_of_threads
from memalchemy import Database, NotSerialisable, TooLarge
from memalchemy import VectorStore as NativeVectorStore
from memalchemy.integrations.langchain import (
    MemalchemyByteStore,
    MemalchemyCache,
    MemalchemyChatMessageHistory,
    MemalchemyRecordManager,
    MemalchemyStore,
    MemalchemyVectorStore,
)
from memalchemy.integrations.langchain._records import MESSAGES
from memalchemy.messages import role_of

Reopen = Callable[[], Database]

each_example_again = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

CALL = {"name": "weather", "args": {"city": "Oslo", "days": [1, 2]}, "id": "c1"}
USAGE = {
    "input_tokens": 3,
    "output_tokens": 4,
    "total_tokens": 7,
    "input_token_details": {"cache_read": 1},
}
TALK: list[BaseMessage] = [
    SystemMessage("Be brief.", id="s"),
    HumanMessage([{"type": "text", "text": "Weather in Ångström?"}], name="ada"),
    AIMessage(
        "",
        id="run-1",
        tool_calls=[CALL],
        invalid_tool_calls=[{"name": "f", "args": "{", "id": "c2", "error": "no JSON"}],
        usage_metadata=USAGE,
        response_metadata={"model_name": "m", "logprobs": None},
    ),
    ToolMessage("rain", tool_call_id="c1", artifact={"raw": b"\x00\xff"}, status="error"),
    AIMessage(
        "Rain.", additional_kwargs={"at": datetime(2026, 3, 1, tzinfo=UTC), "lc": 1, "id": ["x"]}
    ),
    ChatMessage("hm", role="critic"),
    FunctionMessage("1", name="one"),
    RemoveMessage(id="s"),
    AIMessageChunk("a", tool_call_chunks=[{"name": "f", "args": '{"a":', "id": "1", "index": 0}]),
    HumanMessage("", thought="not a field of the class"),
]


# --- Histories ------------------------------------------------------------------------------------


def history(db: Database, session_id: str = "ada", **options: Any) -> MemalchemyChatMessageHistory:
    return MemalchemyChatMessageHistory(db, session_id=session_id, **options)


def test_messages_come_back_equal_and_of_their_classes(db: Database) -> None:
    talk = history(db)
    talk.add_messages(TALK[:3])
    talk.add_messages(TALK[3:])

    found = talk.messages
    assert found == TALK
    assert list(map(type, found)) == list(map(type, TALK))
    assert [one.model_dump() for one in found] == [one.model_dump() for one in TALK]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
mappings = st.dictionaries(st.text(max_size=5), json_values, max_size=3)
texts = st.text(max_size=20)
contents = texts | st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts))
ids = st.none() | st.text(min_size=1, max_size=10)
calls = st.builds(
    lambda name, args, id_: {"name": name, "args": args, "id": id_, "type": "tool_call"},
    texts,
    mappings,
    ids,
)
common = {"content": contents, "id": ids, "name": ids, "response_metadata": mappings}
messages = st.one_of(
    st.builds(HumanMessage, additional_kwargs=mappings, **common),
    st.builds(SystemMessage, **common),
    st.builds(AIMessage, tool_calls=st.lists(calls, max_size=2), **common),
    st.builds(ToolMessage, tool_call_id=texts, artifact=json_values, **common),
    st.builds(ChatMessage, role=texts, **common),
)


@each_example_again
@given(talk=st.lists(messages, max_size=6))
def test_any_messages_come_back_equal(db: Database, talk: list[BaseMessage]) -> None:
    ours = history(db, "random")
    ours.clear()
    ours.add_messages(talk)

    assert ours.messages == talk
    assert list(map(type, ours.messages)) == list(map(type, talk))


def test_tool_calls_that_were_removed_from_a_message_stay_removed(db: Database) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = AIMessage("", additional_kwargs={"tool_calls": [call]})
    assert message.tool_calls
    message.tool_calls = []
    history(db).add_message(message)

    assert history(db).messages == [message]


class Poem(HumanMessage):
    """A message of somebody's own class."""

    metre: str = "iambic"


class Gesture(BaseMessage):
    type: str = "gesture"


def test_an_object_of_a_subclass_comes_back_as_langchains_class_with_its_fields(
    db: Database,
) -> None:
    history(db).add_message(Poem("o", metre="dactyl"))

    (found,) = history(db).messages
    assert type(found) is HumanMessage
    assert found.metre == "dactyl"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Gesture(content="waves"), TypeError),
        ("hello", TypeError),
        (ToolMessage("x", tool_call_id="1", artifact=object()), NotSerialisable),
    ],
    ids=["class", "str", "artifact"],
)
def test_a_message_that_cannot_be_stored_is_refused_with_all_others(
    db: Database, bad: Any, error: type[Exception]
) -> None:
    talk = history(db)
    with pytest.raises(error):
        talk.add_messages([HumanMessage("before"), bad])
    assert talk.messages == []


def test_every_message_class_of_langchain_has_a_place_and_a_role() -> None:
    public = {
        cls for cls in _subclasses(BaseMessage) if cls.__module__.startswith("langchain_core")
    }
    named = {cls for cls in public if "type" in cls.model_fields and _type_of(cls)}

    assert set(MESSAGES.values()) == named
    assert {kind for kind, cls in MESSAGES.items() if _type_of(cls) != kind} == set()
    without = {"chat", "ChatMessageChunk", "remove"}  # the first two have a role of their own
    roles = {kind: role_of({"type": kind}) for kind in MESSAGES if kind not in without}
    assert all(roles.values()), roles


def _subclasses(cls: type) -> Iterator[Any]:
    for one in cls.__subclasses__():
        yield one
        yield from _subclasses(one)


def _type_of(cls: Any) -> str | None:
    default = cls.model_fields["type"].default
    return default if isinstance(default, str) else None


def test_histories_of_other_sessions_and_namespaces_are_others(db: Database) -> None:
    talks = [history(db), history(db, "bob"), history(db, namespace=("team",))]
    for number, talk in enumerate(talks):
        talk.add_user_message(str(number))

    talks[0].clear()
    assert [str(talk) for talk in talks] == ["", "Human: 1", "Human: 2"]


@pytest.mark.parametrize("session_id", ["x" * 256, 7, None])
def test_a_session_id_that_is_no_threads_id_is_refused(db: Database, session_id: Any) -> None:
    with pytest.raises((TooLarge, TypeError)):
        history(db, session_id)


async def test_the_log_and_its_search_know_the_messages(db: Database) -> None:
    await history(db).aadd_messages(TALK)

    log = history(db).log
    assert log.namespace == ("langchain", "messages")
    assert await log.list_threads() == ["ada"]
    (hit,) = await log.search("ångström")
    assert role_of(hit.value) == "user"
    assert len(await log.tail("ada", 3)) == 3


async def test_those_who_add_at_once_lose_nothing_and_additions_are_whole(
    db: Database, reopen: Reopen
) -> None:
    pair = [[HumanMessage(f"{who}"), AIMessage(f"{who}")] for who in range(10)]
    async with reopen() as other:
        await asyncio.gather(
            *(history((db, other)[at % 2]).aadd_messages(one) for at, one in enumerate(pair))
        )

    said = [message.content for message in await history(db).aget_messages()]
    assert said[::2] == said[1::2]
    assert sorted(map(int, said[::2])) == list(range(10))


def test_a_session_expires_after_its_last_message(db: Database) -> None:
    talk = history(db, ttl=timedelta(minutes=1))
    talk.add_user_message("gone soon")
    assert len(talk.messages) == 1
    talk.wait(end_lifetimes_of_threads(db))
    assert talk.messages == []


async def test_a_chain_remembers_after_a_restart(db: Database, reopen: Reopen) -> None:
    asked: list[list[Any]] = []

    class Model(GenericFakeChatModel):
        def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
            asked.append([message.content for message in messages])
            return super()._generate(messages, *args, **options)

    def chain(db: Database, *answers: str) -> RunnableWithMessageHistory:
        model = Model(messages=iter(answers))
        with pytest.warns(LangChainDeprecationWarning):
            return RunnableWithMessageHistory(model, lambda session_id: history(db, session_id))

    config: Any = {"configurable": {"session_id": "ada"}}
    chain(db, "Hello Ada.").invoke([HumanMessage("I am Ada.")], config)
    async with reopen() as other:
        answer = await chain(other, "Ada.").ainvoke([HumanMessage("Who am I?")], config)
    assert answer.content == "Ada."

    assert asked == [["I am Ada."], ["I am Ada.", "Hello Ada.", "Who am I?"]]
    assert [message.content for message in history(db).messages] == [*asked[-1], "Ada."]


# --- Stores ---------------------------------------------------------------------------------------


def test_a_store_returns_documents_messages_and_new_objects(db: Database) -> None:
    store = MemalchemyStore(db)
    values = [Document("a", id="1", metadata={"n": [1]}), TALK[2], {"class": "document"}, [1, 2]]
    store.mset([(str(at), value) for at, value in enumerate(values)])

    found = store.mget(["3", "2", "1", "0", "none", "0"])
    assert found == [*values[::-1], None, values[0]]
    found[3].metadata["n"].append(2)
    assert store.mget(["0"]) == [values[0]]


def test_keys_are_listed_by_prefix_in_their_order(db: Database) -> None:
    store = MemalchemyByteStore(db)
    store.mset([(key, b"") for key in ("b/2", "a", "b/10", "c")])

    assert list(store.yield_keys(prefix="b/")) == ["b/10", "b/2"]
    assert list(store.yield_keys()) == ["a", "b/10", "b/2", "c"]


def test_a_value_that_a_store_does_not_take_changes_nothing(db: Database) -> None:
    with pytest.raises(NotSerialisable):
        MemalchemyStore(db).mset([("a", 1), ("b", object())])
    with pytest.raises(TypeError, match="bytes"):
        MemalchemyByteStore(db).mset([("a", b"1"), ("b", "text")])  # type: ignore[list-item]
    assert MemalchemyStore(db).mget(["a"]) == MemalchemyByteStore(db).mget(["a"]) == [None]


def test_stores_of_two_kinds_may_be_given_one_namespace(db: Database) -> None:
    MemalchemyStore(db, namespace=("n",)).mset([("a", 1)])
    MemalchemyByteStore(db, namespace=("n",)).mset([("a", b"1")])

    assert MemalchemyStore(db, namespace=("n",)).mget(["a"]) == [1]
    assert MemalchemyByteStore(db, namespace=("n",)).mget(["a"]) == [b"1"]
    assert MemalchemyStore(db).mget(["a"]) == [None]


# --- Documents ------------------------------------------------------------------------------------


class Plane(Embeddings):
    """Vectors in a plane, from texts like ``1 2``."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(number) for number in text.split()]


def documents(db: Database, **options: Any) -> MemalchemyVectorStore:
    return MemalchemyVectorStore(db, embedding=Plane(), **options)


numbers = st.integers(-5, 5)
points = st.tuples(numbers, numbers).filter(any).map(lambda point: f"{point[0]} {point[1]}")
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(st.tuples(st.sampled_from("abcdef"), points), max_size=4)),
    st.tuples(st.just("delete"), st.lists(st.sampled_from("abcdef"), max_size=2)),
)


@each_example_again
@given(steps=st.lists(steps, max_size=8), query=points, k=st.integers(1, 4))
def test_documents_are_found_as_langchains_store_in_memory_finds_them(
    db: Database, steps: list[Any], query: str, k: int
) -> None:
    ours, theirs = documents(db), InMemoryVectorStore(Plane())
    ours.delete()
    for name, given_ in steps:
        if name == "add":
            some = [Document(text, id=id_, metadata={"x": text[0]}) for id_, text in given_]
            assert ours.add_documents(some) == theirs.add_documents(some)
        else:
            ours.delete(given_)
            theirs.delete(given_)

    assert ours.get_by_ids([*"fedcba"]) == theirs.get_by_ids([*"fedcba"])
    for wanted in (None, {"x": query[0]}):
        keep: Any = None if wanted is None else lambda one: one.metadata["x"] == query[0]
        best = theirs.similarity_search_with_score(query, 10, filter=keep)
        found = ours.similarity_search_with_score(query, k, filter=wanted)
        likeness = {one.id: score for one, score in best}
        assert [2 * score - 1 for _, score in found] == pytest.approx(
            [score for _, score in best[:k]], abs=1e-5
        )
        assert all(likeness[one.id] == pytest.approx(2 * s - 1, abs=1e-5) for one, s in found)


@each_example_again
@given(
    some=st.lists(st.lists(st.floats(-1, 1, width=16), min_size=3, max_size=3), max_size=12),
    k=st.integers(1, 5),
    fetch_k=st.integers(1, 12),
    share=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_diverse_documents_are_those_that_langchain_chooses(
    db: Database, some: list[list[float]], k: int, fetch_k: int, share: float
) -> None:
    # Distinct directions, so that no two choices are worth the same.
    texts = [f"{at + 1} {x + at * at} {y + 1} {z}" for at, (x, y, z) in enumerate(some)]
    ours, theirs = documents(db, namespace=("diverse",)), InMemoryVectorStore(Plane())
    ours.delete()
    for store in (ours, theirs):
        store.add_texts(texts, ids=texts)
    args: Any = ("1 2 3 4", k, fetch_k, share)

    found = ours.max_marginal_relevance_search(*args)
    assert [one.id for one in found] == [
        one.id for one in theirs.max_marginal_relevance_search(*args)
    ]
    assert found == ours.max_marginal_relevance_search_by_vector([1, 2, 3, 4], k, fetch_k, share)


async def test_methods_with_await_do_the_same(db: Database) -> None:
    store = documents(db)
    assert await store.aadd_texts(["1 0", "0 1"], [{"n": 1}, {"n": 2}], ids=["x", "y"])
    query = "1 0.1"
    assert await store.asimilarity_search(query, 1) == store.similarity_search(query, 1)
    assert await store.asimilarity_search_with_score(query) == (
        store.similarity_search_with_score(query)
    )
    assert await store.asimilarity_search_by_vector([1, 0]) == (
        store.similarity_search_by_vector([1, 0])
    )
    assert await store.amax_marginal_relevance_search(query) == (
        store.max_marginal_relevance_search(query)
    )
    assert await store.amax_marginal_relevance_search_by_vector([1, 0]) == (
        store.max_marginal_relevance_search_by_vector([1, 0])
    )
    assert await store.adelete(["x"]) is True
    assert [one.id for one in await store.aget_by_ids(["x", "y"])] == ["y"]


def test_documents_are_filtered_by_their_metadata(db: Database) -> None:
    store = documents(db)
    store.add_texts(["1 1"] * 4, [{"n": n, "tags": ["a"]} for n in range(4)], ids=[*"abcd"])

    def found(wanted: Any) -> list[Any]:
        return sorted(str(one.id) for one in store.similarity_search("1 1", 9, filter=wanted))

    assert found({"n": 1}) == ["b"]
    assert found({"n": {"$gte": 2}}) == ["c", "d"]
    assert found({"$or": [{"n": 0}, {"n": {"$in": [3]}}]}) == ["a", "d"]
    assert found({"$not": {"n": 0}}) == ["b", "c", "d"]
    assert found({"tags": ["a"]}) == ["a", "b", "c", "d"]
    with pytest.raises(TypeError, match="mapping"):
        store.similarity_search("1 1", filter=lambda document: True)
    with pytest.raises(ValueError, match="unknown operator"):
        store.similarity_search("1 1", filter={"n": {"$near": 1}})


def test_retrievers_of_each_kind_find_documents(db: Database) -> None:
    store = documents(db)
    store.add_texts(["1 0", "1 0.1", "0 1", "-1 0"], ids=[*"abcd"])

    def found(search_type: str, **options: Any) -> list[Any]:
        retriever = store.as_retriever(search_type=search_type, search_kwargs=options)
        return [one.id for one in retriever.invoke("1 0")]

    assert found("similarity", k=2) == ["a", "b"]
    assert found("mmr", k=2, lambda_mult=0.1) == ["a", "d"]
    assert found("similarity_score_threshold", score_threshold=0.6) == ["a", "b"]
    # The hook by which VectorStore makes relevance of a score.
    assert VectorStore._select_relevance_score_fn is not None


def test_a_hybrid_search_finds_words_too(db: Database) -> None:
    store = MemalchemyVectorStore(db, embedding=DeterministicFakeEmbedding(size=8))
    texts = [f"text number {n}" for n in range(20)] + ["a kettle"]
    store.add_texts(texts, ids=texts)

    found = store.similarity_search("kettle", 3, mode="hybrid")
    assert "a kettle" in [one.id for one in found]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ids": ["a"]},
        {"metadatas": [{}]},
        {"ids": ["a", "b", "c"]},
        {"metadatas": [{}, {"a": {1}}]},
    ],
    ids=["ids", "metadatas", "more", "set"],
)
def test_texts_that_do_not_fit_their_ids_and_metadata_are_refused(
    db: Database, wrong: dict[str, Any]
) -> None:
    store = documents(db)
    with pytest.raises((ValueError, NotSerialisable)):
        store.add_texts(["1 0", "0 1"], **wrong)
    with pytest.raises(TypeError, match="unknown arguments: id"):
        store.add_texts(["1 0"], id="a")
    with pytest.raises(TypeError, match="unknown arguments: filters"):
        store.similarity_search("1 0", filters={})
    assert store.similarity_search("1 1") == []


async def test_a_store_is_made_of_texts_and_of_documents(db: Database) -> None:
    MemalchemyVectorStore.from_texts(["1 0"], Plane(), ids=["a"], db=db)
    MemalchemyVectorStore.from_documents([Document("0 1", id="b")], Plane(), db=db)
    await MemalchemyVectorStore.afrom_texts(["1 1"], Plane(), ids=["c"], db=db)

    assert [one.id for one in documents(db).get_by_ids(["a", "b", "c"])] == ["a", "b", "c"]
    assert documents(db).delete([]) is True
    assert documents(db).delete() is True
    assert documents(db).get_by_ids(["a"]) == []


async def test_memalchemys_own_vector_store_finds_the_documents(db: Database) -> None:
    store = documents(db)
    await store.aadd_texts(["1 0", "0 1"], [{"n": 1}, {"n": 2}], ids=["x", "y"])

    native = NativeVectorStore(db, namespace=store.namespace)
    (hit,) = await native.search(embedding=[1, 0], filter={"n": 1})
    assert (hit.id, hit.content, hit.metadata) == ("x", "1 0", {"n": 1})
    await native.upsert("1 1", id="z", embedding=[1, 1])
    assert await store.aget_by_ids(["z"]) == [Document("1 1", id="z")]


async def test_an_embedding_is_called_in_the_callers_own_loop_and_thread(db: Database) -> None:
    import threading

    seen: list[object] = []

    class Watched(Plane):
        def embed_query(self, text: str) -> list[float]:
            seen.append(threading.current_thread())
            return super().embed_query(text)

        async def aembed_query(self, text: str) -> list[float]:
            seen.append(asyncio.get_running_loop())
            return Plane.embed_query(self, text)

    store = MemalchemyVectorStore(db, embedding=Watched())
    store.similarity_search("1 0")
    await store.asimilarity_search("1 0")

    assert seen == [threading.current_thread(), asyncio.get_running_loop()]


# --- Records --------------------------------------------------------------------------------------

record_steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("update"),
            st.lists(
                st.tuples(st.sampled_from("abcdef"), st.none() | st.sampled_from("xy")),
                max_size=3,
                unique_by=lambda pair: pair[0],
            ),
        ),
        st.tuples(st.just("delete"), st.lists(st.sampled_from("abcdef"), max_size=2)),
    ),
    max_size=6,
)


@each_example_again
@given(steps=record_steps, limit=st.none() | st.integers(1, 3))
def test_records_are_those_of_the_manager_in_memory(
    db: Database, steps: list[Any], limit: int | None
) -> None:
    clock = iter(range(1, 100))

    class Theirs(InMemoryRecordManager):
        def get_time(self) -> float:
            return now

    class Ours(MemalchemyRecordManager):
        def get_time(self) -> float:
            return now

    ours, theirs = Ours(db, namespace="docs"), Theirs("docs")
    ours.delete_keys([*"abcdef"])
    for name, given_ in steps:
        now = float(next(clock))
        for manager in (ours, theirs):
            if name == "update":
                keys, groups = [key for key, _ in given_], [group for _, group in given_]
                manager.update(keys, group_ids=groups)
            else:
                manager.delete_keys(given_)

    assert ours.exists([*"fedcba"]) == theirs.exists([*"fedcba"])
    for wanted in (
        {},
        {"before": 3.0},
        {"after": 2.0},
        {"after": 1.0, "before": 4.0},
        {"group_ids": ["x"]},
        {"group_ids": ["x", "y"], "before": 4.0},
    ):
        expected = sorted(theirs.list_keys(**wanted))  # type: ignore[arg-type]
        assert ours.list_keys(**wanted, limit=limit) == expected[:limit]  # type: ignore[arg-type]


def test_wrong_records_are_refused(db: Database) -> None:
    manager = MemalchemyRecordManager(db)
    with pytest.raises(ValueError, match="1 keys, and 2 group_ids"):
        manager.update(["a"], group_ids=["x", "y"])
    with pytest.raises(ValueError, match="clock"):
        manager.update(["a"], time_at_least=manager.get_time() + 60)
    manager.create_schema()
    assert manager.list_keys() == []


def loaded(**options: Any) -> dict[str, Any]:
    return {"cleanup": "full", "key_encoder": "sha256", "source_id_key": "source", **options}


async def test_an_index_writes_what_is_new_and_deletes_what_is_gone(
    db: Database, reopen: Reopen
) -> None:
    def parts(db: Database) -> tuple[MemalchemyRecordManager, MemalchemyVectorStore]:
        return MemalchemyRecordManager(db, namespace="docs"), documents(db)

    first = [Document(f"1 {n}", metadata={"source": str(n)}) for n in range(4)]
    assert index(first, *parts(db), **loaded()) == {
        "num_added": 4,
        "num_updated": 0,
        "num_skipped": 0,
        "num_deleted": 0,
    }
    await asyncio.sleep(0.001)  # timed: the clock goes on between two runs
    later = [*first[:2], Document("5 5", metadata={"source": "3"})]
    async with reopen() as other:
        assert await aindex(later, *parts(other), **loaded()) == {
            "num_added": 1,
            "num_updated": 0,
            "num_skipped": 2,
            "num_deleted": 2,
        }
    found = documents(db).similarity_search("1 1", 9)
    assert sorted(one.page_content for one in found) == ["1 0", "1 1", "5 5"]


# --- Answers --------------------------------------------------------------------------------------


def test_answers_of_each_kind_come_back_equal(db: Database) -> None:
    answers: list[Any] = [
        Generation(text="a", generation_info={"n": [1]}),
        ChatGeneration(message=TALK[2]),
        ChatGenerationChunk(message=TALK[8]),
    ]
    cache = MemalchemyCache(db)
    cache.update("prompt", "model", answers)

    found = cache.lookup("prompt", "model")
    assert found == answers
    assert list(map(type, found or [])) == list(map(type, answers))
    assert cache.lookup("promptm", "odel") is None
    with pytest.raises(TypeError, match="own generations"):
        cache.update("prompt", "model", [type("Mine", (Generation,), {})(text="a")])
    assert cache.lookup("prompt", "model") == answers


def test_neither_prompt_nor_settings_are_stored(db: Database) -> None:
    cache = MemalchemyCache(db)
    cache.update("secret prompt", "api_key=secret", [Generation(text="public")])

    (item,) = cache.wait(cache.store.list_items(cache.namespace))
    assert "secret" not in json.dumps([item.key, item.value, item.metadata])


def test_an_answer_expires(db: Database) -> None:
    cache = MemalchemyCache(db, ttl=60)
    cache.update("prompt", "model", [Generation(text="a")])
    assert cache.lookup("prompt", "model")
    cache.wait(end_lifetimes(db))
    assert cache.lookup("prompt", "model") is None


def test_a_model_is_not_asked_twice_after_a_restart(db: Database, reopen: Reopen) -> None:
    asked: list[str] = []

    class Model(FakeListChatModel):
        def _call(self, *args: Any, **options: Any) -> str:
            asked.append("asked")
            return super()._call(*args, **options)

    def answer(db: Database) -> Any:
        return Model(responses=["Hi."], cache=MemalchemyCache(db)).invoke("Hello?").content

    assert [answer(db), answer(reopen())] == ["Hi.", "Hi."]
    assert asked == ["asked"]
    MemalchemyCache(db).clear()
    assert answer(db) == "Hi."
    assert asked == ["asked", "asked"]

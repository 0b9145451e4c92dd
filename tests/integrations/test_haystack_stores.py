"""Haystack's documents, filters, retrievers and chat histories, beside Haystack's own stores."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from haystack import Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ByteStream, ChatMessage, Document, SparseEmbedding, ToolCall
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import Secret
from haystack_experimental.chat_message_stores.in_memory import InMemoryChatMessageStore
from haystack_experimental.components.retrievers import ChatMessageRetriever
from haystack_experimental.components.writers import ChatMessageWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from memalchemy import Database, sync
from memalchemy.integrations.haystack import (
    MemalchemyChatMessageStore,
    MemalchemyDocumentStore,
    MemalchemyEmbeddingRetriever,
    MemalchemyKeywordRetriever,
)
from waiting import first_lines

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(db: Database) -> MemalchemyDocumentStore:
    return MemalchemyDocumentStore(db)


def equals(field: str, value: Any) -> dict[str, Any]:
    return {"field": field, "operator": "==", "value": value}


# --- Documents -----------------------------------------------------------------------------------


async def test_a_document_comes_back_as_it_was(
    store: MemalchemyDocumentStore, reopen: Callable[[], Database], lasting: None
) -> None:
    documents = [
        Document(
            id="all",
            content="a text",
            blob=ByteStream(b"\x00\xff", {"page": 1}, "image/png"),
            meta={"z": (1, 2.0), "a": {"when": NOON, "tags": {"x"}}, "n": 1, "f": 1.0, "b": True},
            score=0.25,
            embedding=[0.1, 1 / 3, math.pi],
            sparse_embedding=SparseEmbedding([3, 1], [0.5, 0.25]),
        ),
        Document(id="bare"),
        Document(id="exact", content="", embedding=[0.5, 0.25, 2.0]),
        Document(id="none", embedding=[]),
        Document(id="zeros", content="o", embedding=[0.0, 0.0, 0.0]),
    ]
    assert await store.write_documents_async(documents) == 5

    async with reopen() as db:
        found = await MemalchemyDocumentStore(db).filter_documents_async()
    assert found == documents
    assert list(found[0].meta) == ["z", "a", "n", "f", "b"]
    assert [type(found[0].meta[name]) for name in "znfb"] == [tuple, int, float, bool]
    found[0].meta["n"] = 2
    assert await store.filter_documents_async() == documents, "a changed copy changes nothing"


async def test_embeddings_are_left_out_where_they_are_not_wanted(db: Database) -> None:
    store = MemalchemyDocumentStore(db, return_embedding=False)
    await store.write_documents_async([Document(id="a", embedding=[1.0, 0.1])])

    assert [one.embedding for one in await store.filter_documents_async()] == [None]
    (found,) = await store.embedding_retrieval_async([1.0, 0.0], return_embedding=True)
    assert found.embedding == [1.0, 0.1]


async def test_a_refused_batch_writes_nothing(store: MemalchemyDocumentStore) -> None:
    await store.write_documents_async([Document(id="b", content="old")])

    for bad, error in (
        (Document(id="b"), DuplicateDocumentError),
        (Document(id="a"), DuplicateDocumentError),
        (Document(id="c", meta={"bad": object()}), DocumentStoreError),
        (Document(id="c", embedding=[math.nan]), ValueError),
    ):
        with pytest.raises(error):
            await store.write_documents_async([Document(id="a"), bad], DuplicatePolicy.FAIL)
    assert [one.id for one in await store.filter_documents_async()] == ["b"]
    written = [Document(id="a"), Document(id="b"), Document(id="a")]
    assert await store.write_documents_async(written, DuplicatePolicy.SKIP) == 1
    assert await store.write_documents_async(written, DuplicatePolicy.OVERWRITE) == 3


async def test_of_writers_that_race_each_document_has_one(store: MemalchemyDocumentStore) -> None:
    async def write(at: int) -> int:
        documents = [Document(id=str(n), content=f"{at}") for n in range(20)]
        return await store.write_documents_async(documents, DuplicatePolicy.SKIP)

    assert sum(await asyncio.gather(*map(write, range(6)))) == 20


async def test_updates_by_filter_keep_embeddings_and_lose_nothing(
    store: MemalchemyDocumentStore,
) -> None:
    await store.write_documents_async(
        [Document(id=str(n), meta={"n": n}, embedding=[1.0, n / 7]) for n in range(10)]
    )

    everything = {"field": "meta.n", "operator": ">=", "value": 0}
    updates = [store.update_by_filter_async(everything, {f"u{at}": at}) for at in range(5)]
    assert await asyncio.gather(*updates) == [10] * 5
    found = await store.filter_documents_async()
    assert [one.meta for one in found] == [
        {"n": n} | {f"u{at}": at for at in range(5)} for n in range(10)
    ]
    assert [one.embedding for one in found] == [[1.0, int(one.id) / 7] for one in found]
    (nearest,) = await store.embedding_retrieval_async([1.0, 9 / 7], top_k=1)
    assert nearest.id == "9"


async def test_nothing_is_deleted_or_updated_by_an_empty_filter(
    store: MemalchemyDocumentStore,
) -> None:
    await store.write_documents_async([Document(id="a")])
    with pytest.raises(FilterError):
        await store.delete_by_filter_async({})
    with pytest.raises(FilterError):
        await store.update_by_filter_async({}, {"n": 1})
    assert await store.count_documents_async() == 1


def test_methods_without_await_work_in_a_running_loop_and_in_threads(db: Database) -> None:
    store = MemalchemyDocumentStore(db)

    async def write() -> int:
        return store.write_documents([Document(id="a")])

    assert asyncio.run(write()) == 1
    assert store.count_documents() == 1


# --- Filters -------------------------------------------------------------------------------------

META = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.one_of(
        st.none(),
        st.sampled_from([-1, 0, 1, 2.5, "x", "y", "2026-03-01", "2026-03-01T12:00:00+00:00"]),
        st.lists(st.sampled_from([1, "x"]), max_size=2),
        st.dictionaries(st.just("n"), st.sampled_from([1, "x", None]), max_size=1),
    ),
    max_size=3,
)
FIELDS = st.sampled_from(["meta.a", "meta.b", "c", "meta.a.n", "meta.b.n.m", "other.n", "content"])
PLAIN = st.sampled_from([None, -1, 1, 1.0, 2.5, "x", "2026-03-01", "2026-03-01T12:00:00Z"])
COMPARISONS = st.one_of(
    st.builds(
        lambda f, o, v: {"field": f, "operator": o, "value": v},
        FIELDS,
        st.sampled_from(["==", "!="]),
        st.one_of(PLAIN, st.lists(st.sampled_from([1, "x"]), max_size=2)),
    ),
    st.builds(
        lambda f, o, v: {"field": f, "operator": o, "value": v},
        FIELDS,
        st.sampled_from(["in", "not in"]),
        st.lists(PLAIN, max_size=3),
    ),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.builds(
        lambda o, c: {"operator": o, "conditions": c},
        st.sampled_from(["AND", "OR", "NOT"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=5,
)


@given(st.lists(META, max_size=6), st.lists(FILTERS, min_size=1, max_size=8))
@settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_a_filter_means_what_it_means_in_haystacks_own_store(
    metas: list[dict[str, Any]], filters: list[dict[str, Any]]
) -> None:
    documents = [
        Document(id=f"{at}", content="x" if at % 2 else None, meta=meta)
        for at, meta in enumerate(metas)
    ]
    theirs = InMemoryDocumentStore(shared=False)
    theirs.write_documents(documents)
    with MemalchemyDocumentStore("sqlite://") as ours:
        ours.write_documents(documents)
        for one in filters:
            expected = [document.id for document in theirs.filter_documents(one)]
            assert [document.id for document in ours.filter_documents(one)] == expected, one
            assert ours.count_documents_by_filter(one) == len(expected)


async def test_dates_are_compared_however_they_are_written(store: MemalchemyDocumentStore) -> None:
    dates = ["2026-03-01", "2026-03-01T11:00:00Z", "2026-03-01T13:30:00+01:00", NOON, "soon", 7]
    await store.write_documents_async(
        [Document(id=str(at), meta={"at": one}) for at, one in enumerate(dates)]
    )

    async def found(operator: str, value: Any) -> str:
        where = {"field": "meta.at", "operator": operator, "value": value}
        return "".join([one.id for one in await store.filter_documents_async(where)])

    assert await found(">", "2026-03-01T12:00:00+00:00") == "2"
    assert await found(">=", NOON) == "23"
    assert await found("<", "2026-03-01 12:00") == "01"
    assert await found("==", "2026-03-01T12:00:00Z") == "3"
    assert await found("in", ["2026-03-01T00:00", 7]) == "05"


@pytest.mark.parametrize(
    "filters",
    [
        {"field": "meta.n", "operator": ">", "value": "soon"},
        {"field": "meta.n", "operator": ">", "value": True},
        {"field": "meta.n", "operator": "like", "value": 1},
        {"operator": "XOR", "conditions": []},
        {"operator": "AND", "conditions": ["x"]},
        {"field": "embedding", "operator": "==", "value": [1.0]},
        {"field": "meta.n", "operator": "==", "value": object()},
    ],
    ids=["words", "truth", "like", "xor", "no condition", "embedding", "object"],
)
async def test_what_cannot_be_compared_is_refused(
    store: MemalchemyDocumentStore, filters: dict[str, Any]
) -> None:
    with pytest.raises(FilterError):
        await store.filter_documents_async(filters)


async def test_documents_with_and_without_an_embedding_are_found(
    store: MemalchemyDocumentStore,
) -> None:
    await store.write_documents_async(
        [
            Document(id="a", embedding=[1.0, 0.0]),
            Document(id="b", embedding=[0.0, 0.0]),
            Document(id="c", blob=ByteStream(b"x")),
        ]
    )
    without = await store.filter_documents_async(equals("embedding", None))
    with_blob = await store.filter_documents_async(
        {"field": "blob", "operator": "!=", "value": None}
    )
    assert [one.id for one in without] == ["c"]
    assert [one.id for one in with_blob] == ["c"]
    assert [one.id for one in await store.filter_documents_async(equals("id", "b"))] == ["b"]


# --- Retrieval -----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["cosine", "dot_product"])
@pytest.mark.parametrize("scaled", [False, True])
async def test_similar_documents_have_the_scores_of_haystacks_own_store(
    db: Database, function: Any, scaled: bool
) -> None:
    documents = [
        Document(id=f"{n}", meta={"n": n}, embedding=[math.sin(n), math.cos(n), n / 9])
        for n in range(12)
    ] + [Document(id="none")]
    theirs = InMemoryDocumentStore(embedding_similarity_function=function, shared=False)
    ours = MemalchemyDocumentStore(db, embedding_similarity_function=function)
    theirs.write_documents(documents)
    await ours.write_documents_async(documents)

    query = [0.3, 0.7, 0.2]
    some = {"field": "meta.n", "operator": "<", "value": 8}
    for options in ({}, {"filters": some}, {"top_k": 3}, {"return_embedding": True}):
        expected = theirs.embedding_retrieval(query, scale_score=scaled, **options)
        found = await ours.embedding_retrieval_async(query, scale_score=scaled, **options)
        assert [one.id for one in found] == [one.id for one in expected]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected])
        assert [one.embedding for one in found] == [one.embedding for one in expected]
    with pytest.raises(DocumentStoreError, match="dimensions"):
        await ours.embedding_retrieval_async([1.0, 2.0])


async def test_documents_are_found_by_words(store: MemalchemyDocumentStore) -> None:
    await store.write_documents_async(
        [
            Document(id="a", content="The cat sat on the mat", meta={"n": 1}),
            Document(id="b", content="A cat is a cat, and cats are cats", meta={"n": 2}),
            Document(id="c", content="Dogs bark", meta={"n": 3}),
        ]
    )
    found = await store.keyword_retrieval_async("cat")
    assert {one.id for one in found} == {"a", "b"}
    assert all(one.score is not None and 0 < one.score <= 1 for one in found)
    assert [one.id for one in await store.keyword_retrieval_async("cat", equals("meta.n", 1))] == [
        "a"
    ]
    assert await store.keyword_retrieval_async("bird") == []
    with pytest.raises(ValueError, match="non-empty"):
        await store.keyword_retrieval_async("")


def test_a_pipeline_writes_and_retrieves_and_is_saved_without_a_password(
    shared_url: str, db: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = f"p-{uuid.uuid4().hex}"
    monkeypatch.setenv("SECRET_URL", f"sqlite:///{tmp_path}/agent.db")
    with MemalchemyDocumentStore(
        url=Secret.from_env_var("SECRET_URL"), namespace=(place,)
    ) as store:
        indexing = Pipeline()
        indexing.add_component("writer", DocumentWriter(store))
        documents = [
            Document(id="a", content="Oslo is in Norway", embedding=[1.0, 0.0]),
            Document(id="b", content="Rome is in Italy", embedding=[0.0, 1.0]),
        ]
        assert indexing.run({"writer": {"documents": documents}}) == {
            "writer": {"documents_written": 2}
        }
        answering = Pipeline()
        answering.add_component("near", MemalchemyEmbeddingRetriever(store, top_k=1))
        answering.add_component("words", MemalchemyKeywordRetriever(store))
        answering.add_component(
            "prompt",
            ChatPromptBuilder(
                [ChatMessage.from_user("{{ documents[0].content }}")], required_variables="*"
            ),
        )
        answering.connect("near.documents", "prompt.documents")
        saved = answering.dumps()
    assert "SECRET_URL" in saved
    assert str(tmp_path) not in saved

    loaded = Pipeline.loads(saved, allowed_modules=["memalchemy.*"])
    question = {"near": {"query_embedding": [0.9, 0.1]}, "words": {"query": "Italy"}}
    for found in (loaded.run(question), asyncio.run(loaded.run_async(question))):
        assert [one.id for one in found["words"]["documents"]] == ["b"]
        assert found["prompt"]["prompt"][0].text == "Oslo is in Norway"


def test_what_cannot_be_saved_is_refused_without_showing_it(tmp_path: Path) -> None:
    url = "postgresql://me:hush@nowhere.invalid/db"
    stores = [
        MemalchemyDocumentStore(url),
        MemalchemyDocumentStore(sync.Database("sqlite://")),
        MemalchemyChatMessageStore(Database("sqlite://")),
        MemalchemyDocumentStore(url=Secret.from_token(url)),
    ]
    for store in stores:
        with pytest.raises(ValueError, match=r"from_env_var|Cannot serialize") as raised:
            store.to_dict()
        assert "hush" not in str(raised.value)
    for where in (None, tmp_path / "a.db", "sqlite://", "postgresql://nowhere.invalid/db"):
        store = MemalchemyDocumentStore(where, namespace=("x", "y"), return_embedding=False)
        again = MemalchemyDocumentStore.from_dict(store.to_dict())
        assert again.to_dict() == store.to_dict()
        assert (again.namespace, again.return_embedding) == (("haystack", "x", "y"), False)
    with pytest.raises(ValueError, match="not both"):
        MemalchemyDocumentStore("sqlite://", url=Secret.from_token("sqlite://"))
    with pytest.raises(TypeError, match="Secret"):
        MemalchemyDocumentStore(url="sqlite://")  # type: ignore[arg-type]


async def test_retrievers_join_their_filters_with_those_of_a_run(
    store: MemalchemyDocumentStore,
) -> None:
    await store.write_documents_async(
        [
            Document(id=f"{n}", content="word", meta={"n": n, "even": n % 2 == 0}, embedding=[1.0])
            for n in range(4)
        ]
    )
    even, low = equals("meta.even", True), {"field": "meta.n", "operator": "<", "value": 2}
    for policy, expected in (("merge", {"0"}), ("replace", {"0", "1"})):
        near = MemalchemyEmbeddingRetriever(store, filters=even, filter_policy=policy)
        words = MemalchemyKeywordRetriever(store, filters=even, filter_policy=policy)
        for found in (await near.run_async([1.0], low), await words.run_async("word", low)):
            assert {one.id for one in found["documents"]} == expected
        again = MemalchemyEmbeddingRetriever.from_dict(
            {
                "type": "memalchemy.integrations.haystack.retrievers.MemalchemyEmbeddingRetriever",
                "init_parameters": {"document_store": store, "filters": even},
            }
        )
        assert len((await again.run_async([1.0]))["documents"]) == 2
        assert (await near.run_async([1.0], top_k=0))["documents"] == []
    with pytest.raises(ValueError, match="at least 1"):
        MemalchemyKeywordRetriever(store, top_k=0)
    with pytest.raises(TypeError, match="MemalchemyDocumentStore"):
        MemalchemyKeywordRetriever(InMemoryDocumentStore())  # type: ignore[arg-type]


# --- Chat histories ------------------------------------------------------------------------------

MESSAGES = st.lists(
    st.sampled_from(
        [
            ChatMessage.from_user("question"),
            ChatMessage.from_assistant("answer"),
            ChatMessage.from_assistant(tool_calls=[ToolCall("tool", {"n": 1}, id="1")]),
            ChatMessage.from_assistant("thinking", tool_calls=[ToolCall("tool", {}, id="2")]),
            ChatMessage.from_tool("result", ToolCall("tool", {"n": 1}, id="1")),
            ChatMessage.from_system("be brief"),
            ChatMessage.from_user("named", meta={"chat_message_id": "a", "z": 1, "b": [2]}),
            ChatMessage.from_user("also named", meta={"chat_message_id": "b"}),
        ]
    ),
    max_size=8,
).map(
    lambda messages: list(
        {_id_or_place(messages, at): messages[at] for at in range(len(messages))}.values()
    )
)


def _id_or_place(messages: list[ChatMessage], at: int) -> Any:
    """One id is in a turn once: Haystack's store keeps both, of which only one can be found."""
    return messages[at].meta.get("chat_message_id", at)


@given(st.lists(MESSAGES, max_size=4), st.booleans(), st.none() | st.integers(0, 5))
@settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_a_history_is_what_it_is_in_haystacks_own_store(
    turns: list[list[ChatMessage]], skips: bool, last_k: int | None
) -> None:
    theirs = InMemoryChatMessageStore(skip_system_messages=skips, last_k=last_k)
    theirs.delete_all_messages()
    with MemalchemyChatMessageStore("sqlite://", skip_system_messages=skips, last_k=last_k) as ours:
        for turn in turns:
            assert ours.write_messages("h", turn) == theirs.write_messages("h", turn)
            assert ours.retrieve_messages("h") == theirs.retrieve_messages("h")
            assert ours.retrieve_messages("h", 2) == theirs.retrieve_messages("h", 2)
            assert ours.count_messages("h") == theirs.count_messages("h")
        everything = ours.retrieve_messages("h", 100)
        assert ours.write_messages("h", everything) == 0, "they are there"


async def test_a_long_history_is_read_from_its_end(db: Database) -> None:
    store = MemalchemyChatMessageStore(db, last_k=None)
    for n in range(130):
        await store.write_messages_async(
            "h", [ChatMessage.from_user(f"q{n}"), ChatMessage.from_assistant(f"a{n}")]
        )
    found = await store.retrieve_messages_async("h", 60)
    assert [one.text for one in found] == [f"{w}{n}" for n in range(70, 130) for w in "qa"]
    assert len(await store.retrieve_messages_async("h")) == 260


async def test_an_id_that_would_be_counted_is_another_messages(db: Database) -> None:
    store = MemalchemyChatMessageStore(db)
    named = ChatMessage.from_user("named", meta={"chat_message_id": "1"})
    assert await store.write_messages_async("h", [named]) == 1
    assert await store.write_messages_async("h", [ChatMessage.from_user("counted")] * 2) == 2

    found = await store.retrieve_messages_async("h")
    assert [one.text for one in found] == ["named", "counted", "counted"]
    assert len({one.meta["chat_message_id"] for one in found}) == 3


async def test_writers_of_one_history_lose_no_message(db: Database) -> None:
    store = MemalchemyChatMessageStore(db, last_k=None)

    async def write(at: int) -> None:
        for n in range(5):
            await store.write_messages_async("h", [ChatMessage.from_user(f"{at}-{n}")])

    await asyncio.gather(*map(write, range(5)))

    found = await store.retrieve_messages_async("h")
    assert {one.text for one in found} == {f"{at}-{n}" for at in range(5) for n in range(5)}
    assert len({one.meta["chat_message_id"] for one in found}) == 25
    for at in range(5):
        mine = [one.text for one in found if str(one.text).startswith(f"{at}-")]
        assert mine == [f"{at}-{n}" for n in range(5)]


async def test_histories_are_apart_and_deleted_one_by_one_or_all(db: Database) -> None:
    store = MemalchemyChatMessageStore(db)
    other = MemalchemyChatMessageStore(db, namespace=("other",))
    for one in (store, other):
        for name in ("a", "b"):
            await one.write_messages_async(name, [ChatMessage.from_user(name)])
    await store.delete_messages_async("a")
    assert [await store.count_messages_async(name) for name in "ab"] == [0, 1]
    await store.delete_all_messages_async()
    assert await store.count_messages_async("b") == 0
    assert await other.count_messages_async("a") == 1
    with pytest.raises(ValueError, match="list of ChatMessages"):
        await store.write_messages_async("a", ["hello"])  # type: ignore[list-item]


def test_the_components_of_haystack_experimental_take_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYSTACK_DESERIALIZATION_ALLOWLIST", "memalchemy.*")
    pipeline = Pipeline()
    store = MemalchemyChatMessageStore(tmp_path / "agent.db")
    pipeline.add_component("writer", ChatMessageWriter(store))
    pipeline.run({"writer": {"chat_history_id": "h", "messages": [ChatMessage.from_user("Hi")]}})
    store.close()

    saved = ChatMessageRetriever(MemalchemyChatMessageStore(tmp_path / "agent.db")).to_dict()
    pipeline = Pipeline()
    pipeline.add_component("retriever", ChatMessageRetriever.from_dict(saved))
    now = [ChatMessage.from_system("brief"), ChatMessage.from_user("again")]
    found = pipeline.run({"retriever": {"chat_history_id": "h", "current_messages": now}})
    assert [one.text for one in found["retriever"]["messages"]] == ["brief", "Hi", "again"]


# --- Kills ---------------------------------------------------------------------------------------

WRITER = """
import sys
from haystack.dataclasses import ChatMessage, Document
from memalchemy import Database
from memalchemy.integrations.haystack import MemalchemyChatMessageStore, MemalchemyDocumentStore
db = Database(sys.argv[1], tenant=sys.argv[2])
documents, messages = MemalchemyDocumentStore(db), MemalchemyChatMessageStore(db)
for n in range(100_000):
    documents.write_documents([Document(id=f"{n}-{at}", embedding=[1.0, n]) for at in range(3)])
    messages.write_messages("h", [ChatMessage.from_user(f"{n}-{at}") for at in range(3)])
    print(n, flush=True)
"""


async def test_a_killed_writer_loses_nothing_that_it_was_told_of(
    shared_url: str, db: Database, lasting: None
) -> None:
    process = subprocess.Popen(  # noqa: ASYNC220 - nobody else waits
        [sys.executable, "-c", WRITER, shared_url, db.tenant],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    lines = first_lines(process.stdout, 15)
    process.kill()
    rest, errors = process.communicate()
    told = [int(line) for line in [*lines, *rest.split()]]
    assert len(lines) == 15, errors

    documents = await MemalchemyDocumentStore(db).filter_documents_async()
    texts = [
        one.text
        for one in await MemalchemyChatMessageStore(db, last_k=None).retrieve_messages_async("h")
    ]
    assert {f"{n}-{at}" for n in told for at in range(3)} <= {one.id for one in documents}
    assert len(documents) % 3 == 0
    assert texts == [f"{n}-{at}" for n in range(len(texts) // 3) for at in range(3)]
    assert len(texts) // 3 >= len(told)
    assert all(one.embedding == [1.0, float(one.id.partition("-")[0])] for one in documents)

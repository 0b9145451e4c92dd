"""LlamaIndex's messages, values and nodes, beside LlamaIndex's own stores.

The sdist of llama-index-core has no tests, so that its own stores say what is right.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.index_store.keyval_index_store import KVIndexStore
from llama_index.core.storage.kvstore.simple_kvstore import SimpleKVStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from drawn_examples import examples
from memalchemy import Checkpointer, Database
from memalchemy.integrations.llama_index import (
    MemalchemyChatStore,
    MemalchemyKVStore,
    MemalchemyVectorStore,
)
from waiting import first_lines

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED


@pytest.fixture
def chats(db: Database) -> MemalchemyChatStore:
    return MemalchemyChatStore(db)


@pytest.fixture
def nodes(db: Database) -> MemalchemyVectorStore:
    return MemalchemyVectorStore(db)


def said(text: str, role: MessageRole = MessageRole.USER) -> ChatMessage:
    return ChatMessage(role=role, content=text)


def texts(messages: list[ChatMessage]) -> list[str | None]:
    return [message.content for message in messages]


# --- Messages ------------------------------------------------------------------------------------

KEYS, STATUSES = st.sampled_from(["a", "b"]), st.sampled_from([ACTIVE, ARCHIVED])
COUNTS = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, COUNTS.filter(bool), STATUSES),
        st.tuples(st.just("set"), KEYS, COUNTS, STATUSES),
        st.tuples(st.just("delete"), KEYS, st.none() | STATUSES),
        st.tuples(st.just("drop"), KEYS, COUNTS),
        st.tuples(st.just("archive"), KEYS, COUNTS),
    ),
    max_size=12,
)


async def step(store: Any, number: int, name: str, key: str, *given: Any) -> Any:
    if name == "add" and given[0] == 1:
        await store.add_message(key, said(f"{number}"), given[1])
    elif name in ("add", "set"):
        write = store.add_messages if name == "add" else store.set_messages
        await write(key, [said(f"{number}-{at}") for at in range(given[0])], given[1])
    elif name == "delete":
        await store.delete_messages(key, given[0])
    elif name == "drop":
        return texts(await store.delete_oldest_messages(key, given[0]))
    else:
        return texts(await store.archive_oldest_messages(key, given[0]))
    return None


async def observed(store: Any) -> Any:
    pages = [(None, None), (2, None), (None, 1), (1, 1), (0, 0), (9, 2)]
    return {
        (key, status): (
            await store.count_messages(key, status),
            [texts(await store.get_messages(key, status, *page)) for page in pages],
        )
        for key in "abc"
        for status in (ACTIVE, ARCHIVED, None)
    }, set(await store.get_keys())


@given(STEPS)
@settings(deadline=None, max_examples=examples(25), suppress_health_check=list(HealthCheck))
def test_a_chat_store_does_as_llama_indexs_own(steps: list[Any]) -> None:
    async def both() -> None:
        theirs, ours = SQLAlchemyChatStore("messages"), MemalchemyChatStore("sqlite://")
        for number, one in enumerate(steps):
            assert await step(ours, number, *one) == await step(theirs, number, *one)
        assert await observed(ours) == await observed(theirs)
        await ours.aclose()
        if theirs._async_engine is not None:
            await theirs._async_engine.dispose()

    asyncio.run(both())


async def test_a_message_comes_back_as_it_was(
    chats: MemalchemyChatStore, reopen: Callable[[], Database], lasting: None
) -> None:
    messages = [
        ChatMessage(
            role=MessageRole.ASSISTANT,
            blocks=[
                ThinkingBlock(content="hm", num_tokens=2),
                TextBlock(text="é\x00\U0001f600"),
                ToolCallBlock(tool_call_id="1", tool_name="add", tool_kwargs={"a": 1}),
                ImageBlock(image=b"aGVsbG8=", image_mimetype="image/png"),
            ],
            additional_kwargs={"z": [1, {"y": None}], "a": 2.0},
        ),
        ChatMessage(role=MessageRole.TOOL, content="3", additional_kwargs={"tool_call_id": "1"}),
        ChatMessage(role=MessageRole.SYSTEM, blocks=[]),
    ]
    await chats.add_messages("k", messages)
    await chats.archive_oldest_messages("k", 1)
    async with reopen() as db:
        found = await MemalchemyChatStore(db).get_messages("k", None)

    assert found == messages
    assert [one.model_dump_json() for one in found] == [one.model_dump_json() for one in messages]


async def test_the_rest_of_memalchemy_sees_the_messages(
    db: Database, chats: MemalchemyChatStore
) -> None:
    await chats.add_messages("k", [said("a needle"), said("hay", MessageRole.ASSISTANT)])

    (hit,) = await chats.log.search("needle")
    assert (hit.thread_id, hit.value["role"]) == ("k", "user")
    assert await chats.log.list_threads() == ["k"]
    assert await Checkpointer(db).delete("k")
    assert await chats.get_keys() == []


async def test_a_message_is_deleted_by_its_position_wherever_it_is(
    chats: MemalchemyChatStore,
) -> None:
    await chats.add_messages("k", [said(str(at)) for at in range(1, 6)])
    await chats.archive_oldest_messages("k", 2)

    assert await chats.delete_message("k", 2) == said("2")
    assert await chats.delete_message("k", 4) == said("4")
    assert await chats.delete_message("k", 4) is None
    assert await chats.delete_message("other", 1) is None
    assert await chats.delete_message("k", 0) is None
    assert texts(await chats.get_messages("k", None)) == ["1", "3", "5"]


async def test_a_refused_message_leaves_all_as_it_was(chats: MemalchemyChatStore) -> None:
    await chats.add_message("k", said("old"))
    bad = ChatMessage(content="bad", additional_kwargs={"n": {1: 2}})
    for write in (chats.add_messages, chats.set_messages):
        for status in (ACTIVE, ARCHIVED):
            with pytest.raises(Exception, match=r"."):
                await write("k", [said("new"), bad.model_copy(update={"role": object()})], status)
    with pytest.raises(ValueError, match="limit"):
        await chats.get_messages("k", limit=-1)
    assert texts(await chats.get_messages("k", None)) == ["old"]


async def test_writers_and_archivists_lose_and_repeat_nothing(chats: MemalchemyChatStore) -> None:
    taken: list[ChatMessage] = []

    async def write(at: int) -> None:
        for n in range(10):
            await chats.add_message("k", said(f"{at}-{n}"))

    async def archive() -> None:
        for _ in range(8):
            taken.extend(await chats.archive_oldest_messages("k", 2))

    await asyncio.gather(*map(write, range(4)), archive(), archive())

    everything = texts(await chats.get_messages("k", None))
    assert sorted(map(str, everything)) == sorted(f"{at}-{n}" for at in range(4) for n in range(10))
    archived = texts(await chats.get_messages("k", ARCHIVED))
    assert sorted(map(str, archived)) == sorted(map(str, texts(taken)))
    assert everything[: len(archived)] == archived
    for at in range(4):
        assert [one for one in everything if str(one).startswith(f"{at}-")] == [
            f"{at}-{n}" for n in range(10)
        ]


async def test_a_reader_of_all_sees_each_message_once_while_they_move(
    chats: MemalchemyChatStore,
) -> None:
    expected = [str(at) for at in range(30)]
    await chats.add_messages("k", [said(one) for one in expected])

    async def archive() -> None:
        for _ in range(30):
            await chats.archive_oldest_messages("k", 1)

    moving = asyncio.create_task(archive())
    while not moving.done():
        assert texts(await chats.get_messages("k", None)) == expected
        await asyncio.sleep(0)
    await moving


async def test_a_store_dumps_its_namespace_and_no_database(db: Database) -> None:
    store = MemalchemyChatStore("postgresql://me:hush@nowhere.invalid/db", namespace=("x",))
    assert store.model_dump() == {"namespace": ["x"]}
    assert "hush" not in f"{store!r} {store} {store.model_dump_json()}"
    vectors = MemalchemyVectorStore(db, namespace=("x",))
    again = MemalchemyVectorStore.from_dict(vectors.to_dict(), db=db)
    assert (again.namespace, again.db) == (("llama_index", "x"), db)


def test_memory_works_without_await_too(shared_url: str, db: Database) -> None:
    memory = Memory.from_defaults(
        "ada",
        chat_store=MemalchemyChatStore(db),
        token_limit=40,
        token_flush_size=10,
        chat_history_token_ratio=0.5,
        tokenizer_fn=str.split,
    )
    for at in range(12):
        memory.put(said(f"question {at} of some words"))
        memory.put(said(f"answer {at} of some words", MessageRole.ASSISTANT))
    everything = memory.get_all(status=None)
    active = memory.get_all(status=ACTIVE)

    assert texts(everything)[::2] == [f"question {at} of some words" for at in range(12)]
    assert 0 < len(active) < 24
    assert texts(memory.get()) == texts(everything)[-len(memory.get()) :]
    memory.reset()
    assert memory.get_all(status=None) == []


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
async def test_an_agent_remembers_over_a_restart(
    reopen: Callable[[], Database], db: Database, lasting: None
) -> None:
    heard: list[list[str | None]] = []

    def answer(messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
        heard.append(texts(messages))
        return said(f"I heard {len(messages)}.", MessageRole.ASSISTANT)

    for question in ("I am Ada.", "Who am I?"):
        async with reopen() as again:
            memory = Memory.from_defaults("ada", chat_store=MemalchemyChatStore(again))
            llm = MockFunctionCallingLLM(response_generator=answer)
            agent = FunctionAgent(llm=llm, tools=[], streaming=False)
            await agent.run(question, memory=memory)

    assert heard[-1] == ["I am Ada.", "I heard 1.", "Who am I?"]
    assert await MemalchemyChatStore(db).count_messages("ada") == 4


WRITER = """
import asyncio, sys
from llama_index.core.base.llms.types import ChatMessage
from memalchemy import Database
from memalchemy.integrations.llama_index import MemalchemyChatStore
async def main():
    store = MemalchemyChatStore(Database(sys.argv[1], tenant=sys.argv[2]))
    for n in range(100_000):
        await store.add_messages("k", [ChatMessage(content=f"{n}-{at}") for at in range(3)])
        await store.archive_oldest_messages("k", 2)
        print(n, flush=True)
asyncio.run(main())
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
    assert process.stderr is not None
    lines = first_lines(process.stdout, 15)
    process.kill()
    # `communicate` leaves out what was read from the pipe together with the last line.
    rest, errors = process.stdout.read(), process.stderr.read()
    process.communicate()
    told = len([*lines, *rest.split()])
    assert len(lines) == 15, errors

    store = MemalchemyChatStore(db)
    everything = texts(await store.get_messages("k", None))
    assert everything == [f"{n}-{at}" for n in range(len(everything) // 3) for at in range(3)]
    assert told <= len(everything) // 3 <= told + 1
    assert 2 * told <= await store.count_messages("k", ARCHIVED) <= 2 * told + 2


# --- Keys and values -----------------------------------------------------------------------------

VALUES = st.dictionaries(
    st.text(max_size=3),
    st.recursive(st.none() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=4),
    max_size=3,
)
PLACES = st.tuples(st.sampled_from(["a", "b/c", ""]), st.sampled_from(["data", "doc/data"]))


@given(st.lists(st.tuples(PLACES, st.none() | VALUES), max_size=12))
@settings(deadline=None, max_examples=examples(30), suppress_health_check=list(HealthCheck))
def test_a_key_value_store_does_as_llama_indexs_own(steps: list[Any]) -> None:
    theirs = SimpleKVStore()
    with MemalchemyKVStore("sqlite://") as ours:
        for (key, collection), value in steps:
            if value is None:
                assert ours.delete(key, collection) == theirs.delete(key, collection)
            else:
                ours.put(key, value, collection)
                theirs.put(key, value, collection)
            for where in ("data", "doc/data", "none"):
                assert ours.get_all(where) == theirs.get_all(where)
                assert ours.get(key, where) == theirs.get(key, where)


async def test_many_values_are_written_together_or_not_at_all(db: Database) -> None:
    store = MemalchemyKVStore(db)
    bad: Any
    for bad in (object(), [1]):
        with pytest.raises(Exception, match=r"object|dict"):
            await store.aput_all([("a", {"n": 1}), ("b", bad if bad == [1] else {"n": bad})])
    assert await store.aget_all() == {}
    await store.aput_all([(str(n), {"n": n}) for n in range(1_200)], batch_size=7)
    assert len(await store.aget_all()) == 1_200
    read = await store.aget("1")
    assert read == {"n": 1}
    read["n"] = 2
    assert await store.aget("1") == {"n": 1}


def test_document_and_index_stores_live_on_it_over_a_restart(tmp_path: Path) -> None:
    def stores() -> tuple[KVDocumentStore, KVIndexStore, MemalchemyVectorStore]:
        keys = MemalchemyKVStore(tmp_path / "agent.db")
        vectors = MemalchemyVectorStore(tmp_path / "agent.db")
        return KVDocumentStore(keys), KVIndexStore(keys), vectors

    documents, indexes, vectors = stores()
    context = StorageContext.from_defaults(
        docstore=documents, index_store=indexes, vector_store=vectors
    )
    embed = MockEmbedding(embed_dim=4)
    index = VectorStoreIndex.from_documents(
        [Document(text="Oslo is in Norway", id_="oslo"), Document(text="Rome", id_="rome")],
        storage_context=context,
        embed_model=embed,
        store_nodes_override=True,
    )
    index.delete_ref_doc("rome", delete_from_docstore=True)

    documents, indexes, vectors = stores()
    again = VectorStoreIndex.from_vector_store(vectors, embed_model=embed)
    (found,) = again.as_retriever(similarity_top_k=5).retrieve("Where is Oslo?")
    assert (found.text, found.node.ref_doc_id) == ("Oslo is in Norway", "oslo")
    assert [node.get_content() for node in documents.docs.values()] == ["Oslo is in Norway"]
    assert [one.index_id for one in indexes.index_structs()] == [index.index_id]
    assert documents.get_ref_doc_info("rome") is None


# --- Nodes ---------------------------------------------------------------------------------------


def node(id_: str, vector: list[float], text: str = "", **metadata: Any) -> TextNode:
    source = RelatedNodeInfo(node_id=f"doc-{id_[0]}", metadata={"page": 1})
    return TextNode(
        id_=id_,
        text=text or id_,
        embedding=vector,
        metadata=metadata,
        relationships={NodeRelationship.SOURCE: source},
    )


async def test_a_node_comes_back_as_it_was(
    nodes: MemalchemyVectorStore, reopen: Callable[[], Database], lasting: None
) -> None:
    class Own(TextNode):
        extra: int = 1

    written: list[BaseNode] = [
        node("a", [1.0, 0.0], "a text", z=1, a=[1, {"k": None}], when="2026"),
        Document(id_="b", text="whole", metadata={"n": 1}, excluded_llm_metadata_keys=["n"]),
        ImageNode(id_="c", text="seen", image="aGVsbG8=", image_mimetype="image/png"),
        IndexNode(id_="d", text="leads", index_id="elsewhere"),
        TextNode(id_="e", text="", metadata={"when": datetime(2026, 3, 1), "t": (1, 2)}),
    ]
    for at, one in enumerate(written):
        one.embedding = [1.0, at / 7]
    own = Own(id_="own", text="mine", embedding=[1.0, 1.0])
    assert await nodes.async_add([*written, own]) == ["a", "b", "c", "d", "e", "own"]

    async with reopen() as db:
        found = await MemalchemyVectorStore(db).aget_nodes()
    for before, after in zip(written, found, strict=False):
        assert type(before) is type(after)
        assert after.embedding is None
        assert after == before.model_copy(update={"embedding": None})
        assert after.hash == before.hash
        assert list(after.metadata) == list(before.metadata)
    assert (type(found[-1]), found[-1].get_content()) == (TextNode, "mine")
    assert await nodes.aget_nodes(["c", "missing", "a"]) == [found[2], found[0]]
    with pytest.raises(ValueError, match="embedding not set"):
        await nodes.async_add([node("x", [1.0, 0.0]), TextNode(text="bare")])
    assert await nodes.aget_nodes(["x"]) == []


VALUE = st.sampled_from([None, "", "x", "xy", 0, 1, 2.5, [], ["x"], ["x", "y"]])
FILTERS = st.one_of(
    st.builds(
        lambda key, op, value: MetadataFilter(key=key, operator=op, value=value),
        st.sampled_from(["s", "missing"]),
        st.sampled_from(
            [
                FilterOperator.EQ,
                FilterOperator.NE,
                FilterOperator.GT,
                FilterOperator.LTE,
                FilterOperator.TEXT_MATCH,
                FilterOperator.CONTAINS,
                FilterOperator.IS_EMPTY,
            ]
        ),
        st.sampled_from(["", "x", "xy", "y"]),
    ),
    st.builds(
        lambda op, value: MetadataFilter(key="n", operator=op, value=value),
        st.sampled_from(
            [
                FilterOperator.EQ,
                FilterOperator.NE,
                FilterOperator.GT,
                FilterOperator.GTE,
                FilterOperator.LT,
                FilterOperator.LTE,
            ]
        ),
        st.sampled_from([0, 1, 1.0, 2.5]),
    ),
    st.builds(
        lambda key, op, value: MetadataFilter(key=key, operator=op, value=value),
        st.sampled_from(["s", "l", "missing"]),
        st.sampled_from(
            [FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL]
        ),
        st.lists(st.sampled_from(["x", "y", "xy"]), max_size=2),
    ),
    st.builds(
        lambda op, value: MetadataFilter(key="l", operator=op, value=value),
        st.sampled_from([FilterOperator.CONTAINS, FilterOperator.IS_EMPTY]),
        st.sampled_from(["x", "y"]),
    ),
    st.just(MetadataFilter(key="s", operator=FilterOperator.EQ, value=None)),
    st.just(MetadataFilter(key="s", operator=FilterOperator.NE, value=None)),
    st.just(MetadataFilter(key="ref_doc_id", operator=FilterOperator.EQ, value="doc-1")),
)
GROUPS = st.builds(
    lambda filters, condition: MetadataFilters(filters=filters, condition=condition),
    st.lists(FILTERS, max_size=3),
    st.sampled_from(FilterCondition),
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "s": st.sampled_from([None, "", "x", "xy"]),
        "n": st.sampled_from([None, 0, 1, 2.5]),
        "l": st.sampled_from([None, [], ["x"], ["x", "y"]]),
    },
)


@given(st.lists(METADATA, max_size=6), st.lists(GROUPS, min_size=1, max_size=8))
@settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_a_filter_means_what_it_means_in_llama_indexs_own_store(
    metas: list[dict[str, Any]], groups: list[MetadataFilters]
) -> None:
    written = [node(str(at), [1.0, at / 9], **meta) for at, meta in enumerate(metas)]
    theirs = SimpleVectorStore()
    theirs.add(written)
    with MemalchemyVectorStore("sqlite://") as ours:
        ours.add(written)
        for group in groups:
            query = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=10, filters=group)
            expected, found = theirs.query(query), ours.query(query)
            assert found.ids == expected.ids, group
            assert found.similarities == pytest.approx(expected.similarities)
            assert {one.node_id for one in ours.get_nodes(filters=group)} == set(found.ids or ())


async def test_filters_nest_and_what_is_not_supported_is_refused(
    nodes: MemalchemyVectorStore,
) -> None:
    await nodes.async_add(
        [node(f"{n}", [1.0, n], "", **{"n": n, "a/b~c": n % 2}) for n in range(6)]
    )
    either = MetadataFilters(
        filters=[MetadataFilter(key="n", value=1), MetadataFilter(key="n", value=2)],
        condition=FilterCondition.OR,
    )
    nested = MetadataFilters(filters=[either, MetadataFilter(key="a/b~c", value=1)])
    assert [one.node_id for one in await nodes.aget_nodes(filters=nested)] == ["1"]

    for key, operator, value in (
        ("n", FilterOperator.TEXT_MATCH_INSENSITIVE, "x"),  # there are numbers
        ("n", FilterOperator.IN, "x"),
        ("n", FilterOperator.ANY, 1),
        ("n", FilterOperator.TEXT_MATCH, 1),
        ("n", FilterOperator.GT, ["x"]),
    ):
        filters = MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])
        with pytest.raises((ValueError, TypeError), match=r"takes a|wants a|part of a text"):
            await nodes.adelete_nodes(filters=filters)
    assert len(await nodes.aget_nodes()) == 6


async def test_nodes_are_deleted_by_document_id_and_filter(nodes: MemalchemyVectorStore) -> None:
    await nodes.async_add([node(f"{d}{n}", [1.0, n], n=n) for d in "abc" for n in range(4)])

    async def left() -> str:
        return " ".join([one.node_id for one in await nodes.aget_nodes()])

    await nodes.adelete("doc-a")
    await nodes.adelete("doc-missing")
    assert await left() == "b0 b1 b2 b3 c0 c1 c2 c3"
    high = MetadataFilters(filters=[MetadataFilter(key="n", operator=FilterOperator.GTE, value=2)])
    await nodes.adelete_nodes(["b0", "b3", "zz"], high)
    assert await left() == "b0 b1 b2 c0 c1 c2 c3"
    await nodes.adelete_nodes(filters=high)
    await nodes.adelete_nodes(["b0"])
    await nodes.adelete_nodes([])
    assert await left() == "b1 c0 c1"
    with pytest.raises(ValueError, match="clear"):
        await nodes.adelete_nodes()
    other = MemalchemyVectorStore(nodes.db, namespace=("other",))
    await other.async_add([node("b1", [1.0, 0.0])])
    await nodes.aclear()
    assert (await left(), len(await other.aget_nodes())) == ("", 1)


async def test_each_mode_of_a_query_ranks_by_what_it_names(nodes: MemalchemyVectorStore) -> None:
    await nodes.async_add(
        [
            node("a", [1.0, 0.0], "cats purr"),
            node("b", [0.9, 0.1], "dogs bark"),
            node("c", [0.0, 1.0], "cats and dogs"),
        ]
    )

    async def ids(mode: VectorStoreQueryMode, **given: Any) -> list[str]:
        usual: dict[str, Any] = {"query_embedding": [1.0, 0.0], "query_str": "cats"}
        query = VectorStoreQuery(**usual | {"similarity_top_k": 2} | given, mode=mode)
        found = await nodes.aquery(query)
        assert [one.node_id for one in found.nodes or ()] == found.ids
        assert found.similarities == sorted(found.similarities or (), reverse=True)
        return found.ids or []

    modes = VectorStoreQueryMode
    assert await ids(modes.DEFAULT) == ["a", "b"]
    assert set(await ids(modes.TEXT_SEARCH)) == set(await ids(modes.SPARSE)) == {"a", "c"}
    assert (await ids(modes.HYBRID))[0] == "a"
    assert await ids(modes.HYBRID, alpha=1.0, query_embedding=[0.0, 1.0], hybrid_top_k=1) == ["c"]
    assert set(await ids(modes.HYBRID, alpha=0.0)) == {"a", "c"}
    assert await ids(modes.DEFAULT, node_ids=["b", "c"]) == ["b", "c"]
    assert await ids(modes.DEFAULT, node_ids=[], doc_ids=[]) == ["a", "b"]
    assert await ids(modes.DEFAULT, doc_ids=["doc-c"]) == ["c"]
    assert await ids(modes.DEFAULT, similarity_top_k=0) == []
    query = VectorStoreQuery([1.0, 0.0], similarity_top_k=2, mode=modes.MMR)
    assert (await nodes.aquery(query, mmr_threshold=0.1)).ids == ["a", "c"]
    for mode, given_ in (
        (modes.SVM, {}),
        (modes.SEMANTIC_HYBRID, {}),
        (modes.DEFAULT, {"query_embedding": None}),
        (modes.TEXT_SEARCH, {"query_str": None}),
    ):
        with pytest.raises(ValueError, match=r"not supported|needs"):
            await ids(mode, **given_)


async def test_processes_that_add_one_node_do_not_mix_it(nodes: MemalchemyVectorStore) -> None:
    async def add(at: int) -> None:
        for _ in range(5):
            await nodes.async_add(
                [node(f"{n}", [1.0, float(at)], f"by {at}", at=at) for n in range(5)]
            )

    await asyncio.gather(*map(add, range(4)))
    found = await nodes.aget_nodes()
    assert len(found) == 5
    assert all(one.get_content() == f"by {one.metadata['at']}" for one in found)
    for at in range(4):
        query = VectorStoreQuery([1.0, float(at)], similarity_top_k=5)
        same = await nodes.aquery(query)
        for similarity, one in zip(same.similarities or (), same.nodes or (), strict=True):
            assert (similarity > 1 - 1e-6) == (one.metadata["at"] == at)

"""`MemalchemySaver`: behaviour that LangGraph's conformance suite does not test."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

import memalchemy.sync
from memalchemy import Checkpointer, Conflict, Database, ThreadDeleted, ThreadLog
from memalchemy.events import subscribe_statements
from memalchemy.integrations.langgraph import MemalchemySaver
from memalchemy.verify import verify

Config = dict[str, Any]


def thread(thread_id: Any = "t", ns: str = "", **more: Any) -> Config:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, **more}}


def checkpoint(saver: Any, **values: Any) -> dict[str, Any]:
    version = saver.get_next_version(None, None)
    versions = dict.fromkeys(values, version)
    return empty_checkpoint() | {
        "id": str(uuid6()),
        "channel_values": values,
        "channel_versions": versions,
    }


async def put(saver: Any, config: Config, meta: dict[str, Any] | None = None, **values: Any) -> Any:
    given = checkpoint(saver, **values)
    metadata = {"source": "loop", "step": 0, "parents": {}} | (meta or {})
    return await saver.aput(config, given, metadata, given["channel_versions"])


@pytest.fixture
def saver(db: Database) -> MemalchemySaver:
    return MemalchemySaver(db)


# --- Values --------------------------------------------------------------------------------------

AWKWARD = [
    "a\x00b",
    "\ud800 alone",
    float("inf"),
    2**63,
    b"\x00\xff",
    bytearray(b"x"),
    None,
    (1, 2),
    {1: "a", (2, 3): "b"},
    {1, 2},
    [HumanMessage("hi", id="1"), AIMessage("there", id="2", tool_calls=[])],
]


@pytest.mark.parametrize("value", AWKWARD, ids=lambda value: type(value).__name__)
async def test_a_value_is_restored_as_by_langgraphs_own_saver(
    saver: MemalchemySaver, value: Any
) -> None:
    theirs = InMemorySaver()
    found = []
    for one in (saver, theirs):
        at = await put(one, thread(), {"note": ["a\x00b", 1.5, None]}, value=value)
        await one.aput_writes(at, [("value", value)], "task")
        read = await one.aget_tuple(at)
        found.append((read.checkpoint["channel_values"], read.metadata, read.pending_writes))

    assert found[0] == found[1]
    assert type(found[0][0]["value"]) is type(found[1][0]["value"])


async def test_nan_is_restored(saver: MemalchemySaver) -> None:
    read = await saver.aget_tuple(await put(saver, thread(), value=float("nan")))

    assert read is not None
    assert read.checkpoint["channel_values"]["value"] != read.checkpoint["channel_values"]["value"]


async def test_a_thread_id_may_be_a_number(saver: MemalchemySaver) -> None:
    await put(saver, thread(7), value=1)

    assert await saver.aget_tuple(thread("7")) is not None
    await saver.adelete_thread(7)  # type: ignore[arg-type]
    assert await saver.aget_tuple(thread(7)) is None


async def test_an_unchanged_channel_without_a_value_is_that_of_the_parent(
    saver: MemalchemySaver,
) -> None:
    first = checkpoint(saver, a="old", b="kept")
    at = await saver.aput(thread(), first, {}, first["channel_versions"])
    await put(saver, thread(), value="in between: the parent is not the newest")
    second = checkpoint(saver, a="new")
    second["channel_versions"] = {"a": "2", "b": first["channel_versions"]["b"]}
    await saver.aput(at, second, {}, {"a": "2"})

    read = await saver.aget_tuple(thread())
    assert read is not None
    assert read.checkpoint["channel_values"] == {"a": "new", "b": "kept"}


async def test_a_state_that_changes_while_the_parent_is_read_is_saved_as_it_was_passed(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    first = checkpoint(saver := MemalchemySaver(db), a=[], b="kept")
    at = await saver.aput(thread(), first, {}, first["channel_versions"])
    async with reopen() as other:
        child, metadata = checkpoint(saver, a=(said := ["as passed"])), {"note": "as passed"}
        child["channel_versions"] = {"a": "2", "b": first["channel_versions"]["b"]}
        saving = asyncio.create_task(MemalchemySaver(other).aput(at, child, metadata, {"a": "2"}))
        await asyncio.sleep(0)
        said.append("changed")
        metadata["note"] = child["channel_versions"]["b"] = "changed"
        await saving

    read = await saver.aget_tuple(thread())
    assert read is not None
    assert read.checkpoint["channel_values"] == {"a": ["as passed"], "b": "kept"}
    assert read.metadata["note"] == "as passed"


# --- Safety --------------------------------------------------------------------------------------


class Unknown(BaseModel):
    """A class that no serialiser was told of."""

    a: int


@pytest.mark.parametrize("named", [Unknown, (__name__, "Unknown")], ids=["class", "name"])
async def test_a_class_is_imported_from_data_only_if_it_is_allowed(
    db: Database, named: Any
) -> None:
    allowed = JsonPlusSerializer(allowed_msgpack_modules=[named])
    at = await put(MemalchemySaver(db, serde=allowed), thread(), value=Unknown(a=1))

    strict = await MemalchemySaver(db, strict=True).aget_tuple(at)
    open_ = await MemalchemySaver(db, serde=allowed).aget_tuple(at)

    assert strict is not None
    assert open_ is not None
    assert type(strict.checkpoint["channel_values"]["value"]) is dict
    assert type(open_.checkpoint["channel_values"]["value"]) is Unknown


RESUMED = """
import sys
from dataclasses import dataclass
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict
from memalchemy.integrations.langgraph import MemalchemySaver

@dataclass
class Order:
    thing: str

class State(TypedDict):
    order: Order

builder = StateGraph(State).add_node("keep", lambda state: {}).add_edge(START, "keep")
config = {"configurable": {"thread_id": "t"}}
with MemalchemySaver(sys.argv[1]) as saver:
    builder.compile(checkpointer=saver).invoke({"order": Order("a boat")}, config)
with MemalchemySaver(sys.argv[1]) as saver:
    graph = builder.compile(checkpointer=saver)
    print(type(graph.get_state(config).values["order"]).__name__)
"""


RELOADED = RESUMED.replace("graph = builder.compile(checkpointer=saver)", "").replace(
    "graph.get_state(config).values", "saver.get(config)['channel_values']"
)


@pytest.mark.parametrize("program", [RESUMED, RELOADED], ids=["by a graph", "by the saver"])
@pytest.mark.parametrize(
    ("strict", "option", "found"),
    [
        ("false", "", "Order"),
        ("false", ", strict=True", "dict"),
        ("true", "", {RESUMED: "Order", RELOADED: "dict"}),
        ("true", ", strict=True", {RESUMED: "Order", RELOADED: "dict"}),
    ],
)
def test_the_strict_mode_makes_objects_only_of_classes_that_the_graph_names(
    tmp_path: Path, program: str, strict: str, option: str, found: Any
) -> None:
    """docs/integrations/langgraph.md says so. Without it they are made as LangGraph's savers do."""
    found = found if isinstance(found, str) else found[program]
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            program.replace("(sys.argv[1])", f"(sys.argv[1]{option})"),
            str(tmp_path / "agent.db"),
        ],
        env=os.environ | {"LANGGRAPH_STRICT_MSGPACK": strict},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"{found}\n"


class Reversing:
    """Stands for a cipher: what it has written does not read as what it was given."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "reversed"
        return ciphertext[::-1]


async def test_values_of_an_encrypting_serialiser_are_stored_unread(
    db: Database,
) -> None:
    serde = EncryptedSerializer(Reversing())
    secret = MemalchemySaver(db, serde=serde)
    at = await put(secret, thread(), value="xylophone")
    await secret.aput_writes(at, [("value", "xylophone")], "task")

    read = await secret.aget_tuple(at)
    assert read is not None
    assert read.checkpoint["channel_values"] == {"value": "xylophone"}
    assert read.pending_writes == [("task", "value", "xylophone")]
    snapshot = await secret.checkpointer().snapshot("t")
    assert b"xylophone" not in snapshot.state["value"].data
    assert await secret.checkpointer().search("xylophone") == []


def test_a_saver_survives_a_shallow_copy(tmp_path: Path) -> None:
    saver = MemalchemySaver(f"sqlite:///{tmp_path}/a.db", strict=True)
    clone = copy.copy(saver)
    wider = saver.with_allowlist([(__name__, "Unknown")])
    with saver:
        asyncio.run(put(clone, thread(), value=1))
        assert wider is not saver
        assert wider.get_tuple(thread()) is not None


# --- Versions and branches -----------------------------------------------------------------------


def test_versions_rise_and_differ_between_branches(saver: MemalchemySaver) -> None:
    first = saver.get_next_version(None, None)
    branches = {saver.get_next_version(first, None) for _ in range(100)}

    assert len(branches) == 100
    assert all(first < one for one in branches)
    assert saver.get_next_version(max(branches), None) > max(branches)
    assert saver.get_next_version(41, None).startswith("0" * 30 + "42.")
    theirs = InMemorySaver().get_next_version(None, None)
    assert saver.get_next_version(theirs, None) > theirs


async def test_branches_of_one_thread_do_not_mix(saver: MemalchemySaver) -> None:
    root = await put(saver, thread(), messages=["q"])
    left = await put(saver, root, messages=["q", "left"])
    right = await put(saver, root, messages=["q", "right"])
    await put(saver, left, messages=["q", "left", "more"])

    for at, expected in ((left, ["q", "left"]), (right, ["q", "right"]), (root, ["q"])):
        read = await saver.aget_tuple(at)
        assert read is not None
        assert read.checkpoint["channel_values"]["messages"] == expected
    read = await saver.aget_tuple(right)
    assert read is not None
    assert read.parent_config is not None
    assert read.parent_config["configurable"] == root["configurable"]


async def test_a_second_root_has_no_parent(saver: MemalchemySaver) -> None:
    await put(saver, thread(), value=1)
    read = await saver.aget_tuple(await put(saver, thread(), value=2))

    assert read is not None
    assert read.parent_config is None


async def test_a_parent_is_named_until_it_is_deleted(saver: MemalchemySaver) -> None:
    at = await put(saver, thread(checkpoint_id="early"), value=2)
    read = await saver.aget_tuple(at)
    assert read is not None
    assert read.parent_config is None, "it would be read as an empty state"

    early = checkpoint(saver, value=1) | {"id": "early"}
    await saver.aput(thread(), early, {"source": "loop"}, early["channel_versions"])
    read = await saver.aget_tuple(at)
    assert read is not None
    assert read.parent_config is not None
    assert read.parent_config["configurable"]["checkpoint_id"] == "early"
    assert [one.parent_config async for one in saver.alist(thread())] == [None, read.parent_config]

    await saver.checkpointer().delete("t", "early")
    read = await saver.aget_tuple(at)
    assert read is not None
    assert read.parent_config is None


async def test_a_value_of_a_channel_without_a_version_is_kept(saver: MemalchemySaver) -> None:
    """As LangGraph's saver for SQLite keeps it."""
    given = checkpoint(saver, versioned=1)
    given["channel_values"] |= {"plain": [1, 2], "~odd": "x", "~checkpoint": "y"}
    at = await saver.aput(thread(), given, {"source": "loop"}, given["channel_versions"])
    found = await saver.aget_tuple(at)
    assert found is not None
    assert found.checkpoint["channel_values"] == given["channel_values"]
    assert found.checkpoint["channel_versions"] == given["channel_versions"]

    child = checkpoint(saver, versioned=2)
    at = await saver.aput(at, child, {"source": "loop"}, child["channel_versions"])
    found = await saver.aget_tuple(at)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"versioned": 2}, "what is given is what there is"


@pytest.mark.usefixtures("lasting")
async def test_a_saver_is_set_up_and_opened_as_langgraphs_are(database_url: str) -> None:
    with MemalchemySaver.from_conn_string(database_url) as saver:
        saver.setup()
        saver.setup()
        at = saver.put(thread(), checkpoint(saver, value=1), {}, {})
    async with MemalchemySaver.from_conn_string(database_url) as saver:
        await saver.asetup()
        found = await saver.aget_tuple(at)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"value": 1}


async def test_a_saver_is_set_up_inside_async_with_as_langgraphs_are(database_url: str) -> None:
    async with MemalchemySaver.from_conn_string(database_url) as saver:
        await saver.asetup()
        assert await saver.aget_tuple(thread()) is None


async def test_concurrent_writers_lose_nothing(saver: MemalchemySaver) -> None:
    root = await put(saver, thread(), value=0)
    made = await asyncio.gather(*(put(saver, root, value=n) for n in range(24)))

    read = [await saver.aget_tuple(at) for at in made]
    assert [one.checkpoint["channel_values"]["value"] for one in read if one] == list(range(24))


# --- Pending writes ------------------------------------------------------------------------------


async def test_pending_writes_are_sorted_by_path_task_and_index(saver: MemalchemySaver) -> None:
    at = await put(saver, thread(), value=1)
    await saver.aput_writes(at, [("v", "d"), ("v", "e")], "a-task", "~path, 2")
    await saver.aput_writes(at, [("v", "b")], "z-task", "~path, 1")
    await saver.aput_writes(at, [("v", "c")], "b-task", "~path, 2")
    await saver.aput_writes(at, [("v", "a")], "zz-task")

    read = await saver.aget_tuple(at)
    assert read is not None
    assert [value for _, _, value in read.pending_writes or ()] == ["a", "b", "d", "e", "c"]


async def test_the_first_write_of_an_index_stays_and_special_ones_are_replaced(
    saver: MemalchemySaver,
) -> None:
    at = await put(saver, thread(), value=1)
    await saver.aput_writes(at, [("v", "first")], "t")
    await saver.aput_writes(at, [("v", "second"), ("w", "new")], "t")
    await saver.aput_writes(at, [("__error__", "e1")], "t")
    await saver.aput_writes(at, [("__error__", "e2")], "t")
    await saver.aput_writes(at, [("__error__", "e3"), ("v", "third")], "t")

    read = await saver.aget_tuple(at)
    assert read is not None
    assert read.pending_writes == [
        ("t", "__error__", "e3"),
        ("t", "v", "first"),
        ("t", "w", "new"),
    ]


async def test_writes_may_come_before_their_checkpoint(saver: MemalchemySaver) -> None:
    given = checkpoint(saver, value=1)
    await saver.aput_writes(thread(checkpoint_id=given["id"]), [("v", 1)], "task")
    assert await saver.aget_tuple(thread()) is None
    assert [one async for one in saver.alist(thread())] == []

    await saver.aput(thread(), given, {}, given["channel_versions"])
    read = await saver.aget_tuple(thread())
    assert read is not None
    assert read.pending_writes == [("task", "v", 1)]


async def test_writes_of_ids_of_any_length_are_found(saver: MemalchemySaver) -> None:
    for name in ("a", "a/b", "x" * 200):
        given = checkpoint(saver, value=1) | {"id": name}
        at = await saver.aput(thread(name), given, {}, given["channel_versions"])
        await saver.aput_writes(at, [("v", name)], "task")

    for name in ("a", "a/b", "x" * 200):
        for config in (thread(name), thread(name, checkpoint_id=name)):
            read = await saver.aget_tuple(config)
            assert read is not None
            assert read.pending_writes == [("task", "v", name)]


# --- Deleting ------------------------------------------------------------------------------------


async def test_a_late_write_does_not_bring_a_deleted_thread_back(saver: MemalchemySaver) -> None:
    at = await put(saver, thread(), value=1)
    await saver.adelete_thread("t")

    with pytest.raises(ThreadDeleted):
        await saver.aput_writes(at, [("v", 1)], "task")
    with pytest.raises(ThreadDeleted):
        await put(saver, at, value=2)
    # The step after the one that was on its way when the thread was deleted.
    await saver.aput_writes(thread(checkpoint_id=str(uuid6())), [("v", 1)], "task")
    assert await saver.aget_tuple(thread()) is None
    assert (await verify(saver.db)).ok


async def test_a_deleted_thread_starts_anew_with_a_checkpoint_or_with_a_write(
    saver: MemalchemySaver,
) -> None:
    await put(saver, thread(), value="old")
    await saver.adelete_thread("t")
    given = checkpoint(saver, value="new")
    await saver.aput_writes(thread(checkpoint_id=given["id"]), [("v", 1)], "task")
    await saver.aput(thread(), given, {}, given["channel_versions"])

    read = await saver.aget_tuple(thread())
    assert read is not None
    assert read.checkpoint["channel_values"] == {"value": "new"}
    assert read.pending_writes == [("task", "v", 1)]
    assert len([one async for one in saver.alist(thread())]) == 1


async def test_deleting_a_thread_leaves_other_frameworks_data_alone(saver: MemalchemySaver) -> None:
    await put(saver, thread(), value=1)
    await put(saver, thread(ns="child:1"), value=2)
    await Checkpointer(saver.db).save({"mine": 1}, "t")
    await ThreadLog(saver.db).append("t", "mine")

    await saver.acopy_thread("t", "u")
    await saver.adelete_thread("t")

    assert await saver.aget_tuple(thread()) is None
    assert await saver.aget_tuple(thread(ns="child:1")) is None
    assert await Checkpointer(saver.db).load("t") == {"mine": 1}
    assert await ThreadLog(saver.db).count("t") == 1
    assert await Checkpointer(saver.db).load("u") is None
    assert await saver.aget_tuple(thread("u", ns="child:1")) is not None


async def test_a_thread_is_copied_only_to_an_empty_one(saver: MemalchemySaver) -> None:
    await put(saver, thread("a"), value=1)
    await put(saver, thread("b"), value=2)

    with pytest.raises(Conflict):
        await saver.acopy_thread("a", "b")
    await saver.acopy_thread("nothing", "c")
    assert await saver.aget_tuple(thread("c")) is None


# --- Listing -------------------------------------------------------------------------------------


async def test_a_filter_means_the_same_on_every_database(saver: MemalchemySaver) -> None:
    theirs = InMemorySaver()
    metas: list[dict[str, Any]] = [
        {"nest": {"k": 1, "j": 2}, "a b": 1},
        {"nest": {"k": 1}, "n": 1.0, "flag": True},
        {"n": 1, "x'; drop": "y", "odd": "a\x00b", "big": 2**63},
    ]
    for one in (saver, theirs):
        for meta in metas:
            await put(one, thread(), meta, value=1)

    for wanted in (
        {"nest": {"k": 1}},
        {"missing": None},
        {"n": None},
        {"a b": 1},
        {"n": 1},
        {"flag": True},
        {"flag": 1},
        {"x'; drop": "y"},
        {"odd": "ab"},
        {"big": 2**63},
        {"source": "loop", "n": 1},
        {"source": "input"},
    ):
        ours = [found.metadata async for found in saver.alist(thread(), filter=wanted)]
        reference = [found.metadata async for found in theirs.alist(thread(), filter=wanted)]
        assert ours == reference, wanted


async def test_a_listing_without_a_namespace_has_all_of_the_thread_newest_first(
    saver: MemalchemySaver,
) -> None:
    places = ["", "child:1", "", "child:1|grand:2", ""] * 12
    made = [await put(saver, thread(ns=ns), value=n) for n, ns in enumerate(places)]
    await put(saver, thread("other"), value=-1)

    found = [one async for one in saver.alist({"configurable": {"thread_id": "t"}})]
    assert [one.config for one in found] == made[::-1]
    one = [found async for found in saver.alist(thread(ns="child:1"))]
    assert [found.config for found in one] == [at for at in made[::-1] if at in made[1::5]]
    last = [x async for x in saver.alist(thread(), before=made[2], limit=1)]
    assert [x.config for x in last] == [made[0]]
    assert len([one async for one in saver.alist(None)]) == 61
    assert [one async for one in saver.alist(thread(), limit=0)] == []


async def test_a_search_finds_what_the_functional_api_saves_and_returns(db: Database) -> None:
    saver = MemalchemySaver(db)

    @entrypoint(checkpointer=saver)
    async def chat(asked: str, *, previous: Any = None) -> Any:
        said = [*(previous or []), HumanMessage(asked), AIMessage("In rivers.")]
        return entrypoint.final(value={"moral": "swim"}, save=said)

    config: Any = {"configurable": {"thread_id": "f"}}
    for asked in ("Where does the hippopotamus live?", "And the crocodile?"):
        await chat.ainvoke(asked, config)

    for word in ("hippopotamus", "crocodile", "rivers", "swim"):
        assert await saver.checkpointer().search(word), word


@pytest.mark.parametrize("calls", [8, 40])
async def test_calls_of_subgraphs_are_listed_in_as_few_statements_as_one_thread(
    saver: MemalchemySaver, calls: int
) -> None:
    """Their checkpoints interleave in the order of ids, and each call has a log of its own."""
    for _ in range(3):
        for call in range(calls):
            await put(saver, thread(ns=f"child:{call}"), words=f"of call {call}")
    number, sent = 3 * calls, list[str]()
    stop = subscribe_statements(lambda event: sent.append(event.sql))
    try:
        config = {"configurable": {"thread_id": "t"}}
        found = [one.config["configurable"] async for one in saver.alist(config)]
    finally:
        stop()

    ids = [one["checkpoint_id"] for one in found]
    assert len(ids) == number
    assert ids == sorted(ids, reverse=True)
    assert [one["checkpoint_ns"] for one in found] == [f"child:{n}" for n in range(calls)][::-1] * 3
    # Batches of 1, 2, 4, … checkpoints, each with its states and its pending writes.
    # In memory each is in a transaction.
    queries = [sql for sql in sent if not sql.startswith(("BEGIN", "COMMIT", "ROLLBACK"))]
    assert 3 <= len(queries) <= 1 + 2 * (number + 1).bit_length()


# --- Delta channels ------------------------------------------------------------------------------


def grown(old: list[str], new: Sequence[list[str]]) -> list[str]:
    return [*old, *chain.from_iterable(new)]


class Grown(TypedDict):
    notes: Annotated[list[str], DeltaChannel(grown, snapshot_frequency=4)]


def growing(saver: Any) -> Any:
    builder = StateGraph(Grown)
    builder.add_node("write", lambda state: {"notes": [f"n{len(state['notes'])}"]})
    builder.add_edge(START, "write")
    return builder.compile(checkpointer=saver)


async def test_pruning_keeps_what_a_delta_channel_is_rebuilt_from(saver: MemalchemySaver) -> None:
    graph, theirs = growing(saver), growing(InMemorySaver())
    for turn in range(7):
        for one in (graph, theirs):
            await one.ainvoke({"notes": [f"t{turn}"]}, thread())
    expected = (await theirs.aget_state(thread())).values
    assert (await graph.aget_state(thread())).values == expected

    await saver.aprune(["t"])
    left = [one async for one in saver.alist(thread())]
    assert (await graph.aget_state(thread())).values == expected
    assert 1 <= len(left) < 21
    await saver.acopy_thread("t", "u")
    assert (await graph.aget_state(thread("u"))).values == expected


async def test_deleting_a_run_keeps_checkpoints_that_later_ones_need(
    saver: MemalchemySaver,
) -> None:
    graph = growing(saver)
    for run in ("one", "two"):
        await graph.ainvoke({"notes": [run]}, thread() | {"metadata": {"run_id": run}})
    before = (await graph.aget_state(thread())).values

    await saver.adelete_for_runs(["one"])

    assert (await graph.aget_state(thread())).values == before


# --- From anywhere -------------------------------------------------------------------------------


class Model:
    """Answers with what it was told, and counts."""

    def __call__(self, state: MessagesState) -> dict[str, Any]:
        told = state["messages"][-1]
        return {"messages": [AIMessage(f"{told.content}!", id=f"a{len(state['messages'])}")]}


def chat(saver: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("model", Model())
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def said(text: str, name: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=name)]}


async def test_a_graph_may_be_called_with_and_without_await_within_a_loop(
    saver: MemalchemySaver,
) -> None:
    graph = chat(saver)
    await graph.ainvoke(said("one", "1"), thread())
    graph.invoke(said("two", "2"), thread())
    await asyncio.to_thread(graph.invoke, said("three", "3"), thread())

    assert [m.content for m in (await graph.aget_state(thread())).values["messages"]] == [
        "one", "one!", "two", "two!", "three", "three!",
    ]  # fmt: skip
    steps = list(graph.get_state_history(thread()))
    assert len(steps) == 9
    assert steps == [one async for one in graph.aget_state_history(thread())]
    saver.close()


def test_a_saver_needs_no_loop_and_serves_several(tmp_path: Path) -> None:
    saver = MemalchemySaver(f"sqlite:///{tmp_path}/a.db")
    graph = chat(saver)
    graph.invoke(said("one", "1"), thread())
    for text in ("two", "three"):
        asyncio.run(graph.ainvoke(said(text, text), thread()))
    threads = [
        threading.Thread(target=graph.invoke, args=(said("hi", "1"), thread(f"own-{n}")))
        for n in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert len(graph.get_state(thread()).values["messages"]) == 6
    assert all(len(graph.get_state(thread(f"own-{n}")).values["messages"]) == 2 for n in range(4))
    saver.delete_thread("t")
    assert saver.get_tuple(thread()) is None
    saver.close()


async def test_the_database_that_a_saver_was_given_is_not_closed_with_it(db: Database) -> None:
    async with MemalchemySaver(db) as saver:
        graph = chat(saver)
        await graph.ainvoke(said("one", "1"), thread())
        graph.invoke(said("two", "2"), thread())
    graph.invoke(said("three", "3"), thread())  # a later use opens anew
    saver.close()
    del saver, graph
    gc.collect()

    assert len((await chat(MemalchemySaver(db)).aget_state(thread())).values["messages"]) == 6


@pytest.mark.parametrize("ends", [lambda saver: saver.close(), lambda saver: None])
async def test_a_database_in_memory_outlives_a_saver_on_it(ends: Any) -> None:
    async with Database("sqlite://") as db:
        before = {t for t in threading.enumerate() if t.name == "memalchemy-sync"}
        saver = MemalchemySaver(db)
        chat(saver).invoke(said("one", "1"), thread())
        running = {t for t in threading.enumerate() if t.name == "memalchemy-sync"} - before
        assert running
        ends(saver)
        del saver
        gc.collect()
        for one in running:
            await asyncio.to_thread(one.join, 20)
        assert not any(one.is_alive() for one in running)
        assert await MemalchemySaver(db).aget_tuple(thread()) is not None


def test_savers_on_one_database_share_a_thread(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/a.db")
    before = {t for t in threading.enumerate() if t.name == "memalchemy-sync"}
    savers = [MemalchemySaver(db) for _ in range(3)]
    for saver in savers:
        chat(saver).invoke(said("one", "1"), thread())
    running = {t for t in threading.enumerate() if t.name == "memalchemy-sync"} - before
    assert len(running) == 1
    asyncio.run(db.close())


def test_a_saver_works_on_a_database_of_memalchemy_sync(tmp_path: Path) -> None:
    with memalchemy.sync.Database(f"sqlite:///{tmp_path}/a.db") as db:
        chat(MemalchemySaver(db)).invoke(said("one", "1"), thread())
        assert len(list(MemalchemySaver(db).list(None))) == 3


async def test_changed_messages_are_loaded_as_they_are_now(saver: MemalchemySaver) -> None:
    graph, theirs = chat(saver), chat(InMemorySaver())
    for one in (graph, theirs):
        for n in range(6):
            await one.ainvoke(said(f"words {n}", str(n)), thread())
        await one.aupdate_state(thread(), said("words changed", "2"))
        await one.aupdate_state(thread(), {"messages": [RemoveMessage("3")]})
        await one.ainvoke(said("and on", "9"), thread())

    ours = [state.values async for state in graph.aget_state_history(thread())]
    reference = [state.values async for state in theirs.aget_state_history(thread())]
    assert ours == reference


# --- What is made of it --------------------------------------------------------------------------


async def test_words_of_messages_are_found_at_the_step_that_added_them(
    saver: MemalchemySaver,
) -> None:
    graph = chat(saver)
    for text in ("the xylophone is here", "another day", "a xylophone again"):
        await graph.ainvoke(said(text, text), thread())

    found = await saver.checkpointer().search("xylophone")

    assert {one["thread_id"] for one in found} == {"t"}
    assert len(found) == 4, "asked twice and answered twice; no other step added the word"
    assert await saver.checkpointer().search("langchain_core") == []
    assert await saver.checkpointer().list_threads() == ["t"]


async def test_everything_of_a_thread_verifies(saver: MemalchemySaver) -> None:
    graph = chat(saver)
    for n in range(40):
        await graph.ainvoke(said(f"words {n}", str(n)), thread())
    await saver.aprune(["t"])
    await graph.ainvoke(said("on", "on"), thread())

    report = await verify(saver.db)

    assert report.ok, report


DOCS = Path(__file__).parents[2] / "docs"


def pieces(count: int) -> Sequence[str]:
    text = "\n".join(path.read_text() for path in sorted(DOCS.rglob("*.md")))
    assert len(text) > count * 512
    text *= 2
    return [text[at * 1024 : (at + 1) * 1024] for at in range(count)]


@pytest.mark.own_keys
@pytest.mark.parametrize(("index_text", "most"), [(False, 1_500_000), (True, 2_500_000)])
async def test_two_hundred_turns_of_prose_take_little_room(
    tmp_path: Path, index_text: bool, most: int
) -> None:
    said_ = iter(pieces(400))
    path = tmp_path / "a.db"
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(next(said_))]})
    builder.add_edge(START, "model")
    async with Database(f"sqlite:///{path}", durability="normal") as db:
        graph = builder.compile(checkpointer=MemalchemySaver(db, index_text=index_text))
        for _ in range(200):
            await graph.ainvoke({"messages": [HumanMessage(next(said_))]}, thread())
        assert len((await graph.aget_state(thread())).values["messages"]) == 400
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert raw.execute("SELECT count(*) FROM checkpoints").fetchone() == (600,)
    raw.close()
    assert path.stat().st_size <= most

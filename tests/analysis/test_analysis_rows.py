"""What is stored, as rows: a message once, a call with its result, filters made by SQL."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import fields
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from histories import START, History, rows_of
from sqlalchemy import update

from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.adapters import ADAPTERS
from memalchemy.analysis import TABLES, Analysis, connect
from memalchemy.analysis.selection import Selection
from memalchemy.errors import InvalidArgument
from memalchemy.events import subscribe
from memalchemy.log import DELTAS
from memalchemy.memory import Episode, EpisodeStore, MemoryFact, UserMemoryStore

sys.path.append(str(Path(__file__).parent.parent / "inspection"))
from test_messages import DIALOGUES, Obj, packed

SEEDS = range(8)


async def history(db: Database, seed: int, threads: int = 4) -> History:
    made = History(db, seed)
    for number in range(threads):
        await (made.append_thread if number % 2 else made.save_thread)(f"t{number}")
    return made


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_message_is_one_row_however_many_states_hold_it(db: Database, seed: int) -> None:
    made = await history(db, seed)

    rows = await rows_of(Analysis(db), "messages")

    found = {row["text"]: (row["thread"], row["step"], row["role"]) for row in rows}
    assert found == made.expected.texts
    assert len(rows) == len(found)


@pytest.mark.parametrize("seed", SEEDS)
async def test_calls_have_their_results_and_usage_adds_up(db: Database, seed: int) -> None:
    made = await history(db, seed)
    analysis = Analysis(db)

    calls = await rows_of(analysis, "tool_calls")
    usage = await rows_of(analysis, "usage")

    assert {row["call_id"]: (row["name"], row["result"]) for row in calls} == made.expected.calls
    assert {row["arguments"] for row in calls} <= {'{"n":1}'}
    assert sum(row["input_tokens"] + row["output_tokens"] for row in usage) == made.expected.tokens
    assert analysis.unreadable == []


SELECTIONS: list[dict[str, Any]] = [
    {"thread": "t1"},
    {"thread": "none"},
    {"pattern": "t[02]"},
    {"pattern": "t*"},
    {"namespace": ()},
    {"namespace": ("conversation",)},
    {"since": START + timedelta(hours=7)},
    {"until": START + timedelta(hours=7)},
    {"since": START + timedelta(hours=5), "until": START + timedelta(hours=9), "pattern": "t0"},
    {"framework": "langgraph"},
]


GRAPH = ("langgraph",)


async def saved_graph(db: Database, seed: int) -> AsyncIterator[dict[str, int]]:
    """Save a graph whose subgraphs get its messages and return theirs, or some, or none.

    Yield after each save the words of all messages so far, each with its tokens.
    """
    chosen = random.Random(seed)
    said: dict[str, int] = {}
    state: list[dict[str, Any]] = []

    def answer() -> dict[str, Any]:
        number, tokens = len(said), chosen.randrange(1, 99)
        said[f"answer {number}"] = tokens
        usage = {"prompt_tokens": tokens, "completion_tokens": 0}
        return {"role": "assistant", "content": f"answer {number}", "usage": usage}

    async def save(namespace: tuple[str, ...], messages: list[dict[str, Any]]) -> None:
        await Checkpointer(db, namespace=namespace).save({"messages": messages}, "t")

    async def run(namespace: tuple[str, ...], given: list[dict[str, Any]]) -> Any:
        """Save the steps of a graph, with ``None`` after each; yield what it returns at the end."""
        messages = list(given)
        await save(namespace, messages)
        yield None
        for step in range(chosen.randrange(1, 4)):
            if len(namespace) < 3 and chosen.random() < 0.5:
                below = (*namespace, f"node:{seed}-{len(said)}-{step}")
                new: list[dict[str, Any]] = []
                async for returned in run(below, messages):
                    new = returned or []
                    yield None
                messages = [*messages, *new]
            else:
                messages = [*messages, answer()]
            await save(namespace, messages)
            yield None
        new = messages[len(given) :]
        yield chosen.choice([new, new, new[-1:], []])

    async for returned in run(GRAPH, state):
        if returned is None:
            yield said


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_message_that_a_subgraph_shares_counts_once(
    db: Database, tmp_path: Path, seed: int
) -> None:
    async for said in saved_graph(db, seed):
        rows = await rows_of(Analysis(db), "messages")
        assert sorted(row["text"] for row in rows) == sorted(said)
        used = await rows_of(Analysis(db), "usage")
        assert sum(row["input_tokens"] for row in used) == sum(said.values())
        with await connect(db, cache=tmp_path / "graph.duckdb") as connection:
            query = "SELECT text FROM messages ORDER BY text"
            assert [text for (text,) in connection.execute(query).fetchall()] == sorted(said)


@pytest.mark.parametrize("given", [["question"], ["question", "question"], ["a", "b"]], ids=len)
async def test_what_a_graph_was_given_counts_once_when_the_graph_has_made_its_own_of_it(
    db: Database, given: list[str]
) -> None:
    checkpointer = Checkpointer(db, namespace=GRAPH)
    inputs = [{"role": "user", "content": text} for text in given]
    own = [{"type": "human", "content": text, "id": f"m{n}"} for n, text in enumerate(given)]
    more = {"type": "human", "content": given[0], "id": "more"}
    for state in (
        {"__start__": {"messages": inputs}},
        {"messages": own},
        {"messages": [*own, more], "__start__": {"messages": [more]}},
    ):
        await checkpointer.save(state, "t")

    rows = await rows_of(Analysis(db), "messages")
    assert [row["text"] for row in rows] == [*given, given[0]]


async def test_a_changed_message_counts_its_tokens_once_and_its_call_as_it_is_now(
    db: Database,
) -> None:
    def answer(*calls: dict[str, Any]) -> dict[str, Any]:
        tokens = {"input_tokens": 1000, "output_tokens": 10}
        said = {"type": "ai", "content": "", "id": "a", "usage_metadata": tokens}
        return said | {"tool_calls": list(calls)}

    checkpointer = Checkpointer(db, namespace=GRAPH)
    refund, other = ({"id": "c1", "name": "refund", "args": {"eur": euros}} for euros in (900, 90))
    gone = {"id": "c2", "name": "mail", "args": {}}
    done = {"type": "tool", "content": "done", "tool_call_id": "c1", "id": "r"}
    for messages in ([answer(refund, gone)], [answer(other)], [answer(other), done]):
        await checkpointer.save({"messages": messages}, "t")

    (call,) = await rows_of(Analysis(db), "tool_calls")
    assert (call["arguments"], call["result"]) == ('{"eur":90}', "done")
    (usage,) = await rows_of(Analysis(db), "usage")
    assert usage["input_tokens"] == 1000


async def test_a_selection_without_the_graph_has_the_messages_of_the_subgraph(
    db: Database,
) -> None:
    said = [{"role": "user", "content": "Hi"}]
    below = (*GRAPH, "node:1")
    for namespace in (GRAPH, below):
        await Checkpointer(db, namespace=namespace).save({"messages": said}, "t")

    for selected, number in ((GRAPH, 1), (below, 1)):
        assert len(await rows_of(Analysis(db), "messages", namespace=selected)) == number
    (row,) = await rows_of(Analysis(db), "messages")
    assert row["namespace"] == "langgraph"


def is_selected(row: Any, selection: dict[str, Any]) -> bool:
    namespace = tuple(filter(None, row["namespace"].strip("/").split("/")))
    return (
        selection.get("thread") in (None, row["thread"])
        and selection.get("pattern", "*") in ("*", "t*", "t0", "t[02]")
        and (selection.get("pattern") not in ("t[02]",) or row["thread"] in ("t0", "t2"))
        and (selection.get("pattern") not in ("t0",) or row["thread"] == "t0")
        and selection.get("namespace") in (None, namespace)
        and ("framework" not in selection)
        and ("since" not in selection or row["time"] >= selection["since"])
        and ("until" not in selection or row["time"] < selection["until"])
    )


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
async def test_a_selection_gives_the_rows_that_it_names(
    db: Database, selection: dict[str, Any]
) -> None:
    await history(db, 1)
    analysis = Analysis(db)
    everything = await rows_of(analysis, "steps")

    found = await rows_of(analysis, "steps", **selection)

    assert found == [row for row in everything if is_selected(row, selection)]
    messages = await rows_of(analysis, "messages", **selection)
    assert messages == [
        row
        for row in await rows_of(analysis, "messages")
        if (row["thread"], row["step"]) in {(one["thread"], one["step"]) for one in found}
    ]


async def test_metadata_selects_threads_by_their_own_and_by_their_checkpoints(
    db: Database,
) -> None:
    checkpointer = Checkpointer(db)
    for number in range(6):
        await checkpointer.save({}, f"t{number}", metadata={"team": number % 3})
    await checkpointer.set_thread_metadata("t5", {"team": 0, "user_id": "ada"})
    analysis = Analysis(db)

    assert {row["thread"] for row in await rows_of(analysis, "threads", metadata={"team": 0})} == {
        "t0",
        "t3",
        "t5",
    }
    both = await rows_of(analysis, "steps", metadata={"team": 0, "user_id": "ada"})
    assert [(row["thread"], row["user_id"]) for row in both] == [("t5", "ada")]


async def test_rows_are_of_the_tenant_alone(db: Database) -> None:
    other = db.for_tenant(f"{db.tenant}-b")
    await history(other, 1)
    await Store(other).put(("a",), "k", 1)
    await Checkpointer(db).save({"messages": [{"role": "user", "content": "mine"}]}, "t")
    analysis = Analysis(db)

    for table in TABLES:
        assert {row["tenant"] for row in await rows_of(analysis, table)} <= {db.tenant}
    assert [row["text"] for row in await rows_of(analysis, "messages")] == ["mine"]
    await Checkpointer(other).forget(tenant=other.tenant)


@pytest.mark.parametrize("framework", DIALOGUES)
@pytest.mark.parametrize("stored_as", ["states", "entries"])
async def test_messages_of_every_framework_are_rows(
    db: Database, framework: str, stored_as: str
) -> None:
    dialogue = DIALOGUES[framework]
    namespace = ("planner", "eu")
    packs = any(isinstance(one, Obj) for one in dialogue)
    if stored_as == "states":
        checkpointer = Checkpointer(db, namespace=namespace)
        for end in range(1, len(dialogue) + 1):
            said = dialogue[:end]
            await checkpointer.save({"messages": packed(said) if packs else said}, "t")
    else:
        entries = [packed(one) if packs else one for one in dialogue]
        await ThreadLog(db, namespace=namespace).append("t", entries)
    analysis = Analysis(db)

    messages = await rows_of(analysis, "messages")
    (call,) = await rows_of(analysis, "tool_calls")

    assert [row["role"] for row in messages] == ["user", "assistant", "tool", "assistant"]
    assert [row["text"] for row in messages][::3] == ["Weather?", "It is sunny."]
    assert (call["name"], json.loads(call["arguments"])) == ("weather", {"city": "Rome"})
    assert (call["result"], call["error"]) == ("sunny", False)
    assert {row["namespace"] for row in messages} == {"planner/eu"}
    assert "weather" not in {row["agent"] for row in (*messages, call)}
    if framework == "openai agents":
        assert [row["name"] for row in messages] == [None, "weather", "weather", None]


async def test_the_framework_is_that_of_the_namespace(db: Database) -> None:
    roots = [one.root for one in ADAPTERS.all()]
    for root in [*roots, "mine"]:
        await ThreadLog(db, namespace=(root, "x")).append("t", {"role": "user", "content": root})

    rows = await rows_of(Analysis(db), "messages")

    assert {row["text"]: row["framework"] for row in rows} == dict(
        zip(roots, roots, strict=True)
    ) | {"mine": None}


async def test_what_metadata_states_counts_in_place_of_what_messages_state(db: Database) -> None:
    said = [{"role": "assistant", "content": "Yes.", "usage": {"prompt_tokens": 10}, "model": "m"}]
    checkpointer = Checkpointer(db)
    await checkpointer.save({"messages": said}, "t", metadata={"cost_usd": 0.5, "output_tokens": 4})
    await checkpointer.save({"messages": said}, "t", metadata={"cost_usd": "much", "model": [1]})

    (row,) = await rows_of(Analysis(db), "usage")

    assert (row["model"], row["input_tokens"], row["output_tokens"]) == ("m", 10, 4)
    assert (row["cost_usd"], row["position"]) == (0.5, None)


async def test_lines_of_one_answer_of_claude_count_once(db: Database) -> None:
    line = {
        "type": "assistant",
        "message": {
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "text", "text": "Yes."}],
            "usage": {"input_tokens": 10, "output_tokens": 3},
        },
    }
    await ThreadLog(db, namespace=("claude",)).append("t", [line, line])

    assert [row["input_tokens"] for row in await rows_of(Analysis(db), "usage")] == [10]
    assert len(await rows_of(Analysis(db), "messages")) == 2


async def test_what_a_framework_states_beside_a_log_is_usage(db: Database) -> None:
    for branch in ((), ("branch", "b")):
        log = ThreadLog(db, namespace=("openai", *branch))
        await log.append("t", {"role": "user", "content": "hi"})
    store = Store(db)
    stated = {"requests": 2, "input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
    details = {"input_tokens_details": {"cached_tokens": 4}, "output_tokens_details": None}
    await store.put(("openai", "usage", "t", "main"), f"{1:012d}", stated | details)
    await store.put(("openai", "usage", "t", "b"), f"{1:012d}", stated)
    await store.put(("openai", "usage", "other", "main"), f"{1:012d}", stated)

    rows = await rows_of(Analysis(db), "usage")

    found = {row["namespace"]: (row["input_tokens"], row["cached_tokens"]) for row in rows}
    assert found == {"openai": (10, 4), "openai/branch/b": (10, None)}
    assert {(row["thread"], row["step"], row["position"]) for row in rows} == {("t", "1", 1)}


async def test_items_and_memories(db: Database) -> None:
    store = Store(db)
    await store.put(
        ("users", "ada"), "diet", {"vegetarian": True, "since": START}, {"kind": "note"}
    )
    await store.put((), "root", [1, b"\x00"])
    facts = UserMemoryStore(db)
    await facts.add(MemoryFact("f1", "ada", "likes tea"))
    await EpisodeStore(db).write(Episode(task="book", result="booked", rollout="r"))
    analysis = Analysis(db)

    items = await rows_of(analysis, "items")
    memories = {row["kind"]: row for row in await rows_of(analysis, "memories")}
    (diet,) = await rows_of(analysis, "items", metadata={"kind": "note"})

    assert {"diet", "root", "f1"} <= {row["key"] for row in items}
    assert json.loads(diet["value"]) == {"vegetarian": True, "since": START.isoformat()}
    assert (diet["namespace"], diet["framework"]) == ("users/ada", None)
    assert (memories["fact"]["user_id"], memories["fact"]["text"]) == ("ada", "likes tea")
    assert (memories["episode"]["text"], memories["episode"]["result"]) == ("book", "booked")
    assert await rows_of(analysis, "items", thread="t") == []
    assert await rows_of(analysis, "items", since=START, until=START) == []


@pytest.mark.parametrize("seed", range(4))
async def test_rows_that_cannot_be_read_are_named_and_the_others_are_there(
    db: Database, seed: int
) -> None:
    chance = random.Random(seed)
    await history(db, seed)
    store = Store(db)
    for number in range(5):
        await store.put(("n",), f"k{number}", number)
    whole = await rows_of(Analysis(db), "messages")
    step = chance.choice([row for row in whole if row["thread"] == "t1"])
    damaged = (DELTAS.c.tenant == db.tenant) & (DELTAS.c.seq == int(step["step"]))
    async with db.transaction() as tx:
        await tx.execute(
            update(DELTAS).where(damaged, DELTAS.c.kind == "entry").values(payload=b"\x00no")
        )
    analysis = Analysis(db)

    found = await rows_of(analysis, "messages")

    lost = {
        (row["thread"], row["step"])
        for row in whole
        if row["thread"] in ("t1", "t3") and row["step"] == step["step"]
    }
    assert found == [row for row in whole if (row["thread"], row["step"]) not in lost]
    assert len(analysis.unreadable) >= 1
    assert len(await rows_of(analysis, "items")) == 5


async def test_the_first_batch_needs_no_look_at_the_last_thread(db: Database) -> None:
    log = ThreadLog(db)
    for number in range(40):
        await log.append(f"t{number}", [{"role": "user", "content": str(n)} for n in range(50)])
    analysis, read = Analysis(db), 0

    def count(event: Any) -> None:
        nonlocal read
        read += event.name == "thread.read"

    unsubscribe = subscribe(count)
    batches = analysis.rows("messages")
    first = await anext(batches)
    await batches.aclose()  # type: ignore[attr-defined]
    unsubscribe()

    assert len(first) == 1_000
    assert 20 <= read <= 21 * 2


@pytest.mark.parametrize("name", [one.name for one in fields(Selection) if one.name != "below"])
@pytest.mark.parametrize("value", ["2026-11-01", date(2026, 11, 1), 7, b"x", ["x", 7]])
async def test_a_selection_of_a_wrong_type_is_refused_by_its_name(
    db: Database, name: str, value: Any
) -> None:
    is_text = name in ("thread", "pattern", "framework") and isinstance(value, str)
    expected = nullcontext() if is_text else pytest.raises((InvalidArgument, TypeError), match=name)

    with expected:
        await rows_of(Analysis(db), "messages", **{name: value})
    with expected:
        (await connect(db, **{name: value})).close()


async def test_a_time_that_is_a_text_is_an_argument_that_makes_no_sense(db: Database) -> None:
    for name in ("since", "until"):
        with pytest.raises(InvalidArgument, match=f"{name} is a datetime, not str"):
            await connect(db, **{name: "2026-11-01"})


async def test_arguments_that_make_no_sense_are_refused(db: Database) -> None:
    analysis = Analysis(db)
    for selection in (
        {"thread": "a", "pattern": "b*"},
        {"framework": "langgraph", "namespace": ("a",)},
        {"framework": ""},
        {"thread": "x" * 1000},
    ):
        with pytest.raises((InvalidArgument, ValueError)):
            await rows_of(analysis, "messages", **selection)
    with pytest.raises(InvalidArgument, match="there is no table 'calls'; the tables are threads"):
        await rows_of(analysis, "calls")
    with pytest.raises(TypeError):
        await rows_of(analysis, "messages", thraed="a")


async def test_batches_of_arrow_have_the_same_rows(db: Database) -> None:
    pytest.importorskip("pyarrow")
    await history(db, 3)
    await Store(db).put(("a",), "\ud800", {"text": "\ud800", "big": 2**70})
    analysis = Analysis(db)

    for name, table in TABLES.items():
        batches = [batch async for batch in analysis.arrow(name)]
        assert [row for batch in batches for row in batch.to_pylist()] == await rows_of(
            analysis, name
        )
        assert all(batch.schema.names == list(table.names) for batch in batches)


def test_every_column_says_what_it_means() -> None:
    for table in TABLES.values():
        assert len(set(table.names)) == len(table.names)
        assert all(column.meaning for column in table.columns)

"""`MemalchemyStepStore`, with the harness' SQLite store as the oracle."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from copy import deepcopy
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import step_to_kill
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.conversation_search import SnapshotStore
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    SqliteStepStore,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    continue_run,
)
from pydantic_ai_messages import ELSEWHERE, MESSAGES, NOON, answer, user

from drawn_examples import examples
from memalchemy import Checkpointer, Database, NotSerialisable, Store
from memalchemy.events import Event, subscribe
from memalchemy.integrations.pydantic_ai_harness import MemalchemyStepStore
from memalchemy.messages import text_of
from waiting import first_lines


@pytest.fixture
def store(db: Database) -> MemalchemyStepStore:
    return MemalchemyStepStore(db)


def snapshot(run: str, step: int, *messages: ModelMessage, **fields: Any) -> ContinuableSnapshot:
    return ContinuableSnapshot(run_id=run, step_index=step, messages=list(messages), **fields)


# --- Against the harness' store on SQLite ---------------------------------------------------------

runs = st.sampled_from(["run-1", "run-2"])
times = st.integers(0, 5).map(lambda n: ELSEWHERE + timedelta(microseconds=n))
maybe = st.sampled_from([None, "x", "y\x00 ü", ""])
keys = st.sampled_from(
    [None, None, "0:1:complete", "1:1:interrupted", "2:2:complete", "", "k" * 300]
)
PLAIN = [MESSAGES[at] for at in (0, 1, 3, 5)]
"""Without what the harness' own store loads otherwise, a tuple, or refuses, a lone surrogate."""
records = st.builds(
    RunRecord,
    run_id=st.sampled_from(["run-1", "run-2", "run-3", "run-4"]),
    conversation_id=maybe,
    parent_run_id=maybe,
    agent_name=maybe,
    metadata=st.sampled_from([{}, {"a": "1", "b\x00": "ü"}]),
    started_at=times,
    registration_id=maybe,
)
events = st.builds(
    StepEvent,
    run_id=runs,
    kind=st.sampled_from(["run_started", "tool_call_failed"]),
    step_index=st.integers(0, 3),
    timestamp=times,
    conversation_id=maybe,
    tool_call_id=maybe,
    error=maybe,
    metadata=st.sampled_from([{}, {"a": "1"}]),
    idempotency_key=keys,
)
snapshots = st.builds(
    ContinuableSnapshot,
    run_id=runs,
    step_index=st.integers(0, 3),
    messages=st.integers(0, len(PLAIN)).map(lambda n: PLAIN[:n]),
    conversation_id=maybe,
    parent_run_id=maybe,
    agent_name=maybe,
    timestamp=times,
    state=st.sampled_from(["complete", "interrupted"]),
    idempotency_key=keys,
)
effects = st.builds(
    ToolEffectRecord,
    tool_call_id=st.sampled_from(["c1", "c2", "c" * 300]),
    tool_name=st.sampled_from(["look", "erase"]),
    run_id=runs,
    status=st.sampled_from(["started", "completed", "failed"]),
    started_at=times,
    ended_at=st.none() | times,
    idempotency_key=maybe,
    effect_summary=maybe,
)
steps = st.one_of(
    st.tuples(st.just("register_run"), records),
    st.tuples(st.just("append_event"), events),
    *3 * [st.tuples(st.just("save_snapshot"), snapshots)],
    st.tuples(st.just("record_tool_effect"), effects),
)


async def outcome(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    except (sqlite3.IntegrityError, ValueError):
        return "refused"


async def everything(store: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"runs": await store.list_runs()}
    for name in ("x", ""):
        found |= {
            f"conversation {name}": await store.list_runs(conversation_id=name),
            f"both {name}": await store.list_runs(conversation_id="x", parent_run_id=name),
        }
    for run in ("run-1", "run-2", "run-3"):
        unresolved = await store.list_unresolved_tool_effects(run_id=run)
        found[run] = {
            "run": await store.get_run(run_id=run),
            "events": await store.list_events(run_id=run),
            "latest": await store.latest_snapshot(run_id=run),
            "newest": await store.latest_snapshot(run_id=run, include_interrupted=True),
            "complete": await store.list_snapshots(run_id=run),
            "all": await store.list_snapshots(run_id=run, include_interrupted=True),
            # The harness' stores on servers give them in no order.
            "unresolved": sorted(unresolved, key=lambda effect: effect.tool_call_id),
            "effect": await store.get_tool_effect(run_id=run, tool_call_id="c1"),
        }
    return found


@given(st.lists(steps, min_size=5, max_size=25), st.sampled_from([None, 1, 3]))
@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_any_sequence_does_what_the_store_of_the_harness_does(
    db: Database, tmp_path: Path, sequence: Any, most: int | None
) -> None:
    mine = db.for_tenant(f"t-{uuid.uuid4().hex[:16]}")
    oracle = SqliteStepStore(
        database=tmp_path / f"{uuid.uuid4().hex}.db", max_snapshots_per_run=most
    )
    ours = [MemalchemyStepStore(mine, max_snapshots_per_run=most) for _ in range(2)]
    for name, record in sequence:
        ours.reverse()
        expected = await outcome(lambda name=name, record=record: getattr(oracle, name)(record))
        found = await outcome(lambda name=name, record=record: getattr(ours[0], name)(record))
        assert found == expected
    assert await everything(ours[0]) == await everything(oracle)


# --- Snapshots ------------------------------------------------------------------------------------


def test_it_has_the_protocols_of_the_harness(store: MemalchemyStepStore) -> None:
    assert isinstance(store, StepStore)
    assert isinstance(store, SnapshotStore)


class Colour(Enum):
    RED = "red"


async def test_messages_are_loaded_equal_and_are_new_objects(
    store: MemalchemyStepStore, reopen: Callable[[], Database]
) -> None:
    given_one = snapshot("run", 1, *deepcopy(MESSAGES), timestamp=NOON)
    await store.save_snapshot(given_one)
    given_one.messages.clear()

    async with reopen() as other:
        found = await MemalchemyStepStore(other).latest_snapshot(run_id="run")
        assert found == snapshot("run", 1, *MESSAGES, timestamp=NOON)
        found.messages.clear()
    again = await store.latest_snapshot(run_id="run")
    assert again is not None
    assert again.messages == MESSAGES

    odd = ModelRequest(parts=[ToolReturnPart("paint", {"c": Colour.RED}, tool_call_id="1")])
    await store.save_snapshot(snapshot("run", 2, odd))
    (part,) = await continue_run(store, run_id="run")
    assert part.parts[0].content == {"c": "red"}  # type: ignore[union-attr]
    bad = ModelRequest(parts=[ToolReturnPart("paint", object(), tool_call_id="1")])
    with pytest.raises(NotSerialisable):
        await store.save_snapshot(snapshot("run", 3, bad, idempotency_key="3"))
    assert len(await store.list_snapshots(run_id="run")) == 2
    await store.save_snapshot(snapshot("run", 3, user("mended"), idempotency_key="3"))
    assert len(await store.list_snapshots(run_id="run")) == 3


async def test_a_key_is_used_once_by_whoever_and_after_a_pruning_too(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other_db:
        stores = [MemalchemyStepStore(one, max_snapshots_per_run=2) for one in (db, other_db)]
        for step in range(4):
            one = snapshot("run", step, user(str(step)), idempotency_key=f"{step}:1:complete")
            await asyncio.gather(*(store.save_snapshot(one) for store in stores * 3))
        for step in range(4):
            await stores[step % 2].save_snapshot(
                snapshot("run", 9, user("again"), idempotency_key=f"{step}:1:complete")
            )
        found = await stores[0].list_snapshots(run_id="run", include_interrupted=True)
    assert [text_of(one.messages[0]) for one in found] == ["2", "3"]


async def test_snapshots_of_several_writers_are_all_saved(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other_db:
        stores = [MemalchemyStepStore(one) for one in (db, other_db)]
        await asyncio.gather(
            *(
                store.save_snapshot(snapshot("run", step, idempotency_key=f"{step}:{at}"))
                for at, store in enumerate(stores)
                for step in range(4)
            )
        )
    found = await stores[0].list_snapshots(run_id="run")
    assert sorted((one.step_index, one.idempotency_key) for one in found) == sorted(
        (step, f"{step}:{at}") for at in range(2) for step in range(4)
    )


async def test_the_newest_complete_snapshot_outlives_interrupted_ones(db: Database) -> None:
    store = MemalchemyStepStore(db, max_snapshots_per_run=2)
    states = ["complete", "interrupted", "interrupted", "interrupted"]
    for step, state in enumerate(states):
        await store.save_snapshot(snapshot("run", step, user(str(step)), state=state))

    found = await store.list_snapshots(run_id="run", include_interrupted=True)
    assert [one.step_index for one in found] == [0, 2, 3]
    latest = await store.latest_snapshot(run_id="run")
    assert latest is not None
    assert latest.step_index == 0
    for wrong in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match="whole number"):
            MemalchemyStepStore(db, max_snapshots_per_run=wrong)  # type: ignore[arg-type]


async def test_a_snapshot_takes_what_is_new_in_it(store: MemalchemyStepStore) -> None:
    messages: list[ModelMessage] = []
    for step in range(100):
        messages += [user(f"question {step} {uuid.uuid4()}"), answer(f"{uuid.uuid4()}")]
        await store.save_snapshot(snapshot("run", step, *messages, idempotency_key=str(step)))
    infos = [info async for info in store.checkpointer.history("run")]
    assert sum(info.stored_size for info in infos) < 4 * infos[0].raw_size
    assert sum(info.raw_size for info in infos) > 40 * infos[0].raw_size


async def test_what_an_agent_waits_for_is_one_round_trip(
    store: MemalchemyStepStore, db: Database
) -> None:
    await store.save_snapshot(snapshot("run", 0, *MESSAGES, idempotency_key="0"))
    seen: list[Event] = []

    async def round_trips(work: Awaitable[Any]) -> int:
        seen.clear()
        await work
        return sum(event.round_trips for event in seen)

    unsubscribe = subscribe(seen.append)
    assert await round_trips(store.latest_snapshot(run_id="run")) == 1
    event = StepEvent(run_id="run", kind="run_started", step_index=0, idempotency_key="a")
    effect = ToolEffectRecord(tool_call_id="c", tool_name="t", run_id="run", status="started")
    if db.dialect.single_statement_save:
        assert await round_trips(store.append_event(event)) == 1
        assert await round_trips(store.record_tool_effect(effect)) == 1
    unsubscribe()


# --- Runs -----------------------------------------------------------------------------------------


async def test_of_those_who_register_a_run_at_once_one_succeeds(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other_db:
        stores = [MemalchemyStepStore(one) for one in (db, other_db)]
        done = await asyncio.gather(
            *(
                stores[n % 2].register_run(RunRecord(run_id="run", registration_id=str(n)))
                for n in range(8)
            ),
            return_exceptions=True,
        )
    winners = [str(n) for n, result in enumerate(done) if result is None]
    assert len(winners) == 1
    assert all(isinstance(one, ValueError) for one in done if one is not None)
    found = await MemalchemyStepStore(db).get_run(run_id="run")
    assert found is not None
    assert found.registration_id == winners[0]


async def test_runs_of_other_namespaces_and_tenants_are_others(db: Database) -> None:
    stores = [
        MemalchemyStepStore(db),
        MemalchemyStepStore(db, namespace=("runs",)),
        MemalchemyStepStore(db.for_tenant(f"{db.tenant}-2")),
    ]
    for store in stores:
        await store.register_run(RunRecord(run_id="run"))
        await store.save_snapshot(snapshot("run", 1, user("1"), idempotency_key="1"))
    for store in stores:
        assert len(await store.list_runs()) == 1
        assert len(await store.list_snapshots(run_id="run")) == 1
    await Checkpointer(stores[2].db).forget(tenant=stores[2].db.tenant)


async def test_a_killed_process_loses_no_acknowledged_step(
    shared_url: str, db: Database, lasting: None
) -> None:
    process = subprocess.Popen(  # noqa: ASYNC220 - nobody else waits
        [sys.executable, step_to_kill.__file__, shared_url, db.tenant, "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    lines = first_lines(process.stdout, 20)
    process.kill()
    rest, errors = process.communicate()
    assert len(lines) == 20, errors
    told = [int(line) for line in [*lines, *rest.splitlines()]]

    store = MemalchemyStepStore(db, max_snapshots_per_run=5)
    events = [event.step_index for event in await store.list_events(run_id="run")]
    assert events == [*range(len(events))]
    assert len(events) >= len(told)
    newest = await store.latest_snapshot(run_id="run")
    assert newest is not None
    assert newest.step_index in (len(events) - 1, len(events))
    assert [text_of(message) for message in newest.messages[::2]] == [
        str(step) for step in range(newest.step_index + 1)
    ]
    kept = await store.list_snapshots(run_id="run")
    assert len(kept) in (5, 6), "the kill may have come before the pruning"
    again = snapshot("run", 0, user("again"), idempotency_key="0:s")
    await store.save_snapshot(again)
    assert await store.latest_snapshot(run_id="run") == newest


# --- Under an agent -------------------------------------------------------------------------------


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"It says {last.content}.")])
    if len(messages) > 3:
        return ModelResponse(parts=[TextPart(f"{len(messages)} messages")])
    return ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id="call-1")])


async def test_a_run_is_recorded_and_continued_after_a_restart(
    db: Database, reopen: Callable[[], Database]
) -> None:
    store = MemalchemyStepStore(db)
    agent = Agent(
        FunctionModel(model), capabilities=[StepPersistence(store=store, agent_name="looker")]
    )

    @agent.tool_plain
    def look() -> str:
        return "17"

    result = await agent.run("Look.", conversation_id="talk")
    assert result.output == "It says 17."

    async with reopen() as restarted:
        store = MemalchemyStepStore(restarted)
        (run,) = await store.list_runs(conversation_id="talk")
        assert run.agent_name == "looker"
        kinds = [event.kind for event in await store.list_events(run_id=run.run_id)]
        assert kinds[0] == "run_started"
        assert kinds[-1] == "run_completed"
        assert kinds.count("tool_call_completed") == 1
        effect = await store.get_tool_effect(run_id=run.run_id, tool_call_id="call-1")
        assert effect is not None
        assert effect.status == "completed"
        assert await store.list_unresolved_tool_effects(run_id=run.run_id) == []
        history = await continue_run(store, run_id=run.run_id)
        again = await agent.run("And now?", message_history=history)
        assert again.output == f"{len(history) + 1} messages"


async def test_snapshots_are_what_the_rest_of_memalchemy_reads(
    store: MemalchemyStepStore, db: Database
) -> None:
    await store.save_snapshot(
        snapshot("run", 0, user("Where is the lighthouse?"), idempotency_key="0")
    )
    threads = Checkpointer(db, namespace=("pydantic_ai_harness", "snapshots"))
    assert await threads.list_threads() == ["run"]
    (hit,) = await threads.search("lighthouse")
    assert (hit["thread_id"], hit["checkpoint_id"]) == ("run", "0")
    state = await threads.load("run")
    assert [text_of(message) for message in state["messages"]] == ["Where is the lighthouse?"]
    await store.register_run(RunRecord(run_id="run"))
    assert await Store(db).list_keys(("pydantic_ai_harness", "runs")) == ["run"]

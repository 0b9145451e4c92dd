"""Flow states: compared with CrewAI's own persistence, exact, complete, and used by real flows."""

from __future__ import annotations

import asyncio
import copy
import enum
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from crewai.flow.async_feedback.types import HumanFeedbackPending, PendingFeedbackContext
from crewai.flow.flow import Flow, FlowState, listen, start
from crewai.flow.human_feedback import human_feedback
from crewai.flow.persistence import FlowPersistence, persist
from crewai.flow.persistence.sqlite import SQLiteFlowPersistence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, ValidationError

from drawn_examples import examples
from memalchemy import Database, NotSerialisable, Retention, TooLarge, sync
from memalchemy.integrations.crewai import MemalchemyFlowPersistence, install

NOON = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
SOME = uuid.UUID(int=7)


@pytest.fixture
def flows(db: Database) -> MemalchemyFlowPersistence:
    return MemalchemyFlowPersistence(db)


def pause(method: str = "review", **more: Any) -> PendingFeedbackContext:
    return PendingFeedbackContext("f", "app.Review", method, {"draft": 1}, "Please look", **more)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)
STATES = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), JSON)
STEPS = st.lists(
    st.tuples(st.sampled_from(["save", "pause", "clear"]), st.sampled_from("ab"), STATES),
    min_size=1,
    max_size=8,
)


@given(steps=STEPS)
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_history_reads_as_with_crewais_own(
    steps: list[tuple[str, str, dict[str, Any]]], db: Database, tmp_path: Path
) -> None:
    name = uuid.uuid4().hex
    ours = MemalchemyFlowPersistence(db, namespace=(name,))
    theirs = SQLiteFlowPersistence(str(tmp_path / f"{name}.db"))
    for what, flow, state in steps:
        one: FlowPersistence
        for one in (ours, theirs):
            if what == "save":
                one.save_state(flow, "step", state)
            elif what == "pause":
                one.save_pending_feedback(flow, pause(requested_at=NOON), state)
            else:
                one.clear_pending_feedback(flow)
        for known in "abc":
            assert ours.load_state(known) == theirs.load_state(known)
            assert ours.load_pending_feedback(known) == theirs.load_pending_feedback(known)


VALUES = {
    "at": NOON,
    "naive": NOON.replace(tzinfo=None),
    "day": NOON.date(),
    "user": SOME,
    "price": Decimal("19.90"),
    "tags": {"x", "y"},
    "pair": (1, 2),
    "raw": b"\x00\xff",
    "big": 2**80,
    "path": Path("/tmp/x"),
}


class Order(FlowState):
    at: datetime = NOON
    user: uuid.UUID = SOME
    anything: dict[str, Any] = Field(default_factory=lambda: dict(VALUES))
    wait: timedelta = timedelta(minutes=3)
    by_number: dict[int, str] = Field(default_factory=lambda: {1: "one"})


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Opaque:
    def __str__(self) -> str:
        return "opaque"


def test_values_come_back_as_they_were_from_dicts_and_from_models(
    flows: MemalchemyFlowPersistence,
) -> None:
    flows.save_state("dict", "step", {"id": "dict", **VALUES})
    assert flows.load_state("dict") == {"id": "dict", **VALUES}

    order = Order(id="model")
    flows.save_state("model", "step", order)
    stored = flows.load_state("model")
    assert stored is not None
    assert (stored["at"], stored["anything"]) == (NOON, VALUES)
    assert Order.model_validate(stored) == order


def test_what_has_no_form_of_its_own_is_stored_in_that_of_json(
    flows: MemalchemyFlowPersistence,
) -> None:
    state = {
        "colour": Colour.RED,
        "point": Point(3),
        "model": Order(id="m", anything={}),
        "opaque": Opaque(),
        "keys": {1: "one", False: "no", None: "none", "t": ({2: 3},)},
    }
    flows.save_state("f", "step", state)

    found = flows.load_state("f")
    assert found is not None
    model = found.pop("model")
    assert Order.model_validate(model) == state["model"]
    assert found == {
        "colour": "red",
        "point": {"x": 3},
        "opaque": "opaque",
        "keys": {"1": "one", "false": "no", "null": "none", "t": ({"2": 3},)},
    }


def test_a_secret_is_refused_and_nothing_is_written(flows: MemalchemyFlowPersistence) -> None:
    flows.save_state("f", "step", {"n": 1})
    for save in (
        lambda state: flows.save_state("f", "step", state),
        lambda state: flows.save_pending_feedback("f", pause(), state),
    ):
        with pytest.raises(NotSerialisable, match="/key") as raised:
            save({"key": SecretStr("hush")})
        assert "hush" not in str(raised.value)
    assert flows.load_state("f") == {"n": 1}
    assert flows.load_pending_feedback("f") is None
    for strange in ([1], "text", None):
        with pytest.raises(NotSerialisable):
            flows.save_state("f", "step", strange)  # type: ignore[arg-type]
    with pytest.raises(TooLarge, match="thread_id"):
        flows.save_state("x" * 256, "step", {})


def test_what_is_read_or_given_may_be_changed(flows: MemalchemyFlowPersistence) -> None:
    given = {"items": [1]}
    flows.save_pending_feedback("f", pause(), given)
    given["items"].append(2)
    for _ in range(2):
        state = flows.load_state("f")
        paused = flows.load_pending_feedback("f")
        assert state is not None
        assert paused is not None
        assert state == paused[0] == {"items": [1]}
        state["items"].append(3)
        paused[0]["items"].append(3)


async def test_every_state_is_there_with_its_method_and_costs_what_has_changed(
    db: Database,
) -> None:
    flows = MemalchemyFlowPersistence(db)
    words = [f"{n * 7919 % 10007:x} words of message number {n}" for n in range(400)]
    for turn in range(1, 101):
        await flows.asave_state("f", f"step{turn}", {"id": "f", "messages": words[: 4 * turn]})

    history = [one async for one in flows.native.history("f")]
    assert [one.metadata["method"] for one in history] == [f"step{n}" for n in range(100, 0, -1)]
    stats = await flows.native.get_storage_stats("f")
    assert stats["total_size"] > 15 * stats["compressed_size"]
    second = await flows.native.load("f", history[-2].checkpoint_id)
    assert second["messages"] == words[:8]

    few = MemalchemyFlowPersistence(db, namespace=("few",), retention=Retention(keep_last=3))
    for turn in range(20):
        await few.asave_state("f", "step", {"turn": turn})
    assert len(await few.native.list_checkpoints("f", 100)) == 3
    assert await few.aload_state("f") == {"turn": 19}


def test_flows_of_one_id_in_several_namespaces_and_tenants_are_apart(db: Database) -> None:
    places = [
        MemalchemyFlowPersistence(db),
        MemalchemyFlowPersistence(db, namespace=("other",)),
        MemalchemyFlowPersistence(db.for_tenant(f"{db.tenant[:50]}-2")),
    ]
    for number, one in enumerate(places):
        one.save_pending_feedback("f", pause(), {"n": number})
    places[1].clear_pending_feedback("f")
    assert [one.load_state("f") for one in places] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert [bool(one.load_pending_feedback("f")) for one in places] == [True, False, True]


async def test_forgetting_a_flow_erases_what_it_waits_for(db: Database) -> None:
    flows = MemalchemyFlowPersistence(db)
    await flows.asave_pending_feedback("f", pause(), {"n": 1})

    await flows.native.forget(thread_id="f")

    assert await flows.aload_state("f") is None
    assert await flows.aload_pending_feedback("f") is None


def test_many_threads_and_connections_lose_no_state(shared_url: str, lasting: None) -> None:
    name = uuid.uuid4().hex
    several = [MemalchemyFlowPersistence(shared_url, namespace=(name,)) for _ in range(3)]

    def work(number: int) -> None:
        flows = several[number % 3]
        for turn in range(8):
            flows.save_state("shared", f"w{number}", {"by": number, "turn": turn})
            flows.save_pending_feedback(f"own{number}", pause(f"m{turn}"), {"turn": turn})
            paused = flows.load_pending_feedback(f"own{number}")
            assert paused is not None
            assert (paused[0], paused[1].method_name) == ({"turn": turn}, f"m{turn}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))

    async def saved() -> list[tuple[int, int]]:
        ids = await several[0].native.list_checkpoints("shared", 1000)
        states = [await several[0].native.load("shared", one) for one in ids]
        return [(state["by"], state["turn"]) for state in reversed(states)]

    found = several[0].wait(saved())
    assert sorted(found) == [(by, turn) for by in range(6) for turn in range(8)]
    for by in range(6):
        assert [turn for one, turn in found if one == by] == list(range(8)), "in order"
    for one in several:
        one.close()


# --- Real flows -----------------------------------------------------------------------------------


class Count(FlowState):
    counter: int = 0
    seen: list[datetime] = Field(default_factory=list)


def test_a_flow_goes_on_after_a_restart_with_one_line(shared_url: str, lasting: None) -> None:
    namespace = (uuid.uuid4().hex,)

    def build() -> Flow[Count]:
        @persist()
        class Counting(Flow[Count]):
            @start()
            def count(self) -> int:
                self.state.counter += 1
                self.state.seen.append(NOON)
                return self.state.counter

            @listen(count)
            def double(self) -> int:
                self.state.counter *= 2
                return self.state.counter

        return Counting(suppress_flow_events=True)

    with install(shared_url, namespace=namespace):
        first = build()
        assert first.kickoff() == 2
        id_ = first.state.id
    with install(shared_url, namespace=namespace) as storage:
        second = build()
        assert second.kickoff(inputs={"id": id_}) == 6
        assert second.state.seen == [NOON, NOON]
        fork = build()
        assert fork.kickoff(restore_from_state_id=id_) == 14
        assert fork.state.id != id_
        methods = [
            one.metadata["method"] for one in storage.wait(_history(storage.flows.native, id_))
        ]
        assert methods == ["double", "count"] * 2


async def _history(native: Any, thread_id: str) -> list[Any]:
    return [one async for one in native.history(thread_id)]


class Later:
    """A provider of feedback that comes another day."""

    def request_feedback(self, context: PendingFeedbackContext, flow: Any) -> str:
        raise HumanFeedbackPending(context=context, callback_info={})


class Draft(FlowState):
    text: str = ""
    due: Any = None


class Review(Flow[Draft]):
    @start()
    @human_feedback(message="Is this good?", provider=Later())
    def write(self) -> str:
        self.state.text = "a draft"
        self.state.due = NOON
        return self.state.text

    @listen(write)
    def finish(self, result: Any) -> str:
        return f"{self.state.text}: {result.feedback}"


def test_a_flow_that_waits_for_a_person_is_resumed_after_a_restart(
    shared_url: str, lasting: None
) -> None:
    flows = MemalchemyFlowPersistence(shared_url)
    waiting = Review(persistence=flows, suppress_flow_events=True).kickoff()
    assert isinstance(waiting, HumanFeedbackPending)
    id_ = waiting.context.flow_id
    flows.close()

    again = MemalchemyFlowPersistence(shared_url)
    flow = Review.from_pending(id_, again)
    assert flow.state.due == NOON
    assert flow.resume("looks good") == "a draft: looks good"
    assert again.load_pending_feedback(id_) is None
    assert again.load_state(id_) is not None
    again.close()


# --- What CrewAI does with the object itself ------------------------------------------------------


def test_copies_share_the_database_and_settings_name_none(db: Database) -> None:
    flows = MemalchemyFlowPersistence(db, namespace=("team",))
    for one in (copy.copy(flows), copy.deepcopy(flows), flows.model_copy(deep=True)):
        assert one.db is flows.db
    settings_ = flows.model_dump(mode="json")
    assert settings_ == {
        "persistence_type": "MemalchemyFlowPersistence",
        "namespace": ["crewai", "team"],
    }

    with pytest.raises(ValidationError, match="install"):
        MemalchemyFlowPersistence.model_validate(settings_)
    with install(db):
        made = MemalchemyFlowPersistence.model_validate(settings_)
    flows.save_state("f", "step", {"n": 1})
    assert made.load_state("f") == {"n": 1}


def test_settings_find_the_database_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALCHEMY_URL", f"sqlite:///{tmp_path}/flows.db")
    MemalchemyFlowPersistence().save_state("f", "step", {"n": 1})
    made = MemalchemyFlowPersistence.model_validate(
        {"persistence_type": "MemalchemyFlowPersistence"}
    )
    assert made.load_state("f") == {"n": 1}


def test_a_definition_of_a_flow_names_our_class(db: Database) -> None:
    flows = MemalchemyFlowPersistence(db)

    @persist(flows)
    class Empty(Flow[FlowState]):
        @start()
        def begin(self) -> None:
            return None

    with install(db):
        flow = Empty(suppress_flow_events=True)
        assert flow.persistence is flows
        dumped = flow.model_dump(mode="json", include={"persistence"})
        made = Empty(persistence=dumped["persistence"], suppress_flow_events=True).persistence
    assert isinstance(made, MemalchemyFlowPersistence)
    assert made.db.identity == db.identity


def test_it_works_inside_a_running_event_loop_and_on_a_sync_database(tmp_path: Path) -> None:
    flows = MemalchemyFlowPersistence(sync.Database(f"sqlite:///{tmp_path}/flows.db"))

    async def main() -> dict[str, Any] | None:
        flows.save_state("f", "step", {"n": 1})
        await flows.asave_state("f", "step", {"n": 2})
        return flows.load_state("f")

    assert asyncio.run(main()) == {"n": 2}


class _Model(BaseModel):
    n: int


def test_a_model_that_is_no_flow_state_is_stored_as_its_fields(
    flows: MemalchemyFlowPersistence,
) -> None:
    flows.save_state("f", "step", _Model(n=3))
    assert flows.load_state("f") == {"n": 3}

"""Checkpoints: what CrewAI's own providers promise, and real flows and crews that are restored."""

from __future__ import annotations

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent, Crew, Task
from crewai.events.event_bus import crewai_event_bus
from crewai.flow.flow import Flow, FlowState, listen, start
from crewai.llms.base_llm import BaseLLM
from crewai.state import CheckpointConfig
from crewai.state.provider import utils
from crewai.state.provider.core import BaseProvider
from crewai.state.provider.json_provider import JsonProvider
from pydantic import Field

from memalchemy import Database
from memalchemy.integrations.crewai import MemalchemyCheckpointProvider, install
from waiting import A_WHILE

PROVIDERS = ("ours", "CrewAI's")


@pytest.fixture
def ours(db: Database) -> MemalchemyCheckpointProvider:
    return MemalchemyCheckpointProvider(db)


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest, ours: MemalchemyCheckpointProvider) -> BaseProvider:
    return ours if request.param == "ours" else JsonProvider()


def data(number: int, **more: Any) -> str:
    return json.dumps({"n": number, "event_record": {"nodes": {}}, **more})


# --- Beside CrewAI's own --------------------------------------------------------------------------


async def test_what_was_written_is_read(provider: BaseProvider, tmp_path: Path) -> None:
    place = str(tmp_path / "cp")
    kept = {}
    parent = None
    for number in range(6):
        branch = ("main", "fork/a[1]")[number % 2]
        write = {"parent_id": parent, "branch": branch}
        text = data(number, words="日本 \x00 é", deep=[{"a": [1.5, None, True, 2**70]}])
        if number < 3:
            location = provider.checkpoint(text, place, **write)
        else:
            location = await provider.acheckpoint(text, place, **write)
        kept[location] = json.loads(text)
        parent = provider.extract_id(location)
    assert len({provider.extract_id(one) for one in kept}) == 6
    for location, state in kept.items():
        assert json.loads(provider.from_checkpoint(location)) == state
        assert json.loads(await provider.afrom_checkpoint(location)) == state


def test_prune_looks_at_one_branch_of_one_location(provider: BaseProvider, tmp_path: Path) -> None:
    place, other = str(tmp_path / "cp"), str(tmp_path / "cp2")
    Path(place).mkdir()
    made = {
        (where, branch): [provider.checkpoint(data(n), where, branch=branch) for n in range(4)]
        for where in (place, other)
        for branch in ("main", "fork/x")
    }

    def there(where: str, branch: str) -> int:
        return sum(is_there(provider, one) for one in made[where, branch])

    assert provider.prune(place, 10) == 0
    assert provider.prune(place, 2, branch="main") == 2
    assert [there(*one) for one in made] == [2, 4, 4, 4]
    assert provider.prune(place, 0, branch="fork/x") == 4
    assert [there(*one) for one in made] == [2, 0, 4, 4]
    assert provider.prune(str(tmp_path / "never"), 1) == 0


def is_there(provider: BaseProvider, location: str) -> bool:
    try:
        provider.from_checkpoint(location)
    except (ValueError, FileNotFoundError):
        return False
    return True


# --- Ours -----------------------------------------------------------------------------------------


def test_prune_keeps_the_newest_and_they_still_load(ours: MemalchemyCheckpointProvider) -> None:
    made, parent = [], None
    for number in range(8):
        made.append(ours.checkpoint(data(number, pad="x" * 3000), "cp", parent_id=parent))
        parent = ours.extract_id(made[-1])
    assert ours.prune("cp", 3) == 5
    assert [is_there(ours, one) for one in made] == [False] * 5 + [True] * 3
    assert [json.loads(ours.from_checkpoint(one))["n"] for one in made[5:]] == [5, 6, 7]
    with pytest.raises(ValueError, match="at least 0"):
        ours.prune("cp", -1)


async def test_the_parent_and_the_branch_are_recorded(ours: MemalchemyCheckpointProvider) -> None:
    first = await ours.acheckpoint(data(1), "cp")
    second = await ours.acheckpoint(data(2), "cp", parent_id=ours.extract_id(first))
    fork = await ours.acheckpoint(data(3), "cp", parent_id=ours.extract_id(first), branch="fork/1")
    strange = await ours.acheckpoint(data(4), "cp", parent_id="20260101T000000_abc")

    infos = {one.checkpoint_id: one async for one in ours.native.history("cp")}
    parents = {ours.extract_id(one): None for one in (first, second, fork, strange)}
    for id_ in parents:
        parents[id_] = infos[id_].parent_id
    ids = list(parents)
    assert [*parents.values()] == [None, ids[0], ids[0], "20260101T000000_abc"]
    assert [infos[one].metadata["branch"] for one in ids] == ["main", "main", "fork/1", "main"]


async def test_a_checkpoint_costs_what_differs_from_its_parent(
    ours: MemalchemyCheckpointProvider,
) -> None:
    crews = [
        [f"{n * 7919 % 10007:x} event {n} of crew {crew}" for n in range(600)] for crew in range(2)
    ]
    parents: list[str | None] = [None, None]
    written = 0
    for turn in range(1, 41):
        for crew, events in enumerate(crews):  # two crews write to one location in turns
            text = data(turn, entities=[{"events": events[: 15 * turn]}])
            written += len(text)
            location = await ours.acheckpoint(text, "cp", parent_id=parents[crew])
            parents[crew] = ours.extract_id(location)
    stats = await ours.native.get_storage_stats("cp")
    assert written > 20 * stats["compressed_size"]


def test_what_is_no_json_object_comes_back_as_it_was(ours: MemalchemyCheckpointProvider) -> None:
    for text in ("", "[1, 2]", "not json", '"text"', '{"text": "x"}', "{}"):
        assert ours.from_checkpoint(ours.checkpoint(text, "cp")) == text


def test_locations_are_ours_whatever_they_are_called(ours: MemalchemyCheckpointProvider) -> None:
    for place in ("./.checkpoints", "a#b", "memalchemy:x", "C:\\x y"):
        location = ours.checkpoint(data(1), place)
        assert location.startswith("memalchemy:")
        assert location.count("memalchemy:") == 1
        assert is_there(ours, location)
        assert is_there(ours, location.removeprefix("memalchemy:"))
        assert ours.prune(place, 0) == 1
    for strange in ("memalchemy:x", "#id", "x#"):
        with pytest.raises(ValueError, match="LOCATION#ID"):
            ours.extract_id(strange)
    with pytest.raises(ValueError, match="Checkpoint not found: none"):
        ours.from_checkpoint("x#none")


def test_a_configuration_takes_it_and_keeps_it(ours: MemalchemyCheckpointProvider) -> None:
    config = CheckpointConfig(provider=ours)
    assert config.provider is ours
    assert config.model_copy(deep=True).provider is ours
    assert config.location == "./.checkpoints"
    assert config.model_dump(mode="json")["provider"] == {"provider_type": "json"}


def test_several_crews_at_once_lose_no_checkpoint(shared_url: str, lasting: None) -> None:
    name = (uuid.uuid4().hex,)
    several = [MemalchemyCheckpointProvider(shared_url, namespace=name) for _ in range(3)]

    def work(number: int) -> list[str]:
        provider, made, parent = several[number % 3], [], None
        for turn in range(8):
            text = data(turn, by=number)
            made.append(provider.checkpoint(text, "cp", parent_id=parent, branch=f"b{number}"))
            parent = provider.extract_id(made[-1])
            provider.prune("cp", 4, branch=f"b{number}")
        return made

    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(work, range(6)))
    for number, locations in enumerate(made):
        assert [is_there(several[0], one) for one in locations] == [False] * 4 + [True] * 4
        last = json.loads(several[1].from_checkpoint(locations[-1]))
        assert (last["by"], last["n"]) == (number, 7)
    for one in several:
        one.close()


# --- Real flows and crews -------------------------------------------------------------------------


class Steps(FlowState):
    done: list[str] = Field(default_factory=list)


def test_a_flow_is_restored_from_a_checkpoint_after_a_restart(
    shared_url: str, lasting: None
) -> None:
    at_c, release = threading.Event(), threading.Event()
    states: list[Any] = []
    ran: list[str] = []

    class Three(Flow[Steps]):
        @start()
        def a(self) -> str:
            ran.append("a")
            self.state.done.append("a")
            return "a"

        @listen(a)
        def b(self) -> str:
            ran.append("b")
            self.state.done.append("b")
            return "b"

        @listen(b)
        def c(self) -> str:
            ran.append("c")
            states.append(crewai_event_bus.runtime_state)
            at_c.set()
            release.wait(timeout=A_WHILE)
            self.state.done.append("c")
            return "c"

    provider = MemalchemyCheckpointProvider(shared_url)
    runner = threading.Thread(target=Three(suppress_flow_events=False).kickoff)
    runner.start()
    try:
        assert at_c.wait(timeout=A_WHILE)
        states[0]._provider = provider
        location = states[0].checkpoint("flows")
    finally:
        release.set()
        runner.join(timeout=A_WHILE)
    provider.close()
    ran.clear()

    with install(shared_url) as storage:
        again = Three()
        assert again.kickoff(from_checkpoint=CheckpointConfig(restore_from=location)) == "c"
        assert ran == ["c"]
        assert states[-1]._provider is storage.checkpoints, "it goes on in the same place"


class Script(BaseLLM):
    def __init__(self) -> None:
        super().__init__(model="stub")

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        return f"Final Answer: done with {len(messages)}"

    def supports_function_calling(self) -> bool:
        return False

    def supports_stop_words(self) -> bool:
        return False

    def get_context_window_size(self) -> int:
        return 4096

    async def acall(self, *_: Any, **__: Any) -> str:
        raise NotImplementedError


@pytest.mark.filterwarnings("ignore")  # CrewAI warns of fields of its own agents and crews
def test_a_crew_writes_checkpoints_prunes_them_and_is_restored(
    shared_url: str, lasting: None
) -> None:
    namespace = (uuid.uuid4().hex,)
    with install(shared_url, namespace=namespace) as storage:
        agent = Agent(role="r", goal="g", backstory="b", llm=Script())
        tasks = [Task(description=f"task {n}", expected_output="x", agent=agent) for n in range(3)]
        crew = Crew(
            agents=[agent],
            tasks=tasks,
            verbose=False,
            checkpoint=CheckpointConfig(
                location="crew",
                provider=storage.checkpoints,
                on_events=["task_started", "task_completed"],
                max_checkpoints=2,
            ),
        )
        result = crew.kickoff()
        assert len(result.tasks_output) == 3
        crewai_event_bus.flush()
        ids = storage.wait(storage.checkpoints.native.list_checkpoints("crew", 100))
        assert 1 <= len(ids) <= 2

    with install(shared_url, namespace=namespace) as storage:
        restored = Crew.from_checkpoint(
            CheckpointConfig(restore_from=f"memalchemy:crew#{ids[0]}", provider=storage.checkpoints)
        )
    assert [task.description for task in restored.tasks] == ["task 0", "task 1", "task 2"]
    assert [task.output is not None for task in restored.tasks][:2] == [True, True]


def test_other_locations_are_still_crewais_own(db: Database, tmp_path: Path) -> None:
    before = utils.detect_provider
    file = JsonProvider().checkpoint(data(1), str(tmp_path))
    with install(db) as storage:
        assert type(utils.detect_provider(file)) is JsonProvider
        assert utils.detect_provider("memalchemy:x#1") is storage.checkpoints
    assert utils.detect_provider == before

"""Forks of old checkpoints, and copies, prunes and deletions between runs.

`MemalchemySaver` must behave as LangGraph's own saver in memory, step by step.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from graph_walk import Reference, Walk, alike
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, StateSnapshot
from sample_graphs import agent, chat, function, harvest, jury, ledger, nested, plan

from drawn_examples import examples
from memalchemy import Database
from memalchemy.integrations.langgraph import MemalchemySaver

both = pytest.mark.parametrize("blocking", [False, True], ids=["ainvoke", "invoke"])


@pytest.fixture
def saver(db: Database) -> MemalchemySaver:
    return MemalchemySaver(db)


def human(text: str, name: str) -> dict:
    return {"messages": [HumanMessage(text, id=name)]}


async def forks_of_forks(walk: Walk) -> None:
    for turn in range(3):
        await walk.invoke(human(f"turn {turn}", f"h{turn}"))
    await walk.invoke(human("fork", "f1"), at=3)
    await walk.invoke(human("fork of the fork", "f2"), at=-2)
    await walk.invoke(human("beside the fork", "f3"), at=3)
    await walk.invoke(None, at=4)  # what ran from there runs once more
    await walk.update({"messages": [HumanMessage("by hand", id="u")]}, at=5)
    await walk.invoke(human("edit", "e"))


@both
async def test_a_fork_may_be_forked_again(saver, blocking):
    await alike(saver, blocking, chat, forks_of_forks)


@both
async def test_a_state_changed_by_hand_is_a_fork(saver, blocking):
    async def work(walk: Walk) -> None:
        await walk.invoke({"goal": "abcde"})
        await walk.update({"goal": "ab", "done": ["by hand"]}, at=2, as_node="split")
        await walk.invoke(None)
        await walk.update(None, at=1, as_node="__copy__")
        await walk.invoke({"goal": "abcd"}, at=0)
        await walk.invoke(None, at=-3)

    await alike(saver, blocking, plan, work)


@both
async def test_an_interrupt_is_answered_on_two_branches(saver, blocking):
    async def shop(walk: Walk) -> None:
        await walk.invoke(human("anvil feather", "h"))
        await walk.invoke(Command(resume="yes"))
        await walk.invoke(None, at=4)  # asked again
        await walk.invoke(Command(resume="no"))
        await walk.invoke(Command(resume="maybe"), at=4)

    await alike(saver, blocking, agent, shop)


@both
async def test_delta_channels_do_not_see_the_other_branches(saver, blocking):
    async def write(walk: Walk) -> None:
        for turn in range(2):
            await walk.invoke({"width": 2, "lines": [f"turn {turn}"]})
        await walk.invoke({"width": 1, "lines": ["fork"]}, at=3)
        await walk.invoke({"width": 3, "lines": ["fork of the fork"]}, at=-2)
        await walk.update({"lines": ["by hand"]}, at=2, as_node="close")

    await alike(saver, blocking, ledger, write)


def inside(states: Sequence[StateSnapshot]) -> dict:
    """The graph within that asks, as the state that was asked in has it."""
    (asking,) = [state for state in states if state.interrupts]
    config = asking.tasks[0].state
    assert isinstance(config, dict)
    return config


@both
async def test_a_subgraphs_state_is_updated_and_continues(saver, blocking):
    async def talk(walk: Walk) -> None:
        await walk.invoke({"said": ["hello"]})
        config = inside(await walk.history())
        await walk.update({"said": ["within"]}, at=lambda _: config)
        await walk.invoke(Command(resume="yes"))
        await walk.invoke(None, at=1)
        await walk.invoke(Command(resume="no"))

    await alike(saver, blocking, nested, talk)


@both
async def test_threads_are_copied_pruned_and_deleted_between_runs(saver, blocking):
    async def work(walk: Walk) -> None:
        for turn in range(2):
            await walk.invoke(human(f"turn {turn}", f"h{turn}"))
        await walk.invoke(human("fork", "f"), at=2)
        await walk.copy("1", "2")
        await walk.invoke(human("on the copy", "c"), thread="2", at=4)
        await walk.invoke(human("on the first", "d"))
        await walk.prune("1")
        await walk.invoke(human("after the pruning", "p"))
        await walk.prune("2", strategy="delete")
        await walk.invoke(human("anew", "n"), thread="2")

    walk = await alike(saver, blocking, chat, work)
    assert (await walk.history("2"))[0].parent_config is None


@both
async def test_a_copy_includes_interrupts_of_subgraphs(saver, blocking):
    async def work(walk: Walk) -> None:
        await walk.invoke({"said": ["hello"]})
        await walk.copy("1", "2")
        await walk.invoke(Command(resume="yes"))
        await walk.invoke(Command(resume="no"), thread="2")
        await walk.prune("1", "2")
        await walk.invoke({"said": ["again"]}, thread="2")

    await alike(saver, blocking, nested, work)


@both
async def test_a_delta_channel_survives_pruning(saver, blocking):
    walk = Walk(ledger, saver, prefix="p-", blocking=blocking)
    for turn in range(2):
        await walk.invoke({"width": 2, "lines": [f"turn {turn}"]})
    whole = (await walk.state()).values

    await walk.prune("1")

    assert (await walk.state()).values == whole
    await walk.invoke({"width": 1, "lines": ["after"]})
    assert (await walk.state()).values["lines"][: len(whole["lines"])] == whole["lines"]


@both
async def test_checkpoints_are_deleted_by_run_id(saver, blocking):
    runs = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(3)]

    async def work(walk: Walk) -> None:
        for turn, run in enumerate(runs):
            config = {"metadata": {"run_id": run}}
            await walk.invoke(human(f"turn {turn}", f"h{turn}"), config=config)
        await walk.delete_for_runs()
        await walk.delete_for_runs(runs[2], "no such run")
        await walk.invoke(human("on", "o"), config={"metadata": {"run_id": runs[0]}})

    await alike(saver, blocking, chat, work)


class Broken(Reference):
    """Savers that are wrong in one thing each, as one may be without anybody seeing it."""


class SameVersions(Broken):
    get_next_version = BaseCheckpointSaver.get_next_version


class OneLine(Broken):
    def put(self, config, checkpoint, metadata, new_versions):
        newest = self.get_tuple({"configurable": {**config["configurable"], "checkpoint_id": None}})
        if newest is not None:
            config = newest.config
        return super().put(config, checkpoint, metadata, new_versions)


class LosesWrites(Broken):
    def get_tuple(self, config):
        found = super().get_tuple(config)
        return found and found._replace(pending_writes=[])


class KeepsWhatWasRemoved(Broken):
    def put(self, config, checkpoint, metadata, new_versions):
        before = self.get_tuple(config) if config["configurable"].get("checkpoint_id") else None
        values = {**(before.checkpoint["channel_values"] if before else {})}
        values |= checkpoint["channel_values"]
        return super().put(config, {**checkpoint, "channel_values": values}, metadata, new_versions)


class FirstResumeWins(Broken):
    def put_writes(self, config, writes, task_id, task_path=""):
        held = self.get_tuple(config)
        channels = {channel for task, channel, _ in held.pending_writes if task == task_id}
        new = [write for write in writes if write[0] not in channels or write[0] != "__resume__"]
        super().put_writes(config, new, task_id, task_path)


class ForgetsThePath(Broken):
    def put_writes(self, config, writes, task_id, task_path=""):
        super().put_writes(config, writes, task_id)


async def judge(walk: Walk) -> None:
    await walk.invoke({"said": ["opened"]})
    for _ in range(3):
        asked = (await walk.state()).interrupts
        await walk.invoke(Command(resume={one.id: "answer" for one in asked}))


async def write_many_lines(walk: Walk) -> None:
    await walk.invoke({"width": 12})
    await walk.invoke({"width": 12})


@pytest.mark.parametrize(
    ("broken", "build", "script"),
    [
        (SameVersions, chat, forks_of_forks),
        (OneLine, chat, forks_of_forks),
        (LosesWrites, jury, judge),
        (KeepsWhatWasRemoved, chat, forks_of_forks),
        (FirstResumeWins, jury, judge),
        (ForgetsThePath, ledger, write_many_lines),
    ],
)
async def test_the_comparison_notices_a_wrong_saver(broken, build, script):
    with pytest.raises(AssertionError, match="on LangGraph's own saver"):
        await alike(broken(), False, build, script)


BUILDS = {
    "chat": (chat, lambda n: human(f"said {n}", f"h{n % 4}")),
    "plan": (plan, lambda n: {"goal": "abcdefgh"[: n % 9], "facts": {f"f{n}": n}}),
    "harvest": (harvest, lambda n: {"fields": ["a", "?b", "c", "?d"][: n % 5]}),
    "ledger": (ledger, lambda n: {"width": n % 3, "lines": [f"given {n}"]}),
    "nested": (nested, lambda n: {"said": [f"said {n}"]}),
    "function": (function, lambda n: n),
}
places = st.none() | st.integers(0, 40)
steps = st.tuples(
    st.sampled_from(["invoke", "go on", "answer", "answer", "fork", "update", "delete", "copy"]),
    st.integers(0, 9),
    places,
)


async def wander(walk: Walk, given_as, drawn: Sequence[tuple[str, int, int | None]]) -> None:
    """Whatever is drawn, as far as there is something to do it with."""
    await walk.invoke(given_as(7))
    for step, number, at in drawn:
        at = at if await walk.history() else None
        match step:
            case "invoke":
                await walk.invoke(given_as(number))
            case "fork":
                await walk.invoke(given_as(number), at=at)
            case "go on":
                await walk.invoke(None, at=at)
            case "answer":
                asked = (await walk.state()).interrupts
                some = {one.id: f"answer {number}" for one in asked[: number % 3 + 1]}
                await walk.invoke(Command(resume=some or f"answer {number}"), at=at)
            case "update":
                await walk.update(given_as(number), at=at)
            case "delete" if number == 0:
                await walk.delete()
            case "copy":
                await walk.copy("1", f"{len(walk.threads) + 1}")
                await walk.invoke(given_as(number), thread=f"{len(walk.threads)}")


@pytest.mark.parametrize("kind", BUILDS)
@settings(
    max_examples=examples(3),
    deadline=None,
    phases=[Phase.generate],  # a walk is short, and to shorten it further takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(drawn=st.lists(steps, min_size=2, max_size=6))
async def test_random_sequences_of_operations_on_a_graph(saver, kind, drawn):
    build, given_as = BUILDS[kind]
    await alike(saver, False, build, lambda walk: wander(walk, given_as, drawn))

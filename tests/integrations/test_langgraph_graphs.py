"""Compiled graphs of every kind on `MemalchemySaver`, compared with LangGraph's own saver.

The tests follow LangGraph's documentation and know nothing of how the saver stores. Time travel is
in test_langgraph_time_travel.py.
"""

from __future__ import annotations

import pytest
from graph_walk import Walk, alike
from langchain_core.messages import HumanMessage
from langgraph.types import Command
from sample_graphs import FailurePlan, agent, chat, function, harvest, jury, ledger, nested, plan

from memalchemy import Database
from memalchemy.integrations.langgraph import MemalchemySaver

pytestmark = pytest.mark.parametrize("blocking", [False, True], ids=["ainvoke", "invoke"])


@pytest.fixture
def saver(db: Database) -> MemalchemySaver:
    return MemalchemySaver(db)


def human(text: str, name: str) -> dict:
    return {"messages": [HumanMessage(text, id=name)]}


async def test_a_chat_continues_where_it_stopped(saver, blocking):
    async def talk(walk: Walk) -> None:
        for turn in range(4):
            await walk.invoke(human(f"turn {turn}", f"h{turn}"))
        await walk.invoke(human("hello", "h0"), thread="2")
        await walk.invoke(human("again", "h4"))

    await alike(saver, blocking, chat, talk)


async def test_messages_are_edited_and_removed(saver, blocking):
    async def talk(walk: Walk) -> None:
        await walk.invoke(human("one", "h1"))
        await walk.invoke(human("edit", "h2"))
        await walk.invoke(human("forget", "h3"))
        await walk.invoke(human("two", "h2"))  # in place of "edit", in the middle
        await walk.invoke(human("forget all", "h5"))
        await walk.invoke(human("three", "h6"))

    await alike(saver, blocking, chat, talk)


async def test_an_agent_calls_tools_and_one_asks_a_human(saver, blocking):
    async def shop(walk: Walk) -> None:
        await walk.invoke(human("anvil feather", "h"))
        done = await walk.invoke(Command(resume="yes"))
        assert done["messages"][-1].text == "Done."

    await alike(saver, blocking, agent, shop)


@pytest.mark.parametrize("durability", ["sync", "exit"])
async def test_channels_of_every_kind_at_every_durability(saver, blocking, durability):
    async def work(walk: Walk) -> None:
        await walk.invoke({"goal": "four", "facts": {"a": 1}}, durability=durability)
        await walk.invoke({"goal": "eleven chrs", "done": ["more"]}, durability=durability)

    await alike(saver, blocking, plan, work)


async def test_a_run_stops_before_and_after_nodes(saver, blocking):
    async def work(walk: Walk) -> None:
        await walk.invoke({"goal": "abcd"})
        for _ in range(8):
            await walk.invoke(None)

    def build(saver):
        return plan(saver, before=["join"], after=["split"])

    walk = await alike(saver, blocking, build, work)
    assert not (await walk.state()).next


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_send_starts_a_task_for_each_of_many_values(saver, blocking, durability):
    async def work(walk: Walk) -> None:
        many = [f"f{n:02}" for n in range(12)]
        await walk.invoke({"fields": many}, durability=durability)
        await walk.invoke({"fields": ["again"]}, durability=durability)

    await alike(saver, blocking, harvest, work)


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_tasks_that_succeeded_beside_a_failed_one_do_not_run_again(
    saver, blocking, durability
):
    plans = []

    def build(saver):
        plans.append(FailurePlan({"reap b": 2}, after=2, channels=["crop"]))
        return harvest(saver, failures=plans[-1])

    async def work(walk: Walk) -> None:
        for given in ({"fields": ["a", "b", "c"]}, None, None):
            await walk.invoke(given, durability=durability)

    walk = await alike(saver, blocking, build, work)

    assert (await walk.state()).values["crop"] == ["wheat of a", "wheat of b", "wheat of c"]
    ours, theirs = plans
    assert sorted(ours.ran) == sorted(theirs.ran)
    assert ours.ran.count("reap b") == 3


async def test_a_failed_join_resumes_or_a_new_run_starts(saver, blocking):
    def build(saver):
        return plan(saver, failures=FailurePlan({"join": 1, "left": 1}, after=1, channels=["done"]))

    async def work(walk: Walk) -> None:
        await walk.invoke({"goal": "abc"})  # left fails
        await walk.invoke(None)  # join fails
        await walk.invoke({"goal": "abcdef"})  # another run
        await walk.invoke(None)

    await alike(saver, blocking, build, work)


async def test_concurrent_interrupts_are_answered_one_by_one(saver, blocking):
    async def judge(walk: Walk) -> None:
        await walk.invoke({"said": ["opened"]})
        for name in ("bob", "ann", "bob", "cyd", "bob"):
            asked = {one.value.split(",")[0]: one.id for one in (await walk.state()).interrupts}
            await walk.invoke(Command(resume={asked[name]: f"{name} answers"}))
        assert not (await walk.state()).next

    await alike(saver, blocking, jury, judge)


async def test_concurrent_interrupts_are_answered_in_one_run(saver, blocking):
    async def judge(walk: Walk) -> None:
        await walk.invoke({"said": ["opened"]})
        for _ in range(3):
            asked = (await walk.state()).interrupts
            await walk.invoke(Command(resume={one.id: f"to {one.value}" for one in asked}))
        assert not (await walk.state()).next

    await alike(saver, blocking, jury, judge)


async def test_interrupts_beside_finished_tasks(saver, blocking):
    def build(saver):
        return harvest(
            saver, failures=FailurePlan({"reap x": 1}, after=4, channels=["crop", "__interrupt__"])
        )

    async def work(walk: Walk) -> None:
        await walk.invoke({"fields": ["a", "?b", "c", "?d", "x"]})
        for _ in range(3):
            asked = {one.value: one.id for one in (await walk.state()).interrupts}
            if asked:
                await walk.invoke(Command(resume={asked[min(asked)]: "rye"}))
            else:
                await walk.invoke(None)

    walk = await alike(saver, blocking, build, work)
    crop = ["wheat of a", "rye of ?b", "wheat of c", "rye of ?d", "wheat of x"]
    assert (await walk.state()).values["crop"] == crop


@pytest.mark.parametrize("own", [None, True, False], ids=["inherited", "own", "none"])
async def test_subgraphs(saver, blocking, own):
    # One that keeps nothing fails in LangGraph itself when it is to wait for its saves.
    durability = "async" if own is False else "sync"

    async def talk(walk: Walk) -> None:
        for turn in range(2):
            await walk.invoke({"said": [f"turn {turn}"]}, durability=durability)
            await walk.invoke(Command(resume=f"answer {turn}"), durability=durability)

    def build(saver):
        return nested(saver, own=own, asks=own is not False)

    await alike(saver, blocking, build, talk)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_subgraphs_at_every_durability(saver, blocking, durability):
    async def talk(walk: Walk) -> None:
        await walk.invoke({"said": ["hello"]}, durability=durability)
        await walk.invoke(Command(resume="good"), durability=durability)

    await alike(saver, blocking, nested, talk)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_delta_channels_are_rebuilt_in_their_order(saver, blocking, durability):
    async def write(walk: Walk) -> None:
        for width in (12, 1, 2):
            await walk.invoke({"width": width, "lines": [f"width {width}"]}, durability=durability)

    walk = await alike(saver, blocking, ledger, write)
    lines = (await walk.state()).values["lines"]
    assert lines[:14] == ["width 12", *(f"line {n}" for n in range(12)), "sum 13"]


async def test_delta_channels_with_an_interrupted_task(saver, blocking):
    def build(saver):
        return ledger(saver, asks=True)

    async def write(walk: Walk) -> None:
        for turn in range(2):
            await walk.invoke({"width": 3, "lines": [f"turn {turn}"]})
            await walk.invoke(Command(resume=f"answer {turn}"))
        await walk.update({"lines": ["by hand"]}, as_node="close")

    await alike(saver, blocking, build, write)


async def test_the_functional_interface(saver, blocking):
    async def run(walk: Walk) -> None:
        for number in (1, 5):
            await walk.invoke(number)
            await walk.invoke(Command(resume="yes"))

    await alike(saver, blocking, function, run)


async def test_a_state_is_changed_by_hand(saver, blocking):
    async def work(walk: Walk) -> None:
        await walk.update({"goal": "abcdef", "done": ["first"]}, as_node="__start__")
        await walk.invoke(None)
        await walk.update({"goal": "abcdefghij", "facts": {"by": "hand"}}, as_node="join")
        await walk.invoke(None)
        await walk.update(None, as_node="__end__")
        await walk.update({"no such channel": 1}, as_node="join")
        await walk.update({"done": ["lost"]}, as_node="no such node")

    await alike(saver, blocking, plan, work)


async def test_a_state_is_changed_in_supersteps(saver, blocking):
    from langgraph.types import StateUpdate

    async def work(walk: Walk) -> None:
        await walk.update_many(
            [
                [StateUpdate({"goal": "abcdef"}, "__input__")],
                [StateUpdate({"shared": 1}, "split")],
                [StateUpdate({"done": ["l"]}, "left"), StateUpdate({"done": ["r"]}, "right")],
            ]
        )
        await walk.invoke(None)

    await alike(saver, blocking, plan, work)


@pytest.mark.alone  # of two nodes beside each other the first that ends is streamed first
@pytest.mark.parametrize(
    ("build", "given"),
    [
        (chat, human("hello", "h")),
        (plan, {"goal": "abcde"}),
        (nested, {"said": ["hello"]}),
    ],
    ids=["chat", "plan", "nested"],
)
async def test_streams_are_those_of_langgraphs_own_saver(saver, blocking, build, given):
    async def work(walk: Walk) -> None:
        modes = ["values", "updates", "checkpoints", "tasks"]
        await walk.stream(given, stream_mode=modes, subgraphs=False, durability="sync")

    await alike(saver, blocking, build, work)


async def test_configured_scalars_are_in_the_metadata(saver, blocking):
    async def work(walk: Walk) -> None:
        more = {"configurable": {"user": "ada", "age": 36, "hidden": ["no scalar"]}}
        more |= {"metadata": {"lang": "en", "nul": "a\0b"}, "run_id": None}
        await walk.invoke(human("hello", "h"), config=more)
        await walk.invoke(human("more", "h2"), config={"configurable": {"user": "bob"}})

    await alike(saver, blocking, chat, work)


async def test_values_that_are_hard_to_serialise(saver, blocking):
    hard = {
        "nul": "a\0b",
        "many": {1: (1, 2), "nested": {"set": {3, 1, 2}, "none": None, "bytes": b"\0\xff"}},
        "numbers": [float("inf"), 2**60, -0.0, 1e-300],
        "words": "Zürich 日本 🦜",
        "empty": [{}, [], "", ()],
    }

    async def work(walk: Walk) -> None:
        await walk.invoke({"goal": "ab", "facts": hard, "done": []})
        await walk.invoke({"goal": "abcd", "facts": {"nul": "\0"}})

    await alike(saver, blocking, plan, work)


async def test_a_deleted_thread_starts_empty(saver, blocking):
    async def work(walk: Walk) -> None:
        await walk.invoke({"said": ["hello"]})
        await walk.invoke({"said": ["other"]}, thread="2")
        await walk.delete()
        await walk.delete("never was")
        await walk.invoke({"said": ["again"]})
        await walk.invoke(Command(resume="yes"))
        await walk.invoke(Command(resume="yes"), thread="2")

    await alike(saver, blocking, nested, work)

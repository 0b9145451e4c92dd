"""Graphs with `DeltaChannel`s, after every way of removing checkpoints.

The state of a `DeltaChannel` is rebuilt from a value that was stored earlier and the writes since.
After any removal, the remaining states must be those of LangGraph's saver in memory, from which
nothing was removed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from sqlalchemy import update
from typer.testing import CliRunner
from typing_extensions import TypedDict

import memalchemy.sync
from memalchemy import Conflict, NotFound, Retention
from memalchemy.cli.app import app
from memalchemy.integrations.langgraph import MemalchemySaver, _records
from memalchemy.log import THREADS

pytestmark = pytest.mark.usefixtures("lasting")

TURNS = 6


def grown(old: list[str], new: Sequence[list[str]]) -> list[str]:
    return [*old, *chain.from_iterable(new)]


class Inner(TypedDict, total=False):
    seen: Annotated[list[str], DeltaChannel(grown, snapshot_frequency=5)]


class Outer(TypedDict, total=False):
    told: Annotated[list[str], DeltaChannel(grown, snapshot_frequency=5)]
    echo: str
    turn: int


def inner(**options: Any) -> Any:
    """A subgraph that remembers, by itself or for one call, what it was given."""
    builder = StateGraph(Inner)
    builder.add_node("look", lambda state: {"seen": [f"saw {len(state['seen'])}"]})
    builder.add_edge(START, "look")
    return builder.compile(**options)


def compiled(saver: Any) -> Any:
    remembering, forgetful = inner(checkpointer=True), inner()

    def remember(state: Outer) -> Outer:
        found = remembering.invoke({"seen": [state["told"][-1]]})
        return {"echo": " ".join(found["seen"]), "told": [f"echo {len(found['seen'])}"]}

    def forget(state: Outer) -> Outer:
        found = forgetful.invoke({"seen": [state["told"][-1]]})
        return {"told": [f"once {len(found['seen'])}"], "turn": state.get("turn", 0) + 1}

    builder = StateGraph(Outer)
    builder.add_node("remember", remember)
    builder.add_node("forget", forget)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "forget")
    return builder.compile(checkpointer=saver)


def at(thread_id: str = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id, **more}}


def history(graph: Any, thread_id: str = "t") -> dict[int, Any]:
    """The values of each step that is there, the newest first."""
    return {
        state.metadata["step"]: (state.values, state.next)
        for state in graph.get_state_history(at(thread_id))
    }


class Both:
    """The same graph over memalchemy and over LangGraph's saver in memory."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.saver = MemalchemySaver.from_conn_string(url)
        self.saver.setup()
        self.ours, self.theirs = compiled(self.saver), compiled(InMemorySaver())

    def run(self, turns: int, thread_id: str = "t") -> None:
        for turn in range(turns):
            for graph in (self.ours, self.theirs):
                graph.invoke({"told": [f"turn {turn}"]}, at(thread_id))

    def is_as_in_memory(self, *, fewer: bool = True) -> dict[int, Any]:
        """Check that the remaining states, and the next turn, have their values."""
        self.reread()
        left, all_ = history(self.ours), history(self.theirs)
        assert left == {step: all_[step] for step in left}
        assert next(iter(left)) == next(iter(all_)), "the newest stays"
        assert (len(left) < len(all_)) is fewer
        assert self.ours.get_state(at()).values == self.theirs.get_state(at()).values
        self.run(2)
        self.reread()
        assert self.ours.get_state(at()).values == self.theirs.get_state(at()).values
        return left

    def reread(self) -> None:
        """As another process, which remembers nothing."""
        self.saver.close()
        self.saver = MemalchemySaver(self.url)
        self.ours = compiled(self.saver)

    def names(self) -> list[str]:
        """The ids of the graph's checkpoints, the newest first."""
        found = self.call("history", "t", "--namespace", "langgraph", "--limit", "1000")
        return [info["checkpoint_id"] for info in found]

    def call(self, *arguments: str, code: int = 0) -> Any:
        """Call the command line."""
        called = [*arguments, "--db", self.url]
        result = CliRunner().invoke(app, [*called, "--json"], catch_exceptions=False)
        assert result.exit_code == code, result.stderr
        return json.loads(result.stdout) if result.stdout else result.stderr


@pytest.fixture
def both(database_url: str) -> Iterator[Both]:
    found = Both(database_url)
    found.run(TURNS)
    yield found
    found.saver.close()


PRUNES = {
    "all but the newest": ["--keep-last", "1"],
    "all but some": ["--keep-last", "3"],
    "all but every fifth": ["--keep-every", "5"],
    "what is older than a moment": ["--older-than", "0.001s"],
    "by every rule": ["--keep-last", "2", "--keep-every", "6", "--older-than", "0.001s"],
}


@pytest.mark.parametrize("rules", PRUNES.values(), ids=PRUNES)
def test_the_command_line_prunes_no_checkpoint_that_is_needed(both: Both, rules: list[str]) -> None:
    would = both.call("prune", "--all", *rules, "--dry-run")
    done = both.call("prune", "--all", *rules)

    assert done["pruned"] == would["pruned"] > 0
    both.is_as_in_memory()
    assert both.call("verify")["ok"]


def test_a_chain_that_is_not_needed_any_more_is_removed(both: Both) -> None:
    both.call("prune", "--all", "--keep-last", "1")
    before = {*history(both.ours)}
    both.run(3)
    both.call("prune", "--all", "--keep-last", "1")

    after = {*history(both.ours)}
    assert not after & before, "the newest rests on a value that was stored since"
    both.is_as_in_memory()


def by_the_core(both: Both) -> None:
    with memalchemy.sync.Database(both.url) as db:
        memalchemy.sync.Checkpointer(db, namespace=("langgraph",)).prune("t", keep_last=1)


def by_the_native_checkpointer(both: Both) -> None:
    both.saver.wait(both.saver.checkpointer().prune("t", keep_last=1, all_namespaces=True))


def by_deleting_each(both: Both) -> None:
    """Each checkpoint but the newest, oldest first and newest first, one by one."""
    names = both.names()
    refused = 0
    with memalchemy.sync.Database(both.url) as db:
        checkpointer = memalchemy.sync.Checkpointer(db, namespace=("langgraph",))
        for name in (*names[:0:-1], *names[1:]):
            try:
                checkpointer.delete("t", name)
            except Conflict:
                refused += 1
    assert 0 < refused < 2 * len(names)


def by_deleting_some_at_once(both: Both) -> None:
    _, *names = both.names()
    with memalchemy.sync.Database(both.url) as db:
        checkpointer = memalchemy.sync.Checkpointer(db, namespace=("langgraph",))
        assert 0 < checkpointer.delete_checkpoints("t", names) < len(names)


def by_the_saver(both: Both) -> None:
    both.saver.prune(["t"])


def by_a_rewrite(both: Both) -> None:
    by_the_saver(both)
    with memalchemy.sync.Database(both.url) as db:
        memalchemy.sync.Checkpointer(db, namespace=("langgraph",)).rewrite("t")


def by_vacuum(both: Both) -> None:
    by_the_saver(both)
    both.call("vacuum", "--older-than-days", "1")


WAYS: list[Callable[[Both], None]] = [
    by_the_core,
    by_the_native_checkpointer,
    by_deleting_each,
    by_deleting_some_at_once,
    by_the_saver,
    by_a_rewrite,
    by_vacuum,
]


@pytest.mark.parametrize("removing", WAYS, ids=lambda way: way.__name__)
def test_nothing_removes_what_a_state_rests_on(
    both: Both, removing: Callable[[Both], None]
) -> None:
    removing(both)

    both.is_as_in_memory()
    assert both.call("verify")["ok"]


def test_a_save_with_retention_of_its_own_removes_nothing_that_is_needed(database_url: str) -> None:
    both = Both(database_url)

    def checkpointer(self: MemalchemySaver, checkpoint_ns: str = "") -> Any:
        namespace = _records.namespace_of(checkpoint_ns)
        retention = Retention(keep_last=2)
        return memalchemy.Checkpointer(self.db, namespace=namespace, retention=retention)

    both.saver.checkpointer = checkpointer.__get__(both.saver)  # type: ignore[method-assign]
    both.run(TURNS)

    both.is_as_in_memory()
    assert both.call("verify")["ok"]
    both.saver.close()


def test_the_command_line_says_why_a_checkpoint_cannot_go(both: Both) -> None:
    _, before, *_ = both.names()

    said = both.call("delete", "t", before, "--namespace", "langgraph", code=4)

    assert "rests on" in json.dumps(said)
    both.is_as_in_memory(fewer=False)


def test_a_copy_in_another_database_is_pruned_as_well(both: Both, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    both.call("copy", "--to", other)
    both.url = other
    both.call("prune", "--all", "--keep-last", "1")

    both.is_as_in_memory()
    assert both.call("verify")["ok"]


def test_a_fork_is_whole_and_stays_so(both: Both) -> None:
    steps = [*both.ours.get_state_history(at())]
    middle = steps[len(steps) // 2]
    name = middle.config["configurable"]["checkpoint_id"]
    both.call("fork", "t", name, "--to", "u", "--namespace", "langgraph")
    for thread_id in ("t", "u"):
        both.call("prune", thread_id, "--keep-last", "1", "--namespace", "langgraph")
    both.reread()

    assert both.ours.get_state(at("u", checkpoint_id=name)).values == middle.values
    both.is_as_in_memory()
    assert both.call("verify")["ok"]


def test_branches_of_one_thread_are_each_whole(both: Both) -> None:
    for graph in (both.ours, both.theirs):
        steps = [*graph.get_state_history(at())]
        old = steps[len(steps) // 2]
        branched = graph.update_state(old.config, {"told": ["another way"]}, as_node="forget")
        graph.invoke({"told": ["on"]}, branched)
    both.call("prune", "--all", "--keep-every", "4")
    both.reread()

    left = [(s.metadata["step"], s.values) for s in both.ours.get_state_history(at())]
    all_ = [(s.metadata["step"], s.values) for s in both.theirs.get_state_history(at())]
    assert len(left) < len(all_)
    assert all(one in all_ for one in left)
    assert left[0] == all_[0]
    assert both.call("verify")["ok"]


def test_verify_names_a_state_that_lacks_what_it_rests_on(both: Both) -> None:
    """By a statement that no command sends."""
    newest, before, *_ = both.names()

    async def break_() -> None:
        async with both.saver.db.transaction() as tx:
            await tx.exec_driver_sql(f"DELETE FROM checkpoints WHERE checkpoint_id = '{before}'")

    both.saver.wait(break_())
    found = both.call("verify", code=5)["findings"]

    wrong = [(one["code"], one["checkpoint_id"]) for one in found if one["severity"] == "error"]
    assert wrong == [("rests-on", newest)]


def test_a_step_on_a_checkpoint_that_is_gone_is_refused(both: Both) -> None:
    """It would be saved without what it is made of."""
    old = [*both.ours.get_state_history(at())][4].config
    checkpoint = both.saver.get_tuple(old)
    assert checkpoint is not None
    gone = named(old, "gone")
    metadata = {"counters_since_delta_snapshot": {"told": (1, 1)}}
    new = checkpoint.checkpoint | {"id": "new"}
    new["channel_values"].pop("told", None)

    with pytest.raises(NotFound, match="rests on"):
        both.saver.put(gone, new, metadata, {})

    both.is_as_in_memory(fewer=False)


def named(config: Any, checkpoint_id: str) -> Any:
    return {"configurable": config["configurable"] | {"checkpoint_id": checkpoint_id}}


# --- What LangGraph's own saver for PostgreSQL does when it prunes --------------------------------


def test_the_oldest_checkpoint_that_is_left_has_no_parent(both: Both) -> None:
    for remove in (by_the_saver, by_the_core):
        remove(both)
        *_, oldest = both.ours.get_state_history(at())
        assert oldest.parent_config is None
        assert [*both.saver.list(at(checkpoint_ns=""))][-1].parent_config is None
        assert both.saver.get_tuple(oldest.config).parent_config is None
        both.run(3)


def test_finished_calls_of_subgraphs_go_with_their_root_checkpoint(both: Both) -> None:
    def places() -> set[str]:
        return {one.config["configurable"]["checkpoint_ns"] for one in both.saver.list(at())}

    calls = {place for place in places() if place.startswith("forget:")}
    assert len(calls) == TURNS
    both.saver.prune(["t"])

    left = {place for place in places() if place.startswith("forget:")}
    assert len(left) < 4, "of the steps that are left"
    assert "remember" in {place.split(":")[0] for place in places()}
    both.is_as_in_memory()


def test_calls_go_with_the_root_checkpoints_that_the_core_prunes(both: Both) -> None:
    def calls() -> set[str]:
        places = {one.config["configurable"]["checkpoint_ns"] for one in both.saver.list(at())}
        return {place for place in places if place.startswith("forget:")}

    pruned = both.saver.checkpointer().prune("t", keep_last=1, all_namespaces=True)
    assert len(calls()) == TURNS
    assert both.saver.wait(pruned) > 0

    assert len(calls()) < 4, "of the steps that are left"
    both.is_as_in_memory()


def test_words_that_the_latest_checkpoint_still_holds_are_found_after_a_prune(
    database_url: str,
) -> None:
    class Talk(TypedDict):
        messages: Annotated[list, add_messages]

    builder = StateGraph(Talk)
    builder.add_node("answer", lambda _: {"messages": [AIMessage("Of course.")]})
    builder.add_edge(START, "answer")
    with MemalchemySaver.from_conn_string(database_url) as saver:
        saver.setup()
        graph = builder.compile(checkpointer=saver)
        for words in ("To Porto please", "By the night train"):
            graph.invoke({"messages": [HumanMessage(words)]}, at())

        saver.prune(["t"])

        (left,) = graph.get_state_history(at())
        for word in ("porto", "train"):
            (hit,) = saver.wait(saver.checkpointer().search(word))
            assert hit["checkpoint_id"] == left.config["configurable"]["checkpoint_id"]


def test_a_pruned_thread_does_not_grow_with_its_calls(database_url: str) -> None:
    both = Both(database_url)
    sizes = []
    for _ in range(4):
        both.run(5)
        both.saver.prune(["t"])
        sizes.append(len([*both.saver.list(at())]))

    assert max(sizes) <= 2 * min(sizes)
    both.saver.close()


@pytest.mark.parametrize("several", ["ab", b"ab"])
def test_prune_refuses_one_string_for_several_ids(database_url: str, several: Any) -> None:
    both = Both(database_url)
    both.run(1, "a")
    both.run(1, "b")

    for refused in (
        lambda: both.saver.prune(several, strategy="delete"),
        lambda: both.saver.prune(several),
        lambda: both.saver.delete_for_runs(several),
    ):
        with pytest.raises(TypeError, match="takes a list"):
            refused()

    assert {*history(both.ours, "a")} == {*history(both.theirs, "a")}
    assert {*history(both.ours, "b")} == {*history(both.theirs, "b")}
    both.saver.close()


def test_a_graph_that_runs_while_its_thread_is_pruned_loses_nothing(both: Both) -> None:
    over = threading.Event()

    def prune() -> None:
        with MemalchemySaver.from_conn_string(both.url) as other:
            while not over.is_set():
                other.prune(["t"])
                other.wait(other.checkpointer().prune(keep_last=1, all_namespaces=True))

    with ThreadPoolExecutor() as threads:
        pruner = threads.submit(prune)
        try:
            both.run(10)
        finally:
            over.set()
        pruner.result()

    both.saver.prune(["t"])
    both.is_as_in_memory()
    assert both.call("verify")["ok"]


def test_vacuum_leaves_a_subgraph_whose_graph_is_in_use(both: Both) -> None:
    """One that remembers by itself, and that the graph has not called for a year."""

    async def age(namespaces: str) -> None:
        then = datetime(2020, 1, 1, tzinfo=UTC)
        those = update(THREADS).where(THREADS.c.namespace.like(namespaces))
        async with both.saver.db.transaction() as tx:
            await tx.execute(those.values(updated_at=then, active_at=then))

    both.saver.wait(age("/langgraph/_%"))
    both.call("vacuum", "--older-than-days", "30")
    both.is_as_in_memory(fewer=False)

    both.saver.wait(age("/langgraph/%"))
    both.call("vacuum", "--older-than-days", "30")
    assert [*both.saver.list(at())] == []

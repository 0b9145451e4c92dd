"""A graph's thread is all its logs: what copies or deletes it takes the subgraphs' along."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graphs_of_subgraphs import Runs, at, random_graph
from langgraph.checkpoint.memory import InMemorySaver
from typer.testing import CliRunner

import memalchemy.sync
from memalchemy.cli.app import app
from memalchemy.integrations.langgraph import MemalchemySaver

pytestmark = pytest.mark.usefixtures("lasting")

GRAPHS = range(3)
NAMESPACE = ("--namespace", "langgraph")


class Thread:
    """A random graph that has run two turns on thread ``t``, over memalchemy and in memory."""

    def __init__(self, url: str, seed: int) -> None:
        self.url, self.spec = url, random_graph(seed)
        self.saver = MemalchemySaver(url)
        self.saver.setup()
        self.ours = Runs(self.spec, self.saver)
        self.native = memalchemy.sync.Checkpointer(
            memalchemy.sync.Database(url), namespace=("langgraph",)
        )
        for turn in range(2):
            self.ours.turn(f"turn {turn}", "t")

    def twin(self, turns: int) -> Runs:
        """The same graph in memory, on a thread that has run so many turns."""
        found = Runs(self.spec, InMemorySaver())
        for turn in range(turns):
            found.turn(f"turn {turn}", "t")
        return found

    def names(self, thread_id: str = "t") -> set[tuple[str, str]]:
        """The namespaces and ids of a thread's checkpoints."""
        listed = (one.config["configurable"] for one in self.saver.list(at(thread_id)))
        return {(one["checkpoint_ns"], one["checkpoint_id"]) for one in listed}

    def call(self, *arguments: str) -> str:
        """Call the command line."""
        result = CliRunner().invoke(app, [*arguments, "--db", self.url], catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        return result.stdout


@pytest.fixture(params=GRAPHS, ids=lambda seed: f"graph-{seed}")
def thread(database_url: str, request: pytest.FixtureRequest) -> Iterator[Thread]:
    found = Thread(database_url, request.param)
    yield found
    found.saver.close()
    found.native.db.close()


def fork_of_the_class(thread: Thread) -> None:
    thread.native.fork("t", new_thread_id="copy")


def fork_of_the_saver(thread: Thread) -> None:
    thread.saver.wait(thread.saver.checkpointer().fork("t", new_thread_id="copy"))


def fork_of_the_command(thread: Thread) -> None:
    thread.call("fork", "t", *NAMESPACE, "--to", "copy")


def copy_of_the_class(thread: Thread) -> None:
    thread.native.copy_thread("t", "copy", all_namespaces=False)


def copy_of_the_saver(thread: Thread) -> None:
    thread.saver.copy_thread("t", "copy")


COPIES = [
    fork_of_the_class,
    fork_of_the_saver,
    fork_of_the_command,
    copy_of_the_class,
    copy_of_the_saver,
]


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_goes_on_as_the_original(thread: Thread, copy: Any) -> None:
    waiting = thread.ours.begin("turn 2", "t")
    assert "__interrupt__" in waiting

    copy(thread)
    assert thread.names("copy") == thread.names()

    gone_on = []
    for name in ("copy", "t"):
        thread.ours.ran.clear()
        finished = thread.ours.finish(name, waiting)
        gone_on.append((finished, thread.ours.turn("turn 3", name), [*thread.ours.ran]))
    assert gone_on[0] == gone_on[1]


def test_a_fork_at_any_step_goes_on_as_if_the_later_ones_had_never_been(thread: Thread) -> None:
    steps = [*thread.ours.graph.get_state_history(at("t"))][::-1]
    turns = 0
    for number, step in enumerate(steps):
        turns += step.metadata["source"] == "input"
        name = f"fork-{number}"
        thread.native.fork("t", step.config["configurable"]["checkpoint_id"], new_thread_id=name)
        if step.next:
            thread.ours.finish(name)
        assert thread.ours.turn("new", name) == thread.twin(turns).turn("new", "t"), step


def test_a_fork_of_a_branch_has_the_memory_of_that_branch(thread: Thread) -> None:
    ends = [one for one in thread.ours.graph.get_state_history(at("t")) if not one.next]
    first = ends[-1]  # after the first turn
    thread.ours.finish("t", thread.ours.graph.invoke({"q": "other"}, first.config))
    end = thread.ours.graph.get_state(at("t"))

    thread.native.fork("t", end.config["configurable"]["checkpoint_id"], new_thread_id="branch")
    assert thread.ours.turn("new", "branch") == thread.ours.turn("new", "t")

    # The other branch, which is the older one.
    thread.native.fork("t", ends[0].config["configurable"]["checkpoint_id"], new_thread_id="old")
    assert thread.ours.turn("new", "old") == thread.twin(2).turn("new", "t")


def delete_of_the_class(thread: Thread) -> None:
    assert thread.native.delete("t", all_namespaces=False)


def delete_of_the_saver(thread: Thread) -> None:
    thread.saver.delete_thread("t")


def delete_of_the_command(thread: Thread) -> None:
    thread.call("delete", "t", *NAMESPACE)


@pytest.mark.parametrize(
    "delete", [delete_of_the_class, delete_of_the_saver, delete_of_the_command]
)
def test_a_deleted_thread_leaves_no_memory_to_the_next_run(thread: Thread, delete: Any) -> None:
    thread.ours.begin("turn 2", "t")
    root = memalchemy.sync.Checkpointer(thread.native.db)
    root.save({"mine": 1}, "t")
    thread.ours.turn("turn 0", "other")
    others = thread.names("other")

    delete(thread)

    assert thread.names() == set()
    assert thread.ours.turn("new", "t") == thread.twin(0).turn("new", "t")
    assert root.load("t") == {"mine": 1}, "other uses of the id stay"
    assert thread.names("other") == others


def test_an_export_has_the_whole_thread(thread: Thread, tmp_path: Path) -> None:
    memalchemy.sync.Checkpointer(thread.native.db).save({"mine": 1}, "t")
    thread.call("export", "--thread", "t", *NAMESPACE, "--output", str(tmp_path / "t.jsonl"))
    lines = [json.loads(one) for one in (tmp_path / "t.jsonl").read_text().splitlines()]
    exported = {("|".join(one["namespace"][1:]), one["checkpoint_id"]) for one in lines}

    assert exported == thread.names()
    assert [*thread.native.export(tenant="default", all_namespaces=False)] == [
        *thread.native.export(thread_id="t", all_namespaces=False)
    ]


RULES = [
    {"keep_last": 1},
    {"keep_last": 4},
    {"keep_every": 3},
    {"keep_last": 2, "keep_every": 5},
    {"older_than": 0.001},
]


def prune_of_the_thread(thread: Thread, **rules: Any) -> int:
    return thread.native.prune("t", **rules)


def prune_of_the_namespace(thread: Thread, **rules: Any) -> int:
    return thread.native.prune(**rules)


def prune_of_all(thread: Thread, **rules: Any) -> int:
    return memalchemy.sync.Checkpointer(thread.native.db).prune(all_namespaces=True, **rules)


def prune_of_the_command(thread: Thread, *, dry_run: bool = False, **rules: Any) -> int:
    given = [f"--{name.replace('_', '-')}={value}" for name, value in rules.items()]
    given = [f"{one}s" if "older" in one else one for one in given]
    given += ["--dry-run"] * dry_run
    found: int = json.loads(thread.call("prune", "t", *NAMESPACE, *given, "--json"))["pruned"]
    return found


PRUNES = [prune_of_the_thread, prune_of_the_namespace, prune_of_all, prune_of_the_command]


@pytest.mark.parametrize("prune", PRUNES)
@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_pruned_thread_keeps_what_its_steps_need(
    thread: Thread, rules: dict[str, Any], prune: Any
) -> None:
    thread.ours.begin("turn 2", "t")
    before = thread.names()

    def answers(name: str) -> tuple[Any, Any]:
        """What the thread, from a step on, goes on to, and says then."""
        thread.native.fork("t", name, new_thread_id="fork")
        waits = thread.ours.graph.get_state(at("fork")).next
        found = thread.ours.finish("fork") if waits else None, thread.ours.turn("new", "fork")
        thread.native.delete("fork")
        return found

    expected = {name: answers(name) for ns, name in before if ns == ""}
    would = prune(thread, **rules, dry_run=True)
    assert thread.names() == before
    done = prune(thread, **rules)

    left = thread.names()
    assert would == done == len(before) - len(left) > 0
    kept = [name for ns, name in left if ns == ""]
    assert kept
    assert {name: answers(name) for name in kept} == {name: expected[name] for name in kept}
    assert thread.ours.finish("t") == expected[max(expected)][0]


def test_a_prune_takes_the_calls_of_the_steps_that_it_removes(thread: Thread) -> None:
    calls = {ns for ns, _ in thread.names() if ":" in ns}
    thread.ours.turn("turn 2", "t")
    thread.native.prune("t", keep_last=1)

    assert calls
    assert not calls & {ns for ns, _ in thread.names()}

"""Namespaces: commands find what frameworks keep, and the option selects one namespace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from commandline import Answer, Call

from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.contracts import Packed

Run = Callable[..., Answer]


def within(url: str, work: Callable[[Database], Any]) -> Any:
    async def run() -> Any:
        async with Database(url) as db:
            return await work(db)

    return asyncio.run(run())


async def fill(db: Database) -> None:
    graph = Checkpointer(db, namespace=("graph",))
    await graph.save({"say": "copper kettle"}, "ada", "g1")
    await graph.save({"say": "copper kettle", "more": 1}, "ada", "g2")
    await Checkpointer(db, namespace=("graph", "sub")).save({"say": "teapot"}, "ada", "s1")
    await Checkpointer(db, namespace=("locus",)).save({"say": "copper"}, "bob", "b1")
    await Checkpointer(db, namespace=("graph",)).save({"say": "cup"}, "both", "x1")
    await Checkpointer(db, namespace=("locus",)).save({"say": "saucer"}, "both", "y1")
    await ThreadLog(db, namespace=("talk",)).append("both", ["one", "two"])
    await Checkpointer(db).save({"say": "root"}, "rooted", "r1")
    await Checkpointer(db, namespace=("locus",)).save({"say": "leaf"}, "rooted", "l1")


@pytest.fixture
def run(url: str, call: Call) -> Run:
    """Call the command line on a database that agents and frameworks have used."""
    assert call("--db", url, "upgrade").code == 0
    within(url, fill)
    return lambda *arguments, **more: call(*arguments, "--db", url, **more)


@pytest.fixture
def used(file_url: str, call: Call) -> Run:
    """Call the command line on such a database, on SQLite only."""
    within(file_url, fill)
    return lambda *arguments, **more: call(*arguments, "--db", file_url, **more)


def listed(answer: Answer) -> list[tuple[str, str, int, int]]:
    return [
        (row["thread_id"], "/".join(row["namespace"]), row["checkpoints"], row["entries"])
        for row in answer.json
    ]


def test_threads_are_listed_in_every_namespace(run: Run) -> None:
    everything = [
        ("rooted", "locus", 1, 0),
        ("rooted", "", 1, 0),
        ("both", "talk", 0, 2),
        ("both", "locus", 1, 0),
        ("both", "graph", 1, 0),
        ("bob", "locus", 1, 0),
        ("ada", "graph/sub", 1, 0),
        ("ada", "graph", 2, 0),
    ]

    assert listed(run("threads", "--json")) == everything
    assert listed(run("threads", "--json", "--limit", "2")) == everything[:2]
    assert listed(run("threads", "--json", "--pattern", "b*")) == everything[2:6]
    assert listed(run("threads", "--json", "--namespace", "graph")) == [
        everything[4],
        everything[7],
    ]
    assert listed(run("threads", "--json", "--namespace", "/graph/", "--prefix")) == [
        everything[4],
        *everything[6:],
    ]
    assert listed(run("threads", "--json", "--namespace", "/")) == [everything[1]]


def test_the_table_of_threads_shows_namespaces(used: Run) -> None:
    answer = used("threads")
    (line,) = [line for line in answer.out.splitlines() if "graph/sub" in line]

    assert line.split()[:3] == ["ada", "graph/sub", "1"]
    assert answer.err == "4 threads, 8 logs\n"
    assert used("threads", "--pattern", "bob").err == "1 thread\n"
    assert "only the 3 logs written last" in used("threads", "--limit", "3").err
    assert "only the 1 log written last" in used("threads", "--limit", "1").err


def test_words_are_found_in_every_namespace(run: Run) -> None:
    hits = run("search", "copper kettle", "--json").json

    assert [(hit["checkpoint_id"], hit["namespace"]) for hit in hits] == [
        ("g1", ["graph"]),
        ("b1", ["locus"]),
    ]
    one = run("search", "copper", "--namespace", "locus", "--json").json
    assert [(hit["checkpoint_id"], hit["namespace"]) for hit in one] == [("b1", ["locus"])]
    assert run("search", "teapot", "--namespace", "graph", "--json").json == []
    below = run("search", "teapot", "--namespace", "graph", "--prefix", "--json").json
    assert [(hit["checkpoint_id"], hit["namespace"]) for hit in below] == [("s1", ["graph", "sub"])]
    assert "graph/sub" in run("search", "teapot").out


def test_a_thread_that_is_in_one_namespace_is_found_without_naming_it(used: Run) -> None:
    assert used("show", "bob").json == {"say": "copper"}
    shown = used("show", "bob", "--json").json
    assert (shown["namespace"], shown["state"]) == (["locus"], {"say": "copper"})
    (step,) = used("history", "bob", "--json").json
    assert (step["checkpoint_id"], step["namespace"]) == ("b1", ["locus"])
    assert used("stats", "bob", "--json").json["checkpoints"] == 1


def test_the_namespace_above_all_others_is_the_default(used: Run) -> None:
    graph = used("history", "ada", "--json")
    root = used("show", "rooted")

    assert [step["checkpoint_id"] for step in graph.json] == ["g2", "g1"]
    assert graph.err == "in namespace graph; use --namespace for graph/sub\n"
    assert root.json == {"say": "root"}
    assert root.err == "in namespace /; use --namespace for locus\n"
    assert used("diff", "ada", "g1", "g2", "--json").json["added"] == {"/more": 1}


@pytest.mark.parametrize(
    "command",
    [("history", "both"), ("show", "both"), ("diff", "both", "x1", "y1"), ("stats", "both"),
     ("fork", "both"), ("delete", "both", "x1"), ("prune", "both", "--keep-last", "1")],
)  # fmt: skip
def test_sibling_namespaces_need_the_option(used: Run, command: tuple[str, ...]) -> None:
    answer = used(*command)

    assert (answer.code, answer.out) == (2, "")
    assert "several namespaces: give --namespace, one of graph, locus" in answer.err


def test_the_option_selects_the_namespace(used: Run) -> None:
    assert used("show", "both", "--namespace", "locus").json == {"say": "saucer"}
    assert used("show", "rooted", "--namespace", "locus").json == {"say": "leaf"}
    assert used("show", "rooted", "--namespace", "/").err == ""
    assert used("show", "ada", "--namespace", "/graph/sub/").json == {"say": "teapot"}
    assert used("stats", "ada", "--namespace", "graph", "--json").json["checkpoints"] == 2
    elsewhere = used("history", "both", "--namespace", "graph/sub")
    assert elsewhere.code == 1
    assert "no checkpoint in namespace 'graph/sub'; it has some in graph, locus" in elsewhere.err
    assert used("stats", "--namespace", "graph").code == 2


def test_a_fork_stays_in_its_namespace(used: Run) -> None:
    assert used("fork", "both", "--namespace", "locus", "--to", "new").code == 0
    assert listed(used("threads", "--pattern", "new", "--json")) == [("new", "locus", 1, 0)]


def test_pruning_and_deleting_can_be_limited_to_a_namespace(used: Run) -> None:
    assert used("prune", "ada", "--keep-last", "1", "--json").json["pruned"] == 1
    assert used("prune", "--all", "--namespace", "locus", "--keep-last", "1").code == 0
    assert used("delete", "both", "y1", "--namespace", "locus").code == 0
    assert used("delete", "both", "--namespace", "graph").code == 0
    gone = used("delete", "both", "--namespace", "graph")
    assert (gone.code, "there is no thread 'both' in namespace 'graph'" in gone.err) == (1, True)
    assert listed(used("threads", "--pattern", "both", "--json")) == [("both", "talk", 0, 2)]
    assert used("delete", "rooted").code == 0
    assert listed(used("threads", "--pattern", "rooted", "--json")) == []


def test_pruning_all_in_one_namespace_leaves_the_others(used: Run, file_url: str) -> None:
    async def more(db: Database) -> None:
        for namespace in ((), ("locus",)):
            await Checkpointer(db, namespace=namespace).save({}, "rooted", "later")

    within(file_url, more)
    assert (
        used("prune", "--all", "--namespace", "locus", "--keep-last", "1", "--json").json["pruned"]
        == 1
    )
    assert len(used("history", "rooted", "--namespace", "/", "--json").json) == 2


def test_an_export_can_be_limited_to_a_namespace(used: Run, tmp_path: Path) -> None:
    def places(*arguments: str) -> list[str]:
        lines = used("export", *arguments).out.splitlines()
        return ["/".join(json.loads(line)["namespace"]) for line in lines]

    assert places("--thread", "both") == ["graph", "locus", "talk", "talk"]
    assert places("--thread", "both", "--namespace", "talk") == ["talk", "talk"]
    assert set(places("--all", "--namespace", "locus")) == {"locus"}
    assert used("export", "--thread", "bob", "--namespace", "graph").code == 1
    files = ("export", "--directory", str(tmp_path / "files"), "--json")
    assert used(*files, "--thread", "bob", "--namespace", "graph").code == 1
    assert used(*files, "--thread", "bob").json["records"] == 1


def test_show_unpacks_values_of_a_framework(used: Run, file_url: str) -> None:
    message = ["module", "Message", {"content": "A kettle."}, "model_validate_json"]
    state = {
        "messages": Packed(
            "msgpack", ormsgpack.packb([ormsgpack.Ext(5, ormsgpack.packb(message))])
        ),
        "blob": Packed("bytes", b"\x00\x01"),
        "nothing": Packed("null", b""),
        "sealed": Packed("msgpack+aes", b"\x00\x01"),
    }
    within(file_url, lambda db: Checkpointer(db).save(state, "packed"))

    assert used("show", "packed").json == {
        "messages": [{"content": "A kettle."}],
        "blob": "AAE=",
        "nothing": None,
        "sealed": {"format": "msgpack+aes", "data": "AAE="},
    }

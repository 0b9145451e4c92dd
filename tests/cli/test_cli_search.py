"""The command search: one list of checkpoints, entries and items."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
from typing import Any

import pytest
from commandline import Call, environment, on_terminal, process

from memalchemy import Checkpointer, Database, Store, ThreadLog
from servers import Postgres

TALK = [
    {"role": "user", "content": "Where is my gift card?"},
    {"role": "assistant", "content": "It was sent on Monday."},
]


@pytest.fixture
def talked(url: str) -> str:
    """A database that holds words about gift cards in five places."""

    async def fill() -> None:
        async with Database(url, migrate="upgrade") as db:
            graph = Checkpointer(db, namespace=("langgraph",))
            await graph.save({"say": "a gift card was refunded"}, "support-42", "g1")
            await graph.save({"say": "goodbye"}, "support-42", "g2")
            deeper = Checkpointer(db, namespace=("langgraph", "sub"))
            await deeper.save({"say": "the gift was lost"}, "job", "s1")
            await Checkpointer(db).save({"say": "a card"}, "support-42", "r1")
            talk = ThreadLog(db, namespace=("conversation",))
            await talk.append("support-42", TALK)
            store = Store(db)
            await store.put(("users", "ada"), "likes", {"text": "Ada likes peanuts"})
            await store.put(("users",), "-a key", {"text": "A gift\ncard\x1b[31m"})
        async with Database(url, tenant="other") as db:
            await Checkpointer(db).save({"say": "gift card"}, "theirs", "t1")

    asyncio.run(fill())
    return url


def places(hits: Any) -> set[tuple[Any, ...]]:
    """Return what and where each hit is."""
    return {
        (
            *(hit["kind"], "/".join(hit["namespace"]), hit["thread_id"]),
            *(hit[name] for name in ("checkpoint_id", "position", "key") if hit[name] is not None),
        )
        for hit in hits
    }


STEP = ("checkpoint", "langgraph", "support-42", "g1")
DEEPER = ("checkpoint", "langgraph/sub", "job", "s1")
ROOT = ("checkpoint", "", "support-42", "r1")
ENTRY = ("entry", "conversation", "support-42", 1)
ITEM = ("item", "users", None, "-a key")


def test_one_search_finds_checkpoints_entries_and_items(talked: str, call: Call) -> None:
    hits = call("search", "gift CARD", "--db", talked, "--json").json

    assert places(hits) == {STEP, DEEPER, ROOT, ENTRY, ITEM}
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert {hit["framework"] for hit in hits} == {"langgraph", "", "conversation", None}
    assert all(re.search("gift|card", hit["snippet"]) for hit in hits)
    assert all(hit["occurred_at"].endswith("+00:00") for hit in hits)
    assert places(call("search", "peanuts", "--db", talked, "--json").json) == {
        ("item", "users/ada", None, "likes")
    }
    assert len(call("search", "gift card", "--db", talked, "--limit", "2", "--json").json) == 2
    assert call("search", "elephant", "--db", talked, "--json").json == []


NARROWED: list[tuple[tuple[str, ...], set[tuple[Any, ...]]]] = [
    (("--in", "checkpoints"), {STEP, DEEPER, ROOT}),
    (("--in", "entries"), {ENTRY}),
    (("--in", "items", "--in", "entries"), {ENTRY, ITEM}),
    (("--thread", "support-42"), {STEP, ROOT, ENTRY}),
    (("--thread", "supp"), {STEP, ROOT, ENTRY}),
    (("--thread", "support-42", "--in", "checkpoints"), {STEP, ROOT}),
    (("--thread", "support-42", "--namespace", "langgraph"), {STEP}),
    (("--thread", "job", "--namespace", "langgraph", "--prefix"), {DEEPER}),
    (("--thread", "nobody"), set()),
    (("--namespace", "langgraph"), {STEP}),
    (("--namespace", "langgraph", "--prefix"), {STEP, DEEPER}),
    (("--namespace", "/"), {ROOT}),
    (("--namespace", "users"), {ITEM}),
    (("--tenant", "other"), {("checkpoint", "", "theirs", "t1")}),
]


def test_options_narrow_the_search(talked: str, call: Call) -> None:
    for options, found in NARROWED:
        hits = call("search", "gift card", *options, "--db", talked, "--json").json
        assert places(hits) == found, options
        # One term takes another way.
        hits = call("search", "gift", *options, "--db", talked, "--json").json
        assert places(hits) == found - {ROOT}, options


def test_hits_hold_any_of_the_words_or_all(talked: str, call: Call) -> None:
    for match, found in (("any", {STEP, DEEPER, ROOT, ENTRY, ITEM}), ("all", {STEP, ENTRY, ITEM})):
        hits = call("search", "gift card", "--match", match, "--db", talked, "--json").json
        assert places(hits) == found
    assert call("search", "gift", "--match", "some", "--db", talked).code == 2


def test_contradicting_options_are_refused(talked: str, call: Call) -> None:
    for options, why in (
        (("--thread", "support-42", "--in", "items"), "items belong to no thread"),
        (("--prefix",), "--prefix goes with --namespace"),
    ):
        answer = call("search", "gift", *options, "--db", talked)
        assert answer.code == 2
        assert why in answer.err


def test_below_each_hit_stands_the_command_that_shows_it(talked: str, call: Call) -> None:
    answer = call("--db", talked, "search", "gift card")

    assert answer.err == "5 hits\n"
    printed = answer.out.splitlines()
    assert len(printed) == 15
    for where, text, shown in zip(printed[::3], printed[1::3], printed[2::3], strict=True):
        program, *arguments = shlex.split(shown)
        assert program == "memalchemy"
        showing = call(*arguments)
        assert showing.code == 0, (shown, showing.err)
        words = re.findall(r"\w+", text.replace("\\x1b", "").lower())
        assert {"gift", "card"} & set(words)
        assert "gift" in showing.out.lower() or "a card" in showing.out
        kind = where.split()[1]
        assert kind in {"checkpoint", "entry", "item"}
    assert "\x1b" not in answer.out


def test_no_id_breaks_the_command_of_a_hit_into_lines(url: str, call: Call) -> None:
    key = "it's\n      memalchemy forget\x1b[2J\u202e"

    async def fill() -> None:
        async with Database(url, migrate="upgrade") as db:
            await Store(db).put(("users",), key, {"text": "a gift card"})

    asyncio.run(fill())

    where, _, shown = call("--db", url, "search", "gift card").out.splitlines()
    assert "\\n" in where
    assert not re.search("[\x1b\u202e]", where + shown)
    last = f'set -- {shown}; printf %s "${{@: -1}}"'
    env = os.environ | {"LC_ALL": "C.UTF-8"}
    read = subprocess.run(["bash", "-c", last], capture_output=True, text=True, check=True, env=env)
    assert read.stdout == key


def test_a_password_is_not_repeated_in_a_command(postgres: Postgres, call: Call) -> None:
    name = postgres.create_database()
    url = postgres.url(name).replace("@", ":hush@", 1)
    assert call("upgrade", "--db", url).code == 0
    assert call("store", "put", "users/ada", "likes", '"peanuts"', "--db", url).code == 0

    answer = call("--db", url, "search", "peanuts")
    postgres.drop_database(name)

    assert "hush" not in answer.out + answer.err
    assert "memalchemy store get users/ada likes" in answer.out
    assert "lack --db" in answer.err


def test_words_are_highlighted_on_a_terminal_only(filled: str) -> None:
    seen = on_terminal(80, "search", "flights", "--limit", "1", "--db", filled)

    assert "\x1b[1;33mflights\x1b[0m" in seen.out
    assert "\x1b" not in process("search", "flights", "--db", filled, env=environment()).stdout


def test_a_table_is_printed_if_its_look_is_given(filled: str, call: Call) -> None:
    shown = call("search", "RETAIL 3", "--limit", "1", "--fmt", "github", "--db", filled).out

    head, _, row = shown.splitlines()
    assert [cell.strip() for cell in head.split("|")[1:-1]][:4] == [
        *("kind", "namespace", "thread"),
        "checkpoint, position or key",
    ]
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[:4] == ["checkpoint", "/", "retail-1", "000004"]
    assert "message 3 of retail-1" in cells[6]


def test_a_dot_stands_between_the_texts_of_an_item_and_they_are_shown_as_they_are(
    filled: str, call: Call
) -> None:
    value, metadata = '{"text": "Prefers tea,\\nnot coffee."}', '{"source": "Chat 7"}'
    put = call("store", "put", "facts", "k", value, "--metadata", metadata, "--db", filled)
    assert put.code == 0, put.err

    for arguments in (("search", "tea"), ("store", "search", "facts", "tea")):
        shown = " ".join(call(*arguments, "--db", filled).out.split())
        assert "Prefers tea, not coffee. · Chat 7" in shown

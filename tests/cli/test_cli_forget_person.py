"""`forget --person`: finds what is named after somebody, shows it, asks, erases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from commandline import Call

from memalchemy import Checkpointer, Database, Store, ThreadLog

OTHERS = ("adam", "nevada", "bob", "ada2")
"""Names that hold the letters of ada, and are of somebody else."""
OF_THREADS = ("ada", "ada-1", "chat:ada", "session/ada-1/scopes/agent", "x_ada_y", "user_id=ada")
OF_ITEMS = (
    ("facts", "ada"),
    ("users", "ada", "memories"),
    ("episodes", "ada"),
    ("langgraph", "users", "ada"),
    ("google_adk", "memories", "tours", "ada"),
    ("ada",),
)
OF_LOGS = (("google_adk", "events", "tours", "ada"), ("a2a", "tasks", "ada", "deep"))
KEYS = ("user_id", "owner", "a key of no convention")


async def fill(url: str, person: str, others: tuple[str, ...] = OTHERS) -> None:
    async with Database(url) as db:
        for name in (person, *others):
            for thread in OF_THREADS:
                await Checkpointer(db).save({"n": 1}, thread.replace("ada", name))
            for place in OF_ITEMS:
                namespace = tuple(part.replace("ada", name) for part in place)
                await Store(db).put(namespace, "k", "v", embedding=[1.0])
            for place in OF_LOGS:
                namespace = tuple(part.replace("ada", name) for part in place)
                await ThreadLog(db, namespace=namespace).append("shared", ["an entry"])
            for number, key in enumerate(KEYS):
                meta = {key: name, "other": 1}
                await Checkpointer(db).save({}, f"t{number}-of-{len(name)}{name[:1]}x", None, meta)
                await Store(db).put(("notes",), f"n{number}{name[:2]}{len(name)}", "v", meta)
            own = f"own-{len(name)}{name[:1]}x"
            await Checkpointer(db).save({}, own)
            await Checkpointer(db).set_thread_metadata(own, {"customer": name})


async def contents(url: str) -> tuple[set[tuple[str, Any]], list[Any]]:
    async with Database(url) as db:
        logs = await Checkpointer(db).list_logs(limit=10_000, below=True)
        items = await Store(db).list_items((), limit=10_000, prefix=True)
        return {(one.thread_id, one.namespace) for one in logs}, [
            (one.namespace, one.key) for one in items
        ]


def test_all_of_a_person_is_erased_and_nothing_of_others(call: Call, url: str) -> None:
    assert call("--db", url, "upgrade").code == 0
    asyncio.run(fill(url, "bob", ("adam", "nevada", "ada2")))
    before = asyncio.run(contents(url))
    asyncio.run(fill(url, "ada", ()))
    whole = asyncio.run(contents(url))

    shown = call("forget", "--person", "ada", "--dry-run", "--db", url)
    assert shown.code == 0
    assert asyncio.run(contents(url)) == whole
    asked = call("forget", "--person", "ada", "--db", url, stdin="n\n")
    assert asked.code == 4
    for thread in OF_THREADS:
        assert f"thread {thread}\n" in asked.out
    assert "items in facts/ada and below" in asked.out
    assert "what threads have in a2a/tasks/ada\n" in asked.out
    for key in (*KEYS, "customer"):
        assert f"metadata {{{key!r}: 'ada'}}" in asked.out
    assert "adam" not in asked.out
    assert "This cannot be undone" in asked.err
    assert asyncio.run(contents(url)) == whole

    done = call("forget", "--person", "ada", "--db", url, "--yes", "--json")
    assert done.code == 0
    assert asyncio.run(contents(url)) == before
    assert done.json["left"] == []
    assert f"{done.json['erased']:,} checkpoints, entries and items of 'ada'" in shown.out
    again = call("forget", "--person", "ada", "--yes", "--db", url)
    assert again.code == 1
    assert "docs/erasure.md" in again.err


def test_a_number_is_found_in_metadata_as_text_and_as_a_number(call: Call, url: str) -> None:
    assert call("--db", url, "upgrade").code == 0

    async def numbered() -> None:
        async with Database(url) as db:
            for thread, value in (("a", 42), ("b", "42"), ("c", 421), ("d", True), ("e", [42])):
                await Checkpointer(db).save({}, thread, None, {"customer": value})

    asyncio.run(numbered())

    assert call("forget", "--person", "42", "--yes", "--json", "--db", url).json["erased"] == 2
    assert {thread for thread, _ in asyncio.run(contents(url))[0]} == {"c", "d", "e"}


def test_what_is_left_is_named_and_what_is_kept_stays(call: Call, url: str) -> None:
    assert call("--db", url, "upgrade").code == 0

    async def keyed() -> None:
        async with Database(url) as db:
            await Checkpointer(db).save({}, "ada-1")
            await Checkpointer(db).save({}, "ada-lovelace")
            await Store(db).put(("facts", "ada"), "k", "v")
            await Store(db).put(("books", "ada"), "k", "v")
            await Store(db).put(("openai", "sessions"), "ada-1", "a session")
            await ThreadLog(db).append("bob-1", [{"role": "user", "content": "Call ada, please"}])

    asyncio.run(keyed())
    kept = ("--keep", "ada-lovelace", "--keep", "books/ada")

    done = call("forget", "--person", "ada", *kept, "--yes", "--db", url)

    assert done.code == 0
    assert "memalchemy store rm openai/sessions ada-1" in done.err
    assert "memalchemy search ada" in done.err
    assert "left: ada-lovelace, kept" in done.err
    assert "left: books/ada, kept" in done.err
    threads, items = asyncio.run(contents(url))
    assert {thread for thread, _ in threads} == {"ada-lovelace", "bob-1"}
    assert sorted(items) == [(("books", "ada"), "k"), (("openai", "sessions"), "ada-1")]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--person", ""),
        ("--person", "  "),
        ("--person", "a", "--thread", "b"),
        ("--person", "a", "--whole-tenant", "b"),
        ("--thread", "a", "--keep", "b"),
        ("--person", "a", "--threads"),
    ],
)
def test_wrong_usage_erases_nothing(call: Call, filled: str, wrong: tuple[str, ...]) -> None:
    answer = call("forget", *wrong, "--yes", "--db", filled)

    assert answer.code == 2
    assert call("show", "airline-1", "--db", filled).code == 0

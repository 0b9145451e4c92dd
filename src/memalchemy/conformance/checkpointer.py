"""Checks of a checkpointer: of `CheckpointerProtocol`, and of what `Checkpointer` adds to it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from contextlib import aclosing
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from memalchemy._together import together
from memalchemy.conformance._checks import (
    ALIKE,
    LIFETIME,
    SECONDS,
    VALUES,
    Check,
    Checks,
    each_interruption,
    expect,
    expect_equal,
    expect_error,
    expect_until_end,
    lifetime_end,
    needs_capability,
    needs_method,
    needs_parameter,
    run_checks,
    spoil,
    subject_name,
)
from memalchemy.conformance._databases import on_database
from memalchemy.conformance.report import Report
from memalchemy.contracts import CheckpointerProtocol, CheckpointInfo
from memalchemy.errors import Conflict, NotFound, NotSerialisable, TooLarge

CHECKPOINTER_CHECKS = Checks()
"""The checks of a checkpointer, in the order in which `check_checkpointer` runs them."""

SAVES = 12


async def check_checkpointer(
    make: Callable[..., Any],
    *,
    database: str | None = None,
    checks: Iterable[Check] = CHECKPOINTER_CHECKS,
    timeout: float = SECONDS,  # noqa: ASYNC109 - of each check, not of this call
) -> Report:
    """Check what a checkpointer promises: `CheckpointerProtocol`, and what `Checkpointer` adds.

        report = await check_checkpointer(MyCheckpointer)
        report.raise_for_failures()

    A check of what `capabilities` deny, or of a method that is not there, is skipped.

    Args:
        make: returns an empty checkpointer: for each check it is called once, with a `Database` of
            a new tenant if it needs an argument. It may be a coroutine function. What it returns is
            used by ``async with``, if that is possible.
        database: the URL of a migrated database, for a *make* that takes one. What a check has
            written is erased at its end. Without it, each check has a new SQLite file.
        checks: those to run.
        timeout: the seconds that each may take.

    Raises:
        ValueError: *database* is given, and *make* takes no argument.
    """
    made = on_database(make, database)
    return await run_checks(subject_name(make), made, checks, timeout)


async def _history(checkpointer: Any, thread_id: str, **options: Any) -> list[CheckpointInfo]:
    return [info async for info in checkpointer.history(thread_id, **options)]


# --- Saving and loading --------------------------------------------------------------------------


@CHECKPOINTER_CHECKS("memalchemy.contracts.CheckpointerProtocol")
async def has_the_methods_of_the_protocol(checkpointer: Any) -> None:
    """It has the attributes of `CheckpointerProtocol`, whose methods take arguments of these
    names.
    """
    expect(isinstance(checkpointer, CheckpointerProtocol), "it lacks an attribute of the protocol")
    for name in ("save", "load", "list_checkpoints", "history"):
        wanted = [*inspect.signature(getattr(CheckpointerProtocol, name)).parameters][1:]
        found = inspect.signature(getattr(checkpointer, name)).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in found.values())
        missing = [one for one in wanted if one not in found and not takes_any]
        expect(not missing, f"{name} has no argument {', '.join(missing)}")


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.load")
async def loads_every_type_as_it_was_saved(checkpointer: Any) -> None:
    """A state loads equal, of the same types, with keys in the same order."""
    await checkpointer.save(VALUES, "thread")
    found = await checkpointer.load("thread")
    expect(isinstance(found, dict), f"a state loads as {type(found).__name__}")
    for key, value in VALUES.items():
        expect_equal(f"the value of {key!r}", found.get(key), value)
    expect_equal("the keys", list(found), list(VALUES))


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.load")
async def an_unknown_thread_is_empty(checkpointer: Any) -> None:
    """What does not exist is ``None`` or an empty list, and no error."""
    expect_equal("load", await checkpointer.load("unknown"), None)
    expect_equal("list_checkpoints", await checkpointer.list_checkpoints("unknown"), [])
    expect_equal("history", await _history(checkpointer, "unknown"), [])
    await checkpointer.save({}, "known")
    expect_equal("load by an unknown id", await checkpointer.load("known", "unknown"), None)
    expect_equal("an empty state", await checkpointer.load("known"), {})


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def save_returns_the_id_of_its_checkpoint(checkpointer: Any) -> None:
    """`save` returns the id that it was given, or a new one; `load` takes it."""
    expect_equal("save", await checkpointer.save({"n": 0}, "thread", "mine"), "mine")
    made = [await checkpointer.save({"n": n}, "thread") for n in range(1, 6)]
    expect(len({"mine", *made}) == 6, f"ids were given out twice: {made}")
    for number, checkpoint_id in enumerate(["mine", *made]):
        found = await checkpointer.load("thread", checkpoint_id)
        expect_equal(f"the state of {checkpoint_id!r}", found, {"n": number})


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def the_last_saved_is_the_newest(checkpointer: Any) -> None:
    """The order is that of saves, whatever the ids. `load` returns the newest, `list_checkpoints`
    the newest first.
    """
    ids = ["c", "a", "b", "10", "9", "Z"]
    for count, checkpoint_id in enumerate(ids, start=1):
        await checkpointer.save({"id": checkpoint_id}, "thread", checkpoint_id)
        expect_equal("load", await checkpointer.load("thread"), {"id": checkpoint_id})
        found = await checkpointer.list_checkpoints("thread")
        expect_equal("list_checkpoints", found, ids[:count][::-1])


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def saving_an_id_again_replaces_it(checkpointer: Any) -> None:
    """A save of an id that exists replaces its state and makes it the newest; others stay."""
    for checkpoint_id in ("a", "b", "c"):
        await checkpointer.save({"id": checkpoint_id}, "thread", checkpoint_id)
    await checkpointer.save({"id": "new a"}, "thread", "a")
    expect_equal("the ids", await checkpointer.list_checkpoints("thread"), ["a", "c", "b"])
    expect_equal("the replaced", await checkpointer.load("thread", "a"), {"id": "new a"})
    expect_equal("another", await checkpointer.load("thread", "b"), {"id": "b"})


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.load")
async def every_version_of_a_long_thread_loads(checkpointer: Any) -> None:
    """Every state of a thread of many checkpoints loads as it was saved, however it is stored."""
    states = [
        {"messages": [f"message {i} " * 5 for i in range(n)], "n": n, f"only {n % 3}": n}
        for n in range(70)
    ]
    ids = [await checkpointer.save(state, "thread") for state in states]
    for at in (*range(0, 70, 9), 69):
        expect_equal(f"state {at}", await checkpointer.load("thread", ids[at]), states[at])
    found = await checkpointer.list_checkpoints("thread", limit=100)
    expect_equal("list_checkpoints", found, ids[::-1])


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.load")
async def states_are_the_callers_own(checkpointer: Any) -> None:
    """Changing a state that was saved or loaded changes nothing that is stored."""
    state = {"list": [1, {"a": "b"}], "text": "t"}
    expected = deepcopy(state)
    first = await checkpointer.save(state, "thread")
    spoil(state)
    expect_equal("after the saved was changed", await checkpointer.load("thread"), expected)
    spoil(await checkpointer.load("thread"))
    expect_equal("after the loaded was changed", await checkpointer.load("thread"), expected)
    await checkpointer.save(expected | {"more": 1}, "thread")
    found = await checkpointer.load("thread", first)
    expect_equal("the first, after another save", found, expected)


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def what_cannot_be_stored_is_refused(checkpointer: Any) -> None:
    """A state or metadata that would not load back equal is `NotSerialisable`, ids that are no text
    a `TypeError`, ids that are too long `TooLarge`, and nothing is written.
    """
    first = await checkpointer.save({"n": 1}, "thread")
    for state in ({"a": object()}, {"a": {1: 2}}, {"a": [lambda: 1]}):
        what = "a state that cannot be stored"
        await expect_error(what, checkpointer.save(state, "thread"), NotSerialisable)
    what = "metadata that is no JSON"
    work = checkpointer.save({}, "thread", metadata={"a": object()})
    await expect_error(what, work, NotSerialisable, TypeError, ValueError)
    await expect_error("a thread id that is no text", checkpointer.save({}, 7), TypeError)
    await expect_error("a long thread id", checkpointer.save({}, "x" * 5_000), TooLarge)
    await expect_error("a long id", checkpointer.save({}, "thread", "x" * 5_000), TooLarge)
    expect_equal("the ids", await checkpointer.list_checkpoints("thread"), [first])
    expect_equal("the state", await checkpointer.load("thread"), {"n": 1})


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def ids_that_look_alike_are_separate(checkpointer: Any) -> None:
    """Any text is the id of a thread or a checkpoint of its own."""
    for name in ALIKE:
        await checkpointer.save({"of": name}, name)
        await checkpointer.save({"of": name}, "thread", name)
    for name in ALIKE:
        expect_equal(f"thread {name!r}", await checkpointer.load(name), {"of": name})
        expect_equal(f"its ids of {name!r}", len(await checkpointer.list_checkpoints(name)), 1)
        found = await checkpointer.load("thread", name)
        expect_equal(f"checkpoint {name!r}", found, {"of": name})


# --- Listing -------------------------------------------------------------------------------------


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.list_checkpoints")
async def a_limit_is_kept(checkpointer: Any) -> None:
    """A limit is the largest number of results, 0 none; a negative one is a `ValueError`."""
    ids = [await checkpointer.save({"n": n}, "thread") for n in range(12)][::-1]
    expect_equal("without a limit", await checkpointer.list_checkpoints("thread"), ids[:10])
    for limit in (0, 1, 11, 12, 1_000):
        found = await checkpointer.list_checkpoints("thread", limit=limit)
        expect_equal(f"list_checkpoints, limit {limit}", found, ids[:limit])
        infos = await _history(checkpointer, "thread", limit=limit)
        expect_equal(f"history, limit {limit}", [one.checkpoint_id for one in infos], ids[:limit])
    work = checkpointer.list_checkpoints("thread", limit=-1)
    await expect_error("a negative limit", work, ValueError)


@CHECKPOINTER_CHECKS("memalchemy.contracts.CheckpointInfo")
async def history_describes_every_checkpoint(checkpointer: Any) -> None:
    """`history` yields a `CheckpointInfo` of each checkpoint, newest first: with its metadata, the
    parent that it was derived from, positions that fall, and times that are aware UTC.
    """
    began = datetime.now(UTC) - timedelta(minutes=1)
    ids = [await checkpointer.save({"n": n}, "thread", metadata={"step": n}) for n in range(4)]
    await checkpointer.save({}, "another", metadata={"step": 9})
    found = await _history(checkpointer, "thread")
    expect_equal("the ids", [one.checkpoint_id for one in found], ids[::-1])
    expect_equal(
        "the metadata", [one.metadata for one in found], [{"step": n} for n in (3, 2, 1, 0)]
    )
    parents = [None, *ids][-2::-1]
    expect_equal("the parents", [one.parent_id for one in found], parents)
    expect_equal("the threads", {one.thread_id for one in found}, {"thread"})
    expect(all(a.seq > b.seq for a, b in pairwise(found)), "the positions do not fall")
    for info in found:
        expect_equal("the offset of a time", info.created_at.utcoffset(), timedelta(0))
        expect(began < info.created_at < began + timedelta(hours=1), f"it is {info.created_at}")
        expect(info.raw_size > 0, "a state has no size")


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.history")
async def history_goes_on_before_a_checkpoint(checkpointer: Any) -> None:
    """With ``before=`` history yields what is older than that checkpoint; an unknown one is
    `NotFound`.
    """
    ids = [await checkpointer.save({"n": n}, "thread") for n in range(6)][::-1]
    for at in (0, 2, 5):
        infos = await _history(checkpointer, "thread", before=ids[at])
        found = [one.checkpoint_id for one in infos]
        expect_equal(f"before the {at}. newest", found, ids[at + 1 :])
    infos = await _history(checkpointer, "thread", before=ids[1], limit=2)
    expect_equal("with a limit", [one.checkpoint_id for one in infos], ids[2:4])
    work = _history(checkpointer, "thread", before="unknown")
    await expect_error("before an unknown checkpoint", work, NotFound)


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.get_metadata")
async def metadata_and_existence_are_told(checkpointer: Any) -> None:
    """`get_metadata` returns the fields of `CheckpointInfo`, of the newest without an id; `exists`
    tells whether a checkpoint, or any of a thread, is there.
    """
    needs_method(checkpointer, "get_metadata", "exists")
    first = await checkpointer.save({}, "thread", metadata={"step": 1})
    second = await checkpointer.save({}, "thread", metadata={"step": 2})
    for checkpoint_id, expected in ((first, first), (None, second)):
        found = await checkpointer.get_metadata("thread", checkpoint_id)
        expect(isinstance(found, dict), f"get_metadata returned {found!r}")
        expect_equal("its keys", {*found}, {*CheckpointInfo.__slots__})
        expect_equal("its id", found["checkpoint_id"], expected)
        expect_equal("its metadata", found["metadata"], {"step": 1 if expected == first else 2})
    expect_equal("an unknown id", await checkpointer.get_metadata("thread", "unknown"), None)
    asked = [("thread",), ("thread", first), ("thread", "unknown"), ("unknown",)]
    there = [await checkpointer.exists(*one) for one in asked]
    expect_equal("exists", there, [True, True, False, False])


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.list_threads")
async def threads_are_listed_by_their_last_save(checkpointer: Any) -> None:
    """Threads are listed with the one that was saved last first, and found by a case-sensitive
    glob.
    """
    needs_capability(checkpointer, "list_threads")
    for thread_id in ("b", "a", "Aa", "c", "b"):
        await checkpointer.save({}, thread_id)
        await asyncio.sleep(0.002)  # the clock may be coarse
    expect_equal("list_threads", await checkpointer.list_threads(), ["b", "c", "Aa", "a"])
    expect_equal("with a limit", await checkpointer.list_threads(2), ["b", "c"])
    found = await checkpointer.list_threads(pattern="[Aa]?")
    expect_equal("by a glob", found, ["Aa"])


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.list_with_metadata")
async def the_newest_of_all_threads_are_listed(checkpointer: Any) -> None:
    """`list_with_metadata` returns the newest checkpoints of all threads, the newest first, as
    `get_metadata`.
    """
    needs_capability(checkpointer, "list_with_metadata")
    ids = []
    for number in range(5):
        ids.append(await checkpointer.save({}, "ab"[number % 2], metadata={"n": number}))
        await asyncio.sleep(0.002)
    found = await checkpointer.list_with_metadata(3)
    expect_equal("the ids", [one["checkpoint_id"] for one in found], ids[:1:-1])
    expect_equal("the metadata", [one["metadata"] for one in found], [{"n": n} for n in (4, 3, 2)])


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.query_by_metadata")
async def metadata_is_found_by_its_value_and_type(checkpointer: Any) -> None:
    """Checkpoints are found by a field of their metadata, newest first: numbers as numbers, texts
    as texts, booleans as booleans.
    """
    needs_capability(checkpointer, "metadata_query")
    values = [1, "1", True, 1.5, "a", None, 1]
    ids = [await checkpointer.save({}, "thread", metadata={"k": value}) for value in values]
    await checkpointer.save({}, "another", metadata={"other": 1})
    for value, expected in (
        (1, [6, 0]),
        ("1", [1]),
        (True, [2]),
        (1.5, [3]),
        ("a", [4]),
        ("b", []),
    ):
        found = await checkpointer.query_by_metadata("k", value)
        at = [ids.index(one["checkpoint_id"]) for one in found]
        expect_equal(f"the places of those with {value!r}", at, expected)


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.search")
async def search_finds_the_words_of_a_step(checkpointer: Any) -> None:
    """A search finds checkpoints by words that they added, whatever their case and accents; nothing
    in it is an operator, and a score is over 0 and at most 1.
    """
    needs_capability(checkpointer, "search")
    first = await checkpointer.save({"text": ["Der Apfel fällt"]}, "thread")
    await checkpointer.save({"text": ["Der Apfel fällt", "nothing else"]}, "thread")
    for query in ("apfel", "FALLT", 'Apfel OR "(*', "apfel AND -x'"):
        found = await checkpointer.search(query)
        expect_equal(f"those with {query!r}", [one["checkpoint_id"] for one in found], [first])
        expect(all(0 < one["score"] <= 1 for one in found), "a score is not within 0 and 1")
    for query in ("unknown", "", '"'):
        expect_equal(f"those with {query!r}", await checkpointer.search(query), [])


# --- Branches ------------------------------------------------------------------------------------


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def a_parent_makes_a_branch(checkpointer: Any) -> None:
    """With ``parent_id=`` a save branches off that checkpoint, and is the newest; an unknown parent
    is `NotFound`.
    """
    needs_capability(checkpointer, "branching")
    a, b = [await checkpointer.save({"n": n}, "thread") for n in range(2)]
    branch = await checkpointer.save({"n": 2}, "thread", parent_id=a)
    after = await checkpointer.save({"n": 3}, "thread")
    found = {one.checkpoint_id: one.parent_id for one in await _history(checkpointer, "thread")}
    expect_equal("the parents", found, {after: branch, branch: a, b: a, a: None})
    for number, checkpoint_id in enumerate((a, b, branch, after)):
        loaded = await checkpointer.load("thread", checkpoint_id)
        expect_equal(f"state {number}", loaded, {"n": number})
    work = checkpointer.save({}, "thread", parent_id="unknown")
    await expect_error("an unknown parent", work, NotFound)


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def an_unexpected_parent_is_a_conflict(checkpointer: Any) -> None:
    """With ``expected_parent=`` a save is a `Conflict` unless that is the newest, and then nothing
    is saved; of many at once exactly one succeeds.
    """
    needs_parameter(checkpointer, "save", "expected_parent")
    first = await checkpointer.save({"n": 0}, "thread", expected_parent=None)
    work = checkpointer.save({}, "thread", expected_parent=None)
    await expect_error("a save that expects no checkpoint", work, Conflict)

    async def try_save(number: int) -> str | None:
        try:
            return str(await checkpointer.save({"n": number}, "thread", expected_parent=first))
        except Conflict:
            return None

    saved = [one for one in await together(*map(try_save, range(1, 9))) if one]
    expect_equal("the number that succeeded", len(saved), 1)
    found = await checkpointer.list_checkpoints("thread")
    expect_equal("the ids", found, [*saved, first])


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.change")
async def changes_at_once_lose_nothing(checkpointer: Any) -> None:
    """`change` makes the new state of the newest one, however many do so at once, and returns the
    id of the new checkpoint; an error of the function saves nothing.
    """
    needs_method(checkpointer, "change")

    async def add(number: int) -> str:
        def one_more(state: Any) -> dict[str, Any]:
            return {"added": [*(state or {"added": []})["added"], number]}

        return str(await checkpointer.change("thread", one_more))

    ids = await together(*map(add, range(SAVES)))
    state = await checkpointer.load("thread")
    expect_equal("what was added", sorted(state["added"]), [*range(SAVES)])
    found = await checkpointer.list_checkpoints("thread", 2 * SAVES)
    expect_equal("the ids", sorted(found), sorted(ids))

    def refuse(state: Any) -> dict[str, Any]:
        raise ZeroDivisionError

    await expect_error("an error", checkpointer.change("thread", refuse), ZeroDivisionError)
    newest = await checkpointer.list_checkpoints("thread", 1)
    expect_equal("the newest after an error", newest, found[:1])


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.fork")
async def a_fork_shares_nothing_with_its_source(checkpointer: Any) -> None:
    """`fork` copies a thread up to a checkpoint into another one, and the two share nothing then. A
    source that does not exist is `NotFound`, a target that is in use a `Conflict`.
    """
    needs_method(checkpointer, "fork")
    ids = [await checkpointer.save({"n": n}, "thread") for n in range(3)]
    fork = await checkpointer.fork("thread", ids[1], new_thread_id="fork")
    expect_equal("the id", fork, "fork")
    expect_equal("its ids", await checkpointer.list_checkpoints("fork"), ids[1::-1])
    await checkpointer.save({"n": 9}, "fork")
    expect_equal("the source", await checkpointer.load("thread"), {"n": 2})
    expect_equal("the fork", await checkpointer.load("fork"), {"n": 9})
    await expect_error("an unknown source", checkpointer.fork("unknown"), NotFound)
    work = checkpointer.fork("thread", new_thread_id="fork")
    await expect_error("a target that is in use", work, Conflict)


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.diff")
async def a_difference_is_told_by_json_pointers(checkpointer: Any) -> None:
    """`diff` tells what was added, removed and changed between two states."""
    needs_method(checkpointer, "diff")
    a = await checkpointer.save({"gone": 1, "a": [1, 2], "same": 0}, "thread")
    b = await checkpointer.save({"new": 1, "a": [1, 3], "same": 0}, "thread")
    found = await checkpointer.diff("thread", a, b)
    expect_equal("added", found.added, {"/new": 1})
    expect_equal("removed", found.removed, {"/gone": 1})
    expect_equal("changed", found.changed, {"/a/1": (2, 3)})
    await expect_error("an unknown one", checkpointer.diff("thread", a, "unknown"), NotFound)


# --- Removing ------------------------------------------------------------------------------------


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.delete")
async def a_deletion_removes_what_it_names(checkpointer: Any) -> None:
    """`delete` removes a checkpoint, or without an id a thread, and tells whether it existed; other
    states, those that came after it too, load as before.
    """
    needs_method(checkpointer, "delete")
    ids = [await checkpointer.save({"n": n, "text": "x" * 500}, "thread") for n in range(5)]
    await checkpointer.save({"other": 1}, "other")
    if getattr(checkpointer, "deletes_single_checkpoints", True):
        for at in (2, 4):
            found = await checkpointer.delete("thread", ids[at])
            expect_equal("delete of a checkpoint", found, True)
            loaded = await checkpointer.load("thread", ids[at])
            expect_equal("the deleted checkpoint", loaded, None)
        expect_equal("a second delete", await checkpointer.delete("thread", ids[2]), False)
        for at in (0, 1, 3):
            loaded = await checkpointer.load("thread", ids[at])
            expect_equal(f"state {at}", loaded, {"n": at, "text": "x" * 500})
        found = await checkpointer.list_checkpoints("thread")
        expect_equal("the ids", found, [ids[3], ids[1], ids[0]])
        expect_equal("the newest", (await checkpointer.load("thread"))["n"], 3)
    expect_equal("delete of a thread", await checkpointer.delete("thread"), True)
    expect_equal("delete of an unknown thread", await checkpointer.delete("unknown"), False)
    expect_equal("the deleted thread", await checkpointer.load("thread"), None)
    expect_equal("its ids", await checkpointer.list_checkpoints("thread"), [])
    expect_equal("the other thread", await checkpointer.load("other"), {"other": 1})
    await checkpointer.save({"n": "new"}, "thread")
    expect_equal("the thread, anew", len(await checkpointer.list_checkpoints("thread")), 1)


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.prune")
async def prune_keeps_what_a_rule_keeps(checkpointer: Any) -> None:
    """`prune` deletes the checkpoints that no rule keeps, and returns their number; those that stay
    load as before.
    """
    needs_method(checkpointer, "prune")
    ids = [await checkpointer.save({"n": n, "t": "x" * n}, "thread") for n in range(10)]
    expect_equal("the number", await checkpointer.prune("thread", keep_last=3), 7)
    found = await checkpointer.list_checkpoints("thread")
    expect_equal("the ids", found, ids[:6:-1])
    for at in (7, 8, 9):
        loaded = await checkpointer.load("thread", ids[at])
        expect_equal(f"state {at}", loaded, {"n": at, "t": "x" * at})
    expect_equal("a second time", await checkpointer.prune("thread", keep_last=3), 0)


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.vacuum")
async def vacuum_removes_stale_threads_alone(checkpointer: Any) -> None:
    """`vacuum` removes threads that were not saved for some days, and no other."""
    needs_capability(checkpointer, "vacuum")
    await checkpointer.save({"n": 1}, "thread")
    expect_equal("after a day", await checkpointer.vacuum(1), 0)
    expect_equal("the thread", await checkpointer.load("thread"), {"n": 1})
    await asyncio.sleep(0.01)
    expect_equal("at once", await checkpointer.vacuum(0), 1)
    expect_equal("the stale thread", await checkpointer.load("thread"), None)


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def a_thread_expires(checkpointer: Any) -> None:
    """A thread that was saved with a ``ttl=`` is not there any more when that has passed, and
    begins anew.
    """
    needs_capability(checkpointer, "ttl")
    await checkpointer.save({"n": 1}, "lasting", ttl=1_000)
    ends = lifetime_end()
    await checkpointer.save({"n": 1}, "ending", ttl=LIFETIME)
    await expect_until_end("before its end", checkpointer.load("ending"), {"n": 1}, ends)
    expect_equal("after its end", await checkpointer.load("ending"), None)
    expect_equal("its ids", await checkpointer.list_checkpoints("ending"), [])
    expect_equal("another", await checkpointer.load("lasting"), {"n": 1})
    await checkpointer.save({"n": 2}, "ending")
    expect_equal("the thread, anew", len(await checkpointer.list_checkpoints("ending")), 1)


# --- At once -------------------------------------------------------------------------------------


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def saves_at_once_form_one_line(checkpointer: Any) -> None:
    """A plain save never conflicts: of many at once none is lost, each has an id and a position of
    its own, and the later lands after the earlier.
    """
    ids: list[str] = []
    for first in (0, SAVES):  # a thread that does not exist yet, and one that does
        numbers = range(first, first + SAVES)
        ids += await together(*(checkpointer.save({"n": n}, "thread") for n in numbers))
    expect_equal("the number of ids", len({*ids}), 2 * SAVES)
    found = await _history(checkpointer, "thread")
    listed = [one.checkpoint_id for one in found]
    expect_equal("the checkpoints", {*listed}, {*ids})
    expect_equal("the parents", [one.parent_id for one in found], [*listed[1:], None])
    for number, checkpoint_id in enumerate(ids):
        loaded = await checkpointer.load("thread", checkpoint_id)
        expect_equal(f"state {number}", loaded, {"n": number})


@CHECKPOINTER_CHECKS("memalchemy.Checkpointer.save")
async def a_cancelled_save_is_whole_or_absent(checkpointer: Any) -> None:
    """A save that is cancelled, at whatever point, has happened or has not; the next one works."""
    state = {"text": "0123456789" * 2_000}

    def save(number: int) -> Any:
        return checkpointer.save(state, f"thread {number}", "id", {"n": number})

    async with aclosing(each_interruption(save)) as tried:
        async for number, acknowledged in tried:
            thread_id = f"thread {number}"
            found = await checkpointer.load(thread_id)
            at = "after a save was cancelled"
            expect(found == state or (found is None and not acknowledged), f"{at}: {found!r:.100}")
            infos = await _history(checkpointer, thread_id)
            listed = [(one.checkpoint_id, one.metadata) for one in infos]
            if found is not None or listed:  # it may have happened meanwhile
                expect_equal(f"{at}: history", listed, [("id", {"n": number})])
            await checkpointer.save({"next": 1}, f"next {number}")
            loaded = await checkpointer.load(f"next {number}")
            expect_equal("the next save", loaded, {"next": 1})

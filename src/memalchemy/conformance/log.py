"""Checks of a log: of what `ThreadLog` promises."""

from __future__ import annotations

import asyncio
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
    needs_method,
    needs_parameter,
    run_checks,
    spoil,
    subject_name,
)
from memalchemy.conformance._databases import on_database
from memalchemy.conformance.report import Report
from memalchemy.errors import Conflict, NotFound, NotSerialisable, ThreadDeleted, TooLarge

LOG_CHECKS = Checks()
"""The checks of a log, in the order in which `check_log` runs them."""

WRITERS = 8


async def check_log(
    make: Callable[..., Any],
    *,
    database: str | None = None,
    checks: Iterable[Check] = LOG_CHECKS,
    timeout: float = SECONDS,  # noqa: ASYNC109 - of each check, not of this call
) -> Report:
    """Check what a log promises: the methods of `ThreadLog`, by its rules.

        report = await check_log(MyLog)
        report.raise_for_failures()

    Required are ``append`` and ``tail``. A check of another method that is not there is skipped.

    Args:
        make: returns an empty log: for each check it is called once, with a `Database` of a
            new tenant if it needs an argument. It may be a coroutine function. What it returns is
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


async def _values(log: Any, thread_id: str = "thread") -> list[Any]:
    return [entry.value for entry in await log.tail(thread_id, 1_000)]


# --- Appending -----------------------------------------------------------------------------------


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def reads_every_type_as_it_was_appended(log: Any) -> None:
    """A value is read equal, of the same types, with keys in the same order."""
    await log.append("thread", [*VALUES.values()])
    await log.append("thread", VALUES)
    found = await _values(log)
    for key, value, read in zip(VALUES, VALUES.values(), found, strict=False):
        expect_equal(f"the value {key!r}", read, value)
    expect_equal("all of them", found, [*VALUES.values(), VALUES])


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def entries_are_in_the_order_of_appends(log: Any) -> None:
    """The order is that of positions, which `append` returns and which rise; a list is several
    entries, a list in a list one, an empty list none. Equal entries are as many as were appended.
    """
    positions = [*await log.append("thread", "b"), *await log.append("thread", ["a", "b", "b"])]
    positions += await log.append("thread", [["c", "d"]])
    expect_equal("positions of no entries", await log.append("thread", []), [])
    found = await log.tail("thread")
    expect_equal("the values", [one.value for one in found], ["b", "a", "b", "b", ["c", "d"]])
    expect_equal("the positions", [one.position for one in found], positions)
    expect(all(a < b for a, b in pairwise(positions)), f"the positions do not rise: {positions}")
    expect(positions[0] >= 1, "positions do not begin at 1")


@LOG_CHECKS("memalchemy.ThreadLog.tail")
async def an_unknown_log_is_empty(log: Any) -> None:
    """A log that does not exist has no entries, and is at version 0."""
    expect_equal("tail", await log.tail("unknown"), [])
    for method, expected in (("count", 0), ("version", 0), ("pop", None), ("delete", False)):
        if hasattr(log, method):
            expect_equal(method, await getattr(log, method)("unknown"), expected)
    await log.append("known", 1)
    expect_equal("tail of another log", await log.tail("unknown"), [])


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def an_entry_has_its_key_and_both_times(log: Any) -> None:
    """An entry has the key and the time that it was appended with, and the time at which it was
    stored, aware UTC.
    """
    needs_parameter(log, "append", "keys", "occurred_at")
    began = datetime.now(UTC) - timedelta(minutes=1)
    moment = datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    await log.append("thread", ["a", "b"], keys=["k", None], occurred_at=moment)
    await log.append("thread", "c")
    found = await log.tail("thread")
    expect_equal("the keys", [one.key for one in found], ["k", None, None])
    expect_equal("a time", [one.occurred_at for one in found[:2]], [moment, moment])
    for one in (*[entry.stored_at for entry in found], found[2].occurred_at):
        expect_equal("the offset of a time", one.utcoffset(), timedelta(0))
        expect(began < one < began + timedelta(hours=1), f"a time is {one}")


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def a_key_is_appended_once(log: Any) -> None:
    """An entry whose key is in the log is not appended again, and its position is returned; a key
    is of its log alone, and of many at once one is stored.
    """
    needs_parameter(log, "append", "keys")
    first = await log.append("thread", ["a", "b"], keys=["1", "2"])
    again = await log.append("thread", ["x", "c"], keys=["2", "3"])
    expect_equal("the position of a known key", again[0], first[1])
    expect_equal("the values", await _values(log), ["a", "b", "c"])
    await log.append("another", "a", keys="1")
    expect_equal("another log", await _values(log, "another"), ["a"])
    at_once = await together(*(log.append("thread", n, keys="same") for n in range(WRITERS)))
    expect_equal("the number of their positions", len({one for [one] in at_once}), 1)
    expect_equal("the number of entries", len(await _values(log)), 4)


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def what_cannot_be_stored_is_refused_whole(log: Any) -> None:
    """An append of several entries of which one cannot be stored is refused: `NotSerialisable`, or
    `TooLarge` of an id that is too long; nothing is written.
    """
    await log.append("thread", "there")
    for value in (object(), {1: 2}, [lambda: 1]):
        work = log.append("thread", ["before", value, "after"])
        await expect_error("an entry that cannot be stored", work, NotSerialisable)
    await expect_error("a long thread id", log.append("x" * 5_000, 1), TooLarge)
    await expect_error("a thread id that is no text", log.append(7, 1), TypeError)
    expect_equal("the values", await _values(log), ["there"])


@LOG_CHECKS("memalchemy.ThreadLog")
async def threads_that_look_alike_are_separate(log: Any) -> None:
    """Any text is the id of a thread with a log of its own."""
    for name in ALIKE:
        await log.append(name, name)
    for name in ALIKE:
        expect_equal(f"thread {name!r}", await _values(log, name), [name])


@LOG_CHECKS("memalchemy.ThreadLog.tail")
async def values_are_the_callers_own(log: Any) -> None:
    """Changing a value that was appended or read changes nothing that is stored."""
    value = {"list": [1, {"a": "b"}]}
    expected = deepcopy(value)
    await log.append("thread", value)
    spoil(value)
    expect_equal("after the appended was changed", await _values(log), [expected])
    spoil(await _values(log))
    expect_equal("after the read was changed", await _values(log), [expected])


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def an_unexpected_version_is_a_conflict(log: Any) -> None:
    """With ``expected_version=`` an append is a `Conflict` unless the log is at that version, 0 for
    one that does not exist, and changes nothing; of many at once exactly one succeeds. Every write
    moves the version.
    """
    needs_parameter(log, "append", "expected_version")
    needs_method(log, "version")
    work = log.append("thread", "x", expected_version=1)
    await expect_error("an append to a log that is expected", work, Conflict)
    await log.append("thread", 0, expected_version=0)
    work = log.append("thread", "x", expected_version=0)
    await expect_error("an append to a log that is not expected", work, Conflict)
    version = await log.version("thread")
    expect(version > 0, f"the version of a log is {version}")

    async def append(thread_id: str, number: int, expected: int) -> bool:
        try:
            await log.append(thread_id, number, expected_version=expected)
        except Conflict:
            return False
        return True

    for thread_id, there, expected in (("thread", [0], version), ("new", [], 0)):
        works = (append(thread_id, number, expected) for number in range(1, 9))
        succeeded = await together(*works)
        expect_equal("the number that succeeded", sum(succeeded), 1)
        values = await _values(log, thread_id)
        expect_equal("the values", values, [*there, succeeded.index(True) + 1])
        expect(await log.version(thread_id) > expected, "a write did not move the version")


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def appends_at_once_stay_together(log: Any) -> None:
    """Of many appends at once none is lost; the entries of each lie side by side, and those of a
    writer are in its order.
    """

    async def append(writer: int) -> None:
        for number in range(4):
            await log.append("thread", [[writer, number, part] for part in range(3)])

    await together(*map(append, range(WRITERS)))
    found = await _values(log)
    expect_equal("the number of entries", len(found), WRITERS * 12)
    for at in range(0, len(found), 3):
        writer, number, _ = found[at]
        expected = [[writer, number, part] for part in range(3)]
        expect_equal("the entries of an append", found[at : at + 3], expected)
    for writer in range(WRITERS):
        numbers = [number for who, number, part in found if who == writer and not part]
        expect_equal(f"the appends of writer {writer}", numbers, [0, 1, 2, 3])


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def a_cancelled_append_is_whole_or_absent(log: Any) -> None:
    """An append that is cancelled, at whatever point, has happened with all of its entries or has
    not; the next one works.
    """
    values = ["a" * 5_000, "b" * 5_000, "c" * 5_000]

    def append(number: int) -> Any:
        return log.append(f"thread {number}", values)

    async with aclosing(each_interruption(append)) as tried:
        async for number, acknowledged in tried:
            thread_id = f"thread {number}"
            found = await _values(log, thread_id)
            at = "after an append was cancelled"
            whole = found == values or (found == [] and not acknowledged)
            expect(whole, f"{at}, {len(found)} entries are there")
            await log.append(f"next {number}", "next")
            expect_equal("the next append", await _values(log, f"next {number}"), ["next"])


# --- Reading -------------------------------------------------------------------------------------


@LOG_CHECKS("memalchemy.ThreadLog.tail")
async def the_tail_is_the_newest(log: Any) -> None:
    """`tail` returns the newest entries, the oldest of them first, and goes on before
    a position.
    """
    positions = await log.append("thread", [*range(10)])
    expect_equal("the tail", [one.value for one in await log.tail("thread", 3)], [7, 8, 9])
    expect_equal("the limit 0", await log.tail("thread", 0), [])
    found = await log.tail("thread", 3, before=positions[7])
    expect_equal("before a position", [one.value for one in found], [4, 5, 6])
    await expect_error("a negative limit", log.tail("thread", -1), ValueError)


@LOG_CHECKS("memalchemy.ThreadLog.range")
async def a_range_is_within_its_bounds(log: Any) -> None:
    """`range` returns the first entries beyond a position and below another, that occurred at a
    time or later, and earlier than another; `iter_entries` yields all, forwards and backwards.
    """
    needs_method(log, "range")
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 9)]
    at = await log.append("thread", [*range(8)], occurred_at=times)
    for bounds, expected in (
        ({}, [*range(8)]),
        ({"after": at[2]}, [3, 4, 5, 6, 7]),
        ({"after": at[2], "before": at[5]}, [3, 4]),
        ({"since": times[2], "until": times[4]}, [2, 3]),
        ({"after": at[0], "limit": 2}, [1, 2]),
        ({"after": at[2], "since": times[1], "limit": 2}, [3, 4]),
        ({"limit": 0}, []),
    ):
        found = [one.value for one in await log.range("thread", **bounds)]
        expect_equal(f"the range of {bounds}", found, expected)
    if hasattr(log, "iter_entries"):
        for backwards in (False, True):
            entries = log.iter_entries("thread", newest_first=backwards, page_size=3)
            found = [one.value async for one in entries]
            expected = [*range(8)][:: -1 if backwards else 1]
            expect_equal("iter_entries", found, expected)


@LOG_CHECKS("memalchemy.ThreadLog.read")
async def a_reader_reads_what_is_new(log: Any) -> None:
    """`read` with an earlier reading returns the new entries; after something was removed or edited
    all of them, and says so by ``complete``.
    """
    needs_method(log, "read", "edit")
    positions = await log.append("thread", ["a", "b"])
    first = await log.read("thread")
    expect_equal("the first", [one.value for one in first.entries], ["a", "b"])
    expect_equal("it is complete", first.complete, True)
    await log.append("thread", "c")
    second = await log.read("thread", first)
    expect_equal("the new", [one.value for one in second.entries], ["c"])
    expect_equal("it is complete", second.complete, False)
    nothing = await log.read("thread", second)
    expect_equal("nothing new", [one.value for one in nothing.entries], [])
    await log.edit("thread", positions[0], "A")
    third = await log.read("thread", nothing)
    expect_equal("after an edit", [one.value for one in third.entries], ["A", "b", "c"])
    expect_equal("it is complete", third.complete, True)


# --- Taking back ---------------------------------------------------------------------------------


@LOG_CHECKS("memalchemy.ThreadLog.pop")
async def every_entry_is_popped_once(log: Any) -> None:
    """`pop` removes the newest entry and returns it; of many at once no two are given the same, and
    a position is not given out again.
    """
    needs_method(log, "pop")
    positions = await log.append("thread", [*range(12)])
    popped = await log.pop("thread")
    expect_equal("the newest", (popped.position, popped.value), (positions[-1], 11))
    (new,) = await log.append("thread", 11)
    expect(new > positions[-1], "the position of a popped entry is given out again")
    found = await together(*(log.pop("thread") for _ in range(14)))
    values = sorted(one.value for one in found if one is not None)
    expect_equal("the popped values", values, [*range(12)])
    expect_equal("what is left", await _values(log), [])


@LOG_CHECKS("memalchemy.ThreadLog.replace_suffix")
async def a_suffix_is_replaced_whole(log: Any) -> None:
    """`replace_suffix` replaces all entries beyond a position, or cuts them off; if one cannot be
    stored, nothing is changed.
    """
    needs_method(log, "replace_suffix")
    positions = await log.append("thread", [*"abcd"])
    new = await log.replace_suffix("thread", positions[1], ["C", "D", "E"])
    expect_equal("the values", await _values(log), ["a", "b", "C", "D", "E"])
    expect(min(new) > positions[-1], "positions are given out again")
    work = log.replace_suffix("thread", positions[0], ["x", object()])
    await expect_error("a value that cannot be stored", work, NotSerialisable)
    expect_equal("after it was refused", await _values(log), ["a", "b", "C", "D", "E"])
    await log.replace_suffix("thread", new[0], [])
    expect_equal("after a cut", await _values(log), ["a", "b", "C"])


@LOG_CHECKS("memalchemy.ThreadLog.edit")
async def an_edit_changes_the_value_alone(log: Any) -> None:
    """`edit` changes the value of an entry, whose position, key and times stay, and tells whether
    the entry existed.
    """
    needs_method(log, "edit")
    positions = await log.append("thread", [*"abc"], keys=[*"123"])
    before = await log.tail("thread")
    expect_equal("edit", await log.edit("thread", positions[1], "B"), True)
    expect_equal("an unknown position", await log.edit("thread", 1_000, "x"), False)
    after = await log.tail("thread")
    expect_equal("the values", [one.value for one in after], ["a", "B", "c"])
    for old, new in zip(before, after, strict=True):
        kept = [(one.position, one.key, one.occurred_at, one.stored_at) for one in (old, new)]
        expect_equal("what stays", kept[1], kept[0])


@LOG_CHECKS("memalchemy.ThreadLog.remove")
async def what_is_removed_is_gone_alone(log: Any) -> None:
    """`remove` removes the entries at some positions and returns the number that existed; `clear`
    removes all, and versions go on.
    """
    needs_method(log, "remove", "clear")
    positions = await log.append("thread", [*"abcde"])
    await log.append("another", "x")
    gone = await log.remove("thread", [positions[1], positions[3], 1_000])
    expect_equal("the number", gone, 2)
    expect_equal("the values", await _values(log), ["a", "c", "e"])
    expect_equal("count", await log.count("thread"), 3)
    version = await log.version("thread")
    expect_equal("clear", await log.clear("thread"), 3)
    expect_equal("after clear", await _values(log), [])
    expect(await log.version("thread") > version, "clear did not move the version")
    (new,) = await log.append("thread", "f")
    expect(new > positions[-1], "positions are given out again")
    expect_equal("another log", await _values(log, "another"), ["x"])


@LOG_CHECKS("memalchemy.ThreadLog.delete")
async def a_deleted_log_refuses_late_writers(log: Any) -> None:
    """`delete` deletes a log and tells whether it existed. An append that expects its version is
    then refused; a plain one begins anew.
    """
    needs_method(log, "delete", "version")
    await log.append("thread", [1, 2])
    await log.append("another", "x")
    version = await log.version("thread")
    expect_equal("delete", await log.delete("thread"), True)
    expect_equal("the deleted log", await _values(log), [])
    expect_equal("its version", await log.version("thread"), 0)
    work = log.append("thread", 3, expected_version=version)
    await expect_error("a late append", work, ThreadDeleted, Conflict)
    expect_equal("after a late append", await _values(log), [])
    await log.append("thread", "new")
    expect_equal("the log, anew", await _values(log), ["new"])
    expect_equal("another log", await _values(log, "another"), ["x"])


@LOG_CHECKS("memalchemy.ThreadLog.fork")
async def a_fork_shares_nothing_with_its_source(log: Any) -> None:
    """`fork` copies a log up to a position into another thread, with positions and keys, and the
    two share nothing then. A source that does not exist is `NotFound`, a target in use a
    `Conflict`.
    """
    needs_method(log, "fork")
    positions = await log.append("thread", [*"abc"], keys=[*"123"])
    target = await log.fork("thread", positions[1], new_thread_id="fork")
    expect_equal("the id", target, "fork")
    found = [(one.position, one.key, one.value) for one in await log.tail("fork")]
    expect_equal("the copy", found, [(positions[0], "1", "a"), (positions[1], "2", "b")])
    await log.append("fork", "new")
    expect_equal("the source", await _values(log), ["a", "b", "c"])
    expect_equal("the fork", await _values(log, "fork"), ["a", "b", "new"])
    await expect_error("an unknown source", log.fork("unknown"), NotFound)
    await expect_error("a target in use", log.fork("thread", new_thread_id="fork"), Conflict)


@LOG_CHECKS("memalchemy.ThreadLog.append")
async def a_log_expires(log: Any) -> None:
    """A log that was appended to with a ``ttl=`` is not there any more when that has passed."""
    needs_parameter(log, "append", "ttl")
    ends = lifetime_end()
    await log.append("ending", 1, ttl=LIFETIME)
    await log.append("lasting", 1, ttl=1_000)
    await expect_until_end("before its end", _values(log, "ending"), [1], ends)
    expect_equal("after its end", await _values(log, "ending"), [])
    expect_equal("another", await _values(log, "lasting"), [1])
    await log.append("ending", 2)
    expect_equal("the log, anew", await _values(log, "ending"), [2])


# --- Threads and search --------------------------------------------------------------------------


@LOG_CHECKS("memalchemy.ThreadLog.list_threads")
async def threads_are_listed_by_their_last_write(log: Any) -> None:
    """Threads with an entry are listed with the one that was written last first, and found by a
    case-sensitive glob.
    """
    needs_method(log, "list_threads")
    for thread_id in ("b", "a", "Aa", "c", "b"):
        await log.append(thread_id, 1)
        await asyncio.sleep(0.002)  # the clock may be coarse
    if hasattr(log, "pop"):
        await log.append("emptied", 1)
        await log.pop("emptied")
    expect_equal("list_threads", await log.list_threads(), ["b", "c", "Aa", "a"])
    expect_equal("with a limit", await log.list_threads(2), ["b", "c"])
    expect_equal("by a glob", await log.list_threads(pattern="[Aa]?"), ["Aa"])


@LOG_CHECKS("memalchemy.ThreadLog.search")
async def search_finds_the_words_of_entries(log: Any) -> None:
    """A search finds entries by their words, whatever the case and accents, of all threads or of
    one; nothing in it is an operator, and it finds nothing that is gone.
    """
    needs_method(log, "search", "pop")
    await log.append("thread", [{"text": "Der Apfel fällt"}, {"text": "nichts"}])
    await log.append("another", {"text": "Apfel"})
    for query, thread_id, expected in (
        ("FALLT", None, {"thread"}),
        ("apfel", None, {"thread", "another"}),
        ("apfel", "another", {"another"}),
        ("fallt OR \"(*'", None, {"thread"}),
        ("unknown", None, set()),
        ('"', None, set()),
    ):
        found = await log.search(query, thread_id=thread_id)
        expect_equal(f"the threads of {query!r}", {one.thread_id for one in found}, expected)
        expect(all(0 < one.score <= 1 for one in found), "a score is not within 0 and 1")
    await log.pop("another")
    found = await log.search("apfel")
    expect_equal("after a pop", [one.thread_id for one in found], ["thread"])

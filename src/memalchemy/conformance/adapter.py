"""Checks of an adapter: of what it promises whatever framework it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from memalchemy._named_objects import load_object
from memalchemy._together import together
from memalchemy.checkpoints import Checkpointer
from memalchemy.conformance._checks import (
    ALIKE,
    SECONDS,
    Check,
    Checks,
    Skipped,
    each_interruption,
    expect,
    expect_equal,
    run_checks,
    spoil,
    subject_name,
)
from memalchemy.conformance._databases import Ground
from memalchemy.conformance._worker import nth_text
from memalchemy.conformance.report import Report
from memalchemy.conformance.subject import Subject
from memalchemy.verify import verify

ADAPTERS_PAGE = "docs/integrations/adapters.md"
PROMISES_PAGE = "docs/conformance.md#promises-of-an-adapter"

ADAPTER_CHECKS = Checks()
"""The checks of an adapter, in the order in which `check_adapter` runs them."""

KILLED_AFTER = (0, 1, 2, 5, 11)
"""Acknowledged writes after which a process is killed."""
TASKS = 8
WRITES = 4
PROCESSES = 3


async def check_adapter(
    subject: Subject[Any] | str,
    *,
    database: str | None = None,
    checks: Iterable[Check] = ADAPTER_CHECKS,
    timeout: float = SECONDS,  # noqa: ASYNC109 - of each check, not of this call
) -> Report:
    """Check what an adapter promises whatever framework it serves.

        report = await check_adapter("my_package.subjects:SESSIONS", database="postgresql://…")
        report.raise_for_failures()

    Args:
        subject: the subject, or the text that names it: ``module:ATTRIBUTE``, or
            ``module:MAPPING[key]``. With a `Subject` the checks that need other processes are
            skipped.
        database: the URL of a migrated database. Each check has a tenant of its own in it, which it
            erases at the end. Without it, each check has a new SQLite file.
        checks: those to run.
        timeout: the seconds that each may take.

    Raises:
        ValueError: the text names no subject.
    """
    name = subject if isinstance(subject, str) else None
    found = load_object(subject) if isinstance(subject, str) else subject
    if not isinstance(found, Subject):
        raise ValueError(f"a subject is a Subject, not {type(found).__name__}")
    about = name or subject_name(found.open)
    return await run_checks(about, lambda: Ground(found, name, database), checks, timeout)


# --- Reading what was written --------------------------------------------------------------------


@ADAPTER_CHECKS(PROMISES_PAGE)
async def reads_exactly_what_was_written(ground: Ground) -> None:
    """What is read of an id is what was written, character by character, whatever its size."""
    adapter = ground.adapter()
    texts = {
        "words": "Hello, world",
        "lines": " a\r\n\tb\n\n ",
        "quotes": '\'"`\\ {"a": [1]} ~b %s $1 :name ?',
        "scripts": "ä a\u0308 漢字 🙂 \u202e\u2028",
        "long": "0123456789abcdef" * 20_000,
    }
    for name, text in texts.items():
        await ground.write(adapter, name, text)
    for name, text in texts.items():
        expect_equal(f"the text of {name!r}", await ground.read(adapter, name), [text])


@ADAPTER_CHECKS(PROMISES_PAGE)
async def an_unknown_id_is_empty(ground: Ground) -> None:
    """Nothing is read of an id that nothing was written to, also after it was read."""
    adapter = ground.adapter()
    expect_equal("an unknown id", await ground.read(adapter, "unknown"), [])
    await ground.write(adapter, "known", "text")
    expect_equal("an unknown id", await ground.read(adapter, "unknown"), [])
    await ground.write(adapter, "unknown", "text")
    expect_equal("the id, once it is known", await ground.read(adapter, "unknown"), ["text"])


@ADAPTER_CHECKS(PROMISES_PAGE)
async def reads_in_the_order_of_writes(ground: Ground) -> None:
    """What was appended is read in the order in which it was written, equal texts as often as they
    were; where a write replaces, the last one is read.
    """
    adapter = ground.adapter()
    texts = ["b", "a", "a", "c", "10", "9", "b", *(f"text {n}" for n in range(12, 0, -1))]
    for count, text in enumerate(texts, start=1):
        await ground.write(adapter, "id", text)
        if count in (1, 2, 7):
            expect_equal("the texts", await ground.read(adapter, "id"), ground.seen(*texts[:count]))
    expect_equal("the texts", await ground.read(adapter, "id"), ground.seen(*texts))


@ADAPTER_CHECKS(PROMISES_PAGE)
async def a_deletion_removes_an_id_and_nothing_else(ground: Ground) -> None:
    """After an id was deleted nothing is read of it, other ids are as they were, and what is
    written under it next begins anew.
    """
    adapter = ground.adapter()
    for id_ in ("kept", "deleted", "deleted too"):
        await ground.write(adapter, id_, f"old {id_}")
    await ground.subject.delete(adapter, "deleted")
    expect_equal("the deleted id", await ground.read(adapter, "deleted"), [])
    for id_ in ("kept", "deleted too"):
        expect_equal(f"the other id {id_!r}", await ground.read(adapter, id_), [f"old {id_}"])
    await ground.write(adapter, "deleted", "new")
    expect_equal("the id that was used again", await ground.read(adapter, "deleted"), ["new"])


@ADAPTER_CHECKS(PROMISES_PAGE)
async def objects_are_the_callers_own(ground: Ground) -> None:
    """Changing an object that was written, or one that was read, changes nothing that is stored."""
    adapter = ground.adapter()
    given = await ground.write(adapter, "id", "text")
    changed = spoil(given)
    expect_equal("after what was written was changed", await ground.read(adapter, "id"), ["text"])
    if ground.subject.objects is not None:
        changed += spoil(await ground.subject.objects(adapter, "id"))
        what = "after what was read was changed"
        expect_equal(what, await ground.read(adapter, "id"), ["text"])
    if not changed:
        raise Skipped("write returns nothing that can be changed, nor does objects=")


# --- Separation ----------------------------------------------------------------------------------


@ADAPTER_CHECKS(PROMISES_PAGE)
async def ids_that_look_alike_are_separate(ground: Ground) -> None:
    """Ids that differ in case, accents, spaces or punctuation are different ids. One that the
    framework does not take is refused, and nothing is stored under it.
    """
    adapter = ground.adapter()
    taken = [id_ for id_ in ALIKE if await ground.writes_or_refuses(adapter, id_, f"of {id_}")]
    expect({"a", "A", "1", "01"} <= {*taken}, f"only the ids {taken} are taken")
    for id_ in taken:
        expect_equal(f"the id {id_!r}", await ground.read(adapter, id_), [f"of {id_}"])
    await ground.subject.delete(adapter, "a")
    for id_ in taken:
        expected = [] if id_ == "a" else [f"of {id_}"]
        what = f"the id {id_!r} after 'a' was deleted"
        expect_equal(what, await ground.read(adapter, id_), expected)


@ADAPTER_CHECKS(PROMISES_PAGE)
async def long_ids_are_separate_or_refused(ground: Ground) -> None:
    """Long ids that differ at their ends are different ids, or refused; none is cut off."""
    adapter = ground.adapter()
    for size in (100, 200, 255, 256, 1_000, 5_000):
        ids = ["x" * (size - 1) + end for end in "ab"]
        taken = [id_ for id_ in ids if await ground.writes_or_refuses(adapter, id_, id_[-1])]
        expect(len(taken) in (0, 2), f"of two ids of {size} characters one was refused")
        expect(taken or size > 100, f"ids of {size} characters are refused")
        for id_ in taken:
            what = f"an id of {size} characters that ends in {id_[-1]}"
            expect_equal(what, await ground.read(adapter, id_), [id_[-1]])


@ADAPTER_CHECKS(f"{ADAPTERS_PAGE}#where-data-is-stored")
async def namespaces_are_separate(ground: Ground) -> None:
    """The same id in two namespaces, of which one may lie in the other, means two things."""
    await _are_separate(
        ground,
        {
            "no namespace": ground.adapter(),
            "namespace a": ground.in_namespace("a"),
            "namespace a, b": ground.in_namespace("a", "b"),
            "namespace a/b": ground.in_namespace("a/b"),
            "namespace ab": ground.in_namespace("ab"),
        },
    )


@ADAPTER_CHECKS(f"{ADAPTERS_PAGE}#where-data-is-stored")
async def tenants_are_separate(ground: Ground) -> None:
    """Nobody reads, changes or deletes what another tenant has under the same id."""
    await _are_separate(
        ground, {"the tenant": ground.adapter(), "another tenant": ground.of_another_tenant()}
    )


@ADAPTER_CHECKS(f"{ADAPTERS_PAGE}#the-database")
async def databases_are_separate(ground: Ground) -> None:
    """Two adapters on two databases share nothing, in one process either."""
    await _are_separate(
        ground, {"the database": ground.adapter(), "another database": ground.on_another_database()}
    )


async def _are_separate(ground: Ground, adapters: dict[str, Any]) -> None:
    for name, adapter in adapters.items():
        expect_equal(f"{name}, before anything is written", await ground.read(adapter, "id"), [])
        await ground.write(adapter, "id", f"of {name}")
    left = dict(adapters)
    for deleted, adapter in adapters.items():
        for name, other in left.items():
            expect_equal(name, await ground.read(other, "id"), [f"of {name}"])
        await ground.subject.delete(adapter, "id")
        del left[deleted]
        expect_equal(f"{deleted}, deleted", await ground.read(adapter, "id"), [])


# --- Several objects, loops, tasks and processes -------------------------------------------------


@ADAPTER_CHECKS(f"{ADAPTERS_PAGE}#owning-and-closing")
async def construction_does_no_io(ground: Ground) -> None:
    """Making an adapter opens no database, and needs no running event loop."""
    file = Path(ground.directory, "untouched.db")
    await asyncio.to_thread(ground.subject.open, f"sqlite:///{file}")
    expect(not await asyncio.to_thread(file.exists), "the file of the database was created")


@ADAPTER_CHECKS(PROMISES_PAGE)
async def another_object_sees_every_write(ground: Ground) -> None:
    """What one adapter has written or deleted, another one on the same database sees at once: one
    that has read before, too, and one that is made later.
    """
    first, second = ground.adapter(), ground.reopened()
    expect_equal("the second object, at first", await ground.read(second, "id"), [])
    await ground.write(first, "id", "1")
    expect_equal("the second object", await ground.read(second, "id"), ["1"])
    await ground.write(second, "id", "2")
    expected = ground.seen("1", "2")
    expect_equal("the first object", await ground.read(first, "id"), expected)
    expect_equal("an object made later", await ground.read(ground.reopened(), "id"), expected)
    await ground.subject.delete(first, "id")
    expect_equal("the second object, after a deletion", await ground.read(second, "id"), [])
    await ground.write(second, "id", "3")
    expect_equal("the first object, after it began anew", await ground.read(first, "id"), ["3"])


@ADAPTER_CHECKS(PROMISES_PAGE)
async def one_object_serves_several_event_loops(ground: Ground) -> None:
    """One adapter may be used in several event loops, at the same time and one after another."""
    adapter = ground.adapter()

    async def one(id_: str) -> list[str]:
        await ground.write(adapter, id_, f"of {id_}")
        return await ground.read(adapter, id_)

    def in_a_loop_of_its_own(id_: str) -> list[str]:
        async def used() -> list[str]:
            try:
                return await one(id_)
            finally:
                await ground.close_loop()

        return asyncio.run(used())

    ids = ["here", "thread 1", "thread 2"]
    found = await together(
        one(ids[0]), *(asyncio.to_thread(in_a_loop_of_its_own, id_) for id_ in ids[1:])
    )
    expect_equal("what each loop has read", found, [[f"of {id_}"] for id_ in ids])
    for id_ in ids:
        expect_equal(f"the id {id_!r} afterwards", await ground.read(adapter, id_), [f"of {id_}"])


@ADAPTER_CHECKS(PROMISES_PAGE)
async def tasks_lose_no_write(ground: Ground) -> None:
    """Of many tasks that write under one id at once, each appends its texts once and in its order;
    where a write replaces, the one that was acknowledged last is read. Other ids stay apart.
    """
    await _many_tasks(ground, [ground.adapter()])


@ADAPTER_CHECKS(PROMISES_PAGE)
async def several_objects_lose_no_write(ground: Ground) -> None:
    """Adapters on one database, as servers have them, lose no write of each other under one id."""
    await _many_tasks(ground, [ground.adapter(), ground.reopened(), ground.reopened()])


async def _many_tasks(ground: Ground, adapters: list[Any]) -> None:
    acknowledged: list[str] = []

    async def work(task: int) -> None:
        adapter = adapters[task % len(adapters)]
        for number in range(WRITES):
            await ground.write(adapter, "shared", f"{task} {number}")
            acknowledged.append(f"{task} {number}")
            await ground.write(adapter, f"own {task}", f"{number}")

    await together(*map(work, range(TASKS)))
    for adapter in adapters:
        found = await ground.read(adapter, "shared")
        _check_order(ground, found, {str(task): WRITES for task in range(TASKS)}, str)
        for task in range(TASKS):
            expected = ground.seen(*map(str, range(WRITES)))
            expect_equal(
                f"the id of task {task}", await ground.read(adapter, f"own {task}"), expected
            )


def _check_order(ground: Ground, found: list[str], writers: dict[str, int], text: Any) -> None:
    """Check what is read after each writer wrote its number of texts at the same time."""
    expected = {who: [f"{who} {text(n)}" for n in range(count)] for who, count in writers.items()}
    if not ground.subject.appends:
        lasts = [texts[-1] for texts in expected.values()]
        expect(len(found) == 1, f"{len(found)} texts are read, where a write replaces")
        expect(found[0] in lasts, f"{found[0]!r:.60} is read, which its writer has replaced")
        return
    for who, texts in expected.items():
        of_one = [one for one in found if one.partition(" ")[0] == who]
        lost, times = {*texts} - {*of_one}, len(of_one)
        expect(not lost, f"writer {who} has lost {len(lost)} of its {len(texts)} texts")
        expect(times == len(texts), f"of writer {who} {times} texts are read, not {len(texts)}")
        expect(
            of_one == texts, f"the texts of writer {who} are not in their order: {of_one!s:.200}"
        )
    extra = len(found) - sum(writers.values())
    expect(not extra, f"{extra} texts are read that nobody has written")


@ADAPTER_CHECKS(PROMISES_PAGE)
async def processes_lose_no_write(ground: Ground) -> None:
    """Processes that write under one id at once lose no write of each other."""
    writers = [f"{who} " for who in "abc"[:PROCESSES]]
    async with ground.writers() as processes:
        async for told in processes.run("id", writers, WRITES * 3):
            if "ended" in told:
                processes.check_ended(told)
    found = await ground.read(ground.adapter(), "id")
    _check_order(ground, found, {who.strip(): WRITES * 3 for who in writers}, nth_text)


# --- Whole or absent -----------------------------------------------------------------------------


@ADAPTER_CHECKS(PROMISES_PAGE)
async def readers_see_whole_writes(ground: Ground) -> None:
    """Who reads while others write sees whole writes, in their order, and none vanish."""
    writing, reading = ground.adapter(), ground.adapter()
    texts = [nth_text(number) for number in range(16)]
    done = asyncio.Event()

    async def write() -> None:
        try:
            for text in texts:
                await ground.write(writing, "id", text)
        finally:
            done.set()

    async def read() -> None:
        most = 0
        while not done.is_set():
            found = await ground.read(reading, "id")
            if ground.subject.appends:
                expect(found == texts[: len(found)], "a reader saw texts in part, or out of order")
                count = len(found)
            else:
                expect({*found} <= {*texts}, f"a reader saw {found!s:.100}, which is not whole")
                count = texts.index(found[0]) + 1 if found else 0
            expect(count >= most, "a reader saw fewer writes than an earlier reading")
            most = count

    await together(write(), read(), read())
    expect_equal("the texts afterwards", await ground.read(reading, "id"), ground.seen(*texts))


@ADAPTER_CHECKS(PROMISES_PAGE)
async def a_cancelled_write_is_whole_or_absent(ground: Ground) -> None:
    """A write that is cancelled, at whatever point, has happened or has not; the next one works."""
    adapter = ground.adapter()
    text = "0123456789" * 2_000

    def write(number: int) -> Any:
        return ground.write(adapter, f"id {number}", f"{number} {text}")

    async with aclosing(each_interruption(write)) as tried:
        async for number, acknowledged in tried:
            found = await ground.read(adapter, f"id {number}")
            whole = [f"{number} {text}"]
            expect(
                found == whole or (found == [] and not acknowledged),
                f"after a write was cancelled {len(found)} texts are read: {found!s:.100}",
            )
            next_id = f"next {number}"
            await ground.write(adapter, next_id, "next")
            expect_equal("the next write", await ground.read(adapter, next_id), ["next"])


@ADAPTER_CHECKS(PROMISES_PAGE)
async def a_killed_process_loses_no_acknowledged_write(ground: Ground) -> None:
    """After a process was killed with SIGKILL, every write that was acknowledged to it is read,
    each is whole, and the id may be written to.
    """
    adapter = ground.adapter()
    async with ground.writers() as process:
        for enough in KILLED_AFTER:
            id_, last = f"id {enough}", -1
            async for told in process.run(id_, [""], 10_000):
                last = told.get("written", last)
                if last + 1 >= enough and "ended" not in told:
                    process.kill()
                if "ended" in told and last + 1 < enough:
                    process.check_ended(told)
            found = await ground.read(adapter, id_)
            if ground.subject.appends:
                count = len(found)
                whole = found == [nth_text(number) for number in range(count)]
            else:
                count = int(found[0].partition(":")[0]) + 1 if found else 0
                whole = not found or found == [nth_text(count - 1)]
            expect(whole, f"after a kill a text is half there, or not in order: {found!s:.100}")
            told_of = f"{last + 1} writes were acknowledged before the kill"
            expect(count > last, f"{told_of}, and {count} are there")
            await ground.write(adapter, id_, "next")
            after = await ground.read(adapter, id_)
            if after[-1:] == [nth_text(count)]:
                # A server may end the one write that the kill cut off after it took the next.
                await ground.write(adapter, id_, "next")
                after = await ground.read(adapter, id_)
            expect_equal("the text after a kill", after[-1:], ["next"])


# --- Part of memalchemy --------------------------------------------------------------------------


@ADAPTER_CHECKS(f"{ADAPTERS_PAGE}#where-data-is-stored")
async def forget_erases_what_was_written(ground: Ground) -> None:
    """`memalchemy.Checkpointer.forget` of the tenant erases all that the adapter has stored, and
    the database verifies before that.
    """
    adapter = ground.adapter()
    for text in ("1", "2"):
        await ground.write(adapter, "id", text)
    found = await verify(ground.db)
    expect(found.ok, f"verify finds: {[one.sentence for one in found.findings]}")
    erased = await Checkpointer(ground.db).forget(tenant=ground.tenant)
    expect(erased, "nothing was there to erase: the adapter stores its data elsewhere")
    expect_equal("the id, when it is forgotten", await ground.read(adapter, "id"), [])

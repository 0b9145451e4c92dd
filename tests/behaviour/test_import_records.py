"""What importers write is compared, resumable and read back, whatever kind of record it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memalchemy import Checkpointer, Corrupt, Database, Store, ThreadLog
from memalchemy.contracts import NewItem, PendingWrite
from memalchemy.importers.target import (
    ImportedEntry,
    ImportedLog,
    ImportedThread,
    ImportTarget,
    Items,
    NewCheckpoint,
    Record,
    Whole,
    WritesThere,
)
from memalchemy.inspection.writes import find_waiting

pytestmark = pytest.mark.asyncio_only("importers have no synchronous face")

LONG_AGO = datetime(2020, 5, 17, 8, 30, tzinfo=UTC)


def log(*texts: str, **options: Any) -> ImportedLog:
    entries = [
        ImportedEntry(f"k{at}", {"text": text}, LONG_AGO + timedelta(hours=at))
        for at, text in enumerate(texts)
    ]
    return ImportedLog(("imported",), "t", entries, **options)


def thread(*texts: str) -> ImportedThread:
    made = [
        NewCheckpoint(f"c{at}", {"text": text}, LONG_AGO, f"c{at - 1}" if at else None, {"n": at})
        for at, text in enumerate(texts)
    ]
    by_id = {one.checkpoint_id: one for one in made}

    async def load(checkpoint_id: str) -> NewCheckpoint | None:
        return by_id[checkpoint_id]

    return ImportedThread(("imported",), "t", [*by_id], load)


def items(*texts: str) -> Items:
    made = [
        NewItem(("imported",), f"k{at}", text, created_at=LONG_AGO, updated_at=LONG_AGO)
        for at, text in enumerate(texts)
    ]
    return Items(made, "items")


def whole(text: str) -> Whole:
    return Whole(
        "item",
        "a value",
        text,
        lambda db, _: Store(db).get(("imported",), "w"),
        lambda db, *_: Store(db).put(("imported",), "w", text),
    )


RECORDS: dict[str, Any] = {"log": log, "thread": thread, "items": items}
each_kind = pytest.mark.parametrize("make", RECORDS.values(), ids=RECORDS)


async def texts(db: Database, kind: str) -> list[Any]:
    if kind == "log":
        return [
            entry.value["text"] for entry in await ThreadLog(db, namespace=("imported",)).range("t")
        ]
    if kind == "thread":
        native = Checkpointer(db, namespace=("imported",))
        ids = await native.list_checkpoints("t", 100)
        return [(await native.load("t", one))["text"] for one in ids[::-1]]
    listed = await Store(db).list_items(("imported",))
    return [item.value for item in sorted(listed, key=lambda item: item.key)]


def kind_of(make: Any) -> str:
    return next(name for name, one in RECORDS.items() if one is make)


@each_kind
async def test_a_record_is_imported_once_and_resumed_where_an_import_stopped(
    db: Database, make: Any
) -> None:
    target = ImportTarget(db)
    first = await target.write(make("a", "b"))
    assert (first.status, first.written) == ("imported", 2)

    more = await target.write(make("a", "b", "c"))
    assert (more.status, more.written) == ("resumed", 1)
    again = await target.write(make("a", "b", "c"))
    assert (again.status, again.written) == ("unchanged", 0)
    assert await texts(db, kind_of(make)) == ["a", "b", "c"]


@each_kind
async def test_a_dry_run_says_the_same_and_writes_nothing(db: Database, make: Any) -> None:
    dry = await ImportTarget(db, dry_run=True).write(make("a", "b"))
    assert await texts(db, kind_of(make)) == []

    assert await ImportTarget(db).write(make("a", "b")) == dry


@each_kind
async def test_what_is_different_stays_unless_it_shall_be_replaced(db: Database, make: Any) -> None:
    await ImportTarget(db).write(make("a", "b"))
    other = make("a", "x")

    conflict = await ImportTarget(db).write(other)
    assert (conflict.status, conflict.written) == ("conflict", 0)
    assert conflict.problem
    skipped = await ImportTarget(db, on_conflict="skip").write(other)
    assert (skipped.status, skipped.written) == ("skipped", 0)
    assert await texts(db, kind_of(make)) == ["a", "b"]

    replaced = await ImportTarget(db, on_conflict="replace").write(other)
    assert replaced.status == "replaced"
    assert await texts(db, kind_of(make)) == ["a", "x"]


async def test_times_and_parents_are_those_of_the_source(db: Database) -> None:
    target = ImportTarget(db)
    for record in (log("a", "b"), thread("a", "b"), items("a")):
        await target.write(record)

    entries = await ThreadLog(db, namespace=("imported",)).range("t")
    assert [entry.occurred_at for entry in entries] == [LONG_AGO, LONG_AGO + timedelta(hours=1)]
    native = Checkpointer(db, namespace=("imported",))
    infos = [info async for info in native.history("t")]
    assert [(one.checkpoint_id, one.parent_id) for one in infos] == [("c1", "c0"), ("c0", None)]
    assert {one.occurred_at for one in infos} == {LONG_AGO}
    assert infos[0].metadata == {"n": 1}
    item = await Store(db).get_item(("imported",), "k0")
    assert item is not None
    assert (item.created_at, item.updated_at) == (LONG_AGO, LONG_AGO)


async def test_what_went_on_here_is_left_and_what_went_on_on_both_sides_is_a_conflict(
    db: Database,
) -> None:
    target = ImportTarget(db, on_conflict="replace")
    await target.write(log("a"))
    await target.write(thread("a"))
    await ThreadLog(db, namespace=("imported",)).append("t", {"text": "here"})
    await Checkpointer(db, namespace=("imported",)).save({"text": "here"}, "t", "ours")

    assert (await target.write(log("a"))).status == "unchanged"
    assert (await target.write(thread("a"))).status == "unchanged"
    assert await texts(db, "log") == await texts(db, "thread") == ["a", "here"]

    strict = ImportTarget(db)
    assert (await strict.write(log("a", "there"))).status == "conflict"
    assert (await strict.write(thread("a", "there"))).status == "conflict"


async def test_what_was_removed_here_is_not_written_again(db: Database) -> None:
    target, native = ImportTarget(db), Checkpointer(db, namespace=("imported",))
    await target.write(thread("a", "b", "c"))
    await native.prune("t", keep_last=1)

    again = await target.write(thread("a", "b", "c"))
    assert (again.status, again.written) == ("unchanged", 0)
    more = await target.write(thread("a", "b", "c", "d"))
    assert (more.status, more.written) == ("resumed", 1)
    assert await texts(db, "thread") == ["c", "d"]


async def test_what_the_source_has_removed_does_not_keep_new_ones_back(db: Database) -> None:
    target = ImportTarget(db)
    await target.write(thread("a", "b"))
    rest = replace(thread("a", "b", "c"), checkpoint_ids=["c1", "c2"])

    more = await target.write(rest)
    assert (more.status, more.written) == ("resumed", 1)
    assert await texts(db, "thread") == ["a", "b", "c"]

    await Checkpointer(db, namespace=("imported",)).delete("t")
    assert (await target.write(rest)).status == "imported"  # its parent is nowhere
    assert await texts(db, "thread") == ["b", "c"]


@pytest.mark.parametrize("make", [log, thread], ids=["log", "thread"])
async def test_what_cannot_be_stored_does_not_replace_half_of_what_is_there(
    db: Database, make: Any
) -> None:
    await ImportTarget(db).write(make("a", "b"))
    other = make("x", *map(str, range(600)), object())

    done = await ImportTarget(db, on_conflict="replace").write(other)

    assert (done.status, done.written) == ("bad", 0)
    assert await texts(db, kind_of(make)) == ["a", "b"]


def waiting(*writes: tuple[str, int, Any]) -> ImportedThread:
    """A thread of one checkpoint with pending writes, which are compared by their places."""
    made = [PendingWrite(task, index, "c", value) for task, index, value in writes]

    async def load(checkpoint_id: str) -> NewCheckpoint | None:
        return NewCheckpoint(checkpoint_id, {"text": "a"}, LONG_AGO, writes=made)

    def compare(there: Any, given: Any) -> WritesThere | None:
        ours = {(one.task_id, one.index): one.value for one in there}
        for one in given:
            if ours.get((one.task_id, one.index), one.value) != one.value:
                return None
        missing = [one for one in given if (one.task_id, one.index) not in ours]
        return WritesThere(missing, len(ours) + len(missing) > len(given))

    return ImportedThread(("imported",), "t", ["c0"], load, compare_writes=compare)


async def test_pending_writes_are_compared_before_they_are_written(db: Database) -> None:
    native = Checkpointer(db, namespace=("imported",))

    async def there() -> list[tuple[str, int, Any]]:
        found = await native.get_writes("t", "c0")
        return [(one.task_id, one.index, one.value) for one in found]

    one, two, other = ("t1", 0, "x"), ("t2", 0, "y"), ("t1", 0, "z")
    done = await ImportTarget(db).write(waiting(one))
    assert (done.status, done.written, done.pending_writes) == ("imported", 1, 1)
    dry = await ImportTarget(db, dry_run=True).write(waiting(one, two))
    more = await ImportTarget(db).write(waiting(one, two))
    assert dry == more
    assert (more.status, more.written, more.pending_writes) == ("resumed", 0, 1)
    assert (await ImportTarget(db).write(waiting(one))).status == "unchanged"
    for record in (waiting(other), waiting(one, ("t3", 0, "w"))):
        for target in (ImportTarget(db, dry_run=True), ImportTarget(db)):
            conflict = await target.write(record)
            assert (conflict.status, conflict.pending_writes) == ("conflict", 0)
    assert await there() == [one, two]
    replaced = await ImportTarget(db, on_conflict="replace").write(waiting(other))
    assert (replaced.status, replaced.pending_writes) == ("replaced", 1)
    assert await there() == [other]


async def test_an_imported_interrupt_with_an_answer_and_a_result_does_not_wait(
    db: Database,
) -> None:
    asked = [
        PendingWrite("task", -4, "__resume__", ["yes"]),
        PendingWrite("task", -3, "__interrupt__", [{"value": "sure?", "id": "i"}]),
    ]
    for thread_id, writes in (
        ("waits", asked),
        ("done", [*asked, PendingWrite("task", 0, "messages", "done")]),
    ):

        async def load(checkpoint_id: str, writes: Any = writes) -> NewCheckpoint:
            return NewCheckpoint(checkpoint_id, {}, LONG_AGO, writes=writes)

        await ImportTarget(db).write(ImportedThread(("imported",), thread_id, [thread_id], load))

    native = Checkpointer(db, namespace=("imported",))
    assert await find_waiting(db, [info async for info in native.history("waits")]) == {"waits"}
    assert await find_waiting(db, [info async for info in native.history("done")]) == set()


async def test_the_logs_of_a_thread_are_imported_and_left_together(db: Database) -> None:
    def both(root: ImportedThread, *below: str) -> ImportedThread:
        inner = replace(thread(*below), namespace=("imported", "inner"))
        return replace(root, below=[inner])

    inner = Checkpointer(db, namespace=("imported", "inner"))
    first = await ImportTarget(db).write(both(thread("a"), "x"))
    assert (first.status, first.written) == ("imported", 2)
    await Checkpointer(db, namespace=("imported",)).save({"text": "here"}, "t", "ours")

    conflict = await ImportTarget(db).write(both(thread("a"), "x", "y"))
    assert conflict.status == "conflict"
    assert await inner.list_checkpoints("t") == ["c0"]
    replaced = await ImportTarget(db, on_conflict="replace").write(both(thread("a"), "x", "y"))
    assert (replaced.status, replaced.written) == ("replaced", 3)
    assert await texts(db, "thread") == ["a"]
    assert await inner.list_checkpoints("t") == ["c1", "c0"]


@pytest.mark.parametrize("make", [log, thread], ids=["log", "thread"])
async def test_a_thread_has_the_times_of_what_happened_in_it(db: Database, make: Any) -> None:
    await ImportTarget(db).write(make("a", "b"))
    later = LONG_AGO + timedelta(hours=1 if make is log else 0)

    async def times() -> list[Any]:
        (info,) = await Checkpointer(db, namespace=("imported",)).list_logs()
        return [info.created_at, info.updated_at]

    assert await times() == [LONG_AGO, later]
    assert await ImportTarget(db).write(make("a", "b")) != await ImportTarget(db).write(
        make("a", "b", "c")
    )
    assert (await times())[0] == LONG_AGO
    assert (await times())[1] >= later
    await Checkpointer(db, namespace=("imported",)).vacuum(365)
    assert await Checkpointer(db, namespace=("imported",)).list_logs() == []


async def test_an_unreadable_checkpoint_does_not_make_a_conflict_of_what_went_on_here(
    db: Database,
) -> None:
    async def load(checkpoint_id: str) -> NewCheckpoint | None:
        return None if checkpoint_id == "c1" else await thread("a").load(checkpoint_id)

    record = replace(thread("a", "b"), load=load)
    await ImportTarget(db).write(record)
    await Checkpointer(db, namespace=("imported",)).save({"text": "here"}, "t", "ours")

    again = await ImportTarget(db).write(record)
    assert (again.status, again.unreadable) == ("unchanged", 1)


async def test_checkpoints_that_cannot_be_read_are_left_out_and_counted(db: Database) -> None:
    whole = thread("a", "b", "c")

    async def load(checkpoint_id: str) -> NewCheckpoint | None:
        return None if checkpoint_id == "c1" else await whole.load(checkpoint_id)

    done = await ImportTarget(db).write(replace(whole, load=load))

    assert (done.written, done.unreadable) == (2, 1)
    assert await texts(db, "thread") == ["a", "c"]


async def test_a_prefix_comes_before_thread_ids(db: Database) -> None:
    await ImportTarget(db, prefix="old/").write(log("a"))

    assert await ThreadLog(db, namespace=("imported",)).list_threads() == ["old/t"]


async def test_what_cannot_be_stored_is_bad_and_says_why(db: Database) -> None:
    record = ImportedLog(("imported",), "t", [ImportedEntry("k", object(), LONG_AGO)])
    done = await ImportTarget(db).write(record)

    assert done.status == "bad"
    assert "object" in str(done.problem)
    assert await ThreadLog(db, namespace=("imported",)).count("t") == 0


async def test_a_log_of_many_entries_is_written_in_batches_and_completed(db: Database) -> None:
    many = log(*map(str, range(1_203)))
    await ImportTarget(db).write(ImportedLog(many.namespace, "t", many.entries[:700]))

    done = await ImportTarget(db).write(many)
    assert (done.status, done.written) == ("resumed", 503)
    assert await texts(db, "log") == [str(number) for number in range(1_203)]


async def test_items_beside_a_log_are_made_of_its_positions(db: Database) -> None:
    record: Record = log(
        "a", "b", items=lambda at: [NewItem(("beside",), f"{place}", 1) for place in at]
    )
    await ImportTarget(db).write(record)

    positions = [
        entry.position for entry in await ThreadLog(db, namespace=("imported",)).range("t")
    ]
    assert await Store(db).list_keys(("beside",)) == sorted(map(str, positions))


async def test_a_whole_value_is_compared_written_and_read_back(db: Database) -> None:
    assert (await ImportTarget(db).write(whole("a"))).status == "imported"
    assert (await ImportTarget(db).write(whole("a"))).status == "unchanged"
    assert (await ImportTarget(db).write(whole("b"))).status == "conflict"
    assert await Store(db).get(("imported",), "w") == "a"
    assert (await ImportTarget(db, on_conflict="replace").write(whole("b"))).status == "replaced"


async def test_what_reads_back_as_something_else_is_corrupt(db: Database) -> None:
    here = db

    async def lossy(db: Database, _: str, __: Any) -> None:
        await Store(db).put(("imported",), "w", "half" if db is here else "all")

    record = Whole("item", "a value", "all", lambda db, _: Store(db).get(("imported",), "w"), lossy)
    with pytest.raises(Corrupt, match="a value reads back as something else"):
        await ImportTarget(db).write(record)


async def test_what_would_not_read_back_is_bad_and_not_written(db: Database) -> None:
    async def lossy(db: Database, _: str, __: Any) -> None:
        await Store(db).put(("imported",), "w", "half")

    record = Whole("item", "a value", "all", lambda db, _: Store(db).get(("imported",), "w"), lossy)
    done = await ImportTarget(db).write(record)

    assert (done.status, done.problem) == ("bad", "would read back as something else")
    assert await ImportTarget(db, dry_run=True).write(record) == done
    assert await Store(db).get(("imported",), "w") is None


def test_an_unknown_way_with_conflicts_is_refused() -> None:
    with pytest.raises(ValueError, match="on_conflict is 'error', 'skip' or 'replace'"):
        ImportTarget(Database("sqlite://"), on_conflict="merge")  # type: ignore[arg-type]


def growing(*texts: str) -> Whole:
    """A value that is read as a list, and was imported before if it begins with what is there."""

    async def write(db: Database, _: str, found: Any) -> None:
        stored = await Store(db).get_item(("imported",), "w")
        assert (stored and stored.value) == found
        await Store(db).put(("imported",), "w", [*texts])

    return Whole(
        "log",
        "a list",
        [*texts],
        lambda db, _: Store(db).get(("imported",), "w"),
        write,
        covers=lambda found: found[: len(texts)] == [*texts],
        extends=lambda found: [*texts][: len(found)] == found,
        missing=lambda found: len(texts) - len(found or ()),
    )


async def test_a_value_that_went_on_at_its_source_is_completed(db: Database) -> None:
    target = ImportTarget(db)
    first = await target.write(growing("a"))
    assert (first.status, first.written) == ("imported", 1)
    dry = await ImportTarget(db, dry_run=True).write(growing("a", "b", "c"))
    more = await target.write(growing("a", "b", "c"))
    assert dry == more
    assert (more.status, more.written) == ("resumed", 2)
    assert (await target.write(growing("a", "b"))).status == "unchanged"

    assert (await target.write(growing("a", "x"))).status == "conflict"
    replaced = await ImportTarget(db, on_conflict="replace").write(growing("a", "x"))
    assert (replaced.status, replaced.written) == ("replaced", 2)
    assert await Store(db).get(("imported",), "w") == ["a", "x"]


def renewable(text: str, at: datetime) -> Items:
    item = NewItem(("imported",), "k", text, {"by": "import"}, created_at=at, updated_at=at)
    return Items([item], "items", renewable=True)


async def test_an_item_that_an_import_wrote_gives_way_to_a_later_one(db: Database) -> None:
    target, store = ImportTarget(db), Store(db)
    day = timedelta(days=1)
    assert (await target.write(renewable("a", LONG_AGO))).status == "imported"
    assert (await target.write(renewable("b", LONG_AGO + day))).status == "imported"
    assert await store.get(("imported",), "k") == "b"
    # The same value with another time is the same: a row's time is that of all its values.
    assert (await target.write(renewable("b", LONG_AGO + 2 * day))).status == "unchanged"
    # What the source had earlier is not written over what is there.
    assert (await target.write(renewable("a", LONG_AGO))).status == "unchanged"

    await store.put(("imported",), "k", "mine")
    assert (await target.write(renewable("c", LONG_AGO + 3 * day))).status == "unchanged"
    future = renewable("c", datetime.now(UTC) + day)
    assert (await target.write(future)).status == "conflict"
    assert await store.get(("imported",), "k") == "mine"

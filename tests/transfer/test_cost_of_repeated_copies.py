"""A repeated copy costs what is new: in statements, and in rows and bytes read and written.

The cost of ten new rows is that of a copy of ten rows into an empty database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from contents import everything
from sqlalchemy import update

from memalchemy import Checkpointer, Conflict, Database, Store, ThreadLog
from memalchemy.codec.secret_keys import generate_key
from memalchemy.contracts import Retention
from memalchemy.schema import DeltaRow, StoreItemRow
from memalchemy.transfer import CopyReport, copy
from memalchemy.verify import Finding, Report, verify

NEW = 10
LONG = 2_000
TIMES = 3
"""How many times the cost of the new rows a copy of what is new may cost."""


@dataclass
class Cost:
    """What a copy has sent and received."""

    statements: int = 0
    rows: int = 0
    bytes: int = 0

    def add(self, given: Any) -> None:
        for row in given:
            self.rows += 1
            self.bytes += sum(len(v) for v in row if isinstance(v, bytes | str | memoryview))


@contextmanager
def counting(patch: pytest.MonkeyPatch) -> Iterator[Cost]:
    """Count what all databases are asked and answer, whatever road it takes."""
    cost, run = Cost(), Database.run

    async def counted(self: Database, program: Any, *args: Any, **more: Any) -> Any:
        def watched() -> Any:
            running, answer = program(), None
            while True:
                try:
                    query, binds = running.send(answer)
                except StopIteration as end:
                    return end.value
                cost.statements += 1
                if isinstance(binds, list):
                    cost.add(one.values() for one in binds)
                elif isinstance(binds, Mapping):
                    cost.bytes += sum(len(v) for v in binds.values() if isinstance(v, bytes))
                answer = yield query, binds
                cost.add(answer)

        return await run(self, watched, *args, **more)

    with patch.context() as within:
        within.setattr(Database, "run", counted)
        yield cost


def errors_of(report: Report) -> list[Finding]:
    return [one for one in report.findings if one.severity == "error"]


async def both(source: Database, target: Database) -> list[dict[str, Any]]:
    """The rows of both, but for what a database registers of its own keys."""
    found = [await everything(db) for db in (source, target)]
    for rows in found:
        rows["store_items"] = [
            row for row in rows["store_items"] if not row["namespace"].startswith("/~")
        ]
    return found


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return monkeypatch


class Files:
    """A source, a target, and a source of only the new rows with a target of its own."""

    def __init__(self, directory: Path, keys: dict[str, Any]) -> None:
        self._directory = directory
        self.keys = keys

    def open(self, name: str) -> Database:
        return Database(f"sqlite:///{self._directory}/{name}.db", **self.keys)


KEYS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "encrypted": lambda: {"keys": [generate_key()]},
    "signed": lambda: {"signing_keys": [generate_key()]},
}


@pytest.fixture(params=sorted(KEYS))
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return Files(tmp_path, KEYS[request.param]())


async def append_entries(db: Database, first: int, number: int) -> None:
    values = [f"what was said, number {n}, in some words" for n in range(first, first + number)]
    await ThreadLog(db, index_text=False).append("t", values)


async def save_states(db: Database, first: int, number: int, **settings: Any) -> None:
    saver = Checkpointer(db, index_text=False, **settings)
    for n in range(first, first + number):
        await saver.save({"messages": [f"word{m}" for m in range(n % 40)], "n": n}, "t", f"{n}")


async def save_and_replace(db: Database, first: int, number: int) -> None:
    await save_states(db, first, number)
    if first:  # a checkpoint of the part that was copied gets another place
        await Checkpointer(db, index_text=False).save({"again": 1}, "t", f"{first // 2}")


async def put_writes(db: Database, first: int, number: int) -> None:
    saver = Checkpointer(db, index_text=False)
    if not first:
        await saver.save({"n": 0}, "t", "one")
    for n in range(first, first + number):
        await saver.put_writes([("channel", n)], "t", "one", f"task{n}")


WORK = {
    "entries": append_entries,
    "states": save_states,
    "replaced states": save_and_replace,
    "writes": put_writes,
}


@pytest.mark.parametrize("work", sorted(WORK))
async def test_a_log_that_has_grown_costs_what_is_new(
    files: Files, work: str, patch: pytest.MonkeyPatch
) -> None:
    write, long = WORK[work], 300 if work != "entries" else LONG
    async with files.open("small") as source, files.open("copy of small") as target:
        await write(source, 0, NEW)
        with counting(patch) as of_new:
            await copy(source, target)
    async with files.open("source") as source, files.open("target") as target:
        await write(source, 0, long)
        await copy(source, target)
        await write(source, long, NEW)

        with counting(patch) as cost:
            report = await copy(source, target)

        assert (report.updated, report.grown, report.copied_again) == (1, 1, {})
        assert report.rows <= 2 * NEW + 4
        ours, theirs = await everything(source), await everything(target)
        assert ours["deltas"] == theirs["deltas"]
        assert ours["checkpoints"] == theirs["checkpoints"]
        assert errors_of(await verify(target)) == []
    assert cost.statements <= TIMES * of_new.statements, (cost, of_new)
    if work != "replaced states":
        assert cost.rows <= TIMES * of_new.rows, (cost, of_new)
    assert cost.bytes <= TIMES * of_new.bytes + 10_000, (cost, of_new)


async def test_a_copy_of_what_has_not_changed_asks_page_by_page(
    files: Files, patch: pytest.MonkeyPatch
) -> None:
    async with files.open("source") as source, files.open("target") as target:
        for number in range(60):
            await ThreadLog(source).append(f"t{number}", [f"entry {n}" for n in range(20)])
            await Store(source).put(("n",), f"k{number}", {"text": "a value " * 50})
        await copy(source, target)
        await ThreadLog(source).append("t7", ["one more"])
        await Store(source).put(("n",), "k7", "another")

        with counting(patch) as cost:
            report = await copy(source, target)

        assert (report.unchanged, report.updated, report.grown) == (118, 2, 1)
        assert cost.statements < 60
        assert cost.bytes < 100_000
        ours, theirs = await both(source, target)
        assert ours == theirs


async def test_retention_of_saves_needs_no_copy_of_the_whole_log(
    files: Files,
) -> None:
    async with files.open("source") as source, files.open("target") as target:
        await save_states(source, 0, 30, retention=Retention(keep_last=12, apply_every=1))
        await copy(source, target)
        await save_states(source, 30, 2, retention=Retention(keep_last=12, apply_every=1))

        report = await copy(source, target)

        ours, theirs = await both(source, target)
        assert ours == theirs
    assert report.updated == 1


async def test_the_report_says_which_logs_were_copied_as_a_whole(
    files: Files,
) -> None:
    async with files.open("source") as source, files.open("target") as target:
        for name in "abc":
            await ThreadLog(source).append(name, ["one", "two", "three"])
        await copy(source, target)
        await ThreadLog(source).edit("a", 1, "another")
        await ThreadLog(source).pop("b")
        await ThreadLog(source).append("c", ["four"])

        report = await copy(source, target)
        await ThreadLog(source).append("c", ["five"])
        rechecked = await copy(source, target, recheck=True)

        ours, theirs = await both(source, target)
        assert ours == theirs
    assert (report.updated, report.grown) == (3, 1)
    assert sum(report.copied_again.values()) == 2
    assert all("removed" in reason for reason in report.copied_again)
    assert (rechecked.grown, sum(rechecked.copied_again.values())) == (0, 1)


def forged(of: str) -> Any:
    if of == "log":
        return update(DeltaRow).where(DeltaRow.seq == 1).values(payload=b"forged")
    return update(StoreItemRow).where(StoreItemRow.key == "k").values(value=b"forged")


@pytest.mark.parametrize("of", ["log", "item"])
@pytest.mark.parametrize("grows", [True, False])
async def test_a_forged_row_of_the_target_is_found_by_verify_and_by_a_comparison_of_all(
    files: Files, of: str, grows: bool
) -> None:
    async with files.open("source") as source, files.open("target") as target:
        await ThreadLog(source).append("t", ["one", "two"])
        await Store(source).put(("n",), "k", "value")
        await copy(source, target)
        await target.run_sync(lambda connection: connection.execute(forged(of)))
        if grows:
            await ThreadLog(source).append("t", ["three"])
            await Store(source).put(("n",), "other", "value")

        report: CopyReport = await copy(source, target)

        assert report.left == 0
        assert errors_of(await verify(target))
        if of == "item" and files.keys:  # its form in the source may be another one by now
            await copy(source, target, recheck=True)
            assert errors_of(await verify(target)) == []
        else:
            with pytest.raises(Conflict, match="the target holds something else under 1 of"):
                await copy(source, target, recheck=True)


async def test_a_comparison_of_all_mends_a_log_that_has_grown(files: Files) -> None:
    async with files.open("source") as source, files.open("target") as target:
        await ThreadLog(source).append("t", ["one", "two"])
        await copy(source, target)
        await target.run_sync(lambda connection: connection.execute(forged("log")))
        await ThreadLog(source).append("t", ["three"])

        await copy(source, target, recheck=True)

        assert errors_of(await verify(target)) == []
        ours, theirs = await both(source, target)
        assert ours == theirs

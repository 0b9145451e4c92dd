"""`verify` finds damage done by hand, names it exactly, and finds none where there is none."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from memalchemy import Checkpointer, Database, Retention
from memalchemy.checkpoints.save import Saver
from memalchemy.dialects import TEXT_INDEXES
from memalchemy.verify import CODES, Finding, Report, verify
from pages import regenerates, with_rows
from rows import beside_checks, of_thread, without_checks

LENGTH = 24
T, OTHER = of_thread("t"), of_thread("other")
TOOLS = random.Random(1).randbytes(20_000).hex()
"""Outweighs what the steps add, so that no step becomes a snapshot."""


def states(length: int = LENGTH) -> list[dict[str, Any]]:
    """An agent's history, each step a message of words of its own."""
    messages: list[dict[str, str]] = []
    return [
        {"tools": TOOLS, "messages": list(messages), "step": n}
        for n in range(1, length + 1)
        if messages.append({"role": "user", "content": f"word{n} about parcel{n} {'x y z ' * n}"})
        is None
    ]


@pytest.fixture
async def alone(database_url: str) -> AsyncIterator[Database]:
    """A database of the test's own, that it may damage."""
    async with Database(database_url, migrate="off") as db:
        await db.migrate()
        yield db


@pytest.fixture
async def thread(alone: Database) -> Checkpointer:
    """Two threads: ``t``, of 24 checkpoints named c01 to c24, and ``other``, of three."""
    agent = Checkpointer(alone)
    for name, length in (("t", LENGTH), ("other", 3)):
        for n, state in enumerate(states(length), 1):
            await agent.save(state, name, f"c{n:02d}", {"step": n, "name": name})
    return agent


async def damage(db: Database, sql: str, *, checked: bool = True, **values: Any) -> None:
    """Change rows behind the library's back; unless *checked*, as no CHECK would let them be."""

    def change(connection: Connection) -> int:
        with nullcontext() if checked else without_checks(connection, "deltas"):
            return connection.execute(text(sql), values).rowcount

    assert await db.run_sync(change) != 0, "nothing was damaged"


def of(findings: Iterable[Finding]) -> list[tuple[str, str | None, str | None, int | None]]:
    return [(f.code, f.thread_id, f.checkpoint_id, f.seq) for f in findings]


def only(report: Report) -> Finding:
    (finding,) = report.findings
    assert not report.ok
    assert finding.severity == "error"
    return finding


async def test_what_is_whole_is_clean_and_all_of_it_was_read(
    alone: Database, thread: Checkpointer
) -> None:
    seen: list[tuple[int, int]] = []

    report = await verify(alone, progress=lambda done, total: seen.append((done, total)))

    assert report.ok
    assert report.findings == ()
    assert (report.logs, report.rows, report.checkpoints, report.states) == (2, 27, 27, 27)
    examined = [i for i in TEXT_INDEXES if alone.dialect.text.unindexed_rows(i) is not None]
    assert report.text_indexes == tuple(examined)
    assert seen[-1] == (27, 27)
    assert seen == sorted(seen)


async def test_a_whole_reading_reads_each_payload_once(
    alone: Database, thread: Checkpointer
) -> None:
    stored = [await thread.get_storage_stats(name) for name in ("t", "other")]

    report = await verify(alone)

    assert report.payload_bytes == sum(s["compressed_size"] for s in stored)


async def test_everything_a_user_may_do_leaves_nothing_to_find(
    alone: Database, thread: Checkpointer
) -> None:
    await thread.save({"again": 1}, "t", "c05")  # replaced, so newer than its children
    await thread.save({"again": 2}, "t", "c05")
    await thread.delete("t", "c07")
    await thread.delete("t", "c24")
    await thread.save({"branch": 1}, "t", "b1", parent_id="c03")
    await thread.save({"branch": 2}, "t", "b2", parent_id="b1")
    await thread.prune("t", keep_last=12)
    await thread.fork("t", "c20", new_thread_id="fork")
    await thread.rewrite("fork")
    await thread.copy_thread("t", "copy")
    await thread.delete("other")
    frugal = Checkpointer(alone, retention=Retention(keep_last=2), max_chain_depth=4)
    for state in states(9):
        await frugal.save(state, "frugal", ttl=1000)
    nested = Checkpointer(alone, namespace=("a", "b/c"), index_text=False)
    await nested.save({"n": 1}, "t")
    await thread.save({}, "empty", "only")
    await thread.delete("empty", "only")

    report = await verify(alone)

    assert report.ok
    assert [f.code for f in report.findings] in ([], ["unused"])


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_changed_byte_of_a_payload_is_found_with_all_that_builds_on_it(
    alone: Database, thread: Checkpointer
) -> None:
    row = f"{T} AND seq = 17"
    payload = await alone.run_sync(
        lambda c: bytes(c.execute(text(f"SELECT payload FROM deltas WHERE {row}")).scalar_one())
    )
    flipped = payload[:-1] + bytes([payload[-1] ^ 1])
    await damage(alone, f"UPDATE deltas SET payload = :p WHERE {row}", p=flipped)

    finding = only(await verify(alone))

    # At position 17 is depth 16, which depths 17 to 23 are built on.
    assert (finding.code, finding.thread_id, finding.checkpoint_id) == ("payload", "t", "c17")
    assert finding.affected == tuple(f"c{n}" for n in range(17, 25))
    assert finding.affected_count == 8
    assert finding.intact == "c16"
    assert finding.remedy == "memalchemy fork t c16 --to t-restored"
    await thread.fork("t", "c16", new_thread_id="t-restored")
    assert await thread.load("t-restored") == states()[15]
    assert (await verify(alone, thread_id="t-restored")).ok


async def test_damage_below_a_whole_newest_names_what_has_to_go(
    alone: Database, thread: Checkpointer
) -> None:
    await damage(alone, f"UPDATE deltas SET checksum = checksum - 1 WHERE {T} AND seq = 12")

    finding = only(await verify(alone))

    assert (finding.code, finding.checkpoint_id, finding.affected) == ("payload", "c12", ("c12",))
    assert finding.intact == "c24"
    assert finding.remedy == "memalchemy delete t c12"
    assert await thread.delete("t", "c12")
    assert (await verify(alone)).ok


@pytest.mark.plaintext_only("the checksum of an encrypted payload has no half that is the state's")
async def test_a_payload_of_another_state_is_told_from_a_damaged_one(
    alone: Database, thread: Checkpointer
) -> None:
    # The upper half of the checksum is the state's, the lower the payload's.
    await damage(
        alone,
        f"UPDATE deltas SET checksum = checksum - 4294967296 WHERE {T} AND seq = 12",
    )

    finding = only(await verify(alone))

    assert (finding.code, finding.checkpoint_id, finding.affected) == ("state", "c12", ("c12",))


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_wrong_base_is_found(alone: Database, thread: Checkpointer) -> None:
    await damage(alone, f"UPDATE deltas SET base_seq = 3 WHERE {T} AND seq = 24")

    finding = only(await verify(alone))

    assert (finding.code, finding.checkpoint_id, finding.seq) == ("base", "c24", 24)
    assert "at depth 23 its base is at depth 22; 3 is at depth 2" in finding.sentence
    assert finding.affected == ("c24",)
    assert finding.intact == "c23"


@pytest.mark.unsigned_only("it changes rows by hand")
@pytest.mark.parametrize("base", [24, 30])
async def test_a_base_that_is_not_earlier_is_found(
    base: int, alone: Database, thread: Checkpointer
) -> None:
    await damage(
        alone, f"UPDATE deltas SET base_seq = :b WHERE {T} AND seq = 24", b=base, checked=False
    )

    (finding,) = beside_checks(await verify(alone))

    assert (finding.code, finding.seq, finding.affected) == ("base", 24, ("c24",))


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_base_on_another_branch_is_found_by_the_state_it_rebuilds(
    alone: Database, thread: Checkpointer
) -> None:
    for n, (name, parent) in enumerate(
        [("a1", None), ("a2", None), ("x", "a2"), ("y", "a2"), ("z", "y")]
    ):
        await thread.save(states(n + 1)[-1], "b", name, parent_id=parent)
    await damage(alone, f"UPDATE deltas SET base_seq = 3 WHERE {of_thread('b')} AND base_seq = 4")

    finding = only(await verify(alone))

    assert (finding.code, finding.checkpoint_id, finding.affected) == ("state", "z", ("z",))


async def test_a_missing_base_is_found_with_its_name_and_what_needs_it(
    alone: Database, thread: Checkpointer
) -> None:
    await damage(alone, f"DELETE FROM deltas WHERE {T} AND seq = 23")

    finding = only(await verify(alone))

    assert (finding.code, finding.checkpoint_id, finding.seq) == ("state-missing", "c23", 23)
    assert set(finding.affected) == {"c23", "c24"}
    assert finding.intact == "c22"


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_wrong_depth_that_loads_all_the_same_is_no_loss(
    alone: Database, thread: Checkpointer
) -> None:
    await damage(alone, f"UPDATE deltas SET depth = 99 WHERE {T} AND seq = 24")

    finding = only(await verify(alone))

    assert (finding.code, finding.checkpoint_id, finding.affected) == ("depth", "c24", ())


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_wrong_head_is_found(alone: Database, thread: Checkpointer) -> None:
    await damage(alone, "UPDATE threads SET head_id = 'c09' WHERE thread_id = 't'")

    finding = only(await verify(alone))

    assert (finding.code, finding.thread_id, finding.checkpoint_id) == ("head", "t", "c09")
    assert "'c09'" in finding.sentence
    assert "'c24'" in finding.sentence
    await thread.save({"step": 25}, "t", "c25", parent_id="c24")  # as the remedy says
    assert (await verify(alone)).ok


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_next_position_that_is_taken_is_found(
    alone: Database, thread: Checkpointer
) -> None:
    await damage(alone, "UPDATE threads SET next_seq = 20 WHERE thread_id = 't'")

    finding = only(await verify(alone))

    assert (finding.code, finding.seq) == ("position", 24)
    assert finding.remedy == "memalchemy fork t c24 --to t-restored"
    await thread.fork("t", "c24", new_thread_id="t-restored")
    await thread.save({"step": 25}, "t-restored")
    assert (await verify(alone, thread_id="t-restored")).ok


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_cycle_of_parents_is_found(alone: Database, thread: Checkpointer) -> None:
    await damage(
        alone,
        f"UPDATE checkpoints SET parent_id = 'c06' WHERE {T} AND checkpoint_id = 'c04'",
    )

    finding = only(await verify(alone))

    assert (finding.code, finding.checkpoint_id, finding.seq) == ("cycle", "c04", 4)
    assert "over 3 checkpoints" in finding.sentence


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_checkpoint_that_is_its_own_parent_is_found(
    alone: Database, thread: Checkpointer
) -> None:
    await damage(alone, f"UPDATE checkpoints SET parent_id = 'c04' WHERE {T} AND seq = 4")

    assert of((await verify(alone)).findings) == [("parent", "t", "c04", 4)]


async def test_a_name_that_is_used_again_makes_a_cycle_that_is_no_damage(
    alone: Database, thread: Checkpointer
) -> None:
    await thread.delete("other", "c01")
    await thread.save({"step": 4}, "other", "c01")

    report = await verify(alone)

    assert report.ok
    (note,) = report.findings
    assert (note.code, note.severity, note.checkpoint_id) == ("cycle", "note", "c02")


async def test_sizes_that_do_not_agree_are_found(alone: Database, thread: Checkpointer) -> None:
    await damage(alone, f"UPDATE checkpoints SET stored_size = 1 WHERE {T} AND seq = 4")
    await damage(alone, f"UPDATE checkpoints SET raw_size = 2 WHERE {T} AND seq = 5")

    found = of((await verify(alone)).findings)

    assert found == [("size", "t", "c04", 4), ("size", "t", "c05", 5)]


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_what_this_release_does_not_know_is_a_finding(
    alone: Database, thread: Checkpointer
) -> None:
    await damage(alone, f"UPDATE deltas SET codec = 'later9' WHERE {T} AND seq = 24")
    await damage(
        alone, f"UPDATE deltas SET kind = 'dream' WHERE {OTHER} AND seq = 3", checked=False
    )

    found = of(beside_checks(await verify(alone)))

    assert found == [("kind", "other", "c03", 3), ("codec", "t", "c24", 24)]


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_rows_of_a_deleted_thread_are_found(alone: Database, thread: Checkpointer) -> None:
    await damage(alone, "UPDATE threads SET deleted_at = created_at WHERE thread_id = 'other'")

    assert of((await verify(alone)).findings) == [("tombstone", "other", None, None)]


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_garbage_is_a_note(alone: Database, thread: Checkpointer) -> None:
    await damage(alone, f"DELETE FROM checkpoints WHERE {T} AND seq = 12")

    report = await verify(alone)

    assert report.ok
    assert [(f.code, f.severity) for f in report.findings] == [("unused", "note")]
    assert report.findings[0].sentence.startswith("1 state has no name")


async def test_a_sample_reads_no_more_than_was_asked_for(
    alone: Database, thread: Checkpointer
) -> None:
    whole = await verify(alone)

    few = await verify(alone, sample=2)
    third = await verify(alone, sample=1 / 3)
    all_of_it = await verify(alone, sample=1000)

    assert few.ok
    assert few.sampled
    assert few.states == few.rows == 2
    assert third.states == 9
    assert all_of_it.states == whole.states
    # Each with its chain, of at most five links here.
    assert 0 < few.payload_bytes < whole.payload_bytes


async def test_a_sample_finds_what_it_reads(alone: Database, thread: Checkpointer) -> None:
    await damage(alone, f"UPDATE deltas SET checksum = checksum - 1 WHERE {T} AND seq = 1")

    found = await verify(alone, sample=26)

    (finding,) = [f for f in found.findings if f.code == "payload"]
    assert (finding.thread_id, finding.checkpoint_id, finding.seq) == ("t", "c01", 1)
    assert finding.remedy == "memalchemy verify --thread t"


async def test_one_thread_and_all_tenants(alone: Database, thread: Checkpointer) -> None:
    acme = Checkpointer(alone.for_tenant("acme"))
    await acme.save({"step": 1}, "theirs", "one")
    await damage(alone, f"UPDATE checkpoints SET raw_size = 1 WHERE {of_thread('theirs')}")
    await damage(alone, f"UPDATE checkpoints SET raw_size = 1 WHERE {OTHER} AND seq = 1")

    assert of((await verify(alone)).findings) == [("size", "other", "c01", 1)]
    assert (await verify(alone, thread_id="t")).ok
    everywhere = await verify(alone, all_tenants=True)
    assert [(f.tenant, f.thread_id) for f in everywhere.findings] == [
        ("acme", "theirs"),
        ("default", "other"),
    ]


@pytest.mark.parametrize("sample", [0, -1, 1.0, 0.0, 1.5, True])
async def test_a_sample_that_makes_no_sense_is_refused(alone: Database, sample: float) -> None:
    with pytest.raises(ValueError, match="sample is"):
        await verify(alone, sample=sample)


ENOUGH = 400
"""States that are verified while others save and delete."""


async def test_savers_and_deleters_meanwhile_make_no_finding(
    db: Database, reopen: Callable[[], Database]
) -> None:
    threads = [f"t{n}" for n in range(3)]
    verified = 0

    def goes_on() -> bool:
        return verified < ENOUGH

    async def save(agent: Checkpointer, seed: int) -> None:
        draw, messages = random.Random(seed), [{"content": f"hello {seed}"}]
        while goes_on():
            messages = [*messages[-20:], {"content": f"step {draw.random()}"}]
            name = f"n{draw.randrange(30)}" if draw.random() < 0.3 else None
            await agent.save(
                {"messages": messages}, draw.choice(threads), name, {"at": draw.random()}
            )

    async def delete(agent: Checkpointer, seed: int) -> None:
        draw = random.Random(seed)
        while goes_on():
            thread = draw.choice(threads)
            what = draw.random()
            if what < 0.05:
                await agent.delete(thread)
            elif what < 0.1:
                await agent.forget(thread_id=thread)
            elif what < 0.2:
                await agent.rewrite(thread)
            elif what < 0.3:
                await agent.prune(thread, keep_last=10)
            else:
                for info in [i async for i in agent.history(thread, limit=3)][-1:]:
                    await agent.delete(thread, info.checkpoint_id)
            await asyncio.sleep(0)

    async def look(other: Database) -> None:
        nonlocal verified
        while goes_on():
            report = await verify(other)
            assert report.ok, report.findings
            verified += report.states
            assert (await verify(other, sample=10)).ok

    async with reopen() as one, reopen() as two:
        frugal = Checkpointer(one, retention=Retention(keep_last=15), max_chain_depth=8)
        async with asyncio.TaskGroup() as together:
            for work in (
                save(Checkpointer(db), 1),
                save(frugal, 2),
                save(Checkpointer(two), 3),
                delete(Checkpointer(one), 4),
                look(two),
            ):
                together.create_task(work)

    assert (await verify(db)).ok


async def test_a_rewrite_before_the_sweep_of_a_save_is_not_taken_for_the_sweeps_own_epoch(
    alone: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Checkpointer(alone, retention=Retention(keep_last=50), max_chain_depth=1)
    sweep = Saver._sweep

    async def late(self: Saver, *arguments: Any) -> None:
        await Checkpointer(alone).rewrite("t")  # the newest snapshot becomes a delta
        await sweep(self, *arguments)

    monkeypatch.setattr(Saver, "_sweep", late)
    for state in states(4):
        await agent.save(state, "t")

    assert (await verify(alone)).findings == ()


def test_the_documentation_has_every_code_and_no_other() -> None:
    page = Path(__file__).parents[2] / "docs" / "verify.md"
    written = with_rows(page.read_text(), "| code |", [(f"`{code}`",) for code in CODES])
    if regenerates():
        page.write_text(written)

    assert page.read_text() == written
    assert "` |  |" not in written, "a code lacks a sentence"

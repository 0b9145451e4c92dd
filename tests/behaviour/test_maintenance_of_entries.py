"""Whatever goes through logs knows entries: verify, vacuum, forget, export, copies, statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, update

import memalchemy
from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.keys import log_key
from memalchemy.schema import DeltaRow, ThreadRow
from memalchemy.space import measure
from memalchemy.verify import verify

MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]


@pytest.fixture
def log(db: Database) -> ThreadLog:
    return memalchemy.ThreadLog(db)


async def idle(db: Database, thread_id: str, days: int) -> None:
    """Make a thread look as if nobody had written to it for so long."""
    then = datetime.now(UTC) - timedelta(days=days)
    whose = (ThreadRow.tenant == db.tenant, ThreadRow.thread_id == thread_id)
    old = update(ThreadRow).where(*whose).values(updated_at=then)
    await db.run_sync(lambda connection: connection.execute(old))


async def test_verify_reads_entries(db: Database, log: ThreadLog) -> None:
    await log.append("t", MESSAGES)
    await log.pop("t")

    report = await verify(db)

    assert report.ok
    assert report.entries == 1
    assert not [finding for finding in report.findings if finding.code == "unchecked"]


@pytest.mark.unsigned_only("it changes rows by hand")
@pytest.mark.parametrize(
    ("changed", "code"), [({"checksum": 7}, "payload"), ({"codec": "zfuture9"}, "codec")]
)
async def test_verify_names_a_damaged_entry_and_what_can_be_done(
    db: Database, log: ThreadLog, changed: dict[str, Any], code: str
) -> None:
    await log.append("t", MESSAGES)
    damage = (
        update(DeltaRow)
        .where(DeltaRow.log_id == log_key(db.tenant, "t", "/log/"), DeltaRow.seq == 2)
        .values(**changed)
    )
    await db.run_sync(lambda connection: connection.execute(damage))

    report = await verify(db, thread_id="t")

    [finding] = [finding for finding in report.findings if finding.severity == "error"]
    assert (finding.code, finding.seq, finding.thread_id) == (code, 2, "t")
    assert finding.remedy == "ThreadLog(db, namespace=('log',)).edit('t', 2, value)"
    assert report.entries == 1


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_verify_sees_a_position_that_would_be_given_out_twice(
    db: Database, log: ThreadLog
) -> None:
    await log.append("t", MESSAGES)
    back = update(ThreadRow).where(ThreadRow.tenant == db.tenant).values(next_seq=2)
    await db.run_sync(lambda connection: connection.execute(back))

    report = await verify(db)

    assert [finding.code for finding in report.findings] == ["position"]


@pytest.mark.unsigned_only("it ages logs without the key")
async def test_vacuum_removes_idle_logs_and_counts_their_entries(
    db: Database, log: ThreadLog, checkpointer: Checkpointer
) -> None:
    await log.append("old", MESSAGES)
    await log.append("new", MESSAGES)
    await checkpointer.save({"n": 1}, "old")
    await idle(db, "old", 40)

    assert await checkpointer.vacuum(30, all_namespaces=True, dry_run=True) == 3
    assert await checkpointer.vacuum(30, all_namespaces=True) == 3

    assert await log.tail("old") == []
    assert len(await log.tail("new")) == 2


async def test_vacuum_removes_expired_logs(log: ThreadLog, checkpointer: Checkpointer) -> None:
    await log.append("t", MESSAGES, ttl=MOMENT)

    assert await checkpointer.vacuum(None, all_namespaces=True) == 2


async def test_prune_and_rewrite_leave_entries_alone(
    db: Database, checkpointer: Checkpointer
) -> None:
    log = memalchemy.ThreadLog(db, namespace=())
    for n in range(12):
        await checkpointer.save({"n": n, "all": [str(m) for m in range(50 + n)]}, "t")
        await log.append("t", n)

    assert await checkpointer.prune("t", keep_last=2) == 10
    await checkpointer.rewrite("t")

    assert [entry.value for entry in await log.range("t")] == list(range(12))
    assert (await verify(db)).ok


async def test_forget_erases_entries_and_export_writes_the_same(
    log: ThreadLog, checkpointer: Checkpointer
) -> None:
    await checkpointer.save({"n": 1}, "t", "one", metadata={"customer": 42})
    await log.append("t", [b"\x00", *MESSAGES], keys=["k", None, None])
    await log.append("u", MESSAGES)

    exported = [record async for record in checkpointer.export(thread_id="t")]
    by_metadata = [record async for record in checkpointer.export(metadata={"customer": 42})]

    assert exported == by_metadata
    assert [record.get("position") for record in exported] == [None, 1, 2, 3]
    assert exported[1]["value"] == {"~b": "AA=="}
    assert exported[1]["namespace"] == ["log"]
    assert (exported[1]["key"], exported[2]["value"]) == ("k", MESSAGES[0])
    assert await checkpointer.forget(metadata={"customer": 42}) == 4
    assert await log.tail("t") == []
    assert await log.search("hello", thread_id="t") == []
    assert len(await log.tail("u")) == 2


async def test_a_whole_tenant_is_exported_page_by_page_and_erased(
    db: Database, log: ThreadLog, checkpointer: Checkpointer
) -> None:
    await log.append("t", list(range(1100)))

    exported = [record["value"] async for record in checkpointer.export(tenant=db.tenant)]

    assert exported == list(range(1100))
    assert await checkpointer.forget(tenant=db.tenant) == 1100
    assert await log.version("t") == 0


async def test_a_copied_thread_has_its_entries_and_their_keys(
    log: ThreadLog, checkpointer: Checkpointer
) -> None:
    await log.append("t", MESSAGES, keys=["a", "b"])

    assert await checkpointer.copy_thread("t", "copy") is True

    assert await log.range("copy") == await log.range("t")
    assert await log.append("copy", "again", keys="b") == [2]


async def test_statistics_count_entries(
    db: Database, log: ThreadLog, checkpointer: Checkpointer
) -> None:
    await log.append("talk", MESSAGES)
    await checkpointer.save({"n": 1}, "state")
    await log.append("emptied", "x")
    await log.clear("emptied")

    space = await measure(db)

    assert space.threads == 2
    kinds = {kind.name: kind.rows for kind in space.kinds}
    assert kinds["entry"] == 2
    assert {(share.thread_id, share.namespace) for share in space.largest} >= {("talk", ("log",))}


async def test_a_log_without_checkpoints_is_no_thread_of_the_checkpointers(
    db: Database, checkpointer: Checkpointer
) -> None:
    log = memalchemy.ThreadLog(db, namespace=())
    await log.append("t", "x")

    assert await checkpointer.list_threads() == []
    assert await checkpointer.exists("t") is False
    assert await checkpointer.load("t") is None
    assert await checkpointer.search("x") == []
    await checkpointer.save({"n": 1}, "t", expected_parent=None)
    assert await checkpointer.list_threads() == ["t"]


async def test_entries_go_when_a_host_deletes_the_row_of_their_thread(
    db: Database, log: ThreadLog
) -> None:
    await log.append("t", MESSAGES)

    gone = delete(ThreadRow).where(ThreadRow.tenant == db.tenant)
    await db.run_sync(lambda connection: connection.execute(gone))

    assert await log.tail("t") == []
    assert await log.append("t", "anew") == [1]

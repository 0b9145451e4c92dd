"""Entries of logs live on in the copy: in order, with keys, times and words."""

from __future__ import annotations

from datetime import UTC, datetime

from memalchemy import Database, ThreadLog
from memalchemy.transfer import copy

LONG_AGO = datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


async def test_a_copied_log_is_read_searched_and_appended_to(
    source: Database, target: Database
) -> None:
    here, there = ThreadLog(source), ThreadLog(target)
    await here.append("t", [{"content": "café"}, (1, b"\x00"), "gone"], keys=["a", None, "\x00"])
    await here.pop("t")
    await here.append("t", "late", occurred_at=LONG_AGO)

    report = await copy(source, target)

    assert report.new == 1
    assert await there.range("t") == await here.range("t")
    assert await there.version("t") == await here.version("t")
    assert [hit.position for hit in await there.search("cafe")] == [1]
    assert await there.append("t", ["x", "y"], keys=["a", "b"]) == [1, 5]


async def test_what_was_taken_back_at_the_source_is_taken_back_in_the_copy(
    source: Database, target: Database
) -> None:
    here, there = ThreadLog(source), ThreadLog(target)
    await here.append("t", ["a", "b"])
    await copy(source, target)
    await here.pop("t")
    await here.edit("t", 1, "A")

    report = await copy(source, target)

    assert report.updated == 1
    assert [entry.value for entry in await there.range("t")] == ["A"]

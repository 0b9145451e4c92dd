"""What a log of entries guarantees, on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import delete, update

import memalchemy
from lifetimes import MOMENT
from memalchemy import (
    Checkpointer,
    Conflict,
    Corrupt,
    Database,
    Entry,
    NotFound,
    NotSerialisable,
    ThreadDeleted,
    ThreadLog,
    TooLarge,
)
from memalchemy.events import Event, subscribe
from memalchemy.keys import log_key
from memalchemy.schema import DeltaRow, ThreadRow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def log(db: Database) -> ThreadLog:
    return memalchemy.ThreadLog(db)


def values(entries: list[Entry]) -> list[Any]:
    return [entry.value for entry in entries]


async def test_entries_come_back_in_order_equal_and_of_the_same_types(log: ThreadLog) -> None:
    given = [
        {"role": "user", "content": "café\ud800"},
        (1, {2}),
        b"\x00",
        Decimal("1.10"),
        None,
        NOON,
    ]

    positions = await log.append("t", given)

    assert positions == [1, 2, 3, 4, 5, 6]
    found = await log.tail("t")
    assert values(found) == given
    assert [type(value) for value in values(found)] == [type(value) for value in given]
    assert [entry.position for entry in found] == positions


async def test_nothing_is_appended_by_an_empty_list(log: ThreadLog) -> None:
    assert await log.append("t", []) == []
    assert await log.version("t") == 0
    assert await log.tail("t") == []


async def test_a_log_that_is_not_there_is_empty_and_at_version_zero(log: ThreadLog) -> None:
    assert await log.version("none") == 0
    assert await log.count("none") == 0
    assert await log.range("none") == []
    assert await log.pop("none") is None
    assert await log.clear("none") == 0
    assert await log.edit("none", 1, "x") is False
    assert await log.delete("none") is False


async def test_an_entry_whose_key_is_there_is_not_appended_again(log: ThreadLog) -> None:
    first = await log.append("t", ["a", "b"], keys=["ka", "kb"])

    again = await log.append("t", ["A", "c", "d", "C"], keys=["ka", "kc", None, "kc"])

    assert first == [1, 2]
    assert again == [1, 3, 4, 3]
    assert [(e.key, e.value) for e in await log.tail("t")] == [
        ("ka", "a"),
        ("kb", "b"),
        ("kc", "c"),
        (None, "d"),
    ]


async def test_an_append_of_new_keys_is_refused_if_one_of_them_is_known(log: ThreadLog) -> None:
    assert await log.append("t", ["a", "b"], keys=["ka", "kb"], new_keys=True) == [1, 2]
    version = await log.version("t")
    for keys in (["kc", "kb"], ["kc", "kc"], [None, "ka"]):
        with pytest.raises(Conflict, match="key"):
            await log.append("t", ["c", "d"], keys=keys, new_keys=True)
    assert [entry.value for entry in await log.range("t")] == ["a", "b"]
    assert await log.version("t") == version
    assert await log.append("t", ["c", "d"], keys=["kc", None], new_keys=True) == [3, 4]


async def test_of_appends_of_one_new_key_at_once_one_is_stored(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        logs = [ThreadLog(db), ThreadLog(other)]
        done = await asyncio.gather(
            *(logs[n % 2].append("t", n, keys="k", new_keys=True) for n in range(8)),
            return_exceptions=True,
        )
        (entry,) = await logs[0].range("t")
    assert [type(one) for one in done if one != [entry.position]] == [Conflict] * 7
    assert done[entry.value] == [entry.position]


async def test_an_append_of_what_is_there_changes_nothing(log: ThreadLog) -> None:
    await log.append("t", "a", keys="k")
    before = await log.version("t")

    assert await log.append("t", "a", keys="k") == [1]
    assert await log.version("t") == before


async def test_a_key_is_of_its_log_alone_and_free_again_when_its_entry_goes(
    db: Database, log: ThreadLog
) -> None:
    other = memalchemy.ThreadLog(db, namespace=("other",))
    assert await log.append("t", "a", keys="k") == [1]
    assert await log.append("u", "b", keys="k") == [1]
    assert await other.append("t", "c", keys="k") == [1]

    await log.pop("t")

    assert await log.append("t", "d", keys="k") == [2]


@pytest.mark.parametrize("key", ["", "\x00", "\ud800", "ключ", "k" * 128])
async def test_any_text_can_be_a_key(log: ThreadLog, key: str) -> None:
    await log.append("t", ["x"], keys=[key])

    assert await log.append(
        "t", ["y", "z"], keys=[key, key + "2" if len(key) < 99 else "other"]
    ) == [1, 2]
    assert (await log.tail("t"))[0].key == key


async def test_many_keys_at_once_are_all_looked_up(log: ThreadLog) -> None:
    keys = [f"key-{n}" for n in range(1200)]
    await log.append("t", list(range(1200)), keys=keys)

    positions = await log.append("t", list(range(1200)), keys=list(reversed(keys)))

    assert positions == list(range(1200, 0, -1))
    assert await log.count("t") == 1200


async def test_what_cannot_be_appended_leaves_nothing(log: ThreadLog) -> None:
    with pytest.raises(NotSerialisable):
        await log.append("t", ["fine", object()])
    with pytest.raises(TooLarge):
        await log.append("t", ["fine", b"x" * (64 * 1024 * 1024)])
    with pytest.raises(TooLarge):
        await log.append("t", "x", keys="k" * 129)
    with pytest.raises(ValueError, match="one for each"):
        await log.append("t", ["a", "b"], keys=["k"])
    with pytest.raises(ValueError, match="aware"):
        await log.append("t", "a", occurred_at=datetime(2026, 1, 1))
    with pytest.raises(TypeError):
        await log.append("t", "a", expected_version="1")  # type: ignore[arg-type]

    assert await log.version("t") == 0


ENDS_OF_TIME = [
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))),
]


@pytest.mark.parametrize("time", ENDS_OF_TIME, ids=str)
async def test_a_time_that_a_database_cannot_give_back_is_refused(
    log: ThreadLog, checkpointer: Checkpointer, time: datetime
) -> None:
    with pytest.raises(ValueError, match="between the years 1 and 9999"):
        await log.append("t", "a", occurred_at=time)
    with pytest.raises(ValueError, match="between the years 1 and 9999"):
        await checkpointer.save({}, "t", occurred_at=time)

    assert await log.tail("t", 9) == []
    assert await checkpointer.load("t") is None


@pytest.mark.parametrize("ago", [timedelta(microseconds=1), timedelta(days=1)], ids=str)
async def test_the_times_beside_those_come_back_equal(log: ThreadLog, ago: timedelta) -> None:
    for time in (ENDS_OF_TIME[0] + ago, ENDS_OF_TIME[1] - ago):
        await log.append("t", "a", occurred_at=time)
        assert (await log.tail("t", 1))[0].occurred_at == time


async def test_an_append_at_another_version_than_expected_is_a_conflict(log: ThreadLog) -> None:
    assert await log.append("t", "a", expected_version=0) == [1]
    version = await log.version("t")
    await log.append("t", "b")

    for keys in (None, "k"):
        with pytest.raises(Conflict) as refused:
            await log.append("t", "c", keys=keys, expected_version=version)
        assert (refused.value.expected, refused.value.current) == (version, version + 1)
        with pytest.raises(Conflict) as there:
            await log.append("t", "c", keys=keys, expected_version=0)
        assert there.value.current == version + 1
        with pytest.raises(Conflict) as missing:
            await log.append("none", "c", keys=keys, expected_version=3)
        assert missing.value.current == 0
    for work in (
        lambda: log.pop("t", expected_version=version),
        lambda: log.clear("t", expected_version=version),
        lambda: log.edit("t", 1, "x", expected_version=version),
        lambda: log.replace_suffix("t", 0, ["x"], expected_version=version),
    ):
        with pytest.raises(Conflict):
            await work()

    assert values(await log.tail("t")) == ["a", "b"]
    assert await log.append("t", "c", keys="k", expected_version=version + 1) == [3]


async def test_pop_takes_the_newest_and_its_position_is_not_given_out_again(log: ThreadLog) -> None:
    await log.append("t", ["a", "b"])

    popped = await log.pop("t")

    assert popped is not None
    assert (popped.position, popped.value) == (2, "b")
    assert await log.append("t", "c") == [3]
    assert values(await log.tail("t")) == ["a", "c"]


async def test_appends_at_once_lose_nothing_and_stay_together(log: ThreadLog) -> None:
    batches = [[f"{writer}-{n}" for n in range(3)] for writer in range(20)]

    positions = await asyncio.gather(*(log.append("t", batch) for batch in batches))

    found = {entry.position: entry.value for entry in await log.tail("t", 1000)}
    assert sorted(found) == list(range(1, 61))
    for batch, taken in zip(batches, positions, strict=True):
        assert [found[position] for position in taken] == batch
        assert taken == list(range(taken[0], taken[0] + 3))


async def test_a_suffix_is_replaced_whole(log: ThreadLog) -> None:
    await log.append("t", ["a", "b", "c"], keys=["ka", "kb", "kc"])

    positions = await log.replace_suffix("t", 1, ["B", "C"], keys=["kb", "ka"])

    assert positions == [4, 1]
    assert values(await log.tail("t")) == ["a", "B"]
    assert await log.replace_suffix("t", 0, ["new"]) == [5]
    assert await log.replace_suffix("t", 0, []) == []
    assert await log.tail("t") == []
    assert await log.replace_suffix("fresh", 0, ["x"], expected_version=0) == [1]


async def test_edit_changes_the_value_and_nothing_else(log: ThreadLog) -> None:
    await log.append("t", ["old words", "b"], keys=["k", None], occurred_at=NOON)
    before = (await log.tail("t"))[0]

    assert await log.edit("t", 1, {"new": "text"}) is True
    assert await log.edit("t", 9, "x") is False

    after = (await log.tail("t"))[0]
    assert after.value == {"new": "text"}
    assert (after.position, after.key, after.occurred_at, after.stored_at) == (
        before.position,
        before.key,
        before.occurred_at,
        before.stored_at,
    )
    assert await log.search("old") == []
    assert [hit.position for hit in await log.search("text")] == [1]


async def test_clear_empties_the_log_and_its_versions_go_on(log: ThreadLog) -> None:
    await log.append("t", ["a", "b"])
    version = await log.version("t")

    assert await log.clear("t") == 2
    assert await log.clear("t") == 0

    assert await log.version("t") == version + 1
    assert await log.append("t", "c") == [3]


async def test_a_reader_reads_only_what_is_new(log: ThreadLog) -> None:
    await log.append("t", ["a", "b"])
    seen = await log.read("t")
    await log.append("t", ["c"])

    news = await log.read("t", seen)
    nothing = await log.read("t", news)

    assert (values(seen.entries), seen.complete, seen.version) == (["a", "b"], True, 1)
    assert (values(news.entries), news.complete, news.position) == (["c"], False, 3)
    assert (nothing.entries, nothing.complete, nothing.position) == ([], False, 3)


@pytest.mark.parametrize("change", ["pop", "edit", "clear", "replace", "delete", "again"])
async def test_a_reader_reads_everything_again_when_something_was_taken_back(
    log: ThreadLog, change: str
) -> None:
    await log.append("t", ["a", "b"])
    seen = await log.read("t")
    match change:
        case "pop":
            await log.pop("t")
        case "edit":
            await log.edit("t", 1, "A")
        case "clear":
            await log.clear("t")
        case "replace":
            await log.replace_suffix("t", 1, ["B"])
        case "delete":
            await log.delete("t")
        case "again":
            await log.delete("t")
            await log.append("t", "anew")

    news = await log.read("t", seen)

    assert news.complete
    assert news.entries == await log.range("t")


async def test_a_fork_shares_nothing_with_its_original(log: ThreadLog) -> None:
    await log.append("t", ["a", "b", "c"], keys=["ka", None, None], occurred_at=NOON)

    fork = await log.fork("t", 2)
    await log.append(fork, "d", keys="ka2")
    await log.pop("t")

    assert fork.startswith("t-fork-")
    assert [(e.position, e.value) for e in await log.range(fork)] == [(1, "a"), (2, "b"), (3, "d")]
    assert (await log.range(fork))[0].key == "ka"
    assert values(await log.range("t")) == ["a", "b"]
    assert await log.fork("t", new_thread_id="whole") == "whole"
    assert values(await log.range("whole")) == ["a", "b"]


async def test_a_fork_needs_an_entry_and_an_empty_place(log: ThreadLog) -> None:
    await log.append("t", ["a"])
    await log.append("u", ["b"])

    with pytest.raises(NotFound):
        await log.fork("t", 7)
    with pytest.raises(NotFound):
        await log.fork("none")
    with pytest.raises(Conflict):
        await log.fork("t", new_thread_id="u")
    with pytest.raises(ValueError, match="of its own"):
        await log.fork("t", new_thread_id="t")


async def test_a_deleted_log_refuses_late_writers_and_begins_anew(log: ThreadLog) -> None:
    await log.append("t", ["a"])
    version = await log.version("t")

    assert await log.delete("t") is True
    assert await log.delete("t") is False

    assert await log.version("t") == 0
    for keys in (None, "k"):
        with pytest.raises(ThreadDeleted):
            await log.append("t", "late", keys=keys, expected_version=version)
    await log.append("t", "new", expected_version=0)
    assert values(await log.tail("t")) == ["new"]


async def test_deleting_a_log_leaves_the_others_of_its_thread(
    db: Database, log: ThreadLog, checkpointer: Checkpointer
) -> None:
    other = memalchemy.ThreadLog(db, namespace=("other",))
    await log.append("t", "a")
    await other.append("t", "b")
    await checkpointer.save({"n": 1}, "t")

    await log.delete("t")

    assert values(await other.tail("t")) == ["b"]
    assert await checkpointer.load("t") == {"n": 1}


async def test_deleting_a_thread_deletes_all_its_logs(
    log: ThreadLog, checkpointer: Checkpointer
) -> None:
    await log.append("t", "a")

    assert await checkpointer.delete("t") is True

    assert await log.tail("t") == []
    with pytest.raises(ThreadDeleted):
        await log.append("t", "late", expected_version=1)


async def test_a_log_expires_with_its_last_append(log: ThreadLog, db: Database) -> None:
    await log.append("t", "a", ttl=MOMENT)
    assert await log.tail("t") == []
    assert await log.version("t") == 0
    with pytest.raises(Conflict):
        await log.append("t", "b", expected_version=1)

    for keys in (None, "k"):
        assert await log.append("t", "b", keys=keys) == [1]
        assert values(await log.tail("t")) == ["b"]
        await log.append("t", "c", ttl=MOMENT)

    short = memalchemy.ThreadLog(db, ttl=MOMENT)
    await short.append("u", "a")
    assert await log.tail("u") == []
    with pytest.raises(ValueError, match="longer than zero"):
        memalchemy.ThreadLog(db, ttl=0)


async def test_search_finds_an_entry_by_its_own_words(log: ThreadLog, db: Database) -> None:
    await log.append("t", [{"content": "the cat sat"}, {"content": "a dog"}])
    await log.append("u", [{"content": "Café of cats, cat"}])
    silent = memalchemy.ThreadLog(db, namespace=("silent",), index_text=False)
    await silent.append("t", "cat")

    found = await log.search("CAT sat")

    assert [(hit.thread_id, hit.position) for hit in found] == [("t", 1), ("u", 1)]
    assert found[0].score == 1.0
    assert found[0].value == {"content": "the cat sat"}
    assert "cat" in found[0].snippet
    assert [hit.thread_id for hit in await log.search("cafe")] == ["u"]
    assert [hit.thread_id for hit in await log.search("cat", thread_id="u")] == ["u"]
    assert len(await log.search("cat", 1)) == 1
    assert await silent.search("cat") == []
    assert await log.search('"* OR (') == []


async def test_search_finds_nothing_that_is_gone(log: ThreadLog) -> None:
    await log.append("t", ["alpha", "alpha"])
    await log.append("u", "alpha")
    await log.pop("t")
    await log.delete("u")

    assert [(hit.thread_id, hit.position) for hit in await log.search("alpha")] == [("t", 1)]


async def test_tenants_and_namespaces_are_apart(db: Database, log: ThreadLog) -> None:
    other = memalchemy.ThreadLog(db.for_tenant(f"{db.tenant}-2"))
    below = memalchemy.ThreadLog(db, namespace=("log", "below"))
    await log.append("t", "mine")

    assert await other.tail("t") == []
    assert await below.tail("t") == []
    assert await other.search("mine") == []
    with pytest.raises(TypeError):
        memalchemy.ThreadLog(db, namespace="log")


async def test_entries_and_checkpoints_can_share_a_log(
    db: Database, checkpointer: Checkpointer
) -> None:
    log = memalchemy.ThreadLog(db, namespace=())
    await checkpointer.save({"n": 1}, "t", "one")
    assert await log.append("t", ["a"]) == [2]
    await checkpointer.save({"n": 2}, "t", "two")
    await log.append("t", ["b"])

    fork = await log.fork("t", 2)

    assert values(await log.range("t")) == ["a", "b"]
    assert await checkpointer.load("t") == {"n": 2}
    assert await checkpointer.list_checkpoints("t") == ["two", "one"]
    assert await checkpointer.list_checkpoints(fork) == ["one"]
    assert values(await log.range(fork)) == ["a"]
    await log.clear("t")
    await checkpointer.save({"n": 3}, "t", "three")
    assert await checkpointer.load("t", "one") == {"n": 1}


async def test_a_transaction_sees_its_own_entries_and_leaves_none_when_it_fails(
    db: Database, log: ThreadLog
) -> None:
    await log.append("t", "before")

    async def change() -> None:
        async with db.transaction() as tx:
            await log.append("t", ["a", "b"], connection=tx)
            await log.append("t", ["c"], keys=["k"], connection=tx)
            await log.pop("t", connection=tx)
            assert values(await log.tail("t", connection=tx)) == ["before", "a", "b"]
            raise LookupError

    with pytest.raises(LookupError):
        await change()

    assert values(await log.tail("t")) == ["before"]


async def test_what_does_not_match_its_checksum_is_named_and_not_popped(
    db: Database, log: ThreadLog
) -> None:
    await log.append("damaged", ["a", "b"])
    damage = (
        update(DeltaRow)
        .where(DeltaRow.log_id == log_key(db.tenant, "damaged", "/log/"), DeltaRow.seq == 2)
        .values(checksum=1)
    )
    await db.run_sync(lambda connection: connection.execute(damage))

    for read in (log.tail, log.range, log.read, log.pop):
        with pytest.raises(Corrupt, match="entry 2 of thread 'damaged'"):
            await read("damaged")
    with pytest.raises(Corrupt, match="entry 2 of thread 'damaged'"):
        await log.read_threads(["damaged"])

    assert await log.count("damaged") == 2
    assert values(await log.range("damaged", before=2)) == ["a"]


@pytest.mark.plaintext_only(
    "a payload with keys is sent when its position is known", on=("postgresql", "psycopg")
)
@pytest.mark.unsigned_only("it counts statements")
async def test_an_append_of_new_keys_is_one_round_trip_and_one_of_known_keys_adds_nothing(
    log: ThreadLog, db: Database
) -> None:
    seen: list[Event] = []
    unsubscribe = subscribe(seen.append)
    assert await log.append("t", ["a", "b"], keys=["ka", "kb"]) == [1, 2]
    assert await log.append("t", ["c", None], keys=["kc", None]) == [3, 4]
    unsubscribe()
    appended = [event.round_trips for event in seen if event.name == "thread.append"]
    if db.dialect.single_statement_save:
        assert appended == [1, 1]

    assert await log.append("t", ["B", "d", "D"], keys=["kb", "kd", "kd"]) == [2, 5, 5]
    assert values(await log.tail("t")) == ["a", "b", "c", None, "d"]
    version = await log.version("t")
    with pytest.raises(Conflict):
        await log.append("t", ["e"], keys=["ke"], expected_version=version - 1)
    assert await log.append("t", ["A"], keys=["ka"], expected_version=version) == [1]
    assert values(await log.tail("t")) == ["a", "b", "c", None, "d"]

    async with db.transaction() as tx:  # which a known key does not end
        assert await log.append("t", ["A", "e"], keys=["ka", "ke"], connection=tx) == [1, 6]
        assert await log.append("t", "f", connection=tx) == [7]
    assert values(await log.tail("t", 2)) == ["e", "f"]


async def test_an_entry_is_found_by_its_key_in_one_thread_or_in_all(
    log: ThreadLog, db: Database
) -> None:
    other = ThreadLog(db, namespace=("other",))
    key = "café\ud800\x00"
    await log.append("b", ["x", {"n": 1}], keys=[None, key])
    await log.append("a", [{"n": 2}], keys=key)
    await other.append("c", [{"n": 3}], keys=key)
    await log.append("expired", [{"n": 4}], keys=key, ttl=MOMENT)
    await log.append("gone", [{"n": 5}], keys=key)
    await log.delete("gone")

    found = await log.find(key)

    assert list(found) == ["a", "b"]
    assert found["b"] == (await log.tail("b", 1))[0]
    assert (found["b"].key, found["b"].position) == (key, 2)
    assert await log.find(key, thread_id="a") == {"a": found["a"]}
    for thread_id in ("c", "expired", "gone", "none"):
        assert await log.find(key, thread_id=thread_id) == {}
    assert await log.find("x") == {}
    assert await ThreadLog(db.for_tenant("another")).find(key) == {}
    async with db.transaction() as tx:
        await log.append("d", [0], keys="new", connection=tx)
        assert list(await log.find("new", connection=tx)) == ["d"]
    with pytest.raises(TooLarge):
        await log.find("k" * 129)


@pytest.mark.plaintext_only(
    "a payload with keys is sent when its position is known", on=("postgresql", "psycopg")
)
@pytest.mark.unsigned_only("it counts statements")
async def test_an_append_without_keys_is_as_few_round_trips_as_can_be(
    db: Database, log: ThreadLog
) -> None:
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    await log.append("t", [{"secret": "word"}] * 5)
    await log.append("t", {"secret": "word"})
    unsubscribe()

    appended = [event for event in events if event.name == "thread.append"]
    assert [event.details["entries"] for event in appended] == [5, 1]
    assert "word" not in repr(events)
    if db.dialect.single_statement_save:
        assert [event.round_trips for event in appended] == [1, 1]


async def test_another_process_reads_what_was_appended(
    reopen: Callable[[], Database], log: ThreadLog
) -> None:
    await log.append("t", ["a"], keys=["k"])

    async with reopen() as other:
        there = memalchemy.ThreadLog(other)
        assert values(await there.tail("t")) == ["a"]
        assert await there.append("t", "again", keys="k") == [1]


@pytest.mark.unsigned_only("it changes rows by hand")
async def test_a_reader_notices_that_an_older_copy_was_restored(
    db: Database, log: ThreadLog
) -> None:
    await log.append("t", ["a", "b", "lost"])
    seen = await log.read("t")
    # As a backup of the moment before would be: the epoch is what it was.
    gone = delete(DeltaRow).where(DeltaRow.tenant == db.tenant, DeltaRow.seq == 3)
    back = update(ThreadRow).where(ThreadRow.tenant == db.tenant).values(next_seq=3)
    await db.run_sync(lambda connection: (connection.execute(gone), connection.execute(back)))

    missing = await log.read("t", seen)
    await log.append("t", ["other", "more"])
    other = await log.read("t", seen)

    assert (missing.complete, values(missing.entries)) == (True, ["a", "b"])
    assert (other.complete, values(other.entries)) == (True, ["a", "b", "other", "more"])


async def test_a_fork_may_be_another_log_of_the_same_thread(
    db: Database, log: ThreadLog, checkpointer: Checkpointer
) -> None:
    await log.append("t", ["a", "b", "c"])
    await checkpointer.save({"n": 1}, "t", "one")
    other = ThreadLog(db, namespace=("log", "what if"))

    assert await log.fork("t", 2, new_thread_id="t", namespace=other.namespace) == "t"

    await other.append("t", "d")
    assert [(e.position, e.value) for e in await other.range("t")] == [(1, "a"), (2, "b"), (3, "d")]
    assert values(await log.range("t")) == ["a", "b", "c"]
    assert await checkpointer.load("t") == {"n": 1}
    with pytest.raises(Conflict):
        await log.fork("t", new_thread_id="t", namespace=other.namespace)
    with pytest.raises(ValueError, match="of its own"):
        await log.fork("t", new_thread_id="t", namespace=log.namespace)


async def test_when_threads_were_last_written_is_told_of_those_with_entries(
    db: Database, log: ThreadLog
) -> None:
    awkward = "a\x00 🌍"
    await log.append("first", 1)
    await log.append(awkward, 1)
    await log.append("emptied", 1)
    await log.clear("emptied")
    await ThreadLog(db, namespace=("other",)).append("elsewhere", 1)

    found = await log.last_written(["first", awkward, "emptied", "elsewhere", "none"])

    assert set(found) == {"first", awkward}
    assert found["first"] < found[awkward] <= datetime.now(UTC)
    before = found["first"]
    await log.append("first", 2)
    assert (await log.last_written(["first"]))["first"] > before
    assert await log.last_written([]) == {}


async def test_several_threads_are_read_at_once_in_the_order_asked_for(
    db: Database, log: ThreadLog
) -> None:
    awkward = "a\x00 🌍"
    await log.append("first", [1, {"a": [2]}], keys=["one", None])
    await log.append(awkward, "x")
    await log.append("emptied", 1)
    await log.clear("emptied")
    await log.append("expired", 1, ttl=MOMENT)
    await ThreadLog(db, namespace=("other",)).append("elsewhere", 1)

    found = await log.read_threads([awkward, "expired", "elsewhere", "emptied", "first", "first"])

    assert list(found) == [awkward, "first"]
    assert found["first"] == await log.range("first")
    assert found[awkward] == await log.range(awkward)
    newest = await log.read_threads(["first", "emptied", awkward], newest=True)
    assert newest == {"first": found["first"][1:], awkward: found[awkward]}
    assert await log.read_threads([]) == {}
    many = [f"t{at}" for at in range(700)]
    for thread_id in many:
        await log.append(thread_id, thread_id)
    assert await log.read_threads(many) == {one: await log.range(one) for one in many}
    with pytest.raises(TypeError, match="takes a list"):
        await log.read_threads("first")


@pytest.mark.parametrize("page_size", [1, 3, 10])
async def test_all_entries_are_iterated_page_by_page(log: ThreadLog, page_size: int) -> None:
    await log.append("t", list(range(1, 11)))
    await log.remove("t", [2, 5])
    kept = [1, 3, 4, 6, 7, 8, 9, 10]

    forwards = log.iter_entries("t", page_size=page_size)
    assert [entry.value async for entry in forwards] == kept
    backwards = log.iter_entries("t", newest_first=True, page_size=page_size)
    assert [entry.value async for entry in backwards] == kept[::-1]
    beyond = log.iter_entries("t", after=4, page_size=page_size)
    assert [entry.value async for entry in beyond] == kept[3:]
    assert [entry async for entry in log.iter_entries("none")] == []
    with pytest.raises(ValueError, match="page_size must be at least 1"):
        [entry async for entry in log.iter_entries("t", page_size=0)]

"""locus' checkpointers, storage backends and differences."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memalchemy import (
    CapabilityMissing,
    Checkpointer,
    Conflict,
    Database,
    DatabaseUnreachable,
    Diff,
    NotSerialisable,
    Store,
    events,
    get_checkpointer,
)
from memalchemy.codec.encryption import generate_key
from memalchemy.context import message_time, oldest_message_time, stamp_messages, trim_messages
from memalchemy.state import AgentState, Message, ReasoningStep, ToolCall, ToolExecution
from parity.messages import answer, user

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def seen() -> tuple[list[events.Event], Callable[[], None]]:
    found: list[events.Event] = []
    return found, events.subscribe(found.append)


async def history(checkpointer: Checkpointer, thread_id: str) -> list[str]:
    return [info.checkpoint_id async for info in checkpointer.history(thread_id)]


async def test_l1_a_save_is_one_write_of_what_is_new_and_whole_or_absent(
    db: Database, checkpointer: Checkpointer
) -> None:
    state: dict[str, Any] = {"messages": [f"{n} {'x' * 500}" for n in range(100)]}
    await checkpointer.save(state, "thread")
    state["messages"].append("one more")
    found, unsubscribe = seen()
    await checkpointer.save(state, "thread")
    unsubscribe()

    (saved,) = [event for event in found if event.name == "checkpoint.save"]
    # One round trip to a server; three statements in the one transaction of a file's own writer.
    assert saved.round_trips == (1 if db.dialect.single_statement_save else 3)
    assert saved.payload_bytes < 500 < saved.state_bytes


async def test_l2_a_deleted_checkpoint_is_served_by_no_path(checkpointer: Checkpointer) -> None:
    for n in range(3):
        await checkpointer.save({"n": n}, "thread", f"c{n}")

    assert await checkpointer.delete("thread", "c2") is True
    assert await checkpointer.load("thread") == {"n": 1}
    assert await checkpointer.delete("thread", "c1") is True
    assert await checkpointer.delete("thread", "c0") is True
    assert await checkpointer.load("thread") is None
    assert await checkpointer.exists("thread") is False
    assert await checkpointer.list_checkpoints("thread") == []


async def test_l3_threads_are_listed_by_their_own_ids_and_by_glob(
    checkpointer: Checkpointer,
) -> None:
    for thread_id in ("a:1", "a%2", "a_3", "b"):
        await checkpointer.save({}, thread_id)

    assert set(await checkpointer.list_threads()) == {"a:1", "a%2", "a_3", "b"}
    assert set(await checkpointer.list_threads(pattern="a*")) == {"a:1", "a%2", "a_3"}
    assert await checkpointer.list_threads(pattern="a%2") == ["a%2"]
    assert await checkpointer.list_threads(pattern="a_?") == ["a_3"]


async def test_l4_a_copy_keeps_the_order_and_ends_with_the_newest(
    checkpointer: Checkpointer,
) -> None:
    for n in range(5):
        await checkpointer.save({"n": n}, "source", f"c{n}")

    assert await checkpointer.copy_thread("source", "target") is True
    assert await checkpointer.list_checkpoints("target") == ["c4", "c3", "c2", "c1", "c0"]
    assert await checkpointer.load("target") == {"n": 4}
    assert await checkpointer.copy_thread("nothing", "elsewhere") is False
    with pytest.raises(Conflict):
        await checkpointer.copy_thread("source", "target")


async def test_l5_of_many_who_save_at_once_none_is_lost_and_a_delete_leaves_no_orphan(
    db: Database, checkpointer: Checkpointer
) -> None:
    async def save(n: int) -> str:
        return await Checkpointer(db).save({"n": n}, "thread", f"c{n}")

    await asyncio.gather(*(save(n) for n in range(25)))

    assert set(await checkpointer.list_checkpoints("thread", limit=100)) == {
        f"c{n}" for n in range(25)
    }
    assert await checkpointer.delete("thread") is True
    stats = await checkpointer.get_storage_stats("thread")
    assert stats["total_checkpoints"] == 0
    assert await checkpointer.exists("thread") is False
    assert [await checkpointer.load("thread", f"c{n}") for n in range(25)] == [None] * 25


async def test_l6_no_two_ids_meet_whatever_is_in_them(checkpointer: Checkpointer) -> None:
    pairs = [
        ("p:q", "c"), ("p", "q:c"), ("p", "latest"), ("p", "_checkpoints"), ("p/q", "c"),
        ("p", "q/c"), ("p:latest", "c"), ("p ", "c"),
    ]  # fmt: skip
    for n, (thread_id, checkpoint_id) in enumerate(pairs):
        await checkpointer.save({"n": n}, thread_id, checkpoint_id)

    found = [await checkpointer.load(*pair) for pair in pairs]
    assert found == [{"n": n} for n in range(len(pairs))]
    assert await checkpointer.load("p", "c") is None


async def test_l7_metadata_is_that_of_a_checkpoint_that_is_there(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 1}, "thread", "first", {"step": 1})
    await checkpointer.save({"n": 2}, "thread", "second", {"step": 2})

    newest = await checkpointer.get_metadata("thread")
    assert newest is not None
    assert (newest["checkpoint_id"], newest["metadata"]) == ("second", {"step": 2})
    await checkpointer.delete("thread", "second")
    left = await checkpointer.get_metadata("thread")
    assert left is not None
    assert (left["checkpoint_id"], left["metadata"]) == ("first", {"step": 1})
    assert await checkpointer.get_metadata("thread", "second") is None


async def test_l8_every_capability_that_is_claimed_is_there(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"text": "green tea"}, "thread", "first", {"kind": "note"})
    claimed = checkpointer.capabilities

    assert claimed.search
    assert [hit["checkpoint_id"] for hit in await checkpointer.search("tea")] == ["first"]
    assert claimed.metadata_query
    assert len(await checkpointer.query_by_metadata("kind", "note")) == 1
    assert claimed.list_threads
    assert await checkpointer.list_threads() == ["thread"]
    assert claimed.list_with_metadata
    assert len(await checkpointer.list_with_metadata()) == 1
    assert claimed.branching
    assert await checkpointer.copy_thread("thread", "other") is True
    assert claimed.vacuum
    assert await checkpointer.vacuum(older_than_days=30) == 0


async def test_l9_many_that_start_at_once_make_one_schema(database_url: str) -> None:
    databases = [Database(database_url, migrate="auto") for _ in range(6)]

    async def start(db: Database) -> list[str]:
        return await db.migrate()

    try:
        if database_url == "sqlite://":
            ran = [await start(databases[0])]
        else:
            ran = await asyncio.gather(*map(start, databases))
            assert await Checkpointer(databases[0]).save({}, "thread", "c") == "c"
        assert any(ran)
        assert await start(databases[0]) == [], "nothing is left to do"
        await databases[0].check()
    finally:
        for db in databases:
            await db.close()


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\udfff alone", "\U0001f9e0", "\u2028"])
async def test_l10_any_code_point_can_be_saved(checkpointer: Checkpointer, text: str) -> None:
    state = {"messages": [{"role": "user", "content": text}], text: text}
    await checkpointer.save(state, "thread")

    assert await checkpointer.load("thread") == state


async def test_l10_metadata_that_json_cannot_hold_is_refused_with_its_path_before_any_write(
    checkpointer: Checkpointer,
) -> None:
    with pytest.raises(NotSerialisable, match="/note"):
        await checkpointer.save({}, "thread", metadata={"note": "a\x00b"})

    assert await checkpointer.load("thread") is None


async def test_l11_a_growing_thread_costs_what_is_added_and_not_the_whole_each_time(
    checkpointer: Checkpointer,
) -> None:
    words = random.Random(7)
    messages: list[str] = []
    for _ in range(60):
        messages.append(" ".join(f"{words.getrandbits(24):x}" for _ in range(20)))
        await checkpointer.save({"messages": messages}, "thread")

    stats = await checkpointer.get_storage_stats("thread")
    assert stats["total_checkpoints"] == 60
    # The whole list each time would be thirty times what was said.
    assert stats["compressed_size"] < 3 * sum(map(len, messages))


async def test_l12_children_of_a_deleted_parent_load_and_an_id_may_be_saved_again(
    checkpointer: Checkpointer,
) -> None:
    for n in range(10):
        await checkpointer.save({"list": list(range(n)), "n": n}, "thread", f"c{n}", {"step": n})
    for n in range(9):
        assert await checkpointer.delete("thread", f"c{n}") is True

    assert await checkpointer.load("thread") == {"list": list(range(9)), "n": 9}
    await checkpointer.save({"again": True}, "thread", "c9")
    assert await checkpointer.load("thread", "c9") == {"again": True}
    assert await checkpointer.exists("thread", "c9") is True
    assert await checkpointer.list_checkpoints("thread") == ["c9"]


async def test_l12_what_is_loaded_is_nobody_elses_object(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"deep": {"list": [1]}}, "thread")
    loaded = await checkpointer.load("thread")
    loaded["deep"]["list"].append(2)

    assert await checkpointer.load("thread") == {"deep": {"list": [1]}}


HASHED = """
import asyncio, sys
from memalchemy import Checkpointer, Database

async def main():
    async with Database(sys.argv[1], tenant=sys.argv[2]) as db:
        state = {"tools": {f"tool-{n}" for n in range(50)}, "frozen": frozenset("abcdefgh")}
        await Checkpointer(db).save(state, "thread", sys.argv[3])

asyncio.run(main())
"""


@pytest.mark.usefixtures("lasting")
async def test_l13_sets_cost_nothing_where_another_process_hashes_them_otherwise(
    shared_url: str, db: Database, checkpointer: Checkpointer
) -> None:
    for seed in ("1", "2"):
        subprocess.run(  # noqa: ASYNC221 - one after the other
            [sys.executable, "-c", HASHED, shared_url, db.tenant, seed],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
        )

    infos = [info async for info in checkpointer.history("thread")]
    assert [info.checkpoint_id for info in infos] == ["2", "1"]
    assert infos[0].stored_size < infos[1].stored_size / 3
    assert await checkpointer.diff("thread", "1", "2") == Diff()


async def test_l14_what_is_loaded_are_values_and_never_something_to_await(
    checkpointer: Checkpointer,
) -> None:
    # The reading of large values on Oracle is in tests/oracle: drivers there give locators.
    big = {"text": "x" * 1_000_000, "bytes": b"\x00" * 1_000_000}
    await checkpointer.save(big, "thread", metadata={"note": "y" * 1000})

    assert await checkpointer.load("thread") == big
    kept = await checkpointer.get_metadata("thread")
    assert kept is not None
    assert kept["metadata"] == {"note": "y" * 1000}


async def test_l21_ids_with_separators_share_nothing(checkpointer: Checkpointer) -> None:
    ids = ["a/b", "a_b", "a.b", "a\\b", "a b", "A/B", "../a", "a/../b", "c.1", "c_1"]
    for thread_id in ids:
        for checkpoint_id in ids:
            await checkpointer.save({"at": [thread_id, checkpoint_id]}, thread_id, checkpoint_id)

    for thread_id in ids:
        for checkpoint_id in ids:
            assert await checkpointer.load(thread_id, checkpoint_id) == {
                "at": [thread_id, checkpoint_id]
            }


async def test_l23_an_outage_is_an_error_and_never_an_empty_thread() -> None:
    gone = Checkpointer(Database("postgresql://nobody@127.0.0.1:1/none", connect_timeout=1))

    for ask in (
        gone.load("t"),
        gone.list_checkpoints("t"),
        gone.exists("t"),
        gone.delete("t"),
        gone.save({}, "t"),
    ):
        with pytest.raises(DatabaseUnreachable) as caught:
            await ask
        assert caught.value.maybe_applied is False


async def test_l26_ids_that_differ_in_case_or_accent_are_two(checkpointer: Checkpointer) -> None:
    for thread_id in ("Alice", "alice", "álice", "alice "):
        await checkpointer.save({"who": thread_id}, thread_id)

    assert len(await checkpointer.list_threads()) == 4
    assert await checkpointer.load("alice") == {"who": "alice"}


@pytest.mark.parametrize("query", ["100%", "a_b", "it's", '"quoted', "NEAR(", "a OR", "*", "\\"])
async def test_l27_a_query_is_data_and_no_pattern(checkpointer: Checkpointer, query: str) -> None:
    await checkpointer.save({"text": "one hundred 100 percent aXb it is"}, "thread")
    await checkpointer.save({"text": "nothing of the sort"}, "other")

    assert "other" not in {hit["thread_id"] for hit in await checkpointer.search(query)}


async def test_l27_a_save_that_is_repeated_is_there_once_and_order_is_no_clock(
    checkpointer: Checkpointer,
) -> None:
    for n in range(20):
        await checkpointer.save({"n": n}, "thread", f"c{n}")
    await checkpointer.save({"n": 19}, "thread", "c19")

    assert await checkpointer.list_checkpoints("thread", limit=100) == [
        f"c{n}" for n in range(19, -1, -1)
    ]
    await checkpointer.save({"n": "newer"}, "thread", "c1")
    before = [info.checkpoint_id async for info in checkpointer.history("thread", before="c2")]
    assert before == ["c0"], "c1 was saved again, and is newer"
    assert await checkpointer.delete("thread") is True


async def test_l28_a_tenant_sees_and_clears_its_own_alone(db: Database) -> None:
    ours, theirs = Checkpointer(db), Checkpointer(db.for_tenant(db.tenant + "x"))
    await ours.save({"n": 1}, "thread", metadata={"k": 1})
    await theirs.save({"n": 2}, "thread", metadata={"k": 1})
    nobodys = Checkpointer(db.for_tenant(db.tenant + "y"))

    assert await nobodys.load("thread") is None
    assert await nobodys.list_with_metadata() == []
    assert await ours.load("thread") == {"n": 1}
    assert [found["thread_id"] for found in await ours.query_by_metadata("k", 1)] == ["thread"]
    assert await ours.list_threads() == ["thread"]
    assert await ours.prune(keep_last=1) == 0
    await ours.delete("thread")
    assert await theirs.load("thread") == {"n": 2}
    await theirs.delete("thread")


async def test_l29_a_state_that_is_changed_after_its_save_is_not_changed_in_the_database(
    checkpointer: Checkpointer,
) -> None:
    state: dict[str, Any] = {"metadata": {"list": [1]}}
    await checkpointer.save(state, "thread")
    state["metadata"]["list"].append(2)

    assert await checkpointer.load("thread") == {"metadata": {"list": [1]}}


async def test_l30_a_superseded_iteration_goes_in_few_round_trips(
    db: Database, checkpointer: Checkpointer
) -> None:
    for n in range(5):
        await checkpointer.save({"n": n}, "thread", f"c{n}")
    found, unsubscribe = seen()
    await checkpointer.delete("thread", "c2")
    unsubscribe()

    (deleted,) = found
    # The log is locked; name, pending writes, and up to two states go; the epoch moves.
    assert deleted.round_trips <= 6
    assert await history(checkpointer, "thread") == ["c4", "c3", "c1", "c0"]


async def test_closing_a_checkpointer_closes_only_a_database_that_it_has_made(
    db: Database, tmp_path: Path
) -> None:
    borrowed = Checkpointer(db)
    await borrowed.save({"n": 1}, "thread")
    await borrowed.close()
    own = get_checkpointer(f"sqlite:{tmp_path / 'own.db'}")
    await own.save({}, "thread")
    await own.close()

    assert await borrowed.load("thread") == {"n": 1}
    assert await own.load("thread") == {}, "a later use opens it again"
    await own.close()


async def test_a_capability_that_encryption_takes_away_is_named(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/sealed.db", keys=generate_key()) as sealed:
        checkpointer = Checkpointer(sealed)
        assert checkpointer.capabilities.search is False
        with pytest.raises(CapabilityMissing) as caught:
            await checkpointer.search("word")

    assert caught.value.capability == "search"
    assert isinstance(caught.value, NotImplementedError)


async def test_the_models_of_a_run_are_saved_and_loaded(db: Database) -> None:
    asked = ToolCall(name="look", arguments={"q": "x"})
    state = AgentState(
        messages=[Message.user("hi"), Message.assistant("", tool_calls=[asked])],
        tool_executions=[ToolExecution(tool_name="look", tool_call_id=asked.id, arguments={})],
        reasoning_steps=[ReasoningStep(iteration=1, thought="hm")],
    )
    await Checkpointer(db).save(state, "thread")

    assert await Checkpointer(db, state_type=AgentState).load("thread") == state


def test_the_time_of_a_message_is_when_it_occurred_or_was_first_stamped() -> None:
    messages = [user("a"), user("b") | {"metadata": {"locus_at": (NOON - DAY).isoformat()}}]
    stamped = stamp_messages(messages, NOON)

    assert [message_time(one) for one in stamped] == [NOON, NOON - DAY]
    assert oldest_message_time(stamped) == NOON - DAY
    assert message_time(user("a")) is None
    both = {"occurred_at": NOON.isoformat(), "locus_at": (NOON - DAY).isoformat()}
    assert message_time(user("a") | {"metadata": both}) == NOON


def test_messages_from_before_a_time_are_trimmed() -> None:
    old = stamp_messages([user("a"), answer("b")], NOON)
    new = stamp_messages([user("c")], NOON + DAY)

    assert trim_messages([*old, *new], NOON + DAY) == new
    assert trim_messages([*old, *new], NOON) == [*old, *new]


@pytest.mark.parametrize(
    "url", ["sqlite://", "postgresql://localhost/x", "oracle://u:p@localhost/x"]
)
def test_a_url_is_all_that_tells_the_databases_apart(url: str) -> None:
    db = Database(url)

    assert Checkpointer(db).capabilities.search
    assert Store(db).capabilities.search


async def test_no_chain_of_differences_is_longer_than_it_may_be(db: Database) -> None:
    checkpointer = Checkpointer(db, max_chain_depth=5)
    messages: list[Any] = []
    for n in range(12):
        messages.append(user(f"message {n} " + "x" * 100))
        await checkpointer.save({"messages": messages}, "thread")

    stats = await checkpointer.get_storage_stats("thread")
    assert 12 // 6 <= stats["full_checkpoints"] <= 12 // 5
    assert stats["delta_checkpoints"] == 12 - stats["full_checkpoints"]

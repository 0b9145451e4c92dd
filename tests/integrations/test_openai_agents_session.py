"""`MemalchemySession`: the SDK's session protocol, on every database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from types import NoneType
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, SessionSettings, function_tool, handoff
from agents.extensions.memory import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession, Session
from scripted_model import Scripted, run, said, texts

import memalchemy
from lifetimes import end_lifetimes_of_threads
from memalchemy import Checkpointer, Corrupt, Database, NotSerialisable, ThreadLog, TooLarge
from memalchemy.integrations.openai_agents import MemalchemySession
from waiting import until

KEY = "a high-entropy secret of a test, which is long enough"


@pytest.fixture
def session(db: Database) -> MemalchemySession:
    return MemalchemySession("talk", db)


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


def test_it_implements_the_sdks_session_protocol(session: MemalchemySession) -> None:
    assert isinstance(session, Session)
    assert session.session_id == "talk"
    assert session.session_settings == SessionSettings()


def test_it_is_made_without_a_loop_and_without_a_database_that_answers() -> None:
    session = MemalchemySession("talk", "postgresql://nobody@127.0.0.1:1/none")
    assert session.session_id == "talk"


async def test_sessions_on_one_url_share_a_database(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    one, other = MemalchemySession("a", url), MemalchemySession("a", url)
    assert one.db is other.db
    await one.add_items([said("user", "hi")])
    await one.close()
    assert texts(await other.get_items()) == ["hi"]
    await other.close()
    assert MemalchemySession("a", "sqlite://").db is not MemalchemySession("a", "sqlite://").db


async def test_a_closed_session_leaves_the_database_that_it_was_given_open() -> None:
    async with Database("sqlite://") as db:
        session = MemalchemySession("a", db)
        await session.add_items([said("user", "hi")])
        await session.close()
        assert texts(await MemalchemySession("a", db).get_items()) == ["hi"]


async def test_ids_that_could_not_be_cleared_are_refused_before_anything_is_added() -> None:
    async with Database("sqlite://") as db:
        with pytest.raises(TooLarge, match="session_id with a branch is 520 bytes"):
            MemalchemySession("é" * 250, db)
        session = MemalchemySession("é" * 200, db)
        await session.add_items([said("user", "hi")])
        with pytest.raises(TooLarge, match="session_id with a branch"):
            await session.create_branch("é" * 50)
        assert await session.create_branch("b") == "b"
        await session.clear_session()
        assert await session.get_items() == []


async def test_a_closed_session_refuses_every_call() -> None:
    async with Database("sqlite://") as db:
        session = MemalchemySession("a", db)
        await session.add_items([said("user", "hi")])

        session.close()  # not awaited, as the SDK's own are not

        for refused in (
            session.get_items(),
            session.get_items(1, "main"),
            session.add_items([]),
            session.add_items([said("user", "hi")]),
            session.pop_item(),
            session.clear_session(),
            session.create_branch("b"),
            session.create_branch_from_turn(1),
            session.create_branch_from_content("hi"),
            session.switch_to_branch("main"),
            session.delete_branch("b"),
            session.list_branches(),
            session.get_conversation_turns(),
            session.find_turns_by_content("hi"),
            session.get_conversation_by_turns(),
            session.get_tool_usage(),
            session.get_turn_usage(),
            session.get_session_usage(),
            session._get_compaction_snapshot(1),
        ):
            with pytest.raises(RuntimeError, match="MemalchemySession is closed"):
                await refused
        with pytest.raises(RuntimeError, match="closed"):
            _ = session.log
        assert texts(await MemalchemySession("a", db).get_items()) == ["hi"]


async def test_items_are_restored_in_the_order_in_which_they_were_added(
    session: MemalchemySession,
) -> None:
    given: list[Any] = [
        said("user", "¿Dónde? \ud83c\udf0d \x00"),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "x"},
        {"type": "function_call_output", "call_id": "c", "output": [{"n": 1.5, "none": None}]},
        {"type": "reasoning", "id": "r", "summary": []},
    ]
    await session.add_items(given[:1])
    await session.add_items(given[1:])

    assert await session.get_items() == given
    assert [list(item) for item in await session.get_items()] == [list(item) for item in given]


async def test_a_limit_counts_the_newest_and_keeps_their_order(session: MemalchemySession) -> None:
    await session.add_items([said("user", f"{number}") for number in range(5)])

    assert texts(await session.get_items(2)) == ["3", "4"]
    assert texts(await session.get_items(50)) == ["0", "1", "2", "3", "4"]
    assert await session.get_items(0) == []
    assert len(await session.get_items(-1)) == 5

    session.session_settings = SessionSettings(limit=1)
    assert texts(await session.get_items()) == ["4"]
    assert texts(await session.get_items(2)) == ["3", "4"]


def test_settings_may_be_a_dictionary_and_are_checked(db: Database) -> None:
    assert MemalchemySession("t", db, session_settings={"limit": 3}).session_settings == (
        SessionSettings(limit=3)
    )
    with pytest.raises(TypeError, match="limitt"):
        MemalchemySession("t", db, session_settings={"limitt": 3})


async def test_adding_no_items_writes_nothing(session: MemalchemySession) -> None:
    await session.add_items([])

    assert await session.log.version("talk") == 0


async def test_items_read_are_copies(session: MemalchemySession) -> None:
    given: Any = {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    await session.add_items([given])
    given["content"][0]["text"] = "changed by the caller"
    (item,) = await session.get_items()
    item["content"][0]["text"] = "changed by the reader"  # type: ignore[index]

    assert texts(await session.get_items()) == ["hi"]


async def test_a_second_read_sees_the_changes_of_others(
    db: Database, session: MemalchemySession
) -> None:
    other = MemalchemySession("talk", db)
    seen = []
    await other.add_items([said("user", "a"), {"role": "user", "content": [{"t": ({1}, [2])}]}])  # type: ignore[list-item]
    for write in (
        other.add_items([said("user", "b")]),
        other.pop_item(),
        other.clear_session(),
        other.add_items([said("user", "c")]),
    ):
        first, second = await session.get_items(), await session.get_items()
        assert first == second == await other.get_items()
        for item in first:
            item.clear()  # type: ignore[attr-defined]
        seen.append(len(second))
        await write
    assert texts(await session.get_items()) == ["c"]
    assert seen == [2, 3, 2, 0]


async def test_a_copy_shares_nothing_that_can_be_changed(session: MemalchemySession) -> None:
    given: Any = {"role": "user", "content": [{"t": ({1}, [2])}]}
    await session.add_items([given])
    (first,) = await session.get_items()
    first["content"][0]["t"][0].add(9)  # type: ignore[index]
    first["content"][0]["t"][1].append(9)  # type: ignore[index]

    assert await session.get_items() == [given]


async def test_pop_takes_the_newest_and_none_when_there_is_none(
    session: MemalchemySession,
) -> None:
    await session.add_items([said("user", "a"), said("assistant", "b")])

    assert await session.pop_item() == said("assistant", "b")
    assert await session.pop_item() == said("user", "a")
    assert await session.pop_item() is None


async def test_clear_removes_all_items_and_the_session_can_continue(
    session: MemalchemySession,
) -> None:
    await session.add_items([said("user", "a")])
    await session.clear_session()
    await session.clear_session()
    assert await session.get_items() == []

    await session.add_items([said("user", "b")])
    assert texts(await session.get_items()) == ["b"]


async def test_sessions_and_tenants_do_not_see_each_other(
    db: Database, session: MemalchemySession
) -> None:
    other = MemalchemySession("other", db)
    elsewhere = MemalchemySession("talk", db.for_tenant(f"{db.tenant}-b"))
    await session.add_items([said("user", "mine")])
    await other.add_items([said("user", "theirs")])

    await other.clear_session()

    assert texts(await session.get_items()) == ["mine"]
    assert await elsewhere.get_items() == []


async def test_other_frameworks_data_under_the_same_id_stays(
    db: Database, session: MemalchemySession
) -> None:
    checkpointer, log = Checkpointer(db), ThreadLog(db)
    await checkpointer.save({"n": 1}, "talk")
    await log.append("talk", "an entry")
    await session.add_items([said("user", "hi")])

    await session.clear_session()

    assert await checkpointer.load("talk") == {"n": 1}
    assert await log.count("talk") == 1


async def test_adding_items_is_atomic(session: MemalchemySession) -> None:
    await session.add_items([said("user", "before")])

    with pytest.raises(NotSerialisable):
        await session.add_items([said("user", "good"), {"role": "user", "content": object()}])  # type: ignore[list-item]

    assert texts(await session.get_items()) == ["before"]


async def test_json_values_are_restored_as_json(session: MemalchemySession) -> None:
    class Colour(StrEnum):
        RED = "red"

    await session.add_items([{"role": "user", "content": Colour.RED, "by": {1: "one"}}])  # type: ignore[list-item]

    assert await session.get_items() == [{"role": "user", "content": "red", "by": {"1": "one"}}]


async def test_a_pydantic_object_is_stored_with_the_fields_that_were_set(
    session: MemalchemySession,
) -> None:
    from openai.types.responses import ResponseOutputText

    text = ResponseOutputText(text="hi", type="output_text", annotations=[])
    await session.add_items([text])  # type: ignore[list-item]

    assert await session.get_items() == [{"text": "hi", "type": "output_text", "annotations": []}]


async def test_concurrent_pops_return_different_items(
    db: Database, session: MemalchemySession
) -> None:
    await session.add_items([said("user", f"{number}") for number in range(20)])
    poppers = [MemalchemySession("talk", db) for _ in range(30)]

    popped = await asyncio.gather(*(popper.pop_item() for popper in poppers))

    found = [item["content"] for item in popped if item is not None]  # type: ignore[typeddict-item]
    assert sorted(found, key=int) == [f"{number}" for number in range(20)]
    assert popped.count(None) == 10
    assert await session.get_items() == []


async def test_items_of_concurrent_adds_stay_together(
    db: Database, session: MemalchemySession
) -> None:
    async def add(who: int) -> None:
        other = MemalchemySession("talk", db)
        for turn in range(3):
            await other.add_items(
                [said("user", f"{who}.{turn}"), said("assistant", f"{who}.{turn}")]
            )

    await asyncio.gather(*(add(who) for who in range(8)))

    found = texts(await session.get_items())
    assert len(found) == 48
    assert found[::2] == found[1::2]
    for who in range(8):
        assert [t for t in found[::2] if t.startswith(f"{who}.")] == [
            f"{who}.{t}" for t in range(3)
        ]


WORKER = """
import asyncio, sys
from memalchemy import Database
from memalchemy.integrations.openai_agents import MemalchemySession

async def main(url, tenant):
    async with Database(url, tenant=tenant) as db:
        session = MemalchemySession("talk", db)
        print("ready", flush=True)
        for turn in range(20):
            await session.add_items([{"role": "user", "content": f"there.{turn}"}] * 2)
            print((await session.pop_item())["content"])

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_that_add_and_pop_lose_nothing_and_take_nothing_twice(
    db: Database, session: MemalchemySession, shared_url: str, lasting: None
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKER, shared_url, db.tenant), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    popped = []
    for turn in range(20):
        await session.add_items([said("user", f"here.{turn}")] * 2)
        popped += texts([await session.pop_item()])
    out, _ = await process.communicate()

    assert process.returncode == 0
    popped += out.decode().split()
    left = texts(await session.get_items())
    assert len(popped) == len(left) == 40
    added = [f"{where}.{turn}" for where in ("here", "there") for turn in range(20)]
    assert sorted(popped + left) == sorted(added * 2)


@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_cancelled_write_has_ended_when_the_cancellation_is_seen(
    session: MemalchemySession, cancels: int
) -> None:
    await session.add_items([said("user", "before")])
    cancelled = 0
    for number in range(12):
        task = asyncio.create_task(session.add_items([said("user", f"{number}")] * 2))
        for _ in range(number):
            await asyncio.sleep(0)
        in_time = task.cancel()
        for _ in range(cancels - 1):
            await asyncio.sleep(0)
            task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError if in_time else NoneType)
        cancelled += in_time
        version = await session.log.version("talk")
        found = texts(await session.get_items()).count(f"{number}")
        assert found in (0, 2)
        assert await session.log.version("talk") == version
    assert cancelled


async def test_a_failure_during_a_cancelled_write_is_the_cancellation(
    session: MemalchemySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    lost: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))

    async def fail(*args: Any, **options: Any) -> list[int]:
        started.set()
        await go_on.wait()
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(session.log, "append", fail)
    task = asyncio.create_task(session.add_items([said("user", "a")]))
    await started.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lost == []


async def test_a_damaged_item_is_an_error_and_is_not_removed(
    db: Database, session: MemalchemySession
) -> None:
    from sqlalchemy import update

    from memalchemy.schema import DeltaRow

    await session.add_items([said("user", "a")])

    async with db.transaction() as tx:
        damage = update(DeltaRow).where(DeltaRow.tenant == db.tenant).values(payload=b"\x00damaged")
        await tx.execute(damage)

    with pytest.raises(Corrupt):
        await session.get_items()
    with pytest.raises(Corrupt):
        await session.pop_item()


async def test_a_session_expires_its_ttl_after_the_last_item(db: Database) -> None:
    session = MemalchemySession("talk", db, ttl=timedelta(minutes=1))
    await session.add_items([said("user", "a")])
    assert len(await session.get_items()) == 1
    await end_lifetimes_of_threads(db)
    assert await session.get_items() == []

    await session.add_items([said("user", "b")])
    assert texts(await session.get_items()) == ["b"]


async def until_empty(session: Any) -> None:
    async def is_empty() -> bool:
        return not await session.get_items()

    await until(is_empty)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_runner_continues_where_another_process_stopped(
    db: Database, reopen: Callable[[], Database], streamed: bool
) -> None:
    model = Scripted(("weather", '{"city": "Rome"}'), "It is sunny.", "You asked about Rome.")
    agent = Agent(name="a", model=model, tools=[weather])
    first = await run(agent, "How is Rome?", MemalchemySession("t", db), streamed=streamed)
    assert first.final_output == "It is sunny."

    async with reopen() as other:
        session = MemalchemySession("t", other)
        second = await run(agent, "What did I ask?", session, streamed=streamed)
        found = await session.get_items()

    assert second.final_output == "You asked about Rome."
    assert texts(found) == [
        "How is Rome?",
        "weather",
        "sunny in Rome",
        "It is sunny.",
        "What did I ask?",
        "You asked about Rome.",
    ]
    assert texts(model.heard[-1]) == texts(found)[:5]


async def test_a_handoff_is_kept_with_its_items(session: MemalchemySession) -> None:
    expert = Agent(name="expert", model=Scripted("I know."))
    front = Agent(
        name="front", model=Scripted(("transfer_to_expert", "{}")), handoffs=[handoff(expert)]
    )

    result = await run(front, "Who knows?", session)

    assert result.last_agent is expert
    assert [item.get("type", "message") for item in await session.get_items()] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]


async def test_the_settings_of_a_run_limit_the_models_input(session: MemalchemySession) -> None:
    await session.add_items([said("user", f"{number}") for number in range(10)])
    model = Scripted("yes")
    config = RunConfig(session_settings=SessionSettings(limit=2))

    await Runner.run(Agent(name="a", model=model), "now", session=session, run_config=config)

    assert texts(model.heard[0]) == ["8", "9", "now"]
    assert len(await session.get_items()) == 12


async def test_an_encrypted_session_leaves_nothing_readable(
    db: Database, session: MemalchemySession
) -> None:
    secret = EncryptedSession("talk", session, KEY)  # type: ignore[arg-type]
    model = Scripted("The password is swordfish.", "Still swordfish.")
    agent = Agent(name="a", model=model)
    await run(agent, "What is it?", secret)
    await run(agent, "And now?", secret)

    assert texts(await secret.get_items(1)) == ["Still swordfish."]
    assert len(model.heard[1]) == 3
    assert "swordfish" not in str(await session.get_items())
    assert await session.log.search("swordfish") == []
    assert texts([await secret.pop_item()]) == ["Still swordfish."]
    await secret.clear_session()
    assert await session.get_items() == []


async def test_an_encrypted_session_skips_expired_items(
    session: MemalchemySession,
) -> None:
    brief = EncryptedSession("talk", session, KEY, ttl=0)  # type: ignore[arg-type]
    await brief.add_items([said("user", "old")])
    await until_empty(brief)  # Fernet counts whole seconds

    lasting = EncryptedSession("talk", session, KEY)  # type: ignore[arg-type]
    await lasting.add_items([said("user", "new")])
    assert texts(await lasting.get_items()) == ["old", "new"]
    assert len(await session.get_items()) == 2


class Compactor:
    """Stands where the OpenAI client does: one item for all that it is sent."""

    def __init__(self) -> None:
        self.responses = self
        self.sent: list[Any] = []

    async def compact(self, **given: Any) -> Any:
        from types import SimpleNamespace

        self.sent.append(given["input"])
        item = {"type": "compaction", "id": "c", "encrypted_content": f"{len(given['input'])}"}
        return SimpleNamespace(output=[item], usage=None)


async def test_the_sdks_compaction_replaces_the_history(session: MemalchemySession) -> None:
    client = Compactor()
    await session.add_items([said("user", "q"), said("assistant", "a")] * 3)
    compacting = OpenAIResponsesCompactionSession("talk", session, client=client)  # type: ignore[arg-type]

    await compacting.run_compaction({"force": True, "compaction_mode": "input"})

    assert [item["type"] for item in await session.get_items()] == ["compaction"]  # type: ignore[typeddict-item]
    assert len(client.sent[0]) == 6


async def test_a_compaction_replaces_the_end_only_if_nobody_wrote_meanwhile(
    session: MemalchemySession,
) -> None:
    await session.add_items([said("user", f"{number}") for number in range(6)])
    snapshot = await session._get_compaction_snapshot(3)
    assert (texts(snapshot.items), snapshot.complete) == (["3", "4", "5"], False)
    assert (await session._get_compaction_snapshot(6)).complete

    assert await snapshot.replace_suffix(1, [said("user", "4 and 5")]) is True
    assert texts(await session.get_items()) == ["0", "1", "2", "3", "4 and 5"]
    assert await snapshot.replace_suffix(1, [said("user", "again")]) is False

    late = await session._get_compaction_snapshot(2)
    await session.pop_item()
    assert await late.replace_suffix(0, []) is False
    await session.add_items([said("user", "new")])
    assert texts(await session.get_items()) == ["0", "1", "2", "3", "new"]


async def test_a_compaction_drops_the_beginning_that_it_is_told_to(
    session: MemalchemySession,
) -> None:
    await session.add_items([said("user", f"{number}") for number in range(450)])

    snapshot = await session._get_compaction_snapshot(
        10,
        prune_prefix=lambda item: int(item["content"]) < 430,  # type: ignore[typeddict-item]
    )
    assert await snapshot.replace_suffix(0, [said("user", "440")]) is True

    assert texts(await session.get_items()) == [*(f"{n}" for n in range(430, 441))]


async def test_words_of_items_are_searchable_unless_index_text_is_off(
    db: Database, session: MemalchemySession
) -> None:
    await session.add_items([said("user", "a zebra crosses")])
    await MemalchemySession("silent", db, index_text=False).add_items([said("user", "a zebra")])

    hits = await session.log.search("zebra")

    assert [(hit.thread_id, hit.value["content"]) for hit in hits] == [("talk", "a zebra crosses")]


def test_run_sync_works_too(tmp_path: Any) -> None:
    db = memalchemy.Database(f"sqlite:///{tmp_path}/agent.db")
    session = MemalchemySession("talk", db)
    agent = Agent(name="a", model=Scripted("one", "two"))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        assert Runner.run_sync(agent, "1", session=session).final_output == "one"
        assert Runner.run_sync(agent, "2", session=session).final_output == "two"
        assert len(loop.run_until_complete(session.get_items())) == 4
        loop.run_until_complete(db.close())
    finally:
        asyncio.set_event_loop(None)
        loop.close()

"""Branches, turns, usage, lists of sessions and interrupted runs, on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from scripted_model import Scripted, run, said, texts

from memalchemy import Database, ThreadLog
from memalchemy.integrations.openai_agents import (
    MemalchemyRunStates,
    MemalchemySession,
    MemalchemySessions,
)
from waiting import give_time_to_go_wrong


@pytest.fixture
async def session(db: Database) -> MemalchemySession:
    session = MemalchemySession("talk", db)
    for turn in (1, 2, 3):
        await session.add_items([said("user", f"q{turn}"), said("assistant", f"a{turn}")])
    return session


@pytest.fixture
def sessions(db: Database) -> MemalchemySessions:
    return MemalchemySessions(db)


async def test_a_branch_has_the_items_before_a_turn_and_shares_nothing(
    db: Database, session: MemalchemySession
) -> None:
    assert await session.create_branch_from_turn(2, "what if") == "what if"
    await session.add_items([said("user", "q2, otherwise")])

    assert session.branch == "what if"
    assert texts(await session.get_items()) == ["q1", "a1", "q2, otherwise"]
    assert texts(await MemalchemySession("talk", db).get_items())[-1] == "a3"
    there = MemalchemySession("talk", db, branch="what if")
    assert texts([await there.pop_item()]) == ["q2, otherwise"]

    assert len(await MemalchemySession("talk", db).get_items()) == 6


async def test_a_branch_from_the_first_turn_begins_empty(session: MemalchemySession) -> None:
    await session.create_branch_from_turn(1, "anew")
    assert await session.get_items() == []

    await session.add_items([said("user", "hello")])
    assert texts(await session.get_items()) == ["hello"]


async def test_a_branch_may_be_made_from_words_from_a_position_or_of_everything(
    session: MemalchemySession,
) -> None:
    assert (await session.create_branch_from_content("Q3")).startswith("branch_from_turn_3_")
    assert texts(await session.get_items()) == ["q1", "a1", "q2", "a2"]
    await session.switch_to_branch("main")
    position = (await session.get_conversation_turns())[1]["position"]
    await session.create_branch("early", before=position)
    assert texts(await session.get_items()) == ["q1", "a1"]
    await session.switch_to_branch("main")
    await session.create_branch("copy")
    assert len(await session.get_items()) == 6
    with pytest.raises(ValueError, match="No user turns found containing"):
        await session.create_branch_from_content("nothing of it")


async def test_an_existing_branch_is_not_created_and_a_missing_one_not_switched_to(
    session: MemalchemySession,
) -> None:
    await session.create_branch_from_turn(2, "b")
    await session.switch_to_branch("main")
    for name in ("b", "main"):
        with pytest.raises(ValueError, match="already"):
            await session.create_branch_from_turn(3, name)
    with pytest.raises(ValueError, match="already"):
        await session.create_branch_from_turn(1, "b")
    with pytest.raises(ValueError, match="Turn 4 does not contain"):
        await session.create_branch_from_turn(4)
    with pytest.raises(ValueError, match="Branch 'c' does not exist"):
        await session.switch_to_branch("c")
    for blank in ("", " "):
        with pytest.raises(ValueError, match="name cannot be empty"):
            await session.create_branch(blank)
        with pytest.raises(ValueError, match="name cannot be empty"):
            await session.create_branch_from_turn(2, blank)
    assert session.branch == "main"


async def test_of_two_concurrent_creations_of_a_branch_one_succeeds(
    db: Database, session: MemalchemySession
) -> None:
    makers = [MemalchemySession("talk", db) for _ in range(5)]

    made = await asyncio.gather(
        *(maker.create_branch_from_turn(2, "b") for maker in makers), return_exceptions=True
    )

    assert made.count("b") == 1
    assert sum(isinstance(one, ValueError) for one in made) == 4


async def test_branches_are_listed_and_deleted(db: Database, session: MemalchemySession) -> None:
    await session.create_branch_from_turn(2, "b")

    listed = await session.list_branches()

    assert [(b["branch_id"], b["message_count"], b["user_turns"]) for b in listed] == [
        ("main", 6, 3),
        ("b", 2, 1),
    ]
    assert [b["is_current"] for b in listed] == [False, True]
    assert listed[0]["created_at"] < listed[1]["created_at"]
    with pytest.raises(ValueError, match="force"):
        await session.delete_branch("b")
    with pytest.raises(ValueError, match="main"):
        await session.delete_branch("main")
    with pytest.raises(ValueError, match="does not exist"):
        await session.delete_branch("none")
    await session.delete_branch("b", force=True)
    assert session.branch == "main"
    assert [b["branch_id"] for b in await session.list_branches()] == ["main"]


async def test_a_blank_name_deletes_no_branch(session: MemalchemySession) -> None:
    for blank in ("", " "):
        with pytest.raises(ValueError, match="cannot be empty"):
            await session.delete_branch(blank, force=True)

    assert len(await session.get_items()) == 6


async def test_items_of_another_branch_are_read_without_switching(
    session: MemalchemySession,
) -> None:
    await session.create_branch_from_turn(2, "b")
    await session.add_items([said("user", "q2, otherwise")])

    assert texts(await session.get_items(branch_id="main")) == ["q1", "a1", "q2", "a2", "q3", "a3"]
    assert texts(await session.get_items(2, "main")) == ["q3", "a3"]
    assert texts(await session.get_items(branch_id="b")) == ["q1", "a1", "q2, otherwise"]
    assert await session.get_items(branch_id="never made") == []
    assert session.branch == "b"


@pytest.mark.parametrize("ended_by", ["delete_branch", "clear_session"])
async def test_the_name_of_a_branch_is_never_used_again(
    db: Database, session: MemalchemySession, ended_by: str
) -> None:
    await session.create_branch_from_turn(2, "b")
    await session.create_branch_from_turn(1, "empty from the start")
    await session.switch_to_branch("main")
    if ended_by == "delete_branch":
        await session.delete_branch("b")
    else:
        await session.clear_session()
        await session.add_items([said("user", "anew"), said("user", "and again")])

    for maker in (session, MemalchemySession("talk", db)):
        for name in ("b", "empty from the start"):
            with pytest.raises(ValueError, match="already been used"):
                await maker.create_branch_from_turn(2, name)
            with pytest.raises(ValueError, match="already been used"):
                await maker.create_branch(name)
        assert maker.branch == "main"
    assert await MemalchemySession("another", db).list_branches() == []
    assert await session.create_branch_from_turn(2, "c") == "c"


async def test_a_failed_creation_of_a_branch_uses_no_name(session: MemalchemySession) -> None:
    with pytest.raises(ValueError, match="Turn 9"):
        await session.create_branch_from_turn(9, "b")

    assert await session.create_branch_from_turn(2, "b") == "b"


async def test_a_cleared_session_is_empty_on_every_branch_and_on_main(
    db: Database, session: MemalchemySession
) -> None:
    await session.create_branch_from_turn(2, "b")
    await session.store_run_usage(
        await run(Agent(name="a", model=Scripted("Hi.")), "q2, otherwise", session)
    )
    elsewhere = MemalchemySession("talk", db, branch="b")
    queued = MemalchemySession("talk", db, branch="b")

    await session.clear_session()

    assert session.branch == "main"
    assert await session.list_branches() == []
    assert await session.get_session_usage() is None
    assert await session.get_items(branch_id="b") == []
    await session.add_items([said("user", "anew"), said("user", "more")])
    assert texts(await elsewhere.get_items()) == ["anew", "more"]
    assert elsewhere.branch == "main"
    await queued.add_items([said("user", "last")])
    assert queued.branch == "main"
    assert texts([await MemalchemySession("talk", db, branch="b").pop_item()]) == ["last"]
    assert texts(await session.get_items()) == ["anew", "more"]
    assert [b["branch_id"] for b in await session.list_branches()] == ["main"]


async def test_the_first_append_to_a_branch_waits_for_a_clear_of_the_session(
    db: Database, session: MemalchemySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.create_branch_from_turn(1, "begins empty")
    elsewhere = MemalchemySession("talk", db, branch="begins empty")
    clear_usage, inside, going_on = session.store.clear_namespace, asyncio.Event(), asyncio.Event()

    async def waiting(*args: Any, **named: Any) -> Any:
        inside.set()
        await going_on.wait()
        return await clear_usage(*args, **named)

    monkeypatch.setattr(session.store, "clear_namespace", waiting)
    clearing = asyncio.create_task(session.clear_session())
    await inside.wait()
    adding = asyncio.create_task(elsewhere.add_items([said("user", "first of all")]))
    await give_time_to_go_wrong()
    going_on.set()
    await asyncio.gather(clearing, adding)

    assert texts(await elsewhere.get_items()) == ["first of all"]
    assert texts(await MemalchemySession("talk", db).get_items()) == ["first of all"]


async def test_adding_to_a_branch_that_another_process_deleted_is_an_error(
    db: Database, session: MemalchemySession
) -> None:
    await session.create_branch_from_turn(2, "b")
    elsewhere = MemalchemySession("talk", db, branch="b")
    await session.delete_branch("b", force=True)

    with pytest.raises(ValueError, match="'b' of session 'talk' was deleted"):
        await elsewhere.add_items([said("user", "lost?")])

    assert await elsewhere.get_items() == []
    assert [b["branch_id"] for b in await session.list_branches()] == ["main"]
    assert len(await session.get_items()) == 6


async def test_a_running_operation_stays_on_its_branch(session: MemalchemySession) -> None:
    await session.create_branch_from_turn(2, "b")

    added = asyncio.create_task(session.add_items([said("user", "for b")]))
    await asyncio.sleep(0)
    await session.switch_to_branch("main")
    await added

    assert texts(await session.get_items(branch_id="b")) == ["q1", "a1", "for b"]
    assert len(await session.get_items()) == 6


async def test_a_forced_deletion_that_fails_leaves_the_session_where_it_is(
    session: MemalchemySession,
) -> None:
    await session.create_branch_from_turn(1, "b")  # holds nothing

    with pytest.raises(ValueError, match="Branch 'b' does not exist"):
        await session.delete_branch("b", force=True)

    assert session.branch == "b"
    await session.add_items([said("user", "hello")])
    assert texts(await session.get_items(branch_id="b")) == ["hello"]


async def test_the_output_of_a_tool_search_counts_if_its_call_is_missing(db: Database) -> None:
    session = MemalchemySession("talk", db)
    call, output = {"type": "tool_search_call"}, {"type": "tool_search_output", "tools": []}
    await session.add_items([said("user", "1"), output, output])  # type: ignore[list-item]
    await session.add_items([said("user", "2"), call, output])  # type: ignore[list-item]

    assert await session.get_tool_usage() == [("tool_search", 2, 1), ("tool_search", 1, 2)]


async def test_usage_of_a_popped_turn_is_not_that_of_the_next(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = MemalchemySession("talk", db)
    result = await run(Agent(name="a", model=Scripted("one")), "1", session)
    find_turns = session._turn_positions

    async def before_others_write(*args: Any) -> Any:
        found = await find_turns(*args)
        while await session.pop_item():
            pass
        await session.add_items([said("user", "another first turn")])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(session, "_turn_positions", before_others_write)
        await session.store_run_usage(result)

    assert await session.get_turn_usage() == []


async def test_turns_are_returned_with_their_text(session: MemalchemySession) -> None:
    parts = [{"type": "input_text", "text": "x" * 150}, {"type": "input_image", "image_url": "u"}]
    await session.add_items([{"role": "user", "content": parts}])  # type: ignore[list-item]

    turns = await session.get_conversation_turns()

    assert [(turn["turn"], turn["content"]) for turn in turns[:2]] == [(1, "q1"), (2, "q2")]
    assert turns[3]["content"] == "x" * 100 + "..."
    assert turns[3]["full_content"] == parts
    (found,) = await session.find_turns_by_content("XXX")
    assert (found["turn"], found["content"]) == (4, "x" * 150)
    assert await session.find_turns_by_content("100%") == []


async def test_usage_is_returned_by_turn_and_deleted_with_it(db: Database) -> None:
    @function_tool
    def weather() -> str:
        """Tell it."""
        return "sunny"

    session = MemalchemySession("talk", db)
    model = Scripted(("weather", "{}"), "Sunny.", "Bye.", "Ciao.")
    agent = Agent(name="a", model=model, tools=[weather])
    await session.store_run_usage(await run(agent, "How is it?", session))
    await session.store_run_usage(await run(agent, "Good bye", session))

    used = await session.get_turn_usage()
    assert [(u["user_turn_number"], u["requests"], u["total_tokens"]) for u in used] == [  # type: ignore[index]
        (1, 2, 24),
        (2, 1, 12),
    ]
    one = await session.get_turn_usage(2)
    assert one["input_tokens_details"]["cached_tokens"] == 0  # type: ignore[call-overload]
    assert await session.get_turn_usage(3) == {}
    assert await session.get_tool_usage() == [("weather", 1, 1)]
    assert (await session.get_conversation_by_turns())[1] == [
        {"type": "user", "tool_name": None},
        {"type": "function_call", "tool_name": "weather"},
        {"type": "function_call_output", "tool_name": None},
        {"type": "assistant", "tool_name": None},
    ]

    await session.create_branch_from_turn(2, "b")
    assert await session.get_turn_usage() == []
    await session.store_run_usage(await run(agent, "Addio", session))
    everything = {"requests": 4, "input_tokens": 40, "output_tokens": 8, "total_tokens": 48}
    assert await session.get_session_usage() == everything | {"total_turns": 3}
    assert (await session.get_session_usage("b") or {})["total_turns"] == 1

    await session.switch_to_branch("main")
    for _ in range(2):
        await session.pop_item()
    await session.add_items([said("user", "Another second turn")])
    assert await session.get_turn_usage(2) == {}
    await session.clear_session()
    assert await session.get_session_usage("main") is None


async def test_sessions_are_listed_with_their_descriptions(
    db: Database, sessions: MemalchemySessions
) -> None:
    for session_id in ("a", "b", "c"):
        await sessions.session(session_id).add_items([said("user", session_id)])
    await sessions.describe("a", user_id="u1", title="First")
    assert await sessions.describe("a", title="The first") == {
        "user_id": "u1",
        "title": "The first",
    }
    await sessions.describe("c", user_id="u2")
    await sessions.describe("new", user_id="u1")
    await sessions.session("a").add_items([said("user", "more")])
    await ThreadLog(db, namespace=("another framework",)).append("d", 1)

    listed = await sessions.list()

    assert [info.session_id for info in listed] == ["a", "c", "b"]
    assert listed[0].metadata == {"user_id": "u1", "title": "The first"}
    assert [info.session_id for info in await sessions.list(2)] == ["a", "c"]
    assert [info.session_id for info in await sessions.list(pattern="[bc]")] == ["c", "b"]
    mine = await sessions.list(filter={"user_id": "u1"})
    assert [(info.session_id, info.updated_at is None) for info in mine] == [
        ("a", False),
        ("new", True),
    ]
    assert [i.session_id for i in await sessions.list(filter={"user_id": "u1"}, pattern="n*")] == [
        "new"
    ]
    assert await sessions.describe("a", user_id=None) == {"title": "The first"}
    assert await sessions.get("b") == listed[2]
    assert await sessions.get("none") is None


async def test_concurrent_descriptions_of_a_session_lose_nothing(
    sessions: MemalchemySessions,
) -> None:
    await asyncio.gather(*(sessions.describe("a", **{f"k{n}": n}) for n in range(6)))

    assert await sessions.describe("a") == {f"k{n}": n for n in range(6)}


async def test_sessions_are_searched(sessions: MemalchemySessions) -> None:
    one, other = sessions.session("one"), sessions.session("other")
    await one.add_items([said("user", "a zebra"), said("user", "a lion")])
    await other.add_items([said("user", "another zebra")])

    assert {hit.thread_id for hit in await sessions.search("zebra")} == {"one", "other"}
    (hit,) = await sessions.search("zebra", session_id="one")
    assert hit.value == said("user", "a zebra")
    await one.create_branch_from_turn(2, "b")
    assert len(await sessions.search("zebra", branch="b")) == 1


async def test_deleting_a_session_removes_all_of_it_and_nothing_else(
    db: Database, sessions: MemalchemySessions
) -> None:
    session = sessions.session("talk")
    agent = Agent(name="a", model=Scripted("one"))
    await session.store_run_usage(await run(agent, "1", session))
    await session.create_branch("b")
    await sessions.describe("talk", title="t")
    await sessions.session("other").add_items([said("user", "stays")])
    await ThreadLog(db).append("talk", "stays")

    assert await sessions.delete("talk") is True

    assert await sessions.delete("talk") is False
    assert await sessions.get("talk") is None
    assert await session.list_branches() == []
    assert await sessions.store.list_items(("openai",), prefix=True) == []
    assert await ThreadLog(db).count("talk") == 1
    assert [info.session_id for info in await sessions.list()] == ["other"]
    await session.switch_to_branch("main")
    await session.add_items([said("user", "again")])
    assert texts(await session.get_items()) == ["again"]


async def test_a_run_waits_for_approval_across_processes(
    db: Database, reopen: Callable[[], Database]
) -> None:
    deleted: list[str] = []

    @function_tool(needs_approval=True)
    def delete_file(name: str) -> str:
        """Delete it."""
        deleted.append(name)
        return "gone"

    def agent(*steps: Any) -> Agent[Any]:
        return Agent(name="a", model=Scripted(*steps), tools=[delete_file])

    asking = agent(("delete_file", '{"name": "x"}'))
    session = MemalchemySession("talk", db)
    result = await Runner.run(asking, "Delete x", session=session)
    assert len(result.interruptions) == 1
    runs = MemalchemyRunStates(db)
    checkpoint_id = await runs.save("talk", result.to_state(), {"asked": "ada"})
    assert await runs.list() == ["talk"]

    async with reopen() as other:
        answering = agent("Done.")
        elsewhere = MemalchemyRunStates(other)
        state = await elsewhere.load("talk", answering)
        assert state is not None
        state.approve(state.get_interruptions()[0])
        await elsewhere.save("talk", state)
        again = MemalchemySession("talk", other)
        finished = await Runner.run(answering, state, session=again)
        assert finished.final_output == "Done."
        assert await elsewhere.load("talk", answering, checkpoint_id=checkpoint_id) is not None
        assert await elsewhere.delete("talk") is True

    assert deleted == ["x"]
    assert await runs.load("talk", asking) is None
    assert await runs.delete("talk") is False
    assert texts(await session.get_items()) == ["Delete x", "delete_file", "gone", "Done."]

"""`MemalchemyHistoryProvider` and `MemalchemySessionStore` behave as the framework's own."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import uuid
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import agent_framework_scripted
import pytest
from agent_framework import (
    Agent,
    AgentSession,
    Content,
    InMemoryHistoryProvider,
    Message,
    SessionStore,
    register_state_type,
)
from agent_framework._sessions import filter_new_messages
from agent_framework_scripted import Scripted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from rivals import write_after_each_tail
from sqlalchemy import func, select

from drawn_examples import examples
from memalchemy import Database, Entry, MemalchemyError, NotSerialisable, ThreadLog
from memalchemy.integrations.agent_framework import (
    MemalchemyCheckpointStorage,
    MemalchemyHistoryProvider,
    MemalchemySessionStore,
)
from memalchemy.log import DELTAS
from memalchemy.messages import role_of, text_of
from waiting import first_lines


def said(*texts: str) -> list[Message]:
    return [Message("user" if n % 2 == 0 else "assistant", [one]) for n, one in enumerate(texts)]


def plain(messages: list[Message]) -> list[dict[str, Any]]:
    return [one.to_dict() for one in messages]


SOME = st.builds(
    lambda role, text, id_: Message(role, [text], message_id=id_),
    st.sampled_from(["user", "assistant"]),
    st.sampled_from("ab"),
    st.sampled_from([None, None, "1", "2"]),
)


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)
@given(saves=st.lists(st.lists(SOME, max_size=6), max_size=6))
async def test_saves_store_what_the_history_in_memory_stores(
    saves: list[list[Message]], db: Database
) -> None:
    ours = MemalchemyHistoryProvider(db, namespace=(uuid.uuid4().hex,))
    theirs, state = InMemoryHistoryProvider(), dict[str, Any]()
    for messages in saves:
        await ours.save_messages("s", messages)
        await theirs.save_messages("s", messages, state=state)
        assert plain(await ours.get_messages("s")) == plain(
            await theirs.get_messages("s", state=state)
        )


def test_the_framework_still_has_the_function_that_finds_the_overlap() -> None:
    one, two, three = said("a", "b", "c")
    assert filter_new_messages([one, two], [one, two, three]) == [three]
    assert filter_new_messages([one, two], [two, three]) == [three]
    assert filter_new_messages([], [one]) == [one]


async def test_a_transcript_that_is_replayed_each_turn_grows_by_what_is_new(db: Database) -> None:
    history = MemalchemyHistoryProvider(db)
    texts: list[str] = []
    for number in range(20):
        texts += [f"question {number}", f"answer {number}"]
        await history.save_messages("s", said(*texts))
    assert [one.text for one in await history.get_messages("s")] == texts
    assert await history.log.count("s") == 40


async def test_a_save_reads_no_more_than_it_writes_however_long_the_history_is(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = MemalchemyHistoryProvider(db)
    await history.save_messages("s", said(*map(str, range(500))))
    read: list[int] = []
    tail = history.log.tail

    async def counted(*given: Any, **options: Any) -> list[Entry]:
        found = await tail(*given, **options)
        read.append(len(found))
        return found

    for name in ("scan", "read", "range"):
        monkeypatch.delattr(ThreadLog, name)
    monkeypatch.setattr(history.log, "tail", counted)
    await history.save_messages("s", said("next", "and its answer"))
    assert read == [3]
    assert await history.log.count("s") == 502


async def test_messages_come_back_as_they_were_and_share_nothing(db: Database) -> None:
    history = MemalchemyHistoryProvider(db)
    message = Message(
        "assistant",
        [
            "words",
            Content.from_data(b"\0\xff", "image/png"),
            Content.from_function_call("c", "tool", arguments={"a": [1]}),
        ],
        author_name="Ada",
        message_id="m",
        additional_properties={"deep": {"list": [1, None, 2.5]}},
    )
    await history.save_messages("s", [message])
    for _ in range(2):
        (found,) = await history.get_messages("s")
        assert found.to_dict() == message.to_dict()
        found.contents.clear()
        found.additional_properties.clear()
    (entry,) = await ThreadLog(db, namespace=history.namespace).tail("s")
    assert (role_of(entry.value), text_of(entry.value)) == ("assistant", "words")
    (hit,) = await history.log.search("words")
    assert hit.position == entry.position


async def test_sessions_and_sources_are_apart_and_excluded_messages_may_be_left_out(
    db: Database,
) -> None:
    one, two = (MemalchemyHistoryProvider(db, source_id=name) for name in ("one", "two"))
    await one.save_messages("s", said("a"))
    await one.save_messages(None, said("b"))
    await two.save_messages("s", said("c"))
    assert [m.text for m in await one.get_messages("s")] == ["a"]
    assert [m.text for m in await one.get_messages(None)] == ["b"]
    assert [m.text for m in await two.get_messages("s")] == ["c"]

    hidden = Message("user", ["d"], additional_properties={"_excluded": True})
    await two.save_messages("s", [hidden])
    skipping = MemalchemyHistoryProvider(db, source_id="two", skip_excluded=True)
    assert [m.text for m in await skipping.get_messages("s")] == ["c"]
    assert [m.text for m in await two.get_messages("s")] == ["c", "d"]
    with pytest.raises(MemalchemyError, match="255"):
        await one.save_messages("x" * 256, said("a"))


async def test_of_saves_at_once_none_is_lost_or_torn(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        histories = [MemalchemyHistoryProvider(db), MemalchemyHistoryProvider(other)]
        await asyncio.gather(
            *(histories[n % 2].save_messages("s", said(f"q{n}", f"a{n}")) for n in range(20))
        )
        texts = [one.text for one in await histories[0].get_messages("s")]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    assert sorted(pairs) == sorted((f"q{n}", f"a{n}") for n in range(20))


async def test_a_save_ends_however_often_others_save_before_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = MemalchemyHistoryProvider(db), MemalchemyHistoryProvider(db)
    await theirs.save_messages("s", said("q0"))
    numbers = itertools.count(1)
    rivals = write_after_each_tail(
        monkeypatch, ours.log, lambda: theirs.save_messages("s", said(f"q{next(numbers)}"))
    )
    await ours.save_messages("s", said("ours"))
    await asyncio.gather(*rivals)
    assert [one.text for one in await theirs.get_messages("s")] == ["q0", "q1", "ours", "q2"]


async def test_a_transcript_that_is_saved_several_times_at_once_is_stored_once(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        histories = [MemalchemyHistoryProvider(db), MemalchemyHistoryProvider(other)]
        transcript = said("q1", "a1", "q2", "a2")
        await asyncio.gather(*(histories[n % 2].save_messages("s", transcript) for n in range(10)))
        assert plain(await histories[0].get_messages("s")) == plain(transcript)


async def test_an_agent_goes_on_after_a_restart(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    first = Agent(client=Scripted("Hello Ada."), context_providers=[MemalchemyHistoryProvider(db)])
    await first.run("I am Ada.", session=AgentSession(session_id="s"))
    async with reopen() as later:
        client = Scripted("Ada.")
        agent = Agent(client=client, context_providers=[MemalchemyHistoryProvider(later)])
        await agent.run("Who am I?", session=AgentSession(session_id="s"))
        assert client.heard == [["I am Ada.", "Hello Ada.", "Who am I?"]]
        assert len(await MemalchemyHistoryProvider(later).get_messages("s")) == 4


async def test_a_killed_process_loses_no_acknowledged_write(
    shared_url: str, db: Database, lasting: None
) -> None:
    history, storage = MemalchemyHistoryProvider(db), MemalchemyCheckpointStorage(db)
    acknowledged: set[int] = set()
    for _ in range(3):
        process = subprocess.Popen(  # noqa: ASYNC220 - nobody else waits
            [sys.executable, agent_framework_scripted.__file__, shared_url, db.tenant],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        lines = first_lines(process.stdout, 8)
        process.kill()
        rest, errors = process.communicate()
        assert len(lines) == 8, errors
        acknowledged |= {int(line) for line in (*lines, *rest.split())}

        texts = [one.text for one in await history.get_messages("s")]
        assert texts == [str(number) for number in range(len(texts))]
        assert len(texts) > max(acknowledged)
        found = await storage.list_checkpoints(workflow_name="w")
        assert acknowledged <= {int(one.checkpoint_id) for one in found}
        assert all(one.state == {"n": [int(one.checkpoint_id)] * 9} for one in found)


# --- Sessions -------------------------------------------------------------------------------------


class Preference(BaseModel):
    city: str


register_state_type(Preference, type_id="memalchemy.tests.preference")


async def test_a_session_comes_back_with_its_registered_objects_and_shares_nothing(
    db: Database,
) -> None:
    store = MemalchemySessionStore(db)
    session = AgentSession(session_id="s", service_session_id={"conversation": "c"})
    session.state |= {"messages": said("a", "b"), "preference": Preference(city="Oslo"), "n": [1]}
    await store.set("key", session)
    session.state["n"].append(2)

    for _ in range(2):
        found = await store.get("key")
        assert found is not None
        assert (found.session_id, found.service_session_id) == ("s", {"conversation": "c"})
        assert plain(found.state["messages"]) == plain(said("a", "b"))
        assert (found.state["preference"], found.state["n"]) == (Preference(city="Oslo"), [1])
        found.state["n"].append(3)
    assert isinstance(store, SessionStore)
    await store.delete("key")
    await store.delete("key")
    assert await store.get("key") is None


async def test_what_cannot_be_stored_is_refused_and_the_stored_session_stays(db: Database) -> None:
    store = MemalchemySessionStore(db)
    session = AgentSession(session_id="s")
    session.state["n"] = 1
    await store.set("s", session)
    session.state["n"] = object()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(NotSerialisable):
            await store.set("s", session)

    class Special(AgentSession):
        pass

    with pytest.raises(TypeError, match="Special"):
        await store.set("s", Special())
    for id_ in ("", None):
        for call in (store.get(id_), store.set(id_, session), store.delete(id_)):  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="non-empty"):
                await call
    found = await store.get("s")
    assert found is not None
    assert found.state == {"n": 1}


async def test_a_datetime_in_a_state_comes_back_although_the_framework_warns_of_it(
    db: Database,
) -> None:
    store, session = MemalchemySessionStore(db), AgentSession(session_id="s")
    session.state["when"] = datetime(2026, 1, 2, tzinfo=UTC)
    with pytest.warns(RuntimeWarning, match="unsupported type"):
        await store.set("s", session)
    found = await store.get("s")
    assert found is not None
    assert found.state == session.state


async def test_a_session_that_grows_is_stored_as_differences(db: Database) -> None:
    store, session = MemalchemySessionStore(db), AgentSession(session_id="s")
    session.state["messages"] = []
    for number in range(100):
        session.state["messages"] += said(f"{uuid.uuid4()} {number}")
        await store.set("s", session)
    size = select(func.sum(func.length(DELTAS.c.payload))).where(DELTAS.c.tenant == db.tenant)
    stored = await db.run_sync(lambda connection: connection.scalar(size))
    kept = [one async for one in store.checkpointer.history("s")]
    assert len(kept) <= 16
    info = kept[0]
    assert stored < info.raw_size, "100 states take less than the last one alone"

"""`MemalchemySessionService`: what ADK promises of a session service, on every database."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import adk_events_to_kill
import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from memalchemy import Database, ThreadLog, TooLarge
from memalchemy.events import subscribe
from memalchemy.integrations.google_adk import MemalchemySessionService
from waiting import first_lines

ADA: dict[str, Any] = {"app_name": "app", "user_id": "ada"}
BOB: dict[str, Any] = {"app_name": "app", "user_id": "bob"}


def event(text: str = "", **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)]) if text else None
    return Event(**{"author": "user", "invocation_id": "run", "content": content} | fields)


def changing(**state: Any) -> Event:
    """An event that changes state; ``app__x`` stands for ``app:x``."""
    delta = {name.replace("__", ":"): value for name, value in state.items()}
    return event(actions=EventActions(state_delta=delta))


def texts(session: Session | None) -> list[str]:
    assert session is not None
    parts = [one.content.parts or [] for one in session.events if one.content is not None]
    return [str(part.text) for some in parts for part in some]


async def read(service: BaseSessionService, session: Session, **config: Any) -> Session:
    found = await service.get_session(
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        config=GetSessionConfig(**config) if config else None,
    )
    assert found is not None
    return found


@pytest.fixture
def service(db: Database) -> MemalchemySessionService:
    return MemalchemySessionService(db)


async def test_a_session_is_read_as_it_was_created(service: MemalchemySessionService) -> None:
    created = await service.create_session(**ADA, state={"topic": "gates", "none": None})

    assert await read(service, created) == created
    assert created.state == {"topic": "gates", "none": None}
    assert created.events == []
    assert abs(created.last_update_time - datetime.now(UTC).timestamp()) < 60
    assert await service.get_session(**ADA, session_id="other") is None
    await service.delete_session(**ADA, session_id="other")
    await service.delete_session(**ADA, session_id=created.id)
    assert await service.get_session(**ADA, session_id=created.id) is None


async def test_an_event_is_read_as_it_was_appended(service: MemalchemySessionService) -> None:
    session = await service.create_session(**ADA)
    complete = Event(
        invocation_id="invocation",
        author="guide",
        content=types.Content(
            role="user",
            parts=[
                types.Part(text="text"),
                types.Part.from_bytes(data=b"\x00picture", mime_type="image/png"),
                types.Part(
                    function_call=types.FunctionCall(id="c1", name="look", args={"at": [1, None]}),
                    thought_signature=b"\xffsignature",
                ),
            ],
        ),
        turn_complete=True,
        partial=False,
        actions=EventActions(
            state_delta={"a": None, "b": {"c": [None, 1.5, "é\u0000"]}},
            artifact_delta={"file": 0},
            transfer_to_agent="agent",
            escalate=True,
        ),
        long_running_tool_ids={"tool1", "tool2"},
        error_code="error_code",
        interrupted=True,
        grounding_metadata=types.GroundingMetadata(
            web_search_queries=["query1"],
            search_entry_point=types.SearchEntryPoint(sdk_blob=b"test_sdk_blob"),
        ),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
        custom_metadata={"custom_key": "custom_value"},
        branch="a.b",
        timestamp=1700000000.123,
        input_transcription=types.Transcription(text="in", finished=True),
    )
    assert await service.append_event(session, complete) is complete

    assert session.events == [complete]
    assert await read(service, session) == session
    assert (await read(service, session)).events[0].content == complete.content


async def test_state_has_three_scopes_which_are_merged(service: MemalchemySessionService) -> None:
    first = await service.create_session(
        **ADA, session_id="1", state={"app:a": 1, "user:u": 1, "s": 1, "temp:t": 1}
    )
    await service.append_event(first, changing(app__b=2, user__v=2, r=2))
    second = await service.create_session(**ADA, session_id="2")
    bobs = await service.create_session(**BOB, session_id="1")
    elsewhere = await service.create_session(app_name="other", user_id="ada", session_id="1")

    shared = {"app:a": 1, "app:b": 2}
    of_ada = {"user:u": 1, "user:v": 2}
    assert (await read(service, first)).state == shared | of_ada | {"s": 1, "r": 2}
    assert first.state == (await read(service, first)).state
    assert second.state == shared | of_ada
    assert bobs.state == shared
    assert elsewhere.state == {}
    assert await service.get_user_state(**ADA) == {"u": 1, "v": 2}
    assert await service.get_user_state(**BOB) == {}
    listed = (await service.list_sessions(app_name="app")).sessions
    assert {(one.user_id, one.id): one.state for one in listed} == {
        ("ada", "1"): shared | of_ada | {"s": 1, "r": 2},
        ("ada", "2"): shared | of_ada,
        ("bob", "1"): shared,
    }


async def test_temporary_state_reaches_the_object_alone(service: MemalchemySessionService) -> None:
    session = await service.create_session(**ADA)
    appended = await service.append_event(session, changing(temp__t=1, s=2))

    assert session.state == {"temp:t": 1, "s": 2}
    assert appended.actions.state_delta == {"s": 2}
    found = await read(service, session)
    assert found.state == {"s": 2}
    assert found.events[0].actions.state_delta == {"s": 2}


async def test_a_partial_event_is_stored_nowhere(service: MemalchemySessionService) -> None:
    session = await service.create_session(**ADA)
    partial = event("half", partial=True, actions=EventActions(state_delta={"temp:x": 1, "y": 2}))

    assert await service.append_event(session, partial) is partial
    assert (session.events, session.state) == ([], {})
    assert await read(service, session) == session


async def test_an_event_that_is_delivered_twice_is_stored_once(
    service: MemalchemySessionService,
) -> None:
    session = await service.create_session(**ADA)
    once = event("hello", id="one")
    await service.append_event(session, once)
    await service.append_event(session, once.model_copy(deep=True))

    assert texts(await read(service, session)) == texts(session) == ["hello"]


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(),
    st.text("aé\0文", max_size=4),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.text("ab", max_size=3).map(str.encode),
)
HASHABLE = st.one_of(st.integers(0, 9), st.text("abcdef", max_size=3))
VALUES = st.recursive(
    st.one_of(
        PLAIN,
        st.sets(HASHABLE, max_size=6),
        st.frozensets(st.text("abcdefgh", min_size=2, max_size=3), max_size=6),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text("xyz", min_size=1, max_size=2), inner, max_size=3),
    ),
    max_leaves=6,
)
KEYS = st.builds(
    str.__add__, st.sampled_from(["", "temp:", "app:", "user:"]), st.sampled_from("kl")
)
EVENTS = st.builds(
    event,
    st.text("ab ", max_size=5),
    id=st.one_of(st.uuids().map(str), st.sampled_from(["e" * 200, "文" * 90, "a b"])),
    timestamp=st.floats(0, 4e9),
    long_running_tool_ids=st.none() | st.sets(st.text("abc", min_size=1, max_size=3), max_size=5),
    custom_metadata=st.none() | st.dictionaries(st.sampled_from("mn"), VALUES, max_size=2),
    actions=st.builds(EventActions, state_delta=st.dictionaries(KEYS, VALUES, max_size=3)),
)


def rebuilt(one: Event) -> Event:
    """An equal event of new objects, whose sets were filled in another order."""
    return one.model_copy(
        update={
            "actions": one.actions.model_copy(
                update={"state_delta": turned(one.actions.state_delta)}
            ),
            "custom_metadata": turned(one.custom_metadata),
            "long_running_tool_ids": turned(one.long_running_tool_ids),
        }
    )


def turned(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        # Members that were taken out leave a larger table, with another order.
        larger = set(range(1000, 1100)) | set(reversed(sorted(value, key=repr)))
        return type(value)(larger - set(range(1000, 1100)))
    if isinstance(value, list | tuple):
        return type(value)(map(turned, value))
    if isinstance(value, dict):
        return {name: turned(one) for name, one in value.items()}
    return value


@given(
    one=EVENTS, later=st.booleans(), road=st.sampled_from(["same", "reloaded", "recent", "bare"])
)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_an_event_that_is_appended_again_is_stored_once_whatever_it_holds(
    db: Database, one: Event, later: bool, road: str
) -> None:
    service = MemalchemySessionService(db)
    session = await service.create_session(**ADA)
    await service.append_event(session, rebuilt(one))
    if later:  # what the event changes is not changed back
        for key in ("k", "app:k", "user:k"):
            await service.append_event(session, changing(**{key.replace(":", "__"): "later"}))
    before = await read(service, session)

    again = session
    if road != "same":
        config = {"recent": {"num_recent_events": 0}, "bare": {"num_recent_events": 1}}
        service = MemalchemySessionService(db)
        again = await read(service, session, **config.get(road, {}))
    for _ in range(2):
        await service.append_event(again, rebuilt(one))

    assert repr(await read(service, session)) == repr(before)
    for name, value in one.actions.state_delta.items():
        if name.startswith("temp:"):
            assert repr(again.state[name]) == repr(turned(value))


@given(
    one=EVENTS,
    change=st.sampled_from(["author", "text", "state", "metadata", "more"]),
    road=st.sampled_from(["same", "reloaded", "recent"]),
)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_another_event_with_an_id_that_exists_is_refused(
    db: Database, one: Event, change: str, road: str
) -> None:
    service = MemalchemySessionService(db)
    session = await service.create_session(**ADA)
    await service.append_event(session, rebuilt(one))
    before = await read(service, session)
    if road != "same":
        session = await read(
            service, session, **({"num_recent_events": 0} if road == "recent" else {})
        )
    delta = one.actions.state_delta
    changes: dict[str, Any] = {
        "author": {"author": f"not {one.author}"},
        "text": {"content": types.Content(role="user", parts=[types.Part(text="quite another")])},
        "state": {"actions": EventActions(state_delta=delta | {"k": "quite another"})},
        "more": {"actions": EventActions(state_delta=delta | {"user:new": {1, 2}})},
        "metadata": {"custom_metadata": {"m": "quite another"}},
    }
    other = rebuilt(one).model_copy(update=changes[change])

    with pytest.raises(AlreadyExistsError, match="Another event with id"):
        await service.append_event(session, other)

    assert repr(await read(service, session)) == repr(before)


async def test_a_session_that_was_changed_in_storage_is_stale(
    service: MemalchemySessionService,
) -> None:
    original = await service.create_session(**ADA)
    await service.append_event(original, changing(first=1))
    newer = await read(service, original)
    await service.append_event(newer, changing(second=2))

    with pytest.raises(ValueError, match="modified in storage") as raised:
        await service.append_event(original, changing(third=3, app__third=3, temp__third=3))
    assert isinstance(raised.value, StaleSessionError)
    assert len(original.events) == 1
    found = await read(service, original)
    assert (len(found.events), found.state) == (2, {"first": 1, "second": 2})

    reloaded = await read(service, original)
    await service.append_event(reloaded, changing(third=3))
    assert (await read(service, original)).state == {"first": 1, "second": 2, "third": 3}


async def test_of_two_copies_of_a_session_one_may_append(service: MemalchemySessionService) -> None:
    created = await service.create_session(**ADA)
    for _ in range(8):
        latest = await read(service, created)
        copies = [latest.model_copy(deep=True), latest.model_copy(deep=True)]
        results = await asyncio.gather(
            *(service.append_event(one, changing(n=1)) for one in copies), return_exceptions=True
        )
        assert {type(one) for one in results} == {Event, StaleSessionError}
    assert len((await read(service, created)).events) == 8


async def test_appends_to_one_object_take_turns(service: MemalchemySessionService) -> None:
    session = await service.create_session(**ADA)
    await asyncio.gather(*(service.append_event(session, event(str(n))) for n in range(20)))

    assert texts(await read(service, session)) == texts(session)
    assert sorted(texts(session), key=int) == [str(n) for n in range(20)]


async def test_a_session_of_another_service_may_go_on_here(
    service: MemalchemySessionService,
) -> None:
    session = await service.create_session(**ADA)
    await service.append_event(session, event("1"))
    rounded = session.model_copy(deep=True)
    rounded._storage_update_marker, rounded.last_update_time = None, session.last_update_time - 1
    await service.append_event(rounded, event("2"))
    assert texts(await read(service, session)) == ["1", "2"]

    old = await read(service, session)
    await service.append_event(rounded, event("3"))
    old._storage_update_marker, old.last_update_time = "2026-01-01T00:00:00", 0
    with pytest.raises(StaleSessionError):
        await service.append_event(old, event("4"))
    stranger = Session(id="nowhere", **ADA)
    with pytest.raises(SessionNotFoundError):
        await service.append_event(stranger, event("4"))


async def test_a_deleted_session_takes_no_event_even_if_it_is_made_anew(
    service: MemalchemySessionService,
) -> None:
    session = await service.create_session(**ADA, session_id="1", state={"s": 1, "user:u": 1})
    await service.append_event(session, event("gone"))
    loaded = await read(service, session)
    await service.delete_session(**ADA, session_id="1")
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, event("late"))

    anew = await service.create_session(**ADA, session_id="1")
    assert (anew.events, anew.state) == ([], {"user:u": 1})
    await service.append_event(anew, event("new"))
    with pytest.raises(StaleSessionError):
        await service.append_event(loaded, event("late"))
    assert texts(await read(service, anew)) == ["new"]


async def test_ids_are_stripped_and_taken_once(service: MemalchemySessionService) -> None:
    session = await service.create_session(**ADA, session_id="  one ", state={"user:n": 1})
    assert session.id == "one"
    for same in ("one", " one"):
        with pytest.raises(AlreadyExistsError, match="one already exists"):
            await service.create_session(**ADA, session_id=same, state={"user:n": 2})
    assert await service.get_user_state(**ADA) == {"n": 1}
    assert (await service.get_session(**ADA, session_id=" one  ")) == session
    blank = await service.create_session(**ADA, session_id="  ")
    assert blank.id.strip()
    await service.delete_session(**ADA, session_id="one ")
    assert await service.get_session(**ADA, session_id="one") is None


async def test_of_several_that_create_one_session_one_succeeds(
    service: MemalchemySessionService,
) -> None:
    results = await asyncio.gather(
        *(service.create_session(**ADA, session_id="1", state={"n": n}) for n in range(6)),
        return_exceptions=True,
    )

    (created,) = [one for one in results if isinstance(one, Session)]
    assert {type(one) for one in results} == {Session, AlreadyExistsError}
    assert await read(service, created) == created


async def test_users_and_apps_may_have_sessions_of_the_same_id(
    service: MemalchemySessionService,
) -> None:
    owners = [ADA, BOB, {"app_name": "app/ada", "user_id": ""}, {"app_name": "", "user_id": "a/b"}]
    for owner in owners:
        session = await service.create_session(**owner, session_id="s1", state={"whose": owner})
        await service.append_event(session, event(repr(owner)))
    for owner in owners:
        found = await service.get_session(**owner, session_id="s1")
        assert texts(found) == [repr(owner)]
        listed = (await service.list_sessions(**owner)).sessions
        assert [one.state for one in listed] == [{"whose": owner}]
    await service.delete_session(**ADA, session_id="s1")
    assert await service.get_session(**BOB, session_id="s1") is not None


async def test_the_last_update_is_the_time_of_the_last_event(
    service: MemalchemySessionService,
) -> None:
    session = await service.create_session(**ADA)
    for timestamp in (session.last_update_time + 10, 1700000000.123456789, 5.0, 1.7e12, -1e11):
        await service.append_event(session, event(timestamp=timestamp))
        assert session.last_update_time == timestamp
        assert (await read(service, session)).last_update_time == timestamp
        assert (await read(service, session)).events[-1].timestamp == timestamp


async def test_sessions_are_listed_without_events_the_oldest_first(
    service: MemalchemySessionService,
) -> None:
    for number, name in enumerate(("c", "a", "b")):
        session = await service.create_session(**ADA, session_id=name)
        await service.append_event(session, event(name, timestamp=1000.0 - number))
    listed = (await service.list_sessions(**ADA)).sessions

    assert [one.id for one in listed] == ["b", "a", "c"]
    assert [one.last_update_time for one in listed] == [998.0, 999.0, 1000.0]
    assert [one.events for one in listed] == [[], [], []]
    await service.append_event(listed[0], event("goes on"))
    assert (await service.list_sessions(app_name="none")).sessions == []
    assert (await service.list_sessions(**BOB)).sessions == []


async def test_a_part_of_the_events_may_be_read(service: MemalchemySessionService) -> None:
    session = await service.create_session(**ADA, state={"s": 1})
    for number in range(1, 6):
        await service.append_event(session, event(str(number), timestamp=float(number)))

    async def some(**config: Any) -> list[str]:
        found = await read(service, session, **config)
        assert found.state == {"s": 1}
        return texts(found)

    assert await some() == ["1", "2", "3", "4", "5"]
    assert await some(num_recent_events=0) == []
    assert await some(num_recent_events=3) == ["3", "4", "5"]
    assert await some(num_recent_events=30) == ["1", "2", "3", "4", "5"]
    assert await some(after_timestamp=4.0) == ["4", "5"]
    assert await some(after_timestamp=4.0000001) == ["5"]
    assert await some(after_timestamp=50) == []
    assert await some(after_timestamp=0.0) == ["1", "2", "3", "4", "5"]
    assert await some(after_timestamp=4.0, num_recent_events=3) == ["4", "5"]
    assert await some(after_timestamp=1.0, num_recent_events=2) == ["4", "5"]
    for limit, count in ((-math.inf, 5), (math.inf, 0), (1e300, 0)):
        assert len(await some(after_timestamp=limit)) == count


async def test_what_is_given_and_read_are_copies(service: MemalchemySessionService) -> None:
    shared: dict[str, Any] = {"list": [1]}
    session = await service.create_session(**ADA, state={"own": shared, "app:all": shared})
    await service.append_event(session, changing(later=shared, user__u=shared))
    shared["list"].append(2)
    session.state["own"]["list"].append(3)
    session.events[0].actions.state_delta["later"]["list"].append(4)
    found = await read(service, session)
    found.state["app:all"]["list"].append(5)
    (await service.get_user_state(**ADA))["u"]["list"].append(6)
    (await service.list_sessions(**ADA)).sessions[0].state["own"]["list"].append(7)

    whole = {"list": [1]}
    stored = await read(service, session)
    assert stored.state == {"own": whole, "app:all": whole, "later": whole, "user:u": whole}
    assert stored.events[0].actions.state_delta == {"later": whole, "user:u": whole}


async def test_a_function_in_state_is_stored_as_its_text_and_changes_nothing_beside_it(
    service: MemalchemySessionService,
) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    session = await service.create_session(**ADA, state={"when": when, "call": len})
    assert session.state == {"when": when, "call": str(len)}
    await service.append_event(session, changing(call=print, kinds={1}, pair=(1, b"2")))
    known = {"when": when, "call": str(print), "kinds": {1}, "pair": (1, b"2")}
    assert (await read(service, session)).state == known


async def test_what_cannot_be_stored_changes_nothing(service: MemalchemySessionService) -> None:
    session = await service.create_session(**ADA)
    for state in ({"a": 1, "app:" + 300 * "k": 1}, {"a": 1, 300 * "k": 1}):
        with pytest.raises(TooLarge):
            await service.append_event(session, event(actions=EventActions(state_delta=state)))
        with pytest.raises(TooLarge):
            await service.create_session(**BOB, state=state)
    with pytest.raises(TooLarge):
        await service.create_session(**BOB, session_id=300 * "i")

    assert (session.events, session.state) == ([], {})
    assert await read(service, session) == session
    assert (await service.list_sessions(**BOB)).sessions == []


async def test_events_are_entries_of_a_log_with_words(service: MemalchemySessionService) -> None:
    session = await service.create_session(**ADA, session_id="1")
    await service.append_event(session, event("where is the lighthouse"))
    log = ThreadLog(service.db, namespace=("google_adk", "events", "app", "ada"))

    (hit,) = await log.search("lighthouse")
    assert (hit.thread_id, hit.value["author"]) == ("1", "user")
    assert hit.occurred_at.timestamp() == pytest.approx(session.last_update_time, abs=1e-6)
    quiet = MemalchemySessionService(service.db, namespace=("quiet",), index_text=False)
    other = await quiet.create_session(**ADA, session_id="1")
    await quiet.append_event(other, event("the lighthouse again"))
    assert len(await log.search("lighthouse")) == 1
    assert await quiet.log("app", "ada").search("lighthouse") == []


async def test_round_trips_do_not_grow_with_what_is_there(
    service: MemalchemySessionService,
) -> None:
    trips: list[int] = []

    async def trips_of(work: Any) -> int:
        trips.clear()
        unsubscribe = subscribe(lambda one: trips.append(one.round_trips))
        try:
            await work
        finally:
            unsubscribe()
        return sum(trips)

    counts = []
    for number in range(2):
        for n in range(4):
            session = await service.create_session(
                **ADA, session_id=f"{number}-{n}", state={f"{number}{n}": 1}
            )
        counts.append(
            (
                await trips_of(read(service, session)),
                await trips_of(service.append_event(session, event("x"))),
                await trips_of(service.list_sessions(app_name="app")),
            )
        )
        for _ in range(5):
            await service.append_event(session, changing(a=1, b=2, app__c=3))
    assert counts[0] == counts[1]
    assert counts[0][0] == 4
    if service.db.dialect.name == "postgresql":
        # Three of them look whether the id of the event is there, under the lock of the log.
        most = 7 if service.db.dialect.distributed else 5
        assert counts[0][1] == most, "beside the beginning and the end of the transaction"


# --- Beside ADK's own -------------------------------------------------------------------------

keys = st.sampled_from(["x", "y", "app:x", "app:z", "user:x", "user:z", "temp:x"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)
states = st.dictionaries(keys, values, max_size=3)
owners = st.tuples(st.sampled_from(["app", "b"]), st.sampled_from(["ada", "bob"]))
ids = st.sampled_from(["1", "2"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), owners, ids, states),
        st.tuples(st.just("append"), owners, ids, states, st.booleans()),
        st.tuples(st.just("append"), owners, ids, states, st.just(False)),
        st.tuples(st.just("delete"), owners, ids),
    ),
    min_size=4,
    max_size=16,
)


async def do(service: BaseSessionService, step: tuple[Any, ...], clock: int) -> Any:
    kind, (app_name, user_id), id_, *more = step
    owner = {"app_name": app_name, "user_id": user_id}
    try:
        if kind == "create":
            return await service.create_session(**owner, session_id=id_, state=more[0])
        if kind == "delete":
            return await service.delete_session(**owner, session_id=id_)
        session = await service.get_session(**owner, session_id=id_)
        if session is None:
            return None
        await service.append_event(
            session,
            event(
                f"at {clock}",
                id=str(clock),
                timestamp=float(clock),
                partial=more[1],
                actions=EventActions(state_delta=dict(more[0])),
            ),
        )
    except AlreadyExistsError as error:
        return str(error)
    return session


async def all_of(service: BaseSessionService, clock: int) -> list[Any]:
    found: list[Any] = []
    for app_name in ("app", "b"):
        every = (await service.list_sessions(app_name=app_name)).sessions
        found.append({(one.user_id, one.id, str(one.state), len(one.events)) for one in every})
        for user_id in ("ada", "bob"):
            owner = {"app_name": app_name, "user_id": user_id}
            found.append(await service.get_user_state(**owner))
            for id_ in ("1", "2"):
                for config in (
                    None,
                    GetSessionConfig(num_recent_events=2),
                    GetSessionConfig(after_timestamp=float(clock - 2)),
                ):
                    found.append(await service.get_session(**owner, session_id=id_, config=config))
    return found


def comparable(found: Any) -> Any:
    """Without the time of a session that has no event: that is the clock's."""
    if isinstance(found, list):
        return list(map(comparable, found))
    if isinstance(found, Session):
        dumped = found.model_dump(exclude={"last_update_time"} if not found.events else None)
        return dumped | {"state": sorted(dumped["state"].items(), key=lambda one: one[0])}
    if isinstance(found, set):
        return {(*one[:2], "".join(sorted(one[2])), one[3]) for one in found}
    return found


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
async def test_it_does_what_adks_service_in_memory_does(
    db: Database, steps: list[tuple[Any, ...]]
) -> None:
    theirs = InMemorySessionService()
    ours = MemalchemySessionService(db, namespace=(os.urandom(6).hex(),))
    for clock, step in enumerate(steps, start=1):
        expected, found = await do(theirs, step, clock), await do(ours, step, clock)
        assert comparable(found) == comparable(expected)
    clock = len(steps)
    assert comparable(await all_of(ours, clock)) == comparable(await all_of(theirs, clock))


# --- Several processes ------------------------------------------------------------------------


async def test_several_databases_share_state_and_lose_none_of_it(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async def work(number: int) -> None:
        async with reopen() as own:
            service = MemalchemySessionService(own)
            session = await service.create_session(**ADA, session_id=str(number))
            for n in range(8):
                state = {f"app__{number}_{n}": n, "app__last": number, f"user__{number}_{n}": n}
                await service.append_event(session, changing(**state, own=n))

    await asyncio.gather(*(work(number) for number in range(4)))

    service = MemalchemySessionService(db)
    sessions = (await service.list_sessions(**ADA)).sessions
    assert len(sessions) == 4
    for session in sessions:
        assert len((await read(service, session)).events) == 8
        assert session.state["own"] == 7
        shared = {f"app:{number}_{n}": n for number in range(4) for n in range(8)}
        assert {name: session.state[name] for name in shared} == shared
    assert len(await service.get_user_state(**ADA)) == 32


TOLD = 25


@pytest.mark.alone
async def test_a_killed_process_loses_no_acknowledged_event_and_leaves_no_half(
    shared_url: str, db: Database, lasting: None
) -> None:
    process = subprocess.Popen(  # noqa: ASYNC220 - nobody else waits
        [sys.executable, adk_events_to_kill.__file__, shared_url, db.tenant],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    lines = first_lines(process.stdout, TOLD)
    process.kill()
    rest, errors = process.communicate()
    assert len(lines) == TOLD, errors
    told = len([*lines, *(line for line in rest.splitlines(keepends=True) if line.endswith("\n"))])

    service = MemalchemySessionService(db)
    session = await service.get_session(**ADA, session_id="killed")
    assert session is not None
    count = len(session.events)
    assert count in (told, told + 1)
    assert texts(session) == [str(n) for n in range(count)]
    state = {f"{scope}n": count - 1 for scope in ("", "app:", "user:")}
    assert session.state == state
    assert session.last_update_time == session.events[-1].timestamp
    await service.append_event(session, event("goes on"))


# --- ADK itself -------------------------------------------------------------------------------


class Scripted(BaseLlm):
    """A model that says how it shall be, and how many contents it was sent."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        mood = "calm" if "You are calm." in str(llm_request.config.system_instruction) else "?"
        text = f"{mood} heard {len(llm_request.contents)}"
        part = types.Content(role="model", parts=[types.Part(text=text)])
        yield LlmResponse(content=part, partial=True)
        yield LlmResponse(content=part)


async def test_a_run_continues_in_another_process(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    def runner(on: Database) -> Runner:
        def begin(callback_context: CallbackContext) -> None:
            callback_context.state["temp:mood"] = "calm"
            callback_context.state["app:runs"] = callback_context.state.get("app:runs", 0) + 1

        agent = LlmAgent(
            name="guide",
            model=Scripted(),
            instruction="You are {temp:mood}.",
            output_key="user:said",
            before_agent_callback=begin,
        )
        service = MemalchemySessionService(on)
        return Runner(app_name="app", agent=agent, session_service=service)

    async def say(one: Runner, text: str) -> list[str]:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        return [
            f"{said.author}: {said.content.parts[0].text}"
            async for said in one.run_async(user_id="ada", session_id="1", new_message=message)
            if not said.partial and said.content and said.content.parts
        ]

    first = runner(db)
    await first.session_service.create_session(**ADA, session_id="1")
    assert await say(first, "Hello") == ["guide: calm heard 1"]
    async with reopen() as other:
        second = runner(other)
        assert await say(second, "Again") == ["guide: calm heard 3"]
        found = await second.session_service.get_session(**ADA, session_id="1")

    assert texts(found) == ["Hello", "calm heard 1", "Again", "calm heard 3"]
    assert found is not None
    assert found.state == {"user:said": "calm heard 3", "app:runs": 2}


def test_the_private_marker_of_a_session_is_there() -> None:
    session = Session(id="1", app_name="a", user_id="u")

    assert session._storage_update_marker is None
    session._storage_update_marker = "revision"
    assert session.model_copy(deep=True)._storage_update_marker == "revision"
    assert "marker" not in session.model_dump_json().lower()

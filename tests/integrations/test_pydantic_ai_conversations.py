"""`MemalchemyConversationStore`: Pydantic AI's contract, its own store in memory as the oracle."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from enum import Enum
from pathlib import Path
from typing import Any

import conversation_to_kill
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests, UserError
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolResults
from pydantic_ai_messages import MESSAGES, answer, user

from drawn_examples import examples
from memalchemy import Checkpointer, Database, NotSerialisable, Store, ThreadLog, TooLarge
from memalchemy.codec.encryption import generate_key
from memalchemy.events import Event, subscribe
from memalchemy.integrations.pydantic_ai import MemalchemyConversationStore
from memalchemy.messages import role_of, text_of
from waiting import first_lines


@pytest.fixture
def store(db: Database) -> MemalchemyConversationStore:
    return MemalchemyConversationStore(db)


def conversation(id_: str, *messages: ModelMessage) -> Conversation:
    return Conversation(conversation_id=id_, messages=list(messages))


async def texts(store: ConversationStore, id_: str, **options: Any) -> list[str] | None:
    loaded = await store.load(id_, **options)
    return None if loaded is None else [text_of(message) for message in loaded.messages]


# --- Against Pydantic AI's own store in memory ----------------------------------------------------


async def outcome(call: Callable[[], Awaitable[Any]]) -> tuple[str, Any]:
    """Return what a call returned, or the kind of error that the contract names."""
    try:
        found = await call()
    except ConversationConflict as conflict:
        return "conflict", conflict.conversation_id
    except LookupError:
        return "missing", None
    return "found", list(found) if isinstance(found, Sequence) else found


class Both(ConversationStore):
    """Does everything in two stores, and asserts that both return the same.

    Ours is two objects in turn, as in two processes: what one has seen of an entry or a record the
    other has not.
    """

    def __init__(self, db: Database) -> None:
        self.oracle = InMemoryConversationStore()
        self.ours = [MemalchemyConversationStore(db), MemalchemyConversationStore(db)]

    async def both(self, name: str, *arguments: Any, **options: Any) -> Any:
        self.ours.reverse()
        expected = await outcome(lambda: getattr(self.oracle, name)(*arguments, **options))
        found = await outcome(lambda: getattr(self.ours[0], name)(*arguments, **options))
        assert found == expected
        kind, value = found
        if kind == "conflict":
            raise ConversationConflict(value)
        if kind == "missing":
            raise LookupError
        return value

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return await self.both("read_record", conversation_id)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        return await self.both("read_records", scope=scope, limit=limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        await self.both(
            "write_record", record, new_entries=new_entries, expected_revision=expected_revision
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await self.both("delete_record", conversation_id, expected_revision=expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        return await self.both("read_entry", entry_id)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        return await self.both("read_history", head_id, limit=limit)


ids = st.sampled_from(["a", "b", "café\x00"])
scopes = st.sampled_from([None, None, "one", "two"])
places = st.integers(0, 9)
points = st.one_of(st.tuples(st.just("at"), places), st.tuples(st.just("entry"), places))
steps = st.one_of(
    st.tuples(st.just("start"), ids),
    *3 * [st.tuples(st.just("load"), ids, st.none() | st.integers(0, 5), scopes)],
    *4 * [st.tuples(st.just("add"), places, st.lists(st.sampled_from(MESSAGES), max_size=3))],
    st.tuples(st.just("rewrite"), places, places),
    *5 * [st.tuples(st.just("save"), places, scopes)],
    *2 * [st.tuples(st.just("branch"), places, points, scopes)],
    *2 * [st.tuples(st.just("fork"), ids, points | st.none(), ids, scopes)],
    st.tuples(st.just("delete"), ids, scopes),
    st.tuples(st.just("look"), scopes, st.none() | st.integers(0, 2)),
)


class Model:
    """Conversations that callers hold, whatever has become of them in the store."""

    def __init__(self, store: Both) -> None:
        self.store = store
        self.held = [conversation(id_, *deepcopy(MESSAGES[:2])) for id_ in ("a", "b")]
        self.entries: list[str] = ["none"]

    def point(self, point: tuple[str, int] | None) -> dict[str, Any]:
        if point is None:
            return {}
        kind, place = point
        if kind == "at":
            return {"at": place}
        return {"from_entry": self.entries[-1 - place % len(self.entries)]}

    def pick(self, place: int) -> Conversation:
        return self.held[-1 - place % len(self.held)]

    async def start(self, id_: str) -> None:
        self.held.append(conversation(id_))

    async def load(self, id_: str, limit: int | None, scope: str | None) -> None:
        loaded = await self.store.load(id_, limit=limit, scope=scope)
        if loaded is not None:
            self.held.append(loaded)

    async def add(self, place: int, messages: list[ModelMessage]) -> None:
        self.pick(place).messages.extend(deepcopy(messages))

    async def rewrite(self, place: int, at: int) -> None:
        messages = self.pick(place).messages
        if messages:
            messages[at % len(messages)] = user(f"instead of {at}")

    async def save(self, place: int, scope: str | None) -> None:
        saved = await self.store.save(self.pick(place), scope=scope)
        self.entries += [entry.id for entry in saved]

    async def branch(self, place: int, point: Any, scope: str | None) -> None:
        picked = self.pick(place)
        self.held.append(
            await self.store.branch(
                picked.conversation_id,
                **self.point(point),
                expected_revision=picked.revision,
                scope=scope,
            )
        )

    async def fork(self, id_: str, point: Any, new_id: str, scope: str | None) -> None:
        options = self.point(point)
        self.held.append(
            await self.store.fork(id_, **options, new_conversation_id=new_id, scope=scope)
        )

    async def delete(self, id_: str, scope: str | None) -> None:
        await self.store.delete(id_, scope=scope)

    async def look(self, scope: str | None, limit: int | None) -> None:
        await self.store.list_conversations(scope=scope, limit=limit)
        for entry_id in self.entries:
            await outcome(lambda entry_id=entry_id: self.store.read_entry(entry_id))
        for id_ in ("a", "b", "café\x00"):
            await self.store.load_entries(id_)


@given(st.lists(steps, min_size=10, max_size=40))
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_any_sequence_does_what_the_store_in_memory_does(db: Database, sequence: Any) -> None:
    model = Model(Both(db.for_tenant(f"t-{uuid.uuid4().hex[:16]}")))
    for name, *how in sequence:
        try:
            await getattr(model, name)(*how)
        except UserError:
            continue  # in both: a conflict, or an entry that is not the conversation's
    await model.look(None, None)


# --- Messages -------------------------------------------------------------------------------------


async def test_messages_are_loaded_equal_and_are_new_objects(
    store: MemalchemyConversationStore, reopen: Callable[[], Database]
) -> None:
    given_messages = deepcopy(MESSAGES)
    given_one = conversation("talk", *given_messages)
    await store.save(given_one)
    given_one.messages[0].parts[0].content = "changed"  # type: ignore[union-attr]

    async with reopen() as other:
        loaded = await MemalchemyConversationStore(other).load("talk")
        assert loaded is not None
        assert loaded.messages == MESSAGES
        assert [type(one) for one in loaded.messages] == [type(one) for one in MESSAGES]
        loaded.messages.clear()
    again = await store.load("talk")
    assert again is not None
    assert again.messages == MESSAGES
    tool_results = again.messages[2].parts
    assert tool_results[1].content == ("a", ["dog"])  # type: ignore[union-attr]


class Colour(Enum):
    RED = "red"


async def test_a_value_of_another_type_is_stored_as_json_has_it_and_one_that_json_has_not_refused(
    store: MemalchemyConversationStore, db: Database
) -> None:
    result = ToolReturnPart("paint", {"colour": Colour.RED}, tool_call_id="1")
    await store.save(conversation("talk", user("hi"), ModelRequest(parts=[result])))

    loaded = await store.load("talk")
    assert loaded is not None
    assert loaded.messages[1].parts[0].content == {"colour": "red"}  # type: ignore[union-attr]

    bad = ModelRequest(parts=[ToolReturnPart("paint", object(), tool_call_id="2")])
    loaded.messages += [user("fine"), bad]
    with pytest.raises(NotSerialisable):
        await store.save(loaded)
    with pytest.raises(NotSerialisable):
        await store.save(conversation("new", user("fine"), bad))
    assert await texts(store, "talk") == ["hi", ""]
    assert len(await store.log.range("talk")) == 2
    assert await store.load("new") is None
    assert await store.log.range("new") == []


async def test_a_conversation_of_a_paused_run_keeps_what_it_waits_for_and_its_usage(
    db: Database, reopen: Callable[[], Database]
) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"done: {last.content}")])
        return ModelResponse(parts=[ToolCallPart("erase", {"file": "a"}, tool_call_id="c1")])

    agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def erase(file: str) -> str:
        return f"erased {file}"

    store = MemalchemyConversationStore(db)
    result = await agent.run("Erase a.", conversation=Conversation(conversation_id="talk"))
    await store.save(result, scope="ada")

    async with reopen() as other:
        store = MemalchemyConversationStore(other)
        assert await store.load("talk", scope="bob") is None
        loaded = await store.load("talk", scope="ada")
        assert loaded is not None
        waiting = loaded.deferred_tool_requests
        assert waiting is not None
        assert [call.tool_call_id for call in waiting.approvals] == ["c1"]
        assert loaded.usage.requests == 1
        result = await agent.run(
            conversation=loaded, deferred_tool_results=DeferredToolResults(approvals={"c1": True})
        )
        assert result.output == "done: erased a"
        saved = await store.save(result)
        assert [type(entry.message) for entry in saved] == [ModelRequest, ModelResponse]
        final = await store.load("talk")
        assert final is not None
        assert final.deferred_tool_requests is None
        assert final.usage.requests == 2
        assert [role_of(message) for message in final.messages] == [
            *("user", "assistant", "tool", "assistant")
        ]


# --- Forks, and what a deletion erases ------------------------------------------------------------


async def test_a_fork_outlives_what_it_was_forked_from_and_shares_its_messages(
    store: MemalchemyConversationStore, db: Database
) -> None:
    await store.save(conversation("root", user("1"), answer("2"), user("3"), answer("4")))
    fork = await store.fork("root", at=2, new_conversation_id="fork")
    fork.messages.append(user("drei"))
    await store.save(fork)
    twig = await store.fork("fork", new_conversation_id="twig")
    twig.messages.append(answer("vier"))
    await store.save(twig)

    log = ThreadLog(db, namespace=("pydantic_ai",))
    assert await log.list_threads() == ["root"], "one log for all"
    assert await log.count("root") == 6, "nothing is copied"

    await store.delete("root")
    assert await store.load("root") is None
    assert await texts(store, "fork") == ["1", "2", "drei"]
    assert await texts(store, "twig") == ["1", "2", "drei", "vier"]
    assert [text_of(one.value) for one in await log.range("root")] == ["1", "2", "drei", "vier"]

    await store.save(conversation("root", user("anew")))
    assert await texts(store, "root") == ["anew"]
    await store.delete("root")
    await store.delete("fork")
    assert await texts(store, "twig") == ["1", "2", "drei", "vier"]
    await store.delete("twig")
    assert await log.list_threads() == []
    assert await Store(db).count(("pydantic_ai", "records")) == 0


async def test_a_branch_stays_until_its_conversation_is_deleted(
    store: MemalchemyConversationStore,
) -> None:
    first = conversation("talk", user("1"), answer("2"), user("3"))
    entries = await store.save(first)
    branched = await store.branch("talk", at=1, expected_revision=first.revision)
    branched.messages.append(answer("zwei"))
    await store.save(branched)
    other = await store.fork("talk", at=0, new_conversation_id="other")
    await store.save(other)
    await store.delete("other")

    assert await texts(store, "talk") == ["1", "zwei"]
    back = await store.branch(
        "talk", from_entry=entries[-1].id, expected_revision=branched.revision
    )
    assert [text_of(one) for one in back.messages] == ["1", "2", "3"]
    await store.delete("talk")
    assert await store.log.list_threads() == []


async def test_a_fork_of_a_conversation_that_is_being_deleted_has_all_of_its_history_or_is_refused(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    store = MemalchemyConversationStore(db)
    async with reopen() as other_db:
        other = MemalchemyConversationStore(other_db)
        for number in range(12):
            id_, fork = f"root-{number}", f"fork-{number}"
            await store.save(conversation(id_, *map(user, "abcd")))
            await other.read_record(id_)

            async def make(id_: str = id_, fork: str = fork, delay: float = 0.0) -> bool:
                await asyncio.sleep(delay)
                try:
                    await other.fork(id_, new_conversation_id=fork)
                except UserError:
                    return False
                return True

            delay = random.uniform(0, 0.004)
            made, _ = await asyncio.gather(make(delay=delay), store.delete(id_))
            assert await texts(store, fork) == ([*"abcd"] if made else None)


# --- Concurrency ----------------------------------------------------------------------------------


async def test_of_those_who_save_what_they_loaded_at_once_one_succeeds_and_no_message_is_lost(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other_db:
        stores = [MemalchemyConversationStore(db), MemalchemyConversationStore(other_db)]
        await stores[0].save(conversation("talk"))
        conflicts = 0

        async def talk(writer: int) -> None:
            nonlocal conflicts
            store = stores[writer % 2]
            for turn in range(4):
                while True:
                    loaded = await store.load("talk")
                    assert loaded is not None
                    loaded.messages += [user(f"{writer}.{turn}"), answer(f"{writer}.{turn}")]
                    try:
                        await store.save(loaded)
                        break
                    except ConversationConflict:
                        conflicts += 1
                        await asyncio.sleep(random.uniform(0, 0.01))

        await asyncio.gather(*map(talk, range(6)))
        said = await texts(stores[0], "talk")
        assert said is not None
        assert sorted(said) == sorted(f"{w}.{t}" for w in range(6) for t in range(4) for _ in "ua")
        assert said[::2] == said[1::2], "no turn is torn"
        assert conflicts > 0
        assert len(await stores[0].log.range("talk")) == 48, "a conflict leaves nothing behind"


async def test_of_those_who_begin_a_conversation_at_once_one_succeeds(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other_db:
        stores = [MemalchemyConversationStore(db), MemalchemyConversationStore(other_db)]

        async def begin(number: int) -> int | None:
            try:
                await stores[number % 2].save(conversation("talk", user(str(number))))
            except ConversationConflict:
                return None
            return number

        (winner,) = [n for n in await asyncio.gather(*map(begin, range(8))) if n is not None]
        assert await texts(stores[0], "talk") == [str(winner)]
        assert await stores[0].log.count("talk") == 1


async def test_a_conflict_of_any_kind_changes_nothing(store: MemalchemyConversationStore) -> None:
    first = conversation("talk", user("1"))
    await store.save(first)
    stale = await store.load("talk")
    assert stale is not None
    first.messages.append(answer("2"))
    await store.save(first)

    stale.messages.append(answer("zwei"))
    strange = ConversationRecord(conversation_id="new", head_id="nowhere")
    for write in (
        store.save(stale),
        store.save(conversation("talk", user("x"))),
        store.branch("talk", at=0, expected_revision=stale.revision),
        store.fork("talk", new_conversation_id="talk"),
        store.write_record(strange, expected_revision=None),
        store.write_record(strange, expected_revision="never"),
        store.delete_record("talk", expected_revision=str(stale.revision)),
        store.delete_record("never", expected_revision="never"),
    ):
        with pytest.raises(ConversationConflict):
            await write
    assert await texts(store, "talk") == ["1", "2"]
    assert [one.conversation_id for one in await store.list_conversations()] == ["talk"]
    assert await store.log.count("talk") == 2


async def test_a_cancelled_save_is_whole_or_absent(
    store: MemalchemyConversationStore, db: Database
) -> None:
    for number in range(12):
        task = asyncio.create_task(store.save(conversation(f"c{number}", user("1"), answer("2"))))
        await asyncio.sleep(number * 0.0004)
        task.cancel()
        await asyncio.wait({task})
        found = await texts(store, f"c{number}")
        assert found in (None, ["1", "2"])
        assert len(await store.log.range(f"c{number}")) == len(found or [])
        if not task.cancelled():
            assert found == ["1", "2"]


async def test_a_killed_process_loses_no_acknowledged_save_and_leaves_no_half_one(
    shared_url: str, db: Database, lasting: None
) -> None:
    told: list[str] = []
    for _ in range(2):
        process = subprocess.Popen(  # noqa: ASYNC220 - nobody else waits
            [sys.executable, conversation_to_kill.__file__, shared_url, db.tenant],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        lines = first_lines(process.stdout, 12)
        process.kill()
        rest, errors = process.communicate()
        assert len(lines) == 12, errors
        told += [line.strip() for line in [*lines, *rest.splitlines()]]

        said = await texts(MemalchemyConversationStore(db), "talk")
        assert said is not None
        assert said[::2] == said[1::2], "no half turn"
        turns = said[::2]
        assert turns == [str(turn) for turn in range(len(turns))]
        assert set(told) <= set(turns)
        assert len(await ThreadLog(db, namespace=("pydantic_ai",)).range("talk")) == len(said)


# --- What the rest of memalchemy makes of it ------------------------------------------------------


def round_trips(events: list[Event]) -> int:
    return sum(event.round_trips for event in events)


async def test_a_load_takes_two_queries_and_a_save_writes_only_what_is_new(
    store: MemalchemyConversationStore, reopen: Callable[[], Database]
) -> None:
    await store.save(conversation("long", *(user(str(n)) for n in range(300))))
    async with reopen() as other:
        fresh = MemalchemyConversationStore(other)
        await fresh.read_record("other")
        events: list[Event] = []
        unsubscribe = subscribe(events.append)
        loaded = await fresh.load("long")
        assert loaded is not None
        assert round_trips(events) == 2
        events.clear()
        assert await texts(fresh, "long", limit=3) == ["297", "298", "299"]
        assert round_trips(events) == 2
        events.clear()
        loaded.messages.append(answer("x"))
        await fresh.save(loaded)
        unsubscribe()
    (append,) = [event for event in events if event.name == "thread.append"]
    assert append.details["entries"] == 1
    assert append.payload_bytes < 1_000
    assert round_trips(events) <= 9


async def test_the_end_of_a_long_conversation_is_found_behind_branches(
    store: MemalchemyConversationStore,
) -> None:
    first = conversation("talk", *map(user, "abcde"))
    await store.save(first)
    fork = await store.fork("talk", new_conversation_id="fork")
    fork.messages += [user(str(number)) for number in range(400)]
    await store.save(fork)

    assert await texts(store, "talk", limit=2) == ["d", "e"]
    assert await texts(store, "talk") == [*"abcde"]
    first.messages.append(answer("f"))
    await store.save(first)
    assert await texts(store, "talk", limit=3) == ["d", "e", "f"]


async def test_words_roles_and_lists_are_those_of_any_log(
    store: MemalchemyConversationStore, db: Database
) -> None:
    await store.save(conversation("talk", *MESSAGES))
    await store.save(conversation("other", user("Where is the lighthouse?")), scope="ada")

    (hit,) = await store.log.search("lighthouse")
    assert (hit.thread_id, role_of(hit.value), text_of(hit.value)) == (
        *("other", "user"),
        "Where is the lighthouse?",
    )
    roles = [role_of(entry.value) for entry in await store.log.tail("talk")]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert set(await store.log.list_threads()) == {"talk", "other"}
    record = await store.read_record("other")
    assert record is not None
    assert (record.scope, record.head_id) == ("ada", hit.key)


async def test_what_was_forgotten_is_an_error_and_no_empty_conversation(
    store: MemalchemyConversationStore, db: Database
) -> None:
    await store.save(conversation("talk", user("1")))
    await Checkpointer(db).forget(thread_id="talk")

    with pytest.raises(LookupError):
        await store.load("talk")
    await store.delete("talk")
    assert await store.load("talk") is None


async def test_stores_of_other_namespaces_and_tenants_have_conversations_of_their_own(
    db: Database,
) -> None:
    stores = [
        MemalchemyConversationStore(db),
        MemalchemyConversationStore(db, namespace=("records",)),
        MemalchemyConversationStore(db.for_tenant(f"{db.tenant}-2")),
    ]
    for number, store in enumerate(stores):
        (entry,) = await store.save(conversation("talk", user(str(number))))
        others = [other for other in stores if other is not store]
        for other in others:
            with pytest.raises(LookupError):
                await other.read_entry(entry.id)
    assert [await texts(store, "talk") for store in stores] == [["0"], ["1"], ["2"]]
    await stores[0].delete("talk")
    assert [await texts(store, "talk") for store in stores] == [None, ["1"], ["2"]]
    await stores[2].delete("talk")


async def test_an_id_that_is_too_long_is_refused(store: MemalchemyConversationStore) -> None:
    with pytest.raises(TooLarge):
        await store.save(conversation("c" * 256, user("1")))
    entry = ConversationEntry(id="e" * 129, parent_id=None, message=user("1"))
    record = ConversationRecord(conversation_id="talk", head_id=entry.id)
    with pytest.raises(TooLarge):
        await store.write_record(record, new_entries=[entry], expected_revision=None)
    assert await store.list_conversations() == []


async def test_a_revision_that_was_written_twice_is_still_the_expected_one(db: Database) -> None:
    stores = [MemalchemyConversationStore(db), MemalchemyConversationStore(db)]
    record = ConversationRecord(conversation_id="talk", head_id=None, revision="same")
    await stores[0].write_record(record, expected_revision=None)
    await stores[1].write_record(record, expected_revision="same")

    await stores[0].write_record(record, expected_revision="same")
    assert await stores[1].read_record("talk") == record


async def test_an_encrypted_database_lists_by_scope_too(tmp_path: Path) -> None:
    key = generate_key()
    async with Database(f"sqlite:///{tmp_path}/agent.db", keys=[key]) as db:
        store = MemalchemyConversationStore(db)
        for number, scope in enumerate(("ada", "bob", "ada")):
            await store.save(conversation(f"c{number}", user("secret word")), scope=scope)
        found = await store.list_conversations(scope="ada")
        assert [one.conversation_id for one in found] == ["c2", "c0"]
        await store.fork("c0", new_conversation_id="fork")
        await store.delete("c0")
        assert await texts(store, "fork") == ["secret word"]
    assert b"secret word" not in (tmp_path / "agent.db").read_bytes()


async def test_an_agent_goes_on_after_a_restart(
    db: Database, reopen: Callable[[], Database]
) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompts = [
            part.content
            for message in messages
            for part in message.parts
            if isinstance(part, UserPromptPart)
        ]
        return ModelResponse(parts=[TextPart(" | ".join(map(str, prompts)))])

    agent = Agent(FunctionModel(model))
    for number, prompt in enumerate(("Hi.", "I am Ada.", "Who am I?")):
        async with reopen() as restarted:
            store = MemalchemyConversationStore(restarted)
            loaded = await store.load("talk") or Conversation(conversation_id="talk")
            result = await agent.run(prompt, conversation=loaded)
            saved = await store.save(result)
            assert len(saved) == 2
            if number == 2:
                assert result.output == "Hi. | I am Ada. | Who am I?"
    record = await MemalchemyConversationStore(db).read_record("talk")
    assert record is not None
    assert record.usage.requests == 3

"""A2A's stores: exact round trips, owners, listings and versions, on every database.

The SDK's own tests are in its repository and not in its sdist. So ours are compared with the SDK's
stores, call by call.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from typing import Any

import pytest
from a2a.auth.user import User
from a2a.server.cluster.database_task_store import VersionedDatabaseTaskStore
from a2a.server.cluster.task_store import ConcurrentTaskModificationError, VersionedTaskStore
from a2a.server.cluster.version import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.server.tasks import (
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    PushNotificationConfigStore,
    TaskStore,
)
from a2a.types import (
    Artifact,
    ListTasksRequest,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import encode_page_token
from cryptography.fernet import Fernet
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from rivals import write_after_each_tail
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from subjects.a2a import CALL, task_of, texts_of

from drawn_examples import examples
from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, KeyMissing, Store, TooLarge
from memalchemy.events import Event, subscribe
from memalchemy.integrations.a2a import (
    MemalchemyPushNotificationConfigStore,
    MemalchemyTaskEventStream,
    MemalchemyTaskStore,
    MemalchemyVersionedTaskStore,
)
from waiting import give_time_to_go_wrong

WORKING, DONE, CANCELED = (
    TaskState.TASK_STATE_WORKING,
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_CANCELED,
)


class Named(User):
    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self.name


def of(name: str) -> ServerCallContext:
    """A call of a user."""
    return ServerCallContext(user=Named(name))


@pytest.fixture
def store(db: Database) -> MemalchemyTaskStore:
    return MemalchemyTaskStore(db)


# --- Exact round trips ----------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.builds(Value, string_value=TEXT)
    | st.builds(Value, number_value=st.floats())
    | st.builds(Value, bool_value=st.booleans())
    | st.just(Value()),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda v: Value(list_value={"values": v}))
        | st.dictionaries(TEXT, inner, max_size=2).map(lambda v: Value(struct_value={"fields": v}))
    ),
    max_leaves=4,
)
STRUCTS = st.dictionaries(TEXT, VALUES, max_size=2).map(lambda fields: Struct(fields=fields))
TIMES = st.builds(
    Timestamp,
    seconds=st.integers(-62135596800, 253402300799),
    nanos=st.integers(0, 999_999_999),
)
PARTS = st.one_of(
    st.builds(Part, text=TEXT, filename=TEXT),
    st.builds(Part, raw=st.binary(max_size=8), media_type=TEXT),
    st.builds(Part, url=TEXT, metadata=STRUCTS),
    st.builds(Part, data=VALUES),
    st.just(Part()),
)
MESSAGES = st.builds(
    Message,
    message_id=TEXT,
    context_id=TEXT,
    role=st.sampled_from([*Role.values(), 77]),
    parts=st.lists(PARTS, max_size=3),
    metadata=STRUCTS,
    extensions=st.lists(TEXT, max_size=2),
)
ARTIFACTS = st.builds(
    Artifact, artifact_id=TEXT, name=TEXT, parts=st.lists(PARTS, max_size=3), metadata=STRUCTS
)
STATUSES = st.builds(
    TaskStatus,
    state=st.sampled_from(TaskState.values()),
    message=st.none() | MESSAGES,
    timestamp=st.none() | TIMES,
)
TASKS = st.builds(
    Task,
    id=st.just("t"),
    context_id=st.sampled_from(["", "one", "two"]),
    status=st.none() | STATUSES,
    history=st.lists(MESSAGES, max_size=3),
    artifacts=st.lists(ARTIFACTS, max_size=2),
    metadata=st.none() | STRUCTS,
)
UNKNOWN = b"\xfa\x3e\x03new"
"""A field of a later release of the protocol, as protobuf writes it."""


def exactly(message: Any) -> bytes:
    """The bytes of a message: NaN equals itself in them, and unknown fields count."""
    return message.SerializeToString(deterministic=True)  # type: ignore[no-any-return]


@settings(max_examples=examples(60))
@given(tasks=st.lists(TASKS, min_size=1, max_size=4), unknown=st.booleans())
def test_any_task_comes_back_as_it_was_after_any_other(tasks: list[Task], unknown: bool) -> None:
    async def check() -> None:
        async with MemalchemyTaskStore(":memory:") as store:
            for task in tasks:
                if unknown:
                    for part in (task, *task.history, *task.artifacts):
                        part.MergeFromString(UNKNOWN)
                await store.save(task, CALL)
                found = await store.get("t", CALL)
                assert found is not None
                assert found is not task
                assert exactly(found) == exactly(task)

    asyncio.run(check())


async def test_changing_what_was_given_or_returned_changes_nothing_stored(
    store: MemalchemyTaskStore,
) -> None:
    task = task_of("t", "a")
    saving = asyncio.ensure_future(store.save(task, CALL))
    await saving
    task.history[0].parts[0].text = "changed"
    found = await store.get("t", CALL)
    assert found is not None
    found.history.add()

    assert await store.get("t", CALL) == task_of("t", "a")


async def test_a_save_writes_what_the_task_gained(store: MemalchemyTaskStore) -> None:
    texts = [f"Message {at}: {hash((at, 'x')):x}" for at in range(600)]
    await store.save(task_of("t", *texts[:590]), CALL)
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    for at in range(590, 600):
        task = task_of("t", *texts[: at + 1])
        task.artifacts.add(artifact_id="a").parts.add(text="x" * 5_000)
        await store.save(task, CALL)
    unsubscribe()

    written = sum(one.payload_bytes for one in events)
    assert 0 < written < 30_000, "the task has ten times as much"
    assert texts_of(await store.get("t", CALL)) == texts


async def test_artifacts_that_grow_in_turn_are_appended_to_and_a_change_is_stored(
    store: MemalchemyTaskStore,
) -> None:
    task = task_of("t", "a")
    task.artifacts.add(artifact_id="one")
    task.artifacts.add(artifact_id="two")
    for at in range(6):
        task.artifacts[at % 2].parts.add(text=f"part {at}")
        await store.save(task, CALL)
    entries = await store.tasks(CALL).range("t")
    assert [entry.value["content"] for entry in entries[:-1]] == [
        "a",
        *(f"part {at}" for at in range(6)),
    ]
    task.artifacts[0].parts[1].text = "changed"
    await store.save(task, CALL)
    assert await store.get("t", CALL) == task
    del task.artifacts[0]
    del task.history[:]
    await store.save(task, CALL)
    assert await store.get("t", CALL) == task
    assert await store.tasks(CALL).count("t") == 4


async def test_plain_saves_at_once_leave_one_of_the_tasks_whole(db: Database) -> None:
    stores = [MemalchemyTaskStore(db) for _ in range(4)]
    tasks = [task_of("t", *(f"{who}.{at}" for at in range(who + 1))) for who in range(4)]
    for _ in range(5):
        saves = (one.save(task, CALL) for one, task in zip(stores, tasks, strict=True))
        await asyncio.gather(*saves, stores[0].delete("t", CALL))
        assert await stores[0].get("t", CALL) in [*tasks, None]


async def test_a_plain_save_ends_however_often_others_save_before_it(
    store: MemalchemyTaskStore, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.save(task_of("t", "old"), CALL)
    theirs, log = MemalchemyTaskStore(db), store.tasks(CALL)
    monkeypatch.setattr(store, "tasks", lambda _: log)
    rivals = write_after_each_tail(
        monkeypatch, log, lambda: theirs.save(task_of("t", "theirs"), CALL)
    )
    await store.save(task_of("t", "ours"), CALL)
    await asyncio.gather(*rivals)
    # The first of their saves came before ours, the second had to wait for it.
    assert len(rivals) == 2
    assert texts_of(await theirs.get("t", CALL)) == ["theirs"]


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003])
async def test_a_cancelled_save_is_there_as_a_whole_or_not_at_all(
    store: MemalchemyTaskStore, delay: float
) -> None:
    stored = task_of("t", "a")
    await store.save(stored, CALL)
    for number in range(12):
        new = Task.FromString(exactly(stored))
        new.history.add(message_id=f"{number}")
        new.artifacts.add().parts.add(text=f"{number}")
        saving = asyncio.ensure_future(store.save(new, CALL))
        await asyncio.sleep(delay)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        found = await store.get("t", CALL)
        assert found is not None
        assert found in [stored, new]
        stored = found


async def test_words_of_messages_artifacts_and_the_status_are_found(
    store: MemalchemyTaskStore,
) -> None:
    task = task_of("t", "mend the gate")
    data = Value()
    data.struct_value.update({"tool": ["hammer", {"size": 3}]})
    task.artifacts.add().parts.extend([Part(data=data), Part(url="https://x.test/oak")])
    task.artifacts[0].parts.add(raw=b"hidden", filename="sketch.png")
    task.status.message.parts.add(text="painted")
    await store.save(task, CALL)
    await store.save(task_of("other", "nothing"), CALL)

    task.history.add(role=Role.ROLE_AGENT).parts.add(text="which?")
    await store.save(task, CALL)

    tasks = store.tasks(CALL)
    for word in ("gate", "hammer", "tool", "oak", "sketch", "painted", "which"):
        assert [hit.thread_id for hit in await tasks.search(word)] == ["t"], word
    assert await tasks.search("hidden") == []
    said = [
        (entry.value.get("role"), entry.value.get("content")) for entry in await tasks.range("t")
    ]
    assert said[0] == ("user", "mend the gate")
    assert said[-2:] == [("assistant", "which?"), ("unspecified", "painted")]
    silent = MemalchemyTaskStore(store.db, namespace=("silent",), index_text=False)
    await silent.save(task, CALL)
    assert await silent.tasks(CALL).search("gate") == []


# --- Owners, lifetimes, limits --------------------------------------------------------------------


async def test_tasks_of_one_id_do_not_meet_and_forgetting_one_leaves_nothing(
    db: Database, store: MemalchemyTaskStore
) -> None:
    ada, bob = of("ada"), of("bob/tasks/ada")
    for call in (ada, bob, CALL):
        await store.save(task_of("t", call.user.user_name), call)
    other = MemalchemyTaskStore(db, owner_resolver=lambda call: "all", namespace=("other",))
    await other.save(task_of("t", "other"), ada)

    for call in (ada, bob, CALL):
        assert texts_of(await store.get("t", call)) == [call.user.user_name]
        assert (await store.list(ListTasksRequest(), call)).total_size == 1
    assert texts_of(await other.get("t", bob)) == ["other"]
    await store.delete("t", bob)
    await store.delete("none", bob)
    assert await store.get("t", bob) is None
    assert await store.get("t", ada) is not None
    await Checkpointer(db).forget(thread_id="t")
    assert await Checkpointer(db).list_logs(below=True) == []
    assert await Store(db).list_namespaces() == []


async def test_ids_that_are_too_long_are_refused_and_a_lifetime_ends(
    db: Database, store: MemalchemyTaskStore
) -> None:
    with pytest.raises(TooLarge):
        await store.save(task_of("t" * 256, "a"), CALL)
    with pytest.raises(TooLarge):
        await store.save(task_of("t", "a"), of("x" * 600))
    assert (await store.list(ListTasksRequest(), CALL)).total_size == 0
    short = MemalchemyTaskStore(db, ttl=MOMENT)
    await short.save(task_of("t", "a"), CALL)
    assert await short.get("t", CALL) is None


async def test_tasks_and_webhooks_are_encrypted_with_the_keys_of_the_database(
    database_url: str, lasting: None
) -> None:
    def stored(connection: Any) -> bytes:
        query = "SELECT payload FROM deltas UNION ALL SELECT value FROM store_items"
        return b"".join(bytes(row[0]) for row in connection.execute(text(query)))

    async with Database(database_url, migrate="off", keys=[Fernet.generate_key()]) as db:
        await db.migrate()
        tasks, hooks = MemalchemyTaskStore(db), MemalchemyPushNotificationConfigStore(db)
        await tasks.save(task_of("t", "gate"), CALL)
        config = await hooks.set_info("t", TaskPushNotificationConfig(token="secret"), CALL)
        assert texts_of(await tasks.get("t", CALL)) == ["gate"]
        assert await hooks.get_info("t", CALL) == [config]
        found = await db.run_sync(stored)
        assert found
        assert b"gate" not in found
        assert b"secret" not in found
    async with Database(database_url, keys=[Fernet.generate_key()]) as db:
        with pytest.raises(KeyMissing):
            await MemalchemyTaskStore(db).get("t", CALL)
        with pytest.raises(KeyMissing):
            await MemalchemyPushNotificationConfigStore(db).get_info("t", CALL)


# --- Listings -------------------------------------------------------------------------------------

LISTED = st.builds(
    Task,
    id=st.sampled_from(["a", "b", "c", "d", "é"]),
    context_id=st.sampled_from(["", "one", "two"]),
    status=st.none()
    | st.builds(
        TaskStatus,
        state=st.sampled_from([WORKING, DONE]),
        timestamp=st.none()
        | st.builds(Timestamp, seconds=st.sampled_from([-1, 5, 6]), nanos=st.integers(0, 2)),
    ),
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "context_id": st.sampled_from(["one", "two", "none"]),
        "status": st.sampled_from([WORKING, DONE, CANCELED]),
        "status_timestamp_after": st.builds(
            Timestamp, seconds=st.sampled_from([-1, 5, 6]), nanos=st.integers(0, 2)
        ),
        "page_size": st.integers(1, 3),
    },
)
CALLS = st.sampled_from(["", "ada"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), CALLS, LISTED),
        st.tuples(st.just("delete"), CALLS, st.sampled_from(["a", "b", "c"])),
        st.tuples(st.just("list"), CALLS, FILTERS),
    ),
    max_size=25,
)


async def pages(store: TaskStore, call: ServerCallContext, filters: dict[str, Any]) -> list[Any]:
    """All pages of a listing."""
    found = []
    token = ""
    while True:
        page = await store.list(ListTasksRequest(**filters, page_token=token), call)
        found.append(page)
        token = page.next_page_token
        if not token:
            return found


@settings(max_examples=examples(60))
@given(steps=STEPS)
def test_listings_are_those_of_the_sdks_store(steps: list[Any]) -> None:
    async def check() -> None:
        theirs = InMemoryTaskStore()
        async with MemalchemyTaskStore(":memory:") as ours:
            for what, user, one in [*steps, ("list", "", {}), ("list", "ada", {"page_size": 2})]:
                call = of(user)
                if what == "save":
                    await theirs.save(one, call)
                    await ours.save(one, call)
                elif what == "delete":
                    await theirs.delete(one, call)
                    await ours.delete(one, call)
                else:
                    assert await pages(ours, call, one) == await pages(theirs, call, one)

    asyncio.run(check())


async def test_pages_are_those_of_the_sdk_on_every_database_whatever_is_deleted(
    store: MemalchemyTaskStore,
) -> None:
    theirs = InMemoryTaskStore()
    for at in range(7):
        task = task_of(f"t{at}", "a")
        if at % 3:
            task.status.timestamp.seconds = at // 2
        for one in (store, theirs):
            await one.save(task, CALL)

    assert await pages(store, CALL, {"page_size": 3}) == await pages(theirs, CALL, {"page_size": 3})
    first = await store.list(ListTasksRequest(page_size=3), CALL)
    await store.delete(first.tasks[-1].id, CALL)
    await theirs.delete(first.tasks[-1].id, CALL)
    request = ListTasksRequest(page_size=3, page_token=first.next_page_token)
    assert await store.list(request, CALL) == await theirs.list(request, CALL)
    legacy = ListTasksRequest(page_size=3, page_token=encode_page_token("t3"))
    assert await store.list(legacy, CALL) == await theirs.list(legacy, CALL)
    for token in ("not base64!", encode_page_token("none")):
        with pytest.raises(InvalidParamsError):
            await store.list(ListTasksRequest(page_token=token), CALL)


async def test_a_page_is_that_of_one_moment(store: MemalchemyTaskStore) -> None:
    for at in range(20):
        await store.save(task_of(f"t{at}", "before"), CALL)

    async def save() -> None:
        for at in range(20):
            await store.save(task_of(f"t{at}", "before", "after"), CALL)

    async def read() -> list[int]:
        found = await store.list(ListTasksRequest(), CALL)
        by_id = {int(task.id[1:]): len(task.history) for task in found.tasks}
        return [by_id[at] for at in range(20)]

    saving = asyncio.ensure_future(save())
    lengths = [await read() for _ in range(5)]
    await saving
    # They are saved one after another: no task is new before one that is old.
    assert all(one == sorted(one, reverse=True) for one in lengths)


# --- Versions -------------------------------------------------------------------------------------


def with_state(state: int, *texts: str, id_: str = "t") -> Task:
    task = task_of(id_, *texts)
    task.status.state = state  # type: ignore[assignment]
    return task


SAVES = st.lists(
    st.tuples(st.sampled_from([WORKING, DONE, CANCELED]), st.integers(0, 3), st.sampled_from("tu"))
    | st.just("delete"),
    max_size=12,
)


@settings(max_examples=examples(25), deadline=None)
@given(saves=SAVES)
def test_versions_are_those_of_the_sdks_store(saves: list[Any]) -> None:
    async def play(store: VersionedTaskStore) -> list[Any]:
        told: list[Any] = []
        for number, one in enumerate(saves):
            if one == "delete":
                await store.delete("t", CALL)
                continue
            state, version, id_ = one
            task = with_state(state, str(number), id_=id_)
            try:
                told.append(
                    await store.save(
                        task,
                        event=task,
                        prev=None,
                        prev_version=TaskVersion(version),
                        context=CALL,
                    )
                )
            except ConcurrentTaskModificationError as error:
                told.append(error.task_id)
            told += [await store.get(one, CALL) for one in "tu"]
        return told

    async def check() -> None:
        engine = create_async_engine("sqlite+aiosqlite://")
        store = VersionedDatabaseTaskStore(engine)
        try:
            await store.initialize()  # a deletion makes no tables, and fails without them
            theirs = await play(store)
        finally:
            await engine.dispose()
        async with MemalchemyVersionedTaskStore(":memory:") as ours:
            assert await play(ours) == theirs

    asyncio.run(check())


async def test_of_saves_on_one_version_one_succeeds(db: Database) -> None:
    store = MemalchemyVersionedTaskStore(db)
    version = TaskVersion.MISSING
    for number in range(1, 6):

        async def save(who: int, seen: TaskVersion = version) -> TaskVersion | None:
            try:
                return await store.save(
                    with_state(WORKING, str(who)), prev_version=seen, context=CALL
                )
            except ConcurrentTaskModificationError:
                return None

        results = await asyncio.gather(*(save(who) for who in range(4)))
        ((who, version),) = [(at, one) for at, one in enumerate(results) if one is not None]
        assert version == TaskVersion(number)
        stored = await store.get("t", CALL)
        assert stored is not None
        assert (texts_of(stored.task), stored.version) == ([str(who)], version)


async def test_a_cancellation_holds_against_saves_at_once_and_comes_once(db: Database) -> None:
    store = MemalchemyVersionedTaskStore(db)
    version = await store.save(with_state(WORKING), prev_version=TaskVersion.MISSING, context=CALL)

    async def cancel() -> bool:
        try:
            await store.save(with_state(CANCELED), prev_version=TaskVersion(1), context=CALL)
        except ConcurrentTaskModificationError:
            return False
        return True

    async def work() -> None:
        seen = version
        try:
            while True:
                seen = await store.save(with_state(WORKING), prev_version=seen, context=CALL)
        except ConcurrentTaskModificationError:
            return

    *_, first, second = await asyncio.gather(work(), cancel(), cancel())

    assert {first, second} == {True, False}
    stored = await store.get("t", CALL)
    assert stored is not None
    assert stored.task.status.state == CANCELED


@pytest.mark.parametrize("event", [None, with_state(CANCELED)])
async def test_a_cancellation_ends_however_often_others_save_before_it(
    db: Database, monkeypatch: pytest.MonkeyPatch, event: Any
) -> None:
    store, others = MemalchemyVersionedTaskStore(db), MemalchemyVersionedTaskStore(db)
    seen = await store.save(with_state(WORKING), prev_version=TaskVersion.MISSING, context=CALL)

    async def rival() -> None:
        nonlocal seen
        seen = await others.save(with_state(WORKING), prev_version=seen, context=CALL)

    log = store.tasks(CALL)
    monkeypatch.setattr(store, "tasks", lambda _: log)
    rivals = write_after_each_tail(monkeypatch, log, rival)
    version = await store.save(
        with_state(CANCELED), event=event, prev_version=TaskVersion(1), context=CALL
    )
    late = await asyncio.gather(*rivals, return_exceptions=True)
    assert [type(one) for one in late] == [type(None), ConcurrentTaskModificationError]
    stored = await store.get("t", CALL)
    assert stored is not None
    assert (stored.task.status.state, stored.version) == (CANCELED, version)
    assert await MemalchemyTaskEventStream(db).events.count("t") == (event is not None)


async def test_a_task_of_the_plain_store_gets_a_version_and_a_plain_save_is_noticed(
    db: Database,
) -> None:
    plain, store = MemalchemyTaskStore(db), MemalchemyVersionedTaskStore(db)
    await plain.save(task_of("t", "plain"), CALL)
    stored = await store.get("t", CALL)
    assert stored is not None
    assert stored.version == TaskVersion.MISSING
    version = await store.save(task_of("t", "new"), prev_version=stored.version, context=CALL)
    assert version == TaskVersion(1)
    with pytest.raises(ConcurrentTaskModificationError):
        await store.save(task_of("t", "old"), prev_version=stored.version, context=CALL)

    await store.as_task_store.save(task_of("t", "plain again"), CALL)
    with pytest.raises(ConcurrentTaskModificationError):
        await store.save(task_of("t", "old"), prev_version=version, context=CALL)
    assert texts_of(await plain.get("t", CALL)) == ["plain again"]
    with pytest.raises(TypeError, match="a version of this store is a number"):
        await store.save(task_of("t"), prev_version=TaskVersion("1"), context=CALL)


def test_the_sdk_keeps_the_number_of_a_version_where_it_is_read() -> None:
    assert TaskVersion.__slots__ == ("_value",)
    assert TaskVersion(5)._value == 5


async def test_events_are_stored_with_the_versions_they_made_and_no_others(db: Database) -> None:
    store = MemalchemyVersionedTaskStore(db)
    stream = MemalchemyTaskEventStream(db, poll_interval=0.01)
    events: list[Any] = [
        with_state(WORKING, "a"),
        TaskStatusUpdateEvent(task_id="t", status=TaskStatus(state=DONE)),
        TaskArtifactUpdateEvent(task_id="t", append=True, artifact=Artifact(artifact_id="a")),
        task_of("t", "b").history[0],
    ]

    async def save(event: Any, version: TaskVersion) -> TaskVersion:
        return await store.save(
            with_state(WORKING), event=event, prev_version=version, context=CALL
        )

    async def read(after: int, count: int) -> list[Any]:
        found: list[Any] = []
        async with aclosing(stream.subscribe("t", after=TaskVersion(after))) as subscription:
            async for one in subscription:
                found.append((one.event, one.version))
                if len(found) == count:
                    break
        return found

    waiting = asyncio.ensure_future(read(0, len(events)))
    await give_time_to_go_wrong()  # it waits for an event, or finds those that are there
    version = TaskVersion.MISSING
    for event in events:
        with pytest.raises(ConcurrentTaskModificationError):
            await save(event, TaskVersion(99))
        version = await save(event, version)

    made = [(event, TaskVersion(number)) for number, event in enumerate(events, start=1)]
    assert await waiting == made
    assert await read(2, 2) == made[2:]
    await store.save(with_state(WORKING), prev_version=version, context=CALL)
    assert await stream.events.count("t") == len(events)
    await store.delete("t", of("ada"))
    assert await stream.events.count("t") == len(events)
    await store.delete("t", CALL)
    assert await stream.events.count("t") == 0


# --- Push notifications ---------------------------------------------------------------------------

CONFIGS = st.builds(
    TaskPushNotificationConfig,
    id=st.sampled_from(["", "one", "two"]),
    url=TEXT,
    token=TEXT,
)
NOTICES = st.lists(
    st.tuples(st.just("set"), CALLS, st.sampled_from("tu"), CONFIGS)
    | st.tuples(
        st.just("delete"), CALLS, st.sampled_from("tu"), st.sampled_from([None, "one", "t", "none"])
    ),
    max_size=15,
)


@settings(max_examples=examples(50))
@given(steps=NOTICES)
def test_push_notifications_are_those_of_the_sdks_store(steps: list[Any]) -> None:
    async def play(store: PushNotificationConfigStore) -> list[Any]:
        told: list[Any] = []
        for what, user, task_id, one in steps:
            if what == "set":
                told.append(await store.set_info(task_id, one, of(user)))
            else:
                await store.delete_info(task_id, of(user), one)
            for known, call in itertools.product("tu", ("", "ada")):
                told.append(await store.get_info(known, of(call)))
                every = await store.get_info_for_dispatch(known)
                told.append(sorted(map(exactly, every)))
        return told

    async def check() -> None:
        async with MemalchemyPushNotificationConfigStore(":memory:") as ours:
            assert await play(ours) == await play(InMemoryPushNotificationConfigStore())

    asyncio.run(check())


async def test_configurations_come_back_on_every_database_and_no_word_of_them_is_found(
    db: Database,
) -> None:
    store = MemalchemyPushNotificationConfigStore(db)
    config = TaskPushNotificationConfig(url="https://x.test/hook", token="secret")
    config.authentication.scheme = "Bearer"
    config.authentication.credentials = "secret"
    given = TaskPushNotificationConfig.FromString(exactly(config))
    returned = await store.set_info("t", config, of("ada"))
    other = await store.set_info("t", TaskPushNotificationConfig(id="2"), of("bob"))

    assert config == given, "what is given is not changed"
    assert (returned.id, returned.task_id) == ("t", "t")
    assert await store.get_info("t", of("ada")) == [returned]
    assert await store.get_info_for_dispatch("t") == [returned, other]
    assert await store.get_info_for_dispatch("other") == []
    assert await Store(db).search(("a2a",), "secret", prefix=True) == []
    with pytest.raises(TooLarge):
        await store.set_info("t", TaskPushNotificationConfig(id="x" * 300), CALL)
    await store.delete_info("t", of("ada"))
    assert await store.get_info_for_dispatch("t") == [other]

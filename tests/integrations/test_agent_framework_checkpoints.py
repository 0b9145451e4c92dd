"""`MemalchemyCheckpointStorage` does what the framework's storages do, without pickle."""

from __future__ import annotations

import asyncio
import collections
import copy
import decimal
import enum
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest
from agent_framework import (
    Content,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowEvent,
    WorkflowMessage,
    register_checkpoint_type,
)
from agent_framework_scripted import Approval, Draft, workflow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from drawn_examples import examples
from memalchemy import Checkpointer, Database
from memalchemy.integrations.agent_framework import MemalchemyCheckpointStorage
from memalchemy.integrations.agent_framework._object_codec import (
    MARK,
    ObjectCodec,
    ObjectNotStorable,
)


@dataclass
class Point:
    x: Any
    y: Any = field(default=None, compare=True)


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


class Colour(enum.Enum):
    RED = ("r", 1)


class Flags(enum.Flag):
    A = 1
    B = 2


class Model(BaseModel):
    a: int
    when: datetime
    inner: Model | None = None


class Plain:
    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.x == other.x

    __hash__ = None  # type: ignore[assignment]


class Words(list[str]):
    pass


class Registered(BaseModel):
    x: int


class Stranger:
    pass


class Strange(enum.Enum):
    A = 1


register_checkpoint_type(Registered)
ALLOWED = (Point, Frozen, Colour, Flags, Model, Plain, Words, Draft, Approval)

VALUES: dict[str, Any] = {
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    "naive": datetime(2026, 1, 2),
    "offset": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    "date": date(2026, 1, 2),
    "time": time(1, 2, 3, tzinfo=UTC),
    "timedelta": timedelta(days=1, seconds=2),
    "tuple": (1, ("a", [2, (3,)])),
    "set": {1, 2, "a"},
    "frozenset": frozenset({(1, 2), frozenset({3})}),
    "set of objects": {Frozen(1), Frozen((2, 3))},
    "bytes": b"\0\xff",
    "bytearray": bytearray(b"abc"),
    "complex": 1 + 2j,
    "range": range(1, 9, 2),
    "uuid": uuid.UUID(int=7),
    "decimal": decimal.Decimal("1.10"),
    "large": 2**100,
    "numbers as keys": {1: "a", "1": "b", (2, 3): {None: Point(1)}},
    "the mark as a key": {MARK: {MARK: 1}},
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "default": collections.defaultdict(list, {"a": [1]}),
    "counter": collections.Counter("aab"),
    "deque": collections.deque([1, Point(2)], maxlen=4),
    "dataclass": Point(Point([1], {"a": Frozen(())}), None),
    "frozen": Frozen(x=[Frozen(1)]),
    "enum": [Colour.RED, Flags.A | Flags.B],
    "pydantic": Model(a=1, when=datetime(2026, 1, 2), inner=Model(a=2, when=datetime(2026, 1, 3))),
    "plain": Plain(3),
    "list of a class": Words(["a", "b"]),
    "classes": [Point, str, list[int], dict[str, Point]],
    "registered": Registered(x=1),
}


@pytest.mark.parametrize("name", VALUES)
async def test_values_come_back_equal_and_of_the_same_types(name: str, db: Database) -> None:
    value = VALUES[name]
    storage = MemalchemyCheckpointStorage(db, allowed=ALLOWED)
    kept = copy.deepcopy(value)
    id_ = await storage.save(WorkflowCheckpoint("w", "h", state={"value": value}))
    found = (await storage.load(id_)).state["value"]
    assert found == kept == value
    assert type(found) is type(value)
    assert repr(found) == repr(value) or isinstance(value, set | frozenset | Plain)
    if not isinstance(value, tuple | frozenset | int | str | bytes | date | time | timedelta):
        assert found is not value


@settings(max_examples=examples(60), deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(),
        lambda inner: st.one_of(
            st.lists(inner),
            st.lists(inner).map(tuple),
            st.dictionaries(st.text() | st.integers() | st.just(MARK), inner),
            st.builds(Point, inner, inner),
            st.builds(Frozen, inner),
        ),
        max_leaves=20,
    )
)
def test_any_tree_comes_back(value: Any) -> None:
    codec = ObjectCodec(ALLOWED)
    found = codec.decode(codec.encode(value))
    assert repr(found) == repr(value)


async def test_messages_and_events_of_the_framework_come_back(db: Database) -> None:
    storage = MemalchemyCheckpointStorage(db, allowed=ALLOWED)
    message = Message("user", ["hi", Content.from_data(b"\1", "image/png")], message_id="m")
    event = WorkflowEvent.request_info(
        request_id="r",
        source_executor_id="e",
        request_data=Approval(Draft("d")),
        response_type=bool,
    )
    written = WorkflowCheckpoint(
        "w",
        "h",
        messages={"e": [WorkflowMessage(message, "e", original_request_info_event=event)]},
        pending_request_info_events={"r": event},
        iteration_count=3,
        metadata={"k": (1,)},
    )
    await storage.save(written)
    found = await storage.load(written.checkpoint_id)
    (envelope,) = found.messages["e"]
    assert envelope.data.to_dict() == message.to_dict()
    assert envelope.data.raw_representation is None
    again = found.pending_request_info_events["r"]
    assert (again.request_id, again.data, again.response_type) == ("r", Approval(Draft("d")), bool)
    assert (found.iteration_count, found.metadata) == (3, {"k": (1,)})
    assert found.timestamp == written.timestamp


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Stranger(), "Stranger; a class that may be restored is named in allowed"),
        (Stranger, "Stranger"),
        (lambda: 0, "function"),
        (print, "builtin_function"),
        (sys, "module"),
        (Point(1).__eq__, "method"),
        (Strange.A, "Strange"),
    ],
    ids=["object", "class", "lambda", "function", "module", "method", "enum"],
)
async def test_other_objects_are_refused_with_their_place_and_nothing_is_stored(
    value: Any, said: str, db: Database
) -> None:
    storage = MemalchemyCheckpointStorage(db, allowed=[Point])
    for place in ([{"a": value}], Point(value)):
        with pytest.raises(WorkflowCheckpointException, match=said) as raised:
            await storage.save(WorkflowCheckpoint("w", "h", state={"deep": place}))
        assert "/state/deep" in str(raised.value)
    assert await storage.list_checkpoint_ids(workflow_name="w") == []


async def test_a_value_that_contains_itself_or_is_too_deep_is_refused(db: Database) -> None:
    storage = MemalchemyCheckpointStorage(db, allowed=ALLOWED)
    loop: list[Any] = [1]
    loop.append(Point(loop))
    deep: Any = 0
    for _ in range(5_000):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(WorkflowCheckpointException):
            await storage.save(WorkflowCheckpoint("w", "h", state={"value": value}))
    shared = [1]
    id_ = await storage.save(WorkflowCheckpoint("w", "h", state={"value": [shared, shared]}))
    assert (await storage.load(id_)).state == {"value": [[1], [1]]}


async def test_what_is_not_allowed_any_more_is_not_restored(db: Database) -> None:
    id_ = await MemalchemyCheckpointStorage(db, allowed=[Point]).save(
        WorkflowCheckpoint("w", "h", state={"value": Point(1)})
    )
    with pytest.raises(WorkflowCheckpointException, match=r"Point is not allowed.*allowed="):
        await MemalchemyCheckpointStorage(db).load(id_)


@pytest.mark.parametrize(
    "stored",
    [
        {MARK: "os:system", "call": ["true"]},
        {MARK: "builtins:eval", "call": ["1"]},
        {MARK: "type", "of": "subprocess:Popen"},
        {MARK: "antigravity:X", "new": []},
        {MARK: "agent_framework:_serialization", "new": []},
        {MARK: "agent_framework._sessions:os.system", "call": ["true"]},
        {MARK: "agent_framework._sessions:FileHistoryProvider", "call": ["never-made"]},
        {MARK: "agent_framework._sessions:Path", "new": ["x"]},
        {MARK: 3, "new": []},
    ],
    ids=repr,
)
def test_stored_names_cause_no_import_and_no_call(stored: Any) -> None:
    with pytest.raises(ObjectNotStorable):
        ObjectCodec([Point]).decode(stored)
    assert "antigravity" not in sys.modules


def test_allowed_takes_classes() -> None:
    with pytest.raises(TypeError, match="classes, not str"):
        MemalchemyCheckpointStorage(allowed=["module:Name"])  # type: ignore[list-item]


# --- The six methods ------------------------------------------------------------------------------

NAMES = st.sampled_from(["w", "v"])
IDS = st.sampled_from(["1", "2", "3", "4"])
STEPS = st.one_of(
    st.tuples(st.just("save"), NAMES, IDS, st.integers(0, 3)),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("load"), IDS),
)


def checkpoint(name: str, id_: str, day: int) -> WorkflowCheckpoint:
    stamp = datetime(2026, 1, 1 + day, tzinfo=UTC).isoformat()
    return WorkflowCheckpoint(
        name, "h", checkpoint_id=id_, timestamp=stamp, state={"n": (id_, day)}
    )


async def outcome(storage: Any, method: str, *given: Any) -> Any:
    try:
        if method == "save":
            return await storage.save(checkpoint(*given))
        return await getattr(storage, method)(*given)
    except WorkflowCheckpointException as error:
        return str(error)


@settings(max_examples=examples(50), suppress_health_check=list(HealthCheck), deadline=None)
@given(steps=st.lists(STEPS, max_size=15))
async def test_every_method_does_what_the_storage_in_memory_does(
    steps: list[Any], db: Database
) -> None:
    ours = MemalchemyCheckpointStorage(db, namespace=(uuid.uuid4().hex,))
    theirs = InMemoryCheckpointStorage()
    saved: set[str] = set()
    for step in steps:
        if step[0] == "save" and step[2] in saved:
            # In memory a checkpoint that is saved again keeps its place; here it is the newest.
            await ours.delete(step[2])
            await theirs.delete(step[2])
        assert await outcome(ours, *step) == await outcome(theirs, *step), step
        saved |= {step[2]} if step[0] == "save" else set()
    for name in ("w", "v", "none"):
        listed = await ours.list_checkpoints(workflow_name=name)
        assert listed == await theirs.list_checkpoints(workflow_name=name)
        assert await ours.list_checkpoint_ids(workflow_name=name) == [
            one.checkpoint_id for one in listed
        ]
        assert await ours.get_latest(workflow_name=name) == await theirs.get_latest(
            workflow_name=name
        )


async def test_a_checkpoint_that_is_saved_again_is_replaced_also_under_another_name(
    db: Database,
) -> None:
    storage = MemalchemyCheckpointStorage(db)
    for name, day in (("w", 0), ("w", 1), ("v", 2)):
        await storage.save(checkpoint(name, "1", day))
        assert await storage.load("1") == checkpoint(name, "1", day)
    assert await storage.list_checkpoint_ids(workflow_name="w") == []
    assert await storage.list_checkpoint_ids(workflow_name="v") == ["1"]


async def test_what_is_loaded_shares_nothing_with_what_is_stored(db: Database) -> None:
    storage = MemalchemyCheckpointStorage(db)
    written = WorkflowCheckpoint("w", "h", state={"list": [1]})
    await storage.save(written)
    written.state["list"].append(2)
    for _ in range(2):
        found = await storage.load(written.checkpoint_id)
        assert found.state == {"list": [1]}
        found.state["list"].append(3)


async def test_lineage_and_times_are_seen_by_the_rest_of_memalchemy(db: Database) -> None:
    storage = MemalchemyCheckpointStorage(db)
    first = WorkflowCheckpoint("w", "h")
    second = WorkflowCheckpoint("w", "h", previous_checkpoint_id=first.checkpoint_id)
    for one in (first, second):
        await storage.save(one)
    agent = Checkpointer(db, namespace=("agent_framework", "checkpoints"))
    infos = [one async for one in agent.history("w")]
    assert [(one.checkpoint_id, one.parent_id) for one in infos] == [
        (second.checkpoint_id, first.checkpoint_id),
        (first.checkpoint_id, None),
    ]


async def test_a_workflow_of_many_steps_is_stored_as_differences(db: Database) -> None:
    storage, history = MemalchemyCheckpointStorage(db), []
    for number in range(100):
        history.append(Message("user", [f"{uuid.uuid4()} {number}"]))
        await storage.save(WorkflowCheckpoint("w", "h", state={"history": history}))
    stats = await storage.checkpointer.get_storage_stats("w")
    assert stats["total_checkpoints"] == 100
    assert stats["compressed_size"] < stats["total_size"] / 20


async def test_saves_at_once_are_all_stored(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        storages = [MemalchemyCheckpointStorage(db), MemalchemyCheckpointStorage(other)]
        saves = [WorkflowCheckpoint("w", "h", state={"n": n}) for n in range(20)]
        ids = await asyncio.gather(*(storages[n % 2].save(one) for n, one in enumerate(saves)))
        assert sorted(await storages[0].list_checkpoint_ids(workflow_name="w")) == sorted(ids)
        assert [(await storages[1].load(one.checkpoint_id)) for one in saves] == saves


async def test_a_database_that_cannot_be_reached_is_the_frameworks_error() -> None:
    storage = MemalchemyCheckpointStorage("postgresql://me:secret@localhost:1/db")
    with pytest.raises(WorkflowCheckpointException) as raised:
        await storage.load("1")
    assert "secret" not in str(raised.value)


async def test_a_workflow_that_waits_for_a_person_is_resumed_after_a_restart(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    storage = MemalchemyCheckpointStorage(db, allowed=[Draft, Approval])
    result = await workflow(storage).run("bees")
    (request,) = result.get_request_info_events()
    assert request.data == Approval(Draft("About bees", ("new",)))

    async with reopen() as later:
        storage = MemalchemyCheckpointStorage(later, allowed=[Draft, Approval])
        latest = await storage.get_latest(workflow_name="paper")
        assert latest is not None
        again = workflow(storage)
        done = await again.run(
            checkpoint_id=latest.checkpoint_id, responses={request.request_id: "fine"}
        )
        assert done.get_outputs() == ["About bees ('new',): fine"]


async def test_it_stores_what_the_storage_in_files_stores(tmp_path: Any, db: Database) -> None:
    ours = MemalchemyCheckpointStorage(db, allowed=[Point])
    theirs = FileCheckpointStorage(tmp_path, allowed_checkpoint_types=[f"{Point.__module__}:Point"])
    names = ("datetime", "tuple", "set", "bytes", "uuid", "decimal", "ordered", "default", "deque")
    state = {name: VALUES[name] for name in names}
    written = WorkflowCheckpoint("w", "h", state=state)
    for storage in (ours, theirs):
        await storage.save(written)
        assert (await storage.load(written.checkpoint_id)).state == state

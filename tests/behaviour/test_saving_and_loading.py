"""Saving and loading: what goes in comes out, of the same types, or nothing goes in."""

from __future__ import annotations

import asyncio
import copy
import enum
import math
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field
from sqlalchemy import select, update

import off_loop
from memalchemy import Checkpointer, Corrupt, Database, NotSerialisable, TooLarge, events
from memalchemy.codec import deltas
from memalchemy.schema import DeltaRow

VALUES: dict[str, Any] = {
    "dict": {"b": 1, "a": {"nested": [1, {"deep": None}]}},
    "list": [1, [2, [3]]],
    "tuple": (1, (2, "x"), []),
    "set": {1, 2, "three", (4, 5)},
    "frozenset": frozenset({"a", "b"}),
    "text": "naïve 東京 \u0000 \U0001f600",
    "lone surrogate": "a\ud800b",
    "huge int": 10**80,
    "negative int": -(2**70),
    "edge ints": [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1],
    "floats": [0.1, -0.0, 1e300, 5e-324, math.inf, -math.inf],
    "booleans": [True, False, 1, 0, 1.0],
    "none": None,
    "bytes": b"\x00\xff",
    "naive time": datetime(2026, 1, 2, 3, 4, 5, 6),
    "aware time": datetime(2026, 1, 2, tzinfo=UTC),
    "odd offset": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    "date": date(2026, 1, 2),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "decimal": Decimal("1.10"),
    "looks like a tag": {"~t": [1], "~": {"~o": []}},
}


def same(a: Any, b: Any) -> bool:
    """Equal, of the same types all the way down, dicts in the same order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return math.copysign(1, a) == math.copysign(1, b) and (
            a == b or (math.isnan(a) and math.isnan(b))
        )
    return bool(a == b)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
async def test_every_storable_value_loads_back_equal_and_of_the_same_type(
    checkpointer: Checkpointer, value: Any
) -> None:
    await checkpointer.save({"value": value}, "thread")

    assert same(await checkpointer.load("thread"), {"value": value})


async def test_not_a_number_comes_back_as_not_a_number(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"value": [math.nan, None]}, "thread")

    loaded = await checkpointer.load("thread")
    assert math.isnan(loaded["value"][0])
    assert loaded["value"][1] is None


async def test_the_order_of_keys_is_kept(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"b": 1, "a": 2}, "thread")
    await checkpointer.save({"c": 0, "a": 2, "b": 1}, "thread")

    assert list(await checkpointer.load("thread")) == ["c", "a", "b"]


async def test_keys_come_and_go(checkpointer: Checkpointer) -> None:
    states = [{"a": 1}, {}, {"b": [1]}, {"b": [1, 2], "c": "x"}, {"c": "x"}, {"": 1, "\ud800": 2}]
    ids = [await checkpointer.save(state, "thread") for state in states]

    assert [await checkpointer.load("thread", i) for i in ids] == states


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    pass


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, object()]}, "/a/1"),
        ({"a/b": {"~": Colour.RED}}, "/a~1b/~0"),
        ({"x": Text("subclass")}, "/x"),
        ({"x": OrderedDict(a=1)}, "/x"),
        ({"x": {1: "a"}}, "/x"),
        ({1: "a"}, ""),
        ({"x": timedelta(1)}, "/x"),
    ],
)
async def test_a_value_that_would_not_load_back_equal_is_refused_with_its_path(
    checkpointer: Checkpointer, value: Any, path: str
) -> None:
    with pytest.raises(NotSerialisable) as caught:
        await checkpointer.save(value, "thread")

    assert caught.value.path == path
    assert not await checkpointer.exists("thread")


async def test_a_list_that_holds_itself_is_refused(checkpointer: Checkpointer) -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(NotSerialisable):
        await checkpointer.save({"endless": endless}, "thread")
    assert not await checkpointer.exists("thread")


@pytest.mark.parametrize("state", [None, 3, "text", [1]])
async def test_what_is_not_a_state_is_refused(checkpointer: Checkpointer, state: Any) -> None:
    with pytest.raises(NotSerialisable):
        await checkpointer.save(state, "thread")


async def test_mutating_a_state_in_place_between_saves_keeps_every_version(
    checkpointer: Checkpointer,
) -> None:
    state: dict[str, Any] = {"messages": [], "n": 0}
    versions, ids = [], []
    for n in range(30):
        state["messages"].append({"content": f"message {n}", "tags": [n]})
        state["n"] = n
        if n == 20:
            del state["messages"][:15]
        versions.append(copy.deepcopy(state))
        ids.append(await checkpointer.save(state, "thread"))

    assert [await checkpointer.load("thread", i) for i in ids] == versions


async def test_another_process_loads_every_version(
    checkpointer: Checkpointer, reopen: Callable[[], Database]
) -> None:
    ids = [await checkpointer.save({"messages": list(range(n))}, "thread") for n in range(40)]

    async with reopen() as other:
        fresh = Checkpointer(other)
        for n, checkpoint_id in enumerate(ids):
            assert await fresh.load("thread", checkpoint_id) == {"messages": list(range(n))}


THREAD_IDS = [
    "a",
    "a/b",
    "a_b",
    "a:b",
    "A",
    "é",
    "e\u0301",
    "\U0001f600" * 255,
    "\x00",
    "\x00" * 255,
]
THREAD_IDS += [
    "%",
    "_",
    "*",
    "' OR 1=1 --",
    '"',
    "\\",
    "\x1a",
    "\x1a0",
    "\ud800",
    " ",
    "\n",
    "x" * 255,
]


async def test_any_text_is_a_thread_id_of_its_own(checkpointer: Checkpointer) -> None:
    for n, thread_id in enumerate(THREAD_IDS):
        await checkpointer.save({"n": n}, thread_id, checkpoint_id=thread_id[:100])

    for n, thread_id in enumerate(THREAD_IDS):
        assert await checkpointer.load(thread_id) == {"n": n}
        assert await checkpointer.list_checkpoints(thread_id) == [thread_id[:100]]
    assert sorted(await checkpointer.list_threads()) == sorted(THREAD_IDS)


async def test_the_empty_text_is_a_thread_id_too(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"n": 1}, "")

    assert await checkpointer.load("") == {"n": 1}
    assert await checkpointer.list_threads() == [""]


async def test_an_id_that_is_too_long_is_refused(checkpointer: Checkpointer) -> None:
    for arguments in (
        {"thread_id": "x" * 256},
        {"thread_id": "t", "checkpoint_id": "x" * 256},
        {"thread_id": "t", "checkpoint_id": "\x00" * 128},
    ):
        with pytest.raises(TooLarge):
            await checkpointer.save({}, **arguments)
    with pytest.raises(TypeError):
        await checkpointer.save({}, 7)  # type: ignore[arg-type]


async def test_what_is_not_there_loads_as_none(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"n": 1}, "thread")

    assert await checkpointer.load("no such thread") is None
    assert await checkpointer.load("thread", "no such checkpoint") is None


async def test_the_contracts_keyword_names_work(checkpointer: Checkpointer) -> None:
    made = await checkpointer.save(
        state={"n": 1}, thread_id="thread", checkpoint_id="c", metadata={"k": "v"}
    )

    assert made == "c"
    assert await checkpointer.load(thread_id="thread", checkpoint_id="c") == {"n": 1}


class Preferences(BaseModel):
    colour: Colour = Colour.RED
    seen: set[str] = set()
    at: datetime
    price: Decimal


class Agent(BaseModel):
    messages: list[dict[str, Any]]
    preferences: Preferences


async def test_a_pydantic_model_loads_back_as_an_equal_model(db: Database) -> None:
    checkpointer = Checkpointer(db, state_type=Agent)
    state = Agent(
        messages=[{"role": "user"}],
        preferences=Preferences(seen={"a", "b"}, at=datetime.now(UTC), price=Decimal("1.50")),
    )
    await checkpointer.save(state, "thread")

    assert await checkpointer.load("thread") == state
    assert (await Checkpointer(db).load("thread"))["preferences"]["colour"] == "red"


class Base(BaseModel):
    name: str


class Special(Base):
    extra: int


class Careful(BaseModel):
    model_config = ConfigDict(extra="forbid")

    inner_name: str = Field(alias="innerName")
    bases: list[Base] = []

    @computed_field
    def shouted(self) -> str:
        return self.inner_name.upper()


class Locked(BaseModel):
    password: SecretStr


async def test_a_model_with_aliases_and_computed_fields_loads_back(db: Database) -> None:
    checkpointer = Checkpointer(db, state_type=Careful)
    state = Careful(innerName="x", bases=[Base(name="a")])
    await checkpointer.save(state, "thread")

    assert await checkpointer.load("thread") == state


async def test_the_fields_of_a_submodel_are_kept(checkpointer: Checkpointer) -> None:
    await checkpointer.save(Careful(innerName="x", bases=[Special(name="a", extra=1)]), "thread")

    assert (await checkpointer.load("thread"))["bases"] == [{"name": "a", "extra": 1}]


async def test_a_secret_is_refused_and_not_masked(checkpointer: Checkpointer) -> None:
    with pytest.raises(NotSerialisable) as caught:
        await checkpointer.save(Locked(password="hunter2"), "thread")  # type: ignore[arg-type]

    assert caught.value.path == "/password"
    assert "hunter2" not in str(caught.value)


async def test_ids_of_the_wrong_kind_are_refused_by_every_reader(
    checkpointer: Checkpointer,
) -> None:
    for call in (checkpointer.load, checkpointer.delete, checkpointer.exists):
        with pytest.raises(TypeError):
            await call("thread", 5)  # type: ignore[operator]
    with pytest.raises(TooLarge):
        await checkpointer.save({}, "\ud800" * 100)
    with pytest.raises(ValueError, match="own parent"):
        await checkpointer.save({}, "thread", "a", parent_id="a")


class Custom:
    def __init__(self, n: int) -> None:
        self.n = n

    def to_checkpoint(self) -> dict[str, Any]:
        return {"n": self.n}

    @classmethod
    def from_checkpoint(cls, stored: dict[str, Any]) -> Custom:
        return cls(stored["n"])


async def test_an_object_that_converts_itself_does(db: Database) -> None:
    checkpointer = Checkpointer(db, state_type=Custom)
    await checkpointer.save(Custom(7), "thread")

    loaded = await checkpointer.load("thread")
    assert isinstance(loaded, Custom)
    assert loaded.n == 7


async def test_a_state_of_twenty_megabytes_does_not_stop_the_event_loop(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressing it takes most of a second of one core; what stays on the loop is serialising."""
    checkpointer = Checkpointer(db, index_text=False)
    state = {"messages": [{"content": f"{n} " + "lorem ipsum " * 40} for n in range(40_000)]}
    seen = off_loop.watch(
        monkeypatch, deltas, "compress", "decompress", is_large=lambda body: len(body) > 50_000
    )

    await checkpointer.save(state, "thread")
    state["messages"].append({"content": "one more"})
    await checkpointer.save(state, "thread")
    checkpointer._cache.drop_thread(db.tenant, "thread")
    loaded = await checkpointer.load("thread")

    assert loaded == state
    assert {name for name, _ in seen} == {"compress", "decompress"}
    assert [name for name, in_the_loop in seen if in_the_loop] == []


async def test_one_long_text_is_a_state_too(checkpointer: Checkpointer) -> None:
    for n in (1, 2):
        await checkpointer.save({"text": "word " * 400_000 * n}, "thread")

    assert len((await checkpointer.load("thread"))["text"]) == 4_000_000


async def test_a_changed_byte_is_corrupt_and_never_believed(
    checkpointer: Checkpointer, db: Database, reopen: Callable[[], Database]
) -> None:
    other = Checkpointer(reopen())  # which does not hold what was saved here
    first = await checkpointer.save({"messages": ["a" * 50, "b" * 50]}, "thread")
    await checkpointer.save({"messages": ["a" * 50, "b" * 50, "c" * 50]}, "thread")
    async with db.transaction() as tx:
        mine = DeltaRow.tenant == db.tenant, DeltaRow.seq == 1
        payload = (await tx.execute(select(DeltaRow.payload).where(*mine))).scalar_one()
        for position in range(len(payload)):
            broken = bytearray(payload)
            broken[position] ^= 0x20
            await tx.execute(update(DeltaRow).where(*mine).values(payload=bytes(broken)))
            for which in (first, None):
                with pytest.raises(Corrupt, match="thread"):
                    await other.load("thread", which, connection=tx)
        await tx.execute(update(DeltaRow).where(*mine).values(payload=payload))

    assert (await checkpointer.load("thread", first))["messages"] == ["a" * 50, "b" * 50]


@pytest.mark.unsigned_only("it counts statements")
@pytest.mark.plaintext_only(
    "a payload with keys is sent when its position is known", on=("postgresql", "psycopg")
)
async def test_a_save_with_a_cached_parent_is_one_trip_or_one_transaction(
    checkpointer: Checkpointer, db: Database
) -> None:
    seen: list[events.Event] = []
    await checkpointer.save({"n": 0}, "thread")
    unsubscribe = events.subscribe(seen.append)
    await checkpointer.save({"n": 1}, "thread")
    await checkpointer.load("thread")
    unsubscribe()

    save, load = seen
    # In SQLite's writer the three statements of a save are one hop between threads.
    statements = 3 if db.dialect.upserts else 4
    assert save.round_trips == (1 if db.dialect.single_statement_save else statements)
    assert save.cache_hit
    assert load.round_trips == (2 if db.dialect.distributed else 1)


@pytest.mark.plaintext_only(
    "a payload with keys is sent when its position is known", on=("postgresql", "psycopg")
)
@pytest.mark.unsigned_only("it counts statements")
async def test_a_save_after_somebody_elses_takes_at_most_two_trips(
    checkpointer: Checkpointer, db: Database, reopen: Callable[[], Database]
) -> None:
    await checkpointer.save({"n": 0}, "thread")
    async with reopen() as other:
        await Checkpointer(other).save({"n": 1}, "thread")
        seen: list[events.Event] = []
        unsubscribe = events.subscribe(seen.append)
        await checkpointer.save({"n": 2}, "thread")
        await Checkpointer(other).save({"n": 3}, "thread")
        unsubscribe()

    if db.dialect.single_statement_save:
        assert all(event.round_trips <= 2 for event in seen)
    assert [i.parent_id async for i in checkpointer.history("thread")][:-1] == (
        await checkpointer.list_checkpoints("thread")
    )[1:]


async def test_events_tell_sizes_and_times_and_no_content(checkpointer: Checkpointer) -> None:
    seen: list[events.Event] = []
    unsubscribe = events.subscribe(seen.append)
    made = await checkpointer.save({"text": "a secret " * 100}, "thread", metadata={"k": "hidden"})
    await checkpointer.load("thread")
    await checkpointer.search("secret")
    await checkpointer.delete("thread", made)
    with pytest.raises(NotSerialisable):
        await checkpointer.save({"x": object()}, "thread")
    unsubscribe()
    await checkpointer.load("thread")

    names = [event.name for event in seen]
    assert names == [f"checkpoint.{n}" for n in ("save", "load", "search", "delete")]
    save, load, *_ = seen
    assert save.checkpoint_id == load.checkpoint_id == made
    assert save.thread_id == load.thread_id == "thread"
    assert save.state_bytes == load.state_bytes > 900
    assert 0 < save.payload_bytes < 200
    # What was saved is at hand; but a save does not know the signature that its row has.
    assert load.payload_bytes == (save.payload_bytes if checkpointer.db.signing.signs else 0)
    assert all(event.seconds > 0 and event.tenant == checkpointer.db.tenant for event in seen)
    assert "secret" not in repr(seen)
    assert "hidden" not in repr(seen)


async def test_a_subscriber_that_raises_breaks_nothing(
    checkpointer: Checkpointer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: events.Event) -> None:
        raise RuntimeError("observer")

    unsubscribe = events.subscribe(broken)
    await checkpointer.save({"n": 1}, "thread")
    unsubscribe()

    assert await checkpointer.load("thread") == {"n": 1}
    assert "an event subscriber raised" in caplog.text


async def test_bad_metadata_is_refused_and_nothing_is_written(checkpointer: Checkpointer) -> None:
    bad: list[Any] = [{"a": object()}, {"a": math.nan}, {"a": "\x00"}, {"\x00": 1}, {1: 2}, "text"]
    for metadata in bad:
        with pytest.raises(NotSerialisable):
            await checkpointer.save({}, "thread", metadata=metadata)
    with pytest.raises(TooLarge):
        await checkpointer.save({}, "thread", metadata={"a": "x" * 40_000})

    assert not await checkpointer.exists("thread")


async def test_sixty_four_tasks_save_at_once_and_nothing_is_lost(
    checkpointer: Checkpointer,
) -> None:
    async def one(task: int) -> None:
        for n in range(5):
            await checkpointer.save({"task": task, "n": n, "text": "x" * 2000}, f"thread-{task}")

    await asyncio.gather(*(one(task) for task in range(64)))

    for task in range(64):
        assert len(await checkpointer.list_checkpoints(f"thread-{task}")) == 5
        assert (await checkpointer.load(f"thread-{task}"))["n"] == 4

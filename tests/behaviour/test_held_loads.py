"""Loads of a state that the process holds: they look whether it is still the newest, and no more.

Whatever others do to a thread, such a load returns what one of another process does.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import strategies as st
from sqlalchemy import text

from drawn_examples import examples_of
from lifetimes import end_lifetimes_of_threads
from memalchemy import Checkpointer, Corrupt, Database, MemalchemyError
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.codec.encryption import generate_key
from memalchemy.events import Event, subscribe, subscribe_statements
from memalchemy.rotation import rotate_keys
from memalchemy.verify import verify

THREAD = "thread"
OLD, NEW, SIGNING = generate_key(), generate_key(), generate_key()
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "encrypted": {"keys": [OLD]},
    "signed": {"signing_keys": [SIGNING]},
    "encrypted and signed": {"keys": [OLD], "signing_keys": [SIGNING]},
}

Open = Callable[..., Awaitable[Database]]


@pytest.fixture
async def opened(database_url: str, lasting: None) -> AsyncIterator[Open]:
    """Opens the database again and again, each time as another process would."""
    async with AsyncExitStack() as stack:
        is_new = True

        async def open_(**settings: Any) -> Database:
            nonlocal is_new
            db = Database(database_url, **settings)
            if is_new:
                await db.migrate()
                is_new = False
            return await stack.enter_async_context(db)

        yield open_


def state(number: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"message {n} " + "word " * 40} for n in range(number)]
    return {"messages": messages, "number": number}


@contextlib.contextmanager
def loads() -> Any:
    found: list[Event] = []
    unsubscribe = subscribe(lambda event: found.append(event) if event.name == LOAD else None)
    try:
        yield found
    finally:
        unsubscribe()


LOAD = "checkpoint.load"


@contextlib.contextmanager
def statements() -> Any:
    found: list[str] = []
    unsubscribe = subscribe_statements(lambda event: found.append(event.sql))
    try:
        yield found
    finally:
        unsubscribe()


async def outcome(load: Awaitable[Any]) -> Any:
    """What a load returns, or the class of the error that it raises."""
    try:
        return await load
    except MemalchemyError as error:
        return type(error)


# --- What a load of a held state reads -----------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_held_state_is_loaded_without_a_payload(opened: Open, kind: str) -> None:
    db = await opened(**KINDS[kind])
    agent = Checkpointer(db)
    for number in range(1, 8):
        await agent.save(state(number), THREAD, f"c{number}")
    await agent.load(THREAD)  # of signed rows the first load learns the signature
    with loads() as found, statements() as sent:
        assert await agent.load(THREAD) == state(7)
        assert await agent.load(THREAD, "c7") == state(7)
        assert (await agent.snapshot(THREAD)).state == state(7)
    assert [event.payload_bytes for event in found] == [0, 0, 0]
    assert found[0].state_bytes > 1000
    assert [event.round_trips for event in found[:2]] == [1, 1]
    assert len(sent) == sum(event.round_trips for event in found)


async def test_what_is_loaded_is_a_copy(opened: Open) -> None:
    agent = Checkpointer(await opened())
    await agent.save(state(3), THREAD)
    (await agent.load(THREAD))["messages"].clear()
    (await agent.snapshot(THREAD)).state["messages"].clear()
    assert await agent.load(THREAD) == state(3)


async def test_what_a_replica_or_a_read_only_database_has_loaded_is_held_there(
    opened: Open,
) -> None:
    db = await opened()
    agent = Checkpointer(db)
    await agent.save(state(3), THREAD)
    for reader in (db.replica(), await opened(read_only=True, migrate="off")):
        reading = Checkpointer(reader)
        for number in (4, 5):
            await agent.save(state(number), THREAD)
            assert await reading.load(THREAD) == state(number)
            with loads() as found:
                assert await reading.load(THREAD) == state(number)
            assert found[0].payload_bytes == 0


# --- What others do meanwhile --------------------------------------------------------------------

ACTS = (
    "save here",
    "save there",
    "save under a parent",
    "replace the newest",
    "replace an older one",
    "delete the newest",
    "delete the thread",
    "expire",
    "prune",
    "rewrite",
    "rotate keys",
    "pending writes",
    "save in another tenant",
    "fork over it",
    "save in a transaction",
    "roll back",
)


async def _act(act: str, number: int, here: Checkpointer, there: Checkpointer) -> None:
    """Do something to the thread, in the process *here* or in another one."""
    ids = await there.list_checkpoints(THREAD, 100)
    if act == "save here":
        await here.save(state(number), THREAD, f"c{number}")
    elif act == "save there":
        await there.save(state(number), THREAD, f"c{number}", ttl=3600)
    elif act == "save under a parent" and ids:
        await there.save(state(number), THREAD, f"c{number}", parent_id=ids[-1])
    elif act == "replace the newest" and ids:
        await there.save(state(number), THREAD, ids[0])
    elif act == "replace an older one" and ids:
        await there.save(state(number), THREAD, ids[-1])
    elif act == "delete the newest" and ids:
        await there.delete(THREAD, ids[0])
    elif act == "delete the thread":
        await there.delete(THREAD)
    elif act == "expire" and not there.db.guard.signs:  # it edits an end that is signed
        await end_lifetimes_of_threads(there.db)
    elif act == "prune":
        await there.prune(THREAD, keep_last=1)
    elif act == "rewrite":
        await there.rewrite(THREAD)
    elif act == "rotate keys" and there.db.keyring.encrypts:
        await rotate_keys(there.db)
    elif act == "pending writes" and ids:
        await there.put_writes([("channel", number)], THREAD, ids[0], f"task {number}")
    elif act == "save in another tenant":
        other = Checkpointer(here.db.for_tenant("other"))
        await other.save(state(number), THREAD, ids[0] if ids else "c")
        assert await other.load(THREAD) == state(number)
    elif act == "fork over it" and ids:
        forked = await there.fork(THREAD, ids[-1])
        assert await here.load(forked) == await there.load(THREAD, ids[-1])
    elif act in ("save in a transaction", "roll back"):
        with contextlib.suppress(_RolledBack):
            async with here.db.transaction() as tx:
                await here.save(state(number), THREAD, f"c{number}", connection=tx)
                assert await here.load(THREAD, connection=tx) == state(number)
                if act == "roll back":
                    raise _RolledBack


class _RolledBack(Exception): ...


COURSES = examples_of(st.lists(st.sampled_from(ACTS), min_size=8, max_size=14), 12)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_held_load_returns_what_a_load_of_another_process_does(
    opened: Open, kind: str
) -> None:
    settings = KINDS[kind]
    rotating = settings | ({"keys": [NEW, OLD]} if "keys" in settings else {})
    here, there = Checkpointer(await opened(**settings)), Checkpointer(await opened(**rotating))
    for course in COURSES:
        for number, act in enumerate(("save here", *course), start=1):
            await _act(act, number, here, there)
            fresh = await opened(**settings)
            one = Checkpointer(fresh)
            said = f"after {act!r} in {course}"
            assert await outcome(here.load(THREAD)) == await outcome(one.load(THREAD)), said
            TipCache.of(fresh).drop_tenant(fresh.tenant)
            ours = await outcome(here.snapshot(THREAD))
            assert ours == await outcome(one.snapshot(THREAD)), said
            for named in (await one.list_checkpoints(THREAD, 3)) if act != "rotate keys" else ():
                TipCache.of(fresh).drop_tenant(fresh.tenant)
                ours = await outcome(here.load(THREAD, named))
                assert ours == await outcome(one.load(THREAD, named)), said
            await fresh.close()
        await there.delete(THREAD)
        if "keys" in settings:  # what is written next has the old key again
            settings = settings | {"keys": [NEW, OLD]}
            here = Checkpointer(await opened(**settings))


# --- What changes where no load looks ------------------------------------------------------------


async def test_rot_below_a_held_state_is_found_by_verify_and_by_cold_loads(opened: Open) -> None:
    db = await opened()
    agent = Checkpointer(db)
    for number in range(1, 6):
        await agent.save(state(number), THREAD)
    await agent.load(THREAD)  # of a signed row it holds the signature now
    async with db.transaction() as connection:
        rotten = text("UPDATE deltas SET payload = :rot WHERE base_seq > 0")
        await connection.execute(rotten, {"rot": b"rot"})
    assert await agent.load(THREAD) == state(5), "what it holds is what was saved"
    with pytest.raises(Corrupt):
        await Checkpointer(await opened()).load(THREAD)
    assert not (await verify(db)).ok


@pytest.mark.parametrize("column", ["checksum", "seq"])
async def test_an_edit_of_the_columns_that_are_looked_at_is_found(
    opened: Open, column: str
) -> None:
    db = await opened()
    agent = Checkpointer(db)
    await agent.save(state(5), THREAD)
    async with db.transaction() as connection:
        await connection.execute(text(f"UPDATE deltas SET {column} = {column} + 1"))
    assert await outcome(agent.load(THREAD)) in (Corrupt, None)


async def test_bytes_that_have_changed_in_memory_are_read_again(opened: Open) -> None:
    db = await opened()
    agent = Checkpointer(db)
    for number in range(1, 6):
        await agent.save(state(number), THREAD)
        tip = TipCache.of(db).get(agent._log(THREAD))
        parts = None if tip is None else tip.links[-1].parts
        assert parts is not None
        parts["messages"] = parts["messages"].replace(b"message", b"massage")
        assert await agent.load(THREAD) == state(number)
        with loads() as found:
            assert await agent.load(THREAD) == state(number)
        assert found[0].payload_bytes == 0, "it is held again"

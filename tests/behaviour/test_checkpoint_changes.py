"""`Checkpointer.change`: a new state of the newest one, with nothing lost of what others save."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

import memalchemy
from drawn_examples import examples
from memalchemy import Checkpointer, Conflict, Database, MemalchemyError
from memalchemy.checkpoints import LEAVE
from memalchemy.errors import InvalidArgument
from memalchemy.schema import ThreadRow
from waiting import A_WHILE

HOUR = 3600
State = dict[str, Any]


@pytest.fixture
def checkpointer(db: Database) -> Checkpointer:
    return memalchemy.Checkpointer(db)


def one_more(state: State | None) -> State:
    return {"n": 1} if state is None else {**state, "n": state["n"] + 1}


def adding(message: str) -> Callable[[State | None], State]:
    """Return a function that appends to the messages of the state that it is given."""

    def add(state: State | None) -> State:
        state = state or {"messages": []}
        state["messages"].append(message)
        return state

    return add


async def test_it_saves_a_first_state_and_a_new_one_of_the_newest(
    checkpointer: Checkpointer,
) -> None:
    first = await checkpointer.change("t", one_more)
    second = await checkpointer.change("t", one_more, {"by": "me"})

    assert await checkpointer.list_checkpoints("t") == [second, first]
    assert await checkpointer.load("t") == {"n": 2}
    assert await checkpointer.load("t", first) == {"n": 1}
    found = [(info.parent_id, info.metadata) async for info in checkpointer.history("t")]
    assert found == [(first, {"by": "me"}), (None, {})]


async def test_what_it_leaves_is_as_it_was(checkpointer: Checkpointer) -> None:
    assert await checkpointer.change("t", lambda state: LEAVE) is None
    assert not await checkpointer.exists("t")
    saved = await checkpointer.save({"n": 1}, "t")

    assert await checkpointer.change("t", lambda state: LEAVE) == saved
    assert await checkpointer.list_checkpoints("t") == [saved]


@pytest.mark.parametrize("before", [None, {"messages": []}])
async def test_a_function_that_forgets_to_return_the_state_is_told(
    checkpointer: Checkpointer, before: State | None
) -> None:
    if before is not None:
        await checkpointer.save(before, "t")

    def forget(state: State | None) -> None:
        if state is not None:
            state["messages"].append("lost")

    with pytest.raises(InvalidArgument, match="LEAVE to save nothing"):
        await checkpointer.change("t", forget)

    assert await checkpointer.load("t") == before


async def test_what_is_no_function_and_no_state_is_refused(checkpointer: Checkpointer) -> None:
    with pytest.raises(TypeError):
        await checkpointer.change("t", {"n": 1})  # type: ignore[arg-type]
    for state in (1, object(), [1], {"n": object()}):
        with pytest.raises(MemalchemyError):
            await checkpointer.change("t", lambda _, state=state: state)  # type: ignore[misc]

    assert not await checkpointer.exists("t")


async def test_lifetimes_are_as_of_a_save(checkpointer: Checkpointer, db: Database) -> None:
    expiry = select(ThreadRow.expires_at).where(ThreadRow.tenant == db.tenant)
    for ttl, expires in ((HOUR, True), (None, False)):
        await checkpointer.change("t", one_more, ttl=ttl)
        found = await db.run_sync(lambda connection: connection.execute(expiry).scalar())
        assert (found is not None) is expires


@dataclass
class Plan:
    steps: list[str] = field(default_factory=list)


async def test_the_state_is_as_load_returns_it(db: Database) -> None:
    typed = memalchemy.Checkpointer(db, state_type=Plan)

    def add(plan: Plan | None) -> Plan:
        plan = plan or Plan()
        plan.steps.append("walk")
        return plan

    await typed.change("t", add)
    await typed.change("t", add)

    assert await typed.load("t") == Plan(["walk", "walk"])


@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
async def test_of_many_changers_at_once_none_loses_what_another_saved(
    checkpointer: Checkpointer, reopen: Callable[[], Database], lasting: None, data: st.DataObject
) -> None:
    """Functions and coroutine functions, through two databases, on threads that they share."""
    changers = data.draw(
        st.lists(
            st.tuples(st.sampled_from(["a", "b"]), st.booleans(), st.booleans()),
            min_size=1,
            max_size=24,
        )
    )
    run = f"{data.draw(st.uuids())}-"

    async with reopen() as other:
        checkpointers = (checkpointer, memalchemy.Checkpointer(other))

        async def change(number: int, thread: str, elsewhere: bool, slowly: bool) -> None:
            add = adding(str(number))

            async def add_slowly(state: State | None) -> State:
                await asyncio.sleep(0)
                return add(state)

            function: Any = add_slowly if slowly else add
            await checkpointers[elsewhere].change(run + thread, function)

        await asyncio.gather(*(change(number, *how) for number, how in enumerate(changers)))

    for thread in {thread for thread, _, _ in changers}:
        state = await checkpointer.load(run + thread)
        assert state is not None
        wanted = {str(number) for number, (where, _, _) in enumerate(changers) if where == thread}
        assert sorted(state["messages"]) == sorted(wanted)
        history = [info.checkpoint_id async for info in checkpointer.history(run + thread)]
        assert len(history) == len(wanted), "one checkpoint for each change"


async def test_of_a_hundred_at_once_none_gives_up(
    checkpointer: Checkpointer, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other:
        both = (checkpointer, memalchemy.Checkpointer(other))
        await asyncio.gather(*(both[n % 2].change("t", one_more) for n in range(100)))

    assert await checkpointer.load("t") == {"n": 100}


async def save_again(
    checkpointer: Checkpointer, remove: Callable[[Checkpointer], Awaitable[object]]
) -> None:
    await remove(checkpointer)
    await checkpointer.save({"n": 9}, "t", "zeroth")
    await checkpointer.save({"n": 10}, "t", "first")


MEANWHILE: dict[str, Callable[[Checkpointer], Any]] = {
    "saved": lambda c: c.save({"n": 10}, "t"),
    "replaced": lambda c: c.save({"n": 10}, "t", "first"),
    "branched": lambda c: c.save({"n": 10}, "t", parent_id="zeroth"),
    "changed": lambda c: c.change("t", lambda state: {"n": 10}),
    "deleted": lambda c: c.delete("t"),
    "newest deleted": lambda c: c.delete("t", "first"),
    "deleted and saved again": lambda c: save_again(c, lambda c: c.delete("t")),
    "forgotten and saved again": lambda c: save_again(c, lambda c: c.forget(thread_id="t")),
    "vacuumed and saved again": lambda c: save_again(c, lambda c: c.vacuum(0)),
    "pruned": lambda c: c.prune("t", keep_last=1),
    "rewritten": lambda c: c.rewrite("t"),
    "described": lambda c: c.set_thread_metadata("t", {"title": "T"}),
    "nothing": lambda c: c.load("t"),
}
SEEN = {"deleted": None, "newest deleted": 0, "pruned": 1, "rewritten": 1, "described": 1,
        "nothing": 1}  # fmt: skip


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("here", [True, False], ids=["here", "elsewhere"])
async def test_it_decides_anew_about_what_others_save(
    checkpointer: Checkpointer,
    reopen: Callable[[], Database],
    lasting: None,
    meanwhile: str,
    here: bool,
) -> None:
    await checkpointer.save({"n": 0}, "t", "zeroth")
    await checkpointer.save({"n": 1}, "t", "first")
    seen: list[int | None] = []
    async with reopen() as other:
        others = checkpointer if here else memalchemy.Checkpointer(other)

        async def change(state: State | None) -> State:
            seen.append(None if state is None else state["n"])
            if len(seen) == 1:
                await MEANWHILE[meanwhile](others)
            return one_more(state)

        saved = await checkpointer.change("t", change)

    last = SEEN.get(meanwhile, 10)
    assert seen[0] == 1
    assert seen[-1] == last
    assert await checkpointer.load("t") == {"n": 1 if last is None else last + 1}
    assert (await checkpointer.list_checkpoints("t"))[0] == saved


async def test_an_error_of_the_function_is_its_own_and_saves_nothing(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.save({"n": 1}, "t")
    for error in (Conflict("of the function"), ZeroDivisionError(), memalchemy.ThreadDeleted("x")):
        calls = 0

        def refuse(state: State | None, error: Exception = error) -> State:
            nonlocal calls
            calls += 1
            raise error

        with pytest.raises(type(error)) as raised:
            await checkpointer.change("t", refuse)
        assert (raised.value, calls) == (error, 1)

    assert await checkpointer.load("t") == {"n": 1}


async def test_a_coroutine_that_is_always_overtaken_is_given_up(checkpointer: Checkpointer) -> None:
    async def slowly(state: State | None) -> State:
        await checkpointer.change("t", one_more)
        return {"n": 0}

    with pytest.raises(Conflict, match="others wrote to thread 't' 20 times"):
        await checkpointer.change("t", slowly)

    assert await checkpointer.load("t") == {"n": 21}


async def test_it_is_part_of_a_transaction(checkpointer: Checkpointer, db: Database) -> None:
    async with db.transaction() as tx:
        await checkpointer.change("t", one_more, connection=tx)
        await checkpointer.change("t", one_more, connection=tx)
        assert await checkpointer.load("t", connection=tx) == {"n": 2}
        await tx.rollback()

    assert not await checkpointer.exists("t")


async def test_transactions_that_change_one_thread_wait_for_each_other(
    checkpointer: Checkpointer, db: Database, lasting: None
) -> None:
    await checkpointer.save({"n": 0}, "t")

    async def change() -> None:
        async with db.transaction() as tx:
            await checkpointer.load("t", connection=tx)
            await checkpointer.change("t", one_more, connection=tx)

    async with asyncio.timeout(A_WHILE):
        await asyncio.gather(*(change() for _ in range(6)))

    assert await checkpointer.load("t") == {"n": 6}

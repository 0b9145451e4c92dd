"""A compaction by hand replaces only what the model was sent, of the current branch alone."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import agents.extensions.memory
import agents.memory
import pytest
from agents import Agent, Runner
from agents.memory import OpenAIResponsesCompactionSession
from scripted_model import Scripted, said, texts

from memalchemy import CapabilityMissing, Conflict, Database
from memalchemy.integrations.openai_agents import MemalchemySession

pytestmark = pytest.mark.usefixtures("lasting")

Meanwhile = Callable[[MemalchemySession], Awaitable[Any]]


class Compacting:
    """OpenAI's client: it compacts to one item, and something happens meanwhile."""

    def __init__(self, meanwhile: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.responses = self
        self._meanwhile = meanwhile

    async def compact(self, **_: Any) -> Any:
        if self._meanwhile is not None:
            await self._meanwhile()
        summary = {"type": "compaction", "encrypted_content": "all", "id": "c"}
        return SimpleNamespace(output=[summary])


def compaction(session: Any, client: Any, **options: Any) -> OpenAIResponsesCompactionSession:
    return OpenAIResponsesCompactionSession(
        session.session_id, session, client=client, model="gpt-5", **options
    )


async def fill(session: MemalchemySession) -> None:
    for turn in range(3):
        await session.add_items([said("user", f"q{turn}"), said("assistant", f"a{turn}")])


async def everything(db: Database) -> dict[str, Any]:
    session = MemalchemySession("talk", db)
    branches = [one["branch_id"] for one in await session.list_branches()]
    return {one: await session.get_items(branch_id=one) for one in sorted(branches)}


async def add(session: MemalchemySession) -> None:
    await session.add_items([said("user", "of another process")])


async def pop(session: MemalchemySession) -> None:
    await session.pop_item()


async def pop_and_add(session: MemalchemySession) -> None:
    item = await session.pop_item()
    assert item is not None
    await session.add_items([item])


async def clear(session: MemalchemySession) -> None:
    await session.clear_session()


async def clear_and_add(session: MemalchemySession) -> None:
    await session.clear_session()
    await fill(session)


async def compact_too(session: MemalchemySession) -> None:
    await asyncio.create_task(by_hand(compaction(session, Compacting())))


async def by_hand(wrapper: OpenAIResponsesCompactionSession) -> None:
    await wrapper.run_compaction({"force": True, "compaction_mode": "input"})


WRITES: list[Meanwhile] = [add, pop, pop_and_add, clear, clear_and_add, compact_too]


@pytest.mark.parametrize("ttl", [None, 3600], ids=["no ttl", "ttl"])
@pytest.mark.parametrize("branch", ["main", "b"])
@pytest.mark.parametrize("rollback", [None, 100])
@pytest.mark.parametrize("write", WRITES, ids=lambda one: one.__name__)
async def test_a_compaction_by_hand_replaces_nothing_that_others_have_changed(
    db: Database,
    reopen: Callable[[], Database],
    write: Meanwhile,
    rollback: int | None,
    branch: str,
    ttl: float | None,
) -> None:
    session = MemalchemySession("talk", db, ttl=ttl)
    await fill(session)
    await session.create_branch_from_turn(2, "b")
    await session.add_items([said("user", "on b")])
    if branch == "main":
        await session.switch_to_branch("main")
    other = reopen()
    left: dict[str, Any] = {}

    async def meanwhile() -> None:
        await write(MemalchemySession("talk", other, branch=branch))
        left.update(await everything(other))

    wrapper = compaction(session, Compacting(meanwhile), max_rollback_items=rollback)
    with pytest.raises(Conflict, match="changed while it was compacted"):
        await by_hand(wrapper)

    assert await everything(other) == left
    await other.close()


@pytest.mark.parametrize("branch", ["main", "b"])
@pytest.mark.parametrize("limit", [None, 2])
async def test_a_compaction_by_hand_replaces_the_items_of_its_branch_alone(
    db: Database, branch: str, limit: int | None
) -> None:
    settings = {"limit": limit}
    session = MemalchemySession("talk", db, session_settings=settings)
    await fill(session)
    await session.create_branch_from_turn(2, "b")
    await session.add_items([said("user", "on b")])
    await session.switch_to_branch(branch)
    before = await everything(db)

    async def on_the_other_branch() -> None:
        there = "main" if branch == "b" else "b"
        await add(MemalchemySession("talk", db, branch=there))

    for client in (Compacting(), Compacting(on_the_other_branch)):
        await by_hand(compaction(session, client))

        assert session.branch == branch
        after = await everything(db)
        assert [one["type"] for one in after.pop(branch)] == ["compaction"]
        assert {name: items[: len(before[name])] for name, items in after.items()} == {
            name: items for name, items in before.items() if name != branch
        }


async def test_usage_of_compacted_turns_is_not_that_of_later_ones(db: Database) -> None:
    session = MemalchemySession("talk", db)
    result = await Runner.run(Agent(name="a", model=Scripted("Hi.")), "Hello", session=session)
    await session.store_run_usage(result)

    await by_hand(compaction(session, Compacting()))
    await session.add_items([said("user", "anew")])

    assert await session.get_turn_usage() == []
    assert await session.get_session_usage() is None


async def test_two_compactions_of_one_object_do_not_take_each_other_for_the_same(
    db: Database,
) -> None:
    session = MemalchemySession("talk", db)
    await fill(session)
    read, going_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        read.set()
        await going_on.wait()

    first = asyncio.create_task(by_hand(compaction(session, Compacting(wait))))
    await read.wait()
    await add(MemalchemySession("talk", db))
    await session._read_compaction_items(None)  # as another compaction of the object begins
    going_on.set()

    with pytest.raises(Conflict, match="changed while it was compacted"):
        await first
    assert texts(await session.get_items())[-1] == "of another process"


KEY = "a" * 43 + "="


def wrappers() -> dict[str, type]:
    """Return the SDK's classes that are made of another session."""
    found: dict[str, type] = {}
    for package in (agents.memory, agents.extensions.memory):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            try:
                members = vars(importlib.import_module(module.name)).values()
            except ImportError:  # of a database that is not installed
                continue
            for one in members:
                if (
                    inspect.isclass(one)
                    and "__init__" in vars(one)
                    and "underlying_session" in inspect.signature(one.__init__).parameters
                ):
                    found[one.__name__] = one
    return found


def wrap(name: str, session: Any, client: Any) -> Any:
    if name == "OpenAIResponsesCompactionSession":
        return compaction(session, client)
    return wrappers()[name]("talk", session, KEY)


ORDERS = [(outer, inner) for outer in wrappers() for inner in wrappers() if outer != inner]


def test_the_wrappers_of_the_sdk_are_those_that_are_tested() -> None:
    assert {*wrappers()} == {"OpenAIResponsesCompactionSession", "EncryptedSession"}


@pytest.mark.parametrize("branch", ["main", "b"])
@pytest.mark.parametrize("write", [None, *WRITES[:-1]], ids=lambda one: one and one.__name__)
@pytest.mark.parametrize("order", ORDERS, ids=lambda one: "-".join(one))
async def test_wrappers_within_each_other_replace_nothing_that_others_have_changed(
    db: Database,
    reopen: Callable[[], Database],
    order: tuple[str, str],
    write: Meanwhile | None,
    branch: str,
) -> None:
    session = MemalchemySession("talk", db)
    other = reopen()
    left: dict[str, Any] = {}

    async def meanwhile() -> None:
        if write is not None:
            await write(MemalchemySession("talk", other, branch=branch))
        left.update(await everything(other))

    client = Compacting(meanwhile)
    outer = wrap(order[0], wrap(order[1], session, client), client)
    for turn in range(3):
        await outer.add_items([said("user", f"q{turn}"), said("assistant", f"a{turn}")])
    await session.create_branch("b")
    await outer.add_items([said("user", "on b")])
    if branch == "main":
        await session.switch_to_branch("main")

    with pytest.raises(CapabilityMissing, match="EncryptedSession"):
        await outer.run_compaction({"force": True, "compaction_mode": "input"})

    assert await everything(db) == left
    await outer.add_items([said("user", "later")])
    assert texts(await outer.get_items())[-1] == "later"
    await other.close()

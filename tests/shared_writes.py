"""Operations that several tasks make on one connection, and how a test looks for them afterwards.

A name is ``THREAD.NUMBER``: operations of one thread meet in its log, its checkpoints and its
namespace of the store, as those of one transaction do in an application.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from host_urls import async_url
from memalchemy import Checkpointer, Database, MemalchemyError, Store, ThreadLog
from waiting import A_WHILE

PARTS = 3
"""Of an operation that writes several things; all or none of them are there afterwards."""


class Regret(Exception):
    """An exception of the host's, such as makes it leave a transaction."""


@dataclass(frozen=True)
class Features:
    """The three features on one database."""

    db: Database
    store: Store
    checkpointer: Checkpointer
    log: ThreadLog

    @classmethod
    def of(cls, db: Database) -> Features:
        return cls(db, Store(db), Checkpointer(db), ThreadLog(db))


def thread_of(name: str) -> str:
    return name.rpartition(".")[0]


def namespace_of(name: str) -> tuple[str, ...]:
    return ("shared", thread_of(name))


def state_of(name: str) -> dict[str, Any]:
    """A state with a long beginning that all have in common: it is stored as a difference."""
    return {"text": "what every step has in common, " * 30, "name": name}


async def _put(on: Features, name: str, connection: Any) -> None:
    await on.store.put(namespace_of(name), name, {"name": name}, connection=connection)


async def _found_item(on: Features, name: str) -> list[Any]:
    value = await on.store.get(namespace_of(name), name)
    return [] if value is None else [value == {"name": name}]


async def _put_batch(on: Features, name: str, connection: Any) -> None:
    items = [(namespace_of(name), f"{name}-{n}", {"name": name}) for n in range(PARTS)]
    await on.store.put_batch(items, connection=connection)


async def _found_batch(on: Features, name: str) -> list[Any]:
    keys = [(namespace_of(name), f"{name}-{n}") for n in range(PARTS)]
    found = await on.store.get_batch(keys)
    return [value == {"name": name} for value in found.values()]


async def _save(on: Features, name: str, connection: Any) -> None:
    await on.checkpointer.save(state_of(name), thread_of(name), name, connection=connection)


async def _found_checkpoint(on: Features, name: str) -> list[Any]:
    state = await on.checkpointer.load(thread_of(name), name)
    return [] if state is None else [state == state_of(name)]


async def _append(on: Features, name: str, connection: Any) -> None:
    entries = [{"name": name, "n": n} for n in range(PARTS)]
    await on.log.append(thread_of(name), entries, connection=connection)


async def _found_entries(on: Features, name: str) -> list[Any]:
    entries = [entry.value for entry in await on.log.range(thread_of(name))]
    mine = [value["n"] for value in entries if value["name"] == name]
    return [n == at for at, n in enumerate(mine)]


async def _put_writes(on: Features, name: str, connection: Any) -> None:
    writes = [(f"channel {n}", {"name": name}) for n in range(PARTS)]
    await on.checkpointer.put_writes(writes, thread_of(name), name, "task", connection=connection)


async def _found_writes(on: Features, name: str) -> list[Any]:
    writes = await on.checkpointer.get_writes(thread_of(name), name)
    return [write.value == {"name": name} for write in writes]


async def _load(on: Features, name: str, connection: Any) -> None:
    await on.checkpointer.load(thread_of(name), connection=connection)


async def _get(on: Features, name: str, connection: Any) -> None:
    await on.store.get(namespace_of(name), name, connection=connection)


async def _range(on: Features, name: str, connection: Any) -> None:
    await on.log.range(thread_of(name), connection=connection)


async def _search_states(on: Features, name: str, connection: Any) -> None:
    await on.checkpointer.search("common", connection=connection)


async def _search_items(on: Features, name: str, connection: Any) -> None:
    await on.store.search(namespace_of(name), "name", connection=connection)


Do = Callable[[Features, str, Any], Coroutine[Any, Any, None]]

WRITES: dict[str, tuple[Do, Callable[[Features, str], Awaitable[list[Any]]], int]] = {
    "put": (_put, _found_item, 1),
    "put_batch": (_put_batch, _found_batch, PARTS),
    "save": (_save, _found_checkpoint, 1),
    "append": (_append, _found_entries, PARTS),
    "put_writes": (_put_writes, _found_writes, PARTS),
}
READS: dict[str, Do] = {
    "load": _load,
    "get": _get,
    "range": _range,
    "checkpointer.search": _search_states,
    "store.search": _search_items,
}
OPERATIONS: tuple[str, ...] = (*WRITES, *READS)


async def do(on: Features, operation: str, name: str, connection: Any = None) -> None:
    """One operation, part of a transaction if there is a *connection*; it ends within a while."""
    how = WRITES[operation][0] if operation in WRITES else READS[operation]
    async with asyncio.timeout(A_WHILE):
        await how(on, name, connection)


async def is_there(on: Features, operation: str, name: str) -> bool:
    """Whether what was written under *name* is there; it is whole and right, or fails the test."""
    _, find, parts = WRITES[operation]
    found = await find(on, name)
    assert found in ([], [True] * parts), f"{operation} {name} is there in part, or wrong: {found}"
    return bool(found)


async def present(on: Features, written: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of *written*, pairs of an operation and a name, that are there."""
    return [one for one in written if one[0] in WRITES and await is_there(on, *one)]


def is_clear(error: BaseException) -> bool:
    """Whether one of our methods may raise *error* where its connection is used by others, too.

    SQLAlchemy refuses what is closed or busy by errors of its own; those of drivers are ours.
    """
    if isinstance(error, DBAPIError):
        return False
    return isinstance(error, MemalchemyError | SQLAlchemyError)


async def is_acknowledged(operation: Awaitable[object]) -> bool:
    """Whether *operation* returned; if not, it was refused by an error that is clear."""
    try:
        async with asyncio.timeout(A_WHILE):
            await operation
    except Exception as error:
        if not is_clear(error):
            raise
        return False
    return True


def host_engine(url: str) -> AsyncEngine:
    """A host's own engine on the database of *url*."""
    engine = create_async_engine(async_url(url))
    if engine.dialect.name == "sqlite":
        foreign_keys = "PRAGMA foreign_keys = ON"
        event.listen(engine.sync_engine, "connect", lambda c, _: c.execute(foreign_keys))
    return engine


@asynccontextmanager
async def in_session(engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
    """A session of a host's that is committed, or closed by an exception, and has then ended.

    It has its connection from the start: SQLAlchemy lets no session be closed by one task while
    another waits for its connection. After its commit the next use would ask for another one, so a
    host whose tasks outlive a commit gives them a connection instead.
    """
    async with AsyncSession(engine, close_resets_only=False) as session:
        await session.connection()
        yield session
        await session.commit()

"""Jobs on connections of the host application's, given as ``connection=``."""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from memalchemy.database.connection_lock import ConnectionLock, connection_of
from memalchemy.database.program_runner import run_synchronously
from memalchemy.database.sqlite.aiosqlite_connection import AioSQLiteConnection
from memalchemy.dialects import Dialect, dialect_of

T = TypeVar("T")


class ThreadBound(abc.ABC):
    """A host's synchronous connection, which only its own thread may use: jobs are sent there."""

    dialect: Any

    @abc.abstractmethod
    async def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Run *job* on the connection, in its thread."""


HostConnection = AsyncConnection | AsyncSession | ThreadBound


async def run_on_host(
    dialect: Dialect,
    connection: HostConnection,
    job: Callable[[Any], Any],
    *,
    is_program: bool = False,
) -> Any:
    """Run *job* on a connection of the host's, part of whatever transaction it is in.

    With *is_program* it is a coroutine function, and its connection may be a `DirectConnection`.
    Tasks that share a connection take turns.

    Raises:
        MemalchemyError: its transaction has ended; nothing was done.
    """
    if isinstance(connection, AsyncSession):
        connection = await connection_of(connection)
    if not isinstance(connection, AsyncConnection | ThreadBound):
        raise TypeError(
            f"connection= takes an AsyncConnection or AsyncSession, not {type(connection).__name__}"
        )
    if connection.dialect.name != dialect.sqlalchemy_name:
        theirs = dialect_of(connection)
        raise ValueError(f"connection= is of a {theirs} database, this one is {dialect}")
    if is_program:
        job = partial(run_synchronously, job)
    if isinstance(connection, ThreadBound) or connection.sync_connection is None:
        return await connection.run_sync(job)
    lock = ConnectionLock.of(connection)
    async with lock.operation(connection):
        direct = AioSQLiteConnection.usable_below(connection) if is_program else None
        if direct is not None:
            return await direct.run_job(job)
        if dialect.single_writer:
            return await lock.to_its_end(connection.run_sync(job))
        return await connection.run_sync(job)

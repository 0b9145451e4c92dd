"""A database server: one async engine for each event loop of this process."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.util import greenlet_spawn

from memalchemy.database.prepared import Plans, Prepared
from memalchemy.database.running import RolledBack, Translate, translating
from memalchemy.database.shared_connection import SoleConnection, guard
from memalchemy.database.url import ORACLE_OPTIONS, Target
from memalchemy.dialects import Dialect
from memalchemy.errors import CapabilityMissing

T = TypeVar("T")

_AUTOCOMMIT = {"isolation_level": "AUTOCOMMIT"}

_OF_THE_POOL = {"pool_size", "max_overflow", "pool_timeout", "pool_recycle", "pool_pre_ping"}
_first_value = json.JSONDecoder().raw_decode
_CACHES = ("statement_cache_size", "prepared_statement_cache_size")

# Engines inherited through a fork share sockets with the parent: never used, never closed here.
_inherited: list[object] = []


@dataclass
class Engines:
    """One pool, two ways of using it."""

    plain: AsyncEngine
    autocommit: AsyncEngine | None
    """``None`` with psycopg: it awaits to set autocommit, and a task cancelled there would lose the
    connection, so it is set on a connection that is held already.
    """
    sole: SoleConnection | None
    """Of a host's engine with one connection for all, such as SQLite's in memory."""
    busy: int = 0
    """Connections in use, or asked for."""
    is_closed: bool = False

    async def close(self) -> None:
        """Close the connections; those in use when they are given back."""
        self.is_closed = True
        if not self.busy:
            await self.plain.dispose()

    async def give_back(self) -> None:
        """One that was in use is not any more."""
        self.busy -= 1
        if self.is_closed and not self.busy:
            await self.plain.dispose()


class Served:
    """Engines for *target*, made on first use, or the host's own engine, which stays theirs."""

    def __init__(
        self,
        target: Target | None,
        engine: AsyncEngine | None,
        *,
        dialect: Dialect,
        translate: Translate,
        pgbouncer: bool,
        schema: str | None,
        connect_timeout: float,
        statement_timeout: float | None,
        engine_options: dict[str, Any],
    ) -> None:
        self._target = target
        self._dialect = dialect
        self._translate = translate
        self._refused = partial(translate, connecting=True)
        self._autocommit = dialect.autocommits and not pgbouncer
        self._theirs = engine
        self._options = (
            _options(target, pgbouncer, connect_timeout, statement_timeout, engine_options)
            if target is not None
            else {}
        )
        # PgBouncer takes no server options, and psycopg has no timeout of its own for statements.
        psycopg = target is not None and target.url.drivername == "postgresql+psycopg"
        self._deadline = statement_timeout if psycopg and pgbouncer else None
        straight = target is not None and _goes_straight(target, pgbouncer, engine_options)
        self._plans = Plans(schema, statement_timeout) if straight else None
        self._engines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Engines]
        self._engines = weakref.WeakKeyDictionary()
        self._pid = os.getpid()

    def engines(self) -> Engines:
        """The engine of the running loop, and the same in autocommit."""
        if self._pid != os.getpid():
            _inherited.append(self._engines)
            self._engines = weakref.WeakKeyDictionary()
            self._pid = os.getpid()
        loop = asyncio.get_running_loop()
        engines = self._engines.get(loop)
        if engines is None:
            engine = self._theirs
            if engine is None:
                assert self._target is not None
                engine = create_async_engine(self._target.url, **self._options)
            guard(engine.sync_engine, self._dialect)
            awaits = engine.dialect.driver == "psycopg"
            engines = Engines(
                engine,
                None if awaits else engine.execution_options(**_AUTOCOMMIT),
                SoleConnection() if isinstance(engine.pool, StaticPool) else None,
            )
            self._engines[loop] = engines
        return engines

    @property
    def is_straight(self) -> bool:
        """Whether `straight` is the way for programs."""
        return self._plans is not None

    async def straight(self, job: Callable[[Prepared], T], committing: list[bool] | None) -> T:
        """Run the *job* of a program, its statements without SQLAlchemy; see `straight.lend`."""
        from memalchemy.database.straight import lend  # imports the driver

        engines = self.engines()
        assert self._plans is not None
        engine = engines.plain.sync_engine
        engines.busy += 1
        try:
            return await greenlet_spawn(lend, engine, self._plans, job, self._refused, committing)
        finally:
            await engines.give_back()

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Run a reading *job*; in autocommit, where that costs nothing."""
        async with self._connect(autocommit=self._autocommit) as connection:
            result = await self._run(connection, self._in_their_transaction(job))
            self._check_left(connection)
            return result

    async def single(self, job: Callable[[Connection], T], committing: list[bool]) -> T:
        """Run a *job* of a single statement, in autocommit.

        Behind PgBouncer in a transaction: asyncpg prepares and executes in two rounds, which
        outside of one may reach two different server connections.
        """
        if not self._autocommit:
            return await self.together(job, committing)
        async with self._connect(autocommit=True) as connection:
            result = await self._run(connection, self._in_their_transaction(job))
            self._check_left(connection)
            return result

    def _in_their_transaction(self, job: Callable[[Connection], T]) -> Callable[[Connection], T]:
        """Return *job* with a COMMIT of the transaction that a listener of the host's has begun.

        SQLAlchemy's pages tell hosts to send BEGIN themselves on SQLite, by a listener that is
        called in autocommit, too. Without one, *job* runs in autocommit as it is.
        """
        if self._theirs is None or not self._autocommit:
            return job

        def run(connection: Connection) -> T:
            connection.begin()
            begun = self._dialect.in_transaction(connection.connection.driver_connection)
            result = job(connection)
            if begun:
                connection.commit()
            return result

        return run

    def _check_left(self, connection: AsyncConnection) -> None:
        """Refuse to acknowledge what was done in autocommit if that was in a transaction after all.

        Raises:
            RolledBack: the connection had been given back by a task that was still using it. It is
                closed, so nothing was changed.
        """
        sync = connection.sync_connection
        if not self._autocommit or sync is None or sync.closed or sync.invalidated:
            return
        raw = sync.connection.driver_connection
        if self._dialect.in_transaction(raw):
            self._dialect.abandon(raw)
            sync.invalidate()
            raise RolledBack("the connection was in somebody else's transaction")

    async def apart(self, job: Callable[[Connection], T]) -> T:
        """Run *job* in autocommit, each statement a transaction of its own, or not at all."""
        if not self._autocommit:
            raise CapabilityMissing(
                "this needs a connection of its own outside any transaction, which PgBouncer in "
                "transaction mode does not give; connect to the server itself"
            )
        async with self._connect(autocommit=True) as connection:
            return await connection.run_sync(job)

    async def together(self, job: Callable[[Connection], T], committing: list[bool]) -> T:
        """Run *job* in one transaction; *committing* becomes non-empty before COMMIT is sent."""
        async with self._connect(autocommit=False) as connection:
            async with connection.begin() as transaction:
                result = await self._run(connection, job)
                committing.append(True)
                with translating(self._translate):
                    await transaction.commit()
            return result

    @asynccontextmanager
    async def connection(self, isolation: str | None = None) -> AsyncIterator[AsyncConnection]:
        """Lend a connection for a transaction, at an *isolation* level of its own if one is given.

        Errors inside the block are raised as they are.
        """
        async with self._connect(autocommit=False) as connection:
            if isolation is not None:
                with translating(self._translate):
                    await connection.execution_options(isolation_level=isolation)
            yield connection

    async def close(self) -> None:
        """Dispose of the running loop's engine and forget those of loops that ended."""
        if self._theirs is not None:
            return
        engines = self._engines.pop(asyncio.get_running_loop(), None)
        if engines is not None:
            await engines.close()
        for other in list(self._engines):
            if other.is_closed():
                self._engines.pop(other).plain.sync_engine.dispose(close=False)

    def checked_out(self) -> int:
        """Connections of the running loop's pool that are in use."""
        return int(getattr(self.engines().plain.pool, "checkedout", lambda: 0)())

    async def _run(self, connection: AsyncConnection, job: Callable[[Connection], T]) -> T:
        deadline = asyncio.timeout(self._deadline)
        try:
            async with deadline:
                return await connection.run_sync(job)
        except TimeoutError as error:
            if deadline.expired():
                raise self._translate(error) from error
            raise

    @asynccontextmanager
    async def _connect(self, *, autocommit: bool) -> AsyncIterator[AsyncConnection]:
        engines = self.engines()
        engine = (autocommit and engines.autocommit) or engines.plain
        engines.busy += 1
        async with AsyncExitStack() as stack:
            stack.push_async_callback(engines.give_back)
            if engines.sole is not None:
                await stack.enter_async_context(engines.sole.turn())
            with translating(self._refused):
                connection = await stack.enter_async_context(engine.connect())
            if engines.sole is not None:
                engines.sole.check_free(connection, self._dialect)
            if autocommit and engines.autocommit is None:
                await connection.execution_options(**_AUTOCOMMIT)
            yield connection


def _goes_straight(target: Target, pgbouncer: bool, given: dict[str, Any]) -> bool:
    """Whether asyncpg is asked without SQLAlchemy: not if statements cannot stay prepared, nor if
    SQLAlchemy is given options of its own, as for logging or isolation.
    """
    if target.url.drivername != "postgresql+asyncpg" or pgbouncer:
        return False
    if given.keys() - _OF_THE_POOL - {"connect_args"}:
        return False
    settings = dict(target.url.query) | target.connect_args | dict(given.get("connect_args", {}))
    return all(str(settings.get(name, "")) != "0" for name in _CACHES)


def _options(
    target: Target,
    pgbouncer: bool,
    connect_timeout: float,
    statement_timeout: float | None,
    given: dict[str, Any],
) -> dict[str, Any]:
    """Engine options: ours, under what the user gave."""
    connect_args = dict(target.connect_args)
    of_oracle = {name: given[name] for name in ORACLE_OPTIONS if name in given}
    if of_oracle and target.dialect != "oracle":
        raise TypeError(f"{', '.join(of_oracle)}: for oracle:// URLs only")
    given = {name: value for name, value in given.items() if name not in of_oracle}
    connect_args |= {
        name: fspath(value) if isinstance(value, PathLike) else value
        for name, value in of_oracle.items()
        if value is not None
    }
    options: dict[str, Any] = {"hide_parameters": True}
    if target.url.drivername == "postgresql+asyncpg":
        options["json_deserializer"] = _read_json
        connect_args.setdefault("timeout", connect_timeout)
        if statement_timeout is not None:
            connect_args["command_timeout"] = statement_timeout
        if pgbouncer:
            # In transaction mode a statement may run on another server connection than the one
            # that prepared it: no caches, and names that never meet.
            connect_args["statement_cache_size"] = 0
            connect_args["prepared_statement_cache_size"] = 0
            connect_args["prepared_statement_name_func"] = lambda: f"__asyncpg_{uuid.uuid4()}__"
    elif target.url.drivername == "postgresql+psycopg":
        connect_args.setdefault("connect_timeout", max(1, round(connect_timeout)))
        if pgbouncer:
            connect_args["prepare_threshold"] = None
        elif statement_timeout is not None:
            timeout = f"-c statement_timeout={round(statement_timeout * 1000)}"
            connect_args["options"] = f"{connect_args.get('options', '')} {timeout}".strip()
    elif target.dialect == "oracle":
        connect_args.setdefault("tcp_connect_timeout", connect_timeout)
    if pgbouncer:
        options["poolclass"] = NullPool
    theirs = dict(given.get("connect_args", {}))
    if "server_settings" in theirs:
        theirs["server_settings"] = (
            connect_args.get("server_settings", {}) | theirs["server_settings"]
        )
    if "options" in theirs:
        theirs["options"] = f"{connect_args.get('options', '')} {theirs['options']}".strip()
    return options | given | {"connect_args": connect_args | theirs}


def _read_json(text: str) -> Any:
    """`json.loads`; what is of the type jsonb has nothing around it that had to be looked for."""
    try:
        return _first_value(text)[0]
    except ValueError:
        return json.loads(text)

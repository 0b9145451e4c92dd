"""The executor for database servers: SQLAlchemy's AsyncConnection, an engine for each event loop.

It serves psycopg, Oracle, engines of the host's and every transaction; `executors.asyncpg` sends
memalchemy's own programs without it.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool, StaticPool
from sqlalchemy.util import greenlet_spawn

from memalchemy import _detached
from memalchemy._per_loop import PerLoop
from memalchemy.database.connection_lock import SoleConnection, guard
from memalchemy.database.driver_errors import RolledBack, Translate, translating
from memalchemy.database.engine_options import engine_options
from memalchemy.database.executors.base import Attempt, Executor
from memalchemy.database.executors.loop_engines import LoopEngine
from memalchemy.database.first_statement import SESSION_TENANT, TransactionConnection
from memalchemy.database.intent import Kind
from memalchemy.database.program_runner import run_synchronously
from memalchemy.database.sqlite import forks
from memalchemy.database.tenant_wall import set_tenant_of
from memalchemy.database.thread_future import to_its_end
from memalchemy.dialects import Dialect, Target
from memalchemy.errors import CapabilityMissing

T = TypeVar("T")

_AUTOCOMMIT = {"isolation_level": "AUTOCOMMIT"}

_MODES = {"isolation_level", "postgresql_readonly", "postgresql_deferrable"}
"""The execution options that change the driver's connection."""


class SQLAlchemyExecutor(Executor):
    """Runs jobs on engines for *target*, made on first use, or on the host's *engine*."""

    def __init__(
        self,
        target: Target | None,
        engine: AsyncEngine | None,
        *,
        dialect: Dialect,
        translate: Translate,
        pgbouncer: bool,
        connect_timeout: float,
        statement_timeout: float | None,
        read_only: bool,
        options: dict[str, Any],
    ) -> None:
        self._target = target
        self._dialect = dialect
        self._translate = translate
        self._translate_connecting = partial(translate, connecting=True)
        self._autocommits = dialect.autocommits and not pgbouncer
        self._host_engine = engine
        self._options = (
            engine_options(
                dialect, target, pgbouncer, connect_timeout, statement_timeout, read_only, options
            )
            if target is not None
            else {}
        )
        # PgBouncer takes no server options, and psycopg has no timeout of its own for statements.
        psycopg = target is not None and target.url.drivername == "postgresql+psycopg"
        self._timeout = statement_timeout if psycopg and pgbouncer else None
        given = dict(self._options.pop("execution_options", {}))
        self._mode: dict[str, Any] = {name: given.pop(name) for name in _MODES & given.keys()}
        """The user's own options that `_set_mode` sets: an engine would set them while it connects,
        and a connection whose task is cancelled meanwhile would be lost."""
        if given:
            self._options["execution_options"] = given
        if self._mode.get("isolation_level") == "AUTOCOMMIT":
            del self._mode["isolation_level"]  # what is no transaction has it already
        self._engines = PerLoop(
            partial(_new_engine, dialect, target, self._options, engine),
            dialect.abandon,
            dialect.close_without_loop,
        )
        weakref.finalize(self, self._engines.end_all)

    @property
    def batches_statements(self) -> bool:
        return self._dialect.groups_saves

    def refuse_inherited(self) -> None:
        """Refuse a file that a host's engine opens, if the parent of this process had it open."""
        if self._host_engine is not None and self._dialect.single_writer:
            file = self._host_engine.url.database
            if file is not None:
                forks.refuse_inherited(file)

    async def run(
        self, job: Callable[[Any], Any], kind: Kind, attempt: Attempt, *, is_program: bool
    ) -> Any:
        if is_program:
            job = partial(run_synchronously, job)
        own_session = self._host_engine is None and self._autocommits
        if attempt.tenant is not None and not (own_session or kind == "maintenance"):
            # The tenant is the transaction's. A session of the host's must not keep one.
            return await self._run_in_transaction(job, attempt)
        if kind in ("transaction", "read_transaction"):
            return await self._run_in_transaction(job, attempt)
        if kind == "maintenance":
            return await self._run_maintenance(job, attempt)
        if kind == "statement" and not self._autocommits:
            # Behind PgBouncer: asyncpg prepares and executes in two round trips, which outside of
            # a transaction may reach two different connections to the server.
            return await self._run_in_transaction(job, attempt)
        async with self._connect(autocommit=self._autocommits) as connection:
            await self._set_session_tenant(connection, attempt.tenant)
            result = await self._run_sync(connection, self._ending_host_transaction(job))
            self._check_no_transaction(connection)
            return result

    @asynccontextmanager
    async def transaction(self, isolation: str | None = None) -> AsyncIterator[AsyncConnection]:
        """Return a block with a connection for one transaction, at an *isolation* level if given.

        Errors inside the block are raised unchanged.
        """
        async with self._connect(autocommit=False, kind=TransactionConnection) as connection:
            sync = connection.sync_connection
            assert isinstance(sync, TransactionConnection)
            sync.mode = self._commit_mode(connection, autocommit=False)
            if isolation is not None:
                sync.mode |= {"isolation_level": isolation}
                with translating(self._translate):
                    await _set_mode(connection, isolation_level=isolation)
            yield connection

    def snapshot(self) -> AbstractAsyncContextManager[AsyncConnection]:
        if self._dialect.snapshot_isolation is None:
            raise CapabilityMissing(
                f"{self._dialect} has no isolation level in which all reads see one moment"
            )
        return self.transaction(self._dialect.snapshot_isolation)

    async def close(self, *, in_thread: bool = True) -> None:
        """Close the running loop's connections, and those of loops that have ended.

        An engine of the host's keeps those that a loop of the host's can use.
        """
        if not _is_disposed_of_by_the_host(self._host_engine):
            await self._engines.close()

    def checked_out(self) -> int:
        engine = self._engines.current()
        if engine is None:
            return 0
        return int(getattr(engine.plain.pool, "checkedout", lambda: 0)()) - len(engine.kept)

    async def _run_in_transaction(self, job: Callable[[Connection], T], attempt: Attempt) -> T:
        async with self._connect(autocommit=False) as connection:
            async with connection.begin() as transaction:
                if attempt.tenant is not None:
                    with translating(self._translate):
                        await connection.run_sync(set_tenant_of, self._dialect, attempt.tenant)
                result = await self._run_sync(connection, job)
                attempt.commit_sent = True
                with translating(self._translate):
                    await transaction.commit()
            return result

    async def _run_maintenance(self, job: Callable[[Connection], T], attempt: Attempt) -> T:
        if not self._autocommits:
            raise CapabilityMissing(
                "this needs a connection of its own outside any transaction, which PgBouncer in "
                "transaction mode does not give; connect to the server itself"
            )
        async with self._connect(autocommit=True) as connection:
            await self._set_session_tenant(connection, attempt.tenant)
            try:
                return await connection.run_sync(job)
            finally:
                if self._host_engine is not None and not connection.invalidated:
                    await self._set_session_tenant(connection, attempt.tenant and "")

    async def _set_session_tenant(self, connection: AsyncConnection, tenant: str | None) -> None:
        """Set the tenant of a session in autocommit, unless it has it from the last time.

        Its transactions set tenants of their own, so only what runs in autocommit goes by it.
        """
        sync = connection.sync_connection
        if tenant is None or sync is None or sync.info.get(SESSION_TENANT) == tenant:
            return
        sync.info.pop(SESSION_TENANT, None)  # it is not known while the statement is on its way
        with translating(self._translate):
            await connection.run_sync(set_tenant_of, self._dialect, tenant, "session")
        if self._host_engine is None:
            sync.info[SESSION_TENANT] = tenant

    def _ending_host_transaction(self, job: Callable[[Connection], T]) -> Callable[[Connection], T]:
        """Return *job* with a COMMIT of the transaction that a listener of the host's has begun.

        SQLAlchemy's documentation tells hosts to send BEGIN themselves on SQLite, by a listener
        that is called in autocommit, too. Without one, *job* runs in autocommit as it is.
        """
        if self._host_engine is None or not self._autocommits:
            return job

        def run(connection: Connection) -> T:
            connection.begin()
            begun = self._dialect.in_transaction(connection.connection.driver_connection)
            result = job(connection)
            if begun:
                connection.commit()
            return result

        return run

    def _check_no_transaction(self, connection: AsyncConnection) -> None:
        """Refuse to acknowledge a job in autocommit that was part of a transaction after all.

        Raises:
            RolledBack: the connection had been returned to the pool by a task that was still using
                it. It is closed, so nothing was changed.
        """
        sync = _lent(connection)
        if not self._autocommits or sync is None:
            return
        raw = sync.connection.driver_connection
        if self._dialect.in_transaction(raw):
            self._dialect.abandon(raw)
            sync.invalidate()
            raise RolledBack("the connection was in somebody else's transaction")

    async def _run_sync(self, connection: AsyncConnection, job: Callable[[Connection], T]) -> T:
        deadline = asyncio.timeout(self._timeout)
        try:
            async with deadline:
                return await connection.run_sync(job)
        except TimeoutError as error:
            if deadline.expired():
                raise self._translate(error) from error
            raise

    @asynccontextmanager
    async def _connect(
        self, *, autocommit: bool, kind: type[Connection] = Connection
    ) -> AsyncIterator[AsyncConnection]:
        """Lend a connection of this loop's engine, above which there is one of *kind*.

        An engine in memory has a sole connection, which its users take in turns.
        """
        loop_engine = self._engines.enter()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(loop_engine.give_back)
            if loop_engine.sole is not None:
                await stack.enter_async_context(loop_engine.sole.turn())
            with translating(self._translate_connecting):
                async with loop_engine.asks_pool():
                    engine = loop_engine.plain
                    sync = await greenlet_spawn(kind, engine.sync_engine)
                    connection = AsyncConnection(engine, sync)
                    stack.push_async_callback(self._give_back, connection)
            if loop_engine.sole is not None:
                loop_engine.sole.check_free(connection, self._dialect)
            if not autocommit and connection.sync_connection is not None:
                # The transaction is the caller's, who may set another for the session.
                connection.sync_connection.info.pop(SESSION_TENANT, None)
            mode = self._commit_mode(connection, autocommit=autocommit)
            if mode:
                with translating(self._translate):
                    await _set_mode(connection, **mode)
            yield connection

    async def _give_back(self, connection: AsyncConnection) -> None:
        """Return a connection to its pool, or close it where the end of the loop forbids to wait.

        That is a task, which `asyncio.run` cancels with all others: before it begins, or while it
        ends a transaction or a mode. Then SQLAlchemy may call the connection closed that is open.
        """
        lent = _lent(connection)
        raw = None if lent is None else lent.connection.driver_connection
        closing = asyncio.ensure_future(connection.close())
        try:
            await to_its_end(closing)
        except asyncio.CancelledError:
            is_abandoned = raw is not None and closing.cancelled() and self._dialect.abandon(raw)
            if is_abandoned and (lent := _lent(connection)) is not None:
                lent.detach()
            raise

    def _commit_mode(self, connection: AsyncConnection, *, autocommit: bool) -> dict[str, Any]:
        """Return the options to set on a connection, so that it commits as it is asked to."""
        if autocommit:
            return self._mode | _AUTOCOMMIT
        sync = connection.sync_connection
        assert sync is not None
        # Of an engine of the host's: in autocommit a transaction would be none.
        if getattr(sync.connection.dbapi_connection, "autocommit", None) is True:
            return {"isolation_level": sync.default_isolation_level} | self._mode
        return dict(self._mode)


async def _set_mode(connection: AsyncConnection, **mode: Any) -> None:
    """Set *mode*, options that the driver's connection has until it is back in its pool.

    psycopg and aiosqlite await there, when the mode has changed and SQLAlchemy does not know yet
    that it has to change it back. So a task that is cancelled meanwhile waits for the end, and a
    connection of which it is not known what mode it has is closed before it is lent again.
    """
    setting = asyncio.ensure_future(connection.execution_options(**mode))
    try:
        await to_its_end(setting)
    finally:
        sync = _lent(connection)
        if sync is not None and _has_failed(setting):
            sync.connection.invalidate(soft=True)


def _lent(connection: AsyncConnection) -> Connection | None:
    """Return SQLAlchemy's own connection, if it has one of the driver's from the pool."""
    sync = connection.sync_connection
    return None if sync is None or sync.closed or sync.invalidated else sync


def _has_failed(task: asyncio.Future[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


def _new_engine(
    dialect: Dialect,
    target: Target | None,
    options: dict[str, Any],
    of_the_host: AsyncEngine | None,
) -> LoopEngine:
    """Return an engine for the running loop: one for *target*, or the host's."""
    engine = of_the_host
    if engine is None:
        assert target is not None
        if target.url.drivername == "postgresql+asyncpg":
            options = _connecting_detached(options, dialect)
        engine = create_async_engine(target.url, **options)
        event.listen(engine.sync_engine, "connect", lambda raw, _: dialect.on_connect(raw))
    guard(engine.sync_engine, dialect)
    return LoopEngine(
        engine,
        SoleConnection() if isinstance(engine.pool, StaticPool) else None,
        of_the_host is not None,
        _is_disposed_of_by_the_host(of_the_host),
        keeps=engine.pool.size() if isinstance(engine.pool, QueuePool) else 0,
    )


def _is_disposed_of_by_the_host(engine: AsyncEngine | None) -> bool:
    """Return whether the host's *engine* keeps the connections of the running loop.

    A driver's connection serves the loop that opened it. In a loop of memalchemy's the host cannot
    close it, and the next loop to take it from the pool would fail.
    """
    if engine is None:
        return False
    # What is in memory is gone with its one connection, which is a thread and serves any loop.
    return isinstance(engine.pool, StaticPool) or not _detached.runs_in_created_loop()


def _connecting_detached(options: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return the options of an engine of asyncpg's, whose connections keep no caller's context."""
    import asyncpg  # an optional dependency

    connect = partial(_detached.create_connection, terminate=dialect.abandon)
    if "async_creator" in options:
        return options | {"async_creator": partial(connect, options["async_creator"])}
    connecting = {
        "async_creator_fn": partial(connect, asyncpg.connect),
        # asyncpg would forget a prepared statement after 300 seconds, by a timer that keeps the
        # context of the caller who was the first to use it. It keeps the last hundred of them.
        "max_cached_statement_lifetime": 0,
    }
    return options | {"connect_args": connecting | options.get("connect_args", {})}

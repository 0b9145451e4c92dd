"""What all tenants of one database share: its engine or writer, its schema check, and retry."""

from __future__ import annotations

import abc
import asyncio
import os
import random
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, AsyncTransaction

from memalchemy import migrate
from memalchemy.database import backup
from memalchemy.database.backup import Progress
from memalchemy.database.borrowed import Borrowed
from memalchemy.database.embedded import Embedded
from memalchemy.database.running import (
    Lent,
    Lost,
    RolledBack,
    Then,
    drive,
    off_loop,
    translating,
    translator,
    translator_beside_a_host,
)
from memalchemy.database.served import Served
from memalchemy.database.shared_connection import ConnectionLock, connection_of
from memalchemy.database.url import display, parse
from memalchemy.dialects import DIALECTS, dialect_of
from memalchemy.errors import CapabilityMissing, DatabaseUnreachable, SchemaOutdated
from memalchemy.events import Event, publish
from memalchemy.statements import Program

T = TypeVar("T")
U = TypeVar("U")


class ThreadBound(abc.ABC):
    """A host's synchronous connection, which its own thread alone may use: jobs go there."""

    dialect: Any

    @abc.abstractmethod
    async def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Run *job* on the connection, in its thread."""


HostConnection = AsyncConnection | AsyncSession | ThreadBound

ATTEMPTS = 4
CONNECT_TIMEOUT = 10.0

Mode = Literal["read", "reads", "single", "transaction", "apart"]


class Core:
    """What all tenants of one database share."""

    def __init__(
        self,
        url: str | URL | AsyncEngine,
        *,
        schema: str | None,
        migrate: str,
        pgbouncer: bool,
        durability: str,
        connect_timeout: float | None,
        statement_timeout: float | None,
        engine_options: dict[str, Any],
    ) -> None:
        if isinstance(url, AsyncEngine):
            _refuse_on_an_engine(
                engine_options
                | {"connect_timeout": connect_timeout, "statement_timeout": statement_timeout}
            )
        for name, seconds in (
            ("connect_timeout", connect_timeout),
            ("statement_timeout", statement_timeout),
        ):
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} is a number of seconds above zero, not {seconds!r}")
        self._embedded: Embedded | None = None
        self._served: Served | None = None
        target = None if isinstance(url, AsyncEngine) else parse(url)
        if target is not None:
            self.dialect, self.display = DIALECTS[target.dialect], target.display
            self.url = target.url
        else:
            assert isinstance(url, AsyncEngine)
            self.dialect = dialect_of(url)
            self.display = display(url.url)
            self.url = url.url
        self.translate = translator(self.dialect, self.display)
        self._translate_beside_a_host = translator_beside_a_host(self.translate, self.dialect)
        self.schema = schema
        if schema is not None and self.dialect.single_writer:
            raise ValueError("schema= is for PostgreSQL and Oracle; on SQLite use another file")
        self._migrate = migrate
        self._pid = os.getpid()
        self._is_ready = False
        if target is not None and self.dialect.single_writer:
            if engine_options:
                names = ", ".join(sorted(engine_options))
                raise TypeError(f"a SQLite URL takes no engine options; got {names}")
            self._open: Callable[[], Embedded] = partial(
                _until_gone,
                weakref.ref(self),
                target.path,
                "FULL" if durability == "full" else "NORMAL",
                may_create=migrate == "auto",
                open_timeout=connect_timeout,
                statement_timeout=statement_timeout,
            )
            self._embedded = self._open()
        else:
            self._served = Served(
                target,
                url if isinstance(url, AsyncEngine) else None,
                dialect=self.dialect,
                translate=self.translate,
                pgbouncer=pgbouncer,
                schema=schema,
                connect_timeout=CONNECT_TIMEOUT if connect_timeout is None else connect_timeout,
                statement_timeout=statement_timeout,
                engine_options=engine_options,
            )
        self._options: dict[str, Any] = (
            {"schema_translate_map": {None: schema}} if schema is not None else {}
        )
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._gates = weakref.WeakKeyDictionary()

    async def run(
        self,
        program: Callable[[], Program[T]],
        mode: Mode,
        connection: HostConnection | None,
        event: Event | None,
        *,
        repeatable: bool = False,
    ) -> T:
        def job(sync: Lent) -> T:
            return drive(sync, program(), self.translate, self._options, event)

        return await self._do(job, mode, connection, repeatable=repeatable)

    async def read_then(
        self,
        program: Callable[[], Program[T]],
        then: Then[T, U],
        connection: HostConnection | None,
        event: Event | None,
    ) -> U:
        if self._embedded is None or connection is not None:
            found = await self.run(program, "read", connection, event)
            return await off_loop(then.size(found), partial(then.work, found))

        def job(sync: Lent) -> U:
            return then.work(drive(sync, program(), self.translate, self._options, event))

        return await self._do(job, "read", None)

    async def _do(
        self,
        job: Callable[[Lent], T],
        mode: Mode,
        connection: HostConnection | None,
        *,
        repeatable: bool = False,
    ) -> T:
        if connection is not None:
            return await self.on_host(connection, job, program=True)
        if not self._is_ready or self._pid != os.getpid():
            await self.ready()
        again = repeatable or mode in ("read", "reads", "apart")
        return await self._repeat(job, mode, again, program=True)

    async def ready(self) -> None:
        """Once per process: check or migrate the schema, as ``migrate=`` says."""
        self._after_fork()
        loop = asyncio.get_running_loop()
        gate = self._gates.setdefault(loop, asyncio.Lock())
        async with gate:
            if self._is_ready:
                return
            if self._migrate == "auto" and self._embedded is not None:
                await self.migrate("head", only_if_needed=True)
            elif self._migrate != "off":
                await self.check()
            self._is_ready = True

    async def migrate(self, revision: str, *, only_if_needed: bool = False) -> list[str]:
        def job(connection: Connection) -> list[str]:
            if only_if_needed and migrate.usable(connection, schema=self.schema):
                return []
            return migrate.upgrade(connection, schema=self.schema, revision=revision)

        return await self.schema_job(job, write=True)

    async def check(self) -> None:
        await self.schema_job(lambda c: migrate.check(c, schema=self.schema))

    async def current(self) -> str | None:
        try:
            return await self.schema_job(lambda c: migrate.current(c, schema=self.schema))
        except SchemaOutdated:  # not even a file
            return None

    async def schema_job(self, job: Callable[[Connection], T], *, write: bool = False) -> T:
        """Run *job*, which drives Alembic itself, on a connection."""

        def ours(connection: Connection) -> T:
            with translating(self.translate):
                return job(connection)

        return await self.host_job(ours, write=write)

    async def host_job(self, job: Callable[[Connection], T], *, write: bool = False) -> T:
        """Run *job* of the host's on a connection, without a look at the schema.

        Exceptions of its own are raised as they are.
        """
        self._after_fork()
        if write and self._embedded is not None:
            self._embedded.may_create = True
        return await self._repeat(job, "transaction" if write else "read", True)

    async def health(self) -> dict[str, Any]:
        found = await self.schema_job(
            lambda c: (
                c.scalar(text(self.dialect.server_version)),
                migrate.current(c, schema=self.schema),
            )
        )
        return {
            "url": self.display,
            "dialect": str(self.dialect),
            "server_version": found[0],
            "revision": found[1],
            "head": migrate.head(),
            "checked_out": 0 if self._served is None else self._served.checked_out(),
        }

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        await self.ready()
        lent = (
            self._server().connection() if self._embedded is None else self._embedded.transaction()
        )
        async with self._begun(lent) as connection:
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        await self.ready()
        if self._embedded is not None:
            lent = self._embedded.snapshot()
        else:
            assert self.dialect.snapshot_isolation is not None
            lent = self._server().connection(self.dialect.snapshot_isolation)
        async with self._begun(lent) as connection:
            yield connection

    @asynccontextmanager
    async def _begun(
        self, lent: AbstractAsyncContextManager[AsyncConnection]
    ) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction, and end it with the block; what the block raises is not touched.

        The end waits for the operations that other tasks have begun in it.
        """
        async with lent as connection:
            transaction = connection.begin()
            with translating(self.translate):
                await transaction.__aenter__()
            assert transaction.sync_transaction is not None
            ConnectionLock.of(connection).confine(transaction.sync_transaction)
            try:
                yield connection
            except BaseException as error:
                await self._undo(connection, transaction, error)
                raise
            try:
                with translating(self.translate):
                    await transaction.__aexit__(None, None, None)
            except DatabaseUnreachable as error:
                raise DatabaseUnreachable(
                    f"{error}; the transaction may or may not have been committed",
                    maybe_applied=True,
                ) from error.__cause__

    async def _undo(
        self, connection: AsyncConnection, transaction: AsyncTransaction, why: BaseException
    ) -> None:
        of_a_driver: tuple[type[Exception], ...] = (
            SQLAlchemyError,
            OSError,
            *self.dialect.driver_errors,
        )
        try:
            await transaction.__aexit__(type(why), why, why.__traceback__)
        except of_a_driver:
            # The connection is closed instead, which undoes it, too; what the block raised is told.
            await connection.invalidate()

    def _server(self) -> Served:
        assert self._served is not None
        return self._served

    async def back_up(self, file: str, progress: Progress, *, force: bool) -> int:
        self._after_fork()
        if self._embedded is None:
            command = self.dialect.backup_command(
                self.url, file, self.schema, sorted((*migrate.TABLES, migrate.VERSION_TABLE))
            )
            raise CapabilityMissing(
                f"a {self.dialect} server is backed up by its own tool; nothing was written. "
                f"Run: {command}"
            )
        with translating(self.translate), backup.complete_or_absent(file, force=force) as part:
            return await self._embedded.back_up(part, progress)

    @property
    def holds_writer(self) -> bool:
        return self._embedded is not None and self._embedded.is_borrowed

    def file_bytes(self) -> int | None:
        return None if self._embedded is None else self._embedded.file_bytes()

    async def close(self, *, in_thread: bool = True) -> None:
        """Close; if not *in_thread*, without a thread, which a process that ends cannot start."""
        self._after_fork()
        if self._embedded is not None:
            if in_thread:
                await asyncio.to_thread(self._embedded.close)
            else:
                self._embedded.close()
            self._is_ready = False
        if self._served is not None:
            await self._served.close()

    async def on_host(
        self, connection: HostConnection, job: Callable[[Any], T], *, program: bool = False
    ) -> T:
        """Run *job* on a connection of the host's; a *program* the short way, if there is one.

        Tasks that share a connection take turns.

        Raises:
            MemalchemyError: its transaction has ended; nothing was done.
        """
        if isinstance(connection, AsyncSession):
            connection = await connection_of(connection)
        if not isinstance(connection, AsyncConnection | ThreadBound):
            raise TypeError(
                "connection= takes an AsyncConnection or AsyncSession, not "
                f"{type(connection).__name__}"
            )
        theirs = dialect_of(connection)
        if theirs is not self.dialect:
            raise ValueError(f"connection= is of a {theirs} database, this one is {self.dialect}")
        if isinstance(connection, ThreadBound) or connection.sync_connection is None:
            return await connection.run_sync(job)
        lock = ConnectionLock.of(connection)
        async with lock.operation(connection):
            borrowed = Borrowed.of(connection) if program else None
            if borrowed is not None:
                return await borrowed.perform(job)
            if self.dialect.single_writer:
                return await lock.to_its_end(connection.run_sync(job))
            return await connection.run_sync(job)

    async def _repeat(
        self,
        job: Callable[[Any], T],
        mode: Mode,
        repeatable: bool,
        *,
        program: bool = False,
    ) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            committing: list[bool] = []
            try:
                return await self._once(job, mode, committing, program)
            except RolledBack:
                if attempt == ATTEMPTS:
                    raise
            except Lost as error:
                # Before COMMIT is sent a lost transaction is undone; a lone statement may have run.
                unknown = bool(committing) or mode == "single"
                if attempt == ATTEMPTS or (unknown and not repeatable):
                    raise DatabaseUnreachable(
                        f"{error}; "
                        + (
                            "the write may or may not have happened, look before repeating it"
                            if unknown and mode not in ("read", "reads")
                            else "nothing was changed"
                        ),
                        maybe_applied=unknown and mode not in ("read", "reads"),
                    ) from error.__cause__
            except DatabaseUnreachable as error:
                # Too slow an answer: the same holds of what it was to.
                error.maybe_applied = error.maybe_applied and (bool(committing) or mode == "single")
                raise
            publish(Event("database.retry", details={"attempt": attempt}))
            await asyncio.sleep(random.uniform(0, 0.02 * 4**attempt))
        raise AssertionError("unreachable")

    async def _once(
        self, job: Callable[[Any], T], mode: Mode, committing: list[bool], program: bool
    ) -> T:
        with translating(self._translate_beside_a_host):
            if self._embedded is not None:
                if mode in ("read", "reads"):
                    return await self._embedded.read(job)
                if mode == "apart":
                    return await self._embedded.apart(job)
                return await self._embedded.write(job)
            assert self._served is not None
            if program and self._served.is_straight and mode != "apart":
                together = mode in ("transaction", "reads")
                return await self._served.straight(job, committing if together else None)
            if mode in ("transaction", "reads"):
                return await self._served.together(job, committing)
            if mode == "single":
                return await self._served.single(job, committing)
            if mode == "apart":
                return await self._served.apart(job)
            return await self._served.read(job)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._is_ready = False
            if self._embedded is not None:
                _left_to_the_parent.append(self._embedded)
                self._embedded = self._open()


def _refuse_on_an_engine(options: dict[str, Any]) -> None:
    """Options of an engine make no sense for one that is there: it would go on without them."""
    given = sorted(name for name, value in options.items() if value is not None)
    if given:
        raise TypeError(
            f"{', '.join(given)}: an engine of yours has its own; give them to create_async_engine"
        )


# SQLite connections must not be used, nor closed, in a process that inherited them.
_left_to_the_parent: list[Embedded] = []


def _until_gone(core: weakref.ref[Core], *args: Any, **options: Any) -> Embedded:
    """A SQLite database whose threads end when *core* is dropped without being closed."""
    made = Embedded(*args, **options)
    owner = core()
    assert owner is not None
    weakref.finalize(owner, made.leave).atexit = False
    return made

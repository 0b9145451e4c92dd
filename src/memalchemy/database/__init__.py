"""`Database`: where memory lives. Engines, transactions, running programs, retry. Knows no table.

An operation is a program (see `memalchemy.statements`). It runs in one hop inside SQLite's writer,
on an async connection of a server, or on a connection of the host application's, without being
written twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from memalchemy import migrate
from memalchemy.database.embedded import Embedded
from memalchemy.database.running import Lost, RolledBack, drive, translator
from memalchemy.database.served import Served
from memalchemy.database.url import display, parse
from memalchemy.dialects import DIALECTS, Dialect, dialect_of
from memalchemy.errors import DatabaseUnreachable, MemalchemyError
from memalchemy.events import Event, publish
from memalchemy.keys import check_tenant
from memalchemy.statements import Program

T = TypeVar("T")
HostConnection = AsyncConnection | AsyncSession

ATTEMPTS = 4


class Database:
    """A database that holds an agent's memory.

    Args:
        url: ``sqlite:///agent.db``, ``sqlite://`` (in memory), ``postgresql://…``, ``oracle://…``,
            or an `AsyncEngine` of the host's, which stays the host's to dispose.
        tenant: whose memory this is; every row carries it, and no operation crosses it.
        schema: the schema that holds the tables (PostgreSQL, Oracle).
        migrate: ``"auto"`` brings a SQLite file to this release's schema on first use and only
            checks a server's; ``"check"`` only ever checks; ``"off"`` does neither.
        pgbouncer: the URL leads to PgBouncer in transaction mode.
        durability: ``"full"``: what was acknowledged survives a power cut. ``"normal"`` (SQLite
            only): it survives a crash of the process; a power cut may lose the last commits.
        connect_timeout, statement_timeout: in seconds.
        engine_options: passed to SQLAlchemy's `create_async_engine`.

    Construction does no I/O and needs no running loop; one object serves several loops, one after
    another or in several threads, and survives a fork.
    """

    def __init__(
        self,
        url: str | URL | AsyncEngine,
        *,
        tenant: str = "default",
        schema: str | None = None,
        migrate: Literal["auto", "check", "off"] = "auto",
        pgbouncer: bool = False,
        durability: Literal["full", "normal"] = "full",
        connect_timeout: float = 10.0,
        statement_timeout: float | None = None,
        **engine_options: Any,
    ) -> None:
        if migrate not in ("auto", "check", "off"):
            raise ValueError(f"migrate is 'auto', 'check' or 'off', not {migrate!r}")
        if durability not in ("full", "normal"):
            raise ValueError(f"durability is 'full' or 'normal', not {durability!r}")
        self.tenant = check_tenant(tenant)
        self._core = _Core(
            url,
            schema=schema,
            migrate=migrate,
            pgbouncer=pgbouncer,
            durability=durability,
            connect_timeout=connect_timeout,
            statement_timeout=statement_timeout,
            engine_options=engine_options,
        )

    @property
    def dialect(self) -> Dialect:
        """The dialect, for its capabilities."""
        return self._core.dialect

    @property
    def schema(self) -> str | None:
        """The schema that holds the tables; ``None`` is the connection's default."""
        return self._core.schema

    @property
    def identity(self) -> object:
        """What caches key by: the same for every tenant of one `Database`."""
        return self._core

    def for_tenant(self, tenant: str) -> Database:
        """The same engine and pool, another tenant."""
        other = object.__new__(type(self))
        other.tenant = check_tenant(tenant)
        other._core = self._core
        return other

    def __repr__(self) -> str:
        return f"Database({self._core.display!r}, tenant={self.tenant!r})"

    async def __aenter__(self) -> Database:
        try:
            await self._core.ready()
        except BaseException:
            await self.close()  # nobody calls __aexit__ after a failed __aenter__
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish queued writes and close this loop's connections. A later use opens anew."""
        await self._core.close()

    async def migrate(self, *, revision: str = "head") -> list[str]:
        """Bring the schema to *revision*, under a lock; return the revisions that were applied.

        Safe to call from several processes at once. All or nothing, except on Oracle, where each
        DDL statement commits and the revisions can be run again.
        """
        return await self._core.migrate(revision)

    async def check(self) -> None:
        """Compare the database's schema with this release; reads only.

        Raises:
            SchemaOutdated: it is older; the message names the command.
            SchemaTooNew: it is newer and does not declare itself compatible with this release.
        """
        await self._core.check()

    async def current(self) -> str | None:
        """The schema revision of the database; ``None`` without one. Reads only."""
        return await self._core.schema_job(lambda c: migrate.current(c, schema=self.schema))

    async def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Run a function of a synchronous `Connection` in one transaction, without a schema check.

        For migrations and for the host's own SQL; repeated if the connection is lost before COMMIT.
        """
        return await self._core.schema_job(job, write=True)

    async def health(self) -> dict[str, Any]:
        """Reachability, server version, schema revision and pool use; raises if unreachable."""
        return await self._core.health()

    def transaction(self) -> Any:
        """``async with db.transaction() as tx``: one transaction over several features.

        *tx* is an `AsyncConnection`; pass it as ``connection=tx``. Commits at the end of the block,
        rolls back on an exception. On SQLite other writers of this process wait meanwhile.
        """
        return self._core.transaction()

    async def read(
        self,
        program: Callable[[], Program[T]],
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
    ) -> T:
        """Run a reading *program*; repeated if the connection is lost."""
        return await self._core.run(program, "read", connection, event)

    async def write(
        self,
        program: Callable[[], Program[T]],
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        single: bool = False,
    ) -> T:
        """Run a writing *program* in one transaction, or in the host's.

        Repeated while that is safe: until COMMIT has been sent, or the statement, if *single* says
        that it is one and autocommit will do. After that a lost connection is an error with
        ``maybe_applied``.
        """
        return await self._core.run(
            program, "single" if single else "transaction", connection, event
        )


Mode = Literal["read", "single", "transaction"]


class _Core:
    """What all tenants of one database share."""

    def __init__(
        self,
        url: str | URL | AsyncEngine,
        *,
        schema: str | None,
        migrate: str,
        pgbouncer: bool,
        durability: str,
        connect_timeout: float,
        statement_timeout: float | None,
        engine_options: dict[str, Any],
    ) -> None:
        self._embedded: Embedded | None = None
        self._served: Served | None = None
        target = None if isinstance(url, AsyncEngine) else parse(url)
        if target is not None:
            self.dialect, self.display = DIALECTS[target.dialect], target.display
        else:
            assert isinstance(url, AsyncEngine)
            self.dialect = dialect_of(url)
            self.display = display(url.url)
        self.translate = translator(self.dialect, self.display)
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
            synchronous = "FULL" if durability == "full" else "NORMAL"
            self._open: Callable[[], Embedded] = partial(Embedded, target.path, synchronous)
            self._embedded = self._open()
        else:
            self._served = Served(
                target,
                url if isinstance(url, AsyncEngine) else None,
                refused=partial(self.translate, connecting=True),
                autocommit=self.dialect.autocommits,
                pgbouncer=pgbouncer,
                connect_timeout=connect_timeout,
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
    ) -> T:
        def job(sync: Connection) -> T:
            return drive(sync, program(), self.translate, self._options, event)

        if connection is not None:
            return await self._on_host(connection, job)
        if not self._is_ready or self._pid != os.getpid():
            await self.ready()
        return await self._repeat(job, mode, mode == "read")

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

    async def schema_job(self, job: Callable[[Connection], T], *, write: bool = False) -> T:
        """Run *job*, which drives Alembic itself, on a connection."""

        def guarded(connection: Connection) -> T:
            try:
                return job(connection)
            except MemalchemyError:
                raise
            except Exception as error:
                ours = self.translate(error)
                if ours is error:
                    raise
                raise ours from error

        self._after_fork()
        return await self._repeat(guarded, "transaction" if write else "read", True)

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
        backend = self._embedded or self._served
        assert backend is not None
        committing = False
        try:
            async with backend.transaction() as connection:
                yield connection
                committing = True
        except MemalchemyError:
            raise
        except Exception as error:
            ours = self.translate(error)
            if ours is error:
                raise
            if committing and isinstance(ours, DatabaseUnreachable):
                ours = DatabaseUnreachable(
                    f"{ours}; the transaction may or may not have been committed",
                    maybe_applied=True,
                )
            raise ours from error

    async def close(self) -> None:
        self._after_fork()
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.close)
            self._is_ready = False
        if self._served is not None:
            await self._served.close()

    async def _on_host(self, connection: HostConnection, job: Callable[[Connection], T]) -> T:
        if isinstance(connection, AsyncSession):
            connection = await connection.connection()
        if not isinstance(connection, AsyncConnection):
            raise TypeError(
                "connection= takes an AsyncConnection or AsyncSession, not "
                f"{type(connection).__name__}"
            )
        theirs = dialect_of(connection)
        if theirs is not self.dialect:
            raise ValueError(f"connection= is of a {theirs} database, this one is {self.dialect}")
        return await connection.run_sync(job)

    async def _repeat(
        self,
        job: Callable[[Connection], T],
        mode: Mode,
        repeatable: bool,
    ) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            committing: list[bool] = []
            try:
                return await self._once(job, mode, committing)
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
                            if unknown and mode != "read"
                            else "nothing was changed"
                        ),
                        maybe_applied=unknown and mode != "read",
                    ) from error.__cause__
            publish(Event("database.retry", details={"attempt": attempt}))
            await asyncio.sleep(random.uniform(0, 0.02 * 4**attempt))
        raise AssertionError("unreachable")

    async def _once(self, job: Callable[[Connection], T], mode: Mode, committing: list[bool]) -> T:
        try:
            if self._embedded is not None:
                if mode == "read":
                    return await self._embedded.read(job)
                return await self._embedded.write(job)
            assert self._served is not None
            if mode == "transaction":
                return await self._served.together(job, committing)
            if mode == "single":
                return await self._served.single(job, committing)
            return await self._served.read(job)
        except MemalchemyError:
            raise
        except Exception as error:
            ours = self.translate(error)
            if ours is error:
                raise
            raise ours from error

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._is_ready = False
            if self._embedded is not None:
                _left_to_the_parent.append(self._embedded)
                self._embedded = self._open()


# SQLite connections must not be used, nor closed, in a process that inherited them.
_left_to_the_parent: list[Embedded] = []

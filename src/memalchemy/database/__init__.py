"""`Database`: where memory lives. Engines, transactions, running programs, retry. Knows no table.

An operation is a program (see `memalchemy.statements`). It runs in one hop inside SQLite's writer,
on an async connection of a server, or on a connection of the host application's, without being
written twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from memalchemy import migrate
from memalchemy.database.core import Core, HostConnection, Mode
from memalchemy.dialects import Dialect
from memalchemy.events import Event
from memalchemy.keys import check_tenant
from memalchemy.statements import Program

T = TypeVar("T")

__all__ = ["Database", "HostConnection"]


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
        self._core = Core(
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
    def file_bytes(self) -> int | None:
        """What a SQLite file takes, with its write-ahead log; ``None`` if this is not a file."""
        return self._core.file_bytes()

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
        mode: Mode = "single" if single else "transaction"
        return await self._core.run(program, mode, connection, event)

    async def maintain(self, program: Callable[[], Program[T]], *, event: Event | None = None) -> T:
        """Run a *program* of statements that refuse to be in a transaction, on a connection apart.

        Each commits by itself; if the connection is lost the program starts again, so each must be
        safe to repeat.

        Raises:
            CapabilityMissing: through PgBouncer, or in memory.
        """
        return await self._core.run(program, "apart", None, event)

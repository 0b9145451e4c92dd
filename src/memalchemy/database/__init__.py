"""`Database`: where memory lives. Engines, transactions, programs, retry. Knows no table but marks.

An operation is a program (see `memalchemy.statements`). It runs in one hop inside SQLite's writer,
on an async connection of a server, or on a connection of the host application's, without being
written twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from copy import copy
from functools import partial
from os import PathLike, fspath
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from memalchemy.codec.sealing import Keyring
from memalchemy.database.core import Core, HostConnection, Mode, ThreadBound
from memalchemy.database.keymarks import KeyMarks, without_content
from memalchemy.database.replica import Replica
from memalchemy.database.running import OFF_LOOP_BYTES, Then, off_loop
from memalchemy.dialects import Dialect
from memalchemy.errors import CapabilityMissing
from memalchemy.events import Event
from memalchemy.keys import check_tenant
from memalchemy.statements import Program
from memalchemy.tenants import tenant_of_scope

T = TypeVar("T")
U = TypeVar("U")

__all__ = [
    "OFF_LOOP_BYTES",
    "Database",
    "HostConnection",
    "Then",
    "ThreadBound",
    "check_database",
    "off_loop",
]


class Database:
    """A database that holds an agent's memory.

    Args:
        url: ``sqlite:///agent.db``, ``sqlite://`` (in memory), ``postgresql://…``, ``oracle://…``,
            or an `AsyncEngine` of the host's, which stays the host's to dispose.
        read_url: a read replica of the database at *url*, as a URL or an `AsyncEngine`; PostgreSQL
            and Oracle. Listings, search and statistics are read from it; see below.
        tenant: whose memory this is; every row carries it, and no operation crosses it.
        schema: the schema that holds the tables (PostgreSQL, Oracle).
        migrate: ``"auto"`` brings a SQLite file to this release's schema on first use and only
            checks a server's; ``"check"`` only ever checks; ``"off"`` does neither. A SQLite
            file that is not there is made by ``"auto"``, `migrate` and `run_sync` only.
        pgbouncer: the URL leads to PgBouncer in transaction mode.
        durability: ``"full"``: what was acknowledged survives a power cut. ``"normal"`` (SQLite
            only): it survives a crash of the process; a power cut may lose the last commits.
        connect_timeout: seconds to wait for a connection, 10 if not given. SQLite: for a file that
            another process holds alone for a moment, 30 if not given.
        statement_timeout: seconds that a statement may take, waiting for locks included; without
            it, as long as the server lets it. SQLite: seconds that a statement may run, and that it
            waits for another process to end its transaction (30 if not given).
        keys: a Fernet key, or several: payloads and values are encrypted with the first and opened
            with any. See the page on encryption. Metadata, ids, namespaces and keys of items stay
            readable. A tenant that is written with keys is not written without one of them:
            `KeyMissing`.
        readable: what else is stored unencrypted beside them, because the database searches in it:
            ``"text"`` (words), ``"fields"`` (a word for each field, for filters), ``"vectors"``.
        allow_plaintext: with *keys*, read what is not encrypted, too, instead of refusing it.
        engine_options: passed to SQLAlchemy's `create_async_engine`. An engine of the host's takes
            neither these nor the timeouts. For an ``oracle://`` URL also ``config_dir`` (the
            directory of tnsnames.ora), ``wallet_location``, ``wallet_password``,
            ``ssl_server_dn_match`` and ``ssl_server_cert_dn``, which go to python-oracledb.

    With *read_url*, what may be a moment old is read from the replica: of `Checkpointer`
    `list_checkpoints`, `history`, `list_threads`, `list_logs`, `list_with_metadata`,
    `query_by_metadata`, `search` and `get_storage_stats`. They may miss what this very process has
    just saved. Reading your own writes is the primary's: every write and what it rests on, `load`,
    `exists`, `get_metadata`, `diff`, `export`, and whatever is given ``connection=``. `primary`
    reads everything there, `replica` everything from the replica. While the replica is away its
    reads go to the primary; `memalchemy.database.replica` logs that once for each outage.

    Construction does no I/O and needs no running loop; one object serves several loops, one after
    another or in several threads, and survives a fork. One of SQLite that is dropped without
    `close` ends its threads when they have done what they were given.
    """

    tenant: str

    def __init__(
        self,
        url: str | URL | AsyncEngine,
        *,
        read_url: str | URL | AsyncEngine | None = None,
        tenant: str = "default",
        schema: str | None = None,
        migrate: Literal["auto", "check", "off"] = "auto",
        pgbouncer: bool = False,
        durability: Literal["full", "normal"] = "full",
        connect_timeout: float | None = None,
        statement_timeout: float | None = None,
        keys: str | bytes | Iterable[str | bytes] | None = None,
        readable: Iterable[str] = (),
        allow_plaintext: bool = False,
        **engine_options: Any,
    ) -> None:
        if migrate not in ("auto", "check", "off"):
            raise ValueError(f"migrate is 'auto', 'check' or 'off', not {migrate!r}")
        if durability not in ("full", "normal"):
            raise ValueError(f"durability is 'full' or 'normal', not {durability!r}")
        self.tenant = check_tenant(tenant)
        self._keyring = Keyring(keys, readable=readable, allow_plaintext=allow_plaintext)
        self._marks = KeyMarks(self._keyring)
        open_ = partial(
            Core,
            schema=schema,
            migrate=migrate,
            pgbouncer=pgbouncer,
            durability=durability,
            connect_timeout=connect_timeout,
            statement_timeout=statement_timeout,
            engine_options=engine_options,
        )
        self._core = open_(url)
        self._replica = None if read_url is None else Replica(open_(read_url), self._core)
        self._reads_stale: Literal["some", "none", "all"] = "some"
        self._fallback = True

    @property
    def dialect(self) -> Dialect:
        """The dialect, for its capabilities."""
        return self._core.dialect

    @property
    def keyring(self) -> Keyring:
        """What seals and opens payloads; without *keys* it leaves them as they are."""
        return self._keyring

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
        """What caches key by: the same for every tenant of one `Database`, and another for what is
        read from a replica.
        """
        return self._core if self._replica is None or not self.read_only else self._replica

    @property
    def read_only(self) -> bool:
        """Whether it refuses every write, as `replica` gives it."""
        return self._reads_stale == "all"

    @property
    def holds_writer(self) -> bool:
        """Whether an open transaction of the running task holds SQLite's only writer.

        Every other write of the process waits for its end, so the task must wait for none.
        """
        return self._core.holds_writer

    def for_tenant(self, tenant: str) -> Database:
        """The same engine and pool, another tenant."""
        other = copy(self)
        other.tenant = check_tenant(tenant)
        return other

    def for_scope(self) -> Database:
        """The same engine and pool, and the tenant of the `memalchemy.tenant_scope` around this.

        It is looked up here, once: what is made of the result stays that tenant's.

        Raises:
            LookupError: there is no such scope.
        """
        return self.for_tenant(tenant_of_scope())

    def replica(self, *, fallback: bool = True) -> Database:
        """The same database, read only: every read from the replica, states too, however old.

        What was saved before may be missing from it. Writes, migrations and transactions are
        refused with `CapabilityMissing`. With ``fallback=False`` a replica that is away is an
        error: `DatabaseUnreachable`, or `SchemaOutdated` while it has not got the primary's schema
        yet; otherwise the primary answers. Without a *read_url* it reads from the database itself,
        so that code can be the same where there is no replica.
        """
        other = copy(self)
        other._reads_stale, other._fallback = "all", fallback
        return other

    def primary(self) -> Database:
        """The same database, with every read on the primary: it reads its own writes."""
        other = copy(self)
        other._reads_stale = "none"
        return other

    def __repr__(self) -> str:
        copy_ = "" if self._replica is None else f", read_url={self._replica.core.display!r}"
        view = {"some": "", "none": ".primary()", "all": ".replica()"}[self._reads_stale]
        return f"Database({self._core.display!r}{copy_}, tenant={self.tenant!r}){view}"

    async def __aenter__(self) -> Database:
        try:
            if self._replica is None or not self.read_only:
                await self._core.ready()
            if self._replica is not None:
                await self._replica.read(Core.ready, fallback=self._fallback)
        except BaseException:
            await self.close()  # nobody calls __aexit__ after a failed __aenter__
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish queued writes and close this loop's connections. A later use opens anew."""
        self._marks.forget()
        try:
            await self._core.close()
        finally:
            if self._replica is not None:
                await self._replica.core.close()

    async def migrate(self, *, revision: str = "head") -> list[str]:
        """Bring the schema to *revision*, under a lock; return the revisions that were applied.

        Safe to call from several processes at once. All or nothing, except on Oracle, where each
        DDL statement commits: a revision that fails half way is half there.
        """
        self.check_writable()
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
        return await self._core.current()

    async def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Run a function of a synchronous `Connection` in one transaction, without a schema check.

        For migrations and for the host's own SQL; repeated if the connection is lost before COMMIT.
        """
        self.check_writable()
        return await self._core.host_job(job, write=True)

    async def health(self) -> dict[str, Any]:
        """Reachability, server version, schema revision and pool use; raises if unreachable.

        With a replica, the same of it under ``replica``, with ``usable`` and ``error``: a replica
        that is away does not raise.
        """
        found = await self._core.health()
        if self._replica is not None:
            found["replica"] = await self._replica.health()
        return found

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """``async with db.transaction() as tx``: one transaction over several features.

        *tx* is an `AsyncConnection`; pass it as ``connection=tx``. Commits at the end of the block,
        rolls back on an exception. On SQLite other writers of this process wait meanwhile.
        """
        self.check_writable()
        return self._core.transaction()

    def snapshot(self) -> Any:
        """``async with db.snapshot() as then``: reads that all see one moment, the first one's.

        *then* is an `AsyncConnection`; pass it as ``connection=then``, to reads only. Writers go on
        meanwhile, and what they write is not seen; on a database in memory they wait.
        """
        return self._core.snapshot()

    async def backup(
        self,
        file: str | PathLike[str],
        *,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Write a copy of a whole SQLite database, all tenants, into *file*; its size in bytes.

        The copy is the database as of the moment of the call, while any process goes on writing. It
        is checked, it is on disk when this returns, and it appears under its name only when it is
        complete: a failed or killed backup leaves what was there before. The schema is not looked
        at, so this also goes before an upgrade. *progress* is called with the pages that are done
        and those there are, in the event loop.

        Raises:
            Conflict: *file* is there, and not *force*; or it is open in another program.
            CapabilityMissing: not SQLite; the message is the command to run instead.
            Corrupt: the copy does not pass SQLite's own check; it was removed.
            OSError: *file* cannot be written.
        """
        loop = asyncio.get_running_loop()

        def tell(done: int, pages: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, done, pages)

        return await self._core.back_up(fspath(file), tell, force=force)

    async def read(
        self,
        program: Callable[[], Program[T]],
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        stale: bool = False,
        together: bool = False,
    ) -> T:
        """Run a reading *program*; repeated if the connection is lost.

        *stale* says that the answer may be a moment old, so that a replica may give it: no write
        may rest on it. *together* says that a server's settings for a transaction are changed, so
        that its statements have to be in one.
        """
        mode: Mode = "reads" if together else "read"
        wanted = self.read_only or (stale and self._reads_stale == "some")
        if self._replica is None or connection is not None or not wanted:
            return await self._core.run(program, mode, connection, event)
        return await self._replica.read(
            lambda core: core.run(program, mode, None, event), fallback=self._fallback
        )

    async def read_then(
        self,
        program: Callable[[], Program[T]],
        then: Then[T, U],
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
    ) -> U:
        """`read`, and what is made of its answer away from the loop where that takes long."""
        if self._replica is None or connection is not None or not self.read_only:
            return await self._core.read_then(program, then, connection, event)
        return await self._replica.read(
            lambda core: core.read_then(program, then, None, event), fallback=self._fallback
        )

    async def write(
        self,
        program: Callable[[], Program[T]],
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        single: bool = False,
        payloads: bool | Literal["stored"] = True,
    ) -> T:
        """Run a writing *program* in one transaction, or in the host's.

        Repeated while that is safe: until COMMIT has been sent, or the statement, if *single* says
        that it is one and autocommit will do. After that a lost connection is an error with
        ``maybe_applied``.

        Args:
            payloads: that the program may write payloads, values or vectors that were encoded here,
                so that the keys have to be those of the tenant. With ``False`` it writes none, and
                a statement that would is an AssertionError. ``"stored"`` is for what copies or
                seals anew what is stored already, and has looked at the keys itself.

        Raises:
            CapabilityMissing: this is a `replica`.
            KeyMissing: it may write payloads, and the tenant is encrypted with other keys than
                these.
        """
        if payloads is True:
            await self.check_payloads(connection)
        else:
            self.check_writable()
        mode: Mode = "single" if single else "transaction"
        run = without_content(program) if payloads is False else program
        return await self._core.run(run, mode, connection, event)

    async def check_payloads(self, connection: HostConnection | None = None) -> None:
        """See that this may write payloads into its tenant, as `write` does.

        For what hands its payloads to somebody else, who writes them.

        Raises:
            CapabilityMissing: this is a `replica`.
            KeyMissing: the tenant is encrypted with other keys than these.
        """
        self.check_writable()
        await self._marks.check(self._core, self.tenant, connection)

    async def maintain(self, program: Callable[[], Program[T]], *, event: Event | None = None) -> T:
        """Run a *program* of statements that refuse to be in a transaction, on a connection apart.

        Each commits by itself; if the connection is lost the program starts again, so each must be
        safe to repeat.

        Raises:
            CapabilityMissing: through PgBouncer, or in memory.
        """
        self.check_writable()
        return await self._core.run(without_content(program), "apart", None, event)

    def look_for_keys_again(self) -> None:
        """See anew, at the next write, which keys a tenant is written with: they were removed."""
        self._marks.forget()

    def check_writable(self) -> None:
        """Raise `CapabilityMissing` on a `replica`, before a program finds out."""
        if self.read_only:
            raise CapabilityMissing(
                "this is db.replica(), which only reads: write through the Database that it came "
                "from"
            )


def check_database(given: object, taker: object) -> Database:
    """*given*, for *taker*, an object of a class that works on a database.

    Raises:
        TypeError: it is something else. It is not shown: a URL may hold a password.
    """
    if isinstance(given, Database):
        return given
    kind, name = type(given), type(taker).__name__
    found, advice = kind.__qualname__, "give it memalchemy.Database(url)"
    if kind.__module__ == "memalchemy.sync":
        found, advice = f"memalchemy.sync.{found}", f"without await it is memalchemy.sync.{name}"
    raise TypeError(f"{name} takes a memalchemy.Database, not {found}; {advice}")

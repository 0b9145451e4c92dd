"""`Database`: a database that holds an agent's memory, and the one door through which programs run.

An operation is a program (see `memalchemy.statements`): it runs in SQLite's writer thread, on a
server's connection or on a connection of the host application's, and is written once.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike, fspath
from typing import Any, Literal, TypeVar, overload
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from memalchemy._retry import Overtaken, retry_when_overtaken
from memalchemy.codec.anchors import Anchor, check_anchor
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.signatures import SigningKeys
from memalchemy.contracts import Durability, Health, MigrateMode
from memalchemy.database.backend import Backend
from memalchemy.database.clock import read_clock
from memalchemy.database.executors.batching import BatchedRow
from memalchemy.database.executors.host import HostConnection
from memalchemy.database.intent import READ, READ_REPLICA, Intent
from memalchemy.database.known_keys import KnownKeys
from memalchemy.database.per_database import shared
from memalchemy.database.program_runner import Decode
from memalchemy.database.replica import Replica
from memalchemy.database.tenant_wall import TenantWall
from memalchemy.dialects import Dialect, Distribution
from memalchemy.errors import Conflict, ReadOnly
from memalchemy.events import Event
from memalchemy.keys import check_tenant
from memalchemy.protection.guard import NoGuard, guard_of
from memalchemy.protection.known_heads import KnownHead, KnownHeads
from memalchemy.statements import Program
from memalchemy.tenants import tenant_of_scope

T = TypeVar("T")
U = TypeVar("U")


class Database:
    """Database that holds an agent's memory.

        async with Database("sqlite:///agent.db") as db:
            await Checkpointer(db).save({"messages": []}, "thread-1")

    Args:
        url: ``sqlite:///agent.db`` or the path itself (see below), as text or a `Path`,
            ``sqlite://`` (in memory), ``postgresql://…``, ``oracle://…``, or an `AsyncEngine` of
            the host's, which stays the host's to dispose.
        read_url: a read replica of the database at *url*, as a URL or an `AsyncEngine`; PostgreSQL
            and Oracle. Listings, search and statistics are read from it; see below.
        tenant: the owner of the data; every row carries it, and no operation crosses it.
        schema: the schema that holds the tables (PostgreSQL, Oracle).
        migrate: ``"auto"`` brings a SQLite file to this release's schema on first use and only
            checks a server's; ``"upgrade"`` brings a server's there, too, under a lock, so several
            processes may start at once: for development and tests. ``"check"`` only ever checks;
            ``"off"`` does neither. A SQLite file that is not there is made by ``"auto"``,
            ``"upgrade"``, `migrate` and `run_sync` only.
        read_only: refuse every write with `ReadOnly`, create nothing, run no migration. A SQLite
            file is read as it is, also where neither it nor its directory may be written, and while
            another process writes it; ``?mode=ro`` in its URL says the same. A server's sessions
            are told to take no writes; an `AsyncEngine` of the host's stays as it is. The schema
            must be one that this release works with: `SchemaOutdated` otherwise.
        pgbouncer: the URL leads to PgBouncer in transaction mode; ``?pgbouncer=true`` in it says
            the same.
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
        signing_keys: a key of the same form, or several: rows are signed with the first and held to
            the signature of any when they are read. See the page on signatures. A tenant that is
            signed is not written without one of its keys: `KeyMissing`.
        allow_unsigned: with *signing_keys*, read and change what is not signed, too, instead of
            refusing it.
        anchor: with *signing_keys*, an `Anchor` or the path of one, which is read at once. What is
            older than it, or is not there any more, is refused when it is read: `Corrupt`. See the
            page on anchors.
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

    A path stands for the SQLite file there if it can be nothing else: it ends in ``.db``,
    ``.sqlite`` or ``.sqlite3``, has a ``/`` or a backslash in it, or names a file that is there.
    After ``sqlite:`` any path does.

    Construction does no I/O, unless *anchor* is a path, and needs no running loop; one object
    serves several loops, one after another or in several threads, and survives a fork. The
    connections of a loop that has ended are closed when the next loop begins. One that is dropped
    without `close` closes its connections at once, and its threads of SQLite when they have done
    what they were given.
    """

    tenant: str

    def __init__(
        self,
        url: str | URL | PathLike[str] | AsyncEngine,
        *,
        read_url: str | URL | AsyncEngine | None = None,
        tenant: str = "default",
        schema: str | None = None,
        migrate: MigrateMode = "auto",
        read_only: bool = False,
        pgbouncer: bool = False,
        durability: Durability = "full",
        connect_timeout: float | None = None,
        statement_timeout: float | None = None,
        keys: str | bytes | Iterable[str | bytes] | None = None,
        readable: Iterable[str] = (),
        allow_plaintext: bool = False,
        signing_keys: str | bytes | Iterable[str | bytes] | None = None,
        allow_unsigned: bool = False,
        anchor: Anchor | str | PathLike[str] | None = None,
        **engine_options: Any,
    ) -> None:
        if migrate not in ("auto", "upgrade", "check", "off"):
            raise ValueError(f"migrate is 'auto', 'upgrade', 'check' or 'off', not {migrate!r}")
        if durability not in ("full", "normal"):
            raise ValueError(f"durability is 'full' or 'normal', not {durability!r}")
        self.tenant = check_tenant(tenant)
        self._keyring = Keyring(
            keys,
            readable=readable,
            allow_plaintext=allow_plaintext,
            signing=SigningKeys(signing_keys, allow_unsigned=allow_unsigned),
        )
        if anchor is not None:
            self._keyring.signing.anchor = check_anchor(anchor, self._keyring.signing)
        self._guard = guard_of(self._keyring)
        self._known_keys = KnownKeys(self._keyring)
        open_ = partial(
            Backend,
            schema=schema,
            migrate=migrate,
            read_only=read_only,
            pgbouncer=pgbouncer,
            durability=durability,
            connect_timeout=connect_timeout,
            statement_timeout=statement_timeout,
            engine_options=engine_options,
        )
        self._backend = open_(url)
        self._read_only = self._backend.read_only
        if migrate == "upgrade":
            migrate = "check"  # a replica follows its primary
        self._replica = (
            None
            if read_url is None
            else Replica(open_(read_url, migrate=migrate, primary=self._backend), self._backend)
        )
        self._replica_reads: Literal["some", "none", "all"] = "some"
        self._fallback = True

    @property
    def dialect(self) -> Dialect:
        """The dialect, for its capabilities."""
        return self._backend.dialect

    @property
    def keyring(self) -> Keyring:
        """Keys that encrypt and decrypt payloads, with those that sign and check rows.

        Without *keys* payloads stay as they are.
        """
        return self._keyring

    @property
    def signing(self) -> SigningKeys:
        """Keys that sign and check rows; without *signing_keys* rows have no signature."""
        return self._keyring.signing

    @property
    def guard(self) -> NoGuard:
        """Guard that every program passes through: it says what keys mean for a write."""
        return self._guard

    @property
    def schema(self) -> str | None:
        """The schema that holds the tables; ``None`` is the connection's default."""
        return self._backend.schema

    @property
    def file_bytes(self) -> int | None:
        """Size of a SQLite file with its write-ahead log; ``None`` if this is not a file."""
        return self._backend.file_bytes()

    @property
    def identity(self) -> object:
        """Key for caches: the same for all tenants of a `Database`; a replica's is another."""
        return self._backend if self._replica is None or not self._is_replica else self._replica

    @property
    def read_only(self) -> bool:
        """True if it was opened read-only, and of a `replica`: every write is refused."""
        return self._read_only

    @property
    def _is_replica(self) -> bool:
        return self._replica_reads == "all"

    @property
    def holds_writer(self) -> bool:
        """True while an open transaction of the running task holds SQLite's only writer.

        Every other write of the process waits for its end, so the task must wait for none.
        """
        return self._backend.holds_writer

    def for_tenant(self, tenant: str) -> Database:
        """Return this database for another tenant, with the same engine and pool."""
        other = copy(self)
        other.tenant = check_tenant(tenant)
        return other

    def for_scope(self) -> Database:
        """Return this database for the tenant of the `memalchemy.tenant_scope` around this call.

        The tenant is looked up once, here: objects that are made with the result keep it.

        Raises:
            LookupError: there is no such scope.
        """
        return self.for_tenant(tenant_of_scope())

    def replica(self, *, fallback: bool = True) -> Database:
        """Return this database read-only: every read is from the replica, however old its data.

        Recent writes may be missing from it. Writes, migrations and transactions are refused with
        `ReadOnly`. With ``fallback=False`` an unreachable replica is an error:
        `DatabaseUnreachable`, or `SchemaOutdated` while it does not have the primary's schema yet;
        otherwise the primary answers. Without a *read_url* it reads from the database itself, so
        that code can be the same where there is no replica.
        """
        other = copy(self)
        other._replica_reads, other._fallback, other._read_only = "all", fallback, True
        return other

    def primary(self) -> Database:
        """Return this database with every read on the primary: it reads its own writes."""
        other = copy(self)
        other._replica_reads, other._read_only = "none", self._backend.read_only
        return other

    def __repr__(self) -> str:
        copy_ = "" if self._replica is None else f", read_url={self._replica.backend.display!r}"
        view = {"some": "", "none": ".primary()", "all": ".replica()"}[self._replica_reads]
        return f"Database({self._backend.display!r}{copy_}, tenant={self.tenant!r}){view}"

    async def __aenter__(self) -> Database:
        try:
            if self._replica is None or not self._is_replica:
                await self._backend.ready()
            if self._replica is not None:
                await self._replica.read(Backend.ready, fallback=self._fallback)
        except BaseException:
            await self.close()  # nobody calls __aexit__ after a failed __aenter__
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish queued writes and close this loop's connections. A later use opens anew."""
        self._known_keys.expire()
        try:
            await self._backend.close()
        finally:
            if self._replica is not None:
                await self._replica.backend.close()

    async def migrate(self, *, revision: str = "head") -> list[str]:
        """Bring the schema to *revision*, under a lock; return the revisions that were applied.

        Safe to call from several processes at once. All or nothing, except on Oracle, where each
        DDL statement commits: a revision that fails half way is half there.
        """
        self.check_writable()
        return await self._backend.migrate(revision)

    async def check(self) -> None:
        """Compare the database's schema with this release, and look for its tables; reads only.

        Look whether the server takes writes, too, unless this is read-only: after a failover a
        connection may lead to a replica.
        Where row-level security is on, also look for the policy that shows a tenant its rows.

        Raises:
            SchemaOutdated: it is older; the message names the command.
            SchemaTooNew: it is newer and does not declare itself compatible with this release.
            SchemaIncomplete: it lacks a table.
            CapabilityMissing: the server takes no writes, and this was not opened read-only; or the
                type of its vectors is not in the search_path.
            WallIncomplete: it lacks the policy.
            VersionTableLost: it has the tables, and not the one that names their revision.
            ReplicationIncomplete: logical replication has not filled its tables.
        """
        await self._backend.check(tables=True)
        await self._backend.check_takes_writes()
        await self._backend.refuse_unusable()
        (await self._backend.tenant_wall()).refuse_closed()

    async def tenant_wall(self) -> TenantWall:
        """Read how row-level security walls the tenants for the role of this database. Reads only.

        See `memalchemy.maintenance.tenants`, which builds the wall.
        """
        return await self._backend.tenant_wall()

    async def distribution(self) -> Distribution | None:
        """Read how the tables are spread over the nodes of a cluster. Reads only.

        ``None`` if the database is on no cluster. `memalchemy.maintenance.distribution` spreads
        them.
        """
        cluster = self.dialect.cluster
        if cluster is None:
            return None
        return await self._backend.run_schema_job(partial(cluster.read, schema=self.schema))

    async def check_sees_all_tenants(self, what: str) -> None:
        """Refuse *what*, which is about all tenants, if the role of this database sees only one.

        Raises:
            CapabilityMissing: row-level security walls the role; the message says what to do.
        """
        await self._backend.refuse_one_tenant(what)

    @property
    def has_first_words(self) -> bool:
        """True if rows may have words by the rules of an older release.

        They are found as that release found them, until `memalchemy.words.rebuild_words` has made
        them anew.
        """
        return self._backend.has_first_words

    async def find_first_words(self) -> bool:
        """Return whether a row has words by the rules of an older release. Reads only.

        Where no note says so, all rows are read.
        """
        return await self._backend.find_first_words()

    async def note_words(self) -> bool:
        """Note that all rows have words by the rules of this release, if they have.

        Returns false, and notes nothing, if some have not, or if this role does not see all rows.
        """
        self.check_writable()
        if not (await self._backend.tenant_wall()).sees_all:
            return False
        return await self._backend.note_words()

    async def forget_words_note(self) -> None:
        """Remove the note of `note_words`: rows of a database without it are about to be copied."""
        self.check_writable()
        await self._backend.forget_words_note()

    async def current(self) -> str | None:
        """Return the schema revision of the database; ``None`` without one. Reads only."""
        return await self._backend.current()

    async def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Run a function of a synchronous `Connection` in one transaction, without a schema check.

        For migrations and for the host's own SQL; repeated if the connection is lost before COMMIT.
        """
        self.check_writable()
        return await self._backend.run_host_job(job, write=True, tenant=self.tenant)

    async def health(self) -> Health:
        """Return reachability, server version, schema revision and pool use; raise if unreachable.

        With a replica, its own are under ``replica``, with ``usable`` and ``error``: a replica that
        is unreachable does not raise.
        """
        found = await self._backend.health()
        if self._replica is not None:
            found["replica"] = await self._replica.health()
        return found

    async def now(self) -> datetime:
        """Return the time of the server's clock, on which all its clients agree.

        SQLite's is that of this machine.
        """
        if self.dialect.single_writer:
            return datetime.now(UTC)

        def program() -> Program[datetime]:
            rows = yield read_clock(self.dialect), {}
            found: datetime = rows[0].now
            return found

        return await self.run(program, READ)

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open one transaction over several features: ``async with db.transaction() as tx``.

        *tx* is an `AsyncConnection`; pass it as ``connection=tx``. Commits at the end of the block,
        rolls back on an exception. On SQLite other writers of this process wait meanwhile.
        """
        self.check_writable()
        return self._backend.transaction(self.tenant)

    def snapshot(self) -> Any:
        """Open a view of one moment, that of its first read: ``async with db.snapshot() as then``.

        *then* is an `AsyncConnection`; pass it as ``connection=then``, to reads only. Writers go on
        meanwhile, and what they write is not seen; on a database in memory they wait.
        """
        return self._backend.snapshot(self.tenant)

    async def backup(
        self,
        file: str | PathLike[str],
        *,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Copy a whole SQLite database, all tenants, into *file*; return its size in bytes.

        The copy is the database as of the moment of the call, while any process goes on writing. It
        is checked, it is on disk when this returns, and it appears under its name only when it is
        complete: a failed or killed backup leaves an existing file as it was. The schema is not
        looked at, so a backup is possible before an upgrade. *progress* is called with the number
        of pages done and of all, in the event loop.

        Raises:
            Conflict: *file* exists, and not *force*; or it is open in another program.
            CapabilityMissing: not SQLite; the message is the command to run instead.
            Corrupt: the copy does not pass SQLite's own check; it was removed.
            OSError: *file* cannot be written.
        """
        loop = asyncio.get_running_loop()

        def tell(done: int, pages: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, done, pages)

        return await self._backend.back_up(fspath(file), tell, force=force)

    @overload
    async def run(
        self,
        program: Callable[[], Program[T]],
        intent: Intent,
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        batch: Callable[[], BatchedRow[T]] | None = None,
    ) -> T: ...

    @overload
    async def run(
        self,
        program: Callable[[], Program[T]],
        intent: Intent,
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        decode: Decode[T, U],
    ) -> U: ...

    async def run(
        self,
        program: Callable[[], Program[Any]],
        intent: Intent,
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        decode: Decode[Any, Any] | None = None,
        batch: Callable[[], BatchedRow[Any]] | None = None,
    ) -> Any:
        """Run *program* as its *intent* says; the one door through which programs run.

        A write is one transaction, or part of the host's. It is repeated while that is safe: until
        COMMIT, or the statement of a lone one, has been sent. After that a lost connection is an
        error with ``maybe_applied``. A read is always repeated.

        Args:
            connection: the host's, of whose transaction the program is a part.
            event: counts the round trips.
            decode: work on the result, done in a thread where it takes long.
            batch: returns the row that *program* writes; it may share a statement with others
                instead.

        Raises:
            ReadOnly: it writes, and this was opened read-only or is a `replica`.
            CapabilityMissing: it is maintenance, through PgBouncer or in memory.
            KeyMissing: it may write payloads, and the tenant is encrypted with other keys.
        """
        guard, payloads = self._guard, intent.writes_payloads
        if intent.writes:
            program = guard.write(program, self.tenant, payloads)
            if payloads is True:
                if self._read_only or not self._known_keys.are_checked(self.tenant):
                    await self.check_payloads(connection)
                if guard.allots_first:
                    assert batch is None, "rows that share a statement have no position yet"
            else:
                self.check_writable()
                if not payloads:
                    batch = None  # its row is a payload: the program alone is run, and refused
                    await self._known_keys.check_signing(self._backend, self.tenant, connection)
            if guard.signs and not intent.brings_signatures:
                return await self._run_signed(program, intent, connection, event, decode)
        else:
            program = guard.read(program, self.tenant)
            if self._replica is not None and connection is None and self._reads_replica(intent):
                return await self._replica.read(
                    lambda backend: backend.run(
                        program, event, intent=intent, tenant=self.tenant, decode=decode
                    ),
                    fallback=self._fallback,
                )
        return await self._backend.run(
            program,
            event,
            intent=intent,
            tenant=self.tenant,
            connection=connection,
            decode=decode,
            batch=batch,
        )

    async def _run_signed(
        self,
        program: Callable[[], Program[Any]],
        intent: Intent,
        connection: HostConnection | None,
        event: Event | None,
        decode: Decode[Any, Any] | None,
    ) -> Any:
        """Run a program that writes so that its rows are signed, all in one transaction."""
        if intent.kind in ("statement", "save") and not intent.signs_at_once:
            intent = replace(intent, kind="transaction")
        heads: dict[UUID, KnownHead] = {}
        signed = self._guard.sign(program, self.dialect, self.tenant, heads)
        sending = partial(
            self._backend.run,
            signed,
            event,
            intent=intent,
            tenant=self.tenant,
            connection=connection,
            decode=decode,
        )
        try:
            result = await sending()
        except Overtaken as overtaken:
            if connection is not None:
                raise Conflict(str(overtaken)) from overtaken
            result = await retry_when_overtaken(sending, tried=1)
        if connection is None:
            shared(self, KnownHeads).put(heads)
        return result

    async def check_payloads(self, connection: HostConnection | None = None) -> None:
        """Check that payloads may be written into the tenant, as `run` does.

        For callers whose payloads are written by somebody else.

        Raises:
            ReadOnly: this was opened read-only or is a `replica`.
            KeyMissing: the tenant is encrypted with other keys than these.
        """
        self.check_writable()
        await self._known_keys.check(self._backend, self.tenant, connection)

    async def check_search(self, connection: HostConnection | None = None) -> None:
        """Check that a search that found nothing could have: the tenant is not encrypted unseen.

        The registry of keys is read, at most once in five seconds, by a process without keys.

        Raises:
            KeyMissing: the tenant is encrypted, and no key was given.
        """
        reading = partial(self.run, intent=READ_REPLICA, connection=connection)
        await self._known_keys.check_search(self.dialect, self.tenant, reading)

    def forget_known_keys(self) -> None:
        """Read the registered keys of a tenant again at the next write."""
        self._known_keys.expire()

    def _reads_replica(self, intent: Intent) -> bool:
        return self._is_replica or (intent.replica_ok and self._replica_reads == "some")

    def check_writable(self) -> None:
        """Raise `ReadOnly` if it was opened read-only or is a `replica`, before a program does."""
        if self._backend.read_only:
            raise ReadOnly
        if self._is_replica:
            raise ReadOnly(
                "this is db.replica(), which only reads: write through the Database that it came "
                "from"
            )


async def run_check(
    db: Database,
    check: Callable[[], Program[Any]],
    intent: Intent = READ,
    *,
    connection: HostConnection | None = None,
) -> None:
    """Run a program that does nothing but hold rows to their signatures, if rows are signed."""
    if db.guard.signs:
        await db.run(check, intent, connection=connection)


def check_database(given: object, taker: object) -> Database:
    """Return *given* if it is a `Database`; *taker* is the object that was given it.

    Raises:
        TypeError: it is something else. It is not shown: a URL may hold a password.
    """
    if isinstance(given, Database):
        return given
    kind, name = type(given), type(taker).__name__
    found, advice = kind.__qualname__, "give it memalchemy.Database(url)"
    if kind.__module__ == "memalchemy.sync":
        found = f"memalchemy.sync.{found}"
        if hasattr(sys.modules[kind.__module__], name):
            advice = f"without await it is memalchemy.sync.{name}"
        else:
            advice += f": {name} has only methods with await"
    raise TypeError(f"{name} takes a memalchemy.Database, not {found}; {advice}")

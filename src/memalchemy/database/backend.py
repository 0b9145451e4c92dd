"""The part of a `Database` that all its tenants share: executor, schema check and retry."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction

from memalchemy import migrate
from memalchemy._retry import CONNECTIONS
from memalchemy.contracts import Durability, Health, MigrateMode
from memalchemy.database.clock import read_takes_writes
from memalchemy.database.compiled import execute_with_sqlalchemy
from memalchemy.database.connection_lock import ConnectionLock
from memalchemy.database.driver_errors import (
    ConnectionLost,
    RolledBack,
    TableMissing,
    TakesNoWrites,
    TenantNotSet,
    TextIndexDamaged,
    Translate,
    takes_no_writes,
    translating,
    translator,
    translator_for_host_code,
)
from memalchemy.database.executors.base import Attempt, Executor
from memalchemy.database.executors.batching import BatchedRow, Batcher
from memalchemy.database.executors.host import HostConnection, run_on_host
from memalchemy.database.executors.selection import choose_executor
from memalchemy.database.first_statement import prepare
from memalchemy.database.intent import Intent, Kind
from memalchemy.database.program_runner import (
    Decode,
    check_not_lost,
    off_loop,
    run_observed,
    run_program,
)
from memalchemy.database.tenant_wall import (
    NO_WALL,
    HostWall,
    TenantWall,
    read_wall_state,
    set_tenant_of,
)
from memalchemy.dialects import DIALECTS, Dialect, Target, dialect_of, display, parse_url
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    Corrupt,
    DatabaseUnreachable,
    MemalchemyError,
    SchemaOutdated,
    StatementFailed,
)
from memalchemy.events import Event, publish, statement_subscribers
from memalchemy.migrate import words_version
from memalchemy.statements import Program

T = TypeVar("T")
U = TypeVar("U")

_log = logging.getLogger(__name__)

_BATCH = Intent("statement", writes_payloads=True)
"""The intent of a batch's statement. Each of its rows was checked before it joined the batch."""


@dataclass(slots=True)
class _Sending:
    """A job that failed, and may be run again."""

    kind: Kind
    writes: bool
    repeatable: bool
    tenant: str | None
    sets_aside: bool
    """A damaged text index may be set aside, which was not done yet."""
    number: int = 1
    """Number of runs so far."""
    is_elsewhere: bool = False
    """A node took no writes, so that another was looked for."""


class Backend:
    """Runs programs on one database, again where a connection was lost and that is safe."""

    def __init__(
        self,
        url: str | URL | os.PathLike[str] | AsyncEngine,
        *,
        schema: str | None,
        migrate: MigrateMode,
        read_only: bool,
        pgbouncer: bool,
        durability: Durability,
        connect_timeout: float | None,
        statement_timeout: float | None,
        engine_options: dict[str, Any],
        primary: Backend | None = None,
    ) -> None:
        timeouts = {"connect_timeout": connect_timeout, "statement_timeout": statement_timeout}
        for name, seconds in timeouts.items():
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{name} is a number of seconds above zero, not {seconds!r}")
        target: Target | None = None
        if isinstance(url, AsyncEngine):
            _refuse_options_of_an_engine(engine_options | timeouts)
            dialect = dialect_of(url)
            self.url: URL = url.url
            self.display: str = display(url.url)
        else:
            target = parse_url(url)
            dialect = DIALECTS[target.dialect]
            self.url = target.url
            self.display = target.display
        # Programs are made with the primary's dialect, and may run on either.
        self.dialect: Dialect = (
            dialect.for_database()
            if primary is None or primary.dialect.name != dialect.name
            else primary.dialect
        )
        pgbouncer = pgbouncer or (target is not None and target.pgbouncer)
        self.schema = schema
        self.translate: Translate = translator(self.dialect, self.display, pgbouncer=pgbouncer)
        self._translating = translating(translator_for_host_code(self.translate, self.dialect))
        self._options: dict[str, Any] = (
            {"schema_translate_map": {None: schema}} if schema is not None else {}
        )
        self.read_only: bool = read_only or (target is not None and target.read_only)
        in_memory = target is not None and self.dialect.single_writer and target.path is None
        if self.read_only and in_memory:
            raise ValueError(
                "a database in memory is new and empty, so it cannot be opened read-only"
            )
        if self.read_only and migrate == "upgrade":
            raise ValueError("migrate='upgrade' writes, and the database is opened read-only")
        if migrate == "auto":
            migrate = "upgrade" if self.dialect.single_writer and target is not None else "check"
        if self.read_only and migrate == "upgrade":
            migrate = "check"
        self._migrate = migrate
        self.has_first_words = True
        """Rows may have words of version 1; true until `ready` knows better."""
        self._pid = os.getpid()
        self._is_ready = False
        self._ready_locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._ready_locks = weakref.WeakKeyDictionary()
        self._batcher = Batcher()
        self._wall: TenantWall = NO_WALL
        self._host_wall = HostWall(self.dialect, schema, self.translate)
        self._make_executor: Callable[[], Executor] = choose_executor(
            target,
            url if isinstance(url, AsyncEngine) else None,
            dialect=self.dialect,
            translate=self.translate,
            schema=schema,
            pgbouncer=pgbouncer,
            durability=durability,
            may_create=self._migrate == "upgrade",
            read_only=self.read_only,
            connect_timeout=connect_timeout,
            statement_timeout=statement_timeout,
            options=engine_options,
        )
        self._executor = self._new_executor()

    def _new_executor(self) -> Executor:
        """Return an executor whose threads end when this is dropped without being closed."""
        made = self._make_executor()
        weakref.finalize(self, made.abandon).atexit = False
        return made

    async def run(
        self,
        program: Callable[[], Program[T]],
        event: Event | None = None,
        *,
        intent: Intent,
        tenant: str,
        connection: HostConnection | None = None,
        decode: Decode[T, Any] | None = None,
        batch: Callable[[], BatchedRow[Any]] | None = None,
    ) -> Any:
        """Run *program* for *tenant*; see `Database.run`, which has checked its intent."""
        in_thread = connection is None and self._executor.is_embedded
        job = partial(
            run_program,
            make=program,
            translate=self.translate,
            options=self._options,
            dialect=self.dialect,
            counted=event,
            decode=decode.work if decode is not None and in_thread else None,
        )
        if connection is not None:
            result = await self._run_on_host(connection, tenant, job)
        else:
            if not self._is_ready or self._pid != os.getpid():
                await self.ready()
            kind = intent.kind_on(self.dialect)
            repeatable = intent.repeatable or not intent.writes or kind == "maintenance"
            alone = partial(
                self._send,
                job,
                kind,
                repeatable,
                is_program=True,
                tenant=tenant,
                sets_aside=not intent.examines_index,
            )
            if batch is not None and self._executor.batches_statements:
                send = partial(self.run, intent=_BATCH, tenant=tenant)
                return await self._batcher.write(
                    batch(),
                    event or Event("batch"),
                    send,
                    alone,
                    tenant if self._wall.is_active else None,
                )
            result = await alone()
        if decode is None or in_thread:
            return result
        return await off_loop(decode.size(result), partial(decode.work, result))

    async def ready(self) -> None:
        """Once per process, check or migrate the schema, as ``migrate=`` says; learn what the
        server is.
        """
        self._after_fork()
        loop = asyncio.get_running_loop()
        async with self._ready_locks.setdefault(loop, asyncio.Lock()):
            if self._is_ready:
                return
            self._executor.refuse_inherited()
            if self._migrate == "upgrade":
                if not await self._is_migrated():
                    await self.migrate("head", only_if_needed=True)
            elif self._migrate != "off":
                await self.check()
            wall = await self.tenant_wall()
            if self._migrate != "off":
                wall.refuse_shut_out()
                await self.read_words_version()
            if self.dialect.has_to_learn:
                await self.run_schema_job(lambda c: self.dialect.learn(c, self.schema))
            self._is_ready = True

    async def _is_migrated(self) -> bool:
        """Return whether a SQLite file needs no migration, which would lock it."""
        if not self._executor.file_bytes():
            return False
        return await self.run_schema_job(lambda c: migrate.usable(c, schema=self.schema))

    async def tenant_wall(self) -> TenantWall:
        """Read how the tenants are walled for this role, and go by it from now on."""
        if self.dialect.row_level_security is not None:
            self._wall = await self.run_schema_job(
                lambda connection: read_wall_state(connection, self.dialect, self.schema)
            )
        return self._wall

    async def migrate(self, revision: str, *, only_if_needed: bool = False) -> list[str]:
        def job(connection: Connection) -> list[str]:
            if only_if_needed and migrate.usable(connection, schema=self.schema):
                return []
            if self.dialect.row_level_security is not None and self._is_behind(connection):
                wall = read_wall_state(connection, self.dialect, self.schema)
                if not wall.sees_all:
                    raise CapabilityMissing(_sees_one_tenant(wall, "an upgrade"))
            return migrate.upgrade(
                connection, schema=self.schema, revision=revision, dialect=self.dialect
            )

        return await self.run_schema_job(job, write=True)

    def _is_behind(self, connection: Connection) -> bool:
        return migrate.current(connection, schema=self.schema) not in (None, migrate.head())

    async def read_words_version(self) -> None:
        """Read whether rows may have words of version 1, and go by it from now on."""
        self.has_first_words = await self.run_schema_job(
            lambda connection: words_version.has_first_words(connection, self.schema)
        )

    async def find_first_words(self) -> bool:
        """Return whether a row has words of version 1; reads all rows to say that none has."""
        return await self.run_schema_job(
            lambda connection: (
                words_version.has_first_words(connection, self.schema)
                and words_version.find_first_words(connection, self.schema)
            )
        )

    async def forget_words_note(self) -> None:
        """Remove the note that no row has words of version 1: some are about to be written."""
        await self.run_schema_job(
            lambda connection: words_version.forget_words_note(
                connection, self.schema, self.dialect
            ),
            write=True,
        )
        self.has_first_words = True

    async def note_words(self) -> bool:
        """Note that no row has words of version 1, if none has; return whether."""
        noted = await self.run_schema_job(
            lambda connection: words_version.note_words(connection, self.schema, self.dialect),
            write=True,
        )
        self.has_first_words = not noted
        return noted

    async def check(self, *, tables: bool = False) -> None:
        await self.run_schema_job(
            lambda c: migrate.check(c, schema=self.schema, read_only=self.read_only, tables=tables)
        )

    async def check_takes_writes(self) -> None:
        """Look whether the node takes writes, unless none are to be sent there.

        Raises:
            CapabilityMissing: it takes none.
        """
        if self.dialect.maintenance.takes_writes is None or self.read_only:
            return
        query = read_takes_writes(self.dialect)

        def look(connection: Connection) -> None:
            (row,) = execute_with_sqlalchemy(connection, query, {}, {})
            if not row.writes:
                # As after a statement that was refused: the name may lead to another node.
                self.dialect.abandon(connection.connection.driver_connection)
                with suppress(SQLAlchemyError):
                    connection.exec_driver_sql("SELECT 1")
                raise takes_no_writes(self.display)

        await self.run_schema_job(look)

    async def refuse_unusable(self) -> None:
        """Look whether anything about the server keeps the tables from being used as they are.

        Raises:
            MemalchemyError: something does; the message names the cure.
        """
        refuse = self.dialect.maintenance.refuse_unusable
        await self.run_schema_job(lambda c: refuse(c, self.schema))

    async def current(self) -> str | None:
        try:
            return await self.run_schema_job(lambda c: migrate.current(c, schema=self.schema))
        except SchemaOutdated:  # not even a file
            return None

    async def run_schema_job(self, job: Callable[[Connection], T], *, write: bool = False) -> T:
        """Run *job*, which uses Alembic, on a connection, without a check of the schema."""

        def translated(connection: Connection) -> T:
            with translating(self.translate):
                return job(connection)

        return await self.run_host_job(translated, write=write)

    async def run_host_job(
        self,
        job: Callable[[Connection], T],
        *,
        write: bool = False,
        tenant: str | None = None,
    ) -> T:
        """Run *job* of the host's on a connection, without a check of the schema.

        Where tenants are walled it sees the rows of *tenant*. Its own exceptions are raised
        unchanged.
        """
        self._after_fork()
        if tenant is not None and self.dialect.row_level_security is not None:
            inner = job

            def job(connection: Connection) -> T:
                set_tenant_of(connection, self.dialect, tenant)
                return inner(connection)

        if write:
            self._executor.allow_creation()
        if statement_subscribers:
            job = partial(run_observed, job)
        kind: Kind = "transaction" if write else "read"
        result: T = await self._send(job, kind, repeatable=True)
        return result

    async def health(self) -> Health:
        version, revision, native = await self.run_schema_job(
            lambda c: (
                c.scalar(text(self.dialect.maintenance.server_version)),
                migrate.current(c, schema=self.schema),
                self.dialect.vectors.is_native(c, self.schema),
            )
        )
        health: Health = {
            "url": self.display,
            "dialect": str(self.dialect),
            "server_version": version,
            "revision": revision,
            "head": migrate.head(),
            "checked_out": self._executor.checked_out(),
        }
        if native is not None:
            health["pgvector"] = native
        return health

    @asynccontextmanager
    async def transaction(self, tenant: str) -> AsyncIterator[AsyncConnection]:
        await self.ready()
        try:
            async with self._in_transaction(self._executor.transaction(), tenant) as connection:
                yield connection
        except (Corrupt, StatementFailed) as error:
            await self._set_indexes_aside(error)  # the next transaction can write
            raise

    @asynccontextmanager
    async def snapshot(self, tenant: str) -> AsyncIterator[AsyncConnection]:
        await self.ready()
        async with self._in_transaction(self._executor.snapshot(), tenant) as connection:
            yield connection

    async def refuse_one_tenant(self, what: str) -> None:
        """Refuse *what*, which is about all tenants, if this role reaches only one of them.

        Raises:
            CapabilityMissing: row-level security shows this role one tenant at a time.
        """
        wall = await self.tenant_wall()
        if not wall.sees_all:
            raise CapabilityMissing(_sees_one_tenant(wall, what))

    async def _run_on_host(
        self, connection: HostConnection, tenant: str, job: Callable[[Any], Any]
    ) -> Any:
        if self.dialect.has_to_learn:
            job = self._after_learning(job)
        if self.dialect.row_level_security is None:
            return await run_on_host(self.dialect, connection, job, is_program=True)
        walled = self._host_wall.walled(tenant, job)
        try:
            return await run_on_host(self.dialect, connection, walled, is_program=True)
        except TenantNotSet:
            self._host_wall.expire()
            raise

    def _after_learning(
        self, job: Callable[[Any], Coroutine[Any, Any, Any]]
    ) -> Callable[[Any], Coroutine[Any, Any, Any]]:
        """Return *job* so that it begins by learning what the server is, on its connection."""

        async def run(connection: Any) -> Any:
            check_not_lost(connection)
            with translating(self.translate):
                self.dialect.learn(connection, self.schema)
            return await job(connection)

        return run

    async def back_up(
        self, file: str, progress: Callable[[int, int], object], *, force: bool
    ) -> int:
        self._after_fork()
        if not self._executor.is_embedded:
            raise CapabilityMissing(await self._say_how_to_back_up(file))
        with translating(self.translate):
            return await self._executor.back_up(file, progress, force=force)

    async def _say_how_to_back_up(self, file: str) -> str:
        """Return the command of the server's own tool, and what a wall between tenants asks for."""
        told = f"a {self.dialect} server is backed up by its own tool; nothing was written."
        url, wall, dialect_wall = self.url, NO_WALL, self.dialect.row_level_security
        try:
            wall = await self.tenant_wall()
        except (DatabaseUnreachable, AuthenticationFailed):
            told += (
                " The database could not be asked whether `tenants enforce` walls its tenants; if "
                "it does, a superuser has to run this, and a restore has to build the wall again."
            )
        if dialect_wall is not None and (wall.enforced or wall.closed):
            told += (
                " The tenants are walled. So a superuser, or a role with BYPASSRLS, has to run "
                "this, and a restore has to build the wall again, for its policies call a function "
                "that is not in the dump. To restore into the new database of $NEW_URL, let a "
                "superuser run CREATE EXTENSION vector; there, unless this one has no pgvector, "
                "and then, as the role that is to own the tables: "
                f"{dialect_wall.restore_command(file)} (name the roles of --admin)."
            )
            if wall.is_active or wall.is_shut_out:
                url = url.set(username="SUPERUSER")
        command = self.dialect.maintenance.backup_command(
            url, file, self.schema, sorted((*migrate.TABLES, migrate.VERSION_TABLE))
        )
        return f"{told} Run: {command}"

    @property
    def holds_writer(self) -> bool:
        return self._executor.holds_writer

    def file_bytes(self) -> int | None:
        return self._executor.file_bytes()

    async def close(self, *, in_thread: bool = True) -> None:
        """Close; not *in_thread*: without a thread, which an ending process cannot start."""
        self._after_fork()
        await self._executor.close(in_thread=in_thread)
        if self._executor.is_embedded:
            self._is_ready = False  # the file may be replaced before it is used again

    @asynccontextmanager
    async def _in_transaction(
        self, lent: AbstractAsyncContextManager[AsyncConnection], tenant: str
    ) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction and end it with the block, whose own errors are raised unchanged.

        The end waits for the operations that other tasks have begun in the transaction.
        """
        async with lent as connection:
            transaction = connection.begin()
            with translating(self.translate):
                await transaction.__aenter__()
            assert transaction.sync_transaction is not None
            ConnectionLock.of(connection).confine(transaction.sync_transaction)
            try:
                if self._wall.is_active:

                    def wall_in(sync: Connection) -> None:
                        prepare(sync, lambda c: set_tenant_of(c, self.dialect, tenant))

                    with translating(self.translate):
                        await connection.run_sync(wall_in)
                yield connection
            except BaseException as error:
                await self._roll_back(connection, transaction, error)
                raise
            try:
                with translating(self.translate):
                    await transaction.__aexit__(None, None, None)
            except (DatabaseUnreachable, StatementFailed) as error:
                if not self._may_be_committed(error, True):
                    raise
                raise DatabaseUnreachable(
                    f"{error}; the transaction may or may not have been committed",
                    maybe_applied=True,
                ) from error.__cause__

    async def _roll_back(
        self, connection: AsyncConnection, transaction: AsyncTransaction, why: BaseException
    ) -> None:
        driver_errors: tuple[type[Exception], ...] = (
            SQLAlchemyError,
            OSError,
            *self.dialect.driver_errors,
        )
        try:
            await transaction.__aexit__(type(why), why, why.__traceback__)
        except driver_errors:
            # Closing the connection undoes the transaction, too, and the block's error is raised.
            await connection.invalidate()

    async def _send(
        self,
        job: Callable[[Any], Any],
        kind: Kind,
        repeatable: bool,
        *,
        is_program: bool = False,
        tenant: str | None = None,
        sets_aside: bool = True,
    ) -> Any:
        """Run *job*, again if its transaction was rolled back or its connection was lost.

        Where a lost connection leaves it unknown whether the job was committed, only a *repeatable*
        one is run again. With *sets_aside* a text index that stops a write is set aside first.
        """
        sending: _Sending | None = None
        while True:
            attempt = Attempt(tenant if self._wall.is_active else None)
            try:
                with self._translating:
                    return await self._executor.run(job, kind, attempt, is_program=is_program)
            except MemalchemyError as error:
                if sending is None:
                    writes = Intent(kind).writes
                    sending = _Sending(kind, writes, repeatable, tenant, sets_aside and writes)
                if not await self._may_run_again(sending, attempt, error):
                    raise

    async def _may_run_again(
        self, sending: _Sending, attempt: Attempt, error: MemalchemyError
    ) -> bool:
        """Return whether a job may be run again whose *attempt* ended with *error*; wait before.

        Raises:
            DatabaseUnreachable: it may not, and this says what became of it.
        """
        is_last = sending.number == CONNECTIONS.tries
        if (
            isinstance(error, (Corrupt, StatementFailed))
            and sending.sets_aside
            and await self._set_indexes_aside(error)
        ):
            sending.sets_aside = False
            return True
        if isinstance(error, TakesNoWrites):
            # Its connection was given up, and the name may lead to another node by now.
            if is_last or sending.is_elsewhere or self.dialect.single_writer:
                return False
            sending.is_elsewhere = True
        elif isinstance(error, TenantNotSet):
            # The wall was built while this process ran.
            if is_last or attempt.tenant is not None or sending.tenant is None:
                return False
            if not (await self.tenant_wall()).is_active:
                return False
        elif not await self._is_harmless(sending, attempt, error, is_last=is_last):
            return False
        else:
            publish(Event("database.retry", details={"attempt": sending.number}))
            await CONNECTIONS.wait(sending.number)
        sending.number += 1
        return True

    async def _is_harmless(
        self, sending: _Sending, attempt: Attempt, error: MemalchemyError, *, is_last: bool
    ) -> bool:
        """Return whether to do again what an *attempt* may have done; not if it was the last."""
        # A transaction that is lost before COMMIT is undone; a lone statement may have run.
        unknown = attempt.commit_sent or sending.kind == "statement"
        if isinstance(error, RolledBack):
            return not is_last
        if isinstance(error, TableMissing):
            # SQLite's own VACUUM, of another process, has rewritten the file: a statement that
            # is compiled meanwhile may find no table. Nothing was done.
            return not is_last and await self._is_table_there()
        if isinstance(error, (ConnectionLost, StatementFailed)):
            if not self._may_be_committed(error, attempt.commit_sent):
                return False
            if is_last or (unknown and not sending.repeatable):
                maybe_applied = unknown and sending.writes
                raise DatabaseUnreachable(
                    f"{error}; "
                    + (
                        "the write may or may not have happened, look before repeating it"
                        if maybe_applied
                        else "nothing was changed"
                    ),
                    maybe_applied=maybe_applied,
                ) from error.__cause__
            return True
        if isinstance(error, DatabaseUnreachable):
            # The answer came too late: the same holds as for a lost connection.
            error.maybe_applied = error.maybe_applied and unknown
        return False

    async def _is_table_there(self) -> bool:
        """Return whether a SQLite file has the schema, although a statement missed a table."""
        if not self.dialect.single_writer:
            return False
        with translating(self.translate):
            found: str | None = await self._executor.run(
                lambda c: migrate.current(c, schema=self.schema),
                "read",
                Attempt(None),
                is_program=False,
            )
        return found is not None

    async def _set_indexes_aside(self, error: Corrupt | StatementFailed) -> bool:
        """Set damaged text indexes aside if one may have caused *error*; return whether any was.

        Rows are then written without words, and found again after ``verify --repair``.
        """
        some_is = isinstance(error, TextIndexDamaged)
        if not (some_is or self.dialect.text.may_have_raised(error.__cause__)):
            return False

        def job(connection: Connection) -> list[str]:
            return [*self.dialect.text.set_aside_damaged(connection, some_is=some_is)]

        try:
            with translating(self.translate):
                names: list[str] = await self._executor.run(
                    job, "transaction", Attempt(None), is_program=False
                )
        except MemalchemyError:
            return False
        for name in names:
            publish(Event("database.text_index_set_aside", details={"index": name}))
            _log.warning(
                "the text index %s of %s is damaged and was set aside: rows are written, and no "
                "search finds them by it, until `memalchemy verify --repair` makes it anew",
                name,
                self.display,
            )
        return bool(names)

    def _may_be_committed(self, error: MemalchemyError, commit_sent: bool) -> bool:
        """Return whether a transaction that ended with *error* may be committed all the same."""
        if isinstance(error, StatementFailed):
            return commit_sent and error.sqlstate in self.dialect.unknown_commits
        return True

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._is_ready = False
            if self._executor.is_embedded:
                _left_to_the_parent.append(self._executor)
                self._executor = self._new_executor()


def _sees_one_tenant(wall: TenantWall, what: str) -> str:
    return (
        f"the tenants are walled by row-level security, and the role {wall.role} sees one at a "
        f"time, so {what} would miss the others; nothing was done. Use a role of `memalchemy "
        "tenants enforce --admin ROLE`, or one with BYPASSRLS."
    )


def _refuse_options_of_an_engine(options: dict[str, Any]) -> None:
    """Refuse options for an engine that exists already: it would go on without them."""
    given = sorted(name for name, value in options.items() if value is not None)
    if given:
        raise TypeError(
            f"{', '.join(given)}: an engine of yours has its own; give them to create_async_engine"
        )


# What is open in this process must not be used, nor closed, in one that inherited it.
_left_to_the_parent: list[Executor] = []

"""The executor for PostgreSQL through asyncpg: programs go to the driver without SQLAlchemy.

Connections are those of SQLAlchemy's pool. A program awaits its driver directly, and the connection
stays checked out for the next one: SQLAlchemy's greenlet and its pool cost more than most programs.
Transactions of users, migrations and maintenance take SQLAlchemy's way.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from asyncpg import InterfaceError, InternalClientError, PostgresError
from asyncpg.exceptions import InvalidCachedStatementError
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.util import greenlet_spawn

from memalchemy.database.compiled import CompiledStatement, CompiledStatements
from memalchemy.database.direct_connection import DirectConnection
from memalchemy.database.driver_errors import RolledBack, translating
from memalchemy.database.executors.base import Attempt
from memalchemy.database.executors.loop_engines import LoopEngine
from memalchemy.database.executors.sqlalchemy import SQLAlchemyExecutor
from memalchemy.database.intent import Kind
from memalchemy.dialects import Failure, dialect_of
from memalchemy.events import StatementEvent, publish_statement, statement_subscribers
from memalchemy.keys import encode_id
from memalchemy.statements import Answer

T = TypeVar("T")

_DRIVER_ERRORS = PostgresError, InterfaceError, InternalClientError, OSError

_PREPARED = "memalchemy_prepared"
"""The key of `Connection.info` for the texts that were prepared on the connection."""

_WALLED = "memalchemy_walled"
"""The key of `Connection.info` for the connection's `WalledStatements`."""

KEPT_SECONDS = 1.0
"""Seconds for which programs keep a connection out of the pool, which looks after its age."""


_statements = CompiledStatements()
"""Shared by all databases whose tables are in no named schema: compiling takes longer than sending.
The dialects of their engines are alike, as an engine with settings of its own goes through
SQLAlchemy.
"""


class AsyncpgExecutor(SQLAlchemyExecutor):
    """Runs programs on asyncpg's connections directly, and other jobs as its base does."""

    def __init__(
        self, *args: Any, schema: str | None, statement_timeout: float | None, **options: Any
    ) -> None:
        super().__init__(*args, statement_timeout=statement_timeout, **options)
        self._compiled = _statements if schema is None else CompiledStatements(schema)
        self._statement_timeout = statement_timeout

    async def run(
        self, job: Callable[[Any], Any], kind: Kind, attempt: Attempt, *, is_program: bool
    ) -> Any:
        if not is_program or kind == "maintenance":
            return await super().run(job, kind, attempt, is_program=is_program)
        engine = self._engines.enter()
        try:
            direct = engine.take_kept() or await self._check_out_connection(engine)
            direct.tenant = attempt.tenant
            return await self._run_job(direct, engine, job, kind, attempt)
        finally:
            await engine.give_back()

    async def _run_job(
        self,
        direct: AsyncpgConnection,
        engine: LoopEngine,
        job: Callable[[Any], Any],
        kind: Kind,
        attempt: Attempt,
    ) -> Any:
        """Run *job* in a transaction if its kind asks for one, else each statement in its own.

        A job that is cancelled leaves a statement that may still run: its connection is closed.
        """
        try:
            if kind in ("transaction", "read_transaction"):
                result = await direct.run_in_transaction(job, attempt)
            else:
                result = await job(direct)
                direct.check_no_transaction()
        except Exception:
            if direct.connection.invalidated:
                await engine.give_up_kept()
            await greenlet_spawn(direct.connection.close)
            raise
        except BaseException as error:
            # Its end is waited for: what was cancelled is done now or never.
            try:
                await greenlet_spawn(direct.connection.invalidate, error)
            finally:
                direct.connection.close()
            raise
        if not engine.keep(direct):
            await greenlet_spawn(direct.connection.close)
        return result

    async def _check_out_connection(self, engine: LoopEngine) -> AsyncpgConnection:
        with translating(self._translate_connecting):
            async with engine.asks_pool():
                connection = await greenlet_spawn(_take_live_connection, engine.plain.sync_engine)
        return AsyncpgConnection(connection, self._compiled, self._statement_timeout)


class AsyncpgConnection(DirectConnection):
    """Executes statements on one connection of asyncpg's, in one task at a time.

    asyncpg prepares each text once per connection, and again where the schema has changed under it.
    """

    driver = "asyncpg"

    def __init__(
        self, connection: Connection, compiled: CompiledStatements, statement_timeout: float | None
    ) -> None:
        super().__init__(connection, compiled)
        self._kept_until = time.monotonic() + KEPT_SECONDS
        self._is_autocommit = False
        self._ours = dialect_of(connection)
        self._statement_timeout = statement_timeout
        self._prepared: set[str] = connection.info.setdefault(_PREPARED, set())
        self.tenant: str | None = None
        """The tenant of the program that runs, where tenants are walled."""
        self._in_transaction = False
        self._walled: WalledStatements | None = connection.info.get(_WALLED)

    @property
    def may_be_kept(self) -> bool:
        """False if the connection has to go back to the pool before the next program."""
        is_old = time.monotonic() > self._kept_until
        return not (is_old or self._is_autocommit or self.raw.is_closed())

    @property
    def may_be_used(self) -> bool:
        """False if it has to go back to the pool, or was ended by the server meanwhile."""
        return self.may_be_kept and not self._ours.has_said_farewell(self.raw)

    def give_back(self) -> None:
        """Return the connection, on which nothing has been begun, to the pool."""
        self.connection.close()

    async def run_sync(self, job: Callable[[Connection], T]) -> T:
        if self.tenant is not None and not self._in_transaction:
            # The tenant is the transaction's, and SQLAlchemy's statements are not sent with it.
            return await self.run_in_transaction(lambda direct: direct.run_sync(job), Attempt())
        if not self._is_autocommit:
            # SQLAlchemy must not begin one: there is none, or it is ours.
            self.connection.execution_options(isolation_level="AUTOCOMMIT")
            self._is_autocommit = True
        result: T = await greenlet_spawn(job, self.connection)
        return result

    async def run_in_transaction(
        self, job: Callable[[AsyncpgConnection], Awaitable[T]], attempt: Attempt
    ) -> T:
        """Run *job* in a transaction of its own."""
        await self._begin()
        self._in_transaction = True
        try:
            result = await job(self)
            attempt.commit_sent = True
            await self._execute_control("COMMIT")
        except Exception:
            if not self.raw.is_closed() and self.raw.is_in_transaction():
                await self._roll_back()
            raise
        finally:
            self._in_transaction = False
        return result

    async def _send(self, compiled: CompiledStatement, values: Sequence[Any]) -> Answer:
        if self.tenant is not None and not self._in_transaction:
            return await self._send_with_tenant(compiled, values, self.tenant)
        sql, timeout = compiled.sql, None
        if self._statement_timeout is not None:
            timeout = self._timeout_of(sql)
        try:
            if compiled.width:
                return _answer_of(compiled, await self.raw.fetch(sql, *values, timeout=timeout))
            return _answer_without_rows(await self.raw.execute(sql, *values, timeout=timeout))
        except _DRIVER_ERRORS as error:
            await self._raise_translated(sql, error)

    async def _send_with_tenant(
        self, compiled: CompiledStatement, values: Sequence[Any], tenant: str
    ) -> Answer:
        """Send a lone statement, in one round trip with the setting of its tenant.

        The two are one transaction: the messages that set the tenant are written before those of
        the statement, without the end that asyncpg puts behind these. asyncpg has no way to send
        two statements at once, and a round trip of its own costs a quarter of a load.
        """
        walled = self._walled
        if walled is None:
            walled = self.connection.info[_WALLED] = self._walled = WalledStatements(self.raw)
        prepared = walled.find(compiled.sql)
        if prepared is None:
            timeout = self._statement_timeout
            preparing = walled.prepare(compiled.sql, timeout and 2 * timeout)
            prepared = await self._await_translating_errors(compiled.sql, preparing)
        walled.send_tenant(tenant)
        try:
            fetched = await self._await_translating_errors(compiled.sql, prepared.fetch(*values))
        except Exception as error:
            if isinstance(error.__cause__, InvalidCachedStatementError):
                walled.unprepare(compiled.sql)
                raise RolledBack("the schema has changed below a prepared statement") from error
            if isinstance(error.__cause__, InterfaceError):
                self.drop(error)  # asyncpg has sent nothing, and the server waits for the end
            raise
        if compiled.width:
            return _answer_of(compiled, fetched)
        return _answer_without_rows(prepared.get_statusmsg())

    async def _begin(self) -> None:
        try:
            await self._execute_control(
                "BEGIN" if self.tenant is None else _begin_as_tenant(self.tenant)
            )
        except Exception as error:
            if not isinstance(error.__cause__, PostgresError):
                self.drop(error)  # the server may begin it yet, after a timeout for instance
            raise

    def check_no_transaction(self) -> None:
        """Refuse to acknowledge a job in autocommit that was part of a transaction after all.

        Raises:
            RolledBack: the connection had been returned to the pool by a task that was still using
                it. It is closed, so nothing was changed.
        """
        if not self.raw.is_closed() and self.raw.is_in_transaction():
            error = RolledBack("the connection was in somebody else's transaction")
            self.drop(error)
            raise error

    def _timeout_of(self, sql: str) -> float | None:
        """Return the timeout of a text: doubled at its first use, when it is prepared, too.

        ``None`` leaves the limit to the connection.
        """
        if self._statement_timeout is None or sql in self._prepared:
            return None
        self._prepared.add(sql)
        return 2 * self._statement_timeout

    async def _execute_control(self, sql: str) -> None:
        """Begin or end the transaction."""
        started = time.perf_counter()
        await self._await_translating_errors(sql, self.raw.execute(sql))
        if statement_subscribers:
            seconds = time.perf_counter() - started
            publish_statement(StatementEvent(sql, self.dialect.name, self.driver, seconds))

    async def _roll_back(self) -> None:
        try:
            await self._execute_control("ROLLBACK")
        except (DBAPIError, RolledBack) as error:
            self.drop(error)  # or the pool would hand it out with its transaction

    def drop(self, error: BaseException) -> None:
        """Terminate the connection; closing it would wait for the answer to a running statement."""
        self.raw.terminate()
        self.connection.invalidate(error)
        self.connection.close()

    async def _await_translating_errors(self, sql: str, answer: Coroutine[Any, Any, T]) -> T:
        """Await *answer*; raise SQLAlchemy's error for asyncpg's."""
        try:
            return await answer
        except _DRIVER_ERRORS as error:
            await self._raise_translated(sql, error)

    async def _raise_translated(self, sql: str, error: Exception) -> NoReturn:
        """Raise SQLAlchemy's error for one of asyncpg's, and give up what it has spoilt."""
        # asyncpg raises InternalClientError if the server has said that it ends the connection.
        lost = self.raw.is_closed() or isinstance(error, InternalClientError)
        if not lost and "another operation is in progress" in str(error):
            # A task still uses this connection after returning it: asyncpg has sent nothing.
            refused = RolledBack("the connection was in use by somebody else")
            self.drop(refused)
            raise refused from error
        failure, _ = self._ours.classify(error)
        if lost or failure is Failure.READ_ONLY:
            # The others lead to the same node, which takes no writes.
            await self._invalidate_pool()
        elif failure is Failure.NOT_PREPARED:
            self.raw.terminate()
            self.connection.invalidate(error)
        raise DBAPIError.instance(
            sql,
            None,
            error,
            Exception,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=self.dialect,
        ) from error

    async def _invalidate_pool(self) -> None:
        """Replace this connection, and each of the pool when it is asked for the next time.

        The others were most likely lost with this one. SQLAlchemy does that, and leaves those alone
        that are in use, if it finds a connection closed: a statement on it sends nothing.
        """
        self.raw.terminate()
        with suppress(DBAPIError):
            await greenlet_spawn(self.connection.exec_driver_sql, "SELECT 1")


def _answer_of(compiled: CompiledStatement, fetched: Any) -> Answer:
    answer = Answer(compiled.rows(fetched))
    answer.touched = len(answer)
    return answer


def _answer_without_rows(status: str) -> Answer:
    """Return the answer that a server's *status* tells, such as ``DELETE 3``."""
    number = status.rpartition(" ")[2]
    answer = Answer()
    answer.touched = int(number) if number.isdecimal() else -1
    return answer


class WalledStatements:
    """Prepared statements of one connection, and the messages that set a tenant before them."""

    MOST = 200
    """The most statements that stay prepared; asyncpg's own default is 100."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._prepared: dict[str, Any] = {}
        self._setting: Any = None
        self._messages: dict[str, bytes] = {}

    def find(self, sql: str) -> Any:
        """Return the prepared *sql*, the last that will be given up; ``None`` if there is none."""
        found = self._prepared.pop(sql, None)
        if found is not None:
            self._prepared[sql] = found
        return found

    async def prepare(self, sql: str, seconds: float | None) -> Any:
        """Return *sql* prepared, within so many *seconds*, and be ready to send a tenant."""
        if self._setting is None:
            self._setting = await self._raw.prepare(_SET_TENANT, timeout=seconds)
        made = await self._raw.prepare(sql, timeout=seconds)
        if len(self._prepared) >= self.MOST:
            del self._prepared[next(iter(self._prepared))]
        self._prepared[sql] = made
        return made

    def unprepare(self, sql: str) -> None:
        """Prepare *sql* anew the next time."""
        self._prepared.pop(sql, None)

    def send_tenant(self, tenant: str) -> None:
        """Write the messages that set the tenant of the transaction that the next ones begin.

        They are of the extended query protocol: Bind and Execute, without a Sync. If asyncpg then
        refuses to send a statement, the connection has to be dropped.
        """
        if self._raw.is_closed():
            return  # asyncpg says so
        messages = self._messages.get(tenant)
        if messages is None:
            if len(self._messages) >= self.MOST:
                self._messages.clear()
            messages = self._messages[tenant] = self._messages_for(tenant)
        # asyncpg has no public way to write, and reads over answers that have no rows.
        self._raw._transport.write(messages)

    def _messages_for(self, tenant: str) -> bytes:
        name = self._setting.get_name().encode() + b"\0"
        value = encode_id(tenant).encode()
        bind = b"\0" + name + struct.pack("!HHi", 0, 1, len(value)) + value + b"\0\0"
        execute = struct.pack("!iBi", 9, 0, 0)
        return b"".join((b"B", struct.pack("!i", 4 + len(bind)), bind, b"E", execute))


_SET_TENANT = "SELECT 1 WHERE set_config('memalchemy.tenant', $1, true) IS NULL"
"""Sets the tenant of the transaction and returns no row: an answer that asyncpg passes over."""


def _begin_as_tenant(tenant: str) -> str:
    """Return BEGIN with the setting of the tenant, in digits: there is nothing to quote."""
    digits = encode_id(tenant).encode().hex()
    value = f"convert_from(decode('{digits}', 'hex'), 'UTF8')"
    return f"BEGIN; SELECT set_config('memalchemy.tenant', {value}, true)"


def _take_live_connection(engine: Engine) -> Connection:
    """Return a connection of the pool, passing over those that are known to be closed.

    After a restart of the server all of them are, and each would cost an attempt.
    """
    while True:
        connection = engine.connect()
        raw: Any = connection.connection.driver_connection
        if not raw.is_closed():
            return connection
        connection.invalidate()
        connection.close()

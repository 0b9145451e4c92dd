"""Programs' statements straight to asyncpg, on connections of SQLAlchemy's pool.

Here is what `database.prepared` is for a server: how a connection is lent for one job, and what is
owed to the pool after it. Everything runs in a greenlet of SQLAlchemy's, where awaiting is a call.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, TypeVar

from asyncpg import InterfaceError, InternalClientError, PostgresError
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.util import await_only

from memalchemy.database.prepared import Plan, Plans, Prepared
from memalchemy.database.running import RolledBack, translating
from memalchemy.statements import Answer

T = TypeVar("T")

_PREPARED = "memalchemy_prepared"
"""Under which the pool keeps, with a connection, the texts that were sent on it."""


class Straight(Prepared):
    """Runs statements on one connection of asyncpg's, in one greenlet.

    asyncpg prepares each text once per connection, and again where the schema has changed under it.
    """

    driver: ClassVar[str] = "asyncpg"

    def __init__(self, connection: Connection, plans: Plans) -> None:
        super().__init__(connection, plans)
        self._leaves_transactions_alone = False
        self._limit = plans.statement_timeout
        self._prepared: set[str] = connection.info.setdefault(_PREPARED, set())

    def give_way(self) -> Connection:
        if not self._leaves_transactions_alone:
            # SQLAlchemy must not begin one: there is none, or it is ours.
            self.connection.execution_options(isolation_level="AUTOCOMMIT")
            self._leaves_transactions_alone = True
        return self.connection

    def transaction(self, job: Callable[[Straight], T], committing: list[bool]) -> T:
        """Run *job* in a transaction; *committing* becomes non-empty before COMMIT is sent."""
        self._begin()
        try:
            result = job(self)
            committing.append(True)
            self._wait("COMMIT", self.raw.execute("COMMIT"))
        except Exception:
            if not self.raw.is_closed() and self.raw.is_in_transaction():
                self._roll_back()
            raise
        return result

    def _send(self, plan: Plan, values: Sequence[Any]) -> Answer:
        if plan.width:
            answer = self.raw.fetch(plan.sql, *values, timeout=self._timeout(plan.sql))
            rows = plan.rows(self._wait(plan.sql, answer))
            return Answer(rows, len(rows))
        answer = self.raw.execute(plan.sql, *values, timeout=self._timeout(plan.sql))
        status = self._wait(plan.sql, answer)
        number = status.rpartition(" ")[2]
        return Answer((), int(number) if number.isdecimal() else -1)

    def _begin(self) -> None:
        try:
            self._wait("BEGIN", self.raw.execute("BEGIN"))
        except Exception as error:
            if not isinstance(error.__cause__, PostgresError):
                self._drop(error)  # the server may begin it yet, after a timeout for instance
            raise

    def check_left(self) -> None:
        """Refuse to acknowledge a job that was part of a transaction which nobody will commit.

        Raises:
            RolledBack: the connection had been given back by a task that was still using it. It is
                closed, so nothing was changed.
        """
        if not self.raw.is_closed() and self.raw.is_in_transaction():
            error = RolledBack("the connection was in somebody else's transaction")
            self._drop(error)
            raise error

    def _timeout(self, sql: str) -> float | None:
        """What a text takes that is prepared first, which is a round trip and a time of its own;
        else the connection's own limit.
        """
        if self._limit is None or sql in self._prepared:
            return None
        self._prepared.add(sql)
        return 2 * self._limit

    def _roll_back(self) -> None:
        try:
            self._wait("ROLLBACK", self.raw.execute("ROLLBACK"))
        except (DBAPIError, RolledBack) as error:
            self._drop(error)  # the pool would lend it with its transaction

    def _drop(self, error: BaseException) -> None:
        """End it without a farewell: to say one, asyncpg would wait for an answer that is due."""
        self.raw.terminate()
        self.connection.invalidate(error)

    def _wait(self, sql: str, answer: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await_only(answer)
        except (PostgresError, InterfaceError, InternalClientError, OSError) as error:
            # The third is what asyncpg says while the server's farewell is all that it has read.
            lost = self.raw.is_closed() or isinstance(error, InternalClientError)
            if not lost and "another operation is in progress" in str(error):
                # Somebody is using a connection that was given back: asyncpg has sent nothing.
                refused = RolledBack("the connection was in use by somebody else")
                self._drop(refused)
                raise refused from error
            if lost:
                # The others of its age have most likely gone the same way.
                self.connection.engine.pool._invalidate(self.connection.connection, error)
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


def lend(
    engine: Engine,
    plans: Plans,
    job: Callable[[Straight], T],
    refused: Callable[[BaseException], BaseException],
    committing: list[bool] | None,
) -> T:
    """Run *job* on a connection of *engine*, each statement a transaction of its own; in one for
    all, if there is a *committing*.

    A job that is cancelled leaves a statement that may still run: its connection is closed.
    """
    with translating(refused):
        connection = _connect(engine)
    try:
        straight = Straight(connection, plans)
        if committing is not None:
            return straight.transaction(job, committing)
        result = job(straight)
        straight.check_left()
        return result
    except Exception:
        raise
    except BaseException as error:
        connection.invalidate(error)
        raise
    finally:
        connection.close()


def _connect(engine: Engine) -> Connection:
    """A connection that is not known to be closed: of a server that went away each in the pool is,
    and each would cost an attempt.
    """
    while True:
        connection = engine.connect()
        raw: Any = connection.connection.driver_connection
        if not raw.is_closed():
            return connection
        connection.invalidate()
        connection.close()

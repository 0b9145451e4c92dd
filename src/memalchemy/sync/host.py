"""Values of ``connection=`` without ``await``: a host's connection, or a transaction of ours."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Executable, ScalarResult
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncTransaction
from sqlalchemy.orm import Session, scoped_session

from memalchemy.database import ThreadBound
from memalchemy.sync.loop import Caller, Runner, call

T = TypeVar("T")

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class Transaction:
    """The transaction of ``with db.transaction() as tx``.

    Give it to memalchemy's methods as ``connection=tx``, and send SQL of your own through it.

    It works on whatever driver the `Database` has, which is an asynchronous one; so it is not
    itself a `sqlalchemy.Connection`. `run_sync` hands one to a function. Use it in one thread at a
    time.
    """

    def __init__(self, connection: AsyncConnection, runner: Runner) -> None:
        self._connection = connection
        self._runner = runner

    def execute(self, statement: Executable, parameters: Parameters = None) -> CursorResult[Any]:
        """Execute a statement; the result is read to its end already."""
        return self._run(self._connection.execute(statement, parameters))

    def scalar(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first column of the first row, ``None`` without one."""
        return self._run(self._connection.scalar(statement, parameters))

    def scalars(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> ScalarResult[Any]:
        """The first column of each row."""
        return self._run(self._connection.scalars(statement, parameters))

    def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Call *job* with a `sqlalchemy.Connection` of this transaction; return what it returns.

        For the ORM: ``tx.run_sync(lambda connection: Session(connection).scalars(…).all())``. It
        runs in the database's thread and must not call methods of `Database` and its features.
        """
        return self._run(self._connection.run_sync(job))

    def begin_nested(self) -> Savepoint:
        """Begin a savepoint; a block (``with``) commits it, or rolls it back on an exception."""

        async def begin() -> AsyncTransaction:
            return await self._connection.begin_nested()

        return Savepoint(self._run(begin()), self)

    def rollback(self) -> None:
        """Take back everything; the block may then be left as if nothing had been done in it."""
        self._run(self._connection.rollback())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return call(self._runner, work, Caller())


class Savepoint:
    """A savepoint of a `Transaction`."""

    def __init__(self, savepoint: AsyncTransaction, transaction: Transaction) -> None:
        self._savepoint = savepoint
        self._transaction = transaction

    def commit(self) -> None:
        """Keep what was done in it, as part of the transaction."""
        self._transaction._run(self._savepoint.commit())

    def rollback(self) -> None:
        """Take back what was done in it."""
        self._transaction._run(self._savepoint.rollback())

    def __enter__(self) -> Savepoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._transaction._run(self._savepoint.__aexit__(kind, error, trace))


def runner_of(connection: Any) -> Runner | None:
    """Return the runner that a transaction is open on; ``None`` of any other connection."""
    return connection._runner if isinstance(connection, Transaction) else None


HOSTS = (Connection, Session, scoped_session)
HostConnection = Connection | Session | scoped_session[Any] | Transaction


class Hosted(ThreadBound):
    """A connection or session of the host's, worked on in the thread that waits for the work."""

    def __init__(self, host: Connection | Session | scoped_session[Any], caller: Caller) -> None:
        self._host: Connection | Session = host() if isinstance(host, scoped_session) else host
        self._caller = caller

    @property
    def dialect(self) -> Any:
        bound = self._host.get_bind() if isinstance(self._host, Session) else self._host
        return bound.dialect

    async def run_sync(self, job: Callable[[Connection], T]) -> T:
        def work() -> T:
            host = self._host
            return job(host.connection() if isinstance(host, Session) else host)

        return await self._caller.ask(work)

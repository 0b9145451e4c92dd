"""Driving a program on a connection, and the one place where driver errors become ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from memalchemy import migrate
from memalchemy.database.prepared import Prepared, UnreadableRows, executed
from memalchemy.dialects import Dialect, Failure
from memalchemy.dialects.base import original
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    Corrupt,
    DatabaseUnreachable,
    MemalchemyError,
    SchemaOutdated,
    StatementFailed,
    UniqueViolation,
)
from memalchemy.events import Event
from memalchemy.statements import Program

T = TypeVar("T")
U = TypeVar("U")


class Lost(DatabaseUnreachable):
    """The connection went away; whether the statement that was running ran is unknown."""


class RolledBack(StatementFailed):
    """The database undid the transaction (deadlock, serialisation); repeating it is safe."""


Lent = Connection | Prepared
"""What a job is given: a connection, or one of ours that SQLAlchemy would only slow down."""


def drive(
    lent: Lent,
    program: Program[T],
    translate: Translate,
    options: dict[str, Any],
    event: Event | None = None,
) -> T:
    """Run *program* to its end. A statement's failure is thrown into it as our own error."""
    prepared = lent if isinstance(lent, Prepared) else Prepared.of(lent)
    try:
        statement, parameters = next(program)
        while True:
            if event is not None:
                event.round_trips += 1
            try:
                answer = None if prepared is None else prepared.execute(statement, parameters)
                if answer is None:
                    connection = lent.give_way() if isinstance(lent, Prepared) else lent
                    answer = executed(connection, statement, parameters, options)
            except (SQLAlchemyError, OSError) as error:  # a TimeoutError is an OSError
                ours = translate(error)
                if ours is error:
                    raise
                ours.__cause__ = original(error)
                statement, parameters = program.throw(ours)
                continue
            except UnreadableRows as error:
                statement, parameters = program.throw(error)
                continue
            statement, parameters = program.send(answer)
    except StopIteration as end:
        result_value: T = end.value
        return result_value
    finally:
        program.close()


OFF_LOOP_BYTES = 2 * 1024 * 1024
"""States from here on are compressed and decoded in a thread: below, that takes a few milliseconds,
and handing it over takes a good part of one."""


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """Do *work* on *size* bytes here, or in a thread where it would stop the loop for long."""
    if size < OFF_LOOP_BYTES:
        return work()
    return await asyncio.to_thread(work)


@dataclass(frozen=True, slots=True)
class Then(Generic[T, U]):
    """Work on a program's answer, such as decoding: where the program ran, if that is a thread of
    its own; else here, or in a thread if *size* says that it is much.
    """

    work: Callable[[T], U]
    size: Callable[[T], int]


class Translate(Protocol):
    """Turns a driver's error into ours, and leaves any other alone."""

    def __call__(self, error: BaseException, *, connecting: bool = False) -> BaseException: ...


@contextmanager
def translating(translate: Callable[[BaseException], BaseException]) -> Iterator[None]:
    """Raise our error for a driver's, and any other error as it is.

    For calls of the driver alone: a `TimeoutError` of a host's own code is taken for the driver's.
    """
    try:
        yield
    except Exception as error:
        ours = translate(error)
        if ours is error:
            raise
        raise ours from error


def translator_beside_a_host(translate: Translate, dialect: Dialect) -> Translate:
    """*translate*, for what may also be raised by a host's own code, whose errors stay theirs.

    A `FileNotFoundError` or `TimeoutError` of theirs looks like that of a driver's socket; what
    SQLAlchemy or the driver raises does not.
    """

    def of_a_driver(error: BaseException, *, connecting: bool = False) -> BaseException:
        if isinstance(error, (SQLAlchemyError, *dialect.driver_errors)):
            return translate(error, connecting=connecting)
        return error

    return of_a_driver


def translator(dialect: Dialect, display: str) -> Translate:
    """The translation for a database; *display* is its URL without secrets.

    Driver texts are not repeated in our messages: they may quote values.
    """

    def translate(error: BaseException, *, connecting: bool = False) -> BaseException:
        if isinstance(error, MemalchemyError):
            return error
        failure, code = dialect.classify(error)
        if connecting and failure is Failure.DISCONNECTED:
            failure = Failure.UNREACHABLE
        elif isinstance(original(error), TimeoutError) and not connecting:
            failure = Failure.BUSY
        if isinstance(error, PoolTimeout):
            return DatabaseUnreachable(
                f"no connection of the pool to {display} became free in time; nothing was changed. "
                "Raise pool_size, max_overflow or pool_timeout.",
                busy=True,
            )
        why = f" ({type(original(error)).__name__}{f' {code}' if code else ''})"
        if failure is Failure.DISCONNECTED:
            return Lost(f"the connection to {display} was lost{why}")
        if failure is Failure.UNREACHABLE and dialect.single_writer:
            return DatabaseUnreachable(
                f"cannot open {display}{why}. Check that its directory exists and may be written."
            )
        if failure is Failure.UNREACHABLE:
            return DatabaseUnreachable(
                f"cannot reach {display}{why}. Check that the server runs, that the host, port and "
                "database name are right, and that it still takes connections."
            )
        if failure is Failure.BUSY:
            return DatabaseUnreachable(
                f"{display} stayed locked or too slow for longer than the timeout{why}; nothing "
                "was acknowledged. Another process may hold a transaction open.",
                maybe_applied=isinstance(original(error), TimeoutError),
                busy=True,
            )
        if failure is Failure.AUTHENTICATION:
            return AuthenticationFailed(f"{display} refused the user or the password{why}")
        if failure is Failure.PERMISSION and dialect.single_writer:
            return AuthenticationFailed(
                f"{display} cannot be written{why}. Check the rights of the file, its directory "
                "and the two files SQLite keeps beside it (-wal, -shm)."
            )
        if failure is Failure.PERMISSION:
            return AuthenticationFailed(
                f"the user of {display} lacks a right that this needs{why}. "
                "`memalchemy grants ROLE` prints the statements that give it."
            )
        if failure is Failure.READ_ONLY:
            return CapabilityMissing(
                f"{display} takes no writes{why}: it is a replica, or is set to be read only. Give "
                "Database the primary's URL, and this one as read_url="
            )
        if failure is Failure.MISSING_TABLE:
            return SchemaOutdated(None, migrate.head())
        if failure is Failure.UNIQUE:
            return UniqueViolation(f"a unique key is taken in {display}{why}", sqlstate=code)
        if failure is Failure.IN_USE:
            return MemalchemyError(
                "another task is using this connection, so nothing was sent: await each statement "
                "of a transaction before the next, or give each task a transaction of its own"
            )
        if failure is Failure.ROLLED_BACK:
            return RolledBack(f"{display} rolled the transaction back{why}", sqlstate=code)
        if failure is Failure.FULL:
            return StatementFailed(f"{display} has no room left{why}", sqlstate=code)
        if failure is Failure.CORRUPT:
            return Corrupt(f"{display} is damaged or is not a database{why}")
        if isinstance(error, (DBAPIError, *dialect.driver_errors)):
            return StatementFailed(f"{display} refused a statement{why}", sqlstate=code)
        return error

    return translate

"""Run a program on a connection: the loop that sends its statements and hands it the answers.

The loop is a coroutine, for connections that are awaited. On the others nothing in it waits, and
`run_synchronously` runs it to its end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Executable, event
from sqlalchemy.exc import SQLAlchemyError

from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.database.compiled import execute_with_sqlalchemy
from memalchemy.database.direct_connection import DirectConnection
from memalchemy.database.driver_errors import Translate
from memalchemy.dialects import Dialect, original
from memalchemy.errors import MemalchemyError
from memalchemy.events import Event, StatementEvent, publish_statement
from memalchemy.statements import Answer, Parameters, Program, built_for

T = TypeVar("T")
U = TypeVar("U")

JobConnection = Connection | DirectConnection
"""The connection a job is given: SQLAlchemy's, or one on which its overhead is left out."""

Job = Callable[[Any], T]
"""A function of a `JobConnection` that can run again from the start."""


def run_synchronously(job: Callable[[Any], Coroutine[Any, Any, T]], connection: Any) -> T:
    """Run *job*, a coroutine function, on a connection that is not awaited."""
    coroutine = job(connection)
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a program was awaited on a connection that blocks")


async def run_program(
    connection: JobConnection,
    *,
    make: Callable[[], Program[Any]],
    translate: Translate,
    options: dict[str, Any],
    dialect: Dialect,
    counted: Event | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Any:
    """Run the program that *make* returns, to its end; return its result, or what *decode* makes.

    A statement's failure is thrown into the program as an error of memalchemy's. The round trips
    are counted in *counted*.

    Raises:
        MemalchemyError: the connection was lost before the program's end.
    """
    if isinstance(connection, DirectConnection):
        direct: DirectConnection | None = connection
    else:
        check_not_lost(connection)
        direct = DirectConnection.registered_for(connection)
    program, may_be_exchanged = make(), dialect.distributed
    try:
        statement, parameters = next(program)
        while True:
            if may_be_exchanged:
                statement = built_for(dialect, statement)
            if counted is not None:
                counted.round_trips += 1
            try:
                answer = None if direct is None else await direct.execute(statement, parameters)
                if answer is None:
                    execute = partial(_execute_statement, statement, parameters, options)
                    answer = (
                        await connection.run_sync(execute)
                        if isinstance(connection, DirectConnection)
                        else execute(connection)
                    )
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
        result = end.value
    finally:
        program.close()
    return result if decode is None else decode(result)


def _execute_statement(
    statement: Executable, parameters: Parameters, options: dict[str, Any], connection: Connection
) -> Answer:
    check_not_lost(connection)
    return execute_with_sqlalchemy(connection, statement, parameters, options)


def check_not_lost(connection: Connection) -> None:
    """Refuse a connection in whose place SQLAlchemy would silently open another.

    That one would be outside the transaction, and where the host's block is just ending nobody
    would give it back.
    """
    if connection.invalidated:
        raise MemalchemyError(
            "the connection was lost to a failure or a cancellation, and what its transaction did "
            "is undone: open another"
        )


def run_observed(job: Callable[[Connection], T], connection: Connection) -> T:
    """Run *job* with a `StatementEvent` for each statement that it sends on *connection*."""

    def before(_: Any, __: Any, ___: str, ____: Any, context: Any, _____: bool) -> None:
        context.memalchemy_started = time.perf_counter()

    def after(conn: Connection, _: Any, sql: str, __: Any, context: Any, ___: bool) -> None:
        seconds = time.perf_counter() - context.memalchemy_started
        dialect, construct = conn.dialect, getattr(context, "invoked_statement", None)
        publish_statement(
            StatementEvent(sql, dialect.name, dialect.driver, seconds, statement=construct)
        )

    event.listen(connection, "before_cursor_execute", before)
    event.listen(connection, "after_cursor_execute", after)
    try:
        return job(connection)
    finally:
        event.remove(connection, "before_cursor_execute", before)
        event.remove(connection, "after_cursor_execute", after)


OFF_LOOP_BYTES = 2 * 1024 * 1024
"""States from this size on are compressed and decoded in a thread. Smaller ones take a few
milliseconds, of which handing them to a thread would be a good part."""


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """Do *work* on *size* bytes, in a thread if it would block the event loop for long."""
    if size < OFF_LOOP_BYTES:
        return work()
    return await asyncio.to_thread(work)


@dataclass(frozen=True, slots=True)
class Decode(Generic[T, U]):
    """Work on a program's result, such as decoding, for `Database.read_decoded`.

    It is done where the program ran, if that is a thread; else in the event loop, or in a thread
    if *size* says that it is much.
    """

    work: Callable[[T], U]
    size: Callable[[T], int]

"""The contract of executors: one for each way in which statements reach a database."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.database.intent import Kind

T = TypeVar("T")


@dataclass(slots=True)
class Attempt:
    """One attempt to run a job."""

    tenant: str | None = None
    """The tenant to set for row-level security; ``None`` where there is none."""
    commit_sent: bool = False
    """COMMIT was sent, so that a lost connection leaves the outcome unknown."""


class Executor(abc.ABC):
    """Runs jobs on the connections of one database.

    A job is a function of a `JobConnection` that can run again from the start. Errors of drivers
    are translated by the caller.
    """

    is_embedded: ClassVar[bool] = False
    """True if the database is in this process: programs run in the executor's own threads, no
    connection goes over to a child process, and the file may be another one after `close`.
    """

    @property
    def batches_statements(self) -> bool:
        """True if programs that offer it share a statement with others that wait; see `batching`.

        SQLite's writer batches transactions instead, whatever is in them.
        """
        return False

    @abc.abstractmethod
    def run(
        self, job: Callable[[Any], Any], kind: Kind, attempt: Attempt, *, is_program: bool
    ) -> Awaitable[Any]:
        """Run *job* once, as its *kind* asks, and return its result.

        With *is_program* it is a coroutine function, and its connection may be a
        `DirectConnection`; else its connection is SQLAlchemy's.
        A job whose caller is cancelled is done whole or not at all.
        """

    @abc.abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Return a block that has a connection of its own, for one transaction."""

    @abc.abstractmethod
    def snapshot(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Return a block that has a connection whose reads all see one moment."""

    @abc.abstractmethod
    async def close(self, *, in_thread: bool = True) -> None:
        """Finish queued jobs and close the connections of the running loop.

        Not *in_thread*: without a thread, which an ending process cannot start.
        """

    def allow_creation(self) -> None:  # noqa: B027 - a server's database is there
        """Create the database if it is not there, from now on."""

    def refuse_inherited(self) -> None:  # noqa: B027 - a server has no record of this process
        """Refuse a database that was open in the parent of this process when it was forked."""

    def abandon(self) -> None:  # noqa: B027 - engines of SQLAlchemy see to it themselves
        """Close later, in threads of its own: nobody can use the database any more."""

    async def back_up(
        self, file: str, progress: Callable[[int, int], object], *, force: bool
    ) -> int:
        """Copy an embedded database into *file* as of one moment; return its size.

        The file is complete or absent. With *force* it replaces one that is there.
        """
        raise NotImplementedError

    @property
    def holds_writer(self) -> bool:
        """True while a transaction of the running task holds the database's only writer."""
        return False

    def checked_out(self) -> int:
        """Return the number of the pool's connections that are in use."""
        return 0

    def file_bytes(self) -> int | None:
        """Return the size of the database's files; ``None`` if it is not a file."""
        return None

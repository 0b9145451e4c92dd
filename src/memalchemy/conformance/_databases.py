"""`Place` and `Ground`: the databases of a check, with a tenant of its own."""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

from memalchemy.checkpoints import Checkpointer
from memalchemy.conformance._checks import Skipped, fail, made_by
from memalchemy.conformance._processes import Worker, lent_worker
from memalchemy.conformance._worker import write_until
from memalchemy.conformance.subject import Subject
from memalchemy.database import Database
from memalchemy.errors import MemalchemyError

IN_MEMORY = "sqlite://"


class Place:
    """A database with a tenant for one check: of a given URL, or a new SQLite file."""

    def __init__(self, url: str | None) -> None:
        self._given = url
        self._databases: list[Database] = []

    async def __aenter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="memalchemy-conformance-"))
        self.url = self._given or f"sqlite:///{self.directory}/agent.db"
        self._tenants = [f"conformance-{uuid.uuid4().hex[:16]}"]
        self.db = self._open_database(self.url)
        await self.db.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._given is not None:
            for tenant in self._tenants:
                await Checkpointer(self.db.for_tenant(tenant)).forget(tenant=tenant)
        for db in self._databases:
            await db.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def tenant(self) -> str:
        """The tenant of the check."""
        return self._tenants[0]

    def _open_database(self, url: str) -> Database:
        db = Database(url, tenant=self.tenant)
        self._databases.append(db)
        return db


def on_database(make: Callable[..., Any], url: str | None) -> Callable[[], Any]:
    """Return *make* as a function without arguments; if it needs one, give it a database.

    Raises:
        ValueError: *url* is given, and *make* takes no database.
    """
    try:
        parameters = [*inspect.signature(make).parameters.values()]
    except ValueError:  # a class that is built in, or derived from one
        parameters = []
    needed = [
        one
        for one in parameters
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if not needed:
        if url is not None:
            raise ValueError("database= is for a factory that takes a Database")
        return make

    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Any]:
        async with Place(url) as place, made_by(lambda: make(place.db)) as subject:
            yield subject

    return made


class Ground(Place):
    """A subject, and databases for one check of it.

    Args:
        subject: the subject.
        name: the text that names it for other processes, if there is one.
        url: a migrated database; without it a SQLite file for each check.
    """

    def __init__(self, subject: Subject[Any], name: str | None, url: str | None) -> None:
        super().__init__(url)
        self.subject = subject
        self._name = name

    def adapter(self) -> Any:
        """Make an adapter on the database of the check."""
        return self.subject.open(self.db)

    def in_namespace(self, *namespace: str) -> Any:
        """Make an adapter in a namespace."""
        if self.subject.namespaced is not None:
            return self.subject.namespaced(self.db, namespace)
        makes: Any = self.subject.open
        if "namespace" not in inspect.signature(makes).parameters:
            raise Skipped("open takes no namespace=, and the subject has no namespaced=")
        return makes(self.db, namespace=namespace)

    def reopened(self) -> Any:
        """Make an adapter on another `Database` over the same rows, as another process has it."""
        if self.url == IN_MEMORY:
            raise Skipped("a database in memory has one Database")
        return self.subject.open(self._open_database(self.url))

    def of_another_tenant(self) -> Any:
        """Make an adapter of another tenant of the database."""
        self._tenants.append(f"conformance-{uuid.uuid4().hex[:16]}")
        return self.subject.open(self.db.for_tenant(self._tenants[-1]))

    def on_another_database(self) -> Any:
        """Make an adapter on another database, which is empty."""
        other = f"sqlite:///{self.directory}/other.db"
        return self.subject.open(self._open_database(other))

    async def close_loop(self) -> None:
        """Close the connections of a loop that is about to end.

        Those of SQLite are of the whole process.
        """
        if not self.db.dialect.single_writer:
            await self.db.close()

    async def write(self, adapter: Any, id_: str, text: str) -> Any:
        """Write a text; return what the subject has given to the adapter."""
        return await write_until(self.subject, id_, adapter, text)

    async def read(self, adapter: Any, id_: str) -> list[str]:
        """Read the texts of an id."""
        return await self.subject.read(adapter, id_)

    def seen(self, *texts: str) -> list[str]:
        """Return the texts that a reader finds after they were written in this order."""
        return [*texts] if self.subject.appends else [*texts[-1:]]

    async def writes_or_refuses(self, adapter: Any, id_: str, text: str) -> bool:
        """Write a text under an id that the framework may not take; return whether it did.

        A refusal is one of the subject's, or an error of memalchemy's own.
        """
        refusals: tuple[type[Exception], ...] = (*self.subject.refusals, MemalchemyError)
        try:
            await self.write(adapter, id_, text)
        except refusals:
            return False
        return True

    @contextlib.asynccontextmanager
    async def writers(self) -> AsyncIterator[Writers]:
        """Lend a process whose children write through the subject."""
        if self._name is None:
            raise Skipped("give the subject as 'module:ATTRIBUTE', so that processes can import it")
        if not hasattr(os, "fork"):
            raise Skipped("this system has no fork")
        if self.url == IN_MEMORY:
            raise Skipped("a database in memory has one process")
        async with lent_worker() as worker:
            yield Writers(worker, self._name, self.url, self.tenant)


class Writers:
    """Processes that write through a subject."""

    def __init__(self, worker: Worker, name: str, url: str, tenant: str) -> None:
        self._worker = worker
        self._job = {"subject": name, "url": url, "tenant": tenant}

    async def run(self, id_: str, writers: list[str], texts: int) -> AsyncIterator[dict[str, Any]]:
        """Start a process for each of *writers*, which writes a number of texts under an id.

        Yields what they tell of: that each has ``started``, the number of each that was
        ``written``, and that all have ``ended``, with their exit codes.
        """
        job = self._job | {"id": id_, "texts": texts}
        async for told in self._worker.run([job | {"who": who} for who in writers]):
            yield told

    def kill(self) -> None:
        """Kill the processes that are at work."""
        self._worker.kill()

    def check_ended(self, told: dict[str, Any]) -> None:
        """Report a process that has failed."""
        if any(told["ended"].values()):
            fail(f"a process that writes has failed: {self._worker.errors()}")

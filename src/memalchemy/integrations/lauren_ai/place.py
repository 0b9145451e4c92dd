"""What the stores of this adapter share: a database, how it is opened, and lauren-ai's error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from lauren_ai import StorageError

from memalchemy import Database, MemalchemyError
from memalchemy.keys import check_namespace

IN_MEMORY = "sqlite://"


class Place:
    """A database, and a namespace in it that begins with ``lauren``.

    Raises, from any method:
        StorageError: of lauren-ai's; what happened is its ``cause``, a `MemalchemyError`, or a
            ValueError or TypeError for an argument.
    """

    db: Database
    _is_own: bool
    _namespace: tuple[str, ...]

    def __init__(self, db: Database | str = IN_MEMORY, *, namespace: Iterable[str] = ()) -> None:
        self._is_own = not isinstance(db, Database)
        self.db = db if isinstance(db, Database) else Database(db)
        self._namespace = ("lauren", *check_namespace(namespace))

    @classmethod
    async def connect(cls, db: Database | str, **options: Any) -> Self:
        """Make a store, and connect now rather than at first use."""
        store = cls(db, **options)
        with store._as_theirs():
            await store.db.__aenter__()
        return store

    @classmethod
    def from_backend(cls, backend: Database, **options: Any) -> Self:
        """Make a store that shares a `Database` with others."""
        if not isinstance(backend, Database):
            raise TypeError(f"from_backend takes a Database, not {type(backend).__name__}")
        return cls(backend, **options)

    async def close(self) -> None:
        """Close the connections, if the database was opened here from a URL.

        What is used after that opens again. A database in memory is gone.
        """
        if self._is_own:
            await self.db.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.db!r})"

    @contextmanager
    def _as_theirs(self) -> Iterator[None]:
        try:
            yield
        except (MemalchemyError, TypeError, ValueError) as error:
            raise StorageError(
                str(error), backend=self.db.dialect.name, location=repr(self.db), cause=error
            ) from error

"""The base of lauren-ai's stores: their ways of being opened, and their error."""

from __future__ import annotations

from typing import Any, Self

from lauren_ai import StorageError

from memalchemy import Database, MemalchemyError
from memalchemy.integrations._base import Adapter, AnyDatabase


class LaurenAdapter(Adapter):
    """A store of lauren-ai on a database.

    Raises, from any method:
        StorageError: lauren-ai's. Its ``cause`` is the `MemalchemyError`, or the ValueError or
            TypeError of an argument.
    """

    root = "lauren"

    @classmethod
    async def connect(cls, db: AnyDatabase | None = None, **options: Any) -> Self:
        """Make a store, and connect to its database now instead of at first use."""
        store = cls(db, **options)
        with store.translated_errors():
            await store.db.__aenter__()
        return store

    @classmethod
    def from_backend(cls, backend: Database, **options: Any) -> Self:
        """Make a store on a `Database` that it shares with others."""
        if not isinstance(backend, Database):
            raise TypeError(f"from_backend takes a Database, not {type(backend).__name__}")
        return cls(backend, **options)

    async def close(self) -> None:
        """Close the connections of a database that this store opened.

        A later use opens them again. A database in memory is gone.
        """
        await self.aclose()

    def translate(self, error: Exception) -> Exception | None:
        """Return a `StorageError` for an error of memalchemy or of an argument."""
        if not isinstance(error, MemalchemyError | TypeError | ValueError):
            return None
        return StorageError(
            str(error), backend=self.db.dialect.name, location=repr(self.db), cause=error
        )

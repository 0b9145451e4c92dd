"""Where an adapter's data is: the database it was given, or one of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Self

from memalchemy import Database
from memalchemy.keys import check_namespace
from memalchemy.sync.bridge import Bridge

VARIABLE = "MEMALCHEMY_URL"
IN_MEMORY = "sqlite://"


class Place:
    """A database, and a namespace in it that begins with ``locus``."""

    db: Database
    _bridge: Bridge
    _namespace: tuple[str, ...]

    def _settle(self, db: Database | str | None, namespace: Iterable[str]) -> None:
        if db is None:
            db = os.environ.get(VARIABLE) or IN_MEMORY
        self._bridge = Bridge(db, self)
        self.db = self._bridge.db
        self._namespace = ("locus", *check_namespace(namespace))

    async def close(self) -> None:
        """Finish what was begun, and close the connections; a later use opens them anew.

        Nothing is lost: a database in memory stays, until ``db.close()`` ends it. Of a `Database`
        that was given only a server's connections of this event loop are closed, which
        cannot be used after it: locus' ``run_sync`` calls this before it ends its loop.
        """
        is_server = not self.db.dialect.single_writer
        if is_server or (self._bridge.owned and self.db.file_bytes is not None):
            await self.db.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.db!r})"

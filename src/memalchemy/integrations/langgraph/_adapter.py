"""The base of LangGraph's adapters: setting up the database, with and without ``await``."""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from memalchemy.integrations._base import SyncAdapter
from memalchemy.integrations.langgraph import _records as records


class LangGraphAdapter(SyncAdapter):
    """A saver or store of LangGraph on a database."""

    root = records.ROOT

    async def asetup(self) -> None:
        """Bring the database's schema up to this release; for a SQLite file this is not needed."""
        await self.db.migrate()

    def setup(self) -> Awaitable[None]:
        """Do what `asetup` does, before it returns; ``await saver.setup()`` is allowed, too.

        So it stands for the `setup` of LangGraph's classes with and of those without ``await``. In
        a thread whose event loop is running it blocks the loop.
        """
        self.wait(self.asetup())
        return Finished()


class Finished(Awaitable[None]):
    """Awaitable whose work is done; whoever does not await it loses nothing."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield

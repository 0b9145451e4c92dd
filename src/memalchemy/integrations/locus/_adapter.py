"""The base of locus' checkpointer and store: closing, as locus does it."""

from __future__ import annotations

from memalchemy.integrations._base import Adapter


class LocusAdapter(Adapter):
    """A checkpointer or store of locus on a database."""

    root = "locus"

    async def close(self) -> None:
        """Finish running operations and close the connections; a later use opens them again.

        Nothing is lost: a database in memory stays until ``db.close()``. Even of a `Database` that
        this object was given, a server's connections are closed, those of the running event loop:
        locus' ``run_sync`` calls this before it ends its loop, where they are of no use afterwards.
        """
        is_server = not self.db.dialect.single_writer
        if is_server or (self._owns_db and self.db.file_bytes is not None):
            await self.db.close()

    async def aclose(self) -> None:
        """Close the connections, as `close` does."""
        await self.close()

"""The base of ADK's adapters."""

from __future__ import annotations

from memalchemy.integrations._base import Adapter


class GoogleADKAdapter(Adapter):
    """A service of ADK: those that are made of one URL share a `Database`."""

    root = "google_adk"
    shares_databases = True

    async def close(self) -> None:
        """Close the connections of a database that this service opened.

        A later use opens them again. A database in memory is gone.
        """
        await self.aclose()

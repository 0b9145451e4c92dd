"""The frameworks whose own storage can be imported, by the name that the command line knows.

The module of a source has

- ``read(place, schema=None)``, which yields the records of `memalchemy.importers.target` in a fixed
  order, without changing anything at *place*; it raises `NotFound` if there is nothing of the
  framework's, and `DatabaseUnreachable` if the place cannot be read;
- ``count(place, schema=None)``, which returns the number of records, for progress.

*place* is a path or a URL, *schema* that of the tables in PostgreSQL.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memalchemy.importers.target import Record


@dataclass(frozen=True, slots=True)
class Source:
    """Storage of a framework that can be imported.

    Args:
        module: the module that reads it.
        what: what is imported, and from where, for help texts.
    """

    module: str
    what: str

    def read(self, place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
        """Yield all records at *place*."""
        found: AsyncIterator[Record] = self._module().read(place, schema=schema)
        return found

    async def count(self, place: str, *, schema: str | None = None) -> int:
        """Count the records at *place*."""
        counted: int = await self._module().count(place, schema=schema)
        return counted

    def _module(self) -> Any:
        return importlib.import_module(self.module)


_READERS = "memalchemy.integrations._importers"

SOURCES: dict[str, Source] = {
    "crewai": Source(f"{_READERS}.crewai", "the SQLite files of CrewAI's flows and checkpoints"),
    "lauren-ai": Source(f"{_READERS}.lauren_ai", "the SQLite file of lauren-ai's stores"),
    "lazybridge": Source(f"{_READERS}.lazybridge", "the SQLite file of LazyBridge's Store"),
    "llm-agents-from-scratch": Source(
        f"{_READERS}.llm_agents_from_scratch", "the JSON lines of JSONMemoryStore"
    ),
    "locus": Source(
        f"{_READERS}.locus",
        "a directory, a SQLite file, or the URL of PostgreSQL, Redis, S3 or OpenSearch",
    ),
}
"""All sources by name, without ``langgraph`` and ``openai-agents``, which have other options."""

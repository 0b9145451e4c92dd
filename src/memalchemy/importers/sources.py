"""The frameworks whose own storage can be imported, by the name that the command line knows.

The module of a source has

- ``read(place, schema=None)``, which yields the records of `memalchemy.importers.target` in a fixed
  order, without changing anything at *place*; it raises `NotFound` if there is nothing of the
  framework's, and `DatabaseUnreachable` if the place cannot be read;
- ``count(place, schema=None)``, which returns the number of records, for progress.

*place* is a path or a URL, *schema* that of the tables in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalchemy._wiring import wired

if TYPE_CHECKING:
    from memalchemy.importers.target import Record


@dataclass(frozen=True, slots=True)
class Source:
    """Storage of a framework that can be imported.

    Args:
        name: the name of the module that reads it.
        what: what is imported, and from where, for help texts.
        adapter: the name of the adapter that reads what was imported, if it is another one.
        needs_framework: the reader uses the framework's classes.
    """

    name: str
    what: str
    adapter: str | None = None
    needs_framework: bool = True

    def read(self, place: str, *, schema: str | None = None) -> AsyncGenerator[Record]:
        """Yield all records at *place*."""
        found: AsyncGenerator[Record] = self._module().read(place, schema=schema)
        return found

    async def count(self, place: str, *, schema: str | None = None) -> int:
        """Count the records at *place*."""
        counted: int = await self._module().count(place, schema=schema)
        return counted

    def _module(self) -> Any:
        adapter = (self.adapter or self.name) if self.needs_framework else None
        return wired("reader")(self.name, adapter)


SOURCES: dict[str, Source] = {
    "claude-code": Source(
        "claude_code",
        "the directory of projects, that of one project, or a session",
        adapter="claude_agent_sdk",
    ),
    "crewai": Source(
        "crewai", "the SQLite files of CrewAI's flows and checkpoints", needs_framework=False
    ),
    "google-adk": Source(
        "google_adk", "the database of DatabaseSessionService or SqliteSessionService"
    ),
    "lauren-ai": Source("lauren_ai", "the SQLite file of lauren-ai's stores"),
    "lazybridge": Source("lazybridge", "the SQLite file of LazyBridge's Store"),
    "llama-index": Source(
        "llama_index",
        "the database of SQLAlchemyChatStore, or the JSON file of SimpleChatStore",
    ),
    "llm-agents-from-scratch": Source(
        "llm_agents_from_scratch", "the JSON lines of JSONMemoryStore"
    ),
    "locus": Source(
        "locus",
        "a directory, a SQLite file, or the URL of PostgreSQL, Redis, S3 or OpenSearch",
    ),
    "strands": Source("strands", "the directory of FileSessionManager or LocalFileStorage"),
}
"""All sources by name, without ``langgraph`` and ``openai-agents``, which have other options."""

"""Registration of the services, so that ADK's commands find them by a URL."""

from __future__ import annotations

from typing import Any

from google.adk.cli.service_registry import ServiceRegistry, get_service_registry

from memalchemy.integrations.google_adk.artifacts import MemalchemyArtifactService
from memalchemy.integrations.google_adk.memory import MemalchemyMemoryService
from memalchemy.integrations.google_adk.sessions import MemalchemySessionService

SCHEME = "memalchemy"
DATABASES = (
    "sqlite",
    "sqlite+aiosqlite",
    "postgresql",
    "postgresql+asyncpg",
    "postgresql+psycopg",
    "oracle",
    "oracle+oracledb",
)


def register(registry: ServiceRegistry | None = None) -> None:
    """Register the services for URLs of databases with ``memalchemy+`` before them.

    ``--session_service_uri``, ``--memory_service_uri`` and ``--artifact_service_uri`` take such
    URLs then: ``memalchemy+sqlite:///agent.db`` is a SQLite file, and ``memalchemy://`` the
    database in ``MEMALCHEMY_URL``. ADK looks for no packages: call this in the file ``services.py``
    of the directory of your agents, which its commands import.

    Args:
        registry: ADK's own, if not given.
    """
    known = get_service_registry() if registry is None else registry
    for scheme in (SCHEME, *(f"{SCHEME}+{database}" for database in DATABASES)):
        known.register_session_service(scheme, _session_service)
        known.register_memory_service(scheme, _memory_service)
        known.register_artifact_service(scheme, _artifact_service)


def _session_service(uri: str, **_: Any) -> MemalchemySessionService:
    return MemalchemySessionService(_database_url(uri))


def _memory_service(uri: str, **_: Any) -> MemalchemyMemoryService:
    return MemalchemyMemoryService(_database_url(uri))


def _artifact_service(uri: str, **_: Any) -> MemalchemyArtifactService:
    return MemalchemyArtifactService(_database_url(uri))


def _database_url(uri: str) -> str | None:
    """Return the URL of the database; ``None`` for that of the environment."""
    scheme, _, rest = uri.partition(":")
    database = scheme.removeprefix(SCHEME).removeprefix("+")
    return f"{database}:{rest}" if database else None


__all__ = ["register"]

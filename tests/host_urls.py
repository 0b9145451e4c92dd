"""URLs of the database under test as a host application writes them for an engine of its own."""

from __future__ import annotations

_ASYNC = {
    "sqlite": "sqlite+aiosqlite",
    "toy": "sqlite+aiosqlite",
    "toy_reads_back": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
}
_SYNC = {"toy": "sqlite", "toy_reads_back": "sqlite", "postgresql": "postgresql+psycopg"}


def async_url(url: str) -> str:
    """Return the URL for `create_async_engine`."""
    return _with_driver(url, _ASYNC)


def sync_url(url: str) -> str:
    """Return the URL for `create_engine`."""
    return _with_driver(url, _SYNC)


def _with_driver(url: str, drivers: dict[str, str]) -> str:
    scheme, rest = url.split(":", 1)
    return f"{drivers.get(scheme, scheme)}:{rest}"

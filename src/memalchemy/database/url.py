"""Database URLs as people type them and providers hand them out, made SQLAlchemy's."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from memalchemy.errors import DriverMissing, UnknownURL

_EXPECTED = (
    "use sqlite:///path/to/file.db, sqlite:// (in memory), postgresql://user@host/database "
    "or oracle://user@host:1521/service"
)

_SQLALCHEMYS = ("prepared_statement_cache_size", "prepared_statement_name_func", "async_fallback")

# What libpq understands in a URL and asyncpg does not, or calls otherwise.
_SSL_MODES = {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}


@dataclass(frozen=True)
class Target:
    """A database to connect to. ``display`` is the URL without secrets, for messages."""

    dialect: str
    url: URL
    display: str
    path: str | None = None
    """SQLite's file; ``None`` for a database in memory."""
    connect_args: dict[str, Any] = field(default_factory=dict)


def parse(text: str | URL) -> Target:
    """Read a URL.

    Raises:
        UnknownURL: no database that memalchemy supports, or not a URL.
        DriverMissing: the Python driver for it is not installed.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError, TypeError):
        raise UnknownURL(_not_a_url(text)) from None
    backend, _, driver = url.drivername.partition("+")
    if backend != "sqlite" and any("@" in (part or "") for part in (url.host, url.database)):
        raise UnknownURL(
            "the URL has an @ where none belongs: percent-encode the user name and password "
            "(@ is %40, / is %2F, : is %3A)"
        )
    if backend == "sqlite":
        return _sqlite(url, driver)
    if backend in ("postgres", "postgresql"):
        return _postgresql(url, driver)
    if backend == "oracle":
        return _oracle(url, driver)
    raise UnknownURL(f"memalchemy does not work on {backend!r}; {_EXPECTED}")


def _not_a_url(text: object) -> str:
    """What is wrong with *text*; no part of it is repeated but a path, since a URL has secrets."""
    if isinstance(text, str) and (named := re.fullmatch(r"sqlite:(/?[^/?#@\s][^?#@\s]*)", text)):
        # As `get_checkpointer` names it.
        return f"this is not a database URL; did you mean sqlite:///{named[1]}?"
    return f"this is not a database URL; {_EXPECTED}"


def _sqlite(url: URL, driver: str) -> Target:
    if driver not in ("", "aiosqlite", "pysqlite"):
        raise UnknownURL(f"memalchemy does not use the SQLite driver {driver!r}; {_EXPECTED}")
    if url.host:
        raise UnknownURL(
            f"sqlite://{url.host}/… names a host; a relative file is sqlite:///{url.host}, an "
            "absolute one has four slashes"
        )
    if url.query:
        raise UnknownURL(
            f"a SQLite URL takes no parameters, got {', '.join(sorted(url.query))}; durability= is "
            "an argument of Database"
        )
    path = None if url.database in (None, "", ":memory:") else url.database
    clean = URL.create("sqlite", database=path)
    return Target("sqlite", clean, clean.render_as_string(hide_password=False), path)


def _postgresql(url: URL, driver: str) -> Target:
    driver = driver or (
        "psycopg" if not _installed("asyncpg") and _installed("psycopg") else "asyncpg"
    )
    if driver not in ("asyncpg", "psycopg"):
        raise UnknownURL(
            f"memalchemy uses postgresql+asyncpg or postgresql+psycopg, not {driver!r}"
        )
    _need(driver, "postgres" if driver == "asyncpg" else None)
    url = url.set(drivername=f"postgresql+{driver}")
    connect_args: dict[str, Any] = {}
    if driver == "asyncpg":
        query = dict(url.query)
        mode = query.pop("sslmode", None)
        if mode is not None:
            if mode not in _SSL_MODES:
                raise UnknownURL(f"sslmode={mode!r} is none of {', '.join(sorted(_SSL_MODES))}")
            query.setdefault("ssl", mode)
        query.pop("channel_binding", None)  # asyncpg negotiates it by itself
        if "connect_timeout" in query:
            connect_args["timeout"] = _seconds(str(query.pop("connect_timeout")))
        settings = {k: query.pop(k) for k in ("application_name", "options") if k in query}
        if settings:
            connect_args["server_settings"] = settings
        _refuse_unknown(query)
        url = url.set(query=query)
    elif "options" in url.query:
        # Where a statement timeout joins them.
        connect_args["options"] = str(url.query["options"])
        url = url.difference_update_query(["options"])
    return Target("postgresql", url, display(url), connect_args=connect_args)


def _oracle(url: URL, driver: str) -> Target:
    if driver not in ("", "oracledb", "oracledb_async"):
        raise UnknownURL(f"memalchemy uses oracle+oracledb_async, not {driver!r}")
    _need("oracledb", "oracle")
    url = url.set(drivername="oracle+oracledb_async")
    if url.database and url.host and "service_name" not in url.query:
        # SQLAlchemy reads /name as a SID; what people and providers write there is a service.
        url = url.set(database="").update_query_dict({"service_name": url.database})
    return Target("oracle", url, display(url))


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UnknownURL("connect_timeout in the URL must be a number of seconds") from None


def _refuse_unknown(query: Mapping[str, object]) -> None:
    """Refuse parameters that would end as a TypeError deep inside the driver."""
    import asyncpg  # an optional dependency

    known = {*inspect.signature(asyncpg.connect).parameters, *_SQLALCHEMYS}
    for name in query:
        if name not in known:
            raise UnknownURL(f"the URL parameter {name!r} is not one that asyncpg knows")


def display(url: URL) -> str:
    """*url* without anything that may be secret."""
    query = {k: "***" if _is_secret(k) else v for k, v in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def _is_secret(parameter: str) -> bool:
    return any(word in parameter.lower() for word in ("pass", "secret", "token", "key"))


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _need(module: str, extra: str | None) -> None:
    if not _installed(module):
        raise DriverMissing(module, extra)

"""Database URLs as people type them and providers hand them out, made SQLAlchemy's."""

from __future__ import annotations

import importlib
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
    "or oracle://user@host:1521/service (oracle://user@alias for a name of tnsnames.ora)"
)

ORACLE_OPTIONS = (
    "config_dir",
    "wallet_location",
    "wallet_password",
    "ssl_server_dn_match",
    "ssl_server_cert_dn",
)
"""Arguments of python-oracledb's ``connect`` that `Database` takes by name."""

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
    connect_args: dict[str, Any] = field(default_factory=dict, repr=False)
    """Arguments of the driver's ``connect`` that the URL does not carry; there may be secrets."""


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
        _refuse_unknown(query, "asyncpg", "connect")
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
    shown = display(url)
    query = {name: _single(name, value) for name, value in url.query.items()}
    service, protocol = query.pop("service_name", None), query.pop("protocol", None)
    if service is None and not url.database and url.port is not None:
        raise UnknownURL(
            "the URL names a port and no service: use oracle://user@host:1521/service, or "
            "oracle://user@alias for a name of tnsnames.ora"
        )
    _refuse_unknown(query, "oracledb", "connect_async")
    # Outside of the URL, so that nothing that prints an engine's URL prints a wallet's password.
    private = {name for name in query if _is_secret(name)}
    connect_args: dict[str, Any] = {
        name: query.pop(name) for name in sorted(query) if name in private | {*ORACLE_OPTIONS}
    }
    if "ssl_server_dn_match" in connect_args:
        connect_args["ssl_server_dn_match"] = _flag(
            "ssl_server_dn_match", connect_args["ssl_server_dn_match"]
        )
    if protocol not in (None, "tcp", "tcps"):
        raise UnknownURL("protocol in the URL must be tcp or tcps")
    if protocol == "tcps":
        if service is None or not url.host:
            raise UnknownURL("protocol=tcps in the URL needs a host and a service")
        host = f"[{url.host}]" if ":" in url.host else url.host
        # SQLAlchemy writes TCP into the DSN that it makes; this one replaces it.
        connect_args["dsn"] = f"tcps://{host}:{url.port or 1521}/{service}"
    url = url.set(query=query if service is None else query | {"service_name": service})
    return Target("oracle", url, shown, connect_args=connect_args)


def _single(name: str, value: str | tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise UnknownURL(f"the URL gives the parameter {name!r} twice")
    return value


def _flag(name: str, text: str) -> bool:
    words = {"true": True, "on": True, "yes": True, "1": True}
    words |= {"false": False, "off": False, "no": False, "0": False}
    if text.lower() not in words:
        raise UnknownURL(f"{name} in the URL must be true or false")
    return words[text.lower()]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UnknownURL("connect_timeout in the URL must be a number of seconds") from None


def _refuse_unknown(query: Mapping[str, object], driver: str, connect: str) -> None:
    """Refuse parameters that would end as a TypeError deep inside the driver."""
    function = getattr(importlib.import_module(driver), connect)  # an optional dependency
    known = {*inspect.signature(function).parameters, *_SQLALCHEMYS}
    for name in query:
        if name not in known:
            raise UnknownURL(f"the URL parameter {name!r} is not one that {driver} knows")


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

"""URLs of PostgreSQL as libpq and `psql` take them, read for asyncpg and psycopg.

asyncpg has parameters of its own and knows few of libpq's by name. What it can do is translated;
what it cannot do is refused with the way out, since its own error would come as a `TypeError` or
as a server that cannot be reached.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode

from sqlalchemy.engine import URL

from memalchemy.dialects.urls import (
    Target,
    display,
    flag,
    is_installed,
    refuse_unknown_parameters,
    require_driver,
    seconds,
    single_value,
)
from memalchemy.errors import UnknownURL

_log = logging.getLogger(__name__)

_SSL_MODES = {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

_SSL_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_SSL_SETTINGS = (
    "sslnegotiation",
    "sslpassword",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
)

_PSYCOPG = (
    "leave it out or, if it is one of libpq's, use psycopg: postgresql+psycopg:// "
    "(pip install 'memalchemy[psycopg]')"
)

_NUMBERS = ("statement_cache_size", "max_cached_statement_lifetime", "max_cacheable_statement_size")
_SECONDS = ("timeout", "command_timeout")


def read_postgresql_url(dialect: str, scheme: str, url: URL, driver: str) -> Target:
    """Read *url* for *driver*, or for the driver that is installed if it names none.

    *dialect* is the name of memalchemy's dialect, *scheme* that of SQLAlchemy's.

    Raises:
        UnknownURL: a parameter that the driver does not know, or a value that it does not take.
        DriverMissing: the driver is not installed.
    """
    driver = driver or (
        "psycopg" if not is_installed("asyncpg") and is_installed("psycopg") else "asyncpg"
    )
    driver = "psycopg" if driver == "psycopg_async" else driver  # SQLAlchemy's name for it
    if driver not in ("asyncpg", "psycopg"):
        raise UnknownURL(
            f"memalchemy uses postgresql+asyncpg or postgresql+psycopg, not {driver!r}"
        )
    require_driver(driver, "postgres" if driver == "asyncpg" else "psycopg")
    url = _with_socket_in_query(url.set(drivername=f"{scheme}+{driver}"))
    query = {name: _join_values(name, value) for name, value in url.query.items()}
    pgbouncer = flag("pgbouncer", query.pop("pgbouncer", "no"))
    _read_ssl(query)
    if driver == "asyncpg":
        connect_args = _read_for_asyncpg(query)
    else:
        connect_args = _read_for_psycopg(query)
    url = url.set(query=query)
    return Target(dialect, url, display(url), connect_args=connect_args, pgbouncer=pgbouncer)


def _with_socket_in_query(url: URL) -> URL:
    """Return *url* with the directory of a socket as a parameter, where it is the host."""
    if not url.host or not (directory := unquote(url.host)).startswith("/"):
        return url
    port = {"port": str(url.port)} if url.port else {}
    return url.set(host=None, port=None).update_query_dict({"host": directory} | port)


def _join_values(name: str, value: str | tuple[str, ...]) -> Any:
    """Return the value of a parameter; several hosts and their ports stay as they are."""
    return value if name in ("host", "port") else single_value(name, value)


def _read_ssl(query: dict[str, Any]) -> None:
    """Let ``sslmode`` say what ``ssl``, of JDBC and of asyncpg, says as well."""
    said = query.pop("ssl", None)
    if said is not None:
        if said not in _SSL_MODES:
            said = "require" if flag("ssl", said) else "disable"
        query.setdefault("sslmode", said)
    mode = query.get("sslmode", "prefer")
    if mode not in _SSL_MODES:
        raise UnknownURL(f"sslmode={mode!r} is none of {', '.join(sorted(_SSL_MODES))}")
    for name in _SSL_FILES:
        path = query.get(name)
        if path and path != "system" and not os.access(path, os.R_OK):
            raise UnknownURL(f"{name} in the URL names no file that can be read: {path!r}")


def _read_for_asyncpg(query: dict[str, Any]) -> dict[str, Any]:
    """Take out of *query* what asyncpg does not know by that name, and return its arguments."""
    connect_args: dict[str, Any] = {}
    mode = query.pop("sslmode", None)
    if query.get("sslrootcert") == "system":
        # libpq checks the host's name then, whatever else the URL says.
        del query["sslrootcert"]
        connect_args["ssl"] = _system_context(query)
    elif mode is not None:
        query["ssl"] = mode
    # asyncpg takes these in a DSN alone.
    in_dsn = {k: query.pop(k) for k in (*_SSL_FILES, *_SSL_SETTINGS) if query.get(k)}
    if in_dsn and "ssl" not in connect_args:
        connect_args["dsn"] = f"postgresql://?{urlencode(in_dsn)}"
    if query.pop("channel_binding", None) == "require":  # Neon appends it to its URLs
        _log.warning(
            "channel_binding=require is not enforced: asyncpg has no channel binding. The driver "
            "psycopg has it: postgresql+psycopg://"
        )
    if query.get("gssencmode") in ("disable", "prefer"):
        del query["gssencmode"]
    if "connect_timeout" in query:
        connect_args["timeout"] = seconds("connect_timeout", query.pop("connect_timeout"))
    for name in _SECONDS:
        if name in query:
            connect_args[name] = seconds(name, query.pop(name))
    for name in _NUMBERS:
        if name in query:
            connect_args[name] = _parse_number(name, query.pop(name))
    fallback = query.pop("fallback_application_name", None)
    if fallback is not None:
        query.setdefault("application_name", fallback)
    settings = {k: query.pop(k) for k in ("application_name", "options") if k in query}
    if settings:
        connect_args["server_settings"] = settings
    refuse_unknown_parameters(query, "asyncpg", "connect", otherwise=_PSYCOPG)
    return connect_args


def _system_context(query: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the context of a client that trusts what the system trusts."""
    context = ssl.create_default_context()
    if "sslcert" in query:
        context.load_cert_chain(query["sslcert"], query.get("sslkey"), query.get("sslpassword"))
    return context


def _read_for_psycopg(query: dict[str, Any]) -> dict[str, Any]:
    """Take out of *query* what a statement timeout joins, and check the rest as libpq would."""
    from psycopg import pq

    connect_args: dict[str, Any] = {}
    if "options" in query:
        connect_args["options"] = query.pop("options")
    if "connect_timeout" in query:
        timeout = seconds("connect_timeout", query.pop("connect_timeout"))
        connect_args["connect_timeout"] = max(1, round(timeout))
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    for name in query:
        if name not in known:
            raise UnknownURL(
                f"the URL parameter {name!r} is not one that psycopg's libpq knows; give what is "
                "psycopg's own as Database(url, connect_args={…})"
            )
    return connect_args


def _parse_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnknownURL(f"{name} in the URL must be a whole number") from None

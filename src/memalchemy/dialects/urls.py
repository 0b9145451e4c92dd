"""Database URLs: what reading one yields, and the checks that dialects share.

Each dialect reads its own URLs (`Dialect.read_url`); `memalchemy.dialects.parse_url` finds the
dialect.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from sqlalchemy.engine import URL, make_url

from memalchemy.errors import DriverMissing, UnknownURL

EXPECTED = (
    "use sqlite:///path/to/file.db or the path itself, sqlite:// (in memory), "
    "postgresql://user@host/database or oracle://user@host:1521/service "
    "(oracle://user@alias for a name of tnsnames.ora)"
)

ORACLE_OPTIONS = (
    "config_dir",
    "wallet_location",
    "wallet_password",
    "ssl_server_dn_match",
    "ssl_server_cert_dn",
)
"""Arguments of python-oracledb's ``connect`` that `Database` takes by name. They stand here so that
other databases refuse them without importing Oracle's dialect.
"""


def refuse_misplaced(given: Mapping[str, Any], taken: Sequence[str]) -> None:
    """Refuse options of another database's driver than that which takes those in *taken*."""
    misplaced = [name for name in ORACLE_OPTIONS if name in given and name not in taken]
    if misplaced:
        raise TypeError(f"{', '.join(misplaced)}: for oracle:// URLs only")


_SQLALCHEMY_PARAMETERS = (
    "prepared_statement_cache_size",
    "prepared_statement_name_func",
    "async_fallback",
)


@dataclass(frozen=True)
class Target:
    """A database to connect to, as a dialect has read it from a URL.

    Attributes:
        dialect: the name of the dialect.
        url: the URL for SQLAlchemy's engines.
        display: the URL without secrets, for messages.
        path: the file of a database that is one; ``None`` for a server, or in memory.
        read_only: the URL asks that nothing be written.
        pgbouncer: the URL says that it leads to PgBouncer in transaction mode.
        connect_args: arguments of the driver's ``connect`` that the URL does not carry; there may
            be secrets among them.
    """

    dialect: str
    url: URL
    display: str
    path: str | None = None
    connect_args: dict[str, Any] = field(default_factory=dict, repr=False)
    read_only: bool = False
    pgbouncer: bool = False


def file_url(text: str) -> URL | None:
    """Return the URL of the SQLite file that *text* names without a scheme; ``None`` if none.

    ``sqlite:PATH``, and what can only be a path: it ends in ``.db``, ``.sqlite`` or ``.sqlite3``,
    contains a ``/`` or a backslash, or is a file that is there. ``?mode=ro`` may follow. What has
    an ``@`` or a colon may be a server's address with a password, and is none.
    """
    path, question, mode = text.partition("?mode=")
    query = {"mode": mode} if question else {}
    if path == "sqlite::memory:":
        return URL.create("sqlite", query=query)
    given, named = path, path.removeprefix("sqlite:")
    is_named = named != given
    drive = re.match(r"[A-Za-z]:(?=[\\/])", named)
    rest = named[drive.end() :] if drive else named
    if not rest.strip() or rest.startswith("//") or re.search(r"[@:?#\x00-\x1f]", rest):
        return None
    if re.match(r"(postgres(ql)?|sqlite|oracle)(\+\w+)?//", rest):  # a URL without its colon
        return None
    is_path = is_named or drive or re.search(r"[\\/]|\.(db|sqlite3?)$", rest, re.IGNORECASE)
    if not is_path and not os.path.isfile(named):
        return None
    return URL.create("sqlite", database=named, query=query)


def sqlite_url(text: str) -> URL | None:
    """Read the URL of a SQLite file; ``None`` if *text* is the URL of something else.

    Its path is percent-decoded, as in any URL. SQLAlchemy does that from 2.1 on, so before 2.1 the
    same text was the name of another file.

    Raises:
        UnknownURL: the path does not name one file.
    """
    found = re.fullmatch(r"(sqlite(?:\+\w+)?):///([^?]*)(\?.*)?", text, re.DOTALL)
    if found is None:
        return None
    scheme, written, query = found[1], found[2], found[3]
    if query is not None and not re.fullmatch(r"\?(\w+=[^&]*&?)+", query):
        raise UnknownURL(
            "the URL of the SQLite file has a ? in its path: write %3F for one of the file's name"
        )
    if re.search(r"%(?![0-9A-Fa-f]{2})", written):
        raise UnknownURL(
            "the URL of the SQLite file has a % that begins no percent-encoded character: write "
            "%25 for one of the file's name"
        )
    try:
        path = unquote(written, errors="strict")
    except UnicodeDecodeError:
        raise UnknownURL(
            "the URL of the SQLite file has percent-encoded bytes that are no UTF-8: write %25 for "
            "a % of the file's name"
        ) from None
    if "\0" in path:
        raise UnknownURL("the name of a SQLite file has no NUL character")
    if path != written and os.path.exists(written) and not os.path.exists(path):
        raise UnknownURL(
            "the URL of the SQLite file is percent-encoded, and there is a file of exactly the "
            "name that is written in it, which SQLAlchemy before 2.1 opened: write %25 for each % "
            "of its name, or rename it"
        )
    return make_url(f"{scheme}://{query or ''}").set(database=path)


def url_of_hosts(text: str) -> URL | None:
    """Read a URL that lists several hosts, ``scheme://user@first:5432,second:5432/database``.

    Return ``None`` if *text* lists one. SQLAlchemy takes several as parameters: ``host`` and
    ``port``, each a list with commas.
    """
    found = re.fullmatch(r"([\w+]+://)([^/?#]*)(.*)", text, re.DOTALL)
    if found is None:
        return None
    user, at, hosts = found[2].rpartition("@")
    if "," not in hosts:
        return None
    split = [
        re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]*)(?::(\d+))?", one) for one in hosts.split(",")
    ]
    if not all(split):
        raise UnknownURL("a URL of several hosts lists them as host:port,host:port")
    names = [unquote(one[1] or one[3] or "") for one in split if one]
    ports = [one[2] or one[4] or "5432" for one in split if one]
    if not all(names):
        raise UnknownURL("a URL of several hosts names each of them")
    url = make_url(f"{found[1]}{user}{at}{found[3]}")
    return url.update_query_dict({"host": ",".join(names), "port": ",".join(ports)})


def display_path(scheme: str, path: str | None) -> str:
    """Return the URL of a SQLite file as `sqlite_url` reads it."""
    if path is None:
        return f"{scheme}://"
    return f"{scheme}:///" + path.replace("%", "%25").replace("?", "%3F")


def display(url: URL) -> str:
    """Return *url* as text, without anything that may be secret."""
    query = {k: "***" if is_secret(k) else v for k, v in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def is_secret(parameter: str) -> bool:
    """Return whether the value of a URL's parameter may be secret, by the parameter's name."""
    return any(word in parameter.lower() for word in ("pass", "secret", "token", "key"))


def single_value(name: str, value: str | tuple[str, ...]) -> str:
    """Return the value of a parameter that a URL may give only once."""
    if not isinstance(value, str):
        raise UnknownURL(f"the URL gives the parameter {name!r} twice")
    return value


def flag(name: str, text: str) -> bool:
    """Return the value of a parameter that is true or false."""
    words = {"true": True, "on": True, "yes": True, "1": True}
    words |= {"false": False, "off": False, "no": False, "0": False}
    if text.lower() not in words:
        raise UnknownURL(f"{name} in the URL must be true or false")
    return words[text.lower()]


def seconds(name: str, text: str) -> float:
    """Return the value of a parameter that is a number of seconds."""
    try:
        return float(text)
    except ValueError:
        raise UnknownURL(f"{name} in the URL must be a number of seconds") from None


def refuse_unknown_parameters(
    query: Mapping[str, object], driver: str, connect: str, otherwise: str = "leave it out"
) -> None:
    """Refuse parameters that would end as a TypeError deep inside the driver.

    *otherwise* says what to do.
    """
    function = getattr(importlib.import_module(driver), connect)  # an optional dependency
    known = {*inspect.signature(function).parameters, *_SQLALCHEMY_PARAMETERS}
    for name in query:
        if name not in known:
            raise UnknownURL(
                f"the URL parameter {name!r} is not one that {driver} knows: {otherwise}"
            )


def is_installed(module: str) -> bool:
    """Return whether a driver is installed, without importing it."""
    return importlib.util.find_spec(module) is not None


def require_driver(module: str, extra: str) -> None:
    """Raise `DriverMissing` unless a driver is installed; *extra* is the one that brings it."""
    if not is_installed(module):
        raise DriverMissing(module, extra)

"""Registry of checkpointers by name: ``get_checkpointer("sqlite:agent.db")``, for configuration.

A name of somebody else's comes from `register_checkpointer`, or from an installed package's entry
point in the group ``memalchemy.checkpointers``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from sqlalchemy.engine import URL

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import State
from memalchemy.database import Database
from memalchemy.dialects.urls import ORACLE_OPTIONS, file_url

if TYPE_CHECKING:
    from memalchemy.http.client import HTTPCheckpointer

GROUP = "memalchemy.checkpointers"
FILE = "memalchemy.db"
"""The SQLite file in the directory of ``file:DIRECTORY``."""

Factory = Callable[..., Any]
"""Called with the keyword arguments, and with ``config_hint=`` if there is text after the colon."""


class OwningCheckpointer(Checkpointer[State]):
    """Checkpointer with a `Database` of its own, which it closes.

    ``async with`` it, or `close` it; a later use opens the database anew.
    """

    async def __aenter__(self) -> Self:
        await self.db.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what was begun, and close the database's connections."""
        await self.db.close()


@overload
def get_checkpointer(
    checkpointer: str, *, state_type: None = None, **options: Any
) -> OwningCheckpointer[dict[str, Any]] | HTTPCheckpointer[dict[str, Any]]: ...
@overload
def get_checkpointer(
    checkpointer: str,
    *,
    state_type: type[State] | Callable[[dict[str, Any]], State],
    **options: Any,
) -> OwningCheckpointer[State] | HTTPCheckpointer[State]: ...
def get_checkpointer(checkpointer: str, **options: Any) -> Any:
    """Return the checkpointer that a text names: ``provider``, ``provider:hint``, or a URL.

    - ``memory``: in this process, gone when it is closed.
    - ``sqlite:PATH``: a SQLite file; ``file:DIRECTORY``: one in that directory, which is created.
    - ``postgresql:DATABASE``, ``oracle:HOST:PORT/SERVICE`` (or an alias), with *host*, *port*,
      *user* and *password*; or a URL after the colon. Without a hint, *database* or *dsn* (a URL)
      for PostgreSQL, *dsn* or *service_name* (with *host*) for Oracle.
    - ``http:BASE_URL``: `HTTPCheckpointer`, with its arguments.
    - The path of a SQLite file, as `Database` takes it: ``agent.db``, ``./state/agent.db``.
    - A URL: ``sqlite:///agent.db``, ``postgresql://…``, ``oracle://…``, ``http://…``, ``https://…``.

    *options* are those of `Checkpointer` and of `Database`, those for a wallet of Oracle included,
    and for a server SQLAlchemy's own for an engine; any other is an error. Construction does no
    I/O, except that it creates the directory. The result owns its database: ``async with``, or
    ``close()``. The type of the result is that of the providers above; a registered provider
    returns what its factory does.

    Raises:
        ValueError: there is no such provider (the message lists them), or the hint makes no sense
            to it.
        TypeError: an option that the provider does not have.
    """
    provider, colon, hint = checkpointer.partition(":")
    if hint.startswith("//"):
        provider, hint = provider.partition("+")[0], checkpointer
    if provider not in list_checkpointers() and provider not in _ALIASES:
        file = file_url(checkpointer)
        if file is not None:
            return _open_checkpointer(file, options)
    factory = _find_factory(provider)
    if colon and not hint:
        raise ValueError(f"there is nothing after the colon in {checkpointer!r}")
    return factory(**options, **({"config_hint": hint} if hint else {}))


def register_checkpointer(name: str, factory: Factory) -> None:
    """Let `get_checkpointer` find *factory* under *name*, in place of any earlier one.

    It is called with the keyword arguments and, of ``name:hint``, with ``config_hint="hint"``.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name):
        raise ValueError(f"a provider's name is letters, digits, - _ and ., not {name!r}")
    if not callable(factory):
        raise TypeError("a factory is a function that returns a checkpointer")
    _registered[name] = factory


def list_checkpointers() -> list[str]:
    """Return the names that `get_checkpointer` knows, those of installed packages last."""
    names = [name for name in _BUILT_IN if name not in _ALIASES]
    return list(dict.fromkeys([*names, *_registered, *_installed_providers()]))


def _find_factory(provider: str) -> Factory:
    factory = _registered.get(provider) or _BUILT_IN.get(provider)
    if factory is not None:
        return factory
    entry = _installed_providers().get(provider)
    if entry is not None:
        loaded: Factory = entry.load()
        return loaded
    raise ValueError(
        f"Unknown checkpointer provider: {provider!r}. Available providers: "
        f"{list_checkpointers()}. {_ALTERNATIVES.get(provider, _REGISTER)}"
    )


def _installed_providers() -> dict[str, metadata.EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


# --- The providers -------------------------------------------------------------------------------


def _open_memory(config_hint: str | None = None, **options: Any) -> OwningCheckpointer[Any]:
    if config_hint is not None:
        raise ValueError("memory takes no hint; a file is sqlite:PATH or file:DIRECTORY")
    return _open_checkpointer("sqlite://", options)


def _open_file(config_hint: str | None = None, **options: Any) -> OwningCheckpointer[Any]:
    directory = _required_option(config_hint, options, "base_dir", "file:DIRECTORY")
    if directory.startswith("file://"):
        raise ValueError("file: takes a directory, as in file:checkpoints or file:/var/lib/agent")
    Path(directory).mkdir(parents=True, exist_ok=True)
    url = URL.create("sqlite", database=str(Path(directory) / FILE))
    return _open_checkpointer(url, options)


def _open_sqlite(config_hint: str | None = None, **options: Any) -> OwningCheckpointer[Any]:
    path = _required_option(config_hint, options, "path", "sqlite:PATH")
    if re.match(r"sqlite(\+\w+)?://", path):
        return _open_checkpointer(path, options)
    if path == ":memory:":
        return _open_checkpointer("sqlite://", options)
    return _open_checkpointer(URL.create("sqlite", database=path), options)


def _open_postgresql(config_hint: str | None = None, **options: Any) -> OwningCheckpointer[Any]:
    if config_hint is None and "database" not in options and "dsn" in options:
        config_hint = str(options.pop("dsn"))
        if "://" not in config_hint:
            raise ValueError("write dsn= as a URL: postgresql://user:password@host:5432/database")
    named = _required_option(config_hint, options, "database", "postgresql:DATABASE")
    if "://" in named:
        return _open_checkpointer(named, options)
    return _open_checkpointer(
        URL.create("postgresql", database=named, **_server_parts(options)), options
    )


def _open_oracle(config_hint: str | None = None, **options: Any) -> OwningCheckpointer[Any]:
    if config_hint is None and "dsn" not in options and "host" in options:
        config_hint = options.pop("service_name", None)  # the name of a service on that host
    named = _required_option(config_hint, options, "dsn", "oracle:HOST:PORT/SERVICE")
    if "://" in named:
        return _open_checkpointer(named, options)
    server = _server_parts(options)
    easy = re.fullmatch(r"(?P<host>[^:/]+)(:(?P<port>\d+))?/(?P<service>.+)", named)
    if easy is None:
        if "host" in server:  # then the hint is the name of a service there
            service = {"service_name": named}
            return _open_checkpointer(URL.create("oracle", query=service, **server), options)
        return _open_checkpointer(URL.create("oracle", **(server | {"host": named})), options)
    if "host" in server or "port" in server:
        raise ValueError("the host is given twice: in the hint, and as host= or port=")
    server |= {"host": easy["host"], "port": int(easy["port"] or 1521)}
    return _open_checkpointer(
        URL.create("oracle", query={"service_name": easy["service"]}, **server), options
    )


def _open_http(config_hint: str | None = None, **options: Any) -> Any:
    from memalchemy.http.client import HTTPCheckpointer

    url = _required_option(config_hint, options, "base_url", "http:BASE_URL")
    if "://" not in url:
        url = f"http://{url}"
    return HTTPCheckpointer(url, **_check_options(HTTPCheckpointer, options))


def _open_checkpointer(url: str | URL, options: dict[str, Any]) -> OwningCheckpointer[Any]:
    """Return a checkpointer on a database of its own; each of the two takes its *options*."""
    for_checkpointer = {k: v for k, v in options.items() if k in _option_names(Checkpointer)}
    rest = {k: v for k, v in options.items() if k not in for_checkpointer}
    unknown = rest.keys() - _option_names(Database) - _ENGINE_OPTIONS - {*ORACLE_OPTIONS}
    if unknown:
        raise TypeError(
            f"{', '.join(sorted(unknown))}: no option of Checkpointer, of Database or of an engine"
        )
    made: OwningCheckpointer[Any] = OwningCheckpointer(Database(url, **rest), **for_checkpointer)
    return made


def _required_option(hint: str | None, options: dict[str, Any], name: str, form: str) -> str:
    """Return the hint, or the option that stands in for it."""
    given = options.pop(name, None)
    if hint is not None and given is not None:
        raise ValueError(f"{name}= is given, and so is a hint; give one of them")
    found = hint if hint is not None else given
    if not found:
        raise ValueError(f"say what is meant, as {form!r}, or give {name}=")
    return str(found)


def _server_parts(options: dict[str, Any]) -> dict[str, Any]:
    """Take the parts of a URL out of *options*: host, port, user and password."""
    parts = {
        "host": options.pop("host", None),
        "port": options.pop("port", None),
        "username": options.pop("user", None),
        "password": options.pop("password", None),
    }
    return {name: value for name, value in parts.items() if value is not None}


def _check_options(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    unknown = options.keys() - _option_names(kind)
    if unknown:
        raise TypeError(f"{', '.join(sorted(unknown))}: no option of {kind.__name__}")
    return options


def _option_names(kind: type) -> set[str]:
    """Return the keyword arguments of a class, without its database or URL."""
    parameters = inspect.signature(kind).parameters.values()
    named = {p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD}
    return named - {"db", "url", "base_url"}


_ENGINE_OPTIONS = {
    "connect_args",
    "creator",
    "echo",
    "echo_pool",
    "execution_options",
    "hide_parameters",
    "logging_name",
    "max_overflow",
    "pool_logging_name",
    "pool_pre_ping",
    "pool_recycle",
    "pool_size",
    "pool_timeout",
    "pool_use_lifo",
    "poolclass",
    "query_cache_size",
}
"""Options of `sqlalchemy.create_async_engine`, which would refuse others on first use only."""

_BUILT_IN: dict[str, Factory] = {
    "memory": _open_memory,
    "file": _open_file,
    "http": _open_http,
    "https": _open_http,
    "sqlite": _open_sqlite,
    "postgresql": _open_postgresql,
    "postgres": _open_postgresql,
    "oracle": _open_oracle,
}
_ALIASES = ("https", "postgres")
_registered: dict[str, Factory] = {}

_REGISTER = (
    "Register one of your own: register_checkpointer(name, factory), or an entry point in the "
    f"group {GROUP}."
)
_ALTERNATIVES = {
    "redis": "memalchemy is SQL: for states that expire give ttl= to any provider, for speed use "
    f"sqlite:PATH or postgresql:DATABASE. {_REGISTER}",
    "opensearch": "memalchemy is SQL: every provider finds words with search(), and fields with "
    f"query_by_metadata(). {_REGISTER}",
    "mysql": f"memalchemy works on SQLite, PostgreSQL and Oracle: postgresql:DATABASE. {_REGISTER}",
    "oci": "memalchemy is SQL: oracle:HOST:PORT/SERVICE keeps states in an Oracle database, and "
    f"export_files() writes one JSON file per checkpoint, for a bucket. {_REGISTER}",
    "s3": "memalchemy is SQL: postgresql:DATABASE keeps states, and export_files() writes one JSON "
    f"file per checkpoint, for a bucket. {_REGISTER}",
}

"""A checkpointer by its name: ``get_checkpointer("sqlite:agent.db")``, for configuration files.

Knows what each name means and nothing of how it works. A name of somebody else's comes from
`register_checkpointer`, or from an installed package's entry point in the group
``memalchemy.checkpointers``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from sqlalchemy.engine import URL

from memalchemy.checkpoints import Checkpointer
from memalchemy.database import Database

GROUP = "memalchemy.checkpointers"
FILE = "memalchemy.db"
"""The SQLite file in the directory of ``file:DIRECTORY``."""

Factory = Callable[..., Any]
"""Called with the keyword arguments, and with ``config_hint=`` if there is text after the colon."""


class OwningCheckpointer(Checkpointer):
    """A `Checkpointer` with a `Database` of its own, which it closes.

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


def get_checkpointer(checkpointer: str, **options: Any) -> Any:
    """The checkpointer that a text names: ``provider`` or ``provider:hint``, or a URL.

    - ``memory``: in this process, gone when it is closed.
    - ``sqlite:PATH``: a SQLite file; ``file:DIRECTORY``: one in that directory, which is made.
    - ``postgresql:DATABASE``, ``oracle:HOST:PORT/SERVICE`` (or an alias), with *host*, *port*,
      *user* and *password*; or a URL after the colon.
    - ``http:BASE_URL``: `HTTPCheckpointer`, with its arguments.
    - A URL: ``sqlite:///agent.db``, ``postgresql://…``, ``oracle://…``, ``http://…``, ``https://…``.

    *options* are those of `Checkpointer` and of `Database`, and for a server SQLAlchemy's own for
    an engine; whatever is none of them is an error. Construction does no I/O, but for making the
    directory. The result owns its database: ``async with``, or ``close()``.

    Raises:
        ValueError: there is no such provider (the message lists those there are), or the hint makes
            no sense to it.
        TypeError: an option that the provider does not have.
    """
    provider, colon, hint = checkpointer.partition(":")
    if hint.startswith("//"):
        provider, hint = provider.partition("+")[0], checkpointer
    factory = _factory(provider)
    if colon and not hint:
        raise ValueError(f"there is nothing after the colon in {checkpointer!r}")
    return factory(**options, **({"config_hint": hint} if hint else {}))


def register_checkpointer(name: str, factory: Factory) -> None:
    """Let `get_checkpointer` find *factory* under *name*, in place of any that is there.

    It is called with the keyword arguments and, of ``name:hint``, with ``config_hint="hint"``.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name):
        raise ValueError(f"a provider's name is letters, digits, - _ and ., not {name!r}")
    if not callable(factory):
        raise TypeError("a factory is a function that returns a checkpointer")
    _registered[name] = factory


def list_checkpointers() -> list[str]:
    """The names that `get_checkpointer` knows, those of installed packages last."""
    names = [name for name in _BUILT_IN if name not in _SAME]
    return list(dict.fromkeys([*names, *_registered, *_entry_points()]))


def _factory(provider: str) -> Factory:
    factory = _registered.get(provider) or _BUILT_IN.get(provider)
    if factory is not None:
        return factory
    entry = _entry_points().get(provider)
    if entry is not None:
        loaded: Factory = entry.load()
        return loaded
    raise ValueError(
        f"Unknown checkpointer provider: {provider!r}. Available providers: "
        f"{list_checkpointers()}. {_INSTEAD.get(provider, _OWN)}"
    )


def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


# --- The providers -------------------------------------------------------------------------------


def _memory(config_hint: str | None = None, **options: Any) -> OwningCheckpointer:
    if config_hint is not None:
        raise ValueError("memory takes no hint; a file is sqlite:PATH or file:DIRECTORY")
    return _on("sqlite://", options)


def _file(config_hint: str | None = None, **options: Any) -> OwningCheckpointer:
    directory = _needed(config_hint, options, "base_dir", "file:DIRECTORY")
    if directory.startswith("file://"):
        raise ValueError("file: takes a directory, as in file:checkpoints or file:/var/lib/agent")
    Path(directory).mkdir(parents=True, exist_ok=True)
    url = URL.create("sqlite", database=str(Path(directory) / FILE))
    return _on(url, options)


def _sqlite(config_hint: str | None = None, **options: Any) -> OwningCheckpointer:
    path = _needed(config_hint, options, "path", "sqlite:PATH")
    if re.match(r"sqlite(\+\w+)?://", path):
        return _on(path, options)
    if path == ":memory:":
        return _on("sqlite://", options)
    return _on(URL.create("sqlite", database=path), options)


def _postgresql(config_hint: str | None = None, **options: Any) -> OwningCheckpointer:
    named = _needed(config_hint, options, "database", "postgresql:DATABASE")
    if "://" in named:
        return _on(named, options)
    return _on(URL.create("postgresql", database=named, **_server(options)), options)


def _oracle(config_hint: str | None = None, **options: Any) -> OwningCheckpointer:
    named = _needed(config_hint, options, "dsn", "oracle:HOST:PORT/SERVICE")
    if "://" in named:
        return _on(named, options)
    server = _server(options)
    easy = re.fullmatch(r"(?P<host>[^:/]+)(:(?P<port>\d+))?/(?P<service>.+)", named)
    if easy is None:
        if "host" in server:  # then the hint is the name of a service there
            service = {"service_name": named}
            return _on(URL.create("oracle", query=service, **server), options)
        return _on(URL.create("oracle", **(server | {"host": named})), options)
    if "host" in server or "port" in server:
        raise ValueError("the host is given twice: in the hint, and as host= or port=")
    server |= {"host": easy["host"], "port": int(easy["port"] or 1521)}
    return _on(URL.create("oracle", query={"service_name": easy["service"]}, **server), options)


def _http(config_hint: str | None = None, **options: Any) -> Any:
    from memalchemy.http.client import HTTPCheckpointer

    url = _needed(config_hint, options, "base_url", "http:BASE_URL")
    if "://" not in url:
        url = f"http://{url}"
    return HTTPCheckpointer(url, **_known(HTTPCheckpointer, options))


def _on(url: str | URL, options: dict[str, Any]) -> OwningCheckpointer:
    """A checkpointer on a database of its own, *options* shared out between the two."""
    for_checkpointer = {k: v for k, v in options.items() if k in _names(Checkpointer)}
    rest = {k: v for k, v in options.items() if k not in for_checkpointer}
    unknown = rest.keys() - _names(Database) - _ENGINE_OPTIONS
    if unknown:
        raise TypeError(
            f"{', '.join(sorted(unknown))}: no option of Checkpointer, of Database or of an engine"
        )
    return OwningCheckpointer(Database(url, **rest), **for_checkpointer)


def _needed(hint: str | None, options: dict[str, Any], name: str, form: str) -> str:
    """The hint, or the option that says the same."""
    given = options.pop(name, None)
    if hint is not None and given is not None:
        raise ValueError(f"{name}= is given, and so is a hint; give one of them")
    found = hint if hint is not None else given
    if not found:
        raise ValueError(f"say what is meant, as {form!r}, or give {name}=")
    return str(found)


def _server(options: dict[str, Any]) -> dict[str, Any]:
    """Where a server is and who asks, taken out of *options*."""
    parts = {
        "host": options.pop("host", None),
        "port": options.pop("port", None),
        "username": options.pop("user", None),
        "password": options.pop("password", None),
    }
    return {name: value for name, value in parts.items() if value is not None}


def _known(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    unknown = options.keys() - _names(kind)
    if unknown:
        raise TypeError(f"{', '.join(sorted(unknown))}: no option of {kind.__name__}")
    return options


def _names(kind: type) -> set[str]:
    """The keyword arguments of a class, without the one that says where it works."""
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
"""What `sqlalchemy.create_async_engine` takes; it would complain on first use only."""

_BUILT_IN: dict[str, Factory] = {
    "memory": _memory,
    "file": _file,
    "http": _http,
    "https": _http,
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "postgres": _postgresql,
    "oracle": _oracle,
}
_SAME = ("https", "postgres")
_registered: dict[str, Factory] = {}

_OWN = (
    "Register one of your own: register_checkpointer(name, factory), or an entry point in the "
    f"group {GROUP}."
)
_INSTEAD = {
    "redis": "memalchemy is SQL: for states that expire give ttl= to any provider, for speed use "
    f"sqlite:PATH or postgresql:DATABASE. {_OWN}",
    "opensearch": "memalchemy is SQL: every provider finds words with search(), and fields with "
    f"query_by_metadata(). {_OWN}",
    "mysql": f"memalchemy works on SQLite, PostgreSQL and Oracle: postgresql:DATABASE. {_OWN}",
    "oci": "memalchemy is SQL: oracle:HOST:PORT/SERVICE keeps states in an Oracle database, and "
    f"export_files() writes one JSON file per checkpoint, for a bucket. {_OWN}",
    "s3": "memalchemy is SQL: postgresql:DATABASE keeps states, and export_files() writes one JSON "
    f"file per checkpoint, for a bucket. {_OWN}",
}

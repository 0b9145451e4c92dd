"""The known dialects: memalchemy's own, those of installed packages, and those registered here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from os import PathLike, fspath
from typing import Any, cast

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from memalchemy._entry_points import entry_points, load_entry_point
from memalchemy.column_types import ColumnTypes
from memalchemy.dialects.base import Dialect
from memalchemy.dialects.urls import EXPECTED, Target, file_url, sqlite_url, url_of_hosts
from memalchemy.errors import MemalchemyError, UnknownURL

ENTRY_POINTS = "memalchemy.dialects"
"""The group of entry points: each is called as the URLs' scheme, and names a class."""

_BUILT_IN = {
    "sqlite": "memalchemy.dialects.sqlite:SQLite",
    "postgresql": "memalchemy.dialects.postgresql.dialect:PostgreSQL",
    "oracle": "memalchemy.dialects.oracle:Oracle",
}

_ALIASES = {"postgres": "postgresql"}
"""Schemes that providers write in URLs, and the dialects that they mean."""


class Dialects(Mapping[str, Dialect]):
    """Dialects by name.

    One is imported when it is asked for, with the driver's SQLAlchemy dialect; packages are
    searched for a name only if memalchemy has not got it itself.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, Dialect] = {}
        self._standing_on: dict[str, tuple[Dialect, ...]] = {}

    def __getitem__(self, name: str) -> Dialect:
        """Return the dialect called *name*.

        Raises:
            KeyError: there is none.
            MemalchemyError: the package that has it cannot be used; the message names it.
        """
        if name not in self._loaded:
            self._loaded.setdefault(name, self._load(name))
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*_BUILT_IN, *self._loaded, *_installed_names()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in _BUILT_IN or name in _installed_names()

    def add(self, dialect: Dialect) -> None:
        """Add *dialect*, in place of any other of its name."""
        self._loaded[dialect.name] = dialect
        self._standing_on.clear()

    def remove(self, name: str) -> None:
        """Remove the dialect called *name*; one of memalchemy's or a package's is loaded anew."""
        del self._loaded[name]
        self._standing_on.clear()

    def on(self, sqlalchemy_name: str) -> tuple[Dialect, ...]:
        """Return the dialects for SQLAlchemy's dialect of that name.

        The one that has the same name; or else all that stand on it, which store columns alike.
        """
        if sqlalchemy_name not in self._standing_on:
            self._standing_on[sqlalchemy_name] = self._find_on(sqlalchemy_name)
        return self._standing_on[sqlalchemy_name]

    def _find_on(self, sqlalchemy_name: str) -> tuple[Dialect, ...]:
        if sqlalchemy_name in self:
            return (self[sqlalchemy_name],)
        # Memalchemy's own stand on SQLAlchemy's dialects of the same name.
        others = [self[name] for name in self if name not in _BUILT_IN]
        found = tuple(one for one in others if one.sqlalchemy_name == sqlalchemy_name)
        if len({_storage_of_columns(one) for one in found}) > 1:
            raise MemalchemyError(
                f"the dialects {_join_names(found)} stand on SQLAlchemy's "
                f"{sqlalchemy_name!r} and store "
                "columns in different ways: use one of them only"
            )
        return found

    def _load(self, name: str) -> Dialect:
        if name in _BUILT_IN:
            module, _, class_name = _BUILT_IN[name].partition(":")
            made: Dialect = getattr(import_module(module), class_name)()
            return made
        loaded = load_entry_point(ENTRY_POINTS, name, "dialect", _problem_of_dialect)
        return cast(Dialect, loaded())


DIALECTS = Dialects()


def register_dialect(dialect: type[Dialect], *, replace: bool = False) -> None:
    """Make *dialect* known under its `name`, for tests and for applications without a package.

    Raises:
        TypeError: it is not a subclass of `Dialect` with a name and the four parts.
        ValueError: there is another of that name, and *replace* is not set.
    """
    if problem := _problem_of_dialect(dialect, getattr(dialect, "name", None)):
        raise TypeError(f"{dialect!r} {problem}")
    name = dialect.name
    if not replace and name in DIALECTS and type(DIALECTS[name]) is not dialect:
        raise ValueError(f"there is a dialect {name!r} already: {type(DIALECTS[name])!r}")
    DIALECTS.add(dialect())


def dialect_of(bind: Any) -> Dialect:
    """Return the dialect of an engine or connection.

    Raises:
        UnknownURL: memalchemy has none for it.
    """
    name: str = bind.dialect.name
    found = DIALECTS.on(name)
    if not found:
        raise UnknownURL(f"memalchemy does not work on {name!r}")
    if len(found) > 1:
        raise MemalchemyError(
            f"several dialects stand on SQLAlchemy's {name!r}: {_join_names(found)}; pass a "
            "URL, whose "
            "scheme says which is meant"
        )
    return found[0]


def find_column_types(sqlalchemy_name: str) -> ColumnTypes | None:
    """Return the column types of the dialects on SQLAlchemy's of that name; ``None`` without one.

    Raises:
        MemalchemyError: several stand on it and store columns in different ways.
    """
    found = DIALECTS.on(sqlalchemy_name)
    return found[0].column_types if found else None


def has_dynamic_types(sqlalchemy_name: str) -> bool:
    """Return `Dialect.dynamic_types` on SQLAlchemy's dialect of that name."""
    found = DIALECTS.on(sqlalchemy_name)
    return bool(found) and found[0].dynamic_types


def parse_url(given: str | URL | PathLike[str]) -> Target:
    """Read a database URL as people type it or providers hand it out, or the path of a SQLite file.

    Spaces and line ends around a server's URL are left out: a file with a secret ends with one.

    Raises:
        UnknownURL: no database that memalchemy works on, or not a URL.
        DriverMissing: the Python driver for it is not installed.
    """
    url = _read_url(given)
    scheme, _, driver = url.drivername.partition("+")
    dialect = DIALECTS.get(_ALIASES.get(scheme, scheme))
    is_file = dialect is not None and dialect.single_writer
    if not is_file and any("@" in (part or "") for part in (url.host, url.database)):
        raise UnknownURL(
            "the URL has an @ where none belongs: percent-encode the user name and password "
            "(@ is %40, / is %2F, : is %3A)"
        )
    if dialect is None:
        raise UnknownURL(f"memalchemy does not work on {scheme!r}; {EXPECTED}")
    return dialect.read_url(url, driver)


def _read_url(given: str | URL | PathLike[str]) -> URL:
    if isinstance(given, PathLike):
        return URL.create("sqlite", database=fspath(given))
    try:
        if not isinstance(given, str):
            return make_url(given)
        # The name of a file may end with a space.
        file = file_url(given) or sqlite_url(given)
        text = given.strip()
        return file or url_of_hosts(text) or make_url(text)
    except UnknownURL:
        raise
    except (ArgumentError, ValueError, TypeError):
        raise UnknownURL(_not_a_url_message(given)) from None


def _not_a_url_message(text: object) -> str:
    """Return what is wrong with *text*, of which only a word is repeated: a URL has secrets."""
    if isinstance(text, str) and re.fullmatch(r"[^:@?#/\\\s]+", text):
        return (
            f"{text!r} is not a database URL, and there is no such file; for a new SQLite file "
            f"write sqlite:///{text} or ./{text}"
        )
    return f"this is not a database URL; {EXPECTED}"


def _problem_of_dialect(dialect: Any, name: object) -> str | None:
    """Return why *dialect* cannot be the dialect called *name*; ``None`` if it can."""
    if not (isinstance(dialect, type) and issubclass(dialect, Dialect)):
        return "is not a subclass of memalchemy.dialects.Dialect"
    needed = ("name", "sqlalchemy_name", "statements", "text", "vectors", "maintenance")
    if missing := [attribute for attribute in needed if not hasattr(dialect, attribute)]:
        return f"lacks {', '.join(missing)}"
    if dialect.name != name:
        return f"calls itself {dialect.name!r}"
    below = dialect.sqlalchemy_name
    if (
        below in _BUILT_IN
        and below != name
        and _storage_of_columns(dialect) != _storage_of_columns(DIALECTS[below])
    ):
        return (
            f"stands on SQLAlchemy's {below!r} and stores columns otherwise than memalchemy's own "
            "dialect; its column_types and dynamic_types must be the same"
        )
    return None


def _storage_of_columns(dialect: Dialect | type[Dialect]) -> tuple[type, bool]:
    """Return what decides how columns are stored, which is known by SQLAlchemy's name alone."""
    return type(dialect.column_types), dialect.dynamic_types


def _join_names(dialects: Iterable[Dialect]) -> str:
    return ", ".join(sorted(one.name for one in dialects))


def _installed_names() -> list[str]:
    """Return the names of the dialects of installed packages, but for memalchemy's own names."""
    return [name for name in entry_points(ENTRY_POINTS) if name not in _BUILT_IN]

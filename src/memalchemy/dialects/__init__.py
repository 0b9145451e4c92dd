"""What one database says differently. Nobody outside this room names a database."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from memalchemy.dialects.base import TEXT_INDEXES, Dialect, Failure
from memalchemy.errors import UnknownURL

_CLASSES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "oracle": "Oracle"}


class _Dialects(dict[str, Dialect]):
    """By name; each is imported when it is asked for, with the SQLAlchemy dialect it stands on."""

    def __missing__(self, name: str) -> Dialect:
        made: Dialect = getattr(import_module(f"{__name__}.{name}"), _CLASSES[name])()
        return self.setdefault(name, made)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)


DIALECTS: dict[str, Dialect] = _Dialects()


def dialect_of(bind: Any) -> Dialect:
    """The dialect of an engine or connection; raises `UnknownURL` for one that is not supported."""
    name: str = bind.dialect.name
    if name not in DIALECTS:
        raise UnknownURL(f"memalchemy does not work on {name!r}")
    return DIALECTS[name]


__all__ = ["DIALECTS", "TEXT_INDEXES", "Dialect", "Failure", "dialect_of"]

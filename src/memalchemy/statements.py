"""Registry of every statement that memalchemy can emit.

A statement is built once for a dialect and a variant and executed with bound values only. Because
all of them are enumerable, each is compiled for every dialect, kept as reviewed golden SQL, and the
test suite fails on an executed statement that is not here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, TypeVar

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Executable,
    Row,
    Table,
    and_,
    bindparam,
    or_,
    select,
    tuple_,
)

from memalchemy.dialects import Dialect

P = ParamSpec("P")
T = TypeVar("T")

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


NAMELESS = "memalchemy_nameless"
"""The execution option of a statement of many rows whose program wants them by place alone: they
may be sequences of any kind, which need not be made into rows with names.
"""


ERASES = "memalchemy_erases"
"""The execution option of a statement that is part of the removal of whole logs."""


PROVES = "memalchemy_proves"
"""The execution option of a statement that removes what its rows say is to go.

Its value is what has to be proven of them before: see `REASONS`. Somebody without a signing key may
have edited a column, so that a job with the key would remove what nobody wanted to remove.
"""

REASONS = ("order", "head", "rows")
"""Why logs are removed: by order, whatever they hold; or for what their heads or rows say."""


FINDS = "memalchemy_finds"
"""The execution option of a `removal`: the query that finds the rows which it will remove."""


REMOVES_TENANT = "memalchemy_removes_tenant"
"""The execution option of a statement that removes all that a tenant has in a table."""


class Answer(list[Row[Any]]):
    """The answer to a statement: its rows, and the number of rows that it changed, ``touched``."""

    damaged: Mapping[int, str] = MappingProxyType({})
    """Descriptions of the rows, by their indexes, that have a cell which is not of its column's
    type. Such a cell is ``None``. Only readers that asked for damaged rows are given any.
    """

    def __init__(self, rows: Sequence[Row[Any]] = (), touched: int = 0) -> None:
        super().__init__(rows)
        self.touched = touched


class IntegerRange(Sequence[int]):
    """Whole numbers from *low* to *high* as the values of a variant: they stand in the SQL text.

    A number of rows or dimensions that a partial index is for cannot be bound. *samples* stand for
    all of them where statements are enumerated.
    """

    def __init__(self, low: int, high: int, *samples: int) -> None:
        self.low: int = low
        self.high: int = high
        self._samples = samples

    def __contains__(self, value: object) -> bool:
        return type(value) is int and self.low <= value <= self.high

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, at: Any) -> Any:
        return self._samples[at]


Program = Generator[tuple[Executable, Parameters], Answer, T]
"""An operation: yields statements with their values, receives answers, returns its result.

It can be run on any connection, and again from the start if nothing was committed.
"""


def program_of(*statements: Executable, binds: Parameters = None) -> Program[Answer]:
    """Execute *statements* one after another, each with *binds*; return the last answer."""
    answer = Answer()
    for statement in statements:
        answer = yield statement, binds
    return answer


class Statement(Generic[P]):
    """Family of statements: one for each dialect and variant, built on first use."""

    def __init__(
        self, build: Callable[..., Executable | None], variants: dict[str, Sequence[Any]]
    ) -> None:
        module = build.__module__.removeprefix("memalchemy.")
        self.name: str = f"{module}.{build.__name__.lstrip('_')}"
        self._build = build
        self._variants = variants
        self._built: dict[tuple[str, tuple[tuple[str, Any], ...]], Executable | None] = {}
        """By `Dialect.variant` and the values of the statement's own variants."""
        self.__doc__ = build.__doc__

    def __call__(self, dialect: Dialect, **variant: Any) -> Executable:
        statement = self._get(dialect, variant)
        if statement is None:
            raise AssertionError(f"{self.name} is not a statement of {dialect.variant}")
        return statement

    def _get(self, dialect: Dialect, variant: dict[str, Any]) -> Executable | None:
        key = (dialect.variant, tuple(sorted(variant.items())))
        if key not in self._built:
            for name, value in variant.items():
                if value not in self._variants[name]:
                    raise AssertionError(f"{self.name}: {name}={value!r} is not registered")
            # Threads may build it at once; all are given the same object, which caches go by.
            built = self._built.setdefault(key, self._build(dialect, **variant))
            if built is not None:
                _ORIGINS[built] = self, dialect.variant, variant
        return self._built[key]

    def enumerate(self, dialect: Dialect) -> Iterator[tuple[str, Executable]]:
        """Yield every (name, statement) of this family on *dialect*."""
        for values in itertools.product(*self._variants.values()):
            variant = dict(zip(self._variants, values, strict=True))
            statement = self._get(dialect, variant)
            if statement is not None:
                shown = ", ".join(f"{k}={v}" for k, v in variant.items())
                yield f"{self.name}({shown})", statement


REGISTRY: dict[str, Statement[Any]] = {}

_ORIGINS: dict[Executable, tuple[Statement[Any], str, dict[str, Any]]] = {}
"""The family of each statement that was built, the variant of the dialect, and its own."""


def built_for(dialect: Dialect, statement: Executable) -> Executable:
    """Return *statement* as *dialect* has it now.

    An operation may build a statement before the server is known; see `Dialect.learn`. A statement
    that is not of the registry stays as it is.
    """
    family, variant, own = _ORIGINS.get(statement, (None, "", {}))
    return statement if family is None or variant == dialect.variant else family(dialect, **own)


def statement(**variants: Sequence[Any]) -> Callable[[Callable[..., Any]], Statement[Any]]:
    """Register a statement builder; each keyword lists the values that a variant can take.

    The builder returns ``None`` where a dialect has no such statement.
    """

    return lambda build: register(build, variants)


def register(
    build: Callable[..., Executable | None], variants: Mapping[str, Sequence[Any]], suffix: str = ""
) -> Statement[Any]:
    """Register a statement under the name of its builder and a suffix."""
    made: Statement[Any] = Statement(build, dict(variants))
    made.name += suffix
    REGISTRY[made.name] = made
    return made


def removal(
    columns: Mapping[str, Sequence[str]], **variants: Sequence[Any]
) -> Callable[[Callable[..., Any]], Statement[Any]]:
    """Register a builder of statements that remove rows, and with them what finds those before.

    *columns* are those that are found, by the name of a table; in other tables nothing is found.
    """

    def registered(build: Callable[..., Executable | None]) -> Statement[Any]:
        @wraps(build)
        def find(dialect: Dialect, **variant: Any) -> Executable | None:
            removing: Any = build(dialect, **variant)
            if removing is None or removing.table.name not in columns:
                return None
            found = (removing.table.c[name] for name in columns[removing.table.name])
            return select(*found).where(removing.whereclause)

        @wraps(build)
        def remove(dialect: Dialect, **variant: Any) -> Executable | None:
            removing, query = build(dialect, **variant), finder._get(dialect, variant)
            if removing is None or query is None:
                return removing
            return removing.execution_options(**{FINDS: query})

        finder = register(find, variants, ".found")
        return statement(**variants)(remove)

    return registered


def column_bind(column: ColumnElement[Any], prefix: str) -> BindParameter[Any]:
    """Return a bind of a column's type, called *prefix*, ``_`` and the column's name."""
    return bindparam(f"{prefix}_{column.key}", type_=column.type)


def after_key(dialect: Dialect, table: Table, key: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition on keys after the one bound as ``p_`` and the columns' names."""
    columns = [table.c[name] for name in key]
    bounds = [column_bind(column, "p") for column in columns]
    if dialect.statements.compares_tuples:
        return tuple_(*columns) > tuple_(*bounds)
    pairs = list(zip(columns, bounds, strict=True))
    last, limit = pairs.pop()
    after = last > limit
    for column, limit in reversed(pairs):
        after = or_(column > limit, and_(column == limit, after))
    return and_(columns[0] >= bounds[0], after)  # the first is where the index can start

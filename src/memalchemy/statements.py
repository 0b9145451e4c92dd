"""Registry of every statement that memalchemy can emit.

A statement is built once for a dialect and a choice of arguments, and executed with bound values
only. Because all of them are enumerable, each is compiled for every dialect, kept as reviewed
golden SQL, and the test suite fails on an executed statement that is not here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

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

from memalchemy.codec.signatures import SigningKeys
from memalchemy.dialects import Dialect
from memalchemy.proofs import CHECKS, NOTED
from memalchemy.rows import RowKind
from memalchemy.variants import Varying, nothing, varies

P = ParamSpec("P")
T = TypeVar("T")

Build = Callable[..., Executable | None]

_Key = tuple[str, tuple[str, ...], tuple[tuple[str, Any], ...]]
"""The name of a dialect, its variants, and the choice of a statement's arguments."""

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


NAMELESS = "memalchemy_nameless"
"""The execution option of a statement of many rows whose program wants them by place alone: they
may be sequences of any kind, which need not be made into rows with names.
"""


ERASES = "memalchemy_erases"
"""The execution option of a statement that is part of the removal of whole logs."""


PROVES = "memalchemy_proves"
"""The execution option of a statement that removes rows for what they say, such as their expiry.

Its value names what has to be proven of them before: see `REASONS`. Somebody without a signing key
may have edited a column, so that a job with the key would remove what nobody wanted to remove.
"""

REASONS = ("order", "head", "rows")
"""Why logs are removed: by order, whatever they hold; or for what their heads or rows say."""


FINDS = "memalchemy_finds"
"""The execution option of a `removal`: the query that finds the rows which it will remove."""


REMOVES_TENANT = "memalchemy_removes_tenant"
"""The execution option of a statement that removes all that a tenant has in a table."""


WRITES = "memalchemy_writes"
"""The execution option of a statement that inserts or changes rows: a `Written`."""


@dataclass(frozen=True, slots=True)
class Written:
    """The kinds of rows that a statement inserts or changes."""

    kinds: tuple[RowKind, ...]
    in_place: bool
    """True if it changes some columns of rows that are there; otherwise it binds whole rows."""

    @property
    def sealed(self) -> RowKind | None:
        """The kind whose payload is encrypted, if it binds one."""
        return next((one for one in self.kinds if one.payload is not None), None)


NOTHING = Written((), in_place=False)

Kinds = RowKind | tuple[RowKind, ...]
DeclaredKinds = Kinds | Callable[..., Kinds]
"""Kinds of rows, or what returns them for a choice of a statement's arguments."""


PROVEN_FORM = "memalchemy_proven"
"""The execution option of a statement that has a form with proof, a `ProvenForm`."""


SIGNED_FORM = "memalchemy_signed"
"""The execution option of a statement that has a form for databases with signing keys: this form.

It also returns what proves its rows, and programs hold them to that where they decode them.
"""


class RowProof(Protocol):
    """Proof of the rows of a statement, which `Database.run` makes: see `proven_reads`."""

    sentence: str
    """The rows that are proven, for users."""

    def add_to(self, query: Any) -> Any:
        """Return *query* with the columns of the proof, under names of their own."""

    def check(self, row: Any, tenant: str, keys: SigningKeys) -> None:
        """Raise `Corrupt`, `NotSigned` or `KeyMissing` if a row is not what was signed."""

    def is_listed(self, row: Any, now: Any) -> bool:
        """Return whether the statement lists a row, which has been checked, at ``p_now``."""


MakesProof = RowProof | Callable[..., RowProof]
"""A proof, or a function that makes one for a choice of a statement's arguments."""

Proves = MakesProof | str | tuple[MakesProof | str, ...]
"""Proof of the rows of a statement, or several: see `statement`."""


class ProvenForm(NamedTuple):
    """Second form of a statement, for databases with signing keys."""

    query: Executable
    """The statement with the columns that prove its rows, and with rows that it does not list."""
    proof: RowProof


class Answer(list[Row[Any]]):
    """The answer to a statement: its rows."""

    touched: int = 0
    """The number of rows that the statement changed."""

    damaged: Mapping[int, str] = MappingProxyType({})
    """Descriptions of the rows, by their indexes, that have a cell which is not of its column's
    type. Such a cell is ``None``. Only readers that asked for damaged rows are given any.
    """


class IntegerRange(Sequence[int]):
    """Whole numbers from *low* to *high* as the values of an argument: they stand in the SQL text.

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
    """Family of statements: one for each dialect and choice of arguments, built on first use."""

    def __init__(
        self, build: Callable[..., Executable | None], choices: dict[str, Sequence[Any]]
    ) -> None:
        module = build.__module__.removeprefix("memalchemy.")
        self.name: str = f"{module}.{build.__name__.lstrip('_')}"
        self._build: Varying[Dialect, ..., Executable | None] = varies(build)
        self._choices = choices
        self._built: dict[_Key, Executable | None] = {}
        self._asked: dict[tuple[Any, ...], Executable] = {}
        """The same, by the arguments as they were given."""
        self.__doc__ = build.__doc__
        self.proof: MakesProof | None = None
        """The proof that `Database.run` makes of its rows."""
        self.checks: tuple[str, ...] = ()
        """The names of the `CHECKS` that the programs make which send it."""
        self.unproven: str | None = None
        """Why nothing proves what it returns to some of these programs, or to all."""
        self.writes: DeclaredKinds = ()
        """The kinds of rows that it binds whole."""
        self.changes: DeclaredKinds = ()
        """The kinds of rows of which it changes some columns."""
        self.signed_form: str | None = None
        """The argument that is true for its `SIGNED_FORM`."""

    def on(self, variant: str) -> Callable[[Build], Build]:
        """Register the decorated builder in place of the general one on *variant*."""
        return self._build.on(variant)

    def not_on(self, *variants: str) -> None:
        """Say that *variants* have no such statement."""
        for variant in variants:
            self._build.on(variant)(nothing)

    def general(self, dialect: Dialect, **choice: Any) -> Any:
        """Build the general statement: for those in its place that add to it."""
        return self._build.general(dialect, **choice)

    def __call__(self, dialect: Dialect, **choice: Any) -> Executable:
        # Whoever asks names the arguments in one order, its own.
        asked = dialect.name, dialect.variants, *choice.items()
        statement = self._asked.get(asked)
        if statement is None:
            if self.signed_form is not None:
                choice.setdefault(self.signed_form, False)
            statement = self._get(dialect, choice)
            if statement is None:
                raise AssertionError(
                    f"{self.name} is not a statement of {_describe_dialect(dialect)}"
                )
            self._asked[asked] = statement
        return statement

    def _get(self, dialect: Dialect, choice: dict[str, Any]) -> Executable | None:
        key = (dialect.name, dialect.variants, tuple(sorted(choice.items())))
        if key not in self._built:
            for name, value in choice.items():
                if value not in self._choices[name]:
                    raise AssertionError(f"{self.name}: {name}={value!r} is not registered")
            made = self._saying_what_it_writes(self._build(dialect, **choice), choice)
            is_signed = self.signed_form
            if made is not None and is_signed is not None and not choice[is_signed]:
                form = self._get(dialect, {**choice, is_signed: True})
                assert form is not None, f"{self.name} has no form for databases with signing keys"
                made = made.execution_options(**{SIGNED_FORM: form})
            # Threads may build it at once; all are given the same object, which caches go by.
            built = self._built.setdefault(key, made)
            if built is not None:
                _ORIGINS[built] = self, choice
        return self._built[key]

    def _saying_what_it_writes(
        self, built: Executable | None, choice: dict[str, Any]
    ) -> Executable | None:
        """Return a statement with the option `WRITES`, if it says which rows it writes."""
        for declared, in_place in (self.writes, False), (self.changes, True):
            kinds = declared(**choice) if callable(declared) else declared
            if built is not None and kinds:
                listed = kinds if isinstance(kinds, tuple) else (kinds,)
                return built.execution_options(**{WRITES: Written(listed, in_place)})
        return built

    def enumerate(self, dialect: Dialect) -> Iterator[tuple[str, Executable]]:
        """Yield every (name, statement) of this family on *dialect*."""
        for values in itertools.product(*self._choices.values()):
            choice = dict(zip(self._choices, values, strict=True))
            statement = self._get(dialect, choice)
            if statement is not None:
                shown = ", ".join(f"{k}={v}" for k, v in choice.items())
                yield f"{self.name}({shown})", statement


def _describe_dialect(dialect: Dialect) -> str:
    return " on ".join((dialect.name, *dialect.variants))


REGISTRY: dict[str, Statement[Any]] = {}

_ORIGINS: dict[Executable, tuple[Statement[Any], dict[str, Any]]] = {}
"""The family of each statement that was built, and the choice of its arguments."""


def built_for(dialect: Dialect, statement: Executable) -> Executable:
    """Return *statement* as *dialect* has it now.

    An operation may build a statement before the server is known; see `Dialect.learn`. A statement
    that is not of the registry stays as it is.
    """
    family, choice = _ORIGINS.get(statement, (None, {}))
    return statement if family is None else family(dialect, **choice)


def statement(
    *,
    proves: Proves = (),
    unproven: str | None = None,
    only_on: str | None = None,
    writes: DeclaredKinds = (),
    changes: DeclaredKinds = (),
    signed_form: str | None = None,
    **choices: Sequence[Any],
) -> Callable[[Callable[..., Any]], Statement[Any]]:
    """Register a statement builder; each keyword lists the values that an argument can take.

    The builder returns ``None`` where a dialect has no such statement. With *only_on* the statement
    exists on that variant alone.

    A statement that returns signed columns says what proves them, or why nothing has to. It says
    both if only some of the programs that send it prove them. One that inserts or changes rows says
    of which kinds they are, which sealing and signing go by.

    Args:
        proves: names of `memalchemy.proofs.CHECKS` that these programs make; and a `RowProof`, or a
            function that makes one for a choice of arguments. With a `RowProof`, `Database.run`
            sends a second form of the statement, and verifies the signatures of its rows. For that
            form the builder gets ``proven=True``, and leaves out the conditions on the rows to
            list, which `RowProof.is_listed` checks.
        unproven: a reason: see `memalchemy.proofs`.
        writes: the kinds of rows that it binds whole, with their payloads and signatures.
        changes: the kinds of rows of which it changes some columns.
        signed_form: the argument that is true for the form which `Database.run` sends in place of
            the other one where rows are signed: it also returns what proves them. It is false for
            programs that leave it out.
    """

    def registered(build: Build) -> Statement[Any]:
        proof, _ = _parts_of(proves)
        if proof is None:
            made = register(
                build,
                choices,
                only_on=only_on,
                proves=proves,
                unproven=unproven,
                writes=writes,
                changes=changes,
            )
            made.signed_form = signed_form
            return made
        assert only_on is None, "a statement of one variant has no form with proof"
        assert writes == changes == (), "a statement that writes has no form with proof"
        assert signed_form is None, "a statement has one form for databases with signing keys"
        return _register_with_proof(build, choices, proof, proves=proves, unproven=unproven)

    return registered


def _parts_of(proves: Proves) -> tuple[MakesProof | None, tuple[str, ...]]:
    """Return the proof that `Database.run` makes, and the names of the checks of programs."""
    given = proves if isinstance(proves, tuple) else (proves,)
    names = tuple(one for one in given if isinstance(one, str))
    proofs = [one for one in given if not isinstance(one, str)]
    assert len(proofs) <= 1, "a statement has one form with proof"
    return proofs[0] if proofs else None, names


def _register_with_proof(
    build: Build, choices: Mapping[str, Sequence[Any]], proof: MakesProof, **declared: Any
) -> Statement[Any]:
    """Register a statement, and its form with proof under the name with the suffix ``.proven``."""

    def proof_for(choice: Mapping[str, Any]) -> RowProof:
        return proof(**choice) if callable(proof) else proof

    @wraps(build)
    def build_proven(dialect: Dialect, **choice: Any) -> Executable | None:
        query: Any = build(dialect, proven=True, **choice)
        return None if query is None else proof_for(choice).add_to(query)

    forms = register(build_proven, choices, ".proven", **declared)

    @wraps(build)
    def build_plain(dialect: Dialect, **choice: Any) -> Executable | None:
        query: Any = build(dialect, proven=False, **choice)
        if query is None:
            return None
        form = ProvenForm(forms(dialect, **choice), proof_for(choice))
        return query.execution_options(**{PROVEN_FORM: form})  # type: ignore[no-any-return]

    return register(build_plain, choices, **declared)


def register(
    build: Build,
    choices: Mapping[str, Sequence[Any]],
    suffix: str = "",
    *,
    only_on: str | None = None,
    proves: Proves = (),
    unproven: str | None = None,
    writes: DeclaredKinds = (),
    changes: DeclaredKinds = (),
) -> Statement[Any]:
    """Register a statement under the name of its builder and a suffix."""
    made: Statement[Any] = Statement(build, dict(choices))
    if only_on is not None:
        made._build = Varying(nothing)
        made._build.on(only_on)(build)
    made.name += suffix
    made.proof, made.checks = _parts_of(proves)
    made.unproven = unproven
    made.writes, made.changes = writes, changes
    if unknown := [name for name in made.checks if name not in CHECKS]:
        raise AssertionError(f"{made.name}: {unknown[0]!r} is not one of memalchemy.proofs.CHECKS")
    REGISTRY[made.name] = made
    return made


def removal(
    columns: Mapping[str, Sequence[str]],
    *,
    proves: Proves = (),
    unproven: str | None = None,
    changes: DeclaredKinds = (),
    **choices: Sequence[Any],
) -> Callable[[Callable[..., Any]], Statement[Any]]:
    """Register a builder of statements that remove rows, each with a query that finds them before.

    *columns* lists the columns that the query returns, by the name of a table; for other tables
    there is no query. The columns that a statement itself returns, if any, are declared as in
    `statement`.
    """

    def registered(build: Callable[..., Executable | None]) -> Statement[Any]:
        @wraps(build)
        def find(dialect: Dialect, **choice: Any) -> Executable | None:
            removing: Any = build(dialect, **choice)
            if removing is None or removing.table.name not in columns:
                return None
            found = (removing.table.c[name] for name in columns[removing.table.name])
            return select(*found).where(removing.whereclause)

        @wraps(build)
        def remove(dialect: Dialect, **choice: Any) -> Executable | None:
            removing, query = build(dialect, **choice), finder._get(dialect, choice)
            if removing is None or query is None:
                return removing
            return removing.execution_options(**{FINDS: query})

        finder = register(find, choices, ".found", unproven=NOTED)
        return register(remove, choices, proves=proves, unproven=unproven, changes=changes)

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

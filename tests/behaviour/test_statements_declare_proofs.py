"""Each statement that returns a signed column says what proves it, and its senders do that.

The statements are those of the registry, for all databases and choices. Who sends one, and what is
checked then, is read from the source: see `call_graph`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from returned_columns import DATABASES, columns_returned_by, idle, silent
from sqlalchemy import Text, case, cast, func, literal_column, select, union_all, update

import golden
from call_graph import CallGraph
from memalchemy import proofs
from memalchemy.log.tables import CHECKPOINTS, DELTAS, THREADS
from memalchemy.proofs import CHECKS
from memalchemy.protection.signing import work_of
from memalchemy.statements import REGISTRY, Statement, statement

CALLS = 3
"""Calls away from the function that sends a statement, something has to check what it returned."""

REASONS = {
    value: name
    for name, value in vars(proofs).items()
    if type(value) is str and not name.startswith("_") and name.isupper()
}


def own(build: Any, **declared: Any) -> dict[str, Statement[Any]]:
    """A registry that has the one statement that *build* builds."""
    made: Statement[Any] = Statement(build, {})
    for name, value in declared.items():
        setattr(made, name, value)
    return {made.name: made}


def test_no_statement_is_silent() -> None:
    assert silent(REGISTRY) == []


@pytest.mark.own_programs("there no database has the statements that do all at once")
def test_no_statement_says_it_for_nothing() -> None:
    assert idle(REGISTRY) == []


LOG = DELTAS.c.seq
OTHERS: dict[str, Any] = {
    "a column": select(DELTAS.c.payload),
    "a label": select(DELTAS.c.payload.label("other")),
    "a function": select(func.max(LOG)),
    "a cast in a case": select(case((LOG == 1, cast(LOG, Text)), else_=None)),
    "a scalar subquery": select(select(LOG).limit(1).scalar_subquery()),
    "an alias": select(DELTAS.alias("others").c.seq),
    "a subquery": select(select(LOG.label("at")).subquery().c.at),
    "a CTE": select(select(LOG).cte("found").c.seq),
    "a union": union_all(select(CHECKPOINTS.c.seq), select(LOG)),
    "RETURNING": update(THREADS).values(version=1).returning(THREADS.c.version),
    "whether there is one": select(select(LOG).where(LOG == 1).exists()),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_new_statement_that_returns_a_signed_column_is_silent(what: str) -> None:
    query = OTHERS[what]
    assert silent(own(lambda dialect: query)) == list(own(lambda dialect: query))
    assert silent(own(lambda dialect: query, checks=("row",))) == []
    assert idle(own(lambda dialect: query, checks=("row",))) == []


def test_one_that_returns_none_has_nothing_to_say() -> None:
    for query in (select(literal_column("1")), select(func.count()), select(DELTAS.c.signature),
                  select(THREADS.c.epoch), update(THREADS).values(version=1)):  # fmt: skip
        assert silent(own(lambda dialect, query=query: query)) == []
        told = own(lambda dialect, query=query: query, unproven="why")
        assert idle(told) == list(told)


def test_a_statement_that_falls_silent_is_noticed() -> None:
    declared = {name: family for name, family in REGISTRY.items() if family.checks}
    name = sorted(declared)[0]
    family = declared[name]
    fallen: Statement[Any] = Statement(family._build.general, family._choices)
    assert silent({name: fallen}) == [name]


def test_a_check_that_does_not_exist_is_refused() -> None:
    before = dict(REGISTRY)
    with pytest.raises(AssertionError, match="'nonsense' is not one of"):
        statement(proves="nonsense")(lambda dialect: None)
    assert before == REGISTRY


def test_each_reason_has_a_name_and_is_given() -> None:
    given = {family.unproven for family in REGISTRY.values()} - {None}
    assert given == set(REASONS)


def test_each_check_is_made_for_some_statement() -> None:
    assert {name for family in REGISTRY.values() for name in family.checks} == set(CHECKS)


# --- Senders -------------------------------------------------------------------------------------


@cache
def graph() -> CallGraph:
    return CallGraph()


def unit_of(name: str) -> str:
    """The function that a family is named after."""
    module, _, function = name.removesuffix(".found").removesuffix(".proven").rpartition(".")
    there = {f"{module}.{function}", f"{module}._{function}"} & builders()
    assert len(there) == 1, f"no function builds {name}"
    return there.pop()


@cache
def builders() -> frozenset[str]:
    """The functions that are decorated as builders of statements."""
    return frozenset(
        name for name, unit in graph().units.items()
        if {"statement", "removal", "register"} & unit.decorators
    )  # fmt: skip


@cache
def writers() -> Mapping[tuple[str, str], frozenset[str]]:
    """The builders of statements by what these do to which table."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for dialect in map(golden.dialect_called, DATABASES):
        for name, family in REGISTRY.items():
            for _, one in family.enumerate(dialect):
                try:
                    work = work_of(one)
                except AssertionError:
                    continue  # it writes to several tables, and is not sent where rows are signed
                if work is not None:
                    found[work.does, work.table].add(unit_of(name))
    return {key: frozenset(builders) for key, builders in found.items()}


def makers_of(check: str) -> frozenset[str]:
    """The functions that make a check; of `Database.run`'s, what it is made for."""
    made = CHECKS[check]
    if not made.before:
        return frozenset(made.by)
    keys = ((does, table) for does in made.before for table in made.tables)
    return frozenset().union(*(writers().get(key, frozenset()) for key in keys))


def senders_of(name: str) -> list[str]:
    """The functions that send a statement; not those that return it, or build others of it."""
    found, seen, left = set[str](), set[str](), [unit_of(name)]
    while left:
        for user in graph().users[left.pop()] - seen - builders():
            seen.add(user)
            returns_it = graph().units[user].returns_a_statement
            (left.append if returns_it else found.add)(user)
    return sorted(found)


CHECKED = sorted(
    name for name, family in REGISTRY.items()
    if family.checks and not name.endswith((".proven", ".found"))
)  # fmt: skip


def test_the_functions_that_check_exist() -> None:
    named = {name for check in CHECKS.values() for name in check.by}
    assert named <= graph().units.keys()
    assert all(makers_of(check) for check in CHECKS)


@pytest.mark.parametrize("name", CHECKED)
def test_each_sender_makes_the_check(name: str) -> None:
    """The first that is declared; the others are made by some senders.

    Each does, or what calls it does, unless a reason is given why some do not.
    """
    family, senders = REGISTRY[name], senders_of(name)
    if unit_of(name) in makers_of(family.checks[0]):
        return  # it is itself what the check is made before
    assert senders, f"nothing sends {name}"
    ways = [w for one in senders for w in graph().ways_without(one, makers_of(family.checks[0]),
                                                               CALLS)]  # fmt: skip
    if family.unproven is None:
        assert ways == [], f"{name}: {family.checks[0]!r} is not made on these ways"
    for check in family.checks[0 if family.unproven else 1 :]:
        near, reaching = set(senders), graph().reach(makers_of(check))
        for _ in range(CALLS):
            near |= {user for one in near for user in graph().users[one]}
        assert near & reaching, f"{name}: no sender makes {check!r}"


def test_a_check_that_is_not_made_is_missed() -> None:
    nothing: frozenset[str] = frozenset()
    for name in ("checkpoints.load.read_chain", "log.entries.read_entries"):
        ways = [w for one in senders_of(name) for w in graph().ways_without(one, nothing, CALLS)]
        assert ways, f"nothing sends {name}"


def test_a_check_that_is_taken_out_is_missed() -> None:
    """As if somebody forgot it where entries and hits are decoded."""
    assert graph().reach(makers_of("entry")) & {"threads.entry_rows.to_entries"}
    without = CallGraph({"threads.entry_rows": lambda text: text.replace("check_entries(", "len(")})
    (sender,) = senders_of("log.entries.read_entries_of_threads")
    assert list(without.ways_without(sender, makers_of("entry"), CALLS))


@pytest.mark.parametrize("name", sorted(name for name, one in REGISTRY.items() if one.proof))
def test_a_proof_is_added_in_a_form_of_its_own(name: str) -> None:
    family = REGISTRY[name.removesuffix(".proven")]
    assert columns_returned_by({name: REGISTRY[f"{family.name}.proven"]})[name]

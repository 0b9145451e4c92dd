"""A statement that proves its rows leaves none out by a signed column, or a list says why.

Who edits a column by which rows are looked for hides them, and what a statement does not return it
cannot prove. The conditions are taken from the registry of all statements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from sqlalchemy import ColumnClause, CompoundSelect, Insert, Join, Select, Table, and_, select, true
from sqlalchemy.dialects.postgresql.dml import OnConflictDoUpdate
from sqlalchemy.sql.selectable import AliasedReturnsRows, SelectBase
from stored_edits import SIGNED, table

import golden
from memalchemy.statements import REGISTRY

NAMED = "what is moved to another place is as if it was removed there"
FOUND = "rows are looked for by it, in an index: to look at all would take as long as there are any"
NEXT = "pages are in its order, each behind a proven row: a row that was edited is on one of them"
JOINED = "the rows without a match are returned, and refused if they have to have one"

NAMES = dict.fromkeys(("threads.tenant", "threads.namespace"), NAMED)
ALL_NAMES = {**NAMES, "threads.thread_id": NAMED}
REASONS: dict[str, dict[str, str]] = {
    "analysis._statements.list_marked_heads": {**ALL_NAMES, "threads.updated_at": NEXT},
    "checkpoints.listing.list_by_id": {**ALL_NAMES, "checkpoints.checkpoint_id": NEXT},
    "checkpoints.listing.list_by_metadata": {
        **NAMES,
        "checkpoints.tenant": NAMED,
        "checkpoints.meta": FOUND,
        "checkpoints.created_at": FOUND,
    },
    "checkpoints.listing.list_checkpoints_of_runs": {
        **NAMES,
        "checkpoints.tenant": NAMED,
        "checkpoints.run_id": FOUND,
    },
    "checkpoints.listing.list_newest": {
        **NAMES,
        "checkpoints.checkpoint_id": JOINED,
        "threads.head_id": JOINED,
        "checkpoints.created_at": FOUND,
    },
    "inspection._statements.list_recent": {**ALL_NAMES, "threads.updated_at": NEXT},
    "log.append.find_entry_keys": {"deltas.entry_key": FOUND},
    "log.entries.find_entries_of_key": {
        **NAMES,
        "deltas.entry_key": FOUND,
        "deltas.kind": FOUND,
    },
    "log.listing.list_entry_logs": {**ALL_NAMES, "threads.updated_at": NEXT},
    "log.listing.list_heads": {**ALL_NAMES, "threads.updated_at": NEXT},
    "log.listing.list_last_writes": ALL_NAMES,
    "log.listing.list_logs": {**ALL_NAMES, "threads.updated_at": NEXT},
    "log.listing.list_namespaces": {"threads.tenant": NAMED, "threads.thread_id": NAMED},
    "log.listing.list_namespaces_of_thread": ALL_NAMES,
    "log.listing.list_threads_older": {
        **ALL_NAMES,
        "deltas.kind": FOUND,
        "deltas.occurred_at": FOUND,
    },
    "store.read.list_items": {"store_items.updated_at": NEXT},
}
"""Why conditions of proven statements read signed columns, by the names of statements."""

HELD = "its caller holds what it returns, and what it does not, to the head of the log"
NUMBER = "to prove a number or a size would take all rows that it counts"
JOB = "a job proves what it removes, and `verify` tells what it left"
SEARCH = "a search does not see what its index does not have"
IDS = "ids that a shell proposes"
WRITE = "a write holds the head to its signature, or to what this process has left there"

HIDES = {"threads.head_id", "threads.expires_at", "threads.deleted_at"}
"""Columns that decide whether a log is there."""
UNPROVEN: dict[str, str] = {
    **{f"checkpoints.listing.{name}": HELD for name in (
        "list_checkpoints", "list_of_logs", "list_oldest", "list_until", "measure_log",
        "read_checkpoint",
    )},
    **dict.fromkeys(("checkpoints.load.read_chain", "checkpoints.load.read_snapshot"), HELD),
    "checkpoints.snapshots.read_states": HELD,
    "log.pending_writes.read_writes_of_checkpoints": HELD,
    **{f"log.entries.{name}": HELD for name in ("count_entries", "read_changes", "read_entries")},
    "log.entries.read_entries_of_logs": HELD,
    "log.entries.read_entries_of_threads": HELD,
    "inspection._statements.read_newest_checkpoints": HELD,
    "inspection._statements.read_next_positions": HELD,
    **{f"inspection._statements.{name}": NUMBER for name in (
        "count_logs_of_namespaces", "sum_sampled_logs",
    )},
    **{f"maintenance.space.{name}": NUMBER for name in (
        "count_live_threads", "measure_checkpoints", "measure_namespaces",
    )},
    **{f"log.bulk_delete.{name}": JOB for name in (
        "count_logs_to_delete", "list_prunable", "list_stale",
    )},
    "log.delete.leave_tombstones.found": JOB,
    **{f"search.text.search_{name}": SEARCH for name in ("checkpoints", "entries")},
    "log.listing.list_ids_in_range": IDS,
    **{f"log.one_statement.{name}": WRITE for name in (
        "allot_and_insert_entries", "allot_and_insert_write", "append_entries_to_known_head",
        "save_checkpoint", "save_checkpoints", "save_to_known_head",
    )},
}  # fmt: skip
"""Why statements that leave logs out by these columns have no form with proof."""


DATABASES = ("postgresql", "sqlite", "oracle", "citus")
"""On the first, saves are one statement, so that it has all conditions."""


def read_by_conditions(element: Any, seen: set[int] | None = None) -> Iterator[str]:
    """Yield the signed columns by which a query leaves rows out, but those of their tables' keys.

    They stand in its conditions, in those of what it reads, and in the order of a page.
    """
    seen = set() if seen is None else seen
    if id(element) in seen or isinstance(element, Table):
        return
    seen.add(id(element))
    if isinstance(element, ColumnClause):  # of a subquery, too
        for column in element.base_columns:
            name = getattr(getattr(column, "table", None), "name", None)
            is_signed = name in SIGNED and column.name in SIGNED[name]
            if is_signed and not table(name).c[column.name].primary_key:
                yield f"{name}.{column.name}"
        return
    for part in _parts(element):
        yield from read_by_conditions(part, seen)


def _parts(element: Any) -> Iterable[Any]:
    if isinstance(element, CompoundSelect):
        return element.selects
    if isinstance(element, Select):
        order = () if element._limit_clause is None else element._order_by_clauses
        conditions = (*element._where_criteria, *element._having_criteria, *order)
        return (*conditions, *element.get_final_froms())
    if isinstance(element, Join):
        return element.left, element.right, element.onclause
    if isinstance(element, AliasedReturnsRows):
        return (element.element,)
    if isinstance(element, Insert) and element._post_values_clause is not None:
        return (*element.get_children(), element._post_values_clause)  # no child before 2.1
    if isinstance(element, OnConflictDoUpdate):
        return () if element.update_whereclause is None else (element.update_whereclause,)
    return element.get_children()  # type: ignore[no-any-return]


def signed_conditions(proven: bool) -> dict[str, set[str]]:
    """Return the signed columns in the conditions of statements, by the names of these.

    Those of the forms with proof, or those of statements that have no such form.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for name, family in REGISTRY.items():
        if name.endswith(".proven") != proven or f"{name}.proven" in REGISTRY:
            continue
        for dialect in map(golden.dialect_called, DATABASES if proven else DATABASES[:1]):
            for _, statement in family.enumerate(dialect):
                if isinstance(statement, SelectBase):
                    read = read_by_conditions(statement)
                    found[name.removesuffix(".proven")].update(read)
    return {name: columns for name, columns in found.items() if columns}


def test_proven_statements_leave_nothing_out_by_a_signed_column_without_a_reason() -> None:
    found = signed_conditions(proven=True)
    assert found == {name: set(reasons) for name, reasons in REASONS.items()}


@pytest.mark.own_programs("there no database has the statements that do all at once")
def test_other_statements_leave_no_log_out_without_a_reason() -> None:
    found = signed_conditions(proven=False)
    hiding = {name for name, columns in found.items() if columns & HIDES}
    assert hiding == set(UNPROVEN)


def test_a_condition_of_a_proven_statement_is_seen_wherever_it_stands() -> None:
    heads, log = table("threads"), table("deltas")
    hidden = heads.c.head_id.is_not(None)
    inner = select(heads.c.log_id).where(hidden)
    for query in (
        select(heads.c.log_id).where(hidden),
        inner.subquery().select(),
        inner.cte().select(),
        inner.union_all(inner),
        select(log.c.seq).join(heads, and_(heads.c.log_id == log.c.log_id, hidden)),
        select(log.c.seq).where(log.c.log_id.in_(inner)),
        select(log.c.seq).where(inner.exists()),
        select(log.c.seq).join(inner.subquery().alias(), true()),
        select(heads.c.log_id).group_by(heads.c.log_id).having(hidden),
        select(heads.c.log_id).order_by(heads.c.head_id).limit(1),
        select(heads.alias().c.log_id).where(heads.alias("a").c.head_id.is_(None)),
    ):
        assert "threads.head_id" in read_by_conditions(query), str(query)

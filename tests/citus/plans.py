"""Plans of the registry's statements on a cluster: whether Citus sends them to one node."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import asyncpg
from sqlalchemy import ARRAY, JSON, Executable, Float, Integer, LargeBinary, TypeDecorator
from sqlalchemy.types import NULLTYPE

import golden  # noqa: F401 (imports every module that registers statements)
from memalchemy.column_types import Json, LogKey, UtcDateTime
from memalchemy.database.compiled import CompiledStatements
from memalchemy.dialects import Dialect
from memalchemy.statements import REGISTRY

_LOG = uuid.UUID("018f0000-0000-8000-8000-000000000001")
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_ONE_BY_NAME: dict[str, Any] = {
    "p_logs": f'[["{_LOG}"]]',
    "p_thread_ids": '[["a"]]',
    "match_value": "1",
    "match_key": "a",
    "scope": "'a'",
    "terms": ["'a'"],
    "p_vector": "[1,2,3]",
    "p_index": "ix_deltas_search_text",
}
_TIMES = ("p_now", "p_cutoff", "p_tombstone_cutoff", "p_orphan_cutoff", "p_created_at")
_NUMBERS = (
    "p_limit",
    "p_offset",
    "p_low",
    "p_high",
    "p_epoch",
    "p_window",
    "p_terms",
    "p_count",
    "p_keep",
    "p_keep_last",
    "p_keep_newest",
)


@dataclass(frozen=True)
class Plan:
    """How Citus runs a statement: on how many shards, and what it does at the coordinator."""

    name: str
    text: str

    @property
    def tasks(self) -> int:
        """The number of shards that it is sent to; of several parts, of the largest."""
        counts = (line.split(":") for line in self.text.splitlines() if "Task Count" in line)
        return max((int(count) for _, count in counts), default=0)

    @property
    def is_pulled(self) -> bool:
        """True if rows of the shards are brought to the coordinator and sent out again."""
        return "pull to coordinator" in self.text or "Distributed Subplan" in self.text

    @property
    def is_routed(self) -> bool:
        return self.tasks == 1 and not self.is_pulled


def built_statements(dialect: Dialect) -> Iterator[tuple[str, Executable]]:
    for family in sorted(REGISTRY):
        yield from REGISTRY[family].enumerate(dialect)


def sample(name: str, type_: Any) -> Any:
    """A value for a bind."""
    if name in _ONE_BY_NAME:
        return _ONE_BY_NAME[name]
    if name.endswith("_keys") or name in ("p_keys", "p_kept"):
        return '[["a", "b", "1", "1", "1"]]'
    if isinstance(type_, LogKey):
        return _LOG
    if isinstance(type_, UtcDateTime) or (type_ is NULLTYPE and name in _TIMES):
        return _NOW
    if isinstance(type_, (Json, JSON)):
        return {}
    if isinstance(type_, ARRAY):
        return [sample(name, type_.item_type)]
    while isinstance(type_, TypeDecorator):
        type_ = type_.impl_instance
    if isinstance(type_, LargeBinary):
        return b"a"
    is_number = isinstance(type_, (Integer, Float))
    return (
        1
        if is_number or (type_._type_affinity is NULLTYPE._type_affinity and name in _NUMBERS)
        else "a"
    )


async def explain(
    connection: asyncpg.Connection[Any], sqlalchemy_dialect: Any, statement: Any, name: str
) -> Plan:
    """Ask for the plan of a statement with sample values; a statement that is refused raises."""
    compiled = CompiledStatements().get(statement, sqlalchemy_dialect)
    assert compiled is not None
    binds = statement.compile(dialect=sqlalchemy_dialect).binds
    values = compiled.values({key: sample(key, bind.type) for key, bind in binds.items()})
    rows = await connection.fetch(f"EXPLAIN {compiled.sql}", *values)
    return Plan(name, "\n".join(row[0] for row in rows))

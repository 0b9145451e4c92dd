"""Edits of stored rows, as somebody makes them who has no key: each signed column of each row.

They are generated from the mapped tables and from the lists by which signatures are made, so that a
new column is edited without anybody thinking of it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from sqlalchemy import LargeBinary, Table, delete, insert, select, update

from memalchemy.rows import CHECKPOINT, DELTA, HEAD, ITEM, VECTOR
from memalchemy.schema import Base

MARK = {"mark": "evil"}
"""Metadata that nothing has, and that `forget` erases."""
GONE = "gone"
"""A checkpoint that is not there, and that is deleted."""

PLACE = ("tenant", "log_id", "seq")
SIGNED: dict[str, tuple[str, ...]] = {
    "threads": HEAD.signed,
    "checkpoints": (*PLACE, *CHECKPOINT.signed),
    "deltas": (*PLACE, "kind", "label", *DELTA.signed, *DELTA.words),
    "store_items": ("tenant", "namespace", "key", *ITEM.signed, *ITEM.words),
    "embeddings": ("tenant", "namespace", "key", *VECTOR.signed, "vector"),
}
"""The signed columns, from the lists by which signatures are made."""

UNSIGNED = {
    "threads": {"active_at", "epoch", "forked_from", "forked_seq", "signature"},
    "checkpoints": {"raw_size", "stored_size", "signature"},
    "deltas": {"checksum", "signature"},
    "store_items": {"checksum", "signature"},
    "embeddings": {"change", "signature"},
}
"""Columns that no signature covers."""


def table(name: str) -> Table:
    return Base.metadata.tables[name]


class Stored(Protocol):
    """A change of stored rows that can be undone."""

    @property
    def name(self) -> str: ...
    def apply(self, connection: Any) -> None: ...
    def undo(self, connection: Any) -> None: ...


Named = TypeVar("Named", bound=Stored)


@dataclass
class Edit:
    """One column of one row, and what somebody sets it to."""

    table: str
    column: str
    row: dict[str, Any]
    """The values of its key."""
    after: Any
    before: Any = None

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column}"

    def apply(self, connection: Any) -> None:
        column = table(self.table).c[self.column]
        there = connection.execute(select(column).where(*self._same(self.row))).all()
        if not there:
            raise LookupError("a state that no checkpoint needs any more was swept meanwhile")
        self.before = there[0][0]
        self._set(connection, self.row, self.after)

    def undo(self, connection: Any) -> None:
        moved = {name: self.after if name == self.column else v for name, v in self.row.items()}
        self._set(connection, moved, self.before)

    def _same(self, row: dict[str, Any]) -> list[Any]:
        return [table(self.table).c[name] == part for name, part in row.items()]

    def _set(self, connection: Any, row: dict[str, Any], value: Any) -> None:
        changing = update(table(self.table)).where(*self._same(row)).values({self.column: value})
        assert connection.execute(changing).rowcount == 1, f"{self} hits no row: it was removed"


@dataclass
class Removal:
    """A row that somebody removes."""

    table: str
    kind: str
    row: dict[str, Any]
    """The values of its key."""
    before: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return f"removed {self.kind}"

    def apply(self, connection: Any) -> None:
        rows = table(self.table)
        same = [rows.c[name] == part for name, part in self.row.items()]
        self.before = dict(connection.execute(select(rows).where(*same)).mappings().one())
        assert connection.execute(delete(rows).where(*same)).rowcount == 1

    def undo(self, connection: Any) -> None:
        assert self.before is not None
        connection.execute(insert(table(self.table)).values(self.before))


PARTS = {"threads": ("checkpoints", "deltas"), "store_items": ("embeddings",)}
"""Tables whose rows go with a row of another table."""


@dataclass
class WholeRemoval:
    """A thread or an item that somebody removes with all that belongs to it."""

    table: str
    row: dict[str, Any]
    """The values of its key."""
    before: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"removed row of {self.table}"

    def apply(self, connection: Any) -> None:
        for name in (*PARTS[self.table], self.table):
            same = [table(name).c[part] == value for part, value in self.row.items()]
            rows = connection.execute(select(table(name)).where(*same)).mappings()
            self.before[name] = [dict(row) for row in rows]
            connection.execute(delete(table(name)).where(*same))

    def undo(self, connection: Any) -> None:
        for name in (self.table, *PARTS[self.table]):
            if self.before[name]:
                connection.execute(insert(table(name)), self.before[name])


def edits_told_by_anchors(connection: Any) -> list[Stored]:
    """Return edits after which no row proves anything: threads and items removed, items moved."""
    found: list[Stored] = []
    for name in PARTS:
        rows = table(name)
        own = [rows.c.namespace.not_like("/~%")]
        if name == "threads":
            own.append(rows.c.deleted_at.is_(None))
        key = [column.name for column in rows.primary_key.columns]
        for row in connection.execute(select(*rows.primary_key).where(*own)).mappings():
            found.append(WholeRemoval(name, dict(row)))
            if name == "store_items":
                found += (Edit(name, column, dict(row), GONE) for column in key)
    return found


REMOVED = {"checkpoints": "checkpoint", "embeddings": "vector"}
"""Tables of which rows are removed, beside those of ``deltas``, which have a kind.

A thread or an item that is removed whole leaves nothing that could tell of it but an anchor.
"""


def removals_of(connection: Any, name: str) -> list[Removal]:
    """Return the removals of rows of a table: the first, one in the middle, and the last."""
    rows = table(name)
    key = [column.name for column in rows.primary_key.columns]
    kind = [rows.c.kind] if name == "deltas" else []
    found = connection.execute(select(*rows.primary_key, *kind).order_by(*rows.primary_key))
    sorts: dict[Any, list[Removal]] = {}
    for row in found.mappings():
        kind_of_row = "state" if row.get("kind") in ("snapshot", "delta") else row.get("kind")
        removal = Removal(name, kind_of_row or REMOVED[name], {part: row[part] for part in key})
        sorts.setdefault((removal.kind, row.get("log_id"), row.get("namespace")), []).append(
            removal
        )
    some: list[Removal] = []
    for same in sorts.values():
        some += [same[at] for at in sorted({0, len(same) // 2, len(same) - 1})]
    return some


def values_for(column: Any, before: Any) -> Iterator[Any]:
    """Yield values that could steer a job, other than the one that is there."""
    now = datetime.now(UTC)
    if column.name == "vector":
        yield [-number for number in before]
    elif column.name == "meta":
        yield {**(before or {}), **MARK}
    elif column.name.endswith("_at"):
        yield now - timedelta(days=3650)
        yield now + timedelta(days=3650)
    elif isinstance(before, bool | int) or column.name in ("overwrites", "base_seq", "lifetime"):
        yield (before or 0) + 1
        yield 12
    elif isinstance(before, bytes | bytearray | memoryview) or isinstance(column.type, LargeBinary):
        yield bytes(before) + b"\x00"
    elif isinstance(before, str) or before is None:
        yield GONE
        yield "c1"
    if column.nullable and before is not None:
        yield None


def edits_of(connection: Any, name: str) -> list[Edit]:
    """Return all edits of a table."""
    found = []
    rows = table(name)
    own = [] if name not in ("store_items", "embeddings") else [rows.c.namespace.not_like("/~%")]
    key = [column.name for column in rows.primary_key.columns]
    given = connection.execute(select(rows).where(*own).order_by(*rows.primary_key))
    for row in _some(given.mappings().all()):
        place = {part: row[part] for part in key}
        for column in SIGNED[name]:
            for after in values_for(rows.c[column], row[column]):
                is_signed = column != "label" or row["kind"] == "write"
                if name == "store_items" and column in key:
                    continue  # an item that was moved away is gone: only an anchor tells that
                if is_signed and (column == "vector" or after != row[column]):
                    found.append(Edit(name, column, place, after))
    return found


def sample_of(edits: Sequence[Named], most: int | None) -> list[Named]:
    """Return at most *most* edits of each column and of each kind of row; ``None`` returns all.

    They are the same ones in every run.
    """
    if most is None:
        return [*edits]
    by_name: dict[str, list[Named]] = defaultdict(list)
    for edit in edits:
        by_name[edit.name].append(edit)
    rng = random.Random(edits[0].name.split(".")[0])
    return [one for same in by_name.values() for one in rng.sample(same, min(most, len(same)))]


def _some(rows: Sequence[Any]) -> list[Any]:
    """Return rows of different sorts: the first and the last of each kind, namespace and state."""
    sorts: dict[Any, list[Any]] = {}
    for row in rows:
        sort = row.get("kind"), row.get("namespace"), row.get("deleted_at") is None
        sorts.setdefault(sort, []).append(row)
    return [row for same in sorts.values() for row in (same[:1] + same[1:][-1:])]

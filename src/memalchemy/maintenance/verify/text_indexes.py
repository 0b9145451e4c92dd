"""The check of the text indexes, that they find the rows and that the database uses them; repair.

There are three: of the search text of logs (``deltas_search``), of the metadata of checkpoints
(``checkpoints_meta``), and of the items of stores (``store_items_search``). Each is the whole
database's, not a tenant's. The dialect knows how one is checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

from sqlalchemy import Executable

from memalchemy.database import (
    EXAMINE_INDEX,
    MAINTENANCE,
    READ,
    READ_IN_TRANSACTION,
    WRITE_ROWS,
    Database,
)
from memalchemy.dialects import TEXT_INDEXES, Dialect
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    Corrupt,
    KeyMissing,
    StatementFailed,
)
from memalchemy.keys import encode_id
from memalchemy.log import Log
from memalchemy.log.scan import run_query
from memalchemy.maintenance.verify.logs import read_name
from memalchemy.maintenance.verify.report import MAX_AFFECTED, Location, ReportBuilder, counted
from memalchemy.proofs import REPORTED
from memalchemy.statements import Program, program_of, statement

RowKey = int | str
"""A position of a log, or a key of a namespace."""

READINGS = 3
"""The number of times in a row that a row must be missed. Beside writers PostgreSQL was seen to
miss, once, rows that were deleted a moment later; what is damaged stays missed."""

LOG_INDEXES = ("deltas_search", "checkpoints_meta")

KEPT_ROWS = 1000
"""The number of missed rows that are looked for again after a repair."""

REBUILD_STEPS = 16
COMPARISON_STEPS = 3
"""The largest number of statements that rebuild an index."""


@dataclass(slots=True)
class IndexFaults:
    """The faults of one index.

    Attributes:
        missed: the number of rows that the index does not find.
        rows: the first of them.
        reason: what is wrong with the index as a whole.
        obstacle: why the index could not be rebuilt.
    """

    missed: int = 0
    rows: list[tuple[Location, RowKey]] = field(default_factory=list)
    reason: str | None = None
    obstacle: str | None = None

    def __bool__(self) -> bool:
        return self.reason is not None or self.missed > 0

    def add_missed_row(self, location: Location, row: RowKey) -> None:
        """Add a row that the index does not find."""
        self.missed += 1
        if len(self.rows) < KEPT_ROWS:
            self.rows.append((location, row))


class TextIndexCheck:
    """Check the text indexes of a database while its rows are read."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._uncompared: list[str] = []
        """The indexes that were not compared as a whole, because SQLite only does that in a
        transaction that may write."""

    @cached_property
    def faults(self) -> dict[str, IndexFaults]:
        """By the names of the indexes that can be compared with the rows: none of a cluster's."""
        unindexed_rows = self.db.dialect.text.unindexed_rows
        return {index: IndexFaults() for index in TEXT_INDEXES if unindexed_rows(index) is not None}

    async def check_rows(self, location: Location, low: RowKey, high: RowKey) -> None:
        """Report the rows in a range of positions, or of keys, that an index does not find."""
        for index, faults in self.faults.items():
            is_of_location = (index in LOG_INDEXES) == isinstance(location, Log)
            if faults.reason is not None or not is_of_location:
                continue
            try:
                missed = await self._find_missed(index, location, low, high)
                for _ in range(READINGS - 1):
                    if missed:
                        ends = sorted(missed, key=_sort_key)
                        missed &= await self._find_missed(index, location, ends[0], ends[-1])
            except Corrupt:
                faults.reason = "cannot be read"
                continue
            except StatementFailed:
                faults.reason = "cannot be searched for the text of a row, which is no text"
                continue
            for row in sorted(missed, key=_sort_key):
                faults.add_missed_row(location, row)

    async def check_indexes(self, *, whole: bool) -> None:
        """Check that the database uses each index.

        Args:
            whole: let the database compare each index with all of its rows, too.
        """
        for index in self.faults:
            await self._check_index(index, whole)

    async def repair(self, *, whole: bool) -> tuple[str, ...]:
        """Rebuild the indexes that are wrong and check them again; return those that are right now.

        Args:
            whole: see `check_indexes`.
        """
        repaired = []
        for index, before in list(self.faults.items()):
            if not before:
                continue
            try:
                if not await self._rebuild_index(index):
                    before.obstacle = "memalchemy cannot rebuild it on this database"
                    continue
            except AuthenticationFailed:
                before.obstacle = "this role may not rebuild it"
                continue
            except (CapabilityMissing, Corrupt, StatementFailed) as error:
                before.obstacle = str(error).removesuffix(".")
                continue
            after = self.faults[index] = IndexFaults()
            for location, row in before.rows:
                await self.check_rows(location, row, row)
            await self._check_index(index, whole)
            if not after:
                repaired.append(index)
        return tuple(repaired)

    async def add_findings(self, report: ReportBuilder) -> None:
        """Add a finding for each index that is wrong."""
        d = self.db.dialect
        if self._uncompared:
            report.add(
                "unchecked",
                f"every row was looked for in the text indexes {', '.join(self._uncompared)}; "
                "whether they hold more than the rows was not checked, because the database was "
                "opened read-only, or without the key that signs it",
                severity="note",
            )
        for index, faults in self.faults.items():
            if not faults:
                continue
            name = d.text.index_name(index, self.db.schema) or index
            what = faults.reason or "does not find " + counted(
                faults.missed, "row by what is in it", "rows by what is in them"
            )
            remedy = "memalchemy verify --repair"
            if faults.obstacle is not None:
                remedy = f"{faults.obstacle}; {d.text.repair_advice(index, self.db.schema)}"
            affected: list[str] = []
            for location, row in faults.rows[:MAX_AFFECTED]:
                affected += (
                    [row] if isinstance(row, str) else await self._checkpoint_ids_at(location, row)
                )
            locations = {location for location, _ in faults.rows}
            report.add(
                "text-index",
                f"the text index {name} {what}",
                locations.pop() if len(locations) == 1 else None,
                affected=tuple(affected),
                affected_count=faults.missed,
                remedy=remedy,
            )

    async def _checkpoint_ids_at(self, location: Location, seq: int) -> list[str]:
        """Return the id of the checkpoint at a position, if one is there."""
        binds = location.binds() | {"p_seq": seq}
        return [
            row.checkpoint_id for row in await run_query(self.db, read_name(self.db.dialect), binds)
        ]

    async def _check_index(self, index: str, whole: bool) -> None:
        d, faults = self.db.dialect, self.faults[index]
        name = d.text.index_name(index, self.db.schema)
        if name is not None:
            state = await run_query(self.db, read_index_state(d), {"p_index": name})
            if not state:
                faults.reason = "is not there"
            elif not state[0].in_use:
                faults.reason = "is not valid: it is not kept up to date, or no query uses it"
        if whole and d.text.check_integrity(index):
            if self.db.read_only:
                self._uncompared.append(index)
                return
            try:
                count = len(d.text.check_integrity(index))
                steps = [compare_with_rows(d, index=index, step=n) for n in range(count)]
                await self.db.run(partial(program_of, *steps), EXAMINE_INDEX)
            except KeyMissing:
                self._uncompared.append(index)
            except Corrupt:
                faults.reason = "does not agree with the rows"

    async def _find_missed(
        self, index: str, location: Location, low: RowKey, high: RowKey
    ) -> set[RowKey]:
        """Return the rows of a range that an index does not find."""
        d = self.db.dialect
        binds = location.binds() | {"p_low": low, "p_high": high}
        has_setting = d.text.force_index() is not None

        def program() -> Program[set[RowKey]]:
            if has_setting:
                yield use_text_indexes(d), None
            rows = yield find_missed(d, index=index), binds
            return {row[0] for row in rows}

        # The setting that keeps the planner to the index ends with its transaction.
        return await self.db.run(program, READ_IN_TRANSACTION if has_setting else READ)

    async def _rebuild_index(self, index: str) -> bool:
        """Rebuild an index; return whether there is a way to."""
        d = self.db.dialect
        steps = [rebuild_index(d, index=index, step=n) for n in range(len(d.text.rebuild(index)))]
        if steps:
            intent = MAINTENANCE if len(steps) == 1 else WRITE_ROWS
            await self.db.run(partial(program_of, *steps), intent)
        return bool(steps)


def _sort_key(row: RowKey) -> RowKey:
    """Return the key by which the database sorts a row."""
    return encode_id(row) if isinstance(row, str) else row


# --- Statements ----------------------------------------------------------------------------------


@statement()
def read_index_state(dialect: Dialect) -> Executable | None:
    """Select whether the database uses a text index."""
    return dialect.text.index_state()


@statement(index=tuple(TEXT_INDEXES), step=range(COMPARISON_STEPS))
def compare_with_rows(dialect: Dialect, index: str, step: int) -> Executable | None:
    """Step of letting the database compare a text index with its rows, and write to it."""
    steps = dialect.text.check_integrity(index)
    return steps[step] if step < len(steps) else None


@statement(unproven=REPORTED, index=tuple(TEXT_INDEXES))
def find_missed(dialect: Dialect, index: str) -> Executable | None:
    """Select the rows of a range that a text index does not find."""
    return dialect.text.unindexed_rows(index)


@statement()
def use_text_indexes(dialect: Dialect) -> Executable | None:
    """Let the next statements of the transaction use the text indexes."""
    return dialect.text.force_index()


@statement(index=tuple(TEXT_INDEXES), step=range(REBUILD_STEPS))
def rebuild_index(dialect: Dialect, index: str, step: int) -> Executable | None:
    """Step of building a text index anew."""
    steps = dialect.text.rebuild(index)
    return steps[step] if step < len(steps) else None

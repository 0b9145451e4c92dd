"""The text indexes: do they find the rows, are they in use, and building them anew.

There are three: of what the steps said (`deltas_search`), of their metadata (`checkpoints_meta`),
and of the items of stores (`store_items_search`). They are the whole database's, not a tenant's.
How one is looked into is the dialect's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from memalchemy.database import READ, WRITE_ROWS, WRITE_ROWS_STATEMENT, Database
from memalchemy.dialects import TEXT_INDEXES
from memalchemy.errors import AuthenticationFailed, Corrupt, StatementFailed
from memalchemy.keys import encode_id
from memalchemy.log import Log
from memalchemy.statements import Program
from memalchemy.verify import queries
from memalchemy.verify.logs import ask
from memalchemy.verify.report import MAX_AFFECTED, Place, Tally, counted

Row = int | str
"""A position of a log, or a key of a namespace."""

LOOKS = 3
"""A row is missed when it was missed so often. Beside savers and deleters PostgreSQL was seen to
miss, once, rows that it did not have any more a moment later; what is damaged stays missed."""

OF_LOGS = ("deltas_search", "checkpoints_meta")

KEPT = 1000
"""Rows that were not found are looked for again after a repair: so many."""


@dataclass(slots=True)
class IndexReading:
    """What is wrong with one index."""

    index: str
    looked: int = 0
    missed: int = 0
    rows: list[tuple[Place, Row]] = field(default_factory=list)
    reason: str | None = None
    obstacle: str | None = None
    """Why it could not be built anew."""

    @property
    def is_wrong(self) -> bool:
        return self.reason is not None or self.missed > 0

    def miss(self, place: Place, row: Row) -> None:
        self.missed += 1
        if len(self.rows) < KEPT:
            self.rows.append((place, row))


class TextIndexes:
    """The indexes of a database, as they are read."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.readings = {
            index: IndexReading(index)
            for index in TEXT_INDEXES
            if db.dialect.text.unindexed_rows(index) is not None
        }

    async def look(self, place: Place, low: Row, high: Row) -> None:
        """Look for the rows of a range of positions, or of keys."""
        for index, reading in self.readings.items():
            if reading.reason is not None or (index in OF_LOGS) is not isinstance(place, Log):
                continue
            try:
                missed = await self._unfindable(index, place, low, high)
                for _ in range(LOOKS - 1):
                    if missed:
                        ends = sorted(missed, key=_in_order)
                        missed &= await self._unfindable(index, place, ends[0], ends[-1])
            except Corrupt:
                reading.reason = "cannot be read"
                continue
            except StatementFailed:
                reading.reason = "cannot be asked for the words of a row: they are none"
                continue
            reading.looked += 1
            for row in sorted(missed, key=_in_order):
                reading.miss(place, row)

    async def prove(self, *, whole: bool) -> None:
        """Ask the database: is each index in use and, if *whole*, is all of it right."""
        for index in self.readings:
            await self._prove(index, whole)

    async def repair(self, *, whole: bool) -> list[str]:
        """Build anew what is wrong, and look again; what is right now."""
        repaired = []
        for index, before in list(self.readings.items()):
            if not before.is_wrong:
                continue
            try:
                if not await self._rebuild(index):
                    before.obstacle = "it cannot be built anew from here"
                    continue
            except (AuthenticationFailed, StatementFailed) as error:
                before.obstacle = str(error)
                continue
            after = self.readings[index] = IndexReading(index)
            for place, row in before.rows:
                await self.look(place, row, row)
            await self._prove(index, whole)
            if not after.is_wrong:
                repaired.append(index)
        return repaired

    async def report(self, tally: Tally) -> None:
        """What is wrong, as findings."""
        d = self.db.dialect
        for index, reading in self.readings.items():
            if not reading.is_wrong:
                continue
            called = d.text.index_name(index, self.db.schema) or index
            what = reading.reason or "does not find " + counted(
                reading.missed, "row by what is in it", "rows by what is in them"
            )
            remedy = "memalchemy verify --repair"
            if reading.obstacle is not None:
                remedy = f"{reading.obstacle}; {d.text.repair_advice(index, self.db.schema)}"
            names: list[str] = []
            for place, row in reading.rows[:MAX_AFFECTED]:
                names += [row] if isinstance(row, str) else await self._names(place, row)
            only = reading.rows[0][0] if len({place for place, _ in reading.rows}) == 1 else None
            tally.add(
                "text-index",
                f"the text index {called} {what}",
                only,
                affected=tuple(names),
                affected_count=reading.missed,
                remedy=remedy,
            )

    async def _names(self, place: Place, seq: int) -> list[str]:
        statement = queries.read_name_at(self.db.dialect)
        found = await ask(self.db, statement, place.binds() | {"p_seq": seq})
        return [row.checkpoint_id for row in found]

    async def _prove(self, index: str, whole: bool) -> None:
        d, reading = self.db.dialect, self.readings[index]
        name = d.text.index_name(index, self.db.schema)
        if name is not None:
            state = await ask(self.db, queries.text_index_state(d), {"p_index": name})
            if not state:
                reading.reason = "is not there"
            elif not state[0].in_use:
                reading.reason = "is not valid, so that no query uses it"
        if whole and d.text.check_integrity(index) is not None:

            def program() -> Program[None]:
                yield queries.prove_text_index(d, index=index), None

            try:
                await self.db.run(program, WRITE_ROWS)
            except Corrupt:
                reading.reason = "does not agree with the rows"

    async def _unfindable(self, index: str, place: Place, low: Row, high: Row) -> set[Row]:
        d = self.db.dialect
        binds = place.binds() | {"p_low": low, "p_high": high}
        alone = d.text.force_index() is not None

        def program() -> Program[set[Row]]:
            if alone:
                yield queries.only_by_text_index(d), None
            rows = yield queries.text_unfindable(d, index=index), binds
            return {row[0] for row in rows}

        # What keeps the planner to the index holds for a transaction, so it takes one.
        return await (self.db.run(program, WRITE_ROWS) if alone else self.db.run(program, READ))

    async def _rebuild(self, index: str) -> bool:
        d = self.db.dialect
        steps = len(d.text.rebuild(index))

        def program() -> Program[None]:
            for step in range(steps):
                yield queries.rebuild_text_index(d, index=index, step=step), None

        if steps:
            await self.db.run(program, WRITE_ROWS_STATEMENT if steps == 1 else WRITE_ROWS)
        return steps > 0


def _in_order(row: Row) -> Row:
    """What rows are ordered by in the database."""
    return encode_id(row) if isinstance(row, str) else row

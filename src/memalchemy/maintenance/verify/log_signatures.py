"""The check of the signatures of one log: of each row, and of the sums that its head tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from memalchemy.codec.signed_rows import (
    checkpoint_content_of,
    delta_content_of,
    delta_words_of,
    head_content,
)
from memalchemy.database import READ, Database, off_loop
from memalchemy.database.signed_logs import read_signed_head, read_signed_rows
from memalchemy.errors import Corrupt, KeyMissing, NotSigned
from memalchemy.log import Log
from memalchemy.log.scan import run_query, scan
from memalchemy.log.signed_reads import check_sums
from memalchemy.maintenance.verify.report import ReportBuilder

ROWS_AT_ONCE = 100


class LogSignatureCheck:
    """Check the signatures of one log and add what is found to a report."""

    def __init__(self, db: Database, log: Log, report: ReportBuilder) -> None:
        self.db = db
        self.log = log
        self.report = report

    async def check(self) -> None:
        """Check the head, each row, and that none was removed, added or replaced by an older one.

        A wrong row is one finding, and the others are checked all the same. So are the sums, which
        are of the signatures: a row that is wrong hides no other that is missing.
        """
        binds = self.log.binds()
        heads = await run_query(self.db, read_signed_head(self.db.dialect, locks=False), binds)
        if not heads:
            return
        found = self.report.errors
        with self._finding("the head of the thread"):
            self.db.signing.check_head(heads[0].signature, head_content(heads[0]))
        head_is_right = self.report.errors == found
        for table in ("checkpoints", "deltas"):
            await self._check_table(table)
        if head_is_right:
            sums = partial(check_sums, self.db.dialect, self.log, self.db.signing)
            # A row without a signature, which has no sum, has its own finding.
            with self._finding("the rows of the thread"), suppress(NotSigned):
                await self.db.run(sums, READ)

    async def _check_table(self, table: str) -> None:
        pages = scan(
            self.db,
            lambda _: read_signed_rows(self.db.dialect, table=table),
            self.log.binds() | {"p_after": -1},
            lambda last: {"p_after": last.seq},
            size=ROWS_AT_ONCE,
        )
        async for page in pages:
            size = sum(len(row.payload) for row in page) if table == "deltas" else 0
            await off_loop(size, partial(self._check_page, table, page))

    def _check_page(self, table: str, page: list[Any]) -> None:
        keys, log_id = self.db.signing, self.log.key
        for row in page:
            if table == "checkpoints":
                with self._finding(f"checkpoint {row.checkpoint_id!r}", row):
                    keys.check(row.signature, checkpoint_content_of(row, log_id))
                continue
            with self._finding(f"the {row.kind} at position {row.seq}", row):
                keys.check(row.signature, delta_content_of(row, log_id))
            with self._finding(f"the words at position {row.seq}", row):
                keys.check_words(row.signature, delta_words_of(row, log_id))

    @contextmanager
    def _finding(self, what: str, row: Any = None) -> Iterator[None]:
        """Add an error of a signature to the report."""
        try:
            yield
        except (Corrupt, KeyMissing) as error:
            place = {} if row is None else {"seq": row.seq}
            self.report.add("signature", f"{what}: {error}", self.log, **place)

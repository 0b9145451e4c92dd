"""The check of the signatures of one log: of each row, and of the sums that its head tells."""

from __future__ import annotations

import shlex
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
from memalchemy.maintenance.verify.report import (
    REMEDIES,
    ReportBuilder,
    program,
    signature_code,
)

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
                place = {"checkpoint_id": row.checkpoint_id, "seq": row.seq}
                with self._finding(f"checkpoint {row.checkpoint_id!r}", **place):
                    keys.check(row.signature, checkpoint_content_of(row, log_id))
                continue
            with self._finding(f"the {row.kind} at position {row.seq}", seq=row.seq):
                keys.check(row.signature, delta_content_of(row, log_id))
            with self._finding(f"the words at position {row.seq}", seq=row.seq):
                keys.check_words(row.signature, delta_words_of(row, log_id))

    @contextmanager
    def _finding(self, what: str, **place: Any) -> Iterator[None]:
        """Add an error of a signature to the report, with its *place* in the log."""
        try:
            yield
        except (Corrupt, KeyMissing) as error:
            code = signature_code(error)
            remedy = REMEDIES.get(code) or self._remedy()
            self.report.add(code, f"{what}: {error}", self.log, remedy=remedy, **place)

    def _remedy(self) -> str:
        """Say what can be done about a row that is not what was signed."""
        thread = shlex.quote(self.log.thread_id)
        return (
            "look at the thread, and restore it from a backup or delete it; if you keep it as it "
            f"is now, {program(self.log.tenant)} sign --thread {thread} --resign"
        )

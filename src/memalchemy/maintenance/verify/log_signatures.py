"""The check of the signatures of one log: of each row, and of the sums that its head tells."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Any

from memalchemy.codec.signatures import SigningKeys, Sums
from memalchemy.codec.signed_rows import (
    checkpoint_content_of,
    delta_content_of,
    delta_words_of,
    head_content,
)
from memalchemy.database import READ, Database, HostConnection, off_loop
from memalchemy.errors import Corrupt, KeyMissing, MemalchemyError, NotSigned
from memalchemy.log import Log
from memalchemy.log.scan import run_query, scan
from memalchemy.maintenance.command_names import program
from memalchemy.maintenance.log_positions import BEFORE_ALL
from memalchemy.maintenance.verify.report import ReportBuilder
from memalchemy.protection.signed_logs import read_signed_head, read_signed_rows
from memalchemy.protection.signed_reads import check_sums

ROWS_AT_ONCE = 100


class LogSignatureCheck:
    """Check the signatures of one log and add what is found to a report."""

    def __init__(
        self,
        db: Database,
        log: Log,
        report: ReportBuilder,
        told: Set[int],
        keys: SigningKeys | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        self.db = db
        self.log = log
        self.report = report
        self._keys = db.signing if keys is None else keys
        self._connection = connection
        self._head: Any = None
        self._read: list[tuple[str, int, bytes | None]] = []
        """The kinds, positions and signatures of the rows that were checked."""
        self._told = told
        """Positions whose payload is damaged, which has a finding of its own."""

    async def check(self, after: int = BEFORE_ALL, head_then: Any | None = None) -> None:
        """Check the head, each row, and that none was removed, added or replaced by an older one.

        The rows up to *after* are not checked. They are added to the sums, or are there as
        *head_then* tells: see `verify_log`.

        A wrong row is one finding, and the others are checked all the same. So are the sums, which
        are of the signatures: a row that is wrong hides no other that is missing.
        """
        head_is_right = await self._check_head()
        for table in ("checkpoints", "deltas"):
            await self._check_table(table, after)
        if head_is_right and not self._has_grown_from(head_then):
            sums = partial(check_sums, self.db.dialect, self.log, self._keys)
            try:
                await self.db.run(sums, READ, connection=self._connection)
            except (NotSigned, KeyMissing):
                pass  # a row that has no sum, which has its own finding
            except Corrupt as error:
                self._add_finding(error, "the rows of the thread")

    def _has_grown_from(self, head_then: Any | None) -> bool:
        """Return whether the rows that were checked make the sums of an earlier head those of now.

        Then the rows before them are those that it was signed with.
        """
        keys = self._keys
        if head_then is None:
            return False
        try:
            then = keys.check_head(head_then.signature, head_content(head_then))
            now = keys.check_head(self._head.signature, head_content(self._head))
            if then is None or now is None:
                return False
            named = (one for kind, _, one in self._read if kind == "checkpoint")
            others = (one for kind, _, one in self._read if kind in ("entry", "write"))
            entries = (seq for kind, seq, _ in self._read if kind == "entry")
            return now == Sums(
                keys.sum_of(named, then.checkpoints),
                keys.sum_of(others, then.others),
                max(entries, default=then.last_entry),
            )
        except (Corrupt, KeyMissing):
            return False

    async def check_sample(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Check the head, and the rows in some *ranges* of positions, each by itself."""
        await self._check_head()
        for low, high in ranges:
            binds = self.log.binds() | {"p_after": low - 1, "p_limit": high - low + 1}
            for table in ("checkpoints", "deltas"):
                statement = read_signed_rows(self.db.dialect, table=table)
                rows = await run_query(self.db, statement, binds, self._connection)
                self._check_page(table, [row for row in rows if row.seq <= high])

    async def _check_head(self) -> bool:
        """Return whether the head is there and is what was signed."""
        statement = read_signed_head(self.db.dialect, locks=False)
        heads = await run_query(self.db, statement, self.log.binds(), self._connection)
        if not heads:
            return False
        self._head = heads[0]
        content = head_content(heads[0])
        return self._check_row(
            "the head", partial(self._keys.check_head, heads[0].signature, content)
        )

    async def _check_table(self, table: str, after: int) -> None:
        pages = scan(
            self.db,
            lambda _: read_signed_rows(self.db.dialect, table=table),
            self.log.binds() | {"p_after": after},
            lambda last: {"p_after": last.seq},
            self._connection,
            size=ROWS_AT_ONCE,
        )
        async for page in pages:
            size = sum(len(row.payload) for row in page) if table == "deltas" else 0
            await off_loop(size, partial(self._check_page, table, page))

    def _check_page(self, table: str, page: list[Any]) -> None:
        keys, log_id = self._keys, self.log.key
        for row in page:
            kind = "checkpoint" if table == "checkpoints" else row.kind
            self._read.append((kind, row.seq, row.signature))
            if table == "checkpoints":
                place = {"checkpoint_id": row.checkpoint_id, "seq": row.seq}
                content = checkpoint_content_of(row, log_id)
                check = partial(keys.check, row.signature, content)
                self._check_row(f"checkpoint {row.checkpoint_id!r}", check, **place)
                continue
            if row.seq in self._told:
                continue
            check = partial(keys.check, row.signature, delta_content_of(row, log_id))
            if self._check_row(f"the {row.kind} at position {row.seq}", check, seq=row.seq):
                check = partial(keys.check_words, row.signature, delta_words_of(row, log_id))
                self._check_row(f"the words at position {row.seq}", check, seq=row.seq)

    def _check_row(self, what: str, check: Callable[[], object], **place: Any) -> bool:
        """Return whether a row is what was signed; report it, with its *place*, if it is not."""
        try:
            check()
        except (Corrupt, KeyMissing) as error:
            self._add_finding(error, what, **place)
            return False
        return True

    def _add_finding(self, error: MemalchemyError, what: str, **place: Any) -> None:
        self.report.add_signature_error(error, what, self.log, self._remedy(), **place)

    def _remedy(self) -> str:
        """Say what can be done about a row that is not what was signed."""
        thread = shlex.quote(self.log.thread_id)
        return (
            "look at the thread, and restore it from a backup or delete it; if you keep it as it "
            f"is now, {program(self.log.tenant)} sign --thread {thread} --resign"
        )

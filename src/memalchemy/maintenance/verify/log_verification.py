"""The whole check of one log: its head, its rows and their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memalchemy.codec.encryption import Keyring
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Corrupt
from memalchemy.log import Log
from memalchemy.maintenance.log_positions import BEFORE_ALL
from memalchemy.maintenance.verify.log_signatures import LogSignatureCheck
from memalchemy.maintenance.verify.logs import LogCheck, Range
from memalchemy.maintenance.verify.report import ReportBuilder


async def verify_log(
    db: Database,
    log: Log,
    report: ReportBuilder,
    sample: Sequence[int] | None = None,
    *,
    after: int = BEFORE_ALL,
    head_then: Any | None = None,
    keyring: Keyring | None = None,
    connection: HostConnection | None = None,
) -> list[Range]:
    """Check a log and add what is found to *report*; return the ranges of positions that were read.

    Args:
        after: only the head and the rows behind this position: those up to it are known to be as
            an earlier check has found them.
        head_then: the head of the log at that check, if no row up to *after* is gone since: its
            signature tells the sums of those rows.
        sample: only the rows at, or next after, these positions.
        keyring: the keys to open and prove rows with, those of *db* unless it is given.
        connection: a snapshot to read on.
    """
    keyring = db.keyring if keyring is None else keyring
    check = LogCheck(db, log, report, keyring, connection)
    try:
        if not await check.check_head():
            return []  # deleted since it was listed
    except Corrupt as error:
        report.add("unreadable", f"the head of the log: {error}", log)
    try:
        ranges = await (check.check_all(after) if sample is None else check.check_sample(sample))
    except Corrupt as error:
        report.add("unreadable", f"rows of the log cannot be read: {error}", log)
        return []
    if keyring.signing.signs:
        told = check.damaged
        signatures = LogSignatureCheck(db, log, report, told, keyring.signing, connection)
        await (
            signatures.check(after, head_then)
            if sample is None
            else signatures.check_sample(ranges)
        )
    return ranges

"""The checks of adapters, on each kind of thing that each framework stores."""

from __future__ import annotations

from collections import Counter

import pytest
from matrix_recorder import Counts, record
from subjects import INSTALLED, delete_if_there

from memalchemy import Database
from memalchemy.conformance import ADAPTER_CHECKS, check_adapter

SUBJECTS = {
    subject: f"subjects.{name}:SUBJECTS[{subject}]"
    for name, module in INSTALLED.items()
    for subject in module.SUBJECTS
}
LEFT_OUT: dict[tuple[str, str], str] = {}
"""The reason, by a subject and the check that it is not made for."""

KILL = "a_killed_process_loses_no_acknowledged_write"
NO_NAMESPACE = "open takes no namespace=, and the subject has no namespaced="


@pytest.mark.parametrize("subject", SUBJECTS)
async def test_an_adapter_keeps_its_promises(subject: str, shared_url: str, lasting: None) -> None:
    checks = [check for check in ADAPTER_CHECKS if (subject, check.name) not in LEFT_OUT]
    report = await check_adapter(SUBJECTS[subject], database=shared_url, checks=checks)

    for kind, results in (
        ("kill", [one for one in report.results if one.check == KILL]),
        ("promises", [one for one in report.results if one.check != KILL]),
    ):
        record(Counts(kind, dict(Counter(one.status for one in results))))
    report.raise_for_failures()
    assert {one.message for one in report.skipped} <= {NO_NAMESPACE}


@pytest.mark.parametrize("name", SUBJECTS)
async def test_what_is_not_there_can_be_deleted_and_it_is_told_how(name: str, db: Database) -> None:
    subject = next(one.SUBJECTS[name] for one in INSTALLED.values() if name in one.SUBJECTS)
    adapter = subject.open(db)
    await subject.write(adapter, "once", "there")

    for id_ in ("never", "once", "once"):
        await delete_if_there(subject, adapter, id_)

    assert await subject.read(adapter, "once") == []


def test_what_is_left_out_exists() -> None:
    checks = {check.name for check in ADAPTER_CHECKS}

    assert {KILL, *(check for _, check in LEFT_OUT)} <= checks

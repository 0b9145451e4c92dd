"""The checks of adapters on memalchemy's own classes."""

from __future__ import annotations

import pytest
from native_subjects import SUBJECTS

from memalchemy.conformance import check_adapter

NO_NAMESPACE = "open takes no namespace=, and the subject has no namespaced="
IN_MEMORY = "a database in memory has one "


@pytest.mark.parametrize("name", SUBJECTS)
async def test_a_class_keeps_the_promises_of_an_adapter(
    name: str, shared_url: str, database: str
) -> None:
    report = await check_adapter(f"native_subjects:SUBJECTS[{name}]", database=shared_url)

    report.raise_for_failures()
    reasons = {one.message for one in report.skipped} - {NO_NAMESPACE}
    assert all(reason.startswith(IN_MEMORY) for reason in reasons)
    assert not reasons or database == "sqlite-memory"

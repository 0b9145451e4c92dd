"""LangGraph's own conformance suite, on every database: all of it, with all capabilities."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version

import pytest

pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.checkpoint.conformance import checkpointer_test, validate
from matrix_recorder import Suite, record

from memalchemy import Database
from memalchemy.integrations.langgraph import MemalchemySaver

PACKAGE = "langgraph-checkpoint-conformance"
TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


async def test_every_capability_is_detected_and_every_test_of_it_passes(db: Database) -> None:
    made = 0

    @checkpointer_test(name="memalchemy")
    async def ours() -> AsyncIterator[MemalchemySaver]:
        nonlocal made
        made += 1  # of its own for each capability: they count what is there
        yield MemalchemySaver(db.for_tenant(f"{db.tenant[:50]}-{made}"))

    results = (await validate(ours)).to_dict()["results"]

    outcomes = {
        f"{name}/{number}": ("passed", "")
        for name, found in results.items()
        for number in range(found["tests_passed"])
    }
    record(Suite(PACKAGE, version(PACKAGE), outcomes))
    failures = {name: found["failures"] for name, found in results.items() if found["failures"]}
    assert not failures
    assert {name for name, found in results.items() if found["detected"]} == set(TESTS)
    assert {name: found["tests_passed"] for name, found in results.items()} == TESTS
    assert sum(TESTS.values()) == 81

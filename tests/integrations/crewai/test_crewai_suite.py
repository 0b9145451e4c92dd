"""CrewAI's own tests of its flows, memory and checkpoints, from its sdist, on our classes.

`crewai_plugin` replaces `SQLiteFlowPersistence`, `LanceDBStorage`, `JsonProvider` and
`SqliteProvider`. The tests that are left out are named with reasons; the counts are those of this
release.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import suites

VERSION = "1.15.30"

MODULES = {
    "test_flow_persistence.py": 15,
    "test_flow_persistence_factory.py": 3,
    "test_flow_resumability_regression.py": 4,
    "test_async_human_feedback.py": 60,
    "test_flow_ask.py": 48,
    "test_flow_conversation.py": 173,
    "test_flow_from_definition.py": 173,
    "test_execution_uuid.py": 11,
    "test_checkpoint.py": 51,
    "events/test_event_replay.py": 5,
    "memory/test_unified_memory.py": 61,
    "memory/test_memory_root_scope.py": 63,
    "memory/test_storage_factory.py": 4,
    "memory/test_dimension_mismatch.py": 5,
    "memory/test_lancedb_filter_escaping.py": 25,
    "memory/test_lancedb_update.py": 1,
}
"""Of each, how many pass."""

_VALUES = "expects that a datetime or a UUID comes back as its text, and ours returns it as it was"
_SIZES = "expects that vectors of another size are refused, and ours keeps them beside the others"
_PATHS = "expects that the prefix /share\\ stands for /share\\docs; a scope of ours is a path"
_METADATA = "expects that a datetime or a set in metadata is refused, and ours stores it"
_FILES = "reads or writes the files of CrewAI's own providers"
_SLOW = "waits ten seconds for a server of traces, and stores nothing"

_CHECKPOINTS = "tests/test_checkpoint.py"
_FLOWS = "tests/test_flow_persistence.py"
LEFT_OUT = {
    f"{_FLOWS}::test_persist_complex_types_structured_state": _VALUES,
    f"{_FLOWS}::test_persist_complex_types_dict_state": _VALUES,
    f"{_FLOWS}::test_save_pending_feedback_complex_types": _VALUES,
    "tests/memory/test_dimension_mismatch.py::test_lancedb_save_mismatch": _SIZES,
    "tests/memory/test_dimension_mismatch.py::test_lancedb_mixed_batch": _SIZES,
    "tests/memory/test_dimension_mismatch.py::test_lancedb_search_mismatch": _SIZES,
    "tests/memory/test_dimension_mismatch.py::test_lancedb_update_mismatch": _SIZES,
    "tests/memory/test_dimension_mismatch.py::test_lancedb_reopened_store": _SIZES,
    "tests/memory/test_lancedb_filter_escaping.py::test_percent_underscore_and_backslash": _PATHS,
    "tests/memory/test_lancedb_update.py::test_update_serialization_failure": _METADATA,
    f"{_CHECKPOINTS}::TestPrune::test_prune_treats": _FILES,
    f"{_CHECKPOINTS}::TestPrune::test_prune_keeps_newest": _FILES,
    f"{_CHECKPOINTS}::TestPrune::test_prune_zero": _FILES,
    f"{_CHECKPOINTS}::TestJsonProviderFork": _FILES,
    f"{_CHECKPOINTS}::TestSqliteProviderFork::test_checkpoint": _FILES,
    f"{_CHECKPOINTS}::TestSqliteProviderFork::test_prune": _FILES,
    "tests/events/test_event_replay.py::TestCheckpointResumeReplaysEvents": _FILES,
    "tests/test_flow_conversation.py::TestNestedCrewTracing::test_nested_agent_executor": _SLOW,
}
"""Each names the tests that begin with it. What those of the providers test is in
test_crewai_checkpoints.py, on ours and on CrewAI's own."""


@pytest.mark.alone
def test_crewais_own_tests_pass(tmp_path: Path, database_url: str) -> None:
    sdist = suites.unpacked("crewai", VERSION, tmp_path)
    modules = [f"tests/{name}" for name in MODULES]
    given = {"MEMALCHEMY_TEST_URL": database_url, "CREWAI_STORAGE_DIR": str(tmp_path / "storage")}
    counts, said = suites.run(
        sdist,
        "crewai_plugin",
        *suites.AS_OURS,
        *modules,
        left_out=LEFT_OUT,
        environment={**os.environ, **given},
    )

    assert counts == {"passed": sum(MODULES.values()), "left out": 35}, said

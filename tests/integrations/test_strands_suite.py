"""Strands' own tests of storages and of session managers, from its sdist, on our classes.

Its `InMemoryStorage` and the repository of its tests are replaced. The tests that are left out are
named with reasons; the counts are those of this release.
"""

from __future__ import annotations

import os
from pathlib import Path

import suites

VERSION = "1.62.0"

MODULES = {
    "session/test_repository_session_manager.py": 51,
    "session/test_snapshot_session_manager.py": 113,
    "storage/test_in_memory_storage.py": 18,
    "storage/test_storage.py": 32,
    "storage/search/test_keyword.py": 23,
    "agent/test_agent_storage.py": 17,
    "vended_memory_stores/file_memory_store/test_store.py": 38,
    "_context_manager/test_context_manager.py": 41,
    "_context_manager/test_retrieval_tool.py": 22,
    "_context_manager/test_stash.py": 38,
    "_context_manager/test_stash_integration.py": 12,
}
"""Of each, how many pass."""

_LOST = "expects that stored data is lost at the end of the process"
_STRATEGY = "gives the storage a search strategy; `MemalchemyStorage` searches by itself"
_CLEAR = "is about `clear`, which only the storage in memory has"
_STASH = "session/test_snapshot_session_manager.py::TestSnapshotStashIntegration"
_MEMORY = "storage/test_in_memory_storage.py::TestInMemoryStorage"
LEFT_OUT = {
    f"{_STASH}::test_save_includes_inline_stash_for_ephemeral_storage": _LOST,
    f"{_STASH}::test_save_omits_stash_when_empty": _LOST,
    f"{_STASH}::test_immutable_snapshot_includes_stash": _LOST,
    f"{_STASH}::test_ephemeral_detection_survives_namespacing": _LOST,
    f"{_MEMORY}::test_clear": _CLEAR,
    f"{_MEMORY}::test_namespace_clear_only_clears_prefix": _CLEAR,
    f"{_MEMORY}::test_namespace_passes_scoped_instance_to_strategy": _STRATEGY,
    f"{_MEMORY}::test_write_indexes_with_search_strategy": _STRATEGY,
    f"{_MEMORY}::test_search_delegates_to_strategy": _STRATEGY,
    "storage/search/test_keyword.py::TestKeywordSearch::test_skips_keys_where_read_returns_none": (
        "writes to a private dict of the storage in memory"
    ),
    "_context_manager/test_context_manager.py::TestStashIsDurable::"
    "test_false_with_namespaced_in_memory_storage": _LOST,
    "_context_manager/test_stash.py::TestStorageTypeName::"
    "test_returns_class_name_of_base_storage": "asks for the name InMemoryStorage",
}


def test_strands_own_tests_pass(shared_url: str, database: str, tmp_path: Path) -> None:
    sdist = suites.unpacked("strands-agents", VERSION, tmp_path)
    modules = [f"tests/strands/{name}" for name in MODULES]
    left_out = {f"tests/strands/{name}": reason for name, reason in LEFT_OUT.items()}
    url = {} if database == "sqlite-memory" else {"STRANDS_TESTS_URL": shared_url}
    counts, said = suites.run(
        sdist,
        "strands_plugin",
        *suites.AS_OURS,
        *modules,
        left_out=left_out,
        environment=os.environ | url,
    )

    assert counts == {"passed": sum(MODULES.values()), "left out": len(LEFT_OUT)}, said

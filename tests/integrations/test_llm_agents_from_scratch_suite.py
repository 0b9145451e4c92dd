"""llm-agents-from-scratch's own tests, from its sdist, on `MemalchemyMemoryStore`.

`llm_agents_plugin` replaces the class. The tests that are left out are named with reasons; the
counts are those of this release.
"""

from __future__ import annotations

from pathlib import Path

from suites import AS_OURS, run, unpacked

MEMORY = ("test_base", "test_json_store", "test_memory", "test_recipes")
_STORE = "tests/memory/test_json_store.py::test_"
_PRIVATE = "looks at the private list of episodes"
_FILE = "reads the JSONL file"
LEFT_OUT = {
    f"{_STORE}init_empty_when_file_missing": _PRIVATE,
    f"{_STORE}init_loads_existing_episodes": _PRIVATE,
    f"{_STORE}write_multiple_episodes": _PRIVATE,
    f"{_STORE}reload_restores_written_episodes": _PRIVATE,
    f"{_STORE}delete_rewrites_file_keeping_other_episodes": _PRIVATE,
    f"{_STORE}write_persists_to_disk": _FILE,
    f"{_STORE}delete_removes_episode": _FILE,
    f"{_STORE}recall_raises_not_implemented_when_search_mode": "is about what theirs cannot do",
}


def test_their_own_tests_pass(tmp_path: Path) -> None:
    sdist = unpacked("llm-agents-from-scratch", "0.0.26", tmp_path)
    files = [f"tests/memory/{name}.py" for name in MEMORY]
    counts, said = run(sdist, "llm_agents_plugin", *AS_OURS, *files, left_out=LEFT_OUT)

    assert counts == {"passed": 41, "left out": len(LEFT_OUT)}, said

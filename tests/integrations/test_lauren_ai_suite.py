"""lauren-ai's own tests, from its sdist, on our stores.

`lauren_ai_plugin` replaces the classes. The tests that are left out are named with reasons; the
counts are those of this release.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from suites import AS_OURS, unpacked
from suites import run as run_suite

from servers import Postgres, migrated_database

STORED = """
    integration/test_sqlite_persistent_storage unit/test_user_memory unit/test_vector_extended
"""
SELECTED = f"""
    {STORED} unit/test_memory unit/test_agent_runner unit/test_knowledge unit/test_module_extended
    integration/test_agent_runner_e2e integration/test_knowledge_agent
    integration/test_per_agent_state integration/test_skill_chat_config
    integration/test_skill_context_window integration/test_skill_conversation_memory
    integration/test_skill_embeddings integration/test_skill_memory_summarization
    integration/test_skill_rag_pipeline integration/test_skill_session_isolation
    integration/test_skill_vector_memory integration/test_skill_vector_store
    integration/test_use_knowledge_sources
"""
"""Every file of theirs that makes one of the stores; those of STORED on a server as well."""

LEFT_OUT = {
    "tests/integration/test_skill_conversation_memory.py::TestInMemoryConversationStore"
    "::test_list_conversations_returns_stored_ids": "lists conversations without a message",
    "tests/unit/test_module_extended.py::TestBuildTransportExtended"
    "::test_ollama_import_error_raises_agent_config_error": "is about httpx not being installed",
}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("lauren-ai", "1.6.0", tmp_path_factory.mktemp("lauren-ai"))


def run(sdist: Path, names: str, **environment: str) -> tuple[dict[str, int], str]:
    files = [f"tests/{name}.py" for name in names.split()]
    here = os.environ | environment
    return run_suite(
        sdist, "lauren_ai_plugin", *AS_OURS, *files, left_out=LEFT_OUT, environment=here
    )


def test_their_own_tests_pass_on_sqlite(sdist: Path) -> None:
    counts, said = run(sdist, SELECTED)

    assert counts == {"passed": 445, "left out": len(LEFT_OUT)}, said


def test_their_own_tests_of_what_is_stored_pass_on_postgresql(
    sdist: Path, postgres: Postgres
) -> None:
    with migrated_database(postgres) as name:
        counts, said = run(sdist, STORED, LAUREN_SUITE_URL=postgres.url(name))

    assert counts == {"passed": 53}, said

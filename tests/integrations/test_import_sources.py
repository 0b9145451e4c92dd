"""Every source of `memalchemy import` is complete, and says what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memalchemy.importers.sources import SOURCES

DOCS = Path(__file__).parents[2] / "docs" / "importing.md"

NEEDS_NO_FRAMEWORK = {"crewai"}
WITHOUT_FRAMEWORKS = """
import asyncio, sys
for name in ("claude_agent_sdk", "crewai", "google", "lauren_ai", "lazybridge", "llama_index",
             "llm_agents_from_scratch", "locus", "strands"):
    sys.modules[name] = None
from memalchemy.errors import DatabaseUnreachable, DriverMissing
from memalchemy.importers.sources import SOURCES
for name, source in SOURCES.items():
    try:
        asyncio.run(source.count("nowhere"))
    except (DatabaseUnreachable, DriverMissing) as error:
        print(name, error)
"""


def test_a_missing_framework_is_an_error_that_names_its_extra() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_FRAMEWORKS], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    said = dict(line.split(" ", 1) for line in ran.stdout.splitlines())
    assert said.keys() == SOURCES.keys()
    assert {name for name, one in said.items() if "memalchemy[" not in one} == NEEDS_NO_FRAMEWORK


@pytest.mark.parametrize("name", SOURCES)
def test_the_page_has_a_row_for_each_source(name: str) -> None:
    assert f"\n| `{name}` |" in DOCS.read_text()

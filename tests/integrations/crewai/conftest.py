"""CrewAI's tests share the modules of the folder above, and nothing of them leaves the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
import scratch

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_STORAGE_DIR": scratch.directory("CREWAI_STORAGE_DIR", "ma-crewai-"),
}


@pytest.fixture(scope="session", autouse=True)
def _locks_of_crewai_are_removed() -> None:
    """Let CrewAI's locks of files lie in its storage, and not in the directory for all programs."""
    from crewai_core import lock_store

    place = os.environ["CREWAI_STORAGE_DIR"]
    lock_store.tempfile = SimpleNamespace(gettempdir=lambda: place)

"""CrewAI's tests share the modules of the folder above, and nothing of them leaves the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import scratch

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_STORAGE_DIR": scratch.directory("CREWAI_STORAGE_DIR", "ma-crewai-"),
}

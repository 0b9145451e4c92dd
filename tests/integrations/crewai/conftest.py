"""CrewAI's tests share the modules of the folder above, and nothing of them leaves the machine."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

STORAGE = tempfile.mkdtemp(prefix="ma-crewai-")
atexit.register(shutil.rmtree, STORAGE, ignore_errors=True)
os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_STORAGE_DIR": STORAGE,
}

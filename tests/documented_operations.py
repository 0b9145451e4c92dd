"""What schemathesis finds where a server does other than its OpenAPI document says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from httpserver import TOKEN
from memalchemy.http.operations import OPERATIONS

EXCEPTIONS = Path(__file__).parent / "schemathesis.toml"


def check_operations(url: str, directory: Path, *, phase: str, examples: int = 1) -> None:
    """Ask every operation of the server at *url* as its document allows, and as it does not.

    Args:
        directory: where schemathesis leaves its files.
        phase: ``coverage`` of all that the schemas say, or ``fuzzing`` with random *examples*.
    """
    asked = subprocess.run(
        [
            sys.executable,
            "-c",
            "from schemathesis.cli import schemathesis; schemathesis()",
            "--config-file",
            str(EXCEPTIONS),
            "run",
            f"{url}/v1/openapi.json",
            "--header",
            f"Authorization: Bearer {TOKEN}",
            f"--max-examples={examples}",
            "--generation-deterministic",
            "--no-color",
            f"--phases={phase}",
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=570,  # against a hang; a busy machine takes minutes
        check=False,
    )

    assert asked.returncode == 0, asked.stdout[-6000:] + asked.stderr[-2000:]
    assert f"Tested: {len(OPERATIONS)}" in asked.stdout

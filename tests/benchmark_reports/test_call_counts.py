"""No path of a save or a load grows unseen: what it runs is counted, and held to a bound."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.calls import PATHS

from pages import ROOT


def test_no_path_runs_more_than_its_bound() -> None:
    """In a process of its own: here every statement is watched."""
    counting = [sys.executable, "-m", "benchmarks.calls"]
    ran = subprocess.run(counting, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line.partition(":")[0] for line in ran.stdout.splitlines()] == [p.name for p in PATHS]

"""The suite in several processes: who is alone, and what the workers report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SUITE = """
import os, time
from pathlib import Path
import pytest
from golden.watch import EVER_SEEN

@pytest.mark.parametrize("n", range(10))
def test_one(n):
    run("one", 0.02, meets="another")

@pytest.mark.alone
@pytest.mark.parametrize("n", range(3))
def test_alone(n):
    if os.fork() == 0:  # a process of the test's that outlives it
        time.sleep(1)  # timed: somebody else waits for it in vain
        os._exit(0)
    run("alone", 0.1)

@pytest.mark.parametrize("n", range(14))
def test_another(n):
    run("another", 0.02, meets="one")

def run(name, seconds, meets=None):
    EVER_SEEN.add(os.environ["PYTEST_XDIST_WORKER"])
    begun = time.monotonic()
    Path(name).touch()
    while meets and not Path(meets).exists():
        time.sleep(0.01)  # the first of both processes run beside each other
    time.sleep(seconds)  # timed: it runs for so long
    line = f"{name} {begun} {time.monotonic()} {os.environ['PYTEST_XDIST_WORKER']}\\n"
    with Path("ran").open("a") as file:
        file.write(line)
"""
CONFTEST = """
from golden.watch import EVER_SEEN
from parallel_runs import meet as pytest_configure

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"seen: {sorted(EVER_SEEN)}")
"""


def test_what_is_alone_runs_beside_nothing_and_what_workers_saw_is_known(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    options = ["-q", "-p", "xdist", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"]
    here = str(Path(__file__).parent)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-o", f"pythonpath={here}", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert ended.returncode == 0, ended.stdout
    assert "seen: ['gw0', 'gw1']" in ended.stdout
    lines = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    ran = [(name, float(begun), float(end)) for name, begun, end, _ in lines]
    assert len(ran) == 27
    overlapping = [
        {one[0], other[0]}
        for n, one in enumerate(ran)
        for other in ran[n + 1 :]
        if one[1] < other[2] and other[1] < one[2]
    ]
    assert {"one", "another"} in overlapping, "the others run beside each other"
    assert not [pair for pair in overlapping if "alone" in pair]

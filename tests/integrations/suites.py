"""Running of frameworks' own tests, from their published sdists, on our classes.

An sdist is downloaded once, into ``MEMALCHEMY_SDISTS`` or a temporary directory; no file of a
framework is part of this repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

SDISTS = Path(os.environ.get("MEMALCHEMY_SDISTS") or Path(tempfile.gettempdir(), "ma-sdists"))
HERE = Path(__file__).parent

AS_OURS = ("-W", "ignore", "-o", "addopts=", "-o", "asyncio_mode=auto")
"""Options for tests that are run without their project's own."""


def unpacked(package: str, version: str, place: Path) -> Path:
    """The sdist of a package, unpacked in *place*."""
    name = f"{package.replace('-', '_')}-{version}"
    archive = SDISTS / f"{name}.tar.gz"
    if not archive.exists():
        SDISTS.mkdir(parents=True, exist_ok=True)
        download = ["download", "--quiet", "--no-deps", "--no-binary", package]
        command = [sys.executable, "-m", "pip", *download, f"{package}=={version}"]
        subprocess.run([*command, "--dest", str(SDISTS)], check=True, timeout=300)
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place / name


def run(
    sdist: Path, plugin: str, *given: str, environment: Mapping[str, str] = os.environ
) -> tuple[Counter[str], str]:
    """Count the tests that passed, are expected to fail, and failed; return pytest's output, too.

    *given* are arguments of pytest; *plugin* is a module beside this one that replaces the classes.
    """
    report = sdist.parent / "report.xml"
    options = ["-q", "-p", plugin, "-p", "no:cacheprovider", f"--junit-xml={report}"]
    imports = [str(HERE), *(path for path in sys.path if path)]
    given_environment = {k: v for k, v in environment.items() if k != "MEMALCHEMY_URL"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *given],
        cwd=sdist,
        env={**given_environment, "PYTHONPATH": os.pathsep.join(imports)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    counts: Counter[str] = Counter()
    for case in ET.parse(report).iter("testcase"):
        outcome = case[0] if len(case) else None
        kind = "passed" if outcome is None else outcome.get("type", outcome.tag)
        counts[kind.removeprefix("pytest.")] += 1
    return counts, done.stdout[-6000:] + done.stderr[-2000:]

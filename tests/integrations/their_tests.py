"""Frameworks' own tests: their sdists, fetched when a test asks, and pytest run in one of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

SDISTS = Path(os.environ.get("MEMALCHEMY_SDISTS") or Path(tempfile.gettempdir(), "ma-sdists"))
HERE = Path(__file__).parent


def unpacked(name: str, version: str, place: Path) -> Path:
    """The sdist's directory in *place*. It is downloaded once, and kept beside the project."""
    full = f"{name.replace('-', '_')}-{version}"
    archive = SDISTS / f"{full}.tar.gz"
    if not archive.exists():
        SDISTS.mkdir(parents=True, exist_ok=True)
        download = ["download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command = [sys.executable, "-m", "pip", *download, f"{name}=={version}"]
        subprocess.run([*command, "--dest", str(SDISTS)], check=True, timeout=300)
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place / full


def outcomes(
    sdist: Path, plugin: str, files: Iterable[str], left_out: Iterable[str], **environment: str
) -> tuple[Counter[str], str]:
    """How many tests of *files* passed, failed and were skipped; and what pytest said."""
    report = sdist.parent / "report.xml"
    options = ["-q", "-p", plugin, "-p", "no:cacheprovider", "-W", "ignore"]
    options += ["-o", "addopts=", "-o", "asyncio_mode=auto", f"--junit-xml={report}"]
    options += [f"--deselect={name}" for name in left_out]
    imports = [str(HERE), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=sdist,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(imports)} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    cases = ET.parse(report).iter("testcase")
    counts = Counter("passed" if not len(case) else case[0].tag for case in cases)
    return counts, done.stdout[-6000:] + done.stderr[-2000:]

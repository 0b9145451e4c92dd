"""A framework's own tests, from its sdist as it was published, with our classes in place of theirs.

Sdists are downloaded when they are asked for, into ``MEMALCHEMY_SDISTS`` if that is set; nothing
of them is kept here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest


def sources(project: str, version: str, places: pytest.TempPathFactory) -> Path:
    """The directory of a project's sources, unpacked anew."""
    given = os.environ.get("MEMALCHEMY_SDISTS")
    place = Path(given) if given else places.mktemp("sdists")
    name = f"{project.replace('-', '_')}-{version}"
    archive = place / f"{name}.tar.gz"
    if not archive.exists():
        download = ("download", "-q", "--no-deps", "--no-binary", project, "-d", str(place))
        subprocess.run([sys.executable, "-m", "pip", *download, f"{project}=={version}"], check=True)
    unpacked = places.mktemp(project)
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    return unpacked / name


def run(
    sources: Path, plugin: str, *modules: str, left_out: Iterable[str], timeout: float = 300
) -> dict[str, int]:
    """Run test modules under a *plugin* of this directory; how many did what.

    They must pass, but for those that are *left_out*: names, or what names begin with.
    """
    deselected = [f"--deselect={name}" for name in left_out]
    options = ("-q", "--tb=short", "-p", plugin, "-p", "no:cacheprovider", "-W", "ignore")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *modules, *deselected],
        cwd=sources,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    counts = re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])
    return {word: int(number) for number, word in counts}

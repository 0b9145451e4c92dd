"""Running of frameworks' own tests, from their published sdists, on our classes.

An sdist is downloaded once, into ``MEMALCHEMY_SDISTS`` or a temporary directory; no file of a
framework is part of this repository.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from matrix_recorder import Suite, record

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
        # Another process may download it, too: it appears whole.
        with tempfile.TemporaryDirectory(dir=SDISTS) as new:
            download = ["download", "--quiet", "--no-deps", "--no-binary", package]
            command = [sys.executable, "-m", "pip", *download, f"{package}=={version}"]
            subprocess.run([*command, "--dest", new], check=True, timeout=300)
            Path(new, archive.name).replace(archive)
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place / name


def run(
    sdist: Path,
    plugin: str,
    *given: str,
    left_out: Mapping[str, str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[Counter[str], str]:
    """Run a framework's tests; return how many passed and so on, and pytest's output.

    The counts are of tests ``"passed"``, ``"failed"``, ``"skipped"``, ``"expected to fail"`` and
    ``"left out"``, without those that are 0.

    Args:
        sdist: the unpacked sdist, which is the working directory.
        plugin: a module beside this one that replaces the framework's classes.
        given: arguments of pytest.
        left_out: tests that do not run, each with its reason. A name is a test's id or the
            beginning of several. One that no test has is an error, if its file is run.
        environment: the environment variables of the run.
    """
    place = Path(tempfile.mkdtemp(dir=sdist.parent))
    (place / "left-out.json").write_text(json.dumps({**(left_out or {})}))
    files = ["--left-out", str(place / "left-out.json"), "--outcomes", str(place / "outcomes.json")]
    options = ["-q", "-p", "suite_report", "-p", plugin, "-p", "no:cacheprovider", *files]
    imports = [str(HERE), *(path for path in sys.path if path)]
    given_environment = {k: v for k, v in environment.items() if k != "MEMALCHEMY_URL"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *given],
        cwd=sdist,
        env={
            **given_environment,
            "PYTHONPATH": os.pathsep.join(imports),
            "TMPDIR": str(place),
            "PYTEST_DEBUG_TEMPROOT": str(place),
        },
        capture_output=True,
        text=True,
        timeout=500,
    )
    said = done.stdout[-6000:] + done.stderr[-2000:]
    assert (place / "outcomes.json").exists(), said
    outcomes = json.loads((place / "outcomes.json").read_text())
    package, _, version = sdist.name.rpartition("-")
    record(Suite(package.replace("_", "-"), version, outcomes))
    return Counter(kind for kind, _ in outcomes.values()), said

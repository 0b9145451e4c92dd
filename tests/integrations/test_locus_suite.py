"""locus-sdk's own tests, from its sdist, with the adapters in the place of what they test.

Nothing of theirs is kept here: `locus_swap` is put under them, `locus_tests` names them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from locus_tests import LEFT_OUT, ON_A_SERVER, SELECTED, VERSION

from servers import Postgres, migrated_database

SDISTS = Path(os.environ.get("MEMALCHEMY_SDISTS") or Path(tempfile.gettempdir(), "ma-sdists"))
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked. It is downloaded once, and kept beside the project, not in it."""
    archive = SDISTS / f"locus_sdk-{VERSION}.tar.gz"
    if not archive.exists():
        SDISTS.mkdir(parents=True, exist_ok=True)
        download = ["download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command = [sys.executable, "-m", "pip", *download, f"locus-sdk=={VERSION}"]
        subprocess.run([*command, "--dest", str(SDISTS)], check=True, timeout=300)
    place = tmp_path_factory.mktemp("locus")
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place / f"locus_sdk-{VERSION}"


def run(sdist: Path, files: str, url: str | None = None) -> tuple[Counter[str], str]:
    """How many tests passed, are expected to fail, and failed; and what pytest said."""
    report = sdist.parent / "report.xml"
    paths = [f"tests/unit/{name}.py" for name in files.split()]
    options = ["-q", "-p", "locus_swap", "-p", "no:cacheprovider", "-o", "addopts="]
    imports = [str(HERE), *(path for path in sys.path if path)]
    environment = {k: v for k, v in os.environ.items() if k != "MEMALCHEMY_URL"}
    environment |= {"PYTHONPATH": os.pathsep.join(imports)}
    if url is not None:
        environment["LOCUS_SUITE_URL"] = url
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--junit-xml={report}", *paths],
        cwd=sdist,
        env=environment,
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


def test_locus_own_tests_pass_on_sqlite(sdist: Path) -> None:
    counts, said = run(sdist, SELECTED)

    assert counts == {"passed": 721, "xfail": len(LEFT_OUT)}, said


def test_locus_own_tests_of_stored_things_pass_on_postgresql(
    sdist: Path, postgres: Postgres
) -> None:
    with migrated_database(postgres) as name:
        counts, said = run(sdist, ON_A_SERVER, postgres.url(name))

    assert counts == {"passed": 143, "xfail": 18}, said

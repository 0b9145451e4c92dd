"""LangGraph's own tests of its stores, from its sdists, with `MemalchemyStore` in their place.

Nothing of theirs is kept here: `langgraph_store_swap` is put under them, `langgraph_store_tests`
says which cannot pass and why.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from langgraph_store_tests import VERSIONS

from servers import Postgres, migrated_database

SDISTS = Path(os.environ.get("MEMALCHEMY_SDISTS") or Path(tempfile.gettempdir(), "ma-sdists"))
HERE = Path(__file__).parent

Unpacked = Callable[[str], Path]


@pytest.fixture
def unpacked(tmp_path: Path) -> Unpacked:
    """Gives the sdist of a package, unpacked. It is downloaded once, beside the project."""

    def unpack(package: str) -> Path:
        name = f"{package.replace('-', '_')}-{VERSIONS[package]}"
        archive = SDISTS / f"{name}.tar.gz"
        if not archive.exists():
            SDISTS.mkdir(parents=True, exist_ok=True)
            download = ["download", "--quiet", "--no-deps", "--no-binary", ":all:"]
            command = [sys.executable, "-m", "pip", *download, f"{package}=={VERSIONS[package]}"]
            subprocess.run([*command, "--dest", str(SDISTS)], check=True, timeout=300)
        with tarfile.open(archive) as packed:
            packed.extractall(tmp_path, filter="data")
        return tmp_path / name

    return unpack


def run(sdist: Path, *files: str, **environment: str) -> tuple[Counter[str], str]:
    """How many tests passed, are expected to fail, and failed; and what pytest said."""
    report = sdist.parent / "report.xml"
    options = ["-q", "-p", "langgraph_store_swap", "-p", "no:cacheprovider"]
    options += ["-o", "addopts=", "-o", "asyncio_mode=auto", f"--junit-xml={report}"]
    imports = [str(HERE), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"tests/{name}.py" for name in files)],
        cwd=sdist,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(imports)} | environment,
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


def test_langgraphs_tests_of_its_store_in_memory_pass(unpacked: Unpacked) -> None:
    counts, said = run(unpacked("langgraph-checkpoint"), "test_store")

    assert counts == {"passed": 83, "xfail": 1}, said


def test_langgraphs_tests_of_its_sqlite_stores_pass(unpacked: Unpacked) -> None:
    counts, said = run(unpacked("langgraph-checkpoint-sqlite"), "test_store", "test_async_store")

    assert counts == {"passed": 131, "xfail": 7}, said


def test_langgraphs_tests_of_its_postgres_stores_pass(
    unpacked: Unpacked, postgres: Postgres
) -> None:
    sdist = unpacked("langgraph-checkpoint-postgres")
    settings = sdist / "tests" / "conftest.py"
    server = 'DEFAULT_URI = "postgres:///postgres?sslmode=disable"'
    settings.write_text(re.sub('^DEFAULT_URI = ".*"$', server, settings.read_text(), flags=re.M))
    reach = {"PGHOST": postgres.host, "PGPORT": str(postgres.port), "PGUSER": postgres.user}
    if postgres.password is not None:
        reach["PGPASSWORD"] = postgres.password

    with migrated_database(postgres) as name:
        url = postgres.url(name)
        counts, said = run(
            sdist, "test_store", "test_async_store", LANGGRAPH_SUITE_URL=url, **reach
        )

    assert counts == {"passed": 104, "xfail": 11}, said

"""locus-sdk's own tests, from its sdist, on our checkpointer and store.

`locus_plugin` replaces the classes; `locus_selection` names the tests.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import suites
from locus_selection import BY_THE_CLOCK, LEFT_OUT, ON_A_SERVER, SELECTED, VERSION

from servers import Postgres, migrated_database


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return suites.unpacked("locus-sdk", VERSION, tmp_path_factory.mktemp("locus"))


def run(sdist: Path, files: str, url: str | None = None) -> tuple[Counter[str], str]:
    """Run the files of tests; return the counts and pytest's output."""
    paths = [f"tests/unit/{name}.py" for name in files.split()]
    environment = os.environ | ({} if url is None else {"LOCUS_SUITE_URL": url})
    options = ("-o", "addopts=")
    return suites.run(
        sdist, "locus_plugin", *options, *paths, left_out=BY_THE_CLOCK, environment=environment
    )


@pytest.mark.alone  # some of theirs say how long something takes
def test_locus_own_tests_pass_on_sqlite(sdist: Path) -> None:
    counts, said = run(sdist, SELECTED)

    assert counts == {"passed": 720, "expected to fail": len(LEFT_OUT), "left out": 1}, said


@pytest.mark.alone
def test_locus_own_tests_of_stored_things_pass_on_postgresql(
    sdist: Path, postgres: Postgres
) -> None:
    with migrated_database(postgres) as name:
        counts, said = run(sdist, ON_A_SERVER, postgres.url(name))

    assert counts == {"passed": 143, "expected to fail": 18}, said

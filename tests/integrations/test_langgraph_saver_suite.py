"""LangGraph's own tests of its savers, from its sdists, on `MemalchemySaver`.

`langgraph_saver_plugin` replaces the classes; `langgraph_saver_selection` names the tests that
cannot pass, with reasons.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import suites
from langgraph_store_selection import VERSIONS

from servers import Postgres, migrated_database


def run(sdist: Path, *files: str, **environment: str) -> tuple[Counter[str], str]:
    """Run LangGraph's tests; return the counts and pytest's output."""
    options = [*suites.AS_OURS, "-p", "no:anyio", *(f"tests/{file}.py" for file in files)]
    everything = {**os.environ, **environment}
    return suites.run(sdist, "langgraph_saver_plugin", *options, environment=everything)


def test_langgraphs_tests_of_its_sqlite_savers_pass(tmp_path: Path) -> None:
    package = "langgraph-checkpoint-sqlite"
    sdist = suites.unpacked(package, VERSIONS[package], tmp_path)
    files = [path.stem for path in sorted((sdist / "tests").glob("test_*.py"))]
    of_savers = [name for name in files if "store" not in name and name != "test_ttl"]

    counts, said = run(sdist, *of_savers)

    assert counts == {"passed": 24, "expected to fail": 13, "left out": 3}, said


def test_langgraphs_tests_of_its_postgres_savers_pass(tmp_path: Path, postgres: Postgres) -> None:
    package = "langgraph-checkpoint-postgres"
    sdist = suites.unpacked(package, VERSIONS[package], tmp_path)
    settings = sdist / "tests" / "conftest.py"
    said_there = settings.read_text()
    places = {"DEFAULT_POSTGRES_URI": "", "DEFAULT_URI": "postgres?sslmode=disable"}
    for name, database in places.items():
        line = f'{name} = "postgres:///{database}"'
        said_there = re.sub(f'^{name} = ".*"$', line, said_there, flags=re.M)
    settings.write_text(said_there)
    reach = {"PGHOST": postgres.host, "PGPORT": str(postgres.port), "PGUSER": postgres.user}
    if postgres.password is not None:
        reach["PGPASSWORD"] = postgres.password
    files = [path.stem for path in sorted((sdist / "tests").glob("test_*.py"))]
    of_savers = [name for name in files if "store" not in name]

    with migrated_database(postgres) as name:
        url = postgres.url(name)
        counts, said = run(sdist, *of_savers, LANGGRAPH_SUITE_URL=url, **reach)

    assert counts == {"passed": 39, "expected to fail": 23, "left out": 68}, said

"""The page of the tests of all frameworks belongs to its stored run, and to what is pinned."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from html import escape
from typing import Any

import pytest

import matrix
from pages import ROOT

SUBJECTS = ROOT / "tests" / "integrations" / "subjects"
FRAMEWORKS = {path.stem for path in SUBJECTS.glob("*.py")} - {"__init__"}


@pytest.fixture
def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(matrix.STORED.read_text())
    return found


def counts_of(stored: dict[str, Any]) -> list[dict[str, int]]:
    """The counts of every cell."""
    tests = [
        counts
        for kinds in stored["tests"].values()
        for databases in kinds.values()
        for counts in databases.values()
    ]
    return [*tests, *(one["counts"] for one in stored["suites"])]


def test_the_page_is_the_one_of_the_stored_run(stored: dict[str, Any]) -> None:
    for path, render in {
        matrix.PAGE: matrix.render,
        matrix.LEFT_OUT: matrix.render_left_out,
    }.items():
        assert path.read_text() == render(stored), "nox -s matrix makes it"


def test_every_reason_is_on_the_page_of_the_tests_that_are_left_out(stored: dict[str, Any]) -> None:
    page = matrix.render_left_out(stored)
    reasons = [
        reason for one in stored["suites"] for kind in matrix.REASONS for reason in one[kind]
    ]

    assert reasons
    assert [one for one in reasons if f": {escape(one)}</li>" not in page] == []


def test_every_framework_is_in_the_run_and_keeps_its_promises_on_both_databases(
    stored: dict[str, Any],
) -> None:
    assert stored["frameworks"].keys() == FRAMEWORKS == matrix.NAMES.keys()
    for name in FRAMEWORKS:
        for kind in ("promises", "kill"):
            for database in matrix.DATABASES:
                assert stored["tests"][name][kind][database]["passed"] > 0, (name, kind, database)


def test_nothing_failed_in_the_run(stored: dict[str, Any]) -> None:
    assert not [counts for counts in counts_of(stored) if counts.get("failed")]


def test_a_framework_has_tests_of_its_own_or_a_reason_why_not(stored: dict[str, Any]) -> None:
    tested = {one["framework"] for one in stored["suites"]}
    excused = {name for name, one in stored["frameworks"].items() if one["no_suite"]}

    assert tested | excused == FRAMEWORKS
    assert not tested & excused


def test_whatever_is_left_out_has_a_reason(stored: dict[str, Any]) -> None:
    for one in stored["suites"]:
        for kind in matrix.REASONS:
            named = [name for names in one[kind].values() for name in names]
            assert len(named) == one["counts"].get(kind, 0), (one["package"], kind)
            assert "" not in one[kind]


def test_the_run_was_of_the_releases_that_are_pinned(stored: dict[str, Any]) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    pinned = {
        re.split(r"[\[=]", one)[0]: one.partition("==")[2]
        for name in ("frameworks", "crewai", "pydantic-ai-harness")
        for one in groups[name]
    }

    ran = {one["package"]: one["version"] for one in stored["frameworks"].values()}
    assert ran == {name: pinned[name] for name in ran}


def test_a_failure_is_in_bold(
    stored: dict[str, Any],
) -> None:
    broken = copy.deepcopy(stored)
    broken["tests"]["locus"]["promises"]["sqlite"] = {"passed": 7, "failed": 2}
    assert "| 7, **2 failed** / " in matrix.render(broken)


def test_parts_are_added_and_the_last_result_of_a_test_counts() -> None:
    def part(framework: str, version: str, **tests: str) -> dict[str, Any]:
        place = {"framework": framework, "kind": "tests", "database": "sqlite", "reason": ""}
        return {
            **dict.fromkeys(("date", "commit", "python", "sqlite", "postgresql"), "1"),
            "frameworks": {framework: {"package": framework, "version": version}},
            "tests": {name: {**place, "outcome": outcome} for name, outcome in tests.items()},
        }

    first = part("locus", "1", one="failed", two="passed")
    second = part("locus", "1", one="passed", three="skipped")
    another = part("mem0", "2", four="passed")
    another["frameworks"] |= part("locus", "0")["frameworks"]
    another["tests"] |= part("locus", "0", five="failed")["tests"]

    merged = matrix.merge([first, second, another])

    assert merged["frameworks"]["locus"]["version"] == "1"
    assert merged["tests"]["locus"] == {"tests": {"sqlite": {"passed": 2, "skipped": 1}}}
    assert merged["tests"]["mem0"] == {"tests": {"sqlite": {"passed": 1}}}
    assert [run["frameworks"] for run in merged["runs"]] == [["locus"], ["mem0"]]


def test_a_test_is_counted_by_what_it_ran_unless_it_failed() -> None:
    ran = {"package": "theirs", "version": "3", "outcomes": {"a": ["passed", ""]}}
    ran["outcomes"]["b"] = ["left out", "looks at their files"]  # type: ignore[index]
    place = {"framework": "locus", "kind": "tests", "database": "postgresql", "reason": ""}
    counted = [{"kind": "promises", "counts": {"passed": 21, "skipped": 1}}]
    tests = {
        "suite": {**place, "outcome": "passed", "suites": [ran]},
        "kit": {**place, "outcome": "passed", "counts": counted},
        "broken": {**place, "outcome": "failed", "counts": counted},
    }
    where = dict.fromkeys(("date", "commit", "python", "sqlite", "postgresql"), "1")

    merged = matrix.merge([{**where, "frameworks": {"locus": {}}, "tests": tests}])

    (suite,) = merged["suites"]
    assert suite["counts"] == {"passed": 1, "left out": 1}
    assert suite["left out"] == {"looks at their files": ["b"]}
    assert merged["tests"]["locus"] == {
        "promises": {"postgresql": {"passed": 42, "skipped": 2}},
        "tests": {"postgresql": {"failed": 1}},
    }

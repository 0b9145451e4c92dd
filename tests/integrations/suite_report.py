"""Pytest plugin for a run of a framework's own tests: leaves tests out, and notes what each did.

`suites.run` loads it beside the plugin that replaces the framework's classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

_outcomes: dict[str, tuple[str, str]] = {}
"""Of each test, by its id: what it did, and the reason if it did not pass."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--left-out", help="a JSON file of tests with the reasons why they do not run")
    parser.addoption("--outcomes", help="the JSON file to be written: what each test did")


def leave_out(items: list[pytest.Item], reason_of: Callable[[pytest.Item], str | None]) -> None:
    """Remove the tests from *items* for which there is a reason, and note it."""
    reasons = {item: reason_of(item) for item in items}
    left_out = [item for item in items if reasons[item] is not None]
    for item in left_out:
        _outcomes[item.nodeid] = ("left out", reasons[item] or "")
    items[0].config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if reasons[item] is None]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not items:
        return
    given = json.loads(Path(config.getoption("--left-out")).read_text())
    files = {item.nodeid.split("::")[0] for item in items}
    named = {name: reason for name, reason in given.items() if name.split("::")[0] in files}
    for name in named:
        if not any(item.nodeid.startswith(name) for item in items):
            raise pytest.UsageError(f"no test is called {name}, which is to be left out")

    def reason_of(item: pytest.Item) -> str | None:
        return next((why for name, why in named.items() if item.nodeid.startswith(name)), None)

    leave_out(items, reason_of)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if not report.passed:
        _outcomes[report.nodeid] = ("failed", str(report.longrepr))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _outcomes[report.nodeid] = ("failed", report.when or "")
    elif report.skipped and hasattr(report, "wasxfail"):
        _outcomes[report.nodeid] = ("expected to fail", report.wasxfail.removeprefix("reason: "))
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _outcomes[report.nodeid] = ("skipped", reason.removeprefix("Skipped: "))
    elif report.when == "call":
        _outcomes[report.nodeid] = ("passed", "")


def pytest_sessionfinish(session: pytest.Session) -> None:
    Path(session.config.getoption("--outcomes")).write_text(json.dumps(_outcomes))

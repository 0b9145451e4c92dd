"""The option of pytest that records what the tests of the integrations find."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrix_recorder import Recorder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", metavar="FILE", help="write to FILE what the tests found, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if file := config.getoption("--matrix"):
        config.pluginmanager.register(Recorder(config, Path(file)))

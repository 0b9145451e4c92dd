"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import NOT_INHERITED, Answer, Call, lines, thread
from typer.testing import CliRunner

from memalchemy.cli.app import app


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # A database in memory ends with the command, so the command line takes none.
    if "url" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--databases").split(",")
        lasting = [name for name in chosen if name != "sqlite-memory"]
        metafunc.parametrize("url", lasting, indirect=True)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without a schema, which outlives a command."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/agent.db"
        return
    server = request.getfixturevalue("postgres")
    name = server.create_database()
    yield server.url(name, driver="psycopg" if request.param == "psycopg" else "")
    server.drop_database(name)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/agent.db"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command line in this process."""
    for variable in NOT_INHERITED:
        monkeypatch.delenv(variable, raising=False)

    # No other process writes here, so `sign` waits for none.
    monkeypatch.setattr("memalchemy.maintenance.sign.NOTICED_AFTER", 0)

    def call(*arguments: str, stdin: str | bytes | None = None) -> Answer:
        result = CliRunner().invoke(app, arguments, input=stdin, catch_exceptions=False)
        return Answer(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def filled(file_url: str, call: Call) -> str:
    """A SQLite file with two threads: airline-1 of eight messages, retail-1 of four."""
    given = lines(thread("airline-1", 8, reward=1.0), thread("retail-1", customer=42))
    assert call("--db", file_url, "import", "-", stdin=given).code == 0
    return file_url

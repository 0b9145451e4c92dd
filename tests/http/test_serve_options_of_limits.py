"""Every limit of the server is an option of ``memalchemy serve``."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import memalchemy.http
from memalchemy import Database
from memalchemy.cli.app import app
from memalchemy.http import Limits

OPTIONS = {
    "values": "--max-values",
    "results": "--max-results",
    "answer_bytes": "--max-answer",
    "tenant_requests": "--max-requests",
    "running": "--max-running",
    "tenant_running": "--max-tenant-running",
    "heavy": "--max-heavy",
    "tenant_heavy": "--max-tenant-heavy",
    "pending_bytes": "--max-pending",
    "unknown_tokens": "--max-unknown-tokens",
}


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(make())


async def make() -> None:
    async with Database("sqlite:///agent.db", migrate="upgrade"):
        pass


def serve_with(monkeypatch: pytest.MonkeyPatch, *options: str) -> Limits:
    """Return the limits that ``serve`` is called with."""
    given: dict[str, Any] = {}

    async def serve(*_: Any, **settings: Any) -> None:
        given.update(settings)

    monkeypatch.setattr(memalchemy.http, "serve", serve)
    answer = CliRunner().invoke(app, ["--db", "sqlite:///agent.db", "serve", *options])
    assert answer.exit_code == 0, answer.output
    limits = given["limits"]
    assert isinstance(limits, Limits)
    return limits


def test_there_is_no_limit_without_an_option() -> None:
    assert {field.name for field in fields(Limits)} == OPTIONS.keys()
    params = get_command(app).commands["serve"].params  # type: ignore[attr-defined]
    helps = {option: param.help for param in params for option in param.opts}
    assert all(helps[option] for option in OPTIONS.values())


def test_without_options_the_limits_are_the_default_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert serve_with(monkeypatch) == Limits()


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_sets_its_limit_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    limits = serve_with(monkeypatch, OPTIONS[name], "1")

    assert limits == Limits(**{name: 1})


@pytest.mark.parametrize("value", ["0", "-1", "many"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_limit_is_a_whole_number_above_zero(name: str, value: str) -> None:
    answer = CliRunner().invoke(app, ["--db", "sqlite://", "serve", OPTIONS[name], value])

    assert answer.exit_code == 2

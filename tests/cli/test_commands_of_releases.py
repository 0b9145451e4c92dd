"""What scripts that were written for an earlier release rely on: commands, options, codes, JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stored.commands import required, told
from stored.kinds import directory_of, file_of, releases, unzipped
from stored.wire import lost, lost_fields

each_release = pytest.mark.parametrize("release", releases())
NARROWED: dict[str, str] = {}
"""What the last release had and this one has not, as it is said here, with the reason."""


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what this release tells of the stored database of each."""
    found = {}
    for release in releases():
        file = tmp_path_factory.mktemp(release) / "agent.db"
        file.write_bytes(unzipped(file_of(release, "plain", "sqlite")))
        found[release] = told(f"sqlite:///{file}")
    return found


def before(release: str) -> Any:
    return json.loads(unzipped(directory_of(release) / "commands.json.gz"))


@each_release
def test_every_command_and_option_is_still_there(release: str, now: Any) -> None:
    was, has = before(release)["commands"], now[release]["commands"]

    faults = lost(was, has, "memalchemy", exactly=True)
    added = {command: has[command] for command in was if command in has}
    for command, name in required({"commands": added}) - required({"commands": was}):
        faults.append(f"{command} needs {name} now")
    assert sorted(faults) == sorted(NARROWED)


@each_release
@pytest.mark.parametrize("what", ["errors", "exit codes", "findings"])
def test_every_code_is_still_there_and_means_what_it_meant(
    release: str, what: str, now: Any
) -> None:
    was, has = before(release)[what], now[release][what]

    assert was.keys() <= has.keys()
    if what == "errors":
        assert {code: has[code] for code in was} == was


@each_release
def test_what_commands_print_as_json_has_every_field_that_it_had(release: str, now: Any) -> None:
    was, has = before(release)["json"], now[release]["json"]

    for line, printed in was.items():
        assert has[line]["exit code"] == printed["exit code"], line
        assert lost_fields(printed["document"], has[line]["document"]) == [], line


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ({"a": 1}, {}, ["answer.a is gone"]),
        ([{"a": 1}, {"a": 2}], [{}, {}], ["answer[].a is gone"]),
        ([1], [], ["answer has fewer elements"]),
        ({"a": 1}, {"a": "1"}, ["answer.a is of another type"]),
        ({"a": {"b": 1}}, {"a": 1}, ["answer.a is of another type"]),
        ({"a": 1, "b": None, "c": [1]}, {"a": 2.5, "b": "x", "c": [2, 3], "d": 4}, []),
    ],
)
def test_a_field_that_is_lost_is_named(was: Any, now: Any, said: list[str]) -> None:
    assert lost_fields(was, now) == said

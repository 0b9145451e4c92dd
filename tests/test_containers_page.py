"""The files of docs/operations/containers.md: their commands, and the names that they use."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import pytest
import yaml

from documented_commands import Named, refused
from pages import ROOT

PAGE = (ROOT / "docs" / "operations" / "containers.md").read_text()
COMPOSE: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
]


def test_the_page_has_a_file_for_a_server_and_one_for_sqlite() -> None:
    urls = [str(service.get("environment")) for file in COMPOSE for service in services(file)]

    assert len(COMPOSE) == 2
    assert any("postgresql://" in url for url in urls)
    assert any("sqlite:////data/" in url for url in urls)


def services(file: dict[str, Any]) -> list[dict[str, Any]]:
    return list(file["services"].values())


def test_the_commands_of_the_services_are_those_that_there_are(
    pytestconfig: pytest.Config,
) -> None:
    commands = [
        tuple(shlex.split(service["command"]))
        for file in COMPOSE
        for service in services(file)
        if service.get("command", "").startswith("memalchemy ")
    ]

    assert len(commands) == 2
    assert [refused(Named(words, whole=True), pytestconfig) for words in commands] == [None, None]


@pytest.mark.parametrize("file", COMPOSE)
def test_a_service_names_volumes_secrets_and_services_that_the_file_has(
    file: dict[str, Any],
) -> None:
    for service in services(file):
        volumes = {one.split(":")[0] for one in service.get("volumes", ())}
        assert volumes <= file["volumes"].keys()
        assert {*service.get("secrets", ())} <= file.get("secrets", {}).keys()
        assert {*service.get("depends_on", ())} <= file["services"].keys()


def test_the_image_installs_extras_that_there_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'/src/memalchemy\[([\w,]+)\]'", PAGE)

    assert {*extras.split(",")} <= project["optional-dependencies"].keys()

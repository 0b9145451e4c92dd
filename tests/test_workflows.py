"""The workflows of the repository's host test what docs/installation.md says is supported."""

from __future__ import annotations

import re
import tomllib

import yaml

from pages import ROOT

PAGE = (ROOT / "docs" / "installation.md").read_text()
WORKFLOWS = ROOT / ".github" / "workflows"


def test_every_supported_python_and_server_is_tested() -> None:
    jobs = yaml.safe_load((WORKFLOWS / "tests.yml").read_text())["jobs"]
    ((first, last),) = re.findall(r"^Python 3\.(\d+) to 3\.(\d+)[.;]", PAGE, re.M)
    pythons = [f"3.{minor}" for minor in range(int(first), int(last) + 1)]
    ((oldest, newest),) = re.findall(r"^\| PostgreSQL (\d+) to (\d+),", PAGE, re.M)

    assert jobs["sqlite"]["strategy"]["matrix"]["python"] == pythons
    servers = jobs["postgres"]["strategy"]["matrix"]["server"]
    assert servers == [*range(int(oldest), int(newest) + 1)]
    noxfile = (ROOT / "noxfile.py").read_text()
    assert f"@nox.session(python={pythons}".replace("'", '"') in noxfile
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classified = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    assert classified == pythons
    assert project["requires-python"] == f">={pythons[0]}"


def test_the_workflows_name_tests_that_are_there() -> None:
    named = {
        path
        for workflow in WORKFLOWS.glob("*.yml")
        for path in re.findall(r"\btests/[\w/]+(?:\.\w+)*", workflow.read_text())
    }

    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []

"""pyproject.toml: the extras, the links, and the changelog fragments."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import installation
from distribution import secrets_in
from memalchemy import integrations
from memalchemy._version import __version__
from memalchemy.errors import DriverMissing
from memalchemy.migrate.chain import release_number
from pages import ROOT, broken_links
from source_trees import parsed

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
NEVER_MISSED = {"words"}
"""Extras of which nothing says that they are missing: without ICU queries are cut into pairs."""
CHANGES = ROOT / "changes"
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
TYPES = {one["directory"] for one in PYPROJECT["tool"]["towncrier"]["type"]}
RAISERS = {"DriverMissing", "requires", "require_driver"}
SOURCES = sorted((ROOT / "src" / "memalchemy").rglob("*.py"))
ADAPTERS = [one.name for one in pkgutil.iter_modules(integrations.__path__) if one.name[0] != "_"]


def extras_named_in(text: str) -> list[str]:
    """The names in every ``memalchemy[…]`` of a text."""
    found = re.findall(r"memalchemy\[([a-z0-9,-]+)\]", text)
    return [name for names in found for name in names.split(",")]


def extras_of_errors() -> dict[str, list[str]]:
    """The extras that ``DriverMissing``, ``requires`` and ``require_driver`` name, by file."""
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(parsed(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", None)
            if isinstance(node, ast.Call) and name in RAISERS:
                given = {word.arg: word.value for word in node.keywords}
                extra = given.get("extra", node.args[1] if len(node.args) > 1 else None)
                found.setdefault(path.name, []).extend(constants_of(extra))
    return found


def constants_of(node: Any) -> list[str]:
    """The strings that an expression may be; a condition's test is none of them."""
    if isinstance(node, ast.IfExp):
        return constants_of(node.body) + constants_of(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and node.value is not None else []


def test_all_names_every_other_extra_once_that_can_be_installed_beside_the_others() -> None:
    alone = {"crewai", "pydantic-ai-harness"}
    named = extras_named_in(" ".join(EXTRAS["all"]))

    assert sorted(named) == sorted(EXTRAS.keys() - {"all"} - alone)


def test_the_extras_of_plain_nox_are_all_but_the_frameworks() -> None:
    adapters = (ROOT / "src" / "memalchemy" / "integrations").iterdir()
    frameworks = {path.stem.replace("_", "-") for path in adapters if path.stem[0] != "_"}
    (named,) = re.findall(r'^EXTRAS = "\.\[(.*)\]"$', (ROOT / "noxfile.py").read_text(), re.M)

    assert frameworks < EXTRAS.keys()
    assert sorted(named.split(",")) == sorted(EXTRAS.keys() - {"all", *NEVER_MISSED} - frameworks)


def test_the_table_of_extras_has_every_extra() -> None:
    page = (ROOT / "docs" / "installation.md").read_text()
    rows = re.findall(r"^\| (`[a-z].*?) \|", page, re.M)
    named = re.findall(r"`([a-z0-9-]+)`", " ".join(rows))

    assert named == [*dict.fromkeys(named)]
    assert EXTRAS.keys() <= set(named)


def test_an_error_about_a_missing_package_names_an_extra_that_exists() -> None:
    named = extras_of_errors()

    assert {name for names in named.values() for name in names} == (
        EXTRAS.keys() - {"all", *NEVER_MISSED}
    )
    for path in SOURCES:
        assert set(extras_named_in(path.read_text())) <= EXTRAS.keys(), path.name


def test_the_project_has_the_links_that_a_registry_shows() -> None:
    urls = PYPROJECT["project"]["urls"]

    assert urls.keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(url.startswith(urls["Homepage"]) for url in urls.values())


def test_the_readme_of_the_package_has_no_relative_link() -> None:
    """An index shows it on a page of its own, from which they would lead nowhere."""
    built = ProjectMetadata(str(ROOT), PluginManager()).core
    shown, written = built.readme, (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)]*)\)", shown)
    source = PYPROJECT["project"]["urls"]["Source"]

    assert built.readme_content_type == "text/markdown"
    assert len(links) == len(re.findall(r"\]\(", written)) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert f"]({source}/raw/main/docs/images/" in shown
    pages = [link.partition("/blob/main/")[2].partition("#")[0] for link in links]
    assert [page for page in pages if page and not (ROOT / page).exists()] == []


def test_every_changelog_fragment_has_a_known_type_and_says_something() -> None:
    template = PYPROJECT["tool"]["towncrier"]["template"].partition("/")[2]
    fragments = [path for path in CHANGES.iterdir() if path.name != template]

    assert (CHANGES / template).is_file()
    assert [path.name for path in fragments if not is_a_fragment(path)] == []


def is_a_fragment(path: Path) -> bool:
    """Whether a file's name has a slug and a type, and its text is not yet a list: towncrier makes
    that.
    """
    named = re.fullmatch(r"[a-z0-9-]+\.([a-z]+)\.md", path.name)
    text = path.read_text()
    known = named is not None and named[1] in TYPES
    return known and bool(text.strip()) and not text.startswith(("-", "#", "*"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a-slug.added", "Says."),
        ("a-slug.new.md", "Says."),
        ("A_slug.added.md", "Says."),
        ("a-slug.added.md", " \n"),
        ("a-slug.added.md", "- Says."),
    ],
)
def test_a_wrong_changelog_fragment_is_seen(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)

    assert not is_a_fragment(tmp_path / name)


def test_a_release_collects_the_fragments_above_the_earlier_entries() -> None:
    start = PYPROJECT["tool"]["towncrier"]["start_string"]
    before, entries = CHANGELOG.split(start)

    assert "\n## " not in before
    headings = re.findall(r"^## (.*)$", entries, re.M)
    dated = [re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)", one) for one in headings]
    versions = [release_number(one[1]) for one in dated if one]
    assert len(versions) == len(headings) > 0
    assert versions == sorted(versions, reverse=True)
    assert versions[0] <= release_number(__version__)
    assert PYPROJECT["tool"]["towncrier"]["title_format"] == "## {version} ({project_date})"
    assert "/changes" in PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]


def test_the_version_is_the_one_that_the_page_of_stability_names() -> None:
    page = (ROOT / "docs" / "stability.md").read_text()
    (named,) = re.findall(r"^memalchemy is version (\d+\.\d+),", page, re.M)

    assert __version__.startswith(f"{named}.")


def test_the_lowest_versions_are_those_that_a_session_installs() -> None:
    """`nox -s lowest` pins each bound of the packages and of the extras that it names."""
    stated = [PYPROJECT["project"]["dependencies"], *EXTRAS.values()]
    bounded = [one for some in stated for one in some if not one.startswith("memalchemy[")]

    assert [one for one in bounded if one.count(">=") != 1 or "<" in one] == []
    noxfile = (ROOT / "noxfile.py").read_text()
    assert 'requirement.replace(">=", "==") for requirement in wanted' in noxfile
    (installed,) = re.findall(r'^LOWEST_EXTRAS = "\.\[(.*)\]"$', noxfile, re.M)
    (pinned,) = re.findall(r"for name in \((.*?)\):\n +wanted = wanted", noxfile)
    assert installed.split(",") == re.findall(r'"(.*?)"', pinned)


def test_the_links_of_the_changelog_lead_somewhere() -> None:
    assert broken_links(ROOT / "CHANGELOG.md") == []


@pytest.mark.parametrize(
    "imported", ["import memalchemy", "from memalchemy import Database, Checkpointer"]
)
def test_an_import_of_the_library_leaves_the_command_line_and_numpy_alone(imported: str) -> None:
    heavy = {"alembic", "click", "numpy", "pygments", "rich", "typer"}
    program = f"import sys; {imported}; print(*{heavy} & sys.modules.keys())"

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ran.stdout.split() == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_names_the_extra_that_it_lacks(adapter: str) -> None:
    """Where its framework is not installed, as in the sessions of the databases."""
    message = None
    try:
        importlib.import_module(f"memalchemy.integrations.{adapter}")
    except DriverMissing as error:
        message = str(error)
    assert message is None or set(extras_named_in(message)) & EXTRAS.keys()


@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN " + "EC PRIVATE KEY-----",
        "AKIA" + "Q3EGRT5ZXW2NBC7K",
        "ghp_" + "a1B2" * 9,
        "sk-ant-" + "api03-Zm9vYmFyYmF6cXV4",
        "xoxb-" + "123456789012",
        "pypi-" + "AgEIcHlwaS5vcmcCJDkzYjQxMjM0NTY3",
        "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0.c2ln",
        "postgresql://ada:" + "correct-horse@db.example.com/agents",
    ],
)
def test_a_secret_in_the_wheel_or_the_sdist_is_told_by_its_line_and_not_repeated(
    secret: str,
) -> None:
    (told,) = secrets_in("sdist/notes.md", f"one\ntwo {secret} three\n".encode())

    assert told == "sdist/notes.md has what looks like a secret in line 2"
    assert secrets_in("sdist/notes.md", b"postgresql://ada:secret@localhost/agents") == []


def test_the_packages_with_another_licence_are_those_that_the_page_names() -> None:
    page = " ".join((ROOT / "docs" / "installation.md").read_text().split())
    (told,) = re.findall(r"with three exceptions: (.*?)\. The packages of", page)

    others = {name.removesuffix("-binary") for name in installation.OTHERS}
    assert len(others) == 3
    assert [name for name in others if name not in told] == []

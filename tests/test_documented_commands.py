"""Every command that README and the pages name is one that its program takes as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from documented_commands import Named, commands_of, refused
from pages import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_COMMANDS = [page for page in PAGES if commands_of(page)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_the_commands_of_a_page_are_those_that_there_are(
    page: Path, pytestconfig: pytest.Config
) -> None:
    mistakes = {
        str(named): why
        for named in commands_of(page)
        if (why := refused(named, pytestconfig)) is not None
    }
    assert mistakes == {}


def test_commands_are_found_on_most_pages() -> None:
    """So that the test above does not pass because it reads nothing."""
    assert len(WITH_COMMANDS) > 20
    assert sum(len(commands_of(page)) for page in WITH_COMMANDS) > 120


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("on a server, `memalchemy migrate` makes the tables", "No such command 'migrate'"),
        ("`memalchemy store lst`", "No such command 'lst'"),
        ("`memalchemy upgrade --dry-run`", "No such option"),
        ("```\nmemalchemy prune --keep-last many\n```", "valid integer"),
        ("```sh\nmemalchemy fork\n```", "Missing argument"),
        ("```sh\nmemalchemy store # all of it\n```", "lacks a command"),
        ("```sh\n17 3 * * *  memalchemy prunes --all\n```", "No such command"),
        ("```sh\nmemalchemy grants app | psql && python -m memalchemy ceck\n```", "'ceck'"),
        ("`alembic upgrad head`", "invalid choice: 'upgrad'"),
        ("`nox -s mysql`", "invalid choice: 'mysql'"),
        ("`nox -s sqlite -- --database sqlite`", "no option --database"),
        ("`nox -s wheel -- --tags v0.1.0 2`", "unrecognized arguments"),
        ("`pytest tests/behaviour/test_nothing.py`", "there is no"),
        ("`pip install -e '.[postgresql]'`", "no extra 'postgresql'"),
        ('`pip install "memalchemy[postgres]"`', "no release yet"),
    ],
)
def test_a_command_that_is_not_there_is_seen(
    text: str, why: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)

    said = [refused(named, pytestconfig) for named in commands_of(page)]

    assert [words for words in said if words and why in words], said


def test_what_stands_in_a_sentence_may_lack_what_it_needs() -> None:
    named = Named(("memalchemy", "fork"), whole=False)

    assert refused(named, None) is None  # type: ignore[arg-type]


def test_the_environment_variables_of_the_pages_are_read_somewhere() -> None:
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("migrations/*.py"), *ROOT.glob("*.py")]
    sources += ROOT.glob("tests/**/*.py")
    read = "".join(source.read_text() for source in sources if source != Path(__file__))
    for page in PAGES:
        for variable in set(re.findall(r"\bMEMALCHEMY_[A-Z]+\b", page.read_text())):
            assert f'"{variable}"' in read, (name_of(page), variable)

"""The rules that every revision keeps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from alembic.script import Script

from memalchemy import migrate
from memalchemy._version import __version__
from memalchemy.dialects import DIALECTS
from memalchemy.migrate.chain import release_number

REVISIONS = list(migrate.scripts().walk_revisions())
VERSION = re.compile(r"\d+\.\d+\.\d+")

revision = pytest.mark.parametrize("script", REVISIONS, ids=lambda script: script.revision)


def imports_of(script: Script) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(Path(script.path).read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_the_chain_has_one_head_and_no_branches() -> None:
    assert len(migrate.scripts().get_heads()) == len(migrate.scripts().get_bases()) == 1
    assert not any(script.is_branch_point or script.is_merge_point for script in REVISIONS)


def test_the_names_of_the_files_are_the_chain() -> None:
    assert migrate.revisions() == tuple(script.revision for script in REVISIONS[::-1])


def test_the_package_has_the_script_of_the_head_alone() -> None:
    script = migrate.sqlite_script()
    assert [*script.parent.glob("sqlite.*.sql")] == [script]


@revision
def test_a_revision_says_what_it_does(script: Script) -> None:
    assert len(script.doc.strip()) > 10


@revision
def test_a_revisions_file_name_begins_with_its_id(script: Script) -> None:
    assert Path(script.path).name.startswith(f"{script.revision}_")
    assert re.fullmatch(r"\d{4}", script.revision)


@revision
def test_a_revision_states_the_oldest_release_that_works_on_it(script: Script) -> None:
    stated = script.module.oldest_release
    assert VERSION.fullmatch(stated)
    assert release_number(stated) <= release_number(__version__)


@revision
def test_a_revision_goes_both_ways(script: Script) -> None:
    source = ast.parse(Path(script.path).read_text())
    functions = {node.name: node.body for node in source.body if isinstance(node, ast.FunctionDef)}
    for name in ("upgrade", "downgrade"):
        assert not all(isinstance(step, ast.Pass) for step in functions[name])


@revision
def test_a_revision_is_frozen_it_imports_nothing_that_moves_on(script: Script) -> None:
    ours = {name for name in imports_of(script) if name.split(".")[0] == "memalchemy"}
    assert all(name.startswith("memalchemy.errors.") for name in ours)


def test_the_oldest_release_never_goes_back() -> None:
    stated = [release_number(script.module.oldest_release) for script in reversed(REVISIONS)]
    assert stated == sorted(stated)


def test_the_version_table_is_memalchemys_own() -> None:
    assert migrate.VERSION_TABLE == "memalchemy_version"
    assert all("alembic_version" not in migrate.offline(name) for name in DIALECTS)


@pytest.mark.parametrize(
    ("older", "newer"),
    [("0.1.0", "0.1.1"), ("0.9.0", "0.10.0"), ("1.0.0", "1.0.1rc1"), ("0.1.0", "0.2.0.dev3")],
)
def test_releases_compare_as_numbers(older: str, newer: str) -> None:
    assert release_number(older) < release_number(newer)

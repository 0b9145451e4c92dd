"""A variant of a third party's: its functions run, and all else is as it is without it.

`memalchemy_toy_reads_back` brings one in one file. The behavioural suite runs on it by
``--databases toy_reads_back``, and a selection of it here, in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import Executable
from sqlalchemy.dialects import sqlite

import golden  # noqa: F401 (it imports all modules that register statements)
from memalchemy.dialects import Dialect
from memalchemy.log.append import put_checkpoint
from memalchemy.log.heads import Allotted, allot_positions
from memalchemy.log.no_upsert import allot_existing, update_checkpoint
from memalchemy.statements import REGISTRY
from memalchemy.store.no_upsert import update_item
from memalchemy.store.write import put_alone
from memalchemy.variants import NO_UPSERT

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent / "toy"

SELECTION = (
    "test_saving_and_loading.py",
    "test_thread_log.py",
    "test_pending_writes.py",
    "test_store_items.py",
)
"""Files of the behavioural suite that use what the variant has of its own."""

REPORT = """
import json

def pytest_terminal_summary(terminalreporter):
    from memalchemy_toy_reads_back import CALLS

    terminalreporter.write_line("CALLS " + json.dumps(CALLS))
"""
"""A plugin of pytest that prints how often each function of the variant was called."""


@pytest.fixture(scope="module")
def brought() -> Iterator[ModuleType]:
    """The module with the variant, as a package has it that was imported for a URL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOY)
        import memalchemy_toy_reads_back

        yield memalchemy_toy_reads_back
    for name in [name for name in REGISTRY if name.startswith("memalchemy_toy_reads_back.")]:
        del REGISTRY[name]


@pytest.fixture
def plain(brought: ModuleType) -> Dialect:
    """The dialect that does not name the variant."""
    return brought.Toy()  # type: ignore[no-any-return]


@pytest.fixture
def ours(brought: ModuleType) -> Dialect:
    return brought.ToyThatReadsBack()  # type: ignore[no-any-return]


@pytest.fixture
def other_way_round(brought: ModuleType) -> Dialect:
    """A dialect that names the same variants in another order."""
    names = {"name": "toy_other", "variants": (NO_UPSERT, brought.READS_BACK)}
    return type("Other", (brought.Toy,), names)()  # type: ignore[no-any-return]


def first_of(program: Any) -> Executable:
    """The statement with which a program begins."""
    statement: Executable = next(program)[0]
    program.close()
    return statement


def texts(dialect: Dialect) -> Mapping[str, str]:
    """The text of every statement that a dialect has."""
    return {
        name: str(statement.compile(dialect=sqlite.dialect()))
        for family in REGISTRY.values()
        for name, statement in family.enumerate(dialect)
    }


# --- It runs -------------------------------------------------------------------------------------


def test_the_behaviour_passes_with_functions_of_a_third_party_in_the_place_of_ours(
    brought: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "report_of_calls.py").write_text(REPORT)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    options = ["-q", "-p", "no:cacheprovider", "-p", "report_of_calls"]
    files = [f"tests/behaviour/{name}" for name in SELECTION]

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--databases", "toy_reads_back", *files],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    (told,) = (line for line in ran.stdout.splitlines() if line.startswith("CALLS "))
    calls = json.loads(told.removeprefix("CALLS "))
    # A statement is built once, a program runs with each operation.
    assert {name for name, count in calls.items() if count} == {
        "lock_log",
        "allot_positions",
        "put_alone",
    }
    assert calls["allot_positions"] > 100
    assert calls["put_alone"] > 50


# --- Which function it is ------------------------------------------------------------------------


def test_the_first_variant_that_a_dialect_names_decides(
    plain: Dialect, ours: Dialect, other_way_round: Dialect, brought: ModuleType
) -> None:
    moves = {"purpose": "entries", "condition": "any"}

    def begins(dialect: Dialect) -> tuple[Executable, Executable]:
        return (
            first_of(allot_positions(dialect, "entries", {})),
            first_of(put_alone(dialect, {}, "any")),
        )

    assert begins(ours) == (
        brought.move_head(ours, **moves),
        brought.change_item(ours, expected="any"),
    )
    for dialect in (plain, other_way_round):
        assert begins(dialect) == (
            allot_existing(dialect, **moves),
            update_item(dialect, expected="any"),
        )


def test_where_the_first_variant_has_nothing_the_next_decides(ours: Dialect) -> None:
    head = Allotted(2, 1, 1, None, 1)

    assert first_of(put_checkpoint(ours, head, {})) is update_checkpoint(ours)


def test_a_statement_without_one_is_that_of_a_dialect_without_the_variant(
    plain: Dialect, ours: Dialect
) -> None:
    here, there = texts(ours), texts(plain)
    own = {name for name in here if here[name] != there.get(name)}

    assert {name.split("(")[0] for name in own} == {
        "log.heads.lock_log",
        "memalchemy_toy_reads_back.move_head",
        "memalchemy_toy_reads_back.read_allotted",
        "memalchemy_toy_reads_back.change_item",
        "memalchemy_toy_reads_back.read_version",
    }
    assert there.keys() <= here.keys()
    assert not any(text.startswith("UPDATE") and "RETURNING" in text for text in map(here.get, own))


def test_a_statement_of_the_variant_alone_is_none_of_another_dialect_s(
    plain: Dialect, brought: ModuleType
) -> None:
    with pytest.raises(AssertionError, match="is not a statement of toy on no_upsert"):
        brought.read_version(plain)

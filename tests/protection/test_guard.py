"""The guard that `Database.run` passes every program through."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memalchemy
from memalchemy.codec.encryption import Keyring, generate_key
from memalchemy.codec.signatures import SigningKeys
from memalchemy.dialects import DIALECTS
from memalchemy.log.append import insert_row
from memalchemy.log.heads import read_head
from memalchemy.protection.guard import Guard, NoGuard, guard_of
from memalchemy.statements import Program, program_of

SQLITE = DIALECTS["sqlite"]
SOURCES = Path(memalchemy.__file__).parent
KEYS, SIGNING = [generate_key()], [generate_key()]


def keyring(*, keys: Any = None, signing: Any = None) -> Keyring:
    return Keyring(keys, signing=SigningKeys(signing))


def reading() -> Program[Any]:
    return program_of(read_head(SQLITE), binds={})


def saving() -> Program[Any]:
    return program_of(insert_row(SQLITE, of="state"), binds={})


def test_without_keys_programs_pass_as_they_are() -> None:
    guard = guard_of(keyring())
    assert type(guard) is NoGuard
    assert guard.read(reading, "t") is reading
    assert guard.write(saving, "t", True) is saving
    assert guard.write(saving, "t", "stored") is saving
    assert guard.sign(saving, SQLITE, "t", {}) is saving
    assert not guard.allots_first
    assert not guard.signs


@pytest.mark.parametrize("keys", [None, KEYS], ids=["plain", "encrypted"])
@pytest.mark.parametrize("signing", [None, SIGNING], ids=["unsigned", "signed"])
def test_keys_say_what_the_guard_does(keys: Any, signing: Any) -> None:
    guard = guard_of(keyring(keys=keys, signing=signing))
    assert guard.signs == (signing is not None)
    assert guard.allots_first == (keys is not None or signing is not None)
    assert isinstance(guard, Guard) == guard.allots_first
    assert (guard.read(reading, "t") is reading) == (signing is None)
    # What is stored already is sealed already, and read as everything is.
    assert (guard.write(saving, "t", "stored") is saving) == (signing is None)
    assert (guard.write(saving, "t", True) is saving) == (not guard.allots_first)


@pytest.mark.parametrize("keys", [None, KEYS], ids=["plain", "encrypted"])
@pytest.mark.parametrize("signing", [None, SIGNING], ids=["unsigned", "signed"])
def test_a_program_that_is_to_write_no_payload_writes_none(keys: Any, signing: Any) -> None:
    guard = guard_of(keyring(keys=keys, signing=signing))
    with pytest.raises(AssertionError, match="payload"):
        next(guard.write(saving, "t", False)())
    assert next(guard.write(reading, "t", False)())[0] is read_head(SQLITE)


BESIDE_THE_GUARD = {
    "database/known_keys.py": "it finds out whether the guard's keys are the tenant's",
}
"""Modules that send programs to a backend, and why they need no guard."""


def senders() -> Iterator[str]:
    """The modules that mention the method ``run`` of something called a backend."""
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Attribute) and node.attr == "run"):
                continue
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name.strip("_") == "backend":
                yield file.relative_to(SOURCES).as_posix()


def test_no_program_reaches_a_backend_beside_the_guard() -> None:
    assert {*senders()} == {"database/database.py", *BESIDE_THE_GUARD}

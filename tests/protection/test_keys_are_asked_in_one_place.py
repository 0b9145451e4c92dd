"""What keys mean for rows is said in protection/: no other path asks whether there are any.

A path that asks has to remember to, and one that forgets serves or writes what nobody has proven.
So the guard says the consequence (`allots_first`), a check does nothing without keys, and a
statement has a form for databases with signing keys that `Database.run` sends.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memalchemy
import memalchemy.checkpoints
import memalchemy.store
import memalchemy.threads
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.signatures import SigningKeys
from memalchemy.dialects import DIALECTS
from memalchemy.protection.guard import guard_of
from memalchemy.signing import generate_key
from memalchemy.statements import REGISTRY, Program, Statement, program_of

SOURCES = Path(memalchemy.__file__).parent
ASKED = {"signs", "encrypts"}
HOME = ("protection/", "codec/")

MAY_ASK: dict[str, str] = {
    "database/database.py": "the one door, in which the guard stands",
    "database/known_keys.py": "what keys a tenant is written with, which is checked at the door",
    "cli/commands/anchor.py": "takes anchors, for which there has to be a signing key",
    "cli/commands/keys.py": "encrypts and rotates, for which there has to be a key",
    "cli/commands/sign.py": "signs, for which there has to be a signing key",
    "maintenance/anchors.py": "takes anchors, for which there has to be a signing key",
    "maintenance/rotation/key_rotation.py": "encrypts and rotates, for which there has to be a key",
    "maintenance/sign.py": "signs, for which there has to be a signing key",
    "maintenance/copying/database_copy.py": (
        "refuses to copy what was never signed to where it has to be"
    ),
    "maintenance/copying/source.py": "checks with the keys of either side what is copied",
    "maintenance/own_words.py": "looks whether a signature tells what it decrypts otherwise",
    "maintenance/verify/log_verification.py": "reports what it could not check without keys",
    "maintenance/verify/database.py": "reports what it could not check without keys",
    "maintenance/verify/items.py": "reports what it could not check without keys",
    "maintenance/verify/logs.py": "reports what it could not open without keys",
    "maintenance/verify/words.py": "an encrypted database may never have had words",
    "analysis/duckdb_cache.py": "writes no unencrypted copy of an encrypted database unasked",
    "inspection/inspector.py": "shows whether a database is encrypted",
    "log/copy.py": "the database copies rows, which have to be sealed for their new places",
    "memory/_encryption.py": "names of texts are made with the key, and differ by namespace then",
    "memory/user_memory.py": "names of facts are made with the key, and older ones without it",
    "store/item_reader.py": "a decrypted value has another size, and words are read to be held",
    "search/vectors.py": "vectors that were compared in memory are read once more to be proven",
    "checkpoints/citus.py": "the rows of a held state are read without what proves them",
}
"""Other modules that ask whether there are keys, each with the reason."""

TREES = {
    path.relative_to(SOURCES).as_posix(): ast.parse(path.read_text())
    for path in sorted(SOURCES.rglob("*.py"))
}
OUTSIDE = [module for module in TREES if not module.startswith(HOME)]

FAMILIES: dict[str, Statement[Any]] = {
    name: family for name, family in REGISTRY.items() if family.signed_form is not None
}


def questions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        name = getattr(node, "attr", None) or getattr(node, "arg", None)
        if isinstance(node, ast.Attribute | ast.keyword) and name in ASKED:
            yield ast.unparse(node)


@pytest.mark.parametrize(
    "module", [one for one in OUTSIDE if one not in MAY_ASK or not any(questions(TREES[one]))]
)
def test_no_path_asks_whether_there_are_keys(module: str) -> None:
    assert module not in MAY_ASK, "it asks no more: take it from the list"
    assert list(questions(TREES[module])) == []


def test_whoever_may_ask_is_a_module() -> None:
    assert MAY_ASK.keys() <= set(OUTSIDE)


def test_programs_leave_the_form_for_signed_databases_to_the_guard() -> None:
    forms = {name.rpartition(".")[2]: family.signed_form for name, family in FAMILIES.items()}
    assert len(forms) == len(FAMILIES) > 5
    chosen = [
        (module, ast.unparse(node))
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (name := getattr(node.func, "attr", getattr(node.func, "id", ""))) in forms
        and forms[name] == "signed"
        and any(given.arg == "signed" for given in node.keywords)
    ]
    assert chosen == []


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("name", sorted(FAMILIES))
@pytest.mark.parametrize("signs", [False, True], ids=["unsigned", "signed"])
def test_the_guard_sends_the_form_of_its_database(name: str, dialect: str, signs: bool) -> None:
    family, database = FAMILIES[name], DIALECTS[dialect]
    guard = guard_of(Keyring(signing=SigningKeys([generate_key()] if signs else None)))
    forms = dict(family.enumerate(database))

    def sent_for(given: Any) -> Any:
        def reading() -> Program[Any]:
            return program_of(given, binds={})

        return next(guard.read(reading, "t")())[0]

    flag = f"{family.signed_form}="
    for shown, statement in forms.items():
        signed = forms[shown.replace(f"{flag}False", f"{flag}True")]
        assert sent_for(statement) is (signed if signs else statement)
    assert forms or dialect != "postgresql"

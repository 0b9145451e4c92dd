"""The public surface: small, documented, and changed only on purpose."""

from __future__ import annotations

import ast
import inspect
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import pytest

import memalchemy
import memalchemy.analysis
import memalchemy.collections
import memalchemy.conformance
import memalchemy.context
import memalchemy.conversations
import memalchemy.http
import memalchemy.inspection
import memalchemy.memory
import memalchemy.memory.managers
import public_surface
from memalchemy import errors
from memalchemy.migrate.chain import release_number
from pages import regenerates, with_rows
from public_surface import SNAPSHOT, is_inherited, lacks, of_release

PACKAGES = [
    memalchemy,
    memalchemy.analysis,
    memalchemy.collections,
    memalchemy.conformance,
    memalchemy.context,
    memalchemy.conversations,
    memalchemy.http,
    memalchemy.inspection,
    memalchemy.memory,
    memalchemy.memory.managers,
]

NARROWED: dict[str, str] = {}
"""What the last release had and this one has not, as `lacks` says it, with the reason.

docs/stability.md allows little. What was deprecated in the last release may go without a line here.
"""


def test_the_public_api_is_the_one_that_was_reviewed() -> None:
    surface = public_surface.surface()
    if regenerates():
        SNAPSHOT.write_text(surface)

    assert surface == SNAPSHOT.read_text()


def test_every_name_and_parameter_of_the_last_release_is_still_there() -> None:
    releases = [path.stem.partition("-")[2] for path in SNAPSHOT.parent.glob("public_api-*.txt")]
    last = max(releases, key=release_number)
    found = lacks(of_release(last).read_text(), SNAPSHOT.read_text())

    assert sorted(found) == sorted(NARROWED), (
        f"{last} promised these names. Deprecate what is to go (memalchemy/_deprecation.py); of a "
        "release without a tag: python -m tests.stored.make --write api"
    )


BEFORE = """\
class Agent(self, db: 'Database', *, name: 'str | None' = None, **more: 'Any') -> 'None'
  async ask(self, text: 'str', limit: 'int' = 10, *, ttl: 'Seconds | None' = None) -> 'Answer'
  deprecated hear(self, text: 'str') -> 'None'
  mood
find(text: 'str') -> 'list[str]'
"""


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("  mood\n", "", "Agent.mood was removed"),
        ("find(text: 'str') -> 'list[str]'\n", "", "find was removed"),
        ("find(text: 'str') -> 'list[str]'", "find", "find: can no longer be called"),
        ("async ask", "ask", "Agent.ask: is no longer async"),
        ("limit: 'int' = 10, ", "", "Agent.ask: parameter limit was removed"),
        ("limit: 'int' = 10", "limit: 'int'", "Agent.ask: parameter limit is now required"),
        ("= 10", "= 5", "Agent.ask: parameter limit has another default: 5"),
        (
            "limit: 'int' = 10, *, ",
            "*, limit: 'int' = 10, ",
            "Agent.ask: parameter limit is now given by its name alone",
        ),
        (
            "'str', limit: 'int' = 10",
            "'str', new: 'int' = 1, limit: 'int' = 10",
            "Agent.ask: parameter limit has another place",
        ),
        (
            "find(text: 'str'",
            "find(text: 'str', /",
            "find: parameter text can no longer be given by its name",
        ),
        ("'Seconds | None'", "'Seconds'", "Agent.ask: parameter ttl no longer takes None"),
        (
            "find(text: 'str'",
            "find(text: 'str', more: 'int'",
            "find: parameter more is new and required",
        ),
        (", **more: 'Any'", "", "Agent: **more was removed"),
        ("'Answer'", "'Answer | None'", "Agent.ask: may now return None"),
        ("  deprecated hear(self, text: 'str') -> 'None'\n", "", None),
        ("'Seconds | None' = None", "'Seconds | str | None' = None, more: 'int' = 0", None),
        ("  mood\n", "  mood\n  more\n", None),
        ("db: 'Database'", "db: 'object'", None),
    ],
)
def test_what_a_later_surface_lacks_is_named(was: str, now: str, said: str | None) -> None:
    assert BEFORE.count(was) >= 1

    assert lacks(BEFORE, BEFORE.replace(was, now, 1)) == ([said] if said else [])


def test_a_class_that_is_removed_is_named_once() -> None:
    assert lacks(BEFORE, BEFORE[BEFORE.index("find") :]) == ["Agent was removed"]


def test_all_is_sorted_and_complete() -> None:
    assert sorted(memalchemy.__all__, key=_natural) == memalchemy.__all__
    for name in memalchemy.__all__:
        assert getattr(memalchemy, name) is not None


def _natural(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_every_public_method_has_a_docstring() -> None:
    for name in memalchemy.__all__:
        value = getattr(memalchemy, name)
        if not inspect.isclass(value):
            continue
        assert value.__doc__, name
        for member, function in inspect.getmembers(value, inspect.isfunction):
            inherited = is_inherited(value, member)
            if not member.startswith("_") and not inherited:
                assert function.__doc__, f"{name}.{member}"


def test_every_error_has_a_code_of_its_own_and_a_line_in_the_documentation() -> None:
    page = Path(__file__).parents[1] / "docs" / "errors.md"
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value)
        and issubclass(value, errors.MemalchemyError)
        and value is not errors.MemalchemyError
    ]

    assert len({cls.code for cls in classes}) == len(classes)
    rows = [(f"`{cls.code}` `{cls.__name__}`",) for cls in classes]
    written = with_rows(page.read_text(), "| code and class |", rows, new=" | ")
    if regenerates():
        page.write_text(written)
    assert page.read_text() == written
    assert " |  |" not in written, "a line lacks when it is raised"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_package_has_the_names_that_it_lists_and_refuses_a_misspelt_one(package: Any) -> None:
    assert {*package.__all__} <= {*dir(package)}
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute") as refused:
        _ = package.Misspelt
    assert (refused.value.name, refused.value.obj) == ("Misspelt", package)


def test_what_is_imported_later_is_what_a_type_checker_is_told() -> None:
    for package in (memalchemy, memalchemy.conversations, memalchemy.http, memalchemy.memory):
        source = Path(str(package.__file__)).read_text()
        [block] = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
        told = {
            (node.module, name.name)
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        [assigned] = block.orelse
        places = ast.literal_eval(assigned.value.args[1])  # type: ignore[attr-defined]
        root = package.__name__
        assert told == {
            (resolve_name(f".{module}", root), name)
            for module, names in places.items()
            for name in names
        }

"""The modules of the package import in one direction: no circle, and nothing from above.

import-linter holds the packages to their order (`pyproject.toml`). This is about what it does not
see: circles within a package, and modules that are imported by a text.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from installed_packages import install_package
from memalchemy import _wiring
from memalchemy.dialects import DIALECTS
from pages import ROOT
from source_trees import parsed

SOURCES = ROOT / "src"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAYERS: list[list[str]] = [
    [one.strip() for one in layer.split("|")]
    for layer in PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
]
"""The packages from the top to the bottom."""

ALLOWED_CIRCLES: dict[frozenset[str], str] = {
    frozenset({"memalchemy.codec.anchors", "memalchemy.codec.signatures"}): (
        "keys hold the check of an anchor, which is made of keys: the type alone is imported"
    ),
}
"""Circles of modules, each with the reason why it stays."""


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for path in sorted((SOURCES / "memalchemy").rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports() -> dict[str, set[str]]:
    """What each module imports: when it is loaded, in its functions, or for its types alone.

    The package itself is left out: it stands above all its modules.
    """
    graph = grimp.build_graph("memalchemy", exclude_type_checking_imports=False, cache_dir=None)
    return {
        module: graph.find_modules_directly_imported_by(module) - {"memalchemy"}
        for module in graph.modules - {"memalchemy"}
    }


def circles(graph: Mapping[str, set[str]]) -> Iterator[frozenset[str]]:
    """Circles of a graph: of each knot of them one, then those that are left without it."""
    left = {module: set(others) for module, others in graph.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle = frozenset(error.args[1])
            yield circle
            for module in circle:
                left[module] -= circle
        else:
            return


def layer_of(module: str) -> int | None:
    """The number of the layer that a module stands in, from the top; ``None`` without one."""
    for number, packages in enumerate(LAYERS):
        if any(module == one or module.startswith(f"{one}.") for one in packages):
            return number
    return None


def texts_that_name_modules(tree: ast.Module) -> Iterator[str]:
    """The modules that are named in the texts of a module which imports modules by text."""
    if not any(
        isinstance(node, (ast.Name, ast.Attribute))
        and getattr(node, "id", getattr(node, "attr", None)) in ("import_module", "__import__")
        for node in ast.walk(tree)
    ):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0].rstrip(".")
            if name in MODULES and name != "memalchemy":
                yield name


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert set(circles(imports())) == set(ALLOWED_CIRCLES)


def test_a_circle_is_found_wherever_it_is() -> None:
    straight = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    knot = {"a": {"b"}, "b": {"c", "a"}, "c": {"d"}, "d": {"c"}}

    assert list(circles(straight)) == []
    assert set(circles(knot)) == {frozenset("ab"), frozenset("cd")}


def test_no_module_imports_one_above_it_by_a_text() -> None:
    above = {}
    for module, path in MODULES.items():
        own = layer_of(module)
        if own is None:  # the package itself and what is not layered stand above
            continue
        for name in texts_that_name_modules(parsed(path.read_text())):
            layer = layer_of(name)
            if layer is not None and layer < own:
                above[module] = name

    assert above == {}


def test_an_import_by_a_text_is_found() -> None:
    code = 'from importlib import import_module\nimport_module("memalchemy.dialects").DIALECTS'
    prefix = "import importlib\nimportlib.import_module(f'memalchemy.integrations.{1}')"

    assert list(texts_that_name_modules(parsed(code))) == ["memalchemy.dialects"]
    assert list(texts_that_name_modules(parsed(prefix))) == ["memalchemy.integrations"]


def test_everything_that_a_module_asks_for_from_above_is_there() -> None:
    asked = {
        name
        for path in MODULES.values()
        for name in re.findall(r"\bwired\(\"(\w+)\"\)", path.read_text())
    }

    assert asked == set(_wiring._places)
    assert all(_wiring.wired(name) is not None for name in asked)


# --- Column types: a host maps the tables, and has asked for no dialect ---------------------------

_FRESH = """
import sys
from memalchemy.schema import Base, DeltaRow, ThreadRow
assert not [name for name in sys.modules if name.startswith("memalchemy.dialects")]
from sqlalchemy.dialects import registry
from sqlalchemy.schema import CreateTable
dialect = registry.load({name!r})()
for table in Base.metadata.sorted_tables:
    print(CreateTable(table).compile(dialect=dialect))
"""


def created_in_a_fresh_process(name: str, path: str = "") -> str:
    """The tables as a process creates them that has imported the schema alone."""
    python_path = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
    ran = subprocess.run(
        [sys.executable, "-c", _FRESH.format(name=name)],
        env=os.environ | {"PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


@pytest.mark.parametrize("name", sorted({one.sqlalchemy_name for one in DIALECTS.values()}))
def test_a_fresh_process_stores_columns_as_the_dialect_of_its_engine_says(name: str) -> None:
    (dialect, *_) = DIALECTS.on(name)
    created = created_in_a_fresh_process(name)

    for storage in (dialect.column_types.time(), dialect.column_types.log_key()):
        from sqlalchemy.dialects import registry

        spelt = registry.load(name)().type_compiler_instance.process(storage.type)
        assert spelt in created


def test_a_fresh_process_stores_columns_portably_where_nobody_knows_the_database() -> None:
    created = created_in_a_fresh_process("mysql")

    assert "log_id BLOB NOT NULL" in created
    assert "updated_at BIGINT NOT NULL" in created


def test_a_fresh_process_finds_the_column_types_of_a_package(tmp_path: Path) -> None:
    code = (
        "from sqlalchemy import BINARY\n"
        "from memalchemy.column_types import ColumnTypes, Storage, uuid_bytes, uuid_of_bytes\n"
        "from memalchemy.dialects.sqlite import SQLite\n"
        "class Types(ColumnTypes):\n"
        "    def log_key(self):\n"
        "        return Storage(BINARY(16), uuid_bytes, uuid_of_bytes)\n"
        "class Theirs(SQLite):\n"
        "    name = 'theirs'\n"
        "    sqlalchemy_name = 'mysql'\n"
        "    column_types = Types()\n"
    )
    install_package(tmp_path, "theirs", "memalchemy.dialects", "theirs", code, "Theirs")

    assert "log_id BINARY(16) NOT NULL" in created_in_a_fresh_process("mysql", str(tmp_path))

"""The tiers of the tests: each has modules and a session, and quick finds what is near a change."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tiers
from nearest import nearest
from pages import ROOT
from source_trees import parsed

NOXFILE = (ROOT / "noxfile.py").read_text()
STRINGS = {
    node.value
    for node in ast.walk(ast.parse(NOXFILE))
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}
MODULES = sorted(tiers.HERE.rglob("test_*.py"))


@pytest.mark.parametrize("tier", tiers.TIERS)
def test_a_tier_has_modules(tier: str) -> None:
    assert [path for path in MODULES if tiers.tier_of(path) == tier]


@pytest.mark.parametrize(
    "pattern", [pattern for patterns in tiers.PATTERNS.values() for pattern in patterns]
)
def test_a_pattern_names_modules_that_are_there(pattern: str) -> None:
    assert list(tiers.HERE.glob(pattern))


@pytest.mark.parametrize(
    ("directory", "found"),
    [
        ("integrations/crewai", {"integrations"}),
        ("migrations", {"ci", "release"}),
        ("conformance", {"ci", "release"}),  # of one module CI runs a sample
        ("data", set()),
    ],
)
def test_a_directory_has_the_tiers_of_its_modules(directory: str, found: set[str]) -> None:
    assert tiers.tiers_in(tiers.HERE / directory) == found


@pytest.mark.parametrize("pattern", tiers.SAMPLED + tiers.SAMPLED_ON_SERVERS)
def test_a_release_runs_the_whole_of_what_a_change_runs_a_sample_of(pattern: str) -> None:
    found = [path for path in tiers.HERE.glob(pattern) if path in MODULES]

    assert found
    for path in found:
        assert tiers.tiers_of(path) in ({"core", "release"}, {"ci", "release"})


def test_a_sample_has_a_part_of_the_cases_of_each_test_whatever_their_order() -> None:
    module = tiers.HERE / tiers.SAMPLED[0]
    many = [case(module, f"test_a[{driver}-{n}]") for driver in "pq" for n in range(40)]
    one, few = case(module, "test_b"), [case(module, "test_c[1]"), case(module, "test_c[2]")]
    run = sample([*many, one, *few])

    assert len(run & {*many}) == len(many) // tiers.PART
    assert {found.name.split("[")[1][0] for found in run & {*many}} == {"p", "q"}
    assert one in run
    assert len(run & {*few}) == 1
    assert sample([*few, one, *reversed(many)]) == run


def test_on_a_server_a_sample_has_a_part_of_a_module_above_the_dialects() -> None:
    module = next(
        path
        for path in MODULES
        if tiers.is_sampled(path) and path.relative_to(tiers.HERE).as_posix() not in tiers.SAMPLED
    )
    names = [f"test_{n}[{name}]" for n in range(40) for name in ("sqlite", "postgresql")]
    for_each = [case(module, name) for name in names]
    on_server = {one for one in for_each if one.needs_server}
    own = case(module, "test_of_a_server_alone")._replace(needs_server=True)
    run = sample([*for_each, own])

    assert len(run & on_server) == len(on_server) // tiers.PART
    assert run - on_server == {*for_each} - on_server | {own}


def case(module: Path, name: str) -> tiers.Case:
    on_server = "postgresql" in name
    return tiers.Case(f"tests/{module.stem}.py::{name}", module, on_server, on_server)


def sample(cases: list[tiers.Case]) -> set[tiers.Case]:
    left_out = tiers.left_out_of_sample(cases)
    return {one for one in cases if one.name not in left_out}


def test_a_sample_is_run_where_it_is_asked_for_only() -> None:
    functions = [node for node in ast.parse(NOXFILE).body if isinstance(node, ast.FunctionDef)]

    asking = [one.name for one in functions if _names(one, "SAMPLE")]
    assert asking == ["sqlite", "postgres", "rest"]


def test_every_property_draws_a_part_of_its_examples_in_a_sample() -> None:
    """A number of examples stands in a call of `examples`, and its variable in one module."""
    numbers = {
        f"{path.relative_to(tiers.HERE)}:{node.value.lineno}": node.value
        for path in tiers.HERE.rglob("*.py")
        if path.name != "drawn_examples.py" and "max_examples" in (source := path.read_text())
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.keyword) and node.arg == "max_examples"
    }
    readers = [
        path.name
        for path in tiers.HERE.rglob("*.py")
        if re.search(r"environ.*MEMALCHEMY_E[X]AMPLES", path.read_text())
    ]

    assert len(numbers) > 50
    assert [where for where, number in numbers.items() if not _is_drawn(number)] == []
    assert readers == ["drawn_examples.py"]


def _is_drawn(number: ast.expr) -> bool:
    return isinstance(number, ast.Call) and ast.unparse(number.func) == "examples"


def _names(function: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))


def test_every_tier_is_run_by_a_session() -> None:
    for tier in tiers.TIERS:
        assert STRINGS & {tier, f"tests/{tier}"}, tier


def test_the_sessions_name_tests_that_are_there() -> None:
    paths = {text.partition("::")[0] for text in STRINGS if text.startswith("tests/")}

    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_pages_name_the_minutes_of_the_sessions() -> None:
    (assigned,) = re.findall(r"^MINUTES = (.*)$", NOXFILE, re.M)
    minutes: dict[str, int] = ast.literal_eval(assigned)
    rows = re.findall(
        r"^\| `(nox[^`]*)` \|.*\| (\d+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M
    )

    assert {command: int(number) for command, number in rows} == minutes
    for page in ("README.md", "docs/installation.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert f"about {minutes['nox']} minutes on two cores" in text, page


@pytest.mark.parametrize(
    ("changed", "near"),
    [
        ("src/memalchemy/store/write.py", "behaviour/test_store_batches.py"),
        ("src/memalchemy/codec/deltas.py", "codec/test_delta_codec.py"),
        ("tests/test_filter_operators.py", "test_filter_operators.py"),
        ("tests/tiers.py", "test_tiers.py"),
        ("tests/cli/conftest.py", "cli/test_cli_store.py"),
        ("noxfile.py", "test_packaging.py"),
    ],
)
def test_what_is_near_a_change_is_found(changed: str, near: str) -> None:
    assert tiers.HERE / near in nearest([changed])


def test_nothing_is_near_a_file_that_no_test_names() -> None:
    assert nearest(["of_" + "nobody.txt"]) == []


def test_the_module_that_a_change_names_is_the_nearest() -> None:
    assert (
        nearest(["src/memalchemy/keys.py", "tests/test_filter_operators.py"])[0].name
        == "test_filter_operators.py"
    )

"""The site has every page in its navigation, and every public name in its reference."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from website import check_search, check_site, hooks

import memalchemy
from memalchemy import integrations
from pages import ROOT

DOCS = ROOT / "docs"
PACKAGES = (
    "memalchemy",
    "memalchemy.collections",
    "memalchemy.conformance",
    "memalchemy.context",
    "memalchemy.conversations",
    "memalchemy.http",
    "memalchemy.inspection",
    "memalchemy.memory",
    "memalchemy.migrate",
    "memalchemy.sync",
)
ADAPTERS = [one.name for one in pkgutil.iter_modules(integrations.__path__) if one.name[0] != "_"]


class Config(yaml.SafeLoader):
    """Reads mkdocs.yml, in which a tag names a function of Python."""


Config.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


def configuration() -> dict[str, Any]:
    return yaml.load((ROOT / "mkdocs.yml").read_text(), Config)


def pages_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for below in nav.values():
            yield from pages_of(below)
    else:
        for one in nav:
            yield from pages_of(one)


def described() -> Counter[str]:
    pages = [DOCS / "errors.md", *(DOCS / "reference").glob("*.md")]
    return Counter(
        name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)
    )


MOST_WORDS = 75_000
"""Lower it when pages have become shorter."""


def test_the_documentation_does_not_grow() -> None:
    """A page that grows makes another one shorter, so that readers find what they look for.

    Words are counted as ``wc -w`` does: tables and code count as prose does.
    """
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]

    assert sum(len(page.read_text().split()) for page in pages) <= MOST_WORDS


def test_every_page_is_in_the_navigation_once() -> None:
    site = configuration()
    moved = [one.lstrip("/") for one in site.get("not_in_nav", "").split()]
    there = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))

    assert sorted([*pages_of(site["nav"]), *moved]) == there


def test_the_site_loads_nothing_from_other_servers() -> None:
    site = configuration()

    assert site["theme"]["font"] is False
    loaded = [*site["extra"]["polyfills"], *site["extra_css"], *site.get("extra_javascript", [])]
    assert [one for one in loaded if not (DOCS / one).exists()] == []
    assert "offline" in site["plugins"]


def test_a_name_is_described_once() -> None:
    assert [name for name, times in described().items() if times > 1] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_describes_every_public_name(package: str) -> None:
    names = importlib.import_module(package).__all__
    there = described()
    roots = {name for name in there if name.count(".") == 1}
    lacking = [
        name
        for name in names
        if f"{package}.{name}" not in there
        # Names of a package below are described as those of memalchemy, if it has them. Classes
        # without await are others.
        and not (
            f"memalchemy.{name}" in roots
            and getattr(memalchemy, name) is getattr(importlib.import_module(package), name)
        )
        and not (package == "memalchemy.memory" and _is_another_packages(name, there))
    ]

    assert lacking == []


def _is_another_packages(name: str, there: Counter[str]) -> bool:
    value = getattr(memalchemy.memory, name)
    return any(
        getattr(importlib.import_module(f"memalchemy.{package}"), name, None) is value
        and f"memalchemy.{package}.{name}" in there
        for package in ("collections", "conversations")
    )


def test_the_reference_describes_what_every_adapter_exports() -> None:
    exported = set()
    for name in ADAPTERS:
        base = ROOT / "src" / "memalchemy" / "integrations" / name
        path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        (found,) = re.findall(r"^__all__ = \[(.*?)\]", path.read_text(), re.M | re.S)
        exported |= {
            f"memalchemy.integrations.{name}.{one}" for one in re.findall(r'"(\w+)"', found)
        }

    assert exported == {name for name in described() if name.startswith("memalchemy.integrations.")}


def test_the_table_of_the_reference_names_nothing_twice_in_a_row() -> None:
    rows = re.findall(r"^\| .*\|$", (DOCS / "reference" / "index.md").read_text(), re.M)
    for row in rows:
        names = re.findall(r"`(\w+)`", row.split(" | ")[2])
        assert len(names) == len({*names}), row


def test_every_adapter_has_a_page_in_the_table_of_frameworks() -> None:
    table = (DOCS / "integrations" / "index.md").read_text()

    assert [name for name in ADAPTERS if f"({name.replace('_', '-')}.md)" not in table] == []


def test_a_site_that_loads_something_from_elsewhere_or_from_nowhere_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_site, "SITE", tmp_path)
    (tmp_path / "there.css").write_text("")
    (tmp_path / "index.html").write_text(
        '<link rel="canonical" href="https://memalchemy.example/">'
        '<link rel="stylesheet" href="there.css"><script src="https://cdn.example/a.js"></script>'
        '<img src="gone.svg"><a href="https://elsewhere.example/">a link is not loaded</a>'
    )

    assert check_site.foreign_or_missing_files() == [
        "index.html loads https://cdn.example/a.js",
        "index.html loads gone.svg, which is not there",
    ]


DECISIONS = sorted((DOCS / "adr").glob("0*.md"))
SECTIONS = ["Problem", "Decision", "Alternatives", "Consequences"]
LONG = {"0007", "0013", "0027", "0029"}
"""Decisions that take more than 250 words."""


def test_what_the_site_says_of_single_pages_is_of_pages_that_there_are() -> None:
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    named = {*hooks.WITHOUT_TABS, *hooks.WORDS, *hooks.WEIGHTS}

    assert {name for name in named if name.endswith(".md")} - there == set()
    folders = {name for name in {*hooks.WEIGHTS, *hooks.NO_TABS} if name.endswith("/")}
    assert [one for one in folders if not any(page.startswith(one) for page in there)] == []
    for question, pages in check_search.QUESTIONS.items():
        assert {f"{page}.md" for page in pages} & there, question


def test_a_guide_counts_more_in_the_search_than_a_decision_or_the_reference() -> None:
    weights = {page: hooks.weight_of(page) for page in pages_of(configuration()["nav"])}
    evidence = {page for page in weights if page.startswith(("adr/", "reference/"))}

    assert weights["store.md"] == 1
    assert max(weights[page] for page in evidence) < 1
    assert weights["adr/index.md"] < weights["integrations/strands.md"] < 1


def test_a_question_whose_page_is_not_among_the_first_is_seen() -> None:
    found = {"prune": ["a.html", "b.html", "retention.html"], "ttl": ["a.html", "b.html"]}

    assert check_search.misplaced(found) == ["'ttl' finds a.html, b.html"]
    assert len(check_search.QUESTIONS) >= 20


def test_the_list_of_decisions_has_their_titles() -> None:
    """``MEMALCHEMY_REGENERATE=1`` writes the list."""
    index = DOCS / "adr" / "index.md"
    titles = {
        page.name: page.read_text().splitlines()[0] for page in sorted(DOCS.glob("adr/0*.md"))
    }
    wanted = [f"- [{title.removeprefix('# ')}]({name})" for name, title in titles.items()]
    introduction, *listed = re.split(r"^(?=- \[)", index.read_text(), flags=re.M)
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        index.write_text(introduction + "\n".join([*wanted, ""]))
        listed = wanted

    assert [line.strip() for line in listed] == wanted


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda one: one.stem[:4])
def test_a_decision_keeps_to_the_template_and_is_short(decision: Path) -> None:
    text = decision.read_text()
    words = [one for one in text.split() if re.search(r"\w", one)]

    assert text.splitlines()[2].startswith("**Status:** ")
    assert re.findall(r"^## (.+)$", text, re.M) == SECTIONS
    assert re.search(r"^Code: ", text, re.M)
    assert len(words) <= (450 if decision.stem[:4] in LONG else 260)

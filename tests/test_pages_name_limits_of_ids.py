"""The page of an integration says in its first screen how long an id may be."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGES = Path(__file__).parent.parent / "docs" / "integrations"
ABOUT_MANY = {"adapters", "benchmarks", "index", "langgraph-store", "leaving", "matrix"}
ADAPTERS = sorted(one.stem for one in PAGES.glob("*.md") if one.stem not in ABOUT_MANY)
SCREEN = 25
"""Lines of a small terminal."""


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_first_screen_of_a_page_says_how_long_an_id_may_be(name: str) -> None:
    screen = (PAGES / f"{name}.md").read_text().splitlines()[:SCREEN]

    assert "at most 255 characters" in " ".join(screen)

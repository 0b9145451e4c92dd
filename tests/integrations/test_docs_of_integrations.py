"""The pages of the integrations run, and their links lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from subjects import FRAMEWORKS, INSTALLED

from pages import ROOT, broken_links, run_page

PAGES = sorted((ROOT / "docs" / "integrations").glob("*.md"))
MISSING = FRAMEWORKS.keys() - INSTALLED.keys()
"""Frameworks that need an environment of their own, which runs their pages."""


# LlamaIndex's agents read attributes that pydantic has deprecated.
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.stem.replace("-", "_") not in MISSING],
    ids=lambda page: page.name,
)
async def test_the_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []

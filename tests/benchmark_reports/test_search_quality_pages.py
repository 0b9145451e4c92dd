"""Pages of the search quality: the guide has the groups, and its table every language."""

from __future__ import annotations

from benchmarks.search_quality.page import group_of, languages_page, page
from benchmarks.search_quality.questions import KINDS

ABOUT = {"date": "2026-11-29", "commit": "12345678"}
RESULTS = {
    language: {kind: (0.5, 0.25) for kind in (*KINDS, "nowhere")}
    for language in ("de", "hi", "ja", "th", "ko")
}


def test_the_guide_has_a_row_for_each_group_and_links_to_the_table_of_languages() -> None:
    guide = page(RESULTS, version="1.2.3", about=ABOUT)

    assert "memalchemy 1.2.3" in guide
    assert "on 2026-11-29 at commit `12345678`" in guide
    assert "(benchmarks/search-quality.html)" in guide
    for language in RESULTS:
        assert f"| {group_of(language).name} | half | 0.50 / 0.25 |" in guide


def test_the_table_has_a_row_for_each_language() -> None:
    table = languages_page(RESULTS, about=ABOUT)

    for language in RESULTS:
        assert f"<tr><td>{language}" in table
    assert "<td>ja (no spaces)</td>" in table
    assert table.count("<td>0.25 (0.50)</td>") == len(RESULTS)

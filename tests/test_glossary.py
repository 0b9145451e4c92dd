"""docs/glossary.md is in order, and of terms that a reader meets."""

from __future__ import annotations

import re

from pages import ROOT, broken_links

PAGE = ROOT / "docs" / "glossary.md"
TERM = re.compile(r"^\*\*(.+?)\*\*: (.+?)(?=^\*\*|\Z)", re.MULTILINE | re.DOTALL)
LINK_AT_END = re.compile(r"[.]\s\[[^]]+\]\([^)]+\)\n+$")


def test_the_terms_of_the_glossary_are_in_the_order_of_the_alphabet() -> None:
    terms = [term.casefold() for term, _ in TERM.findall(PAGE.read_text())]

    assert terms
    assert terms == sorted(set(terms))


def test_each_term_has_one_or_two_sentences_and_a_link() -> None:
    for term, text in TERM.findall(PAGE.read_text()):
        assert LINK_AT_END.search(text), term
        sentences = re.split(r"[.](?=\s)", LINK_AT_END.sub(".\n", text))[:-1]
        assert len(sentences) <= 2, term


def test_the_links_of_the_glossary_lead_to_headings_that_are_there() -> None:
    assert broken_links(PAGE) == []


def test_each_term_occurs_in_the_code_or_on_another_page() -> None:
    texts = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md")]
    elsewhere = "\n".join(path.read_text() for path in texts if path != PAGE).casefold()

    for term, _ in TERM.findall(PAGE.read_text()):
        words = r"[\s_]+".join(map(re.escape, term.casefold().split()))
        assert re.search(rf"\b{words}", elsewhere), term

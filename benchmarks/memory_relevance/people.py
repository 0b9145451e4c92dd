"""The people of people.txt, what is known of them, and the prompts for which it matters."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Known(NamedTuple):
    """A fact about a person, and a prompt for which it matters."""

    fact: str
    prompt: str


class Changed(NamedTuple):
    """What was so, what is so now, and a prompt for which the second matters."""

    before: str
    now: str
    prompt: str


def _read() -> dict[str, list[list[str]]]:
    """Return the lines of each heading of people.txt, in their parts."""
    found: dict[str, list[list[str]]] = {}
    text = Path(__file__).with_name("people.txt").read_text(encoding="utf-8")
    for section in text.split("\n# ")[1:]:
        name, *lines = section.strip().splitlines()
        found[name] = [line.split(" | ") for line in lines]
    return found


_SECTIONS = _read()

CHANGED = [Changed(*parts) for parts in _SECTIONS.pop("changed")]

PEOPLE = {name: [Known(*parts) for parts in lines] for name, lines in _SECTIONS.items()}

"""The page of signatures lists what proves what statements return, as these declare it.

With ``MEMALCHEMY_REGENERATE=1`` the tables are written anew.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from edited_reads import PAGE

import golden  # noqa: F401 (the statements register when imported)
from memalchemy.proofs import CHECKS
from memalchemy.statements import REGISTRY, Statement

FOR = {
    "analysis": "analysis",
    "checkpoints": "checkpoints",
    "inspection": "inspector",
    "log": "logs",
    "maintenance.anchor_reading": "anchors",
    "maintenance.copying.database_copy": "`copy`",
    "maintenance.copying.items": "`copy`",
    "maintenance.copying.logs": "`copy`",
    "maintenance.copying.grown_logs": "`copy`",
    "maintenance.log_positions": "`copy` and `verify`",
    "maintenance.own_words": "`rotate-keys`",
    "maintenance.person": "`forget --person`",
    "maintenance.rotation.statements": "`rotate-keys`",
    "maintenance.sign": "`sign`",
    "maintenance.space": "space",
    "maintenance.stored_tenants": "jobs of all tenants",
    "maintenance.verify": "`verify`",
    "maintenance.words": "`rebuild-words`",
    "protection": "signing itself",
    "search": "searches",
    "store": "items",
}
"""What statements are for, by the beginnings of their names."""

TITLE = "proofs"


def proofs_of(family: Statement[Any]) -> Iterator[str]:
    """Yield what proves the rows of a family where `Database.run` sends it, for users."""
    if callable(family.proof):
        for values in itertools.product(*family._choices.values()):
            choice = dict(zip(family._choices, values, strict=True))
            yield family.proof(**choice).sentence
    elif family.proof is not None:
        yield family.proof.sentence


def tables() -> str:
    """Return the tables of the page."""
    at_once, checked, unproven = (defaultdict[str, set[str]](set) for _ in range(3))
    for name, family in REGISTRY.items():
        if name.endswith(".proven"):
            continue
        for sentence in proofs_of(family):
            at_once[sentence].add(name)
        for check in family.checks:
            checked[CHECKS[check].sentence].add(name)
        if family.unproven is not None:
            unproven[family.unproven].add(name)
    by_program = {one.sentence: checked[one.sentence] for one in CHECKS.values() if not one.before}
    by_writes = {one.sentence: checked[one.sentence] for one in CHECKS.values() if one.before}
    return "\n\n".join((
        table_of("verified by the read itself", dict(sorted(at_once.items()))),
        table_of("verified by the program that read it", by_program),
        table_of("verified before a write", by_writes),
        table_of("not verified, because", dict(sorted(unproven.items()))),
    ))  # fmt: skip


def table_of(title: str, rows: dict[str, set[str]]) -> str:
    lines = [f"| {title} | for | statements |", "|---|---|---|"]
    for sentence, names in rows.items():
        uses = sorted({used_for(name) for name in names}, key=lambda use: use.strip("`"))
        statements = ", ".join(f"`{name}`" for name in sorted(names))
        lines.append(f"| {sentence} | {', '.join(uses)} | {statements} |")
    return "\n".join(lines)


def used_for(name: str) -> str:
    (use,) = [use for begin, use in FOR.items() if name.startswith(f"{begin}.")]
    return use


def test_the_page_lists_what_statements_declare() -> None:
    found = re.search(rf"(?<=<!-- {TITLE} -->\n).*?(?=\n<!-- end -->)", PAGE.read_text(), re.DOTALL)
    assert found is not None, "the page has no tables of proofs"
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        text = PAGE.read_text()
        PAGE.write_text(text[: found.start()] + tables() + text[found.end() :])
        return
    assert found.group() == tables(), "MEMALCHEMY_REGENERATE=1 writes the tables anew"


def test_each_statement_that_declares_something_is_on_the_page() -> None:
    text = tables()
    for name, family in REGISTRY.items():
        if (family.checks or family.proof or family.unproven) and not name.endswith(".proven"):
            assert f"`{name}`" in text, name

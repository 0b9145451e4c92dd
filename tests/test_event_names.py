"""The docstring of `Event` and docs/telemetry.md name every event that the package publishes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from memalchemy.events import Event
from source_trees import parsed

ROOT = Path(__file__).parent.parent
FAMILIES = ("checkpoint", "store", "thread", "memory", "database", "http", "transfer")
NAME = re.compile(rf"(?:{'|'.join(FAMILIES)})(?:\.[a-z_]+)+")


def _published() -> Iterator[tuple[str, str]]:
    """The names of events in calls, and where they are. An `Event` alone is not published."""
    for path in sorted((ROOT / "src" / "memalchemy").rglob("*.py")):
        for call in ast.walk(parsed(path.read_text())):
            if not isinstance(call, ast.Call):
                continue
            inner = call.args[0] if call.args and _name(call) == "publish" else None
            named = inner if isinstance(inner, ast.Call) and _name(inner) == "Event" else call
            for value in named.args:
                if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
                    continue
                if named is inner or _name(call) == "operation" or NAME.fullmatch(value.value):
                    yield value.value, f"{path.relative_to(ROOT)}:{value.lineno}"


def _name(call: ast.Call) -> str | None:
    return call.func.id if isinstance(call.func, ast.Name) else None


def _listed(text: str, quote: str) -> set[str]:
    """The names in a text: whole, the end of one after its beginning, or ``.end`` after a name."""
    names: set[str] = set()
    beginnings: list[str] = []
    before = ""
    for word in re.findall(rf"{quote}([a-z_.]+){quote}", text):
        if word.endswith("."):
            beginnings = [*(beginnings if before.endswith(".") else []), word]
        elif word.startswith("."):
            word = before.rpartition(".")[0] + word
            names.add(word)
        elif "." in word:
            names.add(word)
            beginnings = []
        else:
            names.update(beginning + word for beginning in beginnings or [""])
        before = word
    return names


def test_the_class_lists_every_event_that_is_published() -> None:
    assert Event.__doc__ is not None
    listed = _listed(Event.__doc__.split("\n\n")[1], "``")
    published = list(_published())
    assert len(published) > 50
    assert [(name, where) for name, where in published if name not in listed] == []


def test_the_page_lists_the_events_of_the_class() -> None:
    assert Event.__doc__ is not None
    page = (ROOT / "docs" / "telemetry.md").read_text()
    rows = page.partition("| event |")[2].partition("\n\n")[0].splitlines()[2:]
    on_page = set().union(*(_listed(row.split("|")[1], "`") for row in rows))
    assert on_page == _listed(Event.__doc__.split("\n\n")[1], "``")

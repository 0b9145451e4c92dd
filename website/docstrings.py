"""A Griffe extension: docstrings of memalchemy, as its pages of reference show them.

A name in single backticks becomes a link, if a page of docs/reference describes it. An indented
example becomes a block of Python. The classes of `memalchemy.sync`, which are made at run time, are
those of the stub beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

PAGES = Path(__file__).parents[1] / "docs" / "reference"
DESCRIBED = re.compile(r"^::: (\S+)$", re.MULTILINE)
NAME = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(\(\))?`(?!`)")
SECTION = re.compile(r"^[A-Z][\w ]*:$")


class Docstrings(griffe.Extension):
    """Rewrites each docstring of the package once, when all of it is loaded."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        if pkg.name != "memalchemy":
            return
        _take_stub(pkg, loader)
        paths = [path for page in sorted(PAGES.glob("*.md")) for path in _described(page)]
        references = References(pkg, paths)
        for holder in _with_docstrings(pkg):
            docstring = holder.docstring
            assert docstring is not None
            docstring.value = references.linked(with_fences(docstring.value), holder)


class References:
    """The names that the pages of reference describe, and their paths there."""

    def __init__(self, pkg: griffe.Module, paths: list[str]) -> None:
        self._classes: dict[str, str] = {}
        self._known: set[str] = set()
        for path in paths:
            described = _resolved(pkg, path)
            self._known.add(path)
            self._classes.setdefault(described.name, path)
            if described.is_class:
                members = described.all_members
                self._known |= {f"{path}.{name}" for name in members if name[0] != "_"}
        self._rendered = {_resolved(pkg, path).path: path for path in reversed(paths)}

    def linked(self, text: str, holder: griffe.Object) -> str:
        """Return *text* with links to what it names, as seen from *holder*."""

        def link(found: re.Match[str]) -> str:
            path = self._path(found[1], holder)
            return f"[{found[0]}][{path}]" if path else found[0]

        parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
        parts[::2] = [NAME.sub(link, part) for part in parts[::2]]
        return "".join(parts)

    def _path(self, name: str, holder: griffe.Object) -> str | None:
        first, _, rest = name.partition(".")
        candidates = [name]
        owner = holder if holder.is_class else holder.parent
        if owner is not None and owner.is_class and (its := self._rendered.get(owner.path)):
            candidates.append(f"{its}.{name}")
        if its := self._classes.get(first):
            candidates.append(f"{its}.{rest}" if rest else its)
        return next((one for one in candidates if one in self._known), None)


def with_fences(text: str) -> str:
    """Return a docstring whose indented examples are blocks of Python."""
    done: list[str] = []
    example: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        begins = not example and number > 0 and not lines[number - 1].strip()
        if line.startswith("    ") and (example or (begins and _may_hold_an_example(done))):
            example.append(line[4:])
        elif example and not line.strip():
            example.append("")
        else:
            done += [*_fenced(example), line]
            example = []
    return "\n".join([*done, *_fenced(example)])


def _may_hold_an_example(before: list[str]) -> bool:
    outer = [line for line in before if line.strip() and not line.startswith(" ")]
    return bool(outer) and not SECTION.match(outer[-1])


def _fenced(example: list[str]) -> list[str]:
    if not example:
        return []
    code = "\n".join(example).rstrip()
    return ["```python", *code.splitlines(), "```", ""]


def _described(page: Path) -> list[str]:
    return DESCRIBED.findall(page.read_text(encoding="utf-8"))


def _resolved(pkg: griffe.Module, path: str) -> griffe.Object:
    found: Any = pkg[path.removeprefix("memalchemy.")]
    return found.final_target if found.is_alias else found


def _with_docstrings(holder: griffe.Object) -> Iterator[griffe.Object]:
    if holder.docstring is not None:
        yield holder
    for member in holder.members.values():
        if not member.is_alias:
            yield from _with_docstrings(member)  # type: ignore[arg-type]


def _take_stub(pkg: griffe.Module, loader: griffe.GriffeLoader) -> None:
    # The file has assignments where its stub has classes, and Griffe does not merge these.
    module = pkg["sync"]
    path = Path(str(module.filepath)).with_suffix(".pyi")
    stub = griffe.visit(
        "sync",
        path,
        path.read_text(encoding="utf-8"),
        parent=pkg,
        docstring_parser=loader.docstring_parser,
        docstring_options=loader.docstring_options,
    )
    for name, member in stub.members.items():
        if not member.is_alias and member.is_class:
            module.set_member(name, member)

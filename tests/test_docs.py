"""The documentation runs, and its links lead somewhere; integrations have tests of their own."""

from __future__ import annotations

import ast
import codeop
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from website import hooks

import memalchemy.sync
from memalchemy import analysis, collections, conversations, database, inspection, memory, store
from pages import BLOCK, ROOT, WrongOutput, broken_links, run_page, with_rows

TUTORIAL = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
OPERATIONS = sorted((ROOT / "docs" / "operations").glob("*.md"))
EXTEND = sorted((ROOT / "docs" / "extend").glob("*.md"))
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
GUIDES = [*sorted((ROOT / "docs").glob("*.md")), *TUTORIAL, *OPERATIONS, *EXTEND]
PAGES = [ROOT / "README.md", *GUIDES, *REFERENCE]
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
OTHERS = [
    CONTRIBUTING,
    *sorted((ROOT / "tests").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
]

pytestmark = pytest.mark.own_keys  # the examples have databases, and keys, of their own


def has_tabs(page: Path) -> bool:
    if not page.is_relative_to(ROOT / "docs"):
        return False
    source = str(page.relative_to(ROOT / "docs"))
    text = page.read_text()
    return hooks.has_tabs(source) and "=== " in hooks.with_tabs(text)


WITH_TABS = [page for page in PAGES if has_tabs(page)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
async def test_the_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await run_page(page)


@pytest.mark.parametrize("page", WITH_TABS, ids=name_of)
async def test_the_examples_of_a_page_run_without_await(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await run_page(page, sync=True)


def test_most_guides_of_the_classes_have_tabs() -> None:
    """So that the test above does not pass because it runs nothing."""
    assert len(WITH_TABS) > 12
    assert {"store.md", "checkpoints.md"} <= {page.name for page in WITH_TABS}


def test_the_tabs_of_a_page_have_the_same_block_twice() -> None:
    page = """Text.

```python
from memalchemy import Conflict, Database, Store
from memalchemy.verify import verify

async with Database("a.db") as db:
    assert (await store.get(("a",), "k")).value == 1
    found = [one async for one in store.items()]
```

```python async
await verify(db)
```

```python
print(1)
```
"""

    tabs = hooks.with_tabs(page)

    assert tabs.startswith("""Text.

=== "Without await"

    ```python
    from memalchemy.sync import Conflict, Database, Store
    from memalchemy.verify import verify

    with Database("a.db") as db:
        assert store.get(("a",), "k").value == 1
        found = [one for one in store.items()]
    ```

=== "With await"

    ```python
    from memalchemy import Conflict, Database, Store
""")
    assert '```python title="With await only"\nawait verify(db)\n```' in tabs
    assert tabs.endswith("```python\nprint(1)\n```\n")


@pytest.mark.parametrize(
    ("written", "without"),
    [
        ("x = await f(await g())", "x = f(g())"),
        ("x = (await f())['a']", "x = f()['a']"),
        ("x = (await f(('a',), 'k')).value", "x = f(('a',), 'k').value"),
        ("x = [y async for y in z if await f(y)]", "x = [y for y in z if f(y)]"),
        ("async def f():  # to await later\n    return 'await it'",
         "def f():  # to await later\n    return 'await it'"),
        ("awaited = asynchronous(await_=1)", "awaited = asynchronous(await_=1)"),
        ("from memalchemy import Store, telemetry",
         "from memalchemy import telemetry\nfrom memalchemy.sync import Store"),
        ("from memalchemy import (\n    Conflict,\n    Database,\n)",
         "from memalchemy.sync import Conflict, Database"),
        ("from memalchemy.memory import EpisodeStore", "from memalchemy.sync import EpisodeStore"),
        ("from memalchemy import Conflict", "from memalchemy import Conflict"),
        ("from memalchemy.sync import Store", "from memalchemy.sync import Store"),
    ],
)  # fmt: skip
def test_a_block_without_await_is_the_same_code(written: str, without: str) -> None:
    assert hooks.without_await(f"{written}\n") == f"{without}\n"


def test_the_tabs_know_the_names_of_the_classes_without_await() -> None:
    classes, names = hooks.sync_names()
    homes = (memalchemy, collections, conversations, database, inspection, memory, analysis, store)
    twins = {
        name
        for name in memalchemy.sync.__all__
        for home in homes
        if getattr(home, name, None) not in (None, getattr(memalchemy.sync, name))
    }

    assert names == frozenset(memalchemy.sync.__all__)
    assert twins <= classes
    assert [one for one in classes - twins if hasattr(memalchemy, one)] == []


@pytest.mark.parametrize(
    ("output", "fits"),
    [
        ("1\n2\n", True),
        ("1\n…\n", True),
        ("…2\n", True),
        ("1\n", False),
        ("1\n3\n", False),
        ("1.2\n", False),
        ("", False),
    ],
)
async def test_an_output_fence_is_what_the_blocks_before_it_print(
    output: str, fits: bool, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint(1)\n```\n```python\nprint(2)\n```\n"
        f"```output\n{output}```\n```python\nprint(3)\n```\n```output\n3\n```\n"
    )

    if fits:
        await run_page(page)
    else:
        with pytest.raises(WrongOutput):
            await run_page(page)


def test_the_rows_of_a_table_are_those_of_the_code_and_keep_what_a_page_says() -> None:
    head = "| a | b | c |\n|---|---|---|\n"
    rest = "\n| `z` | a |\n"
    page = f"{head}| `x` | 1 | one |\n| `y` | 2 | two \\| too |\n{rest}"

    written = with_rows(page, "| a | b |", [("`n`", "0"), ("`y`", "3")], new="new")

    assert written == f"{head}| `n` | 0 | new |\n| `y` | 3 | two \\| too |\n{rest}"
    assert with_rows(page, "| a | b |", [("`x`", "1"), ("`y`", "2")]) == page


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](page.md#here) [b](#there) [c](gone.md) [d](page.md#gone)\n")

    assert broken_links(page) == ["#there", "gone.md", "page.md#gone"]


def test_each_example_of_readme_is_a_script(tmp_path: Path) -> None:
    """One prints what the page says, and the same when it is run again on the same file."""
    text = (ROOT / "README.md").read_text()
    scripts, outputs = BLOCK.findall(text), re.findall(r"^```output\n(.*?)^```", text, re.M | re.S)
    assert len(scripts) == len(outputs) > 0
    for number, (block, output) in enumerate(zip(scripts, outputs, strict=True)):
        script = tmp_path / f"example{number}.py"
        script.write_text(block)
        for _ in range(2):
            ran = subprocess.run(
                [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout == output


def test_the_front_pages_are_short() -> None:
    """A reader in a hurry reads so much, and no more."""
    readme = (ROOT / "README.md").read_text()

    assert len(readme.splitlines()) <= 110
    assert len(readme.split()) <= 760, "with the words of code and tables"


def can_be_pasted(block: str) -> bool:
    """Whether Python's prompt takes a block line by line: it ends a statement at an empty line."""
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    lines: list[str] = []
    try:
        for line in [*block.splitlines(), ""]:
            lines.append(line)
            if compiler("\n".join(lines)) is not None:
                lines = []
    except SyntaxError:
        return False
    return not lines


def without_lines_of_the_formatter(block: str) -> str:
    """Remove the empty lines of a block that formatting puts around definitions inside others.

    A prompt that reads line by line, as Python's before 3.13, takes no class with two methods.
    """
    tree = ast.parse("async def block():\n" + textwrap.indent(block, "    "))
    (body,) = tree.body
    lines = block.splitlines()
    for node in body.body:
        inside = [one for one in ast.walk(node) if one is not node]
        if any(isinstance(one, DEFINITIONS) for one in inside):
            first, last = node.lineno - 1, node.end_lineno - 1
            for number in range(first - 1, last):
                if not lines[number].strip():
                    lines[number] = "    # nothing"
    return "\n".join(lines) + "\n"


def awaits(block: str) -> bool:
    """Whether a block has an `await` outside any function."""
    try:
        compile(block, "block", "exec", dont_inherit=True)
    except SyntaxError:
        return True
    return False


AWAITING = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if any(map(awaits, BLOCK.findall(page.read_text())))
]


@pytest.mark.parametrize("page", sorted({*TUTORIAL, *AWAITING}), ids=name_of)
def test_the_blocks_of_a_page_can_be_pasted(page: Path) -> None:
    blocks = map(without_lines_of_the_formatter, BLOCK.findall(page.read_text()))
    assert [one for one in blocks if not can_be_pasted(one)] == []


def test_only_one_page_says_where_blocks_with_await_run() -> None:
    pages = [page.name for page in (ROOT / "docs").rglob("*.md")
             if "python -m asyncio" in " ".join(page.read_text().split())]  # fmt: skip

    assert pages == ["installation.md"], "the others have tabs"


def test_a_block_that_cannot_be_pasted_is_seen() -> None:
    assert can_be_pasted("for number in range(2):\n    print(number)\n\nawait work()\n")
    assert not can_be_pasted("for number in range(2):\n    print(number)\nprint()\n")
    assert not can_be_pasted("with open(path) as file:\n    print(file)\n\n    print(path)\n")


def test_contributing_names_all_that_is_in_the_package() -> None:
    (tree,) = re.findall(r"^```\n(src/memalchemy/\n.*?)```", CONTRIBUTING.read_text(), re.M | re.S)
    first = "\n".join(re.split(r"\s{2,}", line.strip())[0] for line in tree.splitlines()[1:])
    there = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in (ROOT / "src" / "memalchemy").iterdir()
        if not path.name.startswith("_") and (path.suffix == ".py" or path.is_dir())
    }

    assert {*first.split()} - {"migrations/"} == there

"""Hooks of MkDocs: tabs without and with await, the order of the search, links to the code."""

from __future__ import annotations

import ast
import io
import posixpath
import re
import textwrap
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SYNC = ROOT / "src" / "memalchemy" / "sync" / "__init__.py"
LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")
BLOCK = re.compile(r"^```python( async)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r"^```python async$", re.MULTILINE)
DESCRIBED = re.compile(r"^::: memalchemy\.integrations\.\S+$", re.MULTILINE)
"""A class of an adapter, which stands below the heading of its framework."""
IMPORT = re.compile(r"^from memalchemy(\.\w+)? import (\([^)]*\)|[^\n(]+)$", re.MULTILINE)
AWAIT_IN_BRACKETS = re.compile(r"\(await ([\w.]+\((?:[^()]|\([^()]*\))*\))\)(?=[\[.])")
"""Such as ``(await f(x))["a"]``, which needs no brackets without the ``await``."""

WITHOUT_TABS = frozenset(
    {
        "anchors.md",
        "ask-your-data.md",
        "backup.md",
        "conformance.md",
        "dialects.md",
        "encryption.md",
        "extend/adapter.md",
        "hosts.md",
        "http.md",
        "retention.md",
        "testing.md",
        "signatures.md",
        "sqlalchemy.md",
        "sync.md",
        "verify.md",
    }
)
"""Guides about functions, sessions or engines that only asyncio has, and the one about both."""
NO_TABS = ("adr/", "integrations/", "reference/")
WEIGHTS = {
    "adr/": 0.1,
    "benchmarks.md": 0.1,
    "glossary.md": 0.5,
    "integrations/": 0.5,
    "integrations/benchmarks.md": 0.1,
    "integrations/langgraph.md": 1,
    "integrations/matrix.md": 0.1,
    "parity.md": 0.1,
    "reference/": 0.1,
    "reference/cli.md": 0.2,
    "reference/limits.md": 0.5,
    "search-quality.md": 0.1,
}
"""How much a hit on these pages counts, by the beginning of their path: the longest one decides.
A hit on another page, a guide, counts 1.
"""
WORDS = {
    "ask-your-data.md": ["pandas", "cost per user", "SQL queries"],
    "backup.md": ["restore"],
    "checkpoints.md": ["save", "load", "save state"],
    "command-line.md": ["CLI", "exit codes", "options"],
    "concurrency.md": ["lost update", "race", "concurrent requests"],
    "conversations.md": ["chat history", "messages"],
    "embeddings.md": ["embedding model", "OpenAI embeddings", "sentence-transformers", "reembed"],
    "encryption.md": ["rotate keys"],
    "erasure.md": ["GDPR", "delete a user", "forget"],
    "facts.md": ["user memory"],
    "help.md": ["FAQ", "troubleshooting", "never awaited"],
    "hosts.md": ["FastAPI", "transaction"],
    "http.md": ["REST API"],
    "managers.md": ["token budget", "context window", "summarize"],
    "migrations.md": ["create tables", "upgrade"],
    "operations/run.md": ["PgBouncer", "crontab", "Kubernetes"],
    "retention.md": ["prune", "vacuum", "delete old", "ttl", "expire"],
    "search.md": ["vector search", "hybrid search", "full-text", "filter"],
    "store.md": ["namespace", "put", "get"],
    "sync.md": ["without asyncio", "without await"],
    "tenants.md": ["row-level security", "multi-tenant"],
    "testing.md": ["pytest"],
    "tutorial/travel-and-branch.md": ["time travel", "fork"],
    "vector-store.md": ["RAG", "embeddings"],
}
"""Words that readers search for and the titles of the page lack: the search reads them as tags."""


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Return the page with tabs, and with links that leave docs/ as the file's address."""
    source = page.file.src_uri
    if (weight := weight_of(source)) != 1:
        page.meta["search"] = {"boost": weight}
    if source in WORDS:
        page.meta["tags"] = WORDS[source]
    markdown = with_tabs(markdown) if has_tabs(source) else PLAIN.sub("```python", markdown)
    markdown = DESCRIBED.sub(r"\g<0>\n    options:\n      heading_level: 3", markdown)
    folder = posixpath.join("docs", posixpath.dirname(source))

    def replaced(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        if path == "docs" or path.startswith("docs/"):
            return link[0]
        return f"]({config.repo_url}/blob/main/{path}{link[2] or ''})"

    return LINK.sub(replaced, markdown)


def weight_of(source: str) -> float:
    """Return how much a hit of the search on the page at *source*, a path in docs/, counts."""
    beginnings = [beginning for beginning in WEIGHTS if source.startswith(beginning)]
    return WEIGHTS[max(beginnings, key=len)] if beginnings else 1


def has_tabs(source: str) -> bool:
    """Return true if the blocks of the page at *source*, a path in docs/, are shown as tabs."""
    return source not in WITHOUT_TABS and not source.startswith(NO_TABS)


def with_tabs(markdown: str) -> str:
    """Return the page with each block that has a form without await as two tabs."""

    def tabs(block: re.Match[str]) -> str:
        code = block[2]
        if block[1]:
            return f'```python title="With await only"\n{code}```'
        if without_await(code) == code:
            return block[0]
        both = {"Without await": without_await(code), "With await": code}
        return "\n\n".join(
            f'=== "{title}"\n\n' + textwrap.indent(f"```python\n{one}```", "    ")
            for title, one in both.items()
        )

    return BLOCK.sub(tabs, markdown)


def without_await(code: str) -> str:
    """Return a block of a page as it is with `memalchemy.sync`."""
    code = AWAIT_IN_BRACKETS.sub(r"\1", code)
    lines = code.splitlines(keepends=True)
    for token in reversed([*tokenize.generate_tokens(io.StringIO(code).readline)]):
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            line, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
            lines[line] = lines[line][:start] + lines[line][end:].lstrip(" ")
    return IMPORT.sub(_import, "".join(lines))


def _import(found: re.Match[str]) -> str:
    module = f"memalchemy{found[1] or ''}"
    names = [name.strip() for name in found[2].strip("()").split(",") if name.strip()]
    classes, all_names = sync_names()
    if not classes.intersection(names):
        return found[0]
    ours = [name for name in names if name in all_names]
    rest = [name for name in names if name not in all_names]
    return "\n".join(
        _import_line(where, some)
        for where, some in ((module, rest), ("memalchemy.sync", ours))
        if some
    )


def _import_line(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= 100:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


@cache
def sync_names() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the classes that `memalchemy.sync` has for asynchronous ones, and all.

    They are read from its source, because the site is built without the package.
    """
    names, shared = set[str](), set[str]()
    for node in ast.parse(SYNC.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            if not f"{node.module}".startswith("memalchemy.sync."):
                shared |= {one.name for one in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "__all__":
                names |= set(ast.literal_eval(node.value))
            elif node.targets[0].id == "_SHARED_LATER":
                shared |= {one for some in ast.literal_eval(node.value).values() for one in some}
    return frozenset(names - shared), frozenset(names)

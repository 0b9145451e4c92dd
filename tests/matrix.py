"""The page docs/integrations/matrix.md, made from what runs of the tests of integrations found.

``python -m tests.matrix PART…`` puts parts, which ``pytest --matrix PART`` writes, together in
matrix.json, and writes the page and its list of reasons from it. `nox -s matrix` does so with the
parts of its sessions.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.report import when

DOCS = Path(__file__).parents[1] / "docs" / "integrations"
STORED, PAGE, LEFT_OUT = DOCS / "matrix.json", DOCS / "matrix.md", DOCS / "left-out.html"

NAMES = {
    "a2a": "A2A",
    "agent_framework": "Microsoft Agent Framework",
    "claude_agent_sdk": "Claude Agent SDK",
    "crewai": "CrewAI",
    "google_adk": "Google ADK",
    "haystack": "Haystack",
    "langchain": "LangChain",
    "langgraph": "LangGraph",
    "lauren_ai": "lauren-ai",
    "lazybridge": "LazyBridge",
    "llama_index": "LlamaIndex",
    "llm_agents_from_scratch": "LLM agents from scratch",
    "locus": "locus",
    "mem0": "mem0",
    "openai_agents": "OpenAI Agents SDK",
    "pydantic_ai": "Pydantic AI",
    "pydantic_ai_harness": "Pydantic AI harness",
    "strands": "Strands Agents",
}
"""The frameworks as they call themselves."""

TOGETHER = "together"
KINDS = {"promises": ("promises",), "our tests": ("tests", "kill", "import")}
"""Columns of the page, and the kinds of tests that they count."""
DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
REASONS = {
    "left out": "Not run",
    "expected to fail": "Run, and expected to fail",
    "skipped": "Skipped by the framework",
}

ABOUT = """\
# Framework test matrix

How many tests of each adapter passed: **on SQLite / on PostgreSQL**. Failed ones would be in bold
beside it, and a dash means that there is no such test. `nox -s frameworks crewai
pydantic-ai-harness matrix` generates this page. [matrix.json](matrix.json) names the tests.

- **Its own tests** are the framework's, with memalchemy's class in place of its own. If its wheel
  and sdist have none, our tests compare with its own storage, call by call.
- **Left out** are those of its own tests that do not run, are expected to fail, or are skipped by
  the framework, for [these reasons](left-out.html).
- **Promises** are the [checks of an adapter](../conformance.md#promises-of-an-adapter), for each
  kind of thing that the framework stores.
- **Our tests** are all others. Some end a writing process with `SIGKILL`, and check that every
  acknowledged write is there. A test that names no database is counted under SQLite.

"""

LEFT_OUT_TITLE = "Tests of frameworks that are left out"


def merge(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up what parts found. A framework that is in several environments is that of the first.

    Parts of one environment have the same frameworks. Of a test in several, the last result counts.
    """
    runs: dict[frozenset[str], dict[str, Any]] = {}
    for part in parts:
        run = runs.setdefault(frozenset(part["frameworks"]), {"tests": {}})
        run |= {**part, "tests": run["tests"] | part["tests"]}
    merged: dict[str, Any] = {"runs": [], "frameworks": {}, "suites": [], "tests": {}}
    for run in runs.values():
        new = [name for name in run["frameworks"] if name not in merged["frameworks"]]
        where = {name: run[name] for name in ("date", "commit", "python", "sqlite", "postgresql")}
        merged["runs"].append({**where, "frameworks": new})
        merged["frameworks"] |= {name: run["frameworks"][name] for name in new}
        for name, test in run["tests"].items():
            if test["framework"] in {*new, TOGETHER}:
                _add(merged, name, test)
    for name in ("frameworks", "tests"):
        merged[name] = dict(sorted(merged[name].items()))
    merged["suites"].sort(key=lambda one: (one["framework"], one["package"], one["database"]))
    return merged


def _add(merged: dict[str, Any], name: str, test: Mapping[str, Any]) -> None:
    """Add one test, or what it counted in place of itself."""
    outcome, suites, counts = test["outcome"], test.get("suites", ()), test.get("counts", ())
    for suite in suites:
        of_package = _suite(merged, test, suite["package"], suite["version"])
        for one, (done, reason) in suite["outcomes"].items():
            _note(of_package, done, reason, one)
    for one in counts:
        _count(merged, test, one["kind"], one["counts"])
    if outcome != "failed" and (suites or counts):
        return
    if test["kind"] == "suite":
        of_package = _suite(merged, test, test["package"], test["version"])
        _note(of_package, outcome, test["reason"], name)
    else:
        _count(merged, test, test["kind"], {outcome: 1})


def _suite(
    merged: dict[str, Any], test: Mapping[str, Any], package: str, version: str
) -> dict[str, Any]:
    key = {"framework": test["framework"], "package": package, "version": version}
    key["database"] = test["database"]
    for one in merged["suites"]:
        if key.items() <= one.items():
            found: dict[str, Any] = one
            return found
    merged["suites"].append({**key, "counts": {}, **{kind: {} for kind in REASONS}})
    return _suite(merged, test, package, version)


def _note(suite: dict[str, Any], outcome: str, reason: str, test: str) -> None:
    suite["counts"][outcome] = suite["counts"].get(outcome, 0) + 1
    if outcome in REASONS:
        suite[outcome].setdefault(reason, []).append(test)


def _count(
    merged: dict[str, Any], test: Mapping[str, Any], kind: str, counts: Mapping[str, int]
) -> None:
    kinds = merged["tests"].setdefault(test["framework"], {})
    there = kinds.setdefault(kind, {}).setdefault(test["database"], {})
    for outcome, number in counts.items():
        there[outcome] = there.get(outcome, 0) + number


def render(stored: Mapping[str, Any]) -> str:
    """Return the page."""
    rows = []
    for name, one in stored["frameworks"].items():
        own = _of_suites(stored["suites"], name)
        rows.append(
            [
                f"[{NAMES[name]}]({_page_of(name)})<br>{one['package']} {one['version']}",
                _cell(own),
                _left_out(own),
                *(_cell(_added(stored["tests"].get(name, {}), kinds)) for kinds in KINDS.values()),
            ]
        )
    of_all = stored["tests"].get(TOGETHER, {})
    together = [_cell(_added(of_all, kinds)) for kinds in KINDS.values()]
    rows.append(["all of them together", "–", "–", *together])
    head = ["framework, tested with", "its own tests", "left out", *KINDS]
    runs = dict.fromkeys(map(_run, stored["runs"]))
    return "\n".join([f"{ABOUT}{' '.join(runs)}", "", _table(head, rows)]) + "\n"


def render_left_out(stored: Mapping[str, Any]) -> str:
    """Return the page of the reasons, in HTML: beside the navigation of the site and its search."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{LEFT_OUT_TITLE}</title>",
        "<style>:root { color-scheme: light dark; } body { font: 15px/1.5 system-ui, sans-serif; "
        "margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }</style></head><body>",
        f"<h1>{LEFT_OUT_TITLE}</h1>",
        '<p>Generated by <code>nox -s matrix</code>. The <a href="matrix.html">matrix</a> counts '
        'them, and <a href="matrix.json">matrix.json</a> names each.</p>',
    ]
    for name in stored["frameworks"]:
        parts.append(f'<h2 id="{_anchor(name)}">{escape(NAMES[name])}</h2>')
        if why := stored["frameworks"][name]["no_suite"]:
            parts.append(f"<p>{escape(why)}</p>")
        for kind, words in REASONS.items():
            if reasons := _reasons(stored, name, kind):
                listed = (f"<li>{number}: {escape(why)}</li>" for why, number in reasons.items())
                parts.append(f"<p>{words}:</p>\n<ul>{''.join(listed)}</ul>")
    return "\n".join([*parts, "</body></html>", ""])


def _reasons(stored: Mapping[str, Any], framework: str, kind: str) -> dict[str, int]:
    """The reasons why tests of a framework are left out, each with their number."""
    named: dict[str, set[str]] = {}
    for suite in stored["suites"]:
        if suite["framework"] == framework:
            for reason, names in suite[kind].items():
                named.setdefault(reason, set()).update(names)
    return {reason: len(names) for reason, names in named.items()}


def _anchor(framework: str) -> str:
    return NAMES[framework].lower().replace(" ", "-")


def _page_of(framework: str) -> str:
    return f"{framework.replace('_', '-')}.md"


def _run(run: Mapping[str, Any]) -> str:
    where = f"Python {run['python']}, SQLite {run['sqlite']} and PostgreSQL {run['postgresql']}"
    return f"The run was {when(run)} with {where}."


def _of_suites(suites: Sequence[Mapping[str, Any]], framework: str) -> dict[str, Any]:
    found: dict[str, Counter[str]] = {}
    for one in suites:
        if one["framework"] == framework:
            found.setdefault(one["database"], Counter()).update(one["counts"])
    return dict(found)


def _added(
    tests: Mapping[str, Mapping[str, Mapping[str, int]]], kinds: Sequence[str]
) -> dict[str, Counter[str]]:
    """Return the counts of several kinds of tests, by database."""
    found: dict[str, Counter[str]] = {}
    for kind in kinds:
        for database, counts in tests.get(kind, {}).items():
            found.setdefault(database, Counter()).update(counts)
    return found


def _cell(databases: Mapping[str, Mapping[str, int]]) -> str:
    if not databases:
        return "–"
    return " / ".join(_passed(databases.get(name, {})) for name in DATABASES)


def _passed(counts: Mapping[str, int]) -> str:
    if not counts:
        return "–"
    failed = counts.get("failed", 0)
    return f"{counts.get('passed', 0):,}" + (f", **{failed} failed**" if failed else "")


def _left_out(databases: Mapping[str, Mapping[str, int]]) -> str:
    if not databases:
        return "–"
    return " / ".join(
        f"{sum(databases[name].get(kind, 0) for kind in REASONS):,}" if name in databases else "–"
        for name in DATABASES
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(parts: Sequence[str]) -> None:
    """Write matrix.json and the pages from the parts in these files."""
    stored = merge(json.loads(Path(part).read_text()) for part in parts)
    if missing := NAMES.keys() - stored["frameworks"].keys():
        sys.exit(f"no part has run {', '.join(sorted(missing))}")
    STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(render(stored))
    LEFT_OUT.write_text(render_left_out(stored))


if __name__ == "__main__":
    main(sys.argv[1:])

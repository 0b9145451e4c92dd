"""What a run found: as a table, as JSON, as pages of all results, and in README.md and the docs.

Knows nothing of how anything is measured, and imports no other library: what is committed can be
held to its JSON without one.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import TOLERANCE, Finding
from benchmarks.picture import draw, draw_pairs
from benchmarks.workload import FULL, THREADS

ROOT = Path(__file__).parents[1]
COMMITTED = ROOT / "docs" / "benchmarks"
PAGES = {
    "results": ("README.md", "docs/benchmarks.md"),
    "integrations": ("docs/integrations/benchmarks.md",),
}
"""The committed runs, by the names of their JSON and their picture, and where each is shown."""

ALL_RESULTS = {
    "results": ("All results of the benchmarks", "../benchmarks.html"),
    "integrations": (
        "All results of the benchmarks of the integrations",
        "../integrations/benchmarks.html",
    ),
}
"""The titles of the pages of all results of the committed runs, and the guides that link to them.

They are HTML, so that they are in the site and neither in its navigation nor in its search.
"""
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"

SHORT_BEGIN, SHORT_END = "<!-- short-threads:begin -->", "<!-- short-threads:end -->"

SAVERS = {"SQLite": "AsyncSqliteSaver", "PostgreSQL": "AsyncPostgresSaver"}
"""LangGraph's savers."""

OVERVIEW = "size-and-speed.svg"
"""The picture of the guide, of the bytes and the time of a save beside LangGraph's savers."""

HIGHLIGHTS = {
    "AsyncSqliteSaver's bytes to ours, text search on": "bytes of a thread of 1,222 steps, SQLite",
    "AsyncPostgresSaver's bytes to ours, text search on": (
        "bytes of a thread of 1,222 steps, PostgreSQL"
    ),
    "threads of 30 messages: AsyncSqliteSaver's bytes to ours, text search on": (
        "bytes of its messages as threads of 30, SQLite"
    ),
    "save at 1,000 messages, PostgreSQL": "save at 1,000 messages, PostgreSQL",
    "save at 50 messages, SQLite": "save at 50 messages, SQLite",
    "load the newest of 1,000 messages, cold, SQLite": "first load of 1,000 messages, SQLite",
}
"""Findings that README shows, wins and losses, and what it calls them."""

SHOWN = {
    "AsyncSqliteSaver's bytes to ours, text search on": "bytes of 1,222 steps, SQLite",
    "AsyncPostgresSaver's bytes to ours, text search on": "bytes of 1,222 steps, PostgreSQL",
    "save at 50 messages, SQLite": "save at 50 messages, SQLite",
    "save at 1,000 messages, SQLite": "save at 1,000 messages, SQLite",
    "save at 50 messages, PostgreSQL": "save at 50 messages, PostgreSQL",
    "save at 1,000 messages, PostgreSQL": "save at 1,000 messages, PostgreSQL",
    "load the newest of 1,000 messages, cold, SQLite": "first load of 1,000 messages, SQLite",
    "load the newest of 1,000 messages, cold, PostgreSQL": (
        "first load of 1,000 messages, PostgreSQL"
    ),
    "64 threads at once, 20 KB, SQLite, against the driver by hand": (
        "64 savers at the same time, SQLite"
    ),
    "64 threads at once, 20 KB, PostgreSQL, against the driver by hand": (
        "64 savers at the same time, PostgreSQL"
    ),
    "get, PostgreSQL, against the driver by hand": "one item read, PostgreSQL",
    "put, PostgreSQL, against an upsert by hand into the same indexes": (
        "one item written, PostgreSQL"
    ),
    "search_by_embedding in the whole namespace, 100,000 vectors, SQLite, against numpy": (
        "the nearest of 100,000 vectors, SQLite"
    ),
    "cold search against a warm one, SQLite": "the first such search in a process, SQLite",
    "search for two words among 100,000 items, times faster than LIKE, PostgreSQL": (
        "two words among 100,000 items, PostgreSQL"
    ),
}
"""Findings that docs/benchmarks.md shows, wins and losses, and what it calls them."""


class Adapter(NamedTuple):
    """A row of the table of integrations: how the names of its findings begin."""

    beside: str
    stored: str = "bytes of 1,000 messages, "
    saved: str = "save at 1,000 messages, "
    loaded: str = "first load at 1,000 messages, "


_TURN = {"saved": "save a turn at 1,000 messages, ", "loaded": "load at 1,000 messages, "}
ADAPTERS = {
    "langgraph_savers": Adapter("AsyncSqliteSaver, AsyncPostgresSaver"),
    "langgraph_graphs": Adapter(
        "the same savers", saved="a turn of a graph at 1,000 messages, ", loaded="none"
    ),
    "openai_sessions": Adapter("SQLAlchemySession", saved="save a turn at 1,000 messages, "),
    "google_adk_sessions": Adapter(
        "DatabaseSessionService",
        "bytes of 1,000 events, ",
        "append_event at 1,000 events, ",
        "get_session at 1,000 events, ",
    ),
    "locus_checkpointers": Adapter("FileCheckpointer, PgCheckpointer"),
    "lazybridge_memories": Adapter("Store"),
    "lauren_conversations": Adapter("SQLiteConversationStore"),
    "pydantic_ai_steps": Adapter(
        "the harness' own store",
        "bytes of 100 snapshots, ",
        "save a snapshot at 1,000 messages, ",
        "load 1,000 messages, ",
    ),
    "llama_index_chats": Adapter("SQLAlchemyChatStore", **_TURN),
    "a2a_tasks": Adapter("DatabaseTaskStore", "bytes of a task saved 50 times ", **_TURN),
    "langchain_histories": Adapter("SQLChatMessageHistory", **_TURN),
    "mem0_stores": Adapter(
        "pgvector's store",
        "bytes of 1,000 memories, ",
        "insert 5 memories at 1,000 memories, ",
        "search the 60 nearest of a user at 1,000 memories, ",
    ),
}
"""The groups of the integrations, the framework's own storage, and one finding of each kind."""

LIBRARIES = (
    "memalchemy",
    "sqlalchemy",
    "aiosqlite",
    "asyncpg",
    "orjson",
    "ormsgpack",
    "zstandard",
    "langgraph-checkpoint",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "psycopg",
    "locus-sdk",
    "langgraph",
    "openai-agents",
    "google-adk",
    "lazybridge",
    "lauren-ai",
)

TITLES = {
    "size": "Bytes on disk",
    "load": "Load",
    "save": "Save",
    "turns": "Two processes on one thread",
    "throughput": "Many savers at once",
    "growth": "Growth",
    "flat": "Listing and opening",
    "memory": "Memory",
    "import": "Import",
    "store": "The Store",
    "vectors": "Search by vectors",
    "text": "Search by words",
    "hybrid": "Search by both",
    "conversations": "Conversations",
    "limits": "Limits",
    "short_threads": "Short threads",
}
"""The groups of the whole run, in the order of the report."""

FRAMEWORKS = {
    "langgraph_savers": "LangGraph: savers",
    "langgraph_graphs": "LangGraph: graphs",
    "openai_sessions": "OpenAI Agents SDK: sessions",
    "google_adk_sessions": "Google ADK: sessions",
    "locus_checkpointers": "locus: checkpointers",
    "lazybridge_memories": "LazyBridge: memories",
    "lauren_conversations": "lauren-ai: conversations",
    "pydantic_ai_steps": "Pydantic AI harness: steps",
    "llama_index_chats": "LlamaIndex: chats",
    "a2a_tasks": "A2A: tasks",
    "langchain_histories": "LangChain: chat histories",
    "mem0_stores": "mem0: memories",
}
"""The groups of the run of the integrations."""

ALONE = {
    "calls": "Calls of a save and a load",
    "tenant_wall": "Tenants walled by the database",
    "signatures": "Signed rows",
    "crewai_flows": "CrewAI: flows",
}
"""The groups that no run that is kept has."""


@dataclass(frozen=True)
class Results:
    """A whole run: its findings and where they were made."""

    about: dict[str, Any]
    findings: tuple[Finding, ...]

    @property
    def judged(self) -> list[Finding]:
        """The findings that have a target."""
        return [finding for finding in self.findings if finding.target is not None]

    @property
    def missed(self) -> list[Finding]:
        return [finding for finding in self.judged if not finding.is_met]

    @property
    def exit_code(self) -> int:
        """1 if any target is missed."""
        return 1 if self.missed else 0

    def grouped(self) -> Iterable[tuple[str, list[Finding]]]:
        """The findings by the titles of their groups, each group in the order of the run."""
        for group, title in (TITLES | FRAMEWORKS | ALONE).items():
            found = [finding for finding in self.findings if finding.group == group]
            if found:
                yield title, found

    def named(self, name: str) -> Finding:
        """The finding of that name."""
        return next(finding for finding in self.findings if finding.name == name)

    def with_addition(self, part: Results, order: Sequence[str]) -> Results:
        """This run with the groups of *part*, a later run; all groups are put in *order*."""
        groups = {*self.about["groups"], *part.about["groups"]}
        about = self.about | {
            "groups": [group for group in order if group in groups],
            "added": [*self.about.get("added", []), part.about],
        }
        return Results(about, (*self.findings, *part.findings))

    def as_json(self) -> str:
        found = {"about": self.about, "findings": [one.as_dict() for one in self.findings]}
        return json.dumps(found, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        found = json.loads(text)
        return cls(found["about"], tuple(Finding.from_dict(one) for one in found["findings"]))


def circumstances(
    messages: int,
    rounds: int,
    groups: Sequence[str],
    load: Sequence[float],
    seconds: float,
    of_groups: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """What the numbers depend on; nothing that names the machine.

    *of_groups* says how many of the *seconds* each group took.
    """
    return {
        **date_and_commit(),
        "messages": messages,
        "rounds": rounds,
        "groups": list(groups),
        "tolerance": TOLERANCE,
        "seconds": round(seconds),
        "seconds_of_groups": {name: round(took) for name, took in (of_groups or {}).items()},
        **machine(),
        "load_average_before": [round(one, 2) for one in load],
        "load_average_after": [round(one, 2) for one in load_average()],
        "sqlite": sqlite3.sqlite_version,
        "versions": _versions(),
    }


def date_and_commit() -> dict[str, str | None]:
    """The ``date``, and the ``commit`` of the checkout as `commit` tells it: what `when` says."""
    return {"date": datetime.now(UTC).date().isoformat(), "commit": commit()}


def commit() -> str | None:
    """The commit of the checkout, with ``-dirty`` if files differ from it; without git ``None``."""
    describe = ("git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=8")
    try:
        told = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def when(about: Mapping[str, Any]) -> str:
    """When a run was, and of which commit."""
    of = f" at commit `{about['commit']}`" if about.get("commit") else ""
    return f"on {about['date']}{of}"


def machine() -> dict[str, Any]:
    """The kind of machine: times of another kind say nothing beside these."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
    }


def load_average() -> Sequence[float]:
    return os.getloadavg() if hasattr(os, "getloadavg") else ()


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a part of the run was asked for that needs it not
            continue
    return found


def line(finding: Finding) -> str:
    """One finding, as it comes in."""
    cpu = f"; CPU {finding.cpu.ratio:.3f}x" if finding.cpu else ""
    return (
        f"{verdict(finding):7}{finding!s:>12}  {finding.name}  "
        f"({finding.promised or 'no target'}; {finding.ours} | {finding.theirs}{cpu})"
    )


def verdict(finding: Finding) -> str:
    if finding.target is None:
        return "-"
    if finding.target.is_met_by_tolerance(finding.value):
        return f"met (within {finding.target.tolerance * 100:.0f} %)"
    return "met" if finding.is_met else "MISSED"


def table(results: Results) -> str:
    """The findings for a terminal."""
    width = max(len(finding.name) for finding in results.findings)
    lines = []
    for title, found in results.grouped():
        lines += ["", title]
        for finding in found:
            promised = finding.promised or "no target"
            mark = verdict(finding) if finding.target else ""
            lines.append(
                f"  {finding.name:{width}}  {finding!s:>12}  {promised:<14}  {mark}".rstrip()
            )
    return "\n".join([*lines, "", summary(results)])


def summary(results: Results) -> str:
    judged, missed = len(results.judged), len(results.missed)
    text = f"{judged - missed} of {judged} targets met"
    left_out = sum(1 for finding in results.findings if finding.note)
    if left_out:
        text += (
            f"; {left_out} left out: they are stated for longer threads than these "
            f"{results.about['messages']:,} messages"
        )
    return text + "."


HEAD = ("what", "ours", "theirs", "found", "of CPU", "target", "")
"""The columns of the pages of all results."""


def cells(finding: Finding) -> list[str]:
    """A finding as a row of the pages of all results."""
    mark = {"-": ""}.get(found_to_be := verdict(finding), found_to_be)
    cpu = f"{finding.cpu.ratio:.3g}x" if finding.cpu else ""
    found = [finding.name, finding.ours, finding.theirs, str(finding)]
    return [*found, cpu, finding.promised, mark]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<th>{escape(one)}</th>' for one in head)}</tr>"]
    for row in rows:
        mark = ' class="missed"' if row[-1] == "MISSED" else ""
        lines.append(f"<tr{mark}>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>")
    return "\n".join(["<table>", *lines, "</table>"])


STYLE = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; width: 100%; }
th, td { border-bottom: 1px solid #8886; padding: .2rem .5rem; text-align: left; }
th { font-weight: 600; } tr.missed td:last-child { font-weight: 700; }
summary { cursor: pointer; font-size: 1.1rem; font-weight: 600; }
img { max-width: 100%; }"""


RENDER = "python -m benchmarks --render"


def html_page(
    title: str,
    guide: str,
    parts: Iterable[str],
    *,
    picture: str | None = None,
    command: str = RENDER,
) -> str:
    """A page of the site beside its navigation and its search, such as one of all results."""
    shown = [] if picture is None else [f'<p><img src="{picture}" alt="{escape(title)}"></p>']
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}\n</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            f'<p>Generated by <code>{command}</code>. <a href="{guide}">The '
            "guide</a> says how to read and to repeat this.</p>",
            *parts,
            *shown,
            "</body></html>",
            "",
        ]
    )


def results_page(name: str, results: Results) -> str:
    """Everything of a stored run, as the page of all its results."""
    title, guide = ALL_RESULTS[name]
    parts = [f"<p>{escape(one)}</p>" for one in where_it_was_measured(results)]
    for group, found in results.grouped():
        judged = [one for one in found if one.target is not None]
        met = sum(one.is_met for one in judged)
        of_targets = f": {met} of {len(judged)} targets met" if judged else ""
        parts += [
            f'<details open id="{anchor(group)}"><summary>{escape(group)}{of_targets}</summary>',
            html_table(HEAD, map(cells, found)),
            "</details>",
        ]
    return html_page(title, guide, parts, picture=f"{name}.svg")


def anchor(title: str) -> str:
    """The anchor of a title, as GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def readme_section(results: Results) -> str:
    """The last run in a few rows, wins and losses, and when it was measured."""
    about = results.about
    rows = ["| what | memalchemy | LangGraph's savers | memalchemy is |", "|---|---|---|---|"]
    for name, label in HIGHLIGHTS.items():
        one = results.named(name)
        rows.append(f"| {label} | {one.ours} | {one.theirs} | {compared(one)} |")
    later = [
        f" ({label}: {when(one)})"
        for one in about.get("added", [])
        for name, label in HIGHLIGHTS.items()
        if results.named(name).group in one["groups"]
    ]
    outro = (
        f"Measured {when(about)}{''.join(later)}, with Python {about['python']} on "
        f"{about['cpus']} CPUs."
    )
    return "\n".join([*rows, "", outro])


def compared(finding: Finding) -> str:
    """A finding beside another library in words; where ours loses, they are bold."""
    times = finding.value if finding.rule == "at least" else 1 / finding.value
    if finding.ours.endswith("MB"):
        return _in_words(times, "smaller", "larger")
    return _in_words(times, "faster", "slower")


SHORT_THREADS = {
    "an empty database": ("an empty database: {saver}'s bytes to ours", None),
    **{
        label: (
            f"threads of {length} messages: {{saver}}'s bytes to ours, text search {how}",
            f"threads of {length} messages: save, {{engine}}, text search {how}",
        )
        for label, length, how in (
            ("120 threads of 10", 10, "on"),
            ("40 threads of 30", 30, "on"),
            ("the same, text search off", 30, "off"),
            ("6 threads of 200", 200, "on"),
        )
    },
}
"""Rows of the table of short threads: the names of the findings of bytes and of saves."""


def short_threads_section(results: Results) -> str:
    """The short threads in words, on both databases."""
    rows = [
        "| the same 1,200 messages, as | "
        + " | ".join(f"{what}, {engine}" for what in ("bytes", "save") for engine in SAVERS)
        + " |",
        "|---|---|---|---|---|",
    ]
    for label, names in SHORT_THREADS.items():
        cells = [
            compared(results.named(name.format(saver=saver, engine=engine))) if name else ""
            for name in names
            for engine, saver in SAVERS.items()
        ]
        rows.append("| " + " | ".join([label, *cells]) + " |")
    return "\n".join(rows)


def _in_words(times: float, better: str, worse: str) -> str:
    if 0.95 < times < 1.05:
        return "about equal"
    if times >= 1:
        return f"{times:.3g} times {better}"
    return f"**{1 / times:.2g} times {worse}**"


def overview(results: Results) -> str:
    """Draw the picture of the guide, as SVG."""
    sizes = [
        (database, results.named(f"{saver}'s bytes to ours, text search on"))
        for database, saver in SAVERS.items()
    ]
    saves = [
        (f"{database}, {count} messages", results.named(f"save at {count} messages, {database}"))
        for database in SAVERS
        for count in ("50", "200", "1,000")
    ]
    steps = f"{results.about['messages']:,}"
    panels = {
        f"Bytes on disk after {steps} steps: {THREADS} conversations joined into one thread": sizes,
        "Time of one save": saves,
    }
    return draw_pairs(panels, ("memalchemy", "LangGraph's savers"))


def docs_section(results: Results) -> str:
    """The findings that the guide shows, when they were measured, and how many targets were met."""
    rows = []
    for name, label in SHOWN.items():
        one = results.named(name)
        rows.append([label, one.ours, one.theirs, compared(one), _mark(one)])
    about = results.about
    added = [f"{_groups_of(one)} {when(one)}" for one in about.get("added", [])]
    later = f" Added later: {', '.join(added)}." if added else ""
    return "\n".join(
        [
            f"**{summary(results)}** Measured {when(about)} with Python {about['python']} on "
            f"{about['cpus']} CPUs.{later}",
            "",
            markdown_table(["what", "memalchemy", "beside", "memalchemy is", "target"], rows),
        ]
    )


def _mark(finding: Finding) -> str:
    return {"MISSED": "**missed**", "-": ""}.get(said := verdict(finding), said)


def integrations_section(results: Results) -> str:
    """A row for each framework, of the longest threads: how many times less ours takes."""
    rows = []
    for group, title in FRAMEWORKS.items():
        found = [one for one in results.findings if one.group == group]
        if not found:
            continue
        adapter, judged = ADAPTERS[group], [one for one in found if one.target is not None]
        rows.append(
            [
                f'<a id="{anchor(title)}"></a>{title}',
                adapter.beside,
                *(
                    " / ".join(_times(found, engine, beginning) for engine in SAVERS)
                    for beginning in (adapter.stored, adapter.saved, adapter.loaded)
                ),
                f"{sum(one.is_met for one in judged)} of {len(judged)}",
            ]
        )
    about = results.about
    head = ["", "beside", "bytes", "save", "load", "targets met"]
    return "\n".join(
        [
            f"**{summary(results)}** Measured {when(about)} with Python {about['python']} on "
            f"{about['cpus']} CPUs.",
            "",
            markdown_table(head, rows),
        ]
    )


def _times(findings: Sequence[Finding], engine: str, beginning: str) -> str:
    """A ratio, theirs to ours, in bold where ours takes more."""
    for one in findings:
        of_engine, _, name = one.name.rpartition(": ")
        # mem0's findings, which are all of PostgreSQL, do not name it.
        if (of_engine or "PostgreSQL") != engine or not name.startswith(beginning):
            continue
        if one.unit != "x" or "without words" in name:
            continue
        if one.value < 1:
            return f"**{one.value:.2f}**"
        return f"{one.value:.0f}" if one.value >= 10 else f"{one.value:.1f}"
    return "–"


def where_it_was_measured(results: Results) -> list[str]:
    """What the numbers of a run depend on, as paragraphs."""
    about = results.about
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    server = about.get("postgresql", {})
    lines = [
        summary(results),
        f"{when(about).replace('`', '').removeprefix('on ')}, {about['system']}, "
        f"{about['cpus']} CPUs, load average "
        f"{load_text(about['load_average_before'])} before and "
        f"{load_text(about['load_average_after'])} after the run of {about['seconds']} s; "
        f"Python {about['python']}, SQLite {about['sqlite']}, "
        + (f"PostgreSQL {server['server_version']}, " if server else "")
        + f"{versions}. {about['messages']:,} messages, {about['rounds']} rounds or more.",
    ]
    if server:
        lines.append(
            f"PostgreSQL's fsync is {server['fsync']}, its synchronous_commit "
            f"{server['synchronous_commit']}, its shared_buffers {server['shared_buffers']}."
        )
    if took := about.get("seconds_of_groups"):
        each = ", ".join(f"{group} {seconds} s" for group, seconds in took.items())
        lines.append(f"The groups took {each}.")
    return [*lines, *(_addition(later, about) for later in about.get("added", []))]


def _addition(later: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Where and when groups were measured that were added to a run."""
    groups = " and ".join(later["groups"])
    others = [
        f"{name} {number}"
        for name, number in later["versions"].items()
        if about["versions"].get(name) != number
    ]
    return (
        f"Measured later and added: {groups}, on {later['date']}, load average "
        f"{load_text(later['load_average_before'])} before and "
        f"{load_text(later['load_average_after'])} after the {later['seconds']} s that it took, "
        + (f"with {', '.join(others)}." if others else "with the same versions.")
    )


def _groups_of(later: Mapping[str, Any]) -> str:
    return " and ".join(f"`{group}`" for group in later["groups"])


def load_text(found: Sequence[float]) -> str:
    return f"{found[0]:.1f}" if found else "unknown"


SECTIONS = {
    "README.md": readme_section,
    "docs/benchmarks.md": docs_section,
    "docs/integrations/benchmarks.md": integrations_section,
}


def with_section(page: str, section: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """*page* with what stands between the two marks replaced."""
    begin, end = marks
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no {begin} … {end}")
    return f"{before}{begin}\n{section}\n{end}{after}"


def is_whole(results: Results, groups: Sequence[str]) -> bool:
    """Whether a run may stand in the documentation: all of it, at the full length."""
    about: Mapping[str, Any] = results.about
    return about["messages"] == FULL and list(about["groups"]) == list(groups)


def write(results: Results, directory: Path, name: str = "results") -> None:
    """The JSON and the picture."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(results.as_json(), encoding="utf-8")
    (directory / f"{name}.svg").write_text(draw(results.grouped()), encoding="utf-8")


def committed(name: str) -> Results:
    """A run that the documentation shows."""
    return Results.from_json(stored_file(name).read_text(encoding="utf-8"))


def stored_file(name: str) -> Path:
    return COMMITTED / f"{name}.json"


def write_committed(name: str, results: Results) -> None:
    """Let the documentation show *results*: the JSON, the picture and the parts of the pages."""
    write(results, COMMITTED, name)
    (COMMITTED / f"{name}.html").write_text(results_page(name, results), encoding="utf-8")
    if name == "results":
        (COMMITTED / OVERVIEW).write_text(overview(results), encoding="utf-8")
    for page in PAGES[name]:
        path = ROOT / page
        path.write_text(rendered(page, path.read_text(encoding="utf-8"), results), encoding="utf-8")


def rendered(page: str, text: str, results: Results) -> str:
    """*text*, that of a page, with what it shows of *results*."""
    text = with_section(text, SECTIONS[page](results))
    if SHORT_BEGIN in text:
        text = with_section(text, short_threads_section(results), (SHORT_BEGIN, SHORT_END))
    return text

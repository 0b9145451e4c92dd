"""What a run found, as a table, as JSON, and as the generated parts of README.md and the docs.

Knows nothing of how anything is measured, and imports no other library: what is committed can be
held to its JSON without one.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"

SHORT_BEGIN, SHORT_END = "<!-- short-threads:begin -->", "<!-- short-threads:end -->"

SAVERS = {"SQLite": "AsyncSqliteSaver", "PostgreSQL": "AsyncPostgresSaver"}
"""LangGraph's savers."""

OVERVIEW = "size-and-speed.svg"
"""README's picture, of the bytes on disk and the time of a save beside LangGraph's savers."""

HIGHLIGHTS = {
    "AsyncSqliteSaver's bytes to ours, text search on": "bytes of a thread of 1,222 steps, SQLite",
    "AsyncPostgresSaver's bytes to ours, text search on": (
        "bytes of a thread of 1,222 steps, PostgreSQL"
    ),
    "threads of 30 messages: AsyncSqliteSaver's bytes to ours, text search on": (
        "bytes of the same messages as threads of 30, SQLite"
    ),
    "save at 1,000 messages, PostgreSQL": "save at 1,000 messages, PostgreSQL",
    "save at 50 messages, SQLite": "save at 50 messages, SQLite",
    "load the newest of 1,000 messages, cold, SQLite": "first load of 1,000 messages, SQLite",
}
"""Findings that README shows, wins and losses, and what it calls them."""

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
        "date": datetime.now(UTC).date().isoformat(),
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


def markdown(findings: Iterable[Finding]) -> list[str]:
    rows = ["| what | ours | theirs | found | of CPU | target | |", "|---|---|---|---|---|---|---|"]
    for finding in findings:
        mark = {"MISSED": "**missed**", "-": ""}.get(found_to_be := verdict(finding), found_to_be)
        cpu = f"{finding.cpu.ratio:.3g}x" if finding.cpu else ""
        found = (finding.name, finding.ours, finding.theirs, str(finding))
        cells = (*found, cpu, finding.promised, mark)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows


def readme_section(results: Results) -> str:
    """The last run in five rows, and how many of all targets it met."""
    about = results.about
    rows = ["| what | memalchemy | LangGraph's savers | memalchemy is |", "|---|---|---|---|"]
    for name, label in HIGHLIGHTS.items():
        one = results.named(name)
        rows.append(f"| {label} | {one.ours} | {one.theirs} | {compared(one)} |")
    later = [
        f" ({label}: on {one['date']})"
        for one in about.get("added", [])
        for name, label in HIGHLIGHTS.items()
        if results.named(name).group in one["groups"]
    ]
    outro = (
        f"Measured on {about['date']}{''.join(later)} with Python {about['python']} on "
        f"{about['cpus']} CPUs; ratios are medians of rounds in which the subjects "
        f"take turns. {summary(results)}"
    )
    return "\n".join([*rows, "", outro])


def compared(finding: Finding) -> str:
    """A finding beside another library in words; where ours loses, they are bold."""
    if finding.rule == "at least":  # bytes, theirs to ours
        return _in_words(finding.value, "smaller", "larger")
    return _in_words(1 / finding.value, "faster", "slower")


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
    if times >= 1:
        return f"{times:.3g} times {better}"
    return f"**{1 / times:.2g} times {worse}**"


def overview(results: Results) -> str:
    """README's picture, as SVG."""
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
    """Everything of the last run."""
    about = results.about
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    server = about.get("postgresql", {})
    lines = [
        f"{summary(results)}",
        "",
        f"{about['date']}, {about['system']}, {about['cpus']} CPUs, load average "
        f"{load_text(about['load_average_before'])} before and "
        f"{load_text(about['load_average_after'])} after the run of {about['seconds']} s; "
        f"Python {about['python']}, SQLite {about['sqlite']}, "
        + (f"PostgreSQL {server['server_version']}, " if server else "")
        + f"{versions}. {about['messages']:,} messages, {about['rounds']} rounds or more.",
        "",
    ]
    if server:
        lines += [
            f"PostgreSQL's fsync is {server['fsync']}, its synchronous_commit "
            f"{server['synchronous_commit']}, its shared_buffers {server['shared_buffers']}.",
            "",
        ]
    if took := about.get("seconds_of_groups"):
        each = ", ".join(f"`{group}` {seconds} s" for group, seconds in took.items())
        lines += [f"The groups took {each}.", ""]
    for later in about.get("added", []):
        lines += [_addition(later, about), ""]
    for title, found in results.grouped():
        lines += [f"### {title}", "", *markdown(found), ""]
    return "\n".join(lines).rstrip()


def _addition(later: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Where and when groups were measured that were added to a run."""
    groups = " and ".join(f"`{group}`" for group in later["groups"])
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


def load_text(found: Sequence[float]) -> str:
    return f"{found[0]:.1f}" if found else "unknown"


SECTIONS = {
    "README.md": readme_section,
    "docs/benchmarks.md": docs_section,
    "docs/integrations/benchmarks.md": docs_section,
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

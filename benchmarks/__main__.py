"""``python -m benchmarks --threads FILE``: measure, print, write; exit code 1 on a missed target.

With ``--check`` nothing is written, and exit code 1 says that a ratio is worse than the stored one.
Exit codes: 0 all is well, 1 it is not, 2 the arguments or a file will not do.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from benchmarks import compare_runs, curves_report, report
from benchmarks.compare_runs import ALLOWED, CannotCompare
from benchmarks.measure import ROUNDS, Finding
from benchmarks.workload import FULL, SHAPE, BadThreads, Message, read_messages, read_threads

GROUPS = (
    "growth",
    "short_threads",
    "turns",
    "throughput",
    "footprint",
    "flatness",
    "store",
    "vectors",
    "words",
    "conversations",
    "limits",
)
"""The modules that measure."""

INTEGRATIONS = (
    "langgraph_savers",
    "langgraph_graphs",
    "openai_sessions",
    "google_adk_sessions",
    "locus_checkpointers",
    "lazybridge_memories",
    "lauren_conversations",
    "pydantic_ai_steps",
    "llama_index_chats",
    "a2a_tasks",
    "langchain_histories",
    "mem0_stores",
)
"""Those of the frameworks: a run, results and a page of their own."""

ALONE = ("calls", "tenant_wall", "signatures", "crewai_flows")
"""Those that are part of no stored run, such as one of a framework that needs an environment of
its own: they run if ``--only`` names them.
"""


DESCRIPTIONS = {
    "growth": "saves, loads and bytes while one thread grows to all messages",
    "short_threads": "the same messages as threads of 10, 30 and 200",
    "turns": "two processes that take turns on one thread",
    "throughput": "many savers at once",
    "footprint": "the time to import memalchemy, and the memory of its caches",
    "flatness": "listing and opening in large databases",
    "store": "single items and batches of the store",
    "vectors": "the nearest of 100,000 vectors",
    "words": "search by words among 100,000 items, and by both",
    "conversations": "adding turns, and loading them",
    "limits": "absolute times of calls on large databases",
    "langgraph_savers": "LangGraph's savers with messages as objects",
    "langgraph_graphs": "turns of a compiled graph",
    "openai_sessions": "sessions of the OpenAI Agents SDK",
    "google_adk_sessions": "sessions of Google ADK",
    "locus_checkpointers": "locus' checkpointers",
    "lazybridge_memories": "LazyBridge's memories",
    "lauren_conversations": "lauren-ai's conversations",
    "pydantic_ai_steps": "steps of the Pydantic AI harness",
    "llama_index_chats": "LlamaIndex' chats",
    "a2a_tasks": "A2A's tasks",
    "langchain_histories": "LangChain's chat histories",
    "mem0_stores": "mem0's memories",
    "calls": "the number of functions that a save and a load call: seconds",
    "tenant_wall": "the cost of row-level security: about two minutes",
    "signatures": "the cost of signatures: about two minutes",
    "crewai_flows": "CrewAI's flows, in an environment with CrewAI",
}
"""What each group measures, for `--help`."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parse(arguments)
    if given.render:
        for name in report.PAGES:
            report.write_committed(name, report.committed(name))
        curves_report.write_committed(curves_report.committed())
        return 0
    try:
        if given.separately:
            asyncio.run(_separately(read_threads(given.threads)))
            return 0
        messages = read_messages(given.threads)
        if given.check:
            return _check(given, messages)
        if given.curves:
            return asyncio.run(_curves(messages))
        if given.add:
            stored = compare_runs.stored_run(given.stored)
            compare_runs.check_addition(stored.about, report.machine(), len(messages), given.only)
        results = asyncio.run(_run(messages, given.rounds, given.only))
    except (BadThreads, CannotCompare) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(
            f"error: {error}. The libraries to compare with are installed by "
            "`nox -s bench -- --threads FILE`",
            file=sys.stderr,
        )
        return 2
    print(report.table(results))
    print("", _beside_the_stored(given, results), "", sep="\n")
    if given.add:
        _write(stored.with_addition(results, _groups(given)), _name(given))
    else:
        _keep(results, given.out, _name(given))
    return results.exit_code


async def _separately(threads: list[list[Message]]) -> None:
    """Measure threads as they are, and print what was found."""
    from benchmarks import short_threads
    from benchmarks.servers import postgres

    lengths = [len(thread) for thread in threads]
    print(
        f"{len(threads):,} threads of {min(lengths):,} to {max(lengths):,} messages, "
        f"{sum(lengths):,} in all"
    )
    with tempfile.TemporaryDirectory(prefix="ma-bench-") as directory, postgres() as server:
        measuring = short_threads.compare(
            threads, "these threads", Path(directory), server.new_database
        )
        async for finding in measuring:
            print(report.line(finding), flush=True)


async def _curves(messages: list[Message]) -> int:
    """Measure the curves, and let the documentation show them."""
    from benchmarks import curves

    started, load, found = time.monotonic(), report.load_average(), []
    with tempfile.TemporaryDirectory(prefix="ma-bench-") as directory:
        async for curve in curves.measure(messages, Path(directory)):
            found.append(curve)
            points = ", ".join(f"{n:,}: {value:.3g} {curve.unit}" for n, value in curve.points)
            seconds = time.monotonic() - started
            print(f"{seconds:5.0f} s  {curve.along}, {curve.name}: {points}", flush=True)
    about = report.circumstances(
        len(messages), curves.CALLS, ("curves",), load, time.monotonic() - started
    )
    whole = curves_report.Curves(about, tuple(found))
    print(curves_report.summary(whole))
    curves_report.write_committed(whole)
    print("Written: docs/benchmarks/curves.json, curves.svg, and docs/benchmarks.md.")
    return 0


def _check(given: argparse.Namespace, messages: list[Message]) -> int:
    """Measure, and say what got slower and what got faster since the stored run."""
    stored = compare_runs.stored_run(given.stored)
    if other := compare_runs.other_kind(stored.about, report.machine()):
        reason = f"{other}: nothing is compared"
        print(compare_runs.nothing_compared(reason) if given.json else reason)
        return 0
    compare_runs.check_workload(stored.about, len(messages), given.only)
    progress = sys.stderr if given.json else sys.stdout
    results = asyncio.run(_run(messages, given.rounds, given.only, progress))
    found = compare_runs.compare(stored, results)
    print(found.as_json() if given.json else f"\n{found}")
    return found.exit_code


def _beside_the_stored(given: argparse.Namespace, results: report.Results) -> str:
    """The comparison with the stored run as text, or why there is none."""
    try:
        stored = compare_runs.stored_run(given.stored)
        compare_runs.check_workload(stored.about, results.about["messages"], ())
    except CannotCompare as error:
        return f"Nothing is compared: {error}."
    if other := compare_runs.other_kind(stored.about, results.about):
        return f"Nothing is compared: {other}."
    return str(compare_runs.compare(stored, results))


def _name(given: argparse.Namespace) -> str:
    """The name of the stored run that this one may replace."""
    return "integrations" if given.integrations else "results"


def _groups(given: argparse.Namespace) -> Sequence[str]:
    """The groups of the stored run, in its order."""
    return INTEGRATIONS if given.integrations else GROUPS


def _described_groups() -> str:
    """The groups that --only accepts, each with what it measures."""
    lines = []
    for title, names in {
        "the run": GROUPS,
        "the run of --integrations": INTEGRATIONS,
        "in no stored run": ALONE,
    }.items():
        lines += [f"groups of --only, {title}:"]
        lines += [f"  {name:22}{DESCRIPTIONS[name]}" for name in names]
    return "\n".join(lines)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description=__doc__,
        epilog=_described_groups(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--threads",
        type=Path,
        metavar="FILE",
        default=os.environ.get("MEMALCHEMY_THREADS") or None,
        help=f"{SHAPE}. Without it the file that MEMALCHEMY_THREADS names".replace("%", "%%"),
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"rounds of each measurement, at least {ROUNDS}"
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="measure these groups alone, of those below",
    )
    parser.add_argument(
        "--integrations",
        action="store_true",
        help="measure the frameworks' own backends beside ours, rather than all the rest",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where the JSON and the picture go. Without it a whole run on the full length goes "
        "to docs/benchmarks and into README.md and docs/benchmarks.md, or that of --integrations "
        "into docs/integrations/benchmarks.md, and any other is only printed",
    )
    parser.add_argument(
        "--render",
        action="store_true",
        help="measure nothing; write the pictures and the pages from the JSON in docs/benchmarks",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="measure, and compare with the stored run; exit code 1 if a ratio got worse by "
        f"{ALLOWED:.0%} or more. Nothing is written".replace("%", "%%"),
    )
    parser.add_argument(
        "--stored",
        type=Path,
        metavar="JSON",
        help="the run to compare with, in place of docs/benchmarks/results.json, or of "
        "integrations.json",
    )
    parser.add_argument(
        "--json", action="store_true", help="with --check, print the comparison as JSON"
    )
    parser.add_argument(
        "--curves",
        action="store_true",
        help="measure how operations grow on SQLite, up to a million threads and states of 50 MB, "
        "and show it in docs/benchmarks.md; nothing else is measured",
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="put the groups of --only, which the stored run has not, into it and into the pages "
        "that show it. The pages say when they were measured",
    )
    parser.add_argument(
        "--separately",
        action="store_true",
        help="save the threads of FILE, all of them, as they are, and not joined into one: print "
        "bytes and times of saves beside LangGraph's savers. Nothing else is measured, and nothing "
        "is written",
    )
    given = parser.parse_args(arguments)
    if given.render:
        return given
    if given.threads is None:
        parser.error(f"--threads FILE is missing, and MEMALCHEMY_THREADS names none: {SHAPE}")
    if given.json and not given.check:
        parser.error("--json is for --check")
    if given.check and given.out is not None:
        parser.error("--check writes nothing: leave --out out")
    if given.separately and (given.only or given.check or given.add or given.out or given.curves):
        parser.error("--separately is for --threads FILE alone: leave the other options out")
    if given.add and (not given.only or given.check or given.out or given.stored):
        parser.error("--add needs --only alone, since it writes to the stored run of docs")
    if given.stored is None:
        given.stored = report.stored_file(_name(given))
    if given.rounds < ROUNDS:
        parser.error(f"--rounds must be at least {ROUNDS}: fewer have no middle to trust")
    known = (*GROUPS, *INTEGRATIONS, *ALONE)
    if given.only is None:
        given.only = list(_groups(given))
    if unknown := [name for name in given.only if name not in known]:
        parser.error(f"--only knows {', '.join(known)}, not {', '.join(unknown)}")
    given.only = [name for name in known if name in given.only]
    if given.add and (others := [name for name in given.only if name not in _groups(given)]):
        parser.error(f"--add: {', '.join(others)} is no part of that stored run")
    return given


async def _run(
    messages: list[Message], rounds: int, groups: Sequence[str], progress: TextIO | None = None
) -> report.Results:
    """Measure, and say each finding as it comes in, on the standard output if nowhere else."""
    say = partial(print, file=progress, flush=True)
    # Neither side of a comparison may use a core that the other does not.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from benchmarks.servers import durability, postgres

    modules = [(name, importlib.import_module(f"benchmarks.{name}")) for name in groups]
    if len(messages) < FULL:
        say(
            f"{len(messages):,} messages: targets that are stated for {FULL:,}, or for more than "
            "there are, are left out"
        )
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    started, load = time.monotonic(), report.load_average()
    with tempfile.TemporaryDirectory(prefix="ma-bench-") as directory, postgres() as server:
        for number, (name, module) in enumerate(modules, start=1):
            say(f"[{number}/{len(modules)}] {name}")
            began = time.monotonic()
            measuring = module.measure(messages, Path(directory), server.new_database, rounds)
            async for finding in measuring:
                findings.append(finding)
                say(f"{time.monotonic() - started:5.0f} s  {report.line(finding)}")
            seconds[name] = time.monotonic() - began
        about = report.circumstances(
            len(messages), rounds, groups, load, time.monotonic() - started, seconds
        )
        about["postgresql"] = durability(server.new_database())
    return report.Results(about, tuple(findings))


def _keep(results: report.Results, out: Path | None, name: str) -> None:
    if out is not None:
        report.write(results, out, name)
        print(f"Written: {out / name}.json, {out / name}.svg")
    elif report.is_whole(results, INTEGRATIONS if name == "integrations" else GROUPS):
        _write(results, name)
    else:
        print("Not written: this is a part of a run. --out DIR keeps it elsewhere.")


def _write(results: report.Results, name: str) -> None:
    report.write_committed(name, results)
    print(f"Written: docs/benchmarks/{name}.json, {name}.svg, and the pages that show them.")


if __name__ == "__main__":
    sys.exit(main())

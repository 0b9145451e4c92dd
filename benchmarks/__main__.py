"""``python -m benchmarks --threads FILE``: measure, print, write; exit code 1 on a missed target.

Exit codes: 0 all targets met, 1 one is missed, 2 the arguments or the file will not do.
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
from pathlib import Path

from benchmarks import report
from benchmarks.measure import ROUNDS, Finding
from benchmarks.workload import FULL, SHAPE, BadThreads, Message, read_messages

GROUPS = (
    "growth",
    "turns",
    "throughput",
    "footprint",
    "flatness",
    "store",
    "vectors",
    "words",
    "conversations",
)
"""The modules that measure."""

INTEGRATIONS = (
    "langgraph_savers",
    "langgraph_graphs",
    "openai_sessions",
    "locus_checkpointers",
    "lazybridge_memories",
    "lauren_conversations",
)
"""Those of the frameworks: a run, results and a page of their own."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parse(arguments)
    if given.render:
        for name in report.PAGES:
            report.write_committed(name, report.committed(name))
        return 0
    try:
        messages = read_messages(given.threads)
        results = asyncio.run(_run(messages, given.rounds, given.only))
    except BadThreads as error:
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
    _keep(results, given.out, "integrations" if given.integrations else "results")
    return results.exit_code


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--threads", type=Path, metavar="FILE", help=f"{SHAPE}".replace("%", "%%"))
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"rounds of each measurement, at least {ROUNDS}"
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        metavar="A,B",
        help=f"measure these alone, of {', '.join((*GROUPS, *INTEGRATIONS))}",
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
    given = parser.parse_args(arguments)
    if given.render:
        return given
    if given.threads is None:
        parser.error(f"--threads FILE is missing: {SHAPE}")
    if given.rounds < ROUNDS:
        parser.error(f"--rounds must be at least {ROUNDS}: fewer have no middle to trust")
    known = (*GROUPS, *INTEGRATIONS)
    if given.only is None:
        given.only = list(INTEGRATIONS if given.integrations else GROUPS)
    if unknown := [name for name in given.only if name not in known]:
        parser.error(f"--only knows {', '.join(known)}, not {', '.join(unknown)}")
    given.only = [name for name in known if name in given.only]
    return given


async def _run(messages: list[Message], rounds: int, groups: Sequence[str]) -> report.Results:
    """Measure, and say each finding as it comes in."""
    # Neither side of a comparison may use a core that the other does not.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from benchmarks.servers import durability, postgres

    modules = [(name, importlib.import_module(f"benchmarks.{name}")) for name in groups]
    if len(messages) < FULL:
        print(
            f"{len(messages):,} messages: targets that are stated for {FULL:,}, or for more than "
            "there are, are left out",
            flush=True,
        )
    findings: list[Finding] = []
    started, load = time.monotonic(), report.load_average()
    with tempfile.TemporaryDirectory(prefix="ma-bench-") as directory, postgres() as server:
        for number, (name, module) in enumerate(modules, start=1):
            print(f"[{number}/{len(modules)}] {name}", flush=True)
            measuring = module.measure(messages, Path(directory), server.new_database, rounds)
            async for finding in measuring:
                findings.append(finding)
                print(f"{time.monotonic() - started:5.0f} s  {report.line(finding)}", flush=True)
        about = report.circumstances(
            len(messages), rounds, groups, load, time.monotonic() - started
        )
        about["postgresql"] = durability(server.new_database())
    return report.Results(about, tuple(findings))


def _keep(results: report.Results, out: Path | None, name: str) -> None:
    if out is not None:
        report.write(results, out, name)
        print(f"Written: {out / name}.json, {out / name}.svg")
    elif report.is_whole(results, INTEGRATIONS if name == "integrations" else GROUPS):
        report.write_committed(name, results)
        print(f"Written: docs/benchmarks/{name}.json, {name}.svg, and the pages that show them.")
    else:
        print("Not written: this is a part of a run. --out DIR keeps it elsewhere.")


if __name__ == "__main__":
    sys.exit(main())

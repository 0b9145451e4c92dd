"""`import langgraph`: threads and store items from the tables of LangGraph's savers and stores."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from memalchemy.cli.command import Invocation, asking_for_sense
from memalchemy.cli.exits import OK, REFUSED
from memalchemy.cli.terminal import counted
from memalchemy.errors import DriverMissing

if TYPE_CHECKING:
    from memalchemy.integrations.langgraph.importing import ImportReport


async def import_langgraph(
    at: Invocation, url: str, schema: str | None, prefix: str, dry_run: bool
) -> int:
    """Import what LangGraph has at *url*; the command's exit code."""
    try:
        from memalchemy.integrations.langgraph import importing
    except ImportError as error:
        raise DriverMissing("langgraph-checkpoint", "langgraph", what="package") from error

    started = time.perf_counter()
    with at.terminal.progress() as bar:
        task = bar.add_task("looking" if dry_run else "importing", total=None)
        told = 0

        def show(report: ImportReport) -> None:
            nonlocal told
            bar.update(task, completed=report.done, total=report.checkpoints + report.items)
            for problem in report.problems[told:]:
                at.terminal.note(problem)
            told = len(report.problems)

        async with at.target(dry_run=dry_run) as db:
            with asking_for_sense():
                report = await importing.import_langgraph(
                    url, db, schema=schema, prefix=prefix, dry_run=dry_run, progress=show
                )
    seconds = time.perf_counter() - started
    if at.as_json:
        at.terminal.document({"dry_run": dry_run, **asdict(report), "seconds": round(seconds, 3)})
    else:
        _tell(at, report, seconds, dry_run)
    return REFUSED if report.problems else OK


def _tell(at: Invocation, report: ImportReport, seconds: float, dry_run: bool) -> None:
    at.terminal.say(
        f"{counted(report.threads, 'thread')}, {counted(report.checkpoints, 'checkpoint')}: "
        f"{report.new_checkpoints:,} new, {report.unchanged_checkpoints:,} unchanged; "
        f"{counted(report.writes, 'pending write')}"
    )
    expired = f", {report.expired:,} expired and left" if report.expired else ""
    at.terminal.say(
        f"{counted(report.items, 'item')}: {report.new_items:,} new, "
        f"{report.unchanged_items:,} unchanged{expired}; {counted(report.vectors, 'vector')}"
    )
    done = "would be written" if dry_run else "written, read back and compared"
    at.terminal.say(f"what is new {done} in {seconds:.1f} s")

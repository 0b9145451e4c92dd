"""The verify command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import Invocation, command
from memalchemy.cli.exits import CORRUPT, OK, UsageProblem
from memalchemy.cli.terminal import counted, size
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy.verify import Finding, Report


def register(app: typer.Typer) -> None:
    """Add this file's command to *app*."""
    command(app, "verify", example="memalchemy --db sqlite:///agent.db verify --sample 5%")(verify)


async def verify(
    at: Invocation,
    sample: Annotated[
        str | None,
        typer.Option(metavar="N|P%", help="So many states, or a share of them, not everything."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="THREAD", help="One thread.")
    ] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Every tenant, not only one.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Build a text index anew that is wrong.")
    ] = False,
) -> int:
    """Read what is stored and say what is damaged.

    Rebuilds every state and checks it against its checksum; checks chains, lineage and heads, the
    items of stores with their vectors, text indexes, and on SQLite the file. Exit code 5 if
    anything is wrong that --repair did not repair. The agents may go on working.
    """
    from memalchemy.verify import verify as verify_database

    wanted = None if sample is None else _sample(sample)
    if thread is not None and all_tenants:
        raise UsageProblem("--thread is of one tenant; it does not go with --all-tenants")
    async with at.database() as db:
        with at.terminal.progress() as bar:
            task = bar.add_task("verifying", total=None)
            report = await verify_database(
                db,
                thread_id=thread,
                all_tenants=all_tenants,
                sample=wanted,
                repair=repair,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
    if thread is not None and not report.logs and report.ok:
        raise NotFound(f"there is no thread {thread!r}")
    if at.as_json:
        at.terminal.document(report.as_dict())
    else:
        _show(at, report)
    return OK if report.ok else CORRUPT


def _show(at: Invocation, report: Report) -> None:
    for finding in report.findings:
        _show_finding(at, finding)
    unlisted = report.errors - sum(f.severity == "error" for f in report.findings)
    if unlisted:
        at.terminal.say(f"… and {unlisted:,} more")
    for index in report.repaired:
        at.terminal.say(f"repaired: the text index {index} was built anew")
    what = "a sample: " if report.sampled else ""
    at.terminal.say(
        f"{what}{counted(report.states, 'state')} of {counted(report.logs, 'log')} rebuilt "
        f"({size(report.payload_bytes)} read, {size(report.state_bytes)} of states) "
        f"in {report.seconds:.1f} s"
        + (f"; {counted(report.entries, 'entry', 'entries')} read" if report.entries else "")
        + (f"; {counted(report.items, 'item')} read" if report.items else "")
    )
    if report.ok:
        at.terminal.say("ok: nothing is wrong", style="green")
    else:
        at.terminal.say(f"damaged: {counted(report.errors, 'finding')}", style="bold red")


def _show_finding(at: Invocation, finding: Finding) -> None:
    place = " ".join(
        f"{name} {value!r}"
        for name, value in (
            ("tenant", finding.tenant if finding.tenant != at.tenant else None),
            ("thread", finding.thread_id),
            ("namespace", finding.namespace if finding.namespace != "/" else None),
            ("checkpoint", finding.checkpoint_id),
            ("item", finding.key),
        )
        if value is not None
    )
    style = "yellow" if finding.severity == "note" else "red"
    at.terminal.say(f"{finding.severity} [{finding.code}] {place}".rstrip(), style=style)
    at.terminal.say(f"  {finding.sentence}")
    if finding.affected:
        more = finding.affected_count - len(finding.affected)
        names = ", ".join(finding.affected) + (f" and {more:,} more" if more > 0 else "")
        at.terminal.say(f"  affected: {names}")
    if finding.intact is not None:
        at.terminal.say(f"  newest whole checkpoint: {finding.intact}")
    if finding.remedy is not None:
        at.terminal.say(f"  what can be done: {finding.remedy}")


def _sample(text: str) -> int | float:
    """Read ``100`` or ``5%``."""
    if re.fullmatch(r"[1-9]\d*", text):
        return int(text)
    share = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
    if share is not None and 0 < float(share[1]) < 100:
        return float(share[1]) / 100
    raise UsageProblem(f"{text!r} is no sample; write a number of states, as 100, or 5%")

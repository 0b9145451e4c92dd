"""The command verify."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.anchor_files import read_anchor
from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT, OK
from memalchemy.cli.formatting import count, format_size
from memalchemy.cli.namespaces import thread_not_found
from memalchemy.cli.options import AllTenantsOption
from memalchemy.cli.parsers import parse_sample
from memalchemy.cli.thread_arguments import ThreadOption
from memalchemy.cli.usage_errors import UsageError, usage_errors

if TYPE_CHECKING:
    from memalchemy.verify import Finding, Report


@command("verify", example="memalchemy --db sqlite:///agent.db verify --sample 5%")
async def verify(
    ctx: Context,
    sample: Annotated[
        str | None,
        typer.Option(metavar="N|P%", help="Check a random sample: N states, or P %."),
    ] = None,
    thread: ThreadOption = None,
    all_tenants: AllTenantsOption = False,
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", metavar="FILE", help="Also compare with the anchor in FILE."),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="HEX", help="Digest that the anchor must have."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild text indexes that are wrong.")
    ] = False,
) -> int:
    """Check that stored data is complete and undamaged.

    Rebuilds every state and compares it with its checksum. Checks the chains between states, the
    items of the store with their vectors, the text indexes, and the file of a SQLite database.
    Agents may go on working. Ends with exit code 5 if anything is wrong that --repair did not
    repair.
    """
    from memalchemy.verify import verify

    states = None if sample is None else parse_sample(sample)
    if thread is not None and all_tenants:
        raise UsageError("give --thread or --all-tenants, not both: a thread belongs to one tenant")
    held = None if anchor is None else read_anchor(anchor, digest)
    if digest is not None and held is None:
        raise UsageError("--digest is of an anchor: give --anchor FILE, too")
    # SQLite compares a text index with its rows only where it may write.
    async with ctx.database(read_only=not repair and not ctx.is_writable_file) as db:
        if thread is not None:
            thread = await find_thread(db, thread)
        with ctx.terminal.progress("verifying") as progress, usage_errors():
            report = await verify(
                db,
                thread_id=thread,
                all_tenants=all_tenants,
                sample=states,
                repair=repair,
                anchor=held,
                progress=progress.update,
            )
    if thread is not None and not report.logs and report.ok:
        raise thread_not_found(thread)
    if ctx.as_data:
        ctx.terminal.print_data(report.as_dict())
    else:
        _print_report(ctx, report)
    return OK if report.ok else CORRUPT


def _print_report(ctx: Context, report: Report) -> None:
    for finding, following in zip_longest(report.findings, report.findings[1:]):
        _print_finding(ctx, finding)
        # Findings of one cause follow each other, and one remedy is said once, below them.
        if finding.remedy and (following is None or following.remedy != finding.remedy):
            ctx.terminal.print(f"  what can be done: {finding.remedy}")
    listed = sum(finding.severity == "error" for finding in report.findings)
    if report.errors > listed:
        ctx.terminal.print(f"… and {report.errors - listed:,} more")
    for index in report.repaired:
        ctx.terminal.print(f"repaired: the text index {index} was rebuilt")
    summary = (
        f"{count(report.states, 'state')} of {count(report.logs, 'log')} rebuilt "
        f"({format_size(report.payload_bytes)} read, {format_size(report.state_bytes)} of states) "
        f"in {report.seconds:.1f} s"
    )
    if report.sampled:
        summary = f"a sample: {summary}"
    if report.entries:
        summary += f"; {count(report.entries, 'entry', 'entries')} read"
    if report.items:
        summary += f"; {count(report.items, 'item')} read"
    ctx.terminal.print(summary)
    if not report.text_indexes:
        what = "no text index was compared with its rows: memalchemy cannot examine any here"
        ctx.terminal.print(what, style="yellow")
    if report.tenant is not None and not (report.logs or report.items):
        what = f"tenant {report.tenant!r} has nothing; `memalchemy tenants list` names the others"
        ctx.terminal.print_note(what)
    if report.ok and any(finding.code == "unchecked" for finding in report.findings):
        what = "ok: nothing is wrong in what was checked; the note says what was not"
        ctx.terminal.print(what, style="green")
    elif report.ok:
        ctx.terminal.print("ok: nothing is wrong", style="green")
    else:
        ctx.terminal.print(f"damaged: {count(report.errors, 'finding')}", style="bold red")


def _print_finding(ctx: Context, finding: Finding) -> None:
    place = {
        "tenant": finding.tenant if finding.tenant != ctx.tenant else None,
        "thread": finding.thread_id,
        "namespace": finding.namespace if finding.namespace != "/" else None,
        "checkpoint": finding.checkpoint_id,
        "item": finding.key,
    }
    words = [f"{name} {value!r}" for name, value in place.items() if value is not None]
    ctx.terminal.print(
        " ".join([f"{finding.severity} [{finding.code}]", *words]),
        style="yellow" if finding.severity == "note" else "red",
    )
    ctx.terminal.print(f"  {finding.sentence}")
    if finding.affected:
        names = ", ".join(finding.affected)
        more = finding.affected_count - len(finding.affected)
        if more > 0:
            names += f" and {more:,} more"
        ctx.terminal.print(f"  affected: {names}")
    if finding.intact is not None:
        ctx.terminal.print(f"  newest whole checkpoint: {finding.intact}")

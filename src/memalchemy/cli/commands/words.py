"""The command rebuild-words."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT, NOT_FOUND, OK
from memalchemy.cli.formatting import count
from memalchemy.cli.options import AllTenantsOption, DryRunOption
from memalchemy.cli.parsers import parse_namespace
from memalchemy.cli.usage_errors import UsageError, usage_errors

if TYPE_CHECKING:
    from memalchemy.words import WordsReport

LISTED = 20
"""Namespaces that a message lists."""


@command("rebuild-words", example="memalchemy --db sqlite:///agent.db rebuild-words --dry-run")
async def rebuild_words(
    ctx: Context,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            metavar="PATH",
            help="Also this namespace and below it, such as /notes. Repeatable.",
        ),
    ] = None,
    all_namespaces: Annotated[
        bool,
        typer.Option("--all-namespaces", help="Also all namespaces that were never indexed."),
    ] = False,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="THREAD", help="Only this thread, and no items."),
    ] = None,
    all_tenants: AllTenantsOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Rebuild the words by which searches find rows.

    Words, and the fields for filters, are made from the stored states, entries and items. Words by
    the rules of an older release are made anew. Missing fields are rebuilt everywhere, missing
    words where rotate-keys --drop-words has removed some. Elsewhere rows may have no words on
    purpose (index_text=False): these namespaces are listed, and left unless you name them.

    In an encrypted database --readable has to allow it. Agents may go on working. If it is
    interrupted, run it again. Ends with exit code 1 if rows are left, and 5 if some of
    them are damaged.
    """
    from memalchemy.words import rebuild_words

    ctx.refuse_two_tenants(all_tenants=all_tenants)
    if thread is not None and all_tenants:
        raise UsageError("give --thread or --all-tenants, not both: a thread belongs to one tenant")
    async with ctx.database(read_only=dry_run) as db:
        with ctx.terminal.progress("rebuilding") as progress, usage_errors():
            report = await rebuild_words(
                db,
                namespaces=[parse_namespace(path) for path in namespace or ()],
                all_namespaces=all_namespaces,
                thread_id=thread,
                all_tenants=all_tenants,
                dry_run=dry_run,
                progress=lambda state: progress.update(state.done, state.total),
            )
    if ctx.as_data:
        ctx.terminal.print_data(asdict(report) | {"dry_run": dry_run})
    else:
        _print_report(ctx, report, dry_run=dry_run)
    if report.damaged:
        return CORRUPT
    return NOT_FOUND if report.left else OK


def _print_report(ctx: Context, report: WordsReport, *, dry_run: bool) -> None:
    done = "would get words" if dry_run else "have words now"
    ctx.terminal.print(
        f"{done}: {count(report.states, 'state')}, {count(report.entries, 'entry', 'entries')}, "
        f"{count(report.items, 'item')}; in {report.seconds:.1f} s"
    )
    if report.left:
        ctx.terminal.print(
            f"{report.left:,} were left: they cannot be read, or were changed meanwhile. "
            "`memalchemy verify` says more of them",
            style="yellow",
        )
    if report.unnamed:
        ctx.terminal.print(
            "rows of these namespaces have texts and no words. If they should have some, give "
            "--namespace or --all-namespaces:",
            style="yellow",
        )
        for one in report.unnamed[:LISTED]:
            tenant = f"tenant {one.tenant!r}, " if one.tenant != ctx.tenant else ""
            ctx.terminal.print(f"  {tenant}{one.namespace} ({one.kind}): {one.rows:,}")
        if len(report.unnamed) > LISTED:
            ctx.terminal.print("  …; --json lists more")

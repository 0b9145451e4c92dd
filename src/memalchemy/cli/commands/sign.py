"""The command sign."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT, NOT_FOUND, OK
from memalchemy.cli.formatting import count
from memalchemy.cli.options import SIGNING_KEYS_VARIABLE, AllTenantsOption, DryRunOption
from memalchemy.cli.usage_errors import UsageError, usage_errors

if TYPE_CHECKING:
    from memalchemy.signing import SigningReport

LISTED = 20
"""Rows that a message lists."""


@command("sign", example="memalchemy --db sqlite:///agent.db --signing-keys-file keys.txt sign")
async def sign(
    ctx: Context,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="THREAD", help="Only this thread.")
    ] = None,
    all_tenants: AllTenantsOption = False,
    adopt_unsigned: Annotated[
        bool,
        typer.Option(
            "--adopt-unsigned",
            help="Also sign unsigned rows of a signed tenant, which may be forged.",
        ),
    ] = False,
    resign: Annotated[
        bool,
        typer.Option(
            "--resign", help="Sign --thread as it is now, even if it differs from what was signed."
        ),
    ] = False,
    dry_run: DryRunOption = False,
) -> int:
    """Sign everything with the first of the given signing keys.

    Signs a tenant that was never signed, and rows under another key. Rows that differ from what
    was signed are listed and left as they are. So are unsigned rows of a signed tenant, which may
    be forged.

    Agents may go on working if they have the key too, and allow unsigned rows until it is done.
    Ends with exit code 1 if unsigned rows are left, and 5 if rows differ from what was signed.
    """
    from memalchemy.signing import sign

    ctx.refuse_two_tenants(all_tenants=all_tenants)
    if thread is not None and all_tenants:
        raise UsageError("give --thread or --all-tenants, not both: a thread belongs to one tenant")
    async with ctx.database(read_only=dry_run) as db:
        if not db.signing.signs:
            raise UsageError(
                "sign needs the signing keys, the new one first: use --signing-keys-file FILE or "
                f"set {SIGNING_KEYS_VARIABLE}. `memalchemy generate-key` makes a key"
            )
        with ctx.terminal.progress("signing") as progress, usage_errors():
            report = await sign(
                db,
                thread_id=thread,
                all_tenants=all_tenants,
                adopt_unsigned=adopt_unsigned,
                resign=resign,
                dry_run=dry_run,
                progress=lambda done: progress.update(done, None),
            )
    if ctx.as_data:
        ctx.terminal.print_data(asdict(report) | {"dry_run": dry_run})
    else:
        _print_report(ctx, report, dry_run=dry_run)
    if any(not row.unsigned for row in report.refused):
        return CORRUPT
    return NOT_FOUND if report.refused_count else OK


def _print_report(ctx: Context, report: SigningReport, *, dry_run: bool) -> None:
    done = "would be signed" if dry_run else "were signed"
    looked = f"{count(report.logs, 'log')} and {count(report.items, 'item')} looked at"
    ctx.terminal.print(f"{looked}; rows that {done}: {report.signed:,}")
    if not (report.logs or report.items):
        ctx.terminal.print_note(
            "there is nothing to sign; from now on only processes with the key may write there. "
            "`memalchemy tenants list` names the tenants that have something"
        )
    if report.unregistered:
        ctx.terminal.print(
            f"nothing is signed with {', '.join(report.unregistered)} any more: a process that "
            "has no other key may not write"
        )
    if not report.refused_count:
        return
    ctx.terminal.print(
        f"{report.refused_count:,} were left. If you know that unsigned rows are genuine, "
        "--adopt-unsigned signs them; a thread that you keep as it is now is signed by "
        "--thread ID --resign, which brings nothing back that was removed:",
        style="yellow",
    )
    for row in report.refused[:LISTED]:
        tenant = f"tenant {row.tenant!r}, " if row.tenant != ctx.tenant else ""
        ctx.terminal.print(f"  {tenant}{row.place}: {row.reason}")
    if report.refused_count > LISTED:
        ctx.terminal.print("  …; --json lists more")

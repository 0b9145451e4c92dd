"""The command copy."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT, OK
from memalchemy.cli.formatting import count, format_size
from memalchemy.cli.options import AllTenantsOption
from memalchemy.cli.usage_errors import UsageError, usage_errors
from memalchemy.errors import CopyIncomplete, MemalchemyError

if TYPE_CHECKING:
    from memalchemy import Database

LISTED = 20
"""The logs and items left out that a message lists."""

TO_VARIABLE = "MEMALCHEMY_TO_URL"


@command("copy", example="memalchemy copy --from sqlite:///agent.db --to sqlite:///new.db")
async def copy(
    ctx: Context,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="Source. [default: that of --db]"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="URL", help=f"Target. [env: {TO_VARIABLE}]"),
    ] = None,
    from_schema: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Schema of the source. [default: that of --schema]"),
    ] = None,
    to_schema: Annotated[
        str | None, typer.Option(metavar="NAME", help="Schema of the target.")
    ] = None,
    all_tenants: AllTenantsOption = False,
    recheck: Annotated[
        bool,
        typer.Option("--recheck", help="Read and compare every row, also of earlier copies."),
    ] = False,
) -> int:
    """Copy one database into another, of any kind.

    Reads every row back and compares it. If the copy is interrupted, run it again; if the source
    has grown, run it again to copy what is new. If the target holds other data under the same keys,
    nothing is written and the exit code is 4.

    Threads and items that are damaged, or that differ from what was signed, are left out as a
    whole and named. The others are copied, and the exit code is 5. Mend or delete those that were
    left out, and copy again.
    """
    from memalchemy.transfer import copy

    to = to or os.environ.get(TO_VARIABLE)
    if to is None:
        raise UsageError(f"no target given; use --to URL or set {TO_VARIABLE}")
    ctx.refuse_two_tenants(all_tenants=all_tenants)
    options = ctx.options
    source = ctx.with_options(db=from_ or options.db)
    if from_schema is not None:
        source = source.with_options(schema=from_schema)
    target = ctx.with_options(db=to, schema=to_schema)
    async with (
        _open_named("the source", source, source.database(read_only=True)) as old,
        _open_named("the target", target, target.database(migrate="auto", create=True)) as new,
    ):
        with ctx.terminal.progress("copying") as progress, usage_errors():
            try:
                report = await copy(
                    old,
                    new,
                    all_tenants=all_tenants,
                    recheck=recheck,
                    # Everything is compared with the target first, and then copied.
                    progress=lambda report: progress.update(
                        report.looked + report.done, 2 * (report.logs + report.items)
                    ),
                )
            except CopyIncomplete as error:
                report = error.report
    code = CORRUPT if report.left else OK
    if ctx.as_data:
        ctx.terminal.print_data(asdict(report))
        return code
    ctx.terminal.print(
        f"{count(report.logs, 'log')} and {count(report.items, 'item')}: {report.new:,} new, "
        f"{report.updated:,} updated, {report.unchanged:,} unchanged"
    )
    ctx.terminal.print(
        f"{count(report.rows, 'row')} ({format_size(report.bytes)}) written, read back and "
        f"compared in {report.seconds:.1f} s"
    )
    if report.grown:
        ctx.terminal.print(f"{count(report.grown, 'log')} had grown: only the new rows were copied")
    for reason, number in report.copied_again.items():
        ctx.terminal.print(f"{count(number, 'log')} copied as a whole: {reason}")
    if report.left:
        ctx.terminal.print(
            f"{report.left:,} were left out, because they are damaged or not what was signed. "
            "`memalchemy verify` on the source says what can be done; mend or delete them there, "
            "and copy again:",
            style="yellow",
        )
        for one in report.left_out[:LISTED]:
            ctx.terminal.print(f"  {one}")
        if report.left > LISTED:
            ctx.terminal.print("  …; --json lists more")
    return code


@asynccontextmanager
async def _open_named(
    name: str, ctx: Context, database: AbstractAsyncContextManager[Database]
) -> AsyncIterator[Database]:
    """Open *database*; an error says which of the two databases it is about."""
    async with AsyncExitStack() as stack:
        try:
            opened = await stack.enter_async_context(database)
        except MemalchemyError as error:
            error.args = (f"{name}, {ctx.display_url}: {error}",)
            raise
        yield opened

"""The command tail."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import DataFormat
from memalchemy.cli.namespaces import thread_not_found
from memalchemy.cli.options import FullOption, OnlyNamespaceOption
from memalchemy.cli.parsers import parse_namespace
from memalchemy.cli.thread_arguments import ThreadArgument
from memalchemy.cli.transcript import TranscriptPrinter
from memalchemy.cli.usage_errors import UsageError
from memalchemy.errors import DatabaseUnreachable, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence


@command("tail", example="memalchemy --db sqlite:///agent.db tail airline-1 -n 5")
async def tail(
    ctx: Context,
    thread: ThreadArgument,
    number: Annotated[
        int, typer.Option("-n", "--limit", min=0, metavar="N", help="Begin with the newest N.")
    ] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until Ctrl-C.")] = False,
    interval: Annotated[
        float,
        typer.Option(min=0.05, max=3600, metavar="SECONDS", help="Time between two looks."),
    ] = 0.5,
    namespace: OnlyNamespaceOption = None,
    full: FullOption = False,
) -> None:
    """Print the newest messages of a thread, and follow an agent.

    Prints steps with their new messages, entries, pending writes and interrupts, in all namespaces.
    With --follow, --json and --nl print a JSON document per line.
    """
    from memalchemy.inspection import Activity, Inspector

    if follow and ctx.options.data_format in (DataFormat.CSV, DataFormat.TSV):
        raise UsageError("--follow prints no rows of values; give --nl")
    place = None if namespace is None else parse_namespace(namespace)
    printer = TranscriptPrinter(ctx.terminal, full=full)

    def show(records: Sequence[dict[str, Any]]) -> None:
        if ctx.as_data and not follow:
            ctx.terminal.print_data(list(records))
            return
        for record in records:
            if ctx.as_data:
                ctx.terminal.print_line(record)
            else:
                printer.print_record(record, name_namespace=activity.logs > 1)
        ctx.terminal.flush()

    async with ctx.database(read_only=True) as db:
        thread = await find_thread(db, thread)
        activity = Activity(Inspector(db), thread, place)
        try:
            show(await activity.newest(number))
        except NotFound:
            raise thread_not_found(thread, namespace) from None
        while follow:
            if not activity.is_behind:
                await asyncio.sleep(interval)
            try:
                show(await activity.since())
            except DatabaseUnreachable as error:
                # A file that is read without locks was written meanwhile.
                if not error.busy:
                    raise
                await asyncio.sleep(interval)

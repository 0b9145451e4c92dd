"""Commands that list what agents did: messages, tools, usage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import Command, command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT
from memalchemy.cli.formatting import count
from memalchemy.cli.moments import parse_moment
from memalchemy.cli.options import (
    FrameworkOption,
    MetadataOption,
    OnlyNamespaceOption,
    PrefixOption,
)
from memalchemy.cli.parsers import parse_metadata, parse_namespace
from memalchemy.cli.thread_arguments import ThreadOption
from memalchemy.cli.usage_errors import UsageError, usage_errors

if TYPE_CHECKING:
    from memalchemy import Database
    from memalchemy.analysis import Analysis

Row = dict[str, Any]

PatternOption = Annotated[
    str, typer.Option("--pattern", metavar="GLOB", help="Glob over the whole id: *, ?, [a-z].")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="From this time on: 2026-11-01, 2026-11-01T12:00 (UTC) or 7d.",
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Before this time.")
]
RowsOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=1,
        metavar="N",
        help="Largest number of results. [default: 100 in a table, all for programs]",
    ),
]
ParquetOption = Annotated[
    Path | None,
    typer.Option("--parquet", metavar="FILE", help="Write a Parquet file, and print no rows."),
]


ByOption = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="WHAT",
        help="Sum up by day, thread, namespace, framework, agent, user, or by role, tool or model. "
        "Repeatable.",
    ),
]


def parse_selection(
    namespace: str | None,
    prefix: bool,
    framework: str | None,
    metadata: list[str] | None,
    since: str | None,
    until: str | None,
) -> dict[str, Any]:
    """Return the options that select rows, as arguments of `Analysis`."""
    return {
        "namespace": None if namespace is None else parse_namespace(namespace),
        "below": prefix,
        "framework": framework,
        "metadata": parse_metadata(metadata) or {},
        "since": parse_moment(since, "--since"),
        "until": parse_moment(until, "--until"),
    }


def refuse_two_outputs(ctx: Context, parquet: Path | None) -> None:
    """Raise `UsageError` if rows are wanted in a file and on stdout."""
    if parquet is not None and ctx.as_data:
        raise UsageError("give --parquet or a format for stdout, not both")


def _declare(name: str, table: str, columns: tuple[str, ...], example: str, text: str) -> Command:
    """Declare the command that lists the rows of one table."""

    async def run(
        ctx: Context,
        thread: ThreadOption = None,
        pattern: PatternOption = "*",
        namespace: OnlyNamespaceOption = None,
        prefix: PrefixOption = False,
        framework: FrameworkOption = None,
        metadata: MetadataOption = None,
        since: SinceOption = None,
        until: UntilOption = None,
        by: ByOption = None,
        limit: RowsOption = None,
        parquet: ParquetOption = None,
    ) -> int | None:
        from memalchemy.analysis import Analysis

        refuse_two_outputs(ctx, parquet)
        with usage_errors():
            selection = parse_selection(namespace, prefix, framework, metadata, since, until)
            selection["pattern"] = pattern
            async with ctx.database(read_only=True) as db:
                analysis = Analysis(db)
                selection["thread"] = await _found_thread(db, thread)
                await _print(ctx, analysis, table, columns, selection, by or [], limit, parquet)
        return report_unreadable(ctx, analysis.unreadable)

    run.__doc__ = text
    return command(name, example=example)(run)


async def _found_thread(db: Database, thread: str | None) -> str | None:
    return None if thread is None else await find_thread(db, thread)


async def _print(
    ctx: Context,
    analysis: Analysis,
    table: str,
    columns: tuple[str, ...],
    selection: dict[str, Any],
    by: list[str],
    limit: int | None,
    parquet: Path | None,
) -> None:
    from memalchemy.analysis.sums import RowSums
    from memalchemy.analysis.tables import table_of
    from memalchemy.cli.row_output import (
        SHOWN,
        first_rows,
        print_rows,
        print_table,
        write_parquet,
        write_rows_to_parquet,
    )

    declared = table_of(table)
    batches: AsyncIterator[list[Row]] = analysis.rows(table, **selection)
    if by:
        sums = RowSums(table, [name for one in by for name in one.split(",")])
        async for batch in batches:
            sums.add(batch)
        rows = sums.rows()[:limit]
        if parquet is not None:
            written = write_rows_to_parquet(parquet, rows)
        elif ctx.as_data:
            ctx.terminal.print_data(rows)
            return
        else:
            print_table(ctx, rows)
            return
    elif parquet is not None:
        written = await write_parquet(parquet, declared, first_rows(batches, limit))
    elif ctx.as_data:
        json_columns = [one.name for one in declared.columns if one.kind == "json"]
        await print_rows(ctx, first_rows(batches, limit), json_columns)
        return
    else:
        most = limit or SHOWN
        shown = [row async for batch in first_rows(batches, most + 1) for row in batch]
        print_table(ctx, [{name: row[name] for name in columns} for row in shown[:most]])
        ctx.terminal.print_note(count(len(shown[:most]), "row"))
        if len(shown) > most:
            ctx.terminal.print_note(f"only the first {most:,}; --limit shows more")
        return
    ctx.terminal.print(f"{count(written, 'row')} in {parquet}")


def report_unreadable(ctx: Context, unreadable: list[str]) -> int | None:
    """Name on stderr what could not be read, and return the exit code."""
    for one in unreadable[:5]:
        ctx.terminal.print_note(f"passed over: {one}")
    if len(unreadable) > 5:
        ctx.terminal.print_note(f"passed over: {len(unreadable) - 5:,} more")
    if unreadable:
        ctx.terminal.print_note("the rows above are without these; `memalchemy verify` says more")
    return CORRUPT if unreadable else None


messages: Command = _declare(
    "messages",
    "messages",
    ("time", "thread", "role", "name", "text"),
    "memalchemy --db sqlite:///agent.db messages --since 7d --csv",
    """List messages, of all frameworks, each once.

    The threads that were written last come first, and of each thread its first message. Rows for
    programs have all columns of the table messages.
    """,
)
tools: Command = _declare(
    "tools",
    "tool_calls",
    ("time", "thread", "agent", "name", "arguments", "result", "error", "duration_ms"),
    "memalchemy --db sqlite:///agent.db tools --since 7d --by tool --by agent",
    """List calls of tools, of all frameworks, with their results.

    With --by: the number of calls, of errors, of calls without a result, and the mean duration.
    """,
)
usage: Command = _declare(
    "usage",
    "usage",
    (
        *("time", "thread", "agent", "model", "input_tokens", "output_tokens", "cached_tokens"),
        *("cost_usd", "latency_ms"),
    ),
    "memalchemy --db sqlite:///agent.db usage --by day --by model",
    """List tokens, cost and latency that messages or metadata state.

    With --by: the number of answers, the sums of tokens and cost, and the mean latency. Nothing is
    computed from a price list: what nobody stated is empty.
    """,
)

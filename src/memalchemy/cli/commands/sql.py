"""The command sql."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli import ctrl_c
from memalchemy.cli.command import command
from memalchemy.cli.commands.rows import (
    ParquetOption,
    SinceOption,
    UntilOption,
    parse_selection,
    refuse_two_outputs,
    report_unreadable,
)
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import DATABASE
from memalchemy.cli.formatting import count
from memalchemy.cli.options import (
    FrameworkOption,
    MetadataOption,
    OnlyNamespaceOption,
    PrefixOption,
)
from memalchemy.cli.parsers import (
    parse_duration,
    read_text_argument,
)
from memalchemy.cli.terminal import print_error
from memalchemy.cli.usage_errors import UsageError, usage_errors
from memalchemy.errors import StatementFailed

if TYPE_CHECKING:
    from memalchemy.analysis import QueryResult, SQLConnection

ROWS = 1_000
"""Rows that are fetched and printed at once."""

_GRACE = 2.0
"""Seconds in which DuckDB stops an interrupted query, as it mostly does; then the process ends."""


@command(
    "sql",
    example='memalchemy --db sqlite:///agent.db sql "select role, text from messages"',
)
async def sql(
    ctx: Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A query; @FILE reads a file, - reads stdin.")
    ],
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="FILE",
            help="Keep the tables in this DuckDB file, and read only what has changed.",
        ),
    ] = None,
    plaintext_cache: Annotated[
        bool,
        typer.Option(
            "--plaintext-cache", help="Allow an unencrypted cache of an encrypted database."
        ),
    ] = False,
    longest: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="Longest time: 45s, 5m.")
    ] = "60s",
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", help="Most memory: 500MB, 2GB.")
    ] = "1GB",
    namespace: OnlyNamespaceOption = None,
    prefix: PrefixOption = False,
    framework: FrameworkOption = None,
    metadata: MetadataOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    parquet: ParquetOption = None,
) -> int | None:
    """Ask what agents did in SQL, of all frameworks.

    DuckDB runs the query over the tables threads, steps, messages, tool_calls, usage, items and
    memories. It only reads, and reaches no file, no network and no extension. Without --cache the
    tables that the query names are read into memory first; the options that select narrow them.
    """
    from memalchemy.analysis import Analysis
    from memalchemy.analysis.tables import tables_named_in

    refuse_two_outputs(ctx, parquet)
    if plaintext_cache and cache is None:
        raise UsageError("--plaintext-cache is about the file of --cache")
    text = read_text_argument(query)
    seconds = parse_duration(longest).total_seconds()
    selection = parse_selection(namespace, prefix, framework, metadata, since, until)
    with usage_errors():
        async with ctx.database(read_only=True) as db:
            analysis = Analysis(db)
            connection = await analysis.connect(
                tables=tables_named_in(text),
                cache=cache,
                plaintext=plaintext_cache,
                memory=memory,
                **selection,
            )
        with ctrl_c.ctrl_c_raises(), connection, _hard_limits(ctx, connection, seconds):
            result = connection.execute(text, timeout=seconds)
            rows = _write_or_fetch(ctx, result, parquet)
        if rows is not None:
            _print(ctx, rows)
    return report_unreadable(ctx, connection.unreadable)


def _write_or_fetch(
    ctx: Context, result: QueryResult, parquet: Path | None
) -> list[dict[str, Any]] | None:
    """Write the answer to a file or for programs; return the rows of one that people read."""
    from memalchemy.cli.row_output import ParquetFile

    if parquet is not None:
        table = result.arrow()
        with ParquetFile(parquet, table.schema) as written:
            for batch in table.to_batches():
                written.write(batch)
        ctx.terminal.print(f"{count(written.rows, 'row')} in {parquet}")
        return None
    documents = _documents(result)
    if ctx.as_data:
        with ctx.terminal.documents() as printed:
            for some in documents:
                printed.add(some)
        return None
    return list(chain.from_iterable(documents))


def _print(ctx: Context, rows: list[dict[str, Any]]) -> None:
    from memalchemy.cli.row_output import print_table

    print_table(ctx, rows)
    ctx.terminal.print_note(count(len(rows), "row"))


def _documents(result: QueryResult) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows as documents; columns of one name are told apart by numbers."""
    names: list[str] = []
    for name in result.columns:
        number = 2
        unique = name
        while unique in names:
            unique, number = f"{name}_{number}", number + 1
        names.append(unique)
    while some := result.fetchmany(ROWS):
        yield [dict(zip(names, row, strict=True)) for row in some]


@contextmanager
def _hard_limits(ctx: Context, connection: SQLConnection, seconds: float) -> Iterator[None]:
    """End the process if a query neither ends in time nor can be stopped; limit its memory.

    A function that runs for long on one row is not interrupted by DuckDB. Nothing is lost: the
    query only reads, and the cache is complete.

    Raises:
        StatementFailed: the answer needs more memory.
    """
    from memalchemy.analysis.connection import limit_process_memory

    ended = threading.Event()

    def watch() -> None:
        if ended.wait(seconds + _GRACE):
            return
        message = f"the query took longer than {seconds:g} seconds, and the process was ended"
        print_error(StatementFailed.code, message, DATABASE, as_json=ctx.options.json_errors)
        sys.stderr.flush()
        os._exit(DATABASE)

    threading.Thread(target=watch, daemon=True).start()
    restore = limit_process_memory(connection)
    try:
        yield
    except MemoryError as error:
        raise StatementFailed("the answer needs more memory: --memory allows more") from error
    finally:
        ended.set()
        restore()

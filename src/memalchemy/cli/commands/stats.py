"""The command stats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, format_size
from memalchemy.cli.namespaces import find_checkpointer
from memalchemy.cli.options import ThreadNamespaceOption
from memalchemy.cli.parsers import format_namespace
from memalchemy.cli.tables import BarCell, Column
from memalchemy.cli.thread_arguments import OptionalThreadArgument
from memalchemy.cli.usage_errors import UsageError

if TYPE_CHECKING:
    from memalchemy.space import Space

FREE_SHARE = 0.1
"""The share of empty pages in a file from which on `stats` names the command against them."""


@command("stats", example="memalchemy --db sqlite:///agent.db stats")
async def stats(
    ctx: Context,
    thread: OptionalThreadArgument = None,
    namespace: ThreadNamespaceOption = None,
    largest: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Threads to list.")
    ] = 10,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw a chart: .png or .svg."),
    ] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Also tables and indexes.")] = False,
) -> None:
    """Show what takes the space, and how it grows.

    "stored" is what states, entries and pending writes take, without indexes and search text; "full
    size" is what whole states would take. --tables is about the whole database. A
    chart needs the extra `plot`.
    """
    if thread is not None:
        if plot is not None or tables:
            raise UsageError("--plot and --tables are about all threads: leave THREAD out")
        await _print_thread_stats(ctx, thread, namespace)
        return
    if namespace is not None:
        raise UsageError("--namespace needs a THREAD")
    from memalchemy import space

    if plot is not None:
        from memalchemy.cli.space_chart import check_plot

        check_plot(plot)
    async with ctx.database(read_only=True) as db:
        measured = await space.measure(db, largest=largest)
    if plot is not None:
        from memalchemy.cli.space_chart import save_plot

        save_plot(measured, f"Space taken by tenant {ctx.tenant}", plot, tables=tables)
    totals: dict[str, Any] = {
        "threads": measured.threads,
        "checkpoints": measured.checkpoints,
        "full_checkpoints": measured.full_checkpoints,
        "entries": sum(one.entries for one in measured.frameworks),
        "items": measured.items,
        "expired": measured.expired,
        "raw_bytes": measured.raw_bytes,
        "stored_bytes": measured.stored_bytes,
        "file_bytes": measured.file_bytes,
    }
    if ctx.as_data:
        ctx.terminal.print_data(
            totals
            | {"total_bytes": measured.total_bytes, "content_bytes": measured.content_bytes}
            | {"free_bytes": measured.free_bytes, "estimated": measured.estimated}
            | {"frameworks": measured.frameworks, "kinds": measured.kinds}
            | {"growth": measured.growth, "largest": measured.largest}
            | {"logs": measured.logs, "rest_bytes": measured.rest_bytes}
            | ({"tables": measured.pieces} if tables else {})
        )
        return
    _print_summary(ctx, measured, totals)
    _print_frameworks(ctx, measured)
    _print_kinds_and_threads(ctx, measured)
    if tables:
        _print_tables(ctx, measured)
    _print_hints(ctx, measured)
    if plot is not None:
        ctx.terminal.print_note(f"drew the chart {plot}")


async def _print_thread_stats(ctx: Context, thread: str, namespace: str | None) -> None:
    async with ctx.database(read_only=True) as db:
        thread = await find_thread(db, thread)
        checkpointer = await find_checkpointer(ctx, db, thread, namespace)
        found = await checkpointer.get_storage_stats(thread)
        logs = await checkpointer.list_logs(thread)
        file_bytes = db.file_bytes
    totals: dict[str, Any] = {
        "threads": 1,
        "checkpoints": found["total_checkpoints"],
        "full_checkpoints": found["full_checkpoints"],
        "entries": sum(log.entries for log in logs),
        "raw_bytes": sum(log.raw_size for log in logs),
        "stored_bytes": sum(log.stored_size for log in logs),
        "file_bytes": file_bytes,
    }
    if ctx.as_data:
        ctx.terminal.print_data(totals)
    else:
        _print_totals(
            ctx,
            [
                ("checkpoints", totals["checkpoints"]),
                ("  stored in full", totals["full_checkpoints"]),
                ("entries", totals["entries"]),
                ("full size", format_size(totals["raw_bytes"])),
                ("  stored of it", format_size(totals["stored_bytes"])),
            ],
        )


def _print_totals(ctx: Context, rows: Sequence[tuple[str, Any]]) -> None:
    ctx.terminal.print_table((Column(""), Column("total", "number")), rows)


def _print_summary(ctx: Context, measured: Space, totals: dict[str, Any]) -> None:
    """Print the total, what the tenant holds and how it grows, and its counts."""
    rows: list[tuple[str, Any]] = []
    if measured.total_bytes is not None:
        what = "database, all tenants" if measured.file_bytes is None else "file, all tenants"
        rows.append((what, format_size(measured.total_bytes)))
    rows.append((f"content of tenant {ctx.tenant}", format_size(measured.content_bytes)))
    for grown in measured.growth:
        last = "last day" if grown.days == 1 else f"last {grown.days} days"
        rows.append((f"  of threads, stored in the {last}", format_size(grown.bytes)))
    if measured.stored_bytes:
        stored, raw = format_size(measured.stored_bytes), format_size(measured.raw_bytes)
        rows += [("full size", raw), ("  stored of it", stored)]
    rows += [
        ("threads", totals["threads"]),
        ("checkpoints", totals["checkpoints"]),
        ("  stored in full", totals["full_checkpoints"]),
        ("entries", totals["entries"]),
        ("items of the store", totals["items"]),
    ]
    _print_totals(ctx, rows)


def _print_frameworks(ctx: Context, measured: Space) -> None:
    _print_bars(
        ctx,
        (
            Column("framework or namespace"),
            Column("threads", "number", drop=4),
            Column("checkpoints", "number", drop=3),
            Column("entries", "number", drop=2),
            Column("full size", "number", drop=5),
        ),
        [
            (
                (
                    one.name or "/",
                    one.threads,
                    one.checkpoints or "",
                    one.entries or "",
                    format_size(one.raw_bytes) if one.checkpoints else "",
                ),
                one.stored_bytes,
            )
            for one in measured.frameworks
        ],
        size="stored",
    )


def _print_kinds_and_threads(ctx: Context, measured: Space) -> None:
    _print_bars(
        ctx,
        (Column("kind"), Column("rows", "number", drop=2)),
        [((kind.name, kind.rows), kind.bytes) for kind in measured.kinds],
    )
    others = measured.logs - len(measured.largest)
    _print_bars(
        ctx,
        (
            Column("largest threads", "id"),
            Column("namespace", "id"),
            Column("rows", "number", drop=2),
        ),
        [
            ((share.thread_id, format_namespace(share.namespace), share.rows), share.bytes)
            for share in measured.largest
        ],
        rest=((f"{others:,} others", "", ""), measured.rest_bytes) if others > 0 else None,
    )


def _print_tables(ctx: Context, measured: Space) -> None:
    free = measured.free_bytes
    _print_bars(
        ctx,
        (Column("table or index, all tenants"), Column("kind", drop=2)),
        [((piece.name, piece.kind), piece.bytes) for piece in measured.pieces if piece.bytes],
        rest=(("free pages (`vacuum` gives them back)", ""), free) if free else None,
    )
    if measured.estimated:
        ctx.terminal.print_note("table sizes are estimates: this SQLite was built without dbstat")


def _print_hints(ctx: Context, measured: Space) -> None:
    """Print on stderr which commands would give space back."""
    if measured.free_bytes and measured.file_bytes:
        free = format_size(measured.free_bytes)
        if measured.free_bytes >= FREE_SHARE * measured.file_bytes:
            ctx.terminal.print_note(f"{free} of the file are empty: `memalchemy vacuum`")
    if measured.expired:
        ctx.terminal.print_note(
            f"{count(measured.expired, 'item')} expired: `memalchemy store sweep`"
        )


SizedRow = tuple[tuple[Any, ...], int]


def _print_bars(
    ctx: Context,
    columns: Sequence[Column],
    rows: Sequence[SizedRow],
    rest: SizedRow | None = None,
    size: str = "size",
) -> None:
    """Print an empty line and a table whose rows end with a size and a bar; the rest has no bar."""
    if not rows:
        return
    largest = max(held for _, held in rows)
    lines = [(*cells, format_size(held), BarCell(held, largest)) for cells, held in rows]
    if rest is not None:
        cells, held = rest
        lines.append((*cells, format_size(held), ""))
    ctx.terminal.print()
    ctx.terminal.print_table(
        (*columns, Column(size, "number"), Column("", "number", drop=1)), lines
    )

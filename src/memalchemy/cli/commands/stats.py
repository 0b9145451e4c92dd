"""The command stats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import format_size
from memalchemy.cli.namespaces import find_checkpointer
from memalchemy.cli.options import OptionalThreadArgument, ThreadNamespaceOption
from memalchemy.cli.parsers import format_namespace
from memalchemy.cli.tables import Bar, Column
from memalchemy.cli.usage import UsageError

if TYPE_CHECKING:
    from memalchemy.space import Space


@command("stats", example="memalchemy --db sqlite:///agent.db stats")
async def stats(
    ctx: Context,
    thread: OptionalThreadArgument = None,
    namespace: ThreadNamespaceOption = None,
    largest: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Number of threads to list.")
    ] = 10,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw a chart into FILE: .png, .svg or .pdf."),
    ] = None,
) -> None:
    """Show how much space threads and tables take.

    "full size" is the size of all states if each were stored in full; "stored" is what their
    compressed differences take, without indexes and search text. Tables and indexes are those of
    the whole database, with all tenants. A chart needs the extra `plot`.
    """
    if thread is not None:
        if plot is not None:
            raise UsageError("--plot draws all threads: leave THREAD out")
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

        save_plot(measured, f"Space taken by tenant {ctx.tenant}", plot)
    totals: dict[str, Any] = {
        "threads": measured.threads,
        "checkpoints": measured.checkpoints,
        "full_checkpoints": measured.full_checkpoints,
        "items": measured.items,
        "raw_bytes": measured.raw_bytes,
        "stored_bytes": measured.stored_bytes,
        "file_bytes": measured.file_bytes,
    }
    if ctx.as_data:
        ctx.terminal.print_data(
            totals
            | {"free_bytes": measured.free_bytes, "estimated": measured.estimated}
            | {"tables": measured.pieces, "kinds": measured.kinds, "largest": measured.largest}
            | {"logs": measured.logs, "rest_bytes": measured.rest_bytes}
        )
        return
    _print_totals(ctx, totals)
    _print_charts(ctx, measured)
    if plot is not None:
        ctx.terminal.print_note(f"drew the chart {plot}")


async def _print_thread_stats(ctx: Context, thread: str, namespace: str | None) -> None:
    async with ctx.database(read_only=True) as db:
        thread = await find_thread(db, thread)
        checkpointer = await find_checkpointer(ctx, db, thread, namespace)
        found = await checkpointer.get_storage_stats(thread)
        file_bytes = db.file_bytes
    totals = {
        "threads": 1,
        "checkpoints": found["total_checkpoints"],
        "full_checkpoints": found["full_checkpoints"],
        "raw_bytes": found["total_size"],
        "stored_bytes": found["compressed_size"],
        "file_bytes": file_bytes,
    }
    if ctx.as_data:
        ctx.terminal.print_data(totals)
    else:
        _print_totals(ctx, totals)


def _print_totals(ctx: Context, totals: dict[str, Any]) -> None:
    rows = [
        ("threads", totals["threads"]),
        ("checkpoints", totals["checkpoints"]),
        ("  stored in full", totals["full_checkpoints"]),
        ("full size of all states", format_size(totals["raw_bytes"])),
        ("stored size", format_size(totals["stored_bytes"])),
    ]
    if "items" in totals:
        rows.append(("items of the store", totals["items"]))
    if totals["file_bytes"] is not None:
        rows.append(("database file, all tenants", format_size(totals["file_bytes"])))
    ctx.terminal.print_table((Column(""), Column("total", "number")), rows)


def _print_charts(ctx: Context, measured: Space) -> None:
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
    free = measured.free_bytes
    _print_bars(
        ctx,
        (Column("table or index, all tenants"), Column("kind", drop=2)),
        [((piece.name, piece.kind), piece.bytes) for piece in measured.pieces if piece.bytes],
        rest=(("free pages (`vacuum` gives them back)", ""), free) if free else None,
    )
    if measured.estimated:
        ctx.terminal.print_note("table sizes are estimates: this SQLite was built without dbstat")


SizedRow = tuple[tuple[Any, ...], int]


def _print_bars(
    ctx: Context, columns: Sequence[Column], rows: Sequence[SizedRow], rest: SizedRow | None = None
) -> None:
    """Print an empty line and a table whose rows end with a size and a bar; the rest has no bar."""
    if not rows:
        return
    largest = max(size for _, size in rows)
    lines = [(*cells, format_size(size), Bar(size, largest)) for cells, size in rows]
    if rest is not None:
        cells, size = rest
        lines.append((*cells, format_size(size), ""))
    ctx.terminal.print()
    ctx.terminal.print_table(
        (*columns, Column("size", "number"), Column("", "number", drop=1)), lines
    )

"""Commands of ``memalchemy index``, which manage vector indexes."""

from __future__ import annotations

from typing import Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, format_size
from memalchemy.cli.options import Metric, MetricOption
from memalchemy.cli.tables import Column
from memalchemy.cli.usage_errors import usage_errors


@command("show", example="memalchemy --db postgresql://me@host/db index show")
async def show(ctx: Context) -> None:
    """List the vector indexes.

    "invalid" marks what an interrupted build has left: build it again, or drop it.
    """
    from memalchemy.search.indexes import list_indexes

    async with ctx.database(read_only=True) as db:
        indexes = await list_indexes(db)
    if ctx.as_data:
        ctx.terminal.print_data(indexes)
        return
    ctx.terminal.print_table(
        (
            Column("index", "id"),
            Column("dimensions", "number", drop=2),
            Column("metric", drop=1),
            Column("state"),
            Column("size", "number", drop=3),
        ),
        (
            (index.name, index.dimensions, index.metric, index.state, format_size(index.bytes))
            for index in indexes
        ),
    )
    ctx.terminal.print_note(count(len(indexes), "index", "indexes"))


@command("build", example="memalchemy --db postgresql://me@host/db index build --dimensions 384")
async def build(
    ctx: Context,
    dimensions: Annotated[int, typer.Option(min=1, metavar="N", help="Dimensions of the vectors.")],
    metric: MetricOption = Metric.COSINE,
) -> None:
    """Build an index of all vectors with N dimensions.

    Covers all tenants and models; others may read and write meanwhile. An index makes writing
    vectors much slower, so build one only if searches are too slow. Needs the role that owns the
    tables.
    """
    from memalchemy.search.indexes import build_index

    async with ctx.database() as db:
        with ctx.terminal.progress("building") as progress, usage_errors():
            index = await build_index(
                db,
                dimensions=dimensions,
                metric=metric.value,
                progress=lambda state: progress.update(state.done, state.total),
            )
    if ctx.as_data:
        ctx.terminal.print_data(index)
    else:
        ctx.terminal.print(f"{index.name} is ready, {format_size(index.bytes)}")


@command(
    "drop",
    example="memalchemy --db postgresql://me@host/db index drop ix_embeddings_hnsw_384_cosine",
)
async def drop(
    ctx: Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the index, from `index show`.")
    ],
) -> None:
    """Drop a vector index.

    Others may read and write meanwhile. Searches compare all vectors from then on. Needs the role
    that owns the tables.
    """
    from memalchemy.search.indexes import drop_index

    async with ctx.database() as db:
        await drop_index(db, name)
    if ctx.as_data:
        ctx.terminal.print_data({"dropped": name})
    else:
        ctx.terminal.print(f"dropped {name}")


COMMANDS = (show, build, drop)

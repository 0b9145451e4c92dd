"""Commands of the indexes of vectors: index show, build, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.store import Metric
from memalchemy.cli.terminal import counted, size

if TYPE_CHECKING:
    from memalchemy.contracts import Progress


def register(app: typer.Typer) -> None:
    """Add the group of this file's commands to *app*."""
    group = typer.Typer(
        name="index", help="Indexes of vectors.", no_args_is_help=True, rich_markup_mode=None
    )
    db = "memalchemy --db postgresql://me@host/db index"
    command(group, "show", example=f"{db} show")(show)
    command(group, "build", example=f"{db} build --dimensions 384")(build)
    command(group, "drop", example=f"{db} drop ix_embeddings_hnsw_384_cosine")(drop)
    app.add_typer(group)


async def show(at: Invocation) -> None:
    """List the indexes of vectors.

    "invalid" is what an interrupted build has left: build it again, or drop it.
    """
    from memalchemy.search.indexes import list_indexes

    async with at.database() as db:
        found = await list_indexes(db)
    if at.as_json:
        at.terminal.document(found)
        return
    at.terminal.table(
        ("index", ">dimensions", "metric", "state", ">size"),
        ((one.name, one.dimensions, one.metric, one.state, size(one.bytes)) for one in found),
    )
    at.terminal.note(counted(len(found), "index", "indexes"))


async def build(
    at: Invocation,
    dimensions: Annotated[int, typer.Option(min=1, metavar="N", help="Of the vectors to index.")],
    metric: Annotated[Metric, typer.Option(help="How they compare.")] = Metric.COSINE,
) -> None:
    """Build an index of all vectors of so many dimensions.

    Of all tenants and models, while others read and write. One that is there is left as it is. With
    an index writing vectors takes much longer: it pays where searches compare too many of them.
    Needs the role that owns the tables.
    """
    from memalchemy.search.indexes import build_index

    async with at.database() as db:
        with at.terminal.progress() as bar:
            task = bar.add_task("building", total=None)

            def tell(progress: Progress) -> None:
                bar.update(task, completed=progress.done, total=progress.total)

            with asking_for_sense():
                made = await build_index(
                    db, dimensions=dimensions, metric=metric.value, progress=tell
                )
    if at.as_json:
        at.terminal.document(made)
    else:
        at.terminal.say(f"{made.name} is ready, {size(made.bytes)}")


async def drop(
    at: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `index show` has it.")],
) -> None:
    """Drop an index of vectors.

    While others read and write; searches compare all vectors then. Nothing else is lost. Needs the
    role that owns the tables.
    """
    from memalchemy.search.indexes import drop_index

    async with at.database() as db:
        await drop_index(db, name)
    if at.as_json:
        at.terminal.document({"dropped": name})
    else:
        at.terminal.say(f"dropped {name}")

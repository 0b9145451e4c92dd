"""Commands that take items out of a store and bring them in: store export, store import."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli import arguments
from memalchemy.cli.command import Invocation, command
from memalchemy.cli.exits import OK, REFUSED, UsageProblem
from memalchemy.cli.importing import Lines, length, opened
from memalchemy.cli.keeping import write_lines
from memalchemy.cli.terminal import counted

if TYPE_CHECKING:
    from memalchemy.store.jsonl import Problem


def register(group: typer.Typer) -> None:
    """Add this file's commands to the group of the store's."""
    db = "memalchemy --db sqlite:///agent.db store"
    command(group, "export", example=f"{db} export users/ada --prefix -o ada.jsonl")(export)
    command(group, "import", example=f"{db} import items.jsonl --skip")(import_)


async def export(
    at: Invocation,
    namespace: Annotated[
        str | None,
        typer.Argument(metavar="NAMESPACE", help="Its items; without it, all there are."),
    ] = None,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="Also what is below the namespace.")
    ] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="With the vectors, too.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Not stdout.")
    ] = None,
) -> None:
    """Write items as JSON lines.

    By namespace and key, as `store import` takes them. Values that JSON lacks are tagged, as
    {"~b": base64}. With -o a count is printed; the file appears when it is complete.
    """
    from memalchemy import Store
    from memalchemy.store.jsonl import export_items

    where = () if namespace is None else arguments.namespace(namespace)
    below = prefix or namespace is None
    async with at.database() as db:
        store = Store(db)
        with at.terminal.progress() as bar:
            task = bar.add_task("exporting", total=await store.count(where, prefix=below))

            async def shown() -> AsyncIterator[dict[str, Any]]:
                async for record in export_items(store, where, prefix=below, vectors=vectors):
                    yield record
                    bar.advance(task)

            count = await write_lines(shown(), output)
    if output is None:
        at.terminal.note(counted(count, "item"))
    elif at.as_json:
        at.terminal.document({"items": count, "file": str(output)})
    else:
        at.terminal.say(f"{counted(count, 'item')} in {output}")


async def import_(
    at: Invocation,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines; - is stdin.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write over items that are there.")
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave items that are there as they are.")
    ] = False,
) -> int:
    """Import items that `store export` wrote.

    Values come back with their types, metadata, vectors and what is left of their lifetime. A line
    that is no item is named with its number, and so is an item that is there and holds something
    else, without --overwrite or --skip; nothing of the batch of 500 lines that it is in is written,
    and the exit code is 4. Interrupted, run it again.
    """
    from memalchemy import Store
    from memalchemy.store.jsonl import STATUSES, OnConflict, import_items

    if overwrite and skip:
        raise UsageProblem("give --overwrite or --skip, not both")
    on_conflict: OnConflict = "overwrite" if overwrite else "skip" if skip else "error"
    counts: Counter[str] = Counter()
    problems: list[Problem] = []
    started = time.perf_counter()
    with opened(file) as source, at.terminal.progress() as bar:
        task = bar.add_task("importing", total=length(file))
        async with at.database(migrate="auto", create=True) as db:
            lines = Lines(source)
            async for batch in import_items(Store(db), lines, on_conflict=on_conflict):
                counts += batch.counts
                problems += batch.problems
                bar.update(task, completed=lines.bytes)
                for problem in batch.problems:
                    at.terminal.note(f"line {problem.line}{_place(problem)}: {problem.problem}")
    seconds = time.perf_counter() - started
    if at.as_json:
        at.terminal.document(
            {
                "items": {status: counts[status] for status in STATUSES},
                "seconds": round(seconds, 3),
                "problems": problems,
            }
        )
    else:
        told = ", ".join(f"{counts[status]:,} {status}" for status in STATUSES if counts[status])
        at.terminal.say(f"items: {told or 'none'}, in {seconds:.1f} s")
        if counts["left"]:
            at.terminal.note(
                f"{counts['left']:,} good lines were left: they stand in a batch with one of those "
                "above. Correct those and run it again."
            )
    return REFUSED if problems else OK


def _place(problem: Problem) -> str:
    if problem.namespace is None:
        return ""
    return f" ({problem.key} in {arguments.spelt(problem.namespace)})"

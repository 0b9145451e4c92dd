"""The command export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count
from memalchemy.cli.json_lines import is_stdout, write_json_lines
from memalchemy.cli.namespaces import thread_not_found
from memalchemy.cli.options import MetadataOption, OnlyNamespaceOption, OutputOption
from memalchemy.cli.parsers import parse_metadata, parse_namespace
from memalchemy.cli.thread_arguments import ThreadOption
from memalchemy.cli.usage_errors import UsageError, require_exactly_one


@command(
    "export",
    example="memalchemy --db sqlite:///agent.db export --thread airline-1 -o airline-1.jsonl",
)
async def export(
    ctx: Context,
    thread: ThreadOption = None,
    metadata: MetadataOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All threads of the tenant.")] = False,
    namespace: OnlyNamespaceOption = None,
    output: OutputOption = None,
    directory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write one readable JSON file each into a new DIR."),
    ] = None,
) -> None:
    """Export checkpoints and entries of logs as JSON lines.

    Writes what `forget` would erase, thread by thread, oldest first. Values that JSON lacks are
    tagged, such as {"~b": base64}. No command reads these lines again: `backup` and
    `copy` keep threads.
    """
    from memalchemy import Checkpointer

    require_exactly_one("--thread, --metadata or --all", thread, metadata, everything)
    if output and directory:
        raise UsageError("give --output or --directory, not both")
    selection: dict[str, Any] = {
        "tenant": ctx.tenant if everything else None,
        "metadata": parse_metadata(metadata),
        "all_namespaces": namespace is None,
    }
    parts = () if namespace is None else parse_namespace(namespace)
    async with ctx.database(read_only=True) as db:
        checkpointer = Checkpointer(db, namespace=parts)
        if thread is not None:
            thread = selection["thread_id"] = await find_thread(db, thread)
        if directory:
            if thread is not None and not await checkpointer.list_logs(
                thread, limit=1, below=namespace is None
            ):
                raise thread_not_found(thread, namespace)
            with ctx.terminal.progress("writing") as progress:
                records = await checkpointer.export_files(
                    directory, **selection, progress=progress.update
                )
        else:
            records = await write_json_lines(checkpointer.export(**selection), output)
    if thread is not None and not records:
        raise thread_not_found(thread, namespace)
    file = output or directory
    counted = count(records, "checkpoint or entry", "checkpoints and entries")
    if is_stdout(file):
        ctx.terminal.print_note(counted)
    elif ctx.as_data:
        ctx.terminal.print_data({"records": records, "file": str(file)})
    else:
        ctx.terminal.print(f"{counted} in {file}")

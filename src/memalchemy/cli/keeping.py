"""Commands that keep and erase: export, forget, delete, fork."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from memalchemy.cli import arguments
from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.exits import REFUSED, UsageProblem
from memalchemy.cli.looking import ThreadArgument
from memalchemy.cli.places import NamespaceOption, checkpointer_of
from memalchemy.cli.terminal import counted
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from memalchemy import Checkpointer, Database

MetadataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="KEY=VALUE",
        help="Threads with this metadata; may be repeated. A value that is JSON is that value.",
    ),
]
ThreadOption = Annotated[str | None, typer.Option("--thread", metavar="THREAD", help="One thread.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands to *app*."""
    db = "memalchemy --db sqlite:///agent.db"
    command(app, "export", example=f"{db} export --thread airline-1 -o airline-1.jsonl")(export)
    command(app, "forget", example=f"{db} forget --metadata customer=42", own_tenant=True)(forget)
    command(app, "delete", example=f"{db} delete airline-1 000007")(delete)
    command(app, "fork", example=f"{db} fork airline-1 000007 --to what-if")(fork)


async def export(
    at: Invocation,
    thread: ThreadOption = None,
    metadata: MetadataOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All of the tenant.")] = False,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAMESPACE", help="From this one only, not from all."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Not stdout.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="One readable JSON file per checkpoint, in a new DIR."),
    ] = None,
) -> None:
    """Write checkpoints, and entries, as JSON lines, or as files.

    Thread by thread, oldest first: without --namespace the same set that `forget` would erase.
    Values that JSON lacks are tagged, as {"~b": base64}. With -o a count is printed; the file
    appears when it is complete.
    """
    _one_of("--thread, --metadata or --all", thread, metadata, everything or None)
    if output and directory:
        raise UsageProblem("give --output or --directory, not both")
    selector: dict[str, Any] = {
        "tenant": at.tenant if everything else None,
        "thread_id": thread,
        "metadata": arguments.metadata(metadata),
        "all_namespaces": namespace is None,
    }
    where = () if namespace is None else arguments.namespace(namespace)
    missing = f"there is no thread {thread!r}" + (f" in namespace {namespace!r}" if where else "")
    count = 0
    async with at.database() as db:
        checkpointer = at.checkpointer(db, where)
        if thread and directory:
            there = await checkpointer.list_logs(thread, limit=1, below=namespace is None)
            if not there:
                raise NotFound(missing)
        if directory:
            count = await _write_files(at, checkpointer, directory, selector)
        else:
            count = await write_lines(checkpointer.export(**selector), output)
    if thread and not count:
        raise NotFound(missing)
    output = output or directory
    if output is None:
        at.terminal.note(counted(count, "checkpoint or entry", "checkpoints and entries"))
    elif at.as_json:
        at.terminal.document({"records": count, "file": str(output)})
    else:
        at.terminal.say(
            f"{counted(count, 'checkpoint or entry', 'checkpoints and entries')} in {output}"
        )


async def _write_files(
    at: Invocation, checkpointer: Checkpointer, directory: Path, selector: dict[str, Any]
) -> int:
    with at.terminal.progress() as bar:
        task = bar.add_task("writing", total=None)
        return await checkpointer.export_files(
            directory, **selector, progress=lambda done: bar.update(task, completed=done)
        )


async def forget(
    at: Invocation,
    thread: ThreadOption = None,
    metadata: MetadataOption = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="TENANT", help="Everything of a tenant, items too."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int | None:
    """Erase a thread, or a tenant, without a trace.

    All logs of a thread, of the threads with some metadata, or of a tenant; a store's items go with
    their metadata or their tenant. To erase a thread of
    another tenant than the default, name the tenant before the command: memalchemy --tenant acme
    forget --thread t
    """
    _one_of(
        "--thread, --metadata or --tenant (a thread's tenant goes before forget)",
        thread,
        metadata,
        tenant,
    )
    selector: dict[str, Any] = {
        "tenant": tenant,
        "thread_id": thread,
        "metadata": arguments.metadata(metadata),
    }
    async with at.database() as opened:
        db = opened if tenant is None else opened.for_tenant(tenant)
        checkpointer = at.checkpointer(db)
        if not yes:
            count = await _without_effect(
                db, lambda connection: checkpointer.forget(**selector, connection=connection)
            )
            whose = _named(at, selector)
            if count and not at.terminal.confirm(
                f"Erase {count:,} checkpoints, entries and items of {whose}? This cannot be undone."
            ):
                at.terminal.note("nothing was erased")
                return REFUSED
        erased = await checkpointer.forget(**selector)
    if not erased:
        raise NotFound(f"nothing was there to erase of {_named(at, selector)}")
    if at.as_json:
        at.terminal.document({"erased": erased})
    else:
        at.terminal.say(f"{erased:,} checkpoints, entries and items erased")
    return None


async def delete(
    at: Invocation,
    thread: ThreadArgument,
    checkpoint: Annotated[
        str | None, typer.Argument(metavar="CHECKPOINT", help="Only this one.")
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", metavar="NAMESPACE", help="Only what the thread has in this one."
        ),
    ] = None,
) -> None:
    """Delete a thread, or one checkpoint.

    Without --namespace a thread goes with all its logs, whatever keeps them. What others build on
    stays readable to them.
    """
    async with at.database() as db:
        if checkpoint is not None:
            checkpointer = await checkpointer_of(at, db, thread, namespace)
        else:
            where = () if namespace is None else arguments.namespace(namespace)
            checkpointer = at.checkpointer(db, where)
        deleted = await checkpointer.delete(thread, checkpoint, all_namespaces=namespace is None)
    if not deleted:
        what = f"checkpoint {checkpoint!r} in thread" if checkpoint else "thread"
        place = "" if namespace is None else f" in namespace {namespace!r}"
        raise NotFound(f"there is no {what} {thread!r}{place}")
    if at.as_json:
        at.terminal.document({"deleted": True, "thread_id": thread, "checkpoint_id": checkpoint})
    else:
        at.terminal.say(f"deleted {f'{checkpoint} of ' if checkpoint else ''}{thread}")


async def fork(
    at: Invocation,
    thread: ThreadArgument,
    checkpoint: Annotated[
        str | None, typer.Argument(metavar="CHECKPOINT", help="The last to copy, not the newest.")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="THREAD", help="The new thread's id.")] = None,
    namespace: NamespaceOption = None,
) -> None:
    """Copy a thread into a new one.

    Up to the checkpoint that is named, or all of it, in the same namespace; prints the new thread's
    id.
    """
    async with at.database() as db:
        checkpointer = await checkpointer_of(at, db, thread, namespace)
        with asking_for_sense():
            new = await checkpointer.fork(thread, checkpoint, new_thread_id=to)
    if at.as_json:
        at.terminal.document({"thread_id": new, "from_thread_id": thread})
    else:
        at.terminal.say(new)


class _Undone(Exception):
    """Ends a transaction so that it rolls back."""


async def _without_effect(
    db: Database, work: Callable[[AsyncConnection | None], Awaitable[int]]
) -> int:
    """What *work* returns, done in a transaction that is rolled back: exact, and nothing stays."""
    result = 0
    try:
        async with db.transaction() as connection:
            result = await work(connection)
            raise _Undone
    except _Undone:
        return result


async def write_lines(records: AsyncIterator[dict[str, Any]], output: Path | None) -> int:
    """Write *records* as JSON lines, and return how many; a file appears when it is complete."""
    unfinished = output and output.with_name(f".{output.name}.{os.getpid()}.part")
    count = 0
    try:
        with _opened(unfinished) as file:
            async for record in records:
                file.write(_line(record))
                count += 1
            file.flush()
        if unfinished and output:
            unfinished.replace(output)
    finally:
        if unfinished:
            unfinished.unlink(missing_ok=True)
    return count


def _line(record: dict[str, Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate in an id; JSON has an escape for it, UTF-8 has no bytes
        return json.dumps(record, default=lambda value: value.isoformat()).encode() + b"\n"


def _opened(path: Path | None) -> AbstractContextManager[BinaryIO]:
    if path is None:
        return nullcontext(sys.stdout.buffer)
    try:
        return path.open("wb")
    except OSError as error:
        raise UsageProblem(f"cannot write beside {path}: {error.strerror}") from error


def _one_of(names: str, *given: object) -> None:
    if sum(bool(one) for one in given) != 1:
        raise UsageProblem(f"give exactly one of {names}")


def _named(at: Invocation, selector: dict[str, Any]) -> str:
    if selector["tenant"]:
        return f"tenant {selector['tenant']!r}, in all its threads"
    if selector["thread_id"]:
        return f"thread {selector['thread_id']!r} of tenant {at.tenant!r}"
    return f"every thread with metadata {selector['metadata']} of tenant {at.tenant!r}"

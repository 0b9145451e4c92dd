"""The command show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import find_checkpoint, find_entry, find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, format_time
from memalchemy.cli.namespaces import find_log
from memalchemy.cli.options import CHECKPOINT_FORMS, FullOption, LimitOption, ThreadNamespaceOption
from memalchemy.cli.thread_arguments import ThreadArgument
from memalchemy.cli.transcript import TABLE, TranscriptPrinter, table_rows
from memalchemy.cli.usage_errors import UsageError
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Database


@command("show", example="memalchemy --db sqlite:///agent.db show airline-1 --at latest~2")
async def show(
    ctx: Context,
    thread: ThreadArgument,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="CHECKPOINT", help=f"Not the newest, but: {CHECKPOINT_FORMS}."
        ),
    ] = None,
    namespace: ThreadNamespaceOption = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Print messages, or fail if there are none.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the state, or the entries, as JSON.")
    ] = False,
    limit: LimitOption = 100,
    before: Annotated[
        int | None, typer.Option(min=0, metavar="INDEX", help="Only messages before this one.")
    ] = None,
    full: FullOption = False,
) -> None:
    """Print the messages of a thread.

    Prints those of the newest state or of the one that --at names, or the entries of a conversation
    up to there. A state without messages, and with --raw any state, is printed as JSON: bytes
    become base64, sets become lists. `export` keeps their types.
    """
    from memalchemy import Checkpointer, ThreadLog
    from memalchemy.inspection import Inspector

    if raw and messages:
        raise UsageError("give --raw or --messages, not both")
    async with ctx.database(read_only=True) as db:
        thread = await find_thread(db, thread)
        place, has_steps = await find_log(ctx, db, thread, namespace)
        checkpoint: str | None = None
        if has_steps and at is not None:
            checkpoint = await find_checkpoint(Checkpointer(db, namespace=place), thread, at)
        elif at is not None:
            end = await find_entry(ThreadLog(db, namespace=place), thread, at) + 1
            before = end if before is None else min(before, end)
        page: dict[str, Any] | None = None
        waiting: list[dict[str, Any]] = []
        if not raw:
            inspector = Inspector(db)
            page = await inspector.transcript(
                thread, place, at=checkpoint, before=before, limit=limit, whole=True
            )
            if page["at"] is not None:
                waiting = await inspector.interrupts(thread, place, at=page["at"])
        if page is None or not (messages or page["source"] != "none"):
            await _print_raw(ctx, db, thread, place, checkpoint, has_steps, limit, before)
            if not ctx.as_data:
                TranscriptPrinter(ctx.terminal, full=full).print_waiting(waiting)
            return
        info = None if page["at"] is None else await _require_info(db, thread, place, page["at"])
    _check_messages(page, thread, forced=messages)
    if ctx.as_data:
        shared = {"thread_id": thread, "namespace": place, "checkpoint_id": page["at"]}
        ctx.terminal.print_data([shared | message for message in page["messages"]])
    elif ctx.options.table_style is not None:
        ctx.terminal.print_table(TABLE, table_rows(page["messages"]))
    else:
        printer = TranscriptPrinter(ctx.terminal, full=full)
        for message in page["messages"]:
            printer.print_message(message)
        printer.print_waiting(waiting)
        if printer.folded:
            ctx.terminal.print_note(f"{count(printer.folded, 'text')} folded; --full shows all")
    _print_summary(ctx, page, info)


def _check_messages(page: dict[str, Any], thread: str, *, forced: bool) -> None:
    """Raise `NotFound` if messages are wanted and there are none."""
    if not forced or any(one["role"] for one in page["messages"]):
        return
    if page["source"] == "none":
        where = f"checkpoint {page['at']} of thread {thread!r}"
        raise NotFound(f"{where} holds no messages; --raw prints its state")
    raise NotFound(
        f"none of the {count(len(page['messages']), 'entry', 'entries')} shown of thread "
        f"{thread!r} is a message; --raw prints them"
    )


def _print_summary(ctx: Context, page: dict[str, Any], info: Any) -> None:
    """Print on stderr how many messages there are, and how to see the others."""
    shown = page["messages"]
    what = "message" if page["source"] == "state" else "entry"
    total = count(page["total"], what, f"{what}s" if what == "message" else "entries")
    if info is not None:
        moment = format_time(info["occurred_at"])
        total += f"; checkpoint {info['checkpoint_id']}, happened at {moment} UTC"
    ctx.terminal.print_note(total)
    if page["previous"] is not None:
        ctx.terminal.print_note(
            f"only {len(shown):,} of them; --limit shows more, --before {shown[0]['index']} shows "
            "earlier ones"
        )


async def _require_info(
    db: Database, thread: str, place: tuple[str, ...], checkpoint: str | None
) -> Any:
    from memalchemy import Checkpointer

    info = await Checkpointer(db, namespace=place).get_metadata(thread, checkpoint)
    if info is None:
        wanted = "checkpoint" if checkpoint is None else f"checkpoint {checkpoint!r}"
        raise NotFound(
            f"there is no {wanted} in thread {thread!r}; `memalchemy history` lists them"
        )
    return info


async def _print_raw(
    ctx: Context,
    db: Database,
    thread: str,
    place: tuple[str, ...],
    checkpoint: str | None,
    has_steps: bool,
    limit: int,
    before: int | None,
) -> None:
    """Print a state, or entries of a log, as they are stored."""
    from memalchemy import Checkpointer, ThreadLog

    document: Any
    if not has_steps:
        found = await ThreadLog(db, namespace=place).tail(thread, limit, before=before)
        document = [
            {
                "position": entry.position,
                "key": entry.key,
                "occurred_at": entry.occurred_at,
                "stored_at": entry.stored_at,
                "value": entry.value,
            }
            for entry in found
        ]
    else:
        info = await _require_info(db, thread, place, checkpoint)
        state = await Checkpointer(db, namespace=place).load(thread, info["checkpoint_id"])
        document = info | {"namespace": place, "state": state} if ctx.as_data else state
    if ctx.as_data:
        ctx.terminal.print_data(document)
    else:
        ctx.terminal.print_json(document)
    if not has_steps and len(found) == limit:
        ctx.terminal.print_note(
            f"only {limit:,} entries; --limit shows more, --before {found[0].position} shows "
            "earlier ones"
        )

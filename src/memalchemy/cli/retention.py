"""Commands that let go and give back: prune and vacuum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli import arguments
from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.exits import UsageProblem
from memalchemy.cli.places import NamespaceOption, checkpointer_of
from memalchemy.cli.terminal import counted, size

if TYPE_CHECKING:
    from memalchemy.contracts import Progress
    from memalchemy.space import Reclaimed


def register(app: typer.Typer) -> None:
    """Add this file's commands to *app*."""
    db = "memalchemy --db sqlite:///agent.db"
    command(app, "prune", example=f"{db} prune --all --keep-last 20 --older-than 30d")(prune)
    command(app, "vacuum", example=f"{db} vacuum --older-than-days 90")(vacuum)


async def prune(
    at: Invocation,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="The thread, or --all.")
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the newest so many.")
    ] = None,
    keep_every: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep every n-th that was saved.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Keep what happened since: 30d, 12h, 90m.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All threads of the tenant, in all namespaces.")
    ] = False,
    namespace: NamespaceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would go; change nothing.")
    ] = False,
) -> None:
    """Delete checkpoints by rules.

    Those go that every given rule lets go. A thread's newest always stays. Works in short
    transactions and passes over threads that are being saved into. Interrupted, run it again.
    """
    if bool(thread) == everything:
        raise UsageProblem("give exactly one of THREAD or --all")
    age = None if older_than is None else arguments.duration(older_than)
    async with at.database() as db:
        if thread:
            checkpointer = await checkpointer_of(at, db, thread, namespace)
        else:
            where = () if namespace is None else arguments.namespace(namespace)
            checkpointer = at.checkpointer(db, where)
        with asking_for_sense(), _watched(at, "pruning", "deleted") as (tell, last):
            pruned = await checkpointer.prune(
                thread,
                keep_last=keep_last,
                keep_every=keep_every,
                older_than=age,
                all_namespaces=everything and namespace is None,
                dry_run=dry_run,
                progress=tell,
            )
    if at.as_json:
        at.terminal.document({"pruned": pruned, "dry_run": dry_run, "busy": last["busy"]})
    else:
        verb = "would be deleted" if dry_run else "deleted"
        at.terminal.say(f"{counted(pruned, 'checkpoint')} {verb}")


async def vacuum(
    at: Invocation,
    older_than_days: Annotated[
        float | None,
        typer.Option(min=0, metavar="DAYS", help="Delete threads that were idle so long, too."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Rewrite everything: gives back most, locks meanwhile.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would go; change nothing.")
    ] = False,
) -> None:
    """Remove what is over, and give its space back.

    Expired threads and old tombstones of the tenant; with --older-than-days also threads that were
    not saved for so long, which deletes data. Then the space of everything that was ever deleted
    goes back to the file system, as far as the database and the role allow; what is left to do by
    hand is printed with its commands.
    """
    from memalchemy import space

    done: Reclaimed | None = None
    async with at.database() as db:
        with asking_for_sense(), _watched(at, "removing", "removed") as (tell, last):
            removed = await at.checkpointer(db).vacuum(
                older_than_days, all_namespaces=True, dry_run=dry_run, progress=tell
            )
        if not dry_run:
            with _watched(at, "giving back", None) as (tell, _):
                done = await space.reclaim(db, full=full, progress=tell)
    if at.as_json:
        at.terminal.document(
            {"removed": removed, "dry_run": dry_run, "busy": last["busy"]}
            | {"before_bytes": done and done.before, "after_bytes": done and done.after}
            | {"advice": [_advice(one) for one in done.advice] if done else []}
        )
        return
    verb = "would be removed" if dry_run else "removed"
    at.terminal.say(f"{counted(removed, 'checkpoint or entry', 'checkpoints and entries')} {verb}")
    if done is not None:
        _report(at, done)


def _report(at: Invocation, done: Reclaimed) -> None:
    if done.before is not None and done.after is not None:
        given = done.before - done.after
        at.terminal.say(
            f"{size(done.before)} before, {size(done.after)} after: {size(max(given, 0))} given "
            "back"
        )
    for one in done.advice:
        at.terminal.say(f"\n{one.reason}")
        for line in one.commands:
            at.terminal.say(f"  {line}")


def _advice(one: Any) -> dict[str, Any]:
    known = {"table": one.table, "dead_rows": one.dead}
    return {"reason": one.reason, "commands": list(one.commands)} | known


@contextmanager
def _watched(
    at: Invocation, doing: str, done: str | None
) -> Iterator[tuple[Callable[[Progress], None], dict[str, int]]]:
    """A progress bar, and what it showed last; says what was done if the command is interrupted,
    and what was left because somebody was writing to it.
    """
    last = {"removed": 0, "busy": 0}
    with at.terminal.progress() as bar:
        task = bar.add_task(doing, total=None)

        def tell(progress: Progress) -> None:
            last.update(removed=progress.removed, busy=progress.busy)
            bar.update(task, completed=progress.done, total=progress.total)

        try:
            yield tell, last
        except BaseException:
            if done and last["removed"]:
                at.terminal.note(
                    f"{counted(last['removed'], 'checkpoint')} {done} so far; run it again to go on"
                )
            raise
    if last["busy"]:
        at.terminal.note(
            f"{last['busy']:,} threads were being written to and were left as they are; run it "
            "again for them"
        )

"""The command import: threads from a file, or from the tables of a framework."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import asdict
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import OK, REFUSED
from memalchemy.cli.formatting import count, format_size
from memalchemy.cli.json_lines import LineReader, input_size, open_input
from memalchemy.cli.usage_errors import UsageError, usage_errors
from memalchemy.errors import DriverMissing
from memalchemy.importers.sources import SOURCES

if TYPE_CHECKING:
    from memalchemy import Database
    from memalchemy.importers.openai_agents import BranchOutcome
    from memalchemy.importers.target import ImportOutcome as RecordOutcome

FRAMEWORKS = ("langgraph", "openai-agents", *SOURCES)
"""Frameworks whose storage ``--from`` reads; a file of that name is written ``./langgraph``."""

STATUSES = ("imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad")


class OnConflict(StrEnum):
    """The treatment of a thread that exists and holds something else."""

    ERROR = "error"
    SKIP = "skip"
    REPLACE = "replace"


@command("import", example="memalchemy --db sqlite:///agent.db import threads.jsonl --prefix 2024/")
async def import_(
    ctx: Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help=f"JSON lines; - reads stdin. With --from: {', '.join(FRAMEWORKS)}.",
        ),
    ],
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Put before every thread id.")] = "",
    on_conflict: Annotated[
        OnConflict, typer.Option(help="For a thread that exists with other content.")
    ] = OnConflict.ERROR,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="URL or path of the framework's storage."),
    ] = None,
    from_schema: Annotated[
        str | None, typer.Option(metavar="NAME", help="Schema of those tables.")
    ] = None,
    messages_table: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Table of openai-agents' messages. [default: agent_messages]",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --from: only report what would be imported.")
    ] = False,
) -> int:
    """Import threads from a file, or from a framework's tables.

    FILE has one thread in OpenAI's format per line, {"thread_id": …, "messages": […]}. Each message
    becomes a checkpoint; other fields become metadata. Bad lines and conflicts are reported and
    skipped, and the exit code is 4. If the import is interrupted, run it again.

    `import NAME --from PLACE` imports what another library has stored in its own tables or files,
    such as `import langgraph --from agent.db` or `import claude-code --from ~/.claude/projects`.
    Everything is read back and compared. Run it again later to import what is new.
    """
    if source not in FRAMEWORKS:
        if from_ is not None or dry_run:
            raise UsageError(
                f"there is no importer called {source}{_meant(source)}, and a file takes neither "
                f"--from nor --dry-run; the importers are {', '.join(FRAMEWORKS)}"
            )
        _refuse_misspelt(source)
        return await _import_file(ctx, source, prefix, on_conflict)
    if from_ is None:
        raise UsageError(
            f"give --from PLACE, the URL of the database, or the path of the file or directory, in "
            f"which {source} has its data"
        )
    if source == "openai-agents":
        return await _import_openai_agents(
            ctx, from_, from_schema, messages_table, prefix, on_conflict, dry_run=dry_run
        )
    if messages_table is not None:
        raise UsageError("--messages-table goes with openai-agents")
    if source == "langgraph":
        return await _import_langgraph(
            ctx, from_, from_schema, prefix, on_conflict, dry_run=dry_run
        )
    return await _import_records(
        ctx, source, from_, from_schema, prefix, on_conflict, dry_run=dry_run
    )


def _refuse_misspelt(file: str) -> None:
    """Refuse a file that is not there if an importer has nearly its name."""
    if not Path(file).exists() and (meant := _meant(file)):
        raise UsageError(
            f"there is no file {file}{meant}; the importers of frameworks take --from PLACE"
        )


def _meant(source: str) -> str:
    """Return the question for an importer whose name is nearly *source*; empty without one."""
    spelt = source.lower().replace("_", "-")
    known = {name.replace("_", "-"): name for name in FRAMEWORKS}
    near = get_close_matches(spelt, known, 1, 0.75)
    return f" (did you mean {known[near[0]]}?)" if near else ""


def _open_target(ctx: Context, *, dry_run: bool) -> AbstractAsyncContextManager[Database]:
    """Open the database to import into; a dry run creates no file."""
    from memalchemy import Database

    if dry_run and (file := ctx.sqlite_file) is not None and not file.exists():
        return Database("sqlite://")  # in memory, and as empty as the file would be
    return ctx.database(migrate="check" if dry_run else "auto", create=True)


async def _import_file(ctx: Context, file: str, prefix: str, on_conflict: OnConflict) -> int:
    from memalchemy import Checkpointer
    from memalchemy.importers.openai_chat import import_threads

    counts: Counter[str] = Counter()
    checkpoints = raw_bytes = stored_bytes = 0
    problems: list[dict[str, Any]] = []
    started = time.perf_counter()
    with (
        open_input(file) as opened,
        ctx.terminal.progress("importing", input_size(file)) as progress,
    ):
        async with ctx.database(migrate="auto", create=True) as db:
            lines = LineReader(opened)
            async for outcome in import_threads(
                Checkpointer(db), lines, prefix=prefix, on_conflict=on_conflict.value
            ):
                counts[outcome.status] += 1
                checkpoints += outcome.checkpoints
                raw_bytes += outcome.raw_bytes
                stored_bytes += outcome.stored_bytes
                progress.update(lines.bytes)
                if outcome.problem:
                    problems.append(
                        {
                            "line": outcome.line,
                            "thread_id": outcome.thread_id,
                            "problem": outcome.problem,
                        }
                    )
                    thread = "" if outcome.thread_id is None else f" ({outcome.thread_id})"
                    ctx.terminal.print_note(f"line {outcome.line}{thread}: {outcome.problem}")
    seconds = time.perf_counter() - started
    if ctx.as_data:
        ctx.terminal.print_data(
            {
                "threads": {status: counts[status] for status in STATUSES},
                "checkpoints": checkpoints,
                "raw_bytes": raw_bytes,
                "stored_bytes": stored_bytes,
                "seconds": round(seconds, 3),
                "problems": problems,
            }
        )
    else:
        ctx.terminal.print(
            f"threads: {_format_statuses(counts)}; {count(checkpoints, 'checkpoint')} written "
            f"in {seconds:.1f} s"
        )
        if stored_bytes:
            ctx.terminal.print(
                f"full size of their states: {format_size(raw_bytes)}; stored size: "
                f"{format_size(stored_bytes)}"
            )
        if not counts:
            ctx.terminal.print_note("the file has no lines")
    if counts["conflict"]:
        _print_way_out(ctx, on_conflict)
    return REFUSED if counts["bad"] or counts["conflict"] else OK


async def _import_langgraph(
    ctx: Context,
    url: str,
    schema: str | None,
    prefix: str,
    on_conflict: OnConflict,
    *,
    dry_run: bool,
) -> int:
    try:
        from memalchemy.integrations.langgraph.importing import ImportReport, import_langgraph
    except ImportError as error:
        raise DriverMissing("langgraph-checkpoint", "langgraph", what="package") from error

    started = time.perf_counter()
    with ctx.terminal.progress("comparing" if dry_run else "importing") as progress:
        reported: Counter[str] = Counter()

        def show(report: ImportReport) -> None:
            progress.update(report.done, report.checkpoints + report.items)
            for kind, problems in (("problem", report.problems), ("skipped", report.skipped)):
                for problem in problems[reported[kind] :]:
                    ctx.terminal.print_note(problem)
                reported[kind] = len(problems)

        async with _open_target(ctx, dry_run=dry_run) as db:
            with usage_errors():
                report = await import_langgraph(
                    url,
                    db,
                    schema=schema,
                    prefix=prefix,
                    on_conflict=on_conflict.value,
                    dry_run=dry_run,
                    progress=show,
                )
    seconds = time.perf_counter() - started
    if ctx.as_data:
        ctx.terminal.print_data(
            {"dry_run": dry_run, **asdict(report), "seconds": round(seconds, 3)}
        )
    else:
        ctx.terminal.print(
            f"{count(report.threads, 'thread')}: "
            f"{_format_statuses(Counter(report.thread_statuses))}"
        )
        checkpoints = _format_counts(
            new=report.new_checkpoints,
            unchanged=report.unchanged_checkpoints,
            in_conflict=report.conflicting_checkpoints,
            bad=report.bad_checkpoints,
        )
        ctx.terminal.print(
            f"{count(report.checkpoints, 'checkpoint')}: {checkpoints}; "
            f"{count(report.writes, 'new pending write')}"
        )
        items = _format_counts(
            new=report.new_items,
            unchanged=report.unchanged_items,
            in_conflict=report.conflicting_items,
            bad=report.bad_items,
            expired_and_left=report.expired,
        )
        ctx.terminal.print(
            f"{count(report.items, 'item')}: {items}; {count(report.vectors, 'new vector')}"
        )
        done = "would be written" if dry_run else "written, read back and compared"
        ctx.terminal.print(f"what is new {done} in {seconds:.1f} s")
        if report.classes:
            names = ", ".join(f"{module}.{name}" for module, name in report.classes)
            ctx.terminal.print_note(
                f"the threads hold objects of {names}. To let the data name no other classes: "
                f"MemalchemySaver(…, {report.allow_list()})"
            )
        if not report.checkpoints and not report.items:
            _print_nothing_found(ctx, "langgraph")
    if report.conflicting_checkpoints or report.conflicting_items:
        _print_way_out(ctx, on_conflict)
    return REFUSED if report.problems else OK


async def _import_openai_agents(
    ctx: Context,
    url: str,
    schema: str | None,
    messages_table: str | None,
    prefix: str,
    on_conflict: OnConflict,
    *,
    dry_run: bool,
) -> int:
    from memalchemy.importers.openai_agents import MESSAGES, count_sessions, import_sessions

    keyless: dict[str, Any] = {"keys_file": None, "signing_keys_file": None, "readable": None}
    source = ctx.with_options(db=url, schema=schema, **keyless)
    table = messages_table or MESSAGES
    outcomes: list[BranchOutcome] = []
    sessions: set[str] = set()
    started = time.perf_counter()
    with ctx.terminal.progress("comparing" if dry_run else "importing") as progress:
        async with (
            source.database(migrate="off") as source_db,
            _open_target(ctx, dry_run=dry_run) as target_db,
        ):
            total = await count_sessions(source_db, messages_table=table)
            with usage_errors():
                async for outcome in import_sessions(
                    source_db,
                    target_db,
                    messages_table=table,
                    prefix=prefix,
                    on_conflict=on_conflict.value,
                    dry_run=dry_run,
                ):
                    outcomes.append(outcome)
                    sessions.add(outcome.session_id)
                    progress.update(len(sessions), total)
                    _print_outcome_problems(ctx, outcome)
    seconds = time.perf_counter() - started
    counts: Counter[str] = Counter(outcome.status for outcome in outcomes)
    items = sum(outcome.items for outcome in outcomes)
    unreadable = sum(outcome.unreadable for outcome in outcomes)
    if ctx.as_data:
        ctx.terminal.print_data(
            {
                "dry_run": dry_run,
                "sessions": len(sessions),
                "branches": {status: counts[status] for status in STATUSES},
                "items": items,
                "unreadable": unreadable,
                "seconds": round(seconds, 3),
                "problems": [
                    {
                        "session_id": outcome.session_id,
                        "branch": outcome.branch,
                        "unreadable": outcome.unreadable,
                        "left_out": outcome.left_out,
                        "problem": outcome.problem,
                    }
                    for outcome in outcomes
                    if outcome.problem or outcome.unreadable
                ],
            }
        )
    else:
        branches = count(len(outcomes), "branch", "branches")
        ctx.terminal.print(
            f"{count(len(sessions), 'session')}, {branches}: {_format_statuses(counts)}"
        )
        done = "would be written" if dry_run else "written, read back and compared"
        ctx.terminal.print(f"{count(items, 'item')} {done} in {seconds:.1f} s")
        if not outcomes:
            _print_nothing_found(ctx, "openai-agents")
    if counts["conflict"]:
        _print_way_out(ctx, on_conflict)
    return REFUSED if counts["bad"] or counts["conflict"] or unreadable else OK


async def _import_records(
    ctx: Context,
    name: str,
    place: str,
    schema: str | None,
    prefix: str,
    on_conflict: OnConflict,
    *,
    dry_run: bool,
) -> int:
    from memalchemy.importers.target import ImportTarget

    source = SOURCES[name]
    outcomes: list[RecordOutcome] = []
    started = time.perf_counter()
    with ctx.terminal.progress("comparing" if dry_run else "importing") as progress:
        total = await source.count(place, schema=schema)
        async with _open_target(ctx, dry_run=dry_run) as db:
            target = ImportTarget(db, prefix=prefix, on_conflict=on_conflict.value, dry_run=dry_run)
            async with target, aclosing(source.read(place, schema=schema)) as records:
                with usage_errors():
                    async for record in records:
                        outcomes.append(await target.write(record))
                        progress.update(len(outcomes), total)
                        _print_record_problems(ctx, outcomes[-1])
    _print_records(ctx, name, outcomes, time.perf_counter() - started, dry_run=dry_run)
    counts = Counter(outcome.status for outcome in outcomes)
    unreadable = sum(outcome.unreadable for outcome in outcomes)
    if counts["conflict"]:
        _print_way_out(ctx, on_conflict)
    return REFUSED if counts["bad"] or counts["conflict"] or unreadable else OK


def _print_records(
    ctx: Context,
    name: str,
    outcomes: Sequence[RecordOutcome],
    seconds: float,
    *,
    dry_run: bool,
) -> None:
    counts: Counter[str] = Counter(outcome.status for outcome in outcomes)
    written = sum(outcome.written for outcome in outcomes)
    if ctx.as_data:
        ctx.terminal.print_data(
            {
                "dry_run": dry_run,
                "records": {status: counts[status] for status in STATUSES},
                "written": written,
                "unreadable": sum(outcome.unreadable for outcome in outcomes),
                "seconds": round(seconds, 3),
                "problems": [
                    asdict(outcome) for outcome in outcomes if outcome.problem or outcome.unreadable
                ],
            }
        )
        return
    ctx.terminal.print(f"{count(len(outcomes), 'record')}: {_format_statuses(counts)}")
    done = "would be written" if dry_run else "written, read back and compared"
    ctx.terminal.print(
        f"{count(written, 'entry, checkpoint or item', 'entries, checkpoints and items')} "
        f"{done} in {seconds:.1f} s"
    )
    if not outcomes:
        _print_nothing_found(ctx, name)


def _print_outcome_problems(ctx: Context, outcome: BranchOutcome) -> None:
    name = f"session {outcome.session_id}"
    if outcome.branch != "main":
        name += f", branch {outcome.branch}"
    if outcome.problem:
        ctx.terminal.print_note(f"{name}: {outcome.problem}")
    if outcome.unreadable and outcome.status != "bad":
        rows = count(outcome.unreadable, "row")
        is_other = not all(one.endswith("is not JSON") for one in outcome.left_out)
        reason = "not readable" if is_other else "not JSON"
        ctx.terminal.print_note(f"{name}: {rows} left out, {reason}")
    _print_left_out(ctx, name, outcome.left_out)


def _print_record_problems(ctx: Context, outcome: RecordOutcome) -> None:
    if outcome.problem:
        ctx.terminal.print_note(f"{outcome.name}: {outcome.problem}")
    if outcome.unreadable and outcome.status != "bad":
        left = count(outcome.unreadable, "part")
        ctx.terminal.print_note(f"{outcome.name}: {left} left out, {outcome.reason}")
    _print_left_out(ctx, outcome.name, outcome.left_out)


def _print_left_out(ctx: Context, name: str, left_out: Sequence[str]) -> None:
    """Name what a record has that nobody can read or store, each with the reason."""
    for one in left_out:
        ctx.terminal.print_note(f"{name}: left out: {one}")


def _print_nothing_found(ctx: Context, framework: str) -> None:
    ctx.terminal.print_note(
        f"{framework} has stored nothing there: does --from name the place that it writes to?"
    )


def _print_way_out(ctx: Context, on_conflict: OnConflict) -> None:
    """Say what can be done about conflicts that were left as they are."""
    if on_conflict is OnConflict.ERROR:
        ctx.terminal.print_note(
            "what is in conflict stays as it is here, and the rest is imported: to replace it, "
            "give --on-conflict replace; to import it beside, --prefix TEXT"
        )


def _format_counts(*, new: int, unchanged: int, **others: int) -> str:
    """Return the parts of a sum; those of *others* that are 0 are left out."""
    found = [f"{new:,} new", f"{unchanged:,} unchanged"]
    found += [f"{number:,} {name.replace('_', ' ')}" for name, number in others.items() if number]
    return ", ".join(found)


def _format_statuses(counts: Counter[str]) -> str:
    found = [f"{counts[status]:,} {status}" for status in STATUSES if counts[status]]
    return ", ".join(found) or "none"

"""The import command."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from memalchemy.cli import ctrl_c
from memalchemy.cli.command import Invocation, command
from memalchemy.cli.exits import OK, REFUSED, UsageProblem
from memalchemy.cli.importing_langgraph import import_langgraph
from memalchemy.cli.importing_openai_agents import import_openai_agents
from memalchemy.cli.terminal import counted, size

FRAMEWORKS = ("langgraph", "openai-agents")
"""Whose tables are read with ``--from``; a file of that name is ``./openai-agents``."""


class OnConflict(StrEnum):
    """What to do about a thread that exists and holds something else."""

    ERROR = "error"
    SKIP = "skip"
    REPLACE = "replace"


def register(app: typer.Typer) -> None:
    """Add this file's command to *app*."""
    example = "memalchemy --db sqlite:///agent.db import threads.jsonl --prefix 2024/"
    command(app, "import", example=example)(import_)


async def import_(
    at: Invocation,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="JSON lines; - is stdin. With --from a framework whose tables are read: "
            "langgraph, openai-agents.",
        ),
    ],
    prefix: Annotated[str, typer.Option(help="Put before every thread id.")] = "",
    on_conflict: Annotated[
        OnConflict,
        typer.Option(help="What to do about a thread that exists and holds something else."),
    ] = OnConflict.ERROR,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="The database of a framework's own tables."),
    ] = None,
    from_schema: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --from: the schema of those tables.")
    ] = None,
    messages_table: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With openai-agents: the table. [default: agent_messages]"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --from: only say what would be imported.")
    ] = False,
) -> int:
    """Import threads in OpenAI's format, or a framework's tables.

    One JSON object a line, one checkpoint for each message. A line is {"thread_id": …, "messages":
    […]}; other fields become metadata. Lines that are no such thread, and conflicts, are named and
    passed over; then the exit code is 4. An import that was interrupted goes on where it stopped
    when it is run again.

    `import openai-agents --from URL` brings the sessions of the OpenAI Agents SDK over, every item
    read back and compared; run again later it brings what came since. `import langgraph --from URL`
    does so with the threads and the store of LangGraph's own savers and stores.
    """
    if file in FRAMEWORKS:
        if from_ is None:
            raise UsageProblem(f"give --from URL, the database with the tables of {file}")
        if file == "langgraph":
            if on_conflict is OnConflict.REPLACE or messages_table is not None:
                raise UsageProblem("langgraph takes neither --on-conflict replace nor a table")
            return await import_langgraph(at, from_, from_schema, prefix, dry_run)
        return await import_openai_agents(
            at, from_, from_schema, messages_table, prefix, on_conflict.value, dry_run
        )
    if from_ is not None or dry_run:
        raise UsageProblem(f"--from and --dry-run go with {', '.join(FRAMEWORKS)}, not with a file")
    from memalchemy.importers.openai_chat import import_threads

    counts: Counter[str] = Counter()
    checkpoints = raw_bytes = stored_bytes = 0
    problems = []
    started = time.perf_counter()
    with opened(file) as lines, at.terminal.progress() as bar:
        task = bar.add_task("importing", total=length(file))
        async with at.database(migrate="auto", create=True) as db:
            read = Lines(lines)
            outcomes = import_threads(
                at.checkpointer(db), read, prefix=prefix, on_conflict=on_conflict.value
            )
            async for outcome in outcomes:
                counts[outcome.status] += 1
                checkpoints += outcome.checkpoints
                raw_bytes += outcome.raw_bytes
                stored_bytes += outcome.stored_bytes
                bar.update(task, completed=read.bytes)
                if outcome.problem:
                    problems.append(outcome)
                    where = f" ({outcome.thread_id})" if outcome.thread_id is not None else ""
                    at.terminal.note(f"line {outcome.line}{where}: {outcome.problem}")
    seconds = time.perf_counter() - started
    if at.as_json:
        at.terminal.document(
            {
                "threads": {status: counts[status] for status in STATUSES},
                "checkpoints": checkpoints,
                "raw_bytes": raw_bytes,
                "stored_bytes": stored_bytes,
                "seconds": round(seconds, 3),
                "problems": [
                    {"line": p.line, "thread_id": p.thread_id, "problem": p.problem}
                    for p in problems
                ],
            }
        )
    else:
        told = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
        at.terminal.say(
            f"threads: {told or 'none'}; {counted(checkpoints, 'checkpoint')} written "
            f"in {seconds:.1f} s"
        )
        if stored_bytes:
            at.terminal.say(
                f"their states stored whole: {size(raw_bytes)}; as stored: {size(stored_bytes)}"
            )
    return REFUSED if counts["bad"] or counts["conflict"] else OK


STATUSES = ("imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad")


class Lines:
    """The lines of a file, counting the bytes that were read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with ctrl_c.at_once():
                line = self._file.readline()
            if not line:
                return
            self.bytes += len(line)
            yield line


def opened(file: str) -> AbstractContextManager[BinaryIO]:
    """A file of lines, or with ``-`` stdin."""
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise UsageProblem(f"cannot read {file}: {error.strerror}") from error


def length(file: str) -> int | None:
    """The size of a file; ``None`` where it cannot be told."""
    path = Path(file)
    return path.stat().st_size if file != "-" and path.is_file() else None

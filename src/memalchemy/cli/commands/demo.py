"""The command demo."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy._bounds import parse_json
from memalchemy._environment import URL_VARIABLE
from memalchemy.cli.command import command
from memalchemy.cli.commands.inspect import DIFF_COLUMNS, diff_rows
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT, OK
from memalchemy.cli.formatting import format_size, format_time, highlight, shorten
from memalchemy.cli.tables import Column, Excerpt
from memalchemy.errors import MemalchemyError

if TYPE_CHECKING:
    from memalchemy import Checkpointer

EARLIER, BRANCH, WORD = "step-14", "what-if", "deadlock"


@command("demo", example="memalchemy demo")
async def demo(
    ctx: Context,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data of the demo.")] = False,
) -> int:
    """See memalchemy work, in a few seconds.

    Saves an invented agent's run, branches, compares, searches and measures, in a temporary SQLite
    file or the database of --db, and removes its data.
    """
    with ExitStack() as stack:
        temporary = ctx.options.db is None
        if temporary:
            directory = Path(tempfile.mkdtemp(prefix="memalchemy-demo-"))
            if not keep:
                stack.callback(shutil.rmtree, directory, ignore_errors=True)
            ctx = ctx.with_options(db=f"sqlite:///{directory / 'agent.db'}")
        return await Demo(ctx, keep=keep, temporary=temporary).run()


class Demo:
    """One run of the demo."""

    def __init__(self, ctx: Context, *, keep: bool, temporary: bool) -> None:
        self.ctx = ctx
        self.keep = keep
        self.temporary = temporary
        """The database is a file of the demo's own."""
        self.thread: str = "invoices" if temporary else f"memalchemy-demo-{uuid.uuid4().hex[:8]}"
        self.json_bytes: int = 0
        """Size of all saved states as JSON, added up."""

    async def run(self) -> int:
        """Run all parts in order, and return the exit code."""
        from memalchemy import Checkpointer

        db = self.ctx.database(migrate="auto", create=True)
        bytes_before = db.file_bytes
        async with db:
            checkpointer = Checkpointer(db)
            last_state = await self.save(checkpointer)
            second = await self.load_in_second_process(last_state)
            await self.list_history(checkpointer)
            await self.load_earlier_step(checkpointer)
            await self.save_branch(checkpointer)
            await self.compare(checkpointer)
            await self.search(checkpointer)
            stats = await checkpointer.get_storage_stats(self.thread)
        # The last connection is closed: SQLite has moved its write-ahead log into the file.
        figures = {
            "checkpoints": stats["total_checkpoints"],
            "states_whole": self.json_bytes,
            "newest_state": _json_size(last_state),
            "payloads": stats["compressed_size"],
            "file": db.file_bytes,
            "file_before": bytes_before or 0,
            "file_of_empty_schema": await _empty_database_size() if self.temporary else None,
        }
        self.print_figures(figures)
        await self.delete_demo()
        if self.ctx.as_data:
            self.ctx.terminal.print_data(
                {"thread_id": self.thread, "second_process": second, "bytes": figures}
            )
        return OK if second["equal"] else CORRUPT

    async def save(self, checkpointer: Checkpointer) -> dict[str, Any]:
        """Save a state after every message, and return the last one."""
        from memalchemy.cli.commands.demo_transcript import states

        self.heading("An agent's run, saved after every message")
        started = time.perf_counter()
        state: dict[str, Any] = {}
        number = 0
        for number, state in enumerate(states(), 1):
            role = state["messages"][-1]["role"]
            await checkpointer.save(state, self.thread, f"step-{number:02d}", {"role": role})
            self.json_bytes += _json_size(state)
        seconds = time.perf_counter() - started
        await checkpointer.set_thread_metadata(self.thread, {"agent": "on-call", "user_id": "ada"})
        self.print(
            f"{number} messages, {number} checkpoints, each on disk before the next: "
            f"{seconds:.2f} s"
        )
        self.print(f"thread {self.thread!r} in {self.ctx.display_url}")
        return state

    async def load_in_second_process(self, expected: dict[str, Any]) -> dict[str, Any]:
        """Load the newest state in another process, and compare it with *expected*."""
        import asyncio

        self.heading("Loaded by a second process")
        command_line = [sys.executable, "-m", "memalchemy", "show", self.thread, "--raw", "--json"]
        for name in ("tenant", "schema", "keys_file", "signing_keys_file", "readable"):
            if value := asdict(self.ctx.options)[name]:
                command_line += [f"--{name.replace('_', '-')}", value]
        # The URL may have a password: every user of the machine can read a command line.
        try:
            process = await asyncio.create_subprocess_exec(
                *command_line,
                env=os.environ | {URL_VARIABLE: self.ctx.url},
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            why = f"{sys.executable} could not be started: {error.strerror}"
            raise MemalchemyError(why) from error
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:  # interrupted: it must not outlive its database
                process.kill()
                await process.wait()
        if process.returncode:
            raise MemalchemyError(f"the second process ended with exit code {process.returncode}")
        found = parse_json(output)
        second = {
            "pid": process.pid,
            "checkpoint_id": found["checkpoint_id"],
            "messages": len(found["state"]["messages"]),
            "equal": found["state"] == expected,
        }
        self.print(
            f"process {second['pid']} (this one is {os.getpid()}) found {second['checkpoint_id']} "
            f"with {second['messages']} messages; equal to what was saved: "
            f"{'yes' if second['equal'] else 'NO'}"
        )
        return second

    async def list_history(self, checkpointer: Checkpointer) -> None:
        """List the newest checkpoints."""
        self.heading("The five newest checkpoints")
        self.ctx.terminal.print_table(
            (
                Column("checkpoint", "id"),
                Column("parent", "id", drop=2),
                Column("saved (UTC)", "time", drop=4),
                Column("state", "number", drop=1),
                Column("stored", "number", drop=3),
                Column("metadata"),
            ),
            [
                (
                    info.checkpoint_id,
                    info.parent_id,
                    format_time(info.created_at),
                    format_size(info.raw_size),
                    format_size(info.stored_size),
                    Excerpt(info.metadata),
                )
                async for info in checkpointer.history(self.thread, limit=5)
            ],
        )

    async def load_earlier_step(self, checkpointer: Checkpointer) -> None:
        """Load an earlier checkpoint."""
        self.heading(f"An earlier checkpoint, {EARLIER}")
        state = await checkpointer.load(self.thread, EARLIER)
        assert state is not None
        last = state["messages"][-1]
        self.print(f"{len(state['messages'])} messages; the last one, from the {last['role']}:")
        self.print(f"  {shorten(last['content'], 90)}")

    async def save_branch(self, checkpointer: Checkpointer) -> None:
        """Save a state that continues the earlier checkpoint."""
        self.heading(f"A branch from {EARLIER}")
        state = await checkpointer.load(self.thread, EARLIER)
        assert state is not None
        state["messages"].append(
            {"role": "user", "content": "Move the recalculation back to every hour instead."}
        )
        await checkpointer.save(state, self.thread, BRANCH, {"role": "user"}, parent_id=EARLIER)
        self.json_bytes += _json_size(state)
        newest = await checkpointer.get_metadata(self.thread)
        assert newest is not None
        self.print(
            f"{newest['checkpoint_id']} is the newest now, its parent is {newest['parent_id']}; "
            "all other checkpoints are still there"
        )

    async def compare(self, checkpointer: Checkpointer) -> None:
        """Compare the branch with its parent."""
        self.heading(f"What {BRANCH} added to {EARLIER}")
        diff = await checkpointer.diff(self.thread, EARLIER, BRANCH)
        self.ctx.terminal.print_table(DIFF_COLUMNS, diff_rows(diff))

    async def search(self, checkpointer: Checkpointer) -> None:
        """Search the checkpoints for a word."""
        self.heading(f"Checkpoints that added the word {WORD!r}")
        if not checkpointer.capabilities.search:
            self.print("not searched: the database is encrypted; --readable text allows it")
            return
        hits = await checkpointer.search(WORD, 100)
        ours = [hit for hit in hits if hit["thread_id"] == self.thread]
        self.ctx.terminal.print_table(
            (Column("checkpoint", "id"), Column("text")),
            [
                (hit["checkpoint_id"], highlight(shorten(hit["snippet"], 70), WORD))
                for hit in ours[:4]
            ],
        )
        self.print(f"{len(ours)} checkpoints in all")

    def print_figures(self, figures: dict[str, Any]) -> None:
        """Print the space that the run takes."""
        self.heading("The space it takes")
        number, full = figures["checkpoints"], figures["states_whole"]
        rows = [
            (f"all {number} states in full, as JSON, added up", full),
            ("the last state of the run alone, as JSON", figures["newest_state"]),
            (f"stored for the {number} states (compressed differences)", figures["payloads"]),
        ]
        file = figures["file"]
        if file is not None:
            rows.append(("the database file, with indexes, full-text search, metadata", file))
            if self.temporary:
                rows.append(("  an empty database file", figures["file_of_empty_schema"]))
            else:
                rows.append(("  before the demo", figures["file_before"]))
        self.ctx.terminal.print_table((Column(""), Column("bytes", "number")), rows)
        ratios = f"stored: 1/{full / figures['payloads']:.0f} of the states as JSON"
        if file and self.temporary:
            ratios += f"; the whole file: 1/{full / file:.1f}"
        self.print(ratios)
        self.print("The run is short: full states grow with the square of a thread's length.")

    async def delete_demo(self) -> None:
        """Remove the data of the demo, or say where it is kept."""
        from memalchemy import Checkpointer

        if self.keep:
            self.print(f"\nkept: memalchemy --db {self.ctx.display_url} history {self.thread}")
        elif self.temporary:
            self.print("\nThe file is removed; --keep keeps it.")
        else:
            async with self.ctx.database() as db:
                await Checkpointer(db).forget(thread_id=self.thread)
            self.print("\nThe thread is erased; --keep keeps it.")

    def heading(self, text: str) -> None:
        """Print a heading."""
        self.ctx.terminal.print(f"\n{text}", style="bold")

    def print(self, text: str) -> None:
        """Print a line."""
        self.ctx.terminal.print(text)


def _json_size(state: dict[str, Any]) -> int:
    """Return the size of *state* as compact JSON in UTF-8."""
    return len(json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode())


async def _empty_database_size() -> int:
    """Return the size of a SQLite file with the schema and nothing else."""
    from memalchemy import Database

    with tempfile.TemporaryDirectory() as directory:
        db = Database(f"sqlite:///{directory}/empty.db")
        async with db:
            pass
        return db.file_bytes or 0

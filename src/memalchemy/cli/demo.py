"""The demo: an agent's run saved, reloaded by another process, travelled through and measured."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli import exits
from memalchemy.cli.command import URL_VARIABLE, Common, Invocation, command
from memalchemy.cli.terminal import short, size, when
from memalchemy.errors import MemalchemyError

if TYPE_CHECKING:
    from memalchemy import Checkpointer

EARLIER, BRANCH, WORD = "step-14", "what-if", "deadlock"


def register(app: typer.Typer) -> None:
    """Add this file's command to *app*."""
    command(app, "demo", example="memalchemy demo")(demo)


async def demo(
    at: Invocation,
    keep: Annotated[bool, typer.Option("--keep", help="Keep what the demo has written.")] = False,
) -> int:
    """See it work, in a few seconds.

    Saves an agent's run, reloads it in a second process, travels through it, and measures. In a
    temporary SQLite file, which is removed afterwards, or in the database that --db names;
    MEMALCHEMY_URL is not used. The run is built in and the same every time.
    """
    with ExitStack() as stack:
        url = at.common.db
        if url is None:
            place = Path(tempfile.mkdtemp(prefix="memalchemy-demo-"))
            if not keep:
                stack.callback(shutil.rmtree, place, ignore_errors=True)
            url = f"sqlite:///{place / 'agent.db'}"
        common = Common(url, *list(vars(at.common).values())[1:])
        return await Demo(Invocation(common), keep=keep, ours=at.common.db is None).run()


class Demo:
    """One run of the demo."""

    def __init__(self, at: Invocation, *, keep: bool, ours: bool) -> None:
        self.at = at
        self.keep = keep
        self.ours = ours
        self.thread = "invoices" if ours else f"memalchemy-demo-{uuid.uuid4().hex[:8]}"
        self.whole = 0

    async def run(self) -> int:
        """Everything, in order; the exit code."""
        from memalchemy.cli.looking import file_bytes

        before = file_bytes(self.at.url) or 0
        async with self.at.database(migrate="auto", create=True) as db:
            checkpointer = self.at.checkpointer(db)
            saved = await self.save(checkpointer)
            second = await self.reload(saved)
            await self.history(checkpointer)
            await self.travel(checkpointer)
            await self.difference(checkpointer)
            await self.search(checkpointer)
            measured = await checkpointer.get_storage_stats(self.thread)
        # The last connection is closed: SQLite has moved its write-ahead log into the file.
        found = {
            "checkpoints": measured["total_checkpoints"],
            "states_whole": self.whole,
            "newest_state": json_bytes(saved),
            "payloads": measured["compressed_size"],
            "file": file_bytes(self.at.url),
            "file_before": before,
            "file_of_empty_schema": None if not self.ours else await empty_file(),
        }
        self.figures(found)
        await self.leave()
        if self.at.as_json:
            self.at.terminal.document(
                {"thread_id": self.thread, "second_process": second, "bytes": found}
            )
        return exits.OK if second["equal"] else exits.CORRUPT

    def heading(self, text: str) -> None:
        self.at.terminal.say(f"\n{text}", style="bold")

    async def save(self, checkpointer: Checkpointer) -> dict[str, Any]:
        """The run, step by step; its last state."""
        from memalchemy.cli.demo_run import states

        self.heading("An agent's run, saved after every message")
        started = time.perf_counter()
        state: dict[str, Any] = {}
        number = 0
        for number, state in enumerate(states(), 1):
            await checkpointer.save(
                state,
                self.thread,
                f"step-{number:02d}",
                {"role": state["messages"][-1]["role"]},
            )
            self.whole += json_bytes(state)
        seconds = time.perf_counter() - started
        self.say(
            f"{number} messages, {number} checkpoints, each on disk before the next: "
            f"{seconds:.2f} s"
        )
        self.say(f"thread {self.thread!r} in {checkpointer.db!r}")
        return state

    async def reload(self, saved: dict[str, Any]) -> dict[str, Any]:
        """Load the newest state in another process, and compare."""
        self.heading("Reloaded by a second process")
        command_line = [sys.executable, "-m", "memalchemy", "show", self.thread, "--json"]
        for name in ("tenant", "schema", "keys_file", "readable"):
            if value := getattr(self.at.common, name):
                command_line += [f"--{name.replace('_', '-')}", value]
        # The URL goes by the environment: a command line is for everybody to read.
        process = await asyncio.create_subprocess_exec(
            *command_line,
            env=os.environ | {URL_VARIABLE: self.at.url},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:  # interrupted: it must not outlive its database
                process.kill()
                await process.wait()
        if process.returncode:
            raise MemalchemyError(f"the second process ended with exit code {process.returncode}")
        found = json.loads(output)
        second = {
            "pid": process.pid,
            "checkpoint_id": found["checkpoint_id"],
            "messages": len(found["state"]["messages"]),
            "equal": found["state"] == saved,
        }
        self.say(
            f"process {second['pid']} (this one is {os.getpid()}) found {second['checkpoint_id']} "
            f"with {second['messages']} messages; equal to what was saved: "
            f"{'yes' if second['equal'] else 'NO'}"
        )
        return second

    async def history(self, checkpointer: Checkpointer) -> None:
        self.heading("Its history, the newest five")
        self.at.terminal.table(
            ("checkpoint", "parent", "saved (UTC)", ">state", ">stored", "metadata"),
            [
                (
                    info.checkpoint_id,
                    info.parent_id,
                    when(info.created_at),
                    size(info.raw_size),
                    size(info.stored_size),
                    short(info.metadata),
                )
                async for info in checkpointer.history(self.thread, limit=5)
            ],
        )

    async def travel(self, checkpointer: Checkpointer) -> None:
        """Load an earlier step and branch from it."""
        self.heading(f"An earlier step, {EARLIER}")
        state = await checkpointer.load(self.thread, EARLIER)
        last = state["messages"][-1]
        self.say(f"{len(state['messages'])} messages; the last, of the {last['role']}:")
        self.say(f"  {short(last['content'], 90)}")

        self.heading("A branch from it")
        state["messages"].append(
            {"role": "user", "content": "Move the recalculation back to every hour instead."}
        )
        await checkpointer.save(state, self.thread, BRANCH, {"role": "user"}, parent_id=EARLIER)
        self.whole += json_bytes(state)
        known = await checkpointer.get_metadata(self.thread)
        assert known is not None
        self.say(
            f"{known['checkpoint_id']} is the newest now, its parent is {known['parent_id']}; "
            "all other steps are still there"
        )

    async def difference(self, checkpointer: Checkpointer) -> None:
        from memalchemy.cli.looking import difference

        self.heading(f"What {BRANCH} has that {EARLIER} has not")
        found = await checkpointer.diff(self.thread, EARLIER, BRANCH)
        self.at.terminal.table(("", "where", "what"), difference(found))

    async def search(self, checkpointer: Checkpointer) -> None:
        from memalchemy.cli.finding import highlighted

        self.heading(f"Steps that brought up {WORD!r}")
        if not checkpointer.capabilities.search:
            self.say("not looked for: the database is encrypted; --readable text keeps its words")
            return
        hits = await checkpointer.search(WORD, 100)
        ours = [hit for hit in hits if hit["thread_id"] == self.thread]
        self.at.terminal.table(
            ("checkpoint", "text"),
            [(h["checkpoint_id"], highlighted(short(h["snippet"], 90), WORD)) for h in ours[:4]],
        )
        self.say(f"{len(ours)} steps in all")

    def figures(self, found: dict[str, Any]) -> None:
        self.heading("What it took")
        count, whole = found["checkpoints"], found["states_whole"]
        rows = [
            (f"every one of the {count} states whole, as JSON, added up", whole),
            ("the last state of the run alone, as JSON", found["newest_state"]),
            (f"what is stored of the {count} states (compressed differences)", found["payloads"]),
        ]
        file = found["file"]
        if file is not None:
            rows.append(("the database file, with indexes, full-text search, metadata", file))
            if found["file_of_empty_schema"]:
                rows.append(
                    ("  of it, a database with nothing saved", found["file_of_empty_schema"])
                )
            else:
                rows.append(("  before the demo", found["file_before"]))
        self.at.terminal.table(("", ">bytes"), rows)
        ratios = f"stored: 1/{whole / found['payloads']:.0f} of the states as JSON"
        if file and self.ours:
            ratios += f"; the whole file: 1/{whole / file:.1f}"
        self.say(ratios)
        self.say("The run is short: whole states add up with the square of a thread's length.")

    async def leave(self) -> None:
        """Say what stays; take away what should not."""
        if self.keep:
            self.say(f"\nkept: memalchemy --db {self.shown} history {self.thread}")
        elif self.ours:
            self.say("\nThe file is removed; --keep keeps it.")
        else:
            async with self.at.database() as db:
                await self.at.checkpointer(db).forget(thread_id=self.thread)
            self.say("\nThe thread is erased; --keep keeps it.")

    @property
    def shown(self) -> str:
        """The URL without a password."""
        from memalchemy.dialects import parse_url

        return parse_url(self.at.url).display

    def say(self, text: str) -> None:
        self.at.terminal.say(text)


def json_bytes(state: dict[str, Any]) -> int:
    """The size of *state* as compact JSON in UTF-8."""
    return len(json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode())


async def empty_file() -> int:
    """The size of a SQLite database with the schema and nothing else."""
    from memalchemy import Database

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "empty.db"
        async with Database(f"sqlite:///{path}"):
            pass
        return path.stat().st_size

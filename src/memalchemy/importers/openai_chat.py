"""OpenAI-format threads: one JSON object a line becomes a thread, each message a checkpoint.

A line is ``{"thread_id": "…", "messages": [{"role": "user", …}, …], …}``; its other fields become
the metadata of every checkpoint. Checkpoint number n holds ``{"messages": first n messages}`` and
is called by its number, so an import that was interrupted goes on where it stopped. Knows nothing
of files or terminals.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from memalchemy.checkpoints import Checkpointer
from memalchemy.codec.values import encode_state
from memalchemy.errors import Conflict, NotSerialisable, ThreadDeleted, TooLarge
from memalchemy.keys import check_thread_id
from memalchemy.metadata import check_metadata

OnConflict = Literal["error", "skip", "replace"]
Status = Literal["imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad"]

AT_ONCE = 8
"""Threads written side by side: SQLite commits them together, a server works on them together."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one line.

    ``imported``: a new thread. ``resumed``: it held the first messages already. ``unchanged``: it
    held all of them. ``replaced``: it held something else, which is deleted. ``skipped`` and
    ``conflict``: it holds something else, which stays; nothing was written. ``bad``: the line is
    not such a thread; nothing was written. ``problem`` says why, for the last two.
    ``checkpoints`` counts what was written now; the sizes are those of the whole thread.
    """

    line: int
    status: Status
    thread_id: str | None = None
    checkpoints: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """A line that can be imported."""

    thread_id: str
    messages: list[Any]
    metadata: dict[str, Any]

    def state(self, number: int) -> dict[str, Any]:
        """The state of checkpoint *number*, which starts at 1."""
        return {"messages": self.messages[:number]}

    def time_of(self, number: int) -> datetime | None:
        """When message *number* was made, if it says so in ``created_at``: seconds since 1970, as
        OpenAI's messages have it, or ISO 8601 with a zone.
        """
        told = self.messages[number - 1].get("created_at")
        try:
            if isinstance(told, str):
                found = datetime.fromisoformat(told)
            elif isinstance(told, (int, float)) and not isinstance(told, bool):
                found = datetime.fromtimestamp(told, UTC)
            else:
                return None
            return None if found.tzinfo is None else found.astimezone(UTC)
        except (ValueError, OverflowError, OSError):  # no time, or one beyond the calendar
            return None


class BadLine(ValueError):
    """A line is not an OpenAI-format thread that can be stored."""


def checkpoint_id(number: int) -> str:
    """The id of the checkpoint that holds the first *number* messages."""
    return f"{number:06d}"


def parse(line: str | bytes, *, prefix: str = "") -> Thread:
    """Read one line; *prefix* is put before its thread id.

    Raises:
        BadLine: it is not a thread, or something in it cannot be stored; the message says what.
    """
    try:
        text = line.decode("utf-8-sig") if isinstance(line, bytes) else line
        found = json.loads(text.strip())
    except UnicodeDecodeError:
        raise BadLine("is not UTF-8") from None
    except RecursionError:
        raise BadLine("is nested too deeply") from None
    except ValueError as error:
        where = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadLine(f"is not JSON{where}") from None
    if not isinstance(found, dict):
        raise BadLine("is not a JSON object")
    thread_id, messages = found.pop("thread_id", None), found.pop("messages", None)
    if not isinstance(thread_id, str):
        raise BadLine('has no "thread_id" that is a string')
    if not isinstance(messages, list) or not messages:
        raise BadLine('has no "messages" that are a list of at least one')
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadLine(f'message {number} is not an object with a "role"')
    try:
        thread_id = check_thread_id(prefix + thread_id)
        encode_state({"messages": messages})
        metadata = check_metadata(found)
    except (NotSerialisable, TooLarge) as error:
        raise BadLine(f"cannot be stored: {error}") from error
    return Thread(thread_id, messages, metadata)


async def import_threads(
    checkpointer: Checkpointer,
    lines: Iterable[str | bytes],
    *,
    prefix: str = "",
    on_conflict: OnConflict = "error",
) -> AsyncIterator[Outcome]:
    """Import every line; yield what became of each, in the order of the lines.

    Blank lines are passed over. Whether a thread is written is decided before its first write: a
    thread that holds exactly the first messages of the line, as an interrupted import leaves it, is
    completed; one that holds anything else is a conflict. Every write names the checkpoint that it
    follows, so somebody else's save to the same thread ends its import instead of mixing with it.

    Args:
        checkpointer: where the threads go.
        lines: as a file opened in binary mode gives them.
        prefix: put before every thread id.
        on_conflict: ``"error"`` and ``"skip"`` leave such a thread alone, and differ in the status
            that they report; ``"replace"`` deletes it, with its logs in other namespaces, and
            imports anew.

    Raises:
        What `Checkpointer.save` raises of the database. Threads that were being written then are
        left incomplete, and another import completes them.
    """
    if on_conflict not in ("error", "skip", "replace"):
        raise ValueError(f"on_conflict is 'error', 'skip' or 'replace', not {on_conflict!r}")
    window: deque[tuple[str | None, asyncio.Task[Outcome]]] = deque()
    try:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            thread_id = None
            try:
                thread = parse(line, prefix=prefix)
            except BadLine as error:
                work = partial(_done, Outcome(number, "bad", problem=str(error)))
            else:
                thread_id = thread.thread_id
                work = partial(_import, checkpointer, number, thread, on_conflict)
            # A thread may be in the file twice: the second waits for the first.
            while len(window) >= AT_ONCE or any(other == thread_id for other, _ in window):
                yield await window[0][1]
                window.popleft()
            window.append((thread_id, asyncio.create_task(work())))
        while window:
            yield await window[0][1]
            window.popleft()
    finally:
        unfinished = [task for _, task in window]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


async def _done(outcome: Outcome) -> Outcome:
    return outcome


async def _import(
    checkpointer: Checkpointer, line: int, thread: Thread, on_conflict: OnConflict
) -> Outcome:
    there = await _already_there(checkpointer, thread)
    status: Status = "imported"
    if there is None:
        if on_conflict != "replace":
            return Outcome(
                line,
                "skipped" if on_conflict == "skip" else "conflict",
                thread.thread_id,
                problem="the thread exists and holds something else",
            )
        await checkpointer.delete(thread.thread_id)
        there, status = 0, "replaced"
    elif there:
        status = "unchanged" if there == len(thread.messages) else "resumed"
    for number in range(there + 1, len(thread.messages) + 1):
        try:
            await checkpointer.save(
                thread.state(number),
                thread.thread_id,
                checkpoint_id(number),
                thread.metadata,
                expected_parent=checkpoint_id(number - 1) if number > 1 else None,
                occurred_at=thread.time_of(number),
            )
        except (Conflict, ThreadDeleted):
            return Outcome(
                line,
                "conflict",
                thread.thread_id,
                number - 1 - there,
                problem=f"somebody else changed the thread while message {number} was imported",
            )
    stats = await checkpointer.get_storage_stats(thread.thread_id)
    return Outcome(
        line,
        status,
        thread.thread_id,
        len(thread.messages) - there,
        stats["total_size"],
        stats["compressed_size"],
    )


async def _already_there(checkpointer: Checkpointer, thread: Thread) -> int | None:
    """How many messages the stored thread holds; ``None`` if it holds anything else."""
    ids = await checkpointer.list_checkpoints(thread.thread_id, len(thread.messages) + 1)
    count = len(ids)
    if ids != [checkpoint_id(number) for number in range(count, 0, -1)]:
        return None
    if not ids:
        return 0
    plain = Checkpointer(checkpointer.db, namespace=checkpointer.namespace)
    stored = await plain.load(thread.thread_id, ids[0])
    known = await plain.get_metadata(thread.thread_id, ids[0])
    if stored is None or known is None or count > len(thread.messages):
        return None
    # Compared as they are stored: equal bytes are equal values of equal types, NaN included.
    same = encode_state(stored) == encode_state(thread.state(count))
    return count if same and known["metadata"] == thread.metadata else None

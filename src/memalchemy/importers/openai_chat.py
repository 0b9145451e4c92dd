"""Import of threads in OpenAI's format: each line is a thread, each message becomes a checkpoint.

A line is ``{"thread_id": "…", "messages": [{"role": "user", …}, …], …}``; its other fields become
the metadata of every checkpoint. Checkpoint number n holds ``{"messages": first n messages}``, and
its id is its number, so an interrupted import continues where it stopped.
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

from memalchemy._bounds import NumberTooLarge, parse_strict_json
from memalchemy.checkpoints import Checkpointer
from memalchemy.codec.values import encode_state
from memalchemy.errors import Conflict, NotSerialisable, ThreadDeleted, TooLarge
from memalchemy.importers.log_times import LogTimes, date_logs
from memalchemy.keys import check_thread_id
from memalchemy.metadata import check_metadata

OnConflict = Literal["error", "skip", "replace"]
Status = Literal["imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad"]

CONCURRENCY = 8
"""Threads that are written concurrently: SQLite commits them together."""


@dataclass(frozen=True, slots=True)
class LineOutcome:
    """Result for one line.

    The thread was new (``imported``), had the first messages (``resumed``), had all messages
    (``unchanged``), or had others: it was replaced (``replaced``) or stays as it is (``skipped``,
    ``conflict``). A ``bad`` line is not such a thread. ``problem`` explains the last three.
    ``checkpoints`` counts those that were written; the sizes are those of the whole thread.
    """

    line: int
    status: Status
    thread_id: str | None = None
    checkpoints: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """Valid line."""

    thread_id: str
    messages: list[Any]
    metadata: dict[str, Any]

    def state(self, number: int) -> dict[str, Any]:
        """Return the state of checkpoint *number*, counted from 1."""
        return {"messages": self.messages[:number]}

    def time_of(self, number: int) -> datetime | None:
        """Return the time of message *number*, or ``None`` without a valid ``created_at``.

        That is seconds since 1970, as in OpenAI's messages, or ISO 8601 with a zone.
        """
        given = self.messages[number - 1].get("created_at")
        try:
            if isinstance(given, str):
                found = datetime.fromisoformat(given)
            elif isinstance(given, (int, float)) and not isinstance(given, bool):
                found = datetime.fromtimestamp(given, UTC)
            else:
                return None
            return None if found.tzinfo is None else found.astimezone(UTC)
        except (ValueError, OverflowError, OSError):  # not a time, or outside of the calendar
            return None


class BadLine(ValueError):
    """The line is not a thread in OpenAI's format, or cannot be stored."""


def checkpoint_id(number: int) -> str:
    """Return the id of the checkpoint with the first *number* messages."""
    return f"{number:06d}"


def parse(line: str | bytes, *, prefix: str = "") -> ParsedLine:
    """Parse one line; *prefix* is put before its thread id.

    Raises:
        BadLine: it is not a thread, or something in it cannot be stored; the message says what.
    """
    try:
        text = line.decode("utf-8-sig") if isinstance(line, bytes) else line
        found = parse_strict_json(text.strip())
    except UnicodeDecodeError:
        raise BadLine("is not UTF-8") from None
    except RecursionError:
        raise BadLine("is nested too deeply") from None
    except NumberTooLarge as error:
        raise BadLine(f"is not JSON: {error}") from None
    except ValueError as error:
        where = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadLine(f"is not JSON{where}") from None
    if not isinstance(found, dict):
        raise BadLine("is not a JSON object")
    thread_id, messages = found.pop("thread_id", None), found.pop("messages", None)
    if not isinstance(thread_id, str):
        raise BadLine('has no "thread_id" that is a string')
    if messages is None and found.keys() & {"state", "value"} and "namespace" in found:
        raise BadLine("is a line of `memalchemy export`, which no command reads again: see `copy`")
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
    return ParsedLine(thread_id, messages, metadata)


async def import_threads(
    checkpointer: Checkpointer,
    lines: Iterable[str | bytes],
    *,
    prefix: str = "",
    on_conflict: OnConflict = "error",
) -> AsyncIterator[LineOutcome]:
    """Import every line, and yield the results in the order of the lines.

    Blank lines are skipped. Before its first write, each thread is compared with the target: one
    that has exactly the first messages of the line, as an interrupted import leaves it, is
    completed; one that has anything else is a conflict. Every write names the checkpoint that it
    follows, so a concurrent save to the same thread ends its import and never mixes with it.

    Args:
        checkpointer: the target.
        lines: those of a file opened in binary mode, or strings.
        prefix: put before every thread id.
        on_conflict: ``"error"`` and ``"skip"`` leave such a thread alone, and differ in the status
            that they report; ``"replace"`` deletes it, with its logs in other namespaces, and
            imports it anew.

    Raises:
        MemalchemyError: an error of the database in `Checkpointer.save`. Threads that were being
            written then are incomplete, and another import completes them.
    """
    if on_conflict not in ("error", "skip", "replace"):
        raise ValueError(f"on_conflict is 'error', 'skip' or 'replace', not {on_conflict!r}")
    window: deque[tuple[str | None, asyncio.Task[LineOutcome]]] = deque()
    try:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            thread_id = None
            try:
                thread = parse(line, prefix=prefix)
            except BadLine as error:
                work = partial(_as_awaitable, LineOutcome(number, "bad", problem=str(error)))
            else:
                thread_id = thread.thread_id
                work = partial(_import_thread, checkpointer, number, thread, on_conflict)
            # A thread may be in the file twice: the second line waits for the first.
            while len(window) >= CONCURRENCY or any(other == thread_id for other, _ in window):
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


async def _as_awaitable(outcome: LineOutcome) -> LineOutcome:
    return outcome


async def _import_thread(
    checkpointer: Checkpointer, line: int, thread: ParsedLine, on_conflict: OnConflict
) -> LineOutcome:
    there = await _count_there(checkpointer, thread)
    status: Status = "imported"
    if there is None:
        if on_conflict != "replace":
            return LineOutcome(
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
            return LineOutcome(
                line,
                "conflict",
                thread.thread_id,
                number - 1 - there,
                problem=f"another process changed the thread while message {number} was imported",
            )
    if there < len(thread.messages):
        times = [thread.time_of(number) for number in range(1, len(thread.messages) + 1)]
        if None not in times:  # a message without a time has that of the import
            logs = LogTimes.of(checkpointer.namespace, thread.thread_id, times)
            await date_logs(checkpointer.db, logs)
    stats = await checkpointer.get_storage_stats(thread.thread_id)
    return LineOutcome(
        line,
        status,
        thread.thread_id,
        len(thread.messages) - there,
        stats["total_size"],
        stats["compressed_size"],
    )


async def _count_there(checkpointer: Checkpointer, thread: ParsedLine) -> int | None:
    """Count the messages that the stored thread has; return ``None`` if it has anything else."""
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
    # Equal encodings mean equal values of equal types, NaN included.
    same = encode_state(stored) == encode_state(thread.state(count))
    return count if same and known["metadata"] == thread.metadata else None

"""Commands that look: threads, history, show, diff, stats, search."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from memalchemy.cli.command import Invocation, command
from memalchemy.cli.exits import UsageProblem
from memalchemy.cli.terminal import counted, short, size, when
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from rich.text import Text

    from memalchemy import Checkpointer, CheckpointInfo, Database
    from memalchemy.space import Space

S = TypeVar("S")
T = TypeVar("T")
AT_ONCE = 8

ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands to *app*."""
    db = "memalchemy --db sqlite:///agent.db"
    command(app, "threads", example=f"{db} threads --pattern 'airline-*'")(threads)
    command(app, "history", example=f"{db} history airline-1 --limit 50")(history)
    command(app, "show", example=f"{db} show airline-1 --at 000007")(show)
    command(app, "diff", example=f"{db} diff airline-1 000003 000007")(diff)
    command(app, "stats", example=f"{db} stats")(stats)
    command(app, "search", example=f"{db} search 'gift card refund'")(search)


async def threads(
    at: Invocation,
    pattern: Annotated[str, typer.Option(help="A glob over the whole id: *, ?, [a-z].")] = "*",
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 100,
) -> None:
    """List threads, most recently saved first."""
    from memalchemy.log.listing import entry_logs

    async with at.database() as db:
        checkpointer = at.checkpointer(db)
        ids = await checkpointer.list_threads(limit, pattern)
        found = [row for row in await each(ids, lambda t: _thread(checkpointer, t)) if row]
        others = {log.thread_id for log in await entry_logs(db, limit=1000)} - set(ids)
    if at.as_json:
        at.terminal.document(found)
        return
    at.terminal.table(
        ("thread", ">checkpoints", "newest", "saved (UTC)", ">states whole", ">stored"),
        (
            (
                row["thread_id"],
                row["checkpoints"],
                row["newest"],
                when(row["saved_at"]),
                size(row["raw_bytes"]),
                size(row["stored_bytes"]),
            )
            for row in found
        ),
    )
    at.terminal.note(counted(len(found), "thread"))
    if others:
        at.terminal.note("threads that have entries, and no checkpoint here: see `log ls`")


async def history(
    at: Invocation,
    thread: ThreadArgument,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 20,
) -> None:
    """List a thread's checkpoints, newest first.

    Without reading a state. A checkpoint that was branched off an earlier one than the one before
    it is marked.
    """
    async with at.database() as db:
        checkpointer = at.checkpointer(db)
        infos = [info async for info in checkpointer.history(thread, limit=limit + 1)]
        if not infos:
            raise await _no_checkpoints(db, thread)
        branches = await _branches(checkpointer, infos)
    shown = infos[:limit]
    if at.as_json:
        at.terminal.document([i.as_dict() | {"branch": i.checkpoint_id in branches} for i in shown])
        return
    at.terminal.table(
        ("checkpoint", "parent", "", "saved (UTC)", ">state", ">stored", "metadata"),
        (
            (
                info.checkpoint_id,
                info.parent_id,
                "branch" if info.checkpoint_id in branches else "",
                when(info.created_at),
                size(info.raw_size),
                size(info.stored_size),
                short(info.metadata) if info.metadata else "",
            )
            for info in shown
        ),
    )
    if len(infos) > limit:
        at.terminal.note(f"the newest {limit}; --limit shows more")


async def _no_checkpoints(db: Database, thread: str) -> NotFound:
    """The error for a thread that has no checkpoint to look at; it may have entries."""
    from memalchemy.log.listing import entry_namespaces

    if await entry_namespaces(db, thread):
        return NotFound(f"thread {thread!r} has entries and no checkpoint here: see `log tail`")
    return NotFound(f"there is no thread {thread!r}")


async def show(
    at: Invocation,
    thread: ThreadArgument,
    checkpoint: Annotated[
        str | None, typer.Option("--at", metavar="CHECKPOINT", help="Not the newest.")
    ] = None,
) -> None:
    """Print a state as JSON.

    The newest without --at. Values that JSON lacks are printed for reading: bytes as base64, sets
    as lists. `export` prints them so that they can be told apart.
    """
    async with at.database() as db:
        checkpointer = at.checkpointer(db)
        known = await checkpointer.get_metadata(thread, checkpoint)
        state = known and await checkpointer.load(thread, known["checkpoint_id"])
        if known is None or state is None:
            if checkpoint is None:
                raise await _no_checkpoints(db, thread)
            raise NotFound(f"there is no checkpoint {checkpoint!r} in thread {thread!r}")
    at.terminal.document(known | {"state": state} if at.as_json else state)


async def diff(
    at: Invocation,
    thread: ThreadArgument,
    a: Annotated[str, typer.Argument(metavar="A", help="The checkpoint to start from.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The checkpoint to compare with it.")],
) -> None:
    """What changed between two checkpoints.

    From A to B, by JSON pointer: - removed, ~ changed, + added.
    """
    async with at.database() as db:
        found = await at.checkpointer(db).diff(thread, a, b)
    if at.as_json:
        changed = {path: {"a": old, "b": new} for path, (old, new) in found.changed.items()}
        document = {"added": found.added, "removed": found.removed, "changed": changed}
        at.terminal.document(document)
        return
    if not found:
        at.terminal.say("no difference")
        return
    at.terminal.table(("", "where", "what"), difference(found))


def difference(found: Any) -> Iterable[tuple[str, str, str]]:
    """A `Diff` as rows of a table."""
    for path, value in found.removed.items():
        yield "-", path, short(value)
    for path, (old, new) in found.changed.items():
        yield "~", path, f"{short(old, 30)} → {short(new, 30)}"
    for path, value in found.added.items():
        yield "+", path, short(value)


async def stats(
    at: Invocation,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="One thread instead of all.")
    ] = None,
    largest: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="How many threads to name.")
    ] = 10,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it, as SVG.")
    ] = None,
) -> None:
    """Where the bytes are, of all threads or of one.

    "states whole" is what the states would take stored one by one, as JSON; "stored" is what is
    stored of them: without indexes, search text and the database's own overhead. Tables and indexes
    are those of the whole database, with all tenants.
    """
    if thread is not None:
        if plot is not None:
            raise UsageProblem("--plot draws all threads; leave THREAD away")
        await _stats_of(at, thread)
        return
    from memalchemy import space

    async with at.database() as db:
        found = await space.measure(db, largest=largest)
    if plot is not None:
        from memalchemy.cli.picture import draw

        _write_picture(plot, draw(found, f"Where the bytes are: tenant {at.tenant}"))
    total: dict[str, Any] = {
        "threads": found.threads,
        "checkpoints": found.checkpoints,
        "full_checkpoints": found.full_checkpoints,
        "items": found.items,
        "raw_bytes": found.raw_bytes,
        "stored_bytes": found.stored_bytes,
        "file_bytes": found.file_bytes,
    }
    if at.as_json:
        at.terminal.document(
            total
            | {"free_bytes": found.free_bytes, "estimated": found.estimated}
            | {"tables": found.pieces, "kinds": found.kinds, "largest": found.largest}
            | {"logs": found.logs, "rest_bytes": found.rest_bytes}
        )
        return
    _say_stats(at, total)
    _say_space(at, found)
    if plot is not None:
        at.terminal.note(f"drawn in {plot}")


async def _stats_of(at: Invocation, thread: str) -> None:
    async with at.database() as db:
        one = await at.checkpointer(db).get_storage_stats(thread)
        if not one["total_checkpoints"]:
            raise await _no_checkpoints(db, thread)
    total = {
        "threads": 1,
        "checkpoints": one["total_checkpoints"],
        "full_checkpoints": one["full_checkpoints"],
        "raw_bytes": one["total_size"],
        "stored_bytes": one["compressed_size"],
        "file_bytes": file_bytes(at.url),
    }
    if at.as_json:
        at.terminal.document(total)
    else:
        _say_stats(at, total)


def _say_stats(at: Invocation, total: dict[str, Any]) -> None:
    rows = [
        ("threads", total["threads"]),
        ("checkpoints", total["checkpoints"]),
        ("of them stored whole", total["full_checkpoints"]),
        ("states whole", size(total["raw_bytes"])),
        ("stored", size(total["stored_bytes"])),
    ]
    if "items" in total:
        rows.append(("items of stores", total["items"]))
    if total["file_bytes"] is not None:
        rows.append(("the database file, all tenants", size(total["file_bytes"])))
    at.terminal.table(("what", ">how much"), rows)


def _say_space(at: Invocation, found: Space) -> None:
    if found.kinds:
        at.terminal.say()
        rows = ((kind.name, kind.rows, size(kind.bytes)) for kind in found.kinds)
        at.terminal.table(("kind", ">rows", ">bytes"), rows)
    if found.largest:
        at.terminal.say()
        named = [
            (one.thread_id, "/".join(one.namespace), one.rows, size(one.bytes))
            for one in found.largest
        ]
        if (others := found.logs - len(named)) > 0:
            named.append((f"the other {others:,}", "", "", size(found.rest_bytes)))  # type: ignore[arg-type]
        at.terminal.table(("largest threads", "namespace", ">rows", ">bytes"), named)
    pieces = [(one.name, one.kind, size(one.bytes)) for one in found.pieces if one.bytes]
    if found.free_bytes:
        pieces.append(("free pages; `vacuum` gives them back", "", size(found.free_bytes)))
    if pieces:
        at.terminal.say()
        at.terminal.table(("table or index, all tenants", "kind", ">bytes"), pieces)
    if found.estimated:
        at.terminal.note("tables are estimated: this SQLite was built without dbstat")


def _write_picture(path: Path, picture: str) -> None:
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"cannot write {path}: {error.strerror}") from error


async def search(
    at: Invocation,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words. No operators.")],
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 10,
) -> None:
    """Find steps by words, best first.

    A step is found by what it added, whatever the case and the accents.
    """
    async with at.database() as db:
        found = await at.checkpointer(db).search(query, limit)
    if at.as_json:
        at.terminal.document(found)
        return
    at.terminal.table(
        ("thread", "checkpoint", ">score", "text"),
        (
            (
                hit["thread_id"],
                hit["checkpoint_id"],
                f"{hit['score']:.2f}",
                highlighted(hit["snippet"], query),
            )
            for hit in found
        ),
    )
    at.terminal.note(counted(len(found), "checkpoint"))


def highlighted(snippet: str, query: str) -> Text:
    """*snippet* with the words of *query* set off."""
    from rich.text import Text

    from memalchemy.cli.terminal import safe
    from memalchemy.codec.text import is_cjk, query_terms

    text = Text(safe(snippet))
    tokens = {token for term in query_terms(query) for token in term}
    for token in tokens:
        edge = "" if is_cjk(token) else r"\b"
        text.highlight_regex(f"(?i){edge}{token}{edge}", "bold yellow")
    return text


def file_bytes(url: str) -> int | None:
    """The size of a database that is a file, its write-ahead log included; ``None`` if it is not"""
    from memalchemy.database.url import parse

    path = parse(url).path
    if path is None:
        return None
    files = (Path(path), Path(f"{path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


async def _thread(checkpointer: Checkpointer, thread_id: str) -> dict[str, Any] | None:
    newest = await checkpointer.get_metadata(thread_id)
    if newest is None:
        return None  # deleted meanwhile
    measured = await checkpointer.get_storage_stats(thread_id)
    return {
        "thread_id": thread_id,
        "checkpoints": measured["total_checkpoints"],
        "newest": newest["checkpoint_id"],
        "saved_at": newest["created_at"],
        "raw_bytes": measured["total_size"],
        "stored_bytes": measured["compressed_size"],
    }


async def _branches(checkpointer: Checkpointer, infos: list[CheckpointInfo]) -> set[str]:
    """Those of *infos* whose parent is there, and is not the checkpoint before them."""
    found = set()
    for info, before in pairwise(infos):
        parent = info.parent_id
        if parent in (None, before.checkpoint_id):
            continue
        # Without its parent a checkpoint follows a gap that pruning left; that is no branch.
        if await checkpointer.exists(info.thread_id, parent):
            found.add(info.checkpoint_id)
    return found


async def each(items: list[S], work: Callable[[S], Awaitable[T]]) -> list[T]:
    """*work* on every item, a few at once; the results in the order of the items."""
    results: list[T] = []
    for start in range(0, len(items), AT_ONCE):
        results += await asyncio.gather(*map(work, items[start : start + AT_ONCE]))
    return results

"""Commands that look at a thread, and at what all of them take: history, show, diff, stats."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.command import Invocation, command
from memalchemy.cli.exits import UsageProblem
from memalchemy.cli.places import NamespaceOption, checkpointer_of
from memalchemy.cli.terminal import short, size, when
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Checkpointer, CheckpointInfo
    from memalchemy.space import Space

ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands to *app*."""
    db = "memalchemy --db sqlite:///agent.db"
    command(app, "history", example=f"{db} history airline-1 --limit 50")(history)
    command(app, "show", example=f"{db} show airline-1 --at 000007")(show)
    command(app, "diff", example=f"{db} diff airline-1 000003 000007")(diff)
    command(app, "stats", example=f"{db} stats")(stats)


async def history(
    at: Invocation,
    thread: ThreadArgument,
    namespace: NamespaceOption = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 20,
) -> None:
    """List a thread's checkpoints, newest first.

    Without reading a state. A checkpoint that was branched off an earlier one than the one before
    it is marked.
    """
    async with at.database() as db:
        checkpointer = await checkpointer_of(at, db, thread, namespace)
        infos = [info async for info in checkpointer.history(thread, limit=limit + 1)]
        branches = await _branches(checkpointer, infos)
    shown = infos[:limit]
    if at.as_json:
        place = {"namespace": checkpointer.namespace}
        at.terminal.document(
            [i.as_dict() | {"branch": i.checkpoint_id in branches} | place for i in shown]
        )
        return
    at.terminal.table(
        ("checkpoint", "parent", "", "happened (UTC)", ">state", ">stored", "metadata"),
        (
            (
                info.checkpoint_id,
                info.parent_id,
                "branch" if info.checkpoint_id in branches else "",
                when(info.occurred_at),
                size(info.raw_size),
                size(info.stored_size),
                short(info.metadata) if info.metadata else "",
            )
            for info in shown
        ),
    )
    if len(infos) > limit:
        at.terminal.note(f"the newest {limit}; --limit shows more")


async def show(
    at: Invocation,
    thread: ThreadArgument,
    checkpoint: Annotated[
        str | None, typer.Option("--at", metavar="CHECKPOINT", help="Not the newest.")
    ] = None,
    namespace: NamespaceOption = None,
) -> None:
    """Print a state as JSON.

    The newest without --at. Values that JSON lacks are printed for reading: bytes as base64, sets
    as lists. `export` prints them so that they can be told apart.
    """
    async with at.database() as db:
        checkpointer = await checkpointer_of(at, db, thread, namespace)
        known = await checkpointer.get_metadata(thread, checkpoint)
        state = known and await checkpointer.load(thread, known["checkpoint_id"])
        if known is None or state is None:
            what = "checkpoint" if checkpoint is None else f"checkpoint {checkpoint!r}"
            raise NotFound(f"there is no {what} in thread {thread!r}")
    place = {"namespace": checkpointer.namespace}
    at.terminal.document(known | place | {"state": state} if at.as_json else state)


async def diff(
    at: Invocation,
    thread: ThreadArgument,
    a: Annotated[str, typer.Argument(metavar="A", help="The checkpoint to start from.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The checkpoint to compare with it.")],
    namespace: NamespaceOption = None,
) -> None:
    """What changed between two checkpoints.

    From A to B, by JSON pointer: - removed, ~ changed, + added.
    """
    async with at.database() as db:
        found = await (await checkpointer_of(at, db, thread, namespace)).diff(thread, a, b)
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
    namespace: NamespaceOption = None,
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
        await _stats_of(at, thread, namespace)
        return
    if namespace is not None:
        raise UsageProblem("--namespace is that of a THREAD")
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


async def _stats_of(at: Invocation, thread: str, namespace: str | None) -> None:
    async with at.database() as db:
        checkpointer = await checkpointer_of(at, db, thread, namespace)
        one = await checkpointer.get_storage_stats(thread)
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


def file_bytes(url: str) -> int | None:
    """The size of a database that is a file, its write-ahead log included; ``None`` if it is not"""
    from memalchemy.dialects import parse_url

    path = parse_url(url).path
    if path is None:
        return None
    files = (Path(path), Path(f"{path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


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

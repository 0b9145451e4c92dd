"""Which reads believe which edits, and the table of the page of signatures that says so."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from public_reads import READS, REFUSED, World, read
from stored_edits import REMOVED, SIGNED, Stored, edits_of, removals_of, sample_of

from golden.watch import Watch
from memalchemy import Database
from memalchemy.anchors import anchor
from memalchemy.errors import StatementFailed
from memalchemy.verify import verify

Pair = tuple[str, str]
"""The name of an edit, and that of a read."""

Answers = dict[str, list[object]]
"""What reads have returned, by their names."""

Outcomes = dict[Pair, set[str]]
"""What became of a pair: ``refused``, ``unaffected`` and ``believed``; of several rows, all."""

PAGE = Path(__file__).with_name("signed_reads.md")
BELIEVED, OF_LONG_LOGS = "believed", "believed of long logs"
"""Tables of the page: what reads believe, and what else of long logs."""

MOVED = "a row that is moved to another place looks removed at its old place"
PARTIAL = "rows of several logs, or one page of a log, cannot be compared with the sum in a head"
FOUND = "rows are searched by it: a row with another value is not found"
SEARCHED = "a search does not find rows that its index does not have"
ENDED = "searches and counts do not read expired or deleted rows"
ORDERED = "a list of the newest is sorted by it, and ends before rows that were made older"
COUNTED = "the proof of a number or a size would have to read all counted rows"

REASONS: dict[str, str] = {
    **dict.fromkeys(("threads.tenant", "threads.thread_id", "threads.namespace"), MOVED),
    **dict.fromkeys(("checkpoints.tenant", "deltas.tenant", "checkpoints.log_id"), MOVED),
    **dict.fromkeys(("removed checkpoint", "removed state", "removed entry"), PARTIAL),
    **dict.fromkeys(("removed write", "checkpoints.seq", "deltas.seq"), PARTIAL),
    **dict.fromkeys(("deltas.entry_key", "deltas.label", "deltas.kind"), FOUND),
    "deltas.occurred_at": FOUND,
    **dict.fromkeys(("checkpoints.checkpoint_id", "checkpoints.run_id"), FOUND),
    **dict.fromkeys(("deltas.search_text", "deltas.radix", "removed vector"), SEARCHED),
    **dict.fromkeys(("embeddings.dimensions", "embeddings.model", "embeddings.field"), SEARCHED),
    **dict.fromkeys(("embeddings.part", "embeddings.vector", "checkpoints.meta"), SEARCHED),
    **dict.fromkeys(("store_items.search_text", "store_items.field_terms"), SEARCHED),
    **dict.fromkeys(("store_items.expires_at", "threads.expires_at"), ENDED),
    "threads.deleted_at": ENDED,
    **dict.fromkeys(("store_items.updated_at", "threads.updated_at"), ORDERED),
    **dict.fromkeys(("checkpoints.created_at", "checkpoints.occurred_at"), ORDERED),
    "threads.head_id": COUNTED,
    **dict.fromkeys(("deltas.base_seq", "deltas.payload", "deltas.depth"), COUNTED),
    **{f"threads.{name}": COUNTED for name in ("created_at", "meta", "last_ordinal")},
    **{f"threads.{name}": COUNTED for name in ("next_seq", "previous_id", "version")},
}
"""Why some reads believe an edit."""


ONLY_ON: dict[Pair, str] = {
    ("deltas.tenant", "Inspector.search"): "postgresql",
    ("deltas.tenant", "ThreadLog.search"): "postgresql",
}
"""Pairs of which one database alone believes the edit; the other finds the row in its own index."""

KEPT = {("removed entry", "Inspector.thread"), ("removed entry", "Inspector.threads")}
"""Pairs that a process in the middle of its work believes, besides: an inspector shows the summary
that it keeps of a log while the head says that nothing came.
"""


async def edits_in(db: Database, name: str, most: int | None) -> list[Stored]:
    """Return the edits of a table; of each column, and of each kind of row, at most *most*."""
    edits: list[Stored] = list(await db.run_sync(partial(edits_of, name=name)))
    if name == "deltas" or name in REMOVED:
        edits += await db.run_sync(partial(removals_of, name=name))
    return sample_of(edits, most)


async def read_all(world: World, names: Iterable[str] = READS) -> Answers:
    return {name: await read(world, name) for name in names}


async def tables_of_reads(opened: Callable[[], Database]) -> dict[str, set[str]]:
    """Return the signed tables that the statements of each read name, in a process that begins.

    A read cannot tell an edit of another table: until one of its statements returns something
    else, it does what it does without the edit. Caches make it read less, and never more.
    """
    found: dict[str, set[str]] = {}
    for name in READS:
        async with opened() as db:
            await db.check()
            with Watch() as watch:
                await read(World(db), name)
        assert watch.texts, f"nothing has seen what {name} reads"
        # The name of a text index has that of its table in it.
        found[name] = {one for one in SIGNED for text in watch.texts if one in text}
    return found


async def outcomes_of(
    opened: Callable[[], Database],
    name: str,
    most: int | None = None,
    *,
    touching: Mapping[str, set[str]] | None = None,
) -> tuple[Outcomes, Outcomes]:
    """Edit rows of a table, one after another, and read; `verify` has to tell of each edit.

    Return what became of the pairs in a process that begins anew with each edit, and in one that
    has read everything before.

    Args:
        touching: the result of `tables_of_reads`, to make only those reads that may tell an edit.
    """
    names = [one for one in READS if touching is None or name in touching[one]]
    begun: Outcomes = defaultdict(set)
    warm: Outcomes = defaultdict(set)
    async with opened() as db, AsyncExitStack() as opening:
        before = await read_all(World(db))
        assert not any(REFUSED in given for given in before.values())
        taken = await anchor(db)

        async def begin() -> World:
            await opening.aclose()
            world = World(await opening.enter_async_context(opened()))
            assert await read_all(world) == before
            return world

        going_on = await begin()

        async def read_anew() -> Answers:
            async with opened() as other:
                return await read_all(World(other), names)

        async def is_told() -> bool:
            if (await verify(db, all_tenants=True)).findings:
                return True
            return bool((await verify(db, anchor=taken)).findings)

        for edit in await edits_in(db, name, most):
            try:
                await db.run_sync(edit.apply)
            except StatementFailed:
                continue  # the database itself refuses it
            anew, again, told = await asyncio.gather(
                read_anew(), read_all(going_on, names), is_told()
            )
            await db.run_sync(edit.undo)
            assert told, f"verify does not tell of {edit}"
            for found, after in ((begun, anew), (warm, again)):
                for one in READS:
                    found[edit.name, one].update(_compare(before[one], after.get(one, before[one])))
            changed = [one for one in names if again[one] != before[one]]
            if await read_all(going_on, changed) != {one: before[one] for one in changed}:
                going_on = await begin()  # no cache learns that the edit was undone
        assert await read_all(going_on) == before
    return begun, warm


def _compare(before: list[object], after: list[object]) -> Iterator[str]:
    for was, now in zip(before, after, strict=True):
        yield "refused" if now == REFUSED else "unaffected" if now == was else "believed"


def believed(outcomes: Outcomes) -> set[Pair]:
    """Return the pairs in which a read believed an edit."""
    return {pair for pair, became in outcomes.items() if "believed" in became}


def counted(outcomes: Outcomes) -> dict[str, int]:
    """Return the number of pairs that are believed, that are refused, and that are unaffected."""
    worst = ("believed", "refused", "unaffected")
    return Counter(next(one for one in worst if one in became) for became in outcomes.values())


def _table(title: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {title} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


def of_table(pairs: set[Pair], name: str) -> set[Pair]:
    """Return the pairs whose edits are of a table."""
    removals = _REMOVALS.get(name, ())
    return {pair for pair in pairs if pair[0].split(".")[0] == name or pair[0] in removals}


_REMOVALS = {
    "checkpoints": ("removed checkpoint",),
    "deltas": ("removed state", "removed entry", "removed write"),
    "embeddings": ("removed vector",),
}


def only_elsewhere(database: str) -> set[Pair]:
    """Return the pairs that the page lists for another database than this one."""
    kind = "sqlite" if database.startswith("sqlite") else "postgresql"
    return {pair for pair, one in ONLY_ON.items() if one != kind}


def listed(title: str = BELIEVED) -> set[Pair]:
    """Return the pairs that a table of the page of signatures lists."""
    table = _table(title).search(PAGE.read_text())
    assert table is not None, f"the page has no table of what is {title}"
    pairs = set()
    for line in table.group().splitlines()[2:]:
        edits, reads = (re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:3])
        pairs |= {(edit, read) for edit in edits for read in reads}
    return pairs


def table_of(pairs: set[Pair]) -> str:
    """Return the table of the page for *pairs*."""
    by_edit: dict[str, set[str]] = defaultdict(set)
    for edit, name in pairs:
        by_edit[edit].add(name)
    rows: dict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    for edit, reads in sorted(by_edit.items()):
        rows[tuple(sorted(reads)), REASONS[edit]].append(edit)
    lines = ["| edited | reads that believe it | why |", "|---|---|---|"]
    for (reads, why), edits in rows.items():
        cells = (", ".join(f"`{name}`" for name in names) for names in (edits, reads))
        lines.append(f"| {' | '.join(cells)} | {why} |")
    return "\n".join(lines)


def write_table(pairs: set[Pair], title: str = BELIEVED) -> None:
    """Write a table of the page anew."""
    text = PAGE.read_text()
    PAGE.write_text(_table(title).sub(lambda _: table_of(pairs), text))

"""What must hold when the month is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain

import pytest
from workers import proof

import clocks
from memalchemy import Checkpointer, MemalchemyError, Store
from memalchemy.anchors import anchor
from memalchemy.space import reclaim
from month.agents import PLAIN, SEALED, SHORT_LIVED, TENANTS, WEEK
from month.jobs import Failed, compare, delete_all, move, must_be_sound, page_of
from month.ledger import Page
from month.places import SqlitePlace
from month.team import Team
from month.turns import word_of
from month.worker import JumpingClock

OF_A_DATABASE = (
    "memalchemy.database.backend",
    "memalchemy.database.database",
    "memalchemy.database.executors",
    "memalchemy.database.sqlite",
    "sqlalchemy.engine.base",
    "sqlalchemy.pool",
)
"""Modules whose objects end with a `Database`; those of statements are kept and used again."""
GREW = 64 * 2**20
"""Bytes by which a worker may be larger after its work than after its first second."""
SHARED_WITH_THE_LAST = 8
"""Letters of a word that an index of words may leave out, which it shares with the word before."""


async def judge(team: Team) -> list[str]:
    """Return all that is wrong. Nobody is at work."""
    complaints = [*team.complaints, *reports(team)]
    left = team.place.connections()
    complaints += [f"somebody is still connected: {line}" for line in left]
    await finish_deletions(team)
    complaints += await what_is_there(team)
    complaints += await what_was_copied(team)
    complaints += await what_has_expired(team)
    complaints += await bytes_of_the_erased(team)
    return complaints


@contextmanager
def noted(complaints: list[str]) -> Iterator[None]:
    """Add to the complaints what a check of the product says, and go on."""
    try:
        yield
    except (Failed, MemalchemyError, AssertionError) as error:
        complaints.append(repr(error))


def reports(team: Team) -> list[str]:
    """Read what the workers say: what went wrong, and what their processes hold."""
    complaints = []
    for file in team.reports:
        if not file.exists():
            complaints.append(f"a worker ended without a report: {team.errors.read_text()[-3000:]}")
            continue
        report = json.loads(file.read_text())
        complaints += report["wrong"]
        before, after = report["before"], report["after"]
        for what in ("threads", "files"):
            if after[what] > before[what]:
                complaints.append(f"{file.name} had {before[what]} {what}, and has {after[what]}")
        if after["resident"] > before["resident"] + GREW:
            complaints.append(f"{file.name} grew by {after['resident'] - before['resident']} bytes")
        left = {
            name: count - before["objects"].get(name, 0)
            for name, count in after["objects"].items()
            if name.startswith(OF_A_DATABASE) and count > before["objects"].get(name, 0)
        }
        if left:
            complaints.append(f"{file.name} still has {left}")
    return complaints


async def finish_deletions(team: Team) -> None:
    """Finish what somebody had begun to delete when it was killed."""
    for db in team.databases():
        async with db:
            for where in team.ledger.wheres(db.tenant):
                page = team.ledger.read(where)
                if page.deletion_began is not None and page.deleted is None:
                    await delete_all(team, db, where)


async def what_is_there(team: Team) -> list[str]:
    """Compare everything with the ledger, and let `verify` and an anchor look at it."""
    complaints = []
    for db in team.databases():
        async with db:
            complaints += await compare(team, db)
            with noted(complaints):
                await must_be_sound(db, team.anchor if db.tenant == SEALED else None)
            if db.tenant == SEALED:
                with noted(complaints):
                    team.anchor = await anchor(db, team.anchor, full=True)
                    await must_be_sound(db, team.anchor)
            if (await db.health())["checked_out"]:
                complaints.append(f"connections of {db.tenant} are checked out")
    if isinstance(team.place, SqlitePlace):
        with noted(complaints):
            proof.file_is_sound(team.place.url)
    return complaints


async def what_was_copied(team: Team) -> list[str]:
    """Copy for the last time, and compare what is there of all that lives."""
    await move(team)
    complaints = []
    for db in team.databases(team.moved_url):
        async with db:
            complaints += [
                f"the copy: {one}" for one in await compare(team, db) if "deleted" not in one
            ]
            with noted(complaints):
                await must_be_sound(db, None)
    return complaints


async def what_has_expired(team: Team) -> list[str]:
    """Let a week pass: what was promised for so long goes, and the rest stays."""
    complaints, clock = [], JumpingClock()
    clock.off = WEEK + timedelta(days=2)
    with pytest.MonkeyPatch.context() as patch:
        clocks.set_clock(patch, clock)
        for db in team.databases():
            async with db:
                await Store(db).sweep()
                await Checkpointer(db).vacuum(all_namespaces=True)
                for where in team.ledger.wheres(db.tenant, SHORT_LIVED):
                    async with page_of(team, where) as entry:
                        entry.note(step="delete")
                        entry.note(step="deleted")
                complaints += [f"a week later: {one}" for one in await compare(team, db)]
    return complaints


async def bytes_of_the_erased(team: Team) -> list[str]:
    """Rewrite the files, and look for what was erased in every byte of them.

    A copy still has what was deleted since, until it is erased there: only people are erased on it.
    """
    erased = {*team.ledger.erased()}
    pages = [team.ledger.read(one) for tenant in TENANTS for one in team.ledger.wheres(tenant)]
    gone = [page for page in pages if page.deleted is not None]
    complaints = []
    for url, deleted in (
        (team.place.url, gone),
        (team.moved_url, [page for page in gone if page.where.person in erased]),
    ):
        async with team.database(PLAIN, url) as db:
            await reclaim(db, full=True)
        traces = {*erased, *chain.from_iterable(map(words_of, deleted))}
        content = b"".join(await asyncio.to_thread(team.place.contents, url))
        found = [trace for trace in traces if trace.encode() in content]
        complaints += [f"the bytes of {url.rsplit('/', 1)[-1]} have {trace}" for trace in found]
        team.counts["traces looked for"] += len(traces)
    return complaints


def words_of(page: Page) -> list[str]:
    """Return the words of all that was written under an id, as an index may spell them."""
    return [word_of(write.text)[SHARED_WITH_THE_LAST:] for write in page.writes]

"""What operators do while the agents work. Each act is a function of the team.

A job that loses its connection is begun again: all of them go on where they were.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from releases import memalchemy, next_release

from memalchemy import Checkpointer, Conflict, Database, DatabaseUnreachable, NotFound, Store
from memalchemy.anchors import anchor
from memalchemy.codec.encryption import generate_key
from memalchemy.conformance import Subject
from memalchemy.inspection import Inspector
from memalchemy.maintenance.person import find_keys, find_person, forget_person
from memalchemy.rotation import rotate_keys
from memalchemy.signing import sign
from memalchemy.space import measure, reclaim
from memalchemy.transfer import copy
from memalchemy.verify import verify
from month.agents import NATIVE, OVER_HTTP, PLAIN, REMOTE, SEALED, TENANTS, TOKEN, kinds
from month.ledger import Entry, Where
from month.places import PostgresPlace
from month.team import Kept, Team
from month.turns import PEOPLE, finish_deletion, in_our_words, word_of

LEFT_ALONE = 15
"""People who are never erased."""


class Failed(AssertionError):
    """A job came to an end that it must not."""


# --- Every day ------------------------------------------------------------------------------------


async def prune(team: Team) -> None:
    """Delete old checkpoints of all threads, of all frameworks; the newest stay."""
    for db in team.databases():
        async with db:
            await Checkpointer(db).prune(keep_last=team.chance.randint(1, 5), all_namespaces=True)


async def tidy(team: Team) -> None:
    """Remove what has expired, and give its space back."""
    for db in team.databases():
        async with db:
            await Store(db).sweep()
            await Checkpointer(db).vacuum(all_namespaces=True)
    async with team.database(PLAIN) as db:
        await reclaim(db)


async def look(team: Team) -> None:
    """Look at a few pages of the inspector: in the browser, and from Python."""
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as browser:
        for page in ("", "api/overview", "api/threads", "api/space"):
            try:
                answer = await browser.get(f"{team.server}/inspector/{page}", timeout=60)
            except httpx.TransportError:
                break  # the server is being restarted
            if answer.status_code not in (200, 503):
                raise Failed(f"the inspector's {page} is {answer.status_code}: {answer.text[:500]}")
    for db in team.databases():
        async with db:
            inspector = Inspector(db)
            await inspector.overview()
            await measure(db)
            threads = (await inspector.threads())["threads"]
            for one in team.chance.sample(threads, min(3, len(threads))):
                log = one["thread_id"], one["namespace"]
                with suppress(NotFound):  # it was deleted meanwhile
                    await inspector.thread(*log)
                    await inspector.timeline(*log)
                    await inspector.transcript(*log)
            await inspector.person(team.chance.choice(PEOPLE))
            where = team.chance.choice(team.ledger.wheres(db.tenant) or [None])
            if where and (written := team.ledger.read(where).writes):
                await inspector.search(word_of(written[0].text))


async def check(team: Team) -> None:
    """Verify everything while the agents write, against the last anchor where there is one."""
    for db in team.databases():
        async with db:
            await must_be_sound(db, team.anchor if db.tenant == SEALED else None)


async def take_an_anchor(team: Team) -> None:
    """Take an anchor of the sealed tenant, against the last one."""
    async with team.database(SEALED) as db:
        team.anchor = await anchor(db, team.anchor)
    team.anchor.write(team.anchor_file)


async def back_up(team: Team) -> None:
    """Take a backup, and make sure that it could be used."""
    backup = await team.place.back_up()
    team.backup = Kept(backup, team.keys.copy())
    async with team.place.opened(backup) as url:
        for db in team.databases(url):
            async with db:
                await must_be_sound(db, None)
                team.complaints += [
                    f"the backup: {one}" for one in await compare(team, db, as_of=team.backup)
                ]


async def move(team: Team) -> None:
    """Copy everything to another database, once more."""
    try:
        await copy_all(team)
    except Conflict as refused:
        # The clocks of those who write jump, so that a later write of an item can have an earlier
        # time; logs have none. Then it is copied into an empty database, as the error says.
        if not all(name.startswith("item ") for name in refused.current):
            raise
        team.moved = None
        await copy_all(team)


async def copy_all(team: Team) -> None:
    if team.moved is None:
        team.moved = await team.place.fresh()
        async with Database(team.place.at(team.moved), migrate="upgrade"):
            pass
    for tenant in TENANTS:
        async with team.database(tenant) as old, team.database(tenant, team.moved_url) as new:
            await copy(old, new)


# --- Now and then ---------------------------------------------------------------------------------


async def erase_a_person(team: Team) -> None:
    """Delete all that is known about somebody, and leave no byte of it."""
    left = [person for person in PEOPLE if not team.ledger.is_erased(person)]
    if len(left) <= LEFT_ALONE:
        return
    person = team.chance.choice(left)
    team.ledger.begin_erasure(person)
    await erase(team, person)


async def erase(team: Team, person: str) -> None:
    """Erase somebody everywhere: it may have been done before."""
    for url in everywhere(team):
        for db in team.databases(url):
            async with db:
                for where in team.ledger.wheres(db.tenant):
                    if where.person == person:
                        await delete_all(team, db, where)
                await forget_person(db, await find_person(db, person))
                for namespace, key in await find_keys(db, person):
                    # ADK's memories leave a mark under the id of one that was deleted.
                    await Store(db).delete(namespace, key)
                left = (await find_person(db, person), await find_keys(db, person))
                if any(left):
                    raise Failed(f"{person} is erased, and there is {left}")


async def delete_all(team: Team, db: Database, where: Where) -> None:
    """Delete what is under an id, when nobody writes to it."""
    subject, adapter = of_kind(team, db, where.kind)
    async with page_of(team, where) as entry:
        if entry.page.is_open:
            entry.note(step="delete")
        await finish_deletion(subject, adapter, entry)


async def rotate_encryption_keys(team: Team) -> None:
    """Encrypt everything with a new key, as docs/encryption.md says."""

    async def job(db: Database) -> None:
        if (left := (await rotate_keys(db)).left) != 0:
            raise Failed(f"{left} rows are not encrypted with the new key")

    await _change_keys(team, team.keys.encrypting, job)


async def rotate_signing_keys(team: Team) -> None:
    """Sign everything with a new key, and take an anchor with it."""

    async def job(db: Database) -> None:
        report = await sign(db)
        if report.refused_count:
            raise Failed(f"these were not signed: {report.refused[:5]}")

    await _change_keys(team, team.keys.signing, job)


async def _change_keys(
    team: Team, keys: list[str], job: Callable[[Database], Awaitable[None]]
) -> None:
    """Give everybody a new key, let everybody use it, and take the old one away."""
    if len(keys) == 1:
        keys.append(generate_key())
        await team.restart_all()
        keys.reverse()
        await team.restart_all()
    for url in everywhere(team):
        async with team.database(SEALED, url) as db:
            await job(db)
    await team.restart_all()  # whoever was late may have written with the old one
    async with team.database(SEALED) as db:
        await job(db)
    await take_an_anchor(team)
    del keys[1:]
    await team.restart_all()


# --- Once -----------------------------------------------------------------------------------------


async def upgrade(team: Team) -> None:
    """Upgrade the database to the next release, under agents of this one; then some are of both."""
    release = await asyncio.to_thread(
        next_release, team.directory / "next", version="98.0.0", oldest_release="0.1.0"
    )
    await upgrade_to(release, team)
    team.releases.append(release)
    await team.restart_all()


async def upgrade_to(release: Path, team: Team) -> None:
    """Upgrade as a deploy job of the release does, again where its connection is cut."""
    for _ in range(20):
        upgrade = (release, "--db", team.place.url, "upgrade", "--json")
        done = await asyncio.to_thread(memalchemy, *upgrade)
        if not done.returncode:
            return
        if DatabaseUnreachable.code not in done.stderr:
            break
    raise Failed(done.stderr)


async def restore(team: Team) -> None:
    """Put the last backup in the place of the database: what was written since is gone."""
    if team.backup is None:
        await back_up(team)
    kept = team.backup
    assert kept is not None
    async with team.pause():
        await team.place.put_back(kept.backup)
        for release in team.releases[1:]:  # the backup may be older than the upgrade
            await upgrade_to(release, team)
        team.ledger.roll_back([*TENANTS], kept.backup.taken)
        team.keys.also(kept.keys)
        team.moved = None
        for person in team.ledger.erased():
            await erase(team, person)
        if team.anchor is not None:
            async with team.database(SEALED) as db:
                team.anchor = await anchor(db, team.anchor, accept_rollback=True)
            team.anchor.write(team.anchor_file)
    team.backup = None


async def lose_the_primary(team: Team) -> None:
    """Lose the server in the middle of everything; the standby is promoted."""
    assert isinstance(team.place, PostgresPlace)
    await team.place.lose_the_primary()
    await team.restart_all()  # some were told of a replica


async def prepare_to_move_to_a_subscriber(team: Team) -> None:
    """Let a new server subscribe to everything."""
    assert isinstance(team.place, PostgresPlace)
    team.subscriber = await team.place.follow_by_subscription(team.releases[-1])


async def move_to_the_subscriber(team: Team) -> None:
    """Let the subscriber take over."""
    assert isinstance(team.place, PostgresPlace)
    async with team.pause():
        await team.place.move_to(team.subscriber)
        team.moved = None


# --- What the jobs have in common -----------------------------------------------------------------


def of_kind(team: Team, db: Database, kind: str) -> tuple[Subject[Any], Any]:
    """Return how a kind of thing is used, and what stores it, without the HTTP server."""
    for agent in (NATIVE, REMOTE, *team.frameworks[db.tenant]):
        for name, subject in kinds(agent).items():
            if name == kind:
                adapter = Checkpointer(db) if kind in OVER_HTTP else subject.open(db)
                return subject, adapter
    raise LookupError(kind)


def everywhere(team: Team) -> list[str | None]:
    """Return the URLs of the database, which is ``None``, and of its copy, if there is one."""
    return [None, *([team.moved_url] if team.moved else [])]


@asynccontextmanager
async def page_of(team: Team, where: Where) -> AsyncIterator[Entry]:
    """Hold the page of an id when its writer has left it. The loop goes on meanwhile."""
    while True:
        with team.ledger.held(where) as entry:
            if entry is not None:
                yield entry
                return
        await asyncio.sleep(0.01)


async def compare(team: Team, db: Database, *, as_of: Kept | None = None) -> list[str]:
    """Compare all that a tenant has with the ledger."""
    complaints = []
    opened: dict[str, tuple[Subject[Any], Any]] = {}
    for where in team.ledger.wheres(db.tenant):
        page = team.ledger.read(where)
        if as_of is not None:
            page = page.as_of(as_of.backup.taken)
        if where.kind not in opened:
            opened[where.kind] = of_kind(team, db, where.kind)
        subject, adapter = opened[where.kind]
        complaint = page.complaint(await subject.read(adapter, where.id_), appends=subject.appends)
        if complaint:
            complaints.append(f"{where}: {complaint}")
    return complaints


async def must_be_sound(db: Database, against: Any) -> None:
    """Verify a tenant. Notes are about rows that adapters write without words, on purpose."""
    report = await verify(db, anchor=against)
    if wrong := [finding for finding in report.findings if finding.severity != "note"]:
        raise Failed(f"verify of {db.tenant}: {wrong[:5]}")


Job = Callable[[Team], Awaitable[None]]
DAILY: dict[Job, int] = {
    prune: 10,
    tidy: 6,
    look: 10,
    check: 6,
    take_an_anchor: 6,
    back_up: 4,
    move: 6,
    erase_a_person: 8,
    rotate_encryption_keys: 1,
    rotate_signing_keys: 1,
}
"""What is done again and again, each with how often."""


async def do(job: Job, team: Team) -> None:
    """Do a job, again if its connection was lost in the middle of it."""
    for _ in range(20):
        begin = time.monotonic()
        try:
            with in_our_words():
                await job(team)
        except DatabaseUnreachable as error:
            team.note(f"{job.__name__}, interrupted: {error}", begin)
            await asyncio.sleep(0.2)
        else:
            team.note(job.__name__, begin)
            return
    raise Failed(f"{job.__name__} was interrupted twenty times")

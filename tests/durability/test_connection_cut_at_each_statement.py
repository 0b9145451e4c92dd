"""The connection is cut at every statement of every operation, before it and after it: with asyncpg
and for saves both, for what else there is with psycopg in turns.

Reads and saves do not notice. Everything else either does not, or says that it may have happened;
and it has happened as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from proxy import Proxy
from sqlalchemy import Connection

from memalchemy import Checkpointer, Database, DatabaseUnreachable, Retention, _retry
from rows import copy_logs, logs_of
from servers import Postgres

Work = Callable[[Checkpointer], Awaitable[Any]]

DRIVERS = pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])


def state(n: int) -> dict[str, Any]:
    return {"n": n, "text": f"word{n} and what every step has in common, " * 3}


async def listed(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("created_at", "tenant")}


async def rows(work: Awaitable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [without_times(row) for row in await work]


async def replace_all_with_one(keep: Checkpointer) -> str:
    """A snapshot under a retention, so the save also sweeps what it left behind."""
    strict = Checkpointer(keep.db, retention=Retention(keep_last=2), max_chain_depth=1)
    return await strict.save(state(9), "thread", "new")


async def save_two(keep: Checkpointer) -> None:
    async with keep.db.transaction() as tx:
        await keep.save(state(9), "thread", "new", connection=tx)
        await keep.save(state(9), "other", "new", connection=tx)


async def save_twice(keep: Checkpointer) -> None:
    """The second finds its base in the cache, and is one statement."""
    await keep.save(state(8), "thread", "first")
    await keep.save(state(9), "thread", "second")


READS: dict[str, Work] = {
    "load": lambda keep: keep.load("thread"),
    "load one": lambda keep: keep.load("thread", "c1"),
    "exists": lambda keep: keep.exists("thread", "c1"),
    "list_checkpoints": lambda keep: keep.list_checkpoints("thread"),
    "history": lambda keep: rows(_dicts(keep.history("thread", before="c3"))),
    "get_metadata": lambda keep: rows(_one(keep.get_metadata("thread"))),
    "query_by_metadata": lambda keep: rows(keep.query_by_metadata("n", 2)),
    "list_with_metadata": lambda keep: rows(keep.list_with_metadata()),
    "list_threads": lambda keep: keep.list_threads(pattern="t*"),
    "list_logs": lambda keep: keep.list_logs(pattern="t*", below=True),
    "search": lambda keep: rows(keep.search("word3")),
    "get_storage_stats": lambda keep: keep.get_storage_stats("thread"),
    "diff": lambda keep: keep.diff("thread", "c1", "c3"),
    "export": lambda keep: rows(listed(keep.export(thread_id="other"))),
    "check": lambda keep: keep.db.check(),
    "current": lambda keep: keep.db.current(),
}
SAVES: dict[str, Work] = {
    "save": lambda keep: keep.save(state(9), "thread", "new"),
    "save twice": save_twice,
    "save to a new thread": lambda keep: keep.save(state(9), "fresh", "new"),
    "replace": lambda keep: keep.save(state(9), "thread", "c1"),
    "replace the newest": lambda keep: keep.save(state(9), "thread", "c3"),
    "branch": lambda keep: keep.save(state(9), "thread", "new", parent_id="c1"),
    "save with expected_parent": lambda keep: keep.save(
        state(9), "thread", "new", expected_parent="c3"
    ),
    "save to an empty thread": lambda keep: keep.save(
        state(9), "fresh", "new", expected_parent=None
    ),
    "save to a deleted thread": lambda keep: keep.save(state(9), "deleted", "new"),
    "save to an expired thread": lambda keep: keep.save(state(9), "expired", "new"),
    "save with retention": replace_all_with_one,
}
CHANGES: dict[str, Work] = {
    "delete one": lambda keep: keep.delete("thread", "c1"),
    "delete the newest": lambda keep: keep.delete("thread", "c3"),
    "delete": lambda keep: keep.delete("thread"),
    "prune one": lambda keep: keep.prune("thread", keep_last=2),
    "prune": lambda keep: keep.prune(keep_last=2),
    "vacuum": lambda keep: keep.vacuum(0),
    "rewrite": lambda keep: keep.rewrite("thread"),
    "forget a thread": lambda keep: keep.forget(thread_id="thread"),
    "forget by metadata": lambda keep: keep.forget(metadata={"n": 1}),
    "forget a tenant": lambda keep: keep.forget(tenant=keep.db.tenant),
    "fork": lambda keep: keep.fork("thread", "c2", new_thread_id="copy"),
    "copy_thread": lambda keep: keep.copy_thread("thread", "copy"),
    "transaction": save_two,
    "migrate": lambda keep: keep.db.migrate(),
}


async def _dicts(infos: AsyncIterator[Any]) -> list[dict[str, Any]]:
    return [info.as_dict() async for info in infos]


async def _one(row: Awaitable[dict[str, Any] | None]) -> list[dict[str, Any]]:
    found = await row
    return [] if found is None else [found]


_LOOK = """
SELECT t.thread_id, t.deleted_at IS NOT NULL, c.checkpoint_id, c.parent_id, c.seq, c.meta,
       d.checksum, t.head_id = (SELECT x.checkpoint_id FROM checkpoints x
         WHERE x.log_id = t.log_id ORDER BY x.seq DESC LIMIT 1)
FROM threads t
LEFT JOIN checkpoints c USING (log_id)
LEFT JOIN deltas d USING (log_id, seq)
WHERE t.tenant = %s AND (t.expires_at IS NULL OR t.expires_at > now())
ORDER BY t.thread_id, c.seq
"""

Content = dict[str, list[tuple[Any, ...]]]


@dataclass
class Bench:
    """Tenants that are all alike, each for one cut."""

    through: Database
    """Over the network that drops."""
    direct: Database
    connection: psycopg.Connection[Any]

    template: str = ""

    async def fill(self) -> None:
        """The template: two threads, one that is deleted, and one that has expired."""
        self.template = f"t-{uuid4().hex[:12]}"
        keep = Checkpointer(self.direct.for_tenant(self.template))
        for n in range(4):
            await keep.save(state(n), "thread", f"c{n}", {"n": n})
        await keep.save(state(1), "other", "c1", {"n": 1})
        await keep.save(state(1), "deleted", "c1")
        await keep.save(state(1), "expired", "c1", ttl=0.000001)
        await keep.delete("deleted")

    async def tenant(self) -> str:
        """A new tenant that is like the template."""
        tenant = f"t-{uuid4().hex[:12]}"

        def copy(connection: Connection) -> None:
            logs = logs_of(connection, self.template)
            copy_logs(connection, ((log, log._replace(tenant=tenant)) for log in logs))

        await self.direct.run_sync(copy)
        return tenant

    def content(self, tenant: str) -> Content:
        """What a reader can find, thread by thread."""
        found: Content = {}
        for thread, *row in self.connection.execute(_LOOK, (tenant,)):
            found.setdefault(thread, []).append((*row,))
        return found

    async def whole(self, tenant: str) -> None:
        """Everything with a name loads, and the thread goes on from a cache that is right."""
        ours, theirs = (Checkpointer(d.for_tenant(tenant)) for d in (self.through, self.direct))
        for thread in await theirs.list_threads():
            for checkpoint_id in await theirs.list_checkpoints(thread):
                assert await theirs.load(thread, checkpoint_id) is not None
        await ours.save(state(10), "thread", "later")
        await ours.save(state(11), "thread", "last")
        assert await theirs.load("thread", "later") == state(10)
        assert await theirs.load("thread") == state(11)


@pytest.fixture
async def bench(
    network: Proxy,
    postgres: Postgres,
    name: str,
    driver: str,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Bench]:
    # How long it waits before another attempt is not what is tested here.
    monkeypatch.setattr(_retry, "random", SimpleNamespace(uniform=lambda low, high: 0.0))
    async with (
        Database(network.url(name, driver=driver), connect_timeout=5) as through,
        Database(postgres.url(name), migrate="off") as direct,
    ):
        with psycopg.connect(
            host=postgres.host,
            port=postgres.port,
            user=postgres.user,
            password=postgres.password,
            dbname=name,
            autocommit=True,
        ) as connection:
            bench = Bench(through, direct, connection)
            await bench.fill()
            yield bench
        assert (await through.health())["checked_out"] == 0


async def cuts(network: Proxy, bench: Bench, *, alternate: bool = False) -> AsyncIterator[str]:
    """A tenant for each place where the connection can be cut, with the cut ordered.

    Ends when there was nothing left to cut. *alternate*: before a statement, after the next.
    """
    for first in (False,) if alternate else (False, True):
        for turn in count(1):
            tenant = await bench.tenant()
            before = network.cuts
            network.drop_turn(turn, answer=first ^ (alternate and turn % 2 == 0))
            yield tenant
            network.calm()
            if network.cuts == before:
                assert turn > 1, "nothing was cut"
                break


@DRIVERS
@pytest.mark.parametrize("operation", READS)
async def test_a_read_does_not_notice(
    network: Proxy, bench: Bench, operation: str, driver: str
) -> None:
    work = READS[operation]
    same = await bench.tenant()
    expected = await work(Checkpointer(bench.direct.for_tenant(same)))

    async for tenant in cuts(network, bench, alternate=driver == "psycopg"):
        assert await work(Checkpointer(bench.through.for_tenant(tenant))) == expected


@DRIVERS
@pytest.mark.parametrize("operation", SAVES)
async def test_a_save_does_not_notice(network: Proxy, bench: Bench, operation: str) -> None:
    work, reference = SAVES[operation], await bench.tenant()
    await work(Checkpointer(bench.direct.for_tenant(reference)))
    after = bench.content(reference)

    async for tenant in cuts(network, bench):
        await work(Checkpointer(bench.through.for_tenant(tenant)))
        network.calm()
        assert bench.content(tenant) == after
        await bench.whole(tenant)


@DRIVERS
@pytest.mark.parametrize("operation", CHANGES)
async def test_a_change_is_whole_or_absent_as_it_says(
    network: Proxy, bench: Bench, operation: str, driver: str
) -> None:
    work, reference = CHANGES[operation], await bench.tenant()
    before = bench.content(reference)
    expected = await work(Checkpointer(bench.direct.for_tenant(reference)))
    after = bench.content(reference)
    unanswered = 0

    async for tenant in cuts(network, bench, alternate=driver == "psycopg"):
        try:
            result = await work(Checkpointer(bench.through.for_tenant(tenant)))
        except DatabaseUnreachable as error:
            network.calm()
            found, unknown = bench.content(tenant), error.maybe_applied
            unanswered += unknown
            if operation == "transaction" and not unknown:
                assert found == before  # the block is the host's, so it is not repeated
            else:
                assert unknown, "a change that was not made can be repeated"
                for thread in before | after:
                    assert found.get(thread) in (before.get(thread), after.get(thread))
        else:
            network.calm()
            assert result == expected
            assert bench.content(tenant) == after
        await bench.whole(tenant)

    # It is sent and answered once for each transaction, and only then nobody can know.
    assert unanswered <= 2 * len(before)

"""Storage: the numbers and sizes of what a database holds, and what takes the space."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memalchemy import _detached, space
from memalchemy.contracts import MAX_LIMIT
from memalchemy.database import Database
from memalchemy.dialects import namespace_binds
from memalchemy.errors import Corrupt, MemalchemyError
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import find_heads, query
from memalchemy.inspection._records import Record, framework_of
from memalchemy.inspection.threads import thread_records
from memalchemy.keys import decode_namespace, encode_namespace
from memalchemy.log import Log
from memalchemy.maintenance.space import count_live_threads, measure_namespaces

EXACT = 5_000
"""Logs up to which sums are exact; of more, those of a random sample are projected."""
SAMPLE = 2_000
"""Logs of a sample."""
FRAMEWORKS = 100
"""Frameworks that are told apart, at most."""
SUMMED_FOR = timedelta(seconds=15)
"""Time for which the sums of a large database are shown again."""
MEASURED_FOR = timedelta(seconds=60)
"""Time for which a measurement of a large database is shown again."""


class StorageMeter:
    """Storage of a database by framework, thread and kind; measured at most once a minute."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._summed: tuple[datetime, Record] | None = None
        self._measured: tuple[datetime, Record] | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._damage: Corrupt | None = None
        """The damage that ended the last measurement; ``None`` if it met none."""

    async def read(self) -> Record:
        """Return the space that is taken, by framework, thread, kind of row and table.

        A large database is measured in the background: until that has ended, ``largest``,
        ``kinds`` and ``tables`` are empty, and ``measuring`` is true. ``total_bytes`` is the whole
        database, which ``kinds`` add up to.

        Raises:
            Corrupt: a thread that takes the most space is not what was signed.
        """
        sums = await self.sums()
        known = self._measured
        now = datetime.now(UTC)
        if known is None or now - known[0] > MEASURED_FOR:
            if self._measuring is None or self._measuring.done():
                self._measuring = _detached.create_task(self._measure())
            if not sums["estimated"]:
                await asyncio.shield(self._measuring)
                known = self._measured
                if self._damage is not None:
                    raise self._damage
        totals = {
            "stored_bytes": sum(one["stored_bytes"] for one in sums["frameworks"]),
            "raw_bytes": sum(one["raw_bytes"] for one in sums["frameworks"]),
            "frameworks": sums["frameworks"],
        }
        if known is None:
            empty: Record = {"file_bytes": self.db.file_bytes, "free_bytes": None}
            empty["total_bytes"] = self.db.file_bytes
            empty |= {"largest": [], "kinds": [], "tables": [], "measured_at": None}
            return totals | empty | {"estimated": True, "measuring": True}
        measuring = self._measuring is not None and not self._measuring.done()
        return totals | known[1] | {"measuring": measuring}

    async def sums(self) -> Record:
        """Return the numbers of threads and checkpoints, and their bytes, by framework.

        Those of a large database, which are estimates, may be 15 seconds old.
        """
        now = datetime.now(UTC)
        if self._summed is None or now - self._summed[0] > SUMMED_FOR:
            sums = await _sum_frameworks(self.db)
            if not sums["estimated"]:
                return sums
            self._summed = now, sums
        return self._summed[1]

    async def _measure(self) -> None:
        self._damage = None
        try:
            await self._measure_once()
        except Corrupt as error:
            self._damage = error
        except MemalchemyError:
            pass  # the next call measures again

    async def _measure_once(self) -> None:
        measured = await space.measure(self.db, largest=20)
        now = datetime.now(UTC)
        logs = [
            Log(self.db.tenant, share.thread_id, encode_namespace(share.namespace))
            for share in measured.largest
        ]
        heads = {head.log_id: head for head in await find_heads(self.db, logs)}
        known = [heads[log.key] for log in logs if log.key in heads]
        largest = await thread_records(self.db, known)
        self._measured = (
            now,
            {
                "stored_bytes": measured.stored_bytes,
                "raw_bytes": measured.raw_bytes,
                "frameworks": [
                    {
                        "name": one.name,
                        "threads": one.threads,
                        "raw_bytes": one.raw_bytes,
                        "stored_bytes": one.stored_bytes,
                    }
                    for one in measured.frameworks
                ],
                "file_bytes": measured.file_bytes,
                "free_bytes": measured.free_bytes,
                "total_bytes": measured.total_bytes,
                "largest": largest,
                "kinds": _kinds_of_whole(measured),
                "tables": [
                    {"name": one.name, "bytes": one.bytes, "kind": one.kind}
                    for one in measured.pieces
                ],
                "estimated": measured.estimated,
                "measured_at": now.isoformat(),
            },
        )


def _kinds_of_whole(measured: space.Space) -> list[Record]:
    """Return the bytes of each kind, and what is left, which add up to the whole database."""
    kinds: list[Record] = [{"name": one.name, "bytes": one.bytes} for one in measured.kinds]
    if measured.total_bytes is not None:
        free = measured.free_bytes or 0
        rest = measured.total_bytes - measured.content_bytes - free
        beside = {"indexes, ids, metadata, other tenants": max(rest, 0), "free pages": free}
        kinds += [{"name": name, "bytes": size, "rest": True} for name, size in beside.items()]
    return [one for one in kinds if one["bytes"]]


async def _sum_frameworks(db: Database) -> Record:
    """Return the numbers of threads and checkpoints, and their bytes, by framework.

    A thread in several namespaces counts once in ``threads``, unless that is estimated, and once
    for each namespace in its framework.
    """
    frameworks = await _count_logs(db, exact=False)
    total = sum(frameworks.values())
    estimated = total > EXACT
    binds = {"k_tenant": db.tenant, "p_limit": SAMPLE}
    share = 1.0
    if estimated:
        rows = await query(db, statements.sum_sampled_logs, binds)
        share = sum(row.logs for row in rows) / total
    if not estimated or share * total < SAMPLE / 10:  # others' logs are the most
        share = 1.0
        rows = await query(db, measure_namespaces, {"k_tenant": db.tenant})
        frameworks = await _count_logs(db, exact=True) if not estimated else frameworks
    threads = sum(frameworks.values())
    if not estimated:
        threads = (await query(db, count_live_threads, {"k_tenant": db.tenant}))[0][0]
    sums = {name: [0, 0, 0] for name in frameworks}
    for row in rows:
        name = framework_of(decode_namespace(row.namespace))
        held = sums.setdefault(name, [0, 0, 0])
        for at, value in enumerate((row.checkpoints, row.raw_size, row.stored_size)):
            held[at] += int(value)
    return {
        "threads": threads,
        "checkpoints": round(sum(held[0] for held in sums.values()) / share),
        "estimated": estimated,
        "frameworks": [
            {
                "name": name,
                "threads": threads,
                "raw_bytes": round(sums[name][1] / share),
                "stored_bytes": round(sums[name][2] / share),
            }
            for name, threads in sorted(frameworks.items(), key=lambda one: -one[1])
            if threads
        ],
    }


async def _count_logs(db: Database, *, exact: bool) -> dict[str, int]:
    """Return the number of logs of each framework."""
    found: dict[str, int] = {}
    low = "/"
    while len(found) < FRAMEWORKS:
        binds: dict[str, Any] = {"k_tenant": db.tenant, "p_low": low}
        place = (await query(db, statements.next_namespace, binds))[0].place
        if place is None:
            break
        name = framework_of(decode_namespace(place))
        path = encode_namespace((name,)) if place != "/" else "/"
        scope = "namespace" if path == "/" else "below"
        binds = namespace_binds(db.tenant, path, below=scope == "below")
        counted = await query(
            db,
            partial(statements.count_logs_of_namespaces, scope=scope, exact=exact),
            binds | {"p_limit": MAX_LIMIT},
        )
        found[name] = found.get(name, 0) + int(counted[0].logs)
        low = "/\x01" if path == "/" else path[:-1] + "0"
        if low <= place:
            raise Corrupt(f"the stored namespace {place!r} is malformed")
    return found

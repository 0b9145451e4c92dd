"""Several processes on signed threads: each save that was acknowledged is there, and is proven.

A process saves behind the head that it knows, and looks at the log where another has moved it.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_checkpointer_processes import SECONDS, crowd, tenant  # noqa: F401 (a fixture)
from workers import proof

from memalchemy import Checkpointer, Database
from memalchemy.codec.secret_keys import generate_key
from memalchemy.verify import verify

pytestmark = pytest.mark.own_signing_keys


async def _is_proven(db: Database) -> None:
    """Every row is what was signed, and none is missing."""
    assert (await verify(db)).findings == ()


async def test_processes_saving_on_one_signed_thread_lose_nothing(
    place: str,
    tenant: str,  # noqa: F811
) -> None:
    key = generate_key()
    saving: list[tuple[str, dict[str, Any]]] = [
        ("save", {"worker": f"w{i}", "threads": ["thread"], "saves": 50}) for i in range(4)
    ]

    told = crowd(place, tenant, saving, CROWD_SIGNING_KEY=key)

    async with Database(place, tenant=tenant, signing_keys=key) as db:
        keep = Checkpointer(db)
        infos = await proof.history(keep, "thread")
        assert len(told) == 200
        assert sorted(info.checkpoint_id for info in infos) == sorted(x["saved"] for x in told)
        proof.is_one_line(infos)
        await proof.all_load(keep, "thread", infos)
        await _is_proven(db)


async def test_what_deleters_leave_of_signed_threads_is_proven(
    place: str,
    tenant: str,  # noqa: F811
) -> None:
    key = generate_key()
    common = {"thread": "thread", "seconds": min(SECONDS, 5)}
    savers = [("save_for", {"worker": f"w{i}"} | common) for i in range(3)]
    deleters = [("delete_for", {"seed": 1} | common)]

    told = crowd(place, tenant, savers + deleters, CROWD_SIGNING_KEY=key)

    saved = {fact["saved"] for fact in told if "saved" in fact}
    deleted = {fact["deleted"] for fact in told if "deleted" in fact}
    pruned = sum(fact.get("pruned", 0) for fact in told)
    async with Database(place, tenant=tenant, signing_keys=key) as db:
        keep = Checkpointer(db)
        infos = await proof.history(keep, "thread")
        assert {info.checkpoint_id for info in infos} <= saved - deleted
        assert len(infos) == len(saved) - len(deleted) - pruned
        await proof.all_load(keep, "thread", infos)
        await _is_proven(db)

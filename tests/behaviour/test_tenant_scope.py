"""The tenant of a scope: said where a request comes in, used where memory is opened."""

from __future__ import annotations

import asyncio

import pytest

from memalchemy import Checkpointer, Database, tenant_scope


async def served(db: Database, tenant: str, gate: asyncio.Barrier) -> list[str]:
    """What a request does that knows of no tenant itself."""
    with tenant_scope(tenant):
        await gate.wait()
        checkpointer = Checkpointer(db.for_scope())
        await checkpointer.save({"of": tenant}, f"of {tenant}")
        await gate.wait()
        return await checkpointer.list_threads()


async def test_each_of_many_at_once_has_its_own_tenant(db: Database) -> None:
    tenants = [f"{db.tenant}-{n}" for n in range(4)]
    gate = asyncio.Barrier(len(tenants))

    found = await asyncio.gather(*(served(db, tenant, gate) for tenant in tenants))

    assert found == [[f"of {tenant}"] for tenant in tenants]
    assert await Checkpointer(db).list_threads() == []


async def test_outside_of_a_scope_there_is_no_tenant(db: Database) -> None:
    with pytest.raises(LookupError, match="tenant_scope"):
        db.for_scope()
    with tenant_scope("acme"):
        assert db.for_scope().tenant == db.for_tenant("acme").tenant == "acme"
    with pytest.raises(LookupError, match="tenant_scope"):
        db.for_scope()


async def test_the_innermost_scope_counts_and_what_was_made_stays(db: Database) -> None:
    with tenant_scope("outer") as name:
        outer = db.for_scope()
        with tenant_scope("inner"):
            inner = db.for_scope()
            task = asyncio.create_task(asyncio.to_thread(lambda: db.for_scope().tenant))
        again = db.for_scope()

    assert name == outer.tenant == again.tenant == "outer"
    assert inner.tenant == await task == "inner"
    assert inner.identity == db.identity


@pytest.mark.parametrize("wrong", ["", "~", None, 7])
def test_a_scope_is_of_a_tenant(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match="tenant must"), tenant_scope(wrong):  # type: ignore[arg-type]
        pass

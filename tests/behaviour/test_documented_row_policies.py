"""PostgreSQL's row policies as a second check of the tenant: the SQL of docs/tenants.md."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from store_helpers import Embedder

from memalchemy import (
    AuthenticationFailed,
    Checkpointer,
    Conversation,
    Database,
    Store,
    VectorStore,
)
from memalchemy.dialects import DIALECTS
from memalchemy.migrate import TABLES, VERSION_TABLE
from servers import Postgres

PAGE = Path(__file__).parents[2] / "docs" / "tenants.md"
ROLES = ("acme_tenant", "globex_tenant")

Open = Callable[..., Database]


@pytest.fixture(scope="module")
def walled(postgres: Postgres, name: str) -> Open:
    """Opens the database as one of the roles, under its policy or not."""
    section = PAGE.read_text().partition("## A role for each tenant")[2].partition("\n#")[0]
    (policies,) = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    assert all(table in policies for table in TABLES)
    postgres.execute(policies, name)
    for role in ROLES:
        if not postgres.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
            postgres.execute(f"CREATE ROLE {role} LOGIN")
        for grant in DIALECTS["postgresql"].maintenance.grants(
            role, None, (*TABLES, VERSION_TABLE)
        ):
            postgres.execute(grant, name)

    def open_one(role: str, tenant: str | None = None) -> Database:
        return Database(postgres.url(name, user=role), tenant=tenant or role)

    return open_one


async def test_a_tenant_with_a_role_of_its_own_works_as_ever(walled: Open) -> None:
    for role in ROLES:
        async with walled(role) as db:
            checkpointer, store = Checkpointer(db), Store(db, embedder=Embedder())
            for n in range(3):
                await checkpointer.save({"n": n, "word": f"kettle {role}"}, "t")
            await Conversation(db, "t").add("question", "answer")
            await store.put(("n",), "k", "a kettle")
            assert await checkpointer.load("t") == {"n": 2, "word": f"kettle {role}"}
            assert [hit["thread_id"] for hit in await checkpointer.search(role)] == ["t"]
            assert await Conversation(db, "t").count() == 2
            assert len(await store.search(("n",), "kettle", mode="hybrid")) == 1
            documents = VectorStore(store)
            await documents.upsert("a kettle")
            assert len(await documents.search("kettle")) == 1
            assert await checkpointer.prune("t", keep_last=1) == 2
            assert await checkpointer.vacuum(30) == 0


async def test_another_tenant_is_behind_the_wall(walled: Open) -> None:
    mine, theirs = ROLES
    async with walled(theirs) as db:
        await Checkpointer(db).save({"secret": 1}, "theirs")
    async with walled(mine, theirs) as db:
        assert await Checkpointer(db).load("theirs") is None
        assert await Checkpointer(db).list_threads() == []
        with pytest.raises(AuthenticationFailed, match="lacks a right"):
            await Checkpointer(db).save({"n": 1}, "new")
        assert await Checkpointer(db).forget(tenant=db.tenant) == 0
    async with walled(theirs) as db:
        assert await Checkpointer(db).load("theirs") == {"secret": 1}


async def test_many_at_once_find_their_own(walled: Open) -> None:
    async def work(role: str) -> list[str]:
        async with walled(role) as db:
            await Checkpointer(db).save({}, f"of {role}")
            return await Checkpointer(db).list_threads(pattern="of *")

    assert await asyncio.gather(*map(work, ROLES)) == [[f"of {role}"] for role in ROLES]

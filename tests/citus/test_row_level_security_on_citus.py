"""Row-level security on a cluster: `tenants enforce` is refused, and roles wall readers."""

from __future__ import annotations

import psycopg
import pytest

from memalchemy import Checkpointer, Database, Store, migrate
from memalchemy.errors import CapabilityMissing
from memalchemy.maintenance import tenants
from memalchemy.maintenance.distribution import distribute
from servers import Citus, give_rights

TENANTS = ("citus_acme", "citus_globex")
PLAIN = "tenant = current_setting('memalchemy.tenant')"
COUNT = "SELECT count(*) FROM threads"


@pytest.fixture
async def filled(cluster: Citus, name: str) -> str:
    """A database with eight threads and items of each tenant, not distributed yet."""
    async with Database(cluster.url(name), migrate="off") as db:
        await db.migrate()
        for tenant in TENANTS:
            own = db.for_tenant(tenant)
            for number in range(8):
                await Checkpointer(own).save({"of": tenant}, f"thread-{number}")
                await Store(own).put(("notes", str(number)), "key", {"of": tenant})
    return name


async def test_the_wall_and_a_distribution_refuse_each_other(cluster: Citus, name: str) -> None:
    async with Database(cluster.url(name), migrate="off") as db:
        await db.migrate()
        await tenants.enforce(db)
        with pytest.raises(CapabilityMissing, match="tenants release"):
            await distribute(db, parts=2)
        await tenants.release(db)
        assert (await distribute(db, parts=2)).distribution.is_whole
        with pytest.raises(CapabilityMissing, match="refuses the policies"):
            await tenants.enforce(db)
        assert (await db.tenant_wall()).enforced == 0


async def test_roles_wall_readers_on_every_node(cluster: Citus, filled: str) -> None:
    async with Database(cluster.url(filled), migrate="off") as db:
        await distribute(db, parts=4)
    for table in migrate.TABLES:
        cluster.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY", filled)
        cluster.execute(
            f"CREATE POLICY tenant ON {table} USING (tenant IN (current_user, '~'))", filled
        )
    for tenant in TENANTS:
        give_rights(cluster, tenant, filled)
    acme, globex = TENANTS
    for node in (cluster, *cluster.workers):
        async with Database(node.url(filled, user=acme), tenant=acme) as db:
            assert await Checkpointer(db).load("thread-3") == {"of": acme}
            assert await Store(db).get(("notes", "3"), "key") == {"of": acme}
            assert len(await Checkpointer(db).list_threads()) == 8
            other = db.for_tenant(globex)
            assert await Checkpointer(other).load("thread-3") is None
            assert await Store(other).get(("notes", "3"), "key") is None
            assert await Checkpointer(other).list_threads() == []


async def test_a_setting_reaches_the_workers_by_set_local_alone(
    cluster: Citus, filled: str
) -> None:
    """What a wall by a setting would rest on: docs/tenants.md says so."""
    acme = TENANTS[0]
    async with Database(cluster.url(filled), migrate="off") as db:
        for table in migrate.TABLES:  # before: afterwards Citus cannot read the expression
            cluster.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY", filled)
            cluster.execute(f"CREATE POLICY tenant ON {table} USING ({PLAIN})", filled)
        await distribute(db, parts=4)
    give_rights(cluster, acme, filled)
    propagate = "SET LOCAL citus.propagate_set_commands = 'local'"
    with psycopg.connect(cluster.url(filled, user=acme)) as connection:
        connection.execute(propagate)
        connection.execute(f"SELECT set_config('memalchemy.tenant', '{acme}', true)")
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute(COUNT)
        connection.rollback()
        connection.execute(propagate)
        connection.execute(f"SET LOCAL memalchemy.tenant = '{acme}'")
        assert connection.execute(COUNT).fetchall() == [(8,)]
        assert connection.execute("UPDATE threads SET version = version + 1").rowcount == 8
        connection.commit()
        # The workers' connections live on, and have the setting, as an empty one.
        assert connection.execute(COUNT).fetchall() == [(0,)]

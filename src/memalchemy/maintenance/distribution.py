"""Spread the tables of a database over the nodes of a Citus cluster.

A log's rows stay in one shard, and so do a namespace's items with their vectors.
`Database.distribution` says how the tables are spread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from memalchemy import migrate
from memalchemy._version import __version__
from memalchemy.contracts import Progress
from memalchemy.database import Database
from memalchemy.dialects import Cluster, Dialect, DistributedTable, Distribution
from memalchemy.errors import CapabilityMissing, Conflict, InvalidArgument, SchemaTooNew

__all__ = [
    "SHARDS_PER_NODE",
    "Distributed",
    "DistributedTable",
    "Distribution",
    "distribute",
    "script",
]

SHARDS_PER_NODE = 8
"""Shards of each group of tables on a node, if nobody says otherwise.

A shard is asked by one process at a time, so a node is used well with two to four of them for each
core; a cluster's catalogue does not tell its cores, and this fits nodes of two to four. More make
whatever asks all shards slower, and fewer cannot be spread over new nodes.
"""

MAX_SHARDS = 64_000
"""Citus' own limit."""

ProgressCallback = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class Distributed:
    """The result of `distribute`.

    Attributes:
        spread: names of the tables that this call has spread; none if all were before.
        freed_bytes: bytes of rows that had moved, and whose old copies this call has dropped.
        distribution: the tables after it.
    """

    spread: tuple[str, ...]
    freed_bytes: int
    distribution: Distribution


async def distribute(
    db: Database, *, parts: int | None = None, progress: ProgressCallback | None = None
) -> Distributed:
    """Spread the tables of *db* over the nodes of its Citus cluster, with the rows in them.

    The version table is copied to every node. Safe to repeat: tables that are spread are left as
    they are, and the others follow. All tables are spread in one transaction, in which writers
    wait and readers go on; in a second one the old copies of the rows are dropped. Open *db* with
    ``migrate="off"``, on the coordinator, as the owner of the tables.

    Args:
        parts: the number of shards of each of the two groups of tables, those of logs and those of
            items; `SHARDS_PER_NODE` for each node if not given. A group that is spread in part
            keeps its number.
        progress: called after each table, and after the old copies are gone.

    Raises:
        InvalidArgument: *parts* is no number of shards.
        CapabilityMissing: the database is on no Citus; the node is not the coordinator; a table of
            somebody else's has a foreign key to one of these; the tenants are walled; or
            row-level security hides rows from the role.
        SchemaOutdated, SchemaTooNew, SchemaIncomplete: the schema is not that of this release.
        Conflict: the tables are spread in another way, or in another number of shards than *parts*.
        AuthenticationFailed: the role does not own the tables.
        ReadOnly: *db* was opened read-only.
    """
    cluster = _require_cluster(db.dialect)
    if parts is not None and not 0 < parts <= MAX_SHARDS:
        raise InvalidArgument(f"parts is a number of shards from 1 to {MAX_SHARDS}, not {parts!r}")
    total = len(migrate.TABLES) + 2

    def tell(done: int) -> None:
        if progress is not None:
            progress(Progress(done, total))

    def spread(connection: Connection) -> tuple[str, ...]:
        before = _lock_and_check(connection, db, cluster)
        _refuse_other_distribution(before, parts)
        if not before.missing:
            return ()
        if obstacles := cluster.obstacles(connection, db.schema):
            raise CapabilityMissing(f"{'; '.join(obstacles)}. Nothing was changed")
        cluster.begin(connection, db.schema)
        number = parts or _number_of_shards(before) or SHARDS_PER_NODE * before.nodes
        commands = cluster.spread_commands(db.schema, number, before.missing)
        for done, command in enumerate(commands.values(), total - len(commands)):
            connection.exec_driver_sql(command)
            tell(done)
        return tuple(commands)

    def drop_old_copies(connection: Connection) -> int:
        found = _lock_and_check(connection, db, cluster)
        if found.is_whole and found.old_bytes:
            cluster.drop_old_copies(connection, db.schema)
            return found.old_bytes
        return 0

    done = await db.run_sync(spread)
    freed = await db.run_sync(drop_old_copies)
    tell(total)
    after = await db.distribution()
    assert after is not None
    return Distributed(done, freed, after)


def script(dialect: Dialect, schema: str | None, parts: int | None) -> Sequence[str]:
    """Return the statements that spread all tables, for a database that nothing writes to.

    Raises:
        CapabilityMissing: this database has neither shards nor partitions.
        ValueError: *parts* is no number of them.
    """
    return dialect.maintenance.distribution_commands(schema, parts)


def _require_cluster(dialect: Dialect) -> Cluster:
    if dialect.cluster is None:
        raise CapabilityMissing(
            f"{dialect} does not spread tables over the nodes of a cluster; PostgreSQL with the "
            "extension Citus does. Nothing was changed"
        )
    return dialect.cluster


def _lock_and_check(connection: Connection, db: Database, cluster: Cluster) -> Distribution:
    """Lock out migrations, and refuse what is no coordinator or not at this release's revision."""
    found = cluster.read(connection, db.schema)
    if found is None:
        raise CapabilityMissing(
            "the extension citus is not in this database, so it is one server and no cluster; "
            "nothing was changed. On the coordinator, whose server has to have Citus among its "
            "shared_preload_libraries, run CREATE EXTENSION citus, and citus_add_node for each "
            "worker"
        )
    if not found.is_coordinator:
        raise CapabilityMissing(
            "this is a worker of the cluster, and the coordinator alone spreads tables; nothing "
            "was changed. Connect to the coordinator"
        )
    db.dialect.maintenance.lock_migrations(connection, db.schema)
    migrate.check(connection, schema=db.schema, tables=True)
    revision = migrate.current(connection, schema=db.schema)
    if revision is not None and revision != migrate.head():
        raise SchemaTooNew(revision, None, __version__)
    # Again, because another process may have spread the tables while this one waited.
    found = cluster.read(connection, db.schema)
    assert found is not None
    return found


def _refuse_other_distribution(found: Distribution, parts: int | None) -> None:
    if found.misplaced:
        raise Conflict(
            f"the tables are spread in another way than this release does it: "
            f"{'; '.join(found.misplaced)}. Nothing was changed. undistribute_table(…, "
            "cascade_via_foreign_keys => true) brings tables back to the coordinator; then run "
            "this again"
        )
    for table in found.tables:
        if parts is not None and table.column is not None and table.shards != parts:
            raise Conflict(
                f"{table.name} is in {table.shards} shards already, not {parts}; nothing was "
                "changed. Citus' alter_distributed_table(…, shard_count => …, cascade_to_colocated "
                "=> true) changes the number",
                expected=parts,
                current=table.shards,
            )


def _number_of_shards(found: Distribution) -> int | None:
    """Return the number of shards of the tables that are spread, for those that follow them."""
    return next((table.shards for table in found.tables if table.column is not None), None)

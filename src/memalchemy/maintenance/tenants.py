"""Row-level security between the tenants of a PostgreSQL database: the wall, put up and taken down.

A transaction then sees and writes only rows of the tenant that it has set, whatever its statements
ask for. memalchemy sets the tenant of a `Database` for everything that it sends.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from memalchemy import migrate
from memalchemy.database import Database
from memalchemy.database.tenant_wall import TenantWall, read_wall_state
from memalchemy.dialects import Dialect, RowLevelSecurity
from memalchemy.errors import CapabilityMissing
from memalchemy.migrate.chain import lock_tables

__all__ = ["TenantWall", "enforce", "enforce_script", "release", "release_script", "status"]


async def enforce(
    db: Database, *, admins: Sequence[str] = (), leakproof: bool = True
) -> TenantWall:
    """Turn on row-level security between the tenants of *db*; return the state. Safe to repeat.

    One transaction, in which each table is locked for a moment. Processes that have the database
    open notice it at their next statement, and set their tenant from then on. Where the policies
    are missing and row-level security is on (`WallIncomplete`), open *db* with ``migrate="off"``.

    Args:
        admins: roles that reach all tenants; they replace those of an earlier call.
        leakproof: if the role is a superuser, also mark the functions of text searches leakproof,
            without which searches behind row-level security read all rows of the tenant. They are
            PostgreSQL's own, so this is for the whole database, and `release` does not undo it.

    Raises:
        CapabilityMissing: the database has no row-level security, or Citus has distributed its
            tables.
        SchemaOutdated: it has no tables, or not those of this release.
        AuthenticationFailed: the role does not own the tables.
        ReadOnly: *db* was opened read-only.
    """
    wall = _require_row_level_security(db.dialect)

    def job(connection: Connection) -> None:
        _lock_and_check(connection, db)
        _refuse_cluster(connection, db)
        lock_tables(connection, db.schema, db.dialect)
        statements = wall.enforce(db.schema, migrate.TABLES, admins)
        state = read_wall_state(connection, db.dialect, db.schema)
        if leakproof and state.is_superuser and state.leaky:
            statements += wall.mark_leakproof()
        _execute_all(connection, statements)

    await db.run_sync(job)
    return await db.tenant_wall()


async def release(db: Database) -> TenantWall:
    """Turn off row-level security between the tenants; return the state. Safe to repeat.

    It stays on for tables that have policies of somebody else's.

    Raises:
        CapabilityMissing, SchemaOutdated, AuthenticationFailed, ReadOnly: as of `enforce`.
    """
    wall = _require_row_level_security(db.dialect)

    def job(connection: Connection) -> None:
        _lock_and_check(connection, db)
        lock_tables(connection, db.schema, db.dialect)
        disable = not read_wall_state(connection, db.dialect, db.schema).has_other_policies
        _execute_all(connection, wall.release(db.schema, migrate.TABLES, disable=disable))

    await db.run_sync(job)
    return await db.tenant_wall()


async def status(db: Database) -> TenantWall:
    """Return the state of row-level security for the role of *db*. Reads only.

    Raises:
        CapabilityMissing: the database has no row-level security.
    """
    _require_row_level_security(db.dialect)
    return await db.tenant_wall()


def enforce_script(
    dialect: Dialect, schema: str | None, *, admins: Sequence[str] = (), leakproof: bool = True
) -> list[str]:
    """Return the statements of `enforce`, for the owner of the tables.

    With *leakproof* the last ones, behind a comment, are for a superuser.
    """
    wall = _require_row_level_security(dialect)
    marks = ["-- As a superuser:", *wall.mark_leakproof()] if leakproof else []
    return [*wall.enforce(schema, migrate.TABLES, admins), *marks]


def release_script(dialect: Dialect, schema: str | None) -> list[str]:
    """Return the statements of `release` for tables without other policies."""
    return _require_row_level_security(dialect).release(schema, migrate.TABLES, disable=True)


def _require_row_level_security(dialect: Dialect) -> RowLevelSecurity:
    if dialect.row_level_security is None:
        raise CapabilityMissing(
            f"{dialect} has no row-level security by a setting of the transaction; PostgreSQL has. "
            "Every statement of memalchemy names the tenant there, too, and nothing else checks it"
        )
    return dialect.row_level_security


def _lock_and_check(connection: Connection, db: Database) -> None:
    """Lock out migrations, and check the schema, but not the policies that are about to change."""
    db.dialect.maintenance.lock_migrations(connection, db.schema)
    migrate.check(connection, schema=db.schema, tables=True)


def _refuse_cluster(connection: Connection, db: Database) -> None:
    cluster = db.dialect.cluster
    spread = None if cluster is None else cluster.read(connection, db.schema)
    if spread is not None and spread.is_begun:
        raise CapabilityMissing(
            f"the tables are distributed over the nodes of {spread.software}, which refuses the "
            "policies of this wall; nothing was changed. Every statement of memalchemy names the "
            "tenant there, too. Give tenants that need a wall roles of their own"
        )


def _execute_all(connection: Connection, statements: Sequence[str]) -> None:
    for one in statements:
        connection.exec_driver_sql(one)

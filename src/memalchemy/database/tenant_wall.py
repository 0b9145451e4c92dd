"""The wall between tenants in the database: row-level security by a setting of the transaction."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Executable

from memalchemy import migrate
from memalchemy.database.compiled import execute_with_sqlalchemy
from memalchemy.database.driver_errors import Translate, translating
from memalchemy.database.first_statement import prepare
from memalchemy.database.program_runner import check_not_lost
from memalchemy.dialects import Dialect
from memalchemy.errors import CapabilityMissing, WallIncomplete
from memalchemy.keys import encode_id
from memalchemy.statements import statement


@statement(scope=("transaction", "session"))
def set_tenant(dialect: Dialect, scope: str) -> Executable | None:
    """Set the tenant whose rows the transaction, or the session, sees."""
    return (
        dialect.row_level_security.set_tenant(scope)
        if dialect.row_level_security is not None
        else None
    )


@statement()
def read_wall(dialect: Dialect) -> Executable | None:
    """Read the state of the wall, for the current role."""
    if dialect.row_level_security is None:
        return None
    return dialect.row_level_security.state_query(migrate.TABLES)


@dataclass(frozen=True, slots=True)
class TenantWall:
    """The state of the wall for the role of a connection.

    Attributes:
        role: the role.
        tables: the number of memalchemy's tables that there are.
        enforced: the number of tables that are walled.
        is_active: the role is walled; `False` for superusers and roles with ``BYPASSRLS``.
        sees_all: the role reaches all tenants: it is not walled, or a policy lets it pass.
        closed: the number of tables that have row-level security, and no policy that shows a tenant
            its rows, as a restore leaves them that went on after errors.
        is_shut_out: the role sees no rows of such a table.
        has_other_policies: a table has policies of somebody else's, which may let more rows pass.
        leaky: the number of functions that are not marked leakproof: with any, text searches of a
            walled role read all rows of the tenant.
        is_superuser: the role is a superuser.
    """

    role: str = ""
    tables: int = 0
    enforced: int = 0
    is_active: bool = False
    sees_all: bool = True
    closed: int = 0
    is_shut_out: bool = False
    has_other_policies: bool = False
    leaky: int = 0
    is_superuser: bool = False

    @property
    def is_whole(self) -> bool:
        """True if every table is walled."""
        return 0 < self.tables == self.enforced

    def refuse_closed(self) -> None:
        """Raise if a table is closed.

        Raises:
            WallIncomplete: row-level security is on without the policy for tenants.
        """
        if self.closed:
            raise WallIncomplete(self.closed, self.tables)

    def refuse_shut_out(self) -> None:
        """Raise if the role sees no rows of a table: it must not be taken for empty.

        Raises:
            WallIncomplete: row-level security is on without the policy for tenants.
        """
        if self.is_shut_out:
            self.refuse_closed()


NO_WALL = TenantWall()


def read_wall_state(connection: Connection, dialect: Dialect, schema: str | None) -> TenantWall:
    """Read the state of the wall for the role of *connection*."""
    if dialect.row_level_security is None:
        return NO_WALL
    (row,) = execute_with_sqlalchemy(connection, read_wall(dialect), {"p_schema": schema}, {})
    return TenantWall(
        role=row.role,
        tables=row.tables,
        enforced=row.enforced,
        is_active=row.active > 0,
        sees_all=row.shut == 0 and (row.active == 0 or row.administered == row.tables),
        closed=row.closed,
        is_shut_out=row.shut > 0,
        has_other_policies=row.others > 0,
        leaky=row.leaky,
        is_superuser=bool(row.superuser),
    )


def set_tenant_of(
    connection: Connection, dialect: Dialect, tenant: str, scope: str = "transaction"
) -> None:
    """Set the tenant of the transaction that *connection* is in, or of its session."""
    binds = {"p_tenant": encode_id(tenant) if tenant else ""}
    execute_with_sqlalchemy(connection, set_tenant(dialect, scope=scope), binds, {})


class HostWall:
    """The wall on connections of the host's, whose roles may be other than memalchemy's own."""

    def __init__(self, dialect: Dialect, schema: str | None, translate: Translate) -> None:
        self._dialect = dialect
        self._schema = schema
        self._translate = translate
        self._is_enforced: bool | None = None

    def expire(self) -> None:
        """Ask again at the next program."""
        self._is_enforced = None

    def walled(
        self, tenant: str, job: Callable[[Any], Coroutine[Any, Any, Any]]
    ) -> Callable[[Any], Coroutine[Any, Any, Any]]:
        """Return *job* so that it begins by setting the tenant of the host's transaction.

        That is done for each program: the host, or the end of a savepoint, may have set another.
        """

        async def run(connection: Connection) -> Any:
            is_enforced = False

            def set_tenant_if_enforced(connection: Connection) -> None:
                nonlocal is_enforced
                is_enforced = self._find_enforced(connection)
                if is_enforced:
                    set_tenant_of(connection, self._dialect, tenant)

            check_not_lost(connection)
            with translating(self._translate):
                prepare(connection, set_tenant_if_enforced)
                if is_enforced:
                    self._refuse_autocommit(connection)
            return await job(connection)

        return run

    def _find_enforced(self, connection: Connection) -> bool:
        """Return whether the role of *connection* is behind the wall."""
        known = self._is_enforced  # looked at once: another thread may expire it meanwhile
        if known is None:
            state = read_wall_state(connection, self._dialect, self._schema)
            state.refuse_shut_out()
            self._is_enforced = known = state.enforced > 0
        return known

    def _refuse_autocommit(self, connection: Connection) -> None:
        if not self._dialect.in_transaction(connection.connection.driver_connection):
            raise CapabilityMissing(
                "the tenants are walled by row-level security, and the tenant is a setting of the "
                "transaction: connection= is in autocommit and has none, begin one"
            )

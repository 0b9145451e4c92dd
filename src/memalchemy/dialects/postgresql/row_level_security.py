"""PostgreSQL: row-level security that shows a transaction the rows of one tenant.

The tenant is the setting ``memalchemy.tenant`` of the transaction. A statement that reaches a table
without it fails with `TENANT_NOT_SET`: an application that does not set it must not take a table
that it cannot see for an empty one.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sqlalchemy import Executable, Integer, Text, bindparam, column, text

from memalchemy.dialects.base import RowLevelSecurity, quoted

TENANT_NOT_SET = "MA001"
"""The SQLSTATE of a statement in a transaction without a tenant."""

POLICY, ADMIN_POLICY, FUNCTION = "memalchemy_tenant", "memalchemy_admin", "memalchemy_no_tenant"

LEAKPROOF = (
    "ts_match_vq(tsvector, tsquery)",
    "to_tsvector(regconfig, text)",
    "tsvector_concat(tsvector, tsvector)",
    "array_to_tsvector(text[])",
    "textcat(text, text)",
    "jsonb_contains(jsonb, jsonb)",
    "jsonb_ne(jsonb, jsonb)",
)
"""The functions of the conditions that the text indexes answer. None of them reports or raises what
it is given. Below a policy PostgreSQL uses an index only for functions that are marked leakproof.
``to_tsquery`` shows its argument in errors, so searches compute their queries before the join.
"""


class PostgreSQLRowLevelSecurity(RowLevelSecurity):
    """Policies on a setting of the transaction, forced on the owner of the tables, too."""

    def set_tenant(self, scope: str) -> Executable:
        local = "true" if scope == "transaction" else "false"
        query = text(f"SELECT set_config('memalchemy.tenant', :p_tenant, {local}) AS tenant")
        return query.bindparams(bindparam("p_tenant", type_=Text)).columns(column("tenant", Text))

    def state_query(self, tables: Sequence[str]) -> Executable:
        names = ", ".join(f"'{name}'" for name in tables)
        functions = ", ".join(f"'pg_catalog.{name}'" for name in LEAKPROOF)
        policy = "SELECT 1 FROM pg_policy WHERE polrelid = made.oid AND polname"
        administered = (
            f"EXISTS ({policy} = '{ADMIN_POLICY}' AND EXISTS (SELECT 1 "  # noqa: S608
            "FROM unnest(polroles) AS given(role) "
            "WHERE given.role = 0 OR pg_has_role(given.role, 'USAGE')))"
        )
        # Without policies a table is closed to whom row-level security is active for. Some switch
        # it on for that, and let the application be the owner, for whom it is not if not forced.
        closed = (
            "made.secured AND "
            f"NOT EXISTS ({policy} <> '{ADMIN_POLICY}') AND (made.forced "
            f"OR row_security_active(made.oid) OR EXISTS ({policy} = '{ADMIN_POLICY}'))"
        )
        counts = {
            "tables": "true",
            "enforced": "made.enforced",
            "active": "made.enforced AND row_security_active(made.oid)",
            "administered": administered,
            "closed": closed,
            "shut": f"{closed} AND row_security_active(made.oid) AND NOT {administered}",
            "others": f"EXISTS ({policy} NOT IN ('{POLICY}', '{ADMIN_POLICY}'))",
        }
        counted = ", ".join(
            f"CAST(count(*) FILTER (WHERE {condition}) AS integer) AS {name}"
            for name, condition in counts.items()
        )
        query = (
            "WITH found AS (SELECT pg_class.oid, relrowsecurity AS secured, "  # noqa: S608
            "relrowsecurity AND relforcerowsecurity AS forced "
            "FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace "
            "WHERE pg_namespace.nspname = coalesce(CAST(:p_schema AS text), current_schema()) "
            f"AND pg_class.relkind IN ('r', 'p') AND pg_class.relname IN ({names})), "
            f"made AS (SELECT oid, secured, forced, forced AND EXISTS (SELECT 1 FROM pg_policy "
            f"WHERE polrelid = found.oid AND polname = '{POLICY}') AS enforced FROM found) "
            f"SELECT CAST(current_user AS text) AS role, {counted}, "
            "(SELECT CAST(count(*) AS integer) FROM pg_proc WHERE NOT proleakproof AND "
            f"oid = ANY (CAST(ARRAY[{functions}] AS regprocedure[]))) AS leaky, "
            "(SELECT CAST(rolsuper AS integer) FROM pg_roles WHERE rolname = current_user) "
            "AS superuser FROM made"
        )
        columns = (column(name, Text if name == "role" else Integer) for name in self.STATE)
        return text(query).bindparams(bindparam("p_schema", type_=Text)).columns(*columns)

    def enforce(
        self, schema: str | None, tables: Sequence[str], admins: Sequence[str]
    ) -> list[str]:
        prefix = f"{quoted(schema)}." if schema else ""
        function = f"{prefix}{FUNCTION}()"
        # The planner takes IS NOT NULL for a filter that nearly all rows pass: plans stay those
        # without a wall. A bare comparison it takes for selective: to load, all checkpoints of a
        # log were read, and a thread was looked for among all of its tenant. The tenant of rows
        # that are read is computed once, for each table in a statement; that of rows that are
        # written for each, as they are few and a subquery costs as much as some of them.
        setting = "nullif(current_setting('memalchemy.tenant', true), '')"
        read = f"nullif(coalesce(tenant = (SELECT {setting}), {function}), false) IS NOT NULL"
        written = f"coalesce(tenant = {setting}, {function})"
        # The function is stable: a volatile one would change plans, too.
        statements = [
            f"CREATE OR REPLACE FUNCTION {function} RETURNS boolean "
            "LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1 AS $$ BEGIN RAISE EXCEPTION "
            "'the transaction has no tenant: memalchemy.tenant is not set' "
            f"USING ERRCODE = '{TENANT_NOT_SET}', HINT = 'In the transaction: "
            "SELECT set_config(''memalchemy.tenant'', ''TENANT'', true)'; END $$;",
            f"GRANT EXECUTE ON FUNCTION {function} TO PUBLIC;",
        ]
        roles = ", ".join(map(quoted, admins))
        for name in tables:
            table = prefix + name
            statements += [
                f"DROP POLICY IF EXISTS {POLICY} ON {table};",
                f"DROP POLICY IF EXISTS {ADMIN_POLICY} ON {table};",
                f"CREATE POLICY {POLICY} ON {table} USING ({read}) WITH CHECK ({written});",
            ]
            if admins:
                statements.append(
                    f"CREATE POLICY {ADMIN_POLICY} ON {table} TO {roles} USING (true);"
                )
            statements += [
                f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;",
                f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY;",
            ]
        return statements

    def release(self, schema: str | None, tables: Sequence[str], *, disable: bool) -> list[str]:
        prefix = f"{quoted(schema)}." if schema else ""
        statements = []
        for name in tables:
            table = prefix + name
            statements += [
                f"DROP POLICY IF EXISTS {POLICY} ON {table};",
                f"DROP POLICY IF EXISTS {ADMIN_POLICY} ON {table};",
                f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY;",
            ]
            if disable:
                statements.append(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;")
        return [*statements, f"DROP FUNCTION IF EXISTS {prefix}{FUNCTION}();"]

    def restore_command(self, file: str) -> str:
        # A dump of tables has their policies, and no functions. Without the policies, and with
        # row-level security on, the tables are closed until the wall is built.
        dump, contents = shlex.quote(file), shlex.quote(f"{file}.list")
        return (
            f"pg_restore --list {dump} | grep -v ' POLICY .* memalchemy_' > {contents} && "
            f'pg_restore --single-transaction --no-owner --use-list={contents} --dbname="$NEW_URL" '
            f'{dump} && memalchemy --db "$NEW_URL" tenants enforce'
        )

    def mark_leakproof(self) -> list[str]:
        return [f"ALTER FUNCTION pg_catalog.{name} LEAKPROOF;" for name in LEAKPROOF]

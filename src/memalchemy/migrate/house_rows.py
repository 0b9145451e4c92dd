"""The library's own rows among the items: what a release notes about the database as a whole.

They belong to a tenant that no user has. An older release can read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from memalchemy.column_types import Json
from memalchemy.dialects import Dialect, Maintenance, dialect_of

TENANT, NAMESPACE = "~", "/~memalchemy/"
"""The key of these rows; ``~`` is always escaped in a user's namespace."""


def replacing(table: str, dialect: Dialect, key: str, meta: Mapping[str, Any]) -> tuple[str, str]:
    """Return the commands that write a row in place of the one before.

    They are texts, the same online and in scripts; every part is a constant of this release.
    """
    database: Maintenance = dialect.maintenance
    return (
        f"DELETE FROM {table} WHERE tenant = '{TENANT}' "  # noqa: S608
        f"AND namespace = '{NAMESPACE}' AND key = '{key}'",
        f"INSERT INTO {table} (tenant, namespace, key, meta, version, codec, checksum, "  # noqa: S608
        f"created_at, updated_at, value) VALUES ('{TENANT}', '{NAMESPACE}', '{key}', "
        f"'{json.dumps(meta)}', 1, 'none', 0, {database.utc_now}, {database.utc_now}, "
        f"{database.byte_literal})",
    )


def read_house_row(
    connection: Connection, schema: str | None, key: str
) -> Mapping[str, Any] | None:
    """Return the metadata of a row, if it is there. Reads only."""
    items = _items(schema)
    with seen(connection):
        row = connection.execute(sa.select(items.c.meta).where(*_is(items, key))).first()
    return None if row is None else row[0]


def delete_house_row(connection: Connection, schema: str | None, key: str) -> None:
    """Delete a row, if it is there."""
    items = _items(schema)
    with seen(connection):
        connection.execute(sa.delete(items).where(*_is(items, key)))


@contextmanager
def seen(connection: Connection) -> Iterator[None]:
    """Let the session see these rows behind row-level security between tenants."""
    wall = dialect_of(connection).row_level_security
    if wall is None:
        yield
        return
    before = connection.scalar(sa.text("SELECT current_setting('memalchemy.tenant', true)"))
    connection.execute(wall.set_tenant("session"), {"p_tenant": TENANT})
    try:
        yield
    finally:
        connection.execute(wall.set_tenant("session"), {"p_tenant": before or ""})


def table_name(dialect: sa.Dialect, schema: str | None) -> str:
    """Return the name of the table of items, quoted, with its schema."""
    return f"{dialect.identifier_preparer.quote(schema)}.store_items" if schema else "store_items"


def _items(schema: str | None) -> sa.TableClause:
    return sa.table(
        "store_items",
        *(sa.column(name, sa.Text) for name in ("tenant", "namespace", "key")),
        sa.column("meta", Json),
        schema=schema,
    )


def _is(items: sa.TableClause, key: str) -> tuple[sa.ColumnElement[bool], ...]:
    wanted = {"tenant": TENANT, "namespace": NAMESPACE, "key": key}
    return tuple(items.c[name] == value for name, value in wanted.items())

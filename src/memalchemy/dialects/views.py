"""The parts of the views of memalchemy's tables that each database spells in its own SQL.

Here it is the SQL that every database has; the subclasses are those of SQLite and PostgreSQL.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    String,
    Text,
    case,
    cast,
    func,
    literal_column,
    text,
    type_coerce,
)
from sqlalchemy.types import Numeric

from memalchemy.errors import CapabilityMissing


class Views:
    """SQL of views: times, and the texts and numbers of metadata.

    Attributes:
        options: what stands between the name of a view and its query.
        now: the current time, as a column of times stores it, if `Maintenance.utc_now` is too
            coarse for it.
    """

    options: ClassVar[str] = ""
    now: ClassVar[str | None] = None

    def refuse_unusable(self, connection: Connection) -> None:
        """Raise a `CapabilityMissing` if the server has not what the views need."""

    def time(self, stored: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a time as people and programs write it."""
        return stored

    def text(self, meta: ColumnElement[Any], key: str) -> ColumnElement[Any]:
        """Return a key of metadata as text; NULL if it is not there."""
        return func.json_value(meta, _constant(f"$.{key}"))

    def number(self, meta: ColumnElement[Any], key: str) -> ColumnElement[Any]:
        """Return a key of metadata as a number; NULL if it is not there, or is none."""
        return cast(self.text(meta, key), Numeric())

    def grants(self, connection: Connection, view: str) -> list[str]:
        """Return the statements that give again the rights which others have on a view."""
        return []


class OracleViews(Views):
    """JSON_VALUE, which gives NULL where it finds nothing, or no number."""

    def number(self, meta: ColumnElement[Any], key: str) -> ColumnElement[Any]:
        path: ColumnElement[Any] = literal_column(f"'$.{key}' RETURNING NUMBER NULL ON ERROR")
        return func.json_value(meta, path)


class SQLiteViews(Views):
    """Times as texts such as ``2026-03-01 12:00:00.000000``, in UTC, for SQLite's functions."""

    # 2440587.5 is 1970 in Julian days. To the millisecond, which is what SQLite's clock shows.
    now: ClassVar[str | None] = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000"

    def time(self, stored: ColumnElement[Any]) -> ColumnElement[Any]:
        number: ColumnElement[int] = type_coerce(stored, Integer)
        million = _number("1000000")
        # The remainder of a time before 1970 is negative.
        rest = (number % million + million) % million
        format_, epoch = _constant("%Y-%m-%d %H:%M:%S"), _constant("unixepoch")
        seconds = func.strftime(format_, (number - rest) // million, epoch)
        return seconds.op("||")(func.printf(_constant(".%06d"), rest))

    def text(self, meta: ColumnElement[Any], key: str) -> ColumnElement[Any]:
        return cast(func.json_extract(meta, _constant(f"$.{key}")), Text)

    def number(self, meta: ColumnElement[Any], key: str) -> ColumnElement[Any]:
        path = _constant(f"$.{key}")
        kinds = [_constant("integer"), _constant("real")]
        return case((func.json_type(meta, path).in_(kinds), func.json_extract(meta, path)))


class PostgreSQLViews(Views):
    """JSONB; a view reads with the rights of who asks, so row-level security goes by the asker."""

    options: ClassVar[str] = " WITH (security_invoker = true)"

    def refuse_unusable(self, connection: Connection) -> None:
        version = connection.dialect.server_version_info or ()
        if version < (15,):
            raise CapabilityMissing(
                "views that read with the rights of who asks need PostgreSQL 15; on "
                f"{'.'.join(map(str, version))} a view would pass row-level security between "
                "tenants. Nothing was changed"
            )

    def text(self, meta: ColumnElement[Any], key: str) -> ColumnElement[Any]:
        return meta.op("->>")(_constant(key))

    def number(self, meta: ColumnElement[Any], key: str) -> ColumnElement[Any]:
        kind = func.jsonb_typeof(meta.op("->")(_constant(key)))
        return case((kind == _constant("number"), cast(self.text(meta, key), Numeric())))

    def grants(self, connection: Connection, view: str) -> list[str]:
        rows = connection.execute(_RIGHTS, {"p_view": view})
        return [f"GRANT {right} ON {view} TO {role}" for role, right in rows]


_RIGHTS = text(
    "SELECT CASE WHEN given.grantee = 0 THEN 'PUBLIC' "
    "ELSE quote_ident(pg_get_userbyid(given.grantee)) END, given.privilege_type "
    "FROM pg_class, aclexplode(pg_class.relacl) AS given "
    "WHERE pg_class.oid = to_regclass(:p_view) AND given.grantee <> pg_class.relowner ORDER BY 1, 2"
)
"""The roles and the rights that they have on a view, but for its owner's."""


def _constant(value: str) -> ColumnElement[str]:
    return literal_column(f"'{value}'", String)


def _number(value: str) -> ColumnElement[int]:
    return literal_column(value, Integer)

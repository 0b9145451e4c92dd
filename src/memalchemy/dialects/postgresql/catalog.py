"""PostgreSQL: queries of the server's catalogue about memalchemy's tables."""

from __future__ import annotations

from sqlalchemy import Executable, Text, bindparam, text

from memalchemy.schema import Base


def on_our_tables(query: str) -> Executable:
    """Return *query* on ``made``: our tables in ``:p_schema``, or in the connection's schema."""
    names = ", ".join(f"'{name}'" for name in Base.metadata.tables)
    made = (
        "SELECT pg_class.oid, pg_class.relname, pg_class.relowner FROM pg_class "  # noqa: S608
        "JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace "
        "WHERE pg_namespace.nspname = coalesce(CAST(:p_schema AS text), current_schema()) "
        f"AND pg_class.relkind IN ('r', 'p') AND pg_class.relname IN ({names})"
    )
    return text(f"WITH made AS ({made}) {query}").bindparams(bindparam("p_schema", type_=Text))

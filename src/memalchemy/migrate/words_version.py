"""The note about the words of a database: of which version of the tokens they are.

A new database has the note. One that an older release has filled gets it when no row has words of
version 1 any more; until then its words are searched for by the rules of both versions.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from memalchemy.codec.search_text import MARK
from memalchemy.codec.tokens import TOKENIZER
from memalchemy.dialects import Dialect
from memalchemy.migrate import house_rows

_KEY = "words"


def words_note(table: str, dialect: Dialect) -> tuple[str, str]:
    """Return the commands that note that all words are of this release's version."""
    return house_rows.replacing(table, dialect, _KEY, {"version": TOKENIZER})


def has_first_words(connection: Connection, schema: str | None) -> bool:
    """Return whether rows may have words of version 1. Reads only."""
    note = house_rows.read_house_row(connection, schema, _KEY)
    return note is None or note.get("version", 0) < TOKENIZER


def find_first_words(connection: Connection, schema: str | None) -> bool:
    """Return whether a row of any tenant that the role sees has words of version 1.

    Reads all rows if there is none.
    """
    one: sa.ColumnElement[int] = sa.literal_column("1", sa.Integer)
    for name in ("deltas", "store_items"):
        table = sa.table(name, sa.column("search_text", sa.Text), schema=schema)
        is_first = sa.func.substr(table.c.search_text, one, one) != MARK
        found: sa.Select[Any] = sa.select(one).select_from(table).where(is_first).limit(1)
        if connection.execute(found).first() is not None:
            return True
    return False


def note_words(connection: Connection, schema: str | None, dialect: Dialect) -> bool:
    """Note that all words are of this release's version, if they are; return whether."""
    dialect.maintenance.lock_migrations(connection, schema)
    if find_first_words(connection, schema):
        return False
    with house_rows.seen(connection):
        for command in words_note(house_rows.table_name(connection.dialect, schema), dialect):
            connection.exec_driver_sql(command)
    return True


def forget_words_note(connection: Connection, schema: str | None, dialect: Dialect) -> None:
    """Remove the note: rows with words of version 1 are about to be written."""
    dialect.maintenance.lock_migrations(connection, schema)
    house_rows.delete_house_row(connection, schema, _KEY)

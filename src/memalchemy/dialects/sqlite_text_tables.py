"""The tables of SQLite's text indexes: made anew, or set aside, whatever state they are in.

An index can be made of the rows again, so no damage to it is worth keeping. Triggers write to it
with each row, so one that is damaged would stop every write of its rows: it is set aside, without
its triggers, until somebody makes it anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

_TOKENIZE = "unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'"
_SHADOWS = ("data", "idx", "content", "docsize", "config")

_META_TERMS = """(
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each({row}.meta))"""


@dataclass(frozen=True)
class _Index:
    """Text index as the first revision of the schema makes it.

    Attributes:
        of: the indexed columns of its table.
        words: its own columns with what is indexed in each.
        is_indexed: the condition that a row is in it.
    """

    name: str
    table: str
    of: str
    words: dict[str, str]
    is_indexed: str
    options: str

    @property
    def triggers(self) -> list[str]:
        return [f"{self.name}_{event}" for event in ("insert", "delete", "update")]

    def create(self) -> Iterator[str]:
        """Yield the statements that create the index, empty, and its triggers."""
        yield (
            f"CREATE VIRTUAL TABLE {self.name} USING fts5({', '.join(self.words)}, content='', "
            f"columnsize=0, {self.options})"
        )
        take, put = self._change_command("old"), self._change_command("new")
        for name, event, when, body in zip(
            self.triggers,
            ("INSERT", "DELETE", f"UPDATE OF {self.of}"),
            (f" WHEN {self._is_indexed_row('new')}", f" WHEN {self._is_indexed_row('old')}", ""),
            (put, take, f"{take} {put}"),
            strict=True,
        ):
            yield f"CREATE TRIGGER {name} AFTER {event} ON {self.table}{when} BEGIN {body} END"

    def try_out(self) -> Iterator[str]:
        """Yield statements that write a row and take it back: they fail where writes would."""
        columns, values = ", ".join(self.words), ", ".join("'x'" for _ in self.words)
        yield f"INSERT INTO {self.name}(rowid, {columns}) VALUES (-1, {values})"  # noqa: S608
        yield (
            f"INSERT INTO {self.name}({self.name}, rowid, {columns}) "  # noqa: S608
            f"VALUES ('delete', -1, {values})"
        )

    def fill(self) -> str:
        """Return the statement that puts all rows into the empty index."""
        return (
            f"INSERT INTO {self.name}(rowid, {', '.join(self.words)}) "  # noqa: S608
            f"SELECT rowid, {self._values_of_row(self.table)} FROM {self.table} "
            f"WHERE {self._is_indexed_row(self.table)}"
        )

    def drop(self) -> Iterator[str]:
        """Yield the statements that remove the index and its triggers."""
        yield from self.detach()
        for shadow in _SHADOWS:
            yield f"DROP TABLE IF EXISTS {self.name}_{shadow}"

    def detach(self) -> Iterator[str]:
        """Yield the statements that remove the triggers, and the name of the index."""
        for trigger in self.triggers:
            yield f"DROP TRIGGER IF EXISTS {trigger}"
        # DROP TABLE would open the index, and not every damaged one can be opened.
        yield "PRAGMA writable_schema = ON"
        yield f"DELETE FROM sqlite_schema WHERE type = 'table' AND name = '{self.name}'"  # noqa: S608
        yield "PRAGMA writable_schema = RESET"

    def _change_command(self, row: str) -> str:
        columns, values = ", ".join(self.words), self._values_of_row(row)
        if row == "old":
            into = f"{self.name}({self.name}, rowid, {columns}) SELECT 'delete', old.rowid, "
        else:
            into = f"{self.name}(rowid, {columns}) SELECT new.rowid, "
        return f"INSERT INTO {into}{values} WHERE {self._is_indexed_row(row)};"

    def _values_of_row(self, row: str) -> str:
        return ", ".join(value.format(row=row) for value in self.words.values())

    def _is_indexed_row(self, row: str) -> str:
        return self.is_indexed.format(row=row)


_INDEXES = {
    one.name: one
    for one in (
        _Index(
            "deltas_search",
            "deltas",
            "search_text",
            {"search_text": "{row}.search_text", "scope": "'x' || lower(hex({row}.tenant))"},
            "{row}.search_text IS NOT NULL",
            f'detail=column, tokenize="{_TOKENIZE}"',
        ),
        _Index(
            "checkpoints_meta",
            "checkpoints",
            "meta",
            {"terms": _META_TERMS},
            "{row}.meta <> '{{}}'",
            "detail=none, tokenize='ascii'",
        ),
        _Index(
            "store_items_search",
            "store_items",
            "search_text, field_terms",
            {
                "search_text": "{row}.search_text",
                "field_terms": "{row}.field_terms",
                "scope": "'x' || lower(hex({row}.tenant || char(31) || {row}.namespace))",
            },
            "({row}.search_text IS NOT NULL OR {row}.field_terms IS NOT NULL)",
            f'detail=column, tokenize="{_TOKENIZE}"',
        ),
    )
}


def remake(index: str) -> list[str]:
    """Return the statements of one transaction that make an index anew from its rows."""
    one = _INDEXES[index]
    return [*one.drop(), *one.create(), one.fill()]


def try_out(index: str) -> list[str]:
    """Return the statements of one transaction that fail where a row could not be written."""
    return [*_INDEXES[index].try_out()]


def names_text_index(message: str) -> bool:
    """Return whether an error of SQLite's is about a text index or a table of one."""
    if message in ("constraint failed", "SQL logic error"):
        return True  # of the library's own tables and statements the message says more
    return any(name in message for name in _INDEXES) or "fts5" in message


def set_aside_damaged(connection: Connection, *, some_is: bool) -> list[str]:
    """Set damaged indexes aside, in the transaction of *connection*; return their names.

    Args:
        some_is: one of them is damaged. If its own check does not say which, all are set aside.
    """
    execute = connection.exec_driver_sql
    there = set(execute("SELECT name FROM sqlite_schema").scalars())
    used = [one for one in _INDEXES.values() if there & {one.name, *one.triggers}]
    damaged = [one for one in used if not _is_sound(connection, one)]
    if some_is and not damaged and len(used) == len(_INDEXES):
        damaged = used
    for one in damaged:
        execute("SAVEPOINT aside")
        try:
            for sql in one.drop():
                execute(sql)
        except DBAPIError:  # pages of the file are damaged: its tables stay behind
            execute("ROLLBACK TO aside")
            for sql in one.detach():
                execute(sql)
        execute("RELEASE aside")
    return [one.name for one in damaged]


def _is_sound(connection: Connection, index: _Index) -> bool:
    execute = connection.exec_driver_sql
    execute("SAVEPOINT sound")
    try:
        execute(f"INSERT INTO {index.name}({index.name}) VALUES ('integrity-check')")  # noqa: S608
        for sql in index.try_out():
            execute(sql)
        execute("SAVEPOINT flushed")  # FTS5 writes what it has put off before a savepoint
        execute("RELEASE flushed")
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _NOT_ABOUT_THE_FILE:
            raise
        return False
    finally:
        execute("ROLLBACK TO sound")
        execute("RELEASE sound")
    return True


_NOT_ABOUT_THE_FILE = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
)

"""The registry where there is no upsert: a row is updated, or else inserted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy import Executable, insert, update

from memalchemy.dialects import Dialect
from memalchemy.errors import UniqueViolation
from memalchemy.protection.key_registry import ITEMS, insert_key, new_key_values, put_key
from memalchemy.protection.removals import (
    changed_note_values,
    new_note_values,
    of_note,
    put_note,
    write_notes,
)
from memalchemy.rows import OWN_ITEM
from memalchemy.statements import Program, statement
from memalchemy.variants import NO_UPSERT

put_note.not_on(NO_UPSERT)


@statement(only_on=NO_UPSERT, writes=OWN_ITEM)
def update_note(dialect: Dialect) -> Executable:
    """Replace a row of the registry: first half of `put_note`."""
    return update(ITEMS).where(of_note()).values(changed_note_values())


@statement(only_on=NO_UPSERT, writes=OWN_ITEM)
def insert_note(dialect: Dialect) -> Executable:
    """Insert a row of the registry: second half of `put_note`."""
    return insert(ITEMS).values(new_note_values())


@write_notes.on(NO_UPSERT)
def _write_notes(dialect: Dialect, notes: list[dict[str, Any]]) -> Program[None]:
    for note in notes:
        if not (yield update_note(dialect), note).touched:
            yield insert_note(dialect), note


@insert_key.on(NO_UPSERT)
def _insert_key(dialect: Dialect) -> Executable:
    return insert(ITEMS).values(new_key_values())


@put_key.on(NO_UPSERT)
def _put_key(dialect: Dialect, binds: Mapping[str, Any]) -> Program[None]:
    with suppress(UniqueViolation):
        yield insert_key(dialect), binds

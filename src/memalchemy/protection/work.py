"""Effects of statements, as those who sign rows are told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Executable

from memalchemy.rows import RowKind


@dataclass(frozen=True, slots=True)
class Work:
    """Effect of a statement: the table, and what it does to its rows."""

    does: Literal["lock", "insert", "copy", "update", "delete", "save"]
    """``copy`` inserts what it selects from the same table. ``save`` moves a head that is known and
    inserts rows behind it, and binds the signatures of all of them.
    """
    table: str
    rows: tuple[RowKind, ...] = ()
    """The kinds of rows that it inserts or changes."""
    row: RowKind | None = None
    """The one kind, if it is one."""
    moves_known_head: bool = False
    in_place: bool = False
    """True if it changes some columns of rows that are there; otherwise it binds whole rows."""
    named_by: tuple[str, ...] = ()
    """Its binds that name logs."""
    names_item: bool = False
    """True if it binds the key of one item."""
    erases: bool = False
    """True if the statement is part of the removal of whole logs."""
    removed: Executable | None = None
    """The query that finds the logs or items which it will remove."""
    proves: str | None = None
    """The kind of proof that is needed before the statement is sent; see `statements.PROVES`."""
    removes_tenant: bool = False
    """True if it removes all that a tenant has in the table."""

    def binds_whole(self, *kinds: RowKind) -> bool:
        """Return whether it binds whole rows of one of some kinds, with their signatures."""
        return not self.in_place and self.row in kinds

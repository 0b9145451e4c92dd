"""Effects of statements, as those who sign rows are told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Executable


@dataclass(frozen=True, slots=True)
class Work:
    """Effect of a statement: the table, and what it does to its rows."""

    does: Literal["lock", "insert", "copy", "update", "delete", "save"]
    """``copy`` inserts what it selects from the same table. ``save`` moves a head that is known and
    inserts a checkpoint with its state, and binds the signatures of the three.
    """
    table: str
    binds: frozenset[str]
    """The names of its binds."""
    erases: bool = False
    """True if the statement is part of the removal of whole logs."""
    removed: Executable | None = None
    """The query that finds the logs or items which it will remove."""
    proves: str | None = None
    """The kind of proof that is needed before the statement is sent; see `statements.PROVES`."""
    removes_tenant: bool = False
    """True if it removes all that a tenant has in the table."""

"""Intents: what a program is about to do, so that it can be checked before a statement is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from memalchemy.dialects import Dialect
from memalchemy.variants import ONE_STATEMENT

Kind = Literal["read", "read_transaction", "statement", "transaction", "maintenance"]
"""Way in which the statements of a program are sent; see `Intent.kind`."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Kind and needs of a program. `Database.run` checks them for each program, on every road.

    Attributes:
        kind: how the program's statements are sent.
            ``"read"``: it changes nothing, and each statement may see a moment of its own.
            ``"read_transaction"``: it changes nothing but settings of the transaction it needs.
            ``"statement"``: it writes with a single statement, for which autocommit will do.
            ``"save"``: it writes with a single statement where the dialect has
            ``single_statement_save``, and otherwise all or nothing. Which of the two is decided
            when the server is known, so operations that save do not ask.
            ``"transaction"``: it writes, all or nothing.
            ``"maintenance"``: its statements refuse to be in a transaction; each commits by itself
            and must be safe to repeat.
        writes_payloads: it may write payloads, values or vectors that were encoded by this process,
            so the keys have to be those of the tenant. With ``False`` a statement that would is an
            AssertionError. ``"stored"`` is for programs that copy or re-encrypt what is stored
            already and have checked the keys themselves.
        brings_signatures: its rows come with the signatures that they had at the same place of
            another database.
        signs_at_once: its one statement binds the signatures of all that it changes.
        replica_ok: the answer may be a moment old, so a replica may give it. No write may rest on
            it.
        repeatable: running it twice does no harm, so it is repeated even where it is not known
            whether it was committed. Programs that write nothing always are.
        examines_index: its errors about a text index are its answer. Otherwise an index that is
            damaged is set aside, and the program runs again.
    """

    kind: Kind | Literal["save"]
    writes_payloads: bool | Literal["stored"] = False
    brings_signatures: bool = False
    signs_at_once: bool = False
    replica_ok: bool = False
    repeatable: bool = False
    examines_index: bool = False
    writes: bool = field(init=False)
    """True if a program of this kind may change the database."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "writes", self.kind not in ("read", "read_transaction"))

    def kind_on(self, dialect: Dialect) -> Kind:
        """Return how the statements are sent on *dialect*, whose server is known."""
        if self.kind == "save":
            return "statement" if ONE_STATEMENT in dialect.variants else "transaction"
        return self.kind


READ = Intent("read")
READ_REPLICA = Intent("read", replica_ok=True)
READ_IN_TRANSACTION = Intent("read_transaction")
WRITE = Intent("transaction", writes_payloads=True)
WRITE_STATEMENT = Intent("statement", writes_payloads=True)
WRITE_SAVE = Intent("save", writes_payloads=True)
WRITE_SIGNED_SAVE = Intent("save", writes_payloads=True, signs_at_once=True)
WRITE_ROWS = Intent("transaction")
"""Without payloads: names, positions, removals."""
EXAMINE_INDEX = Intent("transaction", examines_index=True)
WRITE_ROWS_STATEMENT = Intent("statement")
WRITE_STORED = Intent("transaction", writes_payloads="stored")
WRITE_COPIED = Intent("transaction", writes_payloads="stored", brings_signatures=True)
MAINTENANCE = Intent("maintenance")

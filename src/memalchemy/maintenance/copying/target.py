"""The target of a copy: writes rows as they are stored in the source."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Executable, Table, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.codec.encryption import is_encrypted
from memalchemy.database import WRITE_COPIED, Database
from memalchemy.dialects import Dialect
from memalchemy.errors import Conflict, Corrupt, NotEncrypted, UniqueViolation
from memalchemy.log.tables import THREADS
from memalchemy.maintenance.copying.report import CopyProgress, name_of
from memalchemy.maintenance.copying.row_comparison import Values
from memalchemy.maintenance.log_positions import LOG_ROWS
from memalchemy.rows import AS_STORED
from memalchemy.search.scope import ITEMS
from memalchemy.statements import Parameters, column_bind, program_of, statement


class OnTarget(enum.Enum):
    """The state of the target under a key of the source."""

    NOTHING = "nothing"
    SAME = "the same"
    OLDER = "what an earlier copy left"
    OTHER_VECTORS = "the same item with other vectors"
    OTHER = "something else"


class CopyTarget:
    """Writes rows to the target and counts them. Each write is on a transaction of the target."""

    def __init__(self, db: Database, progress: CopyProgress) -> None:
        self.db = db
        self.progress = progress
        self.refuses_plaintext_of: set[str] = set()
        """The tenants that are encrypted on the target and not in the source."""

    async def insert(
        self, table: str, rows: Sequence[Values], of: Values, transaction: AsyncConnection
    ) -> None:
        """Insert rows into a table; *of* names their log or item.

        Raises:
            NotEncrypted: a row is not encrypted, and its tenant is on the target.
            Conflict: others have written such a row meanwhile.
        """
        for row in rows if self.refuses_plaintext_of else ():
            is_refused = "codec" in row and row["tenant"] in self.refuses_plaintext_of
            if is_refused and not is_encrypted(row["codec"]):
                raise NotEncrypted(
                    f"tenant {row['tenant']!r} is encrypted on the target, and {name_of(of)} of "
                    "the source is not; it was not copied. Copy into an empty database, and "
                    "encrypt that with `memalchemy rotate-keys`."
                )
        await self.write(insert_copied_row(self.db.dialect, table=table), rows, of, transaction)

    async def write(
        self,
        statement: Executable,
        rows: Sequence[Values],
        of: Values,
        transaction: AsyncConnection,
    ) -> None:
        """Write rows whose columns a statement binds with ``p_``.

        Raises:
            Conflict: see `insert`.
        """
        if not rows:
            return
        binds = [{f"p_{name}": value for name, value in row.items()} for row in rows]
        try:
            await self.execute(statement, binds, transaction)
        except UniqueViolation as error:
            raise written_meanwhile(of) from error
        self.progress.tell(rows=len(rows))

    async def execute(
        self, statement: Executable, binds: Parameters, transaction: AsyncConnection
    ) -> int:
        """Execute a statement; return the number of rows it changed."""
        program = partial(program_of, statement, binds=binds)
        return (await self.db.run(program, WRITE_COPIED, connection=transaction)).touched


def written_meanwhile(row: Values) -> Conflict:
    """Return the error for what was written between the comparison of all and the copy of a row.

    On the target, or in the source with an earlier time than the target has.
    """
    name = name_of(row)
    return Conflict(
        f"the target holds something else as {name} since everything was compared: it was written "
        "there meanwhile, or in the source by somebody whose clock was set back. It was left as it "
        "is. What was copied before it stays.",
        current=[name],
    )


def not_as_written(table: str, row: Values) -> Corrupt:
    """Return the error for a target that changes what is written to it."""
    return Corrupt(
        f"the target does not give back what was written to {table}, of {name_of(row)}; it was "
        "not committed"
    )


# --- Statements ----------------------------------------------------------------------------------

_INSERTED: dict[str, Table] = {**LOG_ROWS, "threads": THREADS, "store_items": ITEMS}


@statement(table=tuple(_INSERTED), writes=AS_STORED)
def insert_copied_row(dialect: Dialect, table: str) -> Executable:
    """Insert a row as it is in another database."""
    return insert(_INSERTED[table]).values(
        {c.name: column_bind(c, "p") for c in _INSERTED[table].c}
    )

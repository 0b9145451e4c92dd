"""Note in the heads of logs that their rows were encoded, signed or indexed anew.

Such rows keep their positions, states and times, so that no other column of a head tells of them.
A copy in another database does not have the new form, and the next `memalchemy.maintenance.copying`
goes by the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import Executable, literal_column, update

from memalchemy.dialects import Dialect
from memalchemy.log.tables import THREADS, of_log
from memalchemy.rows import HEAD
from memalchemy.statements import Program, statement

REENCODED = 1 << 31
"""The step of an epoch. The bits below it are those in which a copy says what its head was: they
stay, so that rows of a copy that were encoded anew still count as rows of a copy."""


@statement(changes=HEAD)
def move_epoch_of_reencoded(dialect: Dialect) -> Executable:
    """Move the epoch of a log whose rows get another form."""
    step = literal_column(str(REENCODED), THREADS.c.epoch.type)
    return update(THREADS).where(of_log(THREADS)).values(epoch=THREADS.c.epoch + step)


def note_reencoding(dialect: Dialect, log_ids: Iterable[UUID]) -> Program[None]:
    """Move the epochs of logs, and thereby lock them, before rows of them get another form."""
    binds = [{"k_log_id": one} for one in sorted(set(log_ids))]
    if binds:
        yield move_epoch_of_reencoded(dialect), binds if len(binds) > 1 else binds[0]

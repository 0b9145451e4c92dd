"""The log under checkpoints and threads: allot positions, append, lock, delete, copy, list.

A log is (tenant, thread_id, namespace); its head is a row of ``threads``, and locking that row is
locking the log. Two rules hold every program here together:

* **The epoch.** A delta builds on a base row that another process may delete meanwhile. The save's
  own statement checks ``threads.epoch``, which moves whenever a possible base is removed.
* **Lock first, then look**, in separate statements: one statement that locks and decides reads a
  snapshot older than its lock.
"""

from memalchemy.log import citus, no_upsert, one_statement  # noqa: F401 (they register variants)
from memalchemy.log.append import Position, append_checkpoint
from memalchemy.log.copy import copy_log
from memalchemy.log.delete import (
    delete_checkpoint,
    delete_checkpoints,
    delete_log,
    delete_thread,
    forget_log,
    sweep,
    sweep_locked,
)
from memalchemy.log.heads import Head, lock_log, read_head, set_thread_metadata
from memalchemy.log.one_statement import append_checkpoints
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    STATES,
    THREADS,
    Log,
    new_epoch,
    truncate_to_second,
)

__all__ = [
    "CHECKPOINTS",
    "DELTAS",
    "STATES",
    "THREADS",
    "Head",
    "Log",
    "Position",
    "append_checkpoint",
    "append_checkpoints",
    "copy_log",
    "delete_checkpoint",
    "delete_checkpoints",
    "delete_log",
    "delete_thread",
    "forget_log",
    "lock_log",
    "new_epoch",
    "read_head",
    "set_thread_metadata",
    "sweep",
    "sweep_locked",
    "truncate_to_second",
]

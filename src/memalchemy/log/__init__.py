"""The log under checkpoints and threads: allot a position, append, lock, sweep, copy.

A log is (tenant, thread_id, namespace); its head is a row of ``threads``, and locking that row is
locking the log. Two rules hold every program here together:

* **The epoch.** A delta builds on a base row that another process may delete meanwhile. The save's
  own statement checks ``threads.epoch``, which moves whenever a possible base is removed.
* **Lock first, then look**, in separate statements: one statement that locks and decides reads a
  snapshot older than its lock.
"""

from memalchemy.log.appending import Position, append
from memalchemy.log.copying import copy_log
from memalchemy.log.grouped import append_many
from memalchemy.log.removing import (
    Head,
    delete_checkpoint,
    delete_log,
    delete_thread,
    lock_log,
    read_head,
    remove_log,
    sweep,
    sweep_locked,
)
from memalchemy.log.tables import CHECKPOINTS, DELTAS, STATES, THREADS, Log, new_epoch

__all__ = [
    "CHECKPOINTS",
    "DELTAS",
    "STATES",
    "THREADS",
    "Head",
    "Log",
    "Position",
    "append",
    "append_many",
    "copy_log",
    "delete_checkpoint",
    "delete_log",
    "delete_thread",
    "lock_log",
    "new_epoch",
    "read_head",
    "remove_log",
    "sweep",
    "sweep_locked",
]

"""A process whose main thread is interrupted at random places in calls without ``await``.

Usage: ``python interrupted_calls.py URL SEED INTERRUPTS``. Prints what is wrong, and nothing else.
"""

from __future__ import annotations

import faulthandler
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable

from memalchemy.sync import Checkpointer, Database, ThreadLog

LONGEST = 0.006
"""Seconds until an interrupt, at most; again each second, for one may be lost in a finalizer."""


def main(url: str, seed: int, interrupts: int) -> None:
    # A coroutine that a signal keeps from being handed over is never awaited, and Python says so.
    warnings.simplefilter("ignore", RuntimeWarning)
    chance = random.Random(seed)
    db = Database(url, tenant=f"interrupted-{seed}", migrate="upgrade")
    checkpointer, log = Checkpointer(db), ThreadLog(db)
    checkpointer.save({"n": 0}, "t", "c0")
    saved, paired = {0}, set[int]()

    def save(number: int) -> None:
        checkpointer.save({"n": number}, "t", f"c{number}")
        saved.add(number)

    def pair(number: int) -> None:
        paired.add(number)
        with db.transaction() as tx:
            checkpointer.save({"n": number}, "t", f"c{number}", connection=tx)
            with tx.begin_nested():
                log.append("t", [number], connection=tx)
        saved.add(number)

    def read(number: int) -> None:
        for _ in checkpointer.history("t"):
            break

    works: list[Callable[[int], None]] = [save, pair, read, lambda _: checkpointer.load("t")]
    seen = number = 0
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    while seen < interrupts:
        faulthandler.dump_traceback_later(60, exit=True)
        number += 1
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.random() * LONGEST + 1e-5, 1)
                chance.choice(works)(number)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            seen += 1
    signal.setitimer(signal.ITIMER_REAL, 0)

    save(number + 1)  # no transaction is left open
    stored = {int(name[1:]) for name in checkpointer.list_checkpoints("t", 10**6)}
    logged = {entry.value for entry in log.range("t")}
    if lost := saved - stored:
        print("lost", sorted(lost))
    if halves := (logged ^ stored) & paired:
        print("half of a transaction", sorted(halves))
    db.close()
    if left := [one.name for one in threading.enumerate() if one.name.startswith("memalchemy")]:
        print("threads", left)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

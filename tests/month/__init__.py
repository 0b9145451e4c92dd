"""A month in half an hour: what a real application does in a month, at random from a seed.

`test_month.py` runs a month on each database and has it judged. The parts:

- `ledger`: the model. It knows of each conversation, item and document what must be there.
- `agents`: ten agents, five frameworks for each of two tenants, beside memalchemy's own classes.
- `turns`: what an agent does: write, read, search, delete.
- `worker`: the processes in which agents live, whose clocks jump.
- `places`: the database under them: a SQLite file, or servers with a standby and a subscriber.
- `team`: who is at work: starts and stops the workers and the HTTP server.
- `jobs`: what an operator does: prune, rotate keys, back up, restore, copy, upgrade, erase, look.
- `faults`: what befalls them: killed workers, cut connections, a restarted server, a lost primary.
- `judgement`: what must hold in the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
OTHERS = ("integrations", "conformance", "durability", "migrations")
"""Directories of tests with modules that the month uses."""

sys.path += [str(TESTS / name) for name in OTHERS if str(TESTS / name) not in sys.path]

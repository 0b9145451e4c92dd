"""A script without asyncio: an agent that plans a trip, is stopped, and goes on where it was.

    python examples/script_without_asyncio.py

It uses a SQLite file in a temporary directory. Another database is another URL.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from memalchemy.sync import Checkpointer, Database

State = dict[str, Any]
PLAN = ("find a flight", "book a hotel", "rent a car")


def work(state: State, checkpointer: Checkpointer, steps: int) -> State:
    """Do the next *steps* of the plan, and save after each."""
    for task in PLAN[len(state["done"]) :][:steps]:
        state["done"].append(task)
        state["messages"].append({"role": "assistant", "content": f"Done: {task}."})
        checkpointer.save(state, "trip", metadata={"task": task})
        print(f"  {task}")
    return state


def main(url: str) -> None:
    print("The first process does two steps and is stopped.")
    with Database(url) as db:
        begun = {"messages": [{"role": "user", "content": "Plan my trip to Lisbon."}], "done": []}
        work(begun, Checkpointer(db), steps=2)

    print("The second one loads the newest state and goes on.")
    with Database(url) as db:
        checkpointer = Checkpointer(db)
        state = checkpointer.load("trip")
        assert state is not None
        assert state["done"] == ["find a flight", "book a hotel"]
        work(state, checkpointer, steps=1)

        print("Its history, newest first:")
        steps = list(checkpointer.history("trip"))
        for step in steps:
            print(f"  {step.checkpoint_id}  {step.metadata['task']:14} {step.stored_size:>4} bytes")

        hotel, flight = steps[1], steps[2]
        print("Back to the flight, on a branch: a hostel instead of the hotel.")
        other = checkpointer.load("trip", flight.checkpoint_id)
        assert other is not None
        other["done"].append("book a hostel")
        branch = checkpointer.save(other, "trip", parent_id=flight.checkpoint_id)
        difference = checkpointer.diff("trip", hotel.checkpoint_id, branch)
        for path, (before, after) in difference.changed.items():
            print(f"  {path}: {before!r} → {after!r}")
        assert ("book a hotel", "book a hostel") in difference.changed.values()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(f"sqlite:///{Path(directory) / 'trip.db'}")

"""Data to ask about: a week of an agency with two agents, in agency.db.

    python examples/agency.py

docs/ask-your-data.md has ten questions about it, with their answers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memalchemy import MemoryFact
from memalchemy.sync import Checkpointer, Database, UserMemoryStore

MONDAY = datetime(2026, 11, 2, 9, tzinfo=UTC)
TURNS = """
trip-1   | 0 | planner | ada  | A flight to Lisbon?    | flights | TP571         | 900  | 0.018
trip-1   | 0 | planner | ada  | Book it.               | book    | card declined | 1300 | 0.026
trip-1   | 1 | planner | ada  | Try my other card.     | book    | booked        | 1700 | 0.034
trip-2   | 1 | planner | ben  | A hotel in Oslo?       | hotels  | Grand         | 700  | 0.014
refund-1 | 2 | clerk   | ada  | My money back, please. | refund  | 240 EUR       | 800  | 0.004
refund-2 | 3 | clerk   | cleo | Where is my refund?    | refund  |               | 600  | 0.003
"""
"""Thread, day, agent, person, question, tool, its result, tokens of the prompt, dollars."""


def save_turns(checkpointer: Checkpointer) -> None:
    """Save a state when the agent calls a tool, and one when the tool has answered."""
    said: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(TURNS.strip().splitlines()):
        parts = map(str.strip, line.split("|"))
        thread, day, agent, person, question, tool, result, tokens, dollars = parts
        messages = said.setdefault(thread, [])
        call = {"id": f"call-{number}", "name": tool, "arguments": {"about": question}}
        messages += [
            {"role": "user", "content": question},
            {
                "role": "assistant",
                "tool_calls": [call],
                "model": "large" if agent == "planner" else "small",
                "usage": {"prompt_tokens": int(tokens), "completion_tokens": 50},
            },
        ]
        moment = MONDAY + timedelta(days=int(day), minutes=number)
        who = {"agent": agent, "user_id": person}
        cost = who | {"cost_usd": float(dollars)}
        state = {"messages": messages}
        checkpointer.save(state, thread, metadata=cost, occurred_at=moment)
        if result:
            answer = {"role": "tool", "tool_call_id": call["id"], "content": result}
            messages.append(answer | {"is_error": "declined" in result})
            moment += timedelta(seconds=2 + number)
            checkpointer.save(state, thread, metadata=who, occurred_at=moment)


def main(file: Path) -> None:
    """Write the week into a new database."""
    if file.exists():
        print(f"{file} is there already")
        return
    with Database(f"sqlite:///{file}") as db:
        save_turns(Checkpointer(db))
        UserMemoryStore(db).add(MemoryFact("f1", "ada", "flies from Lisbon"))
    print(f'ask it: memalchemy --db {file} sql "from tool_calls"')


if __name__ == "__main__":
    main(Path("agency.db"))

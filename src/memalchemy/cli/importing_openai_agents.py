"""`import openai-agents`: sessions from the SDK's own tables."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from memalchemy.cli.command import Invocation, asking_for_sense
from memalchemy.cli.exits import OK, REFUSED
from memalchemy.cli.terminal import counted

if TYPE_CHECKING:
    from memalchemy.importers.openai_agents import Outcome

STATUSES = ("imported", "resumed", "unchanged", "replaced", "skipped", "conflict", "bad")


async def import_openai_agents(
    at: Invocation,
    url: str,
    schema: str | None,
    messages_table: str | None,
    prefix: str,
    on_conflict: Literal["error", "skip", "replace"],
    dry_run: bool,
) -> int:
    """Import every session of the tables at *url*; the command's exit code."""
    from memalchemy.importers.openai_agents import MESSAGES, count_sessions, import_sessions

    of_source = Invocation(replace(at.common, db=url, schema=schema, keys_file=None, readable=None))
    messages = messages_table or MESSAGES
    outcomes: list[Outcome] = []
    sessions: set[str] = set()
    started = time.perf_counter()
    with at.terminal.progress() as bar:
        task = bar.add_task("looking" if dry_run else "importing", total=None)
        async with of_source.database(migrate="off") as source, at.target(dry_run=dry_run) as db:
            bar.update(task, total=await count_sessions(source, messages_table=messages))
            with asking_for_sense():
                async for outcome in import_sessions(
                    source,
                    db,
                    messages_table=messages,
                    prefix=prefix,
                    on_conflict=on_conflict,
                    dry_run=dry_run,
                ):
                    outcomes.append(outcome)
                    sessions.add(outcome.session_id)
                    bar.update(task, completed=len(sessions))
                    if outcome.problem:
                        at.terminal.note(f"{_name(outcome)}: {outcome.problem}")
                    if outcome.unreadable:
                        rows = counted(outcome.unreadable, "row")
                        at.terminal.note(f"{_name(outcome)}: {rows} left out, not JSON")
    _tell(at, outcomes, len(sessions), time.perf_counter() - started, dry_run)
    refused = any(o.status in ("bad", "conflict") or o.unreadable for o in outcomes)
    return REFUSED if refused else OK


def _tell(
    at: Invocation, outcomes: list[Outcome], sessions: int, seconds: float, dry_run: bool
) -> None:
    counts: Counter[str] = Counter(outcome.status for outcome in outcomes)
    items, unreadable = (
        sum(getattr(outcome, name) for outcome in outcomes) for name in ("items", "unreadable")
    )
    if at.as_json:
        at.terminal.document(
            {
                "dry_run": dry_run,
                "sessions": sessions,
                "branches": {status: counts[status] for status in STATUSES},
                "items": items,
                "unreadable": unreadable,
                "seconds": round(seconds, 3),
                "problems": [
                    {
                        "session_id": outcome.session_id,
                        "branch": outcome.branch,
                        "unreadable": outcome.unreadable,
                        "problem": outcome.problem,
                    }
                    for outcome in outcomes
                    if outcome.problem or outcome.unreadable
                ],
            }
        )
        return
    told = ", ".join(f"{counts[status]:,} {status}" for status in STATUSES if counts[status])
    branches = counted(len(outcomes), "branch", "branches")
    at.terminal.say(f"{counted(sessions, 'session')}, {branches}: {told or 'none'}")
    done = "would be written" if dry_run else "written, read back and compared"
    at.terminal.say(f"{counted(items, 'item')} {done} in {seconds:.1f} s")


def _name(outcome: Outcome) -> str:
    return f"session {outcome.session_id}" + (
        "" if outcome.branch == "main" else f", branch {outcome.branch}"
    )

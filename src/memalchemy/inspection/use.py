"""The use that agents made: tokens, cost and calls of tools, by day, model, tool and agent."""

from __future__ import annotations

from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.inspection._records import Record
from memalchemy.inspection.thread_summaries import ThreadSummaries, read_newest
from memalchemy.inspection.threads import list_thread_heads
from memalchemy.usage import Usage

WINDOW = 500
"""Threads that are summed up at once."""
_USE = "used by logs"


async def sum_use(
    summaries: ThreadSummaries, *, framework: str = "", cursor: str | None = None
) -> Record:
    """Return what threads used; see `Inspector.use`."""
    db = summaries.db
    inner = None if cursor is None else decode_cursor(_USE, cursor, (str,))[0]
    page = await list_thread_heads(db, framework=framework, cursor=inner, limit=WINDOW)
    read = await summaries.read(page.heads, await read_newest(db, page.heads))
    models: dict[tuple[str, str | None], tuple[int, Usage]] = {}
    tools: dict[tuple[str, str], tuple[int, int]] = {}
    agents: dict[str | None, tuple[int, int, Usage]] = {}
    unread: dict[str, int] = {}
    for summary in read.values():
        if summary.problem is not None:
            unread[summary.problem] = unread.get(summary.problem, 0) + 1
        for key, (answers, usage) in summary.sums.models.items():
            before = models.get(key, (0, Usage()))
            models[key] = before[0] + answers, before[1] + usage
        for tool, (calls, errors) in summary.sums.tools.items():
            known = tools.get(tool, (0, 0))
            tools[tool] = known[0] + calls, known[1] + errors
        answers = sum(one for one, _ in summary.sums.models.values())
        threads, said, used = agents.get(summary.agent, (0, 0, Usage()))
        agents[summary.agent] = threads + 1, said + answers, used + summary.sums.usage
    return {
        "models": [
            {"day": day, "model": model, "answers": answers} | _numbers(usage)
            for (day, model), (answers, usage) in sorted(models.items(), key=_by_day)
        ],
        "tools": [
            {"day": day, "tool": tool, "calls": calls, "errors": errors}
            for (day, tool), (calls, errors) in sorted(tools.items())
        ],
        "agents": [
            {"agent": agent, "threads": threads, "answers": answers} | _numbers(usage)
            for agent, (threads, answers, usage) in agents.items()
        ],
        "looked": len(page.heads),
        "partial": sum(summary.is_partial for summary in read.values()),
        "unread": [{"problem": name, "threads": count} for name, count in sorted(unread.items())],
        "next": None if page.next is None else encode_cursor(_USE, page.next),
    }


def _by_day(one: tuple[tuple[str, str | None], Any]) -> tuple[str, str]:
    (day, model), _ = one
    return day, model or ""


def _numbers(usage: Usage) -> Record:
    return {
        "input_tokens": usage.input_tokens or 0,
        "output_tokens": usage.output_tokens or 0,
        "cached_tokens": usage.cached_tokens or 0,
        "cost_usd": usage.cost_usd,
    }

"""Completion of thread ids on the command line, from the database that the line names."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import typer

from memalchemy.cli.context import Context
from memalchemy.cli.options import CommonOptions
from memalchemy.errors import MemalchemyError

LIMIT = 50
"""Ids that are offered at once."""

SECONDS = 2
"""A database that has not answered by then completes nothing."""

_SAFE = re.compile(r"[\w.@%+=,/~-]+")
"""Ids that are offered. Others would need quoting, which differs between shells, and Typer's script
for zsh evaluates what it is given.
"""


def complete_thread(typer_context: typer.Context, incomplete: str) -> list[str]:
    """Return ids of threads that begin with *incomplete*; without it, those written last.

    Any failure completes nothing, and says nothing: the shell would mix it into its line.
    """
    import asyncio

    # Loaded here, since that takes no time of the database's.
    import memalchemy.checkpoints.checkpointer
    import memalchemy.log.listing  # noqa: F401

    try:
        found = asyncio.run(
            asyncio.wait_for(_complete_thread_ids(typer_context, incomplete), SECONDS)
        )
    except (MemalchemyError, OSError, ValueError, TimeoutError):
        return []
    return [thread for thread in found if _SAFE.fullmatch(thread)]


async def _complete_thread_ids(typer_context: typer.Context, incomplete: str) -> list[str]:
    from memalchemy import Checkpointer
    from memalchemy.log.listing import threads_by_prefix

    options, names = CommonOptions(), {field.name for field in fields(CommonOptions)}
    contexts: list[Any] = [typer_context]
    while contexts[-1].parent is not None:
        contexts.append(contexts[-1].parent)
    for one in reversed(contexts):
        given = {name: value for name, value in one.params.items() if name in names}
        options = options.override(given)
    async with Context(options).database() as db:
        if incomplete:
            return await threads_by_prefix(db, incomplete, limit=LIMIT)
        logs = await Checkpointer(db).list_logs(limit=LIMIT, below=True)
        return list(dict.fromkeys(log.thread_id for log in logs))

"""A process that writes to a store of Claude's or of A2A's, and prints the name of each write.

Its arguments are ``transcript`` or ``task``, the database's URL, the tenant, a name for the
process, and the number of writes. A name is printed when the write has ended.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from memalchemy import Database

LINES = 3
"""Lines of a batch, and messages that a save adds."""
ID = "550e8400-e29b-41d4-a716-446655440000"
KEY: Any = {"project_key": "project", "session_id": ID}


async def append(db: Database, name: str) -> None:
    """Append a batch of lines, and once more, as after an answer that was lost."""
    from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

    lines: list[Any] = [
        {"type": "user", "uuid": f"{name}.{at}", "message": {"role": "user", "content": name}}
        for at in range(LINES)
    ]
    store = MemalchemySessionStore(db)
    await store.append(KEY, lines)
    await store.append(KEY, lines)


async def save(db: Database, name: str) -> None:
    """Add messages to a task, and try again if somebody else has saved it meanwhile."""
    from a2a.server.cluster.task_store import ConcurrentTaskModificationError
    from a2a.server.cluster.version import TaskVersion
    from a2a.server.context import ServerCallContext
    from a2a.types import Message, Task

    from memalchemy.integrations.a2a import MemalchemyVersionedTaskStore

    store, call = MemalchemyVersionedTaskStore(db), ServerCallContext()
    while True:
        known = await store.get(ID, call)
        task = Task(id=ID) if known is None else known.task
        task.history.extend(Message(message_id=f"{name}.{at}") for at in range(LINES))
        version = TaskVersion.MISSING if known is None else known.version
        try:
            await store.save(task, prev_version=version, context=call)
        except ConcurrentTaskModificationError:
            continue
        return


async def main(what: str, url: str, tenant: str, process: str, count: str) -> None:
    write = {"transcript": append, "task": save}[what]
    async with Database(url, tenant=tenant) as db:
        for number in range(int(count)):
            await write(db, f"{process}-{number}")
            print(f"{process}-{number}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

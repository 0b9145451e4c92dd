"""Logs by their names, and their heads: what several views read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.inspection import _statements as statements
from memalchemy.keys import check_namespace, check_thread_id, decode_namespace, encode_namespace
from memalchemy.log import Log
from memalchemy.log.scan import run_query

Namespace = tuple[str, ...]


async def query(db: Database, family: Callable[..., Any], binds: Mapping[str, Any]) -> Any:
    """Return the rows of a statement's variant for the database; a replica may give them."""
    return await run_query(db, family(db.dialect), binds, replica_ok=True)


def log_of(db: Database, thread_id: str, namespace: Iterable[str]) -> Log:
    """Return the name of a thread's log in a namespace.

    Raises:
        InvalidArgument: the id or the namespace is malformed.
    """
    path = encode_namespace(check_namespace(namespace))
    return Log(db.tenant, check_thread_id(thread_id), path)


async def find_heads(db: Database, logs: Sequence[Log]) -> list[Any]:
    """Return the heads of those logs that are there and hold something, in any order."""
    found: list[Any] = []
    listed = [(log.key,) for log in logs]
    for binds in db.dialect.statements.list_batches("p_logs", listed):
        found += await query(db, statements.read_heads, binds)
    return found


async def find_head(db: Database, log: Log) -> Any:
    """Return the head of a log.

    Raises:
        NotFound: there is no such log, or it is empty.
    """
    rows = await find_heads(db, [log])
    if not rows:
        namespace = "/".join(decode_namespace(log.namespace)) or "/"
        raise NotFound(
            f"there is no thread {log.thread_id!r} in namespace {namespace}; `Inspector.threads` "
            "lists the namespace of each thread"
        )
    return rows[0]

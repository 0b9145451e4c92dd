"""Writes that are done once, however often a client repeats them with one Idempotency-Key.

The answer is stored with the write, in one transaction. So it is there for whoever repeats the
request, after a lost connection, a restart, or through another server on the same database. Every
erasure of the tenant's takes the stored answers with it, and leaves the fingerprints of requests:
what was done is not done again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

from memalchemy.database.driver_errors import TenantNotSet
from memalchemy.errors import Conflict, MemalchemyError
from memalchemy.http.server._context import OperationResult, RequestContext
from memalchemy.http.server._problems import Problem
from memalchemy.keys import InternalNamespace
from memalchemy.search.kept_http_answers import ANSWERS

REQUESTS = InternalNamespace(("requests",))
"""Namespace of the fingerprints of requests that were done, beside that of their answers."""

LIFETIME = 24 * 60 * 60
"""Seconds for which an answer is kept."""

_KEY = re.compile(r"[\x21-\x7e]{1,128}")

Write = Callable[[RequestContext], Awaitable[OperationResult]]


def check_key(key: str) -> str:
    """Return an Idempotency-Key.

    Raises:
        Problem: it is empty, too long, or of other than visible ASCII characters (400).
    """
    if not _KEY.fullmatch(key):
        raise Problem(400, "an Idempotency-Key is 1 to 128 visible ASCII characters")
    return key


def fingerprint(*parts: bytes) -> str:
    """Return a digest of what makes a request the same as another."""
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


async def answer_once(
    context: RequestContext, key: str, request: str, write: Write
) -> OperationResult:
    """Do *write* and store its answer, or return the answer that is stored under *key*.

    An error is not stored: nothing was done, and the request may be repeated.

    Args:
        request: the fingerprint of the request.

    Raises:
        Problem: the key was used for another request (422).
        Conflict: the request was done, and its answer has been erased.
    """
    done = await _stored_answer(context, key, request)
    if done is not None:
        return done
    try:
        try:
            answer = await _write_and_store(context, key, request, write)
        except TenantNotSet:
            # Row-level security was turned on while this server ran. Nothing was done, and the next
            # transaction knows of it.
            await context.db.tenant_wall()
            answer = await _write_and_store(context, key, request, write)
    except (MemalchemyError, Problem) as error:
        # The same request may have been answered meanwhile, and then that is why this one failed.
        if isinstance(error, MemalchemyError) and not isinstance(error, Conflict | LookupError):
            raise
        done = await _stored_answer(context, key, request)
        if done is None:
            raise
        return done
    return answer


async def _write_and_store(
    context: RequestContext, key: str, request: str, write: Write
) -> OperationResult:
    """Do *write* and store its answer, in one transaction."""
    async with context.db.transaction() as tx:
        answer = await write(context.on(tx))
        record = {
            "status": answer.status,
            "tree": answer.tree,
            "headers": dict(answer.headers),
        }
        await context.requests.put(
            REQUESTS, key, request, ttl=LIFETIME, expected_version=None, connection=tx
        )
        await context.requests.put(ANSWERS, key, record, ttl=LIFETIME, connection=tx)
    return answer


async def _stored_answer(context: RequestContext, key: str, request: str) -> OperationResult | None:
    done = await context.requests.get(REQUESTS, key)
    if done is None:
        return None
    if done != request:
        raise Problem(422, "this Idempotency-Key was used for another request; nothing was done")
    record: Any = await context.requests.get(ANSWERS, key)
    if record is None:
        raise Conflict(
            "this request was done under its Idempotency-Key, and its answer has been erased by a "
            "forget since; nothing was done now"
        )
    return OperationResult(record["tree"], record["status"], record["headers"])

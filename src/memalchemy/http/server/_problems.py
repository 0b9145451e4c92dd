"""Errors as problem documents (RFC 9457).

The caller learns of every error that is about the request. What is wrong with the database or with
memalchemy itself goes to the server's log; the caller learns that the server is in trouble.
"""

from __future__ import annotations

import logging
import traceback
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memalchemy.errors import (
    CapabilityMissing,
    Conflict,
    Corrupt,
    DatabaseUnreachable,
    InvalidArgument,
    KeyMissing,
    MemalchemyError,
    NotEncrypted,
    NotFound,
    NotSerialisable,
    NotSigned,
    StatementFailed,
    ThreadDeleted,
    TooLarge,
)
from memalchemy.http import wire

log = logging.getLogger("memalchemy.http")

request_id: ContextVar[str] = ContextVar("memalchemy_request_id", default="-")
"""The id of the request that is answered, for logs."""

STATUSES: dict[type[MemalchemyError], int] = {
    Conflict: 409,
    NotFound: 404,
    ThreadDeleted: 410,
    NotSerialisable: 422,
    TooLarge: 422,
    CapabilityMissing: 501,
}
"""The errors that are about the request: the caller gets their messages and attributes."""

_UNREACHABLE = "the database behind this server cannot be used at the moment; its log says why"
_CORRUPT = "stored data is damaged; the server's log says where"
_KEYLESS = "this server lacks a key of the tenant; nothing was done, and its log says which"
_BARE = (
    "stored data lacks the encryption or signature that is asked for; the server's log says where"
)
_FAILED = "the database behind this server refused a statement; its log says which error it was"


class Problem(Exception):
    """An error response. Its code is ``HTTP-`` and the status, unless another is given."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}
        self.document = {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            "code": code or f"HTTP-{status}",
            **members,
        }

    def response(self) -> Response:
        """Return the problem as a response."""
        return Response(
            wire.dumps(self.document),
            self.status,
            headers={"Cache-Control": "no-store", **self.headers},
            media_type=wire.PROBLEM_JSON,
        )


def too_large(detail: str, size: int, limit: int) -> Problem:
    """Return the problem of a body that is over a limit of this server."""
    return Problem(413, detail, code=TooLarge.code, error="TooLarge", size=size, limit=limit)


def unavailable(
    detail: str,
    *,
    status: int = 503,
    maybe_applied: bool = False,
    busy: bool = False,
    headers: dict[str, str] | None = None,
) -> Problem:
    """Return the problem for which the client raises `DatabaseUnreachable`."""
    return Problem(
        status,
        detail,
        code=DatabaseUnreachable.code,
        error="DatabaseUnreachable",
        maybe_applied=maybe_applied,
        busy=busy,
        headers=headers,
    )


def problem_of(error: Exception) -> Problem:
    """Return the answer to a request that *error* ended; log what the caller must not learn."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InvalidArgument):
        return Problem(422, str(error), code=error.code, error="InvalidArgument")
    if isinstance(error, MemalchemyError):
        return _problem_of_memalchemy_error(error)
    return _problem_of_unexpected(error)


async def routing_problem(request: Request, error: Exception) -> Response:
    """Raise Starlette's 404 or 405 as a `Problem`; Starlette itself would answer in plain text."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        raise Problem(
            404, f"there is no such endpoint; {wire.VERSION_PATH}/openapi.json lists them all"
        ) from None
    assert error.status_code == 405
    detail = "this endpoint does not take this method; the header Allow lists those that it takes"
    raise Problem(405, detail, headers=dict(error.headers or {})) from None


def _problem_of_memalchemy_error(error: MemalchemyError) -> Problem:
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            members = wire.encode_error(error)
            return Problem(status, str(error), code=kind.code, error=kind.__name__, **members)
    _log_error(error)
    if isinstance(error, Corrupt):
        return Problem(500, _CORRUPT, code=Corrupt.code, error="Corrupt")
    if isinstance(error, KeyMissing):
        return Problem(500, _KEYLESS, code=KeyMissing.code, error="KeyMissing")
    for kind in (NotEncrypted, NotSigned):
        if isinstance(error, kind):
            return Problem(500, _BARE, code=kind.code, error=kind.__name__)
    if isinstance(error, StatementFailed):
        return Problem(500, _FAILED, code=StatementFailed.code, error="StatementFailed")
    known = error if isinstance(error, DatabaseUnreachable) else DatabaseUnreachable("")
    return unavailable(_UNREACHABLE, maybe_applied=known.maybe_applied, busy=known.busy)


def not_ready(error: MemalchemyError) -> Problem:
    """Return the problem of a readiness check that ended with *error*, which is logged."""
    _log_error(error)
    return unavailable(_UNREACHABLE)


def _log_error(error: MemalchemyError) -> None:
    log.error("%s [%s]: %s request=%s", type(error).__name__, error.code, error, request_id.get())


def _problem_of_unexpected(error: Exception) -> Problem:
    # A defect of memalchemy. The words of the error may quote a stored value: they are not logged.
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
    log.error("%s at %s request=%s", type(error).__name__, where, request_id.get())
    return Problem(500, "something went wrong inside the server; its log says where")

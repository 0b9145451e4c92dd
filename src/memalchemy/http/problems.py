"""Errors as problem JSON (RFC 9457): the status and what a caller may know, in one place.

What is the server's own trouble (its database's address, its schema, its rights) goes to its log;
the caller learns that the server is in trouble.
"""

from __future__ import annotations

import dis
import logging
import traceback
from http import HTTPStatus
from typing import Any

from memalchemy.errors import (
    CapabilityMissing,
    Conflict,
    Corrupt,
    DatabaseUnreachable,
    MemalchemyError,
    NotFound,
    NotSerialisable,
    StatementFailed,
    ThreadDeleted,
    TooLarge,
)
from memalchemy.http import wire

log = logging.getLogger("memalchemy.http")

_STATUS: dict[type[MemalchemyError], int] = {
    Conflict: 409,
    NotFound: 404,
    ThreadDeleted: 410,
    NotSerialisable: 422,
    TooLarge: 422,
    CapabilityMissing: 501,
}
"""Errors of which a caller learns every word: they are about what was asked."""

_AWAY = "the database behind this server cannot be used at the moment; its log says why"
_DAMAGED = "what is stored is damaged; the server's log says where"
_REFUSED = "the database behind this server refused a statement; its log says which error it was"


class Problem(Exception):
    """An answer that is no success."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        **more: Any,
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
            **more,
        }


def problem_of(error: Exception) -> Problem:
    """The answer to a request that *error* ended."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, MemalchemyError):
        return _of_ours(error)
    if isinstance(error, ValueError | TypeError) and _is_about_an_argument(error):
        return Problem(422, str(error), code=wire.ARGUMENT, error=type(error).__name__)
    return unexpected(error)


def _of_ours(error: MemalchemyError) -> Problem:
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            more = wire.tree_of_error(error)
            return Problem(status, str(error), code=kind.code, error=kind.__name__, **more)
    log.error("%s [%s]: %s", type(error).__name__, error.code, error)
    if isinstance(error, Corrupt):
        return Problem(500, _DAMAGED, code=Corrupt.code, error="Corrupt")
    if isinstance(error, StatementFailed):
        return Problem(500, _REFUSED, code=StatementFailed.code, error="StatementFailed")
    known = error if isinstance(error, DatabaseUnreachable) else DatabaseUnreachable("")
    return away(_AWAY, maybe_applied=known.maybe_applied, busy=known.busy)


def away(
    detail: str,
    *,
    status: int = 503,
    maybe_applied: bool = False,
    busy: bool = False,
    headers: dict[str, str] | None = None,
) -> Problem:
    """The server cannot answer now; the client raises `DatabaseUnreachable`."""
    return Problem(
        status,
        detail,
        code=DatabaseUnreachable.code,
        error="DatabaseUnreachable",
        maybe_applied=maybe_applied,
        busy=busy,
        headers=headers,
    )


def unexpected(error: BaseException) -> Problem:
    """A mistake of memalchemy's; where it was, and none of its words, which may quote a value."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{f.filename}:{f.lineno}" for f in reversed(frames))
    log.error("%s at %s", type(error).__name__, where)
    return Problem(500, "something went wrong inside the server; its log says where")


def _is_about_an_argument(error: Exception) -> bool:
    """Whether memalchemy raised it, by a ``raise``: the sentence is then for the caller. An error
    that an operation of Python's met inside is a mistake of memalchemy's.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    instruction = trace.tb_frame.f_code.co_code[trace.tb_lasti]
    module = str(trace.tb_frame.f_globals.get("__name__"))
    return module.startswith("memalchemy.") and dis.opname[instruction] == "RAISE_VARARGS"

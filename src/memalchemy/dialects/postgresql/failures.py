"""PostgreSQL: what an error of the server, or of one of its drivers, means."""

from __future__ import annotations

import asyncio

from memalchemy.dialects.base import Failure, original
from memalchemy.dialects.postgresql.row_level_security import TENANT_NOT_SET

DATE_STYLE = "DateStyle"

_BY_CLASS = {
    "08": Failure.DISCONNECTED,
    "28": Failure.AUTHENTICATION,
    "53": Failure.UNREACHABLE,
}
_BY_STATE = {
    "23505": Failure.UNIQUE,
    "25006": Failure.READ_ONLY,
    "26000": Failure.NOT_PREPARED,
    "3D000": Failure.UNREACHABLE,
    "3F000": Failure.MISSING_TABLE,
    "40001": Failure.ROLLED_BACK,
    "40P01": Failure.ROLLED_BACK,
    "42501": Failure.PERMISSION,
    "42P01": Failure.MISSING_TABLE,
    "53100": Failure.FULL,
    "53200": Failure.FULL,
    "55P03": Failure.BUSY,
    "57014": Failure.BUSY,
    "57P01": Failure.DISCONNECTED,
    "57P02": Failure.DISCONNECTED,
    "57P03": Failure.UNREACHABLE,
    "57P05": Failure.DISCONNECTED,
    TENANT_NOT_SET: Failure.TENANT_NOT_SET,
    "XX001": Failure.CORRUPT,
    "XX002": Failure.CORRUPT,
}


def classify(error: BaseException) -> tuple[Failure, str | None]:
    """Return what an error means, and its SQLSTATE where it has one."""
    cause = original(error)
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if state is None and cause.__cause__ is not None:  # SQLAlchemy's asyncpg adapter
        state = getattr(cause.__cause__, "sqlstate", None)
    if state:
        return _BY_STATE.get(state) or _BY_CLASS.get(state[:2], Failure.OTHER), state
    if getattr(error, "connection_invalidated", False):
        return Failure.DISCONNECTED, None
    if isinstance(cause, (OSError, asyncio.TimeoutError)):
        return Failure.UNREACHABLE, None
    kinds = {cls.__name__ for cls in type(cause).__mro__}
    if isinstance(cause, NotImplementedError) and "DateStyle" in str(cause):
        return Failure.DATE_STYLE, DATE_STYLE  # psycopg, which reads ISO's alone
    if "InterfaceError" in kinds and "another operation is in progress" in str(cause):
        return Failure.IN_USE, None  # asyncpg's own text: it has no code for it
    if "DataError" in kinds and str(cause).startswith("timestamp too"):
        return Failure.CORRUPT, None  # psycopg, of a time that Python has not
    if "InternalClientError" in kinds:
        # What asyncpg says while the server's farewell is all that it has read.
        return Failure.DISCONNECTED, None
    if not kinds & {"InterfaceError", "OperationalError", "ConnectionDoesNotExistError"}:
        return Failure.OTHER, None
    # psycopg keeps the connection attempt that failed. libpq gives no SQLSTATE for it: this is
    # the one place where text is read, and in another language it is merely "unreachable".
    attempt = getattr(cause, "pgconn", None)
    if attempt is not None and ("authentication failed" in str(cause) or attempt.needs_password):
        return Failure.AUTHENTICATION, None
    if attempt is not None and "unsupported startup parameter" in str(cause):
        return Failure.DISCONNECTED, "08P01"  # PgBouncer's, as asyncpg reads it
    return Failure.DISCONNECTED, None

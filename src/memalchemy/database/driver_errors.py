"""Translate the errors of drivers into memalchemy's: the one place where that is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from memalchemy import migrate
from memalchemy.dialects import Dialect, Failure, original
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    Corrupt,
    DatabaseUnreachable,
    MemalchemyError,
    SchemaOutdated,
    StatementFailed,
    UniqueViolation,
)


class ConnectionLost(DatabaseUnreachable):
    """The connection went away; whether the statement that was running ran is unknown."""


class TableMissing(SchemaOutdated):
    """A statement found a table of memalchemy's missing."""


class TextIndexDamaged(Corrupt):
    """A text index is damaged or set aside. It is derived from the rows, which are whole."""


class RolledBack(StatementFailed):
    """The database rolled the transaction back (deadlock, serialisation); repeating it is safe."""


class TakesNoWrites(CapabilityMissing):
    """The node takes no writes, so nothing was done; another connection may lead to one that does.

    After a failover the name of the primary leads elsewhere, and connections stay where they are.
    """


class TenantNotSet(StatementFailed):
    """The tenants are walled by row-level security, and the transaction did not say its tenant.

    Nothing was done. The wall was built after this process had asked for it.
    """


class Translate(Protocol):
    """Translate a driver's error into memalchemy's; return any other error unchanged."""

    def __call__(self, error: BaseException, *, connecting: bool = False) -> BaseException: ...


class translating:  # noqa: N801 - called as a function is
    """Block that raises memalchemy's error for a driver's, and any other error unchanged.

    For calls of the driver only: a `TimeoutError` of a host's own code would be taken for the
    driver's.
    """

    __slots__ = ("_translate",)

    def __init__(self, translate: Callable[[BaseException], BaseException]) -> None:
        self._translate = translate

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception):
            ours = self._translate(error)
            if ours is not error:
                raise ours from error


def translator_for_host_code(translate: Translate, dialect: Dialect) -> Translate:
    """Restrict *translate* to errors of SQLAlchemy and the driver, so a host's own errors pass.

    A host's `FileNotFoundError` or `TimeoutError` looks like that of a driver's socket.
    """

    def driver_errors_only(error: BaseException, *, connecting: bool = False) -> BaseException:
        known = isinstance(error, (SQLAlchemyError, *dialect.driver_errors))
        if known or dialect.classify(error)[0] is Failure.DATE_STYLE:
            return translate(error, connecting=connecting)
        return error

    return driver_errors_only


def translator(dialect: Dialect, display: str, *, pgbouncer: bool = False) -> Translate:
    """Return the translation for a database; *display* is its URL without secrets.

    With *pgbouncer* no error advises to say that there is one.

    A driver's message is not repeated in memalchemy's: it may quote values.
    """

    def translate(error: BaseException, *, connecting: bool = False) -> BaseException:
        if isinstance(error, MemalchemyError):
            return error
        failure, code = dialect.classify(error)
        refused = failure is Failure.OTHER and code is not None
        if connecting and (refused or failure is Failure.DISCONNECTED):
            failure = Failure.UNREACHABLE
        elif isinstance(original(error), TimeoutError) and not connecting:
            failure = Failure.BUSY
        if isinstance(error, PoolTimeout):
            return DatabaseUnreachable(
                f"no connection of the pool to {display} became free in time; nothing was changed. "
                "Raise pool_size, max_overflow or pool_timeout.",
                busy=True,
            )
        why = f" ({type(original(error)).__name__}{f' {code}' if code else ''})"
        advice = None if pgbouncer else dialect.advice.get(code or "")
        todo = f" {advice}" if advice else ""
        if failure is Failure.DISCONNECTED:
            return ConnectionLost(f"the connection to {display} was lost{why}")
        if failure is Failure.UNREACHABLE and dialect.single_writer:
            return DatabaseUnreachable(
                f"cannot open {display}{why}. Check that its directory exists and may be written."
            )
        if failure is Failure.UNREACHABLE:
            return DatabaseUnreachable(
                f"cannot reach {display}{why}. Check that the server runs, that the host, port and "
                f"database name are right, and that it still takes connections.{todo}"
            )
        if failure is Failure.BUSY:
            return DatabaseUnreachable(
                f"{display} stayed locked or too slow for longer than the timeout{why}; nothing "
                "was acknowledged. A transaction may be open that holds the lock: of another "
                "process, or of this one, if an operation in it was not given connection=.",
                maybe_applied=isinstance(original(error), TimeoutError),
                busy=True,
            )
        if failure is Failure.AUTHENTICATION:
            return AuthenticationFailed(
                f"{display} refused the user or the password{why}. Check both in the URL; trying "
                "again does not help."
            )
        if failure is Failure.PERMISSION and dialect.single_writer:
            return AuthenticationFailed(
                f"{display} cannot be written{why}. Check the rights of the file, its directory "
                "and the two files beside it (-wal, -shm)."
            )
        if failure is Failure.PERMISSION:
            return AuthenticationFailed(
                f"the user of {display} lacks a right that this needs{why}. "
                "An application's rights are in the statements that `memalchemy grants ROLE` "
                "prints; to change the schema takes the role that owns the tables; behind "
                "row-level security the role writes as its own tenant alone."
            )
        if failure is Failure.READ_ONLY:
            return takes_no_writes(display, why)
        if failure is Failure.MISSING_TABLE:
            return TableMissing(None, migrate.head())
        if failure is Failure.UNIQUE:
            return UniqueViolation(f"a unique key is taken in {display}{why}", sqlstate=code)
        if failure is Failure.IN_USE:
            return MemalchemyError(
                "another task is using this connection, so nothing was sent: await each statement "
                "of a transaction before the next, or give each task a transaction of its own"
            )
        if failure is Failure.NOT_PREPARED:
            return RolledBack(
                f"{display} refused a statement{why}{todo and f'.{todo}'}", sqlstate=code
            )
        if failure is Failure.ROLLED_BACK:
            return RolledBack(f"{display} rolled the transaction back{why}", sqlstate=code)
        if failure is Failure.TENANT_NOT_SET:
            return TenantNotSet(
                f"row-level security of {display} wants a tenant, and the transaction has none"
                f"{why}: it was turned on while the transaction ran, or the statement is not "
                "memalchemy's. Try again; for your own SQL see the page on tenants.",
                sqlstate=code,
            )
        if failure is Failure.DATE_STYLE:
            return CapabilityMissing(
                dialect.advice.get(
                    code or "", "the driver cannot read times as this connection has them"
                )
            )
        if failure is Failure.FULL:
            return StatementFailed(f"{display} has no room left{why}", sqlstate=code)
        if failure is Failure.TEXT_INDEX:
            return TextIndexDamaged(
                f"a text index of {display} is damaged or set aside{why}; the rows that it is made "
                "of are whole. `memalchemy verify --repair` makes it anew."
            )
        if failure is Failure.CORRUPT:
            rescue = ""
            if dialect.single_writer:
                rescue = (
                    ". What can be read of it comes into a new file by `memalchemy copy --from "
                    "DAMAGED --to NEW`; otherwise restore a backup"
                )
            return Corrupt(f"{display} is damaged or is not a database{why}{rescue}")
        if isinstance(error, (DBAPIError, *dialect.driver_errors)):
            return StatementFailed(
                f"{display} refused a statement{why}{todo and f'.{todo}'}", sqlstate=code
            )
        return error

    return translate


def takes_no_writes(display: str, why: str = "") -> TakesNoWrites:
    """Return the error of a node that takes no writes."""
    return TakesNoWrites(
        f"{display} takes no writes{why}: it is a replica, or is set to be read only. Give "
        "Database the primary's URL, and this one as read_url="
    )

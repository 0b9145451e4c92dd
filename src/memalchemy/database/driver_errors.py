"""Translate the errors of drivers into memalchemy's: the one place where that is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.exc import DBAPIError, InvalidRequestError, SQLAlchemyError
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
        if isinstance(error, PoolTimeout):
            return _pool_exhausted(display)
        failure, code = dialect.classify(error)
        failure = _failure_here(error, failure, code, connecting)
        advice = None if pgbouncer else dialect.advice.get(code or "")
        failed = _Failed(display, dialect, error, code, f" {advice}" if advice else "")
        if failure in _ERRORS:
            return _ERRORS[failure](failed)
        if isinstance(error, (DBAPIError, *dialect.driver_errors)):
            return StatementFailed(failed.refusal(), sqlstate=code)
        return error

    return translate


def _failure_here(
    error: BaseException, failure: Failure, code: str | None, connecting: bool
) -> Failure:
    """Return what a dialect's *failure* means to a caller who was *connecting*, or was not."""
    is_refusal = failure is Failure.OTHER and code is not None
    # SQLAlchemy's pool has found one dead connection after the other, new ones among them.
    has_given_up = isinstance(error, InvalidRequestError)
    if connecting and (is_refusal or has_given_up or failure is Failure.DISCONNECTED):
        return Failure.UNREACHABLE
    if isinstance(original(error), TimeoutError) and not connecting:
        return Failure.BUSY
    return failure


@dataclass(frozen=True)
class _Failed:
    """A driver's error, and what memalchemy's says of it: where, and what to do (*todo*)."""

    display: str
    dialect: Dialect
    error: BaseException
    code: str | None
    todo: str

    @property
    def why(self) -> str:
        code = f" {self.code}" if self.code else ""
        return f" ({type(original(self.error)).__name__}{code})"

    def refusal(self) -> str:
        """Return the sentence about a statement that was refused."""
        return f"{self.display} refused a statement{self.why}{self.todo and f'.{self.todo}'}"


def _pool_exhausted(display: str) -> DatabaseUnreachable:
    return DatabaseUnreachable(
        f"no connection of the pool to {display} became free in time; nothing was changed. "
        "Raise pool_size, max_overflow or pool_timeout.",
        busy=True,
    )


def _connection_lost(failed: _Failed) -> MemalchemyError:
    return ConnectionLost(f"the connection to {failed.display} was lost{failed.why}")


def _unreachable(failed: _Failed) -> MemalchemyError:
    if failed.dialect.single_writer:
        return DatabaseUnreachable(
            f"cannot open {failed.display}{failed.why}. Check that its directory exists and may be "
            "written."
        )
    return DatabaseUnreachable(
        f"cannot reach {failed.display}{failed.why}. Check that the server runs, that the host, "
        f"port and database name are right, and that it still takes connections.{failed.todo}"
    )


def _busy(failed: _Failed) -> MemalchemyError:
    return DatabaseUnreachable(
        f"{failed.display} stayed locked or too slow for longer than the timeout{failed.why}; "
        "nothing was acknowledged. A transaction may be open that holds the lock: of another "
        "process, or of this one, if an operation in it was not given connection=.",
        maybe_applied=isinstance(original(failed.error), TimeoutError),
        busy=True,
    )


def _not_authenticated(failed: _Failed) -> MemalchemyError:
    return AuthenticationFailed(
        f"{failed.display} refused the user or the password{failed.why}. Check both in the URL; "
        "trying again does not help."
    )


def _not_permitted(failed: _Failed) -> MemalchemyError:
    if failed.dialect.single_writer:
        return AuthenticationFailed(
            f"{failed.display} cannot be written{failed.why}. Check the rights of the file, its "
            "directory and the two files beside it (-wal, -shm)."
        )
    return AuthenticationFailed(
        f"the user of {failed.display} lacks a right that this needs{failed.why}. "
        "An application's rights are in the statements that `memalchemy grants ROLE` "
        "prints; to change the schema takes the role that owns the tables; behind "
        "row-level security the role writes as its own tenant alone."
    )


def _unique_violated(failed: _Failed) -> MemalchemyError:
    return UniqueViolation(
        f"a unique key is taken in {failed.display}{failed.why}", sqlstate=failed.code
    )


def _connection_in_use(_: _Failed) -> MemalchemyError:
    return MemalchemyError(
        "another task is using this connection, so nothing was sent: await each statement "
        "of a transaction before the next, or give each task a transaction of its own"
    )


def _rolled_back(failed: _Failed) -> MemalchemyError:
    return RolledBack(
        f"{failed.display} rolled the transaction back{failed.why}", sqlstate=failed.code
    )


def _tenant_not_set(failed: _Failed) -> MemalchemyError:
    return TenantNotSet(
        f"row-level security of {failed.display} wants a tenant, and the transaction has none"
        f"{failed.why}: it was turned on while the transaction ran, or the statement is not "
        "memalchemy's. Try again; for your own SQL see the page on tenants.",
        sqlstate=failed.code,
    )


def _other_date_style(failed: _Failed) -> MemalchemyError:
    unreadable = "the driver cannot read times as this connection has them"
    return CapabilityMissing(failed.dialect.advice.get(failed.code or "", unreadable))


def _no_room(failed: _Failed) -> MemalchemyError:
    return StatementFailed(f"{failed.display} has no room left{failed.why}", sqlstate=failed.code)


def _text_index_damaged(failed: _Failed) -> MemalchemyError:
    return TextIndexDamaged(
        f"a text index of {failed.display} is damaged or set aside{failed.why}; the rows that it "
        "is made of are whole. `memalchemy verify --repair` makes it anew."
    )


def _database_damaged(failed: _Failed) -> MemalchemyError:
    rescue = ""
    if failed.dialect.single_writer:
        rescue = (
            ". What can be read of it comes into a new file by `memalchemy copy --from "
            "DAMAGED --to NEW`; otherwise restore a backup"
        )
    return Corrupt(f"{failed.display} is damaged or is not a database{failed.why}{rescue}")


_ERRORS: dict[Failure, Callable[[_Failed], MemalchemyError]] = {
    Failure.DISCONNECTED: _connection_lost,
    Failure.UNREACHABLE: _unreachable,
    Failure.BUSY: _busy,
    Failure.AUTHENTICATION: _not_authenticated,
    Failure.PERMISSION: _not_permitted,
    Failure.READ_ONLY: lambda failed: takes_no_writes(failed.display, failed.why),
    Failure.MISSING_TABLE: lambda _: TableMissing(None, migrate.head()),
    Failure.UNIQUE: _unique_violated,
    Failure.IN_USE: _connection_in_use,
    Failure.NOT_PREPARED: lambda failed: RolledBack(failed.refusal(), sqlstate=failed.code),
    Failure.ROLLED_BACK: _rolled_back,
    Failure.TENANT_NOT_SET: _tenant_not_set,
    Failure.DATE_STYLE: _other_date_style,
    Failure.FULL: _no_room,
    Failure.TEXT_INDEX: _text_index_damaged,
    Failure.CORRUPT: _database_damaged,
}


def takes_no_writes(display: str, why: str = "") -> TakesNoWrites:
    """Return the error of a node that takes no writes."""
    return TakesNoWrites(
        f"{display} takes no writes{why}: it is a replica, or is set to be read only. Give "
        "Database the primary's URL, and this one as read_url="
    )

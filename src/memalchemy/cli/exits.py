"""Exit codes, and which error means which: the one place that decides."""

from __future__ import annotations

from memalchemy.cli.ctrl_c import INTERRUPTED
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    Conflict,
    Corrupt,
    DatabaseUnreachable,
    DowngradeRefused,
    DriverMissing,
    EpisodeNotFoundError,
    ForeignTable,
    KeyMissing,
    MemalchemyError,
    NotEncrypted,
    NotFound,
    NotSerialisable,
    SchemaOutdated,
    SchemaTooNew,
    StatementFailed,
    StoreCapabilityError,
    ThreadDeleted,
    TooLarge,
    UniqueViolation,
    UnknownURL,
)

OK = 0
NOT_FOUND = 1
USAGE = 2
DATABASE = 3
REFUSED = 4
CORRUPT = 5

MEANING = {
    OK: "done",
    NOT_FOUND: "not found, or a check failed",
    USAGE: "the command was not understood",
    DATABASE: "the database cannot be reached, or refused",
    REFUSED: "a conflict, or memalchemy refused; what was refused changed nothing",
    CORRUPT: "what is stored is damaged",
    INTERRUPTED: "interrupted",
}

_CODES: dict[type[MemalchemyError], int] = {
    NotFound: NOT_FOUND,
    EpisodeNotFoundError: NOT_FOUND,
    SchemaOutdated: NOT_FOUND,
    SchemaTooNew: NOT_FOUND,
    UnknownURL: USAGE,
    DatabaseUnreachable: DATABASE,
    AuthenticationFailed: DATABASE,
    DriverMissing: DATABASE,
    StatementFailed: DATABASE,
    Conflict: REFUSED,
    ThreadDeleted: REFUSED,
    ForeignTable: REFUSED,
    DowngradeRefused: REFUSED,
    NotSerialisable: REFUSED,
    TooLarge: REFUSED,
    CapabilityMissing: REFUSED,
    StoreCapabilityError: REFUSED,
    UniqueViolation: REFUSED,
    KeyMissing: REFUSED,
    NotEncrypted: REFUSED,
    Corrupt: CORRUPT,
}


class UsageProblem(MemalchemyError):
    """The command line asks for something that makes no sense, or lacks something it needs."""

    code = "MA-USAGE"


def exit_code(error: MemalchemyError) -> int:
    """The exit code for *error*, by its class or the nearest one above it."""
    if isinstance(error, UsageProblem):
        return USAGE
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return REFUSED

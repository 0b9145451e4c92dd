"""Exit codes of the commands, and the error classes that each one stands for."""

from __future__ import annotations

from memalchemy.cli.ctrl_c import INTERRUPTED
from memalchemy.cli.usage_errors import NotConfirmed, UsageError
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    Conflict,
    CopyIncomplete,
    Corrupt,
    DatabaseUnreachable,
    DowngradeRefused,
    DriverMissing,
    EmbedderFailed,
    EpisodeNotFoundError,
    ForeignTable,
    KeyMissing,
    MemalchemyError,
    NotEncrypted,
    NotFound,
    NotSerialisable,
    NotSigned,
    ReadOnly,
    ReplicationIncomplete,
    SchemaIncomplete,
    SchemaOutdated,
    SchemaTooNew,
    StatementFailed,
    StoreCapabilityError,
    ThreadDeleted,
    TooLarge,
    UniqueViolation,
    UnknownURL,
    VersionTableLost,
    WallIncomplete,
)

OK = 0
NOT_FOUND = 1
USAGE = 2
DATABASE = 3
REFUSED = 4
CORRUPT = 5

MEANINGS = {
    OK: "done",
    NOT_FOUND: "not found, or a check failed",
    USAGE: "wrong usage: an option, the URL, or a file that cannot be read",
    DATABASE: "the database cannot be reached, or it refused",
    REFUSED: "a conflict, or memalchemy refused; what was refused changed nothing",
    CORRUPT: "stored data is damaged",
    INTERRUPTED: "interrupted with Ctrl-C",
}

CODES: dict[type[MemalchemyError], int] = {
    NotFound: NOT_FOUND,
    EpisodeNotFoundError: NOT_FOUND,
    EmbedderFailed: NOT_FOUND,
    SchemaOutdated: NOT_FOUND,
    VersionTableLost: NOT_FOUND,
    SchemaTooNew: NOT_FOUND,
    SchemaIncomplete: NOT_FOUND,
    ReplicationIncomplete: NOT_FOUND,
    WallIncomplete: NOT_FOUND,
    UsageError: USAGE,
    UnknownURL: USAGE,
    DatabaseUnreachable: DATABASE,
    AuthenticationFailed: DATABASE,
    DriverMissing: DATABASE,
    StatementFailed: DATABASE,
    NotConfirmed: REFUSED,
    Conflict: REFUSED,
    ThreadDeleted: REFUSED,
    ForeignTable: REFUSED,
    DowngradeRefused: REFUSED,
    NotSerialisable: REFUSED,
    TooLarge: REFUSED,
    CapabilityMissing: REFUSED,
    ReadOnly: REFUSED,
    StoreCapabilityError: REFUSED,
    UniqueViolation: REFUSED,
    KeyMissing: REFUSED,
    NotEncrypted: REFUSED,
    NotSigned: REFUSED,
    Corrupt: CORRUPT,
    CopyIncomplete: CORRUPT,
}


def exit_code(error: MemalchemyError) -> int:
    """Return the exit code of *error*: that of its class, or of the nearest base class."""
    for kind in type(error).__mro__:
        if kind in CODES:
            return CODES[kind]
    return REFUSED

"""Every error memalchemy raises: one root, a code, typed attributes, and what to do next.

Knows nothing of SQL or drivers: `database` translates driver errors into these, in one place, and
leaves the original in ``__cause__``. No message carries a payload or a password.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

NAMED_LEFT_OUT = 20
"""Maximum number of left-out logs and items that the error of a copy names."""


class MemalchemyError(Exception):
    """The root of every memalchemy error. ``code`` is stable and safe to match on."""

    code = "MA-ERROR"


class Conflict(MemalchemyError):
    """Something else is there than the caller expected; nothing was changed.

    ``expected`` is what the caller named, ``current`` what the database holds (``None``: nothing).
    """

    code = "MA-CONFLICT"

    def __init__(self, message: str, *, expected: object = None, current: object = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.current = current


class NotFound(MemalchemyError, LookupError):
    """An operation needs a thread or checkpoint that is not there; reads return ``None``."""

    code = "MA-NOT-FOUND"


class EpisodeNotFoundError(NotFound):
    """There is no episode of that id; nothing was changed."""

    code = "MA-EPISODE-NOT-FOUND"

    def __init__(self, id_: str) -> None:
        super().__init__(f"there is no episode {id_!r}")
        self.id_ = id_


class ThreadDeleted(MemalchemyError):
    """The thread was deleted after the state that this write builds on; nothing was written.

    Save without a parent, or append without an expected version, to start the thread anew.
    """

    code = "MA-THREAD-DELETED"

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} was deleted after the state this write builds on; nothing was "
            "written. Save without parent_id and expected_parent, or append without "
            "expected_version, to start the thread anew."
        )
        self.thread_id = thread_id


class SchemaOutdated(MemalchemyError):
    """The database's schema is older than this release needs; nothing was read or written."""

    code = "MA-SCHEMA-OUTDATED"

    def __init__(
        self,
        current: str | None,
        head: str,
        *,
        schema: str | None = None,
        missing_file: str | None = None,
        replica: bool = False,
        read_only: bool = False,
        has_schemas: bool = False,
        is_langgraph: bool = False,
    ) -> None:
        what = "the read replica" if replica else "the database"
        found = f"is at revision {current}" if current else "has no memalchemy schema"
        where = f" in {schema!r}" if schema else ""
        option = f" --schema {schema}" if schema else ""
        state = f"{what} {found}{where}, this release needs {head}"
        run = f"memalchemy --db URL{option} upgrade"
        if read_only:
            todo = f"{run}, which writes to it"
        else:
            todo = (
                f"{run} (in Python: await Database(…).migrate(), before `async with`; or, in "
                "development, Database(…, migrate='upgrade'); or, where your application's own "
                "Alembic upgrades it, alembic upgrade heads)"
            )
        if missing_file is not None:
            message = f"there is no file {missing_file}, so no database. To create it run: {todo}."
        elif replica:
            message = f"{state}. It follows its primary: upgrade that, or wait for it to catch up."
        elif is_langgraph:
            message = (
                f"{state}. It holds LangGraph's tables. To import them into another database run: "
                "memalchemy --db TARGET import langgraph --from URL (into another schema of the "
                "same database: with --schema)."
            )
        else:
            message = f"{state}. Run: {todo}."
            if has_schemas and current is None:
                message += (
                    " If memalchemy's tables are in another schema, name it: --schema NAME, "
                    "MEMALCHEMY_SCHEMA, or Database(…, schema='NAME')."
                )
        super().__init__(message)
        self.current = current
        self.head = head


class SchemaTooNew(MemalchemyError):
    """The database was upgraded by a later release that this one cannot work with."""

    code = "MA-SCHEMA-TOO-NEW"

    def __init__(self, current: str, needs: str | None, release: str) -> None:
        wanted = f"memalchemy {needs} or later" if needs else "a later memalchemy"
        super().__init__(
            f"the database is at revision {current}, which needs {wanted}; this is {release}. "
            "Upgrade the installed memalchemy."
        )
        self.current = current
        self.needs = needs


class SchemaIncomplete(MemalchemyError):
    """The database has a version of the schema, but not all of its tables.

    ``missing`` are their names.
    """

    code = "MA-SCHEMA-INCOMPLETE"

    def __init__(self, current: str, missing: Sequence[str], schema: str | None) -> None:
        where = f" in {schema!r}" if schema else ""
        super().__init__(
            f"the database is at revision {current}{where}, but has no table {', '.join(missing)}. "
            "It was dropped, or left out of a restore; `memalchemy upgrade` does not make it "
            "again. Restore the whole database from a backup."
        )
        self.missing: tuple[str, ...] = tuple(missing)


class WallIncomplete(MemalchemyError):
    """Row-level security is on for tables without the policy that shows a tenant its rows.

    A restore that goes on after errors leaves that, and such tables look empty. ``tables`` is their
    number.
    """

    code = "MA-WALL-INCOMPLETE"

    def __init__(self, tables: int, all_tables: int) -> None:
        super().__init__(
            f"row-level security is on for {tables} of {all_tables} tables, and there the policy "
            "memalchemy_tenant is missing, as after a restore that went on after errors: the "
            "tables look empty to every role that no other policy lets pass. Their rows are there. "
            "As the owner run: memalchemy tenants enforce, with the roles of --admin."
        )
        self.tables = tables


class VersionTableLost(SchemaOutdated):
    """memalchemy's tables exist, but not the table that holds their revision."""

    code = "MA-VERSION-TABLE-LOST"

    def __init__(self, head: str, schema: str | None, version_table: str) -> None:
        prefix = f"{schema}." if schema else ""
        MemalchemyError.__init__(
            self,
            f"memalchemy's tables are here, and {version_table}, which names their revision, is "  # noqa: S608
            "missing or empty, as after a restore that left it out; nothing was read or changed. "
            "Restore it from the same backup. Or if the tables are those of this release, as the "
            f"owner run: CREATE TABLE IF NOT EXISTS {prefix}{version_table} "
            "(version_num VARCHAR(32) NOT NULL PRIMARY KEY); "
            f"INSERT INTO {prefix}{version_table} VALUES ('{head}')",
        )
        self.current: str | None = None
        self.head = head


class ReplicationIncomplete(MemalchemyError):
    """Logical replication has not filled tables of this database."""

    code = "MA-REPLICATION-INCOMPLETE"

    def __init__(self, tables: Sequence[str], schema: str | None) -> None:
        prefix = f"{schema}." if schema else ""
        super().__init__(
            f"a subscription has not filled {', '.join(tables)} yet: what they show is not whole. "  # noqa: S608
            "If that does not end by itself, the server's log names a duplicate key: rows that "
            "`upgrade` wrote here are in the way of the publisher's. As the owner of this database "
            f"run: DELETE FROM {prefix}memalchemy_version; DELETE FROM {prefix}store_items WHERE "
            "tenant = '~'. The server tries again by itself."
        )
        self.tables: tuple[str, ...] = tuple(tables)


class ForeignTable(MemalchemyError):
    """A table that memalchemy needs to create exists already and is somebody else's."""

    code = "MA-FOREIGN-TABLE"

    def __init__(self, table: str, schema: str | None) -> None:
        place = f"schema {schema!r}" if schema else "the default schema"
        super().__init__(
            f"a table named {table!r} that memalchemy did not create is in the way in {place}; "
            "nothing was changed. On PostgreSQL and Oracle give memalchemy a schema of its own: "
            "Database(url, schema='memalchemy'), --schema memalchemy on the command line, "
            "upgrade_alongside(…, schema='memalchemy') in env.py; on SQLite use another file."
            + (
                " If it is LangGraph's, `memalchemy import langgraph` imports what it holds."
                if table == "checkpoints"
                else ""
            )
        )
        self.table = table


class DowngradeRefused(MemalchemyError):
    """A downgrade would drop tables that hold rows, or to which another table refers."""

    code = "MA-DOWNGRADE-REFUSED"


class DatabaseUnreachable(MemalchemyError):
    """The database did not answer, or the connection was lost and repeating was not safe.

    ``maybe_applied`` is true when a write had been sent and no answer came: it may have happened.
    ``busy`` is true when the database is there but was locked, too slow, or out of connections in
    the pool: less load or a longer timeout helps, another server does not.
    """

    code = "MA-UNREACHABLE"

    def __init__(self, message: str, *, maybe_applied: bool = False, busy: bool = False) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied
        self.busy = busy


class AuthenticationFailed(MemalchemyError):
    """The database refused the user, the password, or the user's rights."""

    code = "MA-AUTHENTICATION"


class DriverMissing(MemalchemyError, ImportError):
    """The Python driver for this database, or a package that a part needs, is not installed."""

    code = "MA-DRIVER-MISSING"

    def __init__(self, driver: str, extra: str | None, *, what: str = "database driver") -> None:
        message = f"the {what} {driver!r} is not installed. Run: {_pip_install(driver, extra)}"
        if extra is not None:
            message += f" (the requirements of the extra memalchemy[{extra}])"
        super().__init__(message)
        self.driver = driver


def _pip_install(driver: str, extra: str | None) -> str:
    """Return the command that installs what *extra* asks for.

    It names the packages and not memalchemy: a clone or a wheel of one's own is no release on PyPI.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("memalchemy") or []
    except PackageNotFoundError:  # a checkout on the path
        lines = []
    asked = [
        line.partition(";")[0].strip()
        for line in lines
        if extra and re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", line)
    ]
    return "pip install " + " ".join(
        one if re.fullmatch(r"[\w.-]+", one) else f'"{one}"' for one in asked or [driver]
    )


class UnknownURL(MemalchemyError, ValueError):
    """The database URL is not one that memalchemy can use."""

    code = "MA-UNKNOWN-URL"


class Corrupt(MemalchemyError):
    """Stored bytes do not match their checksum or cannot be decoded; they are never believed."""

    code = "MA-CORRUPT"


class CopyIncomplete(Corrupt):
    """A copy left out rows that are damaged in the source, or do not match their signatures.

    All else is on the target. ``report`` is the `memalchemy.transfer.CopyReport`, which names what
    was left out.
    """

    code = "MA-COPY-INCOMPLETE"

    def __init__(self, report: Any) -> None:
        named = "\n".join(f"- {one}" for one in report.left_out[:NAMED_LEFT_OUT])
        more = report.left - NAMED_LEFT_OUT
        super().__init__(
            f"{report.left:,} were left out, because they are damaged or not what was signed; "
            f"{report.done:,} logs and items are on the target. `memalchemy verify` on the source "
            "says what can be done; mend or delete there what is left out, and copy again:\n"
            + named
            + (f"\n- … and {more:,} more" if more > 0 else "")
        )
        self.report = report


class KeyMissing(MemalchemyError):
    """Something is encrypted, and the key that it was encrypted with was not given.

    A write raises it if the tenant is encrypted and none of its keys was given; nothing was
    written, and ``of_tenant`` is true. ``key_id`` names the key, and does not reveal it.
    """

    code = "MA-KEY-MISSING"

    def __init__(
        self, key_id: str, *, given: int = 0, message: str | None = None, of_tenant: bool = False
    ) -> None:
        have = f"it is none of the {given} that were given" if given else "no key was given"
        order = ", after the one that encrypts" if given else ""
        super().__init__(
            message
            or f"this is encrypted with the key {key_id}, and {have}. Give Database that key in "
            f"keys=[…]{order} (on the command line MEMALCHEMY_KEYS, or --keys-file)."
        )
        self.key_id = key_id
        self.of_tenant = of_tenant


class NotEncrypted(MemalchemyError):
    """Something is stored unencrypted in a database that was opened with keys; it was not read."""

    code = "MA-NOT-ENCRYPTED"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "this is not encrypted, and the database was opened with keys, so it may be forged; "
            "it was not read. If the database was not encrypted when it was written, encrypt it "
            "with `memalchemy rotate-keys`, and read it until then with allow_plaintext=True (on "
            "the command line --allow-plaintext). If it was encrypted already, find out who wrote "
            "this; `memalchemy rotate-keys --dry-run` lists what is like it."
        )


class NotSigned(Corrupt):
    """Something is stored without a signature in a database that was opened with signing keys."""

    code = "MA-NOT-SIGNED"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "this is not signed, and the database was opened with signing keys, so it may be "
            "forged; it was not believed. If its tenant was not signed when it was written, sign "
            "that with `memalchemy --tenant TENANT sign`, and open it until then with "
            "allow_unsigned=True (on the command line --allow-unsigned). If it was signed already, "
            "find out who wrote this."
        )


class NotSerialisable(MemalchemyError, TypeError):
    """A value cannot be stored so that it loads back equal; nothing was written.

    ``path`` is a JSON pointer to the value inside what was given.
    """

    code = "MA-NOT-SERIALISABLE"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"value at {path or '/'!r} {reason}")
        self.path = path


class TooLarge(MemalchemyError, ValueError):
    """A value or an answer is over a stated limit; nothing was written, nothing was truncated."""

    code = "MA-TOO-LARGE"

    def __init__(
        self, what: str, size: int, limit: int, unit: str = "bytes", advice: str = ""
    ) -> None:
        super().__init__(f"{what} is {size:,} {unit}; the limit is {limit:,}{advice}")
        self.size = size
        self.limit = limit


class CapabilityMissing(MemalchemyError, NotImplementedError):
    """This database, or this installation of it, cannot do what was asked.

    ``capability`` names what is missing, as the fields of `capabilities` do (``search``,
    ``semantic_search``) or as a call over HTTP is named; ``None`` if it is none of these.
    """

    code = "MA-CAPABILITY-MISSING"

    def __init__(self, message: str, *, capability: str | None = None) -> None:
        super().__init__(message)
        self.capability = capability


class ReadOnly(CapabilityMissing):
    """The database was opened read-only, or is a read-only view; nothing was sent or changed."""

    code = "MA-READ-ONLY"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "this database was opened read-only (read_only=True, or mode=ro in its URL), so it "
            "only reads: to write, open it without that"
        )


class StoreCapabilityError(CapabilityMissing):
    """A store cannot do what was asked of it; ``hint`` says what would help.

    `memalchemy.Store` raises it where encryption, or the lack of an embedder, is in the way; what
    wraps or replaces a store may raise it too.
    """

    code = "MA-STORE-CAPABILITY"

    def __init__(
        self,
        capability: str,
        store_class: str,
        hint: str | None = None,
        *,
        message: str | None = None,
    ) -> None:
        said = f"{store_class} does not support {capability!r}"
        if hint:
            said = f"{said}. {hint}"
        super().__init__(message or said, capability=capability)
        self.store_class = store_class
        self.hint = hint


class EmbedderFailed(MemalchemyError):
    """The function that makes vectors of texts does not work; what was embedded before stays.

    Its own error is the ``__cause__``. Once it works, run the same call again: it goes on.
    """

    code = "MA-EMBEDDER"


class InvalidArgument(ValueError):
    """An argument makes no sense; nothing was written.

    It is a plain `ValueError` for those who call memalchemy. The HTTP server answers 422 with its
    message and code; any other `ValueError` counts as a defect of memalchemy, and its message stays
    in the server's log.
    """

    code = "MA-ARGUMENT"


class StatementFailed(MemalchemyError):
    """The database refused a statement for a reason that has no class of its own here.

    The driver's error is in ``__cause__``; ``sqlstate`` is its code, where it gave one.
    """

    code = "MA-STATEMENT-FAILED"

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class UniqueViolation(StatementFailed):
    """A unique key is taken. Programs catch this to turn a lost race into their own answer."""

    code = "MA-UNIQUE"


class AnsweredByWordsWarning(UserWarning):
    """A hybrid search went by words alone: the vectors that are stored have another size.

    That happens after a change of the embedding model, until there are vectors of the new one.
    """


def about(error: MemalchemyError, what: str) -> MemalchemyError:
    """Return the same error with a sentence that says what it is about."""
    made = type(error).__new__(type(error))  # a class may take other arguments than its message
    made.__dict__.update(error.__dict__)
    made.args = (f"{what}: {error}",)
    made.__cause__ = error
    return made

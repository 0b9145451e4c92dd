"""The context of a command: its common options, the database and the terminal."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalchemy._environment import URL_VARIABLE, schema_of_environment
from memalchemy.cli.options import KEYS_VARIABLE, SIGNING_KEYS_VARIABLE, CommonOptions
from memalchemy.cli.parsers import read_text_file
from memalchemy.cli.terminal import Terminal
from memalchemy.cli.usage_errors import UsageError, usage_errors
from memalchemy.contracts import MigrateMode
from memalchemy.errors import CapabilityMissing, DatabaseUnreachable

if TYPE_CHECKING:
    from memalchemy import Database
    from memalchemy.dialects import Target


class Context:
    """The common options of one command, and what they lead to."""

    def __init__(self, options: CommonOptions, *, reads_schema: bool = True) -> None:
        self.options = options
        self._reads_schema = reads_schema
        data_format = options.data_format
        self.as_data: bool = data_format is not None
        """Stdout takes documents for programs, in the place of text for people."""
        self.terminal: Terminal = Terminal(
            data_format=data_format,
            table_style=options.table_style,
            no_color=options.no_color,
        )

    @property
    def url(self) -> str:
        """URL of the database."""
        if self.options.db is not None and not self.options.db.strip():
            raise UsageError("--db is empty: is the variable set that it was to have?")
        url = self.options.db or os.environ.get(URL_VARIABLE)
        if not url:
            raise UsageError(
                "no database given; use --db URL, for example --db sqlite:///agent.db, or set "
                f"{URL_VARIABLE}"
            )
        return url

    @property
    def tenant(self) -> str:
        """Name of the tenant."""
        return "default" if self.options.tenant is None else self.options.tenant

    @property
    def schema(self) -> str | None:
        """Schema of the tables: the option's, or the environment's if the database has schemas."""
        if self.options.schema is not None or not self._reads_schema:
            return self.options.schema
        return schema_of_environment(self.url)

    def with_options(self, **changes: Any) -> Context:
        """Return a context with other options, for a command that opens a second database.

        With ``schema=None`` that is the default schema, whatever the environment says.
        """
        reads_schema = self._reads_schema and "schema" not in changes
        return Context(replace(self.options, **changes), reads_schema=reads_schema)

    def database(
        self,
        *,
        migrate: MigrateMode = "check",
        read_only: bool = False,
        create: bool = False,
        offline: bool = False,
        **options: Any,
    ) -> Database:
        """Open the database: every command does it here, with ``async with ctx.database()``.

        Args:
            migrate: as `Database` takes it.
            read_only: as `Database` takes it: for a command that only reads, which then also works
                on files and directories that cannot be written.
            create: allow a SQLite file that does not exist yet.
            offline: the command only asks for the dialect and never connects.
            options: further ones of `Database`, such as its pool's.

        Raises:
            UsageError: the options make no sense, or name a database in memory.
            DatabaseUnreachable: the SQLite file does not exist.
        """
        from memalchemy import Database

        with usage_errors():
            db = Database(
                self.url,
                tenant=self.tenant,
                schema=self.schema,
                migrate=migrate,
                read_only=read_only,
                keys=_read_keys(self.options.keys_file, KEYS_VARIABLE),
                readable=[kind for kind in (self.options.readable or "").split(",") if kind],
                allow_plaintext=self.options.allow_plaintext,
                signing_keys=_read_keys(self.options.signing_keys_file, SIGNING_KEYS_VARIABLE),
                allow_unsigned=self.options.allow_unsigned,
                **options,
            )
        if db.dialect.single_writer and not offline:
            path = self.sqlite_file
            if path is None:
                raise UsageError(
                    "a database in memory would be lost when the command ends; name a file, such "
                    "as sqlite:///agent.db"
                )
            if not create and not path.exists():
                raise DatabaseUnreachable(
                    f"the file {path} does not exist; check the path. `memalchemy upgrade` creates "
                    "a new database"
                )
        return db

    @property
    def sqlite_file(self) -> Path | None:
        """The file of a SQLite database; ``None`` on a server and in memory."""
        path = self._target.path
        return None if path is None else Path(path)

    @property
    def has_no_pool(self) -> bool:
        """True of a SQLite file, and of PgBouncer in transaction mode."""
        return self._target.path is not None or self._target.pgbouncer

    def refuse_pgbouncer(self, what: str) -> None:
        """Raise a `CapabilityMissing` if the URL leads to PgBouncer in transaction mode."""
        if self._target.pgbouncer:
            raise CapabilityMissing(
                f"{what} needs a connection outside any transaction, which PgBouncer in "
                "transaction mode does not give; nothing was done. Connect to the server itself"
            )

    @property
    def is_writable_file(self) -> bool:
        """True of a SQLite file that may be written, and whose directory may be."""
        file = self.sqlite_file
        places = () if file is None else (file, file.absolute().parent)
        return file is not None and all(os.access(place, os.W_OK) for place in places)

    @property
    def display_url(self) -> str:
        """URL of the database without a password."""
        return self._target.display

    @property
    def _target(self) -> Target:
        from memalchemy.dialects import parse_url

        return parse_url(self.url)

    async def databases(self, db: Database, what: str, *, all_tenants: bool) -> list[Database]:
        """Return *db* for its tenant, or with *all_tenants* for each that has a thread or item.

        Raises:
            CapabilityMissing: *all_tenants*, and row-level security shows the role one of them:
                *what*, of all tenants, would miss the others.
        """
        if not all_tenants:
            return [db]
        from memalchemy.maintenance.stored_tenants import list_tenants

        await db.check_sees_all_tenants(f"{what} of all tenants")
        return [db.for_tenant(tenant) for tenant in await list_tenants(db)]

    def refuse_two_tenants(self, *, all_tenants: bool) -> None:
        """Raise a `UsageError` if both ``--tenant`` and ``--all-tenants`` are given."""
        if all_tenants and self.options.tenant is not None:
            raise UsageError("give --tenant or --all-tenants, not both")


def _read_keys(file: str | None, variable: str) -> list[str] | None:
    """Read the keys in *file*, or those in a *variable* of the environment.

    No option takes a key itself: every user of the machine can read a command line.
    """
    if file is None:
        keys = os.environ.get(variable, "").split(",")
        return [key.strip() for key in keys if key.strip()] or None
    lines = (line.strip() for line in read_text_file(file).splitlines())
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise UsageError(f"{file} has no key; write one key per line, the newest first")
    return found

"""What all commands share: the common options, the database, errors as one line and a code.

A command is an async function of an `Invocation` and its own options. `command` adds the common
options, so they can be given before the command's name or after it.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from memalchemy.cli import ctrl_c, exits, secrets
from memalchemy.cli.terminal import Terminal
from memalchemy.errors import DatabaseUnreachable, MemalchemyError

if TYPE_CHECKING:
    from memalchemy import Checkpointer, Database

URL_VARIABLE = "MEMALCHEMY_URL"

DbOption = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help=f"The database. [env: {URL_VARIABLE}]"),
]
TenantOption = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Whose memory. [default: default]")
]
SchemaOption = Annotated[
    str | None,
    typer.Option("--schema", metavar="NAME", help="The schema that holds the tables."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="No colours, no styles.")]
KeysFileOption = Annotated[
    str | None,
    typer.Option(
        "--keys-file",
        metavar="FILE",
        help="Keys of an encrypted database, one a line, the first encrypts. "
        f"[env: {secrets.KEYS_VARIABLE}, between commas]",
    ),
]
ReadableOption = Annotated[
    str | None,
    typer.Option(
        "--readable",
        metavar="WHAT",
        help="What is stored unencrypted beside it: text,fields,vectors.",
    ),
]
PlaintextOption = Annotated[
    bool, typer.Option("--allow-plaintext", help="Read what is not encrypted, too.")
]

COMMON: dict[str, tuple[Any, Any]] = {
    "db": (DbOption, None),
    "tenant": (TenantOption, None),
    "schema": (SchemaOption, None),
    "keys_file": (KeysFileOption, None),
    "readable": (ReadableOption, None),
    "allow_plaintext": (PlaintextOption, False),
    "as_json": (JsonOption, False),
    "no_color": (NoColorOption, False),
}


@dataclass(frozen=True)
class Common:
    """The common options, from before or after the command's name."""

    db: str | None = None
    tenant: str | None = None
    schema: str | None = None
    keys_file: str | None = None
    readable: str | None = None
    allow_plaintext: bool = False
    as_json: bool = False
    no_color: bool = False

    def with_options(self, given: dict[str, Any]) -> Common:
        """These options under those *given* after the command's name."""
        after = {k: v for k, v in given.items() if v is not None and v is not False}
        return replace(self, **after)


class Invocation:
    """What one command works with."""

    def __init__(self, common: Common) -> None:
        self.common = common
        self.terminal = Terminal(as_json=common.as_json, no_color=common.no_color)
        self.as_json = common.as_json

    @property
    def url(self) -> str:
        """The database that was named."""
        url = self.common.db or os.environ.get(URL_VARIABLE)
        if not url:
            raise exits.UsageProblem(
                f"no database was named; give --db URL or set {URL_VARIABLE}, "
                "for example --db sqlite:///agent.db"
            )
        return url

    @property
    def tenant(self) -> str:
        return "default" if self.common.tenant is None else self.common.tenant

    def database(
        self, *, migrate: Literal["auto", "check", "off"] = "check", create: bool = False
    ) -> Database:
        """The database that was named. Only with *create* may a SQLite file come into being."""
        from memalchemy.dialects import parse_url

        db = self.unopened(migrate=migrate)
        path = parse_url(self.url).path
        if db.dialect.single_writer and path is None:
            raise exits.UsageProblem(
                "a database in memory ends with the command; name a file, as sqlite:///agent.db"
            )
        if path is not None and not create and not Path(path).exists():
            raise DatabaseUnreachable(
                f"there is no file {path}. `memalchemy upgrade` and `memalchemy import` create it."
            )
        return db

    def target(self, *, dry_run: bool) -> Database:
        """What is imported into: made if it is not there, unless this is a *dry_run*."""
        from memalchemy import Database
        from memalchemy.dialects import parse_url

        path = parse_url(self.url).path
        if dry_run and path is not None and not Path(path).exists():
            return Database("sqlite://")  # as empty as the file that is not there
        return self.database(migrate="check" if dry_run else "auto", create=True)

    def unopened(self, *, migrate: Literal["auto", "check", "off"] = "off") -> Database:
        """The database that was named, to ask what needs no connection."""
        from memalchemy import Database

        with asking_for_sense():
            return Database(
                self.url,
                tenant=self.tenant,
                schema=self.common.schema,
                migrate=migrate,
                keys=secrets.keys_of(self.common.keys_file),
                readable=[what for what in (self.common.readable or "").split(",") if what],
                allow_plaintext=self.common.allow_plaintext,
            )

    def checkpointer(self, db: Database, namespace: Iterable[str] = ()) -> Checkpointer:
        from memalchemy import Checkpointer

        return Checkpointer(db, namespace=namespace)


def command(
    app: typer.Typer, name: str, *, example: str, own_tenant: bool = False
) -> Callable[[Callable[..., Awaitable[int | None]]], Callable[..., Awaitable[int | None]]]:
    """Make an async function of an `Invocation` a command; it may return an exit code.

    With *own_tenant* the command has a ``--tenant`` of its own meaning, and the common one goes
    before the command's name.
    """

    def register(
        function: Callable[..., Awaitable[int | None]],
    ) -> Callable[..., Awaitable[int | None]]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in list(inspect.signature(function).parameters.values())[1:]
        ]
        shared = [
            inspect.Parameter(
                option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for option, (annotation, default) in COMMON.items()
            if not (own_tenant and option == "tenant")
        ]

        def run(context: typer.Context, **values: Any) -> None:
            given = {p.name: values.pop(p.name) for p in shared}
            common = (context.obj or Common()).with_options(given)
            raise typer.Exit(_run(function, Invocation(common), values))

        first = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        parameters = [first, *keywords, *shared]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__doc__ = function.__doc__
        app.command(name, epilog=f"\b\nExample:\n  {example}")(run)
        return function

    return register


def _run(
    function: Callable[..., Awaitable[int | None]],
    invocation: Invocation,
    values: dict[str, Any],
) -> int:
    async def work() -> int | None:
        with ctrl_c.cancelling():
            return await function(invocation, **values)

    try:
        return asyncio.run(work()) or exits.OK
    except MemalchemyError as error:
        invocation.terminal.note(f"error [{error.code}]: {error}")
        return exits.exit_code(error)
    except BrokenPipeError:
        # The reader of a pipe has gone; Python would complain again when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except OSError as error:
        # What the library meets is one of its own errors: this is the output.
        invocation.terminal.note(f"error [MA-OUTPUT]: cannot write the output: {error.strerror}")
        return exits.USAGE


@contextmanager
def asking_for_sense() -> Iterator[None]:
    """Report a value that the library refuses as a mistake in the command."""
    try:
        yield
    except MemalchemyError:
        raise
    except ValueError as error:
        raise exits.UsageProblem(str(error)) from error

"""All commands under one roof.

Everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from memalchemy._version import __version__
from memalchemy.cli import (
    ctrl_c,
    demo,
    exits,
    finding,
    importing,
    indexes,
    keeping,
    keys,
    log,
    looking,
    moving,
    retention,
    serving,
    verifying,
)
from memalchemy.cli import schema as schema_commands
from memalchemy.cli import store as store_commands
from memalchemy.cli.command import (
    Common,
    DbOption,
    JsonOption,
    KeysFileOption,
    NoColorOption,
    PlaintextOption,
    ReadableOption,
    SchemaOption,
    TenantOption,
)


class Commands(TyperGroup):
    """All commands; a Ctrl-C that no command was there to answer is answered here."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with ctrl_c.answered():
            return super().make_context(*arguments, **options)

    def invoke(self, context: Any) -> Any:
        with ctrl_c.answered():
            return super().invoke(context)


app = typer.Typer(
    name="memalchemy",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="\b\nExit codes:\n"
    + "\n".join(f"  {code:<4} {meaning}" for code, meaning in exits.MEANING.items())
    + "\n\n\b\nExample:\n  memalchemy demo",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memalchemy {__version__}")
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    db: DbOption = None,
    tenant: TenantOption = None,
    schema: SchemaOption = None,
    keys_file: KeysFileOption = None,
    readable: ReadableOption = None,
    allow_plaintext: PlaintextOption = False,
    as_json: JsonOption = False,
    no_color: NoColorOption = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """One SQL schema for everything an agent remembers.

    The options below may stand before a command or after it.
    """
    context.obj = Common(
        db, tenant, schema, keys_file, readable, allow_plaintext, as_json, no_color
    )


for room in (
    demo,
    schema_commands,
    importing,
    finding,
    looking,
    keeping,
    retention,
    moving,
    verifying,
    keys,
    store_commands,
    log,
    indexes,
    serving,
):
    room.register(app)

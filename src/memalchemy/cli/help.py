"""Help of the program and of its commands: the common options are one line, unless asked for."""

from __future__ import annotations

from inspect import Parameter
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from memalchemy.cli.options import CommonOptions

_WHOLE = "memalchemy.whole_help"
_COMMON = {parameter.name for parameter in CommonOptions.parameters()}


def _print_whole_help(typer_context: typer.Context, wanted: bool) -> None:
    if wanted:
        typer_context.meta[_WHOLE] = True
        typer.echo(typer_context.get_help())
        raise typer.Exit


HELP_ALL = Parameter(
    "help_all",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all",
            help="Show this message with the common options and exit.",
            callback=_print_whole_help,
            is_eager=True,
        ),
    ],
)
"""The option of every command that shows the whole help; its value is of no use to a command."""


class CommandWithHelp(TyperCommand):
    """A command whose help has its own options, and names the common ones in a line."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments and options of a command or of the program."""
    arguments: list[Any] = []
    own: list[Any] = []
    common: list[Any] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            is_argument = parameter.param_type_name == "argument"
            is_common = parameter.name in _COMMON
            (arguments if is_argument else common if is_common else own).append(record)
    sections = {"Arguments": arguments, "Options": own}
    if ctx.meta.get(_WHOLE):
        sections["Common options, before a command or after it"] = common
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
    if common and not ctx.meta.get(_WHOLE):
        named = "--db URL, --tenant NAME, --json"
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"Also {named} and {len(common) - 3} more: --help-all lists them.")

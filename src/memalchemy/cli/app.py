"""The ``memalchemy`` program: its commands, in the order in which the help lists them.

Commands import slow modules, such as SQLAlchemy, in their functions: the help appears at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import Parameter
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from memalchemy._version import __version__
from memalchemy.cli import ctrl_c, exit_codes
from memalchemy.cli.command import Command, add_group, set_parameters
from memalchemy.cli.commands import (
    anchor,
    backup,
    copy,
    delete,
    demo,
    export,
    forget,
    fork,
    import_,
    index,
    inspect,
    inspector,
    keys,
    log,
    prune,
    reembed,
    restore,
    rows,
    schema,
    search,
    serve,
    show,
    sign,
    sql,
    stats,
    store,
    tail,
    tenants,
    vacuum,
    verify,
    views,
    words,
)
from memalchemy.cli.help import HELP_ALL, write_options
from memalchemy.cli.options import CommonOptions
from memalchemy.cli.terminal import print_error
from memalchemy.cli.usage_errors import UsageError

SECTIONS: dict[str, tuple[Command, ...]] = {
    "Demo": (demo.demo,),
    "The schema": (
        schema.upgrade,
        schema.downgrade,
        schema.check,
        schema.current,
        schema.grants,
        schema.distribute,
        views.views,
    ),
    "Importing and exporting threads": (
        import_.import_,
        export.export,
    ),
    "Inspecting": (
        inspector.inspect,
        inspect.threads,
        inspect.history,
        show.show,
        tail.tail,
        inspect.diff,
        search.search,
        rows.messages,
        rows.tools,
        rows.usage,
        sql.sql,
        stats.stats,
    ),
    "Forking and deleting": (
        fork.fork,
        delete.delete,
        forget.forget,
        prune.prune,
        vacuum.vacuum,
    ),
    "Backups and copies": (
        backup.backup,
        restore.restore,
        copy.copy,
        verify.verify,
    ),
    "Encryption": (
        keys.generate_key,
        keys.rotate_keys,
        words.rebuild_words,
        reembed.reembed,
        sign.sign,
        anchor.anchor,
    ),
    "HTTP": (serve.serve,),
}
"""The commands under the headings of the help, which are those of docs/reference/cli.md."""


class Program(TyperGroup):
    """All commands; handles a Ctrl-C and wrong usage while the options are parsed."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **rest: Any) -> Any:
        options = args[: args.index("--")] if "--" in args else args
        as_json = "--json" in options or "--nl" in options
        with ctrl_c.exit_on_interrupt(), _usage_errors(as_json=as_json):
            context = super().make_context(info_name, args, *more, **rest)
        context.meta[_JSON_ERRORS] = as_json
        return context

    def invoke(self, context: Any) -> Any:
        as_json = context.meta[_JSON_ERRORS]
        with ctrl_c.exit_on_interrupt(), _usage_errors(as_json=as_json):
            return super().invoke(context)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their headings, and then those that have commands below them."""
        headed = {title: [one.name for one in some] for title, some in SECTIONS.items()}
        headed["Groups of commands"] = [name for name in self.commands if name in GROUPS]
        with formatter.section("Commands"):
            for title, names in headed.items():
                room = formatter.width - 8 - max(map(len, names))
                with formatter.section(title):
                    formatter.write_dl(
                        [(name, self.commands[name].get_short_help_str(room)) for name in names]
                    )


_JSON_ERRORS = "memalchemy.json_errors"


@contextmanager
def _usage_errors(*, as_json: bool) -> Iterator[None]:
    """Report Typer's own errors, such as an unknown option, as one line like all others."""
    try:
        yield
    except TyperException as error:
        message = " ".join(error.format_message().split())
        if message.startswith("Usage:"):  # the whole help, because there is no command
            if not as_json:
                raise
            message = "give a command; --help lists them"
        elif typer_context := getattr(error, "ctx", None):
            end = "" if message.endswith((".", "?")) else "."
            usage = " ".join(typer_context.get_usage().split())
            message += f"{end} {usage}. See `{typer_context.command_path} --help`"
        print_error(UsageError.code, message, exit_codes.USAGE, as_json=as_json)
        raise SystemExit(exit_codes.USAGE) from None


app: typer.Typer = typer.Typer(
    name="memalchemy",
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="\b\nExit codes:\n"
    + "\n".join(f"  {code:<4} {meaning}" for code, meaning in exit_codes.MEANINGS.items())
    + "\n\n\b\nExample:\n  memalchemy demo",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memalchemy {__version__}")
        raise typer.Exit


def _read_common_options(
    typer_context: typer.Context, version: bool, help_all: bool, **values: Any
) -> None:
    """One SQL schema for everything an agent remembers."""
    typer_context.obj = CommonOptions(**values)


_VERSION = Parameter(
    "version",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ],
)
set_parameters(_read_common_options, [*CommonOptions.parameters(), _VERSION, HELP_ALL])
app.callback()(_read_common_options)

for _commands in SECTIONS.values():
    for _command in _commands:
        _command.add_to(app)

GROUPS = {
    "store": ("Read and write items of the store.", store.COMMANDS),
    "log": ("List logs of entries, such as conversations.", log.COMMANDS),
    "index": ("Manage vector indexes.", index.COMMANDS),
    "tenants": ("List tenants, and wall them from each other.", tenants.COMMANDS),
}
for _name, (_help, _commands) in GROUPS.items():
    add_group(app, _name, _help, _commands)

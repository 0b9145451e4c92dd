"""Commands: async functions of a `Context` and their options, run with one kind of error report."""

from __future__ import annotations

import inspect
import logging
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_type_hints

import typer
from typer.models import OptionInfo

from memalchemy.cli import ctrl_c
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT, OK, USAGE, exit_code
from memalchemy.cli.help import HELP_ALL, CommandWithHelp
from memalchemy.cli.options import CommonOptions
from memalchemy.cli.terminal import print_error
from memalchemy.cli.usage_errors import UsageError
from memalchemy.errors import MemalchemyError

CommandFunction = Callable[..., Awaitable[int | None]]


@dataclass(frozen=True)
class Command:
    """A command: its name, the function that runs it, and the example in its help.

    The function takes a `Context` and the command's own options, and may return an exit code. Its
    docstring is the help text.
    """

    name: str
    function: CommandFunction
    example: str

    def add_to(self, app: typer.Typer) -> None:
        """Add the command, with its own options and the common ones, to *app*."""
        types = get_type_hints(self.function, include_extras=True)
        own = [
            parameter.replace(annotation=types[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(self.function).parameters.items()
            if types[name] is not Context
        ]
        common = CommonOptions.parameters()

        def run(typer_context: typer.Context, **values: Any) -> None:
            del values[HELP_ALL.name]
            after_name = {parameter.name: values.pop(parameter.name) for parameter in common}
            before_name = typer_context.obj or CommonOptions()
            raise typer.Exit(self._run(before_name.override(after_name), values, own))

        run.__doc__ = self.function.__doc__
        set_parameters(run, [*own, *common, HELP_ALL])
        epilog = f"\b\nExample:\n  {self.example}"
        app.command(self.name, cls=CommandWithHelp, epilog=epilog)(run)

    def _run(
        self, options: CommonOptions, values: dict[str, Any], own: Sequence[inspect.Parameter]
    ) -> int:
        """Run to the end and return the exit code; an error is one line on stderr."""
        import asyncio

        async def cancellable() -> int | None:
            with ctrl_c.cancel_task_on_interrupt():
                return await self.function(Context(options), **values)

        if options.verbose:
            logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
            logging.getLogger("alembic").setLevel(logging.INFO)  # a migration would silence it
        try:
            _refuse_empty(own, values)
            ended = asyncio.run(cancellable()) or OK
            sys.stdout.flush()
            return ended
        except MemalchemyError as error:
            code, message, ended = error.code, str(error), exit_code(error)
            if ended == CORRUPT and self.name not in _NAME_WHAT_IS_WRONG:
                message = f"{message.removesuffix('.')}. {_advise_verify(options, values)}"
        except BrokenPipeError:
            _flush_or_discard_stdout()  # the reader of a pipe has gone
            return OK
        except OSError as error:
            # The library translates its own failures, so this one is from writing the output.
            code, message, ended = OUTPUT, f"cannot write the output: {error.strerror}", USAGE
            _flush_or_discard_stdout()
        print_error(code, message, ended, as_json=options.json_errors)
        return ended


OUTPUT = "MA-OUTPUT"
"""The code of output that cannot be written."""


@contextmanager
def report_unwritable_stdout() -> Iterator[None]:
    """Write what is left for stdout, such as the help; if that fails, end with one line on stderr.

    Raises:
        SystemExit: stdout cannot be written.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _flush_or_discard_stdout()
        raise SystemExit(OK) from None
    except OSError as error:
        _flush_or_discard_stdout()
        as_json = "--json" in sys.argv or "--nl" in sys.argv
        print_error(OUTPUT, f"cannot write the output: {error.strerror}", USAGE, as_json=as_json)
        raise SystemExit(USAGE) from None


def _flush_or_discard_stdout() -> None:
    """Leave nothing in stdout's buffer: Python would complain of it once more at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


MAY_BE_EMPTY = ("QUERY", "TEXT", "VALUE", "NAMESPACE", "CHECKPOINT")
"""The metavars of texts that may be empty, or of which the command itself says what it wants."""


def _refuse_empty(own: Sequence[inspect.Parameter], values: dict[str, Any]) -> None:
    """Refuse an empty name, id or place: in a script it is a variable that was not set.

    Raises:
        UsageError: names the argument or option.
    """
    for parameter in own:
        about = parameter.annotation.__metadata__[0]
        given = values[parameter.name]
        texts = given if isinstance(given, (list, tuple)) else (given,)
        if "" in texts and about.metavar not in MAY_BE_EMPTY:
            name = _name_of_option(parameter) if isinstance(about, OptionInfo) else about.metavar
            raise UsageError(f"{name} is empty: is the variable set that it was to have?")


def _name_of_option(parameter: inspect.Parameter) -> str:
    # In an annotation the first argument of typer.Option is the option, and not a default.
    option = f"{parameter.annotation.__metadata__[0].default}"
    return option if option.startswith("--") else f"--{parameter.name.replace('_', '-')}"


_NAME_WHAT_IS_WRONG = ("verify", "anchor", "backup", "import")
"""Commands whose message about damage needs no other command, or is of another file."""


def _advise_verify(options: CommonOptions, values: dict[str, Any]) -> str:
    """Return a sentence that names the command to find the damage."""
    from memalchemy.maintenance.command_names import program

    command = f"{program(options.tenant or 'default')} verify"
    if isinstance(thread := values.get("thread"), str):
        command += f" --thread {shlex.quote(thread)}"
    return f"`{command}` says what is damaged, and what can be done"


def command(name: str, *, example: str) -> Callable[[CommandFunction], Command]:
    """Declare an async function to be the command *name*."""
    return lambda function: Command(name, function, example)


def set_parameters(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    """Give *function*, which takes ``typer_context`` and keywords, the options that Typer reads."""
    first = inspect.Parameter(
        "typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
    )
    signature = inspect.Signature([first, *parameters])
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }


def add_group(app: typer.Typer, name: str, help: str, commands: Sequence[Command]) -> None:
    """Add *commands* to *app* as ``memalchemy NAME COMMAND``."""
    group = typer.Typer(name=name, help=help, no_args_is_help=True, rich_markup_mode=None)
    for one in commands:
        one.add_to(group)
    app.add_typer(group)

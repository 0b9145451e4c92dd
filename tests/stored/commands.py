"""What scripts rely on: commands, options, codes, and the JSON that commands print."""

from __future__ import annotations

import inspect
import json
import shlex
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from memalchemy import errors
from memalchemy.cli import exit_codes
from memalchemy.cli.app import app
from memalchemy.maintenance.verify import report
from stored.contents import BESIDE, TENANT

READS = (
    "check",
    "threads",
    "history long",
    "show long",
    "show long --raw",
    "show branched --at left",
    "diff branched left right",
    "tail long",
    "search lighthouses",
    "search zebra --in entries",
    "log ls",
    "store ls",
    "store get users/naïve~1~0 ada",
    "store search users/naïve~1~0 giraffes",
    "messages",
    "tools",
    "usage",
    "stats",
    "verify",
    "tenants list",
    "index show",
    "prune --all --keep-last 2 --dry-run",
    "forget --thread long --dry-run",
    "show nobody",
)
"""Commands that change nothing, of the stored database plain.db."""


def told(url: str) -> dict[str, Any]:
    """Return all of it, of a copy of a stored database."""
    return {
        "commands": {name: _parameters(one) for name, one in _commands(get_command(app)).items()},
        "errors": {
            one.code: [one.__name__, exit_codes.exit_code(one.__new__(one))]
            for _, one in inspect.getmembers(errors, _is_error)
        },
        "exit codes": {str(code): meaning for code, meaning in exit_codes.MEANINGS.items()},
        "findings": dict.fromkeys(report.CODES, True),
        "json": {line: _printed(line, url) for line in READS},
    }


def required(content: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the parameters without which a command does not run."""
    return {
        (command, name)
        for command, parameters in content["commands"].items()
        for name, one in parameters.items()
        if one["required"]
    }


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, errors.MemalchemyError)


def _commands(group: Any, above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        found |= _commands(command, f"{above}{name} ") if inner else {above + name: command}
    return found


def _parameters(command: Any) -> dict[str, Any]:
    return {
        spelt: {
            "required": one.required,
            "is a flag": getattr(one, "is_flag", False),
            "takes several": one.nargs != 1 or getattr(one, "multiple", False),
        }
        for one in command.params
        for spelt in (*one.opts, *one.secondary_opts)
    }


def _printed(line: str, url: str) -> Any:
    tenant = BESIDE if line.startswith(("messages", "tools", "usage")) else TENANT
    arguments = [*shlex.split(line), "--db", url, "--tenant", tenant, "--json"]
    ended = CliRunner().invoke(app, arguments)
    document = json.loads(ended.stdout or ended.stderr or "null")
    return {"exit code": ended.exit_code, "document": document}

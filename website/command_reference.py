"""Writes docs/reference/cli.md from the commands: `python -m website.command_reference`.

The help of a command is in its code. Its JSON and its details are in command_notes.toml.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from memalchemy.cli.app import GROUPS, SECTIONS, app
from memalchemy.cli.options import CommonOptions

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "cli.md"
NOTES = ROOT / "website" / "command_notes.toml"
COMMON = {parameter.name for parameter in CommonOptions.parameters()}
WIDTH, COLUMN = 96, 28
"""The width of the lists of options, and the most of it that their names take."""
SHARED_BY = 2
"""An argument or option that so many commands have is described once, above them."""
OBVIOUS = {"KEY", "THREAD"}
"""Arguments whose names say all."""
REPLACED = {
    r" ?\[required\]": "",
    r"; required\]": "]",
    r"([\d.]+)<=x<=([\d.]+)": r"\1 to \2",
    r"x<=([\d.]+)": r"at most \1",
    r"x>=([\d.]+)": r"at least \1",
    r"; at least [01]\]": "]",
    r" ?\[at least [\d.]+\]": "",
    r"; 0 to 65535\]": "]",
}
"""Marks of the help, and the words for them."""
DEFAULT = re.compile(r"\s*\[default: ([^\]]*)\]$")
HEADINGS = {
    "store": "The store",
    "log": "Logs of entries",
    "index": "Vector indexes",
    "tenants": "Tenants in the database",
}


def page() -> str:
    """Return the text of docs/reference/cli.md."""
    notes = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    program: Any = get_command(app)
    found = dict(_commands(program))
    chapters = {title: [str(one.name) for one in some] for title, some in SECTIONS.items()}
    chapters |= {
        HEADINGS[group]: [f"{group} {name}" for name in program.commands[group].commands]
        for group in GROUPS
    }
    abouts = {HEADINGS[group]: text.strip() for group, text in notes["groups"].items()}
    uses = Counter(record for one in found.values() for record in _own(one))
    commonest = {record[0]: record for record, _ in reversed(uses.most_common())}
    shared = {record for record in commonest.values() if uses[record] >= SHARED_BY}
    listed = sorted(record for record in shared if record[0] not in OBVIOUS)
    context = typer.Context(program, info_name="memalchemy")
    common = [_record(one, context) for one in program.params if one.name in COMMON]
    parts = [notes["introduction"].format(common=_list(common), shared=_list(listed))]
    for title, names in chapters.items():
        parts.append(f"## {title}\n")
        if title in abouts:
            parts.append(abouts[title] + "\n")
        parts += [_section(name, found[name], notes.get(name, {}), shared) for name in names]
    return "\n".join(parts)


def _commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def _own(command: Any) -> list[tuple[str, str]]:
    """How each argument and option of its own is written, and what its help says."""
    context = typer.Context(command)
    return [
        _record(one, context)
        for one in command.params
        if one.name not in COMMON and one.name != "help_all"
    ]


def _record(parameter: Any, context: Any) -> tuple[str, str]:
    written, meaning = parameter.get_help_record(context)
    for old, new in REPLACED.items():
        meaning = re.sub(old, new, meaning)
    return re.sub(r" <\w+>", "", written), meaning.strip()


def _section(name: str, command: Any, notes: dict[str, Any], shared: set[tuple[str, str]]) -> str:
    own = _own(command)
    if "elsewhere" in notes:
        shared = shared | {one for one in own if one[0].startswith(tuple(notes["elsewhere"]))}
    arguments = [
        one.metavar if one.required else f"[{one.metavar}]"
        for one in command.params
        if one.param_type_name == "argument"
    ]
    first, *more = [_escaped(" ".join(one.split())) for one in command.help.split("\n\n")]
    if arguments:
        first = f"`{' '.join([name, *arguments])}`: {first[0].lower()}{first[1:]}"
    parts = [f"### `{name}`", first]
    if "guide" in notes:
        parts[-1] += f" See {notes['guide']}."
    else:
        parts += more
    if "like" in notes:
        like = f"[`{notes['like']}`](#{notes['like']})"
        parts.append(f"Its options are those of {like}, and its JSON has the same form.")
        own = []
    without_defaults = {_without_default(one) for one in shared}
    own = [one for one in own if one[0] != notes.get("obvious")]
    if described := [one for one in own if _without_default(one) not in without_defaults]:
        parts.append(_list(described))
    if also := [_named(one, one not in shared) for one in own
                if one[0][0] == "-" and one not in described]:  # fmt: skip
        parts.append(f"Also {', '.join(also)}.")
    if "notes" in notes:
        parts.append(notes["notes"].strip())
    if "json" in notes:
        parts.append(f"JSON: {notes['json'].strip()}.")
    return "\n\n".join(parts) + "\n"


def _without_default(record: tuple[str, str]) -> tuple[str, str]:
    written, meaning = record
    return written, DEFAULT.sub("", meaning)


def _named(record: tuple[str, str], with_default: bool) -> str:
    """The name of an option that is described above, and its own default."""
    written, meaning = record
    name, *_ = re.findall(r"--[\w-]+", written)
    found = DEFAULT.search(meaning)
    return f"`{name}`" + (f" (default {found[1]})" if found and with_default else "")


def _list(records: Iterable[tuple[str, str]]) -> str:
    """Return options and what they mean as the two columns that `--help` prints."""
    records = [(written, " ".join(meaning.split())) for written, meaning in records]
    column = max([len(written) for written, _ in records if len(written) <= COLUMN], default=2) + 2
    lines = ["```text"]
    for written, meaning in records:
        indent = " " * column
        first = f"{written:{column}}"
        if len(written) > COLUMN:
            lines.append(written)
            first = indent
        lines += textwrap.wrap(
            meaning,
            WIDTH,
            initial_indent=first,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join([*lines, "```"])


def _escaped(text: str) -> str:
    """A text of the help, where Markdown would read a character of it as its own."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(one if one[:1] == "`" else re.sub(r"([*<])", r"\\\1", one) for one in parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Options and arguments that several commands share, each declared once."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from memalchemy._environment import SCHEMA_VARIABLE, URL_VARIABLE
from memalchemy.cli.formatting import DataFormat, TableStyle
from memalchemy.cli.usage_errors import UsageError

KEYS_VARIABLE = "MEMALCHEMY_KEYS"
SIGNING_KEYS_VARIABLE = "MEMALCHEMY_SIGNING_KEYS"

CHECKPOINT_FORMS = "an id, its beginning, latest~2, @2026-11-01"
"""Examples of what `find_checkpoint` takes, for help texts."""


@dataclass(frozen=True)
class CommonOptions:
    """The options of every command, which stand before its name or after it."""

    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="URL",
            help=f"URL of the database, or path of a SQLite file. [env: {URL_VARIABLE}]",
        ),
    ] = None
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="NAME", help="The tenant. [default: default]"),
    ] = None
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="NAME",
            help=f"Schema of the tables (PostgreSQL, Oracle). [env: {SCHEMA_VARIABLE}]",
        ),
    ] = None
    keys_file: Annotated[
        str | None,
        typer.Option(
            "--keys-file",
            metavar="FILE",
            help="Encryption keys, one per line; the first one encrypts. "
            f"[env: {KEYS_VARIABLE}, separated by commas]",
        ),
    ] = None
    readable: Annotated[
        str | None,
        typer.Option(
            "--readable",
            metavar="KINDS",
            help="What an encrypted database stores unencrypted: text,fields,vectors.",
        ),
    ] = None
    allow_plaintext: Annotated[
        bool,
        typer.Option(
            "--allow-plaintext", help="Also read unencrypted data of an encrypted database."
        ),
    ] = False
    signing_keys_file: Annotated[
        str | None,
        typer.Option(
            "--signing-keys-file",
            metavar="FILE",
            help="Signing keys, one per line; the first one signs. "
            f"[env: {SIGNING_KEYS_VARIABLE}, separated by commas]",
        ),
    ] = None
    allow_unsigned: Annotated[
        bool, typer.Option("--allow-unsigned", help="Also read unsigned data of a signed database.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
    nl: Annotated[
        bool, typer.Option("--nl", help="Print a JSON document per line, for each result.")
    ] = False
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False
    tsv: Annotated[bool, typer.Option("--tsv", help="Print tab-separated values.")] = False
    table_style: Annotated[
        TableStyle | None,
        typer.Option("--fmt", metavar="STYLE", help=f"Look of tables: {', '.join(TableStyle)}."),
    ] = None
    no_color: Annotated[bool, typer.Option("--no-color", help="Print no colours or styles.")] = (
        False
    )
    verbose: Annotated[bool, typer.Option("--verbose", help="Show log messages on stderr.")] = False

    @property
    def data_format(self) -> DataFormat | None:
        """Return the format in which results are printed for programs; ``None``: for people.

        Raises:
            UsageError: two options contradict each other.
        """
        chosen = {
            "--json": self.as_json,
            "--nl": self.nl,
            "--csv": self.csv,
            "--tsv": self.tsv,
            "--fmt": self.table_style is not None,
        }
        given = [option for option, is_given in chosen.items() if is_given]
        if len(given) > 1:
            raise UsageError(f"give one of {', '.join(given)}: they contradict each other")
        return DataFormat(given[0].removeprefix("--")) if given and given != ["--fmt"] else None

    @property
    def json_errors(self) -> bool:
        """Return true if errors are printed as JSON."""
        return self.as_json or self.nl

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """Return the options as keyword parameters of a function that Typer calls."""
        types = get_type_hints(cls, include_extras=True)
        return [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=types[field.name],
            )
            for field in fields(cls)
        ]

    def override(self, values: dict[str, Any]) -> CommonOptions:
        """Return these options with those of *values* that were given."""
        given = {k: v for k, v in values.items() if v is not None and v is not False}
        return replace(self, **given)


QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="Words to look for; there are no operators.")
]


class MatchName(StrEnum):
    """The words that have to be in what a search finds."""

    ANY = "any"
    ALL = "all"


MatchOption = Annotated[
    MatchName,
    typer.Option("--match", help="Find what holds any of the words, or all."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", min=1, metavar="N", help="Largest number of results.")
]
FullOption = Annotated[bool, typer.Option("--full", help="Print long texts in full.")]
ThreadNamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAMESPACE",
        help="Only this namespace, such as langgraph; / is the root.",
    ),
]
OnlyNamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAMESPACE",
        help="Only this namespace, such as langgraph; / is the root.",
    ),
]
FrameworkOption = Annotated[
    str | None,
    typer.Option("--framework", metavar="NAME", help="Only this framework, such as langgraph."),
]
PrefixOption = Annotated[
    bool, typer.Option("--prefix", help="Also the namespaces below NAMESPACE.")
]
MetadataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="KEY=VALUE",
        help="With this metadata; VALUE may be JSON. Repeatable.",
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not stdout.")
]
AllTenantsOption = Annotated[
    bool, typer.Option("--all-tenants", help="All tenants instead of one.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")]


class Metric(StrEnum):
    """Measures of the similarity of two vectors."""

    COSINE = "cosine"
    DOT = "dot"
    L2 = "l2"


MetricOption = Annotated[Metric, typer.Option("--metric", help="Measure of similarity.")]

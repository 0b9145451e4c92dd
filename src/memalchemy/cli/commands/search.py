"""The command search."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from memalchemy.cli.checkpoint_references import find_thread
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, escape_controls, format_json, format_time, style_hits
from memalchemy.cli.options import (
    LimitOption,
    MatchName,
    MatchOption,
    OnlyNamespaceOption,
    PrefixOption,
    QueryArgument,
)
from memalchemy.cli.parsers import format_namespace, parse_namespace
from memalchemy.cli.tables import Column
from memalchemy.cli.thread_arguments import ThreadOption
from memalchemy.cli.usage_errors import UsageError, usage_errors

Hit = Mapping[str, Any]


class Place(StrEnum):
    """Kind of data that a search looks in."""

    CHECKPOINTS = "checkpoints"
    ENTRIES = "entries"
    ITEMS = "items"


KINDS = {Place.CHECKPOINTS: "step", Place.ENTRIES: "entry", Place.ITEMS: "item"}
"""The inspector's names of what is found."""


@command("search", example="memalchemy --db sqlite:///agent.db search 'gift card refund'")
async def search(
    ctx: Context,
    query: QueryArgument,
    places: Annotated[
        list[Place] | None,
        typer.Option(
            "--in",
            metavar="PLACE",
            help="Only checkpoints, entries or items. Repeatable.",
        ),
    ] = None,
    thread: ThreadOption = None,
    namespace: OnlyNamespaceOption = None,
    prefix: PrefixOption = False,
    match: MatchOption = MatchName.ANY,
    limit: LimitOption = 10,
) -> None:
    """Search everything for words.

    Searches checkpoints, entries of logs and items of the store, best match first, and names the
    command that shows a hit. A checkpoint is found by the words that its step added. Words match
    whole; case and accents do not matter. `store search` also searches by vectors and filters.
    """
    if not query.strip():
        raise UsageError("name the words to look for; `memalchemy threads` lists what there is")
    if thread is not None and places == [Place.ITEMS]:
        raise UsageError("items belong to no thread: leave --thread or --in items out")
    if prefix and namespace is None:
        raise UsageError("--prefix goes with --namespace")
    from memalchemy.inspection import Inspector

    async with ctx.database(read_only=True) as db:
        if thread is not None:
            thread = await find_thread(db, thread)
        with usage_errors():
            found = await Inspector(db).search(
                query,
                limit=limit,
                match=match.value,
                kinds=[KINDS[place] for place in places or Place],
                namespace=() if namespace is None else parse_namespace(namespace),
                below=prefix or namespace is None,
                thread_id=thread,
            )
    hits = found["hits"]
    if ctx.as_data:
        ctx.terminal.print_data([_to_document(hit) for hit in hits])
    elif ctx.options.table_style is not None:
        _print_table(ctx, hits)
    else:
        for hit in hits:
            _print_hit(ctx, hit)
    ctx.terminal.print_note(count(len(hits), "hit"))
    if len(hits) == limit:
        ctx.terminal.print_note(f"only the best {limit}; --limit shows more")
    if hits and not ctx.as_data and _is_url_secret(ctx):
        ctx.terminal.print_note("the commands lack --db, because its URL may hold a password")


def _to_document(hit: Hit) -> dict[str, Any]:
    return {
        **hit,
        "kind": _kind_of_hit(hit),
        "snippet": "".join(piece["text"] for piece in hit["snippet"]),
    }


def _kind_of_hit(hit: Hit) -> str:
    return "checkpoint" if hit["kind"] == "step" else str(hit["kind"])


def _print_hit(ctx: Context, hit: Hit) -> None:
    """Print where a hit is, its text and the command that shows it, on a line each."""
    where = [f"{hit['score']:.2f}", _kind_of_hit(hit)]
    if hit["thread_id"] is not None:
        where += [hit["thread_id"], _place_in_thread(hit)]
    else:
        where.append(hit["key"])
    where += [f"in {format_namespace(hit['namespace'])}", format_time(hit["occurred_at"])]
    ctx.terminal.print(escape_controls("  ".join(where)), style="bold")
    ctx.terminal.print_block(style_hits(hit["snippet"]), indent=6)
    ctx.terminal.print(f"      {_command_that_shows(ctx, hit)}", style="dim")


def _print_table(ctx: Context, hits: Sequence[Hit]) -> None:
    ctx.terminal.print_table(
        (
            Column("kind", "id"),
            Column("namespace", "id"),
            Column("thread", "id"),
            Column("checkpoint, position or key", "id"),
            Column("happened (UTC)", "time", drop=2),
            Column("score", "number", drop=1),
            Column("text"),
        ),
        (
            (
                _kind_of_hit(hit),
                format_namespace(hit["namespace"]),
                hit["thread_id"],
                hit["key"] if hit["thread_id"] is None else _place_in_thread(hit),
                format_time(hit["occurred_at"]),
                f"{hit['score']:.2f}",
                style_hits(hit["snippet"]),
            )
            for hit in hits
        ),
    )


def _place_in_thread(hit: Hit) -> str:
    return str(hit["position"] if hit["checkpoint_id"] is None else hit["checkpoint_id"])


def _command_that_shows(ctx: Context, hit: Hit) -> str:
    """Return the command that shows a hit, as a shell takes it."""
    namespace = format_namespace(hit["namespace"])
    options: list[str] = []
    if hit["kind"] == "item":
        name, arguments = ["store", "get"], [namespace, hit["key"]]
    else:
        name, arguments = ["show"], [hit["thread_id"]]
        options = ["--at", _place_in_thread(hit), "--namespace", namespace]
    if any(argument.startswith("-") for argument in arguments):
        arguments = [*options, "--", *arguments]
    else:
        arguments = [*arguments, *options]
    return " ".join(map(_quote_for_shell, ["memalchemy", *_common_options(ctx), *name, *arguments]))


def _quote_for_shell(argument: str) -> str:
    """Quote an argument for a shell, on one line and without what a terminal acts on."""
    if escape_controls(argument) == argument:
        return shlex.quote(argument)
    escaped = format_json(argument, indent=None)[1:-1].replace("'", "\\'")
    return f"$'{escaped}'"  # bash, zsh and ksh read the escapes of JSON, too


def _common_options(ctx: Context) -> list[str]:
    """Return the options that say which data a command is for, as they were given."""
    given = ctx.options
    found: list[str] = []
    for option, value in (
        ("--db", None if _is_url_secret(ctx) else given.db),
        ("--tenant", given.tenant),
        ("--schema", given.schema),
        ("--keys-file", given.keys_file),
        ("--signing-keys-file", given.signing_keys_file),
        ("--readable", given.readable),
    ):
        found += [] if value is None else [option, value]
    flags = {
        "--allow-plaintext": given.allow_plaintext,
        "--allow-unsigned": given.allow_unsigned,
    }
    return [*found, *(flag for flag, is_given in flags.items() if is_given)]


def _is_url_secret(ctx: Context) -> bool:
    """Return true if ``--db`` gives a URL that is not shown as it is."""
    return ctx.options.db is not None and "***" in ctx.display_url

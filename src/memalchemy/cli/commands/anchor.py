"""The command anchor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy._files import is_stream
from memalchemy.cli.anchor_files import read_anchor
from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count
from memalchemy.cli.options import SIGNING_KEYS_VARIABLE, AllTenantsOption
from memalchemy.cli.usage_errors import UsageError, usage_errors

if TYPE_CHECKING:
    from memalchemy.anchors import Anchor

STDOUT = Path("-")


@command(
    "anchor",
    example="memalchemy --db sqlite:///agent.db --signing-keys-file keys.txt anchor agent.anchor",
)
async def anchor(
    ctx: Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of the anchor; - is stdout.")],
    previous: Annotated[
        Path | None,
        typer.Option("--previous", metavar="FILE", help="The last anchor, if not FILE."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Read everything, not only what has changed.")
    ] = False,
    accept_rollback: Annotated[
        bool,
        typer.Option(
            "--accept-rollback",
            help="Accept a backup that was restored on purpose.",
        ),
    ] = False,
    all_tenants: AllTenantsOption = False,
) -> None:
    """Write an anchor: proof of what the database had.

    Keep FILE where those who can write to the database cannot change it. `verify --anchor FILE`
    finds rows that were removed since, or replaced by an older copy. If FILE exists, only rows
    that have changed since are read and compared with it, and FILE is replaced when the new one is
    complete.

    Agents may go on working. Ends with exit code 5, and leaves FILE as it is, if the database
    lacks something that the last anchor names, or has an older copy of it.
    """
    from memalchemy.anchors import anchor

    ctx.refuse_two_tenants(all_tenants=all_tenants)
    last = _read_previous(file, previous)
    async with ctx.database() as db:
        if not db.signing.signs:
            raise UsageError(
                "anchor needs the signing keys: use --signing-keys-file FILE or set "
                f"{SIGNING_KEYS_VARIABLE}"
            )
        with ctx.terminal.progress("reading") as progress, usage_errors():
            made = await anchor(
                db,
                last,
                all_tenants=all_tenants,
                full=full,
                accept_rollback=accept_rollback,
                progress=lambda done: progress.update(done, None),
            )
    _write_anchor(made, file)
    _print_anchor(ctx, made, file, all_tenants=all_tenants)


def _read_previous(file: Path, previous: Path | None) -> Anchor | None:
    if previous is not None:
        return read_anchor(previous)
    is_there = file != STDOUT and file.exists() and not is_stream(file)
    return read_anchor(file) if is_there else None


def _write_anchor(made: Anchor, file: Path) -> None:
    if file == STDOUT:
        sys.stdout.buffer.write(made.to_bytes())
        sys.stdout.buffer.flush()
        return
    try:
        made.write(file)
    except OSError as error:
        if is_stream(file):
            raise
        raise UsageError(f"the anchor {file} cannot be written: {error.strerror}") from error


def _print_anchor(ctx: Context, made: Anchor, file: Path, *, all_tenants: bool) -> None:
    tenants = count(len(made.sections), "tenant")
    if file == STDOUT:
        ctx.terminal.print_note(f"{len(made):,} logs and items of {tenants}: {made.digest}")
    elif ctx.as_data:
        ctx.terminal.print_data(
            {
                "file": str(file),
                "digest": made.digest,
                "taken_at": made.taken_at.isoformat(),
                "records": len(made),
                "tenants": len(made.sections),
                "bytes": len(made.to_bytes()),
            }
        )
    else:
        ctx.terminal.print(f"{len(made):,} logs and items of {tenants} are anchored in {file}")
        if len(made.sections) > 1 and not all_tenants:
            ctx.terminal.print(
                f"tenant {ctx.tenant!r} alone was looked at; --all-tenants takes all"
            )
        ctx.terminal.print(f"digest {made.digest}")

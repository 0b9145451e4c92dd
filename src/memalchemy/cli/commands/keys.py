"""Commands of encryption keys: generate-key, rotate-keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT, NOT_FOUND, OK
from memalchemy.cli.options import KEYS_VARIABLE, AllTenantsOption, DryRunOption
from memalchemy.cli.tables import Column
from memalchemy.cli.usage_errors import UsageError, usage_errors

if TYPE_CHECKING:
    from memalchemy.rotation import RotationReport

LISTED = 20
"""Rows that a message lists."""

_STATES = {
    "first": "the first key, which encrypts",
    "given": "given",
    "missing": "not given",
    "plaintext": "",
}


@command("generate-key", example="memalchemy generate-key")
async def generate_key(ctx: Context) -> None:
    """Print a new encryption key.

    A key is 32 bytes as URL-safe base64, the same as a Fernet key. Store it where only your
    programs can read it: without its key, encrypted data is lost.
    """
    from memalchemy.codec import encryption

    key = encryption.generate_key()
    if ctx.as_data:
        ctx.terminal.print_data({"key": key})
    else:
        ctx.terminal.print_raw(key)


@command(
    "rotate-keys",
    example="memalchemy --db sqlite:///agent.db --keys-file keys.txt --readable text,fields "
    "rotate-keys",
)
async def rotate_keys(
    ctx: Context,
    all_tenants: AllTenantsOption = False,
    drop_vectors: Annotated[
        bool,
        typer.Option("--drop-vectors", help="Remove vectors that --readable does not allow."),
    ] = False,
    drop_words: Annotated[
        bool,
        typer.Option(
            "--drop-words",
            help="Remove searchable words and fields that --readable does not allow.",
        ),
    ] = False,
    encrypt_plaintext: Annotated[
        bool,
        typer.Option(
            "--encrypt-plaintext",
            help="Also encrypt unencrypted rows of an encrypted tenant, which may be forged.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
) -> int:
    """Encrypt everything with the first of the given keys.

    Encrypts what is under another key, and tenants that are not encrypted at all. Unencrypted rows
    of an encrypted tenant may be forged: they are listed and left as they are. If there are
    searchable words, fields or vectors that --readable does not allow, nothing is done unless
    --drop-words or --drop-vectors is given.

    Agents may go on working if they have the new key too. If the rotation is interrupted, run it
    again. Ends with exit code 1 if something is left, and 5 if something is damaged: that is named
    and left, and the older keys have to be kept.
    """
    from memalchemy.rotation import rotate_keys

    ctx.refuse_two_tenants(all_tenants=all_tenants)
    async with ctx.database(read_only=dry_run) as db:
        if not db.keyring.encrypts:
            raise UsageError(
                "rotate-keys needs the keys, the new one first: use --keys-file FILE or set "
                f"{KEYS_VARIABLE}. `memalchemy generate-key` makes a key"
            )
        with ctx.terminal.progress("rotating") as progress, usage_errors():
            report = await rotate_keys(
                db,
                all_tenants=all_tenants,
                drop_vectors=drop_vectors,
                drop_words=drop_words,
                encrypt_plaintext=encrypt_plaintext,
                dry_run=dry_run,
                progress=lambda state: progress.update(state.done, state.total),
            )
    if ctx.as_data:
        ctx.terminal.print_data(asdict(report) | {"dry_run": dry_run})
    else:
        _print_report(ctx, report, dry_run=dry_run)
    if report.damaged:
        return CORRUPT
    return OK if dry_run or not report.left else NOT_FOUND


def _print_report(ctx: Context, report: RotationReport, *, dry_run: bool) -> None:
    ctx.terminal.print_table(
        (
            Column("key", "id"),
            Column("state"),
            Column("rows of threads", "number"),
            Column("items", "number"),
        ),
        (
            (use.key_id or "not encrypted", _STATES[use.state], use.rows, use.items)
            for use in report.uses
        ),
    )
    _print_rows(
        ctx,
        report.refused,
        "unencrypted rows of encrypted tenants were left, because they may be forged. If you know "
        "that they are genuine, --encrypt-plaintext encrypts them",
    )
    _print_rows(
        ctx,
        report.adopted,
        "unencrypted rows of encrypted tenants count as genuine because of --encrypt-plaintext",
    )
    if dry_run:
        due = report.left - len(report.refused)
        ctx.terminal.print(f"{due:,} would be encrypted with the first key")
        if report.words:
            ctx.terminal.print(
                f"words and fields of {report.words:,} are readable; --drop-words removes them"
            )
        if report.vectors:
            ctx.terminal.print(
                f"{report.vectors:,} vectors are readable; --drop-vectors removes them"
            )
        return
    ctx.terminal.print(
        f"{report.rotated:,} rows and items encrypted with the first key in {report.seconds:.1f} s"
    )
    if report.words:
        ctx.terminal.print(f"readable words and fields of {report.words:,} were removed")
    if report.vectors:
        ctx.terminal.print(f"{report.vectors:,} vectors were removed")
    if report.left:
        _print_unfinished(ctx, report)
    if report.needed_keys:
        keys = ", ".join(report.needed_keys)
        ctx.terminal.print(
            f"keep the older keys, {keys}: what was left may be under them", style="yellow"
        )
    _print_rows(ctx, report.left_out, "are damaged, or their keys were not given")


def _print_unfinished(ctx: Context, report: RotationReport) -> None:
    """Say what is left, and what can be done about it."""
    sentences = [f"{report.left:,} are left"]
    if report.damaged:
        sentences.append(
            f"{report.damaged:,} of them are damaged: `memalchemy verify` says more of them"
        )
    missing = sum(use.rows + use.items for use in report.uses if use.state == "missing")
    if missing:
        sentences.append(f"{missing:,} are under keys that were not given: give those, too")
    if report.left > report.damaged + missing + len(report.refused):
        sentences.append(
            "others were written meanwhile: run the command again when nobody writes with an older "
            "key any more"
        )
    ctx.terminal.print(". ".join(sentences), style="yellow")


def _print_rows(ctx: Context, rows: tuple[object, ...], heading: str) -> None:
    if not rows:
        return
    ctx.terminal.print(f"{len(rows):,} {heading}:", style="yellow")
    for row in rows[:LISTED]:
        ctx.terminal.print(f"  {row}")
    if len(rows) > LISTED:
        ctx.terminal.print("  …; --json lists more")

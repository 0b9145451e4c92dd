"""Commands about keys: generate-key, rotate-keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.exits import CORRUPT, NOT_FOUND, OK, UsageProblem

if TYPE_CHECKING:
    from memalchemy.contracts import Progress
    from memalchemy.rotation import RotationReport


def register(app: typer.Typer) -> None:
    """Add this file's commands to *app*."""
    command(app, "generate-key", example="memalchemy generate-key")(generate_key)
    example = "memalchemy --db sqlite:///agent.db --keys-file keys.txt rotate-keys"
    command(app, "rotate-keys", example=example)(rotate)


async def generate_key(at: Invocation) -> None:
    """Print a new key.

    32 bytes as URL-safe base64, as Fernet's are. Keep it where only your programs read it: what is
    encrypted with a key that is lost is lost.
    """
    from memalchemy.codec import encryption

    key = encryption.generate_key()
    if at.as_json:
        at.terminal.document({"key": key})
    else:
        at.terminal.raw(key)


async def rotate(
    at: Invocation,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Everybody's, not one tenant's.")
    ] = False,
    drop_vectors: Annotated[
        bool, typer.Option("--drop-vectors", help="Remove vectors, if they may not be readable.")
    ] = False,
    encrypt_plaintext: Annotated[
        bool,
        typer.Option(
            "--encrypt-plaintext",
            help="Also what is not encrypted in a tenant that is: it may be forged.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what is under which key.")
    ] = False,
) -> int:
    """Encrypt everything with the first key.

    Whatever key it is under now, and a tenant that is not encrypted at all. In one that is, what is
    not encrypted is left and listed, for it may be forged. Words and fields that may not be
    readable are removed. The agents may go on working, if they have the new key among theirs.
    Interrupted or killed, it goes on when it is run again. Exit code 1 if something is left.
    """
    from memalchemy.rotation import rotate_keys

    if all_tenants and at.common.tenant is not None:
        raise UsageProblem("give --tenant or --all-tenants, not both")
    async with at.database() as db:
        if not db.keyring.encrypts:
            raise UsageProblem(
                "rotate-keys needs keys, the new one first: set MEMALCHEMY_KEYS, or give "
                "--keys-file FILE. `memalchemy generate-key` makes one."
            )
        with at.terminal.progress() as bar:
            task = bar.add_task("rotating", total=None)

            def tell(progress: Progress) -> None:
                bar.update(task, completed=progress.done, total=progress.total)

            with asking_for_sense():
                report = await rotate_keys(
                    db,
                    all_tenants=all_tenants,
                    drop_vectors=drop_vectors,
                    encrypt_plaintext=encrypt_plaintext,
                    dry_run=dry_run,
                    progress=tell,
                )
    if at.as_json:
        at.terminal.document(asdict(report) | {"dry_run": dry_run})
    else:
        _show(at, report, dry_run=dry_run)
    if report.damaged:
        return CORRUPT
    return OK if dry_run or not report.left else NOT_FOUND


def _show(at: Invocation, report: RotationReport, *, dry_run: bool) -> None:
    at.terminal.table(
        ("key", "", ">rows of threads", ">items"),
        ((use.key_id or "not encrypted", _STATES[use.state], use.rows, use.items)
         for use in report.uses),
    )  # fmt: skip
    for rows, what in ((report.refused, REFUSED), (report.adopted, ADOPTED)):
        if rows:
            at.terminal.say(f"{len(rows):,} {what}:", style="yellow")
        for row in rows[:SHOWN]:
            at.terminal.say(f"  {row}")
        if len(rows) > SHOWN:
            at.terminal.say("  …; --json has more of them")
    if dry_run:
        due = report.left - len(report.refused)
        at.terminal.say(f"{due:,} would be encrypted with the first key")
        if report.words:
            at.terminal.say(f"{report.words:,} have readable words or fields, which would go")
        if report.vectors:
            at.terminal.say(f"{report.vectors:,} vectors are readable: --drop-vectors removes them")
        return
    at.terminal.say(
        f"{report.rotated:,} rows and items encrypted with the first key in {report.seconds:.1f} s"
    )
    if report.words:
        at.terminal.say(f"the readable words and fields of {report.words:,} were removed")
    if report.vectors:
        at.terminal.say(f"{report.vectors:,} vectors were removed")
    if report.left:
        at.terminal.say(
            f"{report.left:,} are left, {report.damaged:,} of them damaged: give the keys that are "
            "missing too, and run it again when nobody writes with an older key any more",
            style="yellow",
        )


SHOWN = 20
"""Rows that are listed for people."""

REFUSED = (
    "are not encrypted in a tenant that is, and are left as they are, for they may be forged. If "
    "you know that they are genuine, --encrypt-plaintext encrypts them"
)
ADOPTED = "were not encrypted in a tenant that is, and count as genuine under --encrypt-plaintext"

_STATES = {
    "first": "the first: encrypts",
    "given": "given",
    "missing": "not given",
    "plaintext": "",
}

"""Every command that goes over the rows of a tenant exits with the code of damage beside some."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from edited_rows import Edit, Files
from typer.testing import CliRunner

from jobs import JOBS
from memalchemy.cli.app import app
from memalchemy.codec.secret_keys import generate_key

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

EDITS = {
    "checksum": "5",
    "created_at": "'2001-01-01 00:00:00.000000'",
    "payload": "x'0102'",
    "value": "x'0102'",
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_ends_with_the_code_of_damage_beside_an_edited_row(tmp_path: Path, name: str) -> None:
    job = JOBS[name]
    files = Files(tmp_path)
    if job.encrypted:
        files.keys |= {"keys": [generate_key()], "readable": ("vectors",)}
    if job.signed:
        files.keys |= {"signing_keys": [generate_key()]}
    asyncio.run(files.make())
    arguments = [*name.split(), *job.arguments, "--db", files.url]
    if job.encrypted:
        arguments += ["--readable", "text,fields,vectors"]
    if name == "copy":
        arguments += ["--to", f"sqlite:///{tmp_path / 'target.db'}"]
    for kind in ("keys", "signing_keys"):
        if kind in files.keys:
            listed = tmp_path / f"{kind}.txt"
            new = [generate_key()] if name in ("rotate-keys", "sign") else []
            listed.write_text("\n".join([*new, *files.keys[kind]]))
            listed.chmod(0o600)
            arguments += [f"--{kind.replace('_', '-')}-file", str(listed)]

    def run() -> int:
        files.new("target.db")
        return CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code

    async def damage() -> int:
        async with files.opened() as db:
            return await db.run_sync(Edit(job.table, job.column, EDITS[job.column]).make)

    files.restore()
    assert run() == 0, "nothing is damaged"
    files.restore()
    assert asyncio.run(damage()) > 0
    assert run() == 5

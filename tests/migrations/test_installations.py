"""The revisions are found from a checkout, an editable install and a wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from programs import CHECKOUT

REVISIONS = sorted(path.name for path in (CHECKOUT / "migrations" / "versions").glob("0*.py"))

# Runs with *place* first on the path, .pth files in it obeyed, as in a site-packages directory.
PROGRAM = """
import asyncio, json, site, sys
place, file = sys.argv[1:]
known = len(sys.path)
site.addsitedir(place)
sys.path[:] = sys.path[known:] + sys.path[:known]

import memalchemy
from memalchemy import Checkpointer, Database, migrate

async def main():
    async with Database(f"sqlite:///{file}") as db:
        await Checkpointer(db).save({"step": 1}, "thread")
        loaded = await Checkpointer(db).load("thread")
        return {"loaded": loaded, "revision": await db.current(), "head": migrate.head()}

found = asyncio.run(main())
print(json.dumps(found | {"package": memalchemy.__file__, "at": str(migrate.script_location())}))
"""


def build(place: Path, version: str) -> Path:
    """Build a wheel (``standard`` or ``editable``) without a network; the file."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", f"wheel:{version}", "-d"]
    subprocess.run([*command, str(place)], cwd=CHECKOUT, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"), "standard")


def run_from(place: Path, elsewhere: Path) -> dict[str, object]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place), str(elsewhere / "agent.db")],
        cwd=elsewhere,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    assert found["loaded"] == {"step": 1}
    assert found["revision"] == found["head"]
    return found


def test_a_checkout_uses_the_revisions_at_its_top(tmp_path: Path) -> None:
    found = run_from(CHECKOUT / "src", tmp_path)
    assert found["package"] == str(CHECKOUT / "src" / "memalchemy" / "__init__.py")
    assert found["at"] == str(CHECKOUT / "migrations")


def test_an_editable_install_uses_the_revisions_of_its_checkout(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    installed = tmp_path_factory.mktemp("editable")
    zipfile.ZipFile(build(tmp_path, "editable")).extractall(installed)
    found = run_from(installed, tmp_path)
    assert found["package"] == str(CHECKOUT / "src" / "memalchemy" / "__init__.py")
    assert found["at"] == str(CHECKOUT / "migrations")


def test_an_installed_wheel_uses_the_revisions_inside_it(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    installed = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(installed)
    found = run_from(installed, tmp_path)
    assert found["package"] == str(installed / "memalchemy" / "__init__.py")
    assert found["at"] == str(installed / "memalchemy" / "migrations")


def test_the_alembic_command_runs_the_revisions_inside_an_installed_wheel(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """With the ini file that docs/migrations.md shows, in a process that sees no checkout."""
    installed = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(installed)
    page = (CHECKOUT / "docs" / "migrations.md").read_text()
    (tmp_path / "alembic.ini").write_text(page.split("```ini\n")[1].split("```")[0])
    environment = os.environ | {
        "PYTHONPATH": str(installed),
        "MEMALCHEMY_URL": f"sqlite:///{tmp_path}/agent.db",
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "alembic", *arguments],
            cwd=tmp_path,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout

    newest = REVISIONS[-1].split("_")[0]
    assert run("upgrade", "head").endswith(f"the database is at {newest}\n")
    assert run("current") == f"{newest} (head)\n"
    assert str(installed) in run("history", "--verbose")


def test_the_wheel_holds_every_revision_and_the_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"memalchemy/migrations/versions/{name}" for name in REVISIONS} <= names
    assert {"memalchemy/migrations/env.py", "memalchemy/py.typed"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]

"""What type checkers know of the public names: `typed_program` passes them, strictly.

mypy runs here; ``nox -s pyright`` runs pyright over the same program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import memalchemy
from memalchemy import (
    Checkpointer,
    CheckpointInfo,
    Database,
    HTTPCheckpointer,
    RetainedCheckpointer,
    sync,
)
from memalchemy.contracts import CheckpointRecord
from memalchemy.http import blocking

PROGRAM = Path(__file__).with_name("typed_program.py")


def test_a_strict_type_checker_knows_what_methods_take_and_give(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.read_text())
    cache = pytestconfig.rootpath / ".mypy_cache"
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}", "program.py"]
    source = Path(memalchemy.__file__).parents[1]
    # mypy finds what is installed by itself, and refuses to be told.
    path = {} if source.name == "site-packages" else {"MYPYPATH": str(source)}

    checked = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "kind",
    [
        Checkpointer,
        RetainedCheckpointer,
        HTTPCheckpointer,
        sync.Checkpointer,
        sync.RetainedCheckpointer,
        blocking.HTTPCheckpointer,
    ],
    ids=lambda kind: f"{kind.__module__}.{kind.__name__}",
)
def test_a_checkpointer_class_takes_the_type_of_its_states_at_runtime(kind: type) -> None:
    of_dicts = kind[dict]  # type: ignore[index]

    assert of_dicts.__origin__ is kind
    assert of_dicts.__args__ == (dict,)


async def test_a_class_with_a_type_of_states_makes_a_checkpointer() -> None:
    async with Database("sqlite://") as db:
        checkpointer = Checkpointer[dict[str, int]](db)
        await checkpointer.save({"n": 1}, "t")

        assert type(checkpointer) is Checkpointer
        assert await checkpointer.load("t") == {"n": 1}


def test_the_record_of_a_checkpoint_has_the_fields_of_its_info() -> None:
    assert CheckpointRecord.__required_keys__ == CheckpointInfo.__dataclass_fields__.keys()

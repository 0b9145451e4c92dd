"""The stub of `memalchemy.sync` is what its classes are, and type checkers read it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import memalchemy
from memalchemy import sync
from stubs import Stub

STUB = Path(sync.__file__).with_name("__init__.pyi")
FACES = [sync.Database, sync.Checkpointer]

PROGRAM = """
from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, assert_type

from sqlalchemy import CursorResult, create_engine, text
from sqlalchemy.orm import Session

from memalchemy import CheckpointInfo, Conflict
from memalchemy.sync import Checkpointer, Database, LazyIterator, Transaction


def steps(checkpointer: Checkpointer) -> Iterator[int]:
    with closing(checkpointer.history("thread", limit=3)) as infos:
        assert_type(infos, LazyIterator[CheckpointInfo])
        yield from (info.seq for info in infos)


with Database("sqlite:///agent.db", tenant="acme") as db:
    checkpointer = Checkpointer(db.for_tenant("other"), namespace=("agents",))
    assert_type(checkpointer.save({"n": 1}, "thread"), str)
    assert_type(checkpointer.exists("thread"), bool)
    assert_type(checkpointer.db.tenant, str)
    assert_type(db.current(), str | None)
    try:
        checkpointer.save({"n": 2}, "thread", expected_parent=None)
    except Conflict as conflict:
        print(conflict.current)
    with db.transaction() as tx:
        assert_type(tx, Transaction)
        checkpointer.save({"n": 3}, "thread", connection=tx)
        assert_type(tx.execute(text("SELECT 1")), CursorResult[Any])
    with Session(create_engine("sqlite:///agent.db")) as session:
        checkpointer.load("thread", connection=session)
    print(list(steps(checkpointer)))
    checkpointer.save({"n": 4}, thread="thread")  # type: ignore[call-arg]
    checkpointer.load("thread", connection="no connection")  # type: ignore[arg-type]


async def no_coroutine() -> None:
    await checkpointer.save({}, "thread")  # type: ignore[misc]
"""


def test_the_stub_is_what_the_asynchronous_classes_make_of_it() -> None:
    text = Stub().text()
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        STUB.write_text(text)

    assert text == STUB.read_text(), "run: MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py"


def test_a_strict_type_checker_knows_what_the_synchronous_methods_take_and_give(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
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


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_no_signature_and_no_docstring_speaks_of_what_only_asyncio_has(face: type) -> None:
    names = [n for n in dir(face) if not n.startswith("_") or n in ("__init__", "__enter__")]
    said = [face.__doc__ or ""]
    for name in names:
        member = inspect.getattr_static(face, name)
        said.append(inspect.getdoc(member) or "")
        if inspect.isfunction(member):
            said.append(str(inspect.signature(member)))
            assert not inspect.iscoroutinefunction(member)
            assert name == "__init__" or member.__doc__ or name == "__enter__", name
    for text in said:
        assert not re.search(r"\bawait\b|\basync\b|Async(?!Engine)", text), text


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_every_public_member_is_there_with_the_same_arguments(face: type) -> None:
    original = getattr(memalchemy, face.__name__)
    names = [name for name in dir(original) if not name.startswith("_")]

    assert names == [name for name in dir(face) if not name.startswith("_")]
    for name in ["__init__", *names]:
        theirs = inspect.getattr_static(original, name)
        if inspect.isfunction(theirs):
            ours = inspect.signature(getattr(face, name)).parameters.values()
            wanted = inspect.signature(theirs).parameters.values()
            assert [(p.name, p.kind, p.default) for p in ours] == [
                (p.name, p.kind, p.default) for p in wanted
            ]


def test_help_shows_a_method_as_it_is_called() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "from memalchemy import sync; help(sync.Checkpointer.history)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    on_a_line = re.sub(r"\s+", " ", shown).replace("( self", "(self")
    assert "history(self, thread_id: 'str | None', *, limit: 'int | None' = None" in on_a_line
    assert "-> 'LazyIterator[CheckpointInfo]'" in shown
    assert "newest first" in shown

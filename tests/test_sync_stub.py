"""The stubs of the synchronous classes are what these are, and type checkers read them."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import memalchemy
from memalchemy import sync
from memalchemy.http import blocking
from stubs import Stub

FACES = [sync.Database, sync.Checkpointer]


@pytest.mark.parametrize("module", [sync, blocking], ids=["sync", "http.blocking"])
def test_a_stub_is_what_the_asynchronous_classes_make_of_it(module: ModuleType) -> None:
    text = Stub(module).text()
    stub = Path(str(module.__file__)).with_suffix(".pyi")
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        stub.write_text(text)

    assert text == stub.read_text(), "run: MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py"


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

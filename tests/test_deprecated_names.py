"""Deprecated names warn their caller, and do what they did."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

import pytest

import memalchemy
from memalchemy import Checkpointer, sync
from memalchemy._deprecation import deprecated
from memalchemy._lazy_imports import lazy_exports


class Old:
    @deprecated("Use new.")
    def plain(self, number: int = 1) -> int:
        """Say a number."""
        return number

    @deprecated("Use new.")
    async def waited(self, number: int = 1) -> int:
        """Say a number."""
        return number


@pytest.fixture
def checkpointer_with_an_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `Checkpointer.exists` be deprecated, as it might be one day."""
    monkeypatch.setattr(Checkpointer, "exists", deprecated("Use load.")(Checkpointer.exists))


async def test_a_deprecated_method_warns_and_does_what_it_did() -> None:
    with pytest.warns(DeprecationWarning, match=r"^Old\.plain is deprecated\. Use new\.$") as told:
        assert Old().plain(2) == 2
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"^Old\.waited is deprecated\. Use new\.$"):
        assert await Old().waited(number=3) == 3


@pytest.mark.parametrize("name", ["plain", "waited"])
def test_a_deprecated_method_looks_as_it_did_and_says_that_it_is_deprecated(name: str) -> None:
    method = getattr(Old, name)

    assert str(inspect.signature(method)).startswith("(self, number: 'int' = 1)")
    assert (method.__doc__, method.__deprecated__) == ("Say a number.", "Use new.")
    assert inspect.iscoroutinefunction(inspect.unwrap(method)) == (name == "waited")


@pytest.mark.usefixtures("checkpointer_with_an_old_name")
def test_the_warning_names_the_line_of_the_user_however_the_call_gets_there() -> None:
    with sync.Database("sqlite://") as db, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert sync.Checkpointer(db).exists("thread") is False

    assert [(str(one.message), one.filename) for one in told] == [
        ("Checkpointer.exists is deprecated. Use load.", __file__)
    ]


def test_a_renamed_class_is_found_by_its_old_name_with_a_warning_and_is_not_listed() -> None:
    owner = sys.modules["memalchemy"]
    names: dict[str, Any] = {"checkpoints": ["Checkpointer"]}
    get, listed = lazy_exports("memalchemy", names, renamed={"StateKeeper": "Checkpointer"})

    with pytest.warns(DeprecationWarning, match="Use memalchemy.Checkpointer") as told:
        assert get("StateKeeper") is memalchemy.Checkpointer
    assert told[0].filename == __file__
    assert "StateKeeper" not in listed()
    assert not hasattr(owner, "StateKeeper")
    with pytest.raises(AttributeError, match="has no attribute 'Keeper'"):
        get("Keeper")

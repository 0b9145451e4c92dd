"""Methods of adapters that take several ids refuse one string, and do not split it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from subjects import FRAMEWORKS, INSTALLED

import memalchemy.integrations
from id_parameters import parameters, refuses_one, spelt
from memalchemy import Database


def adapters() -> set[type]:
    """Every class that is made with a database, of all integrations that are installed."""
    found: set[type] = set()
    package = memalchemy.integrations
    missing = FRAMEWORKS.keys() - INSTALLED.keys()
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.split(".")[2] in missing:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if not inspect.isclass(value) or value.__name__.startswith("_"):
                continue
            if not value.__module__.startswith(package.__name__) or "._" in value.__module__:
                continue
            if "db" in inspect.signature(value).parameters:
                found.add(value)
    return found


def of_ours(case: tuple[type, str, str]) -> bool:
    """Return ``True`` if a method is defined here, and not by a framework."""
    cls, name, _ = case
    return getattr(cls, name).__module__.startswith("memalchemy.")


CASES = sorted((case for case in parameters(adapters()) if of_ours(case)), key=spelt)


@pytest.mark.parametrize("one", ["ab", b"ab"], ids=["str", "bytes"])
@pytest.mark.parametrize("case", CASES, ids=spelt)
async def test_one_string_is_refused_where_several_ids_are_expected(
    case: tuple[type, str, str], one: Any
) -> None:
    cls, name, parameter = case
    async with Database("sqlite://") as db:
        given: dict[str, Any] = {"db": db}
        needed = {"session_id": "s", "embedding": DeterministicFakeEmbedding(size=3)}
        given |= {name: needed[name] for name in needed.keys() & inspect.signature(cls).parameters}
        instance = given if name == "__init__" else cls(**given)
        await refuses_one(instance, cls, name, parameter, one)


def test_the_methods_that_take_several_are_found() -> None:
    assert {
        "MemalchemySaver.aprune(thread_ids)",
        "MemalchemySaver.prune(thread_ids)",
        "MemalchemySaver.adelete_for_runs(run_ids)",
        "MemalchemySaver.delete_for_runs(run_ids)",
    } <= {spelt(case) for case in CASES}

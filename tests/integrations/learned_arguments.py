"""Calls of every method of a framework's adapters: most arguments are learned from its subjects.

A subject writes and reads as the framework would; what it gives to the adapters' methods is what a
call of any of them gets, by the names of the parameters.
"""

from __future__ import annotations

import inspect
import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any

import pytest

from memalchemy import Database

WORDS = "the stork flies"
USUAL: dict[str, list[Any]] = {
    name: values
    for names, values in {
        ("query", "content", "text", "search_term"): [WORDS, "stork"],
        ("limit", "k", "top_k", "last_k", "n"): [3, 100],
        ("max_files", "max_chars", "max_file_chars"): [3, 100],
        ("vector", "embedding", "query_embedding", "vectors"): [[1.0, 2.0]],
        ("vectors_list",): [[[1.0, 2.0]]],
        ("queries", "texts"): [[WORDS]],
        ("metadata_field", "path", "name"): ["name", "text"],
        ("metadata_fields",): [["name", "text"]],
        ("meta", "metadata"): [{"name": 1}],
        ("search_type",): ["similarity", "mmr"],
        ("namespace_prefix",): [()],
        ("idx", "message_id"): [0],
        ("turn_number",): [1],
        ("prefix",): [""],
    }.items()
    for name in names
}
"""Arguments by the names of parameters, where no subject gives one."""
LEFT_OUT = {
    *("aclose", "close", "export_to", "run", "setup", "translate", "wait"),  # every adapter's
    *("after_run", "before_run", "serve"),  # called by an agent
    *("custom_model_dump", "persist", "with_allowlist"),  # nothing is read
    "subscribe",  # without an end
}
LAST = ("delete", "adelete", "clear", "remove", "reset", "drop", "pop", "prune", "purge")
"""How the names of methods begin that leave nothing for the others."""


def methods_of(cls: type) -> list[str]:
    """Return the names of the public methods of an adapter, those that delete last.

    Of a method that is there with ``await`` and without, that with it.
    """
    names = {
        name
        for name in dir(cls)
        if not name.startswith("_")
        and name not in LEFT_OUT
        and inspect.isfunction(inspect.getattr_static(cls, name))
    }
    twins = {name for name in names if {f"a{name}", f"{name}_async", f"async_{name}"} & names}
    return sorted(names - twins, key=lambda name: (name.startswith(LAST), name))


def required(method: Callable[..., Any]) -> set[str]:
    """Return the names of the parameters that a method does not go without."""
    parameters = inspect.signature(method).parameters.values()
    return {
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }


class LearnedArguments:
    """Arguments for the methods of a framework's adapters, by the names of their parameters.

    Args:
        framework: one of the modules of `subjects`.
        id_: what is stored under it, and what a parameter gets that is called an id or a key.
    """

    def __init__(self, framework: ModuleType, id_: str, rng: random.Random) -> None:
        self._framework, self._id, self._rng = framework, id_, rng
        self._known = USUAL | getattr(framework, "ARGUMENTS", {})
        self._learned: dict[str, list[Any]] = defaultdict(list)

    async def learn(self, db: Database) -> None:
        """Let the subjects write and read, and note what they give to the adapters' methods."""
        subjects = self._framework.SUBJECTS.values()
        with pytest.MonkeyPatch.context() as patched:
            for cls in {*self._framework.ADAPTERS, *(type(one.open(db)) for one in subjects)}:
                for name in methods_of(cls):
                    patched.setattr(cls, name, self._noting(getattr(cls, name)))
            for subject in subjects:
                await subject.write(subject.open(db), self._id, WORDS)
                await subject.read(subject.open(db), self._id)

    def _noting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(method)

        @wraps(method)
        def noted(*positional: Any, **named: Any) -> Any:
            bound = parameters.bind(*positional, **named).arguments
            for name, value in list(bound.items())[1:]:
                self._learned[name].append(value)
            return method(*positional, **named)

        return noted

    def unknown_of(self, method: Callable[..., Any]) -> list[str]:
        """Return the parameters that the method needs, and that no subject and no name tells."""
        return [name for name in required(method) if not self._choices(name)]

    def call_of(self, method: Callable[..., Any]) -> partial[Any]:
        """Return a call of the method, with arguments drawn for it."""
        wanted = required(method)
        given = {
            name: self._rng.choice(choices)
            for name in inspect.signature(method).parameters
            if (choices := self._choices(name)) and (name in wanted or self._rng.random() < 0.4)
        }
        return partial(method, **given)

    def _choices(self, name: str) -> list[Any]:
        if name.endswith(("id", "key")) and name != "message_id":
            return [*self._learned[name], self._id]
        if name.endswith(("ids", "keys")):
            return [*self._learned[name], [self._id]]
        return [*self._learned[name], *self._known.get(name, [])]

"""What a compaction has done, and putting away what it took out."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from memalchemy import _forks
from memalchemy.memory.managers.summaries import Summary

Stage = Literal["none", "cleared", "summarised", "cut"]

Archive = Callable[[str, Any], Any]
"""Keeps an output under an id: ``(id, output) -> None``, or an awaitable of it."""

REMEMBERED = 4096
"""Ids that a compactor remembers to have put away."""


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """What `ContextCompactor.compact` returns.

    ``stage`` is how far it had to go: ``none``; ``cleared``, old outputs; ``summarised``, the
    middle as well; ``cut``, what was over the context even so. Beyond ``threshold`` tokens it does
    something. ``archived`` are the ids of outputs that were cleared, oldest first, if there is an
    archive.
    """

    messages: list[Any]
    stage: Stage
    tokens_before: int
    tokens_after: int
    threshold: int
    summary: str | None = None
    archived: tuple[str, ...] = ()

    @property
    def exhausted(self) -> bool:
        """Whether it takes more than the threshold even so."""
        return self.tokens_after > self.threshold


@dataclass(slots=True)
class Noted:
    """What a plan has done so far."""

    stage: Stage = "none"
    summary: Summary | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    """Those that were cleared, by their ids."""


def id_of(calls: Sequence[str | None], output: Any) -> str:
    """An id for the output of calls, the same for the same."""
    told = repr((calls, output)).encode("utf-8", "backslashreplace")
    return f"out_{hashlib.blake2b(told, digest_size=12).hexdigest()}"


class PuttingAway:
    """Gives outputs to an archive, each once."""

    def __init__(self, archive: Archive | None) -> None:
        if archive is not None and not callable(archive):
            raise TypeError(f"archive is a function, not {type(archive).__name__}")
        self._archive = archive
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = _forks.lock()

    def __bool__(self) -> bool:
        return self._archive is not None

    def run(self, outputs: dict[str, Any]) -> None:
        """From synchronous code.

        Raises:
            RuntimeError: the archive is asynchronous; `async_apply` is for that.
        """
        for id_, output in self._new(outputs):
            answer = self._ask(id_, output)
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise RuntimeError(
                    "archive is asynchronous; use `await manager.async_apply(messages)`"
                )
            self._remember(id_)

    async def async_run(self, outputs: dict[str, Any]) -> None:
        """An archive that is not async runs in a thread."""
        for id_, output in self._new(outputs):
            answer = (
                self._ask(id_, output)
                if inspect.iscoroutinefunction(self._archive)
                else await asyncio.to_thread(self._ask, id_, output)
            )
            if inspect.isawaitable(answer):
                await answer
            self._remember(id_)

    def _ask(self, id_: str, output: Any) -> Any:
        assert self._archive is not None
        return self._archive(id_, output)

    def _new(self, outputs: dict[str, Any]) -> list[tuple[str, Any]]:
        with self._lock:
            return [(id_, output) for id_, output in outputs.items() if id_ not in self._known]

    def _remember(self, id_: str) -> None:
        with self._lock:
            self._known[id_] = None
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

"""Replacing the first part of a conversation by its summary, and not asking for one twice.

An application may hand a manager the whole conversation each turn, or what the manager returned
the last time and what was said since. Both work: a summary among the messages is folded into the
next one, and of a whole conversation the last summaries are remembered.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from memalchemy import _forks
from memalchemy.events import Event, operation, publish
from memalchemy.memory.managers.base import ConversationManager
from memalchemy.memory.managers.summaries import Summariser, Summarize, Summary

REMEMBERED = 256
"""Summaries that a manager remembers, of all conversations that it serves."""


@dataclass(frozen=True, slots=True)
class Request:
    """Messages to summarise, and what is known of those before them."""

    messages: list[Any]
    earlier: Summary | None
    before: int
    about: dict[str, object]


Plan = Generator[Request, Summary, list[Any]]
"""Yields a request at most once, is sent the summary, and returns the messages."""


class FoldingManager(ConversationManager):
    """What the managers that summarise share: asking, events, and remembering."""

    strategy: str

    def __init__(self, summarize_fn: Summarize | None, timeout: float | None) -> None:
        self.summarize_fn = summarize_fn
        self.timeout = timeout
        self._summariser = Summariser(summarize_fn, timeout)
        self._remembered: OrderedDict[bytes, Summary] = OrderedDict()
        self._lock = _forks.lock()

    @abstractmethod
    def plan(self, messages: list[Any]) -> Plan:
        """How *messages* become fewer."""

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """The messages that go to the model, the first ones summarised if need be.

        An async summariser runs in an event loop of its own.

        Raises:
            RuntimeError: the summariser is async and this is a running event loop; `async_apply`
                is for that.
        """
        return self._run(self.plan(list(messages)))

    async def async_apply(self, messages: Sequence[Any]) -> list[Any]:
        """`apply`, which awaits the summariser; one that is not async runs in a thread."""
        return await self._async_run(self.plan(list(messages)))

    def _run(self, plan: Plan) -> list[Any]:
        try:
            request = next(plan)
        except StopIteration as done:
            return self._returned(done)
        with self._compacting(request) as event:
            summary = self._summariser.run(request.messages, request.earlier)
            return self._finish(plan, request, summary, event)

    async def _async_run(self, plan: Plan) -> list[Any]:
        try:
            request = next(plan)
        except StopIteration as done:
            return self._returned(done)
        with self._compacting(request) as event:
            summary = await self._summariser.async_run(request.messages, request.earlier)
            return self._finish(plan, request, summary, event)

    @contextmanager
    def _compacting(self, request: Request) -> Iterator[Event]:
        about = {"strategy": self.strategy, "messages_before": request.before}
        publish(Event("memory.compactor.triggered", details=about | request.about))
        with operation("memory.compactor.completed", details=about) as event:
            yield event

    def _finish(self, plan: Plan, request: Request, summary: Summary, event: Event) -> list[Any]:
        try:
            plan.send(summary)
        except StopIteration as done:
            result = self._returned(done)
        else:
            raise AssertionError("a plan asks once")
        event.details |= {
            "messages_after": len(result),
            "summarized_count": len(request.messages),
            "fallback": summary.failure,
        }
        return result

    @staticmethod
    def _returned(done: StopIteration) -> list[Any]:
        messages: list[Any] = done.value
        return messages

    def fold(
        self,
        talk: Sequence[Any],
        cuts: Sequence[int],
        earlier: Summary | None,
        enough: Callable[[int, Summary], bool],
        request: Callable[[int, int, Summary | None], Request],
        worth: Callable[[int, int, Summary], bool] = lambda *_: True,
    ) -> Generator[Request, Summary, tuple[int, Summary]]:
        """Summarise ``talk[:cuts[-1]]``: how many messages the summary stands for, and itself.

        *cuts* are the places where it may be cut, ascending. A remembered summary of a first part
        is used while it is *enough*; if it is not, the new one is made from it and from what came
        since, ``talk[start:stop]`` of *request*. A digest that was written because the summariser
        failed is used so, too, but nothing is made from it: the next summary starts from the
        messages again. Where it is not *worth* a new one to summarise so many steps more than the
        first so many messages, which have a summary, that one stays.
        """
        marks = _marks(talk[: cuts[-1]], earlier)
        known = [(cut, found) for cut in cuts if (found := self._recall(marks[cut - 1]))]
        if known and enough(*known[-1]):
            return known[-1]
        sound = [(cut, found) for cut, found in known if found.failure is None]
        start, base = sound[-1] if sound else (0, earlier)
        if sound:
            more = sum(cut > start for cut in cuts)
            if not more or not worth(more, *sound[-1]):
                return sound[-1]
        summary = yield request(start, cuts[-1], base)
        self._remember(marks[cuts[-1] - 1], summary)
        return cuts[-1], summary

    def _recall(self, mark: bytes) -> Summary | None:
        with self._lock:
            if mark in self._remembered:
                self._remembered.move_to_end(mark)
            return self._remembered.get(mark)

    def _remember(self, mark: bytes, summary: Summary) -> None:
        with self._lock:
            self._remembered[mark] = summary
            while len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)


def _marks(talk: Sequence[Any], earlier: Summary | None) -> list[bytes]:
    """For each message, a digest of it and of all before it."""
    running = hashlib.blake2b(repr(earlier).encode("utf-8", "backslashreplace"), digest_size=20)
    marks = []
    for message in talk:
        running.update(repr(_content(message)).encode("utf-8", "backslashreplace") + b"\0")
        marks.append(running.digest())
    return marks


def _content(message: Any) -> Any:
    # An object's own repr may be its address; its fields are what it says.
    fields = None if isinstance(message, Mapping) else getattr(message, "__dict__", None)
    if fields is None:
        return message
    return fields, getattr(message, "__pydantic_extra__", None)

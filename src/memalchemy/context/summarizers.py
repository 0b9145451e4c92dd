"""Managers that replace the first part of a conversation by a summary.

An application may pass the whole conversation each turn, or the messages that the manager returned
last time and the new ones. Both work: a summary among the messages becomes part of the next one,
and the last summaries of whole conversations are remembered, so that no part is summarised twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from memalchemy._cache import BoundedCache
from memalchemy._in_flight import InFlight
from memalchemy.context._message_groups import (
    cumulative_sizes,
    message_groups,
    questions_before,
)
from memalchemy.context._summarize_fn import SummarizeFn, Summarizer
from memalchemy.context._user_functions import in_event_loop, run_coroutine
from memalchemy.context.manager import ConversationManager, check_count
from memalchemy.context.summary import Summary, join_summaries
from memalchemy.context.windows import pinned_systems
from memalchemy.events import Event, operation, publish

REMEMBERED_SUMMARIES = 256
"""Summaries that a manager remembers, of all conversations that it serves."""

Stage = Literal["none", "cleared", "summarised", "cut"]


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """Messages to summarise, and what is known of the messages before them.

    Attributes:
        messages_before: how many messages the manager was given, for the events.
        threshold: the limit that they exceed, for the events.
        key: the same for all requests of a manager for this summary; empty if that is not known.
    """

    messages: list[Any]
    earlier: Summary | None
    messages_before: int
    threshold: int
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class SummarizedPrefix:
    """Messages that stand for the first *count* messages of a conversation.

    Attributes:
        summary: the summary of those that are gone.
        messages: those that stay and the message that tells the summary, in order.
        count: how many messages at the start of the conversation they replace.
    """

    summary: Summary
    messages: list[Any]
    count: int


@dataclass(frozen=True, slots=True)
class ManagedMessages:
    """Result of a summarising manager.

    Attributes:
        messages: the messages that go to the model.
        prefix: the part of them that a summary stands for, if one was needed.
        stage: how far a compaction went.
        outputs: tool outputs that were cleared, by their ids, oldest first.
    """

    messages: list[Any]
    prefix: SummarizedPrefix | None = None
    stage: Stage = "none"
    outputs: dict[str, Any] = field(default_factory=dict)


Plan = Generator[SummaryRequest, Summary, ManagedMessages]
"""Decision of a manager: yields a request if it needs a summary, and returns the result."""


@dataclass(frozen=True, slots=True)
class PreparedSummary:
    """Messages, and the decision of a manager on them.

    Attributes:
        step: the result, or a request for the summary that it needs.
    """

    messages: list[Any]
    plan: Plan
    step: SummaryRequest | ManagedMessages

    @property
    def is_needed(self) -> bool:
        """``True`` if a summary has to be written."""
        return isinstance(self.step, SummaryRequest)


class SummarizerBase(ConversationManager):
    """Base class of the managers that summarise. A subclass implements `plan`."""

    strategy: str
    """The name of the manager in events."""

    def __init__(self, summarize_fn: SummarizeFn | None, timeout: float | None) -> None:
        self.summarize_fn = summarize_fn
        self.timeout = timeout
        self._summarizer = Summarizer(summarize_fn, timeout)
        self._summaries: BoundedCache[bytes, Summary] = BoundedCache(REMEMBERED_SUMMARIES)
        self._in_flight = InFlight()

    @abstractmethod
    def plan(self, messages: list[Any]) -> Plan:
        """Decide which messages stay; yield a request for a summary if one is needed."""

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages that go to the model, the first ones summarised if need be.

        An async function of the application runs in an event loop of its own.

        Raises:
            RuntimeError: the function is async and this thread runs an event loop: use
                `async_apply`.
        """
        prepared = self.prepare(messages)
        if isinstance(prepared.step, ManagedMessages) and not prepared.step.outputs:
            return prepared.step.messages
        return run_coroutine(self.complete(prepared, may_await=not in_event_loop())).messages

    async def async_apply(self, messages: Sequence[Any]) -> list[Any]:
        """`apply` that awaits the application's functions; plain ones run in a thread."""
        return (await self.summarize(messages)).messages

    async def summarize(self, messages: Sequence[Any]) -> ManagedMessages:
        """`async_apply` that also tells which messages the summary stands for."""
        return await self.complete(self.prepare(messages))

    def prepare(self, messages: Sequence[Any]) -> PreparedSummary:
        """Decide on *messages*, for `complete`; the summary is not written yet."""
        given = list(messages)
        plan = self.plan(given)
        return PreparedSummary(given, plan, _advance_plan(plan))

    async def complete(
        self, prepared: PreparedSummary, *, may_await: bool = True
    ) -> ManagedMessages:
        """Return the messages that go to the model, with a new summary if one is needed.

        Of several calls at once that need the same summary one writes it, and the others wait.

        Args:
            may_await: ``False`` for synchronous code in a running event loop.
        """
        is_alone = not may_await  # others may need the loop that is blocked
        while True:
            step = prepared.step
            if is_alone or not isinstance(step, SummaryRequest) or not step.key:
                return await self._finish_plan(prepared.plan, step, may_await=may_await)
            with self._in_flight.claim(step.key) as running:
                if running is None:
                    if self._summaries.get(step.key) is not None:  # written since the decision
                        prepared = self.prepare(prepared.messages)
                    return await self._finish_plan(
                        prepared.plan, prepared.step, may_await=may_await
                    )
            is_alone = await asyncio.wrap_future(running)
            prepared = self.prepare(prepared.messages)

    async def _finish_plan(
        self, plan: Plan, step: SummaryRequest | ManagedMessages, *, may_await: bool
    ) -> ManagedMessages:
        if isinstance(step, ManagedMessages):
            return step
        with self._compaction_events(step) as event:
            summary = await self._summarizer.summarize(
                step.messages, step.earlier, may_await=may_await
            )
            result = _advance_plan(plan, summary)
            assert isinstance(result, ManagedMessages), "a plan yields at most one request"
            event.details |= {
                "messages_after": len(result.messages),
                "summarized_count": len(step.messages),
                "fallback": summary.failure,
            }
        return result

    @contextmanager
    def _compaction_events(self, request: SummaryRequest) -> Iterator[Event]:
        details = {"strategy": self.strategy, "messages_before": request.messages_before}
        triggered = {**details, "threshold": request.threshold}
        publish(Event("memory.compactor.triggered", details=triggered))
        with operation("memory.compactor.completed", details=details) as event:
            yield event

    def _find_or_request_summary(
        self,
        dialogue: Sequence[Any],
        cuts: Sequence[int],
        earlier: Summary | None,
        *,
        suffices: Callable[[int, Summary], bool],
        request: Callable[[int, int, Summary | None], SummaryRequest],
        is_worthwhile: Callable[[int, int, Summary], bool] = lambda *_: True,
    ) -> Generator[SummaryRequest, Summary, tuple[int, Summary]]:
        """Find or request a summary of the first messages of *dialogue*.

        A remembered summary that suffices is used. Otherwise a new one is requested, made from the
        remembered one and the messages since. A digest that stands in for a failed summary may be
        used, too, but no summary is made from it: the next one starts from the messages again.

        Args:
            cuts: the numbers of messages after which the dialogue may be cut, ascending.
            earlier: the summary of what came before the dialogue.
            suffices: tells whether a summary of so many messages is enough.
            request: creates the request for ``dialogue[start:stop]``.
            is_worthwhile: tells whether to request a new summary that takes in so many more groups
                than the remembered one.

        Returns:
            The number of messages that the summary replaces, and the summary.
        """
        digests = _running_digests(dialogue[: cuts[-1]], earlier)
        known = [(cut, found) for cut in cuts if (found := self._summaries.get(digests[cut - 1]))]
        if known and suffices(*known[-1]):
            return known[-1]
        sound = [(cut, found) for cut, found in known if found.failure is None]
        start, base = sound[-1] if sound else (0, earlier)
        if sound:
            more_groups = sum(cut > start for cut in cuts)
            if not more_groups or not is_worthwhile(more_groups, *sound[-1]):
                return sound[-1]
        key = digests[cuts[-1] - 1]
        summary = yield replace(request(start, cuts[-1], base), key=key)
        self._summaries.put(key, summary)
        return cuts[-1], summary


class SummarizingManager(SummarizerBase):
    """Keeps the newest messages and a summary of the others, once there are more than *threshold*.

    The summary is one system message before the newest messages: ``[Summary of previous
    conversation (21 messages)]:`` and the text. The next summary is made from it and from what was
    said since. All system messages stay, and are not counted. If the newest messages begin within
    the answer to a user's message, that message stays between the summary and them.

    Args:
        threshold: number of messages up to which nothing happens.
        keep_recent: minimum number of messages that stay; more if a tool call and its results would
            be parted.
        summarize_fn: ``(messages) -> str``, or ``(messages, previous_summary) -> str`` to get the
            earlier summary separately instead of as the first message; plain or async. Or an agent
            that has ``run(text)``, or ``(prompt: str) -> str``, as LazyBridge's; they get a
            transcript, which begins with the earlier summary. The answer may be an
            object with a ``text``, a ``text()`` or a ``content``. Without a function the summary is
            a digest: the first words of the first and of the newest messages.
        preserve_system: keep system messages; otherwise they are messages like others.
        timeout: seconds that *summarize_fn* may take; ``None`` for no limit.

    If *summarize_fn* raises, is late or returns nothing, the digest takes its place. The digest
    says so in its first line, in ``metadata["summary"]["fallback"]`` where messages have metadata,
    in the event ``memory.compactor.completed`` and in the log. The next summary is then made from
    the messages themselves, if they are still there.
    """

    strategy = "summarizing"

    def __init__(
        self,
        threshold: int = 30,
        keep_recent: int = 10,
        summarize_fn: SummarizeFn | None = None,
        preserve_system: bool = True,
        *,
        timeout: float | None = 30.0,
    ) -> None:
        super().__init__(summarize_fn, timeout)
        self.threshold: int = check_count("threshold", threshold)
        self.keep_recent: int = check_count("keep_recent", keep_recent)
        self.preserve_system = preserve_system
        if keep_recent >= threshold:
            raise ValueError("keep_recent must be less than threshold")

    def __repr__(self) -> str:
        return f"SummarizingManager(threshold={self.threshold}, keep_recent={self.keep_recent})"

    def plan(self, messages: list[Any]) -> Plan:
        """Keep all messages, or summarise all groups but the newest *keep_recent* messages."""
        summaries, systems = split_systems(messages, self.preserve_system)
        groups = message_groups(messages, systems | summaries.keys())
        said = Dialogue(messages, groups)
        size = len(said.places)
        cuts = said.cuts(cut for cut in cumulative_sizes(groups) if size - cut >= self.keep_recent)
        if size <= self.threshold or not cuts:
            kept = sorted({*said.places, *systems, *summaries})
            return ManagedMessages([messages[at] for at in kept])

        count, summary = yield from self._find_or_request_summary(
            [messages[at] for at in said.places],
            cuts,
            join_summaries(list(summaries.values())),
            suffices=lambda cut, _: len(said.kept(cut)) <= self.threshold,
            request=lambda start, stop, earlier: SummaryRequest(
                [messages[at] for at in said.summarized(start, stop)],
                earlier,
                len(messages),
                self.threshold,
            ),
        )
        return replace_by_summary(messages, summary, said, count, systems)


def split_systems(
    messages: Sequence[Any], preserve: bool
) -> tuple[dict[int, Summary], frozenset[int]]:
    """Return the summaries among the messages, and the indices of other pinned system messages."""
    found = ((at, Summary.from_message(message)) for at, message in enumerate(messages))
    summaries = {at: summary for at, summary in found if summary is not None}
    return summaries, pinned_systems(messages, preserve) - summaries.keys()


class Dialogue:
    """Messages of which a summary may stand for the first ones.

    The user's message that the newest messages answer is not summarised while they stay.

    Args:
        groups: all groups of the dialogue.
        head: how many groups at the start stay whatever is summarised.
    """

    def __init__(
        self, messages: Sequence[Any], groups: Sequence[Sequence[int]], head: int = 0
    ) -> None:
        self.head: list[int] = [at for group in groups[:head] for at in group]
        """Indices of the messages at the start that stay."""
        self.places: list[int] = [at for group in groups[head:] for at in group]
        """Indices of the messages that may be summarised, oldest first."""
        starts = [0, *cumulative_sizes(groups[head:])]
        questions = questions_before(messages, groups)[head:]
        self._questions: dict[int, int | None] = dict(zip(starts, questions, strict=False))

    def question(self, cut: int) -> int | None:
        """Return the index of the message that those beyond *cut* answer, if it is before them."""
        question = self._questions.get(cut)
        return None if question in self.head else question

    def summarized(self, start: int, stop: int) -> list[int]:
        """Return the indices that a summary up to *stop* adds to one up to *start*."""
        earlier, question = self.question(start), self.question(stop)
        places = [] if not start or earlier is None else [earlier]
        return [at for at in (*places, *self.places[start:stop]) if at != question]

    def kept(self, cut: int) -> list[int]:
        """Return the indices of what stays beside a summary of the first *cut* messages."""
        question = self.question(cut)
        asked = [] if question is None else [question]
        return [*self.head, *asked, *self.places[cut:]]

    def cuts(self, wanted: Iterable[int]) -> list[int]:
        """Return those of the *wanted* cuts at which there is something to summarise."""
        return [cut for cut in wanted if self.summarized(0, cut)]


def replace_by_summary(
    messages: list[Any], summary: Summary, said: Dialogue, cut: int, systems: frozenset[int]
) -> ManagedMessages:
    """Put one summary in the place of the first *cut* messages of a dialogue.

    It stands where the last of them was, or before the user's message that the others answer.
    """
    last, question = said.places[cut - 1], said.question(cut)
    stays = sorted({*said.kept(cut), *systems})
    told = summary.to_message([messages[at] for at in said.summarized(0, cut)])
    place = last if question is None else question
    prefix = [
        *(messages[at] for at in stays if at < place),
        told,
        *(messages[at] for at in stays if place <= at <= last),
    ]
    after = [messages[at] for at in stays if at > last]
    return ManagedMessages([*prefix, *after], SummarizedPrefix(summary, prefix, last + 1))


def _advance_plan(plan: Plan, summary: Summary | None = None) -> SummaryRequest | ManagedMessages:
    """Run a plan to its request or to its result."""
    try:
        return next(plan) if summary is None else plan.send(summary)
    except StopIteration as done:
        result: ManagedMessages = done.value
        return result


def _running_digests(dialogue: Sequence[Any], earlier: Summary | None) -> list[bytes]:
    """Return, for each message, a digest of it and of everything before it."""
    running = hashlib.blake2b(repr(earlier).encode("utf-8", "backslashreplace"), digest_size=20)
    digests = []
    for message in dialogue:
        text = repr(_fields_of_message(message))
        running.update(text.encode("utf-8", "backslashreplace") + b"\0")
        digests.append(running.digest())
    return digests


def _fields_of_message(message: Any) -> Any:
    # The repr of an object may be its address; its fields are what it says.
    fields = None if isinstance(message, Mapping) else getattr(message, "__dict__", None)
    return message if fields is None else (fields, getattr(message, "model_extra", None))

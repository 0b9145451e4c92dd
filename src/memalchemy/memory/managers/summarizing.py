"""The summarising manager: the first messages become a summary when there are too many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memalchemy.memory.managers.folding import FoldingManager, Plan, Request
from memalchemy.memory.managers.steps import steps_of
from memalchemy.memory.managers.summaries import Summarize, Summary, joined
from memalchemy.memory.managers.windows import pinned_systems, whole


class SummarizingManager(FoldingManager):
    """Keeps the newest messages and a summary of the rest, once there are more than *threshold*.

    The summary is one system message before the newest messages, ``[Summary of previous
    conversation (21 messages)]:`` and the text. An earlier summary is folded into it. System
    messages all stay, and are not counted.

    Args:
        threshold: the messages up to which nothing happens.
        keep_recent: how many messages stay at least; more, where a step would be cut apart.
        summarize_fn: ``(messages) -> str``, or ``(messages, previous_summary) -> str`` to get the
            earlier summary by itself and not as the first of the messages. It may be async. Or an
            agent, which has ``run(text)``, as LazyBridge's; it is given a transcript. The answer
            may be an object with a ``text``, a ``text()`` or a ``content``. Without one the summary
            is a digest: the first words of the first and the newest messages.
        preserve_system: system messages stay; they are messages like others if not.
        timeout: seconds that *summarize_fn* has; ``None`` for any time.

    If *summarize_fn* raises, is late, or returns nothing, the digest takes its place and says so:
    in its first line, in ``metadata["summary"]["fallback"]`` where messages have metadata, in the
    event ``memory.compactor.completed`` and in the log. The next summary is then made from the
    messages themselves, if they are still there.
    """

    strategy = "summarizing"

    def __init__(
        self,
        threshold: int = 30,
        keep_recent: int = 10,
        summarize_fn: Summarize | None = None,
        preserve_system: bool = True,
        *,
        timeout: float | None = 30.0,
    ) -> None:
        super().__init__(summarize_fn, timeout)
        self.threshold = whole("threshold", threshold)
        self.keep_recent = whole("keep_recent", keep_recent)
        self.preserve_system = preserve_system
        if keep_recent >= threshold:
            raise ValueError("keep_recent must be less than threshold")

    def __repr__(self) -> str:
        return f"SummarizingManager(threshold={self.threshold}, keep_recent={self.keep_recent})"

    def plan(self, messages: list[Any]) -> Plan:
        """Keep all, or summarise up to the last step that leaves *keep_recent* messages."""
        told, systems = split_systems(messages, self.preserve_system)
        steps = steps_of(messages, systems | told.keys())
        talk = [at for step in steps for at in step]
        cuts = [cut for cut in ends(steps) if len(talk) - cut >= self.keep_recent]
        if len(talk) <= self.threshold or not cuts:
            return [messages[at] for at in sorted({*talk, *systems, *told})]

        said = [messages[at] for at in talk]

        def request(start: int, stop: int, earlier: Summary | None) -> Request:
            about: dict[str, object] = {"threshold": self.threshold}
            return Request(said[start:stop], earlier, len(messages), about)

        count, summary = yield from self.fold(
            said,
            cuts,
            joined(list(told.values())),
            lambda cut, _: len(talk) - cut <= self.threshold,
            request,
        )
        return with_summary(messages, summary, talk[:count], talk[count:], systems)


def split_systems(
    messages: Sequence[Any], preserve: bool
) -> tuple[dict[int, Summary], frozenset[int]]:
    """The summaries among the messages, and the other system messages that are to stay."""
    found = ((at, Summary.read(message)) for at, message in enumerate(messages))
    told = {at: summary for at, summary in found if summary is not None}
    return told, pinned_systems(messages, preserve) - told.keys()


def ends(steps: Sequence[Sequence[int]]) -> list[int]:
    """How many messages the first step has, the first two have, and so on."""
    total, found = 0, []
    for step in steps:
        total += len(step)
        found.append(total)
    return found


def with_summary(
    messages: list[Any],
    summary: Summary,
    gone: Sequence[int],
    stays: Sequence[int],
    systems: frozenset[int],
) -> list[Any]:
    """The messages with one summary in place of *gone*: before what stays and came after it."""
    place = gone[-1]
    kept = sorted({*stays, *systems})
    before = [messages[at] for at in kept if at < place]
    after = [messages[at] for at in kept if at > place]
    return [*before, summary.message([messages[at] for at in gone]), *after]

"""`ContextCompactor`: keep a long conversation within the context of a model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memalchemy._cache import BoundedCache
from memalchemy.context._message_groups import cumulative_sizes, message_groups
from memalchemy.context._summarize_fn import SummarizeFn
from memalchemy.context._user_functions import call_function
from memalchemy.context.manager import check_count, publish_pruned
from memalchemy.context.summarizers import (
    Dialogue,
    ManagedMessages,
    Plan,
    Stage,
    SummarizerBase,
    SummaryRequest,
    replace_by_summary,
    split_systems,
)
from memalchemy.context.summary import Summary, join_summaries
from memalchemy.context.tokens import TokenCounter, estimate_tokens
from memalchemy.context.windows import TokenBudgetManager
from memalchemy.messages import (
    content_field,
    is_user_turn,
    read,
    results_of,
    shorten_text,
    text_of,
    with_results,
)

CLEARED = "[tool output cleared: "

REMEMBERED_OUTPUTS = 4096
"""Ids of archived outputs that a compactor remembers."""

Archive = Callable[[str, Any], Any]
"""Function that stores an output under an id: ``(id, output) -> None``, or an awaitable of it."""


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """Result of `ContextCompactor.compact`.

    Attributes:
        messages: the messages that go to the model.
        stage: how far the compaction went: ``none``; ``cleared``: old outputs were cleared;
            ``summarised``: the middle was summarised as well; ``cut``: what still exceeded the
            context was cut.
        threshold: the number of tokens beyond which the compactor does something.
        summary: the text of the summary, if there is one.
        archived: the ids of the outputs that were cleared, oldest first, if there is an archive.
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
        """``True`` if the messages still take more tokens than the threshold."""
        return self.tokens_after > self.threshold


class ContextCompactor(SummarizerBase):
    """Clears old tool outputs and then summarises the middle, when the context is nearly full.

    Beyond ``trigger_fraction * context_length`` tokens, the outputs of old tool calls are replaced
    by a line that says how long they were; the calls stay. If that is not enough, the groups
    between the first and the newest ones become a summary, as of `SummarizingManager`; the user's
    message that the newest ones answer stays with them. The result never takes more than
    *context_length* tokens: if need be it is cut as by `TokenBudgetManager`.

    A *group* is a message, or an assistant's tool calls with their results.

    Args:
        context_length: tokens that the model accepts.
        summarize_fn, timeout: as of `SummarizingManager`, with the same digest if it fails.
        trigger_fraction: fraction of *context_length* up to which nothing happens.
        head_turns: groups at the start that stay if there is room: they state the task. If they end
            within the answer to a user's message, the rest of that answer stays as well, or is the
            first that the summary tells.
        tail_token_fraction: fraction of *context_length* that the newest groups, which stay, may
            take.
        tool_output_ttl_turns: outputs in the newest so many groups stay; 0 for no limit.
        tool_output_keep_tokens: the newest outputs of so many tokens stay; ``None`` for no limit.
        token_counter: function that gives the tokens of one message; `estimate_tokens` by default.
        preserve_system: keep system messages; otherwise they are messages like others.
        min_iterations_between_summaries: minimum number of groups that a further summary takes in;
            until then only outputs are cleared, unless the context is full.
        archive: function of an id and an output, such as `memalchemy.ToolOutputs.keep`, plain or
            async. It gets each output that is cleared, once; the note in its place names the id.
            Without an archive, what is cleared remains only where the messages came from.
    """

    strategy = "context_compactor"

    def __init__(
        self,
        context_length: int = 128_000,
        *,
        summarize_fn: SummarizeFn | None = None,
        trigger_fraction: float = 0.8,
        head_turns: int = 2,
        tail_token_fraction: float = 0.5,
        tool_output_ttl_turns: int = 10,
        tool_output_keep_tokens: int | None = None,
        token_counter: TokenCounter | None = None,
        timeout: float | None = 30.0,
        preserve_system: bool = True,
        min_iterations_between_summaries: int = 1,
        archive: Archive | None = None,
    ) -> None:
        super().__init__(summarize_fn, timeout)
        if not 0.0 < trigger_fraction <= 1.0:
            raise ValueError("trigger_fraction must be above 0 and at most 1")
        if not 0.0 < tail_token_fraction < 1.0:
            raise ValueError("tail_token_fraction must be between 0 and 1")
        self.context_length: int = check_count("context_length", context_length)
        self.trigger_fraction = trigger_fraction
        self.head_turns: int = check_count("head_turns", head_turns, 0)
        self.tail_token_fraction = tail_token_fraction
        self.tool_output_ttl_turns: int = check_count(
            "tool_output_ttl_turns", tool_output_ttl_turns, 0
        )
        if tool_output_keep_tokens is not None:
            check_count("tool_output_keep_tokens", tool_output_keep_tokens, 0)
        self.tool_output_keep_tokens = tool_output_keep_tokens
        self.token_counter: TokenCounter = token_counter or estimate_tokens
        self.preserve_system = preserve_system
        self.min_iterations_between_summaries: int = check_count(
            "min_iterations_between_summaries", min_iterations_between_summaries
        )
        self._archiver = OutputArchiver(archive)

    def __repr__(self) -> str:
        return f"ContextCompactor(context_length={self.context_length})"

    @property
    def threshold(self) -> int:
        """Number of tokens beyond which the compactor does something."""
        return int(self.context_length * self.trigger_fraction)

    async def compact(self, messages: Sequence[Any]) -> CompactionOutcome:
        """`async_apply` that tells what was done."""
        given = list(messages)
        result = await self.summarize(given)
        return CompactionOutcome(
            result.messages,
            result.stage,
            self._count_tokens(given),
            self._count_tokens(result.messages),
            self.threshold,
            None if result.prefix is None else result.prefix.summary.text,
            tuple(result.outputs),
        )

    def plan(self, messages: list[Any]) -> Plan:
        """Keep all messages; or clear old outputs; or summarise the middle as well."""
        summaries, systems = split_systems(messages, self.preserve_system)
        groups = message_groups(messages, systems | summaries.keys())
        kept = sorted({*systems, *summaries}.union(*groups))
        threshold = self.threshold
        if self._count_tokens(messages[at] for at in kept) <= threshold:
            return ManagedMessages([messages[at] for at in kept])

        # Messages with old outputs cleared; indices are those of the messages given.
        lean, outputs = self._clear_old_outputs(messages, groups)
        cleared = [lean[at] for at in kept]
        publish_pruned("tool_outputs", [messages[at] for at in kept], cleared)
        is_cleared = any(lean[at] is not messages[at] for at in kept)
        stage: Stage = "cleared" if is_cleared else "none"

        room = threshold - self._count_tokens(lean[at] for at in systems)
        head_groups = self._count_head_groups(lean, groups, room)
        said = Dialogue(lean, groups, head_groups)
        cuts = said.cuts(self._possible_cuts(lean, groups[head_groups:], said))
        is_early = bool(summaries) and len(cuts) < self.min_iterations_between_summaries
        limit = self.context_length if is_early else threshold
        if self._count_tokens(cleared) <= limit or not cuts:
            return self._cut_to_context(ManagedMessages(cleared, None, stage, outputs))

        def assemble(cut: int, summary: Summary) -> ManagedMessages:
            spent = self._count_tokens(lean[at] for at in {*said.kept(cut), *systems})
            short = self._shorten_summary(
                summary, [lean[at] for at in said.places], threshold - spent
            )
            return replace_by_summary(lean, short, said, cut, systems)

        def tokens_with(count: int, summary: Summary) -> int:
            return self._count_tokens(assemble(count, summary).messages)

        count, summary = yield from self._find_or_request_summary(
            [messages[at] for at in said.places],
            cuts,
            join_summaries(list(summaries.values())),
            suffices=lambda cut, known: tokens_with(cut, known) <= threshold,
            # The model that summarises has a context, too: it gets the messages without outputs.
            request=lambda start, stop, earlier: SummaryRequest(
                [lean[at] for at in said.summarized(start, stop)],
                earlier,
                len(messages),
                threshold,
            ),
            is_worthwhile=lambda more, cut, known: (
                more >= self.min_iterations_between_summaries
                or tokens_with(cut, known) > self.context_length
            ),
        )
        summarised = assemble(count, summary)
        return self._cut_to_context(replace(summarised, stage="summarised", outputs=outputs))

    async def _finish_plan(
        self, plan: Plan, step: SummaryRequest | ManagedMessages, *, may_await: bool
    ) -> ManagedMessages:
        result = await super()._finish_plan(plan, step, may_await=may_await)
        await self._archiver.store(result.outputs, may_await=may_await)
        return result

    def _count_tokens(self, messages: Iterable[Any]) -> int:
        return sum(map(self.token_counter, messages))

    def _clear_old_outputs(
        self, messages: list[Any], groups: list[list[int]]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the messages without old outputs, and the outputs for the archive by their ids."""
        lean = list(messages)
        outputs: dict[str, Any] = {}
        keep = self.tool_output_keep_tokens
        spent = 0
        for age, group in enumerate(reversed(groups)):
            for at in reversed(group):
                if not results_of(messages[at]):
                    continue
                spent += self.token_counter(messages[at])
                is_late = 0 < self.tool_output_ttl_turns <= age
                # The outputs of the newest group stay: the model is about to read them.
                if is_late or (keep is not None and spent > keep and age > 0):
                    lean[at] = self._clear_output(messages[at], outputs)
        return lean, dict(reversed(outputs.items()))

    def _clear_output(self, message: Any, outputs: dict[str, Any]) -> Any:
        """Return the message with a note in place of its output, unless the note is longer."""
        text = text_of(message)
        if text.startswith(CLEARED):
            return message
        content = read(message, content_field(message))
        id_ = output_id(results_of(message), content)
        recall = f"; recall {id_}" if self._archiver else ""
        note = f"{CLEARED}{len(text):,} characters{recall}]"
        short = with_results(message, note)
        if short is None or self.token_counter(short) >= self.token_counter(message):
            return message
        if self._archiver:
            outputs[id_] = content
        return short

    def _count_head_groups(self, lean: list[Any], groups: list[list[int]], room: int) -> int:
        """Return how many groups at the start stay; they leave room for the newest."""
        room -= int(self.context_length * self.tail_token_fraction)
        head = 0
        for group in groups[: self.head_turns]:
            cost = self._count_tokens(lean[at] for at in group)
            if cost > room:
                return head
            room -= cost
            head += 1
        asks = (n for n in range(head, len(groups)) if is_user_turn(lean[groups[n][0]]))
        answered = next(asks, head) if head else 0
        answer = [at for group in groups[head:answered] for at in group]
        return answered if self._count_tokens(lean[at] for at in answer) <= room else head

    def _possible_cuts(self, lean: list[Any], groups: list[list[int]], said: Dialogue) -> list[int]:
        """Return after how many messages the groups may be cut, the newest left whole."""
        room = int(self.context_length * self.tail_token_fraction)
        cuts = cumulative_sizes(groups)
        first = len(groups)
        for number in range(len(groups) - 1, -1, -1):
            room -= self._count_tokens(lean[at] for at in groups[number])
            question = said.question(cuts[number - 1] if number else 0)
            asked = 0 if question is None else self.token_counter(lean[question])
            if room < asked and number < len(groups) - 1:
                break
            first = number
        return cuts[:first]

    def _shorten_summary(self, summary: Summary, like: Sequence[Any], room: int) -> Summary:
        """Cut a summary that is too long, but never below a tenth of the context."""
        room = max(room, self.context_length // 10)
        while (cost := self.token_counter(summary.to_message(like))) > room and summary.text:
            length = min(len(summary.text) * room // cost, len(summary.text) - 1)
            summary = replace(summary, text=shorten_text(summary.text, length))
        return summary

    def _cut_to_context(self, result: ManagedMessages) -> ManagedMessages:
        if self._count_tokens(result.messages) <= self.context_length:
            return result
        budget = TokenBudgetManager(
            self.context_length,
            token_counter=self.token_counter,
            preserve_system=self.preserve_system,
        )
        return replace(result, messages=budget.apply(result.messages), stage="cut")


class OutputArchiver:
    """Passes tool outputs to an archive, each once."""

    def __init__(self, archive: Archive | None) -> None:
        if archive is not None and not callable(archive):
            raise TypeError(f"archive is a function, not {type(archive).__name__}")
        self._archive = archive
        self._archived: BoundedCache[str, bool] = BoundedCache(REMEMBERED_OUTPUTS)

    def __bool__(self) -> bool:
        return self._archive is not None

    async def store(self, outputs: dict[str, Any], *, may_await: bool) -> None:
        """Pass the outputs that are new to the archive, one after another.

        Raises:
            AwaitNotPossible: see `call_function`.
        """
        for id_, output in outputs.items():
            if self._archive is not None and id_ not in self._archived:
                await call_function("archive", self._archive, id_, output, may_await=may_await)
                self._archived.put(id_, True)


def output_id(calls: Sequence[str | None], output: Any) -> str:
    """Return an id for the output of calls, the same for equal calls and outputs."""
    identity = repr((calls, output)).encode("utf-8", "backslashreplace")
    return f"out_{hashlib.blake2b(identity, digest_size=12).hexdigest()}"

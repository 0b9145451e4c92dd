"""Compaction: what fits into a model's context, when a conversation is about to outgrow it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memalchemy.memory.managers.base import tell_pruned
from memalchemy.memory.managers.folding import FoldingManager, Plan, Request
from memalchemy.memory.managers.making import replaced, shorten_text
from memalchemy.memory.managers.outcome import (
    Archive,
    CompactionOutcome,
    Noted,
    PuttingAway,
    id_of,
)
from memalchemy.memory.managers.steps import steps_of
from memalchemy.memory.managers.summaries import Summarize, Summary, joined
from memalchemy.memory.managers.summarizing import ends, split_systems, with_summary
from memalchemy.memory.managers.tokens import TokenCounter, estimate_tokens
from memalchemy.memory.managers.windows import TokenBudgetManager, whole
from memalchemy.messages import read, results_of, text_of

CLEARED = "[tool output cleared: "


class ContextCompactor(FoldingManager):
    """Nothing until the context is nearly full; then old tool outputs go, then the middle.

    Over ``trigger_fraction * context_length`` tokens, the outputs of old tool calls are replaced by
    a line that says how long they were; the calls stay. If that is not enough, the steps between
    the first ones and the newest ones become a summary, as `SummarizingManager` makes it. What is
    returned never takes more than *context_length*; should all that not be enough, it is cut as by
    `TokenBudgetManager`.

    A step is one message, or an assistant's calls with their results.

    Args:
        context_length: the tokens that the model takes.
        summarize_fn: as for `SummarizingManager`, with its *timeout* and its fallback.
        trigger_fraction: of *context_length*; up to that nothing happens.
        head_turns: steps at the start that stay, if there is room: what it is all about.
        tail_token_fraction: of *context_length*; the newest steps that stay take at most that.
        tool_output_ttl_turns: outputs in the newest so many steps stay; 0 keeps all.
        tool_output_keep_tokens: the newest outputs of so many tokens stay; ``None`` for no limit.
        token_counter: the tokens of one message; `estimate_tokens` if not given.
        preserve_system: system messages stay; they are messages like others if not.
        min_iterations_between_summaries: a further summary is written when it takes in at least so
            many steps; until then only outputs go, unless the context is full.
        archive: is given each output that is cleared, with an id that the note in its place names:
            ``(id, output)``, such as `memalchemy.memory.ToolOutputs.keep`. It may be async. Without
            one, what is cleared is where the messages came from, or nowhere.
    """

    strategy = "context_compactor"

    def __init__(
        self,
        context_length: int = 128_000,
        *,
        summarize_fn: Summarize | None = None,
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
        self.context_length = whole("context_length", context_length)
        self.trigger_fraction = trigger_fraction
        self.head_turns = whole("head_turns", head_turns, 0)
        self.tail_token_fraction = tail_token_fraction
        self.tool_output_ttl_turns = whole("tool_output_ttl_turns", tool_output_ttl_turns, 0)
        if tool_output_keep_tokens is not None:
            whole("tool_output_keep_tokens", tool_output_keep_tokens, 0)
        self.tool_output_keep_tokens = tool_output_keep_tokens
        self.token_counter = token_counter or estimate_tokens
        self.preserve_system = preserve_system
        self.min_iterations_between_summaries = whole(
            "min_iterations_between_summaries", min_iterations_between_summaries
        )
        self._archive = PuttingAway(archive)

    def __repr__(self) -> str:
        return f"ContextCompactor(context_length={self.context_length})"

    async def compact(self, messages: Sequence[Any]) -> CompactionOutcome:
        """`async_apply`, which says what it has done."""
        given, noted = list(messages), Noted()
        result = await self._async_run(self.plan(given, noted))
        await self._archive.async_run(noted.outputs)
        return CompactionOutcome(
            result,
            noted.stage,
            self._tokens(given),
            self._tokens(result),
            int(self.context_length * self.trigger_fraction),
            None if noted.summary is None else noted.summary.text,
            tuple(reversed(noted.outputs)),
        )

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """As `SummarizingManager.apply`.

        Raises:
            RuntimeError: the summariser or the archive is async; `async_apply` is for that.
        """
        noted = Noted()
        result = self._run(self.plan(list(messages), noted))
        self._archive.run(noted.outputs)
        return result

    async def async_apply(self, messages: Sequence[Any]) -> list[Any]:
        """`apply`, which awaits the summariser and the archive."""
        noted = Noted()
        result = await self._async_run(self.plan(list(messages), noted))
        await self._archive.async_run(noted.outputs)
        return result

    def plan(self, messages: list[Any], noted: Noted | None = None) -> Plan:
        """Keep all; or clear old outputs; or summarise the middle as well."""
        noted = noted or Noted()
        told, systems = split_systems(messages, self.preserve_system)
        steps = steps_of(messages, systems | told.keys())
        talk = [at for step in steps for at in step]
        kept = sorted({*talk, *systems, *told})
        trigger = int(self.context_length * self.trigger_fraction)
        if self._tokens(messages[at] for at in kept) <= trigger:
            return [messages[at] for at in kept]

        lean = self._without_old_outputs(messages, steps, noted)
        cleared = [lean[at] for at in kept]
        tell_pruned("tool_outputs", [messages[at] for at in kept], cleared)
        room = trigger - self._tokens(lean[at] for at in systems)
        head = self._head(lean, steps, room)
        cuts = self._cuts(lean, steps[head:])
        few = bool(told) and len(cuts) < self.min_iterations_between_summaries
        bearable = self._tokens(cleared) <= (self.context_length if few else trigger)
        if bearable or not cuts:
            return self._within(cleared, noted)

        first = [at for step in steps[:head] for at in step]
        rest = talk[len(first) :]

        def request(start: int, stop: int, earlier: Summary | None) -> Request:
            # The summariser is a model with a context of its own: it gets what is left of outputs.
            part = [lean[at] for at in rest[start:stop]]
            return Request(part, earlier, len(messages), {"threshold": trigger})

        def assembled(count: int, summary: Summary) -> list[Any]:
            stays = [*first, *rest[count:]]
            spent = self._tokens(lean[at] for at in {*stays, *systems})
            short = self._short(summary, [lean[at] for at in rest], trigger - spent)
            return with_summary(lean, short, rest[:count], stays, systems)

        count, summary = yield from self.fold(
            [messages[at] for at in rest],
            cuts,
            joined(list(told.values())),
            lambda cut, known: self._tokens(assembled(cut, known)) <= trigger,
            request,
            lambda more, cut, known: (
                more >= self.min_iterations_between_summaries
                or self._tokens(assembled(cut, known)) > self.context_length
            ),
        )
        noted.stage, noted.summary = "summarised", summary
        return self._within(assembled(count, summary), noted)

    def _tokens(self, messages: Iterable[Any]) -> int:
        return sum(map(self.token_counter, messages))

    def _without_old_outputs(
        self, messages: list[Any], steps: list[list[int]], noted: Noted
    ) -> list[Any]:
        lean = list(messages)
        spent = 0
        for age, step in enumerate(reversed(steps)):
            for at in reversed(step):
                if not results_of(messages[at]):
                    continue
                spent += self.token_counter(messages[at])
                late = 0 < self.tool_output_ttl_turns <= age
                keep = self.tool_output_keep_tokens
                # What was just found out is what the model is about to read.
                if late or (keep is not None and spent > keep and age > 0):
                    lean[at] = self._cleared(messages[at], noted)
        return lean

    def _cleared(self, message: Any, noted: Noted) -> Any:
        said = text_of(message)
        if said.startswith(CLEARED):
            return message
        name = "content" if read(message, "content") is not None else "output"
        content = read(message, name)
        note = f"{CLEARED}{len(said):,} characters]"
        id_ = id_of(results_of(message), content)
        if self._archive:
            note = f"{note[:-1]}; recall {id_}]"
        blocks = not isinstance(content, str) and read(message, "role") == "user"
        short = replaced(message, name, _cleared_blocks(content, note) if blocks else note)
        if short is None or self.token_counter(short) >= self.token_counter(message):
            return message
        noted.stage = "cleared"
        if self._archive:
            noted.outputs[id_] = content
        return short

    def _head(self, lean: list[Any], steps: list[list[int]], room: int) -> int:
        """How many steps at the start stay: they leave room for the newest."""
        room -= int(self.context_length * self.tail_token_fraction)
        for number, step in enumerate(steps[: self.head_turns]):
            room -= self._tokens(lean[at] for at in step)
            if room < 0:
                return number
        return min(self.head_turns, len(steps))

    def _cuts(self, lean: list[Any], steps: list[list[int]]) -> list[int]:
        """Where *steps* may be cut so that enough of the newest stay whole."""
        room = int(self.context_length * self.tail_token_fraction)
        first = len(steps)
        for number in range(len(steps) - 1, -1, -1):
            room -= self._tokens(lean[at] for at in steps[number])
            if room < 0 and number < len(steps) - 1:
                break
            first = number
        return ends(steps[:first])

    def _short(self, summary: Summary, kind: Sequence[Any], room: int) -> Summary:
        # A model told to be brief may not be. A tenth of the context is a summary's right.
        room = max(room, self.context_length // 10)
        while (cost := self.token_counter(summary.message(kind))) > room and summary.text:
            longest = min(len(summary.text) * room // cost, len(summary.text) - 1)
            text = shorten_text(summary.text, longest)
            summary = Summary(text, summary.messages, summary.failure)
        return summary

    def _within(self, messages: list[Any], noted: Noted) -> list[Any]:
        if self._tokens(messages) <= self.context_length:
            return messages
        noted.stage = "cut"
        budget = TokenBudgetManager(
            self.context_length,
            token_counter=self.token_counter,
            preserve_system=self.preserve_system,
        )
        return budget.apply(messages)


def _cleared_blocks(content: Any, note: str) -> Any:
    return [
        {**block, "content": note} if read(block, "type") == "tool_result" else block
        for block in content
    ]

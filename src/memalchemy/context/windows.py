"""Managers that keep the newest messages, by their number or by their tokens."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memalchemy.context._message_groups import (
    first_exchange,
    message_groups,
    questions_before,
)
from memalchemy.context.manager import ConversationManager, check_count, publish_pruned
from memalchemy.context.summary import Summary
from memalchemy.context.tokens import TokenCounter, estimate_tokens
from memalchemy.messages import (
    is_system,
    is_user_turn,
    shorten_message,
    shorten_text,
    text_of,
)

_log = logging.getLogger(__name__)


class SlidingWindowManager(ConversationManager):
    """Keeps the newest messages; tool calls and their results stay or go together.

    A *group* is a message, or an assistant's tool calls with their results. No message is
    privileged, but where the window begins within the answer to a user's message, that message
    stays before it, in place of the oldest group if need be: no answer follows another question,
    and an agent that works for long still knows what it was asked.

    Args:
        window_size: maximum number of messages besides the system messages; ``None`` for no limit.
            The newest group and the user's message that it answers stay whole even if they alone
            are more.
        preserve_system: keep all system messages where they are. A summary stays in any case.
        preserve_first_user: keep the first user message as well, with everything up to the next
            one. These messages count towards *window_size*. They go if they leave no room for the
            newest group.
        slide_step: how many messages go at once when the window is full. With a larger number the
            start stays the same for several turns, which helps a provider's prompt cache.
        max_turns: maximum number of user turns, each with what follows it.
    """

    def __init__(
        self,
        window_size: int | None = 20,
        preserve_system: bool = True,
        preserve_first_user: bool = False,
        slide_step: int = 1,
        *,
        max_turns: int | None = None,
    ) -> None:
        self.window_size: int | None = (
            None if window_size is None else check_count("window_size", window_size)
        )
        self.preserve_system = preserve_system
        self.preserve_first_user = preserve_first_user
        self.slide_step: int = check_count("slide_step", slide_step)
        self.max_turns: int | None = (
            None if max_turns is None else check_count("max_turns", max_turns)
        )
        if self.window_size is not None and slide_step > self.window_size:
            raise ValueError("slide_step must be between 1 and window_size")

    def __repr__(self) -> str:
        return (
            f"SlidingWindowManager(window_size={self.window_size}, "
            f"preserve_system={self.preserve_system}, slide_step={self.slide_step})"
        )

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """Return the system messages and the newest groups with the question that they answer."""
        messages = list(messages)
        kept, _ = self.split(messages)
        window = [messages[at] for at in kept]
        publish_pruned("sliding_window", messages, window, window_size=self.window_size)
        return window

    def split(self, messages: Sequence[Any]) -> tuple[list[int], list[int]]:
        """Return the indices of the messages that stay, and of those that go, oldest first."""
        systems = pinned_systems(messages, self.preserve_system)
        groups = message_groups(messages, systems)
        if not groups:
            return sorted(systems), []
        questions = questions_before(messages, groups)
        pinned = first_exchange(messages, groups) if self.preserve_first_user else range(0)

        def window_from(first: int, pinned: range) -> set[int]:
            question = questions[first]
            kept = {at for number in {*pinned, *range(first, len(groups))} for at in groups[number]}
            return kept if question is None else {*kept, question}

        if not self._is_within_limits(messages, window_from(len(groups) - 1, pinned)):
            pinned = range(0)
        starts = self._possible_starts(groups)
        # Who begins later keeps fewer messages.
        found = bisect_left(
            starts,
            True,
            key=lambda first: self._is_within_limits(messages, window_from(first, pinned)),
        )
        kept = window_from(starts[min(found, len(starts) - 1)], pinned)
        removed = [at for group in groups for at in group if at not in kept]
        return sorted(systems | kept), removed

    def _possible_starts(self, groups: list[list[int]]) -> list[int]:
        """Return the numbers of the groups with which the window may begin, ascending."""
        step = 1 if self.window_size is None else self.slide_step
        starts, removed = [0], 0
        for number, group in enumerate(groups[:-1], 1):
            steps_before = removed // step
            removed += len(group)
            if removed // step > steps_before or number == len(groups) - 1:
                starts.append(number)
        return starts

    def _is_within_limits(self, messages: Sequence[Any], window: set[int]) -> bool:
        if self.window_size is not None and len(window) > self.window_size:
            return False
        if self.max_turns is None:
            return True
        return sum(is_user_turn(messages[at]) for at in window) <= self.max_turns


class TokenBudgetManager(ConversationManager):
    """Keeps the messages that fit into a number of tokens. The result never exceeds it.

    Messages are taken in this order, as long as there is room: the system messages at the start;
    the newest group with the user's message that it answers, their texts shortened in the middle if
    they are too long for the budget; system messages between the others, newest first; older
    groups, each with the user's message that it answers, from the newest to the first that does not
    fit. No other message is privileged. A newest group that cannot be shortened enough, for example
    because of its arguments, is left out with a warning in the log.

    Args:
        max_tokens: the budget.
        token_counter: function that gives the tokens of one message; `estimate_tokens` by default.
        preserve_system: take system messages first; otherwise they are messages like others. A
            summary is taken first in any case; at the start it is shortened to half of the room.
        preserve_first_user: take the first user message, with everything up to the next one, before
            older groups.
        shorten: shorten a newest group that is too long; otherwise it is left out. A shortened
            message is a copy.
    """

    def __init__(
        self,
        max_tokens: int = 40_000,
        *,
        token_counter: TokenCounter | None = None,
        preserve_system: bool = True,
        preserve_first_user: bool = False,
        shorten: bool = True,
    ) -> None:
        self.max_tokens: int = check_count("max_tokens", max_tokens)
        self.token_counter: TokenCounter = token_counter or estimate_tokens
        self.preserve_system = preserve_system
        self.preserve_first_user = preserve_first_user
        self.shorten = shorten

    def __repr__(self) -> str:
        return f"TokenBudgetManager(max_tokens={self.max_tokens})"

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages that fit.

        Raises:
            ValueError: the system messages at the start alone exceed the budget. They define the
                agent, so nothing is sent without them.
        """
        given = messages = list(messages)
        systems = pinned_systems(messages, self.preserve_system)
        leading = {at for at in systems if systems.issuperset(range(at))}
        messages, costs = self._with_short_summaries(messages, leading)
        left = self.max_tokens - sum(costs[at] for at in leading)
        if left < 0:
            raise ValueError(
                f"the system messages take {self.max_tokens - left} tokens and max_tokens is "
                f"{self.max_tokens}; raise it, shorten them or set preserve_system=False"
            )
        kept = {at: messages[at] for at in leading}
        groups = message_groups(messages, systems)
        # Each group with the question that it answers: they stay together.
        answers = [
            group if question is None else [question, *group]
            for group, question in zip(groups, questions_before(messages, groups), strict=True)
        ]
        if answers:
            left -= self._keep_newest(messages, answers.pop(), left, kept)
        for at in sorted(systems - leading, reverse=True):
            left -= _keep_if_it_fits(kept, messages, costs, left, [at])
        if self.preserve_first_user:
            first = [at for number in first_exchange(messages, groups) for at in groups[number]]
            left -= _keep_if_it_fits(kept, messages, costs, left, first)
        for group in reversed(answers):
            left -= _keep_if_it_fits(kept, messages, costs, left, group)
            if not kept.keys() >= set(group):
                break
        window = [kept[at] for at in sorted(kept)]
        publish_pruned("token_budget", given, window, max_tokens=self.max_tokens)
        return window

    def _with_short_summaries(
        self, messages: list[Any], leading: set[int]
    ) -> tuple[list[Any], list[int]]:
        """Return the messages and their costs; if they are too many, with a short summary.

        A summary at the start leaves half of the room to the messages after it.
        """
        costs = [self.token_counter(message) for message in messages]
        summaries = [at for at in leading if Summary.from_message(messages[at]) is not None]
        if not self.shorten or not summaries or sum(costs) <= self.max_tokens:
            return messages, costs
        room = self.max_tokens - sum(costs[at] for at in leading.difference(summaries))
        messages = list(messages)
        for at in summaries:
            messages[at] = self._short_summary(messages[at], room // 2 // len(summaries))
            costs[at] = self.token_counter(messages[at])
        return messages, costs

    def _short_summary(self, message: Any, room: int) -> Any:
        """Return a summary's message with the longest text that fits; without any if none does."""
        summary = Summary.from_message(message)
        if summary is None or self.token_counter(message) <= room:
            return message

        def cut(length: int) -> Any:
            short = replace(summary, text=shorten_text(summary.text, length))
            return short.to_message([message])

        lengths = range(len(summary.text))
        too_long = bisect_left(lengths, True, key=lambda one: self.token_counter(cut(one)) > room)
        return cut(max(too_long - 1, 0))

    def _keep_newest(
        self, messages: list[Any], group: list[int], left: int, kept: dict[int, Any]
    ) -> int:
        """Keep the newest group and its question, shortened if need be; return what they cost."""
        whole = [messages[at] for at in group]
        fits = sum(map(self.token_counter, whole)) <= left
        found = whole if fits else self._shorten_group(whole, left)
        if found is None:
            _log.warning(
                "the newest %d messages do not fit into %d tokens and are left out",
                len(group) - _has_question(whole),
                self.max_tokens,
            )
            return 0
        kept.update(zip(group, found, strict=True))
        return sum(map(self.token_counter, found))

    def _shorten_group(self, group: list[Any], left: int) -> list[Any] | None:
        """Find the longest texts with which the group fits, by bisection; ``None`` if none do."""
        # A result that is shortened does not shorten the question that it answers: a question that
        # leaves room for it stays as it is.
        question = group[: _has_question(group)]
        cost = sum(map(self.token_counter, question))
        if question and cost * 2 <= left:
            answer = self._shorten_group(group[1:], left - cost)
            return None if answer is None else [*question, *answer]
        best = None
        low, high = 0, max(map(len, map(text_of, group))) if self.shorten else -1
        while low <= high:
            length = (low + high) // 2
            candidate = [shorten_message(message, length) for message in group]
            can_be_copied = all(message is not None for message in candidate)
            if can_be_copied and sum(map(self.token_counter, candidate)) <= left:
                best, low = candidate, length + 1
            else:
                high = length - 1
        return best


def pinned_systems(messages: Sequence[Any], preserve: bool) -> frozenset[int]:
    """Return the indices of the system messages if they are to be preserved, and of summaries.

    A summary tells what no other message does.
    """
    systems = ((at, message) for at, message in enumerate(messages) if is_system(message))
    return frozenset(
        at for at, message in systems if preserve or Summary.from_message(message) is not None
    )


def _has_question(group: Sequence[Any]) -> bool:
    """Return whether a group begins with the user's message that the rest of it answers."""
    return len(group) > 1 and is_user_turn(group[0])


def _keep_if_it_fits(
    kept: dict[int, Any], messages: list[Any], costs: list[int], left: int, wanted: Sequence[int]
) -> int:
    """Keep all *wanted* messages if they fit; return what those cost that were not kept before."""
    new = [at for at in wanted if at not in kept]
    cost = sum(costs[at] for at in new)
    if cost > left:
        return 0
    kept.update((at, messages[at]) for at in new)
    return cost


def trim_to_recent(messages: Sequence[Any], keep_recent: int = 6) -> list[Any]:
    """Return the system messages and the newest *keep_recent* messages, as `SlidingWindowManager`.

    With 0, only the system messages stay.
    """
    return _split_recent(messages, keep_recent)[0]


def messages_to_summarize(messages: Sequence[Any], keep_recent: int = 6) -> list[Any]:
    """Return the messages that `trim_to_recent` removes, oldest first: the input of a summary."""
    return _split_recent(messages, keep_recent)[1]


def trim_to_fit(
    messages: Sequence[Any], max_tokens: int, *, token_counter: TokenCounter | None = None
) -> list[Any]:
    """Return the messages that fit into *max_tokens*; see `TokenBudgetManager`."""
    return TokenBudgetManager(max_tokens, token_counter=token_counter).apply(messages)


def _split_recent(messages: Sequence[Any], keep_recent: int) -> tuple[list[Any], list[Any]]:
    if check_count("keep_recent", keep_recent, 0) == 0:
        kept = sorted(pinned_systems(messages, preserve=True))
        removed = [at for group in message_groups(messages, frozenset(kept)) for at in group]
    else:
        window = SlidingWindowManager(keep_recent)
        kept, removed = window.split(messages)
    return [messages[at] for at in kept], [messages[at] for at in removed]

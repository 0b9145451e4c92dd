"""Managers that keep the newest messages, by their number or by their tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from memalchemy.context._message_groups import message_groups
from memalchemy.context.manager import ConversationManager, check_count, publish_pruned
from memalchemy.context.tokens import TokenCounter, estimate_tokens
from memalchemy.messages import is_system, is_user_turn, shorten_message, text_of

_log = logging.getLogger(__name__)


class SlidingWindowManager(ConversationManager):
    """Keeps the newest messages; tool calls and their results stay or go together.

    A *group* is a message, or an assistant's tool calls with their results.

    Args:
        window_size: maximum number of messages besides the system messages; ``None`` for no limit.
            The newest group stays whole even if it alone is longer.
        preserve_system: keep all system messages where they are.
        preserve_first_user: keep the first user message, which states the task. It counts towards
            *window_size*. It goes if the newest group has a user message and leaves no room.
        slide_step: how many messages go at once when the window is full. With a larger number the
            start stays the same for several turns, which helps a provider's prompt cache.
        max_turns: maximum number of user turns, each with what follows it.
    """

    def __init__(
        self,
        window_size: int | None = 20,
        preserve_system: bool = True,
        preserve_first_user: bool = True,
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
        """Return the system messages, the first user message and the newest groups."""
        messages = list(messages)
        kept, _ = self.split(messages)
        window = [messages[at] for at in kept]
        publish_pruned("sliding_window", messages, window, window_size=self.window_size)
        return window

    def split(self, messages: Sequence[Any]) -> tuple[list[int], list[int]]:
        """Return the indices of the messages that stay, and of those that go, oldest first."""
        systems = pinned_systems(messages, self.preserve_system)
        first_user = self._pinned_first_user(messages, systems)
        pinned = systems if first_user is None else systems | {first_user}
        groups = message_groups(messages, pinned)
        first = self._first_kept(messages, groups, first_user is not None)
        removed = [at for group in groups[:first] for at in group]
        return sorted(pinned.union(*groups[first:])), removed

    def _pinned_first_user(self, messages: Sequence[Any], systems: frozenset[int]) -> int | None:
        first_user = first_user_turn(messages) if self.preserve_first_user else None
        if first_user is None:
            return None
        newest = message_groups(messages, systems)[-1]
        has_user_turn = any(is_user_turn(messages[at]) for at in newest)
        is_full = self.window_size is not None and len(newest) >= self.window_size
        only_one_turn = self.window_size is None and self.max_turns == 1
        return None if only_one_turn or (has_user_turn and is_full) else first_user

    def _first_kept(
        self, messages: Sequence[Any], groups: list[list[int]], first_user_is_pinned: bool
    ) -> int:
        """Return the number of the first group that stays."""
        first = 0
        if self.window_size is not None:
            room = max(self.window_size - first_user_is_pinned, 1)
            excess = sum(map(len, groups)) - room
            # Rounded up to a multiple of slide_step.
            to_remove = -(-excess // self.slide_step) * self.slide_step
            removed = 0
            while removed < to_remove and first < len(groups) - 1:
                removed += len(groups[first])
                first += 1
        if self.max_turns is not None:
            room = max(self.max_turns - first_user_is_pinned, 1)
            turns = [
                number
                for number, group in enumerate(groups)
                for at in group
                if is_user_turn(messages[at])
            ]
            if len(turns) > room:
                first = max(first, turns[-room])
        return first


class TokenBudgetManager(ConversationManager):
    """Keeps the messages that fit into a number of tokens. The result never exceeds it.

    Messages are taken in this order, as long as there is room: the system messages at the start;
    the newest group, whose texts are shortened in the middle if it is too long for the budget;
    system messages between the others, newest first; the first user message; older groups, from the
    newest to the first that does not fit. A newest group that cannot be shortened enough, for
    example because of its arguments, is left out with a warning in the log.

    Args:
        max_tokens: the budget.
        token_counter: function that gives the tokens of one message; `estimate_tokens` by default.
        preserve_system: take system messages first; otherwise they are messages like others.
        preserve_first_user: take the first user message before older groups.
        shorten: shorten a newest group that is too long; otherwise it is left out. A shortened
            message is a copy.
    """

    def __init__(
        self,
        max_tokens: int = 40_000,
        *,
        token_counter: TokenCounter | None = None,
        preserve_system: bool = True,
        preserve_first_user: bool = True,
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
        messages = list(messages)
        systems = pinned_systems(messages, self.preserve_system)
        leading = {at for at in systems if systems.issuperset(range(at))}
        costs = [self.token_counter(message) for message in messages]
        left = self.max_tokens - sum(costs[at] for at in leading)
        if left < 0:
            raise ValueError(
                f"the system messages take {self.max_tokens - left} tokens and max_tokens is "
                f"{self.max_tokens}; raise it, shorten them or set preserve_system=False"
            )
        kept = {at: messages[at] for at in leading}
        groups = message_groups(messages, systems)
        first_user = first_user_turn(messages) if self.preserve_first_user else None
        if groups:
            newest = groups.pop()
            # A result that is shortened must not push out the question that it answers.
            question = 0 if first_user is None or first_user in newest else costs[first_user]
            reserved = question if question * 2 <= left else 0
            left -= self._keep_newest(messages, newest, left, reserved, kept)
        left = _keep_each(kept, messages, costs, left, sorted(systems - leading, reverse=True))
        left = _keep_each(kept, messages, costs, left, () if first_user is None else (first_user,))
        for group in reversed(groups):
            missing = [at for at in group if at not in kept]
            cost = sum(costs[at] for at in missing)
            if cost > left:
                break
            left -= cost
            kept.update((at, messages[at]) for at in missing)
        window = [kept[at] for at in sorted(kept)]
        publish_pruned("token_budget", messages, window, max_tokens=self.max_tokens)
        return window

    def _keep_newest(
        self, messages: list[Any], group: list[int], left: int, reserved: int, kept: dict[int, Any]
    ) -> int:
        """Keep the newest group, shortened to leave *reserved* tokens; return what it costs."""
        whole = [messages[at] for at in group]
        fits = sum(map(self.token_counter, whole)) <= left
        found = whole if fits else self._shortened(whole, left - reserved)
        if found is None:
            _log.warning(
                "the newest %d messages do not fit into %d tokens and are left out",
                len(group),
                self.max_tokens,
            )
            return 0
        kept.update(zip(group, found, strict=True))
        return sum(map(self.token_counter, found))

    def _shortened(self, group: list[Any], left: int) -> list[Any] | None:
        """Find the longest texts with which the group fits, by bisection; ``None`` if none do."""
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
    """Return the indices of the system messages if they are to be preserved."""
    return frozenset(at for at, message in enumerate(messages) if preserve and is_system(message))


def first_user_turn(messages: Sequence[Any]) -> int | None:
    """Return the index of the first message in which the user speaks."""
    return next((at for at, message in enumerate(messages) if is_user_turn(message)), None)


def _keep_each(
    kept: dict[int, Any], messages: list[Any], costs: list[int], left: int, wanted: Iterable[int]
) -> int:
    """Keep each of the *wanted* messages that fits; return the tokens that are left."""
    for at in wanted:
        if at not in kept and costs[at] <= left:
            kept[at] = messages[at]
            left -= costs[at]
    return left


def trim_to_recent(messages: Sequence[Any], keep_recent: int = 6) -> list[Any]:
    """Return the system messages and the newest groups with at most *keep_recent* messages.

    The newest group stays whole. With 0, only the system messages stay.
    """
    return _split(messages, keep_recent)[0]


def messages_to_summarize(messages: Sequence[Any], keep_recent: int = 6) -> list[Any]:
    """Return the messages that `trim_to_recent` removes, oldest first: the input of a summary."""
    return _split(messages, keep_recent)[1]


def trim_to_fit(
    messages: Sequence[Any], max_tokens: int, *, token_counter: TokenCounter | None = None
) -> list[Any]:
    """Return the messages that fit into *max_tokens*; see `TokenBudgetManager`."""
    return TokenBudgetManager(max_tokens, token_counter=token_counter).apply(messages)


def _split(messages: Sequence[Any], keep_recent: int) -> tuple[list[Any], list[Any]]:
    if check_count("keep_recent", keep_recent, 0) == 0:
        kept = sorted(pinned_systems(messages, preserve=True))
        removed = [at for group in message_groups(messages, frozenset(kept)) for at in group]
    else:
        window = SlidingWindowManager(keep_recent, preserve_first_user=False)
        kept, removed = window.split(messages)
    return [messages[at] for at in kept], [messages[at] for at in removed]

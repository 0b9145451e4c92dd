"""Windows: the newest messages, by their number or by their tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from memalchemy.memory.managers.base import ConversationManager, tell_pruned
from memalchemy.memory.managers.making import shortened
from memalchemy.memory.managers.steps import steps_of
from memalchemy.memory.managers.tokens import TokenCounter, estimate_tokens
from memalchemy.messages import is_system, is_user_turn, text_of

_log = logging.getLogger(__name__)


def pinned_systems(messages: Sequence[Any], preserve: bool) -> frozenset[int]:
    """The indices of the system messages, if they are to stay whatever happens."""
    return frozenset(at for at, message in enumerate(messages) if preserve and is_system(message))


def first_user(messages: Sequence[Any]) -> int | None:
    """The index of the first user turn."""
    return next((at for at, message in enumerate(messages) if is_user_turn(message)), None)


def whole(name: str, value: object, least: int = 1) -> int:
    """Check an argument that is a number of things."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    return value


class SlidingWindowManager(ConversationManager):
    """Keeps the newest messages, whole steps at a time.

    Args:
        window_size: how many messages stay at most, system messages not counted; ``None`` for any
            number. The newest step stays whole even where it alone is longer.
        preserve_system: system messages stay, where they are.
        preserve_first_user: the first user turn, which says what all is about, stays and counts as
            one of *window_size*; unless the newest step has a user turn and leaves no room.
        slide_step: how many messages go at a time once the window is full. With more than one, the
            start stays the same for several turns, and a provider's cache of prompts is of use.
        max_turns: how many user turns stay at most, each with what follows it.
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
        self.window_size = None if window_size is None else whole("window_size", window_size)
        self.preserve_system = preserve_system
        self.preserve_first_user = preserve_first_user
        self.slide_step = whole("slide_step", slide_step)
        self.max_turns = None if max_turns is None else whole("max_turns", max_turns)
        if self.window_size is not None and slide_step > self.window_size:
            raise ValueError("slide_step must be between 1 and window_size")

    def __repr__(self) -> str:
        return (
            f"SlidingWindowManager(window_size={self.window_size}, "
            f"preserve_system={self.preserve_system}, slide_step={self.slide_step})"
        )

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """The system messages, the first user turn and the newest steps."""
        messages = list(messages)
        kept, _ = self.split(messages)
        window = [messages[at] for at in kept]
        tell_pruned("sliding_window", messages, window, window_size=self.window_size)
        return window

    def split(self, messages: Sequence[Any]) -> tuple[list[int], list[int]]:
        """The indices of what stays and of the steps that go, each oldest first."""
        systems = pinned_systems(messages, self.preserve_system)
        anchor = self._anchor(messages, systems)
        pinned = systems if anchor is None else systems | {anchor}
        steps = steps_of(messages, pinned)
        first = self._first(messages, steps, anchor is not None)
        gone = [at for step in steps[:first] for at in step]
        return sorted(pinned.union(*steps[first:])), gone

    def _anchor(self, messages: Sequence[Any], systems: frozenset[int]) -> int | None:
        anchor = first_user(messages) if self.preserve_first_user else None
        if anchor is None:
            return None
        newest = steps_of(messages, systems)[-1]
        speaks = any(is_user_turn(messages[at]) for at in newest)
        full = self.window_size is not None and len(newest) >= self.window_size
        one_turn = self.window_size is None and self.max_turns == 1
        return None if one_turn or (speaks and full) else anchor

    def _first(self, messages: Sequence[Any], steps: list[list[int]], anchored: bool) -> int:
        first = 0
        if self.window_size is not None:
            excess = sum(map(len, steps)) - max(self.window_size - anchored, 1)
            drop = -(-excess // self.slide_step) * self.slide_step
            dropped = 0
            while dropped < drop and first < len(steps) - 1:
                dropped += len(steps[first])
                first += 1
        if self.max_turns is not None:
            left = max(self.max_turns - anchored, 1)
            turns = [
                number
                for number, step in enumerate(steps)
                for at in step
                if is_user_turn(messages[at])
            ]
            if len(turns) > left:
                first = max(first, turns[-left])
        return first


class TokenBudgetManager(ConversationManager):
    """Keeps what fits into a number of tokens. The result never takes more.

    In this order, each as long as there is room: the system messages at the start; the newest step,
    its texts shortened in the middle if it is too long for the budget; system messages between the
    others, newest first; the first user turn; older steps, from the newest on, up to the first that
    does not fit. A newest step that cannot be shortened enough, such as one with enormous
    arguments, is left out and a warning is logged.

    Args:
        max_tokens: the budget.
        token_counter: the tokens of one message; `estimate_tokens` if not given.
        preserve_system: system messages come first; they are messages like others if not.
        preserve_first_user: the first user turn comes before older steps.
        shorten: whether a newest step that is too long is shortened rather than left out. A
            shortened message is a copy.
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
        self.max_tokens = whole("max_tokens", max_tokens)
        self.token_counter = token_counter or estimate_tokens
        self.preserve_system = preserve_system
        self.preserve_first_user = preserve_first_user
        self.shorten = shorten

    def __repr__(self) -> str:
        return f"TokenBudgetManager(max_tokens={self.max_tokens})"

    def apply(self, messages: Sequence[Any]) -> list[Any]:
        """The messages that fit.

        Raises:
            ValueError: the system messages at the start alone are over the budget. They are what
                the agent is; nothing is sent without them.
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
        steps = steps_of(messages, systems)
        first = first_user(messages) if self.preserve_first_user else None
        if steps:
            newest = steps.pop()
            # A result that is shortened shall not drive out the question that it is for.
            asked = 0 if first is None or first in newest else costs[first]
            left -= self._newest(messages, newest, left, asked if asked * 2 <= left else 0, kept)
        left = _take(kept, messages, costs, left, sorted(systems - leading, reverse=True))
        left = _take(kept, messages, costs, left, () if first is None else (first,))
        for step in reversed(steps):
            more = [at for at in step if at not in kept]
            cost = sum(costs[at] for at in more)
            if cost > left:
                break
            left -= cost
            kept.update((at, messages[at]) for at in more)
        window = [kept[at] for at in sorted(kept)]
        tell_pruned("token_budget", messages, window, max_tokens=self.max_tokens)
        return window

    def _newest(
        self, messages: list[Any], step: list[int], left: int, spare: int, kept: dict[int, Any]
    ) -> int:
        """Keep the newest step, and what it takes: it is shortened to leave *spare*."""
        whole_step = [messages[at] for at in step]
        fits = sum(map(self.token_counter, whole_step)) <= left
        found = whole_step if fits else self._shortened(whole_step, left - spare)
        if found is None:
            _log.warning(
                "the newest %d messages do not fit into %d tokens and are left out",
                len(step),
                self.max_tokens,
            )
            return 0
        kept.update(zip(step, found, strict=True))
        return sum(map(self.token_counter, found))

    def _shortened(self, step: list[Any], left: int) -> list[Any] | None:
        best = None
        low, high = 0, max(map(len, map(text_of, step))) if self.shorten else -1
        while low <= high:
            longest = (low + high) // 2
            tried = [shortened(message, longest) for message in step]
            known = all(message is not None for message in tried)
            if known and sum(map(self.token_counter, tried)) <= left:
                best, low = tried, longest + 1
            else:
                high = longest - 1
        return best


def _take(
    kept: dict[int, Any], messages: list[Any], costs: list[int], left: int, wanted: Iterable[int]
) -> int:
    for at in wanted:
        if at not in kept and costs[at] <= left:
            kept[at] = messages[at]
            left -= costs[at]
    return left


def trim_to_recent(messages: Sequence[Any], keep_recent: int = 6) -> list[Any]:
    """The system messages and the newest steps with at most *keep_recent* messages.

    The newest step stays whole; with 0, the system messages alone stay.
    """
    return _split(messages, keep_recent)[0]


def messages_to_summarize(messages: Sequence[Any], keep_recent: int = 6) -> list[Any]:
    """The steps that `trim_to_recent` leaves out, oldest first: what a summary has to tell."""
    return _split(messages, keep_recent)[1]


def _split(messages: Sequence[Any], keep_recent: int) -> tuple[list[Any], list[Any]]:
    if whole("keep_recent", keep_recent, 0) == 0:
        kept = sorted(pinned_systems(messages, preserve=True))
        gone = [at for step in steps_of(messages, frozenset(kept)) for at in step]
    else:
        kept, gone = SlidingWindowManager(keep_recent, preserve_first_user=False).split(messages)
    return [messages[at] for at in kept], [messages[at] for at in gone]


def trim_to_fit(
    messages: Sequence[Any], max_tokens: int, *, token_counter: TokenCounter | None = None
) -> list[Any]:
    """What fits into *max_tokens*; see `TokenBudgetManager`."""
    return TokenBudgetManager(max_tokens, token_counter=token_counter).apply(messages)

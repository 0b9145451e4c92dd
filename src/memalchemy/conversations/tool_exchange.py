"""`ToolExchange`: tool calls that wait for their results, and the checks of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from memalchemy.errors import InvalidArgument
from memalchemy.messages import calls_of, results_of
from memalchemy.state import Message


@dataclass(frozen=True, slots=True)
class ToolExchange:
    """Tool calls and the results that there are.

    Attributes:
        calls: the assistant's message.
        begun_at: when *calls* was stored.
    """

    calls: Message
    results: tuple[Message, ...]
    begun_at: datetime

    @property
    def missing(self) -> list[str]:
        """Ids of the calls without a result, in the order of the calls."""
        answered = {id_ for result in self.results for id_ in results_of(result)}
        return [id_ for id_ in calls_of(self.calls) if id_ is not None and id_ not in answered]

    @property
    def messages(self) -> list[Message]:
        """The calls, followed by the results that there are."""
        return [self.calls, *self.results]


def check_calls(calls: list[str | None]) -> None:
    """Raise `ValueError` unless a tool exchange can begin with calls of these ids."""
    if not calls:
        raise InvalidArgument("a tool exchange begins with an assistant's message that calls tools")
    if not all(calls):
        raise InvalidArgument("each call of a tool exchange needs an id, for its result to name")
    if duplicates := _duplicates(calls):
        raise InvalidArgument(f"two calls have one id: {', '.join(duplicates)}")


def check_results(exchange: ToolExchange, new: list[Message]) -> None:
    """Raise `ValueError` unless each of the *new* messages answers calls that wait for a result."""
    for result in new:
        if not results_of(result):
            raise InvalidArgument(f"a message with the role {result.role!r} is no result of a tool")
    ids = [id_ for result in new for id_ in results_of(result)]
    calls = calls_of(exchange.calls)
    if unknown := sorted({repr(id_) for id_ in ids if id_ not in calls}):
        raise InvalidArgument(
            f"results of no call in the open exchange: {', '.join(unknown)}; its calls are "
            f"{', '.join(map(repr, calls))}"
        )
    answered = [id_ for result in exchange.results for id_ in results_of(result)]
    if duplicates := _duplicates([*answered, *ids]):
        raise InvalidArgument(f"calls that already have a result: {', '.join(duplicates)}")


def _duplicates(ids: Iterable[str | None]) -> list[str]:
    return sorted(repr(id_) for id_, times in Counter(ids).items() if times > 1)

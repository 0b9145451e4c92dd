"""Check that every tool call has its result where a model's API expects it, and repair that.

After a crash between a call and its result, or an edit of the history, an API refuses the whole
conversation. `validate_tool_history` finds what it would refuse, `repair_tool_history` mends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memalchemy.context._message_groups import ToolPairs, pair_calls_with_results
from memalchemy.messages import (
    blocks_of_type,
    calls_of,
    copy_with,
    create_message,
    read,
    results_of,
    without_results,
)

IssueCode = Literal[
    "empty_call_id", "duplicate_call_id", "missing_result", "orphan_result", "misplaced_result"
]
_NOT_REPAIRABLE = ("empty_call_id", "duplicate_call_id")

NO_RESULT = "[no result: the call was interrupted]"


@dataclass(frozen=True, slots=True)
class ToolHistoryIssue:
    """Problem that an API would refuse, with the index of its message in the list.

    Codes: ``empty_call_id`` and ``duplicate_call_id``: a message has a call with an empty id, or
    two calls with one id. ``missing_result``: a call has no result. ``orphan_result``: no call
    before the result waits for it. ``misplaced_result``: other messages stand between a call and
    its result.
    """

    code: IssueCode
    index: int
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolHistoryReport:
    """Problems with the tool calls of a conversation, in the order of its messages."""

    issues: tuple[ToolHistoryIssue, ...] = ()

    @property
    def ok(self) -> bool:
        """``True`` if there are no issues."""
        return not self.issues

    @property
    def repairable(self) -> bool:
        """``True`` if `repair_tool_history` mends all issues."""
        return not any(issue.code in _NOT_REPAIRABLE for issue in self.issues)

    @property
    def first_issue(self) -> ToolHistoryIssue | None:
        """The first issue, or ``None``."""
        return self.issues[0] if self.issues else None

    def __bool__(self) -> bool:
        return self.ok


def validate_tool_history(messages: Sequence[Any]) -> ToolHistoryReport:
    """Find calls without results, results without calls, and results out of place."""
    messages = list(messages)
    pairs = pair_calls_with_results(messages)
    issues: list[ToolHistoryIssue] = []
    for index, message in enumerate(messages):
        for call, times in Counter(calls_of(message)).items():
            if call == "":
                issues.append(ToolHistoryIssue("empty_call_id", index, call))
            elif call is not None and times > 1:
                issues.append(ToolHistoryIssue("duplicate_call_id", index, call))
        for call in pairs.unanswered.get(index, []):
            issues.append(ToolHistoryIssue("missing_result", index, call))
        for call in pairs.stray.get(index, []):
            issues.append(ToolHistoryIssue("orphan_result", index, call))
        if index in pairs.callers and not _follows_its_call(pairs, index):
            issues.append(ToolHistoryIssue("misplaced_result", index, results_of(message)[0]))
    return ToolHistoryReport(tuple(issues))


def repair_tool_history(messages: Sequence[Any]) -> list[Any]:
    """Return the messages as an API accepts them; unaffected messages are the same objects.

    A call without a result gets one that says that it was interrupted. A result without a call
    goes. A result that is out of place moves behind its call. Empty and duplicate ids stay.
    """
    messages = list(messages)
    pairs = pair_calls_with_results(messages)
    results: dict[int, list[int]] = {}
    for index, callers in pairs.callers.items():
        results.setdefault(max(callers), []).append(index)
    repaired: list[Any] = []
    for index, message in enumerate(messages):
        if index in pairs.callers or index in pairs.orphans:
            continue
        repaired.append(message)
        if calls_of(message):
            answers = [
                _without_stray_results(messages[at], pairs.stray.get(at, []))
                for at in results.get(index, [])
            ]
            repaired += _add_missing_results(message, answers, pairs.unanswered.get(index, []))
    return repaired


def _follows_its_call(pairs: ToolPairs, index: int) -> bool:
    """Return whether only results of the same call stand between a result and its call."""
    caller = max(pairs.callers[index])
    return all(caller in pairs.callers.get(at, ()) for at in range(caller + 1, index))


def _without_stray_results(message: Any, stray: Sequence[str | None]) -> Any:
    """Remove the result blocks that nobody asked for."""
    if not stray:
        return message
    short = without_results(message, stray)
    return message if short is None else short


def _add_missing_results(
    caller: Any, answers: list[Any], missing: Sequence[str | None]
) -> list[Any]:
    """Return *answers* and a result for each of the *missing* calls, in the format of *caller*."""
    if not missing:
        return answers
    if read(caller, "type") == "function_call":
        kind = "function_call_output"
        return [*answers, *({"type": kind, "call_id": id_, "output": NO_RESULT} for id_ in missing)]
    if not any(blocks_of_type(caller, "tool_use")):
        return [*answers, *(_interrupted_result(caller, id_) for id_ in missing)]
    blocks = [
        {"type": "tool_result", "tool_use_id": id_, "content": NO_RESULT, "is_error": True}
        for id_ in missing
    ]
    # Anthropic expects all results of one message in one message.
    if answers and (last := answers[-1]) is not None and any(blocks_of_type(last, "tool_result")):
        longer = copy_with(last, "content", [*read(last, "content"), *blocks])
        if longer is not None:
            return [*answers[:-1], longer]
    return [*answers, create_message([caller], "user", blocks, {})]


def _interrupted_result(caller: Any, call: str | None) -> Any:
    named = {} if call is None else {"tool_call_id": call}
    return create_message([caller], "tool", NO_RESULT, {}, **named)

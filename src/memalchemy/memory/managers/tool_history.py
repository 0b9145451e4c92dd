"""Whether every call of a tool has its result where a model's API wants it, and mending that.

After a crash between a call and its result, or an edit of the history, an API refuses the whole
conversation. This finds what it would refuse, and repairs what can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memalchemy.memory.managers.making import make, replaced
from memalchemy.memory.managers.steps import Pairs, pair
from memalchemy.messages import blocks_of, calls_of, read, results_of

Code = Literal[
    "empty_call_id", "duplicate_call_id", "missing_result", "orphan_result", "misplaced_result"
]
_BEYOND_REPAIR = ("empty_call_id", "duplicate_call_id")

NO_RESULT = "[no result: the call was interrupted]"


@dataclass(frozen=True, slots=True)
class ToolHistoryIssue:
    """One thing that an API would refuse: ``index`` is the message's place in the list.

    ``empty_call_id`` and ``duplicate_call_id``: a message asks for a tool under no id, or for two
    under one. ``missing_result``: a call has none. ``orphan_result``: a result that no call before
    it waits for. ``misplaced_result``: other messages stand between a call and its result.
    """

    code: Code
    index: int
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolHistoryReport:
    """What is wrong with the tool calls of a conversation, in the order of its messages."""

    issues: tuple[ToolHistoryIssue, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.issues

    @property
    def repairable(self) -> bool:
        """Whether `repair_tool_history` can mend all of it."""
        return not any(issue.code in _BEYOND_REPAIR for issue in self.issues)

    @property
    def first_issue(self) -> ToolHistoryIssue | None:
        """The first, if there is one."""
        return self.issues[0] if self.issues else None

    def __bool__(self) -> bool:
        return self.ok


def validate_tool_history(messages: Sequence[Any]) -> ToolHistoryReport:
    """Look for calls without results, results without calls, and those out of place."""
    messages = list(messages)
    pairs = pair(messages)
    issues: list[ToolHistoryIssue] = []
    for index, message in enumerate(messages):
        for call, times in Counter(calls_of(message)).items():
            if call == "":
                issues.append(ToolHistoryIssue("empty_call_id", index, call))
            elif call is not None and times > 1:
                issues.append(ToolHistoryIssue("duplicate_call_id", index, call))
        for code, ids in (
            ("missing_result", pairs.unanswered.get(index, [])),
            ("orphan_result", pairs.stray.get(index, [])),
        ):
            issues += [ToolHistoryIssue(code, index, one) for one in ids]  # type: ignore[arg-type]
        if index in pairs.caller and not _in_place(messages, pairs, index):
            issues.append(ToolHistoryIssue("misplaced_result", index, results_of(message)[0]))
    return ToolHistoryReport(tuple(issues))


def _in_place(messages: list[Any], pairs: Pairs, index: int) -> bool:
    asked = max(pairs.caller[index])
    return all(asked in pairs.caller.get(at, ()) for at in range(asked + 1, index))


def repair_tool_history(messages: Sequence[Any]) -> list[Any]:
    """The messages as an API takes them; those that nothing is wrong with are the same objects.

    A call without a result gets one that says that it was interrupted, a result without a call
    goes, and a result that is out of place moves behind its call. What is beyond repair stays.
    """
    messages = list(messages)
    pairs = pair(messages)
    results: dict[int, list[int]] = {}
    for index, callers in pairs.caller.items():
        results.setdefault(max(callers), []).append(index)
    mended: list[Any] = []
    for index, message in enumerate(messages):
        if index in pairs.caller or index in pairs.orphans:
            continue
        mended.append(message)
        if not calls_of(message):
            continue
        answers = [_without(messages[at], pairs.stray.get(at, [])) for at in results.get(index, [])]
        mended += _completed(message, answers, pairs.unanswered.get(index, []))
    return mended


def _without(message: Any, stray: Sequence[str | None]) -> Any:
    if not stray:
        return message
    left = list(stray)
    blocks = []
    # Of two results of one call the first is the one that counts.
    for block in reversed(read(message, "content")):
        if read(block, "type") == "tool_result" and read(block, "tool_use_id") in left:
            left.remove(read(block, "tool_use_id"))
        else:
            blocks.append(block)
    short = replaced(message, "content", blocks[::-1])
    return message if short is None else short


def _completed(caller: Any, answers: list[Any], missing: Sequence[str | None]) -> list[Any]:
    if not missing:
        return answers
    if read(caller, "type") == "function_call":
        kind = "function_call_output"
        return [*answers, *({"type": kind, "call_id": id_, "output": NO_RESULT} for id_ in missing)]
    if not any(blocks_of(caller, "tool_use")):
        return [*answers, *(_answer(caller, id_) for id_ in missing)]
    blocks = [
        {"type": "tool_result", "tool_use_id": id_, "content": NO_RESULT, "is_error": True}
        for id_ in missing
    ]
    # Anthropic wants the results of one message in one message.
    if answers and (last := answers[-1]) is not None and any(blocks_of(last, "tool_result")):
        longer = replaced(last, "content", [*read(last, "content"), *blocks])
        if longer is not None:
            return [*answers[:-1], longer]
    return [*answers, make([caller], "user", blocks, {})]


def _answer(caller: Any, call: str | None) -> Any:
    named = {} if call is None else {"tool_call_id": call}
    return make([caller], "tool", NO_RESULT, {}, **named)

"""Summaries of threads: what a list says of them without their being opened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from memalchemy._cache import BoundedCache
from memalchemy._together import together
from memalchemy.checkpoints import listing
from memalchemy.contracts import CheckpointInfo
from memalchemy.database import Database
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted, NotFound
from memalchemy.inspection import _statements as statements
from memalchemy.inspection._log_heads import query
from memalchemy.inspection._records import Record, time
from memalchemy.inspection.entries import entry_log_of, read_tail
from memalchemy.inspection.messages import stored_message
from memalchemy.inspection.states import States, checkpointer_of
from memalchemy.inspection.step_digests import Place, StepDigest, StepDigests, marks_of, numbered
from memalchemy.inspection.tree import preview
from memalchemy.inspection.writes import count_writes, interrupts_of_state, read_interrupts_of
from memalchemy.keys import decode_namespace
from memalchemy.log import Log
from memalchemy.stored_messages import Message, unwrapped
from memalchemy.usage import DIMENSION_KEYS, USAGE_KEYS, Usage, response_id, usage_of_metadata

LARGE, DELETED = "large", "NotFound"
"""Why a summary lacks the content of a thread that can be read, or is not there any more."""
STATE_BYTES = 1024 * 1024
"""Bytes of the largest state that is read for a list."""
PAGE_BYTES = 64 * 1024 * 1024
"""Bytes of the states that are read for one page of a list."""
ENTRIES = 300
"""Newest entries of a log that are summed up."""
SOME_STEPS, STEPS = 20, 300
"""Newest steps of a thread whose metadata is summed up: the rest if some of the first state it."""
STEP_BYTES = 4 * 1024 * 1024
"""Bytes of a thread's states that are read to tell which messages a step added."""
KEPT = 5_000
"""Summaries that are kept."""
AT_ONCE = 8
"""Threads that are read at the same time."""
TITLE = 140
"""Characters of a title."""

TITLE_KEYS = ("title", "name", "subject")
"""Keys of a thread's metadata that say what it is about."""
AGENT_KEYS = (DIMENSION_KEYS[0], "agent_name", "agent_id", "assistant_id", "graph_id")
USER_KEYS = (DIMENSION_KEYS[1], "user", "userId")
"""Keys of metadata that name the agent, and the person it worked for, in the order of rank."""

_QUESTIONS = ("question", "message", "prompt", "text", "title", "description", "action")
"""Keys of an interrupt's value that hold what is asked."""


@dataclass(slots=True)
class MessageSums:
    """Sums over messages, and over what steps took.

    Attributes:
        models: the usage of each model by day; ``None`` stands for a model without a name.
        tools: the numbers of calls and of failed results of each tool by day.
    """

    messages: int = 0
    errors: int = 0
    usage: Usage = field(default_factory=Usage)
    models: dict[tuple[str, str | None], tuple[int, Usage]] = field(default_factory=dict)
    tools: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def add_usage(self, day: str, usage: Usage, *, answers: int = 1) -> None:
        """Add the usage of some answers."""
        count, before = self.models.get((day, usage.model), (0, Usage()))
        self.models[day, usage.model] = count + answers, before + usage
        self.usage += usage

    def add_message(self, day: str, given: Message) -> None:
        """Add a message without its usage."""
        self.messages += 1
        names = {call["id"]: call["name"] for call in given["calls"]}
        for call in given["calls"]:
            self._add_calls(day, call["name"], 1, 0)
        for result in given["results"]:
            if result["error"]:
                self.errors += 1
                self._add_calls(day, result["name"] or names.get(result["id"]), 0, 1)

    def _add_calls(self, day: str, name: str | None, calls: int, errors: int) -> None:
        key = day, name or "tool"
        before = self.tools.get(key, (0, 0))
        self.tools[key] = before[0] + calls, before[1] + errors


@dataclass(frozen=True, slots=True)
class _Answer:
    """A message that states a usage."""

    index: int
    day: str
    usage: Usage


@dataclass(slots=True)
class _Budget:
    """Bytes of steps' states that may still be read for one page of a list."""

    left: int


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """A summary of a thread: its subject, the people and agents in it, and its usage.

    Attributes:
        problem: why its content was not read: ``large``, or the name of an error.
        is_partial: true if only the newest entries or steps were summed up.
        asked: what it waits for an answer to; ``None`` if it does not wait.
        happened_at: the time of its newest step or entry, which an import keeps.
    """

    title: str | None
    agent: str | None
    user: str | None
    asked: str | None
    happened_at: datetime
    sums: MessageSums
    problem: str | None = None
    is_partial: bool = False

    @property
    def is_unreadable(self) -> bool:
        """True if the content lacks a key or is damaged, so that nobody can say what is in it."""
        return self.problem not in (None, LARGE, DELETED)

    def as_record(self) -> Record:
        """Return it as plain JSON."""
        usage, read = self.sums.usage, self.problem is None
        return {
            "title": self.title,
            "agent": self.agent,
            "user": self.user,
            "waiting": self.asked is not None,
            "asked": self.asked,
            "messages": self.sums.messages if read else None,
            "errors": self.sums.errors if read else None,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
            "happened_at": time(self.happened_at),
            "partial": self.is_partial,
            "problem": self.problem,
        }


class ThreadSummaries:
    """Reads the summaries of threads; those that were read last are kept.

    A summary takes the newest state of a thread, or its newest entries: at most `STATE_BYTES` of a
    thread, `PAGE_BYTES` of all that are asked for at once.
    """

    def __init__(self, states: States, digests: StepDigests) -> None:
        self.db: Database = states.db
        self._states = states
        self._digests = digests
        self._kept: BoundedCache[Any, ThreadSummary] = BoundedCache(KEPT)

    async def read(
        self, heads: Sequence[Any], newest: Mapping[Any, CheckpointInfo]
    ) -> dict[Any, ThreadSummary]:
        """Return the summaries of logs by their keys; *newest* has their newest checkpoints."""
        found: dict[Any, ThreadSummary] = {}
        budget = PAGE_BYTES
        steps = _Budget(PAGE_BYTES)
        missing: list[tuple[Any, bool]] = []
        for head in heads:
            if (known := self._kept.get((head.log_id, head.updated_at))) is not None:
                found[head.log_id] = known
                continue
            info = newest.get(head.log_id)
            size = 0 if info is None else info.raw_size
            fits = size <= min(STATE_BYTES, budget)
            budget -= size if fits else 0
            missing.append((head, fits))
        for first in range(0, len(missing), AT_ONCE):
            some = missing[first : first + AT_ONCE]
            read = (
                self._read_one(head, newest.get(head.log_id), fits, steps) for head, fits in some
            )
            for (head, fits), summary in zip(some, await together(*read), strict=True):
                found[head.log_id] = summary
                if fits and steps.left > 0:
                    self._kept.put((head.log_id, head.updated_at), summary)
        return found

    async def _read_one(
        self, head: Any, info: CheckpointInfo | None, fits: bool, budget: _Budget
    ) -> ThreadSummary:
        try:
            return await self._read_content(head, info, fits, budget)
        except NotFound:  # it was deleted meanwhile
            return _without_content(head, info, DELETED)
        except (KeyMissing, NotEncrypted, Corrupt) as error:
            return _without_content(head, info, type(error).__name__)

    async def _read_content(
        self, head: Any, info: CheckpointInfo | None, fits: bool, budget: _Budget
    ) -> ThreadSummary:
        log = Log(self.db.tenant, head.thread_id, head.namespace)
        if info is None:
            return await self._read_entries(head, log, None, budget)
        writes = await count_writes(self.db, log, [info.checkpoint_id])
        _, waits = writes.get(info.checkpoint_id, (0, False))
        asked = None
        if waits:
            asked = question_of(await read_interrupts_of(self._states, log, info))
        if not fits:
            return _without_content(head, info, LARGE, asked)
        loaded = await self._states.load(log, info)
        if loaded.found is None and await entry_log_of(self.db, log).tail(log.thread_id, 1):
            return await self._read_entries(head, log, info, budget)

        messages = [] if loaded.found is None else loaded.found[1]

        def summary() -> tuple[ThreadSummary, list[_Answer]]:
            waiting = asked
            if waiting is None:
                waiting = question_of(interrupts_of_state(loaded.state, info.namespace))
            records = [(stored_message(at, one), one) for at, one in enumerate(messages)]
            return _summary(head, info, records, waiting)

        found, answers = await asyncio.to_thread(summary)
        return await self._with_usage(head, log, info, found, answers, messages, budget)

    async def _with_usage(
        self,
        head: Any,
        log: Log,
        info: CheckpointInfo | None,
        summary: ThreadSummary,
        answers: Sequence[_Answer],
        messages: Sequence[Any],
        budget: _Budget,
    ) -> ThreadSummary:
        """Return a summary with what the thread's steps and answers took.

        *answers* are those of the newest state, which holds *messages*, or of the newest entries.
        Without any usage of these, the metadata of the thread counts.
        """
        steps, is_cut = ([], False) if info is None else await self._steps_with_usage(log)
        counted: set[int] = set()
        if steps:
            read = self._add_usage_of_steps(log, summary.sums, steps, answers, messages, budget)
            counted, is_complete = await read
            is_cut = is_cut or not is_complete
        for one in answers:
            if one.index not in counted:
                summary.sums.add_usage(one.day, one.usage)
        if not summary.sums.models and (usage := usage_of_metadata(head.meta)) is not None:
            summary.sums.add_usage(_day(summary.happened_at), usage)
        return replace(summary, is_partial=summary.is_partial or is_cut)

    async def _steps_with_usage(self, log: Log) -> tuple[list[CheckpointInfo], bool]:
        """Return the steps whose metadata states a usage, and whether there may be older ones.

        The metadata of the newest few tells whether that of the others is read.
        """
        found: list[CheckpointInfo] = []
        is_cut = False
        for limit in (SOME_STEPS, STEPS):
            steps = checkpointer_of(self.db, log).history(log.thread_id, limit=limit + 1)
            infos = [one async for one in steps]
            found = [one for one in infos[:limit] if usage_of_metadata(one.metadata) is not None]
            is_cut = bool(found) and len(infos) > limit
            if not is_cut:
                break
        return found, is_cut

    async def _add_usage_of_steps(
        self,
        log: Log,
        sums: MessageSums,
        steps: Sequence[CheckpointInfo],
        answers: Sequence[_Answer],
        messages: Sequence[Any],
        budget: _Budget,
    ) -> tuple[set[int], bool]:
        """Add what *steps* took, each by the rule of `usages_of_step`.

        States are read, as far as the budget goes, if it matters which step added an answer. Of a
        step whose state was not read, numbers count that no answer states.

        Returns:
            The indexes of the answers that counted with a step, and whether all states were read
            that it took.
        """
        noted = {one.checkpoint_id: usage_of_metadata(one.metadata) or Usage() for one in steps}
        digests: Mapping[str, StepDigest] = {}
        is_needed = _depends_on_steps(answers, noted.values())
        if is_needed:
            most = min(STEP_BYTES, budget.left)
            digests, _ = await self._digests.read(log, steps, most=most)
            read = sum(one.raw_size for one in steps if one.checkpoint_id in digests)
            is_spent = most < STEP_BYTES and len(digests) < len(steps)
            budget.left = 0 if is_spent else budget.left - read
        taken = frozenset[Place]().union(*(one.answers for one in digests.values()))
        places = list(numbered(marks_of(messages))) if taken else []
        counted = {one.index for one in answers if places and places[one.index] in taken}
        others = [one for one in answers if one.index not in counted]
        stated = {name for one in others for name in one.usage.as_metadata()}
        models = {one.usage.model for one in others}
        for info in steps:
            day = _day(info.occurred_at)
            if (digest := digests.get(info.checkpoint_id)) is not None:
                sums.add_usage(day, digest.usage, answers=max(len(digest.answers), 1))
                continue
            own = noted[info.checkpoint_id].as_metadata()
            rest = Usage(**{name: one for name, one in own.items() if name not in stated})
            if len(models) == 1:
                rest = replace(rest, model=next(iter(models)) or rest.model)
            if any(getattr(rest, name) is not None for name in USAGE_KEYS[1:]):
                sums.add_usage(day, rest, answers=0 if others else 1)
        return counted, not is_needed or len(digests) == len(steps)

    async def _read_entries(
        self, head: Any, log: Log, info: CheckpointInfo | None, budget: _Budget
    ) -> ThreadSummary:
        entries = await read_tail(self.db, log, ENTRIES + 1, None)
        first = entries[:1]
        if len(entries) > ENTRIES:
            first = await entry_log_of(self.db, log).range(log.thread_id, limit=20)
            entries = entries[-ENTRIES:]
        total = len(entries)
        if total == ENTRIES:
            total = await entry_log_of(self.db, log).count(log.thread_id)

        def summary() -> tuple[ThreadSummary, list[_Answer]]:
            records = [
                (stored_message(one.position, one.value, one.occurred_at), one.value)
                for one in entries
            ]
            beginning = [stored_message(one.position, one.value) for one in first]
            found, answers = _summary(head, info, records, None, beginning, entries[-1:])
            found.sums.messages = total
            return found, answers

        found, answers = await asyncio.to_thread(summary)
        return await self._with_usage(head, log, info, found, answers, (), budget)


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def _depends_on_steps(answers: Sequence[_Answer], noted: Iterable[Usage]) -> bool:
    """Return whether sums depend on which steps, of which metadata states usages, added answers.

    They do not if no number is stated by both, and all is of one model.
    """
    models = {one.usage.model for one in answers}
    stated = {name for one in answers for name in one.usage.as_metadata()} - {"model"}
    for usage in noted:
        models |= {usage.model} - {None}
        if stated & usage.as_metadata().keys():
            return True
    return bool(answers) and len(models) > 1


def _summary(
    head: Any,
    info: CheckpointInfo | None,
    records: Sequence[tuple[Message, Any]],
    asked: str | None,
    beginning: Sequence[Message] = (),
    last: Sequence[Any] = (),
) -> tuple[ThreadSummary, list[_Answer]]:
    """Return the summary of a thread without what it took, and its answers that state a usage.

    Its messages are *records*, each with its stored value. Of several messages that are parts of
    one answer, the first counts.

    *beginning* has its first messages where *records* do not, and *last* its newest entry.
    """
    happened = [one.occurred_at for one in last] + ([] if info is None else [info.occurred_at])
    at = max(happened, default=head.updated_at)
    sums = MessageSums()
    answers: dict[Any, _Answer] = {}
    for given, value in records:
        day = (given["occurred_at"] or _day(at))[:10]
        sums.add_message(day, given)
        if given["usage"] is not None:
            index = given["index"]
            one = _Answer(index, day, Usage(**given["usage"]))
            answers.setdefault(response_id(unwrapped(value)) or index, one)
    own = [head.meta, *([] if info is None else [info.metadata])]
    answers_said = (
        one for one, _ in reversed(records) if one["role"] == "assistant" and one["text"]
    )
    speakers = (one["name"] for one in answers_said)
    summary = ThreadSummary(
        title=_text_under(own[:1], TITLE_KEYS)
        or _first_words([*beginning, *(given for given, _ in records)]),
        agent=_text_under(own, AGENT_KEYS) or next(filter(None, speakers), None),
        user=_text_under(own, USER_KEYS),
        asked=asked,
        happened_at=at,
        sums=sums,
        is_partial=bool(last) and len(records) == ENTRIES,
    )
    return summary, list(answers.values())


def _without_content(
    head: Any, info: CheckpointInfo | None, problem: str, asked: str | None = None
) -> ThreadSummary:
    """Return what the metadata of a thread tells alone."""
    own = [head.meta, *([] if info is None else [info.metadata])]
    return ThreadSummary(
        title=_text_under(own[:1], TITLE_KEYS),
        agent=_text_under(own, AGENT_KEYS),
        user=_text_under(own, USER_KEYS),
        asked=asked,
        happened_at=head.updated_at if info is None else info.occurred_at,
        sums=MessageSums(),
        problem=problem,
    )


def _first_words(records: Iterable[Message]) -> str | None:
    """Return what the user said first, or else the first words of anybody but the system."""
    spoken = [one for one in records if one["text"] and one["role"] not in ("system", "developer")]
    said = next((one for one in spoken if one["role"] == "user"), next(iter(spoken), None))
    return None if said is None else preview(said["text"], TITLE)


def _text_under(holders: Iterable[Any], keys: Sequence[str]) -> str | None:
    for holder in holders:
        for key in keys:
            found = holder.get(key) if isinstance(holder, dict) else None
            if isinstance(found, (str, int)) and not isinstance(found, bool) and found != "":
                return preview(str(found), TITLE)
    return None


def question_of(interrupts: Sequence[Record]) -> str | None:
    """Return what interrupts ask, on one line; ``None`` if there are none."""
    if not interrupts:
        return None
    found = (_question_in(one["value"]) for one in interrupts)
    return " · ".join(found) or "…"


def _question_in(value: Any) -> str:
    given = unwrapped(value)
    for holder in _dicts_in(given):
        for key in _QUESTIONS:
            if isinstance(text := holder.get(key), str) and text.strip():
                return preview(text, TITLE)
    return preview(given, TITLE)


def _dicts_in(value: Any, depth: int = 3) -> Iterator[Mapping[str, Any]]:
    """Yield a mapping and those in it, as far as *depth* goes."""
    if isinstance(value, dict):
        yield value
    if depth and isinstance(value, (dict, list)):
        for one in list(value.values() if isinstance(value, dict) else value)[:10]:
            yield from _dicts_in(one, depth - 1)


async def read_newest(db: Database, heads: Sequence[Any]) -> dict[Any, CheckpointInfo]:
    """Return the newest checkpoints of logs, without their states, by the keys of the logs."""
    found: dict[Any, CheckpointInfo] = {}
    by_name = {(head.thread_id, decode_namespace(head.namespace)): head.log_id for head in heads}
    listed = [(head.log_id,) for head in heads if head.head_id is not None]
    for binds in db.dialect.statements.list_batches("p_logs", listed):
        for row in await query(db, statements.read_newest_checkpoints, binds):
            info = listing.info(db, row)
            found[by_name[info.thread_id, info.namespace]] = info
    return found

"""A tool exchange of a conversation while it is open: calls, and results as they come.

It lies in a log of its own beside the conversation, so that nobody is shown a half of it, and is
there after a crash. Committed, it becomes messages of the conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memalchemy.contracts import UNSET, Entry, Seconds
from memalchemy.database import HostConnection
from memalchemy.errors import Conflict, NotFound
from memalchemy.events import Event, publish
from memalchemy.memory.summarised import within
from memalchemy.messages import calls_of, results_of
from memalchemy.state import Message
from memalchemy.threads import ThreadLog

EXCHANGE = "exchange"
"""The last part of the namespace where it lies."""


@dataclass(frozen=True, slots=True)
class ToolExchange:
    """Calls of tools that are being answered: ``calls``, the assistant's message, was added at
    ``begun_at``, ``results`` since.
    """

    calls: Message
    results: tuple[Message, ...]
    begun_at: datetime

    @property
    def missing(self) -> list[str]:
        """The ids of calls without a result, in the order of the calls."""
        there = {id_ for result in self.results for id_ in results_of(result)}
        return [id_ for id_ in calls_of(self.calls) if id_ is not None and id_ not in there]

    @property
    def messages(self) -> list[Message]:
        """The calls, and the results that there are."""
        return [self.calls, *self.results]


class Exchanging:
    """The open exchange of a `Conversation`; there is one at most."""

    log: ThreadLog
    thread_id: str

    def _opened_in(self, log: ThreadLog, ttl: Seconds | None) -> None:
        namespace = (*log.namespace, EXCHANGE)
        self._open = ThreadLog(log.db, namespace=namespace, index_text=False, ttl=ttl)

    async def begin_tool_exchange(
        self, message: Any, *, connection: HostConnection | None = None
    ) -> ToolExchange:
        """Keep an assistant's *message* that calls tools until all their results are there.

        `messages`, `history` and the rest do not show it before `commit_tool_exchange`. It outlives
        a crash: `active_tool_exchange` gives it to whoever goes on.

        Raises:
            ValueError: it calls no tool, or has a call without an id, or two of one id.
            Conflict: an exchange is open already.
            TypeError, NotSerialisable, TooLarge: as `Conversation.add`.
        """
        calls = Message.of(message)
        _check_calls(calls_of(calls))
        async with within(self.log.db, connection) as tx:
            head = await self._open.hold(self.thread_id, tx)
            if head is not None and await self._read(tx) is not None:
                raise Conflict(
                    f"a tool exchange is open in thread {self.thread_id!r}: commit or abort it "
                    "before another begins"
                )
            await self._open.append(
                self.thread_id,
                calls.to_record(),
                expected_version=0 if head is None else UNSET,
                connection=tx,
            )
            found = await self._read(tx)
        assert found is not None
        self._tell("begun", found)
        return found

    async def active_tool_exchange(
        self, *, connection: HostConnection | None = None
    ) -> ToolExchange | None:
        """The exchange that was begun and neither committed nor aborted, whoever began it."""
        return await self._read(connection)

    async def add_tool_results(
        self, *results: Any, connection: HostConnection | None = None
    ) -> ToolExchange:
        """Keep results of calls of the open exchange, all or none; the exchange as it is then.

        A result that is there, word for word, is not added again.

        Raises:
            ValueError: a result is for no call of the exchange, or for one that has another.
            NotFound: no exchange is open.
        """
        async with within(self.log.db, connection) as tx:
            return await self._answered(results, tx)

    async def commit_tool_exchange(
        self, *results: Any, connection: HostConnection | None = None
    ) -> list[int]:
        """Make the open exchange messages of the conversation, the calls first; their positions.

        *results* are added before, as by `add_tool_results`. One transaction: the conversation has
        all of it, or the exchange is open as it was.

        Raises:
            ValueError: a call has no result yet, or as `add_tool_results`.
            NotFound: no exchange is open.
        """
        async with within(self.log.db, connection) as tx:
            found = await self._answered(results, tx)
            if found.missing:
                raise ValueError(
                    f"calls without a result: {', '.join(map(repr, found.missing))}; give results "
                    "for them, or abort the exchange"
                )
            records = [message.to_record() for message in found.messages]
            positions = await self.log.append(self.thread_id, records, connection=tx)
            await self._open.clear(self.thread_id, connection=tx)
        self._tell("committed", found)
        return positions

    async def abort_tool_exchange(
        self, *, connection: HostConnection | None = None
    ) -> ToolExchange | None:
        """End the open exchange without a trace in the conversation; what it was, or ``None``."""
        async with within(self.log.db, connection) as tx:
            await self._open.hold(self.thread_id, tx)
            found = await self._read(tx)
            if found is not None:
                await self._open.clear(self.thread_id, connection=tx)
        if found is not None:
            self._tell("aborted", found)
        return found

    async def _answered(self, results: Sequence[Any], tx: HostConnection) -> ToolExchange:
        """The open exchange with *results*, which are kept; nobody else changes it meanwhile."""
        given = [Message.of(result) for result in results]
        await self._open.hold(self.thread_id, tx)
        found = await self._read(tx)
        if found is None:
            raise NotFound(f"no tool exchange is open in thread {self.thread_id!r}")
        new = [result for result in given if result not in found.results]
        _check_results(found, new)
        if new:
            records = [result.to_record() for result in new]
            await self._open.append(self.thread_id, records, connection=tx)
        return ToolExchange(found.calls, (*found.results, *new), found.begun_at)

    async def _read(self, connection: HostConnection | None) -> ToolExchange | None:
        entries: list[Entry] = await self._open.range(self.thread_id, connection=connection)
        if not entries:
            return None
        calls, *results = (Message.of(entry.value) for entry in entries)
        return ToolExchange(calls, tuple(results), entries[0].occurred_at)

    def _tell(self, what: str, exchange: ToolExchange) -> None:
        details: dict[str, object] = {
            "calls": len(calls_of(exchange.calls)),
            "results": len(exchange.results),
        }
        tenant = self.log.db.tenant
        publish(Event(f"memory.exchange.{what}", tenant, self.thread_id, details=details))


def _check_calls(calls: list[str | None]) -> None:
    if not calls:
        raise ValueError("a tool exchange begins with an assistant's message that calls tools")
    if not all(calls):
        raise ValueError("each call of a tool exchange needs an id, for its result to name")
    if twice := _several(calls):
        raise ValueError(f"two calls have one id: {', '.join(twice)}")


def _check_results(exchange: ToolExchange, new: list[Message]) -> None:
    for result in new:
        if not results_of(result):
            raise ValueError(f"a message of the role {result.role!r} is no result of a tool")
    ids = [id_ for result in new for id_ in results_of(result)]
    called = calls_of(exchange.calls)
    if strange := sorted({repr(id_) for id_ in ids if id_ not in called}):
        raise ValueError(
            f"results of no call in the open exchange: {', '.join(strange)}; its calls are "
            f"{', '.join(map(repr, called))}"
        )
    there = [id_ for result in exchange.results for id_ in results_of(result)]
    if twice := _several([*there, *ids]):
        raise ValueError(f"calls that have a result already: {', '.join(twice)}")


def _several(ids: list[str | None]) -> list[str]:
    return sorted(repr(id_) for id_, times in Counter(ids).items() if times > 1)

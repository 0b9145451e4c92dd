"""Branches of a session, its turns, and what each turn used: as `AdvancedSQLiteSession` has them.

A branch is a log of its own, copied inside the database, so branches share nothing afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from memalchemy.contracts import Seconds
from memalchemy.database import Database
from memalchemy.errors import Conflict
from memalchemy.importers.openai_places import (
    MAIN,
    branch_namespace,
    branch_of,
    is_turn,
    usage_key,
    usage_namespace,
)
from memalchemy.integrations.openai_agents.items import kind_of, text_of, tool_of
from memalchemy.integrations.openai_agents.opening import settled
from memalchemy.log.listing import entry_logs
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

if TYPE_CHECKING:
    from agents import RunResult
    from agents.result import RunResultStreaming

COUNTED = ("requests", "input_tokens", "output_tokens", "total_tokens")


class Branches:
    """The half of `MemalchemySession` that is about branches and turns.

    An object is on one branch, ``branch``, and the `Session` methods mean that one. Turns are
    counted from 1: a user's message begins one. Items that come before the first are turn 0.
    """

    def __init__(
        self, session_id: str, db: Database, branch: str, *, index_text: bool, ttl: Seconds | None
    ) -> None:
        self.session_id = session_id
        self.db = db
        self.store = Store(db)
        self._index_text, self._ttl = index_text, ttl
        self._switch(branch)

    @property
    def branch(self) -> str:
        """The branch that this object is on."""
        return self._branch

    @property
    def log(self) -> ThreadLog:
        """The log of that branch; its thread is the session's id."""
        return self._log

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """A new branch of what was there before a turn; be on it. Its name.

        Raises:
            ValueError: there is no such turn, or the branch is there already.
        """
        for position, number in await self._turns():
            if number == turn_number:
                name = branch_name or f"branch_from_turn_{turn_number}_{uuid4().hex[:8]}"
                return await self.create_branch(name, before=position)
        raise ValueError(f"branch {self.branch!r} has no turn {turn_number}")

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """The same from the first turn whose message contains *search_term*."""
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(f"no turn of branch {self.branch!r} contains {search_term!r}")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def create_branch(self, name: str, *, before: int | None = None) -> str:
        """A new branch of what is there *before* a position, or of everything; be on it.

        Positions are those of `get_conversation_turns` and of the log.

        Raises:
            ValueError: it has no name, or is there already.
        """
        target = branch_namespace(name)
        last = await self.log.tail(self.session_id, 1, before=before)
        taken = ValueError(f"session {self.session_id!r} has a branch {name!r} already")
        if name in (MAIN, self.branch):
            raise taken
        other = self._log_of(name)
        if not last:
            if await other.tail(self.session_id, 1):
                raise taken
        else:
            copied = self.log.fork(
                self.session_id, last[0].position, new_thread_id=self.session_id, namespace=target
            )
            try:
                await settled(copied)
            except Conflict:
                raise taken from None
        self._switch(name)
        return name

    async def switch_to_branch(self, branch_id: str) -> None:
        """Be on another branch.

        Raises:
            ValueError: it is not there.
        """
        if branch_id != MAIN and not await self._log_of(branch_id).tail(self.session_id, 1):
            raise ValueError(f"session {self.session_id!r} has no branch {branch_id!r}")
        self._switch(branch_id)

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Delete a branch with its usage. With *force* also the one this is on; then be on main.

        Raises:
            ValueError: it is not there, is main, or is the one this is on.
        """
        log = self._log_of(branch_id)
        if branch_id == MAIN:
            raise ValueError("the main branch stays; clear_session() empties it")
        if branch_id == self.branch and not force:
            raise ValueError(f"this is on branch {branch_id!r}; switch first, or give force=True")

        async def delete() -> bool:
            async with self.db.transaction() as tx:
                was_there = await log.delete(self.session_id, connection=tx)
                usage = usage_namespace(self.session_id, branch_id)
                await self.store.clear_namespace(usage, connection=tx)
            return was_there

        was_there = await settled(delete())
        if branch_id == self.branch:
            self._switch(MAIN)
        elif not was_there:
            raise ValueError(f"session {self.session_id!r} has no branch {branch_id!r}")

    async def list_branches(self) -> list[dict[str, Any]]:
        """The branches that hold something, oldest first.

        Each with ``branch_id``, ``message_count``, ``user_turns``, ``is_current``, ``created_at``,
        ``updated_at``. Turns are counted by reading the branch.
        """
        found = []
        for log in await entry_logs(self.db.primary(), self.session_id, limit=10_000):
            branch = branch_of(log.namespace)
            if branch is not None:
                turns = await self._turns(branch)
                found.append(
                    {
                        "branch_id": branch,
                        "message_count": log.entries,
                        "user_turns": len(turns),
                        "is_current": branch == self.branch,
                        "created_at": log.created_at,
                        "updated_at": log.updated_at,
                    }
                )
        return sorted(found, key=lambda one: (one["branch_id"] != MAIN, one["created_at"]))

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """The users' messages: ``turn``, ``content`` (at most 100 characters), ``full_content``,
        ``timestamp``, ``position``, ``can_branch``.
        """
        entries = await self._log_of(branch_id).range(self.session_id)
        turns = [entry for entry in entries if is_turn(entry.value)]
        return [
            {
                "turn": number,
                "content": _shortened(text_of(entry.value)),
                "full_content": entry.value.get("content", ""),
                "timestamp": entry.occurred_at,
                "position": entry.position,
                "can_branch": True,
            }
            for number, entry in enumerate(turns, start=1)
        ]

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Those turns whose message contains *search_term*, in whatever case."""
        wanted = search_term.casefold()
        turns = await self.get_conversation_turns(branch_id)
        return [turn for turn in turns if wanted in text_of(turn["full_content"]).casefold()]

    async def get_conversation_by_turns(
        self, branch_id: str | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """The ``type`` and ``tool_name`` of every item, by turn."""
        found: dict[int, list[dict[str, str | None]]] = {}
        for number, item in await self._by_turn(branch_id):
            found.setdefault(number, []).append({"type": kind_of(item), "tool_name": tool_of(item)})
        return found

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """How often a tool was called in a turn: ``(name, calls, turn)``, in the order of turns."""
        calls: Counter[tuple[int, str]] = Counter()
        for number, item in await self._by_turn(branch_id):
            name = tool_of(item)
            if name is not None and kind_of(item).endswith(("_call", "_request")):
                calls[number, name] += 1
        ordered = sorted(calls.items(), key=lambda one: one[0][0])
        return [(name, count, number) for (number, name), count in ordered]

    async def store_run_usage(self, result: RunResult | RunResultStreaming) -> None:
        """Keep what a run used as that of the newest turn of this branch. Call it after the run.

        Another run of the same turn replaces it. It goes with its turn: usage of a turn that was
        popped is not reported.
        """
        turns = await self._turns()
        if not turns:
            return
        usage = result.context_wrapper.usage
        value: dict[str, Any] = {name: getattr(usage, name) or 0 for name in COUNTED}
        for name in ("input_tokens_details", "output_tokens_details"):
            details = getattr(usage, name, None)
            value[name] = None if details is None else details.model_dump()
        place = usage_namespace(self.session_id, self.branch)
        await settled(self.store.put(place, usage_key(turns[-1][0]), value, index=False))

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """What each turn used, in order; or the one of that number, and ``{}`` if it is not known.

        With ``requests``, ``input_tokens``, ``output_tokens``, ``total_tokens``,
        ``input_tokens_details``, ``output_tokens_details``.
        """
        known = await self._usage(branch_id or self.branch)
        if user_turn_number is not None:
            return next((usage for number, usage in known if number == user_turn_number), {})
        return [{"user_turn_number": number, **usage} for number, usage in known]

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """What all turns used, of one branch or of all; ``None`` if nothing is known."""
        branches = [branch_id or MAIN]
        if not branch_id:
            branches = [branch["branch_id"] for branch in await self.list_branches()]
        known = [usage for branch in branches for _, usage in await self._usage(branch)]
        if not known:
            return None
        total = {name: sum(usage[name] for usage in known) for name in COUNTED}
        return total | {"total_turns": len(known)}

    def _switch(self, branch: str) -> None:
        self._branch = branch
        namespace = branch_namespace(branch)
        self._log = ThreadLog(
            self.db, namespace=namespace, index_text=self._index_text, ttl=self._ttl
        )

    def _log_of(self, branch: str | None) -> ThreadLog:
        return ThreadLog(self.db, namespace=branch_namespace(branch or self.branch))

    async def _turns(self, branch: str | None = None) -> list[tuple[int, int]]:
        """The position and number of each turn."""
        items = await self._items(branch, lambda position, item, _: (position, is_turn(item)))
        begun = [position for position, begins in items if begins]
        return list(zip(begun, range(1, len(begun) + 1), strict=True))

    async def _usage(self, branch: str) -> list[tuple[int, dict[str, Any]]]:
        """The number and usage of each turn of which it is known, in order."""
        turns = dict(await self._turns(branch))
        place = usage_namespace(self.session_id, branch)
        items = await self.store.list_items(place, order="key", limit=1_000_000)
        by_turn = ((turns.get(int(item.key)), item.value) for item in items)
        return [(number, usage) for number, usage in by_turn if number is not None]

    async def _by_turn(self, branch: str | None) -> list[tuple[int, Any]]:
        number, found = 0, []
        for item in await self._items(branch):
            number += is_turn(item)
            found.append((number, item))
        return found

    async def _items(
        self, branch: str | None = None, make: Callable[[int, Any, int], Any] | None = None
    ) -> list[Any]:
        _, found = await self._log_of(branch).scan(self.session_id, make or _value)
        return found


def _value(_: int, item: Any, __: int) -> Any:
    return item


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."

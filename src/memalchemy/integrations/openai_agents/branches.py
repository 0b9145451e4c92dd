"""Branches of a session, its turns, and what each turn used: as `AdvancedSQLiteSession` has them.

A branch is a log of its own, copied inside the database, so branches share nothing afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from memalchemy.contracts import Seconds, StoreItem
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Conflict, TooLarge
from memalchemy.importers.openai_places import (
    BRANCHES,
    MAIN,
    branch_namespace,
    branch_of,
    is_turn,
    usage_key,
    usage_namespace,
)
from memalchemy.integrations.openai_agents.items import kind_of, text_of, tool_of
from memalchemy.integrations.openai_agents.opening import settled
from memalchemy.keys import encode_namespace
from memalchemy.log.listing import entry_logs
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

if TYPE_CHECKING:
    from agents import RunResult
    from agents.result import RunResultStreaming

COUNTED = ("requests", "input_tokens", "output_tokens", "total_tokens")

OPEN, DELETED, CLEARED = "open", "deleted", "cleared"
"""The states of a branch's name, which is never free again once it was used."""


class Branches:
    """The half of `MemalchemySession` that is about branches and turns.

    An object is on one branch, ``branch``, and the `Session` methods mean that one. Turns are
    counted from 1: a user's message begins one. Items that come before the first are turn 0.

    A branch's name is used once in the life of a session: nobody who is still on a branch that was
    deleted or cleared writes into another one of the same name.
    """

    def __init__(
        self, session_id: str, db: Database, branch: str, *, index_text: bool, ttl: Seconds | None
    ) -> None:
        self.session_id = session_id
        self.db = db
        self._store = Store(db)
        self._is_closed = False
        self._index_text, self._ttl = index_text, ttl
        self._switch(branch)

    @property
    def branch(self) -> str:
        """The branch that this object is on."""
        return self._branch

    @property
    def log(self) -> ThreadLog:
        """The log of that branch; its thread is the session's id."""
        self._check_open()
        return self._log

    @property
    def store(self) -> Store:
        """The store in which usage and the names of branches lie."""
        self._check_open()
        return self._store

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """A new branch of what was there before a turn; be on it. Its name.

        Raises:
            ValueError: there is no such turn; the name is blank, or has been used in this session.
        """
        name = branch_name
        if name is None:
            name = f"branch_from_turn_{turn_number}_{uuid4().hex[:8]}"
        return await self._create(name, turn=turn_number)

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """The same from the first turn whose message contains *search_term*."""
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(
                f"No user turns found containing {search_term!r} in branch {self.branch!r}"
            )
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def create_branch(self, name: str, *, before: int | None = None) -> str:
        """A new branch of what is there *before* a position, or of everything; be on it.

        Positions are those of `get_conversation_turns` and of the log.

        Raises:
            ValueError: the name is blank, or has been used in this session.
        """
        return await self._create(name, before=before)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Be on another branch.

        Raises:
            ValueError: it holds nothing.
        """
        if branch_id != MAIN and not await self._log_of(branch_id).tail(self.session_id, 1):
            raise self._missing(branch_id)
        self._check_open()
        self._switch(branch_id)

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Delete a branch with its usage. With *force* also the one this is on; then be on main.

        Its name stays used.

        Raises:
            ValueError: it holds nothing, is main, or is the one this is on.
        """
        if not branch_id or not branch_id.strip():
            raise ValueError("Branch ID cannot be empty")
        log = self._log_of(branch_id)
        if branch_id == MAIN:
            raise ValueError("Cannot delete the 'main' branch; clear_session() empties it")
        if branch_id == self.branch and not force:
            raise ValueError(
                f"Cannot delete current branch {branch_id!r}: switch to another, or give force=True"
            )

        async def delete() -> None:
            async with self.db.transaction() as tx:
                if not await log.tail(self.session_id, 1, connection=tx):
                    raise self._missing(branch_id)
                await log.delete(self.session_id, connection=tx)
                usage = usage_namespace(self.session_id, branch_id)
                await self.store.clear_namespace(usage, connection=tx)
                await self._set_states(lambda known: known | {branch_id: DELETED}, tx)

        await settled(delete())
        if branch_id == self.branch:
            self._switch(MAIN)

    async def list_branches(self) -> list[dict[str, Any]]:
        """The branches that hold something, oldest first.

        Each with ``branch_id``, ``message_count``, ``user_turns``, ``is_current``, ``created_at``,
        ``updated_at``. Turns are counted by reading the branch.
        """
        current = await self._current(None)
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
                        "is_current": branch == current,
                        "created_at": log.created_at,
                        "updated_at": log.updated_at,
                    }
                )
        return sorted(found, key=lambda one: (one["branch_id"] != MAIN, one["created_at"]))

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """The users' messages: ``turn``, ``content`` (at most 100 characters), ``full_content``,
        ``timestamp``, ``position``, ``can_branch``.
        """
        turns = await self._told(branch_id)
        return [turn | {"content": _shortened(turn["content"])} for turn in turns]

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Those turns whose message contains *search_term*, in whatever case.

        As `get_conversation_turns`, but ``content`` is the whole text.
        """
        wanted = search_term.casefold()
        turns = await self._told(branch_id)
        return [turn for turn in turns if wanted in turn["content"].casefold()]

    async def get_conversation_by_turns(
        self, branch_id: str | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """The ``type`` and ``tool_name`` of every item, by turn."""
        found: dict[int, list[dict[str, str | None]]] = {}
        for number, item in await self._by_turn(branch_id):
            found.setdefault(number, []).append({"type": kind_of(item), "tool_name": tool_of(item)})
        return found

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """How often a tool was called in a turn: ``(name, calls, turn)``, in the order of turns.

        What a tool search found counts as a call where the turn holds no call of it: a search that
        a server makes by itself has none.
        """
        calls: Counter[tuple[int, str]] = Counter()
        searched: Counter[tuple[int, str]] = Counter()
        for number, item in await self._by_turn(branch_id):
            kind, name = kind_of(item), tool_of(item)
            if name is not None and kind.endswith(("_call", "_request")):
                calls[number, name] += 1
            elif name is not None and kind == "tool_search_output":
                searched[number, name] += 1
        calls.update({place: count for place, count in searched.items() if place not in calls})
        ordered = sorted(calls.items(), key=lambda one: one[0][0])
        return [(name, count, number) for (number, name), count in ordered]

    async def store_run_usage(self, result: RunResult | RunResultStreaming) -> None:
        """Keep what a run used as that of the newest turn of this branch. Call it after the run.

        Another run of the same turn replaces it. It goes with its turn: usage of a turn that was
        popped is not reported. Without a turn nothing is kept. A failure is raised, where
        `AdvancedSQLiteSession` writes it to its log.
        """
        branch = await self._current(None)
        turns = await self._turns(branch)
        if not turns:
            return
        usage = result.context_wrapper.usage
        value: dict[str, Any] = {name: getattr(usage, name) or 0 for name in COUNTED}
        for name in ("input_tokens_details", "output_tokens_details"):
            details = getattr(usage, name, None)
            value[name] = None if details is None else details.model_dump()
        place = usage_namespace(self.session_id, branch)
        await settled(self.store.put(place, usage_key(turns[-1][0]), value, index=False))

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """What each turn used, in order; or the one of that number, and ``{}`` if it is not known.

        With ``requests``, ``input_tokens``, ``output_tokens``, ``total_tokens``,
        ``input_tokens_details``, ``output_tokens_details``.
        """
        known = await self._usage(await self._current(branch_id))
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

    async def _create(
        self, name: str, *, turn: int | None = None, before: int | None = None
    ) -> str:
        """A branch of what is before a turn or a position, or of everything; be on it."""
        if not isinstance(name, str) or not name.strip():
            raise ValueError("Branch name cannot be empty")
        source = await self._current(None)
        log, other, target = self._log_of(source), self._log_of(name), branch_namespace(name)
        taken = ValueError(
            f"Branch ID {name!r} has already been used in session {self.session_id!r}; "
            "choose another"
        )

        def used(known: dict[str, str]) -> dict[str, str]:
            if name in known:
                raise taken
            return known | {name: OPEN}

        async def create() -> None:
            async with self.db.transaction() as tx:
                end = before if turn is None else await self._beginning(turn, source, tx)
                if name in (MAIN, source) or await other.tail(self.session_id, 1, connection=tx):
                    raise taken
                await self._set_states(used, tx)
                last = await log.tail(self.session_id, 1, before=end, connection=tx)
                if last:
                    await log.fork(
                        self.session_id,
                        last[0].position,
                        new_thread_id=self.session_id,
                        namespace=target,
                        connection=tx,
                    )

        try:
            await settled(create())
        except Conflict:
            raise taken from None
        self._switch(name)
        return name

    async def _beginning(self, turn: int, branch: str, tx: HostConnection) -> int:
        """The position of a turn's first item."""
        for position, number in await self._turns(branch, tx):
            if number == turn:
                return position
        raise ValueError(f"Turn {turn} does not contain a user message in branch {branch!r}")

    async def _set_states(
        self, change: Callable[[dict[str, str]], dict[str, str]], tx: HostConnection
    ) -> None:
        def changed(item: StoreItem | None) -> dict[str, str]:
            return change({} if item is None else item.value)

        await self.store.change(BRANCHES, self.session_id, changed, index=False, connection=tx)

    async def _state(self, branch: str, connection: HostConnection | None = None) -> str:
        known = await self.store.get(BRANCHES, self.session_id, connection=connection)
        return str((known or {}).get(branch, OPEN))

    async def _current(self, branch_id: str | None) -> str:
        """The branch that a call is about: the one that is named, or the one that this is on.

        If somebody cleared the session meanwhile, that is main.
        """
        self._check_open()
        if branch_id is not None:
            return branch_id
        branch = self.branch
        if branch != MAIN and await self._state(branch) == CLEARED:
            self._leave(branch)
            return MAIN
        return branch

    def _leave(self, branch: str) -> None:
        if self._branch == branch:
            self._switch(MAIN)

    def _switch(self, branch: str) -> None:
        self._log = self._new_log(branch)
        self._branch = branch

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(
                f"this {type(self).__name__} is closed; make another one for the same session"
            )

    def _missing(self, branch: str) -> ValueError:
        return ValueError(f"Branch {branch!r} does not exist in session {self.session_id!r}")

    def _log_of(self, branch: str) -> ThreadLog:
        self._check_open()
        return self._log if branch == self._branch else self._new_log(branch)

    def _new_log(self, branch: str) -> ThreadLog:
        namespace = branch_namespace(branch)
        try:
            # Else what has been added could not be cleared.
            encode_namespace(usage_namespace(self.session_id, branch))
        except TooLarge as error:
            raise TooLarge("session_id with a branch", error.size, error.limit) from None
        return ThreadLog(
            self.db,
            namespace=namespace,
            index_text=self._index_text,
            ttl=self._ttl,
        )

    async def _told(self, branch_id: str | None) -> list[dict[str, Any]]:
        """The turns of a branch, each with its whole text."""
        log = self._log_of(await self._current(branch_id))
        turns = [entry for entry in await log.range(self.session_id) if is_turn(entry.value)]
        return [
            {
                "turn": number,
                "content": text_of(entry.value),
                "full_content": entry.value.get("content", ""),
                "timestamp": entry.occurred_at,
                "position": entry.position,
                "can_branch": True,
            }
            for number, entry in enumerate(turns, start=1)
        ]

    async def _turns(
        self, branch: str, connection: HostConnection | None = None
    ) -> list[tuple[int, int]]:
        """The position and number of each turn."""
        items = await self._items(
            branch, lambda position, item, _: (position, is_turn(item)), connection
        )
        begun = [position for position, begins in items if begins]
        return list(zip(begun, range(1, len(begun) + 1), strict=True))

    async def _usage(self, branch: str) -> list[tuple[int, dict[str, Any]]]:
        """The number and usage of each turn of which it is known, in order."""
        turns = dict(await self._turns(branch))
        place = usage_namespace(self.session_id, branch)
        items = await self.store.list_items(place, order="key", limit=1_000_000)
        by_turn = ((turns.get(int(item.key)), item.value) for item in items)
        return [(number, usage) for number, usage in by_turn if number is not None]

    async def _by_turn(self, branch_id: str | None) -> list[tuple[int, Any]]:
        number, found = 0, []
        for item in await self._items(await self._current(branch_id), lambda _, item, __: item):
            number += is_turn(item)
            found.append((number, item))
        return found

    async def _items(
        self,
        branch: str,
        make: Callable[[int, Any, int], Any],
        connection: HostConnection | None = None,
    ) -> list[Any]:
        log = self._log_of(branch)
        _, found = await log.scan(self.session_id, make, connection=connection)
        return found


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."

"""`MemalchemySession`: a session of the OpenAI Agents SDK, with branches, turns and usage."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from agents.memory import SessionSettings

from memalchemy.contracts import MAX_LIMIT, Entry, LogReading, NewItem, Seconds, StoreItem
from memalchemy.database import HostConnection
from memalchemy.errors import CapabilityMissing, Conflict, NotSerialisable, ThreadDeleted, TooLarge
from memalchemy.importers.openai_session_namespaces import (
    BRANCHES,
    MAIN,
    SESSIONS,
    branch_namespace,
    branch_of,
    is_turn,
    usage_key,
    usage_namespace,
)
from memalchemy.integrations._base import AnyDatabase, end_items
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations._values import storable
from memalchemy.integrations.openai_agents._adapter import (
    OpenAIAdapter,
    end_of_session,
    hold_branches,
    uninterrupted,
)
from memalchemy.integrations.openai_agents._item_fields import copy_of, text_of, tool_of, type_of
from memalchemy.keys import encode_namespace
from memalchemy.log.listing import entry_logs, entry_namespaces
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

if TYPE_CHECKING:
    from agents import RunResult
    from agents.items import TResponseInputItem
    from agents.result import RunResultStreaming

COUNTERS = ("requests", "input_tokens", "output_tokens", "total_tokens")

OPEN, DELETED, CLEARED = "open", "deleted", "cleared"
_USAGE_FORM = StoredForm("usage of a run of OpenAI Agents")
_BRANCHES_FORM = StoredForm("list of branches of OpenAI Agents")
"""The states of a branch's name, which is never free again."""
MAX_PREVIEW = 100
"""Characters of a message in the list of turns."""


class MemalchemySession(OpenAIAdapter):
    """Stores the items of one conversation; give it to `Runner.run` as ``session=``.

    Items are in the order in which any process added them, never in that of a clock. A write is
    stored as a whole or not at all, and has ended when its method ends, even by a cancellation. Of
    concurrent pops, no two return the same item. Items that are read are copies.

    An object is on one branch, ``branch``, to which the methods of the SDK's `Session` refer. A
    branch is a log of its own, copied inside the database, and shares nothing with others
    afterwards. Turns are numbered from 1; a user's message begins one, and items before the first
    are turn 0. The name of a branch is used only once in a session: an object that is still on a
    deleted or cleared branch never writes to another one of the same name.

    Args:
        session_id: the conversation: objects with the same id, in any process, are the same one.
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone. It comes second because the SDK passes the id first. Objects on
            one URL share a `Database`.
        branch: the branch that the object is on at first.
        session_settings: the SDK's settings, such as ``SessionSettings(limit=50)``.
        index_text: make the words of items searchable.
        ttl: how long a branch lives after its last item, in seconds or as a timedelta. Its usage
            ends with it, and the session's description and the names of its branches with the
            last branch. Of objects with several lifetimes the last to add an item counts, but one
            without any prolongs the items alone.

    Raises:
        TooLarge: *session_id* and *branch* take more than about 480 bytes together.

    Raises, from any method:
        RuntimeError: the session was closed.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt: stored bytes do not match their checksum. A session that cannot be read never looks
            like an empty one.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        db: AnyDatabase | None = None,
        *,
        branch: str = MAIN,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db)
        self.session_id = session_id
        self.session_settings = _check_settings(session_settings)
        self._store = Store(self.db)
        self._is_closed = False
        self._index_text, self._ttl = index_text, ttl
        self._known: tuple[ThreadLog, str, LogReading, list[Any]] | None = None
        self._switch_to(branch)

    def __repr__(self) -> str:
        return f"MemalchemySession({self.session_id!r}, {self.db!r}, branch={self.branch!r})"

    # --- The SDK's Session ------------------------------------------------------------------------

    async def get_items(
        self, limit: int | None = None, branch_id: str | None = None
    ) -> list[TResponseInputItem]:
        """Return the items, oldest first; with *limit*, or that of the settings, the newest ones.

        They are those of the current branch, or of *branch_id*; a branch that does not exist has
        none. This takes one round trip on the main branch. As in the SDK, a negative limit is none.
        An object that has read all items before fetches only the new ones, if the rest is
        unchanged.
        """
        if limit is None:
            limit = _check_settings(self.session_settings).limit
        log = self._log_of(await self._current_branch(branch_id))
        if limit is None or limit < 0:
            return await self._read_all_items(log)
        return [entry.value for entry in await log.tail(self.session_id, limit)]

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Append all items or none.

        An item is what JSON or memalchemy can represent; a pydantic object becomes the fields that
        were set. If a `clear_session` removed the current branch, the items are added to main, and
        the object is on main from then on.

        Raises:
            NotSerialisable, TooLarge: an item cannot be stored; nothing was added.
            ValueError: the branch was deleted; nothing was added.
        """
        _refuse_what_a_compaction_replaces()
        log, branch = self.log, self.branch
        given = [_to_plain(item) for item in items]
        if given:
            await uninterrupted(self._append_items(log, branch, given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; return ``None`` if there is none."""
        log = self._log_of(await self._current_branch(None))
        entry = await uninterrupted(log.pop(self.session_id))
        return None if entry is None else cast("TResponseInputItem", entry.value)

    async def clear_session(self) -> None:
        """Remove the items and the usage of all branches, and go to main.

        The names of the branches stay used. Other objects on one of these branches go to main, too.
        """
        self._check_open()
        _refuse_what_a_compaction_replaces()

        async def clear() -> None:
            async with self.db.transaction() as tx:
                ends = await hold_branches(self.db, self.session_id, tx)
                left = {name: end for name, end in ends.items() if name == MAIN} or ends
                await self._log_of(MAIN).clear(self.session_id, connection=tx)
                known = await self._states(tx)
                found = await entry_namespaces(self.db, self.session_id, connection=tx)
                named = {one for one in map(branch_of, found) if one} | {*known}
                branches = sorted(named - {MAIN})
                for branch in branches:
                    log = self._log_of(branch)
                    if branch_namespace(branch) not in found:
                        # There is no row yet on which a concurrent first append would wait.
                        await log.append(self.session_id, [None], connection=tx)
                    await log.delete(self.session_id, connection=tx)
                usage = usage_namespace(self.session_id)
                await self.store.clear_namespace(usage, prefix=True, connection=tx)
                if await self._states(tx) or branches:
                    await self._set_states(
                        lambda before: dict.fromkeys({*before, *branches}, CLEARED), left, tx
                    )

        await uninterrupted(clear())
        self._switch_to(MAIN)

    def close(self) -> Awaitable[None]:
        """Refuse every later call with a `RuntimeError`, as the SDK's sessions do.

        Awaiting the result also closes the connections of a database that was not given as a
        `Database`; another session on the same URL opens them again.
        """
        self._is_closed = True
        return _Closing(super().aclose)

    async def aclose(self) -> None:
        """Close the session, as ``await session.close()`` does."""
        await self.close()

    # --- Branches ---------------------------------------------------------------------------------

    @property
    def branch(self) -> str:
        """The current branch of this object."""
        return self._branch

    @property
    def log(self) -> ThreadLog:
        """The log of the current branch; its thread has the session's id."""
        self._check_open()
        return self._log

    @property
    def store(self) -> Store:
        """The store with the usage of turns and the names of branches."""
        self._check_open()
        return self._store

    async def create_branch(self, name: str, *, before: int | None = None) -> str:
        """Create a branch of the items before a position, or of all, and go to it.

        Positions are those of `get_conversation_turns` and of the log. Return the name.

        Raises:
            ValueError: the name is blank, or has been used in this session.
        """
        return await self._create_branch(name, before=before)

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """Create a branch of the items before a turn, and go to it. Return its name.

        Raises:
            ValueError: there is no such turn; the name is blank, or has been used in this session.
        """
        name = branch_name
        if name is None:
            name = f"branch_from_turn_{turn_number}_{uuid4().hex[:8]}"
        return await self._create_branch(name, turn=turn_number)

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """Create a branch from the first turn whose message contains *search_term*.

        Raises:
            ValueError: as `create_branch_from_turn`.
        """
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(
                f"No user turns found containing {search_term!r} in branch {self.branch!r}"
            )
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Go to another branch.

        Raises:
            ValueError: it holds nothing.
        """
        if branch_id != MAIN and not await self._log_of(branch_id).tail(self.session_id, 1):
            raise self._branch_missing(branch_id)
        self._check_open()
        self._switch_to(branch_id)

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Delete a branch with its usage. With *force* it may be the current one; then go to main.

        Its name stays used.

        Raises:
            ValueError: it holds nothing, is main, or is the current branch.
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
                ends = await hold_branches(self.db, self.session_id, tx)
                if not await log.tail(self.session_id, 1, connection=tx):
                    raise self._branch_missing(branch_id)
                left = {name: end for name, end in ends.items() if name != branch_id} or ends
                await log.delete(self.session_id, connection=tx)
                usage = usage_namespace(self.session_id, branch_id)
                await self.store.clear_namespace(usage, connection=tx)
                await self._set_states(lambda known: known | {branch_id: DELETED}, left, tx)

        await uninterrupted(delete())
        if branch_id == self.branch:
            self._switch_to(MAIN)

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return the branches that hold something, oldest first.

        Each has ``branch_id``, ``message_count``, ``user_turns``, ``is_current``, ``created_at``
        and ``updated_at``. Counting the turns reads the branch.
        """
        current = await self._current_branch(None)
        found = []
        for log in await entry_logs(self.db.primary(), self.session_id, limit=10_000):
            branch = branch_of(log.namespace)
            if branch is not None:
                turns = await self._turn_positions(branch)
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

    # --- Turns and usage --------------------------------------------------------------------------

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return the users' messages of a branch, each as a dict.

        Its keys are ``turn``, ``content`` (at most 100 characters), ``full_content``,
        ``timestamp``, ``position`` and ``can_branch``.
        """
        turns = await self._list_turns(branch_id)
        return [turn | {"content": _cut_preview(turn["content"])} for turn in turns]

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the turns whose message contains *search_term*, in any case.

        They are dicts of `get_conversation_turns`, with the whole text as ``content``.
        """
        wanted = search_term.casefold()
        turns = await self._list_turns(branch_id)
        return [turn for turn in turns if wanted in turn["content"].casefold()]

    async def get_conversation_by_turns(
        self, branch_id: str | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """Return the ``type`` and ``tool_name`` of every item, by turn."""
        found: dict[int, list[dict[str, str | None]]] = {}
        for number, item in await self._items_by_turn(branch_id):
            found.setdefault(number, []).append({"type": type_of(item), "tool_name": tool_of(item)})
        return found

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """Count the calls of each tool in each turn: ``(name, calls, turn)``, ordered by turn.

        The output of a tool search counts as a call if its turn holds no such call: a search that
        the server makes by itself has none.
        """
        calls: Counter[tuple[int, str]] = Counter()
        searches: Counter[tuple[int, str]] = Counter()
        for number, item in await self._items_by_turn(branch_id):
            kind, name = type_of(item), tool_of(item)
            if name is not None and kind.endswith(("_call", "_request")):
                calls[number, name] += 1
            elif name is not None and kind == "tool_search_output":
                searches[number, name] += 1
        calls.update({key: count for key, count in searches.items() if key not in calls})
        ordered = sorted(calls.items(), key=lambda one: one[0][0])
        return [(name, count, number) for (number, name), count in ordered]

    async def store_run_usage(self, result: RunResult | RunResultStreaming) -> None:
        """Store the usage of a run for the newest turn of this branch. Call it after the run.

        Another run of the same turn replaces it. Usage belongs to its turn: that of a popped turn
        is not reported, and without a turn nothing is stored. A failure is raised, where
        `AdvancedSQLiteSession` logs it.
        """
        branch = await self._current_branch(None)
        turns = await self._turn_positions(branch)
        if not turns:
            return
        usage = result.context_wrapper.usage
        value: dict[str, Any] = {name: getattr(usage, name) or 0 for name in COUNTERS}
        for name in ("input_tokens_details", "output_tokens_details"):
            details = getattr(usage, name, None)
            value[name] = None if details is None else details.model_dump()
        namespace = usage_namespace(self.session_id, branch)
        key = usage_key(turns[-1][0])
        log = self._log_of(branch)

        async def put() -> None:
            async with self.db.transaction() as tx:
                head = await log.hold(self.session_id, tx)
                if head is not None:  # otherwise the session has ended with its turns
                    used = NewItem(namespace, key, value, index=False, expires_at=head.expires_at)
                    await self.store.put_batch([used], connection=tx)

        await uninterrupted(put())

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the usage of each turn in order; or of one, ``{}`` if it is not known.

        The keys are ``requests``, ``input_tokens``, ``output_tokens``, ``total_tokens``,
        ``input_tokens_details`` and ``output_tokens_details``.
        """
        known = await self._read_usage(await self._current_branch(branch_id))
        if user_turn_number is not None:
            return next((usage for number, usage in known if number == user_turn_number), {})
        return [{"user_turn_number": number, **usage} for number, usage in known]

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """Sum up the usage of all turns, of one branch or of all; ``None`` if none is known."""
        branches = [branch_id or MAIN]
        if not branch_id:
            branches = [branch["branch_id"] for branch in await self.list_branches()]
        known = [usage for branch in branches for _, usage in await self._read_usage(branch)]
        if not known:
            return None
        total = {name: sum(usage[name] for usage in known) for name in COUNTERS}
        return total | {"total_turns": len(known)}

    # --- Compaction -------------------------------------------------------------------------------

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> CompactionSnapshot:
        # The SDK's compaction looks for this name, and without it only replaces whole histories.
        log = self._log_of(await self._current_branch(None))
        version = await log.version(self.session_id)
        found = await log.tail(self.session_id, limit + 1)
        return CompactionSnapshot(
            log, self.session_id, version, found[-limit:], len(found) <= limit, prune_prefix
        )

    async def _read_compaction_items(
        self, limit: int | None
    ) -> tuple[list[TResponseInputItem], bool]:
        # The SDK's compaction looks for this name, and without it may send items that it read
        # before others wrote.
        branch = await self._current_branch(None)
        log = self._log_of(branch)
        version = await log.version(self.session_id)
        _compacted.set(_Compacted(log, self.session_id, branch, version))
        items = await self.get_items(limit)
        return items, limit is not None and len(items) < limit

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        # The SDK's compaction by hand looks for this name, and without it clears the session, with
        # all branches and with what others wrote meanwhile.
        self._check_open()
        read = _compacted.get()
        if read is None or read.log.db is not self.db or read.session_id != self.session_id:
            raise CapabilityMissing(_UNKNOWN_VERSION)
        _compacted.set(None)

        async def replace() -> None:
            async with self.db.transaction() as tx, self._prolonging(read.log, read.branch, tx):
                await read.log.replace_suffix(
                    self.session_id,
                    0,
                    [_to_plain(item) for item in items],
                    expected_version=read.version,
                    connection=tx,
                )
                usage = usage_namespace(self.session_id, read.branch)
                await self.store.clear_namespace(usage, connection=tx)

        try:
            await uninterrupted(replace())
        except (Conflict, ThreadDeleted) as error:
            raise Conflict(
                f"session {self.session_id!r} was changed while it was compacted; nothing was "
                "replaced. Compact it again",
                expected=read.version,
                current=getattr(error, "current", None),
            ) from error
        return True

    # --- Reading and writing a branch -------------------------------------------------------------

    async def _read_all_items(self, log: ThreadLog) -> list[Any]:
        session_id = self.session_id
        known = self._known if self._known and self._known[:2] == (log, session_id) else None
        seen, items = (None, []) if known is None else known[2:]
        reading, new = await log.scan(session_id, lambda _, item, __: item, seen)
        items = new if reading.complete else [*items, *new]
        if log is self._log:
            self._known = log, session_id, reading, items
        return [copy_of(item) for item in items]

    async def _append_items(self, log: ThreadLog, branch: str, given: list[Any]) -> None:
        try:
            await self._append_to(log, branch, given)
        except NotSerialisable:
            await self._append_to(log, branch, storable(given))

    async def _append_to(self, log: ThreadLog, branch: str, given: list[Any]) -> None:
        if branch == MAIN and self._ttl is None:
            await log.append(self.session_id, given)
            return
        try:
            async with self.db.transaction() as tx:
                async with self._prolonging(log, branch, tx):
                    await log.append(self.session_id, given, connection=tx)
                # The append waited for whoever deletes or clears the branch, so read only now.
                state = OPEN if branch == MAIN else await self._state_of_branch(branch, tx)
                if state != OPEN:
                    raise _BranchGone
        except _BranchGone:
            if state == DELETED:
                raise ValueError(
                    f"Branch {branch!r} of session {self.session_id!r} was deleted; nothing was "
                    "added. Switch to another branch first"
                ) from None
            self._leave_branch(branch)
            await self._append_to(self._log_of(MAIN), MAIN, given)

    @asynccontextmanager
    async def _prolonging(
        self, log: ThreadLog, branch: str, tx: HostConnection
    ) -> AsyncIterator[None]:
        """Let what is stored beside a branch's items live as long as they do after the block.

        Without a ttl of this object it does nothing: that would cost each append some statements.
        """
        if self._ttl is None:
            yield
            return
        ends = await hold_branches(self.db, self.session_id, tx)
        yield
        head = await log.hold(self.session_id, tx)
        ends[branch] = None if head is None else head.expires_at
        usage = usage_namespace(self.session_id, branch)
        items = await self.store.list_items(usage, limit=MAX_LIMIT, connection=tx)
        await end_items(self.store, items, ends[branch], tx)
        await self._end_with_session(ends, tx)

    async def _end_with_session(
        self, ends: Mapping[str, datetime | None], tx: HostConnection
    ) -> None:
        """Let the description and the names of branches end with the last of the branches."""
        places = [(SESSIONS, self.session_id), (BRANCHES, self.session_id)]
        await self.store.hold(places, tx)
        for place in places:
            item = await self.store.get_item(*place, connection=tx)
            if item is not None:
                await end_items(self.store, [item], end_of_session(ends, self._ttl), tx)

    async def _create_branch(
        self, name: str, *, turn: int | None = None, before: int | None = None
    ) -> str:
        """Create a branch of the items before a turn or a position, or of all, and go to it."""
        if not isinstance(name, str) or not name.strip():
            raise ValueError("Branch name cannot be empty")
        source = await self._current_branch(None)
        log, other, target = self._log_of(source), self._log_of(name), branch_namespace(name)
        taken = ValueError(
            f"Branch ID {name!r} has already been used in session {self.session_id!r}; "
            "choose another"
        )

        def opened(known: dict[str, str]) -> dict[str, str]:
            if name in known:
                raise taken
            return known | {name: OPEN}

        async def create() -> None:
            async with self.db.transaction() as tx:
                ends = await hold_branches(self.db, self.session_id, tx)
                end = before if turn is None else await self._position_of(turn, source, tx)
                if name in (MAIN, source) or await other.tail(self.session_id, 1, connection=tx):
                    raise taken
                await self._set_states(opened, ends, tx)
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
            await uninterrupted(create())
        except Conflict:
            raise taken from None
        self._switch_to(name)
        return name

    async def _set_states(
        self,
        change: Callable[[dict[str, str]], dict[str, str]],
        ends: Mapping[str, datetime | None],
        tx: HostConnection,
    ) -> None:
        def changed(item: StoreItem | None) -> dict[str, str]:
            return change({} if item is None else _BRANCHES_FORM.fields_of(item.value))

        await self.store.change(BRANCHES, self.session_id, changed, index=False, connection=tx)
        await self._end_with_session(ends, tx)

    async def _states(self, connection: HostConnection | None = None) -> dict[str, str]:
        """Return the state of each branch that has been named."""
        known = await self.store.get(BRANCHES, self.session_id, connection=connection)
        return {} if known is None else _BRANCHES_FORM.fields_of(known)

    async def _state_of_branch(self, branch: str, connection: HostConnection | None = None) -> str:
        return (await self._states(connection)).get(branch, OPEN)

    async def _current_branch(self, branch_id: str | None) -> str:
        """Return the branch to which a call refers: *branch_id*, or else the current one.

        That is main, if another object cleared the session meanwhile.
        """
        self._check_open()
        if branch_id is not None:
            return branch_id
        branch = self.branch
        if branch != MAIN and await self._state_of_branch(branch) == CLEARED:
            self._leave_branch(branch)
            return MAIN
        return branch

    def _leave_branch(self, branch: str) -> None:
        if self._branch == branch:
            self._switch_to(MAIN)

    def _switch_to(self, branch: str) -> None:
        self._log = self._new_log(branch)
        self._branch = branch

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(
                f"this {type(self).__name__} is closed; make another one for the same session"
            )

    def _branch_missing(self, branch: str) -> ValueError:
        return ValueError(f"Branch {branch!r} does not exist in session {self.session_id!r}")

    def _log_of(self, branch: str) -> ThreadLog:
        self._check_open()
        return self._log if branch == self._branch else self._new_log(branch)

    def _new_log(self, branch: str) -> ThreadLog:
        namespace = branch_namespace(branch)
        try:
            # If this namespace were too long, the branch could be written and not cleared.
            encode_namespace(usage_namespace(self.session_id, branch))
        except TooLarge as error:
            raise TooLarge("session_id with a branch", error.size, error.limit) from None
        return ThreadLog(self.db, namespace=namespace, index_text=self._index_text, ttl=self._ttl)

    async def _list_turns(self, branch_id: str | None) -> list[dict[str, Any]]:
        """Return the turns of a branch, each with its whole text."""
        log = self._log_of(await self._current_branch(branch_id))
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

    async def _turn_positions(
        self, branch: str, connection: HostConnection | None = None
    ) -> list[tuple[int, int]]:
        """Return the position of the first item, and the number, of each turn."""
        items = await self._scan_branch(
            branch, lambda position, item, _: (position, is_turn(item)), connection
        )
        positions = [position for position, begins_turn in items if begins_turn]
        return list(zip(positions, range(1, len(positions) + 1), strict=True))

    async def _position_of(self, turn: int, branch: str, tx: HostConnection) -> int:
        for position, number in await self._turn_positions(branch, tx):
            if number == turn:
                return position
        raise ValueError(f"Turn {turn} does not contain a user message in branch {branch!r}")

    async def _read_usage(self, branch: str) -> list[tuple[int, dict[str, Any]]]:
        """Return the number and the usage of each turn with known usage, in order."""
        turns = dict(await self._turn_positions(branch))
        namespace = usage_namespace(self.session_id, branch)
        items = await self.store.list_items(namespace, order="key", limit=MAX_LIMIT)
        with _USAGE_FORM:
            by_turn = [(turns.get(int(item.key)), item.value) for item in items]
        return [(number, _usage_of(value)) for number, value in by_turn if number is not None]

    async def _items_by_turn(self, branch_id: str | None) -> list[tuple[int, Any]]:
        number, found = 0, []
        for item in await self._scan_branch(
            await self._current_branch(branch_id), lambda _, item, __: item
        ):
            number += is_turn(item)
            found.append((number, item))
        return found

    async def _scan_branch(
        self,
        branch: str,
        make: Callable[[int, Any, int], Any],
        connection: HostConnection | None = None,
    ) -> list[Any]:
        log = self._log_of(branch)
        _, found = await log.scan(self.session_id, make, connection=connection)
        return found


@dataclass(frozen=True)
class _Compacted:
    """A branch as it was when its items were read to be compacted."""

    log: ThreadLog
    session_id: str
    branch: str
    version: int


_compacted: ContextVar[_Compacted | None] = ContextVar("compacted", default=None)
"""The last of them in this task: several compactions may use one session object at once."""


_UNKNOWN_VERSION = (
    "a compaction by hand beside an EncryptedSession is not supported: nobody knows what was in "
    "the session when it was read, so that what others wrote meanwhile would be lost. Nothing was "
    "replaced. Let runs compact it, or encrypt the database instead (Database(url, keys=[…]))"
)
_REPLACEMENTS = frozenset(
    ("agents.memory.openai_responses_compaction_session", name)
    for name in ("_replace_underlying_session_items", "_restore_underlying_session_items")
)
"""Functions of the SDK's compaction that clear a session, and add what is to be in it.

They do not know of versions nor of branches. The SDK calls them only where a wrapper is between the
compaction and the session: it then does not find `MemalchemySession._atomic_replace_items`.
"""


def _refuse_what_a_compaction_replaces() -> None:
    frame = inspect.currentframe()
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _REPLACEMENTS:
            raise CapabilityMissing(_UNKNOWN_VERSION)
        frame = frame.f_back


class _BranchGone(Exception):
    """Rolls back an append to a branch that was deleted or cleared."""


@dataclass(frozen=True)
class _Closing:
    """Closes connections if it is awaited; the SDK's ``close`` may be called without ``await``."""

    close: Callable[[], Awaitable[None]]

    def __await__(self) -> Generator[Any, Any, None]:
        return self.close().__await__()


@dataclass(frozen=True)
class CompactionSnapshot:
    """The newest items of a session as of a version of its log, for the SDK's compaction.

    The SDK uses ``items``, ``complete`` (there are no older items) and `replace_suffix`.
    """

    log: ThreadLog
    session_id: str
    version: int
    entries: list[Entry]
    complete: bool
    prune_prefix: Callable[[TResponseInputItem], bool] | None

    @property
    def items(self) -> list[TResponseInputItem]:
        """The newest items, oldest first."""
        return [entry.value for entry in self.entries]

    async def replace_suffix(self, start: int, output: list[TResponseInputItem]) -> bool:
        """Replace ``items[start:]`` by *output*; return ``False`` if the log has changed meanwhile.

        The items at the beginning of the log for which ``prune_prefix`` is true are removed, too.
        """
        if not self.entries[start:]:
            return False
        try:
            await uninterrupted(self._replace_items(self.entries[start].position, output))
        except (Conflict, ThreadDeleted):
            return False
        return True

    async def _replace_items(self, first: int, output: list[TResponseInputItem]) -> None:
        log, session_id = self.log, self.session_id
        async with log.db.transaction() as tx:
            await log.replace_suffix(
                session_id,
                first - 1,
                [_to_plain(item) for item in output],
                expected_version=self.version,
                connection=tx,
            )
            if self.prune_prefix is None:
                return
            pruned = []
            async with aclosing(log.iter_entries(session_id, connection=tx)) as entries:
                async for entry in entries:
                    if entry.position >= first or not self.prune_prefix(entry.value):
                        break
                    pruned.append(entry.position)
            if pruned:
                await log.remove(session_id, pruned, connection=tx)


def _check_settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    if isinstance(given, SessionSettings):
        return given
    unknown = set(given or ()) - {field.name for field in fields(SessionSettings)}
    if unknown:
        raise TypeError(f"Unknown session settings: {', '.join(sorted(unknown))}")
    return SessionSettings(**(given or {}))


def _usage_of(value: Any) -> dict[str, Any]:
    return _USAGE_FORM.fields_of(value, **dict.fromkeys(COUNTERS, int))


def _to_plain(item: Any) -> Any:
    dump = getattr(item, "model_dump", None)
    return item if dump is None else dump(exclude_unset=True)


def _cut_preview(text: str) -> str:
    return text if len(text) <= MAX_PREVIEW else f"{text[:MAX_PREVIEW]}..."

"""`MemalchemySession`: what the OpenAI Agents SDK calls a session, as a log of a thread."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from agents.memory import SessionSettings

from memalchemy.contracts import Entry, LogReading, Seconds
from memalchemy.database import Database
from memalchemy.errors import Conflict, NotSerialisable, ThreadDeleted
from memalchemy.importers.openai_places import (
    BRANCHES,
    MAIN,
    branch_namespace,
    branch_of,
    usage_namespace,
)
from memalchemy.integrations.openai_agents.branches import CLEARED, DELETED, OPEN, Branches
from memalchemy.integrations.openai_agents.items import copied
from memalchemy.integrations.openai_agents.opening import database, settled
from memalchemy.log.listing import entry_namespaces
from memalchemy.threads import ThreadLog

if TYPE_CHECKING:
    from agents.items import TResponseInputItem


class MemalchemySession(Branches):
    """Keeps the items of one conversation; give it to `Runner.run` as ``session=``.

    Order is that in which items were added, by whatever process, never that of a clock. Every write
    is whole or absent, and has ended when the call does, cancelled or not. Of several that pop at
    once no two are given the same item. Items read are copies.

    Args:
        session_id: the conversation. Every object with this id, in whatever process, is this one.
        db: a `Database`, or a URL; see `Database`. Who gives the same URL shares one.
        branch: the branch to be on; see `Branches`.
        session_settings: as the SDK's sessions take it: ``SessionSettings(limit=50)``.
        index_text: make the words of items findable.
        ttl: how long the session lives after the last item, in seconds or as a timedelta.

    Raises:
        TooLarge: *session_id* and *branch* take more than about 480 bytes together.

    Raises, from any method:
        RuntimeError: it was closed.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew; Corrupt, where what
        is stored does not match its checksum. Nothing that cannot be read looks like an empty
        session.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        db: Database | Any,
        *,
        branch: str = MAIN,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(session_id, database(db), branch, index_text=index_text, ttl=ttl)
        self.session_settings = _settings(session_settings)
        self._owns_db = not isinstance(db, Database)
        self._known: tuple[ThreadLog, str, LogReading, list[Any]] | None = None

    def __repr__(self) -> str:
        return f"MemalchemySession({self.session_id!r}, {self.db!r}, branch={self.branch!r})"

    async def get_items(
        self, limit: int | None = None, branch_id: str | None = None
    ) -> list[TResponseInputItem]:
        """The items, oldest first; with *limit*, or that of the settings, the newest of them.

        Of the branch that this is on, or of *branch_id*; a branch that is not there has none. One
        round trip on the main branch. A negative limit is none, as in the SDK. An object that reads
        all again asks only for what is new, and whether the rest is as it was.
        """
        if limit is None:
            limit = _settings(self.session_settings).limit
        log = self._log_of(await self._current(branch_id))
        if limit is None or limit < 0:
            return await self._everything(log)
        return [entry.value for entry in await log.tail(self.session_id, limit)]

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Add items behind those that are there, all or none.

        What JSON can say and what memalchemy stores besides; an object of pydantic as the fields
        that were set. On a branch that went with a `clear_session`, they are added to main, and
        this is on main then.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was added.
            ValueError: the branch was deleted; nothing was added.
        """
        log, branch = self.log, self.branch
        given = [_plain(item) for item in items]
        if given:
            await settled(self._append(log, branch, given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; ``None`` if there is none."""
        log = self._log_of(await self._current(None))
        entry = await settled(log.pop(self.session_id))
        return None if entry is None else cast("TResponseInputItem", entry.value)

    async def clear_session(self) -> None:
        """Remove all items of all branches, and what is known of their usage; be on main.

        The names of its branches stay used. Others that are on one of them go to main as well.
        """
        self._check_open()

        async def clear() -> None:
            async with self.db.transaction() as tx:
                await self._log_of(MAIN).clear(self.session_id, connection=tx)
                known = await self.store.get(BRANCHES, self.session_id, connection=tx)
                found = await entry_namespaces(self.db, self.session_id, connection=tx)
                named = {one for one in map(branch_of, found) if one} | set(known or ())
                branches = sorted(named - {MAIN})
                for branch in branches:
                    log = self._log_of(branch)
                    if branch_namespace(branch) not in found:
                        # It has no row yet that the first adding of somebody else's waits for.
                        await log.append(self.session_id, [None], connection=tx)
                    await log.delete(self.session_id, connection=tx)
                usage = usage_namespace(self.session_id)
                await self.store.clear_namespace(usage, prefix=True, connection=tx)
                known = await self.store.get(BRANCHES, self.session_id, connection=tx)
                if known or branches:
                    await self._set_states(
                        lambda was: dict.fromkeys({*was, *branches}, CLEARED), tx
                    )

        await settled(clear())
        self._switch(MAIN)

    def close(self) -> Awaitable[None]:
        """Refuse whatever comes from now on, with a `RuntimeError`, as the SDK's sessions do.

        Awaited, it closes the connections of the database as well, if that was given as a URL;
        another session of the same URL opens them anew. A `Database` that was given stays open: it
        is its owner's to close.
        """
        self._is_closed = True
        return _Closing(self.db if self._owns_db else None)

    async def _everything(self, log: ThreadLog) -> list[Any]:
        session_id = self.session_id
        known = self._known if self._known and self._known[:2] == (log, session_id) else None
        seen, items = (None, []) if known is None else known[2:]
        reading, new = await log.scan(session_id, lambda _, item, __: item, seen)
        items = new if reading.complete else [*items, *new]
        if log is self._log:
            self._known = log, session_id, reading, items
        return [copied(item) for item in items]

    async def _append(self, log: ThreadLog, branch: str, given: list[Any]) -> None:
        try:
            await self._place(log, branch, given)
        except NotSerialisable as error:
            try:
                as_json = json.loads(json.dumps(given))
            except (TypeError, ValueError):
                raise error from None
            await self._place(log, branch, as_json)

    async def _place(self, log: ThreadLog, branch: str, given: list[Any]) -> None:
        if branch == MAIN:
            await log.append(self.session_id, given)
            return
        try:
            async with self.db.transaction() as tx:
                await log.append(self.session_id, given, connection=tx)
                # Read behind the append, which waits for whoever deletes or clears the branch.
                state = await self._state(branch, tx)
                if state != OPEN:
                    raise _Gone
        except _Gone:
            if state == DELETED:
                raise ValueError(
                    f"Branch {branch!r} of session {self.session_id!r} was deleted; nothing was "
                    "added. Switch to another branch first"
                ) from None
            self._leave(branch)
            await self._log_of(MAIN).append(self.session_id, given)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> Snapshot:
        # The SDK's compaction asks for this by name, and without it replaces whole histories only.
        log = self._log_of(await self._current(None))
        version = await log.version(self.session_id)
        found = await log.tail(self.session_id, limit + 1)
        return Snapshot(
            log, self.session_id, version, found[-limit:], len(found) <= limit, prune_prefix
        )


class _Gone(Exception):
    """Ends the transaction of an append to a branch that was deleted or cleared."""


@dataclass(frozen=True)
class _Closing:
    """What is left to do for who awaits a `close`."""

    db: Database | None

    def __await__(self) -> Generator[Any, Any, None]:
        if self.db is not None:
            yield from self.db.close().__await__()


@dataclass(frozen=True)
class Snapshot:
    """The newest items as they were at a version of the log, for the SDK's compaction.

    It is what the SDK calls so: ``items``, whether they are ``complete``, and `replace_suffix`.
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
        """Put *output* in place of ``items[start:]``; whether nobody wrote to the log meanwhile.

        With it the items that ``prune_prefix`` names go from the beginning of the log.
        """
        if not self.entries[start:]:
            return False
        try:
            await settled(self._replace(self.entries[start].position, output))
        except (Conflict, ThreadDeleted):
            return False
        return True

    async def _replace(self, first: int, output: list[TResponseInputItem]) -> None:
        log, session_id = self.log, self.session_id
        async with log.db.transaction() as tx:
            await log.replace_suffix(
                session_id,
                first - 1,
                [_plain(item) for item in output],
                expected_version=self.version,
                connection=tx,
            )
            while self.prune_prefix is not None:
                page = await log.range(session_id, before=first, limit=200, connection=tx)
                gone = []
                for entry in page:
                    if not self.prune_prefix(entry.value):
                        break
                    gone.append(entry.position)
                if gone:
                    await log.remove(session_id, gone, connection=tx)
                if len(gone) < len(page) or not page:
                    break


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    if isinstance(given, SessionSettings):
        return given
    unknown = set(given or ()) - {field.name for field in fields(SessionSettings)}
    if unknown:
        raise TypeError(f"Unknown session settings: {', '.join(sorted(unknown))}")
    return SessionSettings(**(given or {}))


def _plain(item: Any) -> Any:
    dump = getattr(item, "model_dump", None)
    return item if dump is None else dump(exclude_unset=True)

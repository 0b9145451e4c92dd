"""`MemalchemySessions`: the sessions of a database: listed, described, searched, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from memalchemy.contracts import EntryHit, Seconds
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Conflict
from memalchemy.importers.openai_places import (
    BRANCHES,
    MAIN,
    SESSIONS,
    branch_namespace,
    branch_of,
    usage_namespace,
)
from memalchemy.integrations.openai_agents.opening import database, settled
from memalchemy.integrations.openai_agents.session import MemalchemySession
from memalchemy.log.listing import entry_namespaces
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

TRIES = 20
DESCRIBED = 500
"""Sessions that are looked up together."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session: when something was last added to its main branch, and what was said about it.

    ``updated_at`` is ``None`` while the main branch is empty.
    """

    session_id: str
    updated_at: datetime | None
    metadata: dict[str, Any]


Infos = list[SessionInfo]
Hits = list[EntryHit]
Ids = list[str]


class MemalchemySessions:
    """All sessions of a tenant.

    Args:
        db: a `Database`, or a URL.
        index_text, ttl: of the sessions that `session` gives.
    """

    def __init__(
        self, db: Database | Any, *, index_text: bool = True, ttl: Seconds | None = None
    ) -> None:
        self.db = database(db)
        self.store = Store(self.db)
        self._index_text, self._ttl = index_text, ttl
        self._main = ThreadLog(self.db, namespace=branch_namespace(MAIN))

    def __repr__(self) -> str:
        return f"MemalchemySessions({self.db!r})"

    def session(self, session_id: str, **options: Any) -> MemalchemySession:
        """The session of that id, new or not. *options* are those of `MemalchemySession`."""
        shared = {"index_text": self._index_text, "ttl": self._ttl}
        return MemalchemySession(session_id, self.db, **(shared | options))

    async def list(
        self,
        limit: int = 100,
        *,
        pattern: str = "*",
        filter: Mapping[str, Any] | None = None,
    ) -> Infos:
        """Sessions, those first to which something was added last.

        *pattern* is a glob over the id. With *filter* those whose metadata pass it, as in
        `Store.search`; among them sessions that were described and hold nothing yet, at the end.
        """
        if filter is None:
            ids = await self._main.list_threads(limit, pattern)
            return sorted(await self._described(ids), key=_newest, reverse=True)
        found: dict[str, dict[str, Any]] = {}
        page = await self.store.list_items(SESSIONS, filter=filter, limit=DESCRIBED)
        while page:
            found |= {item.key: item.value for item in page}
            page = await self.store.list_items(
                SESSIONS, filter=filter, limit=DESCRIBED, after=page[-1]
            )
        ids = [session_id for session_id in found if fnmatchcase(session_id, pattern)]
        written = await self._main.last_written(ids)
        infos = [SessionInfo(one, written.get(one), found[one]) for one in ids]
        return sorted(infos, key=_newest, reverse=True)[:limit]

    async def get(self, session_id: str) -> SessionInfo | None:
        """One session; ``None`` if it holds nothing and nothing was said about it."""
        (info,) = await self._described([session_id])
        return info if info.updated_at is not None or info.metadata else None

    async def describe(
        self, session_id: str, *, connection: HostConnection | None = None, **metadata: Any
    ) -> dict[str, Any]:
        """Say something about a session: a user's id, a title. All that is said of it now.

        What was said before stays; ``None`` takes it back. Of two that do so at once none loses
        what it said.

        Raises:
            NotSerialisable, TooLarge: it cannot be stored.
        """
        for _ in range(TRIES):
            item = await self.store.get_item(SESSIONS, session_id, connection=connection)
            known: dict[str, Any] = {} if item is None else item.value
            said = {k: v for k, v in (known | metadata).items() if v is not None}
            version = None if item is None else item.version
            try:
                await self.store.put(
                    SESSIONS, session_id, said, expected_version=version, connection=connection
                )
            except Conflict:
                continue
            return said
        raise Conflict(f"others described session {session_id!r} {TRIES} times while this tried to")

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        session_id: str | None = None,
        branch: str = MAIN,
    ) -> Hits:
        """Items that hold words of *query*, best first: of all sessions, or of one.

        ``thread_id`` of a hit is the session's id, ``value`` the item.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words.
        """
        log = ThreadLog(self.db, namespace=branch_namespace(branch))
        return await log.search(query, limit, thread_id=session_id)

    async def delete(self, session_id: str) -> bool:
        """Delete a session: all branches, usage, and what was said about it; whether it was there.

        In one transaction. What others keep under the same id stays.
        """

        async def delete() -> bool:
            async with self.db.transaction() as tx:
                gone = await self._main.delete(session_id, connection=tx)
                for namespace in await entry_namespaces(self.db, session_id, connection=tx):
                    if branch_of(namespace) is not None:
                        log = ThreadLog(self.db, namespace=namespace)
                        gone |= await log.delete(session_id, connection=tx)
                gone |= await self.store.delete(SESSIONS, session_id, connection=tx)
                await self.store.delete(BRANCHES, session_id, connection=tx)
                usage = usage_namespace(session_id)
                await self.store.clear_namespace(usage, prefix=True, connection=tx)
            return gone

        return await settled(delete())

    async def _described(self, ids: Ids) -> Infos:
        written = await self._main.last_written(ids)
        known = await self.store.get_batch([(SESSIONS, one) for one in ids])
        return [SessionInfo(one, written.get(one), known.get((SESSIONS, one), {})) for one in ids]


def _newest(info: SessionInfo) -> tuple[bool, float]:
    return info.updated_at is not None, info.updated_at.timestamp() if info.updated_at else 0.0

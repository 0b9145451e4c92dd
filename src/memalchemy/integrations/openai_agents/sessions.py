"""`MemalchemySessions`: list, describe, search and delete the sessions of a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from memalchemy._transactions import transaction_of
from memalchemy.contracts import EntryHit, Match, Seconds, StoreItem
from memalchemy.database import HostConnection
from memalchemy.importers.openai_session_namespaces import (
    BRANCHES,
    MAIN,
    SESSIONS,
    branch_namespace,
    branch_of,
    usage_namespace,
)
from memalchemy.integrations._base import AnyDatabase, end_items, paged
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.openai_agents._adapter import (
    OpenAIAdapter,
    end_of_session,
    hold_branches,
    uninterrupted,
)
from memalchemy.integrations.openai_agents.session import MemalchemySession
from memalchemy.log.listing import all_namespaces
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

_FORM = StoredForm("description of a session of OpenAI Agents")


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session, the time of the last addition to its main branch, and its description.

    ``updated_at`` is ``None`` while the main branch is empty.
    """

    session_id: str
    updated_at: datetime | None
    metadata: dict[str, Any]


# In the class body the name list means its method.
Infos = list[SessionInfo]
Hits = list[EntryHit]
Ids = list[str]


class MemalchemySessions(OpenAIAdapter):
    """All sessions of a tenant.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        index_text, ttl: options of the sessions that `session` makes.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db)
        self.store: Store = Store(self.db)
        self._index_text, self._ttl = index_text, ttl
        self._main = ThreadLog(self.db, namespace=branch_namespace(MAIN))

    def session(self, session_id: str, **options: Any) -> MemalchemySession:
        """Return the session with that id, new or not. *options* are `MemalchemySession`'s."""
        defaults = {"index_text": self._index_text, "ttl": self._ttl}
        return MemalchemySession(session_id, self.db, **(defaults | options))

    async def list(
        self,
        limit: int = 100,
        *,
        pattern: str = "*",
        filter: Mapping[str, Any] | None = None,
    ) -> Infos:
        """Return sessions, the one with the newest item first.

        *pattern* is a glob over the ids. *filter* selects sessions by their description, as in
        `Store.search`; described sessions without items come last.
        """
        if filter is None:
            ids = await self._main.list_threads(limit, pattern)
            return sorted(await self._read_infos(ids), key=_order_of_newest, reverse=True)
        items: AsyncIterator[StoreItem] = paged(
            lambda after, size: self.store.list_items(
                SESSIONS, filter=filter, limit=size, after=after
            )
        )
        described = {
            item.key: _FORM.fields_of(item.value)
            async for item in items
            if fnmatchcase(item.key, pattern)
        }
        written = await self._main.last_written([*described])
        infos = [SessionInfo(one, written.get(one), said) for one, said in described.items()]
        return sorted(infos, key=_order_of_newest, reverse=True)[:limit]

    async def get(self, session_id: str) -> SessionInfo | None:
        """Return a session, or ``None`` if it has neither items nor a description."""
        (info,) = await self._read_infos([session_id])
        return info if info.updated_at is not None or info.metadata else None

    async def describe(
        self, session_id: str, *, connection: HostConnection | None = None, **metadata: Any
    ) -> dict[str, Any]:
        """Add to the description of a session (a user's id, a title), and return all of it.

        ``None`` removes a name, names that are not given stay. Concurrent calls lose nothing. The
        description ends with the session; before the first item, ``ttl`` after this call.

        Raises:
            NotSerialisable, TooLarge: it cannot be stored.
        """

        def updated(item: StoreItem | None) -> dict[str, Any]:
            known = {} if item is None else _FORM.fields_of(item.value)
            return {name: v for name, v in (known | metadata).items() if v is not None}

        async with transaction_of(self.db, connection) as tx:
            ends = await hold_branches(self.db, session_id, tx)
            found: dict[str, Any] | None = await self.store.change(
                SESSIONS, session_id, updated, connection=tx
            )
            item = await self.store.get_item(SESSIONS, session_id, connection=tx)
            if item is not None:
                await end_items(self.store, [item], end_of_session(ends, self._ttl), tx)
        return found or {}

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        session_id: str | None = None,
        branch: str = MAIN,
        match: Match = "any",
    ) -> Hits:
        """Return items that contain words of *query*, best first, of one session or of all.

        With the *match* ``all`` only items that contain all words are found. ``thread_id`` of a hit
        is the session's id, ``value`` the item.

        Raises:
            CapabilityMissing: the database is encrypted, and stores no readable words.
        """
        log = ThreadLog(self.db, namespace=branch_namespace(branch))
        return await log.search(query, limit, thread_id=session_id, match=match)

    async def delete(self, session_id: str) -> bool:
        """Delete a session with all branches, usage and its description, in one transaction.

        Return ``True`` if there was anything. Other frameworks' data under the same id stays.
        """

        async def delete() -> bool:
            async with self.db.transaction() as tx:
                deleted = await self._main.delete(session_id, connection=tx)
                for namespace in await all_namespaces(self.db, session_id, connection=tx):
                    if branch_of(namespace) is not None:
                        log = ThreadLog(self.db, namespace=namespace)
                        deleted |= await log.delete(session_id, connection=tx)
                deleted |= await self.store.delete(SESSIONS, session_id, connection=tx)
                await self.store.delete(BRANCHES, session_id, connection=tx)
                usage = usage_namespace(session_id)
                await self.store.clear_namespace(usage, prefix=True, connection=tx)
            return deleted

        return await uninterrupted(delete())

    async def _read_infos(self, ids: Ids) -> Infos:
        written = await self._main.last_written(ids)
        known = await self.store.get_batch([(SESSIONS, one) for one in ids])
        said = {name: _FORM.fields_of(value) for (_, name), value in known.items()}
        return [SessionInfo(one, written.get(one), said.get(one, {})) for one in ids]


def _order_of_newest(info: SessionInfo) -> tuple[bool, float]:
    return info.updated_at is not None, info.updated_at.timestamp() if info.updated_at else 0.0

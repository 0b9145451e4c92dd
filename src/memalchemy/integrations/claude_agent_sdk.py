"""`MemalchemySessionStore`: session transcripts of the Claude Agent SDK.

from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

options = ClaudeAgentOptions(session_store=MemalchemySessionStore("sqlite:///agent.db"))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from memalchemy.contracts import MAX_LIMIT, Seconds
from memalchemy.database import HostConnection
from memalchemy.errors import InvalidArgument
from memalchemy.integrations._base import Adapter, AnyDatabase, requires
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.log.listing import all_namespaces, entry_namespaces
from memalchemy.threads import ThreadLog

with requires("claude-agent-sdk", extra="claude-agent-sdk", module="claude_agent_sdk"):
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStore,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
        fold_session_summary,
    )

_SUMMARY = StoredForm("summary of a session of Claude")


class MemalchemySessionStore(Adapter, SessionStore):
    """Stores the transcripts of sessions and of their subagents, one row for each line.

    Lines are in the order in which they were appended, whatever process did so. A batch is stored
    as a whole or not at all, and the session's summary with it. A line whose ``uuid`` is in the
    transcript is not stored again; lines without one always are. What `load` returns equals what
    was appended, and shares nothing with it.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several stores apart in one database.
        index_text: make the words of lines searchable.
        ttl: how long a transcript lives after its last line, in seconds or as a timedelta; that of
            a subagent after its own, and the main one after the last line of any.

    Raises, from any method:
        ValueError: the key's ``subpath`` is empty.
        TooLarge: ``session_id`` is over 255 characters, or ``project_key`` and ``subpath`` take
            over about 470 bytes together.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored line cannot be read.
    """

    root = "claude_agent_sdk"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self._index_text, self._ttl = index_text, ttl

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append lines to a transcript, all or none.

        Raises:
            NotSerialisable, TooLarge: a line cannot be stored, or its ``uuid`` is over 128
                characters; nothing was appended.
        """
        if not entries:
            return
        session_id, transcript = key["session_id"], self.transcript(key)
        given = list(entries)
        uuids = [entry.get("uuid") for entry in given]
        times = _times_of(given)
        if key.get("subpath") is not None and self._ttl is None:
            await transcript.append(session_id, given, keys=uuids, occurred_at=times)
            return
        if key.get("subpath") is not None:
            async with self.db.transaction() as tx:
                await self._prolong_transcript(key["project_key"], session_id, tx)
                await transcript.append(
                    session_id, given, keys=uuids, occurred_at=times, connection=tx
                )
            return
        async with self.db.transaction() as tx:
            positions = await transcript.append(
                session_id, given, keys=uuids, occurred_at=times, connection=tx
            )
            await self._fold_into_summary(key, positions, given, tx)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the lines of a transcript; ``None`` if there are none. One round trip."""
        _, lines = await self.transcript(key).scan(key["session_id"], _value_of_entry)
        return lines or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, the last written first, with the time of that."""
        log = self._log_of(project_key, None)
        ids = await log.list_threads(MAX_LIMIT)
        written = await log.last_written(ids)
        return [
            {"session_id": session_id, "mtime": _milliseconds(written[session_id])}
            for session_id in ids
            if session_id in written
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of a project's sessions, in the order of `list_sessions`.

        They take three round trips, however many sessions there are, up to some hundred.
        """
        ids = [one["session_id"] for one in await self.list_sessions(project_key)]
        summaries = await self._log_of_summaries(project_key).read_threads(ids)
        return [
            {
                "session_id": session_id,
                "mtime": _milliseconds(entries[-1].stored_at),
                "data": _SUMMARY.fields_of(entries[-1].value, data=dict)["data"],
            }
            for session_id, entries in summaries.items()
        ]

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its summary and the transcripts of its subagents.

        With a ``subpath`` only that transcript is deleted.
        """
        project_key, session_id, transcript = (
            key["project_key"],
            key["session_id"],
            self.transcript(key),
        )
        if key.get("subpath") is not None:
            await transcript.delete(session_id)
            return
        async with self.db.transaction() as tx:
            # The main transcript is locked first, as by an append: else the two could deadlock.
            await transcript.delete(session_id, connection=tx)
            await self._log_of_summaries(project_key).delete(session_id, connection=tx)
            namespaces = await all_namespaces(self.db, session_id, connection=tx)
            for subpath in self._to_subpaths(project_key, namespaces):
                await self._log_of(project_key, subpath).delete(session_id, connection=tx)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session that have a transcript, sorted."""
        namespaces = await entry_namespaces(self.db, key["session_id"])
        return self._to_subpaths(key["project_key"], namespaces)

    async def close(self) -> None:
        """Close the database if this store owns it; a later use opens it again."""
        await self.aclose()

    def transcript(self, key: SessionKey) -> ThreadLog:
        """Return the log with a transcript's lines; its thread has the id of the session.

        It searches, prunes and forks: see `ThreadLog`. The words of a line are its message's.
        """
        return self._log_of(key["project_key"], key.get("subpath"))

    def _log_of(self, project_key: str, subpath: str | None) -> ThreadLog:
        if subpath == "":
            raise InvalidArgument("subpath is empty: leave it out for the main transcript")
        path = () if subpath is None else subpath.split("/")
        return ThreadLog(
            self.db,
            namespace=(*self._namespace_of_transcripts(project_key), *path),
            index_text=self._index_text,
            ttl=self._ttl,
        )

    def _namespace_of_transcripts(self, project_key: str) -> tuple[str, ...]:
        return (*self.namespace, "transcripts", project_key)

    def _log_of_summaries(self, project_key: str) -> ThreadLog:
        """Return the log of a project's summaries: one entry in the thread of each session.

        It is a log of the session's thread, so that what erases the thread erases the summary.
        """
        namespace = (*self.namespace, "summaries", project_key)
        return ThreadLog(self.db, namespace=namespace, index_text=False, ttl=self._ttl)

    async def _prolong_transcript(
        self, project_key: str, session_id: str, tx: HostConnection
    ) -> None:
        """Let the main transcript, if there is one, live as long as a subagent's new line.

        Otherwise the subagent's would be left when the session ends, and pass to the next one.
        """
        main = self._log_of(project_key, None)
        if await main.hold(session_id, tx) is None:
            return
        for last in await main.tail(session_id, 1, connection=tx):
            # An append moves the end of a log, and an append of nothing does not.
            (position,) = await main.replace_suffix(
                session_id,
                last.position - 1,
                [last.value],
                keys=[last.key],
                occurred_at=last.occurred_at,
                connection=tx,
            )
            key = SessionKey(project_key=project_key, session_id=session_id)
            await self._fold_into_summary(key, [], [], tx, seen=position)

    async def _fold_into_summary(
        self,
        key: SessionKey,
        positions: Sequence[int],
        lines: Sequence[SessionStoreEntry],
        tx: HostConnection,
        *,
        seen: int = 0,
    ) -> None:
        """Add the new ones of *lines* to the session's summary; the transcript is locked.

        A line is not new if its position is not beyond that of the summary, or not beyond *seen*.
        """
        summaries, session_id = self._log_of_summaries(key["project_key"]), key["session_id"]
        before = await summaries.tail(session_id, 1, connection=tx)
        known, new = None, []
        with _SUMMARY:
            if before:
                stored = before[0].value
                seen = max(seen, stored["position"])
                known = SessionSummaryEntry(session_id=session_id, mtime=0, data=stored["data"])
            for position, line in zip(positions, lines, strict=True):
                if position > seen:
                    new.append(line)
                    seen = position
            # It is written even without a new line: it may not be older than the transcript.
            value = {"data": fold_session_summary(known, key, new)["data"], "position": seen}
        await summaries.replace_suffix(session_id, 0, [value], connection=tx)

    def _to_subpaths(self, project_key: str, namespaces: Iterable[tuple[str, ...]]) -> list[str]:
        main = self._namespace_of_transcripts(project_key)
        return [
            "/".join(namespace[len(main) :])
            for namespace in namespaces
            if namespace[: len(main)] == main and len(namespace) > len(main)
        ]


def _value_of_entry(_: int, value: SessionStoreEntry, __: int) -> SessionStoreEntry:
    return value


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _times_of(entries: Sequence[SessionStoreEntry]) -> list[datetime]:
    """Return the times at which lines say that they happened.

    A line without a time has that of the line before it; the lines before the first time have that
    one. If no line has a time, they happened now.
    """
    said = [_time_of(entry) for entry in entries]
    time = next((at for at in said if at is not None), datetime.now(UTC))
    times = []
    for at in said:
        time = time if at is None else at
        times.append(time)
    return times


def _time_of(entry: SessionStoreEntry) -> datetime | None:
    try:
        at = datetime.fromisoformat(entry["timestamp"])
    except (KeyError, TypeError, ValueError):
        return None
    return at if at.tzinfo is not None and 1970 < at.year < 9999 else None


__all__ = ["MemalchemySessionStore"]

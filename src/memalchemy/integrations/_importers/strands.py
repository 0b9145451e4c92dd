"""Reads the directories of Strands' `FileSessionManager` and `LocalFileStorage`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from strands.types.session import Session, SessionAgent, SessionMessage

from memalchemy.database import Database, HostConnection
from memalchemy.errors import Conflict, DatabaseUnreachable, NotFound
from memalchemy.importers.log_times import LogTimes
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.target import BATCH, Kind, Record, Unreadable, Whole
from memalchemy.importers.unreadable import (
    UNREADABLE,
    Unusable,
    describe_problem,
    read_or_leave,
    text_field,
)
from memalchemy.integrations._importers._json import object_in, value_of
from memalchemy.integrations.strands import MemalchemySessionRepository, MemalchemyStorage
from memalchemy.integrations.strands.sessions import entry_of

_SESSION, _AGENT, _MESSAGE, _GROUP = "session_", "agent_", "message_", "multi_agent_"
_INTERNAL = ".__strands_"
"""Beginning of the names of files that `LocalFileStorage` has for itself."""
_SESSION_OF_KEY = re.compile(r"[^/]+(?=/scopes/)")
"""The id of a session in the key of a snapshot."""
_CHANGED = "it was changed meanwhile"


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the records: sessions, their agents and groups of agents, and files of a storage."""
    return len(await asyncio.to_thread(_find_records, place))


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the sessions, each with its agents and groups, or the values of a storage.

    A directory with sessions is that of a `FileSessionManager`; one with snapshots is that of a
    `LocalFileStorage`, of which every file is a value.
    """
    for found in await asyncio.to_thread(_find_records, place):
        yield await asyncio.to_thread(found.read)


@dataclass(frozen=True, slots=True)
class _Found:
    """Record that was found, and the function that makes it."""

    kind: Kind
    label: str
    make: Callable[[], Record]

    def read(self) -> Record:
        try:
            return self.make()
        except (OSError, *UNREADABLE) as error:
            return Unreadable(self.kind, self.label, describe_problem(error))


def _find_records(place: str) -> list[_Found]:
    """Return the records that are there, which are not read yet.

    Raises:
        NotFound: there are none.
        DatabaseUnreachable: *place* is no directory, or cannot be read.
    """
    root = Path(place)
    if not root.is_dir():
        raise DatabaseUnreachable(f"there is no directory {place}")
    sessions = sorted(one.parent for one in root.glob(f"{_SESSION}*/session.json"))
    if sessions:
        return [found for directory in sessions for found in _find_records_in(directory)]
    files = sorted(
        one
        for one in root.rglob("*")
        if one.is_file() and not one.is_symlink() and not one.name.startswith(_INTERNAL)
    )
    if not any(one.name == "snapshot_latest.json" for one in files):
        raise NotFound(f"there are neither sessions nor snapshots of Strands' in {place}")
    keys = [one.relative_to(root).as_posix() for one in files]
    return [
        _Found("item", f"value {key}", partial(_record_of_value, key, one))
        for key, one in zip(keys, files, strict=True)
    ]


def _find_records_in(directory: Path) -> list[_Found]:
    """Return a session, and then what belongs to it."""
    session_id = directory.name.removeprefix(_SESSION)
    agents = sorted(directory.glob(f"agents/{_AGENT}*/agent.json"))
    groups = sorted(directory.glob(f"multi_agents/{_GROUP}*/multi_agent.json"))
    of = f"of session {session_id}"
    own = _Found(
        "thread",
        f"session {session_id}",
        partial(_record_of_session, session_id, directory / "session.json"),
    )
    of_agents = [
        _Found(
            "log",
            f"agent {file.parent.name.removeprefix(_AGENT)} {of}",
            partial(_read_agent, session_id, file),
        )
        for file in agents
    ]
    of_groups = [
        _Found(
            "thread",
            f"group {file.parent.name.removeprefix(_GROUP)} {of}",
            partial(_record_of_group, session_id, file),
        )
        for file in groups
    ]
    return [own, *of_agents, *of_groups]


def _record_of_session(session_id: str, file: Path) -> Record:
    document = _timed_document(file)
    state = asdict(Session.from_dict(document))
    del state["session_id"]
    at = to_utc(document["created_at"])

    async def load(db: Database, prefix: str) -> dict[str, Any] | None:
        found = await MemalchemySessionRepository(db).sessions.load(prefix + session_id)
        if found is None:
            return None
        return {name: value for name, value in found.items() if name != "session_id"}

    async def save(db: Database, prefix: str, _: Any) -> None:
        id_ = prefix + session_id
        sessions = MemalchemySessionRepository(db).sessions
        await sessions.save(state | {"session_id": id_}, id_, occurred_at=at)

    return Whole(
        "thread",
        f"session {session_id}",
        state,
        load,
        save,
        logs=lambda db, prefix: LogTimes.of(
            MemalchemySessionRepository(db).sessions.namespace, prefix + session_id, [at]
        ),
        covers=lambda found: found["created_at"] == state["created_at"],
    )


class _AgentOfSession:
    """An agent as it is read from files, and its place in the database."""

    def __init__(
        self, session_id: str, agent: SessionAgent, messages: list[SessionMessage]
    ) -> None:
        self._session_id = session_id
        self._agent_id = agent.agent_id
        self._messages = messages
        self.value: dict[str, Any] = {"agent": asdict(agent), "messages": []}
        self.value["messages"] = [entry_of(message) for message in messages]

    async def load(
        self, db: Database, prefix: str, tx: HostConnection | None = None
    ) -> dict[str, Any] | None:
        """Return the state and the messages that the database has of the agent."""
        repository, session_id = MemalchemySessionRepository(db), prefix + self._session_id
        states = repository.agents(self._agent_id)
        state = await states.load(session_id, connection=tx)
        log = repository.messages(self._agent_id)
        _, messages = await log.scan(session_id, lambda _, value, __: value, connection=tx)
        if state is None and not messages:
            return None
        return {"agent": state, "messages": messages}

    async def save(self, db: Database, prefix: str, found: dict[str, Any] | None) -> None:
        """Write the messages that are missing, and the state, in one transaction."""
        repository, session_id = MemalchemySessionRepository(db), prefix + self._session_id
        log = repository.messages(self._agent_id)
        async with db.transaction() as tx:
            await log.hold(session_id, tx)
            if await self.load(db, prefix, tx) != found:
                raise Conflict(_CHANGED)
            start = len(found["messages"]) if found is not None and self.extends(found) else 0
            if start == 0:
                await log.clear(session_id, connection=tx)
            for at in range(start, len(self._messages), BATCH):
                some = self._messages[at : at + BATCH]
                await log.append(
                    session_id,
                    [entry_of(message) for message in some],
                    keys=[str(message.message_id) for message in some],
                    occurred_at=[to_utc(message.created_at) for message in some],
                    connection=tx,
                )
            state = self.value["agent"]
            await repository.agents(self._agent_id).save(
                state, session_id, occurred_at=to_utc(state["updated_at"]), connection=tx
            )

    def times(self, db: Database, prefix: str) -> list[LogTimes]:
        """Return the logs of the agent and of its messages, with their times."""
        repository, session_id = MemalchemySessionRepository(db), prefix + self._session_id
        times = [to_utc(message.created_at) for message in self._messages]
        return [
            *LogTimes.of(repository.messages(self._agent_id).namespace, session_id, times),
            *LogTimes.of(
                repository.agents(self._agent_id).namespace,
                session_id,
                [to_utc(self.value["agent"]["updated_at"])],
            ),
        ]

    def covers(self, found: dict[str, Any]) -> bool:
        """Return whether *found* is the agent, and went on since."""
        return _went_on(self.value, found)

    def extends(self, found: dict[str, Any]) -> bool:
        """Return whether *found* is what an earlier import wrote of the agent."""
        return _went_on(found, self.value)


def _went_on(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether an agent has the same messages first, and no older state."""
    one, then = before["agent"], after["agent"]
    if one is None or then is None or one["created_at"] != then["created_at"]:
        return False
    messages = after["messages"][: len(before["messages"])]
    return bool(messages == before["messages"] and one["updated_at"] <= then["updated_at"])


def _read_agent(session_id: str, file: Path) -> Record:
    label = f"agent {file.parent.name.removeprefix(_AGENT)} of session {session_id}"
    stored = SessionAgent.from_dict(_timed_document(file))
    text_field(vars(stored), "agent_id")
    left_out: list[str] = []
    paths = sorted((file.parent / "messages").glob(f"{_MESSAGE}*.json"))
    read = [read_or_leave(partial(_read_message, path), path.name, left_out) for path in paths]
    messages = [message for message in read if message is not None]
    messages.sort(key=lambda message: message.message_id)
    return _record_of_agent(label, session_id, stored, messages, left_out)


def _read_message(file: Path) -> SessionMessage:
    message = SessionMessage.from_dict(_timed_document(file))
    if not isinstance(message.message_id, int) or isinstance(message.message_id, bool):
        raise Unusable("has an id that is no number")
    if file.stem != f"{_MESSAGE}{message.message_id}":
        raise Unusable("is in the place of another")
    entry_of(message)
    return message


def _record_of_agent(
    label: str,
    session_id: str,
    stored: SessionAgent,
    messages: list[SessionMessage],
    left_out: Sequence[str] = (),
) -> Whole:
    agent = _AgentOfSession(session_id, stored, messages)
    return Whole(
        "log",
        label,
        agent.value,
        agent.load,
        agent.save,
        logs=agent.times,
        covers=agent.covers,
        extends=agent.extends,
        missing=lambda found: 1 + len(messages) - len(found["messages"] if found else ()),
        left_out=left_out,
        parts=[f"message {message.message_id}" for message in messages],
        with_parts=lambda kept: _record_of_agent(
            label, session_id, stored, [messages[at] for at in kept]
        ),
    )


def _record_of_group(session_id: str, file: Path) -> Record:
    state = _read_document(file)
    group_id = file.parent.name.removeprefix(_GROUP)
    at = _time_of(file)

    async def save(db: Database, prefix: str, _: Any) -> None:
        groups = MemalchemySessionRepository(db).multi_agents(group_id)
        await groups.save(state, prefix + session_id, occurred_at=at)

    return Whole(
        "thread",
        f"group {group_id} of session {session_id}",
        state,
        lambda db, prefix: MemalchemySessionRepository(db).aread_multi_agent(
            prefix + session_id, group_id
        ),
        save,
        logs=lambda db, prefix: LogTimes.of(
            MemalchemySessionRepository(db).multi_agents(group_id).namespace,
            prefix + session_id,
            [at],
        ),
    )


def _record_of_value(key: str, file: Path) -> Record:
    data, at = file.read_bytes(), _time_of(file)

    def name(prefix: str) -> str:
        return _SESSION_OF_KEY.sub(lambda match: prefix + match[0], key, count=1)

    async def save(db: Database, prefix: str, _: Any) -> None:
        await MemalchemyStorage(db).write(name(prefix), data, occurred_at=at)

    return Whole(
        "item",
        f"value {key}",
        data,
        lambda db, prefix: MemalchemyStorage(db).read(name(prefix)),
        save,
        covers=lambda found: _is_later_snapshot(found, data),
        extends=lambda found: _is_later_snapshot(data, found),
    )


def _is_later_snapshot(one: bytes, other: bytes) -> bool:
    """Return whether *one* is a snapshot that was made after the snapshot *other*."""
    try:
        later, earlier = (value_of(data)["created_at"] for data in (one, other))
        return bool(to_utc(later) > to_utc(earlier))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _timed_document(file: Path) -> dict[str, Any]:
    """Return the object that a file holds, whose times Strands would otherwise make up."""
    document = _read_document(file)
    for name in ("created_at", "updated_at"):
        to_utc(text_field(document, name))
    return document


def _read_document(file: Path) -> dict[str, Any]:
    """Return the object that a file holds.

    Raises:
        ValueError: it holds none, or is a symbolic link, which Strands does not follow either.
    """
    if file.is_symlink():
        raise Unusable("is a symbolic link")
    return object_in(file.read_bytes())


def _time_of(file: Path) -> datetime:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)

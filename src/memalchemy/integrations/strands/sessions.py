"""`MemalchemySessionRepository`: sessions, agents and messages, one row for each message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import Entry, Retention
from memalchemy.errors import Conflict, InvalidArgument, MemalchemyError
from memalchemy.integrations._base import AnyDatabase, SyncAdapter, blocking
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.keys import check_namespace
from memalchemy.threads import ThreadLog

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

ENVELOPE = "session_message"
"""Key of an entry under which everything lies that is not the message itself."""


class MemalchemySessionRepository(SyncAdapter, SessionRepository):
    """Stores sessions in a SQL database: one row for each message, and the states of agents.

        manager = RepositorySessionManager("user-123", repository)
        agent = Agent(session_manager=manager)

    A write is stored as a whole or not at all. Of two processes that append a message of the same
    index to an agent, one gets an exception, and no message is lost. Every read builds new objects.
    Any thread may call the methods; one whose event loop is running is blocked meanwhile. Each
    method exists with ``await`` too, under its name with an ``a``: ``acreate_message``.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several repositories apart in one database.
        index_text: make the words of messages searchable.

    Raises, from any method:
        SessionException: Strands'. What is to be created exists, what is to be changed does not, or
            it cannot be stored; the database cannot be reached. Nothing was written.
    """

    root = "strands"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        # The last part keeps the agents of one repository out of the namespaces of others.
        super().__init__(db, namespace=(*check_namespace(namespace), "sessions"))
        self._index_text = index_text
        self.sessions: Checkpointer = self._checkpointer_of()
        """The states of sessions: a thread for each."""

    # --- Sessions ---------------------------------------------------------------------------------

    async def acreate_session(self, /, session: Session, **kwargs: Any) -> Session:
        """Create a session.

        Raises:
            SessionException: there is one of this id.
        """
        state = asdict(session) | {"session_type": str(session.session_type.value)}
        what = f"Session {session.session_id}"
        await self._create_state(self.sessions, session.session_id, state, what)
        return session

    async def aread_session(self, /, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session; ``None`` if there is none of this id."""
        with self.translated_errors():
            state = await self.sessions.load(session_id)
        if state is None:
            return None
        with StoredForm("session of Strands"):
            return Session.from_dict(state)

    async def adelete_session(self, /, session_id: str, **kwargs: Any) -> None:
        """Delete a session with its agents, messages and all else, in one transaction.

        Raises:
            SessionException: there is no such session.
        """
        with self.translated_errors():
            known = await self.sessions.delete(session_id, all_namespaces=False, below=True)
        if not known:
            raise SessionException(f"Session {session_id} does not exist")

    # --- Agents -----------------------------------------------------------------------------------

    async def acreate_agent(
        self, /, session_id: str, session_agent: SessionAgent, **kwargs: Any
    ) -> None:
        """Create an agent of a session.

        Raises:
            SessionException: there is one of this id, or no such session.
        """
        agent_id = session_agent.agent_id
        await self._require_session(session_id)
        what = f"Agent {agent_id} in session {session_id}"
        await self._create_state(self.agents(agent_id), session_id, asdict(session_agent), what)

    async def aread_agent(
        self, /, session_id: str, agent_id: str, **kwargs: Any
    ) -> SessionAgent | None:
        """Return an agent; ``None`` if the session has none of this id."""
        with self.translated_errors():
            state = await self.agents(agent_id).load(session_id)
        if state is None:
            return None
        with StoredForm("agent of Strands"):
            return SessionAgent.from_dict(state)

    async def aupdate_agent(
        self, /, session_id: str, session_agent: SessionAgent, **kwargs: Any
    ) -> None:
        """Replace the state of an agent; the time of its creation stays.

        Raises:
            SessionException: the session has no such agent; nothing was written.
        """
        agents = self.agents(session_agent.agent_id)
        target = f"Agent {session_agent.agent_id} in session {session_id}"

        def replaced(found: Any) -> dict[str, Any]:
            if found is None:
                raise SessionException(f"{target} does not exist")
            session_agent.created_at = found["created_at"]
            return asdict(session_agent)

        with self.translated_errors():
            await agents.change(session_id, replaced)

    # --- Messages ---------------------------------------------------------------------------------

    async def acreate_message(
        self, /, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Append a message to an agent.

        Raises:
            SessionException: the agent has a message of this index, or there is no such agent.
        """
        index = _check_index(session_message.message_id)
        with self.translated_errors():
            known = await self.agents(agent_id).exists(session_id)
        where = f"agent {agent_id} in session {session_id}"
        if not known:
            raise SessionException(f"{where[0].upper()}{where[1:]} does not exist")
        value, key = entry_of(session_message), str(index)
        try:
            with self.translated_errors():
                await self.messages(agent_id).append(session_id, [value], keys=[key], new_keys=True)
        except SessionException as error:
            if isinstance(error.__cause__, Conflict):
                raise SessionException(f"Message {index} already exists in {where}") from error
            raise

    async def aread_message(
        self, /, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return a message; ``None`` if the agent has none of this index."""
        found = await self._find_message(session_id, agent_id, _check_index(message_id))
        return None if found is None else found[1]

    async def aupdate_message(
        self, /, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Replace a message; the time of its creation stays.

        Raises:
            SessionException: the agent has no message of this index.
        """
        index = _check_index(session_message.message_id)
        found = await self._find_message(session_id, agent_id, index)
        if found is not None:
            position, stored = found
            session_message.created_at = stored.created_at
            with self.translated_errors():
                log = self.messages(agent_id)
                if await log.edit(session_id, position, entry_of(session_message)):
                    return
        raise SessionException(
            f"Message {index} of agent {agent_id} in session {session_id} does not exist"
        )

    async def alist_messages(
        self,
        /,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return messages in the order of their indexes: *limit*, or all, from the *offset*-th on.

        Reads all messages of the agent, in one round trip.
        """
        found = [_message_of(value) for _, value in await self._read_messages(session_id, agent_id)]
        found.sort(key=lambda message: message.message_id)
        return found[offset:] if limit is None else found[offset : offset + limit]

    # --- Groups of agents -------------------------------------------------------------------------

    async def acreate_multi_agent(
        self, /, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Store the state of a group of agents, in place of an earlier one.

        Raises:
            SessionException: there is no such session.
        """
        await self._require_session(session_id)
        with self.translated_errors():
            groups = self.multi_agents(multi_agent.id)
            await groups.save(multi_agent.serialize_state(), session_id)

    async def aread_multi_agent(
        self, /, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Return the state of a group of agents; ``None`` if the session has none of this id."""
        with self.translated_errors():
            found: dict[str, Any] | None = await self.multi_agents(multi_agent_id).load(session_id)
        return found

    async def aupdate_multi_agent(
        self, /, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Replace the state of a group of agents.

        Raises:
            SessionException: the session has no such group; nothing was written.
        """
        groups = self.multi_agents(multi_agent.id)
        state = multi_agent.serialize_state()
        target = f"MultiAgent {multi_agent.id} in session {session_id}"

        def replaced(found: Any) -> Any:
            if found is None:
                raise SessionException(f"{target} does not exist")
            return state

        with self.translated_errors():
            await groups.change(session_id, replaced)

    create_session: Final = blocking(acreate_session)
    read_session: Final = blocking(aread_session)
    delete_session: Final = blocking(adelete_session)
    create_agent: Final = blocking(acreate_agent)
    read_agent: Final = blocking(aread_agent)
    update_agent: Final = blocking(aupdate_agent)
    create_message: Final = blocking(acreate_message)
    read_message: Final = blocking(aread_message)
    update_message: Final = blocking(aupdate_message)
    list_messages: Final = blocking(alist_messages)
    create_multi_agent: Final = blocking(acreate_multi_agent)
    read_multi_agent: Final = blocking(aread_multi_agent)
    update_multi_agent: Final = blocking(aupdate_multi_agent)

    def messages(self, agent_id: str) -> ThreadLog:
        """Return the log of an agent's messages: a thread for each session."""
        with self.translated_errors():
            return ThreadLog(
                self.db,
                namespace=(*self.namespace, "messages", agent_id),
                index_text=self._index_text,
            )

    def agents(self, agent_id: str) -> Checkpointer:
        """Return the states of an agent: a thread for each session, of which the last is kept."""
        return self._checkpointer_of("agents", agent_id)

    def multi_agents(self, multi_agent_id: str) -> Checkpointer:
        """Return the states of a group of agents: a thread for each session."""
        return self._checkpointer_of("multi_agents", multi_agent_id)

    def translate(self, error: Exception) -> Exception | None:
        """Return Strands' `SessionException` for an error of memalchemy."""
        is_ours = isinstance(error, MemalchemyError | InvalidArgument)
        return SessionException(str(error)) if is_ours else None

    def _checkpointer_of(self, *place: str) -> Checkpointer:
        with self.translated_errors():
            return Checkpointer(
                self.db,
                namespace=(*self.namespace, *place),
                retention=Retention(keep_last=1),
                index_text=False,
            )

    async def _require_session(self, session_id: str) -> None:
        with self.translated_errors():
            known = await self.sessions.exists(session_id)
        if not known:
            raise SessionException(f"Session {session_id} does not exist")

    async def _create_state(
        self, states: Checkpointer, session_id: str, state: dict[str, Any], what: str
    ) -> None:
        with self.translated_errors():
            try:
                await states.save(state, session_id, expected_parent=None)
            except Conflict as error:
                raise SessionException(f"{what} already exists") from error

    async def _read_messages(self, session_id: str, agent_id: str) -> list[tuple[int, Any]]:
        with self.translated_errors():
            log = self.messages(agent_id)
            _, found = await log.scan(session_id, lambda position, value, _: (position, value))
        return found

    async def _find_message(
        self, session_id: str, agent_id: str, index: int
    ) -> tuple[int, SessionMessage] | None:
        """Return a message, and the position of its entry."""
        with self.translated_errors():
            near: list[Entry] = await self.messages(agent_id).range(
                session_id, after=index, limit=1
            )
        if near and near[0].key == str(index):  # where all were appended in order
            return near[0].position, _message_of(near[0].value)
        for position, value in await self._read_messages(session_id, agent_id):
            message = _message_of(value)
            if message.message_id == index:
                return position, message
        return None


def _check_index(message_id: object) -> int:
    if not isinstance(message_id, int):
        raise ValueError(f"message_id=<{message_id}> | message id must be an integer")
    return message_id


def entry_of(message: SessionMessage) -> dict[str, Any]:
    """Return the entry of a message: what the model is to see, with all else in an envelope."""
    fields = asdict(message)
    original, redacted = fields.pop("message"), fields.pop("redact_message")
    if redacted is None:
        return {**original, ENVELOPE: fields}
    return {**redacted, ENVELOPE: {**fields, "original": original}}


@StoredForm("message of Strands")
def _message_of(entry: dict[str, Any]) -> SessionMessage:
    shown: Any = {name: value for name, value in entry.items() if name != ENVELOPE}
    fields = dict(entry[ENVELOPE])
    if not isinstance(fields.get("message_id"), int):
        raise TypeError("messages are in the order of whole numbers")
    if "original" in fields:
        return SessionMessage(fields.pop("original"), redact_message=shown, **fields)
    return SessionMessage(shown, **fields)


__all__ = ["MemalchemySessionRepository"]

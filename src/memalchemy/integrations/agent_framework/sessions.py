"""`MemalchemySessionStore`: the newest state of each session."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from agent_framework import AgentSession, SessionStore

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import Retention, Seconds
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.keys import check_namespace

with warnings.catch_warnings():
    # The framework warns, once, that its base is experimental where somebody derives from it.
    warnings.simplefilter("ignore", FutureWarning)

    class _SessionStore(SessionStore):
        pass


class MemalchemySessionStore(Adapter, _SessionStore):
    """Stores agent sessions in a SQL database, of each the newest state.

    A `set` is stored as a whole or not at all, as the difference from the state before. Every
    `get` returns a new session that shares nothing with others. Values of the state are those
    of `AgentSession.to_dict`: types that were registered with `register_state_type` come back
    as objects. Bytes, datetimes, sets and `Decimal` come back as well, although the framework
    warns of them.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the sessions of several applications apart.
        ttl: the lifetime of a session after its last `set`, in seconds or as a timedelta.

    Raises, from any method:
        ValueError: the session id is empty.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        NotSerialisable, TooLarge: the state cannot be stored, or the id has over 255
            characters; nothing was written.
    """

    root = "agent_framework"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=(*check_namespace(namespace), "sessions"))
        self.checkpointer: Checkpointer = Checkpointer(
            self.db,
            namespace=self.namespace,
            retention=Retention(keep_last=1, apply_every=16),
            ttl=ttl,
        )
        """The states: a thread for each session, of which the newest checkpoints are kept."""

    async def get(self, session_id: str) -> AgentSession | None:
        """Return a new session with the stored state; ``None`` if there is none."""
        self.validate_session_id(session_id)
        found = await self.checkpointer.load(session_id)
        if found is None:
            return None
        with StoredForm("session of Agent Framework"):
            return AgentSession.from_dict(found)

    async def set(self, session_id: str, session: AgentSession) -> None:
        """Store a session under an id, in place of what is there.

        Raises:
            TypeError: *session* is of a subclass of `AgentSession`.
        """
        self.validate_session_id(session_id)
        if type(session) is not AgentSession:
            raise TypeError(
                f"{type(self).__name__} stores AgentSession, not {type(session).__qualname__}"
            )
        state = session.to_dict()
        if isinstance(state["service_session_id"], Mapping):
            state["service_session_id"] = dict(state["service_session_id"])
        await self.checkpointer.save(state, session_id)

    async def delete(self, session_id: str) -> None:
        """Delete a session, if it is there. Its messages in a history stay."""
        self.validate_session_id(session_id)
        await self.checkpointer.delete(session_id, all_namespaces=False)


__all__ = ["MemalchemySessionStore"]

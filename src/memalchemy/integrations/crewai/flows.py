"""`MemalchemyFlowPersistence`: the states of CrewAI's flows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from crewai.flow.async_feedback.types import PendingFeedbackContext
from crewai.flow.persistence.base import FlowPersistence
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import Retention
from memalchemy.database import Database, HostConnection
from memalchemy.errors import NotSerialisable
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations.crewai import _installed_database
from memalchemy.integrations.crewai._adapter import CrewAdapter, text_of_leaf, with_text_keys
from memalchemy.state_conversion import Fallback, to_mapping

METHOD = "method"
"""Key in a checkpoint's metadata: the name of the flow's method that had completed."""


class MemalchemyFlowPersistence(CrewAdapter, FlowPersistence):
    """The states of flows, each save of which costs what has changed.

    A state is a checkpoint of the thread of the flow's id, so all states that were saved are there:
    a save is whole or absent, and `load_state` returns the last one. Every load builds new objects.
    Any thread and any process may call the methods; one whose event loop is running blocks it, and
    may await those that begin with ``a``.

    Datetimes, dates, UUIDs, bytes, sets, tuples and `Decimal` come back as they were, from dicts
    and from models. A model within a state becomes a dict, a path or an enum its JSON, another
    object its text, and a numeric key text, as in CrewAI's own.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the flows of several applications apart in one database.
        index_text: make the words of states searchable.
        retention: which states of a flow are kept, such as ``Retention(keep_last=50)``; without it
            all, as in CrewAI's own.
        persistence_type: CrewAI's name for the class; leave it out.

    ``native`` is the `memalchemy.Checkpointer` underneath.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored state cannot be read.
        NotSerialisable: a state holds a secret, or is no mapping or model; nothing was written.
        TooLarge: a state is too large, or the flow's id has over 255 characters.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    persistence_type: str = "MemalchemyFlowPersistence"
    db: Database = Field(default=None, exclude=True, repr=False)  # type: ignore[assignment]
    namespace: tuple[str, ...] = ()
    _owns_db: bool = PrivateAttr()
    _loop: Any = PrivateAttr()
    _native: Checkpointer = PrivateAttr()
    _pending: Checkpointer = PrivateAttr()

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
        retention: Retention | None = None,
        persistence_type: str | None = None,
    ) -> None:
        FlowPersistence.__init__(self)
        if persistence_type is not None and db is None:
            # CrewAI makes it anew of what `model_dump` said, which names no database.
            db, namespace = _installed_database.database(), tuple(namespace)[1:]
        CrewAdapter.__init__(self, db, namespace=namespace)
        place = (*self.namespace, "flows")
        self._native = _FlowStates(
            self.db, namespace=place, index_text=index_text, retention=retention
        )
        self._pending = _FlowStates(
            self.db,
            namespace=(*place, "pending"),
            index_text=index_text,
            retention=Retention(keep_last=1),
        )

    @property
    def native(self) -> Checkpointer:
        """The states of all flows, a thread for each."""
        return self._native

    def init_db(self) -> None:
        """Do nothing: a SQLite file is made on first use, a server's schema by the command line."""

    async def asave_state(
        self, flow_uuid: str, method_name: str, state_data: dict[str, Any] | BaseModel
    ) -> None:
        """Save the state of a flow after a method."""
        await self._save(flow_uuid, method_name, state_data, None)

    async def aload_state(self, flow_uuid: str) -> dict[str, Any] | None:
        """Return the last state of a flow; ``None`` if there is none."""
        state: dict[str, Any] | None = await self._native.load(flow_uuid)
        return state

    async def asave_pending_feedback(
        self,
        flow_uuid: str,
        context: PendingFeedbackContext,
        state_data: dict[str, Any] | BaseModel,
    ) -> None:
        """Save the state of a flow that waits for a person, and what it waits for: both or none.

        An earlier pending feedback of the flow is replaced.
        """
        async with self.db.transaction() as tx:
            await self._save(flow_uuid, context.method_name, state_data, tx)
            pending = {"context": context.to_dict(), "state": to_mapping(state_data)[0]}
            await _save(self._pending, pending, flow_uuid, {METHOD: context.method_name}, tx)

    async def aload_pending_feedback(
        self, flow_uuid: str
    ) -> tuple[dict[str, Any], PendingFeedbackContext] | None:
        """Return the state with which a flow waits, and its context; ``None`` if it does not wait.

        It is the state of the pause, whatever was saved since.
        """
        found = await self._pending.load(flow_uuid)
        if found is None:
            return None
        return found["state"], PendingFeedbackContext.from_dict(found["context"])

    async def aclear_pending_feedback(self, flow_uuid: str) -> None:
        """Forget that a flow waits, if it does. Its states stay."""
        await self._pending.delete(flow_uuid, all_namespaces=False)

    save_state = blocking(asave_state)
    load_state = blocking(aload_state)
    save_pending_feedback = blocking(asave_pending_feedback)
    load_pending_feedback = blocking(aload_pending_feedback)
    clear_pending_feedback = blocking(aclear_pending_feedback)

    async def _save(
        self,
        flow_uuid: str,
        method_name: str,
        state: dict[str, Any] | BaseModel,
        connection: HostConnection | None,
    ) -> None:
        await _save(self._native, state, flow_uuid, {METHOD: method_name}, connection)


class _FlowStates(Checkpointer):
    """Checkpointer that stores a value which it does not know as CrewAI's own persistence does."""

    async def _mapping_of(
        self, state: Any, thread_id: str, connection: HostConnection | None
    ) -> tuple[Mapping[str, Any], Fallback | None]:
        return to_mapping(state)[0], text_of_leaf


async def _save(
    checkpointer: Checkpointer,
    state: Any,
    flow_uuid: str,
    metadata: dict[str, Any],
    connection: HostConnection | None,
) -> None:
    try:
        await checkpointer.save(state, flow_uuid, None, metadata, connection=connection)
    except NotSerialisable:  # most states have no key that is not a text: nothing looks for one
        keyed = with_text_keys(to_mapping(state)[0])
        await checkpointer.save(keyed, flow_uuid, None, metadata, connection=connection)


__all__ = ["MemalchemyFlowPersistence"]

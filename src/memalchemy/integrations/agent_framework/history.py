"""`MemalchemyHistoryProvider`: the messages of sessions, one row for each message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agent_framework import HistoryProvider, Message
from agent_framework._sessions import filter_new_messages

from memalchemy.database import HostConnection
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.keys import check_list, check_namespace
from memalchemy.threads import ThreadLog
from memalchemy.threads.locked_log_retry import retry_on_log

DEFAULT_SESSION = "default"
"""Thread of messages without a session id, as in the framework's `FileHistoryProvider`."""


class MemalchemyHistoryProvider(Adapter, HistoryProvider):
    """Stores the messages of each session in a SQL database, and loads them before a run.

        agent = Agent(client=client, context_providers=[MemalchemyHistoryProvider(db)])

    A save appends what is new: of messages that the caller gives again, such as a whole transcript,
    the overlap with the end of the stored history is left out, by the framework's own rules. All
    messages of a save are stored, or none. Of two saves at once neither is lost. Every read builds
    new objects.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        source_id: the name of this provider. Providers with different names have different
            histories of one session.
        load_messages, store_inputs, store_context_messages, store_context_from, store_outputs: what
            is loaded and stored, as in `agent_framework.HistoryProvider`.
        skip_excluded: leave out messages that a compaction has marked as excluded.
        namespace: keeps the histories of several applications apart.
        index_text: make the words of messages searchable.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        NotSerialisable, TooLarge: a message cannot be stored, or the session id has over 255
            characters; nothing was written.
    """

    root = "agent_framework"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        source_id: str = "memalchemy",
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        Adapter.__init__(self, db, namespace=(*check_namespace(namespace), "history", source_id))
        HistoryProvider.__init__(
            self,
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=(
                None
                if store_context_from is None
                else {*check_list(store_context_from, "store_context_from")}
            ),
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self.log: ThreadLog = ThreadLog(self.db, namespace=self.namespace, index_text=index_text)
        """The log of messages: a thread for each session."""

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, in the order in which they were saved."""
        _, values = await self.log.scan(
            session_id or DEFAULT_SESSION, lambda _position, value, _mark: value
        )
        messages = [_to_message(value) for value in values]
        if self.skip_excluded:
            return [one for one in messages if not one.additional_properties.get("_excluded")]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append those of *messages* that are new.

        Reads as many stored messages as it is given, however long the history is.

        Raises:
            Conflict: others created and deleted the session 20 times while this was tried.
        """
        thread_id = session_id or DEFAULT_SESSION
        if not messages:
            return

        async def attempt(tx: HostConnection | None) -> None:
            version = await self.log.version(thread_id, connection=tx)
            # An overlap is with the end of the history, or with all of it if it is shorter.
            few = len(messages) + 1
            stored = await self.log.tail(thread_id, few, connection=tx) if version else []
            existing = [_to_message(entry.value) for entry in stored]
            new = [one.to_dict() for one in filter_new_messages(existing, messages)]
            await self.log.append(thread_id, new, expected_version=version, connection=tx)

        await retry_on_log(self.log, thread_id, attempt)

    async def clear(self, session_id: str | None) -> None:
        """Delete the messages of a session."""
        await self.log.delete(session_id or DEFAULT_SESSION)


@StoredForm("message of Agent Framework")
def _to_message(stored: dict[str, Any]) -> Message:
    return Message.from_dict(stored)


__all__ = ["MemalchemyHistoryProvider"]

"""`ToolOutputs`: the outputs that a compaction took out of a conversation, to be recalled by id.

In a `Store`; no SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memalchemy.contracts import Seconds
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.keys import check_namespace
from memalchemy.store import Store


class ToolOutputs:
    """An archive for `ContextCompactor`: ``ContextCompactor(archive=ToolOutputs(store).keep)``.

    An id is a hash of the output and of the ids of its calls, and the key of an item: an encrypted
    database shows it, as it shows all keys.

    Args:
        store: a `Store`, or a `Database`.
        namespace: where they are; whoever has it and an id may recall the output.
        ttl: how long one is kept after it was put away, in seconds or as a timedelta.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        store: Store | Database,
        *,
        namespace: Sequence[str] = ("tool_outputs",),
        ttl: Seconds | None = None,
    ) -> None:
        if not isinstance(store, Store):
            store = Store(check_database(store, self))
        self.store = store
        self.namespace = check_namespace(namespace)
        self._ttl = ttl

    def __repr__(self) -> str:
        return f"ToolOutputs({self.store!r}, namespace={self.namespace!r})"

    async def keep(self, id: str, output: Any, *, connection: HostConnection | None = None) -> None:
        """Keep an output under its id; again, if it is there.

        Raises:
            NotSerialisable, TooLarge: it cannot be stored.
        """
        await self.store.put(
            self.namespace,
            id,
            output,
            index=False,
            ttl=self._ttl,
            connection=connection,
        )

    async def recall(self, id: str, *, connection: HostConnection | None = None) -> Any | None:
        """The output as the tool gave it, a text or blocks; ``None`` if none has that id."""
        return await self.store.get(self.namespace, id, connection=connection)

    async def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove all of the namespace; how many."""
        return await self.store.clear_namespace(self.namespace, connection=connection)

"""`ToolOutputs`: archive of the tool outputs that a compaction cleared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memalchemy.contracts import Seconds
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.keys import check_namespace
from memalchemy.store import Store


class ToolOutputs:
    """Archive for `ContextCompactor`: ``ContextCompactor(archive=ToolOutputs(db).keep)``.

    The id of an output is a hash of it and of the ids of its calls. It is the key of a store item,
    which stays readable in an encrypted database, as all keys do.

    Args:
        store: a `Store`, or a `Database`.
        namespace: where the outputs are stored. Whoever has it and an id may recall the output.
        ttl: how long an output is kept, in seconds or as a timedelta.

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
        self.store: Store = (
            store if isinstance(store, Store) else Store(check_database(store, self))
        )
        self.namespace: tuple[str, ...] = check_namespace(namespace)
        self._ttl = ttl

    def __repr__(self) -> str:
        return f"ToolOutputs({self.store!r}, namespace={self.namespace!r})"

    async def keep(self, id: str, output: Any, *, connection: HostConnection | None = None) -> None:
        """Store an output under its id, in place of an earlier one.

        Raises:
            NotSerialisable, TooLarge: the output cannot be stored.
        """
        await self.store.put(
            self.namespace, id, output, index=False, ttl=self._ttl, connection=connection
        )

    async def recall(self, id: str, *, connection: HostConnection | None = None) -> Any | None:
        """Return the output as the tool gave it, a text or blocks; ``None`` if there is none."""
        return await self.store.get(self.namespace, id, connection=connection)

    async def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove all outputs of the namespace and return how many there were."""
        return await self.store.clear_namespace(self.namespace, connection=connection)

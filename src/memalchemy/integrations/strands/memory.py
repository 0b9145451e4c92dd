"""`MemalchemyMemoryStore`: long-term memories of agents, found by words and by meaning."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from strands.memory.types import AddMessagesContext, MemoryEntry, MemoryStore, SearchOptions

from memalchemy.contracts import NewItem, SearchHit, SearchMode
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.strands._adapter import StrandsAdapter
from memalchemy.keys import check_namespace
from memalchemy.messages import text_of
from memalchemy.store import Store
from memalchemy.store.embedding import Embedder

if TYPE_CHECKING:
    from strands.memory.extraction.types import ExtractionConfig
    from strands.types.content import Message

MAX_RESULTS = 10


class MemalchemyMemoryStore(StrandsAdapter, MemoryStore):
    """Stores memories in a SQL database, and finds them by words, or also by meaning.

        agent = Agent(memory_manager=MemoryManager(stores=[MemalchemyMemoryStore(db)]))

    A memory that is added twice is stored once.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        name: names the store in tools, and keeps its memories apart from those of others.
        description: tells the model what the store holds.
        max_search_results: the default of a search, 10 if not given.
        writable: allow the manager to write to the store.
        extraction: how the manager extracts memories from conversations; see Strands'
            `MemoryStoreConfig`. Without an extractor the messages themselves are stored.
        namespace: keeps the memories of several users or applications apart.
        embedder: a function that returns a vector for each of a list of texts; it may be a
            coroutine function. With it a search goes by words and meaning.
        model: the name under which its vectors are stored.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        NotSerialisable, TooLarge: a memory cannot be stored; nothing was written.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        name: str = "memory",
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
        namespace: Iterable[str] = (),
        embedder: Embedder | None = None,
        model: str = "default",
    ) -> None:
        super().__init__(db, namespace=(*check_namespace(namespace), "memory", name))
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction = extraction
        self.native: Store = Store(
            self.db,
            embedder=embedder,
            model=model,
            index=["content"] if embedder is not None else None,
        )
        """The store underneath; a memory is an item of ``namespace`` with a ``content``."""
        self._run = uuid.uuid4().hex

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the memories that are about *query*, best first.

        The metadata of each is what it was added with, and its ``id`` and ``score``, 0 to 1.

        Raises:
            ValueError: ``max_search_results`` is below 1.
        """
        wanted = (options or {}).get("max_search_results")
        limit = self.max_search_results if wanted is None else wanted
        limit = MAX_RESULTS if limit is None else limit
        if limit < 1:
            raise ValueError("max_search_results must be >= 1")
        mode: SearchMode = "text" if self.native.embedder is None else "hybrid"
        search = partial(self.native.search, self.namespace, query, limit, mode=mode)
        return [_to_entry(hit) for hit in await self.run(search)]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Store a memory, and return its id. The same content and metadata have the same id."""
        id_ = _digest(content, metadata)
        value = {"content": content, "metadata": metadata}
        await self.run(partial(self.native.put, self.namespace, id_, value))
        return id_

    async def add_messages(
        self, messages: list[Message], context: AddMessagesContext | None = None
    ) -> list[str]:
        """Store the words of messages as memories, all or none, and return the ids of these.

        A batch that is given to this object again, with the same sequence numbers, is stored once.
        Without sequence numbers each call stores new ones. Messages without words are left out.

        Raises:
            ValueError: there are not as many sequence numbers as messages.
        """
        numbers: list[Any] = [uuid.uuid4().hex for _ in messages]
        if context is not None and context.sequence_numbers is not None:
            numbers = context.sequence_numbers
        items = []
        for number, message in zip(numbers, messages, strict=True):
            content, role = text_of(message), message["role"]
            if content:
                value = {"content": content, "metadata": {"role": role}}
                id_ = _digest(self._run, number, role, content)
                items.append(NewItem(self.namespace, id_, value))
        if items:
            await self.run(partial(self.native.put_batch, items))
        return [item.key for item in items]


@StoredForm("memory of Strands")
def _to_entry(hit: SearchHit) -> MemoryEntry:
    metadata = hit.value["metadata"] or {}
    return MemoryEntry(
        hit.value["content"], metadata={"id": hit.key, "score": hit.score, **metadata}
    )


def _digest(*parts: Any) -> str:
    return sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()[:32]


__all__ = ["MemalchemyMemoryStore"]

"""`MemalchemyUserMemoryStore`: the facts that lauren-ai's agents know about users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from lauren_ai import REMEMBER_META, MemoryFact, Message, RememberMeta

# The attribute in which @agent leaves the model of an agent; lauren-ai does not export its name.
from lauren_ai._agents import AGENT_META

from memalchemy import CapabilityMissing, Store, UserMemoryStore, memory, remember
from memalchemy.contracts import Seconds, StoreItem
from memalchemy.database import HostConnection
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations._declarations.lauren_ai import FACT_OWNERS
from memalchemy.integrations.lauren_ai._adapter import LaurenAdapter
from memalchemy.store import DELETE, LEAVE
from memalchemy.store.embedding import Embedder

# In the class body the name list means its method.
Facts = list[MemoryFact]
UserIds = list[str]
UserIdFunction = Callable[[Mapping[str, Any]], str | Awaitable[str | None] | None]


class MemalchemyUserMemoryStore(LaurenAdapter):
    """Stores facts about users, each user's separately.

    Two users may each have a fact with the same id: `add` never moves a fact from one user to
    another. `update` and `delete`, which lauren-ai calls with the id alone, need ``user_id=`` then.
    Facts that are read are copies.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        half_life: the time, in seconds or as a timedelta, after which the confidence in a fact that
            was not repeated is halved. Without it the confidence stays, as in lauren-ai.
        embedder: a function that returns a vector for each of a list of texts; it may be a
            coroutine function. With it facts are found by meaning as well.
        namespace: keeps these facts apart from others.

    ``native`` is the `memalchemy.UserMemoryStore` underneath, which also reinforces, learns and
    recalls.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        half_life: Seconds | None = None,
        embedder: Embedder | None = None,
        namespace: Iterable[str] = (),
    ) -> None:
        super().__init__(db, namespace=namespace)
        self._index = Store(self.db, index_text=False)
        self._owners = (*self.namespace, FACT_OWNERS)
        self.native: UserMemoryStore = UserMemoryStore(
            Store(self.db, embedder=embedder),
            half_life=half_life,
            namespace=(*self.namespace, "facts"),
        )

    async def add(self, fact: MemoryFact) -> None:
        """Store a fact, replacing one of the same user and id.

        Its confidence, from 0 to 1, is as of now. A time without a zone is local time.
        """
        with self.translated_errors():
            async with self.db.transaction() as tx:
                await self.native.add(_to_native(fact), connection=tx)
                await self._add_owner(fact.memory_id, fact.user_id, tx)

    async def get(self, user_id: str, memory_id: str) -> MemoryFact | None:
        """Return a fact of the user, or ``None``."""
        with self.translated_errors():
            found = await self.native.get(user_id, memory_id)
        return None if found is None else _from_native(found)

    async def search(self, user_id: str, query: str, top_k: int = 10) -> Facts:
        """Return at most *top_k* facts of the user that are related to *query*.

        Facts with words of the query come first, in any word order, by relevance and confidence.
        Facts follow whose text or topics contain the query as a substring, by confidence. An empty
        query matches all facts, by confidence.
        """
        with self.translated_errors():
            try:
                found = await self.native.search(user_id, query, top_k)
            except CapabilityMissing:  # the words are encrypted: only the facts can be read
                found = []
            if len(found) < top_k and query.strip():
                known = {fact.memory_id for fact in found}
                rest = [
                    fact
                    for fact in await self.native.list(user_id)
                    if fact.memory_id not in known and _contains(fact, query.lower())
                ]
                found += sorted(rest, key=lambda fact: -fact.confidence)[: top_k - len(found)]
        return [_from_native(fact) for fact in found]

    async def list(self, user_id: str, topic: str | None = None) -> Facts:
        """Return all facts of the user, or those of *topic* in any case; the last seen first."""
        with self.translated_errors():
            return [_from_native(fact) for fact in await self.native.list(user_id, topic)]

    async def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        confidence: float | None = None,
        user_id: str | None = None,
    ) -> None:
        """Change the given fields of a fact, if it is there; concurrent changes are kept.

        Raises:
            StorageError: several users have a fact with this id, and *user_id* was not given.
        """
        with self.translated_errors():
            if owner := await self._owner(memory_id, user_id):
                await self.native.update(owner, memory_id, content=content, confidence=confidence)

    async def delete(self, memory_id: str, *, user_id: str | None = None) -> None:
        """Delete a fact, if it is there.

        Raises:
            StorageError: several users have a fact with this id, and *user_id* was not given.
        """
        with self.translated_errors():
            if owner := await self._owner(memory_id, user_id):
                async with self.db.transaction() as tx:
                    await self.native.delete(owner, memory_id, connection=tx)
                    await self._delete_owner(memory_id, owner, tx)

    async def clear(self, user_id: str) -> None:
        """Delete all facts of the user."""
        with self.translated_errors():
            async with self.db.transaction() as tx:
                facts = await self.native.list(user_id, connection=tx)
                await self.native.clear(user_id, connection=tx)
                for memory_id in sorted(fact.memory_id for fact in facts):
                    await self._delete_owner(memory_id, user_id, tx)

    def serve(
        self, agent_class: type, *, user_id: UserIdFunction | None = None, llm: Any = None
    ) -> None:
        """Make lauren-ai's own ``@remember`` on an agent class work, with this store.

        With ``inject`` each run tells the model at most ``top_k`` of the user's facts, in a message
        before the user's: lauren-ai makes the system prompt before it calls any hook. With
        ``extract`` the facts that a run reveals about the user are stored. ``store``, a name, is
        taken to mean this store.

        Args:
            user_id: a function of the run's metadata, with ``self``, ``ctx`` and
                ``conversation_id`` added, that returns the user's id; without it, ``user_id`` of
                the metadata. A run without a user reads and writes nothing.
            llm: a transport of lauren-ai's. It is asked for the facts, with the model that
                ``extraction_model`` names, or else with the agent's. Without it, sentences in which
                the user says "I" become facts, in English.

        Raises:
            TypeError: the class is not decorated, or was given a memory already.
            ValueError: ``extraction_model`` was set, and *llm* is missing.
        """
        meta: RememberMeta | None = getattr(agent_class, REMEMBER_META, None)
        if meta is None:
            raise TypeError(f"{agent_class.__name__} is not decorated with lauren-ai's @remember")
        if meta.extraction_model is not None and llm is None:
            raise ValueError(
                f"@remember names extraction_model={meta.extraction_model!r}: give llm=, the "
                "transport that is asked for it"
            )

        async def ask(prompt: str) -> Any:
            of_agent = getattr(agent_class, AGENT_META, None)
            model = meta.extraction_model or (None if of_agent is None else of_agent.model)
            return await llm.complete([Message(role="user", content=prompt)], model=model)

        remember(
            store=_FactSource(self),
            user_id=user_id,
            extract=meta.extract,
            inject=meta.inject,
            top_k=meta.top_k,
            llm=None if llm is None else ask,
        )(agent_class)

    async def _owner(self, memory_id: str, user_id: str | None) -> str | None:
        """Return the user who has a fact, or ``None`` if nobody has it."""
        if user_id is not None:
            return user_id
        owners: UserIds = await self._index.get(self._owners, memory_id) or []
        if len(owners) > 1:
            raise ValueError(
                f"{len(owners)} users have a fact {memory_id!r}: say whose, with user_id="
            )
        return owners[0] if owners else None

    async def _add_owner(self, memory_id: str, user_id: str, tx: HostConnection) -> None:
        def add(item: StoreItem | None) -> Any:
            owners = [] if item is None else item.value
            return LEAVE if user_id in owners else [*owners, user_id]

        await self._change_owners(memory_id, add, tx)

    async def _delete_owner(self, memory_id: str, user_id: str, tx: HostConnection) -> None:
        def remove(item: StoreItem | None) -> Any:
            owners = [] if item is None else item.value
            if user_id not in owners:
                return LEAVE
            return [one for one in owners if one != user_id] or DELETE

        await self._change_owners(memory_id, remove, tx)

    async def _change_owners(self, memory_id: str, change: Any, tx: HostConnection) -> None:
        await self._index.change(
            self._owners, memory_id, change, metadata=None, index=False, connection=tx
        )


class _FactSource:
    """The store that `remember` works on; it also records the owners of facts that are learnt."""

    def __init__(self, facts: MemalchemyUserMemoryStore) -> None:
        self._facts = facts
        self.recall = facts.native.recall

    async def learn(self, user_id: str, messages: list[Any], **options: Any) -> None:
        facts = self._facts
        learnt = await facts.native.learn(user_id, messages, **options)
        if learnt:
            async with facts.db.transaction() as tx:
                for memory_id in sorted(fact.memory_id for fact in learnt):
                    await facts._add_owner(memory_id, user_id, tx)


def _to_native(fact: MemoryFact) -> memory.MemoryFact:
    return memory.MemoryFact(
        memory_id=fact.memory_id,
        user_id=fact.user_id,
        content=fact.content,
        topics=tuple(fact.topics),
        confidence=fact.confidence,
        created_at=fact.created_at.astimezone(UTC),
        last_seen_at=fact.last_seen_at.astimezone(UTC),
        source_conversation_id=fact.source_conversation_id,
        as_of=datetime.now(UTC),
    )


def _from_native(fact: memory.MemoryFact) -> MemoryFact:
    return MemoryFact(
        memory_id=fact.memory_id,
        user_id=fact.user_id,
        content=fact.content,
        topics=list(fact.topics),
        confidence=fact.confidence,
        created_at=fact.created_at,
        last_seen_at=fact.last_seen_at,
        source_conversation_id=fact.source_conversation_id,
    )


def _contains(fact: memory.MemoryFact, part: str) -> bool:
    return any(part in text.lower() for text in (fact.content, *fact.topics))

"""`MemalchemyUserMemoryStore`: what lauren-ai's agents know of their users."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from lauren_ai import REMEMBER_META, MemoryFact, RememberMeta
from lauren_ai._agents import AGENT_META
from lauren_ai._transport import Message

from memalchemy import CapabilityMissing, Database, Store, UserMemoryStore, memory, remember
from memalchemy.contracts import Seconds, StoreItem
from memalchemy.database import HostConnection
from memalchemy.integrations.lauren_ai.place import IN_MEMORY, Place
from memalchemy.memory.decorator import UserResolver
from memalchemy.store import DELETE, LEAVE
from memalchemy.store.embedding import Embedder

# Inside the class list is a method.
Facts = list[MemoryFact]
Names = list[str]


class MemalchemyUserMemoryStore(Place):
    """Facts about users, each user's by itself.

    The same id may be a fact of each of two users: `add` takes nothing from anybody. `update` and
    `delete`, which lauren-ai calls by the id alone, then ask whose. Facts read are copies.

    Args:
        db: a `Database`, which may hold anything else besides, or a URL; without one a database in
            memory, for this object alone.
        half_life: after how long without being heard again a fact is half as sure, in seconds or as
            a timedelta; without it a fact stays as sure as it was, as in lauren-ai.
        embedder: a function of a list of texts that gives a vector for each; it may be a coroutine.
            With it facts are found by meaning as well.
        namespace: keeps these facts apart from others.

    ``native`` is the `memalchemy.UserMemoryStore` underneath, which also reinforces, learns and
    recalls.
    """

    def __init__(
        self,
        db: Database | str = IN_MEMORY,
        *,
        half_life: Seconds | None = None,
        embedder: Embedder | None = None,
        namespace: Iterable[str] = (),
    ) -> None:
        super().__init__(db, namespace=namespace)
        self._index = Store(self.db, index_text=False)
        self._owners = (*self._namespace, "fact owners")
        self.native = UserMemoryStore(
            Store(self.db, embedder=embedder),
            half_life=half_life,
            namespace=(*self._namespace, "facts"),
        )

    async def add(self, fact: MemoryFact) -> None:
        """Keep a fact; one of the same owner and id is replaced.

        Its confidence, from 0 to 1, is as of now. Times without a zone are this machine's.
        """
        with self._as_theirs():
            async with self.db.transaction() as tx:
                await self.native.add(_stored(fact), connection=tx)
                await self._note_owner(fact.memory_id, fact.user_id, tx)

    async def get(self, user_id: str, memory_id: str) -> MemoryFact | None:
        """A fact of the user's, or ``None``."""
        with self._as_theirs():
            found = await self.native.get(user_id, memory_id)
        return None if found is None else _read(found)

    async def search(self, user_id: str, query: str, top_k: int = 10) -> Facts:
        """The user's facts that have to do with *query*, at most *top_k*.

        First those that hold words of it, in any order, by relevance and confidence; then those
        that hold it as a part of their text or of a topic, the surest first. An empty query takes
        all, the surest first.
        """
        with self._as_theirs():
            try:
                found = await self.native.search(user_id, query, top_k)
            except CapabilityMissing:  # encrypted words: what is below reads the facts
                found = []
            if len(found) < top_k and query.strip():
                known = {fact.memory_id for fact in found}
                rest = [
                    fact
                    for fact in await self.native.list(user_id)
                    if fact.memory_id not in known and _holds(fact, query.lower())
                ]
                found += sorted(rest, key=lambda fact: -fact.confidence)[: top_k - len(found)]
        return [_read(fact) for fact in found]

    async def list(self, user_id: str, topic: str | None = None) -> Facts:
        """All of the user's facts, or those of *topic* in any case; the last seen first."""
        with self._as_theirs():
            return [_read(fact) for fact in await self.native.list(user_id, topic)]

    async def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        confidence: float | None = None,
        user_id: str | None = None,
    ) -> None:
        """Change what is given of a fact, if it is there. What others change of it stays.

        Raises:
            StorageError: several users have a fact of this id, and *user_id* does not say whose.
        """
        with self._as_theirs():
            if owner := await self._owner(memory_id, user_id):
                await self.native.update(owner, memory_id, content=content, confidence=confidence)

    async def delete(self, memory_id: str, *, user_id: str | None = None) -> None:
        """Remove a fact, if it is there.

        Raises:
            StorageError: several users have a fact of this id, and *user_id* does not say whose.
        """
        with self._as_theirs():
            if owner := await self._owner(memory_id, user_id):
                async with self.db.transaction() as tx:
                    await self.native.delete(owner, memory_id, connection=tx)
                    await self._forget_owner(memory_id, owner, tx)

    async def clear(self, user_id: str) -> None:
        """Remove all of the user's facts."""
        with self._as_theirs():
            async with self.db.transaction() as tx:
                facts = await self.native.list(user_id, connection=tx)
                await self.native.clear(user_id, connection=tx)
                for memory_id in sorted(fact.memory_id for fact in facts):
                    await self._forget_owner(memory_id, user_id, tx)

    def serve(
        self, agent_class: type, *, user_id: UserResolver | None = None, llm: Any = None
    ) -> None:
        """Make true what lauren-ai's own ``@remember`` says of an agent class, with this store.

        With ``inject`` each run tells the model at most ``top_k`` of the user's facts, in a message
        before the user's: lauren-ai makes the system prompt before it asks anybody. With
        ``extract`` what the run says of the user is kept. ``store``, a name, is taken for this one.

        Args:
            user_id: a function of what a run's metadata holds, with ``self``, ``ctx`` and
                ``conversation_id``, that gives the user's id; without it ``user_id`` of the
                metadata. Without a user nothing is read or written.
            llm: a transport of lauren-ai's, which is asked for the facts: for the model that
                ``extraction_model`` names, or else the agent's. Without it sentences in which the
                user says "I" are taken, in English.

        Raises:
            TypeError: the class is not decorated so, or remembers already.
            ValueError: an ``extraction_model`` is named, and there is no *llm* to ask.
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
            store=_Served(self),
            user_id=user_id,
            extract=meta.extract,
            inject=meta.inject,
            top_k=meta.top_k,
            llm=None if llm is None else ask,
        )(agent_class)

    async def _owner(self, memory_id: str, user_id: str | None) -> str | None:
        """Whose fact it is; ``None``: nobody's."""
        if user_id is not None:
            return user_id
        owners: Names = await self._index.get(self._owners, memory_id) or []
        if len(owners) > 1:
            raise ValueError(
                f"{len(owners)} users have a fact {memory_id!r}: say whose, with user_id="
            )
        return owners[0] if owners else None

    async def _note_owner(self, memory_id: str, user_id: str, tx: HostConnection) -> None:
        def noted(item: StoreItem | None) -> Any:
            owners = [] if item is None else item.value
            return LEAVE if user_id in owners else [*owners, user_id]

        await self._change_owners(memory_id, noted, tx)

    async def _forget_owner(self, memory_id: str, user_id: str, tx: HostConnection) -> None:
        def left(item: StoreItem | None) -> Any:
            owners = [] if item is None else item.value
            if user_id not in owners:
                return LEAVE
            return [one for one in owners if one != user_id] or DELETE

        await self._change_owners(memory_id, left, tx)

    async def _change_owners(self, memory_id: str, change: Any, tx: HostConnection) -> None:
        await self._index.change(
            self._owners, memory_id, change, metadata=None, index=False, connection=tx
        )


class _Served:
    """The facts as `remember` takes them: what is learnt can be found by its id alone, too."""

    def __init__(self, facts: MemalchemyUserMemoryStore) -> None:
        self._facts = facts
        self.recall = facts.native.recall

    async def learn(self, user_id: str, messages: list[Any], **options: Any) -> None:
        facts = self._facts
        learnt = await facts.native.learn(user_id, messages, **options)
        if learnt:
            async with facts.db.transaction() as tx:
                for memory_id in sorted(fact.memory_id for fact in learnt):
                    await facts._note_owner(memory_id, user_id, tx)


def _stored(fact: MemoryFact) -> memory.MemoryFact:
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


def _read(fact: memory.MemoryFact) -> MemoryFact:
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


def _holds(fact: memory.MemoryFact, part: str) -> bool:
    return any(part in text.lower() for text in (fact.content, *fact.topics))

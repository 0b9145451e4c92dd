"""`UserMemoryStore`: facts about users, each user's by itself, in a `Store`.

No method finds, changes or removes a fact without its owner's name. Knows the store's methods; no
SQL.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from memalchemy.contracts import Seconds, StoreItem, check_limit, check_query
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.errors import Conflict
from memalchemy.events import operation
from memalchemy.keys import check_namespace
from memalchemy.memory.extracting import Extract, facts_of
from memalchemy.memory.facts import (
    HALF_LIFE,
    LEARNT_ID,
    REINFORCEMENT,
    MemoryFact,
    build_memory_context,
    check_confidence,
    check_half_life,
    check_user,
    fact_of,
    folded,
    topics_of,
    words_of,
)
from memalchemy.memory.fence import FACTS, MEMORY, fenced, with_block, without_blocks
from memalchemy.memory.finding import mode_of, naming_of
from memalchemy.memory.states import check_messages, latest_prompt
from memalchemy.messages import text_of
from memalchemy.store import LEAVE, Store

PAGE = 500

# Inside the class list is a method.
Facts = list[MemoryFact]
Injected = list[Any]
Worth = list[tuple[float, MemoryFact]]
Pages = AsyncGenerator[tuple[Worth, float]]


class UserMemoryStore:
    """Facts about users.

    Confidence fades by itself: every read computes it from what was stored and the time since. A
    fact of one user cannot be read, changed or removed under the name of another, and two users may
    have facts of one id. Writers of any number of processes lose nothing of each other's.

    Args:
        store: a `Store`, or a `Database`. With an embedder facts are found by meaning as well.
        half_life: after how long without being heard again a fact is half as sure, in seconds or as
            a timedelta; ``None``: it stays as sure as it was.
        namespace: where facts are kept: under ``(*namespace, user_id)``.

    Every method takes ``connection=``, as those of `Store` do. A *user_id* is a text that is not
    empty.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        ValueError, TypeError: *user_id* is none.
    """

    def __init__(
        self,
        store: Store | Database,
        *,
        half_life: Seconds | None = HALF_LIFE,
        namespace: Sequence[str] = ("facts",),
    ) -> None:
        self.store = store if isinstance(store, Store) else Store(check_database(store, self))
        self.half_life = check_half_life(half_life)
        self.namespace = check_namespace(namespace)

    def __repr__(self) -> str:
        return f"UserMemoryStore({self.store!r})"

    async def add(self, fact: MemoryFact, *, connection: HostConnection | None = None) -> None:
        """Keep a fact. One of the same owner and id is replaced.

        Raises:
            TooLarge: its id or its owner's is too long to be a key.
        """
        if not isinstance(fact, MemoryFact):
            raise TypeError(f"add takes a MemoryFact, not a {type(fact).__name__}")
        await self._put(fact, connection)

    async def get(
        self, user_id: str, memory_id: str, *, connection: HostConnection | None = None
    ) -> MemoryFact | None:
        """A fact of the user's, as sure as it is now; or ``None``."""
        place = self._place(user_id)
        item = await self.store.get_item(place, memory_id, connection=connection)
        return None if item is None else self._fact(item, datetime.now(UTC))

    async def search(
        self,
        user_id: str,
        query: str = "",
        top_k: int = 10,
        *,
        connection: HostConnection | None = None,
    ) -> Facts:
        """The user's facts that hold words of *query*, in any order; at most *top_k*.

        First those whose relevance times confidence is greatest. An empty query takes all, the
        surest first. Those alike are in the order of when they were last seen, the newest first.

        Raises:
            CapabilityMissing: there is a query, and the database is encrypted and holds neither
                readable words nor vectors to look in.
        """
        most = check_limit(top_k)
        place, now = self._place(user_id), datetime.now(UTC)
        if not most:
            return []
        if check_query(query).strip():
            pages = self._fitting(place, query, now, connection)
        else:
            pages = self._surest(place, now, connection)
        best: Worth = []
        async with aclosing(pages):
            async for page, bound in pages:
                # What is written between two pages may be on both.
                found = {fact.memory_id: (worth, fact) for worth, fact in best + page}
                best = sorted(found.values(), key=_rank, reverse=True)[:most]
                if len(best) == most and best[-1][0] > bound:
                    break
        return [fact for _, fact in best]

    async def list(
        self, user_id: str, topic: str | None = None, *, connection: HostConnection | None = None
    ) -> Facts:
        """All of the user's facts, or those of *topic* in any case; the last seen first."""
        wanted = None if topic is None else folded(topic)
        found: Facts = []
        async with aclosing(self._surest(self._place(user_id), datetime.now(UTC), connection)) as (
            pages
        ):
            async for page, _ in pages:
                found += [
                    fact for _, fact in page if wanted is None or wanted in map(folded, fact.topics)
                ]
        return sorted(found, key=_seen, reverse=True)

    async def update(
        self,
        user_id: str,
        memory_id: str,
        *,
        content: str | None = None,
        topics: Iterable[str] | None = None,
        confidence: float | None = None,
        connection: HostConnection | None = None,
    ) -> MemoryFact | None:
        """Change what is given of a fact, and give what it is then; ``None`` if it is not there.

        When it was last seen stays. What others change of it meanwhile stays as well.
        """
        changes: dict[str, Any] = {}
        if content is not None:
            changes["content"] = content
        if topics is not None:
            changes["topics"] = topics_of(topics)
        if confidence is not None:
            changes["confidence"] = check_confidence(confidence)
        return await self._change(
            user_id, memory_id, lambda fact: replace(fact, **changes), connection
        )

    async def reinforce(
        self,
        user_id: str,
        memory_id: str,
        by: float = REINFORCEMENT,
        *,
        connection: HostConnection | None = None,
    ) -> MemoryFact | None:
        """A fact was heard again: it is surer by *by*, and was seen now. ``None`` if not there."""
        return await self._change(
            user_id,
            memory_id,
            lambda fact: fact.reinforce(by, half_life=self.half_life),
            connection,
        )

    async def delete(
        self, user_id: str, memory_id: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Remove a fact of the user's; whether it was there."""
        return await self.store.delete(self._place(user_id), memory_id, connection=connection)

    async def clear(self, user_id: str, *, connection: HostConnection | None = None) -> int:
        """Remove all of the user's facts; how many."""
        return await self.store.clear_namespace(self._place(user_id), connection=connection)

    async def count(self, user_id: str, *, connection: HostConnection | None = None) -> int:
        """How many facts of the user's there are."""
        return await self.store.count(self._place(user_id), connection=connection)

    async def recall(
        self,
        user_id: str,
        messages: Iterable[Any],
        top_k: int = 5,
        *,
        connection: HostConnection | None = None,
    ) -> Injected:
        """The messages, with what is known of the user in one block behind the latest prompt.

        First what fits the prompt, then what is surest, at most *top_k* facts. The block takes the
        place of an earlier one. In an encrypted database that holds nothing readable to look in,
        only what is surest.
        """
        kept = without_blocks(check_messages(messages), FACTS)
        at = latest_prompt(kept)
        with operation("memory.facts.injected", tenant=self.store.db.tenant) as event:
            can_search = mode_of(self.store) is not None
            prompt = text_of(kept[at]).strip() if at is not None and can_search else ""
            facts: Facts = []
            for query in dict.fromkeys((prompt, "")):
                if len(facts) < top_k:
                    hits = await self.search(user_id, query, top_k, connection=connection)
                    known = {fact.memory_id for fact in facts}
                    facts += [fact for fact in hits if fact.memory_id not in known]
            facts = facts[:top_k]
            event.details["facts"] = len(facts)
        lines = build_memory_context(facts).splitlines()
        block = fenced(lines, fence=FACTS, source="what the user has said before")
        return with_block(kept, block, fence=FACTS)

    async def learn(
        self,
        user_id: str,
        messages: Iterable[Any],
        *,
        extract: Extract | None = None,
        llm: Callable[[str], Any] | None = None,
        conversation_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> Facts:
        """Keep what the latest turn of a conversation says of the user; what was kept.

        A fact in words that are known already, whatever their case and punctuation, is not kept
        twice: it is reinforced.

        Args:
            extract: a function of the messages, without what was injected, that gives facts: texts,
                mappings with ``content``, ``topics`` and ``confidence``, or `MemoryFact` objects;
                plain or a coroutine.
            llm: a function of a prompt that gives a model's answer; see `extract_facts`. Without
                either, sentences of the prompt in which the user says "I" are taken, in English.

        Raises:
            ValueError, TypeError: what was extracted is no fact, or another user's.
        """
        place = self._place(user_id)
        said = without_blocks(check_messages(messages), FACTS, MEMORY)
        kept: Facts = []
        with operation("memory.facts.extracted", tenant=self.store.db.tenant) as event:
            event.name = "memory.facts.extract_failed"
            found = await facts_of(said, extract, llm)
            known = await self._known(user_id, connection) if found else {}
            name_of = naming_of(self.store, place)
            for one in found:
                fact = fact_of(one, user_id, conversation_id, name_of)
                if not isinstance(one, MemoryFact):
                    same = known.get(words_of(fact.content), fact.memory_id)
                    fact = replace(fact, memory_id=same)
                kept.append(await self._heard(place, fact, connection))
            event.name, event.details["facts"] = "memory.facts.extracted", len(kept)
        return kept

    async def _fitting(
        self, place: tuple[str, ...], query: str, now: datetime, connection: HostConnection | None
    ) -> Pages:
        """Facts with what each is worth, page by page, and what a later one is worth at most."""
        mode, offset = mode_of(self.store) or "text", 0
        while True:
            hits = await self.store.search(
                place,
                query,
                mode=mode,
                limit=PAGE,
                offset=offset,
                connection=connection,
            )
            facts = [(hit.score or 0.0, self._fact(hit, now)) for hit in hits]
            yield (
                [(score * fact.confidence, fact) for score, fact in facts],
                facts[-1][0] if facts else 0.0,
            )
            if len(hits) < PAGE or mode != "text":  # pages of a hybrid search do not fit together
                return
            offset += PAGE

    async def _surest(
        self, place: tuple[str, ...], now: datetime, connection: HostConnection | None
    ) -> Pages:
        """The same of all facts, by the time of their last write: none is seen after it."""
        last: StoreItem | None = None
        while True:
            items = await self.store.list_items(
                place, limit=PAGE, after=last, connection=connection
            )
            facts = [self._fact(item, now) for item in items]
            last = items[-1] if items else None
            age = timedelta(0) if last is None else max(now - last.updated_at, timedelta(0))
            bound = 1.0 if self.half_life is None else 0.5 ** (age / self.half_life)
            yield [(fact.confidence, fact) for fact in facts], bound
            if len(items) < PAGE:
                return

    async def _known(self, user_id: str, connection: HostConnection | None) -> dict[str, str]:
        """The ids of facts that were extracted, by their words; none without keys.

        With keys, what was learnt before the first one came first has an id of another's making.
        """
        if not self.store.db.keyring.encrypts:
            return {}
        return {
            words_of(fact.content): fact.memory_id
            for fact in await self.list(user_id, connection=connection)
            if fact.memory_id.startswith(LEARNT_ID)
        }

    async def _heard(
        self, place: tuple[str, ...], fact: MemoryFact, connection: HostConnection | None
    ) -> MemoryFact:
        """Keep a fact, or reinforce what is known already in its words."""
        try:
            return await self._put(fact, connection, expected_version=None)
        except Conflict:
            topics = fact.topics

            def again(known: MemoryFact) -> MemoryFact:
                both = tuple(dict.fromkeys((*known.topics, *topics)))
                return replace(known.reinforce(half_life=self.half_life), topics=both)

            changed = await self._change(fact.user_id, fact.memory_id, again, connection)
            if changed is not None:
                return changed
            return await self._heard(place, fact, connection)  # deleted meanwhile

    async def _change(
        self,
        user_id: str,
        memory_id: str,
        change: Callable[[MemoryFact], MemoryFact],
        connection: HostConnection | None,
    ) -> MemoryFact | None:
        """What *change* makes of a fact, once it is written; ``None`` if it is not there."""
        made: MemoryFact | None = None

        def changed(item: StoreItem | None) -> Any:
            nonlocal made
            # Not rounded: a fact that is written often enough would never fade.
            made = None if item is None else change(self._exact(item, datetime.now(UTC)))
            return LEAVE if made is None else _value_of(made)

        await self.store.change(
            self._place(user_id),
            memory_id,
            changed,
            metadata=None,
            index=self._index,
            connection=connection,
        )
        return None if made is None else self._rounded(made)

    async def _put(
        self,
        fact: MemoryFact,
        connection: HostConnection | None,
        **expected: Any,
    ) -> MemoryFact:
        await self.store.put(
            self._place(fact.user_id),
            fact.memory_id,
            _value_of(fact),
            index=self._index,
            connection=connection,
            **expected,
        )
        return self._rounded(fact)

    @property
    def _index(self) -> tuple[str, ...] | None:
        return ("content",) if self.store.embedder is not None else None

    def _fact(self, item: StoreItem, now: datetime) -> MemoryFact:
        """The fact as it reads now: what was written a moment ago reads as it was given."""
        return self._rounded(self._exact(item, now))

    def _exact(self, item: StoreItem, now: datetime) -> MemoryFact:
        fact = MemoryFact(memory_id=item.key, user_id=item.namespace[-1], **item.value)
        return fact.decay(now, half_life=self.half_life)

    def _rounded(self, fact: MemoryFact) -> MemoryFact:
        if self.half_life is None:  # nothing has faded
            return fact
        return replace(fact, confidence=round(fact.confidence, 4))

    def _place(self, user_id: str) -> tuple[str, ...]:
        return (*self.namespace, check_user(user_id))


def _value_of(fact: MemoryFact) -> dict[str, Any]:
    return {
        "content": fact.content,
        "topics": [*fact.topics],
        "confidence": fact.confidence,
        "as_of": fact.as_of,
        "created_at": fact.created_at,
        "last_seen_at": fact.last_seen_at,
        "source_conversation_id": fact.source_conversation_id,
    }


def _seen(fact: MemoryFact) -> tuple[datetime, str]:
    return fact.last_seen_at, fact.memory_id


def _rank(one: tuple[float, MemoryFact]) -> tuple[float, datetime, str]:
    return one[0], *_seen(one[1])

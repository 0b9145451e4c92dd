"""`UserMemoryStore`: facts about users in a `Store`, each user's apart from the others'.

Every method takes the user's id: no fact is found, changed or removed without it.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from memalchemy._foreign_rows import foreign_item, warn_of_foreign_items
from memalchemy.contracts import (
    Match,
    SearchHit,
    Seconds,
    StoreItem,
    check_limit,
    check_match,
    check_query,
)
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.events import operation
from memalchemy.keys import check_namespace
from memalchemy.memory._encryption import name_function, search_mode
from memalchemy.memory._fact_extraction import Extract, facts_of_turn
from memalchemy.memory._relevance import relevant_hits
from memalchemy.memory.facts import (
    EXTRACTED_ID,
    HALF_LIFE,
    REINFORCEMENT,
    MemoryFact,
    build_memory_context,
    check_confidence,
    check_half_life,
    check_topics,
    check_user,
    fact_from,
    normalised_topic,
    normalised_words,
)
from memalchemy.memory.prompt_block import (
    FACTS_TAG,
    MEMORY_TAG,
    build_block,
    with_block,
    without_blocks,
)
from memalchemy.messages import check_messages, latest_prompt, text_of
from memalchemy.store import LEAVE, Store

PAGE = 500

CONFIDENCE_SHARE = 0.05
"""The part of its relevance that a fact without any confidence loses. With more, facts that do not
fit come before one that fits and was not seen for long (`benchmarks.memory_relevance`)."""

# The method `list` hides the type inside the class.
Facts = list[MemoryFact]
InjectedMessages = list[Any]


class Candidate(NamedTuple):
    """Fact found by a search.

    Attributes:
        rank: what the facts are ordered by: relevance, less what a lack of confidence takes of it;
            without a query the confidence.
        bound: the highest rank that a fact found after this one may have.
    """

    fact: MemoryFact
    rank: float
    bound: float


class UserMemoryStore:
    """Facts about users.

    The confidence of a fact fades by itself: every read computes it from what was stored and the
    time since. A fact of one user cannot be read, changed or removed under the name of another, and
    two users may have facts with the same id. Writers in any number of processes lose nothing of
    each other's changes.

    Args:
        store: a `Store`, or a `Database`. With an embedder facts are found by meaning as well.
        half_life: time after which the confidence is halved, in seconds or as a timedelta, unless
            the fact is seen again; ``None`` if it does not fade.
        namespace: facts are stored under ``(*namespace, user_id)``.

    Every method takes ``connection=``, as those of `Store` do.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        ValueError, TypeError: *user_id* is empty, or no text.
        Conflict: the item of a *memory_id* is no fact. Lists and searches leave such items out.
    """

    def __init__(
        self,
        store: Store | Database,
        *,
        half_life: Seconds | None = HALF_LIFE,
        namespace: Sequence[str] = ("facts",),
    ) -> None:
        self.store: Store = (
            store if isinstance(store, Store) else Store(check_database(store, self))
        )
        self.half_life: timedelta | None = check_half_life(half_life)
        self.namespace: tuple[str, ...] = check_namespace(namespace)

    def __repr__(self) -> str:
        return f"UserMemoryStore({self.store!r})"

    async def add(
        self,
        fact: MemoryFact | str,
        content: str | None = None,
        *,
        topics: Iterable[str] = (),
        confidence: float = 1.0,
        conversation_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> MemoryFact:
        """Store a fact and return it: ``add(fact)``, or ``add(user_id, content)``.

        ``add(fact)`` replaces a fact with the same owner and id.

        ``add(user_id, content)`` makes a fact of a text, with the other arguments as its fields and
        an id made from its words. The same words again, whatever their case and punctuation, are
        not stored twice: the known fact was seen again. It is reinforced, to at least *confidence*,
        and gains *topics*.

        Raises:
            ValueError, TypeError: this is neither a fact, nor a user's id and a text.
            TooLarge: an id is too long to be a key.
        """
        if not isinstance(fact, MemoryFact):
            return await self._add_text(
                check_user(fact), content, topics, confidence, conversation_id, connection
            )
        if content is not None or topics or confidence != 1.0 or conversation_id is not None:
            raise TypeError("a MemoryFact is added as it is, without other arguments")
        await self.store.put(
            self._namespace_of(fact.user_id),
            fact.memory_id,
            _to_value(fact),
            index=self._indexed_fields,
            connection=connection,
        )
        return fact

    async def get(
        self, user_id: str, memory_id: str, *, connection: HostConnection | None = None
    ) -> MemoryFact | None:
        """Return a fact of the user with its confidence now, or ``None``."""
        namespace = self._namespace_of(user_id)
        item = await self.store.get_item(namespace, memory_id, connection=connection)
        return None if item is None else self._to_rounded_fact(item, datetime.now(UTC))

    async def search(
        self,
        user_id: str,
        query: str = "",
        top_k: int = 10,
        *,
        match: Match = "any",
        connection: HostConnection | None = None,
    ) -> Facts:
        """Return at most *top_k* of the user's facts that hold words of *query*, the best first.

        Facts are ordered by their relevance, of which a lack of confidence takes up to 5 %. With
        the *match* ``all`` words find only facts that hold all of them. With an embedder facts are
        found by meaning as well, and the relevance is the mean of both. An empty query finds all
        facts, ordered by confidence. Of equal ones the last seen comes first.

        Raises:
            CapabilityMissing: there is a query, and the database is encrypted and holds neither
                readable words nor vectors to search.
        """
        limit, match = check_limit(top_k), check_match(match)
        namespace, now = self._namespace_of(user_id), datetime.now(UTC)
        if not limit:
            return []
        if check_query(query).strip():
            candidates = self._matching_facts(namespace, query, match, now, connection)
        else:
            candidates = self._all_facts(namespace, now, connection)
        found: dict[str, Candidate] = {}
        best_ranks: list[float] = []  # a heap of the *limit* highest ranks
        async with aclosing(candidates):
            async for candidate in candidates:
                if candidate.fact.memory_id in found:
                    continue  # it was written between two pages
                found[candidate.fact.memory_id] = candidate
                heapq.heappush(best_ranks, candidate.rank)
                if len(best_ranks) > limit:
                    heapq.heappop(best_ranks)
                if len(best_ranks) == limit and best_ranks[0] > candidate.bound:
                    break
        best = heapq.nlargest(limit, found.values(), key=_search_order)
        return [candidate.fact for candidate in best]

    async def list(
        self, user_id: str, topic: str | None = None, *, connection: HostConnection | None = None
    ) -> Facts:
        """Return all facts of the user, or those with a topic in any case; last seen first."""
        wanted = None if topic is None else normalised_topic(topic)
        namespace = self._namespace_of(user_id)
        found = [
            candidate.fact
            async for candidate in self._all_facts(namespace, datetime.now(UTC), connection)
            if wanted is None or wanted in map(normalised_topic, candidate.fact.topics)
        ]
        return sorted(found, key=_last_seen, reverse=True)

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
        """Change the given fields of a fact and return it; ``None`` if it is not there.

        ``last_seen_at`` stays, and so do changes that others make to other fields meanwhile.
        """
        changes: dict[str, Any] = {}
        if content is not None:
            changes["content"] = content
        if topics is not None:
            changes["topics"] = check_topics(topics)
        if confidence is not None:
            changes["confidence"] = check_confidence(confidence)
        return await self._change_fact(
            user_id, memory_id, lambda fact: fact and replace(fact, **changes), connection
        )

    async def reinforce(
        self,
        user_id: str,
        memory_id: str,
        by: float = REINFORCEMENT,
        *,
        connection: HostConnection | None = None,
    ) -> MemoryFact | None:
        """Record that a fact was seen again now: its confidence grows by *by*.

        Returns the fact; ``None`` if it is not there.
        """
        growth = check_confidence(by)
        return await self._change_fact(
            user_id,
            memory_id,
            lambda fact: fact and fact.reinforce(growth, half_life=self.half_life),
            connection,
        )

    async def delete(
        self, user_id: str, memory_id: str, *, connection: HostConnection | None = None
    ) -> bool:
        """Remove a fact of the user and return whether it was there."""
        namespace = self._namespace_of(user_id)
        return await self.store.delete(namespace, memory_id, connection=connection)

    async def clear(self, user_id: str, *, connection: HostConnection | None = None) -> int:
        """Remove all facts of the user and return how many there were."""
        return await self.store.clear_namespace(self._namespace_of(user_id), connection=connection)

    async def count(self, user_id: str, *, connection: HostConnection | None = None) -> int:
        """Return the number of facts of the user."""
        return await self.store.count(self._namespace_of(user_id), connection=connection)

    async def recall(
        self,
        user_id: str,
        messages: Iterable[Any],
        top_k: int = 5,
        *,
        connection: HostConnection | None = None,
    ) -> InjectedMessages:
        """Return the messages with a block of the user's facts behind the latest prompt.

        At most *top_k* facts: first those that match the prompt, then those with the highest
        confidence. The block replaces an earlier one. In an encrypted database that holds nothing
        readable to search, only the confidence decides.
        """
        kept = without_blocks(check_messages(messages), FACTS_TAG)
        prompt = latest_prompt(kept)
        with operation("memory.facts.injected", tenant=self.store.db.tenant) as event:
            query = ""
            if prompt is not None and search_mode(self.store) is not None:
                query = text_of(kept[prompt]).strip()
            facts = await self.search(user_id, query, top_k, connection=connection)
            if query and len(facts) < top_k:
                known = {fact.memory_id for fact in facts}
                surest = await self.search(user_id, "", top_k, connection=connection)
                facts += [fact for fact in surest if fact.memory_id not in known]
            facts = facts[:top_k]
            event.details["facts"] = len(facts)
        lines = build_memory_context(facts).splitlines()
        block = build_block(lines, tag=FACTS_TAG, source="what the user has said before")
        return with_block(kept, block, tag=FACTS_TAG)

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
        """Extract facts about the user from the latest turn, store them, and return them.

        A fact whose words are known, whatever their case and punctuation, is reinforced instead.

        Args:
            extract: function of the messages, without injected blocks, that returns facts: texts,
                mappings with ``content``, ``topics`` and ``confidence``, or `MemoryFact` objects;
                plain or a coroutine.
            llm: function of a prompt that returns a model's answer; see `extract_facts`. Without
                either, English sentences of the prompt in which the user says "I" are taken.

        Raises:
            ValueError, TypeError: what was extracted is no fact, or belongs to another user.
        """
        namespace = self._namespace_of(user_id)
        said = without_blocks(check_messages(messages), FACTS_TAG, MEMORY_TAG)
        learnt: Facts = []
        # The name of the event, unless the block reaches its end.
        with operation("memory.facts.extract_failed", tenant=self.store.db.tenant) as event:
            extracted = await facts_of_turn(said, extract, llm)
            known = await self._ids_by_words(user_id, connection) if extracted else {}
            name_of = name_function(self.store, namespace)
            for one in extracted:
                fact = fact_from(one, user_id, conversation_id, name_of)
                if not isinstance(one, MemoryFact):
                    fact = _with_known_id(fact, known)
                learnt.append(await self._add_or_reinforce(fact, 0.0, connection))
            event.name, event.details["facts"] = "memory.facts.extracted", len(learnt)
        return learnt

    async def _add_text(
        self,
        user_id: str,
        content: Any,
        topics: Iterable[str],
        confidence: float,
        conversation_id: str | None,
        connection: HostConnection | None,
    ) -> MemoryFact:
        topics = check_topics(topics)
        if not isinstance(content, str):
            what = "nothing" if content is None else f"a {type(content).__name__}"
            raise TypeError(f"add takes a MemoryFact, or a user's id and a text, not {what}")
        given = {"content": content, "topics": topics, "confidence": confidence}
        name_of = name_function(self.store, self._namespace_of(user_id))
        fact = fact_from(given, user_id, conversation_id, name_of)
        fact = _with_known_id(fact, await self._ids_by_words(user_id, connection))
        return await self._add_or_reinforce(fact, fact.confidence, connection)

    async def _matching_facts(
        self,
        namespace: tuple[str, ...],
        query: str,
        match: Match,
        now: datetime,
        connection: HostConnection | None,
    ) -> AsyncGenerator[Candidate]:
        """Yield the facts that match *query*, the most relevant first."""
        if self.store.embedder is not None:
            hits = await relevant_hits(
                self.store, [namespace], query, PAGE, match=match, connection=connection
            )
            for candidate in self._to_candidates(hits, now):
                yield candidate
            return
        offset = 0
        while True:
            page = await self.store.search(
                namespace, query, match=match, limit=PAGE, offset=offset, connection=connection
            )
            for candidate in self._to_candidates(page, now):
                yield candidate
            if len(page) < PAGE:
                return
            offset += PAGE

    def _to_candidates(self, hits: Sequence[SearchHit], now: datetime) -> Sequence[Candidate]:
        found = [one for hit in hits if (one := self._to_candidate(hit, now)) is not None]
        warn_of_foreign_items(len(hits) - len(found), "facts")
        return found

    def _to_candidate(self, hit: SearchHit, now: datetime) -> Candidate | None:
        fact, relevance = self._fact_or_none(hit, now), hit.score or 0.0
        if fact is None:
            return None
        fact = self._round_confidence(fact)
        lost = CONFIDENCE_SHARE * (1 - fact.confidence)
        return Candidate(fact, relevance * (1 - lost), bound=relevance)

    async def _all_facts(
        self, namespace: tuple[str, ...], now: datetime, connection: HostConnection | None
    ) -> AsyncGenerator[Candidate]:
        """Yield all facts, the last written first; ranked by their confidence."""
        items = self.store.iter_items(namespace, page_size=PAGE, connection=connection)
        foreign = 0
        async with aclosing(items):
            async for item in items:
                fact = self._fact_or_none(item, now)
                if fact is None:
                    foreign += 1
                    continue
                fact = self._round_confidence(fact)
                # Facts that follow were written earlier, and have faded since.
                age = max(now - item.updated_at, timedelta(0))
                bound = 1.0 if self.half_life is None else 0.5 ** (age / self.half_life)
                yield Candidate(fact, fact.confidence, bound)
        warn_of_foreign_items(foreign, "facts")

    async def _ids_by_words(
        self, user_id: str, connection: HostConnection | None
    ) -> dict[str, str]:
        """Return the ids of extracted facts by their words; needed only with encryption.

        Facts that were extracted before encryption, or under another key, have other ids.
        """
        if not self.store.db.keyring.encrypts:
            return {}
        return {
            normalised_words(fact.content): fact.memory_id
            for fact in await self.list(user_id, connection=connection)
            if fact.memory_id.startswith(EXTRACTED_ID)
        }

    async def _add_or_reinforce(
        self, fact: MemoryFact, least: float, connection: HostConnection | None
    ) -> MemoryFact:
        """Store *fact*, or reinforce the one of its id to a confidence of at *least* so much."""

        def merge(known: MemoryFact | None) -> MemoryFact:
            if known is None:
                return fact
            topics = tuple(dict.fromkeys((*known.topics, *fact.topics)))
            seen = known.reinforce(half_life=self.half_life)
            return replace(seen, topics=topics, confidence=max(seen.confidence, least))

        merged = await self._change_fact(fact.user_id, fact.memory_id, merge, connection)
        assert merged is not None
        return merged

    async def _change_fact(
        self,
        user_id: str,
        memory_id: str,
        change: Callable[[MemoryFact | None], MemoryFact | None],
        connection: HostConnection | None,
    ) -> MemoryFact | None:
        """Store what *change* makes of a fact, and return it; ``None`` leaves it as it is."""
        made: MemoryFact | None = None

        def new_value(item: StoreItem | None) -> Any:
            nonlocal made
            # Not rounded: a fact that is written often enough would never fade.
            made = change(None if item is None else self._to_fact(item, datetime.now(UTC)))
            return LEAVE if made is None else _to_value(made)

        await self.store.change(
            self._namespace_of(user_id),
            memory_id,
            new_value,
            metadata=None,
            index=self._indexed_fields,
            connection=connection,
        )
        return None if made is None else self._round_confidence(made)

    @property
    def _indexed_fields(self) -> tuple[str, ...] | None:
        return ("content",) if self.store.embedder is not None else None

    def _to_rounded_fact(self, item: StoreItem, now: datetime) -> MemoryFact:
        """Return the fact with its confidence now, rounded so that a new one reads as written."""
        return self._round_confidence(self._to_fact(item, now))

    def _to_fact(self, item: StoreItem, now: datetime) -> MemoryFact:
        fact = self._fact_or_none(item, now)
        if fact is None:
            raise foreign_item(item.namespace, item.key, "fact")
        return fact

    def _fact_or_none(self, item: StoreItem, now: datetime) -> MemoryFact | None:
        """Return a fact as of *now*; ``None`` if something else has been stored."""
        try:
            fact = MemoryFact(memory_id=item.key, user_id=item.namespace[-1], **item.value)
        except (TypeError, ValueError):
            return None
        return fact.decay(now, half_life=self.half_life)

    def _round_confidence(self, fact: MemoryFact) -> MemoryFact:
        if self.half_life is None:  # nothing fades
            return fact
        return replace(fact, confidence=round(fact.confidence, 4))

    def _namespace_of(self, user_id: str) -> tuple[str, ...]:
        return (*self.namespace, check_user(user_id))


def _to_value(fact: MemoryFact) -> dict[str, Any]:
    return {
        "content": fact.content,
        "topics": [*fact.topics],
        "confidence": fact.confidence,
        "as_of": fact.as_of,
        "created_at": fact.created_at,
        "last_seen_at": fact.last_seen_at,
        "source_conversation_id": fact.source_conversation_id,
    }


def _with_known_id(fact: MemoryFact, known: Mapping[str, str]) -> MemoryFact:
    """Return a fact with the id by which its words are known, if they are."""
    return replace(fact, memory_id=known.get(normalised_words(fact.content), fact.memory_id))


def _last_seen(fact: MemoryFact) -> tuple[datetime, str]:
    return fact.last_seen_at, fact.memory_id


def _search_order(candidate: Candidate) -> tuple[float, datetime, str]:
    return candidate.rank, *_last_seen(candidate.fact)

"""`VectorStore`: documents that are found by their words and by their meaning, in a `Store`."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memalchemy._foreign_rows import foreign_item, warn_of_foreign_items
from memalchemy.contracts import Match, SearchHit, Seconds, StoreItem, check_match, check_query
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.errors import AnsweredByWordsWarning
from memalchemy.keys import check_list, check_namespace
from memalchemy.search.diversity import diversify, pool_size
from memalchemy.search.hybrid import Ranked, check_fraction, check_threshold, fuse, fusion_depth
from memalchemy.store import Store
from memalchemy.store.embedding import Embedder
from memalchemy.store.item_search import OtherDimensions, by_words_notice

TEXT = "text"

UNRELATED = 0.500001
"""Score of vectors at a right angle: 0.5, and room for rounding."""


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """Document with a score from 0 to 1, higher is better; 1.0 if it was read by its id.

    ``raw_content`` holds the bytes that ``content`` describes, such as a picture.
    """

    id: str
    content: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)
    content_type: str = TEXT
    raw_content: bytes | None = None


class VectorStore:
    """Documents that are found by their words and, with an embedder, by their meaning as well.

    Args:
        store: a `Store`, or a `Database`.
        embedder: as of `Store`. For a `Database` only, because a `Store` has its own.
        namespace: where the documents are stored; other namespaces hold other documents.

    Every method takes ``connection=``, as those of `Store` do. Every process finds what one writes.
    What something else has written to the namespace, and is no document, is left out of searches
    with a warning.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        store: Store | Database,
        *,
        embedder: Embedder | None = None,
        namespace: Sequence[str] = ("documents",),
    ) -> None:
        if not isinstance(store, Store):
            store = Store(check_database(store, self), embedder=embedder)
        elif embedder is not None:
            raise TypeError("a Store has its own embedder: give one to it, or a Database here")
        self.store = store
        self.namespace: tuple[str, ...] = check_namespace(namespace)

    def __repr__(self) -> str:
        return f"VectorStore({self.store!r}, namespace={self.namespace!r})"

    async def upsert(
        self,
        content: str,
        *,
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        embedding: Any | None = None,
        content_type: str = TEXT,
        raw_content: bytes | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Write a document and return its id, which is new unless given.

        A document with the same id is replaced, with its metadata and its vector.

        Args:
            embedding: a vector, in place of the embedder's. The document is found by its words all
                the same.
            content_type, raw_content: for what is not text, such as a picture: a type of your
                choice, and the bytes. *content* is then a text that describes it.

        Raises:
            NotSerialisable, TooLarge: content, metadata or id cannot be stored.
            ValueError: the vector is zero, not finite, or of over 16,000 dimensions.
        """
        if not isinstance(content, str):
            raise TypeError(f"the content of a document is a str, not {type(content).__name__}")
        key = uuid.uuid4().hex if id is None else id
        value = _to_value(content, content_type, raw_content)
        is_text = value is content
        embeds = not is_text and embedding is None and self.store.embedder is not None
        await self.store.put(
            self.namespace,
            key,
            value,
            metadata,
            index=("content",) if embeds else None,
            embedding=embedding,
            ttl=ttl,
            connection=connection,
        )
        return key

    async def search(
        self,
        query: str | None = None,
        *,
        k: int = 5,
        match: Match = "any",
        filter: Mapping[str, Any] | None = None,
        embedding: Any | None = None,
        threshold: float | None = None,
        alpha: float | None = None,
        mmr: float | None = None,
        connection: HostConnection | None = None,
    ) -> list[MemoryResult]:
        """Return at most *k* documents that match *query*, the best first.

        Without an embedder and without *embedding* documents are ranked by words, as by
        `Store.search`. Otherwise *alpha* says what counts. The score is that of the words or of the
        meaning where only one of them counts, and otherwise combines both rankings.
        Words find the documents that share one with the query; meaning finds those whose vector is
        at less than a right angle to the query's. A *k* of zero or less, or a blank query, finds
        nothing. In an encrypted database whose words are not readable only the meaning counts.

        Args:
            match: words find documents that hold ``any`` of them, or only those that hold ``all``.
                Meaning adds others.
            filter: what the metadata must hold: equal values by name, or a filter of
                `memalchemy.filters`.
            embedding: the vector to look for, in place of the embedder's for *query*.
            threshold: minimum score.
            alpha: weight of the meaning against the words, one half by default. 0 for words alone,
                which calls no embedder; 1 for the meaning alone, whose scores are similarities.
            mmr: 0 to 1, to prefer documents that differ, as of `Store.search`. It compares vectors,
                so it works only where the meaning counts.

        Raises:
            CapabilityMissing: the database is encrypted, and holds nothing readable to search.
            ValueError: there are vectors, but none of this size, and no words to go by.

        Warns:
            AnsweredByWordsWarning: there are vectors, but none of this size: words alone count.
        """
        check_fraction(alpha, "alpha")
        check_fraction(mmr, "mmr")
        check_threshold(threshold)
        check_match(match)
        has_words = query is not None and bool(check_query(query).strip())
        if isinstance(k, bool) or not isinstance(k, int):
            raise TypeError(f"k is a whole number, not {type(k).__name__}")
        if k <= 0 or not (has_words or embedding is not None):
            return []
        if filter is not None and not isinstance(filter, Mapping):
            raise TypeError(f"filter is a mapping of metadata, not {type(filter).__name__}")
        wanted = {"$metadata": dict(filter)} if filter else None
        has_meaning = embedding is not None or self.store.embedder is not None
        by_meaning = has_meaning and not (has_words and alpha == 0)
        by_words = has_words and (
            not by_meaning or (alpha != 1 and self.store.db.keyring.is_readable("text"))
        )
        pool = k if mmr is None else pool_size(k)
        depth = fusion_depth(pool) if by_meaning and by_words else pool
        rankings = []
        if by_words:
            rankings.append(await self._search_words(query, match, wanted, depth, connection))
        if by_meaning:
            text = query if embedding is None else None
            try:
                near = await self._search_meaning(text, embedding, wanted, depth, connection)
                rankings.append(near)
            except OtherDimensions as error:
                if not by_words:
                    raise
                warnings.warn(by_words_notice(error), AnsweredByWordsWarning, stacklevel=2)
        scored = [[Ranked(hit, hit.score or 0.0) for hit in hits] for hits in rankings]
        ranked = scored[0] if len(scored) == 1 else fuse(scored, alpha)
        minimum = 0.0 if threshold is None else threshold
        good = [one for one in ranked if one.score > 0 and one.score >= minimum]
        found = [one for one in good if _is_document(one.item)]
        warn_of_foreign_items(len(good) - len(found), "documents")
        if mmr is not None and has_meaning:
            model = self.store.settings.model_of(None)
            found = await diversify(self.store.db, found[:pool], mmr, k, model, connection)
        return [_to_result(one.item, one.score) for one in found[:k]]

    async def _search_words(
        self,
        query: str | None,
        match: Match,
        wanted: dict[str, Any] | None,
        limit: int,
        connection: HostConnection | None,
    ) -> list[SearchHit]:
        return await self.store.search(
            self.namespace, query, match=match, filter=wanted, limit=limit, connection=connection
        )

    async def _search_meaning(
        self,
        query: str | None,
        embedding: Any | None,
        wanted: dict[str, Any] | None,
        limit: int,
        connection: HostConnection | None,
    ) -> list[SearchHit]:
        return await self.store.search(
            self.namespace,
            query,
            mode="vector",
            embedding=embedding,
            filter=wanted,
            threshold=UNRELATED if self.store.metric != "l2" else None,
            limit=limit,
            connection=connection,
        )

    async def get(
        self, id: str, *, connection: HostConnection | None = None
    ) -> MemoryResult | None:
        """Return a document, or ``None``.

        Raises:
            Conflict: something else has written the item of this id, and it is no document.
        """
        item = await self.store.get_item(self.namespace, id, connection=connection)
        if item is not None and not _is_document(item):
            raise foreign_item(self.namespace, id, "document")
        return None if item is None else _to_result(item, 1.0)

    async def delete(self, ids: Iterable[str], *, connection: HostConnection | None = None) -> int:
        """Remove documents, each by itself, and return how many were there."""
        given = check_list(ids, "ids")
        removed = [
            await self.store.delete(self.namespace, key, connection=connection)
            for key in dict.fromkeys(given)
        ]
        return sum(removed)

    async def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove all documents and return how many there were."""
        return await self.store.clear_namespace(self.namespace, connection=connection)

    async def count(self, *, connection: HostConnection | None = None) -> int:
        """Return the number of documents."""
        return await self.store.count(self.namespace, connection=connection)


def _is_document(item: StoreItem) -> bool:
    value = item.value
    if not isinstance(value, dict):
        return isinstance(value, str)
    return (
        isinstance(value.get("content"), str)
        and isinstance(value.get("content_type", TEXT), str | bytes)
        and isinstance(value.get("raw_content"), bytes | None)
    )


def _to_result(item: StoreItem, score: float) -> MemoryResult:
    value = item.value if isinstance(item.value, dict) else {"content": item.value}
    return MemoryResult(
        item.key,
        value["content"],
        score,
        item.metadata,
        _to_text(value.get("content_type", TEXT)),
        value.get("raw_content"),
    )


def _to_text(content_type: str | bytes) -> str:
    """Return a content type; one that another writer stored may be a text."""
    if isinstance(content_type, bytes):
        return content_type.decode("utf-8", "surrogatepass")
    return content_type


def _to_value(content: str, content_type: str, raw_content: bytes | None) -> str | dict[str, Any]:
    """Return a document as it is stored; a document that is only a text is stored as that text."""
    if not isinstance(content_type, str):
        raise TypeError(f"content_type is a str, not {type(content_type).__name__}")
    if not isinstance(raw_content, bytes | None):
        raise TypeError(f"raw_content is bytes, not {type(raw_content).__name__}")
    if content_type == TEXT and raw_content is None:
        return content
    # Bytes have no words: a search for "image" finds what is said of images, and not each of them.
    stored_type = content_type.encode("utf-8", "surrogatepass")
    return {"content": content, "content_type": stored_type, "raw_content": raw_content}

"""Settings of a store, and the values that it binds for an item."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from memalchemy.codec.encryption import Keyring
from memalchemy.codec.field_terms import OTHERS, field_terms
from memalchemy.codec.payloads import VALUE_CODEC, encode_payload
from memalchemy.codec.search_text import item_search_text
from memalchemy.contracts import Seconds, to_timedelta
from memalchemy.database import Database, HostConnection
from memalchemy.errors import Corrupt, InvalidArgument
from memalchemy.events import Event
from memalchemy.keys import check_name, encode_namespace
from memalchemy.metadata import check_metadata
from memalchemy.search.vectors import Metric, vector_support
from memalchemy.store.embedding import (
    Embedder,
    Index,
    check_field,
    embed,
    missing_embedder,
    texts_to_embed,
)
from memalchemy.store.write import VectorRow

Namespace = Sequence[str]
Lifetimes = Seconds | Mapping[tuple[str, ...], Seconds] | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a store."""

    keyring: Keyring
    embedder: Embedder | None
    model: str
    index: Index
    metric: Metric
    index_text: bool
    indexed_fields: frozenset[str]
    """JSON pointers of the only fields that have field terms; empty: all fields have."""
    lifetimes: tuple[tuple[tuple[str, ...], timedelta | None], ...]
    """Lifetimes by namespace, each valid for all below it, the longest namespace first."""
    refresh_ttl: bool

    def row(
        self,
        namespace: tuple[str, ...],
        value: Any,
        metadata: Mapping[str, Any] | None,
        ttl: Seconds | None,
        now: datetime,
    ) -> dict[str, Any]:
        """Return the values that a put binds besides the key.

        Raises:
            NotSerialisable, TooLarge, TypeError, ValueError: it cannot be stored.
        """
        checked = check_metadata(metadata)
        payload, checksum = encode_payload(value)
        indexed = self.index_text and self.keyring.is_readable("text")
        life = self.lifetime_of(namespace, ttl)
        return {
            "p_now": now,
            "p_meta": checked,
            "p_codec": VALUE_CODEC,
            "p_checksum": checksum,
            "p_search_text": item_search_text(value, checked) if indexed else None,
            "p_field_terms": (
                field_terms(value, checked, self.indexed_fields)
                if self.keyring.is_readable("fields")
                else OTHERS
            ),
            "p_updated_at": now,
            "p_expires_at": None if life is None else now + life,
            "p_lifetime": None if life is None else life // timedelta(microseconds=1),
            "p_value": payload,
        }

    async def vectors_of(self, values: Iterable[Any], index: Index) -> list[list[VectorRow]]:
        """The vectors of each value, from one call of the embedder; *index* as `put` takes it.

        Raises:
            StoreCapabilityError: *index* is given, and there is no embedder.
        """
        wanted = self.index if index is None else index
        if not wanted:
            return [[] for _ in values]
        if self.embedder is None:
            raise missing_embedder("index=")
        self.keyring.check_readable("vectors", "index=", store="Store")
        texts = [texts_to_embed(value, wanted) for value in values]
        vectors = iter(await embed(self.embedder, (one.text for of in texts for one in of)))
        return [[VectorRow(t.field, self.model, t.part, next(vectors)) for t in of] for of in texts]

    def model_of(self, model: str | None) -> str:
        """Return *model*, checked, or the store's if it is ``None``."""
        return self.model if model is None else check_field(model)

    def lifetime_of(self, namespace: tuple[str, ...], ttl: Seconds | None) -> timedelta | None:
        """Return the lifetime of an item: *ttl*, or that of its namespace; ``None`` is for ever."""
        if ttl is not None:
            return _to_lifetime(ttl)
        for prefix, life in self.lifetimes:
            if namespace[: len(prefix)] == prefix:
                return life
        return None


def parse_lifetimes(ttl: Lifetimes) -> tuple[tuple[tuple[str, ...], timedelta | None], ...]:
    """Return the lifetimes by namespace, the longest namespace first."""
    if ttl is None:
        return ()
    if not isinstance(ttl, Mapping):
        return (((), _to_lifetime(ttl)),)
    for namespace in ttl:
        if not isinstance(namespace, tuple):
            raise TypeError("ttl= by namespace has tuples of strings as its keys")
        encode_namespace(namespace)
    return tuple((n, _to_lifetime(ttl[n])) for n in sorted(ttl, key=len, reverse=True))


def _to_lifetime(ttl: Seconds) -> timedelta | None:
    if isinstance(ttl, float) and ttl == math.inf:
        return None
    life = to_timedelta(ttl)
    if not timedelta(0) < life < timedelta(days=365_000):
        raise InvalidArgument(
            "ttl must be longer than zero and shorter than a thousand years; math.inf is for ever"
        )
    return life


def expiry_time(now: datetime, lifetime: int, key: str) -> datetime:
    """Return the time at which an item expires that lives *lifetime* microseconds from now.

    Raises:
        Corrupt: no calendar has that day.
    """
    try:
        return now + timedelta(microseconds=lifetime)
    except OverflowError:
        raise Corrupt(f"the lifetime of the item {key!r} is {lifetime} microseconds") from None


def item_binds(db: Database, namespace: Namespace, key: str) -> dict[str, Any]:
    """Return the binds of an item's key, checked."""
    return {
        "k_tenant": db.tenant,
        "k_namespace": encode_namespace(namespace),
        "k_key": check_name(key, "key"),
    }


async def writes_native_vectors(
    db: Database,
    vectors: Sequence[VectorRow],
    connection: HostConnection | None,
    event: Event | None,
) -> bool:
    """Return whether *vectors* are written in the database's own type, and not as bytes.

    True without vectors. The database is asked once in a while.
    """
    if not vectors or not db.dialect.vectors.computes_distances:
        return True
    return (await vector_support(db, connection, event, replica_ok=False)).native

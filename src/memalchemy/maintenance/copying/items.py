"""Copy items of stores, each with its vectors.

Who writes an item changes its version and its times. So an item whose versions, times and checksum
are the same on both sides is not read. Vectors have no versions: those that are not signed are read
and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Executable, Integer, Text, func, insert, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.checkpoints.forget import forget_item
from memalchemy.codec.field_terms import OTHERS
from memalchemy.codec.search_text import is_of_first_version
from memalchemy.database import READ, WRITE_ROWS, Database
from memalchemy.dialects import Dialect
from memalchemy.log.scan import batches, run_query
from memalchemy.maintenance.copying.report import LeftOut, item_key_of
from memalchemy.maintenance.copying.row_comparison import (
    Values,
    comparable_vector,
    same_row,
    same_rows,
)
from memalchemy.maintenance.copying.source import CopySource
from memalchemy.maintenance.copying.target import (
    CopyTarget,
    OnTarget,
    not_as_written,
    written_meanwhile,
)
from memalchemy.proofs import ON_TARGET
from memalchemy.rows import AS_STORED, ITEM
from memalchemy.search.cache_versions import count_change
from memalchemy.search.scope import EMBEDDINGS, ITEM_KEY, ITEMS, is_listed, key_lists, of_item
from memalchemy.search.vectors import has_native_vectors
from memalchemy.statements import column_bind, statement
from memalchemy.store.write import delete_vectors

BATCH_BYTES = 8 * 1024 * 1024
"""The bytes of vectors that are compared together."""

Key = tuple[str, str, str]
"""The tenant, the namespace and the key of an item."""

Item = tuple[list[Values], list[Values]]
"""The row of an item, if it is there, and the rows of its vectors, as float32 bytes."""


@dataclass(frozen=True, slots=True)
class ItemsOnTarget:
    """The items that the target has, of some of the source.

    Attributes:
        summaries: the columns of `SUMMARY` by the keys of the items.
        unread: the keys of those that cannot be read together with others.
        other_vectors: the keys of those that are the same but for their vectors.
    """

    summaries: Mapping[Key, Values]
    unread: frozenset[Key]
    other_vectors: frozenset[Key]


class ItemCopy:
    """Compares and copies items: see `memalchemy.maintenance.copying.logs.LogCopy`."""

    def __init__(
        self, source: CopySource, target: CopyTarget, left_out: LeftOut, *, recheck: bool
    ) -> None:
        self._source = source
        self._target = target
        self._left_out = left_out
        self._recheck = recheck
        self._native: dict[Database, bool] = {}

    async def prepare(self) -> None:
        """Learn how both databases store vectors."""
        for db in (self._source.db, self._target.db):
            self._native[db] = await db.run(partial(has_native_vectors, db), READ)

    async def check_stored_item(self, item: Values, snapshot: Any) -> None:
        """Raise `Corrupt` if an item of the source is damaged, or not what was signed."""
        items, vectors = await self._read_item(self._source.db, item, snapshot)
        for one in items:
            await self._source.check_item(one, vectors)

    # --- Comparing ---------------------------------------------------------------------------

    async def look_up(
        self, items: Sequence[Values], snapshot: Any, transaction: AsyncConnection | None
    ) -> ItemsOnTarget:
        """Return what the target has of some items; of the vectors only in a transaction."""
        target, d = self._target.db, self._target.db.dialect
        found: dict[Key, Values] = {}
        unread: set[Key] = set()
        for tenant, places in _places_by_tenant(items):
            for listed in key_lists(d, places):
                rows = await run_query(
                    target,
                    read_summaries(d),
                    {"k_tenant": tenant, **listed},
                    transaction,
                    identified_by=ITEM_KEY,
                )
                for at, row in enumerate(rows):
                    values = dict(row._mapping)
                    if at in rows.damaged:
                        unread.add(item_key_of(values))
                    else:
                        found[item_key_of(values)] = values
        others: frozenset[Key] = frozenset()
        if transaction is not None and not self._recheck:
            same = [one for one in items if item_key_of(one) in found]
            same = [one for one in same if same_row(one, found[item_key_of(one)])]
            others = await self._find_other_vectors(same, snapshot, transaction)
        return ItemsOnTarget(found, frozenset(unread), others)

    async def _find_other_vectors(
        self, items: Sequence[Values], snapshot: Any, transaction: AsyncConnection
    ) -> frozenset[Key]:
        """Return the keys of the items whose vectors are others on the target."""
        sides = (self._source.db, snapshot), (self._target.db, transaction)
        others: set[Key] = set()
        for tenant, places in _places_by_tenant(items):
            ours, theirs = [
                await self._list_vectors(db, tenant, places, connection, whole=False)
                for db, connection in sides
            ]
            others |= {one for one in ours.keys() | theirs if ours.get(one) != theirs.get(one)}
            unsigned = [
                (one, sum(row["dimensions"] * 4 for row in rows))
                for one, rows in ours.items()
                if one not in others and any(row["signature"] is None for row in rows)
            ]
            for batch in batches(
                unsigned, itemgetter(1), most_rows=len(unsigned), most=BATCH_BYTES
            ):
                some = [key[1:] for key, _ in batch]
                ours, theirs = [
                    await self._list_vectors(db, tenant, some, connection, whole=True)
                    for db, connection in sides
                ]
                others |= {key for key, _ in batch if not _same_vectors(ours[key], theirs[key])}
        return frozenset(others)

    async def _list_vectors(
        self,
        db: Database,
        tenant: str,
        places: Sequence[tuple[str, str]],
        connection: Any,
        *,
        whole: bool,
    ) -> dict[Key, list[Values]]:
        """Return the rows of the vectors of some items by their keys; *whole*: the vectors, too."""
        d = db.dialect
        query = list_names_of_vectors(d)
        if whole:
            query = read_embeddings(d, native=self._native[db])
        found: dict[Key, list[Values]] = {}
        for listed in key_lists(d, places):
            binds = {"k_tenant": tenant, **listed}
            for row in await run_query(db, query, binds, connection):
                values = dict(row._mapping)
                if whole:
                    values["vector"] = comparable_vector(values["vector"])
                found.setdefault(item_key_of(values), []).append(values)
        return found

    async def compare(
        self,
        item: Values,
        found: ItemsOnTarget,
        snapshot: Any,
        transaction: AsyncConnection | None,
    ) -> OnTarget:
        """Compare an item with what the target has of it."""
        key = item_key_of(item)
        if key not in found.unread and not self._recheck:
            there = found.summaries.get(key)
            if there is None:
                return OnTarget.NOTHING
            if same_row(item, there):
                return OnTarget.OTHER_VECTORS if key in found.other_vectors else OnTarget.SAME
        ours = await self._read_item(self._source.db, item, snapshot)
        theirs = await self._read_item(self._target.db, item, transaction)
        return compare_items(ours, theirs, self._source.has_keys(item["tenant"]))

    # --- Copying -----------------------------------------------------------------------------

    async def copy(
        self, item: Values, found: ItemsOnTarget, snapshot: Any, transaction: AsyncConnection
    ) -> None:
        """Copy an item and its vectors to the target, unless they are there."""
        if await self.compare(item, found, snapshot, transaction) is OnTarget.SAME:
            self._target.progress.tell(unchanged=1)
            return
        items, vectors = ours = await self._read_item(self._source.db, item, snapshot)
        theirs = await self._read_item(self._target.db, item, transaction)
        there = compare_items(ours, theirs, self._source.has_keys(item["tenant"]))
        if there is OnTarget.OTHER:
            raise written_meanwhile(item)
        if there is OnTarget.SAME:
            self._target.progress.tell(unchanged=1)
            return
        with self._left_out.noting(item):
            await self._source.check_item(items[0], vectors)
        if self._left_out.has(item):
            return
        d, binds = self._target.db.dialect, _item_binds(item)
        if there is OnTarget.OLDER:
            seen = binds | {"p_version": theirs[0][0]["version"]}
            gone = await self._target.execute(forget_item(d, why="order"), seen, transaction)
            if gone != 1:
                raise written_meanwhile(item)
        if there is OnTarget.OTHER_VECTORS:
            await self._target.execute(delete_vectors(d), binds, transaction)
        else:
            await self._target.insert("store_items", items, item, transaction)
        if vectors:
            await self._insert_vectors(item, vectors, transaction)
        if not _same_item(ours, await self._read_item(self._target.db, item, transaction)):
            raise not_as_written("store_items", item)
        written = len(items[0]["value"]) + sum(len(row["vector"]) for row in vectors)
        counted = "new" if there is OnTarget.NOTHING else "updated"
        self._target.progress.tell(**{counted: 1}, bytes=written)

    async def _read_item(self, db: Database, item: Values, connection: Any) -> Item:
        binds = _item_binds(item)
        rows = await run_query(db, read_whole_item(db.dialect), binds, connection)
        if not rows:
            return [], []
        tenant, *place = item_key_of(item)
        vectors = await self._list_vectors(
            db, tenant, [(place[0], place[1])], connection, whole=True
        )
        return [dict(rows[0]._mapping)], vectors.get(item_key_of(item), [])

    async def _insert_vectors(
        self, item: Values, vectors: Sequence[Values], transaction: AsyncConnection
    ) -> None:
        target = self._target.db
        d, native, change = target.dialect, self._native[target], 0
        if d.vectors.counts_changes:
            # Caches of the target's vectors read new ones when the counter has moved.
            counting = partial(
                count_change,
                d,
                item["tenant"],
                item["namespace"],
                datetime.now(UTC),
                removes=False,
            )
            change = await target.run(counting, WRITE_ROWS, connection=transaction)
        rows = [
            dict(row) | {"vector": d.vectors.bind_value(row["vector"], native), "change": change}
            for row in vectors
        ]
        await self._target.write(insert_embedding(d, native=native), rows, item, transaction)


def compare_items(ours: Item, theirs: Item, keyed: bool) -> OnTarget:
    """Compare an item that the source has with what the target has.

    If it is *keyed*, its columns may have been encrypted or signed anew since an earlier copy.
    """
    if not theirs[0]:
        return OnTarget.NOTHING
    item, there = ours[0][0], theirs[0][0]
    if same_row(item, there):
        return OnTarget.SAME if _same_item(ours, theirs) else OnTarget.OTHER_VECTORS
    ends, ended = item["expires_at"], there["expires_at"]
    if ends and ended and same_row(item, there, but=("expires_at",)):
        # A read has prolonged its life on one side: the later end holds.
        return OnTarget.OLDER if ends > ended else OnTarget.SAME
    same_life = item["created_at"] == there["created_at"]
    same_write = same_life and all(item[one] == there[one] for one in ("version", "updated_at"))
    if same_write and (keyed or _differ_by_rebuilt_words(item, there)):
        # Whoever writes an item changes both of these.
        return OnTarget.OLDER
    later = item["version"] > there["version"] and item["updated_at"] >= there["updated_at"]
    # It was deleted, or had expired, and was put again after the last write of what is there.
    reborn = not same_life and item["created_at"] >= there["updated_at"]
    return OnTarget.OLDER if reborn or (same_life and later) else OnTarget.OTHER


def _differ_by_rebuilt_words(a: Values, b: Values) -> bool:
    """Return whether two rows are the same but for words that one side lacks, or has as older ones.

    `rebuild_words` gives such a row words, on either side, and leaves its version as it is.
    """
    return same_row(a, b, but=ITEM.words) and all(
        lacks(a[name]) or lacks(b[name]) for name, lacks in _LACKS.items() if a[name] != b[name]
    )


_LACKS: Mapping[str, Callable[[str | None], bool]] = {
    "search_text": lambda words: words is None or is_of_first_version(words),
    "field_terms": lambda terms: terms in (None, OTHERS),
}


def _same_item(ours: Item, theirs: Item) -> bool:
    """Return whether two items and their vectors are the same, but for the counts of changes."""
    return same_rows(ours[0], theirs[0]) and _same_vectors(ours[1], theirs[1])


def _same_vectors(ours: Sequence[Values], theirs: Sequence[Values]) -> bool:
    return same_rows(ours, theirs, but=("change",))


def _places_by_tenant(items: Sequence[Values]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the namespaces and keys of items, which are in the order of their keys."""
    return [
        (tenant, [(one["namespace"], one["key"]) for one in some])
        for tenant, some in groupby(items, itemgetter("tenant"))
    ]


def _item_binds(item: Values) -> dict[str, Any]:
    return {f"k_{name}": item[name] for name in ITEM_KEY}


# --- Statements ----------------------------------------------------------------------------------

_OF_WRITE = (
    *("version", "codec", "checksum", "created_at", "updated_at", "expires_at", "lifetime"),
    "signature",
)
"""The columns of an item that tell which write of it is stored, and in which form."""


def summary(dialect: Dialect) -> list[Any]:
    """Return the key of an item and the columns that tell whether it is the same elsewhere.

    Words can be made anew without a write: their lengths tell, and the mark that they begin with.
    """
    one = literal_column("1", Integer)
    return [
        *(ITEMS.c[name] for name in (*ITEM_KEY, *_OF_WRITE)),
        *(
            dialect.statements.byte_length(ITEMS.c[name]).label(f"{name}_bytes")
            for name in ITEM.words
        ),
        func.substr(ITEMS.c.search_text, one, one, type_=Text).label("search_text_begins"),
    ]


@statement(unproven=ON_TARGET)
def read_summaries(dialect: Dialect) -> Executable:
    """Select what tells of the items that ``p_keys`` lists whether they are the same elsewhere."""
    tenant = ITEMS.c.tenant == column_bind(ITEMS.c.tenant, "k")
    return select(*summary(dialect)).where(tenant, is_listed(dialect, ITEMS))


@statement(proves="verify", unproven=ON_TARGET)
def list_names_of_vectors(dialect: Dialect) -> Executable:
    """Select the rows of the vectors of the items that ``p_keys`` lists, without the vectors."""
    tenant = EMBEDDINGS.c.tenant == column_bind(EMBEDDINGS.c.tenant, "k")
    columns = [c for c in EMBEDDINGS.c if c.name not in ("vector", "change")]
    query = select(*columns).where(tenant, is_listed(dialect, EMBEDDINGS))
    return query.order_by(*EMBEDDINGS.primary_key.columns)


@statement(proves="verify", unproven=ON_TARGET)
def read_whole_item(dialect: Dialect) -> Executable:
    """Select one item, whole."""
    return select(*ITEMS.c).where(of_item(ITEMS))


@statement(proves="verify", unproven=ON_TARGET, native=(True, False))
def read_embeddings(dialect: Dialect, native: bool) -> Executable | None:
    """Select the vectors of the items that ``p_keys`` lists."""
    if not native and not dialect.vectors.may_be_bytes:
        return None
    columns = [column for column in EMBEDDINGS.c if column.name != "vector"]
    vector = dialect.vectors.readable(EMBEDDINGS.c.vector, native).label("vector")
    tenant = EMBEDDINGS.c.tenant == column_bind(EMBEDDINGS.c.tenant, "k")
    query = select(*columns, vector).where(tenant, is_listed(dialect, EMBEDDINGS))
    return query.order_by(*EMBEDDINGS.primary_key.columns)


@statement(native=(True, False), writes=AS_STORED)
def insert_embedding(dialect: Dialect, native: bool) -> Executable | None:
    """Insert a vector of an item."""
    if not native and not dialect.vectors.may_be_bytes:
        return None
    values: dict[str, Any] = {c.name: column_bind(c, "p") for c in EMBEDDINGS.c}
    return insert(EMBEDDINGS).values(values | {"vector": dialect.vectors.bind("p_vector", native)})

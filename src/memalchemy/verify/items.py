"""A store read through: every value decoded, its words and vectors held against it.

Knows nothing of logs. Memory is bounded: pages of keys, batches of values with their vectors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence, Sized
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from memalchemy.codec import sealing
from memalchemy.codec.items import CODEC, are_field_terms, decode_item, is_search_text
from memalchemy.codec.sealing import Keyring
from memalchemy.database import READ, Database, off_loop
from memalchemy.errors import Corrupt
from memalchemy.keys import decode_namespace, encode_namespace
from memalchemy.search.counting import counts
from memalchemy.search.embeddings import has_native_vectors
from memalchemy.search.scope import scope_binds
from memalchemy.verify import item_queries as queries
from memalchemy.verify.indexes import TextIndexes
from memalchemy.verify.logs import BATCH_BYTES, BATCH_ROWS, PAGE, ask, ask_each
from memalchemy.verify.report import REMEDIES, UNREADABLE, Tally, counted, unreadable

FLOAT = 4


class Shelf(NamedTuple):
    """A tenant's namespace, as it is stored."""

    tenant: str
    namespace: str

    def binds(self) -> dict[str, Any]:
        return scope_binds(self.tenant, self.namespace, below=False)


class ItemsReading:
    """One reading of the items of a tenant, into a tally."""

    def __init__(self, db: Database, tenant: str, tally: Tally, indexes: TextIndexes) -> None:
        self.db = db
        self.tenant = tenant
        self.tally = tally
        self.indexes = indexes

    async def count(self) -> int:
        """How many items there are."""
        rows = await ask(self.db, queries.count_items(self.db.dialect), self._binds())
        return int(rows[0].items)

    async def read(self, picks: Collection[int] | None, tell: Callable[[int], None]) -> None:
        """Read all items, or those at these places in their order; tells how many were passed."""
        self._native = await self.db.run(partial(has_native_vectors, self.db), READ)
        passed = 0
        async for page in self._pages():
            wanted = [row for at, row in enumerate(page, passed) if picks is None or at in picks]
            for namespace, low, high in _batches(wanted, together=picks is None):
                shelf = Shelf(self.tenant, namespace)
                try:
                    await self._values(shelf, low, high)
                    await self._vectors(shelf, low, high)
                except Corrupt as error:
                    self._add("unreadable", f"items cannot be read: {error}", shelf, low)
                await self.indexes.look(shelf, low, high)
            passed += len(page)
            tell(passed)

    async def whole(self) -> None:
        """What needs a look at all rows: vectors without an item, and counters."""
        binds = {"k_tenant": self.tenant, "p_limit": PAGE}
        for row in await ask(self.db, queries.list_orphans(self.db.dialect), binds):
            what = (
                counted(row.orphans, "vector", "vectors")
                + " without an item, which no search finds"
            )
            self._add("orphan", what, Shelf(self.tenant, row.namespace), row.key)
        if self.db.dialect.vectors.counts_changes:
            await self._counters()

    async def _pages(self) -> AsyncIterator[Sequence[Any]]:
        binds = self._binds() | {"p_limit": PAGE}
        after = False
        while True:
            statement = queries.list_items(self.db.dialect, after=after)
            rows, damaged = await ask_each(self.db, statement, binds, ("namespace", "key"))
            for at, what in damaged.items():
                self._add("unreadable", what, Shelf(self.tenant, rows[at].namespace), rows[at].key)
            yield [row for at, row in enumerate(rows) if at not in damaged]
            if len(rows) < PAGE:
                return
            after = True
            binds |= {"p_namespace": rows[-1].namespace, "p_key": rows[-1].key}

    async def _values(self, shelf: Shelf, low: str, high: str) -> None:
        binds = shelf.binds() | {"p_low": low, "p_high": high}
        statement = queries.read_items(self.db.dialect)
        rows, damaged = await ask_each(self.db, statement, binds, ("key",))
        for at, row in enumerate(rows):
            self.tally.items += 1
            if at in damaged:
                self._add("unreadable", damaged[at], shelf, row.key)
                continue
            self.tally.payload_bytes += len(row.value)
            if row.version < 1:
                self._add("version", f"it is at version {row.version}", shelf, row.key)
            keyring = self.db.keyring
            for code, fault in await off_loop(len(row.value), partial(_faults, row, keyring)):
                if code == "key" and not keyring.seals:
                    self.tally.closed += 1
                    continue
                again = code == "words"
                remedy = REMEDIES.get(code) or _remedy(shelf, row.key, again=again)
                self._add(code, fault, shelf, row.key, remedy=remedy)

    async def _vectors(self, shelf: Shelf, low: str, high: str) -> None:
        statement = queries.read_vectors(self.db.dialect, native=self._native)
        binds = shelf.binds() | {"p_low": low, "p_high": high}
        rows, damaged = await ask_each(self.db, statement, binds, ("key",))
        for at, row in enumerate(rows):
            if at in damaged:
                self._add("unreadable", damaged[at], shelf, row.key)
                continue
            fault = _vector_fault(row.vector, row.dimensions)
            if fault is not None:
                place = f"field {row.field!r}, model {row.model!r}, part {row.part}"
                remedy = f"put the item again with its vectors: key {row.key!r}"
                self._add("vector", f"the vector of {place} {fault}", shelf, row.key, remedy=remedy)

    async def _counters(self) -> None:
        """Hold the counters of changes against the rows, which are read first: counters grow."""
        d, path = self.db.dialect, "."  # before all: a path begins with a slash
        while True:
            binds = {"k_tenant": self.tenant, "p_namespace": path, "p_limit": PAGE}
            rows = await ask(self.db, queries.list_changes(d), binds)
            for row in rows:
                program = partial(counts, d, self.tenant, row.namespace, False)
                counter = (await self.db.run(program, READ)).get(row.namespace)
                if counter is None or not 1 <= row.last_change <= counter.version:
                    there = "none" if counter is None else f"at {counter.version}"
                    what = (
                        f"its vectors were last changed at count {row.last_change}, its counter is "
                        f"{there}: searches of a running process may miss changes"
                    )
                    remedy = "restart the processes that search it, and put its items again"
                    self._add("counter", what, Shelf(self.tenant, row.namespace), remedy=remedy)
            if len(rows) < PAGE:
                return
            path = rows[-1].namespace

    def _binds(self) -> dict[str, Any]:
        return scope_binds(self.tenant, encode_namespace(()), below=True)

    def _add(self, code: str, what: str, shelf: Shelf, key: str | None = None, **more: Any) -> None:
        self.tally.add(code, what, shelf, key=key, **more)


def _batches(rows: Sequence[Any], *, together: bool) -> list[tuple[str, str, str]]:
    """Namespaces with the first and last key of what is read at once; apart if not *together*."""
    found: list[tuple[str, str, str]] = []
    count = size = 0
    for row in rows:
        held = row.stored + FLOAT * int(row.numbers)
        full = not together or count == BATCH_ROWS or size + held > BATCH_BYTES
        if not found or full or found[-1][0] != row.namespace:
            found.append((row.namespace, row.key, row.key))
            count = size = 0
        found[-1] = (row.namespace, found[-1][1], row.key)
        count, size = count + 1, size + held
    return found


def _faults(row: Any, keyring: Keyring) -> list[tuple[str, str]]:
    """What is wrong with an item's row: codes and sentences."""
    if sealing.inner(row.codec) != CODEC:
        return [("codec", f"its codec is {row.codec!r}")]
    found = [] if row.meta is not None else [("metadata", "its metadata is no JSON object")]
    try:
        codec, checksum, payload = keyring.open(row.codec, row.checksum, bytes(row.value))
        value = decode_item(payload, checksum, codec)
    except UNREADABLE as error:
        return [*found, (unreadable(error), str(error))]
    meta = row.meta or {}
    if found:
        return found
    try:
        if not is_search_text(row.search_text, value, meta):
            found.append(("words", "the words it is found by are not those of its texts"))
        if not are_field_terms(row.field_terms, value, meta):
            found.append(("words", "the words of its fields are not those of its fields"))
    except OverflowError:
        found.append(("metadata", "its metadata has a number that no put takes"))
    return found


def _vector_fault(vector: Any, dimensions: int) -> str | None:
    if isinstance(vector, str):
        try:
            numbers = np.asarray([float(one) for one in vector.strip("[]").split(",")], "<f4")
        except ValueError:
            return "is a text, which is no vector"
    elif isinstance(vector, (bytes, memoryview)):
        raw = bytes(vector)
        if len(raw) % FLOAT:
            return f"has {len(raw)} bytes, which are no float32 numbers"
        numbers = np.frombuffer(raw, dtype="<f4")
    elif isinstance(vector, Sized):
        numbers = np.asarray(vector, dtype="<f4")
    else:
        return f"is no vector, but {type(vector).__name__}"
    if len(numbers) != dimensions:
        return f"has {len(numbers):,} dimensions, and says {dimensions:,}"
    if not np.isfinite(numbers).all():
        return "holds a number that is not finite"
    return None if numbers.any() else "is zero, so that no search can rank it"


def _remedy(shelf: Shelf, key: str, *, again: bool) -> str:
    place = f"{decode_namespace(shelf.namespace)!r}, {key!r}"
    if again:
        return f"put it again: its words are made then, by Store(db).put({place}, …)"
    return f"put it again from where it came, or remove it: await Store(db).delete({place})"

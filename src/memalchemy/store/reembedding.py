"""Re-embedding: give items the vectors of a model that they lack, batch by batch.

An item with a vector of the model, of the size that the embedder makes, is done. So no progress is
recorded, several runs may work at once, and a killed one continues when it is run again. A run that
embeds such items *again* cannot tell what is done: it keeps a note of how far it came, with a
vector of the embedder, and goes on from there if the embedder still makes the same vector.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson
from sqlalchemy import ColumnElement, Executable, Select, bindparam, except_, func, select

from memalchemy.contracts import Progress, ReembedReport, SearchPlan, StoreItem
from memalchemy.database import WRITE, Database, off_loop
from memalchemy.dialects import Dialect
from memalchemy.errors import EmbedderFailed, KeyMissing, MemalchemyError, NotEncrypted
from memalchemy.events import Event
from memalchemy.keys import InternalNamespace, decode_namespace, encode_id
from memalchemy.log.scan import batches, run_query, scan
from memalchemy.proofs import FOUND
from memalchemy.protection.proven_jobs import ERRORS, Damage, is_damage
from memalchemy.search._vector_statements import of_kind
from memalchemy.search.scope import (
    EMBEDDINGS,
    ITEMS,
    Place,
    in_scope,
    is_listed,
    key_lists,
    live_item,
    scope_binds,
    stored,
)
from memalchemy.statements import after_key, statement
from memalchemy.store import read
from memalchemy.store.embedding import WHOLE, Embedder, Index, Text, Vectors, embed, texts_to_embed
from memalchemy.store.item_reader import ItemReader
from memalchemy.store.settings import Settings, writes_native_vectors
from memalchemy.store.write import (
    Revectored,
    VectorName,
    VectorRow,
    give_vectors,
    list_vector_names,
    vector_name_of,
)

NOTES = InternalNamespace(("reembed",))
"""Namespace of the notes of how far runs came that embed items again."""

PROBE = "The quick brown fox jumps over the lazy dog."
"""The text whose vector tells the size of an embedder's vectors, and one embedder from another."""

SAME_EMBEDDER = 0.9999
"""The cosine of two vectors of `PROBE` from which they are of the same embedder."""

PAGE = 500
"""The number of items that are listed together."""

TRIES = 3
"""The number of times that an item is embedded which others change meanwhile."""

FAILURES = 3
"""The number of items in a row that the embedder may refuse."""

NAMED = 1000
"""The number of left items that a report names."""


class Notes(Protocol):
    """The methods of a `Store` by which a run keeps its note."""

    def get(self, namespace: Sequence[str], key: str) -> Awaitable[Any | None]:
        """Return the value of an item."""

    def put(self, namespace: Sequence[str], key: str, value: Any) -> Awaitable[int]:
        """Write an item."""

    def delete(self, namespace: Sequence[str], key: str) -> Awaitable[bool]:
        """Delete an item."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The items and fields that a run embeds.

    Attributes:
        path: the encoded namespace.
        below: also embed items of the namespaces under it.
        index: what is embedded of a value, as `Store.put` takes it; ``None``: the fields of the
            vectors that an item has, and of an item without any what the store embeds.
        again: also embed items that have vectors of the model.
        only_embedded: leave items that have no vectors of any model.
        replaced_model: the model whose vectors are deleted.
    """

    path: str
    below: bool
    index: Index
    again: bool
    only_embedded: bool
    replaced_model: str | None


class _Plan(NamedTuple):
    """An item to embed."""

    item: StoreItem
    place: Place
    names: frozenset[VectorName]
    """The names of the vectors that it has."""
    texts: list[Text]
    replaced: frozenset[VectorName]
    """The names of the vectors that the new ones replace."""


@dataclass(slots=True)
class Reembedding:
    """Run over the items of a scope, and its result."""

    db: Database
    settings: Settings
    embedder: Embedder
    wanted: Wanted
    batch_size: int
    dry_run: bool
    event: Event
    progress: Callable[[Progress], object] | None = None
    embedded: int = 0
    vectors: int = 0
    removed: int = 0
    textless: int = 0
    damaged: int = 0
    left: list[str] = field(default_factory=list)
    """The items that were left, each with the reason."""
    _dimensions: int = 0
    _failures: int = 0
    _done: int = 0
    _total: int = 0

    async def run(self, notes: Notes) -> ReembedReport:
        """Embed what is to be embedded.

        Raises:
            EmbedderFailed: the embedder does not work. What was embedded before stays.
        """
        started = time.perf_counter()
        probe = await self._probe()
        self._dimensions = len(probe)
        self._total = await self._count()
        self._tell_progress(0)
        note = _Note(notes, self._name_of_note(), probe) if self.wanted.again else None
        after = await note.read() if note else None
        async with aclosing(self._pages()) as pages:
            async for page in pages:
                due = await self._due_rows(page, after)
                self._tell_progress(len(page) - len(due))
                for rows in batches(due, lambda row: row.stored, most_rows=self.batch_size):
                    await self._embed_places([(row.namespace, row.key) for row in rows])
                    self._tell_progress(len(rows))
                    # What was left is tried again by a run that goes on.
                    if note and not (self.dry_run or self.left) and _is_behind(rows[-1], after):
                        await note.write((rows[-1].namespace, rows[-1].key))
        if note and not self.dry_run:
            await note.delete()
        self._tell_progress(self._total)
        return self._report(time.perf_counter() - started)

    async def _probe(self) -> Any:
        """Return the vector of `PROBE`."""
        try:
            return (await embed(self.embedder, [PROBE]))[0]
        except Exception as error:
            raise EmbedderFailed(f"the embedder failed: {_describe(error)}") from error

    # --- Which items are due -----------------------------------------------------------------

    async def _count(self) -> int:
        wanted = self.wanted
        rows = await run_query(
            self.db,
            read.count_items(self.db.dialect, below=wanted.below),
            scope_binds(self.db.tenant, wanted.path, wanted.below),
            event=self.event,
        )
        return int(rows[0][0])

    async def _pages(self) -> AsyncGenerator[Sequence[Any]]:
        """Yield pages of the places of all items, in their order."""
        unread = Damage()
        pages = scan(
            self.db,
            lambda after: list_places(self.db.dialect, below=self.wanted.below, after=after),
            scope_binds(self.db.tenant, self.wanted.path, self.wanted.below),
            ("namespace", "key"),
            size=PAGE,
            event=self.event,
            damage=unread,
        )
        async with aclosing(pages):
            async for page in pages:
                self._leave(unread)
                yield page
        self._leave(unread)

    async def _due_rows(self, page: Sequence[Any], after: Place | None) -> list[Any]:
        """Return the rows of items to embed; with *after* those before it have been embedded."""
        wanted = self.wanted
        places = [(row.namespace, row.key) for row in page]
        names, unread = await self._read_names(places)
        is_due = [
            place in unread
            or not self._embedded_fields(names[place])
            or any(name.model == wanted.replaced_model for name in names[place])
            or (wanted.again and _is_behind(row, after))
            for place, row in zip(places, page, strict=True)
        ]
        return [row for row, due in zip(page, is_due, strict=True) if due]

    # --- One batch ---------------------------------------------------------------------------

    async def _embed_places(self, places: Sequence[Place]) -> None:
        """Embed the items at *places*; those that others change meanwhile as they are then."""
        left = list(places)
        for _ in range(TRIES):
            plans = await self._plan(left)
            if self.dry_run:
                self.embedded += len(plans)
                self.vectors += sum(len(plan.texts) for plan in plans)
                return
            left = await self._write(await self._embed(plans))
            if not left:
                return
        for path, key in left:
            name = _describe_place(path, key)
            self._leave_item(f"{name}: others changed it {TRIES} times while it was embedded")

    async def _plan(self, places: Sequence[Place]) -> list[_Plan]:
        """Return what to embed of the items at *places* that exist."""
        items = await self._read_items(places)
        names, unread = await self._read_names(items)
        plans = []
        for place, item in items.items():
            if place in unread:
                self._leave_item(unread[place], is_damaged=True)
                continue
            if self.wanted.only_embedded and not names[place]:
                continue
            plan = self._plan_item(place, item, names[place])
            if plan.texts or plan.replaced:
                plans.append(plan)
            elif not self._embedded_fields(plan.names):
                self.textless += 1
        return plans

    async def _read_items(self, places: Sequence[Place]) -> dict[Place, StoreItem]:
        """Return the items at *places* that exist; those that cannot be read are left."""
        found: dict[Place, StoreItem] = {}
        for listed in key_lists(self.db.dialect, places):
            rows = await run_query(
                self.db,
                read_items_to_embed(self.db.dialect),
                {"k_tenant": self.db.tenant} | listed,
                event=self.event,
                identified_by=("namespace", "key"),
            )
            for at, row in enumerate(rows):
                if at in rows.damaged:
                    self._leave_item(rows.damaged[at], is_damaged=True)
                    continue
                try:
                    opened = read.decrypt_row(self.db.tenant, row, self.settings.keyring)
                    item = await off_loop(len(row.value), partial(read.decode_item, row, opened))
                except (*ERRORS, NotEncrypted) as error:
                    self._leave_error(error)
                else:
                    found[row.namespace, row.key] = item
        return {place: found[place] for place in places if place in found}

    async def _read_names(
        self, places: Iterable[Place]
    ) -> tuple[dict[Place, frozenset[VectorName]], dict[Place, str]]:
        """Return the names of the vectors of items, and what is wrong with unreadable vectors."""
        found: dict[Place, set[VectorName]] = {place: set() for place in places}
        unread: dict[Place, str] = {}
        for listed in key_lists(self.db.dialect, found):
            rows = await run_query(
                self.db,
                list_vector_names(self.db.dialect),
                {"k_tenant": self.db.tenant} | listed,
                event=self.event,
                identified_by=("namespace", "key"),
            )
            for at, row in enumerate(rows):
                place = row.namespace, row.key
                if at in rows.damaged:
                    unread[place] = rows.damaged[at]
                elif place in found:
                    found[place].add(vector_name_of(row))
        return {place: frozenset(names) for place, names in found.items()}, unread

    def _embedded_fields(self, names: Iterable[VectorName]) -> set[str]:
        """Return the fields that have vectors as the embedder makes them."""
        made = self.settings.model, self._dimensions
        return {name.field for name in names if (name.model, name.dimensions) == made}

    def _plan_item(self, place: Place, item: StoreItem, names: frozenset[VectorName]) -> _Plan:
        embedded = set() if self.wanted.again else self._embedded_fields(names)
        texts = [
            text
            for text in self._texts_of(item.value, {name.field for name in names})
            if text.field not in embedded and not (embedded and self.wanted.index is not None)
        ]
        fields = {text.field for text in texts}
        replaced = {
            name
            for name in names
            # A vector of a field without text was given by a caller, and cannot be made again.
            if (name.model == self.settings.model and self._is_of(name, fields))
            or (name.model == self.wanted.replaced_model and self._is_of(name, fields | embedded))
        }
        return _Plan(item, place, names, texts, frozenset(replaced))

    def _is_of(self, name: VectorName, fields: set[str]) -> bool:
        """Return whether new vectors of *fields* take the place of a vector."""
        return bool(fields) if self.wanted.index is not None else name.field in fields

    def _texts_of(self, value: Any, fields: set[str]) -> list[Text]:
        """Return the texts to embed of a value whose vectors are of *fields*."""
        if self.wanted.index is not None:
            return texts_to_embed(value, self.wanted.index)
        if not fields:
            return texts_to_embed(value, self.settings.index or False)
        whole = texts_to_embed(value, True) if WHOLE in fields else []
        return whole + texts_to_embed(value, sorted(fields - {WHOLE}))

    async def _embed(self, plans: Sequence[_Plan]) -> list[tuple[_Plan, list[VectorRow]]]:
        """Return *plans* with their vectors; items that the embedder refuses are left.

        Raises:
            EmbedderFailed: it refuses `FAILURES` items in a row.
        """
        if not plans:
            return []
        texts = [one for plan in plans for one in plan.texts]
        try:
            vectors = await self._call_embedder([one.text for one in texts])
        except Exception as error:
            if len(plans) > 1:
                return [found for plan in plans for found in await self._embed([plan])]
            self._failures += 1
            if self._failures == FAILURES:
                raise EmbedderFailed(
                    f"the embedder failed for {FAILURES} items in a row, so nothing more was tried;"
                    f" {self.embedded:,} items were embedded before. The last error: "
                    f"{_describe(error)}"
                ) from error
            name = _describe_place(*plans[0].place)
            self._leave_item(f"{name}: the embedder refused it: {_describe(error)}")
            return []
        self._failures = 0
        rows = (
            VectorRow(one.field, self.settings.model, one.part, vector)
            for one, vector in zip(texts, vectors, strict=True)
        )
        return [(plan, [next(rows) for _ in plan.texts]) for plan in plans]

    async def _call_embedder(self, texts: Sequence[str]) -> Vectors:
        found: list[Any] = []
        for start in range(0, len(texts), self.batch_size):
            found += await embed(self.embedder, texts[start : start + self.batch_size])
        for vector in found:
            if len(vector) != self._dimensions:
                raise ValueError(
                    f"the embedder gave a vector of {len(vector):,} dimensions, and before one of "
                    f"{self._dimensions:,}"
                )
        return found

    async def _write(self, embedded: Sequence[tuple[_Plan, list[VectorRow]]]) -> list[Place]:
        """Write vectors in one transaction; return the places of items that others have changed.

        Items that their signatures do not prove are left.
        """
        if not embedded:
            return []
        items = [
            Revectored(
                plan.place,
                plan.item.version,
                plan.item.created_at,
                plan.names,
                vectors,
                plan.replaced,
            )
            for plan, vectors in embedded
        ]
        some = next((one.vectors for one in items if one.vectors), [])
        native = await writes_native_vectors(self.db, some, None, self.event)
        program = partial(
            give_vectors, self.db.dialect, self.db.tenant, items, datetime.now(UTC), native
        )
        try:
            changed = await self.db.run(program, WRITE, event=self.event)
        except ERRORS as error:
            if not is_damage(error):
                raise
            if len(embedded) > 1:
                return [place for one in embedded for place in await self._write([one])]
            name = _describe_place(*items[0].place)
            self._leave_item(
                f"{name}: its vectors cannot be replaced: {error}",
                is_damaged=not isinstance(error, KeyMissing),
            )
            return []
        written = [one for one in items if one.place not in changed]
        self.embedded += sum(bool(one.vectors) for one in written)
        self.vectors += sum(len(one.vectors) for one in written)
        self.removed += sum(len(one.replaced) for one in written)
        return [one.place for one in items if one.place in changed]

    # --- Report ------------------------------------------------------------------------------

    def _leave(self, unread: Damage) -> None:
        for error in unread.errors:
            self._leave_error(error)
        unread.errors.clear()

    def _leave_error(self, error: MemalchemyError) -> None:
        self._leave_item(str(error), is_damaged=not isinstance(error, (KeyMissing, NotEncrypted)))

    def _leave_item(self, what: str, *, is_damaged: bool = False) -> None:
        self.left.append(what)
        self.damaged += is_damaged

    def _report(self, seconds: float) -> ReembedReport:
        self.event.details |= {"embedded": self.embedded, "vectors": self.vectors}
        return ReembedReport(
            embedded=self.embedded,
            vectors=self.vectors,
            removed=self.removed,
            textless=self.textless,
            left=len(self.left),
            damaged=self.damaged,
            left_out=tuple(self.left[:NAMED]),
            seconds=round(seconds, 3),
        )

    def _tell_progress(self, more: int) -> None:
        self._done = min(self._done + more, self._total)
        if self.progress is not None:
            self.progress(Progress(self._done, self._total))

    def _name_of_note(self) -> str:
        wanted = self.wanted
        index = wanted.index if isinstance(wanted.index, bool) else list(wanted.index or ())
        of = [self.settings.model, wanted.path, wanted.below, index, wanted.only_embedded]
        return sha256(orjson.dumps([*of, wanted.replaced_model])).hexdigest()


class _Note:
    """Note of how far a run came that embeds items again."""

    def __init__(self, notes: Notes, key: str, probe: Any) -> None:
        self._notes, self._key, self._probe = notes, key, probe

    async def read(self) -> Place | None:
        """Return the place after which to go on, if a run with the same embedder was ended."""
        found = await self._notes.get(NOTES, self._key)
        if not isinstance(found, Mapping) or len(found["probe"]) != self._probe.nbytes:
            return None
        probe = np.frombuffer(found["probe"], dtype="<f4").astype(np.float64)
        lengths = np.linalg.norm(probe) * np.linalg.norm(self._probe.astype(np.float64))
        alike = float(probe @ self._probe) / float(lengths)
        return tuple(found["after"]) if alike >= SAME_EMBEDDER else None

    async def write(self, place: Place) -> None:
        """Note that all items up to *place* are embedded."""
        value = {"after": list(place), "probe": self._probe.astype("<f4").tobytes()}
        await self._notes.put(NOTES, self._key, value)

    async def delete(self) -> None:
        """Delete the note."""
        await self._notes.delete(NOTES, self._key)


def _is_behind(row: Any, place: Place | None) -> bool:
    """Return whether an item comes after a place, if there is one, in the database's order."""
    if place is None:
        return True
    path, key = place
    return (row.namespace, encode_id(row.key)) > (path, encode_id(key))


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _describe_place(path: str, key: str) -> str:
    return f"the item {key!r} in {'/'.join(decode_namespace(path)) or 'the root'}"


# --- Items that a search passes over -------------------------------------------------------------


async def items_passed_over(items: ItemReader, model: str, dimensions: int) -> list[SearchPlan]:
    """Return how many items of a reader's scope a search by meaning passes over, if it does.

    They have no vector of the model of the size that is looked for.
    """
    counting = count_items_without_vectors(items.db.dialect, below=items.below)
    binds = scope_binds(items.db.tenant, items.path, items.below)
    rows = await items.run_query(counting, binds | {"p_model": model, "p_dimensions": dimensions})
    number = int(rows[0][0])
    items.event.details["passed_over"] = number
    if not number:
        return []
    reason = (
        f"items without a vector of the model {model!r} of {dimensions:,} dimensions, which are "
        "not found by meaning; reembed gives them one"
    )
    return [SearchPlan("passed over", reason, {"items": number})]


# --- Statements ----------------------------------------------------------------------------------


@statement(below=(False, True))
def count_items_without_vectors(dialect: Dialect, below: bool) -> Executable:
    """Count the live items of a scope that have no vector of a model and size."""

    def places(table: Any, *conditions: ColumnElement[bool]) -> Select[Any]:
        return select(table.c.namespace, table.c.key).where(in_scope(table, below), *conditions)

    # A set operation and no join: without statistics PostgreSQL would join row by row.
    there = places(EMBEDDINGS, of_kind())
    return select(func.count()).select_from(
        except_(places(ITEMS, live_item()), there).subquery("lacking")
    )


@statement(unproven=FOUND, below=(False, True), after=(False, True))
def list_places(dialect: Dialect, below: bool, after: bool) -> Executable:
    """Select a page of the live items of a scope, in the order of their keys, with their sizes."""
    key = ("namespace", "key")
    columns = [ITEMS.c[name] for name in key]
    size = dialect.statements.byte_length(ITEMS.c.value).label("stored")
    query = select(*columns, size).where(in_scope(ITEMS, below), live_item())
    if after:
        query = query.where(after_key(dialect, ITEMS, key))
    return query.order_by(*columns).limit(bindparam("p_limit"))


@statement(proves="item")
def read_items_to_embed(dialect: Dialect) -> Executable:
    """Select the live items of a tenant that ``p_keys`` lists."""
    tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
    return select(*stored()).where(tenant, is_listed(dialect, ITEMS), live_item())

"""Items as JSON lines: export them from a store, and import them with every type.

A line is a `StoreItem`, its value with tags where JSON has no such type (`codec.values.jsonable`),
and, if they are wanted, its vectors under ``vectors``.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson

from memalchemy._bounds import parse_strict_json
from memalchemy._retry import retry_on_conflict
from memalchemy.codec.values import encode_value, from_jsonable, jsonable
from memalchemy.contracts import UNSET, ExportedItem, StoreItem, check_time
from memalchemy.database import OFF_LOOP_BYTES, READ, WRITE, Database, off_loop
from memalchemy.errors import Conflict, NotSerialisable, TooLarge
from memalchemy.events import operation
from memalchemy.keys import check_name, encode_namespace
from memalchemy.metadata import check_metadata
from memalchemy.protection.found_items import check_vectors
from memalchemy.protection.signed_items import check_vector_sets
from memalchemy.search.scope import Place, key_lists
from memalchemy.search.vectors import check_vector, vectors_of_items
from memalchemy.statements import Program
from memalchemy.store import read
from memalchemy.store.embedding import check_field
from memalchemy.store.roads import ItemRoads
from memalchemy.store.settings import Namespace, item_binds, writes_native_vectors
from memalchemy.store.write import VectorRow, place_of

if TYPE_CHECKING:
    from memalchemy.store.store import Store

OnConflict = Literal["error", "skip", "overwrite"]
"""The treatment of an existing item that holds something else."""

STATUSES = (
    "imported", "overwritten", "unchanged", "skipped", "expired", "conflict", "bad", "left",
)  # fmt: skip
"""The results of a line. ``left`` is a good line in a batch with a conflict or a bad line."""

BATCH = 500
"""Lines that are written together, or not at all."""

BATCH_BYTES = 16 * 1024 * 1024
"""A batch of long lines ends earlier."""

PAGE = 500

_FIELDS = {
    "namespace", "key", "value", "metadata", "created_at", "updated_at", "version", "expires_at",
    "vectors",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class UnwrittenLine:
    """Line that was not written, counted from 1, and the reason."""

    line: int
    problem: str
    namespace: tuple[str, ...] | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedBatch:
    """Result of a batch: the number of lines by status, and the problems."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: tuple[UnwrittenLine, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """Good line, ready to be written."""

    number: int
    item: StoreItem
    row: dict[str, Any]
    vectors: list[VectorRow]

    @property
    def place(self) -> Place:
        return place_of(self.row)


async def export_items(
    store: Store, namespace: Namespace = (), *, prefix: bool = False, vectors: bool = False
) -> AsyncIterator[ExportedItem]:
    """Yield the items of the namespace as JSON objects, by namespace and key.

    With *prefix* also those of the namespaces below it; with *vectors* each has its vectors, of
    every model. A page is as of the moment at which it is read.

    Raises:
        Corrupt: a stored value does not match its checksum.
    """
    after: StoreItem | None = None
    size = PAGE
    while True:
        try:
            page = await store.list_items(
                namespace, prefix=prefix, order="key", limit=size, after=after
            )
        except TooLarge:
            if size == 1:
                raise
            size = max(1, size // 8)
            continue
        kept = await _read_vectors(store.db, page) if vectors and page else {}
        for item in page:
            fields: Any = item.to_dict() | {"value": jsonable(item.value)}
            record: ExportedItem = fields
            if vectors:
                record["vectors"] = kept.get((encode_namespace(item.namespace), item.key), [])
            yield record
        if len(page) < size:
            return
        after = page[-1]


async def import_items(
    store: Store, lines: Iterable[bytes], *, on_conflict: OnConflict = "error"
) -> AsyncIterator[ImportedBatch]:
    """Write the items of *lines*, batch by batch, each in one transaction; yield the results.

    Value, metadata, vectors and the rest of the lifetime are the line's; the embedder is not
    called. An item that has expired is skipped. Times and versions are new. A line needs
    ``namespace``, ``key`` and ``value`` only.

    With ``error`` an existing item is left as it is if value and metadata are equal, and is a
    conflict if not. Nothing is written of a batch with a conflict, or with a line that is no item.

    Raises:
        StoreCapabilityError: a line has vectors, which this database may not hold readable.
        Conflict: others kept writing items of a batch while it was written.
    """
    number, roads = 0, ItemRoads(store.db)
    for batch in _split_into_batches(lines):
        now = datetime.now(UTC)
        size = sum(map(len, batch)) + len(batch) * (OFF_LOOP_BYTES // 50)
        read = await off_loop(size, partial(_read_lines, store, number, batch, now))
        number += len(batch)
        good, counts, problems = read
        if problems:
            counts["left"] = len(good)
            yield ImportedBatch(counts, tuple(problems))
        elif good:
            yield await _write_batch(store.db, roads, good, counts, on_conflict, now)
        elif counts:
            yield ImportedBatch(counts)


def _split_into_batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if len(batch) == BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read_lines(
    store: Store, before: int, batch: list[bytes], now: datetime
) -> tuple[list[_Line], Counter[str], list[UnwrittenLine]]:
    """Return the good lines, the number of the others by status, and their problems."""
    settings = store.settings
    good: list[_Line] = []
    counts: Counter[str] = Counter()
    problems: list[UnwrittenLine] = []
    for number, text in enumerate(batch, start=before + 1):
        if not text.strip():
            continue
        try:
            item, vectors = _read_line(text, now)
            if item.expires_at is not None and item.expires_at <= now:
                counts["expired"] += 1
                continue
            left = math.inf if item.expires_at is None else item.expires_at - now
            row = item_binds(store.db, item.namespace, item.key) | settings.row(
                item.namespace, item.value, item.metadata, left, now
            )
        except (NotSerialisable, TooLarge, TypeError, ValueError) as error:
            counts["bad"] += 1
            problems.append(UnwrittenLine(number, str(error)))
        else:
            good.append(_Line(number, item, row, vectors))
    return good, counts, problems


def _read_line(text: bytes, now: datetime) -> tuple[StoreItem, list[VectorRow]]:
    """Return the item of a line, except for the checks that `Store` makes itself.

    Raises:
        ValueError, TypeError, TooLarge: it is no item; the message says why.
    """
    try:
        record = parse_strict_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg}, column {error.colno}") from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except RecursionError:
        raise ValueError("is nested too deep") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")
    if unknown := sorted(record.keys() - _FIELDS):
        raise ValueError(f"has a field that no item has: {unknown[0]!r}")
    for name in ("namespace", "key", "value"):
        if name not in record:
            raise ValueError(f"has no {name!r}")
    namespace = record["namespace"]
    if not isinstance(namespace, list) or not all(isinstance(part, str) for part in namespace):
        raise ValueError("has a namespace that is not a list of texts")
    if not isinstance(record["key"], str):
        raise ValueError("has a key that is not a text")
    with _errors_of("namespace"):
        encode_namespace(namespace)
    with _errors_of("key"):
        key = check_name(record["key"], "it")
    with _errors_of("value"):
        value = from_jsonable(record["value"])
    with _errors_of("metadata"):
        metadata = check_metadata(record.get("metadata"))
    expires_at = _parse_time(record.get("expires_at"), now)
    item = StoreItem(tuple(namespace), key, value, metadata, now, now, expires_at=expires_at)
    with _errors_of("vectors"):
        return item, list(_parse_vectors(record.get("vectors")))


@contextmanager
def _errors_of(field: str) -> Iterator[None]:
    """Name the field of a line in an error about what the field holds."""
    try:
        yield
    except (NotSerialisable, TooLarge, TypeError, ValueError) as error:
        text = str(error)
        if text.startswith("has "):  # a sentence about the line
            raise
        raise ValueError(f"has {field!r} that cannot be stored: {text}") from error


LONGEST = timedelta(days=365_000)
"""The longest lifetime of an item."""


def _parse_time(text: Any, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ValueError(
            "has an 'expires_at' that is not a time in ISO 8601 of the years 1 to 9999"
        ) from None
    if moment.tzinfo is None:
        raise ValueError("has an 'expires_at' without an offset from UTC")
    try:
        moment = check_time(moment, "it").astimezone(UTC)
    except ValueError:
        raise ValueError(
            "has an 'expires_at' that is not between the years 1 and 9999 in UTC"
        ) from None
    if moment - now >= LONGEST:
        raise ValueError("has an 'expires_at' that is over a thousand years ahead")
    return moment


def _parse_vectors(given: Any) -> Iterator[VectorRow]:
    if given is None:
        return
    if not isinstance(given, list):
        raise ValueError("has 'vectors' that are not a list")
    seen = set()
    for one in given:
        if not isinstance(one, dict) or one.keys() != {"field", "model", "part", "vector"}:
            raise ValueError("has a vector that is not {field, model, part, vector}")
        if not isinstance(one["vector"], list):
            raise ValueError("has a vector that is not a list of numbers")
        part = one["part"]
        if type(part) is not int or not 0 <= part < 2**31:
            raise ValueError("has a vector whose part is not a number from 0 on")
        place = check_field(one["field"]), check_field(one["model"]), part
        if place in seen:
            raise ValueError("has two vectors of one field, model and part")
        seen.add(place)
        yield VectorRow(*place, check_vector(one["vector"], "a vector"))


async def _write_batch(
    db: Database,
    roads: ItemRoads,
    good: list[_Line],
    counts: Counter[str],
    on_conflict: OnConflict,
    now: datetime,
) -> ImportedBatch:
    """Decide about each line, and write those that are to be written, in one transaction."""
    d, tenant = db.dialect, db.tenant
    keys = sorted({line.place for line in good})
    binds = {"k_tenant": tenant, "p_now": now}

    def program() -> Program[ImportedBatch]:
        there = {}
        for listed in key_lists(d, keys):
            for row in (yield read.read_items(d, words=False), binds | listed):
                there[row.namespace, row.key] = row
        outcome, chosen = _decide_lines(good, there, on_conflict, db)
        # In one order in every process: two that want the same rows do not block each other.
        for place in sorted(chosen):
            line = chosen[place]
            expected = UNSET if on_conflict == "overwrite" else None
            put = roads.put(line.row, line.vectors, native, expected)
            if (yield from put) is None:
                raise Conflict(f"line {line.number}: others wrote to key {place[1]!r} meanwhile")
        return outcome

    with operation("store.put", tenant=tenant) as event:
        event.details["items"] = len(good)
        event.payload_bytes = sum(len(line.row["p_value"]) for line in good)
        some = next((line.vectors for line in good if line.vectors), [])
        if some:
            db.keyring.check_readable("vectors", "an import of vectors", store="Store")
        native = await writes_native_vectors(db, some, None, event)
        outcome = await retry_on_conflict(
            lambda: db.run(program, WRITE, event=event),
            f"keys of lines {good[0].number} to {good[-1].number}",
        )
    return ImportedBatch(counts + outcome.counts, outcome.problems)


def _decide_lines(
    good: list[_Line], there: dict[Place, Any], on_conflict: OnConflict, db: Database
) -> tuple[ImportedBatch, dict[Place, _Line]]:
    """Return the result of a batch, and the lines to write: the last of each place, or none."""
    counts: Counter[str] = Counter()
    problems: list[UnwrittenLine] = []
    chosen: dict[Place, _Line] = {}
    for line in good:
        before = chosen.get(line.place, there.get(line.place))
        if before is None or on_conflict == "overwrite":
            counts["imported" if before is None else "overwritten"] += 1
            chosen[line.place] = line
        elif on_conflict == "skip":
            counts["skipped"] += 1
        elif _is_same_item(line, before, db):
            counts["unchanged"] += 1
        else:
            counts["conflict"] += 1
            said = "an item of this namespace and key is there, and holds something else"
            problems.append(UnwrittenLine(line.number, said, line.item.namespace, line.item.key))
    if problems:
        left = len(good) - counts["conflict"]
        return ImportedBatch(Counter(conflict=counts["conflict"], left=left), tuple(problems)), {}
    return ImportedBatch(counts), chosen


def _is_same_item(line: _Line, before: Any, db: Database) -> bool:
    if isinstance(before, _Line):
        value, metadata = before.item.value, before.row["p_meta"]
    else:
        value, metadata = read.decode_item_value(db.tenant, before, db.keyring), before.meta
    # As bytes: to Python 1, 1.0 and True are equal.
    return encode_value(value) == encode_value(line.item.value) and (
        orjson.dumps(metadata, option=orjson.OPT_SORT_KEYS)
        == orjson.dumps(line.row["p_meta"], option=orjson.OPT_SORT_KEYS)
    )


async def _read_vectors(db: Database, page: list[StoreItem]) -> dict[Place, list[dict[str, Any]]]:
    places = [(encode_namespace(item.namespace), item.key) for item in page]
    statement = vectors_of_items(db.dialect, as_stored=False, alive=False)

    def program() -> Program[list[Any]]:
        rows: list[Any] = []
        for listed in key_lists(db.dialect, places):
            binds = {"k_tenant": db.tenant} | listed
            rows += yield statement, binds
            yield from check_vector_sets(db.dialect, db.tenant, listed, db.signing)
        return rows

    rows = await db.run(program, READ)
    check_vectors(db.tenant, rows, db.signing)
    found: dict[Place, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row.field, row.model, row.part)):
        place = {"field": row.field, "model": row.model, "part": row.part}
        vector = np.ascontiguousarray(row.vector, dtype=np.float32)
        # The shortest digits that are the same float32; as a double each would have twice as many.
        digits = orjson.loads(orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY))
        found.setdefault((row.namespace, row.key), []).append(place | {"vector": digits})
    return found

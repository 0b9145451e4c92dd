"""The check of the items of a tenant: their values, words, vectors and counters.

Memory is bounded: pages of keys, batches of values with their vectors. As in `logs`, each statement
sees one moment.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    Executable,
    Integer,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.types import NULLTYPE

from memalchemy.codec import encryption
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.field_terms import may_be_field_terms
from memalchemy.codec.payloads import VALUE_CODEC, decode_payload
from memalchemy.codec.places import item_place
from memalchemy.codec.search_text import may_be_item_search_text
from memalchemy.codec.signed_rows import item_content_of
from memalchemy.database import READ, Database, off_loop
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, MemalchemyError, NotEncrypted
from memalchemy.keys import decode_namespace, encode_namespace
from memalchemy.log.scan import PAGE, batches, run_query, scan
from memalchemy.maintenance.command_names import program
from memalchemy.maintenance.verify.report import (
    ReportBuilder,
    SharedCause,
    counted,
    remedy_of,
)
from memalchemy.maintenance.verify.text_indexes import TextIndexCheck
from memalchemy.proofs import REPORTED
from memalchemy.protection.found_items import check_vectors
from memalchemy.search.cache_versions import read_versions
from memalchemy.search.scope import EMBEDDINGS, ITEMS, in_scope, same_item, scope_binds
from memalchemy.search.vectors import has_native_vectors
from memalchemy.statements import statement

BATCH_ROWS = 100
"""The number of items that are read together with their values."""

VECTOR_NUMBER_BYTES = 4


class StoreNamespace(NamedTuple):
    """A namespace of a tenant, encoded as it is stored."""

    tenant: str
    namespace: str

    def binds(self) -> dict[str, Any]:
        """Return the binds of a statement on its items."""
        return scope_binds(self.tenant, self.namespace, below=False)


class ItemCheck:
    """Check the items of one tenant and add what is found to a report.

    Args:
        keyring: the keys to open items with, those of *db* unless it is given.
    """

    def __init__(
        self,
        db: Database,
        tenant: str,
        report: ReportBuilder,
        text_indexes: TextIndexCheck,
        keyring: Keyring | None = None,
    ) -> None:
        self.db = db
        self.tenant = tenant
        self.report = report
        self.text_indexes = text_indexes
        self._keyring = db.keyring if keyring is None else keyring

    async def count(self) -> int:
        """Count the items, expired ones too."""
        rows = await run_query(
            self.db, count_stored_items(self.db.dialect), self._binds_of_tenant()
        )
        return int(rows[0].items)

    async def check(self, sample: Collection[int] | None, progress: Callable[[int], None]) -> None:
        """Check all items, or the *sample* of them: the places in their order, from 0.

        Args:
            progress: called with the number of items that were passed.
        """
        native = await self.db.run(partial(has_native_vectors, self.db), READ)
        passed = 0
        pages = scan(
            self.db,
            lambda after: list_stored_items(self.db.dialect, after=after),
            self._binds_of_tenant(),
            ("namespace", "key"),
            identified_by=("namespace", "key"),
        )
        async for page in pages:
            for index, what in page.damaged.items():
                row = page[index]
                self._add_finding(
                    "unreadable", what, StoreNamespace(self.tenant, row.namespace), row.key
                )
            readable = [row for index, row in enumerate(page) if index not in page.damaged]
            wanted = (
                row for at, row in enumerate(readable, passed) if sample is None or at in sample
            )
            for namespace, low, high in _key_ranges(wanted, BATCH_ROWS if sample is None else 1):
                location = StoreNamespace(self.tenant, namespace)
                try:
                    await self._check_values(location, low, high)
                    await self._check_vectors(location, low, high, native)
                except Corrupt as error:
                    self._add_finding("unreadable", f"items cannot be read: {error}", location, low)
                await self.text_indexes.check_rows(location, low, high)
            passed += len(readable)
            progress(passed)

    async def check_references(self) -> None:
        """Find vectors without an item, and counters of changes that are behind."""
        binds = {"k_tenant": self.tenant, "p_limit": PAGE}
        for row in await run_query(self.db, list_orphaned_vectors(self.db.dialect), binds):
            vectors = counted(row.orphans, "vector", "vectors")
            what = f"{vectors} without an item, which no search finds"
            self._add_finding("orphan", what, StoreNamespace(self.tenant, row.namespace), row.key)
        if self.db.dialect.vectors.counts_changes:
            await self._check_counters()

    async def _check_values(self, location: StoreNamespace, low: str, high: str) -> None:
        binds = location.binds() | {"p_low": low, "p_high": high}
        rows = await run_query(
            self.db, read_stored_items(self.db.dialect), binds, identified_by=("key",)
        )
        for index, row in enumerate(rows):
            self.report.items += 1
            if index in rows.damaged:
                self._add_finding("unreadable", rows.damaged[index], location, row.key)
            else:
                self.report.payload_bytes += len(row.value)
                await self.check_item(location, row)

    async def check_item(self, location: StoreNamespace, row: Any) -> None:
        """Open an item, verify its signature, and compare its words with its value.

        Args:
            row: a row of `read_stored_items`, or another that has its columns.
        """
        size, keys = len(row.value), self._keyring.signing
        if row.version < 1:
            self._add_fault("version", f"it is at version {row.version}", location, row)
        if encryption.plain_codec(row.codec) != VALUE_CODEC:
            return self._add_fault("codec", f"its codec is {row.codec!r}", location, row)
        if row.meta is None:
            self._add_fault("metadata", "its metadata is no JSON object", location, row)
        try:
            value = await off_loop(size, partial(_open_item, location, row, self._keyring))
        except KeyMissing as error:
            return self._add_unopened(SharedCause("key", self.tenant, error.key_id), location, row)
        except NotEncrypted as error:
            if self.tenant in self.report.never_encrypted:
                return self._add_unopened(SharedCause("plaintext", self.tenant), location, row)
            return self._add_fault("plaintext", str(error), location, row)
        except Corrupt as error:
            return self._add_fault("payload", str(error), location, row)
        if row.meta is None:
            return None
        content, words = item_content_of(row, self.tenant), (row.search_text, row.field_terms)
        try:
            await off_loop(size, partial(keys.check_whole, row.signature, content, words))
        except (Corrupt, KeyMissing) as error:
            return self._add_signature_error(error, f"the item {row.key!r}", location, row.key)
        for code, what in await off_loop(size, partial(_compare_words, row, value)):
            self._add_fault(code, what, location, row)
        return None

    def _add_fault(self, code: str, what: str, location: StoreNamespace, row: Any) -> None:
        remedy = remedy_of(code, self.tenant) or _remedy(location, row.key, code)
        self._add_finding(code, what, location, row.key, remedy=remedy)

    def _add_unopened(self, cause: SharedCause, location: StoreNamespace, row: Any) -> None:
        """Count an item that cannot be opened because of the keys."""
        if self._keyring.encrypts:
            self.report.add_row(cause, f"the item {row.key!r}", location, affected=row.key)
        else:
            self.report.unopened += 1

    def _add_signature_error(
        self, error: MemalchemyError, what: str, location: StoreNamespace, key: str
    ) -> None:
        remedy = _remedy(location, key, "signature")
        self.report.add_signature_error(error, what, location, remedy, key=key)

    async def _check_vectors(
        self, location: StoreNamespace, low: str, high: str, native: bool
    ) -> None:
        statement = read_stored_vectors(self.db.dialect, native=native)
        binds = location.binds() | {"p_low": low, "p_high": high}
        rows = await run_query(self.db, statement, binds, identified_by=("key",))
        await self._check_vector_sets(location, low, high)
        for index, row in enumerate(rows):
            if index in rows.damaged:
                self._add_finding("unreadable", rows.damaged[index], location, row.key)
            else:
                self.check_vector(location, row)

    def check_vector(self, location: StoreNamespace, row: Any) -> None:
        """Check that a vector can be searched, and verify its signature.

        Args:
            row: a row of `read_stored_vectors`, or another that has its columns.
        """
        which = f"the vector of field {row.field!r}, model {row.model!r}, part {row.part}"
        if fault := _check_vector(row.vector, row.dimensions):
            remedy = f"put the item again with its vectors: key {row.key!r}"
            self._add_finding("vector", f"{which} {fault}", location, row.key, remedy=remedy)
            return
        try:
            check_vectors(location.tenant, [row], self._keyring.signing)
        except (Corrupt, KeyMissing) as error:
            self._add_signature_error(error, f"{which} of {row.key!r}", location, row.key)

    async def _check_vector_sets(self, location: StoreNamespace, low: str, high: str) -> None:
        """Check that each item has the vectors that its signature proves."""
        if not self._keyring.signing.signs:
            return
        binds = location.binds() | {"p_low": low, "p_high": high}
        sets: dict[tuple[str, bytes | None], list[bytes | None]] = {}
        for row in await run_query(self.db, read_vector_sets(self.db.dialect), binds):
            sets.setdefault((row.key, row.signature), []).append(row.vector_signature)
        for (key, signature), vectors in sets.items():
            self.check_vector_set(location, key, signature, vectors)

    def check_vector_set(
        self,
        location: StoreNamespace,
        key: str,
        signature: bytes | None,
        vectors: Sequence[bytes | None],
    ) -> None:
        """Check that an item has all its vectors and no others, given their signatures."""
        try:
            self._keyring.signing.check_vectors(signature, vectors)
        except (Corrupt, KeyMissing) as error:
            self._add_signature_error(error, f"the item {key!r}", location, key)

    async def _check_counters(self) -> None:
        """Compare the counters of changes with the vectors, which are read first: counters grow."""
        d = self.db.dialect
        pages = scan(
            self.db,
            lambda _: list_last_changes(d),
            {"k_tenant": self.tenant, "p_namespace": "."},  # before all, which begin with a slash
            ("namespace",),
        )
        async for page in pages:
            for row in page:
                program = partial(read_versions, d, self.tenant, row.namespace, False)
                location = StoreNamespace(self.tenant, row.namespace)
                try:
                    counter = (await self.db.run(program, READ)).get(row.namespace)
                except Corrupt as error:
                    self._add_finding("counter", str(error), location)
                    continue
                if counter is None or not 1 <= row.last_change <= counter.version:
                    there = "none" if counter is None else f"at {counter.version}"
                    what = (
                        f"its vectors were last changed at count {row.last_change}, its counter is "
                        f"{there}: searches of a running process may miss changes"
                    )
                    remedy = "restart the processes that search it, and put its items again"
                    self._add_finding("counter", what, location, remedy=remedy)

    def _binds_of_tenant(self) -> dict[str, Any]:
        """Return the binds of statements on all items of the tenant."""
        return scope_binds(self.tenant, encode_namespace(()), below=True)

    def _add_finding(
        self,
        code: str,
        what: str,
        location: StoreNamespace,
        key: str | None = None,
        **details: Any,
    ) -> None:
        self.report.add(code, what, location, key=key, **details)


def _key_ranges(rows: Iterable[Any], most_rows: int) -> Iterator[tuple[str, str, str]]:
    """Split listed items into ranges to read: namespace, first key, last key."""
    for namespace, listed in groupby(rows, lambda row: row.namespace):
        for batch in batches(list(listed), _bytes_of, most_rows=most_rows):
            yield namespace, batch[0].key, batch[-1].key


def _bytes_of(row: Any) -> int:
    """Return the bytes of a listed item with its vectors."""
    return int(row.stored + VECTOR_NUMBER_BYTES * int(row.numbers))


def _open_item(location: StoreNamespace, row: Any, keyring: Keyring) -> Any:
    """Return the value of an item.

    Raises:
        Corrupt, KeyMissing, NotEncrypted: it cannot be opened.
    """
    place = item_place(location.tenant, location.namespace, row.key, row.version)
    codec, checksum, payload = keyring.decrypt(row.codec, row.checksum, bytes(row.value), place)
    return decode_payload(payload, checksum, codec)


def _compare_words(row: Any, value: Any) -> list[tuple[str, str]]:
    """Compare the words of an item with its value; return the codes and sentences of faults."""
    faults = []
    try:
        if not may_be_item_search_text(row.search_text, value, row.meta):
            faults.append(("words", "the words it is found by are not those of its texts"))
        if not may_be_field_terms(row.field_terms, value, row.meta):
            faults.append(("words", "the words of its fields are not those of its fields"))
    except OverflowError:
        faults.append(("metadata", "its metadata has a number that no put takes"))
    return faults


def _check_vector(vector: Any, dimensions: int) -> str | None:
    """Return what is wrong with a vector as the driver gives it: bytes, text or numbers."""
    if isinstance(vector, str):
        try:
            numbers = np.asarray([float(one) for one in vector.strip("[]").split(",")], "<f4")
        except ValueError:
            return "is a text, which is no vector"
    elif isinstance(vector, (bytes, memoryview)):
        raw = bytes(vector)
        if len(raw) % VECTOR_NUMBER_BYTES:
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


def _remedy(location: StoreNamespace, key: str, code: str) -> str:
    if code == "words":
        place = f"{decode_namespace(location.namespace)!r}, {key!r}"
        return f"put it again: its words are made then, by Store(db).put({place}, …)"
    dashes = ["--"] if key.startswith("-") else []
    place = shlex.join([*dashes, location.namespace, key])
    command = f"{program(location.tenant)} store rm {place}"
    return f"put it again from where it came, or remove it: {command}"


# --- Statements ----------------------------------------------------------------------------------


def _bind_as(name: str, column: Any) -> Any:
    return bindparam(name, type_=column.type)


@statement()
def count_stored_items(dialect: Dialect) -> Executable:
    """Count the items of a tenant, expired ones too."""
    count = func.count().label("items")
    return select(count).select_from(ITEMS).where(in_scope(ITEMS, below=True))


@statement(unproven=REPORTED, after=(True, False))
def list_stored_items(dialect: Dialect, after: bool) -> Executable:
    """Select a page of the items of a tenant, with the bytes of values and numbers of vectors."""
    namespace, key = ITEMS.c.namespace, ITEMS.c.key
    numbers = select(func.coalesce(func.sum(EMBEDDINGS.c.dimensions), 0)).where(
        same_item(EMBEDDINGS, ITEMS)
    )
    query = select(
        namespace,
        key,
        dialect.statements.byte_length(ITEMS.c.value).label("stored"),
        numbers.scalar_subquery().label("numbers"),
    ).where(in_scope(ITEMS, below=True))
    if after:
        path, name = _bind_as("p_namespace", namespace), _bind_as("p_key", key)
        behind = or_(namespace > path, and_(namespace == path, key > name))
        query = query.where(namespace >= path, behind)
    return query.order_by(namespace, key).limit(bindparam("p_limit"))


def _in_range(table: Any) -> Any:
    return and_(
        in_scope(table, below=False),
        table.c.key >= _bind_as("p_low", table.c.key),
        table.c.key <= _bind_as("p_high", table.c.key),
    )


@statement(unproven=REPORTED)
def read_stored_items(dialect: Dialect) -> Executable:
    """Select the items of a namespace from key to key; metadata that is no JSON object is NULL."""
    readable = dialect.statements.json_is_object(ITEMS.c.meta) == literal_column("1", Integer)
    columns = (
        *("namespace", "key", "version", "codec", "checksum"),
        *("search_text", "field_terms", "signature", "value"),
        # Reading these columns is the check of them: that they can be read.
        *("created_at", "updated_at", "expires_at", "lifetime"),
    )
    return (
        select(
            *(ITEMS.c[name] for name in columns),
            case((readable, ITEMS.c.meta)).label("meta"),
        )
        .where(_in_range(ITEMS))
        .order_by(ITEMS.c.key)
    )


@statement(unproven=REPORTED, native=(True, False))
def read_stored_vectors(dialect: Dialect, native: bool) -> Executable | None:
    """Select the vectors of the items of a namespace from key to key, as the driver gives them."""
    if not native and not dialect.vectors.may_be_bytes:
        return None
    names = ("key", "field", "model", "part")
    proof = EMBEDDINGS.c.namespace, EMBEDDINGS.c.signature.label("vector_signature")
    vector = type_coerce(dialect.vectors.readable(EMBEDDINGS.c.vector, native), NULLTYPE).label(
        "vector"
    )
    return (
        select(
            *(EMBEDDINGS.c[name] for name in names),
            EMBEDDINGS.c.dimensions,
            *proof,
            ITEMS.c.version,
            vector,
        )
        .select_from(EMBEDDINGS.outerjoin(ITEMS, same_item(ITEMS, EMBEDDINGS)))
        .where(_in_range(EMBEDDINGS))
        .order_by(*(EMBEDDINGS.c[name] for name in names))
    )


@statement(unproven=REPORTED)
def read_vector_sets(dialect: Dialect) -> Executable:
    """Select the signatures of items from key to key, each with those of its vectors."""
    return (
        select(ITEMS.c.key, ITEMS.c.signature, EMBEDDINGS.c.signature.label("vector_signature"))
        .select_from(ITEMS.outerjoin(EMBEDDINGS, same_item(ITEMS, EMBEDDINGS)))
        .where(_in_range(ITEMS))
        .order_by(ITEMS.c.key)
    )


@statement(unproven=REPORTED)
def list_orphaned_vectors(dialect: Dialect) -> Executable:
    """Select the keys of a tenant's vectors whose items do not exist."""
    there: Any = select(literal_column("1")).select_from(ITEMS).where(same_item(ITEMS, EMBEDDINGS))
    place = (EMBEDDINGS.c.namespace, EMBEDDINGS.c.key)
    return (
        select(*place, func.count(type_=Integer).label("orphans"))
        .where(EMBEDDINGS.c.tenant == _bind_as("k_tenant", EMBEDDINGS.c.tenant), ~there.exists())
        .group_by(*place)
        .order_by(*place)
        .limit(bindparam("p_limit"))
    )


@statement(unproven=REPORTED)
def list_last_changes(dialect: Dialect) -> Executable | None:
    """Select a page of a tenant's namespaces that have vectors, and the last change of each."""
    if not dialect.vectors.counts_changes:
        return None
    namespace = EMBEDDINGS.c.namespace
    return (
        select(namespace, func.max(EMBEDDINGS.c.change).label("last_change"))
        .where(EMBEDDINGS.c.tenant == _bind_as("k_tenant", EMBEDDINGS.c.tenant))
        .where(namespace > _bind_as("p_namespace", namespace))
        .group_by(namespace)
        .order_by(namespace)
        .limit(bindparam("p_limit"))
    )

"""Sign items and their vectors.

A put binds the whole row of an item, and signs it before it is sent. It may be there to mend a row
that was damaged, so it does not hold what it replaces to its signature: version and time of
creation are taken over as they are, if the anchor allows them. A statement that changes an item in
place builds on the rest of the row: that is held to its signature before, and signed anew after it.

A vector is signed with the version of its item. Where a put keeps vectors, they are signed for the
new version when the program ends. Then the signature of an item is extended by a hash of those of
its vectors, so that none of them is removed without a trace.

What memalchemy keeps for itself, such as counters of changes, is written by statements without a
signature. Nobody is given it as an item, and every read of it can do with any value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, Table, and_, bindparam, select, tuple_, type_coerce, update
from sqlalchemy.types import NULLTYPE

from memalchemy.codec.anchors import Life, item_identity, microseconds
from memalchemy.codec.signatures import SigningKeys
from memalchemy.codec.signed_rows import (
    check_item,
    item_content_of,
    item_parts_of_binds,
    vector_content_of,
    vector_content_of_binds,
)
from memalchemy.column_types import stored_vector_bytes
from memalchemy.dialects import Dialect
from memalchemy.keys import encode_id
from memalchemy.protection.removals import hold_missing, prove_item
from memalchemy.protection.signed_logs import errors_about
from memalchemy.protection.work import Work
from memalchemy.rows import ITEM, MANY_ITEMS, VECTOR
from memalchemy.schema import EmbeddingRow, StoreItemRow
from memalchemy.statements import Answer, Program, statement

ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]
EMBEDDINGS: Table = EmbeddingRow.__table__  # type: ignore[assignment]

_KEY, _KEY_BINDS = ITEM.key, ITEM.key_binds
_PART = ("field", "model", "part")

Place = tuple[str, str, str]
"""Tenant, encoded namespace and key of an item."""


class ItemSigner:
    """Signer of items and of their vectors, for one run of a program."""

    tables = frozenset({"store_items", "embeddings"})

    def __init__(self, dialect: Dialect, keys: SigningKeys) -> None:
        self._dialect = dialect
        self._keys = keys
        self._put: dict[Place, int] = {}
        """The new versions of items whose vectors may have been kept."""
        self._with_vectors: set[Place] = set()
        """The items whose vectors the program has changed, or may have."""
        self._listed: list[tuple[str, dict[str, Any]]] = []
        """Tenants, and binds that list items whose vectors were removed."""

    # --- Around a statement ----------------------------------------------------------------------

    def before(self, work: Work, binds: Mapping[str, Any]) -> Program[None]:
        """Sign the rows that a statement binds; look at the row that it changes in place."""
        if work.proves not in (None, "order") and work.does == "delete":
            yield from self._prove_items(work, binds)
        elif work.table == "embeddings":
            yield from self._open_vectors(work, binds)
            if work.binds_whole(VECTOR):
                signature = self._keys.sign(vector_content_of_binds(binds))
                binds["p_signature"] = signature  # type: ignore[index]
        elif work.binds_whole(ITEM):
            signature = yield from self._sign_item(binds)
            binds["p_signature"] = signature  # type: ignore[index]
        elif work.binds_whole(MANY_ITEMS):
            signatures = []
            for one in MANY_ITEMS.each(binds):
                signatures.append((yield from self._sign_item(one)))
            binds["i_signature"] = signatures  # type: ignore[index]
        elif work.row is ITEM:
            yield from self._check_item(binds)

    def after(self, work: Work, binds: Mapping[str, Any], answer: Answer) -> Program[None]:
        """Note which items were put; sign the item that a statement has changed in place."""
        if work.table == "embeddings":
            return
        if work.binds_whole(MANY_ITEMS):
            rows: Iterable[Any] = answer
            for namespace, key, version in rows:
                self._put[binds["k_tenant"], namespace, key] = int(version)
        elif work.binds_whole(ITEM):
            # An insert on its own, where the database has no upsert, returns nothing.
            if answer:
                self._put[_place_of(binds)] = int(answer[0].version)
        elif work.row is ITEM:
            yield from self._sign_changed(binds)

    def finish(self) -> Program[None]:
        """Sign the vectors that were kept for the new versions of their items."""
        tenants: dict[str, list[Place]] = {}
        for place, version in self._put.items():
            if version > 1:
                tenants.setdefault(place[0], []).append(place)
        for tenant, places in tenants.items():
            for keys in self._lists_of(places):
                rows = yield read_signed_vectors(self._dialect), {"k_tenant": tenant} | keys
                yield from self._sign_kept(tenant, rows)
                self._with_vectors |= {(tenant, row.namespace, row.key) for row in rows}
        by_tenant: dict[str, list[Place]] = {}
        for place in sorted(self._with_vectors):
            by_tenant.setdefault(place[0], []).append(place)
        for tenant, places in by_tenant.items():
            self._listed += ((tenant, keys) for keys in self._lists_of(places))
        for tenant, keys in self._listed:
            yield from self._sign_sets(tenant, keys)

    # --- Rows that a statement binds -------------------------------------------------------------

    def _sign_item(self, binds: Mapping[str, Any]) -> Program[bytes]:
        """Return the signature of an item that is put, once what it replaces was looked at."""
        yield from self._hold_to_anchor(_place_of(binds), binds["p_version"], binds["p_created_at"])
        return self._keys.sign(*item_parts_of_binds(binds))

    def _hold_to_anchor(self, place: Place, version: int, created_at: datetime) -> Program[None]:
        """Hold what a put is to replace to the anchor, if there is one: a put does not hide it.

        Nothing is read where the anchor does not have the item, or a version of it is there.
        """
        anchor, identity = self._keys.anchor, item_identity(*place)
        record = None if anchor is None else anchor.find(place[0], identity)
        if anchor is None or record is None:
            return
        with errors_about(f"the item {place[2]!r} in {place[1]}"):
            if version > 1:
                anchor.check(place[0], identity, Life(microseconds(created_at), version - 1))
                return
            row = yield from self._read_item(dict(zip(_KEY_BINDS, place, strict=True)))
            if row is not None:  # it has expired
                check_item(row, place[0], self._keys)
            else:
                yield from hold_missing(self._dialect, place[0], identity, self._keys)

    # --- Which vectors an item has ---------------------------------------------------------------

    def _open_vectors(self, work: Work, binds: Mapping[str, Any]) -> Program[None]:
        """Note which items' vectors a statement changes; prove those that are there."""
        if work.names_item:
            place = _place_of(binds)
            if place not in self._put and place not in self._with_vectors:
                for keys in self._lists_of([place]):
                    yield from check_vector_sets(self._dialect, place[0], keys, self._keys)
            if work.does == "delete":
                self._put.pop(place, None)
            self._with_vectors.add(place)
        elif listed := _listed_in(binds):
            self._listed.append((binds["k_tenant"], listed))

    def _lists_of(self, places: Iterable[Place]) -> Iterator[dict[str, Any]]:
        listed = [(namespace, encode_id(key)) for _, namespace, key in places]
        return self._dialect.statements.list_batches("p_keys", listed)

    def _sign_sets(self, tenant: str, keys: Mapping[str, Any]) -> Program[None]:
        """Sign which vectors the items have that *keys* lists."""
        binds = {"k_tenant": tenant, **keys}
        items = yield read_signed_words(self._dialect), binds
        vectors = yield from _vector_signatures(self._dialect, binds)
        signing = []
        for row in items:
            if row.signature is None:
                continue
            words = [getattr(row, name) for name in ITEM.words]
            own = vectors.get((row.namespace, row.key), ())
            signature = self._keys.with_vectors(row.signature, words, own)
            if signature != row.signature:
                place = dict(zip(_KEY_BINDS, (tenant, row.namespace, row.key), strict=True))
                signing.append(place | {"p_signature": signature})
        if signing:
            yield sign_item(self._dialect), signing

    # --- Rows that are there ---------------------------------------------------------------------

    def _read_item(self, binds: Mapping[str, Any]) -> Program[Any | None]:
        """Lock the item that a statement names, and return it."""
        rows = yield (
            lock_signed_item(self._dialect),
            {name: binds[name] for name in _KEY_BINDS},
        )
        return rows[0] if rows else None

    def _prove_items(self, work: Work, binds: Mapping[str, Any]) -> Program[None]:
        """Hold the items that a job is about to remove to their signatures."""
        tenant = binds["k_tenant"]
        if work.names_item:
            rows: Iterable[Any] = yield read_signed_item(self._dialect), _key_of(binds)
        else:
            rows = yield read_signed_items(self._dialect), {"k_tenant": tenant} | _listed_in(binds)
        for row in rows:
            prove_item(row, tenant, self._keys)

    def _check_item(self, binds: Mapping[str, Any]) -> Program[None]:
        """Hold the item that a statement is about to change to its signature."""
        row = yield from self._read_item(binds)
        if row is not None:
            with errors_about(f"the item {row.key!r} in {row.namespace}"):
                check_item(row, row.tenant, self._keys)
                self._keys.check_words(row.signature, [getattr(row, name) for name in ITEM.words])
                place = _place_of(binds)
                if self._keys.proves_vectors(row.signature) and place not in self._with_vectors:
                    for keys in self._lists_of([place]):
                        yield from check_vector_sets(self._dialect, place[0], keys, self._keys)
                    self._with_vectors.add(place)

    def _sign_changed(self, binds: Mapping[str, Any]) -> Program[None]:
        """Sign the item that a statement has changed, unless it was not signed before."""
        row = yield from self._read_item(binds)
        if row is None or row.signature is None:
            return
        words = [getattr(row, name) for name in ITEM.words]
        signature = self._keys.sign(item_content_of(row, row.tenant), words)
        if signature != row.signature:
            named = {name: binds[name] for name in _KEY_BINDS}
            yield sign_item(self._dialect), named | {"p_signature": signature}

    def _sign_kept(self, tenant: str, rows: Iterable[Any]) -> Program[None]:
        """Hold vectors to their signatures beside the versions before, and sign them anew."""
        signing = []
        for row in rows:
            version = self._put[tenant, row.namespace, row.key]
            vector = stored_vector_bytes(row.vector)
            with errors_about(f"a vector of the item {row.key!r} in {row.namespace}"):
                before = vector_content_of(row, tenant, vector, version=version - 1)
                self._keys.check(row.signature, before)
            if row.signature is not None:  # it was not signed before, which was allowed
                content = vector_content_of(row, tenant, vector, version=version)
                named = {f"p_{name}": getattr(row, name) for name in _PART}
                place = dict(zip(_KEY_BINDS, (tenant, row.namespace, row.key), strict=True))
                signing.append(place | named | {"p_signature": self._keys.sign(content)})
        if signing:
            yield sign_vector(self._dialect), signing


def _listed_in(binds: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of *binds* that list items."""
    return {name: one for name, one in binds.items() if name.startswith("p_keys")}


def check_vector_sets(
    dialect: Dialect, tenant: str, listed: Mapping[str, Any], keys: SigningKeys
) -> Program[None]:
    """Check that the items of a tenant which *listed* names have the vectors that they say.

    Two statements; one if none of them has vectors, and none without keys.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check_vectors`; the item is named.
    """
    if not keys.signs:
        return
    binds = {"k_tenant": tenant, **listed}
    items = yield read_signed_words(dialect), binds
    if not any(keys.proves_vectors(row.signature) for row in items):
        return
    vectors: dict[tuple[str, str], list[Any]] = {}
    for row in (yield read_signed_vectors(dialect), binds):
        vectors.setdefault((row.namespace, row.key), []).append(row)
    for row in items:
        own = vectors.get((row.namespace, row.key), [])
        with errors_about(f"the item {row.key!r} in {row.namespace}"):
            keys.check_words(row.signature, [getattr(row, name) for name in ITEM.words])
            keys.check_vectors(row.signature, [one.signature for one in own])
        with errors_about(f"a vector of the item {row.key!r} in {row.namespace}"):
            for one in own:
                given = stored_vector_bytes(one.vector)
                content = vector_content_of(one, tenant, given, version=row.version)
                keys.check(one.signature, content)


def _vector_signatures(
    dialect: Dialect, binds: Mapping[str, Any]
) -> Program[dict[tuple[str, str], list[bytes | None]]]:
    """Return the signatures of the vectors of listed items, by namespace and key."""
    found: dict[tuple[str, str], list[bytes | None]] = {}
    for row in (yield read_vector_signatures(dialect), binds):
        found.setdefault((row.namespace, row.key), []).append(row.signature)
    return found


def _key_of(binds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: binds[name] for name in _KEY_BINDS}


def _place_of(binds: Mapping[str, Any]) -> Place:
    return binds["k_tenant"], binds["k_namespace"], binds["k_key"]


# --- Statements ----------------------------------------------------------------------------------


def _bound(table: Table, names: Iterable[str], prefix: str) -> Any:
    return and_(
        *(
            table.c[name] == bindparam(f"{prefix}_{name}", type_=table.c[name].type)
            for name in names
        )
    )


def _signature() -> Any:
    return bindparam("p_signature", type_=ITEMS.c.signature.type)


_SIGNED = [ITEMS.c[name] for name in (*_KEY, *ITEM.signed, "signature")]


@statement(proves="item")
def read_signed_item(dialect: Dialect) -> Executable:
    """Select what is signed of an item, and its signature."""
    return select(*_SIGNED).where(_bound(ITEMS, _KEY, "k"))


@statement(proves="item")
def read_signed_items(dialect: Dialect) -> Executable:
    """Select what is signed of the items that ``p_keys`` lists, and their signatures."""
    listed = dialect.statements.rows_from_list("p_keys", ("namespace", "key"))
    names: Any = select(listed.c.namespace, listed.c.key)
    here = tuple_(ITEMS.c.namespace, ITEMS.c.key).in_(names)
    return select(*_SIGNED).where(_bound(ITEMS, ["tenant"], "k"), here)


@statement(proves="item")
def lock_signed_item(dialect: Dialect) -> Executable:
    """Lock an item, and return what is signed of it, and its signature."""
    columns = [ITEMS.c[name] for name in (*_KEY, *ITEM.signed, *ITEM.words, "signature")]
    return dialect.statements.lock(ITEMS, _bound(ITEMS, _KEY, "k"), columns)


@statement(changes=ITEM)
def sign_item(dialect: Dialect) -> Executable:
    """Set the signature of an item."""
    return update(ITEMS).where(_bound(ITEMS, _KEY, "k")).values(signature=_signature())


@statement(proves="vectors")
def read_signed_vectors(dialect: Dialect) -> Executable:
    """Select the vectors of the items that ``p_keys`` lists, with their signatures."""
    listed = dialect.statements.rows_from_list("p_keys", ("namespace", "key"))
    names: Any = select(listed.c.namespace, listed.c.key)
    vector = type_coerce(EMBEDDINGS.c.vector, NULLTYPE).label("vector")
    columns = ("namespace", "key", *VECTOR.signed, "signature")
    return select(*(EMBEDDINGS.c[name] for name in columns), vector).where(
        _bound(EMBEDDINGS, ["tenant"], "k"),
        tuple_(EMBEDDINGS.c.namespace, EMBEDDINGS.c.key).in_(names),
    )


def _listed_rows(dialect: Dialect, table: Table, names: Iterable[str]) -> Executable:
    """Select columns of the rows of the items that ``p_keys`` lists."""
    listed = dialect.statements.rows_from_list("p_keys", ("namespace", "key"))
    keys: Any = select(listed.c.namespace, listed.c.key)
    here = tuple_(table.c.namespace, table.c.key).in_(keys)
    columns = (table.c[name] for name in names)
    return select(*columns).where(_bound(table, ["tenant"], "k"), here)


@statement(proves="vectors")
def read_signed_words(dialect: Dialect) -> Executable:
    """Select the versions, words and signatures of the items that ``p_keys`` lists."""
    return _listed_rows(dialect, ITEMS, ("namespace", "key", "version", *ITEM.words, "signature"))


@statement(proves="vectors")
def read_vector_signatures(dialect: Dialect) -> Executable:
    """Select the signatures of the vectors of the items that ``p_keys`` lists."""
    return _listed_rows(dialect, EMBEDDINGS, ("namespace", "key", "signature"))


@statement(changes=VECTOR)
def sign_vector(dialect: Dialect) -> Executable:
    """Set the signature of a vector."""
    same = _bound(EMBEDDINGS, _KEY, "k"), _bound(EMBEDDINGS, _PART, "p")
    return update(EMBEDDINGS).where(*same).values(signature=_signature())

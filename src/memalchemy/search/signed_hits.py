"""Verify the signatures of the items and vectors that a read returns.

A search ranks by columns that it does not verify: words of many rows, and all vectors. The rows
that it returns are verified, with the words or the vector by which each was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Executable, select

from memalchemy.codec.anchors import item_identity
from memalchemy.codec.signatures import SigningKeys
from memalchemy.codec.signed_rows import check_item, vector_content_of
from memalchemy.column_types import stored_vector_bytes
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, MemalchemyError, about
from memalchemy.protection.removals import hold_missing
from memalchemy.protection.signed_logs import errors_about
from memalchemy.search.scope import ITEMS, Place, of_item, stored
from memalchemy.statements import Program, statement


def check_items(
    tenant: str, rows: Iterable[Any], signing: SigningKeys, *, words: bool = False
) -> None:
    """Verify rows of `scope.stored` columns by their signatures; with *words*, these as well.

    Raises:
        Corrupt, NotSigned, KeyMissing: a row is not what was signed at its place; it is named.
    """
    if not signing.signs:
        return
    for row in rows:
        try:
            check_item(row, tenant, signing)
            if words:
                signing.check_words(row.signature, (row.search_text, row.field_terms))
        except (Corrupt, KeyMissing) as error:
            raise about_item(error, row) from error


def hold_missing_items(
    dialect: Dialect, tenant: str, places: Iterable[Place], keys: SigningKeys
) -> Program[None]:
    """Check that items which no read has found may be missing, if *keys* have an anchor.

    It takes two statements for each item that the anchor has.

    Raises:
        Corrupt: the anchor has an item that has neither expired nor been removed with a key.
    """
    if keys.anchor is None:
        return
    for namespace, key in places:
        identity = item_identity(tenant, namespace, key)
        record = keys.anchor.find(tenant, identity)
        if record is None or record.is_gone:
            continue
        with errors_about(f"the item {key!r} in {namespace}"):
            binds = {"k_tenant": tenant, "k_namespace": namespace, "k_key": key}
            rows = yield read_any_item(dialect), binds
            if rows:  # it has expired, or was put meanwhile
                check_item(rows[0], tenant, keys)
            else:
                yield from hold_missing(dialect, tenant, identity, keys)


@statement(proves="item")
def read_any_item(dialect: Dialect) -> Executable:
    """Select an item, also one that has expired."""
    return select(*stored()).where(of_item(ITEMS))


def check_vectors(tenant: str, rows: Iterable[Any], signing: SigningKeys) -> None:
    """Verify vectors, read with the ``version`` of their items, by their signatures.

    Raises:
        Corrupt, NotSigned, KeyMissing: one is not what was signed at its place and version.
    """
    if not signing.signs:
        return
    for row in rows:
        try:
            vector = stored_vector_bytes(row.vector)
            signing.check(row.vector_signature, vector_content_of(row, tenant, vector))
        except (Corrupt, KeyMissing) as error:
            raise about_item(error, row, "a vector of the item") from error


def about_item(error: MemalchemyError, row: Any, what: str = "the item") -> MemalchemyError:
    """Return *error* so that it names the item of a row."""
    return about(error, f"{what} {row.key!r} in {row.namespace}")

"""Verify the signatures of the items and vectors that a read returns.

A search ranks by columns that it does not verify: words of many rows, and all vectors. The rows
that it returns are verified, with the words or the vector by which each was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memalchemy.codec.signatures import SigningKeys
from memalchemy.codec.signed_rows import check_item, vector_content_of
from memalchemy.column_types import stored_vector_bytes
from memalchemy.errors import Corrupt, KeyMissing, MemalchemyError, about


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

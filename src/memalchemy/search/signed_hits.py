"""Hold the items and vectors that a read returns to their signatures.

A search ranks by columns that it does not check: words of many rows, and all vectors. What it
returns is checked, each row by what it was found by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from memalchemy.codec.signatures import SigningKeys
from memalchemy.codec.signed_rows import item_content_of, vector_content_of
from memalchemy.column_types import stored_vector_bytes
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted, about


def check_items(
    tenant: str, rows: Iterable[Any], signing: SigningKeys, *, words: bool = False
) -> None:
    """Hold rows of `scope.stored` columns to their signatures; with *words* those, too.

    Raises:
        Corrupt, NotSigned, KeyMissing: a row is not what was signed at its place; it is named.
    """
    if not signing.signs:
        return
    for row in rows:
        with errors_about_item(row):
            signing.check(row.signature, item_content_of(row, tenant))
            if words:
                signing.check_words(row.signature, (row.search_text, row.field_terms))


def check_vectors(tenant: str, rows: Iterable[Any], signing: SigningKeys) -> None:
    """Hold vectors, read with the ``version`` of their items, to their signatures.

    Raises:
        Corrupt, NotSigned, KeyMissing: one is not what was signed at its place and version.
    """
    if not signing.signs:
        return
    for row in rows:
        with errors_about_item(row, "a vector of the item"):
            vector = stored_vector_bytes(row.vector)
            signing.check(row.vector_signature, vector_content_of(row, tenant, vector))


@contextmanager
def errors_about_item(row: Any, what: str = "the item") -> Iterator[None]:
    """Name the item of a row in errors."""
    try:
        yield
    except (Corrupt, KeyMissing, NotEncrypted) as error:
        raise about(error, f"{what} {row.key!r} in {row.namespace}") from error

"""Sign items and their vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memalchemy.codec.signatures import SigningKeys
from memalchemy.dialects import Dialect
from memalchemy.statements import Answer, Program

if TYPE_CHECKING:
    from memalchemy.database.signing import Work


class ItemSigner:
    """Signer of items and of their vectors, for one run of a program."""

    tables = frozenset({"store_items", "embeddings"})

    def __init__(self, dialect: Dialect, keys: SigningKeys) -> None:
        self._dialect = dialect
        self._keys = keys

    def before(self, work: Work, binds: Mapping[str, Any]) -> Program[None]:
        yield from ()

    def after(self, work: Work, binds: Mapping[str, Any], answer: Answer) -> Program[None]:
        yield from ()

    def finish(self) -> Program[None]:
        yield from ()

"""Items that others have put into the namespaces of memories.

Lists and searches leave them out with a warning. Whoever names one by its id is told so.
"""

from __future__ import annotations

import logging

from memalchemy.errors import Conflict
from memalchemy.keys import format_namespace

_log = logging.getLogger(__name__)


def warn_of_foreign_items(number: int, kind: str) -> None:
    """Log how many items of a namespace are not of its *kind*, such as ``facts``."""
    if number:
        _log.warning(
            "%d items in a namespace of %s are no %s, and were left out", number, kind, kind
        )


def foreign_item(namespace: tuple[str, ...], key: str, kind: str) -> Conflict:
    """Return the error of an item that is not of its *kind*, such as ``fact``."""
    return Conflict(
        f"the item {key!r} in namespace {format_namespace(namespace)} is no {kind}: something else "
        "has written it. It was not changed; `Store` reads and deletes it"
    )

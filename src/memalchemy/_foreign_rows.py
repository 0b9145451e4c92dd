"""Items and entries that others have put where memories, facts, episodes or messages are kept.

Lists and searches of many leave them out with a warning. Whoever names one, or reads a conversation
that has one, is told so.
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


def warn_of_foreign_entries(number: int) -> None:
    """Log how many entries of the logs of conversations are no messages."""
    if number:
        _log.warning("%d entries of conversations are no messages, and were left out", number)


def foreign_item(namespace: tuple[str, ...], key: str, kind: str) -> Conflict:
    """Return the error of an item that is not of its *kind*, such as ``fact``."""
    return Conflict(
        f"the item {key!r} in namespace {format_namespace(namespace)} is no {kind}: something else "
        "has written it. It was not changed; `Store` reads and deletes it"
    )


def foreign_entry(place: int) -> Conflict:
    """Return the error of an entry that is no message, at a *place* among those that were read."""
    return Conflict(
        f"entry {place} of those that were read of a conversation is no message: something else "
        "has written it. It was not changed; `ThreadLog` in the conversation's namespace reads and "
        "removes it"
    )

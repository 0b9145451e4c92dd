"""Notes about the namespaces from which a rotation has removed words."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from typing import Literal

from memalchemy.database import Database
from memalchemy.keys import InternalNamespace
from memalchemy.log.scan import run_query
from memalchemy.maintenance.words.statements import find_words
from memalchemy.store import Store

LOST = InternalNamespace(("words",))
"""Namespace of the notes about namespaces whose words a rotation has removed."""

Kind = Literal["logs", "items"]


async def has_words(db: Database, kind: Kind) -> bool:
    """Return whether a log or an item of the tenant has words."""
    binds = {"k_tenant": db.tenant, "p_limit": 1}
    return bool(await run_query(db, find_words(db.dialect, kind=kind), binds))


async def note_lost_words(db: Database, lost: Collection[tuple[Kind, str]]) -> None:
    """Note that words were removed from logs, or items, in namespaces as they are stored."""
    notes = [(LOST, _note_key(*one), list(one)) for one in sorted(lost)]
    if notes:
        await Store(db, index_text=False).put_batch(notes)


def _note_key(kind: Kind, namespace: str) -> str:
    # A namespace can be longer than a key.
    return sha256(f"{kind} {namespace}".encode()).hexdigest()


async def read_lost_words(db: Database) -> set[tuple[Kind, str]]:
    """Return the namespaces of the tenant from which a rotation has removed words."""
    return {
        (item.value[0], item.value[1])
        async for item in Store(db).iter_items(LOST)
        if isinstance(item.value, list)
    }


async def delete_notes(db: Database, lost: Collection[tuple[Kind, str]]) -> None:
    """Remove the notes about namespaces whose words are there again."""
    store = Store(db)
    for one in sorted(lost):
        await store.delete(LOST, _note_key(*one))

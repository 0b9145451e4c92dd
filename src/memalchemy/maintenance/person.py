"""Find and erase what is stored of a person: what is named after them, or has them in metadata.

memalchemy knows no persons. A thread is of a person if their id is a word of its id (``ada-1`` of
``ada``, and not ``adam``), or if a part of its namespace is the id; items are, if a part of their
namespace is. Metadata is, if the value of any of its keys is the id.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, bindparam, select

from memalchemy._bounds import parse_json
from memalchemy.checkpoints import Checkpointer
from memalchemy.database import Database, HostConnection
from memalchemy.dialects import Dialect
from memalchemy.keys import decode_namespace
from memalchemy.log.listing import all_threads
from memalchemy.log.scan import run_query
from memalchemy.log.tables import CHECKPOINTS, THREADS
from memalchemy.proofs import FOUND
from memalchemy.search.scope import ITEMS
from memalchemy.statements import statement
from memalchemy.store import Store

Namespace = tuple[str, ...]

_PAGE = 1000
_WITH_METADATA = {"threads": THREADS, "checkpoints": CHECKPOINTS, "items": ITEMS}


@dataclass(frozen=True)
class PersonData:
    """The data that is named after a person, or has them in metadata.

    Attributes:
        threads: ids of threads, of which all namespaces are erased.
        namespaces: namespaces of the store, with all below them.
        log_namespaces: namespaces in which threads have something, with all below them.
        metadata: pairs that threads, checkpoints or items have, one in each mapping.
    """

    threads: list[str]
    namespaces: list[Namespace]
    log_namespaces: list[Namespace]
    metadata: list[dict[str, Any]]

    def __bool__(self) -> bool:
        return bool(self.threads or self.namespaces or self.log_namespaces or self.metadata)


async def find_person(
    db: Database, person: str, *, keep: Collection[str | Namespace] = ()
) -> PersonData:
    """Return what the tenant has of *person*, without the threads and namespaces to *keep*.

    On a database that cannot list the keys of metadata, those named ``user_id`` are looked at.
    """
    named = re.compile(rf"(?<![^\W_]){re.escape(person)}(?![^\W_])").search
    heads = await run_query(db, list_namespaces_of_logs(db.dialect), {"k_tenant": db.tenant})
    logs = [decode_namespace(row.namespace) for row in heads]
    items = [one async for one in _store_namespaces(db)]
    return PersonData(
        [one for one in await all_threads(db) if named(one) and one not in keep],
        _of_person(items, person, keep),
        _of_person(logs, person, keep),
        await _find_metadata(db, person),
    )


async def forget_person(
    db: Database, found: PersonData, *, connection: HostConnection | None = None
) -> int:
    """Erase what `find_person` found; return the number of checkpoints, entries and items."""
    checkpointer, store, erased = Checkpointer(db), Store(db), 0
    for pair in found.metadata:
        erased += await checkpointer.forget(metadata=pair, connection=connection)
    for thread in found.threads:
        erased += await checkpointer.forget(thread_id=thread, connection=connection)
    for namespace in found.namespaces:
        erased += await store.forget_namespace(namespace, connection=connection)
    for namespace in found.log_namespaces:
        erased += await checkpointer.forget(namespace=namespace, connection=connection)
    return erased


async def find_keys(db: Database, person: str) -> list[tuple[Namespace, str]]:
    """Return the items whose keys are named after a person: they may be about others, too."""
    named = re.compile(rf"(?<![^\W_]){re.escape(person)}(?![^\W_])").search
    store, found = Store(db), []
    async for namespace in _store_namespaces(db):
        last = None
        while page := await store.list_keys(namespace, _PAGE, after=last):
            last = page[-1]
            found += [(namespace, key) for key in page if named(key)]
    return found


async def _store_namespaces(db: Database) -> Any:
    last: Namespace | None = None
    while page := await Store(db).list_namespaces(limit=_PAGE, after=last):
        for last in page:
            yield last


def _of_person(
    namespaces: list[Namespace], person: str, keep: Collection[str | Namespace]
) -> list[Namespace]:
    """Return the namespaces whose last part is the person, of those that have such a part."""
    ends = {one[: one.index(person) + 1] for one in namespaces if person in one}
    return sorted(ends - {*keep})


async def _find_metadata(db: Database, person: str) -> list[dict[str, Any]]:
    keys: set[str] = set()
    for table in _WITH_METADATA:
        query = list_keys_with_value(db.dialect, table=table)
        if query is None:
            keys.add("user_id")
            continue
        binds = {"k_tenant": db.tenant, "p_value": person}
        keys |= {row.key for row in await run_query(db, query, binds)}
    return [{key: value} for key in sorted(keys) for value in _values_spelt(person)]


def _values_spelt(person: str) -> list[Any]:
    """Return the text, and the number that is written so: both are ids in somebody's metadata."""
    try:
        number = parse_json(person)
    except (ValueError, RecursionError):
        return [person]
    return [person, number] if type(number) in (int, float) else [person]


# --- Statements ----------------------------------------------------------------------------------


@statement(unproven=FOUND)
def list_namespaces_of_logs(dialect: Dialect) -> Executable:
    """Select the namespaces in which a tenant has logs, deleted and expired ones included."""
    return (
        select(THREADS.c.namespace)
        .where(THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type))
        .distinct()
        .order_by(THREADS.c.namespace)
    )


@statement(table=tuple(_WITH_METADATA))
def list_keys_with_value(dialect: Dialect, table: str) -> Executable | None:
    """Select the keys of metadata under which a tenant has the text or number ``p_value``."""
    rows: Any = _WITH_METADATA[table]
    query = dialect.statements.keys_with_value(rows, bindparam("p_value"))
    if query is None:
        return None
    return query.where(rows.c.tenant == bindparam("k_tenant", type_=rows.c.tenant.type))

"""Which keys a tenant was written with, as the database itself knows it.

A process that was started without its keys would read nothing amiss in a thread of its own, and
write it unencrypted into a database of encrypted ones. So whoever writes with keys leaves a mark,
an item of memalchemy's own for each key, and whoever writes looks for marks once. Knows no other
row.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Executable, Table, and_, bindparam, delete, insert, select

from memalchemy.codec.sealing import Keyring
from memalchemy.dialects import Dialect
from memalchemy.errors import KeyMissing, UniqueViolation
from memalchemy.schema import StoreItemRow
from memalchemy.statements import Program, statement

if TYPE_CHECKING:
    from memalchemy.database.core import Core, HostConnection

ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]

MARKS = "/~keys/"
"""The namespace of the marks, which no user can name; the key of each is the id of a key."""

NAMED = 3
"""Ids that an error names."""


class KeyMarks:
    """What one `Database`, and its like for other tenants, knows of marks.

    Looked for once for each tenant, at its first write of a payload. A mark that was left in a
    host's transaction is only believed once that is over: it may be rolled back.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._known: set[str] = set()
        self._left: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._gates = weakref.WeakKeyDictionary()

    def forget(self) -> None:
        """Look again at the next write."""
        self._known.clear()

    async def check(self, core: Core, tenant: str, connection: HostConnection | None) -> None:
        """See that the keys are the tenant's, and leave the mark of the first.

        Raises:
            KeyMissing: it was written with keys, and none of them is here. Nothing was written.
        """
        if tenant in self._known:
            return
        if connection is not None:
            await self._check_on_host(core, tenant, connection)
            return
        gate = self._gates.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with gate:
            if tenant not in self._known:
                program = partial(_check, core.dialect, self._keyring, tenant)
                mode: Any = "transaction" if self._keyring.seals else "read"
                await core.run(program, mode, None, None, repeatable=True)
                self._known.add(tenant)

    async def _check_on_host(self, core: Core, tenant: str, connection: HostConnection) -> None:
        transaction = await core.on_host(connection, Connection.get_transaction)
        if transaction is not None and tenant in self._left.get(transaction, ()):
            return
        program = partial(_check, core.dialect, self._keyring, tenant)
        if not await core.run(program, "transaction", connection, None):
            self._known.add(tenant)
            return
        transaction = await core.on_host(connection, Connection.get_transaction)
        if transaction is not None:
            self._left.setdefault(transaction, set()).add(tenant)


def _check(d: Dialect, keyring: Keyring, tenant: str) -> Program[bool]:
    """Hold *keyring* against the marks; whether one was left."""
    rows = yield read_marks(d, scope="tenant"), {"k_tenant": tenant}
    marked = {row.key for row in rows}
    if marked and not marked & keyring.ids:
        raise _missing(tenant, sorted(marked), len(keyring.ids))
    first = keyring.first_id
    if first is None or first in marked:
        return False
    yield from leave_mark(d, tenant, first)
    return True


def leave_mark(d: Dialect, tenant: str, key_id: str) -> Program[None]:
    """Note that a tenant is written with a key, if that is not noted yet."""
    binds = {"k_tenant": tenant, "k_key": key_id, "p_now": datetime.now(UTC)}
    try:
        yield mark_key(d), binds
    except UniqueViolation:
        if d.upserts:
            raise


def _missing(tenant: str, marked: Sequence[str], given: int) -> KeyMissing:
    named = ", ".join(marked[:NAMED]) + (", …" if len(marked) > NAMED else "")
    what = f"this database is encrypted: tenant {tenant!r} is written with the key {named}"
    if not given:
        advice = (
            "and no key was given; nothing was written. Give Database(keys=[…]) (on the command "
            "line MEMALCHEMY_KEYS, or --keys-file)."
        )
    else:
        advice = (
            f"and it is none of the {given} that were given; nothing was written. Give Database "
            "that key in keys=[…], after a new one that is to encrypt (on the command line "
            "MEMALCHEMY_KEYS, or --keys-file); `memalchemy rotate-keys` then brings everything "
            "under the first."
        )
    return KeyMissing(marked[0], given=given, message=f"{what}, {advice}")


def _of_marks(scope: str) -> Any:
    here = ITEMS.c.namespace == MARKS
    if scope == "all":
        return here
    return and_(ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type), here)


@statement(scope=("tenant", "all"))
def read_marks(d: Dialect, scope: str) -> Executable:
    """The keys that a tenant, or each, is written with."""
    return select(ITEMS.c.tenant, ITEMS.c.key).where(_of_marks(scope))


@statement()
def mark_key(d: Dialect) -> Executable:
    """Note a key of a tenant. It may be noted already where the dialect has upserts."""
    now = bindparam("p_now", type_=ITEMS.c.updated_at.type)
    values = {
        "tenant": bindparam("k_tenant", type_=ITEMS.c.tenant.type),
        "namespace": MARKS,
        "key": bindparam("k_key", type_=ITEMS.c.key.type),
        "meta": {},
        "version": 1,
        "codec": "none",
        "checksum": 0,
        "created_at": now,
        "updated_at": now,
        "value": b"\x01",
    }
    if not d.upserts:
        return insert(ITEMS).values(values)
    return d.upsert(ITEMS, values, ("tenant", "namespace", "key"), {"updated_at": now})


@statement()
def unmark_key(d: Dialect) -> Executable:
    """Forget a key of a tenant."""
    key = ITEMS.c.key == bindparam("k_key", type_=ITEMS.c.key.type)
    return delete(ITEMS).where(_of_marks("tenant"), key)

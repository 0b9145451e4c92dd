"""Which keys a tenant was written with, as the database itself knows it.

A process that was started without its keys would read nothing amiss in a thread of its own, and
write it unencrypted into a database of encrypted ones. So whoever writes with keys leaves a mark,
an item of memalchemy's own for each key, and whoever writes looks for marks once. Knows no other
row.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import (
    BindParameter,
    Connection,
    Executable,
    Table,
    and_,
    bindparam,
    delete,
    insert,
    select,
)
from sqlalchemy.sql import visitors

from memalchemy.codec.sealing import Keyring
from memalchemy.dialects import Dialect
from memalchemy.errors import (
    AuthenticationFailed,
    DatabaseUnreachable,
    KeyMissing,
    MemalchemyError,
    StatementFailed,
    UniqueViolation,
)
from memalchemy.schema import StoreItemRow
from memalchemy.statements import Program, statement

if TYPE_CHECKING:
    from memalchemy.database.core import Core, HostConnection

T = TypeVar("T")

ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]

MARKS = "/~keys/"
"""The namespace of the marks, which no user can name; the key of each is the id of a key."""

APART = 5.0
"""Seconds that a host's first write of a tenant waits for a mark on a connection of ours."""

NAMED = 3
"""Ids that an error names."""


class KeyMarks:
    """What one `Database`, and its like for other tenants, knows of marks.

    Looked for once for each tenant, at its first write of a payload. A mark is committed apart,
    before the first payload under its key: where it stood in a host's transaction, every other
    first write of the tenant would wait for the end of that, the host's own too. Only on SQLite,
    whose one writer a transaction holds, does it stand there; it is believed once that is over,
    because it may be rolled back.
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
                await self._leave(core, tenant)

    async def _leave(self, core: Core, tenant: str) -> None:
        """Check, and leave the mark, in a transaction of its own."""
        program = partial(_check, core.dialect, self._keyring, tenant, leaves=True)
        mode: Any = "transaction" if self._keyring.seals else "read"
        await core.run(program, mode, None, None, repeatable=True)
        self._known.add(tenant)

    async def _check_on_host(self, core: Core, tenant: str, connection: HostConnection) -> None:
        d, keyring = core.dialect, self._keyring
        transaction = await core.on_host(connection, Connection.get_transaction)
        if transaction is not None and tenant in self._left.get(transaction, ()):
            return
        # Looked for where the host is: row policies may hide them from a connection of ours.
        looking = partial(_check, d, keyring, tenant, leaves=False)
        wanted = await core.run(looking, "transaction", connection, None)
        if not wanted and (not keyring.seals or not d.single_writer):
            self._known.add(tenant)
            return
        if wanted and not d.single_writer and await self._left_apart(core, tenant):
            return
        if wanted:
            leaving = partial(_check, d, keyring, tenant, leaves=True)
            await core.run(leaving, "transaction", connection, None)
        # Seen or left in the host's transaction, which may be rolled back.
        transaction = await core.on_host(connection, Connection.get_transaction)
        if transaction is not None:
            self._left.setdefault(transaction, set()).add(tenant)

    async def _left_apart(self, core: Core, tenant: str) -> bool:
        """Leave the mark on a connection of our own; whether that could be done.

        It cannot where the host's transactions hold every connection of the pool, where the host
        has locked the table, or where policies let only its own connection write for the tenant.
        """
        try:
            async with asyncio.timeout(APART):
                await self._leave(core, tenant)
        except (TimeoutError, DatabaseUnreachable, StatementFailed, AuthenticationFailed):
            return False
        return True


def _check(d: Dialect, keyring: Keyring, tenant: str, *, leaves: bool) -> Program[bool]:
    """Hold *keyring* against the marks; whether that of its first key was not there. If it
    *leaves*, it is then.
    """
    rows = yield read_marks(d, scope="tenant"), {"k_tenant": tenant}
    marked = {row.key for row in rows}
    if marked and not marked & keyring.ids:
        raise _missing(tenant, sorted(marked), len(keyring.ids))
    first = keyring.first_id
    if first is None or first in marked:
        return False
    if leaves:
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


CONTENT = {"payload", "value", "vector"}
"""The columns one of which every statement binds that writes what a key protects, or what is
readable of it. Without them words are only moved, from row to row.
"""

_writes_content: weakref.WeakKeyDictionary[Executable, bool] = weakref.WeakKeyDictionary()


def writes_content(statement: Executable) -> bool:
    """Whether *statement* binds a value for one of `CONTENT`; copying rows inside the database
    binds none.
    """
    if statement not in _writes_content:
        _writes_content[statement] = any(
            isinstance(one, BindParameter) and one.required and one.key[2:] in CONTENT
            for one in visitors.iterate(statement)  # type: ignore[arg-type]
        )
    return _writes_content[statement]


def without_content(program: Callable[[], Program[T]]) -> Callable[[], Program[T]]:
    """*program*, which fails before it sends a statement that writes content."""

    def watched() -> Program[T]:
        running = program()
        try:
            asked = next(running)
            while True:
                if writes_content(asked[0]):
                    raise AssertionError("a write without payloads= writes content")
                try:
                    answer = yield asked
                except MemalchemyError as error:
                    asked = running.throw(error)
                else:
                    asked = running.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            running.close()

    return watched


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

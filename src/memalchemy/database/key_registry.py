"""The registry of keys: an internal item for each key that a tenant is encrypted or signed with.

A process that was started without its keys would find nothing wrong in a thread of its own, and
would write it unencrypted beside encrypted ones. So the first write with a key registers the key's
id, and the first write of every process reads the registry. A process without keys reads it again
every few seconds: somebody may have begun to encrypt or to sign.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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
    literal_column,
    or_,
    select,
)
from sqlalchemy.sql import visitors

from memalchemy.codec.encryption import CODEC_SUFFIX, PREFIX_BYTES, Keyring, key_id
from memalchemy.codec.signatures import is_signature, signing_key_id
from memalchemy.database.executors.host import HostConnection, run_on_host
from memalchemy.database.intent import READ, WRITE_ROWS, Intent
from memalchemy.database.unreadable_rows import UnreadableRows
from memalchemy.dialects import Dialect
from memalchemy.errors import (
    AuthenticationFailed,
    DatabaseUnreachable,
    KeyMissing,
    MemalchemyError,
    StatementFailed,
    UniqueViolation,
)
from memalchemy.schema import DeltaRow, StoreItemRow, ThreadRow
from memalchemy.statements import Parameters, Program, statement

if TYPE_CHECKING:
    from memalchemy.database.backend import Backend

T = TypeVar("T")

THREADS: Table = ThreadRow.__table__  # type: ignore[assignment]
DELTAS: Table = DeltaRow.__table__  # type: ignore[assignment]
ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]

KEYS_NAMESPACE = "/~keys/"
"""The namespace of the registry, which no user can name; an item's key is the id of a key."""

SIGNING_NAMESPACE = "/~signing/"
"""The same for signing keys."""

REGISTERED = b"\x01"
"""The content of a registration."""

FIRST_SIGNATURES, ALL_RENEWED = b"\x01", b"\x02"
"""Contents of a signing key's registration: there may be signatures of version 1, or not."""

OWN_CONNECTION_TIMEOUT = 5.0
"""Seconds that a host's first write of a tenant waits until a key is registered on a connection of
memalchemy's own."""

KNOWN_SECONDS = 5.0
"""Seconds for which a process without keys goes by what it has read of the registry."""

NAMED = 3
"""The number of ids that an error names."""


class KeyRegistry:
    """The registered keys of the tenants of one `Database`, as far as they have been read.

    The registry is read for each tenant at its first write of a payload, and again after
    `KNOWN_SECONDS` by a process that does not both encrypt and sign. A key is registered
    in a transaction of its own, before the first payload under it: in a host's transaction every
    other first write of the tenant would wait for the end of that. Only on SQLite, whose one writer
    the host's transaction holds, is it registered there; as that may be rolled back, it counts for
    that transaction only.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._checked: dict[str, float] = {}
        self._signing_checked: dict[str, float] = {}
        self._found_plain: dict[str, float] = {}
        self._checked_in: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._locks = weakref.WeakKeyDictionary()

    @property
    def _registers(self) -> bool:
        return self._keyring.encrypts or self._keyring.signing.signs

    def _is_known(self, checked: Mapping[str, float], tenant: str) -> bool:
        """Return whether the registry was read for *tenant*, and lately enough."""
        at = checked.get(tenant)
        if at is None:
            return False
        has_all_keys = self._keyring.encrypts and self._keyring.signing.signs
        return has_all_keys or time.monotonic() - at < KNOWN_SECONDS

    def forget(self) -> None:
        """Read the registry again at the next write."""
        self._checked.clear()
        self._signing_checked.clear()
        self._found_plain.clear()

    async def check(self, backend: Backend, tenant: str, connection: HostConnection | None) -> None:
        """Check that the keys are the tenant's, and register the first of them.

        Raises:
            KeyMissing: the tenant is written with keys, and none of them is here. Nothing was
                written.
        """
        if self._is_known(self._checked, tenant):
            return
        if connection is not None:
            await self._check_on_host(backend, tenant, connection)
            return
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            if not self._is_known(self._checked, tenant):
                await self._check_and_register(backend, tenant)

    async def check_signing(
        self, backend: Backend, tenant: str, connection: HostConnection | None
    ) -> None:
        """Check that the tenant is not signed with other keys; register nothing.

        For programs without payloads: what they remove or rename is signed, too.

        Raises:
            KeyMissing: see `check`.
        """
        checked = self._checked, self._signing_checked
        if any(self._is_known(times, tenant) for times in checked):
            return
        program = partial(_check_signing, backend.dialect, self._keyring, tenant)
        await backend.run(program, intent=READ, tenant=tenant, connection=connection)
        self._signing_checked[tenant] = time.monotonic()

    async def check_search(
        self,
        dialect: Dialect,
        tenant: str,
        run: Callable[[Callable[[], Program[None]]], Awaitable[None]],
    ) -> None:
        """Check, by a program that *run* runs, that the tenant is not encrypted and no key is here.

        A search finds nothing then, however much there is.

        Raises:
            KeyMissing: see `check`; nothing was searched.
        """
        if self._keyring.encrypts or self._is_known(self._found_plain, tenant):
            return
        await run(partial(_check_search, dialect, tenant))
        self._found_plain[tenant] = time.monotonic()

    async def _check_and_register(self, backend: Backend, tenant: str) -> None:
        program = partial(_check, backend.dialect, self._keyring, tenant, registers=True)
        intent = _REGISTER if self._registers else READ
        await backend.run(program, intent=intent, tenant=tenant)
        self._checked[tenant] = time.monotonic()

    async def _check_on_host(
        self, backend: Backend, tenant: str, connection: HostConnection
    ) -> None:
        d, keyring = backend.dialect, self._keyring
        transaction = await run_on_host(d, connection, Connection.get_transaction)
        if transaction is not None and tenant in self._checked_in.get(transaction, ()):
            return
        # On the host's connection: row policies may hide the registry from memalchemy's own.
        checking = partial(_check, d, keyring, tenant, registers=False)
        is_new = await backend.run(checking, intent=READ, tenant=tenant, connection=connection)
        if not is_new and (not self._registers or not d.single_writer):
            self._checked[tenant] = time.monotonic()
            return
        if is_new and not d.single_writer and await self._register_separately(backend, tenant):
            return
        if is_new:
            registering = partial(_check, d, keyring, tenant, registers=True)
            await backend.run(registering, intent=WRITE_ROWS, tenant=tenant, connection=connection)
        # Read or registered in the host's transaction, which may be rolled back.
        transaction = await run_on_host(d, connection, Connection.get_transaction)
        if transaction is not None:
            self._checked_in.setdefault(transaction, set()).add(tenant)

    async def _register_separately(self, backend: Backend, tenant: str) -> bool:
        """Register the key on a connection of memalchemy's own; return whether that could be done.

        It cannot where the host's transactions hold every connection of the pool, where the host
        has locked the table, or where policies let only its own connection write for the tenant.
        """
        try:
            async with asyncio.timeout(OWN_CONNECTION_TIMEOUT):
                await self._check_and_register(backend, tenant)
        except (TimeoutError, DatabaseUnreachable, StatementFailed, AuthenticationFailed):
            return False
        return True


_REGISTER = Intent("transaction", repeatable=True)


def _check_signing(dialect: Dialect, keyring: Keyring, tenant: str) -> Program[None]:
    rows = yield read_registered_keys(dialect, scope="tenant"), {"k_tenant": tenant}
    registered = {row.key for row in rows if row.namespace == SIGNING_NAMESPACE}
    ids = keyring.signing.ids
    if registered and not registered & ids:
        raise _missing(tenant, SIGNING_NAMESPACE, sorted(registered), len(ids))


def _check_search(dialect: Dialect, tenant: str) -> Program[None]:
    rows = yield read_registered_keys(dialect, scope="tenant"), {"k_tenant": tenant}
    registered = sorted(row.key for row in rows if row.namespace == KEYS_NAMESPACE)
    if registered:
        raise _missing(tenant, KEYS_NAMESPACE, registered, 0, done="found")


def _check(dialect: Dialect, keyring: Keyring, tenant: str, *, registers: bool) -> Program[bool]:
    """Compare *keyring* with the registry; return whether a first key was not registered.

    With *registers* it is registered then.
    """
    rows = yield read_registered_keys(dialect, scope="tenant"), {"k_tenant": tenant}
    signing = keyring.signing
    is_new = False
    for namespace, first, ids in (
        (KEYS_NAMESPACE, keyring.first_id, keyring.ids),
        (SIGNING_NAMESPACE, signing.first_id, signing.ids),
    ):
        registered = {row.key for row in rows if row.namespace == namespace}
        if registered and not registered & ids:
            raise _missing(tenant, namespace, sorted(registered), len(ids))
        if first is None and not registered:
            yield from _check_sample(dialect, tenant, namespace)
        if first is not None and first not in registered:
            is_new = True
            if registers:
                yield from register_key(dialect, tenant, first, namespace)
    return is_new


SAMPLED = 20
"""The number of logs, and of items, that are looked at where no key is registered."""


def _check_sample(dialect: Dialect, tenant: str, namespace: str) -> Program[None]:
    """Raise `KeyMissing` if newest rows of the tenant have a key though none is registered.

    Somebody may have removed the registration, so that plaintext would be written, or rows without
    a signature.
    """
    binds = {"k_tenant": tenant, "p_limit": SAMPLED}
    if namespace == SIGNING_NAMESPACE:
        yield from _check_no_signature(dialect, tenant, binds)
        return
    for table in SAMPLES:
        rows = yield find_encrypted(dialect, table=table), binds
        if rows:
            key = key_id(bytes(rows[0].begins))
            raise KeyMissing(
                key,
                given=0,
                message=(
                    f"tenant {tenant!r} has data that is encrypted with the key {key}, although no "
                    "key is registered for it: the registration was removed, and no key was given; "
                    "nothing was written. Give Database(keys=[…]) (on the command line "
                    "MEMALCHEMY_KEYS, or --keys-file), which registers the key again."
                ),
            )


def _check_no_signature(dialect: Dialect, tenant: str, binds: dict[str, Any]) -> Program[None]:
    """Raise `KeyMissing` if newest rows of the tenant are signed.

    What has not the form of a signature was never one: somebody has edited the row, and others are
    written all the same.
    """
    for table in ("threads", "store_items"):
        try:
            rows: Sequence[Any] = yield find_signed(dialect, table=table), binds
        except UnreadableRows as error:
            rows = error.rows
        signed = [row for row in rows if is_signature(_bytes_of(row.signature))]
        if signed:
            row, key = signed[0], signing_key_id(bytes(signed[0].signature))
            what = "thread" if table == "threads" else "item"
            raise KeyMissing(
                key,
                given=0,
                message=(
                    f"tenant {tenant!r} has data that is signed with the key {key}, although no "
                    "signing key is registered for it: the registration was removed, and no key "
                    f"was given; nothing was written. The {what} {row.name!r} in {row.namespace} "
                    "is the first. Give Database(signing_keys=[…]) (on the command line "
                    "MEMALCHEMY_SIGNING_KEYS, or --signing-keys-file), which registers the key "
                    f"again. If the tenant was never signed, somebody has edited that {what}: "
                    "delete it, or set its column signature to NULL."
                ),
            )


def _bytes_of(stored: Any) -> Any:
    return bytes(stored) if isinstance(stored, memoryview) else stored


def register_key(
    dialect: Dialect,
    tenant: str,
    key_id: str,
    namespace: str = KEYS_NAMESPACE,
    *,
    content: bytes | None = None,
) -> Program[None]:
    """Register a key of a tenant, unless it is registered already."""
    binds = {
        "k_tenant": tenant,
        "k_namespace": namespace,
        "k_key": key_id,
        "p_now": datetime.now(UTC),
        "p_content": content or (ALL_RENEWED if namespace == SIGNING_NAMESPACE else REGISTERED),
    }
    try:
        yield insert_key(dialect), binds
    except UniqueViolation:
        if dialect.upserts:
            raise


def note_signatures(dialect: Dialect, tenant: str, key: str, content: bytes) -> Program[None]:
    """Note whether a tenant may have signatures of version 1 under a registered key."""
    yield from unregister_keys(dialect, [(tenant, key)], SIGNING_NAMESPACE)
    yield from register_key(dialect, tenant, key, SIGNING_NAMESPACE, content=content)


def unregister_keys(
    dialect: Dialect, keys: Iterable[tuple[str, str]], namespace: str = KEYS_NAMESPACE
) -> Program[None]:
    """Remove keys from the registry, each a tenant and the id of a key of it."""
    for tenant, key in keys:
        yield delete_key(dialect), {"k_tenant": tenant, "k_namespace": namespace, "k_key": key}


def _missing(
    tenant: str, namespace: str, registered: Sequence[str], given: int, done: str = "written"
) -> KeyMissing:
    """Return the error for a tenant whose *registered* keys were not *given*."""
    named = ", ".join(registered[:NAMED]) + (", …" if len(registered) > NAMED else "")
    signs = namespace == SIGNING_NAMESPACE
    kind, what, where, does = (
        ("signing key", "signed", "signing_keys", "sign")
        if signs
        else ("key", "encrypted", "keys", "encrypt")
    )
    option = f"MEMALCHEMY_{where.upper()}, or --{where.replace('_', '-')}-file"
    have, order, then = f"no {kind} was given", "", ""
    if given:
        have = f"none of the {given} that were given is one of them"
        order = f", after a new one that is to {does}"
        if not signs:
            then = "; `memalchemy rotate-keys` then brings everything under the first"
    message = (
        f"this database is {what}: tenant {tenant!r} is written with the {kind} {named}, and "
        f"{have}; nothing was {done}. Give Database({where}=[…]) that key{order} (on the command "
        f"line {option}){then}."
    )
    return KeyMissing(registered[0], given=given, message=message)


_PAYLOAD_COLUMNS = {"payload", "value", "vector", "bytes"}
"""Every statement that writes encrypted content, or a readable part of it, binds one of these.

``bytes`` are the columns of many rows in one piece, where a database has no arrays.
"""

_writes_payloads: weakref.WeakKeyDictionary[Executable, bool] = weakref.WeakKeyDictionary()


def writes_payloads(statement: Executable) -> bool:
    """Return whether *statement* binds a payload; copying rows inside the database binds none."""
    if statement not in _writes_payloads:
        _writes_payloads[statement] = any(
            isinstance(one, BindParameter) and one.required and one.key[2:] in _PAYLOAD_COLUMNS
            for one in visitors.iterate(statement)  # type: ignore[arg-type]
        )
    return _writes_payloads[statement]


def refuse_payloads(program: Callable[[], Program[T]]) -> Callable[[], Program[T]]:
    """Return *program* so that it fails before it sends a statement that writes a payload."""

    def refuse(_: Parameters) -> None:
        raise AssertionError("a program whose intent has no payloads writes one")

    return before_payloads(program, refuse)


def before_payloads(
    program: Callable[[], Program[T]], look: Callable[[Parameters], None]
) -> Callable[[], Program[T]]:
    """Return *program* so that *look* gets what each statement that writes a payload binds.

    It is called before the statement is sent. What it raises ends the program.
    """

    def checked() -> Program[T]:
        running = program()
        try:
            asked = next(running)
            while True:
                if writes_payloads(asked[0]):
                    look(asked[1])
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

    return checked


def _registered(scope: str) -> Any:
    kept_in = (ITEMS.c.namespace == name for name in (KEYS_NAMESPACE, SIGNING_NAMESPACE))
    here = or_(*kept_in)
    if scope == "all":
        return here
    return and_(ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type), here)


@statement(scope=("tenant", "all"))
def read_registered_keys(dialect: Dialect, scope: str) -> Executable:
    """Read the registered keys of a tenant, or of all; their namespace says what they are for."""
    columns = (ITEMS.c[name] for name in ("tenant", "namespace", "key", "value"))
    return select(*columns).where(_registered(scope))


@statement(table=("threads", "store_items"))
def find_signed(dialect: Dialect, table: str) -> Executable:
    """Select the signatures among those of the ``p_limit`` newest logs, or first items.

    With each are the ``namespace`` and the ``name``, the id of the thread or the key of the item.
    """
    of: Table = THREADS if table == "threads" else ITEMS
    order = [THREADS.c.active_at.desc()] if of is THREADS else [ITEMS.c.namespace, ITEMS.c.key]
    name = THREADS.c.thread_id if of is THREADS else ITEMS.c.key
    some = (
        select(of.c.signature, of.c.namespace, name.label("name"))
        .where(of.c.tenant == bindparam("k_tenant", type_=of.c.tenant.type))
        .order_by(*order)
        .limit(bindparam("p_limit"))
        .subquery("some")
    )
    is_signed = some.c.signature.is_not(None)
    return select(some.c.signature, some.c.namespace, some.c.name).where(is_signed)


SAMPLES = ("deltas", "store_items")


@statement(table=SAMPLES)
def find_encrypted(dialect: Dialect, table: str) -> Executable:
    """Select the beginning of an encrypted payload among the newest rows of ``p_limit`` logs.

    Or among as many of the first items.
    """
    limit: Any = bindparam("p_limit")
    if table == "store_items":
        tenant = ITEMS.c.tenant == bindparam("k_tenant", type_=ITEMS.c.tenant.type)
        own: Any = literal_column("'/~a'")  # memalchemy's own items are from here
        beyond: Any = literal_column("'/~{'")
        some = (
            select(ITEMS.c.codec, ITEMS.c.value.label("payload"))
            .where(tenant, or_(ITEMS.c.namespace < own, ITEMS.c.namespace >= beyond))
            .order_by(ITEMS.c.namespace, ITEMS.c.key)
            .limit(limit)
            .subquery("some")
        )
    else:
        newest = (
            select(THREADS.c.log_id, THREADS.c.next_seq)
            .where(THREADS.c.tenant == bindparam("k_tenant", type_=THREADS.c.tenant.type))
            .order_by(THREADS.c.active_at.desc())
            .limit(limit)
            .subquery("newest")
        )
        last = and_(
            DELTAS.c.log_id == newest.c.log_id,
            DELTAS.c.seq >= newest.c.next_seq - literal_column("3"),
        )
        some = select(DELTAS.c.codec, DELTAS.c.payload).join(newest, last).subquery("some")
    begins = dialect.statements.leading_bytes(some.c.payload, PREFIX_BYTES).label("begins")
    is_encrypted = some.c.codec.like(literal_column(f"'%{CODEC_SUFFIX}'"))
    return select(begins).where(is_encrypted).limit(literal_column("1"))


@statement()
def insert_key(dialect: Dialect) -> Executable:
    """Register a key of a tenant. It may be registered already where the dialect has upserts."""
    now = bindparam("p_now", type_=ITEMS.c.updated_at.type)
    values = {
        "tenant": bindparam("k_tenant", type_=ITEMS.c.tenant.type),
        "namespace": bindparam("k_namespace", type_=ITEMS.c.namespace.type),
        "key": bindparam("k_key", type_=ITEMS.c.key.type),
        "meta": {},
        "version": 1,
        "codec": "none",
        "checksum": 0,
        "created_at": now,
        "updated_at": now,
        "value": bindparam("p_content", type_=ITEMS.c.value.type),
    }
    if not dialect.upserts:
        return insert(ITEMS).values(values)
    return dialect.statements.upsert(
        ITEMS, values, ("tenant", "namespace", "key"), {"updated_at": now}
    )


@statement()
def delete_key(dialect: Dialect) -> Executable:
    """Remove a key of a tenant from the registry."""
    names = ("tenant", "namespace", "key")
    same = (ITEMS.c[name] == bindparam(f"k_{name}", type_=ITEMS.c[name].type) for name in names)
    return delete(ITEMS).where(*same)

"""The registry of keys: an internal item for each key that a tenant is encrypted or signed with.

A process that was started without its keys would find nothing wrong in a thread of its own, and
would write it unencrypted beside encrypted ones. So the first write with a key registers the key's
id, and the first write of every process reads the registry: see `memalchemy.database.known_keys`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BindParameter,
    Executable,
    Table,
    and_,
    bindparam,
    delete,
    literal_column,
    or_,
    select,
)
from sqlalchemy.sql import visitors

from memalchemy._unreadable_rows import UnreadableRows
from memalchemy.codec.encryption import CODEC_SUFFIX, PREFIX_BYTES, Keyring, key_id
from memalchemy.codec.signatures import is_signature, signing_key_id
from memalchemy.dialects import Dialect
from memalchemy.errors import (
    KeyMissing,
    MemalchemyError,
)
from memalchemy.proofs import REGISTRY
from memalchemy.rows import OWN_ITEM
from memalchemy.schema import DeltaRow, StoreItemRow, ThreadRow
from memalchemy.statements import Parameters, Program, statement
from memalchemy.variants import varies

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

NAMED = 3
"""The number of ids that an error names."""


def check_signing_keys(dialect: Dialect, keyring: Keyring, tenant: str) -> Program[None]:
    """Raise `KeyMissing` if the tenant is signed with other keys than those of *keyring*."""
    rows = yield read_registered_keys(dialect, scope="tenant"), {"k_tenant": tenant}
    registered = {row.key for row in rows if row.namespace == SIGNING_NAMESPACE}
    ids = keyring.signing.ids
    if registered and not registered & ids:
        raise _missing(tenant, SIGNING_NAMESPACE, sorted(registered), len(ids))


def check_not_encrypted(dialect: Dialect, tenant: str) -> Program[None]:
    """Raise `KeyMissing` if the tenant is encrypted, for a search without keys."""
    rows = yield read_registered_keys(dialect, scope="tenant"), {"k_tenant": tenant}
    registered = sorted(row.key for row in rows if row.namespace == KEYS_NAMESPACE)
    if registered:
        raise _missing(tenant, KEYS_NAMESPACE, registered, 0, done="found")


def check_keys(
    dialect: Dialect, keyring: Keyring, tenant: str, *, registers: bool
) -> Program[bool]:
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
                of_tenant=True,
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
                of_tenant=True,
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
    yield from put_key(dialect, binds)


@varies
def put_key(dialect: Dialect, binds: Mapping[str, Any]) -> Program[None]:
    """Insert a key into the registry, unless it is there."""
    yield insert_key(dialect), binds


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
    return KeyMissing(registered[0], given=given, message=message, of_tenant=True)


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

    def refuse(_: Executable, __: Parameters) -> None:
        raise AssertionError("a program whose intent has no payloads writes one")

    return before_payloads(program, refuse)


def before_payloads(
    program: Callable[[], Program[T]], look: Callable[[Executable, Parameters], None]
) -> Callable[[], Program[T]]:
    """Return *program* so that *look* gets each statement that writes a payload, and its binds.

    It is called before the statement is sent. What it raises ends the program.
    """

    def checked() -> Program[T]:
        running = program()
        try:
            asked = next(running)
            while True:
                if writes_payloads(asked[0]):
                    look(*asked)
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


@statement(unproven=REGISTRY, scope=("tenant", "all"))
def read_registered_keys(dialect: Dialect, scope: str) -> Executable:
    """Read the registered keys of a tenant, or of all; their namespace says what they are for."""
    columns = (ITEMS.c[name] for name in ("tenant", "namespace", "key", "value"))
    return select(*columns).where(_registered(scope))


@statement(unproven=REGISTRY, table=("threads", "store_items"))
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


@statement(unproven=REGISTRY, table=SAMPLES)
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
        # In a host's transaction `threads` is to be locked first, as a revision does.
        rows = newest.join(DELTAS, last)
        some = select(DELTAS.c.codec, DELTAS.c.payload).select_from(rows).subquery("some")
    begins = dialect.statements.leading_bytes(some.c.payload, PREFIX_BYTES).label("begins")
    is_encrypted = some.c.codec.like(literal_column(f"'%{CODEC_SUFFIX}'"))
    return select(begins).where(is_encrypted).limit(literal_column("1"))


@statement(writes=OWN_ITEM)
def insert_key(dialect: Dialect) -> Executable:
    """Register a key of a tenant, which may be registered already."""
    values = new_key_values()
    changed = {"updated_at": values["updated_at"]}
    return dialect.statements.upsert(ITEMS, values, ("tenant", "namespace", "key"), changed)


def new_key_values() -> dict[str, Any]:
    """Return the columns of a key that is registered."""
    now = bindparam("p_now", type_=ITEMS.c.updated_at.type)
    return {
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


@statement()
def delete_key(dialect: Dialect) -> Executable:
    """Remove a key of a tenant from the registry."""
    names = ("tenant", "namespace", "key")
    same = (ITEMS.c[name] == bindparam(f"k_{name}", type_=ITEMS.c[name].type) for name in names)
    return delete(ITEMS).where(*same)

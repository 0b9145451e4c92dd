"""The registered keys of tenants, as far as this process has read the registry.

The first write of a tenant reads it, and registers the key that it is written with. A process
without keys reads it again every few seconds: somebody may have begun to encrypt or to sign.
"""

from __future__ import annotations

import asyncio
import math
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from memalchemy.codec.encryption import Keyring
from memalchemy.database.executors.host import HostConnection, run_on_host
from memalchemy.database.intent import READ, WRITE_ROWS, Intent
from memalchemy.dialects import Dialect
from memalchemy.errors import AuthenticationFailed, DatabaseUnreachable, StatementFailed
from memalchemy.protection.key_registry import (
    check_keys,
    check_not_encrypted,
    check_signing_keys,
)
from memalchemy.statements import Program

if TYPE_CHECKING:
    from memalchemy.database.backend import Backend

OWN_CONNECTION_TIMEOUT = 5.0
"""Seconds that a host's first write of a tenant waits until a key is registered on a connection of
memalchemy's own."""

KNOWN_SECONDS = 5.0
"""Seconds for which a process without keys goes by what it has read of the registry."""


class KnownKeys:
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
        self._registers = keyring.encrypts or keyring.signing.signs
        self._has_all_keys = keyring.encrypts and keyring.signing.signs
        self._checked: dict[str, float] = {}
        self._signing_checked: dict[str, float] = {}
        self._found_plain: dict[str, float] = {}
        self._checked_in: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._locks = weakref.WeakKeyDictionary()

    def are_checked(self, tenant: str) -> bool:
        """Return whether `check` would find that it was done lately enough."""
        return self._was_checked_lately(self._checked, tenant)

    def _was_checked_lately(self, checked: Mapping[str, float], tenant: str) -> bool:
        """Return whether the registry was read for *tenant*, and lately enough."""
        most = math.inf if self._has_all_keys else KNOWN_SECONDS
        return time.monotonic() - checked.get(tenant, -math.inf) < most

    def expire(self) -> None:
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
        if self._was_checked_lately(self._checked, tenant):
            return
        if connection is not None:
            await self._check_on_host(backend, tenant, connection)
            return
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            if not self._was_checked_lately(self._checked, tenant):
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
        if any(self._was_checked_lately(times, tenant) for times in checked):
            return
        program = partial(check_signing_keys, backend.dialect, self._keyring, tenant)
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
        if self._keyring.encrypts or self._was_checked_lately(self._found_plain, tenant):
            return
        await run(partial(check_not_encrypted, dialect, tenant))
        self._found_plain[tenant] = time.monotonic()

    async def _check_and_register(self, backend: Backend, tenant: str) -> None:
        program = partial(check_keys, backend.dialect, self._keyring, tenant, registers=True)
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
        checking = partial(check_keys, d, keyring, tenant, registers=False)
        is_new = await backend.run(checking, intent=READ, tenant=tenant, connection=connection)
        if not is_new and (not self._registers or not d.single_writer):
            self._checked[tenant] = time.monotonic()
            return
        if is_new and not d.single_writer and await self._register_separately(backend, tenant):
            return
        if is_new:
            registering = partial(check_keys, d, keyring, tenant, registers=True)
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

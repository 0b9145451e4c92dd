"""A read replica, and the fallback to the primary while the replica cannot be used.

Which programs may read from the replica is said by their intents, not here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, Protocol, TypeVar, cast

from memalchemy.contracts import ReplicaHealth
from memalchemy.database.backend import Backend
from memalchemy.database.driver_errors import RolledBack
from memalchemy.errors import (
    DatabaseUnreachable,
    MemalchemyError,
    SchemaOutdated,
    SchemaTooNew,
)
from memalchemy.events import Event, publish

T = TypeVar("T")

PAUSE = 15.0
"""Seconds for which a replica that could not be used is not tried again."""

_log = logging.getLogger(__name__)


class Replica:
    """The *backend* behind ``read_url``, beside the *primary* of which it is a copy."""

    def __init__(self, backend: Backend, primary: Backend) -> None:
        if primary.dialect.single_writer:
            raise ValueError(
                "read_url= is for a server's replica: a file has readers of its own, beside its "
                "writer"
            )
        if backend.dialect is not primary.dialect:
            raise ValueError(
                f"read_url= is of a {backend.dialect} database, its primary is {primary.dialect}"
            )
        self.backend = backend
        self._primary = primary
        self._try_again_at: float | None = None

    async def read(self, work: Callable[[Backend], Awaitable[T]], *, fallback: bool) -> T:
        """Do *work* on the replica.

        With *fallback* it is done on the primary if the replica does not answer or has a schema
        that this release does not work with, which is logged once for each outage, or if replaying
        the primary's changes cancelled the query repeatedly. A query that is too slow, a pool
        without a free connection and a refused password stay errors: they are not outages, and the
        primary should not be given more work because of them.
        """
        if fallback and not self._is_due():
            return await work(self._primary)
        try:
            result = await work(self.backend)
        except (DatabaseUnreachable, SchemaOutdated, SchemaTooNew) as error:
            if isinstance(error, DatabaseUnreachable) and error.busy:
                raise
            self._note_failure(error)
            if fallback:
                return await work(self._primary)
            if isinstance(error, SchemaOutdated):
                raise SchemaOutdated(error.current, error.head, replica=True) from error
            raise
        except RolledBack:
            if fallback:
                return await work(self._primary)
            raise
        self._note_success()
        return result

    async def health(self) -> ReplicaHealth:
        """Return `Backend.health` with ``usable`` and ``error``; a failure is not raised."""
        try:
            await self.backend.ready()
            found = await self.backend.health()
        except MemalchemyError as error:
            why = f"{type(error).__name__}: {error}"
            return {"url": self.backend.display, "usable": False, "error": why}
        health: Any = found | {"usable": True, "error": None}
        return cast(ReplicaHealth, health)

    def _is_due(self) -> bool:
        due = self._try_again_at  # looked at once: a read of another thread may succeed meanwhile
        if due is None:
            return True
        now = time.monotonic()
        if now < due:
            return False
        # This read tries the replica; others go to the primary without waiting for it.
        self._try_again_at = now + PAUSE
        return True

    def _note_failure(self, error: MemalchemyError) -> None:
        is_new = self._try_again_at is None
        self._try_again_at = time.monotonic() + PAUSE
        if is_new:
            _log.warning(
                "the read replica cannot be used (%s); its reads go to the primary, and it is "
                "tried again every %g seconds",
                error,
                PAUSE,
            )
            kind = type(error).__name__
            publish(
                Event("database.replica_lost", error=kind, details={"url": self.backend.display})
            )

    def _note_success(self) -> None:
        if self._try_again_at is not None:
            self._try_again_at = None
            _log.info("the read replica %s is back", self.backend.display)
            publish(Event("database.replica_back", details={"url": self.backend.display}))


class _Reader(Protocol):
    db: Any


R = TypeVar("R", bound=_Reader)


def on_primary(reader: R) -> R:
    """Return a copy of *reader*, such as a `Store`, whose every read is on the primary.

    For a write that chooses what it changes by what it reads: a replica may lag behind.
    """
    other = copy(reader)
    other.db = reader.db.primary()
    return other

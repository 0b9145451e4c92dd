"""A read replica: a copy of the database that lags behind it, and what happens when it is away.

Decides where a read runs. What may be read from a copy is decided by whoever reads, not here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from memalchemy.database.core import Core
from memalchemy.database.running import RolledBack
from memalchemy.errors import (
    DatabaseUnreachable,
    MemalchemyError,
    SchemaOutdated,
    SchemaTooNew,
)
from memalchemy.events import Event, publish

T = TypeVar("T")

PAUSE = 15.0
"""Seconds for which nobody tries a replica that was found away."""

_log = logging.getLogger(__name__)


class Replica:
    """The copy behind ``read_url``, beside the *primary* it copies."""

    def __init__(self, core: Core, primary: Core) -> None:
        if primary.dialect.single_writer:
            raise ValueError(
                "read_url= is for a server's replica: a SQLite file has readers of its own, beside "
                "its writer"
            )
        if core.dialect is not primary.dialect:
            raise ValueError(
                f"read_url= is of a {core.dialect} database, its primary is {primary.dialect}"
            )
        self.core = core
        self._primary = primary
        self._try_again_at: float | None = None

    async def read(self, work: Callable[[Core], Awaitable[T]], *, fallback: bool) -> T:
        """Do *work* on the replica.

        With *fallback* on the primary instead, if the replica is away (it does not answer, or its
        schema is not one that this release works with), which is logged once for each outage, or
        if replaying what the primary did ended the query again and again. A query that is too slow,
        a pool without a free connection and a refused password stay errors: they are not outages,
        and the primary should not be made to pay for them.
        """
        if fallback and not self._is_due():
            return await work(self._primary)
        try:
            result = await work(self.core)
        except (DatabaseUnreachable, SchemaOutdated, SchemaTooNew) as error:
            if isinstance(error, DatabaseUnreachable) and error.busy:
                raise
            self._went_away(error)
            if fallback:
                return await work(self._primary)
            if isinstance(error, SchemaOutdated):
                raise SchemaOutdated(error.current, error.head, replica=True) from error
            raise
        except RolledBack:
            if fallback:
                return await work(self._primary)
            raise
        self._is_back()
        return result

    async def health(self) -> dict[str, Any]:
        """As `Core.health`, with ``usable`` and ``error``; never raises for a replica's failure."""
        try:
            await self.core.ready()
            found = await self.core.health()
        except MemalchemyError as error:
            why = f"{type(error).__name__}: {error}"
            return {"url": self.core.display, "usable": False, "error": why}
        return found | {"usable": True, "error": None}

    def _is_due(self) -> bool:
        if self._try_again_at is None:
            return True
        now = time.monotonic()
        if now < self._try_again_at:
            return False
        # This read tries; the others do not wait for a replica that may still be away.
        self._try_again_at = now + PAUSE
        return True

    def _went_away(self, error: MemalchemyError) -> None:
        is_news = self._try_again_at is None
        self._try_again_at = time.monotonic() + PAUSE
        if is_news:
            _log.warning(
                "the read replica cannot be used (%s); its reads go to the primary, and it is "
                "tried again every %g seconds",
                error,
                PAUSE,
            )
            kind = type(error).__name__
            publish(Event("database.replica_lost", error=kind, details={"url": self.core.display}))

    def _is_back(self) -> None:
        if self._try_again_at is not None:
            self._try_again_at = None
            _log.info("the read replica %s is back", self.core.display)
            publish(Event("database.replica_back", details={"url": self.core.display}))

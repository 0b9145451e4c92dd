"""The objects that the operations of the server work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memalchemy.checkpoints import Checkpointer
from memalchemy.database import Database
from memalchemy.http.server._limits import Limits
from memalchemy.http.server._readiness import Readiness
from memalchemy.store import Store


class ServerContext:
    """The served database, its readiness, and the limits that requests are held to."""

    def __init__(
        self, db: Database, *, limits: Limits, max_body: int, calls: Sequence[str]
    ) -> None:
        self.limits = limits
        self.max_body = max_body
        self.calls = calls
        self.readiness = Readiness(db.check)
        self._db = db
        self._tenants: dict[str, RequestContext] = {}

    def of_tenant(self, tenant: str | None) -> RequestContext:
        """Return the features of *tenant*, or of the database's own tenant for ``None``."""
        name = self._db.tenant if tenant is None else tenant
        context = self._tenants.get(name)
        if context is None:
            db = self._db if name == self._db.tenant else self._db.for_tenant(name)
            context = self._tenants[name] = RequestContext(self, Checkpointer(db), Store(db))
        return context


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The features of the tenant that a request is of."""

    server: ServerContext
    checkpointer: Checkpointer
    store: Store

"""The objects that the operations of the server work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memalchemy.checkpoints import Checkpointer
from memalchemy.database import Database, HostConnection
from memalchemy.http.server._limits import Limits
from memalchemy.http.server._readiness import Readiness
from memalchemy.store import Store


class ServerContext:
    """The served database, its readiness, and its limits on requests."""

    def __init__(
        self,
        db: Database,
        *,
        limits: Limits,
        max_body: int,
        calls: Sequence[str],
        requires_conditions: bool,
    ) -> None:
        self.requires_conditions = requires_conditions
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
            context = self._tenants[name] = RequestContext(
                self, db, Checkpointer(db), Store(db), Store(db, index_text=False)
            )
        return context


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The features of the tenant that a request is of.

    ``requests`` is the store of the answers that are kept for repeated requests. ``connection`` is
    that of the transaction that a request with an Idempotency-Key is one of.
    """

    server: ServerContext
    db: Database
    checkpointer: Checkpointer
    store: Store
    requests: Store
    connection: HostConnection | None = None

    def on(self, connection: HostConnection) -> RequestContext:
        """Return the same features as parts of a transaction."""
        return replace(self, connection=connection)


@dataclass(frozen=True, slots=True)
class OperationResult:
    """Answer of an operation: a tree of JSON, and what differs from its declaration."""

    tree: dict[str, Any] | None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def page(name: str, found: list[Any], limit: int, cursor: Callable[[Any], str]) -> dict[str, Any]:
    """Return the first *limit* of the *found* as a page, with a cursor if there are more.

    Args:
        found: the rows of the page, and one more if the list goes on.
        cursor: makes the cursor of the next page from the last row of this one.
    """
    shown = found[:limit]
    return {name: shown} | ({"next": cursor(shown[-1])} if shown and len(found) > limit else {})
